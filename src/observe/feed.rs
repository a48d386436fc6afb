//! What the watches show goes into the cache, and says which AppWrappers are to be looked at.

use kube::runtime::watcher::Event;

use super::cache::{Cache, Key, KindKey, appwrapper_of};
use super::records::{self, Marks, ObjectRecord, PodRecord};
use super::seen::Seen;

/// The feed of pods; holds the part of a list that has come so far.
#[derive(Debug, Default)]
pub struct Pods(Vec<PodRecord>);

/// The feed of a wrapped kind; holds the part of a list that has come so far.
#[derive(Debug)]
pub struct Objects {
    kind: KindKey,
    list: Vec<ObjectRecord>,
}

/// The feed of nodes.
#[derive(Debug)]
pub struct Nodes(Marks);

impl Pods {
    /// Takes in one event.
    pub fn take(&mut self, cache: &Cache, event: Event<Seen>) -> Vec<Key> {
        match event {
            Event::Init => {
                self.0.clear();
                vec![]
            }
            Event::InitApply(seen) => {
                self.0.push(PodRecord::of(&seen));
                vec![]
            }
            Event::InitDone => {
                cache.replace_pods(std::mem::take(&mut self.0)).into_iter().collect()
            }
            Event::Apply(seen) => cache.put_pod(PodRecord::of(&seen)).into_iter().collect(),
            Event::Delete(seen) => cache.remove_pod(&PodRecord::of(&seen)).into_iter().collect(),
        }
    }
}

impl Nodes {
    /// A feed in which these marks of a node count.
    #[must_use]
    pub const fn new(marks: Marks) -> Self {
        Self(marks)
    }

    /// Takes in one event.
    pub fn take(&self, cache: &Cache, event: Event<Seen>) -> Vec<Key> {
        match event {
            Event::Init | Event::InitDone => vec![],
            Event::InitApply(seen) | Event::Apply(seen) => {
                let name = seen.meta.name.clone().unwrap_or_default();
                let changed = cache.put_node(&name, records::node(&seen, &self.0));
                if changed { cache.on_node(&name).into_iter().collect() } else { vec![] }
            }
            Event::Delete(seen) => {
                cache.remove_node(&seen.meta.name.unwrap_or_default());
                vec![]
            }
        }
    }
}

impl Objects {
    /// The feed of a kind.
    #[must_use]
    pub const fn new(kind: KindKey) -> Self {
        Self { kind, list: vec![] }
    }

    /// Takes in one event; after a list, all who use the kind are to be looked at as well.
    pub fn take(&mut self, cache: &Cache, event: Event<Seen>) -> Vec<Key> {
        let kind = &self.kind;
        let record = |seen| ObjectRecord::of(&seen, &kind.api_version, &kind.kind);
        match event {
            Event::Init => {
                self.list.clear();
                vec![]
            }
            Event::InitApply(seen) => {
                self.list.push(record(seen));
                vec![]
            }
            Event::InitDone => {
                let list = std::mem::take(&mut self.list);
                cache.replace_objects(kind, list).into_iter().collect()
            }
            Event::Apply(seen) => {
                let record = record(seen);
                let key = appwrapper_of(&record);
                cache.put_object(kind, record);
                key.into_iter().collect()
            }
            Event::Delete(seen) => {
                let record = record(seen);
                cache.remove_object(kind, &record);
                appwrapper_of(&record).into_iter().collect()
            }
        }
    }
}
