//! A closer look at a failure: which of its containers count, and what happened to it.

use crate::policies::FailureCondition;
use crate::snapshot::{Container, Pod, Termination};

use super::category::OOM_KILLED;

/// The Job's reason for having run too long.
const DEADLINE: &str = "DeadlineExceeded";
/// Reason of `DisruptionTarget` of a pod that was preempted.
const PREEMPTED: &str = "PreemptionByScheduler";
/// What a kubelet says of a pod that it evicted because the pod exceeded its own limit, and not because its
/// node was short of storage. Source: `pkg/kubelet/eviction` of Kubernetes 1.36.
pub const STORAGE_LIMITS: [&str; 3] = [
    "ephemeral local storage usage exceeds the total limit of containers",
    "exceeded its local ephemeral storage limit",
    "Usage of EmptyDir volume",
];

/// One failure, as a rule looks at it.
#[derive(Clone, Copy, Debug)]
pub struct FailureView<'a> {
    /// The pod of the first cause; none where only the component tells.
    pub pod: Option<&'a Pod>,
    /// The component, or its Job, says that it ran for too long.
    pub overdue: bool,
    /// No pod reports progress. Then there is no pod of the first cause.
    pub stalled: bool,
    /// The only container that is looked at.
    pub container: Option<&'a str>,
    /// Init containers are looked at, too.
    pub init: bool,
}

impl<'a> FailureView<'a> {
    /// All of a pod.
    #[must_use]
    pub const fn at(pod: &'a Pod) -> Self {
        Self { pod: Some(pod), overdue: false, stalled: false, container: None, init: true }
    }

    /// A hang: nothing happened to any pod.
    #[must_use]
    pub const fn of_stall() -> Self {
        Self { pod: None, overdue: false, stalled: true, container: None, init: true }
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

    /// How the first container ended that failed.
    #[must_use]
    pub fn culprit(self) -> Option<&'a Termination> {
        first_failed(self.ended()).map(|(_, end)| end)
    }

    /// What patterns are asked about: the termination message of each container that ended, also with code 0;
    /// where one has none, and where no container ended, the message of the pod.
    pub fn messages(self) -> impl Iterator<Item = &'a str> {
        let pod = self.pod.and_then(|pod| pod.message.as_deref()).unwrap_or_default();
        let own = move |(_, end): (&'a Container, &'a Termination)| {
            if end.message.is_empty() { pod } else { end.message.as_str() }
        };
        let whole = self.ended().next().is_none().then_some(pod);
        self.ended().map(own).chain(whole).filter(|text| !text.is_empty()).map(shown)
    }

    /// The message of the first container that failed; the pod's where it has none, and where none failed.
    #[must_use]
    pub fn first_message(self) -> Option<&'a str> {
        let own = self.culprit().map(|end| end.message.as_str()).filter(|text| !text.is_empty());
        own.or_else(|| self.pod.and_then(|pod| pod.message.as_deref())).map(shown)
    }

    /// Whether this happened. Source: `docs/user/policies.md#matching`.
    #[must_use]
    pub fn has(self, condition: FailureCondition) -> bool {
        let pod_reason = self.pod.and_then(|pod| pod.reason.as_deref());
        let is_evicted = pod_reason == Some("Evicted");
        let target = self.pod.and_then(|pod| pod.true_condition("DisruptionTarget"));
        let target = target.map(|condition| condition.reason.as_str());
        let died_of_node = self.pod.is_some_and(Pod::died_of_node);
        match condition {
            FailureCondition::OomKilled => {
                self.culprit().is_some_and(|end| end.reason == OOM_KILLED)
            }
            FailureCondition::Evicted => {
                is_evicted || died_of_node || target.is_some_and(|reason| reason != PREEMPTED)
            }
            FailureCondition::NodeLost => died_of_node,
            FailureCondition::Preempted => target == Some(PREEMPTED),
            FailureCondition::StorageLimitExceeded => {
                let message = self.pod.and_then(|pod| pod.message.as_deref()).unwrap_or_default();
                is_evicted && names_storage_limit(message)
            }
            FailureCondition::DeadlineExceeded => self.overdue || pod_reason == Some(DEADLINE),
            FailureCondition::Stalled => self.stalled,
            FailureCondition::Unschedulable => self.pod.is_some_and(|pod| {
                pod.conditions.iter().any(|c| {
                    c.kind == "PodScheduled" && c.status == "False" && c.reason == "Unschedulable"
                })
            }),
        }
    }
}

/// The container that failed first, of those that ended: with another code than 0. Of several at one time a
/// sidecar comes last: it ends because the others did.
pub fn first_failed<'a>(
    ended: impl Iterator<Item = (&'a Container, &'a Termination)>,
) -> Option<(&'a Container, &'a Termination)> {
    ended.filter(|(_, end)| end.exit_code != 0).min_by_key(|(container, end)| {
        (end.finished_at.is_none(), end.finished_at, container.restartable)
    })
}

/// The most of a message that patterns are shown; a kubelet passes on no more of a container's.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

fn shown(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)]
}

/// Whether a message says that a pod exceeded its own limit of storage.
#[must_use]
pub fn names_storage_limit(message: &str) -> bool {
    STORAGE_LIMITS.iter().any(|part| message.contains(part))
}

/// Whether a component's reason is that it ran for too long.
#[must_use]
pub fn is_overdue(reason: &str) -> bool {
    reason == DEADLINE
}
