//! Reads a status field by field: what cannot be read is absent, and named.

use std::fmt;

use serde_json::{Map, Value};

use super::conform::conforms;
use super::evidence::Evidence;
use super::moments::UNREADABLE;
use super::shape::{self, Field, Fields, Shape, Text};
use crate::api::AppWrapperStatus;
use crate::mutations::{self, Mutation};

/// How many fields are named.
const NAMED_MAX: usize = 5;

/// A status that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Read {
    /// What could be read of it.
    pub status: AppWrapperStatus,
    /// What could not.
    pub flaws: Flaws,
}

/// What is wrong with a status that is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    /// The fields, each with what is allowed; at most five.
    pub named: Vec<String>,
    /// The fields of `status` that have a flaw, as they are stored.
    pub stored: Map<String, Value>,
}

impl Flaws {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Names a field of `status`, such as `phase`, and what is wrong with it.
    pub fn name(&mut self, field: &str, text: String, stored: Value) {
        if self.named.len() < NAMED_MAX {
            self.named.push(text);
        }
        self.stored.entry(field).or_insert(stored);
    }
}

/// Reads a status as it is stored; `None` where there is none.
#[must_use]
pub fn read(raw: Option<&str>, evidence: Evidence) -> Read {
    let conforming = raw.filter(|raw| conforms(raw));
    let conforming = conforming.and_then(|raw| serde_json::from_str(raw).ok());
    let found = conforming.map(|status| Read { status, flaws: Flaws::default() });
    let Some(found) = found.or_else(|| field_by_field(raw)) else { return evidence.alone() };
    let Read { mut status, mut flaws } = found;
    if let Some(text) = evidence.contradiction(&status, flaws.stored.contains_key("phase")) {
        status.phase = evidence.oldest_phase(&status);
        let text = format!("{text}; treated as {}", status.phase);
        flaws.named.retain(|named| !named.starts_with("status.phase:"));
        flaws.name("phase", text, stored_field(raw, "phase"));
    }
    Read { status, flaws }
}

/// What can be read of a status, and what cannot; `None` where nothing can.
pub(super) fn field_by_field(raw: Option<&str>) -> Option<Read> {
    let mut read = fields(raw)?;
    let mut named = Named::default();
    named.status(&mut read);
    let mut flaws = Flaws::default();
    for (field, text) in named.0 {
        let value = stored_field(raw, &field);
        flaws.name(&field, text, value);
    }
    // every field is as the definition has it, from which the types are made
    serde_json::from_value(read.into()).ok().map(|status| Read { status, flaws })
}

/// A field of a status as it is stored; null where there is none.
fn stored_field(raw: Option<&str>, field: &str) -> Value {
    fields(raw).and_then(|mut all| all.remove(field)).unwrap_or_default()
}

/// The fields of a status as they are stored; `None` where it is no object.
fn fields(raw: Option<&str>) -> Option<Map<String, Value>> {
    match raw.map(serde_json::from_str::<Value>) {
        None | Some(Ok(Value::Null)) => Some(Map::new()),
        Some(Ok(Value::Object(fields))) => Some(fields),
        Some(Ok(_) | Err(_)) => None,
    }
}

/// The same with what the definition refuses cut off: what is written is accepted.
pub(super) fn within_bounds(status: AppWrapperStatus) -> AppWrapperStatus {
    let Ok(Value::Object(mut read)) = serde_json::to_value(&status) else { return status };
    let mut named = Named::default();
    named.status(&mut read);
    if named.0.is_empty() {
        return status;
    }
    serde_json::from_value(read.into()).unwrap_or(status)
}

/// The fields that have a flaw: of `status`, and what is wrong.
#[derive(Debug, Default)]
struct Named(Vec<(String, String)>);

/// Where a value is in the status. Written out only where it has a flaw.
#[derive(Clone, Copy)]
enum Path<'a> {
    /// A field of `status`.
    Top(&'a str),
    /// A field of an object.
    Field(&'a Self, &'a str),
    /// An item of a list.
    Item(&'a Self, usize),
}

impl Path<'_> {
    /// The field of `status` that the value belongs to.
    fn top(&self) -> &str {
        match self {
            Self::Top(name) => name,
            Self::Field(parent, _) | Self::Item(parent, _) => parent.top(),
        }
    }

    /// Whether the value is this field of `status`.
    fn is(&self, field: &str) -> bool {
        matches!(self, Self::Top(name) if *name == field)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top(name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl Named {
    /// Leaves in a status what can be read of it.
    fn status(&mut self, stored: &mut Map<String, Value>) {
        let Shape::Fields(fields) = shape::status() else { return stored.clear() };
        stored.retain(|name, value| {
            let field = fields.get(name);
            field.is_some_and(|field| self.keeps(&field.shape, value, Path::Top(name)))
        });
    }

    /// Leaves in a value what can be read of it; false where that is nothing.
    fn keeps(&mut self, shape: &Shape, value: &mut Value, path: Path<'_>) -> bool {
        match (shape, value) {
            (_, Value::Null) => false,
            (Shape::Text(text), Value::String(value)) => self.text(text, value, path),
            (Shape::Moment(text), Value::String(value)) => {
                let reads = value.parse::<jiff::Timestamp>().is_ok();
                (reads && self.text(text, value, path)) || self.flaw(path, shape.expected())
            }
            (Shape::Number { min, max }, Value::Number(number)) => {
                let Some(whole) = whole(number) else {
                    return self.flaw(path, &format!("must be a whole number from {min} to {max}"));
                };
                let is_trusted = mutations::is_present(Mutation::NegativeCountTrusted);
                let least = if is_trusted { i64::from(i32::MIN) } else { *min };
                let within = whole.clamp(least, *max);
                if within != whole {
                    self.flaw(path, &format!("must be from {min} to {max}, treated as {within}"));
                }
                *number = within.into();
                true
            }
            (Shape::Flag, Value::Bool(_)) => true,
            (Shape::List { items, max }, Value::Array(list)) => {
                self.list(items, list, *max, path);
                true
            }
            (Shape::Fields(fields), Value::Object(stored)) => self.object(fields, stored, path),
            (Shape::Texts { max, value }, Value::Object(stored)) => {
                if stored.len() > *max {
                    self.flaw(path, &format!("must have at most {max} entries"));
                }
                let mut left = *max;
                stored.retain(|_, text| {
                    let has_room = left > 0;
                    left = left.saturating_sub(1);
                    let Value::String(text) = text else { return false };
                    has_room && self.text(value, text, path)
                });
                true
            }
            (shape, _) => self.flaw(path, shape.expected()),
        }
    }

    fn object(&mut self, fields: &Fields, stored: &mut Map<String, Value>, path: Path<'_>) -> bool {
        stored.retain(|name, value| {
            let field = fields.get(name);
            field.is_some_and(|field| self.keeps(&field.shape, value, Path::Field(&path, name)))
        });
        for Field { name, shape, .. } in fields.required() {
            if !stored.contains_key(name) {
                // without its number, its type or its source an entry says nothing
                let Some(instead) = shape.instead() else {
                    return self.flaw(Path::Field(&path, name), "must be given");
                };
                stored.insert(name.clone(), instead);
            }
        }
        true
    }

    fn list(&mut self, items: &Shape, list: &mut Vec<Value>, max: usize, path: Path<'_>) {
        let mut first = 0;
        if list.len() > max {
            self.flaw(path, &format!("must have at most {max} items"));
            // these lists have the newest entry last
            let newest_is_last = path.is("attempts") || path.is("retryCounts");
            first = if newest_is_last { list.len() - max } else { 0 };
            list.drain(..first);
            list.truncate(max);
        }
        // an entry belongs to the component of its place
        let holds_place = path.is("componentStatus");
        let mut index = first;
        list.retain_mut(|item| {
            let is_kept = self.keeps(items, item, Path::Item(&path, index));
            index += 1;
            if !is_kept && holds_place {
                *item = Value::Object(Map::new());
            }
            is_kept || holds_place
        });
    }

    fn text(&mut self, allowed: &Text, text: &mut String, path: Path<'_>) -> bool {
        if !allowed.words.is_empty() && !allowed.words.contains(text) {
            let known: Vec<&str> =
                allowed.words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
            return self.flaw(path, &format!("must be one of {}", known.join(", ")));
        }
        if allowed.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(text)) {
            return self.flaw(path, "does not match the pattern in the CustomResourceDefinition");
        }
        let end = allowed.max.filter(|max| text.len() > *max);
        let end = end.and_then(|max| text.char_indices().nth(max)).map(|(end, _)| end);
        if let (Some(max), Some(end)) = (allowed.max, end) {
            self.flaw(path, &format!("must have at most {max} characters, the rest is dropped"));
            text.truncate(end);
        }
        true
    }

    /// Names a field; always false. The value is left out: it may be long, and anybody's.
    fn flaw(&mut self, path: Path<'_>, what: &str) -> bool {
        let field = path.top();
        if self.0.len() < NAMED_MAX || self.0.iter().all(|(known, _)| known != field) {
            self.0.push((field.to_owned(), format!("status.{path}: {what}")));
        }
        false
    }
}

impl Shape {
    pub(super) fn expected(&self) -> &'static str {
        match self {
            Self::Text(_) => "must be a string",
            Self::Moment(_) => "must be a timestamp such as 2026-01-01T00:00:00Z",
            Self::Number { .. } => "must be a whole number",
            Self::Flag => "must be true or false",
            Self::List { .. } => "must be a list",
            Self::Fields(_) | Self::Texts { .. } => "must be an object",
        }
    }

    /// What takes the place of a field that must be there and cannot be read, where something can: a
    /// condition whose time or message is damaged still says that it is True.
    fn instead(&self) -> Option<Value> {
        match self {
            Self::Moment(_) => Some(UNREADABLE.into()),
            Self::Text(text) if text.words.is_empty() => Some("".into()),
            Self::Text(_)
            | Self::Number { .. }
            | Self::Flag
            | Self::List { .. }
            | Self::Fields(_)
            | Self::Texts { .. } => None,
        }
    }
}

/// A whole number, as near as can be told.
fn whole(number: &serde_json::Number) -> Option<i64> {
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    if number.is_u64() {
        return Some(i64::MAX);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a cast saturates")]
    number.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64)
}
