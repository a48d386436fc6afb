//! A JSON value in which no object has the same field twice, and what a JSON text costs before it is read.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::json_text::structure;
use crate::tuning::shortened;

/// A value without duplicate fields. `serde_json` itself keeps the last of them, as an API server does.
pub(super) struct Tree(pub Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Read).map(Self)
    }
}

struct Read;

impl<'de> Visitor<'de> for Read {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        if let Some(whole) = whole(value) {
            return Ok(whole.into());
        }
        let number = serde_json::Number::from_f64(value);
        number.map(Value::Number).ok_or_else(|| E::custom("a number is infinite or not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = vec![];
        while let Some(Tree(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(Name(name)) = fields.next_key()? {
            if all.contains_key(&name) {
                return Err(A::Error::custom(duplicate(&name)));
            }
            let Tree(value) = fields.next_value()?;
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

/// A float that is whole, such as 1e3, or 08 in YAML: `kubectl` sends it without a decimal point. None where a
/// float is not exact.
fn whole(value: f64) -> Option<i64> {
    let is_exact = value.fract() == 0.0 && value.abs() < 2_f64.powi(53);
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and below 2^53")]
    is_exact.then_some(value as i64)
}

/// The name of a field. In YAML it may be a number or a boolean as well, which `kubectl` makes a text: 0400 is "256"
/// and `on` is "true".
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadName).map(Self)
    }
}

struct ReadName;

impl Visitor<'_> for ReadName {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_str<E>(self, value: &str) -> Result<String, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<String, E> {
        Ok(value)
    }
}

/// What is said of a field that an object has twice.
pub(super) fn duplicate(name: &str) -> String {
    format!(
        "duplicate field {:?} (an API server keeps the last, or refuses the object)",
        shortened(name)
    )
}

/// What a JSON text comes to when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Values, at most.
    pub values: usize,
    /// Levels of objects and lists.
    pub levels: usize,
}

impl Cost {
    /// The cost of a text, whether or not it is well formed.
    pub(super) fn of(json: &str) -> Self {
        let mut cost = Self { values: 1, levels: 0 };
        let mut depth = 0_usize;
        for (_, byte) in structure(json.as_bytes()) {
            match byte {
                b'{' | b'[' => {
                    depth += 1;
                    cost.values += 1;
                    cost.levels = cost.levels.max(depth);
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' => cost.values += 1,
                _ => {}
            }
        }
        cost
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_field_may_be_there_once() {
        for (json, want) in [
            (r#"{"a": 1, "b": {"a": 2}, "c": [{"a": 3}, {"a": 4}]}"#, None),
            (r#"{"a": 1, "a": 1}"#, Some("duplicate field \"a\"")),
            (r#"[{"x": {"a": 1, "b": 2, "a": 3}}]"#, Some("line 1 column")),
            ("{\"a\": 1, \"\\u0061\": 2}", Some("duplicate field \"a\"")),
            ("1e999", Some("number out of range")),
        ] {
            let read = serde_json::from_str::<Tree>(json).map(|Tree(value)| value);
            match want {
                None => assert_eq!(read.unwrap(), serde_json::from_str::<Value>(json).unwrap()),
                Some(want) => assert!(read.unwrap_err().to_string().contains(want), "{json}"),
            }
        }
    }

    #[test]
    fn the_cost_is_known_before_it_is_paid() {
        for (json, values, levels) in [
            ("1", 1, 0),
            ("[1, 2]", 3, 1),
            (r#"{"a,[": "]}\",", "b": [{}]}"#, 5, 3),
            ("]]]", 1, 0),
            (&"[".repeat(1_000_000), 1_000_001, 1_000_000),
        ] {
            assert_eq!(Cost::of(json), Cost { values, levels }, "{json:.40}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i32>().prop_map(|number| Value::from(f64::from(number) + 0.5)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            let fields = prop::collection::btree_map(any::<String>(), inner.clone(), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Value::from),
                fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_value_without_duplicates_is_read_as_it_is(value in any_json()) {
            let json = value.to_string();
            let Tree(read) = serde_json::from_str(&json).expect("JSON");
            prop_assert!(crate::price::values(&read) <= Cost::of(&json).values);
            prop_assert_eq!(read, value);
        }
    }
}
