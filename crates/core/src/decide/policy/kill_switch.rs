//! Stage 1: `globalMaxRetries: 0` allows no restart of any kind.

use super::{Case, Ruling, RulingAction};
use crate::api::{Retries, RuleRef, RuleSource};

/// Fails where the switch is thrown.
pub fn rule(case: &Case<'_>) -> Option<Ruling> {
    let used = case.facts.snapshot.status.resetting_count;
    (case.facts.config.retry_policy.global_max_retries == 0).then(|| Ruling {
        action: RulingAction::Fail,
        rule: RuleRef::plain(RuleSource::KillSwitch),
        retries: Some(Retries { used, limit: 0 }),
        by_rule: false,
        retry: None,
        evidence: None,
    })
}
