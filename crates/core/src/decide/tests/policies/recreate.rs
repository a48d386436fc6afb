//! `RecreateComponent`: one component goes and comes back, all else stays.

use super::build::{failed, ready, running, said};
use crate::api::{AttemptOutcome, Phase, condition};
use crate::decide::VerdictAction;
use crate::decide::tests::given::{World, at};
use crate::plan::{Action, FreshRead, Target};
use crate::snapshot::lost::Lost;
use crate::snapshot::{CreationFailure, Expected, Object, Pod, PodPhase, Presence, Undetermined};
use crate::tuning::Period;

const POLICY: &str = "failurePolicy: {rules: [{name: again, action: RecreateComponent}]}";

/// Three Jobs, in steps of which the last waits for the second; the second failed.
fn failing() -> World {
    let world = running(&["Job/a:1", "Job/b:2"]).spec(POLICY).ready(0, 1);
    world.with(failed(1)).with(ready(1)).fails(1, "BackoffLimitExceeded", "too often", 25)
}

/// Written, so that the component is to go.
fn going() -> World {
    failing().settled(30)
}

fn without_b(world: World) -> World {
    let mut world = world.component(1, |component| component.presence = Presence::Absent);
    world.snapshot.pods.retain(|pod| pod.component != Some(1));
    world
}

/// Its new object is there.
fn new_b(world: World) -> World {
    let object = Object { uid: "new-b".into(), attempt: Some(0), ..Object::default() };
    world.component(1, |component| component.presence = Presence::Present(object))
}

#[test]
fn it_stays_in_running_and_in_its_attempt_and_writes_before_it_deletes() {
    let decision = failing().decide(30);
    assert_eq!(said(&decision), "RecreateComponent failurePolicy/again#0 0 of 3");
    assert_eq!((decision.next, decision.actions.len()), (Phase::Running, 0));
    assert_eq!(decision.status.resetting_count, 1);
    assert_eq!(decision.verdict.delete, [1]);
    let numbers: Vec<i32> = decision.status.attempts.iter().map(|one| one.attempt).collect();
    assert_eq!(numbers, [0, 0], "one is closed, one of the same number is opened");
    let [closed, open] = &decision.status.attempts[..] else { unreachable!() };
    assert_eq!(closed.outcome, Some(AttemptOutcome::ComponentRecreated));
    assert!(closed.ended_at.is_some() && closed.failure.is_some());
    assert!(open.started_at.is_some() && open.outcome.is_none() && open.failure.is_none());
    for kind in [condition::QUOTA_RESERVED, condition::RESOURCES_DEPLOYED] {
        assert!(condition::is_true(&decision.status.conditions, kind), "{kind}");
    }
}

#[test]
fn only_that_component_is_deleted_by_uid() {
    let decision = going().decide(31);
    let target = Target { component: 1, uid: "uid-b".into() };
    assert_eq!(decision.actions, [Action::Delete(target)]);
    assert_eq!(decision.next, Phase::Running);
}

#[test]
fn a_job_set_goes_as_a_whole_and_nothing_else_does() {
    let policy = "failurePolicy: {rules: [{name: again, action: RecreateComponent, \
                  targetComponents: [set]}]}";
    let world = running(&["JobSet/set:2", "Job/other:1"]).spec(policy).ready(1, 1);
    let world = world.with(failed(0)).with(ready(0)).fails(0, "FailedJobs", "", 25);
    let world = world.failed_job_of(0, "BackoffLimitExceeded", "");
    let decision = world.decide(30);
    assert_eq!(said(&decision), "RecreateComponent failurePolicy/again#0 0 of 3");
    assert_eq!(decision.verdict.delete, [0]);
    let target = Target { component: 0, uid: "uid-set".into() };
    assert_eq!(world.settled(30).decide(31).actions, [Action::Delete(target)]);
}

#[test]
fn it_is_created_again_at_once_when_it_and_its_pods_are_gone() {
    let object_gone = going().component(1, |component| component.presence = Presence::Absent);
    assert_eq!(object_gone.decide(40).actions, [], "its pods are still there");
    let pods_gone = {
        let mut world = going();
        world.snapshot.pods.retain(|pod| pod.component != Some(1));
        world.object_of(1, |object| object.terminating = true)
    };
    assert_eq!(pods_gone.decide(40).actions, [], "its object is still there");
    let gone = without_b(going());
    assert_eq!(
        gone.clone().answered(FreshRead::Nothing).ask(40).ask,
        FreshRead::Gone,
        "a LIST must tell"
    );
    let seen = gone.answered(FreshRead::Gone);
    let noted = seen.decide(40);
    let create = seen.written(&noted).decide(40);
    assert_eq!(create.actions, [Action::Create(1)], "no pause");
    assert_eq!(create.next, Phase::Running);
}

#[test]
fn a_pod_of_it_that_is_left_keeps_it_from_coming_back() {
    let mut left = without_b(going());
    left.snapshot.pods.push(crate::snapshot::Pod { terminating: true, ..failed(1) });
    let decision = left.answered(FreshRead::Gone).decide(45);
    assert!(!decision.actions.iter().any(|action| matches!(action, Action::Create(_))));
    assert_eq!(decision.next, Phase::Running);
}

/// A LIST has shown that all is gone, and the watch is behind for a moment.
#[test]
fn a_pod_that_the_watch_still_shows_is_worth_no_warning_yet() {
    let gone = without_b(going()).answered(FreshRead::Gone);
    let mut shown = gone.settled(40);
    shown.snapshot.pods.push(crate::snapshot::Pod { terminating: true, ..failed(1) });
    let warned = |second| {
        let decision = shown.clone().answered(FreshRead::Gone).decide(second);
        assert!(!decision.actions.iter().any(|action| matches!(action, Action::Create(_))));
        decision.events.iter().any(|event| event.reason == "CreateFailed")
    };
    assert_eq!([41, 49, 50].map(warned), [false, false, true]);
}

#[test]
fn its_pods_have_all_their_time_from_its_return() {
    let world = without_b(going()).answered(FreshRead::Gone);
    let created = new_b(world.settled(1000));
    let arrived = created.settled(1010);
    let uid = &arrived.snapshot.status.component_status[1].uid;
    assert_eq!(uid.as_deref(), Some("new-b"));
    assert_eq!(arrived.says_at(1011), "Wait 1130", "admission and failure grace from second 1010");
    let running = arrived.with(ready(1)).with(ready(1));
    let decision = running.decide(1020);
    assert_eq!(said(&decision), "None");
    assert!(condition::is_true(&decision.status.conditions, condition::PODS_READY));
}

#[test]
fn its_creation_has_all_its_time_from_the_end_of_the_pause() {
    let free = "failurePolicy: {rules: [{action: RecreateComponentAndIgnoreMaxRestarts}]}";
    let world = running(&["Job/a:1", "Job/b:2"]).spec(free).ready(0, 1);
    let world = world.with(failed(1)).with(ready(1)).fails(1, "BackoffLimitExceeded", "", 25);
    let pausing = without_b(world.settled(30)).answered(FreshRead::Gone).settled(40);
    assert_eq!(pausing.says_at(41), "Wait 130", "an uncounted recreation pauses");
    let refused = pausing.component(1, |component| {
        component.creation = Some(CreationFailure { fatal: false, message: "no".into() });
    });
    assert_eq!(refused.says_at(131), "Deploy", "the first refusal is not yet too long");
    assert_eq!(refused.says_at(189), "Deploy");
    assert_eq!(refused.says_at(190), "Restart retryLimit 0 of 3");
}

#[test]
fn it_succeeds_only_when_it_is_back() {
    let world = failing().succeeds(0);
    let mut world = world.clone().written(&world.decide(30));
    world.snapshot.pods.clear();
    let seen = without_b(world).answered(FreshRead::Gone);
    let decision = seen.decide(40);
    assert_eq!(decision.next, Phase::Running, "{}", said(&decision));
}

#[test]
fn each_time_counts_and_the_limit_ends_it() {
    for (used, want) in [
        (0, "RecreateComponent failurePolicy/again#0 0 of 3"),
        (2, "RecreateComponent failurePolicy/again#0 2 of 3"),
        (3, "Fail retryLimit/again#0 3 of 3"),
    ] {
        assert_eq!(failing().retries(used).says_at(30), want);
    }
    let lowered = "retryPolicy: {globalMaxRetries: 1}";
    assert_eq!(
        failing().configured(lowered).retries(1).says_at(30),
        "Fail retryLimit/again#0 1 of 1"
    );
}

#[test]
fn another_failure_meanwhile_is_decided_about() {
    let world = going().fails(0, "DeadlineExceeded", "", 35);
    assert_eq!(said(&world.decide(35)), "RecreateComponent failurePolicy/again#0 1 of 3");
    let gone = going().component(0, |component| component.presence = Presence::Absent);
    assert_eq!(said(&gone.decide(35)), "Restart retryLimit 1 of 3", "a component is missing");
    let decision = going().suspended(true).decide(35);
    assert_eq!(
        (decision.next, decision.verdict.action),
        (Phase::Suspending, VerdictAction::Delete)
    );
}

/// A node is lost at second 20 with a pod of `a` and one of `b`, of which another pod failed before and is ignored.
#[test]
fn an_ignored_pod_is_not_recorded_as_the_cause_of_a_recreation() {
    let policy = "podFailurePolicy: {rules: [\
                  {action: Ignore, onExitCodes: {operator: In, values: [42]}}]}\n\
                  failurePolicy: {rules: [{name: again, action: RecreateComponent, \
                  targetComponents: [b]}]}";
    let world = running(&["Job/a:1", "Job/b:2"]).spec(policy).ready(0, 1).ready(1, 2).settled(2);
    let ignored = world.pod_is(1, failed(1).code(42).at(10)).backoff(1, 6, 1).settled(11);
    let decision = ignored.loses_node(Lost::Deleted, 20).decide(80);
    assert_eq!(said(&decision), "RecreateComponent failurePolicy/again#0 0 of 3");
    let closed = &decision.status.attempts[0];
    let pod = closed.failure.as_ref().and_then(|failure| failure.pod.as_deref());
    assert_eq!((pod, closed.failed_at.as_ref().map(|at| at.0)), (Some("b-1"), Some(at(20))));
}

/// A node is lost at second 20 with a pod of `a`. A pod of `b` is ignored and replaced later, before `b` fails.
#[test]
fn an_ignored_pod_that_was_replaced_is_not_recorded_either() {
    let policy = "podFailurePolicy: {rules: [\
                  {action: Ignore, onExitCodes: {operator: In, values: [42]}}]}\n\
                  failurePolicy: {rules: [{name: again, action: RecreateComponent, \
                  targetComponents: [b]}]}";
    let world = running(&["Job/a:1", "Job/b:1"]).spec(policy).ready(0, 1);
    let world = world.with(ready(1).on("node-2")).settled(2).loses_node(Lost::Deleted, 20);
    let world = world.settled(21).pod_is(1, failed(1).code(42).at(25).on("node-2"));
    let replaced = world.with(ready(1).on("node-2")).backoff(1, 6, 1).settled(30);
    let decision = replaced.fails(1, "BackoffLimitExceeded", "", 40).decide(60);
    assert_eq!(said(&decision), "RecreateComponent failurePolicy/again#0 0 of 3");
    let closed = &decision.status.attempts[0];
    let failure = closed.failure.as_ref().unwrap();
    assert_eq!((failure.component.as_deref(), failure.pod.as_deref()), (Some("b"), None));
    assert_eq!(closed.failed_at.as_ref().map(|at| at.0), Some(at(40)));
}

/// `a` is recreated because of a node that had a pod of each component. That of `b` is ignored, and another one of `b` fails.
#[test]
fn a_failure_beside_an_ignored_pod_of_a_counted_node_is_counted() {
    let policy = "podFailurePolicy: {rules: [{action: Ignore, targetComponents: [b], \
                  onPodConditions: [{type: DisruptionTarget}]}]}\n\
                  failurePolicy: {rules: [{name: again, action: RecreateComponent, \
                  targetComponents: [a]}]}";
    let world = running(&["Job/a:1", "Job/b:2", "Job/c:1"]).spec(policy).backoff(0, 0, 0);
    let world = world.ready(0, 1).ready(1, 1).with(ready(1).on("node-2")).ready(2, 1).settled(2);
    let lost = world.loses_node(Lost::Deleted, 20);
    let decision = lost.decide(21);
    assert_eq!(said(&decision), "RecreateComponent failurePolicy/again#0 0 of 3");
    let recreating = lost.written(&decision).pod_is(2, failed(1).on("node-2").at(25));
    let failing = recreating.fails(1, "BackoffLimitExceeded", "", 26);
    assert_eq!(said(&failing.decide(27)), "Restart retryLimit 1 of 3");
}

#[test]
fn later_steps_stay_as_they_are() {
    let order = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                 {targetComponents: [a], waitForComponentsStatus: Ready}]}";
    let world = running(&["Job/a:1", "Job/b:1"]).spec(&format!("{POLICY}\n{order}"));
    let world = world.ready(1, 1).with(failed(0)).fails(0, "BackoffLimitExceeded", "", 25);
    let decision = world.decide(30);
    assert_eq!(decision.verdict.delete, [0]);
    let going = world.settled(30);
    let target = Target { component: 0, uid: "uid-a".into() };
    assert_eq!(going.decide(31).actions, [Action::Delete(target)]);
    let mut gone = going.component(0, |component| component.presence = Presence::Absent);
    gone.snapshot.pods.retain(|pod| pod.component != Some(0));
    let back = gone.answered(FreshRead::Gone).settled(40);
    assert_eq!(back.decide(40).actions, [Action::Create(0)]);
}

#[test]
fn no_further_step_begins_while_a_component_of_an_earlier_one_is_away() {
    let order = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                 {targetComponents: [a], waitForComponentsStatus: Ready}, \
                 {targetComponents: [b], waitForComponentsStatus: Ready}]}";
    let mut world = running(&["Job/a:1", "Job/b:1", "Job/c:1"]).spec(&format!("{POLICY}\n{order}"));
    world.snapshot.status.component_status[2].uid = None;
    let world = world.component(2, |component| component.presence = Presence::Absent);
    let waiting = world.with(failed(0)).with(super::build::pod_of(1, PodPhase::Running));
    let failing = waiting.fails(0, "BackoffLimitExceeded", "", 25).settled(30);
    let is_ready = |pod: &mut Pod| *pod = pod.clone().condition("Ready", "True", "");
    let mut gone = failing.pod(1, is_ready).component(0, |a| a.presence = Presence::Absent);
    gone.snapshot.pods.remove(0);
    let coming = gone.answered(FreshRead::Gone).settled(40);
    assert_eq!(coming.decide(40).actions, [Action::Create(0)], "a alone, though b is Ready");
    let object = Object { uid: "new-a".into(), attempt: Some(0), ..Object::default() };
    let back = coming.component(0, |a| a.presence = Presence::Present(object));
    let running = back.with(super::build::pod_of(0, PodPhase::Running)).settled(50);
    assert_eq!(running.decide(50).actions, [], "a runs, and is not Ready");
    let ready = running.pod(1, is_ready).settled(60);
    assert_eq!(ready.decide(60).actions, [Action::Create(2)]);
}

/// Jobs `ps` and, in the next step, `worker`: a node takes the pods of both, and the workers need the servers.
#[test]
fn a_component_waits_until_the_earlier_steps_are_as_far_again() {
    let order = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                 {targetComponents: [ps], waitForComponentsStatus: Ready}]}";
    let world = running(&["Job/ps:1", "Job/worker:1"]).spec(&format!("{POLICY}\n{order}"));
    let world = world.ready(0, 1).ready(1, 1).settled(2);
    let failing = world.fails(0, "BackoffLimitExceeded", "", 20).settled(30);
    let failing = failing.fails(1, "BackoffLimitExceeded", "", 20).settled(30);
    let creates = |world: &World, second| {
        let actions = world.decide(second).actions;
        actions.into_iter().filter(|it| matches!(it, Action::Create(_))).collect::<Vec<_>>()
    };
    let refused = |world: &World| {
        world.clone().component(1, |worker| {
            worker.creation = Some(CreationFailure { fatal: false, message: "no".into() });
        })
    };
    let worker_gone = gone(failing, 1, 40);
    assert_eq!(creates(&worker_gone, 100), [], "ps is still there");
    let both_gone = gone(worker_gone, 0, 110);
    assert_eq!(creates(&both_gone, 110), [Action::Create(0)]);
    assert_eq!(refused(&both_gone).says_at(111), "Deploy", "nobody tries to create the workers");
    let object = Object { uid: "new-ps".into(), attempt: Some(0), ..Object::default() };
    let there = both_gone.component(0, |ps| ps.presence = Presence::Present(object));
    let runs = there.with(super::build::pod_of(0, PodPhase::Running)).settled(120);
    let decision = runs.decide(121);
    assert_eq!(decision.actions, [], "it runs, and is not Ready");
    assert_eq!(decision.verdict.message, "Job/worker waits for Job/ps to be ready");
    assert_eq!(runs.says_at(420), "Wait 480", "which has a limit");
    let is_ready = |pod: &mut Pod| *pod = pod.clone().condition("Ready", "True", "");
    let ready = runs.pod(0, is_ready).settled(140);
    assert_eq!(creates(&ready, 140), [Action::Create(1)]);
    assert_eq!(refused(&ready).says_at(199), "Deploy", "its creation has all its time");
    assert_eq!(refused(&ready).says_at(200), "Restart retryLimit 2 of 3");
}

#[test]
fn pods_are_not_ready_while_a_component_goes_that_expects_none() {
    let world = going().object_of(1, |job| {
        job.report.expected.insert(0, Expected::default()); // it failed by its indexes
    });
    let conditions = world.decide(31).status.conditions;
    assert!(!condition::is_true(&conditions, condition::PODS_READY));
}

/// It was to be gone at second 20, ten seconds before its component is to go.
#[test]
fn a_pod_that_was_to_go_before_its_component_is_forced_before_it() {
    let world = stuck(600).pod(1, |pod| (pod.terminating, pod.due_to_go) = (true, Some(at(20))));
    let world = world.settled(40);
    let forced = Action::ForceDeletePod { name: "b-0".into(), uid: "pod-b-0".into() };
    let early = world.decide(619);
    assert_eq!((early.actions.contains(&forced), early.requeue), (false, Some(at(620))));
    let world = world.settled(620);
    let decision = world.decide(620);
    assert!(decision.actions.contains(&forced));
    let conditions = &decision.status.component_status[1].conditions;
    let deleting = condition::find(conditions, condition::DELETING_RESOURCES).unwrap();
    assert_eq!((deleting.status.as_str(), deleting.reason.as_str()), ("True", "ForcefulDeletion"));
    let held = world.pod(1, |pod| pod.held_by_finalizers = true);
    assert!(!held.decide(620).actions.contains(&forced), "force can do no more");
}

/// The component is to go since second 30, and is force-deleted after so many seconds.
fn stuck(grace: u64) -> World {
    going().limits(|limits| limits.forceful_deletion_grace = Period::from_secs(grace))
}

#[test]
fn what_is_force_deleted_is_deleted_again_at_growing_intervals() {
    for (grace, second, again) in
        [(0, 31, 36), (0, 50, 70), (0, 900, 960), (600, 631, 636), (86_400, 86_431, 86_436)]
    {
        let decision = stuck(grace).settled(second).decide(second);
        let target = Target { component: 1, uid: "uid-b".into() };
        assert_eq!(decision.actions[0], Action::ForceDelete(target), "{grace} {second}");
        assert_eq!(decision.requeue, Some(at(again)), "{grace} {second}");
    }
}

#[test]
fn what_keeps_a_component_from_going_is_named() {
    let named = |status: &crate::api::AppWrapperStatus| {
        let conditions = &status.component_status[1].conditions;
        let found = condition::find(conditions, condition::DELETING_RESOURCES);
        found.map(|it| format!("{} {}: {}", it.status, it.reason, it.message))
    };
    let world = stuck(600).pod(1, |pod| pod.finalizers = vec!["x.io/keep".into()]);
    let early = world.settled(39);
    assert_eq!((named(&early.snapshot.status), early.decide(39).requeue), (None, Some(at(40))));
    let mut world = early;
    for (second, reason) in [(40, "DeletionInitiated"), (630, "ForcefulDeletion")] {
        let decision = world.decide(second);
        let pods = "Pod/b-0 on node node-1 (finalizers x.io/keep), Pod/b-1 on node node-1, Job/b";
        let message = format!("Waiting for {pods}");
        assert_eq!(named(&decision.status), Some(format!("True {reason}: {message}")));
        let events: Vec<(&str, &str)> =
            decision.events.iter().map(|it| (it.reason, it.message.as_str())).collect();
        assert_eq!(events, [(reason, message.as_str())], "{second}");
        let of_all = &decision.status.conditions;
        assert!(!condition::is_true(of_all, condition::DELETING_RESOURCES), "it runs");
        world = world.written(&decision);
        let again = world.decide(second + 1);
        assert_eq!((again.status, again.events), (world.snapshot.status.clone(), vec![]));
    }
    let torn_down = world.clone().suspended(true).decide(640);
    assert_eq!(named(&torn_down.status), None, "the condition of the AppWrapper says it");
    assert_eq!(torn_down.status.since.unwrap().deleting.map(|it| it.0), Some(at(640)));
    let gone = without_b(world).answered(FreshRead::Gone).decide(650);
    assert_eq!(named(&gone.status), None);
}

#[test]
fn a_pod_that_may_be_of_a_component_that_is_gone_is_named() {
    let mut world = without_b(stuck(600).settled(31)).answered(FreshRead::Gone);
    let named = vec![("b-x".to_owned(), "its owner is gone".to_owned())];
    world.snapshot.undetermined = Undetermined { count: 1, named, ..Undetermined::default() };
    let early = world.decide(39);
    assert_eq!((early.actions.len(), early.requeue), (0, Some(at(40))));
    let decision = world.decide(40);
    let conditions = &decision.status.component_status[1].conditions;
    let found = condition::find(conditions, condition::DELETING_RESOURCES).unwrap();
    let pod = "Pod/b-x, which has the labels of this AppWrapper (its owner is gone)";
    let said = ("True", "UndeterminedPods", format!("Waiting for {pod}"));
    assert_eq!((found.status.as_str(), found.reason.as_str(), found.message.clone()), said);
    assert_eq!((decision.events[0].reason, &decision.events[0].message), (said.1, &said.2));
    let mut world = world.written(&decision);
    let again = world.decide(50);
    assert_eq!((&again.status, again.events.len()), (&world.snapshot.status, 0), "said once");
    world.snapshot.undetermined = Undetermined::default();
    let status = world.decide(60).status;
    assert!(
        condition::find(&status.component_status[1].conditions, condition::DELETING_RESOURCES)
            .is_none()
    );
}

/// Jobs `a`, which is recreated uncounted, `b`, counted, and `c`, uncounted; those of these indexes fail one after the other.
fn both(order: &[usize]) -> World {
    let policy = "failurePolicy: {rules: [\
        {action: RecreateComponent, targetComponents: [b]}, \
        {action: RecreateComponentAndIgnoreMaxRestarts}]}";
    let world = running(&["Job/a:1", "Job/b:1", "Job/c:1"]).spec(policy);
    let world = world.ready(0, 1).ready(1, 1).ready(2, 1);
    order.iter().fold(world.settled(2), |world, index| {
        world.fails(*index, "BackoffLimitExceeded", "", 20).settled(30)
    })
}

fn gone(world: World, index: usize, second: i64) -> World {
    let mut world = world.component(index, |component| component.presence = Presence::Absent);
    world.snapshot.pods.retain(|pod| pod.component != Some(index));
    world.answered(FreshRead::Gone).settled(second)
}

fn back(world: World, index: usize, second: i64) -> World {
    let object = Object { uid: format!("new-{index}"), attempt: Some(0), ..Object::default() };
    let world =
        world.component(index, |component| component.presence = Presence::Present(object.clone()));
    world.with(ready(index)).settled(second)
}

#[test]
fn the_pause_of_an_uncounted_recreation_is_that_of_its_component() {
    let creates = |world: &World, second| {
        let actions = world.decide(second).actions;
        actions.into_iter().filter(|it| matches!(it, Action::Create(_))).collect::<Vec<_>>()
    };
    for order in [[0, 1], [1, 0]] {
        let a_first = gone(gone(both(&order), 0, 40), 1, 50);
        let b_first = gone(gone(both(&order), 1, 40), 0, 40);
        for world in [a_first, b_first] {
            assert_eq!(creates(&world, 51), [Action::Create(1)], "{order:?}: b does not wait");
            let alone = back(world, 1, 60);
            assert_eq!(creates(&alone, 61), [], "{order:?}: a does");
            assert_eq!(alone.says_at(129), "Wait 130", "{order:?}");
            assert_eq!(creates(&alone, 130), [Action::Create(0)], "{order:?}");
            let all = back(alone, 0, 140);
            assert_eq!(all.snapshot.status.retry_after, None, "{order:?}");
        }
    }
}

#[test]
fn components_of_one_name_have_pauses_of_their_own() {
    let policy = "failurePolicy: {rules: [\
        {action: RecreateComponent, targetComponents: [PyTorchJob/a]}, \
        {action: RecreateComponentAndIgnoreMaxRestarts}]}";
    let world = running(&["Job/a:1", "PyTorchJob/a:1"]).spec(policy).ready(0, 1).ready(1, 1);
    let world = world.pod(1, |pod| pod.uid = "pod-of-1".into()).settled(2);
    let failing =
        |world: World, index| world.fails(index, "BackoffLimitExceeded", "", 20).settled(30);
    let both_gone = gone(gone(failing(failing(world, 0), 1), 0, 40), 1, 50);
    let failures = both_gone.snapshot.status.attempts.iter().filter_map(|one| one.failure.as_ref());
    let names: Vec<_> = failures.map(|failure| failure.component.as_deref()).collect();
    assert_eq!(names, [Some("Job/a"), Some("PyTorchJob/a")]);
    let creates = |world: &World, second| {
        let actions = world.decide(second).actions;
        actions.into_iter().filter(|it| matches!(it, Action::Create(_))).collect::<Vec<_>>()
    };
    assert_eq!(creates(&both_gone, 51), [Action::Create(1)], "the PyTorchJob does not wait");
    let alone = back(both_gone, 1, 60);
    assert_eq!(alone.says_at(129), "Wait 130", "the Job does");
    assert_eq!(creates(&alone, 130), [Action::Create(0)]);
}

#[test]
fn components_that_pause_at_one_time_share_the_later_end() {
    let world = gone(gone(both(&[0, 2]), 0, 40), 2, 50);
    assert_eq!(world.says_at(139), "Wait 140");
    let created = world.decide(140).actions;
    assert_eq!(created, [Action::Create(0), Action::Create(2)]);
    // an object may be seen that was created before the pause was
    let one = back(world, 0, 60);
    assert_eq!(one.says_at(61), "Wait 140");
    assert_eq!(back(one, 2, 141).snapshot.status.retry_after, None);
}
