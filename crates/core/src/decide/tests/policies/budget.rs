//! `refill` and `stopWhen`: when restarts are given back, and when one is of no use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::build::{check, failed, running};
use crate::api::{
    Attempt, AttemptAction, AttemptOutcome, AttemptProgress, Budget, FailureRecord, Retries,
    condition,
};
use crate::decide::tests::given::{World, at};

/// A Job that is ready since a second, with so many counted restarts.
fn ready(since: i64, used: i32) -> World {
    let mut world = running(&["Job/work:1"]).retries(used);
    let conditions = &mut world.snapshot.status.conditions;
    condition::set(conditions, condition::PODS_READY, true, "Test", "", at(since));
    world.snapshot.status.attempts[0].ready_at = Some(Time(at(since)));
    world
}

/// Its pod fails at a second, with a code on a node, and the Job with it.
fn fails(world: World, second: i64, code: i32, node: &str) -> World {
    let pod = failed(0).code(code).at(second).on(node);
    world.with(pod).fails(0, "BackoffLimitExceeded", "", second)
}

/// The world once what is given back at a second is stored.
fn stored(world: World, second: i64) -> World {
    let decision = world.decide(second);
    let is_failure = decision.verdict.rule.is_some();
    if is_failure { world } else { world.written(&decision) }
}

fn budget(used: i32, global_used: i32, since: i64) -> Budget {
    Budget { used, global_used, since: Time(at(since)) }
}

const OWN: &str = "failurePolicy: {maxRestarts: 2, refill: {after: 10m}}";
const GLOBAL: &str = "retryPolicy: {globalMaxRetries: 2, refill: {after: 10m}}";
const RETRY: &str = "{defaultAction: Retry, retryLimit: 2, refill: {after: 10m}}";

#[test]
fn restarts_are_given_back_after_readiness_without_interruption() {
    let own = |failed, seen| stored(fails(ready(0, 2).spec(OWN), failed, 1, "n"), seen);
    let never = ready(0, 2).spec("failurePolicy: {maxRestarts: 2}");
    let unready = |world: World| {
        let mut world = world;
        let conditions = &mut world.snapshot.status.conditions;
        condition::set(conditions, condition::PODS_READY, false, "Test", "", at(400));
        world
    };
    let interrupted = fails(unready(ready(0, 2)).spec(OWN), 900, 1, "n");
    let of_user = ready(0, 2).spec("failurePolicy: {maxRestarts: 9, refill: {after: 1m}}");
    let of_user = of_user.configured("retryPolicy: {globalMaxRetries: 2}");
    let policy = |failed| {
        let world = ready(0, 2).retry_policy("p", RETRY).used("p", "", 2);
        stored(fails(world, failed, 1, "n"), 900)
    };
    let global = |failed| stored(fails(ready(0, 2).configured(GLOBAL), failed, 1, "n"), 900);
    check(vec![
        ("a second too early", own(599, 599), 599, "Fail retryLimit 2 of 2"),
        ("seen late: the failure counts", own(599, 900), 900, "Fail retryLimit 2 of 2"),
        ("just long enough", own(600, 600), 600, "Restart retryLimit 0 of 2"),
        ("seen late", own(600, 900), 900, "Restart retryLimit 0 of 2"),
        ("nothing gives back", fails(never, 900, 1, "n"), 900, "Fail retryLimit 2 of 2"),
        ("interrupted", stored(interrupted, 900), 900, "Fail retryLimit 2 of 2"),
        (
            "a user gives back no restart of the administrator's",
            stored(fails(of_user, 900, 1, "n"), 900),
            900,
            "Fail retryLimit 2 of 2",
        ),
        ("the administrator does", global(600), 900, "Restart retryLimit 2 of 3"),
        ("too early", global(599), 900, "Fail retryLimit 2 of 2"),
        ("a RetryPolicy", policy(600), 900, "Restart retryPolicy/p 0 of 2"),
        ("a RetryPolicy, too early", policy(599), 900, "Fail retryLimit/p 2 of 2"),
    ]);
}

#[test]
fn while_pods_are_ready_restarts_are_given_back_on_time() {
    let world = ready(0, 2).spec(OWN).ready(0, 1).settled(300);
    let early = world.decide(599);
    assert_eq!((early.requeue, early.status.budget), (Some(at(600)), None));
    let due = world.decide(600);
    assert_eq!(due.status.budget, Some(budget(0, 2, 600)));
    let after = world.written(&due);
    assert_eq!(after.decide(9000).requeue, None, "once");
    assert_eq!(after.decide(9000).status, after.snapshot.status);
    let again = fails(after, 700, 1, "n");
    let again = World {
        snapshot: crate::snapshot::Snapshot {
            pods: again.snapshot.pods.iter().skip(1).cloned().collect(),
            ..again.snapshot.clone()
        },
        ..again
    };
    let restart = again.decide(700);
    assert_eq!(restart.status.budget, Some(budget(1, 3, 600)), "restarts are counted on");
    assert_eq!(restart.status.resetting_count, 3);
}

#[test]
fn a_pod_that_failed_interrupts_readiness_also_if_nobody_saw_it() {
    // its Job has replaced it
    let world = |failed_at| ready(0, 2).spec(OWN).with(failed(0).at(failed_at)).ready(0, 1);
    for (failed_at, second, want) in [
        (550, 700, None),
        (550, 1149, None),
        (550, 1150, Some(budget(0, 2, 1150))),
        (600, 700, Some(budget(0, 2, 700))), // they were given back by then
    ] {
        let decision = world(failed_at).decide(second);
        assert_eq!(decision.status.budget, want, "{failed_at} {second}");
    }
    assert_eq!(world(550).settled(700).decide(700).requeue, Some(at(1150)));
}

#[test]
fn a_pod_that_was_created_later_was_not_running_before() {
    let spec = "failurePolicy: {maxRestarts: 2, refill: {after: 1h}}";
    // the controller was away: others that it replaced were drained, and are gone
    let world = ready(0, 2).spec(spec).ready(0, 1).pod(0, |pod| pod.created = Some(at(3600)));
    for (second, want) in [(3660, None), (7199, None), (7200, Some(budget(0, 2, 7200)))] {
        assert_eq!(world.decide(second).status.budget, want, "{second}");
    }
    assert_eq!(world.settled(3660).decide(3660).requeue, Some(at(7200)));
}

#[test]
fn a_budget_is_never_more_than_was_counted() {
    let mut world = fails(ready(0, 1).spec("failurePolicy: {maxRestarts: 2}"), 20, 1, "n");
    world.snapshot.status.budget = Some(budget(7, 7, 0));
    check(vec![("used more than ever", world, 20, "Restart retryLimit 1 of 2")]);
}

/// Attempts before the running one, each of: second of readiness, of the end, the exit code, the node.
fn after(past: &[(Option<i64>, i64, i32, &str)], world: World) -> World {
    let entry =
        |(index, (ready, ended, code, node)): (usize, &(Option<i64>, i64, i32, &str))| Attempt {
            attempt: i32::try_from(index).unwrap(),
            ready_at: ready.map(|second| Time(at(second))),
            failed_at: Some(Time(at(*ended))),
            outcome: Some(AttemptOutcome::Failed),
            action: Some(AttemptAction::Restart),
            failure: Some(FailureRecord {
                node: Some((*node).into()),
                container: Some("main".into()),
                exit_code: Some(*code),
                category: Some("application".into()),
                ..FailureRecord::default()
            }),
            ..Attempt::default()
        };
    let mut world = world;
    let mut entries: Vec<Attempt> = past.iter().enumerate().map(entry).collect();
    let number = i32::try_from(past.len()).unwrap();
    let running = world.snapshot.status.attempts.remove(0);
    entries.push(Attempt { attempt: number, ..running });
    world.snapshot.status.attempts = entries;
    world.snapshot.pods.iter_mut().for_each(|pod| pod.attempt = Some(number));
    world.object_of(0, |object| object.attempt = Some(number))
}

#[test]
fn attempts_in_a_row_without_progress_stop() {
    let stop = "failurePolicy: {stopWhen: {attemptsWithoutProgress: 3}}";
    let quick = (Some(0), 100, 1, "a");
    let slow = (Some(0), 600, 1, "a");
    let never = (None, 600, 1, "a");
    let now = |past: &[(Option<i64>, i64, i32, &str)], second| {
        after(past, fails(ready(1000, 2).spec(stop), second, 1, "a"))
    };
    let with = |change: fn(&mut Attempt)| {
        let mut world = now(&[quick, quick], 1100);
        change(&mut world.snapshot.status.attempts[1]);
        world
    };
    check(vec![
        ("the second", now(&[quick], 1100), 1100, "Restart retryLimit 2 of 3"),
        ("the third", now(&[quick, quick], 1100), 1100, "Fail stopWhen"),
        ("never ready", now(&[never, never], 1100), 1100, "Fail stopWhen"),
        ("this one made progress", now(&[quick, quick], 1600), 1600, "Restart retryLimit 2 of 3"),
        ("one before did", now(&[quick, slow], 1100), 1100, "Restart retryLimit 2 of 3"),
        (
            "one that no limit counts says nothing",
            with(|entry| entry.action = Some(AttemptAction::RestartIgnoringLimit)),
            1100,
            "Restart retryLimit 2 of 3",
        ),
        (
            "nor does a suspension",
            with(|entry| {
                (entry.action, entry.failure) = (None, None);
                entry.outcome = Some(AttemptOutcome::Suspended);
            }),
            1100,
            "Restart retryLimit 2 of 3",
        ),
        (
            "of a RetryPolicy",
            now(&[quick, quick], 1100).spec("{}").retry_policy(
                "p",
                "{defaultAction: Retry, stopWhen: {attemptsWithoutProgress: 2, progressAfter: 5m}}",
            ),
            1100,
            "Fail stopWhen/p",
        ),
        (
            "an uncounted restart is not stopped",
            now(&[quick, quick], 1100).spec(
                "failurePolicy: {stopWhen: {attemptsWithoutProgress: 1}, \
                 rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}",
            ),
            1100,
            "RestartIgnoringLimit failurePolicy/failurePolicyRule0#0",
        ),
    ]);
    let decision = now(&[quick, quick], 1100).decide(1100);
    let last = decision.status.attempts.last().unwrap();
    assert_eq!(last.failure.as_ref().unwrap().category.as_deref(), Some("poison"));
    let unhealthy = condition::find(&decision.status.conditions, condition::UNHEALTHY).unwrap();
    let evidence = "stopWhen of failurePolicy fails the AppWrapper: \
                    3 attempts in a row failed before pods were running for 10m";
    assert!(unhealthy.message.ends_with(evidence), "{}", unhealthy.message);
}

#[test]
fn a_recreation_that_no_limit_counts_says_nothing() {
    let stop = "failurePolicy: {stopWhen: {attemptsWithoutProgress: 3}}";
    let quick = (Some(0), 100, 1, "a");
    let recreated = |retries: Option<Retries>| {
        let failing = fails(ready(1000, 2).spec(stop), 1100, 1, "a");
        let mut world = after(&[quick, quick], failing);
        let entry = &mut world.snapshot.status.attempts[1];
        (entry.action, entry.retries) = (Some(AttemptAction::RecreateComponent), retries);
        world
    };
    let counted = Some(Retries { used: 1, limit: 3 });
    check(vec![
        ("uncounted", recreated(None), 1100, "Restart retryLimit 2 of 3"),
        ("counted", recreated(counted), 1100, "Fail stopWhen"),
    ]);
}

#[test]
fn a_suspended_attempt_makes_no_progress() {
    let stop = "failurePolicy: {stopWhen: {attemptsWithoutProgress: 2}}";
    let quick = (Some(0), 100, 1, "a");
    let mut world = after(&[quick, quick], fails(ready(1000, 1).spec(stop), 1100, 1, "a"));
    // ready at second 0, and suspended; its last pod is gone at second 900
    let entry = &mut world.snapshot.status.attempts[1];
    (entry.failed_at, entry.action, entry.failure) = (None, None, None);
    (entry.outcome, entry.ended_at) = (Some(AttemptOutcome::Suspended), Some(Time(at(900))));
    check(vec![("the attempts before and after failed", world.clone(), 1100, "Fail stopWhen")]);
    // unless its pods reported that they got further
    let mut world = world.spec(
        "{progress: {stallAfter: 1h}, failurePolicy: {stopWhen: {attemptsWithoutProgress: 2}}}",
    );
    for (entry, step) in world.snapshot.status.attempts.iter_mut().zip([100, 5000, 5000]) {
        entry.progress = Some(AttemptProgress {
            at: Time(at(50)),
            step: Some(step),
            percent: None,
            checkpoint: None,
        });
    }
    check(vec![("it got to a later step", world, 1100, "Restart retryLimit 1 of 3")]);
}

#[test]
fn the_same_failure_on_several_nodes_stops() {
    let stop = "failurePolicy: {stopWhen: {sameFailureOnNodes: 2}}";
    let now = |past: &[(Option<i64>, i64, i32, &str)], code, node| {
        after(past, fails(ready(1000, 1).spec(stop), 1100, code, node))
    };
    let on = |node, code| (Some(0), 100, code, node);
    let restart = "Restart retryLimit 1 of 3";
    check(vec![
        ("another node", now(&[on("a", 7)], 7, "b"), 1100, "Fail stopWhen"),
        ("the same node", now(&[on("a", 7)], 7, "a"), 1100, restart),
        ("another code", now(&[on("a", 8)], 7, "b"), 1100, restart),
        ("not the last one", now(&[on("a", 7), on("b", 8)], 7, "b"), 1100, "Fail stopWhen"),
        (
            "before an attempt with progress",
            now(&[on("a", 7), (Some(0), 900, 7, "b")], 7, "b"),
            1100,
            restart,
        ),
    ]);
    let decision = now(&[on("a", 7)], 7, "b").decide(1100);
    let unhealthy = condition::find(&decision.status.conditions, condition::UNHEALTHY).unwrap();
    let evidence = "container main exited with code 7 (application) on 2 nodes: a, b";
    assert!(unhealthy.message.ends_with(evidence), "{}", unhealthy.message);
}
