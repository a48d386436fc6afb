//! Nodes: whether their kubelets answer, and whether an administrator says that they are shut down.

use std::time::Duration;

use serde_json::json;

use super::set_condition;
use crate::sim::{Address, Object, Part, Store};

/// Whether a kubelet answers.
pub(super) enum NodeState {
    Up,
    /// Since when it does not.
    Down(Duration),
    Gone,
}

/// Annotation of a node that is down: since when.
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

/// Whether nobody looks after the pods on a node.
#[must_use]
pub fn is_lost(store: &Store, name: &str) -> bool {
    is_fenced(store, name) || !matches!(node_state(store, name), NodeState::Up)
}

/// A node stops to answer, or answers again.
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
        let reason = if ready { "KubeletReady" } else { "NodeStatusUnknown" };
        set_condition(node, "Ready", ready, reason, "", &now);
    });
}
