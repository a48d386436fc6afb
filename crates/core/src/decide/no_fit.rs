//! `onNoFit`: pods that cannot be scheduled although Kueue has admitted them end the attempt, and no retry is used.
//!
//! ```text
//! Running ─ a pod is unschedulable for `after` ─▶ Resetting ─ everything is gone ─┬─ Hold: pause ─▶ Resuming
//!                                                                                 └─ Requeue ─▶ Workload inactive
//!   Kueue suspends ─▶ Suspending ─▶ Suspended: no quota ─ pause ─▶ Workload active: back in the queue
//! ```
//!
//! `status.requeue` records a return that is under way; the annotation of the Workload says that it was we who
//! deactivated it, and for which attempt. Each step follows from the two, and may be repeated. A Workload that somebody
//! else has deactivated is left as it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::edges::{At, Edge, Move, Resetting};
use super::health::PodSetHealth;
use super::problem::Problem;
use super::steps::{self, ComponentStage};
use super::{VerdictAction, attempts, pause, resolve, teardown};
use crate::api::condition::unhealthy;
use crate::api::{AttemptAction, AttemptOutcome, NoFitAction, Requeue};
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead};
use crate::policies::NoFitRule;
use crate::snapshot::Pod;
use crate::snapshot::workload::{Workload, WorkloadRead};
use crate::tuning::Period;

/// Reason of the event about a return to the queue that is not possible.
const REQUEUE_FAILED: &str = "RequeueFailed";
/// How often the Workload is read while Kueue is expected to act: it is not watched.
const POLL: Period = Period::from_secs(5);
/// The same where it cannot be read.
const POLL_REFUSED: Period = Period::from_secs(60);

/// The rule in force; none where Kueue does not manage the AppWrapper in this cluster, and where the administrator
/// allows no restart of any kind.
fn rule(draft: &Draft<'_>) -> Option<NoFitRule> {
    let snapshot = draft.facts.snapshot;
    let is_queued = snapshot.queue_managed && !snapshot.has_manager;
    let allowed = is_queued && draft.facts.config.retry_policy.global_max_retries > 0;
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
    if health.ready() || !is_up || health.there < health.expected {
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

/// Whether `onNoFit` decides about the lack of running pods in a pod set.
pub fn applies(draft: &Draft<'_>, health: &PodSetHealth<'_>) -> bool {
    rule(draft).is_some() && unschedulable_since(draft, health).is_some()
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
    let (recorded, said, then) = match action {
        NoFitAction::Hold => (AttemptAction::Hold, VerdictAction::Hold, "Trying again"),
        NoFitAction::Requeue => {
            (AttemptAction::Requeue, VerdictAction::Requeue, "Returning to the queue")
        }
    };
    resolve::record(draft, problem, recorded, AttemptOutcome::NoFit);
    if mutations::is_present(Mutation::NoFitIsCounted) {
        super::budget::count(&mut draft.status, 1);
    }
    // the node that is avoided may be the only one with room
    draft.status.avoid_nodes.clear();
    draft.verdict.action = said;
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
    here.to::<Resetting>()
}

/// Everything is gone: notes from when on the Workload may be active again.
pub fn all_gone(draft: &mut Draft<'_>, gone: Timestamp) {
    let until = pause::until(&draft.status, draft.facts.limits, gone);
    if let Some(requeue) = &mut draft.status.requeue {
        requeue.active_after = until.map(Time);
    }
}

/// Whether a Workload was deactivated for this return.
fn is_our_own(workload: &Workload, requeue: &Requeue) -> bool {
    !workload.active && workload.deactivated_for.as_deref() == Some(&requeue.attempt.to_string())
}

/// Resetting, and everything is gone: has the Workload deactivated, so that Kueue takes the quota back. False where
/// there is nothing to return, or the return is given up: the pause follows.
pub fn give_back(draft: &mut Draft<'_>) -> bool {
    let Some(requeue) = draft.status.requeue.clone() else { return false };
    let snapshot = draft.facts.snapshot;
    draft.verdict.action = VerdictAction::Requeue;
    "Returning to the queue: Kueue takes the quota back".clone_into(&mut draft.verdict.message);
    let refused = match &snapshot.workload {
        WorkloadRead::NotRead => {
            draft.ask_workload();
            return true;
        }
        WorkloadRead::Found(workload) if is_our_own(workload, &requeue) || workload.evicted => {
            draft.look_again(POLL.after(draft.facts.now)); // Kueue suspends it
            return true;
        }
        WorkloadRead::Found(workload) if workload.active => {
            draft.act(Action::SwitchWorkload { workload: workload.clone(), active: false });
            return true;
        }
        WorkloadRead::Found(workload) => format!("Workload {} is not active", workload.name),
        WorkloadRead::Absent => "Kueue has no Workload for it".to_owned(),
        WorkloadRead::Refused(why) => why.clone(),
    };
    draft.warn(REQUEUE_FAILED, format!("Cannot return to the queue, the quota is kept: {refused}"));
    draft.verdict.action = VerdictAction::None;
    draft.status.requeue = None;
    false
}

/// Suspended: has the Workload activated again after the pause, if it was we who deactivated it. True while that is not
/// done.
pub fn return_to_queue(draft: &mut Draft<'_>) -> bool {
    let Some(requeue) = draft.status.requeue.clone() else { return false };
    let (snapshot, now) = (draft.facts.snapshot, draft.facts.now);
    if mutations::is_present(Mutation::RequeueForgotten) {
        draft.status.requeue = None;
        return false;
    }
    "Returning to the queue".clone_into(&mut draft.verdict.message);
    match &snapshot.workload {
        WorkloadRead::NotRead => draft.ask_workload(),
        WorkloadRead::Refused(why) if snapshot.suspend => {
            draft.verdict.message = format!("Cannot return to the queue yet: {why}");
            draft.look_again(POLL_REFUSED.after(now));
        }
        WorkloadRead::Found(workload) if is_our_own(workload, &requeue) => {
            let until = requeue.active_after.map(|until| until.0).filter(|until| now < *until);
            if let Some(until) = until.filter(|_| snapshot.suspend) {
                draft.wait(until);
                "Pausing before the return to the queue".clone_into(&mut draft.verdict.message);
            } else if workload.holds_quota {
                draft.look_again(POLL.after(now)); // Kueue has not taken the quota back yet
            } else {
                draft.act(Action::SwitchWorkload { workload: workload.clone(), active: true });
            }
        }
        // it is active, another has deactivated it, or it is gone
        WorkloadRead::Found(_) | WorkloadRead::Absent | WorkloadRead::Refused(_) => {
            draft.status.requeue = None;
            draft.verdict.message.clear();
            return false;
        }
    }
    true
}
