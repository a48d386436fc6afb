//! An AppWrapper as the watch shows it: read, or with the reason why it cannot be.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::assemble::Wrapper;
use super::cache::Key;
use super::seen::Seen;
use crate::api::{AppWrapper, AppWrapperSpec, AppWrapperStatus, keys};
use crate::status::{self, Evidence, Flaws, Read};

/// An AppWrapper as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    meta: ObjectMeta,
    /// What it says, or why that cannot be read.
    pub wrapper: Result<Arc<Wrapper>, String>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(default)]
    spec: AppWrapperSpec,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

impl From<Seen> for Stored {
    fn from(seen: Seen) -> Self {
        let wrapper = serde_json::from_str::<Body<'_>>(seen.raw.get())
            .map(|body| Arc::new(wrapper(&seen, body)))
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

/// The status is whatever was written into it: it is read as far as it can be.
fn wrapper(seen: &Seen, Body { spec, status }: Body<'_>) -> Wrapper {
    let finalizers = seen.meta.finalizers.iter().flatten();
    let evidence = Evidence {
        deleting: seen.meta.deletion_timestamp.is_some(),
        suspend: spec.suspend,
        finalizer: finalizers.into_iter().any(|name| name == keys::FINALIZER),
    };
    let raw = status.map(RawValue::get);
    let Read { status, flaws } = status::read(raw, evidence);
    let mut wrapper = Wrapper::new(&seen.meta, spec, status);
    wrapper.flaws = flaws;
    wrapper.rest_bytes = seen.raw.get().len() - raw.map_or(0, str::len);
    wrapper.name_forged_components();
    wrapper
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
            annotations: meta.annotations.clone().unwrap_or_default(),
            queue: queue.filter(|name| !name.is_empty()).cloned(),
            spec,
            status,
            components: vec![],
            policies: std::sync::Arc::default(),
            flaws: Flaws::default(),
            rest_bytes: 0,
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
        let mut bad = good.clone();
        bad["spec"] = json!({"components": 3});
        let bad = stored(&bad);
        assert_eq!(bad.key().name, "a");
        assert!(bad.wrapper.as_ref().unwrap_err().contains("invalid type"), "{:?}", bad.wrapper);
    }
}
