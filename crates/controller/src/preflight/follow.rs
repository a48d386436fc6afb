//! Follows Kueue's configuration: one `ConfigMap`, read again whenever it changes.
//!
//! What cannot be read changes nothing: the last settings that were read stay, and without any the controller
//! works as if Kueue evicted nothing for its pods.

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};

use super::kueue::{self, DEFAULT_CONFIG_MAP, Manager, Place, Settings};
use crate::config::Config;
use crate::kueue::KueueSettings;

/// Watches Kueue's `ConfigMap`, and tells what it says of AppWrappers, now and whenever that changes. Ends only where
/// Kueue runs without a configuration file.
pub async fn follow(client: Client, config: &Config, mut tell: impl FnMut(KueueSettings)) {
    let place = Place::of(&config.admission.kueue_account);
    let manager = kueue::manager(&client, &place).await.ok();
    let name = manager.as_ref().map_or(Some(DEFAULT_CONFIG_MAP), |it| it.config_map.as_deref());
    let Some(name) = name else {
        return tell(Settings::default().of_appwrappers(manager.as_ref()));
    };
    let file = place.config_map(name);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &place.namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = Box::pin(changes(watch(maps, only).default_backoff(), &file));
    let mut known = None;
    while let Some(settings) = changes.next().await {
        // Kueue is restarted for another configuration, perhaps as another version
        let newer: Option<Manager> = kueue::manager(&client, &place).await.ok();
        let settings = settings.of_appwrappers(newer.as_ref().or(manager.as_ref()));
        if known != Some(settings) {
            known = Some(settings);
            tracing::info!(?settings, "Read the configuration of Kueue.");
            tell(settings);
        }
    }
}

/// The settings of each version of the `ConfigMap` that can be read. Errors are logged, once until one can be read.
fn changes(
    events: impl Stream<Item = Result<Event<ConfigMap>, watcher::Error>>,
    file: &str,
) -> impl Stream<Item = Settings> {
    let mut is_known_to_fail = false;
    events.filter_map(move |event| {
        let read = match event {
            Ok(Event::Apply(map) | Event::InitApply(map)) => Settings::of(&map),
            // Kueue works on with what it has read
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {
                return std::future::ready(None);
            }
            Err(error) => Err(error.to_string()),
        };
        let is_new = !std::mem::replace(&mut is_known_to_fail, read.is_err());
        if let Err(error) = &read
            && is_new
        {
            tracing::warn!(
                error,
                "Cannot follow {file}: changes of Kueue's waitForPodsReady are not seen."
            );
        }
        std::future::ready(read.ok())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn map(text: &str) -> ConfigMap {
        let file = ("controller_manager_config.yaml".to_owned(), text.to_owned());
        ConfigMap { data: Some(BTreeMap::from([file])), ..ConfigMap::default() }
    }

    #[tokio::test]
    async fn what_cannot_be_read_changes_nothing() {
        let timeout = |timeout: &str| {
            map(&format!(
                "apiVersion: config.kueue.x-k8s.io/v1beta2\nwaitForPodsReady: {{timeout: {timeout}}}"
            ))
        };
        let long = map(&format!("#{}", "x".repeat(1 << 20)));
        let events = vec![
            Ok(Event::Init),
            Ok(Event::InitApply(timeout("5m"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(timeout("soon"))),
            Ok(Event::Apply(ConfigMap::default())),
            Ok(Event::Apply(long)),
            Err(watcher::Error::NoResourceVersion),
            Ok(Event::Delete(timeout("5m"))),
            Ok(Event::Apply(timeout("3m"))),
        ];
        let settings: Vec<Settings> =
            changes(futures::stream::iter(events), "ConfigMap a/b").collect().await;
        let timeouts: Vec<String> = settings
            .iter()
            .filter_map(|each| each.of_appwrappers(None).wait_for_pods_ready)
            .map(|each| each.timeout.to_string())
            .collect();
        assert_eq!(timeouts, ["5m", "3m"]);
    }
}
