//! Counters, with labels from closed sets only: no name of an object ever becomes a label.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder,
};

use crate::api::{Phase, RuleSource};

/// The counters and where they are registered.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    phase_changes: IntCounterVec,
    warnings: IntCounterVec,
    failures: IntCounterVec,
    admission_answers: IntCounterVec,
    admission_seconds: HistogramVec,
}

/// How a question of an API server was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Admitted {
    /// Let in.
    Allowed,
    /// Not let in.
    Denied,
    /// No question that can be answered.
    Malformed,
    /// Too many at a time.
    Overloaded,
    /// It took too long.
    Timeout,
    /// Something went wrong on our side.
    Error,
}

impl Admitted {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Malformed => "malformed",
            Self::Overloaded => "overloaded",
            Self::Timeout => "timeout",
            Self::Error => "error",
        }
    }
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
            admission_answers: counter(
                &registry,
                "appwrapper_admission_answers_total",
                "Answers to API servers that ask about objects.",
                &["webhook", "operation", "answer"],
            ),
            admission_seconds: histogram(
                &registry,
                "appwrapper_admission_seconds",
                "Time from a question of an API server to the answer.",
                &["webhook"],
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

    /// Counts an answer to an API server; no operation where there is only a refusal.
    pub fn admission(
        &self,
        webhook: &'static str,
        operation: Option<&'static str>,
        answer: Admitted,
        took: Duration,
    ) {
        let labels = [webhook, operation.unwrap_or("unknown"), answer.as_str()];
        self.admission_answers.with_label_values(&labels).inc();
        self.admission_seconds.with_label_values(&[webhook]).observe(took.as_secs_f64());
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
    registered(registry, name, IntCounterVec::new(Opts::new(name, help), labels))
}

/// Bounds of the histogram, in seconds: the last is what an API server waits for at most.
const SECONDS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

fn histogram(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
    registered(registry, name, HistogramVec::new(options, labels))
}

fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    name: &str,
    made: prometheus::Result<C>,
) -> C {
    let made = made.and_then(|metric| registry.register(Box::new(metric.clone())).map(|()| metric));
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
        let took = Duration::from_millis(2);
        metrics.admission("validate-appwrapper", Some("CREATE"), Admitted::Denied, took);
        metrics.admission("validate-appwrapper", None, Admitted::Malformed, took);
        let page = metrics.page();
        let labels = r#"answer="malformed",operation="unknown",webhook="validate-appwrapper""#;
        let line = format!("appwrapper_admission_answers_total{{{labels}}} 1");
        assert!(page.contains(&line), "{page}");
        let line =
            r#"appwrapper_admission_seconds_bucket{webhook="validate-appwrapper",le="0.0025"} 2"#;
        assert!(page.contains(line), "{page}");
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
