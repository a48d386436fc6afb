//! Follows Kueue's configuration: one `ConfigMap`, read again whenever it changes, and the Deployment, read again then and every
//! few minutes.
//!
//! What cannot be read changes nothing: the last settings that were read stay, and without any the controller
//! works as if Kueue evicted nothing for its pods.

use std::time::Duration;

use futures::{Stream, StreamExt, stream};
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

/// First and longest pause before Kueue's Deployment is read again after an error; the longest is also how often it is read while
/// nothing else changes.
const PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(5));

/// Watches Kueue's `ConfigMap` and reads its Deployment now and then, and tells what they say of AppWrappers, now and whenever
/// that changes. Where there is no `ConfigMap`, or it may not be read, it tells that nothing is known. Never ends.
pub async fn follow(client: Client, config: &Config, tell: impl FnMut(KueueSettings)) {
    let place = Place::of(&config.admission.kueue_account);
    let mut manager = manager(&client, &place).await;
    let mut teller = Teller { told: None, tell };
    loop {
        manager = follow_file(&client, &place, manager, &mut teller).await;
    }
}

/// Tells settings that are not those that were told last.
struct Teller<F> {
    told: Option<KueueSettings>,
    tell: F,
}

impl<F: FnMut(KueueSettings)> Teller<F> {
    fn tell(&mut self, settings: KueueSettings) {
        if self.told == Some(settings) {
            return;
        }
        self.told = Some(settings);
        tracing::info!(?settings, "Read the configuration of Kueue.");
        (self.tell)(settings);
    }

    /// Tells that nothing is known, where nothing was told.
    fn tell_nothing(&mut self) {
        if self.told.is_none() {
            (self.tell)(KueueSettings::default());
        }
    }
}

/// Follows the `ConfigMap` that the Deployment names, until it names another, which is returned. A Deployment without a
/// configuration file has the defaults of its version.
async fn follow_file(
    client: &Client,
    place: &Place,
    mut manager: Option<Manager>,
    teller: &mut Teller<impl FnMut(KueueSettings)>,
) -> Option<Manager> {
    let name = file_of(manager.as_ref()).map(str::to_owned);
    let file = place.config_map(name.as_deref().unwrap_or(DEFAULT_CONFIG_MAP));
    let (mut settings, mut changes) = match &name {
        Some(name) => {
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &place.namespace);
            let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let events = watch(maps, only).backoff(client::watch_backoff());
            (None, changes(events, &file).boxed())
        }
        None => (Some(Settings::default()), stream::pending().boxed()),
    };
    let mut again = tokio::time::interval(PAUSE.1);
    again.reset(); // the Deployment was read a moment ago
    loop {
        if let Some(settings) = &settings {
            teller.tell(settings.of_appwrappers(manager.as_ref()));
        }
        tokio::select! {
            Some(read) = changes.next() => {
                if read.is_none() {
                    teller.tell_nothing();
                    continue;
                }
                settings = read;
            }
            _ = again.tick() => {}
        }
        // Kueue is restarted for another configuration, perhaps as another version. An upgrade changes the ConfigMap before the
        // Deployment, or the Deployment alone. What cannot be read now is as it was.
        let Ok(newer) = kueue::read_manager(client, place).await else { continue };
        let is_moved = file_of(Some(&newer)) != name.as_deref();
        manager = Some(newer);
        if is_moved {
            return manager;
        }
    }
}

/// The name of the `ConfigMap` that a Deployment reads, or the usual one where the Deployment is not known.
fn file_of(manager: Option<&Manager>) -> Option<&str> {
    manager.map_or(Some(DEFAULT_CONFIG_MAP), |it| it.config_map.as_deref())
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
        if is_refusal(&error) {
            return None;
        }
        let cause = telemetry::chain(&error);
        tracing::warn!(cause, "Cannot read {}; retrying.", place.manager());
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(longest);
    }
}

/// Whether something is not there, or may not be read.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(live::code(error), Some(403 | 404))
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
                is_refused = live::watch_error(&error).is_some_and(is_refusal);
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

    /// The version and the feature gates of Kueue are in its Deployment, which an upgrade changes after the `ConfigMap`.
    #[tokio::test(start_paused = true)]
    async fn a_deployment_that_changes_alone_is_read_in_time() {
        let file = "--config=/controller_manager_config.yaml";
        for (before, after, minutes, want) in [
            (vec![file], vec![file], 4, vec![false]),
            (vec![file], vec![file], 6, vec![false, true]),
            (vec![], vec![], 6, vec![false, true]),
            // it has a configuration file from now on, or none any more
            (vec![], vec![file], 6, vec![false, true]),
            (vec![file], vec![], 6, vec![false, true]),
        ] {
            let begun = tokio::time::Instant::now();
            let (of_before, of_after) = (before.clone(), after.clone());
            let service = tower::service_fn(move |request: Request<Body>| {
                let is_before = begun.elapsed() < Duration::from_mins(1);
                let (version, args) =
                    if is_before { ("v0.13.0", &of_before) } else { ("v0.18.3", &of_after) };
                let container =
                    json!({"name": "m", "image": format!("kueue:{version}"), "args": args});
                let deployment = json!({"spec": {"selector": {}, "template": {"spec": {
                    "containers": [container]}}}});
                let map = json!({"metadata": {"name": DEFAULT_CONFIG_MAP, "resourceVersion": "1"},
                    "data": {"controller_manager_config.yaml":
                        "apiVersion: config.kueue.x-k8s.io/v1beta2"}});
                let maps = json!({"metadata": {"resourceVersion": "1"}, "items": [map]});
                let is_watch = request.uri().query().is_some_and(|it| it.contains("watch=true"));
                let is_map = request.uri().path().ends_with("/configmaps");
                let body = if is_map { maps } else { deployment };
                let body = Body::from(body.to_string().into_bytes());
                async move {
                    if is_watch {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Infallible>(http::Response::builder().body(body).unwrap())
                }
            });
            let client = Client::new(service, "default");
            let (config, mut told) = (Config::default(), vec![]);
            let follows =
                follow(client, &config, |settings| told.push(settings.replaces_failed_nodes));
            let ended = tokio::time::timeout(Duration::from_mins(minutes), follows).await;
            assert!(ended.is_err(), "{before:?} {after:?}");
            assert_eq!(told, want, "{before:?} {after:?}, {minutes} min");
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
