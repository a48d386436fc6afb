//! The cgroups of a node: one in each hierarchy, with one for containerd and the kubelet and, made by the
//! kubelet, one for the pods. Whatever runs on the node is in them, so that they tell what is to be killed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Where hierarchies are mounted.
const MOUNTS: &str = "/sys/fs/cgroup";
/// What a node needs, where there is one hierarchy for all.
const CONTROLLERS: &str = "+cpu +cpuset +memory +pids +io";

/// The cgroups of one node.
#[derive(Debug)]
pub(super) struct Cgroups {
    name: String,
    /// It, in each hierarchy.
    roots: Vec<PathBuf>,
    daemons: PathBuf,
}

/// Whether this process may make cgroups.
pub(super) fn may_be_made() -> bool {
    let hierarchies = hierarchies();
    let probe = format!("appwrapper-probe-{}", std::process::id());
    !hierarchies.is_empty()
        && hierarchies.iter().all(|hierarchy| {
            let dir = hierarchy.join(&probe);
            fs::create_dir(&dir).and_then(|()| fs::remove_dir(&dir)).is_ok()
        })
}

/// The hierarchies that a kubelet uses: of version 2, or else every one of version 1, and beside them one of version 2
/// without controllers, in which runc makes cgroups, too.
fn hierarchies() -> Vec<PathBuf> {
    let one = Path::new(MOUNTS);
    if one.join("cgroup.controllers").is_file() {
        return vec![one.to_owned()];
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounted(&mounts).map(PathBuf::from).collect()
}

fn mounted(mounts: &str) -> impl Iterator<Item = &str> {
    mounts.lines().filter_map(|line| {
        let [_, place, kind, ..] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        ["cgroup", "cgroup2"].contains(&kind).then_some(place)
    })
}

impl Cgroups {
    /// Those of a node, named after its directory. They are not made yet.
    pub(super) fn of(dir: &Path) -> Self {
        let number = dir.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("appwrapper-node-{number}");
        let roots: Vec<PathBuf> = hierarchies().iter().map(|it| it.join(&name)).collect();
        // of version 1, this hierarchy limits nothing by itself
        let tracked = roots.iter().find(|root| root.starts_with(Path::new(MOUNTS).join("pids")));
        let daemons =
            tracked.or_else(|| roots.first()).cloned().unwrap_or_default().join("daemons");
        Self { name, roots, daemons }
    }

    /// Makes them.
    pub(super) fn make(&self) -> Result<(), Error> {
        for root in &self.roots {
            fs::create_dir(root).map_err(Error::io("create", root))?;
        }
        if let [root] = &self.roots[..] {
            for dir in [Path::new(MOUNTS), root] {
                let file = dir.join("cgroup.subtree_control");
                fs::write(&file, CONTROLLERS).map_err(Error::io("write", &file))?;
            }
        }
        fs::create_dir(&self.daemons).map_err(Error::io("create", &self.daemons))
    }

    /// The path of the kubelet's cgroups in each hierarchy.
    pub(super) fn name(&self) -> String {
        format!("/{}", self.name)
    }

    /// The cgroup of containerd and the kubelet.
    pub(super) fn daemons(&self) -> &Path {
        &self.daemons
    }

    /// All of them.
    pub(super) fn all(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The processes in the cgroups of a pod, but for that of its sandbox, which sleeps.
    pub(super) fn processes_of(&self, pod_uid: &str) -> Vec<u32> {
        let mut found = vec![];
        if let Some(root) = self.daemons.parent() {
            collect(root, &format!("pod{pod_uid}"), false, &mut found);
        }
        found.retain(|id| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            !line.ends_with(b"sleep\x002147483647\0")
        });
        found
    }
}

fn collect(dir: &Path, pod: &str, within: bool, found: &mut Vec<u32>) {
    let within = within || dir.file_name().is_some_and(|name| name == pod);
    if within {
        let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), pod, within, found);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn hierarchies_are_found() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/pids cgroup rw 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let want = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"];
        assert_eq!(super::mounted(mounts).collect::<Vec<_>>(), want);
    }
}
