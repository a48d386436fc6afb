//! What the watches show goes into the cache, and says which AppWrappers are to be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::runtime::watcher::Event;

use super::cache::{Cache, Key, KindKey};
use super::nodes::{self, Marks};
use super::pod_record::{PodRecord, WatchedPod};
use super::raw_object::RawObject;
use super::records::ObjectRecord;
use super::retry_sources::RetrySource;

/// The feed of pods; holds the part of a list that has come so far.
#[derive(Debug, Default)]
pub struct Pods(Vec<Arc<PodRecord>>);

/// The feed of a wrapped kind; holds the part of a list that has come so far.
#[derive(Debug)]
pub struct Objects {
    kind: KindKey,
    list: Vec<ObjectRecord>,
}

/// The feed of nodes; holds the names in the part of a list that has come so far.
#[derive(Debug)]
pub struct Nodes {
    marks: Marks,
    list: BTreeSet<String>,
}

/// The feed of a kind of retry sources; holds the part of a list that has come so far.
#[derive(Debug)]
pub struct RetrySources {
    kind: KindKey,
    list: BTreeMap<Key, RetrySource>,
}

/// Whom a change of retry sources concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerned {
    /// Nobody: nothing changed that matters.
    Nobody,
    /// All who use the kind.
    All,
    /// Those who use this one.
    UsersOf(Key),
}

impl Pods {
    /// Takes in one event.
    pub fn take(&mut self, cache: &Cache, event: Event<WatchedPod>) -> Vec<Key> {
        let changed = match event {
            Event::Init => {
                self.0.clear();
                return vec![];
            }
            Event::InitApply(pod) => {
                self.0.push(pod.record);
                return vec![];
            }
            Event::InitDone => cache.replace_pods(std::mem::take(&mut self.0)),
            Event::Apply(pod) => cache.put_pod(pod.record),
            Event::Delete(pod) => cache.remove_pod(&pod.record),
        };
        changed.into_iter().collect()
    }
}

impl Nodes {
    /// A feed in which these marks of a node count.
    #[must_use]
    pub const fn new(marks: Marks) -> Self {
        Self { marks, list: BTreeSet::new() }
    }

    /// Takes in one event; a health monitor's marks and the loss of a node are a reason to look at the
    /// AppWrappers on it, its heartbeats are not.
    pub fn take(&mut self, cache: &Cache, event: Event<RawObject>) -> Vec<Key> {
        match event {
            Event::Init => {
                self.list.clear();
                vec![]
            }
            Event::InitDone => {
                cache.nodes_listed(&std::mem::take(&mut self.list)).into_iter().collect()
            }
            Event::InitApply(seen) => {
                self.list.insert(seen.meta.name.clone().unwrap_or_default());
                self.put(cache, &seen)
            }
            Event::Apply(seen) => self.put(cache, &seen),
            Event::Delete(seen) => {
                let name = seen.meta.name.unwrap_or_default();
                cache.remove_node(&name);
                cache.on_node(&name).into_iter().collect()
            }
        }
    }

    fn put(&self, cache: &Cache, seen: &RawObject) -> Vec<Key> {
        let (node, site) = nodes::node(seen, &self.marks);
        let name = site.name.clone();
        let changed = cache.put_node(node, site);
        if changed { cache.on_node(&name).into_iter().collect() } else { vec![] }
    }
}

impl RetrySources {
    /// The feed of a kind.
    #[must_use]
    pub const fn new(kind: KindKey) -> Self {
        Self { kind, list: BTreeMap::new() }
    }

    /// Takes in one event; returns who is to be looked at.
    pub fn take(&mut self, cache: &Cache, event: Event<RawObject>) -> Concerned {
        let kind = &self.kind;
        match event {
            Event::Init => {
                self.list.clear();
                Concerned::Nobody
            }
            Event::InitApply(seen) => {
                self.list.insert(Key::of(&seen.meta), RetrySource::of(&seen, kind));
                Concerned::Nobody
            }
            Event::InitDone => {
                let list = std::mem::take(&mut self.list);
                let changed = cache.replace_retry_sources(kind, list);
                if changed { Concerned::All } else { Concerned::Nobody }
            }
            Event::Apply(seen) => {
                let (at, source) = (Key::of(&seen.meta), RetrySource::of(&seen, kind));
                let changed = cache.put_retry_source(kind, at.clone(), source);
                if changed { Concerned::UsersOf(at) } else { Concerned::Nobody }
            }
            Event::Delete(seen) => {
                let at = Key::of(&seen.meta);
                cache.remove_retry_source(kind, &at);
                Concerned::UsersOf(at)
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
    pub fn take(&mut self, cache: &Cache, event: Event<RawObject>) -> Vec<Key> {
        let kind = &self.kind;
        let record = |seen: RawObject| cache.read_object(kind, &seen);
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
            Event::Apply(seen) => cache.put_object(kind, record(seen)).into_iter().collect(),
            Event::Delete(seen) => {
                let record = record(seen);
                cache.remove_object(kind, &record);
                Key::named_by(&record.identity).into_iter().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::cache::Sync;
    use crate::observe::retry_sources;
    use crate::snapshot::Report;

    fn seen(value: &Value) -> RawObject {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn a_queue_wakes_only_by_what_matters_of_it() {
        let (cache, kind) = (Cache::default(), retry_sources::cluster_queues());
        let mut feed = RetrySources::new(kind.clone());
        let queue = |policies: &str, active: i32| {
            let annotations = json!({crate::api::keys::QUEUE_RETRY_POLICIES: policies});
            seen(&json!({
                "metadata": {"name": "c", "annotations": annotations},
                "status": {"admittedWorkloads": active},
            }))
        };
        assert_eq!(cache.sync(kind), Sync::Starting);
        let at = Key::of(&queue("a", 0).meta);
        let its = Concerned::UsersOf(at.clone());
        assert_eq!(feed.take(&cache, Event::Init), Concerned::Nobody);
        assert_eq!(feed.take(&cache, Event::InitApply(queue("a", 0))), Concerned::Nobody);
        assert_eq!(feed.take(&cache, Event::InitDone), Concerned::All, "who waited for it");
        assert_eq!(cache.sync(kind), Sync::Done);
        assert_eq!(feed.take(&cache, Event::Apply(queue("a", 1))), Concerned::Nobody);
        assert_eq!(feed.take(&cache, Event::Apply(queue("b", 1))), its);
        feed.take(&cache, Event::Init);
        feed.take(&cache, Event::InitApply(queue("b", 2)));
        assert_eq!(feed.take(&cache, Event::InitDone), Concerned::Nobody, "nothing new");
        assert_eq!(feed.take(&cache, Event::Delete(queue("b", 2))), its);
        assert_eq!(cache.retry_source(kind, &at), None);
        cache.set_blind(kind);
        assert_eq!(feed.take(&cache, Event::InitDone), Concerned::All, "the kind is there again");
    }

    #[test]
    fn an_object_is_read_again_when_its_spec_or_status_changes() {
        let job = |uid: &str, note: &str, ready: i32, parallelism: i32| {
            seen(&json!({"metadata": {"name": "j", "uid": uid, "annotations": {"note": note}},
                "spec": {"parallelism": parallelism, "template": {}},
                "status": {"ready": ready, "conditions": [{"type": "Complete", "status": "True"}]}}))
        };
        let kind = KindKey { api_version: "batch/v1".to_owned(), kind: "Job".to_owned() };
        let known = ObjectRecord::of(&job("u", "", 1, 2), "batch/v1", "Job");
        assert_ne!(known.report, Report::default());
        for (uid, note, ready, parallelism, is_read) in [
            ("u", "", 1, 2, false),
            ("u", "other", 1, 2, false),
            ("u", "", 2, 2, true),
            ("u", "", 1, 3, true),
            ("other", "", 1, 2, true),
        ] {
            let cache = Cache::default();
            // what is not read again shows
            let before = ObjectRecord { report: Report::default(), ..known.clone() };
            cache.put_object(&kind, before);
            let now = cache.read_object(&kind, &job(uid, note, ready, parallelism));
            let row = format!("{uid} {note} {ready} {parallelism}");
            assert_eq!(now.report != Report::default(), is_read, "{row}");
            assert_eq!(now.identity.uid, uid, "{row}");
        }
    }

    #[test]
    fn a_change_of_which_nothing_is_kept_wakes_nobody() {
        let (cache, kind) = (
            Cache::default(),
            KindKey { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() },
        );
        let mut objects = Objects::new(kind);
        let mut pods = Pods::default();
        let object = |appwrapper: &str, note: &str, version: &str| {
            json!({"metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": version,
                "labels": {crate::api::keys::APPWRAPPER: appwrapper},
                "annotations": {"example.org/note": note}}})
        };
        for (appwrapper, note, want) in [
            ("a", "1", vec!["a"]),
            ("a", "2", vec![]),
            ("b", "2", vec!["a", "b"]),
            ("b", "3", vec![]),
        ] {
            let names = |keys: Vec<Key>| keys.into_iter().map(|key| key.name).collect::<Vec<_>>();
            let value = object(appwrapper, note, note);
            assert_eq!(names(objects.take(&cache, Event::Apply(seen(&value)))), want, "{value}");
            let pod = serde_json::from_str(&value.to_string()).unwrap();
            assert_eq!(names(pods.take(&cache, Event::Apply(pod))), want, "{value}");
        }
    }

    #[test]
    fn a_node_wakes_by_its_marks_and_counts_once_all_are_listed() {
        let cache = Cache::default();
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u",
                "labels": {crate::api::keys::APPWRAPPER: "aw"}},
            "spec": {"nodeName": "a"},
        });
        cache.put_pod(Arc::new(PodRecord::of(&seen(&pod))));
        let marks =
            Marks::from([("gpu".to_owned(), vec![("health".to_owned(), "BAD".to_owned())])]);
        let mut feed = Nodes::new(marks);
        let node = |name: &str, labels: Value| {
            seen(&json!({"metadata": {"name": name, "labels": labels}}))
        };
        feed.take(&cache, Event::Init);
        assert_eq!(feed.take(&cache, Event::InitApply(node("a", json!({})))).len(), 1);
        feed.take(&cache, Event::InitApply(node("b", json!({}))));
        assert!(cache.sites().is_empty(), "there may be more");
        feed.take(&cache, Event::InitDone);
        assert_eq!(cache.sites().len(), 2);
        assert!(feed.take(&cache, Event::Apply(node("a", json!({"zone": "z"})))).is_empty());
        assert_eq!(cache.sites()[0].labels["zone"], "z");
        assert_eq!(feed.take(&cache, Event::Apply(node("a", json!({"health": "BAD"})))).len(), 1);
        feed.take(&cache, Event::Init);
        feed.take(&cache, Event::InitApply(node("a", json!({}))));
        assert!(feed.take(&cache, Event::InitDone).is_empty());
        assert_eq!(cache.sites().len(), 1, "the list did not show the other");
        assert_eq!(feed.take(&cache, Event::Delete(node("a", json!({})))).len(), 1, "it is gone");
        feed.take(&cache, Event::Init);
        assert_eq!(feed.take(&cache, Event::InitDone).len(), 1, "nobody knows it");
    }

    #[test]
    fn the_loss_of_a_node_is_not_that_of_an_earlier_node_of_its_name() {
        let (first, second) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
        let node = |uid: &str, since: &str| {
            let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": since});
            let meta = json!({"name": "a", "uid": uid});
            seen(&json!({"metadata": meta, "status": {"conditions": [ready]}}))
        };
        for (uid, want) in [("u", first), ("v", second)] {
            let (cache, mut feed) = (Cache::default(), Nodes::new(Marks::default()));
            feed.take(&cache, Event::Apply(node("u", first)));
            // the watch was interrupted
            feed.take(&cache, Event::Init);
            feed.take(&cache, Event::InitApply(node(uid, second)));
            feed.take(&cache, Event::InitDone);
            let since = cache.node("a", uid).and_then(|node| node.lost?.since);
            assert_eq!(since, want.parse().ok(), "{uid}");
            assert_eq!(cache.node("a", "w"), None, "{uid}");
        }
    }

    #[test]
    fn a_node_wakes_when_it_is_lost_and_when_it_is_back_and_by_no_heartbeat() {
        let cache = Cache::default();
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u",
                "labels": {crate::api::keys::APPWRAPPER: "aw"}},
            "spec": {"nodeName": "a"},
        });
        cache.put_pod(Arc::new(PodRecord::of(&seen(&pod))));
        let mut feed = Nodes::new(Marks::default());
        let node = |status: &str, since: &str, heartbeat: &str| {
            let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": since,
                "lastHeartbeatTime": heartbeat});
            seen(&json!({"metadata": {"name": "a"}, "status": {"conditions": [ready]}}))
        };
        let (first, second) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
        feed.take(&cache, Event::Apply(node("True", first, first)));
        for (status, since, heartbeat, wakes) in [
            ("True", first, second, 0),
            ("True", second, second, 0),
            ("Unknown", second, second, 1),
            ("Unknown", second, first, 0),
            ("False", second, first, 1),
            ("True", second, first, 1),
        ] {
            let keys = feed.take(&cache, Event::Apply(node(status, since, heartbeat)));
            assert_eq!(keys.len(), wakes, "{status} since {since}, heard of at {heartbeat}");
        }
    }
}
