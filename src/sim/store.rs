//! What is stored, and what happened to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::kinds::{Kind, KindId, Kinds};
use super::object::{self, Address, Object};
use super::refusal::Refusal;
use super::remove;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// One change of one object; one for each resource version.
#[derive(Clone, Debug)]
pub struct Change {
    /// What happened.
    pub verb: Verb,
    /// The object after it; where it is gone, as it was last.
    pub object: Arc<Object>,
    /// The object before.
    pub before: Option<Arc<Object>>,
}

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status, where that is a subresource.
    Whole,
    /// The status alone.
    Status,
}

/// The store.
#[derive(Clone, Debug)]
pub struct Store {
    /// The kinds that are served.
    pub kinds: Kinds,
    pub(super) objects: BTreeMap<Address, Arc<Object>>,
    history: Vec<Change>,
    /// The history begins after this version.
    compacted: u64,
    version: u64,
    counted: u64,
    now: Timestamp,
    pub(super) dependents: BTreeMap<Arc<str>, BTreeSet<Address>>,
    pub(super) uids: BTreeMap<Arc<str>, Address>,
    /// What no one may do: verb and resource, as access reviews name them.
    pub denied: BTreeSet<(String, String)>,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(Timestamp::UNIX_EPOCH)
    }
}

impl Store {
    /// A server with nothing but the namespace `default`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let mut store = Self {
            kinds: Kinds::default(),
            objects: BTreeMap::new(),
            history: vec![],
            compacted: 0,
            version: 0,
            counted: 0,
            now,
            dependents: BTreeMap::new(),
            uids: BTreeMap::new(),
            denied: BTreeSet::new(),
        };
        let default =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        if let Some(kind) = store.kinds.by_name("v1", "Namespace") {
            // cannot be refused: there is nothing yet
            drop(store.create(kind, "", default));
        }
        store
    }

    /// Sets the time.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The time, as it stands in objects.
    #[must_use]
    pub fn now(&self) -> String {
        self.now_after(0)
    }

    pub(super) fn now_after(&self, seconds: i64) -> String {
        let moment = Timestamp::from_second(self.now.as_second().saturating_add(seconds));
        moment.unwrap_or(self.now).to_string()
    }

    /// The resource version of the last change.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// What happened, from the first change that is still kept.
    #[must_use]
    pub fn history(&self) -> &[Change] {
        &self.history
    }

    /// The version after which the history is kept.
    #[must_use]
    pub const fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Forgets what happened up to a version.
    pub fn compact(&mut self, version: u64) {
        let version = version.min(self.version);
        self.history.retain(|change| change.object.version > version);
        self.compacted = self.compacted.max(version);
    }

    /// An object.
    #[must_use]
    pub fn get(&self, address: &Address) -> Option<&Arc<Object>> {
        self.objects.get(address)
    }

    /// The object of a UID.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<&Arc<Object>> {
        self.objects.get(self.uids.get(uid)?)
    }

    /// The objects of a kind, by namespace and name.
    pub fn all(&self, kind: KindId) -> impl Iterator<Item = &Arc<Object>> {
        let from = Address::new(kind, "", "");
        self.objects
            .range(from..)
            .map(|(_, object)| object)
            .take_while(move |object| object.address.kind == kind)
    }

    /// The objects that name an owner.
    pub fn owned_by(&self, uid: &str) -> impl Iterator<Item = &Arc<Object>> {
        let addresses = self.dependents.get(uid).into_iter().flatten();
        addresses.filter_map(|address| self.objects.get(address))
    }

    /// The objects of a kind as they were at a version.
    pub(super) fn all_at(
        &self,
        kind: KindId,
        version: u64,
    ) -> Result<BTreeMap<Address, Arc<Object>>, Refusal> {
        if version < self.compacted {
            return Err(Refusal::expired());
        }
        let mut objects: BTreeMap<Address, Arc<Object>> =
            self.all(kind).map(|object| (object.address.clone(), object.clone())).collect();
        let later = self.history.iter().rev().take_while(|change| change.object.version > version);
        for change in later.filter(|change| change.object.address.kind == kind) {
            match &change.before {
                Some(before) => objects.insert(before.address.clone(), before.clone()),
                None => objects.remove(&change.object.address),
            };
        }
        Ok(objects)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// As the API server refuses it.
    pub fn create(
        &mut self,
        kind: KindId,
        namespace: &str,
        mut value: Value,
    ) -> Result<Arc<Object>, Refusal> {
        let Kind { group, plural, namespaced, .. } = self.kinds.get(kind).clone();
        let name = self.name_of_new(namespace, &mut value)?;
        if namespaced {
            self.check_namespace(kind, namespace, &value)?;
        }
        let address = Address::new(kind, if namespaced { namespace } else { "" }, &name);
        if self.objects.contains_key(&address) {
            return Err(Refusal::exists(&plural, &group, &name));
        }
        self.counted += 1;
        let uid: Arc<str> =
            format!("{:08x}-0000-4000-8000-{:012x}", self.counted, self.counted).into();
        let now = self.now();
        let known = self.kinds.get(kind);
        self.stamp_new(known, &mut value, &name, namespace, &uid, &now);
        let object = self.put(address, uid, Verb::Added, None, value);
        self.define_kind(&object);
        Ok(object)
    }

    fn name_of_new(&mut self, namespace: &str, value: &mut Value) -> Result<String, Refusal> {
        let Value::Object(fields) = value else {
            return Err(Refusal::bad_request("an object is expected"));
        };
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        let text = |key: &str| metadata[key].as_str().unwrap_or_default();
        if !text("resourceVersion").is_empty() {
            return Err(Refusal::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if !text("namespace").is_empty() && text("namespace") != namespace {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if !text("name").is_empty() {
            return Ok(text("name").to_owned());
        }
        if text("generateName").is_empty() {
            return Err(Refusal::invalid("Required value: name or generateName is required"));
        }
        self.counted += 1;
        Ok(format!("{}{:05x}", text("generateName"), self.counted))
    }

    fn check_namespace(&self, kind: KindId, namespace: &str, value: &Value) -> Result<(), Refusal> {
        let Some(namespaces) = self.kinds.by_name("v1", "Namespace") else { return Ok(()) };
        let Some(found) = self.objects.get(&Address::new(namespaces, "", namespace)) else {
            return Err(Refusal::not_found("namespaces", "", namespace));
        };
        if found.is_deleting() {
            let Kind { plural, group, .. } = self.kinds.get(kind);
            let name = value["metadata"]["name"].as_str().unwrap_or_default();
            return Err(Refusal::new(
                403,
                "Forbidden",
                format!(
                    "{plural}.{group} {name:?} is forbidden: unable to create new content in \
                     namespace {namespace} because it is being terminated"
                ),
            ));
        }
        Ok(())
    }

    fn stamp_new(
        &self,
        kind: &Kind,
        value: &mut Value,
        name: &str,
        namespace: &str,
        uid: &str,
        now: &str,
    ) {
        if kind.status
            && let Some(fields) = value.as_object_mut()
        {
            fields.remove("status");
        }
        if let Some(schema) = &kind.schema {
            schema.apply_to_root(value);
        }
        value["apiVersion"] = kind.api_version().into();
        value["kind"] = kind.kind.clone().into();
        if kind.graceful {
            value["status"] = json!({"phase": "Pending"});
        }
        let metadata = &mut value["metadata"];
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
            remove(metadata, field);
        }
        metadata["name"] = name.into();
        if kind.namespaced {
            metadata["namespace"] = namespace.into();
        }
        metadata["uid"] = uid.into();
        metadata["creationTimestamp"] = now.into();
        if kind.generation {
            metadata["generation"] = 1.into();
        }
    }

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
        let old = self.existing(address)?;
        self.check_guards(&old, &value, part)?;
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

    pub(super) fn existing(&self, address: &Address) -> Result<Arc<Object>, Refusal> {
        let Kind { plural, group, .. } = self.kinds.get(address.kind);
        let found = self.objects.get(address).cloned();
        found.ok_or_else(|| Refusal::not_found(plural, group, &address.name))
    }

    /// UID and resource version that a body names must be those of the object.
    fn check_guards(&self, old: &Object, value: &Value, part: Part) -> Result<(), Refusal> {
        let text = |key: &str| value["metadata"][key].as_str().unwrap_or_default();
        let Kind { plural, unconditional, .. } = self.kinds.get(old.address.kind);
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
        if !text("uid").is_empty() && text("uid") != &*old.uid {
            return Err(Refusal::conflict(format!(
                "Operation cannot be fulfilled on {plural} {name:?}: Precondition failed: UID"
            )));
        }
        let version = text("resourceVersion");
        if version.is_empty() && !unconditional && part == Part::Whole {
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
        Ok(())
    }

    /// Writes a new state of an object.
    pub(super) fn write(
        &mut self,
        old: &Arc<Object>,
        part: Part,
        value: Value,
    ) -> Result<Arc<Object>, Refusal> {
        let kind = self.kinds.get(old.address.kind).clone();
        let mut new = match part {
            Part::Status => {
                let mut new = old.value.clone();
                copy(&value, &mut new, "status");
                new
            }
            Part::Whole => {
                let mut new = value;
                keep_system_fields(&kind, &old.value, &mut new);
                new
            }
        };
        if let Some(schema) = &kind.schema {
            schema.apply_to_root(&mut new);
        }
        if part == Part::Whole {
            check_finalizers(&old.value, &new)?;
            if kind.generation && !same_content(&kind, &old.value, &new) {
                let generation = old.value["metadata"]["generation"].as_i64().unwrap_or(0);
                new["metadata"]["generation"] = generation.saturating_add(1).into();
            }
        }
        new["metadata"]["resourceVersion"] = old.version.to_string().into();
        if new == old.value {
            return Ok(old.clone());
        }
        if object::is_deleting(&new) && remove::may_go(&new) {
            return Ok(self.remove(old, new));
        }
        let (address, uid) = (old.address.clone(), old.uid.clone());
        Ok(self.put(address, uid, Verb::Modified, Some(old.clone()), new))
    }

    /// Stores a state and notes the change.
    pub(super) fn put(
        &mut self,
        address: Address,
        uid: Arc<str>,
        verb: Verb,
        before: Option<Arc<Object>>,
        mut value: Value,
    ) -> Arc<Object> {
        self.version += 1;
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(Object::new(address.clone(), uid.clone(), self.version, value));
        if let Some(before) = &before {
            self.forget_owners(before);
        }
        if verb == Verb::Deleted {
            self.objects.remove(&address);
            self.uids.remove(&uid);
        } else {
            for owner in object.owner_uids() {
                self.dependents.entry(owner.into()).or_default().insert(address.clone());
            }
            self.uids.insert(uid, address.clone());
            self.objects.insert(address, object.clone());
        }
        self.history.push(Change { verb, object: object.clone(), before });
        object
    }

    fn forget_owners(&mut self, before: &Object) {
        for owner in before.owner_uids() {
            if let Some(addresses) = self.dependents.get_mut(owner) {
                addresses.remove(&before.address);
                if addresses.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    /// A definition defines its kind.
    fn define_kind(&mut self, object: &Object) {
        if self.kinds.get(object.address.kind).kind == "CustomResourceDefinition" {
            self.kinds.define(&object.value);
        }
    }
}

pub(super) fn remove(value: &mut Value, field: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(field);
    }
}

/// Makes a field the same as in another object: there or not.
fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => remove(to, field),
    }
}

/// What a writer cannot change.
fn keep_system_fields(kind: &Kind, old: &Value, new: &mut Value) {
    if kind.status {
        copy(old, new, "status");
    }
    new["apiVersion"] = old["apiVersion"].clone();
    new["kind"] = old["kind"].clone();
    if !new["metadata"].is_object() {
        new["metadata"] = Value::Object(Map::new());
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        copy(&old["metadata"], &mut new["metadata"], field);
    }
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let metadata = &mut new["metadata"];
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
    let content = |value: &Value| -> Vec<(String, Value)> {
        let fields = value.as_object().into_iter().flatten();
        fields
            .filter(|(name, _)| *name != "metadata" && !(kind.status && *name == "status"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let (Some(a), Some(b)) = (old.as_object(), new.as_object()) else { return false };
    if a.len() == b.len() && a.get("spec") == b.get("spec") {
        return content(old) == content(new);
    }
    content(old) == content(new)
}
