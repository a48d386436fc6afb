//! `appwrapper run`

mod lead;
mod reload;
mod servers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use kube::Client;
use tokio::signal::unix::{SignalKind, signal};

use self::servers::Servers;
use super::{ClusterArgs, DONE, Error, cluster};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::controller::Controller;
use crate::election::Election;
use crate::metrics::Metrics;
use crate::reconcile::Context;
use crate::serve::Check;
use crate::{inspection, serve, telemetry};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Configuration file; every key is optional
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Log as JSON, one object a line
    #[arg(long)]
    log_json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Error> {
    telemetry::init(args.log_json);
    // One thread: the work is waiting for the API server, and every hand-over between threads costs
    // more than the step that it hands over.
    super::block_on(serve_until_stopped(args))?;
    Ok(DONE)
}

async fn serve_until_stopped(args: &Args) -> Result<(), Error> {
    let config = super::configured(args.config.as_deref())?;
    let connection = cluster::config(args.cluster.kubeconfig.as_deref()).await?;
    let metrics = Metrics::new();
    let client = cluster::counted(connection.clone(), &metrics)?;
    let version = client.apiserver_version().await.map_err(|error| {
        Error::Cluster(format!("the cluster cannot be reached: {}", telemetry::chain(&error)))
    })?;
    tracing::info!(kubernetes = version.git_version, "Connected.");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let election = config
        .leader_election
        .enabled
        .then(|| Election::new(client.clone(), clock.clone(), lead::candidate(&client, &config)));
    metrics.set_leader(election.is_none());
    let own = match &election {
        Some(election) => cluster::fenced(connection.clone(), &metrics, election.leadership())?,
        None => client.clone(),
    };
    let controller = Controller::with_metrics(own, clock, config.clone(), metrics);
    let context = controller.context.clone();
    let servers = Servers::start(connection, context.clone(), config.clone())?;
    let mut checks = vec![("caches", controller.ready())];
    checks.extend(servers.iter().map(|servers| ("certificate", servers.is_valid.clone())));
    serve(&context, &config, checks).await?;
    let looks = tokio::spawn(warn(client, config));
    let reload = args.config.clone().map(|path| tokio::spawn(reload::reload(context, path)));
    let ended = if let Some(election) = election {
        lead::lead(controller, election).await
    } else {
        controller.run(stop_signal()).await;
        Ok(())
    };
    looks.abort();
    if let Some(task) = reload {
        task.abort();
    }
    if let Some(servers) = servers {
        servers.stop();
    }
    tracing::info!("Stopped.");
    ended
}

async fn serve(context: &Context, config: &Config, checks: Vec<Check>) -> Result<(), Error> {
    let listen = |error: serve::Error| Error::Usage(telemetry::chain(&error));
    serve::health(config.health.address, checks).await.map_err(listen)?;
    if !config.metrics.secure {
        let metrics = context.metrics.clone();
        serve::metrics(config.metrics.address, metrics).await.map_err(listen)?;
    }
    Ok(())
}

/// Says what is around the controller that will hurt.
async fn warn(client: Client, config: Config) {
    for notice in inspection::warnings(&client, &config).await {
        tracing::warn!("{notice}");
    }
}

async fn stop_signal() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
