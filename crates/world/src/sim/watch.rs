//! A watch: the changes of a kind from a version on.

use std::sync::Arc;

use serde_json::json;

use super::kinds::KindId;
use super::object::Object;
use super::query::{Params, is_true};
use super::refusal::Refusal;
use super::selector::Filter;
use super::store::{Change, Store, Verb};

/// An open watch.
#[derive(Clone, Debug)]
pub struct Watch {
    kind: KindId,
    filter: Filter,
    /// Up to this version everything was told.
    version: u64,
    /// Bookmarks are wanted.
    pub bookmarks: bool,
    /// Ends after this many seconds, where it was asked to.
    pub timeout: Option<u64>,
    /// The state that is told first, and whether the watch has failed.
    first: Vec<String>,
    expired: bool,
}

impl Watch {
    pub(super) fn open(
        store: &Store,
        kind: KindId,
        namespace: &str,
        params: &Params,
    ) -> Result<Self, Refusal> {
        let text = |key: &str| params.get(key).map(String::as_str).unwrap_or_default();
        let graceful = store.kinds.get(kind).graceful;
        let filter =
            Filter::parse(namespace, text("labelSelector"), text("fieldSelector"), graceful)?;
        let asked = text("resourceVersion");
        let mut watch = Self {
            kind,
            filter,
            version: store.version(),
            bookmarks: is_true(params, "allowWatchBookmarks"),
            timeout: text("timeoutSeconds").parse().ok(),
            first: vec![],
            expired: false,
        };
        if asked.is_empty() || asked == "0" {
            let all = store.all(kind);
            let wanted =
                all.filter(|each| watch.filter.matches(&each.address.namespace, &each.value));
            watch.first = wanted.map(|object| line("ADDED", object.text())).collect();
        } else {
            let wrong =
                |_| Refusal::new(500, "", format!("Invalid value: {asked:?}: not a version"));
            watch.version = asked.parse().map_err(wrong)?;
            watch.expired = watch.version < store.compacted();
        }
        Ok(watch)
    }

    /// What is to be told now, one JSON document a line; `None` once the watch has failed and said so.
    pub fn lines(&mut self, store: &Store) -> Option<Vec<String>> {
        if self.expired || self.version < store.compacted() {
            if std::mem::replace(&mut self.version, u64::MAX) == u64::MAX {
                return None;
            }
            self.expired = true;
            return Some(vec![line("ERROR", &Refusal::expired().status().to_string())]);
        }
        let mut lines = std::mem::take(&mut self.first);
        let history = store.history();
        let from = history.partition_point(|change| change.object.version <= self.version);
        for change in &history[from..] {
            if let Some((verb, object)) = view(change, self.kind, &self.filter) {
                let name = match verb {
                    Verb::Added => "ADDED",
                    Verb::Modified => "MODIFIED",
                    Verb::Deleted => "DELETED",
                };
                lines.push(line(name, object.text()));
            }
        }
        self.version = store.version();
        Some(lines)
    }

    /// A bookmark: nothing happened up to here that was not told.
    #[must_use]
    pub fn bookmark(&self, store: &Store) -> String {
        let kind = store.kinds.get(self.kind);
        let object = json!({
            "kind": kind.kind, "apiVersion": kind.api_version(),
            "metadata": {"resourceVersion": self.version.to_string()},
        });
        line("BOOKMARK", &object.to_string())
    }
}

fn line(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// A change as a watch with a filter sees it: an object that no longer matches is as good as gone.
#[must_use]
pub fn view(change: &Change, kind: KindId, filter: &Filter) -> Option<(Verb, Arc<Object>)> {
    let object = &change.object;
    if object.address.kind != kind {
        return None;
    }
    let matches = |object: &Object| filter.matches(&object.address.namespace, &object.value);
    let before = change.before.as_ref();
    let was_told = before.is_some_and(|before| matches(before));
    match change.verb {
        Verb::Deleted => was_told.then(|| (Verb::Deleted, object.clone())),
        Verb::Added | Verb::Modified => match (was_told, matches(object)) {
            (false, true) => Some((Verb::Added, object.clone())),
            (true, true) => Some((Verb::Modified, object.clone())),
            (true, false) => {
                let mut last = before?.value.clone();
                last["metadata"]["resourceVersion"] = object.version.to_string().into();
                let (address, uid) = (object.address.clone(), object.uid.clone());
                Some((Verb::Deleted, Arc::new(Object::new(address, uid, object.version, last))))
            }
            (false, false) => None,
        },
    }
}
