//! Logs, and how errors are written in them.

use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// What is logged unless `RUST_LOG` says otherwise: our own changes, and warnings of the rest.
pub const DEFAULT_FILTER: &str = "warn,appwrapper=info";

/// Starts logging to standard error, filtered by `RUST_LOG`.
pub fn init(json: bool) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let colours = std::io::stderr().is_terminal();
    let logs = subscriber(json, filter, colours, std::io::stderr);
    // Fails only where a test has started logging already.
    drop(tracing::subscriber::set_global_default(logs));
}

/// Writes a line for each event: text, or one JSON object with the event's own fields at the top and
/// those of the reconcile that it happened in under `span`.
pub fn subscriber<W>(
    json: bool,
    filter: EnvFilter,
    colours: bool,
    writer: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(writer);
    if json {
        Box::new(logs.json().flatten_event(true).with_span_list(false).finish())
    } else {
        Box::new(logs.finish())
    }
}

/// Logs panics as all else is logged: where, and what for where that is a fixed text. One that was put
/// together may quote an object.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        let text = panic.payload().downcast_ref::<&str>();
        tracing::error!(location, text, "Internal error.");
    }));
}

/// An error and its causes, on one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
