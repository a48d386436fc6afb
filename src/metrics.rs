//! Counters, with labels from closed sets only: no name of an object ever becomes a label.

use prometheus::{Encoder, IntCounterVec, Opts, Registry, TextEncoder};

use crate::api::{Phase, RuleSource};

/// The counters and where they are registered.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    phase_changes: IntCounterVec,
    warnings: IntCounterVec,
    failures: IntCounterVec,
}

impl Metrics {
    /// New counters in a registry of their own.
    #[must_use]
    pub fn new() -> Self {
        let registry = Registry::new();
        Self {
            phase_changes: counter(
                &registry,
                "appwrapper_phase_changes_total",
                "Phase changes that were written.",
                &["from", "to"],
            ),
            warnings: counter(
                &registry,
                "appwrapper_warnings_total",
                "Events of type Warning that were made.",
                &["reason"],
            ),
            failures: counter(
                &registry,
                "appwrapper_failures_total",
                "Failures that were decided about, by what was done and what said so.",
                &["action", "source"],
            ),
            registry,
        }
    }

    /// Counts a change of phase.
    pub fn phase_change(&self, from: Phase, to: Phase) {
        self.phase_changes.with_label_values(&[from.as_str(), to.as_str()]).inc();
    }

    /// Counts a Warning event.
    pub fn warning(&self, reason: &'static str) {
        self.warnings.with_label_values(&[reason]).inc();
    }

    /// Counts a failure that was decided about; no source where a node was marked `NoExecute`.
    pub fn failure(&self, action: &'static str, source: Option<RuleSource>) {
        let source = source.map_or_else(String::new, |source| source.to_string());
        self.failures.with_label_values(&[action, source.as_str()]).inc();
    }

    /// The page that Prometheus scrapes.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = vec![];
        // Writing to memory fails only for a metric without a name or help, and ours have both.
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut page) {
            tracing::error!(%error, "The metrics cannot be encoded.");
        }
        String::from_utf8_lossy(&page).into_owned()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn counter(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    let made = IntCounterVec::new(Opts::new(name, help), labels)
        .and_then(|counter| registry.register(Box::new(counter.clone())).map(|()| counter));
    made.unwrap_or_else(|error| unreachable!("metric {name} is well-formed and unique: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_appear_on_the_page() {
        let metrics = Metrics::new();
        metrics.phase_change(Phase::Running, Phase::Resetting);
        metrics.warning("FoundFailedPods");
        metrics.failure("Restart", Some(RuleSource::RetryPolicy));
        let page = metrics.page();
        let line = r#"appwrapper_phase_changes_total{from="Running",to="Resetting"} 1"#;
        assert!(page.contains(line), "{page}");
        let line = r#"appwrapper_failures_total{action="Restart",source="retryPolicy"} 1"#;
        assert!(page.contains(line), "{page}");
        assert!(
            page.contains(r#"appwrapper_warnings_total{reason="FoundFailedPods"} 1"#),
            "{page}"
        );
    }
}
