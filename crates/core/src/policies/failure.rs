use std::collections::BTreeMap;

use super::target::Components;
use super::{Targets, index};
use crate::api::{FailurePolicyAction, FailurePolicyRule};
use crate::pattern::{Allowance, Pattern, PatternError};
use crate::tuning::shortened;

/// A rule of `failurePolicy`. Source: KEP-262.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRule {
    /// Its name, given or by default.
    pub name: String,
    /// Its place, from 0.
    pub index: i32,
    /// What it does.
    pub action: FailurePolicyAction,
    /// Reasons of which one must be given; any where there is none.
    pub reasons: Vec<String>,
    /// Patterns of which one must match; any message where there is none.
    pub patterns: Vec<Pattern>,
    /// The components that it is about.
    pub targets: Targets,
}

/// What is reported about a rule with a pattern that cannot be used.
pub(super) fn flaw(path: &str, at: usize, text: &str, error: &PatternError) -> String {
    let text = shortened(text);
    format!("{path}.onJobFailureMessagePatterns[{at}]: {text:?} {error}; the rule is ignored")
}

/// Reads the rules. A rule that names a missing component is ignored, and so is one whose patterns exceed
/// what an object may have.
pub(super) fn read(
    rules: &[FailurePolicyRule],
    unread: &BTreeMap<usize, String>,
    components: &Components<'_>,
    flaws: &mut Vec<String>,
) -> Vec<FailureRule> {
    let mut read = vec![];
    let mut allowance = Allowance::default();
    for (i, rule) in rules.iter().enumerate() {
        if let Some(error) = unread.get(&i) {
            flaws.push(format!("spec.failurePolicy.rules[{i}]: {error}; the rule is ignored"));
            continue;
        }
        // a component is recreated as a whole
        let parts = !rule.action.recreates_component();
        let targets = match components.resolve(&rule.target_components, parts) {
            Ok(targets) => targets,
            Err(at) => {
                let name = shortened(&rule.target_components[at]);
                flaws.push(format!(
                    "spec.failurePolicy.rules[{i}].targetComponents[{at}]: {name:?} must be the \
                     name of one component{}; the rule is ignored",
                    if parts { " or of a part of one" } else { "" }
                ));
                continue;
            }
        };
        let texts = &rule.on_job_failure_message_patterns;
        let surplus = texts.iter().enumerate().find_map(|(at, text)| {
            let error = allowance.count(text).err()?;
            Some(flaw(&format!("spec.failurePolicy.rules[{i}]"), at, text, &error))
        });
        if let Some(surplus) = surplus {
            flaws.push(surplus);
            continue;
        }
        let default = || format!("failurePolicyRule{i}");
        read.push(FailureRule {
            name: rule.name.clone().unwrap_or_else(default),
            index: index(i),
            action: rule.action,
            reasons: rule.on_job_failure_reasons.clone(),
            patterns: texts.iter().map(|text| Pattern::unchecked(text)).collect(),
            targets,
        });
    }
    read
}
