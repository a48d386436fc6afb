//! How metrics are made: every one has a name, a help text and a closed set of label names.

use prometheus::core::Collector;
use prometheus::{
    CounterVec, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, IntGaugeVec, Opts, Registry,
};

/// Registers a metric.
pub(super) fn register<M: Collector + Clone + 'static>(registry: &Registry, made: M) -> M {
    match registry.register(Box::new(made.clone())) {
        Ok(()) => made,
        Err(error) => unreachable!("a metric is registered once: {error}"),
    }
}

/// A counter of events.
pub(super) fn counter(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    well_formed(name, IntCounterVec::new(Opts::new(name, help), labels))
}

/// A counter of events without labels: it is on the page from the start.
pub(super) fn plain_counter(name: &str, help: &str) -> IntCounter {
    well_formed(name, IntCounter::new(name, help))
}

/// A counter of an amount.
pub(super) fn amount(name: &str, help: &str, labels: &[&str]) -> CounterVec {
    well_formed(name, CounterVec::new(Opts::new(name, help), labels))
}

/// A count of what is there now.
pub(super) fn gauge(name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    well_formed(name, IntGaugeVec::new(Opts::new(name, help), labels))
}

/// A count of what is there now, without labels: it is on the page from the start.
pub(super) fn plain_gauge(name: &str, help: &str) -> IntGauge {
    well_formed(name, IntGauge::new(name, help))
}

/// An amount that is there now.
pub(super) fn level(name: &str, help: &str, labels: &[&str]) -> GaugeVec {
    well_formed(name, GaugeVec::new(Opts::new(name, help), labels))
}

/// A distribution of durations, in seconds.
pub(super) fn histogram(name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    well_formed(name, HistogramVec::new(options, labels))
}

/// A distribution of durations, in seconds, without labels: it is on the page from the start.
pub(super) fn plain_histogram(name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    well_formed(name, Histogram::with_opts(options))
}

fn well_formed<M>(name: &str, made: prometheus::Result<M>) -> M {
    made.unwrap_or_else(|error| unreachable!("metric {name} is well-formed: {error}"))
}
