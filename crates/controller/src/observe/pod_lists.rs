//! One LIST for the pods of several AppWrappers of a namespace that are read at the same moment.
//!
//! ```text
//! pods ─┬─ no LIST is under way ────────▶ LIST, at once
//!       └─ one is: wait until it ends ─▶ the first that waits LISTs for all that wait, 50 ms after the one before
//! ```
//!
//! What a LIST shows is no older than its begin: whoever waits is answered by one that begins later. An AppWrapper
//! with many pods lists alone, so that nobody makes another's reads long.
//!
//! In a storm, the API server spends more on the number of LISTs than on what they show: hence the 50 ms.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube::Client;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::cache::Key;
use super::live::{self, Error};
use super::pod_record::PodRecord;
use crate::locked::Locked;

/// The most AppWrappers of one LIST: all their names are in its URL.
const NAMES_MAX: usize = 32;
/// An AppWrapper that is named by more pods lists them alone.
const SHARED_PODS_MAX: usize = 32;
/// How far apart LISTs of a namespace begin while AppWrappers wait for one, unless so many wait that it is full.
const APART: Duration = Duration::from_millis(50);

/// The LISTs of pods that are under way. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct PodLists {
    waiting: Arc<Mutex<BTreeMap<String, VecDeque<Waiter>>>>,
    apart: Duration,
}

/// An AppWrapper whose pods the next LIST of its namespace is to show.
#[derive(Debug)]
struct Waiter {
    name: String,
    turn: oneshot::Sender<Turn>,
}

/// What a waiter is told.
#[derive(Debug)]
enum Turn {
    /// It lists, for itself and others.
    List(Lead),
    /// The pods that name it.
    Listed(Vec<Arc<PodRecord>>),
    /// The LIST has failed for all that wait.
    Failed(Error),
}

/// The right to list in a namespace; the next waiter has it when this is dropped.
#[derive(Debug)]
struct Lead {
    lists: PodLists,
    namespace: String,
    /// The next LIST does not begin before.
    next: Instant,
}

impl PodLists {
    /// While AppWrappers wait, LISTs of a namespace begin at least 50 ms after each other. By default, the next begins
    /// at once.
    #[must_use]
    pub fn apart() -> Self {
        Self { apart: APART, ..Self::default() }
    }

    /// The pods that name an AppWrapper, by a LIST that begins after this call; `known` is how many are known.
    ///
    /// # Errors
    /// Where they cannot be listed, all of them.
    pub async fn pods(
        &self,
        client: &Client,
        key: &Key,
        known: usize,
    ) -> Result<Vec<Arc<PodRecord>>, Error> {
        if known > SHARED_PODS_MAX || !live::fits_label(&key.name) {
            return live::listed_pods(client, &key.namespace, &[&key.name]).await;
        }
        let (lead, others) = match self.enter(key) {
            Ok(lead) => (lead, vec![]),
            Err(turn) => match turn.await {
                Ok(Turn::List(mut lead)) => {
                    let others = lead.others().await;
                    (lead, others)
                }
                Ok(Turn::Listed(pods)) => return Ok(pods),
                Ok(Turn::Failed(error)) => return Err(error),
                // the LIST was rejected, or its reconcile has ended
                Err(_) => return live::listed_pods(client, &key.namespace, &[&key.name]).await,
            },
        };
        let mut names: Vec<&str> = others.iter().map(|other| other.name.as_str()).collect();
        names.push(&key.name);
        let listed = live::listed_pods(client, &key.namespace, &names).await;
        drop(lead);
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return Err(fail(others, error)),
        };
        let mut by_name: BTreeMap<String, Vec<Arc<PodRecord>>> = BTreeMap::new();
        for record in listed {
            let name = record.identity.appwrapper.clone().unwrap_or_default();
            by_name.entry(name).or_default().push(record);
        }
        for Waiter { name, turn } in others {
            // who does not wait any more needs no answer
            drop(turn.send(Turn::Listed(by_name.remove(&name).unwrap_or_default())));
        }
        Ok(by_name.remove(&key.name).unwrap_or_default())
    }

    fn namespaces(&self) -> MutexGuard<'_, BTreeMap<String, VecDeque<Waiter>>> {
        self.waiting.locked()
    }

    /// The right to list where no LIST is under way, or else what tells when it is this one's turn.
    fn enter(&self, key: &Key) -> Result<Lead, oneshot::Receiver<Turn>> {
        let mut namespaces = self.namespaces();
        if let Some(waiting) = namespaces.get_mut(&key.namespace) {
            let (turn, told) = oneshot::channel();
            waiting.push_back(Waiter { name: key.name.clone(), turn });
            return Err(told);
        }
        namespaces.insert(key.namespace.clone(), VecDeque::new());
        Ok(Lead { lists: self.clone(), namespace: key.namespace.clone(), next: self.moment() })
    }

    /// When a LIST may begin that follows one that begins now.
    fn moment(&self) -> Instant {
        Instant::now() + self.apart
    }

    /// The next that lists in a namespace; where nobody waits, nobody has the right any more.
    fn first(&self, namespace: &str) -> Option<Waiter> {
        let mut namespaces = self.namespaces();
        let first = namespaces.get_mut(namespace)?.pop_front();
        if first.is_none() {
            namespaces.remove(namespace);
        }
        first
    }

    /// So many of those that wait in a namespace as fit into a LIST.
    fn others(&self, namespace: &str, is_due: bool) -> Option<Vec<Waiter>> {
        let mut namespaces = self.namespaces();
        let Some(waiting) = namespaces.get_mut(namespace) else { return Some(vec![]) };
        let count = waiting.len().min(NAMES_MAX - 1);
        (is_due || count == NAMES_MAX - 1).then(|| waiting.drain(..count).collect())
    }
}

/// A LIST has failed. If the API server did not answer, has an error of its own or asks to wait, it has failed for all:
/// each of them would only add to its load. If it rejected the LIST, each of the others lists alone.
fn fail(others: Vec<Waiter>, error: Error) -> Error {
    let is_rejected = error.concerns_one_object() && error.code().is_none_or(|code| code < 500);
    if !is_rejected {
        for Waiter { turn, .. } in others {
            drop(turn.send(Turn::Failed(error.again())));
        }
    }
    error
}

impl Lead {
    /// Those for which it lists as well, when the moment has come or the LIST is full.
    async fn others(&mut self) -> Vec<Waiter> {
        let mut others = self.lists.others(&self.namespace, self.lists.apart.is_zero());
        if others.is_none() {
            tokio::time::sleep_until(self.next).await;
            others = self.lists.others(&self.namespace, true);
        }
        self.next = self.lists.moment();
        others.unwrap_or_default()
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let Some(first) = self.lists.first(&self.namespace) else { return };
        let (lists, namespace, next) = (self.lists.clone(), self.namespace.clone(), self.next);
        // one that does not wait any more gives the right back: the message is dropped
        drop(first.turn.send(Turn::List(Self { lists, namespace, next })));
    }
}

#[cfg(test)]
mod tests;
