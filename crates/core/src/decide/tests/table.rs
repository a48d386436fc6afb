//! One row each of the tables of phases, health, deletion and policies.

use std::sync::Arc;

use super::given::{World, at, given};
use crate::api::{AttemptAction, AttemptOutcome, Phase, PodSet, condition};
use crate::decide::Decision;
use crate::decide::VerdictAction::{self, Handle};
use crate::plan::{Action, FreshRead, Orphan, Target};
use crate::snapshot::lost::{Loss, Lost};
use crate::snapshot::{
    CreationFailure, Expected, Object, Outcome, Owner, Pod, PodPhase, Presence, Undetermined,
};
use crate::tuning::{Limits, Period};

use PodPhase::{Failed as FailedPod, Pending, Running as RunningPod, Succeeded as SucceededPod};

const TWO: [PodPhase; 2] = [RunningPod, RunningPod];

/// What a decision does, in one line: `Running → Resetting`, or the actions, or the question.
fn line(from: Phase, decision: &Decision) -> String {
    let name = |phase: Phase| if phase == Phase::Empty { "Empty" } else { phase.as_str() };
    if decision.next != from {
        return format!("{} → {}", name(from), name(decision.next));
    }
    let actions: Vec<String> = decision.actions.iter().map(|action| action.name().into()).collect();
    match (decision.ask, actions.is_empty()) {
        (FreshRead::Gone, _) => format!("{}: is everything gone?", name(from)),
        (FreshRead::Missing, _) => format!("{}: is it missing?", name(from)),
        (FreshRead::Pods, _) => format!("{}: do the pods run?", name(from)),
        (FreshRead::Nothing, false) => format!("{}: {}", name(from), actions.join(", ")),
        (FreshRead::Nothing, true) => {
            format!("{}: {}", name(from), decision.verdict.action.as_str())
        }
    }
}

fn rows(rows: Vec<(&str, Phase, World, i64)>) -> String {
    let line = |(what, phase, world, second): (&str, Phase, World, i64)| {
        format!("{what:<44} {}", line(phase, &world.decide(second)))
    };
    rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What does not run may only be what a watch has not shown yet.
#[test]
fn too_few_pods_are_listed_before_anything_is_decided() {
    for pods in [[RunningPod, Pending], [RunningPod, FailedPod]] {
        let world = given(Phase::Running).pods(&pods);
        assert_eq!(world.ask(1).ask, FreshRead::Nothing, "nothing to decide yet");
        assert_eq!(world.ask(4000).ask, FreshRead::Pods);
        assert_eq!(world.clone().answered(FreshRead::Pods).ask(4000).next, Phase::Resetting);
        assert_eq!(
            world.answered(FreshRead::Gone).ask(4000).next,
            Phase::Resetting,
            "all was listed"
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table has as many lines as rows")]
fn the_table_of_phases() {
    let empty = || given(Phase::Empty);
    let resuming = || given(Phase::Resuming);
    let running = || given(Phase::Running).pods(&TWO);
    let transient = CreationFailure { fatal: false, message: "timeout".into() };
    let fatal = CreationFailure { fatal: true, message: "invalid".into() };
    let failing = |failure: CreationFailure| {
        let mut world = resuming().presence(Presence::Absent);
        world.snapshot.components[0].creation = Some(failure);
        world
    };
    let stranger = || resuming().owner(Owner::Stranger("Deployment/d".into()));
    let pausing = || {
        let mut world = given(Phase::Suspended).suspended(false).with_finalizer();
        world.snapshot.status.retry_after = Some(time(190));
        world
    };
    let late = || Presence::Present(Object { uid: "late".into(), ..Object::default() });
    let kept = || {
        let grace = |limits: &mut Limits| limits.deletion_on_failure_grace = Period::from_secs(200);
        given(Phase::Failed).since(|s| s.deleting = None).limits(grace)
    };
    insta::assert_snapshot!(rows(vec![
        ("born suspended", Phase::Empty, empty().suspended(true), 1),
        ("born unsuspended, no finalizer", Phase::Empty, empty(), 1),
        ("born unsuspended", Phase::Empty, empty().with_finalizer(), 1),
        ("stays suspended", Phase::Suspended, given(Phase::Suspended), 1),
        ("unsuspended, no finalizer", Phase::Suspended, given(Phase::Suspended).suspended(false), 1),
        ("unsuspended", Phase::Suspended, given(Phase::Suspended).suspended(false).with_finalizer(), 1),
        ("unsuspended, paused", Phase::Suspended, pausing(), 189),
        ("… and something was created late", Phase::Suspended, pausing().presence(late()), 189),
        ("unsuspended, pause over", Phase::Suspended, pausing(), 190),
        ("nothing created yet", Phase::Resuming, resuming().presence(Presence::Unseen), 1),
        ("everything created", Phase::Resuming, resuming(), 1),
        ("creation failed for good", Phase::Resuming, failing(fatal), 1),
        ("creation failed for now", Phase::Resuming, failing(transient.clone()), 59),
        ("creation failed for too long", Phase::Resuming, failing(transient.clone()), 60),
        ("… and no retry is left", Phase::Resuming, failing(transient).retries(3), 60),
        ("name taken by a stranger", Phase::Resuming, stranger(), 1),
        ("… says a live read", Phase::Resuming, stranger().answered(FreshRead::Missing), 1),
        ("… but not any more", Phase::Resuming, resuming().presence(Presence::Absent).answered(FreshRead::Missing), 1),
        ("name taken, but being deleted", Phase::Resuming, stranger().object(|o| o.terminating = true), 59),
        ("… for too long", Phase::Resuming, stranger().object(|o| o.terminating = true), 60),
        ("name taken by an older UID of ours", Phase::Resuming, resuming().owner(Owner::Former), 59),
        ("object of an earlier attempt", Phase::Resuming, resuming().object(|o| o.attempt = Some(7)).settled(1), 1),
        ("kind does not exist", Phase::Resuming, resuming().presence(Presence::NoKind), 1),
        ("suspended while resuming", Phase::Resuming, resuming().suspended(true), 1),
        ("healthy", Phase::Running, running(), 1),
        ("succeeded", Phase::Running, given(Phase::Running).pods(&[SucceededPod; 2]).says(Outcome::Succeeded), 1),
        ("failed component", Phase::Running, running().failed_job(), 21),
        ("failed component, no retry left", Phase::Running, running().failed_job().retries(3), 21),
        ("suspended while running", Phase::Running, running().suspended(true), 1),
        ("resetting, not deleted yet", Phase::Resetting, given(Phase::Resetting).pods(&TWO), 1),
        ("resetting, being deleted", Phase::Resetting, given(Phase::Resetting).pods(&TWO).object(|o| o.terminating = true), 1),
        ("resetting, cache empty", Phase::Resetting, given(Phase::Resetting).gone().answered(FreshRead::Nothing), 1),
        ("resetting, everything gone", Phase::Resetting, given(Phase::Resetting).gone(), 1),
        ("resetting, paused", Phase::Resetting, given(Phase::Resetting).gone().since(|s| s.gone = Some(time(100))), 189),
        ("… and something was created late", Phase::Resetting, given(Phase::Resetting).since(|s| s.gone = Some(time(100))), 189),
        ("resetting, pause over", Phase::Resetting, given(Phase::Resetting).gone().since(|s| s.gone = Some(time(100))), 190),
        ("suspended while resetting", Phase::Resetting, given(Phase::Resetting).suspended(true), 1),
        ("suspending, not gone", Phase::Suspending, given(Phase::Suspending), 1),
        ("suspending, gone", Phase::Suspending, given(Phase::Suspending).gone(), 1),
        ("unsuspended while suspending", Phase::Suspending, given(Phase::Suspending).suspended(false), 1),
        ("failed, kept", Phase::Failed, kept(), 199),
        ("… and something was created late", Phase::Failed, kept().presence(late()), 199),
        ("failed, to be deleted", Phase::Failed, given(Phase::Failed), 1),
        ("failed, all gone", Phase::Failed, given(Phase::Failed).gone(), 1),
        ("succeeded, kept", Phase::Succeeded, given(Phase::Succeeded), 604_799),
        ("succeeded, kept long enough", Phase::Succeeded, given(Phase::Succeeded).since(|s| s.deleting = Some(time(604_800))), 604_800),
        ("terminating", Phase::Terminating, given(Phase::Terminating), 1),
        ("terminating, all gone", Phase::Terminating, given(Phase::Terminating).gone(), 1),
        ("… kept by others", Phase::Terminating, given(Phase::Terminating).gone().kept(), 1),
    ]), @"
    born suspended                               Empty → Suspended
    born unsuspended, no finalizer               Empty: add-finalizer
    born unsuspended                             Empty → Resuming
    stays suspended                              Suspended: None
    unsuspended, no finalizer                    Suspended: add-finalizer
    unsuspended                                  Suspended → Resuming
    unsuspended, paused                          Suspended: Wait
    … and something was created late             Suspended: delete
    unsuspended, pause over                      Suspended → Resuming
    nothing created yet                          Resuming: create
    everything created                           Resuming → Running
    creation failed for good                     Resuming → Failed
    creation failed for now                      Resuming: Deploy
    creation failed for too long                 Resuming → Resetting
    … and no retry is left                       Resuming → Failed
    name taken by a stranger                     Resuming: is it missing?
    … says a live read                           Resuming → Failed
    … but not any more                           Resuming: create
    name taken, but being deleted                Resuming: Wait
    … for too long                               Resuming → Resetting
    name taken by an older UID of ours           Resuming: Wait
    object of an earlier attempt                 Resuming: delete
    kind does not exist                          Resuming → Failed
    suspended while resuming                     Resuming → Suspending
    healthy                                      Running: None
    succeeded                                    Running → Succeeded
    failed component                             Running → Resetting
    failed component, no retry left              Running → Failed
    suspended while running                      Running → Suspending
    resetting, not deleted yet                   Resetting: delete
    resetting, being deleted                     Resetting: Wait
    resetting, cache empty                       Resetting: is everything gone?
    resetting, everything gone                   Resetting: Wait
    resetting, paused                            Resetting: Wait
    … and something was created late             Resetting: delete
    resetting, pause over                        Resetting → Resuming
    suspended while resetting                    Resetting → Suspending
    suspending, not gone                         Suspending: delete
    suspending, gone                             Suspending → Suspended
    unsuspended while suspending                 Suspending: delete
    failed, kept                                 Failed: Wait
    … and something was created late             Failed: delete
    failed, to be deleted                        Failed: delete
    failed, all gone                             Failed: None
    succeeded, kept                              Succeeded: Wait
    succeeded, kept long enough                  Succeeded: delete
    terminating                                  Terminating: delete
    terminating, all gone                        Terminating: remove-finalizer
    … kept by others                             Terminating: None
    ");
}

fn time(second: i64) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(second))
}

#[test]
fn the_table_of_health() {
    let running = |pods: &[PodPhase]| given(Phase::Running).pods(pods);
    let was_ready = |pods: &[PodPhase], second| {
        let world = running(&TWO);
        let decision = world.decide(second);
        let pods = pods.to_vec();
        world.written(&decision).pods(&pods)
    };
    let lost = |pods: &[PodPhase], ready, lost| {
        let world = was_ready(pods, ready);
        let decision = world.decide(lost);
        world.written(&decision)
    };
    let three = |mut world: World| {
        world.snapshot.pods.push(super::given::pod(2, RunningPod));
        world
    };
    let terminating = |world: World| world.pod(0, |pod| pod.terminating = true);
    insta::assert_snapshot!(rows(vec![
        ("a failed pod, within grace", Phase::Running, running(&[FailedPod, RunningPod]), 79),
        ("a failed pod, grace over", Phase::Running, running(&[FailedPod, RunningPod]), 80),
        ("a failed pod that was made up for", Phase::Running, three(running(&[FailedPod, RunningPod])), 500),
        ("too few pods there, within grace", Phase::Running, running(&[Pending]), 119),
        ("too few pods there, grace over", Phase::Running, running(&[Pending]), 120),
        ("pods not running, within grace", Phase::Running, running(&[Pending, RunningPod]), 359),
        ("pods not running, grace over", Phase::Running, running(&[Pending, RunningPod]), 360),
        ("lost an hour later: a new clock", Phase::Running, lost(&[Pending, RunningPod], 10, 3600), 3959),
        ("… and it runs out", Phase::Running, lost(&[Pending, RunningPod], 10, 3600), 3960),
        ("… a Terminating pod stops it", Phase::Running, terminating(lost(&[RunningPod, RunningPod], 10, 3600)), 9000),
        ("missing, says the cache", Phase::Running, running(&TWO).presence(Presence::Unseen), 1),
        ("missing, says a live read", Phase::Running, running(&TWO).presence(Presence::Absent), 1),
        ("another object has its name", Phase::Running, running(&TWO).object(|o| o.uid = "other".into()), 1),
        ("… says a live read", Phase::Running, running(&TWO).object(|o| o.uid = "other".into()).answered(FreshRead::Missing), 1),
        ("Terminating component", Phase::Running, running(&TWO).object(|o| o.terminating = true), 1),
        ("succeeded, a pod still runs", Phase::Running, running(&TWO).says(Outcome::Succeeded), 1),
        ("succeeded, a pod is Terminating", Phase::Running, terminating(running(&[SucceededPod; 2]).says(Outcome::Succeeded)), 1),
        ("succeeded, most pods are gone", Phase::Running, running(&[SucceededPod]).says(Outcome::Succeeded), 1),
        ("pods succeeded, the Job has not", Phase::Running, running(&[SucceededPod; 2]), 1),
    ]), @"
    a failed pod, within grace                   Running: Wait
    a failed pod, grace over                     Running → Resetting
    a failed pod that was made up for            Running: None
    too few pods there, within grace             Running: Wait
    too few pods there, grace over               Running → Resetting
    pods not running, within grace               Running: Wait
    pods not running, grace over                 Running → Resetting
    lost an hour later: a new clock              Running: Wait
    … and it runs out                            Running → Resetting
    … a Terminating pod stops it                 Running: None
    missing, says the cache                      Running: is it missing?
    missing, says a live read                    Running → Resetting
    another object has its name                  Running: is it missing?
    … says a live read                           Running → Resetting
    Terminating component                        Running: None
    succeeded, a pod still runs                  Running: None
    succeeded, a pod is Terminating              Running: None
    succeeded, most pods are gone                Running → Succeeded
    pods succeeded, the Job has not              Running: None
    ");
}

/// A `StatefulSet` creates a pod once the one before it is ready.
#[test]
fn each_pod_that_is_created_in_order_gives_the_next_a_warm_up() {
    let world = |pods: &[PodPhase], in_order: bool| {
        let mut world = given(Phase::Running).pods(pods).object(|o| o.report.in_order = in_order);
        world.snapshot.components[0].pod_sets[0].replicas = Some(4);
        world.snapshot.status.component_status[0].pod_sets[0].replicas = Some(4);
        for (pod, second) in world.snapshot.pods.iter_mut().zip([0, 60, 120, 180]) {
            pod.created = Some(at(second));
        }
        world
    };
    let found = |world: &World, second: i64| {
        let decision = world.decide(second);
        let conditions = &decision.status.conditions;
        let unhealthy = condition::find(conditions, condition::UNHEALTHY);
        let reason = unhealthy.filter(|one| one.status == "True").map(|one| one.reason.clone());
        (decision.next, reason)
    };
    let too_few = || Some(condition::unhealthy::INSUFFICIENT_PODS_READY.to_owned());
    for (pods, in_order, second, want) in [
        (vec![Pending], true, 59, (Phase::Running, None)),
        (vec![RunningPod, Pending], true, 119, (Phase::Running, None)),
        (vec![RunningPod, RunningPod, Pending], true, 179, (Phase::Running, None)),
        (vec![RunningPod, RunningPod, RunningPod, Pending], true, 239, (Phase::Running, None)),
        (vec![RunningPod; 4], true, 240, (Phase::Running, None)),
        // the last one does not come
        (vec![RunningPod; 3], true, 419, (Phase::Running, None)),
        (vec![RunningPod; 3], true, 420, (Phase::Running, too_few())),
        (vec![RunningPod; 3], true, 480, (Phase::Resetting, too_few())),
        // it came, and does not run
        (vec![RunningPod, RunningPod, RunningPod, Pending], true, 479, (Phase::Running, None)),
        (vec![RunningPod, RunningPod, RunningPod, Pending], true, 480, (Phase::Running, too_few())),
        // no controller waits
        (vec![RunningPod; 3], false, 60, (Phase::Running, too_few())),
        (vec![RunningPod; 3], false, 120, (Phase::Resetting, too_few())),
    ] {
        assert_eq!(found(&world(&pods, in_order), second), want, "{pods:?} {in_order} {second}");
    }
    // one that is created again and again: each pod that exists gives the others one warm-up
    let again = world(&[Pending, RunningPod], true).pod(1, |pod| pod.created = Some(at(3000)));
    assert_eq!(found(&again, 899).1, None);
    assert_eq!(found(&again, 3001), (Phase::Resetting, too_few()));
    // workers wait for their leader, which is of another pod set
    let mut world = world(&[RunningPod; 4], true);
    let workers = PodSet { path: "template.spec.workers".into(), ..PodSet::default() };
    world.snapshot.components[0].pod_sets.push(workers.clone());
    world.snapshot.status.component_status[0].pod_sets.push(workers);
    assert_eq!(found(&world, 479), (Phase::Running, None));
    assert_eq!(found(&world, 480), (Phase::Running, too_few()));
}

impl World {
    /// Finalizers of others keep it.
    fn kept(mut self) -> Self {
        self.snapshot.has_other_finalizers = true;
        self
    }

    /// All work is done, and the second pod is still Terminating, which was to be gone at second 10.
    fn last_pod(self) -> Self {
        self.says(Outcome::Succeeded).pod(1, |pod| {
            pod.terminating = true;
            pod.due_to_go = Some(at(10));
        })
    }
}

#[test]
fn the_last_pods_are_named_and_force_deleted_as_the_api_server_has_them() {
    let world = given(Phase::Running).pods(&[SucceededPod, RunningPod]).last_pod();
    assert_eq!(world.ask(609).actions, [], "its kubelet may still respond");
    let first = world.ask(610);
    assert_eq!((first.ask, first.actions), (FreshRead::Pods, vec![]));
    let told = world.clone().answered(FreshRead::Pods).ask(610);
    let decision = world.answered(FreshRead::Pods).written(&told).ask(610);
    let pod = Action::ForceDeletePod { name: "work-1".into(), uid: "pod-1".into() };
    assert_eq!(decision.actions, [pod]);
    let unhealthy = condition::find(&decision.status.conditions, condition::UNHEALTHY).unwrap();
    assert_eq!(
        (unhealthy.reason.as_str(), unhealthy.message.as_str()),
        (
            condition::unhealthy::STUCK_TERMINATING,
            "Waiting for Pod/work-1 on node node-1; every component has succeeded"
        )
    );
}

/// A pod cannot be older than its attempt, which began at second 0.
#[test]
fn the_clock_of_an_api_server_that_is_behind_makes_no_pod_overdue() {
    for (created, attempt, entries, overdue) in [
        (5, 0, 1, 610),
        (0, 0, 1, 610),
        (-100, 0, 1, 710),
        (-5000, 0, 1, 730),
        (-100, 7, 1, 610),
        (-100, 0, 9, 710),
        (-100, 0, 10, 610), // an earlier entry of the attempt may have been given up
    ] {
        let world = given(Phase::Running).pods(&[SucceededPod, RunningPod]).last_pod();
        let mut world = world.answered(FreshRead::Pods).pod(1, |pod| {
            (pod.created, pod.attempt) = (Some(at(created)), Some(attempt));
        });
        let began = world.snapshot.status.attempts[0].clone();
        world.snapshot.status.attempts = vec![began; entries];
        let is_told = |second| {
            let conditions = world.ask(second).status.conditions;
            condition::is_true(&conditions, condition::UNHEALTHY)
        };
        let told = [overdue - 1, overdue].map(is_told);
        assert_eq!(told, [false, true], "{created} {attempt} {entries}");
    }
}

/// A Job whose other pods have done all its work, or a Volcano Job that restarts, waits until the pod is gone.
#[test]
fn a_pod_that_no_component_expects_is_force_deleted_when_overdue() {
    let restarts = || (vec![RunningPod], Expected::default());
    let done = || (vec![RunningPod, SucceededPod, SucceededPod], Expected::pods(2));
    let lost = Loss { state: Lost::NotReady, since: Some(at(50)) };
    for ((pods, expected), lost) in
        [(restarts(), None), (restarts(), Some(lost)), (done(), None), (done(), Some(lost))]
    {
        let world = given(Phase::Running).pods(&pods).object(|object| {
            object.report.expected.insert(0, expected);
        });
        let world = world.pod(0, |pod| {
            (pod.terminating, pod.due_to_go, pod.lost) = (true, Some(at(10)), lost);
        });
        let early = world.ask(609);
        assert_eq!((early.ask, early.next), (FreshRead::Nothing, Phase::Running));
        assert_eq!(early.requeue, Some(at(610)), "no event says that it is overdue");
        let world = world.written(&early);
        assert_eq!(world.ask(609).actions, [], "its kubelet may still respond");
        assert_eq!(world.ask(610).ask, FreshRead::Pods);
        let world = world.answered(FreshRead::Pods);
        let told = world.ask(610);
        let unhealthy = condition::find(&told.status.conditions, condition::UNHEALTHY).unwrap();
        assert_eq!(unhealthy.reason, condition::unhealthy::STUCK_TERMINATING);
        assert!(unhealthy.message.starts_with("Waiting for Pod/work-0 "), "{}", unhealthy.message);
        let world = world.written(&told);
        let forced = world.ask(610);
        let pod = Action::ForceDeletePod { name: "work-0".into(), uid: "pod-0".into() };
        assert_eq!((forced.next, forced.actions), (Phase::Running, vec![pod]));
        // a finalizer may keep it: force can do no more
        let held = world.clone().pod(0, |pod| pod.held_by_finalizers = true);
        let held = held.answered(FreshRead::Nothing).ask(700);
        assert_eq!((held.ask, held.actions), (FreshRead::Nothing, vec![]));
        // other pods are looked after all the same
        let mut world = world;
        let other = PodSet { path: "template.spec.other".into(), ..PodSet::default() };
        world.snapshot.components[0].pod_sets.push(other.clone());
        world.snapshot.status.component_status[0].pod_sets.push(other);
        let failed = Pod { pod_set: Some(1), ..super::given::pod(9, FailedPod) };
        world.snapshot.pods.push(failed);
        assert_eq!(world.ask(700).next, Phase::Resetting);
    }
}

/// A drain deleted the second pod before the restart, and its node does not respond.
#[test]
fn a_pod_that_was_deleted_before_a_restart_has_one_period_to_go() {
    let due = at(-500);
    let world = given(Phase::Resetting).pods(&[RunningPod; 2]);
    let world = world.pod(1, |pod| (pod.terminating, pod.due_to_go) = (true, Some(due)));
    let world = world.settled(99);
    let forced = Action::ForceDeletePod { name: "work-1".into(), uid: "pod-1".into() };
    let early = world.decide(99);
    assert_eq!((early.actions.contains(&forced), early.requeue), (false, Some(at(100))));
    let told = world.decide(100);
    let events: Vec<_> = told.events.iter().map(|event| event.reason).collect();
    assert_eq!(events, ["ForcefulDeletion"], "the pod may still run");
    let deleting = condition::find(&told.status.conditions, condition::DELETING_RESOURCES);
    assert_eq!(deleting.map(|it| it.reason.as_str()), Some("ForcefulDeletion"));
    let world = world.written(&told);
    assert!(world.decide(100).actions.contains(&forced));
    let other = Action::ForceDeletePod { name: "work-0".into(), uid: "pod-0".into() };
    assert!(!world.decide(100).actions.contains(&other));
    let mut left = world.clone();
    left.snapshot.pods.remove(1);
    let after = left.decide(101);
    assert_eq!((after.status, after.events), (left.snapshot.status, vec![]), "nothing is new");
    let held = world.pod(1, |pod| pod.held_by_finalizers = true);
    assert!(!held.decide(100).actions.contains(&forced), "force can do no more");
}

#[test]
fn a_pod_that_is_expected_is_not_force_deleted_while_others_run() {
    for (pods, expected) in [
        (vec![RunningPod, RunningPod, RunningPod], Expected::pods(2)),
        (vec![RunningPod, SucceededPod, RunningPod], Expected::pods(2)),
    ] {
        let world = given(Phase::Running).pods(&pods).object(|object| {
            object.report.expected.insert(0, expected);
        });
        let world = world.pod(0, |pod| (pod.terminating, pod.due_to_go) = (true, Some(at(10))));
        let world = world.answered(FreshRead::Pods);
        let world = world.clone().written(&world.ask(2000));
        let decision = world.ask(2000);
        assert_eq!((decision.next, decision.actions), (Phase::Running, vec![]), "{pods:?}");
    }
}

#[test]
fn a_deleted_one_that_others_keep_releases_its_quota_before_our_finalizer_goes() {
    let mut world = given(Phase::Terminating).gone().kept();
    let conditions = &mut world.snapshot.status.conditions;
    condition::set(conditions, condition::QUOTA_RESERVED, true, "R", "", at(0));
    let released = world.decide(5);
    let is_true = |kind| condition::is_true(&released.status.conditions, kind);
    assert!(!is_true(condition::QUOTA_RESERVED) && !is_true(condition::RESOURCES_DEPLOYED));
    assert!(!is_true(condition::DELETING_RESOURCES));
    assert_eq!(released.actions, []);
    let next = world.written(&released).decide(5);
    assert_eq!((next.status, next.actions), (released.status, vec![Action::RemoveFinalizer]));
}

#[test]
fn the_pods_that_run_on_after_every_component_has_succeeded_are_deleted() {
    let world = given(Phase::Running).pods(&[SucceededPod, RunningPod]).says(Outcome::Succeeded);
    let world = world.pod(1, |pod| pod.created = Some(at(5)));
    let seen = world.ask(20);
    assert_eq!((seen.actions.len(), seen.requeue), (0, Some(at(80))), "its operator may delete it");
    let world = world.written(&seen);
    assert_eq!(world.ask(79).actions, []);
    assert_eq!(world.ask(80).ask, FreshRead::Pods);
    let decision = world.clone().answered(FreshRead::Pods).ask(80);
    let pod = Action::DeletePod { name: "work-1".into(), uid: "pod-1".into() };
    assert_eq!(decision.actions, std::slice::from_ref(&pod));
    let message = "Waiting for Pod/work-1 on node node-1; every component has succeeded";
    assert_eq!(decision.verdict.message, message);
    // the clock of the API server may be ahead, or the owner makes it again
    for (created, second, deleted) in
        [(81, 140, false), (81, 141, true), (140, 200, true), (141, 5000, false)]
    {
        let later = world.clone().pod(1, |pod| pod.created = Some(at(created)));
        let decision = later.answered(FreshRead::Pods).ask(second);
        assert_eq!(decision.actions.contains(&pod), deleted, "{created} {second}");
    }
}

/// KubeRay makes the pods of a cluster again as long as it is there.
#[test]
fn the_pods_of_a_cluster_that_its_ray_job_keeps_stay() {
    for (api_version, kind, deleted) in
        [("ray.io/v1", "RayJob", 0), ("ray.io/v2", "RayJob", 0), ("kubeflow.org/v1", "MPIJob", 1)]
    {
        let mut world = given(Phase::Running).pods(&[SucceededPod, RunningPod]);
        let component = &mut world.snapshot.components[0];
        api_version.clone_into(&mut component.api_version);
        kind.clone_into(&mut component.kind);
        let world = world.says(Outcome::Succeeded).pod(1, |pod| pod.created = Some(at(5)));
        let world = world.clone().written(&world.ask(20)).answered(FreshRead::Pods);
        let decision = world.ask(100);
        assert_eq!((decision.next, decision.actions.len()), (Phase::Running, deleted), "{kind}");
    }
}

#[test]
fn a_success_is_read_from_the_api_server_unless_every_pod_was_seen_to_succeed() {
    for (pods, want) in
        [(vec![SucceededPod; 2], FreshRead::Nothing), (vec![SucceededPod], FreshRead::Pods)]
    {
        let world = given(Phase::Running).pods(&pods).says(Outcome::Succeeded);
        assert_eq!(world.ask(1).ask, want, "{pods:?}");
    }
}

#[test]
fn a_job_that_is_done_counts_also_when_it_is_gone() {
    let done = given(Phase::Running).pods(&TWO).says(Outcome::Succeeded);
    let noted = done.decide(1);
    assert_eq!(noted.next, Phase::Running);
    assert!(condition::is_true(&noted.status.component_status[0].conditions, "Succeeded"));
    let gone = done.written(&noted).presence(Presence::Absent).pods(&[]);
    assert_eq!(gone.decide(2).next, Phase::Succeeded);
}

#[test]
fn pods_that_were_never_seen_to_run_are_ready_once_they_have_succeeded() {
    let done = given(Phase::Running).pods(&[SucceededPod; 2]).says(Outcome::Succeeded);
    assert!(!condition::is_true(&done.snapshot.status.conditions, condition::PODS_READY));
    let decision = done.decide(1);
    assert_eq!(decision.next, Phase::Succeeded);
    assert!(condition::is_true(&decision.status.conditions, condition::PODS_READY));
}

#[test]
fn deletion_wins_over_everything_and_suspension_over_the_rest() {
    for phase in Phase::ALL {
        let world = given(phase).pods(&TWO).failed_job().with_finalizer().suspended(true);
        let want = match phase {
            Phase::Resuming | Phase::Running | Phase::Resetting => Phase::Suspending,
            Phase::Empty => Phase::Suspended,
            other @ (Phase::Suspended
            | Phase::Suspending
            | Phase::Succeeded
            | Phase::Failed
            | Phase::Terminating) => other,
        };
        if phase != Phase::Terminating {
            assert_eq!(world.decide(30).next, want, "{phase:?}");
        }
        assert_eq!(world.deleted().decide(30).next, Phase::Terminating, "{phase:?}");
    }
}

#[test]
fn an_object_that_we_do_not_hold_is_let_go() {
    let world = given(Phase::Suspended).deleted();
    let decision = world.decide(1);
    assert_eq!((decision.next, decision.actions), (Phase::Suspended, vec![]));
}

#[test]
fn a_restart_is_recorded_before_anything_is_deleted() {
    let world = given(Phase::Running).pods(&[FailedPod, FailedPod]).failed_job();
    let decision = world.decide(30);
    assert_eq!(decision.next, Phase::Resetting);
    assert_eq!(decision.actions, []);
    assert_eq!(decision.status.resetting_count, 1);
    let attempt = decision.status.attempts.last().unwrap();
    assert_eq!(attempt.outcome, Some(AttemptOutcome::Failed));
    assert_eq!(attempt.action, Some(AttemptAction::Restart));
    assert_eq!(attempt.failed_at, Some(time(20)));
    assert_eq!(attempt.collateral, Some(1));
    let failure = attempt.failure.as_ref().unwrap();
    assert_eq!(failure.pod.as_deref(), Some("work-0"));
    assert_eq!(failure.exit_code, Some(3));
    assert_eq!(failure.category.as_deref(), Some("application"));
    let events: Vec<_> = decision.events.iter().map(|it| (it.reason, &it.message[..21])).collect();
    assert_eq!(events, [("FailedComponent", "Restarting: Job/work ")], "one event says both");
}

#[test]
fn deletion_is_graceful_then_forced_then_tried_again() {
    let world = given(Phase::Resetting).pods(&[RunningPod]);
    let target = Target { component: 0, uid: "job".into() };
    assert_eq!(world.decide(1).actions, [Action::Delete(target.clone())]);
    let waiting = world.clone().object(|object| object.terminating = true);
    let decision = waiting.decide(9);
    assert_eq!(decision.actions, []);
    assert_eq!(decision.requeue, Some(at(10)));
    let named = waiting.decide(10);
    let deleting =
        condition::find(&named.status.conditions, condition::DELETING_RESOURCES).unwrap();
    assert_eq!(deleting.message, "Waiting for Pod/work-0 on node node-1, Job/work");
    assert_eq!(named.verdict.deadline, Some(at(600)));
    let noted = waiting.clone().decide(600);
    assert_eq!(noted.actions, [], "the condition is written first");
    let forced = waiting.written(&noted).decide(600);
    let pod = Action::ForceDeletePod { name: "work-0".into(), uid: "pod-0".into() };
    assert_eq!(forced.actions, [Action::ForceDelete(target), pod]);
    assert_eq!(forced.requeue, Some(at(605)));
}

#[test]
fn while_pods_are_left_only_the_component_is_read_again() {
    let deleting = || given(Phase::Resetting).presence(Presence::Unseen);
    for (what, world, want) in [
        ("a pod is left", deleting().pods(&[RunningPod]), FreshRead::Missing),
        ("nothing is left, says the cache", deleting(), FreshRead::Gone),
        (
            "the component is gone, a pod is left",
            deleting().pods(&[RunningPod]).presence(Presence::Absent),
            FreshRead::Nothing,
        ),
    ] {
        assert_eq!(world.answered(FreshRead::Nothing).ask(1).ask, want, "{what}");
    }
}

#[test]
fn a_pod_that_delays_success_is_named_while_its_owner_is_unknown() {
    let mut world = given(Phase::Running).pods(&[SucceededPod; 2]).says(Outcome::Succeeded);
    let found = |names: &[&str]| {
        let named = names.iter().map(|name| ((*name).to_owned(), "its owner is gone".to_owned()));
        let (count, named) = (names.len(), named.collect());
        Undetermined { count, live: count, named, ..Undetermined::default() }
    };
    let say = |decision: &Decision| {
        let conditions = &decision.status.conditions;
        let found = condition::find(conditions, condition::UNDETERMINED_PODS).unwrap();
        let pods: String = found.message.split("Pod/").skip(1).map(|it| &it[..1]).collect();
        let kind = condition::UNDETERMINED_PODS;
        (pods, decision.events.iter().filter(|event| event.reason == kind).count())
    };
    let mut many = world.clone();
    world.snapshot.undetermined = found(&["x", "y"]);
    let first = world.decide(10);
    assert_eq!((first.next, say(&first)), (Phase::Running, ("xy".to_owned(), 1)));
    let mut world = world.written(&first);
    world.snapshot.blockers_named_at = Some(at(10));
    for (names, second, want, events) in [
        (&["x", "y"][..], 30, "xy", 0),
        (&["w", "x", "y"], 30, "xy", 0),
        (&["y"], 19, "xy", 0),
        (&["y"], 20, "y", 1),
    ] {
        world.snapshot.undetermined = found(names);
        let decision = world.decide(second);
        assert_eq!(say(&decision), (want.to_owned(), events), "{names:?} {second}");
        let is_due = want == "xy" && names.len() == 1;
        assert!(!is_due || decision.requeue.is_some_and(|requeue| requeue <= at(20)));
    }
    many.snapshot.undetermined = found(&["x", "y", "z"]);
    let all = many.decide(10);
    let mut many = many.written(&all);
    for (named, want, events) in [(["w", "x", "y"], "xyz", 0), (["t", "u", "v"], "tuv", 1)] {
        many.snapshot.undetermined = Undetermined { count: 4, live: 4, ..found(&named) };
        assert_eq!(say(&many.decide(30)), (want.to_owned(), events), "{named:?} of four");
    }
}

/// Rows: which pods are left, seconds after the begin of the deletion, and what is said then.
#[test]
fn the_message_changes_once_every_blocker_that_it_names_is_gone_and_10_seconds_have_passed() {
    let mut begun = given(Phase::Resetting).pods(&[RunningPod; 6]).presence(Presence::Absent);
    begun.snapshot.components[0].pod_sets[0].replicas = Some(6);
    let first = begun.decide(10);
    let say = |decision: &Decision| {
        let conditions = &decision.status.conditions;
        condition::find(conditions, condition::DELETING_RESOURCES).unwrap().message.clone()
    };
    let (one_to_three, four_to_six) = (
        "Waiting for Pod/work-0 on node node-1, Pod/work-1 on node node-1, Pod/work-2 on node node-1 and 3 more",
        "Waiting for Pod/work-3 on node node-1, Pod/work-4 on node node-1, Pod/work-5 on node node-1",
    );
    assert_eq!(say(&first), one_to_three);
    let mut world = begun.written(&first);
    world.snapshot.blockers_named_at = Some(at(10));
    let pods = world.snapshot.pods.clone();
    for (left, second, message, events) in
        [(2..6, 30, one_to_three, 0), (3..6, 12, one_to_three, 0), (3..6, 20, four_to_six, 1)]
    {
        world.snapshot.pods = pods[left].to_vec();
        let decision = world.decide(second);
        assert_eq!((say(&decision).as_str(), decision.events.len()), (message, events), "{second}");
        if second == 12 {
            assert_eq!(decision.requeue, Some(at(20)), "it is not forgotten");
        }
    }
}

#[test]
fn what_makes_pods_after_its_component_is_gone_is_deleted_once_force_is_due() {
    let orphan = Orphan {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "work-5f".into(),
        uid: "rs".into(),
    };
    let gone = given(Phase::Resetting).pods(&[RunningPod]).presence(Presence::Absent);
    let mut world = gone.clone().written(&gone.decide(10));
    assert_eq!(world.decide(599).actions, [], "garbage collection may be slow");
    assert_eq!(world.decide(600).ask, FreshRead::Gone, "is it? a list shows");
    world.snapshot.answered = FreshRead::Gone;
    world.snapshot.orphans = vec![orphan.clone()];
    let noted = world.decide(600);
    assert_eq!(noted.actions, [], "the condition is written first");
    world = world.written(&noted);
    world.snapshot.answered = FreshRead::Gone;
    world.snapshot.orphans = vec![orphan.clone()];
    let pod = Action::ForceDeletePod { name: "work-0".into(), uid: "pod-0".into() };
    let delete = Action::DeleteOrphan(orphan);
    assert_eq!(world.decide(600).actions, [pod, delete.clone()]);
    // a pod that it has just made is no reason to go on at its pace
    world.snapshot.pods[0].created = Some(at(598));
    assert_eq!(world.decide(600).actions, [delete]);
    assert_eq!(world.decide(603).actions.len(), 2);
}

#[test]
fn suspending_a_reset_does_not_restart_the_deletion() {
    let world = given(Phase::Resetting).pods(&TWO).suspended(true);
    let decision = world.decide(300);
    assert_eq!(decision.next, Phase::Suspending);
    assert_eq!(decision.status.since.unwrap().deleting, Some(time(0)));
}

#[test]
fn a_failed_appwrapper_is_kept_for_its_grace_once() {
    let world = given(Phase::Running).pods(&TWO).failed_job().retries(3).limits(|limits| {
        limits.deletion_on_failure_grace = Period::from_secs(100);
    });
    let decision = world.decide(30);
    assert_eq!(decision.next, Phase::Failed);
    let deleting = condition::find(&decision.status.conditions, condition::DELETING_RESOURCES);
    let (grace, name) = (Period::from_secs(100), "deletionOnFailureGracePeriod");
    let text = format!("Deletion begins {grace} after the AppWrapper failed ({name})");
    assert_eq!(deleting.map(|deleting| &deleting.message), Some(&text));
    let failed = world.written(&decision);
    assert_eq!(failed.decide(129).verdict.deadline, Some(at(130)));
    assert_eq!(failed.clone().suspended(true).decide(31).verdict.action, VerdictAction::Delete);
    let begun = failed.decide(130);
    assert_eq!(begun.status.since.as_ref().unwrap().deleting, Some(time(130)));
    let deleting = failed.written(&begun);
    assert_eq!(deleting.decide(130).actions.len(), 1);
    let gone = deleting.gone().decide(140);
    assert!(!condition::is_true(&gone.status.conditions, condition::QUOTA_RESERVED));
    assert!(!condition::is_true(&gone.status.conditions, condition::RESOURCES_DEPLOYED));
    assert_eq!(gone.next, Phase::Failed);
}

#[test]
fn the_stages_of_the_policy() {
    let failed = || given(Phase::Running).pods(&[FailedPod, RunningPod]);
    let codes = |codes: &[i32]| codes.iter().copied().collect();
    let terminal = |list: &[i32]| {
        let list = codes(list);
        failed().limits(|limits| limits.terminal_exit_codes = list)
    };
    let retryable = |list: &[i32]| {
        let list = codes(list);
        failed().limits(|limits| limits.retryable_exit_codes = list)
    };
    let kill = || failed().config(|config| config.retry_policy.global_max_retries = 0);
    let global = |most, used| {
        failed().config(|config| config.retry_policy.global_max_retries = most).retries(used)
    };
    for (what, world, second, next, source) in vec![
        ("terminal code: at once", terminal(&[1, 3]), 20, Phase::Failed, "exitCodeAnnotation"),
        ("another code", terminal(&[1]), 80, Phase::Resetting, "retryLimit"),
        ("retryable code", retryable(&[3]), 80, Phase::Resetting, "retryLimit"),
        ("code that is not retryable", retryable(&[4]), 20, Phase::Failed, "exitCodeAnnotation"),
        ("kill switch: after the grace", kill(), 80, Phase::Failed, "killSwitch"),
        ("limit reached", failed().retries(3), 80, Phase::Failed, "retryLimit"),
        ("limit not reached", failed().retries(2), 80, Phase::Resetting, "retryLimit"),
        ("global limit reached", global(2, 2), 80, Phase::Failed, "retryLimit"),
        ("global limit above", global(9, 3), 80, Phase::Failed, "retryLimit"),
    ] {
        let decision = world.decide(second);
        assert_eq!(decision.next, next, "{what}");
        let rule = decision.verdict.rule.expect("a rule is named");
        assert_eq!(rule.source.to_string(), source, "{what}");
    }
    assert_eq!(kill().decide(79).next, Phase::Running, "the kill switch is not said by a rule");
    let mut own = failed().retries(3);
    let mut policies = crate::policies::Policies::default();
    policies.max_restarts = Some(4);
    own.snapshot.policies = std::sync::Arc::new(policies);
    assert_eq!(own.decide(80).next, Phase::Resetting, "maxRestarts comes before retryLimit");
}

#[test]
fn an_evacuation_is_not_counted_and_pauses_longer_each_time() {
    let node = crate::snapshot::Node { no_execute: ["gpu".to_owned()].into(), lost: None };
    let mut world = given(Phase::Running).pods(&[RunningPod, Pending]).pod(0, |pod| {
        pod.resources = Arc::new(["gpu".to_owned()].into());
    });
    world.snapshot.nodes.insert("node-1".into(), node);
    assert_eq!(world.ask(30).ask, FreshRead::Pods, "caches of pods and nodes may lag");
    let mut seconds = vec![];
    for _ in 0..5 {
        let decision = world.decide(30);
        assert_eq!(decision.verdict.action, Handle(AttemptAction::RestartIgnoringLimit));
        assert_eq!(decision.status.resetting_count, 0);
        seconds.push(decision.verdict.retry_after_seconds.unwrap());
        let mut attempts = decision.status.attempts.clone();
        attempts.push(crate::api::Attempt {
            attempt: attempts.last().unwrap().attempt + 1,
            ..Default::default()
        });
        let number = attempts.last().unwrap().attempt;
        world.snapshot.status.attempts = attempts;
        world = world.object(|object| object.attempt = Some(number));
        world.snapshot.pods.iter_mut().for_each(|pod| pod.attempt = Some(number));
    }
    assert_eq!(seconds, [90, 180, 360, 600, 600]);
    let killed = world.config(|config| config.retry_policy.global_max_retries = 0);
    assert_eq!(killed.decide(30).next, Phase::Failed);
}

#[test]
fn an_older_failure_that_was_made_up_for_does_not_age_a_new_one() {
    let pods = [FailedPod, RunningPod, RunningPod];
    let world = given(Phase::Running).pods(&pods);
    let world = world.clone().written(&world.decide(30));
    assert!(condition::is_true(&world.snapshot.status.conditions, condition::PODS_READY));
    let again = world.pod(1, |pod| {
        let at_1000 = super::given::pod(1, FailedPod);
        *pod = at_1000;
        for container in &mut pod.containers {
            if let crate::snapshot::ContainerState::Terminated(end) = &mut container.state {
                end.finished_at = Some(at(1000));
            }
        }
    });
    let decision = again.decide(1001);
    assert_eq!(decision.next, Phase::Running);
    assert_eq!(decision.verdict.deadline, Some(at(1060)));
    let decision = again.clone().written(&decision).decide(1059);
    assert_eq!(decision.verdict.deadline, Some(at(1060)), "the anchor is kept");
    assert_eq!(again.written(&decision).decide(1060).next, Phase::Resetting);
}
