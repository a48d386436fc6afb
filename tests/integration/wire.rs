//! Pods as the API server sends them: the same in JSON and in protobuf.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use appwrapper::client::Limits;
use appwrapper::observe::live::{listed_pods, pod_resource, seen_pods};
use appwrapper::observe::pod_record::{PodRecord, WatchedPod};
use futures::StreamExt;
use http::header;
use kube::api::{Api, WatchEvent, WatchParams};
use kube::client::ClientBuilder;
use serde_json::{Value, json};
use tower::util::MapResponseLayer;

use crate::harness::{Case, plane, pod, test};

const LABEL: &str = "workload.codeflare.dev/appwrapper";

/// A pod with the label.
fn labelled(name: &str, life: &[(&str, &str)], spec: Value) -> Value {
    let mut pod = pod(name, life);
    pod["metadata"]["labels"] = json!({LABEL: "a", "workload.codeflare.dev/attempt": "3",
        "workload.codeflare.dev/podset": "1-2", "empty": ""});
    pod["metadata"]["annotations"]["kueue.x-k8s.io/safe-to-forcefully-delete"] = "true".into();
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// Creates pods that run, have failed, wait, and are being deleted, and waits until they do.
async fn create_pods(case: &Case) {
    let sidecar = json!({"name": "side", "image": "busybox", "restartPolicy": "Always",
        "resources": {"requests": {"cpu": 0.001}, "limits": {"memory": "1Gi", "example.org/x": 0}}});
    case.create(labelled("runs", &[], json!({"initContainers": [sidecar]}))).await;
    case.create(labelled("fails", &[("run-for", "0s"), ("exit-code", "3")], json!({}))).await;
    let nowhere = json!({"nodeSelector": {"example.org/node": "none"}});
    case.create(labelled("waits", &[], nowhere)).await;
    let mut held = labelled("held", &[], json!({}));
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    case.create(held).await;
    case.pod("runs", "Running").await;
    case.pod("fails", "Failed").await;
    case.pod("held", "Running").await;
    case.delete("v1", "Pod", "held").await;
    // the kubelet is done with it, and it stays as it is
    case.until("the end of its grace period", |log| {
        let held = log.last("Pod", "held")?;
        (held.object["metadata"]["deletionGracePeriodSeconds"] == 0).then_some(())
    })
    .await;
}

#[test]
fn a_pod_is_the_same_in_json_and_in_protobuf() {
    test("a_pod_is_the_same_in_json_and_in_protobuf", async |case| {
        let kinds = Arc::new(Mutex::new(vec![]));
        let seen = kinds.clone();
        let note = MapResponseLayer::new(move |answer: http::Response<_>| {
            seen.lock().expect("a lock").push(answer.headers()[header::CONTENT_TYPE].clone());
            answer
        });
        let builder = ClientBuilder::try_from(plane().config()).expect("as at the start");
        let client = builder.with_layer(&note).with_layer(&Limits).build();
        create_pods(&case).await;
        let namespace = case.namespace.as_str();
        let by_name = |records: Vec<PodRecord>| -> BTreeMap<String, PodRecord> {
            records.into_iter().map(|record| (record.identity.name.clone(), record)).collect()
        };
        let in_json = seen_pods(&client, namespace, "a").await.expect("a list");
        let in_json = by_name(in_json.iter().map(PodRecord::of).collect());
        assert_eq!(in_json.keys().collect::<Vec<_>>(), ["fails", "held", "runs", "waits"]);
        assert!(in_json["held"].pod.terminating && in_json["fails"].pod.terminated().count() == 1);
        let listed = listed_pods(&client, namespace, &["a"]).await.expect("a list");
        assert_eq!(by_name(listed.into_iter().map(Arc::unwrap_or_clone).collect()), in_json);

        let api: Api<WatchedPod> = Api::all_with(client, &pod_resource());
        let params = WatchParams::default().labels(&format!("{LABEL}=a"));
        let mut events = Box::pin(api.watch(&params, "0").await.expect("a watch"));
        let mut watched = vec![];
        while watched.len() < in_json.len() {
            match events.next().await.expect("it goes on").expect("an event") {
                WatchEvent::Added(pod) if pod.record.identity.namespace == namespace => {
                    watched.push(Arc::unwrap_or_clone(pod.record));
                }
                _ => {}
            }
        }
        assert_eq!(by_name(watched), in_json);
        let kinds = kinds.lock().expect("a lock");
        let is_protobuf: Vec<bool> = kinds
            .iter()
            .map(|kind| kind.to_str().is_ok_and(|kind| kind.contains("protobuf")))
            .collect();
        assert_eq!(is_protobuf, [false, true, true]);
    });
}
