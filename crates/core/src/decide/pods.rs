//! What is wrong with the pods. Source: `docs/user/policies.md#when`.

use std::collections::BTreeSet;
use std::rc::Rc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::failed::{failed_component, with_pods};
use super::health::{self, PodSetHealth};
use super::policy::{Ignored, Judged};
use super::problem::Problem;
use super::replacement::{AFTER_GAP, Replacement, SilentOwners};
use super::steps::{self, ComponentStage};
use super::{Facts, attempts, failure, input, no_fit};
use crate::api::condition::unhealthy;
use crate::api::{Category, FailureRecord, WaitFor};
use crate::mutations::{self, Mutation};
use crate::snapshot::lost::Loss;
use crate::snapshot::{Component, Pod, PodPhase, Snapshot, Undetermined};

/// Everything that is wrong with them.
pub fn of_pods<'a>(
    draft: &mut Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
) -> Vec<Problem<'a>> {
    let mut problems = vec![];
    let replacement = Replacement::of(draft.facts);
    problems.extend(first_failed_pod(draft, judged, pod_sets, &replacement));
    problems.extend(fatal_pod(draft, judged, pod_sets));
    problems.extend(overruled_pod(draft, judged, pod_sets));
    problems.extend(doomed_nodes(draft));
    problems.extend(pod_sets.iter().filter_map(|health| no_fit::problem(draft, health)));
    let is_unfit = no_fit::applies(draft, pod_sets);
    let others = pod_sets.iter().filter(|set| !(is_unfit && set.waits()));
    let too_few = |health| too_few_pods(draft, judged, health, &replacement);
    problems.extend(others.filter_map(too_few));
    for health in pod_sets {
        problems.extend(never_ready(draft, health));
    }
    problems.extend(pod_sets.iter().filter_map(|health| slow_to_terminate(draft, health)));
    for problem in &mut problems {
        problem.judged = Some(judged.clone());
    }
    problems
}

/// A pod that fails the AppWrapper by `podFailurePolicy`, also where it was replaced.
pub fn fatal_pod<'a>(
    draft: &Draft<'a>,
    judged: &Judged<'a>,
    pod_sets: &[PodSetHealth<'a>],
) -> Option<Problem<'a>> {
    let (pod, _) = judged.fatal.or(judged.fatal_if_lost)?;
    let lacks = |set| health::not_replaced(draft, set).iter().any(|one| one.uid == pod.uid);
    // of one that was replaced it is not recorded when it was seen first
    let at = if pod_sets.iter().any(lacks) {
        failed_at(draft.facts, pod)
    } else {
        failure::finished_at(pod).unwrap_or(draft.facts.now).min(draft.facts.now)
    };
    let problem = Problem::of_pod(draft.facts, pod, unhealthy::FOUND_FAILED_PODS);
    let deadline = Some(draft.facts.limits.failure_grace.after(at));
    Some(Problem { failed_at: at, deadline, ..problem })
}

/// When a pod failed that was not replaced: one that is lost, not before its pod set was short of it.
pub fn failed_at(facts: Facts<'_>, pod: &Pod) -> Timestamp {
    let lost = pod.lost.map(|_| health::lost_at(facts, pod));
    lost.or_else(|| failure::finished_at(pod)).unwrap_or(facts.now).min(facts.now)
}

/// Failed pods that were not replaced; not those that are ignored and that something
/// replaces, nor those that were deleted because their component had failed. The first failure first.
pub fn not_replaced<'a>(
    draft: &Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
) -> Vec<&'a Pod> {
    let replacement = Replacement::of(draft.facts);
    let mut pods = unreplaced(draft, judged, pod_sets);
    pods.retain(|pod| judged.ignores(pod).is_none() || replacement.is_final(draft.facts, pod));
    pods
}

/// The same with all that are ignored.
fn unreplaced<'a>(
    draft: &Draft<'a>,
    judged: &Judged<'a>,
    pod_sets: &[PodSetHealth<'a>],
) -> Vec<&'a Pod> {
    let up =
        pod_sets.iter().filter(|set| steps::standing(draft, set.component) == ComponentStage::Up);
    let all = up.flat_map(|set| health::not_replaced(draft, set));
    let mut pods: Vec<&Pod> = all.filter(|pod| !judged.is_consequence(pod)).collect();
    failure::sort(&mut pods);
    pods
}

/// Writes down when an ignored pod was seen to be lost, where an overriding policy may fail the AppWrapper for it: its grace
/// runs from then.
fn note_ignored_loss<'a>(
    draft: &mut Draft<'a>,
    judged: &Judged<'a>,
    pod_sets: &[PodSetHealth<'a>],
) {
    let is_asked = draft.facts.snapshot.retry.overriding().next().is_some();
    let pods = if is_asked { unreplaced(draft, judged, pod_sets) } else { vec![] };
    let lost = pods.first().filter(|pod| pod.lost.is_some());
    let at = lost.map(|pod| Time(failed_at(draft.facts, pod)));
    if at.is_some() || draft.status.since.is_some() {
        draft.since().failed_pods = at;
    }
}

/// The failed pods that are decided about, and what `podFailurePolicy` ignores of what failed for good: it decides about that
/// whatever becomes of the pods that may come back.
fn decided_about<'a>(
    draft: &Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
) -> (Vec<&'a Pod>, Ignored) {
    let mut pods = not_replaced(draft, judged, pod_sets);
    let mut lasting = pods.clone();
    lasting.retain(|pod| !health::may_come_back(draft.facts, pod));
    if lasting.is_empty() {
        lasting.clone_from(&pods);
    }
    let is_ignored = |pod: &&Pod| judged.ignores(pod).is_some();
    let first = lasting.first().and_then(|pod| judged.ignores(pod));
    let all_ignored = lasting.iter().all(is_ignored);
    let ignored = Ignored::of(first, all_ignored, lasting.iter().any(is_ignored));
    if all_ignored {
        return (lasting, ignored);
    }
    pods.retain(|pod| !is_ignored(pod));
    (pods, ignored)
}

fn first_failed_pod<'a>(
    draft: &mut Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
    replacement: &Replacement,
) -> Option<Problem<'a>> {
    let now = draft.facts.now;
    let (pods, ignored) = decided_about(draft, judged, pod_sets);
    let Some(first) = pods.first() else {
        note_ignored_loss(draft, judged, pod_sets);
        return None;
    };
    let stored = draft.status.since.as_ref().and_then(|since| since.failed_pods.as_ref());
    let stored = stored.map(|time| time.0);
    // Node clocks may run ahead of ours: then it is the moment at which it was first seen.
    let finished = failure::finished_at(first).filter(|at| *at <= now);
    let lost = first.lost.map(|_| health::lost_at(draft.facts, first));
    let at = lost.or(finished).or(stored).unwrap_or(now).min(now);
    draft.since().failed_pods = Some(Time(at));
    // nothing replaces a pod that stays Terminating, whatever failed before it
    let stuck = pods.iter().find(|pod| pod.stuck.is_some() && pod.phase != PodPhase::Failed);
    let is_decided = stuck.is_some() || has_terminating_component(draft.facts, &pods);
    let problem = match stuck {
        Some(stuck) => with_stuck(draft, first, stuck),
        None => Problem::of_pod(draft.facts, first, unhealthy::FOUND_FAILED_PODS),
    };
    let lost: Vec<Loss> = pods.iter().filter_map(|pod| pod.lost).collect();
    let may_return = problem.may_return && lost.iter().all(|loss| loss.may_return());
    // one that may come back is waited for, and decides nothing about what failed before it was lost
    let decided: Vec<&Pod> = pods
        .iter()
        .copied()
        .filter(|pod| may_return || !health::may_come_back(draft.facts, pod))
        .collect();
    let others = match pods.len() {
        0 | 1 => String::new(),
        count => format!("; {count} pods failed in total"),
    };
    Some(Problem {
        message: format!("{}{others}", problem.message),
        failed_at: at.max(failure::ended_at(first).filter(|end| *end <= now).unwrap_or(at)),
        deadline: (!is_decided).then(|| replaced_by(draft.facts, &pods, at)),
        components: with_pods(draft, judged, &decided, vec![]),
        ignored,
        silent_owners: silent_owners(draft.facts, replacement, &pods, at),
        may_return,
        ..problem
    })
}

/// The first failed pod of these pod sets, each of a component that is a Pod and failed.
pub fn failed_component_pod<'a>(
    draft: &mut Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
) -> Option<Problem<'a>> {
    let replacement = Replacement::of(draft.facts);
    let problem = first_failed_pod(draft, judged, pod_sets, &replacement)?;
    Some(Problem { judged: Some(judged.clone()), ..problem })
}

/// Whether a component is a Pod that failed: it reports no failure of its own.
pub fn has_failed_itself(snapshot: &Snapshot, component: &Component) -> bool {
    let own = component.ours().filter(|_| component.kind == "Pod");
    let mut failed = snapshot.pods.iter().filter(|pod| pod.phase == PodPhase::Failed);
    own.is_some_and(|object| failed.any(|pod| pod.uid == object.uid))
}

/// The problem with the first of some failed pods, of which one stays Terminating.
fn with_stuck<'a>(draft: &Draft<'a>, first: &'a Pod, stuck: &Pod) -> Problem<'a> {
    const SAID: &str = "is still Terminating after forcefulDeletionGracePeriod";
    let problem = Problem::of_pod(draft.facts, first, unhealthy::STUCK_TERMINATING);
    if first.uid == stuck.uid {
        return problem.or_said(&format!("the pod {SAID}"));
    }
    Problem { message: format!("{}; pod {} {SAID}", problem.message, stuck.name), ..problem }
}

/// Until when failed pods are waited to be replaced, the first of which failed at a moment: their component may do that from
/// when the first of them has ended as a whole, and not while the API server does not answer, for at most as long again.
fn replaced_by(facts: Facts<'_>, pods: &[&Pod], failed_at: Timestamp) -> Timestamp {
    let grace = facts.limits.failure_grace;
    let ended =
        pods.iter().filter(|pod| pod.lost.is_none()).filter_map(|pod| failure::ended_at(pod));
    let ended = ended.filter(|at| *at <= facts.now).min();
    let is_lost = pods.first().is_some_and(|pod| pod.lost.is_some());
    let from = ended.filter(|_| !is_lost).max(Some(failed_at)).unwrap_or(failed_at);
    let due = grace.after(from);
    let gap = facts.snapshot.last_gap.filter(|gap| *gap > from);
    gap.map_or(due, |gap| due.max(grace.min(AFTER_GAP).after(gap)).min(grace.after(due)))
}

/// When a failed pod is decided about where no other one failed, and no rule is about it.
pub fn decided_at(facts: Facts<'_>, pod: &Pod) -> Timestamp {
    let at = failed_at(facts, pod);
    let is_stuck = pod.stuck.is_some() && pod.phase != PodPhase::Failed;
    let is_decided = is_stuck || has_terminating_component(facts, &[pod]);
    if is_decided { at } else { replaced_by(facts, &[pod], at) }
}

/// Whether a pod is a component itself that has failed and is gone or about to be. Nothing makes up for it, and the policies
/// could not be asked about it later: the component would only be missing.
pub fn has_terminating_component(facts: Facts<'_>, pods: &[&Pod]) -> bool {
    let goes = |pod: &Pod| (pod.terminating || pod.gone) && pod.phase == PodPhase::Failed;
    pods.iter().filter(|pod| goes(pod)).any(|pod| {
        let component = pod.component.and_then(|index| facts.snapshot.components.get(index));
        component.and_then(Component::ours).is_some_and(|object| object.uid == pod.uid)
    })
}

/// The component of the first cause, and those of which a pod died with its node, where they may still say why they
/// failed. One pod of each component tells.
fn silent_owners(
    facts: Facts<'_>,
    replacement: &Replacement,
    pods: &[&Pod],
    at: Timestamp,
) -> Option<SilentOwners> {
    let mut asked = BTreeSet::new();
    let first = pods.first().into_iter();
    let of_node = pods.iter().filter(|pod| pod.died_of_node() && !pod.is_given_up());
    let each = first.chain(of_node).filter(|pod| asked.insert(pod.component));
    let of_pod = |pod: &&Pod| SilentOwners::of_pod(facts, replacement, (pod, at));
    each.filter_map(of_pod).reduce(SilentOwners::and)
}

/// The first cause, where `podFailurePolicy` ignores it and an overriding RetryPolicy fails the AppWrapper.
pub fn overruled_pod<'a>(
    draft: &Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
) -> Option<Problem<'a>> {
    draft.facts.snapshot.retry.overriding().next()?;
    let pods = unreplaced(draft, judged, pod_sets);
    let first = pods.into_iter().next().filter(|pod| judged.ignores(pod).is_some())?;
    let problem = of_first(draft, judged, first);
    problem.ruling(draft).rule.overrides.then_some(problem)
}

/// The first cause beside a component that is missing, where an overriding RetryPolicy fails the AppWrapper. Such a policy
/// is asked about what failed before anything is said of what is missing.
pub fn overruled_beside_missing<'a>(
    draft: &Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
) -> Option<Problem<'a>> {
    draft.facts.snapshot.retry.overriding().next()?;
    let of_pod = || {
        let mut pods = unreplaced(draft, judged, pod_sets).into_iter();
        let first = pods.find(|pod| !health::may_come_back(draft.facts, pod))?;
        Some(of_first(draft, judged, first))
    };
    let problem = failed_component(draft, judged, pod_sets).or_else(of_pod)?;
    problem.ruling(draft).rule.overrides.then_some(problem)
}

/// The problem with the pod that failed first.
fn of_first<'a>(draft: &Draft<'a>, judged: &Rc<Judged<'a>>, first: &'a Pod) -> Problem<'a> {
    let at = failed_at(draft.facts, first);
    let problem = Problem::of_pod(draft.facts, first, unhealthy::FOUND_FAILED_PODS);
    let deadline = Some(draft.facts.limits.failure_grace.after(at));
    Problem { failed_at: at, deadline, judged: Some(judged.clone()), ..problem }
}

/// A pod that is Terminating while its pod set is not ready: what it is waited for at most.
fn slow_to_terminate<'a>(draft: &Draft<'a>, health: &PodSetHealth<'a>) -> Option<Problem<'a>> {
    let is_up = steps::standing(draft, health.component) == ComponentStage::Up;
    if health.ready() || !is_up || mutations::is_present(Mutation::StuckIsWaitedFor) {
        return None;
    }
    let until = |pod: &&'a Pod| Some((health::overdue_from(draft.facts, pod)?, *pod));
    let (until, pod) = health.terminating.iter().filter_map(until).min_by_key(|(at, _)| *at)?;
    let problem = Problem::of_pod(draft.facts, pod, unhealthy::STUCK_TERMINATING);
    let name = &pod.name;
    Some(Problem {
        message: format!(
            "pod {name} is Terminating; if it still exists at {until}, it counts as failed"
        ),
        unhealthy_from: Some(until),
        deadline: Some(until),
        ..problem
    })
}

/// Pods that use a resource of a node on which that resource is marked `NoExecute`.
fn doomed_nodes<'a>(draft: &Draft<'a>) -> Option<Problem<'a>> {
    let facts = draft.facts;
    if !facts.config.autopilot.monitor_nodes {
        return None;
    }
    let is_done = |pod: &Pod| pod.component.is_some_and(|i| health::has_succeeded(draft, i));
    let pod = facts.snapshot.pods.iter().find(|pod| {
        pod.phase == PodPhase::Running
            && !pod.terminating
            && pod
                .node
                .as_ref()
                .and_then(|node| facts.snapshot.nodes.get(node))
                .is_some_and(|node| !node.no_execute.is_disjoint(&pod.resources))
            && !is_done(pod)
    })?;
    let node = pod.node.clone().unwrap_or_default();
    let problem = Problem::of_pod(facts, pod, unhealthy::AUTOPILOT_NO_EXECUTE);
    let name = &pod.name;
    Some(Problem {
        message: format!("pod {name} uses a resource of node {node} that is marked NoExecute"),
        failure: FailureRecord {
            category: Some(Category::Node.as_str().to_owned()),
            ..problem.failure
        },
        ..problem
    })
}

/// Pods that have the labels and are not counted, for a message.
fn not_counted(Undetermined { count, named, .. }: &Undetermined) -> String {
    let text = |(name, why): &(String, String)| {
        format!(", not counting {count} with undetermined owner, such as {name}: {why}")
    };
    named.first().map(text).unwrap_or_default()
}

/// Until when the pods of a pod set may be missing, or not run; `None` while its clock stands still.
///
/// Kubernetes replaces a pod of a lost node only once its tolerations have expired: the new pod has a warm-up of its own.
/// A component that creates its pods in order may have to wait for each before it creates the next: whichever of its pods
/// came last gives those that are still missing a whole warm-up.
fn waited_for_until(draft: &Draft<'_>, health: &PodSetHealth<'_>) -> Option<Timestamp> {
    let facts = draft.facts;
    let since = health::unready_since(draft, health)?;
    let (admission, warmup) = (facts.limits.admission_grace, facts.limits.warmup_grace);
    let replaces_lost = health.failed.iter().any(|pod| is_recent_loss(facts.snapshot, pod));
    let replacement = health.oldest_pending().filter(|_| replaces_lost);
    let since = replacement.map_or(since, |at| at.min(warmup.after(since)).max(since));
    let since = no_fit::warms_up_from(draft, since);
    let is_missing = health.there < health.expected;
    let object = facts.snapshot.components[health.component].ours();
    if object.is_none_or(|object| !object.report.in_order) {
        let grace = if is_missing { admission } else { warmup };
        return Some(grace.after(since));
    }
    let own = attempts::pods(facts.snapshot)
        .filter(|pod| pod.component == Some(health.component) && !pod.gone);
    let created: Vec<Timestamp> = own.filter_map(|pod| pod.created).collect();
    // one that is created again and again does not have the others waited for without end
    let most = created.iter().fold(since, |at, _| warmup.after(at)).min(facts.now);
    let newest = created.into_iter().max().map(|at| at.min(most));
    let grace = if is_missing { admission.max(warmup) } else { warmup };
    Some(grace.after(newest.map_or(since, |at| at.max(since))))
}

/// Whether a pod was lost, and its pod set was not complete since.
fn is_recent_loss(snapshot: &Snapshot, pod: &Pod) -> bool {
    pod.lost.is_some() && !health::is_replaced(snapshot, pod)
}

/// What `podFailurePolicy` ignores of a pod set that has too few running pods: where it ignores every pod that died of its node
/// and that nothing has replaced, the restart is not counted. Source: `docs/user/policies.md#lost-nodes`.
fn ignored_losses(draft: &Draft<'_>, judged: &Judged<'_>, health: &PodSetHealth<'_>) -> Ignored {
    if !health.waiting.is_empty() || health.there < health.expected {
        return Ignored::Nothing; // a pod does not come up, or is missing for another reason
    }
    let died_lately =
        |pod: &Pod| pod.died_of_node() && !health::is_replaced(draft.facts.snapshot, pod);
    let lacking = health::not_replaced(draft, health).into_iter();
    let mut rules = lacking
        .filter(|pod| !judged.is_consequence(pod))
        .map(|pod| judged.ignores(pod).filter(|_| died_lately(pod)));
    let first = rules.next().flatten();
    Ignored::of(first, rules.all(|rule| rule.is_some()), false)
}

/// A pod set that has too few pods, or too few that run.
fn too_few_pods<'a>(
    draft: &Draft<'a>,
    judged: &Judged<'a>,
    health: &PodSetHealth<'a>,
    replacement: &Replacement,
) -> Option<Problem<'a>> {
    if health.ready() || steps::standing(draft, health.component) != ComponentStage::Up {
        return None;
    }
    let facts = draft.facts;
    let undetermined = &facts.snapshot.undetermined;
    if undetermined.incomplete {
        return None; // some of our pods are not known as such yet
    }
    let unhealthy_from = waited_for_until(draft, health)?;
    let (count, state) = if health.there < health.expected {
        (health.there, "exist")
    } else {
        (health.running, "are running")
    };
    let component = &facts.snapshot.components[health.component];
    let message = format!(
        "{}: {count} of {} pods {state} in pod set {}{}",
        component.title(),
        health.expected,
        health.name(),
        not_counted(undetermined),
    );
    let reason = unhealthy::INSUFFICIENT_PODS_READY;
    let problem = match health.waiting.first() {
        Some(pod) => {
            let problem = Problem::of_pod(facts, pod, reason);
            let full = format!("{message}; {}", problem.message);
            Problem { message: full, ..problem.or_said(&message) }
        }
        None => Problem::of_component(draft, health.component, reason, &message),
    };
    // a pod that failed is why there are too few, and its component is about to say so
    let failed = health::not_replaced(draft, health).into_iter().next();
    let said_by = |pod: &'a Pod| {
        let at = failure::finished_at(pod).unwrap_or(facts.now).min(facts.now);
        SilentOwners::of_pod(facts, replacement, (pod, at))
    };
    Some(Problem {
        failed_at: unhealthy_from.min(facts.now),
        pod_set: Some(health.pod_set),
        silent_owners: failed.and_then(said_by),
        ignored: ignored_losses(draft, judged, health),
        unhealthy_from: Some(unhealthy_from),
        deadline: Some(facts.limits.failure_grace.after(unhealthy_from)),
        is_final: false,
        ..problem
    })
}

/// A pod set whose pods run and are not all Ready, while a later step waits for that. They have as long for it as for starting
/// to run: from when all of them run, from when the first of those that are not Ready ceased to be so, or from when the later step
/// began to wait.
fn never_ready<'a>(draft: &mut Draft<'a>, health: &PodSetHealth<'a>) -> Option<Problem<'a>> {
    let facts = draft.facts;
    let (steps, index) = (&facts.snapshot.policies.steps, health.component);
    let is_short = health.started && health.ready() && !health.complete();
    if !is_short || steps.wait_for(steps.step(index)) != WaitFor::Ready {
        return None;
    }
    let is_up = steps::standing(draft, index) == ComponentStage::Up;
    if !is_up || facts.snapshot.undetermined.incomplete {
        return None;
    }
    let waited = steps::waited_for_since(draft, index)?;
    let is_own = |pod: &&Pod| pod.component == Some(index) && pod.pod_set == Some(health.pod_set);
    let own = attempts::pods(facts.snapshot).filter(is_own);
    let runs = own.filter(|pod| pod.phase == PodPhase::Running && !pod.terminating);
    let unready = runs.filter_map(|pod| pod.conditions.iter().find(|it| it.kind == "Ready"));
    let unready = unready.filter(|ready| ready.status != "True").filter_map(|ready| ready.since);
    let ready = health::ready_since(draft, health).unwrap_or(facts.now);
    // the clock of a node may be ahead
    let unready = unready.map(|at| at.min(facts.now)).min();
    let known = unready.into_iter().chain([ready, waited]).max()?;
    let latest = input::gap_max(facts).after(known);
    let since = facts.snapshot.last_gap.map_or(known, |gap| gap.min(latest).max(known));
    let unready_from = facts.limits.warmup_grace.after(since);
    if facts.now < unready_from {
        draft.look_again(unready_from);
        return None;
    }
    let message = format!(
        "{}: {} of {} pods are Ready in pod set {}; a later step waits for them",
        facts.snapshot.components[index].title(),
        health.fully_ready,
        health.expected,
        health.name(),
    );
    let reason = unhealthy::INSUFFICIENT_PODS_READY;
    Some(Problem {
        failed_at: unready_from,
        unhealthy_from: Some(unready_from),
        deadline: Some(facts.limits.failure_grace.after(unready_from)),
        is_final: false,
        ..Problem::of_component(draft, index, reason, &message)
    })
}
