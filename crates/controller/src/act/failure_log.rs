//! Reads the log of a failed container and keeps its end in a ConfigMap; see [`crate::failure_log`].

use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{GetParams, LogParams};
use kube::client::Body;
use kube::core::{ApiResource, Request, Status};
use kube::{Client, Resource};
use serde_json::json;

use super::{Error, create_once, delete};
use crate::api::keys;
use crate::config::FailureLogs;
use crate::failure_log::{LOG_KEY, READ_BYTES_MAX, Wanted, config_map, excerpt};
use crate::kinds::{OWNER_API_VERSION, OWNER_KIND};
use crate::observe::assemble::Wrapper;
use crate::observe::live;
use crate::observe::raw_object::RawObject;

/// The most bytes that are read of an answer that is no log.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Keeps the end of a log. One that is empty is not kept; one that is there already is as good.
///
/// # Errors
/// It cannot be read, or cannot be stored.
pub async fn keep(
    client: &Client,
    wrapper: &Wrapper,
    wanted: &Wanted,
    settings: &FailureLogs,
) -> Result<(), Error> {
    let Some(name) = config_map(&wanted.pod_uid) else { return Ok(()) };
    let lines = settings.lines.into();
    let log = read(client, &wrapper.namespace, (&wanted.pod, &wanted.container), lines).await?;
    let log = excerpt(&log, settings);
    // another pod may have got the name before its log was read
    if log.is_empty() || !is_there(client, &wrapper.namespace, wanted).await? {
        return Ok(());
    }
    create_once(client, wrapper, &name, &object(wrapper, wanted, &name, &log)).await
}

/// Whether the name of a pod still is that of the pod whose log is wanted.
async fn is_there(client: &Client, namespace: &str, wanted: &Wanted) -> Result<bool, Error> {
    let resource = ApiResource::erase::<Pod>(&());
    let found = get(client, &resource, namespace, &wanted.pod).await?;
    Ok(found.is_some_and(|pod| pod.meta.uid.as_deref() == Some(wanted.pod_uid.as_str())))
}

/// The AppWrapper owns it without controlling it, so that it is deleted with the AppWrapper and is none of its
/// components.
fn object(wrapper: &Wrapper, wanted: &Wanted, name: &str, log: &str) -> serde_json::Value {
    let owner = json!({
        "apiVersion": OWNER_API_VERSION, "kind": OWNER_KIND, "name": wrapper.name, "uid": wrapper.uid,
    });
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": wrapper.namespace, "ownerReferences": [owner],
            "labels": {keys::FAILURE_LOG: wrapper.name},
        },
        "immutable": true,
        "data": {
            "attempt": wanted.attempt.to_string(), "pod": wanted.pod, "container": wanted.container,
            LOG_KEY: log,
        },
    })
}

/// The last lines of the log of a container, at most [`READ_BYTES_MAX`]. They may be any bytes.
///
/// # Errors
/// It cannot be read.
pub async fn read(
    client: &Client,
    namespace: &str,
    (pod, container): (&str, &str),
    lines: i64,
) -> Result<Vec<u8>, Error> {
    let what = || format!("read the log of Pod/{pod}");
    let params = LogParams {
        container: Some(container.to_owned()),
        tail_lines: Some(lines),
        limit_bytes: Some(i64::try_from(READ_BYTES_MAX).unwrap_or(i64::MAX)),
        ..LogParams::default()
    };
    let request = Request::new(Pod::url_path(&(), Some(namespace)))
        .logs(pod, &params)
        .map_err(|error| Error::new(what(), kube::Error::BuildRequest(error)))?;
    let answer = client.send(request.map(Body::from)).await;
    let (head, body) = answer.map_err(|error| Error::new(what(), error))?.into_parts();
    let most = if head.status.is_success() { READ_BYTES_MAX } else { ERROR_BYTES_MAX };
    let body = Limited::new(body, most).collect().await;
    let body = body.map_err(|error| Error::new(what(), kube::Error::Service(error)))?.to_bytes();
    if head.status.is_success() {
        return Ok(body.into());
    }
    let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        let text = head.status.canonical_reason().unwrap_or_default();
        Status::failure(text, text)
    });
    let status = Status { code: head.status.as_u16(), ..status };
    Err(Error::new(what(), kube::Error::Api(status.into())))
}

/// Deletes the ConfigMap of an earlier log, where the AppWrapper owns it.
///
/// # Errors
/// It cannot be read or deleted.
pub async fn expire(client: &Client, wrapper: &Wrapper, name: &str) -> Result<(), Error> {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let Some(found) = get(client, &resource, &wrapper.namespace, name).await? else {
        return Ok(());
    };
    let owners = found.meta.owner_references.as_deref().unwrap_or_default();
    let (Some(uid), true) = (&found.meta.uid, owners.iter().any(|owner| owner.uid == wrapper.uid))
    else {
        return Ok(());
    };
    let how = delete::How::Graceful;
    delete::delete(client, &resource, &wrapper.namespace, name, uid, how).await?;
    Ok(())
}

/// An object by its name; none where there is none.
async fn get(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<Option<RawObject>, Error> {
    let what = || format!("get {} {name}", resource.kind);
    let request = Request::new(RawObject::url_path(resource, Some(namespace)))
        .get(name, &GetParams::default())
        .map_err(|error| Error::new(what(), kube::Error::BuildRequest(error)))?;
    match client.request(request).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if live::code(&error) == Some(404) => Ok(None),
        Err(error) => Err(Error::new(what(), error)),
    }
}
