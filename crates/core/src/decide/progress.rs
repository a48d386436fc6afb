//! Hangs: the progress that pods report, and until when a newer report is waited for.
//!
//! ```text
//! pods ready ──startWithin──▶ hang        no report yet, or none since the pods were ready again
//! last progress ──stallAfter──▶ hang      from the half of it on, `explain` and `why` show when
//! ```
//!
//! Nothing is stored for it: the deadline follows from the annotations of the pods, from when they became ready, and from
//! when they could report to this process. It ends nothing while a pod set is not ready, which other deadlines are about, nor
//! when the work is done: every pod that reported has succeeded, or the last report, or the last with a percentage, says 100 %.

use std::rc::Rc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::health::{self, PodSetHealth};
use super::input;
use super::policy::category;
use super::policy::failure_view::FailureView;
use super::policy::pod_failure::Judged;
use super::problem::Problem;
use super::replacement::AFTER_GAP;
use super::{Facts, VerdictAction, attempts, components};
use crate::api::condition::{self, unhealthy};
use crate::api::{AttemptProgress, FailureRecord, Phase, keys};
use crate::mutations::{self, Mutation};
use crate::progress::{Malformed, Report};
use crate::snapshot::{Pod, PodPhase, Snapshot};
use crate::tuning::Period;

/// The most reports that cannot be read or are from the future, of which one look names the pods.
const FLAWS_MAX: usize = 3;
/// The fields of `spec.progress`.
const START: &str = "startWithin";
const STALL: &str = "stallAfter";

/// What is known of the progress of the running attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Name of the pod that made progress last, and its report.
    pub last: Option<(String, Report)>,
    /// When the AppWrapper counts as hanging, unless a newer report arrives; none where nothing is waited for.
    pub deadline: Option<Timestamp>,
    /// Reports that cannot be read or are from the future, each with its pod and the reason; the first few.
    pub flaws: Vec<String>,
}

/// A report and the pod that made it.
#[derive(Clone, Copy, Debug)]
struct Reported<'a> {
    pod: &'a Pod,
    report: &'a Report,
    /// When it made progress; a clock may be ahead.
    at: Timestamp,
}

/// What is waited for, and how long.
#[derive(Clone, Copy, Debug)]
struct Guard<'a> {
    last: Option<Reported<'a>>,
    since: Timestamp,
    within: Period,
    field: &'static str,
    /// When the API server answered again after a gap.
    gap: Option<Timestamp>,
    /// How long calls that keep failing, or a process that begins again and again, delay the hang at most.
    gap_max: Period,
    /// Since when pods can report over HTTP.
    reports_since: Option<Timestamp>,
}

/// The progress of an AppWrapper that has `spec.progress`, as far as pods report it; none of another.
#[must_use]
pub fn of(facts: Facts<'_>) -> Option<Progress> {
    facts.snapshot.policies.progress?;
    let draft = Draft::new(facts);
    let is_running = facts.snapshot.status.phase == Phase::Running && !facts.snapshot.suspend;
    let guard = if is_running && !facts.snapshot.deleting {
        guard(&draft, &components::begun_pod_sets(&draft))
    } else {
        None
    };
    let last = newest(facts).map(|last| (last.pod.name.clone(), last.report.clone()));
    let deadline = guard.map(|guard| guard.due());
    Some(Progress { last, deadline, flaws: flaws(facts) })
}

/// The last progress of the running attempt, and how far its pods have got, for the recorded attempts.
#[must_use]
pub fn recorded(facts: Facts<'_>) -> Option<AttemptProgress> {
    facts.snapshot.policies.progress?;
    let at = Time(newest(facts)?.at);
    let checkpoint = saved(facts).map(|(name, _)| name.to_owned());
    // the newest report may only say that its pod works
    let step = reports(facts).filter_map(|one| one.report.step()).max();
    let percent = reports(facts).filter_map(|one| one.report.percent()).max();
    Some(AttemptProgress { at, step, percent, checkpoint })
}

/// When the last checkpoint of the running attempt was reported.
#[must_use]
pub fn saved_at(facts: Facts<'_>) -> Option<Timestamp> {
    facts.snapshot.policies.progress?;
    saved(facts).map(|(_, at)| at)
}

/// The problem of an AppWrapper that hangs.
#[must_use]
pub fn stalled<'a>(draft: &Draft<'a>, pod_sets: &[PodSetHealth<'a>]) -> Option<Problem<'a>> {
    let guard = guard(draft, pod_sets)?;
    let deadline = guard.deadline();
    if draft.facts.now < guard.due() || mutations::is_present(Mutation::StallUnseen) {
        return None;
    }
    let undone = pod_sets.iter().find(|set| !set.done)?;
    let pod = guard.last.map(|last| last.pod);
    let index = pod.and_then(|pod| pod.component).unwrap_or(undone.component);
    let component = draft.facts.snapshot.components.get(index)?;
    let message = guard.sentence();
    let failure = FailureRecord {
        component: Some(draft.facts.snapshot.recorded_name(component)),
        pod: pod.map(|pod| pod.name.clone()),
        pod_uid: pod.map(|pod| pod.uid.clone()),
        node: pod.and_then(|pod| pod.node.clone()),
        reason: Some(unhealthy::STALLED.to_owned()),
        message: Some(message.clone()),
        category: Some(category::name(
            &FailureView::of_stall(),
            &draft.facts.config.failure_categories,
        )),
        ..FailureRecord::default()
    };
    let plain = Problem::of_component(draft, index, unhealthy::STALLED, &message);
    Some(Problem {
        failure,
        pod,
        failed_at: deadline.min(draft.facts.now),
        // no pod failed; older ones that were replaced are not about this
        judged: Some(Rc::new(Judged::default())),
        ..plain
    })
}

/// Decides again when the AppWrapper would hang, and says so once half of the time is over.
pub fn watch<'a>(draft: &mut Draft<'a>, pod_sets: &[PodSetHealth<'a>]) {
    if draft.facts.snapshot.policies.progress.is_none() {
        return;
    }
    if let Some(at) = counts_later(draft.facts) {
        draft.look_again(at);
    }
    let Some(guard) = guard(draft, pod_sets) else { return };
    let (now, deadline) = (draft.facts.now, guard.due());
    if now >= deadline {
        return;
    }
    let stall = draft.facts.snapshot.policies.progress.and_then(|rules| rules.stall_after);
    // a newer report, which wakes nobody, ends the wait for the start, and may be the last one
    let ends_start = guard.last.is_some() && guard.field == START;
    let early = stall.filter(|_| ends_start).map(|stall| stall.after(now));
    draft.look_again(early.map_or(deadline, |early| early.min(deadline)));
    let passed = now.as_second().saturating_sub(guard.since.as_second());
    if passed.saturating_mul(2) >= deadline.as_second().saturating_sub(guard.since.as_second()) {
        draft.verdict.action = VerdictAction::Wait;
        draft.verdict.deadline = Some(deadline);
        draft.verdict.reason = Some(unhealthy::STALLED.to_owned());
        let sentence = guard.sentence();
        draft.verdict.message =
            format!("{sentence}; counts as a hang at {deadline} unless progress is reported");
    }
}

impl Guard<'_> {
    fn deadline(&self) -> Timestamp {
        self.within.after(self.since)
    }

    /// When the hang is acted on: reports that could not be made or written meanwhile have some time. However often calls fail
    /// or the process begins anew, it ends: of one call that is refused each time, nothing tells that others are answered.
    fn due(&self) -> Timestamp {
        let latest = |most: Period| most.after(self.deadline());
        let written = self.gap.map(|gap| AFTER_GAP.after(gap).min(latest(self.gap_max)));
        let most = self.gap_max.max(self.within);
        let made = self.reports_since.map(|since| self.within.after(since).min(latest(most)));
        written.into_iter().chain(made).fold(self.deadline(), Timestamp::max)
    }

    /// What is missing, since when, and who reported last.
    fn sentence(&self) -> String {
        let Self { last, since, within, field, gap: _, gap_max: _, reports_since: _ } = self;
        let Some(last) = last else {
            return format!(
                "no progress has been reported since all pods were running at {since} ({field} {within})"
            );
        };
        let done = done(last.report).map(|done| format!(": {done}")).unwrap_or_default();
        let again = if last.at < *since {
            format!(", none since all pods were running at {since}")
        } else {
            String::new()
        };
        let (pod, at) = (&last.pod.name, last.at);
        format!("pod {pod} reported the last progress at {at}{done}{again} ({field} {within})")
    }
}

/// What a report says is done: `step 1200, 40 %`.
#[must_use]
pub fn done(report: &Report) -> Option<String> {
    let step = report.step().map(|step| format!("step {step}"));
    let percent = report.percent().map(|percent| format!("{percent} %"));
    let all: Vec<String> = step.into_iter().chain(percent).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// What is waited for: nothing while a pod set is not ready, or where the work is done.
fn guard<'a>(draft: &Draft<'a>, pod_sets: &[PodSetHealth<'a>]) -> Option<Guard<'a>> {
    let facts = draft.facts;
    let rules = facts.snapshot.policies.progress?;
    let ready = ready_since(draft, pod_sets)?;
    let is_open = |one: &Reported<'_>| {
        let mut own = pod_sets
            .iter()
            .filter(|set| Some(set.component) == one.pod.component)
            .filter(|set| Some(set.pod_set) == one.pod.pod_set);
        own.any(|set| !set.done) && !one.pod.has_failed()
    };
    let reports: Vec<Reported<'a>> = reports(facts).filter(is_open).collect();
    let last = latest(reports.iter().copied());
    // a pod that is Terminating ends, however long that takes
    let goes_on =
        reports.iter().any(|one| one.pod.phase != PodPhase::Succeeded && !one.pod.terminating);
    let is_unread = mutations::is_present(Mutation::ReportUnread);
    let (since, within, field) = match last.filter(|_| !is_unread) {
        Some(last) if last.at < ready => match (rules.start_within, rules.stall_after) {
            (Some(start), _) => (ready, Some(start), START),
            (None, stall) => (ready, stall, STALL),
        },
        Some(last) if !goes_on || is_done(last, &reports, ready) => return None,
        Some(last) => (last.at, rules.stall_after, STALL),
        // those that report may be pods of a later step
        None if !components::all_are_up(draft) => return None,
        None => (ready, rules.start_within, START),
    };
    let Snapshot { last_gap: gap, reports_since, .. } = *facts.snapshot;
    let gap_max = input::gap_max(facts);
    Some(Guard { last, since, within: within?, field, gap, gap_max, reports_since })
}

/// Whether the last report says 100 %, or the last one with a percentage since all pods were ready: reports without one may
/// only say that a pod works. What a pod that has succeeded said of its part is not about those that go on.
fn is_done(last: Reported<'_>, reports: &[Reported<'_>], ready: Timestamp) -> bool {
    let measured = reports.iter().copied().filter(|one| {
        one.report.percent().is_some() && one.pod.phase != PodPhase::Succeeded && one.at >= ready
    });
    let mut all = [Some(last), latest(measured)].into_iter().flatten();
    all.any(|one| one.report.percent() == Some(100))
}

/// Since when every pod set that is not done is ready, and no component has succeeded: both are progress, too. None where
/// a pod set is not ready, or none is left.
fn ready_since(draft: &Draft<'_>, pod_sets: &[PodSetHealth<'_>]) -> Option<Timestamp> {
    let left = || pod_sets.iter().filter(|set| !set.done);
    let is_known = !draft.facts.snapshot.undetermined.incomplete;
    if left().next().is_none() || left().any(|set| !set.ready()) || !is_known {
        return None;
    }
    let recorded = left().filter_map(|set| health::ready_since(draft, set)).max();
    let status = &draft.status;
    let first = || {
        attempts_ready(draft)
            .or_else(|| condition::since(&status.conditions, condition::PODS_READY))
    };
    let ready = recorded.or_else(first).unwrap_or(draft.facts.anchor);
    let succeeded = status.component_status.iter().filter_map(|component| {
        let kind = condition::COMPONENT_SUCCEEDED;
        let is_true = condition::is_true(&component.conditions, kind);
        condition::since(&component.conditions, kind).filter(|_| is_true)
    });
    succeeded.chain([ready]).max()
}

fn attempts_ready(draft: &Draft<'_>) -> Option<Timestamp> {
    let last = draft.status.attempts.last()?;
    last.ready_at.as_ref().map(|time| time.0)
}

/// Reports of the running attempt that can be read and count. One that is from the future is of now: a wrong clock or time
/// zone is no hang.
fn reports(facts: Facts<'_>) -> impl Iterator<Item = Reported<'_>> {
    let now = facts.now;
    let is_new = mutations::is_present(Mutation::OldReportIsNew);
    own_pods(facts.snapshot).filter_map(move |pod| {
        let report =
            pod.progress.as_ref()?.as_ref().ok().filter(|report| report.counts_from() <= now)?;
        let at = if is_new { now } else { report.at().min(now) };
        Some(Reported { pod, report, at })
    })
}

fn own_pods(snapshot: &Snapshot) -> impl Iterator<Item = &Pod> {
    attempts::pods(snapshot).filter(|pod| pod.component.is_some())
}

/// When the first report begins to count that does not count now.
fn counts_later(facts: Facts<'_>) -> Option<Timestamp> {
    let reports = own_pods(facts.snapshot).filter_map(|pod| pod.progress.as_ref()?.as_ref().ok());
    reports.map(Report::counts_from).filter(|from| *from > facts.now).min()
}

/// The newest report; of several at one time, that of the last pod by name.
fn latest<'a>(reports: impl Iterator<Item = Reported<'a>>) -> Option<Reported<'a>> {
    reports.max_by(|a, b| (a.at, &a.pod.name).cmp(&(b.at, &b.pod.name)))
}

fn newest(facts: Facts<'_>) -> Option<Reported<'_>> {
    latest(reports(facts))
}

/// The last checkpoint and when it was reported.
fn saved(facts: Facts<'_>) -> Option<(&str, Timestamp)> {
    let all = reports(facts).filter_map(|one| one.report.checkpoint());
    all.map(|(name, at)| (name, at.min(facts.now))).max_by_key(|(name, at)| (*at, *name))
}

fn flaws(facts: Facts<'_>) -> Vec<String> {
    let why = |pod: &Pod| match pod.progress.as_ref()? {
        Err(malformed) => Some((malformed.to_string(), "the report is ignored")),
        Ok(report) if report.is_ahead_of(facts.now) => {
            let counts = report.counts_from() <= facts.now;
            let now = "until then, the report counts as made now";
            let so = if counts { now } else { "the report is ignored" };
            Some((Malformed::Ahead(report.at()).to_string(), so))
        }
        Ok(_) => None,
    };
    let flaw = |pod: &Pod| {
        let (why, so) = why(pod)?;
        Some(format!("pod {}: annotation {}: {why}; {so}", pod.name, keys::PROGRESS))
    };
    own_pods(facts.snapshot).filter_map(flaw).take(FLAWS_MAX).collect()
}
