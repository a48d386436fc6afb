//! A panic affects only the AppWrapper that is being reconciled, or the object that a watch has delivered.
//! Its message may quote the object, so it goes neither into events nor into the log.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use futures::FutureExt;

use super::schedule::Requeue;
use crate::act::events::About;
use crate::decide::Warning;
use crate::locked::Locked;
use crate::metrics::{Metrics, PanicSite};
use crate::observe::cache::Key;
use crate::observe::cached_appwrapper::CachedAppWrapper;
use crate::reconcile::{self, Context};

/// First and longest pause after a panic.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// Reason of the event.
const INTERNAL_ERROR: &str = "InternalError";

/// The code panicked; the panic hook has logged the location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Panicked;

/// Runs something to its end, or up to a panic.
pub(super) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    // Shared state is behind locks that are held only for single steps.
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| Panicked)
}

/// Takes in one object of a watch; nothing where that panics.
pub(super) fn of_watch<T>(metrics: &Metrics, take: impl FnOnce() -> T) -> Option<T> {
    let taken = catch_unwind(AssertUnwindSafe(take)).ok();
    if taken.is_none() {
        metrics.panicked(PanicSite::Watch);
        tracing::error!("Internal error while reading an object from a watch.");
    }
    taken
}

/// How many times in a row the reconcile of an AppWrapper has panicked.
#[derive(Debug, Default)]
pub(super) struct Panics(Mutex<BTreeMap<Key, u32>>);

impl Panics {
    /// A reconcile did not panic, or the AppWrapper is gone.
    pub(super) fn ended_well(&self, key: &Key) {
        self.0.locked().remove(key);
    }

    /// A reconcile panicked: reports it, and returns when it is retried.
    pub(super) fn panicked(&self, stored: &CachedAppWrapper, context: &Context) -> Requeue {
        let key = stored.key();
        let (first, longest) = PAUSE;
        let before = {
            let mut counts = self.0.locked();
            let count = counts.entry(key.clone()).or_default();
            *count = count.saturating_add(1);
            *count - 1
        };
        let pause = first.saturating_mul(2_u32.saturating_pow(before)).min(longest);
        context.metrics.panicked(PanicSite::Reconcile);
        reconcile::span(stored).in_scope(|| {
            tracing::error!(seconds = pause.as_secs(), "Internal error; retrying after a pause.");
        });
        // the remembered state may be incomplete
        context.forget(&key);
        let about = About { namespace: &key.namespace, name: &key.name, uid: stored.uid() };
        let message = "Internal error while reconciling this AppWrapper; retrying. See the \
                       controller's log";
        context.warn(&about, &Warning { reason: INTERNAL_ERROR, message: message.to_owned() });
        Requeue::NotBefore(pause)
    }
}
