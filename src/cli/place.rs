//! A namespace of a cluster, and an AppWrapper in it as it is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind, Status};
use serde::Deserialize;

use super::cluster::{self, unanswered, unlisted};
use super::{ClusterArgs, Error};
use crate::api::AppWrapper;
use crate::observe::assemble::Wrapper;
use crate::observe::cache::KindKey;
use crate::observe::live;
pub(super) use crate::observe::live::get;
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
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(unread_appwrappers(&error)),
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

/// Whether the API server says that there is no such object: a proxy may answer with the same code.
pub(super) fn is_absent(error: &kube::Error) -> bool {
    let says = |status: &Status| status.code == 404 && status.reason == "NotFound";
    matches!(error, kube::Error::Api(status) if says(status)) && !is_unserved(error)
}

/// Whether the API server does not serve the kind: else it would name the object, or list none.
pub(super) fn is_unserved(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let texts = ["404 page not found", "the server could not find the requested resource"];
    status.code == 404 && texts.iter().any(|text| status.message.starts_with(text))
}

/// Why AppWrappers cannot be read.
fn unread_appwrappers(error: &kube::Error) -> Error {
    if is_unserved(error) {
        let ApiResource { group, plural, .. } = appwrappers();
        let why = format!("the cluster has no CRD {plural}.{group}");
        return Error::Cluster(format!("AppWrappers are not installed: {why}"));
    }
    unanswered(error)
}

/// Why AppWrappers cannot be listed.
pub(super) fn unlisted_appwrappers(error: &live::Error) -> Error {
    match error {
        live::Error::Api { source, .. } => unread_appwrappers(source),
        live::Error::NoKind(_) | live::Error::NotNamespaced(_) => unlisted(error),
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

/// The data of a ConfigMap; none where it cannot be read.
pub(super) fn data_of(seen: &RawObject) -> Option<BTreeMap<String, String>> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Data {
        data: BTreeMap<String, String>,
    }
    serde_json::from_str::<Data>(seen.raw.get()).ok().map(|it| it.data)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_cluster_without_the_definition_is_no_cluster_without_that_appwrapper() {
        let missing = "appwrappers.workload.codeflare.dev \"a\" not found";
        for (reason, message, want) in [
            ("Failed to parse error data", "404 page not found", true),
            ("NotFound", "the server could not find the requested resource", true),
            ("NotFound", missing, false),
        ] {
            let status = Status::failure(message, reason).with_code(404).boxed();
            let error = kube::Error::Api(status);
            assert_eq!(is_unserved(&error), want, "{message}");
            let said = unlisted_appwrappers(&live::Error::api("list", error)).to_string();
            let crd = "not installed: the cluster has no CRD appwrappers.workload.codeflare.dev";
            assert_eq!(said.ends_with(crd), want, "{said}");
        }
    }
}
