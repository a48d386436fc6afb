//! `PodsReady`, the end, and evictions of what is not ready in time.

use serde_json::json;

use crate::harness::{RawObject, pod, quota_without_a_gap, tuned};

use super::{Queue, own_test, queued};

#[test]
fn kueue_is_told_of_ready_pods_and_of_the_end() {
    own_test("kueue_is_told_of_ready_pods_and_of_the_end", async |case| {
        case.record_workloads().await;
        Queue::of("kueue-told", 4).create(&case).await;
        let settings = || tuned(&[("retryLimit", "0"), ("failureGracePeriodDuration", "0s")]);
        for (name, code, reason) in [("good", "0", "Succeeded"), ("bad", "3", "Failed")] {
            let slow = format!("{name}-slow");
            let pods = vec![pod(name, &[]), pod(&slow, &[("never-ready", "")])];
            case.create(queued(name, "kueue-told", settings(), pods)).await;
            case.phase(name, "Running").await;
            // Not as long as one pod is not ready.
            let waits = case.workload(name, "PodsReady", "False").await;
            assert_eq!(waits.condition_field("PodsReady", "reason"), "WaitForStart");
            let ready = json!({"metadata": {"annotations": {"sim/never-ready": null}}});
            case.pod(name, "Running").await;
            case.change("v1", "Pod", &slow, ready).await;
            let started = case.workload(name, "PodsReady", "True").await;
            assert_eq!(started.condition_field("PodsReady", "reason"), "Started");
            let told = case.log();
            let told = told.of("AppWrapper", name).find(|it| it.condition("PodsReady") == "True");
            assert!(told.expect("it said so").revision() < started.revision());
            for pod in [name, &slow] {
                case.end_pod(pod, code).await;
            }
            let finished = case.workload(name, "Finished", "True").await;
            assert_eq!(finished.condition_field("Finished", "reason"), reason);
            case.lawful(name).await;
        }
    });
}

#[test]
fn an_eviction_in_the_middle_of_a_retry_uses_no_retry() {
    own_test("an_eviction_in_the_middle_of_a_retry_uses_no_retry", async |case| {
        case.record_workloads().await;
        Queue::of("kueue-recovery", 1).create(&case).await;
        // Kueue waits three seconds for a recovery that takes an hour.
        let settings = tuned(&[
            ("failureGracePeriodDuration", "0s"),
            ("retryPausePeriodDuration", "1h"),
            ("retryLimit", "1"),
        ]);
        case.create(queued("aw", "kueue-recovery", settings, vec![pod("p", &[])])).await;
        case.ready("aw", 0).await;
        case.end_pod("p", "7").await;
        let resetting = case.was("aw", "Resetting").await;
        let evicted = case
            .until("Kueue evicts it", |log| {
                let evicted = |seen: &&RawObject| seen.condition("Evicted") == "True";
                log.workloads("aw").find(evicted).cloned()
            })
            .await;
        assert_eq!(evicted.condition_field("Evicted", "reason"), "PodsReadyTimeout");
        // Let in again, it begins at once: a suspension ends the pause of the retry.
        let ready = case.ready("aw", 1).await;
        assert_eq!((resetting.restarts(), ready.restarts()), (1, 1));
        case.end_pod("p", "0").await;
        let done = case.phase("aw", "Succeeded").await;
        assert_eq!(done.restarts(), 1);
        let outcomes: Vec<_> = done.attempts().iter().map(|it| it["outcome"].clone()).collect();
        assert_eq!(outcomes, ["Failed", "Succeeded"], "{}", done.object["status"]);
        let phases = ["", "Suspended", "Resuming", "Running", "Resetting", "Suspending"];
        let again = ["Suspended", "Resuming", "Running", "Succeeded"];
        case.phases("aw", &[phases.as_slice(), &again].concat()).await;
        quota_without_a_gap(&case.log(), "aw");
        case.lawful("aw").await;
    });
}
