//! The core: from one look at the world to one decision. Pure: no async, no client, no clock.
//!
//! ```text
//! Snapshot ─┬─ requested: deletion, suspension (superstates Alive, Active)
//!           └─ observed ─ the phase's own handler ─ health ─ policies ─┬─ next phase (written)
//!                                                                      └─ or actions (carried out)
//! ```
//!
//! A decision changes `status`, or it lists actions; never both. The status is written first, guarded
//! by `resourceVersion`; the actions follow from the status that is stored, so that after a crash
//! the stored phase alone brings them back.

mod attempts;
mod blockers;
pub mod budget;
mod components;
mod consequence;
mod deletion;
mod deploy;
mod draft;
pub mod edges;
mod failed;
mod failure;
mod force_delete;
mod health;
mod incidents;
mod input;
mod last_failure;
mod machine;
mod no_fit;
mod node_replacement;
mod notices;
pub mod orders;
mod orphans;
mod over_quota;
pub mod pause;
mod phases;
mod pods;
pub mod policy;
mod problem;
pub mod progress;
pub mod recovery;
mod replacement;
pub mod replay;
mod requeue;
mod resolve;
mod retry;
mod steps;
mod success;
mod suspicion;
mod teardown;
mod undetermined;
pub mod usage;
mod verdict;

use k8s_openapi::jiff::Timestamp;

use crate::api::condition::deleting;
use crate::api::{AppWrapperStatus, Phase, condition};
use crate::config::Config;
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead};
use crate::snapshot::Snapshot;
use crate::suspicion::Testimony;
use crate::tuning::Limits;

pub use attempts::{ATTEMPTS_MAX, current as current_attempt, shows_later as shows_later_attempt};
pub use health::CLOCK_BEHIND_MAX;
pub use last_failure::decision as decision_of_attempt;
pub use verdict::{Verdict, VerdictAction};

/// All that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What was seen.
    pub snapshot: &'a Snapshot,
    /// The limits of this AppWrapper.
    pub limits: &'a Limits,
    /// The administrator's settings.
    pub config: &'a Config,
    /// The time, in whole seconds, rounded down: what is compared and shown.
    pub now: Timestamp,
    /// The time, in whole seconds, rounded up: what a period runs from, so that none ends too early.
    pub anchor: Timestamp,
}

/// What to do about one AppWrapper.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The phase it is to be in.
    pub next: Phase,
    /// The status it is to have, in full.
    pub status: AppWrapperStatus,
    /// What to do; empty where the status changes.
    pub actions: Vec<Action>,
    /// A read that must be made before this can be decided; then nothing else is asked.
    pub ask: FreshRead,
    /// The Workload must be read before this can be decided; then nothing else is asked.
    pub ask_workload: bool,
    /// Reconcile again at this time, if nothing happens before.
    pub requeue: Option<Timestamp>,
    /// Kubernetes events to make once the status is written.
    pub events: Vec<Warning>,
    /// What the failure says about its node, once the status is written.
    pub testimony: Option<Testimony>,
    /// Since when more pods live than are declared, for the next look; none where no more do. Where something must be read
    /// first, it says nothing.
    pub over_quota_since: Option<Timestamp>,
    /// The decision in words, for people.
    pub verdict: Verdict,
}

impl Decision {
    /// Whether something must be read before this can be decided.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.ask != FreshRead::Nothing || self.ask_workload
    }

    /// Whether it writes what blocks a deletion.
    #[must_use]
    pub fn names_blockers(&self) -> bool {
        let reasons = [deleting::INITIATED, deleting::FORCED, deleting::UNDETERMINED];
        self.events.iter().any(|event| reasons.contains(&event.reason))
    }
}

/// A Kubernetes event of type Warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// CamelCase reason.
    pub reason: &'static str,
    /// What happened: pod, exit code, node.
    pub message: String,
}

/// Decides what to do about an AppWrapper.
#[must_use]
pub fn decide(facts: Facts<'_>) -> Decision {
    let checked = input::checked(facts);
    let mut draft = draft::Draft::new(Facts { snapshot: &checked, ..facts });
    let next = machine::step(checked.status.phase, &mut draft);
    notices::awaited_step(&mut draft, next);
    notices::missing_policies(&mut draft, next);
    over_quota::note(&mut draft, next);
    input::restore(&mut draft, facts.snapshot, next);
    let mut decision = draft.finish(next);
    if decision.asks() {
        decision.status.clone_from(&facts.snapshot.status); // also what was wrong with it
    } else if decision.status != facts.snapshot.status {
        decision.actions.clear();
    } else if must_restore_finalizer(facts.snapshot) {
        decision.actions.insert(0, Action::AddFinalizer);
    }
    decision
}

/// Whether our finalizer was removed while resources are deployed: without it, a deletion would
/// release the quota while pods run. Before the components are created it is set in any case.
fn must_restore_finalizer(snapshot: &Snapshot) -> bool {
    let status = &snapshot.status;
    let is_set_later = match status.phase {
        Phase::Empty | Phase::Suspended | Phase::Resuming => true,
        Phase::Running
        | Phase::Resetting
        | Phase::Suspending
        | Phase::Succeeded
        | Phase::Failed
        | Phase::Terminating => false,
    };
    !snapshot.finalizer
        && !snapshot.deleting
        && !is_set_later
        && condition::is_true(&status.conditions, condition::RESOURCES_DEPLOYED)
        && !mutations::is_present(Mutation::FinalizerNotRestored)
}

#[cfg(test)]
pub(crate) mod tests;
