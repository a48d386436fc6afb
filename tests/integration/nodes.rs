//! Nodes that are lost while AppWrappers have pods on them, and nodes that pods stay away from.
//!
//! Each test has nodes of its own, which no other test's pods tolerate. A node's heartbeat stops when
//! somebody else takes its lease: KWOK then does nothing more for it or its pods, as a dead kubelet does.

use appwrapper::clock::{Clock, SystemClock};
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};

use crate::harness::{Case, job, pod, test, tuned};

/// Label and taint of a test's own nodes.
const OWN: &str = "test.example.com/own";
const HEALTH: &str = "autopilot.ibm.com/gpuhealth";

/// The nodes of one test, by number.
pub struct Own<'c> {
    case: &'c Case,
    nodes: Api<Node>,
}

impl<'c> Own<'c> {
    /// Makes so many, and waits until they are ready.
    pub async fn new(case: &'c Case, count: usize) -> Self {
        let own = Self { case, nodes: Api::all(case.client.clone()) };
        for number in 0..count {
            own.add(number, json!({})).await;
        }
        own
    }

    pub fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.case.namespace)
    }

    async fn add(&self, number: usize, labels: Value) {
        let (name, own) = (self.name(number), &self.case.namespace);
        let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "100", "nvidia.com/gpu": "8"});
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, OWN: own},
                "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "spec": {"taints": [{"key": OWN, "value": own, "effect": "NoSchedule"}]},
            "status": {"capacity": resources, "allocatable": resources},
        });
        for (key, value) in labels.as_object().into_iter().flatten() {
            node["metadata"]["labels"][key] = value.clone();
        }
        let node: Node = serde_json::from_value(node).expect("a node");
        self.nodes.create(&PostParams::default(), &node).await.expect("the node is new");
        self.until(&name, |node| is_ready(node) && taints(node) == 1).await;
    }

    /// Waits for a node to be so.
    async fn until(&self, name: &str, is_so: impl Fn(&Node) -> bool) {
        let condition = |node: Option<&Node>| node.is_some_and(&is_so);
        await_condition(self.nodes.clone(), name, condition).await.expect("nodes are watched");
    }

    /// Its kubelet falls silent, or is heard of again.
    pub async fn silence(&self, name: &str, silent: bool) {
        let leases: Api<Lease> = Api::namespaced(self.case.client.clone(), "kube-node-lease");
        let taken = json!({"holderIdentity": "nobody", "leaseDurationSeconds": 360_000});
        let given = json!({"holderIdentity": null});
        let patch = Patch::Merge(json!({"spec": if silent { taken } else { given }}));
        leases.patch(name, &PatchParams::default(), &patch).await.expect("the lease is taken");
    }

    /// Its kubelet says that it is not ready, whenever somebody says that it is; never ends.
    async fn keep_unready(&self, name: &str) {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut states = Box::pin(watcher(self.nodes.clone(), config).applied_objects());
        while let Some(state) = states.next().await {
            if state.is_ok_and(|node| is_ready(&node)) {
                let now = SystemClock.now().to_string();
                let patch = json!({"status": {"conditions": [{
                    "type": "Ready", "status": "False", "reason": "KubeletNotReady",
                    "lastTransitionTime": now, "lastHeartbeatTime": now,
                }]}});
                let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
                self.nodes.patch_status(name, &params, &patch).await.expect("a status is taken");
            }
        }
    }

    pub async fn delete(&self, name: &str) {
        self.nodes.delete(name, &DeleteParams::default()).await.expect("the node is deleted");
    }

    /// A template whose pods go to these nodes and stay there whatever becomes of them.
    fn here(&self, mut template: Value, spec: &str) -> Value {
        let own = &self.case.namespace;
        let spec = template.pointer_mut(spec).expect("a pod template");
        spec["nodeSelector"] = json!({OWN: own});
        let stays = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
        spec["tolerations"] = json!([
            {"key": OWN, "operator": "Exists"},
            stays("node.kubernetes.io/unreachable"),
            stays("node.kubernetes.io/not-ready"),
        ]);
        template
    }

    pub fn pod(&self, name: &str, life: &[(&str, &str)]) -> Value {
        self.here(pod(name, life), "/spec")
    }

    /// The node on which a pod is.
    pub async fn of_pod(&self, prefix: &str) -> String {
        let pod = self.case.pod(prefix, "Running").await;
        pod.object["spec"]["nodeName"].as_str().expect("it has a node").to_owned()
    }

    /// Takes away those that are left.
    pub async fn clear(&self) {
        let params =
            kube::api::ListParams::default().labels(&format!("{OWN}={}", self.case.namespace));
        for node in self.nodes.list(&params).await.expect("nodes are listed") {
            self.delete(&node.name_any()).await;
        }
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
}

fn taints(node: &Node) -> usize {
    node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).map_or(0, Vec::len)
}

/// Waits for the second attempt, on another node, after one restart for the end of this one.
async fn moved(case: &Case, name: &str, node: &str, reason: &str) {
    let done = case
        .until(&format!("{name} runs again"), |log| {
            let mut states = log.of("AppWrapper", name);
            let again = |seen: &&crate::harness::RawObject| {
                seen.phase() == "Running"
                    && seen.condition("PodsReady") == "True"
                    && seen.attempts().len() == 2
            };
            states.find(again).cloned()
        })
        .await;
    assert_eq!(done.restarts(), 1, "one node, one failure");
    let attempt = &done.attempts()[0];
    let failure = &attempt["failure"];
    assert_eq!(attempt["action"], "Restart");
    assert_eq!((&failure["node"], &failure["reason"]), (&json!(node), &json!(reason)));
    assert_eq!(failure["category"], "node");
    case.lawful(name).await;
}

#[test]
fn pods_are_lost_when_the_heartbeat_of_their_node_stops_and_wait_for_force() {
    test("pods_are_lost_when_the_heartbeat_of_their_node_stops", async |case| {
        let own = Own::new(&case, 2).await;
        let settings = tuned(&[
            ("failureGracePeriodDuration", "1s"),
            ("forcefulDeletionGracePeriodDuration", "8s"),
        ]);
        case.wrap("aw", settings, vec![own.pod("p", &[("stuck", "")])]).await;
        let node = own.of_pod("p").await;
        own.silence(&node, true).await;
        let seen = case.unhealthy("aw", "FoundFailedPods").await;
        assert!(seen.condition_field("Unhealthy", "message").contains(&node));
        let told = case.says("aw", "DeletingResources", "has been unreachable since").await;
        let message = told.condition_field("DeletingResources", "message").to_owned();
        assert!(message.contains(&format!("Pod/p on node {node}, which")), "{message}");
        let advice = format!("kubectl taint node {node} node.kubernetes.io/out-of-service=");
        assert!(message.contains(&advice), "{message}");
        moved(&case, "aw", &node, "NodeUnreachable").await;
        own.clear().await;
    });
}

#[test]
fn a_pod_that_is_safe_to_force_delete_is_not_waited_for() {
    test("a_pod_that_is_safe_to_force_delete_is_not_waited_for", async |case| {
        let own = Own::new(&case, 2).await;
        let settings = tuned(&[("failureGracePeriodDuration", "1s")]);
        let mut pod = own.pod("p", &[("stuck", "")]);
        pod["metadata"]["annotations"]["kueue.x-k8s.io/safe-to-forcefully-delete"] = "true".into();
        case.wrap("aw", settings, vec![pod]).await;
        let node = own.of_pod("p").await;
        own.silence(&node, true).await;
        moved(&case, "aw", &node, "NodeUnreachable").await; // by default, force waits ten minutes
        own.clear().await;
    });
}

#[test]
fn a_node_that_is_ready_again_in_time_has_lost_nothing() {
    test("a_node_that_is_ready_again_in_time_has_lost_nothing", async |case| {
        let own = Own::new(&case, 1).await;
        let settings = tuned(&[("failureGracePeriodDuration", "10m")]);
        case.wrap("aw", settings, vec![own.pod("p", &[])]).await;
        let node = own.of_pod("p").await;
        case.condition("aw", "PodsReady", "True").await;
        own.silence(&node, true).await;
        tokio::select! {
            seen = case.unhealthy("aw", "FoundFailedPods") => {
                let message = seen.condition_field("Unhealthy", "message").to_owned();
                assert!(message.contains("NodeNotReady"), "{message}");
            }
            () = own.keep_unready(&node) => panic!("the watch of the node ended"),
        }
        own.silence(&node, false).await;
        let seen = case.condition("aw", "Unhealthy", "False").await;
        assert_eq!((seen.phase(), seen.restarts()), ("Running", 0));
        case.condition("aw", "PodsReady", "True").await;
        assert_eq!(case.log().uids("Pod", "p").len(), 1, "the pod has gone on");
        own.clear().await;
    });
}

#[test]
fn on_a_node_out_of_service_no_pod_is_waited_for() {
    test("on_a_node_out_of_service_no_pod_is_waited_for", async |case| {
        let own = Own::new(&case, 2).await;
        let settings = tuned(&[("failureGracePeriodDuration", "1s")]);
        case.wrap("aw", settings, vec![own.pod("p", &[("stuck", "")])]).await;
        let node = own.of_pod("p").await;
        let taint = json!({
            "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown",
            "effect": "NoExecute",
        });
        let kept = json!({"key": OWN, "value": case.namespace, "effect": "NoSchedule"});
        let patch = Patch::Merge(json!({"spec": {"taints": [kept, taint]}}));
        own.nodes.patch(&node, &PatchParams::default(), &patch).await.expect("it is tainted");
        moved(&case, "aw", &node, "NodeOutOfService").await; // by default, force waits ten minutes
        own.clear().await;
    });
}

#[test]
fn the_pods_of_a_deleted_node_are_lost_at_once() {
    test("the_pods_of_a_deleted_node_are_lost_at_once", async |case| {
        let own = Own::new(&case, 2).await;
        let settings = tuned(&[("failureGracePeriodDuration", "1s")]);
        let life = [("stuck", "")];
        let spec = json!({"parallelism": 4, "completions": 4, "backoffLimit": 6});
        let gang = own.here(job("j", spec, &life), "/spec/template/spec");
        case.wrap("aw", settings, vec![gang]).await;
        case.condition("aw", "PodsReady", "True").await;
        let node = own.of_pod("j").await;
        own.delete(&node).await;
        case.unhealthy("aw", "FoundFailedPods").await;
        // those on the other node do not go before they are forced
        case.says("aw", "DeletingResources", "Waiting for").await;
        let log = case.log();
        let last = log.last("AppWrapper", "aw").expect("it exists");
        assert_eq!(last.attempts()[0]["failure"]["reason"], "NodeDeleted");
        assert_eq!((last.restarts(), last.phase()), (1, "Resetting"));
        own.clear().await;
    });
}

#[test]
fn the_end_of_a_node_is_counted_once_for_all_components() {
    test("the_end_of_a_node_is_counted_once_for_all_components", async |case| {
        let own = Own::new(&case, 1).await;
        let annotations = tuned(&[("failureGracePeriodDuration", "1s"), ("retryLimit", "1")]);
        let templates = vec![own.pod("a", &[("stuck", "")]), own.pod("b", &[("stuck", "")])];
        let mut wrapper = crate::harness::wrapper("aw", annotations, templates);
        wrapper["spec"]["failurePolicy"] = json!({"rules": [{"action": "RecreateComponent"}]});
        case.create(wrapper).await;
        case.condition("aw", "PodsReady", "True").await;
        own.add(1, json!({})).await;
        own.delete(&own.name(0)).await;
        let done = case
            .until("both components again", |log| {
                let mut states = log.of("AppWrapper", "aw");
                let again = |seen: &&crate::harness::RawObject| {
                    seen.attempts().len() == 3 && seen.condition("PodsReady") == "True"
                };
                states.find(again).cloned()
            })
            .await;
        assert_eq!((done.phase(), done.restarts()), ("Running", 1), "of one that is allowed");
        for attempt in &done.attempts()[..2] {
            assert_eq!(attempt["outcome"], "ComponentRecreated");
            assert_eq!(attempt["failure"]["node"], own.name(0).as_str());
        }
        own.clear().await;
    });
}

/// Each policy decides about a lost node as it decides about what Kubernetes calls a disruption.
#[test]
fn a_node_is_lost_beside_every_policy() {
    test("a_node_is_lost_beside_every_policy", async |case| {
        let own = Own::new(&case, 1).await;
        let rule = json!({"name": "evicted", "action": "Retry", "onConditions": ["Evicted"]});
        case.create(json!({
            "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
            "metadata": {"name": "nodes-evicted"}, "spec": {"rules": [rule]},
        }))
        .await;
        let disruption = json!([{"type": "DisruptionTarget", "status": "True"}]);
        let free = json!({"rules": [{"action": "RestartAppWrapperAndIgnoreMaxRestarts"}]});
        let ignore = json!({"rules": [{"action": "Ignore", "onPodConditions": disruption}]});
        let base = [("failureGracePeriodDuration", "1s"), ("retryLimit", "0")];
        let policies = [&base[..], &[("retryPolicies", "nodes-evicted")]].concat();
        let all = [
            ("free", &base[..], json!({"failurePolicy": free}), "failurePolicy"),
            ("ignored", &base[..], json!({"podFailurePolicy": ignore}), "podFailurePolicy"),
            ("retried", &policies[..], json!({}), "retryPolicy"),
        ];
        for (name, settings, spec, _) in &all {
            let template =
                own.here(job(name, json!({"backoffLimit": 0}), &[]), "/spec/template/spec");
            let mut object = crate::harness::wrapper(name, tuned(settings), vec![template]);
            for (field, value) in spec.as_object().into_iter().flatten() {
                object["spec"][field] = value.clone();
            }
            case.create(object).await;
            case.condition(name, "PodsReady", "True").await;
        }
        let node = own.name(0);
        own.delete(&node).await;
        own.add(1, json!({})).await;
        for (name, _, _, source) in &all {
            let first = case
                .until(&format!("{name} runs again"), |log| {
                    let seen = log.last("AppWrapper", name)?;
                    let again = seen.phase() == "Running" && seen.attempts().len() == 2;
                    again.then(|| seen.attempts()[0].clone())
                })
                .await;
            assert_eq!(first["rule"]["source"], *source, "{name}: {first}");
            assert_eq!(first["failure"]["category"], "node", "{name}: {first}");
        }
        own.clear().await;
    });
}

#[test]
fn pods_that_use_a_resource_stay_away_from_nodes_marked_for_it() {
    test("pods_that_use_a_resource_stay_away_from_nodes_marked_for_it", async |case| {
        let own = Own::new(&case, 1).await;
        own.add(1, json!({HEALTH: "EVICT"})).await;
        let spec = json!({"parallelism": 4, "completions": 4});
        let mut gang = own.here(job("j", spec, &[]), "/spec/template/spec");
        let pod = &mut gang["spec"]["template"]["spec"];
        let container = &mut pod["containers"][0]["resources"];
        *container = json!({"limits": {"nvidia.com/gpu": "1"}});
        let exists = json!([{"key": OWN, "operator": "Exists"}]);
        let nowhere = json!([{"key": "no", "operator": "Exists"}]);
        let terms = json!([{"matchExpressions": exists}, {"matchExpressions": nowhere}]);
        pod["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }});
        let mut free = own.here(
            job("free", json!({"parallelism": 4, "completions": 4}), &[]),
            "/spec/template/spec",
        );
        free["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }});
        case.wrap("aw", json!({}), vec![gang, free]).await;
        case.condition("aw", "PodsReady", "True").await;
        let log = case.log();
        let stays_away = json!({"key": HEALTH, "operator": "NotIn", "values": ["EVICT"]});
        for pod in log.all("Pod") {
            let spec = &pod.object["spec"];
            let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                ["nodeSelectorTerms"];
            let told = |term: &Value| {
                let all = term["matchExpressions"].as_array();
                all.is_some_and(|all| all.contains(&stays_away))
            };
            let uses = pod.name.starts_with("j-");
            let terms = required.as_array().expect("terms");
            assert_eq!(terms.iter().filter(|term| told(term)).count(), if uses { 2 } else { 0 });
            let node = spec["nodeName"].as_str().filter(|_| uses);
            assert!(node.is_none_or(|node| node == own.name(0)), "{} on {node:?}", pod.name);
        }
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        own.clear().await;
    });
}
