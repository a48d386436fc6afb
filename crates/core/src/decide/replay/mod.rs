//! What the policies as they are now would have decided about the failures of the recorded attempts.
//!
//! ```text
//! status.attempts[].failure ─ Evidence ─▶ Case ─▶ policy::rule ─▶ Ruling ─ counts of the replay ─▶ next
//!                                └─ Doubts: judged both ways ─▶ assumptions
//! ```
//!
//! The stages are the controller's own. A record is less than what the controller saw: of all pods and
//! containers it holds the first cause alone, and of a pod's component not why that failed. What a rule
//! asks beyond that is not guessed: it is said how it was judged, and what would be decided otherwise.
//!
//! Counts are those of the replay: a restart that the policies count now is counted, whatever was counted
//! then. What was counted before the first attempt that is recorded (only the last
//! [`ATTEMPTS_MAX`](super::ATTEMPTS_MAX) are kept) is taken over: `status.resettingCount` without the
//! counted restarts of the attempts that are recorded, `status.uncountedRestarts` without the uncounted
//! ones, and `status.retryCounts` likewise, by the names of policy and rule. Grace periods, and pods that
//! recover within them, are not replayed: each failure is taken as one that had come to be decided about.

mod ambiguity;
mod evaluate;
mod record;

use super::policy::{Ruling, RulingAction, decider};
use super::{Facts, attempts, budget, incidents, pause, retry};
use crate::api::{
    AppWrapperStatus, Attempt, AttemptAction, AttemptOutcome, Budget, FailureRecord, Retries,
    RetryCount, RuleRef, RuleSource,
};
use evaluate::{FailureReplay, ReplayDecision};

/// Every recorded failure, decided again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// One for each attempt that failed, in order.
    pub failures: Vec<Replayed>,
    /// Counted restarts that were taken over from before the first attempt that is recorded.
    pub before: i32,
}

/// One failure, decided again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The attempt as it was recorded.
    pub recorded: Attempt,
    /// Its failure.
    pub failure: FailureRecord,
    /// What is decided now; nothing where it is no failure any more.
    pub action: Option<AttemptAction>,
    /// The rule that names the action.
    pub rule: Option<RuleRef>,
    /// The limit that is asked, with the counts of the replay.
    pub retries: Option<Retries>,
    /// How long the next attempt is delayed, in seconds: since the failure where a retry policy has a
    /// backoff, else since everything is gone; of a component that is created again, since that is gone.
    pub retry_after_seconds: Option<i64>,
    /// It would have come to this attempt: none before would have been the last.
    pub reached: bool,
    /// Why, naming the rule.
    pub reason: String,
    /// How what the record does not hold is judged.
    pub assumptions: Vec<String>,
    /// Whether it is decided differently is unknown: it depends on which other components failed.
    pub unknown: bool,
}

impl Replayed {
    /// Whether action or rule are others than those that are recorded. Where nothing is recorded of a
    /// decision, nothing differs, and what is unknown does not; numbers alone make no difference.
    #[must_use]
    pub fn differs(&self) -> bool {
        !self.unknown
            && self.recorded.action.is_some()
            && (self.action != self.recorded.action || self.rule != self.recorded.rule)
    }

    /// Whether the restart is counted; nothing where there is none.
    #[must_use]
    pub fn counted(&self) -> Option<bool> {
        match self.action? {
            AttemptAction::Restart => Some(true),
            // no limit is asked where the same incident was counted before
            AttemptAction::RecreateComponent => Some(self.retries.is_some()),
            AttemptAction::RestartIgnoringLimit | AttemptAction::Hold | AttemptAction::Requeue => {
                Some(false)
            }
            AttemptAction::Fail => None,
        }
    }
}

/// Decides again about every failure in `status.attempts`, with the current policies.
#[must_use]
pub fn replay(facts: Facts<'_>) -> Replay {
    let mut status = before(&facts.snapshot.status);
    let mut replay = Replay { failures: vec![], before: status.resetting_count };
    let mut reached = true;
    for attempt in &facts.snapshot.status.attempts {
        status.attempts.push(attempt.clone());
        let Some(failure) = &attempt.failure else { continue };
        let is_no_fit = attempt.outcome == Some(AttemptOutcome::NoFit);
        let is_refilled = !is_no_fit && refill(facts, &mut status, attempt);
        let one = FailureReplay::of(facts, &status, attempt, failure);
        let decision = one.judge();
        if is_no_fit && !decision.rule().is_some_and(|rule| rule.overrides) {
            continue; // `onNoFit` decides about it
        }
        let mut assumptions = one.assumptions(&decision);
        if is_refilled {
            assumptions
                .push("pods were running without interruption: retries were given back".into());
        }
        count(&mut status, &decision);
        let (action, rule) = (decision.action(), decision.rule());
        let mut replayed = Replayed {
            recorded: attempt.clone(),
            failure: failure.clone(),
            action,
            rule,
            retries: decision.ruling().and_then(|ruling| ruling.retries),
            retry_after_seconds: delay(facts, &status, &decision),
            reached,
            reason: decision.sentence(failure),
            assumptions,
            unknown: one.depends_on_others(&decision),
        };
        if replayed.unknown || replayed.differs() {
            replayed.reason += &format!("; recorded: {}", recorded(attempt));
        }
        if !reached {
            replayed.reason = format!("would not have happened; {}", replayed.reason);
        }
        reached &= action != Some(AttemptAction::Fail);
        replay.failures.push(replayed);
    }
    replay
}

/// What was counted before the first attempt that is recorded.
fn before(status: &AppWrapperStatus) -> AppWrapperStatus {
    let last = status.attempts.len().saturating_sub(1);
    // an action missing from an edited record was a restart, or there would be no next attempt
    let is_counted = |(index, attempt): &(usize, &Attempt)| match attempt.action {
        Some(AttemptAction::Restart) => true,
        Some(AttemptAction::RecreateComponent) => attempt.retries.is_some(),
        Some(
            AttemptAction::RestartIgnoringLimit
            | AttemptAction::Fail
            | AttemptAction::Hold
            | AttemptAction::Requeue,
        ) => false,
        None => attempt.failure.is_some() && *index < last,
    };
    let recorded = status.attempts.iter().enumerate().filter(is_counted).count();
    let entries = (0..status.attempts.len()).map(|index| &status.attempts[..=index]);
    let free = entries.filter(|entries| is_free(entries)).count();
    let uses = |entry: &RetryCount| {
        let by_it = |attempt: &&Attempt| {
            attempt.action == Some(AttemptAction::Restart)
                && attempt.rule.as_ref().is_some_and(|rule| {
                    rule.source == RuleSource::RetryPolicy
                        && rule.policy.as_ref() == Some(&entry.policy)
                        && rule.name.as_deref().unwrap_or_default() == entry.rule
                })
        };
        status.attempts.iter().filter(by_it).count()
    };
    let less =
        |all: i32, some: usize| all.saturating_sub(i32::try_from(some).unwrap_or(i32::MAX)).max(0);
    let retry_counts = status.retry_counts.iter().map(|entry| {
        let count = less(entry.count, uses(entry));
        RetryCount { count, ..entry.clone() }
    });
    // what was given back between recorded attempts is given back again
    let budget = status.budget.as_ref().map(|budget| Budget {
        used: less(budget.used, recorded),
        global_used: less(budget.global_used, recorded),
        since: budget.since.clone(),
    });
    AppWrapperStatus {
        budget,
        resetting_count: less(status.resetting_count, recorded),
        uncounted_restarts: less(status.uncounted_restarts, free),
        retry_counts: retry_counts.filter(|entry| entry.count > 0).collect(),
        ..AppWrapperStatus::default()
    }
}

/// Whether the last of these entries is in `status.uncountedRestarts`.
fn is_free(entries: &[Attempt]) -> bool {
    entries.last().is_some_and(|last| match last.action {
        Some(AttemptAction::RestartIgnoringLimit) => !incidents::is_repeated(entries),
        Some(AttemptAction::RecreateComponent) => attempts::is_uncounted(entries),
        Some(
            AttemptAction::Restart
            | AttemptAction::Fail
            | AttemptAction::Hold
            | AttemptAction::Requeue,
        )
        | None => false,
    })
}

/// Gives back what the readiness of an attempt earned; whether that is anything. When the pods were ready first is
/// recorded, and that they stayed so is assumed.
fn refill(facts: Facts<'_>, status: &mut AppWrapperStatus, attempt: &Attempt) -> bool {
    let (Some(ready), Some(failed)) = (&attempt.ready_at, &attempt.failed_at) else { return false };
    budget::give_back(status, facts, ready.0, failed.0)
}

/// Writes down what is decided, as the controller does.
fn count(status: &mut AppWrapperStatus, decision: &ReplayDecision) {
    let action = decision.action();
    let free = action == Some(AttemptAction::RestartIgnoringLimit)
        || decision.ruling().is_some_and(Ruling::is_uncounted);
    if free && !incidents::is_repeated(&status.attempts) {
        status.uncounted_restarts = status.uncounted_restarts.max(0).saturating_add(1);
    }
    if let Some(last) = status.attempts.last_mut() {
        last.action = action;
        last.retries = decision.ruling().and_then(|ruling| ruling.retries);
    }
    let counted = action == Some(AttemptAction::Restart)
        || decision.ruling().is_some_and(|ruling| {
            matches!(ruling.action, RulingAction::RecreateComponent(_)) && ruling.retries.is_some()
        });
    if counted {
        budget::count(status, 1);
    }
    let retry = decision.ruling().and_then(|ruling| ruling.retry.as_ref());
    if let Some(retry) = retry.filter(|_| counted) {
        retry::count(&mut status.retry_counts, retry);
    }
}

/// How long the next attempt is delayed, in seconds, or a component that is created again, uncounted.
fn delay(facts: Facts<'_>, status: &AppWrapperStatus, decision: &ReplayDecision) -> Option<i64> {
    match decision.action()? {
        AttemptAction::Restart | AttemptAction::RestartIgnoringLimit => {
            let backoff = decision.ruling().and_then(|ruling| ruling.retry.as_ref()?.delay);
            Some(pause::seconds(backoff.unwrap_or_else(|| pause::pause(status, facts.limits))))
        }
        AttemptAction::RecreateComponent => {
            pause::of_uncounted(status, facts.limits).map(pause::seconds)
        }
        AttemptAction::Fail | AttemptAction::Hold | AttemptAction::Requeue => None,
    }
}

/// What was decided then, and by what.
fn recorded(attempt: &Attempt) -> String {
    let action = match attempt.action {
        Some(AttemptAction::Restart) => "a restart",
        Some(AttemptAction::RestartIgnoringLimit) => "an uncounted restart",
        Some(AttemptAction::RecreateComponent) => "the component recreated",
        Some(AttemptAction::Fail) => "failure",
        Some(AttemptAction::Hold) => "Hold",
        Some(AttemptAction::Requeue) => "Requeue",
        None => "nothing",
    };
    let by = attempt.rule.as_ref().map_or_else(|| "no rule".to_owned(), decider);
    format!("{action} by {by}")
}

#[cfg(test)]
mod tests;
