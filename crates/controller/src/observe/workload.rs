//! The Workload by which Kueue admits an AppWrapper. It is not watched: it is read where a decision asks for it.

use kube::Client;
use kube::api::ListParams;
use kube::core::ApiResource;
use serde::Deserialize;

use super::assemble::Wrapper;
use super::cache::KindKey;
use super::live::{self, Error, Live};
use super::raw_object::RawObject;
use crate::api::keys;
use crate::snapshot::workload::{Workload, WorkloadRead};

/// The versions of Workloads that can be read, the best first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

#[derive(Deserialize, Default)]
#[serde(default)]
struct Body {
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    active: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    conditions: Vec<Condition>,
    unhealthy_nodes: Vec<UnhealthyNode>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UnhealthyNode {
    name: String,
}

/// Reads the Workload that an AppWrapper controls.
///
/// # Errors
/// Where that cannot be told for now; a missing permission is a result.
pub async fn read(client: &Client, live: &Live, wrapper: &Wrapper) -> Result<WorkloadRead, Error> {
    let Some(resource) = resource(client, live).await? else { return Ok(WorkloadRead::Absent) };
    // the label only narrows the list: the owner reference tells whose it is
    let of_it = ListParams::default().labels(&format!("{}={}", keys::JOB_UID, wrapper.uid));
    match live::list(client, &resource, Some(&wrapper.namespace), &of_it).await {
        Ok(all) => Ok(choose(&all, &wrapper.uid)),
        Err(error) => match error.code() {
            Some(403) => Ok(WorkloadRead::Refused("listing Workloads is forbidden".to_owned())),
            Some(404) => Ok(WorkloadRead::Absent),
            _ => Err(error),
        },
    }
}

/// The resource of Workloads; none where the cluster serves none.
///
/// # Errors
/// Discovery failed.
pub async fn resource(client: &Client, live: &Live) -> Result<Option<ApiResource>, Error> {
    for version in VERSIONS {
        let api_version = format!("{}/{version}", keys::KUEUE_GROUP);
        let kind = KindKey { api_version, kind: "Workload".to_owned() };
        match live.resource(client, &kind).await {
            Ok(resource) => return Ok(Some(resource)),
            Err(Error::NoKind(_) | Error::NotNamespaced(_)) => {}
            Err(error @ Error::Api { .. }) => return Err(error),
        }
    }
    Ok(None)
}

/// The one that has the AppWrapper as its controller; of several, the youngest that is not finished.
fn choose(all: &[RawObject], uid: &str) -> WorkloadRead {
    let is_owned = |seen: &&RawObject| {
        let owners = seen.meta.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == uid)
    };
    let owned = all.iter().filter(is_owned);
    let read = owned.filter_map(|seen| {
        let body: Body = serde_json::from_str(seen.raw.get()).ok()?;
        let is = |kind: &str| {
            let mut conditions = body.status.conditions.iter();
            conditions.any(|condition| condition.kind == kind && condition.status == "True")
        };
        let created = seen.meta.creation_timestamp.as_ref().map(|time| time.0);
        let rank = (!is("Finished"), created, seen.meta.name.clone());
        let annotations = seen.meta.annotations.as_ref();
        let workload = Workload {
            name: seen.meta.name.clone()?,
            uid: seen.meta.uid.clone()?,
            version: seen.meta.resource_version.clone()?,
            active: body.spec.active.unwrap_or(true),
            deactivated_for: annotations.and_then(|all| all.get(keys::DEACTIVATED_FOR).cloned()),
            holds_quota: is("QuotaReserved"),
            evicted: is("Evicted"),
            unhealthy_nodes: body.status.unhealthy_nodes.into_iter().map(|it| it.name).collect(),
        };
        Some((rank, workload))
    });
    let last = read.max_by(|one, other| one.0.cmp(&other.0));
    last.map_or(WorkloadRead::Absent, |(_, workload)| WorkloadRead::Found(workload))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn workload(name: &str, owner: (&str, bool), finished: bool) -> Value {
        let finished = if finished { "True" } else { "False" };
        json!({
            "metadata": {
                "name": name, "uid": name, "resourceVersion": "7",
                "annotations": {"workload.codeflare.dev.appwrapper/deactivatedForAttempt": "3"},
                "labels": {"kueue.x-k8s.io/job-uid": "uid"},
                "ownerReferences": [{
                    "apiVersion": "v", "kind": "K", "name": "n", "uid": owner.0, "controller": owner.1,
                }],
            },
            "spec": {"active": false},
            "status": {
                "conditions": [
                    {"type": "Finished", "status": finished},
                    {"type": "QuotaReserved", "status": "True"},
                    {"type": "Evicted", "status": "False"},
                ],
                "unhealthyNodes": [{"name": "node-1"}],
            },
        })
    }

    #[test]
    fn the_workload_is_the_one_that_the_appwrapper_controls() {
        let all = [
            workload("label-only", ("other", true), false),
            workload("owner-only", ("uid", false), false),
            workload("finished", ("uid", true), true),
            workload("this", ("uid", true), false),
            json!({"metadata": {"name": "broken", "uid": "b", "resourceVersion": "1",
                "ownerReferences": [{"apiVersion": "v", "kind": "K", "name": "n", "uid": "uid",
                    "controller": true}]}, "spec": {"active": "no"}}),
        ];
        let seen: Vec<RawObject> =
            all.iter().map(|value| serde_json::from_str(&value.to_string()).unwrap()).collect();
        let found = WorkloadRead::Found(Workload {
            name: "this".into(),
            uid: "this".into(),
            version: "7".into(),
            active: false,
            deactivated_for: Some("3".into()),
            holds_quota: true,
            evicted: false,
            unhealthy_nodes: vec!["node-1".into()],
        });
        assert_eq!(choose(&seen, "uid"), found);
        assert_eq!(choose(&seen[..2], "uid"), WorkloadRead::Absent);
    }
}
