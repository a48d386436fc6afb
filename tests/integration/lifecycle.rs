//! An AppWrapper lives, fails, retries and ends.

use serde_json::json;

use crate::harness::{attempts_do_not_overlap, job, pod, quota_without_a_gap, test, tuned};

#[test]
fn a_pod_runs_and_succeeds() {
    test("a_pod_runs_and_succeeds", async |case| {
        case.wrap("aw", json!({}), vec![pod("p", &[("run-for", "1s")])]).await;
        case.phases("aw", &["", "Resuming", "Running", "Succeeded"]).await;
        let done = case.phase("aw", "Succeeded").await;
        assert_eq!(done.condition("QuotaReserved"), "False");
        assert_eq!(done.condition("ResourcesDeployed"), "True");
        assert_eq!(done.condition("PodsReady"), "True");
        assert_eq!(done.object["status"]["attempts"][0]["outcome"], "Succeeded");
    });
}

#[test]
fn a_failing_pod_is_retried_until_the_limit() {
    test("a_failing_pod_is_retried_until_the_limit", async |case| {
        let life = [("run-for", "1s"), ("exit-code", "3")];
        case.wrap(
            "aw",
            tuned(&[("retryLimit", "2"), ("failureGracePeriodDuration", "0s")]),
            vec![pod("p", &life)],
        )
        .await;
        let round = ["Resuming", "Running", "Resetting"];
        let phases = [&[""], &round[..], &round[..], &["Resuming", "Running", "Failed"]].concat();
        case.phases("aw", &phases).await;
        let failed = case.condition("aw", "QuotaReserved", "False").await;
        assert_eq!(failed.condition("ResourcesDeployed"), "False");
        assert_eq!(failed.object["status"]["resettingCount"], 2);
        let attempts = failed.object["status"]["attempts"].as_array().unwrap();
        assert_eq!(attempts.len(), 3);
        for (number, attempt) in attempts.iter().enumerate() {
            assert_eq!(attempt["attempt"], number);
            assert_eq!(attempt["failure"]["exitCode"], 3, "{attempt}");
            assert_eq!(attempt["failure"]["pod"], "p");
            assert!(attempt["failure"]["node"].is_string());
        }
        assert_eq!(attempts[2]["action"], "Fail");
        let log = case.log();
        assert_eq!(log.uids("Pod", "p").len(), 3);
        quota_without_a_gap(&log, "aw");
        attempts_do_not_overlap(&log);
        let message = case.warning("aw", "FoundFailedPods").await;
        assert!(message.contains("exited with code 3") && message.contains("node-"), "{message}");
    });
}

#[test]
fn a_failing_job_is_detected_by_its_condition() {
    test("a_failing_job_is_detected_by_its_condition", async |case| {
        let life = [("run-for", "1s"), ("fail-until-attempt", "1")];
        case.wrap("aw", json!({}), vec![job("j", json!({}), &life)]).await;
        let round = ["Resuming", "Running", "Resetting"];
        let phases = [&[""], &round[..], &["Resuming", "Running", "Succeeded"]].concat();
        case.phases("aw", &phases).await;
        let log = case.log();
        let reset = log.of("AppWrapper", "aw").find(|seen| seen.phase() == "Resetting").unwrap();
        assert_eq!(reset.condition_field("Unhealthy", "reason"), "FailedComponent");
        quota_without_a_gap(&log, "aw");
        attempts_do_not_overlap(&log);
    });
}
