//! The only place that reads time.

use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// A source of time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The time, in whole seconds: the API stores no more, and what is compared must compare equal.
    fn now(&self) -> Timestamp;

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

    fn until(&self, moment: Timestamp) -> Duration {
        Duration::try_from(moment.duration_since(self.now())).unwrap_or(Duration::ZERO)
    }
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
        clock.set(Timestamp::from_second(9).unwrap());
        assert_eq!(clock.until(Timestamp::from_second(4).unwrap()), Duration::ZERO);
    }
}
