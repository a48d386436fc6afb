//! The same inputs, from an API server.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::super::answer::{self, Explanation};
use super::super::live::around;
use super::{at, job, pod, tuned, with, wrapper};
use crate::config::Config;
use crate::observe::assemble::Wrapper;

const PODS: &str = "/api/v1/namespaces/ns/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/ns/jobs";
const WORKLOADS: &str = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads";
const NODES: &str = "/api/v1/nodes";
const POLICY: &str = "/apis/workload.codeflare.dev/v1alpha1/retrypolicies/infra";

/// A client of an API server that has these objects, each in a collection; of other paths, its answers.
fn client(objects: Vec<(&'static str, Value)>) -> kube::Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (code, body) = answered(&objects, request.uri().path());
        let body = kube::client::Body::from(body.to_string().into_bytes());
        std::future::ready(http::Response::builder().status(code).body(body))
    });
    kube::Client::new(service, "ns")
}

fn answered(objects: &[(&'static str, Value)], path: &str) -> (u16, Value) {
    let served = |name: &str, kind: &str| {
        let resource = json!({"name": name, "singularName": "", "kind": kind, "namespaced": true,
            "verbs": ["get", "list"]});
        let (_, version) = path.split_once("/apis/").unwrap_or_default();
        (200, json!({"groupVersion": version, "resources": [resource]}))
    };
    match path {
        "/apis/batch/v1" => return served("jobs", "Job"),
        "/apis/kueue.x-k8s.io/v1beta2" => return served("workloads", "Workload"),
        PODS | JOBS | WORKLOADS => {
            let all = objects.iter().filter(|(folder, _)| *folder == path);
            let items: Vec<&Value> = all.map(|(_, object)| object).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
            return (200, list);
        }
        "/api/v1/nodes/node-1" => {
            let ready = json!([{"type": "Ready", "status": "True"}]);
            let node = json!({"metadata": {"name": "node-1"}, "status": {"conditions": ready}});
            return (200, node);
        }
        _ => {}
    }
    if let Some((_, answer)) = objects.iter().find(|(place, _)| *place == path) {
        return (200, answer.clone());
    }
    (404, json!({"status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"}))
}

async fn explained(wrapper: &Value, objects: Vec<(&'static str, Value)>) -> Explanation {
    let seen = serde_json::from_str(&wrapper.to_string()).expect("an object");
    let wrapper = Wrapper::read(&seen).expect("an AppWrapper");
    let config = Config::default();
    let inputs = around(&client(objects), &wrapper, &config).await.expect("an answer");
    let now: Timestamp = at(80).parse().expect("a moment");
    answer::explain(&inputs, &config, now)
}

fn queued() -> Value {
    with(wrapper("Running"), "/metadata/labels", json!({"kueue.x-k8s.io/queue-name": "q"}))
}

#[tokio::test]
async fn a_retry_policy_that_does_not_exist_is_told() {
    let named = tuned(wrapper("Running"), "retryPolicies", "gone");
    let objects = vec![(JOBS, job()), (PODS, pod("w-0", "Failed", 3))];
    let message = explained(&named, objects).await.message;
    assert!(message.contains("RetryPolicy gone does not exist"), "{message}");
}

#[tokio::test]
async fn the_workload_of_a_failed_node_is_read() {
    let target = json!([{"type": "DisruptionTarget", "status": "True",
        "reason": "DeletionByTaintManager", "lastTransitionTime": at(19)}]);
    let lost = with(pod("w-0", "Failed", 143), "/status/conditions", target);
    let workload = json!({
        "metadata": {"name": "w", "namespace": "ns", "uid": "w-uid", "ownerReferences": [{
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "aw",
            "uid": "aw-uid", "controller": true,
        }]},
        "spec": {"active": true},
        "status": {"unhealthyNodes": [{"name": "node-1"}]},
    });
    let pods = || vec![(JOBS, job()), (PODS, lost.clone()), (PODS, pod("w-1", "Running", 0))];
    let replaced = [pods(), vec![(WORKLOADS, workload)]].concat();
    for (objects, want) in [(pods(), "Resetting"), (replaced, "Running")] {
        let found = explained(&queued(), objects).await;
        assert_eq!(found.next_phase.to_string(), want, "{found:?}");
    }
}

#[tokio::test]
async fn a_lost_node_is_avoided_unless_kueue_chooses_the_nodes() {
    let node = |name: &str, ready: &str| {
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at(10)}]}})
    };
    let nodes = json!({"apiVersion": "v1", "kind": "List", "metadata": {},
        "items": [node("node-1", "False"), node("node-2", "True")]});
    let policy = json!({"apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": "infra"},
        "spec": {"antiAffinity": {"mode": "node"}, "defaultAction": "Retry"}});
    let pods = ["w-0", "w-1"].map(|name| (PODS, pod(name, "Running", 0)));
    let others = vec![(JOBS, job()), (NODES, nodes), (POLICY, policy)];
    let objects = [pods.to_vec(), others].concat();
    let named = tuned(wrapper("Running"), "retryPolicies", "infra");
    let gated = json!([{"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}]);
    let assigned = with(named.clone(), "/spec/components/0/podSetInfos", gated);
    for (wrapper, want) in [(named, vec!["node-1"]), (assigned, vec![])] {
        let found = explained(&wrapper, objects.clone()).await;
        assert_eq!(found.next_phase.to_string(), "Resetting", "{found:?}");
        assert_eq!(found.avoid_nodes, want, "{found:?}");
    }
}

/// A page shows `node-1` alone, and `node-2` can be read by its name.
#[tokio::test]
async fn a_few_nodes_are_not_looked_for_on_all_pages() {
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    };
    for (count, is_all) in [(2, true), (2, false), (50, false), (51, true)] {
        let of = |number: usize| {
            let pod = pod(&format!("w-{number}"), "Running", 0);
            (PODS, with(pod, "/spec/nodeName", json!(format!("node-{number}"))))
        };
        let metadata = if is_all { json!({}) } else { json!({"continue": "more"}) };
        let page = json!({"kind": "List", "apiVersion": "v1", "metadata": metadata,
            "items": [node("node-1")]});
        let others = vec![(JOBS, job()), (NODES, page), ("/api/v1/nodes/node-2", node("node-2"))];
        let objects = (1..=count).map(of).chain(others).collect();
        let seen = serde_json::from_str(&wrapper("Running").to_string()).expect("an object");
        let wrapper = Wrapper::read(&seen).expect("an AppWrapper");
        let inputs = around(&client(objects), &wrapper, &Config::default()).await;
        let nodes = inputs.expect("an answer").snapshot.nodes;
        let is_lost = |name: &str| nodes[name].lost.is_some();
        let seen = (nodes.len(), is_lost("node-1"), is_lost("node-2"));
        assert_eq!(seen, (count, false, is_all), "{count}");
    }
}
