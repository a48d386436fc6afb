//! Pods that have the labels of an AppWrapper, and whose owner cannot be determined.
//!
//! Such a pod may have outlived its owner, or a user may have added the labels. It blocks what would release
//! quota, and the recreation of a missing component, beside which it might run; the status names it. It has
//! no other effect.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::blockers::{
    Blockers, blockers, blockers_beside, blockers_of_success, is_message_due, name_blockers,
    waiting_for,
};
use super::draft::Draft;
use super::{deletion, steps};
use crate::api::condition::{self, deleting};
use crate::mutations::{self, Mutation};
use crate::tuning::Period;

/// Their owners are read again after this time, if they may become known.
const ASK_AGAIN_AFTER: Duration = Duration::from_mins(1);

/// Whether any are left after everything that is known to be ours is gone; if so, names them.
pub(super) fn hold_back(draft: &mut Draft<'_>) -> bool {
    let count = draft.facts.snapshot.undetermined.count;
    if count == 0 || mutations::is_present(Mutation::OrphanedPodIsGone) {
        return false;
    }
    name_from(draft, &blockers(draft), deletion::deleting_since(draft));
    true
}

/// Names them once the deletion that began at a moment takes long.
fn name_from(draft: &mut Draft<'_>, blockers: &Blockers, since: Timestamp) {
    let named_from = deletion::named_from(draft, since);
    if draft.facts.now < named_from {
        draft.look_again(named_from);
    } else {
        name_blockers(draft, blockers, deleting::UNDETERMINED);
    }
    draft.verdict.message = waiting_for(blockers);
    ask_again(draft);
}

/// Whether any are left after everything that is known of a component is gone that is to be recreated; if that takes long,
/// names them.
pub(super) fn hold_back_component(draft: &mut Draft<'_>, index: usize) -> bool {
    if draft.facts.snapshot.undetermined.count == 0 {
        return false;
    }
    name_from(draft, &blockers_beside(draft, index), steps::since(draft, index));
    true
}

/// Whether some have not ended although every component has succeeded, which would release the quota; if so,
/// a condition names them.
pub(super) fn hold_back_success(draft: &mut Draft<'_>) -> bool {
    if draft.facts.snapshot.undetermined.live == 0 {
        return false;
    }
    let blockers = blockers_of_success(draft);
    let message = waiting_for(&blockers);
    let kind = condition::UNDETERMINED_PODS;
    if !condition::is_true(&draft.status.conditions, kind) || is_message_due(draft, &blockers) {
        draft.say(kind, "OwnerUnknown", &message);
        draft.warn(condition::UNDETERMINED_PODS, message.clone());
    }
    draft.verdict.message = message;
    ask_again(draft);
    true
}

fn ask_again(draft: &mut Draft<'_>) {
    if draft.facts.snapshot.undetermined.unsettled {
        draft.look_again(Period::from_duration(ASK_AGAIN_AFTER).after(draft.facts.now));
    }
}
