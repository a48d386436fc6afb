//! Reads from the API server itself: what a cache may never be asked.

mod error;
mod lists;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

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
use super::records::{Controller, Identity, ObjectRecord};
use super::retry_sources;
use crate::api::AppWrapper;
use crate::discovery::{self, Served};

pub use error::{Error, code};
pub(super) use lists::pages;
pub use lists::{fits_label, list, listed_pods, pod_uids, seen_pods};

/// The kinds that have been discovered.
#[derive(Debug, Default)]
pub struct Live {
    kinds: Mutex<BTreeMap<KindKey, ApiResource>>,
    /// A kind was found that was not known.
    news: Notify,
}

/// Pods, for requests.
#[must_use]
pub fn pod_resource() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}

impl Live {
    /// The resource of a kind: its plural, by discovery; remembered until [`Live::forget`]. Where its version is not served,
    /// another one in which the API server shows the same objects.
    ///
    /// # Errors
    /// [`Error::NoKind`] where discovery, asked afresh, does not know it; [`Error::NotNamespaced`].
    pub async fn resource(&self, client: &Client, kind: &KindKey) -> Result<ApiResource, Error> {
        if kind.is_pod() {
            return Ok(pod_resource());
        }
        let known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).get(kind).cloned();
        match known {
            Some(resource) => Ok(resource),
            None => self.discover(client, kind).await,
        }
    }

    /// Asks discovery afresh.
    ///
    /// # Errors
    /// As [`Live::resource`].
    pub async fn discover(&self, client: &Client, kind: &KindKey) -> Result<ApiResource, Error> {
        let was_known = self.remove(kind);
        let found = discovery::find_in_any_version(client, &kind.api_version, &kind.kind).await;
        let (resource, capabilities) = served(kind, found)?;
        match capabilities.scope {
            Scope::Cluster => return Err(Error::NotNamespaced(kind.clone())),
            Scope::Namespaced => {}
        }
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.insert(kind.clone(), resource.clone());
        drop(kinds);
        if !was_known {
            self.news.notify_waiters();
        }
        Ok(resource)
    }

    /// Waits until somebody finds a kind.
    pub async fn found(&self, kind: &KindKey) {
        loop {
            let news = self.news.notified();
            if self.kinds.lock().unwrap_or_else(PoisonError::into_inner).contains_key(kind) {
                return;
            }
            news.await;
        }
    }

    /// The resource of a kind in its own version: what is created names its version.
    ///
    /// # Errors
    /// As [`Live::resource`], and [`Error::NoKind`] where only another version is served.
    pub async fn creatable(&self, client: &Client, kind: &KindKey) -> Result<ApiResource, Error> {
        let is_own = |resource: &ApiResource| resource.api_version == kind.api_version;
        let resource = self.resource(client, kind).await?;
        if is_own(&resource) {
            return Ok(resource);
        }
        let found = Some(self.discover(client, kind).await?).filter(is_own);
        found.ok_or_else(|| Error::NoKind(kind.clone()))
    }

    /// Forgets what is known of a kind, so that it is discovered again.
    pub fn forget(&self, kind: &KindKey) {
        self.remove(kind);
    }

    /// Whether it was known.
    fn remove(&self, kind: &KindKey) -> bool {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).remove(kind).is_some()
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
        let resource = self.resource(client, kind).await?;
        match get(client, &resource, &at.namespace, &at.name).await {
            Ok(seen) => Ok(Some(seen)),
            Err(error) if error.code() == Some(404) => {
                // of the object, or of its kind
                self.discover(client, kind).await.map(|_| None)
            }
            Err(error) => Err(error),
        }
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
        let resource = self.resource(client, kind).await?;
        let params = ListParams::default().fields(&format!("metadata.name={}", at.name));
        let found = list(client, &resource, Some(&at.namespace), &params).await;
        match found {
            Ok(objects) => Ok(objects
                .iter()
                .map(|seen| ObjectRecord::of(seen, &kind.api_version, &kind.kind))
                .find(|record| record.identity.name == at.name)),
            Err(error) if error.code() == Some(404) => {
                self.discover(client, kind).await.map(|_| None)
            }
            Err(error) => Err(error),
        }
    }
}

/// A GET of a namespaced object.
async fn get(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<RawObject, Error> {
    let what = || format!("get {}/{name}", resource.kind);
    let request = Request::new(RawObject::url_path(resource, Some(namespace)))
        .get(name, &GetParams::default())
        .map_err(|error| Error::api(what(), kube::Error::BuildRequest(error)))?;
    client.request::<RawObject>(request).await.map_err(|error| Error::api(what(), error))
}

/// What discovery said of a kind.
fn served(kind: &KindKey, found: Result<Option<Served>, kube::Error>) -> Result<Served, Error> {
    match found {
        Ok(found) => found.ok_or_else(|| Error::NoKind(kind.clone())),
        Err(error) => Err(Error::api(format!("discover {}", kind.kind), error)),
    }
}

/// The resource of a kind of retry sources, in the best version that is served.
///
/// # Errors
/// [`Error::NoKind`] where none is.
pub async fn retry_source_resource(client: &Client, kind: &KindKey) -> Result<ApiResource, Error> {
    for version in retry_sources::served_as(kind) {
        let found = discovery::find(client, &version.api_version, &version.kind).await;
        match served(&version, found) {
            Ok((resource, _)) => return Ok(resource),
            Err(Error::NoKind(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::NoKind(kind.clone()))
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
    let what = || format!("get AppWrapper {}", key.name);
    let request = Request::new(AppWrapper::url_path(&(), Some(&key.namespace)))
        .get(&key.name, &GetParams::default())
        .map_err(|error| Error::api(what(), kube::Error::BuildRequest(error)))?;
    match client.request::<RawObject>(request).await {
        Ok(seen) => Ok(Some(seen)),
        Err(error) if code(&error) == Some(404) => Ok(None),
        Err(error) => Err(Error::api(what(), error)),
    }
}

/// A node, where it exists, by a GET.
///
/// # Errors
/// Where it cannot be read.
pub async fn node(client: &Client, name: &str) -> Result<Option<RawObject>, Error> {
    let what = || format!("get node {name}");
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    let request = Request::new(RawObject::url_path(&resource, None))
        .get(name, &GetParams::default())
        .map_err(|error| Error::api(what(), kube::Error::BuildRequest(error)))?;
    match client.request::<RawObject>(request).await {
        Ok(seen) => Ok(Some(seen)),
        Err(error) if code(&error) == Some(404) => Ok(None),
        Err(error) => Err(Error::api(what(), error)),
    }
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
    let found = get(client, &pod_resource(), namespace, name).await;
    match found {
        Ok(seen) => Ok(Some(PodRecord::of(&seen))),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}
