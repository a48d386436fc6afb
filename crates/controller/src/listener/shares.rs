use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Peer;
use crate::locked::Locked;

/// The number of holders that are known above which those that hold nothing are forgotten.
const HOLDERS_KNOWN: usize = 256;

/// A limited resource of which one holder, such as a peer or a namespace, may hold only a part.
#[derive(Debug)]
pub struct Shares<K = Peer> {
    all: Arc<Semaphore>,
    most: u32,
    of_one: u32,
    holders: Mutex<BTreeMap<K, Arc<Semaphore>>>,
}

/// A part that is held until this is dropped.
#[derive(Debug)]
pub struct Share {
    _of_holder: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl<K: Ord> Shares<K> {
    /// The total amount, and the most that each holder may have.
    #[must_use]
    pub fn new(most: u32, of_one: u32) -> Self {
        let all = Arc::new(Semaphore::new(most as usize));
        Self { all, most, of_one: of_one.min(most), holders: Mutex::default() }
    }

    /// Waits for a part; never more than a holder may have. Without a holder only the whole counts.
    pub async fn take(&self, holder: Option<K>, amount: u32) -> Share {
        let most = if holder.is_some() { self.of_one } else { self.most };
        // the semaphores are never closed; the holder's comes first, so that a holder at its own limit does
        // not block others
        let of_holder = match holder {
            Some(holder) => self.of(holder).acquire_many_owned(amount.min(most)).await.ok(),
            None => None,
        };
        let of_all = self.all.clone().acquire_many_owned(amount.min(most)).await.ok();
        Share { _of_holder: of_holder, _of_all: of_all }
    }

    /// Whether some of the whole is left: who waits then has its own part already.
    #[must_use]
    pub fn is_any_left(&self) -> bool {
        self.all.available_permits() > 0
    }

    fn of(&self, holder: K) -> Arc<Semaphore> {
        let mut holders = self.holders.locked();
        if holders.len() >= HOLDERS_KNOWN {
            // held by a permit or by who waits for one
            holders.retain(|_, held| Arc::strong_count(held) > 1);
        }
        let new = || Arc::new(Semaphore::new(self.of_one as usize));
        holders.entry(holder).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt;

    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "a peer may be unknown")]
    const fn peer(number: u8) -> Option<Peer> {
        Some(Peer::V4(Ipv4Addr::new(10, 0, 0, number)))
    }

    #[test]
    fn a_peer_holds_its_part_and_leaves_the_rest() {
        let shares = Shares::new(10, 6);
        let take = |peer, amount| shares.take(peer, amount).now_or_never();
        let first = take(peer(1), 6).expect("there is enough");
        assert!(take(peer(1), 1).is_none() && shares.is_any_left(), "it has its part");
        let second = take(peer(2), 4).expect("another has some left");
        assert!(take(peer(3), 1).is_none() && !shares.is_any_left(), "all is taken");
        drop(first);
        assert!(take(peer(3), 9).is_some(), "never more than a part is taken");
        drop(second);
        assert!(take(None, 100).is_some(), "who has no peer has the whole");
    }

    #[test]
    fn of_who_holds_nothing_nothing_is_kept() {
        let shares = Shares::new(10, 6);
        let held = shares.take(peer(1), 6).now_or_never().expect("there is enough");
        for number in 0..2_000_u64 {
            let peer = Some(Peer::V6(number));
            assert!(shares.take(peer, 4).now_or_never().is_some());
        }
        assert!(shares.holders.lock().unwrap().len() <= HOLDERS_KNOWN);
        assert!(shares.take(peer(1), 1).now_or_never().is_none(), "who holds something is known");
        drop(held);
    }
}
