//! Success: of components, one by one, and of the AppWrapper once no pod is left that has not ended.

use std::collections::{BTreeMap, BTreeSet};

use super::blockers::{of_pods, waiting_for};
use super::draft::Draft;
use super::edges::{At, Move, Running, Succeeded};
use super::problem::Problem;
use super::resolve::say_unhealthy;
use super::steps::{self, ComponentStage};
use super::{
    VerdictAction, attempts, components, deletion, force_delete, health, phases, teardown,
    undetermined,
};
use crate::api::condition::{self, unhealthy};
use crate::api::{AttemptOutcome, Since};
use crate::kinds::Kind;
use crate::mutations::{self, Mutation};
use crate::plan::FreshRead;
use crate::snapshot::{Component, End, Pod, PodPhase, Snapshot};
use crate::tuning::Period;

/// Why the last pods are waited for.
const ALL_SUCCEEDED: &str = "every component has succeeded";

/// How long pods may go on after every component has succeeded.
const LEFT_RUNNING_MAX: Period = Period::from_secs(60);
/// By how much the clock of the API server, which dates the creation of pods, may be ahead.
const CLOCK_AHEAD_MAX: Period = Period::from_secs(120);

/// Writes down the components that say that they succeeded.
pub(super) fn record_successes(draft: &mut Draft<'_>) {
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
pub(super) fn record_early_successes(draft: &mut Draft<'_>, first: &[usize]) {
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

/// Succeeds once every component with pods has, and no pod is left that has not ended.
///
/// # Errors
/// The move, where it succeeds, or waits only for what is left of its pods.
pub(super) fn unless_succeeded(
    here: At<Running>,
    draft: &mut Draft<'_>,
) -> Result<At<Running>, Move> {
    let snapshot = draft.facts.snapshot;
    let count = snapshot.components.len();
    let early = mutations::is_present(Mutation::SucceedEarly)
        && (0..count).any(|index| health::has_succeeded(draft, index));
    if !early && !have_all_succeeded(draft) {
        return Ok(here);
    }
    let is_left = |pod: &Pod| {
        pod.terminating && !pod.gone
            || matches!(pod.phase, PodPhase::Pending | PodPhase::Running | PodPhase::Unknown)
    };
    if !early && snapshot.pods.iter().any(is_left) {
        let forces = force_overdue_pods(draft, |_| true, ALL_SUCCEEDED);
        let acts = forces || end_last_pods(draft);
        return if acts { Err(here.stay()) } else { Ok(here) };
    }
    if snapshot.answered < FreshRead::Pods && !have_all_pods_ended(snapshot) {
        draft.ask(FreshRead::Pods);
        return Err(here.stay());
    }
    if undetermined::hold_back_success(draft) {
        return Err(here.stay());
    }
    Err(succeed(here, draft))
}

/// Whether every component with pods has succeeded. An AppWrapper that never has pods does not end by itself.
fn have_all_succeeded(draft: &Draft<'_>) -> bool {
    let components = draft.facts.snapshot.components.iter().enumerate();
    let mut with_pods = components.filter(|(_, component)| !component.pod_sets.is_empty());
    with_pods.clone().any(|(_, component)| tells_of_success(component))
        && with_pods.all(|(index, _)| health::has_succeeded(draft, index))
        && components::all_are_up(draft)
}

/// Whether the success of a component can be told: by its kind, or by the pods that it has.
fn tells_of_success(component: &Component) -> bool {
    component.end != End::Unknown || component.pod_sets.iter().any(|set| set.count() > 0)
}

/// Whether the pods that have succeeded are as many as are declared: then no other runs that a watch has not shown yet.
fn have_all_pods_ended(snapshot: &Snapshot) -> bool {
    let mut succeeded: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    for pod in attempts::pods(snapshot).filter(|pod| pod.phase == PodPhase::Succeeded) {
        if let Some(place) = pod.component.zip(pod.pod_set) {
            *succeeded.entry(place).or_default() += 1;
        }
    }
    let components = snapshot.components.iter().enumerate();
    let mut declared = components.flat_map(|(index, component)| {
        let pod_sets = component.pod_sets.iter().enumerate();
        pod_sets.map(move |(pod_set, declared)| ((index, pod_set), i64::from(declared.count())))
    });
    declared.all(|(place, count)| succeeded.get(&place).copied().unwrap_or_default() >= count)
}

/// Deletes the pods that go on after every component has succeeded, such as the workers of an `MPIJob`: its operator leaves
/// them, unless `cleanPodPolicy` says otherwise. A pod that was created more than 2 minutes later stays, and so do those of a
/// cluster that its RayJob keeps: what makes them would make others. The others have 1 minute from the success, or from the
/// creation of the last of them if that is later: what makes them again is not followed at its pace.
/// Source: `docs/user/policies.md#when`.
fn end_last_pods(draft: &mut Draft<'_>) -> bool {
    let facts = draft.facts;
    let succeeded = draft.status.component_status.iter().filter_map(|component| {
        condition::since(&component.conditions, condition::COMPONENT_SUCCEEDED)
    });
    let Some(succeeded) = succeeded.max() else { return false };
    let still_runs = |pod: &&Pod| {
        let is_of_component = pod
            .component
            .and_then(|index| facts.snapshot.components.get(index))
            .is_some_and(|component| {
                let kind = Kind::of_any_version(&component.api_version, &component.kind);
                let is_kept = component.ours().is_some() && kind.makes_cluster();
                !component.pod_sets.is_empty() && !is_kept
            });
        is_of_component
            && !pod.terminating
            && !pod.has_ended()
            && pod.created.is_some_and(|created| created <= CLOCK_AHEAD_MAX.after(succeeded))
    };
    let left: Vec<&Pod> = facts.snapshot.pods.iter().filter(still_runs).collect();
    let Some(last) = left.iter().filter_map(|pod| pod.created).max() else { return false };
    let due = LEFT_RUNNING_MAX.after(last.max(succeeded));
    if facts.now < due {
        draft.look_again(due);
        return false;
    }
    delete_last(draft, left, force_delete::delete, ALL_SUCCEEDED);
    true
}

/// Force-deletes the pods that stay Terminating in pod sets of which their components expect no pod now. A component may
/// wait until they are gone: a Job whose other pods have done all its work, a Volcano Job that restarts or ends. Returns true
/// if it does, or if it asks for a LIST of the pods first. Source: `docs/user/policies.md#pods-that-stay-terminating`.
pub(super) fn force_unexpected_pods(
    draft: &mut Draft<'_>,
    pod_sets: &[health::PodSetHealth<'_>],
) -> bool {
    let components = &draft.facts.snapshot.components;
    // a watch may still show what an object of an earlier attempt expects
    let expects_none = |set: &&health::PodSetHealth<'_>| {
        !set.done
            && set.expected == 0
            && steps::standing(draft, set.component) == ComponentStage::Up
            && health::is_current(draft, set.component, &components[set.component])
    };
    let empty: BTreeSet<(usize, usize)> =
        pod_sets.iter().filter(expects_none).map(|set| (set.component, set.pod_set)).collect();
    if empty.is_empty() {
        return false;
    }
    let is_unexpected = |pod: &Pod| {
        !pod.gone
            && !pod.held_by_finalizers
            && pod.component.zip(pod.pod_set).is_some_and(|place| empty.contains(&place))
    };
    force_overdue_pods(draft, is_unexpected, "no pod of its pod set is expected now")
}

/// Force-deletes the Terminating pods that are waited for, since their kubelets do not respond: what a teardown does after
/// the same time. Returns true if it does, or if it asks for a LIST of the pods first. Source:
/// `docs/user/policies.md#when`.
fn force_overdue_pods(
    draft: &mut Draft<'_>,
    is_waited_for: impl Fn(&Pod) -> bool,
    why: &str,
) -> bool {
    let facts = draft.facts;
    let overdue_from = |pod: &Pod| health::overdue_from(facts, pod).filter(|at| *at <= facts.now);
    let is_forced = |pod: &&Pod| overdue_from(pod).is_some() || force_delete::is_fenced(facts, pod);
    let pods = facts.snapshot.pods.iter();
    let terminating = pods.filter(|pod| pod.terminating && is_waited_for(pod));
    let (forced, others): (Vec<&Pod>, Vec<&Pod>) = terminating.partition(is_forced);
    // no event says when another one becomes overdue
    if let Some(next) = others.iter().filter_map(|pod| health::overdue_from(facts, pod)).min() {
        draft.look_again(next);
    }
    if forced.is_empty() {
        return false;
    }
    let since = forced.iter().filter_map(|pod| overdue_from(pod)).min().unwrap_or(facts.now);
    if let Some(first) = delete_last(draft, forced, force_delete::force, why) {
        let problem = Problem::of_pod(facts, first, unhealthy::STUCK_TERMINATING);
        let message = draft.verdict.message.clone();
        say_unhealthy(draft, &Problem { message, ..problem });
        draft.look_again(deletion::forced_again(draft, since));
    }
    true
}

/// Deletes the pods that are waited for, once a LIST has confirmed them, and says so and why; the first of them by name.
fn delete_last<'a>(
    draft: &mut Draft<'a>,
    mut pods: Vec<&'a Pod>,
    delete: fn(&mut Draft<'_>, &Pod),
    why: &str,
) -> Option<&'a Pod> {
    let snapshot = draft.facts.snapshot;
    if snapshot.answered < FreshRead::Pods {
        draft.ask(FreshRead::Pods);
        return None;
    }
    pods.sort_by(|one, other| one.name.cmp(&other.name));
    for pod in &pods {
        delete(draft, pod);
    }
    let waiting = waiting_for(&of_pods(snapshot, &pods));
    draft.verdict.action = VerdictAction::Delete;
    // what waits for progress is no longer the next thing that happens
    (draft.verdict.reason, draft.verdict.deadline) = (None, None);
    draft.verdict.message = format!("{waiting}; {why}");
    pods.first().copied()
}

fn succeed(here: At<Running>, draft: &mut Draft<'_>) -> Move {
    let message = "Every component has succeeded";
    draft.condition(condition::QUOTA_RESERVED, false, "Succeeded", message);
    draft.condition(condition::RESOURCES_DEPLOYED, true, "Succeeded", message);
    // pods may start and end before a status tells of it
    phases::say_ready(draft);
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
