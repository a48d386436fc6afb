//! How much the evidence about a node amounts to at a moment.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::{INCIDENT_SECONDS, Record, points};
use crate::api::{EvidenceKind, SuspicionEvidence};
use crate::config::NodeSuspicion;
use crate::mutations::{self, Mutation};
use crate::tuning::Period;

/// Evidence with the points that are left of it.
type Weighed<'a> = (&'a SuspicionEvidence, f64);

/// The points of a node.
///
/// - Each AppWrapper counts once, by its weightiest evidence.
/// - AppWrappers that lost the node within a minute tell of one loss, which counts once.
/// - What containers show is bounded: all AppWrappers of a namespace together by `namespace_share`, and all namespaces
///   together by the threshold. A user decides how a container ends; whether a node is lost, no user does.
#[must_use]
pub fn score(record: &Record, now: Timestamp, config: &NodeSuspicion) -> i32 {
    let weighed = of_each_appwrapper(record, now, config.half_life);
    let (lost, containers): (Vec<Weighed<'_>>, Vec<Weighed<'_>>) =
        weighed.into_iter().partition(|(one, _)| match one.kind {
            EvidenceKind::NodeLost => true,
            EvidenceKind::Hardware | EvidenceKind::Container => false,
        });
    let threshold = f64::from(config.threshold);
    let of_containers = of_containers(&containers, threshold, config.namespace_share);
    whole(of_incidents(&lost) + of_containers.min(threshold))
}

/// Whether so many points make a node suspect.
#[must_use]
pub const fn is_suspect(score: i32, config: &NodeSuspicion) -> bool {
    score >= config.threshold
}

/// The weightiest evidence of each AppWrapper.
fn of_each_appwrapper(record: &Record, now: Timestamp, half_life: Period) -> Vec<Weighed<'_>> {
    let mut best: BTreeMap<&str, Weighed<'_>> = BTreeMap::new();
    let mut all = vec![];
    for one in record.evidence().iter().filter(|one| !one.withdrawn) {
        let weighed = (one, left_of(one, now, half_life));
        all.push(weighed);
        // of equal points, the first in the record's own order
        let kept = best.entry(&one.uid).or_insert(weighed);
        if weighed.1 > kept.1 {
            *kept = weighed;
        }
    }
    if mutations::is_present(Mutation::SuspectTwice) {
        return all;
    }
    best.into_values().collect()
}

/// The points that are left of evidence. The future counts as now.
fn left_of(one: &SuspicionEvidence, now: Timestamp, half_life: Period) -> f64 {
    let age = now.duration_since(one.time.0).as_secs_f64().max(0.0);
    let half_life = half_life.as_duration().as_secs_f64().max(1.0);
    f64::from(points(one.kind)) * (-age / half_life).exp2()
}

/// Each loss of the node counts once, by its weightiest evidence.
fn of_incidents(lost: &[Weighed<'_>]) -> f64 {
    let mut lost = lost.to_vec();
    lost.sort_by(|(a, _), (b, _)| (a.time.0, &a.uid).cmp(&(b.time.0, &b.uid)));
    let (mut sum, mut began, mut most) = (0.0, None, 0.0_f64);
    for (one, left) in lost {
        let at = one.time.0.as_second();
        if began.is_some_and(|began| at - began <= INCIDENT_SECONDS) {
            most = most.max(left);
        } else {
            sum += most;
            (began, most) = (Some(at), left);
        }
    }
    sum + most
}

fn of_containers(containers: &[Weighed<'_>], threshold: f64, share: i32) -> f64 {
    let mut of_namespace: BTreeMap<&str, f64> = BTreeMap::new();
    for (one, left) in containers {
        *of_namespace.entry(&one.namespace).or_default() += left;
    }
    let most = threshold * f64::from(share) / 100.0;
    let most = if mutations::is_present(Mutation::NamespaceUnbounded) { f64::MAX } else { most };
    of_namespace.values().map(|left| left.min(most)).sum()
}

/// Whole points, rounded down.
#[expect(clippy::cast_possible_truncation, reason = "at most 16 × 50 points, and the threshold")]
const fn whole(points: f64) -> i32 {
    points as i32
}
