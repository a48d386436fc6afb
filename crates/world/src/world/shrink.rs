//! From a run in which something does not hold to the shortest one that can be found.
//!
//! The chance of each purpose comes from a stream of its own, so that a fault can be left out and the
//! rest stays much as it was. What is left out: whole kinds of faults, then single strikes by halves.

use std::collections::BTreeSet;

use super::adversary::Hostility;
use super::explore::run_one;
use super::faults::{Fault, Faults};
use super::{Options, RunReport};

/// The most runs that are spent on shrinking.
const RUNS_MAX: usize = 400;

/// The smallest run that was found, and how to make it again.
#[derive(Clone, Debug)]
pub struct Smallest {
    /// What makes it.
    pub options: Options,
    /// What came of it; with its lines.
    pub report: RunReport,
    /// How many runs were spent.
    pub runs: usize,
}

/// Looks for a shorter run in which the same invariant does not hold.
#[must_use]
pub fn shrink(failed: &RunReport, options: &Options) -> Smallest {
    let mut search = Search {
        invariant: failed.violation.as_ref().map(|(violation, _)| violation.invariant),
        best: options.clone(),
        steps: failed.violation.as_ref().map_or(u64::MAX, |(_, step)| *step),
        injected: failed.injected,
        runs: 0,
    };
    search.drop_kinds();
    search.drop_strikes();
    search.end_early();
    let options = Options { keep_trace: true, ..search.best };
    let report = run_one(options.clone());
    Smallest { options, report, runs: search.runs }
}

struct Search {
    invariant: Option<&'static str>,
    best: Options,
    steps: u64,
    injected: u64,
    runs: usize,
}

impl Search {
    /// Keeps a candidate where the same invariant fails in it, and it is no longer.
    fn attempt(&mut self, candidate: Options) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        let report = run_one(candidate.clone());
        let Some((violation, step)) = &report.violation else { return false };
        let better = Some(violation.invariant) == self.invariant && *step <= self.steps;
        if better {
            self.steps = *step;
            self.injected = report.injected;
            self.best = candidate;
        }
        better
    }

    /// Kinds of faults that it does not need.
    fn drop_kinds(&mut self) {
        for fault in Fault::ALL {
            if self.best.faults.has(fault) {
                let mut left = self.best.faults.0.clone();
                left.remove(&fault);
                self.attempt(Options { faults: Faults(left), ..self.best.clone() });
            }
        }
    }

    /// Strikes that it does not need: ever smaller ranges of them.
    fn drop_strikes(&mut self) {
        let mut size = self.injected.max(1).div_ceil(2);
        loop {
            let mut from = 1;
            while from <= self.injected {
                let range: BTreeSet<u64> = (from..from + size).collect();
                let without: BTreeSet<u64> = self.best.without.union(&range).copied().collect();
                if without != self.best.without {
                    self.attempt(Options { without, ..self.best.clone() });
                }
                from += size;
            }
            if size == 1 || self.runs >= RUNS_MAX {
                return;
            }
            size = size.div_ceil(2);
        }
    }

    /// Healing earlier, where it fails after that.
    fn end_early(&mut self) {
        for share in [8, 4, 2] {
            let steps = self.best.steps / share;
            if self.attempt(Options { steps, ..self.best.clone() }) {
                return;
            }
        }
    }
}

/// The command that makes a run again.
#[must_use]
pub fn command(options: &Options) -> String {
    let mut command =
        format!("appwrapper simulate --seed {} --faults {} --trace", options.seed, options.faults);
    if options.steps != Options::of(0, Faults::default()).steps {
        command.push_str(&format!(" --steps {}", options.steps));
    }
    if options.hostility == Hostility::Always {
        command.push_str(" --adversary");
    }
    if !options.without.is_empty() {
        let numbers: Vec<String> = options.without.iter().map(ToString::to_string).collect();
        command.push_str(&format!(" --without {}", numbers.join(",")));
    }
    command
}
