//! What KubeRay runs beside the pod sets of `ray.io/v1`: Kueue counts none of it, so that it must need no quota. And what
//! it refuses or leaves out where no status says so.

use serde_json::Value;

use super::finding::{Findings, text};
use super::template;
use crate::quantity;

/// Where each kind has the specification of its cluster.
const CLUSTERS: [(&str, &[&str]); 3] = [
    ("RayCluster", &["spec"]),
    ("RayJob", &["spec", "rayClusterSpec"]),
    ("RayService", &["spec", "rayClusterConfig"]),
];

/// What the pod that submits a RayJob may ask for in all: the limits that KubeRay gives it by default.
const SUBMITTER_MAX: [(&str, &str); 2] = [("cpu", "1"), ("memory", "1Gi")];

/// Checks a template of `ray.io`.
pub(super) fn check(object: &Value, path: &str, report: &mut Findings) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let cluster =
        CLUSTERS.iter().find(|(known, _)| template::group(version) == "ray.io" && *known == kind);
    let Some((_, cluster)) = cluster else { return };
    let spec = cluster.iter().fold(object, |node, field| &node[*field]);
    if spec["enableInTreeAutoscaling"] == Value::Bool(true) {
        let field = format!("{path}.{}.enableInTreeAutoscaling", cluster.join("."));
        let message = "must be false: the autoscaler adds a container to the head and changes the number of \
                       workers, and the quota is for the pods of the template";
        report.invalid(field, "true", message);
    }
    let field = format!("{path}.{}", cluster.join("."));
    groups(&spec["workerGroupSpecs"], &format!("{field}.workerGroupSpecs"), report);
    let strategy = &spec["upgradeStrategy"]["type"];
    if kind != "RayCluster" && !strategy.is_null() {
        let message = "KubeRay creates no pods: it refuses this field in the cluster of a RayJob or a RayService";
        report.doubtful(format!("{field}.upgradeStrategy.type"), Some(&text(strategy)), message);
    }
    let collector = &spec["historyServerOptions"]["collectorOptions"];
    if template::has(collector, "resources") {
        let field =
            format!("{path}.{}.historyServerOptions.collectorOptions.resources", cluster.join("."));
        let message = "must be left out: Kueue does not count the container that KubeRay adds";
        report.invalid(field, text(&collector["resources"]), message);
    }
    if kind == "RayJob" {
        let pod = &object["spec"]["submitterPodTemplate"]["spec"];
        submitter(pod, &format!("{path}.spec.submitterPodTemplate.spec"), report);
    }
}

/// Worker groups: KubeRay refuses bounds that contradict each other, in an event alone, and a suspended group has no pods.
fn groups(all: &Value, path: &str, report: &mut Findings) {
    for (index, group) in all.as_array().into_iter().flatten().enumerate() {
        let (least, most) = (group["minReplicas"].as_i64(), group["maxReplicas"].as_i64());
        if let (Some(least), Some(most)) = (least, most)
            && least > most
        {
            let message = format!("must be at most maxReplicas, {most}");
            report.invalid(format!("{path}[{index}].minReplicas"), least.to_string(), message);
        }
        if group["suspend"] == Value::Bool(true) {
            let message = "nobody resumes the group, and it has no pods: leave this field out, or give the group 0 \
                           replicas";
            report.doubtful(format!("{path}[{index}].suspend"), Some("true"), message);
        }
    }
}

/// The pod that submits a RayJob is not counted.
fn submitter(pod: &Value, path: &str, report: &mut Findings) {
    let uncounted = "must be left out: Kueue does not count the pod that submits a RayJob";
    for (field, message) in [
        ("nodeName", "must be left out: it bypasses the scheduler"),
        ("resourceClaims", uncounted),
        ("overhead", uncounted),
    ] {
        if template::has(pod, field) {
            report.invalid(format!("{path}.{field}"), text(&pod[field]), message);
        }
    }
    let mut total = SUBMITTER_MAX.map(|(name, _)| (name, 0.0));
    for list in ["containers", "initContainers"] {
        let containers = pod[list].as_array().map(Vec::as_slice).unwrap_or_default();
        for (index, container) in containers.iter().enumerate() {
            let field = format!("{path}.{list}[{index}].resources");
            asked(&container["resources"], &field, report);
            add(&container["resources"], &mut total);
        }
    }
    // what the pod asks for as a whole takes the place of what its containers ask for
    let mut whole = SUBMITTER_MAX.map(|(name, _)| (name, 0.0));
    asked(&pod["resources"], &format!("{path}.resources"), report);
    add(&pod["resources"], &mut whole);
    within(&total, &format!("{path}.containers"), report);
    within(&whole, &format!("{path}.resources"), report);
}

/// At most what KubeRay gives the pod by default.
fn within(total: &[(&str, f64)], path: &str, report: &mut Findings) {
    for ((name, total), (_, most)) in total.iter().zip(SUBMITTER_MAX) {
        if quantity::amount(most).is_some_and(|most| *total > most) {
            let message = format!(
                "must request at most {most} of {name} in total: Kueue does not count the pod that submits a RayJob"
            );
            report.invalid(path.to_owned(), total.to_string(), message);
        }
    }
}

/// Only cpu and memory, in quantities that can be read.
fn asked(resources: &Value, path: &str, report: &mut Findings) {
    let message =
        "must have only cpu and memory: Kueue does not count the pod that submits a RayJob";
    for of in ["requests", "limits"] {
        let wrong = resources[of].as_object().into_iter().flatten().find(|(name, value)| {
            let is_known = SUBMITTER_MAX.iter().any(|(known, _)| known == name);
            !is_known || quantity_of(value).is_none()
        });
        if let Some((name, value)) = wrong {
            report.invalid(format!("{path}.{of}[{name}]"), text(value), message);
        }
    }
}

fn add(resources: &Value, total: &mut [(&str, f64)]) {
    for (name, sum) in total {
        let of = |list: &str| quantity_of(&resources[list][*name]).unwrap_or_default();
        *sum += of("requests").max(of("limits"));
    }
}

fn quantity_of(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => quantity::amount(text),
        Value::Number(number) => number.as_f64(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
