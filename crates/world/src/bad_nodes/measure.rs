//! How good suspicion is over many seeds.

use std::fmt;

use super::{Outcome, run};
use crate::config::SuspicionEffect;

/// Sums over seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Seeds.
    pub seeds: usize,
    /// Nodes that were planted to fail.
    pub bad: usize,
    /// Those of them that were suspect at some time.
    pub found: usize,
    /// Nodes that were suspect at some time.
    pub suspected: usize,
    /// Attempts of big jobs, and those that failed, while suspicion is off.
    pub off: Attempts,
    /// The same while pods prefer other nodes.
    pub prefer: Attempts,
}

/// Attempts of big jobs that are no poison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// How many there were.
    pub all: usize,
    /// How many failed.
    pub failed: usize,
}

impl Attempts {
    fn add(&mut self, outcome: &Outcome) {
        self.all += outcome.big_attempts;
        self.failed += outcome.big_failures;
    }

    /// Failed attempts in a thousand.
    #[must_use]
    pub fn failed_permille(self) -> usize {
        permille(self.failed, self.all)
    }
}

/// Runs seeds, each with and without suspicion.
#[must_use]
pub fn measure(seeds: impl IntoIterator<Item = u64>) -> Measured {
    let mut sum = Measured::default();
    for seed in seeds {
        let outcome = run(seed, SuspicionEffect::Prefer);
        sum.seeds += 1;
        sum.bad += outcome.bad.len();
        sum.found += outcome.bad.intersection(&outcome.suspected).count();
        sum.suspected += outcome.suspected.len();
        sum.prefer.add(&outcome);
        sum.off.add(&run(seed, SuspicionEffect::Off));
    }
    sum
}

impl Measured {
    /// Of the nodes that were suspect, the bad ones, in a thousand.
    #[must_use]
    pub fn precision_permille(&self) -> usize {
        permille(self.found, self.suspected)
    }

    /// Of the bad nodes, those that were suspect, in a thousand.
    #[must_use]
    pub fn recall_permille(&self) -> usize {
        permille(self.found, self.bad)
    }
}

/// A share in a thousand; of nothing, it is the whole.
fn permille(part: usize, all: usize) -> usize {
    (part * 1000).checked_div(all).unwrap_or(1000)
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |permille: usize| format!("{}.{} %", permille / 10, permille % 10);
        writeln!(f, "seeds                        {}", self.seeds)?;
        writeln!(f, "bad nodes, found             {}, {}", self.bad, self.found)?;
        writeln!(f, "precision                    {}", percent(self.precision_permille()))?;
        writeln!(f, "recall                       {}", percent(self.recall_permille()))?;
        let failed = |attempts: Attempts| {
            let Attempts { all, failed } = attempts;
            format!("{} ({failed} of {all})", percent(attempts.failed_permille()))
        };
        writeln!(f, "big attempts failed, Off     {}", failed(self.off))?;
        writeln!(f, "big attempts failed, Prefer  {}", failed(self.prefer))
    }
}
