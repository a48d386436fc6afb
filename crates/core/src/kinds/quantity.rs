//! Amounts of resources as Kubernetes writes them: `500m`, `1.5Gi`, `2e3`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quantity;

/// An amount of a resource in its own unit (cores, bytes, devices); nothing where it is none.
#[must_use]
pub fn amount(value: &Value) -> Option<f64> {
    let amount = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => quantity::amount(text.trim()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    amount.filter(|amount| amount.is_finite() && *amount >= 0.0)
}

/// Whether a value is an amount below 0, which no resource may have.
#[must_use]
pub fn is_negative(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|amount| amount < 0.0),
        Value::String(text) => {
            let size = text.trim().strip_prefix('-').and_then(quantity::amount);
            size.is_some_and(|amount| amount > 0.0)
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// The amounts in an object, by resource; what cannot be read is left out.
#[must_use]
pub fn amounts(value: Option<&Value>) -> BTreeMap<String, f64> {
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), amount(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_read_in_their_own_unit() {
        for (value, want) in [
            (json!("500m"), Some(0.5)),
            (json!("2"), Some(2.0)),
            (json!(2), Some(2.0)),
            (json!(0.5), Some(0.5)),
            (json!("1.5Gi"), Some(1_610_612_736.0)),
            (json!("1G"), Some(1e9)),
            (json!("2e3"), Some(2000.0)),
            (json!("1E"), Some(1e18)),
            (json!("250000000n"), Some(0.25)),
            (json!("-1"), None),
            (json!("Gi"), None),
            (json!("1 Gi"), None),
            (json!(""), None),
            (json!(-1), None),
            (json!(["1"]), None),
        ] {
            assert_eq!(amount(&value), want, "{value}");
        }
        for (value, want) in [
            (json!("-1"), true),
            (json!(" -1.5Gi "), true),
            (json!(-5), true),
            (json!(-0.5), true),
            (json!("-0"), false),
            (json!(0), false),
            (json!("1"), false),
            (json!("-lots"), false),
            (json!(null), false),
        ] {
            assert_eq!(is_negative(&value), want, "{value}");
        }
        let all = amounts(Some(&json!({"cpu": "1", "memory": "lots"})));
        assert_eq!(all, BTreeMap::from([("cpu".to_owned(), 1.0)]));
    }
}
