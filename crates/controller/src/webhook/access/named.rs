//! Whether what an AppWrapper names exists.

use kube::Client;
use kube::api::{Api, DynamicObject};

use super::review::in_time;
use crate::api::{RetryPolicy, keys};
use crate::discovery;
use crate::tuning::Severity;
use crate::webhook::authorize::{AccessError, Named, NamedKind};
use crate::webhook::validate::Finding;

/// Whether it exists. Of a kind that is not served nothing does.
///
/// # Errors
/// Where that cannot be told.
pub(super) async fn exists(
    client: &Client,
    namespace: &str,
    named: &Named,
) -> Result<bool, AccessError> {
    let name = &named.name;
    match named.kind {
        NamedKind::RetryPolicy => {
            let policies: Api<RetryPolicy> = Api::all(client.clone());
            let what = format!("get RetryPolicy {name}");
            in_time(&what, policies.get_metadata_opt(name)).await.map(|found| found.is_some())
        }
        NamedKind::LocalQueue => {
            let find = discovery::find_in_group(client, keys::KUEUE_GROUP, "LocalQueue");
            let Some((resource, _)) = in_time("discover LocalQueues", find).await? else {
                return Ok(false);
            };
            let queues: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), namespace, &resource);
            let what = format!("get LocalQueue {name}");
            in_time(&what, queues.get_metadata_opt(name)).await.map(|found| found.is_some())
        }
    }
}

/// What is said of what does not exist.
pub(super) fn warning(namespace: &str, named: &Named) -> Finding {
    let message = match named.kind {
        NamedKind::RetryPolicy => "RetryPolicy not found: it is ignored until it exists".to_owned(),
        NamedKind::LocalQueue => format!(
            "LocalQueue not found in namespace {namespace}: the AppWrapper is not admitted until it \
             exists"
        ),
    };
    Finding {
        severity: Severity::Warning,
        field: named.kind.field(),
        value: Some(named.name.clone()),
        message,
    }
}
