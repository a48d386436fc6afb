//! Names what blocks a deletion.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::draft::Draft;
use super::force_delete::state_of_node;
use crate::api::AppWrapperStatus;
use crate::api::condition::{self, deleting};
use crate::snapshot::{Pod, Snapshot, Undetermined};
use crate::tuning::Period;

/// How many of the things that block a deletion are named.
const NAMED_MAX: usize = 3;
/// The message that names what blocks a deletion changes at most this often.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(10);

/// What still exists.
#[derive(Debug, Default)]
pub(super) struct Blockers {
    /// The component that alone is deleted, where one is.
    component: Option<usize>,
    /// The first of them, each with what keeps it.
    named: Vec<String>,
    /// How many more there are.
    more: usize,
    /// The condition already names one of them, as it is now.
    is_message_current: bool,
}

/// Names what blocks the deletion in `DeletingResources`, and in an event when that is new. Where one component is deleted, it
/// is that one's condition: the condition of the AppWrapper says that all of it is deleted.
///
/// The message stays while anything that it names still blocks, and at least for [`MESSAGE_INTERVAL`], so that the
/// deletion of a thousand pods does not cause a thousand writes. For the same reason, a deletion of which something was
/// forced is called forced to its end.
pub(super) fn name_blockers(draft: &mut Draft<'_>, blockers: &Blockers, reason: &'static str) {
    if blockers.named.is_empty() {
        return;
    }
    let kind = condition::DELETING_RESOURCES;
    let old = condition::find(conditions(&draft.status, blockers.component), kind);
    let forced = condition::is_deletion_forced(conditions(&draft.status, blockers.component));
    let reason = if forced && reason == deleting::INITIATED { deleting::FORCED } else { reason };
    if old.is_some_and(|old| old.reason == reason) && !is_message_due(draft, blockers) {
        return;
    }
    let message = waiting_for(blockers);
    let now = draft.facts.now;
    let conditions = match blockers.component {
        Some(index) => &mut draft.component_status()[index].conditions,
        None => &mut draft.status.conditions,
    };
    condition::set_message(conditions, kind, true, reason, &message, now);
    draft.warn(reason, message);
}

/// Whether a message about what blocks is due although there is one.
pub(super) fn is_message_due(draft: &mut Draft<'_>, blockers: &Blockers) -> bool {
    if blockers.is_message_current {
        return false;
    }
    let interval = Period::from_duration(MESSAGE_INTERVAL);
    let next = draft.facts.snapshot.blockers_named_at.map(|at| interval.after(at));
    let Some(next) = next.filter(|next| draft.facts.now < *next) else { return true };
    draft.look_again(next);
    false
}

/// The conditions of a component, or of the AppWrapper.
fn conditions(status: &AppWrapperStatus, component: Option<usize>) -> &[Condition] {
    match component {
        Some(index) => {
            status.component_status.get(index).map_or(&[], |status| status.conditions.as_slice())
        }
        None => &status.conditions,
    }
}

/// What the condition of a component, or of the AppWrapper, names.
fn named_so_far(status: &AppWrapperStatus, component: Option<usize>) -> &str {
    let old = condition::find(conditions(status, component), condition::DELETING_RESOURCES);
    old.map_or("", |old| old.message.as_str())
}

/// One sentence that names what is waited for.
pub(super) fn waiting_for(Blockers { named, more, .. }: &Blockers) -> String {
    let first = named.join(", ");
    match more {
        0 => format!("Waiting for {first}"),
        more => format!("Waiting for {first} and {more} more"),
    }
}

/// What still exists, each with what keeps it: pods first, since components wait for them; pods with
/// undetermined owner last.
pub(super) fn blockers(draft: &Draft<'_>) -> Blockers {
    blockers_of(draft, None)
}

/// The same of one component, or of all.
pub(super) fn blockers_of(draft: &Draft<'_>, component: Option<usize>) -> Blockers {
    let snapshot = draft.facts.snapshot;
    let message = named_so_far(&draft.status, component);
    let is_of = |index: Option<usize>| component.is_none() || component == index;
    let mut pods: Vec<&Pod> = snapshot.pods.iter().filter(|pod| is_of(pod.component)).collect();
    let mentioned: Vec<&str> = mentioned(message).collect();
    let is_named = |pod: &&Pod| {
        mentioned.contains(&pod.name.as_str()) && message.contains(&blocking_pod(snapshot, pod))
    };
    let names_pod = pods.iter().any(is_named);
    if pods.len() > NAMED_MAX {
        pods.select_nth_unstable_by(NAMED_MAX, |one, other| one.name.cmp(&other.name));
    }
    let count = pods.len();
    pods.truncate(NAMED_MAX);
    pods.sort_by(|one, other| one.name.cmp(&other.name));
    let objects: Vec<String> = snapshot
        .components
        .iter()
        .enumerate()
        .filter(|(index, component)| is_of(Some(*index)) && component.kind != "Pod")
        .filter_map(|(_, component)| Some((component, component.ours()?)))
        .map(|(component, object)| format!("{}{}", component.title(), keeps(&object.finalizers)))
        .collect();
    let others = component.is_none().then(|| undetermined(&snapshot.undetermined));
    let Blockers { named: others, more, .. } = others.unwrap_or_default();
    let mut first = objects.iter().take(NAMED_MAX).chain(&others);
    let is_message_current = names_pod || first.any(|it| message.contains(it.as_str()));
    let count = count + objects.len() + others.len() + more;
    let pods = pods.into_iter().map(|pod| blocking_pod(snapshot, pod));
    let named: Vec<String> = pods.chain(objects).chain(others).take(NAMED_MAX).collect();
    Blockers { component, more: count - named.len(), named, is_message_current }
}

/// The pods that a message names. Only a few: it may be anybody's, and long.
fn mentioned(message: &str) -> impl Iterator<Item = &str> {
    let mentions = message.split("Pod/").skip(1).take(NAMED_MAX);
    mentions.filter_map(|it| it.split([' ', ',']).next())
}

/// Some pods, by name.
pub(super) fn of_pods(snapshot: &Snapshot, pods: &[&Pod]) -> Blockers {
    let shown = &pods[..pods.len().min(NAMED_MAX)];
    let named = shown.iter().map(|pod| blocking_pod(snapshot, pod)).collect();
    Blockers { named, more: pods.len() - shown.len(), ..Blockers::default() }
}

fn blocking_pod(snapshot: &Snapshot, pod: &Pod) -> String {
    let on_node = |node: &String| {
        let loss = snapshot.loss_of(pod).map(|loss| state_of_node(node, loss));
        format!(" on node {node}{}", loss.unwrap_or_default())
    };
    let node = pod.node.as_ref().map(on_node).unwrap_or_default();
    format!("Pod/{}{node}{}", pod.name, keeps(&pod.finalizers))
}

/// The pods whose owner cannot be determined.
fn undetermined(Undetermined { count, named, .. }: &Undetermined) -> Blockers {
    let named: Vec<String> = named.iter().take(NAMED_MAX).map(doubtful).collect();
    Blockers { more: count.saturating_sub(named.len()), named, ..Blockers::default() }
}

/// The pods whose owner cannot be determined, where every component has succeeded. The message stays while the owner of no pod
/// that it names can be determined; where more are found than are named, while one of those that it names is named again.
pub(super) fn blockers_of_success(draft: &Draft<'_>) -> Blockers {
    let found = &draft.facts.snapshot.undetermined;
    let said = condition::find(&draft.status.conditions, condition::UNDETERMINED_PODS);
    let mut named_before = mentioned(said.map_or("", |said| said.message.as_str()));
    let is_named = |before: &str| found.named.iter().any(|(name, _)| name == before);
    let is_message_current = if found.count > found.named.len() {
        named_before.any(is_named)
    } else {
        named_before.all(is_named)
    };
    Blockers { is_message_current, ..undetermined(found) }
}

/// The pods whose owner cannot be determined, where a component is gone that one of them may belong to.
pub(super) fn blockers_beside(draft: &Draft<'_>, index: usize) -> Blockers {
    let message = named_so_far(&draft.status, Some(index));
    let all = undetermined(&draft.facts.snapshot.undetermined);
    let is_message_current = all.named.iter().any(|it| message.contains(it.as_str()));
    Blockers { component: Some(index), is_message_current, ..all }
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
