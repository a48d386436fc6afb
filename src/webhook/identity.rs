use std::collections::BTreeMap;

use serde::Deserialize;

/// Who asks, with everything that an authorizer may look at. Kubernetes: `UserInfo` of
/// `authentication.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// Name, such as `system:serviceaccount:<namespace>:<name>`.
    pub username: String,
    /// Tells it from an earlier user of the same name; empty where the authenticator has none.
    pub uid: String,
    /// Groups that it belongs to.
    pub groups: Vec<String>,
    /// What the authenticator says besides.
    pub extra: BTreeMap<String, Vec<String>>,
}
