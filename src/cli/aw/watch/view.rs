//! What `watch` shows. Pure: no terminal here.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::super::describe::since;
use super::super::list::state;
use super::super::words::{self, GAP, NOTHING};
use crate::api::{Attempt, Phase, condition};
use crate::cli::place::One;
use crate::cli::term::{Colour, Row, Shown, Span, columns};
use crate::observe::assemble::Wrapper;
use crate::observe::pod_record::PodRecord;
use crate::printable::truncate_chars;
use crate::snapshot::{ContainerState, Pod, PodPhase};

/// The most changes that are in view.
const CHANGES_SHOWN: usize = 8;
const TITLES: [&str; 5] = ["POD", "PHASE", "NODE", "ATTEMPT", "AGE"];
/// The longest state or cause in a line, in characters.
const STATE_CHARS_MAX: usize = 200;

/// Where it is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub width: usize,
    pub height: usize,
    pub colours: bool,
}

/// What is drawn.
pub(super) struct ViewInputs<'a> {
    pub one: &'a One,
    pub pods: Vec<&'a PodRecord>,
    pub changes: &'a [StatusChange],
    /// What cannot be seen.
    pub note: Option<&'a str>,
}

/// A change that a line is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatusChange {
    at: Timestamp,
    /// None where it is deleted.
    phase: Option<Phase>,
    attempt: Option<i32>,
    /// Counted restarts.
    restarts: i32,
    quota_reserved: bool,
    /// Why its last attempt failed, while the resources of that are being deleted.
    cause: Option<String>,
    /// What it waits for, as it was at `at`.
    state: String,
    /// The same without the time that is left, so that it changes only with the AppWrapper.
    timeless: String,
}

impl StatusChange {
    pub(super) fn of(wrapper: &Wrapper, now: Timestamp) -> Self {
        let status = &wrapper.status;
        let shortened = |at| truncate_chars(&state(wrapper, at), STATE_CHARS_MAX).into_owned();
        Self {
            at: now,
            phase: Some(status.phase),
            attempt: status.attempts.last().map(|attempt| attempt.attempt),
            restarts: status.resetting_count,
            quota_reserved: condition::is_true(&status.conditions, condition::QUOTA_RESERVED),
            cause: cause(&status.attempts)
                .filter(|_| matches!(status.phase, Phase::Resetting | Phase::Suspending)),
            state: shortened(now),
            // of a time that is far away, words say only the days
            timeless: format!("{} {:?}", shortened(Timestamp::UNIX_EPOCH), status.retry_after),
        }
    }

    pub(super) fn deleted(now: Timestamp) -> Self {
        Self {
            at: now,
            phase: None,
            attempt: None,
            restarts: 0,
            quota_reserved: false,
            cause: None,
            state: String::new(),
            timeless: String::new(),
        }
    }

    /// Without a cause that one of the lines before tells.
    pub(super) fn after(mut self, before: &[Self]) -> Self {
        if before.iter().any(|old| old.attempt == self.attempt && old.cause.is_some()) {
            self.cause = None;
        }
        self
    }

    pub(super) fn is_deletion(&self) -> bool {
        self.phase.is_none()
    }

    /// Whether nothing has changed between them but the time.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let facts = |one: &Self| {
            (one.phase, one.attempt, one.restarts, one.quota_reserved, one.timeless.clone())
        };
        facts(self) == facts(other)
    }

    fn phase(&self) -> &'static str {
        self.phase.map_or("deleted", words::phase)
    }

    /// One line: when, phase, attempt, why that failed, what it waits for.
    pub(super) fn line(&self) -> String {
        let attempt = self.attempt.map(|attempt| format!("attempt {attempt}"));
        let state = Some(self.state.clone()).filter(|state| !state.is_empty() && state != NOTHING);
        let phase = format!("{:<11}", self.phase());
        let facts = [Some(self.at.to_string()), Some(phase), attempt, self.cause.clone(), state];
        let line = facts.into_iter().flatten().collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned()
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "time": self.at, "phase": self.phase, "deleted": self.is_deletion(), "attempt": self.attempt,
            "restarts": self.restarts, "quotaReserved": self.quota_reserved, "cause": self.cause,
            "state": self.state,
        })
    }
}

/// Why the last attempt failed, where that is decided.
fn cause(attempts: &[Attempt]) -> Option<String> {
    let cause = words::short_cause(attempts.last()?.failure.as_ref()?);
    let cause = truncate_chars(&cause, STATE_CHARS_MAX).into_owned();
    (!cause.is_empty()).then_some(cause)
}

/// The whole view, no line wider than the frame, and not more than it has.
pub(super) fn view(inputs: &ViewInputs<'_>, now: Timestamp, frame: Frame) -> Vec<Shown> {
    let mut head = headline(inputs.one, now);
    if let Some(note) = inputs.note {
        head.push(vec![(format!("note: {note}"), Some(Colour::Dim))]);
    }
    head.push(vec![]);
    let changes = inputs.changes.len().min(CHANGES_SHOWN);
    // titles, the line of those that have no room, and a gap
    let room = frame.height.saturating_sub(head.len() + changes + 3);
    let mut lines = head;
    lines.extend(pods(&inputs.pods, room.max(1), now));
    let recent = &inputs.changes[inputs.changes.len() - changes..];
    lines.truncate(frame.height.saturating_sub(changes + 1));
    lines.push(vec![]);
    lines.extend(recent.iter().map(|change| {
        let colour = change.phase.map_or(Some(Colour::Yellow), words::colour);
        vec![(change.line(), colour)]
    }));
    lines.truncate(frame.height);
    lines.iter().map(|spans| Shown::fitted(spans, frame.width, frame.colours)).collect()
}

/// What is said of the AppWrapper itself.
fn headline(one: &One, now: Timestamp) -> Vec<Vec<Span>> {
    let wrapper = &*one.wrapper;
    let change = StatusChange::of(wrapper, now);
    let phase = wrapper.status.phase;
    let plain = |text: String| (text, None);
    let since = since(one).map(|at| format!(" for {}", words::age(Some(at), now)));
    let mut first = format!("{}{}", since.unwrap_or_default(), attempts(&change));
    if let Some(queue) = &wrapper.queue {
        first += &format!(", queue {queue}");
    }
    // without a queue, there is no quota
    if change.quota_reserved && wrapper.queue.is_some() {
        first += ", quota reserved";
    }
    let mut lines = vec![vec![
        plain(format!("{}/{}: ", wrapper.namespace, wrapper.name)),
        (words::phase(phase).to_owned(), words::colour(phase).or(Some(Colour::Bold))),
        plain(first),
    ]];
    if change.state != NOTHING {
        lines.push(vec![plain(change.state)]);
    }
    if let Some((attempt, failure)) = words::last_failure(&wrapper.status.attempts)
        && phase != Phase::Succeeded
    {
        let cause = words::cause(failure);
        lines.push(vec![plain(format!("last failure, in attempt {}: {cause}", attempt.attempt))]);
    }
    lines
}

fn attempts(change: &StatusChange) -> String {
    let attempt = change.attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
    match change.restarts {
        0 => attempt,
        1 => attempt + ", 1 restart",
        more => format!("{attempt}, {more} restarts"),
    }
}

/// A table of pods; those that are not doing well first, since not all may have room.
fn pods(records: &[&PodRecord], room: usize, now: Timestamp) -> Vec<Vec<Span>> {
    let mut all: Vec<&Pod> = records.iter().map(|record| &record.pod).collect();
    all.sort_by_key(|pod| (rank(pod), pod.name.clone()));
    let counted = all.len();
    all.truncate(room);
    let rows: Vec<Row> = all.iter().map(|pod| row(pod, now)).collect();
    let mut lines: Vec<Vec<Span>> = if rows.is_empty() {
        vec![]
    } else {
        columns((&TITLES, Some(Colour::Dim)), &rows, GAP)
            .into_iter()
            .map(|line| vec![line])
            .collect()
    };
    let more = counted - all.len();
    if more > 0 {
        let pods = if more == 1 { "pod" } else { "pods" };
        lines.push(vec![(format!("and {more} more {pods}"), Some(Colour::Dim))]);
    }
    lines
}

fn rank(pod: &Pod) -> u8 {
    match pod.phase {
        PodPhase::Failed => 0,
        PodPhase::Unknown => 1,
        _ if pod.terminating => 2,
        PodPhase::Pending => 3,
        PodPhase::Running => 4,
        PodPhase::Succeeded => 5,
    }
}

fn row(pod: &Pod, now: Timestamp) -> Row {
    let ended = pod.terminated().find(|(_, end)| end.exit_code != 0);
    let waits = pod.containers.iter().find_map(|container| match &container.state {
        ContainerState::Waiting { reason, .. } if !reason.is_empty() => Some(reason.clone()),
        ContainerState::Waiting { .. }
        | ContainerState::Running
        | ContainerState::Terminated(_)
        | ContainerState::Unknown => None,
    });
    let mut phase = pod.phase.as_str().to_owned();
    if pod.terminating {
        phase += ", Terminating";
    }
    match (ended, waits) {
        (Some((_, end)), _) => phase += &format!(", exit code {}", end.exit_code),
        (None, Some(reason)) if pod.phase == PodPhase::Pending => phase += &format!(", {reason}"),
        (None, _) => {}
    }
    let colour = match rank(pod) {
        0 | 1 => Some(Colour::Red),
        2 => Some(Colour::Yellow),
        _ => None,
    };
    let dash = || NOTHING.to_owned();
    let row = vec![
        pod.name.clone(),
        phase,
        pod.node.clone().unwrap_or_else(dash),
        pod.attempt.map_or_else(dash, |attempt| attempt.to_string()),
        words::age(pod.created, now),
    ];
    (row, colour)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::raw_object::RawObject;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn one(status: &Value) -> One {
        let object = json!({
            "metadata": {"name": "train", "namespace": "ns", "uid": "u", "creationTimestamp": at(0),
                "labels": {"kueue.x-k8s.io/queue-name": "gpu"}},
            "spec": {"components": []}, "status": status,
        });
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        One::of(seen).unwrap()
    }

    fn pod(name: &str, status: &Value) -> PodRecord {
        let object = json!({
            "metadata": {"name": name, "creationTimestamp": at(0), "labels": {
                "workload.codeflare.dev/attempt": "1"}},
            "spec": {"nodeName": "node-1"}, "status": status,
        });
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        PodRecord::of(&seen)
    }

    fn failing() -> Value {
        let failure = json!({"pod": "w-0", "container": "main", "exitCode": 3});
        json!({"phase": "Resetting", "resettingCount": 1, "retryAfter": at(160),
            "since": {"gone": at(90)},
            "attempts": [{"attempt": 0, "outcome": "Failed", "failure": failure}]})
    }

    #[test]
    fn a_change_is_a_line_and_time_alone_is_none() {
        let change = |status: &Value, second| StatusChange::of(&one(status).wrapper, at(second));
        let resetting = change(&failing(), 100);
        assert_eq!(
            resetting.line(),
            "2026-01-01T00:01:40Z  Resetting    attempt 0  w-0/main 3  restarting in 60s"
        );
        assert!(resetting.is_same(&change(&failing(), 130)), "only time has passed");
        let json = resetting.json();
        assert_eq!(
            (&json["phase"], &json["cause"], &json["state"]),
            (&json!("Resetting"), &json!("w-0/main 3"), &json!("restarting in 60s"))
        );
        let mut again = failing();
        again["retryAfter"] = json!(at(300));
        assert!(!resetting.is_same(&change(&again, 100)));
        again["retryAfter"] = json!(at(160));
        again["resettingCount"] = json!(2);
        assert!(!resetting.is_same(&change(&again, 100)));
        let ended = change(&json!({"phase": "Succeeded"}), 200);
        assert_eq!(ended.line(), "2026-01-01T00:03:20Z  Succeeded");
        let gone = StatusChange::deleted(at(1));
        assert_eq!(gone.line(), "2026-01-01T00:00:01Z  deleted");
        assert_eq!((&gone.json()["phase"], &gone.json()["deleted"]), (&Value::Null, &json!(true)));
    }

    #[test]
    fn the_cause_of_a_restart_is_told_once() {
        let stalled = json!({"component": "work", "pod": "w-0", "reason": "Stalled"});
        let attempt = |number: i32, failure: &Value| json!({"attempt": number, "failure": failure});
        let first = attempt(0, &stalled);
        let running = json!({"phase": "Running", "attempts": [{"attempt": 0}]});
        let deleting = json!({"phase": "Resetting", "attempts": [first.clone()]});
        let pausing =
            json!({"phase": "Resetting", "attempts": [first.clone()], "retryAfter": at(60)});
        let next = json!({"phase": "Running", "attempts": [first.clone(), {"attempt": 1}]});
        let second = attempt(1, &json!({"pod": "w-0", "container": "main", "exitCode": 3}));
        let growing = json!({"phase": "Suspending", "attempts": [first, second]});
        let mut before: Vec<StatusChange> = vec![];
        for status in [running, deleting, pausing, next, growing] {
            before.push(StatusChange::of(&one(&status).wrapper, at(0)).after(&before));
        }
        let causes: Vec<Option<&str>> =
            before.iter().map(|change| change.cause.as_deref()).collect();
        assert_eq!(causes, [None, Some("w-0 Stalled"), None, None, Some("w-0/main 3")]);
        assert_eq!(
            before[1].line(),
            "2026-01-01T00:00:00Z  Resetting    attempt 0  w-0 Stalled  \
             waiting until resources of its last attempt are deleted"
        );
    }

    fn drawn(pods: &[PodRecord], changes: usize, (width, height): (usize, usize)) -> Vec<String> {
        let one = one(&failing());
        let changes: Vec<StatusChange> = (100..)
            .take(changes)
            .map(|second| StatusChange::of(&one.wrapper, at(second)))
            .collect();
        let inputs = ViewInputs {
            one: &one,
            pods: pods.iter().collect(),
            changes: &changes,
            note: Some("cannot \u{1b}[2J"),
        };
        let lines = view(&inputs, at(100), Frame { width, height, colours: false });
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_view_says_what_runs_what_failed_and_what_changed() {
        let ended = json!({"phase": "Failed", "containerStatuses": [
            {"name": "c", "state": {"terminated": {"exitCode": 3}}}]});
        let pulls = json!({"phase": "Pending", "containerStatuses": [
            {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
        let pods =
            [pod("w-1", &json!({"phase": "Running"})), pod("w-2", &pulls), pod("w-0", &ended)];
        let lines = drawn(&pods, 2, (120, 30));
        assert_eq!(
            lines,
            [
                "ns/train: Resetting for 10s, attempt 0, 1 restart, queue gpu",
                "restarting in 60s",
                "last failure, in attempt 0: pod w-0, container main, exit code 3",
                "note: cannot \\u{1b}[2J",
                "",
                "POD   PHASE                       NODE     ATTEMPT   AGE",
                "w-0   Failed, exit code 3         node-1   1         100s",
                "w-2   Pending, ImagePullBackOff   node-1   1         100s",
                "w-1   Running                     node-1   1         100s",
                "",
                "2026-01-01T00:01:40Z  Resetting    attempt 0  w-0/main 3  restarting in 60s",
                "2026-01-01T00:01:41Z  Resetting    attempt 0  w-0/main 3  restarting in 59s",
            ]
        );
    }

    #[test]
    fn the_view_names_quota_only_where_there_is_a_queue() {
        let quota = json!({"type": "QuotaReserved", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": at(0)});
        let mut one = one(&json!({"phase": "Running", "conditions": [quota]}));
        let first = |one: &One| headline(one, at(100))[0][2].0.clone();
        assert!(first(&one).ends_with(", queue gpu, quota reserved"), "{}", first(&one));
        std::sync::Arc::make_mut(&mut one.wrapper).queue = None;
        assert!(!first(&one).contains("quota"), "{}", first(&one));
    }

    #[test]
    fn the_view_never_leaves_its_frame() {
        let pods: Vec<PodRecord> =
            (0..1000).map(|n| pod(&format!("w-{n}"), &json!({"phase": "Running"}))).collect();
        for (width, height) in [(200, 50), (40, 24), (20, 12), (5, 4), (1, 1)] {
            for changes in [0, 3, 50] {
                let lines = drawn(&pods, changes, (width, height));
                assert!(lines.len() <= height, "{width}x{height}: {} lines", lines.len());
                assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:?}");
            }
        }
        let lines = drawn(&pods, 3, (80, 24));
        assert!(lines.iter().any(|line| line == "and 987 more pods"), "{lines:?}");
        let lines = drawn(&pods[..14], 3, (80, 24));
        assert!(lines.iter().any(|line| line == "and 1 more pod"), "{lines:?}");
    }
}
