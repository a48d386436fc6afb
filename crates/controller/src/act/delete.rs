//! Deletes components and pods, each only if it still has the UID that it was seen with.

use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube::core::{ApiResource, Request};
use kube::{Client, Resource};

use super::Error;
use crate::mutations::{self, Mutation};
use crate::observe::live;
use crate::observe::raw_object::RawObject;

/// How an object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// In the ordinary way; what it owns follows in the background.
    Graceful,
    /// In the ordinary way; it stays until everything that it owns is gone, so that nothing in between
    /// makes a pod after it was seen to be gone.
    GracefulLast,
    /// With grace period 0.
    Forced,
    /// With grace period 0, and still after everything that it owns.
    ForcedLast,
}

/// Deletes an object; one that is gone, or is another of the same name, is as good.
///
/// # Errors
/// Where the API server refused or could not be asked.
pub async fn delete(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
    uid: &str,
    how: How,
) -> Result<(), Error> {
    let what = || format!("delete {}/{name}", resource.kind);
    let params = DeleteParams {
        grace_period_seconds: match how {
            How::Graceful | How::GracefulLast => None,
            How::Forced | How::ForcedLast => Some(0),
        },
        propagation_policy: Some(match how {
            How::Graceful | How::Forced => PropagationPolicy::Background,
            How::GracefulLast | How::ForcedLast => PropagationPolicy::Foreground,
        }),
        preconditions: (!mutations::is_present(Mutation::DeleteByName))
            .then(|| Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::default()
    };
    let request = Request::new(RawObject::url_path(resource, Some(namespace)))
        .delete(name, &params)
        .map_err(|error| Error::new(what(), kube::Error::BuildRequest(error)))?;
    match client.request_text(request).await {
        Ok(_) => Ok(()),
        // 404: gone. 409: another object has the name now, which is not ours to delete.
        Err(error) if matches!(live::code(&error), Some(404 | 409)) => Ok(()),
        Err(error) => Err(Error::new(what(), error)),
    }
}
