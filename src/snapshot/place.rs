//! Where a pod can be: nodes as far as they matter for that, and what a pod template asks of them.

use std::collections::BTreeMap;

use crate::api::keys;

/// What matters of a node for where pods can be, whatever else is on it now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// Name of the node.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints that keep pods away: `NoSchedule`, `NoExecute`.
    pub taints: Vec<Taint>,
    /// What it can give to pods, by resource, in the resource's own unit.
    pub allocatable: BTreeMap<String, f64>,
}

/// A taint that keeps pods away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Its effect.
    pub effect: String,
}

/// What a pod template asks of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// `nodeName`.
    pub node_name: Option<String>,
    /// `nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity: one of these terms must hold; absent: anything goes.
    pub affinity: Option<Vec<Term>>,
    /// Its tolerations.
    pub tolerations: Vec<Toleration>,
    /// What its containers ask for together, by resource, in the resource's own unit.
    pub requests: BTreeMap<String, f64>,
}

/// A term of a required node affinity: all of it must hold, and an empty one never does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// About labels.
    pub expressions: Vec<Requirement>,
    /// About fields: `metadata.name`.
    pub fields: Vec<Requirement>,
}

/// One requirement of a term.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    /// Label or field.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`.
    pub operator: String,
    /// Values.
    pub values: Vec<String>,
}

/// A toleration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    /// Key; empty: every key.
    pub key: String,
    /// `Exists` or `Equal`; empty is `Equal`.
    pub operator: String,
    /// Value.
    pub value: String,
    /// Effect; empty: every effect.
    pub effect: String,
}

impl Site {
    /// Its label `kubernetes.io/hostname`, by which affinity tells it from others.
    #[must_use]
    pub fn hostname(&self) -> &str {
        self.labels.get(keys::HOSTNAME).map_or(&self.name, String::as_str)
    }
}

impl Placement {
    /// Whether some node but the one of this host name could take the pods.
    #[must_use]
    pub fn fits_elsewhere(&self, sites: &[std::sync::Arc<Site>], hostname: &str) -> bool {
        let _ = &self.node_name;
        sites.iter().any(|site| site.hostname() != hostname)
    }
}
