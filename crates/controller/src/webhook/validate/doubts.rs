//! What a template may say, but probably does not mean.

use serde_json::Value;

use super::component::Judged;
use super::finding::{Findings, text};
use crate::kinds::Kind;

/// Where kinds say how long an object that has finished stays, in seconds.
const LIFETIMES: [&[&str]; 2] =
    [&["spec", "ttlSecondsAfterFinished"], &["spec", "runPolicy", "ttlSecondsAfterFinished"]];

/// How long it must stay, in seconds, so that a controller that starts again sees how it ended.
const LIFETIME_MIN: u64 = 60;

/// Where kinds say that they are suspended.
const SUSPENDED: [&[&str]; 2] = [&["spec", "suspend"], &["spec", "runPolicy", "suspend"]];

/// Kinds of Kubernetes that have pods, but are no kinds of ours.
const WITH_PODS: [(&str, &str); 4] = [
    ("v1", "ReplicationController"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "CronJob"),
];

/// Warns of what a template may say, but probably does not mean.
pub(super) fn check(object: &Value, path: &str, report: &mut Findings) {
    let kind = Kind::of_object(object);
    if kind.group() == "ray.io" {
        runs_on(object, path, report);
    } else {
        lifetime(object, path, report);
    }
    if kind.is_known() {
        suspended(object, path, report);
    }
}

/// Warns of components of which it is certain that they have pods, though they declare none. One without any pod set is denied.
pub(super) fn without_pod_sets(components: &[Judged], report: &mut Findings) {
    let has_any =
        |component: &Judged| component.pod_sets.as_ref().is_some_and(|sets| !sets.is_empty());
    if !components.iter().any(has_any) {
        return;
    }
    for (index, component) in components.iter().enumerate() {
        let name = (component.api_version.as_str(), component.kind.as_str());
        if WITH_PODS.contains(&name) && !has_any(component) {
            let message = format!(
                "the pods of a {} without pod sets use no quota and are not watched: declare them",
                component.kind
            );
            report.doubtful(format!("spec.components[{index}].podSets"), None, message);
        }
    }
}

/// An object that is deleted soon after it has finished: one of which nobody saw the end is missing, and runs again.
fn lifetime(object: &Value, path: &str, report: &mut Findings) {
    for fields in LIFETIMES {
        let given = at(object, fields);
        if given.as_u64().is_some_and(|seconds| seconds < LIFETIME_MIN) {
            let message = format!(
                "if the controller does not run while the finished object exists, the object is missing and runs again: \
                 give at least {LIFETIME_MIN}, or leave it out and set successTTLDuration"
            );
            report.doubtful(format!("{path}.{}", fields.join(".")), Some(&text(given)), message);
        }
    }
}

/// An object that waits to be resumed: it has no pods, and the AppWrapper fails.
fn suspended(object: &Value, path: &str, report: &mut Findings) {
    for fields in SUSPENDED {
        if at(object, fields) == &Value::Bool(true) {
            let message = "nobody resumes it, and its pods are missing: leave it out, since Kueue suspends the AppWrapper";
            report.doubtful(format!("{path}.{}", fields.join(".")), Some("true"), message);
        }
    }
}

/// A `RayJob` whose cluster stays: it makes its pods again where they are deleted.
fn runs_on(object: &Value, path: &str, report: &mut Findings) {
    let given = &object["spec"]["shutdownAfterJobFinishes"];
    if object["kind"] == "RayJob" && given == &Value::Bool(false) {
        let field = format!("{path}.spec.shutdownAfterJobFinishes");
        let message = "the cluster runs on after the job, and the AppWrapper does not end: leave it out, or set it to true";
        report.doubtful(field, Some("false"), message);
    }
}

fn at<'a>(object: &'a Value, fields: &[&str]) -> &'a Value {
    fields.iter().fold(object, |node, field| &node[*field])
}
