//! What a test has logged.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing_subscriber::EnvFilter;

use super::subscriber;
use crate::locked::Locked;

/// The lines so far.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub fn text(&self) -> String {
        let bytes = self.0.locked().clone();
        String::from_utf8(bytes).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.locked().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Keeps the lines that this thread logs, until the guard is dropped.
pub fn keep_lines(json: bool, filter: &str) -> (Lines, tracing::subscriber::DefaultGuard) {
    let lines = Lines::default();
    let sink = lines.clone();
    let logs = subscriber(json, EnvFilter::new(filter), false, move || sink.clone());
    (lines, tracing::subscriber::set_default(logs))
}
