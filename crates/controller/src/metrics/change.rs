//! The metrics of a status update: computed from the old status, the new one and the time. Pure.

use k8s_openapi::jiff::Timestamp;

use crate::api::condition::{self, unhealthy};
use crate::api::{AppWrapperStatus, Attempt, AttemptAction, AttemptOutcome, Phase, RuleSource};

/// The metrics of a status update. Durations are in whole seconds: the API stores no finer times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The phase before and after, where it changed.
    pub phase: Option<(Phase, Phase)>,
    /// The failures that were handled.
    pub failures: Vec<Failure>,
    /// How attempts ended.
    pub outcomes: Vec<AttemptOutcome>,
    /// How many counted restarts began, the recreation of a component included.
    pub counted_restarts: u32,
    /// How many uncounted restarts began, the recreation of a component included.
    pub uncounted_restarts: u32,
    /// Whether counted restarts were given back.
    pub is_refilled: bool,
    /// How many failed pods `podFailurePolicy` ignored.
    pub ignored_failures: u32,
    /// From the end of the failed container, or the failure of the component, to `Unhealthy`.
    pub detection: Option<u64>,
    /// From `DeletingResources` until all resources were gone.
    pub teardown: Option<u64>,
    /// From the moment all resources were gone to the next attempt.
    pub pause: Option<u64>,
    /// From the beginning of an attempt until every expected pod was Running or Succeeded.
    pub start: Option<u64>,
}

/// A failure that was handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was done.
    pub action: AttemptAction,
    /// The source of the decision; none for a restart because of Autopilot, for `onNoFit`, and for a component that can
    /// never be created.
    pub source: Option<RuleSource>,
    /// The failure category; none if no pod has one.
    pub category: Option<String>,
}

impl Change {
    /// What the write of a status tells, at the moment of the write.
    #[must_use]
    pub fn of(old: &AppWrapperStatus, new: &AppWrapperStatus, now: Timestamp) -> Self {
        let pairs = pairs(&old.attempts, &new.attempts);
        let newly = |field: fn(&Attempt) -> bool| {
            let fits = move |(old, new): &&(Option<&Attempt>, &Attempt)| {
                field(new) && !old.is_some_and(field)
            };
            pairs.iter().filter(fits).map(|(_, new)| *new)
        };
        Self {
            phase: (old.phase != new.phase).then_some((old.phase, new.phase)),
            failures: newly(|attempt| attempt.action.is_some()).filter_map(failure).collect(),
            outcomes: newly(|attempt| attempt.outcome.is_some())
                .filter_map(|attempt| attempt.outcome)
                .collect(),
            counted_restarts: growth(old.resetting_count, new.resetting_count),
            uncounted_restarts: growth(old.uncounted_restarts, new.uncounted_restarts),
            is_refilled: refilled(new).is_some() && refilled(new) != refilled(old),
            ignored_failures: growth(old.ignored_failures, new.ignored_failures),
            detection: detection(
                old,
                new,
                newly(|attempt| attempt.failed_at.is_some()).next(),
                now,
            ),
            teardown: teardown(old, new, now),
            pause: pause(old, new, now),
            start: newly(|attempt| attempt.ready_at.is_some())
                .find(|attempt| !continues_another(attempt, &new.attempts))
                .and_then(|attempt| seconds(attempt.started_at.as_ref()?.0, now)),
        }
    }

    /// What it tells that the finalizer was removed: the status itself is not written any more.
    #[must_use]
    pub fn removal(last: &AppWrapperStatus, now: Timestamp) -> Self {
        let mut gone = last.clone();
        gone.conditions.clear();
        Self { teardown: teardown(last, &gone, now), ..Self::default() }
    }
}

/// When counted restarts were last given back.
fn refilled(status: &AppWrapperStatus) -> Option<Timestamp> {
    status.budget.as_ref().map(|budget| budget.since.0)
}

/// The attempts that one write may have changed: the one that was the last before, and one that was
/// opened after it. Each with what it was before.
fn pairs<'a>(old: &'a [Attempt], new: &'a [Attempt]) -> Vec<(Option<&'a Attempt>, &'a Attempt)> {
    let identity = |attempt: Option<&Attempt>| {
        attempt.map(|attempt| (attempt.attempt, attempt.started_at.clone()))
    };
    // only the newest are kept, so that the length alone does not tell
    let opened = new.len() > old.len() || identity(new.first()) != identity(old.first());
    let mut from_last = new.iter().rev();
    let mut pairs = vec![];
    if opened {
        pairs.extend(from_last.next().map(|opened| (None, opened)));
    }
    if let Some(before) = old.last() {
        pairs.extend(from_last.next().map(|after| (Some(before), after)));
    }
    pairs
}

/// Whether an entry tells of the rest of an attempt, after a component of it was created again.
fn continues_another(attempt: &Attempt, all: &[Attempt]) -> bool {
    all.iter().any(|other| {
        other.attempt == attempt.attempt
            && other.outcome == Some(AttemptOutcome::ComponentRecreated)
            && !std::ptr::eq(other, attempt)
    })
}

fn failure(attempt: &Attempt) -> Option<Failure> {
    Some(Failure {
        action: attempt.action?,
        source: attempt.rule.as_ref().map(|rule| rule.source),
        category: attempt.failure.as_ref().and_then(|failure| failure.category.clone()),
    })
}

/// Only failures whose moment an object tells: what is missing, or too little for too long, has none.
fn detection(
    old: &AppWrapperStatus,
    new: &AppWrapperStatus,
    failed: Option<&Attempt>,
    now: Timestamp,
) -> Option<u64> {
    let is_unhealthy = |status: &AppWrapperStatus| {
        condition::find(&status.conditions, condition::UNHEALTHY)
            .is_some_and(|found| found.status == "True" && tells_its_moment(&found.reason))
    };
    if is_unhealthy(old) || !is_unhealthy(new) {
        return None;
    }
    let decided = failed.and_then(|attempt| attempt.failed_at.as_ref());
    let awaited = new.since.as_ref().and_then(|since| since.failed_pods.as_ref());
    seconds(decided.or(awaited)?.0, now)
}

fn tells_its_moment(reason: &str) -> bool {
    [unhealthy::FOUND_FAILED_PODS, unhealthy::FAILED_COMPONENT].contains(&reason)
}

fn teardown(old: &AppWrapperStatus, new: &AppWrapperStatus, now: Timestamp) -> Option<u64> {
    let deletes = |status: &AppWrapperStatus| {
        condition::is_true(&status.conditions, condition::DELETING_RESOURCES)
    };
    if !deletes(old) || deletes(new) {
        return None;
    }
    seconds(condition::since(&old.conditions, condition::DELETING_RESOURCES)?, now)
}

/// None where everything was gone and the next attempt began in one write: that is no time at all.
fn pause(old: &AppWrapperStatus, new: &AppWrapperStatus, now: Timestamp) -> Option<u64> {
    if (old.phase, new.phase) != (Phase::Resetting, Phase::Resuming) {
        return None;
    }
    let gone = old.since.as_ref().and_then(|since| since.gone.as_ref());
    gone.map_or(Some(0), |gone| seconds(gone.0, now))
}

/// By how much a count of the status grew. A count below 0 is 0.
fn growth(old: i32, new: i32) -> u32 {
    let grown = i64::from(new.max(0)) - i64::from(old.max(0));
    u32::try_from(grown).unwrap_or(0)
}

/// Whole seconds between two moments. None where the first is not long ago but ahead by more than clocks
/// differ: then it tells nothing.
fn seconds(from: Timestamp, to: Timestamp) -> Option<u64> {
    const CLOCKS_DIFFER: i64 = 60;
    let passed = to.as_second().saturating_sub(from.as_second());
    (passed >= -CLOCKS_DIFFER).then(|| u64::try_from(passed).unwrap_or(0))
}
