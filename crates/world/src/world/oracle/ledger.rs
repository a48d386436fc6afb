//! How long an AppWrapper held quota, and was productive, by its conditions alone: kept from the statuses that were
//! written, without a look at `status.usage`.

use std::ops::RangeInclusive;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// Seconds by what the conditions say. Times are in whole seconds since 1970.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Seconds in which `QuotaReserved` was True, up to the last time that it was not.
    held: i64,
    /// Since when it is True.
    held_from: Option<i64>,
    /// Seconds in which `PodsReady` was True in Running, of attempts that did not fail.
    productive: i64,
    /// The same of the attempt that runs, or ran last.
    of_attempt: i64,
    /// Since when that is so.
    ready_from: Option<i64>,
    /// The same of attempts that failed, where no pod reported a checkpoint before.
    lost: i64,
    /// How many of the seconds of other attempts that failed may be productive: those before the last checkpoint that
    /// was ever reported. Which reports are known when the failure is handled, the statuses do not tell.
    saved: i64,
    /// When the last checkpoint of the attempt was reported.
    checkpoint_at: Option<i64>,
    /// When the attempt stopped being ready.
    ended_at: i64,
    /// How many times were taken from a clock: each may be off.
    pub readings: u32,
    /// By how much each may be off.
    pub skew: Duration,
    /// The attempt that runs, and the failure that was handled last.
    attempt: Value,
    failure: Option<(Value, Value, Value)>,
}

impl Ledger {
    /// Takes in an AppWrapper that was written.
    pub(super) fn note(&mut self, value: &Value) {
        let phase = value["status"]["phase"].as_str().unwrap_or_default();
        let (holds, quota_at) = condition(value, "QuotaReserved");
        let (is_ready, ready_at) = condition(value, "PodsReady");
        let is_productive = is_ready && holds && phase == "Running";
        // a success leaves PodsReady as it is
        let ended_at = if is_ready { quota_at } else { ready_at };
        match (self.ready_from, is_productive) {
            (None, true) => self.ready_from = Some(ready_at),
            (Some(from), false) => {
                self.of_attempt += ended_at - from;
                self.ended_at = ended_at;
                self.ready_from = None;
                self.readings += 1;
            }
            (None, false) | (Some(_), true) => {}
        }
        match (self.held_from, holds) {
            (None, true) => self.held_from = Some(quota_at),
            (Some(from), false) => {
                self.held += quota_at - from;
                self.held_from = None;
            }
            (None, false) | (Some(_), true) => {}
        }
        self.readings += 1;
        self.note_attempts(value);
    }

    fn note_attempts(&mut self, value: &Value) {
        let attempts =
            value["status"]["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
        let failed = attempts.iter().rev().find(|attempt| attempt["action"].is_string());
        let identity = |attempt: &Value| {
            (attempt["attempt"].clone(), attempt["startedAt"].clone(), attempt["failedAt"].clone())
        };
        let failure = failed.map(identity);
        if failure.is_some() && failure != self.failure {
            let worked = std::mem::take(&mut self.of_attempt);
            let unsaved = self.checkpoint_at.map_or(worked, |at| self.ended_at - at);
            self.lost += worked;
            // a clock that was set back makes the time negative
            self.saved += worked.max(0) - unsaved.clamp(0, worked.max(0));
            self.failure = failure;
        }
        let number = attempts.last().map_or(Value::Null, |last| last["attempt"].clone());
        if number != self.attempt {
            self.productive += std::mem::take(&mut self.of_attempt);
            self.attempt = number;
            self.checkpoint_at = None;
        }
    }

    /// Takes in what a pod reports.
    pub(super) fn note_report(&mut self, report: &str) {
        let Ok(report) = serde_json::from_str::<Value>(report) else { return };
        let at = [&report["checkpointAt"], &report["at"]].into_iter().find_map(Value::as_str);
        let at = at.and_then(|text| text.parse::<Timestamp>().ok());
        // reports are read in whole seconds, and no progress is taken for earlier than it was
        let second = at.map(|at| at.as_second() + i64::from(at.subsec_nanosecond() > 0));
        if report["checkpoint"].is_string() {
            self.checkpoint_at = self.checkpoint_at.max(second);
        }
    }

    /// For how many seconds attempts were ready that failed: at least and at most, as far as they are lost.
    #[must_use]
    pub const fn lost(&self) -> RangeInclusive<i64> {
        RangeInclusive::new(self.lost - self.saved, self.lost)
    }

    /// For how many seconds an attempt was ready, whatever became of it.
    #[must_use]
    pub fn ready(&self, now: Timestamp) -> i64 {
        self.lost + self.productive(now)
    }

    /// For how many seconds quota was held, at a moment.
    #[must_use]
    pub fn held(&self, now: Timestamp) -> i64 {
        self.held + self.held_from.map_or(0, |from| now.as_second() - from)
    }

    /// For how many seconds an attempt was ready that did not fail, at a moment.
    fn productive(&self, now: Timestamp) -> i64 {
        let open = self.ready_from.map_or(0, |from| now.as_second() - from);
        self.productive + self.of_attempt + open
    }

    /// Whether quota is held.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.held_from.is_some()
    }
}

/// Whether a condition is True, and since when it is or is not.
fn condition(value: &Value, kind: &str) -> (bool, i64) {
    let all = value["status"]["conditions"].as_array().into_iter().flatten();
    let found = all.into_iter().find(|condition| condition["type"] == *kind);
    let text = found.and_then(|condition| condition["lastTransitionTime"].as_str());
    let at = text.and_then(|text| text.parse::<Timestamp>().ok());
    let is_true = found.is_some_and(|condition| condition["status"] == "True");
    (is_true, at.map_or(0, Timestamp::as_second))
}
