//! RetryPolicies: which ones apply to an AppWrapper, and their rules, validated.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::budget::BudgetRules;
use super::index;
use super::unread::read_backoff;
use crate::api::{
    self, AntiAffinity, AntiAffinityMode, ExitCodeOperator, RetryAction, RetryRule as RawRule,
    keys::QUEUE_RETRY_POLICIES as RETRY_POLICIES,
};
use crate::config::{Backoff, CONDITIONS};
use crate::pattern::{Allowance, Pattern};
use crate::price::POLICY_NAMES_MAX;
use crate::quantity::Bytes;
use crate::tuning::{names, shortened};

/// The retry policies that hold for one AppWrapper. Source: Armada retry policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppliedRetryPolicies {
    /// Those that are there, in the order in which they are attached.
    pub policies: Vec<Arc<RetryPolicy>>,
    /// Names of those that a queue or the configuration attaches, and not the user alone.
    pub administered: BTreeSet<String>,
    /// Those that are attached and cannot be used.
    pub unusable: Vec<UnusablePolicy>,
    /// Policies or queues are not listed yet, so that more may hold than are known. What is deleted does not wait for
    /// them.
    pub unlisted: bool,
    /// What is left out of the lists of queues.
    pub flaws: Vec<String>,
}

/// A retry policy that is attached and cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusablePolicy {
    /// Its name.
    pub name: String,
    /// Why it cannot be read; `None` if it does not exist.
    pub flaw: Option<String>,
}

/// What is the matter with it, in a sentence.
impl fmt::Display for UnusablePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, flaw } = self;
        match flaw {
            Some(flaw) => write!(f, "RetryPolicy {name} cannot be used: {flaw}"),
            None => write!(f, "RetryPolicy {name} does not exist"),
        }
    }
}

/// A `RetryPolicy` that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Its name.
    pub name: String,
    /// How many retries each rule allows.
    pub retry_limit: Option<i32>,
    /// What is done where no rule matches.
    pub default_action: RetryAction,
    /// If the first of its rules that matches has action `Fail`, the AppWrapper fails, whatever its user wrote. Applies
    /// only if a queue or the configuration attaches the policy.
    pub overrides: bool,
    /// Delay before a retry.
    pub backoff: Option<Backoff>,
    /// `refill` and `stopWhen`.
    pub budget: BudgetRules,
    /// A retry avoids the node of the failure.
    pub avoid_node: bool,
    /// The rules, in order.
    pub rules: Vec<RetryRule>,
    /// What was left out because it cannot be understood, and why.
    pub flaws: Vec<String>,
}

/// A rule of a [`RetryPolicy`].
#[derive(Clone, Debug, PartialEq)]
pub struct RetryRule {
    /// Its name, given or by default.
    pub name: String,
    /// Its place, from 0.
    pub index: i32,
    /// What it does.
    pub action: RetryAction,
    /// The container that it looks at.
    pub container: Option<String>,
    /// It looks at init containers too.
    pub init_containers: bool,
    /// The failures that it is about.
    pub matcher: RetryMatcher,
    /// How many retries it allows.
    pub retry_limit: Option<i32>,
    /// Delay before a retry.
    pub backoff: Option<Backoff>,
    /// Whether a retry avoids the node of the failure.
    pub avoid_node: Option<bool>,
    /// Growth of memory.
    pub memory: Option<MemoryGrowth>,
}

/// The failures that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryMatcher {
    /// Any of these happened.
    Conditions(Vec<FailureCondition>),
    /// A container ended with such a code.
    ExitCodes {
        /// Whether the code must be among the values or must not.
        operator: ExitCodeOperator,
        /// The codes.
        values: BTreeSet<i32>,
    },
    /// The termination message has such a text.
    Message(Pattern),
    /// The failure is of one of these categories.
    Categories(Vec<String>),
}

/// What can happen to a pod: the names of `onConditions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureCondition {
    /// A container used more memory than it may.
    OomKilled,
    /// It was evicted from its node.
    Evicted,
    /// Its node was lost.
    NodeLost,
    /// A pod of higher priority took its place.
    Preempted,
    /// It was evicted because it exceeded its own limit of ephemeral storage.
    StorageLimitExceeded,
    /// It, or its Job, ran for too long.
    DeadlineExceeded,
    /// No node takes it.
    Unschedulable,
    /// No pod reports progress.
    Stalled,
}

/// Memory requests and limits grow with each retry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryGrowth {
    /// By how much; above 1.
    pub factor: f64,
    /// The most that a container comes to.
    pub max: Option<Bytes>,
}

/// A name that is none of [`FailureCondition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {}", CONDITIONS.join(", "))]
pub struct FailureConditionError;

impl FromStr for FailureCondition {
    type Err = FailureConditionError;

    fn from_str(text: &str) -> Result<Self, FailureConditionError> {
        Ok(match text {
            "OOMKilled" => Self::OomKilled,
            "Evicted" => Self::Evicted,
            "NodeLost" => Self::NodeLost,
            "Preempted" => Self::Preempted,
            "StorageLimitExceeded" => Self::StorageLimitExceeded,
            "DeadlineExceeded" => Self::DeadlineExceeded,
            "Unschedulable" => Self::Unschedulable,
            "Stalled" => Self::Stalled,
            _ => return Err(FailureConditionError),
        })
    }
}

impl AppliedRetryPolicies {
    /// The policies that override the user's: attached by a queue or the configuration, with `override` set.
    pub fn overriding(&self) -> impl Iterator<Item = &RetryPolicy> {
        let is_one = |policy: &&Arc<RetryPolicy>| {
            policy.overrides && self.administered.contains(&policy.name)
        };
        self.policies.iter().filter(is_one).map(AsRef::as_ref)
    }

    /// Whether a policy can make a retry avoid a node.
    #[must_use]
    pub fn may_avoid_nodes(&self) -> bool {
        let by_rule = |rule: &RetryRule| rule.avoid_node == Some(true);
        self.policies.iter().any(|policy| policy.avoid_node || policy.rules.iter().any(by_rule))
    }

    /// What was ignored because it cannot be understood or exceeds a limit.
    pub fn flaws(&self) -> impl Iterator<Item = &String> {
        self.flaws.iter().chain(self.policies.iter().flat_map(|policy| &policy.flaws))
    }

    /// Whether a rule can raise memory requests and limits.
    #[must_use]
    pub fn may_grow_memory(&self) -> bool {
        let mut rules = self.policies.iter().flat_map(|policy| &policy.rules);
        rules.any(|rule| rule.memory.is_some())
    }
}

/// The retry policy that the configuration names for where none is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultPolicy<'a> {
    /// Its name.
    pub name: &'a str,
    /// It overrides what users write: then no policy of theirs takes its place.
    pub overrides: bool,
}

/// The names of the retry policies that hold: the `ClusterQueue`'s, the `LocalQueue`'s, the
/// AppWrapper's own, each once; the default if there are none, and before the AppWrapper's own if it overrides and no
/// queue has any. Each list is cut to its limit; [`surplus`] reports the rest.
#[must_use]
pub fn attached(
    cluster_queue: Option<&str>,
    local_queue: Option<&str>,
    own: &[String],
    default: Option<DefaultPolicy<'_>>,
) -> Vec<String> {
    let listed = |text: Option<&str>| {
        let names = text.unwrap_or_default().split(',').take(POLICY_NAMES_MAX).map(str::trim);
        let given = names.filter(|name| !name.is_empty());
        // an invalid name is looked up all the same, so that it is reported as missing
        given
            .map(|name| if name.len() > NAME_MAX { shortened(name) } else { name.to_owned() })
            .collect::<Vec<_>>()
    };
    let mut given = listed(cluster_queue);
    given.extend(listed(local_queue));
    let default = default.filter(|it| given.is_empty() && (own.is_empty() || it.overrides));
    given.extend(default.map(|it| it.name.to_owned()));
    let mut names: Vec<String> = vec![];
    for name in given.into_iter().chain(own.to_vec()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Those of [`attached`] that a queue or the configuration names.
#[must_use]
pub fn administered(
    cluster_queue: Option<&str>,
    local_queue: Option<&str>,
    own: &[String],
    default: Option<DefaultPolicy<'_>>,
) -> BTreeSet<String> {
    let default = default.filter(|it| own.is_empty() || it.overrides);
    attached(cluster_queue, local_queue, &[], default).into_iter().collect()
}

/// The most rules of a policy.
const RULES_MAX: usize = 100;
/// The longest name of an object.
const NAME_MAX: usize = 253;

/// What is ignored of the annotations of queues: names beyond the limit.
#[must_use]
pub fn surplus(cluster_queue: Option<&str>, local_queue: Option<&str>) -> Vec<String> {
    let of = |(queue, text): (&str, Option<&str>)| {
        let error = names::too_many_policy_names(text?)?;
        Some(format!("annotation {RETRY_POLICIES} of the {queue}: {error}; the rest are ignored"))
    };
    [("ClusterQueue", cluster_queue), ("LocalQueue", local_queue)]
        .into_iter()
        .filter_map(of)
        .collect()
}

impl RetryPolicy {
    /// Reads a `RetryPolicy`. A rule that cannot be understood is left out, and
    /// [`flaws`](Self::flaws) names it.
    ///
    /// # Errors
    /// The path of the field of the policy itself that cannot be understood, and why.
    pub fn read(name: &str, spec: &api::RetryPolicySpec) -> Result<Self, String> {
        let backoff = read_backoff(spec.backoff.as_ref(), "spec.backoff")?;
        Ok(Self::of(name, spec, backoff, spec.rules.iter().map(|rule| Ok(rule.clone()))))
    }

    /// The same, of rules that were read each by itself.
    pub(super) fn of(
        name: &str,
        spec: &api::RetryPolicySpec,
        backoff: Option<Backoff>,
        raw_rules: impl IntoIterator<Item = Result<RawRule, String>>,
    ) -> Self {
        let (mut rules, mut flaws) = (vec![], vec![]);
        let (mut count, mut surplus) = (0, 0);
        for (i, raw) in raw_rules.into_iter().enumerate() {
            count = i + 1;
            if i >= RULES_MAX {
                surplus += 1;
                continue;
            }
            let path = format!("spec.rules[{i}]");
            let rule = |raw: &RawRule| {
                Ok::<_, String>(RetryRule {
                    name: raw.name.clone().unwrap_or_else(|| format!("rule{i}")),
                    index: index(i),
                    action: raw.action,
                    container: raw.container_name.clone(),
                    init_containers: raw.include_init_containers,
                    matcher: matcher(raw, &path)?,
                    retry_limit: raw.retry_limit.map(|limit| limit.max(0)),
                    backoff: read_backoff(raw.backoff.as_ref(), &format!("{path}.backoff"))?,
                    avoid_node: raw.anti_affinity.as_ref().map(avoids),
                    memory: memory(raw, &path)?,
                })
            };
            let read = raw.map_err(|error| format!("{path}: {error}")).and_then(|raw| rule(&raw));
            match read.and_then(|rule| with_own_count(rule, &rules, &path)) {
                Ok(rule) => rules.push(rule),
                Err(flaw) => {
                    flaws.push(format!("RetryPolicy {name}: {flaw}; the rule is ignored"));
                }
            }
        }
        if surplus > 0 {
            flaws.push(format!(
                "RetryPolicy {name}: spec.rules: must have at most {RULES_MAX} entries, but has {count}; \
                 the rest are ignored"
            ));
        }
        let path = format!("RetryPolicy {name}: spec");
        let (refill, stop_when) = (spec.refill.as_ref(), spec.stop_when.as_ref());
        let budget = BudgetRules::read(refill, stop_when, &path, &mut flaws);
        Self {
            budget,
            name: name.to_owned(),
            retry_limit: spec.retry_limit.map(|limit| limit.max(0)),
            default_action: spec.default_action.unwrap_or(RetryAction::Fail),
            overrides: spec.overrides,
            backoff,
            avoid_node: spec.anti_affinity.as_ref().is_some_and(avoids),
            rules,
            flaws,
        }
    }
}

/// A rule, unless its retries would count as those of an earlier rule, since one has the default name of the other.
fn with_own_count(rule: RetryRule, earlier: &[RetryRule], path: &str) -> Result<RetryRule, String> {
    let counts = |one: &RetryRule| one.action == RetryAction::Retry;
    let shares = |one: &RetryRule| one.name == rule.name && counts(one);
    if counts(&rule) && earlier.iter().any(shares) {
        return Err(format!("{path}.name: {:?} must be unique", shortened(&rule.name)));
    }
    Ok(rule)
}

fn avoids(anti_affinity: &AntiAffinity) -> bool {
    match anti_affinity.mode {
        AntiAffinityMode::Node => true,
        AntiAffinityMode::None => false,
    }
}

fn matcher(raw: &RawRule, path: &str) -> Result<RetryMatcher, String> {
    let mut given = vec![];
    if !raw.on_conditions.is_empty() {
        let conditions: Result<Vec<FailureCondition>, _> =
            raw.on_conditions.iter().map(|name| name.parse()).collect();
        let conditions = conditions.map_err(|error| format!("{path}.onConditions: {error}"))?;
        given.push(RetryMatcher::Conditions(conditions));
    }
    if let Some(codes) = &raw.on_exit_codes {
        let values = codes.values.iter().copied().collect();
        given.push(RetryMatcher::ExitCodes { operator: codes.operator, values });
    }
    if let Some(message) = &raw.on_termination_message {
        if let Err(error) = Allowance::default().take(&message.pattern) {
            return Err(format!("{path}.onTerminationMessage.pattern: {error}"));
        }
        given.push(RetryMatcher::Message(Pattern::unchecked(&message.pattern)));
    }
    if !raw.on_failure_category.is_empty() {
        given.push(RetryMatcher::Categories(raw.on_failure_category.clone()));
    }
    let only = given.pop().filter(|_| given.is_empty());
    only.ok_or_else(|| {
        let all = "onConditions, onExitCodes, onTerminationMessage, onFailureCategory";
        format!("{path}: must have exactly one of {all}")
    })
}

fn memory(raw: &RawRule, path: &str) -> Result<Option<MemoryGrowth>, String> {
    let Some(raw) = raw.mutate.as_ref().and_then(|mutate| mutate.memory.as_ref()) else {
        return Ok(None);
    };
    let path = format!("{path}.mutate.memory");
    if !(raw.factor.is_finite() && raw.factor > 1.0) {
        return Err(format!("{path}.factor: {} must be above 1", raw.factor));
    }
    let max = raw.max.as_deref().map(Bytes::at_least_one).transpose();
    let max = max.map_err(|error| format!("{path}.max: {error}"))?;
    Ok(Some(MemoryGrowth { factor: raw.factor, max }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_add_up_and_each_holds_once() {
        let own = ["mine".to_owned(), "infra".to_owned()];
        let default = |overrides| Some(DefaultPolicy { name: "default", overrides });
        let all = attached(Some("infra, base"), Some("team"), &own, default(true));
        assert_eq!(all, ["infra", "base", "team", "mine"]);
        assert_eq!(attached(None, Some(" , "), &[], default(false)), ["default"]);
        assert_eq!(attached(None, None, &own, default(false)), own);
        assert_eq!(attached(None, None, &own, default(true)), ["default", "mine", "infra"]);
        assert!(attached(None, None, &[], None).is_empty());
        let names = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let of = |cluster, own: &[String], default| administered(cluster, None, own, default);
        assert_eq!(of(Some("infra"), &own, default(true)), names(&["infra"]));
        assert_eq!(of(None, &own, default(false)), names(&[]));
        assert_eq!(of(None, &own, default(true)), names(&["default"]), "no user removes it");
        assert_eq!(of(None, &[], default(false)), names(&["default"]));
    }
}
