//! What is filled in when an AppWrapper is created.
//!
//! Kueue fills in too, before or after: nothing here depends on the order, and a second time changes
//! nothing. Where an object is too broken to be filled in it is left as it is, and validation says
//! what is wrong with it.

use serde_json::{Map, Value, json};

use super::response::Op;
use super::validate::POD_SETS_MAX;
use super::{Identity, carried};
use crate::api::{PodSet, keys};
use crate::config::Config;
use crate::kinds;
use crate::tuning::names::LABEL_MAX;

/// The changes that fill in a new AppWrapper; none where nothing is missing.
///
/// | field | value | where |
/// |---|---|---|
/// | label `kueue.x-k8s.io/queue-name` | the default queue | it names none, and there is a default |
/// | `spec.suspend` | true | it has a queue, named or by default |
/// | labels `workload.codeflare.dev/user`, `…/userid` | the requester | always |
/// | `spec.requester` | the requester, in full | always |
/// | `spec.components[].podSets` | as the template implies | none is declared, and the kind is known |
/// | annotation `workload.codeflare.dev/policies` | the policies of `spec` | MultiKueue sends it to a worker cluster |
/// | the policies of `spec` | those of the annotation | `spec` has none |
/// | finalizer | ours | no other controller manages it: the first write of this one is spared |
/// | finalizer | not ours | MultiKueue sends it to a worker cluster, which Kueue may have said after the first call |
/// | `metadata.managedFields` | none | as the finalizer, and nobody applies it on the server's side |
///
/// Go: `Default`, which leaves `suspend` to Kueue and infers when it looks. The controller adds the finalizer to
/// what admission did not see.
#[must_use]
pub fn default(aw: &Value, requester: &Identity, config: &Config) -> Vec<Op> {
    let (Some(metadata), Some(spec)) = (aw["metadata"].as_object(), aw["spec"].as_object()) else {
        return vec![];
    };
    let (mut ops, has_queue) = labels(metadata, requester, config);
    let is_running = matches!(spec.get("suspend"), None | Some(Value::Null | Value::Bool(false)));
    if has_queue && is_running {
        ops.push(Op::set(&["spec", "suspend"], Value::Bool(true)));
    }
    let whole = json!(requester);
    if spec.get("requester") != Some(&whole) {
        ops.push(Op::set(&["spec", "requester"], whole));
    }
    ops.extend(pod_sets(spec));
    ops.extend(carried::on_create(metadata, spec));
    ops.extend(bookkeeping(metadata, spec));
    ops
}

/// What an AppWrapper that this controller manages has from the beginning, so that this one need not write it first.
fn bookkeeping(metadata: &Map<String, Value>, spec: &Map<String, Value>) -> Vec<Op> {
    if !is_ours(spec) {
        let is_sent = spec.get("managedBy").is_some_and(|manager| manager == keys::MULTIKUEUE);
        return without_finalizer(metadata).filter(|_| is_sent).into_iter().collect();
    }
    // the API server then spends less on every write of the status
    let managers = metadata.get("managedFields").and_then(Value::as_array);
    let is_tracked = managers.is_some_and(|all| {
        !all.is_empty() && all.iter().all(|manager| manager["operation"] == "Update")
    });
    let untracked = is_tracked.then(|| Op::set(&["metadata", "managedFields"], json!([])));
    finalizer(metadata).into_iter().chain(untracked).collect()
}

/// Whether this controller manages an AppWrapper.
pub(super) fn is_ours(spec: &Map<String, Value>) -> bool {
    match spec.get("managedBy") {
        None | Some(Value::Null) => true,
        Some(manager) => manager == keys::CONTROLLER_NAME,
    }
}

/// Takes our finalizer out; none where it is not there.
fn without_finalizer(metadata: &Map<String, Value>) -> Option<Op> {
    let all = metadata.get("finalizers")?.as_array()?;
    let others: Vec<&Value> = all.iter().filter(|name| *name != keys::FINALIZER).collect();
    (others.len() < all.len()).then(|| Op::set(&["metadata", "finalizers"], json!(others)))
}

/// Adds our finalizer; none where it is there, or where the list is none.
pub(super) fn finalizer(metadata: &Map<String, Value>) -> Option<Op> {
    match metadata.get("finalizers") {
        None | Some(Value::Null) => {
            Some(Op::set(&["metadata", "finalizers"], json!([keys::FINALIZER])))
        }
        Some(Value::Array(all)) if all.iter().all(|name| name != keys::FINALIZER) => {
            Some(Op::set(&["metadata", "finalizers", "-"], keys::FINALIZER.into()))
        }
        Some(_) => None,
    }
}

/// The labels to set, and whether the AppWrapper then has a queue.
fn labels(metadata: &Map<String, Value>, requester: &Identity, config: &Config) -> (Vec<Op>, bool) {
    let none = Map::new();
    let given = match metadata.get("labels") {
        None | Some(Value::Null) => None,
        Some(Value::Object(labels)) => Some(labels),
        Some(_) => return (vec![], false),
    };
    let old = given.unwrap_or(&none);
    let mut wanted = vec![
        (keys::USER, label_value(&requester.username)),
        (keys::USER_ID, label_value(&requester.uid)),
    ];
    let has_queue = match old.get(keys::QUEUE_NAME) {
        None | Some(Value::Null) => None,
        Some(Value::String(queue)) if queue.is_empty() => None,
        Some(other) => Some(other.is_string()),
    };
    let default = config.admission.default_queue_name.as_ref().filter(|_| has_queue.is_none());
    wanted.extend(default.map(|queue| (keys::QUEUE_NAME, queue.clone())));
    let has_queue = has_queue.unwrap_or_else(|| default.is_some());

    let missing = wanted
        .into_iter()
        .filter(|(key, value)| old.get(*key).and_then(Value::as_str) != Some(value));
    let ops = if given.is_some() {
        missing.map(|(key, value)| Op::set(&["metadata", "labels", key], value.into())).collect()
    } else {
        let all: Map<String, Value> =
            missing.map(|(key, value)| (key.to_owned(), value.into())).collect();
        vec![Op::set(&["metadata", "labels"], all.into())]
    };
    (ops, has_queue)
}

/// The pod sets to write; none where together they would be more than are allowed.
fn pod_sets(spec: &Map<String, Value>) -> Vec<Op> {
    let components = spec.get("components").and_then(Value::as_array);
    let mut ops = vec![];
    let mut count = 0;
    for (i, component) in components.into_iter().flatten().enumerate() {
        let is_open = match &component["podSets"] {
            Value::Null => true,
            Value::Array(declared) => declared.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => false,
        };
        if !is_open || !component.is_object() {
            continue;
        }
        let inferred: Vec<PodSet> = kinds::infer(&component["template"]).unwrap_or_default();
        count += inferred.len();
        if count > POD_SETS_MAX {
            return vec![];
        }
        if !inferred.is_empty() {
            let i = i.to_string();
            ops.push(Op::set(&["spec", "components", &i, "podSets"], json!(inferred)));
        }
    }
    ops
}

/// A text as the value of a label: what does not fit becomes `_`, and goes at both ends.
/// Go: `SanitizeLabel`.
fn label_value(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let text: String = text
        .char_indices()
        .take_while(|(at, _)| *at < LABEL_MAX)
        .map(|(_, c)| if fits(c) { c } else { '_' })
        .collect();
    text.trim_matches(|c| "-_.".contains(c)).to_owned()
}
