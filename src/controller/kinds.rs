//! One watch for each kind that is in use, wrapped or of guides: started with the first AppWrapper that
//! uses it, stopped a while after the last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Queue, WATCH_AGAIN_AFTER, guides, watches};
use crate::api::keys;
use crate::observe::cache::{Key, KindKey};
use crate::observe::feed;
use crate::observe::guides::is_guide;
use crate::observe::stored::Stored;
use crate::reconcile::Context;

/// A watch is kept this long after its last use, so that jobs that come one by one do not cost a list
/// each.
const LINGER: Duration = Duration::from_mins(1);

/// The watches of kinds, and who uses them.
pub(super) struct Kinds {
    context: Arc<Context>,
    queue: Queue,
    users: BTreeMap<Key, BTreeSet<KindKey>>,
    watches: BTreeMap<KindKey, Watch>,
    /// AppWrappers that a new list has not shown yet.
    unlisted: BTreeSet<Key>,
}

struct Watch {
    task: JoinHandle<()>,
    users: usize,
    idle_since: Option<Instant>,
}

impl Kinds {
    pub(super) fn new(context: Arc<Context>, queue: Queue) -> Self {
        let (users, watches, unlisted) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { context, queue, users, watches, unlisted }
    }

    /// A new list begins: what it does not show is gone.
    pub(super) fn restart(&mut self) {
        self.unlisted = self.users.keys().cloned().collect();
    }

    /// The AppWrappers that the new list did not show.
    pub(super) fn unlisted(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.unlisted)
    }

    /// An AppWrapper is there: the kinds that it uses are watched.
    pub(super) fn used_by(&mut self, stored: &Stored) {
        let key = stored.key();
        self.unlisted.remove(&key);
        let Ok(summary) = &stored.summary else { return };
        if !summary.is_ours {
            return;
        }
        let kinds = self.context.kinds_of(summary);
        if self.users.get(&key) == Some(&kinds) {
            return;
        }
        self.released_by(&key);
        for kind in &kinds {
            self.use_kind(kind);
        }
        self.users.insert(key, kinds);
    }

    /// An AppWrapper is gone.
    pub(super) fn released_by(&mut self, key: &Key) {
        for kind in self.users.remove(key).unwrap_or_default() {
            if let Some(watch) = self.watches.get_mut(&kind) {
                watch.users = watch.users.saturating_sub(1);
                watch.idle_since = (watch.users == 0).then(Instant::now);
            }
        }
    }

    /// Stops the watches that nobody has used for a while.
    pub(super) fn sweep(&mut self) {
        let context = &self.context;
        self.watches.retain(|kind, watch| {
            let idle = watch.idle_since.is_some_and(|since| since.elapsed() >= LINGER);
            if idle {
                watch.task.abort();
                context.cache.remove_kind(kind);
                context.live.forget(kind);
                tracing::debug!(kind = kind.kind, "The watch of a kind was stopped.");
            }
            !idle
        });
    }

    fn use_kind(&mut self, kind: &KindKey) {
        if let Some(watch) = self.watches.get_mut(kind) {
            watch.users += 1;
            watch.idle_since = None;
            return;
        }
        let (context, queue) = (self.context.clone(), self.queue.clone());
        let task = if is_guide(kind) {
            tokio::spawn(guides::watch(context, queue, kind.clone()))
        } else {
            tokio::spawn(watch(context, queue, kind.clone()))
        };
        self.watches.insert(kind.clone(), Watch { task, users: 1, idle_since: None });
    }
}

impl Drop for Kinds {
    fn drop(&mut self) {
        self.watches.values().for_each(|watch| watch.task.abort());
    }
}

/// Watches a kind for as long as it is in use, whether it exists yet, still, or again.
async fn watch(context: Arc<Context>, queue: Queue, kind: KindKey) {
    loop {
        match context.live.resource(&context.client, &kind).await {
            Ok(resource) => {
                let config = watcher::Config::default().labels(keys::APPWRAPPER);
                let mut events = Box::pin(watches::stream(&context, &resource, config));
                let mut feed = feed::Objects::new(kind.clone());
                while let Some(event) = events.next().await {
                    if !apply(&context, &queue, &kind, &mut feed, event) {
                        break;
                    }
                }
            }
            Err(error) => {
                tracing::debug!(kind = kind.kind, %error, "A kind cannot be watched.");
                blind(&context, &queue, &kind);
            }
        }
        tokio::time::sleep(WATCH_AGAIN_AFTER).await;
    }
}

/// Takes in one event; false where the kind must be discovered again.
fn apply(
    context: &Context,
    queue: &Queue,
    kind: &KindKey,
    feed: &mut feed::Objects,
    event: Result<Event<crate::observe::seen::Seen>, watcher::Error>,
) -> bool {
    match event {
        Ok(event) => {
            let complete = matches!(event, Event::InitDone);
            queue.push_all(&feed.take(&context.cache, event));
            if complete {
                queue.push_all(&context.users_of(kind));
            }
        }
        Err(error) => {
            tracing::warn!(kind = kind.kind, %error, "The watch of a kind failed.");
            let gone = matches!(
                &error,
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status))
                    if matches!(status.code, 403..=405)
            );
            if gone {
                context.live.forget(kind);
                blind(context, queue, kind);
                return false;
            }
        }
    }
    true
}

/// Nothing of a kind can be seen: those who use it must ask the API server itself.
pub(super) fn blind(context: &Context, queue: &Queue, kind: &KindKey) {
    if context.cache.set_blind(kind) {
        queue.push_all(&context.users_of(kind));
    }
}
