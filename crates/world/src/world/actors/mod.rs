//! Everybody else in the cluster, as small models. Each looks at the store as it is and makes one move.

pub mod batch;
pub mod kubelet;
pub mod kueue;
pub mod nodes;
pub mod operators;
mod reporter;
mod scheduler;
mod verdict;
pub mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::rng::Rng;
use crate::sim::{Address, Change, Object, Part, Store};

/// Annotation of an object that a tenant made with somebody else's UID as its owner.
pub const FORGED: &str = "sim/forged";

/// The API group of Volcano, whose kind `Job` is not the one of `batch/v1`.
const VOLCANO: &str = "batch.volcano.sh";

/// Something that an actor has to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// The scheduler, a kubelet or the pod collector looks at a pod.
    Pod(Address),
    /// The node lifecycle controller looks at a node.
    Node(Address),
    /// The Job controller looks at a Job.
    Job(Address),
    /// The JobSet controller looks at a JobSet.
    JobSet(Address),
    /// Another operator looks at an object that has pods.
    Operator(Address),
    /// Kueue looks at an AppWrapper.
    Queue(Address),
    /// A move of the script.
    Script(usize),
    /// The adversary makes a move.
    Attack,
}

/// What actors have to look at, now or later.
#[derive(Clone, Debug, Default)]
pub struct Agenda {
    now: BTreeSet<Task>,
    later: BTreeMap<(Duration, u64), Task>,
    counted: u64,
}

/// What an actor may use.
#[derive(Debug)]
pub struct Env<'a> {
    /// The cluster.
    pub store: &'a mut Store,
    /// Chance.
    pub rng: &'a mut Rng,
    /// What to look at later.
    pub agenda: &'a mut Agenda,
    /// Time since the world began.
    pub elapsed: Duration,
}

impl Agenda {
    /// Something is to be looked at now.
    pub fn add(&mut self, task: Task) {
        self.now.insert(task);
    }

    /// Something is to be looked at at a moment.
    pub fn at(&mut self, moment: Duration, task: Task) {
        self.counted += 1;
        self.later.insert((moment, self.counted), task);
    }

    /// How many things there are to look at now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.now.len()
    }

    /// Whether there is nothing to look at now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// Takes the n-th of what is to be looked at now.
    pub fn take(&mut self, n: usize) -> Option<Task> {
        let task = self.now.iter().nth(n).cloned()?;
        self.now.remove(&task);
        Some(task)
    }

    /// When the next thing is to be looked at.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.later.keys().next().map(|(moment, _)| *moment)
    }

    /// What has become due.
    pub fn advance(&mut self, elapsed: Duration) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > elapsed {
                break;
            }
            let task = entry.remove();
            self.now.insert(task);
        }
    }
}

/// Notes who has to look at what after a change.
pub fn route(agenda: &mut Agenda, store: &Store, change: &Change) {
    let object = &change.object;
    if let Some(task) = task_of(store, &object.address) {
        agenda.add(task);
    }
    for owner in object.owners() {
        let text = |key: &str| owner[key].as_str().unwrap_or_default();
        let Some(kind) = store.kinds.by_name(text("apiVersion"), text("kind")) else { continue };
        let address = Address::new(kind, &object.address.namespace, text("name"));
        if let Some(task) = task_of(store, &address) {
            agenda.add(task);
        }
    }
}

/// Other kinds whose objects an operator looks at.
const OPERATED: [&str; 6] =
    ["Deployment", "ReplicaSet", "StatefulSet", "PyTorchJob", "TFJob", "RayCluster"];

/// Whether somebody here makes the pods of a kind, or runs them.
#[must_use]
pub fn is_simulated(kind: &str) -> bool {
    matches!(kind, "Pod" | "Job" | "JobSet") || OPERATED.contains(&kind)
}

fn task_of(store: &Store, address: &Address) -> Option<Task> {
    let kind = store.kinds.get(address.kind);
    Some(match kind.kind.as_str() {
        "Job" if kind.group == VOLCANO => Task::Operator(address.clone()),
        "Pod" => Task::Pod(address.clone()),
        "Node" => Task::Node(address.clone()),
        "Job" => Task::Job(address.clone()),
        "JobSet" => Task::JobSet(address.clone()),
        operated if OPERATED.contains(&operated) => Task::Operator(address.clone()),
        "AppWrapper" => Task::Queue(address.clone()),
        _ => return None,
    })
}

/// Creates an object that belongs to another.
pub fn create_owned(
    store: &mut Store,
    api_version: &str,
    kind: &str,
    owner: &Object,
    mut value: Value,
) -> Option<Arc<Object>> {
    let id = store.kinds.by_name(api_version, kind)?;
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    value["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner.value["apiVersion"], "kind": owner.value["kind"],
        "name": &*owner.address.name, "uid": &*owner.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let namespace = owner.address.namespace.clone();
    store.create(id, &namespace, value).ok()
}

/// The pods that an object controls, in the order of their names.
#[must_use]
pub fn pods_of(store: &Store, owner: &Object) -> Vec<Arc<Object>> {
    children(store, owner, "Pod")
}

/// The objects of a kind that an object controls.
#[must_use]
pub fn children(store: &Store, owner: &Object, kind: &str) -> Vec<Arc<Object>> {
    // a controller takes what its selector matches, too: a bare owner reference makes no child
    let is = |object: &&Arc<Object>| {
        store.kinds.get(object.address.kind).kind == kind && object.annotation(FORGED).is_none()
    };
    store.owned_by(&owner.uid).filter(is).cloned().collect()
}

/// Phase of a pod.
#[must_use]
pub fn phase(pod: &Object) -> &str {
    pod.value["status"]["phase"].as_str().unwrap_or_default()
}

/// Whether a pod has ended.
#[must_use]
pub fn has_ended(pod: &Object) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether a condition is True.
#[must_use]
pub fn is_true(object: &Value, condition: &str) -> bool {
    find_condition(object, condition).is_some()
}

/// A condition of an object, where its status is True.
#[must_use]
pub fn find_condition<'o>(object: &'o Value, condition: &str) -> Option<&'o Value> {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|one| one["type"] == condition && one["status"] == "True")
}

/// Sets a condition of an object.
pub fn set_condition(
    object: &mut Value,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: &str,
) {
    let text = if status { "True" } else { "False" };
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(all) = object["status"]["conditions"].as_array_mut() else { return };
    let old = all.iter().find(|one| one["type"] == kind);
    let since =
        old.filter(|one| one["status"] == text).map(|one| one["lastTransitionTime"].clone());
    let new = json!({
        "type": kind, "status": text, "reason": reason, "message": message,
        "lastTransitionTime": since.unwrap_or_else(|| now.into()),
    });
    all.retain(|one| one["type"] != kind);
    all.push(new);
}

/// Sets a field of the status of an object. Where it has that value already, the object is not copied.
fn set_status(store: &mut Store, address: &Address, field: &str, value: Value) {
    if store.get(address).is_some_and(|object| object.value["status"][field] == value) {
        return;
    }
    store.change(address, Part::Status, |object| object["status"][field] = value);
}

/// Reads a number from an object.
#[must_use]
pub fn number(object: &Value, pointer: &str, default: i64) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(default)
}
