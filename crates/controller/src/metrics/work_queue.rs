//! The work queue: how many AppWrappers wait in it, and for how long.

use std::time::Duration;

use prometheus::{Histogram, IntGauge, Registry};

use super::make::{plain_gauge, plain_histogram, register};

/// Of a wait for a reconcile.
const WAIT_SECONDS: [f64; 13] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Its depth, and the waits.
#[derive(Clone, Debug)]
pub(super) struct WorkQueue {
    depth: IntGauge,
    waits: Histogram,
}

impl WorkQueue {
    pub(super) fn register(registry: &Registry) -> Self {
        let depth = plain_gauge("appwrapper_queue_depth", "AppWrappers waiting in the work queue.");
        let waits = plain_histogram(
            "appwrapper_queue_seconds",
            "Seconds that AppWrappers waited in the work queue before a reconcile began.",
            &WAIT_SECONDS,
        );
        Self { depth: register(registry, depth), waits: register(registry, waits) }
    }

    pub(super) fn queued(&self, waiting: usize) {
        self.depth.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub(super) fn waited(&self, waited: Duration) {
        self.waits.observe(waited.as_secs_f64());
    }
}
