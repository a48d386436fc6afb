//! Connecting to a cluster.

use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::{ClusterArgs, Error};
use crate::client;
use crate::election::{LeaderWrites, Leadership};
use crate::metrics::Metrics;
use crate::observe::live;
use crate::telemetry;

/// The longest silence on a connection that is waited on. A watch sends something at least every 75 seconds,
/// if only a bookmark: one that does not is broken. Other calls of the controller end earlier
/// ([`client::Limits`]).
const ANSWER_WITHIN: Duration = Duration::from_secs(100);

/// A client that does not retry by itself: what is tried again, and when, is decided by the controller.
///
/// # Errors
/// Where there is no usable kubeconfig.
pub async fn connect(args: &ClusterArgs) -> Result<Client, Error> {
    Client::try_from(config(args).await?).map_err(|error| no_client(&error))
}

/// The same of settings that were read before, with every call counted and limited in time.
///
/// # Errors
/// Where no client can be made of them.
pub fn counted(config: Config, metrics: &Metrics) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config).map_err(|error| no_client(&error))?;
    Ok(builder.with_layer(&metrics.calls()).with_layer(&client::Limits).build())
}

/// The same, which only reads: other requests do not leave.
///
/// # Errors
/// Where no client can be made of them.
pub fn read_only(config: Config, metrics: &Metrics) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config).map_err(|error| no_client(&error))?;
    let builder = builder.with_layer(&metrics.calls()).with_layer(&client::Limits);
    Ok(builder.with_layer(&client::read_only()).build())
}

/// The same, whose writes leave only while this replica leads.
///
/// # Errors
/// Where no client can be made of them.
pub fn fenced(config: Config, metrics: &Metrics, leadership: Leadership) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config).map_err(|error| no_client(&error))?;
    let builder = builder.with_layer(&metrics.calls()).with_layer(&client::Limits);
    Ok(builder.with_layer(&LeaderWrites::new(leadership)).build())
}

/// What a client is made of.
///
/// # Errors
/// Where there is no usable kubeconfig.
pub async fn config(args: &ClusterArgs) -> Result<Config, Error> {
    let options =
        KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let read = match &args.kubeconfig {
        Some(path) => match Kubeconfig::read_from(path) {
            Ok(file) => Config::from_custom_kubeconfig(file, &options).await,
            Err(error) => Err(error),
        },
        None => Config::from_kubeconfig(&options).await,
    };
    let is_given = args.kubeconfig.is_some();
    let is_set = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
    let origin = if is_given {
        Origin::Argument
    } else if is_set {
        Origin::Environment
    } else {
        Origin::Default
    };
    let mut config = match read {
        Ok(config) => config,
        // what the command line names is wrong
        Err(error) if is_given || args.context.is_some() => {
            return Err(Error::Usage(no_cluster(&error, origin)));
        }
        Err(error) => Config::incluster().map_err(|in_pod| match in_pod {
            // it is no pod
            InClusterError::ReadEnvironmentVariable(_) => {
                Error::Cluster(no_cluster(&error, origin))
            }
            other => Error::Cluster(format!("no cluster: {other}")),
        })?,
    };
    if !is_given {
        config.apply_debug_overrides();
    }
    prepare(&mut config);
    Ok(config)
}

/// Who says which kubeconfig is read.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Argument,
    Environment,
    Default,
}

/// Why there is no cluster, in one sentence; the causes are in the text of the error.
fn no_cluster(error: &KubeconfigError, origin: Origin) -> String {
    let (from, advice) = match origin {
        Origin::Argument => (" (from --kubeconfig)", ""),
        Origin::Environment => (" (from $KUBECONFIG)", "; set --kubeconfig"),
        Origin::Default => ("", "; set --kubeconfig"),
    };
    match error {
        KubeconfigError::ReadConfig(source, path) => {
            format!("no cluster: cannot read {}{from}: {source}{advice}", path.display())
        }
        KubeconfigError::FindPath => format!("no cluster: {error}{advice}"),
        other => format!("no cluster: kubeconfig{from}: {other}"),
    }
}

fn no_client(error: &kube::Error) -> Error {
    Error::Cluster(format!("cannot create a client: {}", telemetry::chain(error)))
}

/// Sets what the controller relies on.
pub fn prepare(config: &mut Config) {
    config.default_retry = false;
    config.read_timeout = Some(ANSWER_WITHIN);
    let agent = concat!("appwrapper/", env!("CARGO_PKG_VERSION"));
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
}

/// The words of the API server, where it answered; else what happened.
pub(super) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => telemetry::chain(other),
    }
}

/// The same of a read.
pub(super) fn unread(error: &live::Error) -> String {
    match error {
        live::Error::Api { source, .. } => said(source),
        live::Error::NoKind(_) | live::Error::NotNamespaced(_) => error.to_string(),
    }
}

/// An error of the cluster.
pub(super) fn unanswered(error: &kube::Error) -> Error {
    Error::Cluster(match error {
        kube::Error::Api(_) => format!("the API server returned an error: {}", said(error)),
        _ => format!("cannot reach the API server: {}", said(error)),
    })
}

/// The same of a read.
pub(super) fn unlisted(error: &live::Error) -> Error {
    match error {
        live::Error::Api { source, .. } => unanswered(source),
        live::Error::NoKind(_) | live::Error::NotNamespaced(_) => Error::Cluster(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_kubeconfig_the_cause_is_named_once() {
        let missing = || {
            let error = std::io::Error::new(std::io::ErrorKind::NotFound, "not there");
            KubeconfigError::ReadConfig(error, "/nope".into())
        };
        let unknown = || KubeconfigError::LoadContext("c".to_owned());
        for (error, origin, want) in [
            (missing(), Origin::Argument, "cannot read /nope (from --kubeconfig): not there"),
            (
                missing(),
                Origin::Environment,
                "cannot read /nope (from $KUBECONFIG): not there; set --kubeconfig",
            ),
            (missing(), Origin::Default, "cannot read /nope: not there; set --kubeconfig"),
            (
                unknown(),
                Origin::Argument,
                "kubeconfig (from --kubeconfig): failed to load current context: c",
            ),
        ] {
            assert_eq!(no_cluster(&error, origin), format!("no cluster: {want}"));
        }
    }
}
