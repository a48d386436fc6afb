//! What is said of a failure while it is waited for and once it is decided: the condition `Unhealthy`, and the record.

use super::build::{check, container, failed, in_phase, ready, running};
use crate::api::{Phase, condition};
use crate::decide::Decision;
use crate::decide::tests::given::{World, at};
use crate::plan::FreshRead;
use crate::snapshot::lost::Lost;
use crate::snapshot::{Pod, PodPhase};

/// Status, reason and message of `Unhealthy`.
fn unhealthy(decision: &Decision) -> [String; 3] {
    let found = condition::find(&decision.status.conditions, condition::UNHEALTHY);
    let found = found.expect("the condition");
    [found.status.clone(), found.reason.clone(), found.message.clone()]
}

/// A failed pod whose container ended with this code at a second.
fn ended(component: usize, code: i32, second: i64) -> Pod {
    Pod { containers: vec![container("main", code, "Error", "", second)], ..failed(component) }
}

#[test]
fn of_two_components_the_one_whose_pod_failed_first_is_asked_first() {
    let rules = "failurePolicy: {rules: [{name: fb, action: FailAppWrapper, targetComponents: [b]}, \
                 {name: fa, action: RestartAppWrapperAndIgnoreMaxRestarts, targetComponents: [a]}]}";
    let recreate =
        "failurePolicy: {rules: [{name: r, action: RecreateComponent, targetComponents: [a]}]}";
    // a pod of a fails at one second, one of b at another, and the Jobs say so at others
    let world = |pods: [i64; 2], jobs: [i64; 2], spec: &str| {
        let world =
            running(&["Job/a:1", "Job/b:1"]).with(ended(0, 1, pods[0])).with(ended(1, 1, pods[1]));
        let world = world.fails(0, "BackoffLimitExceeded", "", jobs[0]);
        world.fails(1, "BackoffLimitExceeded", "", jobs[1]).spec(spec)
    };
    let (fails, free) = ("Fail failurePolicy/fb#0", "RestartIgnoringLimit failurePolicy/fa#1");
    let (both, one) = ("Restart retryLimit 0 of 3", "RecreateComponent failurePolicy/r#0 0 of 3");
    check(vec![
        ("b, and both say so at once", world([21, 20], [25, 25], rules), 30, fails),
        ("b, but a says so first", world([21, 20], [24, 25], rules), 30, fails),
        ("a, but b says so first", world([20, 21], [25, 24], rules), 30, free),
        ("no rule is about b, which was first", world([21, 20], [24, 25], recreate), 30, both),
        ("… or in the same second", world([20, 20], [24, 25], recreate), 30, both),
        ("… or later", world([20, 21], [25, 24], recreate), 30, one),
    ]);
}

/// A Job of two pods, of which one failed and the other is being deleted; it is overdue at second 60.
fn one_failed_one_going() -> World {
    let going = Pod { terminating: true, due_to_go: Some(at(30)), ..ready(0) };
    let world = running(&["Job/work:2"]).with(ready(0)).with(ready(0)).settled(2);
    let world = world.pod_is(0, failed(0)).pod_is(1, going);
    world.limits(|limits| limits.forceful_deletion_grace = crate::tuning::Period::from_secs(30))
}

#[test]
fn a_pod_that_goes_hides_no_failed_one() {
    let world = one_failed_one_going();
    let first = world.decide(31);
    assert_eq!(unhealthy(&first)[..2], ["True", "FoundFailedPods"]);
    let world = world.written(&first);
    assert_eq!(unhealthy(&world.decide(32)), unhealthy(&first), "it stays so");
    let decision = world.clone().answered(FreshRead::Gone).ask(60);
    assert_eq!(unhealthy(&decision)[1], "StuckTerminating");
    assert!(
        unhealthy(&decision)[2].contains("code 1 (Error); pod work-1 is still Terminating"),
        "{decision:?}"
    );
    check(vec![
        ("it is waited for, and that ends", world.clone(), 59, "Wait 60"),
        ("then nothing replaces it", world, 60, "Restart retryLimit 0 of 3"),
    ]);
}

#[test]
fn several_failed_pods_are_counted() {
    for (count, want) in [(1, "with code 1 (Error)"), (2, "(Error); 2 pods failed in total")] {
        let world = (0..count).fold(running(&["Job/work:3"]), |world, _| world.with(failed(0)));
        let message = &unhealthy(&world.decide(21))[2];
        assert!(message.ends_with(want), "{message}");
    }
}

#[test]
fn of_many_invalid_values_the_first_are_named_and_others_counted() {
    for (count, want) in [
        (5, None),
        (6, Some("1 more value of the policies is invalid")),
        (7, Some("2 more values of the policies are invalid")),
    ] {
        let rule = serde_json::json!({"action": "FailAppWrapper", "targetComponents": ["x"]});
        let spec = serde_json::json!({"failurePolicy": {"rules": vec![rule; count]}});
        let world = in_phase(Phase::Empty, &["Job/a:1"]).with_spec(spec).suspended(true);
        let events = world.decide(0).events;
        let more = events.iter().find(|event| event.message.contains(" more value"));
        assert_eq!(more.map(|event| event.message.as_str()), want, "{count}");
    }
}

#[test]
fn the_condition_names_what_decides_also_where_another_failure_was_said_before() {
    let world = running(&["Job/a:1", "Job/b:1"]).with(ready(0)).with(ready(1)).settled(2);
    let world = world.limits(|limits| limits.terminal_exit_codes = [6].into());
    let world = world.pod_is(0, ended(0, 5, 20));
    let first = world.decide(20);
    assert!(unhealthy(&first)[2].contains("exited with code 5"), "{first:?}");
    let world = world.written(&first);
    let world = world.pod_is(1, ended(1, 6, 21));
    let decision = world.answered(FreshRead::Pods).ask(21);
    assert!(
        unhealthy(&decision)[2].contains("exit code 6 of container main of pod b-0"),
        "{decision:?}"
    );
}

#[test]
fn a_verdict_about_another_failure_than_the_first_names_it() {
    let codes = "podFailurePolicy: {rules: [{action: FailAppWrapper, onExitCodes: {operator: In, values: [6]}}]}";
    let but_40 = "podFailurePolicy: {rules: [{action: FailAppWrapper, onExitCodes: {operator: NotIn, values: [40]}}]}";
    let of_b = "failurePolicy: {rules: [{name: f, action: FailAppWrapper, targetComponents: [b]}]}";
    let both = || running(&["Job/a:1", "Job/b:1"]).with(ended(0, 5, 20)).with(ended(1, 6, 21));
    let side = container("side", 5, "Error", "", 21);
    let two = Pod { containers: vec![container("main", 40, "Error", "", 20), side], ..failed(0) };
    let failed_jobs =
        both().fails(0, "BackoffLimitExceeded", "", 25).fails(1, "BackoffLimitExceeded", "", 25);
    for (world, want) in [
        (both().spec(codes), "because of exit code 6 of container main of pod b-0"),
        (
            running(&["Job/a:1"]).with(two).spec(but_40),
            "because of exit code 5 of container side of pod a-0",
        ),
        (failed_jobs.spec(of_b), "fails the AppWrapper because of Job/b"),
        (running(&["Job/a:1"]).with(ended(0, 6, 20)).spec(codes), "fails the AppWrapper"),
    ] {
        let decision = world.answered(FreshRead::Gone).ask(30);
        let message = &unhealthy(&decision)[2];
        assert!(message.ends_with(want), "{message}");
    }
}

#[test]
fn a_failure_without_a_container_says_what_is_wrong() {
    let going = Pod { terminating: true, due_to_go: Some(at(30)), ..ready(0) };
    let stuck = running(&["Job/work:1"]).with(ready(0)).settled(2).pod_is(0, going);
    let slow =
        running(&["Job/work:1"]).with(Pod { phase: PodPhase::Pending, ..ready(0) }).settled(2);
    for (world, reason, message) in [
        (
            stuck,
            "StuckTerminating",
            "the pod is still Terminating after forcefulDeletionGracePeriod",
        ),
        (slow, "InsufficientPodsReady", "Job/work: 0 of 1 pods are running in pod set 0-0"),
    ] {
        let decision = world.answered(FreshRead::Pods).ask(3000);
        let attempt = decision.status.attempts.last().expect("an attempt");
        let failure = attempt.failure.as_ref().expect("a failure");
        assert_eq!(failure.reason.as_deref(), Some(reason));
        assert_eq!(failure.message.as_deref(), Some(message));
        assert!(unhealthy(&decision)[2].contains(message), "{decision:?}");
    }
}

#[test]
fn a_pod_whose_node_may_return_is_no_ignored_failure() {
    let ignore = "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";
    let world = running(&["Job/work:1"]).with(ready(0)).settled(2).loses_node(Lost::NotReady, 20);
    let decision = world.spec(ignore).decide(21);
    assert_eq!(decision.status.ignored_failures, 0);
    assert!(decision.events.iter().all(|event| event.reason != "IgnoredFailure"), "{decision:?}");
}

/// The failed pods of a Job stay: one that was replaced takes the place of no other.
#[test]
fn a_pod_that_was_replaced_is_not_there() {
    let replaced = running(&["Job/work:1"]).with(failed(0)).with(ready(0)).settled(100);
    let mut gone = replaced.clone();
    gone.snapshot.pods.truncate(1);
    let gone = gone.settled(200);
    check(vec![
        ("another took its place", replaced, 200, "None"),
        ("… and is gone: the admission grace runs", gone.clone(), 259, "Wait 320"),
        ("… and nothing replaces that one", gone.clone(), 320, "Restart retryLimit 0 of 3"),
    ]);
    let message = &unhealthy(&gone.decide(260))[2];
    assert!(message.contains("0 of 1 pods exist"), "{message}");
}
