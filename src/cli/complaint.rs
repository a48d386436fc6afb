//! Which field keeps an object from being read, and why.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tuning::shortened;

/// The field that keeps a value from being read as a type, and why; none where it can be read. `root` is
/// the path of the value itself.
pub(super) fn complaint<T: DeserializeOwned>(
    value: &Value,
    root: &str,
) -> Option<(String, String)> {
    let error = serde_path_to_error::deserialize::<_, T>(value).err()?;
    let mut field = root.to_owned();
    for segment in error.path() {
        field += &match segment {
            serde_path_to_error::Segment::Seq { index } => format!("[{index}]"),
            serde_path_to_error::Segment::Map { key } => format!(".{}", shortened(key)),
            serde_path_to_error::Segment::Enum { variant } => format!(".{}", shortened(variant)),
            serde_path_to_error::Segment::Unknown => continue,
        };
    }
    Some((field, error.inner().to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::AppWrapperStatus;

    #[test]
    fn the_field_that_cannot_be_read_is_named() {
        for (status, want) in [
            (json!({"resettingCount": "1", "phase": "Running"}), Some("status.resettingCount")),
            (
                json!({"attempts": [{"attempt": 0}, {"attempt": 1, "startedAt": "soon"}]}),
                Some("status.attempts[1].startedAt"),
            ),
            (json!({"attempts": [{"startedAt": null}]}), Some("status.attempts[0]")),
            (json!({"phase": "Running"}), None),
        ] {
            let found = complaint::<AppWrapperStatus>(&status, "status");
            assert_eq!(found.as_ref().map(|(field, _)| field.as_str()), want, "{status}");
        }
    }
}
