use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn seen(name: &str, queue: &str, status: &Value) -> RawObject {
    let deleted = (status["phase"] == "Terminating").then(|| at(0));
    let object = json!({
        "metadata": {
            "name": name, "namespace": "ns", "creationTimestamp": at(0),
            "deletionTimestamp": deleted,
            "labels": {"kueue.x-k8s.io/queue-name": queue},
        },
        "spec": {"components": []}, "status": status,
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
           "lastTransitionTime": at(0)})
}

#[test]
fn each_phase_says_what_it_waits_for() {
    let failure = json!({"pod": "p", "container": "main", "exitCode": 3, "reason": "Error"});
    let bad = condition("Unhealthy", "True", "FoundFailedPods", "Pod/p failed");
    let ready = |status: &str, message: &str| condition("PodsReady", status, "R", message);
    let resumed = ready("False", "spec.suspend is false");
    for (queue, status, want) in [
        ("", json!({}), "waiting for the controller"),
        ("gpu", json!({"phase": "Suspended"}), "waiting for admission by queue gpu"),
        ("", json!({"phase": "Suspended"}), "suspended by spec.suspend"),
        ("gpu", json!({"phase": "Suspended", "retryAfter": at(160)}), "restarting in 60s"),
        ("", json!({"phase": "Resuming"}), "creating its components"),
        ("", json!({"phase": "Running"}), "waiting for its pods"),
        ("", json!({"phase": "Running", "conditions": [ready("True", "all")]}), "pods running"),
        ("", json!({"phase": "Running", "conditions": [resumed]}), "waiting for its pods"),
        (
            "",
            json!({"phase": "Running", "conditions": [{"type": "PodsReady", "status": "False",
                "reason": "InsufficientPodsReady", "message": "pod set a-0: 1 of 2 pods",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
            "waiting for its pods: pod set a-0: 1 of 2 pods",
        ),
        (
            "",
            json!({"phase": "Running", "conditions": [ready("True", ""), bad]}),
            "FoundFailedPods: Pod/p failed",
        ),
        (
            "",
            json!({"phase": "Resetting", "retryAfter": at(160), "since": {"gone": at(90)}}),
            "restarting in 60s",
        ),
        (
            "",
            json!({"phase": "Resetting", "retryAfter": at(160)}),
            "waiting until resources of its last attempt are deleted",
        ),
        (
            "",
            json!({"phase": "Resetting", "since": {"gone": at(90)}}),
            "pausing before its next attempt",
        ),
        (
            "",
            json!({"phase": "Resetting"}),
            "waiting until resources of its last attempt are deleted",
        ),
        ("", json!({"phase": "Suspending"}), "waiting until all its resources are deleted"),
        ("", json!({"phase": "Terminating"}), "waiting until all its resources are deleted"),
        ("", json!({"phase": "Succeeded"}), "-"),
        ("", json!({"phase": "Failed", "conditions": [bad]}), "FoundFailedPods: Pod/p failed"),
        (
            "",
            json!({"phase": "Failed", "conditions": [bad], "attempts": [{"attempt": 0, "failure": failure}]}),
            "p/main 3 Error",
        ),
    ] {
        let item = item(&seen("aw", queue, &status), at(100));
        assert_eq!(item.state, want, "{status}");
    }
}

#[test]
fn too_many_pods_are_named_unless_something_is_wrong() {
    let bad = condition("Unhealthy", "True", "FoundFailedPods", "Pod/p failed");
    let well = condition("Unhealthy", "False", "FoundNoFailedPods", "");
    let ready = condition("PodsReady", "True", "R", "all");
    let pods = "Job/j: pod set 0-0 has 3 live pods, but only 2 are declared";
    let over = |status: &str| condition("PodsOverQuota", status, "PodsOverQuota", pods);
    let named = format!("PodsOverQuota: {pods}");
    let named = named.as_str();
    for (conditions, want) in [
        (json!([ready, over("True")]), named),
        (json!([over("True"), well]), named),
        (json!([ready, bad, over("True")]), "FoundFailedPods: Pod/p failed"),
        (json!([ready, over("False")]), "pods running"),
    ] {
        let status = json!({"phase": "Running", "conditions": conditions});
        let item = item_with(&seen("aw", "", &status), usize::MAX, at(100));
        assert_eq!(item.state, want, "{status}");
    }
}

#[test]
fn what_blocks_a_deletion_is_named() {
    let deleting = |status: &str, message: &str| {
        condition("DeletingResources", status, "ForcefulDeletion", message)
    };
    let stuck = "Waiting for Pod/w-0 on node n and 1 more";
    let named = "waiting for the deletion of Pod/w-0 on node n and 1 more";
    let all = "waiting until all its resources are deleted";
    for (phase, condition, want) in [
        ("Resetting", deleting("True", stuck), named),
        ("Suspending", deleting("True", stuck), named),
        ("Terminating", deleting("True", stuck), named),
        ("Succeeded", deleting("True", stuck), named),
        ("Succeeded", deleting("False", ""), "-"),
        ("Failed", deleting("True", stuck), named),
        (
            "Suspending",
            condition("DeletingResources", "True", "UndeterminedPods", "Waiting for Pod/x"),
            "waiting for Pod/x",
        ),
        ("Suspending", deleting("False", stuck), all),
        ("Suspending", deleting("True", "The components are being deleted"), all),
        ("Suspending", deleting("True", ""), all),
    ] {
        let status = json!({"phase": phase, "retryAfter": at(160), "conditions": [condition]});
        assert_eq!(item(&seen("aw", "", &status), at(100)).state, want, "{status}");
    }
}

#[test]
fn who_suspends_it_during_a_reset_is_told_that_it_will_be_suspended() {
    let inactive = json!({"annotations": {keys::ACTIVE: "false"}});
    let deleting = json!({"phase": "Resetting", "retryAfter": at(160)});
    let gone = json!({"phase": "Resetting", "since": {"gone": at(90)}});
    let paused = json!({"phase": "Resetting", "retryAfter": at(160), "since": {"gone": at(90)}});
    let requeued = json!({"phase": "Resetting", "retryAfter": at(160), "requeue": {"attempt": 0}});
    let being = "being suspended; waiting until its resources are deleted";
    for (metadata, suspend, status, want) in [
        (&inactive, false, &deleting, being),
        (&json!({}), true, &deleting, being),
        (&inactive, false, &gone, "suspended by its annotation active"),
        (&inactive, false, &paused, "suspended by its annotation active"),
        (&json!({}), false, &requeued, "returning to its queue"),
        (&json!({}), false, &paused, "restarting in 60s"),
        (&json!({}), false, &deleting, "waiting until resources of its last attempt are deleted"),
    ] {
        let mut object = json!({
            "metadata": metadata, "status": status,
            "spec": {"components": [], "suspend": suspend},
        });
        object["metadata"]["name"] = "aw".into();
        object["metadata"]["namespace"] = "ns".into();
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        let item = item(&seen, at(100));
        assert_eq!(item.state, want, "{object}");
        // the page counts down by itself
        assert_eq!(item.retry_after.is_some(), want.starts_with("restarting"), "{object}");
    }
}

#[test]
fn a_delay_counts_down_only_once_kueue_has_admitted_it() {
    let queue = "waiting for admission by queue gpu";
    let delayed = json!({"phase": "Suspended", "retryAfter": at(160)});
    let over = json!({"phase": "Suspended", "retryAfter": at(90)});
    let requeued = json!({"phase": "Suspended", "retryAfter": at(160), "requeue": {"attempt": 0}});
    for (suspend, status, want) in [
        (true, &delayed, queue),
        (false, &delayed, "restarting in 60s"),
        (false, &over, queue),
        (false, &requeued, "returning to its queue"),
    ] {
        let object = json!({
            "metadata": {"name": "aw", "namespace": "ns", "labels": {keys::QUEUE_NAME: "gpu"}},
            "spec": {"components": [], "suspend": suspend}, "status": status,
        });
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        let item = item(&seen, at(100));
        assert_eq!(item.state, want, "{object}");
        let is_counting = item.retry_after.is_some_and(|after| after > at(100));
        assert_eq!(is_counting, want.starts_with("restarting"), "{object}");
    }
}

#[test]
fn a_manager_cluster_shows_the_state_in_the_worker_cluster() {
    let queue = "waiting for admission by queue gpu";
    let ready = |status: &str| condition("PodsReady", status, "R", "all");
    let few = condition("PodsReady", "False", "InsufficientPodsReady", "1 of 2 pods");
    let bad = condition("Unhealthy", "True", "FoundFailedPods", "Pod/p failed");
    let last = condition("LastFailure", "True", "Fail", "pod p exited with code 3");
    for (status, want) in [
        (json!({}), queue),
        (json!({"phase": "Suspended"}), queue),
        (json!({"phase": "Resuming"}), "creating its components in the worker cluster"),
        (
            json!({"phase": "Running", "conditions": [ready("True"), last]}),
            "pods running in the worker cluster",
        ),
        (
            json!({"phase": "Running", "conditions": [ready("False")]}),
            "waiting for its pods in the worker cluster",
        ),
        (
            json!({"phase": "Running", "conditions": [few]}),
            "waiting for its pods in the worker cluster: 1 of 2 pods",
        ),
        (json!({"phase": "Running", "conditions": [bad]}), "FoundFailedPods: Pod/p failed"),
        (json!({"phase": "Resetting"}), "waiting for its next attempt in the worker cluster"),
        (json!({"phase": "Failed", "conditions": [bad, last]}), "pod p exited with code 3"),
        (json!({"phase": "Failed", "conditions": [bad]}), "FoundFailedPods: Pod/p failed"),
        (json!({"phase": "Succeeded"}), "-"),
    ] {
        let of = |manager: &str, deleted: bool| {
            let object = json!({
                "metadata": {"name": "aw", "namespace": "ns", "annotations": {keys::ACTIVE: "false"},
                    "labels": {keys::QUEUE_NAME: "gpu"}, "finalizers": ["example.com/f"],
                    "deletionTimestamp": deleted.then(|| at(0))},
                "spec": {"components": [], "managedBy": manager}, "status": status,
            });
            let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
            item(&seen, at(100)).state
        };
        assert_eq!(of(keys::MULTIKUEUE, false), want, "{status}");
        let going = "being deleted; waiting for finalizers: example.com/f";
        assert_eq!(of(keys::MULTIKUEUE, true), going, "{status}");
        assert_eq!(of("example.com/other", true), going, "{status}");
        assert_eq!(of("example.com/other", false), "managed by example.com/other", "{status}");
    }
}

#[test]
fn the_annotation_active_does_not_suspend_a_copy_of_multikueue() {
    for (label, want) in [
        (json!({}), "suspended by its annotation active"),
        (json!({keys::MULTIKUEUE_ORIGIN: "multikueue"}), "suspended by spec.suspend"),
    ] {
        let object = json!({
            "metadata": {"name": "aw", "namespace": "ns", "labels": label,
                "annotations": {keys::ACTIVE: "false"}},
            "spec": {"components": []}, "status": {"phase": "Suspended"},
        });
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!(item(&seen, at(100)).state, want);
    }
}

#[test]
fn only_a_table_cuts_the_state() {
    let message = "m".repeat(200);
    let status = json!({"phase": "Running",
        "conditions": [condition("Unhealthy", "True", "R", &message)]});
    let seen = seen("aw", "", &status);
    assert_eq!(item(&seen, at(0)).state.chars().count(), STATE_CHARS_MAX);
    assert_eq!(item_with(&seen, usize::MAX, at(0)).state, format!("R: {message}"));
}

#[test]
fn a_step_that_has_not_begun_is_named() {
    let job = |name: &str| {
        json!({"template": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}})
    };
    let ready = condition("PodsReady", "True", "R", "");
    let deployed = condition("ResourcesDeployed", "True", "R", "");
    let status = |begun: usize| {
        let of = |index: usize| {
            let conditions = if index < begun { vec![deployed.clone()] } else { vec![] };
            json!({"name": "n", "kind": "Job", "apiVersion": "batch/v1",
                "podSets": [{"path": "template.spec.template"}], "conditions": conditions})
        };
        let all = [of(0), of(1)];
        json!({"phase": "Running", "conditions": [ready], "componentStatus": all})
    };
    let spec = json!({"components": [job("init"), job("work")], "executionPolicy": {
        "executionPolicyOrder": "InOrder",
        "rules": [{"targetComponents": ["init"], "waitForComponentsStatus": "Succeeded"}]}});
    for (begun, want) in [(1, "pods running; step 2 of 2 not created yet"), (2, "pods running")] {
        let object = json!({"metadata": {"name": "aw", "namespace": "ns"}, "spec": spec,
            "status": status(begun)});
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!(item(&seen, at(100)).state, want);
    }
}

#[test]
fn the_extended_resource_that_is_held_has_a_column() {
    let quota = |status: &str| condition("QuotaReserved", status, "R", "");
    let of = |name: &str, queue: &str, resource: &str, status: &str| {
        let limits = json!({"cpu": "2", resource: 8});
        let object = json!({
            "metadata": {"name": name, "namespace": "ns", "creationTimestamp": at(0),
                "labels": {keys::QUEUE_NAME: queue}},
            "spec": {"components": [{"template": {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}}]},
            "status": {"phase": "Running", "conditions": [quota(status)]},
        });
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        item(&seen, at(60))
    };
    let gpu = "nvidia.com/gpu";
    let items = [
        of("holds", "gpu", gpu, "True"),
        of("again", "gpu", gpu, "True"),
        of("waits", "gpu", gpu, "False"),
        of("other", "gpu", "a.com/nic", "True"),
        of("alone", "", gpu, "True"),
    ];
    let table = text(&items, false, at(60), false).to_string();
    let column = |line: &str| -> Option<String> {
        let cells = line.split("   ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).nth(RESOURCE_AT - 1)
    };
    let cells: Vec<String> = table.lines().filter_map(column).collect();
    assert_eq!(cells, [gpu, "8", "8", "-", "-", "-"], "{table}");
    let json = serde_json::to_value(&items).unwrap();
    assert_eq!(json[0]["reserved"], json!({gpu: 8.0}));
    assert_eq!(json[2]["reserved"], Value::Null);
    let without = text(&items[2..3], false, at(60), false).to_string();
    assert!(!without.contains(gpu), "nobody holds any: {without}");
    // a user of one namespace chooses any names
    let in_namespace =
        |namespace: &str, item: &Item| Item { namespace: namespace.into(), ..item.clone() };
    let other = in_namespace("busy", &items[3]);
    let held: Vec<Item> = ["a", "b"].map(|name| in_namespace(name, &items[0])).into();
    assert_eq!(most_held(&[held, vec![other; 5]].concat()), Some(gpu));
}

#[test]
fn a_line_has_columns_and_an_object_that_cannot_be_read_has_one_too() {
    let quota = condition("QuotaReserved", "True", "R", "");
    let all = [
        seen(
            "train",
            "gpu",
            &json!({"phase": "Running", "resettingCount": 2, "conditions": [quota]}),
        ),
        seen("odd", "", &json!({"phase": "Paused"})),
        seen(
            "alone",
            "",
            &json!({"phase": "Suspending", "uncountedRestarts": 60, "conditions": [quota]}),
        ),
    ];
    let items: Vec<Item> = all.iter().map(|seen| item(seen, at(130))).collect();
    let table = text(&items, true, at(130), false).to_string();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), TITLES);
    let cells = |line: &'_ str| -> Vec<String> {
        let cells = line.split("   ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    assert_eq!(
        cells(lines[1]),
        ["ns", "train", "Running", "gpu", "2", "reserved", "waiting for its pods", "2m10s"]
    );
    let going = "waiting until all its resources are deleted";
    let alone = ["ns", "alone", "Suspending", "-", "0 (+60)", "-", going, "2m10s"];
    assert_eq!(cells(lines[3]), alone, "Kueue knows nothing of it");
    assert!(
        lines[2].contains("(unreadable)") && lines[2].contains("status.phase: is unknown"),
        "{table}"
    );
    assert!(text(&items, false, at(130), false).to_string().starts_with("NAME "));
    let listed = serde_json::to_value(Listed { items }).unwrap();
    assert_eq!(listed["items"][0]["phase"], "Running");
    assert_eq!(listed["items"][0]["quotaReserved"], true);
    assert_eq!(listed["items"][1]["phase"], Value::Null);
}
