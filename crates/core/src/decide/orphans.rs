//! Deletes objects that a late write created.

use std::time::Duration;

use super::draft::Draft;
use super::steps::{self, ComponentStage};
use super::{VerdictAction, attempts, force_delete, health};
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead, Target};
use crate::snapshot::Pod;
use crate::tuning::Period;

/// After this time, the deletion of orphans is checked again.
const SWEEP_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// What is swept away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orphans {
    /// Everything: nothing is to be there.
    Any,
    /// Everything of another attempt than the running one.
    OfAnotherAttempt,
    /// Components that are not those whose UIDs were written down.
    Unrecorded,
}

/// Force-deletes orphans that are long overdue, and at once those on nodes where nothing runs any more; the
/// state of the node must be current.
fn force_overdue(draft: &mut Draft<'_>, is_orphan: impl Fn(&Pod) -> bool) {
    let facts = draft.facts;
    let pods = facts.snapshot.pods.iter().filter(|pod| pod.terminating && is_orphan(pod));
    let (fenced, others): (Vec<&Pod>, Vec<&Pod>) =
        pods.partition(|pod| force_delete::is_fenced(facts, pod));
    if !fenced.is_empty() && facts.snapshot.answered < FreshRead::Pods {
        draft.ask(FreshRead::Pods);
        return;
    }
    for pod in fenced {
        force_delete::force(draft, pod);
    }
    for pod in others {
        let Some(overdue) = health::overdue_from(facts, pod) else { continue };
        if draft.facts.now < overdue {
            draft.look_again(overdue);
        } else {
            draft.act(Action::ForceDeletePod { name: pod.name.clone(), uid: pod.uid.clone() });
            draft.look_again(draft.facts.limits.forceful_deletion_grace.after(draft.facts.now));
        }
    }
}

/// Running: deletes objects of another attempt that have the names of components which are to be created. False where
/// they must be read first: a watch may show the past.
pub(super) fn sweep_names(draft: &mut Draft<'_>) -> bool {
    if mutations::is_present(Mutation::NothingSwept) {
        return true;
    }
    let snapshot = draft.facts.snapshot;
    let again = Period::from_duration(SWEEP_AGAIN_AFTER).after(draft.facts.now);
    for (index, component) in snapshot.components.iter().enumerate() {
        let is_to_come = match steps::standing(draft, index) {
            ComponentStage::Later | ComponentStage::Coming => true,
            ComponentStage::Going | ComponentStage::Up => false,
        };
        let Some(object) = component.ours().filter(|_| is_to_come) else { continue };
        if object.terminating || attempts::is_current(&draft.status, object.attempt) {
            continue;
        }
        if snapshot.answered < FreshRead::Missing {
            draft.ask(FreshRead::Missing);
            return false;
        }
        draft.act(Action::Delete(Target { component: index, uid: object.uid.clone() }));
        draft.verdict.action = VerdictAction::Delete;
        draft.verdict.delete.push(index);
        draft.look_again(again);
    }
    true
}

/// Deletes objects that a late write created; returns whether there were any.
pub(super) fn sweep(draft: &mut Draft<'_>, orphans: Orphans) -> bool {
    if mutations::is_present(Mutation::NothingSwept) {
        return false;
    }
    let snapshot = draft.facts.snapshot;
    let attempt = attempts::current(&draft.status);
    let of_another = |number: Option<i32>| number.is_some_and(|number| number != attempt);
    let mut found = false;
    // a deletion that was refused is sent again
    let again = Period::from_duration(SWEEP_AGAIN_AFTER).after(draft.facts.now);
    for (component, index) in snapshot.components.iter().zip(0..) {
        let Some(object) = component.ours() else { continue };
        let sweeps = match orphans {
            Orphans::Any => true,
            Orphans::OfAnotherAttempt => of_another(object.attempt),
            Orphans::Unrecorded => !health::is_current(draft, index, component),
        };
        found |= sweeps;
        if sweeps && !object.terminating {
            draft.act(Action::Delete(Target { component: index, uid: object.uid.clone() }));
            draft.verdict.action = VerdictAction::Delete;
            draft.verdict.delete.push(index);
            draft.look_again(again);
        }
    }
    match orphans {
        Orphans::Any => force_overdue(draft, |_| true),
        Orphans::OfAnotherAttempt => force_overdue(draft, |pod| of_another(pod.attempt)),
        Orphans::Unrecorded => {}
    }
    found
        || match orphans {
            Orphans::Any => !snapshot.pods.is_empty(),
            Orphans::OfAnotherAttempt => snapshot.pods.iter().any(|pod| of_another(pod.attempt)),
            Orphans::Unrecorded => false,
        }
}
