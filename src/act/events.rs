//! Kubernetes events. Made in the background: a sink that fails or blocks never holds up a decision.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use tokio::sync::mpsc;

use crate::api::AppWrapper;
use crate::decide::Warning;

/// Events that wait to be sent; more are dropped, with a line in the log.
const QUEUE: usize = 512;
/// The longest message that the API accepts is 1,024 bytes.
const MESSAGE_BYTES_MAX: usize = 1000;

/// Where events are handed in.
#[derive(Clone, Debug)]
pub struct Events(mpsc::Sender<Event>);

/// The object that an event is about.
#[derive(Clone, Debug)]
pub struct About<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

impl Events {
    /// Starts the task that sends events.
    #[must_use]
    pub fn start(client: Client) -> Self {
        let (sender, mut receiver) = mpsc::channel::<Event>(QUEUE);
        tokio::spawn(async move {
            while let Some(event) = receiver.recv().await {
                let namespace = event.metadata.namespace.clone().unwrap_or_default();
                let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
                if let Err(error) = events.create(&PostParams::default(), &event).await {
                    let reason = event.reason.as_deref();
                    tracing::warn!(%error, reason, "An event was not accepted.");
                }
            }
        });
        Self(sender)
    }

    /// Hands in an event of type Warning.
    pub fn warn(&self, about: &About<'_>, warning: &Warning, now: Timestamp) {
        if self.0.try_send(event(about, warning, now)).is_err() {
            tracing::warn!(reason = warning.reason, "An event was dropped: too many are waiting.");
        }
    }
}

fn event(about: &About<'_>, warning: &Warning, now: Timestamp) -> Event {
    let message = &warning.message;
    let time = Some(Time(now));
    Event {
        metadata: ObjectMeta {
            namespace: Some(about.namespace.to_owned()),
            generate_name: Some(format!("{}.", about.name)),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(AppWrapper::api_version(&()).into_owned()),
            kind: Some(AppWrapper::kind(&()).into_owned()),
            namespace: Some(about.namespace.to_owned()),
            name: Some(about.name.to_owned()),
            uid: Some(about.uid.to_owned()),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some(warning.reason.to_owned()),
        message: Some(message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned()),
        source: Some(EventSource { component: Some("appwrapper".to_owned()), host: None }),
        first_timestamp: time.clone(),
        last_timestamp: time,
        count: Some(1),
        ..Event::default()
    }
}
