//! What should not happen: panics, and dropped Kubernetes events.

use prometheus::{IntCounter, IntCounterVec, Registry};

use super::make::{counter, plain_counter, register};

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

/// The counters.
#[derive(Clone, Debug)]
pub(super) struct Mishaps {
    panics: IntCounterVec,
    events_dropped: IntCounter,
}

impl Mishaps {
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
        Self {
            panics: register(registry, panics),
            events_dropped: register(registry, events_dropped),
        }
    }

    pub(super) fn panicked(&self, place: PanicSite) {
        self.panics.with_label_values(&[place.as_str()]).inc();
    }

    pub(super) fn event_dropped(&self) {
        self.events_dropped.inc();
    }
}
