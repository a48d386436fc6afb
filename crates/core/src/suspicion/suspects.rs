//! Which nodes new attempts avoid: a bounded number of them, and never so many that the pods have no room.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::{Record, is_suspect, score};
use crate::config::NodeSuspicion;
use crate::price::SUSPECT_NODES_MAX;
use crate::snapshot::place::{Placement, Site};
use crate::snapshot::{Component, PodTemplate};

/// The most suspects among so many nodes: 5 % of them, at least one, at most [`SUSPECT_NODES_MAX`].
#[must_use]
pub fn suspects_max(nodes: usize) -> usize {
    (nodes / 20).clamp(1, SUSPECT_NODES_MAX)
}

/// What is known of a node that has a record.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Its name.
    pub node: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// Its evidence.
    pub record: &'a Record,
}

/// A node that is suspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Its name.
    pub node: String,
    /// Its points.
    pub score: i32,
}

/// The suspects among the nodes of a cluster, most points first, ties by name. Evidence about an earlier Node of the
/// same name does not count.
#[must_use]
pub fn suspects<'a>(
    known: impl IntoIterator<Item = Known<'a>>,
    nodes: usize,
    now: Timestamp,
    config: &NodeSuspicion,
) -> Vec<Suspect> {
    let mut all = reaching(known, now, config);
    all.truncate(suspects_max(nodes));
    all
}

/// The nodes that reach the threshold, in the same order, without a limit.
#[must_use]
pub fn reaching<'a>(
    known: impl IntoIterator<Item = Known<'a>>,
    now: Timestamp,
    config: &NodeSuspicion,
) -> Vec<Suspect> {
    let is_of_it = |known: &Known<'_>| known.record.node_uid == known.uid;
    let scored = known.into_iter().filter(is_of_it).map(|known| Suspect {
        node: known.node.to_owned(),
        score: score(known.record, now, config),
    });
    let mut all: Vec<Suspect> = scored.filter(|one| is_suspect(one.score, config)).collect();
    all.sort_by(|a, b| (b.score, &a.node).cmp(&(a.score, &b.node)));
    all
}

/// Whether the pods of these components have room without nodes of these hostnames, as far as is known: for each pod
/// set, the nodes that are left take all its pods when nothing else is on them. No node is known: no room is.
#[must_use]
pub fn room(components: &[Component], sites: &[Arc<Site>], without: &[String]) -> bool {
    let without: BTreeSet<&str> = without.iter().map(String::as_str).collect();
    let left: Vec<&Site> = sites
        .iter()
        .map(|site| &**site)
        .filter(|site| !without.contains(site.hostname()))
        .collect();
    let has_room = |(set, template): (&crate::api::PodSet, &PodTemplate)| {
        let count = u64::try_from(set.count()).unwrap_or_default();
        let slots = left.iter().map(|site| slots(&template.placement, site, count));
        slots.fold(0_u64, u64::saturating_add) >= count
    };
    !left.is_empty()
        && components.iter().all(|one| one.pod_sets.iter().zip(&one.templates).all(has_room))
}

/// How many pods of a template a node takes when nothing else is on it, at most `most`.
fn slots(placement: &Placement, site: &Site, most: u64) -> u64 {
    if !placement.fits(site) {
        return 0;
    }
    let of_each = placement.requests.iter().filter(|(_, amount)| **amount > 0.0);
    let slots = of_each.filter_map(|(resource, amount)| {
        site.allocatable.get(resource).map(|all| times(*all, *amount))
    });
    slots.min().unwrap_or(most).min(most)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "amounts are positive, and a conversion from a float saturates"
)]
fn times(all: f64, amount: f64) -> u64 {
    (all / amount).floor() as u64
}
