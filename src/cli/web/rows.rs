//! The rows of the list, as they are now, and their changes for those who look on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kube::runtime::watcher::Event;
use serde::Serialize;
use tokio::sync::broadcast;

use super::super::aw::list::{Item, item};
use crate::locked::Locked;
use crate::observe::raw_object::RawObject;
use crate::observe::records::Identity;
use k8s_openapi::jiff::Timestamp;

/// The most rows; beyond them, the page says that there are more.
const ROWS_MAX: usize = 20_000;
/// The most messages that somebody who looks on may be behind.
const BEHIND_MAX: usize = 256;

/// Namespace and name.
type Key = (String, String);

/// A change of the list.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RowChange {
    /// New and changed rows.
    pub set: Vec<Item>,
    /// Rows that are gone: namespace and name.
    pub gone: Vec<Key>,
    /// The list is complete for the first time, or again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub complete: bool,
    /// Why the list may be old or has not all; empty where neither is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The rows, shared by the watch and those who look on.
#[derive(Debug)]
pub(super) struct Rows {
    inner: Mutex<Inner>,
    changes: broadcast::Sender<Arc<RowChange>>,
}

#[derive(Debug, Default)]
struct Inner {
    rows: BTreeMap<Key, (u64, Item)>,
    /// Number of the list under way: rows of an earlier one are gone when it is complete.
    round: u64,
    complete: bool,
    /// Why the watch does not work.
    problem: Option<String>,
    /// The list in which an AppWrapper had no room.
    full: Option<u64>,
}

impl Default for Rows {
    fn default() -> Self {
        Self { inner: Mutex::default(), changes: broadcast::channel(BEHIND_MAX).0 }
    }
}

impl Rows {
    /// The rows as they are, and what will change from here on.
    pub(super) fn follow(&self) -> (RowChange, broadcast::Receiver<Arc<RowChange>>) {
        let inner = self.inner.locked();
        let set = inner.rows.values().map(|(_, item)| item.clone()).collect();
        let problem = inner.problem();
        let now = RowChange { set, gone: vec![], complete: inner.complete, problem };
        (now, self.changes.subscribe())
    }

    /// Takes over what a watch saw.
    pub(super) fn take(&self, events: Vec<Event<RawObject>>) {
        let mut inner = self.inner.locked();
        let mut change = RowChange::default();
        let before = inner.problem();
        for event in events {
            match event {
                // it may fail yet
                Event::Init => inner.round += 1,
                Event::InitApply(seen) => change.put(inner.put(&seen)),
                Event::Apply(seen) => {
                    inner.problem = None;
                    change.put(inner.put(&seen));
                }
                Event::Delete(seen) => {
                    inner.problem = None;
                    let key = key(&seen);
                    inner.rows.remove(&key);
                    change.set.retain(|item| item.key() != (&key.0, &key.1));
                    change.gone.push(key);
                }
                Event::InitDone => {
                    let round = inner.round;
                    let old = inner.rows.extract_if(.., |_, (of, _)| *of < round);
                    change.gone.extend(old.map(|(key, _)| key));
                    inner.problem = None;
                    inner.full = inner.full.filter(|of| *of == round);
                    (inner.complete, change.complete) = (true, true);
                }
            }
        }
        let problem = inner.problem();
        if change.complete || problem != before {
            change.problem = Some(problem.unwrap_or_default());
        }
        if change.is_empty() {
            return;
        }
        // nobody may look on
        drop(self.changes.send(Arc::new(change)));
    }

    /// The watch has failed, and is tried again.
    pub(super) fn failed(&self, problem: String) {
        let mut inner = self.inner.locked();
        if inner.problem.as_ref() == Some(&problem) {
            return;
        }
        inner.problem = Some(problem.clone());
        let change = RowChange { problem: Some(problem), ..RowChange::default() };
        drop(self.changes.send(Arc::new(change)));
    }
}

impl RowChange {
    /// Whether it says nothing: an object has changed, and its row has not.
    fn is_empty(&self) -> bool {
        let Self { set, gone, complete, problem } = self;
        set.is_empty() && gone.is_empty() && !complete && problem.is_none()
    }

    /// Adds a row that is new or has changed, also where the same change had it gone.
    fn put(&mut self, row: Option<Item>) {
        let Some(item) = row else { return };
        self.gone.retain(|(namespace, name)| item.key() != (namespace.as_str(), name.as_str()));
        self.set.push(item);
    }
}

impl Inner {
    /// Why the list may be old or has not all.
    fn problem(&self) -> Option<String> {
        let full = || self.full.map(|_| format!("only {ROWS_MAX} AppWrappers are listed"));
        self.problem.clone().or_else(full)
    }

    /// The row of an object, where it is new or has changed.
    fn put(&mut self, seen: &RawObject) -> Option<Item> {
        // no time is in the words: the page counts down itself
        let item = item(seen, Timestamp::MAX);
        let (key, round) = (key(seen), self.round);
        if let Some((of, known)) = self.rows.get_mut(&key) {
            *of = round;
            if *known == item {
                return None;
            }
            known.clone_from(&item);
            return Some(item);
        }
        if self.rows.len() >= ROWS_MAX {
            self.full = Some(self.round);
            return None;
        }
        self.rows.insert(key, (round, item.clone()));
        Some(item)
    }
}

fn key(seen: &RawObject) -> Key {
    let Identity { namespace, name, .. } = Identity::of(&seen.meta);
    (namespace, name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(name: &str, phase: &str) -> RawObject {
        let object = json!({"metadata": {"name": name, "namespace": "ns"},
            "spec": {"components": []}, "status": {"phase": phase}});
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn names(change: &RowChange) -> (Vec<&str>, Vec<&str>) {
        let set = change.set.iter().map(|item| item.key().1).collect();
        (set, change.gone.iter().map(|(_, name)| name.as_str()).collect())
    }

    fn list(all: &[(&str, &str)]) -> Vec<Event<RawObject>> {
        let all = all.iter().map(|(name, phase)| Event::InitApply(seen(name, phase)));
        std::iter::once(Event::Init).chain(all).chain([Event::InitDone]).collect()
    }

    #[test]
    fn those_who_look_on_hear_of_what_changes_and_of_nothing_else() {
        let rows = Rows::default();
        rows.take(list(&[("a", "Running"), ("b", "Running")]));
        let (now, mut changes) = rows.follow();
        assert_eq!((names(&now), now.complete), ((vec!["a", "b"], vec![]), true));
        rows.take(vec![Event::Apply(seen("a", "Running"))]);
        assert!(changes.try_recv().is_err(), "no row has changed");
        rows.take(vec![Event::Apply(seen("a", "Running")), Event::Apply(seen("b", "Failed"))]);
        assert_eq!(names(&changes.try_recv().unwrap()), (vec!["b"], vec![]));
        rows.take(vec![Event::Apply(seen("c", "Running")), Event::Delete(seen("c", "Running"))]);
        assert_eq!(names(&changes.try_recv().unwrap()), (vec![], vec!["c"]));
        // it was recreated
        for again in [Event::Apply(seen("b", "Failed")), Event::InitApply(seen("b", "Failed"))] {
            rows.take(vec![Event::Delete(seen("b", "Failed")), again]);
            assert_eq!(names(&changes.try_recv().unwrap()), (vec!["b"], vec![]));
        }
        rows.failed("gone away".into());
        rows.failed("gone away".into());
        assert_eq!(changes.try_recv().unwrap().problem.as_deref(), Some("gone away"));
        // a is no longer in the list after the reconnection
        rows.take(list(&[("b", "Failed")]));
        let change = changes.try_recv().unwrap();
        assert_eq!((names(&change), change.problem.as_deref()), ((vec![], vec!["a"]), Some("")));
        assert!(changes.try_recv().is_err());
    }

    #[test]
    fn a_problem_stays_until_the_watch_shows_something() {
        for (events, problem) in [
            (vec![Event::Init], Some("no permission")),
            (vec![Event::Init, Event::InitApply(seen("b", "Running"))], Some("no permission")),
            (vec![Event::InitDone], None),
            (vec![Event::Apply(seen("a", "Failed"))], None),
            (vec![Event::Delete(seen("a", "Running"))], None),
        ] {
            let rows = Rows::default();
            rows.take(list(&[("a", "Running")]));
            rows.failed("no permission".into());
            let (_, mut changes) = rows.follow();
            rows.take(events);
            assert_eq!(rows.follow().0.problem.as_deref(), problem);
            let told = changes.try_recv().ok().and_then(|change| change.problem.clone());
            assert_eq!(told.as_deref(), problem.is_none().then_some(""));
        }
    }

    #[test]
    fn a_list_that_has_not_all_says_so_until_another_has() {
        let rows = Rows::default();
        let key = |n: usize| ("ns".to_owned(), format!("x-{n}"));
        rows.inner.locked().rows = (0..ROWS_MAX).map(|n| (key(n), (0, Item::default()))).collect();
        let only = Some("only 20000 AppWrappers are listed");
        let (_, mut changes) = rows.follow();
        for (events, told, is) in [
            (list(&[("a", "Running")]), only, only),
            (vec![Event::Apply(seen("b", "Running"))], None, only),
            (vec![Event::Init], None, only),
            (list(&[("a", "Running")]), Some(""), None),
        ] {
            rows.take(events);
            let change = changes.try_recv().ok();
            assert_eq!(change.as_ref().and_then(|change| change.problem.as_deref()), told);
            assert_eq!(rows.follow().0.problem.as_deref(), is);
        }
    }
}
