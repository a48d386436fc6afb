//! Manifests of the tests.

use serde_json::{Value, json};

/// An AppWrapper around these templates, unsuspended.
pub fn wrapper(name: &str, annotations: Value, templates: Vec<Value>) -> Value {
    let components: Vec<Value> =
        templates.into_iter().map(|template| json!({"template": template})).collect();
    json!({
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"suspend": false, "components": components},
    })
}

/// The prefix of our annotations, for short.
pub fn tuned(settings: &[(&str, &str)]) -> Value {
    settings
        .iter()
        .map(|(key, value)| {
            (format!("workload.codeflare.dev.appwrapper/{key}"), Value::from(*value))
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// A pod template whose pods live as these `sim/…` annotations say.
pub fn pod_template(life: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> =
        life.iter().map(|(key, value)| (format!("sim/{key}"), Value::from(*value))).collect();
    json!({
        "metadata": {"annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "10m"}}}
            ],
        },
    })
}

/// A Pod.
pub fn pod(name: &str, life: &[(&str, &str)]) -> Value {
    let mut pod = pod_template(life);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod
}

/// A Job; its own settings are merged in.
pub fn job(name: &str, settings: Value, life: &[(&str, &str)]) -> Value {
    let mut spec = json!({"backoffLimit": 0, "template": pod_template(life)});
    for (key, value) in settings.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
}
