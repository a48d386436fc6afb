//! Moments of a status held against the clock.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::api::AppWrapperStatus;
use crate::mutations::{self, Mutation};

/// Stands for a moment that must be there and cannot be read. It is later than any clock, and counts as now.
pub const UNREADABLE: &str = "2199-12-31T23:59:59Z";

/// How far the clocks of two replicas may be apart: what is later by less is left as it is.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Which moments of the next attempt are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBound {
    /// The latest that is.
    pub latest: Timestamp,
    /// What a later one counts as.
    pub instead: Timestamp,
}

/// Takes moments of the past that are later than now as now, and a moment of the next attempt beyond its bound as what
/// that says. Whether there were any.
pub fn settle_moments(
    status: &mut AppWrapperStatus,
    now: Timestamp,
    RetryBound { latest: retry_latest, instead }: RetryBound,
) -> bool {
    let latest = now.checked_add(SKEW).unwrap_or(now);
    let mut found = false;
    let mut settle = |time: &mut Time| {
        if time.0 > latest {
            time.0 = now;
            found = true;
        }
    };
    let mut of_conditions = |conditions: &mut [Condition]| {
        for condition in conditions {
            settle(&mut condition.last_transition_time);
        }
    };
    of_conditions(&mut status.conditions);
    for component in &mut status.component_status {
        of_conditions(&mut component.conditions);
    }
    if let Some(since) = &mut status.since {
        let anchors = [
            &mut since.deployed,
            &mut since.failed_pods,
            &mut since.deleting,
            &mut since.gone,
            &mut since.failed,
            &mut since.succeeded,
        ];
        anchors.into_iter().flatten().for_each(&mut settle);
        for entry in &mut since.pod_sets {
            settle(&mut entry.since);
            entry.failed_at.iter_mut().for_each(&mut settle);
            entry.replaced_until.iter_mut().for_each(&mut settle);
        }
    }
    status.usage.as_mut().and_then(|usage| usage.since.as_mut()).into_iter().for_each(&mut settle);
    status.budget.iter_mut().for_each(|budget| settle(&mut budget.since));
    for attempt in &mut status.attempts {
        attempt.progress.iter_mut().for_each(|progress| settle(&mut progress.at));
        let moments = [
            &mut attempt.started_at,
            &mut attempt.ready_at,
            &mut attempt.failed_at,
            &mut attempt.ended_at,
        ];
        moments.into_iter().flatten().for_each(&mut settle);
    }
    let active_after = status.requeue.as_mut().and_then(|requeue| requeue.active_after.as_mut());
    let is_trusted = mutations::is_present(Mutation::FarRetryAfterTrusted);
    let retry_after = status.retry_after.as_mut().filter(|_| !is_trusted);
    for after in active_after.into_iter().chain(retry_after) {
        if after.0 > retry_latest {
            after.0 = instead;
            found = true;
        }
    }
    found
}
