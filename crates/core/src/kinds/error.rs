//! The one error of this module: a field, what it holds, and what it may hold.

use serde_json::Value;

use crate::printable::truncate_chars;

/// A field that does not hold what it must.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: Invalid value: {value:?}: expected {expected}")]
pub struct Error {
    /// Path of the field from the component on, such as `template.spec.parallelism`.
    pub field: String,
    /// What it holds, at most 64 characters of it.
    pub value: String,
    /// What it may hold.
    pub expected: String,
}

/// The longest value in an error (characters).
const VALUE_CHARS_MAX: usize = 64;

impl Error {
    /// An error over a text.
    pub(super) fn new(field: impl Into<String>, value: &str, expected: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            value: truncate_chars(value, VALUE_CHARS_MAX).into_owned(),
            expected: expected.into(),
        }
    }

    /// An error over a JSON value: strings and numbers as they are, the rest by its kind.
    pub(super) fn found(
        field: impl Into<String>,
        value: &Value,
        expected: impl Into<String>,
    ) -> Self {
        let text = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            Value::String(text) => truncate_chars(text, VALUE_CHARS_MAX).into_owned(),
            Value::Array(items) if items.is_empty() => "[]".to_owned(),
            Value::Array(_) => "[…]".to_owned(),
            Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
            Value::Object(_) => "{…}".to_owned(),
        };
        Self::new(field, &text, expected)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_names_field_value_and_what_is_allowed() {
        let long = "ä".repeat(100);
        for (value, want) in [
            (json!("x"), r#"a.b: Invalid value: "x": expected an object"#.to_owned()),
            (json!(1.5), r#"a.b: Invalid value: "1.5": expected an object"#.to_owned()),
            (json!(null), r#"a.b: Invalid value: "null": expected an object"#.to_owned()),
            (json!([{}]), r#"a.b: Invalid value: "[…]": expected an object"#.to_owned()),
            (
                json!(long),
                format!("a.b: Invalid value: \"{}…\": expected an object", "ä".repeat(63)),
            ),
        ] {
            assert_eq!(Error::found("a.b", &value, "an object").to_string(), want);
        }
    }
}
