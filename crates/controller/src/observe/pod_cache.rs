//! The pods that name AppWrappers, as the watch has shown them.
//!
//! Anyone may label a pod with the name of an AppWrapper. A pod of which a look has found that it is not its
//! AppWrapper's is put aside: little is kept of it, and it costs later looks nothing until it changes.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::ancestry::Doubt;
use super::cache::Key;
use super::pod_record::PodRecord;
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
    /// Pods whose deletion the watch has shown since the last look.
    over: BTreeSet<String>,
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
        self.pods.len() + self.strangers.len() + self.undetermined.len()
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
        self.pods.insert(name.clone(), record);
        true
    }

    /// Takes a pod out; whether that is a reason to look.
    fn remove(&mut self, name: &str) -> bool {
        let held = self.remove_aside(name).is_some_and(|aside| aside.doubt.is_some());
        self.pods.remove(name).is_some() || held
    }
}

impl PodCache {
    /// Stores a pod; returns the AppWrappers that are to be looked at: the one that it names, and the one
    /// that it named before.
    pub fn put(&mut self, record: Arc<PodRecord>) -> BTreeSet<Key> {
        let mut changed = BTreeSet::new();
        let Some(key) = named_by(&record) else { return changed };
        let at = place(&record);
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
    pub fn remove(&mut self, record: &PodRecord) -> BTreeSet<Key> {
        let home = self.homes.remove(&place(record));
        let mut changed = BTreeSet::new();
        for key in home.into_iter().chain(named_by(record)) {
            if let Some(group) = self.groups.get_mut(&key)
                && group.found_for.is_some()
                && record.is_over
                && group.over.len() < OVER_MAX
            {
                group.over.insert(record.identity.uid.clone());
            }
            if self.leave(&key, &record.identity.name) {
                changed.insert(key);
            }
        }
        changed
    }

    fn leave(&mut self, key: &Key, name: &str) -> bool {
        let Some(group) = self.groups.get_mut(key) else { return false };
        let changed = group.remove(name);
        if group.is_empty() {
            self.groups.remove(key);
        }
        changed
    }

    /// Replaces all pods after a new list; returns the AppWrappers that old or new pods name.
    pub fn replace(&mut self, records: Vec<Arc<PodRecord>>) -> BTreeSet<Key> {
        let old: Vec<Key> = self.groups.keys().cloned().collect();
        self.homes.clear();
        let mut fresh: BTreeMap<Key, Group> = BTreeMap::new();
        for record in records {
            let Some(key) = named_by(&record) else { continue };
            self.homes.insert(place(&record), key.clone());
            let group = fresh.entry(key.clone()).or_default();
            let was_aside = self
                .groups
                .get_mut(&key)
                .and_then(|old| old.remove_aside(&record.identity.name))
                .filter(|aside| aside.claims == claims(&record));
            match was_aside {
                Some(aside) => group.put_aside(aside),
                None => {
                    group.pods.insert(record.identity.name.clone(), record);
                }
            }
        }
        for (key, group) in std::mem::take(&mut self.groups) {
            if group.found_for.is_some() {
                let kept = fresh.entry(key).or_default();
                (kept.found_for, kept.over) = (group.found_for, group.over);
            }
        }
        self.groups = fresh;
        old.into_iter().chain(self.groups.keys().cloned()).collect()
    }

    /// The pods of an AppWrapper of this UID that are to be looked at.
    pub fn look(&mut self, key: &Key, uid: &str) -> CachedPods {
        let group = self.groups.entry(key.clone()).or_default();
        let mut lacks = false;
        if group.found_for.as_deref() != Some(uid) {
            // what was found for another AppWrapper of the same name says nothing
            lacks = !group.strangers.is_empty() || !group.undetermined.is_empty();
            group.strangers.clear();
            group.undetermined.clear();
            (group.live, group.outlived, group.unsettled) = (0, 0, 0);
            group.found_for = Some(uid.to_owned());
        }
        let records = group.pods.values().cloned().collect();
        CachedPods { records, over: std::mem::take(&mut group.over), lacks }
    }

    /// An AppWrapper is gone.
    pub fn forget(&mut self, key: &Key) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.over.clear();
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

    /// Takes in listed pods of which nothing is kept although the watch shows them: they were put aside for
    /// another AppWrapper of the same name.
    pub fn take_in(&mut self, key: &Key, listed: &[Arc<PodRecord>]) {
        let Some(group) = self.groups.get_mut(key) else { return };
        for record in listed {
            let name = &record.identity.name;
            let is_kept = group.pods.contains_key(name) || group.claims_aside(name).is_some();
            if !is_kept && self.homes.get(&place(record)) == Some(key) {
                group.pods.insert(name.clone(), record.clone());
            }
        }
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

    /// The AppWrappers that have a pod like this.
    pub fn having(&self, wanted: impl Fn(&PodRecord) -> bool) -> BTreeSet<Key> {
        let has = self
            .groups
            .iter()
            .filter(|(_, group)| group.pods.values().any(|record| wanted(record)));
        has.map(|(key, _)| key.clone()).collect()
    }
}

/// The AppWrapper that a pod names.
fn named_by(record: &PodRecord) -> Option<Key> {
    let name = record.identity.appwrapper.clone()?;
    Some(Key { namespace: record.identity.namespace.clone(), name })
}

fn place(record: &PodRecord) -> Key {
    Key { namespace: record.identity.namespace.clone(), name: record.identity.name.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::records::Identity;
    use crate::snapshot::PodPhase;

    fn key(name: &str) -> Key {
        Key { namespace: "n".into(), name: name.into() }
    }

    fn pod(name: &str, aw: &str) -> Arc<PodRecord> {
        let identity = Identity {
            namespace: "n".into(),
            name: name.into(),
            uid: format!("{name}-uid"),
            appwrapper: Some(aw.into()),
            ..Identity::default()
        };
        Arc::new(PodRecord { identity, ..PodRecord::default() })
    }

    fn names(pod_cache: &mut PodCache, aw: &str) -> Vec<String> {
        let look = pod_cache.look(&key(aw), "uid");
        look.records.iter().map(|record| record.identity.name.clone()).collect()
    }

    fn not_ours(record: &PodRecord, doubt: Option<Doubt>) -> NotOurs {
        let name = record.identity.name.clone();
        NotOurs { name, claims: claims(record), ended: record.pod.has_ended(), doubt }
    }

    #[test]
    fn a_pod_whose_label_changes_is_moved() {
        let mut pod_cache = PodCache::default();
        assert_eq!(pod_cache.put(pod("p", "a")), BTreeSet::from([key("a")]));
        assert_eq!(pod_cache.put(pod("p", "b")), BTreeSet::from([key("a"), key("b")]));
        assert_eq!(
            (names(&mut pod_cache, "a").len(), names(&mut pod_cache, "b")),
            (0, vec!["p".into()])
        );
        // the event of the removal shows the last label
        assert_eq!(pod_cache.remove(&pod("p", "b")), BTreeSet::from([key("b")]));
        assert_eq!((pod_cache.count(&key("a")), pod_cache.count(&key("b"))), (0, 0));
        // one that shows another label than was known removes it all the same
        pod_cache.put(pod("p", "a"));
        pod_cache.remove(&pod("p", "c"));
        assert_eq!(pod_cache.count(&key("a")), 0);
        assert!(pod_cache.homes.is_empty());
    }

    #[test]
    fn only_a_complete_deletion_is_remembered_as_one() {
        let mut pod_cache = PodCache::default();
        let over = |name: &str| PodRecord { is_over: true, ..PodRecord::clone(&pod(name, "a")) };
        pod_cache.put(pod("p", "a"));
        pod_cache.look(&key("a"), "uid");
        pod_cache.put(pod("q", "a"));
        pod_cache.remove(&over("p"));
        pod_cache.remove(&pod("q", "a"));
        assert_eq!(pod_cache.look(&key("a"), "uid").over, BTreeSet::from(["p-uid".to_owned()]));
        assert_eq!(pod_cache.look(&key("a"), "uid"), CachedPods::default(), "told once");
        // of an AppWrapper that nobody looks at nothing is kept
        pod_cache.put(pod("p", "nobody"));
        pod_cache.remove(&PodRecord { is_over: true, ..PodRecord::clone(&pod("p", "nobody")) });
        assert!(!pod_cache.groups.contains_key(&key("nobody")));
    }

    #[test]
    fn what_is_put_aside_costs_nothing_until_it_changes() {
        let mut pod_cache = PodCache::default();
        let stranger = pod("s", "a");
        pod_cache.put(stranger.clone());
        pod_cache.put(pod("p", "a"));
        pod_cache.look(&key("a"), "uid");
        pod_cache.put_aside(&key("a"), vec![not_ours(&stranger, None)]);
        assert_eq!(names(&mut pod_cache, "a"), ["p"]);
        assert!(pod_cache.is_strangers(&key("a"), &stranger));
        assert_eq!(pod_cache.count(&key("a")), 2);
        let mut busy = stranger.clone();
        Arc::make_mut(&mut busy).pod.phase = PodPhase::Running;
        assert!(pod_cache.put(busy).is_empty(), "its status is nobody's concern");
        let mut claims_more = stranger.clone();
        Arc::make_mut(&mut claims_more).identity.appwrapper_uid = Some("u".into());
        assert!(!pod_cache.is_strangers(&key("a"), &claims_more));
        assert_eq!(pod_cache.put(claims_more).len(), 1);
        assert_eq!(names(&mut pod_cache, "a"), ["p", "s"]);
        // what has changed since it was looked at is not put aside
        pod_cache.put_aside(&key("a"), vec![not_ours(&stranger, None)]);
        assert_eq!(names(&mut pod_cache, "a"), ["p", "s"]);
    }

    #[test]
    fn an_undetermined_pod_is_counted_until_it_goes_ends_or_is_ours() {
        let mut pod_cache = PodCache::default();
        let all: Vec<Arc<PodRecord>> = (0..5).map(|n| pod(&format!("p{n}"), "a")).collect();
        for record in &all {
            pod_cache.put(record.clone());
        }
        pod_cache.look(&key("a"), "uid");
        let doubt = Some(Doubt::NoOwner);
        pod_cache.put_aside(&key("a"), all.iter().map(|record| not_ours(record, doubt)).collect());
        let held = pod_cache.holding(&key("a"));
        assert_eq!((held.count, held.live, held.named.len()), (5, 5, NAMED_MAX));
        assert_eq!(
            pod_cache.remove(&all[0]).len(),
            1,
            "one that holds and goes is a reason to look"
        );
        let mut ended = all[1].clone();
        Arc::make_mut(&mut ended).pod.phase = PodPhase::Failed;
        assert_eq!(pod_cache.put(ended.clone()).len(), 1);
        assert_eq!(pod_cache.holding(&key("a")).count, 3);
        pod_cache.put_aside(&key("a"), vec![not_ours(&ended, Some(Doubt::OwnerGone))]);
        let held = pod_cache.holding(&key("a"));
        assert_eq!((held.count, held.live), (4, 3));
        pod_cache.take_back(&key("a"), all[2..3].iter().chain(&all[..1]));
        assert_eq!(names(&mut pod_cache, "a"), ["p2"], "one that is gone does not come back");
        // a new list keeps what was found
        pod_cache.replace(all[2..4].to_vec());
        assert_eq!(
            (names(&mut pod_cache, "a"), pod_cache.holding(&key("a")).count),
            (vec!["p2".into()], 1)
        );
        pod_cache.forget(&key("a"));
        assert!(pod_cache.look(&key("a"), "another").lacks, "what was found was about another");
        assert_eq!(pod_cache.holding(&key("a")).count, 0);
        assert!(!pod_cache.look(&key("a"), "another").lacks);
        // what the watch shows is known again once it was listed, and nothing else
        pod_cache.take_in(&key("a"), &[all[3].clone(), pod("unseen", "a")]);
        let known = pod_cache.look(&key("a"), "another").records;
        assert_eq!(known, [all[2].clone(), all[3].clone()]);
    }
}
