//! `stopWhen`: a failure that the workload itself causes is not retried. Asked in place of a counted restart.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::{Case, Ruling, RulingAction};
use crate::api::{Attempt, AttemptAction, AttemptProgress, FailureRecord, RuleRef, RuleSource};
use crate::decide::progress;
use crate::mutations::{self, Mutation};
use crate::policies::StopWhen;
use crate::tuning::Period;

/// Category of such a failure.
pub const POISON: &str = "poison";

/// Fails where the `stopWhen` of the deciding RetryPolicy, or that of `failurePolicy`, holds.
#[must_use]
pub fn rule(case: &Case<'_>, ruling: Ruling) -> Ruling {
    let is_counted = match ruling.action {
        RulingAction::Restart => true,
        RulingAction::RecreateComponent(_) => ruling.retries.is_some(),
        RulingAction::RestartIgnoringLimit | RulingAction::Fail => false,
    };
    if !is_counted || case.charged || mutations::is_present(Mutation::StopWhenUnasked) {
        return ruling;
    }
    let snapshot = case.facts.snapshot;
    let deciding = ruling.retry.as_ref().and_then(|retry| {
        snapshot.retry.policies.iter().find(|policy| policy.name == retry.policy)
    });
    let of_policy = deciding.map(|policy| (Some(&policy.name), policy.budget.stop_when));
    let all = of_policy.into_iter().chain([(None, snapshot.policies.budget.stop_when)]);
    let mut found = all.filter_map(|(policy, stop)| Some((policy, evidence(case, stop?)?)));
    let Some((policy, evidence)) = found.next() else { return ruling };
    let rule = RuleRef { policy: policy.cloned(), ..RuleRef::plain(RuleSource::StopWhen) };
    Ruling::failed(rule, None, Some(evidence))
}

/// What shows that the workload itself is at fault, in words.
fn evidence(case: &Case<'_>, stop: StopWhen) -> Option<String> {
    let failures = without_progress(case, stop.progress_after);
    let count = failures.len();
    if stop.attempts.is_some_and(|most| count >= most) {
        let attempts =
            if count == 1 { "1 attempt".into() } else { format!("{count} attempts in a row") };
        let progress = if is_reported(case) {
            "without a newer step than before".to_owned()
        } else {
            format!("before pods were running for {}", stop.progress_after)
        };
        return Some(format!("{attempts} failed {progress}"));
    }
    let last = failures.first()?;
    let code = last.exit_code.filter(|code| *code != 0)?;
    let nodes: BTreeSet<&str> = failures
        .iter()
        .filter(|each| is_same(each, last))
        .filter_map(|each| each.node.as_deref())
        .collect();
    if stop.nodes.is_none_or(|most| nodes.len() < most) {
        return None;
    }
    let container = last.container.as_deref().unwrap_or_default();
    let category = last.category.as_deref().unwrap_or_default();
    let nodes: Vec<&str> = nodes.into_iter().collect();
    Some(format!(
        "container {container} exited with code {code} ({category}) on {} nodes: {}",
        nodes.len(),
        nodes.join(", ")
    ))
}

fn is_same(one: &FailureRecord, other: &FailureRecord) -> bool {
    (&one.category, &one.container, one.exit_code)
        == (&other.category, &other.container, other.exit_code)
}

/// The counted failures since the last attempt that made progress, the latest first. Attempts that ended otherwise, and
/// failures that no limit counts, say nothing.
fn without_progress<'a>(case: &Case<'a>, progress_after: Period) -> Vec<&'a FailureRecord> {
    let entries = &case.facts.snapshot.status.attempts;
    let current = entries.len().saturating_sub(1);
    let mut failures = vec![];
    let has_progressed = |index: usize, ended: Timestamp| {
        if is_reported(case) {
            has_got_further(case, index)
        } else {
            was_ready_for(&entries[index], ended, progress_after)
        }
    };
    if current < entries.len() && has_progressed(current, case.failed_at) {
        return failures;
    }
    failures.push(case.failure);
    for (index, entry) in entries.iter().enumerate().take(current).rev() {
        // how long the pods of a suspended attempt were there says nothing; how far they got does
        let suspended = entry.ended_at.as_ref().filter(|_| is_reported(case));
        let ended = entry.failed_at.as_ref().or(suspended);
        if ended.is_some_and(|ended| has_progressed(index, ended.0)) {
            break;
        }
        let is_counted = match entry.action {
            Some(AttemptAction::Restart) => true,
            Some(AttemptAction::RecreateComponent) => entry.retries.is_some(),
            Some(
                AttemptAction::RestartIgnoringLimit
                | AttemptAction::Fail
                | AttemptAction::Hold
                | AttemptAction::Requeue,
            )
            | None => false,
        };
        failures.extend(entry.failure.as_ref().filter(|_| is_counted));
    }
    failures
}

/// What is known of the progress of an attempt: recorded, or as its pods report it.
fn progress_of(case: &Case<'_>, index: usize) -> Option<AttemptProgress> {
    let entries = &case.facts.snapshot.status.attempts;
    let recorded = entries.get(index)?.progress.clone();
    recorded.or_else(|| (index + 1 == entries.len()).then(|| progress::recorded(case.facts))?)
}

/// Whether the progress of any attempt is known in steps or percent: then readiness alone is none.
fn is_reported(case: &Case<'_>) -> bool {
    let is_measured = |one: AttemptProgress| one.step.is_some() || one.percent.is_some();
    let count = case.facts.snapshot.status.attempts.len();
    case.facts.snapshot.policies.progress.is_some()
        && (0..count).any(|index| progress_of(case, index).is_some_and(is_measured))
}

/// Whether an attempt got further than every one before it: to a later step or, where it reported none, to a larger
/// percentage.
fn has_got_further(case: &Case<'_>, index: usize) -> bool {
    let Some(own) = progress_of(case, index) else { return false };
    let earlier = (0..index).filter_map(|earlier| progress_of(case, earlier));
    let further = |of: fn(&AttemptProgress) -> Option<i64>| {
        of(&own).map(|own| earlier.clone().filter_map(|one| of(&one)).all(|one| one < own))
    };
    further(|one| one.step).or_else(|| further(|one| one.percent)).unwrap_or(false)
}

/// Whether the pods of an attempt were ready for long enough before it ended.
fn was_ready_for(entry: &Attempt, ended: Timestamp, progress_after: Period) -> bool {
    let ready = |Time(ready): &Time| progress_after.after(*ready) <= ended;
    entry.ready_at.as_ref().is_some_and(ready)
}
