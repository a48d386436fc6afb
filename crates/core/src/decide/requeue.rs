//! Gives the quota of an AppWrapper back to Kueue, and takes the AppWrapper back to its queue: after `onNoFit`, and for
//! as long as its annotation `active` is false.
//!
//! ```text
//! Resetting: everything is gone ─▶ Workload inactive: Kueue suspends ─▶ Suspending ─▶ Suspended: no quota
//! Suspended ─ after the pause (onNoFit), or once `active` is true ─▶ Workload active: back in the queue
//! ```
//!
//! Kueue takes the quota of a Workload that is deactivated at once: it is deactivated only when nothing runs any more.
//! `status.requeue` records a return that is under way; the annotation of the Workload says that it was we who
//! deactivated it, and for which attempt. Each step follows from the two, and may be repeated. A Workload that somebody
//! else has deactivated is left as it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::edges::{At, Edge, Move, Resetting};
use super::orphans::{self, Orphans};
use super::{VerdictAction, attempts, pause, teardown};
use crate::api::{AttemptAction, NoFitAction, Requeue, keys};
use crate::mutations::{self, Mutation};
use crate::plan::Action;
use crate::snapshot::workload::{Workload, WorkloadRead};
use crate::tuning::Period;

/// Reason of the event about a return to the queue that is not possible.
const REQUEUE_FAILED: &str = "RequeueFailed";
/// How often the Workload is read while Kueue is expected to act: it is not watched.
const POLL: Period = Period::from_secs(5);
/// The same where it cannot be read.
const POLL_REFUSED: Period = Period::from_secs(60);

/// Whether Kueue manages the AppWrapper in this cluster.
pub fn is_queued(draft: &Draft<'_>) -> bool {
    draft.facts.snapshot.is_queued()
}

/// Whether the annotation `active` keeps the AppWrapper from running. In a worker cluster of MultiKueue it does not: the
/// annotation is a copy that nobody changes any more.
pub fn is_inactive(draft: &Draft<'_>) -> bool {
    let is_asked = draft.facts.limits.active == Some(false) && !draft.facts.snapshot.has_manager;
    is_asked && !mutations::is_present(Mutation::InactiveRuns)
}

/// Ends the attempt where the annotation `active` is false: everything is deleted, and then the quota is given back.
///
/// # Errors
/// The move to Resetting, if it is false.
pub fn end_inactive<P>(here: At<P>, draft: &mut Draft<'_>) -> Result<At<P>, Move>
where
    P: Edge<Resetting>,
{
    if !is_inactive(draft) {
        return Ok(here);
    }
    teardown::end_on_request(draft, "Deactivated", &said());
    Err(here.to::<Resetting>())
}

/// Why it does not run.
fn said() -> String {
    format!("Annotation {} is false", keys::ACTIVE)
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
    let is_marked = workload.deactivated_for.as_deref() == Some(&requeue.attempt.to_string());
    !workload.active && (is_marked || mutations::is_present(Mutation::AnyDeactivationTrusted))
}

/// Resetting, and everything is gone: has the Workload deactivated, so that Kueue releases the quota. False where
/// there is nothing to return, or the return is given up: the pause follows.
pub fn release_quota(draft: &mut Draft<'_>) -> bool {
    // what a leader that had lost its lease created after everything was gone: no attempt will follow that finds it
    if is_inactive(draft) && orphans::sweep(draft, Orphans::Any) {
        return true;
    }
    if !is_queued(draft) {
        draft.status.requeue = None; // nobody releases the quota any more
    }
    if draft.status.requeue.is_none() {
        return stay_inactive(draft);
    }
    let snapshot = draft.facts.snapshot;
    draft.verdict.action = VerdictAction::Handle(AttemptAction::Requeue);
    let why = if is_inactive(draft) { said() } else { "Returning to the queue".to_owned() };
    draft.verdict.message = format!("{why}: Kueue releases the quota");
    let refused = match &snapshot.workload {
        WorkloadRead::NotRead => {
            draft.ask_workload();
            return true;
        }
        WorkloadRead::Found(workload) if workload.finished => "its Workload is finished",
        WorkloadRead::Found(workload) if workload.active && !workload.evicted => {
            if is_withdrawn(draft) {
                draft.status.requeue = None;
                return false;
            }
            draft.act(Action::SwitchWorkload { workload: workload.clone(), active: false });
            return true;
        }
        // we or somebody else deactivated it, or Kueue evicts it: Kueue suspends the AppWrapper
        WorkloadRead::Found(_) => {
            draft.look_again(POLL.after(draft.facts.now));
            return true;
        }
        WorkloadRead::Absent => "the AppWrapper has no Workload",
        WorkloadRead::Refused(why) => why.as_str(),
    };
    let text = if is_inactive(draft) {
        format!("{}, but the quota stays reserved: {refused}", said())
    } else {
        format!("Cannot return to the queue; the quota stays reserved: {refused}")
    };
    draft.warn(REQUEUE_FAILED, text);
    draft.verdict.action = VerdictAction::None;
    draft.status.requeue = None;
    is_inactive(draft)
}

/// Whether the return was for the annotation alone, which asks for none any more.
fn is_withdrawn(draft: &Draft<'_>) -> bool {
    let last = draft.status.attempts.last().and_then(|attempt| attempt.action);
    !is_inactive(draft) && last != Some(AttemptAction::Requeue)
}

/// Whether it is suspended although no return is under way, and was returned before: a leader of the past may have
/// deactivated its Workload since.
fn may_be_forgotten(draft: &Draft<'_>) -> bool {
    let snapshot = draft.facts.snapshot;
    let returns = snapshot.policies.no_fit.is_some_and(|rule| rule.action == NoFitAction::Requeue);
    let returned = returns && !draft.status.attempts.is_empty();
    let used = returned || draft.facts.limits.active.is_some();
    used && snapshot.suspend && is_queued(draft)
}

/// Suspended, and no return is under way: takes up the one of a Workload that a leader of the past has deactivated. True
/// while that is not known, or one is.
fn recall(draft: &mut Draft<'_>) -> bool {
    if !may_be_forgotten(draft) {
        return false;
    }
    match &draft.facts.snapshot.workload {
        WorkloadRead::NotRead => draft.ask_workload(),
        WorkloadRead::Found(Workload { active: false, deactivated_for: Some(mark), .. }) => {
            let Ok(attempt) = mark.parse() else { return false };
            draft.status.requeue = Some(Requeue { attempt, active_after: None });
        }
        WorkloadRead::Found(workload)
            if !workload.active && mutations::is_present(Mutation::AnyDeactivationTrusted) =>
        {
            let attempt = attempts::current(&draft.status);
            draft.status.requeue = Some(Requeue { attempt, active_after: None });
        }
        WorkloadRead::Found(_) | WorkloadRead::Absent | WorkloadRead::Refused(_) => return false,
    }
    true
}

/// Nothing runs, and no return is under way: where the annotation `active` is false, nothing is created, and one begins
/// with a Workload that is active. False where it is not.
fn stay_inactive(draft: &mut Draft<'_>) -> bool {
    if !is_inactive(draft) {
        return false;
    }
    draft.verdict.message = said();
    if !is_queued(draft) {
        return true;
    }
    match &draft.facts.snapshot.workload {
        WorkloadRead::NotRead => draft.ask_workload(),
        WorkloadRead::Found(workload) if workload.active && !workload.finished => {
            let attempt = attempts::current(&draft.status);
            draft.status.requeue = Some(Requeue { attempt, active_after: None });
        }
        // one that Kueue creates later is deactivated once Kueue admits it
        WorkloadRead::Found(_) | WorkloadRead::Absent => {}
        WorkloadRead::Refused(why) => {
            draft.verdict.message += &format!(", but the quota stays reserved: {why}");
            draft.look_again(POLL_REFUSED.after(draft.facts.now));
        }
    }
    true
}

/// Suspended: has the Workload activated again after the pause, if it was we who deactivated it, and deactivated where
/// the annotation `active` is false. True while that is not done.
pub fn return_to_queue(draft: &mut Draft<'_>) -> bool {
    if !is_queued(draft) && draft.status.requeue.is_some() {
        // Kueue admits a Workload whatever becomes of the label, and then neither suspends nor finishes what has none. The
        // label may come back.
        if !draft.facts.snapshot.suspend {
            draft.status.requeue = None;
        }
        return stay_inactive(draft);
    }
    let Some(requeue) = draft.status.requeue.clone() else {
        return stay_inactive(draft) || recall(draft);
    };
    let (snapshot, now) = (draft.facts.snapshot, draft.facts.now);
    if mutations::is_present(Mutation::RequeueForgotten) {
        draft.status.requeue = None;
        return false;
    }
    let is_inactive = is_inactive(draft);
    draft.verdict.message = if is_inactive { said() } else { "Returning to the queue".to_owned() };
    match &snapshot.workload {
        WorkloadRead::NotRead => draft.ask_workload(),
        WorkloadRead::Refused(why) if snapshot.suspend => {
            draft.verdict.message = format!("Cannot return to the queue yet: {why}");
            draft.look_again(POLL_REFUSED.after(now));
        }
        WorkloadRead::Found(workload) if is_our_own(workload, &requeue) => {
            let until = requeue.active_after.map(|until| until.0).filter(|until| now < *until);
            if is_inactive {
                // until the annotation changes
            } else if let Some(until) = until.filter(|_| snapshot.suspend) {
                draft.wait(until);
                "Pausing before the return to the queue".clone_into(&mut draft.verdict.message);
            } else if workload.holds_quota {
                draft.look_again(POLL.after(now)); // Kueue has not released the quota yet
            } else {
                draft.act(Action::SwitchWorkload { workload: workload.clone(), active: true });
            }
        }
        WorkloadRead::Found(workload) if workload.active && is_inactive => {
            draft.act(Action::SwitchWorkload { workload: workload.clone(), active: false });
        }
        // another has activated it: with our mark, a later deactivation by others would be taken for ours
        WorkloadRead::Found(workload) if workload.active && workload.deactivated_for.is_some() => {
            draft.act(Action::SwitchWorkload { workload: workload.clone(), active: true });
        }
        // it is active, another has deactivated it, or it is gone
        WorkloadRead::Found(_) | WorkloadRead::Absent | WorkloadRead::Refused(_) => {
            draft.status.requeue = None;
            draft.verdict.message.clear();
            return is_inactive;
        }
    }
    true
}
