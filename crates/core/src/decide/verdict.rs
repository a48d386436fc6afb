use k8s_openapi::jiff::Timestamp;

use crate::api::{FailureRecord, Retries, RuleRef};

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
    /// It is restarted, counted.
    Restart,
    /// It is restarted, not counted.
    RestartIgnoringLimit,
    /// One component is created again.
    RecreateComponent,
    /// It has failed.
    Fail,
    /// Its pods cannot be scheduled: it is restarted, not counted, and keeps its quota.
    Hold,
    /// Its pods cannot be scheduled: it releases its quota and returns to its queue.
    Requeue,
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
            Self::Restart => "Restart",
            Self::RestartIgnoringLimit => "RestartIgnoringLimit",
            Self::RecreateComponent => "RecreateComponent",
            Self::Fail => "Fail",
            Self::Hold => "Hold",
            Self::Requeue => "Requeue",
        }
    }

    /// Whether nothing is done now.
    #[must_use]
    pub const fn is_idle(self) -> bool {
        match self {
            Self::None | Self::Wait => true,
            Self::Deploy
            | Self::Delete
            | Self::Succeed
            | Self::Restart
            | Self::RestartIgnoringLimit
            | Self::RecreateComponent
            | Self::Fail
            | Self::Hold
            | Self::Requeue => false,
        }
    }

    /// Whether it ends an attempt, or the object of a component, because of a failure.
    #[must_use]
    pub const fn handles_failure(self) -> bool {
        match self {
            Self::Restart
            | Self::RestartIgnoringLimit
            | Self::RecreateComponent
            | Self::Fail
            | Self::Hold
            | Self::Requeue => true,
            Self::None | Self::Wait | Self::Deploy | Self::Delete | Self::Succeed => false,
        }
    }
}
