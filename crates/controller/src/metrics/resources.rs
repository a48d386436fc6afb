//! Resource-seconds: what a status write settled of the ledger, times what the AppWrapper requests.
//!
//! The queues that have a label are known at a scrape, so that amounts are kept until then. Anybody may name a resource
//! in a pod template: a name becomes a label only if a node has that resource ([`super::UsageChange::real`]).

use std::collections::{BTreeMap, BTreeSet};

use prometheus::CounterVec;

use super::Spent;
use super::make::amount;
use super::names::{Names, OTHER};
use super::queues::Queues;

/// How many resources have a label of their own; the rest is `other`.
const RESOURCES_MAX: usize = 32;
/// How many combinations of labels there are: any more are of the queue `other`, with the cause `other`.
const SERIES_MAX: usize = 20_000;
/// Resources that every cluster has.
const BUILT_IN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Queue, resource, state and cause.
type Key = [String; 4];

/// The counter, and what is not in it yet.
#[derive(Debug)]
pub(super) struct ResourceSeconds {
    counter: CounterVec,
    /// By the queue as the AppWrapper names it.
    pending: BTreeMap<Key, f64>,
    series: BTreeSet<Key>,
    resources: Names,
    most: usize,
}

impl ResourceSeconds {
    pub(super) fn new() -> Self {
        let help = "Seconds that AppWrappers held quota, times the amount of each resource that their pods \
                    request, by what the quota was used for. Time is counted when its state ends; productive \
                    time when its attempt ends, as lost if the attempt failed.";
        let labels = ["queue", "resource", "state", "cause"];
        Self {
            counter: amount("appwrapper_resource_seconds_total", help, &labels),
            pending: BTreeMap::new(),
            series: BTreeSet::new(),
            resources: Names::up_to(RESOURCES_MAX),
            most: SERIES_MAX,
        }
    }

    pub(super) fn counter(&self) -> CounterVec {
        self.counter.clone()
    }

    /// Takes in what was settled.
    pub(super) fn note(&mut self, spent: &Spent) {
        for (resource, requested) in &spent.requested {
            let is_real = spent.real.contains(resource) || BUILT_IN.contains(&resource.as_str());
            let resource = if is_real {
                self.resources.label(resource)
            } else {
                self.resources.known(resource)
            };
            for (state, cause, seconds) in &spent.parts {
                #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
                let more = requested * *seconds as f64;
                let key = |queue: &str, cause: &str| {
                    [queue, resource, state.as_str(), cause].map(str::to_owned)
                };
                let mut at = key(&spent.queue, cause);
                if self.pending.len() >= self.most && !self.pending.contains_key(&at) {
                    at = key(OTHER, OTHER);
                }
                *self.pending.entry(at).or_default() += more;
            }
        }
    }

    /// Counts what was taken in since the last time. A new series is 0 first, and its amount follows the next time:
    /// `increase()` of Prometheus does not see the first value of a series.
    pub(super) fn flush(&mut self, queues: &Queues) {
        let mut new: BTreeSet<Key> = BTreeSet::new();
        for (taken, more) in std::mem::take(&mut self.pending) {
            let mut key = taken.clone();
            queues.label(&taken[0]).clone_into(&mut key[0]);
            if !self.series.contains(&key) && self.series.len() >= self.most {
                let [_, resource, state, _] = key;
                key = [OTHER.to_owned(), resource, state, OTHER.to_owned()];
            }
            let series = self.counter.with_label_values(&key.each_ref().map(String::as_str));
            if self.series.insert(key.clone()) {
                new.insert(key.clone());
            }
            if new.contains(&key) {
                self.pending.insert(taken, more);
            } else {
                series.inc_by(more);
            }
        }
    }

    /// A queue has lost its label.
    pub(super) fn forget(&mut self, queue: &str) {
        let (lost, kept) =
            std::mem::take(&mut self.series).into_iter().partition(|key| key[0] == queue);
        self.series = kept;
        let lost: BTreeSet<Key> = lost;
        for key in lost {
            // it is there: the series says so
            drop(self.counter.remove_label_values(&key.each_ref().map(String::as_str)));
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::core::Collector;

    use super::super::census::{Present, QueueKnown};
    use super::*;
    use crate::api::UsageState;

    fn spent(queue: &str, resource: &str, is_real: bool) -> Spent {
        Spent {
            queue: queue.to_owned(),
            requested: [(resource.to_owned(), 2.0)].into(),
            real: is_real.then(|| resource.to_owned()).into_iter().collect(),
            parts: vec![(UsageState::Lost, "oom".to_owned(), 10)],
        }
    }

    fn queues(names: &[&str]) -> Queues {
        let mut queues = Queues::up_to(10);
        let present = |name: &&str| Present {
            queue: (*name).to_owned(),
            queue_known: QueueKnown::Exists,
            ..Present::default()
        };
        queues.choose(&names.iter().map(present).collect::<Vec<_>>());
        queues
    }

    /// The series, each with its value.
    fn page(of: &ResourceSeconds) -> Vec<String> {
        let families = of.counter.collect();
        let all = families.iter().flat_map(prometheus::proto::MetricFamily::get_metric);
        let mut lines: Vec<String> = all
            .map(|metric| {
                let label = |name: &str| {
                    let found = metric.get_label().iter().find(|pair| pair.name() == name);
                    found.map(|pair| pair.value().to_owned()).unwrap_or_default()
                };
                let labels = ["queue", "resource", "state", "cause"].map(label).join(" ");
                format!("{labels} {}", metric.get_counter().get_value())
            })
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn amounts_are_counted_at_a_scrape_under_known_names() {
        let mut of = ResourceSeconds::new();
        of.note(&spent("gpu", "cpu", false));
        of.note(&spent("gpu", "x/real", true));
        of.note(&spent("gpu", "x/junk", false));
        of.note(&spent("nobody", "cpu", true));
        of.note(&spent("someone", "cpu", true));
        of.note(&spent("", "cpu", true));
        assert!(page(&of).is_empty());
        of.flush(&queues(&["gpu"]));
        let new = [
            " cpu lost oom 0",
            "gpu cpu lost oom 0",
            "gpu other lost oom 0",
            "gpu x/real lost oom 0",
            "other cpu lost oom 0",
        ];
        assert_eq!(page(&of), new);
        of.note(&spent("gpu", "x/real", false));
        of.flush(&queues(&["gpu"]));
        let want = [
            " cpu lost oom 20",
            "gpu cpu lost oom 20",
            "gpu other lost oom 20",
            "gpu x/real lost oom 40",
            "other cpu lost oom 40",
        ];
        assert_eq!(page(&of), want);
        of.forget("gpu");
        assert_eq!(page(&of), [" cpu lost oom 20", "other cpu lost oom 40"]);
    }

    #[test]
    fn an_amount_that_waits_outlives_the_label_of_its_queue() {
        let mut of = ResourceSeconds::new();
        of.note(&spent("gpu", "cpu", true));
        of.flush(&queues(&["gpu"]));
        of.forget("gpu");
        for want in [0, 20, 20] {
            of.flush(&queues(&[]));
            assert_eq!(page(&of), [format!("other cpu lost oom {want}")]);
        }
    }

    #[test]
    fn there_are_only_so_many_series() {
        let mut of = ResourceSeconds { most: 3, ..ResourceSeconds::new() };
        for number in 0..RESOURCES_MAX + 9 {
            of.note(&spent("gpu", &format!("x/{number}"), true));
            of.flush(&queues(&["gpu"]));
        }
        let lines = page(&of);
        assert_eq!(lines.len(), 3 + RESOURCES_MAX - 3 + 1, "{lines:?}");
        assert!(lines.contains(&"other other lost other 180".to_owned()), "{lines:?}");
        let mut of = ResourceSeconds { most: 2, ..ResourceSeconds::new() };
        for queue in ["a", "b", "c", "d"] {
            of.note(&spent(queue, "cpu", true));
        }
        assert_eq!(of.pending.len(), 3);
        for _ in 0..2 {
            of.flush(&queues(&["a", "b", "c", "d"]));
        }
        assert_eq!(
            page(&of),
            ["a cpu lost oom 20", "b cpu lost oom 20", "other cpu lost other 40"]
        );
    }
}
