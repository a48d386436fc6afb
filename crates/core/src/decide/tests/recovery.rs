//! When Kueue evicts: `status.recoveryDeadline`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::given::{World, at, given};
use crate::api::{Phase, condition};
use crate::decide::recovery::{Eviction, eviction, running_timeout};
use crate::kueue::{Timeout, WaitForPodsReady};
use crate::snapshot::PodPhase::{Failed, Running};
use crate::tuning::Period;

fn kueue(timeout: u64, recovery: Option<u64>) -> WaitForPodsReady {
    let recovery_timeout = recovery.map(Period::from_secs);
    WaitForPodsReady { timeout: Period::from_secs(timeout), recovery_timeout }
}

fn set(world: &mut World, kind: &str, status: bool, second: i64) {
    condition::set(&mut world.snapshot.status.conditions, kind, status, "Test", "", at(second));
}

/// Admitted at second 0.
fn admitted(phase: Phase) -> World {
    let mut world = given(phase);
    world.snapshot.queue_managed = true;
    world
}

/// The same; ready from one second to another.
fn lost(phase: Phase, ready: i64, unready: i64) -> World {
    let mut world = admitted(phase);
    set(&mut world, condition::PODS_READY, true, ready);
    world.snapshot.status.attempts[0].ready_at = Some(Time(at(ready)));
    set(&mut world, condition::PODS_READY, false, unready);
    world
}

fn ready() -> World {
    let mut world = admitted(Phase::Running);
    set(&mut world, condition::PODS_READY, true, 50);
    world
}

#[test]
fn the_deadline_is_kueues() {
    let (start, recovery) = (Timeout::Start, Timeout::Recovery);
    let mut evicted = admitted(Phase::Resetting);
    set(&mut evicted, condition::QUOTA_RESERVED, false, 10);
    let mut again = lost(Phase::Running, 50, 70);
    // evicted, and admitted again
    set(&mut again, condition::QUOTA_RESERVED, false, 80);
    set(&mut again, condition::QUOTA_RESERVED, true, 100);
    for (what, world, settings, want) in vec![
        ("nothing is known of Kueue", admitted(Phase::Running), None, None),
        ("never ready", admitted(Phase::Running), Some(kueue(300, None)), Some((300, start))),
        ("in creation", admitted(Phase::Resuming), Some(kueue(300, Some(9))), Some((300, start))),
        (
            "reset before it was ready",
            admitted(Phase::Resetting),
            Some(kueue(300, None)),
            Some((300, start)),
        ),
        ("ready", ready(), Some(kueue(300, Some(100))), None),
        (
            "was ready",
            lost(Phase::Running, 50, 70),
            Some(kueue(300, Some(100))),
            Some((170, recovery)),
        ),
        (
            "in the pause",
            lost(Phase::Resetting, 50, 70),
            Some(kueue(300, Some(9))),
            Some((79, recovery)),
        ),
        (
            "within a second",
            lost(Phase::Running, 0, 0),
            Some(kueue(300, Some(9))),
            Some((9, recovery)),
        ),
        ("no recoveryTimeout", lost(Phase::Running, 50, 70), Some(kueue(300, None)), None),
        ("admitted again", again, Some(kueue(300, Some(9))), Some((400, start))),
        (
            "failed, resources exist",
            admitted(Phase::Failed),
            Some(kueue(300, None)),
            Some((300, start)),
        ),
        ("no quota", evicted, Some(kueue(300, None)), None),
        ("suspended", admitted(Phase::Suspended), Some(kueue(300, None)), None),
        ("Kueue has evicted it", admitted(Phase::Suspending), Some(kueue(300, None)), None),
        ("done", admitted(Phase::Succeeded), Some(kueue(300, None)), None),
        ("deleted", admitted(Phase::Terminating), Some(kueue(300, None)), None),
    ] {
        let found = eviction(&world.snapshot.status, settings);
        let found = found.map(|Eviction { at: moment, timeout, .. }| {
            (moment.as_second() - at(0).as_second(), timeout)
        });
        assert_eq!(found, want, "{what}");
    }
}

#[test]
fn the_deadline_is_written_with_what_changes_anyway_and_never_alone() {
    let mut world = admitted(Phase::Running).pods(&[Running, Failed]);
    world.snapshot.wait_for_pods_ready = Some(kueue(300, Some(100)));
    let waiting = world.decide(21);
    assert_ne!(waiting.status, world.snapshot.status, "the failure is noted");
    assert_eq!(waiting.status.recovery_deadline, Some(Time(at(300))));
    let settled = world.written(&waiting);
    let mut other = settled.clone();
    other.snapshot.wait_for_pods_ready = Some(kueue(200, None));
    assert_eq!(other.decide(22).status, settled.snapshot.status, "no write of its own");
    let mut without = settled;
    without.snapshot.wait_for_pods_ready = None;
    let restart = without.decide(90);
    assert_eq!(restart.next, Phase::Resetting);
    assert_eq!(restart.status.recovery_deadline, None, "and not known any more");
}

#[test]
fn a_restart_that_cannot_begin_in_time_is_warned_of_once() {
    // at 170, Kueue evicts when the pause ends
    for (recovery, pause, want) in
        [(180, 90, false), (170, 90, true), (169, 90, true), (100, 0, false)]
    {
        let mut world = lost(Phase::Running, 5, 10).pods(&[Running, Failed]);
        world.snapshot.wait_for_pods_ready = Some(kueue(900, Some(recovery)));
        world = world.limits(|limits| limits.retry_pause = Period::from_secs(pause));
        let restart = world.decide(90);
        assert_eq!(restart.next, Phase::Resetting);
        let mut warned = restart.events.iter().filter(|it| it.reason == "EvictionBeforeRestart");
        let text = warned.next().map(|event| event.message.clone());
        assert_eq!(text.is_some(), want, "{recovery}: {text:?}");
        assert!(warned.next().is_none());
        let begins = at(90 + i64::try_from(pause).unwrap());
        let late = format!(
            "before pods of the next attempt, which begins at {begins} or later, can run: shorten"
        );
        for part in ["waitForPodsReady.recoveryTimeout", &late] {
            assert!(text.as_ref().is_none_or(|text| text.contains(part)), "{recovery}: {text:?}");
        }
        let seen = world.written(&restart).decide(91);
        assert!(seen.events.iter().all(|event| event.reason != "EvictionBeforeRestart"));
    }
}

#[test]
fn readiness_stops_the_clock() {
    assert_eq!(running_timeout(&ready().snapshot.status), None);
}
