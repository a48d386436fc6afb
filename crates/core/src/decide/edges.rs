//! The edges of the table of phases, as types.
//!
//! A phase's handler is given [`At`] that phase, and only [`At::to`] makes a [`Move`], for the edges of the
//! table alone:
//!
//! ```
//! use appwrapper_core::decide::edges::{At, Move, Running, Succeeded};
//! fn done(here: At<Running>) -> Move { here.to::<Succeeded>() }
//! ```
//!
//! An edge that the table does not have does not compile:
//!
//! ```compile_fail,E0277
//! use appwrapper_core::decide::edges::{At, Move, Running, Succeeded};
//! fn undone(here: At<Succeeded>) -> Move { here.to::<Running>() }
//! ```
//!
//! ```compile_fail,E0277
//! use appwrapper_core::decide::edges::{At, Move, Suspending, Resuming};
//! fn hasty(here: At<Suspending>) -> Move { here.to::<Resuming>() }
//! ```
//!
//! Nor can a move be made without being somewhere, or from a place already left:
//!
//! ```compile_fail,E0451
//! use appwrapper_core::decide::edges::Move;
//! use appwrapper_core::api::Phase;
//! let _ = Move { to: Some(Phase::Running) };
//! ```
//!
//! ```compile_fail,E0382
//! use appwrapper_core::decide::edges::{At, Failed, Running, Succeeded};
//! fn torn(here: At<Running>) { here.to::<Succeeded>(); here.to::<Failed>(); }
//! ```
//!
//! The table also names the handler of each phase. The dispatch is made from it, and nothing else makes an
//! [`At`]: no phase can be given to another's handler.

use std::marker::PhantomData;

use super::draft::Draft;
use super::{phases, teardown};
use crate::api::Phase;

/// A phase as a type.
pub trait Place {
    /// The phase.
    const PHASE: Phase;
}

/// The AppWrapper is in the phase `P`; the only thing from which a [`Move`] can be made.
#[derive(Debug)]
pub struct At<P>(PhantomData<P>);

/// Where an AppWrapper goes, or that it stays.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Move {
    to: Option<Phase>,
}

/// The table of phases has a way from here to `To`.
#[diagnostic::on_unimplemented(message = "the state machine has no transition from {Self} to {To}")]
pub trait Edge<To: Place> {}

/// What acts in a phase on what is observed.
type Handler<P> = fn(At<P>, &mut Draft<'_>) -> Move;

macro_rules! places {
    ($($name:ident, $doc:literal, $handler:path => [$($to:ident),*];)+) => {
        $(
            #[doc = $doc]
            #[derive(Debug)]
            pub enum $name {}
            impl Place for $name { const PHASE: Phase = Phase::$name; }
            $(impl Edge<$to> for $name {})*
        )+
        /// Every edge of the table: from, to.
        pub const EDGES: &[(Phase, Phase)] = &[$($((Phase::$name, Phase::$to),)*)+];

        /// Acts on what is observed, by the handler of the phase.
        pub(super) fn observed(phase: Phase, draft: &mut Draft<'_>) -> Move {
            match phase {
                $(Phase::$name => {
                    let handler: Handler<$name> = $handler;
                    handler(At(PhantomData), draft)
                })+
            }
        }
    };
}

places! {
    Empty, "Not reconciled yet.", phases::empty => [Suspended, Resuming, Terminating];
    Suspended, "Nothing is deployed.", phases::suspended => [Resuming, Terminating];
    Resuming, "Components are being created.", phases::resuming =>
        [Running, Resetting, Failed, Suspending, Terminating];
    Running, "Components exist.", phases::running =>
        [Succeeded, Resetting, Failed, Suspending, Terminating];
    Resetting, "Deleting before the next attempt.", teardown::resetting =>
        [Resuming, Suspending, Terminating];
    Suspending, "Deleting because `suspend` is true.", teardown::suspending =>
        [Suspended, Terminating];
    Succeeded, "Done.", teardown::succeeded => [Terminating];
    Failed, "Failed for good.", teardown::failed => [Terminating];
    Terminating, "Being deleted: there is no way out but the object's end.", teardown::terminating => [];
}

/// Superstate: not being deleted.
#[derive(Debug)]
pub enum Alive {}
impl Edge<Terminating> for Alive {}

/// Superstate: holds quota.
#[derive(Debug)]
pub enum Active {}
impl Edge<Suspending> for Active {}

/// Deletion is requested; every phase but Terminating can be left for it.
pub(super) fn delete_requested(draft: &mut Draft<'_>) -> Move {
    teardown::delete_requested(At::<Alive>(PhantomData), draft)
}

/// Suspension is requested; every phase that holds quota can be left for it.
pub(super) fn suspend_requested(draft: &mut Draft<'_>) -> Move {
    teardown::suspend_requested(At::<Active>(PhantomData), draft)
}

impl<P> At<P> {
    /// Goes to another phase, along an edge of the table.
    pub fn to<To: Place>(self) -> Move
    where
        P: Edge<To>,
    {
        Move { to: Some(To::PHASE) }
    }

    /// Stays.
    pub fn stay(self) -> Move {
        Move { to: None }
    }
}

impl Move {
    /// The phase that it leads to; none where the AppWrapper stays.
    pub(super) const fn next(self) -> Option<Phase> {
        self.to
    }
}
