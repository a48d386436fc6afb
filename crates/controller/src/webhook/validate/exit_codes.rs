//! Sets of exit codes, as the policies have them. Source: the validation of Job.

use crate::api::ExitCodeOperator;

use super::finding::Findings;

/// Checks the values of `onExitCodes`; their number is bounded by the schema.
pub(super) fn check(operator: ExitCodeOperator, values: &[i32], path: &str, report: &mut Findings) {
    for (i, value) in values.iter().enumerate() {
        let field = format!("{path}.values[{i}]");
        let earlier = i.checked_sub(1).and_then(|before| values.get(before));
        if *value == 0 && operator == ExitCodeOperator::In {
            let message = "must not be 0 with the operator In: it is not a failure";
            report.invalid(&field, "0", message);
        }
        match earlier {
            Some(before) if before == value => {
                report.invalid(field, value.to_string(), "must be unique in the list");
            }
            Some(before) if before > value => {
                let message = format!("must be in ascending order, but follows {before}");
                report.invalid(field, value.to_string(), message);
            }
            _ => {}
        }
    }
}
