//! What an AppWrapper did when: a row for each attempt, and one for each of its pods.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::super::words::{self, at};
use super::pods::Life;
use crate::api::{Attempt, AttemptAction, AttemptOutcome, Phase, condition};
use crate::cli::explain::text::span;
use crate::observe::assemble::Wrapper;

/// The most attempts that are shown; the controller records 10.
const ATTEMPTS_MAX: usize = 20;
/// The most pod sets that are shown, those of failed pods first.
const POD_SETS_MAX: usize = 8;
/// The most pods of a pod set that are shown, those that failed first.
const PODS_MAX: usize = 12;

/// What an AppWrapper, or a pod, does in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) enum Stage {
    /// It waits for its admission; a pod, for a node.
    Waiting,
    /// Its pods are not ready yet.
    Starting,
    /// All its pods are ready.
    Running,
    /// It has failed, and its grace periods run.
    Failing,
    /// It failed, and its resources were deleted; when their deletion began is not recorded.
    Ending,
    /// Its resources are being deleted.
    TearingDown,
    /// Nothing of it exists; the next attempt waits.
    Pausing,
}

impl Stage {
    /// All of them, in the order of a legend.
    pub(super) const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Starting,
        Self::Running,
        Self::Failing,
        Self::Ending,
        Self::TearingDown,
        Self::Pausing,
    ];

    /// Its name for people.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Failing => "failing",
            Self::Ending => "failing, then tearing down",
            Self::TearingDown => "tearing down",
            Self::Pausing => "pausing",
        }
    }
}

/// A span of time in one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub stage: Stage,
    pub from: Timestamp,
    pub to: Timestamp,
    /// More about it, such as the node of a pod; may be empty.
    pub note: String,
}

impl Span {
    /// For a tooltip: `running 1m30s, on node-1`.
    pub(super) fn title(&self) -> String {
        let took = span(words::between(Some(self.from), Some(self.to)).unwrap_or_default());
        let note = if self.note.is_empty() { String::new() } else { format!(", {}", self.note) };
        format!("{} {took}{note}; from {} to {}", self.stage.name(), self.from, self.to)
    }
}

/// A row: an attempt, or a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub name: String,
    /// How it ended.
    pub end: String,
    pub failed: bool,
    pub spans: Vec<Span>,
}

/// Rows under a title.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub title: String,
    pub rows: Vec<Row>,
    /// How many more there are.
    pub left_out: usize,
}

/// A moment that is to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Deadline {
    pub at: Timestamp,
    /// What happens then.
    pub what: String,
}

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timeline {
    pub from: Timestamp,
    pub to: Timestamp,
    /// The moment that it shows; none where everything had ended before.
    pub now: Option<Timestamp>,
    pub attempts: Group,
    pub pod_sets: Vec<Group>,
    /// The next deadline, where it is near enough to be shown.
    pub deadline: Option<Deadline>,
    /// What is not shown.
    pub notes: Vec<String>,
}

/// What a timeline is made of.
pub(super) struct Given<'a> {
    pub wrapper: &'a Wrapper,
    pub created: Option<Timestamp>,
    /// The pods that are known.
    pub lives: &'a [Life],
    /// When the deletion of the resources of earlier attempts began, where that is known.
    pub deletions: &'a BTreeMap<i32, Timestamp>,
    pub deadline: Option<&'a Deadline>,
    pub now: Timestamp,
}

/// The timeline at a moment. Times that contradict each other are put in order.
pub(super) fn timeline(given: &Given<'_>) -> Timeline {
    let Given { wrapper, now, .. } = *given;
    let mut attempts = attempts(given);
    let (pod_sets, all_sets) = pod_sets(given);
    let spans = || attempts.rows.iter().chain(pod_sets.iter().flat_map(|set| &set.rows));
    let spans = || spans().flat_map(|row| &row.spans);
    let first = spans().map(|span| span.from).min().or(given.created).unwrap_or(now).min(now);
    let last = spans().map(|span| span.to).max().unwrap_or(now);
    let is_over = matches!(wrapper.status.phase, Phase::Succeeded | Phase::Failed);
    let to = if is_over { last.min(now) } else { now };
    let mut notes = vec![];
    let from = without_long_wait(&mut attempts, first, to, &mut notes);
    // where nothing took a second, the axis still has a length
    let second = SignedDuration::from_secs(1);
    let to = to.max(from.checked_add(second).unwrap_or(from));
    let quarter = to.duration_since(from) / 4;
    let reach = to.checked_add(quarter).unwrap_or(to);
    let near = given.deadline.filter(|deadline| !is_over && deadline.at <= reach);
    if pod_sets.iter().any(|set| !set.rows.is_empty()) && wrapper.status.attempts.len() > 1 {
        let kept = given.lives.iter().any(|life| life.gone.is_some());
        if !kept {
            notes.push("pods of earlier attempts are deleted, and not shown".to_owned());
        }
    }
    if pod_sets.len() < all_sets {
        notes.push(format!("only {} of {all_sets} pod sets are shown", pod_sets.len()));
    }
    Timeline {
        from,
        to: near.map_or(to, |deadline| deadline.at.max(to)),
        now: (!is_over).then_some(now),
        attempts,
        pod_sets,
        deadline: near.cloned(),
        notes,
    }
}

/// Cuts a first wait that is longer than everything after it, which it would hide.
fn without_long_wait(
    attempts: &mut Group,
    first: Timestamp,
    to: Timestamp,
    notes: &mut Vec<String>,
) -> Timestamp {
    let Some(wait) = attempts.rows.first_mut().and_then(|row| row.spans.first_mut()) else {
        return first;
    };
    let rest = to.duration_since(wait.to);
    let waited = wait.to.duration_since(wait.from);
    if wait.stage != Stage::Waiting || rest <= SignedDuration::ZERO || waited <= rest {
        return first;
    }
    let from = wait.to.checked_sub(rest / 3).unwrap_or(wait.from).max(wait.from);
    notes.push(format!("it waited {} before its first attempt", span(waited.as_secs())));
    wait.from = from;
    from
}

fn attempts(given: &Given<'_>) -> Group {
    let all = &given.wrapper.status.attempts;
    let left_out = all.len().saturating_sub(ATTEMPTS_MAX);
    let mut rows = vec![];
    for (index, attempt) in all.iter().enumerate().skip(left_out) {
        let before = index.checked_sub(1).and_then(|before| all.get(before));
        rows.push(row(given, attempt, before, all.get(index + 1)));
    }
    if rows.is_empty() {
        let from = given.created.unwrap_or(given.now).min(given.now);
        let span = Span { stage: Stage::Waiting, from, to: given.now, note: String::new() };
        let name = "no attempt yet".to_owned();
        rows.push(Row { name, spans: vec![span], ..Row::default() });
    }
    Group { title: "Attempts".to_owned(), rows, left_out }
}

fn row(
    given: &Given<'_>,
    attempt: &Attempt,
    before: Option<&Attempt>,
    next: Option<&Attempt>,
) -> Row {
    let mut spans = vec![];
    let started = at(attempt.started_at.as_ref());
    if let Some(started) = started {
        spans.extend(wait(given, before, started));
        let edges = edges(given, attempt, next);
        let end = end(given, attempt, next).max(started);
        let mut edges = edges.into_iter().peekable();
        let mut from = started;
        let mut stage = Stage::Starting;
        loop {
            let until = edges.peek().map_or(end, |(_, until)| (*until).clamp(from, end));
            if until > from {
                spans.push(Span { stage, from, to: until, note: String::new() });
            }
            let Some((following, _)) = edges.next() else { break };
            (from, stage) = (until, following);
        }
        spans.extend(pause(given, attempt, end, next));
    }
    let cause = attempt.failure.as_ref().map(words::short_cause).filter(|text| !text.is_empty());
    let node = attempt.failure.as_ref().and_then(|failure| failure.node.clone());
    let parts = [attempt.outcome.map(outcome).map(str::to_owned), cause, node];
    Row {
        name: format!("attempt {}", attempt.attempt),
        end: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
        failed: attempt.outcome == Some(AttemptOutcome::Failed),
        spans,
    }
}

/// The wait for admission before an attempt: before the first, and after one that released its quota.
fn wait(given: &Given<'_>, before: Option<&Attempt>, started: Timestamp) -> Option<Span> {
    let first = given.wrapper.status.attempts.first();
    let from = match before {
        Some(before) => at(before.ended_at.as_ref()).filter(|_| gave_quota_back(before))?,
        // those before it may no longer be recorded
        None => given.created.filter(|_| first.is_some_and(|first| first.attempt == 0))?,
    };
    let note = given.wrapper.queue.as_ref().map(|queue| format!("queue {queue}"));
    (from < started).then(|| Span {
        stage: Stage::Waiting,
        from,
        to: started,
        note: note.unwrap_or_default(),
    })
}

fn gave_quota_back(attempt: &Attempt) -> bool {
    match attempt.outcome {
        Some(AttemptOutcome::Suspended) => true,
        Some(AttemptOutcome::NoFit) => attempt.action == Some(AttemptAction::Requeue),
        Some(
            AttemptOutcome::Succeeded
            | AttemptOutcome::Failed
            | AttemptOutcome::Deleted
            | AttemptOutcome::ComponentRecreated,
        )
        | None => false,
    }
}

/// When each further stage of an attempt began.
fn edges(given: &Given<'_>, attempt: &Attempt, next: Option<&Attempt>) -> Vec<(Stage, Timestamp)> {
    let status = &given.wrapper.status;
    let anchors = status.since.clone().unwrap_or_default();
    let is_last = next.is_none();
    let mut failing = at(attempt.failed_at.as_ref());
    if failing.is_none() && is_last && attempt.outcome.is_none() {
        let unhealthy = condition::is_true(&status.conditions, condition::UNHEALTHY);
        let turned = condition::since(&status.conditions, condition::UNHEALTHY);
        failing = at(anchors.failed_pods.as_ref()).or_else(|| turned.filter(|_| unhealthy));
    }
    let recorded = given.deletions.get(&attempt.attempt).copied();
    let deleting = recorded.or_else(|| at(anchors.deleting.as_ref()).filter(|_| is_last));
    let ready = at(attempt.ready_at.as_ref()).map(|ready| (Stage::Running, ready));
    let ended = attempt.ended_at.is_some();
    let failing = failing.map(|failing| {
        let stage = if deleting.is_none() && ended { Stage::Ending } else { Stage::Failing };
        (stage, failing)
    });
    let deleting = deleting.map(|deleting| (Stage::TearingDown, deleting));
    [ready, failing, deleting].into_iter().flatten().collect()
}

/// When nothing of an attempt existed any more; of the last, it may be now.
fn end(given: &Given<'_>, attempt: &Attempt, next: Option<&Attempt>) -> Timestamp {
    let recorded = at(attempt.ended_at.as_ref());
    let next = next.and_then(|next| at(next.started_at.as_ref()));
    recorded.or(next).unwrap_or(given.now).min(given.now)
}

/// The pause after an attempt, before the next.
fn pause(
    given: &Given<'_>,
    attempt: &Attempt,
    end: Timestamp,
    next: Option<&Attempt>,
) -> Option<Span> {
    attempt.ended_at.as_ref()?;
    if gave_quota_back(attempt) || attempt.outcome == Some(AttemptOutcome::Succeeded) {
        return None;
    }
    let is_resetting = given.wrapper.status.phase == Phase::Resetting;
    let to = match next {
        Some(next) => at(next.started_at.as_ref())?,
        None if is_resetting => given.now,
        None => return None,
    };
    (to > end).then(|| Span { stage: Stage::Pausing, from: end, to, note: String::new() })
}

/// How an attempt ended, as words.
const fn outcome(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::ComponentRecreated => "Component recreated",
        AttemptOutcome::NoFit => "No fit",
        AttemptOutcome::Succeeded
        | AttemptOutcome::Failed
        | AttemptOutcome::Suspended
        | AttemptOutcome::Deleted => outcome.as_str(),
    }
}

/// Indexes of a component and of its pod set; none where that is not known.
type PodSetKey = Option<(usize, usize)>;
/// Lives of pods, by the name of the pod.
type ByName<'l> = BTreeMap<&'l str, Vec<&'l Life>>;

/// The pods of each pod set that is shown, and how many pod sets there are; pods of one name, which follow each other, share
/// a row.
fn pod_sets(given: &Given<'_>) -> (Vec<Group>, usize) {
    let mut sets: BTreeMap<PodSetKey, ByName<'_>> = BTreeMap::new();
    for life in given.lives {
        sets.entry(life.pod_set).or_default().entry(&life.name).or_default().push(life);
    }
    let group = |(set, pods): (PodSetKey, ByName<'_>)| {
        let mut rows: Vec<Row> = pods.values().map(|lives| pod(given, lives)).collect();
        rows.sort_by_key(|row| !row.failed);
        let left_out = rows.len().saturating_sub(PODS_MAX);
        rows.truncate(PODS_MAX);
        rows.sort_by(|a, b| {
            let begin = |row: &Row| row.spans.first().map(|span| span.from);
            (begin(a), &a.name).cmp(&(begin(b), &b.name))
        });
        (set, Group { title: title(given.wrapper, set), rows, left_out })
    };
    let all = sets.len();
    let mut groups: Vec<(PodSetKey, Group)> = sets.into_iter().map(group).collect();
    groups.sort_by_key(|(_, group)| !group.rows.iter().any(|row| row.failed));
    groups.truncate(POD_SETS_MAX);
    groups.sort_by_key(|(set, _)| *set);
    (groups.into_iter().map(|(_, group)| group).collect(), all)
}

/// `Job/train, pod set 0`; without the number where there is only one.
fn title(wrapper: &Wrapper, set: Option<(usize, usize)>) -> String {
    let known = set.and_then(|(component, set)| Some((wrapper.components.get(component)?, set)));
    match known {
        Some((component, set)) if component.pod_sets.len() > 1 => {
            format!("{}, pod set {set}", component.title())
        }
        Some((component, _)) => component.title(),
        None => "Pods".to_owned(),
    }
}

fn pod(given: &Given<'_>, lives: &[&Life]) -> Row {
    let mut lives = lives.to_vec();
    lives.sort_by_key(|life| life.created);
    let mut spans: Vec<Span> = vec![];
    for life in &lives {
        let begin = spans.last().map_or(life.created, |last| last.to.max(life.created));
        spans.extend(life_spans(life, begin, given.now));
    }
    let last = lives.last();
    let is_cause = |life: &&Life| {
        let attempts = &given.wrapper.status.attempts;
        let mut causes = attempts.iter().filter_map(|attempt| attempt.failure.as_ref());
        causes.any(|failure| match &failure.pod_uid {
            Some(uid) => *uid == life.uid,
            None => failure.pod.as_ref() == Some(&life.name),
        })
    };
    let state = last.map(|life| life.state.clone()).unwrap_or_default();
    Row {
        name: last.map(|life| life.name.clone()).unwrap_or_default(),
        end: state,
        failed: lives.iter().any(|life| life.failed || is_cause(life)),
        spans,
    }
}

fn life_spans(life: &Life, begin: Timestamp, now: Timestamp) -> Vec<Span> {
    let end = life.gone.unwrap_or(now).min(now);
    let note = life.node.as_ref().map(|node| format!("on {node}")).unwrap_or_default();
    let first = if life.node.is_some() { Stage::Starting } else { Stage::Waiting };
    let over = life.ended.map(|ended| (life.failed.then_some(Stage::Failing), ended));
    let deleting = life.deleting.map(|deleting| (Some(Stage::TearingDown), deleting));
    let running = life.started.map(|started| (Some(Stage::Running), started));
    let mut spans = vec![];
    let (mut stage, mut from) = (Some(first), begin);
    let edges = [running, over, deleting].into_iter().flatten();
    for (following, until) in edges.chain([(None, end)]) {
        let until = until.clamp(from, end.max(from));
        if let Some(stage) = stage.filter(|_| until > from) {
            spans.push(Span { stage, from, to: until, note: note.clone() });
        }
        (stage, from) = (following, until);
    }
    spans
}

#[cfg(test)]
mod tests;
