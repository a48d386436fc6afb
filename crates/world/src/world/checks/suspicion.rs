//! What must hold of `status.suspectNodes`, after every change.

use super::{Check, Invariant, Scope, Violation};
use crate::suspicion::suspects_max;

/// The invariants of suspect nodes.
pub const SUSPICION: &[Invariant<Check>] =
    &[("S1", "an attempt avoids at most a twentieth of the nodes as suspect, or one", are_few)];

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
    /// Nodes of the largest cluster here.
    const NODES_MAX: usize = 19;
    let hostnames = scope.change.object.value["status"]["suspectNodes"]["hostnames"].as_array()?;
    (hostnames.len() > suspects_max(NODES_MAX)).then(|| format!("{hostnames:?}"))
}
