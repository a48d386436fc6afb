//! What fails is noticed, decided about, and started again while retries are left.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::deeds::seconds;
use crate::harness::{Case, RawObject, job, pod, test, tuned};
use crate::objects::{app, job_set, no_more, pytorch_job};

/// Waits for one attempt that failed for a reason, and one that succeeded.
async fn restarted_once(case: &Case, name: &str, reason: &str) -> RawObject {
    let done = case.phase(name, "Succeeded").await;
    assert_eq!((done.restarts(), done.attempts().len()), (1, 2));
    assert_eq!(done.attempts()[0]["outcome"], "Failed");
    assert_eq!(done.attempts()[0]["action"], "Restart");
    assert_eq!(done.attempts()[1]["outcome"], "Succeeded");
    let log = case.log();
    assert_eq!(log.first(name, "Resetting").condition_field("Unhealthy", "reason"), reason);
    case.lawful(name).await;
    done
}

#[test]
fn a_failed_pod_is_unhealthy_at_once_and_waits_for_the_grace() {
    test("a_failed_pod_is_unhealthy_at_once_and_waits_for_the_grace", async |case| {
        let life = [("run-for", "1s"), ("fail-until-attempt", "1"), ("exit-code", "3")];
        let settings = tuned(&[("failureGracePeriodDuration", "2s")]);
        case.wrap("aw", settings, vec![pod("p", &life)]).await;
        let seen = case.unhealthy("aw", "FoundFailedPods").await;
        assert_eq!(seen.phase(), "Running");
        let done = restarted_once(&case, "aw", "FoundFailedPods").await;
        let failure = &done.attempts()[0]["failure"];
        assert_eq!((&failure["pod"], &failure["exitCode"]), (&json!("p"), &json!(3)));
        let failed = done.moment_at("/status/attempts/0/failedAt");
        let reset = case.log().first("aw", "Resetting").moment("DeletingResources");
        assert!(seconds(failed, reset) >= 2, "the grace was waited for");
    });
}

#[test]
fn a_failed_job_set_is_reset() {
    test("a_failed_job_set_is_reset", async |case| {
        let failing = [("run-for", "1s"), ("fail-until-attempt", "1")];
        let other = [("run-for", "1s")];
        let jobs: [(&str, &[(&str, &str)]); 2] = [("a", &failing), ("b", &other)];
        case.wrap("aw", json!({}), vec![job_set("js", json!({}), &jobs)]).await;
        let done = restarted_once(&case, "aw", "FailedComponent").await;
        assert_eq!(done.attempts()[0]["failure"]["component"], "js");
        assert!(case.warning("aw", "FailedComponent").await.contains("JobSet/js failed"));
    });
}

#[test]
fn a_failed_master_of_a_pytorch_job_resets_its_worker_too() {
    test("a_failed_master_of_a_pytorch_job_resets_its_worker_too", async |case| {
        let master = [("run-for", "1s"), ("fail-until-attempt", "1"), ("exit-code", "9")];
        let template = pytorch_job("pt", &master, &[("run-for", "1s")]);
        case.wrap("aw", json!({}), vec![template]).await;
        let done = restarted_once(&case, "aw", "FailedComponent").await;
        assert_eq!(done.attempts()[0]["failure"]["pod"], "pt-master-0");
        assert_eq!(done.attempts()[0]["failure"]["exitCode"], 9);
        assert_eq!(case.log().uids("Pod", "pt-worker-0").len(), 2);
    });
}

#[test]
fn without_a_retry_left_everything_is_deleted() {
    test("without_a_retry_left_everything_is_deleted", async |case| {
        let life = [("run-for", "0s"), ("exit-code", "1")];
        let templates = vec![job("j", json!({}), &life), pod("other", &[])];
        case.wrap("aw", tuned(&[("retryLimit", "0")]), templates).await;
        case.phase("aw", "Failed").await;
        let done = case.condition("aw", "QuotaReserved", "False").await;
        assert_eq!(done.condition("ResourcesDeployed"), "False");
        assert_eq!(done.condition("Unhealthy"), "True");
        assert_eq!(done.attempts()[0]["rule"]["source"], "retryLimit");
        assert_eq!(done.attempts()[0]["retries"], json!({"used": 0, "limit": 0}));
        assert!(case.stored("batch/v1", "Job", "j").await.is_none());
        assert!(case.stored("v1", "Pod", "other").await.is_none());
        case.lawful("aw").await;
    });
}

#[test]
fn a_job_that_retries_its_own_pod_is_not_reset() {
    test("a_job_that_retries_its_own_pod_is_not_reset", async |case| {
        case.wrap("aw", json!({}), vec![job("j", json!({"backoffLimit": 2}), &[])]).await;
        let first = case.pod("j-", "Running").await;
        case.end_pod(&first.name, "1").await;
        case.unhealthy("aw", "FoundFailedPods").await;
        let second = case
            .until("a second pod", |log| {
                let mut pods = log.all("Pod").filter(|pod| pod.uid() != first.uid());
                pods.find(|pod| pod.phase() == "Running").cloned()
            })
            .await;
        case.condition("aw", "Unhealthy", "False").await;
        case.end_pod(&second.name, "0").await;
        let done = case.phase("aw", "Succeeded").await;
        assert_eq!((done.restarts(), done.attempts().len()), (0, 1));
        assert_eq!(case.log().phases("aw"), ["", "Resuming", "Running", "Succeeded"]);
    });
}

#[test]
fn a_pod_that_is_replaced_late_does_not_reset() {
    test("a_pod_that_is_replaced_late_does_not_reset", async |case| {
        let graces = ["admissionGracePeriodDuration", "warmupGracePeriodDuration"];
        let settings = tuned(&graces.map(|grace| (grace, "2s")));
        case.wrap("aw", settings, vec![app("Deployment", "d", 1)]).await;
        case.ready("aw", 0).await;
        let first = case.pod("d-", "Running").await;
        // Both graces have passed since the deployment when this one has ended.
        case.wrap("timer", json!({}), vec![pod("timer", &[("run-for", "3s")])]).await;
        case.pod("timer", "Running").await;
        case.record("v1", "ResourceQuota").await;
        case.create(no_more("pods")).await;
        case.until("the quota is known", |log| {
            let mut states = log.of("ResourceQuota", "none");
            states.find(|it| it.object["status"]["hard"]["pods"] == "0").map(drop)
        })
        .await;
        case.phase("timer", "Succeeded").await;
        case.force_delete_pod(&first.name).await;
        case.condition("aw", "PodsReady", "False").await;
        case.delete("v1", "ResourceQuota", "none").await;
        case.until("another pod", |log| {
            let pods = log.all("Pod").filter(|pod| pod.name.starts_with("d-"));
            let mut others = pods.filter(|pod| pod.uid() != first.uid());
            others.find(|pod| pod.phase() == "Running").cloned()
        })
        .await;
        case.others_go_on("other").await;
        case.ready("aw", 0).await;
        let log = case.log();
        assert_eq!(log.phases("aw"), ["", "Resuming", "Running"]);
        let unhealthy = log.of("AppWrapper", "aw").filter(|seen| {
            seen.condition("PodsReady") == "False"
                && seen.condition("Unhealthy") == "True"
                && seen.condition_field("Unhealthy", "reason") == "InsufficientPodsReady"
        });
        for seen in unhealthy {
            let waited = seconds(seen.moment("PodsReady"), seen.moment("Unhealthy"));
            assert!(waited >= 1, "the graces begin anew: {}", seen.object["status"]);
        }
    });
}

#[test]
fn a_pod_that_never_gets_ready_fails_after_warm_up_and_grace() {
    test("a_pod_that_never_gets_ready_fails_after_warm_up_and_grace", async |case| {
        let settings = tuned(&[
            ("warmupGracePeriodDuration", "1s"),
            ("failureGracePeriodDuration", "2s"),
            ("retryLimit", "0"),
        ]);
        case.wrap("aw", settings, vec![pod("p", &[("never-ready", "")])]).await;
        let seen = case.unhealthy("aw", "InsufficientPodsReady").await;
        assert_eq!(seen.phase(), "Running");
        let deployed = case.log().first("aw", "Resuming").moment("ResourcesDeployed");
        assert!(seconds(deployed, seen.moment("Unhealthy")) >= 1, "warm-up was waited for");
        let failed = case.phase("aw", "Failed").await;
        let end = failed.moment("DeletingResources");
        assert!(seconds(seen.moment("Unhealthy"), end) >= 2, "the grace was waited for");
        assert_eq!(failed.attempts()[0]["failure"]["pod"], "p");
        assert!(case.warning("aw", "InsufficientPodsReady").await.contains("pod p"));
    });
}

#[test]
fn pods_that_do_not_appear_fail_after_admission_and_grace() {
    test("pods_that_do_not_appear_fail_after_admission_and_grace", async |case| {
        case.create(no_more("pods")).await;
        let settings = tuned(&[
            ("admissionGracePeriodDuration", "1s"),
            ("failureGracePeriodDuration", "1s"),
            ("retryLimit", "0"),
        ]);
        case.wrap("aw", settings, vec![job("j", json!({}), &[])]).await;
        case.phases("aw", &["", "Resuming", "Running", "Failed"]).await;
        let failed = case.phase("aw", "Failed").await;
        assert_eq!(failed.condition_field("Unhealthy", "reason"), "InsufficientPodsReady");
        assert!(failed.condition_field("Unhealthy", "message").contains("0 of 1 pods exist"));
    });
}

#[test]
fn exit_codes_decide_whether_there_is_a_retry() {
    test("exit_codes_decide_whether_there_is_a_retry", async |case| {
        // With the usual grace of a minute: a rule that fails does so at once.
        for (name, key, codes) in
            [("terminal", "terminalExitCodes", "42, 3"), ("other", "retryableExitCodes", "4,5")]
        {
            let life = [("run-for", "0s"), ("exit-code", "3")];
            case.wrap(name, tuned(&[(key, codes)]), vec![pod(name, &life)]).await;
        }
        let settings = [("retryableExitCodes", "3"), ("failureGracePeriodDuration", "0s")];
        let life = [("run-for", "0s"), ("exit-code", "3"), ("fail-until-attempt", "1")];
        case.wrap("retryable", tuned(&settings), vec![pod("retryable", &life)]).await;
        for name in ["terminal", "other"] {
            case.phases(name, &["", "Resuming", "Running", "Failed"]).await;
            let failed = case.phase(name, "Failed").await;
            assert_eq!(failed.restarts(), 0);
            assert_eq!(failed.attempts()[0]["rule"]["source"], "exitCodeAnnotation");
        }
        restarted_once(&case, "retryable", "FoundFailedPods").await;
    });
}

#[test]
fn the_retry_pause_runs_from_the_end_of_the_deletion() {
    test("the_retry_pause_runs_from_the_end_of_the_deletion", async |case| {
        let settings = tuned(&[
            ("forcefulDeletionGracePeriodDuration", "2s"),
            ("retryPausePeriodDuration", "2s"),
        ]);
        let fails = [("run-for", "0s"), ("fail-until-attempt", "1")];
        let stays = [("run-for", "1h"), ("stuck", "")];
        let templates = vec![job("j", json!({}), &fails), pod("p", &stays)];
        case.wrap("aw", settings, templates).await;
        let done = case.ready("aw", 1).await;
        case.lawful("aw").await;
        let began = case.log().first("aw", "Resetting").moment("DeletingResources");
        let gone = done.moment_at("/status/attempts/0/endedAt");
        let again = done.moment_at("/status/attempts/1/startedAt");
        assert!(seconds(began, gone) >= 2, "the deletion took its time");
        assert!(seconds(gone, again) >= 2, "and the pause came after it");
    });
}

#[test]
fn a_node_marked_no_execute_is_left_without_using_a_retry() {
    test("a_node_marked_no_execute_is_left_without_using_a_retry", async |case| {
        let mut template = pod("p", &[]);
        template["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
        case.wrap("aw", tuned(&[("retryLimit", "0")]), vec![template]).await;
        case.ready("aw", 0).await;
        let pod = case.pod("p", "Running").await;
        let node = pod.object["spec"]["nodeName"].as_str().expect("it has a node").to_owned();
        let nodes: Api<Node> = Api::all(case.client.clone());
        let mark = async |value: Option<&str>| {
            let patch = json!({"metadata": {"labels": {"autopilot.ibm.com/gpuhealth": value}}});
            let params = PatchParams::default();
            nodes.patch(&node, &params, &Patch::Merge(patch)).await.expect("the node is marked");
        };
        mark(Some("EVICT")).await;
        case.unhealthy("aw", "AutopilotNoExecute").await;
        mark(None).await;
        let seen = case.phase("aw", "Running").await;
        assert_eq!(seen.restarts(), 0);
        assert_eq!(seen.attempts()[0]["action"], "RestartIgnoringLimit");
        assert_eq!(seen.attempts()[0]["failure"]["node"], node.as_str());
        case.lawful("aw").await;
    });
}
