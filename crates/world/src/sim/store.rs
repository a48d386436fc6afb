//! What is stored, and what happened to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::{Kind, KindId, Kinds};
use super::object::{Address, Object};
use super::refusal::Refusal;

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
    pub(super) counted: u64,
    now: Timestamp,
    /// `managedFields` of a pod say when its status was written last.
    pub dates_statuses: bool,
    pub(super) dependents: BTreeMap<Arc<str>, BTreeSet<Address>>,
    pub(super) uids: BTreeMap<Arc<str>, Address>,
    /// What no one may do: verb and resource, as access reviews name them.
    pub denied: BTreeSet<(String, String)>,
    /// What a user may not do: user, verb and resource.
    pub revoked: BTreeSet<(String, String, String)>,
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
            dates_statuses: false,
            dependents: BTreeMap::new(),
            uids: BTreeMap::new(),
            denied: BTreeSet::new(),
            revoked: BTreeSet::new(),
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

    /// A time some seconds from now, as it stands in objects.
    #[must_use]
    pub fn now_after(&self, seconds: i64) -> String {
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

    pub(super) fn existing(&self, address: &Address) -> Result<Arc<Object>, Refusal> {
        let Kind { plural, group, .. } = self.kinds.get(address.kind);
        let found = self.objects.get(address).cloned();
        found.ok_or_else(|| Refusal::not_found(plural, group, &address.name))
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
    pub(super) fn define_kind(&mut self, object: &Object) {
        if self.kinds.get(object.address.kind).kind == "CustomResourceDefinition" {
            self.kinds.define(&object.value);
        }
    }
}
