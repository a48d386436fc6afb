use serde_json::{Value, json};

use super::*;
use crate::api::{EvidenceKind, SuspicionEvidence};
use crate::snapshot::Node;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn lost(uid: &str, second: i64) -> SuspicionEvidence {
    SuspicionEvidence {
        kind: EvidenceKind::NodeLost,
        namespace: "n".into(),
        name: uid.into(),
        uid: uid.into(),
        attempt: 0,
        component: None,
        rank: Some("r".into()),
        category: Some("node".into()),
        exit_code: None,
        time: Time(at(second)),
        withdrawn: false,
    }
}

fn testimony(node: &str, uid: &str, second: i64) -> Testimony {
    Testimony { node: node.into(), evidence: lost(uid, second) }
}

/// An object of a node whose UID is `u`.
fn object(node: &str, node_uid: &str, evidence: &[SuspicionEvidence]) -> RawObject {
    let evidence: Value = serde_json::to_value(evidence).unwrap();
    let object = json!({"metadata": {"name": node, "uid": "o", "resourceVersion": "7"},
        "spec": {"nodeUID": node_uid, "evidence": evidence}});
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A cluster of these nodes, all listed.
fn cluster(nodes: &[&str]) -> Cache {
    let cache = Cache::default();
    for node in nodes {
        let site = Site { name: (*node).into(), uid: "u".into(), ..Site::default() };
        cache.put_node(Node::default(), site);
    }
    cache.nodes_listed(&nodes.iter().map(|&node| node.to_owned()).collect());
    cache
}

/// What is due so many seconds after the start.
fn due(known: &SuspicionCache, second: u64) -> Vec<Write> {
    known.due(Duration::from_secs(second), at(300), &Settings::default())
}

#[test]
fn a_node_is_written_at_once_and_then_every_ten_seconds() {
    let (cache, known) = (cluster(&["a"]), SuspicionCache::default());
    assert!(known.testify(&testimony("a", "x", 0), &cache));
    let first = due(&known, 0);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].stored, None);
    assert!(due(&known, 5).is_empty(), "it is being written");
    assert!(known.testify(&testimony("a", "y", 200), &cache));
    known.written(&first[0], Stored { version: "1".into(), ..Stored::default() });
    assert!(due(&known, 5).is_empty());
    let second = due(&known, 10);
    assert_eq!(second[0].record.evidence().len(), 2, "what came meanwhile");
    assert_eq!(second[0].stored.as_ref().unwrap().version, "1");
    known.written(&second[0], Stored::default());
    assert!(known.testify(&testimony("a", "y", 200), &cache), "told again");
    assert!(due(&known, 60).is_empty(), "nothing new");
}

#[test]
fn what_fails_to_be_written_is_merged_with_what_another_wrote() {
    let (cache, known) = (cluster(&["a"]), SuspicionCache::default());
    assert!(known.testify(&testimony("a", "x", 0), &cache));
    assert_eq!(due(&known, 0).len(), 1);
    known.take(Event::Apply(object("a", "u", &[lost("y", 200)])));
    let again = due(&known, 10);
    assert_eq!(again[0].record.evidence().len(), 2);
    assert_eq!(again[0].stored.as_ref().unwrap().version, "7");
    known.take(Event::Delete(object("a", "u", &[])));
    let again = due(&known, 20);
    assert_eq!((again[0].record.evidence().len(), &again[0].stored), (2, &None));
    // that of an earlier Node is replaced
    known.take(Event::Apply(object("a", "old", &[lost("z", 0)])));
    let again = due(&known, 30);
    assert_eq!((again[0].record.evidence().len(), again[0].record.node_uid.as_str()), (2, "u"));
}

#[test]
fn a_node_becomes_suspect_once() {
    let settings = Settings { threshold: 60, ..Settings::default() };
    let write =
        |stored: &[SuspicionEvidence], since: Option<i64>, all: &[SuspicionEvidence]| Write {
            node: "a".into(),
            record: Record::of("u", all.to_vec()),
            stored: Some(Stored {
                suspect_since: since.map(|second| Time(at(second))),
                record: Record::of("u", stored.to_vec()),
                ..Stored::default()
            }),
        };
    let two = [lost("x", 0), lost("y", 200)];
    let three = [lost("x", 0), lost("y", 200), lost("z", 400)];
    for (what, write, now, since, becomes) in [
        ("below", write(&[], None, &two[..1]), 300, None, false),
        ("now", write(&two[..1], None, &two), 300, Some(300), true),
        ("before", write(&two, Some(250), &three), 500, Some(250), false),
        // it has decayed since it was written
        ("again", write(&two, Some(250), &three), 14 * 86_400, None, false),
    ] {
        let spec = write.spec(at(now), &settings);
        let want = since.map(|second| Time(at(second)));
        assert_eq!(
            (spec.suspect_since, write.makes_suspect(at(now), &settings)),
            (want, becomes),
            "{what}"
        );
    }
}

#[test]
fn evidence_about_a_node_that_is_gone_or_about_too_many_is_dropped() {
    let known = SuspicionCache::default();
    assert!(!known.testify(&testimony("a", "x", 0), &cluster(&["b"])));
    let names: Vec<String> = (0..=UNWRITTEN_MAX).map(|number| format!("n{number}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let cache = cluster(&all);
    let taken = all
        .iter()
        .enumerate()
        .filter(|(number, node)| known.testify(&testimony(node, &format!("x{number}"), 0), &cache));
    assert_eq!(taken.count(), UNWRITTEN_MAX);
    assert!(known.testify(&testimony("n0", "y", 500), &cache), "a node that waits already");
}

#[test]
fn evidence_about_an_earlier_node_of_the_name_is_dropped() {
    for (created, want) in [(None, true), (Some(99), true), (Some(100), true), (Some(101), false)] {
        let (cache, known) = (Cache::default(), SuspicionCache::default());
        let created = created.map(at);
        let site = Site { name: "a".into(), uid: "u".into(), created, ..Site::default() };
        cache.put_node(Node::default(), site);
        assert_eq!(known.testify(&testimony("a", "x", 100), &cache), want, "{created:?}");
        assert_eq!(due(&known, 0).len(), usize::from(want), "{created:?}");
    }
}

#[test]
fn what_has_expired_or_is_about_a_node_that_is_gone_is_deleted() {
    let (cache, known, settings) =
        (cluster(&["a", "b"]), SuspicionCache::default(), Settings::default());
    known.take(Event::Apply(object("a", "u", &[lost("x", 0)])));
    known.take(Event::Apply(object("b", "old", &[lost("y", 0)])));
    known.take(Event::Apply(object("gone", "v", &[lost("z", 0)])));
    let names = |second: i64| -> Vec<String> {
        known.expired(&cache, at(second), &settings, 16).into_iter().map(|(node, _)| node).collect()
    };
    assert_eq!(names(1), ["b", "gone"]);
    assert_eq!(names(35 * 86_400), ["a", "b", "gone"]);
    assert_eq!(known.expired(&cache, at(35 * 86_400), &settings, 1).len(), 1);
    let unlisted = known.expired(&Cache::default(), at(1), &settings, 16);
    assert!(unlisted.is_empty(), "before the nodes are listed, none is gone");
}

#[test]
fn what_has_expired_is_not_written_again() {
    let (cache, known, settings) =
        (cluster(&["a"]), SuspicionCache::default(), Settings::default());
    known.take(Event::Apply(object("a", "u", &[lost("old", 0), lost("kept", 86_400)])));
    let later = 35 * 86_400;
    assert!(known.testify(&testimony("a", "new", later), &cache));
    let due = known.due(Duration::ZERO, at(later), &settings);
    let names: Vec<_> = due[0].record.evidence().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["new", "kept"]);
    known.written(&due[0], Stored::default());
    let again = known.due(Duration::from_secs(10), at(later), &settings);
    assert!(again.is_empty(), "it is what was written");
}

#[test]
fn suspects_are_nodes_that_exist() {
    let (known, settings) =
        (SuspicionCache::default(), Settings { threshold: 60, ..Settings::default() });
    let two = [lost("x", 0), lost("y", 200)];
    for (node, uid) in [("a", "u"), ("b", "old"), ("gone", "u")] {
        known.take(Event::Apply(object(node, uid, &two)));
    }
    let suspects = |cache: &Cache| -> Vec<String> {
        known.suspects(cache, at(300), &settings).into_iter().map(|(one, _)| one.node).collect()
    };
    assert_eq!(suspects(&cluster(&["a", "b", "c"])), ["a"]);
    assert!(suspects(&Cache::default()).is_empty(), "the nodes have not been listed");
    known.take(Event::Init);
    known.take(Event::InitDone);
    assert!(suspects(&cluster(&["a"])).is_empty(), "a new list does not show it");
}
