//! How long a generation lives, and when the next one comes.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// Nothing shorter: the time of certificates and of the API comes in whole seconds.
const LIFE_MIN: Duration = Duration::from_secs(12);
/// The longest overlap of two generations.
const OVERLAP_MAX: Duration = Duration::from_mins(10);
/// A generation is valid since at most so long before it was made: clocks differ, also by the time zone.
const SKEW_MAX: Duration = Duration::from_hours(24);

/// How long a generation lives, and when the next one comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    life: Duration,
    /// Clients learn the authority once: who replaces it cuts them off.
    is_learned_once: bool,
}

impl Lifetimes {
    /// Generations that live so long; at least 12 s. Everything else is in proportion.
    #[must_use]
    pub fn of(life: Duration) -> Self {
        Self { life: life.max(LIFE_MIN), is_learned_once: false }
    }

    /// For a certificate whose authority clients learn once, and many of which live long: 10 years. A client
    /// that began before a renewal trusts nothing that comes after it.
    #[must_use]
    pub fn of_pods() -> Self {
        Self { is_learned_once: true, ..Self::of(Duration::from_hours(10 * 365 * 24)) }
    }

    /// For how long the authorities of two generations are trusted side by side before the second comes
    /// into use, and again before the first is forgotten: a twelfth of the life, at most 10 min. Every API
    /// server and every replica must have seen a change after this time.
    #[must_use]
    pub fn overlap(self) -> Duration {
        (self.life / 12).min(OVERLAP_MAX)
    }

    /// From when until when a generation is valid that is made now: since a twelfth of the life, at most a day.
    #[must_use]
    pub fn valid(self, now: Timestamp) -> (Timestamp, Timestamp) {
        (before(now, (self.life / 12).min(SKEW_MAX)), after(now, self.life))
    }

    /// Whether a generation that is valid from then on is of no use yet, since the clock that it was made by was ahead. If it
    /// was ahead by more than a quarter of the life, either clock may be wrong, and what is made by one is soon of no use for
    /// the other: then the generation stays. So does one whose authority clients learn once.
    #[must_use]
    pub fn is_early(self, from: Timestamp, now: Timestamp) -> bool {
        !self.is_learned_once && now < from && from < after(now, self.life / 4)
    }

    /// When the next generation is made, of one that is valid until then: at two thirds of its life.
    #[must_use]
    pub fn renewal(self, until: Timestamp) -> Timestamp {
        before(until, self.life / 3)
    }

    /// From when on the next generation no longer waits for its time, of one that is valid until then.
    #[must_use]
    pub fn last_moment(self, until: Timestamp) -> Timestamp {
        before(until, self.overlap())
    }
}

/// 90 days.
impl Default for Lifetimes {
    fn default() -> Self {
        Self::of(Duration::from_hours(90 * 24))
    }
}

/// A moment so long after another.
pub(super) fn after(moment: Timestamp, by: Duration) -> Timestamp {
    moment.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn before(moment: Timestamp, by: Duration) -> Timestamp {
    moment.checked_sub(by).unwrap_or(Timestamp::MIN)
}
