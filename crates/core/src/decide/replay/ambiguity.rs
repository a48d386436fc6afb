//! What a record cannot tell: rules that ask for more than it holds.
//!
//! Such a rule is judged both ways, by leaving it out and by making it match whatever there is. Only where
//! that changes the verdict is it worth a word.

use std::sync::Arc;

use super::record::{Disruption, Evidence, RecordedFailure};
use crate::api::{Attempt, Category, RuleRef, RuleSource};
use crate::config::Config;
use crate::decide::policy::category;
use crate::decide::policy::failure_view::FailureView;
use crate::decide::policy::place;
use crate::policies::{
    FailureCondition, FailureRule, PodMatcher, PodRule, RetryMatcher, RetryPolicy, RetryRule,
    Targets,
};
use crate::snapshot::{Component, Snapshot};
use crate::tuning::Limits;

/// A message of this many bytes was probably longer.
const CUT_BYTES: usize = 1020;
/// Why a rule about parts of a component cannot be told.
const NO_PART: &str = "the record does not contain the part that failed";

/// What a failure is judged by.
#[derive(Clone, Debug)]
pub struct ReplayInputs {
    /// The policies and the counts.
    pub snapshot: Snapshot,
    /// The annotations.
    pub limits: Limits,
}

/// A rule of which the record cannot tell whether it matches.
#[derive(Clone, Debug)]
pub struct Doubt {
    /// The rule; its source is the stage.
    pub rule: RuleRef,
    /// Why it cannot be told.
    pub why: Why,
    /// How it is judged.
    pub matches: bool,
    /// Because a rule of that name decided then.
    pub decided: bool,
}

/// Why a rule cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Another container of the pod could match.
    OtherContainers,
    /// It asks for what is recorded of another container, or in another way; in these words.
    Elsewhere(String),
    /// It asks for what is not recorded at all, in these words: it may be that very rule which decided.
    Unrecorded(String),
}

/// The rules of which a record cannot tell whether they match.
pub fn doubts(
    evidence: &Evidence<'_>,
    attempt: &Attempt,
    inputs: &ReplayInputs,
    config: &Config,
) -> Vec<Doubt> {
    let policies = &inputs.snapshot.policies;
    let mut all = vec![];
    if evidence.happened == RecordedFailure::PodFailed {
        let rules = policies.pod_failure.iter();
        all.extend(rules.filter_map(|rule| of_pod_rule(rule, evidence)));
        all.extend(of_exit_codes(evidence, &inputs.limits));
    }
    if let Some(component) = evidence.component(&inputs.snapshot) {
        let rules = policies.failure_rules();
        all.extend(rules.filter_map(|rule| of_failure_rule(rule, evidence, component)));
    }
    for policy in &inputs.snapshot.retry.policies {
        let rules = policy.rules.iter();
        all.extend(rules.filter_map(|rule| of_retry_rule(policy, rule, evidence, config)));
    }
    for doubt in &mut all {
        let named = attempt.rule.as_ref().is_some_and(|rule| doubt.is_named_by(rule));
        doubt.decided = named && matches!(doubt.why, Why::Unrecorded(_));
        doubt.matches |= doubt.decided;
    }
    all
}

impl Doubt {
    /// Judged as not matching.
    const fn new(rule: RuleRef, why: Why) -> Self {
        Self { rule, why, matches: false, decided: false }
    }

    /// Whether a recorded rule is this one, as far as its name tells.
    fn is_named_by(&self, recorded: &RuleRef) -> bool {
        let RuleRef { source, policy, name, index, overrides: _ } = &self.rule;
        let same = recorded.policy == *policy
            && recorded.name == *name
            && (name.is_some() || recorded.index == *index);
        // where no restart is left, the stage is that of the limit
        same && *source != RuleSource::ExitCodeAnnotation
            && (recorded.source == *source || recorded.source == RuleSource::RetryLimit)
    }

    /// Makes the rule match, or leaves it out.
    pub fn settle(
        &self,
        matches: bool,
        inputs: &mut ReplayInputs,
        evidence: &Evidence<'_>,
        config: &Config,
    ) {
        let is_it = |index: i32| self.rule.index == Some(index);
        match self.rule.source {
            RuleSource::PodFailurePolicy => {
                let rules = &mut Arc::make_mut(&mut inputs.snapshot.policies).pod_failure;
                rules.retain(|rule| matches || !is_it(rule.index));
                for rule in rules.iter_mut().filter(|rule| is_it(rule.index)) {
                    // the condition that every pod of a record has
                    rule.matcher = PodMatcher::Conditions(vec![(String::new(), String::new())]);
                    rule.targets = Targets::All;
                }
            }
            RuleSource::FailurePolicy => {
                let rules = &mut Arc::make_mut(&mut inputs.snapshot.policies).failure;
                rules.retain(|rule| matches || !is_it(rule.index));
                for rule in rules.iter_mut().filter(|rule| is_it(rule.index)) {
                    rule.reasons.clear();
                    rule.patterns.clear();
                    rule.targets = Targets::All;
                }
            }
            RuleSource::ExitCodeAnnotation if matches => {
                inputs.limits.terminal_exit_codes.extend(evidence.record.exit_code);
            }
            RuleSource::RetryPolicy => {
                let named = |policy: &&mut Arc<RetryPolicy>| {
                    self.rule.policy.as_ref() == Some(&policy.name)
                };
                for policy in inputs.snapshot.retry.policies.iter_mut().filter(named) {
                    let rules = &mut Arc::make_mut(policy).rules;
                    rules.retain(|rule| matches || !is_it(rule.index));
                    for rule in rules.iter_mut().filter(|rule| is_it(rule.index)) {
                        rule.matcher = RetryMatcher::Categories(categories(evidence, config));
                        rule.container = None;
                    }
                }
            }
            RuleSource::ExitCodeAnnotation
            | RuleSource::KillSwitch
            | RuleSource::RetryLimit
            | RuleSource::UncountedLimit
            | RuleSource::StopWhen => {}
        }
    }

    /// One sentence: what cannot be told, how it is judged, and what would be decided otherwise.
    pub fn sentence(&self, otherwise: &str) -> String {
        let what = match self.rule.source {
            RuleSource::ExitCodeAnnotation => "the exit code annotation".to_owned(),
            RuleSource::PodFailurePolicy
            | RuleSource::FailurePolicy
            | RuleSource::RetryPolicy
            | RuleSource::KillSwitch
            | RuleSource::UncountedLimit
            | RuleSource::StopWhen
            | RuleSource::RetryLimit => place(&self.rule),
        };
        let why = match &self.why {
            Why::OtherContainers => "the record contains no other container",
            Why::Elsewhere(why) | Why::Unrecorded(why) => why,
        };
        let judged = match (self.matches, self.decided) {
            (true, true) => "matching, because a rule of that name was applied",
            (true, false) => "matching",
            (false, _) => "not matching",
        };
        format!("{what} cannot be evaluated ({why}): assumed {judged}; otherwise {otherwise}")
    }
}

/// The category of the failure, whether or not its component says that it ran for too long.
fn categories(evidence: &Evidence<'_>, config: &Config) -> Vec<String> {
    let pod = evidence.pod.iter();
    pod.flat_map(|pod| {
        [false, true].map(|overdue| {
            category::name(
                &FailureView { overdue, ..FailureView::at(pod) },
                &config.failure_categories,
            )
        })
    })
    .collect()
}

fn of_pod_rule(rule: &PodRule, evidence: &Evidence<'_>) -> Option<Doubt> {
    if !rule.targets.include(evidence.component) {
        return None;
    }
    let name = RuleRef { index: Some(rule.index), ..RuleRef::plain(RuleSource::PodFailurePolicy) };
    let of_part = rule.targets.is_of_part(evidence.component);
    let fitting = |name| of_part.then(|| Doubt::new(name, Why::Unrecorded(NO_PART.to_owned())));
    match &rule.matcher {
        PodMatcher::ExitCodes { container, operator, values } => {
            // without a code, no container failed
            let code = evidence.record.exit_code?;
            let fits = PodMatcher::takes_code(*operator, values, code);
            match container {
                None if fits => fitting(name),
                None => Some(Doubt::new(name, Why::OtherContainers)),
                Some(container) => match other_container(evidence, container) {
                    Some(why) => Some(Doubt::new(name, why)),
                    None if fits => fitting(name),
                    None => None,
                },
            }
        }
        PodMatcher::Conditions(pairs) => {
            let target =
                |(kind, status): &&(String, String)| kind == "DisruptionTarget" && status == "True";
            let asks = pairs.iter().any(|pair| target(&pair));
            let others = pairs.iter().any(|pair| !target(&pair));
            let why = "the record does not contain the conditions of the pod".to_owned();
            let doubt = Doubt::new(name, Why::Unrecorded(why));
            match evidence.disruption {
                Disruption::Yes if asks => fitting(doubt.rule),
                Disruption::Likely if asks => Some(Doubt { matches: true, ..doubt }),
                Disruption::Unlikely if asks => Some(doubt),
                Disruption::Yes | Disruption::Likely | Disruption::Unlikely | Disruption::No => {
                    others.then_some(doubt)
                }
            }
        }
    }
}

/// The annotations are about every app container.
fn of_exit_codes(evidence: &Evidence<'_>, limits: &Limits) -> Option<Doubt> {
    let code = evidence.record.exit_code?;
    let retryable = &limits.retryable_exit_codes;
    let fatal = limits.terminal_exit_codes.contains(&code)
        || (!retryable.is_empty() && !retryable.contains(&code));
    let any = !limits.terminal_exit_codes.is_empty() || !retryable.is_empty();
    let rule = RuleRef::plain(RuleSource::ExitCodeAnnotation);
    (any && !fatal).then(|| Doubt::new(rule, Why::OtherContainers))
}

fn of_failure_rule(
    rule: &FailureRule,
    evidence: &Evidence<'_>,
    component: &Component,
) -> Option<Doubt> {
    let filters = !rule.reasons.is_empty() || !rule.patterns.is_empty();
    let of_part = rule.targets.is_of_part(evidence.component);
    if !filters && !of_part || !rule.targets.include(evidence.component) {
        return None;
    }
    let title = component.title();
    let why = match evidence.happened {
        RecordedFailure::PodFailed if component.kind == "Pod" => return None,
        RecordedFailure::PodFailed if filters => {
            format!("the record contains the message of the pod, not why {title} failed")
        }
        RecordedFailure::PodFailed => NO_PART.to_owned(),
        RecordedFailure::ComponentFailed => {
            let (reason, message) = evidence.said();
            let missed = !rule.reasons.is_empty() && !rule.reasons.iter().any(|one| one == reason);
            let unmatched = !rule.patterns.is_empty()
                && !rule.patterns.iter().any(|pattern| pattern.is_match(message));
            match component.kind.as_str() {
                "JobSet" if missed || unmatched => {
                    format!("the record does not show why the first failed Job of {title} failed")
                }
                _ if unmatched && !missed => cut(message)?,
                _ if of_part && !missed => NO_PART.to_owned(),
                _ => return None,
            }
        }
        RecordedFailure::PodWaits
        | RecordedFailure::ComponentLacks
        | RecordedFailure::NodeMarked
        | RecordedFailure::Stalled
        | RecordedFailure::Hopeless => return None,
    };
    let name = RuleRef {
        name: Some(rule.name.clone()),
        index: Some(rule.index),
        ..RuleRef::plain(RuleSource::FailurePolicy)
    };
    Some(Doubt::new(name, Why::Unrecorded(why)))
}

fn of_retry_rule(
    policy: &RetryPolicy,
    rule: &RetryRule,
    evidence: &Evidence<'_>,
    config: &Config,
) -> Option<Doubt> {
    let pod = evidence.pod.as_ref()?;
    let look = FailureView {
        container: rule.container.as_deref(),
        init: rule.init_containers,
        ..FailureView::at(pod)
    };
    let elsewhere = || rule.container.as_deref().and_then(|name| other_container(evidence, name));
    let others = || {
        let unnamed = rule.container.is_none() && evidence.has_code();
        elsewhere().or_else(|| unnamed.then_some(Why::OtherContainers))
    };
    let mut matches = false;
    let why = match &rule.matcher {
        RetryMatcher::ExitCodes { .. } => elsewhere(),
        RetryMatcher::Message(pattern) => {
            let message = evidence.said().1;
            let missed = !look.messages().any(|message| pattern.is_match(message));
            let why = || cut(message).map(Why::Unrecorded).or_else(others);
            if missed { elsewhere().or_else(why) } else { None }
        }
        RetryMatcher::Conditions(any) if any.iter().any(|one| look.has(*one)) => None,
        RetryMatcher::Conditions(any) => {
            let of_pod = any.iter().any(|one| *one != FailureCondition::OomKilled);
            let of_container = any.contains(&FailureCondition::OomKilled);
            hidden(evidence)
                .filter(|_| of_pod)
                .or_else(|| if of_container { others() } else { None })
        }
        RetryMatcher::Categories(names) => {
            let now =
                category::name(&FailureView { init: true, ..look }, &config.failure_categories);
            let then = evidence.record.category.clone().unwrap_or_else(|| now.clone());
            let (fits, fitted) = (names.contains(&now), names.contains(&then));
            let known = |name: &str| config.failure_categories.iter().any(|one| one.name == name);
            // what makes a category of its own may not be in the record
            matches = if known(&then) && !known(&now) { fitted } else { fits };
            let words = format!("recorded as {then}, but {now} by the rest of the record");
            elsewhere().or_else(|| (fits != fitted).then_some(Why::Elsewhere(words)))
        }
    };
    let name = RuleRef {
        policy: Some(policy.name.clone()),
        name: Some(rule.name.clone()),
        index: Some(rule.index),
        ..RuleRef::plain(RuleSource::RetryPolicy)
    };
    why.map(|why| Doubt { matches, ..Doubt::new(name, why) })
}

/// The rule is about another container than the one that is recorded.
fn other_container(evidence: &Evidence<'_>, name: &str) -> Option<Why> {
    let recorded = evidence.container();
    (evidence.has_code() && recorded != name)
        .then(|| Why::Elsewhere(format!("the record contains container {recorded}, not {name}")))
}

/// The category may hide what else happened to the pod.
fn hidden(evidence: &Evidence<'_>) -> Option<Why> {
    let hides = evidence.has_code() && matches!(evidence.built_in, None | Some(Category::Oom));
    let category = evidence.record.category.as_deref().unwrap_or("none");
    let words = format!("the recorded category, {category}, does not show what else happened");
    hides.then_some(Why::Unrecorded(words))
}

fn cut(message: &str) -> Option<String> {
    (message.len() >= CUT_BYTES).then(|| "the recorded message is truncated to 1 KiB".to_owned())
}
