use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::observe::records::Identity;
use crate::progress;
use crate::snapshot::PodPhase;

fn key(name: &str) -> Key {
    Key { namespace: "n".into(), name: name.into() }
}

fn pod(name: &str, aw: &str) -> Arc<PodRecord> {
    let identity = Identity {
        namespace: "n".into(),
        name: name.into(),
        uid: format!("{name}-uid"),
        appwrapper: Some(aw.into()),
        ..Identity::default()
    };
    Arc::new(PodRecord { identity, ..PodRecord::default() })
}

fn names(pod_cache: &mut PodCache, aw: &str) -> Vec<String> {
    let look = pod_cache.look(&key(aw), "uid");
    look.records.iter().map(|record| record.identity.name.clone()).collect()
}

fn not_ours(record: &PodRecord, doubt: Option<Doubt>) -> NotOurs {
    let name = record.identity.name.clone();
    NotOurs { name, claims: claims(record), ended: record.pod.has_ended(), doubt }
}

#[test]
fn a_pod_whose_label_changes_is_moved() {
    let mut pod_cache = PodCache::default();
    assert_eq!(pod_cache.put(pod("p", "a")), BTreeSet::from([key("a")]));
    assert_eq!(pod_cache.put(pod("p", "b")), BTreeSet::from([key("a"), key("b")]));
    assert_eq!(
        (names(&mut pod_cache, "a").len(), names(&mut pod_cache, "b")),
        (0, vec!["p".into()])
    );
    // the event of the removal shows the last label
    assert_eq!(pod_cache.remove(&pod("p", "b")), BTreeSet::from([key("b")]));
    assert_eq!((pod_cache.count(&key("a")), pod_cache.count(&key("b"))), (0, 0));
    // one that shows another label than was known removes it all the same
    pod_cache.put(pod("p", "a"));
    pod_cache.remove(&pod("p", "c"));
    assert_eq!(pod_cache.count(&key("a")), 0);
    assert!(pod_cache.homes.is_empty());
}

#[test]
fn every_pod_is_shown_with_its_record_unless_it_was_put_aside() {
    let mut pod_cache = PodCache::default();
    let all = |pod_cache: &PodCache| -> Vec<(String, String, bool)> {
        let each = pod_cache.all();
        each.map(|(key, name, record)| (key.name.clone(), name.to_owned(), record.is_some()))
            .collect()
    };
    let (p, q) = (pod("p", "a"), pod("q", "a"));
    for record in [p, q.clone(), pod("r", "b")] {
        pod_cache.put(record);
    }
    names(&mut pod_cache, "a");
    pod_cache.put_aside(&key("a"), vec![not_ours(&q, None)]);
    let one = |aw: &str, name: &str, kept| (aw.to_owned(), name.to_owned(), kept);
    let want = [one("a", "p", true), one("a", "q", false), one("b", "r", true)];
    assert_eq!(all(&pod_cache), want);
    pod_cache.remove(&q);
    assert_eq!(all(&pod_cache).len(), 2);
}

#[test]
fn newer_progress_is_kept_and_is_no_reason_to_look() {
    let mut pod_cache = PodCache::default();
    let reports = |at: &str, ready: bool| {
        let mut record = pod("p", "a");
        let one = Arc::make_mut(&mut record);
        one.pod.progress = Some(progress::parse(&format!(r#"{{"at":"{at}"}}"#)));
        one.pod.phase = if ready { PodPhase::Running } else { PodPhase::Pending };
        record
    };
    let early = "2026-01-05T10:00:00Z";
    let late = "2026-01-05T10:01:00Z";
    pod_cache.put(pod("p", "a"));
    for (report, is_reason, why) in [
        (reports(early, false), true, "the first report"),
        (reports(late, false), false, "a newer one"),
        (reports(early, false), true, "an older one: the deadline is earlier"),
        (reports(late, true), true, "the pod runs, too"),
        (reports("soon", true), true, "it cannot be read"),
        (pod("p", "a"), true, "it is gone"),
    ] {
        assert_eq!(!pod_cache.put(report.clone()).is_empty(), is_reason, "{why}");
        let kept = pod_cache.get(&key("a"), "p");
        assert_eq!(kept.map(|one| &one.pod.progress), Some(&report.pod.progress), "{why}");
    }
}

#[test]
fn only_a_complete_deletion_is_remembered_as_one() {
    let mut pod_cache = PodCache::default();
    let over = |name: &str| PodRecord { is_over: true, ..PodRecord::clone(&pod(name, "a")) };
    pod_cache.put(pod("p", "a"));
    pod_cache.look(&key("a"), "uid");
    pod_cache.put(pod("q", "a"));
    pod_cache.remove(&Arc::new(over("p")));
    pod_cache.remove(&pod("q", "a"));
    assert_eq!(pod_cache.look(&key("a"), "uid").over, BTreeSet::from(["p-uid".to_owned()]));
    assert_eq!(pod_cache.look(&key("a"), "uid"), CachedPods::default(), "told once");
    // of an AppWrapper that nobody looks at nothing is kept
    pod_cache.put(pod("p", "nobody"));
    pod_cache
        .remove(&Arc::new(PodRecord { is_over: true, ..PodRecord::clone(&pod("p", "nobody")) }));
    assert!(!pod_cache.groups.contains_key(&key("nobody")));
}

#[test]
fn what_is_put_aside_costs_nothing_until_it_changes() {
    let mut pod_cache = PodCache::default();
    let stranger = pod("s", "a");
    pod_cache.put(stranger.clone());
    pod_cache.put(pod("p", "a"));
    pod_cache.look(&key("a"), "uid");
    pod_cache.put_aside(&key("a"), vec![not_ours(&stranger, None)]);
    assert_eq!(names(&mut pod_cache, "a"), ["p"]);
    assert!(pod_cache.is_strangers(&key("a"), &stranger));
    assert_eq!(pod_cache.count(&key("a")), 2);
    let mut busy = stranger.clone();
    Arc::make_mut(&mut busy).pod.phase = PodPhase::Running;
    assert!(pod_cache.put(busy).is_empty(), "its status is nobody's concern");
    let mut claims_more = stranger.clone();
    Arc::make_mut(&mut claims_more).identity.appwrapper_uid = Some("u".into());
    assert!(!pod_cache.is_strangers(&key("a"), &claims_more));
    assert_eq!(pod_cache.put(claims_more).len(), 1);
    assert_eq!(names(&mut pod_cache, "a"), ["p", "s"]);
    // what has changed since it was looked at is not put aside
    pod_cache.put_aside(&key("a"), vec![not_ours(&stranger, None)]);
    assert_eq!(names(&mut pod_cache, "a"), ["p", "s"]);
}

#[test]
fn of_what_is_put_aside_nothing_is_kept_when_it_is_gone() {
    let mut pod_cache = PodCache::default();
    let ended = |name: &str| {
        let mut record = pod(name, "a");
        let seen = Arc::make_mut(&mut record);
        (seen.is_over, seen.pod.phase) = (true, PodPhase::Failed);
        record
    };
    let (ours, stranger) = (ended("p"), ended("s"));
    pod_cache.put(ours.clone());
    pod_cache.put(stranger.clone());
    pod_cache.look(&key("a"), "uid");
    pod_cache.put_aside(&key("a"), vec![not_ours(&stranger, None)]);
    assert!(pod_cache.remove(&stranger).is_empty());
    assert!(pod_cache.groups[&key("a")].deleted.is_empty());
    assert!(pod_cache.groups[&key("a")].over.is_empty(), "no look asks for it");
    assert_eq!(pod_cache.remove(&ours).len(), 1);
    assert!(!pod_cache.groups[&key("a")].deleted.is_empty());
}

#[test]
fn an_undetermined_pod_is_counted_until_it_goes_ends_or_is_ours() {
    let mut pod_cache = PodCache::default();
    let all: Vec<Arc<PodRecord>> = (0..5).map(|n| pod(&format!("p{n}"), "a")).collect();
    for record in &all {
        pod_cache.put(record.clone());
    }
    pod_cache.look(&key("a"), "uid");
    let doubt = Some(Doubt::NoOwner);
    pod_cache.put_aside(&key("a"), all.iter().map(|record| not_ours(record, doubt)).collect());
    let held = pod_cache.holding(&key("a"));
    assert_eq!((held.count, held.live, held.named.len()), (5, 5, NAMED_MAX));
    assert_eq!(pod_cache.remove(&all[0]).len(), 1, "one that holds and goes is a reason to look");
    let mut ended = all[1].clone();
    Arc::make_mut(&mut ended).pod.phase = PodPhase::Failed;
    assert_eq!(pod_cache.put(ended.clone()).len(), 1);
    assert_eq!(pod_cache.holding(&key("a")).count, 3);
    pod_cache.put_aside(&key("a"), vec![not_ours(&ended, Some(Doubt::OwnerGone))]);
    let held = pod_cache.holding(&key("a"));
    assert_eq!((held.count, held.live), (4, 3));
    pod_cache.take_back(&key("a"), all[2..3].iter().chain(&all[..1]));
    assert_eq!(names(&mut pod_cache, "a"), ["p2"], "one that is gone does not come back");
    // a new list keeps what was found
    pod_cache.replace(all[2..4].to_vec());
    assert_eq!(
        (names(&mut pod_cache, "a"), pod_cache.holding(&key("a")).count),
        (vec!["p2".into()], 1)
    );
    pod_cache.forget(&key("a"));
    assert!(pod_cache.look(&key("a"), "another").lacks, "what was found was about another");
    assert_eq!(pod_cache.holding(&key("a")).count, 0);
    assert!(pod_cache.look(&key("a"), "another").lacks, "until they are listed");
    // what the watch shows is known again once it was listed, and nothing else
    pod_cache.take_in(&key("a"), &[all[3].clone(), pod("unseen", "a")]);
    let known = pod_cache.look(&key("a"), "another");
    assert_eq!((known.records, known.lacks), (vec![all[2].clone(), all[3].clone()], false));
}

#[test]
fn what_a_watch_shows_while_pods_are_listed_counts() {
    let mut pod_cache = PodCache::default();
    let all: Vec<Arc<PodRecord>> = (0..4).map(|n| pod(&format!("p{n}"), "a")).collect();
    for record in &all {
        pod_cache.put(record.clone());
    }
    pod_cache.look(&key("a"), "uid");
    let doubt = Some(Doubt::Unavailable);
    pod_cache.put_aside(&key("a"), all.iter().map(|record| not_ours(record, doubt)).collect());
    pod_cache.release(&key("a"));
    assert_eq!(pod_cache.holding(&key("a")), Undetermined::default());
    assert_eq!(pod_cache.count(&key("a")), 4);
    // a panic meanwhile does not make them forgotten
    pod_cache.forget(&key("a"));
    assert!(pod_cache.look(&key("a"), "uid").lacks);
    let mut runs = all[0].clone();
    Arc::make_mut(&mut runs).pod.phase = PodPhase::Running;
    assert_eq!(pod_cache.put(runs.clone()), BTreeSet::from([key("a")]));
    assert_eq!(pod_cache.remove(&all[1]).len(), 1);
    pod_cache.take_in(&key("a"), &all[..3]);
    let known = pod_cache.look(&key("a"), "uid");
    assert_eq!((known.records, known.lacks), (vec![runs, all[2].clone()], false));
    assert_eq!(pod_cache.count(&key("a")), 2, "the list does not show the last one");
    // those of which nothing was found out are put aside again
    pod_cache.put_aside(&key("a"), vec![not_ours(&all[2], doubt)]);
    assert_eq!((pod_cache.kept(&key("a")), pod_cache.holding(&key("a")).count), (1, 1));
}

#[test]
fn what_had_ended_and_a_new_list_does_not_show_is_seen_once_more() {
    for (phase, is_seen) in
        [(PodPhase::Failed, true), (PodPhase::Succeeded, true), (PodPhase::Running, false)]
    {
        let mut record = pod("p", "a");
        Arc::make_mut(&mut record).pod.phase = phase;
        let mut other = record.clone();
        "other-uid".clone_into(&mut Arc::make_mut(&mut other).identity.uid);
        for (listed, is_lost) in
            [(vec![], true), (vec![other], true), (vec![record.clone()], false)]
        {
            let mut pod_cache = PodCache::default();
            pod_cache.look(&key("a"), "uid");
            pod_cache.put(record.clone());
            pod_cache.replace(listed);
            let is_noted = !pod_cache.take_deleted(&key("a")).is_empty();
            assert_eq!(is_noted, is_seen && is_lost, "{phase:?}");
            assert!(pod_cache.take_deleted(&key("a")).is_empty(), "once");
        }
    }
}

/// A kubelet deletes a pod with a grace period of 0 once it has ended, and the API server then moves the deletion timestamp
/// to that moment.
#[test]
fn the_first_request_of_a_deletion_is_kept() {
    let requested = |name: &str, uid: &str, second: Option<i64>| {
        let mut record = pod(name, "a");
        let one = Arc::make_mut(&mut record);
        uid.clone_into(&mut one.identity.uid);
        let at = second.map(|second| Timestamp::from_second(second).unwrap());
        (one.identity.deletion_requested, one.pod.deletion_requested) = (at, at);
        (one.is_over, one.pod.phase) = (second.is_some(), PodPhase::Failed);
        record
    };
    let second = |record: &PodRecord| {
        assert_eq!(record.identity.deletion_requested, record.pod.deletion_requested);
        record.pod.deletion_requested.map(Timestamp::as_second)
    };
    for (first, later, kept) in [
        ((None, "u"), (Some(5), "u"), Some(5)),
        ((Some(2), "u"), (Some(5), "u"), Some(2)),
        ((Some(5), "u"), (Some(2), "u"), Some(2)),
        ((Some(2), "u"), (Some(5), "v"), Some(5)),
    ] {
        let [first, later] = [first, later].map(|(at, uid)| requested("p", uid, at));
        let mut pod_cache = PodCache::default();
        pod_cache.look(&key("a"), "uid");
        pod_cache.put(first.clone());
        assert_eq!(second(&pod_cache.continued(&key("a"), later.clone())), kept, "a list");
        pod_cache.replace(vec![later.clone()]);
        assert_eq!(pod_cache.get(&key("a"), "p").and_then(second), kept, "a relist");
        pod_cache.replace(vec![first]);
        pod_cache.put(later.clone());
        assert_eq!(pod_cache.get(&key("a"), "p").and_then(second), kept, "an event");
    }
}
