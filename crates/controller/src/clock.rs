//! The only place that reads time.

use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::locked::Locked;

/// A source of time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The time, in whole seconds: the API stores no more, and what is compared must compare equal.
    fn now(&self) -> Timestamp;

    /// The time in whole seconds, rounded down and rounded up.
    fn around_now(&self) -> (Timestamp, Timestamp);

    /// How long it is until a moment; zero where it is over.
    fn until(&self, moment: Timestamp) -> Duration;

    /// Time since some moment in the past; unlike the time of day it never jumps. It goes on while the
    /// machine is paused or suspended, as it does for everybody else.
    fn elapsed(&self) -> Duration;
}

/// A jump of the time of day is taken in at this share of the time that passes. A clock that is set
/// a day ahead must not end every grace period at once.
const TAKEN_IN: u32 = 20;

/// By how much the time of a process may differ from the time of day before the log says so.
const OFF_MAX: Duration = Duration::from_mins(5);
/// For how long it must differ: a machine whose clock is being set corrects it sooner.
const OFF_FOR: Duration = Duration::from_mins(10);

/// A time of day that does not jump: it follows time that passes, and what it is off by it makes up
/// for slowly. A process begins with the time of day as it is.
#[derive(Debug, Default)]
struct Steady {
    last: Mutex<Option<(Timestamp, Duration)>>,
    off: Mutex<Off>,
}

/// Since when a time differs much from the time of day, and whether the log has said so.
#[derive(Debug, Default)]
struct Off {
    since: Option<Duration>,
    is_told: bool,
}

impl Steady {
    const fn new() -> Self {
        Self { last: Mutex::new(None), off: Mutex::new(Off { since: None, is_told: false }) }
    }

    fn read(&self, wall: Timestamp, elapsed: Duration) -> Timestamp {
        let time = self.follow(wall, elapsed);
        let by = wall.duration_since(time).unsigned_abs();
        if self.off.locked().is_to_be_told(by, elapsed) {
            let seconds = by.as_secs();
            tracing::warn!(
                seconds,
                "The clock of this node differs from the time of this process, which adjusts \
                 slowly. If the clock is right now, restart the process."
            );
        }
        time
    }

    fn follow(&self, wall: Timestamp, elapsed: Duration) -> Timestamp {
        let mut last = self.last.locked();
        let time = last.map_or(wall, |(time, at)| {
            let passed = elapsed.saturating_sub(at);
            let expected = time.checked_add(passed).unwrap_or(time);
            let most = jiff::SignedDuration::try_from(passed / TAKEN_IN).unwrap_or_default();
            let off = wall.duration_since(expected).clamp(-most, most);
            expected.checked_add(off).unwrap_or(expected)
        });
        *last = Some((time, elapsed));
        time
    }

    fn forget(&self) {
        *self.last.locked() = None;
    }
}

impl Off {
    /// Notes a difference. Whether it has been too large for so long that the log says so, once.
    fn is_to_be_told(&mut self, by: Duration, elapsed: Duration) -> bool {
        if by <= OFF_MAX {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(elapsed);
        let tells = !self.is_told && elapsed.saturating_sub(since) >= OFF_FOR;
        self.is_told |= tells;
        tells
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    fn precise() -> Timestamp {
        static STEADY: Steady = Steady::new();
        STEADY.read(Self::wall(), Self.elapsed())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the place that reads time")]
    fn wall() -> Timestamp {
        Timestamp::now()
    }

    /// Time since the machine was started, with the time that it was paused or suspended.
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads time")]
    fn steady() -> Duration {
        use rustix::time::{ClockId, clock_gettime};
        let time = clock_gettime(ClockId::Boottime);
        // neither is negative, and a part of a second has less than 10^9 ns
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
    }

    /// Time since some moment in the past. A machine that is paused is not known here.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads time")]
    fn steady() -> Duration {
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        let now = Instant::now();
        now.saturating_duration_since(*START.get_or_init(|| now))
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        whole_seconds(Self::precise())
    }

    fn around_now(&self) -> (Timestamp, Timestamp) {
        around(Self::precise())
    }

    fn until(&self, moment: Timestamp) -> Duration {
        Duration::try_from(moment.duration_since(Self::precise())).unwrap_or(Duration::ZERO)
    }

    fn elapsed(&self) -> Duration {
        static START: OnceLock<Duration> = OnceLock::new();
        let now = Self::steady();
        now.saturating_sub(*START.get_or_init(|| now))
    }
}

/// A clock that moves when it is told to.
#[derive(Debug)]
pub struct ManualClock {
    hands: Mutex<Hands>,
    steady: Steady,
}

#[derive(Clone, Copy, Debug)]
struct Hands {
    time: Timestamp,
    elapsed: Duration,
}

impl ManualClock {
    /// A clock that stands at a moment.
    #[must_use]
    pub fn at(moment: Timestamp) -> Self {
        let hands = Mutex::new(Hands { time: moment, elapsed: Duration::ZERO });
        Self { hands, steady: Steady::new() }
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.locked()
    }

    /// Shows another moment from here on, as for a process that has just started; no time passes.
    pub fn set(&self, moment: Timestamp) {
        self.hands().time = moment;
        self.steady.forget();
    }

    /// The time of day jumps by so many seconds; no time passes.
    pub fn jump(&self, seconds: i64) {
        let mut hands = self.hands();
        let span = jiff::SignedDuration::from_secs(seconds);
        hands.time = hands.time.checked_add(span).unwrap_or(hands.time);
    }

    /// Lets time pass, for instance while the machine is paused.
    pub fn advance(&self, by: Duration) {
        let mut hands = self.hands();
        hands.elapsed = hands.elapsed.saturating_add(by);
        hands.time = hands.time.checked_add(by).unwrap_or(Timestamp::MAX);
    }

    /// How far the time that is shown is from another, whichever is ahead.
    #[must_use]
    pub fn off_by(&self, other: Timestamp) -> Duration {
        self.precise().duration_since(other).unsigned_abs()
    }

    fn precise(&self) -> Timestamp {
        let Hands { time, elapsed } = *self.hands();
        self.steady.read(time, elapsed)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        whole_seconds(self.precise())
    }

    fn around_now(&self) -> (Timestamp, Timestamp) {
        around(self.precise())
    }

    fn until(&self, moment: Timestamp) -> Duration {
        Duration::try_from(moment.duration_since(self.precise())).unwrap_or(Duration::ZERO)
    }

    fn elapsed(&self) -> Duration {
        self.hands().elapsed
    }
}

/// A moment in whole seconds, rounded down and rounded up.
pub(crate) fn around(moment: Timestamp) -> (Timestamp, Timestamp) {
    let down = whole_seconds(moment);
    let up = if down < moment { down.as_second().saturating_add(1) } else { down.as_second() };
    (down, Timestamp::from_second(up).unwrap_or(moment))
}

fn whole_seconds(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::testing::keep_lines;

    #[test]
    fn a_jump_is_taken_in_slowly() {
        let second = |second| Timestamp::from_second(second).unwrap();
        for (jump, want) in [(86_400, 121 + 6), (-86_400, 121 - 6), (3, 121 + 3), (0, 121)] {
            let clock = ManualClock::at(second(1));
            assert_eq!(clock.now(), second(1));
            clock.jump(jump);
            assert_eq!(clock.now(), second(1), "{jump}");
            clock.advance(Duration::from_mins(2));
            assert_eq!(clock.now(), second(want), "{jump}");
        }
    }

    #[test]
    fn a_time_that_differs_from_the_clock_for_long_is_told_once() {
        for (jump, minutes, want) in [
            (86_400, 9, 0),
            (86_400, 10, 1),
            (86_400, 60, 1),
            (-86_400, 60, 1),
            (299, 60, 0),
            (310, 60, 0), // it is made up for sooner
        ] {
            let (lines, guard) = keep_lines(false, "warn");
            let clock = ManualClock::at(Timestamp::from_second(100_000).unwrap());
            clock.now();
            clock.jump(jump);
            clock.now();
            for _ in 0..minutes {
                clock.advance(Duration::from_mins(1));
                clock.now();
            }
            drop(guard);
            let count = lines.text().matches("differs from the time of this process").count();
            assert_eq!(count, want, "{jump} {minutes}");
        }
    }

    /// What Linux says of the time since the start, pauses included.
    #[test]
    #[cfg(target_os = "linux")]
    fn time_that_passes_is_that_of_the_machine_with_its_pauses() {
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            let hundredths: String =
                text.split(' ').next().unwrap().chars().filter(|c| *c != '.').collect();
            Duration::from_millis(hundredths.parse::<u64>().unwrap() * 10)
        };
        let (before, steady, after) = (uptime(), SystemClock::steady(), uptime());
        // a container may show a time of its own in one of the two, never a machine
        let hundredth = Duration::from_millis(10);
        assert!(
            before <= steady + hundredth && steady <= after + hundredth * 2,
            "{before:?} {steady:?}"
        );
        let first = SystemClock.elapsed();
        assert!(SystemClock.elapsed() >= first);
    }

    #[test]
    fn time_comes_in_whole_seconds() {
        assert_eq!(SystemClock.now().subsec_nanosecond(), 0);
        let clock = ManualClock::at(Timestamp::from_millisecond(1_500).unwrap());
        assert_eq!(clock.now(), Timestamp::from_second(1).unwrap());
        assert_eq!(clock.until(Timestamp::from_second(4).unwrap()), Duration::from_millis(2_500));
        let second = |second| Timestamp::from_second(second).unwrap();
        let half = Timestamp::from_millisecond(1_500).unwrap();
        assert_eq!(around(half), (second(1), second(2)));
        assert_eq!(around(second(2)), (second(2), second(2)));
        assert_eq!(clock.around_now(), (second(1), second(2)));
        clock.set(Timestamp::from_second(9).unwrap());
        assert_eq!(clock.until(Timestamp::from_second(4).unwrap()), Duration::ZERO);
        assert_eq!(clock.elapsed(), Duration::ZERO, "a jump is no passing of time");
        clock.advance(Duration::from_secs(2));
        assert_eq!((clock.now(), clock.elapsed()), (second(11), Duration::from_secs(2)));
    }
}
