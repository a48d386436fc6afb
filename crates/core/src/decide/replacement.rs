//! Whether something replaces a pod that failed, and whether its component may still say why it failed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use k8s_openapi::jiff::Timestamp;

use super::{Facts, attempts, consequence, failure};
use crate::api::keys;
use crate::snapshot::{BackoffLimit, Component, Object, Outcome, Pod, PodPhase, Report};
use crate::tuning::Period;

/// How long a component may take to say why it failed, from the end of its first failed pod.
pub const OWNER_GRACE: Period = Period::from_secs(10);

/// How long others may take to do what they could not do while the API server did not answer: components that replace pods,
/// and pods that report progress.
pub const AFTER_GAP: Period = Period::from_secs(30);

/// Components whose pods failed, and that may still say why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilentOwners {
    /// When the first of those pods failed.
    pub since: Timestamp,
    /// Until when the last of them is waited for.
    pub until: Timestamp,
}

impl SilentOwners {
    /// That of a failed pod, and when the pod failed; none where it has spoken, or where it is not waited for.
    pub fn of_pod(
        facts: Facts<'_>,
        replacement: &Replacement,
        (pod, failed_at): (&Pod, Timestamp),
    ) -> Option<Self> {
        let ended = failure::ended_at(pod).filter(|at| *at <= facts.now);
        let until = owner_until(facts, replacement, pod, ended.max(Some(failed_at))?)?;
        Some(Self { since: failed_at, until })
    }

    /// These and others.
    pub fn and(self, other: Self) -> Self {
        Self { since: self.since.min(other.since), until: self.until.max(other.until) }
    }
}

/// Until when the component of a failed pod is waited for: it may be that nothing replaces the pod, so that it will
/// say itself that it failed, and rules of `failurePolicy` are about what it says. A lost pod is not waited for: its
/// component may not hear of it for minutes. Nor is one that was deleted after its end, unless it is certain that nothing
/// replaces it: its component replaces it, and nobody could be asked about it later.
fn owner_until(
    facts: Facts<'_>,
    replacement: &Replacement,
    pod: &Pod,
    ended_at: Timestamp,
) -> Option<Timestamp> {
    let component = facts.snapshot.components.get(pod.component?)?;
    let object = component.ours()?;
    let has_spoken = matches!(object.report.outcome, Outcome::Failed { .. });
    let rules = facts.snapshot.policies.failure_rules().next().is_some();
    (rules
        && !has_spoken
        && !pod.is_given_up()
        && (replacement.is_final(facts, pod) || !is_deleted_after_its_end(pod))
        && object.uid != pod.uid
        && replacement.may_be_final(facts, pod))
    .then(|| OWNER_GRACE.after(ended_at))
}

/// The exit codes with which Kubeflow replaces no pod that restarts by exit code.
const FINAL_EXIT_CODES: RangeInclusive<i32> = 1..=127;

fn has_final_exit_code(pod: &Pod) -> bool {
    pod.terminated().any(|(_, end)| FINAL_EXIT_CODES.contains(&end.exit_code))
}

/// Whether a pod failed by itself and was deleted later: its component replaces it.
fn is_deleted_after_its_end(pod: &Pod) -> bool {
    let disrupted = pod.true_condition("DisruptionTarget").is_some();
    let times = failure::ended_at(pod).zip(pod.deletion_requested);
    let ended_before = times.is_some_and(|(ended, requested)| ended <= requested);
    pod.phase == PodPhase::Failed
        && pod.terminating
        && ended_before
        && !disrupted
        && !consequence::ended_by_deletion(pod)
}

/// Whether nothing replaces a pod: neither its kind nor a component that has failed does, nor a Job whose
/// `backoffLimit` is used up.
pub fn is_final(facts: Facts<'_>, pod: &Pod) -> bool {
    Replacement::of(facts).is_final(facts, pod)
}

/// How many pods of a Job failed, as far as is known, and how many of them it replaces.
#[derive(Clone, Copy)]
struct Failures {
    limit: BackoffLimit,
    at_least: i64,
    at_most: i64,
}

/// What must be known to tell whether pods are replaced: the failed pods of each pod set, all of them and those
/// that still have the finalizer of their Job.
pub struct Replacement {
    failed: BTreeMap<(usize, usize), (i64, i64)>,
}

impl Replacement {
    /// Counts the pods, of which there may be thousands, once.
    pub fn of(facts: Facts<'_>) -> Self {
        let mut failed = BTreeMap::new();
        for pod in attempts::pods(facts.snapshot) {
            if let (Some(component), Some(set)) = (pod.component, pod.pod_set)
                && pod.phase == PodPhase::Failed
            {
                let is_tracked =
                    pod.finalizers.iter().any(|finalizer| finalizer == keys::JOB_TRACKING);
                let (all, tracked) = failed.entry((component, set)).or_insert((0, 0));
                *all += 1;
                *tracked += i64::from(is_tracked);
            }
        }
        Self { failed }
    }

    /// The same as [`is_final`].
    pub fn is_final(&self, facts: Facts<'_>, pod: &Pod) -> bool {
        let limit_is_exceeded = |failures: Failures| {
            failures.limit.limit.is_some_and(|limit| failures.at_least > limit)
        };
        self.is_unreplaced(facts, pod, limit_is_exceeded)
    }

    /// Whether nothing may replace the pod: [`is_final`](Self::is_final), or what its Job has counted may have been
    /// read before its pods were, or a rule or an exit code may fail its component.
    fn may_be_final(&self, facts: Facts<'_>, pod: &Pod) -> bool {
        let object = pod.component.and_then(|index| facts.snapshot.components.get(index)?.ours());
        let is_open = |object: &Object| {
            let Report { perhaps_unreplaced, replaced_by_exit_code, .. } = &object.report;
            pod.pod_set.is_some_and(|set| {
                perhaps_unreplaced.contains(&set)
                    || replaced_by_exit_code.contains(&set) && has_final_exit_code(pod)
            })
        };
        if object.is_some_and(is_open) {
            return true;
        }
        let limit_may_be_exceeded = |failures: Failures| {
            let limit = failures.limit;
            limit.fails_by_rule || limit.limit.is_none_or(|limit| failures.at_most > limit)
        };
        self.is_unreplaced(facts, pod, limit_may_be_exceeded)
    }

    fn is_unreplaced(
        &self,
        facts: Facts<'_>,
        pod: &Pod,
        is_exceeded: fn(Failures) -> bool,
    ) -> bool {
        let component = pod.component.and_then(|index| facts.snapshot.components.get(index));
        component.and_then(Component::ours).is_some_and(|object| {
            matches!(object.report.outcome, Outcome::Failed { .. })
                || pod.pod_set.is_some_and(|set| {
                    object.report.unreplaced.contains(&set)
                        || self.failures(object, pod, set).is_some_and(is_exceeded)
                })
        })
    }

    /// The failures of the pod's Job, this one included, and its `backoffLimit`. Of a Job in a `JobSet` only the limit is
    /// known.
    fn failures(&self, object: &Object, pod: &Pod, set: usize) -> Option<Failures> {
        let limit = object.report.backoff.get(&set).copied()?;
        let Some(counted) = limit.counted else {
            return Some(Failures { limit, at_least: 1, at_most: i64::MAX });
        };
        let place = pod.component.map(|component| (component, set));
        let failed = place.and_then(|place| self.failed.get(&place)).copied();
        let (all, tracked) = failed.unwrap_or_default();
        let more = i64::from(pod.phase != PodPhase::Failed); // it will be marked as failed
        Some(Failures {
            limit,
            // those that the Job has marked are among those that have its finalizer, until it takes that away
            at_least: counted
                .saturating_add(tracked.saturating_sub(limit.marked).max(0))
                .max(all)
                .saturating_add(more),
            // a pod without the finalizer was counted, but that may not be seen of its Job yet
            at_most: counted.saturating_add(all).saturating_add(more),
        })
    }
}
