//! Test data: reviews, objects, JSON of any shape.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::Identity;
use super::judge::Endpoint;
use super::review::Review;

/// A Job of one pod.
pub(super) fn given_job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}},
    })
}

/// An AppWrapper that wraps a Job.
pub(super) fn given_aw() -> Value {
    json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": "sample", "namespace": "team"},
        "spec": {"components": [{"template": given_job("work")}]},
    })
}

/// A RetryPolicy with one rule.
pub(super) fn given_policy() -> Value {
    json!({
        "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": "infra"},
        "spec": {"rules": [{"action": "Retry", "onConditions": ["OOMKilled"]}]},
    })
}

/// A user of some groups.
pub(super) fn given_user(username: &str) -> Identity {
    Identity {
        username: username.to_owned(),
        uid: "u-1".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        ..Identity::default()
    }
}

/// The envelope of a review by `ann`.
pub(super) fn given_review(endpoint: Endpoint, operation: &str, old: &Value, new: &Value) -> Value {
    let (version, plural) = match endpoint {
        Endpoint::MutateAppWrapper | Endpoint::ValidateAppWrapper => ("v1beta2", "appwrappers"),
        Endpoint::ValidateRetryPolicy => ("v1alpha1", "retrypolicies"),
    };
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5", "operation": operation, "namespace": "team", "name": "sample",
            "resource": {"group": "workload.codeflare.dev", "version": version, "resource": plural},
            "userInfo": {"username": "ann", "uid": "u-1", "groups": ["system:authenticated"]},
            "object": new, "oldObject": old, "options": {"kind": "Options"}, "dryRun": false,
        },
    })
}

/// A review as it is read.
pub(super) fn asked(endpoint: Endpoint, review: &Value) -> Review {
    Review::read(review.to_string().as_bytes(), endpoint.resource()).expect("a review")
}

/// Settings of the property tests: there is no file for regressions.
pub(super) fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// JSON of any shape, of a few levels.
pub(super) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..5).prop_map(Value::from),
        "[a-z\\[\\]{}\"\\\\é]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z\"\\\\{]{0,3}", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A copy with another value at a JSON pointer, whose parents are there or are objects to be made.
pub(super) fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut copy = object.clone();
    let mut place = &mut copy;
    for step in pointer.split('/').skip(1).map(|step| step.replace("~1", "/")) {
        place = match step.parse::<usize>() {
            Ok(index) if place.is_array() => &mut place[index],
            _ => &mut place[step],
        };
    }
    *place = value;
    copy
}
