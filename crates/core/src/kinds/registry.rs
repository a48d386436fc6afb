//! The kinds whose pods are known, by API version and kind.

use serde_json::Value;

/// A kind of resource whose pods and status are known, or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `v1` Pod.
    Pod,
    /// `batch/v1` Job.
    Job,
    /// `jobset.x-k8s.io/v1alpha2` JobSet.
    JobSet,
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` StatefulSet.
    StatefulSet,
    /// `leaderworkerset.x-k8s.io/v1` LeaderWorkerSet.
    LeaderWorkerSet,
    /// A job of `kubeflow.org/v1`.
    Kubeflow(KubeflowKind),
    /// `ray.io/v1` RayCluster.
    RayCluster,
    /// `ray.io/v1` RayJob.
    RayJob,
    /// `ray.io/v1` RayService.
    RayService,
    /// Anything else, another version of these kinds included.
    Other,
}

/// The jobs of `kubeflow.org/v1`, as Training Operator 1.9 serves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KubeflowKind {
    /// PyTorchJob.
    PyTorch,
    /// `TFJob`.
    TensorFlow,
    /// `MPIJob`; of `v1` alone, not the MPI Operator's `v2beta1`.
    Mpi,
    /// `XGBoostJob`.
    XgBoost,
    /// `PaddleJob`.
    Paddle,
    /// `JAXJob`.
    Jax,
}

impl Kind {
    /// The kind of an API version and a kind, both as they stand in an object.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Self {
        match (api_version, kind) {
            ("v1", "Pod") => Self::Pod,
            ("batch/v1", "Job") => Self::Job,
            ("jobset.x-k8s.io/v1alpha2", "JobSet") => Self::JobSet,
            ("apps/v1", "Deployment") => Self::Deployment,
            ("apps/v1", "StatefulSet") => Self::StatefulSet,
            ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet") => Self::LeaderWorkerSet,
            ("kubeflow.org/v1", "PyTorchJob") => Self::Kubeflow(KubeflowKind::PyTorch),
            ("kubeflow.org/v1", "TFJob") => Self::Kubeflow(KubeflowKind::TensorFlow),
            ("kubeflow.org/v1", "MPIJob") => Self::Kubeflow(KubeflowKind::Mpi),
            ("kubeflow.org/v1", "XGBoostJob") => Self::Kubeflow(KubeflowKind::XgBoost),
            ("kubeflow.org/v1", "PaddleJob") => Self::Kubeflow(KubeflowKind::Paddle),
            ("kubeflow.org/v1", "JAXJob") => Self::Kubeflow(KubeflowKind::Jax),
            ("ray.io/v1", "RayCluster") => Self::RayCluster,
            ("ray.io/v1", "RayJob") => Self::RayJob,
            ("ray.io/v1", "RayService") => Self::RayService,
            _ => Self::Other,
        }
    }

    /// The kind of an object; [`Kind::Other`] where it does not say.
    #[must_use]
    pub fn of_object(object: &Value) -> Self {
        let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
        Self::of(text("apiVersion"), text("kind"))
    }

    /// Whether pods of this kind are made by an object in between, which may go on making some after
    /// the component itself is gone. Of another kind nothing is known, so that it counts as one.
    #[must_use]
    pub const fn has_objects_between(self) -> bool {
        match self {
            Self::JobSet
            | Self::Deployment
            | Self::LeaderWorkerSet
            | Self::RayJob
            | Self::RayService
            | Self::Other => true,
            Self::Pod | Self::Job | Self::StatefulSet | Self::Kubeflow(_) | Self::RayCluster => {
                false
            }
        }
    }

    /// Kinds, by API version and name, of the objects that this kind makes between itself and its pods. Of
    /// another kind nothing is known: any of these.
    #[must_use]
    pub const fn makes(self) -> &'static [(&'static str, &'static str)] {
        const JOB: (&str, &str) = ("batch/v1", "Job");
        const REPLICA_SET: (&str, &str) = ("apps/v1", "ReplicaSet");
        const STATEFUL_SET: (&str, &str) = ("apps/v1", "StatefulSet");
        const RAY_CLUSTER: (&str, &str) = ("ray.io/v1", "RayCluster");
        match self {
            Self::JobSet => &[JOB],
            Self::Deployment => &[REPLICA_SET],
            // the leader of a group owns the StatefulSet of its workers
            Self::LeaderWorkerSet => &[STATEFUL_SET, ("v1", "Pod")],
            Self::RayJob => &[RAY_CLUSTER, JOB],
            Self::RayService => &[RAY_CLUSTER],
            Self::Other => &[
                JOB,
                REPLICA_SET,
                STATEFUL_SET,
                RAY_CLUSTER,
                ("v1", "Pod"),
                ("jobset.x-k8s.io/v1alpha2", "JobSet"),
                ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
            ],
            Self::Pod | Self::Job | Self::StatefulSet | Self::Kubeflow(_) | Self::RayCluster => &[],
        }
    }

    /// Whether an object may control pods: none of the core group does but `ReplicationController`s.
    #[must_use]
    pub fn may_own_pods(api_version: &str, kind: &str) -> bool {
        api_version != "v1" || kind == "ReplicationController"
    }

    /// Whether objects of this kind say when they have ended, so that pods need not be counted.
    #[must_use]
    pub const fn reports_end(self) -> bool {
        match self {
            Self::Pod | Self::Job | Self::JobSet | Self::Kubeflow(_) | Self::RayJob => true,
            Self::Deployment
            | Self::StatefulSet
            | Self::LeaderWorkerSet
            | Self::RayCluster
            | Self::RayService
            | Self::Other => false,
        }
    }
}

impl KubeflowKind {
    /// The field of `spec` that holds the replica types.
    #[must_use]
    pub const fn replica_specs(self) -> &'static str {
        match self {
            Self::PyTorch => "pytorchReplicaSpecs",
            Self::TensorFlow => "tfReplicaSpecs",
            Self::Mpi => "mpiReplicaSpecs",
            Self::XgBoost => "xgbReplicaSpecs",
            Self::Paddle => "paddleReplicaSpecs",
            Self::Jax => "jaxReplicaSpecs",
        }
    }

    /// The replica types, in the order in which Kueue counts them. Case matters.
    #[must_use]
    pub const fn replica_types(self) -> &'static [&'static str] {
        match self {
            Self::PyTorch | Self::XgBoost | Self::Paddle => &["Master", "Worker"],
            Self::TensorFlow => &["Chief", "Master", "PS", "Worker", "Evaluator"],
            Self::Mpi => &["Launcher", "Worker"],
            Self::Jax => &["Worker"],
        }
    }

    /// Number of pods of a replica type that does not say: 1, but no `Worker` of an `MPIJob`.
    #[must_use]
    pub fn default_replicas(self, replica_type: &str) -> i64 {
        match self {
            Self::Mpi => i64::from(replica_type != "Worker"),
            Self::PyTorch | Self::TensorFlow | Self::XgBoost | Self::Paddle | Self::Jax => 1,
        }
    }

    /// The restart policy of a replica type that has none.
    #[must_use]
    pub const fn default_restart_policy(self) -> &'static str {
        match self {
            Self::PyTorch | Self::Paddle => "OnFailure",
            Self::TensorFlow | Self::Mpi | Self::XgBoost | Self::Jax => "Never",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn group_version_and_kind_must_all_fit() {
        for (api_version, kind, want) in [
            ("v1", "Pod", Kind::Pod),
            ("batch/v1", "Job", Kind::Job),
            ("batch/v1beta1", "Job", Kind::Other),
            ("batch/v1", "job", Kind::Other),
            ("v1", "Job", Kind::Other),
            ("core/v1", "Pod", Kind::Other),
            ("jobset.x-k8s.io/v1alpha2", "JobSet", Kind::JobSet),
            ("kubeflow.org/v1", "PyTorchJob", Kind::Kubeflow(KubeflowKind::PyTorch)),
            ("kubeflow.org/v1", "PytorchJob", Kind::Other),
            ("kubeflow.org/v1", "MPIJob", Kind::Kubeflow(KubeflowKind::Mpi)),
            ("kubeflow.org/v2beta1", "MPIJob", Kind::Other),
            ("ray.io/v1alpha1", "RayCluster", Kind::Other),
            ("ray.io/v1", "RayService", Kind::RayService),
            ("", "", Kind::Other),
        ] {
            assert_eq!(Kind::of(api_version, kind), want, "{api_version} {kind}");
        }
    }

    #[test]
    fn an_object_that_does_not_say_is_another_kind() {
        for object in [json!(null), json!([]), json!({"kind": "Pod"}), json!({"apiVersion": 1})] {
            assert_eq!(Kind::of_object(&object), Kind::Other, "{object}");
        }
        assert_eq!(Kind::of_object(&json!({"apiVersion": "v1", "kind": "Pod"})), Kind::Pod);
    }
}
