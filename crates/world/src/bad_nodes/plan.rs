//! What is wrong with which node and which job.

use std::collections::BTreeMap;

use super::{BIG, DAY, HOUR, LASTS, NODES};
use crate::world::rng::Rng;

/// Namespaces of ordinary jobs.
const NAMESPACES: usize = 8;
/// The namespace of the tenant that pins failing pods to nodes of others.
const HOSTILE: usize = NAMESPACES;
/// Jobs that begin in a day.
const JOBS_PER_DAY: usize = 60;

/// What is wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Its pods fail in a category of hardware.
    Hardware,
    /// Its pods fail with an exit code that says nothing.
    Exits,
    /// It is lost every few days.
    Flaps,
}

/// A job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub namespace: usize,
    pub pods: usize,
    /// When it begins.
    pub begins: i64,
    /// How long it takes.
    pub lasts: i64,
    /// It fails on any node; always by its first rank, or by any.
    pub poison: Option<bool>,
    /// The node that its only pod asks for.
    pub pinned: Option<usize>,
}

/// What is wrong with which node and which job.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub bad: BTreeMap<usize, Flaw>,
    /// When each node is lost.
    pub losses: Vec<Vec<i64>>,
    pub jobs: Vec<Job>,
}

impl Plan {
    /// Up to three bad nodes of a hundred nodes; one job of twenty is poison.
    pub(super) fn by_chance(rng: &mut Rng) -> Self {
        let mut bad = BTreeMap::new();
        for _ in 0..rng.below(4) {
            let kind = *rng.pick(&[Flaw::Hardware, Flaw::Exits, Flaw::Flaps]);
            bad.insert(rng.below(NODES), kind);
        }
        let losses = losses(rng, &bad);
        let days = usize::try_from(LASTS / DAY).unwrap_or_default();
        let mut jobs: Vec<Job> = (0..days * JOBS_PER_DAY).map(|_| job(rng)).collect();
        jobs.extend(hostile_jobs(rng));
        Self { bad, losses, jobs }
    }
}

/// Flapping nodes every one to three days; any node once in about two years; and in half of the seeds, a partition that
/// takes a fifth of the nodes at once.
fn losses(rng: &mut Rng, bad: &BTreeMap<usize, Flaw>) -> Vec<Vec<i64>> {
    let mut losses: Vec<Vec<i64>> = vec![vec![]; NODES];
    let partition = rng.one_in(2).then(|| time(rng, LASTS));
    for (node, lost) in losses.iter_mut().enumerate() {
        if rng.permille(38) {
            lost.push(time(rng, LASTS));
        }
        lost.extend(partition.filter(|_| rng.one_in(5)));
        if bad.get(&node) == Some(&Flaw::Flaps) {
            let mut at = 0;
            while at < LASTS {
                at += DAY + time(rng, 2 * DAY);
                lost.push(at);
            }
        }
        lost.sort_unstable();
    }
    losses
}

fn job(rng: &mut Rng) -> Job {
    let pods = match rng.below(10) {
        0..=4 => 1,
        5..=7 => 4,
        8 => BIG,
        _ => 2 * BIG,
    };
    Job {
        namespace: rng.below(NAMESPACES),
        pods,
        begins: time(rng, LASTS),
        lasts: HOUR + time(rng, 11 * HOUR),
        poison: rng.one_in(20).then(|| rng.permille(700)),
        pinned: None,
    }
}

/// A tenant whose pods fail on five nodes of others all the time, as if the hardware were bad.
fn hostile_jobs(rng: &mut Rng) -> Vec<Job> {
    let targets: Vec<usize> = (0..5).map(|_| rng.below(NODES)).collect();
    let job = |rng: &mut Rng| Job {
        namespace: HOSTILE,
        pods: 1,
        begins: time(rng, LASTS),
        lasts: HOUR,
        poison: Some(true),
        pinned: Some(*rng.pick(&targets)),
    };
    (0..200).map(|_| job(rng)).collect()
}

/// A time below a bound.
fn time(rng: &mut Rng, below: i64) -> i64 {
    i64::try_from(rng.below(usize::try_from(below).unwrap_or_default())).unwrap_or_default()
}
