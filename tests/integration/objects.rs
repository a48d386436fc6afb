//! Objects to wrap, beside the Pod and the Job of the harness.

use serde_json::{Value, json};

use crate::harness::{job, pod_template};

/// A `ConfigMap`: a component without pods.
pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

/// A JobSet of replicated Jobs, one pod each; its own settings are merged in.
pub fn job_set(name: &str, settings: Value, jobs: &[(&str, &[(&str, &str)])]) -> Value {
    let jobs = jobs.iter().map(|(name, life)| {
        let spec = job(name, json!({}), life)["spec"].take();
        json!({"name": name, "replicas": 1, "template": {"spec": spec}})
    });
    let mut spec = settings;
    spec["replicatedJobs"] = jobs.collect();
    json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}, "spec": spec})
}

/// A PyTorchJob of one master and one worker, neither of which is restarted.
pub fn pytorch_job(name: &str, master: &[(&str, &str)], worker: &[(&str, &str)]) -> Value {
    let replica = |life| {
        let mut template = pod_template(life);
        template["spec"]["containers"][0]["name"] = "pytorch".into();
        json!({"replicas": 1, "restartPolicy": "Never", "template": template})
    };
    json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": {"Master": replica(master), "Worker": replica(worker)}},
    })
}

/// A RayCluster of one head and one worker.
pub fn ray_cluster(name: &str) -> Value {
    let template = || {
        let mut template = pod_template(&[]);
        template["spec"]["restartPolicy"] = "Always".into();
        template
    };
    json!({
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": template()},
            "workerGroupSpecs": [{
                "groupName": "workers", "replicas": 1, "minReplicas": 1, "maxReplicas": 1,
                "rayStartParams": {}, "template": template(),
            }],
        },
    })
}

/// A Deployment or a StatefulSet.
pub fn app(kind: &str, name: &str, replicas: i64) -> Value {
    let mut template = pod_template(&[]);
    template["metadata"]["labels"] = json!({"app": name});
    template["spec"]["restartPolicy"] = "Always".into();
    let mut app = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    });
    if kind == "StatefulSet" {
        app["spec"]["serviceName"] = name.into();
    }
    app
}

/// A Service in front of pods with the label `app`.
pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    })
}

/// A `ResourceQuota`: `nothing` of a resource may be created any more.
pub fn no_more(resource: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {resource: "0"}},
    })
}
