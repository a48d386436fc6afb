//! What must hold of `status.suspectNodes`, after every change.

use super::{Check, Invariant, Scope, Violation};
use crate::suspicion::suspects_max;

/// The invariants of suspect nodes.
pub const SUSPICION: &[Invariant<Check>] =
    &[("N1", "an attempt avoids at most a twentieth of the nodes as suspect, or one", are_few)];

/// Checks all of them; the first that does not hold.
#[must_use]
pub fn check(scope: &Scope<'_>) -> Option<Violation> {
    if !scope.is_own() {
        return None;
    }
    SUSPICION.iter().find_map(|(invariant, sentence, check)| {
        Some(Violation { invariant, sentence, seen: check(scope)? })
    })
}

fn are_few(scope: &Scope<'_>) -> Option<String> {
    let hostnames = scope.change.object.value["status"]["suspectNodes"]["hostnames"].as_array()?;
    let nodes = scope.store.kinds.by_name("v1", "Node");
    let count = nodes.map_or(0, |nodes| scope.store.all(nodes).count());
    (hostnames.len() > suspects_max(count)).then(|| format!("{hostnames:?} of {count} nodes"))
}
