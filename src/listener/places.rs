//! Which connections have a place, and which one gives way to a new one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Peer;

/// A connection that is still sending gives way to another of the same peer only after so long: a burst
/// must not undo itself.
const FRESH: Duration = Duration::from_secs(1);

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Nothing: the next request has not begun.
    Idle,
    /// The client has not sent everything yet (handshake, head, body), or has not taken the answer.
    Incomplete,
    /// A request is here, and is being answered.
    Answering,
}

/// All places.
#[derive(Debug)]
pub(super) struct Places {
    most: Most,
    table: Mutex<Table>,
}

/// How many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) all: usize,
    pub(super) of_a_peer: usize,
}

#[derive(Debug, Default)]
struct Table {
    open: BTreeMap<u64, Open>,
    next: u64,
}

/// A connection that has a place.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) peer: Peer,
    pub(super) stage: Stage,
    pub(super) since: Instant,
    closed: Arc<Notify>,
}

/// The place of one connection, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    closed: Arc<Notify>,
    places: Arc<Places>,
}

/// Whether there is a place for a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is.
    Free,
    /// There is as soon as this connection is closed.
    Replaces(u64),
    /// There is not.
    None,
}

impl Places {
    pub(super) fn new(most: Most) -> Arc<Self> {
        Arc::new(Self { most, table: Mutex::default() })
    }

    /// A place for a new connection, where there is one; another may be told to close for it.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer) -> Option<Place> {
        let now = Instant::now();
        let mut table = self.table();
        match room(&table.open, peer, now, self.most) {
            Room::Free => {}
            Room::Replaces(id) => table.close(id),
            Room::None => return None,
        }
        let (id, closed) = (table.next, Arc::new(Notify::new()));
        table.next += 1;
        let open = Open { peer, stage: Stage::Incomplete, since: now, closed: closed.clone() };
        table.open.insert(id, open);
        Some(Place { id, closed, places: self.clone() })
    }

    /// Closes a connection that may be closed: something else than places has run out.
    pub(super) fn make_room(&self) {
        let mut table = self.table();
        let idle = table.open.iter().filter(|(_, open)| open.stage != Stage::Answering);
        let first = idle.min_by_key(|(_, open)| (open.stage, open.since)).map(|(id, _)| *id);
        if let Some(id) = first {
            table.close(id);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn close(&mut self, id: u64) {
        if let Some(open) = self.open.remove(&id) {
            open.closed.notify_one();
        }
    }
}

/// Whether there is room for a connection of a peer. Pure.
///
/// No peer takes a place from one that has fewer connections, so a peer that needs few finds a place
/// however many others there are.
pub(super) fn room(
    open: &BTreeMap<u64, Open>,
    peer: Peer,
    now: Instant,
    Most { all, of_a_peer }: Most,
) -> Room {
    let mut counts = BTreeMap::<Peer, usize>::new();
    for each in open.values() {
        *counts.entry(each.peer).or_default() += 1;
    }
    let count = |peer: Peer| counts.get(&peer).copied().unwrap_or_default();
    let own = count(peer);
    if own < of_a_peer && open.len() < all {
        return Room::Free;
    }
    let gives_way = |each: &Open| {
        if each.peer == peer {
            return match each.stage {
                Stage::Idle => true,
                Stage::Incomplete => now.saturating_duration_since(each.since) >= FRESH,
                Stage::Answering => false,
            };
        }
        own < of_a_peer
            && match each.stage {
                Stage::Idle => count(each.peer) > own,
                Stage::Incomplete => count(each.peer) > own + 1,
                Stage::Answering => false,
            }
    };
    let candidates = open.iter().filter(|(_, each)| gives_way(each));
    let first = candidates
        .min_by_key(|(id, each)| (Reverse(count(each.peer)), each.stage, each.since, **id));
    first.map_or(Room::None, |(id, _)| Room::Replaces(*id))
}

impl Place {
    /// Notes what the connection is doing from now on.
    pub(super) fn enter(&self, stage: Stage) {
        let mut table = self.places.table();
        // one that was told to close is there no more
        if let Some(open) = table.open.get_mut(&self.id).filter(|open| open.stage != stage) {
            open.stage = stage;
            open.since = Instant::now();
        }
    }

    /// Waits until the connection is to be closed for another.
    pub(super) async fn lost(&self) {
        self.closed.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table().open.remove(&self.id);
    }
}

#[cfg(test)]
impl Open {
    pub(super) fn given(peer: Peer, stage: Stage, since: Instant) -> Self {
        Self { peer, stage, since, closed: Arc::default() }
    }
}
