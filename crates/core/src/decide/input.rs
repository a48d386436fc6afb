//! Checks the status against the clock, the templates and the policies in force: any client with write
//! access to the status may have written anything.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::{Facts, health, retry};
use crate::api::{AppWrapperStatus, Attempt, Phase, Since, condition};
use crate::config::Backoff;
use crate::mutations::{self, Mutation};
use crate::snapshot::{Component, Pod, Snapshot};
use crate::status::{self, RetryBound};
use crate::tuning::Period;

/// Reason of the event that names what is wrong with a status.
const INVALID: &str = "InvalidStatus";
/// A delay up to this may have been decided by a policy that is no longer in force. As long may calls that fail delay a
/// decision, however short `gracePeriodMaximum` is.
const DECIDED_MAX: Period = Period::from_secs(24 * 3600);

/// How long calls that keep failing, or a controller that begins again and again, delay a decision at most.
pub(super) fn gap_max(facts: Facts<'_>) -> Period {
    facts.config.fault_tolerance.grace_maximum.max(DECIDED_MAX)
}

/// The snapshot with what can be true of its status. What cannot is written back with the next status.
pub fn checked(facts: Facts<'_>) -> Cow<'_, Snapshot> {
    let snapshot = facts.snapshot;
    let mut status = snapshot.status.clone();
    // before a wrong clock is corrected
    let mut changed = forget_outdated(&mut status, facts.anchor);
    changed |= status::settle_moments(&mut status, facts.anchor, retry_bound(facts));
    // of policies that are not listed yet nobody knows what they ask for
    if !snapshot.retry.unlisted {
        let pending = status.pending_memory.len();
        status.pending_memory.retain(|one| retry::is_allowed(snapshot, one));
        changed |= status.pending_memory.len() != pending;
    }
    changed |= restore_anchor(&mut status, facts.anchor);
    // the definition of the Go controller has no attempts, and drops them
    if !snapshot.status_flaws.is_empty() || status.attempts.is_empty() {
        changed |= adopt_attempt(snapshot, &mut status);
    }
    let stuck = stuck_pods(facts);
    if !changed && stuck.is_empty() {
        return Cow::Borrowed(snapshot);
    }
    let mut snapshot = Snapshot { status, ..snapshot.clone() };
    for (index, since) in stuck {
        snapshot.pods[index].stuck = Some(since);
    }
    Cow::Owned(snapshot)
}

/// The pods that are Terminating for too long while the AppWrapper is Running, each with the moment since when:
/// nothing waits for those. In a teardown they are forced instead.
fn stuck_pods(facts: Facts<'_>) -> Vec<(usize, Timestamp)> {
    let is_running = facts.snapshot.status.phase == Phase::Running;
    if !is_running || mutations::is_present(Mutation::StuckIsWaitedFor) {
        return vec![];
    }
    let overdue = |(index, pod): (usize, &Pod)| {
        let since = health::overdue_from(facts, pod).filter(|_| pod.terminating)?;
        (since <= facts.now).then_some((index, since))
    };
    facts.snapshot.pods.iter().enumerate().filter_map(overdue).collect()
}

/// Forgets the moments of `since` that are older than what the conditions say: another controller, which does not know
/// them, has deleted or created the components since. Ours writes both together. What a clock that is ahead has written
/// proves nothing.
fn forget_outdated(status: &mut AppWrapperStatus, anchor: Timestamp) -> bool {
    let Some(since) = &status.since else { return false };
    let changed_to = |kind, to: &str| {
        let found = condition::find(&status.conditions, kind);
        let changed = found.filter(|found| found.status == to)?.last_transition_time.0;
        (changed <= anchor).then_some(changed)
    };
    let is_before = |moment: &Option<Time>, changed: Option<Timestamp>| {
        moment.as_ref().zip(changed).is_some_and(|(moment, changed)| moment.0 < changed)
    };
    let deployed = changed_to(condition::RESOURCES_DEPLOYED, "True");
    let is_outdated = since.gone.is_some() && deployed.is_some()
        || is_before(&since.gone, changed_to(condition::RESOURCES_DEPLOYED, "False"))
        || is_before(&since.deployed, deployed)
        || is_before(&since.deleting, changed_to(condition::DELETING_RESOURCES, "True"));
    if is_outdated {
        (status.since, status.retry_after) = (None, None);
    }
    is_outdated
}

/// Sets the time from which the period of a phase runs, where neither `since` nor a condition records it: a
/// period that started at each reconcile would never end.
fn restore_anchor(status: &mut AppWrapperStatus, anchor: Timestamp) -> bool {
    let is_dated = |kind| condition::since(&status.conditions, kind).is_some();
    let default = Since::default();
    let since = status.since.as_ref().unwrap_or(&default);
    let (is_recorded, field): (bool, fn(&mut Since) -> &mut Option<Time>) = match status.phase {
        Phase::Empty | Phase::Suspended => return false,
        Phase::Resuming | Phase::Running => {
            let recorded = since.deployed.is_some() || is_dated(condition::RESOURCES_DEPLOYED);
            (recorded, |since| &mut since.deployed)
        }
        Phase::Resetting | Phase::Suspending | Phase::Terminating => {
            let recorded = since.deleting.is_some()
                || since.gone.is_some()
                || condition::is_true(&status.conditions, condition::DELETING_RESOURCES);
            (recorded, |since| &mut since.deleting)
        }
        Phase::Succeeded => {
            let recorded = since.succeeded.is_some()
                || since.deleting.is_some()
                || is_dated(condition::QUOTA_RESERVED);
            (recorded, |since| &mut since.succeeded)
        }
        Phase::Failed => {
            let recorded = since.failed.is_some()
                || since.deleting.is_some()
                || is_dated(condition::UNHEALTHY);
            (recorded, |since| &mut since.failed)
        }
    };
    if !is_recorded {
        *field(status.since.get_or_insert_default()) = Some(Time(anchor));
    }
    !is_recorded
}

/// The moments that the next attempt can have, as they are told from a status.
///
/// A delay that was decided stays, also where its policy was changed or removed since: up to 24 h, or for as long as a
/// period of the configuration or a policy in force can be. What is later was not decided by anybody, and comes to the
/// longest delay that is in force.
fn retry_bound(facts: Facts<'_>) -> RetryBound {
    if facts.snapshot.retry.unlisted {
        return RetryBound { latest: Timestamp::MAX, instead: Timestamp::MAX };
    }
    let longest = longest_delay(facts);
    let latest = gap_max(facts).max(longest).after(facts.anchor);
    RetryBound { latest, instead: longest.after(facts.anchor) }
}

/// No retry policy in force delays a retry for longer than this.
fn longest_delay(facts: Facts<'_>) -> Period {
    let policies = &facts.snapshot.retry.policies;
    let of_rules = policies
        .iter()
        .flat_map(|policy| policy.rules.iter().map(|rule| rule.backoff).chain([policy.backoff]));
    let all = of_rules.chain([facts.config.retry_policy.default_backoff]).flatten();
    all.map(|backoff| backoff.max_delay())
        .chain([Backoff::MAX_DELAY, facts.limits.retry_pause])
        .max()
        .unwrap_or_default()
}

/// Where the number of the attempt may be lost, it is that of the latest object or pod of ours: nothing is
/// created beside it under another number.
fn adopt_attempt(snapshot: &Snapshot, status: &mut AppWrapperStatus) -> bool {
    let objects = snapshot.components.iter().filter_map(Component::ours);
    let made = objects.map(|object| object.attempt).chain(snapshot.pods.iter().map(|p| p.attempt));
    let Some(latest) = made.flatten().max() else { return false };
    let known = status.attempts.last().map(|last| last.attempt);
    if matches!(status.phase, Phase::Empty | Phase::Suspended)
        || latest <= known.unwrap_or_default()
    {
        return false;
    }
    status.attempts.push(Attempt { attempt: latest, ..Default::default() });
    true
}

/// Reports what was wrong, and restores the conditions that Kueue reads: an edited status does not release
/// quota while the phase says that something may run.
pub fn restore(draft: &mut Draft<'_>, stored: &Snapshot, next: Phase) {
    let flaws = &draft.facts.snapshot.status_flaws;
    if !flaws.is_empty() {
        draft.warn(INVALID, format!("{}; invalid values are ignored", flaws.join("; ")));
    }
    let allowed = draft.facts.snapshot.status.pending_memory.len();
    if stored.status.pending_memory.len() > allowed {
        let text = "status.pendingMemory is ignored: no RetryPolicy in force requests it";
        draft.warn(INVALID, text);
    }
    let held: &[&str] = match next {
        Phase::Resuming | Phase::Running | Phase::Suspending => {
            &[condition::QUOTA_RESERVED, condition::RESOURCES_DEPLOYED]
        }
        Phase::Resetting => &[condition::QUOTA_RESERVED],
        Phase::Empty | Phase::Suspended | Phase::Succeeded | Phase::Failed | Phase::Terminating => {
            &[]
        }
    };
    for kind in held {
        let stored = condition::find(&draft.status.conditions, kind);
        if stored.is_none_or(|stored| stored.status != "True") {
            draft.condition(kind, true, "Restored", "Restored to match the phase");
        }
    }
}
