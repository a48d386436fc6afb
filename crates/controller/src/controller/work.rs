use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// How long the shutdown waits for running reconciles.
const FINISHED_WITHIN: Duration = Duration::from_secs(10);

/// The running reconciles, so that the shutdown does not interrupt them.
#[derive(Debug)]
pub(super) struct Work {
    begun: watch::Sender<usize>,
    ends: AtomicBool,
}

/// A running reconcile; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Begun<'a>(&'a Work);

impl Work {
    pub(super) fn new() -> Self {
        Self { begun: watch::Sender::new(0), ends: AtomicBool::new(false) }
    }

    /// Begins a reconcile; none after the shutdown has begun.
    pub(super) fn begin(&self) -> Option<Begun<'_>> {
        if self.ends.load(Ordering::Acquire) {
            return None;
        }
        self.begun.send_modify(|count| *count += 1);
        Some(Begun(self))
    }

    /// Prevents new reconciles, and waits until the running ones have ended.
    pub(super) async fn finish(&self) {
        self.ends.store(true, Ordering::Release);
        let mut begun = self.begun.subscribe();
        // the sender lives as long as this does, so only the timeout can fail
        if tokio::time::timeout(FINISHED_WITHIN, begun.wait_for(|count| *count == 0)).await.is_err()
        {
            tracing::warn!("Shutdown timed out: reconciles are still in progress.");
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.begun.send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_for_what_was_begun_and_begins_nothing() {
        let work = Work::new();
        let begun = work.begin().expect("it has not ended");
        let mut finish = Box::pin(work.finish());
        assert!(futures::poll!(&mut finish).is_pending());
        assert!(work.begin().is_none());
        drop(begun);
        finish.await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_hangs_is_not_waited_for_without_end() {
        let work = Work::new();
        let _begun = work.begin();
        work.finish().await;
    }
}
