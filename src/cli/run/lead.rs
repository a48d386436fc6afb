//! Which replica works.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::sync::{oneshot, watch};

use super::cluster;
use super::worker::{Stop, Worker};
use crate::cli::Error;
use crate::clock::Clock;
use crate::config::{Config, LeaderElection};
use crate::controller::Controller;
use crate::election::{Candidate, Election, Leadership, Times};
use crate::metrics::Metrics;
use crate::tuning::Period;

/// The election, on a thread of its own: the Lease is renewed however busy the others are.
pub(super) struct Lease {
    pub(super) worker: Worker,
    /// Whether this replica leads, for the fence.
    pub(super) leadership: Leadership,
    /// Becomes true once the caches are listed.
    ready: watch::Sender<bool>,
    /// Up to when nobody may have led before it was won.
    won: oneshot::Receiver<Option<Timestamp>>,
}

impl Lease {
    /// Begins to watch the Lease, over a connection of its own; it is taken once [`lead`] finds the controller ready.
    pub(super) fn start(
        connection: kube::Config,
        metrics: &Metrics,
        clock: Arc<dyn Clock>,
        config: &Config,
    ) -> Result<Self, Error> {
        let runtime = crate::cli::runtime()?;
        let client = {
            let _here = runtime.enter();
            cluster::counted(connection, metrics)?
        };
        let candidate = candidate(&client, config);
        let (ready, is_ready) = watch::channel(false);
        let election = Election::new(client, clock, candidate).once(is_ready);
        let leadership = election.leadership();
        let (won, leads) = oneshot::channel();
        let worker = Worker::start("lease", runtime, async |stop| {
            hold(election, won, stop).await;
            Ok(())
        })?;
        Ok(Self { worker, leadership, ready, won: leads })
    }
}

/// Holds the Lease once it is won, until it is lost or not needed any more.
async fn hold(mut election: Election, won: oneshot::Sender<Option<Timestamp>>, stop: Stop) {
    let lost = async {
        let gap_before = election.won().await;
        if won.send(gap_before).is_err() {
            return; // the controller has ended
        }
        election.lost().await;
    };
    tokio::select! {
        () = lost => {}
        () = stop => {}
    }
    election.release().await;
}

/// Works while this replica leads, until it is to stop; ends with an error when it loses leadership, so that it is restarted.
pub(super) async fn lead(
    controller: Controller,
    lease: Lease,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let Lease { worker, leadership: _, ready, won } = lease;
    let context = controller.context.clone();
    let mut listed = controller.ready();
    let leads = async {
        if listed.wait_for(|listed| *listed).await.is_ok() {
            ready.send_replace(true);
        }
        let Ok(gap_before) = won.await else {
            return std::future::pending().await; // it has ended, and so does the process
        };
        if let Some(gap_before) = gap_before {
            context.gap_before.get_or_init(|| gap_before);
        }
        context.metrics.set_leader(true);
    };
    let ended = tokio::select! {
        () = controller.run_when(leads, stop) => Ok(()),
        _ = worker.ended() => Err(Error::Cluster("this replica lost leadership".to_owned())),
    };
    worker.stop();
    ended
}

/// Who wants the Lease, as the configuration says.
pub(super) fn candidate(client: &Client, config: &Config) -> Candidate {
    let LeaderElection {
        enabled: _,
        namespace,
        name,
        lease_duration,
        renew_deadline,
        retry_period,
    } = config.leader_election.clone();
    let [lease, renew_deadline, renew_every] =
        [lease_duration, renew_deadline, retry_period].map(Period::as_duration);
    Candidate {
        namespace: namespace.unwrap_or_else(|| client.default_namespace().to_owned()),
        name,
        identity: identity(),
        times: Times { lease, renew_deadline, renew_every, look_every: renew_every / 2 },
    }
}

/// The host's name, which in a pod is the pod's, and something that no other process has.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "appwrapper",
        host => host,
    };
    format!("{host}_{:016x}", RandomState::new().hash_one(std::process::id()))
}
