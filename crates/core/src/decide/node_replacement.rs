//! Kueue's replacement of failed nodes (Topology-Aware Scheduling): while it looks for one, the failure of the node does
//! not end the attempt, so that one incident is charged once. Kueue clears its mark of the node in the same write that
//! assigns another: then a pod that was created since is waited for, also where the pod that died is gone. A failure that Kueue
//! does not make up for is decided about when it is due.

use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::health::{self, PodSetHealth};
use super::problem::Problem;
use super::{components, pods, recovery, steps};
use crate::api::condition::unhealthy;
use crate::snapshot::workload::{Workload, WorkloadRead};
use crate::snapshot::{Pod, PodPhase};
use crate::tuning::Period;

/// How often the Workload is read while Kueue looks for a node.
const POLL: Period = Period::from_secs(10);

/// What is known of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacing<'a> {
    /// Kueue replaces no node of this failure, or takes too long.
    No,
    /// The Workload has to be read.
    Unknown,
    /// Kueue looks for a node, or a pod does not run there yet.
    Until {
        /// When it is looked at again.
        again: Timestamp,
        /// When the failure is decided about.
        deadline: Timestamp,
        /// The node that failed; none where nothing names it any more.
        node: Option<&'a str>,
    },
}

/// A pod that died of its node, when, and its pod set.
#[derive(Clone, Copy)]
struct Dead<'s, 'a> {
    /// None where the pod is gone, as Kubernetes removes the pods of a node that is gone.
    pod: Option<&'a Pod>,
    at: Timestamp,
    set: &'s PodSetHealth<'a>,
}

/// Whether Kueue replaces the node that caused a problem which is about to be decided.
pub fn replacing<'a>(draft: &Draft<'a>, problem: &Problem<'a>) -> Replacing<'a> {
    let facts = draft.facts;
    // nothing replaces the pod, whatever Kueue does
    if problem.is_final || !facts.snapshot.replaces_failed_nodes {
        return Replacing::No;
    }
    let pod_sets = components::begun_pod_sets(draft);
    let Some(first) = first_dead(draft, problem, &pod_sets) else { return Replacing::No };
    let deadline = latest(draft, first.at);
    if facts.now >= deadline {
        return Replacing::No;
    }
    let workload = match &facts.snapshot.workload {
        WorkloadRead::NotRead => return Replacing::Unknown,
        WorkloadRead::Found(workload) if is_replaced(first, workload) => workload,
        WorkloadRead::Found(_) | WorkloadRead::Absent | WorkloadRead::Refused(_) => {
            return Replacing::No;
        }
    };
    let other = if problem.pod_set.is_some() {
        // what another pod set lacks is a problem of its own
        (!is_made_up_for(draft, first.set, workload)).then_some(facts.now)
    } else {
        other_due(draft, problem, &pod_sets, workload)
    };
    if other.is_some_and(|other| other <= facts.now) {
        return Replacing::No;
    }
    let deadline = other.map_or(deadline, |other| other.min(deadline));
    let node = match first.pod {
        Some(pod) => pod.node.as_ref(),
        None => workload.unhealthy_nodes.first(),
    };
    let again = POLL.after(facts.now).min(deadline);
    Replacing::Until { again, deadline, node: node.map(String::as_str) }
}

/// The pod of a problem that died of its node; of a pod set that has too few pods, the first, or one that is gone.
fn first_dead<'s, 'a>(
    draft: &Draft<'a>,
    problem: &Problem<'a>,
    pod_sets: &'s [PodSetHealth<'a>],
) -> Option<Dead<'s, 'a>> {
    let set = |component: Option<usize>, pod_set: Option<usize>| {
        pod_sets.iter().find(|set| (Some(set.component), Some(set.pod_set)) == (component, pod_set))
    };
    if problem.pod_set.is_some() {
        let set = set(problem.component, problem.pod_set)?;
        return dead(draft, set).next().or_else(|| gone(draft, set));
    }
    let may_come = [unhealthy::FOUND_FAILED_PODS, unhealthy::STUCK_TERMINATING];
    let pod = problem.pod.filter(|pod| pod.died_of_node())?;
    let set = set(pod.component, pod.pod_set)?;
    let (at, pod) = (problem.failed_at, Some(pod));
    may_come.contains(&problem.reason).then_some(Dead { pod, at, set })
}

/// The pods of a pod set that died of their nodes and were not replaced, the first failure first.
fn dead<'s, 'a>(
    draft: &Draft<'a>,
    set: &'s PodSetHealth<'a>,
) -> impl Iterator<Item = Dead<'s, 'a>> {
    let facts = draft.facts;
    let dead = health::not_replaced(draft, set).into_iter().filter(|pod| pod.died_of_node());
    dead.map(move |pod| Dead { pod: Some(pod), at: pods::failed_at(facts, pod), set })
}

/// A pod that a pod set lacks, where no failed pod of it is left: it may have died of its node.
fn gone<'s, 'a>(draft: &Draft<'a>, set: &'s PodSetHealth<'a>) -> Option<Dead<'s, 'a>> {
    let is_gone = health::not_replaced(draft, set).is_empty();
    let at = lacking_since(draft, set).filter(|_| is_gone)?;
    Some(Dead { pod: None, at, set })
}

fn lacking_since(draft: &Draft<'_>, set: &PodSetHealth<'_>) -> Option<Timestamp> {
    health::lacking_since(draft, set, steps::since(draft, set.component))
}

/// Whether Kueue looks for another node, or has found one, and a pod that is to run there does not run yet. Kueue evicts
/// where it finds none.
fn is_replaced(dead: Dead<'_, '_>, workload: &Workload) -> bool {
    let is_marked = match dead.pod.map(|pod| &pod.node) {
        Some(Some(node)) => workload.unhealthy_nodes.contains(node),
        Some(None) => return false,
        None => !workload.unhealthy_nodes.is_empty(),
    };
    let is_kept = workload.has_topology && workload.holds_quota && !workload.evicted;
    is_marked || is_kept && waiting_since(dead.set, dead.at).next().is_some()
}

/// The pods of a pod set that were created since a moment and do not run yet.
fn waiting_since<'s>(
    set: &'s PodSetHealth<'_>,
    since: Timestamp,
) -> impl Iterator<Item = &'s &'s Pod> {
    let pending = set.waiting.iter().filter(|pod| pod.phase == PodPhase::Pending);
    pending.filter(move |pod| pod.created.is_some_and(|at| at >= since))
}

/// Whether a pod set lacks no more pods than those that died of nodes which Kueue replaces: others that failed were
/// replaced. Where no other failed pod is left, pods that wait since then may replace pods that are gone.
fn is_made_up_for(draft: &Draft<'_>, set: &PodSetHealth<'_>, workload: &Workload) -> bool {
    let dead: Vec<Dead<'_, '_>> = dead(draft, set).collect();
    let replaced = dead.iter().filter(|dead| is_replaced(**dead, workload)).count();
    let since = dead.first().map(|dead| dead.at).into_iter();
    let since = since.chain(lacking_since(draft, set)).min();
    let is_alone = replaced == health::not_replaced(draft, set).len();
    let newer = since.filter(|_| is_alone).map_or(0, |since| waiting_since(set, since).count());
    let lacking = usize::try_from(set.expected - set.running).unwrap_or(0);
    (1..=replaced.max(newer)).contains(&lacking)
}

/// When the first failure is due that Kueue does not make up for; none where there is none.
fn other_due<'a>(
    draft: &Draft<'a>,
    problem: &Problem<'a>,
    pod_sets: &[PodSetHealth<'a>],
    workload: &Workload,
) -> Option<Timestamp> {
    let judged = problem.judged(draft);
    let due = |set: &PodSetHealth<'a>| {
        let failed = pods::not_replaced(draft, &judged, std::slice::from_ref(set));
        let due = failed.into_iter().filter_map(|pod| {
            let at = pods::failed_at(draft.facts, pod);
            let is_held =
                pod.died_of_node() && is_replaced(Dead { pod: Some(pod), at, set }, workload);
            (!is_held).then(|| pods::decided_at(draft.facts, pod))
        });
        due.min()
    };
    let lacking = pod_sets.iter().filter(|set| !is_made_up_for(draft, set, workload));
    lacking.filter_map(due).min()
}

/// Until when a replacement is waited for: until Kueue evicts; without `waitForPodsReady`, for the warm-up of a new pod.
fn latest(draft: &Draft<'_>, failed_at: Timestamp) -> Timestamp {
    let limits = draft.facts.limits;
    let eviction = recovery::eviction(&draft.status, draft.facts.snapshot.wait_for_pods_ready);
    let own = limits.warmup_grace.after(limits.failure_grace.after(failed_at));
    eviction.map_or(own, |eviction| eviction.at)
}
