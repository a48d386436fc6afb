//! Where a pod can be: nodes as far as they matter for that, and what a pod template asks of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::api::keys;

/// Resources that every kubelet tells of.
const NATIVE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What matters of a node for where pods can be, whatever else is on it now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// Name of the node.
    pub name: String,
    /// UID of the node.
    pub uid: String,
    /// When the node was created.
    pub created: Option<Timestamp>,
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
    /// Kueue chooses the node of each pod, which has its scheduling gate until then.
    pub assigned_by_kueue: bool,
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

impl Taint {
    /// Whether it keeps pods away, and not only asks them to go elsewhere.
    #[must_use]
    pub fn keeps_away(&self) -> bool {
        ["NoSchedule", "NoExecute"].contains(&self.effect.as_str())
    }
}

impl Placement {
    /// Whether a pod can be on a node when nothing else is on it. What is not known of the node keeps
    /// nothing away from it.
    #[must_use]
    pub fn fits(&self, site: &Site) -> bool {
        let selected = self
            .node_selector
            .iter()
            .all(|(key, value)| site.labels.get(key).is_some_and(|label| label == value));
        let tolerated = |taint: &Taint| self.tolerations.iter().any(|one| one.tolerates(taint));
        self.node_name.as_ref().is_none_or(|name| *name == site.name)
            && selected
            && self.affinity.as_ref().is_none_or(|terms| terms.iter().any(|term| term.holds(site)))
            && site.taints.iter().filter(|taint| taint.keeps_away()).all(tolerated)
            && self.requests.iter().all(|(resource, amount)| site.has(resource, *amount))
    }
}

impl Site {
    /// Whether it can give so much of a resource. Every kubelet tells of cpu and memory: where a node
    /// does not, as in a bundle by hand, it is not known; of any other resource it has none.
    fn has(&self, resource: &str, amount: f64) -> bool {
        let told = |resource: &str| self.allocatable.contains_key(resource);
        let unknown =
            self.allocatable.is_empty() || (NATIVE.contains(&resource) && !told(resource));
        let most = self.allocatable.get(resource).copied().unwrap_or_default();
        unknown || amount <= most
    }
}

impl Term {
    fn holds(&self, site: &Site) -> bool {
        let label = |one: &Requirement| one.holds(site.labels.get(&one.key).map(String::as_str));
        let field = |one: &Requirement| one.key == "metadata.name" && one.holds(Some(&site.name));
        let is_empty = self.expressions.is_empty() && self.fields.is_empty();
        !is_empty && self.expressions.iter().all(label) && self.fields.iter().all(field)
    }
}

impl Requirement {
    fn holds(&self, found: Option<&str>) -> bool {
        let listed = || found.is_some_and(|found| self.values.iter().any(|value| value == found));
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => self.compared(found) == Some(Ordering::Greater),
            "Lt" => self.compared(found) == Some(Ordering::Less),
            _ => false,
        }
    }

    /// How what was found compares to the one value; both are whole numbers.
    fn compared(&self, found: Option<&str>) -> Option<Ordering> {
        let [value] = self.values.as_slice() else { return None };
        let (found, value): (i64, i64) = (found?.parse().ok()?, value.parse().ok()?);
        Some(found.cmp(&value))
    }
}

impl Toleration {
    /// As the scheduler has it.
    fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key.is_empty() || self.key == taint.key;
        effect
            && key
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map<V: Clone>(entries: &[(&str, V)]) -> BTreeMap<String, V> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
    }

    fn labels(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn site() -> Site {
        let taint = |key: &str, effect: &str| Taint {
            key: key.into(),
            value: "v".into(),
            effect: effect.into(),
        };
        Site {
            name: "n-1".into(),
            uid: "u-1".into(),
            created: None,
            labels: labels(&[(keys::HOSTNAME, "host-1"), ("zone", "z"), ("gen", "7")]),
            taints: vec![taint("gpu", "NoSchedule"), taint("slow", "PreferNoSchedule")],
            allocatable: map(&[("cpu", 4.0), ("nvidia.com/gpu", 8.0)]),
        }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let [key, operator, value, effect] = [key, operator, value, effect].map(str::to_owned);
        Toleration { key, operator, value, effect }
    }

    fn welcome() -> Placement {
        Placement { tolerations: vec![toleration("gpu", "", "v", "")], ..Placement::default() }
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Requirement { key: key.into(), operator: operator.into(), values }
    }

    #[test]
    fn taints_are_kept_from_by_tolerations() {
        for (tolerations, want) in [
            (vec![], false),
            (vec![toleration("gpu", "", "v", "")], true),
            (vec![toleration("gpu", "Equal", "v", "NoSchedule")], true),
            (vec![toleration("gpu", "Equal", "w", "")], false),
            (vec![toleration("gpu", "Exists", "", "NoExecute")], false),
            (vec![toleration("other", "Exists", "", "")], false),
            (vec![toleration("", "Exists", "", "")], true),
            (vec![toleration("gpu", "Like", "v", "")], false),
        ] {
            let placement = Placement { tolerations, ..Placement::default() };
            assert_eq!(placement.fits(&site()), want, "{placement:?}");
        }
    }

    #[test]
    fn a_term_holds_as_a_whole_and_one_is_enough() {
        let field = |operator: &str, name: &str| Term {
            fields: vec![requirement("metadata.name", operator, &[name])],
            ..Term::default()
        };
        let term = |all: &[Requirement]| Term { expressions: all.to_vec(), ..Term::default() };
        let zone = requirement("zone", "In", &["a", "z"]);
        for (terms, want) in [
            (vec![], false),
            (vec![Term::default()], false),
            (vec![term(std::slice::from_ref(&zone))], true),
            (vec![term(&[zone.clone(), requirement("zone", "NotIn", &["z"])])], false),
            (vec![term(&[requirement("zone", "NotIn", &["z"])]), term(&[zone])], true),
            (vec![term(&[requirement("none", "NotIn", &["z"])])], true),
            (vec![term(&[requirement("none", "Exists", &[])])], false),
            (vec![term(&[requirement("none", "DoesNotExist", &[])])], true),
            (vec![term(&[requirement("gen", "Gt", &["6"])])], true),
            (vec![term(&[requirement("gen", "Gt", &["7"])])], false),
            (vec![term(&[requirement("gen", "Lt", &["10"])])], true),
            (vec![term(&[requirement("zone", "Lt", &["10"])])], false),
            (vec![term(&[requirement("none", "Gt", &["1"])])], false),
            (vec![term(&[requirement("gen", "Near", &["7"])])], false),
            (vec![field("In", "n-1")], true),
            (vec![field("NotIn", "n-1")], false),
            (
                vec![Term {
                    fields: vec![requirement("metadata.uid", "NotIn", &["u"])],
                    ..Term::default()
                }],
                false,
            ),
        ] {
            let placement = Placement { affinity: Some(terms), ..welcome() };
            assert_eq!(placement.fits(&site()), want, "{:?}", placement.affinity);
        }
    }

    #[test]
    fn a_node_has_labels_a_name_and_so_much_to_give() {
        let asked = |entries: &[(&str, f64)]| Placement { requests: map(entries), ..welcome() };
        let selects = |key: &str, value: &str| Placement {
            node_selector: labels(&[(key, value)]),
            ..welcome()
        };
        for (placement, want) in [
            (welcome(), true),
            (selects("zone", "z"), true),
            (selects("zone", "y"), false),
            (selects("none", ""), false),
            (Placement { node_name: Some("n-1".into()), ..welcome() }, true),
            (Placement { node_name: Some("n-2".into()), ..welcome() }, false),
            (asked(&[("cpu", 4.0)]), true),
            (asked(&[("cpu", 4.5)]), false),
            (asked(&[("nvidia.com/gpu", 8.0), ("cpu", 1.0)]), true),
            (asked(&[("amd.com/gpu", 1.0)]), false),
            (asked(&[("amd.com/gpu", 0.0)]), true),
            (asked(&[("memory", 1e12)]), true), // the node does not tell
        ] {
            assert_eq!(placement.fits(&site()), want, "{placement:?}");
        }
        let silent = Site { allocatable: BTreeMap::new(), ..site() };
        assert!(asked(&[("amd.com/gpu", 1.0)]).fits(&silent));
    }
}
