//! What ends a pod, and what `podFailurePolicy` and categories see of it: the review in KEP-3329.

use super::build::{check, container, failed, pod_of, running, runs};
use crate::decide::tests::given::World;
use crate::snapshot::{Pod, PodPhase};

const BY_CONDITION: &str = "{action: FailAppWrapper, onPodConditions: [{type: DisruptionTarget}]}";
const BY_CODE: &str = "{action: FailAppWrapper, onExitCodes: {operator: In, values: [42, 137]}}";

fn policy(rules: &[&str]) -> String {
    format!("podFailurePolicy: {{rules: [{}]}}", rules.join(", "))
}

fn disrupted(reason: &str) -> Pod {
    failed(0).code(137).condition("DisruptionTarget", "True", reason)
}

fn empty(pod: Pod) -> Pod {
    Pod { containers: vec![], ..pod }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn what_ends_a_pod_is_told_by_condition_by_code_and_by_category() {
    let leaving = |pod: Pod| Pod { terminating: true, ..pod };
    let killed = |reason| failed(0).ended(container("main", 137, reason, "", 20));
    let lost = |reason| empty(disrupted(reason));
    for (what, pod, by_condition, by_code, category) in [
        ("preemption", leaving(disrupted("PreemptionByScheduler")), true, true, "preempted"),
        ("a taint", leaving(disrupted("DeletionByTaintManager")), true, true, "node"),
        ("a drain", leaving(disrupted("EvictionByEvictionAPI")), true, true, "evicted"),
        (
            "pressure of the node",
            disrupted("TerminationByKubelet").because("Evicted"),
            true,
            true,
            "evicted",
        ),
        ("memory limit, Linux", killed("OOMKilled"), false, true, "oom"),
        ("memory limit, Windows", failed(0).code(1), false, false, "application"),
        ("storage limit", killed("Error").because("Evicted"), false, true, "evicted"),
        (
            "shutdown of the node",
            disrupted("TerminationByKubelet").because("Terminated"),
            true,
            true,
            "evicted",
        ),
        ("refused admission", empty(failed(0)).because("Evicted"), false, false, "evicted"),
        ("the node was deleted", lost("DeletionByPodGC"), true, false, "node"),
        ("the node was lost", empty(failed(0)).because("NodeLost"), false, false, "node"),
        ("a container was killed", killed("Error"), false, true, "application"),
        (
            "deadline of the pod",
            empty(failed(0)).because("DeadlineExceeded"),
            false,
            false,
            "deadline",
        ),
        (
            "the kubelet admits a critical pod",
            disrupted("TerminationByKubelet").because("Preempting"),
            true,
            true,
            "evicted",
        ),
        ("… in older releases", empty(failed(0)).because("Preempting"), false, false, "unknown"),
        (
            "a stale condition, and an error of the program",
            disrupted("EvictionByEvictionAPI").code(1),
            true,
            false,
            "evicted",
        ),
    ] {
        let world = running(&["Job/work:1"]).with(pod).fails(0, "BackoffLimitExceeded", "", 25);
        let matches = |rule| match world.clone().spec(&policy(&[rule])).says_at(25).as_str() {
            "Fail podFailurePolicy#0" => true,
            // on to the later stages, counted
            "Restart retryLimit 0 of 3" => false,
            other => panic!("{what}: {other}"),
        };
        assert_eq!((matches(BY_CONDITION), matches(BY_CODE)), (by_condition, by_code), "{what}");
        let failure = world.decide(25).verdict.failure.unwrap();
        assert_eq!(failure.category.as_deref(), Some(category), "{what}");
    }
}

#[test]
fn a_pod_that_has_not_failed_is_judged_by_nobody() {
    let world = |pod| {
        let world = running(&["Job/work:2"]).spec(&policy(&[BY_CONDITION, BY_CODE]));
        world.ready(0, 1).with(pod)
    };
    let is = |phase, pod: Pod| Pod { phase, ..pod };
    let leaving = |pod: Pod| Pod { terminating: true, ..pod };
    let target = |phase| pod_of(0, phase).condition("DisruptionTarget", "True", "Any");
    // the kubelet restarts this one's container
    let again = || pod_of(0, PodPhase::Running).code(42).and(runs("side"));
    let handled = target(PodPhase::Succeeded).code(0);
    check(vec![
        ("Pending: its graces", world(target(PodPhase::Pending)), 359, "Wait 360"),
        ("… are over", world(target(PodPhase::Pending)), 360, "Restart retryLimit 0 of 3"),
        ("Pending, Terminating", world(leaving(target(PodPhase::Pending))), 9000, "None"),
        ("Running, Terminating", world(leaving(target(PodPhase::Running))), 9000, "None"),
        ("its node is lost", world(target(PodPhase::Running).because("NodeLost")), 9000, "None"),
        ("a container ended", world(again()), 9000, "None"),
        ("… and the pod is Terminating", world(leaving(again())), 9000, "None"),
        ("SIGTERM was handled", world(handled), 9000, "None"),
    ]);
    let fails = |pod| world(is(PodPhase::Failed, pod));
    check(vec![
        ("failed", fails(target(PodPhase::Pending)), 20, "Fail podFailurePolicy#0"),
        ("failed, Terminating", fails(leaving(again())), 20, "Fail podFailurePolicy#1"),
    ]);
}

#[test]
fn pods_of_every_kind_are_judged() {
    let kinds = ["Job", "JobSet", "Deployment", "StatefulSet", "LeaderWorkerSet", "PyTorchJob"];
    for kind in kinds.iter().chain(&["RayCluster", "RayJob", "Pod", "Widget"]) {
        let of = |code| -> World {
            let world = running(&[&format!("{kind}/work:1")]).spec(&policy(&[BY_CODE]));
            world.with(failed(0).code(code))
        };
        assert_eq!(of(42).says_at(20), "Fail podFailurePolicy#0", "{kind}");
        assert_eq!(of(41).says_at(20), "Wait 80", "{kind}");
    }
}

#[test]
fn the_example_with_two_containers() {
    let policy = policy(&[
        "{action: FailAppWrapper, onExitCodes: {containerName: main-job-container, \
         operator: In, values: [1, 2, 3]}}",
        "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}",
    ]);
    let world = |main, monitoring| {
        let of = |name, code| container(name, code, "Error", "", 20);
        let pod = failed(0).ended(of("main-job-container", main));
        pod.and(of("monitoring-job-container", monitoring))
    };
    let job = |pod| {
        let job = running(&["Job/work:1"]).spec(&policy).with(pod);
        job.fails(0, "BackoffLimitExceeded", "", 25)
    };
    let ends = |pod: Pod| pod.condition("DisruptionTarget", "True", "DeletionByTaintManager");
    check(vec![
        ("a code of the main container", job(world(2, 0)), 25, "Fail podFailurePolicy#0"),
        ("of the other", job(world(0, 2)), 25, "Restart retryLimit 0 of 3"),
        ("another code", job(world(4, 0)), 25, "Restart retryLimit 0 of 3"),
        ("disrupted", job(ends(world(143, 143))), 25, "RestartIgnoringLimit podFailurePolicy#1"),
        ("disrupted, but a bug", job(ends(world(1, 143))), 25, "Fail podFailurePolicy#0"),
    ]);
}
