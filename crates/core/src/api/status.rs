use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::appwrapper::PodSet;
use super::budget::Budget;
use super::no_fit::Requeue;
use super::node_suspicion::SuspectNodes;
use super::phase::Phase;
use super::progress::AttemptProgress;
use super::usage::Usage;

/// Observed state of an AppWrapper.
// Go: `AppWrapperStatus`; the fields after `componentStatus` are additions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppWrapperStatus {
    /// Current phase of the AppWrapper.
    #[serde(default, skip_serializing_if = "Phase::is_empty")]
    #[schemars(with = "String")]
    pub phase: Phase,

    /// Number of counted restarts of any kind.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resetting_count: i32,

    /// Number of uncounted restarts of any kind, including recreated components.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncounted_restarts: i32,

    /// Number of failed pods that `podFailurePolicy` ignored since the first attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ignored_failures: i32,

    /// Conditions of the AppWrapper, such as `QuotaReserved`, `ResourcesDeployed` and `Unhealthy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Status of each component, in the order of `spec.components`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub component_status: Vec<ComponentStatus>,

    /// The last 10 attempts. The last entry is the running attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,

    /// How often each retry policy rule was used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retry_counts: Vec<RetryCount>,

    /// Counted restarts that the limits evaluate, if some were given back. If it is not set, the limits evaluate
    /// `resettingCount`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,

    /// Time before which no new attempt starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Time>,

    /// The return to the queue by `onNoFit`, while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue: Option<Requeue>,

    /// Nodes that the next attempt avoids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid_nodes: Vec<String>,

    /// Suspect nodes that the running attempt avoids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspect_nodes: Option<SuspectNodes>,

    /// Increased memory, requested by a retry policy, that is not yet written to the templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_memory: Vec<PendingMemory>,

    /// When Kueue evicts the AppWrapper if its pods are not ready before, by Kueue's `waitForPodsReady`. Set while
    /// quota is reserved and `PodsReady` is not True, as of the last change of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_deadline: Option<Time>,

    /// Times from which grace periods are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// Where the time went in which quota was reserved. Not set before quota was first reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Observed state of a component.
// Go: `AppWrapperComponentStatus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// Name of the object.
    #[serde(default)]
    pub name: String,

    /// Kind of the object.
    #[serde(default)]
    pub kind: String,

    /// API version of the object.
    #[serde(default)]
    pub api_version: String,

    /// Pod sets of the component, declared or inferred.
    #[serde(default, deserialize_with = "null_as_default")]
    #[schemars(required)]
    pub pod_sets: Vec<PodSet>,

    /// Conditions of the component, `ResourcesDeployed` and `Succeeded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// UID of the object that the running attempt created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// UIDs of the objects between this object and its pods, such as the Jobs of a JobSet. They identify
    /// pods that outlive their owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_owners: Vec<String>,
}

/// Times from which grace periods are measured, one for each, so that none affects another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Since {
    /// UIDs of the failed pods of this attempt that `podFailurePolicy` ignored, at most 64. `ignoredFailures`
    /// counts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_pods: Vec<String>,

    /// When the running attempt entered Resuming. Starts `AdmissionGracePeriod` and `WarmupGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed: Option<Time>,

    /// When the readiness of each pod set last changed, for pod sets that were ready once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_sets: Vec<PodSetSince>,

    /// When the failure that is in its grace period occurred. Starts `FailureGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_pods: Option<Time>,

    /// When deletion began. Starts `ForcefulDeletionGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleting: Option<Time>,

    /// When all resources were deleted. Starts `RetryPausePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Time>,

    /// When the AppWrapper failed. Starts `DeletionOnFailureGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Time>,

    /// When the AppWrapper succeeded. Starts `SuccessTTL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<Time>,
}

/// Readiness of a pod set, and when it last changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSetSince {
    /// `<component index>-<pod set index>`, as in the label of its pods.
    pub pod_set: String,

    /// Whether every expected pod is running or has succeeded.
    pub ready: bool,

    /// Whether a pod of the pod set is Terminating. Grace periods start after it is deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminating: bool,

    /// When the readiness last changed.
    pub since: Time,

    /// When a pod failed first since all pods of its component last ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Time>,

    /// Pods that failed up to this time were replaced: every expected pod ran after they had failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_until: Option<Time>,
}

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

    /// The last progress that a pod reported, if `spec.progress` is set.
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
    /// Name of the component.
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

/// How often one retry policy rule was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryCount {
    /// Name of the RetryPolicy.
    pub policy: String,
    /// Name of the rule; "" stands for the default action of the policy.
    pub rule: String,
    /// How often the rule was used.
    pub count: i32,
}

/// Memory to set for one container of a component's template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingMemory {
    /// Index of the component.
    pub component: i32,
    /// Index of the pod set in the component.
    pub pod_set: i32,
    /// Name of the container or init container.
    pub container: String,
    /// Memory request, such as `96Mi`. Not set if the container has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Memory limit, such as `96Mi`. Not set if the container has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
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

/// The Go project writes `podSets: null` for a component that has none.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

// serde hands the field over by reference
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &i32) -> bool {
    *count == 0
}
