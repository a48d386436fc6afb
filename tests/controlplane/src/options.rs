//! What a test wants to have.

use std::net::SocketAddr;
use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use serde_json::{Value, json};

use crate::Component;

/// What to start. Write what differs: `Options { jobset: true, ..Options::default() }`.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Options {
    /// How many nodes there are, named `node-0` and so on (default 4). With 0, KWOK is left out.
    pub nodes: usize,
    /// The CPUs of each node, as a quantity (default `32`). Besides, each has 256Gi of memory, 256Gi of
    /// ephemeral storage and 8 of `nvidia.com/gpu`, and takes 1000 pods.
    pub node_cpu: String,
    /// Run `JobSet`; Kubeflow Trainer needs it.
    pub jobset: bool,
    /// Run Kubeflow's training operator.
    pub training: bool,
    /// Run `KubeRay`.
    pub ray: bool,
    /// Where `KubeRay` reaches the dashboard of every Ray cluster, as its HTTP proxy: no pod here
    /// serves one. Without it, a `RayJob` stays as it is when its cluster is ready.
    pub ray_dashboard: Option<SocketAddr>,
    /// Run Kubeflow Trainer.
    pub trainer: bool,
    /// Run `LeaderWorkerSet`.
    pub lws: bool,
    /// Run Kueue.
    pub kueue: bool,
    /// Merged into Kueue's configuration (`config.kueue.x-k8s.io/v1beta2`) as a JSON merge patch.
    /// Nothing by default: `json!({"featureGates": {"FinishOrphanedWorkloads": false},
    /// "waitForPodsReady": {"timeout": "5m"}})` switches a gate off and a feature on. What Kueue
    /// does not know makes the start fail.
    pub kueue_config: Value,
    /// Keep an audit log of all requests; see [`crate::ControlPlane::audit_log`].
    pub audit: bool,
    /// Give pods tokens of their accounts, as clusters do: for pods that run on a
    /// [`RealNode`](crate::RealNode), and use them. Then a pod cannot be created before its account.
    pub service_accounts: bool,
    /// Definitions to have in place before kube-controller-manager starts. Its garbage collector
    /// looks for new kinds every 30 seconds only, and until then does not see their owners go.
    pub crds: Vec<CustomResourceDefinition>,
    /// Where data, logs, certificates and the kubeconfig go: an empty or new directory, which
    /// stays there afterwards. By default a directory under Cargo's target directory, which is
    /// removed at the end unless the start failed.
    pub state_dir: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 4,
            node_cpu: "32".to_owned(),
            jobset: false,
            training: false,
            ray: false,
            ray_dashboard: None,
            trainer: false,
            lws: false,
            kueue: false,
            kueue_config: json!({}),
            audit: false,
            service_accounts: false,
            crds: Vec::new(),
            state_dir: None,
        }
    }
}

impl Options {
    /// The components that these options call for, in the order of [`Component::ALL`].
    #[must_use]
    pub fn components(&self) -> Vec<Component> {
        let wanted = |component: &Component| match component {
            Component::Etcd
            | Component::ApiServer
            | Component::ControllerManager
            | Component::Scheduler => true,
            Component::Kwok => self.nodes > 0,
            Component::JobSet => self.jobset || self.trainer,
            Component::Training => self.training,
            Component::Ray => self.ray,
            Component::Trainer => self.trainer,
            Component::LeaderWorkerSet => self.lws,
            Component::Kueue => self.kueue,
        };
        Component::ALL.into_iter().filter(wanted).collect()
    }
}
