//! What keeps a write from being made.

use serde_json::{Value, json};

use super::{CONFIG_MAPS, LEASES, PODS, THINGS, ask, create, named, send, server, thing};

/// Metadata of an update and of a patch of an object that is there, with their codes.
#[test]
fn updates_and_patches_are_guarded() {
    for (metadata, update, patch) in [
        (json!({}), 200, 200),
        (json!({"resourceVersion": "$now"}), 200, 200),
        (json!({"resourceVersion": "1"}), 409, 409),
        (json!({"uid": "$uid"}), 200, 200),
        (json!({"uid": "other"}), 409, 422),
        (json!({"uid": "other", "resourceVersion": "1"}), 409, 409),
        (json!({"name": "other"}), 400, 400),
        (json!({"namespace": "other"}), 400, 400),
        (json!({"deletionGracePeriodSeconds": 1}), 422, 422),
    ] {
        for (method, want) in [("PUT", update), ("PATCH", patch)] {
            let mut store = server();
            let known = create(&mut store, CONFIG_MAPS, &named("a"));
            let mut metadata = metadata.clone();
            if metadata["resourceVersion"] == "$now" {
                metadata["resourceVersion"] = known["metadata"]["resourceVersion"].clone();
            }
            if metadata["uid"] == "$uid" {
                metadata["uid"] = known["metadata"]["uid"].clone();
            }
            let body = json!({"metadata": metadata, "data": {"k": "1"}});
            let (code, answer) = ask(&mut store, method, &format!("{CONFIG_MAPS}/a"), &body);
            assert_eq!(code, want, "{method} {body}: {answer}");
        }
    }
}

#[test]
fn some_kinds_want_a_version() {
    let mut store = server();
    create(&mut store, LEASES, &named("a"));
    create(&mut store, THINGS, &thing("a"));
    for (path, object, want) in [
        (format!("{LEASES}/a"), named("a"), 422),
        (format!("{THINGS}/a"), thing("a"), 422),
        (format!("{THINGS}/a/status"), thing("a"), 422),
    ] {
        assert_eq!(ask(&mut store, "PUT", &path, &object).0, want, "{path}");
        assert_eq!(ask(&mut store, "PATCH", &path, &json!({})).0, 200, "{path}");
    }
    // the status of a custom resource is taken without looking at the rest
    let other = json!({"metadata": {"uid": "other"}, "status": {"x": 1}});
    assert_eq!(ask(&mut store, "PATCH", &format!("{THINGS}/a/status"), &other).0, 200);
    assert_eq!(ask(&mut store, "PATCH", &format!("{THINGS}/a"), &other).0, 422);
}

#[test]
fn patches_that_cannot_be_applied() {
    let mut store = server();
    create(&mut store, CONFIG_MAPS, &named("a"));
    let path = format!("{CONFIG_MAPS}/a");
    for (content_type, body, want) in [
        ("application/merge-patch+json", "[1]", 400),
        ("application/merge-patch+json", "{", 400),
        ("application/merge-patch+json", r#"{"kind": "Secret"}"#, 422),
        ("application/merge-patch+json", r#"{"apiVersion": null}"#, 422),
        ("application/json-patch+json", r#"{"op": "add"}"#, 400),
        ("application/json-patch+json", r#"[{"op": "upset", "path": "/a"}]"#, 422),
        ("application/json-patch+json", r#"[{"op": "remove", "path": "/a"}]"#, 422),
        ("application/strategic-merge-patch+json", "{}", 415),
    ] {
        let (code, _) = send(&mut store, "PATCH", &path, content_type, body);
        assert_eq!(code, want, "{body}");
    }
    let (code, _) = ask(&mut store, "PATCH", &format!("{CONFIG_MAPS}/absent"), &json!([{}]));
    assert_eq!(code, 404, "whether the patch can be read is not asked before");
}

#[test]
fn finalizers_only_go_while_an_object_is_deleted() {
    let mut store = server();
    let object = json!({"metadata": {"name": "a", "finalizers": ["x/a", "x/b"]}});
    create(&mut store, CONFIG_MAPS, &object);
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(ask(&mut store, "DELETE", &path, &Value::Null).0, 200);
    for (finalizers, want) in [
        (json!(["x/a", "x/b", "x/c"]), 422),
        (json!(["x/a"]), 200),
        (json!(["x/a", "x/b"]), 422),
        (json!([]), 200),
        (json!([]), 404),
    ] {
        let change = json!({"metadata": {"finalizers": finalizers}});
        assert_eq!(ask(&mut store, "PATCH", &path, &change).0, want, "{change}");
    }
}

#[test]
fn paths_and_methods_that_are_not_there() {
    let mut store = server();
    create(&mut store, PODS, &named("a"));
    for (method, uri, want) in [
        ("GET", "/api/v1/nothings", 404),
        ("GET", "/api/v1/namespaces/default/configmaps/a/status", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/log", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/status", 200),
        ("GET", "/api/v1/namespaces/default", 200),
        ("GET", "/api/v1/namespaces/default/status", 200),
        ("POST", "/api/v1/namespaces/default/pods/a", 405),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("PUT", "/apis/example.com/v1/namespaces/default/things", 400),
        ("DELETE", "/api/v1/namespaces/default/pods", 405),
    ] {
        assert_eq!(ask(&mut store, method, uri, &Value::Null).0, want, "{method} {uri}");
    }
}
