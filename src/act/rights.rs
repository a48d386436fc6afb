//! Whether the user who created an AppWrapper may still create what it wraps.
//!
//! The webhook asks when the AppWrapper is created; hours in a queue may lie between that and the
//! moment at which its components are. So it is asked again before each creation, with everything that
//! is known of the user, and the answer is believed for a few seconds.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::core::ApiResource;

use super::create::{fatal, transient};
use crate::api::Requester;
use crate::clock::Clock;
use crate::observe::assemble::Wrapper;
use crate::recent::Recent;
use crate::snapshot::CreationFailure;
use crate::webhook::access::review::{Access, may};

/// How long an answer is believed. The API server's own view of roles lags behind by less.
const ANSWERED_FOR: Duration = Duration::from_secs(10);
/// The most answers that are remembered.
const ANSWERS_MAX: usize = 1_000;

/// Asks the API server, and remembers for a while what it said.
#[derive(Debug)]
pub struct Rights(Recent<(Requester, Access), bool>);

/// What is asked about the requester of an AppWrapper.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Whether it must be allowed to create each component.
    pub checked: bool,
    /// Whether there must be one.
    pub required: bool,
}

impl Rights {
    /// Remembers nothing yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Recent::new(clock, ANSWERS_MAX))
    }

    /// Whether the requester of an AppWrapper may create an object of a resource in its namespace.
    ///
    /// # Errors
    /// It may not, which is final; or that cannot be told for now.
    pub async fn check(
        &self,
        client: &Client,
        wrapper: &Wrapper,
        resource: &ApiResource,
        asked: Asked,
    ) -> Result<(), CreationFailure> {
        let Some(requester) = &wrapper.spec.requester else {
            return if asked.required { Err(fatal(NO_REQUESTER)) } else { Ok(()) };
        };
        if !asked.checked {
            return Ok(());
        }
        let access = Access {
            verb: "create",
            namespace: Some(wrapper.namespace.clone()),
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
        };
        let key = (requester.clone(), access);
        let allowed = match self.0.get(&key) {
            Some(known) => known,
            None => {
                let (requester, access) = &key;
                let asked = may(client, requester, access.clone()).await;
                let allowed = asked.map_err(|error| transient(error.to_string()))?;
                // a larger one was not written by the webhook
                if requester.bytes() <= Requester::BYTES_MAX {
                    self.0.put(key, allowed, ANSWERED_FOR);
                }
                allowed
            }
        };
        if allowed { Ok(()) } else { Err(fatal(denied(requester, wrapper, resource))) }
    }
}

const NO_REQUESTER: &str = "spec.requester is not set, and admission.requireRequester of the \
    configuration is true: the AppWrapper was created while the admission webhook was off; delete it \
    and create it again";

/// In the words of the API server.
fn denied(requester: &Requester, wrapper: &Wrapper, resource: &ApiResource) -> String {
    format!(
        "User {:?} cannot create resource {:?} in API group {:?} in the namespace {:?}",
        crate::limits::shortened(&requester.username),
        resource.plural,
        resource.group,
        wrapper.namespace
    )
}
