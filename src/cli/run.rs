//! `appwrapper run`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::{ClusterArgs, DONE, Error, cluster};
use crate::clock::SystemClock;
use crate::config::{Config, LoadError};
use crate::controller::Controller;
use crate::metrics::Metrics;
use crate::reconcile::Context;
use crate::{serve, telemetry};

/// How often the configuration file is looked at.
const RELOAD_EVERY: Duration = Duration::from_secs(1);

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
    let metrics = Metrics::new();
    let client = cluster::connect_counted(args.cluster.kubeconfig.as_deref(), &metrics).await?;
    let version = client.apiserver_version().await.map_err(|error| {
        Error::Cluster(format!("the cluster cannot be reached: {}", telemetry::chain(&error)))
    })?;
    tracing::info!(kubernetes = version.git_version, "Connected.");
    let controller =
        Controller::with_metrics(client, Arc::new(SystemClock), config.clone(), metrics);
    let context = controller.context.clone();
    let listen = |error: serve::Error| Error::Usage(telemetry::chain(&error));
    serve::health(config.health.address, vec![("caches", controller.ready())])
        .await
        .map_err(listen)?;
    if config.metrics.secure {
        tracing::warn!("Metrics over HTTPS are not part of this version: none are served.");
    } else {
        serve::metrics(config.metrics.address, context.metrics.clone()).await.map_err(listen)?;
    }
    warn_of_what_is_not_there(&config);
    let reload = args.config.clone().map(|path| tokio::spawn(reload(context, path)));
    controller.run(stop_signal()).await;
    if let Some(task) = reload {
        task.abort();
    }
    tracing::info!("Stopped.");
    Ok(())
}

fn warn_of_what_is_not_there(config: &Config) {
    if config.webhook.enabled {
        tracing::warn!("The webhook is not part of this version: nothing is checked at admission.");
    }
    if config.leader_election.enabled {
        tracing::warn!("Leader election is not part of this version: run a single replica.");
    }
}

/// Takes over a changed configuration file; one with errors is reported, and the old one stays.
async fn reload(context: Arc<Context>, path: PathBuf) {
    let mut known = text_of(&path).await;
    let mut seen = known.clone();
    let mut ticks = tokio::time::interval(RELOAD_EVERY);
    loop {
        ticks.tick().await;
        let text = text_of(&path).await;
        // one that is being written in place is taken when two looks show the same
        let is_whole = text == seen;
        seen = text;
        if !is_whole || seen == known {
            continue;
        }
        known.clone_from(&seen);
        let loaded = match &known {
            Some(text) => Config::parse(text)
                .map_err(|source| LoadError::Invalid { path: path.clone(), source }),
            None => Config::load(&path), // says why it cannot be read
        };
        match loaded {
            Ok(config) => {
                *context.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                context.look_at_all();
                tracing::info!(file = %path.display(), "The configuration was loaded again.");
            }
            Err(error) => {
                let cause = telemetry::chain(&error);
                tracing::error!(cause, "The configuration is not usable; the old one stays.");
            }
        }
    }
}

async fn text_of(path: &Path) -> Option<String> {
    tokio::fs::read_to_string(path).await.ok()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::sim::{ApiServer, Store};

    /// Replaces the file at once, as the kubelet does, and tells the limit in force when it must have been
    /// looked at.
    async fn written(context: &Context, path: &Path, text: &str) -> i32 {
        let new = path.with_extension("new");
        tokio::fs::write(&new, text).await.unwrap();
        tokio::fs::rename(&new, path).await.unwrap();
        tokio::time::sleep(RELOAD_EVERY * 3).await;
        let config = context.config.read().unwrap();
        config.retry_policy.global_max_retries
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_taken_over_and_one_with_errors_is_not() {
        let client = ApiServer::new(Store::new(SystemClock.now())).client();
        let controller = Controller::new(client, Arc::new(SystemClock), Config::default());
        let context = controller.context.clone();
        let name = format!("appwrapper-reload-{}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        tokio::fs::write(&path, "{}").await.unwrap();
        let task = tokio::spawn(reload(context.clone(), path.clone()));
        tokio::time::sleep(RELOAD_EVERY * 2).await;
        let of = async |text: &str| written(&context, &path, text).await;
        assert_eq!(of("retryPolicy: {globalMaxRetries: 7}").await, 7);
        assert_eq!(of("retryPolicy: {globalMaxRetries: -1}").await, 7, "the old one stays");
        assert_eq!(of("retryPolicy: {globalMaxRetries: 0}").await, 0);
        task.abort();
        tokio::fs::remove_file(&path).await.unwrap();
    }
}
