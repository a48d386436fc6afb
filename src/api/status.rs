use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::appwrapper::PodSet;
use super::phase::Phase;

/// What was seen of an AppWrapper. Go: `AppWrapperStatus`, and our own fields after `componentStatus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppWrapperStatus {
    /// Where it is in its life.
    #[serde(default, skip_serializing_if = "Phase::is_empty")]
    #[schemars(with = "String")]
    pub phase: Phase,

    /// Counted restarts, of every kind.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resetting_count: i32,

    /// `QuotaReserved`, `ResourcesDeployed`, `PodsReady`, `Unhealthy`, `DeletingResources`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// One entry for each component, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub component_status: Vec<ComponentStatus>,

    /// The last 10 attempts; the last entry is the one that runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,

    /// How often each rule of a retry policy was used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retry_counts: Vec<RetryCount>,

    /// No new attempt before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Time>,

    /// Nodes that the next attempt avoids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid_nodes: Vec<String>,

    /// Memory that a retry policy has made grow, and that is not in the templates yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_memory: Vec<PendingMemory>,

    /// The moments from which deadlines run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
}

/// What was seen of one component. Go: `AppWrapperComponentStatus`.
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

    /// Its pod sets, declared or inferred.
    #[serde(default, deserialize_with = "null_as_default")]
    #[schemars(required)]
    pub pod_sets: Vec<PodSet>,

    /// `ResourcesDeployed` and `Succeeded` of this component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// UID of the object that the running attempt created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// UIDs of the objects between this object and its pods, like the Jobs of a JobSet. They tell whose a
    /// pod is that outlives its owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_owners: Vec<String>,
}

/// The moments from which deadlines run, one for each, so that none moves another's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Since {
    /// The running attempt entered Resuming: `AdmissionGracePeriod` and `WarmupGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed: Option<Time>,

    /// Each pod set that was ready once: since when it is what it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_sets: Vec<PodSetSince>,

    /// The failure that is being waited on happened: `FailureGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_pods: Option<Time>,

    /// Deletion began: `ForcefulDeletionGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleting: Option<Time>,

    /// Everything was gone: `RetryPausePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Time>,

    /// The AppWrapper failed: `DeletionOnFailureGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Time>,

    /// The AppWrapper succeeded: `SuccessTTL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<Time>,
}

/// Since when a pod set is ready or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSetSince {
    /// `<component index>-<pod set index>`, as in the label of its pods.
    pub pod_set: String,

    /// Every expected pod runs or has succeeded.
    pub ready: bool,

    /// A pod of it is Terminating, so that the clock does not run yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminating: bool,

    /// Since this moment.
    pub since: Time,
}

/// One attempt: from Resuming until everything is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Its number: 0, 1, 2, …
    pub attempt: i32,

    /// It entered Resuming.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,

    /// Every expected pod was Running or Succeeded, for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,

    /// Its first failure happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Time>,

    /// It was over: nothing of it existed, or it had succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,

    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<AttemptOutcome>,

    /// What was decided about its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<AttemptAction>,

    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,

    /// The limit that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,

    /// The first cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRecord>,

    /// Other pods that failed or died with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collateral: Option<i32>,
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
    /// One component was created again; the rest stayed.
    ComponentRecreated,
}

/// What was decided about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttemptAction {
    /// Restart, counted.
    Restart,
    /// Restart, not counted.
    RestartIgnoringLimit,
    /// One component was created again.
    RecreateComponent,
    /// Fail.
    Fail,
}

/// The rule that named an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleRef {
    /// Which stage of the decision.
    pub source: RuleSource,

    /// The retry policy it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,

    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Its place in its policy, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<i32>,
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
}

/// Retries used before a decision, and the limit that it asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retries {
    /// Used before.
    pub used: i32,
    /// Allowed.
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

    /// The pod's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,

    /// The container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,

    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,

    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,

    /// Reason as the container, the pod or the component gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Message as the container, the pod or the component gives it, at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Kind of failure: `oom`, `evicted`, `node`, `application`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
}

/// How often one rule of a retry policy was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryCount {
    /// The policy.
    pub policy: String,
    /// The rule; "" is the policy's default action.
    pub rule: String,
    /// How often.
    pub count: i32,
}

/// Memory that one container of a component's template is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingMemory {
    /// Index of the component.
    pub component: i32,
    /// Index of the pod set in the component.
    pub pod_set: i32,
    /// Name of the container; of init containers too.
    pub container: String,
    /// What it requests, such as `96Mi`; nothing where it requests none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Its limit, such as `96Mi`; nothing where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

impl RuleRef {
    /// A rule that has neither policy nor name: the kill switch, an annotation, the limit.
    #[must_use]
    pub const fn plain(source: RuleSource) -> Self {
        Self { source, policy: None, name: None, index: None }
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
