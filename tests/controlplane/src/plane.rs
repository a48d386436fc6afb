//! The control plane as a whole: how it comes up, what it offers, how it ends.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::try_join_all;
use futures::{TryFutureExt, try_join};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::build::{self, Binaries};
use crate::component::Component;
use crate::error::Error;
use crate::manifest::{Definition, NODE_STAGES};
use crate::options::Options;
use crate::site::Site;
use crate::supervisor::{Process, Supervisor};
use crate::versions::Versions;
use crate::{config, flags, go, objects, operators, probe};

/// A running control plane. It ends with [`ControlPlane::stop`], when it is dropped, and at the
/// latest with this process, however that ends: so it may live in a `static`.
pub struct ControlPlane {
    site: Site,
    kubeconfig: PathBuf,
    others: AtomicUsize,
    audit_log: Option<PathBuf>,
    config: Config,
    client: Client,
    supervisor: Supervisor,
    processes: Vec<Process>,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane").field("dir", &self.site.dir).finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts one and waits until it is ready: nodes take pods, operators serve. At first use it
    /// builds the binaries, which takes minutes.
    ///
    /// # Errors
    ///
    /// Those of [`build::binaries`], and whatever keeps a component from becoming ready; the state
    /// directory then stays, with the logs.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let versions = Versions::chosen()?;
        let components = options.components();
        let binaries = blocking(move || build::binaries(&components, versions)).await?;
        match Box::pin(Self::try_start(&options, versions, &binaries)).await {
            Err(error) if error.is_worth_a_second_try() => {
                Box::pin(Self::try_start(&options, versions, &binaries)).await
            }
            outcome => outcome,
        }
    }

    async fn try_start(
        options: &Options,
        versions: Versions,
        binaries: &Binaries,
    ) -> Result<Self, Error> {
        let site = Site::new(options.state_dir.as_deref())?;
        let mut supervisor = Supervisor::new(&site.dir, &[])?;
        if options.state_dir.is_some() {
            supervisor.keep();
        }
        let outcome = Self::bring_up(&site, options, versions, binaries, &supervisor).await;
        let (config, client, processes) = match outcome {
            Ok(parts) => parts,
            Err(error) => {
                supervisor.keep();
                shut_down(supervisor, Vec::new()).await;
                return Err(error);
            }
        };
        Ok(Self {
            kubeconfig: site.kubeconfig(),
            audit_log: options.audit.then(|| site.audit_log()),
            others: AtomicUsize::new(0),
            site,
            config,
            client,
            supervisor,
            processes,
        })
    }

    async fn bring_up(
        site: &Site,
        options: &Options,
        versions: Versions,
        binaries: &Binaries,
        supervisor: &Supervisor,
    ) -> Result<(Config, Client, Vec<Process>), Error> {
        let config = client_config(&site.kubeconfig()).await?;
        let client = Client::try_from(config.clone()).map_err(Error::api("make a client"))?;
        let mut setup = Setup {
            site,
            options,
            binaries,
            supervisor,
            client: client.clone(),
            manifests: BTreeMap::new(),
        };
        let components = options.components();
        let manifests = blocking(move || go::manifest_dirs(&components, versions));
        let ((etcd, server), manifests) = try_join!(start_server(&setup), manifests)?;
        setup.manifests = manifests;
        let mut processes = start_others(&setup, &server).await?;
        processes.extend([etcd, server]);
        Ok((config, client, processes))
    }

    /// The kubeconfig of an administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The same for kube. Failed requests are not repeated behind the caller's back.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A new client. It belongs to the tokio runtime in which it was made, so tests with runtimes
    /// of their own each ask for one.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn client(&self) -> Client {
        // It went well at the start, with the same configuration.
        Client::try_from(self.config()).unwrap_or_else(|_| self.client.clone())
    }

    /// A kubeconfig, in a new file, of a user of these groups (besides `system:authenticated`): an
    /// administrator acts as that user, who is nobody else to admission and authorization.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the file cannot be written.
    pub fn kubeconfig_of(&self, user: &str, groups: &[&str]) -> Result<PathBuf, Error> {
        let number = self.others.fetch_add(1, Ordering::Relaxed);
        let config = config::kubeconfig_of(&self.site, user, groups);
        self.site.write(&format!("kubeconfig-{number}"), &config)
    }

    /// A new client of a user, as for [`Self::kubeconfig_of`].
    ///
    /// # Errors
    ///
    /// [`Error::Api`] when a name does not fit into an HTTP header.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn client_of(&self, user: &str, groups: &[&str]) -> Result<Client, Error> {
        let mut config = self.config();
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups =
            Some(groups.iter().map(ToString::to_string).collect());
        Client::try_from(config).map_err(Error::api(format!("make a client of {user}")))
    }

    /// The audit log, one JSON document a line, if [`Options::audit`] asked for one.
    #[must_use]
    pub fn audit_log(&self) -> Option<&Path> {
        self.audit_log.as_deref()
    }

    /// The directory with the data, the logs (`<component>.log`) and the configurations.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.site.dir
    }

    /// Ends all of it, and returns when nothing runs any more.
    pub async fn stop(self) {
        let Self { supervisor, processes, .. } = self;
        shut_down(supervisor, processes).await;
    }
}

/// What the steps of a start have in common.
pub(crate) struct Setup<'start> {
    pub(crate) site: &'start Site,
    pub(crate) options: &'start Options,
    binaries: &'start Binaries,
    supervisor: &'start Supervisor,
    pub(crate) client: Client,
    manifests: BTreeMap<Component, PathBuf>,
}

impl Setup<'_> {
    /// Starts a component's binary.
    pub(crate) fn launch(
        &self,
        component: Component,
        config: Option<&PathBuf>,
        environment: &[(&str, &OsStr)],
    ) -> Result<Process, Error> {
        let missing = || Error::GoMissing { missing: component.name().to_owned() };
        let mut command = Command::new(self.binaries.path(component).ok_or_else(missing)?);
        command.args(flags::arguments(component, self.site, self.options, config));
        command.envs(environment.iter().copied()).current_dir(&self.site.dir);
        self.supervisor.start(component.name(), command)
    }

    /// The directory of the module that has a component's manifests.
    pub(crate) fn manifests(&self, component: Component) -> Result<&Path, Error> {
        let problem = || Error::Manifest {
            path: component.manifests_module().unwrap_or_default().into(),
            problem: "its module was not found".to_owned(),
        };
        self.manifests.get(&component).map(PathBuf::as_path).ok_or_else(problem)
    }

    /// The authority's certificate as webhook configurations have it.
    pub(crate) fn ca_bundle(&self) -> Value {
        config::base64(&self.site.pki.ca)
    }
}

async fn start_server(setup: &Setup<'_>) -> Result<(Process, Process), Error> {
    if setup.options.audit {
        let policy = setup.site.audit_policy();
        let name = policy.file_name().and_then(OsStr::to_str).unwrap_or_default();
        setup.site.write(name, &config::audit_policy())?;
    }
    let etcd = setup.launch(Component::Etcd, None, &[])?;
    // It waits for etcd by itself. Large CRDs make it collect garbage for seconds, unless it may
    // have some more memory.
    let server = setup.launch(Component::ApiServer, None, &[("GOGC", "400".as_ref())])?;
    probe::until(&server, "the API", || objects::server_is_ready(&setup.client)).await?;
    etcd.check()?;
    Ok((etcd, server))
}

/// Starts what needs the API server.
async fn start_others(setup: &Setup<'_>, server: &Process) -> Result<Vec<Process>, Error> {
    let operators: Vec<Component> = setup
        .options
        .components()
        .into_iter()
        .filter(|component| crate::manifest::definitions_dir(*component).is_some())
        .collect();
    let scheduler = async {
        let process = setup.launch(Component::Scheduler, None, &[])?;
        probe::listens(&process, setup.site.ports.scheduler).await.map(|()| process)
    };
    // An operator waits for its own CRDs, kube-controller-manager for all, for the reason that
    // `Options::crds` gives.
    let defined = Semaphore::new(0);
    let count = operators.len().try_into().unwrap_or(u32::MAX);
    let operators = operators.iter().map(|it| async {
        operators::define(setup, server, *it).await?;
        defined.add_permits(1);
        if *it == Component::Trainer {
            // It ends where there are no JobSets.
            drop(defined.acquire_many(count).await);
        }
        operators::start(setup, *it).await
    });
    let manager = async {
        define_given(setup, server).await?;
        // Never closed, so this is no error.
        drop(defined.acquire_many(count).await);
        let process = setup.launch(Component::ControllerManager, None, &[])?;
        probe::listens(&process, setup.site.ports.controller_manager).await.map(|()| process)
    };
    let (scheduler, manager, mut all, kwok) =
        try_join!(scheduler, manager, try_join_all(operators), start_nodes(setup))?;
    if let Some(kwok) = &kwok {
        // Last of all, since it is kube-controller-manager that lets pods onto new nodes.
        let count = setup.options.nodes;
        probe::until(kwok, "the nodes", || objects::nodes_are_ready(&setup.client, count)).await?;
    }
    all.extend([scheduler, manager]);
    all.extend(kwok);
    Ok(all)
}

/// Creates the CRDs that the options bring along.
async fn define_given(setup: &Setup<'_>, server: &Process) -> Result<(), Error> {
    let mut definitions = Vec::new();
    for crd in &setup.options.crds {
        let definition =
            Definition { group: crd.spec.group.clone(), plural: crd.spec.names.plural.clone() };
        let to_bytes = serde_json::to_vec(crd).map_err(|error| Error::Manifest {
            path: definition.name().into(),
            problem: error.to_string(),
        });
        // JSON is YAML.
        objects::create_definition(&setup.client, to_bytes?).await?;
        definitions.push(definition);
    }
    operators::served(setup, server, &definitions).await
}

/// Starts KWOK and creates its nodes.
async fn start_nodes(setup: &Setup<'_>) -> Result<Option<Process>, Error> {
    if setup.options.nodes == 0 {
        return Ok(None);
    }
    let mut stages = include_str!("stages.yaml").to_owned();
    for name in NODE_STAGES {
        let path = setup.manifests(Component::Kwok)?.join(name);
        stages.push_str("\n---\n");
        stages.push_str(&fs::read_to_string(&path).map_err(Error::io("read", &path))?);
    }
    let log = setup.site.dir.join("pod.log");
    fs::write(&log, config::pod_log()).map_err(Error::io("write", &log))?;
    stages.push_str("\n---\n");
    stages.push_str(&config::logs(&log).to_string());
    let path = setup.site.dir.join("stages.yaml");
    fs::write(&path, stages).map_err(Error::io("write", &path))?;
    let kwok = setup.launch(Component::Kwok, Some(&path), &[])?;
    let nodes = (0..setup.options.nodes).map(|number| async move {
        let node = config::node(&format!("node-{number}"), &setup.options.node_cpu);
        objects::create(&setup.client, "/api/v1/nodes", &node).await
    });
    try_join_all(nodes).await?;
    Ok(Some(kwok))
}

async fn client_config(kubeconfig: &Path) -> Result<Config, Error> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(config)
}

pub(crate) async fn shut_down(supervisor: Supervisor, processes: Vec<Process>) {
    // An error would say that this runtime is ending, and then so does the process.
    drop(spawn_blocking(move || supervisor.shut_down(processes)).await);
}

/// Runs what blocks where it may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let ended = |source| Error::Io { action: "run in a thread".to_owned(), source };
    spawn_blocking(work).map_err(std::io::Error::other).await.map_err(ended)?
}
