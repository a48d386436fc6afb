//! Deciding about a failure: stages in order, the first verdict wins. One stage a file.
//!
//! ```text
//! 1 kill_switch, overriding ─▶ 2 pod_failure ─▶ 3 exit_codes ─▶ 4 failure ─▶ 5 retry ─▶ 6 retry_limit
//!                                pods left ───────▶              granted ─────────────────▶
//! ```
//!
//! Where a counted restart comes of it, [`stop_when`] may fail the AppWrapper instead.
//!
//! The same function serves the controller, `explain` and its `--replay`, and the simulated world.

pub mod category;
mod exit_codes;
pub mod failure;
pub mod failure_view;
mod kill_switch;
pub mod pod_failure;
mod retry;
mod retry_limit;
mod ruling;
pub mod stop_when;

use std::borrow::Cow;
use std::rc::Rc;

use k8s_openapi::jiff::Timestamp;

pub use pod_failure::Judged;
pub use ruling::{Retry, Ruling, RulingAction, counted_by, decider, place, used_before};

use super::{Facts, budget};
use crate::api::{FailureRecord, Retries, RuleRef, RuleSource};
use crate::mutations::{self, Mutation};
use crate::snapshot::{FailedJob, Pod, Snapshot};

/// A failure that is to be decided about.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// Everything else that the stages look at.
    pub facts: Facts<'a>,
    /// Every pod that failed, as `podFailurePolicy` judges it.
    pub judged: Rc<Judged<'a>>,
    /// Components that failed, the first failure first; not those of which every failed pod is ignored.
    pub components: Vec<FailedComponent<'a>>,
    /// The pod of the first cause; none where no pod tells.
    pub pod: Option<&'a Pod>,
    /// Index of the component of the first cause.
    pub component: Option<usize>,
    /// What of it `podFailurePolicy` ignores.
    pub ignored: Ignored,
    /// The end of its node was counted already, when it was about another pod of this attempt.
    pub charged: bool,
    /// The rule of `podFailurePolicy` by which a pod fails the AppWrapper.
    pub fatal: Option<i32>,
    /// A component is missing or cannot be created.
    pub missing: Missing,
    /// No pod reports progress; `pod` is the one that did last, and has not failed.
    pub stalled: bool,
    /// The first cause, as it is recorded.
    pub failure: &'a FailureRecord,
    /// When it happened.
    pub failed_at: Timestamp,
}

/// What of a failure `podFailurePolicy` ignores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ignored {
    /// Nothing of what has failed for good.
    #[default]
    Nothing,
    /// Something beside what is decided about: everything is restarted for it in any case.
    Part,
    /// All of it, by the rule of this index.
    All(i32),
}

impl Ignored {
    /// By the rule that ignores the first of it; whether that is all, and whether there is any.
    #[must_use]
    pub fn of(rule: Option<i32>, is_all: bool, is_some: bool) -> Self {
        match rule.filter(|_| is_all) {
            Some(rule) => Self::All(rule),
            None if is_some && !is_all => Self::Part,
            None => Self::Nothing,
        }
    }
}

/// Whether a component is missing or cannot be created: whatever a rule recreates, everything is then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// None is.
    No,
    /// One is, and a pod of it failed.
    WithPod,
    /// One is, and no pod of it failed: no retry policy is about that.
    Alone,
}

impl Case<'_> {
    /// Counted restarts that `maxRestarts` or the retry limit limits, without the one that this very incident has
    /// used.
    #[must_use]
    pub fn used(&self) -> i32 {
        self.before(budget::used(&self.facts.snapshot.status))
    }

    /// The same of `globalMaxRetries`.
    #[must_use]
    pub fn global_used(&self) -> i32 {
        self.before(budget::global_used(&self.facts.snapshot.status))
    }

    fn before(&self, used: i32) -> i32 {
        used.saturating_sub(i32::from(self.charged))
    }

    /// The rule of `podFailurePolicy` that says `Count` of the first cause.
    #[must_use]
    pub fn counted_by(&self) -> Option<i32> {
        self.pod.and_then(|pod| self.judged.counts(pod))
    }
}

impl FailedComponent<'_> {
    /// Whether it says that it failed, or is a Pod that did, and not only lost a pod that it may replace.
    fn has_ended(&self, snapshot: &Snapshot) -> bool {
        let is_pod = || snapshot.components.get(self.index).is_some_and(|it| it.kind == "Pod");
        self.reason != NODE_LOST || is_pod()
    }
}

/// A component that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedComponent<'a> {
    /// Its index.
    pub index: usize,
    /// Reason of its Failed condition; of a wrapped Pod, its own or its container's; [`NODE_LOST`] of one that
    /// lost a pod with its node and has not said anything.
    pub reason: &'a str,
    /// Message of its Failed condition; of a wrapped Pod, its own or its container's.
    pub message: Cow<'a, str>,
    /// Pod set of the pod because of which it failed, where that is known: of an ignored pod only where all are.
    pub pod_set: Option<usize>,
    /// When it failed.
    pub at: Option<Timestamp>,
    /// Jobs of it that failed, the first failure first; not those of which every failed pod is ignored.
    pub jobs: Vec<&'a FailedJob>,
}

/// Reason of a component that lost a pod with its node.
pub const NODE_LOST: &str = "NodeLost";

/// Asks the stages in order. What was counted already is not counted again, and no limit is asked.
#[must_use]
pub fn rule(case: &Case<'_>) -> Ruling {
    let ruling = stop_when::rule(case, stages(case));
    if ruling.is_uncounted() && !case.charged {
        return within_uncounted_limit(case.facts, ruling);
    }
    let action = match ruling.action {
        RulingAction::Restart => RulingAction::RestartIgnoringLimit,
        same @ (RulingAction::RestartIgnoringLimit
        | RulingAction::RecreateComponent(_)
        | RulingAction::Fail) => same,
    };
    if case.charged && action != RulingAction::Fail {
        return Ruling { action, retries: None, ..ruling };
    }
    ruling
}

/// A ruling that no limit of its own bounds; failure where the administrator's is reached.
#[must_use]
pub fn within_uncounted_limit(facts: Facts<'_>, ruling: Ruling) -> Ruling {
    let limit = facts.config.retry_policy.max_uncounted_restarts;
    let used = facts.snapshot.status.uncounted_restarts.max(0);
    if limit == 0 || used < limit || mutations::is_present(Mutation::NoUncountedLimit) {
        return ruling;
    }
    let rule = RuleRef { source: RuleSource::UncountedLimit, ..ruling.rule };
    Ruling::failed(rule, Some(Retries { used, limit }), None)
}

fn stages(case: &Case<'_>) -> Ruling {
    if let Some(ruling) = kill_switch::rule(case).or_else(|| retry::overriding(case)) {
        return ruling;
    }
    let earlier = pod_failure::rule(case).or_else(|| exit_codes::rule(case));
    if let Some(ruling) = earlier {
        return ruling;
    }
    let granted = match failure::rule(case) {
        failure::Said::Ruling(ruling) => return ruling,
        failure::Said::Restart(granted) => granted,
    };
    let missing =
        case.missing == Missing::Alone && !mutations::is_present(Mutation::MissingIsPodFailure);
    let policies = if missing { None } else { retry::rule(case) };
    policies.unwrap_or_else(|| retry_limit::rule(case, granted))
}
