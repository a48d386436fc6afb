//! `explain --replay`: what the current policies would have decided about recorded failures.

mod text;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::ExplainInputs;
use super::answer::{self, Failure};
use crate::api::{Attempt, AttemptAction, Retries, RuleRef};
use crate::config::Config;
use crate::decide::Facts;
use crate::decide::replay::{Replayed, replay};
use crate::tuning::Limits;

pub(super) use text::text;

/// What would have been decided, failure by failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Replay {
    /// Namespace and name.
    pub name: String,
    pub attempts: Vec<Judged>,
    /// What it comes to, in a sentence.
    pub outcome: String,
    /// What is worth knowing about how this was read.
    pub notes: Vec<String>,
    /// There are failures, and the policies that decide about them are not known.
    #[serde(skip)]
    pub undecided: bool,
}

/// One recorded failure, and the new decision about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Judged {
    pub attempt: i32,
    pub failure: Failure,
    pub recorded: Recorded,
    pub replayed: Decided,
    /// Action or rule are others.
    pub differs: bool,
    /// Whether they are is unknown, since it depends on more than is recorded.
    pub unknown: bool,
    /// It would have come to this attempt.
    pub reached: bool,
    pub reason: String,
    /// How what the record does not hold is judged.
    pub assumptions: Vec<String>,
}

/// What was decided then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Recorded {
    pub action: Option<&'static str>,
    #[serde(serialize_with = "answer::in_full")]
    pub rule: Option<RuleRef>,
    pub retries: Option<Retries>,
}

/// What is decided now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Decided {
    pub action: &'static str,
    #[serde(serialize_with = "answer::in_full")]
    pub rule: Option<RuleRef>,
    pub counted: Option<bool>,
    pub retries: Option<Retries>,
    pub retry_after_seconds: Option<i64>,
}

/// Decides again about every recorded failure, by the controller's own code.
pub(super) fn answer(inputs: &ExplainInputs, config: &Config, now: Timestamp) -> Replay {
    let snapshot = &inputs.snapshot;
    let name = format!("{}/{}", snapshot.namespace, snapshot.name);
    let notes = inputs.notes.clone();
    if let Some(manager) = inputs.wrapper.other_manager() {
        let outcome = format!("managed by {manager}, not by this controller");
        return Replay { name, attempts: vec![], outcome, notes, undecided: false };
    }
    let (limits, remarks) = Limits::of(&inputs.wrapper.annotations, &config.fault_tolerance);
    let replay = replay(Facts { snapshot, limits: &limits, config, now, anchor: now });
    if let ([why, ..], [_, ..]) = (&inputs.unread[..], &replay.failures[..]) {
        let outcome = format!("cannot be decided: {why}");
        return Replay { name, attempts: vec![], outcome, notes, undecided: true };
    }
    let mut all: Vec<String> = remarks.iter().map(ToString::to_string).collect();
    all.extend(answer::flaws(snapshot));
    all.extend(snapshot.retry.unusable.iter().map(ToString::to_string));
    if replay.before > 0 {
        let first = snapshot.status.attempts.first().map_or(0, |attempt| attempt.attempt);
        let before = replay.before;
        all.push(format!(
            "counted restarts before attempt {first}, the first that is recorded: {before}, used as \
             recorded"
        ));
    }
    all.extend(notes);
    Replay {
        name,
        outcome: outcome(&replay.failures, &snapshot.status.attempts),
        attempts: replay.failures.iter().map(Judged::of).collect(),
        notes: all,
        undecided: false,
    }
}

impl Judged {
    fn of(replayed: &Replayed) -> Self {
        let recorded = &replayed.recorded;
        let message = replayed.failure.message.clone();
        Self {
            attempt: recorded.attempt,
            failure: Failure { message, ..Failure::of(&replayed.failure) },
            recorded: Recorded {
                action: recorded.action.map(AttemptAction::as_str),
                rule: recorded.rule.clone(),
                retries: recorded.retries,
            },
            replayed: Decided {
                action: replayed.action.map_or("None", AttemptAction::as_str),
                rule: replayed.rule.clone(),
                counted: replayed.counted(),
                retries: replayed.retries,
                retry_after_seconds: replayed.retry_after_seconds,
            },
            differs: replayed.differs(),
            unknown: replayed.unknown,
            reached: replayed.reached,
            reason: replayed.reason.clone(),
            assumptions: replayed.assumptions.clone(),
        }
    }
}

/// What it comes to: how many decisions are others, and where it ends.
fn outcome(failures: &[Replayed], attempts: &[Attempt]) -> String {
    let Some(last) = failures.last() else {
        return match attempts.len() {
            0 => "no attempts recorded: nothing to replay".to_owned(),
            1 => "no failure recorded in the only attempt: nothing to replay".to_owned(),
            all => format!("no failure recorded in {all} attempts: nothing to replay"),
        };
    };
    let mut text = differences(failures);
    let fail = Some(AttemptAction::Fail);
    let failed = last.recorded.action == fail;
    let end = failures.iter().position(|each| each.action == fail);
    match end.and_then(|end| Some((failures.get(end)?, failures.len() - end - 1))) {
        Some((end, 0)) if failed => {
            text += &format!("; fails at attempt {}, as recorded", number(end));
        }
        Some((end, 0)) => text += &format!("; fails at attempt {}", number(end)),
        Some((end, later)) => {
            let later = if later == 1 { "failure".to_owned() } else { format!("{later} failures") };
            let number = number(end);
            text += &format!(
                "; fails at attempt {number}: the {later} after it would not have happened"
            );
        }
        None if failed => {
            let number = number(last);
            text += &format!("; does not fail at attempt {number}: what follows is unknown");
        }
        None => text += "; does not fail",
    }
    text
}

/// How many decisions are others, and of how many that is unknown.
fn differences(failures: &[Replayed]) -> String {
    let differ = failures.iter().filter(|each| each.differs()).count();
    let unknown = failures.iter().filter(|each| each.unknown).count();
    match (differ, unknown, failures.len()) {
        (0, 0, 1) => "the only failure is decided the same way".to_owned(),
        (0, 0, 2) => "both failures are decided the same way".to_owned(),
        (0, 0, all) => format!("all {all} failures are decided the same way"),
        (1, 0, 1) => "the only failure is decided differently".to_owned(),
        (2, 0, 2) => "both failures are decided differently".to_owned(),
        (_, 1, 1) => "it is unknown whether the only failure is decided differently".to_owned(),
        (some, unknown, all) => {
            let failures = match some {
                1 => format!("1 of {all} failures is"),
                some if some == all => format!("all {all} failures are"),
                some => format!("{some} of {all} failures are"),
            };
            let mut text = format!("{failures} decided differently");
            if unknown > 0 {
                text += &format!("; for {unknown}, this is unknown");
            }
            text
        }
    }
}

const fn number(replayed: &Replayed) -> i32 {
    replayed.recorded.attempt
}
