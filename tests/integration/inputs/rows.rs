//! The rows. Where the contract says otherwise than the list of inputs did, the row says so.

use serde_json::{Map, Value, json};

use super::Answer::{Accepted, Denied, RefusedByServer, Warned};
use super::Given::{Change, Object, Text};
use super::{Answer, Given, Judge, NAME, Row};

mod objects;
mod others;
mod policies;
mod templates;

const PREFIX: &str = "workload.codeflare.dev.appwrapper";
const POD: &str = "template.spec.template";
const FIRST: &str = "/spec/components/0";

/// A Job of one pod.
fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}]}}},
    })
}

fn wrap(templates: &[Value]) -> Value {
    let components: Vec<Value> = templates.iter().map(|each| json!({"template": each})).collect();
    json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": NAME, "namespace": "team"},
        "spec": {"suspend": true, "components": components},
    })
}

fn good() -> Value {
    wrap(&[job("a")])
}

/// A copy with another value at a JSON pointer; objects on the way are made.
fn with(object: &Value, pointer: &str, value: Value) -> Value {
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

/// One more field of the template of a good AppWrapper, beside another component that has the pods.
fn beside(pointer: &str, value: Value) -> Given {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    let aw = wrap(&[service, job("a")]);
    Object(with(&aw, &format!("{FIRST}/template{pointer}"), value))
}

fn annotated(key: &str, value: &str) -> Given {
    let mut aw = good();
    aw["metadata"]["annotations"] = json!({ format!("{PREFIX}/{key}"): value });
    Object(aw)
}

fn spec(field: &str, value: Value) -> Given {
    Object(with(&good(), &format!("/spec/{field}"), value))
}

fn pod_sets(sets: Value) -> Given {
    Object(with(&good(), &format!("{FIRST}/podSets"), sets))
}

fn codes(operator: &str, values: Value) -> Given {
    let rule = json!({"action": "Count", "onExitCodes": {"operator": operator, "values": values}});
    spec("podFailurePolicy", json!({"rules": [rule]}))
}

fn pattern(text: &str) -> Given {
    patterns(&[text])
}

fn patterns(texts: &[&str]) -> Given {
    let rule = json!({"action": "FailAppWrapper", "onJobFailureMessagePatterns": texts});
    spec("failurePolicy", json!({"rules": [rule]}))
}

fn retry_policy(rule: Value) -> Given {
    let mut whole = json!({"action": "Retry"});
    for (key, value) in rule.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    Object(json!({
        "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": NAME}, "spec": {"rules": [whole]},
    }))
}

fn evicted(more: Value) -> Given {
    let mut rule = json!({"onConditions": ["Evicted"]});
    for (key, value) in more.as_object().into_iter().flatten() {
        rule[key] = value.clone();
    }
    retry_policy(rule)
}

fn factor(factor: Value) -> Given {
    evicted(json!({"mutate": {"memory": {"factor": factor}}}))
}

fn object_of(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})
}

fn row(number: &'static str, name: &'static str, given: Given, answer: Answer) -> Row {
    Row { number, name, given, answer, judge: Judge::Pure, server: None }
}

impl Row {
    /// The API server refuses it by itself, with these words.
    fn server(mut self, says: &'static str) -> Self {
        self.server = Some(says);
        self
    }

    /// It takes a cluster to tell.
    fn cluster(mut self) -> Self {
        self.judge = Judge::Cluster;
        self
    }
}

const fn denied(field: &'static str, says: &'static str) -> Answer {
    Denied { field, says }
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = policies::annotations();
    rows.extend(policies::policies());
    rows.extend(policies::retry_policies());
    rows.extend(objects::pods());
    rows.extend(objects::names());
    rows.extend(templates::templates());
    rows.extend(templates::kinds());
    rows.extend(others::texts());
    rows.extend(others::changes());
    rows
}
