//! How far each component is: execution steps, and components that are created again. Source: KEP-672,
//! and `RecreateComponent` of KEP-262.
//!
//! ```text
//! Later ─ step begins ─▶ Coming ─ its object is there ─▶ Up ─ RecreateComponent ─▶ Going ─ gone ─▶ Coming
//! ```
//!
//! It is kept in the component's `ResourcesDeployed` condition and UID in `componentStatus`; the time of
//! the condition is the moment from which its graces run.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::health::{self, PodSetHealth};
use super::{deploy, pause};
use crate::api::{ComponentStatus, Phase, PodSetSince, WaitFor, condition};
use crate::mutations::{self, Mutation};
use crate::policies::Steps;
use crate::snapshot::{Component, Presence};

/// Reason of a component's `ResourcesDeployed` while it is to be created.
const DEPLOYING: &str = "Deploying";
/// Reason of a component's `ResourcesDeployed` while it is to be created once the earlier steps have reached their status again.
const WAITING: &str = "WaitingForEarlierStep";
/// Reason of a component's `ResourcesDeployed` while the old object is to go.
const RECREATING: &str = "Recreating";

/// How far a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentStage {
    /// Its step has not begun.
    Later,
    /// It is to be created.
    Coming,
    /// Its object is to go, before it is created again.
    Going,
    /// It was created.
    Up,
}

/// How far a component is while the AppWrapper is Running; in Resuming, the components of the first step are Up.
pub fn standing(draft: &Draft<'_>, index: usize) -> ComponentStage {
    if is_recorded(draft, index) == Some(true) {
        return ComponentStage::Up;
    }
    match deployed(draft, index) {
        Some(condition) if condition.reason == RECREATING => return ComponentStage::Going,
        Some(_) => return ComponentStage::Coming,
        None => {}
    }
    // Nothing is written of it: an AppWrapper without an order, or of another controller.
    let snapshot = draft.facts.snapshot;
    let steps = &snapshot.policies.steps;
    let step = steps.step(index);
    if step == 0 {
        // an earlier version created it in the last step; in Resuming, one is recorded before the others exist
        let runs = snapshot.status.phase != Phase::Resuming && steps.have_rules();
        let mut all = 0..snapshot.components.len();
        let is_late = runs && all.any(|other| is_recorded(draft, other) == Some(true));
        if is_late { ComponentStage::Coming } else { ComponentStage::Up }
    } else if step > begun(draft) {
        ComponentStage::Later
    } else {
        ComponentStage::Coming
    }
}

/// The last step that has begun.
pub fn begun(draft: &Draft<'_>) -> usize {
    let snapshot = draft.facts.snapshot;
    let has_begun = |index: &usize| {
        is_recorded(draft, *index) == Some(true)
            || deployed(draft, *index).is_some()
            || (snapshot.components[*index].ours().is_some()
                && health::is_current(draft, *index, &snapshot.components[*index]))
    };
    let begun = (0..snapshot.components.len()).filter(has_begun);
    begun.map(|index| snapshot.policies.steps.step(index)).max().unwrap_or(0)
}

/// Whether it is written that a component was created; `None` where nothing is written.
fn is_recorded(draft: &Draft<'_>, index: usize) -> Option<bool> {
    let status = draft.status.component_status.get(index)?;
    if condition::is_true(&status.conditions, condition::COMPONENT_SUCCEEDED) {
        return Some(true);
    }
    match deployed(draft, index) {
        Some(condition) => Some(condition.status == "True"),
        None => status.uid.is_some().then_some(true),
    }
}

fn deployed<'d>(draft: &'d Draft<'_>, index: usize) -> Option<&'d Condition> {
    let status = draft.status.component_status.get(index)?;
    condition::find(&status.conditions, condition::RESOURCES_DEPLOYED)
}

/// Since when a component is what it is.
pub fn since(draft: &Draft<'_>, index: usize) -> Timestamp {
    deployed(draft, index).map_or(draft.facts.now, |condition| condition.last_transition_time.0)
}

/// The components of the next step, if all earlier steps have reached their required status.
pub fn next(draft: &Draft<'_>, pod_sets: &[PodSetHealth<'_>]) -> Vec<usize> {
    let snapshot = draft.facts.snapshot;
    let steps = &snapshot.policies.steps;
    let step = begun(draft);
    if step >= steps.last() {
        return vec![];
    }
    // an earlier component may be in recreation since then
    if lacking(draft, step + 1, pod_sets).next().is_some() {
        return vec![];
    }
    (0..snapshot.components.len()).filter(|index| steps.step(*index) == step + 1).collect()
}

/// Whether a component may be created: everything of the earlier steps exists, and has reached what its step waits for. That
/// may end after the step of this one has begun.
pub fn may_come(draft: &Draft<'_>, index: usize, pod_sets: &[PodSetHealth<'_>]) -> bool {
    lacking(draft, steps_of(draft).step(index), pod_sets).next().is_none()
}

/// The components of the steps before this one that have not reached the status that it waits for.
fn lacking(
    draft: &Draft<'_>,
    before: usize,
    pod_sets: &[PodSetHealth<'_>],
) -> impl Iterator<Item = usize> {
    let steps = steps_of(draft);
    let earlier =
        (0..draft.facts.snapshot.components.len()).filter(move |index| steps.step(*index) < before);
    earlier.filter(move |index| {
        let wait = steps.wait_for(steps.step(*index));
        standing(draft, *index) != ComponentStage::Up
            || !has_reached(draft, *index, wait, pod_sets)
                && !mutations::is_present(Mutation::StepsAtOnce)
    })
}

fn steps_of<'a>(draft: &Draft<'a>) -> &'a Steps {
    &draft.facts.snapshot.policies.steps
}

/// Since when a component of a later step that is to be created waits for this one; none where none does, also where it
/// pauses before that.
pub fn waited_for_since(draft: &Draft<'_>, index: usize) -> Option<Timestamp> {
    let (steps, now) = (steps_of(draft), draft.facts.now);
    let all = 0..draft.facts.snapshot.components.len();
    let later = all.filter(|other| steps.step(*other) > steps.step(index));
    let waiting_since = later.filter_map(|other| match standing(draft, other) {
        // it has waited since this one was created
        ComponentStage::Later => Some(Timestamp::MIN),
        ComponentStage::Coming => Some(comes_from(draft, other)).filter(|from| *from <= now),
        ComponentStage::Going | ComponentStage::Up => None,
    });
    waiting_since.min()
}

/// Until when a component that is to come pauses before it is created; none where it does not.
pub fn paused_until(draft: &Draft<'_>, index: usize) -> Option<Timestamp> {
    let until = draft.status.retry_after.as_ref().map(|time| time.0);
    until.filter(|_| pause::of_component(draft, index).is_some())
}

/// From when on a component that is to come is created: not before the end of its pause.
pub fn comes_from(draft: &Draft<'_>, index: usize) -> Timestamp {
    let since = since(draft, index);
    paused_until(draft, index).map_or(since, |until| until.max(since))
}

/// What the next step waits for, or else a component that comes back, in a sentence; none where nothing waits for a step.
pub fn awaited(draft: &Draft<'_>, pod_sets: &[PodSetHealth<'_>]) -> Option<String> {
    let snapshot = draft.facts.snapshot;
    let steps = steps_of(draft);
    let step = begun(draft);
    let (who, before) = if step < steps.last() {
        (format!("step {} of {}", step + 2, steps.last() + 1), step + 1)
    } else {
        let is_held = |index: &usize| {
            standing(draft, *index) == ComponentStage::Coming && !may_come(draft, *index, pod_sets)
        };
        let held = (0..snapshot.components.len()).find(is_held)?;
        (snapshot.components[held].title(), steps.step(held))
    };
    let lacking: Vec<usize> = lacking(draft, before, pod_sets).collect();
    let of = |wait: WaitFor, verb: &str| {
        let own = lacking.iter().filter(|index| steps.wait_for(steps.step(**index)) == wait);
        let titles: Vec<String> = own.map(|index| snapshot.components[*index].title()).collect();
        (!titles.is_empty()).then(|| format!("for {} to {verb}", listed(&titles)))
    };
    let both = [of(WaitFor::Succeeded, "succeed"), of(WaitFor::Ready, "be ready")];
    let waits: Vec<String> = both.into_iter().flatten().collect();
    (!waits.is_empty()).then(|| format!("{who} waits {}", waits.join(" and ")))
}

/// The first few of some names: `a`, `a and b`, `a, b, c and 4 more`.
fn listed(names: &[String]) -> String {
    const NAMED_MAX: usize = 3;
    match names.split_at(NAMED_MAX.min(names.len())) {
        (first, []) => match first.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        },
        (first, more) => format!("{} and {} more", first.join(", "), more.len()),
    }
}

fn has_reached(
    draft: &Draft<'_>,
    index: usize,
    wait: WaitFor,
    pod_sets: &[PodSetHealth<'_>],
) -> bool {
    if health::has_succeeded(draft, index)
        || draft.facts.snapshot.components[index].pod_sets.is_empty()
    {
        return true;
    }
    match wait {
        WaitFor::Succeeded => false,
        WaitFor::Ready => {
            let mut own = pod_sets.iter().filter(|set| set.component == index);
            own.all(PodSetHealth::complete)
        }
    }
}

/// Writes down that components are to be created from here on.
pub fn begin(draft: &mut Draft<'_>, indexes: &[usize]) {
    for index in indexes {
        mark(draft, *index, false, DEPLOYING);
        let status = &mut draft.component_status()[*index];
        status.uid = None;
        went(status);
    }
}

/// Until when the creation of a component was to succeed that is blocked already, while everything of the earlier steps
/// exists: that their pods are not Ready for a moment holds it back, and gives it no more time. None once that time is over.
pub fn blocked_until(draft: &Draft<'_>, index: usize) -> Option<Timestamp> {
    let steps = steps_of(draft);
    let is_earlier = |other: &usize| steps.step(*other) < steps.step(index);
    let mut earlier = (0..draft.facts.snapshot.components.len()).filter(is_earlier);
    if is_held(draft, index)
        || !deploy::is_blocked(draft, index)
        || earlier.any(|other| standing(draft, other) != ComponentStage::Up)
    {
        return None;
    }
    let from = deploy::failing_since(draft, index, comes_from(draft, index));
    Some(draft.facts.limits.admission_grace.after(from)).filter(|until| draft.facts.now < *until)
}

/// Whether a component that is to come is said to wait for an earlier step.
fn is_held(draft: &Draft<'_>, index: usize) -> bool {
    deployed(draft, index).is_some_and(|condition| condition.reason == WAITING)
}

/// Writes down whether a component that is to come waits for an earlier step: its creation has all its time once it need not,
/// unless that is before its time would have been [over](blocked_until).
pub fn hold(draft: &mut Draft<'_>, index: usize, holds: bool) {
    match (holds, is_held(draft, index)) {
        (true, false) => match blocked_until(draft, index) {
            Some(until) => draft.look_again(until),
            None => mark(draft, index, false, WAITING),
        },
        (false, true) => mark(draft, index, false, DEPLOYING),
        (true, true) | (false, false) => {}
    }
}

/// Forgets what kept a component from going.
pub fn went(status: &mut ComponentStatus) {
    status.conditions.retain(|condition| condition.type_ != condition::DELETING_RESOURCES);
}

/// Writes down that a component is to go and come back.
pub fn recreate(draft: &mut Draft<'_>, index: usize) {
    let uid = draft.facts.snapshot.components[index].ours().map(|object| object.uid.clone());
    mark(draft, index, false, RECREATING);
    let status = &mut draft.component_status()[index];
    status.uid = status.uid.take().or(uid);
    status.conditions.retain(|condition| condition.type_ != condition::COMPONENT_SUCCEEDED);
}

/// Writes down that a component is there: its pods have all their time from now.
pub fn arrived(draft: &mut Draft<'_>, index: usize) {
    let uid = draft.facts.snapshot.components[index].ours().map(|object| object.uid.clone());
    mark(draft, index, true, "ComponentCreatedSuccessfully");
    let status = &mut draft.component_status()[index];
    status.uid = uid;
    let since = draft.anchor();
    let prefix = format!("{index}-");
    let count = draft.facts.snapshot.components[index].pod_sets.len();
    let entries = &mut draft.since().pod_sets;
    entries.retain(|entry| !entry.pod_set.starts_with(&prefix));
    entries.extend((0..count).map(|pod_set| PodSetSince {
        pod_set: format!("{prefix}{pod_set}"),
        ready: false,
        terminating: false,
        since: since.clone(),
        failed_at: None,
        replaced_until: None,
    }));
}

/// Sets the component's `ResourcesDeployed`; its time is now, also where only the reason changes.
fn mark(draft: &mut Draft<'_>, index: usize, is_there: bool, reason: &str) {
    let now = draft.facts.now;
    let kind = condition::RESOURCES_DEPLOYED;
    let conditions = &mut draft.component_status()[index].conditions;
    condition::set(conditions, kind, is_there, reason, "", now);
    if let Some(condition) = conditions.iter_mut().find(|condition| condition.type_ == kind) {
        condition.last_transition_time = Time(now);
    }
}

/// Whether anything of a component that is to go is still there, as far as is known.
pub fn remains(draft: &Draft<'_>, index: usize) -> bool {
    let snapshot = draft.facts.snapshot;
    snapshot.pods.iter().any(|pod| pod.component == Some(index) && !pod.gone)
        || snapshot.components[index].ours().is_some()
}

/// Whether the new object of a component is there.
pub fn is_there(component: &Component, attempt: i32) -> bool {
    match &component.presence {
        Presence::Present(_) => component.ours().is_some_and(|object| {
            !object.terminating && object.attempt.is_none_or(|number| number == attempt)
        }),
        Presence::Unseen | Presence::Absent | Presence::NoKind => false,
    }
}
