//! Where one control plane is: its directory, its ports, its certificates.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;
use crate::pki::{Pki, PkiFiles};
use crate::{config, env};

/// The administrator's kubeconfig.
const KUBECONFIG: &str = "kubeconfig";
/// The one with which Kueue runs.
const KUEUE_KUBECONFIG: &str = "kubeconfig-kueue";

/// What is known before anything runs.
pub(crate) struct Site {
    pub(crate) dir: PathBuf,
    pub(crate) ports: Ports,
    pub(crate) pki: Pki,
    pub(crate) files: PkiFiles,
}

/// The loopback ports, one a purpose.
pub(crate) struct Ports {
    pub(crate) api: u16,
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) controller_manager: u16,
    pub(crate) scheduler: u16,
    pub(crate) kwok: u16,
    pub(crate) jobset: OperatorPorts,
    pub(crate) training: OperatorPorts,
    pub(crate) ray: OperatorPorts,
    pub(crate) trainer: OperatorPorts,
    pub(crate) lws: OperatorPorts,
    pub(crate) kueue: OperatorPorts,
}

/// The ports of an operator.
#[derive(Clone, Copy)]
pub(crate) struct OperatorPorts {
    pub(crate) webhook: u16,
    pub(crate) health: u16,
}

impl Site {
    /// Makes the directory, unless the user gave one, and what stands in it from the beginning.
    pub(crate) fn new(given: Option<&Path>) -> Result<Self, Error> {
        let dir = match given {
            Some(dir) => {
                fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
                std::path::absolute(dir).map_err(Error::io("find", dir))?
            }
            None => fresh_dir()?,
        };
        let ports = Ports::free().map_err(Error::io("find free ports for", &dir))?;
        let pki = Pki::generate()?;
        let files = pki.write(&dir.join("pki"))?;
        let site = Self { dir, ports, pki, files };
        site.write(KUBECONFIG, &config::kubeconfig(&site, &site.pki.admin))?;
        site.write(KUEUE_KUBECONFIG, &config::kubeconfig(&site, &site.pki.kueue))?;
        Ok(site)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join(KUBECONFIG)
    }

    pub(crate) fn kueue_kubeconfig(&self) -> PathBuf {
        self.dir.join(KUEUE_KUBECONFIG)
    }

    pub(crate) fn audit_policy(&self) -> PathBuf {
        self.dir.join("audit-policy.yaml")
    }

    pub(crate) fn audit_log(&self) -> PathBuf {
        self.dir.join("audit.log")
    }

    /// Writes a file of the directory as YAML.
    pub(crate) fn write(&self, name: &str, value: &Value) -> Result<PathBuf, Error> {
        let path = self.dir.join(name);
        let text = serde_saphyr::to_string(value)
            .map_err(|error| Error::Manifest { path: path.clone(), problem: error.to_string() })?;
        fs::write(&path, text).map_err(Error::io("write", &path))?;
        Ok(path)
    }
}

impl Ports {
    /// Asks the kernel. All are held until the last is known, so that they differ; another process
    /// may still take one before its component listens, hence the second try of a start.
    fn free() -> io::Result<Self> {
        const COUNT: usize = 18;
        let listeners = (0..COUNT)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .collect::<io::Result<Vec<_>>>()?;
        let mut ports = [0; COUNT];
        for (port, listener) in ports.iter_mut().zip(&listeners) {
            *port = listener.local_addr()?.port();
        }
        let [api, etcd, etcd_peer, controller_manager, scheduler, kwok, operators @ ..] = ports;
        let [jobset, training, ray, kueue, trainer, lws] = [0, 2, 4, 6, 8, 10]
            .map(|at| OperatorPorts { webhook: operators[at], health: operators[at + 1] });
        Ok(Self {
            api,
            etcd,
            etcd_peer,
            controller_manager,
            scheduler,
            kwok,
            jobset,
            training,
            ray,
            trainer,
            lws,
            kueue,
        })
    }
}

/// A port on loopback that nobody uses now.
pub(crate) fn free_port() -> io::Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|address| address.port())
}

/// A directory that nobody else has: the process id is not enough, since ids come back.
pub(crate) fn fresh_dir() -> Result<PathBuf, Error> {
    const TRIES: u32 = 10_000;
    let parent = &env::target_dir().join("control-plane").join("run");
    fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    for number in 0..TRIES {
        let dir = parent.join(format!("{}-{number}", std::process::id()));
        match fs::create_dir(&dir) {
            Ok(()) => return std::path::absolute(&dir).map_err(Error::io("find", &dir)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create", &dir)(error)),
        }
    }
    Err(Error::io("remove what is left in", parent)(io::ErrorKind::AlreadyExists.into()))
}
