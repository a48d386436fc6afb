//! The end of a node is one incident, however many pods died of it.
//!
//! A restart takes every pod with it, so that none is left to be counted again. Only where one component
//! is created again do others stay that have lost pods to the same node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{attempts, failure};
use crate::api::{Attempt, AttemptAction, Category};
use crate::snapshot::lost::Lost;
use crate::snapshot::{Pod, Snapshot};

/// Reasons of `DisruptionTarget` that follow from the end of a node.
const FOLLOWS: [&str; 2] = ["DeletionByPodGC", "DeletionByTaintManager"];

/// Whether what a pod died of was counted already in the running attempt, when it was about another
/// component: the pods of that one have come since.
pub fn is_charged(snapshot: &Snapshot, pod: &Pod) -> bool {
    let status = &snapshot.status;
    let is_own = |entry: &Attempt| {
        let failed = entry.failure.as_ref().and_then(|failure| failure.component.as_deref());
        let failed = failed.and_then(|name| snapshot.component_named(name));
        failed.is_some() && failed == pod.component
    };
    let number = attempts::current(status);
    let mut entries = status.attempts.iter().filter(|entry| entry.attempt == number);
    pod.died_of_node() && entries.any(|entry| charges(entry, pod) && !is_own(entry))
}

/// Whether an entry is about the node of a pod that existed then, and that was lost before. A node that came
/// back and was lost again is another incident; where it is back once more, the pod tells since when it was lost.
fn charges(entry: &Attempt, pod: &Pod) -> bool {
    let since = pod.lost.and_then(|loss| loss.since).or_else(|| failure::unready_by_node(pod));
    let known_by_then = |ended: &Time| {
        pod.created.is_none_or(|created| created <= ended.0)
            && since.is_none_or(|since| since <= ended.0)
    };
    node_of(entry).is_some_and(|node| pod.node.as_ref() == Some(node))
        && entry.ended_at.as_ref().is_some_and(known_by_then)
}

/// The node about whose end a component was created again.
fn node_of(entry: &Attempt) -> Option<&String> {
    let failure = entry.failure.as_ref()?;
    let reason = failure.reason.as_deref().unwrap_or_default();
    let is_about_it = failure.category.as_deref() == Some(Category::Node.as_str())
        || FOLLOWS.contains(&reason)
        || Lost::of(reason).is_some();
    let recreated = entry.action == Some(AttemptAction::RecreateComponent);
    failure.node.as_ref().filter(|_| is_about_it && recreated)
}

/// Whether the last of the entries that were recorded is about an incident that one before it was counted
/// for: then no limit was asked.
pub fn is_repeated(entries: &[Attempt]) -> bool {
    let Some((last, before)) = entries.split_last() else { return false };
    let Some(node) = last.failure.as_ref().and_then(|failure| failure.node.as_ref()) else {
        return false;
    };
    let same = |entry: &&Attempt| entry.attempt == last.attempt && node_of(entry) == Some(node);
    let uncounted = last.retries.is_none()
        && matches!(
            last.action,
            Some(AttemptAction::RecreateComponent | AttemptAction::RestartIgnoringLimit)
        );
    uncounted && before.iter().any(|entry| same(&entry))
}
