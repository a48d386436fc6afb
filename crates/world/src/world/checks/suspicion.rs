//! What must hold of `status.suspectNodes`, after every change.

use super::{Check, Invariant, Scope};

/// The invariants of suspect nodes.
pub const SUSPICION: &[Invariant<Check>] =
    &[("N1", "an attempt avoids at most a twentieth of the nodes as suspect, or one", are_few)];

/// The most nodes that an attempt ever avoids as suspect.
const AVOIDED_MAX: usize = 32;

fn are_few(scope: &Scope<'_>) -> Option<String> {
    let hostnames = scope.change.object.value["status"]["suspectNodes"]["hostnames"].as_array()?;
    let nodes = scope.store.kinds.by_name("v1", "Node");
    let count = nodes.map_or(0, |nodes| scope.store.all(nodes).count());
    let most = (count / 20).clamp(1, AVOIDED_MAX);
    (hostnames.len() > most).then(|| format!("{hostnames:?} of {count} nodes"))
}
