//! One watch for each kind that is in use, wrapped or of retry sources: started with the first AppWrapper that
//! uses it, stopped a while after the last.
//!
//! Discovery of an unknown kind is retried with increasing pauses, and for a limited number of kinds in each
//! namespace. The others have no watch: reconciles that use them read from the API server directly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::absent::{Absent, Found, Most};
use super::{Queue, WATCH_AGAIN_AFTER, contain, retry_sources, watches};
use crate::api::keys;
use crate::kinds::Kind;
use crate::observe::cache::{Key, KindKey, Sync};
use crate::observe::cached_appwrapper::CachedAppWrapper;
use crate::observe::feed;
use crate::observe::live;
use crate::observe::raw_object::RawObject;
use crate::observe::retry_sources::is_retry_source;
use crate::reconcile::Context;
use crate::telemetry;

/// A watch is kept this long after its last use, so that jobs that are created one after the other do not
/// cost one list call each.
const LINGER: Duration = Duration::from_mins(1);

/// The longest pause before discovery of a kind is retried that is not served or must not be listed. It is watched
/// earlier if a reconcile finds it.
const ABSENT_AGAIN_AFTER: Duration = Duration::from_mins(5);
/// The longest pause if the API server does not respond to discovery of a kind.
const UNANSWERED_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// If the first list of a kind has failed for this time, reconciles do not wait for it any longer.
const LISTED_WITHIN: Duration = Duration::from_secs(30);
/// How many unserved kinds are discovered.
const ABSENT_MOST: Most = Most { per_namespace: 32, total: 1024 };

/// The watches of kinds, and who uses them.
pub(super) struct Kinds {
    context: Arc<Context>,
    queue: Queue,
    users: BTreeMap<Key, BTreeSet<KindKey>>,
    watches: BTreeMap<KindKey, Watch>,
    absent: Absent,
}

struct Watch {
    /// None where the kind may not be asked for now.
    task: Option<JoinHandle<()>>,
    /// The namespace that used it first.
    namespace: String,
    users: usize,
    idle_since: Option<Instant>,
}

impl Kinds {
    pub(super) fn new(context: Arc<Context>, queue: Queue) -> Self {
        let (users, watches) = (BTreeMap::new(), BTreeMap::new());
        Self { context, queue, users, watches, absent: Absent::new(ABSENT_MOST) }
    }

    /// An AppWrapper is there: the kinds that it uses are watched.
    pub(super) fn used_by(&mut self, stored: &CachedAppWrapper) {
        let key = stored.key();
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
            self.use_kind(kind, &key.namespace);
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

    /// Stops the watches that have been unused for a while, and starts those that can start now.
    pub(super) fn sweep(&mut self) {
        let (context, absent) = (&self.context, &mut self.absent);
        self.watches.retain(|kind, watch| {
            let idle = watch.idle_since.is_some_and(|since| since.elapsed() >= LINGER);
            if idle {
                watch.stop();
                absent.remove(kind);
                context.cache.remove_kind(kind);
                context.live.forget(kind);
                tracing::debug!(kind = kind.kind, "The watch of a kind was stopped.");
            }
            !idle
        });
        self.absent.prune();
        // a task that panicked has finished
        let runs = |task: &JoinHandle<()>| !task.is_finished();
        let waits = |watch: &Watch| watch.users > 0 && !watch.task.as_ref().is_some_and(runs);
        let waiting = self.watches.iter().filter(|(_, watch)| waits(watch));
        let waiting: Vec<_> =
            waiting.map(|(kind, watch)| (kind.clone(), watch.namespace.clone())).collect();
        for (kind, namespace) in waiting {
            self.begin(&kind, &namespace);
        }
    }

    fn use_kind(&mut self, kind: &KindKey, namespace: &str) {
        let watch = self.watches.entry(kind.clone()).or_insert_with(|| Watch {
            task: None,
            namespace: namespace.to_owned(),
            users: 0,
            idle_since: None,
        });
        watch.users += 1;
        watch.idle_since = None;
        if watch.task.is_none() {
            self.absent.prune();
            self.begin(kind, namespace);
        }
    }

    /// Starts the watch of a kind that has none, on behalf of a namespace, if the limits allow it.
    fn begin(&mut self, kind: &KindKey, namespace: &str) {
        let (context, queue) = (self.context.clone(), self.queue.clone());
        let task = if is_retry_source(kind) {
            tokio::spawn(retry_sources::watch(context, queue, kind.clone()))
        } else if let Some(permit) = self.absent.ask(kind, namespace) {
            if let Some(other) = permit.instead_of.and_then(|kind| self.watches.get_mut(&kind)) {
                other.stop();
            }
            tokio::spawn(watch(context, queue, kind.clone(), permit.found))
        } else {
            return blind(&self.context, &self.queue, kind);
        };
        if let Some(watch) = self.watches.get_mut(kind) {
            watch.task = Some(task);
        }
    }
}

impl Watch {
    fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for Kinds {
    fn drop(&mut self) {
        self.watches.values_mut().for_each(Watch::stop);
    }
}

/// Watches a kind for as long as it is in use, also while it does not exist.
async fn watch(context: Arc<Context>, queue: Queue, kind: KindKey, found: Found) {
    let mut pause = WATCH_AGAIN_AFTER;
    let begun = Instant::now();
    loop {
        match context.live.in_own_version(&context.client, &kind).await {
            Ok(resource) => {
                found.store(true, Ordering::Release);
                let mut events = events(&context, &resource, &kind);
                let mut feed = feed::Objects::new(kind.clone());
                while let Some(event) = events.next().await {
                    if matches!(event, Ok(Event::InitDone)) {
                        pause = WATCH_AGAIN_AFTER;
                    }
                    if !apply(&context, &queue, &kind, &mut feed, event) {
                        break;
                    }
                    let is_late = begun.elapsed() >= LISTED_WITHIN;
                    if is_late && context.cache.sync(&kind) == Sync::Starting {
                        blind(&context, &queue, &kind); // the end of the first list restores it
                    }
                }
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(ABSENT_AGAIN_AFTER);
            }
            Err(error) => {
                tracing::debug!(
                    kind = kind.kind,
                    cause = telemetry::chain(&error),
                    "A kind cannot be watched."
                );
                blind(&context, &queue, &kind);
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = context.live.found(&kind) => {}
                }
                pause = longer(pause, &error);
            }
        }
    }
}

/// The watch of a kind. Of objects of a kind without rules, no more than the metadata is read.
fn events(
    context: &Context,
    resource: &ApiResource,
    kind: &KindKey,
) -> BoxStream<'static, Result<Event<RawObject>, watcher::Error>> {
    let config = watcher::Config::default().labels(keys::APPWRAPPER);
    if Kind::of_any_version(&kind.api_version, &kind.kind).is_known() {
        watches::stream::<RawObject>(context, resource, config).boxed()
    } else {
        watches::metadata_stream(context, resource, config).boxed()
    }
}

/// The pause after another attempt that ended with this error.
fn longer(pause: Duration, error: &live::Error) -> Duration {
    let longest = match error {
        live::Error::NoKind(_) | live::Error::NotNamespaced(_) => ABSENT_AGAIN_AFTER,
        live::Error::Api { .. } => UNANSWERED_AGAIN_AFTER,
    };
    pause.saturating_mul(2).min(longest)
}

/// Takes in one event; false where the kind must be discovered again.
fn apply(
    context: &Context,
    queue: &Queue,
    kind: &KindKey,
    feed: &mut feed::Objects,
    event: Result<Event<RawObject>, watcher::Error>,
) -> bool {
    match event {
        Ok(event) => {
            let complete = matches!(event, Event::InitDone);
            let taken = contain::of_watch(&context.metrics, || feed.take(&context.cache, event));
            queue.push_all(taken.iter().flatten());
            if complete {
                queue.push_all(&context.users_of(kind));
            }
        }
        Err(error) => {
            tracing::warn!(
                kind = kind.kind,
                cause = telemetry::chain(&error),
                "The watch of a kind failed."
            );
            if is_refusal(&error) {
                context.live.forget(kind);
                blind(context, queue, kind);
                return false;
            }
        }
    }
    true
}

/// Whether the API server refuses to list or watch a kind: discovery says whether it is gone.
pub(super) fn is_refusal(error: &watcher::Error) -> bool {
    let code = live::watch_error(error).and_then(live::code);
    matches!(code, Some(403..=406))
}

/// A kind has no cache: reconciles that use it read from the API server directly.
pub(super) fn blind(context: &Context, queue: &Queue, kind: &KindKey) {
    if context.cache.set_blind(kind) {
        queue.push_all(&context.users_of(kind));
    }
}

#[cfg(test)]
mod tests;
