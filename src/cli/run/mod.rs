//! `appwrapper run`

mod lead;
mod reload;
mod servers;
mod shadow;
mod worker;

use std::convert::identity;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;

use http::Uri;
use kube::Client;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::lead::Lease;
use self::servers::Servers;
use self::worker::{Heartbeat, Worker};
use super::{ClusterArgs, DONE, Error, cluster};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::controller::Controller;
use crate::metrics::Metrics;
use crate::reconcile::Context;
use crate::serve::Check;
use crate::tuning::Period;
use crate::{preflight, serve, telemetry};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Controller configuration file; every key is optional
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Log as JSON, one object per line
    #[arg(long)]
    log_json: bool,
    /// Only watch: compare each decision with what the active controller does, and write nothing
    ///
    /// Leader election, the webhook and the progress server are off, whatever the configuration says. Each
    /// difference is one line of the log; /metrics counts them, and /shadow has a table.
    #[arg(long)]
    shadow: bool,
    /// How much earlier or later than this controller the active one may act before that is a difference
    #[arg(long, value_name = "DURATION", default_value = "2m", requires = "shadow")]
    shadow_patience: Period,
}

/// Exit code of a process whose controller hangs.
const HANGS: i32 = 4;

pub(super) fn run(args: &Args) -> Result<ExitCode, Error> {
    telemetry::init(args.log_json);
    // One thread for the controller: the work is waiting for the API server, and every hand-over between
    // threads costs more than the step that it hands over. The Lease, the servers and health have theirs.
    let ended = if args.shadow {
        super::block_on(shadow::watch_until_stopped(args))
    } else {
        super::block_on(serve_until_stopped(args))
    };
    match ended {
        Ok(()) => Ok(DONE),
        // a line of the log is a JSON object, also the last one
        Err(error) if args.log_json => {
            telemetry::unfiltered(|| tracing::error!("{error}"));
            Ok(error.code())
        }
        Err(error) => Err(error),
    }
}

/// The configuration of a file; the default without one. Without a valid one, the controller does not start.
pub(super) fn configured(path: Option<&Path>) -> Result<Config, Error> {
    super::configured(path).map_err(|error| match error {
        Error::Negative(why) => Error::Usage(why),
        Error::Usage(_) | Error::Cluster(_) | Error::System(_) => error,
    })
}

async fn serve_until_stopped(args: &Args) -> Result<(), Error> {
    telemetry::log_panics();
    let mut stop = pin!(stop_signal());
    let text = reload::text_of(args.config.as_deref()).await;
    let config = configured(args.config.as_deref())?;
    let connection = cluster::config(&args.cluster).await?;
    let metrics = Metrics::new();
    let client = cluster::counted(connection.clone(), &metrics)?;
    if !greet(&client, &connection.cluster_url, &mut stop).await? {
        return Ok(());
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let elects = config.leader_election.enabled;
    metrics.set_leader(!elects);
    let lease = elects
        .then(|| Lease::start(connection.clone(), &metrics, clock.clone(), &config))
        .transpose()?;
    let own = match &lease {
        Some(lease) => cluster::fenced(connection.clone(), &metrics, lease.leadership.clone())?,
        None => client.clone(),
    };
    let controller = Controller::with_metrics(own, clock.clone(), config.clone(), metrics);
    let context = controller.context.clone();
    let servers = Servers::start(connection, context.clone(), config.clone())?;
    let mut checks = vec![("caches", controller.ready())];
    checks.extend(servers.checks());
    let heartbeat = Heartbeat::new(clock);
    let health = health(&context, &config, checks, heartbeat.clone()).await?;
    let mut background = JoinSet::new();
    background.spawn(follow(client.clone(), context.clone()));
    background.spawn(warn(client, config));
    if let Some(path) = args.config.clone() {
        background.spawn(reload::reload(context, path, text, identity));
    }
    let working = async {
        let Some(lease) = lease else {
            controller.run(stop).await;
            return Ok(());
        };
        lead::lead(controller, lease, stop).await
    };
    let workers = servers.workers.iter().chain([&health]);
    let ended = tokio::select! {
        ended = working => ended,
        ended = worker::any_ended(workers) => Err(ended),
        failed = worker::any_failed(&mut background) => Err(failed),
        never = heartbeat.keep() => never,
    };
    drop(background);
    servers.stop();
    health.stop();
    tracing::info!("Stopped.");
    ended
}

/// Asks the API server for its version, which shows that it can be reached; false if the process is asked to stop before
/// the answer.
async fn greet(
    client: &Client,
    server: &Uri,
    stop: impl Future<Output = ()>,
) -> Result<bool, Error> {
    tracing::info!(%server, "Connecting to the API server.");
    let answer = tokio::select! {
        answer = client.apiserver_version() => answer,
        () = stop => {
            tracing::warn!(%server, "Stopped before the API server answered.");
            return Ok(false);
        }
    };
    let version = answer.map_err(|error| cluster::unanswered(&error))?;
    let own = env!("CARGO_PKG_VERSION");
    tracing::info!(version = own, kubernetes = version.git_version, "Connected to the API server.");
    Ok(true)
}

/// Starts the thread of health and of metrics that are not secure. It also ends the process where the
/// controller's own thread hangs, which that thread cannot do itself.
async fn health(
    context: &Arc<Context>,
    config: &Config,
    checks: Vec<Check>,
    heartbeat: Heartbeat,
) -> Result<Worker, Error> {
    let addresses = (config.health.address, config.metrics.address);
    let context = (!config.metrics.secure).then(|| context.clone());
    let (told, listens) = oneshot::channel();
    let worker = Worker::start("health", crate::cli::runtime()?, async move |stop| {
        let listen = || {
            serve::health(addresses.0, checks)?;
            match context {
                Some(context) => serve::metrics(addresses.1, context),
                None => Ok(()),
            }
        };
        // fails only where the process ends
        drop(told.send(listen()));
        tokio::select! {
            () = heartbeat.stopped() => {
                tracing::error!("The controller is not making progress; exiting so that it is restarted.");
                std::process::exit(HANGS);
            }
            () = stop => Ok(()),
        }
    })?;
    match listens.await {
        Ok(Ok(())) => Ok(worker),
        Ok(Err(error)) => Err(Error::System(telemetry::chain(&error))),
        Err(_) => Err(worker.ended().await),
    }
}

/// Logs settings around the controller that will cause trouble.
async fn warn(client: Client, config: Config) {
    for notice in preflight::warnings(&client, &config).await {
        tracing::warn!("{notice}");
    }
}

/// Follows Kueue's configuration, for decisions and for admission. From this call on, the first decisions wait for it.
fn follow(client: Client, context: Arc<Context>) -> impl Future<Output = ()> {
    context.await_kueue();
    async move {
        let config = context.config();
        preflight::follow(client, &config, |settings| context.set_kueue(settings)).await;
    }
}

/// Ends when the process is asked to stop, from this call on: the first process of a container has no other handler, and
/// a signal that comes while it starts would be lost.
fn stop_signal() -> impl Future<Output = ()> {
    let [terminate, interrupt] =
        [SignalKind::terminate(), SignalKind::interrupt()].map(|kind| received(signal(kind)));
    async {
        tokio::select! {
            () = terminate => {}
            () = interrupt => {}
        }
    }
}

/// The same for a view on a terminal, which also ends when the terminal goes away. Other commands leave this signal to `nohup`.
pub(in crate::cli) fn stop_of_a_view() -> impl Future<Output = ()> {
    let stop = stop_signal();
    let hangup = received(signal(SignalKind::hangup()));
    async {
        tokio::select! {
            () = stop => {}
            () = hangup => {}
        }
    }
}

async fn received(signal: io::Result<Signal>) {
    match signal {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}
