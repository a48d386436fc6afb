//! The three CustomResourceDefinitions, made from the types. `crds/` holds what this prints.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::api::{AppWrapper, NodeSuspicion, RetryPolicy};
use crate::status;

/// The definitions: `AppWrapper`, `RetryPolicy`, `NodeSuspicion`.
#[must_use]
pub fn all() -> [CustomResourceDefinition; 3] {
    let mut appwrapper = AppWrapper::crd();
    // The Go project's schema accepts an object without `spec`, and so must ours.
    for version in &mut appwrapper.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(schema) = schema {
            schema.required = None;
            let fields = schema.properties.iter_mut().flatten();
            fields.filter(|(name, _)| *name == "status").for_each(|(_, it)| status::bound(it));
        }
    }
    [appwrapper, RetryPolicy::crd(), NodeSuspicion::crd()]
}

/// The definitions as YAML, one document each.
///
/// # Errors
/// Where a definition cannot be written as YAML.
pub fn yaml() -> Result<String, serde_saphyr::ser::Error> {
    let mut text = String::new();
    for definition in all() {
        text += "---\n";
        text += &serde_saphyr::to_string(&definition)?;
    }
    Ok(text)
}
