//! The scheduler: binds pods to nodes by labels, taints and free resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::kueue::{request_of, thousandths};
use super::nodes::{DOWN_SINCE, is_out_of_service};
use super::{Env, Task, has_ended, set_condition};
use crate::sim::{Object, Part, Store};

/// Binds a pod to the least loaded node that it fits on.
pub(super) fn schedule(env: &mut Env<'_>, pod: &Arc<Object>) {
    let gated = pod.value["spec"]["schedulingGates"].as_array().is_some_and(|all| !all.is_empty());
    if pod.is_deleting() || gated || has_ended(pod) {
        return;
    }
    let kinds = (env.store.kinds.by_name("v1", "Node"), env.store.kinds.by_name("v1", "Pod"));
    let (Some(nodes), Some(pods)) = kinds else { return };
    let mut loads: BTreeMap<&str, usize> = BTreeMap::new();
    for each in env.store.all(pods).filter(|each| !has_ended(each)) {
        if let Some(name) = each.value["spec"]["nodeName"].as_str() {
            *loads.entry(name).or_insert(0) += 1;
        }
    }
    let load = |node: &Object| loads.get(&*node.address.name).copied().unwrap_or(0);
    let room = |node: &Object| {
        let slots = node.value["status"]["allocatable"]["pods"].as_str();
        slots.and_then(|text| text.parse().ok()).unwrap_or(usize::MAX)
    };
    let fits = |node: &&Arc<Object>| {
        // most nodes of a large cluster are full
        load(node) < room(node)
            && node.annotation(DOWN_SINCE).is_none()
            && !is_out_of_service(node)
            && node.value["spec"]["unschedulable"] != true
            && is_selected(node, pod)
            && has_resources(env.store, node, pod)
    };
    let likes = preferences(pod);
    let best = env.store.all(nodes).filter(fits);
    let best = best.min_by_key(|node| (std::cmp::Reverse(weight(node, &likes)), load(node)));
    let name = best.map(|node| node.address.name.clone());
    let now = env.store.now();
    if let Some(name) = name {
        env.store.change(&pod.address, Part::Whole, |pod| pod["spec"]["nodeName"] = (*name).into());
        env.store.change(&pod.address, Part::Status, |pod| {
            set_condition(pod, "PodScheduled", true, "", "", &now);
        });
        return;
    }
    env.store.change(&pod.address, Part::Status, |pod| {
        let message = "no node has room";
        set_condition(pod, "PodScheduled", false, "Unschedulable", message, &now);
    });
    env.agenda.at(env.elapsed + Duration::from_secs(5), Task::Pod(pod.address.clone()));
}

/// The terms of a pod's preferred node affinity.
fn preferences(pod: &Object) -> Vec<&Value> {
    let node = &pod.value["spec"]["affinity"]["nodeAffinity"];
    let terms = node["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
    terms.into_iter().flatten().collect()
}

/// How much a node is preferred.
fn weight(node: &Object, preferences: &[&Value]) -> i64 {
    let fits = |term: &&&Value| {
        let mut all = term["preference"]["matchExpressions"].as_array().into_iter().flatten();
        all.all(|one| is_expressed(node, one))
    };
    preferences.iter().filter(fits).filter_map(|term| term["weight"].as_i64()).sum()
}

/// Whether a node has the labels that a pod asks for, by selector and by required affinity.
fn is_selected(node: &Object, pod: &Object) -> bool {
    let spec = &pod.value["spec"];
    let wanted = spec["nodeSelector"].as_object();
    let required =
        &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let mut terms = required["nodeSelectorTerms"].as_array().into_iter().flatten();
    let fits = |term: &Value| {
        let mut all = term["matchExpressions"].as_array().into_iter().flatten();
        all.all(|one| is_expressed(node, one))
    };
    wanted.into_iter().flatten().all(|(key, value)| node.label(key) == value.as_str())
        && (required.is_null() || terms.any(fits))
}

fn is_expressed(node: &Object, expression: &Value) -> bool {
    let label = expression["key"].as_str().and_then(|key| node.label(key));
    let mut values = expression["values"].as_array().into_iter().flatten();
    let named = label.is_some_and(|label| values.any(|value| value == label));
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => named,
        "NotIn" => !named,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

/// Whether what a pod asks for is free on a node; a node that tells only how many pods it takes has
/// enough of everything.
fn has_resources(store: &Store, node: &Object, pod: &Object) -> bool {
    let Some(all) = node.value["status"]["allocatable"].as_object() else { return true };
    let Some(pods) = store.kinds.by_name("v1", "Pod") else { return true };
    if all.keys().all(|name| name == "pods") {
        return true;
    }
    let on =
        |each: &Object| each.value["spec"]["nodeName"] == *node.address.name && !has_ended(each);
    asked_for(pod).iter().all(|name| {
        let has = all.get(*name).map_or(0, thousandths);
        let used: i64 =
            store.all(pods).filter(|each| on(each)).map(|each| request_of(&each.value, name)).sum();
        used + request_of(&pod.value, name) <= has
    })
}

/// The resources that the containers of a pod name.
fn asked_for(pod: &Object) -> BTreeSet<&str> {
    let containers = pod.value["spec"]["containers"].as_array().into_iter().flatten();
    let of = |container| ["requests", "limits"].map(|key| &container_of(container)[key]);
    let maps = containers.flat_map(of).filter_map(Value::as_object);
    maps.flatten().map(|(name, _)| name.as_str()).collect()
}

fn container_of(container: &Value) -> &Value {
    &container["resources"]
}
