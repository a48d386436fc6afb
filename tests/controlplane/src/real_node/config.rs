//! The configuration of containerd and the kubelet.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::cgroups::Cgroups;
use super::{CONTAINERD, NodeOptions};
use crate::ControlPlane;
use crate::error::Error;
use crate::site::free_port;

/// The kernel's settings that a kubelet sets, with the values it wants.
pub(super) const SETTINGS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// How much the kubelet keeps of the memory of the pods before it evicts some, in MiB.
const EVICTION_MIB: u64 = 40;

/// Writes everything that a node reads.
pub(super) fn write(
    dir: &Path,
    cgroups: &Cgroups,
    plane: &ControlPlane,
    options: &NodeOptions,
) -> Result<(), Error> {
    for name in ["kubelet", "log", "sysctl", "cni", "images", "plugins"] {
        let path = dir.join(name);
        fs::create_dir(&path).map_err(Error::io("create", &path))?;
    }
    let kubeconfig = fs::read_to_string(plane.kubeconfig());
    let kubeconfig = kubeconfig.map_err(Error::io("read", plane.kubeconfig()))?;
    let port = free_port().map_err(Error::io("find a free port for", dir))?;
    let memory = options.memory_mib.map(|allowed| (allowed, machine_mib()));
    let mut files = vec![
        ("kubeconfig".to_owned(), kubeconfig),
        ("name".to_owned(), options.name.clone()),
        ("containerd.toml".to_owned(), containerd(dir)),
        ("cni/loopback.conflist".to_owned(), network().to_string()),
        ("kubelet.json".to_owned(), kubelet(dir, cgroups, plane, port, memory).to_string()),
    ];
    for (name, value) in SETTINGS {
        let file = name.rsplit('/').next().unwrap_or(name);
        files.push((format!("sysctl/{file}"), format!("{value}\n")));
    }
    for (name, text) in files {
        let path = dir.join(name);
        fs::write(&path, text).map_err(Error::io("write", &path))?;
    }
    Ok(())
}

/// The name of the node of a directory.
pub(super) fn read_name(dir: &Path) -> Result<String, Error> {
    let path = dir.join("name");
    fs::read_to_string(&path).map_err(Error::io("read", &path))
}

/// Without the right to lower a process's OOM score, runc could not start any container, but for
/// `restrict_oom_score_adj`.
fn containerd(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        r#"version = 2
root = "{dir}/containerd"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/test/pause:1"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{dir}/cni"
conf_dir = "{dir}/cni"
[plugins."io.containerd.internal.v1.opt"]
path = "{dir}/opt"
"#
    )
}

/// A node without any network is not ready. Pods use that of the machine.
fn network() -> Value {
    json!({"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]})
}

/// `memory` is how much the pods may use, and how much the machine has, in MiB.
fn kubelet(
    dir: &Path,
    cgroups: &Cgroups,
    plane: &ControlPlane,
    port: u16,
    memory: Option<(u64, u64)>,
) -> Value {
    let pki = plane.state_dir().join("pki");
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "tlsCertFile": pki.join("tls.crt"),
        "tlsPrivateKeyFile": pki.join("tls.key"),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": false},
            "x509": {"clientCAFile": pki.join("ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD}"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.name(),
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        "protectKernelDefaults": true,
        "makeIPTablesUtilChains": false,
        "resolvConf": "",
        "podLogsDir": dir.join("log/pods"),
        "volumePluginDir": dir.join("plugins"),
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "volumeStatsAggPeriod": "2s",
        "evictionPressureTransitionPeriod": "5s",
        // the disk of the machine is nobody's business here
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "10Mi", "nodefs.available": "0.1%", "imagefs.available": "0.1%",
            "nodefs.inodesFree": "0.1%", "imagefs.inodesFree": "0.1%",
        },
    });
    if let Some((allowed, machine)) = memory {
        // beyond that, the pods together are out of memory, and the kernel chooses
        let limit = allowed + EVICTION_MIB;
        config["enforceNodeAllocatable"] = json!(["pods"]);
        config["systemReserved"] =
            json!({"memory": format!("{}Mi", machine.saturating_sub(limit))});
        config["evictionHard"]["memory.available"] = json!(format!("{EVICTION_MIB}Mi"));
    }
    config
}

/// The memory of the machine, in MiB.
fn machine_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() >> 10
}
