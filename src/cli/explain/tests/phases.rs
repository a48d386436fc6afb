//! The rows of the table of phases, and deletion.

use serde_json::{Value, json};

use super::super::{answer, text};
use super::{at, explain, inputs, job, job_that_is, line, pod, tuned, two, with, wrapper};
use crate::cli::term::Colour;

fn all(wrapper: Value, job: Value, pods: Vec<Value>) -> Vec<Value> {
    [vec![wrapper, job], pods].concat()
}

fn shown(objects: &[Value], second: i64) -> String {
    let fields = ["/nextPhase", "/action", "/reason", "/deadline", "/create", "/delete"];
    line(&explain(objects, second), &fields)
}

#[test]
fn rows_on_the_way_up() {
    let unsuspended = |phase| with(wrapper(phase), "/spec/suspend", json!(false));
    let stranger = |value| with(job(), "/metadata/ownerReferences", value);
    let older = json!([{"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "name": "aw", "uid": "older", "controller": true}]);
    let other = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d",
        "controller": true}]);
    for (what, objects, second, want) in [
        (
            "born suspended",
            vec![with(wrapper(""), "/spec/suspend", json!(true))],
            1,
            "Suspended None null null [] []".to_owned(),
        ),
        (
            "born unsuspended",
            vec![wrapper("")],
            1,
            r#"Resuming Deploy null null ["Job/work"] []"#.into(),
        ),
        ("suspended", vec![wrapper("Suspended")], 1, "Suspended None null null [] []".into()),
        (
            "unsuspended",
            vec![unsuspended("Suspended")],
            1,
            r#"Resuming Deploy null null ["Job/work"] []"#.into(),
        ),
        (
            "to be created",
            vec![wrapper("Resuming")],
            1,
            r#"Resuming Deploy null null ["Job/work"] []"#.into(),
        ),
        ("created", vec![wrapper("Resuming"), job()], 1, "Running None null null [] []".into()),
        (
            "a stranger's name",
            vec![wrapper("Resuming"), stranger(other)],
            1,
            "Failed Fail CreateFailed null [] []".into(),
        ),
        (
            "nobody's name",
            vec![wrapper("Resuming"), stranger(json!([]))],
            1,
            "Failed Fail CreateFailed null [] []".into(),
        ),
        (
            "an older UID's name",
            vec![wrapper("Resuming"), stranger(older)],
            1,
            format!("Resuming Wait CreateFailed {} [] []", at(60)),
        ),
        (
            "suspended",
            vec![with(wrapper("Resuming"), "/spec/suspend", json!(true)), job()],
            1,
            r#"Suspending Delete null null [] ["Job/work"]"#.into(),
        ),
    ] {
        assert_eq!(shown(&objects, second), want, "{what}");
    }
}

#[test]
fn rows_of_running() {
    let running = || wrapper("Running");
    let done = vec![pod("w-0", "Succeeded", 0), pod("w-1", "Succeeded", 0)];
    let complete = job_that_is("Complete", "CompletionsReached");
    for (what, objects, want) in [
        ("healthy", all(running(), job(), two()), "Running None null null [] []"),
        (
            "succeeded",
            all(running(), complete.clone(), done.clone()),
            "Succeeded Succeed null null [] []",
        ),
        (
            "succeeded, not kept",
            all(tuned(running(), "successTTLDuration", "0s"), complete.clone(), done),
            r#"Succeeded Succeed null null [] ["Job/work"]"#,
        ),
        (
            "succeeded, a pod still runs",
            all(running(), complete, two()),
            "Running None null null [] []",
        ),
        (
            "pods succeeded, the Job has not",
            all(running(), job(), vec![pod("w-0", "Succeeded", 0), pod("w-1", "Succeeded", 0)]),
            "Running None null null [] []",
        ),
        (
            "failed",
            all(running(), job_that_is("Failed", "BackoffLimitExceeded"), two()),
            r#"Resetting Restart FailedComponent null [] ["Job/work"]"#,
        ),
        (
            "failing",
            all(running(), job_that_is("FailureTarget", "BackoffLimitExceeded"), two()),
            r#"Resetting Restart FailedComponent null [] ["Job/work"]"#,
        ),
        ("missing", vec![running()], "Resetting Restart MissingComponent null [] []"),
        (
            "suspended",
            all(with(running(), "/spec/suspend", json!(true)), job(), two()),
            r#"Suspending Delete null null [] ["Job/work"]"#,
        ),
        (
            "deleted",
            all(with(running(), "/metadata/deletionTimestamp", json!(at(9))), job(), two()),
            r#"Terminating Delete null null [] ["Job/work"]"#,
        ),
    ] {
        assert_eq!(shown(&objects, 30), want, "{what}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table has as many lines as rows")]
fn rows_on_the_way_down() {
    let going = || with(job(), "/metadata/deletionTimestamp", json!(at(0)));
    let gone = |phase: &str| vec![wrapper(phase)];
    let kept = |phase, key, value| tuned(wrapper(phase), key, value);
    let done = |phase: &str| {
        let quota = json!([{"type": "ResourcesDeployed", "status": "False", "reason": "X",
            "message": "", "lastTransitionTime": at(0)}]);
        vec![with(wrapper(phase), "/status/conditions", quota)]
    };
    let deleted = || with(wrapper("Terminating"), "/metadata/deletionTimestamp", json!(at(0)));
    for (what, objects, second, want) in [
        (
            "resetting",
            all(wrapper("Resetting"), job(), two()),
            1,
            r#"Resetting Delete null null [] ["Job/work"]"#.to_owned(),
        ),
        (
            "resetting, going",
            all(wrapper("Resetting"), going(), two()),
            1,
            format!("Resetting Wait DeletionInitiated {} [] []", at(600)),
        ),
        (
            "resetting, gone",
            gone("Resetting"),
            1,
            format!("Resetting Wait Resetting {} [] []", at(91)),
        ),
        (
            "resetting, paused",
            done("Resetting"),
            89,
            format!("Resetting Wait Resetting {} [] []", at(90)),
        ),
        (
            "resetting, pause over",
            done("Resetting"),
            90,
            r#"Resuming Deploy null null ["Job/work"] []"#.into(),
        ),
        (
            "resetting, suspended",
            all(with(wrapper("Resetting"), "/spec/suspend", json!(true)), job(), vec![]),
            1,
            r#"Suspending Delete null null [] ["Job/work"]"#.into(),
        ),
        (
            "suspending",
            all(wrapper("Suspending"), job(), two()),
            1,
            r#"Suspending Delete null null [] ["Job/work"]"#.into(),
        ),
        ("suspending, gone", gone("Suspending"), 1, "Suspended None null null [] []".into()),
        (
            "failed",
            all(wrapper("Failed"), job(), two()),
            1,
            r#"Failed Delete null null [] ["Job/work"]"#.into(),
        ),
        (
            "failed, kept",
            all(kept("Failed", "deletionOnFailureGracePeriodDuration", "100s"), job(), two()),
            99,
            format!("Failed Wait DeletionPaused {} [] []", at(100)),
        ),
        (
            "failed, suspended",
            all(
                with(
                    kept("Failed", "deletionOnFailureGracePeriodDuration", "100s"),
                    "/spec/suspend",
                    json!(true),
                ),
                job(),
                two(),
            ),
            1,
            r#"Failed Delete null null [] ["Job/work"]"#.into(),
        ),
        ("failed, done", done("Failed"), 1, "Failed None null null [] []".into()),
        (
            "succeeded, kept",
            all(kept("Succeeded", "successTTLDuration", "50s"), job(), vec![]),
            49,
            format!("Succeeded Wait Succeeded {} [] []", at(50)),
        ),
        (
            "succeeded, kept long enough",
            all(kept("Succeeded", "successTTLDuration", "50s"), job(), vec![]),
            50,
            r#"Succeeded Delete null null [] ["Job/work"]"#.into(),
        ),
        (
            "terminating",
            all(deleted(), job(), two()),
            1,
            r#"Terminating Delete null null [] ["Job/work"]"#.into(),
        ),
    ] {
        assert_eq!(shown(&objects, second), want, "{what}");
    }
}

#[test]
fn what_is_suspended_during_a_reset_has_no_pause() {
    let going = || with(job(), "/metadata/deletionTimestamp", json!(at(0)));
    let suspended = "it will be suspended once its resources are deleted";
    for (wrapper, is_suspended, pause) in [
        (tuned(wrapper("Resetting"), "active", "false"), true, None),
        (wrapper("Resetting"), false, Some("  pause     1m30s, after the deletion")),
    ] {
        let (inputs, config) = inputs("{}", &all(wrapper, going(), two()), 1);
        let now = at(1).parse().expect("a moment");
        let said = answer::explain(&inputs, &config, now);
        let lines = text::details(&said, now);
        let found = lines.iter().find(|line| line.starts_with("  pause"));
        assert_eq!(found.map(String::as_str), pause, "{lines:?}");
        assert_eq!(said.message.ends_with(suspended), is_suspended, "{}", said.message);
    }
}

#[test]
fn an_end_has_the_colour_of_its_phase() {
    let gone = json!([{"type": "ResourcesDeployed", "status": "False", "reason": "X",
        "message": "", "lastTransitionTime": at(0)}]);
    for (phase, want) in [("Succeeded", Colour::Green), ("Failed", Colour::Red)] {
        let wrapper = with(wrapper(phase), "/status/conditions", gone.clone());
        let (inputs, config) = inputs("{}", &[wrapper], 1);
        let now = at(1).parse().expect("a moment");
        let [(shown, colour), _] = text::step(&answer::explain(&inputs, &config, now), now);
        assert_eq!((shown.as_str(), colour), (phase, Some(want)));
    }
}

#[test]
fn the_settings_that_keep_resources_have_the_names_of_the_documents() {
    for (phase, key, want) in [
        ("Succeeded", "successTTLDuration", "until successTTLDuration expires"),
        (
            "Failed",
            "deletionOnFailureGracePeriodDuration",
            "until deletionOnFailureGracePeriod expires",
        ),
    ] {
        let answer = explain(&all(tuned(wrapper(phase), key, "100s"), job(), vec![]), 10);
        let message = answer["message"].as_str().unwrap();
        assert!(message.ends_with(want), "{message}");
    }
}

#[test]
fn what_keeps_a_deletion_is_named_and_forced_when_the_grace_is_over() {
    let going = with(job(), "/metadata/deletionTimestamp", json!(at(0)));
    let stuck = with(pod("w-0", "Running", 0), "/metadata/deletionTimestamp", json!(at(0)));
    let objects = all(wrapper("Resetting"), going, vec![stuck]);
    let waiting = explain(&objects, 599);
    assert_eq!(line(&waiting, &["/action", "/retryAfterSeconds"]), "Wait 90");
    assert!(waiting["message"].as_str().unwrap().contains("Pod/w-0 on node node-1"), "{waiting}");
    let forced = explain(&objects, 600);
    assert_eq!(line(&forced, &["/action", "/reason"]), "Delete ForcefulDeletion");
}

#[test]
fn an_appwrapper_of_another_manager_is_left_alone() {
    let managed = with(wrapper("Running"), "/spec/managedBy", json!("kueue.x-k8s.io/multikueue"));
    let answer = explain(&[managed], 30);
    assert_eq!(line(&answer, &["/nextPhase", "/action"]), "Running None");
    assert!(answer["message"].as_str().unwrap().contains("multikueue"), "{answer}");
}
