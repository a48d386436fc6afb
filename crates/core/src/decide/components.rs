//! Components that come and go while the AppWrapper is Running: later steps, and those created again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::blockers::{blockers_of, name_blockers};
use super::deletion::{forced_again, named_from};
use super::draft::Draft;
use super::edges::{At, Move, Running};
use super::health::{self, PodSetHealth};
use super::steps::{self, ComponentStage};
use super::{VerdictAction, deploy, force_delete, orphans, pause, undetermined};
use crate::api::condition::deleting;
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead, Target};
use crate::snapshot::Presence;
use crate::tuning::Period;

/// Advances the components that are to be deleted or created.
///
/// # Errors
/// The move, if nothing else is to be evaluated: a read is needed first, or a creation ended it.
pub fn advance(here: At<Running>, draft: &mut Draft<'_>) -> Result<At<Running>, Move> {
    if !orphans::sweep_names(draft) {
        return Err(here.stay());
    }
    let count = draft.facts.snapshot.components.len();
    let of = |draft: &Draft<'_>, wanted: ComponentStage| -> Vec<usize> {
        (0..count).filter(|index| steps::standing(draft, *index) == wanted).collect()
    };
    for index in of(draft, ComponentStage::Going) {
        let remains =
            steps::remains(draft, index) && !mutations::is_present(Mutation::RecreateAtOnce);
        let mut fenced = force_delete::fenced(draft).filter(|pod| pod.component == Some(index));
        if remains && fenced.next().is_some() && draft.facts.snapshot.answered < FreshRead::Pods {
            // what is known of a node must be true now
            draft.ask(FreshRead::Pods);
            return Err(here.stay());
        }
        if remains {
            delete(draft, index);
        } else if draft.facts.snapshot.answered < FreshRead::Gone {
            draft.ask(FreshRead::Gone);
            return Err(here.stay());
        } else if !undetermined::hold_back_component(draft, index) {
            steps::begin(draft, &[index]);
            begin_pause(draft, index);
        }
    }
    let (there, absent): (Vec<usize>, Vec<usize>) = of(draft, ComponentStage::Coming)
        .into_iter()
        .partition(|index| deploy::exists(draft, &draft.facts.snapshot.components[*index]));
    for index in &there {
        steps::arrived(draft, *index);
    }
    if !there.is_empty() && !absent.iter().any(|index| pause_of(draft, *index).is_some()) {
        draft.status.retry_after = None;
    }
    create(here, draft, absent)
}

/// Creates components that are to come, each once its pause has ended and the earlier steps have reached their status.
fn create(
    here: At<Running>,
    draft: &mut Draft<'_>,
    absent: Vec<usize>,
) -> Result<At<Running>, Move> {
    let now = draft.facts.now;
    let pauses =
        |index: &usize| steps::paused_until(draft, *index).is_some_and(|until| now < until);
    let (pausing, due): (Vec<usize>, Vec<usize>) = absent.into_iter().partition(pauses);
    if let Some(until) = pausing.first().and_then(|index| steps::paused_until(draft, *index)) {
        draft.wait(until);
        draft.verdict.retry_after_seconds = Some(pause::left(draft));
        "Pausing before the component is recreated".clone_into(&mut draft.verdict.message);
    }
    if due.is_empty() {
        return Ok(here);
    }
    let pod_sets = begun_pod_sets(draft);
    let may_come = |index: &usize| steps::may_come(draft, *index, &pod_sets);
    let (due, held): (Vec<usize>, Vec<usize>) = due.into_iter().partition(may_come);
    for (indexes, is_held) in [(&held, true), (&due, false)] {
        for index in indexes {
            steps::hold(draft, *index, is_held);
        }
    }
    if due.is_empty() {
        return Ok(here);
    }
    // its creation has all its time from the end of the pause
    deploy::deploy(here, draft, &due, steps::comes_from)
}

/// Begins the pause of a component of which everything is gone. Those that pause at one time share the later end.
fn begin_pause(draft: &mut Draft<'_>, index: usize) {
    let until = pause_of(draft, index).map(|pause| Time(pause.after(draft.facts.anchor)));
    let pauses = |other: usize| {
        steps::standing(draft, other) == ComponentStage::Coming && pause_of(draft, other).is_some()
    };
    let count = draft.facts.snapshot.components.len();
    let shares = (0..count).any(|other| other != index && pauses(other));
    draft.status.retry_after = draft.status.retry_after.take().filter(|_| shares).max(until);
}

/// The pause before a component is created again, where its recreation is uncounted.
fn pause_of(draft: &Draft<'_>, index: usize) -> Option<Period> {
    pause::of_component(draft, index).map(Period::from_duration)
}

/// Deletes a component that is to be recreated, and force-deletes what does not go.
fn delete(draft: &mut Draft<'_>, index: usize) {
    let snapshot = draft.facts.snapshot;
    let grace = draft.facts.limits.forceful_deletion_grace;
    let forced_from = grace.after(steps::since(draft, index));
    let all_forced = draft.facts.now >= forced_from;
    if let Presence::Present(_) = snapshot.components[index].presence
        && let Some(object) = snapshot.components[index].ours()
    {
        let target = Target { component: index, uid: object.uid.clone() };
        if all_forced {
            draft.act(Action::ForceDelete(target));
        } else if !object.terminating {
            draft.act(Action::Delete(target));
        }
        draft.verdict.action = VerdictAction::Delete;
        draft.verdict.delete.push(index);
    }
    let forces = all_forced || force_delete::force_due(draft, Some(index));
    for pod in snapshot.pods.iter().filter(|pod| pod.component == Some(index)) {
        if all_forced {
            force_delete::force(draft, pod);
        } else if pod.detached && !pod.terminating {
            force_delete::delete(draft, pod);
        }
    }
    draft.look_again(if all_forced { forced_again(draft, forced_from) } else { forced_from });
    name_what_remains(draft, index, forces);
    draft.verdict.message =
        format!("Deleting {} before it is recreated", snapshot.components[index].title());
}

/// Names what keeps a component from going, once that takes long, or once something of it is force-deleted.
fn name_what_remains(draft: &mut Draft<'_>, index: usize, forces: bool) {
    let blockers = blockers_of(draft, Some(index));
    let named_from = named_from(draft, steps::since(draft, index));
    if forces {
        name_blockers(draft, &blockers, deleting::FORCED);
    } else if draft.facts.now < named_from {
        draft.look_again(named_from);
    } else {
        name_blockers(draft, &blockers, deleting::INITIATED);
    }
}

/// Begins the next step if the current one has reached the required status.
pub fn begin_next_step(draft: &mut Draft<'_>, pod_sets: &[PodSetHealth<'_>]) {
    let next = steps::next(draft, pod_sets);
    if next.is_empty() {
        return;
    }
    // A Job may be seen to count a pod before the pod is seen to have ended: it would count twice.
    if draft.facts.snapshot.answered < FreshRead::Pods {
        draft.ask(FreshRead::Pods);
        return;
    }
    steps::begin(draft, &next);
    draft.verdict.action = VerdictAction::Deploy;
    // what waits for progress is no longer the next thing that happens
    (draft.verdict.reason, draft.verdict.deadline) = (None, None);
    let steps = &draft.facts.snapshot.policies.steps;
    let step = next.first().map_or(0, |index| steps.step(*index));
    draft.verdict.message = format!("Starting step {} of {}", step + 1, steps.last() + 1);
    draft.verdict.create = next;
}

/// Whether every component was created, so that the AppWrapper can succeed.
pub fn all_are_up(draft: &Draft<'_>) -> bool {
    (0..draft.facts.snapshot.components.len())
        .all(|index| steps::standing(draft, index) == ComponentStage::Up)
}

/// The pod sets of components whose step has begun.
pub fn begun_pod_sets<'a>(draft: &Draft<'a>) -> Vec<PodSetHealth<'a>> {
    let mut pod_sets = health::pod_sets(draft);
    pod_sets.retain(|set| steps::standing(draft, set.component) != ComponentStage::Later);
    pod_sets
}
