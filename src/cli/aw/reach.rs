//! Reads and writes for the commands for users. Nothing is decided here.

use k8s_openapi::api::core::v1::Event;
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, Request};
use serde_json::Value;

use super::super::Error;
use super::super::cluster::{unanswered, unlisted, unread};
use super::super::place::{One, Place, appwrappers, served};
use super::workload::{self, Queued};
use crate::api::keys;
use crate::client::is_denied_by_authorizer;
use crate::discovery;
use crate::observe::assemble::Wrapper;
use crate::observe::cache::KindKey;
use crate::observe::live;
use crate::observe::raw_object::RawObject;

/// How a write ended that the API server answered.
pub(super) enum Written {
    /// It is done.
    Yes,
    /// Something else changed the object before.
    Conflict,
    /// It was refused, for this reason.
    Refused(String),
    /// The user lacks the permission: it ends the command as a read does.
    Forbidden(Error),
}

impl One {
    /// The whole object, as it is stored.
    pub(super) fn value(&self) -> Result<Value, Error> {
        let Wrapper { namespace, name, .. } = &*self.wrapper;
        serde_json::from_str(self.seen.raw.get()).map_err(|error| {
            Error::Negative(format!("AppWrapper {namespace}/{name} cannot be read: {error}"))
        })
    }
}

impl Place {
    pub(super) fn api(&self, resource: &ApiResource) -> Api<RawObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, resource)
    }

    /// Workloads, in the version that is served; none without Kueue.
    pub(super) async fn workloads(&self) -> Result<Option<ApiResource>, Error> {
        let found = discovery::find_in_group(&self.client, keys::KUEUE_GROUP, "Workload").await;
        Ok(found.map_err(|error| unanswered(&error))?.map(|(resource, _)| resource))
    }

    /// The Workload of an AppWrapper.
    pub(super) async fn workload(&self, uid: &str) -> Result<Queued, Error> {
        match self.listed_workloads(uid).await {
            Ok(Some((_, all))) => Ok(workload::of_owner(&all, uid)),
            Ok(None) => Ok(Queued::NoKueue),
            Err(error) if error.code() == Some(403) => Ok(Queued::Hidden(unread(&error))),
            Err(error) => Err(unlisted(&error)),
        }
    }

    /// The Workloads that have the label of an owner; none without Kueue. The label only narrows the list: the owner
    /// reference tells whose a Workload is.
    pub(super) async fn listed_workloads(
        &self,
        uid: &str,
    ) -> Result<Option<(ApiResource, Vec<RawObject>)>, live::Error> {
        let api_version = format!("{}/*", keys::KUEUE_GROUP);
        let kind = KindKey { api_version, kind: "Workload".to_owned() };
        for resource in served(&kind) {
            let params = ListParams::default().labels(&format!("{}={uid}", keys::JOB_UID));
            match live::list(&self.client, &resource, Some(&self.namespace), &params).await {
                Ok(all) => return Ok(Some((resource, all))),
                // this version is not served
                Err(error) if error.code() == Some(404) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Warning events about an object, in no order.
    ///
    /// # Errors
    /// Why they cannot be seen, for a note.
    pub(super) async fn warnings(&self, uid: &str) -> Result<Vec<RawObject>, String> {
        let resource = ApiResource::erase::<Event>(&());
        let params =
            ListParams::default().fields(&format!("involvedObject.uid={uid},type=Warning"));
        let listed = live::list(&self.client, &resource, Some(&self.namespace), &params).await;
        listed.map_err(|error| format!("cannot list events: {}", unread(&error)))
    }

    /// Changes an object as it was seen: the patch names its resource version.
    pub(super) async fn patch(
        &self,
        resource: &ApiResource,
        name: &str,
        patch: Value,
    ) -> Result<Written, Error> {
        let params = PatchParams::default();
        written(self.api(resource).patch(name, &params, &Patch::Merge(patch)).await)
    }

    /// Creates an AppWrapper; a trial changes nothing.
    pub(super) async fn create(&self, manifest: &Value, trial: bool) -> Result<Written, Error> {
        let params = PostParams { dry_run: trial, ..PostParams::default() };
        let request = Request::new(RawObject::url_path(&appwrappers(), Some(&self.namespace)))
            .create(&params, manifest.to_string().into_bytes())
            .map_err(|error| unanswered(&kube::Error::BuildRequest(error)))?;
        written(self.client.request::<RawObject>(request).await)
    }

    /// Begins to delete an AppWrapper.
    pub(super) async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Written, Error> {
        written(self.api(&appwrappers()).delete(name, params).await)
    }
}

fn written<T>(answer: Result<T, kube::Error>) -> Result<Written, Error> {
    match answer {
        Ok(_) => Ok(Written::Yes),
        Err(kube::Error::Api(status)) => match status.code {
            409 if status.reason == "Conflict" => Ok(Written::Conflict),
            // these say nothing about the object: the caller is unknown, or the server is overloaded
            401 | 408 | 429 | 500.. => Err(unanswered(&kube::Error::Api(status))),
            403 if is_denied_by_authorizer(&status) => {
                Ok(Written::Forbidden(unanswered(&kube::Error::Api(status))))
            }
            _ => Ok(Written::Refused(status.message)),
        },
        Err(error) => Err(unanswered(&error)),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn only_workloads_of_the_appwrapper_are_asked_for() {
        let service = tower::service_fn(|request: http::Request<kube::client::Body>| {
            let of = |name: &str, owner: &str| {
                json!({"metadata": {"name": name, "uid": name, "labels": {keys::JOB_UID: "u"},
                    "ownerReferences": [{"apiVersion": "v", "kind": "K", "name": "n", "uid": owner,
                        "controller": true}]}})
            };
            let query = request.uri().query().unwrap_or_default();
            let is_narrow = query.contains("labelSelector=kueue.x-k8s.io%2Fjob-uid%3Du");
            let all = [of("other", "v"), of("its", "u")];
            let items = if is_narrow { json!(all) } else { json!([]) };
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
            let body = kube::client::Body::from(list.to_string().into_bytes());
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(body)))
        });
        let place = Place { client: kube::Client::new(service, "ns"), namespace: "ns".into() };
        match place.workload("u").await {
            Ok(Queued::Workload(workload)) => assert_eq!(workload.name, "its"),
            other => panic!("{:?}", other.ok()),
        }
    }

    #[test]
    fn only_the_authorizer_says_that_a_permission_is_missing() {
        let refused = |code: u16, reason: &str, message: &str| {
            let status = Status::failure(message, reason).with_code(code).boxed();
            match written::<()>(Err(kube::Error::Api(status))) {
                Ok(Written::Yes) => "yes",
                Ok(Written::Conflict) => "conflict",
                Ok(Written::Refused(_)) => "refused",
                Ok(Written::Forbidden(Error::Cluster(_))) | Err(Error::Cluster(_)) => "cluster",
                Ok(Written::Forbidden(_)) | Err(_) => "another error",
            }
        };
        let user = "appwrappers.workload.codeflare.dev \"a\" is forbidden: \
                    User \"ann\" cannot patch resource \"appwrappers\" in API group \"workload.codeflare.dev\"";
        for (code, reason, message, want) in [
            (401, "Unauthorized", "Unauthorized", "cluster"),
            (403, "Forbidden", user, "cluster"),
            (403, "Forbidden", "configmaps \"a\" is forbidden: exceeded quota: q", "refused"),
            (403, "Forbidden", "admission webhook \"w\" denied the request: no", "refused"),
            (409, "Conflict", "modified", "conflict"),
            (422, "Invalid", "invalid", "refused"),
        ] {
            assert_eq!(refused(code, reason, message), want, "{message}");
        }
    }
}
