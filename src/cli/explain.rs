//! `appwrapper explain`: what the controller would decide now, by its own code; changes nothing.

pub(super) mod answer;
mod guides;
pub(super) mod live;
mod objects;
pub(super) mod replay;
pub(super) mod text;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;

use super::bundle::{self, Document};
use super::{ClusterArgs, DONE, Error, Output, tell, term};
use crate::clock::{Clock, ManualClock, SystemClock};
use crate::config::Config;
use crate::snapshot::Snapshot;

const EXAMPLES: &str = "\
Examples:
  What the controller would decide now, and why:
    appwrapper explain train -n team
    (kubectl get aw train -o yaml; echo ---; kubectl get jobs,pods,nodes -o yaml) |
      appwrapper explain -f -

  What a changed policy would have made of the failures of the last attempts. Save the AppWrapper
  with its status, and the RetryPolicies and queues that concern it; change the policies in the
  file (spec.failurePolicy, spec.podFailurePolicy, annotations, RetryPolicies); then:
    appwrapper explain --replay -f saved.yaml --config appwrapper.yaml

  The stages are the controller's own, and the counts are those of the replay. Only the first cause
  of each failure is recorded: where a rule asks for more, the answer says how it was judged and
  what would be decided otherwise. Grace periods are not replayed.

Exit codes: 0 for every answer, 1 no such AppWrapper, 2 wrong usage, 3 no answer from the cluster.";

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// Name of an AppWrapper in the cluster; or read a bundle with -f
    #[arg(value_name = "NAME", required_unless_present = "files", conflicts_with = "files")]
    name: Option<String>,
    /// Bundle: a file, a directory, or - for standard input; with one AppWrapper and all around it
    #[arg(short, long = "filename", value_name = "FILE|DIR|-")]
    files: Vec<PathBuf>,
    /// Namespace of the AppWrapper in the cluster
    #[arg(short, long, requires = "name")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Configuration file of the controller; every key is optional. By default, in a cluster, that of
    /// ConfigMap appwrapper-system/appwrapper-config
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Decide anew about the failures that status.attempts records, by the policies as they are now
    ///
    /// Attempt by attempt: what was decided, what the policies of the bundle (or of the cluster)
    /// would decide, whether these differ, and by which rule.
    #[arg(long)]
    replay: bool,
    /// The moment at which is decided; by default now
    #[arg(long, conflicts_with = "replay", value_name = "RFC3339", value_parser = moment)]
    now: Option<Timestamp>,
    /// How the answer is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What is looked at: an AppWrapper and the world around it.
#[derive(Debug)]
pub(super) struct Scene {
    /// What was seen.
    pub(super) snapshot: Snapshot,
    /// `metadata.annotations` of the AppWrapper.
    pub(super) annotations: std::collections::BTreeMap<String, String>,
    /// `spec.managedBy`, where that is another controller.
    pub(super) other_manager: Option<String>,
    /// What is worth knowing about how this was read.
    pub(super) notes: Vec<String>,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "must be a moment such as 2026-01-01T00:00:00Z".to_owned())
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Error> {
    let now = match args.now {
        Some(moment) => ManualClock::at(moment).now(),
        None => SystemClock.now(),
    };
    let (scene, config) = if let Some(name) = &args.name {
        live::scene(args, name)?
    } else {
        let config = super::configured(args.config.as_deref())?;
        (bundled(&args.files, &config, now)?, config)
    };
    let colours = term::has_colour();
    if args.replay {
        let replay = replay::answer(&scene, &config, now);
        tell(args.output, &replay, || replay::text(&replay, colours))?;
    } else {
        let explanation = answer::explain(&scene, &config, now);
        tell(args.output, &explanation, || text::text(&explanation, now, colours))?;
    }
    Ok(DONE)
}

fn bundled(paths: &[PathBuf], config: &Config, now: Timestamp) -> Result<Scene, Error> {
    let sources = bundle::sources(paths).map_err(|error| Error::Usage(error.to_string()))?;
    let documents: Result<Vec<Document>, _> = bundle::documents(&sources).into_iter().collect();
    let documents = documents.map_err(|flaw| Error::Usage(flaw.to_string()))?;
    world::scene(documents, config, now).map_err(Error::Usage)
}

#[cfg(test)]
mod tests;
