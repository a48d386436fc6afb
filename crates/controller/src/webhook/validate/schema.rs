//! Structure: types, required fields, enums and bounds, as the CRDs' own schemas say them.
//!
//! The API server checks the same; here every problem is reported with its path, and a name from
//! Job or JobSet gets ours suggested.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps as Schema, JSONSchemaPropsOrArray,
    JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::{Map, Value};

use super::finding::{Findings, text};
use crate::api::{AppWrapper, RetryPolicy};
use crate::tuning::{names, shortened};

/// Schema of `spec` of an AppWrapper.
pub(super) static APPWRAPPER: LazyLock<Schema> = LazyLock::new(|| spec_of(AppWrapper::crd()));
/// Schema of `spec` of a RetryPolicy.
pub(super) static RETRY_POLICY: LazyLock<Schema> = LazyLock::new(|| spec_of(RetryPolicy::crd()));

/// What Job and JobSet call it, and what it is called here.
const RENAMED: [(&str, &str); 9] = [
    ("FailJobSet", "FailAppWrapper"),
    ("RestartJobSet", "RestartAppWrapper"),
    ("RestartJobSetAndIgnoreMaxRestarts", "RestartAppWrapperAndIgnoreMaxRestarts"),
    ("RestartJob", "RecreateComponent"),
    ("RecreateJob", "RecreateComponent"),
    ("FailJob", "FailAppWrapper"),
    ("targetReplicatedJobs", "targetComponents"),
    ("waitForReplicatedJobsStatus", "waitForComponentsStatus"),
    ("startupPolicy", "executionPolicy"),
];

fn spec_of(crd: CustomResourceDefinition) -> Schema {
    let version = crd.spec.versions.into_iter().next();
    let root = version.and_then(|version| version.schema?.open_api_v3_schema);
    let spec = root.and_then(|root| root.properties?.remove("spec"));
    spec.unwrap_or_default()
}

/// Reports what does not follow the schema of a `spec`, and returns the value without the fields that
/// the schema does not know, as the API server would store it. What is said here of a field is not
/// said once more by later checks.
pub(super) fn check_spec(schema: &Schema, value: &Value, report: &mut Findings) -> Value {
    let kept = check(schema, value, "spec", report);
    report.settle();
    kept
}

fn check(schema: &Schema, value: &Value, path: &str, report: &mut Findings) -> Value {
    if value.is_null() && schema.nullable == Some(true) {
        return Value::Null;
    }
    if let Some(kind) = &schema.type_
        && !is_a(kind, schema.format.as_deref(), value)
    {
        report.invalid(path, text(value), expected(schema, kind, value));
        return value.clone();
    }
    bounds(schema, value, path, report);
    match value {
        Value::Object(fields) => Value::Object(object(schema, fields, path, report)),
        Value::Array(items) => {
            let Some(JSONSchemaPropsOrArray::Schema(each)) = &schema.items else {
                return value.clone();
            };
            let checked = |(i, item)| check(each, item, &format!("{path}[{i}]"), report);
            // what is over the bound was reported, and is not looked at
            let most = schema.max_items.and_then(|most| usize::try_from(most).ok());
            let items = items.iter().take(most.unwrap_or(usize::MAX));
            Value::Array(items.enumerate().map(checked).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn object(
    schema: &Schema,
    fields: &Map<String, Value>,
    path: &str,
    report: &mut Findings,
) -> Map<String, Value> {
    let misplaced = misplaced_template(schema, fields);
    for name in schema.required.iter().flatten() {
        if fields.get(name).is_none_or(|value| is_absent(schema, name, value)) {
            let hint = match &misplaced {
                Some(object) if name == "template" => format!(": put the {object} under template"),
                Some(_) | None => String::new(),
            };
            report.wrong(format!("{path}.{name}"), format!("must be given{hint}"));
        }
    }
    let mut kept = Map::new();
    for (name, value) in fields {
        if is_absent(schema, name, value) {
            continue;
        }
        let known = schema.properties.as_ref().and_then(|properties| properties.get(name));
        if let Some(known) = known {
            kept.insert(name.clone(), check(known, value, &format!("{path}.{name}"), report));
        } else if let Some(JSONSchemaPropsOrBool::Schema(each)) = &schema.additional_properties {
            kept.insert(name.clone(), check(each, value, &format!("{path}[{name}]"), report));
        } else if schema.x_kubernetes_preserve_unknown_fields == Some(true) {
            kept.insert(name.clone(), value.clone());
        } else if misplaced.is_none() {
            let names: Vec<&str> =
                schema.properties.iter().flatten().map(|(name, _)| name.as_str()).collect();
            let meant = suggestion(name, &names, report);
            let message = format!("unknown field, has no effect{meant}");
            let field = format!("{path}.{}", shortened(name));
            report.doubtful(field, Some(&text(value)), message);
        }
    }
    kept
}

/// API version and kind of an object that stands where a component should have it under `template`.
fn misplaced_template(schema: &Schema, fields: &Map<String, Value>) -> Option<String> {
    let is_required = schema.required.iter().flatten().any(|name| name == "template");
    let given = |name: &str| fields.get(name)?.as_str().map(shortened);
    if !is_required || fields.contains_key("template") {
        return None;
    }
    Some(format!("{} {}", given("apiVersion")?, given("kind")?))
}

/// The API server drops a null where the schema does not allow it.
fn is_absent(schema: &Schema, name: &str, value: &Value) -> bool {
    let known = schema.properties.as_ref().and_then(|properties| properties.get(name));
    value.is_null() && known.is_some_and(|known| known.nullable != Some(true))
}

fn bounds(schema: &Schema, value: &Value, path: &str, report: &mut Findings) {
    if let Some(allowed) = &schema.enum_
        && !allowed.iter().any(|each| each.0 == *value)
    {
        let names: Vec<&str> = allowed.iter().filter_map(|each| each.0.as_str()).collect();
        let given = value.as_str().unwrap_or_default();
        let meant = suggestion(given, &names, report);
        let message = format!("must be one of {}{meant}", names.join(", "));
        report.invalid(path, text(value), message);
    }
    if let (Some(least), Some(number)) = (schema.minimum, value.as_f64())
        && number < least
    {
        report.invalid(path, text(value), format!("must be at least {least}"));
    }
    if let (Some(most), Some(number)) = (schema.maximum, value.as_f64())
        && number > most
    {
        report.invalid(path, text(value), format!("must be at most {most}"));
    }
    if let Some(given) = value.as_str() {
        length(schema, given, path, report);
    }
    if let Some(items) = value.as_array() {
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if schema.max_items.is_some_and(|most| count > most) {
            let most = schema.max_items.unwrap_or_default();
            report.invalid(path, count.to_string(), format!("must have at most {most} entries"));
        }
        if schema.min_items.is_some_and(|least| count < least) {
            let least = schema.min_items.unwrap_or_default();
            let message = match least {
                1 => "must have at least one entry".to_owned(),
                _ => format!("must have at least {least} entries"),
            };
            let given = if items.is_empty() { text(value) } else { count.to_string() };
            report.invalid(path, given, message);
        }
    }
}

/// The API server counts characters, not bytes.
fn length(schema: &Schema, given: &str, path: &str, report: &mut Findings) {
    let count = i64::try_from(given.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = schema.max_length.filter(|most| count > *most) {
        report.invalid(path, given, format!("must be at most {most} characters, but is {count}"));
    }
    if schema.min_length.is_some_and(|least| count < least) {
        report.invalid(path, given, "must not be empty");
    }
}

fn is_a(kind: &str, format: Option<&str>, value: &Value) -> bool {
    match (kind, format) {
        ("object", _) => value.is_object(),
        ("array", _) => value.is_array(),
        ("string", _) => value.is_string(),
        ("boolean", _) => value.is_boolean(),
        ("integer", Some("int32")) => {
            value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
        }
        ("integer", _) => value.is_i64() || value.is_u64(),
        ("number", _) => value.is_number(),
        _ => true,
    }
}

fn expected(schema: &Schema, kind: &str, given: &Value) -> String {
    match (kind, schema.format.as_deref()) {
        ("array", _) => "must be a list".to_owned(),
        ("object", _) => match (schema.required.as_deref(), given) {
            (Some([field]), Value::String(value)) => {
                format!("must be an object such as {{{field}: {}}}", shortened(value))
            }
            _ => "must be an object".to_owned(),
        },
        ("string", _) if is_period(schema) => "must be a duration such as 10m".to_owned(),
        ("boolean", _) => "must be true or false".to_owned(),
        ("integer", Some("int32")) => {
            let least = schema.minimum.unwrap_or_else(|| i32::MIN.into());
            format!("must be a whole number from {least} to {}", i32::MAX)
        }
        ("integer", _) => "must be a whole number".to_owned(),
        (other, _) => format!("must be a {other}"),
    }
}

/// Whether a rule of the schema asks for a duration.
fn is_period(schema: &Schema) -> bool {
    let rules = schema.x_kubernetes_validations.iter().flatten();
    rules
        .into_iter()
        .any(|rule| rule.message.as_ref().is_some_and(|text| text.contains("duration")))
}

/// `: did you mean …?`, where something is near enough.
fn suggestion(given: &str, known: &[&str], report: &mut Findings) -> String {
    let renamed = RENAMED.iter().find(|(theirs, ours)| *theirs == given && known.contains(ours));
    let meant = renamed.map(|(_, ours)| *ours).or_else(|| report.meant(given, known));
    names::did_you_mean(meant)
}
