#![allow(
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a table has a line for each case, and `json!` makes values"
)]

use serde_json::{Value, json};

use super::*;
use crate::webhook::testing::with;

mod bounds;
mod components;
mod parts;
mod pod_specs;
mod policies;
mod price;
mod retry;
mod unused;
mod updates;

/// A Job of one pod.
fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
    })
}

/// An object of a kind that is not known, so without pods.
fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}})
}

/// An AppWrapper of these templates.
fn given(templates: &[Value]) -> Value {
    let components: Vec<Value> = templates.iter().map(|each| json!({"template": each})).collect();
    json!({
        "apiVersion": API_VERSION, "kind": "AppWrapper",
        "metadata": {"name": "sample", "namespace": "team"},
        "spec": {"suspend": true, "components": components},
    })
}

fn say(findings: Vec<Finding>) -> Vec<String> {
    findings.iter().map(|finding| format!("{}: {finding}", finding.severity)).collect()
}

fn judged(aw: &Value) -> Vec<String> {
    say(create(aw, &Config::default()))
}

/// Exactly one thing is said, with this begin and this in it.
#[track_caller]
fn only(row: &str, said: &[String], start: &str, fragment: &str) {
    assert_eq!(said.len(), 1, "{row}: {said:#?}");
    assert!(said[0].starts_with(start), "{row}: {said:#?} starts with {start}");
    assert!(said[0].contains(fragment), "{row}: {said:#?} contains {fragment}");
}

#[test]
fn what_is_right_is_let_through() {
    assert_eq!(judged(&given(&[job("a"), service("a")])), Vec::<String>::new());
    // as the clients of Go write it
    let mut aw = given(&[job("a")]);
    let template = &mut aw["spec"]["components"][0]["template"];
    template["status"] = json!({});
    template["metadata"]["creationTimestamp"] = json!(null);
    aw["metadata"]["creationTimestamp"] = json!(null);
    aw["spec"]["components"][0]["podSets"] = json!(null);
    aw["status"] = json!({});
    assert_eq!(judged(&aw), Vec::<String>::new());
}
