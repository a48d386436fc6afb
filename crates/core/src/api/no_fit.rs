use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::retry_policy::period;

/// What to do with an AppWrapper whose pods cannot be scheduled although Kueue has admitted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct OnNoFit {
    /// How long a pod may stay unschedulable, such as `10m`; at least `10s`. Defaults to `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = period())]
    pub after: Option<String>,

    /// What to do with the reserved quota once all resources are deleted. No retry is used.
    pub action: NoFitAction,
}

/// What to do with the reserved quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NoFitAction {
    /// Keep it, and create the resources again after the pause between attempts.
    Hold,
    /// Give it back, and return to the queue.
    Requeue,
}

impl NoFitAction {
    /// Its name, as in the spec.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "Hold",
            Self::Requeue => "Requeue",
        }
    }
}

/// The return of an AppWrapper to its queue, from the decision until its Workload is active again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requeue {
    /// Number of the attempt whose pods could not be scheduled. The controller writes it into an annotation of the
    /// Workload that it deactivates.
    pub attempt: i32,

    /// Time before which the Workload is not activated again. Not set before all resources are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_after: Option<Time>,
}
