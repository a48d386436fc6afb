//! Runs the reconciles that the [`Schedule`] lets begin.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::schedule::{ByStage, Ended, Places, Schedule, Stage};
use crate::api::Phase;
use crate::locked::Locked;
use crate::metrics::Metrics;
use crate::observe::cache::Key;
use crate::observe::store::Store;

/// A reconcile that waits for an answer of the API server costs little but memory here. There, its calls compete with
/// those of other namespaces. A failure is to be seen soon, while what starts needs fewer calls if its pods are ready when
/// Running is written: docs/dev/performance.md has the figures.
const PLACES: Places = Places {
    total: 512,
    per_namespace: ByStage { starting: 8, started: 32 },
    shared: ByStage { starting: 3, started: 3 },
    reserved: 128,
};
/// How often the time is checked when no reconcile is due.
const IDLE: Duration = Duration::from_hours(1);

/// The queue of AppWrappers to be reconciled. Clones share everything.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    schedule: Mutex<Schedule>,
    /// Something waits that did not before, or a timer is new or earlier.
    changed: Notify,
    /// Whether reconciles run. A standby would only collect what is reconciled anyway once it leads.
    is_open: AtomicBool,
    metrics: Metrics,
    /// What is known of the AppWrappers.
    store: Store,
    begun: Instant,
}

impl Queue {
    /// An empty queue of the AppWrappers in a store, closed.
    pub(super) fn new(metrics: Metrics, store: Store) -> Self {
        Self(Arc::new(Shared {
            schedule: Mutex::new(Schedule::new(PLACES)),
            changed: Notify::new(),
            is_open: AtomicBool::new(false),
            metrics,
            store,
            begun: Instant::now(),
        }))
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.0.schedule.locked()
    }

    fn now(&self) -> Duration {
        self.0.begun.elapsed()
    }

    /// Something happened to an AppWrapper. Nothing is remembered while the queue is closed.
    pub(super) fn push(&self, key: &Key) {
        self.push_all([key]);
    }

    /// The same of several.
    pub(super) fn push_all<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        if !self.0.is_open.load(Ordering::Acquire) {
            return;
        }
        let now = self.now();
        let mut schedule = self.schedule();
        let mut is_news = false;
        for key in keys {
            is_news |= schedule.push(key, self.stage(key), now);
        }
        self.0.metrics.queued(schedule.waiting());
        drop(schedule);
        if is_news {
            self.0.changed.notify_one();
        }
    }

    /// An AppWrapper is gone: another of its name does not inherit its pause, except for a moment.
    pub(super) fn forget(&self, key: &Key) {
        let now = self.now();
        self.schedule().forget(key, now);
    }

    /// What happens from here on is remembered.
    pub(super) fn open(&self) {
        self.0.is_open.store(true, Ordering::Release);
    }

    /// Runs reconciles forever.
    pub(super) async fn serve<F>(&self, reconcile: impl Fn(Key) -> F)
    where
        F: Future<Output = Ended>,
    {
        let mut running = FuturesUnordered::new();
        loop {
            while let Some(key) = self.take() {
                let ended = reconcile(key.clone());
                running.push(async move { (key, ended.await) });
            }
            let due = self.schedule().next_due();
            let pause = due.map_or(IDLE, |due| due.saturating_sub(self.now()));
            tokio::select! {
                Some((key, ended)) = running.next() => self.done(&key, ended),
                () = self.0.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn take(&self) -> Option<Key> {
        let now = self.now();
        let mut schedule = self.schedule();
        schedule.wake(now);
        let next = schedule.take();
        self.0.metrics.queued(schedule.waiting());
        if next.is_some() {
            self.0.metrics.waited(schedule.waited());
        }
        next
    }

    fn done(&self, key: &Key, ended: Ended) {
        let (stage, now) = (self.stage(key), self.now());
        self.schedule().done(key, ended, stage, now);
    }

    /// How far an AppWrapper is, as its watch has shown it.
    fn stage(&self, key: &Key) -> Stage {
        let stored = self.0.store.get(key);
        let summary = stored.as_ref().and_then(|stored| stored.summary.as_ref().ok());
        let Some(summary) = summary else { return Stage::Starting };
        match summary.phase {
            Phase::Empty | Phase::Suspended | Phase::Resuming => Stage::Starting,
            Phase::Resetting if summary.resources_deleted => Stage::Starting,
            Phase::Running
            | Phase::Resetting
            | Phase::Suspending
            | Phase::Succeeded
            | Phase::Failed
            | Phase::Terminating => Stage::Started,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::super::schedule::Requeue;
    use super::*;
    use crate::observe::cached_appwrapper::CachedAppWrapper;

    fn key(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn store_of(status: &Value) -> Store {
        let store = Store::default();
        let object = json!({
            "metadata": {"namespace": "n", "name": "a", "uid": "u", "resourceVersion": "1"},
            "spec": {"components": []},
            "status": status,
        });
        let seen = serde_json::from_value(object).unwrap();
        store.apply(Event::Apply(seen), CachedAppWrapper::read);
        store
    }

    #[test]
    fn an_attempt_that_is_to_begin_has_the_places_of_those_that_start() {
        let resources_deleted =
            json!({"phase": "Resetting", "since": {"gone": "2026-01-01T00:00:00Z"}});
        for (status, want) in [
            (json!({}), Stage::Starting),
            (json!({"phase": "Suspended"}), Stage::Starting),
            (json!({"phase": "Resuming"}), Stage::Starting),
            (json!({"phase": "Running"}), Stage::Started),
            (json!({"phase": "Resetting"}), Stage::Started),
            (resources_deleted, Stage::Starting),
            (json!({"phase": "Succeeded"}), Stage::Started),
        ] {
            let queue = Queue::new(Metrics::new(), store_of(&status));
            assert_eq!(queue.stage(&key("n", "a")), want, "{status}");
        }
        let queue = Queue::new(Metrics::new(), Store::default());
        assert_eq!(queue.stage(&key("n", "a")), Stage::Starting, "no longer there");
    }

    const CHANGE: Ended =
        Ended { requeue: Requeue::OnChange, cool_down: Duration::ZERO, yields: false };

    #[tokio::test(start_paused = true)]
    async fn the_depth_counts_each_appwrapper_once() {
        let metrics = Metrics::new();
        let queue = Queue::new(metrics.clone(), Store::default());
        queue.push(&key("n", "c"));
        assert!(metrics.page().contains("appwrapper_queue_depth 0\n"), "nobody leads yet");
        queue.open();
        queue.push_all(&[key("n", "a"), key("n", "b"), key("n", "a")]);
        assert!(metrics.page().contains("appwrapper_queue_depth 2\n"));
        queue.take();
        assert!(metrics.page().contains("appwrapper_queue_depth 1\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_of_each_reconcile_is_measured() {
        let metrics = Metrics::new();
        let queue = Queue::new(metrics.clone(), Store::default());
        queue.open();
        queue.push(&key("n", "a"));
        tokio::time::advance(Duration::from_secs(3)).await;
        queue.push(&key("n", "a"));
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!((queue.take(), queue.take()), (Some(key("n", "a")), None));
        let page = metrics.page();
        for line in ["bucket{le=\"5\"} 0\n", "bucket{le=\"10\"} 1\n", "sum 7\n", "count 1\n"] {
            assert!(page.contains(&format!("appwrapper_queue_seconds_{line}")), "{line} {page}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_hangs_in_one_namespace_delays_no_other() {
        let queue = Queue::new(Metrics::new(), Store::default());
        queue.open();
        for number in 0..1000 {
            queue.push(&key("slow", &number.to_string()));
        }
        let begun = RefCell::new(vec![]);
        let serve = queue.serve(async |key: Key| {
            begun.borrow_mut().push(key.namespace.clone());
            if key.namespace == "slow" {
                std::future::pending::<()>().await;
            }
            CHANGE
        });
        let other = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            queue.push(&key("fast", "a"));
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        tokio::select! { () = serve => {}, () = other => {} }
        let slow = begun.borrow().iter().filter(|name| *name == "slow").count();
        assert_eq!(slow, PLACES.per_namespace.starting);
        assert_eq!(begun.borrow().last().map(String::as_str), Some("fast"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_comes_at_its_time_and_a_change_before() {
        let queue = Queue::new(Metrics::new(), Store::default());
        queue.open();
        queue.push(&key("n", "a"));
        let (at, start) = (RefCell::new(vec![]), Instant::now());
        let serve = queue.serve(async |_| {
            at.borrow_mut().push(start.elapsed().as_secs());
            let requeue = match at.borrow().len() {
                1 => Requeue::After(Duration::from_secs(10)),
                2 => Requeue::After(Duration::from_secs(100)),
                3 => Requeue::NotBefore(Duration::from_secs(50)),
                _ => Requeue::OnChange,
            };
            Ended { requeue, ..CHANGE }
        });
        let changes = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(15)).await;
                if start.elapsed().as_secs() < 60 {
                    queue.push(&key("n", "a"));
                }
            }
        };
        tokio::select! { () = serve => {}, () = changes => {} }
        // a retry after 10 s; a change at 15 s; another at 30 s must wait for the pause
        assert_eq!(*at.borrow(), [0, 10, 15, 65]);
    }
}
