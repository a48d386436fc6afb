//! A cluster over weeks, for suspect nodes: bad nodes, poison jobs, partitions, a tenant that wants other nodes to be
//! suspect. Attempts are placed by chance, fail by chance, and testify as those of the controller do.
//!
//! ```text
//! seed ─▶ Plan: what is wrong with which node and which job
//!      └▶ run: jobs begin ─▶ placed, not on suspects ─▶ succeed, or the first cause testifies ─▶ retried
//! ```
//!
//! The simulated cluster of [`world`](crate::world) shows what the controller does at each step; here it is only the
//! evidence that matters, for thousands of attempts.

mod measure;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use crate::api::{EvidenceKind, SuspicionEvidence};
use crate::config::{NodeSuspicion, SuspicionEffect};
use crate::suspicion::{Known, Suspicions, Testimony, suspects};
use crate::world::rng::Rng;
use plan::{Flaw, Job, Plan};

pub use measure::{Measured, measure};

/// Stream of all random choices here.
const PURPOSE: u64 = 9;
/// When everything begins.
const BEGIN: i64 = 1_800_000_000;
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// How long a run lasts.
const LASTS: i64 = 28 * DAY;
/// Nodes of the cluster.
const NODES: usize = 100;
/// So many pods or more make a big job.
const BIG: usize = 16;
/// Restarts of a job.
const RETRIES: i32 = 3;

/// What came of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Nodes that were planted to fail.
    pub bad: BTreeSet<usize>,
    /// Nodes that were suspect at some time.
    pub suspected: BTreeSet<usize>,
    /// Attempts of big jobs that are no poison.
    pub big_attempts: usize,
    /// Those of them that failed.
    pub big_failures: usize,
}

/// An attempt that begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    job: usize,
    attempt: i32,
}

struct Run {
    plan: Plan,
    rng: Rng,
    settings: NodeSuspicion,
    suspicions: Suspicions,
    suspects: BTreeSet<usize>,
    starts: BTreeMap<(i64, usize), Start>,
    count: usize,
    outcome: Outcome,
}

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, effect: SuspicionEffect) -> Outcome {
    let mut rng = Rng::new(seed, PURPOSE);
    let plan = Plan::by_chance(&mut rng);
    let settings = NodeSuspicion {
        effect,
        hardware_categories: vec!["hardware".to_owned()],
        ..NodeSuspicion::default()
    };
    let mut run = Run {
        outcome: Outcome { bad: plan.bad.keys().copied().collect(), ..Outcome::default() },
        plan,
        rng,
        settings,
        suspicions: Suspicions::default(),
        suspects: BTreeSet::new(),
        starts: BTreeMap::new(),
        count: 0,
    };
    run.all();
    run.outcome
}

impl Run {
    fn all(&mut self) {
        for job in 0..self.plan.jobs.len() {
            self.start(self.plan.jobs[job].begins, Start { job, attempt: 0 });
        }
        let mut next_look = 0;
        while let Some(((now, _), start)) = self.starts.pop_first() {
            if now >= LASTS {
                break;
            }
            if now >= next_look {
                self.look(now);
                next_look = now + HOUR;
            }
            self.attempt(now, start);
        }
    }

    fn start(&mut self, at: i64, start: Start) {
        self.starts.insert((at, self.count), start);
        self.count += 1;
    }

    /// Which nodes are suspect from now on.
    fn look(&mut self, now: i64) {
        let known = self.suspicions.iter();
        let known = known.map(|(node, record)| Known { node, uid: "u", record });
        let found = suspects(known, NODES, moment(now), &self.settings);
        self.suspects = found.iter().filter_map(|one| one.node.parse().ok()).collect();
        self.outcome.suspected.extend(&self.suspects);
    }

    fn attempt(&mut self, now: i64, start: Start) {
        let job = self.plan.jobs[start.job].clone();
        let nodes = self.place(&job);
        let is_counted = job.pods >= BIG && job.poison.is_none();
        self.outcome.big_attempts += usize::from(is_counted);
        let Some(failure) = self.first_failure(now, &job, &nodes) else { return };
        self.outcome.big_failures += usize::from(is_counted);
        let (at, rank, kind) = failure;
        let evidence = evidence(start, &job, (at, rank, kind));
        let testimony = Testimony { node: nodes[rank].to_string(), evidence };
        self.suspicions.testify(&testimony, "u");
        if start.attempt < RETRIES {
            self.start(at + 300, Start { attempt: start.attempt + 1, ..start });
        }
    }

    /// The nodes of the pods of a job, by rank. Suspect ones come last, unless that is off.
    fn place(&mut self, job: &Job) -> Vec<usize> {
        if let Some(pinned) = job.pinned {
            return vec![pinned];
        }
        let mut nodes: Vec<usize> = (0..NODES).collect();
        for index in 0..job.pods {
            let other = index + self.rng.below(NODES - index);
            nodes.swap(index, other);
        }
        match self.settings.effect {
            SuspicionEffect::Off => {}
            SuspicionEffect::Prefer | SuspicionEffect::Require => {
                nodes.sort_by_key(|node| self.suspects.contains(node));
            }
        }
        nodes.truncate(job.pods);
        nodes
    }

    /// When which rank fails first, and what shows it; none where the attempt succeeds. Every attempt draws as often as
    /// any other of its size.
    fn first_failure(
        &mut self,
        now: i64,
        job: &Job,
        nodes: &[usize],
    ) -> Option<(i64, usize, EvidenceKind)> {
        let mut first: Option<(i64, usize, EvidenceKind)> = None;
        let mut fails = |at: i64, rank: usize, kind: EvidenceKind| {
            if first.is_none_or(|(before, ..)| at < before) {
                first = Some((at, rank, kind));
            }
        };
        let ends = now + job.lasts;
        for (rank, node) in nodes.iter().enumerate() {
            let at = now
                + self.rng.below(usize::try_from(job.lasts).unwrap_or(1)).try_into().unwrap_or(0);
            let has_bad_luck = self.rng.permille(1);
            let is_hit = self.rng.permille(250);
            match self.plan.bad.get(node) {
                Some(Flaw::Hardware) if is_hit => fails(at, rank, EvidenceKind::Hardware),
                Some(Flaw::Exits) if is_hit => fails(at, rank, EvidenceKind::Container),
                Some(Flaw::Hardware | Flaw::Exits | Flaw::Flaps) | None => {}
            }
            if has_bad_luck {
                fails(at, rank, EvidenceKind::Container);
            }
            let lost = self.plan.losses[*node].iter().find(|lost| (now..ends).contains(*lost));
            if let Some(lost) = lost {
                fails(*lost, rank, EvidenceKind::NodeLost);
            }
        }
        if let Some(always_first) = job.poison {
            let rank = if always_first { 0 } else { self.rng.below(nodes.len()) };
            let kind =
                if job.pinned.is_some() { EvidenceKind::Hardware } else { EvidenceKind::Container };
            fails(now + 60, rank, kind);
        }
        first
    }
}

fn evidence(
    start: Start,
    job: &Job,
    (at, rank, kind): (i64, usize, EvidenceKind),
) -> SuspicionEvidence {
    let (category, exit_code) = match kind {
        EvidenceKind::NodeLost => ("node", None),
        EvidenceKind::Hardware => ("hardware", Some(74)),
        EvidenceKind::Container => ("application", Some(1)),
    };
    SuspicionEvidence {
        kind,
        namespace: format!("team-{}", job.namespace),
        name: format!("job-{}", start.job),
        uid: start.job.to_string(),
        attempt: start.attempt,
        component: Some("work".to_owned()),
        rank: Some(rank.to_string()),
        category: Some(category.to_owned()),
        exit_code,
        time: Time(moment(at)),
        withdrawn: false,
    }
}

fn moment(second: i64) -> Timestamp {
    Timestamp::from_second(BEGIN + second).unwrap_or(Timestamp::UNIX_EPOCH)
}
