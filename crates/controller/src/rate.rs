//! Rate limits: one for each key, such as a user or a namespace.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::locked::Locked;

/// The most keys that are remembered.
const KEYS_MAX: usize = 4_096;

/// Requests that may be made.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// One for each such time that passes.
    pub each: Duration,
    /// How many may come at once.
    pub at_once: u32,
}

/// A rate limit for each key: the moment at which all its requests would have been made at the allowed rate.
#[derive(Debug)]
pub struct RateLimiter<K> {
    rate: Rate,
    until: Mutex<BTreeMap<K, Duration>>,
}

impl<K: Ord + Clone> RateLimiter<K> {
    /// A limiter that has seen no request.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, until: Mutex::new(BTreeMap::new()) }
    }

    /// Takes so many requests from what a key may make; `now` is monotonic time.
    ///
    /// # Errors
    /// How long to wait, where there were too many: nothing is taken.
    pub fn take(&self, key: K, requests: u32, now: Duration) -> Result<(), Duration> {
        let Rate { each, at_once } = self.rate;
        // what takes more than can ever be there takes all of it
        let cost = each.saturating_mul(requests.min(at_once));
        let mut until = self.until.locked();
        let owed = until.get(&key).copied().unwrap_or_default().max(now) + cost;
        let most = now + each.saturating_mul(at_once);
        if owed > most {
            return Err(owed.saturating_sub(most));
        }
        until.insert(key, owed);
        if until.len() > KEYS_MAX {
            until.retain(|_, until| *until > now);
            // of the rest, forget the half that owes less: that changes least
            let mut owed: Vec<_> = until.values().copied().collect();
            owed.sort_unstable();
            if let Some(middle) = owed.get(KEYS_MAX / 2) {
                until.retain(|_, until| *until > *middle);
            }
        }
        Ok(())
    }

    /// Refunds what [`Self::take`] took for a key.
    pub fn refund(&self, key: &K, requests: u32, now: Duration) {
        let cost = self.rate.each.saturating_mul(requests.min(self.rate.at_once));
        let mut until = self.until.locked();
        if let Some(owed) = until.get_mut(key) {
            *owed = owed.saturating_sub(cost);
            if *owed <= now {
                until.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In no span of time does anybody get more than the burst and the rate allow, and memory is bounded.
        #[test]
        fn nobody_gets_more_than_the_rate(
            asked in prop::collection::vec((0..5_u32, 0..700_u32, 0..300_u64), 1..200)
        ) {
            let rate = Rate { each: Duration::from_millis(10), at_once: 50 };
            let limiter = RateLimiter::new(rate);
            let (mut now, mut got) = (Duration::ZERO, BTreeMap::<u32, u32>::new());
            for (who, requests, pause) in asked {
                now += Duration::from_millis(pause);
                if limiter.take(who, requests, now).is_ok() {
                    *got.entry(who).or_default() += requests.min(rate.at_once);
                }
                let most = 50 + now.as_millis() / 10;
                prop_assert!(got.values().all(|count| u128::from(*count) <= most));
            }
        }
    }

    #[test]
    fn what_is_refunded_can_be_taken_again() {
        let limiter = RateLimiter::new(Rate { each: Duration::from_secs(1), at_once: 10 });
        let now = Duration::from_mins(1);
        assert_eq!(limiter.take("a", 4, now), Ok(()));
        for requests in [6, 1_000] {
            limiter.refund(&"a", requests, now);
            assert!(limiter.until.lock().unwrap().is_empty(), "nothing is owed");
            assert_eq!(limiter.take("a", requests, now), Ok(()));
        }
        limiter.refund(&"a", 3, now);
        assert_eq!(limiter.take("a", 4, now), Err(Duration::from_secs(1)));
        assert_eq!(limiter.take("a", 3, now), Ok(()));
        limiter.refund(&"b", 1, now);
    }

    #[test]
    fn memory_is_bounded() {
        let limiter = RateLimiter::new(Rate { each: Duration::from_secs(1), at_once: 10 });
        for number in 0..20_000_u32 {
            assert_eq!(limiter.take(number, 1 + number % 7, Duration::ZERO), Ok(()));
            assert!(limiter.until.lock().unwrap().len() <= KEYS_MAX);
        }
    }
}
