//! The rules that the API server itself evaluates: they hold without a webhook, they let through what
//! Kueue and the controller write, and they keep nobody from finishing an object of before them.

#![expect(clippy::too_many_lines, reason = "a table has a line for each case")]

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{Case, job, without_webhook, wrapper};
use crate::objects::config_map;

pub mod before;

/// An AppWrapper that our controller leaves alone, with these fields in its `spec`.
fn left_alone(name: &str, spec: Value) -> Value {
    let mut aw = wrapper(name, json!({}), vec![job("a", json!({}), &[])]);
    aw["spec"]["managedBy"] = "example.com/other".into();
    merge(&mut aw["spec"], spec);
    aw
}

fn merge(into: &mut Value, fields: Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

fn retry_policy(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": name}, "spec": spec})
}

/// What the API server says of an object, or nothing where it takes it. Nothing is stored.
async fn said(case: &Case, object: Value) -> Option<String> {
    let text = |field: &str| object[field].as_str().expect("it has a kind").to_owned();
    let api = if text("kind") == "RetryPolicy" {
        case.cluster_api(&text("apiVersion"), &text("kind"))
    } else {
        case.wrappers()
    };
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let params = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&params, &object).await.err().map(|error| error.to_string())
}

#[test]
fn what_is_wrong_is_refused_with_what_is_allowed() {
    without_webhook("what_is_wrong_is_refused_with_what_is_allowed", async |case| {
        let named = |name: String| left_alone(&name, json!({}));
        let pod_sets = |sets: Value| {
            let mut aw = left_alone("aw", json!({}));
            aw["spec"]["components"][0]["podSets"] = sets;
            aw
        };
        let path = "template.spec.template";
        let failure = |rules: Value| left_alone("aw", json!({"failurePolicy": {"rules": rules}}));
        let failing = |field: &str, value: Value| {
            failure(json!([{"action": "FailAppWrapper", field: value}]))
        };
        let order = |policy: Value| left_alone("aw", json!({"executionPolicy": policy}));
        let step = |targets: Value| json!([{"targetComponents": targets, "waitForComponentsStatus": "Ready"}]);
        let pods = |more: Value| {
            let mut rule = json!({"action": "Count"});
            merge(&mut rule, more);
            left_alone("aw", json!({"podFailurePolicy": {"rules": [rule]}}))
        };
        let codes = |operator: &str, values: Value| {
            pods(json!({"onExitCodes": {"operator": operator, "values": values}}))
        };
        let disrupted = json!([{"type": "DisruptionTarget"}]);
        let twice = json!([{"action": "FailAppWrapper", "name": "a"}, {"action": "RestartAppWrapper", "name": "a"}]);
        for (object, says) in [
            (named("a".repeat(62)), "metadata.name must be 1 to 61"),
            (named("a.b".to_owned()), "without dots"),
            (left_alone("aw", json!({"components": []})), "spec.components"),
            (pod_sets(json!([{"path": path, "replicas": -1}])), "podSets[0].replicas"),
            (pod_sets(json!([{"path": ""}])), "podSets[0].path"),
            (pod_sets(json!([{"path": "a".repeat(513)}])), "may not be more than 512"),
            (pod_sets(vec![json!({"path": path}); 11].into()), "must have at most 10 items"),
            (left_alone("aw", json!({"failurePolicy": {"maxRestarts": -1}})), "maxRestarts"),
            (failure(twice), "must have unique names"),
            (failing("name", json!("a b")), "must be 1 to 128 letters"),
            (failing("name", json!("")), "must be 1 to 128 letters"),
            (failing("onJobFailureReasons", json!(["Nope"])), "must be one of PodFailurePolicy"),
            (failing("onJobFailureMessagePatterns", json!([""])), "at least 1 chars long"),
            (
                failing("onJobFailureMessagePatterns", json!(["a".repeat(513)])),
                "may not be more than 512",
            ),
            (failing("onJobFailureMessagePatterns", json!(vec!["a"; 21])), "at most 20 items"),
            (failing("targetComponents", json!([""])), "targetComponents[0]"),
            (failure(vec![json!({"action": "FailAppWrapper"}); 21].into()), "at most 20 items"),
            (
                order(json!({"executionPolicyOrder": "AnyOrder", "rules": step(json!(["a"]))})),
                "rules need executionPolicyOrder InOrder",
            ),
            (
                order(json!({"executionPolicyOrder": "InOrder", "rules": step(json!([]))})),
                "targetComponents",
            ),
            (pods(json!({})), "exactly one of onExitCodes and onPodConditions"),
            (pods(json!({"onPodConditions": []})), "exactly one of onExitCodes"),
            (
                pods(json!({"onPodConditions": disrupted,
                    "onExitCodes": {"operator": "In", "values": [1]}})),
                "exactly one of onExitCodes",
            ),
            (pods(json!({"onPodConditions": [{"type": ""}]})), "type"),
            (
                pods(json!({"onPodConditions": [{"type": "Ready", "status": "true"}]})),
                "must be True, False or Unknown",
            ),
            (codes("In", json!([])), "at least 1 items"),
            (codes("In", json!([0])), "must not have 0 with the operator In"),
            (codes("In", json!([1, 1])), "Duplicate value"),
            (codes("In", json!([2_147_483_648_i64])), "int32"),
        ] {
            let text = said(&case, object.clone()).await;
            assert!(text.as_ref().is_some_and(|text| text.contains(says)), "{says}: {text:?}");
        }
        let full = json!({
            "failurePolicy": {"maxRestarts": 0, "rules": [{"action": "FailAppWrapper", "name": "a-b:c_"}, {"action": "RestartAppWrapper"}]},
            "executionPolicy": {"executionPolicyOrder": "InOrder", "rules": step(json!(["Job/a"]))},
            "podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0, 255]}, "onPodConditions": []}, {"action": "Ignore", "onExitCodes": null, "onPodConditions": [{"type": "a.b/c", "status": "Unknown"}]}]},
        });
        for object in [
            named("a".repeat(61)),
            left_alone("aw", full),
            pod_sets(json!([{"path": path, "replicas": 0}])),
            order(json!({"executionPolicyOrder": "AnyOrder"})),
            order(json!({})),
            codes("In", json!([256, -1, 2])),
            // as many as the rules bear, and no rule is too dear
            left_alone(
                "aw",
                json!({"components": vec![json!({"template": config_map("c")}); 128]}),
            ),
        ] {
            assert_eq!(said(&case, object).await, None);
        }
    });
}

#[test]
fn what_is_wrong_with_a_retry_policy_is_refused() {
    without_webhook("what_is_wrong_with_a_retry_policy_is_refused", async |case| {
        let rule = |more: Value| {
            let mut rule = json!({"action": "Retry", "onConditions": ["Evicted"]});
            merge(&mut rule, more);
            retry_policy("p", json!({"rules": [rule]}))
        };
        let other = |more: Value| {
            let mut rule = json!({"action": "Retry"});
            merge(&mut rule, more);
            retry_policy("p", json!({"rules": [rule]}))
        };
        let memory = |factor: Value, max: &str| {
            rule(json!({"mutate": {"memory": {"factor": factor, "max": max}}}))
        };
        let backoff =
            |initial: &str| retry_policy("p", json!({"backoff": {"initialDelay": initial}}));
        let named = json!({"name": "a", "action": "Fail", "onConditions": ["Evicted"]});
        for (object, says) in [
            (other(json!({})), "exactly one of onConditions, onExitCodes"),
            (rule(json!({"onFailureCategory": ["oom"]})), "exactly one of onConditions"),
            (other(json!({"onConditions": [], "onFailureCategory": []})), "exactly one of"),
            (
                rule(json!({"action": "Fail", "mutate": {"memory": {"factor": 2}}})),
                "needs action Retry",
            ),
            (rule(json!({"mutate": {}})), "must be given"),
            (memory(json!(1), "1Gi"), "above 1 and at most 100"),
            (memory(json!(0.5), "1Gi"), "above 1"),
            (memory(json!(1e308), "1Gi"), "at most 100"),
            (memory(json!(2), "64GB"), "such as 64Gi"),
            (memory(json!(2), "0"), "at least 1 byte"),
            (memory(json!(2), "-1Gi"), "at least 1 byte"),
            (rule(json!({"name": "A"})), "must be 1 to 63 lower-case"),
            (rule(json!({"name": ""})), "must be 1 to 63"),
            (rule(json!({"name": "a".repeat(64)})), "may not be more than 63"),
            (rule(json!({"containerName": ""})), "containerName"),
            (retry_policy("p", json!({"rules": [named, named]})), "must have unique names"),
            (rule(json!({"onConditions": ["OOM"]})), "must be one of OOMKilled"),
            (other(json!({"onFailureCategory": [""]})), "names of failure categories"),
            (other(json!({"onTerminationMessage": {"pattern": ""}})), "pattern"),
            (other(json!({"onExitCodes": {"operator": "In", "values": [0]}})), "must not have 0"),
            (
                other(json!({"onExitCodes": {"operator": "In", "values": [2, 2]}})),
                "Duplicate value",
            ),
            (rule(json!({"retryLimit": -1})), "retryLimit"),
            (retry_policy("p", json!({"retryLimit": -1})), "retryLimit"),
            (retry_policy("p", json!({"retryLimit": 4_294_967_296_i64})), "retryLimit"),
            (backoff("-1h"), "must be a duration"),
            (backoff("5 days"), "must be a duration"),
            (backoff(""), "must be a duration"),
            (backoff("1M"), "must be a duration"),
            (
                retry_policy("p", json!({"backoff": {"initialDelay": "1s", "multiplier": 0.5}})),
                "multiplier",
            ),
        ] {
            let text = said(&case, object.clone()).await;
            assert!(text.as_ref().is_some_and(|text| text.contains(says)), "{says}: {text:?}");
        }
        for initial in
            ["0", "+0", "90s", "1h30m", "1.5h", ".5s", "1.s", "7d", "5µs", "5μs", "1h1ms"]
        {
            assert_eq!(said(&case, backoff(initial)).await, None, "{initial}");
        }
        for object in [
            memory(json!(1.5), "64Gi"),
            memory(json!(100), "1e3"),
            other(json!({"onFailureCategory": ["cuda_error"], "onConditions": []})),
            other(json!({"onExitCodes": {"operator": "In", "values": [256, -1, 2]}})),
            retry_policy("p", json!({"override": true})),
        ] {
            assert_eq!(said(&case, object).await, None);
        }
    });
}

/// Writes an object over another as a whole; what the API server says, where it refuses.
async fn replace(case: &Case, aw: &Value) -> Option<String> {
    let name = aw["metadata"]["name"].as_str().expect("it has a name");
    let mut object: DynamicObject = serde_json::from_value(aw.clone()).expect("an object");
    loop {
        object.metadata.resource_version =
            case.wrappers().get(name).await.expect("it is there").metadata.resource_version;
        match case.wrappers().replace(name, &PostParams::default(), &object).await {
            // the controller wrote in between
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            answer => return answer.err().map(|error| error.to_string()),
        }
    }
}

fn with(aw: &Value, pointer: &str, value: Value) -> Value {
    let mut copy = aw.clone();
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer has a last step");
    let parent = copy.pointer_mut(parent).expect("the parent is there");
    match (parent, value) {
        (Value::Array(items), value) => {
            let index: usize = field.parse().expect("an index");
            items[index] = value;
        }
        (Value::Object(fields), Value::Null) => _ = fields.remove(field),
        (Value::Object(fields), value) => _ = fields.insert(field.to_owned(), value),
        (other, _) => panic!("{other} has no fields"),
    }
    copy
}

#[test]
fn what_may_not_change_does_not() {
    without_webhook("what_may_not_change_does_not", async |case| {
        let path = "template.spec.template";
        let mut aw = left_alone(
            "aw",
            json!({
                "failurePolicy": {"maxRestarts": 1},
                "executionPolicy": {"executionPolicyOrder": "InOrder"},
                "podFailurePolicy": {"rules": []},
            }),
        );
        aw["spec"]["components"][0]["podSets"] = json!([{"path": path, "replicas": 1}]);
        aw["spec"]["components"][0]["template"]["metadata"]["labels"] = json!({"a": "b"});
        case.create(aw.clone()).await;
        let component = "/spec/components/0";
        let template = format!("{component}/template");
        let two = json!([aw["spec"]["components"][0], aw["spec"]["components"][0]]);
        let contents = aw["spec"]["components"][0]["template"]["spec"].clone();
        let renamed = with(
            &with(&aw, &format!("{template}/spec"), json!(null)),
            &format!("{template}/other"),
            contents,
        );
        let unless = "must not be changed while spec.suspend is false";
        let ignore =
            json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "Ready"}]}]});
        for (changed, says) in [
            (with(&aw, "/spec/managedBy", json!("example.com/another")), "spec.managedBy"),
            (with(&aw, "/spec/managedBy", json!(null)), "spec.managedBy"),
            (
                with(&aw, "/spec/executionPolicy", json!({"executionPolicyOrder": "AnyOrder"})),
                "spec.executionPolicy",
            ),
            (with(&aw, "/spec/failurePolicy", json!({"maxRestarts": 2})), unless),
            (with(&aw, "/spec/podFailurePolicy", ignore), unless),
            (with(&aw, "/spec/components", two), "no component can be added"),
            (with(&aw, "/spec/components", json!([])), "spec.components"),
            (with(&aw, "/spec", json!(null)), "must not be removed"),
            (
                with(&aw, &format!("{component}/podSets"), json!(null)),
                "podSets must not be changed",
            ),
            (
                with(&aw, &format!("{component}/podSets/0/path"), json!("template.spec")),
                "podSets must not",
            ),
            (with(&aw, &format!("{component}/podSets/0/replicas"), json!(2)), "podSets must not"),
            (
                with(&aw, &format!("{component}/podSets/0/annotations"), json!({"a": "b"})),
                "podSets must not",
            ),
            (
                with(&aw, &format!("{template}/spec/parallelism"), json!(2)),
                "templates must not be changed",
            ),
            (
                with(&aw, &format!("{template}/spec/template/spec/containers/0/image"), json!("x")),
                "templates must",
            ),
            (
                with(&aw, &format!("{template}/spec/template/spec/other"), json!("x")),
                "templates must",
            ),
            (with(&aw, &format!("{template}/metadata/name"), json!("b")), "templates must not"),
            (
                with(&aw, &format!("{template}/metadata/labels"), json!({"a": "c"})),
                "templates must not",
            ),
            (with(&aw, &format!("{template}/metadata/labels"), json!(null)), "templates must not"),
            (with(&aw, &format!("{template}/kind"), json!("CronJob")), "templates must not"),
            (renamed, "templates must not"),
        ] {
            let text = replace(&case, &changed).await;
            assert!(text.as_ref().is_some_and(|text| text.contains(says)), "{says}: {text:?}");
        }
        // What was not there cannot be added either.
        let plain = with(&left_alone("plain", json!({})), "/spec/managedBy", json!(null));
        let plain = with(&plain, "/spec/suspend", json!(true));
        let plain = with(&plain, "/metadata/labels", json!({"kueue.x-k8s.io/queue-name": "none"}));
        case.create(plain.clone()).await;
        for (field, value) in [
            ("managedBy", json!("example.com/other")),
            ("executionPolicy", json!({"executionPolicyOrder": "AnyOrder"})),
        ] {
            let text = replace(&case, &with(&plain, &format!("/spec/{field}"), value)).await;
            assert!(text.as_ref().is_some_and(|text| text.contains(field)), "{field}: {text:?}");
        }
    });
}

/// The Go controller writes the whole object through types of its own when it adds or removes its finalizer.
#[test]
fn the_go_controller_drops_what_it_does_not_know() {
    without_webhook("the_go_controller_drops_what_it_does_not_know", async |case| {
        let policies = json!({
            "failurePolicy": {"maxRestarts": 1},
            "executionPolicy": {"executionPolicyOrder": "InOrder"},
            "podFailurePolicy": {"rules": []},
            "progress": {"stallAfter": "10m"},
            "onNoFit": {"action": "Hold"},
        });
        case.create(left_alone("aw", policies.clone())).await;
        let known = left_alone("aw", json!({}));
        assert_eq!(replace(&case, &known).await, None, "it can be finished and deleted");
        for (field, policy) in policies.as_object().into_iter().flatten() {
            let back = with(&known, &format!("/spec/{field}"), policy.clone());
            let text = replace(&case, &back).await;
            assert!(text.as_ref().is_some_and(|text| text.contains(field)), "{field}: {text:?}");
        }
    });
}

#[test]
fn what_may_change_does() {
    without_webhook("what_may_change_does", async |case| {
        let mut aw =
            left_alone("aw", json!({"suspend": true, "failurePolicy": {"maxRestarts": 1}}));
        aw["spec"]["components"][0]["podSets"] = json!([{"path": "template.spec.template"}]);
        let mut second = aw["spec"]["components"][0].clone();
        second["template"]["metadata"]["name"] = "b".into();
        second["podSets"] = json!([]);
        aw["spec"]["components"] = json!([aw["spec"]["components"][0], second]);
        case.create(aw.clone()).await;
        // As Kueue admits it: through typed structs, with what it injects.
        aw["spec"]["components"][0]["podSets"] =
            json!([{"annotations": {}, "replicas": 1, "path": "template.spec.template"}]);
        aw["spec"]["components"][0]["podSetInfos"] = json!([{"nodeSelector": {"a": "b"}}]);
        aw["spec"]["components"][0]["annotations"] = json!({});
        aw["spec"]["components"][1].as_object_mut().expect("fields").remove("podSets");
        aw["spec"]["suspend"] = false.into();
        assert_eq!(replace(&case, &aw).await, None, "admission");
        aw["spec"]["components"][0]["podSetInfos"] = json!(null);
        aw["spec"]["suspend"] = true.into();
        assert_eq!(replace(&case, &aw).await, None, "eviction");
        aw["metadata"]["labels"] = json!({"a": "b"});
        aw["spec"]["failurePolicy"] = json!(null);
        aw["spec"]["podFailurePolicy"] = json!({"rules": []});
        assert_eq!(replace(&case, &aw).await, None, "policies while it is suspended");
        aw["spec"]["podFailurePolicy"] = json!(null);
        aw["spec"]["suspend"] = false.into();
        assert_eq!(replace(&case, &aw).await, None, "policies in the write that resumes it");

        // As the controller makes memory grow: only while that is pending.
        let memory =
            "/spec/components/0/template/spec/template/spec/containers/0/resources/requests/memory";
        let grown = with(&aw, memory, json!("2Gi"));
        let refused = replace(&case, &grown).await;
        assert!(refused.is_some_and(|text| text.contains("templates must not be changed")));
        let pending = json!([{"component": 0, "podSet": 0, "container": "main", "request": "2Gi"}]);
        status(&case, "aw", json!({"phase": "Resetting", "pendingMemory": pending})).await;
        let queued = with(&grown, "/spec/suspend", json!(true));
        assert_eq!(replace(&case, &queued).await, None, "memory grows");
        status(&case, "aw", json!({"pendingMemory": null})).await;
        let again = with(&queued, memory, json!("4Gi"));
        let refused = replace(&case, &again).await;
        let says = |text: &String| text.contains("templates must not be changed");
        assert!(refused.as_ref().is_some_and(says), "it grows once: {refused:?}");
    });
}

async fn status(case: &Case, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    let patched = case.wrappers().patch_status(name, &PatchParams::default(), &patch).await;
    patched.expect("the status is accepted");
}
