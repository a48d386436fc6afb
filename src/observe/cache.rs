//! What the watches have shown: a cache of facts, from which presence may be concluded but never absence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::ancestry::{Ancestor, Ancestors};
use super::guides::Guide;
use super::records::{ObjectRecord, PodRecord};
use crate::snapshot::place::Site;
use crate::snapshot::{Node, PodPhase};

/// An AppWrapper, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    guides: BTreeMap<Key, Guide>,
}

#[derive(Debug, Default)]
struct Inner {
    pods: BTreeMap<Key, BTreeMap<String, PodRecord>>,
    kinds: BTreeMap<KindKey, KindCache>,
    nodes: BTreeMap<String, (Node, Arc<Site>)>,
    nodes_listed: bool,
    ancestors: Ancestors,
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

/// How many ancestors are remembered before all are forgotten and read again as needed.
const ANCESTORS_MAX: usize = 50_000;

impl Key {
    /// Namespace and name of an object; no namespace where it is in none.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl KindKey {
    /// Pods: they are watched in any case, so that no watch of their own is needed.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        self.api_version == "v1" && self.kind == "Pod"
    }
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a pod; returns the AppWrapper that it names.
    pub fn put_pod(&self, record: PodRecord) -> Option<Key> {
        let key = pod_key(&record)?;
        self.lock()
            .pods
            .entry(key.clone())
            .or_default()
            .insert(record.identity.name.clone(), record);
        Some(key)
    }

    /// Forgets a pod; returns the AppWrapper that it named.
    pub fn remove_pod(&self, record: &PodRecord) -> Option<Key> {
        let key = pod_key(record)?;
        let mut inner = self.lock();
        let pods = inner.pods.get_mut(&key)?;
        pods.remove(&record.identity.name);
        if pods.is_empty() {
            inner.pods.remove(&key);
        }
        Some(key)
    }

    /// Replaces all pods after a new list; returns the AppWrappers that old or new pods name.
    pub fn replace_pods(&self, records: Vec<PodRecord>) -> BTreeSet<Key> {
        let mut fresh: BTreeMap<Key, BTreeMap<String, PodRecord>> = BTreeMap::new();
        for record in records {
            if let Some(key) = pod_key(&record) {
                fresh.entry(key).or_default().insert(record.identity.name.clone(), record);
            }
        }
        let mut inner = self.lock();
        let old = std::mem::replace(&mut inner.pods, fresh);
        old.into_keys().chain(inner.pods.keys().cloned()).collect()
    }

    /// The pods that name an AppWrapper.
    #[must_use]
    pub fn pods(&self, key: &Key) -> Vec<PodRecord> {
        self.lock().pods.get(key).map(|pods| pods.values().cloned().collect()).unwrap_or_default()
    }

    /// What runs of an AppWrapper, and what is on its way out.
    #[must_use]
    pub fn tally(&self, key: &Key, uid: &str) -> PodTally {
        let mut tally = PodTally::default();
        let inner = self.lock();
        let pods = inner.pods.get(key).into_iter().flat_map(BTreeMap::values);
        let is_its = |record: &&PodRecord| {
            let owner = record.identity.appwrapper_uid.as_deref();
            owner.is_none_or(|owner| owner == uid) // pods of the Go controller name no UID
        };
        for record in pods.filter(is_its) {
            tally.running += usize::from(record.pod.phase == PodPhase::Running);
            tally.due_to_go.extend(record.pod.due_to_go);
        }
        tally
    }

    /// Stores an object of a kind.
    pub fn put_object(&self, kind: &KindKey, record: ObjectRecord) {
        let key = object_key(&record);
        self.lock().kinds.entry(kind.clone()).or_default().objects.insert(key, record);
    }

    /// Forgets an object of a kind.
    pub fn remove_object(&self, kind: &KindKey, record: &ObjectRecord) {
        if let Some(cache) = self.lock().kinds.get_mut(kind) {
            cache.objects.remove(&object_key(record));
        }
    }

    /// Replaces all objects of a kind after a new list; returns the AppWrappers that they name.
    pub fn replace_objects(&self, kind: &KindKey, records: Vec<ObjectRecord>) -> BTreeSet<Key> {
        let fresh: BTreeMap<Key, ObjectRecord> =
            records.into_iter().map(|record| (object_key(&record), record)).collect();
        let mut inner = self.lock();
        let cache = inner.kinds.entry(kind.clone()).or_default();
        cache.sync = Sync::Done;
        let old = std::mem::replace(&mut cache.objects, fresh);
        old.values().chain(cache.objects.values()).filter_map(appwrapper_of).collect()
    }

    /// Says that a kind cannot be watched now; whether that is new.
    pub fn set_blind(&self, kind: &KindKey) -> bool {
        let mut inner = self.lock();
        let cache = inner.kinds.entry(kind.clone()).or_default();
        cache.objects.clear();
        cache.guides.clear();
        std::mem::replace(&mut cache.sync, Sync::Blind) != Sync::Blind
    }

    /// Forgets a kind that is not in use any more.
    pub fn remove_kind(&self, kind: &KindKey) {
        self.lock().kinds.remove(kind);
    }

    /// How far the watch of a kind is.
    #[must_use]
    pub fn sync(&self, kind: &KindKey) -> Sync {
        if kind.is_pod() {
            return Sync::Done;
        }
        self.lock().kinds.get(kind).map(|cache| cache.sync).unwrap_or_default()
    }

    /// The object of a kind that has a name.
    #[must_use]
    pub fn object(&self, kind: &KindKey, at: &Key, owner: &Key) -> Option<ObjectRecord> {
        let inner = self.lock();
        if kind.is_pod() {
            return inner.pods.get(owner)?.get(&at.name).map(ObjectRecord::of_pod);
        }
        inner.kinds.get(kind)?.objects.get(at).cloned()
    }

    /// Stores a guide of a kind; whether that changed anything.
    pub fn put_guide(&self, kind: &KindKey, at: Key, guide: Guide) -> bool {
        let mut inner = self.lock();
        let guides = &mut inner.kinds.entry(kind.clone()).or_default().guides;
        let is_new = guides.get(&at) != Some(&guide);
        guides.insert(at, guide);
        is_new
    }

    /// Forgets a guide of a kind.
    pub fn remove_guide(&self, kind: &KindKey, at: &Key) {
        if let Some(cache) = self.lock().kinds.get_mut(kind) {
            cache.guides.remove(at);
        }
    }

    /// Replaces all guides of a kind after a new list; whether that changed anything.
    pub fn replace_guides(&self, kind: &KindKey, guides: BTreeMap<Key, Guide>) -> bool {
        let mut inner = self.lock();
        let cache = inner.kinds.entry(kind.clone()).or_default();
        let was = std::mem::replace(&mut cache.sync, Sync::Done);
        let is_new = was != Sync::Done || cache.guides != guides;
        cache.guides = guides;
        is_new
    }

    /// The guide of a kind that has a name.
    #[must_use]
    pub fn guide(&self, kind: &KindKey, at: &Key) -> Option<Guide> {
        self.lock().kinds.get(kind)?.guides.get(at).cloned()
    }

    /// Stores a node; whether its marks by a health monitor changed, or whether its pods are lost.
    pub fn put_node(&self, node: Node, site: Site) -> bool {
        let mut inner = self.lock();
        let known = inner.nodes.get(&site.name).map(|(node, _)| node);
        let is_new = known != Some(&node);
        inner.nodes.insert(site.name.clone(), (node, Arc::new(site)));
        is_new
    }

    /// A list of the nodes is complete: there are no others. Returns the AppWrappers that have pods on
    /// nodes which it does not show.
    pub fn nodes_listed(&self, names: &BTreeSet<String>) -> BTreeSet<Key> {
        let mut inner = self.lock();
        inner.nodes.retain(|name, _| names.contains(name));
        inner.nodes_listed = true;
        let unlisted =
            |record: &PodRecord| record.pod.node.as_ref().is_some_and(|node| !names.contains(node));
        let mut found = BTreeSet::new();
        for (key, pods) in &inner.pods {
            if pods.values().any(unlisted) {
                found.insert(key.clone());
            }
        }
        found
    }

    /// Every node; none before they have been listed once.
    #[must_use]
    pub fn sites(&self) -> Vec<Arc<Site>> {
        let inner = self.lock();
        let all = inner.nodes.values().filter(|_| inner.nodes_listed);
        all.map(|(_, site)| site.clone()).collect()
    }

    /// Forgets all nodes: they are watched no more. Returns the AppWrappers that have pods on them.
    pub fn forget_nodes(&self) -> BTreeSet<Key> {
        let mut inner = self.lock();
        inner.nodes.clear();
        inner.nodes_listed = false;
        let has_node = |pods: &BTreeMap<String, PodRecord>| {
            pods.values().any(|record| record.pod.node.is_some())
        };
        inner.pods.iter().filter(|(_, pods)| has_node(pods)).map(|(key, _)| key.clone()).collect()
    }

    /// Forgets a node.
    pub fn remove_node(&self, name: &str) {
        self.lock().nodes.remove(name);
    }

    /// The nodes on which these pods are: what is known of each, or nothing where all nodes have been
    /// listed and it was not among them. Not those of pods that have ended and stay.
    #[must_use]
    pub fn nodes(&self, pods: &[PodRecord]) -> BTreeMap<String, Option<Node>> {
        let inner = self.lock();
        let mut found = BTreeMap::new();
        for pod in pods.iter().map(|record| &record.pod).filter(|pod| !pod.has_ended()) {
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
        let inner = self.lock();
        let on_node = |pods: &BTreeMap<String, PodRecord>| {
            pods.values().any(|record| record.pod.node.as_deref() == Some(node))
        };
        inner.pods.iter().filter(|(_, pods)| on_node(pods)).map(|(key, _)| key.clone()).collect()
    }

    /// What is remembered of the owners of these pods, and of theirs.
    #[must_use]
    pub fn ancestors(&self, pods: &[PodRecord]) -> Ancestors {
        let inner = self.lock();
        let mut found = Ancestors::new();
        for record in pods {
            let mut owner = record.identity.controller.as_ref();
            while let Some(controller) = owner.take() {
                let Some(ancestor) = inner.ancestors.get(&controller.uid) else { break };
                if found.insert(controller.uid.clone(), ancestor.clone()).is_none()
                    && let Ancestor::Exists(next) = ancestor
                {
                    owner = next.as_ref();
                }
            }
        }
        found
    }

    /// What is remembered of one owner.
    #[must_use]
    pub fn ancestor(&self, uid: &str) -> Option<Ancestor> {
        self.lock().ancestors.get(uid).cloned()
    }

    /// Remembers an owner of a pod.
    pub fn put_ancestor(&self, uid: String, ancestor: Ancestor) {
        let mut inner = self.lock();
        if inner.ancestors.len() >= ANCESTORS_MAX {
            inner.ancestors.clear();
        }
        inner.ancestors.insert(uid, ancestor);
    }
}

fn pod_key(record: &PodRecord) -> Option<Key> {
    let name = record.identity.appwrapper.clone()?;
    Some(Key { namespace: record.identity.namespace.clone(), name })
}

fn object_key(record: &ObjectRecord) -> Key {
    Key { namespace: record.identity.namespace.clone(), name: record.identity.name.clone() }
}

/// The AppWrapper that an object's label names.
#[must_use]
pub fn appwrapper_of(record: &ObjectRecord) -> Option<Key> {
    let name = record.identity.appwrapper.clone()?;
    Some(Key { namespace: record.identity.namespace.clone(), name })
}
