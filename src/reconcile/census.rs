//! What the caches show at one moment, for the metrics.

use super::Context;
use crate::api::condition;
use crate::clock::Clock;
use crate::limits::{FaultTolerance, Limits};
use crate::metrics::{Census, Present, QueueKnown, is_deletion_stuck};
use crate::observe::assemble::Wrapper;
use crate::observe::cache::{Cache, Key};
use crate::observe::guides;
use k8s_openapi::jiff::Timestamp;

/// All AppWrappers that this controller looks after, as the watches have shown them. No call is made.
#[must_use]
pub fn census(context: &Context) -> Census {
    let config = context.config();
    let clock: &dyn Clock = &*context.clock;
    let now = clock.now();
    let stored = context.store.state();
    let wrappers = stored.iter().filter_map(|stored| stored.wrapper.as_ref().ok());
    let ours = wrappers.filter(|wrapper| wrapper.is_ours());
    let present =
        ours.map(|each| present(each, &context.cache, &config.fault_tolerance, now)).collect();
    Census { at: clock.elapsed(), present }
}

fn present(wrapper: &Wrapper, cache: &Cache, defaults: &FaultTolerance, now: Timestamp) -> Present {
    let key = Key { namespace: wrapper.namespace.clone(), name: wrapper.name.clone() };
    let pods = cache.tally(&key, &wrapper.uid);
    let has_pods = wrapper.components.iter().any(|component| !component.pod_sets.is_empty());
    let holds = condition::is_true(&wrapper.status.conditions, condition::QUOTA_RESERVED);
    let stuck_pods = if pods.due_to_go.is_empty() {
        0
    } else {
        let grace = Limits::of(&wrapper.annotations, defaults).0.forceful_deletion_grace;
        pods.due_to_go.iter().filter(|due| grace.after(**due) < now).count()
    };
    Present {
        uid: wrapper.uid.clone(),
        phase: wrapper.status.phase,
        namespace: wrapper.namespace.clone(),
        queue: wrapper.queue.clone().unwrap_or_default(),
        queue_known: queue_known(wrapper, cache, holds),
        idle: holds && has_pods && pods.running == 0,
        stuck_pods,
        stuck: is_deletion_stuck(&wrapper.status),
    }
}

/// What is known of the queue that an AppWrapper names, which anybody may do.
fn queue_known(wrapper: &Wrapper, cache: &Cache, holds: bool) -> QueueKnown {
    let exists = |queue: &String| {
        let at = Key { namespace: wrapper.namespace.clone(), name: queue.clone() };
        cache.guide(&guides::local_queues(), &at).is_some()
    };
    if wrapper.queue.as_ref().is_some_and(exists) {
        QueueKnown::Exists
    } else if holds || !wrapper.status.attempts.is_empty() {
        QueueKnown::Admitted
    } else {
        QueueKnown::Named
    }
}
