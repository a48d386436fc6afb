//! Keeps a status small enough to be stored with the rest of the object.

use std::io;

use super::conform::conforms;
use super::read::within_bounds;
use crate::api::{AppWrapperStatus, Attempt, Phase, condition};

/// The most bytes of a status, whatever the rest of the object has.
pub const BYTES_MAX: usize = 256 * 1024;
/// What etcd stores with certainty: its own limit is 1.5 MiB for the whole request, and each write adds to
/// `managedFields`.
const OBJECT_BYTES_MAX: usize = 1280 * 1024;
/// So much is tried whatever the rest of the object has.
const BYTES_LEAST: usize = 16 * 1024;

/// The bytes that the status of an object may have whose other parts have `rest` bytes.
const fn budget(rest: usize) -> usize {
    let left = OBJECT_BYTES_MAX.saturating_sub(rest);
    if left > BYTES_MAX {
        BYTES_MAX
    } else if left < BYTES_LEAST {
        BYTES_LEAST
    } else {
        left
    }
}

/// What is written of a status that has changed: what the definition accepts, and what fits beside `rest`
/// bytes of the object's other parts. `stored` is the status of before.
///
/// What was dropped comes back only where there is plenty of room, so that an object at the edge is not
/// written again and again.
#[must_use]
pub fn writable(
    status: AppWrapperStatus,
    stored: &AppWrapperStatus,
    rest: usize,
) -> AppWrapperStatus {
    let was_cut = stored.phase != Phase::Empty && stored.component_status.is_empty();
    let budget = if was_cut { budget(rest) / 2 } else { budget(rest) };
    let text = serde_json::to_string(&status).unwrap_or_default();
    if text.len() <= budget && conforms(&text) {
        return status;
    }
    fit(within_bounds(status), budget)
}

/// Drops what is least needed, step by step, until a status has at most so many bytes. Phase, counts,
/// deadlines, `QuotaReserved`, `ResourcesDeployed`, `PodsOverQuota`, the number of the attempt and `usage`
/// always stay.
#[must_use]
pub fn fit(mut status: AppWrapperStatus, budget: usize) -> AppWrapperStatus {
    for step in STEPS {
        if bytes(&status) <= budget {
            break;
        }
        step(&mut status);
    }
    status
}

/// The least that a status can be.
#[must_use]
pub fn minimal(status: &AppWrapperStatus) -> AppWrapperStatus {
    let mut least = status.clone();
    for step in STEPS {
        step(&mut least);
    }
    least
}

fn bytes(status: &AppWrapperStatus) -> usize {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, status).map_or(usize::MAX, |()| counter.0)
}

/// Counts what is written.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Step = fn(&mut AppWrapperStatus);

/// What is dropped, the least needed first.
const STEPS: [Step; 7] = [
    messages_of_attempts,
    older_attempts,
    messages_of_conditions,
    conditions_that_say_nothing,
    components,
    other_lists,
    other_conditions,
];

/// The last words of failed pods.
fn messages_of_attempts(status: &mut AppWrapperStatus) {
    let failures = status.attempts.iter_mut().filter_map(|attempt| attempt.failure.as_mut());
    failures.for_each(|failure| failure.message = None);
}

/// The recorded attempts, but for the one that runs.
fn older_attempts(status: &mut AppWrapperStatus) {
    let older = status.attempts.len().saturating_sub(1);
    status.attempts.drain(..older);
}

fn messages_of_conditions(status: &mut AppWrapperStatus) {
    let own = status.conditions.iter_mut();
    let of_components = status.component_status.iter_mut().flat_map(|one| &mut one.conditions);
    own.chain(of_components).for_each(|condition| condition.message.clear());
}

/// That a component was created is told by its UID as well.
fn conditions_that_say_nothing(status: &mut AppWrapperStatus) {
    for component in status.component_status.iter_mut().filter(|one| one.uid.is_some()) {
        component.conditions.retain(|condition| {
            condition.type_ != condition::RESOURCES_DEPLOYED || condition.status != "True"
        });
    }
}

/// All that is known of single components: their owner references tell whose they are. The list goes as a
/// whole, since Kueue takes pod sets that it does not show for none. A pod set that is ready is found to be
/// so again.
fn components(status: &mut AppWrapperStatus) {
    status.component_status.clear();
    if let Some(since) = &mut status.since {
        since.pod_sets.retain(|entry| !entry.ready);
    }
}

/// Pod sets that are not ready have their time from when the last of them stopped being so.
fn other_lists(status: &mut AppWrapperStatus) {
    if let Some(since) = &mut status.since {
        let last = since.pod_sets.drain(..).map(|entry| entry.since).max_by_key(|time| time.0);
        since.deployed = since.deployed.take().max(last);
    }
    status.avoid_nodes.clear();
    status.suspect_nodes = None;
    status.pending_memory.clear();
    for attempt in &mut status.attempts {
        let Attempt { attempt: number, started_at, outcome, action, .. } = std::mem::take(attempt);
        *attempt = Attempt { attempt: number, started_at, outcome, action, ..Attempt::default() };
    }
}

fn other_conditions(status: &mut AppWrapperStatus) {
    // what runs too many pods is suspended by what is stored
    let kept =
        [condition::QUOTA_RESERVED, condition::RESOURCES_DEPLOYED, condition::PODS_OVER_QUOTA];
    status.conditions.retain(|condition| kept.contains(&condition.type_.as_str()));
}
