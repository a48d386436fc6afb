use std::time::Duration;

use crate::api;
use crate::tuning::{Period, PeriodError};

/// A delay that grows with each retry: `min(initial × multiplier^(n−1), maximum)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    initial_delay: Period,
    multiplier: f64,
    max_delay: Period,
}

/// Why a backoff is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BackoffError {
    /// `initialDelay` is no period.
    #[error("initialDelay: {0}")]
    InitialDelay(PeriodError),
    /// `maxDelay` is no period.
    #[error("maxDelay: {0}")]
    MaxDelay(PeriodError),
    /// `multiplier` is below 1 or no number.
    #[error("multiplier: {0} must be a number of 1 or more")]
    Multiplier(f64),
    /// `initialDelay` is above `maxDelay`.
    #[error("initialDelay: {0} must be at most maxDelay ({1})")]
    Order(Period, Period),
}

impl Backoff {
    /// Growth where `multiplier` is left out.
    pub const MULTIPLIER: f64 = 2.0;
    /// The longest delay where `maxDelay` is left out.
    pub const MAX_DELAY: Period = Period::from_secs(600);

    /// A checked backoff.
    ///
    /// # Errors
    /// The multiplier is below 1 or not finite, or the delays are out of order.
    pub fn new(initial: Period, multiplier: f64, maximum: Period) -> Result<Self, BackoffError> {
        // not `multiplier < 1.0`, which NaN would pass
        if !(multiplier.is_finite() && multiplier >= 1.0) {
            return Err(BackoffError::Multiplier(multiplier));
        }
        if initial > maximum {
            return Err(BackoffError::Order(initial, maximum));
        }
        Ok(Self { initial_delay: initial, multiplier, max_delay: maximum })
    }

    /// The delay before the n-th retry; the first is 1.
    #[must_use]
    pub fn delay(&self, n: i32) -> Period {
        let growth = self.multiplier.powi(n.saturating_sub(1).max(0));
        let seconds = self.initial_delay.as_duration().as_secs_f64() * growth;
        // 0 × ∞ is no number: no delay stays no delay
        if seconds.is_nan() {
            return Period::ZERO;
        }
        match Duration::try_from_secs_f64(seconds) {
            Ok(delay) => Period::from_duration(delay).min(self.max_delay),
            Err(_) => self.max_delay,
        }
    }

    /// Delay before the first retry.
    #[must_use]
    pub const fn initial_delay(&self) -> Period {
        self.initial_delay
    }

    /// Growth from one retry to the next.
    #[must_use]
    pub const fn multiplier(&self) -> f64 {
        self.multiplier
    }

    /// The longest delay.
    #[must_use]
    pub const fn max_delay(&self) -> Period {
        self.max_delay
    }
}

impl TryFrom<&api::Backoff> for Backoff {
    type Error = BackoffError;

    fn try_from(raw: &api::Backoff) -> Result<Self, BackoffError> {
        let initial = raw.initial_delay.parse().map_err(BackoffError::InitialDelay)?;
        let maximum = match &raw.max_delay {
            Some(text) => text.parse().map_err(BackoffError::MaxDelay)?,
            None => Self::MAX_DELAY,
        };
        Self::new(initial, raw.multiplier.unwrap_or(Self::MULTIPLIER), maximum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(initial: u64, multiplier: f64, maximum: u64) -> Result<Backoff, BackoffError> {
        Backoff::new(Period::from_secs(initial), multiplier, Period::from_secs(maximum))
    }

    #[test]
    fn the_delay_grows_to_its_maximum() {
        let backoff = given(10, 2.0, 300).unwrap();
        for (n, seconds) in
            [(1, 10), (2, 20), (3, 40), (6, 300), (i32::MAX, 300), (0, 10), (i32::MIN, 10)]
        {
            assert_eq!(backoff.delay(n), Period::from_secs(seconds), "{n}");
        }
        assert_eq!(given(0, 1e308, 300).unwrap().delay(9), Period::ZERO);
        assert_eq!(given(1, 1e308, 300).unwrap().delay(9), Period::from_secs(300));
        assert_eq!(given(7, 1.0, 7).unwrap().delay(100), Period::from_secs(7));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for multiplier in [0.99, 0.0, -2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let error = given(1, multiplier, 2).unwrap_err();
            assert!(matches!(error, BackoffError::Multiplier(_)), "{multiplier}");
        }
        assert!(matches!(given(3, 2.0, 2), Err(BackoffError::Order(..))));
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let raw = api::Backoff { initial_delay: "10s".into(), multiplier: None, max_delay: None };
        let backoff = Backoff::try_from(&raw).unwrap();
        assert_eq!(backoff, given(10, 2.0, 600).unwrap());
        assert_eq!(backoff.max_delay(), Backoff::MAX_DELAY);
        let raw = api::Backoff { initial_delay: "11m".into(), ..raw };
        assert!(matches!(Backoff::try_from(&raw), Err(BackoffError::Order(..))));
    }
}
