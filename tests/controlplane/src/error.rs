//! What can go wrong, said so that the reader knows where to look next.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Go tool is not on the path, and there are binaries to build.
    #[error(
        "Go 1.26 or newer is needed to build the test control plane: install it, or set \
         KUBEBUILDER_ASSETS to a directory that has {missing}"
    )]
    GoMissing {
        /// What was to be built or read.
        missing: String,
    },
    /// The environment asks for a version that there is not.
    #[error("{variable}={chosen}: the test control plane has only {known}")]
    Version {
        /// The variable.
        variable: &'static str,
        /// What it says.
        chosen: String,
        /// The versions that there are.
        known: String,
    },
    /// A command of the Go tool failed.
    #[error("`{command}` failed; it said:\n{output}")]
    Go {
        /// The command line.
        command: String,
        /// The end of what it wrote to its standard error.
        output: String,
    },
    /// A tool of the machine failed.
    #[error("{command} failed; it said:\n{output}")]
    Command {
        /// The command line.
        command: String,
        /// The end of what it wrote to its standard error.
        output: String,
    },
    /// A file or a process could not be handled.
    #[error("{action}")]
    Io {
        /// What was being done, and with what.
        action: String,
        /// Why it did not work.
        #[source]
        source: io::Error,
    },
    /// A component ended while it was being started. Most often a port was taken meanwhile.
    #[error("{component} ended ({status}); the end of {}:\n{tail}", log.display())]
    Ended {
        /// The component's name.
        component: &'static str,
        /// How it ended.
        status: String,
        /// Its log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// Something was not ready in time.
    #[error("{what} not ready after {seconds} s; the end of {}:\n{tail}", log.display())]
    NotReady {
        /// What was waited for.
        what: String,
        /// For how long.
        seconds: u64,
        /// The log file that may say why.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A certificate could not be made.
    #[error("make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The kubeconfig that was written does not make a client.
    #[error("read the kubeconfig back")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// A manifest is not what it is expected to be.
    #[error("manifest {}: {problem}", path.display())]
    Manifest {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The API server refused something.
    #[error("{action}")]
    Api {
        /// What was asked of it.
        action: String,
        /// Its answer.
        #[source]
        source: kube::Error,
    },
}

impl Error {
    /// Whether a new start may go better: a process ended, since its port was taken, or the API server failed, as it
    /// does on a busy machine.
    pub(crate) fn is_worth_a_second_try(&self) -> bool {
        match self {
            Self::Ended { .. } => true,
            Self::Api { source: kube::Error::Api(status), .. } => status.code >= 500,
            Self::GoMissing { .. }
            | Self::Version { .. }
            | Self::Go { .. }
            | Self::Command { .. }
            | Self::Io { .. }
            | Self::NotReady { .. }
            | Self::Certificate(_)
            | Self::Kubeconfig(_)
            | Self::Manifest { .. }
            | Self::Api { .. } => false,
        }
    }

    /// For `map_err` on file operations: `Error::io("read", path)`.
    pub(crate) fn io(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let action = format!("{action} {}", path.display());
        move |source| Self::Io { action, source }
    }

    /// For `map_err` on requests: `Error::api("create node-1")`.
    pub(crate) fn api(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Api { action, source }
    }
}

/// The last lines of a log, for an error message; empty if there is no such file.
pub(crate) fn tail_of(log: &Path) -> String {
    std::fs::read(log).map(|bytes| tail(&String::from_utf8_lossy(&bytes))).unwrap_or_default()
}

/// The last lines of a text.
pub(crate) fn tail(text: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_server_that_failed_is_started_again_and_a_refusal_is_final() {
        for (code, again) in [(504, true), (500, true), (409, false), (403, false)] {
            let status = Status::failure("no", "No").with_code(code).boxed();
            let error = Error::api("create node-1")(kube::Error::Api(status));
            assert_eq!(error.is_worth_a_second_try(), again, "{error}");
        }
    }
}
