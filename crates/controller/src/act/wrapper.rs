//! Writes the AppWrapper itself: finalizer, status, memory; guarded by the resource version.

use kube::api::{Patch, PatchParams};
use kube::core::Request;
use kube::{Client, Resource};
use serde_json::{Map, Value, json};

use super::Error;
use crate::api::{AppWrapper, AppWrapperStatus, Component, keys};
use crate::kinds;
use crate::mutations::{self, Mutation};
use crate::observe::assemble::Wrapper;
use crate::observe::raw_object::RawObject;

/// Sets our finalizer, and ends the tracking of fields where nobody applies the AppWrapper on the server's side: then
/// nobody asks who owns a field, and the API server spends a quarter less on every write of its status. A later
/// `kubectl apply --server-side` begins the tracking anew.
/// Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields>.
///
/// # Errors
/// 409 if another client wrote in between.
pub async fn add_finalizer(client: &Client, wrapper: &Wrapper) -> Result<RawObject, Error> {
    let mut finalizers = wrapper.finalizers.clone();
    finalizers.push(keys::FINALIZER.to_owned());
    let mut metadata = json!({"finalizers": finalizers});
    if !wrapper.is_applied {
        metadata["managedFields"] = json!([{}]);
    }
    write(client, wrapper, metadata_patch(wrapper, metadata), "finalizers").await
}

/// Removes our finalizer, and leaves those of others. The API server answers with the metadata alone.
///
/// # Errors
/// 409 if another client wrote in between, 404 where the object is gone.
pub async fn remove_finalizer(client: &Client, wrapper: &Wrapper) -> Result<RawObject, Error> {
    let others = wrapper.finalizers.iter().filter(|name| *name != keys::FINALIZER);
    let others: Vec<&String> = others.collect();
    let patch = Patch::Merge(metadata_patch(wrapper, json!({"finalizers": others})));
    let request = Request::new(AppWrapper::url_path(&(), Some(&wrapper.namespace))).patch_metadata(
        &wrapper.name,
        &params(),
        &patch,
    );
    send(client, wrapper, request, "finalizers").await
}

fn metadata_patch(wrapper: &Wrapper, mut metadata: Value) -> Value {
    metadata["uid"] = wrapper.uid.clone().into();
    metadata["resourceVersion"] = wrapper.version.clone().into();
    json!({ "metadata": metadata })
}

/// The API server does not parse the patch once more for warnings, which nobody reads.
/// Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation>.
fn params() -> PatchParams {
    PatchParams::default().validation_ignore()
}

async fn write(
    client: &Client,
    wrapper: &Wrapper,
    patch: Value,
    part: &str,
) -> Result<RawObject, Error> {
    let request = Request::new(AppWrapper::url_path(&(), Some(&wrapper.namespace))).patch(
        &wrapper.name,
        &params(),
        &Patch::Merge(patch),
    );
    send(client, wrapper, request, part).await
}

async fn send(
    client: &Client,
    wrapper: &Wrapper,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    part: &str,
) -> Result<RawObject, Error> {
    let what = || format!("write {part} of AppWrapper {}", wrapper.name);
    let request = request.map_err(|error| Error::new(what(), kube::Error::BuildRequest(error)))?;
    client.request(request).await.map_err(|error| Error::new(what(), error))
}

/// Writes the memory that `status.pendingMemory` asks for into the templates; with `suspend`, the same
/// write suspends the AppWrapper.
///
/// # Errors
/// 409 if another client wrote in between; 403 or 422 where it is not allowed.
pub async fn grow_memory(
    client: &Client,
    wrapper: &Wrapper,
    suspend: bool,
) -> Result<RawObject, Error> {
    let mut spec = json!({ "components": grown(wrapper) });
    if suspend {
        spec["suspend"] = true.into();
    }
    let metadata = json!({"uid": wrapper.uid, "resourceVersion": wrapper.version});
    write(client, wrapper, json!({"metadata": metadata, "spec": spec}), "memory").await
}

/// Suspends the AppWrapper.
///
/// # Errors
/// 409 if another client wrote in between; 403 or 422 where it is not allowed.
pub async fn suspend(client: &Client, wrapper: &Wrapper) -> Result<RawObject, Error> {
    let metadata = json!({"uid": wrapper.uid, "resourceVersion": wrapper.version});
    let patch = json!({"metadata": metadata, "spec": {"suspend": true}});
    write(client, wrapper, patch, "suspend").await
}

/// Whether the templates of an AppWrapper have the memory that is pending.
#[must_use]
pub fn has_grown(wrapper: &Wrapper) -> bool {
    grown(wrapper) == wrapper.spec.components
}

/// The components with the memory that is pending. A list is replaced as a whole by a merge patch.
fn grown(wrapper: &Wrapper) -> Vec<Component> {
    let mut components = wrapper.spec.components.clone();
    for pending in &wrapper.status.pending_memory {
        let at = |index: i32| usize::try_from(index).unwrap_or(usize::MAX);
        let index = at(pending.component);
        let pod_sets = wrapper.components.get(index).map(|component| &component.pod_sets);
        let pod_set = pod_sets.and_then(|sets| sets.get(at(pending.pod_set)));
        if let (Some(component), Some(pod_set)) = (components.get_mut(index), pod_set) {
            let (request, limit) = (pending.request.as_deref(), pending.limit.as_deref());
            let (template, container) = (&mut component.template, &pending.container);
            kinds::grow(template, &pod_set.path, container, request, limit);
        }
    }
    components
}

/// Writes the status: only what changed, so that fields of another version stay, and fields of which
/// something cannot be read as a whole.
///
/// # Errors
/// 409 if another client wrote in between.
pub async fn write_status(
    client: &Client,
    wrapper: &Wrapper,
    status: &AppWrapperStatus,
) -> Result<RawObject, Error> {
    let what = || format!("write status of AppWrapper {}", wrapper.name);
    let change = status_patch(wrapper, status)
        .map_err(|error| Error::new(what(), kube::Error::SerdeError(error)))?;
    let mut patch = json!({
        "metadata": {"uid": wrapper.uid, "resourceVersion": wrapper.version},
        "status": change,
    });
    if mutations::is_present(Mutation::Unguarded) {
        patch["metadata"] = json!({});
    }
    let request = Request::new(AppWrapper::url_path(&(), Some(&wrapper.namespace)))
        .patch_subresource("status", &wrapper.name, &params(), &Patch::Merge(patch))
        .map_err(|error| Error::new(what(), kube::Error::BuildRequest(error)))?;
    client.request(request).await.map_err(|error| Error::new(what(), error))
}

/// The merge patch that turns the stored status into another. Fields that are equal in both are not serialized.
fn status_patch(wrapper: &Wrapper, status: &AppWrapperStatus) -> serde_json::Result<Value> {
    let (stored, new) = if wrapper.flaws.stored.is_empty() {
        let stored = serde_json::to_value(differing(&wrapper.status, status))?;
        (stored, serde_json::to_value(differing(status, &wrapper.status))?)
    } else {
        let mut stored = serde_json::to_value(&wrapper.status)?;
        for (field, value) in &wrapper.flaws.stored {
            stored[field] = value.clone();
        }
        (stored, serde_json::to_value(status)?)
    };
    Ok(merge_patch(&stored, new).unwrap_or_else(|| json!({})))
}

/// The fields of a status that are not equal in another; the rest are empty, and empty fields are not serialized.
fn differing(status: &AppWrapperStatus, other: &AppWrapperStatus) -> AppWrapperStatus {
    fn unless_equal<T: Clone + Default + PartialEq>(field: &T, other: &T) -> T {
        if field == other { T::default() } else { field.clone() }
    }
    macro_rules! fields {
        ($($field:ident)+) => {
            AppWrapperStatus { $($field: unless_equal(&status.$field, &other.$field)),+ }
        };
    }
    fields!(phase resetting_count uncounted_restarts ignored_failures conditions component_status
        attempts retry_counts budget retry_after requeue avoid_nodes suspect_nodes pending_memory
        recovery_deadline since usage)
}

/// The merge patch (RFC 7396) that turns one value into another; `None` where they are equal.
#[must_use]
pub fn merge_patch(old: &Value, new: Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let removed = old.keys().filter(|key| !new.contains_key(*key));
            let mut patch: Map<String, Value> =
                removed.map(|key| (key.clone(), Value::Null)).collect();
            for (key, value) in new {
                let change = match old.get(&key) {
                    Some(before) => merge_patch(before, value),
                    None => Some(value),
                };
                if let Some(change) = change {
                    patch.insert(key, change);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (old, new) => (*old != new).then_some(new),
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use kube::core::ObjectMeta;

    use super::*;
    use crate::api::{AppWrapperSpec, PendingMemory};

    /// An API server that answers with what it was asked to accept as the name, and with the query as the UID.
    fn server() -> Client {
        let service = tower::service_fn(|request: http::Request<Body>| {
            let accept = request.headers().get(http::header::ACCEPT);
            let accept = accept.map(|types| types.to_str().unwrap().to_owned());
            let answer = json!({"metadata": {"name": accept, "uid": request.uri().query()}});
            let answer = http::Response::new(Body::from(answer.to_string().into_bytes()));
            async move { Ok::<_, std::convert::Infallible>(answer) }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_patch_asks_for_what_is_read_and_for_no_warnings() {
        let [name, namespace] = ["a", "n"].map(|text| Some(text.to_owned()));
        let meta = ObjectMeta { name, namespace, ..ObjectMeta::default() };
        let status = AppWrapperStatus::default();
        let wrapper = Wrapper::new(&meta, AppWrapperSpec::default(), status.clone());
        let client = server();
        for (written, metadata_only) in [
            (add_finalizer(&client, &wrapper).await, false),
            (remove_finalizer(&client, &wrapper).await, true),
            (suspend(&client, &wrapper).await, false),
            (write_status(&client, &wrapper, &status).await, false),
        ] {
            let meta = written.unwrap().meta;
            let (accept, query) = (meta.name.unwrap_or_default(), meta.uid.unwrap());
            assert_eq!(accept.contains("as=PartialObjectMetadata"), metadata_only, "{accept}");
            assert!(query.contains("fieldValidation=Ignore"), "{query}");
        }
    }

    #[test]
    fn memory_grows_where_it_is_pending() {
        let pod = |memory: &str| {
            let container = json!({"name": "main", "resources": {"requests": {"memory": memory}}});
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"containers": [container]}})
        };
        let component = |template: Value| Component { template, ..Component::default() };
        let spec = AppWrapperSpec {
            components: vec![component(pod("1Gi")), component(pod("1Gi"))],
            ..AppWrapperSpec::default()
        };
        let pending = |component: i32, pod_set: i32| PendingMemory {
            component,
            pod_set,
            container: "main".to_owned(),
            request: Some("2Gi".to_owned()),
            limit: None,
        };
        let status = AppWrapperStatus {
            pending_memory: vec![pending(1, 0), pending(0, 7), pending(9, 0), pending(-1, 0)],
            ..AppWrapperStatus::default()
        };
        let wrapper = Wrapper::new(&ObjectMeta::default(), spec, status);
        assert_eq!(grown(&wrapper), [component(pod("1Gi")), component(pod("2Gi"))]);
    }

    #[test]
    fn a_patch_of_the_status_is_the_whole_difference() {
        const AT: &str = "2026-01-01T00:00:00Z";
        let condition = |status: &str| {
            json!({"type": "PodsReady", "status": status, "reason": "r", "message": "m",
                "lastTransitionTime": AT})
        };
        let component =
            |kind: &str| json!({"name": "c", "kind": kind, "apiVersion": "v1", "podSets": []});
        let all = [
            json!({}),
            json!({"phase": "Running", "resettingCount": 1, "conditions": [condition("True")],
                "componentStatus": [component("Pod")], "since": {"deployed": AT}}),
            json!({"phase": "Running", "conditions": [condition("False")], "avoidNodes": ["a"],
                "componentStatus": [component("Pod")], "since": {"deployed": AT, "failed": AT}}),
            json!({"phase": "Failed", "resettingCount": 1, "conditions": [condition("False")],
                "componentStatus": [component("Job")], "usage": {"state": "idle", "since": AT}}),
        ];
        let all = all.map(|status| serde_json::from_value::<AppWrapperStatus>(status).unwrap());
        let whole = |status: &AppWrapperStatus| serde_json::to_value(status).unwrap();
        for stored in &all {
            let (meta, spec) = (ObjectMeta::default(), AppWrapperSpec::default());
            let wrapper = Wrapper::new(&meta, spec, stored.clone());
            for status in &all {
                let want = merge_patch(&whole(stored), whole(status));
                let want = want.unwrap_or_else(|| json!({})).to_string();
                assert_eq!(status_patch(&wrapper, status).unwrap().to_string(), want);
            }
        }
    }

    #[test]
    fn a_merge_patch_holds_only_what_changed() {
        for (old, new, want) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), Some(json!({"b": null}))),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": 3, "c": 2}}),
                Some(json!({"a": {"b": 3}})),
            ),
            (json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]}))),
            (json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
            (json!({"a": {"b": 1}}), json!({"a": {}}), Some(json!({"a": {"b": null}}))),
        ] {
            assert_eq!(merge_patch(&old, new.clone()), want, "{old} → {new}");
        }
    }
}
