//! Stage 3: the annotations `terminalExitCodes` and `retryableExitCodes`.

use super::build::{check, container, failed, running};
use crate::decide::tests::given::World;

const FAILS: &str = "Fail exitCodeAnnotation";
const COUNTED: &str = "Restart retryLimit 0 of 3";

fn terminal(codes: &[i32]) -> World {
    let codes = codes.iter().copied().collect();
    running(&["Job/work:2"]).limits(|limits| limits.terminal_exit_codes = codes)
}

fn retryable(codes: &[i32]) -> World {
    let codes = codes.iter().copied().collect();
    running(&["Job/work:2"]).limits(|limits| limits.retryable_exit_codes = codes)
}

#[test]
fn a_terminal_code_and_one_that_is_not_retryable_fail_at_once() {
    let pod = |code| failed(0).code(code);
    check(vec![
        ("terminal", terminal(&[3]).with(pod(3)), 20, FAILS),
        ("not terminal", terminal(&[3]).with(pod(4)), 80, COUNTED),
        ("retryable", retryable(&[3]).with(pod(3)), 80, COUNTED),
        ("… waits for its grace", retryable(&[3]).with(pod(3)), 20, "Wait 80"),
        ("not retryable", retryable(&[3]).with(pod(4)), 20, FAILS),
    ]);
}

#[test]
fn codes_are_the_non_zero_ones_of_app_containers() {
    let side = |code| failed(0).code(0).and(container("side", code, "Error", "", 20));
    let init = failed(0).code(0).and_init(container("prepare", 3, "Error", "", 20));
    let evicted = failed(0).code(0).because("Evicted");
    check(vec![
        ("any container", terminal(&[3]).with(side(3)), 20, FAILS),
        ("0 is no code", retryable(&[3]).with(side(3)), 80, COUNTED),
        ("any that is not retryable", retryable(&[3]).with(side(4)), 20, FAILS),
        ("not an init container's: terminal", terminal(&[3]).with(init.clone()), 80, COUNTED),
        ("not an init container's: retryable", retryable(&[4]).with(init), 80, COUNTED),
        ("without a code, go on", retryable(&[3]).with(evicted), 80, COUNTED),
    ]);
}

#[test]
fn codes_are_those_of_the_pods_that_the_pod_failure_policy_left() {
    let policy = |action: &str| {
        format!(
            "podFailurePolicy: {{rules: [{{action: {action}, \
             onExitCodes: {{operator: In, values: [3]}}}}]}}"
        )
    };
    let pods = |world: World| world.with(failed(0).code(3)).with(failed(0).code(4));
    check(vec![
        ("an ignored pod has no say", pods(terminal(&[3]).spec(&policy("Ignore"))), 80, COUNTED),
        ("a counted pod has", pods(terminal(&[3]).spec(&policy("Count"))), 20, FAILS),
        (
            "the pod failure policy comes first",
            pods(terminal(&[3]).spec(&policy("FailAppWrapper"))),
            20,
            "Fail podFailurePolicy#0",
        ),
    ]);
}

#[test]
fn exit_codes_come_before_the_failure_policy_and_retry_policies() {
    let restart = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let world = || terminal(&[3]).with(failed(0).code(3)).fails(0, "BackoffLimitExceeded", "", 20);
    check(vec![
        ("failurePolicy", world().spec(restart), 20, FAILS),
        ("a retry policy", world().retry_policy("p", "{defaultAction: Retry}"), 20, FAILS),
    ]);
}
