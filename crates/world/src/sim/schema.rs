//! The schema of a custom resource: defaults are filled in, unknown fields are dropped.

use std::collections::BTreeMap;

use serde_json::Value;

/// A structural schema, as far as it changes an object. Values are not validated.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema {
    default: Option<Value>,
    nullable: bool,
    /// Unknown fields stay.
    preserve: bool,
    /// It is an object of its own, with a kind and metadata.
    embedded: bool,
    properties: BTreeMap<String, Self>,
    additional: Option<Box<Self>>,
    items: Option<Box<Self>>,
}

impl Schema {
    /// Reads `openAPIV3Schema`.
    pub(super) fn of(schema: &Value) -> Self {
        let is = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        let sub = |key: &str| {
            schema.get(key).filter(|value| value.is_object()).map(|value| Box::new(Self::of(value)))
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        Self {
            default: schema.get("default").cloned(),
            nullable: is("nullable"),
            preserve: is("x-kubernetes-preserve-unknown-fields") || is("additionalProperties"),
            embedded: is("x-kubernetes-embedded-resource"),
            properties: properties
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), Self::of(value)))
                .collect(),
            additional: sub("additionalProperties"),
            items: sub("items"),
        }
    }

    /// Applies the schema to the root of an object, whose metadata it does not rule.
    pub(super) fn apply_to_root(&self, object: &mut Value) {
        self.apply_as(object, true);
    }

    fn apply_as(&self, value: &mut Value, is_root: bool) {
        match value {
            Value::Object(fields) => {
                if let Some(additional) = &self.additional {
                    fields.values_mut().for_each(|value| additional.apply_as(value, false));
                    return;
                }
                if !self.preserve {
                    let own = |name: &str| {
                        (is_root || self.embedded)
                            && ["apiVersion", "kind", "metadata"].contains(&name)
                    };
                    fields.retain(|name, _| self.properties.contains_key(name) || own(name));
                }
                for (name, schema) in &self.properties {
                    if is_root && name == "metadata" {
                        continue;
                    }
                    match (fields.get_mut(name), &schema.default) {
                        (Some(Value::Null), Some(default)) if !schema.nullable => {
                            fields.insert(name.clone(), default.clone());
                        }
                        (None, Some(default)) => {
                            fields.insert(name.clone(), default.clone());
                        }
                        (Some(_) | None, _) => {}
                    }
                    if fields.get(name).is_some_and(Value::is_null) && !schema.nullable {
                        fields.remove(name);
                    }
                    if let Some(value) = fields.get_mut(name) {
                        schema.apply_as(value, false);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.apply_as(item, false);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_filled_in_and_unknown_fields_dropped() {
        let schema = Schema::of(&json!({"properties": {
            "spec": {"properties": {
                "replicas": {"default": 1},
                "free": {"x-kubernetes-preserve-unknown-fields": true},
                "labels": {"additionalProperties": {"properties": {"x": {"default": 2}}}},
                "list": {"items": {"properties": {"y": {"default": 3}}}},
            }},
        }}));
        let mut object = json!({
            "apiVersion": "g/v", "kind": "K", "metadata": {"name": "a", "anything": 1},
            "spec": {"replicas": null, "unknown": 1, "free": {"a": 1}, "labels": {"k": {}}, "list": [{"z": 1}]},
            "other": 1,
        });
        schema.apply_to_root(&mut object);
        assert_eq!(
            object,
            json!({
                "apiVersion": "g/v", "kind": "K", "metadata": {"name": "a", "anything": 1},
                "spec": {"replicas": 1, "free": {"a": 1}, "labels": {"k": {"x": 2}}, "list": [{"y": 3}]},
            })
        );
    }
}
