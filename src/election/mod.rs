//! Which of several replicas works: the one that holds the Lease.
//!
//! ```text
//! read Lease ─▶ lease::Record ─▶ Step ─┬─ Take, Renew: write, guarded by resourceVersion
//!                                      └─ Wait
//! Leadership ─▶ Fence: no write leaves a replica that has not renewed in time
//! ```
//!
//! As in client-go, a candidate tells by its own clock how long a Lease has stood still, so clocks
//! need not agree. A leader that could not renew for [`Times::renew_deadline`] ends its work; until
//! then nobody else can have taken the Lease.

mod fence;
mod lease;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;

pub use fence::{Fence, NotLeading};
pub use lease::Times;

use crate::clock::Clock;
use crate::telemetry;
use lease::{Record, Step};

/// Where the Lease is, and who wants it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who this is: unlike every other replica, also an earlier one of this pod.
    pub identity: String,
    /// How long things take.
    pub times: Times,
}

/// Whether this replica leads, for everybody who must know.
#[derive(Clone, Debug)]
pub struct Leadership {
    clock: Arc<dyn Clock>,
    deadline: Duration,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    leads: AtomicBool,
    /// When the last renewal was begun, in milliseconds of [`Clock::elapsed`].
    renewed: AtomicU64,
}

impl Leadership {
    /// Leadership that has not been won yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, times: &Times) -> Self {
        Self { clock, deadline: times.renew_deadline, shared: Arc::default() }
    }

    /// Whether this replica leads, and has said so recently enough that nobody else can.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.shared.leads.load(Ordering::Acquire) && self.age() < self.deadline
    }

    fn age(&self) -> Duration {
        let renewed = Duration::from_millis(self.shared.renewed.load(Ordering::Acquire));
        self.clock.elapsed().saturating_sub(renewed)
    }

    fn renewed(&self, at: Duration) {
        let millis = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        self.shared.renewed.store(millis, Ordering::Release);
        self.shared.leads.store(true, Ordering::Release);
    }

    fn ended(&self) {
        self.shared.leads.store(false, Ordering::Release);
    }
}

/// A candidate at work.
pub struct Election {
    candidate: Candidate,
    leases: Api<Lease>,
    clock: Arc<dyn Clock>,
    leadership: Leadership,
    record: Option<Record>,
}

impl Election {
    /// Puts an election together. The client must not be behind the [`Fence`], nor retry by itself.
    #[must_use]
    pub fn new(client: Client, clock: Arc<dyn Clock>, candidate: Candidate) -> Self {
        let leadership = Leadership::new(clock.clone(), &candidate.times);
        let leases = Api::namespaced(client, &candidate.namespace);
        Self { candidate, leases, clock, leadership, record: None }
    }

    /// Whether this replica leads, for a [`Fence`].
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Waits until this replica leads. Errors are logged, and it is tried again.
    pub async fn won(&mut self) {
        loop {
            let pause = match self.turn(self.candidate.times.renew_deadline).await {
                Some(Turn::Leads) => break,
                Some(Turn::Waits(pause)) => pause,
                Some(Turn::Again) => Duration::ZERO,
                None => self.candidate.times.look_every,
            };
            tokio::time::sleep(pause).await;
        }
        tracing::info!(identity = self.candidate.identity, "This replica leads.");
    }

    /// Renews until leadership is lost.
    pub async fn lost(&mut self) {
        let Times { renew_deadline, renew_every, .. } = self.candidate.times;
        let mut pause = renew_every;
        loop {
            tokio::time::sleep(pause).await;
            let left = renew_deadline.saturating_sub(self.leadership.age());
            if left.is_zero() {
                tracing::error!("The Lease could not be renewed in time.");
                break;
            }
            pause = match self.turn(left).await {
                Some(Turn::Again) => Duration::ZERO,
                Some(Turn::Leads) | None => renew_every.min(left),
                Some(Turn::Waits(_)) => {
                    let holder = self.record.as_ref().map(Record::holder);
                    tracing::error!(holder, "Another replica leads.");
                    break;
                }
            };
        }
        self.leadership.ended();
    }

    /// Gives the Lease back, so that another replica need not wait for its end.
    pub async fn give_back(&mut self) {
        let held = self.leadership.holds();
        self.leadership.ended();
        self.record = None;
        if !held {
            return;
        }
        let within = self.candidate.times.renew_deadline;
        match tokio::time::timeout(within, self.try_give_back()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let cause = telemetry::chain(&error);
                tracing::warn!(cause, "The Lease was not given back.");
            }
            Err(_) => tracing::warn!(?within, "The Lease was not given back in time."),
        }
    }

    /// A renewal may have been on its way when this replica was asked to end, so the version is read.
    async fn try_give_back(&self) -> Result<(), kube::Error> {
        while let Some(found) = self.leases.get_opt(&self.candidate.name).await? {
            let record = Record::seen(&found, None, self.clock.elapsed());
            if record.holder() != self.candidate.identity {
                break;
            }
            match self.write(&record, Step::Renew, "").await {
                // that renewal, after all
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                written => return written.map(drop),
            }
        }
        Ok(())
    }

    /// One look and what follows from it, within a time; none where it did not come to an end, and
    /// what was written is unknown.
    async fn turn(&mut self, within: Duration) -> Option<Turn> {
        // a call that hangs leaves time for another
        let within = within.min(self.candidate.times.renew_deadline / 2);
        match tokio::time::timeout(within, self.try_turn()).await {
            Ok(Ok(turn)) => Some(turn),
            Ok(Err(error)) => {
                let cause = telemetry::chain(&error);
                tracing::warn!(cause, "The Lease cannot be read or written.");
                self.doubt();
                None
            }
            Err(_) => {
                tracing::warn!(?within, "The API server does not answer about the Lease.");
                self.doubt();
                None
            }
        }
    }

    /// A write of ours may have been applied: what its version is must be read.
    fn doubt(&mut self) {
        if self.record.as_ref().is_some_and(|record| record.holder() == self.candidate.identity) {
            self.record = None;
        }
    }

    async fn try_turn(&mut self) -> Result<Turn, kube::Error> {
        let begun = self.clock.elapsed();
        let own = self.record.clone().filter(|it| it.holder() == self.candidate.identity);
        let record = if let Some(record) = own {
            record
        } else {
            let Some(found) = self.leases.get_opt(&self.candidate.name).await? else {
                let lease = self.lease(None, Step::Take, &self.candidate.identity);
                let made = self.leases.create(&PostParams::default(), &lease).await;
                return self.outcome(made, begun);
            };
            Record::seen(&found, self.record.as_ref(), begun)
        };
        self.record = Some(record.clone());
        let step =
            record.step(&self.candidate.identity, self.clock.elapsed(), &self.candidate.times);
        if let Step::Wait(pause) = step {
            return Ok(Turn::Waits(pause));
        }
        let written = self.write(&record, step, &self.candidate.identity).await;
        self.outcome(written, begun)
    }

    fn outcome(
        &mut self,
        written: Result<Lease, kube::Error>,
        begun: Duration,
    ) -> Result<Turn, kube::Error> {
        match written {
            Ok(lease) => {
                self.record = Some(Record::seen(&lease, None, begun));
                self.leadership.renewed(begun);
                Ok(Turn::Leads)
            }
            // somebody wrote in between: who, is read
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
                self.record = None;
                Ok(Turn::Again)
            }
            Err(error) => Err(error),
        }
    }

    async fn write(&self, record: &Record, step: Step, holder: &str) -> Result<Lease, kube::Error> {
        let lease = self.lease(Some(record), step, holder);
        self.leases.replace(&self.candidate.name, &PostParams::default(), &lease).await
    }

    fn lease(&self, record: Option<&Record>, step: Step, holder: &str) -> Lease {
        let now = MicroTime(self.clock.now());
        let seconds = i32::try_from(self.candidate.times.lease.as_secs()).unwrap_or(i32::MAX);
        let transitions = record.map_or(0, |record| record.transitions);
        let (acquired, transitions) = match step {
            Step::Take => (None, transitions.saturating_add(record.map_or(0, |_| 1))),
            Step::Renew | Step::Wait(_) => {
                (record.and_then(|record| record.acquired.clone()), transitions)
            }
        };
        Lease {
            metadata: ObjectMeta {
                name: Some(self.candidate.name.clone()),
                resource_version: record.map(|record| record.version().to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(seconds.max(1)),
                acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
                renew_time: Some(now),
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            }),
        }
    }
}

/// How a look at the Lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// This replica leads.
    Leads,
    /// Another does; it is looked again after a pause.
    Waits(Duration),
    /// Somebody wrote in between.
    Again,
}
