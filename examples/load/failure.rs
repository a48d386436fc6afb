//! What can go wrong, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run did not end as it should.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The test control plane did not start; its own message says why.
    #[error("the test control plane does not start")]
    Plane(#[from] controlplane::Error),
    /// A file or a process.
    #[error("cannot {action}")]
    Io {
        /// What was tried.
        action: String,
        /// The answer of the operating system.
        #[source]
        source: io::Error,
    },
    /// A request to the API server.
    #[error("the API server did not {action}")]
    Api {
        /// What it was asked to do.
        action: String,
        /// Its answer.
        #[source]
        source: kube::Error,
    },
    /// A document that is not what it is expected to be.
    #[error("cannot read {what}: {problem}")]
    Document {
        /// Which one.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Something that was waited for.
    #[error(
        "{what} was not seen within {seconds} s; see the controller's log in the directory of --out, or \
         try a smaller number with --sizes"
    )]
    Late {
        /// What was waited for.
        what: String,
        /// For how long, in seconds.
        seconds: u64,
    },
    /// A watch that cannot go on.
    #[error("the watch of {path} ended: {problem}; run the example again")]
    Watch {
        /// The path of the collection.
        path: String,
        /// Why it cannot go on.
        problem: String,
    },
    /// The controller's process is gone before it was stopped.
    #[error("the controller ended ({status}); see {}", log.display())]
    Ended {
        /// Its exit status.
        status: String,
        /// Its log.
        log: PathBuf,
    },
    /// There is nothing to run.
    #[error(
        "there is no program {}: build it with `cargo build --release` (or without --release, if the example \
         is), or name one with --program",
        .0.display()
    )]
    NoProgram(PathBuf),
    /// `--only other` without the program.
    #[error("--only other needs the program: name it with --other FILE")]
    NoOther,
    /// A plot.
    #[error("cannot draw {}: {problem}", path.display())]
    Plot {
        /// Its file.
        path: PathBuf,
        /// The answer of the drawing library.
        problem: String,
    },
    /// Ctrl-C, or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// For `map_err` on file operations: `Failure::io("read", path)`.
    pub fn io(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let action = format!("{action} {}", path.display());
        move |source| Self::Io { action, source }
    }

    /// For `map_err` on requests: `Failure::api("create a namespace")`.
    pub fn api(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Api { action, source }
    }
}
