//! Kueue replaces a failed node: the failure waits.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::build::{failed, pod_of, ready, running};
use crate::api::{AttemptAction, Phase, PodSetSince, condition};
use crate::decide::VerdictAction::Handle;
use crate::decide::tests::given::{World, at};
use crate::kueue::WaitForPodsReady;
use crate::snapshot::workload::{Workload, WorkloadRead};
use crate::snapshot::{Node, Pod, PodCondition, PodPhase};
use crate::tuning::Period;

const IGNORE: &str = "podFailurePolicy: {rules: [\
    {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";

/// A Job of two pods; one was deleted with its node at second 20, and the Job replaces it.
fn evicted(reason: &str) -> World {
    evicted_among(&["Job/work:2"], reason)
}

/// The same, and other components.
fn evicted_among(components: &[&str], reason: &str) -> World {
    let target = PodCondition {
        kind: "DisruptionTarget".into(),
        status: "True".into(),
        reason: reason.into(),
        ..PodCondition::default()
    };
    let pod = failed(0).code(137);
    let pod = Pod { conditions: vec![target], ..pod };
    let mut world = running(components).with(ready(0)).with(pod);
    world.snapshot.queue_managed = true;
    world.snapshot.replaces_failed_nodes = true;
    world
}

fn replacing(mut world: World, nodes: &[&str]) -> World {
    let unhealthy_nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    world.snapshot.workload =
        WorkloadRead::Found(Workload { unhealthy_nodes, ..Workload::default() });
    world
}

/// Kueue replaces the node, and evicts at second 1800.
fn held(world: World) -> World {
    let mut world = replacing(world, &["node-1"]);
    let timeout = Period::from_secs(1800);
    world.snapshot.wait_for_pods_ready = Some(WaitForPodsReady { timeout, recovery_timeout: None });
    world
}

#[test]
fn while_kueue_replaces_the_node_the_failure_waits() {
    let lost = || evicted("DeletionByTaintManager");
    let asked = lost().decide(80);
    assert!(asked.ask_workload, "{asked:?}");
    assert!(!lost().decide(79).ask_workload, "only when it is decided");
    let waits = replacing(lost(), &["node-1"]).decide(80);
    assert_eq!((waits.next, waits.requeue), (Phase::Running, Some(at(90))), "it is read again");
    assert_eq!(waits.status.resetting_count, 0);
    for (what, world) in [
        ("no replacement was begun", replacing(lost(), &[])),
        ("another node", replacing(lost(), &["node-2"])),
        ("no failure of a node", replacing(evicted("PreemptionByScheduler"), &["node-1"])),
    ] {
        let decision = world.decide(80);
        assert_eq!(
            (decision.next, decision.status.resetting_count),
            (Phase::Resetting, 1),
            "{what}"
        );
    }
    let mut off = lost();
    off.snapshot.replaces_failed_nodes = false;
    assert_eq!(off.decide(80).next, Phase::Resetting, "as without Kueue");
}

#[test]
fn once_kueue_has_found_a_node_the_new_pod_is_waited_for_and_where_it_found_none_is_not() {
    let placed =
        || Workload { has_topology: true, holds_quota: true, active: true, ..Workload::default() };
    let created = |second| Pod { created: Some(at(second)), ..pod_of(0, PodPhase::Pending) };
    let world = |pod: Pod, workload| {
        let mut world = evicted("DeletionByTaintManager").with(pod);
        world.snapshot.workload = WorkloadRead::Found(workload);
        world
    };
    let of_other_set = Pod { pod_set: Some(1), ..created(20) };
    for (what, world, waits) in [
        ("found", world(created(20), placed()), true),
        ("given up: evicted", world(created(20), Workload { evicted: true, ..placed() }), false),
        (
            "given up: the quota is gone",
            world(created(20), Workload { holds_quota: false, ..placed() }),
            false,
        ),
        (
            "no topology, so nobody replaces the node",
            world(created(20), Workload { has_topology: false, ..placed() }),
            false,
        ),
        ("a pod that waited before", world(created(19), placed()), false),
        ("a pod of another pod set", world(of_other_set, placed()), false),
    ] {
        let decision = world.decide(80);
        let found = (decision.next, decision.status.resetting_count, decision.requeue);
        let want = (Phase::Running, 0, Some(at(90)));
        assert_eq!(found == want, waits, "{what}: {found:?}");
        assert_eq!(world.decide(380).next, Phase::Resetting, "{what}: no longer than before");
    }
    let runs = pod_of(0, PodPhase::Running);
    let runs = world(Pod { created: Some(at(20)), ..runs }, placed()).decide(80);
    assert_eq!((runs.next, runs.status.resetting_count), (Phase::Running, 0), "no retry is used");
}

#[test]
fn it_waits_no_longer_than_kueue_or_the_warm_up() {
    let world = || replacing(evicted("DeletionByTaintManager"), &["node-1"]);
    // failed at 20, a grace period of 1m, a warm-up of 5m
    assert_eq!(world().decide(379).next, Phase::Running);
    assert_eq!(world().decide(380).next, Phase::Resetting);
    let mut short = world();
    let timeout = Period::from_secs(100);
    short.snapshot.wait_for_pods_ready = Some(WaitForPodsReady { timeout, recovery_timeout: None });
    assert_eq!(short.decide(99).next, Phase::Running);
    assert_eq!(short.decide(100).next, Phase::Resetting, "Kueue evicts it by now");
}

#[test]
fn a_failure_that_nothing_replaces_does_not_wait() {
    let world = replacing(evicted("DeletionByTaintManager"), &["node-1"]);
    let decision = world.fails(0, "BackoffLimitExceeded", "", 20).decide(80);
    assert_eq!(decision.next, Phase::Resetting);
}

#[test]
fn a_failure_that_kueue_does_not_make_up_for_is_decided_about() {
    let lost = |components: &[&str]| held(evicted_among(components, "DeletionByTaintManager"));
    let pod = |second| lost(&["Job/work:2", "Pod/b:1"]).with(failed(1).at(second).on("node-2"));
    let crashed = || failed(0).code(1).at(22).on("node-2");
    let waiting = || pod_of(1, PodPhase::Pending);
    let refused = waiting().condition("PodScheduled", "False", "Unschedulable");
    let replacement = Pod { component: Some(0), created: Some(at(25)), ..refused.clone() };
    let no_fit = "onNoFit: {after: 2m, action: Hold}";
    let rows = vec![
        ("a wrapped Pod", pod(25), 85),
        ("… that failed first", pod(15), 75),
        ("a pod of the Job that nothing replaced", lost(&["Job/work:2"]).pod_is(0, crashed()), 82),
        ("… and that was replaced", lost(&["Job/work:2"]).with(crashed()), 1800),
        ("a pod does not run", lost(&["Job/work:2", "Job/b:1"]).with(waiting()), 360),
        ("… and finds no node", lost(&["Job/work:2", "Job/b:1"]).with(refused).spec(no_fit), 120),
        ("the new pod finds no node", lost(&["Job/work:2"]).with(replacement).spec(no_fit), 145),
    ];
    for (what, world, due) in rows {
        assert_eq!(world.decide(due - 1).next, Phase::Running, "{what}");
        assert_eq!(world.decide(due).next, Phase::Resetting, "{what}");
    }
    let waits = pod(25).decide(80);
    assert_eq!((waits.verdict.deadline, waits.requeue), (Some(at(85)), Some(at(85))));
}

#[test]
fn the_wait_goes_on_where_the_pod_that_died_is_removed() {
    let created = |second| Pod { created: Some(at(second)), ..pod_of(0, PodPhase::Pending) };
    let lost = |pods: &str| held(evicted_among(&[pods], "DeletionByTaintManager"));
    let short = PodSetSince {
        pod_set: "0-0".into(),
        ready: false,
        terminating: false,
        since: Time(at(20)),
        failed_at: None,
        replaced_until: None,
    };
    let there_since = |mut world: World, second| {
        let conditions = &mut world.snapshot.status.component_status[0].conditions;
        let reason = "ComponentCreatedSuccessfully";
        condition::set(conditions, condition::RESOURCES_DEPLOYED, true, reason, "", at(second));
        world
    };
    let gone = |second| {
        let world = lost("Job/work:2").pod_is(1, created(second));
        there_since(world.since(|since| since.pod_sets = vec![short.clone()]), 0)
    };
    let found = |has_topology| {
        let placed =
            Workload { has_topology, holds_quota: true, active: true, ..Workload::default() };
        let mut world = gone(25);
        world.snapshot.workload = WorkloadRead::Found(placed);
        world
    };
    let one_of_two = lost("Job/work:3").with(created(25)).with(created(25));
    // as `steps::arrived` writes it, of a component that was recreated
    let mut arrived = found(true);
    arrived.snapshot.status.component_status[0].conditions.clear();
    let arrived = there_since(arrived, 20);
    for (what, world, due) in [
        ("nothing of it was ever there", arrived, 380),
        ("Kueue looks for a node", gone(25), 1800),
        ("… and the pod waited before", gone(19), 380),
        ("Kueue has found a node", found(true), 1800),
        ("nobody replaces the node", found(false), 380),
        ("another pod that died is left", one_of_two, 1800),
    ] {
        assert_eq!(world.decide(due - 1).next, Phase::Running, "{what}");
        assert_eq!(world.decide(due).next, Phase::Resetting, "{what}");
    }
}

#[test]
fn the_node_that_kueue_replaces_is_named() {
    let lost = held(evicted("DeletionByTaintManager"));
    let message = lost.decide(80).verdict.message;
    assert!(message.ends_with("; Kueue looks for a replacement of node node-1"), "{message}");
}

#[test]
fn a_component_that_a_rule_recreates_waits_for_its_own_nodes_alone() {
    let rule = "failurePolicy: {rules: [{action: RecreateComponent, targetComponents: [b]}]}";
    let lost = || held(evicted_among(&["Job/work:2", "Pod/b:1"], "DeletionByTaintManager"));
    for second in [15, 25] {
        let b = failed(1).code(1).at(second).on("node-2");
        let decision = lost().with(b).spec(rule).decide(25);
        let action = decision.verdict.action;
        let found = (action, decision.next, decision.status.resetting_count);
        let want = (Handle(AttemptAction::RecreateComponent), Phase::Running, 1);
        assert_eq!(found, want, "{second}");
    }
}

#[test]
fn a_pod_that_is_ignored_waits_for_kueue_as_any_other() {
    let lost = || evicted("DeletionByTaintManager");
    for (what, world, counted) in [("a failure", lost(), 1), ("ignored", lost().spec(IGNORE), 0)] {
        let world = held(world);
        assert_eq!(world.decide(380).next, Phase::Running, "{what}: its time without Kueue");
        assert_eq!(world.decide(1799).next, Phase::Running, "{what}");
        let ended = world.decide(1800);
        let found = (ended.next, ended.status.resetting_count);
        assert_eq!(found, (Phase::Resetting, counted), "{what}");
    }
    let alone = replacing(lost().spec(IGNORE), &[]);
    assert_eq!(alone.decide(379).next, Phase::Running);
    let ended = alone.decide(380);
    assert_eq!((ended.next, ended.status.resetting_count), (Phase::Resetting, 0));
    assert_eq!(ended.status.uncounted_restarts, 1);
}

#[test]
fn a_rule_that_fails_does_not_depend_on_whether_kueue_was_faster() {
    let by_user = "podFailurePolicy: {rules: [{action: FailAppWrapper, \
                   onPodConditions: [{type: DisruptionTarget}]}]}";
    let by_admin = |overrides: &str, action: &str| {
        format!(
            "{{{overrides} rules: [{{name: lost, action: {action}, onConditions: [NodeLost]}}]}}"
        )
    };
    let lost = || evicted("DeletionByTaintManager");
    let policy = |overrides, action| lost().retry_policy("p", &by_admin(overrides, action));
    let forbidden = "retryPolicy: {globalMaxRetries: 0}";
    for (what, world, next) in [
        ("podFailurePolicy", lost().spec(by_user), Phase::Failed),
        ("an overriding RetryPolicy", policy("override: true,", "Fail"), Phase::Failed),
        ("a RetryPolicy", policy("", "Fail"), Phase::Failed),
        ("a rule that retries waits", policy("", "Retry"), Phase::Running),
        ("so does a limit", lost().retries(3), Phase::Running),
        ("and the kill switch, which is no rule", lost().configured(forbidden), Phase::Running),
    ] {
        let marked = replacing(world, &["node-1"]);
        assert_eq!(marked.decide(80).next, next, "{what}");
    }
}

#[test]
fn a_node_that_is_marked_is_evacuated_while_another_is_replaced() {
    let marked = |world: World| {
        let mut world = world.pod(0, |pod| {
            pod.node = Some("node-2".into());
            pod.resources = Arc::new(["nvidia.com/gpu".to_owned()].into());
        });
        let no_execute = ["nvidia.com/gpu".to_owned()].into();
        world.snapshot.nodes.insert("node-2".into(), Node { no_execute, ..Node::default() });
        world
    };
    let lost = || evicted("DeletionByTaintManager");
    let fatal = "podFailurePolicy: {rules: [{action: FailAppWrapper, \
                 onPodConditions: [{type: DisruptionTarget}]}]}";
    let none: [&str; 0] = [];
    for (what, world, second, next, counted) in [
        (
            "in the grace of the failure",
            replacing(lost(), &["node-1"]),
            79,
            Phase::Resetting,
            Some(false),
        ),
        (
            "while Kueue replaces the node",
            replacing(lost(), &["node-1"]),
            80,
            Phase::Resetting,
            Some(false),
        ),
        ("Kueue replaces none", replacing(lost(), &none), 80, Phase::Resetting, Some(true)),
        ("a rule fails it", replacing(lost().spec(fatal), &["node-1"]), 80, Phase::Failed, None),
    ] {
        let decision = marked(world).decide(second);
        assert_eq!((decision.next, decision.verdict.counted), (next, counted), "{what}");
    }
}
