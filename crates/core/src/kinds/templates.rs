//! Pod templates as data: where their pods can be, and what memory their containers have.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Path;
use super::avoid::{NodeAntiAffinity, marks};
use super::quantity::amounts;
use super::registry::{LimitedMemory, limited_memory};
use crate::api::{Component, PodSet, PodSetInfo, keys};
use crate::price::{NODE_REQUIREMENTS_MAX, TOLERATIONS_MAX};
use crate::quantity::Bytes;
use crate::snapshot::place::{Placement, Requirement, Term, Toleration};
use crate::snapshot::{ContainerMemory, PodTemplate};

/// The pod template of each pod set of a component, with what Kueue and marks of nodes add to it. What cannot be read
/// counts as nothing asked.
#[must_use]
pub fn templates(
    component: &Component,
    pod_sets: &[PodSet],
    aversions: &[NodeAntiAffinity],
) -> Vec<PodTemplate> {
    let limited = limited_memory(&component.template);
    let of = |(index, set): (usize, &PodSet)| {
        let place = set.path.parse::<Path>().ok();
        let place = place.and_then(|path| path.get(&component.template).ok());
        let Some(spec) = place.and_then(|pod| pod.get("spec")) else {
            return PodTemplate::default();
        };
        let mut placement = placement(spec);
        if let Some(info) = component.pod_set_infos.get(index) {
            add_info(&mut placement, info);
        }
        add_marks(&mut placement, marks(spec, aversions, true));
        let (containers, memory_stays) = reaching(memory(spec), limited);
        PodTemplate { placement, containers, memory_stays }
    };
    pod_sets.iter().enumerate().map(of).collect()
}

/// The terms of the required node affinity of a pod template, by the path of its `spec`.
pub const NODE_TERMS: &str =
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";

/// The terms of the required node affinity in the `spec` of a pod template, where it has one.
#[must_use]
pub fn node_terms(spec: &Value) -> Option<&[Value]> {
    NODE_TERMS.split('.').try_fold(spec, |at, field| at.get(field))?.as_array().map(Vec::as_slice)
}

/// How many expressions, fields and values the required node affinity in the `spec` of a pod template has.
#[must_use]
pub fn node_requirements(spec: &Value) -> usize {
    let of = |term: &Value, field| -> usize {
        items(term, field).iter().map(|one| 1 + items(one, "values").len()).sum()
    };
    let all = node_terms(spec).into_iter().flatten();
    all.map(|term| of(term, "matchExpressions") + of(term, "matchFields")).sum()
}

/// What a pod template asks of a node. Of what exceeds its bound an affinity is not known, and a toleration is left
/// out.
fn placement(spec: &Value) -> Placement {
    let selector = spec.get("nodeSelector").and_then(Value::as_object).into_iter().flatten();
    let is_known = node_requirements(spec) <= NODE_REQUIREMENTS_MAX;
    let terms = node_terms(spec).filter(|_| is_known);
    Placement {
        node_name: Some(text(spec, "nodeName")).filter(|name| !name.is_empty()),
        node_selector: selector
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
        affinity: terms.map(|terms| terms.iter().map(term).collect()),
        tolerations: items(spec, "tolerations")
            .iter()
            .take(TOLERATIONS_MAX)
            .map(toleration)
            .collect(),
        requests: requests(spec),
        assigned_by_kueue: false,
    }
}

fn term(value: &Value) -> Term {
    let all = |field| items(value, field).iter().map(requirement).collect();
    Term { expressions: all("matchExpressions"), fields: all("matchFields") }
}

fn requirement(value: &Value) -> Requirement {
    let values = items(value, "values").iter().filter_map(Value::as_str);
    Requirement {
        key: text(value, "key"),
        operator: text(value, "operator"),
        values: values.map(str::to_owned).collect(),
    }
}

fn toleration(value: &Value) -> Toleration {
    Toleration {
        key: text(value, "key"),
        operator: text(value, "operator"),
        value: text(value, "value"),
        effect: text(value, "effect"),
    }
}

/// What Kueue adds: node selector, the scheduling gate of a topology, and tolerations, at most as many as a template may
/// have.
fn add_info(placement: &mut Placement, info: &PodSetInfo) {
    placement.assigned_by_kueue |=
        info.scheduling_gates.iter().any(|gate| gate.name == keys::TOPOLOGY_GATE);
    placement.node_selector.extend(info.node_selector.clone());
    let room = TOLERATIONS_MAX.saturating_sub(placement.tolerations.len());
    placement.tolerations.extend(info.tolerations.iter().take(room).map(|one| Toleration {
        key: one.key.clone().unwrap_or_default(),
        operator: one.operator.clone().unwrap_or_default(),
        value: one.value.clone().unwrap_or_default(),
        effect: one.effect.clone().unwrap_or_default(),
    }));
}

/// Adds that pods must not be on nodes with these marks, to each term, since one of them is enough.
fn add_marks(placement: &mut Placement, marks: BTreeMap<&str, Vec<String>>) {
    let not_in = |(key, values): (&str, Vec<String>)| Requirement {
        key: key.to_owned(),
        operator: "NotIn".to_owned(),
        values,
    };
    let expressions: Vec<Requirement> = marks.into_iter().map(not_in).collect();
    if expressions.is_empty() {
        return;
    }
    if let Some(terms) = &mut placement.affinity {
        // an empty one holds nowhere, and must not begin to hold somewhere
        for term in terms.iter_mut().filter(|term| **term != Term::default()) {
            term.expressions.extend(expressions.clone());
        }
    } else {
        placement.affinity = Some(vec![Term { expressions, ..Term::default() }]);
    }
}

/// What a pod asks for: its containers run together, its init containers one after the other beside
/// those of them that stay. Go: `resourcehelper.PodRequests`.
pub(super) fn requests(spec: &Value) -> BTreeMap<String, f64> {
    sum_of_containers(spec, |container| text(container, "restartPolicy") == "Always")
}

/// The same, where `stays` says which of the init containers are sidecars.
pub(super) fn sum_of_containers(
    spec: &Value,
    stays: impl Fn(&Value) -> bool,
) -> BTreeMap<String, f64> {
    let mut together = BTreeMap::new();
    for one in items(spec, "containers") {
        add(&mut together, &asked(one));
    }
    let (mut staying, mut most) = (BTreeMap::new(), BTreeMap::new());
    for one in items(spec, "initContainers") {
        let mut now = asked(one);
        if stays(one) {
            add(&mut staying, &now);
            now.clone_from(&staying);
        } else {
            add(&mut now, &staying);
        }
        raise(&mut most, &now);
    }
    add(&mut together, &staying);
    raise(&mut together, &most);
    add(&mut together, &amounts(spec.get("overhead")));
    together
}

/// What a container requests; its limit where it leaves that out.
fn asked(container: &Value) -> BTreeMap<String, f64> {
    let mut all = amounts(container.pointer("/resources/limits"));
    all.extend(amounts(container.pointer("/resources/requests")));
    all
}

fn add(sum: &mut BTreeMap<String, f64>, more: &BTreeMap<String, f64>) {
    for (resource, amount) in more {
        *sum.entry(resource.clone()).or_default() += amount;
    }
}

fn raise(most: &mut BTreeMap<String, f64>, other: &BTreeMap<String, f64>) {
    for (resource, amount) in other {
        let known = most.entry(resource.clone()).or_default();
        *known = known.max(*amount);
    }
}

/// The memory of the containers, init containers first; none where the pod as a whole has memory, which theirs must not
/// exceed.
fn memory(spec: &Value) -> Vec<ContainerMemory> {
    let of_pod = ["/resources/requests/memory", "/resources/limits/memory"];
    if of_pod.into_iter().filter_map(|field| spec.pointer(field)).any(|amount| !amount.is_null()) {
        return vec![];
    }
    let bytes = |container: &Value, field: &str| -> Option<Bytes> {
        match container.pointer(&format!("/resources/{field}/memory"))? {
            Value::String(text) => text.trim().parse().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    };
    let all = items(spec, "initContainers").iter().chain(items(spec, "containers"));
    let known = all.map(|container| ContainerMemory {
        name: text(container, "name"),
        request: bytes(container, "requests"),
        limit: bytes(container, "limits"),
    });
    known.collect()
}

/// The containers whose memory reaches the pods; and why it cannot grow, where only others have memory.
fn reaching(
    all: Vec<ContainerMemory>,
    limited: Option<LimitedMemory>,
) -> (Vec<ContainerMemory>, Option<&'static str>) {
    let Some(LimitedMemory { container, why }) = limited else { return (all, None) };
    let (reaching, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| Some(one.name.as_str()) == container);
    let has_memory = |one: &ContainerMemory| one.request.is_some() || one.limit.is_some();
    let stays = !reaching.iter().any(has_memory) && others.iter().any(has_memory);
    (reaching, stays.then_some(why))
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::infer;
    use super::super::testing::{any_json, config, given_object};
    use super::*;

    fn of(spec: &Value, info: Option<PodSetInfo>) -> PodTemplate {
        let job = json!({"template": {"spec": spec}});
        let template = given_object("batch/v1", "Job", &job);
        let component = Component {
            template,
            pod_set_infos: info.into_iter().collect(),
            ..Component::default()
        };
        let pod_sets = infer(&component.template).unwrap();
        templates(&component, &pod_sets, &[]).pop().unwrap()
    }

    fn map(entries: &[(&str, f64)]) -> BTreeMap<String, f64> {
        entries.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
    }

    #[test]
    fn what_a_template_asks_of_a_node_is_read_with_what_kueue_adds() {
        let spec = json!({
            "nodeName": "n",
            "nodeSelector": {"zone": "z"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{
                    "matchExpressions": [{"key": "k", "operator": "In", "values": ["1"]}],
                    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}],
                }]}}},
            "containers": [{"name": "c"}],
        });
        let info = PodSetInfo {
            node_selector: BTreeMap::from([("gpu".into(), "h100".into())]),
            tolerations: vec![v1::Toleration {
                key: Some("gpu".into()),
                effect: Some("NoSchedule".into()),
                ..v1::Toleration::default()
            }],
            scheduling_gates: vec![v1::PodSchedulingGate { name: keys::TOPOLOGY_GATE.into() }],
            ..PodSetInfo::default()
        };
        let placement = of(&spec, Some(info)).placement;
        let requirement = |key: &str, operator: &str, value: &str| Requirement {
            key: key.into(),
            operator: operator.into(),
            values: vec![value.into()],
        };
        let selector = [("gpu", "h100"), ("zone", "z")];
        let want = Placement {
            node_name: Some("n".into()),
            node_selector: selector.map(|(key, value)| (key.into(), value.into())).into(),
            affinity: Some(vec![Term {
                expressions: vec![requirement("k", "In", "1")],
                fields: vec![requirement("metadata.name", "NotIn", "x")],
            }]),
            tolerations: vec![
                Toleration { key: "a".into(), operator: "Exists".into(), ..Toleration::default() },
                Toleration {
                    key: "gpu".into(),
                    effect: "NoSchedule".into(),
                    ..Toleration::default()
                },
            ],
            requests: BTreeMap::new(),
            assigned_by_kueue: true,
        };
        assert_eq!(placement, want);
    }

    #[test]
    fn marks_that_pods_must_not_be_on_are_part_of_the_affinity() {
        let mark = |resource: &str, value: &str, required: bool| NodeAntiAffinity {
            resource: resource.into(),
            key: "health".into(),
            value: value.into(),
            required,
        };
        let aversions =
            [mark("gpu", "ERR", true), mark("gpu", "WARN", false), mark("nic", "X", true)];
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let terms =
            |terms: Value| json!({"nodeAffinity": {required: {"nodeSelectorTerms": terms}}});
        let zone = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        let asked = |key: &str, operator: &str, values: &[&str]| Requirement {
            key: key.into(),
            operator: operator.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let term = |expressions: &[Requirement]| Term {
            expressions: expressions.to_vec(),
            ..Term::default()
        };
        let (exists, marked) = (asked("zone", "Exists", &[]), asked("health", "NotIn", &["ERR"]));
        for (resource, affinity, want) in [
            ("gpu", json!(null), Some(vec![term(std::slice::from_ref(&marked))])),
            ("gpu", terms(json!([])), Some(vec![])),
            (
                "gpu",
                terms(json!([zone, {}])),
                Some(vec![term(&[exists.clone(), marked.clone()]), Term::default()]),
            ),
            ("cpu", json!(null), None),
            ("cpu", terms(json!([zone])), Some(vec![term(&[exists])])),
        ] {
            let container = json!({"name": "c", "resources": {"limits": {resource: "1"}}});
            let spec = json!({"affinity": affinity, "containers": [container]});
            let template = json!({ "spec": spec });
            let component = Component { template, ..Component::default() };
            let pod_sets = [PodSet { path: "template".into(), ..PodSet::default() }];
            let found = templates(&component, &pod_sets, &aversions);
            assert_eq!(found[0].placement.affinity, want, "{spec}");
        }
    }

    #[test]
    fn what_exceeds_its_bound_is_not_compared_with_nodes() {
        let placement = |expressions: usize, tolerations: usize| {
            let one = json!({"key": "k", "operator": "Exists"});
            let terms = json!([{"matchExpressions": vec![&one; expressions]}]);
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            placement(&json!({
                "affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}},
                "tolerations": vec![&one; tolerations],
            }))
        };
        let most = placement(NODE_REQUIREMENTS_MAX, TOLERATIONS_MAX);
        assert_eq!(
            most.affinity.map(|terms| terms[0].expressions.len()),
            Some(NODE_REQUIREMENTS_MAX)
        );
        assert_eq!(most.tolerations.len(), TOLERATIONS_MAX);
        let more = placement(NODE_REQUIREMENTS_MAX + 1, TOLERATIONS_MAX + 1);
        assert_eq!((more.affinity, more.tolerations.len()), (None, TOLERATIONS_MAX));
        let mut placement = placement(1, 1);
        let tolerations =
            vec![k8s_openapi::api::core::v1::Toleration::default(); 2 * TOLERATIONS_MAX];
        add_info(&mut placement, &PodSetInfo { tolerations, ..PodSetInfo::default() });
        assert_eq!(placement.tolerations.len(), TOLERATIONS_MAX);
    }

    #[test]
    fn requests_are_those_of_the_busiest_moment() {
        let with = |requests: Value| json!({"resources": {"requests": requests}});
        let stays = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}});
        for (containers, init, want) in [
            (vec![with(json!({"cpu": "500m"})), with(json!({"cpu": 1}))], vec![], 1.5),
            (vec![json!({"resources": {"limits": {"cpu": "2"}}})], vec![], 2.0),
            (
                vec![json!({"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}})],
                vec![],
                1.0,
            ),
            (vec![with(json!({"cpu": "1"}))], vec![with(json!({"cpu": "3"}))], 3.0),
            (vec![with(json!({"cpu": "1"}))], vec![stays.clone()], 1.25),
            (vec![with(json!({"cpu": "1"}))], vec![stays, with(json!({"cpu": "3"}))], 3.25),
        ] {
            let spec = json!({"containers": containers, "initContainers": init});
            assert_eq!(of(&spec, None).placement.requests, map(&[("cpu", want)]), "{spec}");
        }
        let spec = json!({"containers": [with(json!({"cpu": "1"}))], "overhead": {"cpu": "1"}});
        assert_eq!(of(&spec, None).placement.requests, map(&[("cpu", 2.0)]));
    }

    #[test]
    fn memory_is_read_of_every_container() {
        let containers = of(
            &json!({
                "initContainers": [{"name": "i"}],
                "containers": [
                    {"name": "a", "resources": {
                        "requests": {"memory": "1Gi"}, "limits": {"memory": 2048}}},
                    {"name": "b", "resources": {"requests": {"memory": "lots"}}},
                ]
            }),
            None,
        )
        .containers;
        let nothing = |name: &str| ContainerMemory { name: name.into(), ..Default::default() };
        let want = [
            nothing("i"),
            ContainerMemory {
                request: Some(Bytes(1 << 30)),
                limit: Some(Bytes(2048)),
                ..nothing("a")
            },
            nothing("b"),
        ];
        assert_eq!(containers, want);
    }

    #[test]
    fn no_container_grows_in_a_pod_that_has_memory_as_a_whole() {
        let requests = json!({"requests": {"memory": "4Gi"}});
        for (resources, want) in [
            (json!(null), 1),
            (json!({"requests": {"cpu": "1"}, "limits": {"memory": null}}), 1),
            (requests.clone(), 0),
            (json!({"limits": {"memory": "4Gi"}}), 0),
        ] {
            let main = json!({"name": "main", "resources": requests});
            let spec = json!({"resources": resources, "containers": [main]});
            assert_eq!(of(&spec, None).containers.len(), want, "{spec}");
        }
    }

    #[test]
    fn what_leads_nowhere_asks_nothing() {
        let pod_sets = [PodSet { path: "template.spec.nowhere".into(), ..PodSet::default() }];
        assert_eq!(templates(&Component::default(), &pod_sets, &[]), [PodTemplate::default()]);
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn whatever_it_is_there_is_an_answer(spec in any_json()) {
            let template = json!({ "spec": spec });
            let component = Component { template, ..Component::default() };
            let pod_sets = [PodSet { path: "template".into(), ..PodSet::default() }];
            prop_assert_eq!(templates(&component, &pod_sets, &[]).len(), 1);
        }
    }
}
