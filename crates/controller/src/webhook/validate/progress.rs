//! `spec.progress`.

use serde_json::Value;

use super::finding::Findings;
use crate::api::Progress;
use crate::policies::ProgressRules;

/// Checks what the schema cannot say.
pub(super) fn check(progress: &Value, report: &mut Findings) {
    let Ok(progress) = serde_json::from_value::<Progress>(progress.clone()) else { return };
    let (_, errors) = ProgressRules::read(&progress);
    for (given, error) in errors {
        let (field, expected) = error.expected();
        report.invalid(format!("spec.progress.{field}"), given, expected);
    }
    if progress.start_within.is_none() && progress.stall_after.is_none() {
        let message = "has no effect: neither startWithin nor stallAfter is given";
        report.doubtful("spec.progress", None, message);
    }
}
