//! The invariants: each a function of its own, with the sentence that it checks.

pub mod budgets;
pub mod calls;
pub mod hostile;
pub mod kueue;
pub mod liveness;
pub mod meaning;
pub mod policies;
pub mod progress;
pub mod safety;
pub mod suspicion;
pub mod usage;

use std::fmt;
use std::time::Duration;

use super::oracle::{Oracle, State, Wrapper};
use crate::sim::{Change, Store};

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number in the catalogue.
    pub invariant: &'static str,
    /// The sentence.
    pub sentence: &'static str,
    /// What was seen instead.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} — {}", self.invariant, self.sentence, self.seen)
    }
}

/// A change, and all that a check may ask about it.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The cluster after the change.
    pub store: &'a Store,
    /// What is really there.
    pub oracle: &'a Oracle,
    /// The change.
    pub change: &'a Change,
    /// The AppWrapper that it concerns.
    pub wrapper: &'a Wrapper,
    /// Its state before the change.
    pub before: State,
    /// The change was made by a controller.
    pub ours: bool,
    /// Made by a write that came too late.
    pub late: bool,
    /// Time since the world began.
    pub elapsed: Duration,
    /// Nothing goes wrong in this world: deadlines are kept to the second.
    pub prompt: bool,
    /// How much clocks may differ, and what rounding to seconds may take.
    pub slack: Duration,
    /// How much earlier than it failed a pod may be dated, since the clock of its node is off.
    pub dated_within: Duration,
}

impl Scope<'_> {
    /// It is the AppWrapper itself that has changed.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.change.object.address == self.wrapper.address
    }
}

/// A check: what is wrong, where something is.
pub type Check = fn(&Scope<'_>) -> Option<String>;

/// An invariant with its sentence.
pub type Invariant<C> = (&'static str, &'static str, C);

/// The invariants of every change.
const OF_ALL: [&[Invariant<Check>]; 2] = [safety::SAFETY, policies::POLICIES];
/// Those of a change of the AppWrapper itself.
const OF_OWN: [&[Invariant<Check>]; 6] = [
    budgets::BUDGETS,
    progress::PROGRESS,
    meaning::MEANING,
    usage::USAGE,
    suspicion::SUSPICION,
    kueue::KUEUE,
];

/// The first of these invariants that does not hold.
fn first<S, C: Fn(&S) -> Option<String>>(all: &[Invariant<C>], scope: &S) -> Option<Violation> {
    all.iter().find_map(|(invariant, sentence, check)| {
        Some(Violation { invariant, sentence, seen: check(scope)? })
    })
}

/// Checks a change, where the owner of the AppWrapper plays by the rules; the first invariant that does not hold.
#[must_use]
pub fn check(scope: &Scope<'_>) -> Option<Violation> {
    let own = OF_OWN.into_iter().filter(|_| scope.is_own());
    let mut all = OF_ALL.into_iter().chain(own);
    hostile::check(scope).or_else(|| all.find_map(|all| first(all, scope)))
}

/// How many invariants [`check`] checks beside those of the victims.
#[must_use]
pub fn count() -> u64 {
    OF_ALL.iter().chain(&OF_OWN).map(|all| all.len() as u64).sum()
}
