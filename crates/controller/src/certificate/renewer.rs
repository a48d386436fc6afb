//! Continuously carries out the plan for the certificate.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Client, Resource};

use super::configuration;
use super::generation::{self, Generation};
use super::lifetimes::Lifetimes;
use super::name::{Name, Names};
use super::plan::{Change, Rotation, WebhookState, plan};
use super::stored::{Certificates, Data};
use crate::client;
use crate::clock::Clock;
use crate::telemetry;
use crate::tls::Current;

/// Name of the Secret.
pub const SECRET: &str = "appwrapper-webhook-cert";
/// Name of the `ConfigMap` with the authorities alone, for who calls and must not see the key.
const CONFIG_MAP: &str = "appwrapper-webhook-ca";
/// Its key.
const AUTHORITIES: &str = "ca.crt";
/// Name of the Secret of the progress server.
const PROGRESS_SECRET: &str = "appwrapper-progress-cert";
/// Name of the `ConfigMap` with the authorities of the progress server.
const PROGRESS_CONFIG_MAP: &str = "appwrapper-progress-ca";
/// Name of the progress server's service.
pub const PROGRESS_SERVICE: &str = "appwrapper-progress-service";
/// Name of the webhook's service.
pub const SERVICE: &str = "appwrapper-webhook-service";
/// Name of the configuration of the mutating webhook.
pub const MUTATING: &str = "appwrapper-mutating-webhook";
/// Name of the configuration of the validating webhook.
pub const VALIDATING: &str = "appwrapper-validating-webhook";

/// After this many changes in a row without settling, another client is changing the same objects.
const CHANGES_MAX: usize = 12;
/// Pause after the first error; each further one doubles it.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after an error.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// Where the certificate is stored, and which webhook configurations trust it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNames {
    /// Namespace of the Secret and of the service.
    pub namespace: String,
    /// Name of the Secret.
    pub secret: String,
    /// Name of the `ConfigMap` with the authorities.
    pub config_map: String,
    /// Name of the service.
    pub service: String,
    /// The webhook configurations by which the server is called; none where it is no webhook.
    pub webhooks: Option<Webhooks>,
}

/// The webhook configurations that trust a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhooks {
    /// Name of the `MutatingWebhookConfiguration`.
    pub mutating: String,
    /// Name of the `ValidatingWebhookConfiguration`.
    pub validating: String,
}

impl CertificateNames {
    /// The usual names of the webhook's certificate, in a namespace.
    #[must_use]
    pub fn of(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            secret: SECRET.to_owned(),
            config_map: CONFIG_MAP.to_owned(),
            service: SERVICE.to_owned(),
            webhooks: Some(Webhooks {
                mutating: MUTATING.to_owned(),
                validating: VALIDATING.to_owned(),
            }),
        }
    }

    /// The names of the progress server's certificate, in a namespace.
    #[must_use]
    pub fn progress(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            secret: PROGRESS_SECRET.to_owned(),
            config_map: PROGRESS_CONFIG_MAP.to_owned(),
            service: PROGRESS_SERVICE.to_owned(),
            webhooks: None,
        }
    }
}

/// Keeps a certificate of its own in force.
pub struct Renewer {
    clock: Arc<dyn Clock>,
    current: Arc<Current>,
    lifetimes: Lifetimes,
    /// Names that the certificate always covers, in addition to those in the configurations.
    names: Names,
    secrets: Api<Secret>,
    secret: String,
    config_maps: Api<ConfigMap>,
    config_map: String,
    configurations: Vec<Configuration>,
    /// Is told the bundle, whenever all is as planned.
    told: Option<Told>,
    /// What was missing when it was last looked for, and has been warned of.
    missing: BTreeSet<String>,
}

/// Takes the bundle, PEM.
type Told = Box<dyn Fn(&str) + Send + Sync>;

struct Configuration {
    kind: String,
    name: String,
    api: Api<DynamicObject>,
}

/// Why the certificate could not be kept up.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot {verb} {what}")]
    Api { verb: &'static str, what: String, source: Box<kube::Error> },
    #[error(transparent)]
    Make(#[from] generation::Error),
    #[error(
        "{what} do not match the desired state after {CHANGES_MAX} changes: another client may change them"
    )]
    Unsettled { what: String },
}

impl Error {
    /// The object has changed since it was read.
    fn is_conflict(&self) -> bool {
        match self {
            Self::Api { source, .. } => {
                matches!(&**source, kube::Error::Api(status) if status.code == 409)
            }
            Self::Make(_) | Self::Unsettled { .. } => false,
        }
    }
}

fn cannot(verb: &'static str, kind: &str, name: &str) -> impl FnOnce(kube::Error) -> Error + use<> {
    let what = format!("{kind}/{name}");
    move |source| Error::Api { verb, what, source: source.into() }
}

/// The state that was read.
struct ClusterState {
    configurations: Vec<DynamicObject>,
    faced: WebhookState,
    secret: Option<Secret>,
    data: Data,
    stored: Certificates,
}

impl Renewer {
    /// A renewer with the usual lifetimes.
    #[must_use]
    pub fn new(
        client: &Client,
        clock: Arc<dyn Clock>,
        current: Arc<Current>,
        names: CertificateNames,
    ) -> Self {
        let CertificateNames { namespace, secret, config_map, service, webhooks } = names;
        let secrets = Api::namespaced(client.clone(), &namespace);
        let config_maps = Api::namespaced(client.clone(), &namespace);
        let configurations = webhooks.map_or_else(Vec::new, |Webhooks { mutating, validating }| {
            vec![
                Configuration::of::<MutatingWebhookConfiguration>(client, mutating),
                Configuration::of::<ValidatingWebhookConfiguration>(client, validating),
            ]
        });
        let mut names = configuration::of_service(&service, &namespace);
        names.extend(Name::parse("localhost"));
        let (lifetimes, missing) = (Lifetimes::default(), BTreeSet::new());
        Self {
            clock,
            current,
            lifetimes,
            names,
            secrets,
            secret,
            config_maps,
            config_map,
            configurations,
            told: None,
            missing,
        }
    }

    /// A name that the certificate covers as well, such as that of a URL.
    #[must_use]
    pub fn with_name(mut self, name: Option<Name>) -> Self {
        self.names.extend(name);
        self
    }

    /// Somebody who is told the bundle of authorities, PEM, whenever all is as planned.
    #[must_use]
    pub fn telling(mut self, told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.told = Some(Box::new(told));
        self
    }

    /// Other lifetimes.
    #[must_use]
    pub fn with_lifetimes(mut self, lifetimes: Lifetimes) -> Self {
        self.lifetimes = lifetimes;
        self
    }

    /// Maintains the certificate forever. Errors are logged and retried; the served certificate stays.
    pub async fn run(mut self) {
        let mut changes = pin!(self.changes());
        let mut failures = 0;
        loop {
            // what has changed up to here is seen by this look
            while changes.next().now_or_never().flatten().is_some() {}
            match self.look().await {
                Ok(moment) => {
                    failures = 0;
                    tokio::select! {
                        () = tokio::time::sleep(self.clock.until(moment)) => {}
                        told = changes.next() => if told.is_none() { return },
                    }
                }
                Err(error) => {
                    let cause = telemetry::chain(&error);
                    tracing::warn!(
                        cause,
                        secret = self.secret,
                        "Failed to maintain the certificate; retrying."
                    );
                    // no change ends the pause: where another writer undoes what is written here, each write is one
                    let pause = PAUSE.saturating_mul(1 << failures.min(6)).min(PAUSE_MAX);
                    failures += 1;
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Tells when the Secret or a configuration may have changed.
    fn changes(&self) -> impl Stream<Item = ()> + use<> {
        let of = |changed: Result<bool, kube::runtime::watcher::Error>| {
            if let Err(error) = &changed {
                let cause = telemetry::chain(error);
                tracing::warn!(cause, "A watch of the certificate failed.");
            }
            std::future::ready(changed.is_ok().then_some(()))
        };
        let secret = watch_object(self.secrets.clone(), &self.secret);
        let secret = secret
            .backoff(client::watch_backoff())
            .map(|it| it.map(|it| it.is_some()))
            .filter_map(of);
        let authorities = watch_object(self.config_maps.clone(), &self.config_map);
        let authorities = authorities
            .backoff(client::watch_backoff())
            .map(|it| it.map(|it| it.is_some()))
            .filter_map(of);
        let secret = stream::select(secret, authorities);
        let configurations = self.configurations.iter().map(|configuration| {
            watch_object(configuration.api.clone(), &configuration.name)
                .backoff(client::watch_backoff())
                .map(|it| it.map(|it| it.is_some()))
                .filter_map(of)
                .boxed()
        });
        stream::select(secret, stream::select_all(configurations))
    }

    /// Reads everything and makes the planned changes, until none is left. Returns when to read again.
    async fn look(&mut self) -> Result<Timestamp, Error> {
        for _ in 0..CHANGES_MAX {
            let (look, unread) = self.read().await?;
            let now = self.clock.now();
            let is_tidy = look.stored.is_all_of(&look.data);
            let plan = plan(&look.stored, is_tidy, &look.faced, now, self.lifetimes);
            self.serve(&plan);
            if let Some(error) = unread {
                // what it trusts is not known, so nothing changes; the others should trust what is served
                drop(self.trust(&look.configurations, plan.bundle.as_deref()).await);
                return Err(error);
            }
            if let Some(change) = plan.change {
                match self.write(&look, change, now).await {
                    Ok(()) => tracing::info!("{}", change.as_str()),
                    Err(error) if error.is_conflict() => {}
                    Err(error) => {
                        // while the Secret cannot be written nothing comes into use, and what is
                        // should be trusted
                        drop(self.trust(&look.configurations, plan.bundle.as_deref()).await);
                        return Err(error);
                    }
                }
            } else {
                let trusted = self.trust(&look.configurations, plan.bundle.as_deref()).await;
                // a configuration that cannot be written keeps no other client from trusting what is served
                let published = match trusted {
                    Ok(true) => Ok(()),
                    Ok(false) | Err(_) => self.publish(plan.bundle.as_deref()).await,
                };
                let is_changed = trusted?;
                published?;
                if !is_changed {
                    if let (Some(told), Some(bundle)) = (&self.told, &plan.bundle) {
                        told(bundle);
                    }
                    return Ok(plan.look_again);
                }
            }
        }
        let mut names = vec![format!("Secret/{}", self.secret)];
        names.extend(self.configurations.iter().map(|it| format!("{}/{}", it.kind, it.name)));
        Err(Error::Unsettled { what: names.join(", ") })
    }

    /// Reads the configurations, and only then the Secret: see [`super::plan`]. The first error of a configuration comes beside
    /// what was read: it keeps nobody from serving the certificate that is there.
    async fn read(&mut self) -> Result<(ClusterState, Option<Error>), Error> {
        let mut faced = WebhookState { names: self.names.clone(), bundles: vec![] };
        let (mut configurations, mut unread) = (vec![], None);
        for Configuration { kind, name, api } in &self.configurations {
            let found = match api.get_opt(name).await.map_err(cannot("read", kind, name)) {
                Ok(found) => found,
                Err(error) => {
                    unread.get_or_insert(error);
                    continue;
                }
            };
            let Some(found) = found else {
                if self.missing.insert(name.clone()) {
                    tracing::warn!("{kind}/{name} not found: its admission checks are disabled.");
                }
                continue;
            };
            self.missing.remove(name);
            faced.names.extend(configuration::names(&found));
            faced.bundles.extend(configuration::bundles(&found));
            configurations.push(found);
        }
        let secret = self.secrets.get_opt(&self.secret).await;
        let secret = secret.map_err(cannot("read", "Secret", &self.secret))?;
        let data = secret.as_ref().and_then(|secret| secret.data.clone()).unwrap_or_default();
        let data: Data = data.into_iter().map(|(key, ByteString(bytes))| (key, bytes)).collect();
        let stored = Certificates::read(&data);
        Ok((ClusterState { configurations, faced, secret, data, stored }, unread))
    }

    fn serve(&self, plan: &Rotation<'_>) {
        let Some(served) = plan.serve else { return };
        if self.current.pair().as_ref() != Some(served.pair()) {
            let (from, until) = (served.pair().not_before(), served.pair().not_after());
            tracing::info!(%from, %until, "Serving a new certificate.");
            self.current.set(served.pair().clone());
        }
    }

    /// Writes a change of the Secret, guarded by the version that was read.
    async fn write(
        &self,
        look: &ClusterState,
        change: Change,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut stored = look.stored.clone();
        let make = || Generation::make(&look.faced.names, self.lifetimes.valid(now));
        change.apply(&mut stored, now, make)?;
        let mut data = look.data.clone();
        stored.write(&mut data);
        let mut secret = look.secret.clone().unwrap_or_default();
        secret.metadata.name = Some(self.secret.clone());
        secret.data = Some(data.into_iter().map(|(key, it)| (key, ByteString(it))).collect());
        let (params, failed) = (PostParams::default(), cannot("write", "Secret", &self.secret));
        if look.secret.is_some() {
            self.secrets.replace(&self.secret, &params, &secret).await.map_err(failed)?;
        } else {
            self.secrets.create(&params, &secret).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Sets the bundle in the `ConfigMap`, for clients that do not use a webhook configuration.
    async fn publish(&self, bundle: Option<&str>) -> Result<(), Error> {
        let Some(bundle) = bundle else { return Ok(()) };
        let (kind, name, params) = ("ConfigMap", self.config_map.as_str(), PostParams::default());
        let found = self.config_maps.get_opt(name).await.map_err(cannot("read", kind, name))?;
        let exists = found.is_some();
        let mut wanted = found.unwrap_or_default();
        let data = wanted.data.get_or_insert_default();
        if data.get(AUTHORITIES).is_some_and(|held| held == bundle) {
            return Ok(());
        }
        data.insert(AUTHORITIES.to_owned(), bundle.to_owned());
        wanted.metadata.name = Some(name.to_owned());
        let written = if exists {
            self.config_maps.replace(name, &params, &wanted).await
        } else {
            self.config_maps.create(&params, &wanted).await
        };
        bundle_written(written, kind, name)
    }

    /// Sets the bundle in the configurations; returns whether they must be read again. One that cannot be written keeps no other
    /// from it; the first error is returned.
    async fn trust(
        &self,
        configurations: &[DynamicObject],
        bundle: Option<&str>,
    ) -> Result<bool, Error> {
        let Some(bundle) = bundle else { return Ok(false) };
        let (mut changed, mut failed) = (false, None);
        for found in configurations {
            let mut wanted = found.clone();
            if !configuration::trust(&mut wanted, bundle) {
                continue;
            }
            changed = true;
            let of_it = |it: &&Configuration| {
                Some(&it.kind) == found.types.as_ref().map(|types| &types.kind)
            };
            let Some(Configuration { kind, name, api }) = self.configurations.iter().find(of_it)
            else {
                continue;
            };
            let written = api.replace(name, &PostParams::default(), &wanted).await;
            if let Err(error) = bundle_written(written, kind, name) {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(changed), Err)
    }
}

/// The CA bundle was written, or another replica was first, and its write is seen.
fn bundle_written<T>(written: Result<T, kube::Error>, kind: &str, name: &str) -> Result<(), Error> {
    match written.map_err(cannot("write", kind, name)) {
        Ok(_) => tracing::info!("Updated the CA bundle in {kind}/{name}."),
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

impl Configuration {
    fn of<K: Resource<DynamicType = ()>>(client: &Client, name: String) -> Self {
        let resource = ApiResource::erase::<K>(&());
        let api = Api::all_with(client.clone(), &resource);
        Self { kind: resource.kind, name, api }
    }
}

#[cfg(test)]
mod tests;
