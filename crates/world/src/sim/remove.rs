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

/// What a deletion has to do with an object's time to end.
enum Time {
    /// The object is given this much, or what it was given is shortened.
    Given(i64),
    /// It is running.
    Running,
    /// There is none, or it is over.
    None,
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
        let mut old = self.existing(address)?;
        check_preconditions(&old, deletion)?;
        let kind = self.kinds.get(address.kind).clone();
        let mut value = old.value.clone();
        match time_to_end(&kind, &old.value, deletion.grace) {
            // nothing of it can be changed any more but the time
            Time::Running => return Ok(old),
            Time::Given(seconds) => {
                if !object::is_deleting(&value) {
                    count_generation(&mut value);
                }
                value["metadata"]["deletionTimestamp"] = self.now_after(seconds).into();
                value["metadata"]["deletionGracePeriodSeconds"] = seconds.into();
                set_finalizers(&kind, &mut value, deletion.propagation);
                // this is written even where the object goes at once
                old = self.put(address.clone(), old.uid.clone(), Verb::Modified, Some(old), value);
                if !may_go(&old.value) {
                    return Ok(old);
                }
            }
            Time::None => {
                set_finalizers(&kind, &mut value, deletion.propagation);
                if object::finalizers(&value).next().is_some() {
                    if !object::is_deleting(&value) {
                        count_generation(&mut value);
                        value["metadata"]["deletionTimestamp"] = self.now_after(0).into();
                    }
                    value["metadata"]["deletionGracePeriodSeconds"] = 0.into();
                    if value == old.value {
                        return Ok(old);
                    }
                    let uid = old.uid.clone();
                    return Ok(self.put(address.clone(), uid, Verb::Modified, Some(old), value));
                }
            }
        }
        Ok(self.remove(&old))
    }

    /// Removes an object; the last that is seen of it is its stored state.
    pub(super) fn remove(&mut self, old: &Arc<Object>) -> Arc<Object> {
        let kind = self.kinds.get(old.address.kind);
        if kind.kind == "CustomResourceDefinition" {
            let crd = old.value.clone();
            for id in self.kinds.define(&crd) {
                self.kinds.serve(id, false);
            }
        }
        let (address, uid) = (old.address.clone(), old.uid.clone());
        self.put(address, uid, Verb::Deleted, Some(old.clone()), old.value.clone())
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

/// The finalizers that a propagation policy asks for; without one, those that are there, or what the
/// kind asks for.
fn set_finalizers(kind: &Kind, value: &mut Value, propagation: Option<Propagation>) {
    let has = |wanted: &str| object::finalizers(value).any(|name| name == wanted);
    let wanted = match propagation {
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
        None if has(FOREGROUND) || has(ORPHAN) => return,
        None if kind.orphans() => Some(ORPHAN),
        Some(Propagation::Background) | None => None,
    };
    let others = object::finalizers(value).filter(|name| *name != FOREGROUND && *name != ORPHAN);
    let finalizers: Vec<String> = others.chain(wanted).map(str::to_owned).collect();
    if finalizers.is_empty() {
        super::write::remove(&mut value["metadata"], "finalizers");
    } else if !object::finalizers(value).eq(finalizers.iter().map(String::as_str)) {
        value["metadata"]["finalizers"] = json!(finalizers);
    }
}

fn count_generation(value: &mut Value) {
    if let Some(generation) = value["metadata"]["generation"].as_i64().filter(|it| *it > 0) {
        value["metadata"]["generation"] = generation.saturating_add(1).into();
    }
}

/// Seconds that an object has to end: only a pod that may run somewhere has more than none.
fn time_to_end(kind: &Kind, value: &Value, asked: Option<i64>) -> Time {
    if !kind.graceful {
        return Time::None;
    }
    let asked = asked.map(|seconds| if seconds < 0 { 1 } else { seconds });
    if object::is_deleting(value) {
        let left = value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        return match asked {
            _ if left == 0 => Time::None,
            // only ever sooner
            Some(seconds) if seconds < left => Time::Given(seconds),
            Some(_) | None => Time::Running,
        };
    }
    let ended = matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let scheduled = value["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let own = value["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    Time::Given(match asked.unwrap_or(own) {
        _ if ended || !scheduled => 0,
        seconds => seconds.max(0),
    })
}
