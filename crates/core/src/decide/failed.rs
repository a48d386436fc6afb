//! What failed: components that say so, components that are missing, pods; and the first cause of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use k8s_openapi::jiff::Timestamp;

use super::consequence::FirstFailures;
use super::draft::Draft;
use super::health::{self, PodSetHealth};
use super::policy::{FailedComponent, Ignored, Judged, NODE_LOST, failure_view, pod_failure};
use super::problem::Problem;
use super::replacement::{OWNER_GRACE, Replacement, SilentOwners};
use super::steps::{self, ComponentStage};
use super::{Facts, attempts, failure, pods};
use crate::api::condition::unhealthy;
use crate::mutations::{self, Mutation};
use crate::snapshot::{Component, FailedJob, Outcome, Pod, PodPhase, Snapshot};

/// Reason of a Job of which too many pods have failed.
const BACKOFF_LIMIT: &str = "BackoffLimitExceeded";

/// The failed pods of the running attempt, judged by `podFailurePolicy`.
pub fn judge<'a>(draft: &Draft<'a>) -> Rc<Judged<'a>> {
    let first_failures = FirstFailures::of(draft.facts);
    let (consequences, failed): (Vec<&Pod>, Vec<&Pod>) =
        failed_pods(draft, None).into_iter().partition(|pod| first_failures.is_consequence(pod));
    let mut judged = pod_failure::judge(draft.facts.snapshot, &failed, |pod| {
        health::may_come_back(draft.facts, pod)
    });
    let consequences = consequences.iter().map(|pod| (pod.uid.as_str(), pod.name.as_str()));
    judged.consequences = consequences.collect();
    Rc::new(judged)
}

/// Every pod of the running attempt that failed or is lost, or those of one component, the first failure first. Those of a
/// component that is created again were judged already, and nobody asks about those of one that has succeeded.
pub fn failed_pods<'a>(draft: &Draft<'a>, component: Option<usize>) -> Vec<&'a Pod> {
    let judged = |pod: &Pod| {
        pod.component.is_some_and(|index| {
            draft.facts.snapshot.components.len() > index
                && (steps::standing(draft, index) != ComponentStage::Up
                    || health::has_succeeded(draft, index))
        })
    };
    let mut pods: Vec<&Pod> = attempts::pods(draft.facts.snapshot)
        .filter(|pod| pod.has_failed())
        .filter(|pod| component.is_none() || pod.component == component)
        .filter(|pod| !judged(pod))
        .collect();
    failure::sort(&mut pods);
    pods
}

/// Components that failed, of those that say so, and the first cause. Source: `docs/user/policies.md#when`.
///
/// One of which every failed pod is ignored only counts where nothing else has failed.
pub fn failed_component<'a>(
    draft: &Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
) -> Option<Problem<'a>> {
    let (spared, failed): (Vec<_>, Vec<_>) = failed_components(draft, judged)
        .into_iter()
        .partition(|each| spared_by(draft, judged, each.index).is_some());
    let mut not_replaced = pods::not_replaced(draft, judged, pod_sets);
    not_replaced.retain(|pod| !health::may_come_back(draft.facts, pod));
    let is_ignored = |pod: &&Pod| judged.ignores(pod).is_some();
    let all_ignored = failed.is_empty();
    if all_ignored && !not_replaced.iter().all(is_ignored) {
        return None; // that one is decided about
    }
    let replacement = Replacement::of(draft.facts);
    let candidates = if all_ignored { spared.get(..1)? } else { failed.as_slice() };
    let counts = |pod: &Pod| all_ignored || judged.ignores(pod).is_none();
    let alone = not_replaced.iter().copied().filter(|pod| counts(pod));
    let (index, pod) = first_cause(draft, judged, candidates, alone, counts)?;
    let problem = of_cause(draft, index, pod)?;
    let ignored = spared.first().and_then(|first| spared_by(draft, judged, first.index));
    let is_some_ignored = !spared.is_empty() || not_replaced.iter().any(is_ignored);
    let open = failed.iter().filter_map(|each| undecided_until(draft, each.index)).max();
    let is_decided = pods::has_terminating_component(draft.facts, &not_replaced);
    Some(Problem {
        deadline: open.filter(|_| !is_decided),
        ignored: Ignored::of(ignored, all_ignored, is_some_ignored),
        silent_owners: silent_owners(draft, &replacement, &not_replaced),
        components: with_pods(draft, judged, &not_replaced, failed),
        judged: Some(judged.clone()),
        ..problem
    })
}

/// The first cause of what failed: the component that is to be named, and the pod where one tells. It may be a pod of
/// a component that has not said anything yet, and that is not replaced.
fn first_cause<'a>(
    draft: &Draft<'a>,
    judged: &Judged<'a>,
    failed: &[FailedComponent<'a>],
    alone: impl Iterator<Item = &'a Pod>,
    counts: impl Fn(&Pod) -> bool,
) -> Option<(usize, Option<&'a Pod>)> {
    let first = failed.first()?.index;
    let of_failed = failed.iter().map(|each| {
        let pod = first_pod(draft, judged, each.index, &counts);
        (pod.map_or(each.at, failure::finished_at).or(each.at), each.index, pod)
    });
    let is_other = |pod: &&Pod| failed.iter().all(|each| Some(each.index) != pod.component);
    let others = alone.filter(is_other).map(|pod| (failure::finished_at(pod), first, Some(pod)));
    let all = of_failed.chain(others);
    let (_, index, pod) =
        all.min_by_key(|(at, _, pod)| (at.is_none(), *at, pod.map(|pod| &pod.name)))?;
    Some((index, pod))
}

/// The pod that tells when a component failed: the one that is being ended where it alone is left, else the cause.
fn first_pod<'a>(
    draft: &Draft<'a>,
    judged: &Judged<'a>,
    index: usize,
    counts: impl Fn(&Pod) -> bool,
) -> Option<&'a Pod> {
    ended_from_outside_alone(draft, index).or_else(|| cause(draft, judged, index, counts))
}

/// The pod because of which a component failed. It is one that `podFailurePolicy` ignores only where that spares the
/// component.
pub fn counted_cause<'a>(draft: &Draft<'a>, judged: &Judged<'a>, index: usize) -> Option<&'a Pod> {
    first_pod(draft, judged, index, |pod| judged.ignores(pod).is_none()).or_else(|| {
        spared_by(draft, judged, index).and_then(|_| cause(draft, judged, index, |_| true))
    })
}

/// The failure of a component, and of the pod that is its cause.
fn of_cause<'a>(draft: &Draft<'a>, index: usize, pod: Option<&'a Pod>) -> Option<Problem<'a>> {
    let component = &draft.facts.snapshot.components[index];
    let Outcome::Failed { reason, message, at } = &component.ours()?.report.outcome else {
        return None;
    };
    let now = draft.facts.now;
    let text = said(component, reason, message);
    let Some(pod) = pod else {
        let plain = Problem::of_component(draft, index, unhealthy::FAILED_COMPONENT, &text);
        let failure = failure::of_component(draft.facts.snapshot, component, reason, message);
        return Some(Problem { failure, failed_at: at.map_or(now, |at| at.min(now)), ..plain });
    };
    let of_pod = Problem::of_pod(draft.facts, pod, unhealthy::FAILED_COMPONENT);
    Some(Problem {
        message: format!("{text}; {}", of_pod.message),
        failed_at: failure::ended_at(pod).unwrap_or(now).min(now),
        is_final: true,
        may_return: false,
        ..of_pod
    })
}

/// Until when the end of the pod is waited for because of which a component failed, where anything asks how a pod ended:
/// only a pod that has ended has an exit code. Source: KEP-3329.
fn undecided_until(draft: &Draft<'_>, index: usize) -> Option<Timestamp> {
    let Facts { snapshot, limits, .. } = draft.facts;
    let is_asked = !snapshot.policies.pod_failure.is_empty()
        || !snapshot.retry.policies.is_empty()
        || !limits.terminal_exit_codes.is_empty()
        || !limits.retryable_exit_codes.is_empty();
    let pod = ended_from_outside_alone(draft, index).filter(|_| is_asked)?;
    health::due_to_go(draft.facts, pod).map(|due| OWNER_GRACE.after(due))
}

/// The components of pods that nothing may replace, where they may still say why they failed. `not_replaced` has the
/// first failure first: later ones give their component no more time.
fn silent_owners(
    draft: &Draft<'_>,
    replacement: &Replacement,
    not_replaced: &[&Pod],
) -> Option<SilentOwners> {
    let now = draft.facts.now;
    let mut known = BTreeSet::new();
    let of_pod = |pod: &&Pod| {
        let at = failure::finished_at(pod).unwrap_or(now).min(now);
        let silent = SilentOwners::of_pod(draft.facts, replacement, (pod, at))?;
        known.insert(pod.component).then_some(silent)
    };
    not_replaced.iter().filter_map(of_pod).reduce(SilentOwners::and)
}

/// The rule of `podFailurePolicy` that ignores the first failed pod of a component, where it or others ignore all.
///
/// None where the component ran for too long, since no pod is the cause of that, or where a Job of it counts of which the part
/// is known.
fn spared_by<'a>(draft: &Draft<'a>, judged: &Judged<'a>, index: usize) -> Option<i32> {
    let snapshot = draft.facts.snapshot;
    let component = &snapshot.components[index];
    let is_overdue = failure::says(component, failure_view::is_overdue);
    if is_overdue || counted_jobs(draft, judged, index).iter().any(|job| job.pod_set.is_some()) {
        return None;
    }
    let needs_open = failure::says(component, |reason| reason == BACKOFF_LIMIT);
    ignored_by(snapshot, judged, &failed_pods(draft, Some(index)), needs_open)
}

/// The Jobs of a component that failed, without those of which every failed pod is ignored, as [`spared_by`] does.
fn counted_jobs<'a>(draft: &Draft<'a>, judged: &Judged<'a>, index: usize) -> Vec<&'a FailedJob> {
    let snapshot = draft.facts.snapshot;
    let jobs = &snapshot.components[index].failed_jobs;
    if jobs.is_empty() {
        return vec![];
    }
    let pods = failed_pods(draft, Some(index));
    // many Jobs share a pod set
    let mut known: BTreeMap<(usize, bool), bool> = BTreeMap::new();
    let mut is_spared = |job: &FailedJob| {
        let Some(pod_set) = job.pod_set.filter(|_| !failure_view::is_overdue(&job.reason)) else {
            return false;
        };
        let needs_open = job.reason == BACKOFF_LIMIT;
        *known.entry((pod_set, needs_open)).or_insert_with(|| {
            let own = pods.iter().copied().filter(|pod| pod.pod_set == Some(pod_set));
            ignored_by(snapshot, judged, &own.collect::<Vec<_>>(), needs_open).is_some()
        })
    };
    jobs.iter().filter(|job| !is_spared(job)).collect()
}

/// The rule of `podFailurePolicy` that ignores the first of some failed pods, where it or others ignore all.
///
/// A Job that exceeded its backoff limit did so because of a pod that it had not replaced: one that was ignored and replaced
/// before says nothing about that. Where a Job fails by its indexes it expects fewer pods afterwards, so that its last
/// failed pod may look replaced.
fn ignored_by(
    snapshot: &Snapshot,
    judged: &Judged<'_>,
    pods: &[&Pod],
    needs_open: bool,
) -> Option<i32> {
    let own = pods.iter().filter(|pod| !judged.is_consequence(pod));
    // a Job replaces a pod that is Terminating before it counts it; not one that is deleted after its end
    let was_going = |pod: &Pod| {
        let requested = pod.deletion_requested.filter(|_| pod.terminating);
        requested.is_some_and(|at| failure::ended_at(pod).is_none_or(|end| at <= end))
    };
    let was_replaced = |pod: &Pod| health::is_replaced(snapshot, pod) && !was_going(pod);
    if needs_open && own.clone().all(|pod| was_replaced(pod)) {
        return None;
    }
    // one that was replaced is no cause where another was not
    let some_left = own.clone().any(|pod| !was_replaced(pod));
    let left = own.filter(|pod| !some_left || !was_replaced(pod));
    let mut rules = left.map(|pod| judged.ignores(pod));
    let first = rules.next()??;
    rules.all(|rule| rule.is_some()).then_some(first)
}

/// The failed pod of a component that made it fail, of those that count: the first that was not replaced, else the
/// last one, unless the component ran for too long: one that was replaced is not the cause of that, nor is it where another
/// was not replaced that does not count. So it is the same
/// pod whether its own failure is seen first or that of the component. A pod that was deleted because the component had
/// failed is not the cause of anything.
fn cause<'a>(
    draft: &Draft<'a>,
    judged: &Judged<'a>,
    index: usize,
    counts: impl Fn(&Pod) -> bool,
) -> Option<&'a Pod> {
    let snapshot = draft.facts.snapshot;
    let mut pods = failed_pods(draft, Some(index));
    pods.retain(|pod| !judged.is_consequence(pod));
    let is_left = |pod: &&Pod| !health::is_replaced(snapshot, pod);
    let is_other = pods.iter().any(|pod| is_left(pod) && !counts(pod));
    pods.retain(|pod| counts(pod));
    let first = pods.iter().copied().find(is_left);
    let is_overdue = failure::says(&snapshot.components[index], failure_view::is_overdue);
    first.or_else(|| pods.last().copied().filter(|_| !is_overdue && !is_other))
}

/// The pod of a component that was first to be ended from outside, and still is in its grace period, where every failed
/// one was replaced. A Job counts it as failed at once, and may fail seconds before the pod does.
fn ended_from_outside_alone<'a>(draft: &Draft<'a>, index: usize) -> Option<&'a Pod> {
    let snapshot = draft.facts.snapshot;
    let failed = failed_pods(draft, Some(index));
    ended_from_outside(draft, index)
        .filter(|_| failed.iter().all(|pod| health::is_replaced(snapshot, pod)))
}

fn ended_from_outside<'a>(draft: &Draft<'a>, index: usize) -> Option<&'a Pod> {
    let component = &draft.facts.snapshot.components[index];
    // a Job counts each pod whose deletion is requested; those that it deletes itself are deleted after it has failed, and
    // nobody asks how one ended of a component that deletes pods whatever they did
    let by_backoff = failure::says(component, |reason| reason == BACKOFF_LIMIT);
    let failed_at = component.ours().and_then(|object| match &object.report.outcome {
        Outcome::Failed { at, .. } => {
            let job = component.failed_jobs.first().and_then(|job| job.at);
            let first = job.into_iter().chain(*at).min();
            first.filter(|_| by_backoff && !object.report.deletes_pods)
        }
        Outcome::Active | Outcome::Succeeded => None,
    });
    let since = |pod: &Pod| match pod.true_condition("DisruptionTarget") {
        Some(target) => Some(target.since),
        None => pod.deletion_requested.filter(|at| Some(*at) < failed_at).map(Some),
    };
    let pods = attempts::pods(draft.facts.snapshot)
        .filter(|pod| pod.component == Some(index) && pod.is_going());
    let all = pods.filter_map(|pod| Some((since(pod)?, pod)));
    let first = all.min_by_key(|(since, pod)| (since.is_none(), *since, pod.name.clone()));
    first.map(|(_, pod)| pod)
}

/// A component that was created and is gone. A pod of it that failed is the first cause. What else failed is asked
/// about by `failurePolicy` as always.
pub fn missing_component<'a>(
    draft: &Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
    index: usize,
) -> Problem<'a> {
    let reason = unhealthy::MISSING_COMPONENT;
    let message = format!("{} no longer exists", draft.facts.snapshot.components[index].title());
    let plain = Problem::of_component(draft, index, reason, &message);
    let plain = beside(draft, judged, pod_sets, plain);
    let counts = |pod: &&Pod| {
        judged.ignores(pod).is_none()
            && !judged.is_consequence(pod)
            && !health::is_replaced(draft.facts.snapshot, pod)
    };
    let Some(pod) = failed_pods(draft, Some(index)).into_iter().find(counts) else {
        return plain;
    };
    let of_pod = Problem::of_pod(draft.facts, pod, reason);
    Problem {
        message: format!("{message}; {}", of_pod.message),
        failure: of_pod.failure,
        pod: of_pod.pod,
        failed_at: failure::finished_at(pod).unwrap_or(plain.failed_at).min(plain.failed_at),
        ..plain
    }
}

/// A problem with a component that is missing or cannot be created, beside what else failed.
pub fn beside<'a>(
    draft: &Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
    problem: Problem<'a>,
) -> Problem<'a> {
    let mut not_replaced = pods::not_replaced(draft, judged, pod_sets);
    not_replaced.retain(|pod| !health::may_come_back(draft.facts, pod));
    let mut failed = failed_components(draft, judged);
    failed.retain(|each| spared_by(draft, judged, each.index).is_none());
    Problem {
        silent_owners: silent_owners(draft, &Replacement::of(draft.facts), &not_replaced),
        components: with_pods(draft, judged, &not_replaced, failed),
        judged: Some(judged.clone()),
        ..problem
    }
}

/// The components that say that they failed, the first failure first.
fn failed_components<'a>(draft: &Draft<'a>, judged: &Judged<'a>) -> Vec<FailedComponent<'a>> {
    let snapshot = draft.facts.snapshot;
    let mut failed: Vec<FailedComponent<'_>> = snapshot
        .components
        .iter()
        .enumerate()
        .filter(|(index, component)| {
            health::is_current(draft, *index, component)
                && steps::standing(draft, *index) == ComponentStage::Up
        })
        .filter_map(|(index, component)| match &component.ours()?.report.outcome {
            Outcome::Failed { reason, message, at } => Some(FailedComponent {
                index,
                reason,
                message: Cow::Borrowed(message),
                pod_set: counted_cause(draft, judged, index).and_then(|pod| pod.pod_set),
                at: *at,
                jobs: counted_jobs(draft, judged, index),
            }),
            Outcome::Active | Outcome::Succeeded => None,
        })
        .collect();
    sort(draft, judged, &mut failed);
    failed
}

/// Sorts failed components as [`first_cause`] does: by the pod that is the cause of each, where one tells. When a component
/// says so tells nothing about two that failed in the same second, or that are reported late. Ties go by name.
fn sort<'a>(draft: &Draft<'a>, judged: &Judged<'a>, failed: &mut [FailedComponent<'a>]) {
    let mut causes: BTreeMap<usize, Option<&Pod>> = BTreeMap::new();
    for each in failed.iter_mut() {
        let pod = counted_cause(draft, judged, each.index);
        each.at = pod.map_or(each.at, failure::finished_at).or(each.at);
        causes.insert(each.index, pod);
    }
    failed.sort_by_key(|each| {
        let pod = causes.get(&each.index).copied().flatten();
        (each.at.is_none(), each.at, pod.map(|pod| &pod.name), each.index)
    });
}

/// Failed components, beside them wrapped Pods that failed and components of which a pod died with its node:
/// what `failurePolicy` is about.
pub fn with_pods<'a>(
    draft: &Draft<'a>,
    judged: &Judged<'a>,
    not_replaced: &[&'a Pod],
    mut failed: Vec<FailedComponent<'a>>,
) -> Vec<FailedComponent<'a>> {
    let (snapshot, known) = (draft.facts.snapshot, failed.len());
    let lost =
        not_replaced.iter().filter(|pod| pod.died_of_node() && judged.ignores(pod).is_none());
    for pod in lost.filter(|_| !mutations::is_present(Mutation::LostIsNoFailure)) {
        let Some(index) = pod.component else { continue };
        if failed.iter().any(|each| each.index == index) {
            continue;
        }
        let node = pod.node.as_deref().unwrap_or_default();
        failed.push(FailedComponent {
            index,
            reason: NODE_LOST,
            message: format!("pod {} was lost with node {node}", pod.name).into(),
            pod_set: pod.pod_set,
            at: failure::finished_at(pod),
            jobs: vec![],
        });
    }
    for pod in &judged.left {
        let Some(index) = pod.component else { continue };
        let wrapped = snapshot.components.get(index).is_some_and(|component| {
            component.kind == "Pod" && component.ours().is_some_and(|object| object.uid == pod.uid)
        });
        // that it stays Terminating says nothing of its containers
        let has_ended = pod.phase == PodPhase::Failed || pod.lost.is_some();
        let is_decided = wrapped && has_ended && !health::may_come_back(draft.facts, pod);
        if is_decided && failed.iter().all(|each| each.index != index) {
            let (reason, message) = failure::said_by(pod);
            let at = failure::finished_at(pod);
            let (message, pod_set) = (Cow::Borrowed(message), pod.pod_set);
            failed.push(FailedComponent { index, reason, message, pod_set, at, jobs: vec![] });
        }
    }
    // each look at a cause goes through all pods
    if failed.len() > known {
        sort(draft, judged, &mut failed);
    }
    failed
}

/// A component that failed, in a sentence.
pub fn said(component: &Component, reason: &str, message: &str) -> String {
    if message.is_empty() {
        return format!("{} failed ({reason})", component.title());
    }
    // what else failed may follow
    let message = message.strip_suffix('.').unwrap_or(message);
    format!("{} failed ({reason}): {message}", component.title())
}
