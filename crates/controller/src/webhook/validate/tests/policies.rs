use super::*;

/// Two components of one name and one of its own: `Job/a`, `Service/a`, `Job/b`.
fn three() -> Value {
    given(&[job("a"), service("a"), job("b")])
}

fn failure(rules: Value) -> Vec<String> {
    judged(&with(&three(), "/spec/failurePolicy", json!({ "rules": rules })))
}

fn pod_failure(rules: Value) -> Vec<String> {
    judged(&with(&three(), "/spec/podFailurePolicy", json!({ "rules": rules })))
}

fn execution(order: &str, rules: Value) -> Vec<String> {
    let policy = json!({"executionPolicyOrder": order, "rules": rules});
    judged(&with(&three(), "/spec/executionPolicy", policy))
}

#[test]
fn good_policies_are_let_through() {
    let mut aw = three();
    aw["spec"]["failurePolicy"] = json!({"maxRestarts": 3, "rules": [
        {"name": "hostMaintenance", "action": "FailAppWrapper",
            "onJobFailureReasons": ["PodFailurePolicy", "FailedIndexes"]},
        {"action": "RecreateComponent", "targetComponents": ["Job/a"],
            "onJobFailureMessagePatterns": ["(a+)+$"]},
        {"action": "RestartAppWrapperAndIgnoreMaxRestarts", "targetComponents": ["b", "Service/a"]},
        {"action": "RestartAppWrapper"},
    ]});
    aw["spec"]["executionPolicy"] = json!({"executionPolicyOrder": "InOrder", "rules": [
        {"targetComponents": ["Job/a", "Service/a"], "waitForComponentsStatus": "Succeeded"},
        {"targetComponents": ["b"], "waitForComponentsStatus": "Ready"},
    ]});
    aw["spec"]["podFailurePolicy"] = json!({"rules": [
        {"action": "FailAppWrapper", "targetComponents": ["b"], "onExitCodes":
            {"containerName": "main", "operator": "In", "values": [1, 42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [300, -3, 7]}},
    ]});
    assert_eq!(judged(&aw), Vec::<String>::new());
    for any in [json!({"executionPolicyOrder": "AnyOrder"}), json!({}), json!({"rules": []})] {
        assert_eq!(judged(&with(&three(), "/spec/executionPolicy", any)), Vec::<String>::new());
    }
}

#[test]
fn wrong_rules_of_a_failure_policy_are_named() {
    let rule = |field: &str, value: Value| json!([{"action": "FailAppWrapper", field: value}]);
    let many: Vec<Value> =
        (0..21).map(|_| json!({"action": "FailAppWrapper", "targetComponents": ["b"]})).collect();
    let patterns = vec!["a"; 21];
    for (row, rules, start, fragment) in [
        (
            "26",
            rule("onJobFailureMessagePatterns", json!(["("])),
            "[0].onJobFailureMessagePatterns[0]",
            "unclosed group",
        ),
        (
            "27",
            rule("onJobFailureMessagePatterns", json!(["(?:a{1000}){1000}"])),
            "[0].onJobFailureMessagePatterns[0]",
            "256 KiB",
        ),
        (
            "28",
            rule("onJobFailureMessagePatterns", json!(["a".repeat(513)])),
            "[0].onJobFailureMessagePatterns[0]",
            "at most 512 characters, but is 513",
        ),
        (
            "28",
            rule("onJobFailureMessagePatterns", json!([""])),
            "[0].onJobFailureMessagePatterns[0]",
            "must not be empty",
        ),
        (
            "28",
            rule("onJobFailureMessagePatterns", json!(patterns)),
            "[0].onJobFailureMessagePatterns",
            "at most 20",
        ),
        ("24", json!(many), "", "at most 20"),
        (
            "29",
            rule("onJobFailureReasons", json!(["BackoffLimitExceded"])),
            "[0].onJobFailureReasons[0]",
            "did you mean BackoffLimitExceeded?",
        ),
        (
            "29",
            rule("onJobFailureReasons", json!(["FailedIndexes", "FailedIndexes"])),
            "[0].onJobFailureReasons[1]",
            "unique",
        ),
        ("29", rule("targetComponents", json!(["c"])), "[0].targetComponents[0]", "one of a, b"),
        (
            "29",
            rule("targetComponents", json!(["a"])),
            "[0].targetComponents[0]",
            "ambiguous: must be one of Job/a, Service/a",
        ),
        ("29", rule("targetComponents", json!(["Pod/b"])), "[0].targetComponents[0]", "Kind/name"),
        (
            "29",
            rule("targetComponents", json!(["b", "Job/b"])),
            "[0].targetComponents[1]",
            "already listed",
        ),
        ("29", rule("targetComponents", json!("b")), "[0].targetComponents", "must be a list"),
        ("32", rule("name", json!("")), "[0].name", "must be 1 to 128"),
        ("32", rule("name", json!("a b")), "[0].name", "must be 1 to 128"),
        ("32", rule("name", json!("a".repeat(129))), "[0].name", "at most 128 characters"),
        ("29", json!([{}]), "[0].action", "must be given"),
        ("29", json!([{"action": null}]), "[0].action", "must be given"),
        ("29", json!([{"action": "FailJobSet"}]), "[0].action", "did you mean FailAppWrapper?"),
        (
            "29",
            json!([{"action": "RestartJobSet"}]),
            "[0].action",
            "did you mean RestartAppWrapper?",
        ),
        (
            "29",
            json!([{"action": "RestartJobSetAndIgnoreMaxRestarts"}]),
            "[0].action",
            "did you mean RestartAppWrapperAndIgnoreMaxRestarts?",
        ),
        ("29", json!([{"action": "RecreateJob"}]), "[0].action", "did you mean RecreateComponent?"),
        (
            "29",
            json!([{"action": "restart"}]),
            "[0].action",
            "must be one of FailAppWrapper, RestartAppWrapper",
        ),
        (
            "32",
            json!([{"action": "FailAppWrapper", "name": "failurePolicyRule1", "targetComponents": ["b"]}, {"action": "FailAppWrapper"}]),
            "[1].name",
            "spec.failurePolicy.rules[0] also has it",
        ),
    ] {
        let start = format!("error: spec.failurePolicy.rules{start}: ");
        only(row, &failure(rules), &start, fragment);
    }
    let negative = with(&three(), "/spec/failurePolicy", json!({"maxRestarts": -1}));
    let start = "error: spec.failurePolicy.maxRestarts: Invalid value: \"-1\": ";
    only("32", &judged(&negative), start, "at least 0");
    let wide = with(&three(), "/spec/failurePolicy", json!({"maxRestarts": 4_294_967_296_i64}));
    let start = "error: spec.failurePolicy.maxRestarts: ";
    only("32", &judged(&wide), start, "must be a whole number");
}

#[test]
fn the_periods_of_progress_are_checked() {
    let of = |progress: Value| judged(&with(&three(), "/spec/progress", progress));
    let most = json!({"startWithin": "7d", "stallAfter": "10s"});
    assert_eq!(of(most), Vec::<String>::new());
    let range = "must be from 10s to 7d";
    for (progress, field, fragment) in [
        (json!({"stallAfter": "9s"}), "stallAfter", range),
        (json!({"stallAfter": "0"}), "stallAfter", range),
        (json!({"startWithin": "169h"}), "startWithin", range),
        (json!({"startWithin": "soon", "stallAfter": "1m"}), "startWithin", "must be a duration"),
    ] {
        only(field, &of(progress), &format!("error: spec.progress.{field}: "), fragment);
    }
    only("nothing", &of(json!({})), "warning: spec.progress: ", "has no effect");
}

#[test]
fn budgets_are_checked() {
    let of = |budget: Value| judged(&with(&three(), "/spec/failurePolicy", budget));
    let fine = json!({"refill": {"after": "24h"}, "stopWhen": {"attemptsWithoutProgress": 3,
        "sameFailureOnNodes": 2, "progressAfter": "10m"}});
    assert_eq!(of(fine), Vec::<String>::new());
    for (budget, field, fragment) in [
        (json!({"refill": {}}), "refill.after", "must be given"),
        (json!({"refill": {"after": "1 day"}}), "refill.after", "must be a duration"),
        (json!({"refill": {"after": "59s"}}), "refill.after", "must be at least 1m"),
        (
            json!({"stopWhen": {"attemptsWithoutProgress": 0}}),
            "stopWhen.attemptsWithoutProgress",
            "must be at least 1",
        ),
        (
            json!({"stopWhen": {"attemptsWithoutProgress": 11}}),
            "stopWhen.attemptsWithoutProgress",
            "must be at most 10",
        ),
        (
            json!({"stopWhen": {"sameFailureOnNodes": 1}}),
            "stopWhen.sameFailureOnNodes",
            "must be at least 2",
        ),
        (
            json!({"stopWhen": {"sameFailureOnNodes": 2, "progressAfter": "soon"}}),
            "stopWhen.progressAfter",
            "must be a duration",
        ),
    ] {
        only(field, &of(budget), &format!("error: spec.failurePolicy.{field}: "), fragment);
    }
    let start = "warning: spec.failurePolicy.stopWhen: ";
    only("nothing", &of(json!({"stopWhen": {"progressAfter": "5m"}})), start, "has no effect");
}

#[test]
fn the_reasons_of_a_failure_policy_are_those_of_jobs() {
    let of = |reasons: Value| {
        failure(json!([{"action": "FailAppWrapper", "onJobFailureReasons": reasons}]))
    };
    let five = json!([
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "FailedIndexes",
        "MaxFailedIndexesExceeded",
        "PodFailurePolicy"
    ]);
    assert_eq!(of(five), Vec::<String>::new());
    let start = "error: spec.failurePolicy.rules[0].onJobFailureReasons[0]: ";
    for other in ["FailedJobs", "OOMKilled", "podFailurePolicy", ""] {
        only("29", &of(json!([other])), start, "");
    }
}

#[test]
fn doubtful_rules_of_a_failure_policy_are_warned_of() {
    let said = failure(json!([{"action": "RestartAppWrapper"}, {"action": "FailAppWrapper"}]));
    let start = "warning: spec.failurePolicy.rules[1]: never reached";
    only("-", &said, start, "rules[0] matches every failure");
    let said = failure(json!([{"action": "FailAppWrapper", "targetReplicatedJobs": ["b"]}]));
    let start = "warning: spec.failurePolicy.rules[0].targetReplicatedJobs: ";
    only("-", &said, start, "did you mean targetComponents?");
}

#[test]
fn wrong_rules_of_an_execution_policy_are_named() {
    let step =
        |listed: Value| json!([{"targetComponents": listed, "waitForComponentsStatus": "Ready"}]);
    for (said, start, fragment) in [
        (
            execution("AnyOrder", step(json!(["b"]))),
            "error: spec.executionPolicy.rules: ",
            "InOrder",
        ),
        (
            execution("InOrder", json!([])),
            "warning: spec.executionPolicy.executionPolicyOrder: ",
            "no effect",
        ),
        (
            execution("Sorted", step(json!(["b"]))),
            "error: spec.executionPolicy.executionPolicyOrder: ",
            "AnyOrder, InOrder",
        ),
        (
            execution("InOrder", step(json!([]))),
            "error: spec.executionPolicy.rules[0].targetComponents: ",
            "at least one",
        ),
        (
            execution("InOrder", step(json!(["c"]))),
            "error: spec.executionPolicy.rules[0].targetComponents[0]: ",
            "one of a, b",
        ),
        (
            execution(
                "InOrder",
                json!([
                    {"targetComponents": ["b"], "waitForComponentsStatus": "Ready"},
                    {"targetComponents": ["Job/b"], "waitForComponentsStatus": "Ready"},
                ]),
            ),
            "error: spec.executionPolicy.rules[1].targetComponents[0]: Invalid value: \"Job/b\": ",
            "rules[0] also names it",
        ),
        (
            execution(
                "InOrder",
                json!([{"targetComponents": ["b"], "waitForComponentsStatus": "Done"}]),
            ),
            "error: spec.executionPolicy.rules[0].waitForComponentsStatus: ",
            "Ready, Succeeded",
        ),
        (
            judged(&with(&three(), "/spec/executionPolicy", json!({"rules": step(json!(["b"]))}))),
            "error: spec.executionPolicy.rules: ",
            "InOrder",
        ),
        (
            execution("InOrder", json!([{"targetComponents": ["b"]}])),
            "error: spec.executionPolicy.rules[0].waitForComponentsStatus: ",
            "must be given",
        ),
    ] {
        only("-", &said, start, fragment);
    }
    let endless = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
    });
    let policy = json!({"executionPolicyOrder": "InOrder", "rules": [
        {"targetComponents": ["d"], "waitForComponentsStatus": "Succeeded"},
        {"targetComponents": ["a"], "waitForComponentsStatus": "Ready"}]});
    let said = judged(&with(&given(&[endless, job("a")]), "/spec/executionPolicy", policy));
    let start = "warning: spec.executionPolicy.rules[0].waitForComponentsStatus: ";
    only("-", &said, start, "Deployment/d does not complete on its own");
}

#[test]
fn wrong_rules_of_a_pod_failure_policy_are_named() {
    let codes = |operator: &str, values: Value| json!([{"action": "Count", "onExitCodes": {"operator": operator, "values": values}}]);
    let conditions =
        |conditions: Value| json!([{"action": "Ignore", "onPodConditions": conditions}]);
    let disrupted = json!({"type": "DisruptionTarget"});
    let values: Vec<i32> = (1..=256).collect();
    let many: Vec<Value> =
        (0..21).map(|_| json!({"action": "Ignore", "onPodConditions": [disrupted]})).collect();
    for (row, rules, start, fragment) in [
        ("22", codes("In", json!([0, 1])), "[0].onExitCodes.values[0]", "must not be 0"),
        ("23", codes("In", json!([2, 1, 2])), "[0].onExitCodes.values[2]", "unique"),
        ("23", codes("NotIn", json!([2, 2])), "[0].onExitCodes.values[1]", "unique"),
        ("24", codes("In", json!([])), "[0].onExitCodes.values", "at least one entry"),
        ("24", codes("NotIn", json!(values)), "[0].onExitCodes.values", "at most 255 entries"),
        (
            "24",
            codes("In", json!([4_294_967_297_i64])),
            "[0].onExitCodes.values[0]",
            "whole number",
        ),
        ("24", codes("Exists", json!([1])), "[0].onExitCodes.operator", "In, NotIn"),
        ("24", json!(many), "", "at most 20 entries"),
        (
            "25",
            conditions(json!(vec![disrupted.clone(); 21])),
            "[0].onPodConditions",
            "at most 20 entries",
        ),
        (
            "25",
            conditions(json!([{"status": "True"}])),
            "[0].onPodConditions[0].type",
            "must be given",
        ),
        (
            "25",
            conditions(json!([{"type": ""}])),
            "[0].onPodConditions[0].type",
            "must not be empty",
        ),
        (
            "25",
            conditions(json!([{"type": "Ready", "status": "yes"}])),
            "[0].onPodConditions[0].status",
            "True, False or Unknown",
        ),
        ("25", json!([{"action": "Count"}]), "[0]", "exactly one of"),
        ("25", conditions(json!([])), "[0]", "exactly one of"),
        (
            "25",
            json!([{"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}, "onPodConditions": [disrupted]}]),
            "[0]",
            "exactly one of",
        ),
        (
            "25",
            json!([{"action": "Count", "onExitCodes": {"containerName": "mian", "operator": "In", "values": [1]}}]),
            "[0].onExitCodes.containerName",
            "one of main",
        ),
        (
            "25",
            json!([{"action": "Count", "onExitCodes": {"containerName": "a b", "operator": "In", "values": [1]}}]),
            "[0].onExitCodes.containerName",
            "lower-case",
        ),
        (
            "25",
            json!([{"action": "FailJob", "onPodConditions": [disrupted]}]),
            "[0].action",
            "did you mean FailAppWrapper?",
        ),
        (
            "25",
            json!([{"action": "FailIndex", "onPodConditions": [disrupted]}]),
            "[0].action",
            "must be one of FailAppWrapper, Ignore, Count",
        ),
        (
            "25",
            json!([{"action": "Ignore", "targetComponents": ["x"], "onPodConditions": [disrupted]}]),
            "[0].targetComponents[0]",
            "one of a, b",
        ),
    ] {
        // two components have no pods to add containers, so that names are checked for certain
        let start = format!("error: spec.podFailurePolicy.rules{start}: ");
        let aw = with(
            &given(&[job("a"), job("b")]),
            "/spec/podFailurePolicy",
            json!({ "rules": rules }),
        );
        only(row, &judged(&aw), &start, fragment);
    }
    let missing = with(&three(), "/spec/podFailurePolicy", json!({}));
    only("24", &judged(&missing), "error: spec.podFailurePolicy.rules: must be given", "");
}

#[test]
fn init_containers_and_types_of_conditions_are_no_matter() {
    let mut preparing = job("a");
    preparing["spec"]["template"]["spec"]["initContainers"] = json!([{"name": "prepare"}]);
    let codes = json!({"containerName": "prepare", "operator": "NotIn", "values": [3]});
    let rules = json!([
        {"action": "FailAppWrapper", "onExitCodes": codes},
        {"action": "Ignore", "onPodConditions": [{"type": "example.com/Cosmic"}]},
    ]);
    let aw = with(&given(&[preparing]), "/spec/podFailurePolicy", json!({ "rules": rules }));
    assert_eq!(judged(&aw), Vec::<String>::new());
}

#[test]
fn doubtful_rules_of_a_pod_failure_policy_are_warned_of() {
    let said = pod_failure(json!([
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTraget"}]}
    ]));
    let start = "warning: spec.podFailurePolicy.rules[0].onPodConditions[0].type: ";
    only("-", &said, start, "did you mean DisruptionTarget?");
    let said = pod_failure(json!([{"action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget"}], "onTerminationMessage": {"pattern": "x"}}]));
    let start = "warning: spec.podFailurePolicy.rules[0].onTerminationMessage: ";
    only("-", &said, start, "unknown field, has no effect");
    let codes = json!({"containerName": "other", "operator": "In", "values": [1]});
    let said = pod_failure(json!([{"action": "Count", "onExitCodes": codes}]));
    let start = "warning: spec.podFailurePolicy.rules[0].onExitCodes.containerName: ";
    only("25", &said, start, "must be a container of the pods");
}

#[test]
fn one_broken_rule_does_not_hide_the_others() {
    let said = failure(json!([
        {"action": "FailJobSet"},
        {"action": "FailAppWrapper", "targetComponents": ["c"]},
    ]));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("error: spec.failurePolicy.rules[0].action: "), "{said:?}");
    assert!(said[1].starts_with("error: spec.failurePolicy.rules[1].targetComponents[0]: "));
}
