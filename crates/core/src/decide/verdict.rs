use k8s_openapi::jiff::Timestamp;

use crate::api::{AttemptAction, FailureRecord, Retries, RuleRef};

/// A decision in words: what `explain` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is done now.
    pub action: VerdictAction,
    /// Reason, one of the reasons of the conditions.
    pub reason: Option<String>,
    /// What is the matter, for people.
    pub message: String,
    /// The first cause, where something failed.
    pub failure: Option<FailureRecord>,
    /// The rule that named the action.
    pub rule: Option<RuleRef>,
    /// Whether a restart is counted; absent where there is none.
    pub counted: Option<bool>,
    /// The limit that decides.
    pub retries: Option<Retries>,
    /// Seconds until the next attempt may begin.
    pub retry_after_seconds: Option<i64>,
    /// When this will be decided if nothing changes; only with [`VerdictAction::Wait`], or with [`VerdictAction::Deploy`]
    /// while a creation keeps failing.
    pub deadline: Option<Timestamp>,
    /// Components that are created now, or first in the next phase: indexes.
    pub create: Vec<usize>,
    /// Components that are deleted now, or first in the next phase: indexes.
    pub delete: Vec<usize>,
    /// Pods that are deleted now, beside those that their owners delete: names.
    pub delete_pods: Vec<String>,
}

/// What is done now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerdictAction {
    /// Nothing.
    #[default]
    None,
    /// Nothing yet: there is a deadline.
    Wait,
    /// Components are created, or will be in the next phase.
    Deploy,
    /// Components are deleted, or will be in the next phase.
    Delete,
    /// The AppWrapper has succeeded.
    Succeed,
    /// A failure is handled, or the quota is being released for a return to the queue.
    Handle(AttemptAction),
}

impl VerdictAction {
    /// The action as `explain` prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Wait => "Wait",
            Self::Deploy => "Deploy",
            Self::Delete => "Delete",
            Self::Succeed => "Succeed",
            Self::Handle(action) => action.as_str(),
        }
    }

    /// Whether nothing is done now.
    #[must_use]
    pub const fn is_idle(self) -> bool {
        matches!(self, Self::None | Self::Wait)
    }

    /// Whether a failure is handled, or the quota released afterwards; `failure` is set only by the former.
    #[must_use]
    pub const fn handles_failure(self) -> bool {
        matches!(self, Self::Handle(_))
    }
}
