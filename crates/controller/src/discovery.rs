//! Discovery: which resource serves a kind, and what can be done with it. Never remembered here.

use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{self, ApiCapabilities};

/// A resource that is no subresource, and what discovery says of it.
pub type Served = (ApiResource, ApiCapabilities);

/// The resource of a kind in one version of its group; none where that is not served.
///
/// # Errors
/// Where the API server cannot be asked.
pub async fn find(
    client: &Client,
    api_version: &str,
    kind: &str,
) -> Result<Option<Served>, kube::Error> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kind = GroupVersionKind::gvk(group, version, kind);
    served(discovery::pinned_kind(client, &kind).await)
}

/// The resource of a kind in the most mature version of its group that has it; none where none has.
///
/// # Errors
/// Where the API server cannot be asked.
pub async fn find_in_group(
    client: &Client,
    group: &str,
    kind: &str,
) -> Result<Option<Served>, kube::Error> {
    let found = served(discovery::group(client, group).await)?;
    let resources = found.map(|group| group.resources_by_stability()).unwrap_or_default();
    Ok(resources.into_iter().find(|(resource, _)| resource.kind == kind))
}

/// What is not there is no error.
fn served<T>(found: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
