//! Writing into untrusted JSON: what is missing is made, what is of another type is an error.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Error;

/// The fields of an object that is being written, with its path for errors.
pub(super) struct Fields<'a> {
    /// The fields.
    pub(super) map: &'a mut Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The fields of a value that must be an object, at a path.
    pub(super) fn of(value: &'a mut Value, path: String) -> Result<Self, Error> {
        match value {
            Value::Object(map) => Ok(Self { map, path }),
            other => Err(Error::found(path, other, "an object")),
        }
    }

    /// The object in a field; an empty one where there is none yet.
    pub(super) fn object(&mut self, name: &str) -> Result<Fields<'_>, Error> {
        let path = format!("{}.{name}", self.path);
        let value = self.map.entry(name).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        Fields::of(value, path)
    }

    /// The array in a field; an empty one where there is none yet.
    pub(super) fn array(&mut self, name: &str) -> Result<&mut Vec<Value>, Error> {
        let value = self.map.entry(name).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Array(Vec::new());
        }
        match value {
            Value::Array(items) => Ok(items),
            other => Err(Error::found(format!("{}.{name}", self.path), other, "an array")),
        }
    }

    /// Adds entries to the map in a field; an entry that is there already must be the same.
    pub(super) fn merge(
        &mut self,
        name: &str,
        additions: &BTreeMap<String, String>,
        source: &str,
    ) -> Result<(), Error> {
        if additions.is_empty() {
            return Ok(());
        }
        let target = self.object(name)?;
        for (key, value) in additions {
            match target.map.get(key) {
                Some(Value::String(text)) if text != value => {
                    let expected = format!("{text:?}, the value in {}", target.path);
                    return Err(Error::new(format!("{source}.{name}[{key}]"), value, expected));
                }
                Some(Value::String(_)) => {}
                None | Some(Value::Null) => {
                    target.map.insert(key.clone(), value.as_str().into());
                }
                Some(other) => {
                    return Err(Error::found(format!("{}[{key}]", target.path), other, "a string"));
                }
            }
        }
        Ok(())
    }

    /// Sets entries, whatever was there.
    pub(super) fn overwrite(&mut self, entries: BTreeMap<String, String>) {
        self.map.extend(entries.into_iter().map(|(key, value)| (key, value.into())));
    }
}
