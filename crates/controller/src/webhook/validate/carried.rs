//! The annotation that carries the policies to a worker cluster of MultiKueue: it says what `spec` says.

use serde_json::Value;

use super::Occasion;
use super::finding::Findings;
use super::update::same;
use crate::api::{ExecutionPolicy, FailurePolicy, PodFailurePolicy, Progress, keys};
use crate::webhook::carried::{FIELDS, annotation, read};

pub(super) fn check(metadata: &Value, spec: &Value, occasion: Occasion, report: &mut Findings) {
    let Some(text) = metadata.as_object().and_then(annotation) else { return };
    let field = format!("metadata.annotations[{}]", keys::POLICIES);
    let carried = match read(text) {
        Ok(carried) => carried,
        Err(message) => return report.invalid(field, text, message),
    };
    // on creation, admission writes the fields
    if occasion == Occasion::Offline && FIELDS.iter().all(|name| spec[*name].is_null()) {
        return;
    }
    let differs = |name: &str| {
        let carried = carried.get(name).unwrap_or(&Value::Null);
        !match name {
            "executionPolicy" => same::<ExecutionPolicy>(carried, &spec[name]),
            "failurePolicy" => same::<FailurePolicy>(carried, &spec[name]),
            "progress" => same::<Progress>(carried, &spec[name]),
            _ => same::<PodFailurePolicy>(carried, &spec[name]),
        }
    };
    for name in FIELDS.iter().filter(|name| differs(name)) {
        let message = format!("must have the same {name} as spec: correct it, or remove it");
        report.invalid(field.as_str(), text, message);
    }
}
