//! The configuration file: YAML in, checked settings out.
//!
//! Every key is optional. An unknown key is an error, and all errors are reported at once, so that a file
//! can be fixed in one go. `config/appwrapper.yaml` lists every key with its default.

mod backoff;
mod error;
mod failure_logs;
mod history;
mod read;
mod renamed;
mod section;
mod server_url;
mod suspicion;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use backoff::{Backoff, BackoffError};
pub use error::{Errors, LoadError, Problem};
pub use failure_logs::FailureLogs;
pub use history::History;
pub use server_url::{ServerUrl, ServerUrlError};
pub use suspicion::{NodeSuspicion, SuspicionEffect, THRESHOLD_MAX, THRESHOLD_MIN};

use crate::api::ExitCodeOperator;
use crate::pattern::Pattern;
pub use crate::tuning::FaultTolerance;
use crate::tuning::{Period, names};

/// All settings of the controller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Grace periods and limits of an AppWrapper without annotations.
    pub fault_tolerance: FaultTolerance,
    /// What holds for retries of every AppWrapper.
    pub retry_policy: RetryDefaults,
    /// The administrator's categories of failures, in order; the built-in ones come after.
    pub failure_categories: Vec<FailureCategory>,
    /// The logs that are kept of failures.
    pub failure_logs: FailureLogs,
    /// The records that are kept of AppWrappers that are deleted.
    pub history: History,
    /// Avoiding nodes that Autopilot marked.
    pub autopilot: Autopilot,
    /// Nodes that make AppWrappers fail.
    pub node_suspicion: NodeSuspicion,
    /// What may be wrapped, and by whom.
    pub admission: Admission,
    /// Scheduler that is set in pods that name none.
    pub scheduler_name: Option<String>,
    /// The admission webhook's server.
    pub webhook: Webhook,
    /// The server that takes the progress reports of pods.
    pub progress_server: ProgressServer,
    /// The server of `/metrics`.
    pub metrics: Metrics,
    /// The server of `/healthz` and `/readyz`.
    pub health: Health,
    /// Which of several replicas works.
    pub leader_election: LeaderElection,
}

/// The section `retryPolicy`.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryDefaults {
    /// The most counted restarts that any AppWrapper gets; 0 allows no restart of any kind.
    pub global_max_retries: i32,
    /// The most uncounted restarts that any AppWrapper gets; 0 means no limit.
    pub max_uncounted_restarts: i32,
    /// RetryPolicy in force where none is attached.
    pub default_policy_name: Option<String>,
    /// Backoff where neither the rule nor its policy has one.
    pub default_backoff: Option<Backoff>,
    /// How long all pods must run without interruption before restarts are given back to `globalMaxRetries`; none: never.
    pub refill_after: Option<Period>,
}

/// The shortest time for which pods must run before restarts are given back.
pub const REFILL_AFTER_MIN: Period = Period::from_secs(60);

/// One of the section `failureCategories`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureCategory {
    /// Its name, an RFC 1123 label or the like with `_`.
    pub name: String,
    /// What belongs to it.
    pub matcher: CategoryMatcher,
}

/// What belongs to a category of failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CategoryMatcher {
    /// An exit code.
    ExitCodes {
        /// Whether the code must be among the values or must not.
        operator: ExitCodeOperator,
        /// The codes.
        values: BTreeSet<i32>,
    },
    /// A text in the termination message.
    TerminationMessage(Pattern),
    /// What happened to the pod: any of [`CONDITIONS`].
    Conditions(Vec<String>),
}

/// The conditions that a rule of a RetryPolicy or a category can name.
pub const CONDITIONS: [&str; 8] = [
    "OOMKilled",
    "Evicted",
    "NodeLost",
    "Preempted",
    "StorageLimitExceeded",
    "DeadlineExceeded",
    "Unschedulable",
    "Stalled",
];

/// The section `autopilot`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autopilot {
    /// Pods avoid nodes that are marked for a resource that they use.
    pub inject_anti_affinities: bool,
    /// Pods are moved off nodes that are marked `NoExecute`.
    pub monitor_nodes: bool,
    /// For each resource the marks (node labels, in the manner of taints) that speak against a node.
    pub resource_taints: BTreeMap<String, Vec<Taint>>,
}

/// A mark of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Key of the node label.
    pub key: String,
    /// Value of the node label.
    pub value: String,
    /// What it means for pods.
    pub effect: Effect,
}

/// What a mark of a node means for pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Other nodes are preferred.
    PreferNoSchedule,
    /// No pod goes there.
    NoSchedule,
    /// No pod goes there, and those that are there leave.
    NoExecute,
}

/// The section `admission`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Queue of an AppWrapper that names none.
    pub default_queue_name: Option<String>,
    /// Whether users must be allowed to create what they wrap.
    pub user_rbac_admission_check: bool,
    /// The kinds that may be wrapped; empty: every namespaced kind that the controller may create.
    pub allowed_kinds: Vec<AllowedKind>,
    /// User name of Kueue: it alone admits and suspends an AppWrapper that has a queue.
    pub kueue_account: String,
    /// Whether a deletion that would release quota before the pods are gone is refused; a warning
    /// otherwise.
    pub refuse_foreground_deletion: bool,
    /// Whether an AppWrapper must say who created it before its components are created.
    pub require_requester: bool,
    /// What is done about more pods than were admitted.
    pub pods_over_quota: PodsOverQuota,
}

/// The section `admission.podsOverQuota`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodsOverQuota {
    /// What is done.
    pub action: OverQuotaAction,
    /// How long the excess must last: an update that replaces pods may have old and new pods for a moment.
    pub grace: Period,
}

/// What is done about more pods than were admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OverQuotaAction {
    /// A condition, an event and a metric say so.
    Report,
    /// The AppWrapper is suspended as well.
    Suspend,
}

/// A kind of any version, written `Kind.group`, or `Kind` alone for the core group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllowedKind {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
}

/// Why a text is no [`AllowedKind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be Kind.group, such as Job.batch, or Kind for the core group, such as Pod")]
pub struct AllowedKindError;

/// The section `webhook`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Whether it is served.
    pub enabled: bool,
    /// Where it listens.
    pub address: SocketAddr,
    /// Directory with `tls.crt` and `tls.key`; none: the certificate is self-managed and rotated.
    pub cert_dir: Option<PathBuf>,
    /// File with the CA certificates (PEM) that client certificates must be signed by; none: no client
    /// certificate is required.
    pub client_ca_file: Option<PathBuf>,
}

/// The section `progressServer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressServer {
    /// Whether it is served, and pods of AppWrappers with `spec.progress` are told where it is.
    pub enabled: bool,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where pods reach it; none: by its Service.
    pub url: Option<ServerUrl>,
}

/// The section `metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it speaks TLS and asks for authorization.
    pub secure: bool,
}

/// The section `health`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Where it listens.
    pub address: SocketAddr,
}

/// The section `leaderElection`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether there is an election.
    pub enabled: bool,
    /// Namespace of the Lease; none: the controller's own.
    pub namespace: Option<String>,
    /// Name of the Lease.
    pub name: String,
    /// Another replica takes over a Lease that has not been renewed for this long; whole seconds.
    pub lease_duration: Period,
    /// A leader that cannot renew the Lease for this long exits; shorter than the Lease's duration.
    pub renew_deadline: Period,
    /// How often a leader renews; shorter than the deadline.
    pub retry_period: Period,
}

impl Config {
    /// Checks a configuration, which may be empty.
    ///
    /// # Errors
    /// Everything that is wrong in it.
    pub fn parse(text: &str) -> Result<Self, Errors> {
        read::config(text)
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, or is invalid.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|source| LoadError::Invalid { path: path.to_owned(), source })
    }

    /// The sections that are read at startup only, and differ from those of another configuration; also a key that is read
    /// at startup only for a part of what it says.
    #[must_use]
    pub fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let sections = [
            ("webhook", self.webhook == other.webhook),
            ("progressServer", self.progress_server == other.progress_server),
            ("metrics", self.metrics == other.metrics),
            ("health", self.health == other.health),
            ("leaderElection", self.leader_election == other.leader_election),
            (
                "admission.kueueAccount",
                self.admission.kueue_account == other.admission.kueue_account,
            ),
        ];
        sections.into_iter().filter(|(_, is_same)| !is_same).map(|(name, _)| name).collect()
    }
}

impl Admission {
    /// Whether a kind may be wrapped, as far as the configuration says.
    #[must_use]
    pub fn allows(&self, group: &str, kind: &str) -> bool {
        self.allowed_kinds.is_empty()
            || self.allowed_kinds.iter().any(|each| each.group == group && each.kind == kind)
    }
}

impl Default for RetryDefaults {
    fn default() -> Self {
        Self {
            global_max_retries: 20,
            max_uncounted_restarts: 100,
            default_policy_name: None,
            default_backoff: None,
            refill_after: None,
        }
    }
}

impl Default for Autopilot {
    fn default() -> Self {
        let taint = |value: &str, effect| Taint {
            key: "autopilot.ibm.com/gpuhealth".to_owned(),
            value: value.to_owned(),
            effect,
        };
        let taints = vec![
            taint("WARN", Effect::PreferNoSchedule),
            taint("TESTING", Effect::NoSchedule),
            taint("EVICT", Effect::NoExecute),
        ];
        Self {
            inject_anti_affinities: true,
            monitor_nodes: true,
            resource_taints: BTreeMap::from([("nvidia.com/gpu".to_owned(), taints)]),
        }
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            default_queue_name: None,
            user_rbac_admission_check: true,
            allowed_kinds: vec![],
            kueue_account: "system:serviceaccount:kueue-system:kueue-controller-manager".to_owned(),
            refuse_foreground_deletion: true,
            require_requester: false,
            pods_over_quota: PodsOverQuota::default(),
        }
    }
}

impl Default for PodsOverQuota {
    fn default() -> Self {
        Self { action: OverQuotaAction::Report, grace: Period::from_secs(10) }
    }
}

impl Default for Webhook {
    fn default() -> Self {
        Self { enabled: true, address: everywhere(9443), cert_dir: None, client_ca_file: None }
    }
}

impl Default for ProgressServer {
    fn default() -> Self {
        Self { enabled: false, address: everywhere(8444), url: None }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { address: everywhere(8443), secure: true }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self { address: everywhere(8081) }
    }
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            enabled: true,
            namespace: None,
            name: "appwrapper-controller".to_owned(),
            lease_duration: Period::from_secs(15),
            renew_deadline: Period::from_secs(10),
            retry_period: Period::from_secs(2),
        }
    }
}

/// Every address, of IPv6 and of IPv4.
const fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

impl FromStr for AllowedKind {
    type Err = AllowedKindError;

    fn from_str(text: &str) -> Result<Self, AllowedKindError> {
        let (kind, group) = match text.split_once('.') {
            Some((kind, group)) if names::is_subdomain(group) => (kind, group),
            Some(_) => return Err(AllowedKindError),
            None => (text, ""),
        };
        let upper = kind.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase());
        if !upper
            || kind.len() > names::LABEL_MAX
            || !kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return Err(AllowedKindError);
        }
        Ok(Self { group: group.to_owned(), kind: kind.to_owned() })
    }
}

impl fmt::Display for AllowedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind } = self;
        if group.is_empty() { f.pad(kind) } else { f.pad(&format!("{kind}.{group}")) }
    }
}

impl Effect {
    /// Its name, as in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoSchedule => "NoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests;
