//! The only place that reads time.

use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// A source of time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The time, in whole seconds: the API stores no more, and what is compared must compare equal.
    fn now(&self) -> Timestamp;

    /// The time in whole seconds, rounded down and rounded up.
    fn around_now(&self) -> (Timestamp, Timestamp);

    /// How long it is until a moment; zero where it is over.
    fn until(&self, moment: Timestamp) -> Duration;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads time")]
    fn precise() -> Timestamp {
        Timestamp::now()
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
}

/// A clock that moves when it is told to.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock that stands at a moment.
    #[must_use]
    pub fn at(moment: Timestamp) -> Self {
        Self(Mutex::new(whole_seconds(moment)))
    }

    /// Moves to a moment.
    pub fn set(&self, moment: Timestamp) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = whole_seconds(moment);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn around_now(&self) -> (Timestamp, Timestamp) {
        around(self.now())
    }

    fn until(&self, moment: Timestamp) -> Duration {
        Duration::try_from(moment.duration_since(self.now())).unwrap_or(Duration::ZERO)
    }
}

fn around(moment: Timestamp) -> (Timestamp, Timestamp) {
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

    #[test]
    fn time_comes_in_whole_seconds() {
        assert_eq!(SystemClock.now().subsec_nanosecond(), 0);
        let clock = ManualClock::at(Timestamp::from_millisecond(1_500).unwrap());
        assert_eq!(clock.now(), Timestamp::from_second(1).unwrap());
        assert_eq!(clock.until(Timestamp::from_second(4).unwrap()), Duration::from_secs(3));
        let second = |second| Timestamp::from_second(second).unwrap();
        let half = Timestamp::from_millisecond(1_500).unwrap();
        assert_eq!(around(half), (second(1), second(2)));
        assert_eq!(around(second(2)), (second(2), second(2)));
        clock.set(Timestamp::from_second(9).unwrap());
        assert_eq!(clock.until(Timestamp::from_second(4).unwrap()), Duration::ZERO);
    }
}
