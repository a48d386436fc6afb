//! The reports that wait to be written: one for each pod, joined from all that it sent meanwhile.
//!
//! A pod is written at most once in [`INTERVAL`], unless its place was taken meanwhile, and all pods together at most once in
//! [`PACE`]. Namespaces take turns, and each has at most [`AT_WORK_OF_A_NAMESPACE`] writes at work, so that a namespace whose
//! admission is slow delays no other. What waits is looked through at most once in [`PACE`], however many reports come, apart
//! from the search for a place when there is none left.
//!
//! When the reports are [flushed](Queue::flush), there is neither interval nor pace, and a namespace has more writes at work.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use super::PodId;
use crate::clock::Clock;
use crate::locked::Locked;
use crate::progress::Report;

/// The shortest time between two writes of one pod.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
/// The shortest time between two writes of all pods.
const PACE: Duration = Duration::from_millis(40);
/// The most pods, and those of one namespace.
const PODS_MAX: usize = 16_384;
const PODS_OF_A_NAMESPACE: usize = 2_048;
/// The pods of a namespace that have a place even where there is none left: they take it from the namespace with the most.
const PODS_IN_ANY_CASE: usize = 16;
/// The most writes of a namespace at a time, and while the reports are flushed: half of all writers.
const AT_WORK_OF_A_NAMESPACE: usize = 2;
const FLUSHED_OF_A_NAMESPACE: usize = 8;
/// The most failed writes in a row after which a report is given up: about 10 minutes.
const FAILURES_MAX: u32 = 60;
/// How many intervals pass at most after a failed write: few, since a report that comes late may be taken for none.
const FAILURE_INTERVALS_MAX: u32 = 2;

/// The shortest time between two writes of a pod that the API server rejects.
const REJECTED_INTERVAL: Duration = Duration::from_mins(1);
/// The time from a failed write of a pod to the next while the reports are flushed.
const FLUSHED_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The pod has it, or needs nothing more.
    Done,
    /// It may succeed later.
    Failed(Report),
    /// It never succeeds: the report is given up.
    Rejected,
}

/// Why a report has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// Its namespace has as many pods as it may have.
    Namespace,
    /// All namespaces together have.
    Queue,
}

/// The reports that wait.
#[derive(Debug)]
pub(super) struct Queue {
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
    news: Notify,
    /// A write has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    namespaces: BTreeMap<String, Namespace>,
    pods: usize,
    /// The namespace that had its turn last.
    last: String,
    /// Before that, nothing is written, and nobody looks for what is to be written.
    not_before: Duration,
    /// Before that, nothing is forgotten.
    no_forgetting_before: Duration,
    /// What waits is written now, whenever its pod was written last.
    hurry: bool,
}

#[derive(Debug, Default)]
struct Namespace {
    /// By UID.
    pods: BTreeMap<String, Slot>,
    at_work: usize,
}

#[derive(Debug)]
struct Slot {
    name: String,
    report: Option<Report>,
    at_work: bool,
    failures: u32,
    /// Before that, it is not written again.
    not_before: Duration,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This is to be written now.
    Write(PodId, Report),
    /// Nothing before this moment.
    At(Duration),
    /// Nothing.
    Nothing,
}

impl Queue {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, inner: Mutex::default(), news: Notify::new(), ended: Notify::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.locked()
    }

    /// Takes a report, which is joined with one that waits.
    ///
    /// # Errors
    /// There are too many pods.
    pub(super) fn put(&self, pod: PodId, report: Report) -> Result<(), Full> {
        self.inner().put(pod, report, self.clock.elapsed())?;
        self.news.notify_one();
        Ok(())
    }

    /// Waits until something is to be written.
    pub(super) async fn next(&self) -> (PodId, Report) {
        loop {
            let news = self.news.notified();
            let now = self.clock.elapsed();
            let next = self.inner().next(now);
            let pause = match next {
                Next::Write(pod, report) => {
                    // there may be more for another writer
                    self.news.notify_one();
                    return (pod, report);
                }
                Next::At(moment) => Some(moment.saturating_sub(now)),
                Next::Nothing => None,
            };
            let over = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = news => {}
                () = over => {}
            }
        }
    }

    /// Notes how a write ended. Returns whether it is the first of this pod that failed, of those in a row.
    pub(super) fn ended(&self, pod: &PodId, ended: Ended) -> bool {
        let is_first = self.inner().ended(pod, ended, self.clock.elapsed());
        self.news.notify_one();
        self.ended.notify_one();
        is_first
    }

    /// Has what waits written now, whenever its pod was written last, and waits until nothing waits any more.
    pub(super) async fn flush(&self) {
        self.inner().hasten();
        self.news.notify_one();
        while self.inner().waits() {
            self.ended.notified().await;
        }
    }
}

impl Inner {
    /// From here on, what waits is written at once.
    fn hasten(&mut self) {
        (self.hurry, self.not_before) = (true, Duration::ZERO);
        for slot in self.namespaces.values_mut().flat_map(|space| space.pods.values_mut()) {
            slot.not_before = Duration::ZERO;
        }
    }

    fn put(&mut self, pod: PodId, report: Report, now: Duration) -> Result<(), Full> {
        let PodId { namespace, name, uid } = pod;
        if self.pods >= PODS_MAX {
            self.forget(now);
        }
        let space = self.namespaces.get_mut(&namespace);
        let known = space.as_ref().map_or(0, |space| space.pods.len());
        if let Some(slot) = space.and_then(|space| space.pods.get_mut(&uid)) {
            slot.report = Some(report.after(slot.report.as_ref()));
            return Ok(());
        }
        if known >= PODS_OF_A_NAMESPACE {
            return Err(Full::Namespace);
        }
        if !self.has_place(known) {
            return Err(Full::Queue);
        }
        let report = Some(report);
        let slot = Slot { name, report, at_work: false, failures: 0, not_before: now };
        self.namespaces.entry(namespace).or_default().pods.insert(uid, slot);
        self.pods += 1;
        Ok(())
    }

    /// Whether there is a place for one more pod of a namespace of which so many are known, made free if need be.
    fn has_place(&mut self, known: usize) -> bool {
        self.pods < PODS_MAX || (known < PODS_IN_ANY_CASE && self.displace())
    }

    /// Forgets a pod of the namespace with the most: first one without a report that waits, of those the one that was
    /// written least recently. Returns false where no namespace has more pods than each has in any case.
    fn displace(&mut self) -> bool {
        let most = self.namespaces.values_mut().max_by_key(|space| space.pods.len());
        let Some(space) = most.filter(|space| space.pods.len() > PODS_IN_ANY_CASE) else {
            return false;
        };
        let idle = space.pods.iter().filter(|(_, slot)| !slot.at_work);
        let first = idle.min_by_key(|(_, slot)| (slot.report.is_some(), slot.not_before));
        let Some(uid) = first.map(|(uid, _)| uid.clone()) else { return false };
        space.pods.remove(&uid);
        self.pods -= 1;
        true
    }

    fn next(&mut self, now: Duration) -> Next {
        if now < self.not_before {
            return Next::At(self.not_before);
        }
        if !self.hurry {
            self.not_before = now + PACE;
        }
        self.forget(now);
        let after = self.namespaces.range::<str, _>((Excluded(self.last.as_str()), Unbounded));
        let before = self.namespaces.range::<str, _>((Unbounded, Included(self.last.as_str())));
        let firsts = after.chain(before).filter_map(|(name, space)| {
            let (uid, slot) = space.first(self.hurry)?;
            Some((slot.not_before, name.clone(), uid.clone()))
        });
        // the first of those that are due, in the order of turns; or else the one that is due first
        let mut soonest: Option<(Duration, String, String)> = None;
        for first in firsts {
            if first.0 <= now {
                soonest = Some(first);
                break;
            }
            if soonest.as_ref().is_none_or(|soonest| first.0 < soonest.0) {
                soonest = Some(first);
            }
        }
        let Some((due, namespace, uid)) = soonest else { return Next::Nothing };
        if due > now {
            return Next::At(due.max(self.not_before));
        }
        let Some(space) = self.namespaces.get_mut(&namespace) else { return Next::Nothing };
        let Some(slot) = space.pods.get_mut(&uid) else { return Next::Nothing };
        let Some(report) = slot.report.take() else { return Next::Nothing };
        slot.at_work = true;
        space.at_work += 1;
        self.last.clone_from(&namespace);
        Next::Write(PodId { namespace, name: slot.name.clone(), uid }, report)
    }

    fn ended(&mut self, pod: &PodId, ended: Ended, now: Duration) -> bool {
        let Some(space) = self.namespaces.get_mut(&pod.namespace) else { return false };
        let Some(slot) = space.pods.get_mut(&pod.uid) else { return false };
        space.at_work = space.at_work.saturating_sub(usize::from(slot.at_work));
        slot.at_work = false;
        slot.failures = match &ended {
            Ended::Done => 0,
            Ended::Failed(_) | Ended::Rejected => slot.failures.saturating_add(1),
        };
        slot.not_before = now
            + match &ended {
                Ended::Done if self.hurry => Duration::ZERO,
                Ended::Failed(_) if self.hurry => FLUSHED_AGAIN_AFTER,
                Ended::Done | Ended::Failed(_) => {
                    INTERVAL * slot.failures.clamp(1, FAILURE_INTERVALS_MAX)
                }
                Ended::Rejected => REJECTED_INTERVAL,
            };
        if let Ended::Failed(failed) = ended
            && slot.failures < FAILURES_MAX
        {
            slot.report = Some(match slot.report.take() {
                Some(newer) => newer.after(Some(&failed)),
                None => failed,
            });
        }
        slot.failures == 1
    }

    /// Whether a report waits or is being written.
    fn waits(&self) -> bool {
        let mut slots = self.namespaces.values().flat_map(|space| space.pods.values());
        slots.any(|slot| slot.report.is_some() || slot.at_work)
    }

    /// Forgets the pods of which nothing waits, and which may be written again: at most once in [`PACE`].
    fn forget(&mut self, now: Duration) {
        if now < self.no_forgetting_before {
            return;
        }
        self.no_forgetting_before = now + PACE;
        for space in self.namespaces.values_mut() {
            let before = space.pods.len();
            space
                .pods
                .retain(|_, slot| slot.report.is_some() || slot.at_work || slot.not_before > now);
            self.pods -= before - space.pods.len();
        }
        self.namespaces.retain(|_, space| !space.pods.is_empty());
    }
}

impl Namespace {
    /// The pod that may be written first.
    fn first(&self, hurry: bool) -> Option<(&String, &Slot)> {
        let most = if hurry { FLUSHED_OF_A_NAMESPACE } else { AT_WORK_OF_A_NAMESPACE };
        if self.at_work >= most {
            return None;
        }
        let waits = |(_, slot): &(&String, &Slot)| slot.report.is_some() && !slot.at_work;
        self.pods.iter().filter(waits).min_by_key(|(_, slot)| slot.not_before)
    }
}

#[cfg(test)]
mod tests;
