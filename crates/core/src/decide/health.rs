//! How the pods of each pod set are doing. Source: `docs/user/policies.md#when` and `docs/dev/conformance.md`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::{Facts, attempts, consequence, failure, input};
use crate::api::{AppWrapperStatus, PodSet, PodSetSince, condition};
use crate::snapshot::lost::Loss;
use crate::snapshot::{Component, End, Outcome, Pod, PodPhase, Presence, Snapshot};
use crate::tuning::Period;

/// By how much the clock of the API server is taken to be behind at most.
pub const CLOCK_BEHIND_MAX: Period = Period::from_secs(120);

/// The pods of one pod set, of the running attempt alone.
#[derive(Debug)]
pub struct PodSetHealth<'a> {
    /// Index of the component.
    pub component: usize,
    /// Index of the pod set in its component.
    pub pod_set: usize,
    /// Pods that must be Pending, Running or (where they still count) Succeeded.
    pub expected: i64,
    /// Pods that are Running, or Succeeded and still counted.
    pub running: i64,
    /// Pods that are Ready, or Succeeded and still counted; all that run where their component says that it is ready.
    pub fully_ready: i64,
    /// Pods that are Pending or Running, Terminating or not, or Succeeded and still counted.
    pub alive: i64,
    /// Pods that are Pending or beyond: Running, Succeeded and still counted, or failed or lost and not
    /// replaced.
    pub there: i64,
    /// Pods that are Terminating and not given up: they count as neither running nor missing.
    pub terminating: Vec<&'a Pod>,
    /// Pods that are not Running yet, oldest first.
    pub waiting: Vec<&'a Pod>,
    /// Pods that failed or are lost, the first failure first.
    pub failed: Vec<&'a Pod>,
    /// Its component has succeeded: nothing is expected any more.
    pub done: bool,
    /// Its component has started this part.
    pub started: bool,
}

impl PodSetHealth<'_> {
    /// Every expected pod runs or has succeeded.
    ///
    /// A part that its component has not started expects no pod yet.
    pub const fn ready(&self) -> bool {
        self.done || self.running >= self.expected
    }

    /// Every pod of it, also of what has not started yet, is Ready or has succeeded: a step of `executionPolicy` waits for
    /// that.
    pub const fn complete(&self) -> bool {
        self.done || self.started && self.fully_ready >= self.expected
    }

    /// All pods exist, and some of them do not run yet.
    pub const fn waits(&self) -> bool {
        self.there >= self.expected && !self.waiting.is_empty()
    }

    /// When the oldest pod was created that has not run yet.
    pub fn oldest_pending(&self) -> Option<Timestamp> {
        let pending = self.waiting.iter().filter(|pod| pod.phase == PodPhase::Pending);
        pending.filter_map(|pod| pod.created).min()
    }

    /// Tells whether it lost its readiness when a pod of it ended or was to be deleted: not if another one was there that
    /// has not run yet. The pods that wait are visited once, however many are asked about.
    fn loses_readiness(&self) -> impl Fn(&Pod) -> bool + use<> {
        let oldest = self.oldest_pending();
        move |pod| {
            let end = failure::ended_at(pod).into_iter().chain(pod.deletion_requested).min();
            end.zip(oldest).is_none_or(|(end, oldest)| oldest >= end)
        }
    }

    /// Whether a pod of it is lost, and only the time since when the pod set is short of it tells since when. A Terminating
    /// one may have been missing before.
    fn dates_a_loss(&self) -> bool {
        let mut lost = self.failed.iter().filter_map(|pod| pod.lost.filter(|_| !pod.terminating));
        lost.any(|loss| loss.since.is_none())
    }

    /// Name in the label of its pods: `<component>-<pod set>`.
    pub fn name(&self) -> String {
        name_of(self.component, self.pod_set)
    }
}

fn name_of(component: usize, pod_set: usize) -> String {
    format!("{component}-{pod_set}")
}

/// The pod sets of every component, in order.
pub fn pod_sets<'a>(draft: &Draft<'a>) -> Vec<PodSetHealth<'a>> {
    let snapshot = draft.facts.snapshot;
    let mut all = vec![];
    for (index, component) in snapshot.components.iter().enumerate() {
        let (done, serves) = (has_succeeded(draft, index), serves(draft, index));
        // the Go controller has recorded none of a kind that it does not know
        let recorded = draft.status.component_status.get(index).map(|status| &status.pod_sets);
        let declared = recorded.filter(|sets| !sets.is_empty()).unwrap_or(&component.pod_sets);
        for (pod_set, declared) in declared.iter().enumerate() {
            let declared = i64::from(declared.count());
            all.push(tally(snapshot, (index, pod_set), declared, done, serves));
        }
    }
    all
}

/// Whether the object of the running attempt says that it is ready, which its pods need not be.
fn serves(draft: &Draft<'_>, index: usize) -> bool {
    let component = &draft.facts.snapshot.components[index];
    let current = component.ours().filter(|_| is_current(draft, index, component));
    current.is_some_and(|object| object.report.serves)
}

/// Whether a component has succeeded: it is recorded, or it says so now, or, where nothing is known of its
/// kind, its expected pods have succeeded.
pub fn has_succeeded(draft: &Draft<'_>, index: usize) -> bool {
    let recorded = is_success_recorded(draft, index);
    let component = &draft.facts.snapshot.components[index];
    // a cache may still show the object of an earlier attempt
    let current = component.ours().filter(|_| is_current(draft, index, component));
    recorded
        || current.is_some_and(|object| {
            object.report.outcome == Outcome::Succeeded
                || (component.end == End::Unknown
                    && object.report.outcome == Outcome::Active
                    && pods_have_succeeded(draft, index))
        })
}

/// Whether it is written down that a component has succeeded.
pub fn is_success_recorded(draft: &Draft<'_>, index: usize) -> bool {
    is_success_stored(&draft.status, index)
}

/// The same of a status.
pub fn is_success_stored(status: &AppWrapperStatus, index: usize) -> bool {
    status.component_status.get(index).is_some_and(|status| {
        condition::is_true(&status.conditions, condition::COMPONENT_SUCCEEDED)
    })
}

fn pods_have_succeeded(draft: &Draft<'_>, index: usize) -> bool {
    let snapshot = draft.facts.snapshot;
    let pod_sets = &snapshot.components[index].pod_sets;
    let has_succeeded = |(pod_set, declared): (usize, &PodSet)| {
        let succeeded = of(snapshot, (index, pod_set)).filter(|pod| succeeded_by_itself(pod));
        count(succeeded) >= i64::from(declared.count())
    };
    !pod_sets.is_empty() && pod_sets.iter().enumerate().all(has_succeeded)
}

/// Whether a pod has succeeded, and not because it was deleted: what handles SIGTERM ends with 0.
fn succeeded_by_itself(pod: &Pod) -> bool {
    let is_deleted_first =
        |requested| failure::ended_at(pod).is_none_or(|ended| ended >= requested);
    pod.phase == PodPhase::Succeeded && !pod.deletion_requested.is_some_and(is_deleted_first)
}

fn tally(
    snapshot: &Snapshot,
    (component, pod_set): (usize, usize),
    declared: i64,
    done: bool,
    serves: bool,
) -> PodSetHealth<'_> {
    let of_phase = |phase| {
        let own = of(snapshot, (component, pod_set));
        own.filter(move |pod| pod.phase == phase && !pod.terminating && !pod.is_given_up())
    };
    let succeeded = count(of_phase(PodPhase::Succeeded));
    let report = snapshot.components[component].ours().map(|object| &object.report);
    let (expected, credit) = match report.and_then(|report| report.expected.get(&pod_set)) {
        // A pod may be seen to succeed before its owner has counted it.
        Some(expected) => (expected.running(succeeded), 0),
        None => (declared, succeeded),
    };
    let running = count(of_phase(PodPhase::Running)) + credit;
    let is_ready = |pod: &&Pod| serves || pod.true_condition("Ready").is_some();
    let mut waiting: Vec<&Pod> = of(snapshot, (component, pod_set))
        .filter(|p| matches!(p.phase, PodPhase::Pending | PodPhase::Unknown) && !p.terminating)
        .filter(|pod| !pod.is_given_up())
        .collect();
    waiting.sort_by_key(|pod| (pod.created, pod.name.clone()));
    let mut failed: Vec<&Pod> =
        of(snapshot, (component, pod_set)).filter(|pod| pod.has_failed()).collect();
    failure::sort(&mut failed);
    let terminating = of(snapshot, (component, pod_set)).filter(|pod| pod.is_going());
    let pending = count(of_phase(PodPhase::Pending));
    let going = count(terminating.filter(|pod| pod.phase != PodPhase::Failed));
    let given_up = of(snapshot, (component, pod_set))
        .filter(|pod| pod.is_given_up() && !is_replaced(snapshot, pod));
    let failed_last = of_phase(PodPhase::Failed).filter(|pod| !is_replaced(snapshot, pod));
    PodSetHealth {
        component,
        pod_set,
        expected,
        running,
        fully_ready: count(of_phase(PodPhase::Running).filter(is_ready)) + credit,
        alive: running + pending + going,
        there: running + pending + count(failed_last) + count(given_up),
        terminating: of(snapshot, (component, pod_set)).filter(|pod| pod.is_going()).collect(),
        waiting,
        failed,
        done,
        started: report.is_none_or(|report| !report.unstarted.contains(&pod_set)),
    }
}

/// When a Terminating pod is overdue: its kubelet does not respond, and only a forced deletion removes it.
pub fn overdue_from(facts: Facts<'_>, pod: &Pod) -> Option<Timestamp> {
    Some(facts.limits.forceful_deletion_grace.after(due_to_go(facts, pod)?))
}

/// When a Terminating pod is due to go. The clock of the API server, which dates its deletion, may be behind that of the
/// controller: by the difference at least, where it dates the pod before the attempt that created it. The metric
/// `appwrapper_stuck_pods` leaves the difference out.
pub fn due_to_go(facts: Facts<'_>, pod: &Pod) -> Option<Timestamp> {
    let due = pod.due_to_go?;
    // a component that is created again adds an entry to its attempt, and takes the place of the oldest where there are many
    let entries = &facts.snapshot.status.attempts;
    let is_kept = |index: &usize| *index > 0 || entries.len() < attempts::ATTEMPTS_MAX;
    let first = entries.iter().position(|entry| Some(entry.attempt) == pod.attempt);
    let began = first.filter(is_kept).and_then(|index| entries[index].started_at.as_ref());
    let times = began.zip(pod.created);
    let behind = times.map(|(began, created)| began.0.as_second() - created.as_second());
    let behind = behind.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
    Some(Period::from_secs(behind).min(CLOCK_BEHIND_MAX).after(due))
}

/// The pods of one pod set that belong to the running attempt.
fn of(snapshot: &Snapshot, (component, pod_set): (usize, usize)) -> impl Iterator<Item = &Pod> {
    attempts::pods(snapshot)
        .filter(move |pod| pod.component == Some(component) && pod.pod_set == Some(pod_set))
}

fn count<'a>(pods: impl Iterator<Item = &'a Pod>) -> i64 {
    pods.map(|_| 1_i64).sum()
}

/// Whether the component's object is the one that the running attempt created: the recorded one or, as long as none
/// is recorded, one of this attempt. A watch may still show the one of an earlier attempt.
pub fn is_current(draft: &Draft<'_>, index: usize, component: &Component) -> bool {
    let recorded = draft.status.component_status.get(index).and_then(|status| status.uid.as_ref());
    component.ours().is_some_and(|object| match recorded {
        Some(uid) => *uid == object.uid,
        None => attempts::is_current(&draft.status, object.attempt),
    })
}

/// Whether a component that was created is known to be gone; `None` where a live read must tell.
pub fn is_missing(draft: &Draft<'_>, index: usize, component: &Component) -> Option<bool> {
    let answered = draft.facts.snapshot.answered != crate::plan::FreshRead::Nothing;
    match &component.presence {
        Presence::Absent | Presence::NoKind => Some(true),
        Presence::Present(_) if is_current(draft, index, component) => Some(false),
        Presence::Present(_) if answered => Some(true),
        Presence::Present(_) | Presence::Unseen => None,
    }
}

/// Since when a pod set is ready, as the status that is about to be written has it.
pub fn ready_since(draft: &Draft<'_>, health: &PodSetHealth<'_>) -> Option<Timestamp> {
    let since = draft.status.since.as_ref()?;
    entry(&since.pod_sets, &health.name()).filter(|entry| entry.ready).map(|entry| entry.since.0)
}

/// Since when a pod set lacks pods that it had, as the status that is about to be written has it: since the first failure,
/// where one is recorded. One that has not been ready since its component arrived, as one that was recreated or that is of a
/// later step, had none.
pub fn lacking_since(
    draft: &Draft<'_>,
    health: &PodSetHealth<'_>,
    arrived: Timestamp,
) -> Option<Timestamp> {
    let since = draft.status.since.as_ref()?;
    let stored = entry(&since.pod_sets, &health.name()).filter(|entry| !entry.ready)?;
    if let Some(failed) = &stored.failed_at {
        return Some(failed.0);
    }
    // both times are rounded to seconds, this one up
    let is_loss = stored.since.0 > Period::from_secs(1).after(arrived);
    is_loss.then_some(stored.since.0)
}

/// Since when a pod set is not ready: the anchor of admission and warm-up.
///
/// `None` while a pod of it is Terminating: its replacement may only come when it is gone. A pod that
/// failed since then had been ready before, even if that was not recorded, though not after another one was created
/// that has not run yet; and what happened while the API server did not answer, or no controller ran, is not known at all.
/// Calls that keep failing delay the end for a limited time.
pub fn unready_since(draft: &Draft<'_>, health: &PodSetHealth<'_>) -> Option<Timestamp> {
    if !health.terminating.is_empty() {
        return None;
    }
    let ended = health.failed.iter().filter_map(|pod| failure::ended_at(pod)).max();
    let ended = ended.map(|ended| ended.min(draft.facts.now));
    let ended = ended.map(|ended| health.oldest_pending().map_or(ended, |at| at.min(ended)));
    let recorded = recorded_unready_since(draft, health)?;
    let latest = input::gap_max(draft.facts).after(recorded);
    let gap = draft.facts.snapshot.last_gap.map(|gap| gap.min(latest));
    ended.into_iter().chain(gap).chain([recorded]).max()
}

fn recorded_unready_since(draft: &Draft<'_>, health: &PodSetHealth<'_>) -> Option<Timestamp> {
    let since = draft.status.since.as_ref();
    let stored = since.and_then(|since| entry(&since.pod_sets, &health.name()));
    if let Some(stored) = stored {
        // Not ready now, so this entry was written just now, or by an earlier look.
        return Some(if stored.ready { draft.facts.now } else { stored.since.0 });
    }
    let conditions = &draft.facts.snapshot.status.conditions;
    if condition::is_true(conditions, condition::PODS_READY) {
        return Some(draft.facts.now);
    }
    since
        .and_then(|since| since.deployed.as_ref().map(|time| time.0))
        .or_else(|| {
            condition::find(conditions, condition::PODS_READY)
                .filter(|c| c.reason == condition::unhealthy::INSUFFICIENT_PODS_READY)
                .map(|c| c.last_transition_time.0)
        })
        .or_else(|| condition::since(conditions, condition::RESOURCES_DEPLOYED))
        .or(Some(draft.facts.now))
}

/// Writes down when pod sets became ready or stopped being so.
pub fn record_readiness(draft: &mut Draft<'_>, all: &[PodSetHealth<'_>]) {
    let now = draft.facts.anchor;
    let lost_unrecorded =
        condition::is_true(&draft.facts.snapshot.status.conditions, condition::PODS_READY);
    for health in all {
        let name = health.name();
        let old = draft.status.since.as_ref().and_then(|s| entry(&s.pod_sets, &name)).cloned();
        let ready = health.ready();
        // one that does not end counts as failed then, and as replaced if the pod set is still ready
        let overdue = health.terminating.iter().filter_map(|pod| overdue_from(draft.facts, pod));
        if let Some(at) = overdue.min().filter(|_| ready) {
            draft.look_again(at);
        }
        let loses_readiness = health.loses_readiness();
        let terminating = !ready && health.terminating.iter().any(|pod| loses_readiness(pod));
        let failed_at = failed_at(draft.facts, old.as_ref(), health, all);
        let since = match &old {
            None if ready || terminating || lost_unrecorded => now,
            // it is not written since when it is not ready, only that a pod failed
            None if failed_at.is_some() => recorded_unready_since(draft, health).unwrap_or(now),
            None => continue,
            Some(old) if old.ready != ready => now,
            // the clock starts when the last Terminating pod is gone, but a loss does not begin anew
            Some(old) if old.terminating && !terminating && !health.dates_a_loss() => now,
            Some(old) => old.since.0,
        };
        let replaced_until = replaced_until(draft.facts, old, health);
        let since = Time(since);
        let pod_set = name;
        let new = PodSetSince { pod_set, ready, terminating, since, failed_at, replaced_until };
        let entries = &mut draft.since().pod_sets;
        match entries.iter_mut().find(|entry| entry.pod_set == new.pod_set) {
            Some(old) => *old = new,
            None => entries.push(new),
        }
    }
}

/// When a pod of a pod set failed first, by itself, since all pods of its component last ran: the failed pod may be
/// gone before others end that were deleted because of it. Of a Job, a pod that was disrupted failed when it was to be.
fn failed_at(
    facts: Facts<'_>,
    old: Option<&PodSetSince>,
    health: &PodSetHealth<'_>,
    all: &[PodSetHealth<'_>],
) -> Option<Time> {
    let mut of_component = all.iter().filter(|other| other.component == health.component);
    if of_component.all(PodSetHealth::ready) {
        return None;
    }
    let before = old.and_then(|old| old.failed_at.as_ref()).map(|time| time.0);
    let own = health
        .failed
        .iter()
        .filter(|pod| consequence::fails_by_itself(pod) && !is_replaced(facts.snapshot, pod));
    let seen = own.filter_map(|pod| {
        let disrupted = consequence::disrupted_from(facts.snapshot, pod);
        failure::ended_at(pod).into_iter().chain(disrupted).min()
    });
    before.into_iter().chain(seen.filter(|at| *at <= facts.now)).min().map(Time)
}

/// The component of a pod set by its name.
pub fn component_of(pod_set: &str) -> Option<usize> {
    pod_set.split_once('-')?.0.parse().ok()
}

/// Up to when the failed pods of a pod set are replaced: as long as it is ready, all that are seen. One that failed in
/// our future, since the clock of its node runs ahead, is left out until then: nothing is known of failures to come. A Job
/// may replace a pod that is to be disrupted before it has ended.
fn replaced_until(
    facts: Facts<'_>,
    old: Option<PodSetSince>,
    health: &PodSetHealth<'_>,
) -> Option<Time> {
    let before = old.and_then(|old| old.replaced_until);
    if !health.ready() {
        return before;
    }
    let ended = health.failed.iter().filter_map(|pod| failure::ended_at(pod));
    let going = health.terminating.iter();
    let disrupted = going.filter_map(|pod| consequence::disrupted_from(facts.snapshot, pod));
    before.max(ended.chain(disrupted).filter(|at| *at <= facts.now).max().map(Time))
}

/// The failed pods of a set that were not replaced: it was not ready since they failed.
///
/// A node may be lost a moment before the pod set was seen to be ready; then nothing has replaced its pods, and there
/// are still too few.
pub fn not_replaced<'a>(draft: &Draft<'_>, health: &PodSetHealth<'a>) -> Vec<&'a Pod> {
    if health.ready() {
        return vec![];
    }
    let is_recent = |pod: &&Pod| !is_replaced(draft.facts.snapshot, pod);
    // older ones that are lost only as far as others do not account for what is lacking
    let recent = count(health.failed.iter().copied().filter(is_recent));
    let lacking = health.expected - health.alive - recent;
    let counts = |pod: &&Pod| is_recent(pod) || pod.lost.is_some() && lacking > 0;
    health.failed.iter().copied().filter(counts).collect()
}

/// Whether the pod set of a failed pod was ready again after the failure, whatever it expects now.
///
/// A pod that was replaced may exist for long, and must not make a later failure look old, nor be its cause.
pub fn is_replaced(snapshot: &Snapshot, pod: &Pod) -> bool {
    let entry = entry_of(snapshot, pod);
    let until = entry.and_then(|entry| entry.replaced_until.as_ref());
    match (failure::ended_at(pod), until) {
        (Some(at), Some(until)) => at <= until.0,
        (Some(_), None) => false,
        (None, _) => pod.lost.is_some() && entry.is_some_and(|entry| entry.ready),
    }
}

/// Whether the pod set of a pod was ready again after a moment, without the pods that had failed or were disrupted by then.
pub fn was_ready_after(snapshot: &Snapshot, pod: &Pod, at: Timestamp) -> bool {
    let until = entry_of(snapshot, pod).and_then(|entry| entry.replaced_until.as_ref());
    until.is_some_and(|until| at <= until.0)
}

/// From when on a pod counts as lost: since its node is. It is the moment at which it was first seen where
/// nothing tells, and where its pod set has had all its pods since then. A pod of another component may have failed before:
/// none is lost before its own pod set is short of it.
pub fn lost_at(facts: Facts<'_>, pod: &Pod) -> Timestamp {
    let since = facts.snapshot.status.since.as_ref();
    let seen = since.and_then(|since| since.failed_pods.as_ref()).map(|time| time.0);
    let entry = entry_of(facts.snapshot, pod);
    let ready = entry.filter(|entry| entry.ready).map(|entry| entry.since.0);
    let short = entry.filter(|entry| !entry.ready).map(|entry| entry.since.0);
    let node = pod.lost.and_then(|loss| loss.since).filter(|at| *at <= facts.now);
    match (node, seen) {
        (Some(at), Some(seen)) => at.max(seen),
        (Some(at), None) if ready.is_none_or(|ready| ready <= at) => at,
        (Some(_) | None, None) => facts.now,
        // of one moment, the first is rounded up to a second and the other one down
        (None, Some(seen)) => short
            .filter(|short| short.as_second() > seen.as_second() + 1)
            .map_or(seen, |short| short.min(facts.now)),
    }
}

/// Whether a pod is lost with a node that may come back, and is waited for: until then, nothing else is decided by it.
/// Source: `docs/user/policies.md#lost-nodes`.
pub fn may_come_back(facts: Facts<'_>, pod: &Pod) -> bool {
    pod.lost.is_some_and(Loss::may_return)
        && pod.stuck.is_none()
        && facts.now < facts.limits.failure_grace.after(lost_at(facts, pod))
}

/// What is recorded of the pod set of a pod.
fn entry_of<'s>(snapshot: &'s Snapshot, pod: &Pod) -> Option<&'s PodSetSince> {
    let since = snapshot.status.since.as_ref()?;
    let (component, pod_set) = pod.component.zip(pod.pod_set)?;
    entry(&since.pod_sets, &name_of(component, pod_set))
}

fn entry<'s>(entries: &'s [PodSetSince], name: &str) -> Option<&'s PodSetSince> {
    entries.iter().find(|entry| entry.pod_set == name)
}
