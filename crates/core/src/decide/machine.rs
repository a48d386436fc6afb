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
//! This is what statig is for: a request that no phase handles goes to its superstates. Which phase follows
//! which, and who acts in each, is in [`edges`].

use statig::Outcome;
use statig::blocking::{IntoStateMachine, State, StateExt, Superstate};

use super::draft::Draft;
use super::edges::{self, Move};
use crate::api::Phase;
use crate::mutations::{self, Mutation};

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
        outcome(edges::observed(*self, draft))
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
                outcome(edges::delete_requested(draft))
            }
            (Self::Active, Event::Requested(Request::Suspend)) => {
                outcome(edges::suspend_requested(draft))
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

const fn outcome(moved: Move) -> Outcome<Phase> {
    match moved.next() {
        Some(next) => Outcome::Transition(next),
        None => Outcome::Handled,
    }
}
