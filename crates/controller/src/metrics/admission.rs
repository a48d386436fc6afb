//! Admission reviews.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, Registry};

use super::make::{counter, histogram, register};

/// Bounds of the histogram, in seconds: the last is what an API server waits for at most.
const SECONDS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

/// How an admission review was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReviewResult {
    /// Allowed.
    Allowed,
    /// Denied.
    Denied,
    /// The request is not a valid admission review, or its body did not arrive.
    Malformed,
    /// Too many at a time.
    Overloaded,
    /// It took too long.
    Timeout,
    /// Internal error, or the API server did not answer.
    Error,
}

impl ReviewResult {
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

/// What is counted of them.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    answers: IntCounterVec,
    seconds: HistogramVec,
}

impl Answers {
    pub(super) fn register(registry: &Registry) -> Self {
        let answers = counter(
            "appwrapper_admission_answers_total",
            "Admission reviews, by webhook, operation and answer.",
            &["webhook", "operation", "answer"],
        );
        let seconds = histogram(
            "appwrapper_admission_seconds",
            "Duration of an admission review.",
            &["webhook"],
            &SECONDS,
        );
        Self { answers: register(registry, answers), seconds: register(registry, seconds) }
    }

    pub(super) fn count(
        &self,
        webhook: &'static str,
        operation: Option<&'static str>,
        answer: ReviewResult,
        took: Duration,
    ) {
        let labels = [webhook, operation.unwrap_or("unknown"), answer.as_str()];
        self.answers.with_label_values(&labels).inc();
        self.seconds.with_label_values(&[webhook]).observe(took.as_secs_f64());
    }
}
