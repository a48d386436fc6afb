//! The phases of an AppWrapper until it runs, and while it does: Empty, Suspended, Resuming, Running.

use std::rc::Rc;

use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::edges::{At, Empty, Move, Resuming, Running, Suspended};
use super::health::PodSetHealth;
use super::orphans::{Orphans, sweep};
use super::policy::{Judged, RulingAction};
use super::problem::{self, Problem};
use super::steps::{self, ComponentStage};
use super::{
    VerdictAction, attempts, budget, components, deploy, failed, health, notices, pods, progress,
    requeue, resolve, retry, success, suspicion,
};
use crate::api::Since;
use crate::api::condition::{self, unhealthy};
use crate::api::keys;
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead};
use crate::snapshot::{Object, Outcome};

/// First reconcile: the components are inspected.
pub(super) fn empty(here: At<Empty>, draft: &mut Draft<'_>) -> Move {
    let suspend = draft.facts.snapshot.suspend;
    let is_held = suspend || requeue::is_inactive(draft);
    if !is_held && !resume(draft, "spec.suspend is false") {
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
        draft.verdict.message = if suspend {
            "spec.suspend is true".to_owned()
        } else {
            format!("Annotation {} is false", keys::ACTIVE)
        };
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
        // what such a leader created would run until then
        if sweep(draft, Orphans::Any) {
            draft.look_again(until);
        } else {
            draft.wait(until);
        }
        "Pausing before the next attempt".clone_into(&mut draft.verdict.message);
        return here.stay();
    }
    if resume(draft, "spec.suspend is false") { here.to::<Resuming>() } else { here.stay() }
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
    retry::recheck_avoided_nodes(draft);
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
    success::record_early_successes(draft, &first);
    let mut open = first.clone();
    open.retain(|index| !health::is_success_recorded(draft, *index));
    let here = match deploy::unless_hopeless(here, draft, &open) {
        Ok(here) => here,
        Err(moved) => return moved,
    };
    if snapshot.finalizer && sweep(draft, Orphans::OfAnotherAttempt) {
        // the time of the pods that are to come does not run yet
        draft.since().deployed = None;
        "Waiting for objects of an earlier attempt to be deleted"
            .clone_into(&mut draft.verdict.message);
        return here.stay();
    }
    let is_dated = snapshot.status.since.as_ref().is_some_and(|since| since.deployed.is_some());
    if !is_dated && !snapshot.status.attempts.is_empty() {
        draft.since().deployed = Some(draft.anchor());
        return here.stay(); // nothing of an earlier attempt is left, and the attempt begins
    }
    let is_absent = |index: &usize| !deploy::exists(draft, &snapshot.components[*index]);
    let absent: Vec<usize> = open.iter().copied().filter(is_absent).collect();
    if absent.is_empty() {
        return deployed(here, draft, &first);
    }
    let here = match unless_failed_early(here, draft, &open) {
        Ok(here) => here,
        Err(moved) => return moved,
    };
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

/// Decides about a component of the first step that failed while others are still to come: its object may be gone by then,
/// and would be created again, uncounted. One that a rule recreates waits until all of them exist. A pod that fails the
/// AppWrapper does so whatever becomes of its component. A wrapped Pod is decided about when it is due, and holds no
/// creation back until then.
///
/// # Errors
/// The move, where one failed, or a read is needed first.
fn unless_failed_early(
    here: At<Resuming>,
    draft: &mut Draft<'_>,
    open: &[usize],
) -> Result<At<Resuming>, Move> {
    let snapshot = draft.facts.snapshot;
    for index in open.iter().copied() {
        let component = &snapshot.components[index];
        let object = component.ours().filter(|_| health::is_current(draft, index, component));
        let failed = |object: &&Object| {
            matches!(object.report.outcome, Outcome::Failed { .. })
                || pods::has_failed_itself(snapshot, component)
        };
        if let Some(object) = object.filter(failed) {
            draft.component_status()[index].uid = Some(object.uid.clone());
        }
    }
    let is_recorded = |index: &usize| {
        draft.status.component_status.get(*index).is_some_and(|status| status.uid.is_some())
    };
    let failed: Vec<usize> = open.iter().copied().filter(is_recorded).collect();
    let judged = failed::judge(draft);
    let pod_sets = components::begun_pod_sets(draft);
    // the component may replace the pod, and succeed before the others exist
    let fatal = judged.fatal.and_then(|_| pods::fatal_pod(draft, &judged, &pod_sets));
    if failed.is_empty() && fatal.is_none() {
        return Ok(here);
    }
    notices::ignored_failures(draft, &judged);
    let Ok(missing) = missing_component(draft, &judged, &pod_sets, &failed) else {
        draft.ask(FreshRead::Missing);
        return Err(here.stay());
    };
    let problem = missing.or_else(|| failed::failed_component(draft, &judged, &pod_sets));
    let problem = problem.or(fatal).filter(|problem| is_about_all(draft, problem));
    let problem = problem.or_else(|| {
        let of_pod = failed_pod_that_is_due(draft, &judged);
        of_pod.filter(|problem| is_about_all(draft, problem))
    });
    match problem {
        Some(problem) => Err(resolve::resolve(here, draft, &problem)),
        None => Ok(here),
    }
}

/// Whether the whole AppWrapper ends or is restarted because of a problem; otherwise, one component is recreated.
fn is_about_all(draft: &Draft<'_>, problem: &Problem<'_>) -> bool {
    match problem.ruling(draft).action {
        RulingAction::RecreateComponent(_) => false,
        RulingAction::Restart | RulingAction::RestartIgnoringLimit | RulingAction::Fail => true,
    }
}

/// A wrapped Pod that failed, once what is to follow is due: until then, it is looked at again. A failed pod of another
/// component does not keep it from that.
fn failed_pod_that_is_due<'a>(
    draft: &mut Draft<'a>,
    judged: &Rc<Judged<'a>>,
) -> Option<Problem<'a>> {
    let snapshot = draft.facts.snapshot;
    let mut own = components::begun_pod_sets(draft);
    own.retain(|set| pods::has_failed_itself(snapshot, &snapshot.components[set.component]));
    if own.is_empty() {
        return None;
    }
    let problem = pods::failed_component_pod(draft, judged, &own)?;
    let due = problem.due(draft, &problem.ruling(draft));
    let Some(due) = due.filter(|due| draft.facts.now < *due) else { return Some(problem) };
    draft.look_again(due);
    None
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
    success::record_successes(draft);
    let judged = failed::judge(draft);
    notices::ignored_failures(draft, &judged);
    let pod_sets = components::begun_pod_sets(draft);
    // what the administrator's policies say of the first cause comes before anything that is the matter else
    let overruled = pods::overruled_pod(draft, &judged, &pod_sets);
    if let Some(problem) = overruled.filter(|problem| !problem.may_return) {
        return resolve::resolve(here, draft, &problem);
    }
    // a recorded success stays, also where the object is gone since
    let is_created = |index: &usize| {
        steps::standing(draft, *index) == ComponentStage::Up
            && !health::has_succeeded(draft, *index)
    };
    let created: Vec<usize> =
        (0..draft.facts.snapshot.components.len()).filter(is_created).collect();
    match missing_component(draft, &judged, &pod_sets, &created) {
        Ok(None) => {}
        Ok(Some(problem)) => return resolve::resolve(here, draft, &problem),
        Err(Unsure) => {
            draft.ask(FreshRead::Missing);
            return here.stay();
        }
    }
    if let Some(problem) = failed::failed_component(draft, &judged, &pod_sets) {
        let moved = resolve::resolve(here, draft, &problem);
        let is_short = pod_sets.iter().any(|set| !is_ready(draft, set));
        if is_short && !draft.verdict.action.handles_failure() {
            say_short(draft, &pod_sets);
        }
        return moved;
    }
    let here = match success::unless_succeeded(here, draft) {
        Ok(here) => here,
        Err(moved) => return moved,
    };
    draft.clear(condition::UNDETERMINED_PODS, "NotWaiting", "");
    let mut problems = pods::of_pods(draft, &judged, &pod_sets);
    note_readiness(draft, &pod_sets);
    problems.extend(progress::stalled(draft, &pod_sets));
    progress::watch(draft, &pod_sets);
    if let Some(problem) = problem::most_urgent(draft, &mut problems) {
        resolve::say_present(draft, &problem, &problems);
        return resolve::resolve(here, draft, &problem);
    }
    go_on(draft, &pod_sets);
    here.stay()
}

/// What is done while nothing is wrong that the policies decide about: Terminating pods that no component expects are
/// force-deleted in the end, restarts are given back, and the next step begins.
fn go_on(draft: &mut Draft<'_>, pod_sets: &[PodSetHealth<'_>]) {
    let trouble = has_trouble_coming(draft, pod_sets);
    // what keeps a component from coming or going is told, and its deadline stays
    let forces = !trouble && success::force_unexpected_pods(draft, pod_sets);
    if draft.asks() || budget::refill(draft, draft.facts.now) {
        return;
    }
    if let Some(next) = budget::next_refill(&draft.status, draft.facts) {
        draft.look_again(next);
    }
    if trouble {
        return;
    }
    if !forces {
        draft.clear(condition::UNHEALTHY, unhealthy::FOUND_NO_FAILED_PODS, "");
    }
    components::begin_next_step(draft, pod_sets);
}

/// Whether a component that is to come or go keeps the AppWrapper from being healthy. Nothing is tried of one that waits for
/// an earlier step, unless it was blocked before, and its time is not over.
fn has_trouble_coming(draft: &Draft<'_>, pod_sets: &[PodSetHealth<'_>]) -> bool {
    let count = draft.facts.snapshot.components.len();
    (0..count).any(|index| match steps::standing(draft, index) {
        ComponentStage::Going => true,
        ComponentStage::Coming => {
            deploy::is_blocked(draft, index)
                && (steps::may_come(draft, index, pod_sets)
                    || steps::blocked_until(draft, index).is_some())
        }
        ComponentStage::Later | ComponentStage::Up => false,
    })
}

/// A component that is not seen may be there all the same.
struct Unsure;

/// The first of the components that were created and have not succeeded, which is gone; or what failed beside it, if an
/// overriding RetryPolicy fails the AppWrapper for that.
fn missing_component<'a>(
    draft: &Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
    created: &[usize],
) -> Result<Option<Problem<'a>>, Unsure> {
    let components = &draft.facts.snapshot.components;
    let mut unsure = false;
    for index in created.iter().copied() {
        match health::is_missing(draft, index, &components[index]) {
            Some(false) => {}
            Some(true) => {
                let problem = failed::missing_component(draft, judged, pod_sets, index);
                let overruled = pods::overruled_beside_missing(draft, judged, pod_sets);
                let overruled =
                    overruled.filter(|other| problem.pod.is_none() || other.is_before(&problem));
                return Ok(Some(overruled.unwrap_or(problem)));
            }
            None => unsure = true,
        }
    }
    if unsure { Err(Unsure) } else { Ok(None) }
}

/// `PodsReady` is True.
pub(super) fn say_ready(draft: &mut Draft<'_>) {
    let message = "Every expected pod is running or has succeeded";
    draft.condition(condition::PODS_READY, true, condition::ready::SUFFICIENT, message);
}

/// `PodsReady` and its anchors.
fn note_readiness(draft: &mut Draft<'_>, pod_sets: &[health::PodSetHealth<'_>]) {
    // a Job that has failed by its indexes expects no pod, and neither does a step without pods
    let ready = pod_sets.iter().all(|set| is_ready(draft, set))
        && (!pod_sets.is_empty() || components::all_are_up(draft));
    if !ready && draft.facts.snapshot.undetermined.incomplete {
        return; // some of our pods are not known as such yet
    }
    health::record_readiness(draft, pod_sets);
    if ready {
        say_ready(draft);
        // pods of later steps are expected, too, before the attempt has made progress
        if !pod_sets.is_empty() && components::all_are_up(draft) {
            attempts::ready(draft);
        }
    } else {
        say_short(draft, pod_sets);
    }
}

fn is_ready(draft: &Draft<'_>, set: &PodSetHealth<'_>) -> bool {
    set.ready() && steps::standing(draft, set.component) != ComponentStage::Going
}

/// `PodsReady` is False where it was True, also while a failed component is waited for: it may expect fewer pods, so that
/// nothing else of its readiness is written down then.
fn say_short(draft: &mut Draft<'_>, pod_sets: &[PodSetHealth<'_>]) {
    let is_true = condition::is_true(&draft.status.conditions, condition::PODS_READY);
    if !is_true || draft.facts.snapshot.undetermined.incomplete {
        return;
    }
    let short = pod_sets.iter().filter(|set| !is_ready(draft, set)).map(|set| {
        format!("pod set {}: {} of {} pods running", set.name(), set.running, set.expected)
    });
    let short: Vec<String> = short.collect();
    let reason = unhealthy::INSUFFICIENT_PODS_READY;
    draft.condition(condition::PODS_READY, false, reason, &short.join("; "));
}
