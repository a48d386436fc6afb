//! A real node: containerd and runc of the distribution, and a kubelet built like the rest of the control
//! plane. What KWOK plays, this does: containers run, fail, and are killed by the kernel.
//!
//! Everything it changes on the machine stays in a directory, a cgroup and a mount namespace of its own,
//! and goes with them: the node ends like a control plane, however its process ends. Nothing is downloaded:
//! images are made of programs of this machine (see [`Image`]). Its pods need `hostNetwork: true`, since
//! there is no pod network.

mod cgroups;
mod config;
mod image;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use kube::{Client, Config};

use crate::build;
use crate::error::{Error, tail};
use crate::supervisor::{Process, Supervisor};
use crate::{ControlPlane, Tool, env, objects, probe, site};

use cgroups::Cgroups;
pub use image::Image;

/// The programs of the machine that a node needs.
const PROGRAMS: [&str; 9] = [
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "ldd",
    "nsenter",
    "sha256sum",
    "tar",
    "unshare",
];

/// The address of containerd, in the mount namespace of the node.
const CONTAINERD: &str = "/run/containerd/containerd.sock";

/// Enters the cgroup `$1` and then becomes the other arguments.
const IN_CGROUP: &str = r#"set -e; echo $$ >"$1/cgroup.procs"; shift; exec "$@""#;

/// Starts containerd where nothing of what it and the kubelet mount and write at fixed places is seen by
/// the machine: `/run`, `/var/log`, and the kernel's settings, of which the kubelet gets a copy to write to.
/// Arguments: the cgroup, the directory, the names of the settings.
const CONTAINERD_SCRIPT: &str = r#"
set -e
echo $$ >"$1/cgroup.procs"
dir=$2
shift 2
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/kubelet
mount --bind "$dir/kubelet" /run/kubelet
mount --make-shared /run/kubelet
mount --bind "$dir/log" /var/log
for setting in "$@"; do
    mount --bind "$dir/sysctl/$(basename "$setting")" "/proc/sys/$setting"
done
exec containerd --config "$dir/containerd.toml"
"#;

/// What differs between nodes.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name, and its label `kubernetes.io/hostname`.
    pub name: String,
    /// How much memory its pods may use together before the kubelet evicts some, in MiB; none: that of the
    /// machine.
    pub memory_mib: Option<u64>,
}

/// A node with a kubelet. It ends with [`RealNode::stop`], when it is dropped, and at the latest with this
/// process, however that ends; until then it needs its control plane.
pub struct RealNode {
    name: String,
    dir: PathBuf,
    cgroups: Cgroups,
    config: Config,
    containerd: Process,
    kubelet: Mutex<Option<Process>>,
    program: PathBuf,
    supervisor: Supervisor,
}

impl fmt::Debug for RealNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealNode").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl RealNode {
    /// Why this machine cannot have one, if it cannot.
    #[must_use]
    pub fn obstacle() -> Option<String> {
        let missing: Vec<&str> =
            PROGRAMS.into_iter().filter(|name| env::program(name).is_none()).collect();
        if !missing.is_empty() {
            return Some(format!("{} not installed", missing.join(", ")));
        }
        if !cgroups::may_be_made() {
            return Some("it needs root, and a cgroup hierarchy that can be written".to_owned());
        }
        let mounts = ["--mount", "mount", "-t", "tmpfs", "tmpfs", "/run"];
        let may_mount = Command::new("unshare").args(mounts).output();
        match may_mount {
            Ok(output) if output.status.success() => None,
            _ => Some("this process may not mount".to_owned()),
        }
    }

    /// Starts one and waits until it takes pods. At first use it builds the kubelet, which takes minutes.
    ///
    /// # Errors
    ///
    /// Those of [`build::tool`], and whatever keeps the node from becoming ready; its directory then stays,
    /// with the logs.
    pub async fn start(plane: &ControlPlane, options: NodeOptions) -> Result<Self, Error> {
        let program = crate::plane::blocking(|| build::tool(Tool::Kubelet)).await?;
        let dir = site::fresh_dir()?;
        let cgroups = Cgroups::of(&dir);
        let mut supervisor = Supervisor::new(&dir, cgroups.all())?;
        let started =
            Self::bring_up(plane, &options, (&dir, &cgroups), &supervisor, &program).await;
        let (containerd, kubelet) = match started {
            Ok(processes) => processes,
            Err(error) => {
                supervisor.keep();
                crate::plane::shut_down(supervisor, Vec::new()).await;
                return Err(error);
            }
        };
        let kubelet = Mutex::new(Some(kubelet));
        let (name, config) = (options.name, plane.config());
        Ok(Self { name, dir, cgroups, config, containerd, kubelet, program, supervisor })
    }

    async fn bring_up(
        plane: &ControlPlane,
        options: &NodeOptions,
        (dir, cgroups): (&Path, &Cgroups),
        supervisor: &Supervisor,
        program: &Path,
    ) -> Result<(Process, Process), Error> {
        cgroups.make()?;
        config::write(dir, cgroups, plane, options)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "/bin/sh", "-c", CONTAINERD_SCRIPT, "containerd"]);
        command.arg(cgroups.daemons()).arg(dir).args(config::SETTINGS.map(|(name, _)| name));
        let containerd = supervisor.start("containerd", command)?;
        let socket = || async {
            run(inside(&containerd, ["ctr", "--address", CONTAINERD, "version"])).is_ok()
        };
        probe::until(&containerd, "containerd", socket).await?;
        let pause = Image::new("test/pause:1").program("busybox", "/bin/busybox");
        load(dir, &containerd, &pause.entrypoint(&["/bin/busybox", "sleep", "2147483647"]))?;
        let kubelet = run_kubelet(&containerd, cgroups, dir, program, supervisor)?;
        let client = plane.client();
        let is_ready = || objects::node_is_ready(&client, &options.name);
        probe::until(&kubelet, &options.name, is_ready).await?;
        Ok((containerd, kubelet))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes an image and loads it. Pods that use it need another `imagePullPolicy` than `Always`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::Command`] when a program of the image is missing, or a tool fails.
    pub fn load(&self, image: &Image) -> Result<(), Error> {
        load(&self.dir, &self.containerd, image)
    }

    /// Kills the kubelet: the node does not report any more, and its containers run on.
    pub fn kill_kubelet(&self) {
        let kubelet = self.kubelet.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(kubelet) = kubelet {
            kubelet.kill();
        }
    }

    /// Starts the kubelet again after [`Self::kill_kubelet`], and waits until the node is ready.
    ///
    /// # Errors
    ///
    /// [`Error::NotReady`], [`Error::Ended`].
    pub async fn start_kubelet(&self) -> Result<(), Error> {
        self.kill_kubelet();
        let kubelet = run_kubelet(
            &self.containerd,
            &self.cgroups,
            &self.dir,
            &self.program,
            &self.supervisor,
        )?;
        let client = Client::try_from(self.config.clone()).map_err(Error::api("make a client"))?;
        let is_ready = || objects::node_is_ready(&client, &self.name);
        probe::until(&kubelet, &self.name, is_ready).await?;
        *self.kubelet.lock().unwrap_or_else(PoisonError::into_inner) = Some(kubelet);
        Ok(())
    }

    /// The processes of a pod, by its UID, without that of its sandbox.
    #[must_use]
    pub fn processes_of(&self, pod_uid: &str) -> Vec<u32> {
        self.cgroups.processes_of(pod_uid)
    }

    /// The directory with the logs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Ends it and everything on it, and returns when nothing is left.
    pub async fn stop(self) {
        let kubelet = self.kubelet.into_inner().unwrap_or_else(PoisonError::into_inner);
        let processes = kubelet.into_iter().chain([self.containerd]).collect();
        crate::plane::shut_down(self.supervisor, processes).await;
    }
}

fn run_kubelet(
    containerd: &Process,
    cgroups: &Cgroups,
    dir: &Path,
    program: &Path,
    supervisor: &Supervisor,
) -> Result<Process, Error> {
    let mut command = inside(containerd, ["/bin/sh", "-c", IN_CGROUP, "kubelet"]);
    command.arg(cgroups.daemons()).arg(program);
    command.arg(format!("--config={}", dir.join("kubelet.json").display()));
    command.arg(format!("--kubeconfig={}", dir.join("kubeconfig").display()));
    command.arg(format!("--hostname-override={}", config::read_name(dir)?));
    command.arg("--root-dir=/run/kubelet").arg("--v=2");
    supervisor.start("kubelet", command)
}

/// A command in the mount namespace of the node.
fn inside<const N: usize>(containerd: &Process, arguments: [&str; N]) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--target={}", containerd.id())).args(["--mount", "--"]).args(arguments);
    command
}

fn load(dir: &Path, containerd: &Process, image: &Image) -> Result<(), Error> {
    let archive = image.write(&dir.join("images"))?;
    let arguments = ["ctr", "--address", CONTAINERD, "--namespace", "k8s.io", "images", "import"];
    let mut import = inside(containerd, arguments);
    import.arg(&archive);
    run(import)?;
    fs::remove_file(&archive).map_err(Error::io("remove", &archive))
}

/// Runs a tool; what it said on its standard output.
fn run(mut tool: Command) -> Result<String, Error> {
    let line = format!("{tool:?}");
    let output = tool.output();
    let output = output.map_err(|source| Error::Io { action: format!("run {line}"), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Command { command: line, output: tail(&String::from_utf8_lossy(&output.stderr)) })
}
