//! What should not happen: panics, dropped Kubernetes events, and an invalid configuration.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Registry};

use super::make::{counter, plain_counter, plain_gauge, register};

/// Where the code panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanicSite {
    /// In the reconcile of one AppWrapper.
    Reconcile,
    /// At one object from a watch.
    Watch,
}

impl PanicSite {
    const ALL: [Self; 2] = [Self::Reconcile, Self::Watch];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Reconcile => "reconcile",
            Self::Watch => "watch",
        }
    }
}

/// The counters, and whether the configuration is valid.
#[derive(Clone, Debug)]
pub(super) struct InternalErrors {
    panics: IntCounterVec,
    events_dropped: IntCounter,
    configuration_valid: IntGauge,
}

impl InternalErrors {
    pub(super) fn register(registry: &Registry) -> Self {
        let panics = counter(
            "appwrapper_panics_total",
            "Internal errors (panics) while handling one object, by place.",
            &["place"],
        );
        // 0 before the first, so that its increase can be told
        for place in PanicSite::ALL {
            panics.with_label_values(&[place.as_str()]).inc_by(0);
        }
        let events_dropped = plain_counter(
            "appwrapper_events_dropped_total",
            "Kubernetes events dropped because too many were pending, those of their type exceeded its rate, or the API server did not accept them.",
        );
        let configuration_valid = plain_gauge(
            "appwrapper_configuration_valid",
            "1 if the configuration file is valid, 0 if it has errors and the previous configuration is in force.",
        );
        configuration_valid.set(1); // the process does not start with an invalid one
        Self {
            panics: register(registry, panics),
            events_dropped: register(registry, events_dropped),
            configuration_valid: register(registry, configuration_valid),
        }
    }

    pub(super) fn panicked(&self, place: PanicSite) {
        self.panics.with_label_values(&[place.as_str()]).inc();
    }

    pub(super) fn event_dropped(&self) {
        self.events_dropped.inc();
    }

    pub(super) fn set_configuration_valid(&self, is_valid: bool) {
        self.configuration_valid.set(i64::from(is_valid));
    }
}
