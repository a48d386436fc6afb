//! Failed pods that are the consequence of something else: their owner deleted them because it had failed or succeeded, or
//! they were deleted with it.
//!
//! A Job that fails deletes its running pods, and so does one that succeeds before all of its pods have, a `JobSet` that
//! starts again because one of them failed, a Volcano Job that restarts or ends, and a `RayJob` that tries again with a
//! new cluster. They then end with 143 or 137 and count as failed for a moment, until they are gone. What they say is
//! nothing that their containers did, and whether it is seen is a matter of time, so no policy is asked about them. A Job
//! counts a disrupted pod as failed before it has ended, and deletes the others then.
//!
//! Some components delete pods whatever these did ([`Report::deletes_pods`](crate::snapshot::Report::deletes_pods)): none
//! of their deleted pods is asked about. Of other kinds, a pod that was deleted without an earlier failure is judged like any
//! other, as KEP-3329 does it. A pod that was disrupted always is.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::policy::category;
use super::{Facts, attempts, failure, health};
use crate::snapshot::{Outcome, Pod, Presence, Snapshot};

/// Exit codes of a container that SIGTERM or SIGKILL ended.
const KILLED: [i32; 2] = [143, 137];

/// What explains that pods of a component were deleted: that it had failed or succeeded, tries again, or is deleted itself.
#[derive(Debug, Default)]
pub struct FirstFailures {
    /// When one of its pods failed first by itself or, of a Job, was to be disrupted, a Job of it failed, or its object.
    first: BTreeMap<usize, Timestamp>,
    /// When its deletion was requested; `None` where that is not known, as of one that is gone.
    deleted: BTreeMap<usize, Option<Timestamp>>,
    /// Those that have done their work, or that delete pods whatever these did.
    clears_up: BTreeSet<usize>,
}

impl FirstFailures {
    /// Of the running attempt, without failed pods that were replaced.
    pub fn of(facts: Facts<'_>) -> Self {
        let snapshot = facts.snapshot;
        let mut all = Self::default();
        if !snapshot.pods.iter().any(ended_by_deletion) {
            return all; // as usual: nobody asks
        }
        for pod in attempts::pods(snapshot) {
            let counts = fails_by_itself(pod) && !health::is_replaced(snapshot, pod);
            if let (Some(index), Some(at), true) =
                (pod.component, failure::finished_at(pod), counts)
            {
                all.note(index, at);
            }
        }
        for pod in attempts::pods(snapshot).filter(|pod| !health::is_replaced(snapshot, pod)) {
            if let (Some(index), Some(at)) = (pod.component, disrupted_from(snapshot, pod)) {
                all.note(index, at);
            }
        }
        // of a pod that is gone since
        for entry in snapshot.status.since.iter().flat_map(|since| &since.pod_sets) {
            let failed_at =
                entry.failed_at.as_ref().filter(|at| entry.replaced_until.as_ref() < Some(*at));
            if let (Some(index), Some(at)) = (health::component_of(&entry.pod_set), failed_at) {
                all.note(index, at.0);
            }
        }
        for (index, component) in snapshot.components.iter().enumerate() {
            let object = component.ours();
            if health::is_success_stored(&snapshot.status, index) {
                all.clears_up.insert(index);
            }
            let is_owner = component.kind != "Pod"; // a wrapped Pod is not deleted because of itself
            if is_owner && component.presence == Presence::Absent {
                all.deleted.insert(index, None);
            }
            let is_current = |made| attempts::is_current(&snapshot.status, made);
            let Some(object) = object.filter(|object| is_current(object.attempt)) else { continue };
            if object.report.outcome == Outcome::Succeeded || object.report.deletes_pods {
                all.clears_up.insert(index);
            }
            if object.terminating && is_owner {
                all.deleted.insert(index, object.deletion_requested);
            }
            if let Outcome::Failed { at: Some(at), .. } = &object.report.outcome {
                all.note(index, *at);
            }
            let of_jobs = component.failed_jobs.iter().filter_map(|job| job.at);
            of_jobs.for_each(|at| all.note(index, at));
        }
        all
    }

    fn note(&mut self, index: usize, at: Timestamp) {
        self.first.entry(index).and_modify(|first| *first = at.min(*first)).or_insert(at);
    }

    /// Whether a deletion ended a pod that came after such a failure of its component, with it, or after its success. Of a
    /// component that has succeeded, or that deletes pods itself, no deletion of a pod tells anything else.
    pub fn is_consequence(&self, pod: &Pod) -> bool {
        let Some(index) = pod.component else { return false };
        let is_after = |at: &Timestamp| pod.deletion_requested >= Some(*at);
        let is_deleted_with_it =
            self.deleted.get(&index).is_some_and(|since| since.as_ref().is_none_or(is_after));
        (self.first.get(&index).is_some_and(is_after)
            || is_deleted_with_it
            || self.clears_up.contains(&index))
            && ended_by_deletion(pod)
    }
}

/// From when the Job of a pod counts it as failed because it is to be disrupted, while it may still end; none once all pods
/// ran again. Other kinds count it when it has ended.
pub fn disrupted_from(snapshot: &Snapshot, pod: &Pod) -> Option<Timestamp> {
    let component = snapshot.components.get(pod.component?)?;
    let is_job = component.kind == "Job" && component.api_version == "batch/v1";
    let at = pod.true_condition("DisruptionTarget").filter(|_| is_job)?.since?;
    (!health::was_ready_after(snapshot, pod, at)).then_some(at)
}

/// Whether a pod failed, or is lost, and neither a deletion nor a kubelet that does not respond is why.
pub fn fails_by_itself(pod: &Pod) -> bool {
    pod.has_failed() && !pod.is_given_up() && !ended_by_deletion(pod)
}

/// Whether a deletion ended a pod, of which nothing says that it was disrupted.
///
/// The times have seconds. Of a pod that failed in the second of its deletion, the exit codes tell.
pub fn ended_by_deletion(pod: &Pod) -> bool {
    let is_killed = || {
        let mut codes = pod.terminated().filter(|(_, end)| end.exit_code != 0);
        codes.all(|(_, end)| KILLED.contains(&end.exit_code) && end.reason != category::OOM_KILLED)
    };
    let Some(requested) = pod.deletion_requested else { return false };
    pod.has_failed()
        && !pod.is_given_up()
        && pod.true_condition("DisruptionTarget").is_none()
        && failure::finished_at(pod)
            .is_some_and(|at| at > requested || at == requested && is_killed())
}
