//! RetryPolicies: attached to queues and to the AppWrapper, matched, counted, delayed; and replayed.

use serde_json::{Value, json};

use super::super::{answer, replay, text};
use super::{
    at, explain, explain_with, inputs, job, job_that_is, line, pod, tuned, two, with, wrapper, yaml,
};

const FIELDS: [&str; 9] = [
    "/nextPhase",
    "/action",
    "/rule/source",
    "/rule/policy",
    "/rule/name",
    "/rule/index",
    "/retries/used",
    "/retries/limit",
    "/retryAfterSeconds",
];

/// A RetryPolicy with this `spec` from YAML.
fn policy(name: &str, spec: &str) -> Value {
    json!({"apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": name}, "spec": yaml(spec)})
}

const INFRA: &str = "
retryLimit: 5
backoff: {initialDelay: 10s, multiplier: 2.0, maxDelay: 1m}
rules:
- {name: oom, action: Retry, onConditions: [OOMKilled], retryLimit: 1}
- {action: Fail, onExitCodes: {operator: In, values: [42]}}
- {name: flaky, action: Retry, onTerminationMessage: {pattern: 'TRANS\\w+'}, backoff: {initialDelay: 3s}}
- {name: nodes, action: Retry, onFailureCategory: [node, evicted], antiAffinity: {mode: node}}
";

fn own(names: &str) -> Value {
    tuned(wrapper("Running"), "retryPolicies", names)
}

/// Counts of the rules of a policy.
fn counted(wrapper: Value, total: i32, counts: &str) -> Value {
    let wrapper = with(wrapper, "/status/resettingCount", json!(total));
    with(wrapper, "/status/retryCounts", yaml(counts))
}

fn ended(pointer: &str, value: Value) -> Value {
    let terminated = "/status/containerStatuses/0/state/terminated";
    with(pod("w-0", "Failed", 3), &format!("{terminated}/{pointer}"), value)
}

/// The Job has failed of this pod.
fn failed(wrapper: Value, pod: Value, more: Vec<Value>) -> Vec<Value> {
    [vec![wrapper, job_that_is("Failed", "BackoffLimitExceeded"), pod], more].concat()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table has as many lines as rows")]
fn rules_limits_and_delays() {
    let oom = || ended("reason", json!("OOMKilled"));
    let used = "[{policy: infra, rule: oom, count: 1}, {policy: infra, rule: flaky, count: 2}]";
    let evicted = with(
        pod("w-0", "Failed", 143),
        "/status/conditions",
        json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": at(19)}]),
    );
    let transient = || ended("message", json!("a TRANSIENT error"));
    // the failure was at second 20, and now is second 22
    for (what, wrapper, pod, spec, want) in [
        (
            "a rule, with the policy's backoff",
            own("infra"),
            oom(),
            INFRA,
            "Resetting Restart retryPolicy infra oom 0 0 1 8",
        ),
        (
            "its limit is used up",
            counted(own("infra"), 1, used),
            oom(),
            INFRA,
            "Failed Fail retryLimit infra oom 0 1 1 null",
        ),
        (
            "a rule that fails, by its default name",
            own("infra"),
            ended("exitCode", json!(42)),
            INFRA,
            "Failed Fail retryPolicy infra rule1 1 - - null",
        ),
        (
            "the rule's own backoff",
            own("infra"),
            transient(),
            INFRA,
            "Resetting Restart retryPolicy infra flaky 2 0 5 1",
        ),
        (
            "which grows with the rule's own count",
            counted(own("infra"), 3, used),
            transient(),
            INFRA,
            "Resetting Restart retryPolicy infra flaky 2 2 5 10",
        ),
        (
            "the category",
            own("infra"),
            evicted,
            INFRA,
            "Resetting Restart retryPolicy infra nodes 3 0 5 8",
        ),
        (
            "no rule: the default action is Fail",
            own("infra"),
            pod("w-0", "Failed", 3),
            INFRA,
            "Failed Fail retryPolicy infra null null - - null",
        ),
        (
            "no rule: retried, counted as the rule without a name",
            counted(own("infra"), 4, "[{policy: infra, rule: '', count: 4}]"),
            pod("w-0", "Failed", 3),
            "{defaultAction: Retry, retryLimit: 5}",
            "Resetting Restart retryPolicy infra null null 4 5 90",
        ),
        (
            "a limit of none is the global one",
            counted(own("infra"), 19, "[{policy: infra, rule: '', count: 2}]"),
            pod("w-0", "Failed", 3),
            "{defaultAction: Retry}",
            "Resetting Restart retryPolicy infra null null 19 20 90",
        ),
        (
            "the total binds, whatever the rule has left",
            counted(own("infra"), 20, "[]"),
            oom(),
            INFRA,
            "Failed Fail retryLimit infra oom 0 20 20 null",
        ),
    ] {
        let objects = failed(wrapper, pod, vec![policy("infra", spec)]);
        assert_eq!(line(&explain(&objects, 22), &FIELDS), want, "{what}");
    }
}

#[test]
fn policies_are_attached_to_queues_and_add_up() {
    let queue = |kind: &str, name: &str, names: &str| {
        let mut queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": name, "annotations": {
                "workload.codeflare.dev/retry-policies": names}}});
        if kind == "LocalQueue" {
            queue["metadata"]["namespace"] = json!("ns");
            queue["spec"] = json!({"clusterQueue": "all"});
        }
        queue
    };
    let retry = |name: &str| policy(name, "{defaultAction: Retry}");
    let all = || {
        vec![
            queue("ClusterQueue", "all", "one"),
            queue("LocalQueue", "team", "two, one"),
            retry("one"),
            retry("two"),
            policy("three", "{rules: [{action: Fail, onExitCodes: {operator: In, values: [3]}}]}"),
        ]
    };
    let mut queued = own("three");
    queued["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "team"});
    let shown = ["/action", "/rule/policy", "/rule/name", "/message"];
    let answer = explain(&failed(queued.clone(), pod("w-0", "Failed", 3), all()), 22);
    assert_eq!(line(&answer, &shown[..3]), "Fail three rule0", "all rules come before any default");
    let answer = explain(&failed(queued.clone(), pod("w-0", "Failed", 4), all()), 22);
    assert_eq!(line(&answer, &shown[..3]), "Restart one null", "the ClusterQueue's comes first");
    let unknown = failed(queued, pod("w-0", "Failed", 4), vec![retry("two"), retry("three")]);
    let answer = explain(&unknown, 22);
    assert_eq!(line(&answer, &shown[..2]), "Restart three", "queues that are absent are unknown");
}

#[test]
fn a_namespace_of_what_has_none_is_left_out() {
    let mut infra = policy("infra", INFRA);
    infra["metadata"]["namespace"] = json!("ns");
    let queue = |kind: &str, name: &str| {
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": name, "namespace": "ns"}})
    };
    let mut local = queue("LocalQueue", "team");
    local["spec"] = json!({"clusterQueue": "all"});
    let mut cluster = queue("ClusterQueue", "all");
    cluster["metadata"]["annotations"] = json!({"workload.codeflare.dev/retry-policies": "infra"});
    let mut queued = wrapper("Running");
    queued["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "team"});
    for (wrapper, more) in
        [(own("infra"), vec![infra.clone()]), (queued, vec![infra, local, cluster])]
    {
        let objects = failed(wrapper, ended("exitCode", json!(42)), more);
        assert_eq!(line(&explain(&objects, 22), &FIELDS[1..5]), "Fail retryPolicy infra rule1");
    }
}

#[test]
fn a_policy_that_is_missing_is_named_and_the_others_hold() {
    let some =
        failed(own("gone,infra"), ended("exitCode", json!(42)), vec![policy("infra", INFRA)]);
    let answer = explain(&some, 22);
    assert_eq!(line(&answer, &FIELDS[1..5]), "Fail retryPolicy infra rule1");
    let message = answer["message"].as_str().expect("a message");
    assert!(message.contains("RetryPolicy gone does not exist"), "{message}");
    let none = explain(&failed(own("gone"), pod("w-0", "Failed", 3), vec![]), 22);
    assert_eq!(line(&none, &FIELDS[1..4]), "Restart retryLimit null", "none is in force");
}

#[test]
fn a_rule_has_the_name_in_the_text_that_events_give_it() {
    let objects = failed(own("infra"), ended("exitCode", json!(42)), vec![policy("infra", INFRA)]);
    let (inputs, config) = inputs("{}", &objects, 22);
    let now = at(22).parse().expect("a moment");
    let lines = text::details(&answer::explain(&inputs, &config, now), now);
    let want = "  by        rule rule1 of RetryPolicy infra".to_owned();
    assert!(lines.contains(&want), "{lines:?}");
}

#[test]
fn the_default_policy_holds_where_none_is_attached() {
    let settings = "{retryPolicy: {defaultPolicyName: infra}}";
    let objects = |wrapper| {
        let other = policy("other", "{defaultAction: Retry}");
        failed(wrapper, ended("exitCode", json!(42)), vec![policy("infra", INFRA), other])
    };
    let answer = explain_with(settings, &objects(wrapper("Running")), 22);
    assert_eq!(line(&answer, &FIELDS[1..4]), "Fail retryPolicy infra");
    let answer = explain_with(settings, &objects(own("other")), 22);
    assert_eq!(line(&answer, &FIELDS[1..4]), "Restart retryPolicy other");
}

#[test]
fn a_verdict_waits_for_the_grace_where_the_pod_may_be_replaced() {
    let objects = |spec: &str| {
        let failed = ended("exitCode", json!(42));
        vec![own("infra"), job(), failed, pod("w-1", "Running", 0), policy("infra", spec)]
    };
    let shown = ["/action", "/rule/name", "/deadline"];
    assert_eq!(line(&explain(&objects(INFRA), 22), &shown), "Fail rule1 null", "at once");
    let retry = "{rules: [{action: Retry, onExitCodes: {operator: In, values: [42]}}]}";
    let waits = format!("Wait - {}", at(80));
    assert_eq!(line(&explain(&objects(retry), 22), &shown), waits);
    assert_eq!(line(&explain(&objects("{defaultAction: Fail}"), 22), &shown), waits, "no rule");
    // the delay runs from the failure: nothing of it is left
    let fields = ["/action", "/retryAfterSeconds"];
    let backoff = format!("{{backoff: {{initialDelay: 10s}}, {}", &retry[1..]);
    assert_eq!(line(&explain(&objects(&backoff), 80), &fields), "Restart 0");
}

#[test]
fn a_node_is_avoided_unless_no_other_takes_the_pods() {
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
            "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}})
    };
    let spec = "{antiAffinity: {mode: node}, defaultAction: Retry}";
    for (what, nodes, want) in [
        ("another node takes them", vec![node("node-1"), node("node-2")], r#"["node-1"]"#),
        ("there is no other", vec![node("node-1")], "[]"),
        ("nodes are unknown", vec![], r#"["node-1"]"#),
    ] {
        let more = [vec![policy("infra", spec)], nodes].concat();
        let answer = explain(&failed(own("infra"), pod("w-0", "Failed", 3), more), 22);
        assert_eq!(line(&answer, &["/avoidNodes"]), want, "{what}");
    }
}

#[test]
fn more_memory_goes_back_through_the_queue() {
    let spec = "{rules: [{action: Retry, onConditions: [OOMKilled], \
                mutate: {memory: {factor: 2.0, max: 1Gi}}}]}";
    let sized = |memory: &str, queue: bool| {
        let mut wrapper = own("infra");
        let place = "/spec/components/0/template/spec/template/spec/containers/0";
        let container = wrapper.pointer_mut(place).expect("a container");
        container["resources"] = json!({"requests": {"memory": memory}});
        if queue {
            wrapper["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "team"});
        }
        wrapper
    };
    for (what, wrapper, want) in [
        ("queued", sized("256Mi", true), "Suspending Restart"),
        ("no queue", sized("256Mi", false), "Resetting Restart"),
        ("it has the most already", sized("1Gi", true), "Resetting Restart"),
    ] {
        let oom = ended("reason", json!("OOMKilled"));
        let objects = failed(wrapper, oom, vec![policy("infra", spec)]);
        assert_eq!(line(&explain(&objects, 22), &["/nextPhase", "/action"]), want, "{what}");
    }
}

#[test]
fn recorded_failures_are_replayed_by_retry_policies() {
    let attempts = "
    - {attempt: 0, action: Restart, rule: {source: retryLimit}, retries: {used: 0, limit: 3},
       failure: {component: work, pod: w-0, node: node-1, container: main, exitCode: 137,
         reason: OOMKilled, category: oom}}
    - {attempt: 1, action: Restart, rule: {source: retryLimit}, retries: {used: 1, limit: 3},
       failure: {component: work, pod: w-0, node: node-1, container: main, exitCode: 137,
         reason: OOMKilled, category: oom}}";
    let wrapper = with(counted(own("gone,infra"), 2, "[]"), "/status/attempts", yaml(attempts));
    let (inputs, config) = inputs("{}", &[wrapper, policy("infra", INFRA)], 0);
    let answer = replay::answer(&inputs, &config, at(0).parse().expect("a moment"));
    let answer = serde_json::to_value(&answer).expect("JSON");
    let shown = |index: usize| {
        let fields = [
            "/replayed/action",
            "/replayed/rule/source",
            "/replayed/rule/policy",
            "/replayed/rule/name",
            "/replayed/retries/used",
            "/replayed/retryAfterSeconds",
        ];
        line(&answer["attempts"][index], &fields)
    };
    assert_eq!(shown(0), "Restart retryPolicy infra oom 0 10");
    assert_eq!(shown(1), "Fail retryLimit infra oom 1 null");
    assert_eq!(answer["notes"], json!(["RetryPolicy gone does not exist"]));
}

#[test]
fn an_overriding_policy_says_so_in_its_rule() {
    let admin = |overrides: bool| {
        let rule = "{name: never, action: Fail, onExitCodes: {operator: In, values: [3]}}";
        policy("admin", &format!("{{override: {overrides}, rules: [{rule}]}}"))
    };
    let settings = "{retryPolicy: {defaultPolicyName: admin}}";
    let rule = |overrides| {
        let objects = failed(wrapper("Running"), pod("w-0", "Failed", 3), vec![admin(overrides)]);
        let answer = explain_with(settings, &objects, 22);
        (answer["rule"].clone(), line(&answer, &["/message"]))
    };
    let mut want = json!({"source": "retryPolicy", "policy": "admin", "name": "never", "index": 0});
    let (said, message) = rule(false);
    assert_eq!(said, want);
    let end = "; rule never of RetryPolicy admin fails the AppWrapper";
    assert!(message.ends_with(end), "{message}");
    want["override"] = json!(true);
    let (said, message) = rule(true);
    assert_eq!(said, want);
    let end = "; rule never of the overriding RetryPolicy admin fails the AppWrapper";
    assert!(message.ends_with(end), "{message}");
}

#[test]
fn the_budget_is_shown_with_the_time_of_the_next_refill() {
    let spec = json!({"maxRestarts": 3, "refill": {"after": "1h"}});
    let wrapper = with(wrapper("Running"), "/spec/failurePolicy", spec);
    let ready = json!([{"type": "PodsReady", "status": "True", "reason": "Test", "message": "",
        "lastTransitionTime": at(0)}]);
    let wrapper = with(wrapper, "/status/conditions", ready);
    for (used, want) in [(1, "1 counted restart used"), (2, "2 counted restarts used")] {
        let wrapper = with(wrapper.clone(), "/status/resettingCount", json!(used));
        let mut objects = vec![wrapper, job()];
        objects.extend(two());
        let (inputs, config) = inputs("{}", &objects, 22);
        let said = answer::explain(&inputs, &config, at(22).parse().expect("a moment"));
        let lines = text::details(&said, at(22).parse().expect("a moment"));
        let line = lines.iter().find(|line| line.contains("budget"));
        let then = "given back at 2026-01-01T01:00:00Z if pods keep running";
        assert_eq!(line, Some(&format!("  budget    {want}; {then}")));
        let json = serde_json::to_value(&said).expect("JSON");
        let budget = json!({"used": used, "globalUsed": used, "refillAt": "2026-01-01T01:00:00Z"});
        assert_eq!(json["budget"], budget);
    }
}

#[test]
fn restarts_are_unknown_where_a_policy_cannot_be_read() {
    let mut objects = vec![wrapper("Running"), job_that_is("Failed", "BackoffLimitExceeded")];
    objects.extend(two());
    let (mut inputs, config) = inputs("{}", &objects, 30);
    let now = at(30).parse().expect("a moment");
    for (unread, want) in [(vec![], "0 of 3 used before"), (vec!["no".to_owned()], "unknown")] {
        inputs.unread = unread;
        let said = answer::explain(&inputs, &config, now);
        let lines = text::details(&said, now);
        assert!(lines.contains(&format!("  restarts  {want}")), "{lines:?}");
        assert_eq!(said.retries.is_none(), want == "unknown");
    }
}

#[test]
fn a_first_report_is_newer_than_nothing() {
    let progress = json!({"startWithin": "10m", "stallAfter": "10m"});
    let wrapper = with(wrapper("Running"), "/spec/progress", progress);
    let ready = json!([{"type": "PodsReady", "status": "True", "reason": "Test", "message": "",
        "lastTransitionTime": at(0)}]);
    let wrapper = with(wrapper, "/status/conditions", ready);
    let since = json!({"podSets": [{"podSet": "0-0", "ready": true, "since": at(0)}]});
    let mut objects = vec![with(wrapper, "/status/since", since), job()];
    objects.extend(two());
    let (inputs, config) = inputs("{}", &objects, 330);
    let now = at(330).parse().expect("a moment");
    let lines = text::details(&answer::explain(&inputs, &config, now), now);
    let line = lines.iter().find(|line| line.starts_with("  progress")).expect("a line");
    assert!(line.contains("none reported; counts as a hang at"), "{line}");
    assert!(line.ends_with(", unless a report arrives"), "{line}");
}

#[test]
fn the_last_progress_is_shown_with_the_deadline() {
    let wrapper = with(wrapper("Running"), "/spec/progress", json!({"stallAfter": "10m"}));
    let ready = json!([{"type": "PodsReady", "status": "True", "reason": "Test", "message": "",
        "lastTransitionTime": at(0)}]);
    let wrapper = with(wrapper, "/status/conditions", ready);
    let since = json!({"podSets": [{"podSet": "0-0", "ready": true, "since": at(0)}]});
    let wrapper = with(wrapper, "/status/since", since);
    let mut objects = vec![wrapper, job()];
    objects.extend(two());
    let report = json!({"at": at(30), "step": 7, "percent": 40, "eta": 90, "checkpoint": "c-5"});
    let note = |text: String| json!({"workload.codeflare.dev/progress": text});
    objects[2]["metadata"]["annotations"] = note(report.to_string());
    objects[3]["metadata"]["annotations"] = note("{}".to_owned());
    let (inputs, config) = inputs("{}", &objects, 330);
    let now = at(330).parse().expect("a moment");
    let said = answer::explain(&inputs, &config, now);
    let lines = text::details(&said, now);
    let line = |name: &str| lines.iter().find(|line| line.starts_with(&format!("  {name}")));
    let deadline = "2026-01-01T00:10:30Z";
    let want = format!(
        "  progress  pod w-0, 5m ago: step 7, 40 %, 1m30s left, checkpoint c-5; counts as a hang at \
         {deadline}, in 5m, unless a newer report arrives"
    );
    assert_eq!(line("progress"), Some(&want));
    let note = line("note").expect("a note");
    let malformed = "pod w-1: annotation workload.codeflare.dev/progress: is not a JSON object";
    assert!(note.contains(malformed), "{note}");
    let json = serde_json::to_value(&said).expect("JSON");
    assert_eq!((&json["action"], &json["reason"]), (&json!("Wait"), &json!("Stalled")));
    let progress = json!({"pod": "w-0", "at": at(30), "step": 7, "percent": 40, "etaSeconds": 90,
        "checkpoint": "c-5", "hangAt": deadline});
    assert_eq!(json["progress"], progress);
}
