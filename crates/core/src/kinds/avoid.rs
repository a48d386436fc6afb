//! Nodes that pods stay away from: that of the last failure, suspect ones, and those that a health monitor has marked.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Error;
use super::fields::Fields;
use super::quantity::amount as amount_of;
use crate::api::{SuspectEffect, SuspectNodes, keys};

/// Where the terms are, of which one must hold.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The most terms that are written to; admission lets in fewer.
const TERMS_MAX: usize = 1_000;

/// Where preferences are.
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// How much a preference weighs, 1–100. Go: `preferNoScheduleWeight`, by default.
const WEIGHT: i32 = 50;

/// A mark of nodes, as a label of them, that keeps away pods that use a resource. Go: `resourceTaints`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAntiAffinity {
    /// The resource, such as `nvidia.com/gpu`.
    pub resource: String,
    /// Key of the label.
    pub key: String,
    /// Value of the label.
    pub value: String,
    /// Pods must not be there; else they only prefer to be elsewhere.
    pub required: bool,
}

/// Adds to a pod template that its pods must not be on nodes of these hostnames.
pub(super) fn avoid(pod: &mut Fields<'_>, hostnames: &[String]) -> Result<(), Error> {
    if hostnames.is_empty() {
        return Ok(());
    }
    require(pod, &[not_in(keys::HOSTNAME, hostnames)])
}

/// Adds to a pod template that its pods stay away from suspect nodes.
pub(super) fn avoid_suspects(
    pod: &mut Fields<'_>,
    suspects: Option<&SuspectNodes>,
) -> Result<(), Error> {
    let Some(SuspectNodes { effect, hostnames }) = suspects else { return Ok(()) };
    match effect {
        SuspectEffect::Require => avoid(pod, hostnames),
        SuspectEffect::Prefer if hostnames.is_empty() => Ok(()),
        SuspectEffect::Prefer => prefer(pod, &[not_in(keys::HOSTNAME, hostnames)]),
    }
}

/// Adds to a pod template that its pods stay away from nodes with these marks, as far as its containers
/// use the resources. Go: `addNodeSelectorsToAffinity`.
pub(super) fn avoid_marks(
    pod: &mut Fields<'_>,
    aversions: &[NodeAntiAffinity],
) -> Result<(), Error> {
    let spec = pod.map.get("spec").unwrap_or(&Value::Null);
    let of = |required: bool| -> Vec<Value> {
        let marks = marks(spec, aversions, required);
        marks.into_iter().map(|(key, values)| not_in(key, &values)).collect()
    };
    let (required, preferred) = (of(true), of(false));
    if !required.is_empty() {
        require(pod, &required)?;
    }
    if preferred.is_empty() {
        return Ok(());
    }
    prefer(pod, &preferred)
}

/// The values by which a mark keeps away the pods of this `spec`, by key: those that are required, or those that are not.
pub(super) fn marks<'a>(
    spec: &Value,
    aversions: &'a [NodeAntiAffinity],
    required: bool,
) -> BTreeMap<&'a str, Vec<String>> {
    let mut marks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let asked = aversions.iter().filter(|one| one.required == required);
    for one in asked.filter(|one| uses(spec, &one.resource)) {
        let values = marks.entry(&one.key).or_default();
        if !values.contains(&one.value) {
            values.push(one.value.clone());
        }
    }
    marks
}

/// Adds a preference for nodes that meet all these expressions.
fn prefer(pod: &mut Fields<'_>, expressions: &[Value]) -> Result<(), Error> {
    let term = json!({"weight": WEIGHT, "preference": {"matchExpressions": expressions}});
    let mut spec = pod.object("spec")?;
    let mut affinity = spec.object("affinity")?;
    let mut node = affinity.object("nodeAffinity")?;
    let terms = node.array(PREFERRED)?;
    if !terms.contains(&term) {
        terms.push(term);
    }
    Ok(())
}

fn not_in(key: &str, values: &[String]) -> Value {
    json!({"key": key, "operator": "NotIn", "values": values})
}

/// Whether a container or an init container requests a resource, or has a limit of it, that is not zero.
fn uses(spec: &Value, resource: &str) -> bool {
    let of = |field: &str| spec.get(field).and_then(Value::as_array).into_iter().flatten();
    of("containers").chain(of("initContainers")).any(|container| {
        ["requests", "limits"].into_iter().any(|field| {
            let amount = container.get("resources").and_then(|all| all.get(field)?.get(resource));
            amount.and_then(amount_of).is_some_and(|amount| amount > 0.0)
        })
    })
}

/// Adds expressions to each term of the required node affinity, since one of the terms is enough. Terms
/// that hold nowhere stay so: a list without any, and a term without any requirement.
fn require(pod: &mut Fields<'_>, additions: &[Value]) -> Result<(), Error> {
    let mut spec = pod.object("spec")?;
    let mut affinity = spec.object("affinity")?;
    let mut node = affinity.object("nodeAffinity")?;
    let is_new = node.map.get(REQUIRED).is_none_or(Value::is_null);
    let mut required = node.object(REQUIRED)?;
    if is_new {
        let terms = json!([{ "matchExpressions": additions }]);
        required.map.insert("nodeSelectorTerms".to_owned(), terms);
        return Ok(());
    }
    if required.map.get("nodeSelectorTerms").is_none_or(Value::is_null) {
        return Ok(());
    }
    let terms = required.array("nodeSelectorTerms")?;
    if terms.len() > TERMS_MAX {
        // what is added to each would make the object many times as large
        let field = format!("{REQUIRED}.nodeSelectorTerms");
        return Err(Error::new(
            field,
            &terms.len().to_string(),
            format!("at most {TERMS_MAX} terms"),
        ));
    }
    for term in terms {
        let mut term = Fields::of(term, format!("{REQUIRED}.nodeSelectorTerms[]"))?;
        let asks = |field: &str| {
            let items = term.map.get(field).and_then(Value::as_array);
            items.is_some_and(|items| !items.is_empty())
        };
        if !asks("matchExpressions") && !asks("matchFields") {
            continue;
        }
        let expressions = term.array("matchExpressions")?;
        for addition in additions {
            if !expressions.contains(addition) {
                expressions.push(addition.clone());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::OwnershipLabels;
    use super::*;
    use crate::api::Component;

    fn avoided(spec: &Value) -> Result<Value, Error> {
        let mut pod = json!({ "spec": spec });
        let hostnames = ["a".to_owned(), "b".to_owned()];
        avoid(&mut Fields::of(&mut pod, "pod".to_owned())?, &hostnames)?;
        Ok(pod["spec"].take())
    }

    fn terms(terms: &Value) -> Value {
        json!({"x": 1, "affinity": {"podAffinity": {}, "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [],
            REQUIRED: {"nodeSelectorTerms": terms},
        }}})
    }

    #[test]
    fn every_term_stays_away_from_the_nodes() {
        let not_in = json!({"key": keys::HOSTNAME, "operator": "NotIn", "values": ["a", "b"]});
        let zone = json!({"key": "zone", "operator": "In", "values": ["z"]});
        let field = json!({"key": "metadata.name", "operator": "In", "values": ["n"]});
        let alone = json!({"nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [not_in]}]}
        }});
        for (before, after) in [
            (json!({}), json!({"affinity": alone})),
            (json!({"affinity": null}), json!({"affinity": alone})),
            (
                terms(&json!([{"matchExpressions": [zone]}, {"matchFields": [field]}])),
                terms(&json!([
                    {"matchExpressions": [zone, not_in]},
                    {"matchFields": [field], "matchExpressions": [not_in]},
                ])),
            ),
            (
                terms(&json!([{"matchExpressions": [not_in, zone]}])),
                terms(&json!([{"matchExpressions": [not_in, zone]}])),
            ),
            // they hold nowhere, and must not begin to hold somewhere
            (terms(&json!([])), terms(&json!([]))),
            (terms(&json!(null)), terms(&json!(null))),
            (terms(&json!([{}])), terms(&json!([{}]))),
            (terms(&json!([{"matchExpressions": []}])), terms(&json!([{"matchExpressions": []}]))),
        ] {
            assert_eq!(avoided(&before).as_ref(), Ok(&after), "{before}");
            assert_eq!(avoided(&after).as_ref(), Ok(&after), "again");
        }
    }

    #[test]
    fn what_is_no_affinity_is_an_error() {
        for spec in [json!({"affinity": 3}), terms(&json!([3])), terms(&json!("x"))] {
            assert!(avoided(&spec).is_err(), "{spec}");
        }
    }

    #[test]
    fn a_rendered_object_has_it_in_every_pod_template_and_nothing_else() {
        let pod = super::super::testing::given_pod();
        let jobs = json!({"replicatedJobs": [
            {"name": "a", "template": {"spec": {"template": pod}}},
            {"name": "b", "template": {"spec": {"template": pod}}},
        ]});
        let template =
            super::super::testing::given_object("jobset.x-k8s.io/v1alpha2", "JobSet", &jobs);
        let component = Component { template, ..Component::default() };
        let pod_sets = super::super::infer(&component.template).unwrap();
        let rendered = |avoid_nodes: &[String]| {
            let stamp = OwnershipLabels {
                appwrapper: "aw",
                uid: "u",
                attempt: 0,
                namespace: "n",
                component: 0,
                queue: None,
                scheduler_name: None,
                avoid_nodes,
                suspect_nodes: None,
                aversions: &[],
                progress: None,
            };
            super::super::render(&component, &pod_sets, &stamp).unwrap()
        };
        let mut object = rendered(&["a".to_owned()]);
        for index in 0..2 {
            let spec = format!("/spec/replicatedJobs/{index}/template/spec/template/spec");
            let spec = object.pointer_mut(&spec).unwrap().as_object_mut().unwrap();
            assert!(spec.remove("affinity").unwrap().to_string().contains("NotIn"));
        }
        assert_eq!(object, rendered(&[]));
    }

    #[test]
    fn suspects_are_avoided_by_a_preference_or_a_requirement() {
        let rendered = |effect, hostnames: &[&str]| {
            let mut pod = json!({"spec": {}});
            let hostnames = hostnames.iter().map(|&name| name.to_owned()).collect();
            let suspects = SuspectNodes { effect, hostnames };
            let mut fields = Fields::of(&mut pod, "pod".to_owned()).unwrap();
            // a template that is rendered again does not grow
            for _ in 0..2 {
                avoid_suspects(&mut fields, Some(&suspects)).unwrap();
            }
            pod["spec"].clone()
        };
        let not_in = json!({"key": keys::HOSTNAME, "operator": "NotIn", "values": ["a", "b"]});
        let term = json!({"weight": WEIGHT, "preference": {"matchExpressions": [not_in]}});
        let preferred = json!({"affinity": {"nodeAffinity": {PREFERRED: [term]}}});
        assert_eq!(rendered(SuspectEffect::Prefer, &["a", "b"]), preferred);
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [not_in]}]});
        let required = json!({"affinity": {"nodeAffinity": {REQUIRED: required}}});
        assert_eq!(rendered(SuspectEffect::Require, &["a", "b"]), required);
        for effect in [SuspectEffect::Prefer, SuspectEffect::Require] {
            assert_eq!(rendered(effect, &[]), json!({}));
        }
    }

    fn aversion(resource: &str, value: &str, required: bool) -> NodeAntiAffinity {
        let (resource, value) = (resource.to_owned(), value.to_owned());
        NodeAntiAffinity { resource, key: "health".to_owned(), value, required }
    }

    fn shy(spec: &Value) -> Value {
        let mut pod = json!({ "spec": spec });
        let mut all = vec![
            aversion("gpu", "WARN", false),
            aversion("gpu", "TESTING", true),
            aversion("gpu", "EVICT", true),
            aversion("nic", "EVICT", true),
        ];
        all.push(NodeAntiAffinity { key: "links".to_owned(), ..aversion("nic", "DOWN", true) });
        avoid_marks(&mut Fields::of(&mut pod, "pod".to_owned()).unwrap(), &all).unwrap();
        pod["spec"]["affinity"].take()
    }

    #[test]
    fn pods_stay_away_from_marks_of_the_resources_that_they_use() {
        let health =
            |values: &[&str]| json!({"key": "health", "operator": "NotIn", "values": values});
        let links = json!({"key": "links", "operator": "NotIn", "values": ["DOWN"]});
        let wary = json!([{"weight": 50, "preference": {"matchExpressions": [health(&["WARN"])]}}]);
        let gpu = json!({"nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [health(&["TESTING", "EVICT"])]}]},
            PREFERRED: wary,
        }});
        let nic = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchExpressions": [health(&["EVICT"]), links]},
        ]}}});
        let both = json!({"nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [
                {"matchExpressions": [health(&["TESTING", "EVICT"]), links]},
            ]},
            PREFERRED: wary,
        }});
        let with = |resources: Value| json!({"resources": resources});
        for (spec, want) in [
            (json!({"containers": [with(json!({"limits": {"gpu": "1"}}))]}), &gpu),
            (json!({"containers": [with(json!({"requests": {"gpu": 1}}))]}), &gpu),
            (
                json!({"containers": [{}], "initContainers": [with(json!({"limits": {"gpu": "1"}}))]}),
                &gpu,
            ),
            (json!({"containers": [with(json!({"limits": {"nic": "2"}}))]}), &nic),
            (json!({"containers": [with(json!({"limits": {"nic": 1, "gpu": 1}}))]}), &both),
            (json!({"containers": [with(json!({"limits": {"gpu": "0"}}))]}), &json!(null)),
            (json!({"containers": [with(json!({"limits": {"cpu": "1"}}))]}), &json!(null)),
            (json!({"containers": [{}, {"resources": null}, 3]}), &json!(null)),
            (json!({}), &json!(null)),
        ] {
            assert_eq!(shy(&spec), *want, "{spec}");
        }
    }

    #[test]
    fn what_was_asked_of_nodes_before_still_holds() {
        let zone = |zone: &str| json!({"key": "zone", "operator": "In", "values": [zone]});
        let marks = json!({"key": "health", "operator": "NotIn", "values": ["TESTING", "EVICT"]});
        let hosts = json!({"key": keys::HOSTNAME, "operator": "NotIn", "values": ["a", "b"]});
        let near = json!({"weight": 1, "preference": {"matchExpressions": [zone("y")]}});
        let spec = json!({
            "containers": [{"resources": {"limits": {"gpu": "1"}}}],
            "affinity": {"podAffinity": {"x": 1}, "nodeAffinity": {
                PREFERRED: [near],
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone("y")]}, {},
                    {"matchExpressions": [zone("z")]}]},
            }},
        });
        let affinity = shy(&avoided(&spec).unwrap());
        assert_eq!(affinity["podAffinity"], json!({"x": 1}));
        let node = &affinity["nodeAffinity"];
        let terms = json!([
            {"matchExpressions": [zone("y"), hosts, marks]}, {},
            {"matchExpressions": [zone("z"), hosts, marks]},
        ]);
        assert_eq!(node[REQUIRED]["nodeSelectorTerms"], terms, "each of them, since one is enough");
        assert_eq!(node[PREFERRED][0], near);
        assert_eq!(node[PREFERRED].as_array().unwrap().len(), 2);
        let again = json!({"containers": spec["containers"], "affinity": affinity});
        assert_eq!(shy(&again), affinity, "nothing is added twice");
    }

    #[test]
    fn nothing_is_touched_where_nothing_is_avoided() {
        let mut pod = json!({"spec": {"affinity": 3}});
        let before = pod.clone();
        let mut fields = Fields::of(&mut pod, "pod".to_owned()).unwrap();
        assert_eq!(avoid(&mut fields, &[]), Ok(()));
        assert_eq!(pod, before);
    }
}
