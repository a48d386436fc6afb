//! What is compared of a status, and which ways lead from one to another.

use crate::api::{AppWrapperStatus, Phase, condition};
use crate::decide::current_attempt;
use crate::decide::edges::EDGES;

/// What has become of the resources. It tells only in Succeeded and Failed, where the phase does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resources {
    /// They are kept.
    Kept,
    /// They are being deleted.
    Deleting,
    /// They are gone, and the quota is released.
    Released,
}

/// A phase, and where the phase ends nothing, what has become of the resources in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) phase: Phase,
    pub(super) resources: Resources,
}

impl Stage {
    pub(super) fn of(status: &AppWrapperStatus) -> Self {
        let (Phase::Succeeded | Phase::Failed) = status.phase else {
            return Self { phase: status.phase, resources: Resources::Kept };
        };
        let conditions = &status.conditions;
        let is_true = |kind| condition::is_true(conditions, kind);
        let was_deployed = condition::find(conditions, condition::RESOURCES_DEPLOYED).is_some();
        let is_free =
            !is_true(condition::RESOURCES_DEPLOYED) && !is_true(condition::QUOTA_RESERVED);
        let resources = if was_deployed && is_free {
            Resources::Released
        } else if is_true(condition::DELETING_RESOURCES) {
            Resources::Deleting
        } else {
            Resources::Kept
        };
        Self { phase: status.phase, resources }
    }
}

/// What is compared of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) stage: Stage,
    /// `resettingCount`.
    pub(super) retries: i32,
    /// Number of the attempt; 0 under a controller that does not number them.
    attempt: i32,
}

impl Mark {
    pub(super) fn of(status: &AppWrapperStatus) -> Self {
        Self {
            stage: Stage::of(status),
            retries: status.resetting_count,
            attempt: current_attempt(status),
        }
    }

    /// Whether another mark is a step further; a budget that is refilled is none.
    pub(super) fn moved_to(self, other: Self) -> bool {
        self.stage != other.stage || self.began_again(other)
    }

    /// Whether an attempt was counted or opened in between.
    const fn began_again(self, other: Self) -> bool {
        other.retries > self.retries || other.attempt > self.attempt
    }
}

/// Whether a step explains a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It leads there.
    Yes,
    /// It leads there, but counts the restart otherwise.
    Miscounted,
    /// It does not lead there.
    No,
}

/// Whether the way from one mark to another begins with this step, or has it in between.
pub(super) fn fit(step: super::expectation::Step, from: Mark, to: Mark) -> Fit {
    let (next, end) = (step.stage.phase, to.stage.phase);
    let count = if step.retries == to.retries { Fit::Yes } else { Fit::Miscounted };
    if next == from.stage.phase {
        let is_there = end == next && step.stage.resources >= to.stage.resources;
        return if is_there && count == Fit::Yes { Fit::Yes } else { Fit::No };
    }
    if next == end {
        return if next == Phase::Resetting { count } else { Fit::Yes };
    }
    // the way of a controller that suspends first
    if (from.stage.phase, next, end) == (Phase::Empty, Phase::Resuming, Phase::Suspended) {
        return Fit::Yes;
    }
    let is_torn_down = matches!(end, Phase::Suspending | Phase::Suspended | Phase::Terminating);
    let has_restarted = next != Phase::Resetting || is_torn_down || from.began_again(to);
    if has_restarted && reaches(next, end) { Fit::Yes } else { Fit::No }
}

/// Whether the table of phases has a way from one phase to another.
fn reaches(from: Phase, to: Phase) -> bool {
    let mut reached = vec![from];
    let mut index = 0;
    while let Some(at) = reached.get(index).copied() {
        let next = EDGES.iter().filter(|(begin, _)| *begin == at).map(|(_, end)| *end);
        for phase in next {
            if phase == to {
                return true;
            }
            if !reached.contains(&phase) {
                reached.push(phase);
            }
        }
        index += 1;
    }
    false
}

/// A status as it was at a mark, as far as phases and counts tell: what has happened since stays in it.
pub(super) fn rewound(status: &AppWrapperStatus, to: Mark) -> AppWrapperStatus {
    let mut status = status.clone();
    status.phase = to.stage.phase;
    status.resetting_count = to.retries;
    let (holds, deploys) = match to.stage.phase {
        Phase::Resuming | Phase::Running | Phase::Resetting | Phase::Suspending => (true, true),
        Phase::Failed => {
            let held = to.stage.resources != Resources::Released;
            (held, held)
        }
        Phase::Succeeded => (false, to.stage.resources != Resources::Released),
        Phase::Empty | Phase::Suspended | Phase::Terminating => return status,
    };
    let deletes = match to.stage.phase {
        Phase::Succeeded | Phase::Failed => Some(to.stage.resources == Resources::Deleting),
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending
        | Phase::Terminating => None,
    };
    for condition in &mut status.conditions {
        let value = match condition.type_.as_str() {
            condition::QUOTA_RESERVED => Some(holds),
            condition::RESOURCES_DEPLOYED => Some(deploys),
            condition::DELETING_RESOURCES => deletes,
            _ => None,
        };
        if let Some(value) = value {
            (if value { "True" } else { "False" }).clone_into(&mut condition.status);
        }
    }
    status
}
