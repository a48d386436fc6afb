//! Work beside a reconcile, which waits for it: it ends in time, or is given up, and no namespace has all slots for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::locked::Locked;
use crate::telemetry;

/// How long it may take.
const WITHIN: Duration = Duration::from_secs(3);

/// Does the work.
///
/// # Errors
/// Why it was not done, for the log.
pub(super) async fn in_time<E>(work: impl Future<Output = Result<(), E>>) -> Result<(), String>
where
    E: std::error::Error + 'static,
{
    match tokio::time::timeout(WITHIN, Box::pin(work)).await {
        Ok(done) => done.map_err(|error| telemetry::chain(&error)),
        Err(_) => Err(format!("no response within {} s", WITHIN.as_secs())),
    }
}

/// Slots for work of which each takes much memory. The last ones are for namespaces that hold none.
#[derive(Debug)]
pub(super) struct Slots {
    all: usize,
    reserved: usize,
    held: Mutex<BTreeMap<String, usize>>,
}

/// A slot, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot<'s> {
    slots: &'s Slots,
    namespace: &'s str,
}

impl Slots {
    /// So many slots, the last of which are for namespaces that hold none.
    pub(super) const fn new(all: usize, reserved: usize) -> Self {
        Self { all, reserved, held: Mutex::new(BTreeMap::new()) }
    }

    /// A slot for a namespace; none where too many are taken.
    pub(super) fn take<'s>(&'s self, namespace: &'s str) -> Option<Slot<'s>> {
        let mut held = self.held();
        let free = self.all.saturating_sub(held.values().sum());
        let needed = if held.contains_key(namespace) { self.reserved + 1 } else { 1 };
        if free < needed {
            return None;
        }
        *held.entry(namespace.to_owned()).or_default() += 1;
        Some(Slot { slots: self, namespace })
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.held.locked()
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut held = self.slots.held();
        if let Some(count) = held.get_mut(self.namespace) {
            *count -= 1;
            if *count == 0 {
                held.remove(self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_namespace_has_all_slots() {
        let slots = Slots::new(4, 2);
        let (first, second) = (slots.take("a"), slots.take("a"));
        assert!(first.is_some() && second.is_some());
        assert!(slots.take("a").is_none(), "the last two are for others");
        let other = slots.take("b");
        assert!(other.is_some() && slots.take("b").is_none());
        assert!(slots.take("c").is_some());
        drop((first, other));
        assert!(slots.take("a").is_some(), "a slot is free again");
        drop(second);
        assert!(slots.held().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_given_up() {
        let never = std::future::pending::<Result<(), std::io::Error>>();
        assert_eq!(in_time(never).await, Err("no response within 3 s".to_owned()));
        assert_eq!(in_time(async { Ok::<_, std::io::Error>(()) }).await, Ok(()));
    }
}
