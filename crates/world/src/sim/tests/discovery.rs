//! Discovery, and what one may do.

use serde_json::{Value, json};

use super::{ask, get, server};

#[test]
fn what_is_discovered() {
    let mut store = server();
    for (path, code, pointer, want) in [
        ("/version", 200, "/major", json!("1")),
        ("/readyz", 200, "", json!("ok")),
        ("/api", 200, "/versions", json!(["v1"])),
        ("/api/v1", 200, "/groupVersion", json!("v1")),
        ("/apis", 200, "/groups/0/name", json!("apiextensions.k8s.io")),
        ("/apis/example.com", 200, "/preferredVersion/version", json!("v1")),
        ("/apis/example.com", 200, "/versions/1/version", json!("v1beta1")),
        ("/apis/example.com", 200, "/versions/2/version", json!("v1alpha1")),
        ("/apis/example.com", 200, "/versions/3", Value::Null),
        ("/apis/example.com/v1", 200, "/resources/0/name", json!("things")),
        ("/apis/example.com/v1", 200, "/resources/1/name", json!("things/status")),
        ("/apis/example.com/v1alpha1", 200, "/resources/1", Value::Null),
        ("/apis/example.com/v0", 404, "", json!("404 page not found\n")),
        ("/apis/example.com/v1/nothings", 404, "", json!("404 page not found\n")),
        ("/apis/nothing.com", 404, "", json!("404 page not found\n")),
        ("/elsewhere", 404, "", json!("404 page not found\n")),
        ("/apis/batch/v1/nothings", 404, "/reason", json!("NotFound")),
    ] {
        let (got, document) = get(&mut store, path);
        assert_eq!(got, code, "{path}");
        assert_eq!(document.pointer(pointer).unwrap_or(&Value::Null), &want, "{path} {pointer}");
    }
}

#[test]
fn everything_is_allowed_that_is_not_denied() {
    let mut store = server();
    store.denied.insert(("create".to_owned(), "pods".to_owned()));
    for (verb, resource, want) in
        [("create", "pods", false), ("delete", "pods", true), ("create", "jobs", true)]
    {
        for kind in ["selfsubjectaccessreviews", "subjectaccessreviews"] {
            let review = json!({
                "spec": {"resourceAttributes": {"verb": verb, "resource": resource}}});
            let path = format!("/apis/authorization.k8s.io/v1/{kind}");
            let (code, answer) = ask(&mut store, "POST", &path, &review);
            assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(want)), "{review}");
        }
    }
}
