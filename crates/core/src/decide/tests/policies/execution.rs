//! `spec.executionPolicy`, KEP-672: components are created step by step.

use super::build::{check, failed, in_phase, ready, running, said};
use crate::api::{Phase, condition};
use crate::decide::VerdictAction;
use crate::decide::tests::given::{World, at};
use crate::plan::{Action, FreshRead, Target};
use crate::snapshot::{Expected, Object, Owner, PodPhase, Presence};

const IN_ORDER: &str = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                        {targetComponents: [init], waitForComponentsStatus: Succeeded}, \
                        {targetComponents: [launcher], waitForComponentsStatus: Ready}]}";
const COMPONENTS: [&str; 4] = ["Job/worker:2", "Job/init:1", "Job/launcher:1", "Service/svc:0"];
const WORKER: usize = 0;
const INIT: usize = 1;
const LAUNCHER: usize = 2;
const SERVICE: usize = 3;
const NONE: [usize; 0] = [];

/// In this phase, with the objects of these components.
fn world(phase: Phase, there: &[usize]) -> World {
    let mut world = in_phase(phase, &COMPONENTS).spec(IN_ORDER);
    for index in 0..COMPONENTS.len() {
        let status = &mut world.snapshot.status.component_status[index];
        status.uid = None;
        if !there.contains(&index) {
            world.snapshot.components[index].presence = Presence::Absent;
        }
    }
    world
}

/// The first step has begun.
pub fn started() -> World {
    let resuming = world(Phase::Resuming, &[INIT, SERVICE]).with_finalizer();
    let decision = resuming.decide(1);
    assert_eq!(decision.next, Phase::Running);
    resuming.written(&decision)
}

/// The object of a component appears.
pub fn created(world: World, index: usize) -> World {
    let name = world.snapshot.components[index].name.clone();
    let object = Object { uid: format!("uid-{name}"), attempt: Some(0), ..Object::default() };
    world.component(index, |component| component.presence = Presence::Present(object))
}

fn creates(world: &World, second: i64) -> Vec<usize> {
    let actions = world.decide(second).actions;
    let create = actions.iter().filter_map(|action| match action {
        Action::Create(index) => Some(*index),
        _ => None,
    });
    create.collect()
}

/// The second step has begun, and its component is there.
pub fn second_step() -> World {
    let world = started().with(ready(INIT)).settled(10);
    let done = world.succeeds(INIT).pod(0, |pod| pod.phase = PodPhase::Succeeded).settled(20);
    created(done, LAUNCHER).settled(21)
}

#[test]
fn resuming_creates_the_first_step_only() {
    let resuming = world(Phase::Resuming, &[]).with_finalizer();
    let decision = resuming.decide(1);
    let first = [SERVICE, INIT];
    assert_eq!(decision.actions, first.map(Action::Create), "what has no pods comes first");
    assert_eq!(decision.verdict.create, first);
    let half = world(Phase::Resuming, &[INIT]).with_finalizer();
    assert_eq!(creates(&half, 1), [SERVICE]);
    let deployed = world(Phase::Resuming, &[INIT, SERVICE]).with_finalizer().decide(1);
    assert_eq!(deployed.next, Phase::Running, "the current step exists");
}

#[test]
fn any_order_creates_everything_at_once() {
    let any = IN_ORDER.replace("InOrder", "AnyOrder");
    let resuming = world(Phase::Resuming, &[]).with_finalizer().spec(&any);
    assert_eq!(creates(&resuming, 1), [0, 1, 2, 3]);
    let none = world(Phase::Resuming, &[]).with_finalizer().spec("{}");
    assert_eq!(creates(&none, 1), [0, 1, 2, 3]);
}

#[test]
fn an_object_of_an_earlier_attempt_begins_no_step() {
    let done = || {
        let world = started().with(ready(INIT)).settled(10);
        world.succeeds(INIT).pod(0, |pod| pod.phase = PodPhase::Succeeded)
    };
    let shown = |attempt: i32| {
        created(done(), WORKER).object_of(WORKER, |object| object.attempt = Some(attempt))
    };
    let first = done().decide(20);
    assert_eq!(first.actions, [], "what is begun is written first");
    assert_eq!(shown(7).decide(20).ask, FreshRead::Missing, "a watch may show the past");
    let read = |world: World| world.answered(FreshRead::Pods);
    assert_eq!(read(shown(7)).decide(20).status, first.status);
    assert_ne!(shown(0).decide(20).status, first.status);
    assert_eq!(creates(&read(shown(7)).settled(20), 20), [LAUNCHER]);
}

#[test]
fn an_object_of_an_earlier_attempt_is_deleted_before_its_component_is_to_come() {
    let shown = |world: World, index: usize| {
        created(world, index).object_of(index, |object| object.attempt = Some(7))
    };
    let deletes = |world: &World, second: i64| {
        let actions = world.clone().answered(FreshRead::Pods).decide(second).actions;
        let deleted = actions.into_iter().filter_map(|action| match action {
            Action::Delete(Target { component, uid }) => Some((component, uid)),
            _ => None,
        });
        deleted.collect::<Vec<_>>()
    };
    let going = |world: World, index: usize| world.object_of(index, |it| it.terminating = true);
    let first = || started().with(ready(INIT)).settled(10);
    let later = shown(first(), WORKER);
    assert_eq!(later.decide(20).ask, FreshRead::Missing, "a watch may show the past");
    assert_eq!(deletes(&later, 20), [(WORKER, "uid-worker".to_owned())], "its step has not begun");
    let again = later.clone().answered(FreshRead::Pods).decide(20);
    assert_eq!((said(&again).as_str(), again.requeue), ("Delete", Some(at(25))));
    assert_eq!(
        (going(later.clone(), WORKER).decide(20).ask, deletes(&going(later, WORKER), 20)),
        (FreshRead::Nothing, vec![]),
        "it goes"
    );
    let done = first().succeeds(INIT).pod(0, |pod| pod.phase = PodPhase::Succeeded).settled(20);
    let coming = shown(done, LAUNCHER).answered(FreshRead::Pods).settled(21);
    assert_eq!(deletes(&coming, 22), [(LAUNCHER, "uid-launcher".to_owned())], "it is to come");
    assert_eq!(coming.says_at(22), "Wait 80");
    assert_eq!(deletes(&shown(first(), INIT), 20), [], "what is up is missing instead");
    let strange = shown(first(), WORKER)
        .object_of(WORKER, |object| object.owner = Owner::Stranger("X/y".into()));
    assert_eq!(deletes(&strange, 20), [], "it is not ours");
}

#[test]
fn a_step_that_waits_for_success_holds_the_next_back_until_then() {
    let ready_only = started().with(ready(INIT)).settled(10);
    assert_eq!(creates(&ready_only, 10), NONE, "Ready is not enough");
    assert_eq!(said(&ready_only.decide(10)), "None");
    let done = ready_only.succeeds(INIT).pod(0, |pod| pod.phase = PodPhase::Succeeded);
    let decision = done.decide(20);
    assert_eq!(decision.verdict.action, VerdictAction::Deploy);
    assert_eq!(decision.verdict.create, [LAUNCHER]);
    assert_eq!((decision.next, decision.actions.len()), (Phase::Running, 0), "written first");
    assert_eq!(creates(&done.written(&decision).settled(20), 20), [LAUNCHER]);
}

#[test]
fn a_step_that_waits_for_ready_holds_the_next_back_until_every_pod_is_ready() {
    let world = second_step();
    assert_eq!(creates(&world, 30), NONE);
    let mut runs = ready(LAUNCHER);
    runs.conditions.clear();
    let running = world.clone().with(runs).settled(30);
    assert_eq!(creates(&running, 30), NONE, "it runs, and is not Ready");
    let ready_now = world.with(ready(LAUNCHER)).settled(40);
    assert_eq!(creates(&ready_now, 40), [WORKER], "what has pods and no rule names comes last");
}

/// In Running, with the objects of these components, of which the step that waits for this status is.
fn step(names: &str, status: &str, there: &[usize]) -> World {
    let order = format!(
        "executionPolicy: {{executionPolicyOrder: InOrder, rules: [\
         {{targetComponents: [{names}], waitForComponentsStatus: {status}}}]}}"
    );
    let there = [there, &[SERVICE]].concat();
    let resuming = world(Phase::Resuming, &there).with_finalizer().spec(&order).settled(1);
    assert_eq!(resuming.snapshot.status.phase, Phase::Running);
    resuming
}

#[test]
fn a_step_is_ready_when_every_expected_pod_is_ready_or_has_succeeded() {
    let one = step("worker", "Ready", &[WORKER]).with(ready(WORKER)).settled(10);
    assert_eq!(creates(&one, 10), NONE, "one of two");
    let two = one.with(super::build::pod_of(WORKER, PodPhase::Running)).settled(20);
    assert_eq!(creates(&two, 20), NONE, "the other one runs, and is not Ready");
    let done = two.pod(1, |pod| pod.phase = PodPhase::Succeeded).settled(30);
    assert_eq!(creates(&done, 30), [INIT, LAUNCHER]);
}

#[test]
fn a_step_is_ready_only_when_its_component_has_started_every_part() {
    // the only part waits for others of its component
    let waits = || {
        step("worker", "Ready", &[WORKER]).object_of(WORKER, |object| {
            object.report.expected.insert(0, Expected::default());
            object.report.unstarted.insert(0);
        })
    };
    let begun = |expected: Expected| {
        waits().object_of(WORKER, |object| {
            object.report.unstarted.clear();
            object.report.expected.insert(0, expected);
        })
    };
    let done = Expected { succeeded: 2, ..Expected::pods(2) };
    let cases = [
        ("it has not started", waits(), &NONE[..]),
        ("it has started", begun(Expected::pods(2)), &NONE),
        ("… and its pods are Ready", begun(Expected::pods(2)).ready(WORKER, 2), &[INIT, LAUNCHER]),
        ("… and has succeeded", begun(done), &[INIT, LAUNCHER]),
        ("the component has succeeded", waits().succeeds(WORKER), &[INIT, LAUNCHER]),
    ];
    for (what, world, want) in cases {
        assert_eq!(creates(&world.settled(10), 10), want, "{what}");
    }
    let decision = waits().settled(10).decide(1_000);
    assert_eq!(decision.verdict.action, VerdictAction::None, "no grace period runs for it");
    let text = "step 2 of 2 waits for Job/worker to be ready";
    assert_eq!(decision.verdict.message, text);
}

#[test]
fn a_step_is_ready_when_its_component_says_so_and_all_pods_run() {
    let serves = |world: World| world.object_of(WORKER, |object| object.report.serves = true);
    let pod = || super::build::pod_of(WORKER, PodPhase::Running);
    let one = serves(step("worker", "Ready", &[WORKER]).with(pod())).settled(10);
    assert_eq!(creates(&one, 10), NONE, "one of two runs");
    let both = step("worker", "Ready", &[WORKER]).with(pod()).with(pod());
    assert_eq!(creates(&both.clone().settled(10), 10), NONE, "it does not say so");
    assert_eq!(creates(&serves(both).settled(10), 10), [INIT, LAUNCHER]);
}

#[test]
fn a_step_of_several_waits_for_all_of_them() {
    let both = step("launcher, init", "Succeeded", &[INIT, LAUNCHER]);
    let both = both.with(ready(INIT)).with(ready(LAUNCHER)).settled(10);
    let one = both.succeeds(LAUNCHER).pod(1, |pod| pod.phase = PodPhase::Succeeded).settled(20);
    assert_eq!(creates(&one, 20), NONE);
    let all = one.succeeds(INIT).pod(0, |pod| pod.phase = PodPhase::Succeeded).settled(30);
    assert_eq!(creates(&all, 30), [WORKER]);
}

#[test]
fn the_quota_is_that_of_all_steps_from_the_beginning_to_the_end() {
    let born = in_phase(Phase::Empty, &COMPONENTS).spec(IN_ORDER).suspended(true).decide(1);
    assert_eq!(born.next, Phase::Suspended);
    let sets = born.status.component_status.iter().flat_map(|status| &status.pod_sets);
    let counts: Vec<Option<i32>> = sets.map(|set| set.replicas).collect();
    assert_eq!(counts, [Some(2), Some(1), Some(1)], "what Kueue is asked for");
    for world in [started(), second_step()] {
        let conditions = &world.snapshot.status.conditions;
        assert!(condition::is_true(conditions, condition::QUOTA_RESERVED));
    }
}

#[test]
fn a_pod_that_succeeded_is_as_good_as_ready() {
    let mut pod = ready(LAUNCHER);
    pod.phase = PodPhase::Succeeded;
    pod.conditions.clear();
    let world = second_step().with(pod).settled(40);
    assert_eq!(creates(&world, 40), [WORKER]);
}

#[test]
fn a_component_without_pods_has_reached_its_step_when_it_exists() {
    for status in ["Ready", "Succeeded"] {
        let order = format!(
            "executionPolicy: {{executionPolicyOrder: InOrder, rules: [\
             {{targetComponents: [svc], waitForComponentsStatus: {status}}}]}}"
        );
        let first = world(Phase::Resuming, &[]).with_finalizer().spec(&order);
        assert_eq!(creates(&first, 1), [SERVICE]);
        let deployed = created(first.clone(), SERVICE).decide(2);
        let is_ready = condition::is_true(&deployed.status.conditions, condition::PODS_READY);
        assert_eq!((deployed.next, is_ready), (Phase::Running, false), "no pod exists yet");
        let there = created(first, SERVICE).settled(2);
        assert_eq!(there.snapshot.status.phase, Phase::Running);
        assert_eq!(creates(&there, 2), [0, 1, 2], "{status}");
    }
}

#[test]
fn health_and_pods_ready_are_judged_over_the_steps_that_were_started() {
    let is_ready = |world: &World| {
        condition::is_true(&world.snapshot.status.conditions, condition::PODS_READY)
    };
    let first = started().with(ready(INIT)).settled(10);
    assert!(is_ready(&first), "the pods of later steps are not expected yet");
    check(vec![
        ("no later component is missing", first.clone(), 4000, "None"),
        (
            "a missing one of the first step is",
            first.clone().component(INIT, |component| {
                component.presence = Presence::Absent;
            }),
            20,
            "Restart retryLimit 0 of 3",
        ),
        (
            "a failed pod of the first step",
            started().with(failed(INIT)),
            80,
            "Restart retryLimit 0 of 3",
        ),
        ("too few pods of the first step", started(), 119, "Wait 120"),
    ]);
    let second = second_step();
    assert!(!is_ready(&second), "the launcher's pod is expected now");
    let ready_now = second.with(ready(LAUNCHER));
    let decision = ready_now.decide(30);
    assert!(is_ready(&ready_now.written(&decision)), "before the last step begins");
}

#[test]
fn it_succeeds_only_when_every_step_was_started() {
    let succeeded = |index: usize| crate::snapshot::Pod {
        phase: PodPhase::Succeeded,
        ..super::build::pod_of(index, PodPhase::Succeeded)
    };
    let first = started().with(succeeded(INIT)).succeeds(INIT);
    assert_eq!(first.decide(10).next, Phase::Running);
    let second = second_step().with(succeeded(LAUNCHER)).succeeds(LAUNCHER);
    let second = second.settled(30);
    assert_eq!(second.snapshot.status.phase, Phase::Running);
    let third = created(second, WORKER).settled(31);
    assert_eq!(third.snapshot.status.phase, Phase::Running);
    let done = third.with(succeeded(WORKER)).with(succeeded(WORKER)).succeeds(WORKER);
    assert_eq!(done.decide(40).next, Phase::Succeeded);
}

#[test]
fn a_component_that_succeeded_is_not_missed_in_a_later_step() {
    let mut world = second_step().component(INIT, |component| {
        component.presence = Presence::Absent;
    });
    world.snapshot.pods.clear();
    assert_eq!(world.says_at(30), "Wait 141", "the launcher's pod alone is missing");
    let on = world.with(ready(LAUNCHER)).settled(40);
    assert_eq!(creates(&on, 40), [WORKER]);
}

#[test]
fn a_restart_and_a_suspension_begin_the_sequence_anew() {
    let broken = second_step().with(failed(LAUNCHER).at(30)).fails(LAUNCHER, "R", "", 30);
    let decision = broken.decide(31);
    assert_eq!(decision.next, Phase::Resetting);
    let gone = broken.clone().written(&decision).all_gone().settled(40);
    let resumed = gone.settled(1000);
    assert_eq!(resumed.snapshot.status.phase, Phase::Resuming);
    assert_eq!(creates(&resumed, 1000), [SERVICE, INIT], "also where it had succeeded before");
    let suspended = second_step().suspended(true);
    let decision = suspended.decide(31);
    let gone = suspended.written(&decision).all_gone().settled(40);
    assert_eq!(gone.snapshot.status.phase, Phase::Suspended);
    let resumed = gone.suspended(false).settled(50);
    assert_eq!(resumed.snapshot.status.phase, Phase::Resuming);
    assert_eq!(creates(&resumed, 50), [SERVICE, INIT]);
}

#[test]
fn a_teardown_takes_every_step_that_was_started() {
    let broken = second_step().with(failed(LAUNCHER).at(30)).fails(LAUNCHER, "R", "", 30);
    let decision = broken.decide(31);
    assert_eq!(decision.verdict.delete, [INIT, LAUNCHER, SERVICE]);
}

#[test]
fn without_rules_or_with_one_step_there_is_no_order() {
    let rules = |rules: &str| {
        let text = format!("executionPolicy: {{executionPolicyOrder: InOrder, rules: {rules}}}");
        world(Phase::Resuming, &[]).with_finalizer().spec(&text)
    };
    assert_eq!(creates(&rules("[]"), 1), [0, 1, 2, 3]);
    let all = "[{targetComponents: [worker, init, launcher, svc], waitForComponentsStatus: Ready}]";
    assert_eq!(creates(&rules(all), 1), [3, 0, 1, 2], "in one step, what has no pods first");
}

#[test]
fn nothing_of_a_later_step_is_created_while_something_is_wrong() {
    let world = running(&["Job/a:1", "Job/b:1"]).spec(
        "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
         {targetComponents: [a], waitForComponentsStatus: Ready}]}",
    );
    let mut world = world.component(1, |component| component.presence = Presence::Absent);
    for status in &mut world.snapshot.status.component_status {
        status.uid = None;
    }
    let failing = world.clone().with(failed(0));
    assert_eq!((said(&failing.decide(30)), creates(&failing, 30)), ("Wait 80".into(), vec![]));
    let mended = world.with(failed(0)).with(ready(0)).settled(30);
    assert_eq!(creates(&mended, 30), [1]);
}

/// Where a version that created what has no pods in the last step began it.
#[test]
fn what_has_no_pods_is_created_late_where_its_step_has_passed() {
    let order = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                 {targetComponents: [a], waitForComponentsStatus: Succeeded}]}";
    let mut world = running(&["Job/a:1", "Service/svc:0"]).spec(order);
    world.snapshot.status.component_status[1].uid = None;
    let world = world.component(1, |component| component.presence = Presence::Absent);
    let pod = super::build::pod_of(0, PodPhase::Succeeded);
    let done = world.with(pod).succeeds(0).settled(30);
    assert_eq!(done.snapshot.status.phase, Phase::Running);
    assert_eq!(creates(&done, 30), [1]);
    let created = created(done, 1).settled(31);
    assert_eq!(created.snapshot.status.phase, Phase::Succeeded);
}

/// The first step alone, whose pod is ready since second 10; and all steps, the pods of which are ready since second 50.
fn first_and_all(policy: &str) -> (World, World) {
    let spec = |world: World| world.spec(&format!("{IN_ORDER}\n{policy}")).retries(2);
    let third = second_step().with(ready(LAUNCHER)).settled(40);
    let all = created(third, WORKER).with(ready(WORKER)).with(ready(WORKER));
    (spec(started().with(ready(INIT)).settled(10)), spec(all.settled(50)))
}

#[test]
fn restarts_are_given_back_once_the_pods_of_all_steps_are_ready() {
    let (first, all) = first_and_all("failurePolicy: {refill: {after: 10m}}");
    let left = |world: &World, second| world.decide(second).status.budget.map(|it| it.used);
    assert_eq!((left(&first, 9000), first.decide(9000).requeue), (None, None));
    assert_eq!((left(&all, 649), left(&all, 650)), (None, Some(0)));
}

#[test]
fn an_attempt_is_ready_once_the_pods_of_all_steps_are() {
    let (first, all) = first_and_all("failurePolicy: {stopWhen: {attemptsWithoutProgress: 1}}");
    let ready_at = |world: &World| {
        let last = world.snapshot.status.attempts.last().expect("an attempt runs");
        last.ready_at.as_ref().map(|time| time.0)
    };
    assert_eq!(ready_at(&first), None);
    assert_eq!(ready_at(&all), Some(crate::decide::tests::given::at(50)));
    let fails = |world: World, index: usize| {
        let own = world.snapshot.pods.iter().position(|pod| pod.component == Some(index));
        let end = failed(index).at(1000);
        let world = world.pod(own.expect("it has a pod"), |pod| {
            (pod.phase, pod.containers) = (end.phase, end.containers);
        });
        world.fails(index, "BackoffLimitExceeded", "", 1000)
    };
    check(vec![
        ("in the first step", fails(first, INIT), 1000, "Fail stopWhen"),
        ("after the last one", fails(all, WORKER), 1000, "Restart retryLimit 2 of 3"),
    ]);
}
