//! Compares what this controller would do with what the active controller does. Pure.
//!
//! ```text
//! status and facts ─▶ decide ─▶ Expectation ─┐
//!             the next status that is stored ┴─▶ agreed │ differs │ unseen
//! ```
//!
//! Each look begins from the status that the active controller wrote: one difference leads to no others.
//! Watches may skip phases, and two watches have no common order. So a move also counts as expected where it is a
//! later step on the same way ([`mark`]), or where the decision follows from the facts of a moment later
//! ([`Open`]).

mod expectation;
mod finding;
mod mark;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::api::{Phase, condition};
use crate::config::Config;
use crate::decide::{Decision, Facts};
use crate::snapshot::{Component, Presence, Snapshot};
use crate::tuning::{Limits, Period};
use expectation::{Expectation, Step, supposed};
use mark::{Fit, Mark, fit, rewound};

pub use finding::{Difference, DifferenceKind, Finding};

/// For so long a move that nothing explains is judged again with newer facts: watches lag behind each other, and a
/// Job reports its success a moment after its pods.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);

/// One look at an AppWrapper, of which the decision is complete.
#[derive(Debug)]
pub struct ShadowInputs<'a> {
    /// What was seen; the status is that of the active controller.
    pub snapshot: Snapshot,
    /// The limits of the AppWrapper.
    pub limits: &'a Limits,
    /// The administrator's settings.
    pub config: &'a Config,
    /// The time, as in [`Facts`].
    pub now: Timestamp,
    /// The same, rounded up.
    pub anchor: Timestamp,
    /// A move may come so much earlier or later than this controller would have made it.
    pub patience: Period,
}

impl ShadowInputs<'_> {
    fn facts(&self) -> Facts<'_> {
        let Self { snapshot, limits, config, now, anchor, .. } = self;
        Facts { snapshot, limits, config, now: *now, anchor: *anchor }
    }
}

/// What one look came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// What was found.
    pub findings: Vec<Finding>,
    /// Look again at this time, if nothing happens before.
    pub again: Option<Timestamp>,
}

/// The comparison of one AppWrapper over time. It keeps no text that others wrote but one reason.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    uid: String,
    expectation: Option<Expectation>,
    open: Option<Open>,
}

/// A move that nothing explains so far.
#[derive(Clone, Debug)]
struct Open {
    from: Mark,
    to: Mark,
    until: Timestamp,
    /// What it is where nothing explains it in time.
    otherwise: Finding,
}

impl Comparison {
    /// Compares what is stored now with what was expected, and notes what is expected from here on.
    pub fn look(&mut self, mut sight: ShadowInputs<'_>, decision: &Decision) -> Compared {
        if self.uid != sight.snapshot.uid {
            *self = Self { uid: sight.snapshot.uid.clone(), ..Self::default() };
        }
        let here = Mark::of(&sight.snapshot.status);
        let mut findings = vec![];
        findings.extend(self.judge_open(&mut sight, here));
        let before = self.expectation.take();
        let (moved, stayed) = match before {
            Some(before) if before.from.moved_to(here) => (Some(before), None),
            other => (None, other),
        };
        if let Some(before) = moved {
            findings.extend(self.judge_move(&mut sight, &before, here));
        }
        let mut expectation = Expectation::of(&mut sight, here, decision);
        if let Some(before) = stayed {
            expectation.follow(&before);
        }
        findings.extend(expectation.overdue(&sight));
        let open = self.open.as_ref().map(|open| open.until);
        let again = open.into_iter().chain(expectation.due(sight.patience)).min();
        self.expectation = Some(expectation);
        Compared { findings, again }
    }

    /// Judges the open move again, with the facts of now.
    fn judge_open(&mut self, sight: &mut ShadowInputs<'_>, here: Mark) -> Option<Finding> {
        let open = self.open.take()?;
        let explains = |step: Step| fit(step, open.from, open.to) == Fit::Yes;
        if in_hindsight(sight, open.from).into_iter().any(explains) {
            return Some(agreed(open.from, open.to));
        }
        if open.to.moved_to(here) || sight.now >= open.until {
            return Some(open.otherwise);
        }
        self.open = Some(open);
        None
    }

    fn judge_move(
        &mut self,
        sight: &mut ShadowInputs<'_>,
        before: &Expectation,
        to: Mark,
    ) -> Option<Finding> {
        if before.is_reported {
            return None; // it has come, late
        }
        let from = before.from;
        let expected = before.by(sight.patience.after(sight.now));
        let mut miscounted = None;
        for step in expected.into_iter().chain(in_hindsight(sight, from)) {
            match fit(step, from, to) {
                Fit::Yes => return Some(agreed(from, to)),
                Fit::Miscounted => miscounted = miscounted.or(Some(step.retries)),
                Fit::No => {}
            }
        }
        let unseen = Finding::Unseen { from: from.stage.phase, to: to.stage.phase };
        if before.missed_since(sight) || before.leaves_to_chance(to) {
            return Some(unseen);
        }
        let otherwise = Finding::Differs(before.difference(to, miscounted, sight.patience));
        if miscounted.is_some() || is_teardown(from, to) {
            return Some(otherwise);
        }
        // a request was withdrawn before it was seen
        let is_withdrawn = is_request(from, to, sight.snapshot.suspend);
        let until = Period::from_duration(SETTLES_WITHIN.min(sight.patience.as_duration()));
        self.open = Some(Open {
            from,
            to,
            until: until.after(sight.anchor),
            otherwise: if is_withdrawn { unseen } else { otherwise },
        });
        None
    }
}

const fn agreed(from: Mark, to: Mark) -> Finding {
    Finding::Agreed { from: from.stage.phase, to: to.stage.phase }
}

/// What this controller would have decided at a stage that was left, now or within the patience, by what is seen now;
/// nothing where what was seen there is gone since.
fn in_hindsight(sight: &mut ShadowInputs<'_>, from: Mark) -> Vec<Step> {
    let is_intact =
        |component: &Component| component.ours().is_some_and(|object| !object.terminating);
    let here = Mark::of(&sight.snapshot.status);
    if is_teardown(from, here) && !sight.snapshot.components.iter().all(is_intact) {
        return vec![];
    }
    let leaves_teardown = matches!(from.stage.phase, Phase::Resetting | Phase::Suspending);
    let snapshot = &mut sight.snapshot;
    let stored = snapshot.status.clone();
    snapshot.status = rewound(&stored, from);
    let seen = leaves_teardown.then(|| (snapshot.components.clone(), snapshot.pods.clone()));
    if leaves_teardown {
        leave_the_old(snapshot, sight.now);
    }
    let times = [sight.now, sight.patience.after(sight.now)];
    let steps = times.into_iter().filter_map(|at| supposed(sight, at)).collect();
    if let Some((components, pods)) = seen {
        (sight.snapshot.components, sight.snapshot.pods) = (components, pods);
    }
    sight.snapshot.status = stored;
    steps
}

/// Of a teardown that has ended, what is left of the old attempt: what is not being deleted is of the next one.
fn leave_the_old(snapshot: &mut Snapshot, now: Timestamp) {
    snapshot.pods.retain(|pod| pod.terminating);
    let mut is_gone = snapshot.pods.is_empty();
    for component in &mut snapshot.components {
        if component.ours().is_some_and(|object| object.terminating) {
            is_gone = false;
        } else {
            component.presence = Presence::Absent;
        }
    }
    if is_gone && snapshot.status.phase == Phase::Resetting {
        let conditions = &mut snapshot.status.conditions;
        condition::set(conditions, condition::RESOURCES_DEPLOYED, false, "Resetting", "", now);
    }
}

/// Whether resources are deleted after this move, and the facts with them.
const fn is_teardown(from: Mark, to: Mark) -> bool {
    matches!(from.stage.phase, Phase::Resuming | Phase::Running)
        && matches!(to.stage.phase, Phase::Resetting | Phase::Failed)
}

/// Whether only `spec.suspend` leads there, and it has been set back since.
const fn is_request(from: Mark, to: Mark, suspend: bool) -> bool {
    match to.stage.phase {
        Phase::Suspending => !suspend,
        Phase::Resuming | Phase::Running => {
            suspend && matches!(from.stage.phase, Phase::Empty | Phase::Suspended)
        }
        Phase::Empty
        | Phase::Suspended
        | Phase::Resetting
        | Phase::Succeeded
        | Phase::Failed
        | Phase::Terminating => false,
    }
}
