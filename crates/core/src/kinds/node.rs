//! Reading untrusted JSON field by field: each step knows its path, for errors.

use serde_json::{Map, Value};

use super::Error;

static NULL: Value = Value::Null;

/// A place in a template. A field that is absent is a place that holds null.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Node<'a> {
    /// The template itself.
    pub(super) fn template(value: &'a Value) -> Self {
        Self::at("template", value)
    }

    /// Any place, with the path it has.
    pub(super) fn at(path: impl Into<String>, value: &'a Value) -> Self {
        Self { path: path.into(), value }
    }

    /// Its path, in the grammar of [`Path`](super::Path).
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// What it holds.
    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// A field of it; null where it or the field is absent.
    pub(super) fn field(&self, name: &str) -> Result<Self, Error> {
        let value = match self.value {
            Value::Object(fields) => fields.get(name).unwrap_or(&NULL),
            Value::Null => &NULL,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(self.error("an object"));
            }
        };
        Ok(Self { path: format!("{}.{name}", self.path), value })
    }

    /// A field several steps down.
    pub(super) fn walk(&self, names: &[&str]) -> Result<Self, Error> {
        names.iter().try_fold(self.clone(), |node, name| node.field(name))
    }

    /// The fields of an object that must be there.
    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, Error> {
        self.value.as_object().ok_or_else(|| self.error("an object"))
    }

    /// The elements of an array; none where it is absent.
    pub(super) fn items(&self) -> Result<Vec<Self>, Error> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(index, value)| Self { path: format!("{}[{index}]", self.path), value })
                .collect()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                Err(self.error("an array"))
            }
        }
    }

    /// A number of things, where it is given: an integer from 0 to 2147483647.
    pub(super) fn count(&self) -> Result<Option<i64>, Error> {
        if self.value.is_null() {
            return Ok(None);
        }
        match self.value.as_i64() {
            Some(count) if (0..=i64::from(i32::MAX)).contains(&count) => Ok(Some(count)),
            Some(_) | None => Err(self.error("an integer from 0 to 2147483647")),
        }
    }

    /// A text, where it is given.
    pub(super) fn text(&self) -> Result<Option<&'a str>, Error> {
        match self.value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(self.error("a string"))
            }
        }
    }

    /// A text that must be there and not be empty.
    pub(super) fn required_text(&self) -> Result<&'a str, Error> {
        self.text()?.filter(|text| !text.is_empty()).ok_or_else(|| self.error("a string"))
    }

    /// Checks that it is absent or a map of strings.
    pub(super) fn string_map(&self) -> Result<(), Error> {
        if self.value.is_null() {
            return Ok(());
        }
        for (key, value) in self.object()? {
            if !value.is_string() {
                return Err(Error::found(format!("{}[{key}]", self.path), value, "a string"));
            }
        }
        Ok(())
    }

    /// An error over what it holds.
    pub(super) fn error(&self, expected: impl Into<String>) -> Error {
        Error::found(self.path.clone(), self.value, expected)
    }
}
