//! The policies of an AppWrapper in an annotation, so that MultiKueue carries them to a worker cluster.
//!
//! Kueue creates the copy in the worker cluster through the types of the Go project, which lack these fields;
//! it copies all annotations.
//!
//! ```text
//! manager: spec ─▶ annotation   CREATE and UPDATE, where spec.managedBy is MultiKueue
//! worker:  annotation ─▶ spec   CREATE, where spec has none of the fields; then they are validated
//! ```
//!
//! On UPDATE, `spec` counts. Otherwise, an annotation that differs from `spec` is an error.

use serde_json::{Map, Value};

use super::response::Op;
use super::weight::weight;
use crate::api::keys;
use crate::price::MEMORY_BYTES_MAX;

/// The fields of `spec` that the types of the Go project lack, but for `requester`: admission sets it anew.
pub(super) const FIELDS: [&str; 4] =
    ["executionPolicy", "failurePolicy", "podFailurePolicy", "progress"];

/// What an annotation carries where there are no policies any more.
const NOTHING: &str = "{}";

/// The changes of a new AppWrapper: the annotation of the manager cluster, or the fields of the worker cluster.
pub(super) fn on_create(metadata: &Map<String, Value>, spec: &Map<String, Value>) -> Vec<Op> {
    let given = given(spec);
    match annotation(metadata) {
        Some(text) if given.is_empty() => restored(text),
        None if !given.is_empty() && is_sent(spec) => written(metadata, &given),
        Some(_) | None => vec![],
    }
}

/// The changes of a stored AppWrapper: the annotation follows `spec`.
pub(super) fn on_update(aw: &Value) -> Vec<Op> {
    let (Some(metadata), Some(spec)) = (aw["metadata"].as_object(), aw["spec"].as_object()) else {
        return vec![];
    };
    let given = given(spec);
    if !is_sent(spec) || given.is_empty() && annotation(metadata).is_none() {
        return vec![];
    }
    written(metadata, &given)
}

/// The fields that an annotation carries.
///
/// # Errors
/// It is no JSON object of these fields, or too large.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, String> {
    if weight(text.as_bytes()) > MEMORY_BYTES_MAX {
        return Err(format!("must take at most {MEMORY_BYTES_MAX} bytes of memory when decoded"));
    }
    let fields = FIELDS.join(", ");
    let read = serde_json::from_str::<Map<String, Value>>(text);
    let carried = read.map_err(|error| format!("must be a JSON object of {fields}: {error}"))?;
    let is_known =
        |(name, value): (&String, &Value)| FIELDS.contains(&name.as_str()) && value.is_object();
    if carried.iter().all(is_known) {
        Ok(carried)
    } else {
        Err(format!("must have no other fields than {fields}, and each must be an object"))
    }
}

/// The text of the annotation.
pub(super) fn annotation(metadata: &Map<String, Value>) -> Option<&str> {
    metadata.get("annotations")?.get(keys::POLICIES)?.as_str()
}

/// The fields that are set, of those that are carried.
fn given(spec: &Map<String, Value>) -> Map<String, Value> {
    let set = |name: &str| spec.get(name).filter(|value| !value.is_null()).cloned();
    FIELDS.iter().filter_map(|name| Some(((*name).to_owned(), set(name)?))).collect()
}

/// Whether Kueue sends it to a worker cluster.
fn is_sent(spec: &Map<String, Value>) -> bool {
    spec.get("managedBy").is_some_and(|manager| manager == keys::MULTIKUEUE)
}

fn restored(text: &str) -> Vec<Op> {
    // validation says what is wrong with one that cannot be read
    let carried = read(text).unwrap_or_default();
    carried.into_iter().map(|(name, value)| Op::set(&["spec", &name], value)).collect()
}

fn written(metadata: &Map<String, Value>, given: &Map<String, Value>) -> Vec<Op> {
    let text =
        if given.is_empty() { NOTHING.to_owned() } else { Value::from(given.clone()).to_string() };
    if annotation(metadata) == Some(&text) {
        return vec![];
    }
    match metadata.get("annotations") {
        Some(Value::Object(_)) => {
            vec![Op::set(&["metadata", "annotations", keys::POLICIES], text.into())]
        }
        None | Some(Value::Null) => {
            let all = Map::from_iter([(keys::POLICIES.to_owned(), Value::from(text))]);
            vec![Op::set(&["metadata", "annotations"], all.into())]
        }
        Some(_) => vec![],
    }
}
