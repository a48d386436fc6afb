//! Stage 6: restart while restarts are left.

use super::{Case, Ruling, RulingAction};
use crate::api::{Retries, RuleRef, RuleSource};
use crate::mutations::{self, Mutation};

/// Restarts while counted restarts are below the retry limit and the global limit, then fails.
/// `granted` is the rule that asked for the restart, where one did.
pub fn rule(case: &Case<'_>, granted: Option<RuleRef>) -> Ruling {
    let plain = || RuleRef { index: case.counted_by(), ..RuleRef::plain(RuleSource::RetryLimit) };
    let rule = granted.unwrap_or_else(plain);
    let mut ruling = Ruling::limited(RulingAction::Restart, rule, retries(case));
    if mutations::is_present(Mutation::NoLimit) {
        ruling.action = RulingAction::Restart;
    }
    // a limit is no rule: what may be made up for is waited for
    ruling.by_rule = false;
    ruling
}

/// The limit that has least left: `failurePolicy.maxRestarts`, or else the retry limit, or the global one.
pub fn retries(case: &Case<'_>) -> Retries {
    let facts = case.facts;
    let limit = facts.snapshot.policies.max_restarts.unwrap_or(facts.limits.retry_limit);
    let own = Retries { used: case.used(), limit };
    let global = facts.config.retry_policy.global_max_retries;
    own.nearest(Retries { used: case.global_used(), limit: global })
}
