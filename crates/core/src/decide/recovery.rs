//! Kueue's clock: when it evicts an AppWrapper whose pods are not ready.
//!
//! Kueue counts on the Workload (`admittedNotReadyWorkload` in its `workload_controller.go`, 0.18): `timeout` from
//! `Admitted` until the pods were ready once in this admission, `recoveryTimeout` from the last transition of
//! `PodsReady` to False after that. It copies our condition `PodsReady`, and admits before we set `QuotaReserved`: so
//! the second deadline is never later than Kueue's, and the first is later by the time that we took to see the
//! admission.
//!
//! The deadline follows from the status alone and changes with a status that is written in any case.

use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::pause;
use crate::api::{AppWrapperStatus, Phase, condition};
use crate::kueue::{Timeout, WaitForPodsReady};
use crate::mutations::{self, Mutation};
use crate::tuning::Period;

/// Reason of the event about a restart that Kueue's eviction comes before.
const EVICTION_FIRST: &str = "EvictionBeforeRestart";

/// When Kueue evicts, if the pods are not ready before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The deadline.
    pub at: Timestamp,
    /// The timeout that ends then.
    pub timeout: Timeout,
    /// Its length.
    pub period: Period,
}

/// When Kueue evicts an AppWrapper of this status; none while its pods are ready or it holds no quota, and where
/// Kueue does not evict for its pods.
#[must_use]
pub fn eviction(status: &AppWrapperStatus, kueue: Option<WaitForPodsReady>) -> Option<Eviction> {
    let (timeout, since) = running_timeout(status)?;
    let period = kueue?.period(timeout)?;
    Some(Eviction { at: period.after(since), timeout, period })
}

/// The timeout of Kueue that runs for an AppWrapper of this status, if it is configured, and since when.
#[must_use]
pub fn running_timeout(status: &AppWrapperStatus) -> Option<(Timeout, Timestamp)> {
    let may_be_evicted = match status.phase {
        Phase::Resuming | Phase::Running | Phase::Resetting | Phase::Failed => true,
        // Kueue has evicted it, or does not evict what has ended
        Phase::Empty
        | Phase::Suspended
        | Phase::Suspending
        | Phase::Succeeded
        | Phase::Terminating => false,
    };
    let conditions = &status.conditions;
    let holds = condition::is_true(conditions, condition::QUOTA_RESERVED);
    if !may_be_evicted || !holds || condition::is_true(conditions, condition::PODS_READY) {
        return None;
    }
    let admitted = condition::since(conditions, condition::QUOTA_RESERVED)?;
    let lost = condition::since(conditions, condition::PODS_READY)?;
    if lost > admitted || was_ready_since(status, admitted) {
        let since = if mutations::is_present(Mutation::RecoveryFromAttempt) {
            status.attempts.last()?.started_at.as_ref().map_or(lost, |started| started.0.max(lost))
        } else {
            lost
        };
        return Some((Timeout::Recovery, since));
    }
    Some((Timeout::Start, admitted))
}

/// Whether an attempt of this admission was ready: within the second of the admission, the conditions do not tell.
fn was_ready_since(status: &AppWrapperStatus, admitted: Timestamp) -> bool {
    status.attempts.iter().any(|attempt| {
        let started = attempt.started_at.as_ref().is_some_and(|started| started.0 >= admitted);
        started && attempt.ready_at.is_some()
    })
}

/// Warns that no pods of the next attempt can run before Kueue evicts, where a restart has just been decided.
pub(super) fn warn_if_too_late(draft: &mut Draft<'_>) {
    let Some(eviction) = eviction(&draft.status, draft.facts.snapshot.wait_for_pods_ready) else {
        return;
    };
    let pause = Period::from_secs(u64::try_from(pause::left(draft)).unwrap_or(0));
    let begins = pause.after(draft.facts.now);
    let Eviction { at, timeout, period } = eviction;
    if begins < at {
        return;
    }
    let field = timeout.field();
    draft.warn(
        EVICTION_FIRST,
        format!(
            "Kueue evicts the AppWrapper at {at} ({field} {period}), before pods of the next attempt, which begins at \
             {begins} or later, can run: shorten the pause between attempts ({pause}), or have {field} raised"
        ),
    );
}
