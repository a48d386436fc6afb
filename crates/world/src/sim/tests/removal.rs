//! Deletion.

use serde_json::{Value, json};

use super::{CONFIG_MAPS, PODS, ask, bound_pod, create, get, named, server};
use crate::sim::{Store, Verb};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// What happened since the first change, in short.
fn story(store: &Store) -> Vec<String> {
    store.history()[1..]
        .iter()
        .map(|change| {
            let verb = match change.verb {
                Verb::Added => "added",
                Verb::Modified => "modified",
                Verb::Deleted => "deleted",
            };
            let seconds = &change.object.value["metadata"]["deletionGracePeriodSeconds"];
            if seconds.is_null() { verb.to_owned() } else { format!("{verb} {seconds}") }
        })
        .collect()
}

#[test]
fn preconditions_must_hold() {
    for (preconditions, want) in
        [(json!({}), 200), (json!({"uid": "other"}), 409), (json!({"resourceVersion": "1"}), 409)]
    {
        let mut store = server();
        create(&mut store, CONFIG_MAPS, &named("a"));
        let options = json!({"preconditions": preconditions});
        let (code, _) = ask(&mut store, "DELETE", &format!("{CONFIG_MAPS}/a"), &options);
        assert_eq!(code, want, "{options}");
    }
    let wrong = json!({"propagationPolicy": "Nothing"});
    let mut store = server();
    create(&mut store, CONFIG_MAPS, &named("a"));
    assert_eq!(ask(&mut store, "DELETE", &format!("{CONFIG_MAPS}/a"), &wrong).0, 422);
    assert_eq!(ask(&mut store, "DELETE", &format!("{CONFIG_MAPS}/b"), &Value::Null).0, 404);
}

#[test]
fn what_a_deletion_answers() {
    let mut store = server();
    for (path, object, kind) in [
        (CONFIG_MAPS, named("a"), "Status"),
        (CONFIG_MAPS, json!({"metadata": {"name": "a", "finalizers": ["x/a"]}}), "ConfigMap"),
        (PODS, named("a"), "Pod"),
        (JOBS, named("a"), "Job"),
    ] {
        create(&mut store, path, &object);
        let (code, answer) = ask(&mut store, "DELETE", &format!("{path}/a"), &Value::Null);
        assert_eq!((code, &answer["kind"]), (200, &json!(kind)), "{path}");
    }
}

/// Seconds that are asked for, one deletion after another, and all that is seen of the pod.
#[test]
fn pods_are_left_time_to_end() {
    let ended = json!({"status": {"phase": "Failed"}});
    for (pod, phase, asked, want) in [
        (bound_pod("a"), None, vec![json!(null)], vec!["added", "modified 30"]),
        (bound_pod("a"), None, vec![json!(7)], vec!["added", "modified 7"]),
        (bound_pod("a"), None, vec![json!(-1)], vec!["added", "modified 1"]),
        (bound_pod("a"), None, vec![json!(7), json!(9)], vec!["added", "modified 7"]),
        (bound_pod("a"), None, vec![json!(7), json!(null)], vec!["added", "modified 7"]),
        (bound_pod("a"), None, vec![json!(7), json!(3)], vec!["added", "modified 7", "modified 3"]),
        (
            bound_pod("a"),
            None,
            vec![json!(7), json!(0)],
            vec!["added", "modified 7", "modified 0", "deleted 0"],
        ),
        (bound_pod("a"), None, vec![json!(0)], vec!["added", "modified 0", "deleted 0"]),
        (named("a"), None, vec![json!(7)], vec!["added", "modified 0", "deleted 0"]),
        (
            bound_pod("a"),
            Some(ended),
            vec![json!(null)],
            vec!["added", "modified", "modified 0", "deleted 0"],
        ),
    ] {
        let mut store = server();
        create(&mut store, PODS, &pod);
        if let Some(phase) = phase {
            ask(&mut store, "PATCH", &format!("{PODS}/a/status"), &phase);
        }
        for seconds in &asked {
            let options = json!({"gracePeriodSeconds": seconds});
            ask(&mut store, "DELETE", &format!("{PODS}/a"), &options);
        }
        assert_eq!(story(&store), want, "{pod} {asked:?}");
    }
}

#[test]
fn options_may_be_parameters() {
    let mut store = server();
    create(&mut store, PODS, &bound_pod("a"));
    let uri = format!("{PODS}/a?gracePeriodSeconds=5&propagationPolicy=Foreground");
    let (_, pod) = ask(&mut store, "DELETE", &uri, &Value::Null);
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_eq!(pod["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

/// A policy, the finalizers before, and those after.
#[test]
fn policies_are_finalizers() {
    for (path, policy, before, after) in [
        (CONFIG_MAPS, json!(null), json!(["x/a"]), json!(["x/a"])),
        (CONFIG_MAPS, json!("Background"), json!(["x/a", "orphan"]), json!(["x/a"])),
        (CONFIG_MAPS, json!("Foreground"), json!(["orphan"]), json!(["foregroundDeletion"])),
        (CONFIG_MAPS, json!("Orphan"), json!(["x/a"]), json!(["x/a", "orphan"])),
        (CONFIG_MAPS, json!(null), json!(["orphan"]), json!(["orphan"])),
        // a Job leaves alone what it owns, unless it is told otherwise
        (JOBS, json!(null), json!([]), json!(["orphan"])),
        (JOBS, json!(null), json!(["foregroundDeletion"]), json!(["foregroundDeletion"])),
        (JOBS, json!("Background"), json!(["x/a"]), json!(["x/a"])),
    ] {
        let mut store = server();
        let object = json!({"metadata": {"name": "a", "finalizers": before}});
        create(&mut store, path, &object);
        let options = json!({"propagationPolicy": policy});
        let (_, answer) = ask(&mut store, "DELETE", &format!("{path}/a"), &options);
        assert_eq!(answer["metadata"]["finalizers"], after, "{path} {policy} {before}");
        assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], 0);

        // once more changes nothing
        let version = store.version();
        ask(&mut store, "DELETE", &format!("{path}/a"), &options);
        assert_eq!(store.version(), version, "{path} {policy} {before}");
    }
}

#[test]
fn generation_counts_the_deletion_once() {
    let mut store = server();
    let mut pod = bound_pod("a");
    pod["metadata"]["finalizers"] = json!(["x/a"]);
    create(&mut store, PODS, &pod);
    for seconds in [9, 5, 0, 0] {
        let options = json!({"gracePeriodSeconds": seconds});
        let (_, pod) = ask(&mut store, "DELETE", &format!("{PODS}/a"), &options);
        assert_eq!(pod["metadata"]["generation"], 2, "{seconds}");
    }
    assert_eq!(get(&mut store, &format!("{PODS}/a")).0, 200, "its finalizer holds it");
}

#[test]
fn a_definition_serves_its_kind_while_it_is_there() {
    let mut store = server();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({
        "metadata": {"name": "others.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "others", "kind": "Other"}, "versions": [{"name": "v1"}],
        },
    });
    let list = "/apis/example.com/v1/others";
    assert_eq!(get(&mut store, list).0, 404);
    create(&mut store, path, &definition);
    assert_eq!(get(&mut store, list).0, 200);
    ask(&mut store, "DELETE", &format!("{path}/others.example.com"), &Value::Null);
    assert_eq!(get(&mut store, list).0, 404);
}

#[test]
fn nothing_is_created_where_a_namespace_is_deleted() {
    let mut store = server();
    let namespace = json!({"metadata": {"name": "n", "finalizers": ["x/a"]}});
    create(&mut store, "/api/v1/namespaces", &namespace);
    ask(&mut store, "DELETE", "/api/v1/namespaces/n", &Value::Null);
    let (code, _) = ask(&mut store, "POST", "/api/v1/namespaces/n/pods", &named("a"));
    assert_eq!(code, 403);
}
