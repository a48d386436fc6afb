//! `spec.podFailurePolicy`: rules in order over every failed pod, each judged once.

use serde_json::{Value, json};

use super::{at, explain, job, job_that_is, line, pod, spec, with, wrapper};

const FIELDS: [&str; 8] = [
    "/nextPhase",
    "/action",
    "/rule/source",
    "/rule/index",
    "/counted",
    "/retries/limit",
    "/deadline",
    "/failure/pod",
];

fn ruled(rules: &str) -> Value {
    spec(wrapper("Running"), &format!("podFailurePolicy: {{rules: [{rules}]}}"))
}

/// A pod that was to be disrupted.
fn disrupted(name: &str, reason: &str) -> Value {
    with(
        pod(name, "Failed", 143),
        "/status/conditions",
        json!([{"type": "DisruptionTarget", "status": "True", "reason": reason,
            "lastTransitionTime": at(19)}]),
    )
}

/// A second later.
fn later(pod: Value) -> Value {
    with(pod, "/status/containerStatuses/0/state/terminated/finishedAt", json!(at(21)))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table has as many lines as rows")]
fn every_action_over_a_job_that_goes_on_and_over_one_that_failed() {
    let fail = "{action: FailAppWrapper, onExitCodes: {operator: In, values: [42]}}";
    let ignore = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}";
    let count = "{action: Count, onExitCodes: {operator: NotIn, values: [1]}}";
    let named = |name: &str| {
        format!(
            "{{action: FailAppWrapper, onExitCodes: {{containerName: {name}, operator: In, \
             values: [42]}}}}"
        )
    };
    let evicted = || disrupted("w-0", "EvictionByEvictionAPI");
    let running = || pod("w-1", "Running", 0);
    let waits = |pod: &str| format!("Running Wait - - null 3 {} {pod}", at(80));
    let failed = || job_that_is("Failed", "BackoffLimitExceeded");
    for (what, rules, job, pods, want) in [
        (
            "a fatal code, at once",
            fail.to_owned(),
            job(),
            vec![pod("w-0", "Failed", 42), running()],
            "Failed Fail podFailurePolicy 0 null - null w-0".to_owned(),
        ),
        (
            "another code",
            fail.to_owned(),
            job(),
            vec![pod("w-0", "Failed", 41), running()],
            waits("w-0"),
        ),
        (
            "of another container",
            named("sidecar"),
            job(),
            vec![pod("w-0", "Failed", 42), running()],
            waits("w-0"),
        ),
        (
            "of that container",
            named("main"),
            job(),
            vec![pod("w-0", "Failed", 42), running()],
            "Failed Fail podFailurePolicy 0 null - null w-0".into(),
        ),
        (
            "fatal, before anything is ignored",
            [ignore, fail].join(", "),
            job(),
            vec![evicted(), later(pod("w-1", "Failed", 42))],
            "Failed Fail podFailurePolicy 1 null - null w-1".into(),
        ),
        (
            "the first rule that matches",
            [count, fail].join(", "),
            job(),
            vec![pod("w-0", "Failed", 42), running()],
            waits("w-0"),
        ),
        (
            "ignored: the Job replaces it, and too few pods are waited for as ever",
            ignore.to_owned(),
            job(),
            vec![evicted(), running()],
            format!("Running Wait - - null 3 {} null", at(20 + 300 + 60)),
        ),
        (
            "ignored, and the Job has failed of it",
            ignore.to_owned(),
            failed(),
            vec![evicted(), running()],
            "Resetting RestartIgnoringLimit podFailurePolicy 0 false - null w-0".into(),
        ),
        (
            "ignored, but another pod is not",
            ignore.to_owned(),
            failed(),
            vec![evicted(), later(pod("w-1", "Failed", 3))],
            "Resetting Restart retryLimit null true 3 null w-1".into(),
        ),
        (
            "another status",
            "{action: Ignore, onPodConditions: [{type: DisruptionTarget, status: 'False'}]}".into(),
            failed(),
            vec![evicted(), running()],
            "Resetting Restart retryLimit null true 3 null w-0".into(),
        ),
        (
            "counted: the rule that says so is named",
            [count, ignore].join(", "),
            failed(),
            vec![evicted(), running()],
            "Resetting Restart retryLimit 0 true 3 null w-0".into(),
        ),
        (
            "another component",
            "{action: FailAppWrapper, targetComponents: [other], \
             onExitCodes: {operator: In, values: [42]}}"
                .into(),
            failed(),
            vec![pod("w-0", "Failed", 42), running()],
            "Resetting Restart retryLimit null true 3 null w-0".into(),
        ),
    ] {
        let objects = [vec![ruled(&rules), job], pods].concat();
        assert_eq!(line(&explain(&objects, 30), &FIELDS), want, "{what}");
    }
}

#[test]
fn a_pod_that_was_made_up_for_is_judged_all_the_same() {
    let fail = "{action: FailAppWrapper, onExitCodes: {operator: In, values: [42]}}";
    let pods = [pod("w-x", "Failed", 42), pod("w-0", "Running", 0), pod("w-1", "Running", 0)];
    let objects = [vec![ruled(fail), job()], pods.to_vec()].concat();
    let want = "Failed Fail podFailurePolicy 0 null - null w-x";
    assert_eq!(line(&explain(&objects, 30), &FIELDS), want);
}

#[test]
fn an_ignored_pod_has_no_exit_code_for_the_annotations() {
    let ignore = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}";
    let wrapper = super::tuned(ruled(ignore), "terminalExitCodes", "143");
    let objects = [
        wrapper,
        job_that_is("Failed", "BackoffLimitExceeded"),
        disrupted("w-0", "EvictionByEvictionAPI"),
    ];
    let want = "Resetting RestartIgnoringLimit podFailurePolicy 0 false - null w-0";
    assert_eq!(line(&explain(&objects, 30), &FIELDS), want);
}

#[test]
fn nothing_replaces_a_wrapped_pod_that_is_ignored() {
    let ignore = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}";
    let mut wrapper = ruled(ignore);
    let mut pod = disrupted("p", "DeletionByTaintManager");
    wrapper["spec"]["components"][0]["template"] = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p"}, "spec": pod["spec"].clone()});
    wrapper["status"]["componentStatus"][0] = json!({"name": "p", "kind": "Pod",
        "apiVersion": "v1", "podSets": [{"path": "template"}]});
    pod["metadata"]["ownerReferences"] = job()["metadata"]["ownerReferences"].clone();
    let want = "Resetting RestartIgnoringLimit podFailurePolicy 0 false - null p";
    assert_eq!(line(&explain(&[wrapper, pod], 21), &FIELDS), want);
}
