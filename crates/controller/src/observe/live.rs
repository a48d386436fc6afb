//! Reads from the API server itself: what a cache may never be asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::api::{GetParams, ListParams};
use kube::core::{ApiResource, ObjectList, Request};
use kube::discovery::Scope;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::ancestry::Ancestor;
use super::assemble::Wrapper;
use super::cache::{Key, KindKey};
use super::pod_record::{PodRecord, WatchedPod};
use super::raw_object::RawObject;
use super::records::{Controller, Identity, ObjectRecord};
use super::retry_sources;
use crate::api::{AppWrapper, keys};
use crate::client::{self, LeanPods};
use crate::discovery::{self, Served};
use crate::mutations::{self, Mutation};
use crate::tuning::names::LABEL_MAX;

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server could not be asked, or answered with an error.
    #[error("{what}")]
    Api {
        /// What was being done.
        what: String,
        /// What happened.
        #[source]
        source: Box<kube::Error>,
    },
    /// Discovery, asked afresh, does not know the kind.
    #[error("no matches for kind {:?} in version {:?}", .0.kind, .0.api_version)]
    NoKind(KindKey),
    /// The kind is not namespaced, and an AppWrapper wraps only what is.
    #[error("{} of {} is cluster-scoped and cannot be wrapped", .0.kind, .0.api_version)]
    NotNamespaced(KindKey),
}

impl Error {
    /// Wraps an error of the client.
    pub fn api(what: impl Into<String>, source: impl Into<Box<kube::Error>>) -> Self {
        Self::Api { what: what.into(), source: source.into() }
    }

    /// The same error, for another that waited for the same call.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Api { what, source } => {
                let source = match &**source {
                    kube::Error::Api(status) => kube::Error::Api(status.clone()),
                    other => kube::Error::Service(other.to_string().into()),
                };
                Self::api(what.clone(), source)
            }
            Self::NoKind(kind) => Self::NoKind(kind.clone()),
            Self::NotNamespaced(kind) => Self::NotNamespaced(kind.clone()),
        }
    }

    /// For how long the API server asked not to be called.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { source, .. } => client::retry_after(source),
            Self::NoKind(_) | Self::NotNamespaced(_) => None,
        }
    }

    /// The API server answered, and did not ask to wait: a call about another object may succeed.
    #[must_use]
    pub fn concerns_one_object(&self) -> bool {
        match self {
            Self::Api { source, .. } => client::concerns_one_object(source),
            Self::NoKind(_) | Self::NotNamespaced(_) => true,
        }
    }

    /// The HTTP status that the API server answered with, where it did.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => code(source),
            Self::NoKind(_) | Self::NotNamespaced(_) => None,
        }
    }
}

/// The HTTP status that the API server answered with, where it did.
#[must_use]
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

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
    /// The resource of a kind: its plural, by discovery; remembered until [`Live::forget`].
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
        let (resource, capabilities) = find(client, kind).await?;
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

/// Asks discovery for a kind.
async fn find(client: &Client, kind: &KindKey) -> Result<Served, Error> {
    match discovery::find(client, &kind.api_version, &kind.kind).await {
        Ok(found) => found.ok_or_else(|| Error::NoKind(kind.clone())),
        Err(error) => Err(Error::api(format!("discover {}", kind.kind), error)),
    }
}

/// The resource of a kind of retry sources, in the best version that is served.
///
/// # Errors
/// [`Error::NoKind`] where none is.
pub async fn retry_source_resource(client: &Client, kind: &KindKey) -> Result<ApiResource, Error> {
    for served in retry_sources::served_as(kind) {
        match find(client, &served).await {
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

/// The pods of a namespace that name one of these AppWrappers, by one LIST.
///
/// # Errors
/// Where they cannot be listed, all of them.
pub async fn listed_pods(
    client: &Client,
    namespace: &str,
    appwrappers: &[&str],
) -> Result<Vec<Arc<PodRecord>>, Error> {
    let mut pods = vec![];
    let Some(params) = naming(appwrappers) else { return Ok(pods) };
    // what is kept of a page is small, whatever is in its pods
    let (resource, lists) = (pod_resource(), list_lean_pods);
    pages(client, &resource, Some(namespace), &params, lists, |pod: WatchedPod| {
        pods.push(pod.record);
    })
    .await?;
    Ok(pods)
}

fn list_lean_pods(
    request: &Request,
    params: &ListParams,
) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
    let mut request = request.list(params)?;
    request.extensions_mut().insert(LeanPods);
    Ok(request)
}

/// Whether a label can hold the name: the API server refuses to look for a longer one.
#[must_use]
pub const fn fits_label(name: &str) -> bool {
    name.len() <= LABEL_MAX
}

/// Selects the pods that name one of these AppWrappers; none where no label holds such a name.
fn naming(appwrappers: &[&str]) -> Option<ListParams> {
    let names: Vec<&str> = appwrappers.iter().copied().filter(|name| fits_label(name)).collect();
    let selector = match names.as_slice() {
        [] => return None,
        [name] => format!("{}={name}", keys::APPWRAPPER),
        names => format!("{} in ({})", keys::APPWRAPPER, names.join(",")),
    };
    Some(ListParams::default().labels(&selector))
}

/// The pods that name one AppWrapper, as the API server has them.
///
/// # Errors
/// Where they cannot be listed, all of them.
pub async fn seen_pods(
    client: &Client,
    namespace: &str,
    appwrapper: &str,
) -> Result<Vec<RawObject>, Error> {
    let Some(params) = naming(&[appwrapper]) else { return Ok(vec![]) };
    list(client, &pod_resource(), Some(namespace), &params).await
}

/// A LIST with `resourceVersion` unset, so that it is answered from what is stored, page by page.
///
/// # Errors
/// Where it cannot be had completely.
pub async fn list(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    params: &ListParams,
) -> Result<Vec<RawObject>, Error> {
    let mut all = vec![];
    pages(client, resource, namespace, params, Request::list, |seen| all.push(seen)).await?;
    Ok(all)
}

/// A way to list.
pub(super) type Lists =
    fn(&Request, &ListParams) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// Hands over what a LIST with `resourceVersion` unset shows, page by page.
///
/// # Errors
/// Where it cannot be had completely.
pub(super) async fn pages<T: Clone + DeserializeOwned>(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    params: &ListParams,
    lists: Lists,
    mut take: impl FnMut(T),
) -> Result<(), Error> {
    const PAGE: u32 = 500;
    let what = || match namespace {
        Some(namespace) => format!("list {} in {namespace}", resource.plural),
        None => format!("list {}", resource.plural),
    };
    let path = RawObject::url_path(resource, namespace);
    let mut params = params.clone().limit(PAGE);
    loop {
        let request = lists(&Request::new(&path), &params)
            .map_err(|error| Error::api(what(), kube::Error::BuildRequest(error)))?;
        let answer = client.request::<ObjectList<T>>(request).await;
        if answer.is_err() && mutations::is_present(Mutation::ErrorIsEmpty) {
            return Ok(());
        }
        let page = answer.map_err(|error| Error::api(what(), error))?;
        page.items.into_iter().for_each(&mut take);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
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

/// The UIDs of all pods of a namespace, by a LIST of their metadata.
///
/// # Errors
/// Where they cannot be listed, all of them.
pub async fn pod_uids(client: &Client, namespace: &str) -> Result<BTreeSet<String>, Error> {
    let mut uids = BTreeSet::new();
    let lists = Request::list_metadata;
    pages(
        client,
        &pod_resource(),
        Some(namespace),
        &ListParams::default(),
        lists,
        |seen: RawObject| {
            uids.extend(seen.meta.uid);
        },
    )
    .await?;
    Ok(uids)
}
