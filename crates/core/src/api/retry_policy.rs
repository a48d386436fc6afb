use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::{Refill, StopWhen};
use super::policy::ExitCodeOperator;

/// Rules, limits and delays for restarting AppWrappers after a failure.
// Source: Armada retry policies.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "workload.codeflare.dev",
    version = "v1alpha1",
    kind = "RetryPolicy",
    plural = "retrypolicies",
    shortname = "rp",
    derive = "PartialEq",
    derive = "Default",
    doc = "Rules, limits and delays for restarting AppWrappers after a failure.",
    printcolumn(name = "Retry Limit", type_ = "integer", json_path = ".spec.retryLimit"),
    printcolumn(name = "Default Action", type_ = "string", json_path = ".spec.defaultAction"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicySpec {
    /// Maximum number of retries for each rule. Defaults to the global limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub retry_limit: Option<i32>,

    /// Action to take if no rule matches. Defaults to `Fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_action: Option<RetryAction>,

    /// If true, the controller evaluates the rules of this policy before the policies of the AppWrapper. If
    /// the action of the first rule that matches is `Fail`, the AppWrapper fails. Applies only if a queue or
    /// the configuration attaches the policy.
    #[serde(default, rename = "override", skip_serializing_if = "std::ops::Not::not")]
    pub overrides: bool,

    /// Delay before a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,

    /// Whether a retry avoids the node on which the failure occurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<AntiAffinity>,

    /// When the retries that the rules of this policy used are given back. Defaults to never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill: Option<Refill>,

    /// When the AppWrapper fails instead of a retry by a rule of this policy. Defaults to never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_when: Option<StopWhen>,

    /// The rules, in order. The first rule that matches applies. Names must be unique.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(validation = Rule::new(
        "self.all(r, !has(r.name) || self.exists_one(o, has(o.name) && o.name == r.name))"
    ).message("must have unique names"))]
    pub rules: Vec<RetryRule>,
}

/// A rule of a RetryPolicy. Exactly one of its four matchers must be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
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
    /// Name of the rule, unique within its policy. Defaults to `rule<index>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("must be 1 to 63 lower-case letters, digits or '-', beginning and ending with a \
                  letter or digit"))]
    pub name: Option<String>,

    /// Action to take if the rule matches.
    pub action: RetryAction,

    /// Name of the container that is checked. If not set, all app containers are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container_name: Option<String>,

    /// Whether init containers are checked as well.
    #[serde(default)]
    pub include_init_containers: bool,

    /// Matches what happened to the pod: `OOMKilled`, `Evicted`, `NodeLost`, `Preempted`,
    /// `StorageLimitExceeded`, `DeadlineExceeded`, `Unschedulable`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(max = 64)))]
    #[x_kube(validation = Rule::new(
        "self.all(c, c in ['OOMKilled', 'Evicted', 'NodeLost', 'Preempted', 'StorageLimitExceeded', \
         'DeadlineExceeded', 'Unschedulable', 'Stalled'])"
    ).message("must be one of OOMKilled, Evicted, NodeLost, Preempted, StorageLimitExceeded, \
               DeadlineExceeded, Unschedulable, Stalled"))]
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
    ).message("must be names of failure categories, such as oom or node"))]
    pub on_failure_category: Vec<String>,

    /// Maximum number of retries for this rule. Defaults to the limit of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub retry_limit: Option<i32>,

    /// Delay before a retry. Defaults to the delay of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,

    /// Whether a retry avoids the node on which the failure occurred. Defaults to the setting of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<AntiAffinity>,

    /// Changes to the pods of the retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutate: Option<Mutation>,
}

/// Whether to retry or to fail.
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

    /// Factor by which the delay grows with each retry. Defaults to 2.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0))]
    pub multiplier: Option<f64>,

    /// Maximum delay. Defaults to `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = period())]
    pub max_delay: Option<String>,
}

/// Whether a retry avoids the node on which the failure occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AntiAffinity {
    /// What a retry avoids.
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
#[serde(deny_unknown_fields)]
#[x_kube(validation = Rule::new("self.operator != 'In' || !(0 in self.values)")
    .message("must not have 0 with the operator In: it is not a failure")
    .field_path(".values"))]
pub struct RetryExitCodes {
    /// Whether the exit code must be one of the values (`In`) or none of them (`NotIn`).
    pub operator: ExitCodeOperator,

    /// Exit codes: 1 to 255 values, without duplicates.
    #[schemars(length(min = 1, max = 255), extend("x-kubernetes-list-type" = "set"))]
    pub values: Vec<i32>,
}

/// A pattern for termination messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnTerminationMessage {
    /// Regular expression to search for in the termination message.
    #[schemars(length(min = 1, max = 512))]
    pub pattern: String,
}

/// Changes to the pods of a retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(deny_unknown_fields)]
#[x_kube(validation = Rule::new("has(self.memory)").message("must be given").field_path(".memory"))]
pub struct Mutation {
    /// Increases memory requests and limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryGrowth>,
}

/// Memory requests and limits × factor, up to a maximum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryGrowth {
    /// Factor by which memory grows with each retry, above 1 and at most 100.
    #[x_kube(validation = Rule::new("self > 1.0 && self <= 100.0")
        .message("must be above 1 and at most 100"))]
    pub factor: f64,

    /// Maximum memory of a container, such as `64Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new(
        "isQuantity(self) && !quantity(self).isLessThan(quantity('1'))"
    ).message("must be a quantity of at least 1 byte, such as 64Gi"))]
    pub max: Option<String>,
}

/// The grammar of durations, for the API server.
pub(super) fn period() -> Rule {
    Rule::new("self.matches('^[+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h|d))+)$')")
        .message("must be a duration like 90s, 1h30m, 1.5h or 7d (units ns us ms s m h d)")
}
