//! Completion in shells: commands and flags as `clap` knows them, and the names of AppWrappers in the cluster.
//!
//! A shell runs this program again with [`VARIABLE`] in its environment; kubectl runs it under the name
//! [`FOR_KUBECTL`].

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, ValueEnum};
use clap_complete::engine::{self, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use kube::api::ListParams;
use kube::core::{ObjectList, Request};
use kube::{Client, Resource};

use super::aw::split_kind;
use super::place::{Place, appwrappers};
use super::{Cli, ClusterArgs, DONE, Error, PLUGIN, block_on, program, term};
use crate::observe::raw_object::RawObject;
use crate::tuning::names;

/// The environment variable by which a shell asks.
const VARIABLE: &str = "APPWRAPPER_COMPLETE";
/// Timeout for shell completion.
const WITHIN: Duration = Duration::from_secs(2);
/// The most names that are completed: nobody reads more.
const NAMES_MAX: usize = 500;
/// Names of a page of the list.
const PAGE: u32 = 500;
/// Completions are all that there are: no names of files. Cobra: `ShellCompDirectiveNoFileComp`.
const NO_FILES: &str = ":4";
/// The same, and what is completed goes on, such as a directory: no space follows it. Cobra:
/// `ShellCompDirectiveNoSpace` as well.
const NO_FILES_NO_SPACE: &str = ":6";
/// The name under which kubectl finds what completes its plugin `kubectl aw`.
const FOR_KUBECTL: &str = "kubectl_complete-aw";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Answers a shell or kubectl, where one of them asks.
pub(super) fn answer() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if is_for_kubectl(arguments.first()?) {
        // what cannot be completed has no completions
        let lines = completions(&arguments[1..]).unwrap_or_else(|_| vec![NO_FILES.to_owned()]);
        term::print_own(&(lines.join("\n") + "\n"));
        return Some(DONE);
    }
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
    None
}

fn is_for_kubectl(program: &OsStr) -> bool {
    Path::new(program).file_stem().is_some_and(|name| name == FOR_KUBECTL)
}

/// Prints the script with which a shell asks.
pub(super) fn script(args: &Args) -> Result<ExitCode, Error> {
    let name = match args.shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
    };
    let bin = if program() == "appwrapper" { "appwrapper" } else { PLUGIN };
    let cannot = |why: String| Error::Usage(format!("cannot write the script: {why}"));
    let shells = Shells::builtins();
    let shell = shells.completer(name).ok_or_else(|| cannot(format!("unknown shell {name}")))?;
    let mut text = vec![];
    let written = shell.write_registration(VARIABLE, bin, bin, bin, &mut text);
    written.map_err(|error| cannot(error.to_string()))?;
    term::print_own(&String::from_utf8_lossy(&text));
    Ok(DONE)
}

/// What kubectl reads, in the way of the library that it is made with: a completion of the last word on each line, its
/// description after a tab; then that there are no others.
fn completions(words: &[OsString]) -> std::io::Result<Vec<String>> {
    let mut all: Vec<OsString> = vec![PLUGIN.into()];
    all.extend(words.iter().cloned());
    if words.is_empty() {
        all.push(OsString::new());
    }
    let index = all.len() - 1;
    let mut command = Cli::command();
    command.build();
    let found = engine::complete(&mut command, all, index, None)?;
    let line = |candidate: CompletionCandidate| {
        let value = candidate.get_value().to_string_lossy().into_owned();
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        match help.lines().next() {
            Some(help) => format!("{value}\t{help}"),
            None => value,
        }
    };
    let shown: Vec<CompletionCandidate> =
        found.into_iter().filter(|candidate| !candidate.is_hide_set()).collect();
    let has_directory = shown.iter().any(|one| one.get_value().to_string_lossy().ends_with('/'));
    let directive = if has_directory { NO_FILES_NO_SPACE } else { NO_FILES };
    Ok(shown.into_iter().map(line).chain([directive.to_owned()]).collect())
}

/// The names of AppWrappers that begin with what is typed, as far as the cluster answers in time. A kind that is typed
/// before, such as `aw/`, stays.
pub(super) fn names_in_the_cluster(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return vec![] };
    let (kind, typed) = split_kind(typed);
    let words: Vec<String> =
        std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    let (cluster, namespace) = place(&words);
    let mut found = vec![];
    let searched = block_on(async {
        let work = async {
            let Place { client, namespace } = Place::of(&cluster, namespace.as_deref()).await?;
            search(&client, &namespace, typed, &mut found).await;
            Ok::<_, Error>(())
        };
        tokio::time::timeout(WITHIN, work).await.unwrap_or(Ok(()))
    });
    // without a cluster, there are no names
    drop(searched);
    found.into_iter().map(|name| CompletionCandidate::new(format!("{kind}{name}"))).collect()
}

/// Looks for names that begin with what is typed, page by page; an error ends it.
async fn search(client: &Client, namespace: &str, typed: &str, found: &mut Vec<String>) {
    let all = Request::new(RawObject::url_path(&appwrappers(), Some(namespace)));
    let mut params = ListParams::default().limit(PAGE);
    while let Ok(request) = all.list_metadata(&params)
        && let Ok(page) = client.request::<ObjectList<RawObject>>(request).await
    {
        let names = page.items.into_iter().filter_map(|object| object.meta.name);
        // nothing else may reach the shell
        found.extend(names.filter(|name| name.starts_with(typed) && names::is_subdomain(name)));
        found.truncate(NAMES_MAX);
        let more = page.metadata.continue_.filter(|token| !token.is_empty());
        match more.filter(|_| found.len() < NAMES_MAX) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
}

/// The cluster and the namespace that a command line names so far. A shell hands it over after `--`, kubectl as it is.
fn place(arguments: &[String]) -> (ClusterArgs, Option<String>) {
    let begin = match arguments.first() {
        Some(program) if is_for_kubectl(program.as_ref()) => Some(0),
        Some(_) | None => arguments.iter().position(|word| word == "--"),
    };
    let words = &arguments[begin.map_or(arguments.len(), |begin| begin + 1)..];
    let value = |flags: &[&str]| {
        words.iter().enumerate().rev().find_map(|(index, word)| {
            if flags.contains(&word.as_str()) {
                return words.get(index + 1).cloned();
            }
            let joined = flags.iter().find_map(|flag| word.strip_prefix(flag)?.strip_prefix('='));
            let short = flags.iter().filter(|flag| !flag.starts_with("--"));
            let joined = joined.or_else(|| short.clone().find_map(|flag| word.strip_prefix(flag)));
            joined.map(str::to_owned)
        })
    };
    let cluster = ClusterArgs {
        kubeconfig: value(&["--kubeconfig"]).map(Into::into),
        context: value(&["--context"]),
    };
    (cluster, value(&["-n", "--namespace"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_looked_for_on_all_pages() {
        let service = tower::service_fn(|request: http::Request<kube::client::Body>| {
            let query = request.uri().query().unwrap_or_default();
            let (names, more) = if query.contains("continue=next") {
                (vec!["zebra".to_owned(), "zeb\u{1b}".to_owned()], "")
            } else {
                ((0..500).map(|n| format!("a-{n:03}")).collect(), "next")
            };
            // whoever may change an AppWrapper may write any time of Go there
            let far = serde_json::json!([{"time": "9999-12-31T23:59:59Z"}]);
            let metadata = |name: &String| serde_json::json!({"name": name, "managedFields": far});
            let item = |name: &String| serde_json::json!({"metadata": metadata(name)});
            let items: Vec<serde_json::Value> = names.iter().map(item).collect();
            let list = serde_json::json!({"apiVersion": "meta.k8s.io/v1",
                "kind": "PartialObjectMetadataList", "metadata": {"continue": more}, "items": items});
            let body = kube::client::Body::from(list.to_string().into_bytes());
            async move { Ok::<_, std::convert::Infallible>(http::Response::new(body)) }
        });
        let client = kube::Client::new(service, "ns");
        for (typed, want) in [("zeb", 1), ("a-49", 10), ("", 500), ("x", 0)] {
            let mut found = vec![];
            search(&client, "ns", typed, &mut found).await;
            assert_eq!(found.len(), want, "{typed}");
        }
    }

    fn of(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        completions(&words).unwrap()
    }

    #[test]
    fn commands_and_flags_are_completed() {
        let all = of(&["wa"]);
        assert_eq!(all.last().map(String::as_str), Some(NO_FILES));
        let names: Vec<&str> =
            all.iter().map(|line| line.split('\t').next().unwrap_or_default()).collect();
        assert_eq!(names, ["wait", "watch", NO_FILES]);
        assert!(all[1].starts_with("watch\tWatch an AppWrapper"), "{all:?}");
        let flags = of(&["logs", "--"]).join("\n");
        assert!(flags.contains("--failed\t") && flags.contains("--attempt"), "{flags}");
        let values = of(&["list", "-o", ""]).join("\n");
        assert!(values.contains("text") && values.contains("json"), "{values}");
        assert!(of(&[]).len() > 10, "all commands");
        let folder = format!("{}/sample", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(of(&["wrap", "-f", &folder]), [format!("{folder}s/"), ":6".to_owned()]);
        assert!(of(&["w"]).iter().any(|line| line.starts_with("why\t")), "not by its alias");
    }

    #[test]
    fn cluster_and_namespace_are_those_of_the_command_line() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let (cluster, namespace) = place(&words);
            let file = cluster.kubeconfig.map(|path| path.display().to_string());
            (namespace, cluster.context, file)
        };
        let text = |text: &str| Some(text.to_owned());
        for (words, want) in [
            (&["/bin/kubectl_complete-aw", "why", "-n", "a", ""][..], (text("a"), None, None)),
            (&["x", "--", "x", "why", "-na", ""], (text("a"), None, None)),
            (&["x", "--", "x", "--namespace=a", "--context", "c"], (text("a"), text("c"), None)),
            (&["x", "--", "x", "--kubeconfig", "f", "-n=b"], (text("b"), None, text("f"))),
            (&["x", "-n", "a", "--", "x", "why"], (None, None, None)),
            (&["x", "why", "-n", "a"], (None, None, None)),
            (&["x", "--", "x", "-n"], (None, None, None)),
        ] {
            assert_eq!(of(words), want, "{words:?}");
        }
    }

    #[test]
    fn each_shell_has_a_script_that_asks_this_program() {
        for name in ["bash", "zsh", "fish"] {
            let mut text = vec![];
            let shells = Shells::builtins();
            let shell = shells.completer(name).unwrap();
            shell.write_registration(VARIABLE, PLUGIN, PLUGIN, PLUGIN, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains(VARIABLE) && text.contains(PLUGIN), "{text}");
        }
    }
}
