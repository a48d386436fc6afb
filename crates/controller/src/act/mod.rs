//! Writes: components, pods, the finalizer, the status, events and what is known of suspect nodes. Each is safe to repeat.
//!
//! Nothing is deleted without the UID that it was seen with, and no AppWrapper is written without the
//! resource version that it was read with.

pub mod create;
pub mod delete;
pub mod events;
pub mod failure_log;
pub mod record;
pub mod rights;
pub mod suspicions;
pub mod workload;
pub mod wrapper;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::core::Request;
use kube::{Client, Resource};
use serde_json::Value;

use crate::client;
use crate::election::NotLeading;
use crate::observe::assemble::Wrapper;

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    /// What was being done.
    pub what: String,
    /// What happened.
    #[source]
    pub source: Box<kube::Error>,
    /// It was the deletion of a component or a pod.
    pub is_deletion: bool,
}

impl Error {
    fn new(what: impl Into<String>, source: impl Into<Box<kube::Error>>) -> Self {
        Self { what: what.into(), source: source.into(), is_deletion: false }
    }

    /// Of the deletion of a component or a pod.
    fn of_deletion(what: impl Into<String>, source: impl Into<Box<kube::Error>>) -> Self {
        Self { is_deletion: true, ..Self::new(what, source) }
    }

    /// What the API server said, without the debugging text that the client adds.
    #[must_use]
    pub fn said(&self) -> String {
        client::said(&self.source)
    }

    /// The HTTP status that the API server answered with, where it did.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        crate::observe::live::code(&self.source)
    }
}

impl Error {
    /// The API server refuses what was written however often it is tried: it is too large to be stored, or
    /// the definition does not take it.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.is_too_large() || self.code() == Some(422) && self.is_rejected_for_good()
    }

    /// The API server rejects the request however often it is made.
    #[must_use]
    pub fn is_rejected_for_good(&self) -> bool {
        client::is_rejected_for_good(&self.source)
    }

    /// The API server refuses the request, and may take it a moment later.
    #[must_use]
    pub fn is_refused_for_now(&self) -> bool {
        client::is_refused_for_now(&self.source)
    }

    /// A webhook that the API server calls does not answer.
    #[must_use]
    pub fn lacks_webhook(&self) -> bool {
        client::lacks_webhook(&self.source)
    }

    /// Whether the write was applied is not known: there was no answer, or one that does not tell. Where the API server asked
    /// not to be called, it has applied nothing. Where this replica has lost the Lease, the next leader decides anew.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        let is_fenced =
            matches!(&*self.source, kube::Error::Service(error) if error.is::<NotLeading>());
        !is_fenced
            && self.code().is_none_or(|code| code >= 500)
            && client::retry_after(&self.source).is_none()
            && !self.is_refusal()
    }

    /// The API server answered, and did not ask to wait: a write of another object may succeed.
    #[must_use]
    pub fn concerns_one_object(&self) -> bool {
        client::concerns_one_object(&self.source)
    }

    /// The object is too large to be stored, or to be sent.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        let said = self.said();
        let is_said = ["too large", "larger than max"].iter().any(|text| said.contains(text));
        self.code() == Some(413) || is_said
    }
}

/// Creates a ConfigMap in the namespace of an AppWrapper; one of its name that is there already is as good.
///
/// # Errors
/// It cannot be stored.
async fn create_once(
    client: &Client,
    wrapper: &Wrapper,
    name: &str,
    object: &Value,
) -> Result<(), Error> {
    let what = || format!("create ConfigMap {name}");
    let request = Request::new(ConfigMap::url_path(&(), Some(&wrapper.namespace)))
        .create(&PostParams::default(), object.to_string().into_bytes())
        .map_err(|error| Error::new(what(), kube::Error::BuildRequest(error)))?;
    let created = client.request_text(request).await.map(drop).map_err(|it| Error::new(what(), it));
    created.or_else(|error| if error.code() == Some(409) { Ok(()) } else { Err(error) })
}
