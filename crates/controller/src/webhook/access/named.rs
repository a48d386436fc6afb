//! Whether what an AppWrapper names exists.

use std::error::Error;

use kube::Client;
use kube::api::{Api, DynamicObject, GetParams, Request};
use kube::core::{ApiResource, GroupVersionKind};

use super::review::in_time;
use crate::api::{RetryPolicy, keys};
use crate::discovery;
use crate::kinds::Reference;
use crate::tuning::{Severity, names};
use crate::webhook::authorize::{AccessError, Named, NamedKind};
use crate::webhook::validate::Finding;

/// Whether it exists. Of a kind that is not served nothing does.
///
/// # Errors
/// Where that cannot be told.
pub(super) async fn exists(
    client: &Client,
    namespace: &str,
    named: &Named,
) -> Result<bool, AccessError> {
    let name = &named.name;
    match named.kind {
        NamedKind::RetryPolicy => {
            let policies: Api<RetryPolicy> = Api::all(client.clone());
            let what = format!("get RetryPolicy {name}");
            in_time(&what, policies.get_metadata_opt(name)).await.map(|found| found.is_some())
        }
        NamedKind::LocalQueue => {
            let find = discovery::find_in_group(client, keys::KUEUE_GROUP, "LocalQueue");
            let Some((resource, _)) = in_time("discover LocalQueues", find).await? else {
                return Ok(false);
            };
            let queues: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), namespace, &resource);
            let what = format!("get LocalQueue {name}");
            in_time(&what, queues.get_metadata_opt(name)).await.map(|found| found.is_some())
        }
    }
}

/// The text of an object; none where there is no such object, or its kind is not served.
///
/// # Errors
/// Where it cannot be read.
pub(super) async fn text(
    client: &Client,
    namespace: &str,
    reference: &Reference,
) -> Result<Option<String>, AccessError> {
    let Reference { api_version, kind, plural, namespaced, name } = reference;
    if !names::is_subdomain(name) {
        return Ok(None);
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    let api: Api<DynamicObject> = if *namespaced {
        Api::namespaced_with(client.clone(), namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    };
    let what = format!("get {kind} {name}");
    let failed = |source: Box<dyn Error + Send + Sync>| AccessError {
        message: what.clone(),
        source: Some(source),
    };
    let request = Request::new(api.resource_url()).get(name, &GetParams::default());
    let request = request.map_err(|error| failed(Box::new(error)))?;
    match in_time(&what, client.request_text(request)).await {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the API server said that there is no such object or path.
fn is_not_found(error: &AccessError) -> bool {
    let source = error.source.as_deref().and_then(|source| source.downcast_ref::<kube::Error>());
    matches!(source, Some(kube::Error::Api(status)) if status.code == 404)
}

/// What is said of what does not exist.
pub(super) fn warning(namespace: &str, named: &Named) -> Finding {
    let message = match named.kind {
        NamedKind::RetryPolicy => "RetryPolicy not found: it is ignored until it exists".to_owned(),
        NamedKind::LocalQueue => format!(
            "LocalQueue not found in namespace {namespace}: the AppWrapper is not admitted until it \
             exists"
        ),
    };
    Finding {
        severity: Severity::Warning,
        field: named.kind.field(),
        value: Some(named.name.clone()),
        message,
    }
}
