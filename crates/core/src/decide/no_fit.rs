//! `onNoFit`: pods that cannot be scheduled although Kueue has admitted them end the attempt, and no retry is used.
//!
//! ```text
//! Running ─ a pod is unschedulable for `after` ─▶ Resetting ─ everything is gone ─┬─ Hold: pause ─▶ Resuming
//!                                                                                 └─ Requeue ─▶ Workload inactive
//!   Kueue suspends ─▶ Suspending ─▶ Suspended: no quota ─ pause ─▶ Workload active: back in the queue
//! ```
//!
//! [`requeue`](super::requeue) releases the quota.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::edges::{At, Edge, Move, Resetting};
use super::health::PodSetHealth;
use super::problem::Problem;
use super::steps::{self, ComponentStage};
use super::{attempts, pause, recovery, requeue, resolve, retry, teardown};
use crate::api::condition::unhealthy;
use crate::api::{AttemptAction, AttemptOutcome, NoFitAction, Requeue};
use crate::mutations::{self, Mutation};
use crate::plan::FreshRead;
use crate::policies::NoFitRule;
use crate::snapshot::Pod;
use crate::tuning::Period;

/// The rule in force; none where Kueue does not manage the AppWrapper in this cluster, and where the administrator
/// allows no restart of any kind.
fn rule(draft: &Draft<'_>) -> Option<NoFitRule> {
    let snapshot = draft.facts.snapshot;
    let allowed =
        requeue::is_queued(draft) && draft.facts.config.retry_policy.global_max_retries > 0;
    let rule = snapshot.policies.no_fit.filter(|_| allowed)?;
    Some(NoFitRule {
        after: rule.after.min(draft.facts.config.fault_tolerance.grace_maximum),
        ..rule
    })
}

/// A pod set all pods of which exist, and of which some cannot be scheduled: since when.
fn unschedulable_since<'a>(
    draft: &Draft<'a>,
    health: &PodSetHealth<'a>,
) -> Option<(Timestamp, &'a Pod)> {
    let is_up = steps::standing(draft, health.component) == ComponentStage::Up;
    if health.ready() || !is_up || !health.waits() {
        return None;
    }
    let since = |pod: &&'a Pod| Some((refused_at(draft, pod)?, *pod));
    health.waiting.iter().filter_map(since).min_by_key(|(at, pod)| (*at, &pod.name))
}

/// Since when the scheduler finds no node for a pod.
fn refused_at(draft: &Draft<'_>, pod: &Pod) -> Option<Timestamp> {
    let condition = pod.conditions.iter().find(|condition| {
        let is_refused = condition.kind == "PodScheduled" && condition.status == "False";
        is_refused && condition.reason == "Unschedulable"
    })?;
    let now = draft.facts.now;
    Some(condition.since.or(pod.created).map_or(now, |at| at.min(now)))
}

/// Whether `onNoFit` decides about pods that exist and do not run: some cannot be scheduled, and those of other pod sets may
/// wait for them.
pub fn applies(draft: &Draft<'_>, pod_sets: &[PodSetHealth<'_>]) -> bool {
    rule(draft).is_some() && pod_sets.iter().any(|set| unschedulable_since(draft, set).is_some())
}

/// From when on pods have time to run that have not run since a moment: the time that a pod of the attempt had no node
/// belongs to `onNoFit`, up to its `after`.
pub fn warms_up_from(draft: &Draft<'_>, since: Timestamp) -> Timestamp {
    let Some(NoFitRule { after, .. }) = rule(draft) else { return since };
    // one that has ended was late all the same
    let without_node = attempts::pods(draft.facts.snapshot).filter_map(|pod| {
        let scheduled = pod.true_condition("PodScheduled")?.since?.min(draft.facts.now);
        let from = pod.created.map_or(since, |created| created.max(since));
        Duration::try_from(scheduled.duration_since(from)).ok()
    });
    let longest = without_node.max().map(Period::from_duration);
    longest.map_or(since, |longest| longest.min(after).after(since))
}

/// Pods of a pod set that cannot be scheduled.
pub fn problem<'a>(draft: &Draft<'a>, health: &PodSetHealth<'a>) -> Option<Problem<'a>> {
    let NoFitRule { after, action } = rule(draft)?;
    let (since, pod) = unschedulable_since(draft, health)?;
    let until = after.after(since);
    let problem = Problem::of_pod(draft.facts, pod, unhealthy::NO_FIT);
    let component = draft.facts.snapshot.components[health.component].title();
    Some(Problem {
        message: format!(
            "{component}: {} of {} pods are running in pod set {}; {}",
            health.running,
            health.expected,
            health.name(),
            problem.message
        ),
        failed_at: since,
        unhealthy_from: Some(until),
        deadline: Some(until),
        no_fit: Some(action),
        ..problem
    })
}

/// Ends the attempt when `after` has passed.
pub fn resolve<'a, P>(
    here: At<P>,
    draft: &mut Draft<'a>,
    problem: &Problem<'a>,
    action: NoFitAction,
) -> Move
where
    P: Edge<Resetting>,
{
    if problem.deadline.is_some_and(|until| draft.facts.now < until) {
        resolve::wait(draft, problem, problem.deadline);
        return here.stay();
    }
    if draft.facts.snapshot.answered < FreshRead::Pods {
        draft.ask(FreshRead::Pods);
        return here.stay();
    }
    let (recorded, then) = match action {
        NoFitAction::Hold => (AttemptAction::Hold, "Restarting with the quota reserved"),
        NoFitAction::Requeue => (AttemptAction::Requeue, "Returning to the queue"),
    };
    resolve::record(draft, problem, recorded, AttemptOutcome::NoFit);
    if mutations::is_present(Mutation::NoFitIsCounted) {
        super::budget::count(&mut draft.status, 1);
    }
    // what an earlier retry asked for holds no more: the node that it avoids may be the only one with room
    retry::prepare(draft, problem, None, false);
    draft.verdict.counted = Some(false);
    draft.verdict.delete = teardown::deletable(draft);
    draft.verdict.retry_after_seconds = Some(pause::left(draft));
    if action == NoFitAction::Requeue {
        let attempt = attempts::current(&draft.status);
        draft.status.requeue = Some(Requeue { attempt, active_after: None });
    }
    let text = format!("{then} (onNoFit): {}", problem.message);
    if !draft.reword(problem.reason, &problem.message, &text) {
        draft.warn(problem.reason, text);
    }
    teardown::begin(draft, "Resetting");
    match action {
        NoFitAction::Hold => recovery::warn_if_too_late(draft),
        NoFitAction::Requeue => {} // its quota goes back in any case
    }
    here.to::<Resetting>()
}
