//! Follows Kueue's configuration: one `ConfigMap`, read again whenever it changes.
//!
//! What cannot be read changes nothing: the last settings that were read stay, and without any the controller
//! works as if Kueue evicted nothing for its pods.

use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};

use super::kueue::{self, DEFAULT_CONFIG_MAP, Manager, Place, Settings};
use crate::client;
use crate::config::Config;
use crate::kueue::KueueSettings;
use crate::observe::live;
use crate::telemetry;

/// First and longest pause before Kueue's Deployment is read again.
const PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(5));

/// Watches Kueue's `ConfigMap`, and tells what it says of AppWrappers, now and whenever that changes. Where there is none, or it
/// may not be read, it tells that nothing is known. Ends only where Kueue runs without a configuration file.
pub async fn follow(client: Client, config: &Config, mut tell: impl FnMut(KueueSettings)) {
    let place = Place::of(&config.admission.kueue_account);
    let manager = manager(&client, &place).await;
    let name = manager.as_ref().map_or(Some(DEFAULT_CONFIG_MAP), |it| it.config_map.as_deref());
    let Some(name) = name else {
        return tell(Settings::default().of_appwrappers(manager.as_ref()));
    };
    let file = place.config_map(name);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &place.namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = Box::pin(changes(watch(maps, only).backoff(client::watch_backoff()), &file));
    let mut known = None;
    while let Some(read) = changes.next().await {
        let Some(settings) = read else {
            if known.is_none() {
                tell(KueueSettings::default());
            }
            continue;
        };
        // Kueue is restarted for another configuration, perhaps as another version
        let newer = kueue::read_manager(&client, &place).await.ok();
        let settings = settings.of_appwrappers(newer.as_ref().or(manager.as_ref()));
        if known != Some(settings) {
            known = Some(settings);
            tracing::info!(?settings, "Read the configuration of Kueue.");
            tell(settings);
        }
    }
}

/// What Kueue's Deployment says; none where there is no such Deployment, or it may not be read. Any other error says
/// nothing about the name of the `ConfigMap`, so that the Deployment is read again.
async fn manager(client: &Client, place: &Place) -> Option<Manager> {
    let (mut pause, longest) = PAUSE;
    loop {
        let error = match kueue::read_manager(client, place).await {
            Ok(manager) => return Some(manager),
            Err(error) => error,
        };
        if matches!(live::code(&error), Some(403 | 404)) {
            return None;
        }
        let cause = telemetry::chain(&error);
        tracing::warn!(cause, "Cannot read {}; retrying.", place.manager());
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(longest);
    }
}

/// The settings of each version of the `ConfigMap` that can be read; nothing where a list is complete or is refused, so that
/// none is to be expected. Errors are logged, once until one can be read.
fn changes(
    events: impl Stream<Item = Result<Event<ConfigMap>, watcher::Error>>,
    file: &str,
) -> impl Stream<Item = Option<Settings>> {
    let mut is_known_to_fail = false;
    events.filter_map(move |event| {
        let mut is_refused = false;
        let read = match event {
            Ok(Event::Apply(map) | Event::InitApply(map)) => Settings::of(&map),
            Ok(Event::InitDone) => return std::future::ready(Some(None)),
            // Kueue works on with what it has read
            Ok(Event::Init | Event::Delete(_)) => return std::future::ready(None),
            Err(error) => {
                is_refused = is_refusal(&error);
                Err(error.to_string())
            }
        };
        let is_new = !std::mem::replace(&mut is_known_to_fail, read.is_err());
        if let Err(error) = &read
            && is_new
        {
            tracing::warn!(
                error,
                "Cannot watch {file}: changes to Kueue's waitForPodsReady are not detected."
            );
        }
        std::future::ready(match read {
            Ok(settings) => Some(Some(settings)),
            Err(_) => is_refused.then_some(None),
        })
    })
}

fn is_refusal(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            matches!(live::code(error), Some(403 | 404))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::Request;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    fn map(text: &str) -> ConfigMap {
        let file = ("controller_manager_config.yaml".to_owned(), text.to_owned());
        ConfigMap { data: Some(BTreeMap::from([file])), ..ConfigMap::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deployment_that_cannot_be_read_now_is_read_again() {
        for (codes, want) in [
            (vec![200], Some("own-config")),
            (vec![429, 500, 200], Some("own-config")),
            (vec![500, 404], None),
            (vec![403], None),
        ] {
            let left = Arc::new(Mutex::new(codes.clone().into_iter()));
            let asked = left.clone();
            let service = tower::service_fn(move |_: Request<Body>| {
                let code = asked.lock().unwrap().next().unwrap();
                let container = json!({"name": "m", "image": "kueue:v0.18.3",
                    "args": ["--config=/controller_manager_config.yaml"],
                    "volumeMounts": [{"name": "manager-config", "mountPath": "/"}]});
                let deployment = json!({"spec": {"selector": {}, "template": {"spec": {
                    "containers": [container],
                    "volumes": [{"name": "manager-config", "configMap": {"name": "own-config"}}]}}}});
                let failure = json!({"status": "Failure", "code": code});
                let body = if code == 200 { deployment } else { failure };
                let body = Body::from(body.to_string().into_bytes());
                let answer = http::Response::builder().status(code).body(body).unwrap();
                async move { Ok::<_, Infallible>(answer) }
            });
            let place = Place::of("system:serviceaccount:kueue-system:kueue-controller-manager");
            let manager = manager(&Client::new(service, "default"), &place).await;
            let map = manager.and_then(|it| it.config_map);
            assert_eq!(map.as_deref(), want, "{codes:?}");
            assert_eq!(left.lock().unwrap().len(), 0, "{codes:?}");
        }
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
        let read: Vec<Option<Settings>> =
            changes(futures::stream::iter(events), "ConfigMap a/b").collect().await;
        let told: Vec<bool> = read.iter().map(Option::is_some).collect();
        assert_eq!(told, [true, false, true], "the end of the list, too");
        let timeouts: Vec<String> = read
            .iter()
            .flatten()
            .filter_map(|each| each.of_appwrappers(None).wait_for_pods_ready)
            .map(|each| each.timeout.to_string())
            .collect();
        assert_eq!(timeouts, ["5m", "3m"]);
    }
}
