//! What an earlier look has shown holds at a later one, when the object that showed it is gone.

use super::build::{check, failed, in_phase, pod_of, ready, running};
use crate::api::Phase;
use crate::decide::tests::given::{World, at};
use crate::snapshot::{Object, Owner, Pod, PodPhase, Presence};

fn without(world: World, index: usize) -> World {
    world.component(index, |component| component.presence = Presence::Absent)
}

/// Job `work` of two pods: one has been Pending since second 0, so that the other one, however often it is replaced, is
/// not why the pod set is not ready.
#[test]
fn a_pod_that_never_runs_is_not_given_more_time_by_others_that_fail() {
    let ignore =
        "podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [42]}}]}";
    let short = || running(&["Job/work:2"]).spec(ignore).backoff(0, 6, 1);
    let pending = |second| Pod { created: Some(at(second)), ..pod_of(0, PodPhase::Pending) };
    let later = |second| Pod { created: Some(at(second)), ..ready(0) };
    let gone = || failed(0).code(42).at(290);
    let stuck = || short().with(pending(0)).with(gone()).with(later(290));
    let going = |world: World| {
        let pod = Pod { terminating: true, deletion_requested: Some(at(250)), ..ready(0) };
        let mut world = world.with(pod).settled(251);
        assert_eq!(world.says_at(252), "None");
        world.snapshot.pods.pop();
        world.with(later(280)).settled(281)
    };
    check(vec![
        ("a pod fails", stuck(), 361, "Restart retryLimit 0 of 3"),
        (
            "the first of them is replaced only now",
            short().with(pending(290)).with(gone()).with(later(0)),
            361,
            "Wait 650",
        ),
        ("a pod is preempted", going(short().with(pending(0))), 361, "Restart retryLimit 0 of 3"),
        ("… and its successor does not run", going(short().with(pending(250))), 361, "Wait 641"),
    ]);
}

/// No controller ran until second 2400: a pod of the Job was drained, and its successor was created 10 s before.
#[test]
fn what_happened_while_no_controller_ran_is_given_its_time() {
    let world = |gap: Option<i64>| {
        let pending = Pod { created: Some(at(2390)), ..pod_of(0, PodPhase::Pending) };
        let mut world = running(&["Job/work:1"]).with(pending);
        world.snapshot.last_gap = gap.map(at);
        world
    };
    check(vec![
        ("it was not away", world(None), 2400, "Restart retryLimit 0 of 3"),
        ("it was away", world(Some(2400)), 2400, "Wait 2760"),
        ("… and the pod does not run", world(Some(2400)), 2760, "Restart retryLimit 0 of 3"),
        ("calls that fail for ever", world(Some(90_000)), 86_759, "Wait 86760"),
        ("… for too long", world(Some(90_000)), 86_760, "Restart retryLimit 0 of 3"),
    ]);
}

/// A kubelet rejects each pod of a `StatefulSet`, which deletes it and creates the next one: the second of its restart.
fn rejected_again_and_again(deletion: impl Fn(Pod) -> Pod) -> Option<i64> {
    let mut world = running(&["StatefulSet/work:1"]);
    for second in (0..400).step_by(20) {
        let next = Pod { created: Some(at(second)), ..pod_of(0, PodPhase::Pending) };
        let rejected = deletion(failed(0).at(second + 10));
        for (pod, second) in [(next, second + 1), (rejected, second + 11)] {
            world.snapshot.pods = vec![pod];
            let decision = world.decide(second);
            if decision.next == Phase::Resetting {
                return Some(second);
            }
            world = world.written(&decision);
        }
    }
    None
}

#[test]
fn pods_that_are_gone_give_those_that_never_run_no_more_time() {
    let is_seen = rejected_again_and_again(|pod| pod);
    let gone = |pod| Pod { terminating: true, gone: true, ..pod };
    assert!(is_seen.is_some());
    assert_eq!(rejected_again_and_again(gone), is_seen);
}

/// The controller was away: a pod of the Job failed, and its successor runs.
#[test]
fn a_pod_that_was_replaced_before_it_was_seen_is_asked_about_by_the_pod_failure_policy_alone() {
    let fails = "{override: true, rules: [{name: r, action: Fail, \
                 onExitCodes: {operator: In, values: [42]}}]}";
    let rule = "podFailurePolicy: {rules: [\
        {action: FailAppWrapper, onExitCodes: {operator: In, values: [42]}}]}";
    let world = || running(&["Job/work:1"]).with(failed(0).code(42)).ready(0, 1).backoff(0, 6, 1);
    let terminal = world().limits(|limits| limits.terminal_exit_codes = [42].into());
    check(vec![
        ("an exit code", terminal, 25, "None"),
        ("an overriding policy", world().overriding("p", fails), 25, "None"),
        ("a rule of podFailurePolicy", world().spec(rule), 25, "Fail podFailurePolicy#0"),
    ]);
}

#[test]
fn a_wrapped_pod_that_failed_is_decided_about_before_it_is_gone() {
    let fails = "{defaultAction: Fail}";
    let preempted = "{rules: [{name: r, action: Retry, onConditions: [Preempted], retryLimit: 1}]}";
    let evicted = |reason: &str| {
        let pod = failed(0).condition("DisruptionTarget", "True", reason);
        Pod { terminating: true, deletion_requested: Some(at(0)), ..pod }
    };
    let wrapped = |pod: Pod| running(&["Pod/work:1"]).with(pod);
    let used = wrapped(evicted("PreemptionByScheduler")).retry_policy("p", preempted);
    let job = running(&["Job/work:1"]).with(evicted("EvictionByEvictionAPI")).backoff(0, 6, 1);
    let beside = || {
        let deleted =
            Pod { terminating: true, deletion_requested: Some(at(25)), ..failed(1).at(25) };
        running(&["Job/a:1", "Pod/b:1"]).with(failed(0)).with(deleted).backoff(0, 6, 1)
    };
    check(vec![
        (
            "a default action",
            wrapped(evicted("EvictionByEvictionAPI")).retry_policy("p", fails),
            21,
            "Fail retryPolicy/p",
        ),
        ("no restart is left", used.used("p", "r", 1), 21, "Fail retryLimit/p/r#0 1 of 1"),
        (
            "the retry limit",
            wrapped(evicted("EvictionByEvictionAPI")),
            21,
            "Restart retryLimit 0 of 3",
        ),
        ("nothing deletes it", wrapped(failed(0)).retry_policy("p", fails), 21, "Wait 80"),
        (
            "it is gone, and was not seen to be deleted",
            wrapped(Pod { gone: true, ..failed(0) }).retry_policy("p", fails),
            21,
            "Fail retryPolicy/p",
        ),
        ("another pod failed before", beside().retry_policy("p", fails), 26, "Fail retryPolicy/p"),
        ("a Job replaces it", job.retry_policy("p", fails), 21, "Wait 80"),
    ]);
}

/// Jobs `a` and `b` in Resuming: `a` has succeeded, and an older object holds the name of `b`.
#[test]
fn a_component_that_succeeds_before_the_others_are_created_is_not_created_again() {
    let mut world = in_phase(Phase::Resuming, &["Job/a:1", "Job/b:1"]);
    for status in &mut world.snapshot.status.component_status {
        status.uid = None;
    }
    let held = world.object_of(1, |object| object.terminating = true);
    let going = || held.clone().succeeds(0).object_of(0, |object| object.terminating = true);
    let gone = without(going().settled(1), 0);
    let free = without(gone.clone(), 1);
    let taken = gone.clone().component(0, |component| {
        let owner = Owner::Stranger("somebody".into());
        component.presence = Presence::Present(Object { owner, ..Object::default() });
    });
    check(vec![
        ("… and its name is taken", taken, 2, "Wait 60"),
        ("its TTL deletes it", going().settled(1), 2, "Wait 60"),
        ("… and it is gone", gone.clone(), 2, "Wait 60"),
        ("one that has not succeeded", without(held.clone().settled(1), 0), 2, "Deploy"),
    ]);
    assert_eq!(free.decide(2).verdict.create, [1]);
    let up = free
        .object_of(1, |_| {})
        .component(1, |one| one.presence = going().snapshot.components[1].presence.clone());
    let up = up.object_of(1, |object| object.terminating = false).settled(3);
    let status = &up.snapshot.status;
    assert_eq!(
        (status.phase, status.component_status[0].uid.as_deref()),
        (Phase::Running, Some("uid-a"))
    );
    check(vec![("it is not missed either", up.ready(1, 1), 4, "None")]);
}
