//! What must be known of a component before it is created.

use serde_json::Value;

use super::node::Node;
use super::{Error, Path, Reference, check_declared, infer, parts, pod_template, reference};
use crate::api::{Component, PodSet};

/// What a component's template says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its `metadata.name`, never empty.
    pub name: String,
    /// Its `metadata.namespace`, where it names one.
    pub namespace: Option<String>,
    /// Its pod sets: the declared ones, or else the inferred ones.
    pub pod_sets: Vec<PodSet>,
    /// Name of the part that each pod set is.
    pub parts: Vec<Option<String>>,
}

/// Reads a component: name, kind and pod sets. Pure, and cheap enough for every reconcile.
///
/// Go: the checks of `validateAppWrapperInvariants` that concern one component, and
/// `EnsureComponentStatusInitialized`.
///
/// # Errors
/// The first field from which nothing can be created: no object, API version, kind or name, a
/// `generateName`, labels or annotations that are no strings, pod sets that lead nowhere or do not
/// agree with the template, or none where another object describes the pods.
pub fn inspect(component: &Component) -> Result<Inspected, Error> {
    let root = Node::template(&component.template);
    root.object()?;
    let api_version = root.field("apiVersion")?.required_text()?.to_owned();
    let kind = root.field("kind")?.required_text()?.to_owned();
    let metadata = root.field("metadata")?;
    metadata.object()?;
    let generate_name = metadata.field("generateName")?;
    if !matches!(generate_name.text()?, None | Some("")) {
        return Err(generate_name.error("metadata.name instead"));
    }
    let name = metadata.field("name")?.required_text()?.to_owned();
    let namespace = metadata.field("namespace")?.text()?;
    metadata.field("labels")?.string_map()?;
    metadata.field("annotations")?.string_map()?;

    for (index, set) in component.pod_sets.iter().enumerate() {
        check_path(&component.template, index, &set.path)?;
    }
    let inferred = infer(&component.template)?;
    check_declared(&component.pod_sets, &inferred)?;
    let pod_sets =
        if component.pod_sets.is_empty() { inferred } else { component.pod_sets.clone() };
    if let Some(described) = reference(&component.template).filter(|_| pod_sets.is_empty()) {
        let Reference { kind, name, .. } = described;
        let expected =
            format!("pod sets: the pods are described in {kind} {name}, which was not read");
        return Err(Error::new("podSets", "[]", expected));
    }
    let namespace = namespace.filter(|name| !name.is_empty()).map(str::to_owned);
    let parts = parts(&component.template, &pod_sets);
    Ok(Inspected { api_version, kind, name, namespace, pod_sets, parts })
}

/// Checks that the path of a declared pod set leads to a pod template.
fn check_path(template: &Value, index: usize, text: &str) -> Result<(), Error> {
    let refuse = |expected: String| Error::new(format!("podSets[{index}].path"), text, expected);
    let path: Path =
        text.parse().map_err(|problem: super::PathError| refuse(problem.to_string()))?;
    pod_template(template, &path)
        .map(drop)
        .map_err(|problem| refuse(format!("a path to a pod template, but {problem}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::testing::{any_json, config, damaged, given_kinds, given_object, given_pod};
    use super::*;

    fn given(template: Value, pod_sets: &[(&str, Option<i32>)]) -> Component {
        let pod_sets = pod_sets.iter().map(|(path, replicas)| PodSet {
            path: (*path).to_owned(),
            replicas: *replicas,
            ..PodSet::default()
        });
        Component { template, pod_sets: pod_sets.collect(), ..Component::default() }
    }

    #[test]
    fn every_known_kind_passes_with_and_without_its_own_pod_sets() {
        for (object, want) in given_kinds() {
            if reference(&object).is_some() {
                let error = inspect(&given(object, &[])).expect_err("its pods are elsewhere");
                assert_eq!(error.field, "podSets");
                continue;
            }
            let declared: Vec<_> = want.iter().map(|(path, count)| (*path, Some(*count))).collect();
            for component in [given(object.clone(), &[]), given(object.clone(), &declared)] {
                let found = inspect(&component).expect("it is well formed");
                assert_eq!((found.name.as_str(), found.namespace), ("x", None));
                assert_eq!(found.kind, object["kind"].as_str().expect("it has a kind"));
                assert_eq!(found.pod_sets.len(), want.len());
            }
        }
    }

    #[test]
    fn a_flaw_is_named_by_its_field() {
        let job = given_object("batch/v1", "Job", &json!({"template": given_pod()}));
        for (pointer, value, want) in [
            ("", json!("x"), "template"),
            ("/apiVersion", json!(""), "template.apiVersion"),
            ("/kind", json!(null), "template.kind"),
            ("/metadata", json!("boo"), "template.metadata"),
            ("/metadata", json!({}), "template.metadata.name"),
            ("/metadata/name", json!(""), "template.metadata.name"),
            (
                "/metadata",
                json!({"name": "x", "generateName": "x-"}),
                "template.metadata.generateName",
            ),
            ("/metadata", json!({"name": "x", "labels": {"a": {}}}), "template.metadata.labels[a]"),
            ("/metadata", json!({"name": "x", "namespace": 1}), "template.metadata.namespace"),
            ("/spec", json!({"template": {}}), "template.spec.template.spec"),
        ] {
            let mut object = job.clone();
            *object.pointer_mut(pointer).expect("the job has it") = value;
            let error = inspect(&given(object, &[])).expect_err(want);
            assert_eq!(error.field, want);
        }
    }

    #[test]
    fn declared_paths_lead_to_pod_templates() {
        let spec = json!({"pods": [given_pod()], "a": 1});
        let other = given_object("example.com/v1", "Thing", &spec);
        let but = "a path to a pod template, but template.spec";
        let no_index =
            format!("{but}.pods: Invalid value: \"[…]\": expected an array with the index 1");
        let no_spec = format!("{but}.spec: Invalid value: \"null\": expected an object");
        let step = "\".\" or \"[\" at position 8";
        for (path, replicas, want) in [
            ("template.spec.pods[0]", None, None),
            ("template.spec.pods[0]", Some(-1), Some(("podSets[0].replicas", "0 or more"))),
            ("template.spec.pods[1]", None, Some(("podSets[0].path", no_index.as_str()))),
            ("template.spec", None, Some(("podSets[0].path", no_spec.as_str()))),
            ("template/../../etc", None, Some(("podSets[0].path", step))),
        ] {
            let found = inspect(&given(other.clone(), &[(path, replicas)])).err();
            let found = found.as_ref().map(|error| (error.field.as_str(), error.expected.as_str()));
            assert_eq!(found, want, "{path}");
        }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn whatever_it_is_there_is_an_answer(
            template in prop_oneof![any_json(), damaged()],
            path in prop_oneof![Just("template.spec.template".to_owned()), ".{0,12}"],
            replicas in any::<Option<i32>>(),
        ) {
            for component in [given(template.clone(), &[]), given(template, &[(&path, replicas)])] {
                if let Ok(inspected) = inspect(&component) {
                    prop_assert!(!inspected.name.is_empty());
                }
            }
        }
    }
}
