//! The message of a pod: `UpdateTrainJobStatusRequest` of Trainer's API `v1alpha1`.
//!
//! ```json
//! {"trainerStatus": {"lastUpdatedTime": "…", "progressPercentage": 40, "estimatedRemainingSeconds": 600,
//!   "metrics": [{"name": "current_step", "value": "1200"}, {"name": "loss", "value": "0.3"}]}}
//! ```
//!
//! The protocol has no field for a step and none for a checkpoint. The step is the metric `current_step`, as
//! Transformers calls it, or `global_step` or `step`; the checkpoint is the metric `checkpoint`. Other metrics, and
//! fields that are not known, are ignored beside `trainerStatus` and in it, and so is `lastUpdatedTime`: the time of
//! arrival counts.

use serde_json::{Map, Value};

use crate::printable::truncated;
use crate::progress::{self, NUMBER_MAX, Values};

/// The most metrics: the same as Trainer's.
const METRICS_MAX: usize = 256;
/// The metrics that are the step, the first that is there.
const STEPS: [&str; 3] = ["current_step", "global_step", STEP];
/// The metric that may be about something else: then it is no whole number.
const STEP: &str = "step";
/// The metric that is the name of the last checkpoint.
const CHECKPOINT: &str = "checkpoint";
/// How much of a wrong value, or of the name of a field, is quoted, in characters.
const QUOTED_MAX: usize = 64;

/// Why a message is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is no JSON.
    #[error("the body must be JSON: {0}")]
    Json(String),
    /// A field has another type or is out of its bounds.
    #[error("{path}: Invalid value: {value}: must be {allowed}")]
    Field {
        /// The field.
        path: String,
        /// What it is, shortened; a text in quotes.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// A value is out of the bounds of a report.
    #[error("trainerStatus: {0}")]
    Report(progress::Malformed),
}

/// Reads a message; nothing where it reports nothing.
///
/// # Errors
/// It is no JSON, or a field is not as the protocol says.
pub fn read(body: &[u8]) -> Result<Option<Values>, Malformed> {
    let message: Value =
        serde_json::from_slice(body).map_err(|error| Malformed::Json(error.to_string()))?;
    let Value::Object(message) = &message else {
        return Err(wrong("body", &message, "an object"));
    };
    let status = match message.get("trainerStatus") {
        None | Some(Value::Null) => return nothing(message),
        Some(Value::Object(status)) => status,
        Some(other) => return Err(wrong("trainerStatus", other, "an object")),
    };
    let (step, checkpoint) = metrics(status)?;
    Ok(Some(Values {
        percent: whole(status, "progressPercentage", 100)?,
        eta: whole(status, "estimatedRemainingSeconds", NUMBER_MAX)?,
        step,
        checkpoint,
    }))
}

/// A message without status: it reports nothing. What it has beside that was meant as one: it is no sign of life.
fn nothing(message: &Map<String, Value>) -> Result<Option<Values>, Malformed> {
    match message.iter().find(|(name, _)| *name != "trainerStatus") {
        Some((name, value)) => {
            Err(wrong(&truncated(name, QUOTED_MAX), value, "a field of trainerStatus"))
        }
        None => Ok(None),
    }
}

/// A whole number from 0 on.
fn whole(status: &Map<String, Value>, field: &str, most: i64) -> Result<Option<i64>, Malformed> {
    let given = status.get(field).filter(|value| !value.is_null());
    let Some(value) = given else { return Ok(None) };
    let number = value.as_i64().filter(|number| (0..=most).contains(number));
    let path = || format!("trainerStatus.{field}");
    number.map(Some).ok_or_else(|| wrong(&path(), value, &whole_to(most)))
}

fn whole_to(most: i64) -> String {
    format!("a whole number from 0 to {most}")
}

/// The step and the checkpoint among the metrics.
fn metrics(status: &Map<String, Value>) -> Result<(Option<i64>, Option<String>), Malformed> {
    let path = "trainerStatus.metrics";
    let all = match status.get("metrics") {
        None | Some(Value::Null) => return Ok((None, None)),
        Some(Value::Array(all)) if all.len() <= METRICS_MAX => all,
        Some(Value::Array(all)) => {
            let allowed = format!("at most {METRICS_MAX} metrics");
            return Err(wrong(path, &all.len().into(), &allowed));
        }
        Some(other) => return Err(wrong(path, other, "a list")),
    };
    let (mut steps, mut checkpoint) = ([None; STEPS.len()], None);
    for (index, metric) in all.iter().enumerate() {
        let text = |field: &str| {
            let value = metric.get(field).unwrap_or(&Value::Null);
            let path = format!("{path}[{index}].{field}");
            value.as_str().ok_or_else(|| wrong(&path, value, "a string"))
        };
        let (name, value) = (text("name")?, text("value")?);
        if let Some(place) = STEPS.iter().position(|step| *step == name) {
            let step = number(value);
            if step.is_none() && name != STEP {
                let path = format!("{path}[{index}].value");
                return Err(wrong(&path, &metric["value"], &whole_to(NUMBER_MAX)));
            }
            steps[place] = step;
        } else if name == CHECKPOINT && !value.is_empty() {
            checkpoint = Some(value.to_owned());
        }
    }
    Ok((steps.into_iter().flatten().next(), checkpoint))
}

/// A step: a whole number from 0 on, perhaps as `1200.0`.
fn number(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches('0').strip_suffix('.').map_or(text, |whole| whole);
    digits.parse().ok().filter(|number| (0..=NUMBER_MAX).contains(number))
}

fn wrong(path: &str, value: &Value, allowed: &str) -> Malformed {
    let value = match value {
        Value::String(text) => format!("\"{}\"", truncated(text, QUOTED_MAX)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    Malformed::Field { path: path.to_owned(), value, allowed: allowed.to_owned() }
}

#[cfg(test)]
mod tests;
