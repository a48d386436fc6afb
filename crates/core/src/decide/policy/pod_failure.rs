//! Stage 2: `spec.podFailurePolicy`. Source: KEP-3329.

use std::collections::{BTreeMap, BTreeSet};

use super::{Case, Ignored, Ruling, RulingAction};
use crate::api::{PodFailurePolicyAction, RuleRef, RuleSource};
use crate::mutations::{self, Mutation};
use crate::policies::{PodMatcher, PodRule};
use crate::snapshot::{Pod, Snapshot};

/// Condition of a pod that is terminated for what happens to its node, or for another pod.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// What the rules say of pods that failed, each judged once.
#[derive(Clone, Debug, Default)]
pub struct Judged<'a> {
    /// The first pod that fails the AppWrapper, and the index of the rule.
    pub fatal: Option<(&'a Pod, i32)>,
    /// The first that fails it unless its node comes back in time, in the same way.
    pub fatal_if_lost: Option<(&'a Pod, i32)>,
    /// All that are a failure, the first failure first.
    pub left: Vec<&'a Pod>,
    /// Pods that are no failure, by UID and name, each with the index of the rule.
    ignored: BTreeMap<(&'a str, &'a str), i32>,
    /// Pods that a rule counts, in the same way.
    counted: BTreeMap<(&'a str, &'a str), i32>,
    /// Pods that were deleted because their component had failed, in the same way: no rule is asked about them.
    pub consequences: BTreeSet<(&'a str, &'a str)>,
}

impl Judged<'_> {
    /// The rule by which a pod is no failure.
    #[must_use]
    pub fn ignores(&self, pod: &Pod) -> Option<i32> {
        self.ignored.get(&(pod.uid.as_str(), pod.name.as_str())).copied()
    }

    /// The rule that says `Count` of a pod.
    #[must_use]
    pub fn counts(&self, pod: &Pod) -> Option<i32> {
        self.counted.get(&(pod.uid.as_str(), pod.name.as_str())).copied()
    }

    /// Whether a pod was deleted because its component had failed.
    #[must_use]
    pub fn is_consequence(&self, pod: &Pod) -> bool {
        self.consequences.contains(&(pod.uid.as_str(), pod.name.as_str()))
    }

    /// UIDs of the pods that are no failure.
    pub fn ignored(&self) -> impl Iterator<Item = &str> {
        self.ignored.keys().map(|(uid, _)| *uid)
    }
}

/// Judges pods that failed, in this order; a node may still bring some of them back.
#[must_use]
pub fn judge<'a>(
    snapshot: &Snapshot,
    failed: &[&'a Pod],
    may_come_back: impl Fn(&Pod) -> bool,
) -> Judged<'a> {
    let rules = &snapshot.policies.pod_failure;
    if rules.is_empty() {
        return Judged { left: failed.to_vec(), ..Judged::default() };
    }
    let mut judged = Judged::default();
    for pod in failed {
        let rule = rules.iter().find(|rule| matches(rule, pod));
        match rule.map(|rule| (rule.action, rule.index)) {
            Some((PodFailurePolicyAction::Ignore, index)) => {
                judged.ignored.insert((&pod.uid, &pod.name), index);
            }
            Some((PodFailurePolicyAction::FailAppWrapper, index)) => {
                let is_open = may_come_back(pod);
                let fatal = if is_open { &mut judged.fatal_if_lost } else { &mut judged.fatal };
                fatal.get_or_insert((pod, index));
                judged.left.push(pod);
            }
            Some((PodFailurePolicyAction::Count, index)) => {
                judged.counted.insert((&pod.uid, &pod.name), index);
                judged.left.push(pod);
            }
            None => judged.left.push(pod),
        }
    }
    judged
}

/// Fails where a pod says so, before anything is ignored; restarts uncounted where all is ignored.
#[must_use]
pub fn rule(case: &Case<'_>) -> Option<Ruling> {
    let rule =
        |index| RuleRef { index: Some(index), ..RuleRef::plain(RuleSource::PodFailurePolicy) };
    if let Some(index) = case.fatal.filter(|_| !mutations::is_present(Mutation::FatalIsRetried)) {
        let evidence = evidence(case, index);
        return Some(Ruling { evidence, ..Ruling::unlimited(RulingAction::Fail, rule(index)) });
    }
    let action = if mutations::is_present(Mutation::IgnoredIsCounted) {
        RulingAction::Restart
    } else {
        RulingAction::RestartIgnoringLimit
    };
    match case.ignored {
        Ignored::All(index) => Some(Ruling::unlimited(action, rule(index))),
        Ignored::Part | Ignored::Nothing => None,
    }
}

/// The pod that a rule fails the AppWrapper for, with its container and code, where the first cause is another.
fn evidence(case: &Case<'_>, index: i32) -> Option<String> {
    let judged = &case.judged;
    let (pod, _) = judged.fatal.or(judged.fatal_if_lost)?;
    let rule = case.facts.snapshot.policies.pod_failure.iter().find(|rule| rule.index == index)?;
    let found = taken(rule, pod);
    let failure = case.failure;
    let is_pod = failure.pod.as_ref() == Some(&pod.name);
    let is_named = found.as_ref().is_none_or(|(container, code)| {
        failure.container.as_ref() == Some(container) && failure.exit_code == Some(*code)
    });
    if is_pod && is_named {
        return None;
    }
    Some(match found {
        Some((container, code)) => {
            format!("exit code {code} of container {container} of pod {}", pod.name)
        }
        None => format!("pod {}", pod.name),
    })
}

/// The first container whose exit code a rule is about, and that code.
fn taken(rule: &PodRule, pod: &Pod) -> Option<(String, i32)> {
    let PodMatcher::ExitCodes { container, operator, values } = &rule.matcher else { return None };
    let mut ended = pod.terminated().filter(|(each, end)| {
        container.as_ref().is_none_or(|name| *name == each.name)
            && PodMatcher::takes_code(*operator, values, end.exit_code)
    });
    ended.next().map(|(each, end)| (each.name.clone(), end.exit_code))
}

fn matches(rule: &PodRule, pod: &Pod) -> bool {
    rule.targets.include_pod_set(pod.component, pod.pod_set)
        && match &rule.matcher {
            // app and init containers alike; 0 is no failure
            PodMatcher::ExitCodes { .. } => taken(rule, pod).is_some(),
            PodMatcher::Conditions(pairs) => pairs.iter().any(|(kind, status)| {
                if pod.lost.is_some() && kind == DISRUPTION_TARGET {
                    return status == "True"; // as Kubernetes will say itself
                }
                pod.conditions.iter().any(|c| c.kind == *kind && c.status == *status)
            }),
        }
}
