use super::*;
use proptest::prelude::*;

const QUEUE: &str = "kueue.x-k8s.io/queue-name";
const USER: Requester = Requester { is_kueue: false, is_controller: false };
const KUEUE: Requester = Requester { is_kueue: true, is_controller: false };
const CONTROLLER: Requester = Requester { is_kueue: false, is_controller: true };

fn running() -> Value {
    let mut aw = given(&[job("a"), job("b")]);
    aw["spec"]["suspend"] = json!(false);
    aw["metadata"]["labels"] = json!({
        QUEUE: "main", "workload.codeflare.dev/user": "ann", "workload.codeflare.dev/userid": "1",
    });
    aw
}

fn changed(old: &Value, pointer: &str, value: Value, requester: Requester) -> Vec<String> {
    say(update(old, &with(old, pointer, value), requester, &Config::default()))
}

#[test]
fn what_is_immutable_stays() {
    let old = running();
    let infos = json!([{"labels": {"a": "b"}}]);
    let order = json!({"executionPolicyOrder": "AnyOrder"});
    let rules = json!({"rules": [{"action": "FailAppWrapper"}]});
    let pods = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "Ready"}]}]});
    let (progress, no_fit) = (json!({"stallAfter": "10m"}), json!({"action": "Hold"}));
    let first = old["spec"]["components"][0].clone();
    for (row, pointer, value, start, fragment) in [
        (
            "74",
            "/spec/components/0/template/spec/x",
            json!(1),
            "spec.components[0].template",
            "not be changed",
        ),
        (
            "74",
            "/spec/components/1/podSets",
            json!([{"path": "template.spec.template"}]),
            "spec.components[1].podSets",
            "not be changed",
        ),
        (
            "74",
            "/spec/components/1/podSetInfos",
            infos,
            "spec.components[1].podSetInfos",
            "only by Kueue",
        ),
        (
            "74",
            "/spec/managedBy",
            json!("kueue.x-k8s.io/multikueue"),
            "spec.managedBy",
            "not be changed",
        ),
        ("74", "/spec/requester", json!({"username": "root"}), "spec.requester", "not be changed"),
        (
            "74",
            "/metadata/labels/workload.codeflare.dev~1user",
            json!("bob"),
            "metadata.labels[workload.codeflare.dev/user]",
            "not be changed",
        ),
        (
            "74",
            "/metadata/labels/workload.codeflare.dev~1userid",
            json!("2"),
            "metadata.labels[workload.codeflare.dev/userid]",
            "not be changed",
        ),
        ("74", "/spec/suspend", json!(true), "spec.suspend", "only by Kueue"),
        ("74", "/spec/executionPolicy", order, "spec.executionPolicy", "not be changed"),
        ("74", "/spec/failurePolicy", rules, "spec.failurePolicy", "while spec.suspend is false"),
        (
            "74",
            "/spec/podFailurePolicy",
            pods,
            "spec.podFailurePolicy",
            "while spec.suspend is false",
        ),
        ("74", "/spec/progress", progress, "spec.progress", "while spec.suspend is false"),
        ("74", "/spec/onNoFit", no_fit, "spec.onNoFit", "kubectl aw suspend"),
        (
            "75",
            "/spec/components",
            json!([first]),
            "spec.components",
            "the AppWrapper has 2 components",
        ),
    ] {
        let said = changed(&old, pointer, value, USER);
        only(row, &said, &format!("error: {start}: "), fragment);
    }
    let none = changed(&old, "/spec/components", json!([]), USER);
    assert!(
        none.iter().any(|line| line.contains("the AppWrapper has 2 components")),
        "row 75: {none:?}"
    );
}

#[test]
fn kueue_and_the_controller_may_do_their_part() {
    let old = running();
    let infos = "/spec/components/1/podSetInfos";
    let value = json!([{"labels": {"a": "b"}}]);
    assert_eq!(changed(&old, infos, value.clone(), KUEUE), Vec::<String>::new());
    assert_eq!(changed(&old, "/spec/suspend", json!(true), KUEUE), Vec::<String>::new());
    only("74", &changed(&old, infos, value.clone(), CONTROLLER), "error: ", "only by Kueue");
    let memory = "/spec/components/0/template/spec/template/spec/containers/0/resources";
    let grown = json!({"requests": {"memory": "2Gi"}});
    only("74", &changed(&old, memory, grown.clone(), CONTROLLER), "error: ", "must not be changed");
    let suspended = with(&old, "/spec/suspend", json!(true));
    let both = with(&suspended, memory, grown);
    let said = update(&old, &both, CONTROLLER, &Config::default());
    assert_eq!(say(said), Vec::<String>::new());
    only("74", &say(update(&old, &both, KUEUE, &Config::default())), "error: ", "template");
    // without a queue it is the user who suspends
    let alone = with(&old, "/metadata/labels", json!(null));
    assert_eq!(changed(&alone, "/spec/suspend", json!(true), USER), Vec::<String>::new());
    assert_eq!(changed(&alone, infos, value, USER), Vec::<String>::new());
    let grown = json!({"requests": {"memory": "2Gi"}});
    assert_eq!(changed(&alone, memory, grown.clone(), CONTROLLER), Vec::<String>::new());
    only("74", &changed(&alone, memory, grown, USER), "error: ", "must not be changed");
}

#[test]
fn policies_change_while_suspended() {
    let old = with(&running(), "/spec/suspend", json!(true));
    let rules = json!({"rules": [{"action": "FailAppWrapper"}]});
    assert_eq!(changed(&old, "/spec/failurePolicy", rules, USER), Vec::<String>::new());
    let wrong = json!({"rules": [{"action": "FailJob"}]});
    let start = "error: spec.podFailurePolicy.rules[0].action: ";
    only("25", &changed(&old, "/spec/podFailurePolicy", wrong, USER), start, "FailAppWrapper");
    let order = json!({"executionPolicyOrder": "AnyOrder"});
    let said = changed(&old, "/spec/executionPolicy", order, USER);
    only("74", &said, "error: spec.executionPolicy: must not be changed", "");
}

/// The definition lets the Go controller remove them.
#[test]
fn a_policy_is_not_removed_while_it_is_in_use() {
    let mut old = full();
    old["spec"]["progress"] = json!({"stallAfter": "10m"});
    old["spec"]["onNoFit"] = json!({"action": "Hold"});
    let asleep = with(&old, "/spec/suspend", json!(true));
    for field in ["failurePolicy", "podFailurePolicy", "progress", "onNoFit", "executionPolicy"] {
        let removed = |old: &Value| {
            let mut new = old.clone();
            new["spec"].as_object_mut().unwrap().remove(field);
            say(update(old, &new, USER, &Config::default()))
        };
        let start = format!("error: spec.{field}: ");
        only("74", &removed(&old), &start, "must not be changed");
        let said = removed(&asleep);
        if field == "executionPolicy" {
            only("74", &said, &start, "must not be changed");
        } else {
            assert_eq!(said, Vec::<String>::new(), "{field}");
        }
    }
}

#[test]
fn an_appwrapper_whose_template_names_its_queue_can_be_moved() {
    let mut old = with(&running(), "/spec/suspend", json!(true));
    old["spec"]["components"][0]["template"]["metadata"]["labels"] = json!({QUEUE: "main"});
    let said = changed(&old, "/metadata/labels/kueue.x-k8s.io~1queue-name", json!("other"), USER);
    let start = format!("warning: spec.components[0].template.metadata.labels[{QUEUE}]: ");
    only("55", &said, &start, "has no effect");
}

#[test]
fn what_means_the_same_is_no_change() {
    let old = with(&running(), "/spec/failurePolicy", json!({"rules": []}));
    for (pointer, value) in [
        ("/spec/failurePolicy", json!({})),
        ("/spec/components/0/podSets", json!([])),
        ("/spec/components/0/podSetInfos", json!([])),
        ("/spec/components/0/annotations", json!({})),
        ("/spec/managedBy", json!(null)),
        ("/metadata/finalizers", json!(["workload.codeflare.dev/finalizer"])),
        ("/status", json!({"phase": "Running"})),
    ] {
        assert_eq!(changed(&old, pointer, value, KUEUE), Vec::<String>::new(), "{pointer}");
    }
}

#[test]
fn what_was_wrong_before_does_not_block_a_change() {
    let mut old = with(&running(), "/metadata/name", json!("a.b"));
    old["spec"]["components"][0]["template"]["metadata"]["uid"] = json!("x");
    assert_eq!(create(&old, &Config::default()).len(), 2);
    let finalizers = "/metadata/finalizers";
    assert_eq!(changed(&old, finalizers, json!([]), CONTROLLER), Vec::<String>::new());
    assert_eq!(changed(&old, "/spec/suspend", json!(true), KUEUE), Vec::<String>::new());
    let annotations = json!({"workload.codeflare.dev.appwrapper/retryLimit": "x"});
    let said = changed(&old, "/metadata/annotations", annotations, USER);
    only("11", &said, "error: metadata.annotations[", "must be a whole number");
}

/// Any JSON value of a few levels.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("(name|rules|action|spec|.{0,4})", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Every place of a value, as a JSON pointer.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                places(inner, &format!("{at}/{}", name.replace('/', "~1")), all);
            }
        }
        Value::Array(items) => {
            for (i, inner) in items.iter().enumerate() {
                places(inner, &format!("{at}/{i}"), all);
            }
        }
        _ => {}
    }
}

fn full() -> Value {
    let mut aw = running();
    aw["spec"]["failurePolicy"] = json!({"maxRestarts": 3, "rules": [
        {"name": "a", "action": "FailAppWrapper", "onJobFailureReasons": ["FailedIndexes"],
            "onJobFailureMessagePatterns": ["x"], "targetComponents": ["a"]}]});
    aw["spec"]["executionPolicy"] = json!({"executionPolicyOrder": "InOrder", "rules": [
        {"targetComponents": ["a"], "waitForComponentsStatus": "Succeeded"}]});
    aw["spec"]["podFailurePolicy"] = json!({"rules": [{"action": "Count", "onExitCodes":
        {"containerName": "main", "operator": "In", "values": [1]}}]});
    aw
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_stands_anywhere_there_is_an_answer(
        value in any_json(),
        place in any::<prop::sample::Index>(),
    ) {
        let old = full();
        let mut all = vec![];
        places(&old, "", &mut all);
        let mut new = old.clone();
        *new.pointer_mut(&all[place.index(all.len())]).unwrap() = value.clone();
        let config = Config::default();
        let said = create(&new, &config);
        let unique: std::collections::BTreeSet<_> = said.iter().collect();
        prop_assert_eq!(unique.len(), said.len());
        drop(update(&old, &new, USER, &config));
        drop(update(&new, &old, KUEUE, &config));
        drop(retry_policy(&value, &Config::default()));
    }

    #[test]
    fn any_spec_of_a_retry_policy_has_an_answer(spec in any_json()) {
        let policy = json!({
            "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
            "metadata": {"name": "a"}, "spec": spec,
        });
        drop(retry_policy(&policy, &Config::default()));
    }
}
