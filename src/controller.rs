//! Watches, queue and shutdown: everything that moves. What is decided is not decided here.
//!
//! ```text
//! AppWrappers ─┬─▶ store ────────────┐
//!              └─▶ kinds in use ─┐   │
//! pods, nodes ──▶ cache ─────────┼─▶ queue ─▶ reconcile
//! one watch a kind ─▶ cache ─────┘   of retry policies and queues, too, where they are named
//! ```

mod guides;
mod kinds;
mod queue;
mod watches;
mod work;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use kube::Client;
use kube::runtime::controller::{
    Action as Requeue, Config as QueueConfig, Error as NotWorked, applier,
};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::observe::cache::Key;
use crate::observe::stored::Stored;
use crate::reconcile::{self, Context, Next};
use crate::telemetry;

use queue::Queue;
use work::Work;

/// How many AppWrappers are looked at side by side.
const CONCURRENCY: u16 = 32;

/// A controller that has been put together and is not running yet.
pub struct Controller {
    /// What it shares with servers: settings, metrics.
    pub context: Arc<Context>,
    writer: Writer<Stored>,
    queue: Queue,
    requests: UnboundedReceiver<ObjectRef<Stored>>,
    ready: watch::Sender<bool>,
}

impl Controller {
    /// Puts a controller together. The client must not retry by itself.
    #[must_use]
    pub fn new(client: Client, clock: Arc<dyn Clock>, config: Config) -> Self {
        Self::with_metrics(client, clock, config, Metrics::new())
    }

    /// Puts a controller together that counts with these metrics: those that count the client's calls.
    #[must_use]
    pub fn with_metrics(
        client: Client,
        clock: Arc<dyn Clock>,
        config: Config,
        metrics: Metrics,
    ) -> Self {
        let writer: Writer<Stored> = Writer::new(());
        let (queue, requests) = Queue::new(metrics.clone());
        let wake = queue.clone();
        let store = writer.as_reader();
        let mut context = Context::new(client, clock, config, store, move |key| wake.push(key));
        context.metrics = metrics;
        let context = Arc::new(context);
        let counted = Arc::downgrade(&context); // the context has the metrics, not they the context
        context.metrics.count_with(move || counted.upgrade().map(|it| reconcile::census(&it)));
        let (ready, _) = watch::channel(false);
        Self { context, writer, queue, requests, ready }
    }

    /// Becomes true once the AppWrappers, their pods and the nodes have been listed.
    #[must_use]
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Runs until `shutdown` ends; what is being written then is finished first.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        self.run_when(std::future::ready(()), shutdown).await;
    }

    /// Keeps the caches warm, and works from the moment on when `leads` ends: all AppWrappers are looked
    /// at then.
    pub async fn run_when(
        self,
        leads: impl Future<Output = ()>,
        shutdown: impl Future<Output = ()>,
    ) {
        let Self { context, writer, queue, requests, ready } = self;
        let store = writer.as_reader();
        let work = Arc::new(Work::new());
        let (taken, looks) = (queue.clone(), work.clone());
        let applied = applier(
            move |stored: Arc<Stored>, context| {
                taken.taken(&stored.key());
                Box::pin(look(stored, context, looks.clone()))
            },
            |stored: Arc<Stored>, error: &_, context: Arc<Context>| {
                failed(&stored, error, &context)
            },
            context.clone(),
            store,
            requests.map(Ok::<_, std::convert::Infallible>),
            QueueConfig::default().concurrency(CONCURRENCY),
        )
        .for_each(|done| {
            // the others were taken when they were looked at, and errors logged above
            if let Err(NotWorked::ObjectNotFound(gone)) = done {
                let namespace = gone.namespace.clone().unwrap_or_default();
                queue.taken(&Key { namespace, name: gone.name.clone() });
            }
            std::future::ready(())
        });
        let all = context.clone();
        let worked = async {
            leads.await;
            queue.open();
            all.look_at_all();
            applied.await;
        };
        let watched = watches::run(context, writer, queue.clone(), ready);
        let ended = async {
            shutdown.await;
            work.finish().await;
        };
        tokio::select! {
            () = worked => {}
            () = watched => {}
            () = ended => {}
        }
    }
}

/// A look that failed is made again after a pause.
fn failed(stored: &Stored, error: &reconcile::Error, context: &Context) -> Requeue {
    let key = stored.key();
    let pause = reconcile::error_pause(context, &key);
    let cause = telemetry::chain(error);
    tracing::warn!(namespace = key.namespace, appwrapper = key.name, cause, "Will try again.");
    Requeue::requeue(pause)
}

async fn look(
    stored: Arc<Stored>,
    context: Arc<Context>,
    work: Arc<Work>,
) -> Result<Requeue, reconcile::Error> {
    let Some(_begun) = work.begin() else { return Ok(Requeue::await_change()) };
    let began = context.clock.elapsed();
    let looked = reconcile::reconcile(stored, context.clone()).await;
    let took = context.clock.elapsed().saturating_sub(began);
    context.metrics.reconciled(took, looked.is_ok());
    Ok(match looked? {
        Next::OnChange => Requeue::await_change(),
        Next::After(pause) => Requeue::requeue(pause),
    })
}

/// Pause before a watch that failed to start is started again.
const WATCH_AGAIN_AFTER: Duration = Duration::from_secs(2);
