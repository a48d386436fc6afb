//! Topology-Aware Scheduling: Kueue chooses the nodes of the pods.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::{Case, job};
use crate::installed::installed_test;

use super::{API, Queue, queued};

const HOST: &str = "kubernetes.io/hostname";

/// A queue whose flavor has a topology of nodes.
async fn queue(case: &Case, name: &str) {
    let topology = json!({
        "apiVersion": API,
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": "type"}, {"nodeLabel": HOST}]},
    });
    let topology = serde_json::from_value(topology).expect("an object");
    let api = case.cluster_api(API, "Topology");
    api.create(&PostParams::default(), &topology).await.expect("the topology is new");
    let flavor = json!({"nodeLabels": {"type": "kwok"}, "topologyName": name});
    Queue { name, flavors: vec![(name.to_owned(), 100, flavor)], preempts: false }
        .create(case)
        .await;
}

/// A Job of four pods with an index each.
fn indexed(name: &str, annotations: Value) -> Value {
    let mut template = job(name, json!({}), &[])["spec"]["template"].take();
    template["metadata"]["annotations"] = annotations;
    let settings = json!({
        "parallelism": 4,
        "completions": 4,
        "completionMode": "Indexed",
        "template": template,
    });
    job(name, settings, &[])
}

#[test]
fn kueue_places_the_pods_that_ask_for_a_topology() {
    installed_test("kueue_places_the_pods_that_ask_for_a_topology", async |case| {
        case.record_workloads().await;
        queue(&case, "kueue-topology").await;
        let asks = [
            ("required", json!({"kueue.x-k8s.io/podset-required-topology": HOST})),
            ("preferred", json!({"kueue.x-k8s.io/podset-preferred-topology": HOST})),
            ("unasked", json!({})),
        ];
        for (name, annotations) in asks {
            let template = indexed(name, annotations);
            case.create(queued(name, "kueue-topology", json!({}), vec![template])).await;
            case.ready(name, 0).await;
            let log = case.log();
            let workload = log.workloads(name).last().expect("it has one");
            let asked = &workload.object["spec"]["podSets"][0]["topologyRequest"];
            let assigned = &workload.object["status"]["admission"]["podSetAssignments"][0];
            // The index that we infer for a Job's pods comes through to Kueue.
            assert_eq!(asked["podIndexLabel"], "batch.kubernetes.io/job-completion-index");
            match name {
                "required" => assert_eq!(asked["required"], HOST),
                "preferred" => assert_eq!(asked["preferred"], HOST),
                _ => {}
            }
            assert!(assigned["topologyAssignment"].is_object(), "{assigned}");
            // Born with a gate, and let go with a node each.
            let mut born: BTreeMap<&str, bool> = BTreeMap::new();
            let mut nodes: BTreeSet<String> = BTreeSet::new();
            for pod in log.all("Pod").filter(|pod| pod.name.starts_with(name)) {
                let held_by = pod.object["spec"]["schedulingGates"].to_string();
                let gated = held_by.contains("kueue.x-k8s.io/topology");
                born.entry(pod.uid()).or_insert(gated);
                let selected = &pod.object["spec"]["nodeSelector"][HOST];
                if let Some(node) = pod.object["spec"]["nodeName"].as_str() {
                    assert_eq!(selected, node, "{name}");
                    nodes.insert(node.to_owned());
                }
            }
            assert_eq!(born.len(), 4, "{name}");
            assert!(born.values().all(|gated| *gated), "{name}: {born:?}");
            if name == "required" {
                assert_eq!(nodes.len(), 1, "{nodes:?}");
            }
            case.delete_wrapper(name).await;
            case.gone("AppWrapper", name).await;
            case.lawful(name).await;
        }
    });
}
