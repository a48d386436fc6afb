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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Usage(format!("cannot start: {error}")))?;
    runtime.block_on(serve_until_stopped(args))?;
    Ok(DONE)
}

async fn serve_until_stopped(args: &Args) -> Result<(), Error> {
    let config = match &args.config {
        Some(path) => Config::load(path).map_err(|error| Error::Usage(telemetry::chain(&error)))?,
        None => Config::default(),
    };
    let connection = cluster::config(args.cluster.kubeconfig.as_deref()).await?;
    let client = cluster::client(connection.clone())?;
    let version = client.apiserver_version().await.map_err(|error| {
        Error::Cluster(format!("the cluster cannot be reached: {}", telemetry::chain(&error)))
    })?;
    tracing::info!(kubernetes = version.git_version, "Connected.");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let election = config
        .leader_election
        .enabled
        .then(|| Election::new(client.clone(), clock.clone(), lead::candidate(&client, &config)));
    let own = match &election {
        Some(election) => cluster::fenced(connection.clone(), election.leadership())?,
        None => client.clone(),
    };
    let controller = Controller::new(own, clock, config.clone());
    serve(&controller, &config).await?;
    let servers = config
        .webhook
        .enabled
        .then(|| Servers::start(connection, controller.context.clone(), config.clone()));
    let servers = servers.transpose()?;
    let looks = tokio::spawn(warn(client, config));
    let file = args.config.clone();
    let reload = file.map(|path| tokio::spawn(reload::reload(controller.context.clone(), path)));
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

async fn serve(controller: &Controller, config: &Config) -> Result<(), Error> {
    let listen = |error: serve::Error| Error::Usage(telemetry::chain(&error));
    serve::health(config.health.address, controller.ready()).await.map_err(listen)?;
    if config.metrics.secure {
        tracing::warn!("Metrics over HTTPS are not part of this version: none are served.");
    } else {
        let metrics = controller.context.metrics.clone();
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
