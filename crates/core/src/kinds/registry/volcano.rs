//! `batch.volcano.sh/v1alpha1`, as Volcano 1.15 serves it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::infer::pod_set;
use super::super::node::Node;
use super::super::status::{Object, by_name};
use super::{End, Error, Kind, Rules, pod_set_indexes};
use crate::api::{PodSet, keys};
use crate::snapshot::{Expected, Outcome, Report};

const TASKS: &str = "/spec/tasks";

/// Label by which Volcano numbers the pods of a task.
const TASK_INDEX: &str = "volcano.sh/task-index";

pub(super) const KINDS: &[Kind] = &[Kind {
    api_version: "batch.volcano.sh/v1alpha1",
    kind: "Job",
    plural: "jobs",
    // its PodGroup owns no pods
    makes: &[],
    end: End::Reported,
    adds_containers: false,
    recreates: false,
    reads: &[],
    rules: &VolcanoJob,
}];

/// `replicas` (0) of each task, as Volcano leaves it where it is not set.
#[derive(Debug)]
struct VolcanoJob;

impl Rules for VolcanoJob {
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        let mut pod_sets = Vec::new();
        for task in template.walk(&["spec", "tasks"])?.items()? {
            let replicas = task.field("replicas")?;
            let count = replicas.count()?.unwrap_or(0);
            let annotations = [(keys::TAS_POD_INDEX, TASK_INDEX.to_owned())];
            pod_sets.push(pod_set(task.field("template")?.path(), count, &replicas, annotations)?);
        }
        Ok(pod_sets)
    }

    fn report(&self, object: Object<'_>, pod_sets: &[PodSet], report: &mut Report) {
        report.outcome = outcome(object);
        // Volcano creates no pod before the queue of the PodGroup admits it, nor one of a task before those that it names
        report.in_order = true;
        let phase = object.text("/status/state/phase");
        let begun = match phase {
            "" | "Pending" | "Running" => true,
            // its own restart, or its end: the pods are being deleted
            _ => false,
        };
        // A policy such as CompleteJob or AbortJob deletes them, whatever they did. Volcano calls a Job that restarts Pending
        // as soon as few enough of its pods are Terminating.
        let restarts = phase == "Pending" && object.count("/status/retryCount").unwrap_or(0) > 0;
        report.deletes_pods = restarts || !begun;
        let up = by_name(object, TASKS).into_iter().map(|(name, task)| (name, is_up(object, task)));
        let up = up.collect();
        let indexes = pod_set_indexes(pod_sets);
        for (number, task) in object.array(TASKS).iter().map(Object).enumerate() {
            let path = format!("template.spec.tasks[{number}].template");
            let Some(&index) = indexes.get(path.as_str()) else { continue };
            // a policy of the Job may end it at the first failure
            report.perhaps_unreplaced.insert(index);
            let expected = if begun && has_started(object, task, &up) {
                let replicas = task.count("/replicas").unwrap_or(0);
                let succeeded = in_phase(object, task.text("/name"), "Succeeded");
                Expected { succeeded, ..Expected::pods(replicas) }
            } else {
                report.unstarted.insert(index);
                Expected::default()
            };
            report.expected.insert(index, expected);
        }
    }
}

/// How it ended. An aborted Job can be resumed, but only by a command: without one it has failed.
fn outcome(object: Object<'_>) -> Outcome {
    match object.text("/status/state/phase") {
        "Completed" => Outcome::Succeeded,
        phase @ ("Failed" | "Terminated" | "Aborted") => {
            let reason = object.text("/status/state/reason");
            Outcome::Failed {
                reason: if reason.is_empty() { phase } else { reason }.to_owned(),
                message: object.text("/status/state/message").to_owned(),
                at: object.text("/status/state/lastTransitionTime").parse().ok(),
            }
        }
        _ => Outcome::Active,
    }
}

/// Number of pods of a task in a phase.
fn in_phase(object: Object<'_>, task: &str, phase: &str) -> i64 {
    let counts = object.0.pointer("/status/taskStatusCount").and_then(|all| all.get(task));
    counts.and_then(|counts| Object(counts).count(&format!("/phase/{phase}"))).unwrap_or(0)
}

/// Whether `minAvailable` pods of a task run or have succeeded.
fn is_up(object: Object<'_>, task: Object<'_>) -> bool {
    let name = task.text("/name");
    let least = task.count("/minAvailable").or_else(|| task.count("/replicas")).unwrap_or(0);
    in_phase(object, name, "Running").saturating_add(in_phase(object, name, "Succeeded")) >= least
}

/// Whether Volcano has come to create the pods of a task: `dependsOn` lets it wait until the tasks that it
/// names, all or any of them, are up. Whoever creates the Job chooses how many tasks and names there are, so that
/// whether a task is up is told once.
fn has_started(object: Object<'_>, task: Object<'_>, up: &BTreeMap<&str, bool>) -> bool {
    let made = ["Pending", "Running", "Succeeded", "Failed"];
    if made.iter().any(|phase| in_phase(object, task.text("/name"), phase) > 0) {
        return true;
    }
    let mut names = task.array("/dependsOn/name").iter().filter_map(Value::as_str).peekable();
    let is_up = |name: &str| up.get(name).copied().unwrap_or(true);
    match task.text("/dependsOn/iteration") {
        "any" => names.peek().is_none() || names.any(is_up),
        _ => names.all(is_up),
    }
}

#[cfg(test)]
pub(super) fn given() -> Vec<super::super::testing::Sample> {
    use serde_json::json;

    use super::super::testing::{given_object, given_pod};

    let pod = given_pod();
    let spec = json!({"minAvailable": 3, "tasks": [
        {"name": "master", "replicas": 1, "template": pod},
        {"name": "worker", "replicas": 3, "template": pod},
    ]});
    vec![(
        given_object("batch.volcano.sh/v1alpha1", "Job", &spec),
        vec![("template.spec.tasks[0].template", 1), ("template.spec.tasks[1].template", 3)],
    )]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::{infer, report};

    fn reported(change: impl Fn(&mut Value)) -> Report {
        let (mut object, _) = given().remove(0);
        let pod_sets = infer(&object).expect("it is well formed");
        change(&mut object);
        report("batch.volcano.sh/v1alpha1", "Job", &pod_sets, &object)
    }

    #[test]
    fn its_phase_tells_how_it_ended() {
        let at = "2026-01-01T00:00:01Z";
        let failed = |reason: &str| Outcome::Failed {
            reason: reason.to_owned(),
            message: "m".to_owned(),
            at: at.parse().ok(),
        };
        for (phase, reason, want, pods) in [
            ("", "", Outcome::Active, [1, 3]),
            ("Pending", "", Outcome::Active, [1, 3]),
            ("Running", "", Outcome::Active, [1, 3]),
            ("Restarting", "", Outcome::Active, [0, 0]),
            ("Completing", "", Outcome::Active, [0, 0]),
            ("Completed", "", Outcome::Succeeded, [0, 0]),
            ("Aborting", "", Outcome::Active, [0, 0]),
            ("Terminating", "", Outcome::Active, [0, 0]),
            ("Aborted", "", failed("Aborted"), [0, 0]),
            ("Terminated", "", failed("Terminated"), [0, 0]),
            ("Failed", "", failed("Failed"), [0, 0]),
            ("Failed", "MaxRetry", failed("MaxRetry"), [0, 0]),
        ] {
            let state = json!({"phase": phase, "reason": reason, "message": "m",
                "lastTransitionTime": at});
            let found = reported(|object| object["status"] = json!({ "state": state }));
            assert_eq!(found.outcome, want, "{phase}");
            let running: Vec<i64> = found.expected.values().map(|it| it.running(0)).collect();
            assert_eq!(running, pods, "{phase}");
            let deletes_pods = !["", "Pending", "Running"].contains(&phase);
            assert_eq!(found.deletes_pods, deletes_pods, "{phase}");
        }
    }

    #[test]
    fn its_restart_deletes_pods_until_it_runs_again() {
        for (phase, retries, want) in [
            ("Pending", json!(null), false),
            ("Pending", json!(0), false),
            ("Pending", json!(1), true),
            ("Restarting", json!(1), true),
            ("Running", json!(1), false),
        ] {
            let status = json!({"state": {"phase": phase}, "retryCount": retries});
            let found = reported(|object| object["status"] = status.clone());
            assert_eq!(found.deletes_pods, want, "{status}");
        }
    }

    #[test]
    fn its_queue_lets_pods_wait_and_a_policy_may_end_it() {
        for phase in ["", "Pending", "Running"] {
            let found = reported(|object| object["status"] = json!({"state": {"phase": phase}}));
            assert!(found.in_order, "{phase}");
            assert_eq!(found.perhaps_unreplaced, [0, 1].into(), "{phase}");
        }
    }

    #[test]
    fn a_task_that_waits_for_another_runs_nothing() {
        let counts = |phase: &str, count: i64| json!({"master": {"phase": {phase: count}}});
        let none = json!({});
        for (depends, counts, want) in [
            (json!(null), &none, 3),
            (json!({"name": ["master"]}), &none, 0),
            (json!({"name": ["master"]}), &counts("Pending", 1), 0),
            (json!({"name": ["master"]}), &counts("Running", 1), 3),
            (json!({"name": ["master"]}), &counts("Succeeded", 1), 3),
            (json!({"name": ["master", "worker"]}), &counts("Running", 1), 0),
            (json!({"name": ["master", "worker"], "iteration": "any"}), &counts("Running", 1), 3),
            (json!({"name": ["master"]}), &json!({"worker": {"phase": {"Succeeded": 1}}}), 2),
        ] {
            let found = reported(|object| {
                object["spec"]["tasks"][1]["dependsOn"] = depends.clone();
                object["status"] = json!({"taskStatusCount": counts});
            });
            assert_eq!(found.expected[&1].running(0), want, "{depends} {counts}");
            assert_eq!(found.unstarted.contains(&1), want == 0, "{depends} {counts}");
        }
    }
}
