//! Amounts of resources in pod specs: none may be negative, and Kueue must be able to add them up.

use serde_json::Value;

use super::finding::{Findings, text};
use crate::kinds;
use crate::tuning::shortened;

/// Refuses negative amounts, as the API server does when it creates the pods: before, Kueue would subtract them from
/// what other pods request.
pub(super) fn check(spec: &Value, path: &str, report: &mut Findings) {
    for list in ["containers", "initContainers"] {
        let containers = spec[list].as_array().into_iter().flatten();
        for (i, container) in containers.enumerate() {
            let resources = format!("{path}.{list}[{i}].resources");
            of_resources(&container["resources"], &resources, report);
        }
    }
    of_resources(&spec["resources"], &format!("{path}.resources"), report);
    of_amounts(&spec["overhead"], &format!("{path}.overhead"), report);
}

fn of_resources(resources: &Value, path: &str, report: &mut Findings) {
    for field in ["requests", "limits"] {
        of_amounts(&resources[field], &format!("{path}.{field}"), report);
    }
}

fn of_amounts(amounts: &Value, path: &str, report: &mut Findings) {
    for (resource, amount) in amounts.as_object().into_iter().flatten() {
        if kinds::is_negative(amount) {
            let field = format!("{path}[{}]", shortened(resource));
            report.invalid(field, text(amount), "must be 0 or more");
        }
    }
}

/// Refuses pods that request so much together that the numbers of Kueue overflow: a negative sum would leave room for
/// any pods of others.
pub(super) fn uncountable(spec: &Value, pods: i32, path: &str, report: &mut Findings) {
    // one of them is enough to know
    if let Some(most) = kinds::uncountable(spec, pods).first() {
        let name = shortened(&most.resource);
        let message = format!(
            "must be at most {} {name} in total for all pods of the pod set: Kueue cannot add up more",
            most.counted
        );
        report.invalid(path.to_owned(), format!("{} {name}", most.requested), message);
    }
}
