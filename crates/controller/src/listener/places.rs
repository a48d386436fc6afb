//! Which connections have a place, and which one gives way to a new one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Peer;
use crate::locked::Locked;

/// A connection that is still sending gives way to one of a peer that has as many only after so long: a burst
/// must not undo itself.
const FRESH: Duration = Duration::from_secs(1);

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Nothing: the next request has not begun.
    Idle,
    /// The handshake or the head of a request is on its way.
    Head,
    /// The body of a request is on its way.
    Body,
    /// A request is here, and is being answered.
    Answering,
    /// The answer is being sent; parts of it may not be there yet.
    Sending,
    /// All of the answer is there, and the rest of it is on its way.
    Flushing,
}

/// Who gives way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    Idle,
    /// The client has not sent everything, or has not taken everything.
    Incomplete,
    /// Never.
    Answering,
}

impl Stage {
    const fn worth(self) -> Worth {
        match self {
            Self::Idle => Worth::Idle,
            Self::Head | Self::Body | Self::Sending | Self::Flushing => Worth::Incomplete,
            Self::Answering => Worth::Answering,
        }
    }
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
    told: Arc<Told>,
}

/// What a connection is told.
#[derive(Debug, Default)]
struct Told {
    /// It is to be closed for another.
    closed: Notify,
    /// Its stage is another.
    changed: Notify,
}

/// The place of one connection, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    told: Arc<Told>,
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
        let (id, told) = (table.next, Arc::<Told>::default());
        table.next += 1;
        let open = Open { peer, stage: Stage::Head, since: now, told: told.clone() };
        table.open.insert(id, open);
        Some(Place { id, told, places: self.clone() })
    }

    /// Closes a connection that may be closed: something else than places has run out.
    pub(super) fn make_room(&self) {
        let mut table = self.table();
        let all = table.open.iter().map(|(id, open)| (open.stage.worth(), open.since, *id));
        let first = all.filter(|(worth, ..)| *worth != Worth::Answering).min().map(|(.., id)| id);
        if let Some(id) = first {
            table.close(id);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.locked()
    }
}

impl Table {
    fn close(&mut self, id: u64) {
        if let Some(open) = self.open.remove(&id) {
            open.told.closed.notify_one();
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
        let is_own = each.peer == peer;
        let (has_more, has_many_more) = (count(each.peer) > own, count(each.peer) > own + 1);
        let is_stale = now.saturating_duration_since(each.since) >= FRESH;
        if !is_own && own >= of_a_peer {
            return false;
        }
        match each.stage.worth() {
            Worth::Idle => is_own || has_more,
            Worth::Incomplete => has_many_more || is_stale && (is_own || has_more),
            Worth::Answering => false,
        }
    };
    let candidates = open.iter().filter(|(_, each)| gives_way(each));
    let first = candidates
        .min_by_key(|(id, each)| (Reverse(count(each.peer)), each.stage.worth(), each.since, **id));
    first.map_or(Room::None, |(id, _)| Room::Replaces(*id))
}

impl Place {
    /// What the connection is doing, and since when; nothing where it is to be closed.
    pub(super) fn stage(&self) -> Option<(Stage, Instant)> {
        self.places.table().open.get(&self.id).map(|open| (open.stage, open.since))
    }

    /// Notes what the connection is doing from now on.
    pub(super) fn enter(&self, stage: Stage) {
        self.change(|_| true, stage);
    }

    /// Notes that one stage follows where it is in another.
    pub(super) fn follow(&self, before: Stage, stage: Stage) {
        self.change(|now| now == before, stage);
    }

    fn change(&self, is_meant: impl FnOnce(Stage) -> bool, stage: Stage) {
        // one that was told to close is there no more
        if let Some(open) = self.places.table().open.get_mut(&self.id)
            && is_meant(open.stage)
        {
            open.stage = stage;
            open.since = Instant::now();
            self.told.changed.notify_one();
        }
    }

    /// Waits for another stage.
    pub(super) async fn changed(&self) {
        self.told.changed.notified().await;
    }

    /// Waits until the connection is to be closed for another.
    pub(super) async fn lost(&self) {
        self.told.closed.notified().await;
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
        Self { peer, stage, since, told: Arc::default() }
    }
}
