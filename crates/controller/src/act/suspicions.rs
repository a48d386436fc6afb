//! Writes `NodeSuspicion` objects, and the event of a Node that becomes suspect.

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::core::Request;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use serde_json::json;

use super::{Error, events};
use crate::api::{NodeSuspicion, NodeSuspicionSpec, SuspectEffect};
use crate::observe::raw_object::RawObject;
use crate::observe::suspicions::Stored;

/// Reason of the event.
pub const NODE_SUSPECTED: &str = "NodeSuspected";

/// Creates the object of a node, or replaces the one that is stored.
///
/// # Errors
/// 409 if somebody else wrote in between, 404 if the object is gone or the kind is not served.
pub async fn write(
    client: &Client,
    node: &str,
    spec: &NodeSuspicionSpec,
    stored: Option<&Stored>,
) -> Result<Stored, Error> {
    let what = || format!("write NodeSuspicion {node}");
    let build = |error| Error::new(what(), kube::Error::BuildRequest(error));
    let mut object = json!({
        "apiVersion": NodeSuspicion::api_version(&()), "kind": NodeSuspicion::kind(&()),
        "metadata": {"name": node}, "spec": spec,
    });
    let (all, params) = (Request::new(NodeSuspicion::url_path(&(), None)), PostParams::default());
    let request = match stored {
        None => all.create(&params, object.to_string().into_bytes()).map_err(build)?,
        Some(stored) => {
            object["metadata"]["uid"] = stored.uid.as_str().into();
            object["metadata"]["resourceVersion"] = stored.version.as_str().into();
            all.replace(node, &params, object.to_string().into_bytes()).map_err(build)?
        }
    };
    let seen: RawObject =
        client.request(request).await.map_err(|error| Error::new(what(), error))?;
    Ok(Stored::of(&seen))
}

/// Deletes the object of a node, as it was seen.
///
/// # Errors
/// 409 if somebody else wrote in between, 404 if it is gone.
pub async fn delete(client: &Client, node: &str, stored: &Stored) -> Result<(), Error> {
    let api: Api<NodeSuspicion> = Api::all(client.clone());
    let seen = Preconditions {
        uid: Some(stored.uid.clone()),
        resource_version: Some(stored.version.clone()),
    };
    let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::default() };
    let deleted = api.delete(node, &params).await;
    deleted.map(drop).map_err(|error| Error::new(format!("delete NodeSuspicion {node}"), error))
}

/// Tells of a Node that becomes suspect, in an event on the Node; whether it was accepted. No effect: too many others have
/// more points.
pub async fn tell(
    client: &Client,
    node: &str,
    spec: &NodeSuspicionSpec,
    effect: Option<SuspectEffect>,
) -> bool {
    let about = ObjectReference {
        api_version: Some(Node::api_version(&()).into_owned()),
        kind: Some(Node::kind(&()).into_owned()),
        name: Some(node.to_owned()),
        uid: Some(spec.node_uid.clone()),
        ..ObjectReference::default()
    };
    let what = match effect {
        Some(SuspectEffect::Prefer) => "prefer other nodes",
        Some(SuspectEffect::Require) => "require other nodes if those have room",
        None => "do not avoid it, since other nodes have more points and no more may be avoided",
    };
    let text = format!(
        "Failures of AppWrappers began on this node ({} points): pods of new attempts {what}; see \
         NodeSuspicion {node}",
        spec.score
    );
    let event = Event {
        type_: EventType::Warning,
        reason: NODE_SUSPECTED.to_owned(),
        note: Some(text),
        action: NODE_SUSPECTED.to_owned(),
        secondary: None,
    };
    let recorder = Recorder::new(client.clone(), Reporter::from(events::CONTROLLER));
    events::send(&recorder, &event, &about, &[]).await
}
