//! The object to create: the template, with what the AppWrapper and Kueue add to it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodSchedulingGate, Toleration};
use serde_json::{Map, Value, json};

use super::avoid::{NodeAntiAffinity, avoid, avoid_marks, avoid_suspects};
use super::fields::Fields;
use super::progress::{ProgressEndpoint, let_report};
use super::{Error, Kind, Path, PathError};
use crate::api::{Component, PodSet, PodSetInfo, SuspectNodes, keys};

/// API version in our owner references.
pub const OWNER_API_VERSION: &str = "workload.codeflare.dev/v1beta2";
/// Kind in our owner references.
pub const OWNER_KIND: &str = "AppWrapper";

/// What only the API server sets; it is not passed on.
const SERVER_SET: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generateName",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
];

/// The labels that [`OwnershipLabels::pod_labels`] sets.
const OURS: [&str; 4] = [keys::APPWRAPPER, keys::APPWRAPPER_UID, keys::ATTEMPT, keys::POD_SET];

/// Whose object it is, and what marks it.
#[derive(Clone, Copy, Debug)]
pub struct OwnershipLabels<'a> {
    /// Name of the AppWrapper.
    pub appwrapper: &'a str,
    /// UID of the AppWrapper.
    pub uid: &'a str,
    /// The attempt that creates it: 0, 1, 2, …
    pub attempt: i32,
    /// Namespace of the AppWrapper.
    pub namespace: &'a str,
    /// Index of the component in `spec.components`.
    pub component: usize,
    /// The queue of the AppWrapper; none where it names none.
    pub queue: Option<&'a str>,
    /// Scheduler of the pods that name none.
    pub scheduler_name: Option<&'a str>,
    /// Hostnames of nodes that its pods must not be on.
    pub avoid_nodes: &'a [String],
    /// Suspect nodes that its pods stay away from.
    pub suspect_nodes: Option<&'a SuspectNodes>,
    /// Marks of nodes that pods stay away from, where they use a resource.
    pub aversions: &'a [NodeAntiAffinity],
    /// Where its pods report their progress; none where they do not.
    pub progress: Option<&'a ProgressEndpoint>,
}

impl OwnershipLabels<'_> {
    /// The labels of a component's object: AppWrapper, its UID, and the attempt.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (keys::APPWRAPPER.to_owned(), self.appwrapper.to_owned()),
            (keys::APPWRAPPER_UID.to_owned(), self.uid.to_owned()),
            (keys::ATTEMPT.to_owned(), self.attempt.to_string()),
        ])
    }

    /// The labels of the pods of a pod set: those of the object, and the pod set.
    #[must_use]
    pub fn pod_labels(&self, pod_set: usize) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.insert(keys::POD_SET.to_owned(), format!("{}-{pod_set}", self.component));
        labels
    }
}

/// The object to create for a component.
///
/// On the object: our namespace, our labels, our owner reference as the only one, the queue of the AppWrapper where the
/// template names one, nothing that the API server sets, no `status`. On every pod template: our labels, what
/// `podSetInfos` of the same index adds, the nodes and the marks of nodes to avoid, and where progress is reported. Our
/// labels replace the template's and Kueue's of the same keys, because the controller finds its objects by them;
/// everything else of the template stays as it is.
/// Go: `createComponent`.
///
/// # Errors
/// Where a pod set leads nowhere, a field has another type than Kubernetes', the template names
/// another namespace, or `podSetInfos` and the template have different values for one label,
/// annotation or node selector entry.
pub fn render(
    component: &Component,
    pod_sets: &[PodSet],
    stamp: &OwnershipLabels<'_>,
) -> Result<Value, Error> {
    let mut object = component.template.clone();
    stamp_object(&mut object, stamp)?;
    for (index, set) in pod_sets.iter().enumerate() {
        let mut pod = injected(&mut object, component, index, set)?;
        pod.object("metadata")?.object("labels")?.overwrite(stamp.pod_labels(index));
        avoid(&mut pod, stamp.avoid_nodes)?;
        avoid_suspects(&mut pod, stamp.suspect_nodes)?;
        avoid_marks(&mut pod, stamp.aversions)?;
        if let Some(endpoint) = stamp.progress {
            let_report(&mut pod, endpoint, stamp.namespace, stamp.appwrapper)?;
        }
        if let Some(name) = stamp.scheduler_name {
            let spec = pod.object("spec")?;
            let named = spec.map.get("schedulerName").and_then(Value::as_str);
            if named.is_none_or(str::is_empty) {
                spec.map.insert("schedulerName".to_owned(), name.into());
            }
        }
    }
    Kind::of_object_of_any_version(&object).rules().finish(&mut object);
    Ok(object)
}

/// Checks that the pod templates can take what `podSetInfos` adds to them, as [`render`] adds it.
///
/// # Errors
/// Where a pod set leads nowhere, a field has another type than Kubernetes', or `podSetInfos` and the template have
/// different values for one label, annotation or node selector entry.
pub fn check_infos(component: &Component, pod_sets: &[PodSet]) -> Result<(), Error> {
    if component.pod_set_infos.is_empty() {
        return Ok(());
    }
    let mut object = component.template.clone();
    for (index, set) in pod_sets.iter().enumerate() {
        injected(&mut object, component, index, set)?;
    }
    Ok(())
}

/// The pod template of a pod set, with what `podSetInfos` of the same index adds.
fn injected<'a>(
    object: &'a mut Value,
    component: &Component,
    index: usize,
    set: &PodSet,
) -> Result<Fields<'a>, Error> {
    let path: Path = set.path.parse().map_err(|problem: PathError| {
        Error::new(format!("podSets[{index}].path"), &set.path, problem.to_string())
    })?;
    let mut pod = Fields::of(path.get_mut(object)?, set.path.clone())?;
    if let Some(info) = component.pod_set_infos.get(index) {
        let source = format!("podSetInfos[{index}]");
        inject_metadata(&mut pod.object("metadata")?, info, &source)?;
        inject_spec(&mut pod.object("spec")?, info, &source)?;
    }
    Ok(pod)
}

/// Namespace, labels and owner of the object itself.
fn stamp_object(object: &mut Value, stamp: &OwnershipLabels<'_>) -> Result<(), Error> {
    let mut object = Fields::of(object, "template".to_owned())?;
    object.map.remove("status");
    let mut metadata = object.object("metadata")?;
    for field in SERVER_SET {
        metadata.map.remove(field);
    }
    let here = stamp.namespace;
    match metadata.map.get("namespace") {
        None | Some(Value::Null) => {}
        Some(Value::String(name)) if name.is_empty() || name == here => {}
        Some(other) => {
            return Err(Error::found("template.metadata.namespace", other, format!("{here:?}")));
        }
    }
    metadata.map.insert("namespace".to_owned(), here.into());
    metadata.map.insert(
        "ownerReferences".to_owned(),
        json!([{
            "apiVersion": OWNER_API_VERSION,
            "kind": OWNER_KIND,
            "name": stamp.appwrapper,
            "uid": stamp.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }]),
    );
    let mut labels = metadata.object("labels")?;
    labels.overwrite(stamp.labels());
    // the AppWrapper may have moved to another queue since
    let named = labels.map.get(keys::QUEUE_NAME).and_then(Value::as_str);
    if let Some(queue) = stamp.queue
        && named.is_some_and(|named| !named.is_empty())
    {
        labels.map.insert(keys::QUEUE_NAME.to_owned(), queue.into());
    }
    Ok(())
}

/// Labels and annotations of a pod set info, except the labels that we set ourselves.
fn inject_metadata(
    metadata: &mut Fields<'_>,
    info: &PodSetInfo,
    source: &str,
) -> Result<(), Error> {
    let mut labels = info.labels.clone();
    labels.retain(|key, _| !OURS.contains(&key.as_str()));
    metadata.merge("labels", &labels, source)?;
    metadata.merge("annotations", &info.annotations, source)
}

/// Node selector, tolerations and scheduling gates of a pod set info.
fn inject_spec(spec: &mut Fields<'_>, info: &PodSetInfo, source: &str) -> Result<(), Error> {
    spec.merge("nodeSelector", &info.node_selector, source)?;
    if !info.tolerations.is_empty() {
        let additions: Vec<Value> = info.tolerations.iter().map(toleration).collect();
        spec.array("tolerations")?.extend(additions);
    }
    if !info.scheduling_gates.is_empty() {
        let gates = spec.array("schedulingGates")?;
        let mut known: BTreeSet<String> = gates.iter().filter_map(gate_name).collect();
        for PodSchedulingGate { name } in &info.scheduling_gates {
            if known.insert(name.clone()) {
                gates.push(json!({ "name": name }));
            }
        }
    }
    Ok(())
}

fn gate_name(gate: &Value) -> Option<String> {
    gate.get("name").and_then(Value::as_str).map(str::to_owned)
}

/// A toleration as JSON, without the fields that it leaves out.
fn toleration(toleration: &Toleration) -> Value {
    let Toleration { effect, key, operator, toleration_seconds, value } = toleration;
    let texts = [("effect", effect), ("key", key), ("operator", operator), ("value", value)];
    let mut fields: Map<String, Value> = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), Value::from(text.as_deref()?))))
        .collect();
    if let Some(seconds) = toleration_seconds {
        fields.insert("tolerationSeconds".to_owned(), (*seconds).into());
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::inspect;
    use super::super::testing::{any_json, config, damaged, given_object, given_pod};
    use super::*;

    const STAMP: OwnershipLabels<'_> = OwnershipLabels {
        appwrapper: "aw",
        uid: "u-1",
        attempt: 2,
        namespace: "team",
        component: 3,
        queue: None,
        scheduler_name: None,
        avoid_nodes: &[],
        suspect_nodes: None,
        aversions: &[],
        progress: None,
    };

    fn given_job(metadata: Value) -> Component {
        let mut pod = given_pod();
        pod["metadata"] = metadata;
        let template = given_object("batch/v1", "Job", &json!({ "template": pod }));
        Component { template, ..Component::default() }
    }

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn rendered(component: &Component, stamp: &OwnershipLabels<'_>) -> Result<Value, Error> {
        let inspected = inspect(component).expect("it is well formed");
        render(component, &inspected.pod_sets, stamp)
    }

    #[test]
    fn the_object_is_ours_and_says_so() {
        let mut component = given_job(json!(null));
        component.template["status"] = json!({"active": 1});
        component.template["metadata"] = json!({
            "name": "x", "namespace": "team", "uid": "other", "resourceVersion": "7",
            "labels": {"mine": "yes", keys::APPWRAPPER: "victim"},
            "ownerReferences": [{"name": "someone"}], "finalizers": ["example.com/keep"],
        });
        let object = rendered(&component, &STAMP).expect("it can be rendered");
        assert_eq!(object.get("status"), None);
        assert_eq!(
            object["metadata"],
            json!({
                "name": "x", "namespace": "team", "finalizers": ["example.com/keep"],
                "labels": {
                    "mine": "yes", keys::APPWRAPPER: "aw", keys::APPWRAPPER_UID: "u-1",
                    keys::ATTEMPT: "2",
                },
                "ownerReferences": [{
                    "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
                    "name": "aw", "uid": "u-1", "controller": true, "blockOwnerDeletion": true,
                }],
            })
        );
    }

    #[test]
    fn a_component_names_no_other_queue_than_its_appwrapper() {
        for (given, own, want) in [
            (json!({keys::QUEUE_NAME: "a"}), Some("b"), json!("b")),
            (json!({keys::QUEUE_NAME: "a"}), None, json!("a")),
            (json!({}), Some("b"), json!(null)),
            (json!(null), Some("b"), json!(null)),
        ] {
            let mut component = given_job(json!({}));
            component.template["metadata"]["labels"] = given.clone();
            let stamp = OwnershipLabels { queue: own, ..STAMP };
            let object = rendered(&component, &stamp).expect("it can be rendered");
            assert_eq!(object["metadata"]["labels"][keys::QUEUE_NAME], want, "{given} {own:?}");
        }
    }

    #[test]
    fn pods_carry_our_labels_whatever_metadata_they_had() {
        for (metadata, extra) in [
            (json!(null), None),
            (json!({}), None),
            (json!({"labels": null}), None),
            (json!({"labels": {"a": "b", keys::POD_SET: "9-9"}}), Some(("a", "b"))),
        ] {
            let object = rendered(&given_job(metadata), &STAMP).expect("it can be rendered");
            let mut want = STAMP.pod_labels(0);
            assert_eq!(want[keys::POD_SET], "3-0");
            want.extend(extra.map(|(key, value)| (key.to_owned(), value.to_owned())));
            assert_eq!(object["spec"]["template"]["metadata"]["labels"], json!(want));
        }
    }

    #[test]
    fn a_wrapped_pod_is_its_own_template() {
        let template = given_object("v1", "Pod", &given_pod()["spec"]);
        let component = Component { template, ..Component::default() };
        let object = rendered(&component, &STAMP).expect("it can be rendered");
        assert_eq!(object["metadata"]["labels"], json!(STAMP.pod_labels(0)));
        assert_eq!(object["metadata"]["name"], "x");
    }

    #[test]
    fn what_kueue_adds_is_merged() {
        let mut component = given_job(json!({"labels": {"a": "1"}}));
        component.template["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "z"});
        component.template["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "t"}]);
        component.template["spec"]["template"]["spec"]["schedulingGates"] = json!([{"name": "g"}]);
        let gate = |name: &str| PodSchedulingGate { name: name.to_owned() };
        component.pod_set_infos = vec![PodSetInfo {
            annotations: map(&[("note", "n")]),
            labels: map(&[("a", "1"), ("b", "2"), (keys::ATTEMPT, "77")]),
            node_selector: map(&[("zone", "z"), ("gpu", "h100")]),
            tolerations: vec![Toleration {
                key: Some("gpu".to_owned()),
                toleration_seconds: Some(5),
                ..Toleration::default()
            }],
            scheduling_gates: vec![gate("g"), gate("topology")],
        }];
        let stamp = OwnershipLabels { scheduler_name: Some("coscheduler"), ..STAMP };
        let pod_sets = inspect(&component).expect("it is well formed").pod_sets;
        assert_eq!(check_infos(&component, &pod_sets), Ok(()));
        assert_eq!(stamp.pod_labels(0).into_keys().collect::<Vec<_>>(), OURS);
        let object = rendered(&component, &stamp).expect("it can be rendered");
        let pod = &object["spec"]["template"];
        let mut labels = stamp.pod_labels(0);
        labels.extend(map(&[("a", "1"), ("b", "2")]));
        assert_eq!(pod["metadata"], json!({"annotations": {"note": "n"}, "labels": labels}));
        assert_eq!(pod["spec"]["nodeSelector"], json!({"zone": "z", "gpu": "h100"}));
        assert_eq!(
            pod["spec"]["tolerations"],
            json!([{"key": "t"}, {"key": "gpu", "tolerationSeconds": 5}])
        );
        assert_eq!(pod["spec"]["schedulingGates"], json!([{"name": "g"}, {"name": "topology"}]));
        assert_eq!(pod["spec"]["schedulerName"], "coscheduler");
    }

    #[test]
    fn a_scheduler_that_was_chosen_stays() {
        let stamp = OwnershipLabels { scheduler_name: Some("coscheduler"), ..STAMP };
        for (chosen, want) in [(json!("own"), "own"), (json!(""), "coscheduler")] {
            let mut component = given_job(json!(null));
            component.template["spec"]["template"]["spec"]["schedulerName"] = chosen;
            let object = rendered(&component, &stamp).expect("it can be rendered");
            assert_eq!(object["spec"]["template"]["spec"]["schedulerName"], want);
        }
    }

    #[test]
    fn a_ray_job_of_any_version_deletes_its_cluster_at_its_end() {
        let spec = json!({"rayClusterSpec": {"headGroupSpec": {"template": given_pod()}}});
        let path = "template.spec.rayClusterSpec.headGroupSpec.template";
        let set = PodSet { path: path.to_owned(), ..PodSet::default() };
        for version in ["ray.io/v1", "ray.io/v1alpha1"] {
            let template = given_object(version, "RayJob", &spec);
            let component =
                Component { template, pod_sets: vec![set.clone()], ..Component::default() };
            let object = rendered(&component, &STAMP).expect("it can be rendered");
            assert_eq!(object["spec"]["shutdownAfterJobFinishes"], json!(true), "{version}");
        }
    }

    #[test]
    fn different_values_for_one_key_are_an_error() {
        let entry = || map(&[("k", "new")]);
        for (info, want) in [
            (PodSetInfo { labels: entry(), ..PodSetInfo::default() }, "labels[k]"),
            (PodSetInfo { annotations: entry(), ..PodSetInfo::default() }, "annotations[k]"),
            (PodSetInfo { node_selector: entry(), ..PodSetInfo::default() }, "nodeSelector[k]"),
        ] {
            let old = json!({"k": "old"});
            let mut component = given_job(json!({"labels": old, "annotations": old}));
            component.template["spec"]["template"]["spec"]["nodeSelector"] = old;
            component.pod_set_infos = vec![info];
            let error = rendered(&component, &STAMP).expect_err("they differ");
            let pod_sets = inspect(&component).expect("it is well formed").pod_sets;
            assert_eq!(check_infos(&component, &pod_sets), Err(error.clone()));
            assert_eq!(error.field, format!("podSetInfos[0].{want}"));
            assert!(error.expected.starts_with("\"old\", the value in template.spec.template"));
        }
    }

    #[test]
    fn another_namespace_is_an_error() {
        let mut component = given_job(json!(null));
        component.template["metadata"]["namespace"] = json!("other");
        let error = rendered(&component, &STAMP).expect_err("it is another");
        assert_eq!(error.field, "template.metadata.namespace");
    }

    /// Whether everything of `before` is still in `after`; null may have become anything.
    fn keeps(before: &Value, after: &Value) -> bool {
        match before {
            Value::Null => true,
            Value::Object(fields) => fields
                .iter()
                .all(|(name, value)| after.get(name).is_some_and(|after| keeps(value, after))),
            Value::Array(items) => {
                let after = after.as_array().map_or(&[][..], Vec::as_slice);
                items.len() == after.len()
                    && items.iter().zip(after).all(|(before, after)| keeps(before, after))
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => before == after,
        }
    }

    #[test]
    fn a_number_of_the_template_keeps_its_digits() {
        let text = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},
            "spec":{"ratio":0.9452706955539223}}"#;
        let component =
            Component { template: serde_json::from_str(text).unwrap(), ..Component::default() };
        let object = render(&component, &[], &STAMP).unwrap();
        assert_eq!(object["spec"].to_string(), r#"{"ratio":0.9452706955539223}"#);
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn what_is_not_ours_is_kept(template in damaged()) {
            let component = Component { template, ..Component::default() };
            if let Ok(inspected) = inspect(&component) {
                let namespace = inspected.namespace.as_deref().unwrap_or("team");
                let stamp = OwnershipLabels { namespace, ..STAMP };
                let object = render(&component, &inspected.pod_sets, &stamp);
                let object = object.expect("what passes inspection can be rendered");
                let mut before = component.template.clone();
                before.as_object_mut().expect("it passed").remove("status");
                before["metadata"]["namespace"] = namespace.into();
                prop_assert!(keeps(&before, &object), "{} became {}", before, object);
                let again = Component { template: object.clone(), ..Component::default() };
                prop_assert_eq!(render(&again, &inspected.pod_sets, &stamp), Ok(object));
            }
        }

        #[test]
        fn whatever_it_is_there_is_an_answer(
            template in prop_oneof![any_json(), damaged()],
            path in prop_oneof![Just("template".to_owned()), Just("template.spec".to_owned()), ".{0,9}"],
        ) {
            let entries = map(&[("a", "b")]);
            let info = PodSetInfo {
                labels: entries.clone(),
                node_selector: entries,
                tolerations: vec![Toleration::default()],
                scheduling_gates: vec![PodSchedulingGate::default()],
                ..PodSetInfo::default()
            };
            let pod_sets = [PodSet { path, ..PodSet::default() }];
            let component =
                Component { template, pod_set_infos: vec![info], ..Component::default() };
            if let Ok(object) = render(&component, &pod_sets, &STAMP) {
                prop_assert!(object["metadata"]["ownerReferences"].is_array());
            }
        }
    }
}
