//! What is filled in again when somebody changes an AppWrapper and leaves it out.
//!
//! `kubectl apply` and those who work like it send the components as a manifest has them, and to Kubernetes the list is
//! one value: without what admission and Kueue have written into it, an unchanged manifest would change it.

use serde_json::{Map, Value};

use super::response::Op;
use crate::api::keys;
use crate::kinds;

/// The changes that give the components back what they had.
///
/// | field of a component | where |
/// |---|---|
/// | `podSets` | none is declared |
/// | `podSetInfos` | there is none, the AppWrapper has a queue, and `spec.suspend` stays as it is |
/// | `template` | it means the stored one: without what admission recorded in it, or with empty metadata |
///
/// Kueue and the controller write whole objects: they are not asked here. None where components are added or
/// removed: validation says so.
#[must_use]
pub fn refill(old: &Value, new: &Value) -> Vec<Op> {
    let [stored, given] = [old, new].map(|aw| aw["spec"]["components"].as_array());
    let (Some(stored), Some(given)) = (stored, given) else { return vec![] };
    if stored.len() != given.len() {
        return vec![];
    }
    let has_queue = |aw: &Value| !is_empty(&aw["metadata"]["labels"][keys::QUEUE_NAME]);
    let is_suspended = |aw: &Value| aw["spec"]["suspend"] == true;
    let keeps_infos = has_queue(old) && is_suspended(old) == is_suspended(new);
    let mut ops = vec![];
    for (i, (old, new)) in stored.iter().zip(given).enumerate() {
        let Value::Object(new) = new else { continue };
        let mut keep = |field: &str| {
            ops.push(Op::set(&["spec", "components", &i.to_string(), field], old[field].clone()));
        };
        if lacks(new, old, "podSets") {
            keep("podSets");
        }
        if keeps_infos && lacks(new, old, "podSetInfos") {
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

/// Whether the new component leaves out what the old one has.
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
