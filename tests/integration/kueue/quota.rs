//! Admission: in order, within quota, and quota kept for as long as anything is left.

use serde_json::json;

use crate::harness::{Case, Log, job, pod, quota_without_a_gap, tuned, without_webhook};
use crate::installed::installed_test;

use super::{Queue, is_reserved, priority, queued, with_priority};

/// Waits until the API server's clock shows another second: Kueue orders by the time of creation,
/// which is in seconds.
async fn next_second(case: &Case) {
    let now = async || {
        let params = kube::api::PostParams { dry_run: true, ..Default::default() };
        let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}});
        let probe = serde_json::from_value(probe).expect("an object");
        let made = case.api("v1", "ConfigMap").create(&params, &probe).await;
        made.expect("it could be made").metadata.creation_timestamp
    };
    let before = now().await;
    while now().await == before {
        tokio::task::yield_now().await;
    }
}

#[test]
fn appwrappers_are_admitted_in_order_and_never_above_quota() {
    installed_test("appwrappers_are_admitted_in_order_and_never_above_quota", async |case| {
        case.record_workloads().await;
        Queue::of("kueue-order", 2).create(&case).await;
        priority(&case, "kueue-order-high", 100).await;
        let two = |name: &str| {
            let pods = ["a", "b"].map(|pod_name| pod(&format!("{name}-{pod_name}"), &[]));
            queued(name, "kueue-order", json!({}), pods.into())
        };
        // The first has all of the quota until the others have come.
        for name in ["first", "second", "third"] {
            case.create(two(name)).await;
            case.until(&format!("a Workload of {name}"), |log| {
                log.workloads(name).next().map(drop)
            })
            .await;
            next_second(&case).await;
        }
        case.create(with_priority(two("urgent"), "kueue-order-high")).await;
        case.workload("urgent", "QuotaReserved", "False").await;
        let order = ["first", "urgent", "second", "third"];
        for name in order {
            case.ready(name, 0).await;
            for pod in ["a", "b"] {
                case.end_pod(&format!("{name}-{pod}"), "0").await;
            }
            case.phase(name, "Succeeded").await;
            case.lawful(name).await;
        }
        let log = case.log();
        let moments = order.map(|name| log.reserved_at(name));
        assert!(moments.is_sorted(), "{order:?} had quota at {moments:?}");
        assert_eq!(log.pods_at_once(), 2);
    });
}

#[test]
fn quota_is_kept_through_a_retry_while_a_rival_waits() {
    installed_test("quota_is_kept_through_a_retry_while_a_rival_waits", async |case| {
        case.record_workloads().await;
        Queue::of("kueue-retry", 1).create(&case).await;
        let settings =
            tuned(&[("failureGracePeriodDuration", "1s"), ("retryPausePeriodDuration", "2s")]);
        case.create(queued("aw", "kueue-retry", settings, vec![pod("p", &[])])).await;
        case.ready("aw", 0).await;
        let rival = vec![pod("rival", &[("run-for", "0s")])];
        case.create(queued("rival", "kueue-retry", json!({}), rival)).await;
        case.workload("rival", "QuotaReserved", "False").await;
        case.end_pod("p", "7").await;
        case.ready("aw", 1).await;
        case.end_pod("p", "0").await;
        case.phase("aw", "Succeeded").await;
        case.phase("rival", "Succeeded").await;
        let phases = ["", "Suspended", "Resuming", "Running", "Resetting", "Resuming", "Running"];
        case.phases("aw", &[phases.as_slice(), &["Succeeded"]].concat()).await;
        let log = case.log();
        quota_without_a_gap(&log, "aw");
        let released = log.workloads("aw").skip_while(|seen| !is_reserved(seen));
        let released: Vec<_> = released.skip_while(|seen| is_reserved(seen)).collect();
        assert!(released.iter().all(|seen| seen.condition("Finished") == "True"));
        assert!(log.reserved_at("rival") > released[0].revision());
        assert_eq!(log.pods_at_once(), 1);
        case.lawful("aw").await;
    });
}

#[test]
fn a_failed_appwrapper_keeps_its_quota_until_its_last_pod_is_gone() {
    installed_test(
        "a_failed_appwrapper_keeps_its_quota_until_its_last_pod_is_gone",
        async |case| {
            case.record_workloads().await;
            Queue::of("kueue-failed", 2).create(&case).await;
            let settings = tuned(&[
                ("retryLimit", "0"),
                ("failureGracePeriodDuration", "0s"),
                ("deletionOnFailureGracePeriodDuration", "2s"),
            ]);
            let pods = vec![pod("bad", &[]), job("stuck", json!({}), &[("stuck", "")])];
            case.create(queued("aw", "kueue-failed", settings, pods)).await;
            case.ready("aw", 0).await;
            let rival = ["rival-a", "rival-b"].map(|name| pod(name, &[("run-for", "0s")]));
            case.create(queued("rival", "kueue-failed", json!({}), rival.into())).await;
            case.workload("rival", "QuotaReserved", "False").await;
            case.end_pod("bad", "7").await;
            case.phase("aw", "Failed").await;
            let gone = |log: &Log| log.of("Pod", "bad").last().filter(|pod| pod.deleted).cloned();
            case.until("the failed pod goes", gone).await;
            // The other one does not go; nobody has an eye on the quota meanwhile.
            case.says("aw", "DeletingResources", "Pod/stuck").await;
            case.others_go_on("other").await;
            let last = case.log().workloads("aw").last().cloned().expect("it has one");
            assert!(is_reserved(&last), "{}", last.object["status"]);
            case.force_delete_pods("stuck").await;
            let finished = case.workload("aw", "Finished", "True").await;
            assert_eq!(finished.condition_field("Finished", "reason"), "Failed");
            case.phase("rival", "Succeeded").await;
            case.lawful("aw").await;
            let log = case.log();
            let gone = log.pods_gone_at("stuck").expect("it has gone");
            assert!(gone < finished.revision() && finished.revision() < log.reserved_at("rival"));
        },
    );
}

#[test]
fn ten_pod_sets_are_admitted_and_eleven_are_refused() {
    installed_test("ten_pod_sets_are_admitted_and_eleven_are_refused", async |case| {
        case.record_workloads().await;
        Queue::of("kueue-many", 20).create(&case).await;
        let of = |name: &str, count: usize| {
            let pods = (0..count).map(|it| pod(&format!("{name}-{it}"), &[("run-for", "0s")]));
            queued(name, "kueue-many", json!({}), pods.collect())
        };
        case.create(of("ten", 10)).await;
        case.phase("ten", "Succeeded").await;
        assert_eq!(case.log().uids("Pod", "ten-").len(), 10);

        let said = case.try_create(of("eleven", 11)).await.expect_err("it is refused").to_string();
        assert!(said.contains("must have at most 10 pod sets"), "{said}");
    });
}

#[test]
fn pod_sets_for_which_kueue_has_no_room_wait_for_ever() {
    without_webhook("pod_sets_for_which_kueue_has_no_room_wait_for_ever", async |case| {
        case.record_workloads().await;
        Queue::of("kueue-nineteen", 20).create(&case).await;
        let of = |name: &str, count: usize| {
            let pods = (0..count).map(|it| pod(&format!("{name}-{it}"), &[("run-for", "0s")]));
            queued(name, "kueue-nineteen", json!({}), pods.collect())
        };
        // Kueue cannot make a Workload of it: one has at most 10 pod sets in 0.18, and 18 in 0.19.
        case.create(of("nineteen", 19)).await;
        case.phase("nineteen", "Suspended").await;
        case.create(of("after", 1)).await;
        case.phase("after", "Succeeded").await;
        let log = case.log();
        assert_eq!(log.workloads("nineteen").count(), 0);
        assert_eq!(log.uids("Pod", "nineteen").len(), 0);
    });
}

#[test]
fn an_appwrapper_is_suspended_after_its_maximum_execution_time() {
    let name = "an_appwrapper_is_suspended_after_its_maximum_execution_time";
    installed_test(name, async |case| {
        case.record_workloads().await;
        Queue::of("kueue-time", 1).create(&case).await;
        let mut aw = queued("aw", "kueue-time", json!({}), vec![pod("p", &[])]);
        aw["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "20".into();
        case.create(aw).await;
        case.ready("aw", 0).await;
        case.until("Kueue deactivates it", |log| {
            let mut states = log.workloads("aw");
            states.find(|seen| seen.object["spec"]["active"] == false).map(drop)
        })
        .await;
        let done = case.phase("aw", "Suspended").await;
        assert_eq!((done.restarts(), done.condition("QuotaReserved")), (0, "False"));
        case.workload("aw", "QuotaReserved", "False").await;
        let phases = ["", "Suspended", "Resuming", "Running", "Suspending", "Suspended"];
        case.phases("aw", &phases).await;
        case.lawful("aw").await;
    });
}

/// What the webhook denies in a queue, seen where there is no webhook: Kueue's own integration of other kinds counts both.
#[test]
fn kueue_counts_neither_sidecars_nor_resources_of_whole_pods() {
    without_webhook("kueue_counts_neither_sidecars_nor_resources_of_whole_pods", async |case| {
        case.record_workloads().await;
        Queue::of("kueue-sidecar", 5).create(&case).await;
        let one = json!({"requests": {"cpu": "1"}});
        let with = |name: &str, field: &str, value: serde_json::Value| {
            let mut pod = pod(name, &[("run-for", "0s")]);
            pod["spec"]["containers"][0]["resources"] = one.clone();
            pod["spec"][field] = value;
            pod
        };
        let sidecar =
            json!([{"name": "sidecar", "image": "i", "restartPolicy": "Always", "resources": one}]);
        let whole = json!({"requests": {"cpu": "2"}});
        for pod in [with("sidecar", "initContainers", sidecar), with("whole", "resources", whole)] {
            let name = pod["metadata"]["name"].as_str().expect("it has one").to_owned();
            case.create(queued(&name, "kueue-sidecar", json!({}), vec![pod])).await;
            let cpu = |log: &Log| {
                let assigned =
                    log.workloads(&name).last()?.object["status"]["admission"]["podSetAssignments"]
                        [0]
                    .clone();
                assigned["resourceUsage"]["cpu"].as_str().map(str::to_owned)
            };
            let counted = case.until("Kueue admits it", cpu).await;
            assert_eq!(counted, "1", "the pod of {name} requests 2");
            case.phase(&name, "Succeeded").await;
        }
    });
}
