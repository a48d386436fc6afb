//! Creation.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::{Kind, KindId};
use super::object::{Address, Object};
use super::refusal::Refusal;
use super::store::{Store, Verb};
use super::write::{self, remove};

impl Store {
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
        if value["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty())
        {
            return Err(Refusal::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
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
        stamp_new(known, &mut value, &name, namespace, &uid, &now);
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
}

/// What the server puts into a new object.
fn stamp_new(kind: &Kind, value: &mut Value, name: &str, namespace: &str, uid: &str, now: &str) {
    if kind.status && kind.is_custom() {
        remove(value, "status");
    } else if kind.status {
        value["status"] = json!({});
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
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        remove(metadata, field);
    }
    write::tidy(metadata);
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
