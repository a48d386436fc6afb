//! Reads from the API server itself: what a cache may never be asked.

mod error;
mod lists;

use std::collections::BTreeMap;
use std::sync::Mutex;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{GetParams, ListParams};
use kube::core::{ApiResource, Request};
use kube::discovery::Scope;
use kube::{Client, Resource};
use tokio::sync::Notify;

use super::ancestry::Ancestor;
use super::assemble::Wrapper;
use super::cache::{Key, KindKey};
use super::pod_record::PodRecord;
use super::raw_object::RawObject;
use super::records::{Controller, Identity, ObjectRecord, group};
use super::retry_sources;
use crate::api::AppWrapper;
use crate::discovery::{self, Served};
use crate::locked::Locked;

pub use error::{Error, code, watch_error};
pub(super) use lists::first_pages;
pub use lists::{first_page, fits_label, list, listed_pods, pod_uids, seen_pods};

/// The kinds that have been discovered, each in versions that the API server serves.
#[derive(Debug, Default)]
pub struct Live {
    kinds: Mutex<Discovered>,
    /// A kind was found that was not known.
    news: Notify,
}

#[derive(Debug, Default)]
struct Discovered {
    /// In versions that are served: their number is not a tenant's.
    served: BTreeMap<KindKey, ApiResource>,
    /// Versions that are not served, each with the resource of another one: at most [`OTHERS_MAX`].
    others: BTreeMap<KindKey, ApiResource>,
}

/// How many versions that are not served are remembered: anybody may name them.
const OTHERS_MAX: usize = 256;

/// Pods, for requests.
#[must_use]
pub fn pod_resource() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}

impl Live {
    /// The resource of a kind: its plural, by discovery; remembered until [`Live::forget`]. Where its version is not served,
    /// another one in which the API server shows the same objects, remembered while there is room.
    ///
    /// # Errors
    /// [`Error::NoKind`] where discovery, asked afresh, does not know it; [`Error::NotNamespaced`].
    pub async fn resource(&self, client: &Client, kind: &KindKey) -> Result<ApiResource, Error> {
        match self.known(kind) {
            Some(resource) => Ok(resource),
            None => self.discover(client, kind).await,
        }
    }

    /// The same, in the version of the kind alone: for what is created, which names its version, and for watches, since invented
    /// versions must not have the same objects watched again and again.
    ///
    /// # Errors
    /// As [`Live::resource`], and [`Error::NoKind`] where only another version is served.
    pub async fn in_own_version(
        &self,
        client: &Client,
        kind: &KindKey,
    ) -> Result<ApiResource, Error> {
        let known = self.kinds.locked().served.get(kind).cloned();
        match known {
            Some(resource) => Ok(resource),
            None if kind.is_pod() => Ok(pod_resource()),
            None => self.discover_own(client, kind).await?.ok_or_else(|| no_kind(kind)),
        }
    }

    /// Asks discovery afresh.
    ///
    /// # Errors
    /// As [`Live::resource`].
    pub async fn discover(&self, client: &Client, kind: &KindKey) -> Result<ApiResource, Error> {
        if let Some(own) = self.discover_own(client, kind).await? {
            return Ok(own);
        }
        // on the heap: it is rare, and its future is large
        let other = Box::pin(self.discover_other(client, kind)).await?;
        let other = other.ok_or_else(|| no_kind(kind))?;
        let mut kinds = self.kinds.locked();
        if kinds.others.len() >= OTHERS_MAX {
            kinds.others.clear(); // which of them are of use cannot be told
        }
        kinds.others.insert(kind.clone(), other.clone());
        Ok(other)
    }

    /// Another version of a kind: one that was served when it was last looked for, or else any.
    async fn discover_other(
        &self,
        client: &Client,
        kind: &KindKey,
    ) -> Result<Option<ApiResource>, Error> {
        let Some(group) = group(&kind.api_version) else { return Ok(None) };
        if let Some(known) = self.known_version(group, &kind.kind)
            && let Some(other) = self.discover_own(client, &known).await?
        {
            return Ok(Some(other));
        }
        let found = discovery::find_in_group(client, group, &kind.kind).await;
        self.remember(kind, found)
    }

    /// Asks discovery afresh for the version of a kind; `None` where that is not served.
    async fn discover_own(
        &self,
        client: &Client,
        kind: &KindKey,
    ) -> Result<Option<ApiResource>, Error> {
        let found = discovery::find(client, &kind.api_version, &kind.kind).await;
        self.remember(kind, found)
    }

    /// Remembers what discovery said, under the version that is served.
    fn remember(
        &self,
        kind: &KindKey,
        found: Result<Option<Served>, kube::Error>,
    ) -> Result<Option<ApiResource>, Error> {
        let Some((resource, capabilities)) = said(kind, found)? else {
            self.forget(kind);
            return Ok(None);
        };
        match capabilities.scope {
            Scope::Cluster => {
                self.forget(kind);
                return Err(Error::NotNamespaced(kind.clone()));
            }
            Scope::Namespaced => {}
        }
        let (api_version, kind) = (resource.api_version.clone(), resource.kind.clone());
        let served = KindKey { api_version, kind };
        let known = self.kinds.locked().served.insert(served, resource.clone());
        if known.is_none() {
            self.news.notify_waiters();
        }
        Ok(Some(resource))
    }

    /// Waits until somebody finds a kind.
    pub async fn found(&self, kind: &KindKey) {
        loop {
            let news = self.news.notified();
            if self.kinds.locked().served.contains_key(kind) {
                return;
            }
            news.await;
        }
    }

    /// Forgets what is known of a kind, so that it is discovered again.
    pub fn forget(&self, kind: &KindKey) {
        let mut kinds = self.kinds.locked();
        kinds.served.remove(kind);
        kinds.others.remove(kind);
    }

    fn known(&self, kind: &KindKey) -> Option<ApiResource> {
        if kind.is_pod() {
            return Some(pod_resource());
        }
        let kinds = self.kinds.locked();
        kinds.served.get(kind).or_else(|| kinds.others.get(kind)).cloned()
    }

    /// A version of a kind that was served when it was last looked at.
    fn known_version(&self, of_group: &str, kind: &str) -> Option<KindKey> {
        let is_same = |it: &&KindKey| it.kind == kind && group(&it.api_version) == Some(of_group);
        self.kinds.locked().served.keys().find(is_same).cloned()
    }

    /// The object of a kind that has a name; `None` where there is none.
    ///
    /// # Errors
    /// Where that cannot be told, and [`Error::NoKind`].
    pub async fn object(
        &self,
        client: &Client,
        kind: &KindKey,
        at: &Key,
    ) -> Result<Option<ObjectRecord>, Error> {
        let found = self.stored(client, kind, at).await?;
        Ok(found.map(|seen| ObjectRecord::of(&seen, &kind.api_version, &kind.kind)))
    }

    /// Identity and ownership of the object of a kind that has a name; `None` where there is none.
    ///
    /// # Errors
    /// As [`Live::object`].
    pub async fn identity(
        &self,
        client: &Client,
        kind: &KindKey,
        at: &Key,
    ) -> Result<Option<Identity>, Error> {
        Ok(self.stored(client, kind, at).await?.map(|seen| Identity::of(&seen.meta)))
    }

    async fn stored(
        &self,
        client: &Client,
        kind: &KindKey,
        at: &Key,
    ) -> Result<Option<RawObject>, Error> {
        let (namespace, name) = (Some(at.namespace.as_str()), &at.name);
        let read = |resource| async move {
            let read = get(client, &resource, namespace, name).await;
            read.map_err(|error| unread(&resource, name, error))
        };
        self.read(client, kind, read).await
    }

    /// Reads with the resource of a kind; `None` where the API server answers that there is none. If the resource was known
    /// before, that may be true of the resource only: where the kind is served in another way by now, it is read once more.
    async fn read<T, F: Future<Output = Result<T, Error>>>(
        &self,
        client: &Client,
        kind: &KindKey,
        read: impl Fn(ApiResource) -> F,
    ) -> Result<Option<T>, Error> {
        let known = self.known(kind);
        let resource = match &known {
            Some(resource) => resource.clone(),
            None => self.discover(client, kind).await?,
        };
        let mut found = read(resource).await;
        if let (Some(known), true) = (known, is_absent(&found)) {
            let fresh = self.discover(client, kind).await?;
            if fresh != known {
                found = read(fresh).await;
            }
        }
        if is_absent(&found) { Ok(None) } else { found.map(Some) }
    }

    /// The object of a kind that has a name, by a LIST; `None` where there is none.
    ///
    /// # Errors
    /// Where that cannot be told, and [`Error::NoKind`].
    pub async fn listed_object(
        &self,
        client: &Client,
        kind: &KindKey,
        at: &Key,
    ) -> Result<Option<ObjectRecord>, Error> {
        let params = &ListParams::default().fields(&format!("metadata.name={}", at.name));
        let namespace = at.namespace.as_str();
        let read = |resource| async move { list(client, &resource, Some(namespace), params).await };
        let objects = self.read(client, kind, read).await?.unwrap_or_default();
        let mut records =
            objects.iter().map(|seen| ObjectRecord::of(seen, &kind.api_version, &kind.kind));
        Ok(records.find(|record| record.identity.name == at.name))
    }
}

/// Whether the API server answered that there is no such object or resource.
fn is_absent<T>(found: &Result<T, Error>) -> bool {
    found.as_ref().is_err_and(|error| error.code() == Some(404))
}

/// An object as it is stored, by a GET; without a namespace, one that is in none.
///
/// # Errors
/// There is none of that name, or that cannot be told.
pub async fn get(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
) -> Result<RawObject, kube::Error> {
    let request = Request::new(RawObject::url_path(resource, namespace))
        .get(name, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

/// What a GET found; `None` where there is no object of that name.
///
/// # Errors
/// Any other than that.
pub fn found(read: Result<RawObject, kube::Error>) -> Result<Option<RawObject>, kube::Error> {
    match read {
        Err(error) if code(&error) == Some(404) => Ok(None),
        read => read.map(Some),
    }
}

/// An object as it is stored; `None` where there is none of that name.
async fn find(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<RawObject>, Error> {
    let read = get(client, resource, namespace, name).await;
    found(read).map_err(|error| unread(resource, name, error))
}

/// The metadata of an object, by a GET; `None` where there is none of that name.
///
/// # Errors
/// Where that cannot be told.
pub async fn metadata(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<Option<ObjectMeta>, Error> {
    let unread = |error| unread(resource, name, error);
    let request = Request::new(RawObject::url_path(resource, Some(namespace)))
        .get_metadata(name, &GetParams::default())
        .map_err(|error| unread(kube::Error::BuildRequest(error)))?;
    let found = found(client.request(request).await).map_err(unread)?;
    Ok(found.map(|seen| seen.meta))
}

fn unread(resource: &ApiResource, name: &str, error: kube::Error) -> Error {
    Error::api(format!("get {}/{name}", resource.kind), error)
}

/// What discovery said of a kind.
fn said(
    kind: &KindKey,
    found: Result<Option<Served>, kube::Error>,
) -> Result<Option<Served>, Error> {
    found.map_err(|error| Error::api(format!("discover {}", kind.kind), error))
}

fn no_kind(kind: &KindKey) -> Error {
    Error::NoKind(kind.clone())
}

/// The resource of a kind of retry sources, in the best version that is served.
///
/// # Errors
/// [`Error::NoKind`] where none is.
pub async fn retry_source_resource(client: &Client, kind: &KindKey) -> Result<ApiResource, Error> {
    for version in retry_sources::served_as(kind) {
        let found = discovery::find(client, &version.api_version, &version.kind).await;
        if let Some((resource, _)) = said(&version, found)? {
            return Ok(resource);
        }
    }
    Err(no_kind(kind))
}

/// The resource version of an AppWrapper, by a GET; `None` where it is gone, or another has its name.
///
/// # Errors
/// Where that cannot be told.
pub async fn version(client: &Client, wrapper: &Wrapper) -> Result<Option<String>, Error> {
    let found = appwrapper(client, &wrapper.key()).await?;
    let is_same = |seen: &RawObject| seen.meta.uid.as_deref() == Some(wrapper.uid.as_str());
    Ok(found.filter(is_same).and_then(|seen| seen.meta.resource_version))
}

/// An AppWrapper, by a GET; `None` where there is none of that name.
///
/// # Errors
/// Where that cannot be told.
pub async fn appwrapper(client: &Client, key: &Key) -> Result<Option<RawObject>, Error> {
    let resource = ApiResource::erase::<AppWrapper>(&());
    find(client, &resource, Some(&key.namespace), &key.name).await
}

/// A node, where it exists, by a GET.
///
/// # Errors
/// Where it cannot be read.
pub async fn node(client: &Client, name: &str) -> Result<Option<RawObject>, Error> {
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    find(client, &resource, None, name).await
}

/// What is known of an owner: the API server itself is asked.
///
/// # Errors
/// Where that cannot be told; [`Error::NoKind`] where its kind is not served, which says nothing of it.
pub async fn ancestor(
    client: &Client,
    live: &Live,
    namespace: &str,
    owner: &Controller,
) -> Result<Ancestor, Error> {
    let kind = KindKey { api_version: owner.api_version.clone(), kind: owner.kind.clone() };
    let at = Key { namespace: namespace.to_owned(), name: owner.name.clone() };
    let found = live.identity(client, &kind, &at).await?;
    Ok(match found {
        Some(identity) if identity.uid == owner.uid => Ancestor::Exists(identity.controller),
        Some(_) | None => Ancestor::Gone,
    })
}

/// A pod, by a GET; `None` where there is none of this name.
///
/// # Errors
/// Where that cannot be told.
pub async fn pod(client: &Client, namespace: &str, name: &str) -> Result<Option<PodRecord>, Error> {
    let found = find(client, &pod_resource(), Some(namespace), name).await?;
    Ok(found.map(|seen| PodRecord::of(&seen)))
}

#[cfg(test)]
mod tests;
