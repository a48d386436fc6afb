//! A real Kubernetes control plane for integration tests.
//!
//! Everything a cluster has but kubelets: etcd, kube-apiserver, kube-controller-manager and
//! kube-scheduler, with KWOK playing the nodes and the pods, and, where a test asks for them,
//! `JobSet`, Kueue, Kubeflow's training operator, Kubeflow Trainer, `KubeRay` and `LeaderWorkerSet`. All of it is built from the Go
//! modules pinned under `go/`, once, and listens on free loopback ports, so several control planes
//! can run beside each other.
//!
//! ```no_run
//! # async fn example() -> Result<(), controlplane::Error> {
//! use controlplane::{ControlPlane, Options};
//! let plane = ControlPlane::start(Options { jobset: true, ..Options::default() }).await?;
//! let client = plane.client();
//! # Ok(()) }
//! ```
//!
//! How a start goes:
//!
//! ```text
//! build ──> etcd ──> kube-apiserver ─┬─> CRDs served ─┬─> kube-controller-manager ─┬─> ready
//!           certificates, ports,     │                └─> operators, then webhooks │
//!           Go module directories ───┴─> kube-scheduler, KWOK, nodes ──────────────┘
//! ```
//!
//! Kueue runs under the account it has in a cluster, so that admission can tell it from a user; a
//! client or a kubeconfig of anybody else comes from [`ControlPlane::client_of`] and
//! [`ControlPlane::kubeconfig_of`]. `kubectl`, for tests that want it, is built by [`build::tool`]
//! when one asks.
//!
//! `CONTROLPLANE_KUBERNETES` and `CONTROLPLANE_KUEUE` choose other versions: see [`versions`].
//!
//! A [`RealNode`] is a node with a kubelet and containers, for what KWOK cannot show.
//!
//! What pods do on KWOK's nodes is written in their annotations: see [`annotations`].
//!
//! Pure: [`annotations`], `component`, `modules`, `flags`, `config`, `manifest`. The rest does I/O.

pub mod annotations;
pub mod build;
mod component;
mod config;
mod env;
mod error;
mod flags;
mod go;
mod manifest;
mod modules;
mod objects;
mod operators;
mod options;
mod pki;
mod plane;
mod probe;
mod real_node;
mod site;
mod supervisor;
pub mod versions;

pub use component::{Component, Tool};
pub use error::Error;
pub use options::Options;
pub use plane::ControlPlane;
pub use real_node::{Image, NodeOptions, RealNode};
pub use versions::Versions;
