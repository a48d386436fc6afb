//! A fleet: weeks of a cluster of 256 nodes with jobs of all sizes, and what its time was used for, by retry policy.
//!
//! Jobs and incidents are drawn first, from the seed alone, so that every policy meets the same ones; then the
//! controller runs them in a world. What is not drawn is fixed and written in [`assumptions`]. The rates are those of
//! published fleets: a mean time to failure of 7.9 h for 1,024 GPUs (arXiv 2410.21680).

pub mod night;
mod plan;
mod policy;
mod run;
mod story;

use std::time::Duration;

pub use plan::{Plan, assumptions};
pub use policy::Policy;

/// GPUs of one node; each pod of a job takes a whole node.
pub const GPUS_PER_NODE: u64 = 8;
/// A job with at least so many GPUs is a large one.
pub const LARGE: u64 = 128;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct FleetOptions {
    /// Seed of the jobs, of the incidents, and of all other chance.
    pub seed: u64,
    /// How long.
    pub lasts: Duration,
    /// Nodes of the cluster.
    pub nodes: u64,
}

/// What came of one policy.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetReport {
    /// GPU-hours that the cluster has.
    pub capacity: f64,
    /// GPU-hours of work that was done, and kept: up to the last checkpoint of each attempt.
    pub useful: f64,
    /// GPU-hours for which quota was reserved, by the ledgers of the AppWrappers.
    pub reserved: f64,
    /// GPU-hours of work since the last checkpoint, lost with their attempt.
    pub lost: f64,
    /// GPU-hours in which a hanging job held its nodes.
    pub hung: f64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that were submitted.
    pub submitted: u64,
    /// Attempts that ended in a failure.
    pub failures: u64,
    /// Attempts of large jobs whose pods were ready.
    pub large_attempts: u64,
    /// Those of them that ended in a failure.
    pub large_failures: u64,
    /// How often a person had to act: to resubmit a failed job, or to end a hanging one.
    pub by_hand: u64,
    /// What happened to the job whose story is told, and when; empty where none is.
    #[serde(skip)]
    pub story: Vec<(Duration, String)>,
    /// Steps of the simulation.
    pub steps: u64,
    /// The invariant that did not hold, and at which step: the run ended there.
    pub violation: Option<String>,
}

impl FleetReport {
    /// Useful work per reserved GPU-hour, in percent.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        share(self.useful, self.reserved)
    }

    /// Useful work per GPU-hour of the cluster, in percent.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        share(self.useful, self.capacity)
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// A count as a number to compute with.
#[expect(
    clippy::cast_precision_loss,
    reason = "GPU-seconds of a year of a fleet are below 2 to the 52nd"
)]
const fn real(count: u64) -> f64 {
    count as f64
}

/// Runs the fleet of a seed with a policy.
///
/// # Panics
/// Where the machine has no room for a runtime.
#[must_use]
pub fn simulate(options: &FleetOptions, policy: Policy) -> FleetReport {
    run(options, Plan::new(options), policy)
}

/// Runs the night of a job with 512 GPUs with a policy, and tells its story.
///
/// # Panics
/// Where the machine has no room for a runtime.
#[must_use]
pub fn night(policy: Policy) -> FleetReport {
    run(&night::OPTIONS, night::plan(), policy)
}

fn run(options: &FleetOptions, plan: Plan, policy: Policy) -> FleetReport {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap_or_else(|error| unreachable!("a runtime without any driver: {error}"));
    runtime.block_on(async { Box::pin(run::Fleet::new(options, plan, policy).run()).await })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_fleet_and_no_invariant_is_violated() {
        let options = FleetOptions { seed: 3, lasts: Duration::from_hours(72), nodes: 24 };
        for policy in Policy::ALL {
            let report = simulate(&options, policy);
            assert_eq!(report, simulate(&options, policy), "{policy:?}");
            assert_eq!(report.violation, None, "{policy:?}");
            assert!(report.useful > 0.0 && report.useful <= report.reserved, "{report:?}");
            assert!(report.reserved <= report.capacity, "{report:?}");
        }
    }
}
