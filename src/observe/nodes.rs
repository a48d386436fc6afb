//! Nodes: what a health monitor says of them, and where pods can be.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::seen::Seen;
use crate::config::{Autopilot, Effect};
use crate::podsets;
use crate::snapshot::Node;
use crate::snapshot::place::{Site, Taint};

/// The marks of a node (key and value) that mean `NoExecute`, for each resource.
pub type Marks = BTreeMap<String, Vec<(String, String)>>;

/// The marks that mean `NoExecute`, as the configuration has them.
#[must_use]
pub fn marks(autopilot: &Autopilot) -> Marks {
    let taints = autopilot.resource_taints.iter();
    let marks = taints.map(|(resource, taints)| {
        let no_execute = taints.iter().filter(|taint| taint.effect == Effect::NoExecute);
        let marks = no_execute.map(|taint| (taint.key.clone(), taint.value.clone()));
        (resource.clone(), marks.collect())
    });
    marks.collect()
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanNode {
    spec: LeanNodeSpec,
    status: LeanNodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanNodeSpec {
    taints: Vec<LeanTaint>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanNodeStatus {
    allocatable: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanTaint {
    key: String,
    value: String,
    effect: String,
}

/// Reads a node: the resources that a health monitor has marked `NoExecute` on it, by its labels or
/// taints (Go: `updateNoExecuteNodes`), and what matters for where pods can be.
#[must_use]
pub fn node(seen: &Seen, marks: &Marks) -> (Node, Site) {
    let labels = seen.meta.labels.clone().unwrap_or_default();
    let lean: LeanNode = serde_json::from_str(seen.raw.get()).unwrap_or_default();
    let tainted = |(key, value): &(String, String)| {
        let effect = Effect::NoExecute.as_str();
        let mut taints = lean.spec.taints.iter();
        taints.any(|taint| taint.effect == effect && taint.key == *key && taint.value == *value)
    };
    let marked = |mark: &(String, String)| labels.get(&mark.0) == Some(&mark.1) || tainted(mark);
    let no_execute =
        marks.iter().filter(|(_, marks)| marks.iter().any(marked)).map(|(name, _)| name.clone());
    let node = Node { no_execute: no_execute.collect() };
    let taints = lean.spec.taints.into_iter().map(|LeanTaint { key, value, effect }| Taint {
        key,
        value,
        effect,
    });
    let site = Site {
        name: seen.meta.name.clone().unwrap_or_default(),
        taints: taints.filter(Taint::keeps_away).collect(),
        allocatable: podsets::amounts(Some(&lean.status.allocatable)),
        labels,
    };
    (node, site)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(value: &Value) -> Seen {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn a_node_is_marked_by_its_labels_or_taints() {
        let marks =
            BTreeMap::from([("gpu".to_owned(), vec![("health".to_owned(), "EVICT".to_owned())])]);
        let of = |value: &str| {
            node(&seen(&json!({"metadata": {"name": "n", "labels": {"health": value}}})), &marks).0
        };
        assert!(of("OK").no_execute.is_empty());
        assert_eq!(of("EVICT").no_execute.iter().collect::<Vec<_>>(), ["gpu"]);
        let tainted = |effect: &str| {
            let taint = json!({"key": "health", "value": "EVICT", "effect": effect});
            let object = json!({"metadata": {"name": "n"}, "spec": {"taints": [taint]}});
            !node(&seen(&object), &marks).0.no_execute.is_empty()
        };
        assert!(tainted("NoExecute") && !tainted("NoSchedule"));
    }

    #[test]
    fn a_node_has_labels_taints_and_so_much_to_give() {
        let taint = |effect: &str| json!({"key": "k", "value": "v", "effect": effect});
        let object = json!({
            "metadata": {"name": "n", "labels": {"a": "b"}},
            "spec": {"taints": [taint("NoSchedule"), taint("PreferNoSchedule")]},
            "status": {"allocatable": {"cpu": "3500m", "memory": "1Ki", "odd": []}},
        });
        let (_, site) = node(&seen(&object), &Marks::default());
        let want = Site {
            name: "n".into(),
            labels: BTreeMap::from([("a".into(), "b".into())]),
            taints: vec![Taint { key: "k".into(), value: "v".into(), effect: "NoSchedule".into() }],
            allocatable: BTreeMap::from([("cpu".into(), 3.5), ("memory".into(), 1024.0)]),
        };
        assert_eq!(site, want);
        assert_eq!(site.hostname(), "n");
    }
}
