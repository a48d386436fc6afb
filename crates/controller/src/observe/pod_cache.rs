//! The pods that name AppWrappers, as the watch has shown them.
//!
//! Anyone may label a pod with the name of an AppWrapper. A pod of which a look has found that it is not its
//! AppWrapper's is put aside: little is kept of it, and it costs later looks nothing until it changes.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::ancestry::Doubt;
use super::cache::{Key, KindKey};
use super::deleted_objects::Deleted;
use super::pod_record::PodRecord;
use super::records::ObjectRecord;
use crate::snapshot::Undetermined;

/// How many deletions are remembered until the next look; of others it is asked what became of them.
const OVER_MAX: usize = 10_000;
/// How many undetermined pods are named.
pub const NAMED_MAX: usize = 3;

/// All pods that name an AppWrapper.
#[derive(Debug, Default)]
pub struct PodCache {
    groups: BTreeMap<Key, Group>,
    /// The AppWrapper that each pod names, by namespace and name of the pod.
    homes: BTreeMap<Key, Key>,
}

/// The pods that name one AppWrapper.
#[derive(Debug, Default)]
struct Group {
    pods: BTreeMap<String, Arc<PodRecord>>,
    /// Strangers' pods that were put aside, with what they say of whose they are.
    strangers: BTreeMap<String, u64>,
    /// Undetermined pods that were put aside.
    undetermined: BTreeMap<String, Aside>,
    /// How many of them have not ended.
    live: usize,
    /// How many of them have not ended, and outlived what may have been a component.
    outlived: usize,
    /// Of how many of them it may turn out whose they are, without any event.
    unsettled: usize,
    /// Pods that were put aside and of which nothing is known any more until they are listed.
    released: BTreeSet<String>,
    /// Pods whose deletion the watch has shown since the last look.
    over: BTreeSet<String>,
    /// What had ended of what was deleted since the last look, components too.
    deleted: Deleted,
    /// UID of the AppWrapper for which what was found holds; none where there is no such AppWrapper.
    found_for: Option<String>,
}

/// What is kept of an undetermined pod that was put aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Aside {
    claims: u64,
    ended: bool,
    doubt: Doubt,
}

/// What a look begins with.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CachedPods {
    /// The pods that name the AppWrapper and were not put aside.
    pub records: Vec<Arc<PodRecord>>,
    /// UIDs of the pods whose deletion the watch has shown since the last look.
    pub over: BTreeSet<String>,
    /// There are pods of which too little was kept: they must be listed.
    pub lacks: bool,
}

/// What a look has found of a pod that is not ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOurs {
    /// Its name.
    pub name: String,
    /// What it says of whose it is, in short.
    pub claims: u64,
    /// It has ended.
    pub ended: bool,
    /// Why it cannot be told whose it is; none where it is a stranger's.
    pub doubt: Option<Doubt>,
}

/// Everything of a pod on which it depends whose it is, as a number.
#[must_use]
pub fn claims(record: &PodRecord) -> u64 {
    let mut hasher = DefaultHasher::new();
    let identity = &record.identity;
    (&identity.uid, &identity.appwrapper_uid, &identity.controller).hash(&mut hasher);
    record.pod.has_ended().hash(&mut hasher);
    hasher.finish()
}

impl Group {
    fn is_empty(&self) -> bool {
        self.len() == 0 && self.found_for.is_none()
    }

    fn len(&self) -> usize {
        self.pods.len() + self.strangers.len() + self.undetermined.len() + self.released.len()
    }

    /// Forgets what was found of the undetermined pods that were put aside.
    fn release(&mut self) {
        self.released.extend(std::mem::take(&mut self.undetermined).into_keys());
        (self.live, self.outlived, self.unsettled) = (0, 0, 0);
    }

    fn put_aside(&mut self, found: NotOurs) {
        let NotOurs { name, claims, ended, doubt } = found;
        match doubt {
            Some(doubt) => {
                self.live += usize::from(!ended);
                self.outlived += usize::from(!ended && doubt == Doubt::Outlived);
                self.unsettled += usize::from(doubt.may_change());
                self.undetermined.insert(name, Aside { claims, ended, doubt });
            }
            None => {
                self.strangers.insert(name, claims);
            }
        }
    }

    /// What was found of a pod that was put aside, which it is no more.
    fn remove_aside(&mut self, name: &str) -> Option<NotOurs> {
        if let Some(claims) = self.strangers.remove(name) {
            return Some(NotOurs { name: name.to_owned(), claims, ended: false, doubt: None });
        }
        let Aside { claims, ended, doubt } = self.undetermined.remove(name)?;
        self.live -= usize::from(!ended);
        self.outlived -= usize::from(!ended && doubt == Doubt::Outlived);
        self.unsettled -= usize::from(doubt.may_change());
        Some(NotOurs { name: name.to_owned(), claims, ended, doubt: Some(doubt) })
    }

    /// What a pod that was put aside said of whose it is.
    fn claims_aside(&self, name: &str) -> Option<u64> {
        let undetermined = || self.undetermined.get(name).map(|aside| aside.claims);
        self.strangers.get(name).copied().or_else(undetermined)
    }

    /// Takes a pod in; whether that is a reason to look.
    fn put(&mut self, record: Arc<PodRecord>) -> bool {
        let name = &record.identity.name;
        if self.claims_aside(name).is_some_and(|were| were == claims(&record)) {
            return false;
        }
        self.remove_aside(name);
        self.released.remove(name);
        let record = self.continued(record);
        let old = self.pods.insert(record.identity.name.clone(), record.clone());
        let is_quiet = old.is_some_and(|old| *old == *record || has_only_progressed(&old, &record));
        !is_quiet
    }

    /// A record that a watch or a list shows, with what was known before.
    fn continued(&self, record: Arc<PodRecord>) -> Arc<PodRecord> {
        match self.pods.get(&record.identity.name) {
            Some(older) => record.after(older),
            None => record,
        }
    }

    /// Takes a pod out; whether that is a reason to look.
    fn remove(&mut self, name: &str) -> bool {
        let held = self.remove_aside(name).is_some_and(|aside| aside.doubt.is_some());
        let was_released = self.released.remove(name);
        self.pods.remove(name).is_some() || held || was_released
    }
}

impl PodCache {
    /// Stores a pod; returns the AppWrappers that are to be looked at: the one that it names, and the one
    /// that it named before.
    pub fn put(&mut self, record: Arc<PodRecord>) -> BTreeSet<Key> {
        let mut changed = BTreeSet::new();
        let Some(key) = Key::named_by(&record.identity) else { return changed };
        let at = Key::of_record(&record.identity);
        let before = self.homes.insert(at, key.clone());
        if let Some(before) = before.filter(|before| *before != key)
            && self.leave(&before, &record.identity.name)
        {
            changed.insert(before);
        }
        if self.groups.entry(key.clone()).or_default().put(record) {
            changed.insert(key);
        }
        changed
    }

    /// Forgets a pod that the watch shows no more; returns the AppWrappers that are to be looked at.
    pub fn remove(&mut self, record: &Arc<PodRecord>) -> BTreeSet<Key> {
        let home = self.homes.remove(&Key::of_record(&record.identity));
        let mut changed = BTreeSet::new();
        let keys: BTreeSet<Key> = home.into_iter().chain(Key::named_by(&record.identity)).collect();
        for key in keys {
            // anyone can make and delete strangers' pods, and their end wakes nobody who would take it
            let is_strangers = self.is_strangers(&key, record);
            if let Some(group) = self.groups.get_mut(&key)
                && group.found_for.is_some()
                && record.is_over
                && !is_strangers
                && group.over.len() < OVER_MAX
            {
                group.over.insert(record.identity.uid.clone());
                // what was put aside is not known to be ours
                if group.pods.contains_key(&record.identity.name) {
                    let record = group.continued(record.clone());
                    group.deleted.note_pod(&record);
                }
            }
            if self.leave(&key, &record.identity.name) {
                changed.insert(key);
            }
        }
        changed
    }

    /// Keeps what an object says at its deletion until the next look at the AppWrapper that it names.
    pub fn note_deleted(&mut self, key: &Key, kind: &KindKey, record: &ObjectRecord) {
        let Some(group) = self.groups.get_mut(key) else { return };
        if let Some(uid) = &group.found_for {
            group.deleted.note_object(kind, record, uid);
        }
    }

    /// What had ended of what was deleted since the last look at an AppWrapper.
    pub fn take_deleted(&mut self, key: &Key) -> Deleted {
        self.groups.get_mut(key).map(|group| std::mem::take(&mut group.deleted)).unwrap_or_default()
    }

    /// The same of the pods alone, while a look is under way that has read the objects already.
    pub fn take_deleted_pods(&mut self, key: &Key) -> Deleted {
        self.groups.get_mut(key).map(|group| group.deleted.take_pods()).unwrap_or_default()
    }

    fn leave(&mut self, key: &Key, name: &str) -> bool {
        let Some(group) = self.groups.get_mut(key) else { return false };
        let changed = group.remove(name);
        if group.is_empty() {
            self.groups.remove(key);
        }
        changed
    }

    /// Replaces all pods after a new list, but for how those ended that are not in it, until the next look at the AppWrapper
    /// that each names; returns the AppWrappers that old or new pods name.
    pub fn replace(&mut self, records: Vec<Arc<PodRecord>>) -> BTreeSet<Key> {
        let old: Vec<Key> = self.groups.keys().cloned().collect();
        self.homes.clear();
        let mut fresh: BTreeMap<Key, Group> = BTreeMap::new();
        for record in records {
            let Some(key) = Key::named_by(&record.identity) else { continue };
            self.homes.insert(Key::of_record(&record.identity), key.clone());
            let group = fresh.entry(key.clone()).or_default();
            let was_aside = self
                .groups
                .get_mut(&key)
                .and_then(|old| old.remove_aside(&record.identity.name))
                .filter(|aside| aside.claims == claims(&record));
            if let Some(aside) = was_aside {
                group.put_aside(aside);
            } else {
                let record = self.continued(&key, record);
                group.pods.insert(record.identity.name.clone(), record);
            }
        }
        for (key, group) in std::mem::take(&mut self.groups) {
            if group.found_for.is_some() {
                let kept = fresh.entry(key).or_default();
                (kept.found_for, kept.over) = (group.found_for, group.over);
                kept.deleted = group.deleted;
                for (name, was) in &group.pods {
                    let now = kept.pods.get(name);
                    if now.is_none_or(|now| now.identity.uid != was.identity.uid) {
                        kept.deleted.note_ended(was);
                    }
                }
            }
        }
        self.groups = fresh;
        old.into_iter().chain(self.groups.keys().cloned()).collect()
    }

    /// The record of a pod that a list shows, with what was known of the pod before.
    #[must_use]
    pub fn continued(&self, key: &Key, record: Arc<PodRecord>) -> Arc<PodRecord> {
        match self.groups.get(key) {
            Some(group) => group.continued(record),
            None => record,
        }
    }

    /// The pods of an AppWrapper of this UID that are to be looked at.
    pub fn look(&mut self, key: &Key, uid: &str) -> CachedPods {
        let group = self.groups.entry(key.clone()).or_default();
        if group.found_for.as_deref() != Some(uid) {
            // what was found for another AppWrapper of the same name says nothing
            group.release();
            group.released.extend(std::mem::take(&mut group.strangers).into_keys());
            group.found_for = Some(uid.to_owned());
        }
        let records = group.pods.values().cloned().collect();
        let lacks = !group.released.is_empty();
        CachedPods { records, over: std::mem::take(&mut group.over), lacks }
    }

    /// The undetermined pods of an AppWrapper are about to be listed: the list tells anew whose they are, and what the watch
    /// shows of them meanwhile counts.
    pub fn release(&mut self, key: &Key) {
        if let Some(group) = self.groups.get_mut(key) {
            group.release();
        }
    }

    /// Forgets what was found for an AppWrapper: it is gone, or a panic may have left it incomplete.
    pub fn forget(&mut self, key: &Key) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.over.clear();
        group.deleted = Deleted::default();
        group.found_for = None;
        if group.is_empty() {
            self.groups.remove(key);
        }
    }

    /// Puts pods aside that a look has found not to be ours, unless they have changed since.
    pub fn put_aside(&mut self, key: &Key, found: Vec<NotOurs>) {
        let Some(group) = self.groups.get_mut(key) else { return };
        for each in found {
            if group.pods.get(&each.name).is_some_and(|record| claims(record) == each.claims) {
                group.pods.remove(&each.name);
                group.put_aside(each);
            }
        }
    }

    /// Takes in listed pods of which nothing is kept although the watch shows them: they were undetermined, or put aside for
    /// another AppWrapper of the same name.
    pub fn take_in(&mut self, key: &Key, listed: &[Arc<PodRecord>]) {
        let Some(group) = self.groups.get_mut(key) else { return };
        for record in listed {
            let name = &record.identity.name;
            let is_kept = group.pods.contains_key(name) || group.claims_aside(name).is_some();
            if !is_kept && self.homes.get(&Key::of_record(&record.identity)) == Some(key) {
                group.pods.insert(name.clone(), record.clone());
            }
        }
        group.released.clear();
    }

    /// Takes back pods that were put aside and that a later read has shown to be ours.
    pub fn take_back<'r>(&mut self, key: &Key, records: impl Iterator<Item = &'r Arc<PodRecord>>) {
        let Some(group) = self.groups.get_mut(key) else { return };
        for record in records {
            // one that the watch has shown to be gone is not aside
            if group.remove_aside(&record.identity.name).is_some() {
                group.pods.insert(record.identity.name.clone(), record.clone());
            }
        }
    }

    /// Whether a pod was put aside as a stranger's, and has not changed since.
    #[must_use]
    pub fn is_strangers(&self, key: &Key, record: &PodRecord) -> bool {
        let strangers = self.groups.get(key).map(|group| &group.strangers);
        let were = strangers.and_then(|strangers| strangers.get(&record.identity.name));
        were.is_some_and(|were| *were == claims(record))
    }

    /// The pods that were put aside and that hold back the release of quota.
    #[must_use]
    pub fn holding(&self, key: &Key) -> Undetermined {
        let Some(group) = self.groups.get(key) else { return Undetermined::default() };
        let named = group.undetermined.iter().take(NAMED_MAX);
        let named = named.map(|(name, aside)| (name.clone(), aside.doubt.to_string())).collect();
        Undetermined {
            count: group.undetermined.len(),
            live: group.live,
            outlived: group.outlived,
            named,
            unsettled: group.unsettled > 0,
            incomplete: false,
        }
    }

    /// How many pods name an AppWrapper.
    #[must_use]
    pub fn count(&self, key: &Key) -> usize {
        self.groups.get(key).map_or(0, Group::len)
    }

    /// How many pods a reconcile goes through: those that were not put aside.
    #[must_use]
    pub fn kept(&self, key: &Key) -> usize {
        self.groups.get(key).map_or(0, |group| group.pods.len())
    }

    /// The pods that name an AppWrapper and were not put aside.
    pub fn of(&self, key: &Key) -> impl Iterator<Item = &Arc<PodRecord>> {
        self.groups.get(key).into_iter().flat_map(|group| group.pods.values())
    }

    /// The pod of a name that names an AppWrapper and was not put aside.
    #[must_use]
    pub fn get(&self, key: &Key, name: &str) -> Option<&PodRecord> {
        self.groups.get(key)?.pods.get(name).map(AsRef::as_ref)
    }

    /// Every pod: the AppWrapper that it names, its own name, and its record, unless it was put aside.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &str, Option<&PodRecord>)> {
        self.groups.iter().flat_map(|(key, group)| {
            let kept = group.pods.iter().map(|(name, record)| (name, Some(&**record)));
            let aside = group.strangers.keys().chain(group.undetermined.keys());
            let bare = aside.chain(&group.released).map(|name| (name, None));
            kept.chain(bare).map(move |(name, record)| (key, name.as_str(), record))
        })
    }

    /// The AppWrappers that have a pod like this.
    pub fn having(&self, wanted: impl Fn(&PodRecord) -> bool) -> BTreeSet<Key> {
        let has = self
            .groups
            .iter()
            .filter(|(_, group)| group.pods.values().any(|record| wanted(record)));
        has.map(|(key, _)| key.clone()).collect()
    }
}

/// Whether a pod reports newer progress, and nothing else of it has changed. That moves a deadline to later, which is
/// computed again when the earlier one is over: a report costs no reconcile.
fn has_only_progressed(old: &PodRecord, new: &PodRecord) -> bool {
    let (Some(Ok(before)), Some(Ok(after))) = (&old.pod.progress, &new.pod.progress) else {
        return false;
    };
    let mut same = old.clone();
    same.pod.progress.clone_from(&new.pod.progress);
    let goes_on = before.percent() != Some(100); // else nothing was waited for
    goes_on && before.at() < after.at() && same == *new
}

#[cfg(test)]
mod tests;
