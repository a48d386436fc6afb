//! The state machine: the CRD's own [`Phase`] under statig, with its traits implemented by hand.
//!
//! A persisted phase goes in, an outcome comes out; nothing is replayed, and there are no entry or
//! exit actions. Requests (deletion, suspension) are events of their own, so that no phase can
//! shadow them:
//!
//! ```text
//! Alive ── Requested(Delete) → Terminating
//! ├─ Empty, Suspended, Suspending, Succeeded, Failed
//! └─ Active ── Requested(Suspend) → Suspending
//!    └─ Resuming, Running, Resetting
//! Terminating
//! ```
//!
//! The edges are types. A phase's handler is given [`At`] that phase, and only [`At::to`] makes a
//! [`Move`], for the edges of the table alone:
//!
//! ```
//! use appwrapper_core::decide::machine::{At, Running, Succeeded};
//! fn done(here: At<Running>) -> appwrapper_core::decide::machine::Move { here.to::<Succeeded>() }
//! ```
//!
//! An edge that the table does not have does not compile:
//!
//! ```compile_fail,E0277
//! use appwrapper_core::decide::machine::{At, Running, Succeeded};
//! fn undone(here: At<Succeeded>) -> appwrapper_core::decide::machine::Move { here.to::<Running>() }
//! ```
//!
//! ```compile_fail,E0277
//! use appwrapper_core::decide::machine::{At, Suspending, Resuming};
//! fn hasty(here: At<Suspending>) -> appwrapper_core::decide::machine::Move { here.to::<Resuming>() }
//! ```
//!
//! Nor can a move be made without being somewhere, or from a place already left:
//!
//! ```compile_fail,E0451
//! use appwrapper_core::decide::machine::Move;
//! use appwrapper_core::api::Phase;
//! let _ = Move { to: Some(Phase::Running) };
//! ```
//!
//! ```compile_fail,E0382
//! use appwrapper_core::decide::machine::{At, Failed, Running, Succeeded};
//! fn torn(here: At<Running>) { here.to::<Succeeded>(); here.to::<Failed>(); }
//! ```

use std::marker::PhantomData;

use statig::Outcome;
use statig::blocking::{IntoStateMachine, State, StateExt, Superstate};

use super::draft::Draft;
use super::{phases, teardown};
use crate::api::Phase;
use crate::mutations::{self, Mutation};

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

/// Superstate: not being deleted.
#[derive(Debug)]
pub enum Alive {}
impl Edge<Terminating> for Alive {}

/// Superstate: holds quota.
#[derive(Debug)]
pub enum Active {}
impl Edge<Suspending> for Active {}

macro_rules! places {
    ($($name:ident: $doc:literal => $($to:ident),+;)+) => {$(
        #[doc = $doc]
        #[derive(Debug)]
        pub enum $name {}
        impl Place for $name { const PHASE: Phase = Phase::$name; }
        $(impl Edge<$to> for $name {})+
    )+
    /// Every edge of the table: from, to.
    pub const EDGES: &[(Phase, Phase)] = &[$($((Phase::$name, Phase::$to)),+),+];
    };
}

places! {
    Empty: "Not reconciled yet." => Suspended, Resuming, Terminating;
    Suspended: "Nothing is deployed." => Resuming, Terminating;
    Resuming: "Components are being created." => Running, Resetting, Failed, Suspending, Terminating;
    Running: "Components exist." => Succeeded, Resetting, Failed, Suspending, Terminating;
    Resetting: "Deleting before the next attempt." => Resuming, Suspending, Terminating;
    Suspending: "Deleting because `suspend` is true." => Suspended, Terminating;
    Succeeded: "Done." => Terminating;
    Failed: "Failed for good." => Terminating;
}

/// Being deleted: there is no way out but the object's end.
#[derive(Debug)]
pub enum Terminating {}
impl Place for Terminating {
    const PHASE: Phase = Phase::Terminating;
}

impl<P> At<P> {
    const fn here() -> Self {
        Self(PhantomData)
    }

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

/// What happened, as the machine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The user or Kueue requests deletion or suspension; handled first, and by the superstates alone.
    Requested(Request),
    /// Act on what is seen.
    Observed,
}

/// What the object asks for, by its deletion timestamp and `spec.suspend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// It has a deletion timestamp.
    Delete,
    /// `suspend` is true.
    Suspend,
}

/// The machine itself holds nothing: all state is in the object.
#[derive(Debug)]
pub struct Machine;

/// Superstates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Not being deleted: answers deletion.
    Alive,
    /// Holds quota: answers suspension.
    Active,
}

impl IntoStateMachine for Machine {
    type State = Phase;
    type Superstate<'sub> = Group;
    type Event<'evt> = Event;
    type Context<'ctx> = Draft<'ctx>;

    fn initial() -> Phase {
        Phase::Empty
    }
}

impl State<Machine> for Phase {
    fn call_handler(
        &mut self,
        _: &mut Machine,
        event: &Event,
        draft: &mut Draft<'_>,
    ) -> Outcome<Self> {
        if matches!(event, Event::Requested(_)) {
            return Outcome::Super;
        }
        let moved = match self {
            Self::Empty => phases::empty(At::here(), draft),
            Self::Suspended => phases::suspended(At::here(), draft),
            Self::Resuming => phases::resuming(At::here(), draft),
            Self::Running => phases::running(At::here(), draft),
            Self::Resetting => teardown::resetting(At::here(), draft),
            Self::Suspending => teardown::suspending(At::here(), draft),
            Self::Succeeded => teardown::succeeded(At::here(), draft),
            Self::Failed => teardown::failed(At::here(), draft),
            Self::Terminating => teardown::terminating(At::here(), draft),
        };
        outcome(moved)
    }

    fn superstate(&mut self) -> Option<Group> {
        match self {
            Self::Resetting if mutations::is_present(Mutation::IgnoreSuspend) => Some(Group::Alive),
            Self::Resuming | Self::Running | Self::Resetting => Some(Group::Active),
            Self::Empty | Self::Suspended | Self::Suspending | Self::Succeeded | Self::Failed => {
                Some(Group::Alive)
            }
            Self::Terminating => None,
        }
    }
}

impl Superstate<Machine> for Group {
    fn call_handler(
        &mut self,
        _: &mut Machine,
        event: &Event,
        draft: &mut Draft<'_>,
    ) -> Outcome<Phase> {
        match (self, event) {
            (Self::Alive, Event::Requested(Request::Delete)) => {
                outcome(teardown::delete_requested(At::here(), draft))
            }
            (Self::Active, Event::Requested(Request::Suspend)) => {
                outcome(teardown::suspend_requested(At::here(), draft))
            }
            (Self::Active, Event::Requested(Request::Delete))
            | (Self::Alive, Event::Requested(Request::Suspend))
            | (Self::Alive | Self::Active, Event::Observed) => Outcome::Super,
        }
    }

    fn superstate(&mut self) -> Option<Self> {
        match self {
            Self::Active => Some(Self::Alive),
            Self::Alive => None,
        }
    }
}

/// One step: what is requested first (deletion, then suspension), else what is observed.
pub(super) fn step(stored: Phase, draft: &mut Draft<'_>) -> Phase {
    let snapshot = draft.facts.snapshot;
    if snapshot.deleting && !snapshot.finalizer {
        // Nothing of ours holds it: either nothing was created, or all of it is gone.
        return stored;
    }
    let requests = [(snapshot.deleting, Request::Delete), (snapshot.suspend, Request::Suspend)];
    let events = requests
        .into_iter()
        .filter_map(|(wanted, request)| wanted.then_some(Event::Requested(request)))
        .chain([Event::Observed]);
    let mut phase = stored;
    for event in events {
        match phase.handle(&mut Machine, &event, draft) {
            Outcome::Transition(next) => return next,
            Outcome::Handled => return stored,
            Outcome::Super => {} // a request that no state handles in this phase
        }
    }
    stored
}

const fn outcome(Move { to }: Move) -> Outcome<Phase> {
    match to {
        Some(next) => Outcome::Transition(next),
        None => Outcome::Handled,
    }
}
