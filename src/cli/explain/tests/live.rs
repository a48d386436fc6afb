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

/// A client of an API server that has these objects, each in a collection.
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
