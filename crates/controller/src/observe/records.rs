//! What is kept of an object: the facts that decisions need, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::Deserialize;
use serde_json::Value;

use super::raw_object::RawObject;
use crate::api::keys;
use crate::kinds;
use crate::snapshot::{
    Container, ContainerState, Outcome, Pod, PodCondition, PodPhase, Report, Termination,
};

/// The longest name of an object.
const NAME_MAX: usize = 253;
/// The longest version, kind or UID.
const WORD_MAX: usize = 63;
/// How many finalizers of an object are kept, to name them.
const FINALIZERS_MAX: usize = 8;

/// Identity and ownership of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The controller that owns it; none where no request could be made from what the reference says.
    pub controller: Option<Controller>,
    /// Label: the AppWrapper's name.
    pub appwrapper: Option<String>,
    /// Label: the AppWrapper's UID.
    pub appwrapper_uid: Option<String>,
    /// Label: the attempt.
    pub attempt: Option<i32>,
    /// It has a deletion timestamp.
    pub terminating: bool,
    /// Finalizers that keep it.
    pub finalizers: Vec<String>,
}

/// A controller owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Controller {
    /// API version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
}

/// A pod, with whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRecord {
    /// Identity and ownership.
    pub identity: Identity,
    /// Label: component and pod set, by index.
    pub pod_set: Option<(usize, usize)>,
    /// The facts; component and pod set are filled in when it is known whose pod it is.
    pub pod: Pod,
    /// Its deletion is complete: no grace period is left and no finalizer but that of its Job, with which the API
    /// server removes the pod in one write. The API server writes this before it removes a pod, so a watch that
    /// drops a pod without it only lost sight of it: its label changed.
    pub is_over: bool,
}

/// A component's object, with whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRecord {
    /// Identity and ownership.
    pub identity: Identity,
    /// What it says of itself; its pod sets in the order of `paths`.
    pub report: Report,
    /// Paths of its pod sets, as its own kind has them: an AppWrapper may declare another order.
    pub paths: Vec<String>,
}

impl Identity {
    /// Reads the metadata of an object.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            controller: owners
                .iter()
                .find(|owner| owner.controller == Some(true))
                .and_then(Controller::of),
            appwrapper: label(keys::APPWRAPPER),
            appwrapper_uid: label(keys::APPWRAPPER_UID),
            attempt: label(keys::ATTEMPT).and_then(|text| text.parse().ok()),
            terminating: meta.deletion_timestamp.is_some(),
            finalizers: meta
                .finalizers
                .iter()
                .flatten()
                .take(FINALIZERS_MAX)
                .map(|name| name.chars().take(NAME_MAX).collect())
                .collect(),
        }
    }
}

impl Controller {
    /// Reads an owner reference. The API server accepts anything that is not empty there, whatever its
    /// length: a reference that cannot be to an object, or that would lead a request elsewhere, is none.
    #[must_use]
    pub fn of(owner: &OwnerReference) -> Option<Self> {
        let plain = |text: &str, longest: usize, others: &[u8]| {
            let fits = |byte: &u8| byte.is_ascii_alphanumeric() || others.contains(byte);
            (1..=longest).contains(&text.len())
                && text.as_bytes().iter().all(fits)
                && text.as_bytes()[0].is_ascii_alphanumeric()
        };
        let (group, version) =
            owner.api_version.rsplit_once('/').unwrap_or(("v", &owner.api_version));
        let is_plain = plain(group, NAME_MAX, b"-.")
            && plain(version, WORD_MAX, b"-")
            && plain(&owner.kind, WORD_MAX, b"")
            && plain(&owner.name, NAME_MAX, b"-._:")
            && plain(&owner.uid, WORD_MAX, b"-");
        is_plain.then(|| Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }

    /// Name for messages: `Kind/name`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// Whether both are references to the same object; another version of its group may be named.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let group = |of: &Self| of.api_version.rsplit_once('/').map(|(group, _)| group.to_owned());
        self.uid == other.uid
            && self.name == other.name
            && self.kind == other.kind
            && group(self) == group(other)
    }
}

impl ObjectRecord {
    /// Reads an object of a kind; one that cannot be read says nothing of itself.
    #[must_use]
    pub fn of(seen: &RawObject, api_version: &str, kind: &str) -> Self {
        let identity = Identity::of(&seen.meta);
        let Ok(mut object) = serde_json::from_str::<Value>(seen.raw.get()) else {
            return Self { identity, ..Self::default() };
        };
        // built-in kinds come without their kind in a list
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        let pod_sets = kinds::infer(&object).unwrap_or_default();
        let report = kinds::report(api_version, kind, &pod_sets, &object);
        Self { identity, report, paths: pod_sets.into_iter().map(|set| set.path).collect() }
    }

    /// A wrapped Pod, which is watched as a pod already.
    #[must_use]
    pub fn of_pod(record: &PodRecord) -> Self {
        let succeeded = record.pod.phase == PodPhase::Succeeded;
        let outcome = if succeeded { Outcome::Succeeded } else { Outcome::Active };
        let report = Report { outcome, unreplaced: BTreeSet::from([0]), ..Report::default() };
        Self { identity: record.identity.clone(), report, paths: vec!["template".to_owned()] }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeanPod {
    spec: LeanPodSpec,
    status: LeanPodStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeanPodSpec {
    node_name: Option<String>,
    containers: Vec<LeanContainer>,
    init_containers: Vec<LeanContainer>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeanContainer {
    name: String,
    restart_policy: String,
    resources: LeanResources,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanResources {
    limits: BTreeMap<String, Value>,
    requests: BTreeMap<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeanPodStatus {
    phase: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    conditions: Vec<LeanCondition>,
    container_statuses: Vec<LeanContainerStatus>,
    init_container_statuses: Vec<LeanContainerStatus>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeanCondition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) last_transition_time: Option<Time>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanContainerStatus {
    name: String,
    state: LeanState,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanState {
    waiting: Option<LeanWaiting>,
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<LeanTerminated>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanWaiting {
    reason: String,
    message: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeanTerminated {
    exit_code: i32,
    signal: Option<i32>,
    reason: String,
    message: String,
    finished_at: Option<Time>,
}

impl PodRecord {
    /// Reads a pod; one that cannot be read counts as Pending, which concludes nothing.
    #[must_use]
    pub fn of(seen: &RawObject) -> Self {
        let lean: LeanPod = serde_json::from_str(seen.raw.get()).unwrap_or_default();
        let identity = Identity::of(&seen.meta);
        let labels = seen.meta.labels.as_ref();
        let pod_set = labels.and_then(|labels| labels.get(keys::POD_SET)).and_then(|text| {
            let (component, pod_set) = text.split_once('-')?;
            Some((component.parse().ok()?, pod_set.parse().ok()?))
        });
        let resources = lean.spec.resources();
        let sidecars = lean.spec.sidecars();
        let status = lean.status;
        let containers = containers(status.init_container_statuses, true)
            .map(|one| Container { restartable: sidecars.contains(one.name.as_str()), ..one })
            .chain(containers(status.container_statuses, false))
            .collect();
        let pod = Pod {
            name: identity.name.clone(),
            uid: identity.uid.clone(),
            component: None,
            pod_set: None,
            attempt: identity.attempt,
            node: lean.spec.node_name.filter(|node| !node.is_empty()),
            phase: phase(status.phase.as_deref()),
            terminating: identity.terminating,
            finalizers: identity.finalizers.clone(),
            due_to_go: seen.meta.deletion_timestamp.as_ref().map(|time| time.0),
            created: seen.meta.creation_timestamp.as_ref().map(|time| time.0),
            reason: status.reason,
            message: status.message,
            conditions: status.conditions.into_iter().filter_map(condition).collect(),
            containers,
            resources,
            lost: None,
            stuck: None,
            detached: false,
        };
        let is_over = seen.meta.deletion_timestamp.is_some()
            && seen.meta.deletion_grace_period_seconds == Some(0)
            && identity.finalizers.iter().all(|name| name == keys::JOB_TRACKING);
        Self { identity, pod_set, pod, is_over }
    }
}

impl LeanPodSpec {
    /// Names of the init containers that are sidecars.
    fn sidecars(&self) -> BTreeSet<&str> {
        let restart = |one: &&LeanContainer| one.restart_policy == "Always";
        self.init_containers.iter().filter(restart).map(|one| one.name.as_str()).collect()
    }

    fn resources(&self) -> BTreeSet<String> {
        self.containers
            .iter()
            .chain(&self.init_containers)
            .flat_map(|container| {
                container.resources.limits.iter().chain(&container.resources.requests)
            })
            .filter(|(_, amount)| !matches!(amount, Value::String(text) if text == "0"))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

fn phase(text: Option<&str>) -> PodPhase {
    match text {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Unknown") => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

/// The conditions that decisions and policies ask for; the rest only takes memory.
fn condition(lean: LeanCondition) -> Option<PodCondition> {
    let asked_for = lean.kind != "Initialized" && lean.kind != "ContainersReady";
    asked_for.then_some(PodCondition {
        kind: lean.kind,
        status: lean.status,
        reason: lean.reason,
        message: lean.message,
        since: lean.last_transition_time.map(|time| time.0),
    })
}

fn containers(statuses: Vec<LeanContainerStatus>, init: bool) -> impl Iterator<Item = Container> {
    statuses.into_iter().map(move |status| {
        let LeanState { waiting, running, terminated } = status.state;
        let state = match (terminated, waiting, running) {
            (Some(end), ..) => ContainerState::Terminated(Termination {
                exit_code: end.exit_code,
                signal: end.signal,
                reason: end.reason,
                message: end.message,
                finished_at: end.finished_at.map(|time| time.0),
            }),
            (None, Some(LeanWaiting { reason, message }), _) => {
                ContainerState::Waiting { reason, message }
            }
            (None, None, Some(_)) => ContainerState::Running,
            (None, None, None) => ContainerState::Unknown,
        };
        Container { name: status.name, init, restartable: false, state }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(value: &Value) -> RawObject {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn a_pod_is_read_by_state_and_not_by_last_state() {
        let record = PodRecord::of(&seen(&json!({
            "metadata": {
                "name": "p", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "labels": {keys::POD_SET: "1-2", keys::ATTEMPT: "3"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "X", "name": "not", "uid": "1"},
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "2", "controller": true}
                ]
            },
            "spec": {"nodeName": "n", "containers": [
                {"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "0"}}}
            ]},
            "status": {
                "phase": "Failed",
                "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "R"}],
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
                "containerStatuses": [
                    {"name": "c", "state": {"terminated": {
                        "exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:05Z"}}},
                    {"name": "d", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 9}}}
                ]
            }
        })));
        assert_eq!(record.pod_set, Some((1, 2)));
        assert_eq!(record.identity.attempt, Some(3));
        assert_eq!(record.identity.controller.as_ref().map(|c| c.uid.as_str()), Some("2"));
        assert_eq!(record.pod.phase, PodPhase::Failed);
        let target = record.pod.true_condition("DisruptionTarget");
        assert_eq!(target.map(|condition| condition.reason.as_str()), Some("R"));
        assert!(record.pod.terminating);
        let ended: Vec<_> = record
            .pod
            .terminated()
            .map(|(c, end)| (c.name.as_str(), c.init, end.exit_code))
            .collect();
        assert_eq!(ended, [("i", true, 0), ("c", false, 137)]);
        assert_eq!(record.pod.resources.iter().collect::<Vec<_>>(), ["nvidia.com/gpu"]);
    }

    #[test]
    fn an_owner_reference_from_which_no_request_can_be_made_is_none() {
        let good = ["batch/v1", "Job", "j-1.x", "0b1f-2"];
        let with = |at: usize, text: &str| {
            let mut parts = good.map(str::to_owned);
            text.clone_into(&mut parts[at]);
            let [api_version, kind, name, uid] = parts;
            let controller = Some(true);
            Controller::of(&OwnerReference {
                api_version,
                kind,
                name,
                uid,
                controller,
                ..OwnerReference::default()
            })
        };
        assert!(with(0, "v1").is_some() && with(0, "a-b.example.com/v1beta2").is_some());
        let long = "a".repeat(500_000);
        for (at, text) in [
            (0, ""),
            (0, "a/b/v1"),
            (0, "/v1"),
            (0, "batch/"),
            (0, "batch/../v1"),
            (1, "Jo/b"),
            (1, "J b"),
            (2, "a/../../secrets/s"),
            (2, "?watch=true"),
            (2, ".."),
            (2, "x%2F"),
            (2, "a\n"),
            (2, "é"),
            (3, ""),
            (3, "u/1"),
            (0, &long),
            (1, &long),
            (2, &long),
            (3, &long),
        ] {
            assert_eq!(with(at, text), None, "{at} {}", &text[..text.len().min(30)]);
        }
    }

    #[test]
    fn only_a_deletion_that_is_complete_is_over() {
        for (meta, want) in [
            (json!({}), false),
            (
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}),
                false,
            ),
            (
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}),
                true,
            ),
            (
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
                "finalizers": ["x/hold"]}),
                false,
            ),
            (
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
                "finalizers": ["batch.kubernetes.io/job-tracking"]}),
                true,
            ),
            (
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
                "finalizers": ["batch.kubernetes.io/job-tracking", "x/hold"]}),
                false,
            ),
            (
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30,
                "finalizers": ["batch.kubernetes.io/job-tracking"]}),
                false,
            ),
        ] {
            assert_eq!(PodRecord::of(&seen(&json!({"metadata": meta}))).is_over, want, "{meta}");
        }
    }

    #[test]
    fn a_pod_that_cannot_be_read_concludes_nothing() {
        let record = PodRecord::of(&seen(&json!({"metadata": {"name": "p"}, "status": 7})));
        assert_eq!(record.pod.phase, PodPhase::Pending);
        assert_eq!(record.identity.name, "p");
    }
}
