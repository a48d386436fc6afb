use serde_json::{Value, json};

use super::with;
use crate::config::Config;
use crate::webhook::delete::judge;
use crate::webhook::judge::Endpoint;
use crate::webhook::response::Reason;
use crate::webhook::testing::{asked, given_aw, given_review};

fn deployed(status: &str) -> Value {
    let condition = json!({"type": "ResourcesDeployed", "status": status});
    with(&given_aw(), "/status", json!({"conditions": ["x", {"type": "Other"}, condition]}))
}

/// Its resources are kept, and no pod uses quota.
fn succeeded() -> Value {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let conditions = [condition("ResourcesDeployed", "True"), condition("QuotaReserved", "False")];
    with(&given_aw(), "/status", json!({"conditions": conditions}))
}

/// In a queue, and in this phase; nothing is deployed.
fn queued(queue: &str, phase: &str) -> Value {
    let aw = with(&given_aw(), "/metadata/labels", json!({"kueue.x-k8s.io/queue-name": queue}));
    with(&aw, "/status", json!({"phase": phase}))
}

/// How a deletion is answered: where it is only warned of, and by default.
fn answered(aw: &Value, options: Value, username: &str) -> [String; 2] {
    let review = given_review(Endpoint::ValidateAppWrapper, "DELETE", aw, &Value::Null);
    let review = with(&review, "/request/options", options);
    let review = with(&review, "/request/userInfo/username", json!(username));
    let review = asked(Endpoint::ValidateAppWrapper, &review);
    let lenient = "admission: {refuseForegroundDeletion: false}";
    [Config::parse(lenient).expect("settings"), Config::default()].map(|config| {
        let answer = judge(&review, &config);
        match answer.denied {
            Some((reason, message)) => {
                assert_eq!(reason, Reason::Forbidden);
                assert!(message.ends_with("kubectl delete --cascade=background"), "{message}");
                assert_eq!(answer.warnings, [""; 0]);
                format!("denied: {message}")
            }
            None => answer.warnings.join("; "),
        }
    })
}

#[test]
fn a_deletion_that_frees_quota_early_is_warned_of_or_refused() {
    let policy = |name: &str| json!({"propagationPolicy": name});
    let finalizers = |list: Value| with(&deployed("True"), "/metadata/finalizers", list);
    let rows: &[(Value, Value, &str)] = &[
        (deployed("True"), policy("Foreground"), "foreground deletion"),
        (deployed("True"), policy("Orphan"), "orphaning deletion"),
        (deployed("True"), json!({"orphanDependents": true}), "orphaning deletion"),
        (finalizers(json!(["a", "foregroundDeletion"])), json!({}), "foreground deletion"),
        (finalizers(json!([7, "orphan"])), json!(null), "orphaning deletion"),
        (finalizers(json!(["orphan"])), policy("Background"), ""),
        (finalizers(json!(["orphan"])), json!({"orphanDependents": false}), ""),
        (deployed("True"), policy("Background"), ""),
        (deployed("True"), policy("foreground"), ""),
        (deployed("True"), json!({}), ""),
        (deployed("False"), policy("Foreground"), ""),
        (deployed("Unknown"), policy("Orphan"), ""),
        (succeeded(), policy("Foreground"), ""),
        (succeeded(), policy("Orphan"), ""),
        (queued("main", ""), policy("Orphan"), "orphaning deletion"),
        (queued("main", "Suspended"), policy("Orphan"), "orphaning deletion"),
        (queued("main", "Suspended"), policy("Foreground"), ""),
        (queued("main", "Suspended"), policy("Background"), ""),
        (queued("main", "Succeeded"), policy("Orphan"), ""),
        (queued("main", "Failed"), policy("Orphan"), ""),
        (queued("", "Suspended"), policy("Orphan"), ""),
        (given_aw(), policy("Orphan"), ""),
        (given_aw(), policy("Foreground"), ""),
        (with(&given_aw(), "/status", json!("boo")), policy("Foreground"), ""),
        (json!("boo"), policy("Foreground"), ""),
    ];
    for (aw, options, want) in rows {
        let [lenient, strict] = answered(aw, options.clone(), "ann");
        if want.is_empty() {
            assert_eq!([lenient.as_str(), strict.as_str()], ["", ""], "{options} {aw}");
        } else {
            assert!(lenient.starts_with(want), "{lenient}");
            assert!(strict.starts_with(&format!("denied: {want}")), "{strict}");
        }
    }
}

#[test]
fn a_namespace_goes_and_the_garbage_collector_is_asked_as_anybody() {
    for (username, is_asked) in [
        ("system:serviceaccount:kube-system:namespace-controller", false),
        ("system:serviceaccount:kube-system:generic-garbage-collector", true),
        ("system:serviceaccount:kube-system:namespace-controllers", true),
        ("system:kube-controller-manager", true),
        ("system:serviceaccount:kube-systems:x", true),
        ("system:serviceaccount:argocd:application-controller", true),
        ("system:admin", true),
    ] {
        let options = json!({"propagationPolicy": "Foreground"});
        let found = answered(&deployed("True"), options, username);
        assert_eq!(found.iter().all(|each| !each.is_empty()), is_asked, "{username}");
    }
}
