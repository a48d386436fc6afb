//! `appwrapper demo`: a simulated cluster that runs the controller's own code, told as a story.

mod cast;
mod live;
mod narration;
pub(super) mod recording;
mod shape;
mod view;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::json;

use super::bundle::{self, Document, Source};
use super::term::{self, Page, Shown};
use super::{DONE, Error, Output, block_on, program, web};
use crate::config::Config;
use crate::world::show::{Misfortune, Show};
use narration::{Line, Narration};

/// The story that is told where no file is given.
const STORY: &str = include_str!("story.yaml");
/// Nothing beyond this is waited for.
const HORIZON: Duration = Duration::from_hours(2);

const ANNOTATIONS: &str = "\
No container runs. A pod of a Job or of another kind that ends runs for 40 to 80 seconds and succeeds; a pod of a
Deployment or another kind that does not end runs until it is deleted. Annotations of a pod template change that:
  sim/run-for: 10s                  the pod ends after this time
  sim/exit-code: \"137\"              with this exit code
  sim/reason: OOMKilled             the reason of the container
  sim/message: TEXT                 its termination message
  sim/disruption: REASON            the pod gets the condition DisruptionTarget with this reason
  sim/fail-until-attempt: \"2\"       the pod fails in attempts 0 and 1, and succeeds in attempt 2
  sim/fail-first: \"1\"               only this many pods of the pod set fail
  sim/needs-peers: 30s              the pod fails this long after another pod of its AppWrapper is lost
  sim/never-ready: \"true\"           the pod never runs
  sim/stuck: \"true\"                 the pod stays Terminating when it is deleted
  sim/progress-every: 5s            the pod reports a training step this often
  sim/progress-steps: \"20\"          how many training steps it reports
  sim/hang-until-attempt: \"1\"       in earlier attempts, the pod does not end after its last step
  sim/checkpoint-every: \"5\"         the pod names a new checkpoint every 5 steps
Annotations of other objects:
  sim/at: 10s                       any object except a Node: it is created after this time
  sim/lost-at: \"30s, 10m\"           a Node: it stops reporting at these times
  sim/lost-for: 3m                  a Node: for how long each time; 2m by default";

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ANNOTATIONS)]
pub(super) struct Args {
    /// Files or directories of manifests, or - for standard input; without any, runs a built-in story
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Virtual seconds per real second, on a terminal; 0 runs as fast as possible
    #[arg(long, value_name = "N", default_value_t = 8.0)]
    speed: f64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Faults to inject while the first AppWrapper runs; comma-separated or repeated
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULT")]
    fault: Vec<Fault>,
    /// Run it to its end, and serve a page on 127.0.0.1 that plays it
    #[arg(long, conflicts_with_all = ["speed", "output"])]
    web: bool,
    /// Port of the page; by default, any that is free
    #[arg(long, value_name = "PORT", requires = "web", default_value_t = 0)]
    port: u16,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fault {
    /// The node of a pod stops reporting; the Node is deleted 15 minutes later
    Node,
    /// A pod fails
    Pod,
    /// A pod stays Terminating while the AppWrapper is restarted or suspended
    Stuck,
    /// A higher-priority AppWrapper needs its quota; without a queue, its owner suspends it for 30 s
    Preempt,
    /// The controller crashes and restarts after 30 s
    Crash,
    /// The API server returns only errors to the controller for 30 s
    Outage,
    /// A user deletes a component
    Component,
}

impl Fault {
    const fn misfortune(self) -> Misfortune {
        match self {
            Self::Node => Misfortune::Node,
            Self::Pod => Misfortune::Pod,
            Self::Stuck => Misfortune::Stuck,
            Self::Preempt => Misfortune::Preempt,
            Self::Crash => Misfortune::Crash,
            Self::Outage => Misfortune::Outage,
            Self::Component => Misfortune::Component,
        }
    }

    /// What the option `--fault` calls something that goes wrong.
    fn name(misfortune: Misfortune) -> String {
        let fault = Self::value_variants().iter().find(|fault| fault.misfortune() == misfortune);
        let option = fault.and_then(Self::to_possible_value);
        option.map(|option| option.get_name().to_owned()).unwrap_or_default()
    }
}

/// Who looks on, and what they are told first.
struct ViewOptions {
    notes: Vec<Line>,
    speed: f64,
    seed: u64,
}

/// Runs the show.
pub(super) fn run(args: &Args) -> Result<ExitCode, Error> {
    if !args.speed.is_finite() || args.speed < 0.0 {
        return Err(Error::Usage("--speed: must be a number, 0 or more".to_owned()));
    }
    let documents = read(&args.files)?;
    let config = Config::default();
    let refusals = refused(&documents, &config);
    if !refusals.is_empty() {
        for refusal in &refusals {
            term::complain(refusal);
        }
        return Ok(ExitCode::from(1));
    }
    if !documents.iter().any(|document| document.is_ours("AppWrapper")) {
        return Err(Error::Usage(bundle::none_of(
            "AppWrapper",
            &args.files,
            &documents,
            program(),
        )));
    }
    let mut misfortunes: Vec<Misfortune> =
        args.fault.iter().map(|fault| fault.misfortune()).collect();
    if args.files.is_empty() {
        misfortunes.insert(0, Misfortune::Node);
    }
    let places = places(&documents);
    let lives = 40 + args.seed.wrapping_mul(7) % 41;
    let prepared = cast::prepare(documents, misfortunes, lives);
    let notes = prepared.notes.into_iter().map(|(object, text)| Line::note(object, text)).collect();
    let options = ViewOptions { notes, speed: args.speed, seed: args.seed };
    let begin = || {
        let show = Show::new(args.seed, prepared.cast);
        show.map_err(|message| Error::Usage(placed(&places, message)))
    };
    if args.web {
        let recorded = async { Ok(Box::pin(recording::record(begin()?, &options.notes)).await) };
        let recording = block_on(recorded)?;
        return web::play(args.port, recording);
    }
    block_on(async {
        let show = begin()?;
        if args.output == Output::Text && term::is_terminal() {
            let seen = Box::pin(live::live(show, &options)).await;
            return Ok(if seen { DONE } else { ExitCode::from(130) });
        }
        Box::pin(plain(show, &options, args.output)).await;
        Ok(DONE)
    })
}

/// Why documents are not run: what admission would refuse, and what cannot be simulated.
fn refused(documents: &[Document], config: &Config) -> Vec<String> {
    let refusals = cast::refusals(documents, config);
    if !refusals.is_empty() {
        return refusals;
    }
    let flaws = documents.iter().flat_map(shape::flaws);
    flaws.chain(shape::too_many_pods(documents)).collect()
}

fn read(files: &[PathBuf]) -> Result<Vec<Document>, Error> {
    let sources = if files.is_empty() {
        vec![Source { name: "the story".to_owned(), bytes: STORY.as_bytes().to_vec() }]
    } else {
        bundle::sources(files).map_err(|error| Error::Usage(error.to_string()))?
    };
    let documents = bundle::documents_of(files, &sources).into_iter();
    documents.map(|document| document.map_err(|flaw| Error::Usage(flaw.to_string()))).collect()
}

/// Where each object is written down.
fn places(documents: &[Document]) -> Vec<(String, String)> {
    let place = |document: &Document| (document.title(), document.origin.to_string());
    documents.iter().map(place).collect()
}

/// What is said of an object, with the place of the last that has its name.
fn placed(places: &[(String, String)], message: String) -> String {
    let about = |(title, _): &&(String, String)| message.starts_with(&format!("{title}: "));
    match places.iter().rev().find(about) {
        Some((_, place)) => format!("{place}: {message}"),
        None => message,
    }
}

/// One line an event, at the end: the columns are as wide as they must be.
async fn plain(mut show: Show, options: &ViewOptions, output: Output) {
    let mut narration = Narration::default();
    let mut lines = options.notes.clone();
    loop {
        let goes_on = show.advance(HORIZON, HORIZON).await;
        for beat in show.drain() {
            lines.extend(narration.tell(&beat));
        }
        if !goes_on || show.elapsed() >= HORIZON {
            break;
        }
    }
    match output {
        Output::Json => {
            for line in &lines {
                term::print_json_line(&line.json());
            }
            term::print_json_line(&json!({"result": words::result(&show)}));
        }
        Output::Text => {
            let width = narration::width(&lines);
            let shown = lines.iter().map(|line| Shown::spans(&line.spans(width), false));
            let mut page = Page::from(shown.collect::<Vec<_>>());
            page.line("");
            for line in words::summary(&show, &lines) {
                page.line(&line);
            }
            term::print(&page);
        }
    }
}

#[cfg(test)]
mod tests;
