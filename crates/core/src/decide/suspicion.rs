//! Suspect nodes: what a failure says about its node, and which nodes the next attempt avoids.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::draft::Draft;
use super::problem::Problem;
use super::{Facts, attempts};
use crate::api::{Category, EvidenceKind, SuspectEffect, SuspectNodes, SuspicionEvidence};
use crate::config::SuspicionEffect;
use crate::price::SUSPECT_NODES_MAX;
use crate::snapshot::lost::Lost;
use crate::snapshot::{Component, Pod};
use crate::suspicion::{Testimony, rank, room};

/// What the first cause of a failure says about its node; nothing where the node cannot have caused it, or where
/// suspicion is off.
pub fn testimony(draft: &Draft<'_>, problem: &Problem<'_>) -> Option<Testimony> {
    let (facts, failure) = (draft.facts, &problem.failure);
    if !is_on(facts) || problem.evacuates() {
        return None;
    }
    let pod = problem.pod.filter(|pod| pod.has_failed())?;
    let kind = kind(facts, pod, failure.category.as_deref(), failure.exit_code)?;
    let snapshot = facts.snapshot;
    // one loss is one incident, whatever pods are there
    let lost_at = snapshot.loss_of(pod).and_then(|loss| loss.since);
    let time = lost_at.filter(|_| kind == EvidenceKind::NodeLost).unwrap_or(problem.failed_at);
    let evidence = SuspicionEvidence {
        kind,
        namespace: snapshot.namespace.clone(),
        name: snapshot.name.clone(),
        uid: snapshot.uid.clone(),
        attempt: attempts::current(&draft.status),
        component: failure.component.clone(),
        rank: Some(rank(&pod.name).to_owned()),
        category: failure.category.clone(),
        exit_code: failure.exit_code,
        time: Time(time),
        withdrawn: false,
    };
    Some(Testimony { node: pod.node.clone()?, evidence })
}

/// Without a watch of the nodes, nothing is known of how many there are.
const fn is_on(facts: Facts<'_>) -> bool {
    let config = facts.config;
    config.autopilot.monitor_nodes
        && match config.node_suspicion.effect {
            SuspicionEffect::Off => false,
            SuspicionEffect::Prefer | SuspicionEffect::Require => true,
        }
}

/// What shows the failure. An eviction, a missing image or a lack of memory says nothing about the node, and one that was
/// deleted is not suspected any more.
fn kind(
    facts: Facts<'_>,
    pod: &Pod,
    category: Option<&str>,
    exit_code: Option<i32>,
) -> Option<EvidenceKind> {
    if let Some(loss) = pod.lost {
        // a pod that tolerates everything may be created for a node that is lost already
        let of_node = facts.snapshot.loss_of(pod).and_then(|loss| loss.since);
        let came_later = pod.created.zip(of_node).is_some_and(|(at, lost)| at > lost);
        return match loss.state {
            Lost::NotReady | Lost::Unreachable | Lost::OutOfService => {
                (!came_later).then_some(EvidenceKind::NodeLost)
            }
            Lost::Deleted => None,
        };
    }
    let category = category?;
    if facts.config.node_suspicion.hardware_categories.iter().any(|one| one == category) {
        return Some(EvidenceKind::Hardware);
    }
    let of_administrator = facts.config.failure_categories.iter().any(|one| one.name == category);
    let is_exit = category == Category::Application.as_str() || of_administrator;
    (is_exit && exit_code.is_some_and(|code| code != 0)).then_some(EvidenceKind::Container)
}

/// Writes down which suspect nodes the attempt that begins avoids.
///
/// If they are to be avoided by a requirement, its pods prefer other nodes where Kueue chooses the node of each, or where
/// they have no room elsewhere as far as is known, also without the nodes that a retry avoids.
pub fn avoid(draft: &mut Draft<'_>) {
    draft.status.suspect_nodes = None;
    let snapshot = draft.facts.snapshot;
    let hostnames: Vec<String> =
        snapshot.suspects.iter().take(SUSPECT_NODES_MAX).cloned().collect();
    if hostnames.is_empty() || !is_on(draft.facts) {
        return;
    }
    let requires = match draft.facts.config.node_suspicion.effect {
        SuspicionEffect::Off => return,
        SuspicionEffect::Prefer => false,
        SuspicionEffect::Require => {
            let without = [hostnames.as_slice(), &draft.status.avoid_nodes].concat();
            !snapshot.components.iter().any(Component::is_assigned_by_kueue)
                && room(&snapshot.components, &snapshot.sites, &without)
        }
    };
    let effect = if requires { SuspectEffect::Require } else { SuspectEffect::Prefer };
    draft.status.suspect_nodes = Some(SuspectNodes { effect, hostnames });
}
