//! Deciding about a failure: stages in order, the first verdict wins. One stage a file.
//!
//! Stages 2, 4 and 5 (`podFailurePolicy`, `failurePolicy`, retry policies) are not asked yet.

pub mod category;
mod exit_codes;
mod kill_switch;
mod retry_limit;

use super::Facts;
use crate::api::{Retries, RuleRef};
use crate::snapshot::Pod;

/// A failure that is to be decided about.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// Everything else that the stages look at.
    pub facts: Facts<'a>,
    /// Every pod that failed, the first failure first.
    pub failed: Vec<&'a Pod>,
}

/// What the stages say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// Restart or fail.
    pub action: RulingAction,
    /// The rule that named the action.
    pub rule: RuleRef,
    /// The limit that was asked, where one was.
    pub retries: Option<Retries>,
    /// Said by a rule, so that no grace period is waited for where it fails.
    pub by_rule: bool,
}

/// Restart or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulingAction {
    /// Restart, counted.
    Restart,
    /// Fail.
    Fail,
}

impl Ruling {
    /// Whether it holds at once, without `FailureGracePeriod`.
    #[must_use]
    pub fn at_once(&self) -> bool {
        self.by_rule && self.action == RulingAction::Fail
    }
}

/// Asks the stages in order.
#[must_use]
pub fn rule(case: &Case<'_>) -> Ruling {
    kill_switch::rule(case)
        .or_else(|| exit_codes::rule(case))
        .unwrap_or_else(|| retry_limit::rule(case))
}
