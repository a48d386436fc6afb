//! The state at the moment of a scrape: AppWrappers by phase, idle quota, stuck pods and deletions.
//!
//! Idle quota is sampled: an AppWrapper that is idle at a scrape counts as idle since the previous scrape.
//! That is right on average, also for short times, since scrapes are independent of them; and only the start
//! of the idle time of an AppWrapper is kept between scrapes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, IntGauge, IntGaugeVec};

use super::from_zero::FromZero;
use super::make::{amount, gauge, level, plain_gauge};
use super::queues::Queues;
use super::resources::ResourceSeconds;
use super::{QUEUES_MAX, Spent, phase_label};
use crate::api::Phase;
use crate::locked::Locked;

/// A pause between scrapes counts for no more than this: what was in between is not known.
const GAP_MAX: Duration = Duration::from_mins(2);

/// All AppWrappers at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Time since some moment that stays the same.
    pub at: Duration,
    /// The AppWrappers.
    pub present: Vec<Present>,
    /// Suspect nodes.
    pub suspect_nodes: usize,
}

/// One AppWrapper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Its UID; never a label.
    pub uid: String,
    /// Its phase.
    pub phase: Phase,
    /// Its namespace; never a label.
    pub namespace: String,
    /// The queue that it names; empty where it names none.
    pub queue: String,
    /// What is known of that queue.
    pub queue_known: QueueKnown,
    /// `QuotaReserved` is True, it has pod sets, and no pod of it is Running.
    pub idle: bool,
    /// How long it has been so, as its status says; for the first look of a process.
    pub idle_for: Duration,
    /// Its pods that still exist longer than its forceful deletion grace period after their `deletionTimestamp`.
    pub stuck_pods: usize,
    /// It, or a component of it, is in forceful deletion or waits for pods whose owner cannot be determined.
    pub stuck: bool,
    /// `PodsOverQuota` is True.
    pub over_quota: bool,
}

/// What is known of a queue that an AppWrapper names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKnown {
    /// Nothing but that it is named.
    #[default]
    Named,
    /// The AppWrapper holds quota, or has held some.
    Admitted,
    /// The queue exists.
    Exists,
}

type Source = Arc<dyn Fn() -> Option<Census> + Send + Sync>;

/// The collector: asks its source at each scrape.
#[derive(Clone)]
pub(super) struct World(Arc<Mutex<Inner>>, Arc<Gauges>);

struct Inner {
    source: Option<Source>,
    leader: IntGauge,
    queues: Queues,
    resources: ResourceSeconds,
    /// By action, source and category.
    failures: FromZero<3>,
    /// By reason.
    warnings: FromZero<1>,
    last: Option<Duration>,
    idle: BTreeMap<String, Idle>,
}

/// An AppWrapper that was idle at the last look.
#[derive(Clone, Copy)]
struct Idle {
    /// When it was first seen so.
    seen: Duration,
    /// How long it had been so by then.
    before: Duration,
}

struct Gauges {
    present: IntGaugeVec,
    idle: IntGaugeVec,
    longest: GaugeVec,
    seconds: CounterVec,
    stuck_pods: IntGauge,
    stuck: IntGauge,
    over_quota: IntGauge,
    suspect_nodes: IntGauge,
    /// Those of which new series are 0 at first.
    from_zero: [CounterVec; 3],
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    pub(super) fn new(leader: IntGauge) -> Self {
        let resources = ResourceSeconds::new();
        let failures = FromZero::new(amount(
            "appwrapper_failures_total",
            "Failures handled, by action, source of the decision, and failure category.",
            &["action", "source", "category"],
        ));
        let warnings = FromZero::new(amount(
            "appwrapper_warnings_total",
            "Kubernetes events of type Warning.",
            &["reason"],
        ));
        let gauges = Gauges::new([resources.counter(), failures.counter(), warnings.counter()]);
        let inner = Inner {
            source: None,
            leader,
            queues: Queues::up_to(QUEUES_MAX),
            resources,
            failures,
            warnings,
            last: None,
            idle: BTreeMap::new(),
        };
        Self(Arc::new(Mutex::new(inner)), Arc::new(gauges))
    }

    pub(super) fn count_with(&self, source: impl Fn() -> Option<Census> + Send + Sync + 'static) {
        self.0.locked().source = Some(Arc::new(source));
    }

    pub(super) fn spent(&self, spent: &Spent) {
        self.0.locked().resources.note(spent);
    }

    pub(super) fn failed(&self, labels: [&str; 3]) {
        self.0.locked().failures.note(labels.map(str::to_owned), 1.0);
    }

    pub(super) fn warned(&self, reason: &str) {
        self.0.locked().warnings.note([reason.to_owned()], 1.0);
    }
}

impl Gauges {
    fn new(from_zero: [CounterVec; 3]) -> Self {
        Self {
            present: gauge(
                "appwrapper_appwrappers",
                "AppWrappers by phase and queue.",
                &["phase", "queue"],
            ),
            idle: gauge(
                "appwrapper_quota_idle",
                "AppWrappers that hold quota while none of their pods is Running.",
                &["queue"],
            ),
            longest: level(
                "appwrapper_quota_idle_longest_seconds",
                "Longest time that an AppWrapper has held quota while none of its pods is Running.",
                &["queue"],
            ),
            seconds: amount(
                "appwrapper_quota_idle_seconds_total",
                "Seconds that AppWrappers held quota while none of their pods was Running.",
                &["queue"],
            ),
            stuck_pods: plain_gauge(
                "appwrapper_stuck_pods",
                "Pods that still exist longer than the forceful deletion grace period after their deletionTimestamp.",
            ),
            stuck: plain_gauge(
                "appwrapper_stuck_deletions",
                "AppWrappers in forceful deletion, or with a component in it, or whose deletion or success waits for pods whose owner cannot be determined.",
            ),
            over_quota: plain_gauge(
                "appwrapper_pods_over_quota",
                "AppWrappers with more live pods than they declare.",
            ),
            suspect_nodes: plain_gauge(
                "appwrapper_suspect_nodes",
                "Nodes that pods of new attempts avoid because failures of AppWrappers began on them.",
            ),
            from_zero,
        }
    }

    fn all(&self) -> [&dyn Collector; 11] {
        let Self {
            present,
            idle,
            longest,
            seconds,
            stuck_pods,
            stuck,
            over_quota,
            suspect_nodes,
            from_zero: [a, b, c],
        } = self;
        [present, idle, longest, seconds, stuck_pods, stuck, over_quota, suspect_nodes, a, b, c]
    }

    fn show(&self, census: &Census, inner: &mut Inner) {
        self.present.reset();
        self.idle.reset();
        self.longest.reset();
        let gap = inner.last.map_or(Duration::ZERO, |last| census.at.saturating_sub(last));
        let gap = gap.min(GAP_MAX).as_secs_f64();
        let is_first = inner.last.replace(census.at).is_none();
        let before = std::mem::take(&mut inner.idle);
        for lost in inner.queues.choose(&census.present) {
            // it is not there where nobody was idle
            drop(self.seconds.remove_label_values(&[&lost]));
            inner.resources.forget(&lost);
        }
        inner.resources.flush(&inner.queues, census.at);
        inner.failures.flush(census.at, |labels, _| labels.clone());
        inner.warnings.flush(census.at, |labels, _| labels.clone());
        for each in &census.present {
            let queue = inner.queues.label(&each.queue);
            self.present.with_label_values(&[phase_label(each.phase), queue]).inc();
            self.idle.with_label_values(&[queue]).add(i64::from(each.idle));
            let longest = self.longest.with_label_values(&[queue]);
            let seconds = self.seconds.with_label_values(&[queue]);
            if each.idle {
                let new = Idle {
                    seen: census.at,
                    before: if is_first { each.idle_for } else { Duration::ZERO },
                };
                let idle = before.get(&each.uid).copied().unwrap_or(new);
                let lasts = census.at.saturating_sub(idle.seen).saturating_add(idle.before);
                longest.set(longest.get().max(lasts.as_secs_f64()));
                seconds.inc_by(gap);
                inner.idle.insert(each.uid.clone(), idle);
            }
        }
        let stuck_pods: usize = census.present.iter().map(|each| each.stuck_pods).sum();
        let count = |is: fn(&&Present) -> bool| {
            i64::try_from(census.present.iter().filter(is).count()).unwrap_or(i64::MAX)
        };
        self.stuck_pods.set(i64::try_from(stuck_pods).unwrap_or(i64::MAX));
        self.stuck.set(count(|each| each.stuck));
        self.over_quota.set(count(|each| each.over_quota));
        self.suspect_nodes.set(i64::try_from(census.suspect_nodes).unwrap_or(i64::MAX));
    }
}

impl Collector for World {
    fn desc(&self) -> Vec<&Desc> {
        self.1.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let source = {
            let inner = self.0.locked();
            inner.source.clone().filter(|_| inner.leader.get() == 1)
        };
        // it reads the caches, and what counts must not wait for them
        let census = source.and_then(|source| source());
        let mut inner = self.0.locked();
        let Some(census) = census else {
            inner.last = None;
            inner.idle.clear();
            return vec![];
        };
        self.1.show(&census, &mut inner);
        self.1.all().into_iter().flat_map(Collector::collect).collect()
    }
}
