//! Which replica works.

use std::hash::{BuildHasher, RandomState};

use futures::FutureExt;
use kube::Client;
use tokio::sync::oneshot;

use super::stop_signal;
use crate::cli::Error;
use crate::config::{Config, LeaderElection};
use crate::controller::Controller;
use crate::election::{Candidate, Election, Times};
use crate::limits::Period;

/// Works while this replica leads; ends with an error when it leads no more, so that it begins anew.
pub(super) async fn lead(controller: Controller, mut election: Election) -> Result<(), Error> {
    let (won, leads) = oneshot::channel();
    let metrics = controller.context.metrics.clone();
    let lost = async {
        election.won().await;
        metrics.set_leader(true);
        if won.send(()).is_err() {
            return; // the controller has ended
        }
        election.lost().await;
    };
    let ended = tokio::select! {
        () = controller.run_when(leads.map(drop), stop_signal()) => Ok(()),
        () = lost => Err(Error::Cluster("this replica leads no more".to_owned())),
    };
    election.give_back().await;
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
