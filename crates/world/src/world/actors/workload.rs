//! Kueue's Workloads as objects, in worlds in which the controller reads them.

use std::sync::Arc;

use serde_json::json;

use super::{Env, create_owned, is_true, set_condition};
use crate::sim::{Object, Part, Store};

/// Kind of a Workload.
pub const KIND: &str = "Workload";
const API_VERSION: &str = "kueue.x-k8s.io/v1beta2";

/// The definition of Workloads, for a server that serves them.
#[must_use]
pub fn definition() -> serde_json::Value {
    json!({"spec": {
        "group": "kueue.x-k8s.io", "scope": "Namespaced",
        "names": {"plural": "workloads", "kind": KIND},
        "versions": [{
            "name": "v1beta2", "served": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }},
        }],
    }})
}

/// The Workload of an AppWrapper.
#[must_use]
pub fn find(store: &Store, uid: &str) -> Option<Arc<Object>> {
    let is = |object: &&Arc<Object>| store.kinds.get(object.address.kind).kind == KIND;
    store.owned_by(uid).find(is).cloned()
}

/// The Workload of an AppWrapper, made where there is none; whether Kueue may admit it.
pub(super) fn ensure(env: &mut Env<'_>, wrapper: &Object) -> bool {
    let found = find(env.store, &wrapper.uid).or_else(|| {
        // as Kueue names it: another AppWrapper of that name may have left its own behind
        let id: String = wrapper.uid.chars().take(8).collect();
        let value = json!({
            "metadata": {
                "name": format!("appwrapper-{}-{id}", wrapper.address.name),
                "labels": {"kueue.x-k8s.io/job-uid": &*wrapper.uid},
            },
            "spec": {"active": true},
        });
        create_owned(env.store, API_VERSION, KIND, wrapper, value)
    });
    found.is_none_or(|workload| workload.value["spec"]["active"] != false)
}

/// Reason of the eviction of a Workload that Kueue itself has deactivated. Source: `triggerDeactivationOrBackoffRequeue` of
/// Kueue.
pub(super) const GIVEN_UP: &str = "DeactivatedDueToRequeuingLimitExceeded";

/// Kueue deactivates it.
pub(super) fn deactivate(env: &mut Env<'_>, uid: &str) {
    let Some(workload) = find(env.store, uid) else { return };
    env.store.change(&workload.address, Part::Whole, |workload| {
        workload["spec"]["active"] = false.into();
    });
}

/// Says in the conditions how it stands: whether it holds quota, and whether it is evicted.
pub(super) fn tell(
    env: &mut Env<'_>,
    uid: &str,
    (holds_quota, evicted): (bool, Option<bool>),
    reason: &str,
) {
    let Some(workload) = find(env.store, uid) else { return };
    let now = env.store.now();
    let all = [("QuotaReserved", Some(holds_quota)), ("Evicted", evicted)];
    for (kind, status) in all.into_iter().filter_map(|(kind, status)| Some((kind, status?))) {
        if is_true(&workload.value, kind) != status {
            env.store.change(&workload.address, Part::Status, |workload| {
                set_condition(workload, kind, status, reason, "", &now);
            });
        }
    }
}
