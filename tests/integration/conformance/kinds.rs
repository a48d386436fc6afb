//! The kinds that are compared.

use serde_json::{Value, json};

/// A kind, and what of its objects is compared besides metadata.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "objects call it so")]
pub struct Kind {
    /// First letter of its objects' names.
    pub letter: &'static str,
    /// `/api/v1` or `/apis/group/version`.
    pub root: &'static str,
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// Its status is a subresource.
    pub status: bool,
    /// What is compared: pointers; the whole object where there are none.
    pub compared: &'static [&'static str],
}

/// The node that pods are bound to. It exists, so that no pod is collected for the want of it, and no
/// kubelet runs there.
pub const NODE: &str = "conformance";

/// Nobody schedules a pod or runs a job of these.
const NOBODY: &str = "example.com/nobody";

/// All kinds. Pods stand there twice: bound to a node, and not bound. The latter have no finalizers:
/// one that is being deleted and not bound is removed by a controller, whenever it looks.
pub const KINDS: [Kind; 6] = [
    Kind {
        letter: "c",
        root: "/api/v1",
        api_version: "v1",
        kind: "ConfigMap",
        plural: "configmaps",
        status: false,
        compared: &["/data"],
    },
    Kind {
        letter: "l",
        root: "/apis/coordination.k8s.io/v1",
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        plural: "leases",
        status: false,
        compared: &["/spec"],
    },
    Kind {
        letter: "j",
        root: "/apis/batch/v1",
        api_version: "batch/v1",
        kind: "Job",
        plural: "jobs",
        status: true,
        compared: &["/spec/parallelism", "/spec/suspend", "/spec/backoffLimit", "/status/active"],
    },
    Kind {
        letter: "w",
        root: "/apis/workload.codeflare.dev/v1beta2",
        api_version: "workload.codeflare.dev/v1beta2",
        kind: "AppWrapper",
        plural: "appwrappers",
        status: true,
        compared: &[],
    },
    Kind {
        letter: "p",
        root: "/api/v1",
        api_version: "v1",
        kind: "Pod",
        plural: "pods",
        status: true,
        compared: &["/spec/nodeName", "/spec/containers/0/image", "/status/phase"],
    },
    Kind {
        letter: "u",
        root: "/api/v1",
        api_version: "v1",
        kind: "Pod",
        plural: "pods",
        status: true,
        compared: &["/spec/nodeName", "/spec/containers/0/image", "/status/phase"],
    },
];

impl Kind {
    /// The kind of an object, by its `kind`.
    pub fn named(kind: &str) -> Option<&'static Self> {
        KINDS.iter().find(|each| each.kind == kind)
    }

    pub fn is_pod(&self) -> bool {
        self.kind == "Pod"
    }

    /// A pod that is not bound to a node.
    pub fn is_unbound(&self) -> bool {
        self.letter == "u"
    }

    /// The path of its objects in a namespace.
    pub fn path(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.root, self.plural)
    }

    /// The least that there is to an object: labels that stay, and what is required.
    pub fn fresh(&self, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": self.api_version, "kind": self.kind,
            "metadata": {"name": name, "labels": {"app": "conformance"}},
        });
        let containers = json!([{"name": "main", "image": "busybox"}]);
        match self.kind {
            "ConfigMap" => object["data"] = json!({"k": "1"}),
            "Lease" => object["spec"] = json!({"holderIdentity": "a"}),
            "AppWrapper" => object["spec"] = json!({"components": []}),
            "Job" => {
                object["spec"] = json!({
                    "suspend": true, "managedBy": NOBODY, "parallelism": 1, "backoffLimit": 0,
                    "template": {"spec": {"restartPolicy": "Never", "containers": containers}},
                });
            }
            _ => {
                object["spec"] = json!({
                    "schedulerName": NOBODY, "containers": containers,
                    "tolerations": [{"operator": "Exists"}],
                });
                if !self.is_unbound() {
                    object["spec"]["nodeName"] = NODE.into();
                }
            }
        }
        object
    }
}
