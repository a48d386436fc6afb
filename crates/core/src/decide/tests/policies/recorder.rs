//! The recorded attempts: what is written of a failure before anything is deleted.

use super::build::{container, failed, ready, running};
use crate::api::{AttemptAction, AttemptOutcome, Phase, RuleSource, condition};
use crate::decide::tests::given::{World, at};
use crate::snapshot::{Container, Pod};

fn job() -> World {
    running(&["Job/work:3"])
        .with(failed(0).code(9).at(22).on("node-2"))
        .with(failed(0).ended(container("main", 7, "Error", "first of all", 20)))
        .with(failed(0).code(9).at(24))
        .fails(0, "BackoffLimitExceeded", "", 25)
}

#[test]
fn the_first_cause_by_container_finish_time_is_recorded_and_the_rest_is_collateral() {
    let decision = job().decide(26);
    assert_eq!((decision.next, decision.actions.len()), (Phase::Resetting, 0));
    let attempt = decision.status.attempts.last().unwrap();
    assert_eq!(attempt.collateral, Some(2));
    assert_eq!(attempt.failed_at.as_ref().map(|time| time.0), Some(at(20)));
    let failure = attempt.failure.as_ref().unwrap();
    assert_eq!(failure.pod.as_deref(), Some("work-1"));
    assert_eq!(failure.pod_uid.as_deref(), Some("pod-work-1"));
    assert_eq!(failure.component.as_deref(), Some("work"));
    assert_eq!(failure.node.as_deref(), Some("node-1"));
    assert_eq!(failure.container.as_deref(), Some("main"));
    assert_eq!(failure.exit_code, Some(7));
    assert_eq!(failure.message.as_deref(), Some("first of all"));
    assert_eq!(failure.category.as_deref(), Some("application"));
}

#[test]
fn a_pod_that_was_replaced_before_is_no_collateral() {
    let jobs = running(&["Job/a:1", "Job/b:1"]).with(failed(0).at(5)).ready(0, 1).backoff(0, 6, 1);
    let settled = jobs.with(ready(1)).settled(6);
    let fails = settled.pod(2, |pod| *pod = Pod { name: pod.name.clone(), ..failed(1).at(30) });
    let decision =
        fails.fails(1, "BackoffLimitExceeded", "1 Worker replica(s) failed.", 31).decide(31);
    let attempt = decision.status.attempts.last().unwrap();
    let failure = attempt.failure.as_ref().unwrap();
    assert_eq!((failure.component.as_deref(), attempt.collateral), (Some("b"), Some(0)));
    let said = &decision.verdict.message;
    assert!(said.contains("1 Worker replica(s) failed; pod "), "{said}");
}

#[test]
fn rule_and_retries_are_those_that_decided() {
    let policy = "{retryLimit: 4, rules: [{name: seven, action: Retry, \
                  onExitCodes: {operator: In, values: [7]}}]}";
    let ignoring = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    for (world, action, source, limit) in [
        (job(), AttemptAction::Restart, RuleSource::RetryLimit, Some(3)),
        (job().retries(3), AttemptAction::Fail, RuleSource::RetryLimit, Some(3)),
        (job().retry_policy("p", policy), AttemptAction::Restart, RuleSource::RetryPolicy, Some(4)),
        (
            job().spec(ignoring),
            AttemptAction::RestartIgnoringLimit,
            RuleSource::FailurePolicy,
            None,
        ),
    ] {
        let decision = world.decide(26);
        let attempt = decision.status.attempts.last().unwrap();
        assert_eq!(attempt.outcome, Some(AttemptOutcome::Failed));
        assert_eq!(attempt.action, Some(action));
        assert_eq!(attempt.rule.as_ref().map(|rule| rule.source), Some(source));
        assert_eq!(attempt.retries.map(|retries| retries.limit), limit);
        assert_eq!(attempt.rule, decision.verdict.rule);
        assert_eq!(attempt.retries, decision.verdict.retries);
    }
}

#[test]
fn record_event_and_condition_name_the_rule_that_decided() {
    let fatal = "podFailurePolicy: {rules: [\
                 {action: Count, onPodConditions: [{type: DisruptionTarget}]}, \
                 {action: FailAppWrapper, onExitCodes: {operator: In, values: [7]}}]}";
    let again = "{rules: [{name: seven, action: Retry, onExitCodes: {operator: In, values: [7]}}]}";
    for (world, source, event, place) in [
        (job().spec(fatal), RuleSource::PodFailurePolicy, "Failed", "rule 1 of podFailurePolicy"),
        (
            job().retry_policy("p", again),
            RuleSource::RetryPolicy,
            "FailedComponent",
            "rule seven of RetryPolicy p",
        ),
    ] {
        let decision = world.decide(26);
        let rule = decision.status.attempts.last().unwrap().rule.as_ref().unwrap();
        assert_eq!(rule.source, source);
        assert_eq!(rule.index, Some(i32::from(event == "Failed")));
        let told = decision.events.iter().find(|one| one.reason == event).unwrap();
        assert!(told.message.contains(place), "{}", told.message);
        let conditions = &decision.status.conditions;
        let unhealthy = condition::find(conditions, condition::UNHEALTHY).unwrap();
        assert!(unhealthy.message.contains(place), "{}", unhealthy.message);
    }
}

#[test]
fn without_a_pod_only_component_reason_and_message_are_told() {
    let world = running(&["Job/work:1"]).fails(0, "DeadlineExceeded", "too long", 25);
    let decision = world.decide(26);
    let failure = decision.status.attempts.last().unwrap().failure.clone().unwrap();
    let want = crate::api::FailureRecord {
        component: Some("work".into()),
        reason: Some("DeadlineExceeded".into()),
        message: Some("too long".into()),
        ..Default::default()
    };
    assert_eq!(failure, want);
    assert_eq!(decision.status.attempts[0].collateral, Some(0));
}

#[test]
fn of_an_init_container_it_is_recorded_that_it_is_one() {
    for (init, want) in [(true, Some(true)), (false, None)] {
        let ended = Container { init, ..container("setup", 3, "Error", "", 20) };
        let world = running(&["Job/work:1"]).with(failed(0).ended(ended));
        let verdict = world.fails(0, "BackoffLimitExceeded", "", 25).decide(70).verdict;
        let failure = verdict.failure.unwrap();
        assert_eq!((failure.container.as_deref(), failure.init_container), (Some("setup"), want));
    }
}

/// A Job counts a pod that is Terminating as failed, and may fail while the pod still uses its grace period.
#[test]
fn a_pod_that_is_being_disrupted_is_why_its_job_failed() {
    let going = |reason: &str| {
        let pod = ready(0).condition("DisruptionTarget", "True", reason);
        Pod { terminating: true, due_to_go: Some(at(60)), ..pod }
    };
    let again = "{rules: [{name: moved, action: Retry, onConditions: [Preempted]}]}";
    for (reason, category, rule) in [
        ("EvictionByEvictionAPI", "evicted", None),
        ("PreemptionByScheduler", "preempted", Some("moved")),
        ("DeletionByTaintManager", "node", None),
    ] {
        let world = running(&["Job/work:1"]).with(going(reason)).retry_policy("p", again);
        let verdict = world.fails(0, "BackoffLimitExceeded", "", 25).decide(70).verdict;
        let failure = verdict.failure.unwrap();
        assert_eq!(failure.pod.as_deref(), Some("work-0"));
        assert_eq!(failure.reason.as_deref(), Some(reason));
        assert_eq!(failure.category.as_deref(), Some(category));
        assert_eq!(verdict.rule.unwrap().name.as_deref(), rule, "{reason}");
    }
    let user = running(&["Job/work:1"]).with(Pod { terminating: true, ..ready(0) });
    let failure = user.fails(0, "BackoffLimitExceeded", "", 25).decide(26).verdict.failure.unwrap();
    assert_eq!(failure.pod, None, "nothing says that it was ended from outside");
}

#[test]
fn a_message_is_kept_to_1_kib() {
    let long = "é".repeat(2000);
    let pod = failed(0).ended(container("main", 1, "Error", &long, 20));
    let world = running(&["Job/work:1"]).with(pod).fails(0, "BackoffLimitExceeded", "", 25);
    let failure = world.decide(26).verdict.failure.unwrap();
    assert_eq!(failure.message.unwrap().len(), 1024);
}

#[test]
fn an_entry_that_is_closed_is_changed_no_more_and_ten_are_kept() {
    let policy = "failurePolicy: {maxRestarts: 99, rules: [{action: RecreateComponent}]}";
    let mut world = job().spec(policy);
    for attempt in 1..10 {
        let entry = crate::api::Attempt { attempt, ..Default::default() };
        world.snapshot.status.attempts.push(entry);
    }
    world = world.object_of(0, |object| object.attempt = Some(9));
    world.snapshot.pods.iter_mut().for_each(|pod| pod.attempt = Some(9));
    let before = world.snapshot.status.attempts.clone();
    let after = world.decide(26).status.attempts;
    assert_eq!(after.len(), 10);
    assert_eq!(after[..8], before[1..9], "the oldest went, the others are as they were");
    let numbers: Vec<i32> = after[8..].iter().map(|entry| entry.attempt).collect();
    assert_eq!(numbers, [9, 9], "the closed one and the one that is open");
    assert_eq!(after[8].outcome, Some(AttemptOutcome::ComponentRecreated));
    assert_eq!(after[8].action, Some(AttemptAction::RecreateComponent));
}

#[test]
fn what_suspensions_leave_pushes_out_no_failure() {
    let failure = Some(crate::api::FailureRecord::default());
    let mut world = job().suspended(true);
    world.snapshot.status.attempts = (0..9)
        .map(|attempt| crate::api::Attempt {
            attempt,
            failure: failure.clone(),
            ..Default::default()
        })
        .collect();
    for second in 0..12 {
        let decision = world.decide(26 + second);
        let ended = world.written(&decision).all_gone().settled(26 + second);
        world = ended.suspended(false);
        let decision = world.decide(26 + second);
        world = world.written(&decision).suspended(true);
    }
    let attempts = &world.snapshot.status.attempts;
    assert_eq!(attempts.len(), 10);
    assert_eq!(attempts.iter().filter(|one| one.failure.is_some()).count(), 9);
    assert!(attempts.last().is_some_and(|last| last.attempt > 10), "{attempts:?}");
}

#[test]
fn the_number_grows_with_every_teardown() {
    let world = job();
    let decision = world.decide(26);
    let gone = world.written(&decision).all_gone().settled(27);
    let resumed = gone.decide(1000);
    assert_eq!(resumed.next, Phase::Resuming);
    let numbers: Vec<i32> = resumed.status.attempts.iter().map(|one| one.attempt).collect();
    assert_eq!(numbers, [0, 1]);
    assert!(resumed.status.attempts[0].ended_at.is_some());
    assert_eq!(resumed.status.resetting_count, 1);
}

#[test]
fn the_number_grows_with_an_uncounted_restart_and_a_suspension_too() {
    let ignoring = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    for world in [job().spec(ignoring), job().suspended(true)] {
        let decision = world.decide(26);
        let gone = world.written(&decision).all_gone().settled(27);
        let resumed = gone.suspended(false).decide(1000);
        assert_eq!(resumed.next, Phase::Resuming);
        let numbers: Vec<i32> = resumed.status.attempts.iter().map(|one| one.attempt).collect();
        assert_eq!(numbers, [0, 1]);
        assert_eq!(resumed.status.resetting_count, 0);
    }
}
