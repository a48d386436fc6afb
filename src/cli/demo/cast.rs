//! From manifests to what a show begins with.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::super::bundle::Document;
use crate::api::keys;
use crate::kinds::Kind;
use crate::webhook::validate::{self, Finding, Severity};
use crate::world::actors;
use crate::world::actors::kueue::{QUEUE, thousandths};
use crate::world::show::{Cast, Misfortune};

/// How long a simulated pod lives.
const RUN_FOR: &str = "sim/run-for";
/// Pods that cannot do without their peers fail so long after one is lost.
const NEEDS_PEERS: &str = "sim/needs-peers";

/// What a show begins with, and what is to be said about it first.
pub(super) struct Prepared {
    pub cast: Cast,
    /// Remarks: about what, and a sentence.
    pub notes: Vec<(String, String)>,
}

/// What admission would refuse, each finding with the place of its object.
pub(super) fn refusals(documents: &[Document], config: &crate::config::Config) -> Vec<String> {
    let mut all = vec![];
    for document in documents {
        let findings = match document.kind() {
            "AppWrapper" => validate::create(&document.value, config),
            "RetryPolicy" if document.is_ours("RetryPolicy") => {
                validate::retry_policy(&document.value, config)
            }
            _ => continue,
        };
        let wrong = |finding: &&Finding| finding.severity == Severity::Error;
        let place = format!("{}: {}", document.origin, document.title());
        all.extend(findings.iter().filter(wrong).map(|finding| format!("{place}: {finding}")));
    }
    all
}

/// Sorts the objects into a cast, with what is missing added.
pub(super) fn prepare(
    documents: Vec<Document>,
    misfortunes: Vec<Misfortune>,
    seconds: u64,
) -> Prepared {
    let mut cast = Cast { misfortunes, ..Cast::default() };
    let mut notes = vec![];
    let mut queues = 0;
    for document in documents {
        if document.kind() == "ClusterQueue" && document.group() == keys::KUEUE_GROUP {
            queues += 1;
            add_quota(&document.value, &mut cast.quota);
        }
        if document.kind() == "Node" && document.group().is_empty() {
            cast.nodes.push(document.value);
        } else {
            cast.objects.push(document.value);
        }
    }
    cast.objects.sort_by_key(rank);
    if queues > 1 {
        let message = "the simulated cluster has one ClusterQueue: the quotas are added up";
        notes.push(("Kueue/kueue".to_owned(), message.to_owned()));
    }
    if cast.nodes.is_empty() {
        cast.nodes = nodes();
    }
    let waits = cast.objects.iter().any(|object| object["metadata"]["labels"][QUEUE].is_string());
    if queues == 0 && waits {
        cast.quota = quota_of(&cast.nodes);
        let message = "no ClusterQueue given: using one with the capacity of the cluster";
        notes.push(("Kueue/kueue".to_owned(), message.to_owned()));
    }
    for kind in without_model(&cast.objects) {
        let message = "the controller of this kind is not simulated: it creates no pods".to_owned();
        notes.push((format!("Kind/{kind}"), message));
    }
    for object in &mut cast.objects {
        admit(object);
        give_lives(object, seconds);
    }
    Prepared { cast, notes }
}

/// What others need comes first.
fn rank(object: &Value) -> u8 {
    match object["kind"].as_str().unwrap_or_default() {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        "AppWrapper" => 3,
        _ => 2,
    }
}

/// Kinds that are known, and would have pods if somebody made them.
fn without_model(objects: &[Value]) -> BTreeSet<String> {
    let components = objects.iter().flat_map(|object| {
        object["spec"]["components"].as_array().into_iter().flatten().map(|one| &one["template"])
    });
    let row = |object: &Value| {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        Kind::of_any_version(text("apiVersion"), text("kind"))
    };
    let known = objects.iter().chain(components).map(row).filter(|row| row.is_known());
    let kinds = known.map(|row| row.kind).filter(|kind| !actors::is_simulated(kind));
    kinds.map(str::to_owned).collect()
}

/// Three nodes, each with one GPU.
fn nodes() -> Vec<Value> {
    let allocatable = json!({"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1", "pods": "32"});
    let node = |n| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{n}")},
            "status": {"allocatable": allocatable.clone()},
        })
    };
    (1..=3).map(node).collect()
}

fn quota_of(nodes: &[Value]) -> BTreeMap<String, i64> {
    let mut quota = BTreeMap::new();
    for node in nodes {
        for (name, amount) in node["status"]["allocatable"].as_object().into_iter().flatten() {
            add(&mut quota, name, thousandths(amount));
        }
    }
    if quota.is_empty() { BTreeMap::from([("pods".to_owned(), 100_000)]) } else { quota }
}

fn add(quota: &mut BTreeMap<String, i64>, name: &str, amount: i64) {
    let all = quota.entry(name.to_owned()).or_insert(0);
    *all = all.saturating_add(amount.max(0));
}

/// The nominal quotas of all flavours of a ClusterQueue.
fn add_quota(queue: &Value, quota: &mut BTreeMap<String, i64>) {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    for group in list(&queue["spec"], "resourceGroups") {
        for flavor in list(&group, "flavors") {
            for resource in list(&flavor, "resources") {
                let name = resource["name"].as_str().unwrap_or_default().to_owned();
                add(quota, &name, thousandths(&resource["nominalQuota"]));
            }
        }
    }
}

/// What the admission webhooks do: what has a queue begins suspended.
fn admit(object: &mut Value) {
    if object["kind"] == "AppWrapper"
        && object["metadata"]["labels"][QUEUE].is_string()
        && let Some(spec) = fields_of(object, "spec")
    {
        spec.insert("suspend".to_owned(), true.into());
    }
}

/// Pods that are to end, and do not say when, live for this long.
fn give_lives(object: &mut Value, seconds: u64) {
    let templates = object.pointer_mut("/spec/components").and_then(Value::as_array_mut);
    let wrapped = templates.into_iter().flatten().filter_map(|one| one.get_mut("template"));
    for template in wrapped {
        give_life(template, seconds);
    }
    if object["kind"] != "AppWrapper" {
        give_life(object, seconds);
    }
}

fn give_life(object: &mut Value, seconds: u64) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let ends = kind == "Pod" || kind.ends_with("Job") || kind == "JobSet";
    if kind == "Pod" {
        let forever = matches!(object["spec"]["restartPolicy"].as_str(), None | Some("Always"));
        if !forever {
            annotate(object, RUN_FOR, seconds);
        }
    } else if ends {
        let together = kind != "Job";
        let Some(spec) = object.get_mut("spec") else { return };
        each_template(spec, &mut |pod| {
            annotate(pod, RUN_FOR, seconds);
            if together {
                annotate(pod, NEEDS_PEERS, 30);
            }
        });
    }
}

/// Every pod template below a value: what has a `spec` with containers.
fn each_template(value: &mut Value, change: &mut dyn FnMut(&mut Value)) {
    if value["spec"]["containers"].is_array() {
        change(value);
        return;
    }
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| each_template(field, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_template(item, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn annotate(pod: &mut Value, key: &str, seconds: u64) {
    let Some(metadata) = fields_of(pod, "metadata") else { return };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = json!({});
    }
    let Some(annotations) = annotations.as_object_mut() else { return };
    annotations.entry(key).or_insert_with(|| format!("{seconds}s").into());
}

/// The fields of an object in an object, made where it is not there; none where it is something else.
fn fields_of<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Map<String, Value>> {
    let field = value.as_object_mut()?.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = json!({});
    }
    field.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_whose_pods_nobody_makes_are_named() {
        let object = |row: &Kind| json!({"apiVersion": row.api_version, "kind": row.kind});
        let mut objects: Vec<Value> = Kind::all().map(object).collect();
        objects.push(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}));
        objects.push(json!({"apiVersion": "x.io/v1", "kind": "FooJob"}));
        let wanted = [
            "JAXJob",
            "LeaderWorkerSet",
            "MPIJob",
            "PaddleJob",
            "RayJob",
            "RayService",
            "TrainJob",
            "XGBoostJob",
        ];
        assert_eq!(without_model(&objects), BTreeSet::from(wanted.map(str::to_owned)));
    }
}
