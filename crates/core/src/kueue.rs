//! What Kueue's own configuration says of AppWrappers: how long it waits for their pods, and whether it replaces
//! failed nodes. Plain values; the controller reads them from Kueue's `ConfigMap`.

use std::time::Duration;

use crate::tuning::Period;

/// The settings of Kueue that concern AppWrappers. By default nothing is known, and nothing follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KueueSettings {
    /// When Kueue evicts; none where it does not, or where its configuration is not known.
    pub wait_for_pods_ready: Option<WaitForPodsReady>,
    /// With Topology-Aware Scheduling, Kueue may look for a replacement of a failed node. Kueue:
    /// `TASFailedNodeReplacement`.
    pub replaces_failed_nodes: bool,
}

/// How long Kueue waits for pods before it evicts. Kueue: `waitForPodsReady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitForPodsReady {
    /// From admission until the pods are ready for the first time.
    pub timeout: Period,
    /// From the loss of readiness until the pods are ready again; none: for ever.
    pub recovery_timeout: Option<Period>,
}

/// Which of Kueue's timeouts runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// `waitForPodsReady.timeout`: the pods were not ready in this admission.
    Start,
    /// `waitForPodsReady.recoveryTimeout`: they were.
    Recovery,
}

impl Timeout {
    /// Its field in Kueue's configuration.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Start => "waitForPodsReady.timeout",
            Self::Recovery => "waitForPodsReady.recoveryTimeout",
        }
    }
}

impl WaitForPodsReady {
    /// The length of a timeout; none where Kueue does not evict for it.
    #[must_use]
    pub const fn period(self, timeout: Timeout) -> Option<Period> {
        match timeout {
            Timeout::Start => Some(self.timeout),
            Timeout::Recovery => self.recovery_timeout,
        }
    }
}

/// Several periods in a row.
#[must_use]
pub fn total(periods: &[Period]) -> Period {
    let sum = periods
        .iter()
        .fold(Duration::ZERO, |total, period| total.saturating_add(period.as_duration()));
    Period::from_duration(sum)
}
