//! `appwrapper web`: a page that shows AppWrappers, for one reader on this machine; it changes nothing.
//!
//! ```text
//! browser ─▶ listener: bounded connections ─▶ guard: token, Host, GET ─▶ answers ─▶ live or played
//! ```
//!
//! [`live`] reads a cluster with the permissions of the user, [`played`] an export or a simulated cluster.

mod answers;
mod guard;
mod live;
mod played;
mod queues;
mod rows;
mod stream;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;

use super::aw::object_name;
use super::place::Place;
use super::{ClusterArgs, DONE, Error, block_on, configured, explain, term};
use crate::listener::{Limits, Plain, serve};
use answers::{Site, answer};
use guard::Guard;
use live::Live;

pub(super) use played::Recording;
#[cfg(feature = "demo")]
pub(super) use played::{ObjectChange, Told};
#[cfg(feature = "demo")]
pub(super) use queues::{LocalQueue, Queues, Share};

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Port on 127.0.0.1; by default, any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Show manifests or an export instead of a cluster: file, directory with all directories below,
    /// or - for standard input
    #[arg(short, long = "filename", value_name = "FILE|DIR|-", conflicts_with_all = ["namespace", "all_namespaces"])]
    files: Vec<PathBuf>,
    /// Namespace; defaults to the namespace of the kubeconfig
    #[arg(short, long, value_parser = object_name)]
    namespace: Option<String>,
    /// Show AppWrappers in all namespaces; overrides --namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// What the page shows.
enum Source {
    Live(Box<Live>),
    Played(Box<Recording>),
}

/// Serves the page until it is interrupted.
pub(super) fn run(args: &Args) -> Result<ExitCode, Error> {
    if !args.files.is_empty() {
        let documents = explain::read(&args.files)?;
        let recording = Recording::of_bundle(documents, configured(None)?).map_err(Error::Usage)?;
        return play(args.port, recording);
    }
    block_on(async {
        let place = Place::of(&args.cluster, args.namespace.as_deref()).await?;
        let live = Live::new(place, args.all_namespaces);
        let watch = tokio::spawn(live.watch());
        let served = show(args.port, Source::Live(Box::new(live))).await;
        watch.abort();
        served
    })
}

/// Serves a recording until it is interrupted.
pub(super) fn play(port: u16, recording: Recording) -> Result<ExitCode, Error> {
    block_on(show(port, Source::Played(Box::new(recording))))
}

async fn show(port: u16, source: Source) -> Result<ExitCode, Error> {
    let cannot = |error: std::io::Error| {
        Error::System(format!("--port {port}: cannot listen on 127.0.0.1: {error}"))
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(cannot)?;
    let guard = Guard::new(listener.local_addr().map_err(cannot)?.port())?;
    term::print_own(&format!("{}\n", guard.url()));
    term::remark(
        "The page opens only with this URL, and only on this machine. Press Ctrl-C to stop.",
    );
    let site = Arc::new(Site { guard, source });
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    serve(listener, router(site), Plain, limits(), interrupted).await;
    Ok(DONE)
}

fn router(site: Arc<Site>) -> Router {
    Router::new().fallback(move |request: axum::extract::Request| {
        let site = site.clone();
        async move { answer(&site, request).await }
    })
}

/// A reader follows changes for as long as the page is open.
fn limits() -> Limits {
    Limits { answer: Duration::MAX, drain: Duration::from_millis(100), ..Limits::small() }
}

#[cfg(test)]
mod tests;
