//! Progress as a pod reports it: the value of its annotation [`keys::PROGRESS`](crate::api::keys::PROGRESS).
//!
//! ```json
//! {"at":"2026-01-05T10:00:00Z","percent":40,"step":1200,"eta":600,"checkpoint":"step-1000","checkpointAt":"2026-01-05T09:50:00Z"}
//! ```
//!
//! `at` is the time of the last progress, not of the last message: [`Report::after`] keeps it when a message repeats the
//! step and the percentage that were reported before. So the annotation alone shows a hang; no process has to remember
//! earlier messages.
//!
//! Whoever may patch the pod can write the annotation. It decides only about the AppWrapper of that pod, and every field
//! has a bound.

mod error;
#[cfg(test)]
mod tests;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use error::Malformed;

pub use crate::price::CHECKPOINT_BYTES_MAX;
use crate::printable;

/// The most bytes of the annotation.
pub const BYTES_MAX: usize = 1 << 10;
/// The largest step, and the longest remaining time in seconds: what a number of JSON represents exactly.
pub const NUMBER_MAX: i64 = (1 << 53) - 1;
/// The most bytes of a reason why a report cannot be read.
const REASON_BYTES_MAX: usize = 200;
/// How far the clock that a report was made with may be ahead of the controller's. One that is further ahead is wrong.
const AHEAD_MAX: SignedDuration = SignedDuration::from_secs(60);
/// How far ahead a report may be to count: more than any wrong time zone. One that is further ahead would hide a hang for
/// too long.
const COUNTED_AHEAD_MAX: SignedDuration = SignedDuration::from_hours(24);

/// The last progress that a pod reported, within the bounds of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    at: Timestamp,
    values: Values,
    checkpoint_at: Option<Timestamp>,
}

/// What a message says beside its time. All fields are optional; a message without any says that the pod works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// How much is done, in percent: 0 to 100.
    pub percent: Option<i64>,
    /// The last step that is done: 0 to [`NUMBER_MAX`]. It may decrease: a process that restarts goes back to its
    /// checkpoint.
    pub step: Option<i64>,
    /// Estimated remaining seconds: 0 to [`NUMBER_MAX`].
    pub eta: Option<i64>,
    /// Name of the last checkpoint, such as a path: 1 to [`CHECKPOINT_BYTES_MAX`] bytes without control characters.
    pub checkpoint: Option<String>,
}

/// The annotation as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    percent: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    eta: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint_at: Option<String>,
}

/// Reads the annotation. Unknown fields are ignored.
///
/// # Errors
/// [`Malformed`] if it is too long, is not a JSON object with the time `at`, or has a value out of its bounds.
pub fn parse(text: &str) -> Result<Report, Malformed> {
    if text.len() > BYTES_MAX {
        return Err(Malformed::TooLong(text.len()));
    }
    let wire: Wire = serde_json::from_str(text).map_err(|error| unread(&error))?;
    let at = time("at", &wire.at)?;
    let values = Values {
        percent: wire.percent,
        step: wire.step,
        eta: wire.eta,
        checkpoint: wire.checkpoint,
    };
    let mut report = Report::new(at, values)?;
    if let Some(text) = &wire.checkpoint_at {
        let saved = time("checkpointAt", text)?;
        report.checkpoint_at = report.checkpoint_at.map(|at| saved.min(at));
    }
    Ok(report)
}

/// The error quotes values.
fn unread(error: &serde_json::Error) -> Malformed {
    let mut text = printable::escape(&error.to_string()).into_owned();
    text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
    Malformed::Json(text)
}

fn time(field: &'static str, text: &str) -> Result<Timestamp, Malformed> {
    let parsed: Option<Timestamp> = text.parse().ok();
    parsed
        .map(rounded_up)
        .ok_or_else(|| Malformed::Time(field, printable::escape(text).into_owned()))
}

/// In whole seconds, so that no period that runs from it ends too early.
fn rounded_up(at: Timestamp) -> Timestamp {
    let more = i64::from(at.subsec_nanosecond() > 0);
    Timestamp::from_second(at.as_second().saturating_add(more)).unwrap_or(at)
}

impl Report {
    /// The report of a message that arrived, or was sent, at a moment, which is rounded up to whole seconds.
    ///
    /// # Errors
    /// [`Malformed`] if a value is out of its bounds.
    pub fn new(at: Timestamp, values: Values) -> Result<Self, Malformed> {
        within("percent", values.percent, 100)?;
        within("step", values.step, NUMBER_MAX)?;
        within("eta", values.eta, NUMBER_MAX)?;
        if let Some(name) = &values.checkpoint {
            if !(1..=CHECKPOINT_BYTES_MAX).contains(&name.len()) {
                return Err(Malformed::CheckpointLength(name.len()));
            }
            if name.chars().any(char::is_control) {
                return Err(Malformed::CheckpointText(printable::escape(name).into_owned()));
            }
        }
        let at = rounded_up(at);
        let checkpoint_at = values.checkpoint.as_ref().map(|_| at);
        Ok(Self { at, values, checkpoint_at })
    }

    /// This message as the report that follows on an earlier one of the same pod: what is written to the annotation.
    /// Nothing has to be written where it equals `previous`.
    ///
    /// - A message that repeats the step and the percentage is no progress: `at` stays. One that has neither is.
    /// - What it does not say stays: step, percentage, checkpoint. The remaining time does not, nor do 100 % beside another
    ///   step: the work goes on.
    /// - A checkpoint is as old as the first message that names it.
    /// - A message that is older than `previous` changes nothing.
    #[must_use]
    pub fn after(self, previous: Option<&Self>) -> Self {
        let Some(previous) = previous else { return self };
        if self.at < previous.at {
            return previous.clone();
        }
        let (new, old) = (self.values, &previous.values);
        let says_nothing = new.step.is_none() && new.percent.is_none();
        let step = new.step.or(old.step);
        let kept = old.percent.filter(|percent| *percent != 100 || step == old.step);
        let percent = new.percent.or(kept);
        let advances = says_nothing || step != old.step || percent != old.percent;
        let (checkpoint, checkpoint_at) = match new.checkpoint {
            Some(name) if old.checkpoint.as_ref() != Some(&name) => (Some(name), Some(self.at)),
            Some(_) | None => (old.checkpoint.clone(), previous.checkpoint_at),
        };
        let at = if advances { self.at } else { previous.at };
        Self { at, values: Values { percent, step, eta: new.eta, checkpoint }, checkpoint_at }
    }

    /// This message with a later time, where it is of an earlier one.
    #[must_use]
    pub fn no_earlier_than(self, moment: Option<Timestamp>) -> Self {
        Self { at: moment.map_or(self.at, |moment| moment.max(self.at)), ..self }
    }

    /// The annotation: compact JSON of at most [`BYTES_MAX`] bytes, which [`parse`] reads back.
    #[must_use]
    pub fn render(&self) -> String {
        let Values { percent, step, eta, checkpoint } = self.values.clone();
        let wire = Wire {
            at: self.at.to_string(),
            percent,
            step,
            eta,
            checkpoint,
            checkpoint_at: self.checkpoint_at.map(|at| at.to_string()),
        };
        serde_json::to_string(&wire).unwrap_or_default()
    }

    /// When the pod last made progress, in whole seconds.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether its time is further ahead of a clock than clocks may differ.
    #[must_use]
    pub fn is_ahead_of(&self, now: Timestamp) -> bool {
        now.checked_add(AHEAD_MAX).is_ok_and(|latest| self.at > latest)
    }

    /// From when on it counts: later than now where its time is too far ahead to be that of any wrong clock.
    #[must_use]
    pub fn counts_from(&self) -> Timestamp {
        self.at.checked_sub(COUNTED_AHEAD_MAX).unwrap_or(Timestamp::MIN)
    }

    /// How much is done, in percent.
    #[must_use]
    pub const fn percent(&self) -> Option<i64> {
        self.values.percent
    }

    /// The last step that is done.
    #[must_use]
    pub const fn step(&self) -> Option<i64> {
        self.values.step
    }

    /// Estimated remaining seconds, from [`at`](Self::at).
    #[must_use]
    pub const fn eta(&self) -> Option<i64> {
        self.values.eta
    }

    /// Name of the last checkpoint, and when it was first reported.
    #[must_use]
    pub fn checkpoint(&self) -> Option<(&str, Timestamp)> {
        self.values.checkpoint.as_deref().zip(self.checkpoint_at)
    }
}

fn within(field: &'static str, value: Option<i64>, max: i64) -> Result<(), Malformed> {
    match value {
        Some(value) if !(0..=max).contains(&value) => Err(Malformed::Range { field, value, max }),
        Some(_) | None => Ok(()),
    }
}
