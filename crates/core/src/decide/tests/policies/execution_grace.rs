//! Creation of a later step, and its grace periods.

use super::build::{check, failed, in_phase, ready, running, said};
use super::execution::{created, second_step, started};
use crate::api::{Phase, condition};
use crate::decide::tests::given::{World, at};
use crate::plan::{Action, FreshRead};
use crate::snapshot::{CreationFailure, Expected, Object, Owner, Pod, PodPhase, Presence};
use crate::tuning::Period;

const INIT: usize = 1;
const LAUNCHER: usize = 2;

/// The launcher is to be created since second 1000.
fn coming() -> World {
    let world = started().with(ready(INIT)).settled(10);
    let world = world.succeeds(INIT).pod(0, |pod| pod.phase = PodPhase::Succeeded);
    let world = world.settled(1000);
    assert_eq!(world.decide(1000).actions, [Action::Create(LAUNCHER)]);
    world
}

fn failing(fatal: bool) -> World {
    coming().component(LAUNCHER, |component| {
        component.creation = Some(CreationFailure { fatal, message: "no".into() });
    })
}

fn taken(object: Object) -> World {
    coming().component(LAUNCHER, |component| component.presence = Presence::Present(object))
}

#[test]
fn a_creation_in_a_later_step_that_fails_for_good_fails_the_app_wrapper() {
    let no_kind = coming().component(LAUNCHER, |component| component.presence = Presence::NoKind);
    let stranger = Object { owner: Owner::Stranger("X/y".into()), ..Object::default() };
    for world in [failing(true), no_kind, taken(stranger)] {
        let decision = world.answered(FreshRead::Missing).decide(1001);
        assert_eq!((decision.next, said(&decision).as_str()), (Phase::Failed, "Fail"));
        assert_eq!(decision.verdict.reason.as_deref(), Some("CreateFailed"));
    }
}

#[test]
fn a_creation_that_keeps_failing_is_tried_for_the_admission_grace_period() {
    let trying = failing(false);
    let decision = trying.settled(1001).decide(1002);
    assert_eq!(decision.actions, [Action::Create(LAUNCHER)], "tried again");
    check(vec![
        ("within grace", failing(false), 1059, "Deploy"),
        ("grace over, a retry is left", failing(false), 1060, "Restart retryLimit 0 of 3"),
        ("grace over, none is left", failing(false).retries(3), 1060, "Fail retryLimit 3 of 3"),
    ]);
}

/// A process that has just begun has tried nothing yet.
#[test]
fn a_refused_creation_ends_however_often_the_process_begins_anew() {
    let is_told =
        |world: &World| condition::is_true(&world.snapshot.status.conditions, condition::UNHEALTHY);
    let refused = failing(false).settled(1001);
    let begun = refused.clone().component(LAUNCHER, |component| component.creation = None);
    let first = begun.decide(1050);
    assert_eq!(first.actions, [Action::Create(LAUNCHER)]);
    assert_eq!(first.status, begun.snapshot.status, "its time does not begin anew");
    let again = refused.component(LAUNCHER, |component| component.failing_since = Some(at(1051)));
    check(vec![
        ("it is refused again", again.clone(), 1060, "Deploy"),
        ("… and its time is over", again, 1061, "Restart retryLimit 0 of 3"),
    ]);
    let done = created(begun.clone(), LAUNCHER).with(ready(LAUNCHER)).settled(1052);
    assert_eq!((is_told(&begun), is_told(&done)), (true, false), "it was created");
    let no = || Some(CreationFailure { fatal: false, message: "no".into() });
    let refused = first_of(&["Job/a:1", "Job/b:1"]).with(ready(0)).settled(1000);
    let refused = refused.component(1, |b| b.creation = no()).settled(1001);
    let is_ready = |world: World, ready: &str, second: i64| {
        world.pod(0, |pod| pod.conditions[0].status = ready.into()).settled(second)
    };
    for (held, free) in [(1050, 1055), (1060, 1060)] {
        let begun = refused.clone().component(1, |b| b.creation = None);
        let held = is_ready(begun, "False", held);
        assert!(is_told(&held), "it is still known as refused");
        let again = is_ready(held, "True", free).component(1, |b| {
            (b.creation, b.failing_since) = (no(), Some(at(free)));
        });
        check(vec![
            ("an earlier step held it", again.clone(), 1060, "Deploy"),
            ("… and its time is over", again, 1061, "Restart retryLimit 0 of 3"),
        ]);
    }
}

#[test]
fn what_is_being_deleted_is_waited_for_and_an_earlier_owner_too() {
    let stranger = Owner::Stranger("X/y".into());
    let terminating = Object { owner: stranger, terminating: true, ..Object::default() };
    let former = Object { owner: Owner::Former, ..Object::default() };
    for object in [terminating, former] {
        let world = taken(object).settled(1001);
        assert_eq!(world.decide(1059).next, Phase::Running);
        assert_eq!(world.says_at(1060), "Restart retryLimit 0 of 3");
        let again = world.decide(1002);
        assert_eq!(again.status, world.snapshot.status, "nothing is written again and again");
        assert!(again.events.is_empty(), "and no event is made again: {:?}", again.events);
    }
}

#[test]
fn what_was_taken_away_comes_back_when_its_pods_are_gone() {
    let pod = super::build::pod_of(LAUNCHER, PodPhase::Running);
    let world = coming().with(Pod { terminating: true, ..pod });
    let decision = world.decide(1001);
    assert_eq!((decision.next, decision.actions), (Phase::Running, vec![]));
    let world = world.settled(1001);
    assert_eq!(world.says_at(1059), "Wait 1060");
    assert_eq!(world.ask(1060).ask, FreshRead::Pods, "the cache may still show a pod that is gone");
    assert_eq!(world.says_at(1060), "Restart retryLimit 0 of 3");
    let mut gone = world;
    gone.snapshot.pods.retain(|pod| pod.component != Some(LAUNCHER));
    assert_eq!(gone.settled(1002).decide(1003).actions, [Action::Create(LAUNCHER)]);
}

#[test]
fn grace_periods_of_a_later_step_run_from_its_own_beginning() {
    let arrived = created(coming(), LAUNCHER).settled(1010);
    check(vec![
        ("no pod: admission, then failure grace", arrived.clone(), 1129, "Wait 1130"),
        ("… over", arrived.clone(), 1130, "Restart retryLimit 0 of 3"),
        (
            "a pod that does not run: warm-up, then failure grace",
            arrived.with(super::build::pod_of(LAUNCHER, PodPhase::Pending)),
            1129,
            "Wait 1370",
        ),
    ]);
}

#[test]
fn what_went_before_does_not_age_a_later_step() {
    let world = second_step().with(ready(LAUNCHER)).settled(5000);
    let world = created(created(world, 0), 3).settled(9000);
    assert_eq!(world.says_at(9001), "Wait 9120");
}

/// The first of these Jobs, `a`, is there, and the others wait until it is Ready.
fn first_of(components: &[&str]) -> World {
    let order = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                 {targetComponents: [a], waitForComponentsStatus: Ready}]}";
    let mut world = running(components).spec(order);
    for index in 1..components.len() {
        world.snapshot.status.component_status[index].uid = None;
        world.snapshot.components[index].presence = Presence::Absent;
    }
    world
}

/// `b` of the second step is to be created since second 1000; `c` of the same step is as this pod.
fn beside(change: impl FnOnce(&mut Pod)) -> World {
    let coming = first_of(&["Job/a:1", "Job/b:1", "Job/c:1"]).with(ready(0)).settled(1000);
    assert_eq!(coming.decide(1000).actions, [Action::Create(1), Action::Create(2)]);
    created(coming, 2).with(ready(2)).settled(1001).pod(1, change)
}

#[test]
fn pods_that_a_later_step_waits_for_do_not_run_unready_for_ever() {
    let message = "Job/a: 0 of 1 pods are Ready in pod set 0-0; a later step waits for them";
    let pod = || super::build::pod_of(0, PodPhase::Running).condition("Ready", "False", "");
    let all = ["Job/a:1", "Job/b:1"];
    let runs = first_of(&all).with(pod()).settled(10);
    let ceased = runs.clone().pod(0, |pod| pod.conditions[0].since = Some(at(200)));
    let silent = runs.clone().pod(0, |pod| pod.conditions.clear());
    let succeeds = runs.clone().spec(
        "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
         {targetComponents: [a], waitForComponentsStatus: Succeeded}]}",
    );
    let last = created(first_of(&all).with(ready(0)).settled(10), 1).with(ready(1)).settled(11);
    let last = last.pod(0, |it| *it = pod()).settled(12);
    let again = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                 {targetComponents: [a], waitForComponentsStatus: Ready}]}\n\
                 failurePolicy: {rules: [{action: RecreateComponent, targetComponents: [b]}]}";
    let again = last.clone().spec(again).fails(1, "BackoffLimitExceeded", "", 4990).settled(5000);
    let mut again = again.component(1, |b| b.presence = Presence::Absent);
    again.snapshot.pods.retain(|pod| pod.component != Some(1));
    let again = again.answered(FreshRead::Gone).settled(5000);
    assert_eq!(runs.decide(309).requeue, Some(at(310)), "no event says that the warm-up is over");
    let unhealthy = runs.settled(310).decide(310).status.conditions;
    let unhealthy = condition::find(&unhealthy, condition::UNHEALTHY).unwrap();
    let said = (unhealthy.reason.as_str(), unhealthy.message.as_str());
    assert_eq!(said, ("InsufficientPodsReady", message));
    let runs = || first_of(&all).with(pod()).settled(10);
    let after_gap = |second| {
        let mut world = runs();
        world.snapshot.last_gap = Some(at(second));
        world
    };
    check(vec![
        ("an outage", after_gap(200), 499, "None"),
        ("… was long ago", after_gap(200), 500, "Wait 560"),
        ("calls that fail for ever", after_gap(90_000), 86_709, "None"),
        ("… for too long", after_gap(90_000), 86_710, "Wait 86770"),
        ("warm-up", runs(), 309, "None"),
        ("… and failure grace", runs(), 310, "Wait 370"),
        ("… are over", runs(), 370, "Restart retryLimit 0 of 3"),
        ("it was Ready, warm-up", ceased.clone(), 499, "None"),
        ("… and failure grace", ceased, 500, "Wait 560"),
        ("nothing is said of it", silent, 310, "Wait 370"),
        ("the next step waits for success", succeeds, 5000, "None"),
        ("no step waits", last, 5000, "None"),
        ("a later component is created again", again.clone(), 5001, "None"),
        ("… warm-up", again.clone(), 5299, "None"),
        ("… and failure grace", again.clone(), 5300, "Wait 5360"),
        ("… are over", again, 5360, "Restart retryLimit 1 of 3"),
    ]);
}

#[test]
fn the_first_pod_that_is_not_ready_begins_the_time_of_all() {
    let unready = |second: i64| {
        let mut pod = super::build::pod_of(0, PodPhase::Running).condition("Ready", "False", "");
        pod.conditions[0].since = Some(at(second));
        pod
    };
    let both = |first, second| {
        first_of(&["Job/a:2", "Job/b:1"]).with(unready(first)).with(unready(second)).settled(10)
    };
    let again = both(200, 400).pod(0, |pod| pod.conditions[0].status = "True".into());
    check(vec![
        ("one stopped being Ready before the other", both(200, 400), 499, "None"),
        ("… and its time is over", both(200, 400), 500, "Wait 560"),
        ("it is Ready again", again.clone(), 699, "None"),
        ("… and the time of the other is over", again, 700, "Wait 760"),
        ("the clock of the node is ahead", both(320, 320), 310, "None"),
        ("… warm-up", both(320, 320), 619, "None"),
        ("… is over", both(320, 320), 620, "Wait 680"),
    ]);
}

#[test]
fn nothing_waits_for_ready_pods_during_a_pause() {
    let policy = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                  {targetComponents: [a], waitForComponentsStatus: Ready}]}\n\
                  failurePolicy: {rules: [\
                  {action: RecreateComponentAndIgnoreMaxRestarts, targetComponents: [b]}]}";
    let pod = super::build::pod_of(0, PodPhase::Running).condition("Ready", "False", "");
    let all = created(first_of(&["Job/a:1", "Job/b:1"]).with(ready(0)).settled(10), 1);
    let all = all.with(ready(1)).settled(11).pod(0, |it| *it = pod).settled(12);
    let failing = all.spec(policy).fails(1, "BackoffLimitExceeded", "", 4990).settled(5000);
    let mut gone = failing.component(1, |b| b.presence = Presence::Absent);
    gone.snapshot.pods.retain(|pod| pod.component != Some(1));
    let pausing = gone.answered(FreshRead::Gone).settled(5000);
    let pausing = pausing.limits(|limits| limits.warmup_grace = Period::from_secs(20));
    let over = pausing.clone().settled(5090);
    check(vec![
        ("the pause", pausing, 5089, "Wait 5090"),
        ("it is over, warm-up", over.clone(), 5109, "None"),
        ("… and failure grace", over.clone(), 5110, "Wait 5170"),
        ("… are over", over, 5170, "Restart retryLimit 0 of 3"),
    ]);
}

/// The pod of the first step is not Ready for a moment.
#[test]
fn a_refused_creation_ends_whatever_an_earlier_step_does() {
    let coming = first_of(&["Job/a:1", "Job/b:1"]).with(ready(0)).settled(1000);
    let refused = coming.clone().component(1, |component| {
        component.creation = Some(CreationFailure { fatal: false, message: "no".into() });
    });
    let refused = refused.settled(1001);
    let unready =
        refused.clone().pod(0, |pod| pod.conditions[0].status = "False".into()).settled(1050);
    let decision = unready.decide(1051);
    assert_eq!(decision.actions, [], "nothing is created meanwhile");
    let conditions = &decision.status.conditions;
    let unhealthy = condition::find(conditions, condition::UNHEALTHY).unwrap();
    let said = (unhealthy.status.as_str(), unhealthy.reason.as_str());
    assert_eq!(said, ("True", "CreateFailed"));
    let again = unready.pod(0, |pod| pod.conditions[0].status = "True".into()).settled(1055);
    assert_eq!(again.decide(1056).actions, [Action::Create(1)]);
    check(vec![
        ("it is tried again", again.clone(), 1059, "Deploy"),
        ("… and its time is over", again, 1060, "Restart retryLimit 0 of 3"),
    ]);
    let is_ready = |world: World, ready: &'static str| {
        world.pod(0, |pod| pod.conditions[0].status = ready.into())
    };
    let long = is_ready(is_ready(refused, "False").settled(1005).settled(1061), "True");
    let former = Object { owner: Owner::Former, ..Object::default() };
    let taken = coming.component(1, |component| component.presence = Presence::Present(former));
    let taken = is_ready(is_ready(taken.settled(1001), "False").settled(1050), "True");
    check(vec![
        ("it was held for longer than its time", long.clone().settled(1095), 1154, "Deploy"),
        ("… and has all its time", long.settled(1095), 1155, "Restart retryLimit 0 of 3"),
        ("its name is taken", taken.settled(1055), 1060, "Restart retryLimit 0 of 3"),
    ]);
}

#[test]
fn what_else_is_waited_for_meanwhile_does_not_hide_it() {
    let pending = |pod: &mut Pod| pod.phase = PodPhase::Pending;
    let failed = |pod: &mut Pod| *pod = failed(2).at(1001);
    let overdue = |pod: &mut Pod| (pod.terminating, pod.due_to_go) = (true, Some(at(10)));
    let unexpected = |world: World| {
        world.object_of(2, |object| {
            object.report.expected.insert(0, Expected::default());
        })
    };
    let refused = |world: World| {
        world.component(1, |component| {
            component.creation = Some(CreationFailure { fatal: false, message: "no".into() });
        })
    };
    let blocked = |world: World| {
        let former = Object { owner: Owner::Former, ..Object::default() };
        world.component(1, |component| component.presence = Presence::Present(former))
    };
    let others = [
        ("alone", beside(|_| {})),
        ("and a pod does not run", beside(pending)),
        ("and a pod failed", beside(failed)),
        ("and a pod does not go", unexpected(beside(overdue))),
    ];
    let all = others.iter().flat_map(|(what, world)| {
        let (refused, blocked) = (refused(world.clone()), blocked(world.clone()));
        [(format!("refused, {what}"), refused), (format!("in the way, {what}"), blocked)]
    });
    for (what, world) in all {
        let world = world.settled(1002);
        let again = world.decide(1003);
        assert_eq!(again.status, world.snapshot.status, "{what}: nothing is written again");
        assert!(again.events.is_empty(), "{what}: {:?}", again.events);
        let conditions = &again.status.conditions;
        let unhealthy = condition::find(conditions, condition::UNHEALTHY).unwrap();
        assert_eq!(
            (unhealthy.status.as_str(), unhealthy.reason.as_str()),
            ("True", "CreateFailed"),
            "{what}"
        );
        let message = &unhealthy.message;
        let is_named = message.contains("an object of this name still exists");
        assert_eq!(is_named, what.starts_with("in the way"), "{what}: {message}");
        assert_eq!(world.decide(1060).next, Phase::Resetting, "{what}");
    }
}

#[test]
fn what_else_failed_is_asked_about_where_a_creation_fails() {
    let policies = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                    {targetComponents: [a], waitForComponentsStatus: Ready}]}\n\
                    failurePolicy: {rules: [{action: FailAppWrapper, targetComponents: [c]}]}";
    let never = "{override: true, rules: [{name: never, action: Fail, \
                 onExitCodes: {operator: In, values: [74]}}]}";
    let refused = |world: World| {
        world.component(1, |component| {
            component.creation = Some(CreationFailure { fatal: false, message: "no".into() });
        })
    };
    let spoken =
        || refused(beside(|_| {})).spec(policies).fails(2, "BackoffLimitExceeded", "", 1059);
    let silent = refused(beside(|pod| *pod = failed(2).at(1055))).spec(policies).backoff(2, 0, 1);
    let coded = refused(beside(|pod| *pod = failed(2).code(74).at(1059))).overriding("p", never);
    let fails = "Fail failurePolicy/failurePolicyRule0#0";
    check(vec![
        ("a component failed", spoken(), 1059, fails),
        ("… and the time of the other is over", spoken(), 1060, fails),
        ("one may still say why it failed", silent, 1060, "Wait 1065"),
        ("an overriding policy is about its pod", coded, 1060, "Fail retryPolicy/p/never#0"),
    ]);
    let alone = refused(beside(|_| {})).spec(policies);
    assert_eq!(alone.ask(1060).ask, FreshRead::Pods, "the cache may not show it yet");
    let listed = alone.fails(2, "BackoffLimitExceeded", "", 1059).answered(FreshRead::Pods);
    assert_eq!(listed.ask(1060).next, Phase::Failed);
}

#[test]
fn no_retry_policy_is_asked_about_a_creation_that_keeps_failing() {
    let fails = "{defaultAction: Fail}";
    let unknown = "{override: true, rules: [{name: u, action: Fail, \
                   onFailureCategory: [unknown]}]}";
    let policy = |retries| failing(false).retry_policy("p", fails).retries(retries);
    check(vec![
        ("a retry is left", policy(2), 1060, "Restart retryLimit 2 of 3"),
        ("none is left", policy(3), 1060, "Fail retryLimit 3 of 3"),
        (
            "an overriding policy",
            failing(false).overriding("p", unknown),
            1060,
            "Restart retryLimit 0 of 3",
        ),
    ]);
}

/// In Resuming since second 0, and the creation of a component fails since so many seconds, as far as is known.
fn refused(since: Option<i64>) -> World {
    let world = in_phase(Phase::Resuming, &["Job/a:1"]).with_finalizer();
    world.component(0, |component| {
        component.presence = Presence::Absent;
        component.creation = Some(CreationFailure { fatal: false, message: "no".into() });
        component.failing_since = since.map(at);
    })
}

#[test]
fn the_creation_has_all_its_time_from_when_the_api_server_answers() {
    let blocked = |mut world: World, gap: i64| {
        world.snapshot.last_gap = Some(at(gap));
        let former = Object { owner: Owner::Former, ..Object::default() };
        world.component(0, |component| component.presence = Presence::Present(former))
    };
    let recorded = |mut world: World, second: i64| {
        let conditions = &mut world.snapshot.status.conditions;
        condition::set(conditions, condition::UNHEALTHY, true, "CreateFailed", "", at(second));
        world
    };
    let gap = |gap: i64| {
        let mut world = refused(Some(1));
        world.snapshot.last_gap = Some(at(gap));
        world
    };
    check(vec![
        ("a refusal that persists", refused(Some(1)), 61, "Restart retryLimit 0 of 3"),
        ("an outage: it is tried again", gap(90), 91, "Deploy"),
        ("… for as long as after an answer", gap(90), 149, "Deploy"),
        ("… and no longer", gap(90), 150, "Restart retryLimit 0 of 3"),
        ("an outage before", gap(0), 61, "Restart retryLimit 0 of 3"),
        ("calls that fail for ever", gap(90_000), 86_460, "Restart retryLimit 0 of 3"),
        ("an object is in the way", blocked(refused(None), 90), 91, "Wait 150"),
        ("… for too long", blocked(refused(None), 90), 150, "Restart retryLimit 0 of 3"),
        ("the controller was down: it is tried again", refused(Some(91)), 92, "Deploy"),
        ("… for too long", refused(Some(91)), 151, "Restart retryLimit 0 of 3"),
        (
            "… and was refused before",
            recorded(refused(Some(91)), 2),
            92,
            "Restart retryLimit 0 of 3",
        ),
    ]);
}
