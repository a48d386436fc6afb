//! The watch of a kind of retry sources: retry policies, local queues, cluster queues.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::kinds::{blind, is_refusal};
use super::{Queue, WATCH_AGAIN_AFTER, contain, watches};
use crate::observe::cache::{KindKey, Sync};
use crate::observe::feed;
use crate::observe::live::{self, Error};
use crate::observe::raw_object::RawObject;
use crate::reconcile::Context;
use crate::telemetry;

/// Pause before a kind that does not exist or whose access is forbidden is discovered again: Kueue may not
/// be installed. If a kind is refused for this time, nothing of it is known, also where it was listed before.
const ABSENT_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Watches a kind of retry sources for as long as it is in use. Where it does not exist, nothing of it does. What was listed is
/// known while the watch is refused for a moment, and the first list is awaited: another version may be served, and an API
/// server that has just started may refuse what it allows a moment later.
pub(super) async fn watch(context: Arc<Context>, queue: Queue, kind: KindKey) {
    let mut refused_since: Option<Instant> = None;
    loop {
        let pause = match live::retry_source_resource(&context.client, &kind).await {
            Ok(resource) => {
                let (begun, mut lists) = (Instant::now(), false);
                let config = watcher::Config::default();
                let mut events = Box::pin(watches::stream(&context, &resource, config));
                let mut feed = feed::RetrySources::new(kind.clone());
                while let Some(event) = events.next().await {
                    lists |= matches!(event, Ok(Event::InitDone));
                    if !apply(&context, &queue, &kind, &mut feed, event) {
                        break;
                    }
                }
                let is_long = begun.elapsed() >= ABSENT_AGAIN_AFTER;
                refused_since = refused_since.filter(|_| !lists && !is_long);
                let since = *refused_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= ABSENT_AGAIN_AFTER {
                    blind(&context, &queue, &kind);
                }
                // where lists alone are allowed, they stay rare
                let is_brief = lists && !is_long;
                let is_given_up = context.cache.sync(&kind) == Sync::Blind;
                if is_given_up || is_brief { ABSENT_AGAIN_AFTER } else { WATCH_AGAIN_AFTER }
            }
            Err(Error::NoKind(_) | Error::NotNamespaced(_)) => {
                tracing::debug!(kind = kind.kind, "The API server does not serve the kind.");
                blind(&context, &queue, &kind);
                ABSENT_AGAIN_AFTER
            }
            // nothing is known: what was known stays
            Err(error @ Error::Api { .. }) => {
                tracing::warn!(
                    kind = kind.kind,
                    cause = telemetry::chain(&error),
                    "A kind cannot be watched."
                );
                refused_since = None;
                WATCH_AGAIN_AFTER
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Takes in one event; false where the kind must be looked for again.
fn apply(
    context: &Context,
    queue: &Queue,
    kind: &KindKey,
    feed: &mut feed::RetrySources,
    event: Result<Event<RawObject>, watcher::Error>,
) -> bool {
    let error = match event {
        Ok(event) => {
            let taken = contain::of_watch(&context.metrics, || feed.take(&context.cache, event));
            queue.push_all(&context.concerned(kind, &taken.unwrap_or(feed::Concerned::All)));
            return true;
        }
        Err(error) => error,
    };
    tracing::warn!(
        kind = kind.kind,
        cause = telemetry::chain(&error),
        "The watch of a kind failed."
    );
    !is_refusal(&error)
}

#[cfg(test)]
mod tests;
