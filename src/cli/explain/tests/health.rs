//! The rows of the table of health: what is seen, how long it waits, and its anchors.

use serde_json::{Value, json};

use super::{at, explain, explain_with, job, line, pod, tuned, two, with, wrapper};

const FIELDS: [&str; 5] = ["/nextPhase", "/action", "/reason", "/deadline", "/failure/pod"];

fn running(pods: &[Value]) -> Vec<Value> {
    [&[wrapper("Running"), job()], pods].concat()
}

fn ready(mut objects: Vec<Value>, status: &str, reason: &str, since: i64) -> Vec<Value> {
    let conditions = objects[0]["status"]["conditions"].as_array_mut().expect("conditions");
    conditions.push(json!({"type": "PodsReady", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": at(since)}));
    objects
}

#[test]
fn what_waits_and_until_when() {
    let failed = || running(&[pod("w-0", "Failed", 3), pod("w-1", "Running", 0)]);
    let pending = || running(&[pod("w-0", "Pending", 0), pod("w-1", "Running", 0)]);
    let one = || running(&[pod("w-0", "Running", 0)]);
    let made_up = || [running(&[pod("w-x", "Failed", 3)]), two()].concat();
    let deleted = || with(pod("w-0", "Running", 0), "/metadata/deletionTimestamp", json!(at(5)));
    let terminating = || running(&[deleted(), pod("w-1", "Running", 0)]);
    let reason = "InsufficientPodsReady";
    for (what, objects, second, want) in [
        ("a failed pod", failed(), 30, format!("Running Wait FoundFailedPods {} w-0", at(80))),
        ("… its grace is over", failed(), 80, "Resetting Restart FoundFailedPods null w-0".into()),
        ("… and was made up for", made_up(), 500, "Running None null null -".into()),
        ("too few pods", one(), 30, format!("Running Wait {reason} {} null", at(120))),
        ("… for too long", one(), 120, format!("Resetting Restart {reason} null null")),
        ("pods that do not run", pending(), 30, format!("Running Wait {reason} {} w-0", at(360))),
        ("… for too long", pending(), 360, format!("Resetting Restart {reason} null w-0")),
        (
            "lost while we were down",
            ready(pending(), "True", "SufficientPodsReady", 5),
            5000,
            format!("Running Wait {reason} {} w-0", at(5360)),
        ),
        (
            "lost before",
            ready(pending(), "False", reason, 4000),
            4100,
            format!("Running Wait {reason} {} w-0", at(4360)),
        ),
        (
            "never ready",
            ready(pending(), "False", "Resuming", 200),
            300,
            format!("Running Wait {reason} {} w-0", at(360)),
        ),
        (
            "a Terminating pod stops the clock, until forcefulDeletionGracePeriod is over",
            terminating(),
            604,
            format!("Running Wait StuckTerminating {} w-0", at(605)),
        ),
        (
            "… and then counts as failed",
            terminating(),
            605,
            "Resetting Restart StuckTerminating null w-0".into(),
        ),
    ] {
        assert_eq!(line(&explain(&objects, second), &FIELDS), want, "{what}");
    }
}

#[test]
fn a_missing_job_is_reported_with_its_failed_pod() {
    let created = || with(wrapper("Running"), "/status/componentStatus/0/uid", json!("job-uid"));
    let rest = ["/reason", "/failure/component", "/failure/pod", "/failure/exitCode"];
    let alone = explain(&[created()], 30);
    assert_eq!(line(&alone, &rest), "MissingComponent work null null");
    let beside = explain(&[created(), pod("w-0", "Failed", 3)], 30);
    assert_eq!(line(&beside, &rest), "MissingComponent work w-0 3");
    let message = line(&beside, &["/message"]);
    let want =
        "Job/work no longer exists; pod w-0 on node node-1: container main exited with code 3";
    assert!(message.starts_with(want), "{message}");
}

#[test]
fn every_period_can_be_tuned_and_a_malformed_one_is_the_default() {
    let pending = || [pod("w-0", "Pending", 0), pod("w-1", "Running", 0)].to_vec();
    let failed = || [pod("w-0", "Failed", 3), pod("w-1", "Running", 0)].to_vec();
    for (key, value, pods, deadline) in [
        ("failureGracePeriodDuration", "10s", failed(), 30),
        ("failureGracePeriodDuration", "5 days", failed(), 80),
        ("failureGracePeriodDuration", "10s", pending(), 310),
        ("warmupGracePeriodDuration", "100s", pending(), 160),
        ("admissionGracePeriodDuration", "1.5m", two()[..1].to_vec(), 150),
        ("admissionGracePeriodDuration", "-1h", two()[..1].to_vec(), 120),
    ] {
        let objects = [vec![tuned(wrapper("Running"), key, value), job()], pods].concat();
        let answer = explain(&objects, 21);
        assert_eq!(
            line(&answer, &["/action", "/deadline"]),
            format!("Wait {}", at(deadline)),
            "{key}"
        );
    }
}

#[test]
fn a_pod_of_a_stranger_is_not_looked_at() {
    let mut stranger = pod("stray", "Failed", 1);
    stranger["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "name": "r", "uid": "r-uid", "controller": true}]);
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "r", "namespace": "ns", "uid": "r-uid"}});
    let objects = [running(&two()), vec![stranger.clone(), set]].concat();
    assert_eq!(line(&explain(&objects, 500), &FIELDS), "Running None null null -");
    let alone = with(stranger, "/metadata/ownerReferences", json!([]));
    let objects = [running(&two()), vec![alone]].concat();
    assert_eq!(line(&explain(&objects, 500), &FIELDS), "Running None null null -");
}

#[test]
fn a_pod_is_known_by_the_owners_that_are_in_the_bundle() {
    let owned = |object: Value, name: &str| {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name,
            "uid": format!("{name}-uid"), "controller": true}]);
        with(object, "/metadata/ownerReferences", owner)
    };
    let set = |name: &str| {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "ns", "uid": format!("{name}-uid")}})
    };
    let failed = pod("w-0", "Failed", 3);
    let job = failed["metadata"]["ownerReferences"].clone();
    let top = with(set("top"), "/metadata/ownerReferences", job);
    let pods = [owned(failed, "low"), pod("w-1", "Running", 0), owned(set("low"), "top"), top];
    let want = format!("Running Wait FoundFailedPods {} w-0", at(80));
    assert_eq!(line(&explain(&running(&pods), 30), &FIELDS), want);
}

#[test]
fn a_pod_whose_owner_is_gone_still_holds_the_deletion_up() {
    let mut orphan = pod("w-0", "Running", 0);
    orphan["metadata"]["labels"]["workload.codeflare.dev/appwrapper-uid"] = json!("aw-uid");
    let answer = explain(&[wrapper("Resetting"), orphan], 30);
    assert_eq!(line(&answer, &["/action", "/deadline"]), format!("Wait {}", at(600)));
}

#[test]
fn a_node_that_is_marked_is_left_without_a_count() {
    let mut pods = two();
    pods[0]["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1",
        "labels": {"autopilot.ibm.com/gpuhealth": "EVICT"}}});
    let objects = [running(&pods), vec![node]].concat();
    let fields = ["/nextPhase", "/action", "/reason", "/counted", "/rule", "/failure/node"];
    let want = "Resetting RestartIgnoringLimit AutopilotNoExecute false null node-1";
    assert_eq!(line(&explain(&objects, 30), &fields), want);
    let off = explain_with("{autopilot: {monitorNodes: false}}", &objects, 30);
    assert_eq!(line(&off, &["/action"]), "None");
}

#[test]
fn pods_on_a_lost_node_have_failed_and_a_node_that_is_not_in_the_bundle_is_unknown() {
    let ready =
        |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": at(20)}]);
    let node = |name: &str, status: &str| {
        json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name}, "status": {"conditions": ready(status)}})
    };
    let fields = ["/action", "/reason", "/deadline", "/failure/reason", "/failure/category"];
    let nothing = "None null null - -";
    let lost = |reason: &str| format!("Wait FoundFailedPods {} {reason} node", at(80));
    let out = with(
        node("node-1", "Unknown"),
        "/spec",
        json!({"taints": [
        {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}),
    );
    for (nodes, want) in [
        (vec![], nothing.to_owned()),
        (vec![node("node-9", "True")], nothing.to_owned()),
        (vec![node("node-1", "True")], nothing.to_owned()),
        (vec![node("node-1", "False")], lost("NodeNotReady")),
        (vec![node("node-1", "Unknown")], lost("NodeUnreachable")),
        (vec![out], lost("NodeOutOfService")),
    ] {
        let objects = [running(&two()), nodes].concat();
        assert_eq!(line(&explain(&objects, 30), &fields), want);
        let off = explain_with("{autopilot: {monitorNodes: false}}", &objects, 30);
        assert_eq!(line(&off, &["/action"]), "None");
    }
}

#[test]
fn a_job_with_more_completions_than_pods_at_a_time_is_judged_by_itself() {
    let mut objects = running(&[pod("w-0", "Succeeded", 0), pod("w-1", "Running", 0)]);
    objects[1]["spec"]["completions"] = json!(5);
    objects[1]["status"] = json!({"succeeded": 1, "active": 1});
    // four are left, so two must run
    let answer = explain(&ready(objects.clone(), "True", "SufficientPodsReady", 5), 30);
    assert_eq!(line(&answer, &["/action", "/reason"]), "Wait InsufficientPodsReady");
    objects[1]["status"]["succeeded"] = json!(4);
    let answer = explain(&ready(objects, "True", "SufficientPodsReady", 5), 30);
    assert_eq!(line(&answer, &["/action", "/reason"]), "None null");
}
