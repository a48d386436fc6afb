//! Statuses that can be read, and are not true.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::given::{World, at, given};
use crate::api::{AppWrapperStatus, Attempt, PendingMemory, Phase, PodSetSince, Since, condition};
use crate::plan::{Action, FreshRead};
use crate::snapshot::{PodPhase, Presence};
use crate::tuning::Period;

const TWO: [PodPhase; 2] = [PodPhase::Running, PodPhase::Running];

#[test]
fn an_anchor_after_now_begins_now() {
    // force comes when the grace is over, however late the deletion is said to have begun
    let world = given(Phase::Terminating)
        .pods(&TWO)
        .since(|since| since.deleting = Some(Time(at(1_000_000))));
    let mended = world.decide(0);
    assert_eq!(mended.status.since.clone().and_then(|since| since.deleting), Some(Time(at(0))));
    assert!(mended.actions.is_empty(), "written first");
    let later = world.written(&mended);
    let deletes = later.decide(0).actions;
    assert!(deletes.iter().any(|action| matches!(action, Action::Delete(_))), "{deletes:?}");
    let named = later.decide(601);
    let forced = later.written(&named).decide(602).actions;
    assert!(forced.iter().any(|action| matches!(action, Action::ForceDelete(_))), "{forced:?}");
}

#[test]
fn an_anchor_that_is_missing_begins_now_and_stays() {
    type Anchor = fn(&Since) -> &Option<Time>;
    let cases: [(Phase, Anchor); 7] = [
        (Phase::Resuming, |since| &since.deployed),
        (Phase::Running, |since| &since.deployed),
        (Phase::Resetting, |since| &since.deleting),
        (Phase::Suspending, |since| &since.deleting),
        (Phase::Terminating, |since| &since.deleting),
        (Phase::Succeeded, |since| &since.succeeded),
        (Phase::Failed, |since| &since.failed),
    ];
    for (phase, anchor) in cases {
        let mut world = given(phase).pods(&TWO);
        world.limits.deletion_on_failure_grace = Period::from_secs(60);
        world.snapshot.status.conditions.clear();
        world.snapshot.status.since = None;
        let mended = world.decide(7);
        let found =
            |status: &AppWrapperStatus| status.since.as_ref().and_then(|it| anchor(it).clone());
        assert_eq!(found(&mended.status), Some(Time(at(7))), "{phase}");
        let again = world.written(&mended).decide(9);
        assert_eq!(found(&again.status), Some(Time(at(7))), "{phase}");
    }
}

#[test]
fn moments_from_before_another_controller_took_over_do_not_count() {
    let changed = |mut world: World, kind, status: bool, second| {
        let conditions = &mut world.snapshot.status.conditions;
        condition::set(conditions, kind, !status, "Other", "", at(0));
        condition::set(conditions, kind, status, "Other", "", at(second));
        world
    };
    let (deployed, deleting) = (condition::RESOURCES_DEPLOYED, condition::DELETING_RESOURCES);
    let gone = given(Phase::Resetting).since(|since| since.gone = Some(Time(at(5))));
    // it deletes a second attempt, of which everything is there
    let seen = changed(gone.clone(), deployed, true, 20).decide(1000);
    assert_eq!((seen.next, seen.status.since), (Phase::Resetting, None));
    // it has deleted a second attempt at second 20
    let later = changed(changed(gone.clone().gone(), deleting, false, 20), deployed, false, 20);
    assert_eq!(later.decide(99).next, Phase::Resetting, "the pause is one of 90 s");
    let later = later.clone().written(&later.decide(99));
    assert_eq!(later.decide(110).next, Phase::Resuming);
    // our own
    let own = changed(changed(gone.gone(), deleting, false, 5), deployed, false, 5);
    assert_eq!(own.decide(95).next, Phase::Resuming);
    assert_eq!(
        changed(own, deployed, false, 9999).decide(95).next,
        Phase::Resuming,
        "a wrong clock"
    );
    let forced = |second| {
        let world = given(Phase::Terminating).pods(&TWO);
        let world = world.since(|since| since.deleting = Some(Time(at(0))));
        let world = changed(world, deleting, true, 500);
        let named = world.decide(second);
        let decision = world.written(&named).decide(second + 1);
        decision.actions.iter().any(|action| matches!(action, Action::ForceDelete(_)))
    };
    assert_eq!((forced(700), forced(1100)), (false, true));
}

#[test]
fn no_retry_waits_longer_than_a_policy_delays_it() {
    let mut world = given(Phase::Resetting).gone().since(|since| since.gone = Some(Time(at(0))));
    world.snapshot.status.retry_after = Some(Time(at(1_000_000_000)));
    let mended = world.decide(0);
    assert_eq!(mended.status.retry_after, Some(Time(at(600))), "the longest default delay");
    assert_eq!(world.written(&mended).decide(600).next, Phase::Resuming);
}

#[test]
fn a_delay_that_is_decided_stays_when_its_policy_changes() {
    const DAY: i64 = 24 * 3600;
    let plain = || given(Phase::Resetting).gone().since(|since| since.gone = Some(Time(at(0))));
    let two_days = "{defaultAction: Retry, backoff: {initialDelay: 48h, maxDelay: 48h}}";
    let three_days = "faultTolerance: {gracePeriodMaximum: 72h}";
    for (what, mut world, after, want) in [
        ("it was one of hours", plain(), 2 * 3600, 2 * 3600),
        ("… and up to a day", plain(), DAY, DAY),
        ("longer than any that is believed", plain(), DAY + 1, 600),
        ("a policy in force has one", plain().retry_policy("p", two_days), DAY + 1, DAY + 1),
        ("the configuration allows it", plain().configured(three_days), DAY + 1, DAY + 1),
    ] {
        world.snapshot.status.retry_after = Some(Time(at(after)));
        let decision = world.decide(0);
        assert_eq!(decision.status.retry_after, Some(Time(at(want))), "{what}");
    }
}

#[test]
fn counts_never_overflow() {
    let world = given(Phase::Running).pods(&TWO).failed_job().retries(i32::MAX);
    assert_eq!(world.decide(100).next, Phase::Failed);
    let mut world = given(Phase::Resetting).gone().since(|since| since.gone = Some(Time(at(0))));
    world.snapshot.status.attempts = vec![Attempt { attempt: i32::MAX, ..Attempt::default() }];
    let next = world.decide(1000);
    let number = next.status.attempts.last().map(|last| last.attempt);
    assert_eq!((next.next, number), (Phase::Resuming, Some(0)), "never the number that was");
}

#[test]
fn quota_is_held_while_something_may_run() {
    for phase in [Phase::Resuming, Phase::Running, Phase::Suspending] {
        let mut world = given(phase).pods(&TWO);
        let conditions = &mut world.snapshot.status.conditions;
        condition::set(conditions, condition::QUOTA_RESERVED, false, "Forged", "", at(0));
        let mended = world.decide(1).status.conditions;
        assert!(condition::is_true(&mended, condition::QUOTA_RESERVED), "{phase}");
    }
}

#[test]
fn nothing_runs_on_after_an_end() {
    let done = given(Phase::Succeeded).pods(&TWO);
    assert_eq!(done.ask(1).ask, FreshRead::Pods, "a cache may lag behind");
    let begun = done.clone().answered(FreshRead::Pods).ask(1);
    assert!(begun.status.since.is_some_and(|since| since.deleting.is_some()));
    let done = done.since(|since| since.succeeded = Some(Time(at(0))));
    let begun = done.clone().answered(FreshRead::Pods).ask(1);
    let reasons: Vec<_> = begun.events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["PodsRunAfterSuccess"]);
    let gone = done.written(&begun).pods(&[]).presence(Presence::Absent).answered(FreshRead::Gone);
    let message = "Pods ran after the AppWrapper had succeeded; all resources are deleted";
    assert_eq!(gone.ask(2).verdict.message, message);
    let kept = given(Phase::Succeeded).pods(&[PodPhase::Succeeded, PodPhase::Succeeded]).ask(1);
    assert_eq!((kept.ask, kept.actions), (FreshRead::Nothing, vec![]), "kept for successTTL");
}

#[test]
fn memory_that_no_policy_requests_is_ignored_with_a_warning() {
    let mut world = given(Phase::Running).pods(&TWO);
    let pending = PendingMemory { container: "main".into(), ..PendingMemory::default() };
    world.snapshot.status.pending_memory = vec![pending];
    let decision = world.decide(1);
    assert_eq!(decision.status.pending_memory, []);
    let text = "status.pendingMemory is ignored: no RetryPolicy in force requests it";
    let said = decision.events.iter().find(|event| event.reason == "InvalidStatus");
    assert_eq!(said.map(|event| event.message.as_str()), Some(text));
}

#[test]
fn a_lost_number_is_that_of_the_objects() {
    let mut world = given(Phase::Resuming)
        .pods(&TWO)
        .object(|object| object.attempt = Some(4))
        .pod(0, |pod| pod.attempt = Some(4))
        .pod(1, |pod| pod.attempt = Some(4));
    world.snapshot.status.attempts.clear();
    world.snapshot.status_flaws = vec!["status.attempts: must be a list".into()];
    let adopted = world.decide(1);
    assert_eq!(adopted.next, Phase::Running, "what is there is taken");
    assert_eq!(adopted.status.attempts.last().map(|last| last.attempt), Some(4));
    assert_eq!(adopted.events.first().map(|event| event.reason), Some("InvalidStatus"));
}

/// As after an apply of the definition of the Go controller, which drops them.
#[test]
fn attempts_that_are_lost_restart_nothing() {
    let world = given(Phase::Running)
        .pods(&TWO)
        .object(|object| object.attempt = Some(2))
        .pod(0, |pod| pod.attempt = Some(2))
        .pod(1, |pod| pod.attempt = Some(2));
    let mut lost = world.clone();
    lost.snapshot.status.attempts.clear();
    let adopted = lost.decide(600);
    assert_eq!(adopted.next, Phase::Running);
    assert_eq!(adopted.status.attempts.last().map(|last| last.attempt), Some(2));
    let ready =
        |status: &AppWrapperStatus| condition::is_true(&status.conditions, condition::PODS_READY);
    assert!(ready(&adopted.status));
    // of a suspended AppWrapper, an object may be left that is on its way out
    let mut suspended = given(Phase::Suspended).object(|object| object.attempt = Some(2));
    suspended.snapshot.status.attempts.clear();
    assert_eq!(suspended.decide(600).status.attempts, []);
}

#[test]
fn pods_that_fail_later_are_not_replaced_already() {
    let entry = PodSetSince {
        pod_set: "0-0".into(),
        ready: true,
        terminating: false,
        since: Time(at(0)),
        failed_at: None,
        replaced_until: Some(Time(at(1_000_000))),
    };
    let world = given(Phase::Running).pods(&TWO).since(|since| since.pod_sets = vec![entry]);
    let mended = world.decide(10);
    let until = |status: &AppWrapperStatus| {
        status.since.as_ref().and_then(|since| since.pod_sets[0].replaced_until.clone())
    };
    assert_eq!(until(&mended.status), Some(Time(at(10))));
    let failed = world.written(&mended).pods(&[PodPhase::Failed, PodPhase::Running]);
    assert_eq!(failed.decide(79).next, Phase::Running);
    assert_eq!(failed.decide(80).next, Phase::Resetting, "it failed at second 20");
}
