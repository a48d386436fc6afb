//! What answers the API server, on a thread of its own: a large AppWrapper that is being judged holds up
//! no decision, and a decision no answer.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use kube::Client;
use tokio::sync::oneshot;

use super::{Error, cluster};
use crate::certificate::{self, Keeper, Place};
use crate::clock::Clock;
use crate::config::Config;
use crate::reconcile::Context;
use crate::telemetry;
use crate::tls::{self, Current, Limits};
use crate::webhook::access::{Reviews, own_account};
use crate::webhook::server::{Admission, router};

/// Until the controller's own account is known, it is asked for so often.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Servers at work.
pub(super) struct Servers {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// What the thread is given.
struct Parts {
    connection: kube::Config,
    context: Arc<Context>,
    config: Config,
    current: Arc<Current>,
    listener: TcpListener,
}

impl Servers {
    /// Starts the webhook.
    pub(super) fn start(
        connection: kube::Config,
        context: Arc<Context>,
        config: Config,
    ) -> Result<Self, Error> {
        let listener = listen("the webhook", config.webhook.address)?;
        let current = Arc::new(Current::new());
        let parts = Parts { connection, context, config, current, listener };
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Usage(format!("cannot start: {error}")))?;
        let thread = std::thread::Builder::new()
            .name("servers".to_owned())
            .spawn(move || {
                if let Err(error) = runtime.block_on(parts.serve(stopped)) {
                    tracing::error!(%error, "The servers ended.");
                }
            })
            .map_err(|error| Error::Usage(format!("cannot start a thread: {error}")))?;
        Ok(Self { stop, thread })
    }

    /// Finishes the requests that have begun.
    pub(super) fn stop(self) {
        // fails only where the thread has ended by itself
        if self.stop.send(()).is_err() || self.thread.join().is_err() {
            tracing::error!("The servers had ended before.");
        }
    }
}

impl Parts {
    async fn serve(self, stopped: oneshot::Receiver<()>) -> Result<(), Error> {
        let Self { connection, context, config, current, listener } = self;
        let client = cluster::client(connection)?;
        let clock = context.clock.clone();
        match config.webhook.cert_dir.clone() {
            Some(directory) => {
                tokio::spawn(certificate::files(directory, current.clone()));
            }
            None => {
                let place = Place::of(client.default_namespace());
                let keeper = Keeper::new(&client, clock.clone(), current.clone(), place);
                tokio::spawn(keeper.run());
            }
        }
        let router = router(Arc::new(admission(&client, &context, clock)));
        let listener = tokio::net::TcpListener::from_std(listener)
            .map_err(|error| Error::Usage(format!("cannot listen for the webhook: {error}")))?;
        let stopped = async {
            // an error means that the process ends without having said so
            drop(stopped.await);
        };
        tls::serve(listener, router, current, Limits::default(), stopped).await;
        Ok(())
    }
}

fn admission(client: &Client, context: &Arc<Context>, clock: Arc<dyn Clock>) -> Admission {
    let own_account = Arc::new(OnceLock::new());
    tokio::spawn(learn(client.clone(), own_account.clone()));
    let settings = context.clone();
    Admission {
        config: Box::new(move || settings.config()),
        own_account,
        authorize: Arc::new(Reviews::new(client.clone(), clock.clone())),
        metrics: context.metrics.clone(),
        clock,
    }
}

async fn learn(client: Client, account: Arc<OnceLock<String>>) {
    loop {
        match own_account(&client).await {
            Ok(name) => {
                // nobody else sets it
                drop(account.set(name));
                return;
            }
            Err(error) => {
                tracing::warn!(cause = telemetry::chain(&error), "Will ask again.");
                tokio::time::sleep(ASK_EVERY).await;
            }
        }
    }
}

fn listen(what: &'static str, address: SocketAddr) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener
        .map_err(|error| Error::Usage(format!("cannot listen on {address} for {what}: {error}")))
}
