//! Reads the log of a failed container and keeps its end in a ConfigMap; see [`crate::failure_log`].

use std::collections::VecDeque;

use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::LogParams;
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
/// A container runtime splits lines at 16 KiB: so many have fewer bytes than [`READ_BYTES_MAX`].
const LINES_IN_LIMIT: i64 = 63;

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
    let of = (wanted.pod.as_str(), wanted.container.as_str());
    let log = last_lines(client, &wrapper.namespace, of, settings.lines.into()).await?;
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
    let found = find(client, &resource, namespace, &wanted.pod).await?;
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

/// The last lines of the log of a container, and whether there are more: at most the last [`READ_BYTES_MAX`] of them. They may
/// be any bytes. As much is read as the API server sends.
///
/// # Errors
/// It cannot be read.
pub async fn read(
    client: &Client,
    namespace: &str,
    of: (&str, &str),
    lines: i64,
) -> Result<(Vec<u8>, bool), Error> {
    let mut body = log(client, namespace, of, lines, None).await?;
    let mut end = End::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unread(of, error))?;
        // trailers are no part of it
        if let Ok(data) = frame.into_data() {
            end.add(&data);
        }
    }
    Ok(end.whole_lines())
}

/// The last bytes of a log.
#[derive(Default)]
struct End {
    bytes: VecDeque<u8>,
    /// There were more before them.
    is_cut: bool,
}

impl End {
    fn add(&mut self, data: &[u8]) {
        self.bytes.extend(data);
        let over = self.bytes.len().saturating_sub(READ_BYTES_MAX);
        self.bytes.drain(..over);
        self.is_cut |= over > 0;
    }

    /// Without the first line where it may be a part of one, unless it is the only one.
    fn whole_lines(self) -> (Vec<u8>, bool) {
        let mut bytes = Vec::from(self.bytes);
        let first = bytes.iter().position(|byte| *byte == b'\n').filter(|_| self.is_cut);
        if let Some(first) = first.filter(|first| first + 1 < bytes.len()) {
            bytes.drain(..=first);
        }
        (bytes, self.is_cut)
    }
}

/// The last lines of the log of a container, at most twice [`READ_BYTES_MAX`] of which are read. A kubelet with a limit sends the
/// beginning of the lines and leaves out their end: where they are too long, only the last few are read.
///
/// # Errors
/// It cannot be read.
async fn last_lines(
    client: &Client,
    namespace: &str,
    of: (&str, &str),
    lines: i64,
) -> Result<Vec<u8>, Error> {
    let read = limited(client, namespace, of, lines).await?;
    if read.len() < READ_BYTES_MAX || lines <= LINES_IN_LIMIT {
        return Ok(read);
    }
    limited(client, namespace, of, LINES_IN_LIMIT).await
}

/// The first [`READ_BYTES_MAX`] of the last lines.
///
/// # Errors
/// It cannot be read.
async fn limited(
    client: &Client,
    namespace: &str,
    of: (&str, &str),
    lines: i64,
) -> Result<Vec<u8>, Error> {
    let limit = i64::try_from(READ_BYTES_MAX).unwrap_or(i64::MAX);
    let body = log(client, namespace, of, lines, Some(limit)).await?;
    let read = Limited::new(body, READ_BYTES_MAX).collect().await;
    Ok(read.map_err(|error| unread(of, kube::Error::Service(error)))?.to_bytes().into())
}

/// The last lines of the log of a container, as the API server sends them.
///
/// # Errors
/// It cannot be read.
async fn log(
    client: &Client,
    namespace: &str,
    of @ (pod, container): (&str, &str),
    lines: i64,
    limit_bytes: Option<i64>,
) -> Result<Body, Error> {
    let params = LogParams {
        container: Some(container.to_owned()),
        tail_lines: Some(lines),
        limit_bytes,
        ..LogParams::default()
    };
    let request = Request::new(Pod::url_path(&(), Some(namespace)))
        .logs(pod, &params)
        .map_err(|error| unread(of, kube::Error::BuildRequest(error)))?;
    let answer = client.send(request.map(Body::from)).await;
    let (head, body) = answer.map_err(|error| unread(of, error))?.into_parts();
    if head.status.is_success() {
        return Ok(body);
    }
    let said = Limited::new(body, ERROR_BYTES_MAX).collect().await;
    let said = said.map_err(|error| unread(of, kube::Error::Service(error)))?.to_bytes();
    let status = serde_json::from_slice::<Status>(&said).unwrap_or_else(|_| {
        let text = head.status.canonical_reason().unwrap_or_default();
        Status::failure(text, text)
    });
    let status = Status { code: head.status.as_u16(), ..status };
    Err(unread(of, kube::Error::Api(status.into())))
}

fn unread((pod, _): (&str, &str), error: kube::Error) -> Error {
    Error::new(format!("read the log of Pod/{pod}"), error)
}

/// Deletes the ConfigMap of an earlier log, where the AppWrapper owns it.
///
/// # Errors
/// It cannot be read or deleted.
pub async fn expire(client: &Client, wrapper: &Wrapper, name: &str) -> Result<(), Error> {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let Some(found) = find(client, &resource, &wrapper.namespace, name).await? else {
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
async fn find(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<Option<RawObject>, Error> {
    let read = live::get(client, resource, Some(namespace), name).await;
    live::found(read).map_err(|error| Error::new(format!("get {}/{name}", resource.kind), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An API server that sends the last lines of a log from their beginning up to the limit, as a kubelet does.
    fn server(log: Vec<u8>) -> Client {
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let number = |name: &str| {
                let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
                let pair = pairs.find(|(key, _)| *key == name);
                pair.map(|(_, value)| value.parse::<usize>().unwrap())
            };
            let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
            let first = lines.len().saturating_sub(number("tailLines").unwrap_or(usize::MAX));
            let mut sent = lines[first..].concat();
            sent.truncate(number("limitBytes").unwrap_or(usize::MAX));
            async move { Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(sent))) }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn the_end_of_a_log_is_read_however_long_its_lines_are() {
        // lines of a log, their length, how many are asked for; the first that is kept, and the first that is shown
        for (all, length, asked, kept, shown) in [
            (10, 20, 5, 5, 5),
            (100, 16 << 10, 63, 37, 37),
            (100, 16 << 10, 100, 37, 37),
            (10_000, 200, 10_000, 9_937, 4_758),
        ] {
            let width = length - 1;
            let lines: Vec<String> = (0..all).map(|n: usize| format!("{n:0>width$}\n")).collect();
            let log = lines.concat();
            let client = server(log.into_bytes());
            let numbers = |log: &[u8]| -> Vec<usize> {
                String::from_utf8_lossy(log).lines().map(|line| line.parse().unwrap()).collect()
            };
            let read_by_us = last_lines(&client, "ns", ("p", "c"), asked).await.unwrap();
            assert_eq!(numbers(&read_by_us), (kept..all).collect::<Vec<_>>());
            let (read_by_users, is_cut) = read(&client, "ns", ("p", "c"), asked).await.unwrap();
            assert_eq!(numbers(&read_by_users), (shown..all).collect::<Vec<_>>());
            let whole = usize::try_from(asked).unwrap() * length <= READ_BYTES_MAX;
            assert_eq!(is_cut, !whole, "{all} lines of {length} bytes");
        }
    }

    #[test]
    fn no_more_of_a_log_is_held_than_its_end() {
        let mut end = End::default();
        for _ in 0..3 * READ_BYTES_MAX / 1000 {
            end.add(&[b'x'; 1000]);
            assert!(end.bytes.len() <= READ_BYTES_MAX);
        }
        let (bytes, is_cut) = end.whole_lines();
        assert_eq!((bytes.len(), is_cut), (READ_BYTES_MAX, true), "its only line is shown");
    }
}
