//! How long an AppWrapper pauses between two attempts.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::attempts;
use super::draft::Draft;
use crate::api::{AppWrapperStatus, Attempt, AttemptAction};
use crate::mutations::{self, Mutation};
use crate::tuning::{Limits, Period};

/// The shortest pause before the attempt that follows an uncounted restart: no limit ends a row of those.
const UNCOUNTED_PAUSE_MIN: Duration = Duration::from_secs(10);
/// The longest pause that repeated uncounted restarts come to, where `retryPausePeriod` is shorter.
const UNCOUNTED_PAUSE_MAX: Duration = Duration::from_mins(10);

/// The pause before the next attempt, from the moment everything is gone.
///
/// `retryPausePeriod`; after an uncounted restart at least 10 s, and it doubles with each uncounted
/// restart in a row that never became ready, since nothing else bounds those.
#[must_use]
pub fn pause(status: &AppWrapperStatus, limits: &Limits) -> Duration {
    of_uncounted(status, limits).unwrap_or(limits.retry_pause.as_duration())
}

/// The pause after what ended last; none where that is counted.
pub(super) fn of_uncounted(status: &AppWrapperStatus, limits: &Limits) -> Option<Duration> {
    uncounted(closed(status), limits)
}

/// The entries up to that of the attempt that ended last; none where it ended without a failure: whoever resumes it does
/// not wait for the pause of an older restart.
fn closed(status: &AppWrapperStatus) -> &[Attempt] {
    let is_closed = status.attempts.last().is_some_and(|last| last.action.is_some());
    if is_closed { &status.attempts } else { &[] }
}

/// The pause after the last of these entries; none where it is counted.
fn uncounted(entries: &[Attempt], limits: &Limits) -> Option<Duration> {
    if !attempts::is_uncounted(entries) {
        return None;
    }
    if mutations::is_present(Mutation::NoFloorOfUncounted) {
        return Some(Duration::ZERO);
    }
    let base = limits.retry_pause.as_duration().max(UNCOUNTED_PAUSE_MIN);
    let doublings = attempts::uncounted_in_a_row(entries) - 1;
    let pause = base.saturating_mul(2_u32.saturating_pow(doublings));
    Some(pause.min(UNCOUNTED_PAUSE_MAX.max(base)))
}

/// When the pause of an uncounted restart ends, where everything is gone since a moment; none where it is counted.
#[must_use]
pub fn after_uncounted(
    status: &AppWrapperStatus,
    limits: &Limits,
    gone: Timestamp,
) -> Option<Timestamp> {
    let pause = of_uncounted(status, limits)?;
    Some(Period::from_duration(pause).after(gone))
}

/// The pause before the component of this index is created again; none where its last recreation is counted, and where it
/// was not recreated in the attempt that runs.
pub(super) fn of_component(draft: &Draft<'_>, index: usize) -> Option<Duration> {
    let (snapshot, status) = (draft.facts.snapshot, &draft.status);
    let number = attempts::current(status);
    let is_its = |entry: &Attempt| {
        let failed = entry.failure.as_ref().and_then(|failure| failure.component.as_deref());
        entry.attempt == number
            && entry.action == Some(AttemptAction::RecreateComponent)
            && failed.and_then(|name| snapshot.component_named(name)) == Some(index)
    };
    let last = status.attempts.iter().rposition(is_its)?;
    uncounted(&status.attempts[..=last], draft.facts.limits)
}

/// When the next attempt may begin, where everything is gone since a moment; none where it need not wait.
///
/// A retry policy's delay runs from the failure, and takes the place of the pause.
#[must_use]
pub fn until(status: &AppWrapperStatus, limits: &Limits, gone: Timestamp) -> Option<Timestamp> {
    let delayed = status.retry_after.as_ref().map(|time| time.0);
    let pause = pause(status, limits);
    delayed.or_else(|| (!pause.is_zero()).then(|| Period::from_duration(pause).after(gone)))
}

/// Seconds until the next attempt while something still exists: what is left of a retry policy's delay,
/// else the whole pause.
pub(super) fn left(draft: &Draft<'_>) -> i64 {
    match &draft.status.retry_after {
        Some(until) => until.0.as_second().saturating_sub(draft.facts.now.as_second()).max(0),
        None => seconds(pause(&draft.status, draft.facts.limits)),
    }
}

/// A duration in whole seconds, rounded up: what is promised must not be over too early.
pub(super) fn seconds(duration: Duration) -> i64 {
    let up = u64::from(duration.subsec_nanos() > 0);
    i64::try_from(duration.as_secs().saturating_add(up)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{AttemptOutcome, Phase};
    use crate::decide::tests::given::{at, given};
    use crate::tuning::Period;

    #[test]
    fn only_counted_restarts_may_come_at_once() {
        let ready = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)));
        for (action, ready_at, own, want) in [
            (AttemptAction::Restart, None, 0, [0, 0, 0]),
            (AttemptAction::Restart, None, 90, [90, 90, 90]),
            (AttemptAction::RestartIgnoringLimit, ready.clone(), 0, [10, 10, 10]),
            (AttemptAction::RestartIgnoringLimit, None, 0, [10, 20, 40]),
            (AttemptAction::RestartIgnoringLimit, None, 3, [10, 20, 40]),
            (AttemptAction::RestartIgnoringLimit, None, 90, [90, 180, 360]),
            (AttemptAction::RestartIgnoringLimit, ready, 3600, [3600, 3600, 3600]),
        ] {
            let limits = given(Phase::Resetting).limits;
            let limits = Limits { retry_pause: Period::from_secs(own), ..limits };
            let attempt = Attempt { action: Some(action), ready_at, ..Attempt::default() };
            let found = [1, 2, 3].map(|count| {
                let status = AppWrapperStatus {
                    attempts: vec![attempt.clone(); count],
                    ..AppWrapperStatus::default()
                };
                pause(&status, &limits).as_secs()
            });
            assert_eq!(found, want, "{action:?} {own}");
        }
    }

    #[test]
    fn what_is_suspended_between_uncounted_restarts_ends_no_row() {
        let limits = given(Phase::Resetting).limits;
        let uncounted =
            Attempt { action: Some(AttemptAction::RestartIgnoringLimit), ..Attempt::default() };
        let suspended = Attempt { outcome: Some(AttemptOutcome::Suspended), ..Attempt::default() };
        let ready_at = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)));
        let ran = Attempt { ready_at, ..suspended.clone() };
        for (what, attempts, want) in [
            ("it never ran", vec![&uncounted, &suspended, &uncounted], (180, Some(180))),
            ("… twice", vec![&uncounted, &suspended, &suspended, &uncounted], (180, Some(180))),
            ("it ran", vec![&uncounted, &ran, &uncounted], (90, Some(90))),
            ("it is what ended last", vec![&uncounted, &uncounted, &suspended], (90, None)),
            ("… and had run", vec![&uncounted, &uncounted, &ran], (90, None)),
        ] {
            let attempts = attempts.into_iter().cloned().collect();
            let status = AppWrapperStatus { attempts, ..AppWrapperStatus::default() };
            let after = after_uncounted(&status, &limits, at(0));
            let after = after.map(|until| until.as_second() - at(0).as_second());
            assert_eq!((pause(&status, &limits).as_secs(), after), want, "{what}");
        }
    }
}
