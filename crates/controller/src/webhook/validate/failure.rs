//! `spec.failurePolicy` (KEP-262).

use std::collections::BTreeMap;

use serde_json::Value;

use super::finding::Findings;
use super::target::{Parts, Targets};
use super::{RULES_MAX, budget, items, unused};
use crate::api::{FailurePolicyAction, FailurePolicyRule};
use crate::config::Config;
use crate::pattern::{self, Allowance};
use crate::tuning::names;

/// Reasons that a failed Job gives. Source: KEP-262.
const REASONS: [&str; 5] = [
    "PodFailurePolicy",
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "MaxFailedIndexesExceeded",
    "FailedIndexes",
];

/// The most patterns of one rule.
const PATTERNS_MAX: usize = 20;
/// The longest name of a rule, as in JobSet.
const NAME_MAX: usize = 128;

pub(super) fn check(policy: &Value, targets: &Targets<'_>, config: &Config, report: &mut Findings) {
    let path = "spec.failurePolicy.rules";
    let rules: Vec<(usize, FailurePolicyRule)> = items(&policy["rules"], RULES_MAX);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut final_rule = None;
    for (i, rule) in &rules {
        let path = format!("{path}[{i}]");
        name(rule.name.as_deref(), *i, &path, &mut seen, report);
        reasons(&rule.on_job_failure_reasons, &path, report);
        let listed = format!("{path}.targetComponents");
        targets.check(&rule.target_components, &listed, parts(rule.action), report);
        unused::failure_rule(rule, targets, &path, report);
        if let Some(first) = final_rule {
            let message =
                format!("never reached: spec.failurePolicy.rules[{first}] matches every failure");
            report.doubtful(path, None, message);
        } else if rule.on_job_failure_reasons.is_empty()
            && rule.on_job_failure_message_patterns.is_empty()
            && rule.target_components.is_empty()
        {
            final_rule = Some(i);
        }
    }
    patterns(&rules, report);
    budget::check(policy, "spec.failurePolicy", report);
    if config.retry_policy.global_max_retries == 0 && !rules.is_empty() {
        let message = "has no effect: retryPolicy.globalMaxRetries is 0";
        report.doubtful("spec.failurePolicy", None, message);
    }
}

/// A component is recreated as a whole.
const fn parts(action: FailurePolicyAction) -> Parts {
    if action.recreates_component() { Parts::Refused } else { Parts::Allowed }
}

fn name(
    given: Option<&str>,
    i: usize,
    path: &str,
    seen: &mut BTreeMap<String, usize>,
    report: &mut Findings,
) {
    let field = format!("{path}.name");
    if let Some(name) = given
        && !is_name(name)
    {
        let message = format!(
            "must be 1 to {NAME_MAX} letters, digits, '_', '-', ',' or ':', beginning with a \
             letter and ending with a letter, a digit or '_'"
        );
        return report.invalid(field, name, message);
    }
    let name = given.map_or_else(|| format!("failurePolicyRule{i}"), str::to_owned);
    if let Some(first) = seen.get(&name) {
        let message = format!("must be unique: spec.failurePolicy.rules[{first}] also has it");
        return report.invalid(field, name, message);
    }
    seen.insert(name, i);
}

/// As in JobSet, and the hyphen that RFC 1123 has.
fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_-,:".contains(&byte);
    let last = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(inner)
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && name.bytes().last().is_some_and(last)
}

fn reasons(given: &[String], path: &str, report: &mut Findings) {
    let listed = format!("{path}.onJobFailureReasons");
    if given.len() > REASONS.len() {
        let message = format!("must have at most {} entries", REASONS.len());
        report.invalid(listed, given.len().to_string(), message);
    }
    for (i, reason) in given.iter().take(REASONS.len()).enumerate() {
        let field = format!("{path}.onJobFailureReasons[{i}]");
        if !REASONS.contains(&reason.as_str()) {
            let meant = names::did_you_mean(report.meant(reason, &REASONS));
            let message = format!("must be one of {}{meant}", REASONS.join(", "));
            report.invalid(field, reason, message);
        } else if given[..i].contains(reason) {
            report.invalid(field, reason, "must be unique in the list");
        }
    }
}

/// The patterns of all rules: how many, how long, and what they cost by their syntax, before the first is
/// compiled; then each text once.
fn patterns(rules: &[(usize, FailurePolicyRule)], report: &mut Findings) {
    let mut allowance = Allowance::default();
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for (i, rule) in rules {
        let given = &rule.on_job_failure_message_patterns;
        let field = format!("spec.failurePolicy.rules[{i}].onJobFailureMessagePatterns");
        if given.len() > PATTERNS_MAX {
            let message = format!("must have at most {PATTERNS_MAX} entries");
            report.invalid(&field, given.len().to_string(), message);
        }
        // what is over the bound is not looked at
        for (i, pattern) in given.iter().take(PATTERNS_MAX).enumerate() {
            let field = format!("{field}[{i}]");
            match allowance.admit(pattern) {
                Ok(()) => _ = texts.entry(pattern).or_insert(field),
                Err(error) => {
                    report.invalid(field, pattern, error.to_string());
                    if error.is_of_all() {
                        return;
                    }
                }
            }
        }
    }
    for (pattern, field) in texts {
        if let Err(error) = pattern::compile(pattern) {
            report.invalid(field, pattern, error.to_string());
        }
    }
}
