//! Deletes what exists: gracefully at first, then forcefully; the API server itself has to say that nothing is left.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::blockers::{blockers, name_blockers, waiting_for};
use super::draft::Draft;
use super::force_delete::{delete, fenced, force, force_due};
use super::{VerdictAction, over_quota, undetermined};
use crate::api::condition::{self, deleting};
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead, Target};
use crate::snapshot::{Component, Pod, Presence};
use crate::tuning::Period;

/// What blocks the deletion is reported after this time, or after a quarter of `forcefulDeletionGracePeriod` if that is
/// shorter.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// First and last interval at which a forceful deletion is tried again.
const RETRY_FORCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(1));
/// How late [`Mutation::DeleteLate`] begins.
const LATE: Period = Period::from_secs(10);

/// Requests the deletion of what is left, gracefully and then forcefully. True once a LIST has shown that nothing is.
pub(super) fn delete_remaining(draft: &mut Draft<'_>) -> bool {
    let snapshot = draft.facts.snapshot;
    let mut components = snapshot.components.iter();
    if mutations::is_present(Mutation::QuotaEarly)
        && components.clone().all(|each| each.ours().is_none())
    {
        return true;
    }
    if snapshot.pods.is_empty() && components.all(|component| component.ours().is_none()) {
        let confirmed =
            snapshot.answered == FreshRead::Gone || mutations::is_present(Mutation::CacheIsTruth);
        if !confirmed {
            draft.ask(FreshRead::Gone);
        }
        return confirmed && !undetermined::hold_back(draft);
    }
    // An object that the watch does not show, because its label was removed, creates new pods until it is
    // deleted.
    let unseen = |component: &Component| component.presence == Presence::Unseen;
    if snapshot.answered < FreshRead::Missing && snapshot.components.iter().any(unseen) {
        draft.ask(FreshRead::Missing); // not the pods: a LIST of a gang is dear, and some are known to be left
        return false;
    }
    // what is known of a node must be true now
    if snapshot.answered < FreshRead::Pods && fenced(draft).next().is_some() {
        draft.ask(FreshRead::Gone);
        return false;
    }
    let started = deleting_since(draft);
    let late_from = LATE.after(started);
    if mutations::is_present(Mutation::DeleteLate) && draft.facts.now < late_from {
        draft.look_again(late_from);
        return false;
    }
    let forced_from = forced_from(draft, started);
    let forced = draft.facts.now >= forced_from || mutations::is_present(Mutation::ForceAtOnce);
    if forced && snapshot.answered != FreshRead::Gone && pods_are_left_alone(draft) {
        draft.ask(FreshRead::Gone); // their owners outlived the components
        return false;
    }
    if !forced || mutations::is_present(Mutation::NeverForce) {
        delete_gracefully(draft, started, forced_from);
    } else {
        delete_forcefully(draft, forced_from);
    }
    false
}

/// Whether pods live on that are not being deleted, although every component is gone.
fn pods_are_left_alone(draft: &Draft<'_>) -> bool {
    let snapshot = draft.facts.snapshot;
    snapshot.components.iter().all(|component| component.ours().is_none())
        && snapshot.pods.iter().any(|pod| !pod.terminating)
}

/// When what still exists is deleted forcefully. Who runs more pods than were admitted has no longer for it than the
/// configuration gives to all, where that is to end.
fn forced_from(draft: &Draft<'_>, started: Timestamp) -> Timestamp {
    let own = draft.facts.limits.forceful_deletion_grace;
    let of_all = draft.facts.config.fault_tolerance.forceful_deletion_grace;
    let grace = if over_quota::is_to_end(draft) { own.min(of_all) } else { own };
    grace.after(started)
}

/// When what still exists is named.
pub(super) fn named_from(draft: &Draft<'_>, started: Timestamp) -> Timestamp {
    let grace = draft.facts.limits.forceful_deletion_grace.as_duration();
    Period::from_duration(STUCK_AFTER.min(grace / 4)).after(started)
}

fn delete_gracefully(draft: &mut Draft<'_>, started: Timestamp, forced_from: Timestamp) {
    let snapshot = draft.facts.snapshot;
    for (index, component) in snapshot.components.iter().enumerate() {
        if let Some(object) = component.ours().filter(|object| !object.terminating) {
            draft.act(Action::Delete(Target { component: index, uid: object.uid.clone() }));
            draft.verdict.delete.push(index);
        }
    }
    let forces = force_due(draft, None);
    for pod in snapshot.pods.iter().filter(|pod| pod.detached && !pod.terminating) {
        delete(draft, pod);
    }
    let named_from = if forces { draft.facts.now } else { named_from(draft, started) };
    let reason = if forces { deleting::FORCED } else { deleting::INITIATED };
    let blockers = blockers(draft);
    if draft.facts.now < named_from {
        draft.look_again(named_from);
    } else {
        name_blockers(draft, &blockers, reason);
    }
    draft.verdict.message = waiting_for(&blockers);
    if draft.acts() {
        draft.verdict.action = VerdictAction::Delete;
        draft.look_again(forced_from);
    } else {
        draft.wait(forced_from);
        draft.verdict.reason = Some(deleting::INITIATED.to_owned());
    }
}

fn delete_forcefully(draft: &mut Draft<'_>, forced_from: Timestamp) {
    for (index, component) in draft.facts.snapshot.components.iter().enumerate() {
        if let Some(object) = component.ours() {
            draft.act(Action::ForceDelete(Target { component: index, uid: object.uid.clone() }));
            draft.verdict.delete.push(index);
        }
    }
    // A pod that was just created may be about to be deleted already: an owner that keeps creating pods is
    // not followed at the same pace.
    let settles = |pod: &&Pod| {
        let created = pod.created.filter(|_| !pod.terminating);
        created.is_none_or(|at| Period::from_duration(RETRY_FORCE.0).after(at) <= draft.facts.now)
    };
    let settled: Vec<&Pod> = draft.facts.snapshot.pods.iter().filter(settles).collect();
    for pod in settled {
        force(draft, pod);
    }
    for orphan in &draft.facts.snapshot.orphans {
        draft.act(Action::DeleteOrphan(orphan.clone()));
    }
    let blockers = blockers(draft);
    name_blockers(draft, &blockers, deleting::FORCED);
    draft.verdict.action = VerdictAction::Delete;
    draft.verdict.reason = Some(deleting::FORCED.to_owned());
    draft.verdict.message = waiting_for(&blockers);
    draft.look_again(forced_again(draft, forced_from));
}

/// When a forceful deletion is tried again that began at a moment. Twice as long after each time: as long again as it has
/// lasted.
pub(super) fn forced_again(draft: &Draft<'_>, forced_from: Timestamp) -> Timestamp {
    let lasted = draft.facts.now.as_second() - forced_from.as_second();
    let lasted = Duration::from_secs(u64::try_from(lasted).unwrap_or(0));
    let pause = lasted.clamp(RETRY_FORCE.0, RETRY_FORCE.1);
    Period::from_duration(pause).after(draft.facts.now)
}

/// Since when what exists is being deleted.
pub(super) fn deleting_since(draft: &Draft<'_>) -> Timestamp {
    let stored = draft.status.since.as_ref().and_then(|since| since.deleting.as_ref());
    stored.map(|time| time.0).or_else(|| condition_since(draft)).unwrap_or(draft.facts.now)
}

/// Since when the condition `DeletingResources` is True, if it is.
pub(super) fn condition_since(draft: &Draft<'_>) -> Option<Timestamp> {
    let conditions = &draft.status.conditions;
    condition::is_true(conditions, condition::DELETING_RESOURCES)
        .then(|| condition::since(conditions, condition::DELETING_RESOURCES))
        .flatten()
}
