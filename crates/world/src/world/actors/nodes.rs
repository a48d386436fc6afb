//! Nodes: whether their kubelets answer, and whether an administrator says that they are shut down.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{is_true, phase, set_condition};
use crate::sim::{Address, Object, Part, Store};

/// Whether a kubelet answers.
pub(super) enum NodeState {
    Up,
    /// Since when it does not, as far as the node lifecycle controller knows.
    Down(Duration),
    Gone,
}

/// Annotation of a node that is down: since when that is known.
pub(super) const DOWN_SINCE: &str = "sim/down-since";

pub(super) fn node_state(store: &Store, name: &str) -> NodeState {
    let kind = store.kinds.by_name("v1", "Node");
    let node = kind.and_then(|kind| store.get(&Address::new(kind, "", name)));
    let Some(node) = node else { return NodeState::Gone };
    match node.annotation(DOWN_SINCE).and_then(|text| text.parse().ok()) {
        Some(millis) => NodeState::Down(Duration::from_millis(millis)),
        // what is said to be shut down is
        None if is_out_of_service(node) => NodeState::Down(Duration::ZERO),
        None => NodeState::Up,
    }
}

/// Taint of a node that is shut down.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// An administrator says that a node is shut down, or takes that back.
pub fn set_out_of_service(store: &mut Store, name: &str, is_out: bool) {
    let Some(kind) = store.kinds.by_name("v1", "Node") else { return };
    let taint = json!({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"});
    let taints = if is_out { json!([taint]) } else { json!([]) };
    store.change(&Address::new(kind, "", name), Part::Whole, |node| {
        if is_out || node["spec"]["taints"].is_array() {
            node["spec"]["taints"] = taints;
        }
    });
}

/// Whether nothing runs on a node: it is gone, or said to be shut down.
#[must_use]
pub fn is_fenced(store: &Store, name: &str) -> bool {
    let kind = store.kinds.by_name("v1", "Node");
    let node = kind.and_then(|kind| store.get(&Address::new(kind, "", name)));
    node.is_none_or(|node| is_out_of_service(node))
}

pub(super) fn is_out_of_service(node: &Object) -> bool {
    let mut taints = node.value["spec"]["taints"].as_array().into_iter().flatten();
    taints.any(|taint| taint["key"] == OUT_OF_SERVICE)
}

/// How long nobody notices that a kubelet is silent. Source: `NodeMonitorGracePeriod` of kube-controller-manager, which was
/// 40 s before 1.32 and is 50 s since.
pub const UNNOTICED_FOR: Duration = Duration::from_secs(40);

/// Whether a node is shown to be lost: its Ready condition is not True, or nothing runs there.
#[must_use]
pub fn shows_loss(store: &Store, name: &str) -> bool {
    let kind = store.kinds.by_name("v1", "Node");
    let node = kind.and_then(|kind| store.get(&Address::new(kind, "", name)));
    let is_unready = node.is_some_and(|node| {
        let mut all = node.value["status"]["conditions"].as_array().into_iter().flatten();
        all.any(|one| one["type"] == "Ready" && one["status"] != "True")
    });
    is_unready || is_fenced(store, name)
}

/// The kubelet of a node is silent from now on. Nothing shows that until [`notice`], at the moment that is given.
pub fn silence(store: &mut Store, name: &str, noticed: Duration) {
    let Some(kind) = store.kinds.by_name("v1", "Node") else { return };
    store.change(&Address::new(kind, "", name), Part::Whole, |node| {
        node["metadata"]["annotations"][DOWN_SINCE] = noticed.as_millis().to_string().into();
    });
}

/// The node lifecycle controller notices that a kubelet is silent: the Ready condition of the node is Unknown, and that of
/// each of its pods False, whose reason stays. Source: `MarkPodsNotReady` of kube-controller-manager.
pub fn notice(store: &mut Store, address: &Address, elapsed: Duration) {
    let Some(node) = store.get(address) else { return };
    let since = node.annotation(DOWN_SINCE).and_then(|text| text.parse().ok());
    let is_due = since.is_some_and(|millis| Duration::from_millis(millis) <= elapsed);
    if !is_due || shows_loss(store, &address.name) {
        return;
    }
    let now = store.now();
    store.change(address, Part::Status, |node| {
        let message = "Kubelet stopped posting node status.";
        set_condition(node, "Ready", false, "NodeStatusUnknown", message, &now);
        let conditions = node["status"]["conditions"].as_array_mut().into_iter().flatten();
        for ready in conditions.filter(|one| one["type"] == "Ready") {
            ready["status"] = "Unknown".into();
        }
    });
    set_pods_ready(store, &address.name, false);
}

/// Says of all pods that run on a node that they are ready, or are not.
fn set_pods_ready(store: &mut Store, node: &str, ready: bool) {
    let Some(kind) = store.kinds.by_name("v1", "Pod") else { return };
    let is_its = |pod: &&Arc<Object>| {
        pod.value["spec"]["nodeName"] == *node
            && phase(pod) == "Running"
            && is_true(&pod.value, "Ready") != ready
    };
    let pods: Vec<Address> = store.all(kind).filter(is_its).map(|it| it.address.clone()).collect();
    let now = store.now();
    for pod in pods {
        store.change(&pod, Part::Status, |pod| set_condition(pod, "Ready", ready, "", "", &now));
    }
}

/// A kubelet says that its node is not ready, which then counts as down, or that it is.
pub fn set_node(store: &mut Store, name: &str, down_since: Option<Duration>) {
    let Some(kind) = store.kinds.by_name("v1", "Node") else { return };
    let address = Address::new(kind, "", name);
    let now = store.now();
    store.change(&address, Part::Whole, |node| match down_since {
        Some(since) => {
            node["metadata"]["annotations"][DOWN_SINCE] = since.as_millis().to_string().into();
        }
        None => {
            if let Some(all) = node["metadata"]["annotations"].as_object_mut() {
                all.remove(DOWN_SINCE);
            }
        }
    });
    let ready = down_since.is_none();
    store.change(&address, Part::Status, |node| {
        let reason = if ready { "KubeletReady" } else { "KubeletNotReady" };
        set_condition(node, "Ready", ready, reason, "", &now);
    });
    if ready {
        set_pods_ready(store, name, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::oracle::{By, Oracle};

    /// A node, and a pod that runs on it.
    fn store() -> (Store, [Address; 2]) {
        let mut store = Store::default();
        let make = |store: &mut Store, kind: &str, namespace: &str, value| {
            let id = store.kinds.by_name("v1", kind).unwrap();
            store.create(id, namespace, value).unwrap().address.clone()
        };
        let node = make(&mut store, "Node", "", json!({"metadata": {"name": "n"}}));
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": []}});
        let pod = make(&mut store, "Pod", "default", pod);
        set_node(&mut store, "n", None);
        let now = store.now();
        store.change(&pod, Part::Status, |pod| {
            pod["status"]["phase"] = "Running".into();
            set_condition(pod, "Ready", true, "", "", &now);
        });
        (store, [node, pod])
    }

    fn ready(store: &Store, address: &Address) -> String {
        let object = store.get(address).unwrap();
        let all = object.value["status"]["conditions"].as_array().unwrap();
        let ready = all.iter().find(|one| one["type"] == "Ready").unwrap();
        ready["status"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_silent_kubelet_is_noticed_after_a_while() {
        let (mut store, [node, pod]) = store();
        let second = Duration::from_secs;
        silence(&mut store, "n", second(50));
        assert!(matches!(node_state(&store, "n"), NodeState::Down(_)) && !shows_loss(&store, "n"));
        for (at, want) in [(49, ["True", "True"]), (50, ["Unknown", "False"])] {
            notice(&mut store, &node, second(at));
            assert_eq!([ready(&store, &node), ready(&store, &pod)], want, "{at}");
        }
        assert!(shows_loss(&store, "n"));
        // whether it is also said to be shut down meanwhile, or not
        for down_since in [None, Some(second(60))] {
            if down_since.is_some() {
                silence(&mut store, "n", second(60));
                notice(&mut store, &node, second(60));
                set_node(&mut store, "n", down_since);
                assert_eq!([ready(&store, &node), ready(&store, &pod)], ["False", "False"]);
            }
            set_node(&mut store, "n", None);
            assert_eq!([ready(&store, &node), ready(&store, &pod)], ["True", "True"]);
        }
        // one that is back before is never noticed
        silence(&mut store, "n", second(90));
        set_node(&mut store, "n", None);
        notice(&mut store, &node, second(90));
        assert_eq!(ready(&store, &node), "True");
    }

    #[test]
    fn a_silent_kubelet_is_noticed_also_on_a_node_without_a_status() {
        let mut store = Store::default();
        let kind = store.kinds.by_name("v1", "Node").unwrap();
        let node = store.create(kind, "", json!({"metadata": {"name": "n"}})).unwrap();
        silence(&mut store, "n", Duration::ZERO);
        notice(&mut store, &node.address, Duration::ZERO);
        assert_eq!(ready(&store, &node.address), "Unknown");
    }

    #[test]
    fn a_node_that_is_back_is_fenced_no_longer() {
        let (mut store, _) = store();
        let mut oracle = Oracle::default();
        let second = Duration::from_secs;
        for (at, is_out) in [(10, true), (20, false)] {
            set_out_of_service(&mut store, "n", is_out);
            let change = store.history().last().unwrap().clone();
            oracle.note(&store, &change, By::default(), second(at));
        }
        for (at, want) in [(25, true), (26, false)] {
            assert_eq!(oracle.is_fenced("n", second(at)), want, "{at}");
        }
        assert!(!oracle.is_fenced("other", second(15)));
    }
}
