//! The bounds of `status` in the definition. They are cheap, since each write of the status pays for them:
//! no rules, only lengths, ranges, words, and one pattern for moments.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use crate::api::Phase;
use crate::price::{
    AVOIDED_NODES_MAX, CHECKPOINT_BYTES_MAX, IGNORED_PODS_MAX, POD_OWNERS_MAX, RETRY_COUNTS_MAX,
    SUSPECT_NODES_MAX,
};

/// Moments of this century and the next. The API server's own format takes times that no clock shows, and
/// the year 9999, of which not every second can be represented.
pub(super) const MOMENT: &str = r"^2[01][0-9]{2}-[0-9]{2}-[0-9]{2}T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-][01][0-9]:[0-5][0-9])$";
/// The hostname of a node, which is a label.
const HOSTNAME: &str = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
/// An amount of memory.
const QUANTITY: &str = "^[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,3}|[KMGTPE]i?|[km])?$";

/// The longest text where nothing else is said: that of a name.
const TEXT_MAX: usize = 253;
/// The most items of a list where nothing else is said.
const ITEMS_MAX: usize = 256;
/// The most entries of a map of texts.
const ENTRIES_MAX: i64 = 64;

/// Adds the bounds to the schema of `status`, and makes it atomic: one entry in `managedFields` instead of one
/// for each field saves the API server CPU in each write, and a quarter of the stored object.
pub fn bound(status: &mut JSONSchemaProps) {
    status.x_kubernetes_map_type = Some("atomic".to_owned());
    walk(status, "");
}

fn walk(schema: &mut JSONSchemaProps, path: &str) {
    match schema.type_.as_deref() {
        Some("string") => text(schema, path),
        Some("integer") => number(schema, path),
        Some("array") => schema.max_items = Some(length(items_max(path))),
        Some("object") if schema.additional_properties.is_some() => {
            schema.max_properties = Some(ENTRIES_MAX);
        }
        Some(_) | None => {}
    }
    for (name, field) in schema.properties.iter_mut().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        walk(field, &path);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        walk(items, &format!("{path}[]"));
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        value.max_length = Some(length(text_max("annotations")));
    }
}

fn text(schema: &mut JSONSchemaProps, path: &str) {
    let words = |all: &[&str]| Some(all.iter().map(|word| JSON((*word).into())).collect());
    let last = path.rsplit('.').next().unwrap_or(path);
    match (path, last) {
        ("phase", _) => schema.enum_ = words(&Phase::ALL.map(Phase::as_str)),
        (_, "status") => schema.enum_ = words(&["True", "False", "Unknown"]),
        ("avoidNodes[]" | "suspectNodes.hostnames[]", _) => {
            schema.pattern = Some(HOSTNAME.to_owned());
        }
        ("pendingMemory[].request" | "pendingMemory[].limit", _) => {
            schema.pattern = Some(QUANTITY.to_owned());
        }
        _ => {}
    }
    if schema.format.as_deref() == Some("date-time") {
        schema.pattern = Some(MOMENT.to_owned());
        schema.max_length = Some(35);
    } else if schema.enum_.is_none() {
        schema.max_length = Some(length(text_max(last)));
    }
}

/// The most characters of the texts in a field of this name. Conditions have the lengths that Kubernetes gives them.
#[must_use]
pub fn text_max(field: &str) -> usize {
    match field {
        "message" => 32_768,
        "reason" => 1024,
        "type" => 316,
        "apiVersion" => 317,
        "path" => 512,
        "annotations" => 4096,
        "checkpoint" => CHECKPOINT_BYTES_MAX,
        _ => TEXT_MAX,
    }
}

fn number(schema: &mut JSONSchemaProps, path: &str) {
    let is_code = path.ends_with(".exitCode") || path.ends_with(".signal");
    let wide = schema.format.as_deref() == Some("int64");
    let max = if wide { 9_007_199_254_740_991.0 } else { f64::from(i32::MAX) };
    schema.minimum = Some(if is_code { f64::from(i32::MIN) } else { 0.0 });
    schema.maximum = Some(max);
}

fn length(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// The most items of the list at a path, such as `componentStatus[].podSets`.
#[must_use]
pub fn items_max(path: &str) -> usize {
    match path {
        "attempts" => 20,
        "avoidNodes" => AVOIDED_NODES_MAX,
        "retryCounts" => RETRY_COUNTS_MAX,
        // as many as there can be components; objects of before the bounds of `spec` have as many
        "componentStatus" | "since.podSets" => 5000,
        "componentStatus[].podSets" => 1000,
        "componentStatus[].podOwners" => POD_OWNERS_MAX,
        "since.ignoredPods" => IGNORED_PODS_MAX,
        "suspectNodes.hostnames" => SUSPECT_NODES_MAX,
        "conditions" | "componentStatus[].conditions" => 32,
        _ => ITEMS_MAX,
    }
}
