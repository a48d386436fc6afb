//! Nodes that are lost: when their pods count as lost, what that is counted as, and when force is used.

use k8s_openapi::jiff::Timestamp;

use super::given::{World, at, given, pod};
use crate::api::{AttemptAction, Phase, condition};
use crate::decide::Decision;
use crate::decide::VerdictAction::{self, Handle};
use crate::plan::{Action, FreshRead};
use crate::snapshot::lost::{Loss, Lost};
use crate::snapshot::{Node, Pod, PodCondition, PodPhase};

use PodPhase::{Failed as FailedPod, Pending, Running as RunningPod};

const TWO: [PodPhase; 2] = [RunningPod, RunningPod];

impl World {
    /// What became of a node, and since when.
    fn node(mut self, name: &str, lost: impl Into<Option<(Lost, Option<Timestamp>)>>) -> Self {
        let lost = lost.into().map(|(state, since)| Loss { state, since });
        self.snapshot.nodes.insert(name.into(), Node { lost, ..Node::default() });
        self.snapshot.mark_failed_pods();
        self
    }
}

fn not_ready(second: i64) -> (Lost, Option<Timestamp>) {
    (Lost::NotReady, Some(at(second)))
}

/// Two pods that run since second 0, each on a node of its own, of which the first is lost.
fn lost(state: Lost, since: Option<i64>) -> World {
    let world = ready(&TWO);
    world.node("node-1", Some((state, since.map(at))))
}

fn ready(pods: &[PodPhase]) -> World {
    let world = given(Phase::Running).pods(pods).pod(1, |pod| pod.node = Some("node-2".into()));
    let decision = world.decide(2);
    world.written(&decision)
}

fn reason(decision: &Decision) -> Option<&str> {
    let unhealthy = condition::find(&decision.status.conditions, condition::UNHEALTHY)?;
    (unhealthy.status == "True").then_some(unhealthy.reason.as_str())
}

#[test]
fn a_pod_of_a_lost_node_is_a_failed_pod_from_the_moment_of_its_node() {
    for (state, since, due) in [
        (Lost::NotReady, Some(100), 160),
        (Lost::Unreachable, Some(100), 160),
        (Lost::OutOfService, Some(100), 160),
        (Lost::OutOfService, None, 163), // seen at 103
        (Lost::Deleted, None, 163),
        (Lost::Unreachable, Some(500), 163), // a clock that runs ahead
    ] {
        let world = lost(state, since);
        let decision = world.decide(103);
        assert_eq!(reason(&decision), Some("FoundFailedPods"), "{state:?}");
        let failure = decision.verdict.failure.clone().unwrap();
        assert_eq!(failure.reason.as_deref(), Some(state.as_str()));
        assert_eq!(failure.category.as_deref(), Some("node"));
        assert_eq!(failure.node.as_deref(), Some("node-1"));
        assert_eq!(failure.exit_code, None);
        assert_eq!(decision.verdict.deadline, Some(at(due)), "{state:?} since {since:?}");
        assert!(!condition::is_true(&decision.status.conditions, condition::PODS_READY));
        let world = world.written(&decision);
        assert_eq!(world.decide(due - 1).next, Phase::Running);
        let decision = world.decide(due);
        assert_eq!(decision.next, Phase::Resetting);
        assert_eq!(decision.status.resetting_count, 1);
        let attempt = decision.status.attempts.last().unwrap();
        assert_eq!(attempt.collateral, Some(0));
        assert!(reason(&decision).is_some());
    }
}

#[test]
fn a_node_that_is_back_in_time_has_lost_nothing() {
    let world = lost(Lost::Unreachable, Some(100));
    let world = world.clone().written(&world.decide(103)).node("node-1", None);
    let decision = world.decide(150);
    assert_eq!((decision.next, reason(&decision)), (Phase::Running, None));
    assert!(condition::is_true(&decision.status.conditions, condition::PODS_READY));
    let world = world.written(&decision).node("node-1", Some(not_ready(300)));
    assert_eq!(world.decide(301).verdict.deadline, Some(at(360)), "a second time is another one");
}

#[test]
fn many_pods_of_a_node_are_one_failure_also_when_they_are_seen_one_by_one() {
    let pods = [RunningPod; 2];
    let world = given(Phase::Running).pods(&pods);
    let world = world.clone().written(&world.decide(2)).node("node-1", Some(not_ready(100)));
    let world = world.clone().written(&world.decide(101));
    // one is evicted and collected meanwhile, the other hangs
    let world = world.pod(0, |pod| {
        *pod = super::given::pod(0, FailedPod);
        pod.containers.clear();
        pod.conditions = vec![PodCondition {
            kind: "DisruptionTarget".into(),
            status: "True".into(),
            reason: "DeletionByPodGC".into(),
            since: Some(at(130)),
            ..PodCondition::default()
        }];
    });
    let world = world.pod(1, |pod| pod.terminating = true).node("node-1", Some(not_ready(100)));
    let decision = world.decide(160);
    assert_eq!((decision.next, decision.status.resetting_count), (Phase::Resetting, 1));
    assert_eq!(decision.status.attempts.last().unwrap().collateral, Some(1));
}

#[test]
fn a_terminating_pod_of_a_lost_node_is_not_waited_for() {
    let terminating = ready(&TWO).pod(0, |pod| pod.terminating = true);
    assert_eq!(terminating.decide(4000).next, Phase::Running, "its node is well: it will go");
    let lost = terminating.node("node-1", Some(not_ready(100)));
    assert_eq!(lost.decide(101).verdict.deadline, Some(at(160)));
    assert_eq!(lost.decide(160).next, Phase::Resetting);
}

#[test]
fn a_pod_that_was_replaced_is_no_failure_and_ages_none() {
    let world = ready(&TWO).node("node-1", Some(not_ready(100)));
    let world = world.clone().written(&world.decide(101));
    let mut replaced = world.pod(0, |pod| pod.terminating = true);
    replaced.snapshot.pods.push(crate::snapshot::Pod {
        name: "work-2".into(),
        uid: "pod-2".into(),
        node: Some("node-3".into()),
        ..pod(2, RunningPod)
    });
    let decision = replaced.decide(150);
    assert_eq!((decision.next, reason(&decision)), (Phase::Running, None));
    let replaced = replaced.written(&decision);
    assert_eq!(replaced.decide(4000).verdict.action, VerdictAction::None);
    let again = replaced.clone().node("node-2", Some(not_ready(5000)));
    assert_eq!(again.decide(5001).verdict.deadline, Some(at(5060)));
    let waits = replaced.clone().pod(1, |pod| pod.phase = Pending);
    assert_eq!(waits.decide(5001).verdict.reason.as_deref(), Some("InsufficientPodsReady"));
    let drained = replaced.pod(1, |pod| pod.terminating = true);
    assert_eq!(drained.decide(5001).verdict.action, VerdictAction::None, "it is waited for");
}

#[test]
fn the_failure_of_another_component_ages_no_lost_pod() {
    use super::policies::build::{failed, ready as up, running};
    let world = running(&["Job/a:1", "Job/b:1"]).with(up(0)).with(up(1));
    let world = world.pod(1, |pod| pod.node = Some("node-2".into()));
    let world = world.clone().written(&world.decide(2)).pod_is(0, failed(0).at(20));
    let world = world.clone().written(&world.decide(20));
    let world = world.node("node-2", Some((Lost::Deleted, None)));
    let both = world.decide(70);
    assert_eq!((both.next, both.verdict.deadline), (Phase::Running, Some(at(80))));
    let replaced = world.written(&both).with(up(0));
    let decision = replaced.decide(75);
    assert_eq!((decision.next, decision.verdict.deadline), (Phase::Running, Some(at(130))));
    let later = replaced.written(&decision);
    assert_eq!(later.decide(100).status, later.snapshot.status, "it does not move");
    let next = |second| later.decide(second).next;
    assert_eq!((next(129), next(130)), (Phase::Running, Phase::Resetting));
}

#[test]
fn a_pod_that_goes_later_does_not_move_the_moment_of_a_loss() {
    let world = ready(&TWO).node("node-1", Some((Lost::Deleted, None)));
    let first = world.decide(100);
    assert_eq!(first.verdict.deadline, Some(at(160)));
    let going = world.written(&first).pod(1, |pod| {
        pod.terminating = true;
        (pod.deletion_requested, pod.due_to_go) = (Some(at(110)), Some(at(150)));
    });
    let going = going.clone().written(&going.decide(110));
    let replaced = going.pod(1, |it| {
        let (node, created) = (Some("node-3".into()), Some(at(150)));
        *it = Pod { node, created, ..pod(2, RunningPod) };
    });
    let replaced = replaced.clone().written(&replaced.decide(150));
    assert_eq!(replaced.decide(151).verdict.deadline, Some(at(160)));
    let next = |second| replaced.decide(second).next;
    assert_eq!((next(159), next(160)), (Phase::Running, Phase::Resetting));
}

/// A watch may show a pod that runs before it shows that the other's node is lost.
#[test]
fn a_node_lost_just_before_the_pod_set_was_ready_is_not_overlooked() {
    let world = given(Phase::Running).pods(&TWO).pod(1, |pod| pod.node = Some("node-2".into()));
    let world = world.clone().written(&world.decide(7)).node("node-1", Some(not_ready(5)));
    assert_eq!(world.decide(8).verdict.deadline, Some(at(68)), "from when it was seen");
}

#[test]
fn a_pod_that_ended_before_is_what_it_was() {
    let world = given(Phase::Running).pods(&[FailedPod, RunningPod]);
    let world =
        world.pod(1, |pod| pod.node = Some("node-2".into())).node("node-1", Some(not_ready(50)));
    let failure = world.decide(60).verdict.failure.unwrap();
    assert_eq!((failure.exit_code, failure.category.as_deref()), (Some(3), Some("application")));
}

#[test]
fn a_rule_restarts_at_once_only_where_the_node_will_not_be_back() {
    let rules = "{rules: [{action: Retry, onFailureCategory: [node]}], defaultAction: Fail}";
    for (state, want) in [
        (Lost::NotReady, Phase::Running),
        (Lost::Unreachable, Phase::Running),
        (Lost::OutOfService, Phase::Resetting),
        (Lost::Deleted, Phase::Resetting),
    ] {
        let world = lost(state, Some(100)).retry_policy("infra", rules);
        let world = world.object(|object| object.report.unreplaced = [0].into());
        let decision = world.decide(101);
        assert_eq!(decision.next, want, "{state:?}");
        if want == Phase::Running {
            assert_eq!(decision.verdict.deadline, Some(at(160)));
        }
        let decision = world.decide(160);
        assert_eq!(decision.next, Phase::Resetting);
        assert_eq!(decision.status.retry_counts[0].count, 1);
    }
}

/// Two wrapped Pods on one node; a component that failed is created again.
fn two_components() -> World {
    on_one_node(&["Pod/a", "Pod/b"])
}

/// Two components, each with a pod on one node; one that failed is created again.
fn on_one_node(components: &[&str]) -> World {
    use super::policies::build::{ready as up, running};
    let spec = "failurePolicy: {maxRestarts: 1, rules: [{action: RecreateComponent}]}";
    let world = running(components).with(up(0)).with(up(1)).spec(spec);
    let mut world = world.clone().written(&world.decide(2));
    world.snapshot.pods.iter_mut().for_each(|pod| pod.node = Some("node-1".into()));
    world
}

#[test]
fn a_node_with_two_components_is_counted_once() {
    let world = two_components().node("node-1", Some((Lost::Deleted, None)));
    let first = world.decide(100);
    assert_eq!(first.verdict.action, Handle(AttemptAction::RecreateComponent));
    assert_eq!((first.verdict.counted, first.status.resetting_count), (Some(true), 1));
    let world = world.written(&first);
    let second = world.decide(102);
    let recreates = Handle(AttemptAction::RecreateComponent);
    assert_eq!(second.verdict.action, recreates, "no limit stops it");
    assert_eq!((second.verdict.counted, second.status.resetting_count), (Some(false), 1));
    assert_eq!(second.status.attempts.iter().filter(|one| one.outcome.is_some()).count(), 2);
}

#[test]
fn a_node_is_counted_once_whatever_its_category_is_called() {
    use super::policies::build::failed;
    let config = "failureCategories: [{name: infra, onConditions: [NodeLost]}]";
    let world = on_one_node(&["Pod/a", "Pod/b"]).configured(config);
    let ended = |world: World, index: usize| {
        let target = PodCondition {
            kind: "DisruptionTarget".into(),
            status: "True".into(),
            reason: "DeletionByTaintManager".into(),
            ..PodCondition::default()
        };
        let (containers, conditions) = (failed(0).containers, vec![target]);
        let running = world.snapshot.pods[index].clone();
        let pod = Pod { phase: FailedPod, containers, conditions, ..running };
        world.pod_is(index, pod.at(100))
    };
    let world = ended(ended(world, 0), 1);
    let first = world.decide(100);
    let failure = first.verdict.failure.as_ref().unwrap();
    assert_eq!(failure.category.as_deref(), Some("infra"));
    assert_eq!((first.verdict.counted, first.status.resetting_count), (Some(true), 1));
    let second = world.written(&first).decide(102);
    let recreates = Handle(AttemptAction::RecreateComponent);
    assert_eq!(second.verdict.action, recreates, "no limit stops it");
    assert_eq!((second.verdict.counted, second.status.resetting_count), (Some(false), 1));
}

#[test]
fn a_node_is_counted_once_also_if_components_share_a_name() {
    let world = on_one_node(&["Pod/a", "Job/a:1"]);
    let world = world.node("node-1", Some((Lost::Deleted, Some(at(100)))));
    let first = world.decide(100);
    assert_eq!((first.verdict.counted, first.status.resetting_count), (Some(true), 1));
    let failure = first.verdict.failure.as_ref().unwrap();
    assert_eq!(failure.component.as_deref(), Some("Pod/a"));
    let second = world.written(&first).decide(160);
    let recreates = Handle(AttemptAction::RecreateComponent);
    assert_eq!(second.verdict.action, recreates, "no limit stops it");
    assert_eq!((second.verdict.counted, second.status.resetting_count), (Some(false), 1));
}

#[test]
fn what_a_node_was_counted_for_asks_no_limit_of_a_rule() {
    let spec = "failurePolicy: {rules: [{action: RecreateComponent, targetComponents: [a]}]}";
    let policy = "{rules: [{name: r, action: Retry, retryLimit: 1, onConditions: [NodeLost]}]}";
    let world = on_one_node(&["Job/a:1", "Job/b:1"]).spec(spec);
    let world = world.retry_policy("p", policy).used("p", "r", 1);
    let world = world.node("node-1", Some((Lost::Deleted, Some(at(100)))));
    let first = world.decide(160);
    assert_eq!(first.verdict.action, Handle(AttemptAction::RecreateComponent));
    assert_eq!((first.verdict.counted, first.status.resetting_count), (Some(true), 1));
    let second = world.written(&first).decide(161);
    assert_eq!(second.verdict.action, Handle(AttemptAction::RestartIgnoringLimit));
    assert_eq!((second.verdict.counted, second.status.resetting_count), (Some(false), 1));
    assert_eq!(second.status.retry_counts[0].count, 1);
}

/// The pod of another component that waits for its replacement does not make it free.
#[test]
fn what_fails_by_itself_after_a_node_is_counted() {
    use super::policies::build::{failed, ready as up, running};
    let spec = "failurePolicy: {maxRestarts: 3, rules: [{action: RecreateComponent, targetComponents: [a]}]}";
    let world = running(&["Pod/a", "Job/b:1"]).with(up(0)).with(up(1)).spec(spec);
    let world = world
        .clone()
        .written(&world.decide(2))
        .node("node-1", Some((Lost::Deleted, Some(at(100)))));
    let first = world.decide(100);
    assert_eq!((first.verdict.counted, first.status.resetting_count), (Some(true), 1));
    let mut world = world.written(&first);
    world.snapshot.status.component_status[0].conditions[0].status = "True".into();
    let elsewhere = Some("node-2".into());
    let moved = Pod { node: elsewhere, created: Some(at(100)), ..failed(0).at(110) };
    let world = world.pod_is(0, moved);
    let second = world.decide(160);
    assert_eq!(second.verdict.action, Handle(AttemptAction::RecreateComponent));
    assert_eq!((second.verdict.counted, second.status.resetting_count), (Some(true), 2));
}

/// What was created again since, in the same second, has died of something else.
#[test]
fn a_component_that_is_created_again_and_lost_again_is_counted_again() {
    let world = two_components().node("node-1", not_ready(100));
    let mut world = world.clone().written(&world.decide(160));
    world.snapshot.status.component_status[0].conditions[0].status = "True".into();
    let world = world.pod(0, |pod| pod.created = Some(at(160))).pod(1, |pod| pod.node = None);
    let world = world.node("node-1", not_ready(100));
    assert_eq!(world.decide(220).next, Phase::Failed, "one restart was allowed");
}

#[test]
fn a_rule_that_restarts_at_once_asks_whether_the_node_is_still_lost() {
    let rules = "{rules: [{action: Retry, onFailureCategory: [node]}], defaultAction: Fail}";
    let world = lost(Lost::OutOfService, Some(100)).retry_policy("infra", rules);
    let world = world.object(|object| object.report.unreplaced = [0].into());
    assert_eq!(world.ask(101).ask, FreshRead::Pods);
    assert_eq!(world.answered(FreshRead::Pods).ask(101).next, Phase::Resetting);
}

#[test]
fn a_node_that_is_lost_again_is_counted_again() {
    let world = two_components().node("node-1", Some(not_ready(100)));
    let first = world.decide(160);
    assert_eq!((first.verdict.counted, first.status.resetting_count), (Some(true), 1));
    let world = world.written(&first).node("node-1", Some(not_ready(500)));
    let second = world.decide(560);
    assert_eq!(second.next, Phase::Failed, "one restart was allowed");
}

/// Its pod was evicted meanwhile.
#[test]
fn a_node_that_is_back_from_a_second_loss_is_counted_again() {
    use super::policies::build::failed;
    let says = |kind: &str, status: &str, reason: &str, second: i64| PodCondition {
        kind: kind.into(),
        status: status.into(),
        reason: reason.into(),
        since: Some(at(second)),
        ..PodCondition::default()
    };
    let world = two_components().node("node-1", Some(not_ready(100)));
    let first = world.decide(160);
    assert_eq!((first.verdict.counted, first.status.resetting_count), (Some(true), 1));
    let world = world.written(&first).node("node-1", None);
    for (unready, want) in [(100, Phase::Running), (500, Phase::Failed)] {
        let target = says("DisruptionTarget", "True", "DeletionByTaintManager", 550);
        let conditions = vec![target, says("Ready", "False", "", unready)];
        let (containers, running) = (failed(0).containers, world.snapshot.pods[1].clone());
        let pod = Pod { phase: FailedPod, containers, conditions, ..running };
        let second = world.clone().pod_is(1, pod.at(550)).decide(620);
        assert_eq!(second.next, want, "not Ready since {unready}");
    }
}

/// While everything is being deleted, with a pod on a node in this state that is being deleted.
fn going_down(state: Option<Lost>) -> World {
    let world = given(Phase::Resetting).pods(&TWO).object(|object| object.terminating = true);
    let world = world.pod(0, |pod| pod.terminating = true);
    let world = world.pod(1, |pod| pod.node = Some("node-2".into()));
    world.node("node-1", state.map(|state| (state, Some(at(0)))))
}

fn forced(decision: &Decision) -> Vec<&str> {
    let name = |action: &Action| match action {
        Action::ForceDeletePod { name, .. } => Some(name.clone()),
        _ => None,
    };
    let names: Vec<String> = decision.actions.iter().filter_map(name).collect();
    names.iter().map(|name| if name == "work-0" { "work-0" } else { "work-1" }).collect()
}

#[test]
fn force_waits_for_a_pod_that_may_still_run_and_for_no_other() {
    for (state, at_once) in [
        (None, false),
        (Some(Lost::NotReady), false),
        (Some(Lost::Unreachable), false),
        (Some(Lost::OutOfService), true),
        (Some(Lost::Deleted), true),
    ] {
        let world = going_down(state);
        if at_once {
            assert_eq!(world.ask(1).ask, FreshRead::Gone, "{state:?}: that must be true now");
        }
        let world = world.answered(FreshRead::Gone);
        let want: &[&str] = if at_once { &["work-0"] } else { &[] };
        assert_eq!(forced(&world.ask(1)), want, "{state:?}");
        let late = world.clone().written(&world.ask(600)); // it is told first
        assert_eq!(forced(&late.ask(600)), ["work-0", "work-1"], "{state:?}: the grace is over");
        let untouched = world.pod(0, |pod| pod.terminating = false);
        assert!(forced(&untouched.ask(1)).is_empty(), "it goes in the ordinary way first");
    }
}

#[test]
fn what_is_safe_to_force_delete_goes_at_once_on_a_lost_node_alone() {
    for (state, want) in [
        (None, &[][..]),
        (Some(Lost::NotReady), &["work-0"][..]),
        (Some(Lost::Unreachable), &["work-0"][..]),
    ] {
        let safe = going_down(state).pod(0, |pod| pod.safe_to_force_delete = true);
        let world = safe.clone().answered(FreshRead::Gone);
        assert_eq!(forced(&world.ask(1)), want, "{state:?}");
        if state.is_some() {
            assert_eq!(safe.ask(1).ask, FreshRead::Gone, "{state:?}: that must be true now");
        }
    }
}

#[test]
fn what_blocks_a_deletion_is_told_with_its_node() {
    for (state, want) in [
        (None, "Waiting for Pod/work-0 on node node-1, Pod/work-1 on node node-2"),
        (
            Some(Lost::NotReady),
            "Pod/work-0 on node node-1, which has not been ready since 2027-01-15T08:00:00Z \
             (once the machine is off: \
             kubectl taint node node-1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute)",
        ),
        (
            Some(Lost::Unreachable),
            "node-1, which has been unreachable since 2027-01-15T08:00:00Z (",
        ),
        (
            Some(Lost::OutOfService),
            "node-1, which has been out of service since 2027-01-15T08:00:00Z,",
        ),
        (Some(Lost::Deleted), "node-1, which has not existed since 2027-01-15T08:00:00Z,"),
    ] {
        let world = going_down(state).answered(FreshRead::Gone);
        for second in [30, 600] {
            let decision = world.ask(second);
            let deleting = condition::DELETING_RESOURCES;
            let told = condition::find(&decision.status.conditions, deleting).unwrap();
            assert!(told.message.contains(want), "{}", told.message);
            assert!(decision.events.iter().any(|event| event.message == told.message));
        }
    }
}

#[test]
fn a_loss_begins_when_the_node_was_ready_last() {
    let node = |state: Option<(Lost, i64)>| {
        let lost = state.map(|(state, second)| Loss { state, since: Some(at(second)) });
        Node { lost, ..Node::default() }
    };
    let (not_ready, unreachable) = (Lost::NotReady, Lost::Unreachable);
    for (before, now, since) in [
        (None, Some((not_ready, 50)), Some(50)),
        (Some((unreachable, 50)), Some((not_ready, 100)), Some(50)),
        (Some((not_ready, 50)), Some((unreachable, 100)), Some(50)),
        (Some((not_ready, 50)), None, None),
        (Some((not_ready, 50)), Some((Lost::OutOfService, 100)), Some(100)),
        (Some((Lost::OutOfService, 50)), Some((not_ready, 100)), Some(100)),
    ] {
        let lost = node(now).after(Some(&node(before))).lost;
        assert_eq!(lost.and_then(|loss| loss.since), since.map(at), "{before:?}, {now:?}");
        assert_eq!(lost.map(|loss| loss.state), now.map(|(state, _)| state));
    }
    assert_eq!(node(Some((not_ready, 50))).after(None), node(Some((not_ready, 50))));
}
