//! What JSON takes in memory once it is read, told from the text alone.

use crate::json_text::structure;

/// An object with entries: a node of a `BTreeMap`, which has room for eleven.
const OBJECT: usize = 640;
/// An entry of an object: its name, and its part of further nodes.
const ENTRY: usize = 140;
/// A list with items: room for four.
const LIST: usize = 128;
/// An item of a list, or another entry: twice a value, since room is doubled.
const ITEM: usize = 64;

/// Below so many levels nothing is read: see [`super::levels`]. A review has a few levels of its own.
const LEVELS_MAX: usize = super::validate::LEVELS_MAX + 8;

/// At least as many bytes as a `serde_json::Value` of this text takes, the text's own strings included.
/// What is no JSON has a weight, too.
pub(super) fn weight(json: &[u8]) -> usize {
    let (mut weight, mut depth) = (json.len(), 0_usize);
    for (_, byte) in structure(json) {
        let of_it = match byte {
            b'{' | b'[' => {
                depth += 1;
                let of_it = if byte == b'{' { OBJECT } else { LIST };
                if depth <= LEVELS_MAX { of_it } else { 0 }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                0
            }
            b':' if depth <= LEVELS_MAX => ENTRY,
            b',' if depth <= LEVELS_MAX => ITEM,
            _ => 0,
        };
        weight = weight.saturating_add(of_it);
    }
    weight
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::webhook::testing::{any_json, config, given_aw};

    /// What a value takes, counted from what it is made of.
    fn taken(value: &Value) -> usize {
        const VALUE: usize = size_of::<Value>();
        const NODE: usize = 11 * (size_of::<Value>() + size_of::<String>()) + 16;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => {
                // room grows by doubling, from four
                let room =
                    if items.is_empty() { 0 } else { items.len().next_power_of_two().max(4) };
                room * VALUE + items.iter().map(taken).sum::<usize>()
            }
            Value::Object(fields) => {
                // a node is at least half full, but for the only one
                let nodes = fields.len().div_ceil(5).min(1 + fields.len() / 5);
                let nodes = if fields.is_empty() { 0 } else { nodes };
                let own: usize = fields.iter().map(|(key, it)| key.len() + taken(it)).sum();
                nodes * NODE + own
            }
        }
    }

    #[test]
    fn dense_json_is_heavy_and_text_is_not() {
        let objects = format!("[{}]", vec![r#"{"":0}"#; 10_000].join(","));
        let lists = format!("[{}]", vec!["[0]"; 10_000].join(","));
        let text = json!({"text": "x".repeat(100_000)}).to_string();
        for (json, times) in [(objects, 100), (lists, 40), (text, 1)] {
            let found = weight(json.as_bytes());
            assert!(found >= taken(&serde_json::from_str(&json).unwrap()));
            assert!(
                (times..=times * 2 + 20).contains(&(found / json.len())),
                "{}",
                found / json.len()
            );
        }
        let ordinary = given_aw().to_string();
        assert!(weight(ordinary.as_bytes()) < 40 * ordinary.len());
        assert_eq!(weight(br#""{[,:\"{""#), 9, "what is text is no structure");
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn nothing_takes_more_than_its_weight(value in any_json()) {
            prop_assert!(weight(value.to_string().as_bytes()) >= taken(&value));
        }
    }
}
