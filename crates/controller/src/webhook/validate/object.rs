//! The object as a whole: size, depth, what it is, what it is called, its annotations.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finding::{Finding, Findings, text};
use super::size;
use crate::api::keys;
use crate::config::Config;
use crate::tuning::{KEYS, Limits, Severity, names, shortened};

/// The most levels of objects and lists, the object itself being the first.
pub(in crate::webhook) const LEVELS_MAX: usize = 64;
/// What the API server appends to `generateName`.
pub(super) const GENERATED: &str = "xxxxx";
/// The most keys that are compared with the label of the queue.
const COMPARED_MAX: usize = 20;

/// Whether the object is shallow enough to be looked at.
pub(super) fn is_shallow(object: &Value, report: &mut Findings) -> bool {
    let shallow = levels(object) <= LEVELS_MAX;
    if !shallow {
        report.push(too_deep());
    }
    shallow
}

/// What is said of an object that is too deep.
pub(in crate::webhook) fn too_deep() -> Finding {
    let message = format!("must have at most {LEVELS_MAX} levels of objects and lists");
    Finding { severity: Severity::Error, field: String::new(), value: None, message }
}

/// Levels of objects and lists. Without recursion: it must bear any depth.
fn levels(object: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(object, 0)];
    while let Some((value, above)) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, above + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|item| (item, above + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => continue,
        }
        deepest = deepest.max(above + 1);
        if deepest > LEVELS_MAX {
            break;
        }
    }
    deepest
}

/// Whether the object is of the kind that is to be judged.
pub(super) fn is_a(object: &Value, api_version: &str, kind: &str, report: &mut Findings) -> bool {
    if !object.is_object() {
        report.invalid("", text(object), format!("must be an object of kind {kind}"));
        return false;
    }
    let mut right = true;
    for (field, want) in [("apiVersion", api_version), ("kind", kind)] {
        let given = object.get(field).unwrap_or(&Value::Null);
        if given != want {
            report.invalid(field, text(given), format!("must be {want}"));
            right = false;
        }
    }
    right
}

/// The fields of `metadata`, where it is an object.
pub(super) fn metadata<'a>(object: &'a Value, report: &mut Findings) -> Option<&'a Value> {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    if metadata.is_object() {
        return Some(metadata);
    }
    report.invalid("metadata", text(metadata), "must be an object with a name");
    None
}

/// A name of 1 to 61 characters without dots, or a `generateName` that makes one.
pub(super) fn name(metadata: &Value, report: &mut Findings) {
    let rule = "must be 1 to 61 lower-case letters, digits or '-', beginning and ending with a letter or digit";
    let given = |field: &str| match metadata.get(field) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.is_empty() => None,
        Some(other) => Some(other),
    };
    let fits = |name: &str| name.len() <= names::APPWRAPPER_MAX && names::is_label(name);
    match (given("name"), given("generateName")) {
        (Some(Value::String(name)), _) if fits(name) => {}
        (Some(name), _) => report.invalid("metadata.name", text(name), rule),
        (None, Some(Value::String(prefix))) if fits(&format!("{prefix}{GENERATED}")) => {}
        (None, Some(prefix)) => {
            let message =
                format!("{rule}, including the {} that the API server appends", GENERATED.len());
            report.invalid("metadata.generateName", text(prefix), message);
        }
        (None, None) => report.wrong("metadata.name", rule),
    }
}

/// A map of texts in `metadata`; what is no text is reported and left out.
pub(super) fn texts(
    metadata: &Value,
    field: &str,
    report: &mut Findings,
) -> BTreeMap<String, String> {
    let path = format!("metadata.{field}");
    let fields = match metadata.get(field) {
        None | Some(Value::Null) => return BTreeMap::new(),
        Some(Value::Object(fields)) => fields,
        Some(other) => {
            report.invalid(path, text(other), "must be an object of strings");
            return BTreeMap::new();
        }
    };
    let mut texts = BTreeMap::new();
    for (key, value) in fields {
        match value {
            Value::String(value) => _ = texts.insert(key.clone(), value.clone()),
            // the API server reads null as ""
            Value::Null => _ = texts.insert(key.clone(), String::new()),
            other => {
                let field = format!("{path}[{}]", shortened(key));
                let write = match other {
                    Value::Bool(_) | Value::Number(_) => format!(": write \"{other}\""),
                    Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                        String::new()
                    }
                };
                report.invalid(field, text(other), format!("must be a string{write}"));
            }
        }
    }
    texts
}

/// The keys of labels and annotations, and the values of labels, are such as every API server takes. What is no text is
/// reported elsewhere.
pub(super) fn keys_and_values(metadata: &Value, path: &str, report: &mut Findings) {
    for part in ["labels", "annotations"] {
        for (key, value) in metadata[part].as_object().into_iter().flatten() {
            let is_label = part == "labels";
            // the prefix of an annotation may have capitals
            let is_good = names::is_qualified(key)
                || !is_label && names::is_qualified(&key.to_ascii_lowercase());
            let value = value.as_str().filter(|value| is_label && !value.is_empty());
            let bad = value.filter(|value| !names::is_label_value(value));
            if is_good && bad.is_none() {
                continue;
            }
            let field = format!("{path}.{part}[{}]", shortened(key));
            if !is_good {
                report.wrong(field, format!("the key {}", names::QUALIFIED));
            } else if let Some(value) = bad.filter(|_| !report.has_error(&field)) {
                report.invalid(field, value, names::LABEL_VALUE);
            }
        }
    }
}

/// The label of the queue holds the name of a LocalQueue; the API server allows more in the value of a label.
pub(super) fn queue(labels: &BTreeMap<String, String>, report: &mut Findings) {
    let rule = "must be the name of a LocalQueue: at most 63 lower-case letters, digits, '-' or '.', \
                beginning and ending with a letter or digit";
    let queue = labels.get(keys::QUEUE_NAME).filter(|queue| !queue.is_empty());
    if let Some(queue) =
        queue.filter(|queue| queue.len() > names::LABEL_MAX || !names::is_subdomain(queue))
    {
        report.invalid(format!("metadata.labels[{}]", keys::QUEUE_NAME), queue, rule);
    }
}

/// Keys that are written almost as the label of the queue, and labels among the annotations or the reverse.
pub(super) fn stray_keys(metadata: &Value, report: &mut Findings) {
    let mut stray = |field: &str, key: &str, value: &Value, message: &str| {
        let field = format!("metadata.{field}[{}]", shortened(key));
        report.doubtful(field, Some(&text(value)), format!("has no effect: {message}"));
    };
    let (labels, annotations) = (&metadata["labels"], &metadata["annotations"]);
    if let Some(value) = annotations.get(keys::QUEUE_NAME) {
        stray("annotations", keys::QUEUE_NAME, value, "set it in metadata.labels");
    }
    for key in KEYS {
        if let Some(value) = labels.get(key) {
            stray("labels", key, value, "set it in metadata.annotations");
        }
    }
    let (group, queue) = keys::QUEUE_NAME.split_at(keys::KUEUE_GROUP.len());
    for (field, values) in [("labels", labels), ("annotations", annotations)] {
        let others = values.as_object().into_iter().flatten().filter_map(|(key, value)| {
            let name = key.strip_prefix(group).filter(|name| *name != queue)?;
            Some((key, name, value))
        });
        for (key, name, value) in others.take(COMPARED_MAX) {
            if names::close(name, &[queue]).is_some() {
                let message = format!("did you mean the label {}?", keys::QUEUE_NAME);
                stray(field, key, value, &message);
            }
        }
    }
}

/// What the annotations set.
pub(super) fn limits(metadata: &Value, config: &Config, report: &mut Findings) -> Limits {
    let annotations = texts(metadata, "annotations", report);
    size::annotations(metadata, "metadata", report);
    let (limits, remarks) = Limits::of(&annotations, &config.fault_tolerance);
    for remark in remarks {
        report.push(Finding::from(remark));
    }
    limits
}
