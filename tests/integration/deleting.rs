//! Deletion: delayed, forced, blocked, and named while it is.

use serde_json::json;

use crate::deeds::seconds;
use crate::harness::{Case, RawObject, job, pod, test, tuned};
use crate::objects::{config_map, job_set};

const STUCK: (&str, &str) = ("stuck", "");
const FORCED_AFTER: (&str, &str) = ("forcefulDeletionGracePeriodDuration", "2s");

/// Waits until a deletion was forced; it began once, and was not forced before its grace was over.
async fn forced_once(case: &Case, name: &str, phase: &str) -> RawObject {
    let forced = case
        .until(&format!("the deletion of {name} is forced"), |log| {
            let mut states = log.of("AppWrapper", name).filter(|seen| seen.phase() == phase);
            states
                .find(|s| s.condition_field("DeletingResources", "reason") == "ForcefulDeletion")
                .cloned()
        })
        .await;
    let began = forced.moment("DeletingResources");
    let anchor = forced.moment_at("/status/since/deleting");
    assert!((0..=1).contains(&seconds(began, anchor)), "the same moment, rounded up");
    assert_eq!(forced.condition("ResourcesDeployed"), "True");
    let first = case.log().of("AppWrapper", name).find_map(|seen| {
        (seen.phase() == phase && seen.condition("DeletingResources") == "True")
            .then(|| (seen.moment("DeletingResources"), seen.moment_at("/status/since/deleting")))
    });
    assert_eq!(first, Some((began, anchor)), "the deletion was not started again");
    forced
}

#[test]
fn a_pod_that_does_not_go_is_named_and_then_forced() {
    test("a_pod_that_does_not_go_is_named_and_then_forced", async |case| {
        let settings = tuned(&[("forcefulDeletionGracePeriodDuration", "4s")]);
        case.wrap("aw", settings, vec![job("j", json!({}), &[STUCK])]).await;
        let pod = case.pod("j-", "Running").await;
        case.suspend("aw", true).await;
        let named =
            case.says("aw", "DeletingResources", &format!("Pod/{} on node", pod.name)).await;
        assert_eq!(named.phase(), "Suspending");
        assert_eq!(named.condition_field("DeletingResources", "reason"), "DeletionInitiated");
        assert_eq!(named.condition("QuotaReserved"), "True");
        assert!(case.warning("aw", "DeletionInitiated").await.contains(&pod.name));
        let forced = forced_once(&case, "aw", "Suspending").await;
        assert_eq!(forced.condition("QuotaReserved"), "True");
        assert!(case.warning("aw", "ForcefulDeletion").await.contains(&pod.name));
        let done = case.phase("aw", "Suspended").await;
        let began = forced.moment("DeletingResources");
        assert!(seconds(began, done.moment("QuotaReserved")) >= 4, "the grace was waited for");
        case.lawful("aw").await;
    });
}

#[test]
fn a_failed_appwrapper_keeps_its_pods_for_the_grace_also_after_a_reset() {
    let name = "a_failed_appwrapper_keeps_its_pods_for_the_grace";
    test(name, async |case| {
        let settings = tuned(&[
            ("retryLimit", "1"),
            ("failureGracePeriodDuration", "0s"),
            ("deletionOnFailureGracePeriodDuration", "2s"),
        ]);
        let life = [("run-for", "0s"), ("exit-code", "1")];
        case.wrap("aw", settings, vec![pod("p", &life), config_map("c")]).await;
        let failed = case.phase("aw", "Failed").await;
        assert_eq!(failed.restarts(), 1);
        assert_eq!(failed.condition_field("DeletingResources", "reason"), "DeletionPaused");
        for held in ["QuotaReserved", "ResourcesDeployed"] {
            assert_eq!(failed.condition(held), "True", "{held}");
        }
        let done = case.condition("aw", "QuotaReserved", "False").await;
        let since = failed.moment_at("/status/since/failed");
        let deletion = case.log();
        let mut states = deletion.of("AppWrapper", "aw").filter(|seen| seen.phase() == "Failed");
        let began = states.find(|seen| seen.condition("DeletingResources") == "True");
        let began = began.expect("it was deleted").moment("DeletingResources");
        assert!(seconds(since, began) >= 2, "the grace was waited for");
        assert_eq!(done.condition("ResourcesDeployed"), "False");
        assert!(case.stored("v1", "ConfigMap", "c").await.is_none());
        case.lawful("aw").await;
    });
}

#[test]
fn a_stuck_pod_of_a_failed_appwrapper_is_forced_once() {
    test("a_stuck_pod_of_a_failed_appwrapper_is_forced_once", async |case| {
        let settings = tuned(&[
            ("retryLimit", "0"),
            ("deletionOnFailureGracePeriodDuration", "1s"),
            FORCED_AFTER,
        ]);
        // A pod that has ended is gone at once when it is deleted; one that runs is not.
        let fails = [("run-for", "0s"), ("exit-code", "1")];
        let templates = vec![job("j", json!({}), &fails), pod("p", &[STUCK])];
        case.wrap("aw", settings, templates).await;
        let forced = forced_once(&case, "aw", "Failed").await;
        assert_eq!(forced.condition("QuotaReserved"), "True");
        let done = case.condition("aw", "QuotaReserved", "False").await;
        assert!(seconds(forced.moment("DeletingResources"), done.moment("QuotaReserved")) >= 2);
        assert_eq!(done.condition("ResourcesDeployed"), "False");
        case.lawful("aw").await;
    });
}

#[test]
fn what_has_succeeded_is_kept_for_the_success_ttl() {
    test("what_has_succeeded_is_kept_for_the_success_ttl", async |case| {
        for (name, ttl) in [("none", "0s"), ("short", "2s"), ("long", "7d")] {
            let settings = tuned(&[("successTTLDuration", ttl)]);
            let life = [("run-for", "0s")];
            case.wrap(name, settings, vec![job(name, json!({}), &life)]).await;
        }
        for name in ["none", "short"] {
            let done = case.condition(name, "ResourcesDeployed", "False").await;
            assert_eq!(done.phase(), "Succeeded");
            let log = case.log();
            let succeeded = log.first(name, "Succeeded");
            assert_eq!(succeeded.condition("QuotaReserved"), "False");
            assert_eq!(succeeded.condition("ResourcesDeployed"), "True");
            assert!(case.stored("batch/v1", "Job", name).await.is_none());
            case.lawful(name).await;
        }
        let log = case.log();
        let (first, last) = (log.first("short", "Succeeded"), log.last("AppWrapper", "short"));
        let gone = last.expect("it stays").moment("ResourcesDeployed");
        assert!(seconds(first.moment("QuotaReserved"), gone) >= 2, "the TTL was waited for");
        let kept = case.phase("long", "Succeeded").await;
        assert_eq!(kept.condition("ResourcesDeployed"), "True");
        assert!(case.stored("batch/v1", "Job", "long").await.is_some());
    });
}

#[test]
fn a_held_pod_of_a_succeeded_appwrapper_is_named_and_forced() {
    test("a_held_pod_of_a_succeeded_appwrapper_is_named_and_forced", async |case| {
        let settings = tuned(&[("successTTLDuration", "1s"), FORCED_AFTER]);
        case.wrap("aw", settings, vec![job_set("js", json!({}), &[("a", &[])])]).await;
        let pod = case.pod("js-a-0-0", "Running").await.name;
        // A pod that has ended does not get stuck, unless something else holds it.
        let hold = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
        let of_jobs = "batch.kubernetes.io/job-tracking";
        case.change("v1", "Pod", &pod, hold(&[of_jobs, "example.com/hold"])).await;
        case.end_pod(&pod, "0").await;
        let forced = forced_once(&case, "aw", "Succeeded").await;
        assert!(forced.condition_field("DeletingResources", "message").contains(&pod));
        assert_eq!(forced.condition("QuotaReserved"), "False");
        case.others_go_on("other").await;
        assert_eq!(case.phase("aw", "Succeeded").await.condition("ResourcesDeployed"), "True");
        case.change("v1", "Pod", &pod, hold(&[])).await;
        let done = case.condition("aw", "ResourcesDeployed", "False").await;
        assert_eq!(done.phase(), "Succeeded");
        case.lawful("aw").await;
    });
}

#[test]
fn a_finalizer_of_another_blocks_is_named_and_keeps_the_quota() {
    test("a_finalizer_of_another_blocks_is_named_and_keeps_the_quota", async |case| {
        let templates = vec![config_map("c"), pod("p", &[])];
        case.wrap("aw", tuned(&[FORCED_AFTER]), templates).await;
        case.ready("aw", 0).await;
        let hold = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
        case.change("v1", "ConfigMap", "c", hold(&["example.com/hold"])).await;
        case.suspend("aw", true).await;
        let what = "ConfigMap/c (finalizers example.com/hold)";
        case.says("aw", "DeletingResources", what).await;
        forced_once(&case, "aw", "Suspending").await;
        case.others_go_on("other").await;
        let blocked = case.phase("aw", "Suspending").await;
        assert_eq!(blocked.condition("QuotaReserved"), "True");
        assert_eq!(blocked.condition("ResourcesDeployed"), "True");
        case.change("v1", "ConfigMap", "c", hold(&[])).await;
        let done = case.phase("aw", "Suspended").await;
        assert_eq!(done.condition("QuotaReserved"), "False");
        case.lawful("aw").await;
    });
}
