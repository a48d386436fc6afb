//! A bounded cache of recent answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::Clock;
use crate::locked::Locked;

/// A cache with a limited number of entries: the oldest ones make room for new ones.
#[derive(Debug)]
pub struct TtlCache<K, V> {
    clock: Arc<dyn Clock>,
    most: usize,
    answers: Mutex<Answers<K, V>>,
}

#[derive(Debug)]
struct Answers<K, V> {
    by_key: BTreeMap<Arc<K>, Entry<V>>,
    /// The keys in the order in which they were answered: the first is evicted first.
    by_age: BTreeMap<u64, Arc<K>>,
    next: u64,
}

#[derive(Debug)]
struct Entry<V> {
    number: u64,
    /// When it is over, on the clock that never jumps.
    until: Duration,
    value: V,
}

impl<K: Ord, V: Clone> TtlCache<K, V> {
    /// Remembers nothing yet, and never more than `most`, which is not 0.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, most: usize) -> Self {
        let answers = Answers { by_key: BTreeMap::new(), by_age: BTreeMap::new(), next: 0 };
        Self { clock, most, answers: Mutex::new(answers) }
    }

    /// The answer, where there is one that is not over.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<V> {
        let now = self.clock.elapsed();
        let answers = self.answers.locked();
        answers.by_key.get(key).filter(|answer| now < answer.until).map(|it| it.value.clone())
    }

    /// Remembers an answer for so long.
    pub fn put(&self, key: K, value: V, lifetime: Duration) {
        let until = self.clock.elapsed().saturating_add(lifetime);
        let mut answers = self.answers.locked();
        let (key, number) = (Arc::new(key), answers.next);
        answers.next += 1;
        if let Some(old) = answers.by_key.insert(key.clone(), Entry { number, until, value }) {
            answers.by_age.remove(&old.number);
        }
        answers.by_age.insert(number, key);
        while answers.by_age.len() > self.most {
            if let Some((_, oldest)) = answers.by_age.pop_first() {
                answers.by_key.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::clock::ManualClock;

    fn recent(most: usize) -> (Arc<ManualClock>, TtlCache<u32, &'static str>) {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        (clock.clone(), TtlCache::new(clock, most))
    }

    #[test]
    fn an_answer_ends() {
        let (clock, recent) = recent(2);
        recent.put(1, "a", Duration::from_secs(2));
        clock.advance(Duration::from_millis(1_999));
        assert_eq!((recent.get(&1), recent.get(&2)), (Some("a"), None));
        clock.jump(-60);
        clock.advance(Duration::from_millis(1));
        assert_eq!(recent.get(&1), None, "a jump of the time of day is no passing of time");
        recent.put(1, "b", Duration::from_secs(1));
        assert_eq!(recent.get(&1), Some("b"));
    }

    #[test]
    fn the_oldest_answer_makes_room() {
        let (_, recent) = recent(2);
        let long = Duration::from_mins(1);
        recent.put(1, "a", long);
        recent.put(2, "b", long);
        recent.put(1, "c", long);
        recent.put(3, "d", long);
        let all = [1, 2, 3].map(|key| recent.get(&key));
        assert_eq!(all, [Some("c"), None, Some("d")]);
    }

    proptest! {
        #[test]
        fn there_are_never_more_than_the_most(keys in prop::collection::vec(0..40_u32, 0..200), most in 1..9_usize) {
            let (_, recent) = recent(most);
            for key in keys {
                recent.put(key, "x", Duration::from_mins(1));
                prop_assert_eq!(recent.get(&key), Some("x"));
                let answers = recent.answers.lock().unwrap();
                prop_assert!(answers.by_key.len() <= most);
                prop_assert_eq!(answers.by_key.len(), answers.by_age.len());
            }
        }
    }
}
