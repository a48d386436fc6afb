//! An object as it is stored.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::kinds::KindId;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Its kind.
    pub kind: KindId,
    /// Its namespace; empty for a cluster-scoped one.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// An object in one of its states; never changed, only replaced.
#[derive(Debug)]
pub struct Object {
    /// Where it is.
    pub address: Address,
    /// Its UID.
    pub uid: Arc<str>,
    /// Its resource version.
    pub version: u64,
    /// The whole of it.
    pub value: Value,
    text: OnceLock<Box<str>>,
    text_in_list: OnceLock<Box<str>>,
}

impl Address {
    /// An address.
    #[must_use]
    pub fn new(kind: KindId, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl Object {
    pub(super) const fn new(address: Address, uid: Arc<str>, version: u64, value: Value) -> Self {
        Self { address, uid, version, value, text: OnceLock::new(), text_in_list: OnceLock::new() }
    }

    /// The whole of it as JSON; written once.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text
            .get_or_init(|| serde_json::to_string(&self.value).unwrap_or_default().into_boxed_str())
    }

    /// As an item of a list of a built-in kind: the list says which kind it is.
    #[must_use]
    pub(super) fn text_in_list(&self) -> &str {
        self.text_in_list.get_or_init(|| {
            let fields = self.value.as_object().into_iter().flatten();
            let fields =
                fields.filter(|(name, _)| !["apiVersion", "kind"].contains(&name.as_str()));
            let item: BTreeMap<&String, &Value> = fields.collect();
            serde_json::to_string(&item).unwrap_or_default().into_boxed_str()
        })
    }

    /// A label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["labels"].get(key)?.as_str()
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["annotations"].get(key)?.as_str()
    }

    /// It has a deletion timestamp.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        is_deleting(&self.value)
    }

    /// Its finalizers.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        finalizers(&self.value)
    }

    /// Its owner references.
    pub fn owners(&self) -> impl Iterator<Item = &Value> {
        self.value["metadata"]["ownerReferences"].as_array().into_iter().flatten()
    }

    /// UIDs of its owners.
    pub fn owner_uids(&self) -> impl Iterator<Item = &str> {
        self.owners().filter_map(|owner| owner["uid"].as_str())
    }

    /// The owner reference of its controller.
    #[must_use]
    pub fn controller(&self) -> Option<&Value> {
        self.owners().find(|owner| owner["controller"] == true)
    }
}

pub(super) fn is_deleting(value: &Value) -> bool {
    value["metadata"]["deletionTimestamp"].is_string()
}

pub(super) fn finalizers(value: &Value) -> impl Iterator<Item = &str> {
    value["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}
