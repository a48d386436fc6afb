//! What somebody does.

use serde_json::Value;

use super::HOSTILE;
use crate::sim::Propagation;
use crate::world::faults::Fault;

/// What somebody does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Creates an object, again and again until its name is free.
    Create(Box<Value>),
    /// Sets `suspend`.
    Suspend(String, bool),
    /// Deletes an AppWrapper.
    Delete(String, Option<Propagation>),
    /// Changes an annotation of ours.
    Annotate(String, &'static str, String),
    /// Sets the annotation `active`.
    Activate(String, bool),
    /// Deletes a component of an AppWrapper.
    DeleteComponent(String),
    /// Takes our label from a component.
    Unlabel(String),
    /// Deletes a pod of an AppWrapper.
    DeletePod(String),
    /// Holds something of an AppWrapper with a finalizer, for a while.
    Hold(String),
    /// Kueue makes an AppWrapper go.
    Preempt(String),
    /// A pod that wears an AppWrapper's labels and is not its.
    Impostor(String),
    /// A node stops to answer, or answers again.
    Node(String, bool),
    /// A node is shut down, and an administrator says so; or it is back, and so is its name.
    OutOfService(String, bool),
    /// A node is deleted; another of its name comes later.
    DeleteNode(String),
    /// A node is marked `NoExecute`.
    Mark(String, bool),
    /// A kind is served or not.
    Serve(&'static str, &'static str, bool),
    /// The namespace takes nothing new, or does again.
    Close(bool),
    /// An administrator changes or makes a retry policy of this name and `spec`, or deletes it.
    Policy(String, Option<Box<Value>>),
    /// An administrator changes `globalMaxRetries`.
    Configure(i32),
}

impl Act {
    /// The kind of fault that it is, where nothing else counts it.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Suspend(..)
            | Self::Delete(..)
            | Self::Annotate(..)
            | Self::Activate(..)
            | Self::DeleteComponent(_)
            | Self::Unlabel(_)
            | Self::DeletePod(_)
            | Self::Policy(..)
            | Self::Configure(_) => Some(Fault::User),
            Self::Node(_, false) | Self::OutOfService(_, true) | Self::Mark(_, true) => {
                Some(Fault::Node)
            }
            Self::Close(true) => Some(Fault::Namespace),
            Self::Create(object) if object["metadata"]["labels"][HOSTILE] == "true" => {
                Some(Fault::Poison)
            }
            Self::Create(_)
            | Self::Hold(_)
            | Self::Preempt(_)
            | Self::Impostor(_)
            | Self::Node(_, true)
            | Self::OutOfService(_, false)
            | Self::DeleteNode(_)
            | Self::Mark(_, false)
            | Self::Serve(..)
            | Self::Close(false) => None,
        }
    }

    /// Whether nobody does it any more once everything is healed.
    #[must_use]
    pub const fn does_harm(&self) -> bool {
        match self {
            Self::Create(_)
            | Self::Node(_, true)
            | Self::OutOfService(_, false)
            | Self::Mark(_, false)
            | Self::Serve(_, _, true)
            | Self::Close(false) => false,
            Self::Suspend(..)
            | Self::Delete(..)
            | Self::Annotate(..)
            | Self::Activate(..)
            | Self::DeleteComponent(_)
            | Self::Unlabel(_)
            | Self::DeletePod(_)
            | Self::Hold(_)
            | Self::Preempt(_)
            | Self::Impostor(_)
            | Self::Node(_, false)
            | Self::OutOfService(_, true)
            | Self::DeleteNode(_)
            | Self::Mark(_, true)
            | Self::Serve(_, _, false)
            | Self::Close(true)
            | Self::Policy(..)
            | Self::Configure(_) => true,
        }
    }
}

impl std::fmt::Display for Act {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Create(object) => write!(f, "create {object}"),
            other => write!(f, "{other:?}"),
        }
    }
}
