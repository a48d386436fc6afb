//! Nodes that fail: each test has one of its own.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use super::lane::{node, on_real_node, until};
use super::page::{all, job, on_the_page, once, said, shell, wrote};
use crate::harness::{Case, RawObject};

/// A Job whose pods run on this node until they are told to end.
fn on(node: &str, name: &str) -> serde_json::Value {
    let mut template = shell("sleep 1000");
    template["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    job(name, template)
}

/// The pod of an attempt, once it runs.
async fn running(case: &Case, attempt: usize) -> RawObject {
    let label = "/metadata/labels/workload.codeflare.dev~1attempt";
    let number = json!(attempt.to_string());
    case.until(&format!("the pod of attempt {attempt} runs"), |log| {
        let mut pods = log.all("Pod").filter(|pod| pod.object.pointer(label) == Some(&number));
        pods.find(|pod| pod.condition("Ready") == "True").cloned()
    })
    .await
}

/// The message of the condition `Unhealthy`, once it is True.
async fn unhealthy(case: &Case, name: &str) -> String {
    let seen = case.condition(name, "Unhealthy", "True").await;
    seen.condition_field("Unhealthy", "message").to_owned()
}

#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_kubelet_that_comes_back_in_time_costs_nothing() {
    on_real_node("a_kubelet_that_comes_back_in_time_costs_nothing", async |case, lane| {
        let node = node(&lane.plane, "real-back", None).await;
        let settings = [("failureGracePeriodDuration", "10m")];
        case.create(once("aw", &settings, on("real-back", "work"))).await;
        let pod = running(&case, 0).await;
        let before = node.processes_of(pod.uid());
        node.kill_kubelet();
        let message = unhealthy(&case, "aw").await;
        assert!(message.contains("real-back"), "{message}");
        node.start_kubelet().await.expect("the kubelet comes back");
        let seen = case.condition("aw", "Unhealthy", "False").await;
        assert_eq!(seen.object["status"]["resettingCount"].as_i64().unwrap_or(0), 0);
        assert!(!before.is_empty());
        assert_eq!(node.processes_of(pod.uid()), before, "its containers ran on");
        let done = "its kubelet stops reporting for half a minute, less than failureGracePeriod";
        all([on_the_page(done, &wrote(&case.log(), "aw"), &said(&seen.object))]);
        node.stop().await;
    });
}

#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_kubelet_that_stays_away_loses_its_pods_and_kills_them_when_it_returns() {
    let name = "a_kubelet_that_stays_away_loses_its_pods";
    on_real_node(name, async |case, lane| {
        let node = node(&lane.plane, "real-away", None).await;
        let settings = [("retryLimit", "1"), ("forcefulDeletionGracePeriodDuration", "2s")];
        case.create(once("aw", &settings, on("real-away", "work"))).await;
        let pod = running(&case, 0).await;
        node.kill_kubelet();
        case.phase("aw", "Resetting").await;
        case.gone("Pod", &pod.name).await;
        assert!(!node.processes_of(pod.uid()).is_empty(), "nobody has ended its containers");
        node.start_kubelet().await.expect("the kubelet comes back");
        let next = running(&case, 1).await;
        until("the containers of the lost pod end", || node.processes_of(pod.uid()).is_empty())
            .await;
        assert!(!node.processes_of(next.uid()).is_empty());
        let aw = case.phase("aw", "Running").await;
        let done =
            "its kubelet stops reporting; it is force-deleted, and runs until the kubelet is back";
        all([on_the_page(done, &wrote(&case.log(), "aw"), &said(&aw.object))]);
        node.stop().await;
    });
}

#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_node_that_is_deleted_ends_its_containers() {
    on_real_node("a_node_that_is_deleted_ends_its_containers", async |case, lane| {
        let node = node(&lane.plane, "real-deleted", None).await;
        case.create(once("aw", &[("retryLimit", "1")], on("real-deleted", "work"))).await;
        let pod = running(&case, 0).await;
        assert!(!node.processes_of(pod.uid()).is_empty());
        let nodes: Api<Node> = Api::all(case.client.clone());
        nodes.delete("real-deleted", &DeleteParams::default()).await.expect("it is deleted");
        case.phase("aw", "Resetting").await;
        case.gone("Pod", &pod.name).await;
        until("the kubelet ends its containers", || node.processes_of(pod.uid()).is_empty()).await;
        // a kubelet registers its node when it starts
        node.start_kubelet().await.expect("the node comes back");
        running(&case, 1).await;
        let aw = case.phase("aw", "Running").await;
        let done = "its node is deleted while its containers run";
        all([on_the_page(done, &wrote(&case.log(), "aw"), &said(&aw.object))]);
        node.stop().await;
    });
}

#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_node_that_is_low_on_memory_evicts() {
    on_real_node("a_node_that_is_low_on_memory_evicts", async |case, lane| {
        let node = node(&lane.plane, "real-low", Some(120)).await;
        let mut hog = on("real-low", "hog");
        let pod = &mut hog["spec"]["template"]["spec"];
        let script = "dd if=/dev/zero of=/data/x bs=1M count=135; sleep 1000";
        pod["containers"][0]["command"] = json!(["sh", "-c", script]);
        pod["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        pod["volumes"] = json!([{"name": "data", "emptyDir": {"medium": "Memory"}}]);
        case.create(once("hog", &[], hog)).await;
        let failed = case.phase("hog", "Failed").await;
        let message = failed.object["status"]["attempts"][0]["failure"]["message"].to_string();
        assert!(message.contains("The node was low on resource: memory"), "{message}");
        let done = "its node runs low on memory";
        all([on_the_page(done, &wrote(&case.log(), "hog"), &said(&failed.object))]);
        node.stop().await;
    });
}
