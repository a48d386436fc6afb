//! Categories of failure, built in. Source: Armada retry policies, failure categories.

use crate::snapshot::{ContainerState, Pod};

/// What kind of failure a pod had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// A container used more memory than it may.
    Oom,
    /// The pod was evicted from its node.
    Evicted,
    /// A pod of higher priority took its place.
    Preempted,
    /// It ran for too long.
    Deadline,
    /// No node takes it.
    Unschedulable,
    /// Its image cannot be had.
    Image,
    /// Its configuration is wrong.
    Config,
    /// Its node is gone or lost.
    Node,
    /// A container ended with another code than 0.
    Application,
    /// None of these.
    Unknown,
}

impl Category {
    /// Name in policies, status and output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Oom => "oom",
            Self::Evicted => "evicted",
            Self::Preempted => "preempted",
            Self::Deadline => "deadline",
            Self::Unschedulable => "unschedulable",
            Self::Image => "image",
            Self::Config => "config",
            Self::Node => "node",
            Self::Application => "application",
            Self::Unknown => "unknown",
        }
    }
}

const IMAGE_REASONS: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "ImageInspectError",
];
const CONFIG_REASONS: [&str; 4] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
];

/// The category of a pod's failure: the first that fits, init containers too.
#[must_use]
pub fn of(pod: &Pod) -> Category {
    let target = pod.true_condition("DisruptionTarget").map(|c| c.reason.as_str());
    let pod_reason = pod.reason.as_deref();
    let waits_for = |reasons: &[&str]| {
        pod.containers.iter().any(|container| match &container.state {
            ContainerState::Waiting { reason, .. } => reasons.contains(&reason.as_str()),
            ContainerState::Unknown | ContainerState::Running | ContainerState::Terminated(_) => {
                false
            }
        })
    };
    let evictions = ["EvictionByEvictionAPI", "DeletionByTaintManager", "TerminationByKubelet"];
    let unscheduled = pod
        .conditions
        .iter()
        .any(|c| c.kind == "PodScheduled" && c.status == "False" && c.reason == "Unschedulable");
    if pod.terminated().any(|(_, end)| end.reason == "OOMKilled") {
        Category::Oom
    } else if pod_reason == Some("Evicted") || target.is_some_and(|r| evictions.contains(&r)) {
        Category::Evicted
    } else if target == Some("PreemptionByScheduler") {
        Category::Preempted
    } else if pod_reason == Some("DeadlineExceeded") {
        Category::Deadline
    } else if unscheduled {
        Category::Unschedulable
    } else if waits_for(&IMAGE_REASONS) {
        Category::Image
    } else if waits_for(&CONFIG_REASONS) {
        Category::Config
    } else if target == Some("DeletionByPodGC")
        || matches!(pod_reason, Some("NodeLost" | "NodeShutdown"))
    {
        Category::Node
    } else if pod.terminated().any(|(_, end)| end.exit_code != 0) {
        Category::Application
    } else {
        Category::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Container, PodCondition, Termination};

    fn ended(reason: &str, exit_code: i32) -> Container {
        let end = Termination { exit_code, reason: reason.into(), ..Termination::default() };
        Container { state: ContainerState::Terminated(end), ..Container::default() }
    }

    fn waiting(reason: &str) -> Container {
        let state = ContainerState::Waiting { reason: reason.into(), message: String::new() };
        Container { state, ..Container::default() }
    }

    fn condition(kind: &str, status: &str, reason: &str) -> PodCondition {
        PodCondition {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            ..PodCondition::default()
        }
    }

    #[test]
    fn the_first_category_that_fits_is_taken() {
        let target = |reason| Pod {
            conditions: vec![condition("DisruptionTarget", "True", reason)],
            ..Pod::default()
        };
        let container = |container| Pod { containers: vec![container], ..Pod::default() };
        let reason = |reason: &str| Pod { reason: Some(reason.into()), ..Pod::default() };
        let unscheduled = condition("PodScheduled", "False", "Unschedulable");
        let mut oom_and_evicted = target("EvictionByEvictionAPI");
        oom_and_evicted.containers = vec![ended("OOMKilled", 137)];
        for (pod, want) in [
            (container(ended("OOMKilled", 137)), Category::Oom),
            (oom_and_evicted, Category::Oom),
            (reason("Evicted"), Category::Evicted),
            (target("EvictionByEvictionAPI"), Category::Evicted),
            (target("DeletionByTaintManager"), Category::Evicted),
            (target("TerminationByKubelet"), Category::Evicted),
            (target("PreemptionByScheduler"), Category::Preempted),
            (reason("DeadlineExceeded"), Category::Deadline),
            (Pod { conditions: vec![unscheduled], ..Pod::default() }, Category::Unschedulable),
            (container(waiting("ImagePullBackOff")), Category::Image),
            (container(waiting("CreateContainerConfigError")), Category::Config),
            (target("DeletionByPodGC"), Category::Node),
            (reason("NodeLost"), Category::Node),
            (container(ended("Error", 1)), Category::Application),
            (container(ended("Completed", 0)), Category::Unknown),
            (Pod::default(), Category::Unknown),
        ] {
            assert_eq!(of(&pod), want, "{pod:?}");
        }
    }
}
