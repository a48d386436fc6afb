//! What the watches have shown: a cache of facts, from which presence may be concluded but never absence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::ancestry::Ancestor;
use super::owners::Owners;
use super::pod_cache::PodCache;
use super::pod_record::PodRecord;
use super::raw_object::RawObject;
use super::records::{Controller, Identity, ObjectRecord};
use super::retry_sources::RetrySource;
use crate::locked::Locked;
use crate::snapshot::place::Site;
use crate::snapshot::{Node, Pod, PodPhase};

/// An AppWrapper, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A kind, by API version and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindKey {
    /// Such as `batch/v1`.
    pub api_version: String,
    /// Such as `Job`.
    pub kind: String,
}

/// How far the watch of a kind is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Its first list is not complete: the cache says nothing.
    #[default]
    Starting,
    /// It has listed everything once.
    Done,
    /// It cannot list (no such kind, no permission): the API server itself must be asked.
    Blind,
}

#[derive(Debug, Default)]
struct KindCache {
    sync: Sync,
    objects: BTreeMap<Key, ObjectRecord>,
    retry_sources: BTreeMap<Key, RetrySource>,
}

#[derive(Debug, Default)]
struct Inner {
    pod_cache: PodCache,
    kinds: BTreeMap<KindKey, KindCache>,
    nodes: BTreeMap<String, (Node, Arc<Site>)>,
    nodes_listed: bool,
    owners: Owners,
}

/// The cache; all of it behind one lock that is held for moments.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Inner>);

/// Some of what is known of the pods of one AppWrapper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTally {
    /// How many run, Terminating ones too.
    pub running: usize,
    /// When those that are Terminating should have been gone.
    pub due_to_go: Vec<Timestamp>,
}

impl Key {
    /// Namespace and name of an object; no namespace where it is in none.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// Namespace and name of what a record is of.
    pub(super) fn of_record(identity: &Identity) -> Self {
        Self { namespace: identity.namespace.clone(), name: identity.name.clone() }
    }

    /// The AppWrapper that the label of an object names.
    pub(super) fn named_by(identity: &Identity) -> Option<Self> {
        let name = identity.appwrapper.clone()?;
        Some(Self { namespace: identity.namespace.clone(), name })
    }
}

impl KindKey {
    /// The kind of pods.
    #[must_use]
    pub fn pod() -> Self {
        Self { api_version: "v1".to_owned(), kind: "Pod".to_owned() }
    }

    /// Pods: they are watched in any case, so that no watch of their own is needed.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        self.api_version == "v1" && self.kind == "Pod"
    }
}

/// The AppWrapper that an object names.
fn named(record: &ObjectRecord) -> Option<Key> {
    Key::named_by(&record.identity)
}

impl Inner {
    /// What is known of the node of a name and a UID: another of the name inherits nothing.
    fn node(&self, name: &str, uid: &str) -> Option<&Node> {
        let (node, site) = self.nodes.get(name)?;
        (site.uid == uid).then_some(node)
    }
}

impl Cache {
    /// Stores a pod; returns the AppWrappers that are to be looked at.
    pub fn put_pod(&self, record: Arc<PodRecord>) -> BTreeSet<Key> {
        self.0.locked().pod_cache.put(record)
    }

    /// Forgets a pod; returns the AppWrappers that are to be looked at.
    pub fn remove_pod(&self, record: &Arc<PodRecord>) -> BTreeSet<Key> {
        self.0.locked().pod_cache.remove(record)
    }

    /// Replaces all pods after a new list; returns the AppWrappers that old or new pods name.
    pub fn replace_pods(&self, records: Vec<Arc<PodRecord>>) -> BTreeSet<Key> {
        self.0.locked().pod_cache.replace(records)
    }

    /// What the watch has shown of the pods that name AppWrappers.
    pub fn pod_cache<T>(&self, ask: impl FnOnce(&mut PodCache) -> T) -> T {
        ask(&mut self.0.locked().pod_cache)
    }

    /// What runs of an AppWrapper, and what is on its way out.
    #[must_use]
    pub fn tally(&self, key: &Key, uid: &str) -> PodTally {
        let mut tally = PodTally::default();
        let inner = self.0.locked();
        let is_its = |record: &&Arc<PodRecord>| record.identity.may_be_of(uid);
        for record in inner.pod_cache.of(key).filter(is_its) {
            tally.running += usize::from(record.pod.phase == PodPhase::Running);
            tally.due_to_go.extend(record.pod.due_to_go);
        }
        tally
    }

    /// Stores an object of a kind; returns the AppWrappers that are to be looked at: those that it names, and named
    /// before, where anything has changed that is kept of it.
    pub fn put_object(&self, kind: &KindKey, record: ObjectRecord) -> BTreeSet<Key> {
        let mut inner = self.0.locked();
        let objects = &mut inner.kinds.entry(kind.clone()).or_default().objects;
        let (key, now) = (Key::of_record(&record.identity), named(&record));
        let is_same = objects.get(&key) == Some(&record);
        let before = objects.insert(key, record);
        if is_same {
            return BTreeSet::new();
        }
        now.into_iter().chain(before.as_ref().and_then(named)).collect()
    }

    /// An object of a kind: its spec and status are not read again where they are as they were.
    pub(super) fn read_object(&self, kind: &KindKey, seen: &RawObject) -> ObjectRecord {
        let at = Key::of(&seen.meta);
        let known = self.0.locked().kinds.get(kind).and_then(|kind| {
            kind.objects.get(&at).filter(|known| known.is_read_from(seen)).cloned()
        });
        match known {
            Some(known) => known.with_meta(&seen.meta),
            None => ObjectRecord::of(seen, &kind.api_version, &kind.kind),
        }
    }

    /// Forgets an object of a kind, but for how it ended, until the next look at the AppWrapper that it names.
    pub fn remove_object(&self, kind: &KindKey, record: &ObjectRecord) {
        let mut inner = self.0.locked();
        if let Some(cache) = inner.kinds.get_mut(kind) {
            cache.objects.remove(&Key::of_record(&record.identity));
        }
        if let Some(key) = named(record) {
            inner.pod_cache.note_deleted(&key, kind, record);
        }
    }

    /// Replaces all objects of a kind after a new list, but for how those ended that are not in it, until the next look at
    /// the AppWrapper that each names; returns the AppWrappers that old or new objects name.
    pub fn replace_objects(&self, kind: &KindKey, records: Vec<ObjectRecord>) -> BTreeSet<Key> {
        let fresh: BTreeMap<Key, ObjectRecord> =
            records.into_iter().map(|record| (Key::of_record(&record.identity), record)).collect();
        let mut inner = self.0.locked();
        let Inner { kinds, pod_cache, .. } = &mut *inner;
        let cache = kinds.entry(kind.clone()).or_default();
        cache.sync = Sync::Done;
        let old = std::mem::replace(&mut cache.objects, fresh);
        for (at, was) in &old {
            let now = cache.objects.get(at);
            let stays = now.is_some_and(|now| now.identity.uid == was.identity.uid);
            if let Some(key) = named(was).filter(|_| !stays) {
                pod_cache.note_deleted(&key, kind, was);
            }
        }
        old.values().chain(cache.objects.values()).filter_map(named).collect()
    }

    /// Says that a kind cannot be watched now; whether that is new. Its objects are forgotten, but for how they ended, until
    /// the next look at the AppWrapper that each names.
    pub fn set_blind(&self, kind: &KindKey) -> bool {
        let mut inner = self.0.locked();
        let Inner { kinds, pod_cache, .. } = &mut *inner;
        let cache = kinds.entry(kind.clone()).or_default();
        for was in std::mem::take(&mut cache.objects).values() {
            if let Some(key) = named(was) {
                pod_cache.note_deleted(&key, kind, was);
            }
        }
        cache.retry_sources.clear();
        std::mem::replace(&mut cache.sync, Sync::Blind) != Sync::Blind
    }

    /// Forgets a kind that is not in use any more.
    pub fn remove_kind(&self, kind: &KindKey) {
        self.0.locked().kinds.remove(kind);
    }

    /// How far the watch of a kind is.
    #[must_use]
    pub fn sync(&self, kind: &KindKey) -> Sync {
        if kind.is_pod() {
            return Sync::Done;
        }
        self.0.locked().kinds.get(kind).map(|cache| cache.sync).unwrap_or_default()
    }

    /// The object of a kind that has a name.
    #[must_use]
    pub fn object(&self, kind: &KindKey, at: &Key, owner: &Key) -> Option<ObjectRecord> {
        let inner = self.0.locked();
        if kind.is_pod() {
            return inner.pod_cache.get(owner, &at.name).map(ObjectRecord::of_pod);
        }
        inner.kinds.get(kind)?.objects.get(at).cloned()
    }

    /// Stores a retry source of a kind; whether that changed anything.
    pub fn put_retry_source(&self, kind: &KindKey, at: Key, retry_source: RetrySource) -> bool {
        let mut inner = self.0.locked();
        let retry_sources = &mut inner.kinds.entry(kind.clone()).or_default().retry_sources;
        let is_new = retry_sources.get(&at) != Some(&retry_source);
        retry_sources.insert(at, retry_source);
        is_new
    }

    /// Forgets a retry source of a kind.
    pub fn remove_retry_source(&self, kind: &KindKey, at: &Key) {
        if let Some(cache) = self.0.locked().kinds.get_mut(kind) {
            cache.retry_sources.remove(at);
        }
    }

    /// Replaces all retry sources of a kind after a new list; whether that changed anything.
    pub fn replace_retry_sources(
        &self,
        kind: &KindKey,
        retry_sources: BTreeMap<Key, RetrySource>,
    ) -> bool {
        let mut inner = self.0.locked();
        let cache = inner.kinds.entry(kind.clone()).or_default();
        let was = std::mem::replace(&mut cache.sync, Sync::Done);
        let is_new = was != Sync::Done || cache.retry_sources != retry_sources;
        cache.retry_sources = retry_sources;
        is_new
    }

    /// The retry source of a kind that has a name.
    #[must_use]
    pub fn retry_source(&self, kind: &KindKey, at: &Key) -> Option<RetrySource> {
        self.0.locked().kinds.get(kind)?.retry_sources.get(at).cloned()
    }

    /// Stores a node; whether its marks by a health monitor changed, or whether its pods are lost.
    pub fn put_node(&self, node: Node, site: Site) -> bool {
        let mut inner = self.0.locked();
        let known = inner.node(&site.name, &site.uid);
        let node = node.after(known);
        let is_new = known != Some(&node);
        inner.nodes.insert(site.name.clone(), (node, Arc::new(site)));
        is_new
    }

    /// A list of the nodes is complete: there are no others. Returns the AppWrappers that have pods on
    /// nodes which it does not show.
    pub fn nodes_listed(&self, names: &BTreeSet<String>) -> BTreeSet<Key> {
        let mut inner = self.0.locked();
        inner.nodes.retain(|name, _| names.contains(name));
        inner.nodes_listed = true;
        let unlisted =
            |record: &PodRecord| record.pod.node.as_ref().is_some_and(|node| !names.contains(node));
        inner.pod_cache.having(unlisted)
    }

    /// Every node; none before they have been listed once.
    #[must_use]
    pub fn sites(&self) -> Vec<Arc<Site>> {
        let inner = self.0.locked();
        let all = inner.nodes.values().filter(|_| inner.nodes_listed);
        all.map(|(_, site)| site.clone()).collect()
    }

    /// What is known of the node of a name and a UID.
    #[must_use]
    pub fn node(&self, name: &str, uid: &str) -> Option<Node> {
        self.0.locked().node(name, uid).cloned()
    }

    /// A node, where it is known.
    #[must_use]
    pub fn site(&self, name: &str) -> Option<Arc<Site>> {
        self.0.locked().nodes.get(name).map(|(_, site)| site.clone())
    }

    /// How many nodes there are; none before they have been listed once.
    #[must_use]
    pub fn node_count(&self) -> Option<usize> {
        let inner = self.0.locked();
        inner.nodes_listed.then_some(inner.nodes.len())
    }

    /// Forgets all nodes: they are watched no more. Returns the AppWrappers that have pods on them.
    pub fn forget_nodes(&self) -> BTreeSet<Key> {
        let mut inner = self.0.locked();
        inner.nodes.clear();
        inner.nodes_listed = false;
        inner.pod_cache.having(|record| record.pod.node.is_some())
    }

    /// Forgets a node.
    pub fn remove_node(&self, name: &str) {
        self.0.locked().nodes.remove(name);
    }

    /// The nodes on which these pods are: what is known of each, or nothing where all nodes have been
    /// listed and it was not among them. Not those of pods that have ended and stay.
    #[must_use]
    pub fn nodes(&self, pods: &[Pod]) -> BTreeMap<String, Option<Node>> {
        let inner = self.0.locked();
        let mut found = BTreeMap::new();
        for pod in pods.iter().filter(|pod| !pod.has_ended()) {
            let Some(name) = &pod.node else { continue };
            let known = inner.nodes.get(name).map(|(node, _)| node.clone());
            if known.is_some() || inner.nodes_listed {
                found.insert(name.clone(), known);
            }
        }
        found
    }

    /// The AppWrappers that have pods on a node.
    #[must_use]
    pub fn on_node(&self, node: &str) -> BTreeSet<Key> {
        self.0.locked().pod_cache.having(|record| record.pod.node.as_deref() == Some(node))
    }

    /// What was read of an owner, where it was lately.
    #[must_use]
    pub fn owner(&self, namespace: &str, owner: &Controller, now: Duration) -> Option<Ancestor> {
        self.0.locked().owners.get(namespace, owner, now)
    }

    /// Remembers what was read of an owner; for how long, where that may change.
    pub fn put_owner(
        &self,
        namespace: &str,
        owner: Controller,
        ancestor: Ancestor,
        until: Option<Duration>,
    ) {
        self.0.locked().owners.put(namespace, owner, ancestor, until);
    }
}
