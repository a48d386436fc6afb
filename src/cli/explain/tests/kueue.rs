//! The Workload of the bundle, and nodes that only the controller knows.

use serde_json::{Value, json};

use super::{at, explain, explain_with, job, line, pod, with, wrapper};

fn queued(phase: &str) -> Value {
    with(wrapper(phase), "/metadata/labels", json!({"kueue.x-k8s.io/queue-name": "q"}))
}

/// The active Workload of the AppWrapper, which holds quota.
fn workload(unhealthy_nodes: &[&str]) -> Value {
    let nodes: Vec<Value> = unhealthy_nodes.iter().map(|name| json!({"name": name})).collect();
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ns", "uid": "w-uid", "ownerReferences": [{
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "aw",
            "uid": "aw-uid", "controller": true,
        }]},
        "spec": {"active": true},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}], "unhealthyNodes": nodes,
        },
    })
}

#[test]
fn the_workload_of_the_bundle_is_the_one_that_is_deactivated() {
    let since = json!({"deleting": at(0), "gone": at(10)});
    let returning = with(queued("Resetting"), "/status/since", since);
    let requeue = json!({"attempt": 0, "activeAfter": at(20)});
    let attempt =
        json!([{"attempt": 0, "startedAt": at(0), "endedAt": at(10), "action": "Requeue"}]);
    let returning = with(returning, "/status/attempts", attempt);
    let mut returning = with(returning, "/status/requeue", requeue);
    returning["status"]["conditions"][1] = json!({"type": "ResourcesDeployed", "status": "False", "reason": "Test",
        "message": "", "lastTransitionTime": at(10)});
    let said =
        |objects: &[Value]| line(&explain(objects, 500), &["/nextPhase", "/action", "/message"]);
    let without = said(std::slice::from_ref(&returning));
    assert!(without.starts_with("Resuming Deploy "), "{without}");
    let want = "Resetting Requeue Returning to the queue: Kueue releases the quota";
    assert_eq!(said(&[returning, workload(&[])]), want);
}

/// A pod was deleted with its node.
fn lost_pod() -> Value {
    let condition = json!([{"type": "DisruptionTarget", "status": "True",
        "reason": "DeletionByTaintManager", "lastTransitionTime": at(19)}]);
    with(pod("w-0", "Failed", 143), "/status/conditions", condition)
}

#[test]
fn while_kueue_replaces_a_failed_node_its_failure_waits() {
    for (nodes, want) in
        [(None, "Resetting"), (Some(vec![]), "Resetting"), (Some(vec!["node-1"]), "Running")]
    {
        let mut objects = vec![queued("Running"), job(), lost_pod(), pod("w-1", "Running", 0)];
        objects.extend(nodes.as_deref().map(workload));
        let answer = explain(&objects, 80);
        assert_eq!(answer["nextPhase"], want, "{nodes:?}: {answer}");
    }
}

#[test]
fn that_suspect_nodes_are_not_read_is_said_before_an_attempt() {
    let resumed = |phase| with(wrapper(phase), "/spec/suspend", json!(false));
    for (phase, settings, want) in [
        ("Suspended", "{}", true),
        ("Suspended", "{nodeSuspicion: {effect: 'Off'}}", false),
        ("Resuming", "{}", false),
        ("", "{}", false),
    ] {
        let answer = explain_with(settings, &[resumed(phase)], 1);
        assert_eq!(answer["nextPhase"], "Resuming", "{phase} {answer}");
        let notes = answer["notes"].to_string();
        assert_eq!(notes.contains("suspect nodes are chosen"), want, "{phase} {settings}: {notes}");
    }
}
