//! Whether this replica leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Times;
use crate::clock::Clock;

/// Whether this replica leads. Clones share the state.
#[derive(Clone, Debug)]
pub struct Leadership {
    clock: Arc<dyn Clock>,
    deadline: Duration,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    leads: AtomicBool,
    /// When the last renewal was sent, in milliseconds of [`Clock::elapsed`].
    renewed: AtomicU64,
}

impl Leadership {
    /// Leadership that has not been won yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, times: &Times) -> Self {
        Self { clock, deadline: times.renew_deadline, shared: Arc::default() }
    }

    /// Whether this replica leads, and has said so recently enough that nobody else can.
    ///
    /// It is told by a clock that goes on while the machine is paused, whatever timers say.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.shared.leads.load(Ordering::Acquire) && !self.left().is_zero()
    }

    /// How long it lasts without a renewal.
    pub(super) fn left(&self) -> Duration {
        let renewed = Duration::from_millis(self.shared.renewed.load(Ordering::Acquire));
        self.deadline.saturating_sub(self.clock.elapsed().saturating_sub(renewed))
    }

    /// A renewal that was sent at a moment has been applied.
    pub(super) fn renewed(&self, sent: Duration) {
        let millis = u64::try_from(sent.as_millis()).unwrap_or(u64::MAX);
        self.shared.renewed.store(millis, Ordering::Release);
        self.shared.leads.store(true, Ordering::Release);
    }

    pub(super) fn ended(&self) {
        self.shared.leads.store(false, Ordering::Release);
    }
}
