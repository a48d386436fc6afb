//! What happens in a collection, from watch events, each with the time of its arrival.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use http::Request;
use kube::Client;
use kube::core::WatchEvent;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::failure::Failure;

/// How often in a row a watch may fail before it is given up.
const FAILURES_MAX: u32 = 5;

/// One event of one object.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When it arrived.
    pub at: Instant,
    /// The object's name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// It is gone.
    pub deleted: bool,
    /// It is being deleted, or gone.
    pub deleting: bool,
    /// `status.phase`; empty where there is none.
    pub phase: String,
    /// `status.resettingCount` of an AppWrapper.
    pub resets: u32,
    /// The types of the conditions that are True.
    pub conditions: Vec<String>,
}

impl Seen {
    /// Whether a condition is True.
    pub fn is(&self, condition: &str) -> bool {
        self.conditions.iter().any(|each| each == condition)
    }
}

/// A watch in a task of its own, which ends when this is dropped. It keeps every event.
#[derive(Debug)]
pub struct Watch {
    path: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    progress: watch::Receiver<Progress>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Progress {
    events: usize,
    problem: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    resetting_count: u32,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Watch {
    /// Watches a collection: all that happens after this returns is seen.
    pub async fn start(client: Client, path: String) -> Result<Self, Failure> {
        let request = get(format!("{path}?limit=1")).map_err(Failure::api("list"))?;
        let list: Object =
            client.request(request).await.map_err(Failure::api(format!("list {path}")))?;
        let seen = Arc::new(Mutex::new(vec![]));
        let (sender, progress) = watch::channel(Progress::default());
        let version = list.metadata.resource_version;
        let task = tokio::spawn(follow(client, path.clone(), version, seen.clone(), sender));
        Ok(Self { path, seen, progress, task })
    }

    /// All events so far.
    pub fn all(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }

    /// Gives each event, from the first of all, to a closure until that says that it is enough; when
    /// that event arrived.
    pub async fn until(
        &self,
        what: &str,
        within: Duration,
        mut enough: impl FnMut(&Seen) -> bool,
    ) -> Result<Instant, Failure> {
        let mut next = 0;
        let wait = async {
            loop {
                let new = self.after(next).await?;
                next += new.len();
                if let Some(last) = new.iter().find(|seen| enough(seen)) {
                    return Ok(last.at);
                }
            }
        };
        let late = || Failure::Late { what: what.to_owned(), seconds: within.as_secs() };
        tokio::time::timeout(within, wait).await.map_err(|_| late())?
    }

    /// The events after the first so many; waits until there is one.
    pub async fn after(&self, count: usize) -> Result<Vec<Seen>, Failure> {
        let mut progress = self.progress.clone();
        let more = |now: &Progress| now.events > count || now.problem.is_some();
        let problem = match progress.wait_for(more).await {
            Ok(now) if now.events > count => None,
            Ok(now) => now.problem.clone(),
            Err(_) => Some("its task ended".to_owned()),
        };
        match problem {
            None => Ok(lock(&self.seen).get(count..).unwrap_or_default().to_vec()),
            Some(problem) => Err(Failure::Watch { path: self.path.clone(), problem }),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// For [`Watch::until`]: whether so many objects have met a condition, each at some time.
pub fn as_many(count: usize, met: impl Fn(&Seen) -> bool) -> impl FnMut(&Seen) -> bool {
    let mut names = BTreeSet::new();
    move |seen| {
        if met(seen) && !names.contains(&seen.name) {
            names.insert(seen.name.clone());
        }
        names.len() >= count
    }
}

fn lock(seen: &Mutex<Vec<Seen>>) -> MutexGuard<'_, Vec<Seen>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn get(path: String) -> kube::Result<Request<Vec<u8>>> {
    Request::get(path).body(vec![]).map_err(kube::Error::HttpError)
}

/// Watches on and on; a watch that ends is begun again where it was.
async fn follow(
    client: Client,
    path: String,
    mut version: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    progress: watch::Sender<Progress>,
) {
    let mut failures = 0;
    loop {
        let before = version.clone();
        let ended = follow_once(&client, &path, &mut version, &seen, &progress).await;
        failures = if version == before { failures + 1 } else { 0 };
        if let Err(error) = ended
            && failures > FAILURES_MAX
        {
            progress.send_modify(|now| now.problem = Some(error.to_string()));
            return;
        }
    }
}

async fn follow_once(
    client: &Client,
    path: &str,
    version: &mut String,
    seen: &Mutex<Vec<Seen>>,
    progress: &watch::Sender<Progress>,
) -> kube::Result<()> {
    let query = "watch=1&allowWatchBookmarks=true&timeoutSeconds=600&resourceVersion";
    let request = get(format!("{path}?{query}={version}"))?;
    let mut events = pin!(client.request_events::<Object>(request).await?);
    while let Some(event) = events.try_next().await? {
        let (object, deleted) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(mark) => {
                *version = mark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        };
        version.clone_from(&object.metadata.resource_version);
        lock(seen).push(event_of(object, deleted));
        progress.send_modify(|now| now.events += 1);
    }
    Ok(())
}

fn event_of(object: Object, deleted: bool) -> Seen {
    let Object { metadata, status } = object;
    let is_true = status.conditions.into_iter().filter(|each| each.status == "True");
    Seen {
        at: Instant::now(),
        name: metadata.name,
        uid: metadata.uid,
        deleted,
        deleting: deleted || metadata.deletion_timestamp.is_some(),
        phase: status.phase,
        resets: status.resetting_count,
        conditions: is_true.map(|each| each.kind).collect(),
    }
}
