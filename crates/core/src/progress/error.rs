use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use super::{BYTES_MAX, CHECKPOINT_BYTES_MAX};

/// Why a report cannot be read. It then counts as no report, unless it is only from the future.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// It has too many bytes.
    #[error("has {0} bytes: must have at most {BYTES_MAX}")]
    TooLong(usize),
    /// It is no JSON object with the fields of a report.
    #[error("is not a JSON object with the time \"at\" and whole numbers: {0}")]
    Json(String),
    /// A field is no time.
    #[error("{0}: {1:?} is not a time: must be like 2026-01-05T10:00:00Z (RFC 3339)")]
    Time(&'static str, String),
    /// The clock that it was made with is too far ahead; only a decision can tell.
    #[error("at: {0} is in the future")]
    Ahead(Timestamp),
    /// A number is out of its bounds.
    #[error("{field}: {value} must be from 0 to {max}")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        value: i64,
        /// The largest value that is allowed.
        max: i64,
    },
    /// The name of the checkpoint is empty or too long.
    #[error("checkpoint: has {0} bytes: must have 1 to {CHECKPOINT_BYTES_MAX}")]
    CheckpointLength(usize),
    /// The name of the checkpoint has control characters.
    #[error("checkpoint: \"{0}\" must have no control characters")]
    CheckpointText(String),
}
