use crate::api::{NoFitAction, OnNoFit};
use crate::tuning::{Period, PeriodError};

/// How long pods may stay unschedulable, where `after` is left out.
const AFTER: Period = Period::from_secs(300);
/// The shortest `after`: a scheduler needs time to try.
const AFTER_MIN: Period = Period::from_secs(10);

/// `spec.onNoFit`, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFitRule {
    /// How long a pod may stay unschedulable.
    pub after: Period,
    /// What becomes of the quota.
    pub action: NoFitAction,
}

/// Why `onNoFit.after` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFitError {
    /// It is no period.
    #[error("after: {0}")]
    Period(PeriodError),
    /// It is too short.
    #[error("after: {0} must be at least {AFTER_MIN}")]
    Short(Period),
}

impl NoFitError {
    /// What is allowed in `after`.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::Period(error) => error.expected().to_owned(),
            Self::Short(_) => format!("must be at least {AFTER_MIN}"),
        }
    }
}

impl TryFrom<&OnNoFit> for NoFitRule {
    type Error = NoFitError;

    fn try_from(raw: &OnNoFit) -> Result<Self, NoFitError> {
        let given = raw.after.as_deref().map(str::parse).transpose().map_err(NoFitError::Period)?;
        let after = given.unwrap_or(AFTER);
        if after < AFTER_MIN {
            return Err(NoFitError::Short(after));
        }
        Ok(Self { after, action: raw.action })
    }
}

/// Reads the field. What cannot be understood is left out: unschedulable pods are then retried as any failure.
pub(super) fn read(raw: Option<&OnNoFit>, flaws: &mut Vec<String>) -> Option<NoFitRule> {
    let read = NoFitRule::try_from(raw?);
    read.map_err(|error| flaws.push(format!("spec.onNoFit.{error}; onNoFit is ignored"))).ok()
}
