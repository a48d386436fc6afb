//! What an object costs: its bytes as they are stored, with the largest status that it can grow to, and
//! its memory when it is read.

use serde_json::Value;

use super::component::Judged;
use super::finding::Findings;
use crate::price::{
    ANNOTATIONS_BYTES_MAX, LABELS_BYTES_MAX, MEMORY_BYTES_MAX, OBJECT_BYTES_MAX, SPEC_VALUES_MAX,
    Shape, largest_status, memory_bytes, stored_bytes, values,
};

/// Whether an object is small enough to be looked at, its status apart.
pub(super) fn is_affordable(object: &Value, report: &mut Findings) -> bool {
    let bytes = without_status(object);
    if bytes > OBJECT_BYTES_MAX {
        let message = format!("must be at most {OBJECT_BYTES_MAX} bytes as stored, but is {bytes}");
        report.wrong("", message);
        return false;
    }
    let memory = memory_bytes(&object["spec"]);
    if memory > MEMORY_BYTES_MAX {
        let message = format!(
            "must take at most {MEMORY_BYTES_MAX} bytes of memory when decoded, but takes about \
             {memory}: use fewer fields and list items"
        );
        report.wrong("spec", message);
        return false;
    }
    let values = values(&object["spec"]);
    if values > SPEC_VALUES_MAX {
        let message =
            format!("must have at most {SPEC_VALUES_MAX} fields and list items, but has {values}");
        report.wrong("spec", message);
        return false;
    }
    true
}

/// The object leaves room for its status.
pub(super) fn check(object: &Value, components: &[Judged], report: &mut Findings) {
    let bytes = without_status(object);
    let status = largest_status(components.iter().map(|each| Shape {
        name: &each.name,
        kind: &each.kind,
        api_version: &each.api_version,
        pod_sets: each.pod_sets.as_deref().unwrap_or_default(),
        pending: each.pending,
    }));
    if bytes.saturating_add(status) > OBJECT_BYTES_MAX {
        let message = format!(
            "must be at most {OBJECT_BYTES_MAX} bytes as stored, including its status, but is \
             {bytes} and up to {status} of status"
        );
        report.wrong("", message);
    }
}

/// The annotations of an object are as many as an API server takes.
pub(super) fn annotations(metadata: &Value, path: &str, report: &mut Findings) {
    together(metadata, (path, "annotations"), ANNOTATIONS_BYTES_MAX, report);
}

/// The labels of an AppWrapper are few enough to be read with every change of it.
pub(super) fn labels(metadata: &Value, report: &mut Findings) -> bool {
    together(metadata, ("metadata", "labels"), LABELS_BYTES_MAX, report)
}

/// Whether a map of texts in `metadata` has at most so many bytes.
fn together(
    metadata: &Value,
    (path, field): (&str, &str),
    most: usize,
    report: &mut Findings,
) -> bool {
    let all = metadata[field].as_object().into_iter().flatten();
    let bytes: usize = all.map(|(key, text)| key.len() + text.as_str().map_or(0, str::len)).sum();
    if bytes > most {
        let message = format!("must total at most {most} bytes, including keys");
        report.invalid(format!("{path}.{field}"), format!("{bytes} bytes"), message);
    }
    bytes <= most
}

/// Bytes of an object as it is stored, without its status.
fn without_status(object: &Value) -> usize {
    let status =
        object.get("status").map_or(0, |status| stored_bytes(status) + ",\"status\":".len());
    stored_bytes(object).saturating_sub(status)
}
