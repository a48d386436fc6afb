//! Policies as they are decided by: read from the API types, checked once, patterns compiled when asked.
//!
//! ```text
//! spec.failurePolicy, executionPolicy, podFailurePolicy ─▶ Policies   one AppWrapper's own
//! RetryPolicy objects ─▶ RetryPolicy ─▶ AppliedRetryPolicies        attached to queues and to it
//! ```
//!
//! Admission refuses what cannot be understood. Where an object came past it, a rule that cannot be
//! understood is left out, and a [`Policies::flaws`] says so; the other rules hold.

mod budget;
mod failure;
mod no_fit;
mod pod_failure;
mod progress;
mod retry;
mod steps;
mod target;
mod unread;

pub use budget::{BudgetError, BudgetRules, StopWhen, refill_after};
pub use failure::FailureRule;
pub use no_fit::{NoFitError, NoFitRule};
pub use pod_failure::{PodMatcher, PodRule};
pub use progress::{ProgressError, ProgressRules};
pub use retry::{
    AppliedRetryPolicies, DefaultPolicy, FailureCondition, MemoryGrowth, RetryMatcher, RetryPolicy,
    RetryRule, UnusablePolicy, administered, attached, surplus,
};
pub use steps::Steps;
pub use target::{PodSets, Targets};
pub use unread::Unread;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use self::target::Components;
use crate::api::AppWrapperSpec;
use crate::pattern::Allowance;

/// The policies that an AppWrapper has of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// `failurePolicy.maxRestarts`.
    pub max_restarts: Option<i32>,
    /// `failurePolicy.refill` and `failurePolicy.stopWhen`.
    pub budget: BudgetRules,
    /// `failurePolicy.rules`, in order.
    pub failure: Vec<FailureRule>,
    /// `podFailurePolicy.rules`, in order.
    pub pod_failure: Vec<PodRule>,
    /// `onNoFit`.
    pub no_fit: Option<NoFitRule>,
    /// `executionPolicy`.
    pub steps: Steps,
    /// `progress`.
    pub progress: Option<ProgressRules>,
    flaws: Vec<String>,
    pattern_errors: PatternErrors,
}

/// The rules of `failurePolicy` that cannot be asked, by index, and why: told from the syntax of their
/// patterns when a rule is first asked. It follows from the rules, so that it makes no difference.
#[derive(Clone, Debug, Default)]
struct PatternErrors(OnceLock<BTreeMap<i32, String>>);

impl PartialEq for PatternErrors {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for PatternErrors {}

/// A component as policies name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
    /// It has pod sets.
    pub has_pods: bool,
    /// Name of the part that each pod set is, where it is one that rules can name.
    pub parts: &'a [Option<String>],
}

impl Policies {
    /// Reads the policies of a spec whose components have these names.
    #[must_use]
    pub fn of(spec: &AppWrapperSpec, components: &[Named<'_>]) -> Self {
        Self::without(&Unread::default(), spec, components)
    }

    /// The same without the rules that cannot be read.
    #[must_use]
    pub fn without(unread: &Unread, spec: &AppWrapperSpec, components: &[Named<'_>]) -> Self {
        let mut flaws = vec![];
        let components = &Components::of(components);
        let failure = spec.failure_policy.as_ref();
        let rules = failure.map_or(&[][..], |policy| &policy.rules);
        let pod_rules = spec.pod_failure_policy.as_ref().map_or(&[][..], |policy| &policy.rules);
        flaws.extend(unread.ignored.iter().cloned());
        flaws.extend(steps::flaws(unread));
        let budget = BudgetRules::read(
            failure.and_then(|policy| policy.refill.as_ref()),
            failure.and_then(|policy| policy.stop_when.as_ref()),
            "spec.failurePolicy",
            &mut flaws,
        );
        Self {
            budget,
            no_fit: no_fit::read(spec.on_no_fit.as_ref(), &mut flaws),
            max_restarts: failure.and_then(|policy| policy.max_restarts).map(|most| most.max(0)),
            failure: failure::read(rules, &unread.failure, components, &mut flaws),
            pod_failure: pod_failure::read(pod_rules, &unread.pod_failure, components, &mut flaws),
            steps: Steps::of(spec.execution_policy.as_ref(), components, &mut flaws),
            progress: ProgressRules::of(spec.progress.as_ref(), &mut flaws),
            flaws,
            pattern_errors: PatternErrors::default(),
        }
    }

    /// What could not be understood, with the path of its field. Nothing is compiled for it.
    #[must_use]
    pub fn flaws(&self) -> Vec<String> {
        self.flaws.iter().chain(self.left_out().values()).cloned().collect()
    }

    /// The rules of `failurePolicy` that can be asked, in order.
    pub fn failure_rules(&self) -> impl Iterator<Item = &FailureRule> {
        let left_out = self.left_out();
        self.failure.iter().filter(|rule| !left_out.contains_key(&rule.index))
    }

    /// Rules with a pattern that cannot be understood, or that is dearer than what is left.
    fn left_out(&self) -> &BTreeMap<i32, String> {
        self.pattern_errors.0.get_or_init(|| {
            let mut allowance = Allowance::default();
            let flaw = |rule: &FailureRule| {
                let mut patterns = rule.patterns.iter().enumerate();
                patterns.find_map(|(i, pattern)| {
                    let text = pattern.as_str();
                    let error = allowance.take(text).err()?;
                    let path = format!("spec.failurePolicy.rules[{}]", rule.index);
                    Some(failure::flaw(&path, i, text, &error))
                })
            };
            let mut flaw = flaw;
            self.failure.iter().filter_map(|rule| Some((rule.index, flaw(rule)?))).collect()
        })
    }
}

/// An index as the status has it.
fn index(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}
