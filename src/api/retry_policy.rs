use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::ExitCodeOperator;

/// How failures are retried, as an administrator says it. Source: Armada retry policies.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "workload.codeflare.dev",
    version = "v1alpha1",
    kind = "RetryPolicy",
    plural = "retrypolicies",
    shortname = "rp",
    derive = "PartialEq",
    derive = "Default",
    doc = "How failures of AppWrappers are retried: rules, limits, delays.",
    printcolumn(name = "Retry Limit", type_ = "integer", json_path = ".spec.retryLimit"),
    printcolumn(name = "Default Action", type_ = "string", json_path = ".spec.defaultAction"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicySpec {
    /// How many retries each rule allows; the global limit where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub retry_limit: Option<i32>,

    /// What to do where no rule matches; `Fail` where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_action: Option<RetryAction>,

    /// Delay before a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,

    /// Whether a retry avoids the node of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<AntiAffinity>,

    /// The rules, in order; the first that matches decides. Their names are unique.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(validation = Rule::new(
        "self.all(r, !has(r.name) || self.exists_one(o, has(o.name) && o.name == r.name))"
    ).message("must have unique names"))]
    pub rules: Vec<RetryRule>,
}

/// One rule; exactly one of its four matchers is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "[has(self.onConditions) && self.onConditions.size() > 0, has(self.onExitCodes), \
         has(self.onTerminationMessage), \
         has(self.onFailureCategory) && self.onFailureCategory.size() > 0].exists_one(m, m)"
    ).message("must have exactly one of onConditions, onExitCodes, onTerminationMessage, \
               onFailureCategory"),
    validation = Rule::new("self.action == 'Retry' || !has(self.mutate)")
        .message("must be left out: it needs action Retry")
        .field_path(".mutate")
)]
pub struct RetryRule {
    /// Name of the rule, unique in its policy; `rule<index>` where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("must be 1 to 63 lower-case letters, digits or '-', beginning and ending with a \
                  letter or digit"))]
    pub name: Option<String>,

    /// What to do.
    pub action: RetryAction,

    /// The container that is looked at; the first that failed where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container_name: Option<String>,

    /// Whether init containers are looked at too.
    #[serde(default)]
    pub include_init_containers: bool,

    /// Matches what happened to the pod: `OOMKilled`, `Evicted`, `Preempted`, `DeadlineExceeded`,
    /// `Unschedulable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(max = 64)))]
    #[x_kube(validation = Rule::new(
        "self.all(c, c in ['OOMKilled', 'Evicted', 'Preempted', 'DeadlineExceeded', \
         'Unschedulable'])"
    ).message("must be of OOMKilled, Evicted, Preempted, DeadlineExceeded, Unschedulable"))]
    pub on_conditions: Vec<String>,

    /// Matches an exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_exit_codes: Option<RetryExitCodes>,

    /// Matches a termination message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_termination_message: Option<OnTerminationMessage>,

    /// Matches a category of failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(max = 63)))]
    #[x_kube(validation = Rule::new(
        "self.all(c, c.matches('^[a-z0-9]([-_a-z0-9]*[a-z0-9])?$'))"
    ).message("must be names of categories, such as oom or node"))]
    pub on_failure_category: Vec<String>,

    /// How many retries this rule allows; the policy's limit where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub retry_limit: Option<i32>,

    /// Delay before a retry; the policy's where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,

    /// Whether a retry avoids the node of the failure; the policy's where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<AntiAffinity>,

    /// What is changed in the pods of the retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutate: Option<Mutation>,
}

/// Retry or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RetryAction {
    /// Retry, as far as the limits allow.
    Retry,
    /// Fail.
    Fail,
}

/// Delay that grows with each retry: `min(initialDelay × multiplier^(n−1), maxDelay)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Backoff {
    /// Delay before the first retry, such as `10s`.
    #[schemars(length(max = 64))]
    #[x_kube(validation = period())]
    pub initial_delay: String,

    /// Growth from one retry to the next; 2.0 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0))]
    pub multiplier: Option<f64>,

    /// The longest delay; `10m` where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = period())]
    pub max_delay: Option<String>,
}

/// Whether a retry avoids the node of the failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AntiAffinity {
    /// What is avoided.
    pub mode: AntiAffinityMode,
}

/// What a retry avoids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AntiAffinityMode {
    /// Nothing.
    None,
    /// The node of the failure.
    Node,
}

/// A set of exit codes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("self.operator != 'In' || !(0 in self.values)")
    .message("must not have 0 with the operator In: it is no failure")
    .field_path(".values"))]
pub struct RetryExitCodes {
    /// Whether the code must be among the values or must not.
    pub operator: ExitCodeOperator,

    /// Exit codes: 1 to 255 of them, ordered and unique.
    #[schemars(
        length(min = 1, max = 255),
        inner(range(min = 0, max = 255)),
        extend("x-kubernetes-list-type" = "set")
    )]
    #[x_kube(validation = Rule::new("self.isSorted()").message("must be in ascending order"))]
    pub values: Vec<i32>,
}

/// A pattern for termination messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnTerminationMessage {
    /// Regular expression, searched anywhere in the message.
    #[schemars(length(min = 1, max = 512))]
    pub pattern: String,
}

/// What is changed in the pods of a retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.memory)").message("must be given").field_path(".memory"))]
pub struct Mutation {
    /// More memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryGrowth>,
}

/// Memory requests and limits × factor, up to a maximum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
pub struct MemoryGrowth {
    /// Growth of each retry, above 1 and at most 100.
    #[x_kube(validation = Rule::new("self > 1.0 && self <= 100.0")
        .message("must be above 1 and at most 100"))]
    pub factor: f64,

    /// The most memory a container may come to, such as `64Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new(
        "isQuantity(self) && !quantity(self).isLessThan(quantity('1'))"
    ).message("must be a quantity of at least 1 byte, such as 64Gi"))]
    pub max: Option<String>,
}

/// The grammar of durations, for the API server.
fn period() -> Rule {
    Rule::new("self.matches('^[+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h|d))+)$')")
        .message("must be a duration like 90s, 1h30m, 1.5h or 7d (units ns us ms s m h d)")
}
