//! Where AppWrappers are asked to be looked at, and how many of them wait.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::runtime::reflector::ObjectRef;

use crate::metrics::Metrics;
use crate::observe::cache::Key;
use crate::observe::stored::Stored;

/// Asks for AppWrappers to be looked at; one that waits already is not asked for twice.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    sender: UnboundedSender<ObjectRef<Stored>>,
    waiting: Arc<Mutex<BTreeSet<Key>>>,
    /// Whether anybody looks. A standby would only pile up what is looked at anyway when it leads.
    is_open: Arc<AtomicBool>,
    metrics: Metrics,
}

impl Queue {
    /// A queue, and what comes out of it.
    pub(super) fn new(metrics: Metrics) -> (Self, UnboundedReceiver<ObjectRef<Stored>>) {
        let (sender, requests) = unbounded();
        let (waiting, is_open) = Default::default();
        (Self { sender, waiting, is_open, metrics }, requests)
    }

    /// Asks for an AppWrapper to be looked at.
    pub(super) fn push(&self, key: &Key) {
        if !self.is_open.load(Ordering::Acquire) {
            return;
        }
        self.change(|waiting| waiting.insert(key.clone()));
        // Fails only when the controller has ended, and then nobody waits for it.
        drop(self.sender.unbounded_send(ObjectRef::new(&key.name).within(&key.namespace)));
    }

    /// What is asked for from here on is looked at.
    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// Asks for several.
    pub(super) fn push_all<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        keys.into_iter().for_each(|key| self.push(key));
    }

    /// An AppWrapper is being looked at, or there is no such AppWrapper.
    pub(super) fn taken(&self, key: &Key) {
        self.change(|waiting| waiting.remove(key));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<Key>) -> bool) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut waiting) {
            self.metrics.queued(waiting.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_counts_each_appwrapper_once() {
        let metrics = Metrics::new();
        let (queue, _requests) = Queue::new(metrics.clone());
        let key = |name: &str| Key { namespace: "n".to_owned(), name: name.to_owned() };
        queue.push(&key("c"));
        assert!(metrics.page().contains("appwrapper_queue_depth 0\n"), "nobody looks yet");
        queue.open();
        queue.push_all(&[key("a"), key("b"), key("a")]);
        assert!(metrics.page().contains("appwrapper_queue_depth 2\n"));
        queue.taken(&key("a"));
        queue.taken(&key("a"));
        assert!(metrics.page().contains("appwrapper_queue_depth 1\n"));
    }
}
