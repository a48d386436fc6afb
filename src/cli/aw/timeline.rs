//! `appwrapper timeline`: a picture of an AppWrapper to keep, such as for a ticket.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgGroup;
use clap_complete::engine::ArgValueCompleter;
use k8s_openapi::jiff::Timestamp;

use super::super::bundle::exported_at;
use super::super::complete::names_in_the_cluster;
use super::super::configuration::assumed;
use super::super::explain;
use super::super::place::Place;
use super::super::term;
use super::super::{ClusterArgs, DONE, Error, configured};
use super::story::{self, Story, StoryInputs};
use super::{block_on, now, object_name, wrapper_name};

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    group = ArgGroup::new("source").args(["name", "files"]).required(true),
    group = ArgGroup::new("documents").args(["svg", "html"]).required(true).multiple(true),
)]
pub(in crate::cli) struct Args {
    /// Name of an AppWrapper in the cluster; use -f to read manifests or an export instead
    #[arg(value_parser = wrapper_name, add = ArgValueCompleter::new(names_in_the_cluster))]
    name: Option<String>,
    /// Manifests or an export, with one AppWrapper and its related objects: file, directory with all
    /// directories below, or - for standard input
    #[arg(short, long = "filename", value_name = "FILE|DIR|-")]
    files: Vec<PathBuf>,
    /// Write the timeline to this file, as an SVG image
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the timeline, the reasons, the attempts and the usage to this file, as an HTML document
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Time that the picture shows, with -f; defaults to the time of the export, else to now
    #[arg(long, value_name = "RFC3339", requires = "files", value_parser = explain::moment)]
    now: Option<Timestamp>,
    /// Namespace of the AppWrapper; defaults to the namespace of the kubeconfig
    #[arg(short, long, conflicts_with = "files", value_parser = object_name)]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Error> {
    let (inputs, now) = if let Some(name) = &args.name {
        let inputs = block_on(async {
            let place = Place::of(&args.cluster, args.namespace.as_deref()).await?;
            StoryInputs::of_cluster(&place, name).await
        })?;
        (inputs, now())
    } else {
        let documents = explain::read(&args.files)?;
        let now = args.now.or_else(|| exported_at(&documents)).unwrap_or_else(now);
        let config = configured(None)?;
        let mut inputs = StoryInputs::of_bundle(documents, &config, now).map_err(Error::Usage)?;
        inputs.gathered.notes.extend(assumed(&inputs.gathered.one.wrapper));
        (inputs, now)
    };
    for note in &inputs.gathered.notes {
        term::remark(&format!("note: {note}"));
    }
    let story = inputs.story(now);
    save(args.svg.as_deref(), &story, Story::svg)?;
    save(args.html.as_deref(), &story, story::html)?;
    Ok(DONE)
}

/// Writes a document, where a file for it is named.
fn save(
    file: Option<&Path>,
    story: &Story,
    document: impl Fn(&Story) -> String,
) -> Result<(), Error> {
    let Some(file) = file else { return Ok(()) };
    let name = file.display();
    if file.as_os_str() == "-" {
        term::print_own(&document(story));
        return Ok(());
    }
    std::fs::write(file, document(story))
        .map_err(|error| Error::System(format!("cannot write {name}: {error}")))?;
    term::remark(&format!("{name} written"));
    Ok(())
}
