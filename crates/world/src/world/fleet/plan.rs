//! What comes, whatever the policy: jobs, and incidents of nodes.

use std::time::Duration;

use super::{FleetOptions, GPUS_PER_NODE, real};
use crate::world::rng::Rng;

/// Sizes of jobs in nodes, and how many of 100 jobs have each: many small ones, and most of the time for large ones.
const SIZES: [(u64, usize); 7] = [(1, 40), (2, 15), (4, 15), (8, 12), (16, 8), (32, 6), (64, 4)];
/// Work of a job: each of these hours is as likely as another.
const WORK_HOURS: [u64; 7] = [4, 6, 10, 18, 32, 56, 96];
/// The jobs that arrive take this share of the cluster, in percent.
const DEMAND: u64 = 90;
/// Mean time to failure of 1,024 GPUs, in minutes: 7.9 h.
const MTTF_1024: u64 = 474;
/// One node of so many is a lemon.
const LEMON_IN: u64 = 50;
/// Share of all incidents that lemons cause, in percent: what detecting them saved the fleet of the paper.
const LEMON_SHARE: u64 = 70;
/// One job of so many fails in each attempt, minutes after its pods are ready.
const POISON_IN: usize = 33;
/// When it does.
pub(super) const POISONED_AFTER: Duration = Duration::from_mins(5);
/// How often a job writes a checkpoint.
pub(super) const CHECKPOINT: Duration = Duration::from_hours(1);
/// How long it takes until somebody notices that a job has failed for good, and submits it again.
pub(super) const RESUBMITTED_AFTER: Duration = Duration::from_hours(4);
/// How long it takes until somebody notices that a job hangs, and ends it.
pub(super) const NOTICED_AFTER: Duration = Duration::from_hours(8);

/// A job.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobPlan {
    pub at: Duration,
    /// Nodes, one pod each.
    pub nodes: u64,
    /// How long its pods have to run.
    pub work: Duration,
    /// It fails in each attempt.
    pub poison: bool,
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incident {
    /// It stops reporting, and is back after a while.
    Crash(Duration),
    /// A GPU fails: the container on the node exits, and the node goes on.
    Gpu,
    /// A collective operation never returns: the job on the node hangs.
    Hang,
}

/// All that comes, by the seed.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) jobs: Vec<JobPlan>,
    /// When, which node, what.
    pub(super) incidents: Vec<(Duration, u64, Incident)>,
    /// The job whose story is told.
    pub(super) told: Option<usize>,
}

/// What every row of the table assumes, a line each.
#[must_use]
pub fn assumptions() -> [String; 5] {
    let hours = |time: Duration| time.as_secs() / 3600;
    [
        format!(
            "One node has {GPUS_PER_NODE} GPUs; the mean time to failure of 1,024 GPUs is {}.{} h.",
            MTTF_1024 / 60,
            MTTF_1024 % 60 / 6
        ),
        format!("One node of {LEMON_IN} causes its share of {LEMON_SHARE} % of all incidents."),
        format!(
            "A job writes a checkpoint every {} h and restarts from the last one.",
            hours(CHECKPOINT)
        ),
        format!(
            "One job of {POISON_IN} has a bug and fails {} min after it starts.",
            POISONED_AFTER.as_secs() / 60
        ),
        format!(
            "A person resubmits a failed job after {} h, and ends a hanging one after {} h.",
            hours(RESUBMITTED_AFTER),
            hours(NOTICED_AFTER)
        ),
    ]
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn new(options: &FleetOptions) -> Self {
        let jobs = jobs(&mut Rng::new(options.seed, 20), options);
        let mut incidents = vec![];
        let mut rng = Rng::new(options.seed, 21);
        let lemons = lemons(&mut rng, options.nodes);
        for node in 0..options.nodes {
            let every = between_incidents(options.nodes, &lemons, node);
            let mut at = exponential(&mut rng, every);
            while at < options.lasts {
                incidents.push((at, node, incident(&mut rng, lemons.contains(&node))));
                at += exponential(&mut rng, every);
            }
        }
        incidents.sort_by_key(|(at, node, _)| (*at, *node));
        Self { jobs, incidents, told: None }
    }
}

fn lemons(rng: &mut Rng, nodes: u64) -> Vec<u64> {
    let count = (nodes / LEMON_IN).max(1);
    let mut all: Vec<u64> = (0..nodes).collect();
    (0..count.min(nodes)).map(|_| all.swap_remove(rng.below(all.len()))).collect()
}

/// Mean time between two incidents of a node: all nodes together have the published rate.
fn between_incidents(nodes: u64, lemons: &[u64], node: u64) -> Duration {
    let fleet = Duration::from_mins(MTTF_1024 * 1024 / GPUS_PER_NODE);
    let lemon_count = u64::try_from(lemons.len()).unwrap_or(1).max(1);
    // of `nodes` shares of the rate, so many belong to one node
    let (share, of) = if lemons.contains(&node) {
        (nodes * LEMON_SHARE, 100 * lemon_count)
    } else {
        (nodes * (100 - LEMON_SHARE), 100 * (nodes - lemon_count).max(1))
    };
    fleet.mul_f64(real(of) / real(share))
}

/// A time from an exponential distribution, in whole seconds: the last bit of a logarithm is not the same everywhere.
fn exponential(rng: &mut Rng, mean: Duration) -> Duration {
    let at = real(rng.between(1, 1 << 32)) / real(1 << 32);
    Duration::from_secs(mean.mul_f64(-at.ln()).as_secs())
}

/// A lemon fails on the GPU; another node crashes as often as that, and lets a job hang once in ten times.
fn incident(rng: &mut Rng, lemon: bool) -> Incident {
    let repair = Duration::from_mins(rng.between(30, 240));
    match rng.below(10) {
        _ if lemon => Incident::Gpu,
        0 => Incident::Hang,
        1..=5 => Incident::Gpu,
        _ => Incident::Crash(repair),
    }
}

fn jobs(rng: &mut Rng, options: &FleetOptions) -> Vec<JobPlan> {
    let node_hours = options.nodes * (options.lasts.as_secs() / 3600) * DEMAND / 100;
    let mut jobs: Vec<JobPlan> = vec![];
    let mut planned = 0;
    while planned < node_hours {
        let nodes = size(rng).min(options.nodes);
        let hours = *rng.pick(&WORK_HOURS);
        planned += nodes * hours;
        let at = Duration::from_secs(rng.between(0, options.lasts.as_secs()));
        let (work, poison) = (Duration::from_hours(hours), rng.one_in(POISON_IN));
        jobs.push(JobPlan { at, nodes, work, poison });
    }
    jobs.sort_by_key(|job| (job.at, job.nodes, job.work));
    jobs
}

fn size(rng: &mut Rng) -> u64 {
    let mut at = rng.below(100);
    for (nodes, share) in SIZES {
        if at < share {
            return nodes;
        }
        at -= share;
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month() -> FleetOptions {
        FleetOptions { seed: 1, lasts: Duration::from_hours(30 * 24), nodes: 256 }
    }

    #[test]
    fn a_thousand_gpus_fail_as_often_as_published() {
        let mut found = 0;
        for seed in 0..20 {
            found += Plan::new(&FleetOptions { seed, ..month() }).incidents.len() as u64;
        }
        // 2,048 GPUs for 20 months of 720 h: one incident every 3.95 h
        let expected = 20.0 * 720.0 / 3.95;
        assert!((real(found) / expected - 1.0).abs() < 0.05, "{found} instead of {expected}");
    }

    #[test]
    fn the_same_seed_plans_the_same() {
        let (one, other) = (Plan::new(&month()), Plan::new(&month()));
        assert_eq!(one.incidents, other.incidents);
        assert_eq!(format!("{:?}", one.jobs), format!("{:?}", other.jobs));
    }

    #[test]
    fn jobs_take_what_is_asked_for_of_the_cluster() {
        let plan = Plan::new(&month());
        let hours: u64 = plan.jobs.iter().map(|job| job.nodes * job.work.as_secs() / 3600).sum();
        let share = 100 * hours / (256 * 720);
        assert!((88..=94).contains(&share), "{share} %");
        assert!(plan.jobs.iter().any(|job| job.nodes == 64));
    }
}
