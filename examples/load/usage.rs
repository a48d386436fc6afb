//! CPU time and memory of processes, as the kernel counts them in `/proc`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use crate::stats::real;

/// CPU time so far, in seconds.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When it was read, for latencies.
    pub at: Instant,
    /// The same as the time of day, for the audit log.
    pub day: Timestamp,
    /// Of the controller; 0 without one.
    pub controller: f64,
    /// Of each component of the control plane, by name.
    pub components: BTreeMap<String, f64>,
}

/// The time of day, which the audit log has.
#[expect(
    clippy::disallowed_methods,
    reason = "what is compared is the audit log of another process"
)]
pub fn time_of_day() -> Timestamp {
    Timestamp::now()
}

/// Reads what a controller and the control plane with this directory have used so far.
pub fn read(controller: Option<u32>, plane: &Path) -> Reading {
    let seconds = |id: u32| cpu(id).unwrap_or_default();
    let mut components = BTreeMap::new();
    for (id, name) in components_of(plane, controller) {
        *components.entry(name).or_default() += seconds(id);
    }
    let controller = controller.map(seconds).unwrap_or_default();
    Reading { at: Instant::now(), day: time_of_day(), controller, components }
}

/// A line of `/proc/PID/status` such as `VmRSS` or `VmHWM`, in MiB; none once the process is gone.
pub fn memory(id: u32, field: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    mebibytes(&status, field)
}

fn mebibytes(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kibibytes: u32 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(f64::from(kibibytes) / 1024.0)
}

/// User and system time of a process, in seconds; none once it is gone.
fn cpu(id: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    Some(real(ticks(&stat)?) / real(rustix::param::clock_ticks_per_second()))
}

/// Fields 14 and 15. The name of the program, field 2, is in brackets and may have some of its own.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// The processes that have a control plane's directory in their command line: its own, and no other's.
fn components_of(plane: &Path, except: Option<u32>) -> Vec<(u32, String)> {
    let directory = plane.as_os_str().as_encoded_bytes();
    let mut found = vec![];
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let mut words = line.split(|byte| *byte == 0);
        let program = words.next().and_then(|word| std::str::from_utf8(word).ok());
        let name = program.and_then(|program| Path::new(program).file_name()?.to_str());
        let is_part = words.any(|word| word.windows(directory.len()).any(|it| it == directory));
        let is_shell = name.map(OsStr::new) == Some(OsStr::new("sh"));
        if let (Some(name), true, false) = (name, is_part && except != Some(id), is_shell) {
            found.push((id, name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_user_and_system() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 250 17 0 0 20 0 4 0 99 1 2";
        assert_eq!(ticks(stat), Some(267));
        assert_eq!(ticks("42 (a) S 1"), None);
    }

    #[test]
    fn memory_is_in_mebibytes() {
        let status = "Name:\ta\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(mebibytes(status, "VmHWM"), Some(2.0));
        assert_eq!(mebibytes(status, "Vm"), None);
    }
}
