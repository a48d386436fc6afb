//! What a cluster has added to the `spec` of an object that was read from it. Pure.

use serde_json::{Map, Value};

use crate::api::keys;
use crate::kinds;

/// What Kueue adds to the metadata of a pod, or of a pod template of what it has admitted. Source: Kueue 0.19.
const OF_KUEUE: [(&str, &str); 10] = [
    ("labels", MANAGED_BY_KUEUE),
    ("labels", "kueue.x-k8s.io/podset"),
    ("labels", keys::QUEUE_NAME),
    ("labels", "kueue.x-k8s.io/local-queue-name"),
    ("labels", "kueue.x-k8s.io/cluster-queue-name"),
    ("labels", "kueue.x-k8s.io/multikueue-worker-workload-pod"),
    ("annotations", "kueue.x-k8s.io/workload"),
    ("annotations", "kueue.x-k8s.io/workload-slice-name"),
    ("annotations", "kueue.x-k8s.io/pod-suspending-parent"),
    ("annotations", "kueue.x-k8s.io/pod-group-serving"),
];

/// Kueue adds it in a queue with a topology where a template asks for none; its author may have written it as well.
const UNCONSTRAINED: &str = "kueue.x-k8s.io/podset-unconstrained-topology";

/// The label of a Pod that Kueue admits by itself.
const MANAGED_BY_KUEUE: &str = "kueue.x-k8s.io/managed";

/// Labels by which a Job finds its pods. Kubernetes: `generateSelector` of the strategy of Jobs.
const OF_JOBS: [&str; 4] = [
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
];

/// Removes from an object what the API server or a controller has added to it, so that it can be created again.
pub(super) fn remove(object: &mut Value) {
    let kind = (object["apiVersion"].as_str(), object["kind"].as_str());
    match kind {
        (Some("batch/v1"), Some("Job")) => job(object),
        (Some("v1"), Some("Service")) => service(object),
        (Some("v1"), Some("Pod")) => drop_fields(object, "/spec", &["nodeName"]),
        (Some("apps/v1"), Some("Deployment")) => {
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
            if let Some(metadata) = metadata {
                remove_entry(metadata, "annotations", "deployment.kubernetes.io/revision");
            }
        }
        _ => {}
    }
}

/// A selector that its author wrote stays.
fn job(object: &mut Value) {
    if object.pointer("/spec/manualSelector") == Some(&true.into()) {
        return;
    }
    drop_fields(object, "/spec", &["selector", "manualSelector"]);
    for path in ["/metadata", "/spec/template/metadata"] {
        if let Some(metadata) = object.pointer_mut(path).and_then(Value::as_object_mut) {
            for label in OF_JOBS {
                remove_entry(metadata, "labels", label);
            }
        }
    }
}

/// Removes from the pod templates of an object what Kueue has added to them: it admits the AppWrapper instead, and adds to
/// its components what their pods need then. Returns whether node selectors, tolerations or the annotation of an
/// unconstrained topology remain, which may be Kueue's, too.
pub(super) fn remove_of_kueue(object: &mut Value) -> bool {
    let mut has_placement = false;
    for set in kinds::infer(object).unwrap_or_default() {
        let Ok(path) = set.path.parse::<kinds::Path>() else { continue };
        let Ok(pod) = path.get_mut(object) else { continue };
        let spec = &pod["spec"];
        let selects = spec["nodeSelector"].as_object().is_some_and(|labels| !labels.is_empty());
        let tolerates = spec["tolerations"].as_array().is_some_and(|all| all.iter().any(is_given));
        let is_unconstrained = pod["metadata"]["annotations"][UNCONSTRAINED] == "true";
        has_placement |= remove_of_pod(pod) && (selects || tolerates || is_unconstrained);
    }
    has_placement
}

/// Whether a toleration is none that the API server adds to every Pod. Source: its admission plugin
/// `DefaultTolerationSeconds`.
fn is_given(toleration: &Value) -> bool {
    let key = toleration["key"].as_str().unwrap_or_default();
    !["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].contains(&key)
}

/// Whether there was anything to remove from a pod template.
fn remove_of_pod(pod: &mut Value) -> bool {
    let before = pod.clone();
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        for (map, key) in OF_KUEUE {
            remove_entry(metadata, map, key);
        }
    }
    if let Some(gates) = pod.pointer_mut("/spec/schedulingGates").and_then(Value::as_array_mut) {
        let domain = |gate: &Value| Some(gate["name"].as_str()?.split_once('/')?.0.to_owned());
        gates.retain(|gate| domain(gate).as_deref() != Some(keys::KUEUE_GROUP));
        if gates.is_empty() {
            drop_fields(pod, "/spec", &["schedulingGates"]);
        }
    }
    *pod != before
}

/// A headless Service stays so.
fn service(object: &mut Value) {
    if object.pointer("/spec/clusterIP").is_some_and(|address| address != "None") {
        drop_fields(object, "/spec", &["clusterIP", "clusterIPs"]);
    }
}

fn drop_fields(object: &mut Value, path: &str, fields: &[&str]) {
    if let Some(map) = object.pointer_mut(path).and_then(Value::as_object_mut) {
        map.retain(|field, _| !fields.contains(&field.as_str()));
    }
}

/// Removes an entry, and the map where that leaves it empty.
pub(super) fn remove_entry(metadata: &mut Map<String, Value>, map: &str, key: &str) {
    let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) else { return };
    if entries.remove(key).is_some() && entries.is_empty() {
        metadata.remove(map);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_cluster_added_to_the_spec_is_removed() {
        let job = |spec: Value, labels: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": labels}, "spec": spec});
        let labels = json!({"controller-uid": "u", "job-name": "j", "batch.kubernetes.io/controller-uid": "u",
            "batch.kubernetes.io/job-name": "j", "team": "vision"});
        let template = |labels: &Value| json!({"metadata": {"labels": labels}, "spec": {}});
        let selector = json!({"matchLabels": {"controller-uid": "u"}});
        let read =
            json!({"selector": selector, "manualSelector": false, "template": template(&labels)});
        let own =
            json!({"selector": selector, "manualSelector": true, "template": template(&labels)});
        let of = |kind: &str, version: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "spec": spec});
        let team = json!({"team": "vision"});
        let revision = json!({"deployment.kubernetes.io/revision": "1"});
        let deployment = |metadata: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata});
        for (found, want) in [
            (job(read, labels.clone()), job(json!({"template": template(&team)}), team.clone())),
            (job(own.clone(), labels.clone()), job(own, labels)),
            (
                of(
                    "Service",
                    "v1",
                    json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ports": []}),
                ),
                of("Service", "v1", json!({"ports": []})),
            ),
            (
                of("Service", "v1", json!({"clusterIP": "None", "clusterIPs": ["None"]})),
                of("Service", "v1", json!({"clusterIP": "None", "clusterIPs": ["None"]})),
            ),
            (of("Pod", "v1", json!({"nodeName": "n", "x": 1})), of("Pod", "v1", json!({"x": 1}))),
            (deployment(json!({"annotations": revision})), deployment(json!({}))),
            (json!(null), json!(null)),
        ] {
            let mut object = found.clone();
            remove(&mut object);
            assert_eq!(object, want, "{found}");
        }
    }

    #[test]
    fn what_kueue_added_to_a_pod_is_removed() {
        let pod = |metadata: Value, mut spec: Value| {
            spec["containers"] = json!([{"name": "main"}]);
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        };
        let gated = |names: &[&str]| {
            let gates: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"schedulingGates": gates})
        };
        for (found, want) in [
            (
                pod(json!({"labels": {MANAGED_BY_KUEUE: "true"}}), json!({"priority": 0})),
                pod(json!({}), json!({"priority": 0})),
            ),
            (
                pod(json!({"labels": {MANAGED_BY_KUEUE: "true", "team": "vision"}}), json!({})),
                pod(json!({"labels": {"team": "vision"}}), json!({})),
            ),
            (
                pod(json!({}), gated(&["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"])),
                pod(json!({}), json!({})),
            ),
            (
                pod(json!({}), gated(&["kueue.x-k8s.io/admission", "example.com/quota"])),
                pod(json!({}), gated(&["example.com/quota"])),
            ),
        ] {
            let mut object = found.clone();
            assert!(!remove_of_kueue(&mut object), "{found}");
            assert_eq!(object, want, "{found}");
        }
    }

    #[test]
    fn what_kueue_added_to_pod_templates_is_removed() {
        let job = |metadata: Value, mut spec: Value| {
            spec["containers"] = json!([{"name": "main"}]);
            json!({"apiVersion": "batch/v1", "kind": "Job",
                "spec": {"template": {"metadata": metadata, "spec": spec}}})
        };
        let ran = || {
            json!({
                "labels": {"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/managed": "true",
                    "kueue.x-k8s.io/local-queue-name": "gpu", "team": "vision",
                    "kueue.x-k8s.io/cluster-queue-name": "all", "kueue.x-k8s.io/queue-name": "gpu"},
                "annotations": {"kueue.x-k8s.io/workload": "w",
                    "kueue.x-k8s.io/workload-slice-name": "w",
                    "kueue.x-k8s.io/pod-suspending-parent": "deployment",
                    "kueue.x-k8s.io/pod-group-serving": "true"},
            })
        };
        let own = || json!({"labels": {"team": "vision"}});
        let gates = json!({"schedulingGates": [{"name": "kueue.x-k8s.io/elastic-job"}]});
        let selector = json!({"nodeSelector": {"gpu": "h100"}});
        let tolerations = json!({"tolerations": [{"key": "gpu"}]});
        for (metadata, spec, left, is_noted) in [
            (ran(), gates, json!({}), false),
            (ran(), selector.clone(), selector.clone(), true),
            (ran(), tolerations.clone(), tolerations, true),
            // Kueue has not run this one
            (own(), selector.clone(), selector, false),
        ] {
            let mut object = job(metadata, spec.clone());
            assert_eq!(remove_of_kueue(&mut object), is_noted, "{spec}");
            assert_eq!(object, job(own(), left), "{spec}");
        }
    }
}
