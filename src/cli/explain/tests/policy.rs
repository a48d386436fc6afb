//! What is decided about a failure: the kill switch, exit codes, the limit; and the text for people.

use serde_json::{Value, json};

use super::super::{answer, text};
use super::{at, explain, explain_with, inputs, job, job_that_is, line, pod, tuned, with, wrapper};

const FIELDS: [&str; 8] = [
    "/nextPhase",
    "/action",
    "/rule/source",
    "/counted",
    "/retries/used",
    "/retries/limit",
    "/retryAfterSeconds",
    "/delete",
];

fn failed(wrapper: Value) -> Vec<Value> {
    vec![wrapper, job(), pod("w-0", "Failed", 3), pod("w-1", "Running", 0)]
}

fn used(count: i32) -> Value {
    with(wrapper("Running"), "/status/resettingCount", json!(count))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table has as many lines as rows")]
fn the_stages_in_their_order() {
    let codes = |key, value| failed(tuned(wrapper("Running"), key, value));
    let delete = r#"["Job/work"]"#;
    for (what, settings, objects, second, want) in [
        (
            "within the limit",
            "{}",
            failed(used(1)),
            80,
            format!("Resetting Restart retryLimit true 1 3 90 {delete}"),
        ),
        (
            "no restart left",
            "{}",
            failed(used(3)),
            80,
            format!("Failed Fail retryLimit null 3 3 null {delete}"),
        ),
        (
            "the annotation's limit",
            "{}",
            failed(tuned(used(3), "retryLimit", "5")),
            80,
            format!("Resetting Restart retryLimit true 3 5 90 {delete}"),
        ),
        (
            "the global limit",
            "{retryPolicy: {globalMaxRetries: 2}}",
            failed(used(2)),
            80,
            format!("Failed Fail retryLimit null 2 2 null {delete}"),
        ),
        (
            "the kill switch",
            "{retryPolicy: {globalMaxRetries: 0}}",
            failed(used(0)),
            80,
            format!("Failed Fail killSwitch null 0 0 null {delete}"),
        ),
        (
            "a terminal code, at once",
            "{}",
            codes("terminalExitCodes", "1, 3"),
            21,
            format!("Failed Fail exitCodeAnnotation null - - null {delete}"),
        ),
        (
            "a code that may not be retried",
            "{}",
            codes("retryableExitCodes", "4"),
            21,
            format!("Failed Fail exitCodeAnnotation null - - null {delete}"),
        ),
        (
            "a code that may be retried",
            "{}",
            codes("retryableExitCodes", "3,4"),
            80,
            format!("Resetting Restart retryLimit true 0 3 90 {delete}"),
        ),
        (
            "the pause of the annotation",
            "{}",
            codes("retryPausePeriodDuration", "7s"),
            80,
            format!("Resetting Restart retryLimit true 0 3 7 {delete}"),
        ),
        (
            "kept after failure",
            "{}",
            failed(tuned(used(3), "deletionOnFailureGracePeriodDuration", "1h")),
            80,
            "Failed Fail retryLimit null 3 3 null []".into(),
        ),
    ] {
        assert_eq!(line(&explain_with(settings, &objects, second), &FIELDS), want, "{what}");
    }
}

#[test]
fn max_restarts_of_the_failure_policy_comes_before_the_annotation() {
    let policy = with(used(3), "/spec/failurePolicy", json!({"maxRestarts": 4}));
    let answer = explain(&failed(policy), 80);
    assert_eq!(line(&answer, &["/action", "/retries/limit"]), "Restart 4");
}

#[test]
fn the_first_cause_is_named() {
    let late = with(
        pod("w-1", "Failed", 143),
        "/status/containerStatuses/0/state/terminated/finishedAt",
        json!(at(25)),
    );
    let objects = vec![
        wrapper("Running"),
        job_that_is("Failed", "BackoffLimitExceeded"),
        late,
        with(
            pod("w-0", "Failed", 137),
            "/status/containerStatuses/0/state/terminated/reason",
            json!("OOMKilled"),
        ),
    ];
    let answer = explain(&objects, 30);
    let want = json!({"component": "work", "pod": "w-0", "node": "node-1", "container": "main",
        "exitCode": 137, "reason": "OOMKilled", "category": "oom"});
    assert_eq!(answer["failure"], want);
    assert_eq!(answer["reason"], "FailedComponent");
}

#[test]
fn a_signal_is_told_with_the_rest_of_the_cause() {
    let ended = "/status/containerStatuses/0/state/terminated/signal";
    let objects = [
        wrapper("Running"),
        job_that_is("Failed", "BackoffLimitExceeded"),
        with(pod("w-0", "Failed", 139), ended, json!(11)),
    ];
    let (inputs, config) = inputs("{}", &objects, 30);
    let now = at(30).parse().expect("a moment");
    let said = answer::explain(&inputs, &config, now);
    let lines = text::details(&said, now);
    let want = "  failure   component work, pod w-0, container main, exit code 139, signal 11, \
                reason Error, category application, node node-1";
    assert!(lines.iter().any(|line| line == want), "{lines:?}");
    let json = serde_json::to_value(&said).expect("JSON");
    assert_eq!(json["failure"]["signal"], 11);
}

#[test]
fn a_component_without_pods_speaks_for_itself() {
    let answer = explain(&[wrapper("Running"), job_that_is("Failed", "DeadlineExceeded")], 30);
    let failure = &answer["failure"];
    assert_eq!(
        line(failure, &["/component", "/pod", "/reason", "/message"]),
        "work null DeadlineExceeded says the Job"
    );
}
