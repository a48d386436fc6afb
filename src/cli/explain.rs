//! `appwrapper explain`: what the controller would decide now, by its own code; changes nothing.

pub(super) mod answer;
pub(super) mod live;
mod objects;
pub(super) mod replay;
pub(super) mod retry_sources;
pub(super) mod text;
pub(super) mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgGroup;
use clap_complete::engine::ArgValueCompleter;
use k8s_openapi::jiff::Timestamp;

use super::aw::{object_name, wrapper_name};
use super::bundle::{self, Document};
use super::complete::names_in_the_cluster;
use super::configuration::assumed;
use super::{ClusterArgs, DONE, Error, NEGATIVE, Output, program, tell, term};
use crate::clock::{Clock, SystemClock};
use crate::observe::assemble::Wrapper;
use crate::snapshot::Snapshot;

const EXAMPLES: &str = "\
Examples:
  What the controller would decide now, and why:
    appwrapper explain train -n team

  The same from a file, which has everything that the decision needs:
    appwrapper export train -n team > train.json
    appwrapper explain -f train.json

  What a changed policy would have decided about the recorded failures. Change the policies in the
  file (spec.failurePolicy, spec.podFailurePolicy, annotations, RetryPolicies), then:
    appwrapper explain --replay -f train.json --config appwrapper.yaml

  The replay runs the controller's own code and keeps its own counts. Only the first cause of each
  failure is recorded: where a rule needs more than that, the output states the assumption and the
  decision without it. Grace periods are not replayed.

Exit codes: 0 done, 1 a negative answer, such as that there is no such AppWrapper, that the webhook
would deny the manifest, or that a replay cannot be decided, 2 wrong usage, 3 the cluster could not
be reached or answered with an error, such as a missing permission.";

/// The examples as this program is called.
fn examples() -> String {
    EXAMPLES.replace("appwrapper ex", &format!("{} ex", program()))
}

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    after_long_help = examples(),
    group = ArgGroup::new("source").args(["name", "files"]).required(true),
)]
pub(super) struct Args {
    /// Name of an AppWrapper in the cluster; use -f to read manifests or an export instead
    #[arg(value_name = "NAME", value_parser = name_not_file, add = ArgValueCompleter::new(names_in_the_cluster))]
    name: Option<String>,
    /// Manifests or an export, with one AppWrapper and its related objects: file, directory with all
    /// directories below, or - for standard input
    #[arg(short, long = "filename", value_name = "FILE|DIR|-")]
    files: Vec<PathBuf>,
    /// Namespace of the AppWrapper in the cluster; defaults to the namespace of the kubeconfig
    #[arg(short, long, conflicts_with = "files", value_parser = object_name)]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Controller configuration file; every key is optional. With NAME, defaults to the one in
    /// ConfigMap appwrapper-system/appwrapper-config
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Replay the failures recorded in status.attempts with the current policies
    ///
    /// For each attempt: the recorded decision, the decision by the policies of the files (or of the
    /// cluster), whether they differ, and the rule that applies.
    #[arg(long)]
    replay: bool,
    /// Time of the decision; defaults to the time of an export, else to now
    #[arg(long, conflicts_with = "replay", value_name = "RFC3339", value_parser = moment)]
    now: Option<Timestamp>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// An AppWrapper and the objects around it.
#[derive(Debug)]
pub(super) struct ExplainInputs {
    /// What was seen.
    pub(super) snapshot: Snapshot,
    /// The AppWrapper as it is stored.
    pub(super) wrapper: Wrapper,
    /// What is worth knowing about how this was read.
    pub(super) notes: Vec<String>,
    /// Why the RetryPolicies that apply are not all known; the notes say it, too.
    pub(super) unread: Vec<String>,
    /// It is not created yet, and the webhook would deny it.
    pub(super) is_denied: bool,
}

pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "must be a timestamp such as 2026-01-01T00:00:00Z".to_owned())
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Error> {
    let mut now = args.now.unwrap_or_else(|| SystemClock.now());
    let (inputs, config) = if let Some(name) = &args.name {
        live::inputs(args, name)?
    } else {
        let config = super::configured(args.config.as_deref())?;
        let documents = read(&args.files)?;
        now = args.now.or_else(|| bundle::exported_at(&documents)).unwrap_or(now);
        let mut inputs = world::inputs(documents, &config, now).map_err(Error::Usage)?;
        if args.config.is_none() {
            inputs.notes.extend(assumed(&inputs.wrapper));
        }
        (inputs, config)
    };
    let colours = term::has_colour();
    let undecided = if args.replay {
        let replay = replay::answer(&inputs, &config, now);
        tell(args.output, &replay, || replay::text(&replay, colours))?;
        replay.undecided
    } else {
        let explanation = answer::explain(&inputs, &config, now);
        tell(args.output, &explanation, || text::text(&explanation, now, colours))?;
        false
    };
    Ok(if inputs.is_denied || undecided { ExitCode::from(NEGATIVE) } else { DONE })
}

/// A name that an object can have, and not that of a file.
fn name_not_file(text: &str) -> Result<String, String> {
    let path = Path::new(text);
    let is_manifest =
        path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|one| end == *one));
    if (is_manifest || text.contains('/')) && path.exists() {
        return Err(format!("did you mean -f {text}?"));
    }
    wrapper_name(text)
}

/// The objects of files.
///
/// # Errors
/// A file cannot be read, or something in it is no object.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Document>, Error> {
    let sources = bundle::sources(paths).map_err(|error| Error::Usage(error.to_string()))?;
    let documents = bundle::documents_of(paths, &sources);
    let documents: Result<Vec<Document>, _> = documents.into_iter().collect();
    documents.map_err(|flaw| Error::Usage(flaw.to_string()))
}

#[cfg(test)]
mod tests;
