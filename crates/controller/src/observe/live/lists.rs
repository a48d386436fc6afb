//! LISTs, page by page, from what the API server has stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::api::ListParams;
use kube::core::{ApiResource, ObjectList, Request};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::{Error, pod_resource};
use crate::api::keys;
use crate::client::LeanPods;
use crate::mutations::{self, Mutation};
use crate::observe::pod_record::{PodRecord, WatchedPod};
use crate::observe::raw_object::RawObject;
use crate::tuning::names::LABEL_MAX;

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

/// The first page of the same, and whether there are no others.
///
/// # Errors
/// Where it cannot be had.
pub async fn first_page(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    params: &ListParams,
) -> Result<(Vec<RawObject>, bool), Error> {
    let mut page = vec![];
    let take = |seen| page.push(seen);
    let is_all = first_pages(client, resource, namespace, params, Request::list, 1, take).await?;
    Ok((page, is_all))
}

/// A way to list.
type Lists =
    fn(&Request, &ListParams) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// Hands over what a LIST with `resourceVersion` unset shows, page by page.
///
/// # Errors
/// Where it cannot be had completely.
async fn pages<T: Clone + DeserializeOwned>(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    params: &ListParams,
    lists: Lists,
    take: impl FnMut(T),
) -> Result<(), Error> {
    first_pages(client, resource, namespace, params, lists, usize::MAX, take).await.map(drop)
}

/// The same of so many pages at most, the first ones. Returns whether these are all.
///
/// # Errors
/// Where one of them cannot be had.
pub(in crate::observe) async fn first_pages<T: Clone + DeserializeOwned>(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    params: &ListParams,
    lists: Lists,
    most: usize,
    mut take: impl FnMut(T),
) -> Result<bool, Error> {
    const PAGE: u32 = 500;
    let what = || match namespace {
        Some(namespace) => format!("list {} in {namespace}", resource.plural),
        None => format!("list {}", resource.plural),
    };
    let path = RawObject::url_path(resource, namespace);
    let mut params = params.clone().limit(PAGE);
    for _ in 0..most {
        let request = lists(&Request::new(&path), &params)
            .map_err(|error| Error::api(what(), kube::Error::BuildRequest(error)))?;
        let answer = client.request::<ObjectList<T>>(request).await;
        if answer.is_err() && mutations::is_present(Mutation::ErrorIsEmpty) {
            return Ok(true);
        }
        let page = answer.map_err(|error| Error::api(what(), error))?;
        page.items.into_iter().for_each(&mut take);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(true),
        }
    }
    Ok(false)
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
