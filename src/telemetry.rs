//! Logs.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging to standard error: `RUST_LOG`, or INFO of our own and warnings of the rest.
pub fn init(json: bool) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("warn,appwrapper=info"));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // Fails only where a test has started logging already.
    let started = if json { logs.json().try_init() } else { logs.try_init() };
    drop(started);
}
