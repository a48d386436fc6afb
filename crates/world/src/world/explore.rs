//! Many seeds, on many threads.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use super::adversary::{Hostility, twin};
use super::coverage::Coverage;
use super::faults::Faults;
use super::rng::mix;
use super::{Options, RunReport, World};

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
    let next = AtomicU64::new(first);
    let total = Mutex::new(Total::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                let mut own = Total::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first.saturating_add(seeds) {
                        break;
                    }
                    let report =
                        run_one(Options { hostility, ..Options::of(seed, faults.clone()) });
                    own.add(&report);
                    done(&report);
                }
                total.lock().unwrap_or_else(PoisonError::into_inner).merge(own);
            });
        }
    });
    let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
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

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.calls += other.calls;
        self.hash = self.hash.wrapping_add(other.hash);
        self.coverage.merge(&other.coverage);
        self.failed.extend(other.failed);
    }
}
