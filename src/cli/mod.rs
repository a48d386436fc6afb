//! The command line. Each command is a function that returns an exit code or an error.

mod bundle;
mod cluster;
mod crd;
mod demo;
mod explain;
mod run;
mod simulate;
pub mod term;
mod validate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// Runs, watches, retries and cleans up any set of Kubernetes resources as one unit.
#[derive(Debug, Parser)]
#[command(name = "appwrapper", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller
    Run(run::Args),
    /// Print the CustomResourceDefinitions
    Crd,
    /// Tell the story of a failure and its repair in a simulated cluster, or run manifests in one
    Demo(demo::Args),
    /// Say what the controller would decide now, and why; changes nothing
    Explain(explain::Args),
    /// Run the controller in a simulated cluster, seed after seed, and check every invariant
    Simulate(simulate::Args),
    /// Check AppWrappers and RetryPolicies in files, without a cluster
    Validate(validate::Args),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Where the cluster is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// Kubeconfig file; by default $KUBECONFIG, ~/.kube/config, or the cluster this runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user asked for something that makes no sense, or a file cannot be read: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The cluster could not be reached: exit code 3.
    #[error("{0}")]
    Cluster(String),
}

impl Error {
    fn code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Cluster(_) => ExitCode::from(3),
        }
    }
}

/// The command did what it was asked, and the answer is yes.
pub const DONE: ExitCode = ExitCode::SUCCESS;

/// Runs the command that the arguments name; clap itself ends the process on wrong usage, with 2.
#[must_use]
pub fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Crd => crd::crd(),
        Command::Demo(args) => demo::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Simulate(args) => Ok(simulate::run(&args)),
        Command::Validate(args) => validate::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        term::complain(&error.to_string());
        error.code()
    })
}
