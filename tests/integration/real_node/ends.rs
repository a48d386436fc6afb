//! Pods that are ended from outside: by a suspension, an eviction, a preemption, or because they hang.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, EvictParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::lane::{NODE, on_real_node};
use super::page::{all, job, on_the_page, once, said, shell, wrote, wrote_at_last};
use crate::harness::{Case, RawObject};

/// Waits until a pod of a name prefix runs, and its program does what it begins with.
async fn runs(case: &Case, prefix: &str) -> RawObject {
    case.until(&format!("{prefix}* is ready"), |log| {
        let mut pods = log.all("Pod").filter(|pod| pod.name.starts_with(prefix));
        pods.find(|pod| pod.condition("Ready") == "True").cloned()
    })
    .await
}

/// A pod template that is ready once its script has set its traps.
fn trapping(script: &str, grace: i64) -> Value {
    let mut template = shell(&format!("{script}; touch /tmp/ready; while true; do sleep 1; done"));
    template["spec"]["terminationGracePeriodSeconds"] = json!(grace);
    template["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["cat", "/tmp/ready"]}, "periodSeconds": 1});
    template
}

/// A pod may use its grace period to save its work; then the kubelet kills it.
#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_suspension_leaves_pods_their_grace_period() {
    on_real_node("a_suspension_leaves_pods_their_grace_period", async |case, _| {
        let heeds = "trap 'echo saved >/dev/termination-log; exit 0' TERM";
        let rows = [
            ("heeds", "is suspended; saves its work at SIGTERM and exits with 0", heeds, 30),
            (
                "ignores",
                "is suspended; ignores SIGTERM for 2 s, its grace period",
                "trap '' TERM",
                2,
            ),
        ];
        for (name, _, script, grace) in rows {
            case.create(once(name, &[], job(name, trapping(script, grace)))).await;
        }
        let mut checked = vec![];
        for (name, done, ..) in rows {
            let pod = runs(&case, name).await;
            case.suspend(name, true).await;
            case.gone("Pod", &pod.name).await;
            let suspended = case.phase(name, "Suspended").await;
            checked.push(on_the_page(
                done,
                &wrote_at_last(&case.log(), name),
                &said(&suspended.object),
            ));
        }
        let log = case.log();
        let message = log.all("Pod").filter(|pod| pod.name.starts_with("heeds")).find_map(|pod| {
            let end = &pod.object["status"]["containerStatuses"][0]["state"]["terminated"];
            end["message"].as_str().map(str::to_owned)
        });
        assert_eq!(message.as_deref(), Some("saved\n"));
        all(checked);
    });
}

#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn an_evicted_pod_is_told_as_evicted() {
    on_real_node("an_evicted_pod_is_told_as_evicted", async |case, _| {
        case.create(once("evicted", &[], job("evicted", trapping("true", 1)))).await;
        let pod = runs(&case, "evicted").await;
        let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
        pods.evict(&pod.name, &EvictParams::default()).await.expect("it may be evicted");
        let failed = case.phase("evicted", "Failed").await;
        case.gone("Pod", &pod.name).await;
        let done = "is evicted through the API";
        all([on_the_page(done, &wrote_at_last(&case.log(), "evicted"), &said(&failed.object))]);
    });
}

#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_preempted_pod_is_told_as_preempted() {
    on_real_node("a_preempted_pod_is_told_as_preempted", async |case, _| {
        let slots = json!({"status": {"capacity": {"test.example/slot": "1"}}});
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(case.client.clone());
        let patch = Patch::Merge(&slots);
        nodes.patch_status(NODE, &PatchParams::default(), &patch).await.expect("it has a slot");
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "real-node-high"}, "value": 1000});
        let classes = case.cluster_api("scheduling.k8s.io/v1", "PriorityClass");
        let class = serde_json::from_value(class).expect("an object");
        classes.create(&kube::api::PostParams::default(), &class).await.expect("it is accepted");
        let slot = |priority: &str| {
            let mut template = trapping("true", 1);
            let resources = json!({"limits": {"test.example/slot": "1"}});
            template["spec"]["containers"][0]["resources"] = resources;
            template["spec"]["priorityClassName"] = json!(priority);
            template
        };
        case.create(once("low", &[], job("low", slot("")))).await;
        let pod = runs(&case, "low").await;
        case.create(once("high", &[], job("high", slot("real-node-high")))).await;
        let failed = case.phase("low", "Failed").await;
        case.gone("Pod", &pod.name).await;
        runs(&case, "high").await;
        let done = "is preempted by a pod of a higher priority";
        all([on_the_page(done, &wrote_at_last(&case.log(), "low"), &said(&failed.object))]);
    });
}

/// The command of the guide, in a pod, with what the pod finds in its environment: then it hangs.
#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_pod_reports_over_https_and_hangs() {
    on_real_node("a_pod_reports_over_https_and_hangs", async |case, _| {
        let guide = include_str!("../../../docs/user/progress.md");
        let command = guide.split("```sh\n").nth(1).and_then(|text| text.split("```").next());
        let command = command.expect("the guide has a command");
        let report = shell(&format!("{command}\nsleep 1000"));
        let mut wrapper = once("hang", &[], job("hang", report));
        wrapper["spec"]["progress"] = json!({"stallAfter": "10s"});
        case.create(wrapper).await;
        let reported = |log: &crate::harness::Log| {
            let mut pods = log.all("Pod");
            let key = "workload.codeflare.dev/progress";
            let text = |pod: &RawObject| {
                pod.object["metadata"]["annotations"][key].as_str().map(str::to_owned)
            };
            pods.find_map(text)
        };
        let report = case.until("the pod reports", reported).await;
        assert!(report.contains("\"step\":1200"), "{report}");
        let failed = case.phase("hang", "Failed").await;
        assert_eq!(failed.object["status"]["attempts"][0]["progress"]["step"], 1200);
        let done = "reports progress once over HTTPS, then hangs; `stallAfter: 10s`";
        all([on_the_page(done, &wrote(&case.log(), "hang"), &said(&failed.object))]);
    });
}
