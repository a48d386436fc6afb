use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::appwrapper::PodSet;
use super::attempt::Attempt;
use super::budget::Budget;
use super::no_fit::Requeue;
use super::node_suspicion::SuspectNodes;
use super::phase::Phase;
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

    /// Number of uncounted restarts and recreations, except restarts by `onNoFit`.
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

    /// How often each rule of a RetryPolicy was used.
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

    /// Increased memory, requested by a RetryPolicy, that is not yet written to the templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_memory: Vec<PendingMemory>,

    /// When Kueue evicts the AppWrapper by `waitForPodsReady` if its pods are not ready by then. Set while
    /// quota is reserved and `PodsReady` is not True, as of the last change of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_deadline: Option<Time>,

    /// Times from which grace periods are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// How the time with reserved quota was spent. Not set before quota was first reserved.
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

    /// Conditions of the component: `ResourcesDeployed`, `Succeeded` and, while it is recreated, `DeletingResources`.
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

    /// When the running attempt entered Resuming. Starts `admissionGracePeriod` and `warmupGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed: Option<Time>,

    /// When the readiness of each pod set last changed, for pod sets that were ready once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_sets: Vec<PodSetSince>,

    /// When the failure that is in its grace period occurred. Starts `failureGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_pods: Option<Time>,

    /// When deletion began. Starts `forcefulDeletionGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleting: Option<Time>,

    /// When all resources were deleted. Starts `retryPausePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Time>,

    /// When the AppWrapper failed. Starts `deletionOnFailureGracePeriod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Time>,

    /// When the AppWrapper succeeded. Starts `successTTL`.
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

/// How often one rule of a RetryPolicy was used.
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
