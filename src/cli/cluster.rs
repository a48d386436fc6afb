//! Connecting to a cluster.

use std::path::Path;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::Error;
use crate::metrics::Metrics;
use crate::telemetry;

/// No single answer of the API server may take longer; watches say when they end themselves.
const ANSWER_WITHIN: Duration = Duration::from_mins(5);

/// A client that does not retry by itself: what is tried again, and when, is decided by the controller.
///
/// # Errors
/// Where there is no usable kubeconfig.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, Error> {
    let cannot = |error: kube::Error| cannot_make(&error);
    Client::try_from(settings(kubeconfig).await?).map_err(cannot)
}

/// The same, with every call counted.
///
/// # Errors
/// Where there is no usable kubeconfig.
pub async fn connect_counted(
    kubeconfig: Option<&Path>,
    metrics: &Metrics,
) -> Result<Client, Error> {
    let cannot = |error: kube::Error| cannot_make(&error);
    let builder = ClientBuilder::try_from(settings(kubeconfig).await?).map_err(cannot)?;
    Ok(builder.with_layer(&metrics.calls()).build())
}

fn cannot_make(error: &kube::Error) -> Error {
    Error::Cluster(format!("cannot make a client: {}", telemetry::chain(error)))
}

async fn settings(kubeconfig: Option<&Path>) -> Result<Config, Error> {
    let mut config = match kubeconfig {
        Some(path) => {
            let cannot = |error| {
                Error::Usage(format!("kubeconfig {}: {}", path.display(), telemetry::chain(&error)))
            };
            let file = Kubeconfig::read_from(path).map_err(cannot)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(cannot)?
        }
        None => Config::infer().await.map_err(|error| {
            Error::Cluster(format!(
                "no cluster to connect to: {}; name a kubeconfig with --kubeconfig",
                telemetry::chain(&error)
            ))
        })?,
    };
    prepare(&mut config);
    Ok(config)
}

/// Sets what the controller relies on.
pub fn prepare(config: &mut Config) {
    config.default_retry = false;
    config.read_timeout = Some(ANSWER_WITHIN);
    let agent = concat!("appwrapper/", env!("CARGO_PKG_VERSION"));
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
}
