//! The command line. Each command is a function that returns an exit code or an error.

mod aw;
mod bundle;
mod cluster;
mod complaint;
mod complete;
mod configuration;
mod crd;
#[cfg(feature = "demo")]
mod demo;
mod explain;
#[cfg(feature = "demo")]
mod fleet;
mod ledger;
mod place;
mod run;
#[cfg(feature = "demo")]
mod simulate;
pub mod term;
mod validate;
mod web;
mod wrap;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde::Serialize;

pub use validate::validated_file;

use crate::config::{Config, LoadError};
use crate::telemetry;

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 a negative answer, 2 wrong usage, 3 the cluster could not be reached or
answered with an error, or the operating system refused something. watch also exits with 130 after
Ctrl-C, and with 141 if nobody reads its output.";

/// Runs, watches, retries and cleans up any set of Kubernetes resources as one unit.
#[derive(Debug, Parser)]
#[command(name = "appwrapper", version, about, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List AppWrappers with their phase, queue, restarts and state
    List(aw::list::Args),
    /// Show the state of an AppWrapper and the reasons for it; `describe` is the same
    #[command(alias = "describe")]
    Why(aw::describe::Args),
    /// Show the attempts of an AppWrapper and why each ended
    Attempts(aw::Target),
    /// Show what the reserved quota of an AppWrapper was used for, and what each attempt cost
    Eff(aw::Target),
    /// Report what reserved quota was used for, by queue, user, namespace, failure category or node
    ///
    /// Only AppWrappers that still exist are in the report. Each counts with all the time that its status
    /// records; the metric `appwrapper_resource_seconds_total` also covers those that were deleted.
    Report(aw::report::Args),
    /// List the nodes on which failures of AppWrappers began, and which of them are suspect
    Nodes(aw::nodes::Args),
    /// Show an AppWrapper and the objects it owns, down to the pods
    Tree(aw::Target),
    /// Write the timeline of an AppWrapper to a file, as an SVG image or an HTML document
    Timeline(aw::timeline::Args),
    /// Print an AppWrapper and the objects around it, for explain -f, timeline -f and web -f
    ///
    /// Values of environment variables, parameters of Ray's processes, and the data of `Secret`s and
    /// `ConfigMap`s are left out.
    Export(aw::export::Args),
    /// Delete a failed AppWrapper and recreate it from its own spec
    ///
    /// A server-side dry run comes first, so that nothing is deleted that cannot be recreated. Until
    /// the new AppWrapper exists, its manifest is kept in NAMESPACE.NAME.appwrapper.json in the
    /// current directory.
    Retry(aw::Target),
    /// Suspend an AppWrapper: delete its resources, but keep the AppWrapper itself
    Suspend(aw::Target),
    /// Resume a suspended AppWrapper
    Resume(aw::Target),
    /// Serve a page on 127.0.0.1 that shows AppWrappers, with the permissions of the kubeconfig; changes nothing
    Web(web::Args),
    /// Wait until an AppWrapper reaches a phase or is deleted
    Wait(aw::wait::Args),
    /// Watch an AppWrapper until it has ended
    ///
    /// On a terminal, a live view of its state, its pods and the last changes; elsewhere, one line for
    /// each change. Exits with 0 if it has succeeded, with 1 if it has failed or was deleted, with 130
    /// after Ctrl-C, and with 141 if nobody reads its output.
    Watch(aw::Target),
    /// Print the logs of an AppWrapper: of its pods, or of the first cause of a failure
    ///
    /// With --failed or --attempt, the pod is usually gone: then the command prints what the controller
    /// kept of its log, if the administrator has set `failureLogs` in the configuration.
    Logs(aw::logs::Args),
    /// List AppWrappers that were deleted, if `history` is enabled in the configuration
    History(aw::history::Args),
    /// Delete an AppWrapper, wait until it is gone, and show what blocks the deletion
    Delete(aw::delete::Args),
    /// Run the controller
    Run(run::Args),
    /// Print the CustomResourceDefinitions
    Crd,
    /// Demonstrate a failure and its recovery in a simulated cluster, or run manifests in one
    ///
    /// The simulation ends when nothing more happens, and at the latest after 2 hours of virtual time.
    #[cfg(feature = "demo")]
    Demo(demo::Args),
    /// Explain what the controller would decide now, and why; changes nothing
    Explain(explain::Args),
    /// Run the controller in simulated clusters, one per seed, and check every invariant
    #[cfg(feature = "demo")]
    Simulate(simulate::Args),
    /// Check AppWrappers and RetryPolicies in files, without a cluster
    Validate(validate::Args),
    /// Wrap ordinary manifests in one AppWrapper: a Job, a ConfigMap, a Service
    ///
    /// The AppWrapper is validated as `validate` does, and printed. It gets the namespace and the queue
    /// of the manifests. What a cluster added to an object, such as its UID and its status, is left out.
    Wrap(wrap::WrapArgs),
    /// Print the manifests that an AppWrapper wraps, each with its namespace and queue
    Unwrap(wrap::UnwrapArgs),
    /// Print a script that completes commands, flags and names of AppWrappers in a shell
    ///
    /// bash: source <(appwrapper completion bash); zsh: source <(appwrapper completion zsh);
    /// fish: appwrapper completion fish | source
    Completion(complete::Args),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Human-readable text.
    #[default]
    Text,
    /// JSON.
    Json,
}

/// Where the cluster is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// Kubeconfig file; defaults to $KUBECONFIG, then ~/.kube/config, then, without any, the in-cluster
    /// configuration
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; defaults to its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments are invalid, or a file cannot be read: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The answer is no: exit code 1.
    #[error("{0}")]
    Negative(String),
    /// The cluster could not be reached: exit code 3.
    #[error("{0}")]
    Cluster(String),
    /// The operating system refused something, such as a thread or a port: exit code 3.
    #[error("{0}")]
    System(String),
}

/// Exit code where the cluster could not be reached, or the operating system refused something.
const REFUSED: u8 = 3;

impl Error {
    fn code(&self) -> ExitCode {
        match self {
            Self::Negative(_) => ExitCode::from(NEGATIVE),
            Self::Usage(_) => ExitCode::from(2),
            Self::Cluster(_) | Self::System(_) => ExitCode::from(REFUSED),
        }
    }
}

/// The command did what it was asked, and the answer is yes.
pub const DONE: ExitCode = ExitCode::SUCCESS;

/// The answer is no.
const NEGATIVE: u8 = 1;

/// The name under which kubectl finds its plugin `kubectl aw`.
const PLUGIN: &str = "kubectl-aw";

/// How a person calls this program, for help and advice: by its name, or as a plugin of kubectl.
fn program() -> &'static str {
    static PROGRAM: LazyLock<&'static str> =
        LazyLock::new(|| called_as(std::env::args_os().next()));
    *PROGRAM
}

fn called_as(argument: Option<OsString>) -> &'static str {
    let path = argument.unwrap_or_default();
    let is_plugin = Path::new(&path).file_stem().is_some_and(|name| name == PLUGIN);
    if is_plugin { "kubectl aw" } else { "appwrapper" }
}

/// An answer as JSON.
fn json(answer: &impl Serialize) -> Result<String, Error> {
    term::json(answer).map_err(|error| unprintable(&error))
}

/// Prints an answer for people or for programs.
fn tell(
    output: Output,
    answer: &impl Serialize,
    page: impl FnOnce() -> term::Page,
) -> Result<(), Error> {
    match output {
        Output::Json => term::print_json(answer).map_err(|error| unprintable(&error)),
        Output::Text => {
            term::print(&page());
            Ok(())
        }
    }
}

fn unprintable(error: &serde_json::Error) -> Error {
    Error::Usage(format!("cannot write JSON: {error}"))
}

/// The configuration of a file; the default without one.
///
/// # Errors
/// The file cannot be read; or it is invalid, which is a negative answer.
fn configured(path: Option<&Path>) -> Result<Config, Error> {
    let Some(path) = path else { return Ok(Config::default()) };
    Config::load(path).map_err(|error| {
        let text = telemetry::chain(&error);
        match error {
            LoadError::Read { .. } => Error::Usage(text),
            LoadError::Invalid { .. } => Error::Negative(text),
        }
    })
}

/// A runtime for one thread. What is made of it before it starts, such as a client, lives on it.
fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::System(format!("cannot start the async runtime: {error}")))
}

/// Does work that waits for a cluster, on this thread.
fn block_on<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = runtime()?;
    let done = runtime.block_on(work);
    // a name that is still being resolved is not waited for
    runtime.shutdown_background();
    done
}

/// A usage error without the advice to pass an unknown flag as a value: no argument of ours begins with `-`.
fn without_escape(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value, use"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

/// Flags that kubectl takes before a command, too.
const EARLY: [&str; 4] = ["-n", "--namespace", "--context", "--kubeconfig"];

/// A usage error with a tip, where such a flag stands before the command.
fn with_order(mut error: clap::Error, words: &[String]) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(words) = reordered(words)
    {
        let tip = format!("put it after the command: {} {words}", program());
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// The command line with such flags at its end; none where it would be wrong there, too.
fn reordered(words: &[String]) -> Option<String> {
    let mut rest = words;
    while let Some(first) = rest.first() {
        let flag = first.split_once('=').map_or(first.as_str(), |(flag, _)| flag);
        rest = if EARLY.contains(&first.as_str()) {
            rest.get(2..)?
        } else if EARLY.contains(&flag) || first.starts_with("-n") {
            &rest[1..]
        } else {
            break;
        };
    }
    let early = &words[..words.len() - rest.len()];
    if early.is_empty() || rest.is_empty() {
        return None;
    }
    let line = [rest, early].concat();
    let words = std::iter::once(program()).chain(line.iter().map(String::as_str));
    Cli::command().try_get_matches_from(words).ok()?;
    let line: Vec<String> = line.iter().map(|word| cluster::quoted(word)).collect();
    Some(line.join(" "))
}

/// Runs the command that the arguments name; clap itself ends the process on wrong usage, with 2.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = complete::answer() {
        return code;
    }
    let matches = Cli::command().bin_name(program()).try_get_matches();
    let matches = matches.unwrap_or_else(|error| {
        let words: Result<Vec<String>, OsString> =
            std::env::args_os().skip(1).map(OsString::into_string).collect();
        with_order(without_escape(error), &words.unwrap_or_default()).exit()
    });
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let code = carry_out(cli.command).unwrap_or_else(|error| {
        term::complain(&error.to_string());
        error.code()
    });
    // half an answer is none
    if term::output_failed() { ExitCode::from(REFUSED) } else { code }
}

fn carry_out(command: Command) -> Result<ExitCode, Error> {
    match command {
        Command::List(args) => aw::list::run(&args),
        Command::Why(args) => aw::describe::run(&args),
        Command::Attempts(args) => aw::attempts::run(&args),
        Command::Eff(args) => aw::eff::run(&args),
        Command::Report(args) => aw::report::run(&args),
        Command::Nodes(args) => aw::nodes::run(&args),
        Command::Tree(args) => aw::tree::run(&args),
        Command::Timeline(args) => aw::timeline::run(&args),
        Command::Export(args) => aw::export::run(&args),
        Command::Retry(args) => aw::retry::run(&args),
        Command::Suspend(args) => aw::switch::suspend(&args),
        Command::Resume(args) => aw::switch::resume(&args),
        Command::Web(args) => web::run(&args),
        Command::Wait(args) => aw::wait::run(&args),
        Command::Watch(args) => aw::watch::run(&args),
        Command::Logs(args) => aw::logs::run(&args),
        Command::History(args) => aw::history::run(&args),
        Command::Delete(args) => aw::delete::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Crd => crd::crd(),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::run(&args),
        Command::Explain(args) => explain::run(&args),
        #[cfg(feature = "demo")]
        Command::Simulate(args) => simulate::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Completion(args) => complete::script(&args),
        Command::Wrap(args) => wrap::wrap(&args),
        Command::Unwrap(args) => wrap::unwrap(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap_complete::engine::ArgValueCompleter;

    use super::*;

    #[test]
    fn the_plugin_is_called_through_kubectl() {
        for (argument, want) in [
            (Some("appwrapper"), "appwrapper"),
            (Some("/usr/local/bin/kubectl-aw"), "kubectl aw"),
            (Some("kubectl-aw.exe"), "kubectl aw"),
            (Some("./my-appwrapper"), "appwrapper"),
            (None, "appwrapper"),
        ] {
            assert_eq!(called_as(argument.map(OsString::from)), want, "{argument:?}");
        }
    }

    #[test]
    fn a_name_that_is_being_resolved_is_not_waited_for() {
        let (end, ended) = std::sync::mpsc::channel();
        let work = async {
            let (start, started) = tokio::sync::oneshot::channel();
            let resolve = move || {
                start.send(()).unwrap();
                ended.recv_timeout(std::time::Duration::from_secs(9))
            };
            tokio::task::spawn_blocking(resolve);
            started.await.unwrap();
            Ok(())
        };
        block_on(work).unwrap();
        // fails where it has ended
        end.send(()).unwrap();
    }

    #[test]
    fn an_invalid_configuration_is_a_negative_answer_but_for_run() {
        let name = format!("appwrapper-invalid-{}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "retryPolicy: {globalMaxRetries: -1}").unwrap();
        let found = configured(Some(&path));
        assert!(matches!(found, Err(Error::Negative(_))), "{found:?}");
        let found = run::configured(Some(&path));
        assert!(matches!(found, Err(Error::Usage(_))), "{found:?}");
        std::fs::remove_file(&path).unwrap();
        for found in [configured(Some(&path)), run::configured(Some(&path))] {
            assert!(matches!(found, Err(Error::Usage(_))), "it cannot be read: {found:?}");
        }
    }

    #[test]
    fn the_commands_fit_together() {
        Cli::command().debug_assert();
        assert!(Cli::command().render_help().to_string().contains("Exit codes: 0 done"));
        let mut command = Cli::command().bin_name("kubectl aw");
        let error = command.try_get_matches_from_mut(["kubectl-aw", "why"]).unwrap_err();
        assert!(error.to_string().contains("Usage: kubectl aw why"), "{error}");
        Cli::try_parse_from(["appwrapper", "describe", "a"]).unwrap();
        for words in ["validate a -f b", "validate --config a", "wrap -f a -o yaml"] {
            Cli::try_parse_from(format!("appwrapper {words}").split(' ')).unwrap();
        }
        let error = Cli::try_parse_from(["appwrapper", "demo", "-f", "a"]).unwrap_err();
        let error = without_escape(error).to_string();
        assert!(error.contains("unexpected argument '-f'") && !error.contains("tip:"), "{error}");
    }

    #[test]
    fn flags_before_the_command_are_said_to_come_after_it() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, want) in [
            ("-n team list", Some("list -n team")),
            ("--context=c -nteam why a -o json", Some("why a -o json --context=c -nteam")),
            ("--kubeconfig f describe a", Some("describe a --kubeconfig f")),
            ("--namespace team", None),
            ("-n team nothing", None),
            ("-n team nodes", None),
            ("--context c nodes", Some("nodes --context c")),
            ("--context c;d nodes", Some("nodes --context 'c;d'")),
            ("-n", None),
            ("list -n team", None),
            ("--version", None),
        ] {
            assert_eq!(reordered(&words(text)).as_deref(), want, "{text}");
        }
        let error = Cli::try_parse_from(["appwrapper", "-n", "team", "list"]).unwrap_err();
        let said = with_order(without_escape(error), &words("-n team list")).to_string();
        let tip = "tip: put it after the command: appwrapper list -n team";
        assert!(said.contains("unexpected argument '-n'") && said.contains(tip), "{said}");
    }

    #[test]
    fn every_name_is_checked_and_completed() {
        let mut count = 0;
        for command in Cli::command().get_subcommands() {
            let named = command.get_positionals().find(|one| one.get_id() == "name");
            let Some(argument) = named else { continue };
            let name = command.get_name();
            for (given, is_name) in [("aw/train", true), ("../pods", false), ("aw/../pods", false)]
            {
                let kind =
                    Cli::try_parse_from(["appwrapper", name, given]).err().map(|it| it.kind());
                let is_refused = kind == Some(clap::error::ErrorKind::ValueValidation);
                assert_eq!(is_refused, !is_name, "{name} {given}: {kind:?}");
            }
            // those of the history are no longer in the cluster
            let is_completed = argument.get::<ArgValueCompleter>().is_some();
            assert_eq!(is_completed, name != "history", "{name}");
            count += 1;
        }
        assert!(count > 12, "{count} commands with a name");
    }

    #[cfg(feature = "demo")]
    #[test]
    fn no_flag_is_ignored() {
        let parse = |arguments: &'static str| {
            Cli::try_parse_from(std::iter::once("appwrapper").chain(arguments.split(' ')))
        };
        for arguments in [
            "explain -f F -n team",
            "timeline -f F -n team --svg S",
            "simulate --night --nodes 8",
            "simulate --night --seed 9",
            "simulate --night --web",
            "simulate --seeds 1 --without 3",
            "simulate --fleet --port 99",
            "simulate --seeds 2 --steps 9",
            "simulate --steps 9",
            "simulate --exhaustive --faults none",
        ] {
            assert!(parse(arguments).is_err(), "{arguments}");
        }
        for arguments in [
            "simulate --seed 7 --web --port 99 --steps 9",
            "simulate --trace --steps 9 --without 3",
            "simulate --fleet --days 3 --nodes 8 --seed 1",
        ] {
            parse(arguments).unwrap();
        }
    }

    #[test]
    fn all_namespaces_may_be_asked_for_beside_one() {
        for command in ["list", "report", "history", "web"] {
            for flags in [["-A", "-nx"], ["-nx", "-A"]] {
                let words = ["appwrapper", command].into_iter().chain(flags);
                Cli::try_parse_from(words).unwrap();
            }
        }
        assert!(Cli::try_parse_from(["appwrapper", "web", "-A", "-f", "x"]).is_err());
    }

    #[test]
    fn what_is_required_is_named_with_its_alternatives() {
        for (arguments, want) in [
            ("timeline a", "  <--svg <FILE>|--html <FILE>>\n"),
            ("timeline --svg f", "  <NAME|--filename <FILE|DIR|->>\n"),
            ("timeline a -f b --svg f", "'[NAME]' cannot be used with '--filename"),
            ("explain", "  <NAME|--filename <FILE|DIR|->>\n"),
            ("explain a -f b", "'[NAME]' cannot be used with '--filename"),
        ] {
            let words = std::iter::once("appwrapper").chain(arguments.split(' '));
            let error = Cli::try_parse_from(words).unwrap_err().to_string();
            assert!(error.contains(want), "{arguments}: {error}");
        }
        for arguments in ["timeline a --svg f --html g", "timeline -f a -f b --html g", "explain a"]
        {
            let words = std::iter::once("appwrapper").chain(arguments.split(' '));
            Cli::try_parse_from(words).unwrap();
        }
    }
}
