//! `spec.executionPolicy` (KEP-672).

use std::collections::BTreeMap;

use serde_json::Value;

use super::component::Judged;
use super::finding::Findings;
use super::target::{Parts, Targets};
use super::{RULES_MAX, items, mounts, unused};
use crate::api::{ExecutionRule, WaitFor};
use crate::snapshot::End;

pub(super) fn check(spec: &Value, targets: &Targets<'_>, report: &mut Findings) {
    let policy = &spec["executionPolicy"];
    let errors = report.errors();
    let path = "spec.executionPolicy";
    let rules: Vec<(usize, ExecutionRule)> = items(&policy["rules"], RULES_MAX);
    let count = policy["rules"].as_array().map_or(0, Vec::len);
    let order = policy["executionPolicyOrder"].as_str();
    let any = order == Some("AnyOrder") || policy["executionPolicyOrder"].is_null();
    if any && count > 0 {
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
        for (component, at) in
            targets.check(&rule.target_components, &listed, Parts::Refused, report)
        {
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
    // while something is wrong with the rules, the steps are unknown
    let all_named = rules.iter().all(|(_, rule)| !rule.target_components.is_empty());
    let known = rules.len() == count && all_named && errors == report.errors();
    if order == Some("InOrder") && count > 0 && known {
        in_steps(spec, count, &steps, targets, report);
    }
}

/// What is probably not meant by the steps: `named` has those of the components that rules name.
fn in_steps(
    spec: &Value,
    last: usize,
    named: &BTreeMap<usize, usize>,
    targets: &Targets<'_>,
    report: &mut Findings,
) {
    let all = targets.all();
    let has_pods = |each: &Judged| each.pod_sets.as_ref().is_none_or(|sets| !sets.is_empty());
    let unnamed = |i: usize| !named.contains_key(&i);
    let late = all.iter().enumerate().filter(|(i, each)| unnamed(*i) && has_pods(each));
    let late: Vec<&Judged> = late.map(|(_, each)| each).collect();
    if !late.is_empty() {
        let message = format!(
            "no rule names {}: created in a last step, after all others",
            unused::titles(late)
        );
        report.doubtful("spec.executionPolicy.rules", None, message);
    }
    let step = |(i, each): (usize, &Judged)| {
        let default = if has_pods(each) { last } else { 0 };
        named.get(&i).copied().unwrap_or(default)
    };
    let steps: Vec<usize> = all.iter().enumerate().map(step).collect();
    let components = spec["components"].as_array().map(Vec::as_slice).unwrap_or_default();
    mounts::check(components, all, &steps, report);
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
        let message = format!("{} does not complete on its own", judged.title());
        let field = format!("spec.executionPolicy.rules[{rule}].waitForComponentsStatus");
        report.doubtful(field, Some("Succeeded"), message);
    }
}
