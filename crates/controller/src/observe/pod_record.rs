//! What is kept of a pod, read from its JSON text in one pass: a gang has thousands of them, and each changes several
//! times.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::raw_object::{RawObject, resource_of_any_kind};
use super::records::{
    Controller, Identity, LeanCondition, cut, deletion_requested, named_finalizers, word,
};
use crate::api::keys;
use crate::price::{
    KEPT_MESSAGE_BYTES_MAX, POD_CONDITIONS_MAX, POD_CONTAINERS_MAX, POD_MESSAGES_BYTES_MAX,
    POD_RESOURCES_MAX,
};
use crate::progress;
use crate::snapshot::{Container, ContainerState, Pod, PodCondition, PodPhase, Termination};

/// So many of the sets of resources that were read last are shared.
const SHARED_SETS: usize = 8;

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

/// A pod as a watch or a list shows it.
#[derive(Clone, Debug)]
pub struct WatchedPod {
    /// Its resource version, which the watch continues from; nothing else.
    meta: ObjectMeta,
    /// What is kept of it.
    pub record: Arc<PodRecord>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeanPod {
    metadata: LeanPodMeta,
    spec: LeanPodSpec,
    status: LeanPodStatus,
}

/// The part of the metadata that is used.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeanPodMeta {
    name: String,
    namespace: String,
    uid: String,
    resource_version: Option<String>,
    labels: LeanLabels,
    annotations: LeanAnnotations,
    owner_references: Vec<OwnerReference>,
    finalizers: Vec<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    managed_fields: Vec<LeanManagedFields>,
}

/// When a subresource was written. Whoever may change the pod writes any time of Go there, also one that no type of ours
/// holds.
#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanManagedFields {
    subresource: String,
    time: Option<String>,
}

/// The labels of [`keys`] that a pod of an AppWrapper has.
#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanLabels {
    #[serde(rename = "workload.codeflare.dev/appwrapper")]
    appwrapper: Option<String>,
    #[serde(rename = "workload.codeflare.dev/appwrapper-uid")]
    appwrapper_uid: Option<String>,
    #[serde(rename = "workload.codeflare.dev/attempt")]
    attempt: Option<String>,
    #[serde(rename = "workload.codeflare.dev/podset")]
    pod_set: Option<String>,
}

/// The annotations of [`keys`] that are read of a pod.
#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanAnnotations {
    #[serde(rename = "kueue.x-k8s.io/safe-to-forcefully-delete")]
    safe_to_force_delete: Option<String>,
    #[serde(rename = "workload.codeflare.dev/progress")]
    progress: Option<String>,
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
    start_time: Option<Time>,
    conditions: Vec<LeanCondition>,
    container_statuses: Vec<LeanContainerStatus>,
    init_container_statuses: Vec<LeanContainerStatus>,
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

/// The clock of a pod's node beside that of the API server.
#[derive(Clone, Copy)]
struct NodeClock {
    /// By how much it was behind when the pod started.
    behind: SignedDuration,
    /// When the status of the pod was written last, by the clock of the API server.
    written: Option<Timestamp>,
}

impl PodRecord {
    /// Reads a pod; one that cannot be read counts as Pending, which concludes nothing.
    #[must_use]
    pub fn of(seen: &RawObject) -> Self {
        Self::read(seen.raw.get()).1
    }

    /// A newer record of a pod that keeps when its deletion was first requested: the API server moves the deletion
    /// timestamp to the end of the pod when a kubelet then deletes it with a grace period of 0. Nor does it fail later, or its
    /// containers end later, because its status is written once more. Source: `BeforeDelete` of apiserver 1.36.
    #[must_use]
    pub fn after(self: Arc<Self>, older: &Self) -> Arc<Self> {
        if older.identity.uid != self.identity.uid {
            return self;
        }
        let first =
            |old: Option<Timestamp>, new: Option<Timestamp>| old.filter(|_| old < new).or(new);
        let requested = first(older.pod.deletion_requested, self.pod.deletion_requested);
        let failed_by = first(older.pod.failed_by, self.pod.failed_by);
        let has_succeeded = |it: &Self| it.pod.phase == PodPhase::Succeeded;
        // none of them starts again
        let has_ends = has_succeeded(older) && has_succeeded(&self);
        if (requested, failed_by) == (self.pod.deletion_requested, self.pod.failed_by)
            && (!has_ends || older.pod.containers == self.pod.containers)
        {
            return self;
        }
        let mut newer = Arc::unwrap_or_clone(self);
        newer.identity.deletion_requested = requested;
        newer.pod.deletion_requested = requested;
        newer.pod.failed_by = failed_by;
        if has_ends {
            newer.pod.containers.clone_from(&older.pod.containers);
        }
        Arc::new(newer)
    }

    /// Its resource version, and what is kept of it.
    fn read(text: &str) -> (Option<String>, Self) {
        let LeanPod { mut metadata, spec, status } =
            serde_json::from_str(text).unwrap_or_else(|_| LeanPod::unread(text));
        let labels = &metadata.labels;
        let pod_set = labels.pod_set.as_deref().and_then(|text| {
            let (component, pod_set) = text.split_once('-')?;
            Some((component.parse().ok()?, pod_set.parse().ok()?))
        });
        let annotations = &metadata.annotations;
        let safe_to_force_delete = annotations.safe_to_force_delete.as_deref() == Some("true");
        let progress = annotations.progress.as_deref().map(progress::parse);
        let version = metadata.resource_version.take();
        let status_written = metadata.status_written();
        let created = metadata.creation_timestamp.take().map(|time| time.0);
        let due_to_go = metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let grace = metadata.deletion_grace_period_seconds;
        let identity = metadata.identity();
        let (resources, sidecars) = (spec.resources(), spec.sidecars());
        let clock = NodeClock { behind: status.behind(created), written: status_written };
        let mut room = Room(POD_MESSAGES_BYTES_MAX);
        let both = [status.init_container_statuses, status.container_statuses];
        let containers = containers(both, &sidecars, clock, &mut room);
        let message = status.message.map(|text| room.message(text));
        let started = status.start_time.map(|time| clock.set_forward(time.0));
        let failed_by = failed_by(status_written, started, containers.is_empty());
        let phase = phase(status.phase.as_deref());
        // what podFailurePolicy may be asked about; while a gang runs it would only take memory
        let in_full = phase == PodPhase::Failed || due_to_go.is_some();
        let conditions = conditions(status.conditions, in_full, &mut room);
        let pod = Pod {
            name: identity.name.clone(),
            uid: identity.uid.clone(),
            component: None,
            pod_set: None,
            attempt: identity.attempt,
            node: spec.node_name.filter(|node| !node.is_empty()),
            phase,
            terminating: identity.terminating,
            gone: false,
            finalizers: identity.finalizers.clone(),
            due_to_go,
            held_by_finalizers: due_to_go.is_some() && grace == Some(0),
            deletion_requested: identity.deletion_requested,
            created,
            failed_by: failed_by.filter(|_| phase == PodPhase::Failed),
            reason: status.reason.map(word),
            message,
            conditions,
            containers,
            resources,
            lost: None,
            stuck: None,
            detached: false,
            safe_to_force_delete,
            progress,
        };
        let is_over =
            pod.held_by_finalizers && pod.finalizers.iter().all(|name| name == keys::JOB_TRACKING);
        (version, Self { identity, pod_set, pod, is_over })
    }
}

impl LeanPod {
    /// A pod of which only the metadata can be read.
    fn unread(text: &str) -> Self {
        #[derive(Deserialize)]
        struct Envelope {
            metadata: LeanPodMeta,
        }
        let read = serde_json::from_str::<Envelope>(text);
        Self { metadata: read.map(|it| it.metadata).unwrap_or_default(), ..Self::default() }
    }
}

impl LeanPodMeta {
    /// When its status was written last.
    fn status_written(&self) -> Option<Timestamp> {
        let of_status = self.managed_fields.iter().filter(|one| one.subresource == "status");
        of_status.filter_map(|one| one.time.as_deref()?.parse::<Timestamp>().ok()).max()
    }

    fn identity(self) -> Identity {
        let LeanLabels { appwrapper, appwrapper_uid, attempt, pod_set: _ } = self.labels;
        Identity {
            namespace: self.namespace,
            name: self.name,
            uid: self.uid,
            controller: Controller::among(&self.owner_references),
            appwrapper,
            appwrapper_uid,
            attempt: attempt.and_then(|text| text.parse().ok()),
            terminating: self.deletion_timestamp.is_some(),
            deletion_requested: deletion_requested(
                self.deletion_timestamp.as_ref(),
                self.deletion_grace_period_seconds,
            ),
            finalizers: named_finalizers(&self.finalizers),
        }
    }
}

impl<'de> Deserialize<'de> for WatchedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // a pod that cannot be read must not end the list or the watch that it is in
        let raw = <&RawValue>::deserialize(deserializer)?;
        let (resource_version, record) = PodRecord::read(raw.get());
        let meta = ObjectMeta { resource_version, ..ObjectMeta::default() };
        Ok(Self { meta, record: Arc::new(record) })
    }
}

resource_of_any_kind!(WatchedPod, meta, metadata_only: false);

impl LeanPodStatus {
    /// By how much the clock of the pod's node is behind that of the API server, as far as its start tells: a kubelet
    /// starts a pod after it was created and bound. The times have seconds, and a difference of one tells nothing. What
    /// it is compared with never changes.
    fn behind(&self, created: Option<Timestamp>) -> SignedDuration {
        let is_bound = |one: &&LeanCondition| one.kind == "PodScheduled" && one.status == "True";
        let bound = self.conditions.iter().find(is_bound);
        let bound = bound.and_then(|one| one.last_transition_time.as_ref()).map(|time| time.0);
        let started = self.start_time.as_ref().map(|time| time.0);
        let both = bound.max(created).zip(started);
        let behind = both.map(|(before, started)| before.duration_since(started));
        behind.filter(|behind| behind.as_secs() > 1).unwrap_or_default()
    }
}

impl LeanPodSpec {
    /// Names of the init containers that are sidecars.
    fn sidecars(&self) -> BTreeSet<&str> {
        let restart = |one: &&LeanContainer| one.restart_policy == "Always";
        self.init_containers.iter().filter(restart).map(|one| one.name.as_str()).collect()
    }

    /// Names of the resources that the pod uses, the first [`POD_RESOURCES_MAX`] in the order of the alphabet.
    fn resources(&self) -> Arc<BTreeSet<String>> {
        let names: BTreeSet<&str> = self
            .containers
            .iter()
            .chain(&self.init_containers)
            .flat_map(|container| {
                container.resources.limits.iter().chain(&container.resources.requests)
            })
            .filter(|(_, amount)| !matches!(amount, Value::String(text) if text == "0"))
            .map(|(name, _)| name.as_str())
            .collect();
        shared(names.iter().copied().take(POD_RESOURCES_MAX))
    }
}

/// A set of these names, which are sorted: one that was read a moment ago, where it has the same names.
fn shared<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Arc<BTreeSet<String>> {
    thread_local! {
        static LATEST: RefCell<VecDeque<Arc<BTreeSet<String>>>> =
            const { RefCell::new(VecDeque::new()) };
    }
    LATEST.with_borrow_mut(|latest| {
        let is_same =
            |set: &Arc<BTreeSet<String>>| set.iter().map(String::as_str).eq(names.clone());
        let known = latest.iter().position(is_same).and_then(|at| latest.remove(at));
        let set = known.unwrap_or_else(|| Arc::new(names.map(str::to_owned).collect()));
        latest.truncate(SHARED_SETS - 1);
        latest.push_front(set.clone());
        set
    })
}

impl NodeClock {
    /// A time of the node by the clock of the API server.
    fn set_forward(self, time: Timestamp) -> Timestamp {
        time.checked_add(self.behind).unwrap_or(time)
    }

    /// The end of a container by the clock of the API server. It is not set forward past the write that reports it: the clock
    /// of the node may have been corrected since the pod started.
    fn end(self, time: Timestamp) -> Timestamp {
        let end = self.set_forward(time);
        self.written.map_or(end, |written| end.min(written.max(time)))
    }
}

/// The latest time at which a Failed pod can have failed: when its status was written. A pod without containers was
/// rejected by its kubelet when that started it.
fn failed_by(
    written: Option<Timestamp>,
    started: Option<Timestamp>,
    was_rejected: bool,
) -> Option<Timestamp> {
    if !was_rejected {
        return written;
    }
    started.map(|started| written.map_or(started, |written| started.min(written)))
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

/// Whether decisions ask for a condition also of a pod that has not failed.
fn is_told_of_running(condition: &LeanCondition) -> bool {
    condition.kind != "Initialized" && condition.kind != "ContainersReady"
}

/// How many more bytes of messages are kept of a pod.
struct Room(usize);

impl Room {
    /// A message as it is told, recorded and compared with patterns: programs end theirs with a line break, and
    /// kubelets end some with a space.
    fn message(&mut self, mut message: String) -> String {
        message.truncate(message.trim_end().len());
        let message = cut(message, KEPT_MESSAGE_BYTES_MAX.min(self.0));
        self.0 -= message.len();
        message
    }
}

fn conditions(all: Vec<LeanCondition>, in_full: bool, room: &mut Room) -> Vec<PodCondition> {
    let kept = all.into_iter().filter(|one| in_full || is_told_of_running(one));
    let kept = kept.take(POD_CONDITIONS_MAX).map(|one| condition(one, room));
    let mut conditions: Vec<PodCondition> = kept.collect();
    conditions.shrink_to_fit(); // some are left out, and the list is built in the place of all
    conditions
}

fn condition(lean: LeanCondition, room: &mut Room) -> PodCondition {
    PodCondition {
        kind: word(lean.kind),
        status: word(lean.status),
        reason: word(lean.reason),
        message: room.message(lean.message),
        since: lean.last_transition_time.map(|time| time.0),
    }
}

/// The init containers, then the others.
fn containers(
    [init, main]: [Vec<LeanContainerStatus>; 2],
    sidecars: &BTreeSet<&str>,
    clock: NodeClock,
    room: &mut Room,
) -> Vec<Container> {
    let all = init.into_iter().map(|one| (true, one));
    let all = all.chain(main.into_iter().map(|one| (false, one))).take(POD_CONTAINERS_MAX);
    all.map(|(init, status)| {
        let restartable = init && sidecars.contains(status.name.as_str());
        Container { init, restartable, ..container(status, clock, room) }
    })
    .collect()
}

fn container(status: LeanContainerStatus, clock: NodeClock, room: &mut Room) -> Container {
    let LeanState { waiting, running, terminated } = status.state;
    let state = match (terminated, waiting, running) {
        (Some(end), ..) => ContainerState::Terminated(Termination {
            exit_code: end.exit_code,
            signal: end.signal,
            reason: word(end.reason),
            message: room.message(end.message),
            finished_at: end.finished_at.map(|time| clock.end(time.0)),
        }),
        (None, Some(LeanWaiting { reason, message }), _) => {
            ContainerState::Waiting { reason: word(reason), message: room.message(message) }
        }
        (None, None, Some(_)) => ContainerState::Running,
        (None, None, None) => ContainerState::Unknown,
    };
    Container { name: word(status.name), state, ..Container::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::price::KEPT_WORD_BYTES_MAX;

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
    fn all_conditions_of_a_pod_are_kept_once_it_has_failed_or_goes() {
        let all = ["Initialized", "Ready", "ContainersReady", "PodScheduled", "DisruptionTarget"];
        let running = ["Ready", "PodScheduled", "DisruptionTarget"];
        let conditions: Vec<Value> =
            all.iter().map(|kind| json!({"type": kind, "status": "False"})).collect();
        let due = json!("2026-01-01T00:00:00Z");
        for (phase, due, want) in [
            ("Pending", json!(null), &running[..]),
            ("Running", json!(null), &running),
            ("Succeeded", json!(null), &running),
            ("Failed", json!(null), &all),
            ("Running", due, &all),
        ] {
            let record = PodRecord::of(&seen(&json!({
                "metadata": {"name": "p", "deletionTimestamp": due},
                "status": {"phase": phase, "conditions": conditions},
            })));
            let kept: Vec<&str> =
                record.pod.conditions.iter().map(|one| one.kind.as_str()).collect();
            assert_eq!(kept, want, "{phase} {due}");
        }
    }

    #[test]
    fn a_pod_that_failed_had_failed_when_its_status_was_written() {
        let written =
            |subresource: &str, second: &str| json!({"subresource": subresource, "time": second});
        let [start, early, late] = ["00", "10", "20"].map(|it| format!("2026-01-01T00:00:{it}Z"));
        let writes = json!([
            written("status", &early), written("status", &late), {"time": "2026-01-01T00:00:30Z"},
        ]);
        let one = json!([{"name": "c", "state": {"terminated": {"exitCode": 1}}}]);
        for (phase, writes, containers, want) in [
            ("Failed", &writes, &one, Some(&late)),
            ("Failed", &writes, &json!([]), Some(&start)),
            ("Failed", &json!([]), &one, None),
            ("Failed", &json!([]), &json!([]), Some(&start)),
            ("Running", &writes, &one, None),
        ] {
            let record = PodRecord::of(&seen(&json!({
                "metadata": {"name": "p", "managedFields": writes},
                "status": {"phase": phase, "startTime": start, "containerStatuses": containers},
            })));
            let want: Option<Timestamp> = want.map(|it| it.parse().unwrap());
            assert_eq!(record.pod.failed_by, want, "{phase} {containers}");
        }
    }

    #[test]
    fn the_end_of_a_container_is_told_by_the_clock_of_the_api_server() {
        let time = |second: i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        // when the pod was created and bound, and when its kubelet started it
        for (created, bound, started, ended, want) in [
            (0, Some(5), Some(6), 20, 20),
            (0, Some(5), Some(4), 20, 20),
            (0, Some(5), Some(-65), -50, 20),
            (0, None, Some(-70), -50, 20),
            (0, Some(5), Some(66), 80, 80),
            (0, Some(5), None, 20, 20),
        ] {
            let told = format!("{created} {bound:?} {started:?}");
            let state = |name: &str, second: i64| {
                let end = json!({"exitCode": 1, "finishedAt": time(second).to_string()});
                json!({"name": name, "state": {"terminated": end}})
            };
            let condition = bound.map(|bound| {
                let since = time(bound).to_string();
                json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": since})
            });
            let record = PodRecord::of(&seen(&json!({
                "metadata": {"name": "p", "creationTimestamp": time(created).to_string()},
                "status": {
                    "phase": "Failed", "conditions": condition.into_iter().collect::<Vec<_>>(),
                    "startTime": started.map(|started| time(started).to_string()),
                    "initContainerStatuses": [state("i", ended - 1)],
                    "containerStatuses": [state("c", ended)],
                },
            })));
            let ends: Vec<_> = record.pod.terminated().map(|(_, end)| end.finished_at).collect();
            assert_eq!(ends, [Some(time(want - 1)), Some(time(want))], "{told}");
        }
    }

    /// A node whose clock was behind by 70 s when the pod started, and may have been corrected before it ended.
    #[test]
    fn an_end_is_not_set_forward_past_the_write_that_reports_it() {
        let time = |second: i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        let read = |ended: i64, written: Option<i64>| {
            let write = |at: i64| json!({"subresource": "status", "time": time(at).to_string()});
            let end = json!({"exitCode": 0, "finishedAt": time(ended).to_string()});
            Arc::new(PodRecord::of(&seen(&json!({
                "metadata": {
                    "name": "p", "uid": "u", "creationTimestamp": time(5).to_string(),
                    "managedFields": written.map(write).into_iter().collect::<Vec<_>>(),
                },
                "status": {
                    "phase": "Succeeded", "startTime": time(-65).to_string(),
                    "containerStatuses": [{"name": "c", "state": {"terminated": end}}],
                },
            }))))
        };
        let end = |record: &PodRecord| record.pod.terminated().find_map(|(_, end)| end.finished_at);
        for (ended, written, want) in
            [(-50, Some(21), 20), (20, Some(21), 21), (20, Some(19), 20), (20, None, 90)]
        {
            assert_eq!(end(&read(ended, written)), Some(time(want)), "{ended} {written:?}");
        }
        let again = read(20, Some(60)).after(&read(20, Some(21)));
        assert_eq!(end(&again), Some(time(21)), "its status is written once more");
    }

    #[test]
    fn a_pod_that_was_rejected_failed_when_its_kubelet_started_it() {
        let time = |second: i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        let write = |at: i64| json!({"subresource": "status", "time": time(at).to_string()});
        for (started, written, want) in
            [(6, Some(7), 6), (-65, Some(7), 5), (66, Some(7), 7), (66, None, 66)]
        {
            let record = PodRecord::of(&seen(&json!({
                "metadata": {
                    "name": "p", "creationTimestamp": time(5).to_string(),
                    "managedFields": written.map(write).into_iter().collect::<Vec<_>>(),
                },
                "status": {"phase": "Failed", "startTime": time(started).to_string()},
            })));
            assert_eq!(record.pod.failed_by, Some(time(want)), "{started} {written:?}");
        }
    }

    #[test]
    fn the_resources_of_a_pod_have_a_bound() {
        let of = |count: usize| {
            let limits: BTreeMap<String, u32> =
                (0..count).map(|i| (format!("x.com/{i:05}"), 1)).collect();
            PodRecord::of(&seen(&json!({"metadata": {"name": "p"}, "spec": {"containers": [
                {"name": "c", "resources": {"limits": limits}}]}})))
        };
        for (count, want) in
            [(0, 0), (POD_RESOURCES_MAX, POD_RESOURCES_MAX), (18_000, POD_RESOURCES_MAX)]
        {
            assert_eq!(of(count).pod.resources.len(), want, "{count}");
        }
    }

    #[test]
    fn the_texts_of_a_pod_have_a_bound() {
        let of = |status: &Value| {
            PodRecord::of(&seen(&json!({"metadata": {"name": "p"}, "status": status}))).pod
        };
        let (long, message) = ("é".repeat(350 << 10), KEPT_MESSAGE_BYTES_MAX);
        let told = json!({"reason": long, "message": long});
        let mut ended = told.clone();
        ended["exitCode"] = 1.into();
        let container = |state: Value| json!({"name": long, "state": state});
        let state = |pod: &Pod| match &pod.containers[0].state {
            ContainerState::Waiting { reason, message }
            | ContainerState::Terminated(Termination { reason, message, .. }) => {
                [reason, message].map(String::len)
            }
            ContainerState::Unknown | ContainerState::Running => panic!("{pod:?}"),
        };
        for (what, status) in [
            ("waiting", json!({"containerStatuses": [container(json!({"waiting": told}))]})),
            (
                "terminated",
                json!({"initContainerStatuses": [container(json!({"terminated": ended}))]}),
            ),
        ] {
            let pod = of(&status);
            assert_eq!(state(&pod), [KEPT_WORD_BYTES_MAX, message], "{what}");
            assert_eq!(pod.containers[0].name.len(), KEPT_WORD_BYTES_MAX, "{what}");
        }
        let pod = of(&told);
        let own = [pod.reason, pod.message].map(|text| text.unwrap().len());
        assert_eq!(own, [KEPT_WORD_BYTES_MAX, message]);
        let condition = json!({"type": long, "status": long, "reason": long, "message": long});
        let pod = of(&json!({"conditions": [condition]}));
        let PodCondition { kind, status, reason, message: text, .. } = &pod.conditions[0];
        let lengths = [kind, status, reason, text].map(String::len);
        let word = KEPT_WORD_BYTES_MAX;
        assert_eq!(lengths, [word, word, word, message]);
    }

    #[test]
    fn the_containers_conditions_and_messages_of_a_pod_have_a_bound() {
        let waiting = json!({"name": "c", "state": {"waiting": {"message": "m".repeat(5 << 10)}}});
        let condition = json!({"type": "Ready", "message": "m"});
        for (init, main, conditions, want) in [
            (1, 2, 3, (3, 3, 3 * KEPT_MESSAGE_BYTES_MAX + 3)),
            (200, 200, 40, (POD_CONTAINERS_MAX, POD_CONDITIONS_MAX, POD_MESSAGES_BYTES_MAX)),
        ] {
            let status = json!({
                "initContainerStatuses": vec![&waiting; init],
                "containerStatuses": vec![&waiting; main],
                "conditions": vec![&condition; conditions],
            });
            let object = json!({"metadata": {"name": "p"}, "status": status});
            let pod = PodRecord::of(&seen(&object)).pod;
            let told = pod.containers.iter().map(|one| match &one.state {
                ContainerState::Waiting { message, .. } => message.len(),
                ContainerState::Unknown
                | ContainerState::Running
                | ContainerState::Terminated(_) => panic!("{one:?}"),
            });
            let of_conditions = pod.conditions.iter().map(|one| one.message.len());
            let bytes: usize = told.chain(of_conditions).sum();
            assert_eq!((pod.containers.len(), pod.conditions.len(), bytes), want, "{init} {main}");
            assert_eq!(pod.containers.iter().filter(|one| one.init).count(), init);
        }
    }

    #[test]
    fn pods_that_ask_for_the_same_resources_share_their_names() {
        let of = |names: &[&str]| {
            let requests: BTreeMap<&str, &str> = names.iter().map(|name| (*name, "1")).collect();
            let record = PodRecord::of(&seen(&json!({"metadata": {"name": "p"}, "spec": {
                "containers": [{"name": "c", "resources": {"requests": requests}}]}})));
            record.pod.resources
        };
        let (first, other) = (of(&["cpu", "memory"]), of(&["cpu"]));
        assert!(first.iter().eq(["cpu", "memory"]) && other.iter().eq(["cpu"]));
        assert!(Arc::ptr_eq(&first, &of(&["memory", "cpu"])), "the last but one");
        assert!(Arc::ptr_eq(&other, &of(&["cpu"])));
        for number in 0..SHARED_SETS {
            of(&[format!("x.com/{number}").as_str()]);
        }
        assert_eq!(of(&["cpu"]), other);
        assert!(!Arc::ptr_eq(&other, &of(&["cpu"])), "only a few are kept");
    }

    #[test]
    fn the_end_of_a_message_is_trimmed() {
        let container = |state: serde_json::Value| json!({"name": "c", "state": state});
        let record = PodRecord::of(&seen(&json!({"metadata": {"name": "p"}, "status": {
            "message": "was low on memory. ",
            "initContainerStatuses": [container(json!({"waiting": {"reason": "R", "message": " a\n"}}))],
            "containerStatuses": [container(json!({"terminated": {"exitCode": 3, "message": "a\n b\r\n"}}))],
        }})));
        assert_eq!(record.pod.message.as_deref(), Some("was low on memory."));
        let ContainerState::Waiting { message, .. } = &record.pod.containers[0].state else {
            panic!("{record:?}")
        };
        assert_eq!(message, " a");
        let (_, end) = record.pod.terminated().next().unwrap();
        assert_eq!(end.message, "a\n b");
        let blank = format!("m{}", " ".repeat(700 << 10));
        let status = json!({"message": blank});
        let record = PodRecord::of(&seen(&json!({"metadata": {"name": "p"}, "status": status})));
        let kept = record.pod.message.unwrap();
        assert_eq!((kept.as_str(), kept.capacity()), ("m", 1), "no more memory than it takes");
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
            let record = PodRecord::of(&seen(&json!({"metadata": meta})));
            assert_eq!(record.is_over, want, "{meta}");
            let grace = meta["deletionGracePeriodSeconds"].as_i64();
            assert_eq!(record.pod.held_by_finalizers, grace == Some(0), "{meta}");
            let requested =
                record.pod.due_to_go.zip(grace).map(|(due, grace)| due.as_second() - grace);
            assert_eq!(
                record.pod.deletion_requested.map(Timestamp::as_second),
                requested,
                "{meta}"
            );
        }
    }

    #[test]
    fn a_pod_that_cannot_be_read_concludes_nothing() {
        let record = PodRecord::of(&seen(&json!({"metadata": {"name": "p"}, "status": 7})));
        assert_eq!(record.pod.phase, PodPhase::Pending);
        assert_eq!(record.identity.name, "p");
        // a time that only Go can read, which whoever may change the pod may write
        let far = json!([{"subresource": "status", "time": "9999-12-31T23:59:59Z"}]);
        for (status, want) in
            [(json!(7), PodPhase::Pending), (json!({"phase": "Running"}), PodPhase::Running)]
        {
            let metadata = json!({"name": "p", "uid": "u", "managedFields": far});
            let record = PodRecord::of(&seen(&json!({"metadata": metadata, "status": status})));
            assert_eq!(record.pod.phase, want, "{status}");
            assert_eq!((record.identity.name.as_str(), record.identity.uid.as_str()), ("p", "u"));
        }
    }
}
