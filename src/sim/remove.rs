//! Deletion: preconditions, time to end, finalizers, and what becomes of dependents.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::Kind;
use super::object::{self, Address, Object};
use super::refusal::Refusal;
use super::store::{Store, Verb};

/// Finalizer of a foreground deletion.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of a deletion that leaves dependents alone.
pub(super) const ORPHAN: &str = "orphan";

/// What becomes of what an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// It goes afterwards.
    Background,
    /// It goes first.
    Foreground,
    /// It stays.
    Orphan,
}

/// How an object is to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Seconds that are left to end; the object's own where absent.
    pub grace: Option<i64>,
    /// What becomes of dependents; as the object's finalizers say where absent.
    pub propagation: Option<Propagation>,
    /// The object must have this UID.
    pub uid: Option<String>,
    /// The object must have this resource version.
    pub version: Option<String>,
}

impl Propagation {
    /// Reads `propagationPolicy`.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            "Background" => Ok(Self::Background),
            "Foreground" => Ok(Self::Foreground),
            "Orphan" => Ok(Self::Orphan),
            other => Err(Refusal::invalid(format!(
                "DeleteOptions.propagationPolicy: Invalid value: {other:?}"
            ))),
        }
    }
}

impl Deletion {
    /// Reads `DeleteOptions`.
    pub(super) fn parse(body: &Value) -> Result<Self, Refusal> {
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let propagation = text("/propagationPolicy");
        Ok(Self {
            grace: body["gracePeriodSeconds"].as_i64(),
            propagation: propagation.as_deref().map(Propagation::parse).transpose()?,
            uid: text("/preconditions/uid"),
            version: text("/preconditions/resourceVersion"),
        })
    }
}

/// Whether a state that is being deleted can go: nothing holds it, and its time is over.
pub(super) fn may_go(value: &Value) -> bool {
    object::finalizers(value).next().is_none()
        && value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}

impl Store {
    /// Deletes an object, or begins to.
    ///
    /// # Errors
    /// As the API server refuses it.
    pub fn delete(
        &mut self,
        address: &Address,
        deletion: &Deletion,
    ) -> Result<Arc<Object>, Refusal> {
        let old = self.existing(address)?;
        check_preconditions(&old, deletion)?;
        let kind = self.kinds.get(address.kind).clone();
        let mut value = old.value.clone();
        set_finalizers(&mut value, deletion.propagation);
        let seconds = seconds_to_end(&kind, &old.value, deletion.grace);
        if object::is_deleting(&value) {
            let left = value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            // only ever sooner
            if seconds < left {
                value["metadata"]["deletionGracePeriodSeconds"] = seconds.into();
                value["metadata"]["deletionTimestamp"] = self.now_after(seconds).into();
            }
        } else {
            value["metadata"]["deletionTimestamp"] = self.now_after(seconds).into();
            value["metadata"]["deletionGracePeriodSeconds"] = seconds.into();
            if let Some(generation) = value["metadata"]["generation"].as_i64() {
                value["metadata"]["generation"] = generation.saturating_add(1).into();
            }
        }
        if may_go(&value) {
            return Ok(self.remove(&old, value));
        }
        value["metadata"]["resourceVersion"] = old.version.to_string().into();
        if value == old.value {
            return Ok(old);
        }
        let (address, uid) = (old.address.clone(), old.uid.clone());
        Ok(self.put(address, uid, Verb::Modified, Some(old), value))
    }

    /// Removes an object; the last that is seen of it is its stored state.
    pub(super) fn remove(&mut self, old: &Arc<Object>, last: Value) -> Arc<Object> {
        let kind = self.kinds.get(old.address.kind);
        if kind.kind == "CustomResourceDefinition" {
            let crd = old.value.clone();
            for id in self.kinds.define(&crd) {
                self.kinds.serve(id, false);
            }
        }
        let (address, uid) = (old.address.clone(), old.uid.clone());
        self.put(address.clone(), uid.clone(), Verb::Deleted, Some(old.clone()), old.value.clone());
        Arc::new(Object::new(address, uid, old.version, last))
    }
}

fn check_preconditions(old: &Object, deletion: &Deletion) -> Result<(), Refusal> {
    let differs = |wanted: &Option<String>, found: &str| {
        wanted.as_deref().is_some_and(|wanted| wanted != found)
    };
    let version = old.version.to_string();
    for (what, wanted, found) in [
        ("UID", &deletion.uid, &*old.uid),
        ("ResourceVersion", &deletion.version, version.as_str()),
    ] {
        if differs(wanted, found) {
            return Err(Refusal::conflict(format!(
                "Operation cannot be fulfilled: Precondition failed: {what} in precondition: {}, \
                 {what} in object meta: {found}",
                wanted.as_deref().unwrap_or_default()
            )));
        }
    }
    Ok(())
}

/// The finalizers that a propagation policy asks for.
fn set_finalizers(value: &mut Value, propagation: Option<Propagation>) {
    let wanted = match propagation {
        None => return,
        Some(Propagation::Background) => None,
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
    };
    let others = object::finalizers(value).filter(|name| *name != FOREGROUND && *name != ORPHAN);
    let finalizers: Vec<String> = others.chain(wanted).map(str::to_owned).collect();
    if finalizers.is_empty() {
        super::store::remove(&mut value["metadata"], "finalizers");
    } else {
        value["metadata"]["finalizers"] = json!(finalizers);
    }
}

/// Seconds that an object has to end: only a pod that may run somewhere has any.
fn seconds_to_end(kind: &Kind, value: &Value, asked: Option<i64>) -> i64 {
    let ended = matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let scheduled = value["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    if !kind.graceful || ended || !scheduled {
        return 0;
    }
    let own = value["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    asked.unwrap_or(own).max(0)
}
