//! Suspect nodes on the real control plane: evidence, the event on the Node, and the pods of the next AppWrapper.

use appwrapper::clock::{Clock, SystemClock};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use crate::aw::User;
use crate::harness::{Case, test, tuned};
use crate::nodes::Own;

const API_VERSION: &str = "workload.codeflare.dev/v1alpha1";

fn suspicions(case: &Case) -> Api<DynamicObject> {
    case.cluster_api(API_VERSION, "NodeSuspicion")
}

/// Waits until the object of a node is so.
async fn until(case: &Case, node: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let so = |found: Option<&DynamicObject>| found.is_some_and(|found| is_so(&found.data["spec"]));
    let found = await_condition(suspicions(case), node, so).await.expect("they are watched");
    found.expect("it is there").data["spec"].clone()
}

/// An object that an administrator writes: so many losses of a node, two minutes apart, the last at a moment.
async fn plant(case: &Case, node: &str, losses: i64, last: Timestamp) {
    let nodes: Api<Node> = Api::all(case.client.clone());
    let uid = nodes.get(node).await.expect("the node exists").uid();
    let loss = |number: i64| {
        let time = last.checked_sub(SignedDuration::from_mins(2 * number)).expect("a moment");
        json!({"kind": "NodeLost", "namespace": format!("n{number}"), "name": "aw",
            "uid": format!("u{number}"), "attempt": 0, "category": "node", "time": time})
    };
    let evidence: Vec<Value> = (0..losses).map(loss).collect();
    case.create(json!({"apiVersion": API_VERSION, "kind": "NodeSuspicion",
        "metadata": {"name": node}, "spec": {"nodeUID": uid, "evidence": evidence}}))
        .await;
}

/// An AppWrapper whose pod fails on a node counts against it; objects whose evidence has expired are deleted. Uses each
/// permission of the controller.
pub async fn evidence_comes_and_goes(case: &Case, own: &Own<'_>) {
    let settings = || tuned(&[("failureGracePeriodDuration", "0s"), ("retryLimit", "0")]);
    let life = [("run-for", "1s"), ("exit-code", "3")];
    let node = own.name(0);
    let pod = |name: &str| {
        let mut pod = own.pod(name, &life);
        pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] = node.as_str().into();
        pod
    };
    for (count, name) in [(1, "once"), (2, "twice")] {
        case.wrap(name, settings(), vec![pod(name)]).await;
        case.phase(name, "Failed").await;
        let has = |spec: &Value| spec["evidence"].as_array().is_some_and(|all| all.len() == count);
        let spec = until(case, &node, has).await;
        let evidence = &spec["evidence"][0];
        assert_eq!((&evidence["name"], &evidence["kind"]), (&json!(name), &json!("Container")));
        assert_eq!((&evidence["exitCode"], &evidence["rank"]), (&json!(3), &json!(name)));
        assert_eq!(spec["suspectSince"], json!(null), "two exit codes of one namespace");
    }
    let past =
        SystemClock.now().checked_sub(SignedDuration::from_hours(24 * 40)).expect("a moment");
    plant(case, &own.name(1), 1, past).await;
    let is_gone = |found: Option<&DynamicObject>| found.is_none();
    let gone = await_condition(suspicions(case), &own.name(1), is_gone).await;
    gone.expect("they are watched");
    for name in ["once", "twice"] {
        case.delete_wrapper(name).await;
        case.gone("AppWrapper", name).await;
    }
}

#[test]
fn evidence_is_written_and_expires() {
    test("evidence_is_written_and_expires", async |case| {
        let own = Own::new(&case, 2).await;
        evidence_comes_and_goes(&case, &own).await;
        own.clear().await;
    });
}

/// The tests' settings have a threshold of 700, so that tests whose pods fail do not change the pods of others.
#[test]
fn a_node_that_is_lost_again_and_again_is_avoided() {
    test("a_node_that_is_lost_again_and_again_is_avoided", async |case| {
        let own = Own::new(&case, 2).await;
        let settings = tuned(&[("failureGracePeriodDuration", "1s")]);
        case.wrap("first", settings, vec![own.pod("p", &[("stuck", "")])]).await;
        let node = own.of_pod("p").await;
        case.condition("first", "PodsReady", "True").await;
        let before =
            SystemClock.now().checked_sub(SignedDuration::from_mins(10)).expect("a moment");
        plant(&case, &node, 14, before).await;
        own.silence(&node, true).await;
        let spec = until(&case, &node, |spec| spec["suspectSince"].is_string()).await;
        assert!(spec["score"].as_i64() >= Some(700), "{spec}");
        let newest = &spec["evidence"][0];
        assert_eq!((&newest["name"], &newest["kind"]), (&json!("first"), &json!("NodeLost")));
        assert_eq!(newest["namespace"], case.namespace.as_str());
        is_told(&case, &node).await;

        case.wrap("second", json!({}), vec![own.pod("q", &[])]).await;
        let pod = case.pod("q", "Running").await;
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let terms = &pod.object["spec"]["affinity"]["nodeAffinity"][preferred];
        let other = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]});
        let term = json!({"weight": 50, "preference": {"matchExpressions": [other]}});
        assert_eq!(*terms, json!([term]));
        assert_ne!(pod.object["spec"]["nodeName"], node.as_str());

        let user = User::admin(&case);
        let said = user.cluster(&["nodes"]).with(0, &[&node, "NodeLost", "Prefer"]);
        let row = said.out.lines().find(|line| line.starts_with(&node)).expect("a row");
        assert!(row.ends_with("Prefer"), "{row}");
        user.run(&["why", "second"]).with(0, &[&format!("pods prefer other nodes than {node}")]);
        for name in ["first", "second"] {
            case.delete_wrapper(name).await;
        }
        own.clear().await;
    });
}

/// Waits for the event on a Node.
async fn is_told(case: &Case, node: &str) {
    let events: Api<k8s_openapi::api::events::v1::Event> =
        Api::namespaced(case.client.clone(), "default");
    let of_node = ListParams::default().fields("reason=NodeSuspected");
    let config = kube::runtime::watcher::Config::default().fields("reason=NodeSuspected");
    let mut seen = Box::pin(kube::runtime::WatchStreamExt::applied_objects(
        kube::runtime::watcher(events.clone(), config),
    ));
    let is_its = |event: &k8s_openapi::api::events::v1::Event| {
        let about = event.regarding.as_ref();
        about.is_some_and(|about| {
            about.kind.as_deref() == Some("Node") && about.name.as_deref() == Some(node)
        })
    };
    while let Some(event) = futures::StreamExt::next(&mut seen).await {
        if event.is_ok_and(|event| is_its(&event)) {
            break;
        }
    }
    let all = events.list(&of_node).await.expect("events are listed");
    let its: Vec<_> = all.iter().filter(|event| is_its(event)).collect();
    assert_eq!(its.len(), 1, "once");
    let text = its[0].note.as_deref().unwrap_or_default();
    assert!(text.contains("pods of new attempts prefer other nodes;"), "{text}");
}
