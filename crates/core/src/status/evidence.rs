//! What the rest of an AppWrapper says about a phase that is not, or cannot be, what the status says.

use super::read::{Flaws, Read};
use crate::api::{AppWrapperStatus, AttemptAction, AttemptOutcome, Phase, condition};

/// What is stored beside the status, and written by others than those who may write the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// `spec.suspend`.
    pub suspend: bool,
    /// It has our finalizer: something may have been created.
    pub finalizer: bool,
}

impl Evidence {
    /// What is made of a status of which nothing can be read.
    pub(super) fn alone(self) -> Read {
        let mut status = AppWrapperStatus::default();
        status.phase = self.oldest_phase(&status);
        let text = format!("status: must be an object; the phase is treated as {}", status.phase);
        let mut flaws = Flaws::default();
        flaws.name("phase", text, serde_json::Value::Null);
        Read { status, flaws }
    }

    /// Why the phase cannot be what it says it is, where that is so.
    pub(super) fn contradiction(
        self,
        status: &AppWrapperStatus,
        is_unreadable: bool,
    ) -> Option<String> {
        let is_true = |kind| condition::is_true(&status.conditions, kind);
        let holds = is_true(condition::QUOTA_RESERVED) || is_true(condition::RESOURCES_DEPLOYED);
        let why = match status.phase {
            _ if is_unreadable => "is unknown to this version of the controller",
            Phase::Empty if holds || !status.attempts.is_empty() => {
                "is empty, but other fields show that the AppWrapper was reconciled"
            }
            Phase::Suspended if self.suspend && holds => {
                "is Suspended, but conditions show that resources are deployed or quota is reserved"
            }
            Phase::Terminating if !self.deleting => {
                "is Terminating, but the AppWrapper is not being deleted"
            }
            Phase::Empty
            | Phase::Suspended
            | Phase::Resuming
            | Phase::Running
            | Phase::Resetting
            | Phase::Suspending
            | Phase::Succeeded
            | Phase::Failed
            | Phase::Terminating => return None,
        };
        Some(format!("status.phase: {why}"))
    }

    /// The earliest phase that fits: whatever exists is deleted or taken on from there, nothing is created
    /// beside it, and no quota is released before it is gone.
    pub(super) fn oldest_phase(self, status: &AppWrapperStatus) -> Phase {
        let last = status.attempts.last();
        let deletes = condition::is_true(&status.conditions, condition::DELETING_RESOURCES)
            || status
                .since
                .as_ref()
                .is_some_and(|since| since.deleting.is_some() || since.gone.is_some());
        if self.deleting {
            Phase::Terminating
        } else if last.is_some_and(|last| last.outcome == Some(AttemptOutcome::Succeeded)) {
            Phase::Succeeded
        } else if last.is_some_and(|last| last.action == Some(AttemptAction::Fail)) {
            Phase::Failed
        } else if self.suspend {
            Phase::Suspending
        } else if !self.finalizer {
            Phase::Suspended // nothing can have been created
        } else if deletes {
            Phase::Resetting
        } else {
            Phase::Resuming
        }
    }
}
