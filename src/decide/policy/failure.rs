//! Stage 4: `spec.failurePolicy`. Source: KEP-262.

use super::{Case, FailedComponent, Ruling, RulingAction, retry_limit};
use crate::api::{FailurePolicyAction, RuleRef, RuleSource};
use crate::policies::FailureRule;

/// What the rules say.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A verdict.
    Ruling(Ruling),
    /// A counted restart, named by this rule where one names it; later stages ask the limits.
    Restart(Option<RuleRef>),
}

/// Asks the rules about each component that failed, the first failure first.
#[must_use]
pub fn rule(case: &Case<'_>) -> Said {
    let rules = &case.facts.snapshot.policies.failure;
    let mut granted = None;
    for component in &case.components {
        let Some(rule) = rules.iter().find(|rule| matches(rule, component)) else { continue };
        let name = RuleRef {
            source: RuleSource::FailurePolicy,
            policy: None,
            name: Some(rule.name.clone()),
            index: Some(rule.index),
        };
        let action = match rule.action {
            FailurePolicyAction::FailAppWrapper => RulingAction::Fail,
            FailurePolicyAction::RestartAppWrapperAndIgnoreMaxRestarts => {
                RulingAction::RestartIgnoringLimit
            }
            FailurePolicyAction::RecreateComponent => {
                let action = RulingAction::RecreateComponent(component.index);
                return Said::Ruling(Ruling::limited(action, name, retry_limit::retries(case)));
            }
            FailurePolicyAction::RestartAppWrapper => {
                granted.get_or_insert(name);
                continue;
            }
        };
        return Said::Ruling(Ruling::unlimited(action, name));
    }
    Said::Restart(granted)
}

/// Whether all filters of a rule hold for a failed component; of a `JobSet`, its first failed Job tells,
/// too.
fn matches(rule: &FailureRule, component: &FailedComponent<'_>) -> bool {
    let job = component.jobs.first();
    let reason = |reason: &String| {
        reason == component.reason || job.is_some_and(|job| job.reason == *reason)
    };
    let message = |pattern: &crate::policies::LazyPattern| {
        pattern.is_match(component.message) || job.is_some_and(|job| pattern.is_match(&job.message))
    };
    rule.targets.include(Some(component.index))
        && (rule.reasons.is_empty() || rule.reasons.iter().any(reason))
        && (rule.patterns.is_empty() || rule.patterns.iter().any(message))
}
