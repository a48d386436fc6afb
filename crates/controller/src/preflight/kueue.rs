//! Kueue as it is installed: its version, feature gates and configuration, from the objects of its
//! usual manifests and of its chart.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container};
use kube::Client;
use kube::api::Api;
use serde_json::Value;

use super::quota::{OnDelete, Version, on_delete};
use super::{Notice, fit};
use crate::api::keys;
use crate::config::Config;
use crate::discovery;
use crate::kueue::{KueueSettings, WaitForPodsReady};
use crate::telemetry;
use crate::tuning::{FaultTolerance, Period};

/// The integration without which Kueue does not see AppWrappers.
const FRAMEWORK: &str = "workload.codeflare.dev/appwrapper";
/// The first version of Kueue that has it: an earlier one does not start with it.
const FRAMEWORK_SINCE: Version = Version::new(0, 11, 0);
/// The first version of Kueue that this controller works with.
const REQUIRED: Version = Version::new(0, 18, 0);

/// The integration by which Kueue admits pods by themselves.
const PODS: &str = "pod";

/// Kinds with pods that the controller may create by default, and that Kueue does not know as owners of pods: only these
/// names make it look for their AppWrapper.
const UNKNOWN_OWNERS: [&str; 2] = ["Job.v1alpha1.batch.volcano.sh", "MPIJob.v1.kubeflow.org"];

/// The gate behind which Kueue finishes the Workload of an owner that is going.
pub(super) const ORPHANS: &str = "FinishOrphanedWorkloads";

/// Where Kueue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) deployment: String,
}

impl Place {
    /// Kueue's manifests and its chart give the Deployment the name of its service account.
    pub(super) fn of(account: &str) -> Self {
        let parts: Vec<&str> = account.split(':').collect();
        let (namespace, deployment) = match parts.as_slice() {
            ["system", "serviceaccount", namespace, name] => (*namespace, *name),
            _ => ("kueue-system", "kueue-controller-manager"),
        };
        Self { namespace: namespace.to_owned(), deployment: deployment.to_owned() }
    }

    /// The Deployment, as it is named in a notice.
    pub(super) fn manager(&self) -> String {
        format!("Deployment {}/{}", self.namespace, self.deployment)
    }

    /// A `ConfigMap` beside it, as it is named in a notice.
    pub(super) fn config_map(&self, name: &str) -> String {
        format!("ConfigMap {}/{name}", self.namespace)
    }
}

/// What the Deployment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) image: String,
    pub(super) version: Option<Version>,
    /// Name of its service account.
    account: Option<String>,
    /// Feature gates of the command line; those of the configuration then do not count.
    pub(super) gates: Option<BTreeMap<String, bool>>,
    /// Name of the `ConfigMap` that holds its configuration; none where it runs without one.
    pub(super) config_map: Option<String>,
}

/// What the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) gates: BTreeMap<String, bool>,
    frameworks: Vec<String>,
    external_frameworks: Vec<String>,
    /// `manageJobsWithoutQueueName`.
    manages_all: bool,
    /// `v1beta1`, where the section has to be switched on.
    is_old: bool,
    pods_ready: Option<Waiting>,
}

/// `waitForPodsReady`, as it stands there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waiting {
    enable: bool,
    timeout: Option<Period>,
    recovery: Option<Period>,
    /// `blockAdmission`: nothing is admitted while an admitted Workload is not ready.
    blocks: Option<bool>,
}

pub(super) const DEFAULT_CONFIG_MAP: &str = "kueue-manager-config";
const CONFIG_KEY: &str = "controller_manager_config.yaml";
/// The longest configuration that is read.
const CONFIG_BYTES_MAX: usize = 128 << 10;

impl Manager {
    pub(super) fn of(deployment: &Deployment) -> Self {
        let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let containers = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
        let named = containers.iter().find(|container| container.name == "manager");
        let container = named.or_else(|| containers.first());
        let words = container.map(words).unwrap_or_default();
        let volumes = pod.and_then(|pod| pod.volumes.as_deref()).unwrap_or_default();
        let mounted = volumes
            .iter()
            .filter(|volume| volume.name == "manager-config")
            .find_map(|volume| Some(volume.config_map.as_ref()?.name.clone()));
        let image = container.and_then(|container| container.image.clone()).unwrap_or_default();
        Self {
            version: Version::of_image(&image),
            image,
            account: pod.and_then(|pod| pod.service_account_name.clone()),
            gates: flag(&words, "feature-gates").filter(|text| !text.is_empty()).map(gates),
            config_map: flag(&words, "config")
                .map(|_| mounted.unwrap_or_else(|| DEFAULT_CONFIG_MAP.to_owned())),
        }
    }
}

fn words(container: &Container) -> Vec<&str> {
    let all = container.command.iter().flatten().chain(container.args.iter().flatten());
    all.map(String::as_str).collect()
}

/// The value of a flag as Go reads them: one or two dashes, `=` or the next word; the last one counts.
fn flag<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    let mut found = None;
    for (i, word) in words.iter().enumerate() {
        let Some(text) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            continue;
        };
        match text.split_once('=') {
            Some((key, value)) if key == name => found = Some(value),
            None if text == name => found = words.get(i + 1).copied(),
            Some(_) | None => {}
        }
    }
    found
}

/// `A=true,B=false`.
fn gates(text: &str) -> BTreeMap<String, bool> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let read = pairs.filter_map(|(gate, value)| {
        let value = match value.trim() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return None,
        };
        Some((gate.trim().to_owned(), value))
    });
    read.collect()
}

impl Settings {
    /// Reads the `ConfigMap` that holds the configuration.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn of(map: &ConfigMap) -> Result<Self, String> {
        let text = map.data.as_ref().and_then(|data| data.get(CONFIG_KEY));
        let text = text.ok_or_else(|| format!("it has no key {CONFIG_KEY}"))?;
        if text.len() > CONFIG_BYTES_MAX {
            return Err(format!("{CONFIG_KEY} has more than {CONFIG_BYTES_MAX} bytes"));
        }
        Self::parse(text)
    }

    /// Reads a configuration file of Kueue, of `v1beta1` or `v1beta2`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // Kueue follows YAML 1.1, where yes is true as well
        let options = serde_saphyr::options! { with_snippet: false, strict_booleans: false };
        let file: Value = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| format!("invalid YAML: {error}"))?;
        let gates = file["featureGates"].as_object().into_iter().flatten();
        let names = |key: &str| -> Vec<String> {
            let listed = file["integrations"][key].as_array().into_iter().flatten();
            listed.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let waiting = &file["waitForPodsReady"];
        let period = |key: &str| match &waiting[key] {
            Value::Null => Ok(None),
            Value::String(text) => match text.parse() {
                Ok(period) => Ok(Some(period)),
                Err(error) => Err(format!("waitForPodsReady.{key}: {error}")),
            },
            other => Err(format!("waitForPodsReady.{key}: {other} is not a duration")),
        };
        let (timeout, recovery) = (period("timeout")?, period("recoveryTimeout")?);
        let enable = waiting["enable"] == true;
        let blocks = waiting["blockAdmission"].as_bool();
        Ok(Self {
            gates: gates
                .filter_map(|(gate, value)| Some((gate.clone(), value.as_bool()?)))
                .collect(),
            frameworks: names("frameworks"),
            external_frameworks: names("externalFrameworks"),
            manages_all: file["manageJobsWithoutQueueName"] == true,
            is_old: file["apiVersion"] == "config.kueue.x-k8s.io/v1beta1",
            pods_ready: waiting.is_object().then_some(Waiting {
                enable,
                timeout,
                recovery,
                blocks,
            }),
        })
    }

    /// Whether it admits nothing while an admitted Workload is not ready, where it waits for pods at all.
    fn blocks_admission(&self) -> bool {
        // the default of v1beta1, where waiting is switched on
        self.pods_ready.is_some_and(|waiting| waiting.blocks.unwrap_or(self.is_old))
    }

    fn has_framework(&self, name: &str) -> bool {
        self.frameworks.iter().any(|framework| framework == name)
    }

    /// The kinds whose pods it admits by themselves, although an AppWrapper has them.
    fn unknown_owners(&self) -> Vec<&'static str> {
        if !self.manages_all || !self.has_framework(PODS) {
            return vec![];
        }
        let is_known = |name: &str| self.external_frameworks.iter().any(|known| known == name);
        UNKNOWN_OWNERS.into_iter().filter(|name| !is_known(name)).collect()
    }

    /// How long it waits for pods, with the defaults of its version; none where it does not evict.
    pub(super) fn pods_ready(
        &self,
        version: Option<Version>,
        gates: &BTreeMap<String, bool>,
    ) -> Option<WaitForPodsReady> {
        const OLD_DEFAULT: Period = Period::from_secs(5 * 60);
        const DEFAULT: Period = Period::from_secs(30 * 60);
        // the gate is of 0.19 and counts for both versions of the file; older releases do not start with it
        if gates.get("DisableWaitForPodsReady") == Some(&true) {
            return None;
        }
        // from 0.19 on it waits also where nobody asked it to
        let by_default = version.is_some_and(|version| version >= Version::new(0, 19, 0));
        let (waiting, timeout) = if self.is_old {
            let waiting = self.pods_ready.filter(|waiting| waiting.enable)?;
            (waiting, waiting.timeout.unwrap_or(OLD_DEFAULT))
        } else if by_default {
            let waiting = self.pods_ready.unwrap_or_default();
            (waiting, waiting.timeout.filter(|it| !it.is_zero()).unwrap_or(DEFAULT))
        } else {
            // without a timeout it does not start
            let waiting = self.pods_ready?;
            (waiting, waiting.timeout?)
        };
        let recovery = waiting.recovery.unwrap_or(timeout);
        let recovery_timeout = (!recovery.is_zero()).then_some(recovery);
        Some(WaitForPodsReady { timeout, recovery_timeout })
    }

    /// What concerns AppWrappers, with the defaults of its version and the gates of the command line, which stand
    /// in for those of the file.
    pub(super) fn of_appwrappers(&self, manager: Option<&Manager>) -> KueueSettings {
        let version = manager.and_then(|manager| manager.version);
        let gates = manager.and_then(|manager| manager.gates.as_ref()).unwrap_or(&self.gates);
        let by_default = version.is_some_and(|version| version >= Version::new(0, 14, 0));
        let is_on = |gate: &str| gates.get(gate).copied().unwrap_or(by_default);
        KueueSettings {
            wait_for_pods_ready: self.pods_ready(version, gates),
            replaces_failed_nodes: is_on("TopologyAwareScheduling")
                && is_on("TASFailedNodeReplacement"),
        }
    }
}

/// What was read, or why it was not.
pub(super) type Reading<T> = Result<T, String>;

/// All notices about Kueue, whose user name is `account` for admission.
fn judge(
    account: &str,
    manager: &Reading<Manager>,
    settings: &Reading<Settings>,
    periods: &FaultTolerance,
) -> Vec<Notice> {
    let place = &Place::of(account);
    let known = manager.as_ref().ok();
    let config_map = known.map_or(Some(DEFAULT_CONFIG_MAP), |known| known.config_map.as_deref());
    let file = place.config_map(config_map.unwrap_or(DEFAULT_CONFIG_MAP));
    let mut notices: Vec<Notice> =
        unreadable(place, &file, manager, settings).into_iter().collect();
    notices.extend(known.and_then(|known| other_account(account, place, known)));
    let version = known.and_then(|known| known.version);
    notices.extend(version.filter(|version| *version < REQUIRED).map(outdated));
    let by_flag = known.and_then(|known| known.gates.as_ref());
    let gates = by_flag.or_else(|| settings.as_ref().ok().map(|settings| &settings.gates));
    let where_gates = if by_flag.is_some() {
        format!("--feature-gates of {}", place.manager())
    } else if config_map.is_some() {
        format!("featureGates of {file}")
    } else {
        format!("the flag --feature-gates of {}", place.manager())
    };
    match on_delete(version, gates) {
        OnDelete::Held => {}
        OnDelete::Released => notices.push(released(version, &where_gates)),
        OnDelete::Unknown => {
            notices
                .extend(known.filter(|_| gates.is_some()).map(|it| unversioned(it, &where_gates)));
        }
    }
    if let Ok(settings) = settings {
        let has_framework = version.is_none_or(|version| version >= FRAMEWORK_SINCE);
        if has_framework && !settings.has_framework(FRAMEWORK) {
            notices.push(Notice(format!(
                "Kueue does not manage AppWrappers, so no AppWrapper with a queue is admitted: add \
                 {FRAMEWORK} to integrations.frameworks of {file} and restart Kueue"
            )));
        }
        let unknown = settings.unknown_owners();
        if !unknown.is_empty() {
            notices.push(Notice(format!(
                "Kueue admits the pods of some wrapped kinds by themselves, besides their AppWrapper: if users wrap \
                 these kinds, add {} to integrations.externalFrameworks of {file}, let Kueue get, list and watch \
                 them, and restart Kueue",
                unknown.join(" and ")
            )));
        }
        let none = BTreeMap::new();
        if let Some(waiting) = settings.pods_ready(version, gates.unwrap_or(&none)) {
            notices.extend(fit::judge(waiting, periods, &file));
            notices.extend(settings.blocks_admission().then(|| blocked(&file)));
        }
    }
    notices
}

fn unreadable(
    place: &Place,
    file: &str,
    manager: &Reading<Manager>,
    settings: &Reading<Settings>,
) -> Option<Notice> {
    let mut why = vec![];
    if let Err(error) = manager {
        why.push(format!("{} ({error})", place.manager()));
    }
    if let Err(error) = settings {
        why.push(format!("{file} ({error})"));
    }
    if why.is_empty() {
        return None;
    }
    Some(Notice(format!(
        "Kueue is installed, but the controller cannot read {}, and so cannot check whether Kueue \
         keeps the quota of a deleted AppWrapper and whether Kueue's timeouts fit: allow the \
         controller to get them, or set admission.kueueAccount to Kueue's service account",
        why.join(" and ")
    )))
}

/// Kueue runs under another account than the one for admission.
fn other_account(account: &str, place: &Place, manager: &Manager) -> Option<Notice> {
    let own = manager.account.as_ref()?;
    let own = format!("system:serviceaccount:{}:{own}", place.namespace);
    (own != account).then(|| {
        Notice(format!(
            "{} runs as {own}, but admission.kueueAccount is {account}: the webhook does not let \
             it start AppWrappers with a queue; set admission.kueueAccount to the account of Kueue",
            place.manager()
        ))
    })
}

fn outdated(version: Version) -> Notice {
    Notice(format!(
        "Kueue {version} is installed; this controller needs 0.18 or newer: upgrade Kueue"
    ))
}

fn released(version: Option<Version>, where_gates: &str) -> Notice {
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    Notice(format!(
        "Kueue{version} releases the quota of a deleted AppWrapper immediately, while its pods \
         still run, and admits other workloads: set {ORPHANS} to false in {where_gates} and restart Kueue"
    ))
}

fn blocked(file: &str) -> Notice {
    Notice(format!(
        "Kueue admits no other workload while an AppWrapper restarts, or is kept after a failure: \
         set waitForPodsReady.blockAdmission of {file} to false (it defaults to true in v1beta1) \
         and restart Kueue"
    ))
}

fn unversioned(manager: &Manager, where_gates: &str) -> Notice {
    Notice(format!(
        "cannot determine the version of Kueue from its image {:?}: since 0.18, Kueue releases the \
         quota of a deleted AppWrapper immediately, while its pods still run, unless {ORPHANS} is \
         set to false in {where_gates}",
        manager.image
    ))
}

/// Checks Kueue, where it is installed.
pub(super) async fn look(client: &Client, config: &Config) -> Vec<Notice> {
    match discovery::find_in_group(client, keys::KUEUE_GROUP, "Workload").await {
        Ok(Some(_)) => {}
        Ok(None) => return vec![],
        Err(error) => {
            let cause = telemetry::chain(&error);
            let said = format!("cannot determine whether Kueue is installed: {cause}");
            return vec![Notice(said)];
        }
    }
    let place = Place::of(&config.admission.kueue_account);
    let manager = read_manager(client, &place).await.map_err(|error| reason(&error));
    let name = match &manager {
        Ok(manager) => manager.config_map.as_deref(),
        Err(_) => Some(DEFAULT_CONFIG_MAP),
    };
    let settings = match name {
        None => Ok(Settings::default()),
        Some(name) => settings(client, &place, name).await,
    };
    judge(&config.admission.kueue_account, &manager, &settings, &config.fault_tolerance)
}

/// Reads what Kueue's Deployment says.
pub(super) async fn read_manager(client: &Client, place: &Place) -> Result<Manager, kube::Error> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &place.namespace);
    deployments.get(&place.deployment).await.map(|it| Manager::of(&it))
}

async fn settings(client: &Client, place: &Place, name: &str) -> Reading<Settings> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &place.namespace);
    Settings::of(&maps.get(name).await.map_err(|error| reason(&error))?)
}

fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => "not allowed".to_owned(),
        kube::Error::Api(status) if status.code == 404 => "not found".to_owned(),
        error => telemetry::chain(error),
    }
}

#[cfg(test)]
mod tests;
