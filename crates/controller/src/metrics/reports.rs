//! Progress reports of pods.

use prometheus::{IntCounterVec, Registry};

use super::make::{counter, register};

/// How a progress report was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reported {
    /// It is written, or joined with one that waits.
    Accepted,
    /// No token, or none that is valid.
    Unauthorized,
    /// The token is not of a pod of an AppWrapper, or the path is of another namespace.
    Forbidden,
    /// The path is of nothing, or the AppWrapper takes no progress.
    NotFound,
    /// The body is not as the protocol says.
    Malformed,
    /// More than a pod, a namespace or a peer may send.
    Limited,
    /// Too many of all together.
    Overloaded,
    /// The API server could not be asked.
    Unavailable,
    /// Internal error.
    Error,
}

/// How the write of a report ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportWritten {
    /// The pod was patched.
    Written,
    /// The pod has it already.
    Unchanged,
    /// The pod is gone.
    Gone,
    /// It could not be written.
    Failed,
}

impl Reported {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "notFound",
            Self::Malformed => "malformed",
            Self::Limited => "limited",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::Error => "error",
        }
    }
}

impl ReportWritten {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Unchanged => "unchanged",
            Self::Gone => "gone",
            Self::Failed => "failed",
        }
    }
}

/// What is counted of them.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    answers: IntCounterVec,
    writes: IntCounterVec,
}

impl Reports {
    pub(super) fn register(registry: &Registry) -> Self {
        let answers = counter(
            "appwrapper_progress_reports_total",
            "Progress reports of pods, by answer.",
            &["answer"],
        );
        let writes = counter(
            "appwrapper_progress_writes_total",
            "Writes of progress reports to pods, by result.",
            &["result"],
        );
        Self { answers: register(registry, answers), writes: register(registry, writes) }
    }

    pub(super) fn answered(&self, answer: Reported) {
        self.answers.with_label_values(&[answer.as_str()]).inc();
    }

    pub(super) fn written(&self, result: ReportWritten) {
        self.writes.with_label_values(&[result.as_str()]).inc();
    }
}
