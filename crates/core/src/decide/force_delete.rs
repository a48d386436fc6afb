//! Deletion of pods on lost nodes: forced at once where nothing runs any more; where a pod may still run, a
//! message names the node.

use super::draft::Draft;
use super::{Facts, health};
use crate::mutations::{self, Mutation};
use crate::plan::Action;
use crate::snapshot::Pod;
use crate::snapshot::lost::{Loss, OUT_OF_SERVICE};

/// Whether a pod is Terminating on a node that is shut down or gone: nothing runs there, and no kubelet completes the
/// deletion. On a node that is lost in another way, whether it may run beside its successor.
pub fn is_fenced(facts: Facts<'_>, pod: &Pod) -> bool {
    pod.terminating
        && facts.snapshot.loss_of(pod).is_some_and(|loss| {
            let is_stopped = !loss.may_return() || mutations::is_present(Mutation::LostIsFenced);
            is_stopped || pod.safe_to_force_delete
        })
}

/// The pods of which this is so.
pub fn fenced<'a>(draft: &Draft<'a>) -> impl Iterator<Item = &'a Pod> + use<'a> {
    let facts = draft.facts;
    facts.snapshot.pods.iter().filter(move |pod| is_fenced(facts, pod))
}

/// Whether a Terminating pod should have been gone for `forcefulDeletionGracePeriod`, whoever has deleted it, and not only
/// finalizers keep it.
pub fn is_overdue(facts: Facts<'_>, pod: &Pod) -> bool {
    let is_removable = pod.terminating && !pod.held_by_finalizers;
    let from = health::overdue_from(facts, pod).filter(|_| is_removable);
    from.is_some_and(|from| from <= facts.now) && !mutations::is_present(Mutation::NeverForce)
}

/// Force-deletes the Terminating pods, of a component or of all, of which nothing runs or which are overdue, and looks again
/// when the next one is. Returns true if one is overdue: it may still run.
pub fn force_due(draft: &mut Draft<'_>, component: Option<usize>) -> bool {
    let facts = draft.facts;
    let is_of = |pod: &&Pod| component.is_none() || pod.component == component;
    let mut any_overdue = false;
    for pod in facts.snapshot.pods.iter().filter(|pod| pod.terminating).filter(is_of) {
        // its own deletion may have begun before that of the others
        let due = health::overdue_from(facts, pod).filter(|due| facts.now < *due);
        let is_fenced = is_fenced(facts, pod);
        let overdue = !is_fenced && is_overdue(facts, pod);
        any_overdue |= overdue;
        if is_fenced || overdue {
            force(draft, pod);
        } else if let Some(due) = due {
            draft.look_again(due);
        }
    }
    any_overdue
}

/// Deletes a pod in the ordinary way, where nothing else would.
pub fn delete(draft: &mut Draft<'_>, pod: &Pod) {
    draft.act(Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() });
    draft.verdict.delete_pods.push(pod.name.clone());
}

/// Deletes a pod with grace period 0.
pub fn force(draft: &mut Draft<'_>, pod: &Pod) {
    draft.act(Action::ForceDeletePod { name: pod.name.clone(), uid: pod.uid.clone() });
    draft.verdict.delete_pods.push(pod.name.clone());
}

/// What became of a node, and what an administrator can do about it.
pub fn state_of_node(node: &str, loss: Loss) -> String {
    let state = loss.sentence();
    if loss.may_return() {
        let taint = format!("kubectl taint node {node} {OUT_OF_SERVICE}=nodeshutdown:NoExecute");
        format!(", which {state} (once the machine is off: {taint})")
    } else {
        format!(", which {state}")
    }
}
