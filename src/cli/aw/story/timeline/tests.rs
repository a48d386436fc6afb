use serde_json::{Value, json};

use super::super::drawing::{Shape, drawing};
use super::super::svg::svg;
use super::*;

fn moment(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

/// An AppWrapper around a Job, created at second 0.
fn wrapper(status: &Value) -> Wrapper {
    let object = json!({
        "metadata": {"name": "train", "namespace": "ns", "uid": "u", "creationTimestamp": moment(0),
            "labels": {"kueue.x-k8s.io/queue-name": "gpu"}},
        "spec": {"components": [{"template": {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
            "spec": {"parallelism": 2, "completions": 2,
                "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}},
        }}]},
        "status": status,
    });
    Wrapper::read(&serde_json::from_str(&object.to_string()).unwrap()).unwrap()
}

fn life(name: &str, node: &str, seconds: [Option<i64>; 5], failed: bool) -> Life {
    let [created, started, ended, deleting, gone] = seconds.map(|second| second.map(moment));
    Life {
        name: name.into(),
        uid: format!("{name} on {node}"),
        pod_set: Some((0, 0)),
        node: Some(node.into()),
        created: created.unwrap_or_default(),
        started,
        ended,
        deleting,
        gone,
        failed,
        state: format!("on {node}"),
    }
}

fn of(status: &Value, lives: &[Life], deadline: Option<&Deadline>, now: i64) -> Timeline {
    let wrapper = wrapper(status);
    let now = moment(now);
    timeline(&Given {
        wrapper: &wrapper,
        created: Some(moment(0)),
        lives,
        deletions: &BTreeMap::new(),
        deadline,
        now,
    })
}

/// In seconds: `attempt 0: waiting 0-5, starting 5-10`.
fn text(timeline: &Timeline) -> String {
    let second = |at: Timestamp| at.as_second() - 1_767_225_600;
    let groups = std::iter::once(&timeline.attempts).chain(&timeline.pod_sets);
    let mut text = format!("{} to {}\n", second(timeline.from), second(timeline.to));
    for group in groups {
        for row in &group.rows {
            let span = |span: &Span| {
                format!("{} {}-{}", span.stage.name(), second(span.from), second(span.to))
            };
            let spans: Vec<String> = row.spans.iter().map(span).collect();
            text += &format!("{}: {}\n", row.name, spans.join(", "));
        }
    }
    text
}

fn restarted(last: &Value) -> Value {
    json!({"phase": "Running", "attempts": [
        {"attempt": 0, "startedAt": moment(10), "readyAt": moment(20), "failedAt": moment(100),
         "endedAt": moment(130), "outcome": "Failed", "action": "Restart",
         "failure": {"pod": "w-0", "container": "main", "exitCode": 137, "node": "node-1"}},
        last,
    ]})
}

#[test]
fn each_stage_of_an_attempt_has_its_span() {
    let running =
        restarted(&json!({"attempt": 1, "startedAt": moment(150), "readyAt": moment(160)}));
    insta::assert_snapshot!(text(&of(&running, &[], None, 200)), @r"
    0 to 200
    attempt 0: waiting 0-10, starting 10-20, running 20-100, failing, then tearing down 100-130, pausing 130-150
    attempt 1: starting 150-160, running 160-200
    ");
    let mut unhealthy = running.clone();
    unhealthy["conditions"] = json!([{"type": "Unhealthy", "status": "True", "reason": "R",
        "message": "", "lastTransitionTime": moment(190)}]);
    assert!(text(&of(&unhealthy, &[], None, 200)).ends_with("running 160-190, failing 190-200\n"));
    let mut deleting =
        restarted(&json!({"attempt": 1, "startedAt": moment(150), "readyAt": moment(160),
        "failedAt": moment(170), "outcome": "Failed", "action": "Restart"}));
    deleting["phase"] = "Resetting".into();
    deleting["since"] = json!({"deleting": moment(180)});
    let end = "running 160-170, failing 170-180, tearing down 180-200\n";
    assert!(text(&of(&deleting, &[], None, 200)).ends_with(end));
    deleting["attempts"][1]["endedAt"] = json!(moment(190));
    let end = "tearing down 180-190, pausing 190-200\n";
    assert!(text(&of(&deleting, &[], None, 200)).ends_with(end));
    let waiting = json!({"phase": "Suspended"});
    assert_eq!(text(&of(&waiting, &[], None, 30)), "0 to 30\nno attempt yet: waiting 0-30\n");
}

#[test]
fn what_is_over_ends_and_what_gave_its_quota_back_waits() {
    let mut done =
        restarted(&json!({"attempt": 1, "startedAt": moment(150), "readyAt": moment(160),
        "endedAt": moment(180), "outcome": "Succeeded"}));
    done["phase"] = "Succeeded".into();
    done["attempts"][0]["outcome"] = "Suspended".into();
    let timeline = of(&done, &[], None, 9_000);
    insta::assert_snapshot!(text(&timeline), @r"
    0 to 180
    attempt 0: waiting 0-10, starting 10-20, running 20-100, failing, then tearing down 100-130
    attempt 1: waiting 130-150, starting 150-160, running 160-180
    ");
    assert_eq!(timeline.now, None);
}

#[test]
fn a_long_first_wait_hides_nothing() {
    let status = json!({"phase": "Running", "attempts": [
        {"attempt": 0, "startedAt": moment(90_000), "readyAt": moment(90_030)},
    ]});
    let timeline = of(&status, &[], None, 90_060);
    assert_eq!(
        text(&timeline),
        "89980 to 90060\nattempt 0: waiting 89980-90000, starting 90000-90030, running 90030-90060\n"
    );
    assert_eq!(timeline.notes, ["it waited 25h before its first attempt"]);
}

#[test]
fn pods_of_one_name_share_a_row() {
    let status = restarted(&json!({"attempt": 1, "startedAt": moment(150)}));
    let lives = [
        life("w-0", "node-2", [Some(150), Some(155), None, None, None], false),
        life("w-0", "node-1", [Some(10), Some(15), Some(100), Some(105), Some(130)], true),
        life("w-1", "node-1", [Some(10), Some(15), None, Some(105), Some(130)], false),
    ];
    insta::assert_snapshot!(text(&of(&status, &lives, None, 200)), @r"
    0 to 200
    attempt 0: waiting 0-10, starting 10-20, running 20-100, failing, then tearing down 100-130, pausing 130-150
    attempt 1: starting 150-200
    w-0: starting 10-15, running 15-100, failing 100-105, tearing down 105-130, starting 150-155, running 155-200
    w-1: starting 10-15, running 15-105, tearing down 105-130
    ");
    for (uid, want) in [(Some("w-0 on node-1"), false), (Some("w-0 on node-2"), true), (None, true)]
    {
        let mut status = status.clone();
        status["attempts"][0]["failure"]["podUID"] = json!(uid);
        let row = &of(&status, &lives[..1], None, 200).pod_sets[0].rows[0];
        assert_eq!(row.failed, want, "{uid:?}: only one of the pods of this name failed");
    }
    let many: Vec<Life> = (0..2_000)
        .map(|n| life(&format!("w-{n}"), "n", [Some(10), None, None, None, None], n == 1_999))
        .collect();
    let set = &of(&status, &many, None, 200).pod_sets[0];
    assert_eq!((set.rows.len(), set.left_out), (PODS_MAX, 2_000 - PODS_MAX));
    assert!(set.rows.iter().any(|row| row.name == "w-1999"), "the failed pod is shown");
}

#[test]
fn of_many_pod_sets_those_with_failed_pods_are_shown() {
    let status = json!({"phase": "Running", "attempts": [{"attempt": 0, "startedAt": moment(1)}]});
    let set = |n: usize| Life {
        pod_set: Some((n, 0)),
        ..life(&format!("w{n}"), "n", [Some(10), None, None, None, None], n == 11)
    };
    let lives: Vec<Life> = (0..12).map(set).collect();
    let timeline = of(&status, &lives, None, 200);
    let names: Vec<&str> = timeline.pod_sets.iter().map(|set| set.rows[0].name.as_str()).collect();
    assert_eq!(names, ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w11"]);
    assert_eq!(timeline.notes, ["only 8 of 12 pod sets are shown"]);
    assert_eq!(of(&status, &lives[..POD_SETS_MAX], None, 200).notes, [""; 0]);
}

#[test]
fn contradicting_times_are_put_in_order() {
    for (from, to) in [(i64::MIN / 2, 0), (900, 100), (0, i64::MAX / 2)] {
        let at = |second: i64| Timestamp::from_second(second).map_or(Timestamp::MAX, |at| at);
        let status = json!({"phase": "Resetting", "attempts": [
            {"attempt": 0, "startedAt": at(from), "readyAt": at(to), "failedAt": moment(-7),
             "endedAt": moment(-90)},
            {"attempt": 0, "startedAt": moment(5), "readyAt": Timestamp::MAX},
        ]});
        let timeline = of(&status, &[], None, 60);
        let spans = timeline.attempts.rows.iter().flat_map(|row| &row.spans);
        assert!(timeline.from < timeline.to, "{timeline:?}");
        spans.for_each(|span| assert!(span.from <= span.to, "{timeline:?}"));
        let drawing = drawing(&timeline, "ns/train");
        for shape in &drawing.shapes {
            if let Shape::Bar { x, width, .. } = shape {
                assert!((0..=770).contains(x) && x + width <= 780, "{shape:?}");
            }
        }
    }
}

#[test]
fn a_near_deadline_is_drawn_and_nothing_hostile() {
    let mut status = restarted(&json!({"attempt": 1, "startedAt": moment(150)}));
    status["attempts"][0]["failure"]["reason"] = "<script>\u{1b}[2J".into();
    let deadline = |second| Deadline { at: moment(second), what: "the next attempt begins".into() };
    let near = of(&status, &[], Some(&deadline(230)), 200);
    assert_eq!((near.to, near.deadline.is_some()), (moment(230), true));
    let far = of(&status, &[], Some(&deadline(900)), 200);
    assert_eq!((far.to, far.deadline), (moment(200), None));
    let svg = svg(&drawing(&near, "ns/train"));
    assert!(svg.contains("the next attempt begins"), "{svg}");
    assert!(svg.contains("&lt;script&gt;\\u{1b}[2J") && !svg.contains("<script"), "{svg}");
    let label = "aria-label=\"Timeline of ns/train: attempt 0: Failed, w-0/main 137 &lt;script&gt;";
    assert!(svg.contains(label), "{svg}");
}
