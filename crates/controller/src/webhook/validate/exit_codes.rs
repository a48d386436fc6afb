//! Sets of exit codes, as the policies have them.

use std::collections::BTreeSet;

use crate::api::ExitCodeOperator;

use super::finding::Findings;

/// Checks the values of `onExitCodes`; their number is bounded by the schema.
pub(super) fn check(operator: ExitCodeOperator, values: &[i32], path: &str, report: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (i, value) in values.iter().enumerate() {
        let field = format!("{path}.values[{i}]");
        if !seen.insert(*value) {
            report.invalid(field, value.to_string(), "must be unique in the list");
            continue;
        }
        match operator {
            ExitCodeOperator::In if *value == 0 => {
                let message = "must not be 0 with the operator In: it is not a failure";
                report.invalid(field, "0", message);
            }
            // the list must have an entry: with 0 alone, every failure matches
            ExitCodeOperator::NotIn if *value == 0 && values.len() > 1 => {
                let message = "has no effect: exit code 0 is not a failure and matches no rule";
                report.doubtful(field, Some("0"), message);
            }
            ExitCodeOperator::In | ExitCodeOperator::NotIn => {}
        }
    }
}
