//! The limits of an AppWrapper, as the checks read them.

use std::time::Duration;

use super::PREFIX;
use crate::sim::Object;

/// The limits of an AppWrapper, read here by other code than the controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// `admissionGracePeriod`.
    pub admission: Duration,
    /// `warmupGracePeriod`.
    pub warmup: Duration,
    /// `failureGracePeriod`.
    pub failure: Duration,
    /// `retryPausePeriod`.
    pub pause: Duration,
    /// `deletionOnFailureGracePeriod`.
    pub keep: Duration,
    /// `forcefulDeletionGracePeriod`.
    pub force: Duration,
    /// `successTTL`.
    pub ttl: Duration,
    /// `RetryLimit`.
    pub limit: i64,
    /// A code decides at once, so that no grace is waited for.
    pub codes: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            admission: Duration::from_mins(1),
            warmup: Duration::from_mins(5),
            failure: Duration::from_mins(1),
            pause: Duration::from_secs(90),
            keep: Duration::ZERO,
            force: Duration::from_mins(10),
            ttl: Duration::from_hours(7 * 24),
            limit: 3,
            codes: false,
        }
    }
}

impl Tuning {
    /// Reads the annotations; what cannot be read has its default.
    #[must_use]
    pub fn read(object: &Object) -> Self {
        let text = |key: &str| object.annotation(&format!("{PREFIX}{key}"));
        let period = |key: &str, default: Duration| {
            let seconds = text(&format!("{key}Duration")).and_then(|text| text.strip_suffix('s'));
            seconds.and_then(|text| text.parse().ok()).map_or(default, Duration::from_secs)
        };
        let usual = Self::default();
        Self {
            admission: period("admissionGracePeriod", usual.admission),
            warmup: period("warmupGracePeriod", usual.warmup),
            failure: period("failureGracePeriod", usual.failure),
            pause: period("retryPausePeriod", usual.pause),
            keep: period("deletionOnFailureGracePeriod", usual.keep),
            force: period("forcefulDeletionGracePeriod", usual.force),
            ttl: period("successTTL", usual.ttl),
            limit: text("retryLimit").and_then(|text| text.parse().ok()).unwrap_or(usual.limit),
            codes: text("terminalExitCodes").is_some() || text("retryableExitCodes").is_some(),
        }
    }

    /// The shortest of the periods, the highest of the limits: what two states of annotations allow.
    #[must_use]
    pub fn loosest(&self, other: &Self) -> Self {
        Self {
            admission: self.admission.min(other.admission),
            warmup: self.warmup.min(other.warmup),
            failure: self.failure.min(other.failure),
            pause: self.pause.min(other.pause),
            keep: self.keep.min(other.keep),
            force: self.force.min(other.force),
            ttl: self.ttl.min(other.ttl),
            limit: self.limit.max(other.limit),
            codes: self.codes || other.codes,
        }
    }
}
