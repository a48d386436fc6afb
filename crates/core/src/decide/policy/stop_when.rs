//! `stopWhen`: a failure that the workload itself causes is not retried. Asked in place of a counted restart.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::{Case, Ruling, RulingAction};
use crate::api::{Attempt, AttemptAction, FailureRecord, RuleRef, RuleSource};
use crate::decide::incidents;
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
    let evidence = Some(evidence);
    Ruling {
        action: RulingAction::Fail,
        rule,
        retries: None,
        by_rule: false,
        retry: None,
        evidence,
    }
}

/// What shows that the workload itself is at fault, in words.
fn evidence(case: &Case<'_>, stop: StopWhen) -> Option<String> {
    let failures = without_progress(case, stop.progress_after);
    let (count, progress) = (failures.len(), stop.progress_after);
    if stop.attempts.is_some_and(|most| count >= most) {
        let attempts =
            if count == 1 { "1 attempt".into() } else { format!("{count} attempts in a row") };
        return Some(format!("{attempts} failed before pods were ready for {progress}"));
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
    if let Some(last) = entries.last()
        && has_progressed(last, case.failed_at, progress_after)
    {
        return failures;
    }
    failures.push(case.failure);
    for (index, entry) in entries.iter().enumerate().take(current).rev() {
        let ended = entry.failed_at.as_ref().or(entry.ended_at.as_ref());
        if ended.is_some_and(|ended| has_progressed(entry, ended.0, progress_after)) {
            break;
        }
        let is_counted = match entry.action {
            Some(AttemptAction::Restart) => true,
            Some(AttemptAction::RecreateComponent) => !incidents::is_repeated(&entries[..=index]),
            Some(AttemptAction::RestartIgnoringLimit | AttemptAction::Fail) | None => false,
        };
        failures.extend(entry.failure.as_ref().filter(|_| is_counted));
    }
    failures
}

/// Whether the pods of an attempt were ready for long enough before it ended.
fn has_progressed(entry: &Attempt, ended: Timestamp, progress_after: Period) -> bool {
    let ready = |Time(ready): &Time| progress_after.after(*ready) <= ended;
    entry.ready_at.as_ref().is_some_and(ready)
}
