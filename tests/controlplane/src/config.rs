//! The configuration files and the objects that a control plane begins with. Pure.

use std::path::Path;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::Options;
use crate::pki::Pair;
use crate::site::{OperatorPorts, Site};

/// A kubeconfig with everything in it, of whom a client certificate is.
pub(crate) fn kubeconfig(site: &Site, pair: &Pair) -> Value {
    let name = "test";
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": {
            "server": format!("https://127.0.0.1:{}", site.ports.api),
            "certificate-authority-data": base64(&site.pki.ca),
        }}],
        "users": [{ "name": name, "user": {
            "client-certificate-data": base64(&pair.certificate),
            "client-key-data": base64(&pair.key),
        }}],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
        "current-context": name,
    })
}

/// The kubeconfig of another user, as whom an administrator acts.
pub(crate) fn kubeconfig_of(site: &Site, user: &str, groups: &[&str]) -> Value {
    let mut config = kubeconfig(site, &site.pki.admin);
    config["users"][0]["user"]["as"] = json!(user);
    config["users"][0]["user"]["as-groups"] = json!(groups);
    config
}

/// Who asked for what, without the bodies: once for each request, and for a watch also when it begins.
pub(crate) fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": "Metadata" }],
    })
}

pub(crate) fn jobset(site: &Site) -> Value {
    let mut config = outside_a_cluster(site, site.ports.jobset);
    config["apiVersion"] = json!("config.jobset.x-k8s.io/v1alpha1");
    config
}

pub(crate) fn lws(site: &Site) -> Value {
    let mut config = outside_a_cluster(site, site.ports.lws);
    config["apiVersion"] = json!("config.lws.x-k8s.io/v1alpha1");
    config
}

/// Its certificates are where the environment says.
pub(crate) fn trainer(site: &Site) -> Value {
    let mut config = outside_a_cluster(site, site.ports.trainer);
    config["apiVersion"] = json!("config.trainer.kubeflow.org/v1alpha1");
    config["certManagement"] = json!({ "enable": false });
    let own = json!({ "internalCertManagement": null, "webhook": { "certDir": null } });
    merge(&mut config, &own);
    config
}

pub(crate) fn kueue(site: &Site, options: &Options) -> Value {
    let mut frameworks = vec!["batch/job", "workload.codeflare.dev/appwrapper"];
    if options.jobset {
        frameworks.push("jobset.x-k8s.io/jobset");
    }
    let mut config = outside_a_cluster(site, site.ports.kueue);
    config["apiVersion"] = json!("config.kueue.x-k8s.io/v1beta2");
    // It would serve an aggregated API, for which there is no service here.
    config["featureGates"] = json!({ "VisibilityOnDemand": false });
    config["integrations"] = json!({ "frameworks": frameworks });
    config["managedJobsNamespaceSelector"] = json!({ "matchExpressions": [{
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", KUEUE_NAMESPACE],
    }]});
    merge(&mut config, &options.kueue_config);
    config
}

/// A JSON merge patch (RFC 7396), but that what is no object changes nothing.
fn merge(target: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().into_iter().flatten() {
        if value.is_null() {
            target.as_object_mut().map(|it| it.remove(key));
        } else if value.is_object() && target[key].is_object() {
            merge(&mut target[key], value);
        } else {
            target[key] = value.clone();
        }
    }
}

/// The user that Kueue is: the service account which its manifests give it.
pub(crate) const KUEUE_ACCOUNT: &str =
    "system:serviceaccount:kueue-system:kueue-controller-manager";

/// Where Kueue takes itself to be.
pub(crate) const KUEUE_NAMESPACE: &str = "kueue-system";

/// What operators with a configuration file need to know when they do not run in a pod: webhooks with the
/// certificates of the control plane, no leader election.
fn outside_a_cluster(site: &Site, ports: OperatorPorts) -> Value {
    json!({
        "kind": "Configuration",
        "webhook": { "host": "127.0.0.1", "port": ports.webhook, "certDir": site.files.dir },
        "health": { "healthProbeBindAddress": format!("127.0.0.1:{}", ports.health) },
        "metrics": { "bindAddress": "0" },
        "internalCertManagement": { "enable": false },
        "leaderElection": { "leaderElect": false },
        "clientConnection": { "qps": 500, "burst": 1000 },
    })
}

/// One of KWOK's nodes.
pub(crate) fn node(name: &str, cpu: &str) -> Value {
    let resources = json!({
        "cpu": cpu,
        "memory": "256Gi",
        "ephemeral-storage": "256Gi",
        "pods": "1000",
        "nvidia.com/gpu": "8",
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": { "kubernetes.io/hostname": name, "type": "kwok" },
            "annotations": { "kwok.x-k8s.io/node": "fake" },
        },
        "status": { "capacity": resources, "allocatable": resources },
    })
}

/// The log of every container on KWOK's nodes, in the format of container runtimes: 120 numbered lines, of which the
/// last but one has a secret.
pub(crate) fn pod_log() -> String {
    let text = |number: u32| match number {
        119 => "secret=hunter2".to_owned(),
        number => format!("line {number}"),
    };
    let line = |number| format!("2026-01-01T00:00:00.000000000Z stdout F {}\n", text(number));
    (1..=120).map(line).collect()
}

/// The file from which KWOK serves it.
pub(crate) fn logs(file: &Path) -> Value {
    json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": { "name": "all" },
        "spec": { "logs": [{ "logsFile": file, "follow": false }] },
    })
}

/// As Kubernetes writes bytes in JSON.
pub(crate) fn base64(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_merged_in() {
        let mut config = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        merge(&mut config, &json!({"a": {"b": 3, "e": {"f": 4}}, "d": [2]}));
        assert_eq!(config, json!({"a": {"b": 3, "c": 2, "e": {"f": 4}}, "d": [2]}));
        merge(&mut config, &json!({"a": null}));
        assert_eq!(config, json!({"d": [2]}));
        merge(&mut config, &Value::Null);
        assert_eq!(config, json!({"d": [2]}));
    }
}
