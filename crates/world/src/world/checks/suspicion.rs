//! What must hold of `status.suspectNodes`, after every change.

use super::{Check, Invariant, Scope};
use crate::suspicion::suspects_max;

/// The invariants of suspect nodes.
pub const SUSPICION: &[Invariant<Check>] =
    &[("N1", "an attempt avoids at most a twentieth of the nodes as suspect, or one", are_few)];

fn are_few(scope: &Scope<'_>) -> Option<String> {
    let hostnames = scope.change.object.value["status"]["suspectNodes"]["hostnames"].as_array()?;
    let nodes = scope.store.kinds.by_name("v1", "Node");
    let count = nodes.map_or(0, |nodes| scope.store.all(nodes).count());
    (hostnames.len() > suspects_max(count)).then(|| format!("{hostnames:?} of {count} nodes"))
}
