use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::retry_policy::period;

/// When retries that were used are given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Refill {
    /// How long all pods must run without interruption, such as `24h`; at least `1m`.
    #[schemars(length(max = 64))]
    #[x_kube(validation = period())]
    pub after: String,
}

/// When a failure is attributed to the workload itself, so that a retry would be useless.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct StopWhen {
    /// Number of attempts in a row that failed without progress: 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub attempts_without_progress: Option<i32>,

    /// Number of different nodes on which attempts without progress failed in the same way: with the same category,
    /// container and exit code. 2 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub same_failure_on_nodes: Option<i32>,

    /// An attempt made progress if its pods were running for this long before it failed. Defaults to `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = period())]
    pub progress_after: Option<String>,
}

/// Counted restarts since they were last given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Number of restarts counted against `maxRestarts` or the retry limit.
    pub used: i32,

    /// Number of restarts counted against `globalMaxRetries`.
    pub global_used: i32,

    /// When restarts were last given back.
    pub since: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time,
}
