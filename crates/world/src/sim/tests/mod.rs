//! What the server answers, in tables.

mod discovery;
mod guards;
mod lists;
mod removal;
mod watches;
mod writes;

use http::Method;
use serde_json::{Value, json};

use super::response::{ApiResponse, answer};
use super::store::Store;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// A server that knows a custom resource, too.
fn server() -> Store {
    let mut store = Store::default();
    store.kinds.define(&json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {"name": "v1alpha1", "served": true},
            {"name": "v1beta1", "served": true},
            {"name": "v1", "served": true, "subresources": {"status": {}}, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "default": 1}}},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}}},
            {"name": "v0", "served": false},
        ],
    }}));
    store
}

/// Sends a request; a patch is a merge patch where it is an object, a JSON patch where it is a list.
fn ask(store: &mut Store, method: &str, uri: &str, body: &Value) -> (u16, Value) {
    let content_type = match (method, body) {
        ("PATCH", Value::Array(_)) => "application/json-patch+json",
        ("PATCH", _) => "application/merge-patch+json",
        (_, _) => "application/json",
    };
    let bytes = if body.is_null() { String::new() } else { body.to_string() };
    send(store, method, uri, content_type, &bytes)
}

fn send(
    store: &mut Store,
    method: &str,
    uri: &str,
    content_type: &str,
    body: &str,
) -> (u16, Value) {
    let method: Method = method.parse().unwrap();
    match answer(store, &method, uri, content_type, body.as_bytes()) {
        ApiResponse::Document(code, text) => {
            (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
        }
        ApiResponse::Watch(_) => panic!("{uri} is a watch"),
    }
}

fn get(store: &mut Store, uri: &str) -> (u16, Value) {
    ask(store, "GET", uri, &Value::Null)
}

/// Creates an object, which must be accepted.
fn create(store: &mut Store, path: &str, object: &Value) -> Value {
    let (code, object) = ask(store, "POST", path, object);
    assert_eq!(code, 201, "{object}");
    object
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn thing(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}})
}

fn bound_pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeName": "n"}})
}
