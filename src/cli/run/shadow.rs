//! `appwrapper run --shadow`: beside the active controller.

use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;

use kube::Client;
use tokio::task::JoinSet;

use super::worker::{self, Heartbeat};
use super::{Args, cluster, health, reload, stop_signal};
use crate::cli::Error;
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::controller::Controller;
use crate::metrics::Metrics;
use crate::shadow::Shadow;
use crate::{preflight, telemetry};

/// The settings of a shadow. Nobody asks the API server who reads the metrics, since that is a write: where the
/// configuration wants it asked, only the pod itself can read them.
fn settings(mut config: Config) -> Config {
    if config.metrics.secure {
        config.metrics.secure = false;
        config.metrics.address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    config
}

/// Watches and compares. The one client there is only reads.
pub(super) async fn watch_until_stopped(args: &Args) -> Result<(), Error> {
    telemetry::log_panics();
    let mut stop = pin!(stop_signal());
    let text = reload::text_of(args.config.as_deref()).await;
    let config = settings(super::configured(args.config.as_deref())?);
    let connection = cluster::config(&args.cluster).await?;
    let metrics = Metrics::new();
    metrics.set_leader(false); // the AppWrappers are those of the active controller
    let client = cluster::read_only(connection.clone(), &metrics)?;
    if !super::greet(&client, &connection.cluster_url, &mut stop).await? {
        return Ok(());
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let shadow = Shadow::new(args.shadow_patience, metrics.clone());
    let controller =
        Controller::shadowing(client.clone(), clock.clone(), config.clone(), metrics, shadow);
    let context = controller.context.clone();
    let heartbeat = Heartbeat::new(clock);
    let checks = vec![("caches", controller.ready())];
    let health = health(&context, &config, checks, heartbeat.clone()).await?;
    let mut background = JoinSet::new();
    background.spawn(super::follow(client.clone(), context.clone()));
    background.spawn(warn(client, config));
    if let Some(path) = args.config.clone() {
        background.spawn(reload::reload(context.clone(), path, text, settings));
    }
    let ended = tokio::select! {
        () = controller.run(stop) => Ok(()),
        ended = worker::any_ended([&health]) => Err(ended),
        failed = worker::any_failed(&mut background) => Err(failed),
        never = heartbeat.keep() => never,
    };
    drop(background);
    health.stop();
    context.shadow.iter().for_each(Shadow::conclude);
    tracing::info!("Stopped.");
    ended
}

/// Logs settings of Kueue that will cause trouble. What this controller may do is not asked: that is a write.
async fn warn(client: Client, config: Config) {
    for notice in preflight::of_kueue(&client, &config).await {
        tracing::warn!("{notice}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_that_would_need_a_review_are_read_in_the_pod_alone() {
        for (text, want) in [
            ("{}", "127.0.0.1:8443"),
            ("metrics: {address: '0.0.0.0:8080'}", "127.0.0.1:8080"),
            ("metrics: {secure: false, address: '0.0.0.0:8080'}", "0.0.0.0:8080"),
        ] {
            let settings = settings(Config::parse(text).unwrap()).metrics;
            assert_eq!((settings.address.to_string().as_str(), settings.secure), (want, false));
        }
    }
}
