//! Decisions about failures, made again with the facts of each in every order.

use crate::decide::orders::{self, Told};
use crate::decide::{Decision, Facts};
use crate::observe::cache::Key;

/// What was decided about a failure, had its facts come in any order: the AppWrapper, and one verdict for each
/// order.
pub type Judged = (Key, Vec<Told>);

/// Tells the facts of a decision again, in every order.
pub fn judge(facts: Facts<'_>, decision: &Decision) -> Option<Judged> {
    if !decision.verdict.action.handles_failure() {
        return None;
    }
    let told = orders::orders(facts);
    let (namespace, name) = (facts.snapshot.namespace.clone(), facts.snapshot.name.clone());
    (!told.is_empty()).then_some((Key { namespace, name }, told))
}
