use proptest::prelude::*;
use serde_json::{Value, json};

use super::with;
use crate::config::Config;
use crate::webhook::Identity;
use crate::webhook::default::default;
use crate::webhook::response::Op;
use crate::webhook::testing::{any_json, config as settings, given_aw, given_job, given_user};
use crate::webhook::validate::{self, Finding, Severity};

const QUEUE: &str = "kueue.x-k8s.io/queue-name";
const USER: &str = "workload.codeflare.dev/user";
const USER_ID: &str = "workload.codeflare.dev/userid";
const LABELS: &str = "/metadata/labels";

fn config(queue: &str) -> Config {
    Config::parse(&format!("admission: {{defaultQueueName: {queue:?}}}")).expect("settings")
}

/// The object with the patch applied as an API server would.
fn patched(object: &Value, ops: &[Op]) -> Value {
    let patch: json_patch::Patch = serde_json::from_value(json!(ops)).expect("a patch");
    let mut copy = object.clone();
    json_patch::patch(&mut copy, &patch).expect("it applies");
    let mut applied = object.clone();
    for op in ops {
        op.apply(&mut applied);
    }
    assert_eq!(applied, copy, "as an API server applies it");
    copy
}

fn defaulted(aw: &Value, requester: &Identity, config: &Config) -> Value {
    patched(aw, &default(aw, requester, config))
}

#[test]
fn a_queue_suspends_and_none_leaves_suspend_as_it_is() {
    let queue = |value: Value| with(&given_aw(), LABELS, json!({QUEUE: value}));
    let none = given_aw;
    let suspend = |aw: &Value, value: Value| with(aw, "/spec/suspend", value);
    for (aw, default_queue, want_queue, want_suspend) in [
        (none(), "", json!(null), json!(null)),
        (suspend(&none(), json!(false)), "", json!(null), json!(false)),
        (suspend(&none(), json!(true)), "", json!(null), json!(true)),
        (none(), "spare", json!("spare"), json!(true)),
        (queue(json!("main")), "", json!("main"), json!(true)),
        (queue(json!("main")), "spare", json!("main"), json!(true)),
        (suspend(&queue(json!("main")), json!(false)), "", json!("main"), json!(true)),
        (suspend(&queue(json!("main")), json!(null)), "", json!("main"), json!(true)),
        (queue(json!("")), "", json!(""), json!(null)),
        (queue(json!("")), "spare", json!("spare"), json!(true)),
        (queue(json!(null)), "spare", json!("spare"), json!(true)),
        (with(&none(), LABELS, json!(null)), "spare", json!("spare"), json!(true)),
        // too broken: validation says so
        (queue(json!(7)), "spare", json!(7), json!(null)),
        (suspend(&queue(json!("main")), json!("yes")), "", json!("main"), json!("yes")),
    ] {
        let found = defaulted(&aw, &given_user("ann"), &config(default_queue));
        let (label, suspended) = (&found["metadata"]["labels"][QUEUE], &found["spec"]["suspend"]);
        assert_eq!((label, suspended), (&want_queue, &want_suspend), "{default_queue:?} {aw}");
    }
}

#[test]
fn an_appwrapper_of_this_controller_has_the_finalizer_from_the_beginning() {
    let ours = "workload.codeflare.dev/finalizer";
    let managed = |manager: &str| with(&given_aw(), "/spec/managedBy", json!(manager));
    let holding = |value: Value| with(&given_aw(), "/metadata/finalizers", value);
    for (aw, want) in [
        (given_aw(), json!([ours])),
        (with(&given_aw(), "/spec/suspend", json!(true)), json!([ours])),
        (managed("workload.codeflare.dev/appwrapper-controller"), json!([ours])),
        (managed("kueue.x-k8s.io/multikueue"), json!(null)),
        // Kueue is asked later, and then this webhook once more
        (
            with(&holding(json!([ours])), "/spec/managedBy", json!("kueue.x-k8s.io/multikueue")),
            json!([]),
        ),
        (
            with(
                &holding(json!(["a/b", ours])),
                "/spec/managedBy",
                json!("kueue.x-k8s.io/multikueue"),
            ),
            json!(["a/b"]),
        ),
        // a fork of the Go controller may have a finalizer of the same name
        (with(&holding(json!([ours])), "/spec/managedBy", json!("other")), json!([ours])),
        (
            with(&holding(json!("broken")), "/spec/managedBy", json!("kueue.x-k8s.io/multikueue")),
            json!("broken"),
        ),
        (holding(json!(null)), json!([ours])),
        (holding(json!([])), json!([ours])),
        (holding(json!(["a/b"])), json!(["a/b", ours])),
        (holding(json!([ours, "a/b"])), json!([ours, "a/b"])),
        (holding(json!("broken")), json!("broken")),
    ] {
        let found = defaulted(&aw, &given_user("ann"), &Config::default());
        assert_eq!(found["metadata"]["finalizers"], want, "{aw}");
    }
}

#[test]
fn fields_are_tracked_only_where_somebody_applies_them() {
    let (update, apply) = (json!({"operation": "Update"}), json!({"operation": "Apply"}));
    let managers = |all: Value| with(&given_aw(), "/metadata/managedFields", all);
    let elsewhere = |aw: Value| with(&aw, "/spec/managedBy", json!("kueue.x-k8s.io/multikueue"));
    for (aw, want) in [
        (given_aw(), json!(null)),
        (managers(json!([update])), json!([])),
        (managers(json!([update, apply])), json!([update, apply])),
        (managers(json!([apply])), json!([apply])),
        (managers(json!([7])), json!([7])),
        (managers(json!([])), json!([])),
        (elsewhere(managers(json!([update]))), json!([update])),
    ] {
        let found = defaulted(&aw, &given_user("ann"), &Config::default());
        assert_eq!(found["metadata"]["managedFields"], want, "{aw}");
    }
}

#[test]
fn the_requester_is_written_whatever_the_object_says() {
    let long = "a".repeat(62) + "éé" + &"b".repeat(9);
    for (username, want) in [
        ("ann", "ann".to_owned()),
        ("system:serviceaccount:team:robot", "system_serviceaccount_team_robot".to_owned()),
        ("ann@example.com", "ann_example.com".to_owned()),
        ("--ann--", "ann".to_owned()),
        ("日本", String::new()),
        (&long, "a".repeat(62)),
    ] {
        for labels in [json!(null), json!({}), json!({USER: "bob", USER_ID: 7, "a/b~c": "kept"})] {
            let aw = with(&given_aw(), LABELS, labels.clone());
            let found = defaulted(&aw, &given_user(username), &Config::default());
            assert_eq!(found["metadata"]["labels"][USER], want, "{username} {labels}");
            assert_eq!(found["metadata"]["labels"][USER_ID], "u-1");
            assert_eq!(found["metadata"]["labels"]["a/b~c"], labels["a/b~c"]);
        }
    }
    let forged = json!({"username": "root", "groups": ["system:masters"], "uid": "", "x": 1});
    for requester in [json!(null), json!({}), json!("root"), forged] {
        let aw = with(&given_aw(), "/spec/requester", requester);
        let found = defaulted(&aw, &given_user("ann"), &Config::default());
        let want = json!({"username": "ann", "uid": "u-1", "groups": ["system:authenticated"]});
        assert_eq!(found["spec"]["requester"], want, "{aw}");
        assert_eq!(default(&found, &given_user("ann"), &Config::default()), [], "asked again");
    }
    let anonymous = Identity { username: "ann".to_owned(), ..Identity::default() };
    let found = defaulted(&given_aw(), &anonymous, &Config::default());
    assert_eq!(found["metadata"]["labels"], json!({USER: "ann", USER_ID: ""}));
}

#[test]
fn pod_sets_are_inferred_where_none_is_declared_and_the_kind_is_known() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    let declared = json!([{"path": "template.spec.template", "replicas": 1}]);
    let job = json!([{
        "path": "template.spec.template", "replicas": 1,
        "annotations": {
            "workload.codeflare.dev.appwrapper/tas-pod-index-label":
                "batch.kubernetes.io/job-completion-index",
        },
    }]);
    let broken = with(&given_job("j"), "/spec/parallelism", json!("many"));
    for (component, want) in [
        (json!({"template": given_job("j")}), job.clone()),
        (json!({"template": given_job("j"), "podSets": null}), job.clone()),
        (json!({"template": given_job("j"), "podSets": []}), job),
        (json!({"template": given_job("j"), "podSets": declared}), declared.clone()),
        (json!({"template": given_job("j"), "podSets": "x"}), json!("x")),
        (json!({"template": service}), json!(null)),
        (json!({"template": broken}), json!(null)),
        (json!({"template": 7}), json!(null)),
    ] {
        let aw = with(&given_aw(), "/spec/components/0", component);
        let found = defaulted(&aw, &given_user("ann"), &Config::default());
        assert_eq!(found["spec"]["components"][0]["podSets"], want, "{aw}");
    }
    let many = vec![json!({"template": given_job("j")}); 11];
    let aw = with(&given_aw(), "/spec/components", json!(many));
    let found = defaulted(&aw, &given_user("ann"), &Config::default());
    let components = |aw: &Value| aw["spec"]["components"].clone();
    assert_eq!(components(&found), components(&aw), "too many pod sets are refused anyway");
}

#[test]
fn nothing_to_fill_in_is_no_patch() {
    let config = config("spare");
    let whole = defaulted(&given_aw(), &given_user("ann"), &config);
    assert_eq!(default(&whole, &given_user("ann"), &config), []);
}

#[test]
fn what_is_too_broken_is_left_as_it_is() {
    for aw in [
        json!(null),
        json!([]),
        json!({"metadata": {}}),
        json!({"spec": {}}),
        with(&given_aw(), "/spec", json!([])),
        with(&given_aw(), "/metadata", json!("boo")),
    ] {
        assert_eq!(default(&aw, &given_user("ann"), &config("spare")), [], "{aw}");
    }
    let aw = with(&given_aw(), LABELS, json!("boo"));
    let found = defaulted(&aw, &given_user("ann"), &config("spare"));
    assert_eq!(found["metadata"]["labels"], "boo", "labels of another type stay");
}

/// An AppWrapper with any JSON in one place that is filled in or looked at.
fn damaged() -> impl Strategy<Value = Value> {
    let places = prop::sample::select(vec![
        "",
        "/metadata",
        LABELS,
        "/metadata/labels/kueue.x-k8s.io~1queue-name",
        "/metadata/labels/workload.codeflare.dev~1user",
        "/metadata/finalizers",
        "/metadata/managedFields",
        "/spec",
        "/spec/suspend",
        "/spec/components",
        "/spec/components/0",
        "/spec/components/0/podSets",
        "/spec/components/0/template",
        "/spec/components/0/template/spec",
        "/spec/components/0/template/spec/parallelism",
        "/spec/managedBy",
    ]);
    (places, any_json()).prop_map(|(place, value)| with(&given_aw(), place, value))
}

fn errors(aw: &Value, config: &Config) -> Vec<Finding> {
    let findings = validate::create(aw, config).into_iter();
    findings.filter(|each| each.severity == Severity::Error).collect()
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn a_second_time_changes_nothing(aw in damaged(), queue in "|spare", user in ".{0,70}") {
        let (config, user) = (config(&queue), given_user(&user));
        let once = defaulted(&aw, &user, &config);
        prop_assert_eq!(default(&once, &user, &config), []);
    }

    #[test]
    fn nothing_else_is_touched(aw in damaged(), queue in "|spare") {
        let mut found = defaulted(&aw, &given_user("ann"), &config(&queue));
        let mut before = aw;
        for object in [&mut found, &mut before] {
            for (place, name) in [
                ("/metadata", "labels"),
                ("/metadata", "finalizers"),
                ("/metadata", "managedFields"),
                ("/spec", "suspend"),
                ("/spec", "requester"),
                ("/spec/components/0", "podSets"),
            ] {
                let fields = object.pointer_mut(place).and_then(Value::as_object_mut);
                fields.and_then(|fields| fields.remove(name));
            }
        }
        prop_assert_eq!(found, before);
    }

    #[test]
    fn what_is_wrong_stays_what_it_was(aw in damaged(), queue in "|spare") {
        let config = config(&queue);
        let found = defaulted(&aw, &given_user("ann"), &config);
        let ours = format!("metadata.labels[{USER}]");
        let is_replaced = |each: &Finding| each.field == ours;
        let mut before = errors(&aw, &config);
        before.retain(|each| !is_replaced(each));
        prop_assert_eq!(errors(&found, &config), before);
    }
}
