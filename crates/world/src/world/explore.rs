//! Many seeds, on many threads.

use std::sync::Mutex;

use super::adversary::{Hostility, twin};
use super::coverage::Coverage;
use super::faults::Faults;
use super::rng::mix;
use super::{Options, RunReport, World};
use crate::locked::Locked;

/// What came of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// Seeds that were run.
    pub seeds: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// Calls of the controllers.
    pub calls: u64,
    /// Hash of all events of all seeds, whatever the order in which they ran.
    pub hash: u64,
    /// What was met.
    pub coverage: Coverage,
    /// The runs in which an invariant did not hold, by seed.
    pub failed: Vec<RunReport>,
}

/// Runs one world to its end.
#[must_use]
pub fn run_one(options: Options) -> RunReport {
    let twin = twin::of(&options).map(|options| run(|| World::random(options)));
    let mut report = run(|| World::random(options));
    if let Some(twin) = twin.filter(|twin| twin.violation.is_none() && report.violation.is_none()) {
        report.violation = twin::compare(&report, &twin).map(|found| (found, report.steps));
    }
    report
}

/// Runs a world that is made inside the runtime that it needs.
///
/// # Panics
/// Where the machine has no room for a runtime.
#[must_use]
pub fn run(make: impl FnOnce() -> World) -> RunReport {
    run_async(async { make().run().await })
}

/// Does something inside the runtime that a world needs.
pub(super) fn run_async<T>(work: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap_or_else(|error| unreachable!("a runtime without any driver: {error}"));
    }
    RUNTIME.with(|runtime| runtime.block_on(work))
}

/// Does a piece of work with each item, on so many threads.
pub fn each<T>(jobs: usize, items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let items = Mutex::new(items);
    // others may take the next item while this one is worked on
    let next = || items.locked().next();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}

/// Runs seeds from `first` on, on so many threads; `done` hears of each.
#[must_use]
pub fn explore(
    first: u64,
    seeds: u64,
    jobs: usize,
    faults: &Faults,
    hostility: Hostility,
    done: &(dyn Fn(&RunReport) + Sync),
) -> Total {
    let total = Mutex::new(Total::default());
    each(jobs, first..first.saturating_add(seeds), |seed| {
        let report = run_one(Options { hostility, ..Options::of(seed, faults.clone()) });
        total.locked().add(&report);
        done(&report);
    });
    let mut total = std::mem::take(&mut *total.locked());
    total.failed.sort_by_key(|report| report.seed);
    total
}

impl Total {
    fn add(&mut self, report: &RunReport) {
        self.seeds += 1;
        self.steps += report.steps;
        self.calls += u64::from(report.calls);
        self.hash = self.hash.wrapping_add(mix(mix(0, report.seed), report.hash));
        self.coverage.merge(&report.coverage);
        if report.violation.is_some() {
            self.failed.push(report.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_worked_on_once() {
        for jobs in [0, 1, 4] {
            let seen = Mutex::new(vec![]);
            each(jobs, 0..100, |item| seen.lock().unwrap().push(item));
            let mut seen = seen.into_inner().unwrap();
            seen.sort_unstable();
            assert_eq!(seen, (0..100).collect::<Vec<_>>(), "{jobs}");
        }
    }
}
