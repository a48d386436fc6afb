//! When the next attempt begins: backoff of a retry policy, or the pause.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::build::{container, failed, running};
use crate::api::Phase;
use crate::decide::VerdictAction;
use crate::decide::tests::given::{World, at};

/// A Job that failed with code 137: its pod at second 20, itself at 25.
fn job() -> World {
    running(&["Job/work:1"]).with(failed(0).code(137)).fails(0, "BackoffLimitExceeded", "", 25)
}

fn policy(of_policy: &str, of_rule: &str) -> String {
    format!(
        "{{{of_policy} rules: [{{name: r, action: Retry, {of_rule} \
         onExitCodes: {{operator: In, values: [137]}}}}]}}"
    )
}

/// The moment before which nothing begins, in seconds after the failure.
fn delay(world: &World) -> Option<i64> {
    let until = world.decide(25).status.retry_after?;
    Some(until.0.as_second() - at(20).as_second())
}

#[test]
fn the_delay_is_the_initial_one_times_a_multiplier_up_to_a_maximum() {
    let backoff = "backoff: {initialDelay: 10s, multiplier: 3.0, maxDelay: 2m},";
    let world = |used| job().retry_policy("p", &policy("", backoff)).used("p", "r", used);
    for (used, seconds) in [(0, 10), (1, 30), (2, 90), (3, 120), (19, 120)] {
        assert_eq!(delay(&world(used)), Some(seconds), "{used} used before");
    }
    let left_out = "backoff: {initialDelay: 10s},";
    let world = |used| job().retry_policy("p", &policy("", left_out)).used("p", "r", used);
    for (used, seconds) in [(0, 10), (1, 20), (5, 320), (6, 600), (7, 600)] {
        assert_eq!(delay(&world(used)), Some(seconds), "doubles, up to 10m; {used} used before");
    }
}

#[test]
fn the_rules_backoff_holds_else_the_policys_else_the_configurations_taken_whole() {
    let of_rule = "backoff: {initialDelay: 7s},";
    let of_policy = "backoff: {initialDelay: 5s, multiplier: 10, maxDelay: 8s},";
    let of_config = "retryPolicy: {defaultBackoff: {initialDelay: 4s, maxDelay: 9s}}";
    let world = |of_policy, of_rule| job().retry_policy("p", &policy(of_policy, of_rule));
    let both = world(of_policy, of_rule);
    assert_eq!(delay(&both), Some(7));
    assert_eq!(delay(&both.used("p", "r", 1)), Some(14), "neither the policy's growth nor maximum");
    assert_eq!(delay(&world(of_policy, "")), Some(5));
    assert_eq!(delay(&world(of_policy, "").configured(of_config).used("p", "r", 1)), Some(8));
    assert_eq!(delay(&world("", "").configured(of_config)), Some(4));
    assert_eq!(delay(&world("", "")), None, "the configuration has no default");
}

#[test]
fn n_is_the_count_of_the_rule_not_the_total() {
    let backoff = "backoff: {initialDelay: 10s},";
    let world = job().retry_policy("p", &policy("", backoff)).retries(5).used("p", "other", 5);
    assert_eq!(delay(&world), Some(10));
    let default = "{defaultAction: Retry, backoff: {initialDelay: 10s}}";
    let default = job().retry_policy("p", default).used("p", "", 2);
    assert_eq!(delay(&default), Some(40), "the default action has a count of its own");
}

#[test]
fn the_delay_runs_from_when_the_pod_has_ended() {
    let world = || {
        let log = container("log", 137, "Error", "", 20);
        running(&["Job/work:1"]).with(failed(0).code(1).at(24).and(log)).backoff(0, 0, 1)
    };
    let backoff = policy("", "backoff: {initialDelay: 10s},");
    assert_eq!(delay(&world().fails(0, "R", "", 25).retry_policy("p", &backoff)), Some(14));
    let silent = world().retry_policy("p", &backoff).decide(90).status.retry_after;
    assert_eq!(silent.map(|until| until.0), Some(at(34)), "its Job says nothing");
}

/// Torn down, with everything gone at this second.
fn torn_down(world: World, gone: i64) -> World {
    let decision = world.decide(25);
    assert_eq!(decision.next, Phase::Resetting);
    let world = world.written(&decision).all_gone();
    let decision = world.decide(gone);
    world.written(&decision)
}

#[test]
fn the_delay_runs_from_the_failure_and_the_teardown_must_be_confirmed_as_well() {
    let backoff = "backoff: {initialDelay: 100s},";
    let world = job().retry_policy("p", &policy("", backoff));
    let decision = world.decide(25);
    assert_eq!(decision.verdict.retry_after_seconds, Some(95), "what is left now");
    let deleting = world.clone().written(&decision);
    let late = deleting.decide(130);
    assert_eq!(late.next, Phase::Resetting, "the delay is over, but something still exists");
    assert_eq!(late.verdict.retry_after_seconds, Some(0));
    let torn = torn_down(world.clone(), 60);
    let waiting = torn.decide(119);
    assert_eq!((waiting.next, waiting.verdict.deadline), (Phase::Resetting, Some(at(120))));
    assert_eq!(waiting.verdict.retry_after_seconds, Some(1));
    let resumed = torn.decide(120);
    assert_eq!(resumed.next, Phase::Resuming);
    assert_eq!(resumed.status.retry_after, None, "it is over");
    let gone_late = world.clone().written(&decision).all_gone();
    assert_eq!(gone_late.decide(200).next, Phase::Resuming, "no pause on top of it");
}

#[test]
fn a_delay_of_zero_has_no_pause() {
    let world = job().retry_policy("p", &policy("", "backoff: {initialDelay: 0s},"));
    let decision = world.decide(25);
    assert_eq!(decision.verdict.retry_after_seconds, Some(0));
    let gone = world.written(&decision).all_gone();
    assert_eq!(gone.decide(26).next, Phase::Resuming);
}

#[test]
fn without_a_backoff_the_pause_runs_from_when_everything_is_gone() {
    for world in [job().retry_policy("p", &policy("", "")), job()] {
        let decision = world.decide(25);
        assert_eq!(decision.verdict.retry_after_seconds, Some(90), "the whole pause");
        let deleting = world.clone().written(&decision);
        assert_eq!(deleting.decide(130).verdict.retry_after_seconds, Some(90));
        let torn = torn_down(world, 200);
        assert_eq!(torn.decide(289).verdict.deadline, Some(at(290)));
        assert_eq!(torn.decide(290).next, Phase::Resuming);
    }
}

#[test]
fn a_suspension_uses_no_retry_and_ends_the_delay_unless_kueue_suspends() {
    let ignoring = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let delayed = || job().retry_policy("p", &policy("", "backoff: {initialDelay: 5m},"));
    for (what, world, managed, want) in [
        ("a user suspends", delayed(), false, None),
        ("Kueue evicts", delayed(), true, Some(320)),
        ("… the pause of an uncounted restart", job().spec(ignoring), true, Some(150)),
        ("… the retry pause", job(), true, None),
    ] {
        let mut torn = torn_down(world, 60);
        torn.snapshot.queue_managed = managed;
        let used = torn.snapshot.status.resetting_count;
        let decision = torn.clone().suspended(true).decide(61);
        assert_eq!(decision.next, Phase::Suspending, "{what}");
        assert_eq!(decision.verdict.action, VerdictAction::Delete, "{what}");
        assert_eq!(decision.status.resetting_count, used, "{what}");
        let until = decision.status.retry_after.as_ref().map(|time| time.0);
        assert_eq!(until, want.map(at), "{what}");
        let gone = torn.suspended(true).written(&decision).all_gone();
        let suspended = gone.decide(62);
        assert_eq!(suspended.next, Phase::Suspended, "{what}");
        let kept = suspended.status.retry_after.as_ref().map(|time| time.0);
        assert_eq!(kept, want.map(at), "{what}: it does not start again");
        let resumed = gone.written(&suspended).suspended(false);
        let next = |second| resumed.decide(second).next;
        let waits = want.map_or(Phase::Resuming, |_| Phase::Suspended);
        assert_eq!((next(63), next(320)), (waits, Phase::Resuming), "{what}");
    }
}

#[test]
fn the_pause_of_an_uncounted_restart_runs_from_when_everything_is_gone_also_after_an_eviction() {
    let ignoring = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let delayed = || job().retry_policy("p", &policy("", "backoff: {initialDelay: 5m},"));
    for (what, world, gone, want) in [
        ("gone at once", job().spec(ignoring), 26, Some(116)),
        ("gone late", job().spec(ignoring), 400, Some(490)),
        ("the delay of a policy runs from the failure", delayed(), 400, Some(320)),
        ("a counted restart keeps none", job(), 400, None),
    ] {
        let decision = world.decide(25);
        let mut deleting = world.written(&decision).suspended(true);
        deleting.snapshot.queue_managed = true;
        let evicted = deleting.decide(26);
        assert_eq!(evicted.next, Phase::Suspending, "{what}");
        let deleting = deleting.written(&evicted);
        let seen = deleting.decide(60).status.retry_after;
        assert_eq!(seen, evicted.status.retry_after, "{what}: it does not move meanwhile");
        let suspended = deleting.all_gone().decide(gone);
        assert_eq!(suspended.next, Phase::Suspended, "{what}");
        let until = suspended.status.retry_after.as_ref().map(|time| time.0);
        assert_eq!(until, want.map(at), "{what}");
    }
}

#[test]
fn uncounted_restarts_in_a_row_pause_longer_each_time() {
    let ignoring = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let mut world = job().spec(ignoring);
    let mut pauses = vec![];
    for ready in [false, false, false, false, true, false] {
        if ready {
            let last = world.snapshot.status.attempts.last_mut().unwrap();
            last.ready_at = Some(Time(at(21)));
        }
        let decision = world.decide(25);
        pauses.push(decision.verdict.retry_after_seconds.unwrap());
        assert_eq!(decision.status.resetting_count, 0);
        let mut attempts = decision.status.attempts.clone();
        let attempt = attempts.last().unwrap().attempt + 1;
        attempts.push(crate::api::Attempt { attempt, ..Default::default() });
        world.snapshot.status.attempts = attempts;
        world = world.object_of(0, |object| object.attempt = Some(attempt));
        world.snapshot.pods.iter_mut().for_each(|pod| pod.attempt = Some(attempt));
    }
    assert_eq!(pauses, [90, 180, 360, 600, 90, 90], "one that was ready begins anew");
    let long = job().spec(ignoring).limits(|limits| {
        limits.retry_pause = crate::tuning::Period::from_secs(1000);
    });
    assert_eq!(long.decide(25).verdict.retry_after_seconds, Some(1000));
}
