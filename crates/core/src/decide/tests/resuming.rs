//! Components of the first step that fail while others are still to come.

use super::given::{World, at, given, pod};
use crate::api::{AttemptAction, ComponentStatus, Phase, condition};
use crate::decide::Decision;
use crate::plan::{Action, FreshRead};
use crate::snapshot::{
    Component, CreationFailure, Object, Outcome, Pod, PodPhase, Presence, Undetermined,
};
use crate::tuning::Period;

/// The first of two Jobs has failed, and the second is refused for now.
fn given_failed() -> World {
    let mut world = given(Phase::Resuming).failed_job();
    let failure = CreationFailure { fatal: false, message: "exceeded quota".into() };
    let first = world.snapshot.components[0].clone();
    let presence = Presence::Absent;
    let second = Component { name: "other".into(), presence, creation: Some(failure), ..first };
    world.snapshot.components.push(second);
    let mut status = world.snapshot.status.component_status[0].clone();
    status.name = "other".into();
    world.snapshot.status.component_status.push(status);
    world
}

#[test]
fn a_component_that_fails_while_another_is_refused_is_decided_about() {
    let decision = given_failed().decide(21);
    assert_eq!(decision.next, Phase::Resetting);
    let attempt = decision.status.attempts.last().unwrap();
    assert_eq!(
        (attempt.action, attempt.failed_at.as_ref().unwrap().0),
        (Some(AttemptAction::Restart), at(20))
    );
    assert_eq!(decision.status.resetting_count, 1);
}

/// The Go controller deletes, and waits for, what is said to be there.
#[test]
fn what_exists_is_said_to_exist_where_another_cannot_be_created() {
    let is_said = |decision: &Decision| {
        let of = |status: &ComponentStatus| {
            let found = condition::find(&status.conditions, condition::RESOURCES_DEPLOYED);
            found.map(|found| found.status == "True")
        };
        decision.status.component_status.iter().map(of).collect::<Vec<_>>()
    };
    for grace in [0, 4 * 3600] {
        let world = given_failed().says(Outcome::Active).component(1, |component| {
            component.creation = Some(CreationFailure { fatal: true, message: "no".into() });
        });
        let world = world.limits(|limits| {
            limits.deletion_on_failure_grace = Period::from_secs(grace);
        });
        let failed = world.decide(21);
        assert_eq!((failed.next, is_said(&failed)), (Phase::Failed, vec![Some(true), None]));
        assert_eq!(failed.status.component_status[0].uid.as_deref(), Some("job"));
        let later = 21 + i64::try_from(grace).unwrap();
        let deleting = world.written(&failed).settled(later);
        let gone = deleting.gone().decide(later + 1);
        assert_eq!(is_said(&gone), [Some(false), None], "{grace}");
    }
}

/// What kept a component from being recreated is no deletion that is stuck: nothing is deleted yet.
#[test]
fn a_failed_appwrapper_that_keeps_its_resources_deletes_none() {
    let world = given_failed().says(Outcome::Active).component(1, |component| {
        component.creation = Some(CreationFailure { fatal: true, message: "no".into() });
    });
    let mut world =
        world.limits(|limits| limits.deletion_on_failure_grace = Period::from_secs(4 * 3600));
    let status = &mut world.snapshot.status;
    let (kind, reason) = (condition::DELETING_RESOURCES, condition::deleting::FORCED);
    condition::set(&mut status.component_status[1].conditions, kind, true, reason, "", at(0));
    let kind = condition::UNDETERMINED_PODS;
    condition::set(&mut status.conditions, kind, true, "OwnerUnknown", "", at(0));
    let failed = world.decide(21);
    assert_eq!(failed.next, Phase::Failed);
    let of_components = failed.status.component_status.iter().map(|status| &status.conditions);
    let mut all = of_components.chain([&failed.status.conditions]);
    assert!(!all.any(|conditions| condition::is_deletion_stuck(conditions)));
    assert!(!condition::is_true(&failed.status.conditions, kind));
}

/// With a UID, the pods of the template count, and not those that the Go controller has counted and Kueue has admitted.
#[test]
fn what_the_go_controller_created_has_no_uid_before_its_deletion() {
    let grace = 4 * 3600;
    let world = given(Phase::Running).pods(&[PodPhase::Running; 2]).failed_job().retries(3);
    let mut world =
        world.limits(|limits| limits.deletion_on_failure_grace = Period::from_secs(grace));
    let status = &mut world.snapshot.status.component_status[0];
    status.uid = None;
    let kind = condition::RESOURCES_DEPLOYED;
    condition::set(&mut status.conditions, kind, true, "ComponentCreatedSuccessfully", "", at(0));
    let uid = |world: &World| world.snapshot.status.component_status[0].uid.clone();
    let decision = world.decide(21);
    let failed = world.written(&decision);
    assert_eq!((failed.snapshot.status.phase, uid(&failed)), (Phase::Failed, None));
    let deleting = failed.settled(21 + i64::try_from(grace).unwrap());
    assert_eq!(uid(&deleting).as_deref(), Some("job"));
}

#[test]
fn pods_that_are_ignored_meanwhile_are_counted_and_told() {
    let rule =
        "podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [3]}}]}";
    let decision = given_failed().spec(rule).pods(&[PodPhase::Failed]).decide(21);
    assert_eq!((decision.next, decision.status.ignored_failures), (Phase::Resetting, 1));
    let told = |reason: &str| decision.events.iter().filter(|event| event.reason == reason).count();
    assert_eq!(told("IgnoredFailure"), 1);
}

/// The Job replaces its pod, which failed with code 3, and may succeed before the other one exists.
#[test]
fn a_pod_fails_the_appwrapper_also_before_all_components_exist() {
    use PodPhase::{Failed, Running};
    let fails = |code: i32| {
        let codes = format!("onExitCodes: {{operator: In, values: [{code}]}}");
        format!("podFailurePolicy: {{rules: [{{action: FailAppWrapper, {codes}}}]}}")
    };
    let world = || given_failed().says(Outcome::Active).pods(&[Failed]);
    let steps = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
        {targetComponents: [work, other, done], waitForComponentsStatus: Succeeded}]}";
    let mut beside = world();
    let mut done = beside.snapshot.components[0].clone();
    done.name = "done".into();
    beside.snapshot.components.push(done);
    let mut status = beside.snapshot.status.component_status[0].clone();
    status.name = "done".into();
    beside.snapshot.status.component_status.push(status);
    let beside = beside.succeeds(2).spec(&format!("{}\n{steps}", fails(3)));
    let replaced = world().pods(&[Failed, Running, Running]);
    for (what, world, want) in [
        ("it fails", world().spec(&fails(3)), Phase::Failed),
        ("it was replaced", replaced.spec(&fails(3)), Phase::Failed),
        ("another component of its step has succeeded", beside, Phase::Failed),
        ("no rule is about it", world().spec(&fails(4)), Phase::Resuming),
    ] {
        assert_eq!(world.decide(21).next, want, "{what}");
    }
}

#[test]
fn one_that_failed_and_is_gone_is_missing_and_is_not_created_again() {
    let rule = "failurePolicy: {rules: [{action: RecreateComponent}]}";
    // it is recreated once all exist, so that it may be gone before
    let world = given_failed().spec(rule);
    let seen = world.decide(21);
    assert_eq!(seen.next, Phase::Resuming);
    assert_eq!(seen.status.component_status[0].uid.as_deref(), Some("job"));
    let unseen = world.written(&seen).presence(Presence::Unseen);
    assert_eq!(unseen.ask(22).ask, FreshRead::Missing);
    let absent = unseen.presence(Presence::Absent).answered(FreshRead::Missing);
    let decision = absent.decide(22);
    assert_eq!(decision.next, Phase::Resetting);
    let failure = decision.status.attempts.last().unwrap().failure.as_ref().unwrap();
    assert_eq!(failure.reason.as_deref(), Some(condition::unhealthy::MISSING_COMPONENT));
    assert!(!decision.actions.contains(&Action::Create(0)));
}

/// A wrapped Pod has failed at second 20, and the Job beside it is refused since second 50.
fn given_failed_pod() -> World {
    let mut world = given_failed().says(Outcome::Active).pods(&[PodPhase::Failed]);
    world.snapshot.components[0].kind = "Pod".into();
    world.snapshot.status.component_status[0].kind = "Pod".into();
    world.snapshot.components[1].failing_since = Some(at(50));
    world.object(|object| {
        object.uid = "pod-0".into();
        object.report.unreplaced.insert(0);
    })
}

#[test]
fn a_wrapped_pod_that_fails_meanwhile_is_decided_about_when_due() {
    let rule = "failurePolicy: {rules: [{action: FailAppWrapper, targetComponents: [work]}]}";
    for (what, spec, second, want) in [
        ("a rule decides at once", rule, 21, Phase::Failed),
        ("the retry limit waits for failureGracePeriod", "{}", 79, Phase::Resuming),
        ("… which is over", "{}", 80, Phase::Resetting),
    ] {
        assert_eq!(given_failed_pod().spec(spec).decide(second).next, want, "{what}");
    }
}

/// The same, and a pod of a Job of the first step failed before, which the Job may replace.
fn given_failed_pod_and_job() -> World {
    let mut world = given_failed_pod();
    let mut job = world.snapshot.components[0].clone();
    (job.name, job.kind) = ("job".into(), "Job".into());
    world.snapshot.components.push(job);
    let mut status = world.snapshot.status.component_status[0].clone();
    (status.name, status.kind) = ("job".into(), "Job".into());
    world.snapshot.status.component_status.push(status);
    let of_job = Pod { component: Some(2), ..pod(1, PodPhase::Failed) }.at(15);
    world.snapshot.pods.push(of_job);
    world.object_of(2, |object| {
        object.uid = "job".into();
        object.report.unreplaced.clear();
    })
}

/// It is recreated once all components exist.
#[test]
fn a_job_that_is_to_be_recreated_hides_no_wrapped_pod() {
    let rule = "failurePolicy: {rules: [{action: RecreateComponent, targetComponents: [job]}]}";
    let world = given_failed_pod_and_job().spec(rule).fails(2, "BackoffLimitExceeded", "", 15);
    for (second, want) in [(79, Phase::Resuming), (80, Phase::Resetting)] {
        assert_eq!(world.decide(second).next, want, "{second}");
    }
}

#[test]
fn a_wrapped_pod_is_decided_about_whatever_else_failed() {
    let world = given_failed_pod_and_job();
    let rule = "failurePolicy: {rules: [{action: FailAppWrapper, targetComponents: [work]}]}";
    for (spec, second, want) in
        [(rule, 21, Phase::Failed), ("{}", 79, Phase::Resuming), ("{}", 80, Phase::Resetting)]
    {
        assert_eq!(world.clone().spec(spec).decide(second).next, want, "{spec} {second}");
    }
    let since = world.decide(21).status.since.and_then(|since| since.failed_pods);
    assert_eq!(since.map(|time| time.0), Some(at(20)), "the pod of the Job is not decided about");
}

#[test]
fn a_wrapped_pod_that_failed_and_is_gone_is_not_created_again() {
    let world = given_failed_pod();
    let seen = world.decide(21);
    assert_eq!(seen.status.component_status[0].uid.as_deref(), Some("pod-0"));
    let mut gone = world.written(&seen).presence(Presence::Absent).answered(FreshRead::Missing);
    gone.snapshot.pods.clear();
    let decision = gone.decide(22);
    assert_eq!(decision.next, Phase::Resetting);
    let failure = decision.status.attempts.last().unwrap().failure.as_ref().unwrap();
    assert_eq!(failure.reason.as_deref(), Some(condition::unhealthy::MISSING_COMPONENT));
    assert!(!decision.actions.contains(&Action::Create(0)));
}

/// The pod and a second component would both run on the quota of one component.
#[test]
fn a_component_is_not_created_beside_a_pod_that_may_be_its_own() {
    for (existed, may_have_existed, live, outlived, want) in [
        (false, false, 1, 1, true),
        (true, false, 0, 0, true),
        (true, false, 1, 0, false),
        (false, true, 1, 0, true),
        (false, true, 1, 1, false),
    ] {
        let world = given(Phase::Resuming).presence(Presence::Absent);
        let mut world = world.answered(FreshRead::Missing);
        let component = &mut world.snapshot.components[0];
        (component.existed, component.may_have_existed) = (existed, may_have_existed);
        let named = vec![("x".into(), "its owner is gone".into())];
        world.snapshot.undetermined =
            Undetermined { count: 1, live, outlived, named, ..Undetermined::default() };
        let creates = world.decide(1).actions.contains(&Action::Create(0));
        let what = (existed, may_have_existed, live, outlived);
        assert_eq!(creates, want, "{what:?}");
    }
    let own = given(Phase::Resuming).presence(Presence::Absent).pods(&[PodPhase::Running]);
    assert_eq!(own.decide(1).actions, [], "its own pod runs");
}

/// What a late write created is deleted first, and its pod may take minutes to go.
#[test]
fn new_pods_have_all_their_time_once_the_earlier_ones_are_gone() {
    let late = given(Phase::Resuming).object(|object| object.attempt = Some(7));
    let late = late.pods(&[PodPhase::Running]).pod(0, |pod| pod.attempt = Some(7)).settled(1);
    let deletes = late.decide(1).actions;
    assert!(deletes.iter().any(|action| matches!(action, Action::Delete(_))), "{deletes:?}");
    let gone = late.gone();
    let begun = gone.decide(181);
    let since = begun.status.since.as_ref().and_then(|since| since.deployed.as_ref());
    assert_eq!((begun.next, since.map(|time| time.0)), (Phase::Resuming, Some(at(181))));
    let empty = gone.written(&begun);
    assert!(empty.decide(181).actions.contains(&Action::Create(0)));
    let object = Object { uid: "job".into(), attempt: Some(0), ..Object::default() };
    let there = empty.presence(Presence::Present(object));
    let running = there.clone().written(&there.decide(182));
    assert_eq!(running.snapshot.status.phase, Phase::Running);
    // admissionGracePeriod and failureGracePeriod
    let next = |second| running.decide(second).next;
    assert_eq!((next(300), next(301)), (Phase::Running, Phase::Resetting));
}
