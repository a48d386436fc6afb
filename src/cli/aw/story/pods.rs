//! The lives of pods, as far as their objects tell.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use crate::observe::pod_record::PodRecord;
use crate::observe::raw_object::RawObject;
use crate::snapshot::{Pod, PodPhase};

/// The life of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Life {
    pub name: String,
    pub uid: String,
    /// Indexes of its component and of its pod set in it.
    pub pod_set: Option<(usize, usize)>,
    pub node: Option<String>,
    pub created: Timestamp,
    /// When its first container started.
    pub started: Option<Timestamp>,
    /// When its last container ended, once the pod is over.
    pub ended: Option<Timestamp>,
    /// When its deletion was asked for.
    pub deleting: Option<Timestamp>,
    /// When it was gone; none where it exists, or where that is not known.
    pub gone: Option<Timestamp>,
    pub failed: bool,
    /// Its phase and its node, in words.
    pub state: String,
}

/// The part of a pod that has times which decisions do not need.
#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanPod {
    status: LeanStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LeanStatus {
    start_time: Option<Timestamp>,
    container_statuses: Vec<LeanContainer>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LeanContainer {
    state: LeanState,
    /// How it was before its last restart.
    last_state: LeanState,
    restart_count: i32,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanState {
    running: Option<LeanTimes>,
    terminated: Option<LeanTimes>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LeanTimes {
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

impl LeanStatus {
    /// When its first container started. Of one that restarted more than once, no container says so: that was after
    /// `startTime`.
    fn started(&self) -> Option<Timestamp> {
        let first = |container: &LeanContainer| {
            let now = container.state.started();
            let before = container.last_state.started().or(now);
            match container.restart_count {
                ..=0 => now,
                1 => before,
                2.. => self.start_time.or(before),
            }
        };
        self.container_statuses.iter().filter_map(first).min()
    }
}

impl LeanState {
    fn times(&self) -> impl Iterator<Item = &LeanTimes> {
        [&self.running, &self.terminated].into_iter().flatten()
    }

    fn started(&self) -> Option<Timestamp> {
        self.times().find_map(|times| times.started_at)
    }
}

/// The lives of the pods of an AppWrapper, of those that exist.
pub(super) fn lives<'o>(pods: &[Pod], objects: impl Iterator<Item = &'o RawObject>) -> Vec<Life> {
    let by_uid: BTreeMap<&str, &RawObject> =
        objects.filter_map(|seen| Some((seen.meta.uid.as_deref()?, seen))).collect();
    let of = |pod: &Pod| Some(life(pod, by_uid.get(pod.uid.as_str())?));
    pods.iter().filter_map(of).collect()
}

/// The life of a pod that is gone, by its last state.
pub(in crate::cli) fn past(seen: &RawObject, gone: Timestamp) -> Life {
    let record = PodRecord::of(seen);
    let mut pod = record.pod;
    pod.component = record.pod_set.map(|(component, _)| component);
    pod.pod_set = record.pod_set.map(|(_, set)| set);
    Life { gone: Some(gone), ..life(&pod, seen) }
}

fn life(pod: &Pod, seen: &RawObject) -> Life {
    // one that cannot be read says nothing
    let lean: LeanPod = serde_json::from_str(seen.raw.get()).unwrap_or_default();
    let containers = lean.status.container_statuses.iter();
    let finished = containers.flat_map(|container| container.state.times());
    let deleting = pod.deletion_requested.or(pod.due_to_go);
    let is_over = match pod.phase {
        PodPhase::Succeeded | PodPhase::Failed => true,
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => false,
    };
    let ended = finished.filter_map(|times| times.finished_at).max().filter(|_| is_over);
    // one that is being deleted fails because of that
    let was_deleted = deleting.is_some_and(|at| ended.is_none_or(|ended| at <= ended));
    let on = pod.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    Life {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        pod_set: pod.component.zip(pod.pod_set),
        node: pod.node.clone(),
        created: pod.created.unwrap_or_default(),
        started: lean.status.started().or_else(|| ran_from(pod)),
        ended,
        deleting,
        gone: None,
        failed: pod.phase == PodPhase::Failed && !was_deleted || pod.lost.is_some(),
        state: format!("{}{on}", pod.phase.as_str()),
    }
}

/// When a pod ran, where no container says when it started: since it was ready, at the latest.
fn ran_from(pod: &Pod) -> Option<Timestamp> {
    match pod.phase {
        PodPhase::Pending | PodPhase::Unknown => None,
        PodPhase::Running | PodPhase::Succeeded | PodPhase::Failed => {
            pod.true_condition("Ready").and_then(|ready| ready.since).or(pod.created)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_life_is_read_from_the_object() {
        let moment = |second: i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        let pod = json!({
            "metadata": {"name": "w-0", "uid": "u", "creationTimestamp": moment(0),
                "deletionTimestamp": moment(60), "deletionGracePeriodSeconds": 30},
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Failed", "containerStatuses": [
                {"name": "a", "state": {"terminated": {"exitCode": 1,
                    "startedAt": moment(5), "finishedAt": moment(20)}}},
                {"name": "b", "state": {"terminated": {"exitCode": 0,
                    "startedAt": moment(7), "finishedAt": moment(25)}}},
            ]},
        });
        let seen: RawObject = serde_json::from_str(&pod.to_string()).unwrap();
        let life = past(&seen, moment(61));
        let want = Life {
            name: "w-0".into(),
            uid: "u".into(),
            node: Some("node-1".into()),
            created: moment(0),
            started: Some(moment(5)),
            ended: Some(moment(25)),
            deleting: Some(moment(30)),
            gone: Some(moment(61)),
            failed: true,
            state: "Failed on node-1".into(),
            ..Life::default()
        };
        assert_eq!(life, want);
        let pods = [PodRecord::of(&seen).pod];
        assert_eq!(lives(&pods, [&seen].into_iter())[0].gone, None);
        assert_eq!(lives(&pods, [].into_iter()), []);
        for (count, want) in [(0, 40), (1, 20), (2, 3)] {
            let pod = json!({
                "metadata": {"name": "w-0", "uid": "u", "creationTimestamp": moment(0)},
                "status": {"phase": "Running", "startTime": moment(3), "containerStatuses": [{
                    "name": "a", "restartCount": count,
                    "state": {"running": {"startedAt": moment(40)}},
                    "lastState": {"terminated": {"exitCode": 1, "startedAt": moment(20),
                        "finishedAt": moment(30)}}}]},
            });
            let seen: RawObject = serde_json::from_str(&pod.to_string()).unwrap();
            let all = lives(&[PodRecord::of(&seen).pod], [&seen].into_iter());
            assert_eq!(all[0].started, Some(moment(want)), "{count} restarts");
        }
    }
}
