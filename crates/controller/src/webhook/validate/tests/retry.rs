use super::*;

fn policy(spec: Value) -> Vec<String> {
    say(retry_policy(
        &json!({
            "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
            "metadata": {"name": "infra"}, "spec": spec,
        }),
        &Config::default(),
    ))
}

fn rule(more: Value) -> Vec<String> {
    let mut rule = json!({"action": "Retry", "onConditions": ["Evicted"]});
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    policy(json!({"rules": [rule]}))
}

#[test]
fn a_good_policy_is_let_through() {
    let said = policy(json!({
        "retryLimit": 5, "defaultAction": "Fail", "override": true,
        "backoff": {"initialDelay": "10s", "multiplier": 2.0, "maxDelay": "5m"},
        "antiAffinity": {"mode": "none"},
        "rules": [
            {"name": "preempted", "action": "Retry", "containerName": "main",
                "includeInitContainers": false, "onConditions": ["OOMKilled", "Preempted"],
                "retryLimit": 3, "backoff": {"initialDelay": "0"}, "antiAffinity": {"mode": "node"},
                "mutate": {"memory": {"factor": 1.5, "max": "64Gi"}}},
            {"action": "Fail", "onExitCodes": {"operator": "NotIn", "values": [137]}},
            {"action": "Retry", "onTerminationMessage": {"pattern": ".*TRANSIENT.*"}},
            {"action": "Retry", "onFailureCategory": ["node", "storage_limit"]},
            {"action": "Retry", "onConditions": ["NodeLost", "StorageLimitExceeded"]},
        ],
    }));
    assert_eq!(said, Vec::<String>::new());
    assert_eq!(policy(json!({})), Vec::<String>::new());
}

#[test]
fn what_is_wrong_with_a_rule_is_named() {
    for (row, more, start, fragment) in [
        ("29", json!({"action": null}), ".action", "must be given"),
        ("29", json!({"action": "Ignore"}), ".action", "Retry, Fail"),
        ("29", json!({"action": "retry"}), ".action", "did you mean Retry?"),
        ("30", json!({"onConditions": []}), "", "exactly one of onConditions, onExitCodes"),
        ("30", json!({"onFailureCategory": ["oom"]}), "", "exactly one of"),
        ("30", json!({"mutate": {}}), ".mutate.memory", "must be given"),
        ("30", json!({"mutate": {"memory": {}}}), ".mutate.memory.factor", "must be given"),
        ("31", json!({"mutate": {"memory": {"factor": 1}}}), ".mutate.memory.factor", "above 1"),
        ("31", json!({"mutate": {"memory": {"factor": 0.5}}}), ".mutate.memory.factor", "above 1"),
        (
            "31",
            json!({"mutate": {"memory": {"factor": 1e308}}}),
            ".mutate.memory.factor",
            "at most 100",
        ),
        (
            "31",
            json!({"mutate": {"memory": {"factor": "2"}}}),
            ".mutate.memory.factor",
            "must be a number",
        ),
        (
            "31",
            json!({"mutate": {"memory": {"factor": 2, "max": "64GB"}}}),
            ".mutate.memory.max",
            "such as 64Gi",
        ),
        (
            "31",
            json!({"mutate": {"memory": {"factor": 2, "max": "0"}}}),
            ".mutate.memory.max",
            "at least 1 byte",
        ),
        (
            "31",
            json!({"action": "Fail", "mutate": {"memory": {"factor": 2}}}),
            ".mutate",
            "needs action Retry",
        ),
        ("32", json!({"name": "a".repeat(64)}), ".name", "at most 63 characters"),
        ("32", json!({"name": "A"}), ".name", "1 to 63"),
        ("32", json!({"name": ""}), ".name", "1 to 63"),
        ("32", json!({"containerName": "A"}), ".containerName", "1 to 63"),
        ("32", json!({"onConditions": ["OOM"]}), ".onConditions[0]", "OOMKilled, Evicted"),
        (
            "32",
            json!({"onConditions": [], "onFailureCategory": [""]}),
            ".onFailureCategory[0]",
            "name of a failure category",
        ),
        (
            "32",
            json!({"onConditions": [], "onTerminationMessage": {"pattern": "("}}),
            ".onTerminationMessage.pattern",
            "unclosed group",
        ),
        (
            "32",
            json!({"onConditions": [], "onExitCodes": {"operator": "In", "values": [0]}}),
            ".onExitCodes.values[0]",
            "must not be 0",
        ),
        ("32", json!({"retryLimit": 4_294_967_296_i64}), ".retryLimit", "must be a whole number"),
        ("32", json!({"retryLimit": -1}), ".retryLimit", "at least 0"),
        ("32", json!({"backoff": {}}), ".backoff.initialDelay", "must be given"),
        (
            "32",
            json!({"backoff": {"initialDelay": "5 days"}}),
            ".backoff.initialDelay",
            "must be a duration",
        ),
        (
            "32",
            json!({"backoff": {"initialDelay": "1s", "maxDelay": "-1s"}}),
            ".backoff.maxDelay",
            "not be negative",
        ),
        (
            "32",
            json!({"backoff": {"initialDelay": "11m"}}),
            ".backoff.initialDelay",
            "at most maxDelay (10m)",
        ),
        (
            "32",
            json!({"backoff": {"initialDelay": "1s", "multiplier": 0.5}}),
            ".backoff.multiplier",
            "at least 1",
        ),
        ("32", json!({"antiAffinity": {"mode": "zone"}}), ".antiAffinity.mode", "none, node"),
    ] {
        only(row, &rule(more), &format!("error: spec.rules[0]{start}: "), fragment);
    }
}

#[test]
fn a_field_that_cannot_be_read_hides_no_other_problem_of_its_rule() {
    let said = policy(json!({"override": true, "rules": [{
        "action": "retry", "name": "A", "onConditions": ["OOM"], "retryLimit": "3",
        "mutate": {"memory": {"factor": 0.5, "max": "64GB"}},
    }]}));
    let start = |field: &str| format!("error: spec.rules[0].{field}: Invalid value: ");
    for field in [
        "action",
        "retryLimit",
        "name",
        "onConditions[0]",
        "mutate.memory.factor",
        "mutate.memory.max",
    ] {
        let found = said.iter().filter(|line| line.starts_with(&start(field))).count();
        assert_eq!(found, 1, "{field}: {said:#?}");
    }
    assert_eq!(said.len(), 6, "{said:#?}");
    let unread = json!({"action": "Fail", "onExitCodes": {"operator": "in", "values": [1]}});
    only("30", &policy(json!({"rules": [unread]})), &start("onExitCodes.operator"), "In, NotIn");
}

#[test]
fn what_is_wrong_with_the_policy_is_named() {
    let evicted =
        |name: &str| json!({"name": name, "action": "Retry", "onConditions": ["Evicted"]});
    let unnamed = json!({"action": "Fail", "onConditions": ["Evicted"]});
    for (row, spec, start, fragment) in [
        (
            "32",
            json!({"retryLimit": 4_294_967_296_i64}),
            "error: spec.retryLimit: ",
            "whole number",
        ),
        ("32", json!({"retryLimit": -1}), "error: spec.retryLimit: ", "at least 0"),
        ("32", json!({"defaultAction": "Ignore"}), "error: spec.defaultAction: ", "Retry, Fail"),
        (
            "32",
            json!({"backoff": {"initialDelay": "x"}}),
            "error: spec.backoff.initialDelay: ",
            "duration",
        ),
        ("32", json!({"backoff": 7}), "error: spec.backoff: ", "must be an object"),
        ("32", json!({"retrylimit": 7}), "warning: spec.retrylimit: ", "did you mean retryLimit?"),
        (
            "32",
            json!({"rules": [evicted("a"), evicted("a")]}),
            "error: spec.rules[1].name: ",
            "spec.rules[0] also has it",
        ),
        (
            "32",
            json!({"rules": [evicted("rule1"), unnamed]}),
            "error: spec.rules[1].name: ",
            "must be unique",
        ),
        ("32", json!("x"), "error: spec: ", "must be an object"),
    ] {
        only(row, &policy(spec), start, fragment);
    }
    let fail = json!({"action": "Fail", "onConditions": ["Evicted"], "retryLimit": 1});
    let said = policy(json!({"rules": [fail]}));
    only("-", &said, "warning: spec.rules[0].retryLimit: ", "no effect with action Fail");
    let nameless = json!({
        "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy", "metadata": {},
    });
    let said = say(retry_policy(&nameless, &Config::default()));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("error: metadata.name: "), "{said:?}");
    assert_eq!(said[1], "error: spec: must be given");
}

#[test]
fn a_name_that_the_api_server_completes_is_judged_as_a_whole() {
    let said = |name: &str, prefix: &str| {
        say(retry_policy(
            &json!({
                "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
                "metadata": {"name": name, "generateName": prefix}, "spec": {},
            }),
            &Config::default(),
        ))
    };
    for (name, prefix) in [("", "infra-"), ("infra", ""), ("infra", "infra-"), ("", "a.b-")] {
        assert_eq!(said(name, prefix), Vec::<String>::new(), "{name} {prefix}");
    }
    let start = "error: metadata.generateName: Invalid value: \"In_\": ";
    only("prefix", &said("", "In_"), start, "at most 253 lower-case");
    only("name", &said("A", "infra-"), "error: metadata.name: Invalid value: \"A\": ", "253");
    only("none", &said("", ""), "error: metadata.name: Invalid value: \"\": ", "253");
}

#[test]
fn what_cannot_work_is_warned_of() {
    let on = |action: &str| json!({"action": action, "onConditions": ["Evicted"]});
    let start = "warning: spec.override: \"true\": ";
    for rules in [json!([]), json!([on("Retry")])] {
        let said = policy(json!({"override": true, "rules": rules}));
        only("override", &said, start, "no rule has action Fail");
        assert_eq!(policy(json!({"override": false, "rules": rules})), Vec::<String>::new());
    }
    let said = policy(json!({"override": true, "rules": [on("Retry"), on("Fail")]}));
    assert_eq!(said, Vec::<String>::new());
    let codes = |values: Value| {
        let codes = json!({"operator": "NotIn", "values": values});
        policy(json!({"rules": [{"action": "Fail", "onExitCodes": codes}]}))
    };
    let start = "warning: spec.rules[0].onExitCodes.values[1]: \"0\": ";
    only("23", &codes(json!([1, 0])), start, "has no effect");
    assert_eq!(codes(json!([0])), Vec::<String>::new(), "the list must have an entry");
    let of = json!({"rules": [{"action": "Retry", "onFailureCategory": ["oom", "cuda_error"]}]});
    let start = "warning: spec.rules[0].onFailureCategory[1]: \"cuda_error\": ";
    only("category", &policy(of.clone()), start, "neither built in nor");
    let retry =
        |limit: i32| json!({"action": "Retry", "onConditions": ["Evicted"], "retryLimit": limit});
    let of_rule = policy(json!({"rules": [retry(20), retry(21)]}));
    let start = "warning: spec.rules[1].retryLimit: \"21\": ";
    only("limit of a rule", &of_rule, start, "at most 20 restarts");
    let start = "warning: spec.retryLimit: \"50\": ";
    only("limit", &policy(json!({"retryLimit": 50, "rules": []})), start, "at most 20 restarts");
    let text = "failureCategories: [{name: cuda_error, onTerminationMessage: {pattern: CUDA}}]";
    let config = Config::parse(text).unwrap();
    let object = json!({
        "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": "infra"}, "spec": of,
    });
    assert_eq!(say(retry_policy(&object, &config)), Vec::<String>::new());
}
