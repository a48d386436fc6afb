//! Stage 5: the retry policies in force. Source: Armada retry policies.

use super::failure_view::{self, FailureView};
use super::{Case, Missing, Retry, Ruling, RulingAction, category};
use crate::api::{Category, Retries, RetryAction, RuleRef, RuleSource};
use crate::mutations::{self, Mutation};
use crate::policies::{PodMatcher, RetryMatcher, RetryPolicy, RetryRule};

/// The first rule that matches decides, in the order in which the policies are attached; else the default
/// action of the first policy. Nothing is said where no policy is in force.
pub fn rule(case: &Case<'_>) -> Option<Ruling> {
    let policies = &case.facts.snapshot.retry.policies;
    let first = policies.first()?;
    let all =
        policies.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
    let mut all = all;
    let found = all.find(|(_, rule)| matches(case, rule));
    let (policy, rule) = found.map_or((first, None), |(policy, rule)| (policy, Some(rule)));
    let action = rule.map_or(policy.default_action, |rule| rule.action);
    let name = reference(case, policy, rule);
    let mut ruling = match action {
        RetryAction::Fail => Ruling::unlimited(RulingAction::Fail, name),
        RetryAction::Retry => {
            let retries = retries(case, policy, rule);
            let mut ruling = Ruling::limited(RulingAction::Restart, name, retries);
            if ruling.action == RulingAction::Restart {
                ruling.retry = Some(retry(case, policy, rule));
            }
            ruling
        }
    };
    // what no rule foresaw may still be made up for
    ruling.by_rule &= rule.is_some();
    Some(ruling)
}

/// The rule of the administrator's overriding policies that fails the AppWrapper, whatever its user wrote. The
/// first that matches decides; where it says Retry, the other stages do.
pub fn overriding(case: &Case<'_>) -> Option<Ruling> {
    if case.missing == Missing::Alone {
        return None;
    }
    let policies = case.facts.snapshot.retry.overriding();
    let mut all = policies.flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
    let (policy, rule) = all.find(|(_, rule)| matches(case, rule))?;
    match rule.action {
        RetryAction::Retry => None,
        RetryAction::Fail => {
            let name = RuleRef { overrides: true, ..reference(case, policy, Some(rule)) };
            Some(Ruling::unlimited(RulingAction::Fail, name))
        }
    }
}

/// How a rule is named; of a default action, the rule of `podFailurePolicy` that counts the failure.
fn reference(case: &Case<'_>, policy: &RetryPolicy, rule: Option<&RetryRule>) -> RuleRef {
    RuleRef {
        source: RuleSource::RetryPolicy,
        policy: Some(policy.name.clone()),
        name: rule.map(|rule| rule.name.clone()),
        index: rule.map_or_else(|| case.counted_by(), |rule| Some(rule.index)),
        overrides: false,
    }
}

fn name_of(rule: Option<&RetryRule>) -> &str {
    rule.map_or("", |rule| &rule.name)
}

/// How often a rule was used.
fn count(case: &Case<'_>, policy: &RetryPolicy, rule: Option<&RetryRule>) -> i32 {
    let counts = &case.facts.snapshot.status.retry_counts;
    let name = name_of(rule);
    let entry = counts.iter().find(|entry| entry.policy == policy.name && entry.rule == name);
    entry.map_or(0, |entry| entry.count.max(0))
}

/// The limit that has least left: the rule's or the global one; the rule's where they have the same.
fn retries(case: &Case<'_>, policy: &RetryPolicy, rule: Option<&RetryRule>) -> Retries {
    let global = case.facts.config.retry_policy.global_max_retries;
    let limit = rule.and_then(|rule| rule.retry_limit).or(policy.retry_limit).unwrap_or(global);
    let own = Retries { used: count(case, policy, rule), limit };
    let all = Retries { used: case.global_used(), limit: global };
    // what was counted already asks no limit of a rule: the restart is not counted under the rule either
    let is_unasked = case.charged || mutations::is_present(Mutation::RuleLimitUnasked);
    if is_unasked { all } else { own.nearest(all) }
}

fn retry(case: &Case<'_>, policy: &RetryPolicy, rule: Option<&RetryRule>) -> Retry {
    let backoff = rule.and_then(|rule| rule.backoff).or(policy.backoff);
    let backoff = backoff.or(case.facts.config.retry_policy.default_backoff);
    let n = count(case, policy, rule).saturating_add(1);
    Retry {
        policy: policy.name.clone(),
        rule: name_of(rule).to_owned(),
        delay: backoff.map(|backoff| backoff.delay(n).as_duration()),
        avoid_node: rule.and_then(|rule| rule.avoid_node).unwrap_or(policy.avoid_node),
        memory: rule.and_then(|rule| rule.memory),
    }
}

fn matches(case: &Case<'_>, rule: &RetryRule) -> bool {
    // another component that failed may have run for too long; this failure has not
    let mut components = case.components.iter();
    let component = components.find(|component| Some(component.index) == case.component);
    let overdue = component.is_some_and(|component| {
        failure_view::is_overdue(component.reason)
            || component.jobs.first().is_some_and(|job| failure_view::is_overdue(&job.reason))
    });
    let view = FailureView {
        pod: case.pod.filter(|_| !case.stalled),
        overdue,
        stalled: case.stalled,
        container: rule.container.as_deref(),
        init: rule.init_containers,
    };
    match &rule.matcher {
        RetryMatcher::Conditions(any) => any.iter().any(|one| view.has(*one)),
        RetryMatcher::ExitCodes { operator, values } => {
            let code = view.culprit().map_or(0, |end| end.exit_code);
            PodMatcher::takes_code(*operator, values, code)
        }
        RetryMatcher::Message(pattern) => view.messages().any(|message| pattern.is_match(message)),
        RetryMatcher::Categories(names) => {
            // judged by the first container that failed, init containers too
            let view = FailureView { init: true, ..view };
            let category = category::name(&view, &case.facts.config.failure_categories);
            // where no pod failed and the component does not tell why, there is no category
            let is_told = view.pod.is_some() || category != Category::Unknown.as_str();
            is_told && names.contains(&category)
        }
    }
}
