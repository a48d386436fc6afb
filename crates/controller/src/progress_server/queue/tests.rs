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
    let next = queue.next(now + PACE);
    assert!(matches!(next, Next::Write(pod, _) if pod.namespace == "quiet"));
}

#[test]
fn what_is_flushed_has_no_pace_and_leaves_writers_to_others() {
    let (mut queue, now) = (Inner::default(), Duration::ZERO);
    for number in 0..=FLUSHED_OF_A_NAMESPACE {
        queue.put(pod("slow", number), step(0, 1), now).unwrap();
    }
    queue.hasten();
    let mut at_work = vec![];
    for _ in 0..FLUSHED_OF_A_NAMESPACE {
        let Next::Write(pod, report) = queue.next(now) else { panic!("one is due") };
        at_work.push((pod, report));
    }
    assert_eq!(queue.next(now), Next::Nothing, "until one of them has ended");
    queue.put(pod("quiet", 1), step(0, 1), now).unwrap();
    assert!(matches!(queue.next(now), Next::Write(pod, _) if pod.namespace == "quiet"));
    let (failed, report) = at_work.remove(0);
    queue.ended(&failed, Ended::Failed(report), now);
    let Next::Write(last, _) = queue.next(now) else { panic!("another pod is due") };
    assert_ne!(last, failed);
    queue.ended(&last, Ended::Done, now);
    assert_eq!(queue.next(now), Next::At(FLUSHED_AGAIN_AFTER));
    assert!(matches!(queue.next(FLUSHED_AGAIN_AFTER), Next::Write(pod, _) if pod == failed));
}

#[test]
fn a_failed_write_comes_again_with_what_is_newer() {
    let mut queue = Inner::default();
    queue.put(pod("a", 1), step(0, 1), Duration::ZERO).unwrap();
    let mut now = Duration::ZERO;
    for failures in 1..FAILURES_MAX {
        let Next::Write(pod, report) = queue.next(now) else { panic!("{failures}") };
        let is_first = queue.ended(&pod, Ended::Failed(report), now);
        assert_eq!(is_first, failures == 1, "{failures}");
        let later = now + INTERVAL * failures.min(FAILURE_INTERVALS_MAX);
        assert_eq!(queue.next(now + PACE), Next::At(later), "{failures}");
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
fn a_rejected_write_comes_again_after_a_minute_with_what_is_newest() {
    let mut queue = Inner::default();
    let mut now = Duration::ZERO;
    for (minute, is_first) in [(0, true), (1, false), (2, false)] {
        queue.put(pod("a", 1), step(minute, minute), now).unwrap();
        assert_eq!(queue.next(now), Next::Write(pod("a", 1), step(minute, minute)));
        assert_eq!(queue.ended(&pod("a", 1), Ended::Rejected, now), is_first, "{minute}");
        queue.put(pod("a", 1), step(minute, 7), now + INTERVAL).unwrap();
        let later = now + REJECTED_INTERVAL;
        assert_eq!(queue.next(now + 11 * INTERVAL), Next::At(later), "{minute}");
        now = later;
    }
    assert_eq!(due(&mut queue, now), [("a/p1".to_owned(), step(2, 7))]);
    queue.put(pod("a", 1), step(9, 9), now).unwrap();
    now += INTERVAL;
    assert!(matches!(queue.next(now), Next::Write(..)));
    assert!(queue.ended(&pod("a", 1), Ended::Rejected, now), "the first after a success");
    assert_eq!(queue.next(now + REJECTED_INTERVAL), Next::Nothing);
    assert_eq!(queue.pods, 0, "a pod that says no more is forgotten");
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
    assert_eq!(put(&mut queue, "flood", PODS_OF_A_NAMESPACE), Err(Full::Namespace));
    assert_eq!(put(&mut queue, "flood", 0), Ok(()), "a pod that is there goes on");
    assert_eq!(put(&mut queue, "quiet", 0), Ok(()));
}

#[test]
fn several_flooding_namespaces_leave_places_to_others() {
    let mut queue = Inner::default();
    let put = |queue: &mut Inner, namespace: &str, number| {
        queue.put(pod(namespace, number), step(0, 1), Duration::ZERO)
    };
    let busy: Vec<String> = (0..8).map(|number| format!("busy-{number}")).collect();
    for number in 0..PODS_OF_A_NAMESPACE {
        assert!(busy.iter().all(|namespace| put(&mut queue, namespace, number).is_ok()));
    }
    assert_eq!(queue.pods, PODS_MAX);
    let Next::Write(at_work, _) = queue.next(Duration::ZERO) else { panic!("one is due") };
    for namespace in ["quiet", "silent"] {
        for number in 0..PODS_IN_ANY_CASE {
            assert_eq!(put(&mut queue, namespace, number), Ok(()), "{namespace}");
        }
        assert_eq!(put(&mut queue, namespace, PODS_IN_ANY_CASE), Err(Full::Queue), "{namespace}");
        assert_eq!(put(&mut queue, namespace, 0), Ok(()), "a pod that is there goes on");
    }
    assert_eq!(put(&mut queue, &busy[0], PODS_OF_A_NAMESPACE), Err(Full::Queue));
    let held = |namespace: &String| queue.namespaces[namespace].pods.len();
    assert!(busy.iter().all(|namespace| held(namespace) == PODS_OF_A_NAMESPACE - 4));
    let all: usize = queue.namespaces.values().map(|space| space.pods.len()).sum();
    assert_eq!((queue.pods, all), (PODS_MAX, PODS_MAX), "no more in all");
    assert!(queue.namespaces[&at_work.namespace].pods.contains_key(&at_work.uid));
}

#[test]
fn a_pod_that_only_waits_for_its_interval_makes_room_first() {
    let mut queue = Inner::default();
    for number in 0..=PODS_IN_ANY_CASE {
        queue.put(pod("busy", number), step(0, 1), Duration::ZERO).unwrap();
    }
    let Next::Write(written, _) = queue.next(Duration::ZERO) else { panic!("one is due") };
    queue.ended(&written, Ended::Done, Duration::ZERO);
    assert!(queue.displace());
    assert!(!queue.namespaces["busy"].pods.contains_key(&written.uid));
    assert!(!queue.displace(), "no namespace has more than each has in any case");
    assert_eq!(queue.pods, PODS_IN_ANY_CASE);
}

#[test]
fn the_pod_that_was_written_first_makes_room_first() {
    for waits in [false, true] {
        let (mut queue, mut now) = (Inner::default(), Duration::ZERO);
        let mut order = vec![];
        // the UIDs are in the other order
        for number in (10..30).rev() {
            queue.put(pod("busy", number), step(0, 1), now).unwrap();
            order.extend(due(&mut queue, now).into_iter().map(|(name, _)| name));
            now += PACE;
        }
        for number in 10..30 {
            if waits {
                queue.put(pod("busy", number), step(1, 2), now).unwrap();
            }
        }
        assert_eq!(order.len(), 20);
        for name in order.iter().take(20 - PODS_IN_ANY_CASE) {
            assert!(queue.displace());
            let mut pods = queue.namespaces["busy"].pods.values();
            assert!(pods.all(|slot| format!("busy/{}", slot.name) != *name), "{waits} {name}");
        }
    }
}

/// However many reports come.
#[test]
fn what_waits_is_looked_through_once_in_a_pace() {
    let mut queue = Inner::default();
    queue.put(pod("a", 1), step(0, 1), Duration::ZERO).unwrap();
    due(&mut queue, Duration::ZERO);
    let (now, soon) = (2 * SECOND, 2 * SECOND + PACE / 2);
    queue.put(pod("a", 1), step(1, 2), now).unwrap();
    assert_eq!(queue.next(now), Next::At(INTERVAL), "nothing is due");
    queue.put(pod("a", 2), step(1, 1), soon).unwrap();
    assert_eq!(queue.next(soon), Next::At(now + PACE), "nobody has looked");
    assert!(matches!(queue.next(now + PACE), Next::Write(written, _) if written == pod("a", 2)));
    // nor are pods looked through that may be forgotten
    let over = Slot {
        name: "p3".to_owned(),
        report: None,
        at_work: false,
        failures: 0,
        not_before: Duration::ZERO,
    };
    queue.namespaces.get_mut("a").unwrap().pods.insert("u3".to_owned(), over);
    queue.pods += 1;
    for (moment, stays) in [(now + PACE, true), (now + 2 * PACE, false)] {
        queue.forget(moment);
        assert_eq!(queue.namespaces["a"].pods.contains_key("u3"), stays, "{moment:?}");
    }
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
