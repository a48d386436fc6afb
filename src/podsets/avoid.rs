//! Nodes that the pods of a retry stay away from.

use serde_json::{Value, json};

use super::Error;
use super::fields::Fields;
use crate::api::keys;

/// Where the terms are, of which one must hold.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Adds to a pod template that its pods must not be on nodes of these hostnames: to each term of its
/// required node affinity, since one of them is enough. Terms that hold nowhere stay so: a list without
/// any, and a term without any requirement.
pub(super) fn avoid(pod: &mut Fields<'_>, hostnames: &[String]) -> Result<(), Error> {
    if hostnames.is_empty() {
        return Ok(());
    }
    let expression = json!({"key": keys::HOSTNAME, "operator": "NotIn", "values": hostnames});
    let mut spec = pod.object("spec")?;
    let mut affinity = spec.object("affinity")?;
    let mut node = affinity.object("nodeAffinity")?;
    let is_new = node.map.get(REQUIRED).is_none_or(Value::is_null);
    let mut required = node.object(REQUIRED)?;
    if is_new {
        let terms = json!([{ "matchExpressions": [expression] }]);
        required.map.insert("nodeSelectorTerms".to_owned(), terms);
        return Ok(());
    }
    if required.map.get("nodeSelectorTerms").is_none_or(Value::is_null) {
        return Ok(());
    }
    for term in required.array("nodeSelectorTerms")? {
        let mut term = Fields::of(term, format!("{REQUIRED}.nodeSelectorTerms[]"))?;
        let asks = |field: &str| {
            let items = term.map.get(field).and_then(Value::as_array);
            items.is_some_and(|items| !items.is_empty())
        };
        if !asks("matchExpressions") && !asks("matchFields") {
            continue;
        }
        let expressions = term.array("matchExpressions")?;
        if !expressions.contains(&expression) {
            expressions.push(expression.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Stamp;
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
            let stamp = Stamp {
                appwrapper: "aw",
                uid: "u",
                attempt: 0,
                namespace: "n",
                component: 0,
                scheduler_name: None,
                avoid_nodes,
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
    fn nothing_is_touched_where_nothing_is_avoided() {
        let mut pod = json!({"spec": {"affinity": 3}});
        let before = pod.clone();
        let mut fields = Fields::of(&mut pod, "pod".to_owned()).unwrap();
        assert_eq!(avoid(&mut fields, &[]), Ok(()));
        assert_eq!(pod, before);
    }
}
