//! The section `failureLogs`.

use super::section::Section;
use crate::pattern::Pattern;

/// The most lines that are kept of a log.
const LINES_MAX: i32 = 1000;
/// The fewest and the most bytes that are kept of a log: those of an AppWrapper are in ConfigMaps of its namespace.
const BYTES: (i32, i32) = (1 << 10, 64 << 10);
/// The most patterns: each is searched in every line.
const PATTERNS_MAX: usize = 20;

/// The section `failureLogs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureLogs {
    /// Whether the end of the log is kept when a failure is decided about.
    pub enabled: bool,
    /// The most lines that are kept of a log.
    pub lines: i32,
    /// The most bytes that are kept of a log.
    pub bytes_max: usize,
    /// What is redacted in each line.
    pub redact: Vec<Pattern>,
}

impl Default for FailureLogs {
    fn default() -> Self {
        Self { enabled: false, lines: 100, bytes_max: 8 << 10, redact: vec![] }
    }
}

pub(super) fn read(section: &mut Section<'_>) -> FailureLogs {
    let default = FailureLogs::default();
    let lines = section.whole("lines", 1..=LINES_MAX, default.lines);
    let given = section.quantity("maxBytes");
    let bytes_max = given.as_deref().map_or(Some(default.bytes_max), bytes);
    if bytes_max.is_none() {
        let message = format!(
            "must be a quantity from {}Ki to {}Ki, such as 8Ki",
            BYTES.0 >> 10,
            BYTES.1 >> 10
        );
        section.problem("maxBytes", given.as_deref(), message);
    }
    let redact =
        section.texts("redact", |text| Pattern::new(text).map_err(|error| error.to_string()));
    if redact.len() > PATTERNS_MAX {
        let message = format!("must have at most {PATTERNS_MAX} patterns");
        section.problem("redact", Some(&redact.len().to_string()), message);
    }
    FailureLogs {
        enabled: section.flag("enabled", default.enabled),
        lines,
        bytes_max: bytes_max.unwrap_or(default.bytes_max),
        redact,
    }
}

fn bytes(text: &str) -> Option<usize> {
    let amount = crate::quantity::amount(text)?;
    let (least, most) = (f64::from(BYTES.0), f64::from(BYTES.1));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between the two bounds"
    )]
    (least..=most).contains(&amount).then_some(amount as usize)
}
