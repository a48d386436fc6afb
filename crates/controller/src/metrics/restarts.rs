//! Restarts, counted and not, and failed pods that `podFailurePolicy` ignores.

use prometheus::{IntCounter, IntCounterVec, Registry};

use super::Change;
use super::make::{counter, plain_counter, register};

/// The counters.
#[derive(Clone, Debug)]
pub(super) struct Restarts {
    by_counted: IntCounterVec,
    ignored_failures: IntCounter,
    refills: IntCounter,
}

/// Values of the label `counted`.
const COUNTED: [&str; 2] = ["true", "false"];

impl Restarts {
    pub(super) fn register(registry: &Registry) -> Self {
        let restarts = counter(
            "appwrapper_restarts_total",
            "Restarts of AppWrappers and recreated components, by whether a retry limit counts them.",
            &["counted"],
        );
        // 0 before the first, so that its increase can be told
        for counted in COUNTED {
            restarts.with_label_values(&[counted]).inc_by(0);
        }
        let ignored_failures = plain_counter(
            "appwrapper_ignored_failures_total",
            "Failed pods that podFailurePolicy ignored.",
        );
        let refills = plain_counter(
            "appwrapper_budget_refills_total",
            "How often counted restarts of an AppWrapper were given back.",
        );
        Self {
            refills: register(registry, refills),
            by_counted: register(registry, restarts),
            ignored_failures: register(registry, ignored_failures),
        }
    }

    pub(super) fn count(&self, change: &Change) {
        let counts = [change.counted_restarts, change.uncounted_restarts];
        for (counted, count) in COUNTED.iter().zip(counts) {
            self.by_counted.with_label_values(&[*counted]).inc_by(u64::from(count));
        }
        self.refills.inc_by(u64::from(change.is_refilled));
        self.ignored_failures.inc_by(u64::from(change.ignored_failures));
    }
}
