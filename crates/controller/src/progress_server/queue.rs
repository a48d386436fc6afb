//! The reports that wait to be written: one for each pod, joined from all that it sent meanwhile.
//!
//! A pod is written at most once in [`INTERVAL`], all pods together at most once in [`PACE`]. Namespaces take turns, and
//! each has at most [`AT_WORK_OF_A_NAMESPACE`] writes at work, so that a namespace whose admission is slow delays no
//! other.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::PodId;
use crate::clock::Clock;
use crate::progress::Report;

/// The shortest time between two writes of one pod.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
/// The shortest time between two writes of all pods.
const PACE: Duration = Duration::from_millis(40);
/// The most pods, and those of one namespace.
const PODS_MAX: usize = 16_384;
const PODS_OF_A_NAMESPACE: usize = 2_048;
/// The most writes of a namespace at a time.
const AT_WORK_OF_A_NAMESPACE: usize = 2;
/// The most failed writes in a row after which a report is given up: about 10 minutes.
const FAILURES_MAX: u32 = 60;
/// How many intervals pass at most after a failed write: few, since a report that comes late may be taken for none.
const FAILURE_INTERVALS_MAX: u32 = 2;

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The pod has it, or needs nothing more.
    Done,
    /// It may succeed later.
    Failed(Report),
}

/// The reports that wait.
#[derive(Debug)]
pub(super) struct Queue {
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    namespaces: BTreeMap<String, Namespace>,
    pods: usize,
    /// The namespace that had its turn last.
    last: String,
    /// Before that, nothing is written.
    not_before: Duration,
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
        Self { clock, inner: Mutex::default(), news: Notify::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a report, which is joined with one that waits.
    ///
    /// # Errors
    /// How long to wait, where there are too many pods.
    pub(super) fn put(&self, pod: PodId, report: Report) -> Result<(), Duration> {
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

    /// Notes how a write ended.
    pub(super) fn ended(&self, pod: &PodId, ended: Ended) {
        self.inner().ended(pod, ended, self.clock.elapsed());
        self.news.notify_one();
    }
}

impl Inner {
    fn put(&mut self, pod: PodId, report: Report, now: Duration) -> Result<(), Duration> {
        let PodId { namespace, name, uid } = pod;
        if self.pods >= PODS_MAX {
            self.forget(now);
        }
        let (pods, most) = (self.pods, PODS_MAX);
        let space = self.namespaces.entry(namespace).or_default();
        let known = space.pods.len();
        match space.pods.get_mut(&uid) {
            Some(slot) => slot.report = Some(report.after(slot.report.as_ref())),
            None if known >= PODS_OF_A_NAMESPACE || pods >= most => return Err(INTERVAL),
            None => {
                let report = Some(report);
                let slot = Slot { name, report, at_work: false, failures: 0, not_before: now };
                space.pods.insert(uid, slot);
                self.pods += 1;
            }
        }
        Ok(())
    }

    fn next(&mut self, now: Duration) -> Next {
        self.forget(now);
        let after = self.namespaces.range::<str, _>((Excluded(self.last.as_str()), Unbounded));
        let before = self.namespaces.range::<str, _>((Unbounded, Included(self.last.as_str())));
        let firsts = after.chain(before).filter_map(|(name, space)| {
            let (uid, slot) = space.first()?;
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
        let due = due.max(self.not_before);
        if due > now {
            return Next::At(due);
        }
        let Some(space) = self.namespaces.get_mut(&namespace) else { return Next::Nothing };
        let Some(slot) = space.pods.get_mut(&uid) else { return Next::Nothing };
        let Some(report) = slot.report.take() else { return Next::Nothing };
        slot.at_work = true;
        space.at_work += 1;
        self.not_before = now + PACE;
        self.last.clone_from(&namespace);
        Next::Write(PodId { namespace, name: slot.name.clone(), uid }, report)
    }

    fn ended(&mut self, pod: &PodId, ended: Ended, now: Duration) {
        let Some(space) = self.namespaces.get_mut(&pod.namespace) else { return };
        let Some(slot) = space.pods.get_mut(&pod.uid) else { return };
        space.at_work = space.at_work.saturating_sub(usize::from(slot.at_work));
        slot.at_work = false;
        slot.failures = match &ended {
            Ended::Done => 0,
            Ended::Failed(_) => slot.failures + 1,
        };
        let intervals = slot.failures.clamp(1, FAILURE_INTERVALS_MAX);
        slot.not_before = now + INTERVAL * intervals;
        if let Ended::Failed(failed) = ended
            && slot.failures < FAILURES_MAX
        {
            slot.report = Some(match slot.report.take() {
                Some(newer) => newer.after(Some(&failed)),
                None => failed,
            });
        }
    }

    /// Forgets the pods of which nothing waits, and which may be written again.
    fn forget(&mut self, now: Duration) {
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
    fn first(&self) -> Option<(&String, &Slot)> {
        if self.at_work >= AT_WORK_OF_A_NAMESPACE {
            return None;
        }
        let waits = |(_, slot): &(&String, &Slot)| slot.report.is_some() && !slot.at_work;
        self.pods.iter().filter(waits).min_by_key(|(_, slot)| slot.not_before)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::progress::Values;

    const SECOND: Duration = Duration::from_secs(1);

    fn pod(namespace: &str, number: usize) -> PodId {
        let (name, uid) = (format!("p{number}"), format!("u{number}"));
        PodId { namespace: namespace.to_owned(), name, uid }
    }

    fn step(second: i64, step: i64) -> Report {
        let at = Timestamp::from_second(1_767_607_200 + second).unwrap();
        Report::new(at, Values { step: Some(step), ..Values::default() }).unwrap()
    }

    /// What is written at a moment, all of it, as fast as it may be.
    fn due(queue: &mut Inner, now: Duration) -> Vec<(String, Report)> {
        let mut all = vec![];
        queue.not_before = Duration::ZERO;
        while let Next::Write(pod, report) = queue.next(now) {
            queue.not_before = Duration::ZERO;
            queue.ended(&pod, Ended::Done, now);
            all.push((format!("{}/{}", pod.namespace, pod.name), report));
        }
        all
    }

    #[test]
    fn a_pod_is_written_once_in_an_interval_and_nothing_is_lost() {
        let mut queue = Inner::default();
        queue.put(pod("a", 1), step(0, 1), Duration::ZERO).unwrap();
        assert_eq!(due(&mut queue, Duration::ZERO), [("a/p1".to_owned(), step(0, 1))]);
        let saved = Values { checkpoint: Some("c".to_owned()), ..Values::default() };
        let saved = Report::new(step(2, 2).at(), saved).unwrap();
        for report in [step(1, 2), saved, step(3, 3)] {
            queue.put(pod("a", 1), report, 3 * SECOND).unwrap();
        }
        assert_eq!(queue.next(4 * SECOND), Next::At(INTERVAL));
        let written = due(&mut queue, INTERVAL);
        let [(_, report)] = written.as_slice() else { panic!("{written:?}") };
        assert_eq!((report.step(), report.at()), (Some(3), step(3, 3).at()));
        assert_eq!(report.checkpoint(), Some(("c", step(2, 2).at())), "it was said in between");
        assert_eq!(queue.next(2 * INTERVAL), Next::Nothing);
        assert_eq!((queue.pods, queue.namespaces.len()), (0, 0), "nothing is remembered");
    }

    #[test]
    fn namespaces_take_turns_at_the_pace_of_all() {
        let mut queue = Inner::default();
        for number in 0..50 {
            queue.put(pod("flood", number), step(0, 1), Duration::ZERO).unwrap();
        }
        queue.put(pod("quiet", 1), step(0, 1), Duration::ZERO).unwrap();
        let (mut now, mut order) = (Duration::ZERO, vec![]);
        for _ in 0..3 {
            match queue.next(now) {
                Next::Write(pod, _) => {
                    queue.ended(&pod, Ended::Done, now);
                    order.push(pod.namespace);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(queue.next(now), Next::At(now + PACE));
            now += PACE;
        }
        assert_eq!(order, ["flood", "quiet", "flood"]);
    }

    #[test]
    fn a_slow_namespace_holds_few_writers() {
        let mut queue = Inner::default();
        for number in 0..9 {
            queue.put(pod("slow", number), step(0, 1), Duration::ZERO).unwrap();
        }
        let mut now = Duration::ZERO;
        for _ in 0..AT_WORK_OF_A_NAMESPACE {
            assert!(matches!(queue.next(now), Next::Write(..)));
            now += PACE;
        }
        assert_eq!(queue.next(now), Next::Nothing, "until one of them has ended");
        queue.put(pod("quiet", 1), step(0, 1), now).unwrap();
        assert!(matches!(queue.next(now), Next::Write(pod, _) if pod.namespace == "quiet"));
    }

    #[test]
    fn a_failed_write_comes_again_with_what_is_newer() {
        let mut queue = Inner::default();
        queue.put(pod("a", 1), step(0, 1), Duration::ZERO).unwrap();
        let mut now = Duration::ZERO;
        for failures in 1..FAILURES_MAX {
            let Next::Write(pod, report) = queue.next(now) else { panic!("{failures}") };
            queue.ended(&pod, Ended::Failed(report), now);
            let later = now + INTERVAL * failures.min(FAILURE_INTERVALS_MAX);
            assert_eq!(queue.next(now), Next::At(later), "{failures}");
            now = later;
        }
        let Next::Write(first, report) = queue.next(now) else { panic!("the last time") };
        queue.put(pod("a", 1), step(9, 2), now).unwrap();
        queue.ended(&first, Ended::Failed(report), now);
        now += INTERVAL * FAILURE_INTERVALS_MAX;
        assert_eq!(due(&mut queue, now), [("a/p1".to_owned(), step(9, 2))], "the pod said more");
        assert_eq!(queue.next(now + INTERVAL), Next::Nothing);
    }

    #[test]
    fn one_namespace_does_not_take_all_places() {
        let mut queue = Inner::default();
        let put = |queue: &mut Inner, namespace: &str, number| {
            queue.put(pod(namespace, number), step(0, 1), Duration::ZERO)
        };
        for number in 0..PODS_OF_A_NAMESPACE {
            assert_eq!(put(&mut queue, "flood", number), Ok(()));
        }
        assert_eq!(put(&mut queue, "flood", PODS_OF_A_NAMESPACE), Err(INTERVAL));
        assert_eq!(put(&mut queue, "flood", 0), Ok(()), "a pod that is there goes on");
        assert_eq!(put(&mut queue, "quiet", 0), Ok(()));
    }

    proptest! {
        /// However reports come and writes end, no pod is written twice within an interval, and the last step of
        /// each pod is written in the end.
        #[test]
        fn every_last_report_is_written(
            moves in prop::collection::vec((0..3_usize, 0..3_usize, 0..3_000_u64, any::<bool>()), 1..120),
        ) {
            let mut queue = Inner::default();
            let mut written = BTreeMap::<PodId, Vec<(Duration, i64)>>::new();
            let (mut last, mut now) = (BTreeMap::new(), Duration::ZERO);
            let mut write = |queue: &mut Inner, now: Duration, fails: bool| {
                if let Next::Write(pod, report) = queue.next(now) {
                    if fails {
                        queue.ended(&pod, Ended::Failed(report), now);
                    } else {
                        queue.ended(&pod, Ended::Done, now);
                        written.entry(pod).or_default().push((now, report.step().unwrap()));
                    }
                }
            };
            for (count, (namespace, number, millis, fails)) in moves.into_iter().enumerate() {
                now += Duration::from_millis(millis);
                let (pod, count) = (pod(["a", "b", "c"][namespace], number), i64::try_from(count).unwrap());
                queue.put(pod.clone(), step(count, count), now).unwrap();
                last.insert(pod, count);
                write(&mut queue, now, fails);
            }
            for _ in 0..500 {
                now += SECOND;
                write(&mut queue, now, false);
            }
            for (pod, step) in last {
                let all = &written[&pod];
                prop_assert_eq!(all.last().map(|(_, step)| *step), Some(step));
                prop_assert!(all.windows(2).all(|two| two[1].0 >= two[0].0 + INTERVAL), "{:?}", all);
            }
            prop_assert_eq!(queue.pods, 0);
        }
    }
}
