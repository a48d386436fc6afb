//! The end of a log that the controller kept before its pod was deleted.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;

use super::Log;
use crate::api::FailureRecord;
use crate::cli::Error;
use crate::cli::cluster::{said, unanswered};
use crate::cli::place::{One, Place, data_of, get};
use crate::failure_log::{LOG_KEY, config_map};
use crate::observe::live;
use crate::observe::raw_object::RawObject;

/// What was kept of the log of a failure; `unread` says why the log of the pod, which exists, cannot be read. Only the log of
/// one container is kept: `wanted` is the container that the user named.
///
/// # Errors
/// Nothing was kept of that container, or the user may not read it.
pub(super) async fn log(
    place: &Place,
    one: &One,
    attempt: i32,
    failure: &FailureRecord,
    wanted: Option<&str>,
    unread: Option<String>,
) -> Result<Log, Error> {
    let pod = failure.pod.clone().unwrap_or_default();
    let wrapper = format!("AppWrapper {}/{}", place.namespace, one.wrapper.name);
    let of = format!("{wrapper}: the log of pod {pod} (attempt {attempt})");
    let no = |why: String| Err(Error::Negative(format!("{of}: {why}")));
    let Some(name) = failure.pod_uid.as_deref().and_then(config_map) else {
        return no("the status has no valid UID of the pod".to_owned());
    };
    let resource = ApiResource::erase::<ConfigMap>(&());
    let seen = match get(&place.client, &resource, Some(&place.namespace), &name).await {
        Ok(seen) => seen,
        Err(error) if live::code(&error) == Some(404) => {
            return Err(Error::Negative(format!("{of}{}", not_kept(unread.as_deref()))));
        }
        Err(error) if live::code(&error) == Some(403) => return no(said(&error)),
        Err(error) => return Err(unanswered(&error)),
    };
    match text(&seen, &one.wrapper.uid) {
        Some((container, _)) if !is_wanted(&container, wanted) => {
            no(format!("only the log of container {container} was kept"))
        }
        Some((container, text)) => {
            Ok(Log { attempt: Some(attempt), pod, container, kept: true, text, is_cut: false })
        }
        None => no(format!("ConfigMap {name} does not belong to this AppWrapper")),
    }
}

/// That a log was not kept, and why it is not there.
fn not_kept(unread: Option<&str>) -> String {
    let why = unread.map_or_else(
        || ": the pod was deleted, and its log was not kept".to_owned(),
        |why| format!(" cannot be read, and was not kept: {why}"),
    );
    format!(
        "{why}; the controller keeps logs if failureLogs.enabled is set; if it could not read or store this \
         one, the controller's log says why"
    )
}

/// Whether the log of this container is asked for.
fn is_wanted(container: &str, wanted: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| wanted == container)
}

/// Container and log of a ConfigMap that an AppWrapper owns.
fn text(seen: &RawObject, owner: &str) -> Option<(String, String)> {
    let owners = seen.meta.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|each| each.uid == owner)?;
    let mut data = data_of(seen)?;
    Some((data.remove("container").unwrap_or_default(), data.remove(LOG_KEY)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_config_map_of_the_appwrapper_is_its_log() {
        let seen = |owner: &str, key: &str| -> RawObject {
            let owner =
                json!({"apiVersion": "a/v1", "kind": "AppWrapper", "name": "aw", "uid": owner});
            let object = json!({"metadata": {"name": "c", "ownerReferences": [owner]},
                "data": {"container": "main", key: "one\ntwo"}});
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let want = Some(("main".to_owned(), "one\ntwo".to_owned()));
        assert_eq!(text(&seen("u", "log"), "u"), want);
        assert_eq!(text(&seen("other", "log"), "u"), None);
        assert_eq!(text(&seen("u", "text"), "u"), None);
    }

    #[test]
    fn a_log_that_was_not_kept_is_one_sentence() {
        for (unread, want) in [
            (
                None,
                "the log of pod p: the pod was deleted, and its log was not kept; the controller",
            ),
            (Some("no"), "the log of pod p cannot be read, and was not kept: no; the controller"),
        ] {
            let said = format!("the log of pod p{}", not_kept(unread));
            assert!(said.starts_with(want), "{said}");
        }
    }

    #[test]
    fn the_log_of_another_container_is_not_shown() {
        let is = |wanted| is_wanted("main", wanted);
        assert_eq!([None, Some("main"), Some("sidecar")].map(is), [true, true, false]);
    }
}
