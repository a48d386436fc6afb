use crate::api;
use crate::config::REFILL_AFTER_MIN;
use crate::tuning::{Period, PeriodError};

/// Readiness that counts as progress, where `progressAfter` is left out.
const PROGRESS_AFTER: Period = Period::from_secs(600);

/// When restarts are given back, and when one would be of no use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetRules {
    /// How long all pods must run without interruption before the used restarts are given back.
    pub refill_after: Option<Period>,
    /// When the AppWrapper fails instead of a counted restart.
    pub stop_when: Option<StopWhen>,
}

/// When a failure is the fault of the workload itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopWhen {
    /// Attempts in a row without progress.
    pub attempts: Option<usize>,
    /// Nodes with the same failure.
    pub nodes: Option<usize>,
    /// Readiness that is progress.
    pub progress_after: Period,
}

/// Why `refill` or `stopWhen` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// The field is no period.
    #[error("{0}: {1}")]
    Period(&'static str, PeriodError),
    /// `refill.after` is too short.
    #[error("refill.after: {0} must be at least {REFILL_AFTER_MIN}")]
    Short(Period),
}

impl BudgetError {
    /// The field, below the policy, and what is allowed in it.
    #[must_use]
    pub fn expected(&self) -> (&'static str, String) {
        match self {
            Self::Period(field, error) => (field, error.expected().to_owned()),
            Self::Short(_) => ("refill.after", format!("must be at least {REFILL_AFTER_MIN}")),
        }
    }
}

/// `refill.after`.
///
/// # Errors
/// It is no period, or too short.
pub fn refill_after(raw: &api::Refill) -> Result<Period, BudgetError> {
    let field = "refill.after";
    let after: Period = raw.after.parse().map_err(|error| BudgetError::Period(field, error))?;
    if after < REFILL_AFTER_MIN { Err(BudgetError::Short(after)) } else { Ok(after) }
}

impl TryFrom<&api::StopWhen> for StopWhen {
    type Error = BudgetError;

    fn try_from(raw: &api::StopWhen) -> Result<Self, BudgetError> {
        let field = "stopWhen.progressAfter";
        let given = raw.progress_after.as_deref().map(str::parse).transpose();
        let count = |least: i32, given: Option<i32>| {
            given.and_then(|count| usize::try_from(count.max(least)).ok())
        };
        Ok(Self {
            attempts: count(1, raw.attempts_without_progress),
            nodes: count(2, raw.same_failure_on_nodes),
            progress_after: given
                .map_err(|error| BudgetError::Period(field, error))?
                .unwrap_or(PROGRESS_AFTER),
        })
    }
}

impl BudgetRules {
    /// Reads both. What cannot be understood is left out: no restart is given back for it, and the limits hold.
    pub(super) fn read(
        refill: Option<&api::Refill>,
        stop_when: Option<&api::StopWhen>,
        path: &str,
        flaws: &mut Vec<String>,
    ) -> Self {
        let mut flaw = |error: BudgetError| flaws.push(format!("{path}.{error}; it is ignored"));
        Self {
            refill_after: refill.and_then(|raw| refill_after(raw).map_err(&mut flaw).ok()),
            stop_when: stop_when.and_then(|raw| raw.try_into().map_err(&mut flaw).ok()),
        }
    }
}
