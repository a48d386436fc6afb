//! The policies in an annotation: written in the manager cluster, read in the worker cluster.

use serde_json::{Value, json};

use super::with;
use crate::config::Config;
use crate::webhook::judge::{Endpoint, ReviewStep, judge};
use crate::webhook::testing::{asked, given_aw, given_review};
use crate::webhook::validate::{self, Severity};

const KEY: &str = "workload.codeflare.dev/policies";
const ANNOTATIONS: &str = "/metadata/annotations";
const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";

/// The object as it is stored after mutation; `old` where it is an update.
fn mutated(old: Option<&Value>, new: &Value) -> Value {
    let endpoint = Endpoint::MutateAppWrapper;
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let review = given_review(endpoint, operation, old.unwrap_or(&Value::Null), new);
    let answer = match judge(endpoint, &asked(endpoint, &review), &Config::default(), None, None) {
        ReviewStep::Final(answer) => answer,
        other => panic!("it is not final: {other:?}"),
    };
    let patch: json_patch::Patch = serde_json::from_value(json!(answer.patch)).expect("a patch");
    let mut copy = new.clone();
    json_patch::patch(&mut copy, &patch).expect("it applies");
    copy
}

fn sent(aw: &Value) -> Value {
    with(aw, "/spec/managedBy", json!(MULTIKUEUE))
}

/// An AppWrapper with a policy.
fn with_policy(restarts: i32) -> Value {
    with(&given_aw(), "/spec/failurePolicy", json!({"maxRestarts": restarts}))
}

/// What the annotation says.
fn note(aw: &Value) -> Value {
    aw["metadata"]["annotations"][KEY]
        .as_str()
        .map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"))
}

fn noted(aw: &Value, text: &str) -> Value {
    with(aw, ANNOTATIONS, json!({KEY: text, "other": "kept"}))
}

fn errors(aw: &Value) -> Vec<String> {
    let findings = validate::create(aw, &Config::default()).into_iter();
    let errors = findings.filter(|each| each.severity == Severity::Error);
    errors.map(|each| each.to_string()).collect()
}

#[test]
fn the_annotation_is_written_where_multikueue_manages_it() {
    let policy = json!({"failurePolicy": {"maxRestarts": 2}});
    for (aw, want) in [
        (with_policy(2), json!(null)),
        (sent(&given_aw()), json!(null)),
        (sent(&with_policy(2)), policy.clone()),
        (with(&sent(&with_policy(2)), ANNOTATIONS, json!(null)), policy.clone()),
        (with(&sent(&with_policy(2)), ANNOTATIONS, json!({"other": "kept"})), policy),
    ] {
        let found = mutated(None, &aw);
        assert_eq!(note(&found), want, "{aw}");
        assert_eq!(
            found["metadata"]["annotations"]["other"],
            aw["metadata"]["annotations"]["other"]
        );
        assert_eq!(mutated(None, &found), found, "a second time changes nothing");
        assert_eq!(errors(&found), [""; 0]);
    }
}

#[test]
fn what_kueue_copies_gets_its_policies_back() {
    let mut policies = sent(&with_policy(2));
    policies["spec"]["podFailurePolicy"] =
        json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    policies["spec"]["progress"] = json!({"stallAfter": "10m"});
    let stored = mutated(None, &policies);
    // as the types of the Go project have it
    let mut copy = stored.clone();
    let lost = [
        "failurePolicy",
        "podFailurePolicy",
        "executionPolicy",
        "progress",
        "managedBy",
        "requester",
    ];
    for field in lost {
        copy["spec"].as_object_mut().expect("an object").remove(field);
    }
    let found = mutated(None, &copy);
    for field in ["failurePolicy", "podFailurePolicy", "executionPolicy", "progress"] {
        assert_eq!(found["spec"][field], stored["spec"][field], "{field}");
    }
    assert_eq!(errors(&found), [""; 0]);
    // where they were not filled in, nothing runs without them
    let (said, key) = (errors(&copy), format!("metadata.annotations[{KEY}]"));
    assert!(said.iter().all(|each| each.starts_with(&key)), "{said:?}");
    for (said, field) in said.iter().zip(["failurePolicy", "podFailurePolicy", "progress"]) {
        assert!(said.contains(&format!("must have the same {field} as spec")), "{said}");
    }
    assert_eq!(said.len(), 3);
}

#[test]
fn an_annotation_is_validated_as_the_fields_are() {
    let dear = format!("{{\"failurePolicy\": {{\"rules\": [{}{{}}]}}}}", "{},".repeat(5_000));
    for (text, want) in [
        (
            "",
            "must be a JSON object of executionPolicy, failurePolicy, podFailurePolicy, progress: EOF",
        ),
        ("[]", "must be a JSON object of"),
        ("{\"requester\": {\"username\": \"root\"}}", "must have no other fields than"),
        ("{\"failurePolicy\": null}", "must have no other fields than"),
        (&dear, "must take at most"),
        (&"[".repeat(10_000), "must be a JSON object of"),
        ("{\"failurePolicy\": {\"maxRestarts\": -1}}", "spec.failurePolicy.maxRestarts"),
        (
            "{\"failurePolicy\": {\"rules\": [{\"action\": \"Perhaps\"}]}}",
            "spec.failurePolicy.rules[0].action",
        ),
        (
            "{\"executionPolicy\": {\"executionPolicyOrder\": \"Odd\"}}",
            "spec.executionPolicy.executionPolicyOrder",
        ),
    ] {
        let said = errors(&mutated(None, &noted(&given_aw(), text))).join("; ");
        assert!(said.contains(want), "{text:.80}: {said}");
    }
    let found = mutated(None, &noted(&given_aw(), "{}"));
    assert_eq!(errors(&found), [""; 0]);
}

#[test]
fn an_annotation_that_contradicts_the_fields_is_an_error() {
    for (text, is_refused) in [
        ("{\"failurePolicy\": {\"maxRestarts\": 2}}", false),
        ("{ \"failurePolicy\": {\"rules\": [], \"maxRestarts\": 2} }", false),
        ("{\"failurePolicy\": {\"maxRestarts\": 3}}", true),
        ("{\"failurePolicy\": {\"maxRestarts\": 2}, \"podFailurePolicy\": {\"rules\": []}}", true),
        ("{}", true),
    ] {
        for aw in [with_policy(2), sent(&with_policy(2))] {
            let found = mutated(None, &noted(&aw, text));
            assert_eq!(found["metadata"]["annotations"][KEY], text, "nobody corrects it");
            let said = errors(&found);
            assert_eq!(!said.is_empty(), is_refused, "{text}: {said:?}");
            assert!(said.iter().all(|each| each.contains(KEY)), "{said:?}");
        }
    }
}

#[test]
fn later_the_annotation_follows_the_fields() {
    let old = mutated(None, &sent(&with_policy(2)));
    let changed = with(&old, "/spec/failurePolicy", json!({"maxRestarts": 5}));
    assert_eq!(note(&mutated(Some(&old), &changed)), json!({"failurePolicy": {"maxRestarts": 5}}));
    for text in ["{}", "no JSON"] {
        let found = mutated(Some(&old), &noted(&old, text));
        assert_eq!(note(&found), note(&old), "{text}");
        assert_eq!(found["metadata"]["annotations"]["other"], "kept");
    }
    let lost = with(&old, ANNOTATIONS, json!(null));
    assert_eq!(note(&mutated(Some(&old), &lost)), note(&old));
    let none = with(&old, "/spec/failurePolicy", json!(null));
    assert_eq!(note(&mutated(Some(&old), &none)), json!({}));
    // what runs here has no annotation to follow
    let here = with(&with_policy(2), "/spec/suspend", json!(true));
    assert_eq!(mutated(Some(&here), &with_policy(2)), with_policy(2));
}
