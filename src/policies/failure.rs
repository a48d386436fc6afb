use super::{LazyPattern, Named, Targets, index, target};
use crate::api::{FailurePolicyAction, FailurePolicyRule};

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
    pub patterns: Vec<LazyPattern>,
    /// The components that it is about.
    pub targets: Targets,
}

/// Reads the rules; one that names a component which is not there is left out.
pub(super) fn read(
    rules: &[FailurePolicyRule],
    components: &[Named<'_>],
    flaws: &mut Vec<String>,
) -> Vec<FailureRule> {
    let mut read = vec![];
    for (i, rule) in rules.iter().enumerate() {
        let targets = match target::resolve(&rule.target_components, components) {
            Ok(targets) => targets,
            Err(at) => {
                let name = &rule.target_components[at];
                flaws.push(format!(
                    "spec.failurePolicy.rules[{i}].targetComponents[{at}]: {name:?} must be the \
                     name of one component; the rule is left out"
                ));
                continue;
            }
        };
        let default = || format!("failurePolicyRule{i}");
        read.push(FailureRule {
            name: rule.name.clone().unwrap_or_else(default),
            index: index(i),
            action: rule.action,
            reasons: rule.on_job_failure_reasons.clone(),
            patterns: rule
                .on_job_failure_message_patterns
                .iter()
                .cloned()
                .map(LazyPattern::new)
                .collect(),
            targets,
        });
    }
    read
}
