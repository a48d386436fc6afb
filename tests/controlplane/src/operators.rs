//! The operators: what each needs besides its command line.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;

use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::config::{self, KUEUE_NAMESPACE};
use crate::error::Error;
use crate::manifest::{self, Definition};
use crate::pki::Pair;
use crate::plane::Setup;
use crate::supervisor::Process;
use crate::{Component, objects, probe};

/// The path of these is compiled into Kueue, which then wants a pair of files there.
const KUEUE_METRICS_CERTIFICATES: &str = "/etc/kueue/metrics/certs";

/// The same for the training operator's webhooks.
const TRAINING_CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";

/// Creates the CRDs of a component and waits until they are served.
pub(crate) async fn define(
    setup: &Setup<'_>,
    server: &Process,
    component: Component,
) -> Result<(), Error> {
    let Some(dir) = manifest::definitions_dir(component) else { return Ok(()) };
    let dir = setup.manifests(component)?.join(dir);
    let mut definitions = Vec::new();
    for entry in fs::read_dir(&dir).map_err(Error::io("read", &dir))? {
        let path = entry.map_err(Error::io("read", &dir))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(definition) = Definition::from_file_name(name) {
            let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
            definitions.push((definition, text));
        }
    }
    let converted = converted(setup, component)?;
    let each = definitions.iter().map(|(definition, text)| {
        let yaml = if manifest::is_converted(&converted, definition) {
            let port = setup.site.ports.kueue.webhook;
            manifest::with_conversion(text, port, &setup.ca_bundle())
        } else {
            text.clone()
        };
        objects::create_definition(&setup.client, yaml.into_bytes())
    });
    try_join_all(each).await?;
    let names: Vec<Definition> =
        definitions.into_iter().map(|(definition, _)| definition).collect();
    served(setup, server, &names).await
}

/// The kustomization that names the kinds which Kueue converts; empty for other components.
fn converted(setup: &Setup<'_>, component: Component) -> Result<String, Error> {
    if component != Component::Kueue {
        return Ok(String::new());
    }
    let path = setup.manifests(component)?.join(manifest::CONVERSIONS);
    fs::read_to_string(&path).map_err(Error::io("read", &path))
}

/// Waits until these are served.
pub(crate) async fn served(
    setup: &Setup<'_>,
    server: &Process,
    definitions: &[Definition],
) -> Result<(), Error> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Definition { group, plural } in definitions {
        groups.entry(group).or_default().push(plural);
    }
    for (group, plurals) in groups {
        let what = format!("{} of {group}", plurals.join(", "));
        probe::until(server, &what, || objects::are_served(&setup.client, group, &plurals)).await?;
    }
    Ok(())
}

/// Starts an operator whose CRDs are served, and waits until it is ready.
pub(crate) async fn start(setup: &Setup<'_>, component: Component) -> Result<Process, Error> {
    match component {
        Component::JobSet => jobset(setup).await,
        Component::Training => training(setup).await,
        Component::Kueue => kueue(setup).await,
        Component::Ray => ray(setup).await,
        Component::Trainer => trainer(setup).await,
        Component::LeaderWorkerSet => lws(setup).await,
        Component::Etcd
        | Component::ApiServer
        | Component::ControllerManager
        | Component::Scheduler
        | Component::Kwok => setup.launch(component, None, &[]),
    }
}

async fn jobset(setup: &Setup<'_>) -> Result<Process, Error> {
    let ports = setup.site.ports.jobset;
    let config = setup.site.write("jobset.yaml", &config::jobset(setup.site))?;
    let process = setup.launch(Component::JobSet, Some(&config), &[])?;
    probe::healthy(&process, ports.health).await?;
    webhooks(setup, Component::JobSet, ports.webhook, |_| true).await?;
    Ok(process)
}

async fn ray(setup: &Setup<'_>) -> Result<Process, Error> {
    let proxy = setup.options.ray_dashboard.map(|address| format!("http://{address}"));
    // What is on loopback, as the API server, is reached without it.
    let environment: Vec<(&str, &OsStr)> =
        proxy.iter().map(|proxy| ("HTTP_PROXY", proxy.as_ref())).collect();
    let process = setup.launch(Component::Ray, None, &environment)?;
    probe::healthy(&process, setup.site.ports.ray.health).await?;
    Ok(process)
}

async fn lws(setup: &Setup<'_>) -> Result<Process, Error> {
    let ports = setup.site.ports.lws;
    let config = setup.site.write("lws.yaml", &config::lws(setup.site))?;
    let process = setup.launch(Component::LeaderWorkerSet, Some(&config), &[])?;
    // It is healthy before its webhooks listen.
    probe::healthy(&process, ports.health).await?;
    probe::listens(&process, ports.webhook).await?;
    webhooks(setup, Component::LeaderWorkerSet, ports.webhook, |_| true).await?;
    Ok(process)
}

async fn trainer(setup: &Setup<'_>) -> Result<Process, Error> {
    let ports = setup.site.ports.trainer;
    let config = setup.site.write("trainer.yaml", &config::trainer(setup.site))?;
    // It has no setting for the directory of its certificates, which is below that of temporary files.
    let temporary = setup.site.dir.join("trainer");
    let certificates = temporary.join("k8s-webhook-server").join("serving-certs");
    ensure_pair(&certificates, &setup.site.pki.serving)?;
    let environment = [("TMPDIR", temporary.as_os_str())];
    let process = setup.launch(Component::Trainer, Some(&config), &environment)?;
    probe::healthy(&process, ports.health).await?;
    webhooks(setup, Component::Trainer, ports.webhook, |_| true).await?;
    Ok(process)
}

async fn kueue(setup: &Setup<'_>) -> Result<Process, Error> {
    let ports = setup.site.ports.kueue;
    objects::create_namespace(&setup.client, KUEUE_NAMESPACE).await?;
    ensure_pair(Path::new(KUEUE_METRICS_CERTIFICATES), &setup.site.pki.serving)?;
    let config = setup.site.write("kueue.yaml", &config::kueue(setup.site, setup.options))?;
    let kubeconfig = setup.site.kueue_kubeconfig();
    let environment =
        [("KUBECONFIG", kubeconfig.as_os_str()), ("POD_NAMESPACE", KUEUE_NAMESPACE.as_ref())];
    let process = setup.launch(Component::Kueue, Some(&config), &environment)?;
    probe::healthy(&process, ports.health).await?;
    // Those of integrations that are off would refuse everything.
    let jobset = setup.options.jobset;
    webhooks(setup, Component::Kueue, ports.webhook, |path| {
        path.contains("kueue")
            || path.contains("appwrapper")
            || path.contains("batch-v1-job")
            || jobset && path.contains("jobset")
    })
    .await?;
    Ok(process)
}

/// It keeps its own certificate in a secret and puts it into a webhook configuration, and insists
/// on both being there. We leave that configuration without webhooks, so all that matters of the
/// certificate files is that there is a pair which fits.
async fn training(setup: &Setup<'_>) -> Result<Process, Error> {
    const NAMESPACE: &str = "kubeflow";
    let client = &setup.client;
    ensure_pair(Path::new(TRAINING_CERTIFICATES), &setup.site.pki.serving)?;
    objects::create_namespace(client, NAMESPACE).await?;
    let secret = json!({ "metadata": { "name": "training-operator-webhook-cert" } });
    objects::create(client, &format!("/api/v1/namespaces/{NAMESPACE}/secrets"), &secret).await?;
    let validator = json!({
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "validator.training-operator.kubeflow.org" },
    });
    create_webhooks(setup, &validator).await?;
    let process = setup.launch(Component::Training, None, &[])?;
    probe::healthy(&process, setup.site.ports.training.health).await?;
    Ok(process)
}

/// Registers the webhooks of an operator, which must be serving them: each would refuse what it
/// cannot be asked about.
async fn webhooks(
    setup: &Setup<'_>,
    component: Component,
    port: u16,
    keep: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let Some(file) = manifest::webhooks_file(component) else { return Ok(()) };
    let path = setup.manifests(component)?.join(file);
    let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    // as `kubectl` reads it, which follows YAML 1.1
    let yaml = serde_saphyr::options! { legacy_octal_numbers: true };
    let configurations: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, yaml)
        .map_err(|error| Error::Manifest { path: path.clone(), problem: error.to_string() })?;
    for configuration in configurations {
        let ca = setup.ca_bundle();
        let here = manifest::on_loopback(configuration, component.name(), port, &ca, &keep);
        create_webhooks(setup, &here).await?;
    }
    Ok(())
}

async fn create_webhooks(setup: &Setup<'_>, configuration: &Value) -> Result<(), Error> {
    let kind = configuration["kind"].as_str().unwrap_or_default().to_lowercase();
    let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}s");
    objects::create(&setup.client, &path, configuration).await
}

/// Makes sure that a directory outside of ours has a certificate and its key. Other control planes
/// on this machine may use the same: a pair that is there stays as it is, and under the lock nobody
/// sees half of a new one.
fn ensure_pair(dir: &Path, pair: &Pair) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(Error::io("create (its path is compiled in)", dir))?;
    let lock = dir.join(".lock");
    let file = File::create(&lock).map_err(Error::io("create", &lock))?;
    file.lock().map_err(Error::io("lock", &lock))?;
    let files = [("tls.key", &pair.key), ("tls.crt", &pair.certificate)];
    if files.iter().all(|(name, _)| dir.join(name).is_file()) {
        return Ok(());
    }
    for (name, text) in files {
        let unfinished = dir.join(format!(".{name}"));
        let path = dir.join(name);
        fs::write(&unfinished, text).map_err(Error::io("write", &unfinished))?;
        fs::rename(&unfinished, &path).map_err(Error::io("write", &path))?;
    }
    Ok(())
}
