use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::api::{EvidenceKind, PodSet, SuspicionEvidence};
use crate::config::{NodeSuspicion, THRESHOLD_MAX};
#[cfg(feature = "mutations")]
use crate::mutations::{self, Mutation};
use crate::snapshot::place::{Placement, Site};
use crate::snapshot::{Component, PodTemplate};
use crate::tuning::Period;

use EvidenceKind::{Container, Hardware, NodeLost};

const DAY: i64 = 86_400;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// Evidence by an AppWrapper of a namespace: `ns/aw`, of which the rank and the UID are made.
fn evidence(kind: EvidenceKind, who: &str, second: i64) -> SuspicionEvidence {
    let (namespace, name) = who.split_once('/').unwrap();
    SuspicionEvidence {
        kind,
        namespace: namespace.into(),
        name: name.into(),
        uid: who.into(),
        attempt: 0,
        component: Some("work".into()),
        rank: Some("work-0".into()),
        category: Some("application".into()),
        exit_code: Some(1),
        time: Time(at(second)),
        withdrawn: false,
    }
}

fn points_of(all: &[SuspicionEvidence], second: i64) -> i32 {
    score(&Record::of("u", all.iter().cloned()), at(second), &NodeSuspicion::default())
}

#[test]
fn a_score_follows_from_its_evidence() {
    let lost = |who: &str, second: i64| evidence(NodeLost, who, second);
    let exits = |who: &str| evidence(Container, who, 0);
    let bad = |who: &str| evidence(Hardware, who, 0);
    let again = |one: SuspicionEvidence, rank: &str| SuspicionEvidence {
        rank: Some(rank.into()),
        attempt: 1,
        ..one
    };
    let withdrawn = SuspicionEvidence { withdrawn: true, ..lost("n/x", 0) };
    let after = 300;
    for (what, all, want) in [
        ("nothing", vec![], 0),
        ("one loss", vec![lost("n/a", after)], 50),
        ("two losses", vec![lost("n/a", 0), lost("n/b", after)], 99),
        ("one loss that two lost by", vec![lost("n/a", after), lost("m/b", after)], 50),
        ("two losses by one AppWrapper", vec![lost("n/a", 0), again(lost("n/a", after), "r")], 50),
        ("withdrawn", vec![withdrawn], 0),
        ("an exit code", vec![exits("n/a")], 19),
        ("two of one AppWrapper", vec![exits("n/a"), again(exits("n/a"), "r")], 19),
        ("four of one namespace", vec![exits("n/a"), exits("n/b"), exits("n/c")], 35),
        ("hardware, of one namespace", vec![bad("n/a"), bad("n/b")], 35),
        ("hardware, of two", vec![bad("n/a"), bad("m/b")], 70),
        ("hardware, of three", vec![bad("n/a"), bad("m/b"), bad("o/c")], 100),
        ("a loss and exit codes", vec![lost("n/z", after), exits("n/a"), exits("n/b")], 85),
    ] {
        assert_eq!(points_of(&all, after), want, "{what}");
    }
}

/// Exit codes of one namespace have 80 points at most; the highest threshold is what a node can reach at most.
#[test]
fn a_threshold_can_be_reached() {
    let of = |kind, who: String| evidence(kind, &who, 0);
    let team: Vec<_> = (0..9).map(|one| of(Container, format!("n/a{one}"))).collect();
    let crowd: Vec<_> = (0..40).map(|one| of(Hardware, format!("n{one}/a"))).collect();
    for (what, all, threshold, day, want) in [
        ("one team", &team, 100, 0, 80),
        ("one team", &team, 60, 0, 60),
        ("one team, two days later", &team, 60, 2, 60),
        ("one team, three days later", &team, 60, 3, 59),
        ("everything", &crowd, THRESHOLD_MAX, 0, THRESHOLD_MAX),
    ] {
        let settings =
            NodeSuspicion { threshold, namespace_share: 100, ..NodeSuspicion::default() };
        let record = Record::of("u", all.iter().cloned());
        assert_eq!(score(&record, at(day * DAY), &settings), want, "{what}, of {threshold}");
    }
}

#[test]
fn points_halve_and_evidence_expires() {
    let all = [evidence(NodeLost, "n/a", 0)];
    for (days, want) in [(-1, 50), (0, 50), (7, 25), (14, 12), (28, 3)] {
        assert_eq!(points_of(&all, days * DAY), want, "after {days} days");
    }
    let mut record = Record::of("u", all);
    let half_life = Period::from_secs(7 * 86_400);
    assert_eq!(record.expires_at(half_life), Some(at(35 * DAY)));
    record.expire(at(35 * DAY - 1), half_life);
    assert_eq!(record.evidence().len(), 1);
    record.expire(at(35 * DAY), half_life);
    assert!(record.evidence().is_empty());
}

fn testimony(node: &str, evidence: SuspicionEvidence) -> Testimony {
    Testimony { node: node.into(), evidence }
}

fn scores(suspicions: &Suspicions, second: i64) -> Vec<i32> {
    let settings = NodeSuspicion::default();
    ["a", "b", "c"]
        .iter()
        .map(|node| suspicions.get(node).map_or(0, |record| score(record, at(second), &settings)))
        .collect()
}

#[test]
fn a_failure_that_follows_its_pod_is_no_evidence() {
    let rank = |rank: &str| SuspicionEvidence {
        rank: Some(rank.into()),
        ..evidence(Container, "n/job", 0)
    };
    let code = SuspicionEvidence { exit_code: Some(2), ..rank("work-0") };
    let other = evidence(Container, "n/other", 0);
    for (what, told, want) in [
        ("one", vec![("a", rank("work-0"))], [20, 0, 0]),
        ("the same elsewhere", vec![("a", rank("work-0")), ("b", rank("work-0"))], [0, 0, 0]),
        (
            "and again",
            vec![("a", rank("work-0")), ("b", rank("work-0")), ("a", rank("work-0"))],
            [0, 0, 0],
        ),
        (
            "on a third",
            vec![("a", rank("work-0")), ("b", rank("work-0")), ("c", rank("work-0"))],
            [0, 0, 0],
        ),
        ("another rank", vec![("a", rank("work-0")), ("b", rank("work-1"))], [20, 20, 0]),
        ("another code", vec![("a", rank("work-0")), ("b", code)], [20, 20, 0]),
        ("another AppWrapper", vec![("a", rank("work-0")), ("b", other)], [20, 20, 0]),
    ] {
        let mut suspicions = Suspicions::default();
        for (node, evidence) in told {
            suspicions.testify(&testimony(node, evidence), "u");
        }
        assert_eq!(scores(&suspicions, 0), want, "{what}");
    }
}

#[test]
fn evidence_about_an_earlier_node_of_the_name_is_forgotten() {
    let mut suspicions = Suspicions::default();
    suspicions.testify(&testimony("a", evidence(NodeLost, "n/x", 0)), "old");
    suspicions.testify(&testimony("a", evidence(Container, "n/y", 0)), "new");
    assert_eq!(scores(&suspicions, 0), [20, 0, 0]);
    let record = suspicions.get("a").unwrap();
    let known = |uid: &'static str| [Known { node: "a", uid, record }];
    let settings = NodeSuspicion { threshold: 51, ..NodeSuspicion::default() };
    assert!(suspects(known("newest"), 10, at(0), &settings).is_empty());
}

#[test]
fn a_rank_is_the_name_without_its_random_suffix() {
    for (pod, want) in [
        ("train-0-x7kzq", "train-0"),
        ("train-workers-0-1-crqrn", "train-workers-0-1"),
        ("train-worker-0", "train-worker-0"),
        ("train", "train"),
        ("train-early", "train-early"), // 'a', 'e' and 'y' are not among the letters
        ("-x7kzq", ""),
    ] {
        assert_eq!(rank(pod), want, "{pod}");
    }
}

#[test]
fn suspects_are_at_most_a_twentieth_of_the_nodes_or_one() {
    for (nodes, want) in [(0, 1), (1, 1), (39, 1), (40, 2), (200, 10), (5000, 32)] {
        assert_eq!(suspects_max(nodes), want, "{nodes} nodes");
    }
    let lost = |times: i64| {
        let all = (0..times).map(|one| evidence(NodeLost, &format!("n{one}/a"), one * 120));
        Record::of("u", all)
    };
    let records = [("b", lost(3)), ("a", lost(3)), ("worst", lost(4)), ("fine", lost(1))];
    let known = || records.iter().map(|(node, record)| Known { node, uid: "u", record });
    let of = |nodes: usize| -> Vec<String> {
        let all = suspects(known(), nodes, at(600), &NodeSuspicion::default());
        all.into_iter().map(|one| one.node).collect()
    };
    assert_eq!(of(10), ["worst"]);
    assert_eq!(of(40), ["worst", "a"]);
    assert_eq!(of(100), ["worst", "a", "b"]);
}

#[test]
fn other_nodes_are_required_only_where_they_have_room() {
    let site = |name: &str, cpu: f64| {
        let labels = [("kubernetes.io/hostname".to_owned(), name.to_owned())].into();
        let allocatable = [("cpu".to_owned(), cpu)].into();
        Arc::new(Site { name: name.into(), labels, allocatable, ..Site::default() })
    };
    let sites = [site("a", 4.0), site("b", 4.0), site("c", 8.0)];
    let asks = |pods: i32, cpu: f64| {
        let requests = [("cpu".to_owned(), cpu)].into();
        let placement = Placement { requests, ..Placement::default() };
        Component {
            pod_sets: vec![PodSet { replicas: Some(pods), ..PodSet::default() }],
            templates: vec![PodTemplate { placement, ..PodTemplate::default() }],
            ..Component::default()
        }
    };
    let without = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
    for (pods, cpu, hosts, want) in [
        (2, 4.0, vec!["c"], true),
        (3, 4.0, vec!["c"], false),
        (3, 4.0, vec!["a"], true),
        (1, 8.0, vec!["c"], false),
        (100, 0.0, vec!["a", "b"], true),
        (1, 0.0, vec!["a", "b", "c"], false),
    ] {
        let has = room(&[asks(pods, cpu)], &sites, &without(&hosts));
        assert_eq!(has, want, "{pods} pods of {cpu} without {hosts:?}");
    }
    assert!(!room(&[asks(1, 0.0)], &[], &[]), "no node is known");
}

fn kinds() -> impl Strategy<Value = EvidenceKind> {
    prop_oneof![Just(NodeLost), Just(Hardware), Just(Container)]
}

prop_compose! {
    fn any_evidence(namespaces: usize)(
        kind in kinds(),
        namespace in 0..namespaces,
        name in 0..4_u8,
        rank in 0..2_u8,
        attempt in 0..4_i32,
        second in 0..1_000_000_i64,
    ) -> SuspicionEvidence {
        let who = format!("n{namespace}/a{name}");
        let rank = Some(format!("r{rank}"));
        SuspicionEvidence { attempt, rank, ..evidence(kind, &who, second) }
    }
}

fn shuffled(
    count: usize,
) -> impl Strategy<Value = (Vec<SuspicionEvidence>, Vec<SuspicionEvidence>)> {
    prop::collection::vec(any_evidence(6), 0..count)
        .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
}

proptest! {
    /// However many there are, and however often each is told.
    #[test]
    fn a_record_does_not_depend_on_the_order_of_its_evidence(
        (all, shuffled) in shuffled(60), split in 0..60_usize,
    ) {
        let record = Record::of("u", all.clone());
        let mut one_by_one = Record::of("u", []);
        shuffled.iter().chain(&all).cloned().for_each(|one| one_by_one.add(one));
        prop_assert_eq!(&one_by_one, &record);
        let (left, right) = all.split_at(split.min(all.len()));
        let mut merged = Record::of("u", left.to_vec());
        merged.merge(&Record::of("u", right.to_vec()));
        prop_assert_eq!(&merged, &record);
        prop_assert!(record.evidence().len() <= EVIDENCE_MAX);
    }

    #[test]
    fn a_score_is_bounded_and_only_falls(all in prop::collection::vec(any_evidence(6), 0..40)) {
        let (record, settings) = (Record::of("u", all), NodeSuspicion::default());
        let of = |second| score(&record, at(second), &settings);
        prop_assert!((0..=NODE_LOST_POINTS * 16 + settings.threshold).contains(&of(1_000_000)));
        for second in [1_000_000, 1_500_000, 3_000_000] {
            prop_assert!(of(second) >= of(second + 100_000));
        }
    }

    /// A poison job, however often it fails, whatever its ranks, and in whatever category.
    #[test]
    fn one_appwrapper_makes_no_node_suspect(all in prop::collection::vec(any_evidence(1), 0..40)) {
        let of_one = all.into_iter().map(|one| SuspicionEvidence { uid: "one".into(), ..one });
        prop_assert!(points_of(&of_one.collect::<Vec<_>>(), 0) <= NODE_LOST_POINTS);
    }

    /// A tenant that pins failing pods to the nodes of a rival.
    #[test]
    fn containers_of_two_namespaces_make_no_node_suspect(
        all in prop::collection::vec(any_evidence(2), 0..40),
    ) {
        let by_containers = all.into_iter().filter(|one| one.kind != NodeLost);
        prop_assert!(points_of(&by_containers.collect::<Vec<_>>(), 0) < 100);
    }

    /// Up to the bounds of the records.
    #[test]
    fn points_do_not_depend_on_the_order_in_which_failures_are_told(
        told in prop::collection::vec((0..3_usize, any_evidence(3)), 0..6)
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        let tell = |all: &[(usize, SuspicionEvidence)]| {
            let mut suspicions = Suspicions::default();
            for (node, evidence) in all {
                // an AppWrapper does not change its rank's failure between kinds
                let evidence = SuspicionEvidence { kind: Container, ..evidence.clone() };
                suspicions.testify(&testimony(["a", "b", "c"][*node], evidence), "u");
            }
            scores(&suspicions, 1_000_000)
        };
        prop_assert_eq!(tell(&told.0), tell(&told.1));
    }
}

/// Each mutation breaks one of the sentences above.
#[cfg(feature = "mutations")]
#[test]
fn the_mutations_are_found() {
    let suspect_with = |mutation, told: &[(&str, SuspicionEvidence)]| {
        let mut suspicions = Suspicions::default();
        let settings = NodeSuspicion { threshold: 51, ..NodeSuspicion::default() };
        mutations::put(mutation);
        for (node, evidence) in told {
            suspicions.testify(&testimony(node, evidence.clone()), "u");
        }
        let points = suspicions.get("a").map_or(0, |record| score(record, at(300), &settings));
        mutations::put(None);
        is_suspect(points, &settings)
    };
    let lost = |rank: &str, second: i64| SuspicionEvidence {
        rank: Some(rank.into()),
        ..evidence(NodeLost, "n/a", second)
    };
    let exits = |who: &str| evidence(Container, who, 0);
    let twice = [("a", lost("r0", 0)), ("a", lost("r1", 120))];
    let crowd = [("a", exits("n/a")), ("a", exits("n/b")), ("a", exits("n/c"))];
    let (follows, more) = (evidence(Hardware, "n/a", 0), exits("m/b"));
    let poison = [("a", follows.clone()), ("b", follows), ("a", more), ("a", exits("o/c"))];
    for (mutation, told) in [
        (Mutation::SuspectTwice, &twice[..]),
        (Mutation::NamespaceUnbounded, &crowd[..]),
        (Mutation::WithdrawnStays, &poison[..]),
    ] {
        assert!(!suspect_with(None, told), "{mutation:?}");
        assert!(suspect_with(Some(mutation), told), "{mutation:?}");
    }
}
