//! `appwrapper attempts`: the recorded attempts (`status.attempts[]`), one line for each.

use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::super::Error;
use super::super::term::{self, Colour, Page, Row, table};
use super::words::{self, GAP, NOTHING, at};
use super::{Target, block_on, multikueue, now, tell};
use crate::api::{Attempt, AttemptAction, AttemptOutcome, AttemptProgress, Phase};
use crate::decide::decision_of_attempt;
use crate::observe::assemble::Wrapper;

/// The recorded attempts of an AppWrapper.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recorded<'a> {
    namespace: &'a str,
    name: &'a str,
    phase: Phase,
    /// Counted restarts.
    restarts: i32,
    uncounted_restarts: i32,
    /// Failed pods that `podFailurePolicy` ignored, since the first attempt.
    ignored_failures: i32,
    /// The last is the one that runs, where one does.
    pub attempts: Vec<Entry<'a>>,
    /// In which cluster they are recorded, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// One attempt: what is recorded, and how long it was.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry<'a> {
    #[serde(flatten)]
    attempt: &'a Attempt,
    /// From its start until every pod was ready.
    ready_after_seconds: Option<i64>,
    /// From its start to its end, or until now.
    took_seconds: Option<i64>,
    /// None while it goes on.
    #[serde(skip)]
    ended: Option<Timestamp>,
}

pub(in crate::cli) fn run(target: &Target) -> Result<ExitCode, Error> {
    let (one, note) = block_on(multikueue::one(target))?;
    let now = now();
    let recorded = Recorded { note, ..recorded(&one.wrapper, now) };
    tell(target.output, &recorded, || text(&recorded, now, term::has_colour()))
}

pub(super) fn recorded(wrapper: &Wrapper, now: Timestamp) -> Recorded<'_> {
    let status = &wrapper.status;
    Recorded {
        namespace: &wrapper.namespace,
        name: &wrapper.name,
        phase: status.phase,
        restarts: status.resetting_count,
        uncounted_restarts: status.uncounted_restarts.max(0),
        ignored_failures: status.ignored_failures.max(0),
        attempts: status
            .attempts
            .iter()
            .map(|attempt| entry(attempt, ended_in(attempt, status.phase), now))
            .collect(),
        note: None,
    }
}

/// An attempt at a moment.
fn entry(attempt: &Attempt, ended: Option<Timestamp>, now: Timestamp) -> Entry<'_> {
    let started = at(attempt.started_at.as_ref());
    Entry {
        attempt,
        ready_after_seconds: words::between(started, at(attempt.ready_at.as_ref())),
        took_seconds: words::between(started, Some(ended.unwrap_or(now))),
        ended,
    }
}

/// When an attempt of an AppWrapper in a phase ended: while its resources are being deleted it goes on.
fn ended_in(attempt: &Attempt, phase: Phase) -> Option<Timestamp> {
    if phase == Phase::Failed { ended(attempt) } else { at(attempt.ended_at.as_ref()) }
}

/// When it ended; one whose outcome is known while its resources are kept ended with its failure.
pub(super) fn ended(attempt: &Attempt) -> Option<Timestamp> {
    let failed = at(attempt.failed_at.as_ref()).filter(|_| attempt.outcome.is_some());
    at(attempt.ended_at.as_ref()).or(failed)
}

/// The titles of the cells of an attempt.
pub(super) const TITLES: [&str; 9] = [
    "ATTEMPT",
    "STARTED",
    "READY AFTER",
    "ENDED",
    "DURATION",
    "OUTCOME",
    "CAUSE",
    "NODE",
    "DECISION",
];

fn text(recorded: &Recorded<'_>, now: Timestamp, colours: bool) -> Page {
    let Recorded { namespace, name, .. } = recorded;
    if recorded.attempts.is_empty() {
        let phase = words::phase(recorded.phase);
        let mut page = Page::default();
        let why = recorded.note.as_deref().unwrap_or("no attempts recorded");
        page.line(&format!("{namespace}/{name}: {phase}; {why}"));
        return page;
    }
    of_entries(&recorded.attempts, now, colours)
}

/// A table of the attempts of an AppWrapper that was deleted, and what they said.
pub(super) fn page(
    attempts: &[Attempt],
    deleted: Option<Timestamp>,
    now: Timestamp,
    colours: bool,
) -> Page {
    let entry = |attempt| entry(attempt, ended(attempt).or(deleted), now);
    let entries: Vec<Entry<'_>> = attempts.iter().map(entry).collect();
    of_entries(&entries, now, colours)
}

fn of_entries(entries: &[Entry<'_>], now: Timestamp, colours: bool) -> Page {
    let rows: Vec<Row> = entries.iter().map(|entry| row(entry, now)).collect();
    let mut page = table((&TITLES, None), &rows, GAP, colours);
    for Entry { attempt, .. } in entries {
        let message = attempt.failure.as_ref().and_then(|failure| failure.message.as_ref());
        if let Some(message) = message.filter(|message| !message.is_empty()) {
            page.line(&format!("attempt {}: {message}", attempt.attempt));
        }
        if let Some(progress) = &attempt.progress {
            page.line(&format!("attempt {}: {}", attempt.attempt, progressed(progress)));
        }
    }
    page
}

fn row(entry: &Entry<'_>, now: Timestamp) -> Row {
    (entry.cells(now), colour(entry.attempt))
}

impl Entry<'_> {
    /// What is said of it under the [`TITLES`].
    pub(super) fn cells(&self, now: Timestamp) -> Vec<String> {
        let (entry, attempt) = (self, self.attempt);
        let dash = || NOTHING.to_owned();
        let ago = |time: Option<Timestamp>| match time {
            Some(time) => format!("{} ago", words::age(Some(time), now)),
            None => dash(),
        };
        let failure = attempt.failure.as_ref();
        vec![
            attempt.attempt.to_string(),
            ago(at(attempt.started_at.as_ref())),
            words::exactly(entry.ready_after_seconds),
            ago(self.ended),
            words::exactly(entry.took_seconds),
            outcome(attempt).to_owned(),
            failure.map(words::short_cause).filter(|cause| !cause.is_empty()).unwrap_or_else(dash),
            failure.and_then(|failure| failure.node.clone()).unwrap_or_else(dash),
            decision_of_attempt(attempt).unwrap_or_else(dash),
        ]
    }
}

/// How far it got: `last progress at …: step 1200, 40 %, checkpoint step-1000`.
fn progressed(progress: &AttemptProgress) -> String {
    let step = progress.step.map(|step| format!("step {step}"));
    let percent = progress.percent.map(|percent| format!("{percent} %"));
    let checkpoint = progress.checkpoint.as_ref().map(|name| format!("checkpoint {name}"));
    let facts: Vec<String> = [step, percent, checkpoint].into_iter().flatten().collect();
    let at = progress.at.0;
    if facts.is_empty() {
        format!("last progress at {at}")
    } else {
        format!("last progress at {at}: {}", facts.join(", "))
    }
}

/// How it ended, or what it does.
pub(super) const fn outcome(attempt: &Attempt) -> &'static str {
    match (attempt.outcome, attempt.action) {
        (Some(outcome), _) => outcome.as_str(),
        (None, Some(_)) => "(ending)",
        (None, None) => "(running)",
    }
}

const fn colour(attempt: &Attempt) -> Option<Colour> {
    match (attempt.outcome, attempt.action) {
        (Some(AttemptOutcome::Succeeded), _) => Some(Colour::Green),
        (_, Some(AttemptAction::Fail)) => Some(Colour::Red),
        (
            Some(
                AttemptOutcome::Failed
                | AttemptOutcome::Suspended
                | AttemptOutcome::Deleted
                | AttemptOutcome::ComponentRecreated
                | AttemptOutcome::NoFit,
            )
            | None,
            _,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn moment(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    #[test]
    fn each_attempt_says_how_long_why_and_what_was_decided() {
        let status = json!({"phase": "Running", "resettingCount": 1, "attempts": [
            {
                "attempt": 0, "startedAt": moment(0), "readyAt": moment(7),
                "failedAt": moment(60), "endedAt": moment(95), "outcome": "Failed",
                "action": "Restart",
                "rule": {"source": "retryPolicy", "policy": "infra", "name": "oom", "index": 1},
                "retries": {"used": 0, "limit": 3},
                "failure": {
                    "component": "work", "pod": "w-0", "container": "main", "exitCode": 137,
                    "reason": "OOMKilled", "node": "node-1", "message": "last\nwords\u{1b}[2J",
                },
                "progress": {"at": moment(50), "step": 12, "percent": 40, "checkpoint": "c-10"},
            },
            {"attempt": 1, "startedAt": moment(100)},
        ]});
        let wrapper = Wrapper {
            namespace: "ns".into(),
            name: "train".into(),
            status: serde_json::from_value(status).unwrap(),
            ..Wrapper::default()
        };
        let recorded = recorded(&wrapper, moment(130));
        let text = text(&recorded, moment(130), false).to_string();
        let want = "\
ATTEMPT   STARTED   READY AFTER   ENDED     DURATION   OUTCOME   CAUSE                  NODE     DECISION
0         2m10s ago   7s            35s ago   1m35s      Failed    w-0/main 137 OOMKilled   node-1   Restart by rule oom of RetryPolicy infra, 0 of 3 restarts used before
1         30s ago     -             -         30s        (running) -                        -        -
attempt 0: last\\nwords\\u{1b}[2J
attempt 0: last progress at 2026-01-01T00:00:50Z: step 12, 40 %, checkpoint c-10
";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&text), words(want), "{text}");
        let json = serde_json::to_value(&recorded).unwrap();
        assert_eq!(json["attempts"][0]["tookSeconds"], 95);
        assert_eq!(json["attempts"][0]["readyAfterSeconds"], 7);
        assert_eq!(json["attempts"][0]["failure"]["exitCode"], 137);
        assert_eq!(json["attempts"][1]["tookSeconds"], 30);
        assert_eq!(json["restarts"], 1);
    }

    #[test]
    fn an_attempt_ends_with_its_failure_or_with_its_appwrapper() {
        let failed = json!({"startedAt": moment(0), "failedAt": moment(18), "outcome": "Failed"});
        let deleted = json!({"startedAt": moment(0), "outcome": "Deleted"});
        let decided = json!({"startedAt": moment(0), "failedAt": moment(18), "action": "Restart"});
        let read = |attempt: &Value| -> Attempt {
            let mut attempt = attempt.clone();
            attempt["attempt"] = 0.into();
            serde_json::from_value(attempt).unwrap()
        };
        let cells =
            |attempt: &Attempt, ended| entry(attempt, ended, moment(100)).cells(moment(100));
        for (attempt, phase, want) in [
            (&failed, Phase::Failed, ["82s ago", "18s"]),
            (&failed, Phase::Resetting, ["-", "1m40s"]),
            (&decided, Phase::Failed, ["-", "1m40s"]),
        ] {
            let attempt = read(attempt);
            let seen = cells(&attempt, ended_in(&attempt, phase));
            assert_eq!(seen[3..5], want, "{phase}: {attempt:?}");
        }
        for (attempt, want) in [(&failed, ["82s ago", "18s"]), (&deleted, ["40s ago", "1m"])] {
            let attempt = read(attempt);
            let seen = cells(&attempt, ended(&attempt).or_else(|| Some(moment(60))));
            assert_eq!(seen[3..5], want, "deleted: {attempt:?}");
        }
    }

    #[test]
    fn without_attempts_it_says_so() {
        let wrapper = Wrapper { namespace: "ns".into(), name: "new".into(), ..Wrapper::default() };
        let recorded = recorded(&wrapper, moment(0));
        assert_eq!(
            text(&recorded, moment(0), false).to_string(),
            "ns/new: (new); no attempts recorded\n"
        );
        let sent = Recorded { note: Some("they are elsewhere".to_owned()), ..recorded };
        let page = text(&sent, moment(0), false).to_string();
        assert_eq!(page, "ns/new: (new); they are elsewhere\n");
    }
}
