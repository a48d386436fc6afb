//! Decisions about failures, made again with the facts of each in every order.

use crate::decide::orders::{self, Told};
use crate::decide::{Decision, Facts, VerdictAction};
use crate::observe::cache::Key;

/// What was decided about a failure, had its facts come in any order: the AppWrapper, and one verdict for each
/// order.
pub type Judged = (Key, Vec<Told>);

/// Whether a decision ends an attempt, or recreates a component, because of a failure.
const fn is_about_failure(decision: &Decision) -> bool {
    match decision.verdict.action {
        VerdictAction::Restart
        | VerdictAction::RestartIgnoringLimit
        | VerdictAction::RecreateComponent
        | VerdictAction::Fail
        | VerdictAction::Hold
        | VerdictAction::Requeue => true,
        VerdictAction::None
        | VerdictAction::Wait
        | VerdictAction::Deploy
        | VerdictAction::Delete
        | VerdictAction::Succeed => false,
    }
}

/// Tells the facts of a decision again, in every order.
pub fn judge(facts: Facts<'_>, decision: &Decision) -> Option<Judged> {
    if !is_about_failure(decision) {
        return None;
    }
    let told = orders::orders(facts);
    let (namespace, name) = (facts.snapshot.namespace.clone(), facts.snapshot.name.clone());
    (!told.is_empty()).then_some((Key { namespace, name }, told))
}
