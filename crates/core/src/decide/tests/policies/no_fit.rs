//! `onNoFit`: pods that cannot be scheduled, and the return to the queue.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::build::{check, in_phase, pod_of, ready, running};
use crate::api::{Attempt, AttemptAction, AttemptOutcome, Phase, Requeue, condition};
use crate::decide::Decision;
use crate::decide::VerdictAction::Handle;
use crate::decide::tests::given::{World, at};
use crate::kueue::WaitForPodsReady;
use crate::plan::{Action, FreshRead, Target};
use crate::snapshot::workload::{Workload, WorkloadRead};
use crate::snapshot::{Object, Pod, PodCondition, PodPhase, Presence};
use crate::tuning::Period;

const HOLD: &str = "onNoFit: {after: 2m, action: Hold}";
const REQUEUE: &str = "onNoFit: {after: 2m, action: Requeue}";

/// A pod for which the scheduler finds no node since a second.
fn refused(since: i64) -> Pod {
    let condition = PodCondition {
        kind: "PodScheduled".into(),
        status: "False".into(),
        reason: "Unschedulable".into(),
        message: "0/3 nodes are available".into(),
        since: Some(at(since)),
    };
    let pod = pod_of(0, PodPhase::Pending);
    Pod { node: None, conditions: vec![condition], ..pod }
}

/// A Job of two pods, of which one runs and one cannot be scheduled since second 10.
fn unfit(spec: &str) -> World {
    let mut world = running(&["Job/work:2"]).spec(spec).with(ready(0)).with(refused(10));
    world.snapshot.queue_managed = true;
    world
}

pub(super) fn workload(active: bool, mark: Option<&str>) -> Workload {
    Workload {
        name: "w".into(),
        uid: "u".into(),
        version: "7".into(),
        active,
        deactivated_for: mark.map(str::to_owned),
        holds_quota: true,
        ..Workload::default()
    }
}

pub(super) fn read(mut world: World, workload: Workload) -> World {
    world.snapshot.workload = WorkloadRead::Found(workload);
    world
}

/// Everything is gone since second 200, and the AppWrapper is to return to its queue.
pub(super) fn returning(phase: Phase) -> World {
    let mut world = in_phase(phase, &["Job/work:2"]).spec(REQUEUE).all_gone();
    world.snapshot.queue_managed = true;
    world.snapshot.finalizer = true;
    let status = &mut world.snapshot.status;
    status.requeue = Some(Requeue { attempt: 0, active_after: Some(Time(at(290))) });
    if let Some(attempt) = status.attempts.last_mut() {
        attempt.outcome = Some(AttemptOutcome::NoFit);
        attempt.action = Some(AttemptAction::Requeue);
    }
    if phase == Phase::Resetting {
        condition::set(
            &mut status.conditions,
            condition::RESOURCES_DEPLOYED,
            false,
            "T",
            "",
            at(200),
        );
        condition::set(
            &mut status.conditions,
            condition::DELETING_RESOURCES,
            false,
            "T",
            "",
            at(200),
        );
        world = world.since(|since| {
            since.deleting = None;
            since.gone = Some(Time(at(200)));
        });
    }
    world
}

pub(super) fn switched(decision: &Decision) -> Option<bool> {
    decision.actions.iter().find_map(|action| match action {
        Action::SwitchWorkload { active, .. } => Some(*active),
        _ => None,
    })
}

#[test]
fn an_attempt_whose_pods_find_no_node_ends_and_no_retry_is_used() {
    for (spec, action) in [(HOLD, AttemptAction::Hold), (REQUEUE, AttemptAction::Requeue)] {
        let mut world = unfit(spec);
        // avoided since an earlier failure: it may be the only node with room
        world.snapshot.status.avoid_nodes = vec!["node-1".to_owned()];
        world.snapshot.status.retry_after = Some(Time(at(20))); // of a component that was recreated
        assert_eq!(world.says_at(129), "Wait 130", "{spec}");
        let decision = world.decide(130);
        assert_eq!((decision.next, decision.verdict.action), (Phase::Resetting, Handle(action)));
        let status = &decision.status;
        assert_eq!((status.resetting_count, status.uncounted_restarts), (0, 0), "{spec}");
        let attempt = &status.attempts[0];
        let ended = (attempt.outcome, attempt.action, attempt.failed_at.clone());
        assert_eq!(ended, (Some(AttemptOutcome::NoFit), Some(action), Some(Time(at(10)))));
        assert_eq!(status.requeue.is_some(), spec == REQUEUE);
        assert_eq!(status.avoid_nodes, Vec::<String>::new(), "{spec}");
        assert_eq!(status.retry_after, None, "{spec}: the pause follows");
        assert!(condition::is_true(&status.conditions, condition::QUOTA_RESERVED), "{spec}");
        assert_eq!(decision.verdict.counted, Some(false));
    }
}

#[test]
fn only_with_a_queue_and_only_while_a_pod_finds_no_node() {
    let unqueued = || {
        let mut world = unfit(HOLD);
        world.snapshot.queue_managed = false;
        world
    };
    let worker = || {
        let mut world = unfit(HOLD);
        world.snapshot.has_manager = true;
        world
    };
    let mut gated = unfit(HOLD);
    gated.snapshot.pods[1].conditions[0].reason = "SchedulingGated".into();
    let mut fits = unfit(HOLD);
    fits.snapshot.pods[1].conditions.clear();
    for (what, world) in [
        ("no queue", unqueued()),
        ("a worker cluster of MultiKueue", worker()),
        ("gated", gated),
        ("scheduled meanwhile", fits),
        ("not set", unfit("failurePolicy: {maxRestarts: 1}")),
    ] {
        // the warm-up ends, and the failure grace period after it
        assert_eq!(world.says_at(359), "Wait 360", "{what}");
        assert_eq!(world.decide(360).verdict.action, Handle(AttemptAction::Restart), "{what}");
    }
    let forbidden = unfit(HOLD).configured("retryPolicy: {globalMaxRetries: 0}");
    assert_eq!(forbidden.decide(130).next, Phase::Running, "no restart of any kind is allowed");
    assert_eq!(forbidden.decide(360).next, Phase::Failed);
    let capped = unfit("onNoFit: {after: 90d, action: Hold}");
    let capped =
        capped.config(|config| config.fault_tolerance.grace_maximum = Period::from_secs(60));
    assert_eq!(capped.says_at(20), "Wait 70");
}

/// A pod that was created at second 0 and has a node since a later one.
fn placed(phase: PodPhase, component: usize, since: i64) -> Pod {
    let pod = pod_of(component, phase).condition("PodScheduled", "True", "");
    let conditions = pod.conditions.iter().cloned();
    let conditions = conditions.map(|one| PodCondition { since: Some(at(since)), ..one }).collect();
    Pod { conditions, ..pod }
}

#[test]
fn the_warm_up_begins_when_pods_have_a_node() {
    const LONG: &str = "onNoFit: {after: 10m, action: Hold}";
    let fits = |spec: &str| unfit(spec).pod_is(1, placed(PodPhase::Pending, 0, 420));
    let replaced = Pod { created: Some(at(200)), ..placed(PodPhase::Running, 0, 201) };
    let replaced = unfit(LONG).pod_is(0, replaced).pod_is(1, placed(PodPhase::Pending, 0, 0));
    let two = |b: Option<Pod>| {
        let mut world = running(&["Job/a:1", "Job/b:1"]).spec(LONG).with(refused(10));
        world.snapshot.queue_managed = true;
        b.into_iter().fold(world, World::with)
    };
    let waits = || two(Some(placed(PodPhase::Pending, 1, 0)));
    let late = |phase| waits().pod_is(0, placed(phase, 0, 420));
    let replacement = Pod { created: Some(at(425)), ..placed(PodPhase::Running, 0, 425) };
    check(vec![
        ("it was refused for less than after", fits(LONG), 421, "Wait 780"),
        ("… it was refused for longer", fits(HOLD), 421, "Wait 480"),
        ("… onNoFit is not set", fits("failurePolicy: {maxRestarts: 1}"), 300, "Wait 360"),
        ("a pod that was never refused", replaced, 300, "Wait 361"),
        ("one of another pod set waits for it", waits(), 360, "Wait 610"),
        ("… until after is over", waits(), 610, "Hold"),
        ("… until it runs", late(PodPhase::Running), 426, "Wait 780"),
        ("… and has succeeded", late(PodPhase::Succeeded), 426, "Wait 780"),
        ("… and was replaced", late(PodPhase::Failed).with(replacement), 426, "Wait 780"),
        ("one of another pod set is missing", two(None), 119, "Wait 120"),
        ("… for too long", two(None), 120, "Restart retryLimit 0 of 3"),
    ]);
}

#[test]
fn an_overriding_policy_is_asked_before_on_no_fit() {
    let policy = |action: &str| {
        let rule = format!("{{name: r, action: {action}, onConditions: [Unschedulable]}}");
        format!("{{override: true, rules: [{rule}]}}")
    };
    let world = |action: &str| unfit(HOLD).overriding("p", &policy(action));
    check(vec![
        ("the pod may still find a node", world("Fail"), 129, "Wait 130"),
        ("it fails", world("Fail"), 130, "Fail retryPolicy/p/r#0"),
        ("its Retry leaves it to onNoFit", world("Retry"), 130, "Hold"),
        ("a user attached it", unfit(HOLD).retry_policy("p", &policy("Fail")), 130, "Hold"),
    ]);
    assert_eq!(world("Fail").ask(130).ask, FreshRead::Pods);
    let attempts = world("Fail").decide(130).status.attempts;
    let ended = (attempts[0].outcome, attempts[0].action);
    assert_eq!(ended, (Some(AttemptOutcome::Failed), Some(AttemptAction::Fail)));
}

#[test]
fn the_workload_is_deactivated_once_everything_is_gone_and_never_before() {
    let decided = unfit(REQUEUE).decide(130);
    let deleting = read(unfit(REQUEUE).written(&decided), workload(true, None)).decide(131);
    assert_eq!(switched(&deleting), None, "resources exist");
    let world = returning(Phase::Resetting);
    assert!(world.decide(201).ask_workload, "the Workload is read first");
    for (what, seen, want) in [
        ("it is active", workload(true, None), Some(false)),
        ("an old mark means nothing", workload(true, Some("0")), Some(false)),
        ("we did", workload(false, Some("0")), None),
        ("a user did: Kueue releases the quota", workload(false, None), None),
        ("it is of an earlier attempt", workload(false, Some("7")), None),
        ("Kueue evicts it already", Workload { evicted: true, ..workload(true, None) }, None),
    ] {
        let decision = read(world.clone(), seen).decide(500);
        assert_eq!(switched(&decision), want, "{what}");
        assert!(decision.events.is_empty(), "{what}");
        let polls = want.is_none().then(|| at(505));
        assert_eq!(decision.requeue, polls, "{what}: the Workload is not watched");
        assert_eq!((decision.next, &decision.status), (Phase::Resetting, &world.snapshot.status));
    }
}

#[test]
fn a_return_that_is_not_possible_keeps_the_quota() {
    let refused = WorkloadRead::Refused("forbidden".into());
    for (seen, want) in [
        (refused, "Cannot return to the queue; the quota stays reserved: forbidden"),
        (
            WorkloadRead::Absent,
            "Cannot return to the queue; the quota stays reserved: the AppWrapper has no Workload",
        ),
        (
            WorkloadRead::Found(Workload { finished: true, ..workload(false, Some("0")) }),
            "Cannot return to the queue; the quota stays reserved: its Workload is finished",
        ),
    ] {
        let mut world = returning(Phase::Resetting);
        world.snapshot.workload = seen;
        let decision = world.decide(201);
        assert_eq!((decision.next, decision.status.requeue.clone()), (Phase::Resetting, None));
        let event = decision.events.iter().find(|event| event.reason == "RequeueFailed").unwrap();
        assert_eq!(event.message, want);
        let later = world.written(&decision);
        assert_eq!(later.decide(289).next, Phase::Resetting, "the pause");
        assert_eq!(later.decide(290).next, Phase::Resuming);
    }
}

#[test]
fn a_return_ends_where_the_queue_is_removed_and_the_pause_follows() {
    for seen in [workload(false, Some("0")), workload(true, None)] {
        let mut world = read(returning(Phase::Resetting), seen);
        world.snapshot.queue_managed = false;
        let decision = world.decide(201);
        assert_eq!((decision.next, switched(&decision)), (Phase::Resetting, None));
        assert_eq!((decision.status.requeue.clone(), decision.requeue), (None, Some(at(290))));
        let later = world.written(&decision);
        assert_eq!(later.decide(290).next, Phase::Resuming);
    }
}

#[test]
fn a_suspended_appwrapper_is_activated_after_the_pause_by_whoever_deactivated_it() {
    let world = returning(Phase::Suspended);
    assert!(world.decide(250).ask_workload);
    let free = |active, mark| Workload { holds_quota: false, ..workload(active, mark) };
    for (what, seen, second, want, is_over) in [
        ("in the pause", free(false, Some("0")), 289, None, false),
        ("after it", free(false, Some("0")), 290, Some(true), false),
        ("Kueue still has the quota", workload(false, Some("0")), 290, None, false),
        ("it is active", free(true, None), 290, None, true),
        ("a user activated it: the mark goes first", free(true, Some("0")), 250, Some(true), false),
        ("… although Kueue has admitted it", workload(true, Some("0")), 250, Some(true), false),
        ("a user's", free(false, None), 290, None, true),
        ("of an earlier attempt", free(false, Some("1")), 290, None, true),
    ] {
        let decision = read(world.clone(), seen).decide(second);
        assert_eq!(switched(&decision), want, "{what}");
        assert_eq!(decision.next, Phase::Suspended, "{what}");
        assert_eq!(decision.status.requeue.is_none(), is_over, "{what}");
    }
    let resumed = read(world.suspended(false), free(false, Some("0"))).decide(250);
    assert_eq!(switched(&resumed), Some(true), "or Kueue would suspend it for ever");
    let admitted = returning(Phase::Suspended).suspended(false);
    let admitted = read(admitted, free(true, None)).decide(300);
    assert_eq!((admitted.next, admitted.status.requeue), (Phase::Resuming, None));
}

#[test]
fn a_mark_does_not_outlast_the_activation_by_somebody_else() {
    let free = |active, mark| Workload { holds_quota: false, ..workload(active, mark) };
    for suspend in [true, false] {
        let mut world = returning(Phase::Suspended).suspended(suspend);
        world.snapshot.status.attempts = vec![Attempt::default()];
        let unmarks = read(world.clone(), free(true, Some("0"))).decide(250);
        let mark = if switched(&unmarks) == Some(true) { None } else { Some("0") };
        let over = read(world.clone(), free(true, mark)).decide(251);
        assert_eq!(over.status.requeue, None, "suspend {suspend}");
        // an administrator deactivates it: nobody but them activates it again
        let later = read(world.written(&over).suspended(true), free(false, mark)).decide(400);
        let after = (later.next, switched(&later), later.status.requeue);
        let next = if suspend { Phase::Suspended } else { Phase::Suspending };
        assert_eq!(after, (next, None, None), "suspend {suspend}");
    }
}

#[test]
fn a_pause_that_outlasts_kueues_deadline_is_warned_of_where_the_quota_stays() {
    // the attempt ends at second 130, and the pause is 90 s
    for (spec, timeout, want) in [(HOLD, 220, true), (HOLD, 221, false), (REQUEUE, 150, false)] {
        let mut world = unfit(spec);
        let timeout = Period::from_secs(timeout);
        let kueue = WaitForPodsReady { timeout, recovery_timeout: None };
        world.snapshot.wait_for_pods_ready = Some(kueue);
        let decision = world.decide(130);
        assert_eq!(decision.next, Phase::Resetting);
        let warned = decision.events.iter().any(|event| event.reason == "EvictionBeforeRestart");
        assert_eq!(warned, want, "{spec} {timeout}");
    }
}

#[test]
fn pauses_grow_while_nothing_becomes_ready() {
    let mut world = returning(Phase::Resetting);
    let entry = world.snapshot.status.attempts[0].clone();
    world.snapshot.status.attempts = vec![entry; 3];
    world.snapshot.status.requeue = None;
    assert_eq!(world.decide(201).verdict.deadline, Some(at(200 + 360)));
}

#[test]
fn what_was_created_too_late_is_deleted_while_a_return_is_under_way() {
    let late = |attempt| {
        let object = Object { uid: "late".into(), attempt: Some(attempt), ..Object::default() };
        let world = returning(Phase::Suspended).with(ready(0));
        world.component(0, |one| one.presence = Presence::Present(object.clone()))
    };
    let target = Target { component: 0, uid: "late".into() };
    let free = || Workload { holds_quota: false, ..workload(false, Some("0")) };
    for (what, world) in [
        ("the Workload is not read yet", late(0)),
        ("in the pause", read(late(0), free())),
        ("of another attempt", read(late(7), free())),
    ] {
        let decision = world.decide(250);
        let found = (decision.next, decision.actions, decision.ask_workload);
        assert_eq!(
            found,
            (Phase::Suspended, vec![Action::Delete(target.clone())], false),
            "{what}"
        );
    }
    let pod_alone = late(0).component(0, |one| one.presence = Presence::Absent);
    let decision = read(pod_alone, free()).decide(290);
    assert_eq!(switched(&decision), None, "its pod still runs");
    let gone = read(returning(Phase::Suspended), free()).decide(290);
    assert_eq!(switched(&gone), Some(true));
}
