//! How many requests may be made in a time, for each of many debtors.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The most debtors that are remembered.
const DEBTORS_MAX: usize = 4_096;

/// Requests that may be made.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// One for each such time that passes.
    pub each: Duration,
    /// How many may come at once.
    pub at_once: u32,
}

/// For each debtor, the moment at which all its requests would have been made at the allowed rate.
#[derive(Debug)]
pub struct Debts<K> {
    rate: Rate,
    until: Mutex<BTreeMap<K, Duration>>,
}

impl<K: Ord + Clone> Debts<K> {
    /// Nobody owes anything.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, until: Mutex::new(BTreeMap::new()) }
    }

    /// Charges so many requests; `now` is the time since some moment that stays the same.
    ///
    /// # Errors
    /// How long to wait, where there were too many: nothing is charged.
    pub fn charge(&self, key: K, requests: u32, now: Duration) -> Result<(), Duration> {
        let Rate { each, at_once } = self.rate;
        // what takes more than can ever be there takes all of it
        let cost = each.saturating_mul(requests.min(at_once));
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let owed = until.get(&key).copied().unwrap_or_default().max(now) + cost;
        let most = now + each.saturating_mul(at_once);
        if owed > most {
            return Err(owed.saturating_sub(most));
        }
        until.insert(key, owed);
        if until.len() > DEBTORS_MAX {
            until.retain(|_, until| *until > now);
            // of the rest, forget the half that owes less: that changes least
            let mut owed: Vec<_> = until.values().copied().collect();
            owed.sort_unstable();
            if let Some(middle) = owed.get(DEBTORS_MAX / 2) {
                until.retain(|_, until| *until > *middle);
            }
        }
        Ok(())
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
            let debts = Debts::new(rate);
            let (mut now, mut got) = (Duration::ZERO, BTreeMap::<u32, u32>::new());
            for (who, requests, pause) in asked {
                now += Duration::from_millis(pause);
                if debts.charge(who, requests, now).is_ok() {
                    *got.entry(who).or_default() += requests.min(rate.at_once);
                }
                let most = 50 + now.as_millis() / 10;
                prop_assert!(got.values().all(|count| u128::from(*count) <= most));
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        let debts = Debts::new(Rate { each: Duration::from_secs(1), at_once: 10 });
        for number in 0..20_000_u32 {
            assert_eq!(debts.charge(number, 1 + number % 7, Duration::ZERO), Ok(()));
            assert!(debts.until.lock().unwrap().len() <= DEBTORS_MAX);
        }
    }
}
