use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Evidence that a node makes AppWrappers fail. Only the controller writes it. Like the data of a Lease, it is in
/// `spec`, so that one request writes all of it.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "workload.codeflare.dev",
    version = "v1alpha1",
    kind = "NodeSuspicion",
    plural = "nodesuspicions",
    derive = "PartialEq",
    doc = "Failures of AppWrappers that began on a node. Written by the controller; has the name of the Node.",
    printcolumn(name = "Score", type_ = "integer", json_path = ".spec.score"),
    printcolumn(name = "Suspect Since", type_ = "string", json_path = ".spec.suspectSince"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeSuspicionSpec {
    /// UID of the Node. Evidence about an earlier Node of the same name does not count.
    #[serde(default, rename = "nodeUID")]
    #[schemars(length(max = 253))]
    pub node_uid: String,

    /// Points at `scoredAt`. They halve with each half-life of the configuration. The node is suspect while they are at
    /// least the threshold of the configuration.
    #[serde(default)]
    pub score: i32,

    /// When `score` was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scored_at: Option<Time>,

    /// When the score reached the threshold. Not set while it is below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspect_since: Option<Time>,

    /// When the last evidence expires; the controller then deletes the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,

    /// The failures: lost nodes first, then the newest first; at most 4 per namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub evidence: Vec<SuspicionEvidence>,
}

/// The first cause of an attempt that failed: a pod on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspicionEvidence {
    /// What shows the failure.
    pub kind: EvidenceKind,

    /// Namespace of the AppWrapper.
    #[schemars(length(max = 253))]
    pub namespace: String,

    /// Name of the AppWrapper.
    #[schemars(length(max = 253))]
    pub name: String,

    /// UID of the AppWrapper.
    #[schemars(length(max = 253))]
    pub uid: String,

    /// Number of the attempt.
    #[serde(default)]
    pub attempt: i32,

    /// Name of the component, or `Kind/name` if another component has the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub component: Option<String>,

    /// Name of the pod without its random suffix. It stays the same in each attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub rank: Option<String>,

    /// Category of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub category: Option<String>,

    /// Exit code of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,

    /// When the failure occurred.
    pub time: Time,

    /// Whether this evidence no longer counts: the pod of the same rank failed in the same way on another node, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}

/// What shows a failure.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum EvidenceKind {
    /// The Node was not ready, unreachable or out of service. No user of AppWrappers can make it so.
    NodeLost,
    /// A container, in a category that the configuration lists in `nodeSuspicion.hardwareCategories`.
    Hardware,
    /// A container, by its exit code.
    Container,
}

/// Nodes that an attempt avoids because they are suspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspectNodes {
    /// How they are avoided.
    pub effect: SuspectEffect,

    /// Their hostnames, at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
}

/// How the pods of an attempt avoid suspect nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SuspectEffect {
    /// By a preference.
    Prefer,
    /// By a requirement.
    Require,
}

impl EvidenceKind {
    /// Its name, as in the object.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeLost => "NodeLost",
            Self::Hardware => "Hardware",
            Self::Container => "Container",
        }
    }
}

impl SuspectEffect {
    /// Its name, as in the status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prefer => "Prefer",
            Self::Require => "Require",
        }
    }
}
