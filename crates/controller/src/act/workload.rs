//! Activates and deactivates the Workload of an AppWrapper, in one update that is guarded by its resource version. An
//! annotation in the same update says that it was the controller that deactivated it, and for which attempt.

use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, Request};
use kube::{Client, Resource};
use serde_json::{Value, json};

use super::Error;
use crate::api::keys;
use crate::observe::raw_object::RawObject;
use crate::snapshot::workload::Workload;

/// Sets `spec.active`; `attempt` is written beside a deactivation.
///
/// # Errors
/// 409 if another client wrote in between, 404 where it is gone, 403 or 422 where it is not allowed.
pub async fn switch(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    workload: &Workload,
    active: bool,
    attempt: i32,
) -> Result<(), Error> {
    let name = &workload.name;
    let what = || format!("set spec.active of Workload {name} to {active}");
    let mark = if active { Value::Null } else { attempt.to_string().into() };
    let patch = json!({
        "metadata": {
            "uid": workload.uid, "resourceVersion": workload.version,
            "annotations": {keys::DEACTIVATED_FOR: mark},
        },
        "spec": {"active": active},
    });
    let request = Request::new(RawObject::url_path(resource, Some(namespace)))
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .map_err(|error| Error::new(what(), kube::Error::BuildRequest(error)))?;
    let written = client.request_text(request).await;
    written.map(drop).map_err(|error| Error::new(what(), error))
}
