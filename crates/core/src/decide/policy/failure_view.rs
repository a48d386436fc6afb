//! A closer look at a failure: which of its containers count, and what happened to it.

use crate::policies::Happening;
use crate::snapshot::{Container, Pod, Termination};

use super::category::OOM_KILLED;

/// The Job's reason for having run too long.
const DEADLINE: &str = "DeadlineExceeded";

/// One failure, as a rule looks at it.
#[derive(Clone, Copy, Debug)]
pub struct FailureView<'a> {
    /// The pod of the first cause; none where only the component tells.
    pub pod: Option<&'a Pod>,
    /// The component, or its Job, says that it ran for too long.
    pub overdue: bool,
    /// The only container that is looked at.
    pub container: Option<&'a str>,
    /// Init containers are looked at, too.
    pub init: bool,
}

impl<'a> FailureView<'a> {
    /// All of a pod.
    #[must_use]
    pub const fn at(pod: &'a Pod) -> Self {
        Self { pod: Some(pod), overdue: false, container: None, init: true }
    }

    /// The containers that ended, of those that are looked at. A container that is named is looked at
    /// whatever it is.
    pub fn ended(self) -> impl Iterator<Item = (&'a Container, &'a Termination)> {
        self.pod.into_iter().flat_map(Pod::terminated).filter(move |(container, _)| {
            match self.container {
                Some(name) => container.name == name,
                None => self.init || !container.init,
            }
        })
    }

    /// Those that ended with another code than 0.
    pub fn failed(self) -> impl Iterator<Item = &'a Termination> {
        self.ended().map(|(_, end)| end).filter(|end| end.exit_code != 0)
    }

    /// How the first of them ended.
    #[must_use]
    pub fn culprit(self) -> Option<&'a Termination> {
        self.failed().min_by_key(|end| (end.finished_at.is_none(), end.finished_at))
    }

    /// Whether this happened. Source: table of conditions of the contract.
    #[must_use]
    pub fn happened(self, happening: Happening) -> bool {
        let pod_reason = self.pod.and_then(|pod| pod.reason.as_deref());
        let target = self.pod.and_then(|pod| pod.true_condition("DisruptionTarget"));
        let target = target.map(|condition| condition.reason.as_str());
        match happening {
            Happening::OomKilled => self.ended().any(|(_, end)| end.reason == OOM_KILLED),
            Happening::Evicted => {
                pod_reason == Some("Evicted")
                    || matches!(
                        target,
                        Some(
                            "EvictionByEvictionAPI"
                                | "DeletionByTaintManager"
                                | "TerminationByKubelet"
                        )
                    )
            }
            Happening::Preempted => target == Some("PreemptionByScheduler"),
            Happening::DeadlineExceeded => self.overdue || pod_reason == Some(DEADLINE),
            Happening::Unschedulable => self.pod.is_some_and(|pod| {
                pod.conditions.iter().any(|c| {
                    c.kind == "PodScheduled" && c.status == "False" && c.reason == "Unschedulable"
                })
            }),
        }
    }
}

/// The most of a termination message that patterns are shown; a kubelet passes on no more.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// What patterns are shown of how a container ended.
#[must_use]
pub fn shown(end: &Termination) -> &str {
    &end.message[..end.message.floor_char_boundary(MESSAGE_BYTES_MAX)]
}

/// Whether a component's reason is that it ran for too long.
#[must_use]
pub fn is_overdue(reason: &str) -> bool {
    reason == DEADLINE
}
