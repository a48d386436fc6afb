//! Stage 4: `spec.failurePolicy`. Source: KEP-262.

use super::{Case, FailedComponent, Ruling, RulingAction, retry_limit};
use crate::api::{FailurePolicyAction, RuleRef, RuleSource};
use crate::pattern::Pattern;
use crate::policies::FailureRule;

/// The most bytes of messages that patterns are shown in one decision, of all components together.
const MESSAGES_BYTES_MAX: usize = 2 << 10;

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
    let policies = &case.facts.snapshot.policies;
    let count: usize = case.components.iter().map(|each| 1 + each.jobs.len().min(1)).sum();
    let room = MESSAGES_BYTES_MAX / count.max(1);
    let mut granted = None;
    for component in &case.components {
        let Some(rule) = policies.failure_rules().find(|rule| matches(rule, component, room))
        else {
            continue;
        };
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

/// What patterns are shown of a message: all of it, or its begin and its end. A log has what matters at
/// the end, a sentence at the begin.
fn shown(message: &str, room: usize) -> Vec<&str> {
    if message.len() <= room {
        return vec![message];
    }
    let begin = message.floor_char_boundary(room / 2);
    let end = message.ceil_char_boundary(message.len() - room / 2);
    vec![&message[..begin], &message[end..]]
}

/// Whether all filters of a rule hold for a failed component; of a `JobSet`, its first failed Job tells,
/// too.
fn matches(rule: &FailureRule, component: &FailedComponent<'_>, room: usize) -> bool {
    let job = component.jobs.first();
    let reason = |reason: &String| {
        reason == component.reason || job.is_some_and(|job| job.reason == *reason)
    };
    let found = |pattern: &Pattern, message: &str| {
        shown(message, room).iter().any(|part| pattern.is_match(part))
    };
    let message = |pattern: &Pattern| {
        found(pattern, component.message) || job.is_some_and(|job| found(pattern, &job.message))
    };
    rule.targets.include(Some(component.index))
        && (rule.reasons.is_empty() || rule.reasons.iter().any(reason))
        && (rule.patterns.is_empty() || rule.patterns.iter().any(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_shown_by_its_begin_and_its_end() {
        assert_eq!(shown("short", 10), ["short"]);
        assert_eq!(shown("0123456789x", 10), ["01234", "6789x"]);
        for room in 0..12 {
            let parts = shown("éééééé", room);
            assert!(
                parts.iter().map(|part| part.len()).sum::<usize>() <= room,
                "{room}: {parts:?}"
            );
        }
    }
}
