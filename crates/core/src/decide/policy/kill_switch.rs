//! Stage 1: `globalMaxRetries: 0` allows no restart of any kind.

use super::{Case, Ruling};
use crate::api::{Retries, RuleRef, RuleSource};

/// Fails where the switch is thrown.
pub fn rule(case: &Case<'_>) -> Option<Ruling> {
    let retries = Some(Retries { used: case.facts.snapshot.status.resetting_count, limit: 0 });
    let failed = || Ruling::failed(RuleRef::plain(RuleSource::KillSwitch), retries, None);
    (case.facts.config.retry_policy.global_max_retries == 0).then(failed)
}
