//! The pods around one AppWrapper: which of them are ours, and which hold back the release of its quota.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::ancestry::{Ancestor, Ancestors, CHAIN_MAX, Doubt, Family, Lineage};
use super::assemble::{self, Sorted, Wrapper, kind_of};
use super::cache::{Key, KindKey};
use super::deleted_objects::is_disrupted;
use super::kin::{Kin, Place};
use super::live::{self, Error};
use super::memory::ReconcileState;
use super::owners::DOUBT_FOR;
use super::pod_cache::{CachedPods, NAMED_MAX, NotOurs};
use super::pod_record::PodRecord;
use super::records::Controller;
use super::{Sources, was_deleted};
use crate::api::{Phase, condition};
use crate::kinds::Kind;
use crate::mutations::{self, Mutation};
use crate::plan::{FreshRead, Orphan};
use crate::snapshot::{Component, Pod, Undetermined};

/// At most this many reads per reconcile of owners that prove not to be ours, and of orphan candidates.
const READS_MAX: usize = 8;
/// The next owners are read after this time, where there are more than one look reads.
const READ_ON_AFTER: Duration = Duration::from_secs(1);
/// An owner or a component that could not be read for now is read again after this time.
pub(super) const READ_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How many pods that no watch shows are read in one look.
const GETS_MAX: usize = 8;
/// How many undetermined pods are evaluated again in every reconcile.
const UNDETERMINED_MAX: usize = 32;
/// How many pods wait in full for their owners to be read.
const UNREAD_MAX: usize = 256;

/// The pods around an AppWrapper.
pub struct Found {
    /// Pods of this AppWrapper.
    pub pods: Vec<Pod>,
    /// Pods that may be of this AppWrapper.
    pub undetermined: Undetermined,
    /// Objects that still create pods of this AppWrapper although their component is gone.
    pub orphans: Vec<Orphan>,
}

/// Tells the pods of an AppWrapper from others that name it, and finds those that named it before.
///
/// # Errors
/// Where the pods cannot be listed, or what became of one of ours cannot be read. A pod that is not known to
/// be ours never makes this fail.
pub async fn classify(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &mut ReconcileState,
    components: &[Component],
    ask: FreshRead,
) -> Result<Found, Error> {
    let key = wrapper.key();
    let Shown { mut records, cached, lists } = shown(sources, wrapper, memory, ask).await?;
    memory.object.kin.reads_soon = ask >= FreshRead::Pods || is_deleted(wrapper);
    let awaited = find_missing(sources, wrapper, memory, &records, &cached).await?;
    records.extend(awaited);
    records.extend(memory.object.kin.unseen(&wrapper.namespace));

    let roots = wrapper.roots(components);
    let (lineages, incomplete) =
        read_owners(sources, wrapper, memory, (&roots, components), &records).await;
    let forbidden = Lineage::Undetermined(Doubt::Forbidden);
    if mutations::is_present(Mutation::UnreadableOwnerFailsLook) && lineages.contains(&forbidden) {
        let nameless = KindKey { api_version: String::new(), kind: String::new() };
        return Err(Error::NotNamespaced(nameless));
    }
    let Sorted { mut ours, links, others } = assemble::sorted(&records, lineages, components);
    let mut undetermined = summary(&others);
    undetermined.incomplete = incomplete;
    if lists {
        let uids: BTreeSet<&str> = ours.iter().map(|pod| pod.uid.as_str()).collect();
        let own = records.iter().filter(|record| uids.contains(record.identity.uid.as_str()));
        sources.cache.pod_cache(|pod_cache| pod_cache.take_back(&key, own));
    } else {
        let aside = sources.cache.pod_cache(|pod_cache| pod_cache.holding(&key));
        undetermined.add(aside, NAMED_MAX);
    }
    put_aside(sources, wrapper, memory, others);
    memory.recall_undetermined(awaited_pod(wrapper));
    memory.keep_undetermined(&mut undetermined);
    for pod in &ours {
        let Pod { component, pod_set, attempt, .. } = *pod;
        memory.object.kin.put_pod(&pod.uid, &pod.name, &Place { component, pod_set, attempt });
    }
    for (owner, component) in links {
        memory.object.kin.put_link(owner, component);
    }
    memory.object.kin.forget_old_links();
    let mut orphans = vec![];
    if ask == FreshRead::Gone && components.iter().all(|component| component.ours().is_none()) {
        if ours.is_empty() {
            memory.object.kin.nothing_is_left();
        } else {
            orphans = find_orphans(sources, wrapper, memory, &records).await;
        }
    }
    if !memory.deleted_objects.is_empty() {
        let is_of_it =
            |pod: &Pod| pod.component.is_some_and(|index| was_deleted(wrapper, memory, index));
        ours.extend(memory.deleted_objects.pods(&ours).into_iter().filter(|pod| !is_of_it(pod)));
        ours.sort_by(|one, other| one.name.cmp(&other.name));
    }
    Ok(Found { pods: ours, undetermined, orphans })
}

/// Whether everything of an AppWrapper is being deleted.
fn is_deleted(wrapper: &Wrapper) -> bool {
    match wrapper.status.phase {
        Phase::Resetting | Phase::Suspending | Phase::Terminating => true,
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Succeeded
        | Phase::Failed => {
            wrapper.status.since.as_ref().is_some_and(|since| since.deleting.is_some())
        }
    }
}

/// The undetermined pod that the status says is waited for, by all of the AppWrapper or by a component.
fn awaited_pod(wrapper: &Wrapper) -> Option<&str> {
    let own = &wrapper.status.conditions;
    let of_components = wrapper.status.component_status.iter().map(|status| &status.conditions);
    let deleting = std::iter::once(own)
        .chain(of_components)
        .filter_map(|conditions| condition::find(conditions, condition::DELETING_RESOURCES))
        .filter(|it| it.reason == condition::deleting::UNDETERMINED);
    let success = condition::find(own, condition::UNDETERMINED_PODS);
    let waits = deleting.chain(success).find(|it| it.status == "True")?;
    let name = waits.message.split("Pod/").nth(1).and_then(|rest| rest.split([' ', ',']).next());
    Some(name.unwrap_or("unknown"))
}

/// The pods that name an AppWrapper, before it is known whose they are.
struct Shown {
    records: Vec<Arc<PodRecord>>,
    /// What the cache has, where they were listed.
    cached: Vec<Arc<PodRecord>>,
    /// They were listed.
    lists: bool,
}

/// What the cache has, or a LIST where one is asked for. A pod that the watch has shown to be deleted is no longer ours once
/// it is known how it ended.
async fn shown(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &mut ReconcileState,
    ask: FreshRead,
) -> Result<Shown, Error> {
    let key = wrapper.key();
    let (CachedPods { records, over, lacks }, deleted) = sources.cache.pod_cache(|pod_cache| {
        (pod_cache.look(&key, &wrapper.uid), pod_cache.take_deleted_pods(&key))
    });
    super::keep_deleted(wrapper, memory, deleted);
    for uid in &over {
        memory.object.kin.forget(uid);
    }
    let runs = wrapper.status.phase.runs_components();
    memory.must_list |= lacks || runs && memory.list_at.is_some_and(|at| at <= memory.now());
    if ask < FreshRead::Pods && !memory.must_list {
        return Ok(Shown { records, cached: vec![], lists: false });
    }
    let listed = list(sources, &key, memory).await?;
    (memory.must_list, memory.list_at) = (false, None);
    Ok(Shown { records: listed, cached: records, lists: true })
}

/// Lists the pods that name an AppWrapper, without those that are known to be somebody else's.
async fn list(
    sources: Sources<'_>,
    key: &Key,
    memory: &mut ReconcileState,
) -> Result<Vec<Arc<PodRecord>>, Error> {
    let known = sources.cache.pod_cache(|pod_cache| {
        pod_cache.release(key);
        pod_cache.count(key)
    });
    let mut records = sources.lists.pods(sources.client, key, known).await?;
    memory.listed += records.len();
    let records = sources.cache.pod_cache(|pod_cache| {
        pod_cache.take_in(key, &records);
        records.retain(|record| !pod_cache.is_strangers(key, record));
        records.into_iter().map(|record| pod_cache.continued(key, record)).collect()
    });
    Ok(records)
}

/// The objects that own pods of ours which are not being deleted, and that nothing controls any more. Only
/// what was once seen between a component and its pods is among them.
async fn find_orphans(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &ReconcileState,
    records: &[Arc<PodRecord>],
) -> Vec<Orphan> {
    let kin = &memory.object.kin;
    let lives = |record: &&Arc<PodRecord>| {
        !record.pod.terminating && kin.place(&record.identity.uid).is_some()
    };
    let owners =
        records.iter().filter(lives).filter_map(|record| record.identity.controller.as_ref());
    let owners: BTreeSet<&Controller> = owners.filter(|owner| kin.link(owner).is_some()).collect();
    let mut orphans = vec![];
    for owner in owners.into_iter().take(READS_MAX) {
        // the answer of an earlier read may be older than the deletion of the component
        let read = live::ancestor(sources.client, sources.live, &wrapper.namespace, owner).await;
        if matches!(read, Ok(Ancestor::Exists(None))) {
            let Controller { api_version, kind, name, uid } = owner.clone();
            orphans.push(Orphan { api_version, kind, name, uid });
        }
    }
    orphans
}

/// Our pods that neither the cache nor the list shows: the deletion of most was seen, and of the others it is
/// asked what became of them. Few are read one by one, many are looked for in one list. Of one that only the cache still
/// has, the watch will tell how it ended; until then, one that was disrupted is returned as the cache has it.
async fn find_missing(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &mut ReconcileState,
    records: &[Arc<PodRecord>],
    cached: &[Arc<PodRecord>],
) -> Result<Vec<Arc<PodRecord>>, Error> {
    let now = memory.now();
    let (client, namespace) = (sources.client, &wrapper.namespace);
    let ReconcileState { object, deleted_objects, .. } = memory;
    let kin = &mut object.kin;
    let decides = wrapper.status.phase.runs_components();
    let cached: BTreeMap<&str, &Arc<PodRecord>> = if decides {
        cached.iter().map(|record| (record.identity.uid.as_str(), record)).collect()
    } else {
        BTreeMap::new()
    };
    let mut awaited = vec![];
    let mut gone = |kin: &mut Kin, uid: &str| match cached.get(uid) {
        Some(record) => {
            if is_disrupted(record) {
                awaited.push(Arc::clone(record));
            } else {
                deleted_objects.take_pod(record, kin);
            }
            kin.over(uid);
        }
        None => kin.forget(uid),
    };
    let mut missing = kin.missing(records, now);
    if missing.len() > GETS_MAX {
        let there = live::pod_uids(client, namespace).await?;
        missing.retain(|one| {
            let exists = there.contains(&one.uid);
            if exists {
                kin.exists(&one.uid, None, now);
            } else {
                gone(kin, &one.uid);
            }
            exists
        });
    }
    for one in missing.into_iter().take(GETS_MAX) {
        match live::pod(client, namespace, &one.name).await? {
            Some(record) if record.identity.uid == one.uid => {
                kin.exists(&one.uid, Some(record), now);
            }
            // it cannot be read: another one may have its name, or not
            Some(record) if record.identity.uid.is_empty() => kin.exists(&one.uid, None, now),
            Some(_) | None => gone(kin, &one.uid),
        }
    }
    Ok(awaited)
}

/// Reads the owners that must be known to tell whose these pods are.
///
/// Reads that lead to our pods are unlimited. Others are capped at [`READS_MAX`], since anyone can name any number of
/// owners.
async fn read_owners(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &mut ReconcileState,
    (roots, components): (&BTreeMap<String, Option<usize>>, &[Component]),
    records: &[Arc<PodRecord>],
) -> (Vec<Lineage>, bool) {
    let (now, namespace) = (memory.now(), &wrapper.namespace);
    let family = Family::new(&wrapper.uid, roots, components, &memory.object.kin);
    let mut known = Ancestors::new();
    let mut lineages: Vec<Lineage> =
        records.iter().map(|record| family.lineage(record, &known)).collect();
    let (mut left, mut read_on_in, mut incomplete) = (READS_MAX, None::<Duration>, false);
    for _ in 0..CHAIN_MAX {
        let unread: BTreeSet<Controller> =
            lineages.iter().filter_map(Lineage::unread).cloned().collect();
        let mut fresh = vec![];
        for owner in unread {
            match sources.cache.owner(namespace, &owner, now) {
                Some(ancestor) => {
                    known.insert(owner, ancestor);
                }
                None => fresh.push((rank(&owner, components), owner)),
            }
        }
        fresh.sort();
        for (rank, owner) in fresh {
            if left == 0 {
                (read_on_in, incomplete) = (Some(READ_ON_AFTER), rank < Rank::Other);
                break;
            }
            let (ancestor, lasts) = read(sources, namespace, &owner).await;
            let is_ours = match &ancestor {
                Ancestor::Exists(Some(next)) => family.is_known(next),
                Ancestor::Exists(None) | Ancestor::Gone | Ancestor::Unknown(_) => false,
            };
            left -= usize::from(!is_ours);
            let until = lasts.map(|lasts| now.saturating_add(lasts));
            sources.cache.put_owner(namespace, owner.clone(), ancestor.clone(), until);
            known.insert(owner, ancestor);
        }
        for (lineage, record) in lineages.iter_mut().zip(records) {
            if lineage.unread().is_some() {
                *lineage = family.lineage(record, &known);
            }
        }
        if left == 0 || lineages.iter().all(|lineage| lineage.unread().is_none()) {
            break;
        }
    }
    let unavailable = Ancestor::Unknown(Doubt::Unavailable);
    let expected = |owner: &Controller| rank(owner, components) < Rank::Other;
    let missed = known.iter().any(|(owner, read)| *read == unavailable && expected(owner));
    if missed {
        read_on_in.get_or_insert(READ_AGAIN_AFTER);
    }
    (memory.read_on_in, memory.missed) = (read_on_in, missed);
    (lineages, incomplete || missed)
}

/// How likely an owner stands between a component and its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// As `Expected`, and its name starts with the component's name.
    Named,
    /// Its kind is one that a component creates, a component's own kind, or of the same API version as a component of
    /// unknown kind.
    Expected,
    /// No component makes anything of its kind.
    Other,
}

fn rank(owner: &Controller, components: &[Component]) -> Rank {
    let may_make = |component: &&Component| {
        let kind = Kind::of(&component.api_version, &component.kind);
        let made = (owner.api_version.as_str(), owner.kind.as_str());
        kind.makes.contains(&made)
            || made == (component.api_version.as_str(), component.kind.as_str())
            || !kind.is_known() && owner.api_version == component.api_version
    };
    let makers: Vec<&Component> = components.iter().filter(may_make).collect();
    if makers.is_empty() {
        Rank::Other
    } else if makers.iter().any(|maker| owner.name.starts_with(&maker.name)) {
        Rank::Named
    } else {
        Rank::Expected
    }
}

/// Reads an owner; what cannot be told ends after the time that goes with it.
async fn read(
    sources: Sources<'_>,
    namespace: &str,
    owner: &Controller,
) -> (Ancestor, Option<Duration>) {
    let unknown = |doubt, lasts| (Ancestor::Unknown(doubt), Some(lasts));
    match live::ancestor(sources.client, sources.live, namespace, owner).await {
        Ok(ancestor) => (ancestor, None),
        Err(Error::NoKind(_)) => unknown(Doubt::UnknownKind, DOUBT_FOR),
        // a Node or the like, which nothing in a namespace controls
        Err(Error::NotNamespaced(_)) => (Ancestor::Exists(None), Some(10 * DOUBT_FOR)),
        Err(error) => match error.code() {
            Some(403) => unknown(Doubt::Forbidden, DOUBT_FOR),
            // 401 too: a token that has expired is about to be replaced
            Some(_) | None => unknown(Doubt::Unavailable, READ_AGAIN_AFTER),
        },
    }
}

fn summary(others: &[NotOurs]) -> Undetermined {
    let mut all = Undetermined::default();
    for other in others {
        let Some(doubt) = other.doubt else { continue };
        all.count += 1;
        all.live += usize::from(!other.ended);
        all.outlived += usize::from(!other.ended && doubt == Doubt::Outlived);
        all.unsettled |= doubt.may_change();
        if all.named.len() < NAMED_MAX {
            all.named.push((other.name.clone(), doubt.to_string()));
        }
    }
    all
}

/// Puts aside what later looks need not look at again. A wrapped Pod's name is that of a component, which is
/// looked at by its name.
fn put_aside(
    sources: Sources<'_>,
    wrapper: &Wrapper,
    memory: &mut ReconcileState,
    others: Vec<NotOurs>,
) {
    let (mut undetermined, mut unread) = (0, 0);
    let (mut aside, mut is_unavailable_aside, mut may_change) = (vec![], false, false);
    for other in others {
        let stays = match other.doubt {
            None => false,
            Some(Doubt::Unread) => {
                unread += 1;
                unread <= UNREAD_MAX
            }
            Some(
                Doubt::NoOwner
                | Doubt::OwnerGone
                | Doubt::Outlived
                | Doubt::Forbidden
                | Doubt::UnknownKind
                | Doubt::Unavailable
                | Doubt::OwnerDetached,
            ) => {
                undetermined += 1;
                undetermined <= UNDETERMINED_MAX
            }
        };
        let is_component = wrapper
            .components
            .iter()
            .any(|component| kind_of(component).is_pod() && component.name == other.name);
        if !stays && !is_component {
            is_unavailable_aside |= other.doubt == Some(Doubt::Unavailable);
            may_change |= other.doubt.is_some_and(|it| it.may_change() && it != Doubt::Unread);
            aside.push(other);
        }
    }
    // some may be ours, and no event of theirs may follow once their owners can be read
    if is_unavailable_aside {
        memory.must_list = true;
        memory.read_on_in.get_or_insert(READ_AGAIN_AFTER);
    }
    if may_change {
        let at = memory.now().saturating_add(DOUBT_FOR);
        memory.list_at.get_or_insert(at);
    }
    memory.unread_aside |= unread > UNREAD_MAX;
    if unread == 0 && std::mem::take(&mut memory.unread_aside) {
        memory.must_list = true;
        memory.read_on_in.get_or_insert(READ_ON_AFTER);
    }
    // at rest nothing depends on them, and a deletion lists the pods in any case
    if let Some(at) = memory.list_at.filter(|_| wrapper.status.phase.runs_components()) {
        memory.look_again(at.saturating_sub(memory.now()));
    }
    sources.cache.pod_cache(|pod_cache| pod_cache.put_aside(&wrapper.key(), aside));
}
