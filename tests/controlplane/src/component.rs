//! The parts of a control plane, and where each of them is built from.

use crate::modules::{self, GoModule};
use crate::versions::Versions;

/// A program that runs as part of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// Job, garbage collection, node lifecycle and the other built-in controllers.
    ControllerManager,
    /// Gives pods their nodes.
    Scheduler,
    /// Plays the nodes and the pods.
    Kwok,
    /// The controller of `JobSet`s.
    JobSet,
    /// Kubeflow's training operator, for `PyTorchJob`s.
    Training,
    /// `KubeRay`'s operator.
    Ray,
    /// Kubeflow Trainer, for `TrainJob`s.
    Trainer,
    /// The controller of `LeaderWorkerSet`s.
    LeaderWorkerSet,
    /// The queueing of workloads.
    Kueue,
}

/// A program that is no part of a control plane, but that a test may want to use on one. It is built
/// only when it is asked for: see [`crate::build::tool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The command line, of the API server's version.
    Kubectl,
    /// The Go controller of the same API.
    GoAppWrapper,
    /// The agent of a real node.
    Kubelet,
}

/// What the Go tool needs to know of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// The name of the binary.
    pub(crate) name: &'static str,
    /// The Go package it is built from.
    pub(crate) package: &'static str,
    /// Which of our Go modules pins that package.
    pub(crate) go_module: GoModule,
}

impl Tool {
    pub(crate) const fn program(self) -> Program {
        match self {
            Self::Kubectl => Program {
                name: "kubectl",
                package: "k8s.io/kubernetes/cmd/kubectl",
                go_module: modules::KUBECTL,
            },
            Self::GoAppWrapper => Program {
                name: "go-appwrapper",
                package: "github.com/project-codeflare/appwrapper/cmd",
                go_module: modules::APPWRAPPER,
            },
            Self::Kubelet => Program {
                name: "kubelet",
                package: "k8s.io/kubernetes/cmd/kubelet",
                go_module: modules::KUBELET,
            },
        }
    }
}

impl Component {
    /// All of them, in the order in which they are built.
    pub const ALL: [Self; 11] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kwok,
        Self::JobSet,
        Self::Training,
        Self::Ray,
        Self::Trainer,
        Self::LeaderWorkerSet,
        Self::Kueue,
    ];

    /// The name of the binary, which is also that of the log file (`<name>.log`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::JobSet => "jobset",
            Self::Training => "training-operator",
            Self::Ray => "ray-operator",
            Self::Trainer => "trainer",
            Self::LeaderWorkerSet => "lws",
            Self::Kueue => "kueue",
        }
    }

    pub(crate) const fn program(self, versions: Versions) -> Program {
        Program { name: self.name(), package: self.package(), go_module: self.go_module(versions) }
    }

    /// The Go package it is built from.
    const fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Scheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
            Self::JobSet => "sigs.k8s.io/jobset",
            Self::Training => "github.com/kubeflow/training-operator/cmd/training-operator.v1",
            Self::Ray => "github.com/ray-project/kuberay/ray-operator",
            Self::Trainer => "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
            Self::LeaderWorkerSet => "sigs.k8s.io/lws/cmd",
            Self::Kueue => "sigs.k8s.io/kueue/cmd/kueue",
        }
    }

    /// Which of our Go modules pins that package.
    pub(crate) const fn go_module(self, versions: Versions) -> GoModule {
        match self {
            Self::ApiServer | Self::ControllerManager | Self::Scheduler => {
                versions.kubernetes.go_module()
            }
            Self::Kueue => versions.kueue.go_module(),
            Self::Training => modules::TRAINING,
            Self::Ray => modules::RAY,
            Self::Trainer => modules::TRAINER,
            Self::LeaderWorkerSet => modules::LWS,
            Self::Etcd | Self::Kwok | Self::JobSet => modules::CONTROL_PLANE,
        }
    }

    /// The Go module whose directory has its manifests, for those that come with some.
    pub(crate) const fn manifests_module(self) -> Option<&'static str> {
        match self {
            Self::Kwok => Some("sigs.k8s.io/kwok"),
            Self::JobSet => Some("sigs.k8s.io/jobset"),
            Self::Training => Some("github.com/kubeflow/training-operator"),
            Self::Ray => Some("github.com/ray-project/kuberay/ray-operator"),
            Self::Trainer => Some("github.com/kubeflow/trainer/v2"),
            Self::LeaderWorkerSet => Some("sigs.k8s.io/lws"),
            Self::Kueue => Some("sigs.k8s.io/kueue"),
            Self::Etcd | Self::ApiServer | Self::ControllerManager | Self::Scheduler => None,
        }
    }
}
