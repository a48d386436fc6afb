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
mod watches;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::Client;
use kube::runtime::controller::{Action as Requeue, Config as QueueConfig, applier};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::config::Config;
use crate::observe::cache::Key;
use crate::observe::stored::Stored;
use crate::reconcile::{self, Context, Next};
use crate::telemetry;

use self::work::Work;

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

/// Where AppWrappers are asked to be looked at.
#[derive(Clone, Debug)]
struct Queue {
    sender: UnboundedSender<ObjectRef<Stored>>,
    /// Whether anybody looks. A standby would only pile up what is looked at anyway when it leads.
    open: Arc<AtomicBool>,
}

impl Queue {
    fn push(&self, key: &Key) {
        if self.open.load(Ordering::Acquire) {
            // Fails only when the controller has ended, and then nobody waits for it.
            drop(self.sender.unbounded_send(ObjectRef::new(&key.name).within(&key.namespace)));
        }
    }

    fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    fn push_all<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        keys.into_iter().for_each(|key| self.push(key));
    }
}

impl Controller {
    /// Puts a controller together. The client must not retry by itself.
    #[must_use]
    pub fn new(client: Client, clock: Arc<dyn Clock>, config: Config) -> Self {
        let writer: Writer<Stored> = Writer::new(());
        let (sender, requests) = unbounded();
        let queue = Queue { sender, open: Arc::default() };
        let wake = queue.clone();
        let store = writer.as_reader();
        let context = Context::new(client, clock, config, store, move |key| wake.push(key));
        let (ready, _) = watch::channel(false);
        Self { context: Arc::new(context), writer, queue, requests, ready }
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
        let error_policy = |stored: Arc<Stored>,
                            error: &reconcile::Error,
                            context: Arc<Context>| {
            let key = stored.key();
            let pause = reconcile::error_pause(&context, &key);
            let cause = telemetry::chain(error);
            tracing::warn!(namespace = key.namespace, name = key.name, cause, "Will try again.");
            Requeue::requeue(pause)
        };
        let gate = queue.clone();
        let all = context.clone();
        let work = Arc::new(Work::new());
        let looks = work.clone();
        let applied = applier(
            move |stored, context| Box::pin(look(stored, context, looks.clone())),
            error_policy,
            context.clone(),
            store,
            requests.map(Ok::<_, std::convert::Infallible>),
            QueueConfig::default().concurrency(CONCURRENCY),
        )
        // an AppWrapper that is gone, or an error that was logged above
        .for_each(|_| std::future::ready(()));
        let worked = async move {
            leads.await;
            gate.open();
            all.look_at_all();
            applied.await;
        };
        let watched = watches::run(context, writer, queue, ready);
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

async fn look(
    stored: Arc<Stored>,
    context: Arc<Context>,
    work: Arc<Work>,
) -> Result<Requeue, reconcile::Error> {
    let Some(_begun) = work.begin() else { return Ok(Requeue::await_change()) };
    Ok(match reconcile::reconcile(stored, context).await? {
        Next::OnChange => Requeue::await_change(),
        Next::After(pause) => Requeue::requeue(pause),
    })
}

/// Pause before a watch that failed to start is started again.
const WATCH_AGAIN_AFTER: Duration = Duration::from_secs(2);
