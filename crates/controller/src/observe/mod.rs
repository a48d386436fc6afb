//! Reads: from what the watches have shown, and from the API server itself where a decision asks.
//!
//! ```text
//! watches ─▶ raw object ─▶ records ─▶ cache ─┐    of retry policies and queues: retry sources
//!                                            ├─ assemble ─▶ Snapshot
//! live reads ─────────────▶ records ─────────┘
//! ```

pub mod ancestry;
pub mod assemble;
pub mod cache;
pub mod cached_appwrapper;
pub mod deleted_objects;
pub mod feed;
pub mod jobs;
pub mod kin;
pub mod live;
pub mod memory;
pub mod nodes;
pub mod owners;
pub mod pod_cache;
pub mod pod_lists;
pub mod pod_record;
pub mod pods;
pub mod raw_object;
pub mod records;
pub mod retry_sources;
pub mod store;
pub mod summary;
pub mod suspicions;
pub mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;

use crate::api::{Phase, condition, keys};
use crate::config::Autopilot;
use crate::plan::FreshRead;
use crate::snapshot::{Component, End, Node, Outcome, Owner, Pod, Presence, Snapshot};
use crate::telemetry;
use assemble::{Wrapper, kind_of};
use cache::{Cache, Key, Sync};
use deleted_objects::{Deleted, DeletedObjects};
use live::{Error, Live};
use memory::ReconcileState;
use pod_lists::PodLists;
use pods::Found;
use records::ObjectRecord;
use retry_sources::Attach;

/// How often a component is read that no watch shows: its kind cannot be watched, or somebody has removed its label. While
/// everything is being deleted, one without its label is read sooner.
pub const UNWATCHED_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// A look that sees what was deleted since the last one is followed by another after this time.
const DEPARTED_FOR: Duration = Duration::from_secs(1);

/// Where is looked.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// For reads from the API server itself.
    pub client: &'a Client,
    /// The kinds that are known.
    pub live: &'a Live,
    /// What the watches have shown.
    pub cache: &'a Cache,
    /// The LISTs of pods that are under way.
    pub lists: &'a PodLists,
}

/// Looks at the world around an AppWrapper; `ask` says what must be read from the API server itself.
///
/// # Errors
/// Where something that must be read cannot be: an error is never an absence.
pub async fn observe(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &mut ReconcileState,
    ask: FreshRead,
    attach: &Attach,
    autopilot: &Autopilot,
) -> Result<Snapshot, Error> {
    take_deleted(sources, wrapper, memory);
    let mut components = Vec::with_capacity(wrapper.components.len());
    let mut has_unread = false;
    memory.has_unwatched = false;
    for index in 0..wrapper.components.len() {
        let mut component = wrapper.components[index].clone();
        component.presence = match presence(sources, wrapper, memory, &component, index, ask).await
        {
            // it is neither there nor gone, and keeps no other from being deleted
            Err(error) if ask == FreshRead::Missing && is_left_out(wrapper, &error) => {
                let title = component.title();
                tracing::warn!(
                    component = title,
                    cause = telemetry::chain(&error),
                    "A component cannot be read."
                );
                has_unread = true;
                Presence::Unseen
            }
            found => found?,
        };
        component.creation = memory.failure(index).cloned();
        let attempt = component.ours().map(|object| object.attempt);
        component.existed = memory.existed(index, attempt.flatten());
        component.may_have_existed = memory.begun_before;
        if let Some(object) = component.ours() {
            memory.object.kin.put_component(index, &object.uid);
        }
        components.push(component);
    }
    let Found { pods, undetermined, orphans } =
        pods::classify(sources, wrapper, memory, &components, ask).await?;
    if ask == FreshRead::Pods {
        read_again(sources, wrapper, memory, &mut components).await?;
    }
    look_again(wrapper, memory, has_unread);
    memory.object.kin.tell_pod_owners(&mut components);
    let mut snapshot = Snapshot {
        nodes: known_nodes(sources, memory, &pods, ask, autopilot).await?,
        components,
        pods,
        undetermined,
        orphans,
        answered: ask,
        growth_refused: memory.growth_refused.clone(),
        ..wrapper.snapshot()
    };
    snapshot.mark_failed_pods();
    retry_sources::fill(&mut snapshot, wrapper, sources.cache, attach, autopilot);
    if !retry_sources::are_listed(sources.cache, wrapper, attach.default.as_deref()) {
        snapshot.retry.unlisted = true;
        snapshot.retry.unusable.clear(); // what is not listed yet is not missing
    }
    read_failed_jobs(sources, wrapper, memory, &mut snapshot.components).await?;
    Ok(snapshot)
}

/// Reads the Jobs of each `JobSet` that says that it failed, whatever the policies are: which of them failed first, and when,
/// is part of the failure that is recorded.
async fn read_failed_jobs(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &mut ReconcileState,
    components: &mut [Component],
) -> Result<(), Error> {
    if !wrapper.status.phase.runs_components() || only_deletes(wrapper) {
        return Ok(());
    }
    for component in components {
        let namespace = &wrapper.namespace;
        component.failed_jobs = jobs::failed(sources.client, namespace, component, memory).await?;
    }
    Ok(())
}

/// Whether every kind of an AppWrapper has been listed once, and the retry policies and queues that may
/// have a say, so that the cache says something. `default` is the retry policy that holds by default.
///
/// What only deletes its components does not wait for retry policies: they have no say in that. Until they are listed,
/// [`Snapshot::retry`] says so, and what rests on them is left as it is.
#[must_use]
pub fn is_synced(cache: &Cache, wrapper: &Wrapper, default: Option<&str>) -> bool {
    let kinds = wrapper.components.iter().all(|component| {
        component.flaw.is_some() || cache.sync(&kind_of(component)) != Sync::Starting
    });
    kinds && (only_deletes(wrapper) || retry_sources::are_listed(cache, wrapper, default))
}

/// Whether all that is left to do for an AppWrapper is to delete its components.
fn only_deletes(wrapper: &Wrapper) -> bool {
    wrapper.deleting
        || match wrapper.status.phase {
            Phase::Suspending | Phase::Terminating => true,
            Phase::Resuming | Phase::Running | Phase::Resetting | Phase::Failed => {
                wrapper.spec.suspend
            }
            Phase::Empty | Phase::Suspended | Phase::Succeeded => false,
        }
}

/// When to look again although no watch may tell of anything.
fn look_again(wrapper: &Wrapper, memory: &mut ReconcileState, has_unread: bool) {
    if has_unread {
        memory.look_again(pods::READ_AGAIN_AFTER);
    }
    if memory.has_unwatched {
        let runs = wrapper.status.phase.runs_components();
        memory.look_again(if runs { UNWATCHED_AGAIN_AFTER } else { pods::READ_AGAIN_AFTER });
    }
    if !memory.deleted_objects.is_empty() {
        memory.look_again(DEPARTED_FOR);
    }
}

async fn presence(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &mut ReconcileState,
    component: &Component,
    index: usize,
    ask: FreshRead,
) -> Result<Presence, Error> {
    if component.name.is_empty() || component.kind.is_empty() {
        return Ok(Presence::Absent); // nothing can have been created from it
    }
    let kind = kind_of(component);
    let at = Key { namespace: wrapper.namespace.clone(), name: component.name.clone() };
    if component.recorded.is_some() {
        memory.recorded(index);
    }
    let creates = wrapper.status.phase.runs_components();
    let seen = memory.object.kin.component(index).map(str::to_owned);
    let found = |record| wrapper.presence(index, record, &component.pod_sets, seen.as_deref());
    let cached = shown_object(sources, wrapper, memory, (&kind, &at), component, index);
    let is_doubtful = cached.is_some() && is_to_come(wrapper, memory, index);
    let read = match ask {
        FreshRead::Nothing if !is_doubtful => {
            let lacking = if memory.is_absent(index) { Presence::Absent } else { Presence::Unseen };
            return Ok(cached.map_or(lacking, found));
        }
        // What the cache holds is there; only what it lacks must be asked for.
        FreshRead::Nothing | FreshRead::Missing | FreshRead::Pods => {
            let is_known =
                |presence: &Presence| !is_doubtful && is_recorded(wrapper, index, presence);
            if let Some(presence) = cached.map(found).filter(is_known) {
                return Ok(presence);
            }
            sources.live.object(sources.client, &kind, &at).await
        }
        // The LIST of the pods that name the AppWrapper follows, and shows any other of ours that has its name.
        FreshRead::Gone
            if live::fits_label(&wrapper.name) && is_removed(memory, index, cached.as_ref()) =>
        {
            Ok(None)
        }
        FreshRead::Gone => sources.live.listed_object(sources.client, &kind, &at).await,
    };
    match read {
        Ok(Some(record)) => {
            let is_labelled = record.identity.appwrapper.as_ref() == Some(&wrapper.name);
            let presence = found(record);
            let is_ours =
                matches!(&presence, Presence::Present(object) if object.owner == Owner::Us);
            memory.has_unwatched |= is_ours && !is_labelled;
            Ok(presence)
        }
        Ok(None) => {
            if !creates {
                memory.found_absent(index);
            }
            Ok(Presence::Absent)
        }
        // A kind that does not exist, or of which nothing can be in a namespace.
        Err(Error::NoKind(_) | Error::NotNamespaced(_)) => Ok(Presence::NoKind),
        Err(error @ Error::Api { .. }) => Err(error),
    }
}

/// The object of a component as the watch shows it, or what this process knows of it that the watch does not show.
fn shown_object(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &mut ReconcileState,
    (kind, at): (&cache::KindKey, &Key),
    component: &Component,
    index: usize,
) -> Option<ObjectRecord> {
    if let Some(record) = sources.cache.object(kind, at, &wrapper.key()) {
        memory.shown(index);
        return Some(record);
    }
    // while everything is being deleted, only what is seen counts: a deleted object would stay here
    if !wrapper.status.phase.runs_components() {
        return None;
    }
    let uids = [memory.object.kin.component(index), component.recorded.as_deref()];
    let deleted = memory.deleted_objects.object(kind, uids);
    let deleted = deleted.filter(|_| !was_deleted(wrapper, memory, index));
    deleted.or_else(|| memory.recently_created(index)).cloned()
}

/// Reads the components again that may have ended although they do not say so yet: after the pods, so that none of them is newer
/// than its component. Its pods need not tell: they may be deleted once it has succeeded.
async fn read_again(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &ReconcileState,
    components: &mut [Component],
) -> Result<(), Error> {
    if !wrapper.status.phase.runs_components() {
        return Ok(()); // nobody asks how they ended
    }
    for (index, component) in components.iter_mut().enumerate() {
        let kind = kind_of(component);
        let is_active = match &component.presence {
            Presence::Present(object) => object.report.outcome == Outcome::Active,
            Presence::Unseen | Presence::Absent | Presence::NoKind => false,
        };
        if !is_active || component.end != End::Reported || kind.is_pod() {
            continue;
        }
        let at = Key { namespace: wrapper.namespace.clone(), name: component.name.clone() };
        let seen = memory.object.kin.component(index);
        let read = sources.live.object(sources.client, &kind, &at).await;
        let read = read.map(|found| {
            found.map(|record| wrapper.presence(index, record, &component.pod_sets, seen))
        });
        component.presence = newest(read, std::mem::take(&mut component.presence))?;
    }
    Ok(())
}

/// A component as it was read, or as the cache has it where it could not be read: the watch will show how one ended that is
/// gone, and is all that some controllers may see.
fn newest(read: Result<Option<Presence>, Error>, cached: Presence) -> Result<Presence, Error> {
    match read {
        Ok(Some(presence)) => Ok(presence),
        Ok(None) | Err(Error::NoKind(_) | Error::NotNamespaced(_)) => Ok(cached),
        Err(error) if error.code() == Some(403) => Ok(cached),
        Err(error) => Err(error),
    }
}

/// Whether it is written that a component was deleted, to be created again: its end was decided about, perhaps by a leader
/// of which this process knows only that. Not where this process has created it again since.
pub(super) fn was_deleted(wrapper: &Wrapper, memory: &ReconcileState, index: usize) -> bool {
    if memory.unrecorded.contains(&index) {
        return false;
    }
    told_of(wrapper, index, condition::RESOURCES_DEPLOYED) == Some("False")
}

/// Whether a component is to be created again, everything of it being gone: a watch that repeats old events shows what was
/// deleted, and only the API server can tell it from what another leader has created.
fn is_to_come(wrapper: &Wrapper, memory: &ReconcileState, index: usize) -> bool {
    was_deleted(wrapper, memory, index)
        && told_of(wrapper, index, condition::DELETING_RESOURCES) != Some("True")
}

/// The status of a condition of a component.
fn told_of<'a>(wrapper: &'a Wrapper, index: usize, kind: &str) -> Option<&'a str> {
    let status = wrapper.status.component_status.get(index)?;
    condition::find(&status.conditions, kind).map(|condition| condition.status.as_str())
}

/// What was deleted since the last look is decided about, if anything is.
fn take_deleted(sources: Sources<'_>, wrapper: &Wrapper, memory: &mut ReconcileState) {
    let key = wrapper.key();
    let deleted = sources.cache.pod_cache(|pod_cache| pod_cache.take_deleted(&key));
    keep_deleted(wrapper, memory, deleted);
}

fn keep_deleted(wrapper: &Wrapper, memory: &mut ReconcileState, deleted: Deleted) {
    if wrapper.status.phase.runs_components() {
        let components = wrapper.components.iter();
        let recorded: BTreeSet<&str> =
            components.filter_map(|component| component.recorded.as_deref()).collect();
        memory.deleted_objects.take(deleted, &memory.object.kin, &recorded);
    } else {
        memory.deleted_objects = DeletedObjects::default();
    }
}

/// Whether the rest is deleted although a component cannot be read; not where the API server did not answer, or asks
/// to wait. That everything is gone needs a LIST of each, [`FreshRead::Gone`].
fn is_left_out(wrapper: &Wrapper, error: &Error) -> bool {
    match wrapper.status.phase {
        Phase::Resetting | Phase::Suspending | Phase::Terminating => error.concerns_one_object(),
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Succeeded
        | Phase::Failed => false,
    }
}

/// Whether a DELETE removed the pod of a component a moment ago, and no watch shows another of its name.
fn is_removed(memory: &ReconcileState, index: usize, cached: Option<&ObjectRecord>) -> bool {
    let removed = memory.removed_uid(index);
    removed.is_some_and(|uid| cached.is_none_or(|record| record.identity.uid == uid))
}

/// Whether the object that the cache holds is the recorded one, or ours of the running attempt where none is recorded.
fn is_recorded(wrapper: &Wrapper, index: usize, presence: &Presence) -> bool {
    let recorded = wrapper.components.get(index).and_then(|component| component.recorded.as_ref());
    let attempt = crate::decide::current_attempt(&wrapper.status);
    match presence {
        Presence::Present(object) => match recorded {
            Some(uid) => *uid == object.uid,
            None => {
                object.owner == Owner::Us && object.attempt.is_none_or(|number| number == attempt)
            }
        },
        Presence::Unseen | Presence::Absent | Presence::NoKind => false,
    }
}

/// What is known of the nodes of these pods, which are ours: others may name any node. That a node is gone is never concluded
/// from a watch, and a verdict about pods rests on no older word that their nodes are lost, or marked: both are read from the
/// API server itself.
async fn known_nodes(
    sources: Sources<'_>,
    memory: &mut ReconcileState,
    pods: &[Pod],
    ask: FreshRead,
    autopilot: &Autopilot,
) -> Result<BTreeMap<String, Node>, Error> {
    let mut nodes = BTreeMap::new();
    let is_fine = |node: &Node| node.lost.is_none() && node.no_execute.is_empty();
    for (name, known) in sources.cache.nodes(pods) {
        let node = match known {
            Some(node) if is_fine(&node) || ask < FreshRead::Pods => node,
            None if ask < FreshRead::Pods && memory.is_node_gone(&name) => nodes::deleted(),
            known => match live::node(sources.client, &name).await {
                Ok(Some(seen)) => {
                    let (node, site) = nodes::node(&seen, &nodes::marks(autopilot));
                    node.after(sources.cache.node(&name, &site.uid).as_ref())
                }
                Ok(None) => {
                    memory.node_gone(&name);
                    nodes::deleted()
                }
                // who may only watch nodes knows what the watch shows
                Err(error) if error.code() == Some(403) => known.unwrap_or_default(),
                Err(error) => return Err(error),
            },
        };
        nodes.insert(name, node);
    }
    Ok(nodes)
}

impl Wrapper {
    /// Its namespace and name.
    #[must_use]
    pub fn key(&self) -> Key {
        Key { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// What is known from the AppWrapper alone.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            deleting: self.deleting,
            finalizer: self.finalizers.iter().any(|name| name == keys::FINALIZER),
            has_other_finalizers: self.finalizers.iter().any(|name| name != keys::FINALIZER),
            suspend: self.spec.suspend,
            policies: self.policies.clone(),
            status: self.status.clone(),
            status_flaws: self.flaws.named.clone(),
            rest_bytes: self.rest_bytes,
            has_manager: self.has_manager,
            is_prebuilt: self.is_prebuilt,
            ..Snapshot::default()
        }
    }
}
