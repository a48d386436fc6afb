//! The Workload by which Kueue admits an AppWrapper. It is not watched: it is read where a decision asks for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::ListParams;
use kube::core::ApiResource;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::assemble::Wrapper;
use super::cache::KindKey;
use super::live::{self, Error, Live};
use super::raw_object::RawObject;
use crate::api::keys;
use crate::snapshot::workload::{Workload, WorkloadRead};

/// The version in which Workloads are read where it is served; what is read is the same in v1beta1.
const VERSION: &str = "v1beta2";

/// A Workload as it was read. Kueue: `WorkloadSpec`, `WorkloadStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenWorkload {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub version: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// `spec.queueName`: the LocalQueue by which it is admitted.
    pub queue: Option<String>,
    /// `spec.active`: Kueue admits it only while this is true.
    pub active: bool,
    /// The attempt for which the controller has deactivated it; it will activate it again.
    pub deactivated_for: Option<String>,
    /// `status.conditions`.
    pub conditions: Vec<WorkloadCondition>,
    /// `status.unhealthyNodes`: Kueue looks for replacements of these nodes.
    pub unhealthy_nodes: Vec<String>,
    /// All pods have places in a topology.
    pub has_topology: bool,
    /// `status.admissionChecks`.
    pub checks: Vec<AdmissionCheckState>,
    /// `status.clusterName`: the worker cluster of MultiKueue in which it is admitted.
    pub cluster: Option<String>,
    /// `status.requeueState.requeueAt`: Kueue does not requeue it before.
    pub requeue_at: Option<Timestamp>,
    /// `status.requeueState.count`: its evictions since it was last activated, as far as Kueue counts them.
    pub evictions: i32,
}

/// A condition of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WorkloadCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
}

/// The state of an admission check of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AdmissionCheckState {
    /// Its name.
    pub name: String,
    /// `Pending`, `Ready`, `Retry` or `Rejected`.
    pub state: String,
    /// Its message.
    pub message: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Body {
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    active: Option<bool>,
    queue_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    conditions: Vec<WorkloadCondition>,
    unhealthy_nodes: Vec<UnhealthyNode>,
    admission_checks: Vec<AdmissionCheckState>,
    admission: Admission,
    cluster_name: Option<String>,
    requeue_state: RequeueState,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RequeueState {
    count: i32,
    requeue_at: Option<Time>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Admission {
    pod_set_assignments: Vec<PodSetAssignment>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PodSetAssignment {
    topology_assignment: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UnhealthyNode {
    name: String,
}

impl SeenWorkload {
    /// None of one that cannot be read.
    fn of(seen: &RawObject) -> Option<Self> {
        let body: Body = serde_json::from_str(seen.raw.get()).ok()?;
        let annotations = seen.meta.annotations.as_ref();
        let assigned = &body.status.admission.pod_set_assignments;
        let has_topology = assigned.iter().all(|set| set.topology_assignment.is_some());
        Some(Self {
            name: seen.meta.name.clone()?,
            uid: seen.meta.uid.clone()?,
            // a recording has none
            version: seen.meta.resource_version.clone().unwrap_or_default(),
            created: seen.meta.creation_timestamp.as_ref().map(|time| time.0),
            queue: body.spec.queue_name.filter(|name| !name.is_empty()),
            active: body.spec.active.unwrap_or(true),
            deactivated_for: annotations.and_then(|all| all.get(keys::DEACTIVATED_FOR).cloned()),
            conditions: body.status.conditions,
            has_topology: has_topology && !assigned.is_empty(),
            unhealthy_nodes: body.status.unhealthy_nodes.into_iter().map(|it| it.name).collect(),
            checks: body.status.admission_checks,
            cluster: body.status.cluster_name,
            requeue_at: body.status.requeue_state.requeue_at.map(|time| time.0),
            evictions: body.status.requeue_state.count,
        })
    }

    /// The condition of a type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&WorkloadCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Whether the condition of a type is True.
    #[must_use]
    pub fn is(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == "True")
    }

    /// What matters of it for a decision.
    #[must_use]
    pub fn into_snapshot(self) -> Workload {
        let (evicted, finished) = (self.is("Evicted"), self.is("Finished"));
        let holds_quota = self.is("QuotaReserved") && !finished;
        Workload {
            name: self.name,
            uid: self.uid,
            version: self.version,
            active: self.active,
            deactivated_for: self.deactivated_for,
            holds_quota,
            evicted,
            finished,
            unhealthy_nodes: self.unhealthy_nodes,
            has_topology: self.has_topology,
        }
    }
}

/// The Workload that has the AppWrapper of this UID as its controller, among all of a namespace; of several, the
/// youngest that is not finished.
#[must_use]
pub fn of_owner(all: &[RawObject], uid: &str) -> Option<SeenWorkload> {
    let is_owned = |seen: &&RawObject| {
        let owners = seen.meta.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == uid)
    };
    let owned = all.iter().filter(is_owned).filter_map(SeenWorkload::of);
    owned.max_by_key(|seen| (!seen.is("Finished"), seen.created, seen.name.clone()))
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
        Ok(all) => Ok(of_owner(&all, &wrapper.uid)
            .map_or(WorkloadRead::Absent, |seen| WorkloadRead::Found(seen.into_snapshot()))),
        Err(error) => match error.code() {
            Some(403) => Ok(WorkloadRead::Refused("listing Workloads is forbidden".to_owned())),
            Some(404) => Ok(WorkloadRead::Absent),
            _ => Err(error),
        },
    }
}

/// The resource of Workloads, in any version that is served; none where the cluster serves none.
///
/// # Errors
/// Discovery failed.
pub async fn resource(client: &Client, live: &Live) -> Result<Option<ApiResource>, Error> {
    let api_version = format!("{}/{VERSION}", keys::KUEUE_GROUP);
    let kind = KindKey { api_version, kind: "Workload".to_owned() };
    match live.resource(client, &kind).await {
        Ok(resource) => Ok(Some(resource)),
        Err(Error::NoKind(_) | Error::NotNamespaced(_)) => Ok(None),
        Err(error @ Error::Api { .. }) => Err(error),
    }
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
                "admission": {"podSetAssignments": [{"name": "a", "topologyAssignment": {"levels": []}}]},
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
        let want = Workload {
            name: "this".into(),
            uid: "this".into(),
            version: "7".into(),
            active: false,
            deactivated_for: Some("3".into()),
            holds_quota: true,
            evicted: false,
            finished: false,
            unhealthy_nodes: vec!["node-1".into()],
            has_topology: true,
        };
        assert_eq!(of_owner(&seen, "uid").unwrap().into_snapshot(), want);
        assert_eq!(of_owner(&seen[..2], "uid"), None);
        let finished = of_owner(&seen[..3], "uid").unwrap().into_snapshot();
        assert_eq!((finished.finished, finished.holds_quota), (true, false));
    }

    #[test]
    fn the_queue_and_the_time_of_requeuing_are_those_of_kueue() {
        let plain = workload("w", ("uid", true), false);
        let mut evicted = plain.clone();
        evicted["spec"]["queueName"] = "q1".into();
        let at: Timestamp = "2026-11-28T09:38:03Z".parse().unwrap();
        evicted["status"]["requeueState"] = json!({"count": 1, "requeueAt": at});
        for (value, want) in [(plain, (None, None, 0)), (evicted, (Some("q1"), Some(at), 1))] {
            let seen: RawObject = serde_json::from_str(&value.to_string()).unwrap();
            let seen = SeenWorkload::of(&seen).unwrap();
            assert_eq!((seen.queue.as_deref(), seen.requeue_at, seen.evictions), want);
        }
    }

    #[test]
    fn a_topology_is_one_of_all_pod_sets() {
        let places = json!({"name": "a", "topologyAssignment": {"levels": []}});
        let none = json!({"name": "b"});
        for (assigned, want) in [
            (json!([places]), true),
            (json!([places, none]), false),
            (json!([none]), false),
            (json!([]), false),
        ] {
            let mut seen = workload("w", ("uid", true), false);
            seen["status"]["admission"]["podSetAssignments"] = assigned.clone();
            let seen: RawObject = serde_json::from_str(&seen.to_string()).unwrap();
            assert_eq!(SeenWorkload::of(&seen).unwrap().has_topology, want, "{assigned}");
        }
    }
}
