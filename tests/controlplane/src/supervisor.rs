//! Sees to it that nothing outlives the test process, however that one ends.
//!
//! Two small shells wait for the end of their standard input, whose other end only this process
//! holds: the kernel closes it even after a SIGKILL, and a `static` that is never dropped is no
//! obstacle either. The first shell, the anchor, lends its process group to the components; the
//! second, the warden, is outside of it, so that it can kill the whole group and then clean up.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, tail_of};

const ANCHOR: &str = "read -r _";

/// Arguments: the group to kill, the directory to remove, and cgroups whose processes are killed, too. It
/// kills more than once because a component that is just being started may join the group late, and it
/// gives up after two seconds because what nobody has reaped yet still counts as a member. A container
/// may take longer to end than a process: its memory is freed first.
const WARDEN: &str = r#"
keep=
while read -r word; do [ "$word" = keep ] && keep=yes; done
group=$1 dir=$2
shift 2
tries=0
while kill -s KILL -- "-$group" 2>/dev/null && [ $tries -lt 40 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
if [ $# -gt 0 ]; then
    tries=0
    while [ $tries -lt 200 ]; do
        found=$(find "$@" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u)
        [ -n "$found" ] || break
        kill -s KILL $found 2>/dev/null
        tries=$((tries + 1))
        sleep 0.05
    done
    find "$@" -depth -type d -exec rmdir {} \; 2>/dev/null
fi
[ -n "$keep" ] || rm -rf -- "$dir" || { sleep 1; rm -rf -- "$dir"; }
"#;

/// While it exists, the components run.
#[derive(Debug)]
pub(crate) struct Supervisor {
    anchor: Child,
    warden: Child,
    dir: PathBuf,
}

impl Supervisor {
    /// `dir` gets the logs, and is removed at the end unless [`Self::keep`] was called; so are the cgroups, in
    /// any case, and with them every process that is still in them.
    pub(crate) fn new(dir: &Path, cgroups: &[PathBuf]) -> Result<Self, Error> {
        let anchor = shell(ANCHOR, &[]).map_err(spawn_error("the anchor shell"))?;
        let group = anchor.id().to_string();
        let mut arguments = vec![group.as_ref(), dir.as_os_str()];
        arguments.extend(cgroups.iter().map(|it| it.as_os_str()));
        let warden = shell(WARDEN, &arguments).map_err(spawn_error("the warden shell"))?;
        Ok(Self { anchor, warden, dir: dir.to_path_buf() })
    }

    /// Lets the directory stay.
    pub(crate) fn keep(&mut self) {
        // Should the warden be gone, then nobody removes the directory anyway.
        drop(self.warden.stdin.as_mut().map(|stdin| stdin.write_all(b"keep\n")));
    }

    /// Starts a program in the group, with its output appended to `<dir>/<name>.log`.
    pub(crate) fn start(&self, name: &'static str, mut command: Command) -> Result<Process, Error> {
        let log = self.dir.join(format!("{name}.log"));
        let stdout = File::options().create(true).append(true).open(&log);
        let stdout = stdout.map_err(Error::io("create", &log))?;
        let stderr = stdout.try_clone().map_err(Error::io("open", &log))?;
        let group = i32::try_from(self.anchor.id()).map_err(|_| Error::Io {
            action: "name the process group".to_owned(),
            source: io::ErrorKind::InvalidData.into(),
        })?;
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(group);
        let child = command.spawn().map_err(spawn_error(name))?;
        Ok(Process { name, log, child: Mutex::new(child) })
    }

    /// Ends all components and returns when they are gone.
    pub(crate) fn shut_down(mut self, processes: Vec<Process>) {
        let pipes: [Option<ChildStdin>; 2] = [self.warden.stdin.take(), self.anchor.stdin.take()];
        drop(pipes);
        let children = processes.into_iter().map(|process| process.child.into_inner());
        let children = children.map(|child| child.unwrap_or_else(PoisonError::into_inner));
        for mut child in children.chain([self.anchor, self.warden]) {
            // It fails only for a child that was waited for before.
            drop(child.wait());
        }
    }
}

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    log: PathBuf,
    child: Mutex<Child>,
}

impl Process {
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    /// Kills it, and returns when it is gone.
    pub(crate) fn kill(self) {
        let mut child = self.child.into_inner().unwrap_or_else(PoisonError::into_inner);
        // They fail only for a child that has ended.
        drop(child.kill());
        drop(child.wait());
    }

    /// An error once it has ended.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child.try_wait().map_err(Error::io("wait for the writer of", &self.log))?;
        let Some(status) = status else { return Ok(()) };
        Err(Error::Ended {
            component: self.name(),
            status: status.to_string(),
            log: self.log.clone(),
            tail: tail_of(&self.log),
        })
    }
}

/// A shell with a pipe to its standard input and nothing else of ours: an inherited output would
/// keep whoever reads the test's output waiting. In a group of its own a Ctrl-C does not reach it.
fn shell(script: &str, arguments: &[&std::ffi::OsStr]) -> io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "controlplane"]).args(arguments).current_dir("/");
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.process_group(0).spawn()
}

fn spawn_error(what: &str) -> impl FnOnce(io::Error) -> Error {
    let action = format!("start {what}");
    move |source| Error::Io { action, source }
}
