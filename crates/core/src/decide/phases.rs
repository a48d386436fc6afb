//! The phases on the way up: Empty, Suspended, Resuming, Running.

use std::rc::Rc;

use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::edges::{At, Empty, Move, Resuming, Running, Succeeded, Suspended};
use super::health::PodSetHealth;
use super::orphans::{Orphans, sweep};
use super::policy::Judged;
use super::problem::{self, Problem};
use super::steps::{self, ComponentStage};
use super::{
    VerdictAction, attempts, budget, components, deploy, failed, health, notices, pods, progress,
    requeue, resolve, retry, suspicion, teardown, undetermined,
};
use crate::api::condition::{self, unhealthy};
use crate::api::{AttemptOutcome, Since};
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead};
use crate::snapshot::{PodPhase, Presence};

/// First reconcile: the components are inspected.
pub(super) fn empty(here: At<Empty>, draft: &mut Draft<'_>) -> Move {
    let suspend = draft.facts.snapshot.suspend;
    let is_held = suspend || requeue::is_inactive(draft);
    if !is_held && !resume(draft, "Suspend is false") {
        return here.stay(); // the finalizer first; a status of its own would be one write too many
    }
    draft.component_status();
    for component in &draft.facts.snapshot.components {
        if let Some(flaw) = &component.flaw {
            draft.warn(unhealthy::CREATE_FAILED, flaw.clone());
        }
    }
    if is_held {
        notices::invalid_policies(draft);
        let why = if suspend { "Suspend is true" } else { "It is inactive" };
        why.clone_into(&mut draft.verdict.message);
        return here.to::<Suspended>();
    }
    here.to::<Resuming>()
}

/// Nothing is deployed.
pub(super) fn suspended(here: At<Suspended>, draft: &mut Draft<'_>) -> Move {
    let suspend = draft.facts.snapshot.suspend;
    // A leader that had lost its lease may have created something after all was gone; no attempt follows that finds it.
    if (suspend || requeue::is_inactive(draft)) && sweep(draft, Orphans::Any) {
        return here.stay();
    }
    if requeue::return_to_queue(draft) || suspend {
        return here.stay();
    }
    // the delay of a retry that Kueue had to admit again
    let until = draft.status.retry_after.as_ref().map(|time| time.0);
    if let Some(until) = until.filter(|until| draft.facts.now < *until) {
        draft.wait(until);
        "Pausing before the next attempt".clone_into(&mut draft.verdict.message);
        return here.stay();
    }
    if resume(draft, "Suspend is false") { here.to::<Resuming>() } else { here.stay() }
}

/// Opens the next attempt, once the finalizer is there.
pub(super) fn resume(draft: &mut Draft<'_>, message: &str) -> bool {
    draft.verdict.action = VerdictAction::Deploy;
    message.clone_into(&mut draft.verdict.message);
    let steps = &draft.facts.snapshot.policies.steps;
    let all = 0..draft.facts.snapshot.components.len();
    draft.verdict.create = all.filter(|index| steps.step(*index) == 0).collect();
    if !draft.facts.snapshot.finalizer && !mutations::is_present(Mutation::FinalizerLate) {
        draft.act(Action::AddFinalizer);
        return false;
    }
    if retry::is_growth_due(draft) {
        // Kueue has admitted it with another size, where the growth had to wait for the retry policies to be listed
        let suspend = draft.facts.snapshot.queue_managed;
        draft.act(Action::GrowMemory { suspend });
        retry::GROWING.clone_into(&mut draft.verdict.message);
        return false;
    }
    retry::end_growth(draft);
    for status in draft.component_status() {
        status.uid = None;
        status.pod_owners.clear();
        status.conditions.clear();
    }
    let reason = "Resuming";
    draft.condition(condition::QUOTA_RESERVED, true, reason, message);
    draft.condition(condition::RESOURCES_DEPLOYED, true, reason, message);
    draft.condition(condition::PODS_READY, false, reason, message);
    draft.condition(condition::UNHEALTHY, false, reason, message);
    draft.clear(condition::DELETING_RESOURCES, condition::deleting::COMPLETE, "");
    attempts::open(draft);
    suspicion::avoid(draft);
    draft.status.retry_after = None;
    draft.status.requeue = None;
    draft.status.since = Some(Since { deployed: Some(draft.anchor()), ..Since::default() });
    notices::invalid_policies(draft);
    true
}

/// The components of the first step are being created.
pub(super) fn resuming(here: At<Resuming>, draft: &mut Draft<'_>) -> Move {
    let here = match requeue::end_inactive(here, draft) {
        Ok(here) => here,
        Err(moved) => return moved,
    };
    let snapshot = draft.facts.snapshot;
    let steps = &snapshot.policies.steps;
    let first: Vec<usize> =
        (0..snapshot.components.len()).filter(|index| steps.step(*index) == 0).collect();
    record_early_successes(draft, &first);
    let mut open = first.clone();
    open.retain(|index| !health::is_success_recorded(draft, *index));
    let here = match deploy::unless_hopeless(here, draft, &open) {
        Ok(here) => here,
        Err(moved) => return moved,
    };
    if snapshot.finalizer && sweep(draft, Orphans::OfAnotherAttempt) {
        "Waiting for objects of an earlier attempt to be deleted"
            .clone_into(&mut draft.verdict.message);
        return here.stay();
    }
    let is_absent = |index: &usize| !deploy::exists(draft, &snapshot.components[*index]);
    let absent: Vec<usize> = open.iter().copied().filter(is_absent).collect();
    if absent.is_empty() {
        return deployed(here, draft, &first);
    }
    if !snapshot.finalizer && !mutations::is_present(Mutation::FinalizerLate) {
        draft.act(Action::AddFinalizer);
        draft.verdict.action = VerdictAction::Deploy;
        draft.verdict.create = absent;
        return here.stay();
    }
    let since = |draft: &Draft<'_>, _| deployed_since(draft);
    match deploy::deploy(here, draft, &absent, since) {
        Ok(here) => here.stay(),
        Err(moved) => moved,
    }
}

fn deployed_since(draft: &Draft<'_>) -> Timestamp {
    let stored = draft.status.since.as_ref().and_then(|since| since.deployed.as_ref());
    stored
        .map(|time| time.0)
        .or_else(|| condition::since(&draft.status.conditions, condition::RESOURCES_DEPLOYED))
        .unwrap_or(draft.facts.now)
}

/// Every component of the first step exists: their UIDs are written down.
fn deployed(here: At<Resuming>, draft: &mut Draft<'_>, first: &[usize]) -> Move {
    let now = draft.facts.now;
    let snapshot = draft.facts.snapshot;
    let entries = draft.component_status().iter_mut().zip(&snapshot.components).enumerate();
    for (index, (status, component)) in entries {
        status.name.clone_from(&component.name);
        status.kind.clone_from(&component.kind);
        status.api_version.clone_from(&component.api_version);
        if first.contains(&index) {
            let uid = component.ours().map(|object| object.uid.clone());
            status.uid = uid.or_else(|| status.uid.take()); // one that has succeeded may be gone
            let (kind, reason) = (condition::RESOURCES_DEPLOYED, "ComponentCreatedSuccessfully");
            condition::set(&mut status.conditions, kind, true, reason, "", now);
        }
    }
    draft.clear(condition::UNHEALTHY, unhealthy::FOUND_NO_FAILED_PODS, "");
    let pod_sets = components::begun_pod_sets(draft);
    note_readiness(draft, &pod_sets);
    let all = first.len() == snapshot.components.len();
    let what = if all { "All components exist" } else { "All components of the first step exist" };
    what.clone_into(&mut draft.verdict.message);
    here.to::<Running>()
}

/// The components exist, or come and go, and are watched.
pub(super) fn running(here: At<Running>, draft: &mut Draft<'_>) -> Move {
    let here = match requeue::end_inactive(here, draft)
        .and_then(|here| components::advance(here, draft))
    {
        Ok(here) => here,
        Err(moved) => return moved,
    };
    // whatever else is wrong or waited for: the object may be gone at the next look
    record_successes(draft);
    let judged = failed::judge(draft);
    notices::ignored_failures(draft, &judged);
    let pod_sets = components::begun_pod_sets(draft);
    // what the administrator's policies say of the first cause comes before anything that is the matter else
    let overruled = pods::overruled_pod(draft, &judged, &pod_sets);
    if let Some(problem) = overruled.filter(|problem| !problem.may_return) {
        return resolve::resolve(here, draft, &problem);
    }
    match missing_component(draft, &judged, &pod_sets) {
        Ok(None) => {}
        Ok(Some(problem)) => return resolve::resolve(here, draft, &problem),
        Err(Unsure) => {
            draft.ask(FreshRead::Missing);
            return here.stay();
        }
    }
    if let Some(problem) = failed::failed_component(draft, &judged, &pod_sets) {
        return resolve::resolve(here, draft, &problem);
    }
    if all_succeeded(draft) {
        return if undetermined::hold_back_success(draft) {
            here.stay()
        } else {
            succeed(here, draft)
        };
    }
    draft.clear(condition::UNDETERMINED_PODS, "NotWaiting", "");
    let mut problems = pods::of_pods(draft, &judged, &pod_sets);
    note_readiness(draft, &pod_sets);
    problems.extend(progress::stalled(draft, &pod_sets));
    progress::watch(draft, &pod_sets);
    if let Some(problem) = problem::most_urgent(draft, problems) {
        return resolve::resolve(here, draft, &problem);
    }
    if budget::refill(draft, draft.facts.now) {
        return here.stay();
    }
    if let Some(next) = budget::next_refill(&draft.status, draft.facts) {
        draft.look_again(next);
    }
    if !has_trouble_coming(draft) {
        draft.clear(condition::UNHEALTHY, unhealthy::FOUND_NO_FAILED_PODS, "");
        components::begin_next_step(draft, &pod_sets);
    }
    here.stay()
}

/// Whether a component that is to come or go keeps the AppWrapper from being healthy.
fn has_trouble_coming(draft: &Draft<'_>) -> bool {
    let snapshot = draft.facts.snapshot;
    (0..snapshot.components.len()).any(|index| match steps::standing(draft, index) {
        ComponentStage::Going => true,
        ComponentStage::Coming => {
            let component = &snapshot.components[index];
            let in_the_way = matches!(component.presence, Presence::Present(_));
            in_the_way || component.creation.is_some()
        }
        ComponentStage::Later | ComponentStage::Up => false,
    })
}

/// A component that is not seen may be there all the same.
struct Unsure;

/// The first component that was created and is gone.
fn missing_component<'a>(
    draft: &Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
) -> Result<Option<Problem<'a>>, Unsure> {
    let snapshot = draft.facts.snapshot;
    let mut unsure = false;
    for (index, component) in snapshot.components.iter().enumerate() {
        // a recorded success stays, also where the object is gone since
        let created = steps::standing(draft, index) == ComponentStage::Up;
        if !created || health::has_succeeded(draft, index) {
            continue;
        }
        match health::is_missing(draft, index, component) {
            Some(false) => {}
            Some(true) => {
                return Ok(Some(failed::missing_component(draft, judged, pod_sets, index)));
            }
            None => unsure = true,
        }
    }
    if unsure { Err(Unsure) } else { Ok(None) }
}

/// Writes down the components that say that they succeeded.
fn record_successes(draft: &mut Draft<'_>) {
    for index in 0..draft.facts.snapshot.components.len() {
        let has_pods = !draft.facts.snapshot.components[index].pod_sets.is_empty();
        // what is to be created again has not done its work
        let up = steps::standing(draft, index) == ComponentStage::Up;
        if up && has_pods && health::has_succeeded(draft, index) {
            record_success(draft, index);
        }
    }
}

/// The same of components of the first step while others are still to come: their objects may be gone by then.
fn record_early_successes(draft: &mut Draft<'_>, first: &[usize]) {
    for index in first.iter().copied() {
        let component = &draft.facts.snapshot.components[index];
        if !component.pod_sets.is_empty() && health::has_succeeded(draft, index) {
            record_success(draft, index);
            let uid = component.ours().map(|object| object.uid.clone());
            let status = &mut draft.component_status()[index];
            status.uid = status.uid.take().or(uid);
        }
    }
}

fn record_success(draft: &mut Draft<'_>, index: usize) {
    let now = draft.facts.now;
    let conditions = &mut draft.component_status()[index].conditions;
    let kind = condition::COMPONENT_SUCCEEDED;
    condition::set(conditions, kind, true, "ComponentSucceeded", "", now);
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
    let early = mutations::is_present(Mutation::SucceedEarly)
        && (0..snapshot.components.len()).any(|index| health::has_succeeded(draft, index));
    any && all && !live && components::all_are_up(draft) || early
}

fn succeed(here: At<Running>, draft: &mut Draft<'_>) -> Move {
    let message = "Every component has succeeded";
    draft.condition(condition::QUOTA_RESERVED, false, "Succeeded", message);
    draft.condition(condition::RESOURCES_DEPLOYED, true, "Succeeded", message);
    draft.clear(condition::UNDETERMINED_PODS, "Succeeded", "");
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
    let ready = pod_sets.iter().all(health::PodSetHealth::ready);
    if !ready && draft.facts.snapshot.undetermined.incomplete {
        return; // some of our pods are not known as such yet
    }
    health::record_readiness(draft, pod_sets);
    if ready {
        let message = "Every expected pod is running or has succeeded";
        draft.condition(condition::PODS_READY, true, condition::ready::SUFFICIENT, message);
        // pods of later steps are expected, too, before the attempt has made progress
        if !pod_sets.is_empty() && components::all_are_up(draft) {
            attempts::ready(draft);
        }
    } else if condition::is_true(&draft.status.conditions, condition::PODS_READY) {
        let short: Vec<String> = pod_sets
            .iter()
            .filter(|set| !set.ready())
            .map(|set| {
                format!("pod set {}: {} of {} pods running", set.name(), set.running, set.expected)
            })
            .collect();
        let reason = unhealthy::INSUFFICIENT_PODS_READY;
        draft.condition(condition::PODS_READY, false, reason, &short.join("; "));
    }
}
