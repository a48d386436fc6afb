//! The evidence about one node: a set with bounds.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{EVIDENCE_MAX, HALF_LIVES_KEPT, OF_NAMESPACE_MAX};
use crate::api::{EvidenceKind, SuspicionEvidence};
use crate::mutations::{self, Mutation};
use crate::tuning::Period;

/// What a piece of evidence is about: the pod of a rank of an AppWrapper fails in this way. Of each there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Same<'a> {
    uid: &'a str,
    component: Option<&'a str>,
    rank: Option<&'a str>,
    category: Option<&'a str>,
    exit_code: Option<i32>,
}

impl<'a> Same<'a> {
    pub(super) fn of(evidence: &'a SuspicionEvidence) -> Self {
        Self {
            uid: &evidence.uid,
            component: evidence.component.as_deref(),
            rank: evidence.rank.as_deref(),
            category: evidence.category.as_deref(),
            exit_code: evidence.exit_code,
        }
    }
}

/// The evidence about one node, at most [`EVIDENCE_MAX`] pieces and [`OF_NAMESPACE_MAX`] of a namespace.
///
/// Which are kept does not depend on the order in which they come: lost nodes before containers, and the newest. No
/// namespace displaces the evidence of another, unless there are more than four.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// UID of the Node.
    pub node_uid: String,
    evidence: Vec<SuspicionEvidence>,
}

impl Record {
    /// A record of evidence that is stored; what exceeds the bounds is left out.
    #[must_use]
    pub fn of(node_uid: &str, evidence: impl IntoIterator<Item = SuspicionEvidence>) -> Self {
        let mut record = Self { node_uid: node_uid.to_owned(), evidence: vec![] };
        evidence.into_iter().for_each(|one| record.put(one));
        record.trim();
        record
    }

    /// The evidence, the lost nodes first and then the newest first.
    #[must_use]
    pub fn evidence(&self) -> &[SuspicionEvidence] {
        &self.evidence
    }

    /// Adds evidence. What was withdrawn stays so.
    pub fn add(&mut self, evidence: SuspicionEvidence) {
        self.put(evidence);
        self.trim();
    }

    /// Adds all that another record has about the same node.
    pub fn merge(&mut self, other: &Self) {
        other.evidence.iter().cloned().for_each(|one| self.put(one));
        self.trim();
    }

    pub(super) fn has(&self, same: Same<'_>) -> bool {
        self.evidence.iter().any(|one| Same::of(one) == same)
    }

    /// Takes the weight from evidence; whether it had any.
    pub(super) fn withdraw(&mut self, same: &SuspicionEvidence) -> bool {
        if mutations::is_present(Mutation::WithdrawnStays) {
            return false;
        }
        let found = self.evidence.iter_mut().find(|one| Same::of(one) == Same::of(same));
        found.is_some_and(|one| !std::mem::replace(&mut one.withdrawn, true))
    }

    /// Drops what has expired.
    pub(super) fn expire(&mut self, now: Timestamp, half_life: Period) {
        self.evidence.retain(|one| expiry(one, half_life) > now);
    }

    /// When the last evidence expires; none where there is none.
    #[must_use]
    pub fn expires_at(&self, half_life: Period) -> Option<Timestamp> {
        self.evidence.iter().map(|one| expiry(one, half_life)).max()
    }

    fn put(&mut self, new: SuspicionEvidence) {
        let found = self.evidence.iter_mut().find(|one| Same::of(one) == Same::of(&new));
        let Some(old) = found else {
            self.evidence.push(new);
            return;
        };
        let withdrawn = old.withdrawn || new.withdrawn;
        if order(&new) < order(old) {
            *old = new;
        }
        old.withdrawn = withdrawn;
    }

    fn trim(&mut self) {
        self.evidence.sort_by(|a, b| order(a).cmp(&order(b)));
        let mut of_namespace: BTreeMap<String, usize> = BTreeMap::new();
        self.evidence.retain(|one| {
            let count = of_namespace.entry(one.namespace.clone()).or_default();
            *count += 1;
            *count <= OF_NAMESPACE_MAX
        });
        self.evidence.truncate(EVIDENCE_MAX);
    }
}

/// The order of evidence, which is also that in which it is kept. Neither the time nor the configuration matters for it.
fn order(one: &SuspicionEvidence) -> impl Ord + use<'_> {
    let is_container = match one.kind {
        EvidenceKind::NodeLost => false,
        EvidenceKind::Hardware | EvidenceKind::Container => true,
    };
    let names = (&one.namespace, &one.name, one.kind);
    (is_container, Reverse(one.time.0), Same::of(one), Reverse(one.attempt), names)
}

fn expiry(one: &SuspicionEvidence, half_life: Period) -> Timestamp {
    let kept = half_life.as_duration().checked_mul(HALF_LIVES_KEPT).unwrap_or(Duration::MAX);
    Period::from_duration(kept).after(one.time.0)
}
