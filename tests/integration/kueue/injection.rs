//! What Kueue adds to the pods: there while it has admitted them, gone afterwards.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Case, job, pod_template};
use crate::installed::installed_test;

use super::{API, Queue, queued};

/// A flavor of one node, with a toleration of its own.
fn flavor(node: &str) -> Value {
    let toleration = json!({"key": node, "operator": "Exists", "effect": "NoSchedule"});
    json!({"nodeLabels": {"kubernetes.io/hostname": node}, "tolerations": [toleration]})
}

/// Whether one value has all that another has, in its objects and lists.
fn has(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| has(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| has(whole, part)))
        }
        (whole, part) => whole == part,
    }
}

/// The pods of an attempt have all that `podSetInfos` says, all that the template says, and nothing of
/// the other flavor.
fn injected(case: &Case, attempt: &str, infos: &Value, [node, other]: [&str; 2]) {
    let log = case.log();
    let label = "workload.codeflare.dev/attempt";
    let of = log.all("Pod").filter(|pod| pod.object["metadata"]["labels"][label] == attempt);
    let pods: Vec<_> = of.filter(|pod| pod.object["spec"]["nodeName"].is_string()).collect();
    assert!(!pods.is_empty(), "attempt {attempt} has run");
    for pod in pods {
        let (metadata, spec) = (&pod.object["metadata"], &pod.object["spec"]);
        for (where_to, what) in [
            (&metadata["labels"], "labels"),
            (&metadata["annotations"], "annotations"),
            (&spec["nodeSelector"], "nodeSelector"),
            (&spec["tolerations"], "tolerations"),
        ] {
            let told = &infos[0][what];
            assert!(told.is_null() || has(where_to, told), "{what} {told} of {}", pod.object);
        }
        assert_eq!(spec["nodeName"], node);
        assert!(has(&spec["tolerations"], &json!([{"key": node}, {"key": "mine"}])));
        let selector = json!({"kubernetes.io/hostname": node, "type": "kwok"});
        assert_eq!(spec["nodeSelector"], selector);
        assert_eq!(metadata["annotations"]["mine"], "kept");
        let text = spec.to_string();
        assert!(!text.contains(other), "{text}");
    }
}

/// A Job of two pods, which asks for something itself.
fn template() -> Value {
    let mut template = pod_template(&[]);
    template["metadata"]["annotations"]["mine"] = "kept".into();
    template["spec"]["nodeSelector"] = json!({"type": "kwok"});
    template["spec"]["tolerations"] = json!([{"key": "mine", "operator": "Exists"}]);
    job("j", json!({"parallelism": 2, "completions": 2, "template": template}), &[])
}

#[test]
fn another_flavor_injects_other_things_and_nothing_is_left_over() {
    installed_test("another_flavor_injects_other_things_and_nothing_is_left_over", async |case| {
        case.record("batch/v1", "Job").await;
        case.record_workloads().await;
        let flavors = ["node-1", "node-2"];
        let flavors = flavors.map(|node| (format!("kueue-on-{node}"), 2, flavor(node)));
        let mut queue = Queue { name: "kueue-flavors", flavors: flavors.into(), preempts: false };
        queue.create(&case).await;
        case.create(queued("aw", queue.name, json!({}), vec![template()])).await;
        let admitted = case.ready("aw", 0).await;
        let infos = &admitted.object["spec"]["components"][0]["podSetInfos"];
        assert_eq!(infos[0]["nodeSelector"]["kubernetes.io/hostname"], "node-1");
        injected(&case, "0", infos, ["node-1", "node-2"]);

        case.activate("aw", false).await;
        let suspended = case.phase("aw", "Suspended").await;
        let component = &suspended.object["spec"]["components"][0];
        assert_eq!(component["podSetInfos"], Value::Null);
        assert_eq!(component["template"], template());

        // The first flavor has no room any more.
        queue.flavors[0].1 = 0;
        let (params, patch) = (PatchParams::default(), Patch::Merge(json!({"spec": queue.spec()})));
        let queues = case.cluster_api(API, "ClusterQueue");
        queues.patch(queue.name, &params, &patch).await.expect("the quota is accepted");
        case.activate("aw", true).await;
        let admitted = case.ready("aw", 1).await;
        let infos = &admitted.object["spec"]["components"][0]["podSetInfos"];
        assert_eq!(infos[0]["nodeSelector"]["kubernetes.io/hostname"], "node-2");
        injected(&case, "1", infos, ["node-2", "node-1"]);
        case.lawful("aw").await;
    });
}
