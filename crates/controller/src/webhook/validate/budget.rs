//! `refill` and `stopWhen`, of RetryPolicies and of `failurePolicy`.

use serde_json::Value;

use super::finding::Findings;
use crate::api::{Refill, StopWhen};
use crate::policies::{self, BudgetError};

/// Checks what the schema cannot say; `path` is the policy's.
pub(super) fn check(policy: &Value, path: &str, report: &mut Findings) {
    let mut invalid = |given: &str, error: BudgetError| {
        let (field, expected) = error.expected();
        report.invalid(format!("{path}.{field}"), given, expected);
    };
    if let Ok(refill) = serde_json::from_value::<Refill>(policy["refill"].clone())
        && let Err(error) = policies::refill_after(&refill)
    {
        invalid(&refill.after, error);
    }
    let Ok(stop_when) = serde_json::from_value::<StopWhen>(policy["stopWhen"].clone()) else {
        return;
    };
    if let Err(error) = policies::StopWhen::try_from(&stop_when) {
        invalid(stop_when.progress_after.as_deref().unwrap_or_default(), error);
    }
    if stop_when.attempts_without_progress.is_none() && stop_when.same_failure_on_nodes.is_none() {
        let message =
            "has no effect: neither attemptsWithoutProgress nor sameFailureOnNodes is given";
        report.doubtful(format!("{path}.stopWhen"), None, message);
    }
}
