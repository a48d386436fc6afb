//! The state at the moment of a scrape: AppWrappers by phase, idle quota, stuck pods and deletions.
//!
//! Idle quota is sampled: an AppWrapper that is idle at a scrape counts as idle since the previous scrape.
//! That is right on average, also for short times, since scrapes are independent of them; and only the start
//! of the idle time of an AppWrapper is kept between scrapes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, IntGauge, IntGaugeVec};

use super::make::{amount, gauge, level, plain_gauge};
use super::queues::Queues;
use super::resources::ResourceSeconds;
use super::{QUEUES_MAX, Spent, phase_label};
use crate::api::Phase;

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
    /// Its pods that still exist longer than its forceful deletion grace period after their `deletionTimestamp`.
    pub stuck_pods: usize,
    /// It is in forceful deletion, and some of its resources still exist.
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

type Source = Box<dyn Fn() -> Option<Census> + Send + Sync>;

/// The collector: asks its source at each scrape.
#[derive(Clone)]
pub(super) struct World(Arc<Mutex<Inner>>, Arc<Gauges>);

struct Inner {
    source: Option<Source>,
    leader: IntGauge,
    queues: Queues,
    resources: ResourceSeconds,
    last: Option<Duration>,
    idle_since: BTreeMap<String, Duration>,
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
    resources: CounterVec,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    pub(super) fn new(leader: IntGauge) -> Self {
        let resources = ResourceSeconds::new();
        let gauges = Gauges::new(resources.counter());
        let inner = Inner {
            source: None,
            leader,
            queues: Queues::up_to(QUEUES_MAX),
            resources,
            last: None,
            idle_since: BTreeMap::new(),
        };
        Self(Arc::new(Mutex::new(inner)), Arc::new(gauges))
    }

    pub(super) fn count_with(&self, source: impl Fn() -> Option<Census> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).source = Some(Box::new(source));
    }

    pub(super) fn spent(&self, spent: &Spent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).resources.note(spent);
    }
}

impl Gauges {
    fn new(resources: CounterVec) -> Self {
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
                "AppWrappers in forceful deletion whose resources still exist.",
            ),
            over_quota: plain_gauge(
                "appwrapper_pods_over_quota",
                "AppWrappers with more live pods than they declare.",
            ),
            suspect_nodes: plain_gauge(
                "appwrapper_suspect_nodes",
                "Nodes that pods of new attempts avoid because failures of AppWrappers began on them.",
            ),
            resources,
        }
    }

    fn all(&self) -> [&dyn Collector; 9] {
        let Self {
            present,
            idle,
            longest,
            seconds,
            stuck_pods,
            stuck,
            over_quota,
            suspect_nodes,
            resources,
        } = self;
        [present, idle, longest, seconds, stuck_pods, stuck, over_quota, suspect_nodes, resources]
    }

    fn show(&self, census: &Census, inner: &mut Inner) {
        self.present.reset();
        self.idle.reset();
        self.longest.reset();
        let gap = inner.last.map_or(Duration::ZERO, |last| census.at.saturating_sub(last));
        let gap = gap.min(GAP_MAX).as_secs_f64();
        inner.last = Some(census.at);
        let before = std::mem::take(&mut inner.idle_since);
        for lost in inner.queues.choose(&census.present) {
            // it is not there where nobody was idle
            drop(self.seconds.remove_label_values(&[&lost]));
            inner.resources.forget(&lost);
        }
        inner.resources.flush(&inner.queues);
        for each in &census.present {
            let queue = inner.queues.label(&each.queue);
            self.present.with_label_values(&[phase_label(each.phase), queue]).inc();
            self.idle.with_label_values(&[queue]).add(i64::from(each.idle));
            let longest = self.longest.with_label_values(&[queue]);
            let seconds = self.seconds.with_label_values(&[queue]);
            if each.idle {
                let since = before.get(&each.uid).copied().unwrap_or(census.at);
                let lasts = census.at.saturating_sub(since).as_secs_f64();
                longest.set(longest.get().max(lasts));
                seconds.inc_by(gap);
                inner.idle_since.insert(each.uid.clone(), since);
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
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leads = inner.leader.get() == 1;
        let census = inner.source.as_ref().filter(|_| leads).and_then(|source| source());
        let Some(census) = census else {
            inner.last = None;
            inner.idle_since.clear();
            return vec![];
        };
        self.1.show(&census, &mut inner);
        self.1.all().into_iter().flat_map(Collector::collect).collect()
    }
}
