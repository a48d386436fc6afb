//! The small servers beside the controller: health, and metrics.
//!
//! ```text
//! /healthz   the process answers
//! /readyz    every check holds, or which do not
//! /shadow    of a shadow: what was compared
//! /metrics   plain, or with authentication and authorization by the API server (access)
//! ```

mod access;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::listener::{self, Limits, Plain};
use crate::metrics::Metrics;
use crate::reconcile::Context;
use crate::shadow::Shadow;

pub use access::Access;

/// Something that must hold before this process is ready: its name, and whether it does.
pub type Check = (&'static str, watch::Receiver<bool>);

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

/// Serves [`health_router`].
///
/// # Errors
/// Where the address cannot be listened on.
///
/// # Panics
/// Outside of a Tokio runtime.
pub fn health(address: SocketAddr, checks: Vec<Check>) -> Result<(), Error> {
    serve("health", address, health_router(checks))
}

/// Serves [`metrics_router`] in plain text, without authentication, and of a shadow [`shadow_router`].
///
/// # Errors
/// Where the address cannot be listened on.
///
/// # Panics
/// Outside of a Tokio runtime.
pub fn metrics(address: SocketAddr, context: Arc<Context>) -> Result<(), Error> {
    let router = metrics_router(context.metrics.clone(), None);
    serve("metrics", address, router.merge(shadow_router(context)))
}

/// `/shadow`: a table of how often the active controller decided the same, or otherwise. Of another controller than
/// a shadow, nothing.
pub fn shadow_router(context: Arc<Context>) -> Router {
    if context.shadow.is_none() {
        return Router::new();
    }
    let table = async |State(context): State<Arc<Context>>| {
        context.shadow.as_ref().map(Shadow::table).ok_or(StatusCode::NOT_FOUND)
    };
    Router::new().route("/shadow", get(table)).with_state(context)
}

/// `/healthz` (the process answers) and `/readyz` (every check holds; else 503, and which do not).
pub fn health_router(checks: Vec<Check>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness))
        .with_state(checks)
}

/// `/metrics`: with access, only for a valid bearer token whose user may read it.
pub fn metrics_router(metrics: Metrics, access: Option<Access>) -> Router {
    // what Prometheus calls its text format
    let format = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    let page = async move |State(metrics): State<Metrics>| (format, metrics.page());
    let router = Router::new().route("/metrics", get(page)).with_state(metrics);
    match access {
        Some(access) => access.guard(router),
        None => router,
    }
}

async fn readiness(State(checks): State<Vec<Check>>) -> impl IntoResponse {
    let held: Vec<(&str, bool)> =
        checks.iter().map(|(name, check)| (*name, *check.borrow())).collect();
    let all = held.iter().all(|(_, holds)| *holds);
    let line = |(name, holds): &(&str, bool)| {
        format!("{} {name}\n", if *holds { "ready" } else { "NOT READY" })
    };
    let text: String = held.iter().map(line).collect();
    (if all { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

fn serve(what: &'static str, address: SocketAddr, router: Router) -> Result<(), Error> {
    let failed = |source| Error { what, address, source };
    let listener = listener::bind(address).and_then(TcpListener::from_std).map_err(failed)?;
    let limits = Limits::small();
    tokio::spawn(listener::serve(listener, router, Plain, limits, std::future::pending()));
    Ok(())
}
