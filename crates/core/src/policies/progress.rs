use crate::api;
use crate::tuning::{Period, PeriodError};

/// The shortest period of `spec.progress`.
const PERIOD_MIN: Period = Period::from_secs(10);
/// The longest period of `spec.progress`.
const PERIOD_MAX: Period = Period::from_secs(7 * 24 * 3600);

/// When missing progress is a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgressRules {
    /// From readiness to the first report; no limit if absent.
    pub start_within: Option<Period>,
    /// From the last progress on; no limit if absent.
    pub stall_after: Option<Period>,
}

/// Why a field of `spec.progress` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgressError {
    /// It is no period.
    #[error("{0}: {1}")]
    Period(&'static str, PeriodError),
    /// It is too short or too long.
    #[error("{0}: {1} must be from {PERIOD_MIN} to {PERIOD_MAX}")]
    Range(&'static str, Period),
}

impl ProgressError {
    /// The field, below `spec.progress`, and what is allowed in it.
    #[must_use]
    pub fn expected(&self) -> (&'static str, String) {
        match self {
            Self::Period(field, error) => (field, error.expected().to_owned()),
            Self::Range(field, _) => (field, format!("must be from {PERIOD_MIN} to {PERIOD_MAX}")),
        }
    }
}

impl ProgressRules {
    /// Reads both fields, and says what cannot be understood, with the text of the field. That field is left out: a
    /// period that nobody can read stops nothing.
    #[must_use]
    pub fn read(raw: &api::Progress) -> (Self, Vec<(&str, ProgressError)>) {
        let mut errors = vec![];
        let start_within = read("startWithin", raw.start_within.as_deref(), &mut errors);
        let stall_after = read("stallAfter", raw.stall_after.as_deref(), &mut errors);
        (Self { start_within, stall_after }, errors)
    }

    /// The same for a spec; what cannot be understood is a flaw.
    pub(super) fn of(raw: Option<&api::Progress>, flaws: &mut Vec<String>) -> Option<Self> {
        let (rules, errors) = Self::read(raw?);
        let flaw = |(_, error)| format!("spec.progress.{error}; it is ignored");
        flaws.extend(errors.into_iter().map(flaw));
        Some(rules)
    }
}

fn read<'a>(
    field: &'static str,
    text: Option<&'a str>,
    errors: &mut Vec<(&'a str, ProgressError)>,
) -> Option<Period> {
    let text = text?;
    period(field, text).map_err(|error| errors.push((text, error))).ok()
}

fn period(field: &'static str, text: &str) -> Result<Period, ProgressError> {
    let period: Period = text.parse().map_err(|error| ProgressError::Period(field, error))?;
    if (PERIOD_MIN..=PERIOD_MAX).contains(&period) {
        Ok(period)
    } else {
        Err(ProgressError::Range(field, period))
    }
}
