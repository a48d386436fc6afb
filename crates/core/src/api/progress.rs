use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::retry_policy::period;

/// When missing progress is a failure. Pods report progress in the annotation `workload.codeflare.dev/progress`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// How long pods may be running before one of them reports progress, such as `20m`; 10s to 7d. If it is not set,
    /// the time until the first report has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = period())]
    pub start_within: Option<String>,

    /// How long after the last progress the AppWrapper counts as hanging, such as `10m`; 10s to 7d. If it is not set,
    /// the controller waits only for the first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = period())]
    pub stall_after: Option<String>,
}

/// How far an attempt got, by the last reports of its pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptProgress {
    /// When a pod last made progress.
    pub at: Time,

    /// The largest training step that was done in any pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,

    /// The largest percentage that was done in any pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,

    /// Name of the last checkpoint, at most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}
