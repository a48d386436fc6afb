//! Pods, their containers and conditions, as they were seen.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::lost::Loss;
use crate::progress::{Malformed, Report};

/// One of our pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about one object")]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Index of its component; absent where nothing tells.
    pub component: Option<usize>,
    /// Index of its pod set in the component; absent where nothing tells.
    pub pod_set: Option<usize>,
    /// The attempt that created it; absent on pods of the Go controller.
    pub attempt: Option<i32>,
    /// The node it is bound to.
    pub node: Option<String>,
    /// Where it is in its life.
    pub phase: PodPhase,
    /// It has a deletion timestamp.
    pub terminating: bool,
    /// It is gone since the last look, and is seen once more as it was at the end.
    pub gone: bool,
    /// When it should have been gone: its deletion timestamp, which counts in its own grace period.
    pub due_to_go: Option<Timestamp>,
    /// It is Terminating with a grace period of 0: only finalizers keep it, and a forced deletion changes nothing.
    pub held_by_finalizers: bool,
    /// When its deletion was requested first: its deletion timestamp without its grace period.
    pub deletion_requested: Option<Timestamp>,
    /// Finalizers that keep it.
    pub finalizers: Vec<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The latest time at which a Failed pod can have failed, as far as its object tells: when its status was last written,
    /// or `status.startTime` where it has no containers, since its kubelet rejected it.
    pub failed_by: Option<Timestamp>,
    /// `status.reason`, such as `Evicted`.
    pub reason: Option<String>,
    /// `status.message`.
    pub message: Option<String>,
    /// Its conditions.
    pub conditions: Vec<PodCondition>,
    /// Its containers, init containers first.
    pub containers: Vec<Container>,
    /// Extended and native resources that its containers ask for, where the amount is not zero. Shared, since many pods ask
    /// for the same.
    pub resources: Arc<BTreeSet<String>>,
    /// It had not ended when its node was lost. Set by [`Snapshot::mark_failed_pods`].
    pub lost: Option<Loss>,
    /// Since when it is Terminating for longer than `forcefulDeletionGracePeriod`, while it should run.
    pub stuck: Option<Timestamp>,
    /// It was ours, and its owner references no longer say so: nothing of ours deletes it with its owner.
    pub detached: bool,
    /// Its author says that nothing is damaged where it still runs beside its successor:
    /// [`SAFE_TO_FORCE_DELETE`](crate::api::keys::SAFE_TO_FORCE_DELETE).
    pub safe_to_force_delete: bool,
    /// The progress that it reported last, or why that cannot be read; none where it reported none.
    pub progress: Option<Result<Report, Malformed>>,
}

named! {
    /// Phase of a pod: its `status.phase`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PodPhase {
        #[default]
        Pending: "Pending", "Not all of its containers run yet.";
        Running: "Running", "It runs.";
        Succeeded: "Succeeded", "Every container ended with code 0.";
        Failed: "Failed", "A container ended with another code, or the pod was ended from outside.";
        Unknown: "Unknown", "Its node cannot be reached.";
    }
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCondition {
    /// Its type.
    pub kind: String,
    /// Its status.
    pub status: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// When it took its status.
    pub since: Option<Timestamp>,
}

/// A container of a pod, by `state` alone: `lastState` is the past.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// It is an init container.
    pub init: bool,
    /// It is a restartable init container (a sidecar).
    pub restartable: bool,
    /// What it is doing.
    pub state: ContainerState,
}

/// What a container is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContainerState {
    /// Not known.
    #[default]
    Unknown,
    /// It waits.
    Waiting {
        /// On what, such as `ImagePullBackOff`.
        reason: String,
        /// Details.
        message: String,
    },
    /// It runs.
    Running,
    /// It ended.
    Terminated(Termination),
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Termination {
    /// Its exit code.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Reason, such as `OOMKilled`.
    pub reason: String,
    /// Its termination message.
    pub message: String,
    /// When it ended, by the clock of its node. If that clock is behind the API server's, the difference is added as far as
    /// the start of the pod shows it. It is not later than [`Pod::failed_by`] unless that clock is ahead.
    pub finished_at: Option<Timestamp>,
}

impl Pod {
    /// Its containers have ended, and nothing deletes it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed) && !self.terminating
    }

    /// It uses the quota of its AppWrapper: it may still run.
    #[must_use]
    pub const fn uses_quota(&self) -> bool {
        !matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed) && self.lost.is_none()
    }

    /// It failed, was lost with its node, or does not terminate.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.phase == PodPhase::Failed || self.is_given_up()
    }

    /// It counts as failed, although nothing says that its containers have ended.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.lost.is_some() || self.stuck.is_some() && self.phase != PodPhase::Succeeded
    }

    /// It is Terminating, and may still go in time.
    #[must_use]
    pub const fn is_going(&self) -> bool {
        self.terminating && !self.gone && self.lost.is_none() && self.stuck.is_none()
    }

    /// Its node is the reason that it failed: it was lost with it, or Kubernetes deleted it for that.
    #[must_use]
    pub fn died_of_node(&self) -> bool {
        const REASONS: [&str; 2] = ["DeletionByPodGC", "DeletionByTaintManager"];
        let target = self.true_condition("DisruptionTarget");
        self.lost.is_some() || target.is_some_and(|c| REASONS.contains(&c.reason.as_str()))
    }

    /// The condition of a type, where its status is True.
    #[must_use]
    pub fn true_condition(&self, kind: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|c| c.kind == kind && c.status == "True")
    }

    /// The containers that ended, with how; none of a pod that is lost: how the others end, and so the pod, is not known.
    pub fn terminated(&self) -> impl Iterator<Item = (&Container, &Termination)> {
        let known = self.containers.iter().filter(|_| self.lost.is_none());
        known.filter_map(|container| match &container.state {
            ContainerState::Terminated(end) => Some((container, end)),
            ContainerState::Unknown | ContainerState::Waiting { .. } | ContainerState::Running => {
                None
            }
        })
    }
}
