//! What must hold between the controller and Kueue: quota is given back on purpose only by the rules, and the deadline
//! that the status shows is Kueue's.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::liveness::EndScope;
use super::{Check, Invariant, Scope, Violation};
use crate::sim::{Change, Object};
use crate::world::actors::is_true;
use crate::world::actors::kueue::{Kueue, Workload};
use crate::world::actors::workload;
use crate::world::moment;
use crate::world::oracle::{Oracle, Wrapper};

/// The annotation of a Workload that the controller has deactivated.
const DEACTIVATED_FOR: &str = "workload.codeflare.dev.appwrapper/deactivatedForAttempt";

/// The invariants of an AppWrapper.
pub const KUEUE: &[Invariant<Check>] = &[("K1", "onNoFit uses no retry", uses_no_retry)];

fn unfit(object: &Value) -> usize {
    let attempts = object["status"]["attempts"].as_array().into_iter().flatten();
    attempts.filter(|attempt| attempt["outcome"] == "NoFit").count()
}

fn uses_no_retry(scope: &Scope<'_>) -> Option<String> {
    let before = scope.change.before.as_ref()?;
    if unfit(&scope.change.object.value) <= unfit(&before.value) {
        return None;
    }
    let (before, after) = (scope.before.count, scope.wrapper.state.count);
    (before != after).then(|| format!("{before} → {after} counted restarts"))
}

/// Checks a change that a controller made to a Workload.
#[must_use]
pub fn switched(oracle: &Oracle, kueue: &Kueue, change: &Change) -> Option<Violation> {
    let is_active = |object: &Object| object.value["spec"]["active"] != false;
    let owner = change.object.controller()?["uid"].as_str()?;
    let wrapper = oracle.wrappers.get(owner)?;
    match (is_active(change.before.as_ref()?), is_active(&change.object)) {
        (true, false) => given_back_empty(wrapper),
        (false, true) => {
            let known = kueue.workloads.get(owner).filter(|known| known.given_up);
            let overruled = known.map(|_| Violation {
                invariant: "K6",
                sentence: "the controller activates no Workload that Kueue has deactivated",
                seen: format!("{} in {:?}", wrapper.address.name, wrapper.state.phase),
            });
            overruled.or_else(|| returned_without_quota(wrapper, &change.object))
        }
        (true, true) | (false, false) => None,
    }
}

fn given_back_empty(wrapper: &Wrapper) -> Option<Violation> {
    let left = wrapper.rightful().count();
    (left > 0).then(|| Violation {
        invariant: "K2",
        sentence: "quota is given back on purpose only when nothing is left",
        seen: format!("{left} things of {}", wrapper.address.name),
    })
}

fn returned_without_quota(wrapper: &Wrapper, workload: &Object) -> Option<Violation> {
    let holds = wrapper.state.quota || is_true(&workload.value, "QuotaReserved");
    holds.then(|| Violation {
        invariant: "K3",
        sentence: "an AppWrapper that returns to its queue holds no quota",
        seen: format!("{} in {:?}", wrapper.address.name, wrapper.state.phase),
    })
}

/// Checks that nothing runs of an AppWrapper whose quota Kueue has freed.
#[must_use]
pub fn released(wrapper: &Wrapper) -> Option<Violation> {
    let live = wrapper.rightful().filter(|thing| thing.is_live_pod()).count();
    (live > 0).then(|| Violation {
        invariant: "K5",
        sentence: "Kueue frees quota only when no pod runs",
        seen: format!("{live} pods of {} in {:?}", wrapper.address.name, wrapper.state.phase),
    })
}

/// Checks an eviction because pods were not ready.
#[must_use]
pub fn evicted(
    wrapper: &Object,
    known: &Workload,
    kueue: &Kueue,
    (elapsed, slack): (Duration, Duration),
) -> Option<Violation> {
    let text = &wrapper.value["status"]["recoveryDeadline"];
    let deadline: Timestamp = text.as_str()?.parse().ok()?;
    let since = |kind: &str| -> Option<Timestamp> {
        let mut all = wrapper.value["status"]["conditions"].as_array()?.iter();
        all.find(|one| one["type"] == kind)?["lastTransitionTime"].as_str()?.parse().ok()
    };
    let (reserved, unready) = (since("QuotaReserved")?, since("PodsReady")?);
    let lag = match (known.saw_ready, unready > reserved) {
        // Kueue counts from the admission, the controller from when it saw it
        (false, false) => reserved.duration_since(moment(known.admitted)).unsigned_abs(),
        // somebody else suspended it: Kueue, which overruled that, counts on, and the controller from the next attempt as
        // from an admission
        (true, false) => {
            let start = kueue.ready_within.unwrap_or_default();
            let longer = start.saturating_sub(kueue.recover_within.unwrap_or_default());
            reserved.duration_since(unready).unsigned_abs() + longer
        }
        (true, true) => Duration::ZERO,
        // the pods were ready for so short that Kueue did not see it
        (false, true) => return None,
    };
    // nor that they were ready once more: it counts on, and the controller from the last time that they were
    let unseen = kueue.recover_within.and_then(|within| unready.checked_add(within).ok());
    let unseen = unseen.filter(|_| known.saw_ready).unwrap_or(Timestamp::MIN);
    let latest = moment(elapsed + slack + lag).max(unseen);
    (deadline > latest).then(|| Violation {
        invariant: "K4",
        sentence: "recoveryDeadline is never after the eviction",
        seen: format!("{deadline}, evicted at {}", moment(elapsed)),
    })
}

/// At the end, no Workload is inactive that a controller has deactivated.
pub(super) fn all_returned(scope: &EndScope<'_>) -> Option<String> {
    scope.oracle.wrappers.iter().filter(|(_, wrapper)| wrapper.sane).find_map(|(uid, wrapper)| {
        let workload = workload::find(scope.store, uid)?;
        let left = workload.value["spec"]["active"] == false
            && workload.annotation(DEACTIVATED_FOR).is_some();
        let may_run = !wrapper.state.deleting && !wrapper.state.inactive;
        (left && may_run).then(|| format!("{} waits", wrapper.address.name))
    })
}
