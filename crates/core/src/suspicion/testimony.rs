//! What one failure says about nodes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::Record;
use super::record::Same;
use crate::api::SuspicionEvidence;
use crate::tuning::Period;

/// A failure, and the node on which it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// Name of the node.
    pub node: String,
    /// The failure.
    pub evidence: SuspicionEvidence,
}

/// The records of all nodes that have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspicions(BTreeMap<String, Record>);

impl Suspicions {
    /// The record of a node.
    #[must_use]
    pub fn get(&self, node: &str) -> Option<&Record> {
        self.0.get(node)
    }

    /// Every node that has a record.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.0.iter().map(|(node, record)| (node.as_str(), record))
    }

    /// How many nodes have a record.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no node has a record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts the record of a node in place of the one before.
    pub fn replace(&mut self, node: &str, record: Record) {
        self.0.insert(node.to_owned(), record);
    }

    /// Adds to the record of a node; one of an earlier Node of its name is replaced.
    pub fn merge(&mut self, node: &str, other: &Record) {
        let record = self.of_node(node, &other.node_uid);
        record.merge(other);
    }

    /// Drops what has expired.
    pub fn expire(&mut self, now: Timestamp, half_life: Period) {
        self.0.values_mut().for_each(|record| record.expire(now, half_life));
    }

    /// Forgets a node.
    pub fn remove(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// Takes in a failure on a node with this UID; returns the nodes whose records changed.
    ///
    /// If the pod of the same rank of the same AppWrapper failed in the same way on another node, the failure follows
    /// the pod and not the node: the evidence about the other node is withdrawn, and there is none about this one.
    pub fn testify(&mut self, testimony: &Testimony, node_uid: &str) -> BTreeSet<String> {
        let Testimony { node, evidence } = testimony;
        let same = Same::of(evidence);
        let elsewhere: Vec<String> = self
            .0
            .iter()
            .filter(|(other, record)| *other != node && record.has(same))
            .map(|(other, _)| other.clone())
            .collect();
        if elsewhere.is_empty() {
            let record = self.of_node(node, node_uid);
            let before = record.clone();
            record.add(evidence.clone());
            let is_new = *record != before;
            return is_new.then(|| node.clone()).into_iter().collect();
        }
        let mut changed = BTreeSet::new();
        for other in elsewhere.into_iter().chain([node.clone()]) {
            let record = self.0.get_mut(&other);
            if record.is_some_and(|record| record.withdraw(evidence)) {
                changed.insert(other);
            }
        }
        changed
    }

    fn of_node(&mut self, node: &str, uid: &str) -> &mut Record {
        let record = self.0.entry(node.to_owned()).or_default();
        if record.node_uid != uid {
            *record = Record::of(uid, []);
        }
        record
    }
}

/// Letters and digits of the random suffixes that Kubernetes gives to names.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LEN: usize = 5;

/// The name of a pod without the random suffix: pods of the same rank have the same in each attempt.
///
/// An Indexed Job names its pods `train-0-x7kzq`, a PyTorchJob `train-worker-0`. The pods of a Job without indexes are
/// one rank.
#[must_use]
pub fn rank(pod: &str) -> &str {
    let random = |suffix: &str| {
        suffix.len() == SUFFIX_LEN && suffix.bytes().all(|byte| SUFFIX.contains(&byte))
    };
    match pod.rsplit_once('-') {
        Some((name, suffix)) if random(suffix) => name,
        Some(_) | None => pod,
    }
}
