//! Watches, work queue and shutdown. The decisions are made elsewhere.
//!
//! ```text
//! AppWrappers ─┬─▶ store ────────────┐
//!              └─▶ kinds in use ─┐   │
//! pods, nodes ──▶ cache ─────────┼─▶ queue ─▶ reconcile
//! one watch per kind ─▶ cache ───┘   including RetryPolicies and queues where an AppWrapper names them
//! ```
//!
//! A failure of one AppWrapper does not affect the others: a panic is caught and reported, an error is
//! retried later, and a call that hangs holds a place of its own namespace.

mod absent;
mod contain;
mod kinds;
mod queue;
mod records;
mod retry_sources;
mod schedule;
mod suspicions;
mod watches;
mod work;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::observe::cache::Key;
use crate::observe::pod_lists::PodLists;
use crate::observe::store::Store;
use crate::reconcile::{self, Context, Next};
use crate::shadow::Shadow;
use crate::telemetry;

use contain::{Panicked, Panics};
use queue::Queue;
use schedule::{Ended, Requeue};
use work::Work;

/// A reconcile that took longer lets others of its namespace go first.
const SLOW: Duration = Duration::from_secs(1);
/// Cool-down per pod. A reconcile visits every pod that it keeps, and every one that it lists, so the cool-down grows with their
/// number and bounds the cost of a large gang's events.
const COOL_DOWN_PER_POD: Duration = Duration::from_micros(500);
/// Cool-down per KiB of text. An AppWrapper of 1 MiB takes about 10 ms to read, whatever the change.
const COOL_DOWN_PER_KIB: Duration = Duration::from_micros(200);
/// The longest cool-down.
const COOL_DOWN_MAX: Duration = Duration::from_secs(1);

/// The longest cool-down after errors in a row: events of an AppWrapper whose calls fail cause no more calls than this.
const COOL_DOWN_AFTER_ERROR_MAX: Duration = Duration::from_secs(5);

/// How long the shutdown waits until the events of the last reconciles are sent.
const EVENTS_SENT_WITHIN: Duration = Duration::from_secs(2);

/// A controller that is not running yet.
pub struct Controller {
    /// What it shares with servers: settings, metrics.
    pub context: Arc<Context>,
    queue: Queue,
    listed: watch::Sender<bool>,
}

impl Controller {
    /// Creates a controller. The client must be configured without automatic retries.
    #[must_use]
    pub fn new(client: Client, clock: Arc<dyn Clock>, config: Config) -> Self {
        Self::with_metrics(client, clock, config, Metrics::new())
    }

    /// Creates a controller with these metrics, which also count the client's calls.
    #[must_use]
    pub fn with_metrics(
        client: Client,
        clock: Arc<dyn Clock>,
        config: Config,
        metrics: Metrics,
    ) -> Self {
        Self::made(client, clock, config, metrics, None)
    }

    /// Creates a controller that compares its decisions with what the active controller does, and writes nothing.
    #[must_use]
    pub fn shadowing(
        client: Client,
        clock: Arc<dyn Clock>,
        config: Config,
        metrics: Metrics,
        shadow: Shadow,
    ) -> Self {
        Self::made(client, clock, config, metrics, Some(shadow))
    }

    fn made(
        client: Client,
        clock: Arc<dyn Clock>,
        config: Config,
        metrics: Metrics,
        shadow: Option<Shadow>,
    ) -> Self {
        let store = Store::default();
        let queue = Queue::new(metrics.clone(), store.clone());
        let wake = queue.clone();
        let mut context = Context::new(client, clock, config, move |key| wake.push(key));
        context.store = store;
        context.lists = PodLists::apart();
        context.metrics = metrics;
        context.shadow = shadow;
        let context = Arc::new(context);
        let listed = watch::Sender::<bool>::default();
        let counted = Arc::downgrade(&context); // the context has the metrics, not they the context
        let all_listed = listed.subscribe();
        context.metrics.count_with(move || {
            // without its pods, an AppWrapper would be idle
            let counted = counted.upgrade().filter(|_| *all_listed.borrow())?;
            Some(reconcile::census(&counted))
        });
        Self { context, queue, listed }
    }

    /// Becomes true once the AppWrappers and their pods have been listed.
    #[must_use]
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.listed.subscribe()
    }

    /// Runs until `shutdown` ends; what is being written then is finished first, and events are sent for a moment.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        self.run_when(std::future::ready(()), shutdown).await;
    }

    /// Keeps the caches warm, and reconciles from the moment when `leads` ends and AppWrappers and pods are listed,
    /// beginning with all AppWrappers. For Kueue's configuration it waits only for a while.
    pub async fn run_when(
        self,
        leads: impl Future<Output = ()>,
        shutdown: impl Future<Output = ()>,
    ) {
        let Self { context, queue, listed } = self;
        let all_listed = listed.subscribe();
        let (work, panics) = (Work::new(), Panics::default());
        let worked = async {
            leads.await;
            watches::until(all_listed).await;
            let kueue_read = watches::until(context.kueue_read.subscribe());
            let _in_time = tokio::time::timeout(watches::NODES_WITHIN, kueue_read).await;
            queue.open();
            context.requeue_all();
            let writes = context.shadow.is_none();
            tokio::select! {
                () = queue.serve(|key| reconcile_one(key, &context, &work, &panics)) => {}
                () = suspicions::publish(&context), if writes => {}
                () = records::tidy(&context), if writes => {}
            }
        };
        let watched = watches::run(context.clone(), queue.clone(), listed);
        let ended = async {
            shutdown.await;
            work.finish().await;
            let all_sent = context.events.all_sent();
            if tokio::time::timeout(EVENTS_SENT_WITHIN, all_sent).await.is_err() {
                (0..context.events.left()).for_each(|_| context.metrics.event_dropped());
            }
        };
        tokio::select! {
            () = worked => {}
            () = watched => {}
            () = context.events.publish(&context.client, || context.metrics.event_dropped()) => {}
            () = ended => {}
        }
    }
}

/// Reconciles one AppWrapper, and says when to reconcile it again, also after an error or a panic.
async fn reconcile_one(key: Key, context: &Arc<Context>, work: &Work, panics: &Panics) -> Ended {
    let idle = Ended { requeue: Requeue::OnChange, cool_down: Duration::ZERO, yields: false };
    let Some(stored) = context.store.get(&key) else {
        panics.ended_well(&key);
        context.forget(&key); // it may have gone while an earlier reconcile still asked about it
        return idle;
    };
    let Some(_begun) = work.begin() else { return idle };
    let began = context.clock.elapsed();
    let ended = contain::caught(reconcile::reconcile(stored.clone(), context.clone())).await;
    let took = context.clock.elapsed().saturating_sub(began);
    context.metrics.reconciled(took, matches!(ended, Ok(Ok(_))));
    if ended.is_ok() {
        panics.ended_well(&key);
    }
    let yields = !matches!(ended, Ok(Ok(_))) || took >= SLOW;
    let (requeue, rest) = match ended {
        Ok(Ok(Next::OnChange)) => (Requeue::OnChange, Duration::ZERO),
        Ok(Ok(Next::After(pause))) => (Requeue::After(pause), Duration::ZERO),
        Ok(Err(error)) => reconcile::span(&stored).in_scope(|| failed(&key, &error, context)),
        Err(Panicked) => (panics.panicked(&stored, context), Duration::ZERO),
    };
    if context.store.get(&key).is_none() {
        context.forget(&key); // it went meanwhile, and must leave no memory behind
        return Ended { requeue: requeue.of_gone(), cool_down: Duration::ZERO, yields };
    }
    // what the controller itself has written is decided about as soon as the watch shows it
    let cool_down = if reconcile::awaits_own_write(context, &key) {
        Duration::ZERO
    } else {
        let kept = context.cache.pod_cache(|pods| pods.kept(&key));
        cool_down(kept, reconcile::listed_pods(context, &key), stored.size())
    };
    Ended { requeue, cool_down: cool_down.max(rest), yields }
}

/// How long changes to an AppWrapper trigger no further reconcile: by the pods that the cache keeps or, where these are more, that
/// the last reconcile has listed, and by its bytes of text.
fn cool_down(kept: usize, listed: usize, bytes: usize) -> Duration {
    let times = |each: Duration, count: usize| {
        each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
    };
    let of_text = times(COOL_DOWN_PER_KIB, bytes / 1024);
    times(COOL_DOWN_PER_POD, kept.max(listed)).saturating_add(of_text).min(COOL_DOWN_MAX)
}

/// A reconcile that failed: when the AppWrapper is reconciled again, and the cool-down.
fn failed(key: &Key, error: &reconcile::Error, context: &Context) -> (Requeue, Duration) {
    let errors = reconcile::errors(context, key);
    let pause = spread(key, reconcile::error_pause(errors));
    tracing::warn!(cause = telemetry::chain(error), "Reconcile failed; retrying.");
    after_error(errors, pause, error.retry_after().map(|asked| spread(key, asked)))
}

/// A pause after an error: a longer one where the API server asks for it. The first error may be about what an event is
/// to change; after that, events are subject to a cool-down.
fn after_error(errors: u32, pause: Duration, asked: Option<Duration>) -> (Requeue, Duration) {
    match asked {
        Some(asked) => (Requeue::NotBefore(asked.max(pause)), Duration::ZERO),
        None if errors > 1 => (Requeue::After(pause), pause.min(COOL_DOWN_AFTER_ERROR_MAX)),
        None => (Requeue::After(pause), Duration::ZERO),
    }
}

/// A pause, longer by up to a quarter that depends on the AppWrapper: those that failed together are not retried
/// together.
fn spread(key: &Key, pause: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % 256).unwrap_or_default();
    pause.saturating_add(pause.saturating_mul(share) / 1024)
}

/// Pause before a watch that failed to start is restarted.
const WATCH_AGAIN_AFTER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
