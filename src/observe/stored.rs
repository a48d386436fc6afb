//! An AppWrapper as the watch shows it: read, or with the reason why it cannot be.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::assemble::Wrapper;
use super::cache::Key;
use super::seen::Seen;
use crate::api::{AppWrapper, AppWrapperSpec, AppWrapperStatus, keys};

/// An AppWrapper as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    meta: ObjectMeta,
    /// What it says, or why that cannot be read.
    pub wrapper: Result<Arc<Wrapper>, String>,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    spec: AppWrapperSpec,
    #[serde(default)]
    status: Option<AppWrapperStatus>,
}

impl From<Seen> for Stored {
    fn from(seen: Seen) -> Self {
        let wrapper = serde_json::from_str::<Body>(seen.raw.get())
            .map(|body| {
                Arc::new(Wrapper::new(&seen.meta, body.spec, body.status.unwrap_or_default()))
            })
            .map_err(|error| error.to_string());
        // What is looked up by is enough; the rest is in the wrapper.
        let meta = ObjectMeta {
            namespace: seen.meta.namespace,
            name: seen.meta.name,
            uid: seen.meta.uid,
            resource_version: seen.meta.resource_version,
            ..ObjectMeta::default()
        };
        Self { meta, wrapper }
    }
}

impl Stored {
    /// Its namespace and name.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            namespace: self.meta.namespace.clone().unwrap_or_default(),
            name: self.meta.name.clone().unwrap_or_default(),
        }
    }

    /// Its UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    /// Its resource version.
    #[must_use]
    pub fn version(&self) -> &str {
        self.meta.resource_version.as_deref().unwrap_or_default()
    }
}

impl Wrapper {
    /// An AppWrapper from its parts.
    #[must_use]
    pub fn new(meta: &ObjectMeta, spec: AppWrapperSpec, status: AppWrapperStatus) -> Self {
        let queue = meta.labels.as_ref().and_then(|labels| labels.get(keys::QUEUE_NAME));
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            annotations: tuning(meta),
            queue: queue.filter(|name| !name.is_empty()).cloned(),
            spec,
            status,
            components: vec![],
            policies: std::sync::Arc::default(),
        }
        .inspected()
    }

    /// Whether this controller is the one that looks after it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.other_manager().is_none()
    }

    /// `spec.managedBy`, where that is another controller.
    #[must_use]
    pub fn other_manager(&self) -> Option<&str> {
        self.spec.managed_by.as_deref().filter(|name| *name != keys::CONTROLLER_NAME)
    }
}

/// The annotations that tune an AppWrapper; the others may be large, and nobody asks for them.
fn tuning(meta: &ObjectMeta) -> BTreeMap<String, String> {
    let all = meta.annotations.iter().flatten();
    let ours = all.filter(|(key, _)| key.starts_with(keys::ANNOTATION_PREFIX));
    ours.map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Resource for Stored {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        AppWrapper::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        AppWrapper::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <AppWrapper as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        AppWrapper::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stored(value: &Value) -> Stored {
        serde_json::from_str::<Seen>(&value.to_string()).unwrap().into()
    }

    #[test]
    fn an_object_that_cannot_be_read_says_why_and_keeps_its_name() {
        let good = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"components": []}});
        assert!(stored(&good).wrapper.is_ok());
        for (path, value, want) in [
            ("/spec", json!({"components": 3}), "invalid type"),
            ("/status", json!({"phase": "Paused"}), "unknown phase"),
        ] {
            let mut bad = good.clone();
            bad[&path[1..]] = value;
            let bad = stored(&bad);
            assert_eq!(bad.key().name, "a");
            assert!(bad.wrapper.as_ref().unwrap_err().contains(want), "{:?}", bad.wrapper);
        }
    }
}
