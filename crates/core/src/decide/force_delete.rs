//! Deletion of pods on lost nodes: forced at once where nothing runs any more; where a pod may still run, a
//! message names the node.

use super::draft::Draft;
use super::{Facts, health};
use crate::mutations::{self, Mutation};
use crate::plan::Action;
use crate::snapshot::Pod;
use crate::snapshot::lost::{Loss, OUT_OF_SERVICE};

/// Terminating pods on nodes that are shut down or gone: nothing runs there, and no kubelet completes the
/// deletion. On a node that is lost in another way, those that may run beside their successors.
pub fn fenced<'a>(draft: &Draft<'a>) -> impl Iterator<Item = &'a Pod> + use<'a> {
    let snapshot = draft.facts.snapshot;
    let is_fenced = |pod: &&Pod| {
        snapshot.loss_of(pod).is_some_and(|loss| {
            let is_stopped = !loss.may_return() || mutations::is_present(Mutation::LostIsFenced);
            is_stopped || pod.safe_to_force_delete
        })
    };
    snapshot.pods.iter().filter(|pod| pod.terminating).filter(is_fenced)
}

/// Whether a Terminating pod should have been gone for `ForcefulDeletionGracePeriod`, whoever has deleted it, and not only
/// finalizers keep it.
pub fn is_overdue(facts: Facts<'_>, pod: &Pod) -> bool {
    let is_removable = pod.terminating && !pod.held_by_finalizers;
    let from = health::overdue_from(facts, pod).filter(|_| is_removable);
    from.is_some_and(|from| from <= facts.now) && !mutations::is_present(Mutation::NeverForce)
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
pub fn state_of_node(loss: Loss) -> String {
    let state = loss.sentence();
    if loss.may_return() {
        format!(", which {state} (after you shut it down, add the taint {OUT_OF_SERVICE})")
    } else {
        format!(", which {state}")
    }
}
