//! What the stages say about a failure.

use std::time::Duration;

use crate::api::{Retries, RuleRef, RuleSource};
use crate::policies::MemoryGrowth;

/// What the stages say.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruling {
    /// What follows.
    pub action: RulingAction,
    /// The rule that named the action.
    pub rule: RuleRef,
    /// The limit that was asked, where one was.
    pub retries: Option<Retries>,
    /// Said by a rule, so that nothing is waited for that a grace period could mend.
    pub by_rule: bool,
    /// How it is retried, where a retry policy says so.
    pub retry: Option<Retry>,
    /// What shows that a retry would be of no use, in words, where the first cause does not.
    pub evidence: Option<String>,
}

/// What follows: a restart, the recreation of one component, or failure.
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
        Self { action, rule, retries: None, by_rule: true, retry: None, evidence: None }
    }

    /// Failure that no rule asks for.
    #[must_use]
    pub const fn failed(rule: RuleRef, retries: Option<Retries>, evidence: Option<String>) -> Self {
        Self { action: RulingAction::Fail, rule, retries, by_rule: false, retry: None, evidence }
    }

    /// A counted action, or failure where no restart is left: the rule is named in both cases.
    #[must_use]
    pub fn limited(action: RulingAction, rule: RuleRef, retries: Retries) -> Self {
        if retries.used < retries.limit {
            return Self { retries: Some(retries), ..Self::unlimited(action, rule) };
        }
        let rule = RuleRef { source: RuleSource::RetryLimit, ..rule };
        Self::failed(rule, Some(retries), None)
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

    /// Whether a rule fails the AppWrapper: it does so whatever becomes of the node.
    #[must_use]
    pub const fn fails_by_rule(&self) -> bool {
        self.by_rule && matches!(self.action, RulingAction::Fail)
    }

    /// Whether a RetryPolicy or a limit says so, what the component says of itself has no part in.
    #[must_use]
    pub const fn is_of_limits(&self) -> bool {
        match self.rule.source {
            RuleSource::RetryPolicy | RuleSource::RetryLimit | RuleSource::StopWhen => true,
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
        let counted = counted_by(&self.rule).map(|rule| format!("{rule} counts the failure; "));
        format!("{}{}", counted.unwrap_or_default(), self.decision())
    }

    /// What decides, and what that does.
    fn decision(&self) -> String {
        let place = place(&self.rule);
        let for_place = if place.is_empty() { String::new() } else { format!(" for {place}") };
        let left =
            self.retries.map(|retries| format!(" ({})", used(Some(self.rule.source), retries)));
        let left = left.unwrap_or_default();
        match self.rule.source {
            RuleSource::KillSwitch => {
                "retryPolicy.globalMaxRetries is 0: no restarts are allowed".to_owned()
            }
            RuleSource::ExitCodeAnnotation => {
                let unknown = || "an annotation makes the exit code terminal".to_owned();
                self.evidence.clone().unwrap_or_else(unknown)
            }
            RuleSource::RetryLimit if self.action == RulingAction::Fail => {
                format!("retry limit reached{for_place}{left}")
            }
            RuleSource::RetryLimit => format!("retry limit not reached{for_place}{left}"),
            RuleSource::UncountedLimit => {
                format!("limit of uncounted restarts reached{for_place}{left}")
            }
            RuleSource::StopWhen => {
                let evidence = self.evidence.as_deref().unwrap_or_default();
                format!("{} fails the AppWrapper: {evidence}", stop_when(&self.rule))
            }
            RuleSource::PodFailurePolicy | RuleSource::FailurePolicy | RuleSource::RetryPolicy => {
                let what = match self.action {
                    RulingAction::Restart => "restarts the AppWrapper",
                    RulingAction::RestartIgnoringLimit => "restarts the AppWrapper, uncounted",
                    RulingAction::RecreateComponent(_) if self.is_uncounted() => {
                        "recreates the component, uncounted"
                    }
                    RulingAction::RecreateComponent(_) => "recreates the component",
                    RulingAction::Fail => "fails the AppWrapper",
                };
                let why = self.evidence.as_ref().map(|why| format!(" because of {why}"));
                format!("{place} {what}{left}{}", why.unwrap_or_default())
            }
        }
    }
}

/// Where the rule stands that decided; nothing for what is no rule of a policy.
#[must_use]
pub fn place(rule: &RuleRef) -> String {
    let which = if rule.overrides { "the overriding RetryPolicy" } else { "RetryPolicy" };
    if rule.source == RuleSource::StopWhen {
        return stop_when(rule);
    }
    match (&rule.policy, &rule.name, rule.index) {
        (Some(policy), Some(name), _) => format!("rule {name} of {which} {policy}"),
        (Some(policy), None, _) => format!("the default action of {which} {policy}"),
        (None, Some(name), _) => format!("rule {name} of failurePolicy"),
        (None, None, Some(index)) if counted_by(rule).is_none() => {
            format!("rule {index} of podFailurePolicy")
        }
        (None, None, _) => String::new(),
    }
}

/// Where the `stopWhen` stands.
fn stop_when(rule: &RuleRef) -> String {
    match &rule.policy {
        Some(policy) => format!("stopWhen of RetryPolicy {policy}"),
        None => "stopWhen of failurePolicy".to_owned(),
    }
}

/// The rule of `podFailurePolicy` whose action is `Count`, where a default action or a limit decided after it.
#[must_use]
pub fn counted_by(rule: &RuleRef) -> Option<String> {
    let follows = match rule.source {
        RuleSource::RetryPolicy | RuleSource::RetryLimit => rule.name.is_none(),
        RuleSource::KillSwitch
        | RuleSource::PodFailurePolicy
        | RuleSource::ExitCodeAnnotation
        | RuleSource::FailurePolicy
        | RuleSource::UncountedLimit
        | RuleSource::StopWhen => false,
    };
    let index = rule.index.filter(|_| follows)?;
    Some(format!("rule {index} of podFailurePolicy"))
}

/// What decided, in a few words: the rule, or the source where there is no rule.
#[must_use]
pub fn decider(rule: &RuleRef) -> String {
    let (source, place) = (rule.source, place(rule));
    let mut text = match (place.as_str(), source.is_limit()) {
        ("", _) => source.to_string(),
        (place, true) => format!("{source} for {place}"),
        (place, false) => place.to_owned(),
    };
    if let Some(counted_by) = counted_by(rule) {
        text += &format!(" ({counted_by} counts the failure)");
    }
    text
}

/// How many restarts were used before, of how many: `1 of 3 restarts used before`.
#[must_use]
pub fn used_before(source: Option<RuleSource>, retries: Retries) -> String {
    format!("{} before", used(source, retries))
}

fn used(source: Option<RuleSource>, retries: Retries) -> String {
    let is_uncounted = source == Some(RuleSource::UncountedLimit);
    let what = if is_uncounted { "uncounted restarts" } else { "restarts" };
    format!("{} of {} {what} used", retries.used, retries.limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(source: RuleSource, policy: Option<&str>, name: Option<&str>, index: i32) -> RuleRef {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let (policy, name) = (text(policy), text(name));
        RuleRef { policy, name, index: Some(index), ..RuleRef::plain(source) }
    }

    #[test]
    fn the_count_rule_is_named_beside_what_decides() {
        let retries = |used| Retries { used, limit: 3 };
        let limit = || rule(RuleSource::RetryLimit, None, None, 0);
        let counts = "rule 0 of podFailurePolicy counts the failure; ";
        for (ruling, want) in [
            (
                Ruling::limited(RulingAction::Restart, limit(), retries(1)),
                format!("{counts}retry limit not reached (1 of 3 restarts used)"),
            ),
            (
                Ruling::limited(RulingAction::Restart, limit(), retries(3)),
                format!("{counts}retry limit reached (3 of 3 restarts used)"),
            ),
            (
                Ruling::unlimited(
                    RulingAction::Fail,
                    rule(RuleSource::RetryPolicy, Some("p"), None, 0),
                ),
                format!("{counts}the default action of RetryPolicy p fails the AppWrapper"),
            ),
            (
                Ruling::limited(
                    RulingAction::Restart,
                    rule(RuleSource::RetryPolicy, Some("p"), Some("oom"), 2),
                    retries(3),
                ),
                "retry limit reached for rule oom of RetryPolicy p (3 of 3 restarts used)"
                    .to_owned(),
            ),
        ] {
            assert_eq!(ruling.sentence(), want);
        }
    }

    #[test]
    fn a_recreation_that_no_limit_counts_says_so() {
        let name = || rule(RuleSource::FailurePolicy, None, Some("f"), 0);
        let recreate = RulingAction::RecreateComponent(0);
        let uncounted = Ruling::unlimited(recreate, name()).sentence();
        assert_eq!(uncounted, "rule f of failurePolicy recreates the component, uncounted");
        let counted = Ruling::limited(recreate, name(), Retries { used: 0, limit: 3 }).sentence();
        assert_eq!(
            counted,
            "rule f of failurePolicy recreates the component (0 of 3 restarts used)"
        );
    }

    #[test]
    fn the_decider_is_a_rule_or_the_limit_of_a_rule() {
        use RuleSource::{
            FailurePolicy, PodFailurePolicy, RetryLimit, RetryPolicy, UncountedLimit,
        };
        for (rule, want) in [
            (RuleRef::plain(RetryLimit), "retryLimit"),
            (
                rule(RetryLimit, None, None, 0),
                "retryLimit (rule 0 of podFailurePolicy counts the failure)",
            ),
            (
                rule(RetryLimit, Some("p"), Some("oom"), 1),
                "retryLimit for rule oom of RetryPolicy p",
            ),
            (rule(UncountedLimit, None, None, 2), "uncountedLimit for rule 2 of podFailurePolicy"),
            (rule(PodFailurePolicy, None, None, 2), "rule 2 of podFailurePolicy"),
            (rule(FailurePolicy, None, Some("again"), 2), "rule again of failurePolicy"),
            (
                rule(RetryPolicy, Some("p"), None, 0),
                "the default action of RetryPolicy p \
                 (rule 0 of podFailurePolicy counts the failure)",
            ),
            (
                RuleRef { overrides: true, ..rule(RetryPolicy, Some("p"), Some("never"), 0) },
                "rule never of the overriding RetryPolicy p",
            ),
        ] {
            assert_eq!(decider(&rule), want);
        }
    }
}
