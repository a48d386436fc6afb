//! One LIST for the pods of several AppWrappers of a namespace that are read at the same moment.
//!
//! ```text
//! pods ─┬─ no LIST is under way ────────▶ LIST, at once
//!       └─ one is: wait until it ends ─▶ the first that waits LISTs for all that wait
//! ```
//!
//! What a LIST shows is no older than its begin: whoever waits is answered by one that begins later. An AppWrapper
//! with many pods lists alone, so that nobody makes another's reads long.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use tokio::sync::oneshot;

use super::cache::Key;
use super::live::{self, Error};
use super::pod_record::PodRecord;

/// The most AppWrappers of one LIST: all their names are in its URL.
const NAMES_MAX: usize = 32;
/// An AppWrapper that is named by more pods lists them alone.
const SHARED_PODS_MAX: usize = 32;

/// The LISTs of pods that are under way. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct PodLists(Arc<Mutex<BTreeMap<String, VecDeque<Waiter>>>>);

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
}

/// The right to list in a namespace; the next waiter has it when this is dropped.
#[derive(Debug)]
struct Lead {
    lists: PodLists,
    namespace: String,
    others: Vec<Waiter>,
}

impl PodLists {
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
        let mut lead = match self.enter(key) {
            Ok(lead) => lead,
            Err(turn) => match turn.await {
                Ok(Turn::List(lead)) => lead,
                Ok(Turn::Listed(pods)) => return Ok(pods),
                // the LIST has failed, or its reconcile has ended
                Err(_) => return live::listed_pods(client, &key.namespace, &[&key.name]).await,
            },
        };
        let others = std::mem::take(&mut lead.others);
        let mut names: Vec<&str> = others.iter().map(|other| other.name.as_str()).collect();
        names.push(&key.name);
        let listed = live::listed_pods(client, &key.namespace, &names).await;
        drop(lead);
        let mut by_name: BTreeMap<String, Vec<Arc<PodRecord>>> = BTreeMap::new();
        for record in listed? {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        Ok(Lead { lists: self.clone(), namespace: key.namespace.clone(), others: vec![] })
    }

    /// The next that lists in a namespace, and those for which it does.
    fn next(&self, namespace: &str) -> Option<(Waiter, Vec<Waiter>)> {
        let mut namespaces = self.namespaces();
        let waiting = namespaces.get_mut(namespace)?;
        let Some(first) = waiting.pop_front() else {
            namespaces.remove(namespace);
            return None;
        };
        let count = waiting.len().min(NAMES_MAX - 1);
        Some((first, waiting.drain(..count).collect()))
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let Some((first, others)) = self.lists.next(&self.namespace) else { return };
        let (lists, namespace) = (self.lists.clone(), self.namespace.clone());
        // one that does not wait any more gives the right back: the message is dropped
        drop(first.turn.send(Turn::List(Self { lists, namespace, others })));
    }
}

#[cfg(test)]
mod tests;
