//! Suspect nodes: which nodes make AppWrappers fail, by the first causes of attempts that failed on them.
//!
//! ```text
//! a failure is decided ─▶ Testimony ─▶ Suspicions ─┬─▶ a Record for each node: bounded evidence
//!                                                  └─▶ evidence of the same rank elsewhere is withdrawn
//! Record, now, configuration ─▶ score ─▶ suspects: at most 5 % of the nodes, or one
//! ```
//!
//! A record is a set of evidence with bounds. To add, to withdraw and to merge may happen in any order, and any number
//! of times. The score follows from the set and the time alone.

mod record;
mod score;
mod suspects;
mod testimony;
#[cfg(test)]
mod tests;

pub use record::Record;
pub use score::{is_suspect, score};
pub use suspects::{Known, Suspect, reaching, room, suspects, suspects_max};
pub use testimony::{Suspicions, Testimony, rank};

use crate::api::EvidenceKind;
use crate::config::THRESHOLD_MIN;

/// The most evidence of a node.
pub const EVIDENCE_MAX: usize = 16;
/// The most evidence that AppWrappers of one namespace give about a node.
pub const OF_NAMESPACE_MAX: usize = 4;
/// After so many half-lives, evidence expires: it has a thirty-second of its points.
pub const HALF_LIVES_KEPT: u32 = 5;
/// Nodes that are lost within this time are lost once: several AppWrappers tell of the same loss.
pub const INCIDENT_SECONDS: i64 = 60;

/// Points of evidence when it is new.
pub const NODE_LOST_POINTS: i32 = 50;
const HARDWARE_POINTS: i32 = 50;
const CONTAINER_POINTS: i32 = 20;

const _: () = assert!(NODE_LOST_POINTS < THRESHOLD_MIN && HARDWARE_POINTS < THRESHOLD_MIN);

/// Points of new evidence.
#[must_use]
pub const fn points(kind: EvidenceKind) -> i32 {
    match kind {
        EvidenceKind::NodeLost => NODE_LOST_POINTS,
        EvidenceKind::Hardware => HARDWARE_POINTS,
        EvidenceKind::Container => CONTAINER_POINTS,
    }
}
