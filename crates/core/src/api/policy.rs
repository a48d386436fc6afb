use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::appwrapper::COMPONENTS_MAX;
use super::budget::{Refill, StopWhen};

/// The longest name of a part of a component: a kind, a slash, a name, a slash, a part.
const TARGET_MAX: usize = 63 + 1 + 253 + 1 + 63;

/// What to do when a component fails: rules in order, the first that matches decides. Source: KEP-262.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// Maximum number of counted restarts. Defaults to the retry limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_restarts: Option<i32>,

    /// When restarts counted against `maxRestarts` or the retry limit are given back. Defaults to never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill: Option<Refill>,

    /// When the AppWrapper fails instead of a counted restart. Defaults to never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_when: Option<StopWhen>,

    /// The rules, at most 20, with unique names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(validation = Rule::new(
        "self.all(r, !has(r.name) || self.exists_one(o, has(o.name) && o.name == r.name))"
    ).message("must have unique names"))]
    pub rules: Vec<FailurePolicyRule>,
}

/// A rule of a failure policy. All filters that are set must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailurePolicyRule {
    /// Name of the rule. Defaults to `failurePolicyRule<index>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^[a-zA-Z]([a-zA-Z0-9_,:-]*[a-zA-Z0-9_])?$')")
        .message("must be 1 to 128 letters, digits, '_', '-', ',' or ':', beginning with a letter \
                  and ending with a letter, a digit or '_'"))]
    pub name: Option<String>,

    /// Action to take if the rule matches.
    pub action: FailurePolicyAction,

    /// Failure reasons of the component to match. If empty, any reason matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), inner(length(max = 64)))]
    #[x_kube(validation = Rule::new(
        "self.all(r, r in ['PodFailurePolicy', 'BackoffLimitExceeded', 'DeadlineExceeded', \
         'MaxFailedIndexesExceeded', 'FailedIndexes'])"
    ).message("must be one of PodFailurePolicy, BackoffLimitExceeded, DeadlineExceeded, \
               MaxFailedIndexesExceeded, FailedIndexes"))]
    pub on_job_failure_reasons: Vec<String>,

    /// Regular expressions to search for in the failure message of the component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(min = 1, max = 512)))]
    pub on_job_failure_message_patterns: Vec<String>,

    /// Components that the rule applies to: `name`, or `name/part` for one part of a component, such as a
    /// replicated Job of a JobSet. If empty, the rule applies to all components. A rule that recreates the
    /// component cannot name a part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = COMPONENTS_MAX), inner(length(min = 1, max = TARGET_MAX)))]
    pub target_components: Vec<String>,
}

/// What a rule of a failure policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicyAction {
    /// The AppWrapper fails.
    FailAppWrapper,
    /// The AppWrapper is restarted, counted against the limit.
    RestartAppWrapper,
    /// The AppWrapper is restarted, not counted.
    RestartAppWrapperAndIgnoreMaxRestarts,
    /// Only the component that failed is recreated, counted against the limit.
    RecreateComponent,
    /// Only the component that failed is recreated; no limit counts it.
    RecreateComponentAndIgnoreMaxRestarts,
}

impl FailurePolicyAction {
    /// Whether it recreates the component that failed, as a whole and alone.
    #[must_use]
    pub const fn recreates_component(self) -> bool {
        match self {
            Self::RecreateComponent | Self::RecreateComponentAndIgnoreMaxRestarts => true,
            Self::FailAppWrapper
            | Self::RestartAppWrapper
            | Self::RestartAppWrapperAndIgnoreMaxRestarts => false,
        }
    }
}

/// The order in which components are created. Source: KEP-672.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.executionPolicyOrder == 'InOrder' || !has(self.rules) || self.rules.size() == 0"
).message("must be empty: rules need executionPolicyOrder InOrder").field_path(".rules"))]
pub struct ExecutionPolicy {
    /// Whether the components are created in order. Defaults to `AnyOrder`.
    #[serde(default)]
    pub execution_policy_order: ExecutionOrder,

    /// The steps, in order. A component that no rule names is created after the steps of all rules, or in the first step
    /// if it has no pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub rules: Vec<ExecutionRule>,
}

/// Whether components are created in an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExecutionOrder {
    /// All at once.
    #[default]
    AnyOrder,
    /// Step by step, as the rules say.
    InOrder,
}

/// A step: its components, and the status that they must reach before the next step starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutionRule {
    /// Components of this step.
    #[schemars(length(min = 1, max = COMPONENTS_MAX), inner(length(min = 1, max = TARGET_MAX)))]
    pub target_components: Vec<String>,

    /// The status that the components must reach before the next step starts.
    pub wait_for_components_status: WaitFor,
}

/// What the components of a step must reach before the next step begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WaitFor {
    /// Every expected pod is Ready or Succeeded.
    Ready,
    /// The components have succeeded.
    Succeeded,
}

/// What to do when a pod fails: rules in order, the first that matches decides. Source: KEP-3329.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodFailurePolicy {
    /// The rules, at most 20.
    #[schemars(length(max = 20))]
    pub rules: Vec<PodFailurePolicyRule>,
}

/// A rule of a pod failure policy. Exactly one of its two matchers must be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new(
    "has(self.onExitCodes) != (has(self.onPodConditions) && self.onPodConditions.size() > 0)"
).message("must have exactly one of onExitCodes and onPodConditions"))]
pub struct PodFailurePolicyRule {
    /// Action to take if the rule matches.
    pub action: PodFailurePolicyAction,

    /// Components that the rule applies to: `name`, or `name/part` for one part of a component, such as a
    /// replicated Job of a JobSet. If empty, the rule applies to all components.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = COMPONENTS_MAX), inner(length(min = 1, max = TARGET_MAX)))]
    pub target_components: Vec<String>,

    /// Matches a container's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_exit_codes: Option<OnExitCodes>,

    /// Matches a condition of the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub on_pod_conditions: Vec<OnPodCondition>,
}

/// What a rule of a pod failure policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodFailurePolicyAction {
    /// The AppWrapper fails.
    FailAppWrapper,
    /// The pod does not count as a failure.
    Ignore,
    /// The pod counts as a failure.
    Count,
}

/// A set of exit codes, of one container or of any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("self.operator != 'In' || !(0 in self.values)")
    .message("must not have 0 with the operator In: it is not a failure")
    .field_path(".values"))]
pub struct OnExitCodes {
    /// Name of the container. If not set, any container matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container_name: Option<String>,

    /// Whether the exit code must be one of the values (`In`) or none of them (`NotIn`).
    pub operator: ExitCodeOperator,

    /// Exit codes: 1 to 255 values, without duplicates.
    #[schemars(length(min = 1, max = 255), extend("x-kubernetes-list-type" = "set"))]
    pub values: Vec<i32>,
}

/// How exit codes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExitCodeOperator {
    /// The code is one of the values.
    In,
    /// The code is none of the values.
    NotIn,
}

/// A condition of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(deny_unknown_fields)]
pub struct OnPodCondition {
    /// Type of the condition, such as `DisruptionTarget`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub type_: String,

    /// Status of the condition. Defaults to "True".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self in ['True', 'False', 'Unknown']")
        .message("must be True, False or Unknown"))]
    pub status: Option<String>,
}
