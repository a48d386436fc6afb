//! The objects of the scenarios, and the paths of their collections.

use appwrapper::api::keys;
use serde_json::{Map, Value, json};

/// The API version of AppWrappers.
const API_VERSION: &str = "workload.codeflare.dev/v1beta2";

/// Where AppWrappers are.
pub fn wrappers(namespace: &str) -> String {
    format!("/apis/{API_VERSION}/namespaces/{namespace}/appwrappers")
}

/// Where pods are.
pub fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// Where Jobs are.
pub fn jobs(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

/// How a pod lives, as the annotations that the test control plane's nodes read.
pub type Life = &'static [(&'static str, &'static str)];

/// It runs until it is deleted, or made to fail.
pub const ENDLESS: Life = &[];
/// It runs for 1 s and succeeds.
pub const SHORT: Life = &[("sim/run-for", "1s")];
/// It runs for half a second and fails.
pub const FAILING: Life = &[("sim/run-for", "500ms"), ("sim/exit-code", "1")];

fn annotations(life: Life) -> Value {
    life.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect::<Map<_, _>>().into()
}

fn pod_spec() -> Value {
    json!({
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1m"}}}],
    })
}

/// A pod.
pub fn pod(name: &str, life: Life) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations(life)},
        "spec": pod_spec(),
    })
}

/// A Job whose pods run until they are deleted; it fails with the first of them.
pub fn job(name: &str, pods: usize) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "parallelism": pods, "completions": pods, "backoffLimit": 0, "completionMode": "Indexed",
            "template": {"spec": pod_spec()},
        },
    })
}

/// An AppWrapper around one pod. A failure counts at once and the pause before a retry is 1 s.
pub fn wrapper(name: &str, template: &Value) -> Value {
    around(name, template, 1, "template")
}

/// An AppWrapper around one Job of so many pods.
pub fn wrapped_job(name: &str, pods: usize) -> Value {
    around(name, &job("j-0", pods), pods, "template.spec.template")
}

fn around(name: &str, template: &Value, replicas: usize, path: &str) -> Value {
    let tuned =
        [(keys::FAILURE_GRACE, "0s"), (keys::RETRY_PAUSE, "1s"), (keys::RETRY_LIMIT, "100")];
    let annotations: Map<String, Value> =
        tuned.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    json!({
        "apiVersion": API_VERSION, "kind": "AppWrapper",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "suspend": false,
            "components": [{"podSets": [{"replicas": replicas, "path": path}], "template": template}],
        },
    })
}

/// The same, suspended and in a queue.
pub fn queued(mut wrapper: Value, queue: &str) -> Value {
    wrapper["metadata"]["labels"] = json!({keys::QUEUE_NAME: queue});
    wrapper["spec"]["suspend"] = json!(true);
    wrapper
}

/// The status of a pod whose container has failed, as a merge patch.
pub fn failed() -> Value {
    json!({"status": {"phase": "Failed", "containerStatuses": [{
        "name": "c", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 3, "reason": "Error"}},
    }]}})
}

/// The number at the end of a name: 7 of `aw-7`.
pub fn number(name: &str) -> Option<usize> {
    name.rsplit_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_in_its_number() {
        assert_eq!(number("aw-17"), Some(17));
        assert_eq!(number("p"), None);
        assert_eq!(number("j-0-5-x8kq2"), None);
    }
}
