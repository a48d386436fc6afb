//! Test data: a small object of every known kind, and JSON of any shape.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Settings of the property tests: there is no file for regressions.
pub(super) fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// A pod template.
pub(super) fn given_pod() -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "busybox"}]}})
}

/// An object with a name.
pub(super) fn given_object(api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})
}

/// An object and its pod sets as (path, pods).
pub(super) type Sample = (Value, Vec<(&'static str, i32)>);

/// One object of each known kind, with its pod sets, and one of another.
pub(super) fn given_kinds() -> Vec<Sample> {
    let mut all = super::registry::given();
    all.push((given_object("v1", "ConfigMap", &json!({})), vec![]));
    all
}

/// JSON of any shape, with names and values that mean something here more often than by chance.
pub(super) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2_i64..5).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z.\\[\\]]{0,6}".prop_map(Value::from),
        prop::sample::select(vec!["True", "Failed", "2026-01-01T00:00:00Z"]).prop_map(Value::from),
        Just(given_pod()),
    ];
    let names = prop::sample::select(vec![
        "a",
        "spec",
        "template",
        "metadata",
        "labels",
        "replicas",
        "status",
        "conditions",
        "type",
    ]);
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..4).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(fields.collect::<Map<_, _>>())
            }),
        ]
    })
}

/// An object of a known kind in which any one place holds any JSON, or is gone.
pub(super) fn damaged() -> impl Strategy<Value = Value> {
    let objects: Vec<Value> = given_kinds().into_iter().map(|(object, _)| object).collect();
    let places = any::<prop::sample::Index>();
    (prop::sample::select(objects), places, prop::option::of(any_json())).prop_map(
        |(mut object, place, value)| {
            let mut pointers = Vec::new();
            collect(&object, "", &mut pointers);
            let pointer = pointers[place.index(pointers.len())].clone();
            match value {
                Some(value) => *object.pointer_mut(&pointer).expect("it was collected") = value,
                None => remove(&mut object, &pointer),
            }
            object
        },
    )
}

fn collect(value: &Value, prefix: &str, into: &mut Vec<String>) {
    into.push(prefix.to_owned());
    if let Some(fields) = value.as_object() {
        for (name, value) in fields {
            collect(value, &format!("{prefix}/{name}"), into);
        }
    }
    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
        collect(value, &format!("{prefix}/{index}"), into);
    }
}

fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        *object = Value::Null;
        return;
    };
    if let Some(fields) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.remove(name);
    }
}
