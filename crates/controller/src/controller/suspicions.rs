//! Suspect nodes: the watch of their objects, and what the leader writes of them, off the path of reconciles.

use std::time::Duration;

use futures::StreamExt;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::{contain, watches};
use crate::act::suspicions as write;
use crate::api::{NodeSuspicion, SuspectEffect};
use crate::config::{Config, SuspicionEffect};
use crate::observe::suspicions::Write;
use crate::reconcile::Context;
use crate::telemetry;

/// How often evidence is written that waits, and objects are deleted that have expired.
const EVERY: Duration = Duration::from_secs(10);
/// How many expired objects are deleted at a time.
const DELETED_AT_ONCE: usize = 16;
/// How long a write may take.
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);

/// How new attempts avoid suspect nodes; none where suspicion is off. It needs the watch of the nodes.
const fn effect(config: &Config) -> Option<SuspectEffect> {
    match config.node_suspicion.effect {
        _ if !config.autopilot.monitor_nodes => None,
        SuspicionEffect::Off => None,
        SuspicionEffect::Prefer => Some(SuspectEffect::Prefer),
        SuspicionEffect::Require => Some(SuspectEffect::Require),
    }
}

/// Watches the objects while suspicion is on; never ends. `listed` becomes true once they are listed, or where there are
/// none to list. A shadow has no use for them, and their definition may be missing where another controller is active.
pub(super) async fn watch(context: &Context, listed: watch::Sender<bool>) {
    if context.shadow.is_some() {
        listed.send_replace(true);
        return std::future::pending().await;
    }
    let mut changed = context.changed.subscribe();
    loop {
        let is_on = effect(&context.config()).is_some();
        if !is_on {
            listed.send_replace(true);
        }
        let other_settings = async {
            while effect(&context.config()).is_some() == is_on {
                if changed.changed().await.is_err() {
                    return std::future::pending().await; // the settings can no longer change
                }
            }
        };
        tokio::select! {
            () = follow(context, &listed), if is_on => {}
            () = other_settings => context.suspicions.forget(),
        }
    }
}

async fn follow(context: &Context, listed: &watch::Sender<bool>) {
    let resource = ApiResource::erase::<NodeSuspicion>(&());
    let config = watcher::Config::default();
    let mut events = Box::pin(watches::stream(context, &resource, config));
    let mut has_failed = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                has_failed = false;
                let complete = matches!(event, Event::InitDone);
                contain::of_watch(&context.metrics, || context.suspicions.take(event));
                if complete {
                    listed.send_replace(true);
                }
            }
            Err(error) => {
                if is_not_served(&error) {
                    listed.send_replace(true);
                }
                // once: before an upgrade of the definitions, the kind is not served
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(
                        cause = telemetry::chain(&error),
                        "The watch of NodeSuspicions failed."
                    );
                }
            }
        }
    }
}

/// Whether there are no objects since the API server does not serve the kind.
fn is_not_served(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(it)) if it.code == 404)
}

/// Writes evidence and deletes what has expired; never ends. For the leader alone.
pub(super) async fn publish(context: &Context) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = context.suspicions.changed() => {}
            _ = tick.tick() => delete_expired(context).await,
        }
        let config = context.config();
        let Some(effect) = effect(&config) else { continue };
        let (elapsed, now) = (context.clock.elapsed(), context.clock.now());
        for write in context.suspicions.due(elapsed, now, &config.node_suspicion) {
            let written = write_one(context, &config, &write, effect);
            if tokio::time::timeout(WRITTEN_WITHIN, written).await.is_err() {
                tracing::warn!(node = write.node, "Timed out writing a NodeSuspicion.");
            }
        }
    }
}

/// Writes the object of a node. What fails is tried again later, on the version that the watch shows by then.
async fn write_one(context: &Context, config: &Config, one: &Write, effect: SuspectEffect) {
    let (now, settings) = (context.clock.now(), &config.node_suspicion);
    let spec = one.spec(now, settings);
    match write::write(&context.client, &one.node, &spec, one.stored.as_ref()).await {
        Ok(stored) => {
            context.suspicions.written(one, stored);
            if one.makes_suspect(now, settings) {
                tracing::info!(node = one.node, score = spec.score, "The node is suspect.");
                context.metrics.warning(write::NODE_SUSPECTED);
                let suspects = context.suspicions.suspects(&context.cache, now, settings);
                let is_avoided = suspects.iter().any(|(suspect, _)| suspect.node == one.node);
                let effect = is_avoided.then_some(effect);
                if !write::tell(&context.client, &one.node, &spec, effect).await {
                    context.metrics.event_dropped();
                }
            }
        }
        Err(error) => {
            if error.code() == Some(404) {
                context.suspicions.gone(&one.node);
            }
            let cause = telemetry::chain(&error);
            tracing::warn!(node = one.node, cause, "A NodeSuspicion was not written; retrying.");
        }
    }
}

async fn delete_expired(context: &Context) {
    let config = context.config();
    if effect(&config).is_none() {
        return;
    }
    let (cache, now) = (&context.cache, context.clock.now());
    let settings = &config.node_suspicion;
    for (node, stored) in context.suspicions.expired(cache, now, settings, DELETED_AT_ONCE) {
        let deleted = write::delete(&context.client, &node, &stored);
        match tokio::time::timeout(WRITTEN_WITHIN, deleted).await {
            Ok(Ok(())) => {}
            // the watch shows what became of it
            Ok(Err(error)) if matches!(error.code(), Some(404 | 409)) => {}
            Ok(Err(error)) => {
                let cause = telemetry::chain(&error);
                tracing::warn!(node, cause, "A NodeSuspicion was not deleted; retrying.");
            }
            Err(_) => tracing::warn!(node, "Timed out deleting a NodeSuspicion."),
        }
    }
}

#[cfg(test)]
mod tests;
