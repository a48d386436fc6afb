//! Nodes: what a health monitor says of them, and where pods can be.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::Value;

use super::raw_object::RawObject;
use crate::config::{Autopilot, Effect};
use crate::kinds::{self, NodeAntiAffinity};
use crate::snapshot::Node;
use crate::snapshot::lost::{Loss, Lost, OUT_OF_SERVICE};
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

/// The marks that pods stay away from where they use a resource; none where that is switched off.
#[must_use]
pub fn aversions(autopilot: &Autopilot) -> Vec<NodeAntiAffinity> {
    let taints = autopilot.resource_taints.iter().filter(|_| autopilot.inject_anti_affinities);
    let all = taints.flat_map(|(resource, taints)| {
        taints.iter().map(|taint| NodeAntiAffinity {
            resource: resource.clone(),
            key: taint.key.clone(),
            value: taint.value.clone(),
            required: match taint.effect {
                Effect::NoSchedule | Effect::NoExecute => true,
                Effect::PreferNoSchedule => false,
            },
        })
    });
    all.collect()
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
    conditions: Vec<LeanCondition>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LeanCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<Time>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LeanTaint {
    key: String,
    value: String,
    effect: String,
    time_added: Option<Time>,
}

/// Taint of a node whose kubelet says nothing any more.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Taint of a node whose kubelet says that it is not ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

impl LeanNode {
    /// What the node says of itself: its Ready condition, or the taints that follow from it where the
    /// condition is not there, as in a bundle by hand.
    fn unready(&self) -> Option<Loss> {
        let Some(ready) = self.status.conditions.iter().find(|one| one.kind == "Ready") else {
            let unreachable = self.tainted(UNREACHABLE, Lost::Unreachable);
            return unreachable.or_else(|| self.tainted(NOT_READY, Lost::NotReady));
        };
        let state = match ready.status.as_str() {
            "True" => return None,
            "False" => Lost::NotReady,
            _ => Lost::Unreachable,
        };
        Some(Loss { state, since: ready.last_transition_time.as_ref().map(|time| time.0) })
    }

    /// What a taint says of it, where it has it.
    fn tainted(&self, key: &str, state: Lost) -> Option<Loss> {
        let taint = self.spec.taints.iter().find(|taint| taint.key == key)?;
        Some(Loss { state, since: taint.time_added.as_ref().map(|time| time.0) })
    }

    /// Whether its pods count as lost, and from when on.
    fn loss(&self) -> Option<Loss> {
        let unready = self.unready();
        let Some(out) = self.tainted(OUT_OF_SERVICE, Lost::OutOfService) else { return unready };
        let since = unready.and_then(|loss| loss.since).or(out.since);
        Some(Loss { since, ..out })
    }
}

/// A node of which the API server says that it does not exist.
#[must_use]
pub const fn deleted() -> Node {
    let lost = Some(Loss { state: Lost::Deleted, since: None });
    Node { no_execute: std::collections::BTreeSet::new(), lost }
}

/// Reads a node: the resources that a health monitor has marked `NoExecute` on it, by its labels or
/// taints (Go: `updateNoExecuteNodes`), whether its pods are lost, and what matters for where pods can
/// be.
#[must_use]
pub fn node(seen: &RawObject, marks: &Marks) -> (Node, Site) {
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
    let node = Node { no_execute: no_execute.collect(), lost: lean.loss() };
    let taints = lean.spec.taints.into_iter();
    let taints =
        taints.map(|LeanTaint { key, value, effect, time_added: _ }| Taint { key, value, effect });
    let site = Site {
        name: seen.meta.name.clone().unwrap_or_default(),
        uid: seen.meta.uid.clone().unwrap_or_default(),
        created: seen.meta.creation_timestamp.as_ref().map(|time| time.0),
        taints: taints.filter(Taint::keeps_away).collect(),
        allocatable: kinds::amounts(Some(&lean.status.allocatable)),
        labels,
    };
    (node, site)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(value: &Value) -> RawObject {
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
    fn the_pods_of_a_node_are_lost_by_its_condition_or_by_taints() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
        let ready =
            |status: &str| json!({"type": "Ready", "status": status, "lastTransitionTime": early});
        let taint = |key: &str| json!({"key": key, "effect": "NoExecute", "timeAdded": late});
        let bare = json!({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"});
        let (oos, gone, unready) = (taint(OUT_OF_SERVICE), taint(UNREACHABLE), taint(NOT_READY));
        let pressure = json!({"type": "MemoryPressure", "status": "True"});
        for (conditions, taints, want) in [
            (vec![], vec![], None),
            (vec![pressure, ready("True")], vec![gone.clone()], None),
            (vec![ready("False")], vec![], Some((Lost::NotReady, Some(early)))),
            (vec![ready("Unknown")], vec![gone.clone()], Some((Lost::Unreachable, Some(early)))),
            (vec![], vec![unready], Some((Lost::NotReady, Some(late)))),
            (vec![], vec![gone], Some((Lost::Unreachable, Some(late)))),
            (vec![ready("True")], vec![oos.clone()], Some((Lost::OutOfService, Some(late)))),
            (vec![ready("True")], vec![bare], Some((Lost::OutOfService, None))),
            (vec![ready("Unknown")], vec![oos], Some((Lost::OutOfService, Some(early)))),
        ] {
            let object = json!({
                "metadata": {"name": "n"},
                "spec": {"taints": taints}, "status": {"conditions": conditions},
            });
            let want = want.map(|(state, since)| Loss {
                state,
                since: since.map(|text: &str| text.parse().unwrap()),
            });
            assert_eq!(node(&seen(&object), &Marks::default()).0.lost, want, "{object}");
        }
    }

    #[test]
    fn a_node_has_labels_taints_and_so_much_to_give() {
        let taint = |effect: &str| json!({"key": "k", "value": "v", "effect": effect});
        let object = json!({
            "metadata": {"name": "n", "labels": {"a": "b"},
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"taints": [taint("NoSchedule"), taint("PreferNoSchedule")]},
            "status": {"allocatable": {"cpu": "3500m", "memory": "1Ki", "odd": []}},
        });
        let (_, site) = node(&seen(&object), &Marks::default());
        let want = Site {
            name: "n".into(),
            uid: String::new(),
            created: "2026-01-01T00:00:00Z".parse().ok(),
            labels: BTreeMap::from([("a".into(), "b".into())]),
            taints: vec![Taint { key: "k".into(), value: "v".into(), effect: "NoSchedule".into() }],
            allocatable: BTreeMap::from([("cpu".into(), 3.5), ("memory".into(), 1024.0)]),
        };
        assert_eq!(site, want);
        assert_eq!(site.hostname(), "n");
    }
}
