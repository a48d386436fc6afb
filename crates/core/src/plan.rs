//! Plain data: what a decision asks to be done. Carried out by `act`.

use crate::snapshot::workload::Workload;
pub use crate::snapshot::{FreshRead, Orphan};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Set our finalizer, before anything is created.
    AddFinalizer,
    /// Create the component of this index, as the running attempt.
    Create(usize),
    /// Delete the object of this component in the ordinary way, if it still has this UID.
    Delete(Target),
    /// Delete the object of this component with grace period 0, if it still has this UID.
    ForceDelete(Target),
    /// Delete this pod in the ordinary way, if it still has this UID.
    DeletePod {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// Delete this pod with grace period 0, if it still has this UID.
    ForceDeletePod {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// Delete this owner of pods in the ordinary way, if it still has this UID.
    DeleteOrphan(Orphan),
    /// Write `status.pendingMemory` into the templates, in one guarded update of the AppWrapper; with
    /// `suspend`, the same update suspends it, so that Kueue admits it again.
    GrowMemory {
        /// Whether it is suspended, too.
        suspend: bool,
    },
    /// Suspend the AppWrapper, in one guarded update: it has more pods than were admitted.
    Suspend,
    /// Activate the Workload of the AppWrapper, or deactivate it, if it still has this resource version.
    SwitchWorkload {
        /// The Workload as it was read.
        workload: Workload,
        /// What `spec.active` is to be.
        active: bool,
    },
    /// Remove our finalizer: nothing of ours exists.
    RemoveFinalizer,
}

/// The object of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Index of the component.
    pub component: usize,
    /// UID of the object.
    pub uid: String,
}

impl Action {
    /// Whether the API server carries it out whatever has become of the AppWrapper meanwhile.
    #[must_use]
    pub const fn is_unguarded(&self) -> bool {
        match self {
            Self::Create(_)
            | Self::SwitchWorkload { .. }
            | Self::Delete(_)
            | Self::ForceDelete(_)
            | Self::DeletePod { .. }
            | Self::ForceDeletePod { .. }
            | Self::DeleteOrphan(_) => true,
            Self::AddFinalizer
            | Self::GrowMemory { .. }
            | Self::Suspend
            | Self::RemoveFinalizer => false,
        }
    }

    /// Whether it deletes an object.
    #[must_use]
    pub const fn is_deletion(&self) -> bool {
        match self {
            Self::Delete(_)
            | Self::ForceDelete(_)
            | Self::DeletePod { .. }
            | Self::ForceDeletePod { .. }
            | Self::DeleteOrphan(_) => true,
            Self::AddFinalizer
            | Self::Create(_)
            | Self::GrowMemory { .. }
            | Self::Suspend
            | Self::SwitchWorkload { .. }
            | Self::RemoveFinalizer => false,
        }
    }

    /// The action's name in logs and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AddFinalizer => "add-finalizer",
            Self::Create(_) => "create",
            Self::Delete(_) => "delete",
            Self::ForceDelete(_) => "force-delete",
            Self::DeletePod { .. } => "delete-pod",
            Self::ForceDeletePod { .. } => "force-delete-pod",
            Self::DeleteOrphan(_) => "delete-orphan",
            Self::GrowMemory { .. } => "grow-memory",
            Self::Suspend => "suspend",
            Self::SwitchWorkload { active: true, .. } => "activate-workload",
            Self::SwitchWorkload { active: false, .. } => "deactivate-workload",
            Self::RemoveFinalizer => "remove-finalizer",
        }
    }
}
