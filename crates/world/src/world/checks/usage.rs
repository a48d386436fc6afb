//! What must hold of `status.usage`, after every change.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::{Check, Invariant, Scope};
use crate::api::{Usage, UsageState};
use crate::decide::usage::{seconds_at, total, unsettled};
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
    let sum = total(&seconds_at(&usage, now));
    let wrong = (sum - held).abs() > tolerance(scope);
    wrong.then(|| format!("{} s too many in {usage:?}", sum - held))
}

fn lost_with_a_failure(scope: &Scope<'_>) -> Option<String> {
    let (usage, now, ledger) = (usage(scope)?, after_all(scope), &scope.wrapper.ledger);
    let (seconds, tolerance) = (seconds_at(&usage, now), tolerance(scope));
    let (ready, lost) = (ledger.ready(now), ledger.lost());
    let wrong = seconds.lost < lost.start() - tolerance
        || seconds.lost > lost.end() + tolerance
        || (seconds.productive + seconds.lost - ready).abs() > tolerance
        || unsettled(&usage, now) > seconds.productive;
    wrong.then(|| format!("{ready} ready, {lost:?} of it lost, in {usage:?} {now}"))
}

fn open_while_held(scope: &Scope<'_>) -> Option<String> {
    let usage = usage(scope)?;
    let wrong = usage.state.is_some() != scope.wrapper.ledger.holds()
        || usage.state == Some(UsageState::Lost);
    wrong.then(|| format!("{usage:?}"))
}
