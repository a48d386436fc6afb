//! The ledger: where the time went in which quota was reserved.
//!
//! While `QuotaReserved` is True, every second belongs to exactly one state:
//!
//! ```text
//! waiting ─ all pods are scheduled ─▶ starting ─ PodsReady ─▶ productive ◀─ PodsReady ─▶ idle
//!    ▲                                                            │ the failure is decided
//!    └───── pause ◀─ everything is gone ─ teardown ◀──────────────┴─▶ productive seconds become lost
//! ```
//!
//! The state follows from the status alone, so that it changes only with a status that is written in any case;
//! [`updated`] compares the status before and after. One border has no write of its own, that between `waiting` and
//! `starting`: when a waiting interval is closed, or at a write in it, the transition times of `PodScheduled` of
//! the pods that are there tell from when on all of them had a node. Where they do not, it was waiting.
//!
//! The open interval is closed by the reader: [`seconds_at`].
//!
//! Where the state machine leaves a choice:
//!
//! - Components of later steps are not expected before their step has begun, as for `PodsReady`.
//! - A pod that failed or is Terminating had a node all the same: it counts as scheduled.
//! - An AppWrapper without pods is productive while Running: its `PodsReady` is True.
//! - A component in recreation is `idle` if the attempt was ready before, else `waiting` or `starting`.
//! - A failed AppWrapper that keeps its resources is `idle`, also if it was never ready.
//! - Seconds between the end of a pod and the write of `PodsReady` False are productive: nobody knew better.
//! - Productive seconds before the last checkpoint that a pod reported (`spec.progress`) stay productive after a failure.
//! - A wall clock that steps back ends no state: `since` never decreases, and the time until the clock has caught
//!   up is not counted twice.

use std::cell::LazyCell;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::{attempts, components, progress};
use crate::api::{AppWrapperStatus, Phase, Usage, UsageSeconds, UsageState, condition};
use crate::mutations::{self, Mutation};
use crate::snapshot::{Pod, Snapshot};

/// The most seconds of one state: what a number of JSON represents exactly. The sum of all states fits `i64`.
pub const SECONDS_MAX: i64 = (1 << 53) - 1;

/// The seconds by state at a moment, with those of the open interval.
///
/// The only place that closes it: the command line, the metrics and the checks of the simulation read the ledger here.
/// A `since` after `now` counts as now; no number is below 0 or above [`SECONDS_MAX`].
#[must_use]
pub fn seconds_at(usage: &Usage, now: Timestamp) -> UsageSeconds {
    let mut seconds = within_bounds(usage).seconds;
    if let Some(state) = usage.state {
        add(&mut seconds, state, elapsed(usage, now));
    }
    seconds
}

/// The sum of all states, in seconds.
#[must_use]
pub fn total(seconds: &UsageSeconds) -> i64 {
    let all = UsageState::ALL.iter().map(|state| seconds.of(*state));
    all.fold(0, i64::saturating_add)
}

/// Productive seconds of the running attempt at a moment: those whose fate is open.
#[must_use]
pub fn unsettled(usage: &Usage, now: Timestamp) -> i64 {
    let open = if usage.state == Some(UsageState::Productive) { elapsed(usage, now) } else { 0 };
    clamped(usage.attempt_productive_seconds).saturating_add(open).min(SECONDS_MAX)
}

/// The closed seconds by state whose state will not change: without the productive ones of the running attempt, which
/// are lost if it fails. They never decrease.
#[must_use]
pub fn settled(usage: &Usage) -> UsageSeconds {
    let usage = within_bounds(usage);
    let mut seconds = usage.seconds;
    seconds.productive -= usage.attempt_productive_seconds;
    seconds
}

/// The ledger of an AppWrapper that is removed at a moment: nothing is open in it.
#[must_use]
pub fn released(usage: &Usage, now: Timestamp) -> Usage {
    let closed = entered(within_bounds(usage), None, now);
    Usage { attempt_productive_seconds: 0, ..closed }
}

/// How many of the productive seconds of an attempt are lost with its failure: those since its last checkpoint, of
/// which the seconds until the pods stopped being ready are known; all of them if it reported none.
fn lost(attempt_productive_seconds: i64, since_checkpoint: Option<i64>) -> i64 {
    since_checkpoint
        .map_or(attempt_productive_seconds, |since| clamped(since).min(attempt_productive_seconds))
}

/// Seconds from the last checkpoint until the pods were not ready any more, or until now.
fn since_checkpoint(draft: &Draft<'_>, stored: &Usage) -> Option<i64> {
    let saved = progress::saved_at(draft.facts)?;
    let idle = stored.since.as_ref().filter(|_| stored.state == Some(UsageState::Idle));
    let ended = idle.map_or(draft.facts.now, |since| since.0);
    Some(ended.as_second().saturating_sub(saved.as_second()))
}

/// Seconds since the state began.
fn elapsed(usage: &Usage, now: Timestamp) -> i64 {
    let since = usage.since.as_ref().map_or(now, |time| time.0);
    clamped(now.as_second().saturating_sub(since.as_second()))
}

fn clamped(seconds: i64) -> i64 {
    seconds.clamp(0, SECONDS_MAX)
}

fn add(seconds: &mut UsageSeconds, state: UsageState, more: i64) {
    if state == UsageState::Teardown && mutations::is_present(Mutation::TeardownUncounted) {
        return;
    }
    let of_state = seconds.of_mut(state);
    *of_state = of_state.saturating_add(clamped(more)).min(SECONDS_MAX);
}

/// The ledger with no number that cannot be: anybody may have written it.
fn within_bounds(usage: &Usage) -> Usage {
    let mut usage = usage.clone();
    for state in UsageState::ALL {
        let of_state = usage.seconds.of_mut(state);
        *of_state = clamped(*of_state);
    }
    usage.attempt_productive_seconds =
        clamped(usage.attempt_productive_seconds).min(usage.seconds.productive);
    usage
}

/// The ledger of a status that is about to be written, of which everything else is decided.
///
/// It is what it was unless the state changes, an attempt ends, or another begins. It begins when quota is first
/// reserved, and with the next write of an object of an older version.
pub(super) fn updated(draft: &Draft<'_>) -> Option<Usage> {
    let (before, after) = (&draft.facts.snapshot.status, &draft.status);
    let is_held = condition::is_true(&after.conditions, condition::QUOTA_RESERVED);
    if before.usage.is_none() && !is_held {
        return None;
    }
    let now = draft.facts.now;
    let stored = before.usage.clone().unwrap_or_default();
    let scheduled = LazyCell::new(|| scheduled_since(draft));
    let mut usage = within_bounds(&stored);
    if let (Some(UsageState::Waiting), Some(at)) = (stored.state, LazyCell::force(&scheduled)) {
        usage = entered(usage, Some(UsageState::Starting), (*at).min(now));
    }
    let has_failed = draft.verdict.action.handles_failure();
    let has_ended = has_failed || after.attempts.last().is_some_and(|last| last.outcome.is_some());
    let begins = attempts::current(after) != attempts::current(before)
        || after.phase == Phase::Resuming && before.phase != Phase::Resuming;
    let earlier = (!begins).then_some(&stored);
    let state = is_held.then(|| state_of(after, earlier, || scheduled.is_some()));
    let settles = (has_ended || begins) && unsettled(&usage, now) != 0;
    if state == stored.state && !settles {
        return before.usage.clone();
    }
    if state != usage.state || settles {
        usage = entered(usage, state, now);
    }
    if has_failed && !mutations::is_present(Mutation::LostIsProductive) {
        let lost = lost(usage.attempt_productive_seconds, since_checkpoint(draft, &stored))
            .clamp(0, usage.seconds.productive);
        usage.seconds.productive -= lost;
        add(&mut usage.seconds, UsageState::Lost, lost);
    }
    if has_ended || begins || !is_held {
        usage.attempt_productive_seconds = 0;
    }
    Some(usage)
}

/// The ledger after its state has ended at a moment, and another, or none, has begun.
fn entered(mut usage: Usage, next: Option<UsageState>, at: Timestamp) -> Usage {
    let passed = elapsed(&usage, at);
    let begun = usage.since.take().filter(|_| usage.state.is_some());
    if let Some(state) = usage.state {
        add(&mut usage.seconds, state, passed);
    }
    if usage.state == Some(UsageState::Productive) {
        let of_attempt = usage.attempt_productive_seconds.saturating_add(passed);
        usage.attempt_productive_seconds = of_attempt.min(usage.seconds.productive);
    }
    usage.state = next;
    usage.since = next.map(|_| Time(begun.map_or(at, |begun| begun.0.max(at))));
    usage
}

/// What the quota that a status holds is used for. `earlier` is the ledger so far, if the same attempt wrote it.
fn state_of(
    status: &AppWrapperStatus,
    earlier: Option<&Usage>,
    is_scheduled: impl FnOnce() -> bool,
) -> UsageState {
    let since = status.since.as_ref();
    match status.phase {
        Phase::Resuming | Phase::Running => {
            if condition::is_true(&status.conditions, condition::PODS_READY) {
                UsageState::Productive
            } else if was_ready(status, earlier) {
                UsageState::Idle
            } else if is_scheduled() {
                UsageState::Starting
            } else {
                UsageState::Waiting
            }
        }
        Phase::Resetting if since.is_some_and(|since| since.gone.is_some()) => UsageState::Pause,
        Phase::Failed if !is_being_deleted(status) => UsageState::Idle,
        Phase::Resetting | Phase::Suspending | Phase::Failed | Phase::Terminating => {
            UsageState::Teardown
        }
        // no quota is reserved in these, but anybody may have written a condition
        Phase::Empty | Phase::Suspended | Phase::Succeeded => UsageState::Idle,
    }
}

/// Whether the attempt was ready once. An entry says so; the ledger does where the entry was dropped.
fn was_ready(status: &AppWrapperStatus, earlier: Option<&Usage>) -> bool {
    let number = attempts::current(status);
    let mut entries = status.attempts.iter().filter(|entry| entry.attempt == number);
    entries.any(|entry| entry.ready_at.is_some())
        || earlier.is_some_and(|usage| {
            matches!(usage.state, Some(UsageState::Productive | UsageState::Idle))
        })
}

fn is_being_deleted(status: &AppWrapperStatus) -> bool {
    status.since.as_ref().is_some_and(|since| since.deleting.is_some())
        || condition::is_true(&status.conditions, condition::DELETING_RESOURCES)
}

/// Since when every expected pod has a node; none where one has not, or none is known to have.
fn scheduled_since(draft: &Draft<'_>) -> Option<Timestamp> {
    let snapshot = draft.facts.snapshot;
    if !matches!(snapshot.status.phase, Phase::Resuming | Phase::Running)
        || snapshot.undetermined.incomplete
    {
        return None;
    }
    let mut latest = None;
    for set in components::begun_pod_sets(draft).iter().filter(|set| !set.done) {
        let (bound, unbound): (Vec<&Pod>, Vec<&Pod>) =
            of_attempt(snapshot, (set.component, set.pod_set)).partition(|pod| pod.node.is_some());
        let waits = unbound.iter().any(|pod| !pod.terminating && !pod.has_ended());
        let expected = usize::try_from(set.expected).unwrap_or(usize::MAX);
        if waits || bound.len() < expected {
            return None;
        }
        latest = latest.max(bound.into_iter().map(|pod| bound_at(pod, draft.facts.now)).max());
    }
    latest
}

/// When a pod was bound to its node; now where nothing tells.
fn bound_at(pod: &Pod, now: Timestamp) -> Timestamp {
    let scheduled = pod.true_condition("PodScheduled").and_then(|condition| condition.since);
    let at = scheduled.or(pod.created).unwrap_or(now);
    Timestamp::from_second(at.as_second()).unwrap_or(now)
}

fn of_attempt(snapshot: &Snapshot, at: (usize, usize)) -> impl Iterator<Item = &Pod> {
    attempts::pods(snapshot).filter(move |pod| pod.component.zip(pod.pod_set) == Some(at))
}
