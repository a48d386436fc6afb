//! What is counted and measured. Labels come from closed sets, and from queues that exist or admitted work, up to a limit;
//! no name of an object or a namespace ever becomes a label.
//!
//! ```text
//! a status write ─▶ Change (pure) ─┐
//! a reconcile, an API call ────────┼─▶ Metrics ─▶ page
//! a scrape ─▶ Census of the caches ┘
//! a status write ─▶ Spent (pure) ─▶ kept until a scrape, which chooses the queues that have a label
//! failures, warnings, Spent: a new series is 0 at first, and its amount follows
//! ```
//!
//! Counting is an addition in memory: it makes no call, and cannot fail.

mod admission;
mod calls;
mod census;
mod change;
mod from_zero;
mod internal_errors;
mod make;
mod names;
mod queues;
mod reports;
mod resources;
mod restarts;
#[cfg(test)]
mod tests;
mod usage;
mod work_queue;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use prometheus::{
    Encoder, Histogram, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};

use crate::api::{AppWrapperStatus, AttemptOutcome, Phase};
use crate::decide::edges::EDGES;
use crate::locked::Locked;
use internal_errors::InternalErrors;
use make::{counter, gauge, histogram, plain_gauge, plain_histogram, register};
use names::Names;
use reports::Reports;
use restarts::Restarts;
use work_queue::WorkQueue;

pub use admission::ReviewResult;
pub use calls::{CountCalls, Counted};
pub use census::{Census, Present, QueueKnown};
pub use change::{Change, Failure};
pub use internal_errors::PanicSite;
pub use names::OTHER;
pub use reports::{ReportWritten, Reported};
pub use usage::{Spent, UsageChange};

/// How many queues have a label of their own; the rest is `other`.
pub const QUEUES_MAX: usize = 1000;
/// How many distinct failure categories become labels: those built in, and an administrator's.
pub const CATEGORIES_MAX: usize = 100;

/// Of steps in the life of an AppWrapper: whole seconds, up to a day.
const LIFE_SECONDS: [f64; 14] =
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 86400.0];
/// Of a reconcile.
const RECONCILE_SECONDS: [f64; 11] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0];

/// What is counted, and where it is registered. Clones share everything.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    phase_changes: IntCounterVec,
    attempts: IntCounterVec,
    restarts: Restarts,
    lives: Lives,
    reconciles: HistogramVec,
    calls: IntCounterVec,
    work_queue: WorkQueue,
    leader: IntGauge,
    internal_errors: InternalErrors,
    certificate: IntGaugeVec,
    admission: admission::Answers,
    reports: Reports,
    shadow: IntCounterVec,
    categories: Arc<Mutex<Names>>,
    world: census::World,
}

/// How long the steps in the lives of AppWrappers take.
#[derive(Clone, Debug)]
struct Lives {
    detection: Histogram,
    teardown: Histogram,
    pause: Histogram,
    start: Histogram,
}

impl Lives {
    fn register(registry: &Registry) -> Self {
        let lived = |name, help| register(registry, plain_histogram(name, help, &LIFE_SECONDS));
        Self {
            detection: lived(
                "appwrapper_detection_seconds",
                "Seconds from the end of a failed container or the failure of a component to Unhealthy.",
            ),
            teardown: lived(
                "appwrapper_teardown_seconds",
                "Seconds from DeletingResources until all resources were gone.",
            ),
            pause: lived(
                "appwrapper_pause_seconds",
                "Seconds from the moment all resources were gone to the next attempt.",
            ),
            start: lived(
                "appwrapper_start_seconds",
                "Seconds from Resuming until every expected pod was Running or Succeeded.",
            ),
        }
    }
}

impl Metrics {
    /// New metrics in a registry of their own.
    #[must_use]
    pub fn new() -> Self {
        Self::register(&Registry::new())
    }

    /// New metrics in a registry, which must not have them already.
    #[must_use]
    pub fn register(registry: &Registry) -> Self {
        let counted = |name, help, labels| register(registry, counter(name, help, labels));
        let leader = register(registry, plain_gauge(LEADER.0, LEADER.1));
        leader.set(1); // until an election says otherwise
        let build = register(registry, gauge(BUILD.0, BUILD.1, &["version"]));
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Self {
            phase_changes: register(registry, phase_changes()),
            attempts: register(registry, attempts()),
            restarts: Restarts::register(registry),
            lives: Lives::register(registry),
            reconciles: register(
                registry,
                histogram(
                    "appwrapper_reconcile_seconds",
                    "Duration of one reconcile of an AppWrapper, including its API calls.",
                    &["result"],
                    &RECONCILE_SECONDS,
                ),
            ),
            calls: counted(
                "appwrapper_api_requests_total",
                "Requests to the API server; code is error if there was no response.",
                &["verb", "code"],
            ),
            work_queue: WorkQueue::register(registry),
            internal_errors: InternalErrors::register(registry),
            certificate: register(
                registry,
                gauge(
                    "appwrapper_certificate_expiry_timestamp_seconds",
                    "Expiry time of the certificate of the webhook and metrics servers.",
                    &[],
                ),
            ),
            admission: admission::Answers::register(registry),
            reports: Reports::register(registry),
            shadow: register(registry, shadow_decisions()),
            categories: Arc::new(Mutex::new(Names::up_to(CATEGORIES_MAX))),
            world: register(registry, census::World::new(leader.clone())),
            leader,
            registry: registry.clone(),
        }
    }

    /// Sets the source of the state at the moment of a scrape.
    pub fn count_with(&self, source: impl Fn() -> Option<Census> + Send + Sync + 'static) {
        self.world.count_with(source);
    }

    /// Counts a status update.
    pub fn changed(&self, old: &AppWrapperStatus, new: &AppWrapperStatus, now: Timestamp) {
        self.count(&Change::of(old, new, now));
    }

    /// Counts the removal of the finalizer.
    pub fn removed(&self, last: &AppWrapperStatus, now: Timestamp) {
        self.count(&Change::removal(last, now));
    }

    /// Counts what a write settled of a ledger, at the next scrape.
    pub fn spent(&self, spent: &Spent) {
        self.world.spent(spent);
    }

    fn count(&self, change: &Change) {
        self.restarts.count(change);
        let Change { phase, failures, outcomes, detection, teardown, pause, start, .. } = change;
        if let Some((from, to)) = phase {
            let labels = [phase_label(*from), phase_label(*to)];
            self.phase_changes.with_label_values(&labels).inc();
        }
        for Failure { action, source, category } in failures {
            let source = source.map_or_else(|| NONE.to_owned(), |source| source.to_string());
            let mut names = self.categories.locked();
            let category = names.label(category.as_deref().unwrap_or(NONE));
            self.world.failed([action.as_str(), source.as_str(), category]);
        }
        for outcome in outcomes {
            self.attempts.with_label_values(&[outcome.as_str()]).inc();
        }
        for (seconds, into) in [
            (detection, &self.lives.detection),
            (teardown, &self.lives.teardown),
            (pause, &self.lives.pause),
            (start, &self.lives.start),
        ] {
            if let Some(seconds) = seconds {
                let whole = u32::try_from(*seconds).unwrap_or(u32::MAX);
                into.observe(f64::from(whole));
            }
        }
    }

    /// Counts a Warning event.
    pub fn warning(&self, reason: &'static str) {
        self.world.warned(reason);
    }

    /// Counts a panic.
    pub fn panicked(&self, place: PanicSite) {
        self.internal_errors.panicked(place);
    }

    /// Counts a Kubernetes event that was dropped.
    pub fn event_dropped(&self) {
        self.internal_errors.event_dropped();
    }

    /// Sets whether the configuration file is valid, which is the default; else the previous configuration is in force.
    pub fn set_configuration_valid(&self, is_valid: bool) {
        self.internal_errors.set_configuration_valid(is_valid);
    }

    /// Counts a reconcile and its duration.
    pub fn reconciled(&self, took: Duration, succeeded: bool) {
        let result = if succeeded { "ok" } else { "error" };
        self.reconciles.with_label_values(&[result]).observe(took.as_secs_f64());
    }

    /// Counts an answer to an API server; no operation where there is only a refusal.
    pub fn admission(
        &self,
        webhook: &'static str,
        operation: Option<&'static str>,
        answer: ReviewResult,
        took: Duration,
    ) {
        self.admission.count(webhook, operation, answer, took);
    }

    /// Counts an answer to a progress report.
    pub fn reported(&self, answer: Reported) {
        self.reports.answered(answer);
    }

    /// Counts how the write of a progress report ended.
    pub fn report_written(&self, result: ReportWritten) {
        self.reports.written(result);
    }

    /// Counts a step of the active controller that a shadow compared.
    pub fn compared(&self, result: &'static str, difference: &'static str) {
        self.shadow.with_label_values(&[result, difference]).inc();
    }

    /// How many AppWrappers are waiting in the work queue.
    pub fn queued(&self, waiting: usize) {
        self.work_queue.queued(waiting);
    }

    /// Counts a reconcile that begins, and how long its AppWrapper has waited in the work queue.
    pub fn waited(&self, waited: Duration) {
        self.work_queue.waited(waited);
    }

    /// What counts the calls of a client.
    #[must_use]
    pub fn calls(&self) -> CountCalls {
        CountCalls::new(self.calls.clone())
    }

    /// Sets whether this process is the leader, which is the default. Other replicas do not report
    /// AppWrappers, so that sums over replicas are right.
    pub fn set_leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// When the certificate that is served expires; not on the page before this is called.
    pub fn set_certificate_expiry(&self, expires: Timestamp) {
        self.certificate.with_label_values::<&str>(&[]).set(expires.as_second());
    }

    /// The page that Prometheus scrapes.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = vec![];
        // Writing to memory fails only for a metric without a name or help, and ours have both.
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut page) {
            tracing::error!(%error, "The metrics cannot be encoded.");
        }
        String::from_utf8_lossy(&page).into_owned()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Phase changes: every one that can occur is 0 before the first, so that its increase can be told.
fn phase_changes() -> IntCounterVec {
    let name = "appwrapper_phase_changes_total";
    let made = counter(name, "Phase changes of AppWrappers.", &["from", "to"]);
    for (from, to) in EDGES {
        made.with_label_values(&[phase_label(*from), phase_label(*to)]).inc_by(0);
    }
    made
}

/// Attempts that ended, in the same way.
fn attempts() -> IntCounterVec {
    let name = "appwrapper_attempts_total";
    let made = counter(name, "Attempts that ended, by outcome.", &["outcome"]);
    for outcome in AttemptOutcome::ALL {
        made.with_label_values(&[outcome.as_str()]).inc_by(0);
    }
    made
}

/// What a shadow counts.
fn shadow_decisions() -> IntCounterVec {
    let help = "Steps of the active controller, compared with what this one would have done.";
    counter("appwrapper_shadow_decisions_total", help, &["result", "difference"])
}

const BUILD: (&str, &str) = ("appwrapper_build_info", "1, with the version of this process.");
const LEADER: (&str, &str) =
    ("appwrapper_leader", "1 if this process is the leader, 0 if it is on standby.");

/// The label where there is nothing to name: Prometheus takes an empty label for none at all.
const NONE: &str = "none";

/// A phase as a label.
const fn phase_label(phase: Phase) -> &'static str {
    phase.name_or("Empty")
}
