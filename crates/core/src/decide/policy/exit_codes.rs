//! Stage 3: the annotations `terminalExitCodes` and `retryableExitCodes`.

use super::{Case, Ruling, RulingAction};
use crate::api::{RuleRef, RuleSource};
use crate::snapshot::Pod;

/// Fails where a code is terminal, or where codes are named that may be retried and it is not one.
pub fn rule(case: &Case<'_>) -> Option<Ruling> {
    let limits = case.facts.limits;
    let retryable = &limits.retryable_exit_codes;
    let fails = case.judged.left.iter().flat_map(|pod| codes(pod)).any(|code| {
        limits.terminal_exit_codes.contains(&code)
            || (!retryable.is_empty() && !retryable.contains(&code))
    });
    let rule = || RuleRef::plain(RuleSource::ExitCodeAnnotation);
    fails.then(|| Ruling::unlimited(RulingAction::Fail, rule()))
}

/// The codes other than 0 with which its app containers ended.
fn codes(pod: &Pod) -> impl Iterator<Item = i32> {
    pod.terminated()
        .filter(|(container, end)| !container.init && end.exit_code != 0)
        .map(|(_, end)| end.exit_code)
}
