//! The phases that delete: quota or the finalizer is released only once everything is gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::deletion::{condition_since, delete_remaining, deleting_since};
use super::draft::Draft;
use super::edges::{
    Active, Alive, At, Failed, Move, Resetting, Resuming, Succeeded, Suspended, Suspending,
    Terminating,
};
use super::orphans::{self, Orphans};
use super::{VerdictAction, attempts, over_quota, pause, phases, requeue, retry, steps};
use crate::api::condition::{self, deleting};
use crate::api::{AttemptOutcome, Phase, RuleSource, Since};
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead};
use crate::snapshot::Pod;

/// The object is being deleted: from any phase but Terminating.
pub(super) fn delete_requested(here: At<Alive>, draft: &mut Draft<'_>) -> Move {
    if !draft.status.attempts.is_empty() || deployed(draft) {
        attempts::outcome(draft, AttemptOutcome::Deleted);
    }
    begin(draft, "Terminating");
    draft.verdict.action = VerdictAction::Delete;
    draft.verdict.delete = deletable(draft);
    "The AppWrapper is being deleted".clone_into(&mut draft.verdict.message);
    here.to::<Terminating>()
}

/// `suspend` is true: from any phase that holds quota.
pub(super) fn suspend_requested(here: At<Active>, draft: &mut Draft<'_>) -> Move {
    end_on_request(draft, "Suspending", "spec.suspend is true");
    here.to::<Suspending>()
}

/// Ends an attempt because somebody asks for it. Whoever resumes it means now, but a pause does not end because Kueue
/// releases the quota and reserves it again. Source: `docs/user/policies.md#delay`.
pub(super) fn end_on_request(draft: &mut Draft<'_>, reason: &str, message: &str) {
    attempts::outcome(draft, AttemptOutcome::Suspended);
    let pauses = draft.facts.snapshot.status.phase == Phase::Resetting && requeue::is_queued(draft);
    draft.status.retry_after = if pauses { pause_left(draft).map(Time) } else { None };
    begin(draft, reason);
    draft.verdict.action = VerdictAction::Delete;
    draft.verdict.delete = deletable(draft);
    message.clone_into(&mut draft.verdict.message);
}

/// Until when a retry policy delays the next attempt, or the pause of an uncounted restart, which nothing else bounds: at
/// least so long where something still exists, see [`pause_from_now`].
fn pause_left(draft: &Draft<'_>) -> Option<Timestamp> {
    let status = &draft.status;
    let gone = status.since.as_ref().and_then(|since| since.gone.as_ref());
    let gone = gone.map_or(draft.facts.now, |gone| gone.0);
    let delayed = status.retry_after.as_ref().map(|until| until.0);
    delayed.or_else(|| pause::after_uncounted(status, draft.facts.limits, gone))
}

/// Deletes everything, waits for the retry pause and while it is inactive, then resumes.
pub(super) fn resetting(here: At<Resetting>, draft: &mut Draft<'_>) -> Move {
    let since = draft.status.since.as_ref();
    let Some(gone) = since.and_then(|since| since.gone.as_ref()).map(|t| t.0) else {
        draft.verdict.retry_after_seconds = Some(pause::left(draft));
        if mutations::is_present(Mutation::RequeueEarly) && requeue::release_quota(draft) {
            return here.stay();
        }
        if !mutations::is_present(Mutation::AttemptsOverlap) && !delete_remaining(draft) {
            return here.stay();
        }
        attempts::end(draft);
        let then =
            if requeue::is_inactive(draft) { "" } else { "; pausing before the next attempt" };
        finish(draft, "Resetting", &format!("All resources are deleted{then}"));
        let begin = pause_start(draft);
        draft.status.since = Some(Since { gone: Some(Time(begin)), ..Since::default() });
        requeue::all_gone(draft, begin);
        return paused(here, draft, begin);
    };
    paused(here, draft, gone)
}

/// When the pause began, once [`finish`] has said that everything is gone: now, or before where another controller
/// has said so.
fn pause_start(draft: &Draft<'_>) -> Timestamp {
    if mutations::is_present(Mutation::ForgetAnchor) {
        return deleting_since(draft);
    }
    condition::since(&draft.status.conditions, condition::RESOURCES_DEPLOYED)
        .filter(|changed| *changed < draft.facts.now)
        .unwrap_or(draft.facts.anchor)
}

fn paused(here: At<Resetting>, draft: &mut Draft<'_>, gone: Timestamp) -> Move {
    if requeue::release_quota(draft) {
        return here.stay();
    }
    let until = pause::until(&draft.status, draft.facts.limits, gone);
    if let Some(until) = until.filter(|until| draft.facts.now < *until)
        && !mutations::is_present(Mutation::NoPause)
    {
        // what a leader that had lost its lease created after everything was gone would run until the next attempt
        if orphans::sweep(draft, Orphans::Any) {
            draft.look_again(until);
        } else {
            draft.wait(until);
        }
        draft.verdict.reason = Some("Resetting".to_owned());
        let left = until.as_second() - draft.facts.now.as_second();
        draft.verdict.retry_after_seconds = Some(left);
        "Pausing before the next attempt".clone_into(&mut draft.verdict.message);
        return here.stay();
    }
    draft.verdict.retry_after_seconds = None;
    if phases::resume(draft, "All resources are deleted; the next attempt begins") {
        here.to::<Resuming>()
    } else {
        here.stay()
    }
}

/// Deletes everything, then releases the quota.
pub(super) fn suspending(here: At<Suspending>, draft: &mut Draft<'_>) -> Move {
    let grows = retry::is_growth_due(draft);
    let is_early = grows && mutations::is_present(Mutation::GrowthEarly);
    if !is_early && !delete_remaining(draft) {
        return here.stay();
    }
    if grows {
        // Not before everything is gone: Kueue deletes the Workload as soon as the templates have another size, whether
        // pods are left or not, and admits others in its place.
        let suspend = draft.facts.snapshot.queue_managed;
        draft.act(Action::GrowMemory { suspend });
        retry::GROWING.clone_into(&mut draft.verdict.message);
        return here.stay();
    }
    pause_from_now(draft);
    retry::end_growth(draft);
    let message = if draft.facts.snapshot.suspend {
        "spec.suspend is true; all resources are deleted"
    } else {
        "All resources are deleted" // for memory that the API server refused
    };
    attempts::end(draft);
    finish(draft, "Suspended", message);
    draft.condition(condition::QUOTA_RESERVED, false, "Suspended", message);
    draft.clear(condition::PODS_READY, "Suspended", "");
    draft.clear(condition::UNHEALTHY, "Suspended", "");
    draft.status.since = None;
    message.clone_into(&mut draft.verdict.message);
    here.to::<Suspended>()
}

/// Everything is gone: the pause of an uncounted restart that Kueue's eviction interrupted during the deletion begins now,
/// and that of a retry with more memory, which Kueue has to admit again. One that was under way at the eviction goes on, and
/// so does the delay of a retry policy. Source: `docs/user/policies.md#delay`.
fn pause_from_now(draft: &mut Draft<'_>) {
    let status = &draft.status;
    // Resetting says so in the entry; `ResourcesDeployed` is True in this phase, whatever exists
    let was_gone = status.attempts.last().is_some_and(|last| last.ended_at.is_some());
    let needs_memory = !status.pending_memory.is_empty() && requeue::is_queued(draft);
    if status.retry_after.is_none() && needs_memory && !was_gone {
        let until = pause::until(status, draft.facts.limits, draft.facts.anchor);
        draft.status.retry_after = until.map(Time);
        return;
    }
    let rule = status.attempts.last().and_then(|last| last.rule.as_ref());
    let is_delay = rule.is_some_and(|rule| rule.source == RuleSource::RetryPolicy);
    let Some(until) = status.retry_after.clone().filter(|_| !is_delay) else { return };
    let pause = pause::after_uncounted(status, draft.facts.limits, draft.facts.anchor);
    if let Some(later) = pause.filter(|_| !was_gone) {
        draft.status.retry_after = Some(Time(until.0.max(later)));
    }
}

/// Pods that run, or may: none is left where a success was decided by the pods, and quota is released.
fn has_live_pods(draft: &Draft<'_>) -> bool {
    draft.facts.snapshot.pods.iter().any(Pod::uses_quota)
}

/// Done: the components are kept for `successTTL`; nothing runs on, whoever wrote the phase.
pub(super) fn succeeded(here: At<Succeeded>, draft: &mut Draft<'_>) -> Move {
    if nothing_deployed(draft) {
        orphans::sweep(draft, Orphans::Any);
        return here.stay();
    }
    let since = draft.status.since.as_ref();
    if since.is_none_or(|since| since.deleting.is_none()) {
        let succeeded = since.and_then(|since| since.succeeded.as_ref()).map(|time| time.0);
        let from = succeeded
            .or_else(|| condition::since(&draft.status.conditions, condition::QUOTA_RESERVED))
            .unwrap_or(draft.facts.now);
        let until = draft.facts.limits.success_ttl.after(from);
        let is_kept = !draft.facts.limits.success_ttl.is_zero() && draft.facts.now < until;
        let lives = has_live_pods(draft);
        if is_kept && lives && draft.facts.snapshot.answered < FreshRead::Pods {
            draft.ask(FreshRead::Pods);
            return here.stay();
        }
        if is_kept && !lives {
            if orphans::sweep(draft, Orphans::Unrecorded) {
                draft.look_again(until);
                return here.stay();
            }
            draft.wait(until);
            draft.verdict.reason = Some("Succeeded".to_owned());
            "Keeping the resources until successTTLDuration expires"
                .clone_into(&mut draft.verdict.message);
            return here.stay();
        }
        if is_kept {
            draft.warn(
                "PodsRunAfterSuccess",
                "Pods ran after the AppWrapper had succeeded: all resources are deleted",
            );
        }
        begin(draft, "Succeeded");
    }
    if delete_remaining(draft) {
        finish(draft, "Succeeded", &format!("{}; all resources are deleted", why_deleted(draft)));
        draft.status.since = None;
    }
    here.stay()
}

/// Why the resources of what has succeeded are deleted.
fn why_deleted(draft: &Draft<'_>) -> &'static str {
    let ttl = draft.facts.limits.success_ttl;
    let is_early = draft.status.since.as_ref().is_some_and(|since| {
        let times = since.succeeded.as_ref().zip(since.deleting.as_ref());
        times.is_some_and(|(succeeded, deleting)| deleting.0 < ttl.after(succeeded.0))
    });
    if is_early {
        "Pods ran after the AppWrapper had succeeded"
    } else {
        "successTTLDuration expired"
    }
}

/// Given up: the components are kept for `deletionOnFailureGracePeriod`, then they go.
pub(super) fn failed(here: At<Failed>, draft: &mut Draft<'_>) -> Move {
    let holds_quota = condition::is_true(&draft.status.conditions, condition::QUOTA_RESERVED);
    if nothing_deployed(draft) && !holds_quota {
        orphans::sweep(draft, Orphans::Any);
        return here.stay();
    }
    if let Some(until) = kept_until(draft).filter(|until| draft.facts.now < *until) {
        if orphans::sweep(draft, Orphans::Unrecorded) {
            draft.look_again(until);
            return here.stay();
        }
        draft.wait(until);
        draft.verdict.reason = Some(deleting::PAUSED.to_owned());
        "Keeping the resources until deletionOnFailureGracePeriod expires"
            .clone_into(&mut draft.verdict.message);
        return here.stay();
    }
    if draft.status.since.as_ref().is_none_or(|since| since.deleting.is_none()) {
        begin(draft, "Failed");
    }
    if delete_remaining(draft) {
        let message = "The AppWrapper failed; all resources are deleted";
        attempts::end(draft);
        finish(draft, "Failed", message);
        draft.condition(condition::QUOTA_RESERVED, false, "Failed", message);
        draft.status.since = None;
    }
    here.stay()
}

/// Until when a failed AppWrapper keeps its components; `None` once they are being deleted, where it is suspended, and where
/// it runs more pods than were admitted and that is to end.
fn kept_until(draft: &Draft<'_>) -> Option<Timestamp> {
    let since = draft.status.since.as_ref();
    let holds_quota = condition::is_true(&draft.status.conditions, condition::QUOTA_RESERVED);
    if draft.facts.snapshot.suspend
        || since.is_some_and(|since| since.deleting.is_some())
        || !holds_quota && has_live_pods(draft)
        || over_quota::is_to_end(draft)
    {
        return None;
    }
    let failed = since.and_then(|since| since.failed.as_ref()).map(|time| time.0);
    let from = failed
        .or_else(|| condition::since(&draft.status.conditions, condition::UNHEALTHY))
        .unwrap_or(draft.facts.now);
    Some(draft.facts.limits.deletion_on_failure_grace.after(from))
}

/// Everything goes, then the object itself. Where finalizers of others keep it, the quota goes before: Kueue asks the status.
pub(super) fn terminating(here: At<Terminating>, draft: &mut Draft<'_>) -> Move {
    if delete_remaining(draft) || mutations::is_present(Mutation::FinalizerEarly) {
        if draft.facts.snapshot.has_other_finalizers && (deployed(draft) || reserves_quota(draft)) {
            attempts::end(draft);
            let message =
                "All resources are deleted; waiting for the other finalizers of the AppWrapper";
            finish(draft, "Terminating", message);
            draft.condition(condition::QUOTA_RESERVED, false, "Terminating", message);
            let gone = Some(draft.anchor());
            draft.status.since = Some(Since { gone, ..Since::default() });
            return here.stay();
        }
        draft.act(Action::RemoveFinalizer);
        "All resources are deleted; removing the finalizer".clone_into(&mut draft.verdict.message);
    }
    here.stay()
}

/// Starts a deletion: the condition, and the anchor, which an earlier start keeps.
pub(super) fn begin(draft: &mut Draft<'_>, reason: &str) {
    draft.clear(condition::PODS_READY, reason, "");
    draft.clear(condition::UNDETERMINED_PODS, reason, "");
    remember_objects(draft, false);
    draft.status.component_status.iter_mut().for_each(steps::went);
    let begun = condition_since(draft).map(Time);
    let message = "The components are being deleted";
    draft.condition(condition::DELETING_RESOURCES, true, deleting::INITIATED, message);
    let anchor = Some(draft.anchor());
    let stored = draft.status.since.take().unwrap_or_default();
    draft.status.since = Some(Since {
        deleting: stored.deleting.or(begun).or(anchor),
        ignored_pods: vec![],
        gone: None,
        deployed: None,
        pod_sets: vec![],
        failed_pods: None,
        failed: stored.failed,
        succeeded: stored.succeeded,
    });
}

/// Writes down the UIDs of objects of which nothing is written yet, since others are still to be created or another controller
/// created them: once they are gone, only this tells whose their pods were. The Go controller deletes what is said to be there.
///
/// While they are kept, those that the Go controller has started, and said to be there without a UID, stay as they are: with a
/// UID, the pods of the template count, and Kueue would suspend what it has admitted with other counts.
fn remember_objects(draft: &mut Draft<'_>, are_kept: bool) {
    let now = draft.facts.now;
    for (index, component) in draft.facts.snapshot.components.iter().enumerate() {
        let Some(object) = component.ours() else { continue };
        let status = &mut draft.component_status()[index];
        let kind = condition::RESOURCES_DEPLOYED;
        if are_kept && condition::is_true(&status.conditions, kind) {
            continue;
        }
        status.uid.get_or_insert_with(|| object.uid.clone());
        if condition::find(&status.conditions, kind).is_none() {
            let reason = "ComponentCreatedSuccessfully";
            condition::set(&mut status.conditions, kind, true, reason, "", now);
        }
    }
}

/// Starts the deletion of a failed AppWrapper, or its delay.
pub(super) fn begin_after_failure(draft: &mut Draft<'_>) {
    let grace = draft.facts.limits.deletion_on_failure_grace;
    if grace.is_zero() || draft.facts.snapshot.suspend {
        begin(draft, "Failed");
        draft.verdict.delete = deletable(draft);
    } else {
        draft.clear(condition::UNDETERMINED_PODS, "Failed", "");
        remember_objects(draft, true);
        draft.status.component_status.iter_mut().for_each(steps::went);
        let message = format!(
            "Deletion begins {grace} after the AppWrapper failed (deletionOnFailureGracePeriod)"
        );
        draft.condition(condition::DELETING_RESOURCES, false, deleting::PAUSED, &message);
    }
}

/// Ends a deletion: nothing exists any more.
fn finish(draft: &mut Draft<'_>, reason: &str, message: &str) {
    draft.condition(condition::RESOURCES_DEPLOYED, false, reason, message);
    let now = draft.facts.now;
    for status in draft.component_status() {
        // the Go controller creates nothing where it is said to be there
        let kind = condition::RESOURCES_DEPLOYED;
        if condition::is_true(&status.conditions, kind) {
            condition::set(&mut status.conditions, kind, false, "ComponentDeleted", "", now);
        }
    }
    draft.clear(condition::DELETING_RESOURCES, deleting::COMPLETE, message);
    message.clone_into(&mut draft.verdict.message);
}

/// Components of which an object of ours exists that is not Terminating: their indexes.
pub(super) fn deletable(draft: &Draft<'_>) -> Vec<usize> {
    let components = draft.facts.snapshot.components.iter().enumerate();
    let alive =
        components.filter(|(_, each)| each.ours().is_some_and(|object| !object.terminating));
    alive.map(|(index, _)| index).collect()
}

fn deployed(draft: &Draft<'_>) -> bool {
    condition::is_true(&draft.status.conditions, condition::RESOURCES_DEPLOYED)
}

fn reserves_quota(draft: &Draft<'_>) -> bool {
    condition::is_true(&draft.status.conditions, condition::QUOTA_RESERVED)
}

/// Whether it was said that nothing exists any more; that it was never said means nothing.
fn nothing_deployed(draft: &Draft<'_>) -> bool {
    condition::find(&draft.status.conditions, condition::RESOURCES_DEPLOYED)
        .is_some_and(|condition| condition.status != "True")
}
