//! `appwrapper logs`: of the running pods, or what the controller kept of the first cause of a failure.

mod kept;
mod running;

use std::process::ExitCode;

use serde::Serialize;

use super::super::place::{One, Place};
use super::super::term::Page;
use super::super::{Error, Output};
use super::{Target, block_on, multikueue, tell, words};
use crate::api::{Attempt, FailureRecord};
use crate::failure_log::READ_BYTES_MAX;
use crate::printable::truncate_chars;

/// The longest line that is shown, in characters.
const LINE_CHARS_MAX: usize = 4096;

/// What `--failed` says where nothing has failed in a pod.
const NO_FAILED_POD: &str =
    "no failed pod is recorded; for the logs of running pods, leave out --failed";

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    target: Target,
    /// Log of the first cause of the failure of this attempt
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    attempt: Option<i32>,
    /// Log of the first cause of the last failure
    #[arg(long, conflicts_with = "attempt")]
    failed: bool,
    /// Only containers of this name
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Number of lines of each container; at most 10000
    #[arg(long, value_name = "LINES", default_value_t = 100,
        value_parser = clap::value_parser!(i64).range(1..=10_000))]
    tail: i64,
}

/// Logs, and what is worth knowing about them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Collected {
    namespace: String,
    name: String,
    logs: Vec<Log>,
    notes: Vec<String>,
}

/// The end of the log of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Log {
    attempt: Option<i32>,
    pod: String,
    container: String,
    /// The controller kept it before the pod was deleted.
    kept: bool,
    text: String,
    /// Its lines are longer than what is read of them.
    #[serde(skip)]
    is_cut: bool,
}

/// Whose log is asked for.
#[derive(Clone, Debug, PartialEq)]
enum LogSource {
    /// Those of all pods that there are.
    Running,
    /// That of the first cause of a failure.
    Failure(i32, Box<FailureRecord>),
    /// Those of pods that are in another cluster, and in which.
    Elsewhere(String),
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Error> {
    let logs = block_on(look(args))?;
    let several = logs.logs.len() > 1;
    if args.target.output == Output::Text {
        for note in &logs.notes {
            super::term::remark(&format!("note: {note}"));
        }
    }
    tell(args.target.output, &logs, || text(&logs.logs, several))
}

async fn look(args: &Args) -> Result<Collected, Error> {
    let place = args.target.place().await?;
    let one = place.one(&args.target.name).await?;
    let elsewhere = multikueue::note(&place, &one.wrapper).await?;
    let source = log_source(&one, args.attempt, args.failed, elsewhere).map_err(|why| {
        Error::Negative(format!("AppWrapper {}/{}: {why}", place.namespace, args.target.name))
    })?;
    let (mut logs, mut notes) = match source {
        LogSource::Running => running::all(&place, &one, args).await?,
        LogSource::Failure(attempt, failure) => {
            let log = of_failure(&place, &one, attempt, &failure, args).await?;
            (vec![log], earlier(&one, args.failed, attempt).into_iter().collect())
        }
        LogSource::Elsewhere(note) => (vec![], vec![note]),
    };
    for log in &mut logs {
        log.text = last_lines(&log.text, args.tail);
    }
    notes.extend(logs.iter().filter(|log| log.is_cut).map(cut));
    let (namespace, name) = (place.namespace.clone(), args.target.name.clone());
    Ok(Collected { namespace, name, logs, notes })
}

/// Whose log is meant.
///
/// # Errors
/// No failure of a pod is recorded that could be meant, or it is recorded in another cluster.
fn log_source(
    one: &One,
    attempt: Option<i32>,
    failed: bool,
    elsewhere: Option<String>,
) -> Result<LogSource, String> {
    if let Some(note) = elsewhere {
        let is_about_a_failure = failed || attempt.is_some();
        return if is_about_a_failure { Err(note) } else { Ok(LogSource::Elsewhere(note)) };
    }
    let attempts = &one.wrapper.status.attempts;
    let of_pods = attempts.iter().rev().filter_map(|entry| {
        let failure = entry.failure.as_ref().filter(|failure| failure.pod_uid.is_some())?;
        Some((entry.attempt, failure))
    });
    let mut of_pods = of_pods.filter(|(number, _)| attempt.is_none_or(|wanted| wanted == *number));
    match (attempt, failed) {
        (None, false) => Ok(LogSource::Running),
        (Some(_), _) | (None, true) => match (of_pods.next(), attempt) {
            (Some((number, failure)), _) => Ok(LogSource::Failure(number, failure.clone().into())),
            (None, None) => Err(NO_FAILED_POD.to_owned()),
            (None, Some(wanted)) => {
                let known = attempts.iter().any(|entry| entry.attempt == wanted);
                let running = known && attempts.last().is_some_and(|last| last.attempt == wanted);
                Err(if running {
                    format!(
                        "no failed pod is recorded in attempt {wanted}; for the logs of its pods, \
                             leave out --attempt"
                    )
                } else if known {
                    format!("no failed pod is recorded in attempt {wanted}")
                } else {
                    format!("attempt {wanted} is not recorded")
                })
            }
        },
    }
}

/// What is said where no pod has a log: the way to that of a failure, if a failed pod is recorded; else why.
fn without_logs(one: &One, has_pods: bool) -> &'static str {
    let attempts = &one.wrapper.status.attempts;
    let has_failed =
        |entry: &Attempt| entry.failure.as_ref().is_some_and(|failure| failure.pod_uid.is_some());
    let had_begun = |last: &Attempt| last.ready_at.is_some() || last.outcome.is_some();
    if attempts.iter().any(has_failed) {
        "; for the last failure, use --failed"
    } else if !has_pods && attempts.last().is_some_and(had_begun) {
        ": its pods were deleted"
    } else {
        ": no pod has started yet"
    }
}

/// That the last failure has no log, where it was asked for and that of an earlier attempt is shown.
fn earlier(one: &One, failed: bool, attempt: i32) -> Option<String> {
    let (last, _) = words::last_failure(&one.wrapper.status.attempts)?;
    let last = Some(last.attempt).filter(|last| failed && *last != attempt)?;
    Some(format!(
        "the last failure, in attempt {last}, did not begin in a pod; this is the log of attempt {attempt}"
    ))
}

/// That only the end of a log is read.
fn cut(log: &Log) -> String {
    let most = READ_BYTES_MAX >> 20;
    format!("{}/{}: only the last {most} MiB of these lines is read", log.pod, log.container)
}

/// The log of a pod that failed: as it is, where the pod still exists; else what was kept.
async fn of_failure(
    place: &Place,
    one: &One,
    attempt: i32,
    failure: &FailureRecord,
    args: &Args,
) -> Result<Log, Error> {
    let wanted = args.container.as_deref();
    match running::of_failure(place, attempt, failure, args).await? {
        Some(Ok(log)) => Ok(log),
        // without the permission to read it, or without its node, there may be what was kept
        Some(Err(why)) => kept::log(place, one, attempt, failure, wanted, Some(why)).await,
        None => kept::log(place, one, attempt, failure, wanted, None).await,
    }
}

/// At most so many lines from the end.
fn last_lines(text: &str, lines: i64) -> String {
    let all: Vec<&str> = text.lines().collect();
    let skipped = all.len().saturating_sub(usize::try_from(lines).unwrap_or(usize::MAX));
    all[skipped..].join("\n")
}

/// Line by line, with pod and container before each where there are several logs.
fn text(logs: &[Log], several: bool) -> Page {
    let mut page = Page::default();
    for log in logs {
        for line in log.text.lines() {
            let prefix =
                if several { format!("[{}/{}] ", log.pod, log.container) } else { String::new() };
            // of a progress bar, the last state
            let line = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
            page.line_with_tabs(&format!("{prefix}{}", truncate_chars(line, LINE_CHARS_MAX)));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::raw_object::RawObject;

    fn one(attempts: &Value) -> One {
        let object = json!({
            "metadata": {"name": "aw", "namespace": "ns", "uid": "u"},
            "spec": {"components": []}, "status": {"phase": "Running", "attempts": attempts},
        });
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        One::of(seen).unwrap()
    }

    #[test]
    fn a_failure_is_found_by_its_attempt_or_is_the_last() {
        let failed = |attempt: i32, uid: &str| json!({"attempt": attempt, "outcome": "Failed", "failure": {"pod": "p", "podUID": uid}});
        let lost = json!({"attempt": 2, "outcome": "Failed", "failure": {"component": "c"}});
        let one = one(&json!([failed(0, "a"), failed(1, "b"), lost, {"attempt": 3}]));
        let of = |attempt, failed| match log_source(&one, attempt, failed, None) {
            Ok(LogSource::Running) => Ok((-1, String::new())),
            Ok(LogSource::Elsewhere(note)) => Err(note),
            Ok(LogSource::Failure(number, failure)) => {
                Ok((number, failure.pod_uid.unwrap_or_default()))
            }
            Err(why) => Err(why),
        };
        assert_eq!(of(None, false), Ok((-1, String::new())));
        assert_eq!(of(None, true), Ok((1, "b".to_owned())));
        let said = earlier(&one, true, 1).unwrap();
        assert_eq!(
            said,
            "the last failure, in attempt 2, did not begin in a pod; this is the log of attempt 1"
        );
        assert_eq!((earlier(&one, false, 1), earlier(&one, true, 2)), (None, None));
        assert_eq!(of(Some(0), false), Ok((0, "a".to_owned())));
        for (attempt, want) in [
            (2, "no failed pod is recorded in attempt 2"),
            (3, "leave out --attempt"),
            (7, "attempt 7 is not recorded"),
        ] {
            let why = of(Some(attempt), false).unwrap_err();
            assert!(why.ends_with(want), "{why}");
        }
        let none = log_source(&super::tests::one(&json!([])), None, true, None).unwrap_err();
        assert_eq!(none, NO_FAILED_POD);
    }

    #[test]
    fn who_finds_no_log_is_sent_to_a_failure_only_if_there_is_one() {
        let failed =
            |failure: Value| json!({"attempt": 0, "outcome": "Failed", "failure": failure});
        let of_a_pod = failed(json!({"pod": "p", "podUID": "a"}));
        let of_none = failed(json!({"component": "c"}));
        let starts = json!({"attempt": 1});
        let ran = json!({"attempt": 0, "readyAt": "2026-01-01T00:00:00Z"});
        for (attempts, has_pods, want) in [
            (json!([of_a_pod]), false, "; for the last failure, use --failed"),
            (json!([of_a_pod, starts]), true, "; for the last failure, use --failed"),
            (json!([of_none]), false, ": its pods were deleted"),
            (json!([ran]), false, ": its pods were deleted"),
            (json!([of_none, starts]), false, ": no pod has started yet"),
            (json!([starts]), true, ": no pod has started yet"),
            (json!([]), false, ": no pod has started yet"),
        ] {
            assert_eq!(without_logs(&one(&attempts), has_pods), want, "{attempts}");
        }
    }

    #[test]
    fn what_is_in_another_cluster_is_said_to_be_there() {
        let sent = one(&json!([]));
        let there = || "it is elsewhere".to_owned();
        for (attempt, failed, want) in [
            (None, false, Ok(LogSource::Elsewhere(there()))),
            (None, true, Err(there())),
            (Some(0), false, Err(there())),
        ] {
            assert_eq!(log_source(&sent, attempt, failed, Some(there())), want);
        }
    }

    #[test]
    fn lines_are_escaped_and_say_whose_they_are() {
        let log = |pod: &str, text: &str| Log {
            pod: pod.into(),
            container: "main".into(),
            text: text.into(),
            ..Log::default()
        };
        let logs = [log("a", "one\n\x1b[2Jtwo"), log("b", "three")];
        assert_eq!(
            text(&logs, true).to_string(),
            "[a/main] one\n[a/main] \\u{1b}[2Jtwo\n[b/main] three\n"
        );
        assert_eq!(text(&logs[..1], false).to_string(), "one\n\\u{1b}[2Jtwo\n");
        let table = log("a", "step\tloss\r\n1\t\t0.5\x07\n");
        assert_eq!(text(&[table], false).to_string(), "step\tloss\n1\t\t0.5\\u{7}\n");
        let bar = log("a", &format!("{}100%\r\r\ndone\r", "50%\r".repeat(LINE_CHARS_MAX)));
        assert_eq!(text(&[bar], false).to_string(), "100%\ndone\n");
        assert_eq!(last_lines("a\nb\nc", 2), "b\nc");
        assert_eq!(cut(&logs[0]), "a/main: only the last 1 MiB of these lines is read");
    }
}
