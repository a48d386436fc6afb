//! What is known of suspect nodes: the `NodeSuspicion` objects as the watch has shown them, and evidence that is not
//! written yet.
//!
//! ```text
//! watch ──────────▶ stored ─┐
//! failures decided ─────────┴▶ known ─┬▶ due: what is to be written, each node at most every 10 s
//!                                     └▶ suspects
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Event;
use tokio::sync::Notify;

use super::cache::Cache;
use super::raw_object::RawObject;
use crate::api::{NodeSuspicion, NodeSuspicionSpec};
use crate::config::NodeSuspicion as Settings;
use crate::locked::Locked;
use crate::snapshot::place::Site;
use crate::suspicion::{self, Known, Record, Suspect, Suspicions, Testimony, is_suspect, score};

/// A node's object is written at most this often.
const WRITTEN_EVERY: Duration = Duration::from_secs(10);
/// Nodes whose evidence waits to be written; evidence about more is dropped.
const UNWRITTEN_MAX: usize = 256;

/// An object as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub version: String,
    /// Since when the node is suspect.
    pub suspect_since: Option<Time>,
    /// Its evidence.
    pub record: Record,
}

/// An object that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Name of the node.
    pub node: String,
    /// Its evidence.
    pub record: Record,
    /// The object that is replaced; none where there is none.
    pub stored: Option<Stored>,
}

/// What is known of suspect nodes.
#[derive(Debug, Default)]
pub struct SuspicionCache {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    known: Suspicions,
    stored: BTreeMap<String, Stored>,
    unwritten: BTreeSet<String>,
    not_before: BTreeMap<String, Duration>,
    listed: BTreeSet<String>,
}

impl Stored {
    /// An object as it is stored. Evidence that cannot be read counts as none.
    #[must_use]
    pub fn of(seen: &RawObject) -> Self {
        let read = serde_json::from_str::<NodeSuspicion>(seen.raw.get()).ok();
        let NodeSuspicionSpec { node_uid, suspect_since, evidence, .. } =
            read.map_or_else(NodeSuspicionSpec::default, |read| read.spec);
        Self {
            uid: seen.meta.uid.clone().unwrap_or_default(),
            version: seen.meta.resource_version.clone().unwrap_or_default(),
            suspect_since,
            record: Record::of(&node_uid, evidence),
        }
    }
}

impl Write {
    /// What the object is to hold.
    #[must_use]
    pub fn spec(&self, now: Timestamp, settings: &Settings) -> NodeSuspicionSpec {
        let points = score(&self.record, now, settings);
        let since = self.suspect_before(now, settings).unwrap_or(Time(now));
        NodeSuspicionSpec {
            node_uid: self.record.node_uid.clone(),
            score: points,
            scored_at: Some(Time(now)),
            suspect_since: is_suspect(points, settings).then_some(since),
            expires_at: self.record.expires_at(settings.half_life).map(Time),
            evidence: self.record.evidence().to_vec(),
        }
    }

    /// Since when the node was suspect until now, by what is stored.
    fn suspect_before(&self, now: Timestamp, settings: &Settings) -> Option<Time> {
        let stored = self.stored.as_ref()?;
        let is_same = stored.record.node_uid == self.record.node_uid;
        let was_suspect = is_same && is_suspect(score(&stored.record, now, settings), settings);
        stored.suspect_since.clone().filter(|_| was_suspect)
    }

    /// Whether the node becomes suspect with this write.
    #[must_use]
    pub fn makes_suspect(&self, now: Timestamp, settings: &Settings) -> bool {
        let is = is_suspect(score(&self.record, now, settings), settings);
        is && self.suspect_before(now, settings).is_none()
    }
}

impl SuspicionCache {
    /// Takes in one event of the watch.
    pub fn take(&self, event: Event<RawObject>) {
        let mut inner = self.inner.locked();
        match event {
            Event::Init => inner.listed.clear(),
            Event::InitApply(seen) => {
                let node = inner.put(&seen);
                inner.listed.insert(node);
            }
            Event::InitDone => inner.keep_listed(),
            Event::Apply(seen) => drop(inner.put(&seen)),
            Event::Delete(seen) => inner.remove(seen.meta.name.as_deref().unwrap_or_default()),
        }
    }

    /// Forgets everything: suspicion is off.
    pub fn forget(&self) {
        *self.inner.locked() = Inner::default();
    }

    /// Takes in what a failure says about its node. False where it was dropped: the node is gone, or another was created
    /// under its name after the failure, or evidence about too many nodes waits.
    #[must_use]
    pub fn testify(&self, testimony: &Testimony, cache: &Cache) -> bool {
        let Some(site) = cache.site(&testimony.node) else { return false };
        if site.created.is_some_and(|created| testimony.evidence.time.0 < created) {
            return false;
        }
        let mut inner = self.inner.locked();
        let is_full = inner.unwritten.len() >= UNWRITTEN_MAX;
        if is_full && !inner.unwritten.contains(&testimony.node) {
            return false;
        }
        let changed = inner.known.testify(testimony, &site.uid);
        inner.unwritten.extend(changed);
        self.changed.notify_one();
        true
    }

    /// Waits until there may be something to write.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What is to be written now, without evidence that has expired; each node again only after a while.
    #[must_use]
    pub fn due(&self, elapsed: Duration, now: Timestamp, settings: &Settings) -> Vec<Write> {
        let mut inner = self.inner.locked();
        inner.known.expire(now, settings.half_life);
        inner.not_before.retain(|_, at| *at > elapsed);
        let due: Vec<String> = inner
            .unwritten
            .iter()
            .filter(|node| !inner.not_before.contains_key(*node))
            .cloned()
            .collect();
        for node in &due {
            inner.not_before.insert(node.clone(), elapsed.saturating_add(WRITTEN_EVERY));
        }
        let write = |node: String| {
            let record = inner.known.get(&node)?.clone();
            Some(Write { record, stored: inner.stored.get(&node).cloned(), node })
        };
        due.into_iter().filter_map(write).collect()
    }

    /// An object was written. Evidence that came meanwhile stays to be written.
    pub fn written(&self, write: &Write, stored: Stored) {
        let mut inner = self.inner.locked();
        if inner.known.get(&write.node) == Some(&write.record) {
            inner.unwritten.remove(&write.node);
        }
        inner.stored.insert(write.node.clone(), stored);
    }

    /// The object that was to be replaced is gone.
    pub fn gone(&self, node: &str) {
        self.inner.locked().stored.remove(node);
    }

    /// Objects whose evidence has expired, or is about an earlier Node of the name or one that is gone; at most so many.
    #[must_use]
    pub fn expired(
        &self,
        cache: &Cache,
        now: Timestamp,
        settings: &Settings,
        most: usize,
    ) -> Vec<(String, Stored)> {
        let inner = self.inner.locked();
        let are_listed = cache.node_count().is_some();
        let is_over = |(node, stored): &(&String, &Stored)| {
            let expires = stored.record.expires_at(settings.half_life);
            let is_gone = match cache.site(node) {
                Some(site) => site.uid != stored.record.node_uid,
                None => are_listed,
            };
            !inner.unwritten.contains(*node)
                && (is_gone || expires.is_none_or(|expires| expires <= now))
        };
        let over = inner.stored.iter().filter(is_over).take(most);
        over.map(|(node, stored)| (node.clone(), stored.clone())).collect()
    }

    /// The suspect nodes; none before the nodes have been listed.
    #[must_use]
    pub fn suspects(
        &self,
        cache: &Cache,
        now: Timestamp,
        settings: &Settings,
    ) -> Vec<(Suspect, Arc<Site>)> {
        let inner = self.inner.locked();
        if inner.known.is_empty() {
            return vec![];
        }
        let Some(nodes) = cache.node_count() else { return vec![] };
        let sites: BTreeMap<&str, Arc<Site>> =
            inner.known.iter().filter_map(|(node, _)| Some((node, cache.site(node)?))).collect();
        let known = inner
            .known
            .iter()
            .filter_map(|(node, record)| Some(Known { node, uid: &sites.get(node)?.uid, record }));
        let all = suspicion::suspects(known, nodes, now, settings);
        let with_site = |one: Suspect| {
            let site = sites.get(one.node.as_str())?.clone();
            Some((one, site))
        };
        all.into_iter().filter_map(with_site).collect()
    }
}

impl Inner {
    /// Takes in a stored object; returns the name of its node.
    fn put(&mut self, seen: &RawObject) -> String {
        let node = seen.meta.name.clone().unwrap_or_default();
        let stored = Stored::of(seen);
        if self.unwritten.contains(&node) {
            let known = self.known.get(&node).map(|known| known.node_uid.as_str());
            // what is not written yet is about the Node that exists now
            if known == Some(stored.record.node_uid.as_str()) {
                self.known.merge(&node, &stored.record);
            }
        } else {
            self.known.replace(&node, stored.record.clone());
        }
        self.stored.insert(node.clone(), stored);
        node
    }

    fn remove(&mut self, node: &str) {
        self.stored.remove(node);
        if !self.unwritten.contains(node) {
            self.known.remove(node);
        }
    }

    fn keep_listed(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        let gone: Vec<String> =
            self.stored.keys().filter(|node| !listed.contains(*node)).cloned().collect();
        for node in gone {
            self.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests;
