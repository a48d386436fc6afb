//! The phases on the way up: Empty, Suspended, Resuming, Running.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::machine::{At, Empty, Move, Resuming, Running, Succeeded, Suspended};
use super::problem::{self, Problem};
use super::{VerdictAction, attempts, failure, health, teardown};
use crate::api::condition::{self, unhealthy};
use crate::api::{AttemptOutcome, Since};
use crate::bugs::{self, Bug};
use crate::limits::Period;
use crate::plan::{Action, Ask, Target};
use crate::snapshot::{Component, Outcome, Owner, Pod, PodPhase, Presence, Snapshot};

/// Nothing was looked at yet: the components are inspected.
pub(super) fn empty(here: At<Empty>, draft: &mut Draft<'_>) -> Move {
    let suspend = draft.facts.snapshot.suspend;
    if !suspend && !resume(draft, "Suspend is false") {
        return here.stay(); // the finalizer first; a status of its own would be one write too many
    }
    draft.component_status();
    for component in &draft.facts.snapshot.components {
        if let Some(flaw) = &component.flaw {
            draft.warn(unhealthy::CREATE_FAILED, flaw.clone());
        }
    }
    if suspend {
        "Suspend is true".clone_into(&mut draft.verdict.message);
        return here.to::<Suspended>();
    }
    here.to::<Resuming>()
}

/// Nothing is deployed.
pub(super) fn suspended(here: At<Suspended>, draft: &mut Draft<'_>) -> Move {
    if draft.facts.snapshot.suspend {
        // A leader that had lost its lease may have created something after all was gone.
        sweep(draft, Stray::Any);
        return here.stay();
    }
    if resume(draft, "Suspend is false") { here.to::<Resuming>() } else { here.stay() }
}

/// Opens the next attempt, once the finalizer is there.
pub(super) fn resume(draft: &mut Draft<'_>, message: &str) -> bool {
    draft.verdict.action = VerdictAction::Deploy;
    message.clone_into(&mut draft.verdict.message);
    draft.verdict.create = (0..draft.facts.snapshot.components.len()).collect();
    if !draft.facts.snapshot.finalizer && !bugs::is_present(Bug::FinalizerLate) {
        draft.act(Action::AddFinalizer);
        return false;
    }
    for status in draft.component_status() {
        status.uid = None;
        status.conditions.clear();
    }
    let reason = "Resuming";
    draft.condition(condition::QUOTA_RESERVED, true, reason, message);
    draft.condition(condition::RESOURCES_DEPLOYED, true, reason, message);
    draft.condition(condition::PODS_READY, false, reason, message);
    draft.condition(condition::UNHEALTHY, false, reason, message);
    draft.clear(condition::DELETING_RESOURCES, condition::deleting::COMPLETE, "");
    attempts::open(draft);
    draft.status.retry_after = None;
    draft.status.since = Some(Since { deployed: Some(draft.anchor()), ..Since::default() });
    true
}

/// The components are being created.
pub(super) fn resuming(here: At<Resuming>, draft: &mut Draft<'_>) -> Move {
    let snapshot = draft.facts.snapshot;
    if let Some((index, message)) = hopeless(snapshot) {
        let problem = Problem::of_component(draft, index, unhealthy::CREATE_FAILED, &message);
        return problem::fail(here, draft, &problem);
    }
    if snapshot.finalizer && sweep(draft, Stray::OfAnotherAttempt) {
        "Waiting for objects of an earlier attempt".clone_into(&mut draft.verdict.message);
        return here.stay();
    }
    let absent: Vec<usize> = (0..snapshot.components.len())
        .filter(|index| !exists(draft, &snapshot.components[*index]))
        .collect();
    if absent.is_empty() {
        return deployed(here, draft);
    }
    if !snapshot.finalizer && !bugs::is_present(Bug::FinalizerLate) {
        draft.act(Action::AddFinalizer);
        draft.verdict.action = VerdictAction::Deploy;
        draft.verdict.create = absent;
        return here.stay();
    }
    if let Some(problem) = blocked(draft, &absent) {
        if problem.deadline.is_some_and(|deadline| draft.facts.now >= deadline) {
            return problem::settle(here, draft, &problem);
        }
        problem::wait(draft, &problem);
    }
    let creatable: Vec<usize> = absent
        .into_iter()
        .filter(|index| !matches!(snapshot.components[*index].presence, Presence::Present(_)))
        .collect();
    for index in &creatable {
        draft.act(Action::Create(*index));
    }
    if !creatable.is_empty() {
        draft.verdict.action = VerdictAction::Deploy;
        draft.verdict.deadline = None;
        draft.verdict.create = creatable;
    }
    here.stay()
}

/// A component that can never be created, and why.
fn hopeless(snapshot: &Snapshot) -> Option<(usize, String)> {
    snapshot.components.iter().enumerate().find_map(|(index, component)| {
        let why = match (&component.flaw, &component.presence, &component.creation) {
            (Some(flaw), ..) => flaw.clone(),
            (None, Presence::Present(object), _) => match &object.owner {
                Owner::Stranger(who) if !object.terminating => format!(
                    "{} exists already and belongs to {who}; it was left as it is",
                    component.title()
                ),
                Owner::Us | Owner::Former | Owner::Stranger(_) => return None,
            },
            (None, Presence::NoKind, _) => format!(
                "{}: the API server knows no kind {} of {}",
                component.title(),
                component.kind,
                component.api_version
            ),
            (None, Presence::Unseen | Presence::Absent, Some(failure)) if failure.fatal => {
                format!("{}: {}", component.title(), failure.message)
            }
            (None, Presence::Unseen | Presence::Absent, _) => return None,
        };
        Some((index, why))
    })
}

/// Whether the running attempt's object of a component is there.
fn exists(draft: &Draft<'_>, component: &Component) -> bool {
    let attempt = attempts::current(&draft.status);
    component.ours().is_some_and(|object| {
        !object.terminating && object.attempt.is_none_or(|number| number == attempt)
    })
}

/// What keeps the creation from getting on, where something does.
fn blocked(draft: &Draft<'_>, absent: &[usize]) -> Option<Problem> {
    let snapshot = draft.facts.snapshot;
    let (index, message) = absent.iter().find_map(|index| {
        let component = &snapshot.components[*index];
        match (&component.presence, &component.creation) {
            (Presence::Present(object), _) => Some((
                *index,
                format!(
                    "{} of UID {} is in the way and being deleted",
                    component.title(),
                    object.uid
                ),
            )),
            (_, Some(failure)) => {
                Some((*index, format!("{}: {}", component.title(), failure.message)))
            }
            (Presence::Unseen | Presence::Absent | Presence::NoKind, None) => None,
        }
    })?;
    let mut problem = Problem::of_component(draft, index, unhealthy::CREATE_FAILED, &message);
    let since = deployed_since(draft);
    problem.deadline = Some(draft.facts.limits.admission_grace.after(since));
    Some(problem)
}

fn deployed_since(draft: &Draft<'_>) -> Timestamp {
    let stored = draft.status.since.as_ref().and_then(|since| since.deployed.as_ref());
    stored
        .map(|time| time.0)
        .or_else(|| condition::since(&draft.status.conditions, condition::RESOURCES_DEPLOYED))
        .unwrap_or(draft.facts.now)
}

/// Every component exists: their UIDs are written down.
fn deployed(here: At<Resuming>, draft: &mut Draft<'_>) -> Move {
    let now = draft.facts.now;
    let snapshot = draft.facts.snapshot;
    for (status, component) in draft.component_status().iter_mut().zip(&snapshot.components) {
        status.name.clone_from(&component.name);
        status.kind.clone_from(&component.kind);
        status.api_version.clone_from(&component.api_version);
        status.uid = component.ours().map(|object| object.uid.clone());
        let (kind, reason) = (condition::RESOURCES_DEPLOYED, "ComponentCreatedSuccessfully");
        condition::set(&mut status.conditions, kind, true, reason, "", now);
    }
    draft.clear(condition::UNHEALTHY, unhealthy::FOUND_NO_FAILED_PODS, "");
    let pod_sets = health::pod_sets(draft);
    note_readiness(draft, &pod_sets);
    "Every component exists".clone_into(&mut draft.verdict.message);
    here.to::<Running>()
}

/// The components exist and are watched.
pub(super) fn running(here: At<Running>, draft: &mut Draft<'_>) -> Move {
    let snapshot = draft.facts.snapshot;
    let mut unsure = false;
    for (index, component) in snapshot.components.iter().enumerate() {
        if health::has_succeeded(draft, index) {
            continue; // also where the object is gone since: a recorded success stays
        }
        match health::is_missing(draft, index, component) {
            Some(false) => {}
            Some(true) => {
                let message = format!("{} is gone", component.title());
                let reason = unhealthy::MISSING_COMPONENT;
                let problem = Problem::of_component(draft, index, reason, &message);
                return problem::settle(here, draft, &problem);
            }
            None => unsure = true,
        }
    }
    if unsure {
        draft.ask(Ask::Missing);
        return here.stay();
    }
    if let Some(problem) = failed_component(draft) {
        return problem::settle(here, draft, &problem);
    }
    record_successes(draft);
    if all_succeeded(draft) {
        return succeed(here, draft);
    }
    let pod_sets = health::pod_sets(draft);
    let problems = problem::of_pods(draft, &pod_sets);
    note_readiness(draft, &pod_sets);
    if let Some(problem) = problem::most_urgent(draft, problems) {
        return problem::settle(here, draft, &problem);
    }
    draft.clear(condition::UNHEALTHY, unhealthy::FOUND_NO_FAILED_PODS, "");
    here.stay()
}

/// The first component that says that it failed.
fn failed_component(draft: &Draft<'_>) -> Option<Problem> {
    let snapshot = draft.facts.snapshot;
    let (_, index, reason, message) = snapshot
        .components
        .iter()
        .enumerate()
        .filter(|(index, component)| health::is_current(draft, *index, component))
        .filter_map(|(index, component)| match &component.ours()?.report.outcome {
            Outcome::Failed { reason, message, at } => Some((*at, index, reason, message)),
            Outcome::Active | Outcome::Succeeded => None,
        })
        .min_by_key(|(at, index, ..)| (at.is_none(), *at, *index))?;
    let component = &snapshot.components[index];
    let said = failure::of_component(component, reason, message);
    let text = format!("{} failed ({reason}): {message}", component.title());
    let mut problem = Problem::of_component(draft, index, unhealthy::FAILED_COMPONENT, &text);
    let pods = problem::failed_pods(snapshot, Some(index));
    problem.blame(pods.first().copied(), Some(component), said);
    Some(problem)
}

/// Writes down the components that say that they succeeded.
fn record_successes(draft: &mut Draft<'_>) {
    let now = draft.facts.now;
    for index in 0..draft.facts.snapshot.components.len() {
        let has_pods = !draft.facts.snapshot.components[index].pod_sets.is_empty();
        if has_pods && health::has_succeeded(draft, index) {
            let conditions = &mut draft.component_status()[index].conditions;
            let kind = condition::COMPONENT_SUCCEEDED;
            condition::set(conditions, kind, true, "ComponentSucceeded", "", now);
        }
    }
}

/// Whether every component with pods has succeeded, and no pod is left that has not ended.
fn all_succeeded(draft: &Draft<'_>) -> bool {
    let snapshot = draft.facts.snapshot;
    let mut with_pods =
        (0..snapshot.components.len()).filter(|i| !snapshot.components[*i].pod_sets.is_empty());
    let all = with_pods.clone().all(|index| health::has_succeeded(draft, index));
    // An AppWrapper that never has pods does not end by itself.
    let any = with_pods.next().is_some();
    let live = snapshot.pods.iter().any(|pod| {
        pod.terminating
            || matches!(pod.phase, PodPhase::Pending | PodPhase::Running | PodPhase::Unknown)
    });
    let early = bugs::is_present(Bug::SucceedEarly)
        && (0..snapshot.components.len()).any(|index| health::has_succeeded(draft, index));
    any && all && !live || early
}

fn succeed(here: At<Running>, draft: &mut Draft<'_>) -> Move {
    let message = "Every component has succeeded";
    draft.condition(condition::QUOTA_RESERVED, false, "Succeeded", message);
    draft.condition(condition::RESOURCES_DEPLOYED, true, "Succeeded", message);
    draft.clear(condition::UNHEALTHY, unhealthy::FOUND_NO_FAILED_PODS, "");
    attempts::outcome(draft, AttemptOutcome::Succeeded);
    attempts::end(draft);
    draft.status.since = Some(Since { succeeded: Some(draft.anchor()), ..Since::default() });
    draft.verdict.action = VerdictAction::Succeed;
    message.clone_into(&mut draft.verdict.message);
    if draft.facts.limits.success_ttl.is_zero() {
        draft.verdict.delete = teardown::deletable(draft);
    }
    here.to::<Succeeded>()
}

/// `PodsReady` and its anchors.
fn note_readiness(draft: &mut Draft<'_>, pod_sets: &[health::PodSetHealth<'_>]) {
    health::record_readiness(draft, pod_sets);
    if pod_sets.iter().all(health::PodSetHealth::ready) {
        let message = "Every expected pod runs or has succeeded";
        draft.condition(condition::PODS_READY, true, condition::ready::SUFFICIENT, message);
        if !pod_sets.is_empty() {
            attempts::ready(draft);
        }
    } else if condition::is_true(&draft.status.conditions, condition::PODS_READY) {
        let short: Vec<String> = pod_sets
            .iter()
            .filter(|set| !set.ready())
            .map(|set| format!("pod set {}: {} of {} pods", set.name(), set.running, set.expected))
            .collect();
        let reason = unhealthy::INSUFFICIENT_PODS_READY;
        draft.condition(condition::PODS_READY, false, reason, &short.join("; "));
    }
}

/// When it is seen to that what was swept away is on its way.
const SWEEP_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// What is swept away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stray {
    /// Everything: nothing is to be there.
    Any,
    /// Everything of another attempt than the running one.
    OfAnotherAttempt,
    /// Components that are not those whose UIDs were written down.
    Unrecorded,
}

/// Strays that should be gone for long are deleted by force.
fn force_overdue(draft: &mut Draft<'_>, is_stray: impl Fn(&Pod) -> bool) {
    let pods = draft.facts.snapshot.pods.iter();
    for pod in pods.filter(|pod| pod.terminating && is_stray(pod)) {
        let Some(overdue) = health::overdue_from(draft.facts, pod) else { continue };
        if draft.facts.now < overdue {
            draft.look_again(overdue);
        } else {
            draft.act(Action::ForceDeletePod { name: pod.name.clone(), uid: pod.uid.clone() });
            draft.look_again(draft.facts.limits.forceful_deletion_grace.after(draft.facts.now));
        }
    }
}

/// Deletes what a write that came too late has made; whether there was any.
pub(super) fn sweep(draft: &mut Draft<'_>, stray: Stray) -> bool {
    if bugs::is_present(Bug::NothingSwept) {
        return false;
    }
    let snapshot = draft.facts.snapshot;
    let attempt = attempts::current(&draft.status);
    let of_another = |number: Option<i32>| number.is_some_and(|number| number != attempt);
    let mut found = false;
    // a deletion that was refused is sent again
    let again = Period::from_duration(SWEEP_AGAIN_AFTER).after(draft.facts.now);
    for (component, index) in snapshot.components.iter().zip(0..) {
        let Some(object) = component.ours() else { continue };
        let sweeps = match stray {
            Stray::Any => true,
            Stray::OfAnotherAttempt => of_another(object.attempt),
            Stray::Unrecorded => !health::is_current(draft, index, component),
        };
        found |= sweeps;
        if sweeps && !object.terminating {
            draft.act(Action::Delete(Target { component: index, uid: object.uid.clone() }));
            draft.verdict.action = VerdictAction::Delete;
            draft.verdict.delete.push(index);
            draft.look_again(again);
        }
    }
    match stray {
        Stray::Any => force_overdue(draft, |_| true),
        Stray::OfAnotherAttempt => force_overdue(draft, |pod| of_another(pod.attempt)),
        Stray::Unrecorded => {}
    }
    found
        || match stray {
            Stray::Any => !snapshot.pods.is_empty(),
            Stray::OfAnotherAttempt => snapshot.pods.iter().any(|pod| of_another(pod.attempt)),
            Stray::Unrecorded => false,
        }
}
