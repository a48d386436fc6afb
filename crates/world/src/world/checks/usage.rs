//! What must hold of `status.usage`, after every change.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::{Check, Invariant, Scope};
use crate::api::{Usage, UsageSeconds, UsageState};
use crate::world::moment;

/// The invariants of the ledger.
pub const USAGE: &[Invariant<Check>] = &[
    ("U1", "the states add up to the time that quota was held", adds_up),
    (
        "U2",
        "what a failed attempt did since its checkpoint is lost, and nothing else",
        lost_with_a_failure,
    ),
    ("U3", "a state is open only while quota is held", open_while_held),
];

fn usage(scope: &Scope<'_>) -> Option<Usage> {
    Usage::deserialize(&scope.change.object.value["status"]["usage"]).ok()
}

/// Seconds of the open state at a moment. The ledger is read as it is stored: the controller's own reader puts right
/// what cannot be.
fn open(usage: &Usage, now: Timestamp) -> i64 {
    let since = usage.since.as_ref().filter(|_| usage.state.is_some());
    since.map_or(0, |since| now.as_second() - since.0.as_second())
}

/// Seconds of all states.
fn total(usage: &Usage, now: Timestamp) -> i64 {
    let UsageSeconds { waiting, starting, productive, lost, teardown, pause, idle } = usage.seconds;
    waiting + starting + productive + lost + teardown + pause + idle + open(usage, now)
}

/// Productive seconds.
fn productive(usage: &Usage, now: Timestamp) -> i64 {
    let is_open = usage.state == Some(UsageState::Productive);
    usage.seconds.productive + if is_open { open(usage, now) } else { 0 }
}

/// A moment after all that was written: a clock may be ahead.
fn after_all(scope: &Scope<'_>) -> Timestamp {
    moment(scope.elapsed + Duration::from_hours(1000))
}

/// By how many seconds the ledger and the conditions may differ: not at all while all clocks agree. The times of all
/// attempts are in both.
fn tolerance(scope: &Scope<'_>) -> i64 {
    const ROUNDING: Duration = Duration::from_secs(2);
    let ledger = &scope.wrapper.ledger;
    let skew = scope.slack.saturating_sub(ROUNDING).max(2 * ledger.skew);
    let skew = i64::try_from(skew.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
    skew.saturating_mul(ledger.readings.into())
}

fn adds_up(scope: &Scope<'_>) -> Option<String> {
    let now = after_all(scope);
    let held = scope.wrapper.ledger.held(now);
    let Some(usage) = usage(scope) else {
        return (held != 0).then(|| format!("no ledger after {held} s"));
    };
    let sum = total(&usage, now);
    let wrong = (sum - held).abs() > tolerance(scope);
    wrong.then(|| format!("{} s too many in {usage:?}", sum - held))
}

fn lost_with_a_failure(scope: &Scope<'_>) -> Option<String> {
    let (usage, now, ledger) = (usage(scope)?, after_all(scope), &scope.wrapper.ledger);
    let (seconds, tolerance) = (&usage.seconds, tolerance(scope));
    let (ready, lost) = (ledger.ready(now), ledger.lost());
    let productive = productive(&usage, now);
    let wrong = seconds.lost < lost.start() - tolerance
        || seconds.lost > lost.end() + tolerance
        || (productive + seconds.lost - ready).abs() > tolerance
        || usage.attempt_productive_seconds > seconds.productive;
    wrong.then(|| format!("{ready} ready, {lost:?} of it lost, in {usage:?} {now}"))
}

fn open_while_held(scope: &Scope<'_>) -> Option<String> {
    let usage = usage(scope)?;
    let wrong = usage.state.is_some() != scope.wrapper.ledger.holds()
        || usage.state == Some(UsageState::Lost);
    wrong.then(|| format!("{usage:?}"))
}
