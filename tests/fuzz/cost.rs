//! What each input costs: CPU time, which a busy machine changes little.

use std::cell::Cell;
use std::time::Duration;

use proptest::test_runner::TestCaseError;
use rustix::time::{ClockId, clock_gettime};

/// How often an input is tried that takes too long.
const TRIES: usize = 3;

/// The cost of the inputs of one test. What the slowest took is printed at its end.
pub struct Cost {
    name: &'static str,
    count: Cell<u64>,
    slowest: Cell<Duration>,
    most: Option<Duration>,
}

impl Cost {
    /// Of a test of this name. `FUZZ_MILLIS_MAX` is the most that an input may take; without it there is
    /// no bound, since other tests run in this process at the same time.
    #[expect(clippy::disallowed_methods, reason = "the bound is said from outside")]
    pub fn new(name: &'static str) -> Self {
        let given = std::env::var("FUZZ_MILLIS_MAX").ok();
        let most = given.map(|text| text.parse().expect("FUZZ_MILLIS_MAX is a number"));
        let most = most.map(Duration::from_millis);
        Self { name, count: Cell::new(0), slowest: Cell::new(Duration::ZERO), most }
    }

    /// Does the work of one input, which has as much as one AppWrapper may have.
    pub fn of<T>(&self, work: impl FnMut() -> T) -> Result<T, TestCaseError> {
        self.of_many(1, work)
    }

    /// Does the work of one input, which has as much as so many AppWrappers may have. Threads that it starts
    /// count, too. What took too long is done again: caches and other machines change it, and the least counts.
    pub fn of_many<T>(&self, count: u32, mut work: impl FnMut() -> T) -> Result<T, TestCaseError> {
        let most = self.most.map(|most| most * count);
        let (mut made, mut took) = timed(&mut work);
        for _ in 1..TRIES {
            if most.is_some_and(|most| took > most) {
                let again = timed(&mut work);
                (made, took) = (again.0, took.min(again.1));
            }
        }
        self.count.set(self.count.get() + 1);
        self.slowest.set(self.slowest.get().max(took / count));
        match most {
            Some(most) if took > most => Err(TestCaseError::fail(format!(
                "{}: {took:?} of CPU time, of {most:?}",
                self.name
            ))),
            Some(_) | None => Ok(made),
        }
    }
}

fn timed<T>(work: &mut impl FnMut() -> T) -> (T, Duration) {
    let begin = used();
    let made = work();
    (made, used().saturating_sub(begin))
}

impl Drop for Cost {
    fn drop(&mut self) {
        let Self { name, count, slowest, .. } = self;
        eprintln!("{name}: {} inputs, the slowest took {:?}", count.get(), slowest.get());
    }
}

/// CPU time of this process.
#[expect(clippy::disallowed_methods, reason = "what a case costs is no moment")]
fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}
