//! A namespace of a cluster, and an AppWrapper in it as it is stored.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::api::GetParams;
use kube::core::{ApiResource, GroupVersionKind, Request};
use kube::{Client, Resource};

use super::cluster::{self, unanswered};
use super::{ClusterArgs, Error};
use crate::api::AppWrapper;
use crate::observe::assemble::Wrapper;
use crate::observe::cache::KindKey;
use crate::observe::live;
use crate::observe::raw_object::RawObject;
use crate::observe::retry_sources::served_as;

/// A namespace of a cluster.
pub(super) struct Place {
    pub client: Client,
    pub namespace: String,
}

/// An AppWrapper as it is stored, and what it says.
#[derive(Clone, Debug)]
pub(super) struct One {
    pub seen: RawObject,
    pub wrapper: Arc<Wrapper>,
}

/// AppWrappers, for requests.
pub(super) fn appwrappers() -> ApiResource {
    ApiResource::erase::<AppWrapper>(&())
}

impl One {
    pub(super) fn of(seen: RawObject) -> Result<Self, String> {
        let wrapper = Arc::new(Wrapper::read(&seen)?);
        Ok(Self { seen, wrapper })
    }

    pub(super) fn created(&self) -> Option<Timestamp> {
        self.seen.meta.creation_timestamp.as_ref().map(|time| time.0)
    }

    /// When its deletion was asked for.
    pub(super) fn deleted(&self) -> Option<Timestamp> {
        self.seen.meta.deletion_timestamp.as_ref().map(|time| time.0)
    }
}

impl Place {
    /// A namespace of a cluster; by default that of the kubeconfig.
    pub(super) async fn of(args: &ClusterArgs, namespace: Option<&str>) -> Result<Self, Error> {
        let client = cluster::connect(args).await?;
        let namespace = namespace.unwrap_or_else(|| client.default_namespace()).to_owned();
        Ok(Self { client, namespace })
    }

    /// An AppWrapper, where there is one of that name.
    ///
    /// # Errors
    /// It cannot be read, or the cluster does not answer.
    pub(super) async fn find(&self, name: &str) -> Result<Option<One>, Error> {
        match get(&self.client, &appwrappers(), Some(&self.namespace), name).await {
            Ok(seen) => One::of(seen).map(Some).map_err(|flaw| {
                let namespace = &self.namespace;
                Error::Negative(format!("AppWrapper {namespace}/{name} cannot be read: {flaw}"))
            }),
            Err(error) if live::code(&error) == Some(404) => Ok(None),
            Err(error) => Err(unanswered(&error)),
        }
    }

    /// An AppWrapper that has to be there.
    ///
    /// # Errors
    /// There is none of that name, it cannot be read, or the cluster does not answer.
    pub(super) async fn one(&self, name: &str) -> Result<One, Error> {
        self.find(name).await?.ok_or_else(|| Error::Negative(self.nobody(name)))
    }

    pub(super) fn nobody(&self, name: &str) -> String {
        format!("AppWrapper {}/{name} not found", self.namespace)
    }
}

/// The resources by which a kind of Kueue's or a RetryPolicy may be served, the best version first. Their plurals are
/// known, so that nobody has to ask discovery for them: a call each time.
pub(super) fn served(kind: &KindKey) -> Vec<ApiResource> {
    let resource = |kind: KindKey| {
        let (group, version) = kind.api_version.rsplit_once('/').unwrap_or(("", &kind.api_version));
        let name = kind.kind.to_lowercase();
        let plural = match name.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{name}s"),
        };
        let gvk = GroupVersionKind::gvk(group, version, &kind.kind);
        ApiResource::from_gvk_with_plural(&gvk, &plural)
    };
    served_as(kind).into_iter().map(resource).collect()
}

/// An object as it is stored.
pub(super) async fn get(
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
