use serde_json::{Value, json};

use super::{with, without};
use crate::webhook::judge::Endpoint;
use crate::webhook::review::{DeleteOptions, Operation, Resource, Review};
use crate::webhook::testing::{asked, given_aw, given_policy, given_review};

const CREATE: Endpoint = Endpoint::ValidateAppWrapper;

fn given() -> Value {
    given_review(CREATE, "CREATE", &Value::Null, &given_aw())
}

fn refused(bytes: &[u8]) -> String {
    Review::read(bytes, Resource::AppWrappers).expect_err("no review").to_string()
}

#[test]
fn what_is_no_review_of_an_api_server_is_named() {
    let request = |field: &str, value: Value| with(&given(), &format!("/request/{field}"), value);
    let missing = |field: &str| without(&given(), &format!("/request/{field}"));
    let rows: &[(&str, Value)] = &[
        ("not an AdmissionReview", json!([])),
        ("not an AdmissionReview", json!("x")),
        ("\"\" of \"\"", json!({})),
        ("\"Pod\" of \"v1\"", json!({"apiVersion": "v1", "kind": "Pod"})),
        (
            "admission.k8s.io/v1beta1",
            with(&given(), "/apiVersion", json!("admission.k8s.io/v1beta1")),
        ),
        ("\"ConversionReview\"", with(&given(), "/kind", json!("ConversionReview"))),
        ("request must be given", without(&given(), "/request")),
        ("request must be given", with(&given(), "/request", json!(null))),
        ("not an AdmissionReview", with(&given(), "/request", json!([1, 2]))),
        ("request.uid must be given", missing("uid")),
        ("request.uid must be given", request("uid", json!(""))),
        ("not an AdmissionReview: invalid type", request("uid", json!(7))),
        ("request.userInfo.username must be given", missing("userInfo")),
        ("not an AdmissionReview", request("userInfo/groups", json!("x"))),
        ("request.operation is \"CONNECT\"", request("operation", json!("CONNECT"))),
        ("request.operation is \"create\"", request("operation", json!("create"))),
        ("request.operation is \"\"", missing("operation")),
        ("request.object must be given", missing("object")),
        ("request.object must be given", request("object", json!(null))),
        ("request.oldObject must be given", request("operation", json!("UPDATE"))),
        ("request.oldObject must be given", request("operation", json!("DELETE"))),
        ("request.resource is / :", missing("resource")),
        ("v1beta2 pods", request("resource/resource", json!("pods"))),
        ("/v1 appwrappers", request("resource/version", json!("v1"))),
        ("batch/v1beta2", request("resource/group", json!("batch"))),
        ("appwrappers/status", request("subResource", json!("status"))),
    ];
    for (want, review) in rows {
        let found = refused(review.to_string().as_bytes());
        assert!(found.contains(want), "{found}\n{review}");
    }
}

#[test]
fn bytes_that_are_no_json_are_refused_in_one_short_line() {
    let whole = given().to_string();
    let surrogate = whole.replace("\"work\"", r#""\ud800""#);
    let number = whole.replace("\"work\"", "1e999");
    let long = format!(r#"{{"apiVersion": {{"{}": 1}}}}"#, "x".repeat(100_000));
    let long_kind = format!(r#"{{"kind": "{}"}}"#, "x".repeat(100_000));
    for (bytes, want) in [
        (&b""[..], "the body is empty"),
        (b"\xff\xfe", "not UTF-8"),
        (b"hello", "not an AdmissionReview: expected value"),
        (b"\0", "not an AdmissionReview"),
        (b"[[[[", "not an AdmissionReview"),
        (&whole.as_bytes()[..whole.len() / 2], "not an AdmissionReview: EOF"),
        (surrogate.as_bytes(), "not an AdmissionReview: unexpected end of hex escape"),
        (number.as_bytes(), "not an AdmissionReview: number out of range"),
        (long.as_bytes(), "not an AdmissionReview: invalid type"),
        (long_kind.as_bytes(), "expected AdmissionReview"),
    ] {
        let found = refused(bytes);
        assert!(found.contains(want), "{found}");
        assert!(found.len() < 400 && !found.contains('\n'), "{found}");
    }
    let nested = format!("{}{}", r#"{"a":"#.repeat(1_000_000), "}".repeat(10));
    assert!(refused(nested.as_bytes()).contains("not an AdmissionReview"));
}

#[test]
fn a_review_is_read_whole() {
    let old = with(&given_aw(), "/metadata/uid", json!("1"));
    let review = given_review(CREATE, "UPDATE", &old, &given_aw());
    let review = with(&review, "/request/userInfo/extra", json!({"scopes": ["a", "b"]}));
    let review = with(&review, "/request/requestKind", json!({"any": [1, {"thing": null}]}));
    let found = asked(CREATE, &review);
    assert_eq!(found.uid, "705ab4f5");
    assert_eq!(found.operation, Operation::Update);
    assert_eq!((found.namespace.as_str(), found.requester.username.as_str()), ("team", "ann"));
    assert_eq!(found.requester.extra["scopes"], ["a", "b"]);
    assert_eq!((&found.object.value, &found.old_object.value), (&given_aw(), &old));
    let policy =
        given_review(Endpoint::ValidateRetryPolicy, "CREATE", &Value::Null, &given_policy());
    let found = asked(Endpoint::ValidateRetryPolicy, &policy);
    assert_eq!(found.object.value, given_policy());
}

#[test]
fn only_a_deletion_has_options() {
    let orphan = json!({"propagationPolicy": "Orphan", "orphanDependents": null, "x": 1});
    for (operation, options, want) in [
        ("CREATE", orphan.clone(), None),
        ("DELETE", orphan, Some("Orphan")),
        ("DELETE", json!(null), None),
        ("DELETE", json!("x"), None),
        ("DELETE", json!({"propagationPolicy": 7}), None),
    ] {
        let review = given_review(CREATE, operation, &given_aw(), &given_aw());
        let found = asked(CREATE, &with(&review, "/request/options", options)).options;
        let propagation_policy = want.map(str::to_owned);
        assert_eq!(found, DeleteOptions { propagation_policy, orphan_dependents: None });
    }
}

#[test]
fn an_object_of_any_depth_is_a_review() {
    for (levels, too_deep) in
        [(60, false), (61, true), (123, true), (9_999, true), (1_000_000, true)]
    {
        // four levels lead there: object, spec, components, component
        let deep = "[".repeat(levels) + &"]".repeat(levels);
        let aw = with(&given_aw(), "/spec/components/0/deep", json!("DEEP"));
        let review = given_review(CREATE, "CREATE", &Value::Null, &aw).to_string();
        let review = review.replace("\"DEEP\"", &deep);
        let found = Review::read(review.as_bytes(), Resource::AppWrappers).expect("a review");
        assert_eq!(found.object.too_deep, too_deep, "{levels}");
        assert_eq!(found.object.value["metadata"], given_aw()["metadata"]);
    }
}
