//! Resource-seconds: what a status write settled of the ledger, times what the AppWrapper requests.
//!
//! The queues that have a label are known at a scrape, so that amounts are kept until then. Anybody may name a resource
//! in a pod template: a name becomes a label only if a node has that resource ([`super::UsageChange::real`]).

use std::time::Duration;

use prometheus::CounterVec;

use super::Spent;
use super::from_zero::FromZero;
use super::make::amount;
use super::names::{Names, OTHER};
use super::queues::Queues;

/// How many resources have a label of their own; the rest is `other`.
const RESOURCES_MAX: usize = 32;
/// How many combinations of labels there are: any more are of the queue `other`, with the cause `other`.
const SERIES_MAX: usize = 20_000;
/// Resources that every cluster has.
const BUILT_IN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The counter, and what is not in it yet.
#[derive(Debug)]
pub(super) struct ResourceSeconds {
    /// By queue, resource, state and cause; what is not counted yet, by the queue as the AppWrapper names it.
    seconds: FromZero<4>,
    resources: Names,
    most: usize,
}

impl ResourceSeconds {
    pub(super) fn new() -> Self {
        let help = "Seconds that AppWrappers held quota, times the amount of each resource that their pods \
                    request, by what the quota was used for. Time is counted when its state ends; productive \
                    time when its attempt ends, as lost if the attempt failed.";
        let labels = ["queue", "resource", "state", "cause"];
        let counter = amount("appwrapper_resource_seconds_total", help, &labels);
        Self {
            seconds: FromZero::new(counter),
            resources: Names::up_to(RESOURCES_MAX),
            most: SERIES_MAX,
        }
    }

    pub(super) fn counter(&self) -> CounterVec {
        self.seconds.counter()
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
                if self.seconds.is_full(&at, self.most) {
                    at = key(OTHER, OTHER);
                }
                self.seconds.note(at, more);
            }
        }
    }

    /// Counts what was taken in since the last time.
    pub(super) fn flush(&mut self, queues: &Queues, now: Duration) {
        let most = self.most;
        self.seconds.flush(now, |noted, series| {
            let mut key = noted.clone();
            queues.label(&noted[0]).clone_into(&mut key[0]);
            if series.contains_key(&key) || series.len() < most {
                return key;
            }
            let [_, resource, state, _] = key;
            [OTHER.to_owned(), resource, state, OTHER.to_owned()]
        });
    }

    /// A queue has lost its label.
    pub(super) fn forget(&mut self, queue: &str) {
        self.seconds.forget(|key| key[0] == queue);
    }
}

#[cfg(test)]
mod tests {
    use prometheus::core::Collector;

    use super::super::census::{Present, QueueKnown};
    use super::super::from_zero::ZERO_FOR;
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
        let families = of.counter().collect();
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
        let start = Duration::from_secs(7);
        of.flush(&queues(&["gpu"]), start);
        let new = [
            " cpu lost oom 0",
            "gpu cpu lost oom 0",
            "gpu other lost oom 0",
            "gpu x/real lost oom 0",
            "other cpu lost oom 0",
        ];
        assert_eq!(page(&of), new);
        of.note(&spent("gpu", "x/real", false));
        of.flush(&queues(&["gpu"]), start + ZERO_FOR / 2);
        assert_eq!(page(&of), new, "another Prometheus sees 0, too");
        of.flush(&queues(&["gpu"]), start + ZERO_FOR);
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
        of.flush(&queues(&["gpu"]), Duration::ZERO);
        of.forget("gpu");
        for (number, want) in [(1, 0), (2, 20), (3, 20)] {
            of.flush(&queues(&[]), ZERO_FOR * number);
            assert_eq!(page(&of), [format!("other cpu lost oom {want}")]);
        }
    }

    #[test]
    fn there_are_only_so_many_series() {
        let mut of = ResourceSeconds { most: 3, ..ResourceSeconds::new() };
        for number in 0..RESOURCES_MAX + 9 {
            of.note(&spent("gpu", &format!("x/{number}"), true));
            of.flush(&queues(&["gpu"]), ZERO_FOR * u32::try_from(number).unwrap());
        }
        let lines = page(&of);
        assert_eq!(lines.len(), 3 + RESOURCES_MAX - 3 + 1, "{lines:?}");
        assert!(lines.contains(&"other other lost other 180".to_owned()), "{lines:?}");
        let mut of = ResourceSeconds { most: 2, ..ResourceSeconds::new() };
        for queue in ["a", "b", "c", "d"] {
            of.note(&spent(queue, "cpu", true));
        }
        let another = ["e", "cpu", "lost", "oom"].map(str::to_owned);
        assert!(of.seconds.is_full(&another, 3) && !of.seconds.is_full(&another, 4));
        for now in [Duration::ZERO, ZERO_FOR] {
            of.flush(&queues(&["a", "b", "c", "d"]), now);
        }
        assert_eq!(
            page(&of),
            ["a cpu lost oom 20", "b cpu lost oom 20", "other cpu lost other 40"]
        );
    }
}
