//! What is said about policies that cannot be used.

use super::draft::Draft;
use crate::api::{Phase, condition};

/// Reason of events about a policy of the AppWrapper itself.
const INVALID: &str = "InvalidPolicy";
/// How many flaws are named.
const FLAWS_MAX: usize = 5;

/// Says which rules of the AppWrapper's own policies are left out; admission refuses them.
pub fn invalid_policies(draft: &mut Draft<'_>) {
    for flaw in draft.facts.snapshot.policies.flaws().into_iter().take(FLAWS_MAX) {
        draft.warn(INVALID, flaw);
    }
}

/// Says which attached retry policies cannot be used, and that they can again. The others hold.
pub fn missing_policies(draft: &mut Draft<'_>, next: Phase) {
    let missing = &draft.facts.snapshot.retry.missing;
    let concerned = match next {
        Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending => !draft.facts.snapshot.deleting,
        // the policy that is missing may be why it fails
        Phase::Failed => draft.facts.snapshot.status.phase != Phase::Failed,
        Phase::Empty | Phase::Succeeded | Phase::Terminating => false,
    };
    if !concerned {
        return;
    }
    if missing.is_empty() {
        return draft.clear(condition::POLICY_NOT_FOUND, "PolicyFound", "");
    }
    let text = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let old = condition::find(&draft.status.conditions, condition::POLICY_NOT_FOUND);
    if old.is_none_or(|old| old.status != "True" || old.message != text) {
        draft.warn(condition::POLICY_NOT_FOUND, text.clone());
    }
    let reason = condition::POLICY_NOT_FOUND;
    draft.condition(condition::POLICY_NOT_FOUND, true, reason, &text);
    let message = &mut draft.verdict.message;
    *message = if message.is_empty() { text } else { format!("{message}; {text}") };
}
