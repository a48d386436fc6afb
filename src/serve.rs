//! The small servers beside the controller: health, and metrics in plain text.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::metrics::Metrics;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {what}")]
pub struct Error {
    /// What was to be served.
    pub what: &'static str,
    /// Where.
    pub address: SocketAddr,
    /// What happened.
    #[source]
    pub source: std::io::Error,
}

/// Serves `/healthz` (the process lives) and `/readyz` (the first lists are complete).
///
/// # Errors
/// Where the address cannot be listened on.
pub async fn health(address: SocketAddr, ready: watch::Receiver<bool>) -> Result<(), Error> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readiness))
        .with_state(ready);
    serve("health", address, router).await
}

/// Serves `/metrics`.
///
/// # Errors
/// Where the address cannot be listened on.
pub async fn metrics(address: SocketAddr, metrics: Metrics) -> Result<(), Error> {
    let page = |State(metrics): State<Metrics>| async move { metrics.page() };
    serve("metrics", address, Router::new().route("/metrics", get(page)).with_state(metrics)).await
}

async fn readiness(State(ready): State<watch::Receiver<bool>>) -> (StatusCode, &'static str) {
    if *ready.borrow() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the first lists are not complete")
    }
}

async fn serve(what: &'static str, address: SocketAddr, router: Router) -> Result<(), Error> {
    let failed = |source| Error { what, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(what, %error, "A server ended.");
        }
    });
    Ok(())
}
