//! The attempts of an AppWrapper, in its status: how each ended, and what decided about it.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::progress::AttemptProgress;

/// An attempt, from Resuming until all its resources are deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Number of the attempt, starting at 0.
    pub attempt: i32,

    /// When the attempt entered Resuming.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,

    /// When every expected pod was Running or Succeeded for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,

    /// When the first failure of the attempt occurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Time>,

    /// When the attempt ended: it succeeded, or all its resources were deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,

    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<AttemptOutcome>,

    /// Action taken on the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<AttemptAction>,

    /// The rule that determined the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,

    /// The limit that was evaluated, and the retries used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,

    /// First cause of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRecord>,

    /// Number of other pods that failed or were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collateral: Option<i32>,

    /// How far it got, by the last reports of its pods, if `spec.progress` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<AttemptProgress>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttemptOutcome {
    /// The AppWrapper succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It was suspended.
    Suspended,
    /// The AppWrapper was deleted.
    Deleted,
    /// One component was recreated; the rest stayed.
    ComponentRecreated,
    /// Its pods could not be scheduled; `onNoFit` ended it.
    NoFit,
}

impl AttemptOutcome {
    /// Every outcome.
    pub const ALL: [Self; 6] = [
        Self::Succeeded,
        Self::Failed,
        Self::Suspended,
        Self::Deleted,
        Self::ComponentRecreated,
        Self::NoFit,
    ];

    /// Its name, as in the status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Suspended => "Suspended",
            Self::Deleted => "Deleted",
            Self::ComponentRecreated => "ComponentRecreated",
            Self::NoFit => "NoFit",
        }
    }
}

/// Action taken on the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttemptAction {
    /// Restart, counted.
    Restart,
    /// Restart, not counted.
    RestartIgnoringLimit,
    /// One component was recreated.
    RecreateComponent,
    /// Fail.
    Fail,
    /// The quota was kept for the next attempt, which no limit counts.
    Hold,
    /// The quota was given back; the AppWrapper returned to its queue.
    Requeue,
}

impl AttemptAction {
    /// Its name, as in the status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "Restart",
            Self::RestartIgnoringLimit => "RestartIgnoringLimit",
            Self::RecreateComponent => "RecreateComponent",
            Self::Fail => "Fail",
            Self::Hold => "Hold",
            Self::Requeue => "Requeue",
        }
    }
}

/// The rule that determined an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleRef {
    /// The stage of the decision that the rule belongs to.
    pub source: RuleSource,

    /// Name of the RetryPolicy that the rule belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,

    /// Name of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Index of the rule in its policy, starting at 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<i32>,

    /// Whether the RetryPolicy failed the AppWrapper before the policies of the AppWrapper were evaluated:
    /// its `override` is true.
    #[serde(default, rename = "override", skip_serializing_if = "std::ops::Not::not")]
    pub overrides: bool,
}

/// The stage of a decision about a failure.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum RuleSource {
    /// `globalMaxRetries: 0`.
    KillSwitch,
    /// `spec.podFailurePolicy`.
    PodFailurePolicy,
    /// The annotations `terminalExitCodes` and `retryableExitCodes`.
    ExitCodeAnnotation,
    /// `spec.failurePolicy`.
    FailurePolicy,
    /// A RetryPolicy.
    RetryPolicy,
    /// The retry limit.
    RetryLimit,
    /// `maxUncountedRestarts`.
    UncountedLimit,
    /// `stopWhen` of a RetryPolicy or of `spec.failurePolicy`.
    StopWhen,
}

/// Retries used before a decision, and the limit that was evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retries {
    /// Number of retries used before.
    pub used: i32,
    /// Number of retries allowed.
    pub limit: i32,
}

/// The first cause of a failure: which component, pod, node, container and code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureRecord {
    /// Name of the component, or `Kind/name` if another component has the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,

    /// Name of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,

    /// UID of the pod.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,

    /// Node of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,

    /// Name of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,

    /// Whether the container is an init container or a sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_container: Option<bool>,

    /// Exit code of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,

    /// Signal that terminated the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,

    /// Reason reported by the container, the pod or the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Message reported by the container, the pod or the component, at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Category of the failure, such as `oom`, `evicted`, `node` or `application`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
}

impl Retries {
    /// The limit that has least left; this one where both have the same.
    #[must_use]
    pub const fn nearest(self, other: Self) -> Self {
        if other.left() < self.left() { other } else { self }
    }

    const fn left(self) -> i64 {
        self.limit as i64 - self.used as i64
    }
}

impl RuleRef {
    /// A rule that has neither policy nor name: the kill switch, an annotation, the limit.
    #[must_use]
    pub const fn plain(source: RuleSource) -> Self {
        Self { source, policy: None, name: None, index: None, overrides: false }
    }
}

impl RuleSource {
    /// Whether it is a limit: a rule beside it is the one that the limit is asked for.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        match self {
            Self::RetryLimit | Self::UncountedLimit => true,
            Self::KillSwitch
            | Self::PodFailurePolicy
            | Self::ExitCodeAnnotation
            | Self::FailurePolicy
            | Self::RetryPolicy
            | Self::StopWhen => false,
        }
    }
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::KillSwitch => "killSwitch",
            Self::PodFailurePolicy => "podFailurePolicy",
            Self::ExitCodeAnnotation => "exitCodeAnnotation",
            Self::FailurePolicy => "failurePolicy",
            Self::RetryPolicy => "retryPolicy",
            Self::RetryLimit => "retryLimit",
            Self::UncountedLimit => "uncountedLimit",
            Self::StopWhen => "stopWhen",
        })
    }
}
