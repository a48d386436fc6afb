//! Plain data: one look at the world around one AppWrapper. Made by `observe` or from a bundle.
//!
//! A snapshot says what was seen and how sure that is; it draws no conclusion. In particular an
//! object that a cache does not hold is [`Presence::Unseen`], never absent.

pub mod lost;
pub mod place;
mod pod;
mod read;
pub mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::api::{AppWrapperStatus, PodSet};
use crate::kueue::WaitForPodsReady;
use crate::policies::{AppliedRetryPolicies, Named, Policies};
use crate::quantity::Bytes;
use lost::Loss;
use place::{Placement, Site};
pub use pod::{Container, ContainerState, Pod, PodCondition, PodPhase, Termination};
use workload::WorkloadRead;

pub use read::{FreshRead, Orphan};

/// One look at the world around one AppWrapper.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about one object")]
pub struct Snapshot {
    /// Namespace of the AppWrapper and of all that it wraps.
    pub namespace: String,
    /// Name of the AppWrapper.
    pub name: String,
    /// UID of the AppWrapper.
    pub uid: String,
    /// The AppWrapper has a deletion timestamp.
    pub deleting: bool,
    /// Our finalizer is set.
    pub finalizer: bool,
    /// Finalizers of others are set: the object stays after ours is removed.
    pub has_other_finalizers: bool,
    /// `spec.suspend`.
    pub suspend: bool,
    /// `status` as it is stored.
    pub status: AppWrapperStatus,
    /// The components, in the order of `spec.components`.
    pub components: Vec<Component>,
    /// Our pods, of every attempt, by name.
    pub pods: Vec<Pod>,
    /// Pods that have our labels and that may or may not be ours.
    pub undetermined: Undetermined,
    /// What continues to create pods of ours after its component is gone.
    pub orphans: Vec<Orphan>,
    /// Nodes that are known; none where they cannot be seen.
    pub nodes: BTreeMap<String, Node>,
    /// Which read was made from the API server itself for this snapshot, after the last write.
    pub answered: FreshRead,
    /// Up to when calls for this AppWrapper failed, or nothing was looked at after one had: what happened before may not have
    /// been written down.
    pub last_gap: Option<Timestamp>,
    /// Since when pods can report to this process over HTTP; none where they cannot at all.
    pub reports_since: Option<Timestamp>,
    /// When this process last wrote what blocks a deletion.
    pub blockers_named_at: Option<Timestamp>,
    /// Since when every look of this process has shown more live pods than are declared; none where the last one did not.
    pub over_quota_since: Option<Timestamp>,
    /// The policies of its spec.
    pub policies: Arc<Policies>,
    /// The retry policies in force.
    pub retry: AppliedRetryPolicies,
    /// Kueue suspends and resumes it: it names a queue.
    pub queue_managed: bool,
    /// How long Kueue waits for its pods; none where it does not, where that is not known, and without a queue.
    pub wait_for_pods_ready: Option<WaitForPodsReady>,
    /// Kueue may look for a replacement of a failed node of it.
    pub replaces_failed_nodes: bool,
    /// Its Workload, where a decision asked for it.
    pub workload: WorkloadRead,
    /// MultiKueue of a manager cluster created it, and copies its conditions there.
    pub has_manager: bool,
    /// It names its Workload, which Kueue then does not create.
    pub is_prebuilt: bool,
    /// Every node, where a retry policy may make a retry avoid one, or an attempt may require other nodes than suspect
    /// ones; none where they cannot be seen.
    pub sites: Vec<Arc<Site>>,
    /// Hostnames of suspect nodes, where an attempt may begin; at most 5 % of the nodes, or one.
    pub suspects: Vec<String>,
    /// Why the API server refused to let memory grow, where it did.
    pub growth_refused: Option<String>,
    /// Fields of the stored status that could not be read, each with what is allowed.
    pub status_flaws: Vec<String>,
    /// Bytes of the stored object beside its status.
    pub rest_bytes: usize,
}

/// One component: what the template says, and what is known of its object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Component {
    /// `metadata.name` of the template, or the name that was recorded when it was created.
    pub name: String,
    /// Kind of the template.
    pub kind: String,
    /// API version of the template.
    pub api_version: String,
    /// The pod sets of the template, declared or inferred.
    pub pod_sets: Vec<PodSet>,
    /// Name of the part that each pod set is, such as a replicated Job, where it is one that rules can name.
    pub parts: Vec<Option<String>>,
    /// Why nothing can be made of the template, where that is so.
    pub flaw: Option<String>,
    /// How objects of its kind end.
    pub end: End,
    /// What is known of the object.
    pub presence: Presence,
    /// Why the last attempt to create it failed, where it did.
    pub creation: Option<CreationFailure>,
    /// When this process first failed to create it in the running attempt, where it did.
    pub failing_since: Option<Timestamp>,
    /// The pod template of each pod set, where a retry policy in force may have to look at it.
    pub templates: Vec<PodTemplate>,
    /// Jobs that failed in a `JobSet` that says that it failed, the first failure first.
    pub failed_jobs: Vec<FailedJob>,
    /// UID that the status records of its object. Alone it proves nothing: anybody may have written it.
    pub recorded: Option<String>,
    /// UIDs that the status records of the objects between it and its pods. Alone they prove nothing either.
    pub recorded_pod_owners: Vec<String>,
    /// UIDs of the objects between it and its pods, as they were seen.
    pub pod_owners: Vec<String>,
    /// This process has seen its object of the running attempt, or created it, perhaps without an answer.
    pub existed: bool,
    /// Another process began the running attempt, and may have created it without a word of that.
    pub may_have_existed: bool,
}

/// What matters of a pod template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodTemplate {
    /// Where its pods can be.
    pub placement: Placement,
    /// The memory of its containers, init containers too; none where it may not grow.
    pub containers: Vec<ContainerMemory>,
    /// Why the memory of its containers cannot grow, where they have some that does not reach its pods.
    pub memory_stays: Option<&'static str>,
}

/// The memory of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerMemory {
    /// Name of the container.
    pub name: String,
    /// What it requests.
    pub request: Option<Bytes>,
    /// Its limit.
    pub limit: Option<Bytes>,
}

/// A Job that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedJob {
    /// Its name.
    pub name: String,
    /// Index of the pod set of the `JobSet` that its pods are; absent where nothing tells.
    pub pod_set: Option<usize>,
    /// Reason of its Failed condition.
    pub reason: String,
    /// Message of its Failed condition.
    pub message: String,
    /// When it said so.
    pub at: Option<Timestamp>,
}

/// Why a creation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreationFailure {
    /// It will never succeed: invalid, forbidden, no such kind.
    pub fatal: bool,
    /// What the API server said.
    pub message: String,
}

/// What is known of a component's object.
#[expect(clippy::large_enum_variant, reason = "there are a handful at a time")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// Not in the cache: nothing may be concluded.
    #[default]
    Unseen,
    /// A read from the API server itself did not find it.
    Absent,
    /// Discovery, asked afresh, does not know the kind: it cannot exist.
    NoKind,
    /// It exists.
    Present(Object),
}

/// How objects of a kind end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Their status says so; pods need not be counted.
    Reported,
    /// They run until they are deleted.
    Never,
    /// Not known: the pods are counted.
    #[default]
    Unknown,
}

/// An object that has the name of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Its UID.
    pub uid: String,
    /// Whose it is.
    pub owner: Owner,
    /// The attempt that created it; absent on objects of the Go controller.
    pub attempt: Option<i32>,
    /// It has a deletion timestamp.
    pub terminating: bool,
    /// When its deletion was requested.
    pub deletion_requested: Option<Timestamp>,
    /// Finalizers that keep it.
    pub finalizers: Vec<String>,
    /// What it says of itself.
    pub report: Report,
}

impl Object {
    /// That no other object of its name can be created.
    #[must_use]
    pub fn holds_name(&self) -> String {
        let what = if self.terminating {
            "the name is held by a terminating object"
        } else {
            "an object of this name still exists"
        };
        format!("{what} (UID {})", self.uid)
    }
}

/// Whose an object is, by the UID of its controller owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// This AppWrapper's.
    #[default]
    Us,
    /// An AppWrapper's that had the same name, and is gone: garbage collection will take it.
    Former,
    /// Another controller's, `Kind/name`; empty where it has no controller.
    Stranger(String),
}

impl Owner {
    /// Whose an object of a stranger is, after its name.
    #[must_use]
    pub fn of_existing(stranger: &str) -> String {
        if stranger.is_empty() {
            "already exists, and no AppWrapper owns it".to_owned()
        } else {
            format!("already exists and is owned by {stranger}")
        }
    }

    /// The same, and what becomes of it.
    #[must_use]
    pub fn of_unchanged(stranger: &str) -> String {
        let advice = if stranger.is_empty() { ": delete it, or use another name" } else { "" };
        format!("{}; it is left unchanged{advice}", Self::of_existing(stranger))
    }
}

/// What a component's object says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Its own verdict.
    pub outcome: Outcome,
    /// It deletes its own pods, whatever they did, or may do so: a Job that has met its `successPolicy` and ends once they are
    /// gone, a Volcano Job that restarts or ends, a `RayJob` that tries again with a new cluster; always a `JobSet` and a
    /// `TrainJob`, which do not report in time that a Job of theirs fails or succeeds, and a Deployment, a StatefulSet and a
    /// `LeaderWorkerSet`, which do so when they are scaled down or updated, or recreate a group.
    pub deletes_pods: bool,
    /// Its controller creates some pods only once others are ready, or only once its own queue admits it.
    pub in_order: bool,
    /// It says that it is ready, though pods of it may not be: a `RayService` whose workers are Ready only where a replica runs.
    pub serves: bool,
    /// Pods that it still has to run, for each pod set of which its object tells: not of Pods, of Ray clusters and of kinds that
    /// are not known. Of any other pod set it is the declared number.
    pub expected: BTreeMap<usize, Expected>,
    /// Pod sets that the component has not started yet: parts that wait for other parts. None of their pods is
    /// [expected](Self::expected) until then.
    pub unstarted: BTreeSet<usize>,
    /// Pod sets whose pods nothing replaces: a Pod itself, a Kubeflow replica that never restarts.
    pub unreplaced: BTreeSet<usize>,
    /// Pod sets whose pods perhaps nothing replaces, which only the component can tell: a `JobSet` that a rule of its own
    /// may fail, or restart without counting.
    pub perhaps_unreplaced: BTreeSet<usize>,
    /// Pod sets whose pods nothing replaces after an exit code up to 127: Kubeflow replicas that restart by exit code.
    pub replaced_by_exit_code: BTreeSet<usize>,
    /// `backoffLimit` of the Jobs of a pod set, where it is known.
    pub backoff: BTreeMap<usize, BackoffLimit>,
}

/// How many pods of a Job may fail before it fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackoffLimit {
    /// `backoffLimit`; none where failures do not count alike: it counts by index, or ignores some.
    pub limit: Option<i64>,
    /// A rule of the Job's own `podFailurePolicy` may fail it at once.
    pub fails_by_rule: bool,
    /// Failed pods that the Job has counted; none where the object does not tell.
    pub counted: Option<i64>,
    /// How many of those may still have the finalizer of the Job.
    pub marked: i64,
}

/// Pods of one pod set that a component still has to run, as its object says. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Jobs that make up the pod set: 1 of a Job; of Kubeflow, every pod counts as one.
    pub jobs: i64,
    /// Pods that one of them runs at a time.
    pub parallelism: i64,
    /// Pods that have to succeed in one of them; absent where the first success ends it.
    pub completions: Option<i64>,
    /// Pods that have succeeded, as the object counts them, whether they are still there or not.
    /// Where `completions` is absent, the Jobs in which one has.
    pub succeeded: i64,
}

/// The verdict of a component's object over itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on, or its kind never ends.
    #[default]
    Active,
    /// It says that it succeeded.
    Succeeded,
    /// It says that it failed.
    Failed {
        /// Reason of its condition.
        reason: String,
        /// Message of its condition.
        message: String,
        /// When it said so.
        at: Option<Timestamp>,
    },
}

/// Pods that have our labels, and whose owner cannot be determined. They block the release of quota, and have
/// no other effect: they are not counted, not waited for as members, and never deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undetermined {
    /// How many there are.
    pub count: usize,
    /// How many of them have not ended.
    pub live: usize,
    /// How many of them have not ended, and name an owner that is gone and was called like a component, or like
    /// what one makes. Garbage collection deletes such a pod, whoever made it.
    pub outlived: usize,
    /// Name of some of them, each with the reason.
    pub named: Vec<(String, String)>,
    /// It may turn out whose some of them are without any event: a right is granted, a kind is served.
    pub unsettled: bool,
    /// There are owners that were not read for want of time, and that may turn out to be ours: this
    /// snapshot lacks pods, and a later one will have them.
    pub incomplete: bool,
}

/// What matters of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Resources that a health monitor has marked `NoExecute` on it.
    pub no_execute: BTreeSet<String>,
    /// No kubelet manages the pods on it.
    pub lost: Option<Loss>,
}

impl Node {
    /// The same node after what was known of it: a loss that goes on began when it began, whatever else becomes of the node.
    #[must_use]
    pub fn after(mut self, before: Option<&Self>) -> Self {
        let before = before.and_then(|before| before.lost).filter(|loss| loss.may_return());
        if let (Some(now), Some(before)) = (&mut self.lost, before)
            && now.may_return()
        {
            now.since = before.since.into_iter().chain(now.since).min();
        }
        self
    }
}

/// The most bytes of the name of a component in the recorded attempts: those that the definition allows.
const RECORDED_NAME_BYTES_MAX: usize = 253;

impl Snapshot {
    /// How a component is named in the recorded attempts: by its name or, if another component has the same name, by
    /// `Kind/name`. One that is too long for the status is left at its name.
    #[must_use]
    pub fn recorded_name(&self, component: &Component) -> String {
        let of_this_name = self.components.iter().filter(|other| other.name == component.name);
        let title = component.title();
        let is_shared = of_this_name.count() > 1;
        if is_shared && title.len() <= RECORDED_NAME_BYTES_MAX {
            title
        } else {
            component.name.clone()
        }
    }

    /// Whether Kueue manages it in this cluster; a copy of MultiKueue is managed in the manager cluster.
    #[must_use]
    pub const fn is_queued(&self) -> bool {
        self.queue_managed && !self.has_manager
    }

    /// Index of the component that the recorded attempts name so; the first where several components have the name.
    #[must_use]
    pub fn component_named(&self, recorded: &str) -> Option<usize> {
        self.components.iter().position(|one| one.name == recorded || one.title() == recorded)
    }

    /// The state of the node of a pod, where nobody looks after it there.
    #[must_use]
    pub fn loss_of(&self, pod: &Pod) -> Option<Loss> {
        self.nodes.get(pod.node.as_ref()?)?.lost
    }

    /// Marks the pods that failed although their phase does not say so: those that had not ended when their nodes were lost,
    /// and those that their component counted as failed when they were evicted. A pod that came to a lost node is lost from
    /// the beginning.
    pub fn mark_failed_pods(&mut self) {
        for index in 0..self.pods.len() {
            let pod = &self.pods[index];
            let ended = matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
            let of_node = self.loss_of(pod).filter(|_| !ended);
            let lost = of_node.map(|Loss { state, since }| Loss {
                state,
                since: since.map(|since| pod.created.map_or(since, |at| at.max(since))),
            });
            self.pods[index].lost = lost;
            if self.has_failed_by_eviction(&self.pods[index]) {
                self.pods[index].phase = PodPhase::Failed;
            }
        }
    }

    /// Whether a pod ended with success once its eviction had failed its component: a Job counts a pod as failed when its
    /// deletion is requested, and a program that handles SIGTERM ends with 0.
    fn has_failed_by_eviction(&self, pod: &Pod) -> bool {
        let object = pod.component.and_then(|index| self.components.get(index)?.ours());
        let has_failed =
            object.is_some_and(|object| matches!(object.report.outcome, Outcome::Failed { .. }));
        let ended = pod.terminated().filter_map(|(_, end)| end.finished_at).max();
        has_failed
            && pod.phase == PodPhase::Succeeded
            && pod.true_condition("DisruptionTarget").is_some()
            && pod.deletion_requested.is_some_and(|at| ended.is_none_or(|ended| ended >= at))
    }
}

impl Undetermined {
    /// Adds others, of which no more are named than `named_max` in all.
    pub fn add(&mut self, others: Self, named_max: usize) {
        let Self { count, live, outlived, named, unsettled, incomplete } = others;
        self.count += count;
        self.live += live;
        self.outlived += outlived;
        self.unsettled |= unsettled;
        self.incomplete |= incomplete;
        self.named.extend(named);
        self.named.truncate(named_max);
    }
}

impl Component {
    /// Name for messages: `Kind/name`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// How policies name it.
    #[must_use]
    pub fn named(&self) -> Named<'_> {
        Named {
            kind: &self.kind,
            name: &self.name,
            has_pods: !self.pod_sets.is_empty(),
            parts: &self.parts,
        }
    }

    /// Whether Kueue chooses the node of each pod of a pod set (Topology-Aware Scheduling).
    #[must_use]
    pub fn is_assigned_by_kueue(&self) -> bool {
        self.templates.iter().any(|one| one.placement.assigned_by_kueue)
    }

    /// The object, where it exists and is ours.
    #[must_use]
    pub fn ours(&self) -> Option<&Object> {
        match &self.presence {
            Presence::Present(object) if object.owner == Owner::Us => Some(object),
            Presence::Present(_) | Presence::Unseen | Presence::Absent | Presence::NoKind => None,
        }
    }
}

impl Expected {
    /// `count` pods, each of which has to succeed once.
    #[must_use]
    pub const fn pods(count: i64) -> Self {
        Self { jobs: count, parallelism: 1, completions: Some(1), succeeded: 0 }
    }

    /// How many pods must be Pending or Running now, given how many Succeeded ones are seen.
    ///
    /// A pod may be seen to have succeeded before its object counts it, and may be gone after: the
    /// larger number holds. Of one Job this is exact: the smaller of `parallelism` and what is left
    /// of `completions`. Of several with more completions than parallelism it is the least that
    /// fits, since nothing says which of them the successes belong to; never too many, so that a
    /// healthy component is never found wanting.
    #[must_use]
    pub fn running(&self, seen_succeeded: i64) -> i64 {
        let succeeded = self.succeeded.max(seen_succeeded).max(0);
        let parallelism = self.parallelism.max(0);
        match self.completions {
            None => self.jobs.saturating_sub(succeeded).max(0).saturating_mul(parallelism),
            Some(completions) if completions <= 0 => 0,
            Some(completions) => {
                let all = self.jobs.saturating_mul(completions);
                let left = all.saturating_sub(succeeded).max(0);
                let untouched = left / completions;
                let most = parallelism.min(completions);
                untouched.saturating_mul(most).saturating_add(most.min(left % completions))
            }
        }
    }
}
