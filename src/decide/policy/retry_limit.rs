//! Stage 6: restart while restarts are left.

use super::{Case, Ruling, RulingAction};
use crate::api::{Retries, RuleRef, RuleSource};
use crate::bugs::{self, Bug};

/// Restarts while counted restarts are below the retry limit and the global limit, then fails.
pub fn rule(case: &Case<'_>) -> Ruling {
    let facts = case.facts;
    let used = facts.snapshot.status.resetting_count;
    let own = facts.snapshot.policies.max_restarts.unwrap_or(facts.limits.retry_limit);
    let limit = own.min(facts.config.retry_policy.global_max_retries);
    Ruling {
        action: if used < limit || bugs::is_present(Bug::NoLimit) {
            RulingAction::Restart
        } else {
            RulingAction::Fail
        },
        rule: RuleRef::plain(RuleSource::RetryLimit),
        retries: Some(Retries { used, limit }),
        by_rule: false,
    }
}
