//! What the caches show at one moment, for the metrics.

use std::time::Duration;

use super::Context;
use crate::clock::Clock;
use crate::config::SuspicionEffect;
use crate::metrics::{Census, Present, QueueKnown};
use crate::observe::cache::{Cache, Key};
use crate::observe::cached_appwrapper::CachedAppWrapper;
use crate::observe::retry_sources;
use crate::observe::summary::Summary;
use crate::tuning::FaultTolerance;
use k8s_openapi::jiff::Timestamp;

/// All AppWrappers that this controller looks after, as the watches have shown them. No call is made.
#[must_use]
pub fn census(context: &Context) -> Census {
    let config = context.config();
    let clock: &dyn Clock = &*context.clock;
    let now = clock.now();
    let present = context.store.all().into_iter().filter_map(|stored| {
        let summary = stored.summary.as_ref().ok().filter(|summary| summary.is_ours)?;
        Some(present(&stored, summary, &context.cache, &config.fault_tolerance, now))
    });
    let suspects = match config.node_suspicion.effect {
        SuspicionEffect::Off => vec![],
        SuspicionEffect::Prefer | SuspicionEffect::Require => {
            context.suspicions.suspects(&context.cache, now, &config.node_suspicion)
        }
    };
    Census { at: clock.elapsed(), present: present.collect(), suspect_nodes: suspects.len() }
}

fn present(
    stored: &CachedAppWrapper,
    summary: &Summary,
    cache: &Cache,
    defaults: &FaultTolerance,
    now: Timestamp,
) -> Present {
    let key = stored.key();
    let pods = cache.tally(&key, stored.uid());
    let namespace = key.namespace;
    let stuck_pods = if pods.due_to_go.is_empty() {
        0
    } else {
        let grace = summary.forceful_deletion_grace(defaults);
        pods.due_to_go.iter().filter(|due| grace.after(**due) < now).count()
    };
    Present {
        uid: stored.uid().to_owned(),
        phase: summary.phase,
        queue_known: queue_known(summary, cache, &namespace),
        namespace,
        queue: summary.queue.clone().unwrap_or_default(),
        idle: summary.holds_quota && summary.has_pods && pods.running == 0,
        idle_for: summary.idle_since.map_or(Duration::ZERO, |since| {
            Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO)
        }),
        stuck_pods,
        stuck: summary.is_stuck,
        over_quota: summary.is_over_quota,
    }
}

/// What is known of the queue that an AppWrapper names, which anybody may do.
fn queue_known(summary: &Summary, cache: &Cache, namespace: &str) -> QueueKnown {
    let exists = |queue: &String| {
        let at = Key { namespace: namespace.to_owned(), name: queue.clone() };
        cache.retry_source(retry_sources::local_queues(), &at).is_some()
    };
    if summary.queue.as_ref().is_some_and(exists) {
        QueueKnown::Exists
    } else if summary.was_admitted {
        QueueKnown::Admitted
    } else {
        QueueKnown::Named
    }
}
