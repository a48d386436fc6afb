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

/// What the API server did with a DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It removed the object.
    AtOnce,
    /// The object may still exist.
    Later,
}

impl Deleted {
    /// Reads the answer to the DELETE of a pod: its last state, or a `Status`, which has no UID. A pod without
    /// finalizers goes when its grace period ends, which is at once where it has ended or was never scheduled.
    fn of_pod(answer: &str, uid: &str) -> Self {
        let is_gone =
            serde_json::from_str::<RawObject>(answer).is_ok_and(|RawObject { meta, .. }| {
                meta.uid.as_deref() == Some(uid)
                    && meta.deletion_grace_period_seconds == Some(0)
                    && meta.finalizers.is_none_or(|finalizers| finalizers.is_empty())
            });
        if is_gone { Self::AtOnce } else { Self::Later }
    }
}

/// Deletes an object; one that is gone, or is another of the same name, is as good. That it is gone is said of pods
/// only.
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
) -> Result<Deleted, Error> {
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
        .map_err(|error| Error::of_deletion(what(), kube::Error::BuildRequest(error)))?;
    match client.request_text(request).await {
        Ok(answer) if resource.kind == "Pod" && resource.group.is_empty() => {
            Ok(Deleted::of_pod(&answer, uid))
        }
        Ok(_) => Ok(Deleted::Later),
        // 404: gone. 409: another object has the name now, which is not ours to delete.
        Err(error) if matches!(live::code(&error), Some(404 | 409)) => Ok(Deleted::Later),
        Err(error) => Err(Error::of_deletion(what(), error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_gone_where_nothing_holds_it() {
        let of = |uid, seconds: i64, finalizers: &[&str]| {
            let metadata = json!({
                "uid": uid, "deletionGracePeriodSeconds": seconds, "finalizers": finalizers,
            });
            Deleted::of_pod(&json!({"kind": "Pod", "metadata": metadata}).to_string(), "u")
        };
        assert_eq!(of("u", 0, &[]), Deleted::AtOnce);
        assert_eq!(of("u", 30, &[]), Deleted::Later, "it is given time");
        assert_eq!(of("u", 0, &["x/y"]), Deleted::Later, "a finalizer holds it");
        assert_eq!(of("v", 0, &[]), Deleted::Later, "another pod");
        let status = r#"{"kind":"Status","metadata":{},"status":"Success","details":{"uid":"u"}}"#;
        for answer in
            [r#"{"kind":"Pod","metadata":{"uid":"u"}}"#, status, r#"{"kind":"Pod"}"#, "", "[]"]
        {
            assert_eq!(Deleted::of_pod(answer, "u"), Deleted::Later, "{answer}");
        }
    }
}
