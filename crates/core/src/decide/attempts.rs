//! The recorded attempts (`status.attempts[]`): each entry is opened and closed with the phases.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::draft::Draft;
use super::{incidents, progress};
use crate::api::{AppWrapperStatus, Attempt, AttemptAction, AttemptOutcome};
pub use crate::price::ATTEMPTS_MAX;
use crate::snapshot::{Component, Pod, Snapshot};

/// Number of the attempt that runs, or ran last; 0 where none is recorded.
#[must_use]
pub fn current(status: &AppWrapperStatus) -> i32 {
    status.attempts.last().map_or(0, |last| last.attempt)
}

/// Whether a pod or an object is of the attempt that runs, by the number that it carries; one without a number was made by
/// the Go controller, and is.
#[must_use]
pub fn is_current(status: &AppWrapperStatus, made: Option<i32>) -> bool {
    made.is_none_or(|number| number == current(status))
}

/// The pods of the attempt that runs.
pub fn pods(snapshot: &Snapshot) -> impl Iterator<Item = &Pod> + Clone {
    let attempt = current(&snapshot.status);
    snapshot.pods.iter().filter(move |pod| pod.attempt.is_none_or(|number| number == attempt))
}

/// Whether something is there that a later attempt than the status knows of has made: then another
/// process has written the status since it was read.
#[must_use]
pub fn shows_later(snapshot: &Snapshot) -> bool {
    let known = current(&snapshot.status);
    let objects = snapshot.components.iter().filter_map(Component::ours);
    let mut made = objects.map(|o| o.attempt).chain(snapshot.pods.iter().map(|pod| pod.attempt));
    made.any(|attempt| attempt.is_some_and(|attempt| attempt > known))
}

/// Opens the next attempt; its number grows with every teardown.
pub fn open(draft: &mut Draft<'_>) {
    // everything of the last number there is is gone when the first is used again
    let next = |last: &Attempt| last.attempt.checked_add(1).unwrap_or(0);
    let number = draft.status.attempts.last().map_or(0, next);
    push(draft, number);
}

/// Opens an entry of this number: the next attempt's, or that of the same one after a component of it
/// was created again.
pub fn push(draft: &mut Draft<'_>, number: i32) {
    let started_at = Some(Time(draft.facts.now));
    let attempts = &mut draft.status.attempts;
    attempts.push(Attempt { attempt: number, started_at, ..Attempt::default() });
    while attempts.len() > ATTEMPTS_MAX {
        attempts.remove(least_telling(attempts));
    }
}

/// The entry that is given up for a new one: the oldest without a failure, else the oldest. What suspensions leave must
/// not push out the failures that `stopWhen` compares, or anybody could do so by suspending and resuming.
fn least_telling(attempts: &[Attempt]) -> usize {
    let earlier = attempts.len().saturating_sub(1);
    attempts[..earlier].iter().position(|attempt| attempt.failure.is_none()).unwrap_or(0)
}

/// The entry of the attempt that runs; made for an AppWrapper of the Go controller, which has none.
pub fn last<'d>(draft: &'d mut Draft<'_>) -> &'d mut Attempt {
    let started_at = draft.status.since.as_ref().and_then(|since| since.deployed.clone());
    let attempts = &mut draft.status.attempts;
    if attempts.is_empty() {
        attempts.push(Attempt { started_at, ..Attempt::default() });
    }
    let index = attempts.len() - 1;
    &mut attempts[index]
}

/// Says how the attempt ended, and how far it got, unless that is already said.
pub fn outcome(draft: &mut Draft<'_>, outcome: AttemptOutcome) {
    let progress = progress::recorded(draft.facts);
    let entry = last(draft);
    if entry.outcome.is_none() {
        entry.outcome = Some(outcome);
        entry.progress = progress;
    }
}

/// Says that nothing of the attempt exists any more, unless that is already said.
pub fn end(draft: &mut Draft<'_>) {
    let now = Time(draft.facts.now);
    last(draft).ended_at.get_or_insert(now);
}

/// Says that every expected pod of every component was there, unless that is already said.
pub fn ready(draft: &mut Draft<'_>) {
    let now = Time(draft.facts.now);
    last(draft).ready_at.get_or_insert(now);
}

/// Whether the last of these entries ended in something that no limit counts: a restart, or the recreation of a
/// component that is not about an incident which was counted before.
pub fn is_uncounted(entries: &[Attempt]) -> bool {
    entries.last().is_some_and(|last| match last.action {
        Some(
            AttemptAction::RestartIgnoringLimit | AttemptAction::Hold | AttemptAction::Requeue,
        ) => true,
        Some(AttemptAction::RecreateComponent) => {
            last.retries.is_none() && !incidents::is_repeated(entries)
        }
        Some(AttemptAction::Restart | AttemptAction::Fail) | None => false,
    })
}

/// How many uncounted restarts there were in a row, the last of these closed entries included: those that never became
/// ready. An attempt that was suspended before it became ready does not end the row. At least 1.
pub fn uncounted_in_a_row(entries: &[Attempt]) -> u32 {
    let tells = |index: &usize| {
        let entry = &entries[*index];
        entry.outcome != Some(AttemptOutcome::Suspended) || entry.ready_at.is_some()
    };
    let run = (0..entries.len())
        .rev()
        .filter(tells)
        .take_while(|index| is_uncounted(&entries[..=*index]) && entries[*index].ready_at.is_none())
        .count();
    u32::try_from(run).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Phase;
    use crate::decide::tests::given::given;
    use crate::snapshot::PodPhase;

    #[test]
    fn what_a_later_attempt_made_tells_that_the_status_is_old() {
        let resetting = || given(Phase::Resetting).pods(&[PodPhase::Running]);
        for (made, want) in [(None, false), (Some(0), false), (Some(1), true)] {
            let object = resetting().object(|object| object.attempt = made);
            assert_eq!(shows_later(&object.snapshot), want, "an object of {made:?}");
            let pod = resetting().pod(0, |pod| pod.attempt = made);
            assert_eq!(shows_later(&pod.snapshot), want, "a pod of {made:?}");
        }
    }
}
