//! The quota of an AppWrapper that is being deleted, or switched off.

use serde_json::json;

use crate::harness::{Case, job, pod, test, without_webhook};
use crate::installed::installed_test;

use super::{Queue, is_reserved, queued};

/// An AppWrapper that was deleted and of which a pod does not go, and one that waits for its quota.
async fn deleted_with_a_rival(case: &Case, queue: &str) {
    case.record_workloads().await;
    Queue::of(queue, 1).create(case).await;
    // The pod of a Job outlives it.
    let stuck = vec![job("stuck", json!({}), &[("stuck", "")])];
    case.create(queued("aw", queue, json!({}), stuck)).await;
    case.ready("aw", 0).await;
    case.create(queued("rival", queue, json!({}), vec![pod("rival", &[("run-for", "0s")])])).await;
    case.workload("rival", "QuotaReserved", "False").await;
    case.delete_wrapper("aw").await;
    case.phase("aw", "Terminating").await;
    case.says("aw", "DeletingResources", "Pod/stuck").await;
}

#[test]
fn without_the_gate_kueue_waits_for_the_last_pod() {
    installed_test("without_the_gate_kueue_waits_for_the_last_pod", async |case| {
        deleted_with_a_rival(&case, "kueue-deleting").await;
        case.others_go_on("other").await;
        let last = case.log().workloads("aw").last().cloned().expect("it has one");
        assert!(is_reserved(&last), "{}", last.object["status"]);
        case.force_delete_pods("stuck").await;
        case.gone("AppWrapper", "aw").await;
        case.phase("rival", "Succeeded").await;
        let log = case.log();
        let gone = log.pods_gone_at("stuck").expect("it has gone");
        assert!(gone < log.reserved_at("rival"));
        assert_eq!(log.of("Pod", "rival").filter(|pod| pod.revision() < gone).count(), 0);
        case.lawful("aw").await;
    });
}

/// What 0.18 does as it comes, and why the start-up check warns of it: nothing that a controller of
/// AppWrappers could do keeps this quota. Kueue runs as it comes on the control plane without our webhook.
#[test]
fn with_the_gate_kueue_frees_the_quota_of_what_is_being_deleted() {
    without_webhook("with_the_gate_kueue_frees_the_quota_of_what_is_being_deleted", async |case| {
        deleted_with_a_rival(&case, "kueue-orphans").await;
        case.phase("rival", "Succeeded").await;
        assert_eq!(case.log().pods_gone_at("stuck"), None, "the rival ran beside it");
        case.force_delete_pods("stuck").await;
        case.gone("AppWrapper", "aw").await;
        case.lawful("aw").await;
    });
}

/// The same for a Workload with `active: false`: Kueue forgets its quota before it stops anything. A
/// preemption, or a LocalQueue that is drained, keeps it.
#[test]
fn a_workload_that_is_switched_off_keeps_no_quota() {
    test("a_workload_that_is_switched_off_keeps_no_quota", async |case| {
        case.record_workloads().await;
        Queue::of("kueue-off", 1).create(&case).await;
        let stuck = vec![pod("stuck", &[("stuck", "")])];
        case.create(queued("aw", "kueue-off", json!({}), stuck)).await;
        case.ready("aw", 0).await;
        case.activate("aw", false).await;
        case.phase("aw", "Suspending").await;
        let rival = vec![pod("rival", &[("run-for", "0s")])];
        case.create(queued("rival", "kueue-off", json!({}), rival)).await;
        case.phase("rival", "Succeeded").await;
        // It says itself that it has quota, which is right: its pod is there.
        let held = case.phase("aw", "Suspending").await;
        assert_eq!(held.condition("QuotaReserved"), "True");
        assert!(is_reserved(case.log().workloads("aw").last().expect("it has one")));
        case.force_delete_pods("stuck").await;
        case.phase("aw", "Suspended").await;
        case.lawful("aw").await;
    });
}
