use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// A process that ends waits so long for what has been begun.
const FINISHED_WITHIN: Duration = Duration::from_secs(10);

/// The looks that have been begun, so that a process ends between two of them.
#[derive(Debug)]
pub(super) struct Work {
    begun: watch::Sender<usize>,
    ends: AtomicBool,
}

/// A look that has been begun; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Begun<'a>(&'a Work);

impl Work {
    pub(super) fn new() -> Self {
        Self { begun: watch::Sender::new(0), ends: AtomicBool::new(false) }
    }

    /// Begins a look; none where nothing is begun any more.
    pub(super) fn begin(&self) -> Option<Begun<'_>> {
        if self.ends.load(Ordering::Acquire) {
            return None;
        }
        self.begun.send_modify(|count| *count += 1);
        Some(Begun(self))
    }

    /// Begins no more, and waits until what was begun has ended.
    pub(super) async fn finish(&self) {
        self.ends.store(true, Ordering::Release);
        let mut begun = self.begun.subscribe();
        // the sender lives as long as this does, so only time can run out
        if tokio::time::timeout(FINISHED_WITHIN, begun.wait_for(|count| *count == 0)).await.is_err()
        {
            tracing::warn!("Not everything that was begun has ended in time.");
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
