//! The name of the object of a component: what Kubernetes accepts, and what the controller of its kind can use.

use serde_json::Value;

use super::Occasion;
use super::finding::{Findings, text};
use super::template::{api_version, group};
use crate::tuning::names;

/// What the name of a Role or a binding cannot have: the controller reads the object by its path, and selects it by its name.
const NOT_IN_PATHS: &[u8] = br"/%?#,=\<>`";

/// What such a name must be, in words.
const PATH_SEGMENT: &str = "must be at most 253 ASCII characters, without spaces and / % ? # , = \\ < > `, and \
                            neither '.' nor '..'";

/// The longest name of a `RayCluster`. Source: KubeRay 1.6.2, `constant.go`.
const RAY_CLUSTER_MAX: usize = 53;

/// The longest name of a `RayJob` or a `RayService`: KubeRay adds 6 characters for the name of its `RayCluster`.
const RAY_CLUSTER_OWNER_MAX: usize = RAY_CLUSTER_MAX - 6;

/// The longest name of a `StatefulSet`: its pods have it in the label `controller-revision-hash`, with a hyphen and a hash
/// of up to 10 digits. Source: Kubernetes 1.36, `controller_history.go`.
const STATEFUL_SET_MAX: usize = names::LABEL_MAX - 11;

/// Where the jobs of the Training Operator have their replica types, each replica of which has a Service. The replicas of an
/// `MPIJob` have none. Source: Training Operator 1.9.3, `service.go` and `mpijob_controller.go`.
const REPLICA_TYPES: [(&str, &str); 5] = [
    ("JAXJob", "jaxReplicaSpecs"),
    ("PaddleJob", "paddleReplicaSpecs"),
    ("PyTorchJob", "pytorchReplicaSpecs"),
    ("TFJob", "tfReplicaSpecs"),
    ("XGBoostJob", "xgbReplicaSpecs"),
];

/// Checks `metadata.name` of an object, which is at `field`.
pub(super) fn check(object: &Value, field: &str, occasion: Occasion, report: &mut Findings) {
    let name = match &object["metadata"]["name"] {
        Value::String(name) if !name.is_empty() => name,
        other => return report.invalid(field, text(other), "must be given: a fixed name"),
    };
    // roles and their bindings may have names with colons and capitals
    let (is_good, message) = if group(api_version(object)) == "rbac.authorization.k8s.io" {
        (is_path_segment(name), PATH_SEGMENT)
    } else {
        (names::is_subdomain(name), names::SUBDOMAIN)
    };
    if !is_good {
        report.invalid(field, name, message);
    } else if occasion != Occasion::Stored
        && let Some(limit) = Limit::of(object)
        && !limit.allows(name)
    {
        report.invalid(field, name, limit.message());
    }
}

/// Which names the controller of a kind can use, of those that Kubernetes accepts.
struct Limit {
    /// The most characters.
    most: usize,
    /// Services have names that begin with it: RFC 1035 labels, which begin with a letter and have no dots.
    names_services: bool,
    /// Why it can use no other.
    why: &'static str,
}

impl Limit {
    /// The limit of the kind of an object, where there is one.
    fn of(object: &Value) -> Option<Self> {
        let kuberay = "KubeRay refuses any other name";
        let (most, names_services, why) =
            match (group(api_version(object)), object["kind"].as_str().unwrap_or_default()) {
                ("apps", "StatefulSet") => {
                    (STATEFUL_SET_MAX, false, "its pods have the name in a label, with a hash")
                }
                ("leaderworkerset.x-k8s.io", "LeaderWorkerSet") => (
                    STATEFUL_SET_MAX - suffix_of_groups(&object["spec"]),
                    true,
                    "the pods have the name of their StatefulSet in a label, with a hash",
                ),
                ("ray.io", "RayCluster") => (RAY_CLUSTER_MAX, true, kuberay),
                ("ray.io", "RayJob" | "RayService") => (RAY_CLUSTER_OWNER_MAX, true, kuberay),
                ("kubeflow.org", kind) => {
                    let (_, field) = REPLICA_TYPES.iter().find(|(known, _)| *known == kind)?;
                    let suffix = suffix_of_replicas(&object["spec"][*field]);
                    let why = "each replica has a Service with the name, its type and its index";
                    (names::LABEL_MAX.saturating_sub(suffix), true, why)
                }
                _ => return None,
            };
        Some(Self { most, names_services, why })
    }

    fn allows(&self, name: &str) -> bool {
        let is_of_service =
            name.starts_with(|first: char| first.is_ascii_lowercase()) && !name.contains('.');
        name.len() <= self.most && (is_of_service || !self.names_services)
    }

    fn message(&self) -> String {
        let what = if self.names_services {
            "lower-case letters, digits or '-', beginning with a letter"
        } else {
            "characters"
        };
        format!("must be at most {} {what}: {}", self.most, self.why)
    }
}

/// What the `StatefulSet` of the workers of the last group has after the name of a `LeaderWorkerSet`, in characters.
fn suffix_of_groups(spec: &Value) -> usize {
    let has_workers = spec["leaderWorkerTemplate"]["size"].as_u64().unwrap_or(1) > 1;
    if has_workers { "-".len() + digits_of_last(&spec["replicas"]) } else { 0 }
}

/// What the Service of a replica of the Training Operator has at most after the name of the job, in characters.
fn suffix_of_replicas(types: &Value) -> usize {
    let types = types.as_object().into_iter().flatten();
    let running = types.filter(|(_, replicas)| replicas["replicas"] != 0);
    let suffixes = running.map(|(kind, replicas)| {
        "-".len() + kind.len() + "-".len() + digits_of_last(&replicas["replicas"])
    });
    suffixes.max().unwrap_or(0)
}

/// How many digits the last index of so many replicas has; 1 replica by default.
fn digits_of_last(replicas: &Value) -> usize {
    replicas.as_u64().unwrap_or(1).saturating_sub(1).to_string().len()
}

fn is_path_segment(name: &str) -> bool {
    name.len() <= 253
        && ![".", ".."].contains(&name)
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !NOT_IN_PATHS.contains(&byte))
}
