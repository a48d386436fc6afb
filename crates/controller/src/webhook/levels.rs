//! Depth of JSON text, without recursion: it must bear any depth.

use std::borrow::Cow;

use serde_json::Value;

use crate::json_text::structure;

/// A JSON text that can be read without a deep stack.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shallow<'a> {
    /// The text; what lies deeper than was allowed is one string, which holds it as it was written.
    /// So two texts that differ there still differ.
    pub(super) text: Cow<'a, str>,
    /// Levels of objects and lists in the original.
    pub(super) levels: usize,
}

/// Makes a JSON text that is well-formed readable: at most so many levels.
pub(super) fn shallow(json: &str, levels_max: usize) -> Shallow<'_> {
    let (mut text, mut copied) = (String::new(), 0);
    let (mut depth, mut levels, mut deep_from) = (0_usize, 0, 0);
    for (i, byte) in structure(json.as_bytes()) {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                levels = levels.max(depth);
                if depth == levels_max + 1 {
                    deep_from = i;
                }
            }
            b'}' | b']' => {
                if depth == levels_max + 1 {
                    text += &json[copied..deep_from];
                    text += &Value::from(&json[deep_from..=i]).to_string();
                    copied = i + 1;
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    if copied == 0 {
        return Shallow { text: Cow::Borrowed(json), levels };
    }
    text += &json[copied..];
    Shallow { text: Cow::Owned(text), levels }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::webhook::testing::{any_json, config};

    #[test]
    fn what_is_too_deep_becomes_a_string() {
        for (json, want, levels) in [
            ("1", "1", 0),
            (r#""[[[""#, r#""[[[""#, 0),
            (r#"{"a":{"b":1}}"#, r#"{"a":{"b":1}}"#, 2),
            (r#"{"a":{"b":[1, {}]}}"#, r#"{"a":{"b":"[1, {}]"}}"#, 4),
            (r#"[[["x\"]"],[]],2]"#, r#"[["[\"x\\\"]\"]","[]"],2]"#, 3),
            (r#"[["é\\"],[["é"]]]"#, r#"[["é\\"],["[\"é\"]"]]"#, 3),
        ] {
            let found = shallow(json, 2);
            assert_eq!((found.text.as_ref(), found.levels), (want, levels), "{json}");
        }
    }

    #[test]
    fn any_depth_is_borne() {
        let levels = 2_000_000;
        let json = "[".repeat(levels) + &"]".repeat(levels);
        let found = shallow(&json, 64);
        assert_eq!(found.levels, levels);
        assert!(serde_json::from_str::<Value>(&found.text).is_ok());
    }

    fn levels(value: &Value) -> usize {
        let inner = match value {
            Value::Array(items) => items.iter().map(levels).max(),
            Value::Object(fields) => fields.values().map(levels).max(),
            _ => return 0,
        };
        1 + inner.unwrap_or(0)
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn it_is_json_of_the_same_meaning_where_it_is_shallow(value in any_json(), most in 0..6_usize) {
            let json = value.to_string();
            let found = shallow(&json, most);
            prop_assert_eq!(found.levels, levels(&value));
            let read: Value = serde_json::from_str(&found.text).expect("JSON");
            prop_assert!(levels(&read) <= most);
            prop_assert_eq!(read == value, levels(&value) <= most);
        }
    }

    #[test]
    fn two_that_differ_still_differ() {
        let deep = |x: i32| json!({"a": {"b": {"c": x}}}).to_string();
        assert_ne!(shallow(&deep(1), 2).text, shallow(&deep(2), 2).text);
    }
}
