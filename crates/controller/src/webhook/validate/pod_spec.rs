//! Whether the values in a pod spec have the types that Kubernetes reads them as.
//!
//! Kueue leaves out a pod set whose pod spec it cannot decode, and the API server rejects the resource only when the
//! controller creates it. The spec is compared with the schemas of Kubernetes, and not decoded: a list of empty volumes
//! would take many times the memory that a review may.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::schemars::generate::SchemaSettings;
use serde_json::Value;

use super::finding::{Findings, text};
use super::template::{Step, written};
use crate::quantity;
use crate::tuning::names;

/// What Kubernetes knows of a pod spec.
static POD_SPEC: LazyLock<Shape> = LazyLock::new(|| {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().subschema_for::<PodSpec>();
    Shape::of(schema.as_value(), "")
});

/// The field that is a number or a name. The schemas do not tell it from a quantity.
const PORT: &str = "port";

/// The most unknown fields of a pod spec that are reported.
const UNKNOWN_MAX: usize = 10;

/// Compares a pod spec with what Kubernetes knows. Unknown fields matter with a queue: without one, the API server
/// drops them.
pub(super) fn check(spec: &Value, path: &str, has_queue: bool, report: &mut Findings) {
    let unknown_left = if has_queue { UNKNOWN_MAX } else { 0 };
    Comparison { path, way: vec![], unknown_left, report }.compare(&POD_SPEC, spec);
}

/// What a value must be.
enum Shape {
    Anything,
    Text,
    Flag,
    Int32,
    Int64,
    Port,
    Quantity,
    List(Box<Self>),
    /// An object with any keys.
    Map(Box<Self>),
    /// An object with these fields.
    Object(BTreeMap<String, Self>),
}

impl Shape {
    /// What a schema says of the field with this name; the name is empty for what is no field.
    fn of(schema: &Value, name: &str) -> Self {
        if schema["x-kubernetes-int-or-string"] == Value::Bool(true) {
            return if name == PORT { Self::Port } else { Self::Quantity };
        }
        match (schema["type"].as_str(), schema["format"].as_str()) {
            (Some("string"), _) => Self::Text,
            (Some("boolean"), _) => Self::Flag,
            (Some("integer"), Some("int32")) => Self::Int32,
            (Some("integer"), _) => Self::Int64,
            (Some("array"), _) => Self::List(Box::new(Self::of(&schema["items"], ""))),
            (Some("object"), _) => Self::of_object(schema),
            _ => Self::Anything,
        }
    }

    fn of_object(schema: &Value) -> Self {
        if let Some(fields) = schema["properties"].as_object() {
            let of_field = |(name, field): (&String, &Value)| (name.clone(), Self::of(field, name));
            return Self::Object(fields.iter().map(of_field).collect());
        }
        match &schema["additionalProperties"] {
            each @ Value::Object(_) => Self::Map(Box::new(Self::of(each, ""))),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Self::Anything,
        }
    }

    /// Whether a value is one as it stands; what is in a list or in an object is compared one by one.
    fn is(&self, value: &Value) -> bool {
        match self {
            Self::Anything => true,
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Int32 => is_whole(value, &(f64::from(i32::MIN)..=f64::from(i32::MAX))),
            // a number of 64 bits is not compared as a float, which would round it
            Self::Int64 => value.is_i64() || is_whole(value, &(-9e18..=9e18)),
            Self::Port => value.is_string() || Self::Int32.is(value),
            Self::Quantity => value.is_number() || value.as_str().is_some_and(is_quantity),
            Self::List(_) | Self::Map(_) | Self::Object(_) => false,
        }
    }

    /// What is said of a value that is none.
    fn expected(&self, value: &Value) -> &'static str {
        match self {
            Self::Text if value.is_number() || value.is_boolean() => {
                "must be a string: put it in quotes"
            }
            Self::Text => "must be a string",
            Self::Flag => "must be true or false",
            Self::Int32 => "must be a whole number from -2147483648 to 2147483647",
            Self::Int64 => "must be a whole number",
            Self::Port => "must be the number or the name of a port",
            Self::Quantity => "must be a quantity such as 500m or 64Gi",
            Self::List(_) => "must be a list",
            Self::Anything | Self::Map(_) | Self::Object(_) => "must be an object",
        }
    }
}

/// Whether a number is whole, and within bounds. Go reads 1.0 as a whole number, too.
fn is_whole(value: &Value, bounds: &RangeInclusive<f64>) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0 && bounds.contains(&number))
}

/// Whether Kubernetes reads a text as a quantity. Which of them may not be negative is known to `amounts`.
fn is_quantity(text: &str) -> bool {
    let text = text.trim();
    quantity::amount(text.strip_prefix('-').unwrap_or(text)).is_some()
}

/// What a value is, without the value.
const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The comparison of a pod spec with its shape.
struct Comparison<'a, 'r> {
    /// Path of the pod spec.
    path: &'r str,
    /// From there to the value that is compared.
    way: Vec<Step<'a>>,
    /// How many more unknown fields are reported.
    unknown_left: usize,
    report: &'r mut Findings,
}

impl<'a> Comparison<'a, '_> {
    /// Recursion is as deep as the shape, which is finite.
    fn compare(&mut self, shape: &Shape, value: &'a Value) {
        match (shape, value) {
            // as in Go, null is what is left out
            (_, Value::Null) => {}
            (Shape::Object(known), Value::Object(fields)) => {
                for (name, field) in fields {
                    self.way.push(Step::Field(name));
                    match known.get(name) {
                        Some(shape) => self.compare(shape, field),
                        None => self.unknown(known, name),
                    }
                    self.way.pop();
                }
            }
            (Shape::Map(each), Value::Object(entries)) => {
                for (key, entry) in entries {
                    self.way.push(Step::Key(key));
                    self.compare(each, entry);
                    self.way.pop();
                }
            }
            (Shape::List(each), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.way.push(Step::Item(index));
                    self.compare(each, item);
                    self.way.pop();
                }
            }
            (shape, value) if shape.is(value) => {}
            (shape, value) => self.wrong(shape, value),
        }
    }

    fn wrong(&mut self, shape: &Shape, value: &Value) {
        if self.report.is_full() {
            return;
        }
        let field = written(self.path, &self.way);
        if self.report.has_error(&field) {
            return;
        }
        // any other value may be a password
        let is_shown = match shape {
            Shape::Quantity => value.is_string(),
            Shape::Int32 | Shape::Int64 | Shape::Port => value.is_number(),
            Shape::Anything
            | Shape::Text
            | Shape::Flag
            | Shape::List(_)
            | Shape::Map(_)
            | Shape::Object(_) => false,
        };
        let given = if is_shown { text(value) } else { type_of(value).to_owned() };
        self.report.invalid(field, given, shape.expected(value));
    }

    /// A newer Kubernetes may know the field, so that it is no error.
    fn unknown(&mut self, known: &BTreeMap<String, Shape>, name: &str) {
        let Some(left) = self.unknown_left.checked_sub(1) else { return };
        self.unknown_left = left;
        let all: Vec<&str> = known.keys().map(String::as_str).collect();
        let meant = names::did_you_mean(self.report.meant(name, &all));
        let message = format!(
            "unknown field: if Kueue does not know it either, it leaves out this pod set and does not start the \
             AppWrapper{meant}"
        );
        self.report.doubtful(written(self.path, &self.way), None, message);
    }
}
