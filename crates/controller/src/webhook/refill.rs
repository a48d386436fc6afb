//! What is filled in again when somebody changes an AppWrapper and leaves it out.
//!
//! `kubectl apply` sends the components as a manifest has them, and to Kubernetes the list is one value: without what
//! admission and Kueue have written into it, an unchanged manifest would change it. `kubectl replace` sends nothing else
//! than the manifest; and so does server-side apply for what its manager owned before, which may be everything.

use serde_json::{Map, Value};

use super::default;
use super::judge::is_deleted;
use super::response::Op;
use crate::api::keys;
use crate::config::Config;
use crate::kinds;

/// The changes that give an AppWrapper back what it had.
///
/// | field | where |
/// |---|---|
/// | labels `workload.codeflare.dev/user`, `…/userid` | missing |
/// | label `kueue.x-k8s.io/queue-name` | none is given, and the stored one is the default queue |
/// | `spec.managedBy` | missing |
/// | finalizer | missing, the AppWrapper is not being deleted, and no other controller manages it |
/// | `spec.requester` | missing |
/// | `spec.suspend` | missing, and the AppWrapper has a queue |
/// | `podSets` of a component | none is declared |
/// | `podSetInfos` of a component | missing, and the AppWrapper has a queue |
/// | `template` of a component | it means the stored one: without what admission recorded in it, or with empty metadata |
///
/// Kueue and the controller write what they mean: they are not asked here. No component is changed where some are added
/// or removed: validation says so.
#[must_use]
pub fn refill(old: &Value, new: &Value, config: &Config) -> Vec<Op> {
    let (Value::Object(metadata), Value::Object(spec)) = (&new["metadata"], &new["spec"]) else {
        return vec![];
    };
    let has_queue =
        [old, new].iter().any(|aw| !is_empty(&aw["metadata"]["labels"][keys::QUEUE_NAME]));
    let mut ops = labels(&old["metadata"], metadata, config);
    if lacks(spec, &old["spec"], "managedBy") {
        ops.push(Op::set(&["spec", "managedBy"], old["spec"]["managedBy"].clone()));
    }
    if old["spec"].as_object().is_none_or(default::is_ours) && default::is_ours(spec) {
        ops.extend(finalizer(&old["metadata"], metadata));
    }
    if lacks(spec, &old["spec"], "requester") {
        ops.push(Op::set(&["spec", "requester"], old["spec"]["requester"].clone()));
    }
    if has_queue && lacks(spec, &old["spec"], "suspend") {
        ops.push(Op::set(&["spec", "suspend"], old["spec"]["suspend"].clone()));
    }
    ops.extend(components(&old["spec"], spec, has_queue));
    ops
}

/// The labels of the user, and that of the default queue.
fn labels(old: &Value, new: &Map<String, Value>, config: &Config) -> Vec<Op> {
    let none = Map::new();
    let given = match new.get("labels") {
        None | Some(Value::Null) => None,
        Some(Value::Object(labels)) => Some(labels),
        Some(_) => return vec![],
    };
    // also one with an empty value, as of a user without a UID
    let is_missing = |key: &&str| {
        given.unwrap_or(&none).get(*key).is_none_or(Value::is_null) && !old["labels"][key].is_null()
    };
    let queue = &old["labels"][keys::QUEUE_NAME];
    let is_default =
        config.admission.default_queue_name.as_deref().is_some_and(|name| queue == name);
    let given_queue = given.unwrap_or(&none).get(keys::QUEUE_NAME);
    let lacks_queue = is_default && given_queue.is_none_or(is_empty);
    let missing = [keys::USER, keys::USER_ID].into_iter().filter(is_missing);
    let missing = missing.chain(lacks_queue.then_some(keys::QUEUE_NAME));
    let missing = missing.map(|key| (key, old["labels"][key].clone()));
    if given.is_some() {
        return missing.map(|(key, value)| Op::set(&["metadata", "labels", key], value)).collect();
    }
    let all: Map<String, Value> = missing.map(|(key, value)| (key.to_owned(), value)).collect();
    if all.is_empty() { vec![] } else { vec![Op::set(&["metadata", "labels"], all.into())] }
}

/// Without it, the API server would delete the AppWrapper before its pods.
fn finalizer(old: &Value, new: &Map<String, Value>) -> Option<Op> {
    let had = old["finalizers"].as_array().is_some_and(|all| all.contains(&keys::FINALIZER.into()));
    if had && !is_deleted(new) { default::finalizer(new) } else { None }
}

fn components(old: &Value, new: &Map<String, Value>, has_queue: bool) -> Vec<Op> {
    let stored = old["components"].as_array();
    let given = new.get("components").and_then(Value::as_array);
    let (Some(stored), Some(given)) = (stored, given) else { return vec![] };
    if stored.len() != given.len() {
        return vec![];
    }
    let mut ops = vec![];
    for (i, (old, new)) in stored.iter().zip(given).enumerate() {
        let Value::Object(new) = new else { continue };
        let mut keep = |field: &str| {
            ops.push(Op::set(&["spec", "components", &i.to_string(), field], old[field].clone()));
        };
        if lacks(new, old, "podSets") {
            keep("podSets");
        }
        if has_queue && lacks(new, old, "podSetInfos") {
            keep("podSetInfos");
        }
        let stored = &old["template"];
        let template = new.get("template").filter(|template| *template != stored);
        if template
            .map(as_stored)
            .is_some_and(|template| template == *stored || kinds::is_record_of(stored, &template))
        {
            keep("template");
        }
    }
    ops
}

/// A template without empty maps in its metadata: the API server does not store them, but compares what is applied on
/// the server's side with them.
fn as_stored(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(Value::Object(metadata)) = template.get_mut("metadata") {
        metadata.retain(|_, value| !value.is_null() && *value != Value::Object(Map::new()));
    }
    template
}

/// Whether the new object leaves out a field that the old one has.
fn lacks(new: &Map<String, Value>, old: &Value, field: &str) -> bool {
    new.get(field).is_none_or(is_empty) && !is_empty(&old[field])
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}
