//! What a comparison finds.

use k8s_openapi::jiff::Timestamp;

use crate::api::Phase;
use crate::decide::VerdictAction;

/// What was found about one step of the active controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// This controller would have made the same step.
    Agreed {
        /// The phase that was left.
        from: Phase,
        /// The phase that is stored now.
        to: Phase,
    },
    /// It would not.
    Differs(Difference),
    /// What the step follows from was not seen: calls failed, or it follows from the answer to a write.
    Unseen {
        /// The phase that was left.
        from: Phase,
        /// The phase that is stored now.
        to: Phase,
    },
}

named! {
    /// How the active controller did something else. Logs and metrics have its name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DifferenceKind {
        Moved: "moved", "It moved where this controller would have stayed, or would have moved much later.";
        OtherPhase: "other_phase", "It moved to another phase.";
        Stayed: "stayed", "It stays in a phase that this controller would have left.";
        Counted: "counted", "It counts a restart that this controller does not count, or the other way round.";
        Deleted: "deleted", "It deletes resources or releases quota that this controller would have kept.";
        Kept: "kept", "It keeps resources or quota that this controller would have deleted or released.";
    }
}

/// A difference between what this controller would have done and what the active controller did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// How they differ.
    pub kind: DifferenceKind,
    /// The phase that was stored before.
    pub from: Phase,
    /// The phase that this controller would have stored.
    pub expected: Phase,
    /// The phase that the active controller stored.
    pub observed: Phase,
    /// Since when this controller would have moved on.
    pub since: Option<Timestamp>,
    /// The deadline at which this controller would have decided.
    pub due: Option<Timestamp>,
    /// What this controller would have done.
    pub action: VerdictAction,
    /// Why: the reason of a condition, escaped for a log, at most 64 characters.
    pub reason: String,
    /// `resettingCount` here and as it is stored, where they differ.
    pub retries: Option<(i32, i32)>,
}
