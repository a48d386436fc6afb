//! The controller's configuration, as a user's command knows it: from a file, from the cluster, or assumed.

use std::path::Path;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::core::ApiResource;

use super::cluster::said;
use super::place::{data_of, get};
use super::{Error, configured};
use crate::config::Config;
use crate::observe::assemble::Wrapper;
use crate::telemetry;

/// Namespace, name and key of the ConfigMap from which the manifests start the controller.
const PLACE: (&str, &str, &str) = ("appwrapper-system", "appwrapper-config", "appwrapper.yaml");

/// What is assumed where files are read, and no configuration is named.
pub(super) const ASSUMED: &str =
    "assuming the default configuration: the files do not contain that of the controller";

/// A configuration, and what is not certain about it.
#[derive(Clone, Debug, Default)]
pub(super) struct ControllerConfig {
    pub config: Config,
    /// Why these are defaults that the controller may not have; none where it is known.
    pub doubt: Option<String>,
}

/// What is assumed about an AppWrapper that was read from files, where no configuration is named. One without a phase
/// is a manifest: no controller has seen it.
pub(super) fn assumed(wrapper: &Wrapper) -> Option<String> {
    (!wrapper.status.phase.is_empty()).then(|| ASSUMED.to_owned())
}

impl ControllerConfig {
    /// The configuration of a file, where one is named; else that of the cluster.
    ///
    /// # Errors
    /// The file cannot be read, or is invalid.
    pub(super) async fn of(file: Option<&Path>, client: &Client) -> Result<Self, Error> {
        match file {
            Some(_) => Ok(Self { config: configured(file)?, doubt: None }),
            None => Ok(Self::of_cluster(client).await),
        }
    }

    /// The configuration in the ConfigMap of the manifests. Not everybody may read it, and a controller
    /// may have been started otherwise: then the defaults are assumed, and `doubt` says why.
    pub(super) async fn of_cluster(client: &Client) -> Self {
        let (namespace, name, key) = PLACE;
        let resource = ApiResource::erase::<ConfigMap>(&());
        let text = match get(client, &resource, Some(namespace), name).await {
            Ok(seen) => {
                let data = data_of(&seen).unwrap_or_default();
                data.get(key).cloned().ok_or_else(|| format!("it has no key {key}"))
            }
            Err(error) => Err(said(&error)),
        };
        Self::read(text)
    }

    fn read(text: Result<String, String>) -> Self {
        let (namespace, name, _) = PLACE;
        let config =
            text.and_then(|text| Config::parse(&text).map_err(|error| telemetry::chain(&error)));
        match config {
            Ok(config) => Self { config, doubt: None },
            Err(why) => {
                let doubt = format!(
                    "assuming the default configuration: cannot read ConfigMap \
                     {namespace}/{name}: {why}"
                );
                Self { config: Config::default(), doubt: Some(doubt) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Phase;

    #[test]
    fn what_files_do_not_contain_is_assumed_and_said() {
        for (phase, want) in [(Phase::Running, true), (Phase::Empty, false)] {
            let mut wrapper = Wrapper::default();
            wrapper.status.phase = phase;
            assert_eq!(assumed(&wrapper).is_some(), want, "{phase:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_assumed_and_said() {
        let known = ControllerConfig::read(Ok("faultTolerance: {retryPausePeriod: 7s}".to_owned()));
        assert_eq!(known.config.fault_tolerance.retry_pause.to_string(), "7s");
        assert_eq!(known.doubt, None);
        for text in [Err("forbidden".to_owned()), Ok("unknownKey: 1".to_owned())] {
            let known = ControllerConfig::read(text);
            assert_eq!(known.config.fault_tolerance.retry_pause.to_string(), "1m30s");
            let doubt = known.doubt.unwrap();
            assert!(doubt.contains("appwrapper-system/appwrapper-config"), "{doubt}");
        }
    }
}
