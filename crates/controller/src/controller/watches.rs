//! The permanent watches: AppWrappers, their pods, nodes, and what is known of suspect ones.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::Resource;
use kube::api::Api;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_kind};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::kinds::Kinds;
use super::{Queue, contain, suspicions};
use crate::api::{AppWrapper, keys};
use crate::client;
use crate::config::Autopilot;
use crate::metrics::Metrics;
use crate::observe::assemble::Wrapper;
use crate::observe::cache::Key;
use crate::observe::cached_appwrapper::{Before, CachedAppWrapper};
use crate::observe::feed;
use crate::observe::live::pod_resource;
use crate::observe::nodes::{self, Marks};
use crate::observe::raw_object::{RawObject, resource_of_any_kind};
use crate::observe::store::Shown;
use crate::reconcile::Context;
use crate::telemetry;

/// How often the watches of unused kinds are stopped.
const SWEEP_EVERY: Duration = Duration::from_secs(20);

/// How long the list of nodes is waited for, and then the configuration of Kueue.
pub(super) const NODES_WITHIN: Duration = Duration::from_secs(10);

/// Runs all watches; never ends by itself. `listed` becomes true once AppWrappers and their pods are listed: before,
/// nobody can tell what an earlier process has left. Nodes, and what is known of suspect ones, are waited for only for a
/// while: a verdict rests on nodes, and new attempts avoid suspect ones, but where nodes cannot be listed, none is known to be
/// lost or suspect, and everything else goes on.
pub(super) async fn run(context: Arc<Context>, queue: Queue, listed: watch::Sender<bool>) {
    let (pods_listed, pods_ready) = watch::channel(false);
    let (wrappers_listed, wrappers_ready) = watch::channel(false);
    let (nodes_listed, nodes_ready) = watch::channel(false);
    let (suspicions_listed, suspicions_ready) = watch::channel(false);
    let tell = async {
        until(pods_ready).await;
        until(wrappers_ready).await;
        let all_of_nodes = async {
            until(nodes_ready).await;
            until(suspicions_ready).await;
        };
        let _in_time = tokio::time::timeout(NODES_WITHIN, all_of_nodes).await;
        listed.send_replace(true);
    };
    tokio::join!(
        pods(&context, &queue, pods_listed),
        nodes(&context, &queue, nodes_listed),
        wrappers(&context, &queue, wrappers_listed),
        suspicions::watch(&context, suspicions_listed),
        tell,
    );
}

/// Waits until something is listed; for ever where its watch has ended, and with it everything.
pub(super) async fn until(mut listed: watch::Receiver<bool>) {
    if listed.wait_for(|listed| *listed).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The watch of a resource in all namespaces, started again with a backoff whenever it ends.
pub(super) fn stream<T>(
    context: &Context,
    resource: &ApiResource,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<T>, watcher::Error>> + Send + use<T>
where
    T: Resource<DynamicType = ApiResource> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<T> = Api::all_with(context.client.clone(), resource);
    watch_kind(api, config).backoff(client::watch_backoff())
}

/// An object of which only the metadata is asked for. It is read like a whole one: what others write there, such as a time
/// that no type of ours holds, fails no list.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
struct MetadataOnly(RawObject);

resource_of_any_kind!(MetadataOnly, 0.meta, metadata_only: true);

/// The same of the metadata alone: whoever may change an object chooses how large the rest of it is.
pub(super) fn metadata_stream(
    context: &Context,
    resource: &ApiResource,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<RawObject>, watcher::Error>> + Send + use<> {
    let events = stream::<MetadataOnly>(context, resource, config);
    events.map(|event| {
        event.map(|event| match event {
            Event::Init => Event::Init,
            Event::InitApply(seen) => Event::InitApply(seen.0),
            Event::InitDone => Event::InitDone,
            Event::Apply(seen) => Event::Apply(seen.0),
            Event::Delete(seen) => Event::Delete(seen.0),
        })
    })
}

/// Feeds the events of a watch to the cache, and queues the AppWrappers that each concerns; `listed` is called after
/// each complete list.
async fn follow<T>(
    context: &Context,
    queue: &Queue,
    kind: &str,
    events: impl Stream<Item = Result<Event<T>, watcher::Error>>,
    mut take: impl FnMut(Event<T>) -> Vec<Key>,
    listed: impl Fn(),
) {
    let mut events = Box::pin(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let complete = matches!(event, Event::InitDone);
                let taken = contain::of_watch(&context.metrics, || take(event));
                queue.push_all(taken.iter().flatten());
                if complete {
                    listed();
                }
            }
            Err(error) => {
                let cause = telemetry::chain(&error);
                tracing::warn!(kind, cause, "The watch of a kind failed.");
            }
        }
    }
}

async fn pods(context: &Context, queue: &Queue, listed: watch::Sender<bool>) {
    let config = watcher::Config::default().labels(keys::APPWRAPPER);
    let resource = pod_resource();
    let events = stream(context, &resource, config);
    let mut feed = feed::Pods::default();
    let listed = || {
        listed.send_replace(true);
    };
    let take = |event| feed.take(&context.cache, event);
    follow(context, queue, &resource.kind, events, take, listed).await;
}

/// Watches nodes as configured, and restarts the watch when the relevant settings change.
async fn nodes(context: &Context, queue: &Queue, listed: watch::Sender<bool>) {
    let mut changed = context.changed.subscribe();
    loop {
        let autopilot = context.config().autopilot.clone();
        let marks = nodes::marks(&autopilot);
        if !autopilot.monitor_nodes {
            listed.send_replace(true);
        }
        let is_other = |new: &Autopilot| {
            new.monitor_nodes != autopilot.monitor_nodes || nodes::marks(new) != marks
        };
        let other_settings = async {
            while !is_other(&context.config().autopilot) {
                if changed.changed().await.is_err() {
                    return std::future::pending().await; // the settings can no longer change
                }
            }
        };
        tokio::select! {
            () = watch_nodes(context, queue, marks.clone(), &listed), if autopilot.monitor_nodes => {}
            () = other_settings => {}
        }
        if !context.config().autopilot.monitor_nodes {
            queue.push_all(&context.cache.forget_nodes());
        }
    }
}

async fn watch_nodes(context: &Context, queue: &Queue, marks: Marks, listed: &watch::Sender<bool>) {
    let mut feed = feed::Nodes::new(marks);
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    let events = stream(context, &resource, watcher::Config::default());
    let listed = || {
        listed.send_replace(true);
    };
    let take = |event| feed.take(&context.cache, event);
    follow(context, queue, &resource.kind, events, take, listed).await;
}

async fn wrappers(context: &Arc<Context>, queue: &Queue, listed: watch::Sender<bool>) {
    let resource = ApiResource::erase::<AppWrapper>(&());
    let mut events = Box::pin(stream(context, &resource, watcher::Config::default()));
    let mut kinds = Kinds::new(context.clone(), queue.clone());
    let mut sweep = tokio::time::interval(SWEEP_EVERY);
    let mut changed = context.changed.subscribe();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = sweep.tick() => {
                kinds.sweep();
                continue;
            }
            Ok(()) = changed.changed() => {
                for stored in context.store.all() {
                    used(context, &mut kinds, &stored);
                }
                continue;
            }
        };
        let Some(event) = event else { return };
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(
                    cause = telemetry::chain(&error),
                    "The watch of AppWrappers failed."
                );
                continue;
            }
        };
        match context.store.apply(event, |seen, before| read(&context.metrics, seen, before)) {
            Shown::Begin => {}
            Shown::Listed(stored) => used(context, &mut kinds, &stored),
            Shown::Changed(stored) => {
                used(context, &mut kinds, &stored);
                queue.push(&stored.key());
            }
            Shown::Gone(key) => gone(context, queue, &mut kinds, &key),
            Shown::Complete(all_gone) => {
                for key in &all_gone {
                    gone(context, queue, &mut kinds, key);
                }
                queue.push_all(&context.store.keys());
                listed.send_replace(true);
            }
        }
    }
}

fn used(context: &Context, kinds: &mut Kinds, stored: &CachedAppWrapper) {
    contain::of_watch(&context.metrics, || kinds.used_by(stored));
}

/// An AppWrapper does not exist any more. Its entry in the queue goes with the reconcile that finds nothing.
fn gone(context: &Context, queue: &Queue, kinds: &mut Kinds, key: &Key) {
    kinds.released_by(key);
    context.forget(key);
    queue.forget(key);
    queue.push(key);
}

fn read(
    metrics: &Metrics,
    seen: RawObject,
    before: &Before,
) -> (CachedAppWrapper, Option<Arc<Wrapper>>) {
    let meta = seen.meta.clone();
    let read = contain::of_watch(metrics, || CachedAppWrapper::read(seen, before));
    read.unwrap_or_else(|| (CachedAppWrapper::unreadable(meta, "internal error".to_owned()), None))
}
