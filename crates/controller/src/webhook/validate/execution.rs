//! `spec.executionPolicy` (KEP-672).

use std::collections::BTreeMap;

use serde_json::Value;

use super::finding::Findings;
use super::target::Targets;
use super::{RULES_MAX, items};
use crate::api::{ExecutionRule, WaitFor};
use crate::kinds::End;

pub(super) fn check(policy: &Value, targets: &Targets<'_>, report: &mut Findings) {
    let path = "spec.executionPolicy";
    let rules: Vec<(usize, ExecutionRule)> = items(&policy["rules"], RULES_MAX);
    let count = policy["rules"].as_array().map_or(0, Vec::len);
    let order = policy["executionPolicyOrder"].as_str();
    if order == Some("AnyOrder") && count > 0 {
        let message = "must be empty: rules need executionPolicyOrder InOrder";
        report.invalid(format!("{path}.rules"), count.to_string(), message);
    }
    if order == Some("InOrder") && count == 0 {
        let message = "has no effect without rules: all components belong to one step";
        report.doubtful(format!("{path}.executionPolicyOrder"), Some("InOrder"), message);
    }
    let mut steps: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, rule) in &rules {
        let listed = format!("{path}.rules[{i}].targetComponents");
        if rule.target_components.is_empty() {
            report.invalid(&listed, "[]", "must name at least one component");
        }
        for (component, at) in targets.check(&rule.target_components, &listed, report) {
            match steps.get(&component) {
                Some(first) => {
                    let message =
                        format!("must be in only one rule: {path}.rules[{first}] also names it");
                    report.invalid(format!("{listed}[{at}]"), &rule.target_components[at], message);
                }
                None => _ = steps.insert(component, *i),
            }
            ends(rule.wait_for_components_status, component, *i, targets, report);
        }
    }
}

/// A step that waits for the success of what runs for ever is the last.
fn ends(
    wait: WaitFor,
    component: usize,
    rule: usize,
    targets: &Targets<'_>,
    report: &mut Findings,
) {
    let Some(judged) = targets.get(component) else { return };
    if wait == WaitFor::Succeeded && judged.known.end == End::Never {
        let message = format!("{}/{} does not complete on its own", judged.kind, judged.name);
        let field = format!("spec.executionPolicy.rules[{rule}].waitForComponentsStatus");
        report.doubtful(field, Some("Succeeded"), message);
    }
}
