//! Threads of their own, so that what is slow on one holds up none of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::{Shared, select_all};
use futures::{FutureExt, TryFutureExt};
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::Error;
use crate::clock::Clock;

/// A thread with a runtime of its own.
pub(super) struct Worker {
    name: &'static str,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    runs: watch::Receiver<bool>,
}

/// Ends when a worker is to end.
pub(super) type Stop = Shared<futures::future::BoxFuture<'static, ()>>;

/// Says that a thread runs no more, however it has ended.
struct Runs(watch::Sender<bool>);

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl Worker {
    /// Starts a thread; `work` is told when to end.
    pub(super) fn start<F>(
        name: &'static str,
        runtime: Runtime,
        work: impl FnOnce(Stop) -> F + Send + 'static,
    ) -> Result<Self, Error>
    where
        F: Future<Output = Result<(), Error>>,
    {
        let (stop, stopped) = oneshot::channel();
        // an error means that the process ends without having said so
        let stopped = stopped.unwrap_or_else(|_| ()).boxed().shared();
        let (sender, runs) = watch::channel(true);
        let runs_until_dropped = Runs(sender);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let _runs = runs_until_dropped;
                if let Err(error) = runtime.block_on(work(stopped)) {
                    tracing::error!(thread = name, %error, "A thread failed.");
                }
            })
            .map_err(|error| Error::System(format!("cannot start a thread: {error}")))?;
        Ok(Self { name, stop, thread, runs })
    }

    /// Its name, and whether it runs, for `/readyz`.
    pub(super) fn check(&self) -> (&'static str, watch::Receiver<bool>) {
        (self.name, self.runs.clone())
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&self) -> Error {
        // an error means that it has ended
        drop(self.runs.clone().wait_for(|runs| !runs).await);
        Error::Cluster(format!("thread {} stopped unexpectedly", self.name))
    }

    /// Lets it finish what it has begun, and waits for its end.
    pub(super) fn stop(self) {
        stop_all([self]);
    }
}

/// Lets several finish what they have begun, at the same time, and waits for their end.
pub(super) fn stop_all(workers: impl IntoIterator<Item = Worker>) {
    // fails only where the thread has ended by itself
    let told = |worker: Worker| (worker.name, worker.stop.send(()).is_ok(), worker.thread);
    let told: Vec<_> = workers.into_iter().map(told).collect();
    for (name, is_told, thread) in told {
        if !is_told || thread.join().is_err() {
            // why it ended is in the log already
            tracing::debug!(thread = name, "A thread had already stopped.");
        }
    }
}

/// Waits until the first of several has ended, which none may do by itself.
pub(super) async fn any_ended(workers: impl IntoIterator<Item = &Worker>) -> Error {
    select_all(workers.into_iter().map(|worker| worker.ended().boxed())).await.0
}

/// Waits until the first of several tasks has panicked; one that returns has done its work.
pub(super) async fn any_failed(tasks: &mut JoinSet<()>) -> Error {
    loop {
        match tasks.join_next().await {
            Some(Ok(())) => {}
            Some(Err(error)) => return Error::System(format!("a background task failed: {error}")),
            None => std::future::pending().await,
        }
    }
}

/// Shows that a thread goes on.
#[derive(Clone, Debug)]
pub(super) struct Heartbeat {
    clock: Arc<dyn Clock>,
    millis: Arc<AtomicU64>,
}

/// How often a thread shows that it goes on, and how often that is looked at.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// A thread that has not gone on for so long hangs for good, if so many looks in a row find it so.
const HANGS_AFTER: Duration = Duration::from_mins(2);
const LOOKS: u32 = 3;

impl Heartbeat {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let heartbeat = Self { clock, millis: Arc::default() };
        heartbeat.beat();
        heartbeat
    }

    fn beat(&self) {
        let millis = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Release);
    }

    fn age(&self) -> Duration {
        let last = Duration::from_millis(self.millis.load(Ordering::Acquire));
        self.clock.elapsed().saturating_sub(last)
    }

    /// Beats for ever, on the thread that is watched.
    pub(super) async fn keep(&self) -> ! {
        loop {
            self.beat();
            tokio::time::sleep(BEAT_EVERY).await;
        }
    }

    /// Waits, on another thread, until it hangs for good. The Lease would be renewed for ever. After a pause of the whole
    /// machine, the last beat is old until the thread has had its turn.
    pub(super) async fn stopped(&self) {
        let mut looks = 0;
        while looks < LOOKS {
            tokio::time::sleep(BEAT_EVERY).await;
            looks = if self.age() < HANGS_AFTER { 0 } else { looks + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::clock::ManualClock;

    #[tokio::test]
    async fn a_thread_that_ends_is_noticed_however_it_ends() {
        for how in ["returns", "fails", "panics", "one of its tasks panics"] {
            let worker =
                Worker::start("w", crate::cli::runtime().unwrap(), async move |_| match how {
                    "returns" => Ok(()),
                    "fails" => Err(Error::Usage("no".to_owned())),
                    "panics" => panic!("on purpose"),
                    _ => {
                        let mut tasks = JoinSet::new();
                        tasks.spawn(std::future::ready(())); // it has done its work
                        tasks.spawn(async move { assert!(how.is_empty(), "on purpose") });
                        Err(any_failed(&mut tasks).await)
                    }
                });
            let worker = worker.unwrap();
            let ended = any_ended([&worker]).await.to_string();
            assert_eq!(ended, "thread w stopped unexpectedly", "{how}");
            let (_, runs) = worker.check();
            assert!(!*runs.borrow(), "{how}");
            worker.stop();
        }
    }

    #[tokio::test]
    async fn a_thread_goes_on_while_another_is_busy_and_ends_when_it_is_asked() {
        let (sender, beats) = mpsc::channel();
        let worker = Worker::start("w", crate::cli::runtime().unwrap(), async move |stop| {
            let beating = async {
                loop {
                    sender.send(()).unwrap();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! { () = beating => {}, () = stop => {} }
            Ok(())
        });
        let worker = worker.unwrap();
        // this thread waits without yielding, as one that computes
        for _ in 0..10 {
            beats.recv().unwrap();
        }
        assert!(*worker.check().1.borrow());
        worker.stop();
        assert!(beats.iter().count() < usize::MAX, "its end of the channel is gone");
    }

    #[tokio::test]
    async fn threads_that_are_to_end_do_so_at_the_same_time() {
        // each waits for the other after it was told to end
        let (first, second) = (oneshot::channel(), oneshot::channel());
        let workers = [(first.0, second.1), (second.0, first.1)].map(|(tell, told)| {
            let worker = Worker::start("w", crate::cli::runtime().unwrap(), async move |stop| {
                stop.await;
                drop((tell.send(()), told.await));
                Ok(())
            });
            worker.unwrap()
        });
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            stop_all(workers);
            sender.send(()).unwrap();
        });
        ended.recv_timeout(Duration::from_secs(10)).expect("both end");
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_thread_that_hangs_for_good_is_given_up() {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let heartbeat = Heartbeat::new(clock.clone());
        clock.advance(Duration::from_secs(10));
        assert!(heartbeat.stopped().now_or_never().is_none(), "it computes for a while");
        heartbeat.beat();
        clock.advance(HANGS_AFTER / 2);
        assert!(heartbeat.stopped().now_or_never().is_none());
        clock.advance(HANGS_AFTER / 2);
        heartbeat.stopped().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_goes_on_after_a_pause_of_the_machine() {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let heartbeat = Heartbeat::new(clock.clone());
        let watches = tokio::spawn({
            let heartbeat = heartbeat.clone();
            async move { heartbeat.stopped().await }
        });
        for _ in 0..3 {
            clock.advance(HANGS_AFTER * 5);
            tokio::time::sleep(BEAT_EVERY * 3 / 2).await; // the thread that watches has its turn first
            heartbeat.beat();
            tokio::time::sleep(BEAT_EVERY * 2).await;
        }
        assert!(!watches.is_finished());
    }
}
