//! What a failure says about its node, and which nodes an attempt avoids.

use std::sync::Arc;

use super::given::{World, at, given};
use super::policies::build::{container, failed, running};
use crate::api::{EvidenceKind, Phase, SuspectEffect, SuspectNodes};
use crate::config::SuspicionEffect;
use crate::snapshot::lost::{Loss, Lost};
use crate::snapshot::place::{Placement, Site};
use crate::snapshot::{Node, PodPhase, PodTemplate};

const CUDA: &str = "failureCategories: [{name: cuda, onTerminationMessage: {pattern: CUDA}}]\n";

/// A Job whose pod failed on `node-1`, with this message.
fn exits(code: i32, reason: &str, message: &str) -> World {
    let world = running(&["Job/work:2"]).fails(0, "BackoffLimitExceeded", "", 25);
    world.with(failed(0).ended(container("main", code, reason, message, 20)))
}

fn lost(state: Lost) -> World {
    let mut world = given(Phase::Running).pods(&[PodPhase::Running, PodPhase::Running]);
    let lost = Some(Loss { state, since: Some(at(10)) });
    world.snapshot.nodes.insert("node-1".into(), Node { lost, ..Node::default() });
    world.snapshot.mark_failed_pods();
    world
}

fn kind(world: &World) -> Option<EvidenceKind> {
    let testimony = world.decide(200).testimony?;
    assert_eq!(testimony.node, "node-1");
    Some(testimony.evidence.kind)
}

#[test]
fn a_failure_points_to_its_node_where_the_node_may_have_caused_it() {
    let hardware = format!("{CUDA}nodeSuspicion: {{hardwareCategories: [cuda]}}");
    for (what, world, want) in vec![
        ("not ready", lost(Lost::NotReady), Some(EvidenceKind::NodeLost)),
        ("unreachable", lost(Lost::Unreachable), Some(EvidenceKind::NodeLost)),
        ("out of service", lost(Lost::OutOfService), Some(EvidenceKind::NodeLost)),
        ("deleted", lost(Lost::Deleted), None),
        ("an exit code", exits(1, "Error", ""), Some(EvidenceKind::Container)),
        ("memory", exits(137, "OOMKilled", ""), None),
        ("a category", exits(1, "Error", "CUDA").configured(CUDA), Some(EvidenceKind::Container)),
        (
            "a category of hardware",
            exits(1, "Error", "CUDA").configured(&hardware),
            Some(EvidenceKind::Hardware),
        ),
        ("off", exits(1, "Error", "").configured("nodeSuspicion: {effect: \"Off\"}"), None),
        ("blind", exits(1, "Error", "").configured("autopilot: {monitorNodes: false}"), None),
    ] {
        assert_eq!(kind(&world), want, "{what}");
    }
}

#[test]
fn one_loss_of_a_node_is_one_incident_whatever_is_created_there() {
    for (created, want) in
        [(None, Some(10)), (Some(10), Some(10)), (Some(11), None), (Some(90), None)]
    {
        let mut world = lost(Lost::NotReady);
        for pod in &mut world.snapshot.pods {
            pod.created = created.map(at);
        }
        world.snapshot.mark_failed_pods();
        let time = world.decide(300).testimony.map(|told| told.evidence.time.0);
        assert_eq!(time, want.map(at), "{created:?}");
    }
}

#[test]
fn evidence_names_the_appwrapper_and_the_rank() {
    let evidence = exits(3, "Error", "").decide(200).testimony.unwrap().evidence;
    assert_eq!((evidence.namespace.as_str(), evidence.name.as_str()), ("ns", "aw"));
    assert_eq!((evidence.uid.as_str(), evidence.attempt), ("uid", 0));
    assert_eq!(
        (evidence.component.as_deref(), evidence.rank.as_deref()),
        (Some("work"), Some("work-0"))
    );
    assert_eq!((evidence.exit_code, evidence.time.0), (Some(3), at(20)));
}

#[test]
fn what_is_not_decided_yet_says_nothing() {
    let world = lost(Lost::NotReady);
    assert_eq!(world.decide(15).testimony, None, "in the grace period");
    assert_eq!(world.ask(200).testimony, None, "before the pods are listed");
}

/// An AppWrapper that is to begin, in a cluster of these suspects and nodes.
fn begins(effect: SuspicionEffect, suspects: &[&str], nodes: &[&str]) -> World {
    let mut world = given(Phase::Suspended).suspended(false).with_finalizer();
    world.config.node_suspicion.effect = effect;
    world.snapshot.suspects = suspects.iter().map(|&name| name.to_owned()).collect();
    let site = |name: &&str| {
        let labels = [("kubernetes.io/hostname".to_owned(), (*name).to_owned())].into();
        let allocatable = [("cpu".to_owned(), 1.0)].into();
        Arc::new(Site { name: (*name).into(), labels, allocatable, ..Site::default() })
    };
    world.snapshot.sites = nodes.iter().map(site).collect();
    let placement =
        Placement { requests: [("cpu".to_owned(), 1.0)].into(), ..Placement::default() };
    let template = PodTemplate { placement, ..PodTemplate::default() };
    world.snapshot.components[0].templates = vec![template];
    world
}

#[test]
fn an_attempt_avoids_suspects_as_the_configuration_says() {
    let (prefer, require) = (SuspectEffect::Prefer, SuspectEffect::Require);
    for (effect, suspects, nodes, want) in [
        (SuspicionEffect::Off, &["a"][..], &["a", "b", "c"][..], None),
        (SuspicionEffect::Prefer, &["a"], &["a"], Some(prefer)),
        (SuspicionEffect::Require, &["a"], &["a", "b", "c"], Some(require)),
        // two pods of one cpu each
        (SuspicionEffect::Require, &["a"], &["a", "b"], Some(prefer)),
        (SuspicionEffect::Require, &["a"], &[], Some(prefer)),
        (SuspicionEffect::Prefer, &[], &["a"], None),
    ] {
        let world = begins(effect, suspects, nodes);
        let decision = world.decide(5);
        assert_eq!(decision.next, Phase::Resuming);
        let hostnames = suspects.iter().map(|&name| name.to_owned()).collect();
        let want = want.map(|effect| SuspectNodes { effect, hostnames });
        assert_eq!(decision.status.suspect_nodes, want, "{effect:?} {suspects:?} of {nodes:?}");
    }
}

#[test]
fn other_nodes_are_required_only_where_that_leaves_room_with_all_else() {
    let (prefer, require) = (SuspectEffect::Prefer, SuspectEffect::Require);
    for (what, nodes, avoided, by_kueue, want) in [
        ("a retry avoids none", &["a", "b", "c"][..], &[][..], false, require),
        ("a retry avoids another", &["a", "b", "c"], &["b"], false, prefer),
        ("there are more", &["a", "b", "c", "d"], &["b"], false, require),
        ("a retry avoids the same", &["a", "b", "c"], &["a"], false, require),
        ("Kueue assigns nodes", &["a", "b", "c"], &[], true, prefer),
    ] {
        let mut world = begins(SuspicionEffect::Require, &["a"], nodes);
        world.snapshot.status.avoid_nodes = avoided.iter().map(|&name| name.to_owned()).collect();
        world.snapshot.components[0].templates[0].placement.assigned_by_kueue = by_kueue;
        let status = world.decide(5).status;
        assert_eq!(status.suspect_nodes.map(|found| found.effect), Some(want), "{what}");
        assert_eq!(status.avoid_nodes, avoided, "{what}");
    }
}

#[test]
fn the_next_attempt_forgets_those_of_the_last() {
    let mut world = begins(SuspicionEffect::Prefer, &[], &["a"]);
    let hostnames = vec!["old".to_owned()];
    world.snapshot.status.suspect_nodes =
        Some(SuspectNodes { effect: SuspectEffect::Prefer, hostnames });
    assert_eq!(world.decide(5).status.suspect_nodes, None);
}
