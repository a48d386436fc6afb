//! Creating components: those of the first step in Resuming, all others in Running.

use k8s_openapi::jiff::Timestamp;

use super::blockers::first_named;
use super::draft::Draft;
use super::edges::{At, Edge, Failed, Move, Resetting, Suspending};
use super::problem::Problem;
use super::{VerdictAction, attempts, components, failed, pods, resolve, steps};
use crate::api::condition::{self, unhealthy};
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead};
use crate::snapshot::{Component, Owner, Pod, Presence, Snapshot};
use crate::tuning::Period;

/// How often it is looked whether a name is free again.
const NAME_CHECK_INTERVAL: Period = Period::from_secs(5);

/// How long the pods of a component that was deleted may take before that is worth saying.
const LEFT_BEHIND_AFTER: Period = Period::from_secs(10);

/// Creates missing components; `admissionGracePeriod` runs for each of them separately.
///
/// # Errors
/// The move, where something ends the creation: it is hopeless, or failed for too long.
pub fn deploy<P>(
    here: At<P>,
    draft: &mut Draft<'_>,
    absent: &[usize],
    since: impl Fn(&Draft<'_>, usize) -> Timestamp,
) -> Result<At<P>, Move>
where
    P: Edge<Resetting> + Edge<Failed> + Edge<Suspending>,
{
    let snapshot = draft.facts.snapshot;
    let here = unless_hopeless(here, draft, absent)?;
    // the cache alone does not prove that a component is gone
    let is_unsure = |index: &usize| {
        matches!(snapshot.components[*index].presence, Presence::Unseen)
            && left_behind(draft, *index).is_some()
    };
    if absent.iter().any(is_unsure) {
        draft.ask(FreshRead::Missing);
        return Err(here.stay());
    }
    if let Some((index, message)) = blocked(draft, absent) {
        let mut problem = Problem::of_component(draft, index, unhealthy::CREATE_FAILED, &message);
        let begun = since(draft, index);
        let deadline = failing_since(draft, index, begun);
        let deadline = draft.facts.limits.admission_grace.after(deadline);
        problem.deadline = Some(deadline);
        let is_usual = left_behind(draft, index).is_some();
        if draft.facts.now >= deadline {
            let problem = out_of_time(draft, problem);
            return Err(resolve::resolve(here, draft, &problem));
        }
        // its pods go soon after it
        let odd_from = LEFT_BEHIND_AFTER.after(begun);
        if is_usual && draft.facts.now < odd_from {
            draft.look_again(odd_from);
            resolve::describe(draft, &problem);
            draft.wait(deadline);
        } else {
            resolve::wait(draft, &problem, Some(deadline));
        }
        // the end of an object of another AppWrapper wakes only that
        if matches!(snapshot.components[index].presence, Presence::Present(_)) {
            draft.look_again(NAME_CHECK_INTERVAL.after(draft.facts.now));
        }
    }
    let in_the_way = |index: &usize| {
        matches!(snapshot.components[*index].presence, Presence::Present(_))
            || left_behind(draft, *index).is_some()
    };
    let mut creatable: Vec<usize> =
        absent.iter().copied().filter(|index| !in_the_way(index)).collect();
    if snapshot.policies.steps.have_rules() {
        // pods may mount what has none
        creatable.sort_by_key(|index| (!snapshot.components[*index].pod_sets.is_empty(), *index));
    }
    for index in &creatable {
        draft.act(Action::Create(*index));
    }
    if !creatable.is_empty() {
        draft.verdict.action = VerdictAction::Deploy;
        if draft.verdict.reason.as_deref() != Some(unhealthy::CREATE_FAILED) {
            draft.verdict.deadline = None;
        }
        draft.verdict.create = creatable;
    }
    Ok(here)
}

/// The problem of a creation that has failed for too long, with what else failed; or that alone, where an overriding RetryPolicy
/// fails the AppWrapper for it.
fn out_of_time<'a>(draft: &Draft<'a>, problem: Problem<'a>) -> Problem<'a> {
    let judged = failed::judge(draft);
    let pod_sets = components::begun_pod_sets(draft);
    let overruled = pods::overruled_beside_missing(draft, &judged, &pod_sets);
    overruled.unwrap_or_else(|| failed::beside(draft, &judged, &pod_sets, problem))
}

/// From when on the creation of a component that is to come since a moment keeps failing: not before the first failure,
/// nor before the last call that failed, since an API server that does not answer refuses nothing.
///
/// A process that has just begun knows of earlier failures by the condition. However often calls fail or the process
/// begins anew, a creation that is refused ends.
pub fn failing_since(draft: &Draft<'_>, index: usize, since: Timestamp) -> Timestamp {
    let snapshot = draft.facts.snapshot;
    let recorded = recorded_failing_since(snapshot);
    let first = snapshot.components[index].failing_since;
    let first = first
        .map(|first| recorded.map_or(first, |recorded| recorded.min(first)))
        .or_else(|| recorded.filter(|_| may_be_refused(draft, index)));
    let latest = draft.facts.config.fault_tolerance.grace_maximum.after(since);
    [first, snapshot.last_gap].into_iter().flatten().fold(since, Timestamp::max).min(latest)
}

/// Since when the status says that a creation fails, if it does.
fn recorded_failing_since(snapshot: &Snapshot) -> Option<Timestamp> {
    condition::find(&snapshot.status.conditions, condition::UNHEALTHY)
        .filter(|it| it.status == "True" && it.reason == unhealthy::CREATE_FAILED)
        .map(|it| it.last_transition_time.0)
}

/// Whether something keeps the creation of a component from getting on, as far as is known.
pub(super) fn is_blocked(draft: &Draft<'_>, index: usize) -> bool {
    blocked(draft, &[index]).is_some() || may_be_refused(draft, index)
}

/// Whether the creation of a component that is due may be the one that fails, as the status says: a process that has just
/// begun has not tried it yet.
fn may_be_refused(draft: &Draft<'_>, index: usize) -> bool {
    let pauses = steps::paused_until(draft, index).is_some_and(|until| draft.facts.now < until);
    !pauses
        && blocked(draft, &[index]).is_none()
        && recorded_failing_since(draft.facts.snapshot).is_some()
}

/// Fails an AppWrapper of which a component can never be created. The cache may still show an object that is gone: that
/// the name of a component is taken is read from the API server first.
///
/// # Errors
/// The move, where that is so, or where a read is needed first.
pub fn unless_hopeless<P>(
    here: At<P>,
    draft: &mut Draft<'_>,
    absent: &[usize],
) -> Result<At<P>, Move>
where
    P: Edge<Failed>,
{
    let snapshot = draft.facts.snapshot;
    let Some((index, message)) = hopeless(snapshot, absent) else { return Ok(here) };
    let is_there = matches!(snapshot.components[index].presence, Presence::Present(_));
    if is_there && snapshot.answered < FreshRead::Missing {
        draft.ask(FreshRead::Missing);
        return Err(here.stay());
    }
    let problem = Problem::of_component(draft, index, unhealthy::CREATE_FAILED, &message);
    Err(resolve::fail(here, draft, &problem))
}

/// A component that can never be created, and why. An invalid template is found before anything is
/// created; the rest when its turn comes.
fn hopeless(snapshot: &Snapshot, absent: &[usize]) -> Option<(usize, String)> {
    let flawed = snapshot.components.iter().zip(0..);
    let flawed = flawed.filter_map(|(component, index)| Some((index, component.flaw.clone()?)));
    let refused = absent.iter().filter_map(|index| {
        let component = &snapshot.components[*index];
        let title = component.title();
        let why = match (&component.presence, &component.creation) {
            (Presence::Present(object), _) => match &object.owner {
                Owner::Stranger(who) if !object.terminating => {
                    format!("{title} {}", Owner::of_unchanged(who))
                }
                Owner::Us | Owner::Former | Owner::Stranger(_) => return None,
            },
            (Presence::NoKind, _) => format!(
                "{title}: no matches for kind {:?} in version {:?}",
                component.kind, component.api_version
            ),
            (Presence::Unseen | Presence::Absent, Some(failure)) if failure.fatal => {
                format!("{title}: {}", failure.message)
            }
            (Presence::Unseen | Presence::Absent, _) => return None,
        };
        Some((*index, why))
    });
    flawed.chain(refused).min_by_key(|(index, _)| *index)
}

/// What keeps the creation from getting on, where something does.
fn blocked(draft: &Draft<'_>, absent: &[usize]) -> Option<(usize, String)> {
    absent.iter().find_map(|index| {
        let component = &draft.facts.snapshot.components[*index];
        let title = component.title();
        match (&component.presence, &component.creation, left_behind(draft, *index)) {
            (Presence::Present(object), _, _) => {
                Some((*index, format!("{title}: {}", object.holds_name())))
            }
            (_, _, Some(pod)) => {
                Some((*index, format!("{title} was deleted, but {pod} still exists")))
            }
            (_, Some(failure), None) => Some((*index, format!("{title}: {}", failure.message))),
            (Presence::Unseen | Presence::Absent | Presence::NoKind, None, None) => None,
        }
    })
}

/// A pod of this attempt whose component no longer exists: the component was deleted before its creation was
/// recorded. A second component beside the pod would run twice on quota for one. A pod with undetermined
/// owner may be such a pod if the component is known to have existed; if it may have existed, only a pod
/// whose owner is gone.
fn left_behind(draft: &Draft<'_>, index: usize) -> Option<String> {
    let snapshot = draft.facts.snapshot;
    let component = &snapshot.components[index];
    match component.presence {
        Presence::Unseen | Presence::Absent => {}
        Presence::Present(_) | Presence::NoKind => return None,
    }
    // this guard would hide the lack of another
    if mutations::is_present(Mutation::RecreateAtOnce)
        || mutations::is_present(Mutation::StaleIsNew)
    {
        return None;
    }
    let attempt = attempts::current(&draft.status);
    let is_its = |pod: &&Pod| pod.component == Some(index) && pod.attempt == Some(attempt);
    let own = snapshot.pods.iter().find(is_its).map(|pod| format!("its pod {}", pod.name));
    own.or_else(|| {
        let found = &snapshot.undetermined;
        let may_be_its =
            component.existed && found.live > 0 || component.may_have_existed && found.outlived > 0;
        may_be_its.then(|| first_named(&snapshot.undetermined))
    })
}

/// Whether the running attempt's object of a component is there.
pub fn exists(draft: &Draft<'_>, component: &Component) -> bool {
    steps::is_there(component, attempts::current(&draft.status))
}
