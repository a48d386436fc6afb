//! What this controller would do at a stage: now, and at its next deadline.

use k8s_openapi::jiff::Timestamp;

use super::mark::{Mark, Stage};
use super::{Difference, DifferenceKind, Finding, ShadowInputs};
use crate::api::Phase;
use crate::decide::{Decision, Facts, VerdictAction, decide};
use crate::plan::{Action, FreshRead};
use crate::printable::escape;
use crate::tuning::Period;

/// So much of a reason is kept: it may name what a tenant wrote.
const REASON_MAX: usize = 64;

/// Where a decision leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) stage: Stage,
    /// `resettingCount` after it.
    pub(super) retries: i32,
}

impl Step {
    fn of(decision: &Decision) -> Self {
        Self { stage: Stage::of(&decision.status), retries: decision.status.resetting_count }
    }
}

/// The decision of a moment at which everything is as it is seen now, and the finalizer set; none where it would ask
/// for a read that tells what is not seen.
pub(super) fn supposed(sight: &mut ShadowInputs<'_>, at: Timestamp) -> Option<Step> {
    let answered = std::mem::replace(&mut sight.snapshot.answered, FreshRead::Gone);
    let finalizer = sight.snapshot.finalizer;
    sight.snapshot.finalizer |= !sight.snapshot.deleting;
    let decision = decide(Facts { now: at, anchor: at.max(sight.anchor), ..sight.facts() });
    sight.snapshot.answered = answered;
    sight.snapshot.finalizer = finalizer;
    (!decision.asks()).then(|| Step::of(&decision))
}

/// What was decided at a stage.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    pub(super) from: Mark,
    now: Step,
    /// What is decided at the next deadline, if nothing happens before.
    later: Option<(Timestamp, Step)>,
    /// Components are created: what comes of that, only who creates them learns.
    creates: bool,
    action: VerdictAction,
    reason: String,
    /// When it was decided last, rounded up as the times of failed calls are.
    at: Timestamp,
    /// Since when this controller would have moved on.
    since: Option<Timestamp>,
    /// It was reported that the active controller has not moved on.
    pub(super) is_reported: bool,
}

impl Expectation {
    pub(super) fn of(sight: &mut ShadowInputs<'_>, from: Mark, decision: &Decision) -> Self {
        // a step for us, none that is stored in the status
        let awaits_finalizer = decision.actions.contains(&Action::AddFinalizer);
        let beyond = awaits_finalizer.then(|| supposed(sight, sight.now)).flatten();
        let now = beyond.unwrap_or_else(|| Step::of(decision));
        let deadline = decision.verdict.deadline.or(decision.requeue);
        let deadline = deadline.filter(|at| *at > sight.now && now.stage == from.stage);
        let later = deadline.and_then(|at| Some((at, supposed(sight, at)?)));
        let reason = decision.verdict.reason.as_deref().unwrap_or_default();
        let is_creation = |action: &Action| matches!(action, Action::Create(_));
        Self {
            from,
            now,
            later,
            creates: decision.actions.iter().any(is_creation),
            action: decision.verdict.action,
            reason: escape(reason).chars().take(REASON_MAX).collect(),
            at: sight.anchor,
            since: is_ahead(now.stage, from.stage).then_some(sight.now),
            is_reported: false,
        }
    }

    /// Takes over since when it lasts from what was decided at the same mark before.
    pub(super) fn follow(&mut self, before: &Self) {
        if self.since.is_some() {
            self.since = before.since.or(self.since);
        }
        self.is_reported = before.is_reported;
    }

    /// What this controller would have done by a moment.
    pub(super) fn by(&self, moment: Timestamp) -> Vec<Step> {
        let later = self.later.filter(|(at, _)| *at <= moment).map(|(_, step)| step);
        [Some(self.now), later].into_iter().flatten().collect()
    }

    /// Whether facts may have been missed since it was decided: what was missed before, that look has seen.
    pub(super) fn missed_since(&self, sight: &ShadowInputs<'_>) -> bool {
        sight.snapshot.last_gap.is_some_and(|gap| gap > self.at)
    }

    /// Whether the move follows from answers to writes that only the active controller made.
    pub(super) const fn leaves_to_chance(&self, to: Mark) -> bool {
        self.creates && matches!(to.stage.phase, Phase::Resetting | Phase::Failed)
    }

    /// When it is overdue, unless that was reported.
    pub(super) fn due(&self, patience: Period) -> Option<Timestamp> {
        self.since.filter(|_| !self.is_reported).map(|since| patience.after(since))
    }

    /// That the active controller has not moved on, once.
    pub(super) fn overdue(&mut self, sight: &ShadowInputs<'_>) -> Option<Finding> {
        self.due(sight.patience).filter(|due| *due <= sight.now)?;
        self.is_reported = true;
        let is_phase = self.now.stage.phase != self.from.stage.phase;
        let kind = if is_phase { DifferenceKind::Stayed } else { DifferenceKind::Kept };
        Some(Finding::Differs(self.told(kind, self.now.stage.phase, self.from)))
    }

    /// The difference that a move is.
    pub(super) fn difference(
        &self,
        to: Mark,
        miscounted: Option<i32>,
        patience: Period,
    ) -> Difference {
        let from = self.from.stage.phase;
        let soon = self.later.filter(|(at, _)| *at <= patience.after(self.at));
        let step = soon.map_or(self.now, |(_, step)| step);
        let expected = step.stage.phase;
        let kind = if miscounted.is_some() {
            DifferenceKind::Counted
        } else if from == expected && self.from.stage.resources != to.stage.resources {
            DifferenceKind::Deleted
        } else if expected == from {
            DifferenceKind::Moved
        } else {
            DifferenceKind::OtherPhase
        };
        let told = self.told(kind, expected, to);
        Difference { retries: miscounted.map(|count| (count, to.retries)), ..told }
    }

    fn told(&self, kind: DifferenceKind, expected: Phase, to: Mark) -> Difference {
        Difference {
            kind,
            from: self.from.stage.phase,
            expected,
            observed: to.stage.phase,
            since: self.since,
            due: self.later.map(|(at, _)| at),
            action: self.action,
            reason: self.reason.clone(),
            retries: None,
        }
    }
}

/// Whether one stage is further than another.
fn is_ahead(next: Stage, here: Stage) -> bool {
    next.phase != here.phase || next.resources > here.resources
}
