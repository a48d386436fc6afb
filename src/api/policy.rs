use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to do when a component fails: rules in order, the first that matches decides. Source: KEP-262.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// How many counted restarts are allowed; by default the retry limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_restarts: Option<i32>,

    /// The rules, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub rules: Vec<FailurePolicyRule>,
}

/// One rule of a failure policy; all filters that are given must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicyRule {
    /// Name of the rule; `failurePolicyRule<index>` where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// What to do.
    pub action: FailurePolicyAction,

    /// Reasons of the component's failure; any where it is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_job_failure_reasons: Vec<String>,

    /// Regular expressions, searched in the message of the component's failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_job_failure_message_patterns: Vec<String>,

    /// Components that the rule is about; all where it is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
    /// Only the component that failed is created again, counted against the limit.
    RecreateComponent,
}

/// In which order components are created. Source: KEP-672.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionPolicy {
    /// Whether there is an order.
    pub execution_policy_order: ExecutionOrder,

    /// The steps, in order; components that no rule names belong to the last step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub rules: Vec<ExecutionRule>,
}

/// Whether components are created in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExecutionOrder {
    /// All at once.
    AnyOrder,
    /// Step by step, as the rules say.
    InOrder,
}

/// One step: components, and what they must reach before the next step begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionRule {
    /// Components of this step.
    pub target_components: Vec<String>,

    /// What they must reach.
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

/// One rule of a pod failure policy; exactly one of its two matchers is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodFailurePolicyRule {
    /// What to do.
    pub action: PodFailurePolicyAction,

    /// Components that the rule is about; all where it is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
    /// The pod is no failure.
    Ignore,
    /// The pod is a failure like any other.
    Count,
}

/// A set of exit codes, of one container or of any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OnExitCodes {
    /// The container; any where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,

    /// Whether the code must be among the values or must not.
    pub operator: ExitCodeOperator,

    /// Exit codes: 1 to 255 of them, ordered and unique.
    #[schemars(length(min = 1, max = 255))]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OnPodCondition {
    /// Its type, such as `DisruptionTarget`.
    #[serde(rename = "type")]
    pub type_: String,

    /// Its status; "True" where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}
