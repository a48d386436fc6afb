//! Counters whose series are not known beforehand. `increase()` of Prometheus does not see the first value of a series: a
//! new one is 0 at first, and its amount follows.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::CounterVec;

/// How long a new series is 0, so that each of several replicas of Prometheus sees that.
pub(super) const ZERO_FOR: Duration = Duration::from_mins(2);

/// The label values of a series.
pub(super) type Key<const N: usize> = [String; N];

/// A counter, and what is not in it yet.
#[derive(Debug)]
pub(super) struct FromZero<const N: usize> {
    counter: CounterVec,
    pending: BTreeMap<Key<N>, f64>,
    /// Since when each series is on the page.
    series: BTreeMap<Key<N>, Duration>,
}

impl<const N: usize> FromZero<N> {
    pub(super) fn new(counter: CounterVec) -> Self {
        Self { counter, pending: BTreeMap::new(), series: BTreeMap::new() }
    }

    pub(super) fn counter(&self) -> CounterVec {
        self.counter.clone()
    }

    /// Whether so many keys have an amount that is not counted yet, and this one has none.
    pub(super) fn is_full(&self, key: &Key<N>, most: usize) -> bool {
        self.pending.len() >= most && !self.pending.contains_key(key)
    }

    /// Takes in an amount.
    pub(super) fn note(&mut self, key: Key<N>, more: f64) {
        *self.pending.entry(key).or_default() += more;
    }

    /// Counts what was taken in, except that of new series. `label` chooses the series for a key, by those that there are;
    /// `now` is monotonic time.
    pub(super) fn flush(
        &mut self,
        now: Duration,
        label: impl Fn(&Key<N>, &BTreeMap<Key<N>, Duration>) -> Key<N>,
    ) {
        for (noted, more) in std::mem::take(&mut self.pending) {
            let key = label(&noted, &self.series);
            let series = self.counter.with_label_values(&key);
            let since = *self.series.entry(key).or_insert(now);
            if now.saturating_sub(since) < ZERO_FOR {
                self.pending.insert(noted, more);
            } else {
                series.inc_by(more);
            }
        }
    }

    /// Removes series.
    pub(super) fn forget(&mut self, is_lost: impl Fn(&Key<N>) -> bool) {
        let Self { counter, series, .. } = self;
        series.retain(|key, _| {
            let is_lost = is_lost(key);
            if is_lost {
                // it is there: the series says so
                drop(counter.remove_label_values(key));
            }
            !is_lost
        });
    }
}
