//! Kueue's replacement of failed nodes (Topology-Aware Scheduling): while it looks for one, the failure of the node does
//! not end the attempt, so that one incident is charged once. Kueue clears its mark of the node in the same write that
//! assigns another: then a pod that was created since is waited for.

use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::problem::Problem;
use super::recovery;
use crate::api::condition::unhealthy;
use crate::snapshot::PodPhase;
use crate::snapshot::workload::{Workload, WorkloadRead};
use crate::tuning::Period;

/// How often the Workload is read while Kueue looks for a node.
const POLL: Period = Period::from_secs(10);

/// What is known of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacing {
    /// Kueue replaces no node of this failure, or takes too long.
    No,
    /// The Workload has to be read.
    Unknown,
    /// Kueue looks for a node, or a pod does not run there yet: the failure is decided about at the second moment, and looked at again at the first.
    Until(Timestamp, Timestamp),
}

/// Whether Kueue replaces the node that caused a problem which is about to be decided.
pub fn replacing(draft: &Draft<'_>, problem: &Problem<'_>) -> Replacing {
    let facts = draft.facts;
    let may_come = [unhealthy::FOUND_FAILED_PODS, unhealthy::STUCK_TERMINATING];
    let of_node = problem.pod.filter(|pod| pod.died_of_node());
    let Some(node) = of_node.and_then(|pod| pod.node.as_ref()) else { return Replacing::No };
    // nothing replaces the pod, whatever Kueue does
    let is_lost = problem.is_final || !may_come.contains(&problem.reason);
    if is_lost || !facts.snapshot.replaces_failed_nodes {
        return Replacing::No;
    }
    let deadline = latest(draft, problem);
    if facts.now >= deadline {
        return Replacing::No;
    }
    match &facts.snapshot.workload {
        WorkloadRead::NotRead => Replacing::Unknown,
        WorkloadRead::Found(workload)
            if workload.unhealthy_nodes.contains(node) || is_replaced(draft, problem, workload) =>
        {
            Replacing::Until(POLL.after(facts.now).min(deadline), deadline)
        }
        WorkloadRead::Found(_) | WorkloadRead::Absent | WorkloadRead::Refused(_) => Replacing::No,
    }
}

/// Whether Kueue has found a node, and a pod that is to run there does not run yet. Kueue evicts where it finds none.
fn is_replaced(draft: &Draft<'_>, problem: &Problem<'_>, workload: &Workload) -> bool {
    let is_kept = workload.has_topology && workload.holds_quota && !workload.evicted;
    let Some(failed) = problem.pod.filter(|_| is_kept) else { return false };
    draft.facts.snapshot.pods.iter().any(|pod| {
        let is_of_same_set = (pod.component, pod.pod_set) == (failed.component, failed.pod_set);
        let waits = pod.phase == PodPhase::Pending && !pod.terminating;
        is_of_same_set && waits && pod.created.is_some_and(|at| at >= problem.failed_at)
    })
}

/// Until when a replacement is waited for: until Kueue evicts; without `waitForPodsReady`, for the warm-up of a new pod.
fn latest(draft: &Draft<'_>, problem: &Problem<'_>) -> Timestamp {
    let limits = draft.facts.limits;
    let eviction = recovery::eviction(&draft.status, draft.facts.snapshot.wait_for_pods_ready);
    let own = limits.warmup_grace.after(limits.failure_grace.after(problem.failed_at));
    eviction.map_or(own, |eviction| eviction.at)
}
