//! What of two answers must agree.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::kept::{KEPT, What};
use super::kinds::Kind;

/// The UIDs and versions that one side has named, in their order.
#[derive(Debug, Default)]
pub struct Names {
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, usize>,
}

impl Names {
    /// What of an answer must agree.
    pub fn answer(&mut self, code: u16, body: &Value) -> Value {
        json!({"code": code, "body": self.document(body)})
    }

    /// What of an event must agree.
    pub fn event(&mut self, event: &Value) -> Value {
        json!({"type": event["type"], "object": self.document(&event["object"])})
    }

    fn document(&mut self, body: &Value) -> Value {
        if body.is_string() {
            return body.clone();
        }
        match (body["kind"].as_str().unwrap_or_default(), &body["items"]) {
            ("Status", _) => self.status(body),
            ("SelfSubjectAccessReview", _) => json!({"allowed": body["status"]["allowed"]}),
            ("APIResourceList", _) => resources(body),
            ("APIGroup", _) => json!({"name": body["name"], "versions": body["versions"]}),
            (list, Value::Array(items)) => {
                let kind = Kind::named(list.trim_end_matches("List"));
                let metadata = &body["metadata"];
                json!({
                    "kind": list, "apiVersion": body["apiVersion"],
                    "versioned": metadata["resourceVersion"].is_string(),
                    "continues": metadata["continue"].as_str().is_some_and(|token| !token.is_empty()),
                    "remaining": metadata["remainingItemCount"],
                    "items": items.iter().map(|item| self.object(kind, item)).collect::<Vec<_>>(),
                })
            }
            (kind, _) => self.object(Kind::named(kind), body),
        }
    }

    fn status(&mut self, body: &Value) -> Value {
        let mut status = body.clone();
        drop_kept(&mut status, |what| match what {
            What::Status(field) => Some(field),
            What::Failure(field) if body["status"] == "Failure" => Some(field),
            What::Failure(_) | What::Metadata(_) | What::Request(_) => None,
        });
        self.rename(&mut status);
        status
    }

    fn object(&mut self, kind: Option<&Kind>, body: &Value) -> Value {
        let mut object = without_content(kind, body);
        self.rename(&mut object["metadata"]);
        object
    }

    /// UIDs and versions become numbers, generated names lose what was generated.
    fn rename(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let text = value.as_str().unwrap_or_default().to_owned();
                    match key.as_str() {
                        "uid" if !text.is_empty() => *value = number(&mut self.uids, text),
                        "resourceVersion" if !text.is_empty() => {
                            *value = number(&mut self.versions, text);
                        }
                        "name" => *value = stable_name(value),
                        _ => self.rename(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The state of an object, apart from which object it is and how often it was written.
pub fn state(object: &Value) -> Value {
    let kind = object["kind"].as_str().and_then(Kind::named);
    let mut state = without_content(kind, object);
    blank(&mut state["metadata"]);
    state
}

fn blank(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| !["uid", "resourceVersion"].contains(&key.as_str()));
            for (key, value) in fields {
                if key == "name" {
                    *value = stable_name(value);
                } else {
                    blank(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn number(known: &mut BTreeMap<String, usize>, text: String) -> Value {
    let next = known.len();
    Value::from(*known.entry(text).or_insert(next))
}

/// A name, without what a server has generated: `g1-…`.
pub fn stable_name(name: &Value) -> Value {
    let text = name.as_str().unwrap_or_default();
    match text.split_once('-') {
        Some((prefix, generated)) if prefix.starts_with('g') && generated.len() == 5 => {
            format!("{prefix}-*****").into()
        }
        Some(_) | None => name.clone(),
    }
}

/// Drops fields that are known to differ.
fn drop_kept(value: &mut Value, field: impl Fn(&What) -> Option<&'static str>) {
    let Some(fields) = value.as_object_mut() else { return };
    for field in KEPT.iter().filter_map(|kept| field(&kept.what)) {
        fields.remove(field);
    }
}

/// Metadata, and what is compared of the rest.
fn without_content(kind: Option<&Kind>, body: &Value) -> Value {
    let mut object = body.clone();
    if let Some(kind) = kind.filter(|kind| !kind.compared.is_empty()) {
        object = json!({"metadata": body["metadata"]});
        for field in ["apiVersion", "kind"] {
            if let Some(value) = body.get(field) {
                object[field] = value.clone();
            }
        }
        for pointer in kind.compared {
            if let Some(value) = body.pointer(pointer) {
                object[*pointer] = value.clone();
            }
        }
    }
    if let Some(metadata) = object.get_mut("metadata") {
        drop_kept(metadata, |what| match what {
            What::Metadata(field) => Some(field),
            What::Status(_) | What::Failure(_) | What::Request(_) => None,
        });
        for moment in ["creationTimestamp", "deletionTimestamp"] {
            if let Some(value) = metadata.get_mut(moment) {
                *value = value.is_string().into();
            }
        }
    }
    object
}

/// Of a group version: name, kind and scope of its resources.
fn resources(body: &Value) -> Value {
    let mut resources = Map::new();
    for resource in body["resources"].as_array().into_iter().flatten() {
        let name = resource["name"].as_str().unwrap_or_default().to_owned();
        resources.insert(name, json!([resource["kind"], resource["namespaced"]]));
    }
    json!({"groupVersion": body["groupVersion"], "resources": resources})
}

/// Where two documents differ.
pub fn difference(path: &str, sim: &Value, real: &Value, found: &mut Vec<String>) {
    match (sim, real) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let (a, b) = (a.get(key), b.get(key));
                let path = format!("{path}/{key}");
                match (a, b) {
                    (Some(a), Some(b)) => difference(&path, a, b, found),
                    (a, b) => found.push(format!("{path}: sim {}, real {}", shown(a), shown(b))),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                difference(&format!("{path}/{at}"), a, b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            found.push(format!("{path}: sim has {}, real has {}", a.len(), b.len()));
            let both = a.iter().zip(b).enumerate();
            for (at, (a, b)) in both {
                difference(&format!("{path}/{at}"), a, b, found);
            }
        }
        (a, b) if a != b => found.push(format!("{path}: sim {a}, real {b}")),
        _ => {}
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), Value::to_string)
}
