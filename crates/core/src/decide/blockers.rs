//! Names what blocks a deletion.

use super::draft::Draft;
use super::force_delete::state_of_node;
use crate::api::condition;
use crate::snapshot::{Pod, Undetermined};

/// How many of the things that block a deletion are named.
const NAMED_MAX: usize = 3;

/// What still exists.
#[derive(Debug, Default)]
pub(super) struct Blockers {
    /// Each with what keeps it.
    named: Vec<String>,
    /// How many more there are.
    more: usize,
}

/// Names what blocks the deletion in `DeletingResources`, and in an event when that is new.
///
/// The message is kept while what it names first still blocks, so that a thousand pods that go one
/// by one do not cause a thousand writes.
pub(super) fn name_blockers(draft: &mut Draft<'_>, blockers: &Blockers, reason: &'static str) {
    let Some(first) = blockers.named.first() else { return };
    let kind = condition::DELETING_RESOURCES;
    let old = condition::find(&draft.status.conditions, kind);
    if old.is_some_and(|old| old.reason == reason && old.message.contains(first.as_str())) {
        return;
    }
    let message = waiting_for(blockers);
    let now = draft.facts.now;
    condition::set_message(&mut draft.status.conditions, kind, true, reason, &message, now);
    draft.warn(reason, message);
}

/// One sentence that names what is waited for.
pub(super) fn waiting_for(Blockers { named, more }: &Blockers) -> String {
    let first = named.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match named.len().saturating_sub(NAMED_MAX) + more {
        0 => format!("Waiting for {first}"),
        more => format!("Waiting for {first} and {more} more"),
    }
}

/// What still exists, each with what keeps it: pods first, since components wait for them; pods with
/// undetermined owner last.
pub(super) fn blockers(draft: &Draft<'_>) -> Blockers {
    let snapshot = draft.facts.snapshot;
    let mut pods: Vec<&Pod> = snapshot.pods.iter().collect();
    pods.sort_by_key(|pod| pod.name.clone());
    let pods = pods.into_iter().map(|pod| {
        let node = pod.node.as_ref().map(|node| format!(" on node {node}")).unwrap_or_default();
        let loss = snapshot.loss_of(pod).map(state_of_node).unwrap_or_default();
        format!("Pod/{}{node}{loss}{}", pod.name, keeps(&pod.finalizers))
    });
    let objects = snapshot
        .components
        .iter()
        .filter(|component| component.kind != "Pod")
        .filter_map(|component| Some((component, component.ours()?)))
        .map(|(component, object)| format!("{}{}", component.title(), keeps(&object.finalizers)));
    let Blockers { named, more } = undetermined(&snapshot.undetermined);
    Blockers { named: pods.chain(objects).chain(named).collect(), more }
}

/// The pods whose owner cannot be determined.
pub(super) fn undetermined(Undetermined { count, named, .. }: &Undetermined) -> Blockers {
    let more = count.saturating_sub(named.len());
    Blockers { named: named.iter().map(doubtful).collect(), more }
}

/// The first pod whose owner cannot be determined.
pub(super) fn first_named(Undetermined { named, .. }: &Undetermined) -> String {
    named.first().map_or_else(|| "a pod with the labels of this AppWrapper".to_owned(), doubtful)
}

fn doubtful((name, why): &(String, String)) -> String {
    format!("Pod/{name}, which has the labels of this AppWrapper ({why})")
}

fn keeps(finalizers: &[String]) -> String {
    if finalizers.is_empty() {
        String::new()
    } else {
        format!(" (finalizers {})", finalizers.join(", "))
    }
}
