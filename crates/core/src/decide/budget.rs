//! The budget of restarts: what the limits ask for, and when it is given back.
//!
//! `resettingCount` counts every restart and never goes down. Once restarts were given back, `status.budget` counts those
//! since, and the limits ask that instead.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::draft::Draft;
use super::{Facts, attempts, components, failed, failure};
use crate::api::{AppWrapperStatus, Budget, condition};
use crate::mutations::{self, Mutation};
use crate::tuning::Period;

/// Counted restarts that `maxRestarts` or the retry limit limits.
#[must_use]
pub fn used(status: &AppWrapperStatus) -> i32 {
    let budget = status.budget.as_ref();
    budget.map_or(status.resetting_count, |budget| budget.used.min(status.resetting_count))
}

/// Counted restarts that `globalMaxRetries` limits.
#[must_use]
pub fn global_used(status: &AppWrapperStatus) -> i32 {
    let budget = status.budget.as_ref();
    budget.map_or(status.resetting_count, |budget| budget.global_used.min(status.resetting_count))
}

/// Counts restarts.
pub fn count(status: &mut AppWrapperStatus, more: i32) {
    status.resetting_count = status.resetting_count.saturating_add(more);
    if let Some(budget) = &mut status.budget {
        budget.used = budget.used.max(0).saturating_add(more);
        budget.global_used = budget.global_used.max(0).saturating_add(more);
    }
}

/// Gives back what readiness has earned until a moment: a failure's, or now. Whether something was given back: a limit
/// is asked once that is stored.
#[must_use]
pub fn refill(draft: &mut Draft<'_>, until: Timestamp) -> bool {
    if refills(&draft.status, draft.facts).is_empty() {
        return false;
    }
    // the status in the making may say already that the pods are not ready any more
    let stored = &draft.facts.snapshot.status;
    let Some(since) = ready_since(draft, stored) else { return false };
    let until = until.min(draft.facts.now);
    let calm = longest_calm(draft, complete_since(draft, since, until), until);
    give_back(&mut draft.status, draft.facts, until - calm, until)
}

/// When restarts are given back next, if all pods keep running; none where none were used, or none is given back.
#[must_use]
pub fn next_refill(status: &AppWrapperStatus, facts: Facts<'_>) -> Option<Timestamp> {
    let all = refills(status, facts);
    if all.is_empty() {
        return None;
    }
    let mut draft = Draft::new(facts);
    draft.status.clone_from(status);
    let since = complete_since(&draft, ready_since(&draft, status)?, facts.now);
    let since = interruptions(&draft, since, facts.now).last().copied().unwrap_or(since);
    all.into_iter().map(|refill| refill.after.after(since)).min()
}

/// Gives back what readiness from one moment to another earns. Whether that is anything.
pub fn give_back(
    status: &mut AppWrapperStatus,
    facts: Facts<'_>,
    since: Timestamp,
    until: Timestamp,
) -> bool {
    let mut due = refills(status, facts);
    due.retain(|refill| refill.after.after(since) <= until);
    let any = !due.is_empty();
    for Refill { of, .. } in due {
        let (used, global_used) = (used(status), global_used(status));
        let mut budget = |used: i32, global_used: i32| {
            status.budget = Some(Budget { used, global_used, since: Time(until) });
        };
        match of {
            Limit::Own => budget(0, global_used),
            Limit::Global => budget(used, 0),
            Limit::RetryPolicy(name) => status.retry_counts.retain(|entry| entry.policy != name),
        }
    }
    any
}

/// A limit of which something is used and will be given back.
struct Refill {
    of: Limit,
    after: Period,
}

enum Limit {
    /// `maxRestarts` or the retry limit.
    Own,
    /// `globalMaxRetries`.
    Global,
    /// The limits of this RetryPolicy.
    RetryPolicy(String),
}

fn refills(status: &AppWrapperStatus, facts: Facts<'_>) -> Vec<Refill> {
    let snapshot = facts.snapshot;
    let own = snapshot.policies.budget.refill_after.filter(|_| used(status) > 0);
    let global = facts.config.retry_policy.refill_after.filter(|_| global_used(status) > 0);
    let of_policies = snapshot.retry.policies.iter().filter_map(|policy| {
        let is_used = status.retry_counts.iter().any(|entry| entry.policy == policy.name);
        let after = policy.budget.refill_after.filter(|_| is_used)?;
        Some(Refill { of: Limit::RetryPolicy(policy.name.clone()), after })
    });
    let own = own.map(|after| Refill { of: Limit::Own, after });
    let global = global.map(|after| Refill { of: Limit::Global, after });
    own.into_iter().chain(global).chain(of_policies).collect()
}

/// Since when every expected pod of every component is ready without interruption: `PodsReady` is about the components
/// alone that were created so far, and the pods of a later step may be what fails.
fn ready_since(draft: &Draft<'_>, status: &AppWrapperStatus) -> Option<Timestamp> {
    if mutations::is_present(Mutation::RefilledUnready) {
        return status.attempts.last()?.started_at.as_ref().map(|time| time.0);
    }
    let is_ready = condition::is_true(&status.conditions, condition::PODS_READY)
        && components::all_are_up(draft);
    condition::since(&status.conditions, condition::PODS_READY).filter(|_| is_ready)
}

/// The longest time in which no pod failed, of that from one moment to another.
fn longest_calm(draft: &Draft<'_>, since: Timestamp, until: Timestamp) -> SignedDuration {
    let mut moments = vec![since];
    moments.extend(interruptions(draft, since, until));
    moments.push(until);
    let calms = moments.windows(2).map(|pair| pair[1].duration_since(pair[0]));
    calms.max().unwrap_or_default()
}

/// Since when all pods are there, of those that are there at a moment. `PodsReady` is as it was seen: while the controller was
/// away, one that was created later may have replaced others that are gone.
fn complete_since(draft: &Draft<'_>, since: Timestamp, until: Timestamp) -> Timestamp {
    let created = attempts::pods(draft.facts.snapshot).filter_map(|pod| pod.created);
    created.filter(|at| *at < until).fold(since, Timestamp::max)
}

/// When pods failed between two moments, the first failure first. `PodsReady` is as it was seen: a pod that failed while the
/// controller was away may have been replaced since.
fn interruptions(draft: &Draft<'_>, since: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let failed = failed::failed_pods(draft, None).into_iter().filter_map(failure::ended_at);
    let mut moments: Vec<Timestamp> = failed.filter(|at| since < *at && *at < until).collect();
    moments.sort_unstable();
    moments
}
