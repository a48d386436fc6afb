//! Which field makes that an object cannot be read: serde says what is wrong with it, but not where.

use serde_json::Value;

/// Beyond this many fields of one object or list, the search ends: it reads everything once for each.
const FIELDS_MAX: usize = 200;

/// The path of the field that `read` complains of, as far as that can be told: the one without which
/// the complaint is another one, or none.
pub(super) fn field(value: &Value, read: impl Fn(Value) -> Result<(), String>) -> String {
    let Err(complaint) = read(value.clone()) else { return String::new() };
    let mut path: Vec<Step> = vec![];
    while let Some(step) = culprit(value, &path, &read, &complaint) {
        path.push(step);
    }
    path.iter().fold(String::new(), |text, step| match step {
        Step::Index(index) => format!("{text}[{index}]"),
        Step::Field(name) if text.is_empty() => name.clone(),
        Step::Field(name) => format!("{text}.{name}"),
    })
}

#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Index(usize),
}

fn culprit(
    value: &Value,
    path: &[Step],
    read: &impl Fn(Value) -> Result<(), String>,
    complaint: &str,
) -> Option<Step> {
    let mut here = value.clone();
    let steps: Vec<Step> = match at(&mut here, path)? {
        Value::Object(fields) => fields.keys().cloned().map(Step::Field).collect(),
        Value::Array(items) => (0..items.len()).map(Step::Index).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    steps.into_iter().take(FIELDS_MAX).find(|step| {
        let mut without = value.clone();
        match (at(&mut without, path), step) {
            (Some(Value::Object(fields)), Step::Field(name)) => drop(fields.remove(name)),
            (Some(Value::Array(items)), Step::Index(index)) => drop(items.remove(*index)),
            _ => return false,
        }
        read(without).err().is_none_or(|other| other != complaint)
    })
}

fn at<'v>(value: &'v mut Value, path: &[Step]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get_mut(name),
        Step::Index(index) => value.get_mut(index),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::AppWrapperStatus;

    #[test]
    fn the_field_that_cannot_be_read_is_named() {
        let read = |value: Value| {
            serde_json::from_value::<AppWrapperStatus>(value).map(drop).map_err(|e| e.to_string())
        };
        for (status, want) in [
            (json!({"phase": "Paused"}), "phase"),
            (json!({"resettingCount": "1", "phase": "Running"}), "resettingCount"),
            (
                json!({"attempts": [{"attempt": 0}, {"attempt": 1, "startedAt": "soon"}]}),
                "attempts[1].startedAt",
            ),
            (json!({"attempts": [{"startedAt": null}]}), "attempts[0]"),
            (json!({"phase": "Running"}), ""),
        ] {
            assert_eq!(field(&status, read), want, "{status}");
        }
    }
}
