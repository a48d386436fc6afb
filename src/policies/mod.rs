//! Policies as they are decided by: read from the API types, checked once, patterns ready to be asked.
//!
//! ```text
//! spec.failurePolicy, executionPolicy, podFailurePolicy ─▶ Policies   one AppWrapper's own
//! RetryPolicy objects ─▶ RetryPolicy ─▶ InForce                       attached to queues and to it
//! ```
//!
//! Admission refuses what cannot be understood. Where an object came past it, a rule that cannot be
//! understood is left out, and a [`Policies::flaws`] says so; the other rules hold.

mod failure;
mod pattern;
mod pod_failure;
mod quantity;
mod retry;
mod steps;
mod target;

pub use failure::FailureRule;
pub use pattern::LazyPattern;
pub use pod_failure::{PodMatcher, PodRule};
pub use quantity::{Bytes, number_and_unit};
pub use retry::{
    Happening, InForce, MemoryGrowth, Missing, RetryMatcher, RetryPolicy, RetryRule, attached,
};
pub use steps::Steps;
pub use target::Targets;

use crate::api::AppWrapperSpec;

/// The policies that an AppWrapper has of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// `failurePolicy.maxRestarts`.
    pub max_restarts: Option<i32>,
    /// `failurePolicy.rules`, in order.
    pub failure: Vec<FailureRule>,
    /// `podFailurePolicy.rules`, in order.
    pub pod_failure: Vec<PodRule>,
    /// `executionPolicy`.
    pub steps: Steps,
    flaws: Vec<String>,
}

/// A component as policies name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl Policies {
    /// Reads the policies of a spec whose components have these names.
    #[must_use]
    pub fn of(spec: &AppWrapperSpec, components: &[Named<'_>]) -> Self {
        let mut flaws = vec![];
        let failure = spec.failure_policy.as_ref();
        let rules = failure.map_or(&[][..], |policy| &policy.rules);
        let pod_rules = spec.pod_failure_policy.as_ref().map_or(&[][..], |policy| &policy.rules);
        Self {
            max_restarts: failure.and_then(|policy| policy.max_restarts).map(|most| most.max(0)),
            failure: failure::read(rules, components, &mut flaws),
            pod_failure: pod_failure::read(pod_rules, components, &mut flaws),
            steps: Steps::of(spec.execution_policy.as_ref(), components, &mut flaws),
            flaws,
        }
    }

    /// What could not be understood, with the path of its field; compiles every pattern.
    #[must_use]
    pub fn flaws(&self) -> Vec<String> {
        let patterns = self.failure.iter().flat_map(|rule| {
            let path = format!("spec.failurePolicy.rules[{}]", rule.index);
            rule.patterns.iter().enumerate().filter_map(move |(i, pattern)| {
                let error = pattern.flaw()?;
                let text = pattern.as_str();
                Some(format!("{path}.onJobFailureMessagePatterns[{i}]: {text:?} {error}"))
            })
        });
        self.flaws.iter().cloned().chain(patterns).collect()
    }

    /// Whether a rule looks at what the Jobs of a `JobSet` say.
    #[must_use]
    pub fn ask_for_jobs(&self) -> bool {
        self.failure.iter().any(|rule| !rule.reasons.is_empty() || !rule.patterns.is_empty())
    }
}

/// An index as the status has it.
fn index(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}
