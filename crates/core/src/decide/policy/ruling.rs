//! What the stages say about a failure.

use std::time::Duration;

use crate::api::{Retries, RuleRef, RuleSource};
use crate::policies::MemoryGrowth;

/// What the stages say.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruling {
    /// Restart or fail.
    pub action: RulingAction,
    /// The rule that named the action.
    pub rule: RuleRef,
    /// The limit that was asked, where one was.
    pub retries: Option<Retries>,
    /// Said by a rule, so that nothing is waited for that a grace period could mend.
    pub by_rule: bool,
    /// How it is retried, where a retry policy says so.
    pub retry: Option<Retry>,
}

/// Restart or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulingAction {
    /// Restart, counted.
    Restart,
    /// Restart, not counted.
    RestartIgnoringLimit,
    /// Create the component of this index again; counted where a limit was asked.
    RecreateComponent(usize),
    /// Fail.
    Fail,
}

/// How a retry is made. Source: Armada retry policies.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// The policy whose count grows.
    pub policy: String,
    /// The rule whose count grows; "" is the policy's default action.
    pub rule: String,
    /// Delay since the failure; none where no backoff is set anywhere.
    pub delay: Option<Duration>,
    /// The node of the first cause is avoided.
    pub avoid_node: bool,
    /// Memory grows.
    pub memory: Option<MemoryGrowth>,
}

impl Ruling {
    /// A ruling that asks no limit.
    #[must_use]
    pub const fn unlimited(action: RulingAction, rule: RuleRef) -> Self {
        Self { action, rule, retries: None, by_rule: true, retry: None }
    }

    /// A counted action, or failure where no restart is left: the rule is named in both cases.
    #[must_use]
    pub fn limited(action: RulingAction, rule: RuleRef, retries: Retries) -> Self {
        if retries.used < retries.limit {
            return Self { action, rule, retries: Some(retries), by_rule: true, retry: None };
        }
        let rule = RuleRef { source: RuleSource::RetryLimit, ..rule };
        let (action, retries) = (RulingAction::Fail, Some(retries));
        Self { action, rule, retries, by_rule: false, retry: None }
    }

    /// Whether something is made again that no limit counts.
    #[must_use]
    pub const fn is_uncounted(&self) -> bool {
        match self.action {
            RulingAction::RestartIgnoringLimit => true,
            RulingAction::RecreateComponent(_) => self.retries.is_none(),
            RulingAction::Restart | RulingAction::Fail => false,
        }
    }

    /// Whether a RetryPolicy or a limit says so, what the component says of itself has no part in.
    #[must_use]
    pub const fn is_of_limits(&self) -> bool {
        match self.rule.source {
            RuleSource::RetryPolicy | RuleSource::RetryLimit => true,
            RuleSource::KillSwitch
            | RuleSource::PodFailurePolicy
            | RuleSource::ExitCodeAnnotation
            | RuleSource::FailurePolicy
            | RuleSource::UncountedLimit => false,
        }
    }

    /// One sentence that names the rule.
    #[must_use]
    pub fn sentence(&self) -> String {
        let (source, place) = (&self.rule.source, place(&self.rule));
        let left = self.retries.map(|Retries { used, limit }| format!("{used} of {limit} used"));
        let left = left.unwrap_or_default();
        match source {
            RuleSource::KillSwitch => "the configuration allows no restart of any kind".to_owned(),
            RuleSource::ExitCodeAnnotation => {
                "an annotation makes the exit code terminal".to_owned()
            }
            RuleSource::RetryLimit if self.action == RulingAction::Fail => match place.as_str() {
                "" => format!("retry limit reached ({left})"),
                place => format!("retry limit reached for {place} ({left})"),
            },
            RuleSource::RetryLimit => match place.as_str() {
                "" => format!("retry limit not reached ({left})"),
                place => format!("{place} counts the failure; retry limit not reached ({left})"),
            },
            RuleSource::UncountedLimit => match place.as_str() {
                "" => format!("limit of uncounted restarts reached ({left})"),
                place => format!("limit of uncounted restarts reached for {place} ({left})"),
            },
            RuleSource::PodFailurePolicy | RuleSource::FailurePolicy | RuleSource::RetryPolicy => {
                let what = match self.action {
                    RulingAction::Restart => "restarts the AppWrapper",
                    RulingAction::RestartIgnoringLimit => "restarts the AppWrapper, uncounted",
                    RulingAction::RecreateComponent(_) => "recreates the component",
                    RulingAction::Fail => "fails the AppWrapper",
                };
                if left.is_empty() {
                    format!("{place} {what}")
                } else {
                    format!("{place} {what} ({left})")
                }
            }
        }
    }
}

/// Where a rule stands; nothing for what is no rule of a policy.
#[must_use]
pub fn place(rule: &RuleRef) -> String {
    match (&rule.policy, &rule.name, rule.index) {
        (Some(policy), Some(name), _) => format!("rule {name} of RetryPolicy {policy}"),
        (Some(policy), None, None) => format!("the default action of RetryPolicy {policy}"),
        (Some(policy), None, Some(index)) => {
            format!(
                "rule {index} of podFailurePolicy and the default action of RetryPolicy {policy}"
            )
        }
        (None, Some(name), _) => format!("rule {name} of failurePolicy"),
        (None, None, Some(index)) => format!("rule {index} of podFailurePolicy"),
        (None, None, None) => String::new(),
    }
}
