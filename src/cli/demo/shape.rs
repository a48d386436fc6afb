//! What the simulated cluster can run: an API server would refuse other shapes, and the simulated one reads
//! objects as plain JSON.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::super::bundle::Document;
use super::super::complaint::complaint;
use crate::kinds::{self, Kind};
use crate::tuning::shortened;
use crate::world::actors;

/// The most pods at a time, of all objects together.
const PODS_MAX: i64 = 1_000;

/// What cannot be run in an object, and where.
pub(super) fn flaws(document: &Document) -> Vec<String> {
    let mut found = vec![];
    object(&document.value, "", &mut found);
    let components = document.value.pointer("/spec/components").and_then(Value::as_array);
    for (index, component) in components.into_iter().flatten().enumerate() {
        let path = format!("spec.components[{index}].template");
        object(component.get("template").unwrap_or(&Value::Null), &path, &mut found);
    }
    let place = format!("{}: {}", document.origin, document.title());
    found.into_iter().map(|flaw| format!("{place}: {flaw}")).collect()
}

/// Why these are too many pods, where they are.
pub(super) fn too_many_pods(documents: &[Document]) -> Option<String> {
    let mut total = 0_i64;
    for document in documents {
        let components = document.value.pointer("/spec/components").and_then(Value::as_array);
        let wrapped = components.into_iter().flatten().filter_map(|one| one.get("template"));
        for template in wrapped.chain([&document.value]) {
            // one without pods has none; a count that makes no sense is refused with its object
            let pods = kinds::infer(template).unwrap_or_default();
            let count = pods.iter().map(|set| i64::from(set.count().max(0)));
            total = count.fold(total, i64::saturating_add);
        }
        if total > PODS_MAX {
            let place = format!("{}: {}", document.origin, document.title());
            return Some(format!("{place}: too many pods: at most {PODS_MAX} are simulated"));
        }
    }
    None
}

fn object(value: &Value, path: &str, found: &mut Vec<String>) {
    let at = |field: &str| {
        if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
    };
    if !value.is_object() {
        return found.push(format!("{path}: must be an object"));
    }
    metadata(value, &at("metadata"), found);
    for field in ["spec", "status"] {
        match value.get(field) {
            None | Some(Value::Null | Value::Object(_)) => {}
            Some(_) => found.push(format!("{}: must be an object", at(field))),
        }
    }
    if is_simulated(value) {
        if let Some(spec) = value.get("spec") {
            below(spec, &at("spec"), found);
        }
        if let Err(error) = kinds::infer(value) {
            found.push(format!("{path}{}{error}", if path.is_empty() { "" } else { ": " }));
        }
    }
}

/// Whether the pods of its kind are simulated.
fn is_simulated(object: &Value) -> bool {
    actors::is_simulated(Kind::of_object(object).kind)
}

fn metadata(object: &Value, path: &str, found: &mut Vec<String>) {
    let Some(metadata) = object.get("metadata").filter(|metadata| !metadata.is_null()) else {
        return;
    };
    if let Some((field, why)) = complaint::<ObjectMeta>(metadata, path) {
        found.push(format!("{field}: {why}"));
    }
}

/// Whatever is an object somewhere below: a template, or what has metadata or a spec of its own.
fn below(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            metadata(value, &format!("{path}.metadata"), found);
            for (name, field) in fields {
                if !field.is_object() && !field.is_array() && name != "template" && name != "spec" {
                    continue;
                }
                let path = format!("{path}.{}", shortened(name));
                if ["template", "spec"].contains(&name.as_str())
                    && !field.is_null()
                    && !field.is_object()
                {
                    found.push(format!("{path}: must be an object"));
                }
                below(field, &path, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                below(item, &format!("{path}[{index}]"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
