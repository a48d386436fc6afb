//! The annotation `active`: what is inactive does not run, and releases its quota.

use std::sync::Arc;

use super::build::{in_phase, ready, running};
use super::no_fit::{read, returning, switched, workload};
use crate::api::{Attempt, AttemptAction, AttemptOutcome, Phase, Requeue, condition};
use crate::decide::tests::given::World;
use crate::decide::{Decision, VerdictAction};
use crate::plan::Action;
use crate::snapshot::workload::{Workload, WorkloadRead};
use crate::snapshot::{Object, PodPhase, Presence};

fn inactive(mut world: World) -> World {
    world.limits.active = Some(false);
    world
}

fn queued(phase: Phase) -> World {
    let mut world = in_phase(phase, &["Job/work:2"]);
    world.snapshot.queue_managed = true;
    world.snapshot.finalizer = true;
    world
}

/// Resetting, and everything is gone; no return is under way.
fn gone() -> World {
    let mut world = returning(Phase::Resetting);
    world.snapshot.status.requeue = None;
    world
}

fn free(active: bool, mark: Option<&str>) -> Workload {
    Workload { holds_quota: false, ..workload(active, mark) }
}

fn requeue(decision: &Decision) -> Option<Requeue> {
    decision.status.requeue.clone()
}

#[test]
fn what_runs_is_deleted_whatever_it_does_and_no_retry_is_used() {
    let fails =
        || running(&["Job/work:2"]).with(ready(0)).pods(&[PodPhase::Failed, PodPhase::Running]);
    let ends = || running(&["Job/work:2"]).pods(&[PodPhase::Succeeded, PodPhase::Succeeded]);
    for (what, world) in [
        ("it runs", running(&["Job/work:2"]).with(ready(0)).with(ready(1))),
        ("a pod has failed", fails()),
        ("its pods have succeeded", ends()),
        ("it is being created", queued(Phase::Resuming)),
    ] {
        let decision = inactive(world).decide(100);
        assert_eq!(decision.next, Phase::Resetting, "{what}");
        let status = &decision.status;
        assert_eq!((status.resetting_count, status.uncounted_restarts), (0, 0), "{what}");
        assert_eq!(status.attempts[0].outcome, Some(AttemptOutcome::Suspended), "{what}");
        assert!(condition::is_true(&status.conditions, condition::QUOTA_RESERVED), "{what}");
        assert_eq!(decision.verdict.action, VerdictAction::Delete, "{what}");
    }
}

#[test]
fn who_resumes_does_not_wait_for_the_pause_of_an_older_restart() {
    let mut world = inactive(queued(Phase::Running)).ready(0, 2);
    let action = Some(AttemptAction::RestartIgnoringLimit);
    world.snapshot.status.attempts.insert(0, Attempt { action, ..Attempt::default() });
    let ended = world.decide(100);
    assert_eq!(ended.next, Phase::Resetting);
    let gone = read(world.written(&ended).all_gone(), workload(true, None));
    let begun = gone.decide(120);
    assert_eq!((begun.next, requeue(&begun).is_some()), (Phase::Resetting, true));
    let evicted = gone.written(&begun).suspended(true);
    let suspending = evicted.decide(125);
    assert_eq!((suspending.next, &suspending.status.retry_after), (Phase::Suspending, &None));
    let suspended = evicted.written(&suspending).decide(126);
    assert_eq!((suspended.next, &suspended.status.retry_after), (Phase::Suspended, &None));
}

#[test]
fn a_suspension_and_a_deletion_come_first() {
    let world = || inactive(running(&["Job/work:2"]).with(ready(0)));
    assert_eq!(world().suspended(true).decide(100).next, Phase::Suspending);
    assert_eq!(world().suspended(true).deleted().decide(100).next, Phase::Terminating);
}

#[test]
fn what_has_ended_stays_as_it_is() {
    for phase in [Phase::Succeeded, Phase::Failed] {
        let world = queued(phase);
        let (plain, held) = (world.decide(100), inactive(world).decide(100));
        assert_eq!((plain.next, plain.actions), (held.next, held.actions), "{phase}");
    }
}

#[test]
fn the_quota_is_given_back_once_everything_is_gone_and_the_annotation_alone_starts_it_again() {
    let world = inactive(gone());
    assert!(world.decide(201).ask_workload, "the Workload is read first");
    let begun = read(world.clone(), workload(true, None)).decide(500);
    assert_eq!(
        (begun.next, requeue(&begun)),
        (Phase::Resetting, Some(Requeue { attempt: 0, active_after: None }))
    );
    let next = read(world.clone().written(&begun), workload(true, None)).decide(500);
    assert_eq!(switched(&next), Some(false));

    let mut withdrawn = world.written(&begun);
    withdrawn.limits.active = Some(true);
    withdrawn.snapshot.status.attempts.iter_mut().for_each(|attempt| attempt.action = None);
    let kept = read(withdrawn, workload(true, None)).decide(500);
    assert_eq!((kept.next, requeue(&kept)), (Phase::Resuming, None), "the quota was kept so far");

    let mut suspended = inactive(returning(Phase::Suspended));
    suspended.snapshot.status.requeue = requeue(&begun);
    let held = read(suspended.clone(), free(false, Some("0"))).decide(100_000);
    assert_eq!(
        (held.next, switched(&held), held.requeue),
        (Phase::Suspended, None, None),
        "no poll"
    );
    assert_eq!(held.status, suspended.snapshot.status);
    suspended.limits.active = Some(true);
    let back = read(suspended, free(false, Some("0"))).decide(100_000);
    assert_eq!(switched(&back), Some(true), "at once: there is no pause");
}

#[test]
fn what_waits_in_the_queue_leaves_it_and_what_is_admitted_all_the_same_is_not_deployed() {
    for suspend in [true, false] {
        let world = inactive(queued(Phase::Suspended)).suspended(suspend);
        assert!(world.decide(10).ask_workload, "suspend {suspend}");
        let seen = read(world.clone(), workload(true, None));
        let begun = seen.decide(10);
        assert_eq!(begun.next, Phase::Suspended, "suspend {suspend}");
        let mut none = world.clone();
        none.snapshot.workload = WorkloadRead::Absent;
        let waits = none.decide(10);
        let next = read(world.written(&begun), workload(true, None)).decide(10);
        assert_eq!((next.next, switched(&next)), (Phase::Suspended, Some(false)));
        assert_eq!((waits.next, waits.actions.len()), (Phase::Suspended, 0));
        assert_eq!(waits.requeue, None, "nothing is polled for ever");
    }
    let new = inactive(queued(Phase::Empty)).suspended(false);
    assert_eq!(new.decide(10).next, Phase::Suspended, "it was born so");
}

/// Kueue would admit the Workload of what has no queue label any more, and never finish it.
#[test]
fn the_workload_of_what_has_left_its_queue_stays_inactive() {
    for active in [None, Some(true), Some(false)] {
        let mut world = read(returning(Phase::Suspended), free(false, Some("0"))).suspended(true);
        world.limits.active = active;
        let queued = world.decide(100_000);
        let stays = active == Some(false);
        assert_eq!(switched(&queued), (!stays).then_some(true), "with a queue: {active:?}");
        world.snapshot.queue_managed = false;
        let left = world.decide(100_000);
        assert_eq!(left.next, Phase::Suspended, "{active:?}");
        assert_eq!(left.actions.len(), 0, "{active:?}");
        assert!(!left.ask_workload, "{active:?}");
        let mut back = world.clone().written(&left);
        back.snapshot.queue_managed = true;
        let back = read(back, free(false, Some("0"))).decide(100_000);
        assert_eq!(switched(&back), (!stays).then_some(true), "the label is back: {active:?}");
        let resumed = world.suspended(false).decide(100_000);
        assert_eq!(requeue(&resumed), None, "{active:?}");
    }
}

#[test]
fn a_workload_that_somebody_else_has_deactivated_stays_so() {
    for world in [gone(), queued(Phase::Suspended)] {
        let held = read(inactive(world), workload(false, None)).decide(500);
        assert_eq!((switched(&held), requeue(&held), held.requeue), (None, None, None));
    }
    let active = read(queued(Phase::Suspended), workload(false, None)).decide(500);
    assert_eq!((switched(&active), active.ask_workload), (None, false));
}

#[test]
fn where_the_workload_cannot_be_written_nothing_runs_and_the_quota_is_kept() {
    let refused = |mut world: World| {
        world.snapshot.workload = WorkloadRead::Refused("forbidden".into());
        world
    };
    let held = refused(inactive(gone())).decide(500);
    assert_eq!((held.next, held.actions.len()), (Phase::Resetting, 0));
    let kept = "the quota stays reserved: forbidden";
    assert!(held.verdict.message.contains(kept), "{:?}", held.verdict);
    assert!(held.requeue.is_some(), "it is read again");
    let begun = refused(inactive(returning(Phase::Resetting))).decide(500);
    assert_eq!((begun.next, requeue(&begun)), (Phase::Resetting, None));
    let event = begun.events.iter().find(|event| event.reason == "RequeueFailed").unwrap();
    let want = "Annotation workload.codeflare.dev.appwrapper/active is false, \
                but the quota stays reserved: forbidden";
    assert_eq!(event.message, want, "nobody asked for a return to the queue");
    assert_eq!(refused(gone()).decide(500).next, Phase::Resuming, "the annotation is true again");
}

#[test]
fn a_workload_that_kueue_has_finished_is_not_waited_for() {
    for (active, mark) in [(true, None), (false, None), (false, Some("0"))] {
        let seen = Workload { finished: true, ..free(active, mark) };
        let world = read(inactive(returning(Phase::Resetting)), seen.clone());
        let begun = world.decide(500);
        assert_eq!((switched(&begun), requeue(&begun)), (None, None), "{seen:?}");
        let event = begun.events.iter().find(|event| event.reason == "RequeueFailed").unwrap();
        let want = "but the quota stays reserved: its Workload is finished";
        assert!(event.message.ends_with(want), "{}", event.message);
        let held = read(world.written(&begun), seen.clone()).decide(500);
        assert_eq!((held.next, held.requeue), (Phase::Resetting, None), "{seen:?}");
        assert_eq!((requeue(&held), held.events.len()), (None, 0), "told once: {seen:?}");
    }
}

#[test]
fn without_a_queue_it_waits_with_nothing_deployed() {
    let mut world = inactive(gone());
    world.snapshot.queue_managed = false;
    let held = world.decide(500);
    assert_eq!((held.next, held.ask_workload, held.requeue), (Phase::Resetting, false, None));
    assert!(held.actions.is_empty());
    world.limits.active = Some(true);
    assert_eq!(world.decide(500).next, Phase::Resuming);
    let new = inactive(in_phase(Phase::Suspended, &["Job/work:2"])).suspended(false).decide(5);
    let creates = new.actions.iter().any(|action| matches!(action, Action::Create(_)));
    assert_eq!((new.next, creates), (Phase::Suspended, false));
}

#[test]
fn what_a_late_write_created_is_deleted_before_the_quota_is_given_back() {
    for phase in [Phase::Resetting, Phase::Suspended] {
        let mut world = inactive(returning(phase));
        world.snapshot.components[0].presence = Presence::Present(Object::default());
        let swept = read(world, workload(true, None)).decide(500);
        let deletes = swept.actions.iter().any(|action| matches!(action, Action::Delete(_)));
        assert_eq!((swept.next, deletes, switched(&swept)), (phase, true, None), "{phase}");
    }
}

#[test]
fn a_workload_that_a_leader_of_the_past_has_deactivated_is_active_again() {
    let used = |active| {
        let mut world = returning(Phase::Suspended);
        world.snapshot.status.requeue = None;
        world.snapshot.status.attempts = vec![Attempt::default()];
        world.limits.active = active;
        world
    };
    let world = used(Some(true));
    assert!(world.decide(500).ask_workload);
    // it was deactivated before it ever ran: only the annotation does that
    for (active, asks) in [(Some(true), true), (None, false)] {
        let mut new = used(active);
        new.snapshot.status.attempts.clear();
        assert_eq!(new.decide(500).ask_workload, asks, "{active:?}");
    }
    let recalled = read(world.clone(), free(false, Some("3"))).decide(500);
    assert_eq!(requeue(&recalled), Some(Requeue { attempt: 3, active_after: None }));
    let next = read(world.clone().written(&recalled), free(false, Some("3"))).decide(500);
    assert_eq!(switched(&next), Some(true));
    for seen in [free(true, None), free(false, None), free(false, Some("x"))] {
        assert_eq!(requeue(&read(world.clone(), seen).decide(500)), None);
    }
    // nobody pays for it who does not use it
    let mut plain = used(None);
    plain.snapshot.policies = Arc::default();
    assert!(!plain.decide(500).ask_workload);
}
