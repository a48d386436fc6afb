//! What people leave out when they write a bundle by hand: namespaces, UIDs, times. It is filled in
//! where that cannot change whose an object is.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::super::bundle::{Document, group};
use crate::api::{Component, Phase, keys};
use crate::kinds;

/// Kind and name of an object, by which its UID is filled in: group, kind, namespace, name.
type Id = (String, String, String, String);

/// Kinds that have no namespace, and may be in a bundle.
const WITHOUT_NAMESPACE: [&str; 4] = ["Node", "ClusterQueue", "RetryPolicy", "Namespace"];

/// Fills in what is missing in the AppWrapper and in the objects around it.
pub(super) fn complete(wrapper: &mut Document, others: &mut [Document], now: Timestamp) {
    let namespace = match wrapper.text("/metadata/namespace") {
        "" => "default".to_owned(),
        name => name.to_owned(),
    };
    set_absent(wrapper, "namespace", &namespace);
    for other in &mut *others {
        if !WITHOUT_NAMESPACE.contains(&other.kind()) {
            set_absent(other, "namespace", &namespace);
        } else if let Some(metadata) = other.value.pointer_mut("/metadata")
            && let Some(fields) = metadata.as_object_mut()
        {
            // a cluster has it without one
            fields.remove("namespace");
        }
    }
    status(wrapper, now);
    let uids = uids(wrapper, others);
    for object in std::iter::once(&mut *wrapper).chain(&mut *others) {
        if let Some(uid) = uids.get(&id(object)) {
            set_absent(object, "uid", uid);
        }
        let namespace = object.text("/metadata/namespace").to_owned();
        for owner in owners_mut(object) {
            let Some(uid) = uids.get(&owner_id(owner, &namespace)) else { continue };
            if lacks_uid(owner) && owner.is_object() {
                owner["uid"] = json!(uid);
            }
        }
    }
    owners(wrapper, others);
}

/// Conditions without a time took their status now; an entry of `componentStatus` without pod sets
/// has those of its template (the Go project always writes them); an object that is being deleted
/// without any finalizer cannot exist: ours was left out.
fn status(wrapper: &mut Document, now: Timestamp) {
    let components: Vec<Component> = wrapper
        .value
        .pointer("/spec/components")
        .and_then(|components| serde_json::from_value(components.clone()).ok())
        .unwrap_or_default();
    let pointed = |value: &mut Value, pointer: &str| {
        value.pointer_mut(pointer).and_then(Value::as_array_mut).map(std::mem::take)
    };
    let dated = |conditions: &mut Vec<Value>| {
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.entry("lastTransitionTime").or_insert_with(|| json!(now));
        }
    };
    if let Some(mut conditions) = pointed(&mut wrapper.value, "/status/conditions") {
        dated(&mut conditions);
        wrapper.value["status"]["conditions"] = conditions.into();
    }
    if let Some(mut entries) = pointed(&mut wrapper.value, "/status/componentStatus") {
        for (index, entry) in entries.iter_mut().enumerate() {
            if let Some(conditions) = entry.pointer_mut("/conditions").and_then(Value::as_array_mut)
            {
                dated(conditions);
            }
            let inspected = components.get(index).and_then(|one| kinds::inspect(one).ok());
            if let (Some(entry), Some(inspected)) = (entry.as_object_mut(), inspected) {
                entry.entry("podSets").or_insert_with(|| json!(inspected.pod_sets));
            }
        }
        wrapper.value["status"]["componentStatus"] = entries.into();
    }
    let terminates = wrapper.text("/status/phase") == Phase::Terminating.as_str();
    if let Some(metadata) = wrapper.value.pointer_mut("/metadata").and_then(Value::as_object_mut)
        && terminates
    {
        metadata.entry("deletionTimestamp").or_insert_with(|| json!(now));
    }
    if let Some(metadata) = wrapper.value.pointer_mut("/metadata").and_then(Value::as_object_mut)
        && metadata.contains_key("deletionTimestamp")
    {
        metadata.entry("finalizers").or_insert_with(|| json!([keys::FINALIZER]));
    }
}

/// An object whose UID is recorded belongs to the AppWrapper where it says nothing of itself: no owner and
/// no label. The controller asks for more than the record, which every object in a cluster has.
fn owners(wrapper: &Document, others: &mut [Document]) {
    let recorded = wrapper.value.pointer("/status/componentStatus").and_then(Value::as_array);
    let uids: BTreeSet<&str> = recorded
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.get("uid").and_then(Value::as_str))
        .collect();
    let owner = json!([{
        "apiVersion": wrapper.text("/apiVersion"), "kind": wrapper.kind(), "controller": true,
        "name": wrapper.text("/metadata/name"), "uid": wrapper.text("/metadata/uid"),
    }]);
    for other in others.iter_mut().filter(|other| uids.contains(&other.text("/metadata/uid"))) {
        let metadata = other.value.pointer_mut("/metadata").and_then(Value::as_object_mut);
        let says_nothing = |metadata: &&mut serde_json::Map<String, Value>| {
            !metadata.contains_key("ownerReferences") && !metadata.contains_key("labels")
        };
        if let Some(metadata) = metadata.filter(says_nothing) {
            metadata.insert("ownerReferences".to_owned(), owner.clone());
        }
    }
}

/// The UID of every object: its own, else the one by which another object calls it, else a made-up
/// one.
fn uids(wrapper: &Document, others: &[Document]) -> BTreeMap<Id, String> {
    let mut uids = BTreeMap::new();
    let all = || std::iter::once(wrapper).chain(others);
    let mut note = |id: Id, uid: &str| {
        if !uid.is_empty() {
            uids.entry(id).or_insert_with(|| uid.to_owned());
        }
    };
    for object in all() {
        note(id(object), object.text("/metadata/uid"));
    }
    let namespace = wrapper.text("/metadata/namespace");
    let recorded = wrapper.value.pointer("/status/componentStatus").and_then(Value::as_array);
    for entry in recorded.into_iter().flatten() {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let of = (group(text("apiVersion")).to_owned(), text("kind").to_owned());
        note((of.0, of.1, namespace.to_owned(), text("name").to_owned()), text("uid"));
    }
    for object in all() {
        let owners = object.value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        for owner in owners.into_iter().flatten() {
            let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
            note(owner_id(owner, object.text("/metadata/namespace")), uid);
        }
    }
    for object in all() {
        let (_, kind, namespace, name) = id(object);
        note(id(object), &format!("uid-of-{kind}-{namespace}-{name}"));
    }
    uids
}

/// Group, kind, namespace and name of an object.
pub(super) fn id(object: &Document) -> Id {
    let text = |pointer: &str| object.text(pointer).to_owned();
    let group = object.group().to_owned();
    (group, text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

fn owner_id(owner: &Value, namespace: &str) -> Id {
    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
    let namespace = if WITHOUT_NAMESPACE.contains(&text("kind")) { "" } else { namespace };
    let group = group(text("apiVersion")).to_owned();
    (group, text("kind").to_owned(), namespace.to_owned(), text("name").to_owned())
}

fn owners_mut(object: &mut Document) -> impl Iterator<Item = &mut Value> {
    let owners = object.value.pointer_mut("/metadata/ownerReferences");
    owners.and_then(Value::as_array_mut).into_iter().flatten()
}

fn lacks_uid(owner: &Value) -> bool {
    owner.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty()
}

fn set_absent(object: &mut Document, field: &str, text: &str) {
    let Some(metadata) = object.value.pointer_mut("/metadata").and_then(Value::as_object_mut)
    else {
        return; // reported when it is read
    };
    let value = metadata.entry(field).or_insert(Value::Null);
    if value.is_null() || value.as_str() == Some("") {
        *value = json!(text);
    }
}
