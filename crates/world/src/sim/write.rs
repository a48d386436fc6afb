//! Writes: what a new object becomes, and what a writer can change of an old one.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::object::{self, Address, Object};
use super::refusal::Refusal;
use super::remove;
use super::store::{Part, Store, Verb};

/// Who replaces an object: an update says what object it is of, a patch changes that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Update,
    Patch,
}

impl Store {
    /// Replaces an object, or its status.
    ///
    /// # Errors
    /// As the API server refuses it.
    pub fn replace(
        &mut self,
        address: &Address,
        part: Part,
        value: Value,
    ) -> Result<Arc<Object>, Refusal> {
        self.replace_by(address, part, value, Writer::Update)
    }

    pub(super) fn replace_by(
        &mut self,
        address: &Address,
        part: Part,
        value: Value,
        writer: Writer,
    ) -> Result<Arc<Object>, Refusal> {
        let old = self.existing(address)?;
        self.check_guards(&old, &value, part, writer)?;
        self.write(&old, part, value)
    }

    /// Changes an object in place, unguarded: for the models of other controllers, which see it as it is.
    pub fn change(
        &mut self,
        address: &Address,
        part: Part,
        change: impl FnOnce(&mut Value),
    ) -> Option<Arc<Object>> {
        let old = self.objects.get(address)?.clone();
        let mut value = old.value.clone();
        change(&mut value);
        self.write(&old, part, value).ok()
    }

    /// UID and resource version that a body names must be those of the object.
    fn check_guards(
        &self,
        old: &Object,
        value: &Value,
        part: Part,
        writer: Writer,
    ) -> Result<(), Refusal> {
        let text = |key: &str| value["metadata"][key].as_str().unwrap_or_default();
        let kind = self.kinds.get(old.address.kind);
        let Kind { plural, unconditional, .. } = kind;
        let name = &old.address.name;
        if !text("name").is_empty() && text("name") != &**name {
            return Err(Refusal::bad_request(
                "the name of the object does not match the name on the URL",
            ));
        }
        if !text("namespace").is_empty() && text("namespace") != &*old.address.namespace {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let is_other = !text("uid").is_empty() && text("uid") != &*old.uid;
        if is_other && writer == Writer::Update {
            return Err(Refusal::conflict(format!(
                "Operation cannot be fulfilled on {plural} {name:?}: Precondition failed: UID"
            )));
        }
        let version = text("resourceVersion");
        if version.is_empty() && !unconditional {
            return Err(Refusal::invalid(
                "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update",
            ));
        }
        if !version.is_empty() && version != old.version.to_string() {
            return Err(Refusal::conflict(format!(
                "Operation cannot be fulfilled on {plural} {name:?}: the object has been modified; \
                 please apply your changes to the latest version and try again"
            )));
        }
        // the status of a custom resource is taken without looking at the rest
        if kind.is_custom() && part == Part::Status {
            return Ok(());
        }
        if is_other {
            return Err(Refusal::invalid("metadata.uid: field is immutable"));
        }
        let field = "deletionGracePeriodSeconds";
        let (given, known) = (&value["metadata"][field], &old.value["metadata"][field]);
        if !given.is_null() && given != known {
            return Err(Refusal::invalid(format!("metadata.{field}: field is immutable")));
        }
        Ok(())
    }

    /// Writes a new state of an object.
    pub(super) fn write(
        &mut self,
        old: &Arc<Object>,
        part: Part,
        value: Value,
    ) -> Result<Arc<Object>, Refusal> {
        let kind = self.kinds.get(old.address.kind);
        let mut new = value;
        match part {
            // of a custom resource nothing but the status is written, of others all but the spec
            Part::Status if kind.is_custom() => {
                keep_all_but(&old.value, &mut new, "status");
            }
            Part::Status => {
                keep_system_fields(&old.value, &mut new);
                copy(&old.value, &mut new, "spec");
                if kind.graceful {
                    copy(&old.value["metadata"], &mut new["metadata"], "ownerReferences");
                }
            }
            Part::Whole => {
                keep_system_fields(&old.value, &mut new);
                if kind.status {
                    copy(&old.value, &mut new, "status");
                }
            }
        }
        if let Some(schema) = &kind.schema {
            schema.apply_to_root(&mut new);
        }
        if part == Part::Whole {
            check_finalizers(&old.value, &new)?;
            if kind.generation && !same_content(kind, &old.value, &new) {
                let generation = old.value["metadata"]["generation"].as_i64().unwrap_or(0);
                new["metadata"]["generation"] = generation.saturating_add(1).into();
            }
        }
        new["metadata"]["resourceVersion"] = old.version.to_string().into();
        if new == old.value {
            return Ok(old.clone());
        }
        if self.dates_statuses && part == Part::Status && kind.graceful {
            new["metadata"]["managedFields"] = json!([{
                "manager": "kubelet", "operation": "Update", "subresource": "status",
                "time": self.now(),
            }]);
        }
        if object::is_deleting(&new) && remove::may_go(&new) {
            self.remove(old);
            let (address, uid) = (old.address.clone(), old.uid.clone());
            return Ok(Arc::new(Object::new(address, uid, old.version, new)));
        }
        let (address, uid) = (old.address.clone(), old.uid.clone());
        Ok(self.put(address, uid, Verb::Modified, Some(old.clone()), new))
    }
}

pub(super) fn remove(value: &mut Value, field: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(field);
    }
}

/// Makes a field the same as in another object: there or not. Most are so already.
fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) if to.get(field) == Some(value) => {}
        Some(value) => to[field] = value.clone(),
        None => remove(to, field),
    }
}

/// What a writer cannot change, where that is all but one field.
fn keep_all_but(old: &Value, new: &mut Value, field: &str) {
    if let Some(fields) = new.as_object_mut() {
        fields.retain(|name, _| name == field || old.get(name).is_some());
    }
    let names = old.as_object().into_iter().flatten().map(|(name, _)| name);
    names.filter(|name| *name != field).for_each(|name| copy(old, new, name));
}

/// What a writer cannot change.
fn keep_system_fields(old: &Value, new: &mut Value) {
    copy(old, new, "apiVersion");
    copy(old, new, "kind");
    if !new["metadata"].is_object() {
        new["metadata"] = Value::Object(Map::new());
    }
    for field in [
        "name",
        "namespace",
        "uid",
        // nobody applies: no field is tracked
        "managedFields",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        copy(&old["metadata"], &mut new["metadata"], field);
    }
    tidy(&mut new["metadata"]);
}

/// Metadata as it is stored: without what is empty.
pub(super) fn tidy(metadata: &mut Value) {
    for field in ["labels", "annotations"] {
        let values = metadata.get_mut(field).and_then(Value::as_object_mut);
        for value in values.into_iter().flat_map(Map::values_mut).filter(|value| value.is_null()) {
            *value = "".into();
        }
    }
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = match metadata.get(field) {
            Some(Value::Null) => true,
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(fields)) => fields.is_empty(),
            Some(_) | None => false,
        };
        if empty {
            remove(metadata, field);
        }
    }
}

/// An object that is being deleted takes no new finalizers.
fn check_finalizers(old: &Value, new: &Value) -> Result<(), Refusal> {
    if !object::is_deleting(old) {
        return Ok(());
    }
    let known: Vec<&str> = object::finalizers(old).collect();
    match object::finalizers(new).find(|name| !known.contains(name)) {
        Some(name) => Err(Refusal::invalid(format!(
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being \
             deleted, found new finalizers {name:?}"
        ))),
        None => Ok(()),
    }
}

/// Whether two states differ in nothing but metadata and status.
fn same_content(kind: &Kind, old: &Value, new: &Value) -> bool {
    content(kind, old).eq(content(kind, new))
}

fn content<'a>(kind: &Kind, value: &'a Value) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let has_status = kind.status;
    let fields = value.as_object().into_iter().flatten();
    fields.filter(move |(name, _)| *name != "metadata" && !(has_status && *name == "status"))
}
