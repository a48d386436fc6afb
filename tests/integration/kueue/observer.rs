//! Somebody who sees everything that was ever stored, and knows nothing of the controller.
//!
//! Watches of different kinds are not in step with each other, so nothing is concluded while they
//! run. But the version of an object is the revision of the store at its last write, deletions
//! included, and there is one store: sorted by revision, the changes of all kinds are what really
//! happened, one write after the other. That history is judged afterwards, at every one of its moments.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, future};
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::harness::Case;

/// What is watched: its API, and its kind.
const KINDS: [(&str, Kind); 4] = [
    ("workload.codeflare.dev/v1beta2", Kind::AppWrapper),
    (super::API, Kind::Workload),
    ("v1", Kind::Pod),
    ("batch/v1", Kind::Job),
];
/// Nothing takes longer to be seen.
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    AppWrapper,
    Workload,
    Pod,
    Job,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Change {
    pub revision: u64,
    pub kind: Kind,
    pub deleted: bool,
    pub object: Arc<Value>,
}

impl Change {
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Status of a condition, or "".
    pub fn condition(&self, kind: &str) -> &str {
        let conditions = self.object["status"]["conditions"].as_array();
        let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
        found.and_then(|condition| condition["status"].as_str()).unwrap_or_default()
    }

    pub fn phase(&self) -> &str {
        self.object["status"]["phase"].as_str().unwrap_or_default()
    }

    /// UID of its controller.
    pub fn owner(&self) -> &str {
        let owners = self.object["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        let owner = owners.find(|owner| owner["controller"] == true);
        owner.and_then(|owner| owner["uid"].as_str()).unwrap_or_default()
    }

    pub fn label(&self, label: &str) -> &str {
        self.object["metadata"]["labels"][label].as_str().unwrap_or_default()
    }
}

/// Watches a namespace in which nothing has happened yet.
pub struct Observer {
    changes: Arc<Mutex<Vec<Change>>>,
    apis: Vec<(Kind, Api<DynamicObject>)>,
    /// The changes of AppWrappers, as they come.
    pub wrappers: mpsc::UnboundedReceiver<Change>,
}

impl Observer {
    pub async fn new(case: &Case) -> Self {
        let changes: Arc<Mutex<Vec<Change>>> = Arc::default();
        let (sender, wrappers) = mpsc::unbounded_channel();
        let apis: Vec<_> = KINDS
            .iter()
            .map(|(version, kind)| (*kind, case.api(version, &format!("{kind:?}"))))
            .collect();
        for (kind, api) in apis.clone() {
            let list = api.list_metadata(&ListParams::default()).await.expect("it can be listed");
            assert!(list.items.is_empty(), "something has happened already");
            let from = list.metadata.resource_version.expect("a list has a version");
            let (changes, sender) = (changes.clone(), sender.clone());
            tokio::spawn(watch(kind, api, from, move |change: Change| {
                if change.kind == Kind::AppWrapper {
                    // nobody listens any more once the story is over
                    drop(sender.send(change.clone()));
                }
                changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
            }));
        }
        Self { changes, apis, wrappers }
    }

    /// Everything that has happened, in order. Waits until nothing of it is missing: what the watches
    /// say that there is, is what there is.
    pub async fn history(&self) -> Vec<Change> {
        let complete = async {
            loop {
                let listed = self.listed().await;
                let mut seen = self.changes.lock().unwrap_or_else(PoisonError::into_inner).clone();
                seen.sort_by_key(|change| change.revision);
                if present(&seen) == listed {
                    return seen;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, complete).await.expect("the watches catch up")
    }

    /// The version of each object that there is.
    async fn listed(&self) -> BTreeMap<(Kind, String), String> {
        let each = self.apis.iter().map(async |(kind, api)| {
            let list = api.list_metadata(&ListParams::default()).await.expect("it can be listed");
            let entry = |metadata: kube::api::ObjectMeta| {
                let uid = metadata.uid.unwrap_or_default();
                ((*kind, uid), metadata.resource_version.unwrap_or_default())
            };
            list.items.into_iter().map(|object| entry(object.metadata)).collect::<Vec<_>>()
        });
        future::join_all(each).await.into_iter().flatten().collect()
    }
}

/// The version of each object that a history ends with.
fn present(history: &[Change]) -> BTreeMap<(Kind, String), String> {
    let mut present = BTreeMap::new();
    for change in history {
        let key = (change.kind, change.uid().to_owned());
        if change.deleted {
            present.remove(&key);
        } else {
            present.insert(key, change.revision.to_string());
        }
    }
    present
}

/// Hands on every change from a version on. A version that is too old would be a gap: then the test
/// ends, since the history would not be complete.
async fn watch(kind: Kind, api: Api<DynamicObject>, mut from: String, seen: impl Fn(Change)) {
    loop {
        let params = WatchParams::default().timeout(280);
        // an error is a connection that was not made; what it has missed comes with the next one
        let Ok(events) = api.watch(&params, &from).await else { continue };
        let mut events = events.boxed();
        while let Some(Ok(event)) = events.next().await {
            let (object, deleted) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(bookmark) => {
                    from = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(error) => panic!("the watch of {kind:?} has a gap: {error:?}"),
            };
            from = object.metadata.resource_version.clone().expect("an object has a version");
            let revision = from.parse().expect("a version is a number");
            let object = serde_json::to_value(object).expect("an object is JSON");
            seen(Change { revision, kind, deleted, object: Arc::new(object) });
        }
    }
}
