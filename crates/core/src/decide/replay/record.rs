//! What the recorded attempts tell of a failure: as much of the failed pod and of the failed component as
//! can be made again from its record.

use k8s_openapi::jiff::Timestamp;

use crate::api::condition::unhealthy;
use crate::api::{Attempt, AttemptAction, Category, FailureRecord};
use crate::config::Config;
use crate::decide::policy::failure_view::{STORAGE_LIMITS, names_storage_limit};
use crate::snapshot::lost::{Loss, Lost};
use crate::snapshot::{
    Component, Container, ContainerState, Pod, PodCondition, PodPhase, Snapshot, Termination,
};

/// What kind of failure was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedFailure {
    /// A pod failed.
    PodFailed,
    /// A pod did not come up.
    PodWaits,
    /// A component said that it failed, and no pod told more.
    ComponentFailed,
    /// A component was gone or could not be created, or had too few pods.
    ComponentLacks,
    /// A node was marked: no policy is asked.
    NodeMarked,
    /// A component could never be created: no policy is asked.
    Hopeless,
    /// No pod reported progress.
    Stalled,
}

/// Whether the pod was to be disrupted (`DisruptionTarget`), as far as the record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// It was.
    Yes,
    /// It was evicted or its node was gone, which usually comes with that condition.
    Likely,
    /// Nothing speaks for it, and nothing against it.
    Unlikely,
    /// It was not, or the failure were of another category.
    No,
}

/// A failure, made again from its record.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// The record.
    pub record: &'a FailureRecord,
    /// What kind of failure it is.
    pub happened: RecordedFailure,
    /// Index of the component; none where no component has the recorded name any more.
    pub component: Option<usize>,
    /// The pod, with the one container that is recorded.
    pub pod: Option<Pod>,
    /// Whether the pod was to be disrupted.
    pub disruption: Disruption,
    /// The category is one of ours, so that it says something of what is not recorded.
    pub built_in: Option<Category>,
    /// When it happened.
    pub at: Option<Timestamp>,
}

/// Reasons of `DisruptionTarget`.
const DISRUPTIONS: [&str; 5] = [
    "EvictionByEvictionAPI",
    "DeletionByTaintManager",
    "TerminationByKubelet",
    "PreemptionByScheduler",
    "DeletionByPodGC",
];
/// Reasons of `PodScheduled` that keep a pod from a node.
const UNSCHEDULED: [&str; 2] = ["Unschedulable", "SchedulingGated"];
/// Reasons of a pod whose node was lost.
const LOST: [&str; 2] = ["NodeLost", "NodeShutdown"];

impl<'a> Evidence<'a> {
    /// What is told by a record and the attempt that it belongs to.
    pub fn of(
        attempt: &Attempt,
        record: &'a FailureRecord,
        snapshot: &Snapshot,
        config: &Config,
    ) -> Self {
        let at = attempt.failed_at.as_ref().map(|time| time.0);
        let happened = happened(attempt, record);
        let named = record.component.as_deref();
        let component = named.and_then(|name| snapshot.component_named(name));
        let built_in = built_in(record, config);
        let mut evidence = Self {
            record,
            happened,
            component,
            pod: None,
            disruption: Disruption::No,
            built_in,
            at,
        };
        if record.pod.is_some() && happened != RecordedFailure::Stalled {
            evidence.disruption = evidence.disruption();
            evidence.pod = Some(evidence.pod());
        }
        evidence
    }

    /// The component, where there is one of that name.
    pub fn component<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s Component> {
        self.component.and_then(|index| snapshot.components.get(index))
    }

    /// A container ended with a code other than 0: the record holds the first that did.
    pub const fn has_code(&self) -> bool {
        self.record.exit_code.is_some()
    }

    /// Name of the container that is recorded.
    pub fn container(&self) -> &str {
        self.record.container.as_deref().unwrap_or_default()
    }

    /// Reason and message, as recorded.
    pub fn said(&self) -> (&'a str, &'a str) {
        (self.reason(), self.record.message.as_deref().unwrap_or_default())
    }

    fn reason(&self) -> &'a str {
        self.record.reason.as_deref().unwrap_or_default()
    }

    /// The reason is that of a pod or of its condition, not of a container.
    const fn pod_says(&self) -> bool {
        self.record.exit_code.is_none() && self.record.container.is_none()
    }

    /// The reason is that of `DisruptionTarget`: a pod that died of its node has it even if a container failed.
    fn names_disruption(&self) -> bool {
        DISRUPTIONS.contains(&self.reason())
    }

    /// Since the categories are asked in an order, each excludes those before it.
    fn disruption(&self) -> Disruption {
        // of a pod that its kubelet evicted, the reason is `Evicted`
        let evicted = self.pod_says() && self.built_in == Some(Category::Evicted);
        if self.names_disruption() || evicted && self.reason() != "Evicted" {
            return Disruption::Yes;
        }
        match self.built_in {
            Some(Category::Preempted) => Disruption::Yes,
            // it was lost before anything was to disrupt it
            Some(Category::Node) if LOST.contains(&self.reason()) || self.lost().is_some() => {
                Disruption::Unlikely
            }
            Some(Category::Evicted | Category::Node) => Disruption::Likely,
            Some(Category::Application | Category::Unknown) => Disruption::No,
            Some(
                Category::Oom
                | Category::StorageLimit
                | Category::Deadline
                | Category::Unschedulable
                | Category::Image
                | Category::Config
                | Category::Hang,
            )
            | None => Disruption::Unlikely,
        }
    }

    /// The pod was lost with its node.
    fn lost(&self) -> Option<Loss> {
        let state = Lost::of(self.reason()).filter(|_| self.pod_says())?;
        Some(Loss { state, since: self.at })
    }

    fn pod(&self) -> Pod {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let record = self.record;
        let mut pod = Pod {
            name: text(&record.pod),
            uid: text(&record.pod_uid),
            component: self.component,
            node: record.node.clone(),
            phase: match self.happened {
                RecordedFailure::PodWaits => PodPhase::Pending,
                RecordedFailure::NodeMarked => PodPhase::Running,
                RecordedFailure::PodFailed
                | RecordedFailure::ComponentFailed
                | RecordedFailure::ComponentLacks
                | RecordedFailure::Stalled
                | RecordedFailure::Hopeless => PodPhase::Failed,
            },
            // what a rule is about that is taken to match; no policy can ask for it
            conditions: vec![PodCondition::default()],
            lost: self.lost(),
            // what no container said
            message: record
                .message
                .clone()
                .filter(|_| record.exit_code.is_none() && self.lost().is_none()),
            ..Pod::default()
        };
        let state = record.exit_code.map_or_else(
            || ContainerState::Waiting {
                reason: text(&record.reason),
                message: text(&record.message),
            },
            |exit_code| {
                ContainerState::Terminated(Termination {
                    exit_code,
                    signal: record.signal,
                    reason: text(&record.reason),
                    message: text(&record.message),
                    finished_at: self.at,
                })
            },
        );
        if !self.pod_says() {
            pod.containers = vec![Container {
                name: text(&record.container),
                init: record.init_container.unwrap_or(false),
                restartable: false,
                state,
            }];
        }
        self.mark(&mut pod);
        pod
    }

    /// Reason and conditions of the pod: as recorded, or as the category has them.
    fn mark(&self, pod: &mut Pod) {
        let record = self.record;
        let mut condition = |kind: &str, status: &str, reason: &str| {
            pod.conditions.push(PodCondition {
                kind: kind.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: record.message.clone().unwrap_or_default(),
                since: self.at,
            });
        };
        let known = self.names_disruption();
        let unscheduled = self.pod_says() && UNSCHEDULED.contains(&self.reason());
        match self.disruption {
            Disruption::Yes if known => condition("DisruptionTarget", "True", self.reason()),
            Disruption::Yes if self.built_in == Some(Category::Evicted) => {
                condition("DisruptionTarget", "True", "TerminationByKubelet");
            }
            Disruption::Yes => condition("DisruptionTarget", "True", "PreemptionByScheduler"),
            Disruption::Likely if self.built_in == Some(Category::Node) => {
                condition("DisruptionTarget", "True", "DeletionByPodGC");
            }
            Disruption::Likely | Disruption::Unlikely | Disruption::No => {}
        }
        if unscheduled {
            condition("PodScheduled", "False", self.reason());
        }
        if self.pod_says() {
            if !known && !unscheduled {
                pod.reason.clone_from(&record.reason);
                pod.message.clone_from(&record.message);
            }
        } else if self.built_in == Some(Category::StorageLimit) {
            let recorded = record.message.clone().filter(|message| names_storage_limit(message));
            pod.reason = Some("Evicted".to_owned());
            pod.message = recorded.or_else(|| Some(STORAGE_LIMITS[0].to_owned()));
        } else if self.built_in == Some(Category::Evicted) {
            pod.reason = Some("Evicted".to_owned());
        } else if self.built_in == Some(Category::Deadline) {
            pod.reason = Some("DeadlineExceeded".to_owned());
        }
    }
}

fn happened(attempt: &Attempt, record: &FailureRecord) -> RecordedFailure {
    let reason = record.reason.as_deref().unwrap_or_default();
    let unruled = |action| attempt.action == Some(action) && attempt.rule.is_none();
    // of what a component says no category is recorded, and containers have one of their own
    if reason == unhealthy::STALLED && record.container.is_none() && record.category.is_some() {
        return RecordedFailure::Stalled;
    }
    if record.pod.is_none() {
        return match reason {
            unhealthy::CREATE_FAILED if unruled(AttemptAction::Fail) => RecordedFailure::Hopeless,
            unhealthy::CREATE_FAILED
            | unhealthy::MISSING_COMPONENT
            | unhealthy::INSUFFICIENT_PODS_READY => RecordedFailure::ComponentLacks,
            _ => RecordedFailure::ComponentFailed,
        };
    }
    let of_node = record.category.as_deref() == Some(Category::Node.as_str());
    let silent = reason.is_empty() && record.exit_code.is_none();
    if of_node && (silent || unruled(AttemptAction::RestartIgnoringLimit)) {
        return RecordedFailure::NodeMarked;
    }
    let waits = record.container.is_some() || UNSCHEDULED.contains(&reason);
    if record.exit_code.is_none() && waits {
        RecordedFailure::PodWaits
    } else {
        RecordedFailure::PodFailed
    }
}

/// The category, unless an administrator may have given that name to something else.
fn built_in(record: &FailureRecord, config: &Config) -> Option<Category> {
    let name = record.category.as_deref()?;
    let configured = config.failure_categories.iter().any(|category| category.name == name);
    let mut all = Category::ALL.into_iter();
    all.find(|category| category.as_str() == name).filter(|_| !configured)
}
