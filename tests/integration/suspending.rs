//! Suspension and deletion, from every phase.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Case, RawObject, job, pod, test, tuned};
use crate::objects::no_more;

/// The phases in which an AppWrapper can be held.
const PHASES: [&str; 8] = [
    "Suspended",
    "Resuming",
    "Running",
    "Resetting",
    "Suspending",
    "Succeeded",
    "Failed",
    "Terminating",
];

/// Brings an AppWrapper to a phase that it does not leave by itself; it has the phase's name.
async fn held(case: &Case, phase: &str) -> String {
    let name = phase.to_lowercase();
    let fails: &[(&str, &str)] = &[("run-for", "0s"), ("exit-code", "1")];
    let (template, settings): (Value, &[(&str, &str)]) = match phase {
        // no Job may be created in this namespace, for now
        "Resuming" => (job(&name, json!({}), &[]), &[]),
        "Resetting" => (
            pod(&name, fails),
            &[("failureGracePeriodDuration", "0s"), ("retryPausePeriodDuration", "1h")],
        ),
        "Failed" => (
            pod(&name, fails),
            &[
                ("failureGracePeriodDuration", "0s"),
                ("retryLimit", "0"),
                ("deletionOnFailureGracePeriodDuration", "1h"),
            ],
        ),
        "Succeeded" => (pod(&name, &[("run-for", "0s")]), &[]),
        "Suspending" | "Terminating" => (pod(&name, &[("stuck", "")]), &[]),
        _ => (pod(&name, &[]), &[]),
    };
    case.wrap(&name, tuned(settings), vec![template]).await;
    match phase {
        "Suspended" | "Suspending" => {
            case.ready(&name, 0).await;
            case.suspend(&name, true).await;
        }
        "Terminating" => {
            case.ready(&name, 0).await;
            case.delete_wrapper(&name).await;
        }
        "Running" => drop(case.ready(&name, 0).await),
        "Resuming" => drop(case.says(&name, "Unhealthy", "exceeded quota").await),
        "Resetting" => drop(case.condition(&name, "ResourcesDeployed", "False").await),
        _ => {}
    }
    case.phase(&name, phase).await;
    name
}

async fn all_held(case: &Case) -> Vec<String> {
    case.create(no_more("count/jobs.batch")).await;
    join_all(PHASES.map(|phase| held(case, phase))).await
}

fn nothing_is_left(seen: &RawObject) {
    assert_eq!(seen.condition("ResourcesDeployed"), "False", "{}", seen.object["status"]);
    assert_eq!(seen.condition("QuotaReserved"), "False", "{}", seen.object["status"]);
}

#[test]
fn suspension_is_answered_in_every_phase() {
    test("suspension_is_answered_in_every_phase", async |case| {
        let names = all_held(&case).await;
        join_all(names.iter().map(|name| case.suspend(name, true))).await;
        for name in ["resuming", "running", "resetting", "suspended"] {
            let seen = case.phase(name, "Suspended").await;
            nothing_is_left(&seen);
            assert_eq!(seen.restarts(), i64::from(name == "resetting"), "{name}");
        }
        // A pod that does not go holds these two.
        for (name, phase) in [("suspending", "Suspending"), ("terminating", "Terminating")] {
            let seen = case.phase(name, phase).await;
            assert_eq!(seen.condition("QuotaReserved"), "True", "{name}");
            case.force_delete_pod(name).await;
        }
        nothing_is_left(&case.phase("suspending", "Suspended").await);
        case.gone("AppWrapper", "terminating").await;
        // What has ended stays: kept after success, deleted at once after failure.
        let failed = case.condition("failed", "ResourcesDeployed", "False").await;
        assert_eq!(failed.phase(), "Failed");
        nothing_is_left(&failed);
        case.others_go_on("other").await;
        let succeeded = case.phase("succeeded", "Succeeded").await;
        assert_eq!(succeeded.condition("ResourcesDeployed"), "True");
        for name in &names {
            case.lawful(name).await;
        }
    });
}

#[test]
fn deletion_is_answered_in_every_phase() {
    test("deletion_is_answered_in_every_phase", async |case| {
        let names = all_held(&case).await;
        let deletes = names.iter().filter(|name| *name != "terminating");
        join_all(deletes.map(|name| case.delete_wrapper(name))).await;
        for name in ["suspending", "terminating"] {
            let seen = case.phase(name, "Terminating").await;
            assert_eq!(seen.condition("QuotaReserved"), "True", "{name}");
            case.force_delete_pod(name).await;
        }
        for name in &names {
            case.gone("AppWrapper", name).await;
            case.lawful(name).await;
        }
    });
}

#[test]
fn a_resumed_appwrapper_is_another_attempt_and_no_retry() {
    test("a_resumed_appwrapper_is_another_attempt_and_no_retry", async |case| {
        let life = [("run-for", "1s"), ("fail-until-attempt", "1")];
        case.wrap("aw", json!({}), vec![job("j", json!({}), &life), pod("p", &[])]).await;
        // One retry, then two suspensions.
        case.ready("aw", 1).await;
        for attempt in [2, 3] {
            case.suspend("aw", true).await;
            let suspended = case.phase("aw", "Suspended").await;
            assert_eq!(suspended.attempts().last().unwrap()["outcome"], "Suspended");
            nothing_is_left(&suspended);
            case.suspend("aw", false).await;
            let seen = case.ready("aw", attempt).await;
            assert_eq!(seen.restarts(), 1);
        }
        let pods = case.log();
        let labels: Vec<&str> = pods
            .uids("Pod", "p")
            .iter()
            .filter_map(|uid| pods.all("Pod").find(|pod| pod.uid() == uid))
            .filter_map(|pod| {
                pod.object["metadata"]["labels"]["workload.codeflare.dev/attempt"].as_str()
            })
            .collect();
        assert_eq!(labels, ["0", "1", "2", "3"]);
        case.lawful("aw").await;
    });
}

#[test]
fn suspension_does_not_restart_the_deletion_of_a_reset() {
    test("suspension_does_not_restart_the_deletion_of_a_reset", async |case| {
        let fails = [("run-for", "0s"), ("exit-code", "1")];
        let templates = vec![job("j", json!({}), &fails), pod("p", &[("stuck", "")])];
        case.wrap("aw", json!({}), templates).await;
        let reset = case.phase("aw", "Resetting").await;
        case.says("aw", "DeletingResources", "Pod/p").await;
        case.suspend("aw", true).await;
        let suspending = case.phase("aw", "Suspending").await;
        let began = |seen: &RawObject| seen.moment_at("/status/since/deleting");
        assert_eq!(began(&suspending), began(&reset));
        case.force_delete_pod("p").await;
        let done = case.phase("aw", "Suspended").await;
        nothing_is_left(&done);
        assert_eq!(done.restarts(), 1);
        case.lawful("aw").await;
    });
}
