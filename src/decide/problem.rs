//! What is wrong with an AppWrapper, until when that is waited on, and what follows.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::health::{self, PodSetHealth};
use super::machine::{At, Edge, Failed, Move, Resetting};
use super::policy::{self, Case, Ruling, RulingAction};
use super::{VerdictAction, attempts, failure, pause, teardown};
use crate::api::condition::{self, unhealthy};
use crate::api::{AttemptAction, AttemptOutcome, FailureRecord, RuleRef, Since};
use crate::bugs::{self, Bug};
use crate::plan::Ask;
use crate::snapshot::{Component, Pod, PodPhase, Snapshot};

/// Something that is wrong.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Reason of `Unhealthy`.
    pub reason: &'static str,
    /// What is wrong, for people.
    pub message: String,
    /// The first cause.
    pub failure: FailureRecord,
    /// When the first cause happened.
    pub failed_at: Timestamp,
    /// It makes the AppWrapper unhealthy from here on; before, it is only waited on.
    pub unhealthy_from: Option<Timestamp>,
    /// When it is acted on if nothing changes; at once where absent.
    pub deadline: Option<Timestamp>,
    /// No policy is asked, and the restart is not counted: the node is to blame.
    pub evacuation: bool,
}

impl Problem {
    /// A problem with one component; acted on at once unless a deadline is set.
    pub fn of_component(
        draft: &Draft<'_>,
        index: usize,
        reason: &'static str,
        message: &str,
    ) -> Self {
        let component = &draft.facts.snapshot.components[index];
        Self {
            reason,
            message: message.to_owned(),
            failure: failure::of_component(component, reason, message),
            failed_at: draft.facts.now,
            unhealthy_from: None,
            deadline: None,
            evacuation: false,
        }
    }

    /// Names the pod that failed first, else what the component itself said.
    pub fn blame(&mut self, pod: Option<&Pod>, component: Option<&Component>, said: FailureRecord) {
        match pod {
            Some(pod) => {
                self.failure = failure::of_pod(pod, component);
                self.failed_at = failure::finished_at(pod).unwrap_or(self.failed_at);
                self.message = format!("{}; {}", self.message, failure::sentence(&self.failure));
            }
            None => self.failure = said,
        }
    }
}

/// Every failed pod, or those of one component, the first failure first.
pub fn failed_pods(snapshot: &Snapshot, component: Option<usize>) -> Vec<&Pod> {
    let attempt = attempts::current(&snapshot.status);
    let mut pods: Vec<&Pod> = snapshot
        .pods
        .iter()
        .filter(|pod| pod.phase == PodPhase::Failed)
        .filter(|pod| pod.attempt.is_none_or(|number| number == attempt))
        .filter(|pod| component.is_none() || pod.component == component)
        .collect();
    failure::sort(&mut pods);
    pods
}

/// What is wrong with the pods. Source: table of section 4.2.
pub fn of_pods(draft: &mut Draft<'_>, pod_sets: &[PodSetHealth<'_>]) -> Vec<Problem> {
    let mut problems = vec![];
    problems.extend(unmended_pods(draft, pod_sets));
    problems.extend(doomed_nodes(draft));
    problems.extend(pod_sets.iter().filter_map(|health| too_few_pods(draft, health)));
    problems
}

/// Pods that failed, and nothing has made up for them.
fn unmended_pods(draft: &mut Draft<'_>, pod_sets: &[PodSetHealth<'_>]) -> Option<Problem> {
    let now = draft.facts.now;
    let mut pods: Vec<&Pod> =
        pod_sets.iter().flat_map(|health| health::unmended(draft, health)).collect();
    failure::sort(&mut pods);
    let Some(first) = pods.first() else {
        if draft.status.since.is_some() {
            draft.since().failed_pods = None;
        }
        return None;
    };
    let stored = draft.status.since.as_ref().and_then(|since| since.failed_pods.as_ref());
    // Node clocks may run ahead of ours.
    let finished = failure::finished_at(first).or_else(|| stored.map(|time| time.0));
    let at = finished.unwrap_or(now).min(now);
    draft.since().failed_pods = Some(Time(at));
    let component = first.component.and_then(|index| draft.facts.snapshot.components.get(index));
    let record = failure::of_pod(first, component);
    let others =
        if pods.len() > 1 { format!("; {} failed in all", pods.len()) } else { String::new() };
    Some(Problem {
        reason: unhealthy::FOUND_FAILED_PODS,
        message: format!("{}{others}", failure::sentence(&record)),
        failure: record,
        failed_at: at,
        unhealthy_from: None,
        deadline: Some(draft.facts.limits.failure_grace.after(at)),
        evacuation: false,
    })
}

/// Pods that use a resource of a node on which that resource is marked `NoExecute`.
fn doomed_nodes(draft: &Draft<'_>) -> Option<Problem> {
    let facts = draft.facts;
    if !facts.config.autopilot.monitor_nodes {
        return None;
    }
    let pod = facts.snapshot.pods.iter().find(|pod| {
        pod.phase == PodPhase::Running
            && !pod.terminating
            && pod
                .node
                .as_ref()
                .and_then(|node| facts.snapshot.nodes.get(node))
                .is_some_and(|node| !node.no_execute.is_disjoint(&pod.resources))
    })?;
    let component = pod.component.and_then(|index| facts.snapshot.components.get(index));
    let node = pod.node.clone().unwrap_or_default();
    Some(Problem {
        reason: unhealthy::AUTOPILOT_NO_EXECUTE,
        message: format!(
            "pod {} uses a resource of node {node} that is marked NoExecute",
            pod.name
        ),
        failure: FailureRecord {
            category: Some(policy::category::Category::Node.as_str().to_owned()),
            ..failure::of_pod(pod, component)
        },
        failed_at: facts.now,
        unhealthy_from: None,
        deadline: None,
        evacuation: true,
    })
}

/// A pod set that has too few pods, or too few that run.
fn too_few_pods(draft: &Draft<'_>, health: &PodSetHealth<'_>) -> Option<Problem> {
    if health.ready() {
        return None;
    }
    let facts = draft.facts;
    let since = health::unready_since(draft, health)?;
    let (grace, what) = if health.there < health.expected {
        (facts.limits.admission_grace, format!("{} pods are there", health.there))
    } else {
        (facts.limits.warmup_grace, format!("{} pods run", health.running))
    };
    let component = &facts.snapshot.components[health.component];
    let pod = health.waiting.first().copied();
    let message = format!(
        "{}: {what} of {} in pod set {}",
        component.title(),
        health.expected,
        health.name()
    );
    let record = match pod {
        Some(pod) => failure::of_pod(pod, Some(component)),
        None => failure::of_component(component, unhealthy::INSUFFICIENT_PODS_READY, &message),
    };
    let detail = pod.map(|_| format!("; {}", failure::sentence(&record))).unwrap_or_default();
    let unhealthy_from = grace.after(since);
    Some(Problem {
        reason: unhealthy::INSUFFICIENT_PODS_READY,
        message: format!("{message}{detail}"),
        failure: record,
        failed_at: since,
        unhealthy_from: Some(unhealthy_from),
        deadline: Some(facts.limits.failure_grace.after(unhealthy_from)),
        evacuation: false,
    })
}

/// The problem that is acted on first.
pub fn most_urgent(draft: &Draft<'_>, problems: Vec<Problem>) -> Option<Problem> {
    let now = draft.facts.now;
    problems.into_iter().min_by_key(|problem| {
        let due = if at_once(draft, problem) { None } else { problem.deadline };
        due.map_or(now, |deadline| deadline.max(now))
    })
}

/// Whether a rule about the pods that failed leaves nothing to wait for. Too few pods are always
/// waited for, whatever older failures are still lying around.
fn at_once(draft: &Draft<'_>, problem: &Problem) -> bool {
    problem.reason == unhealthy::FOUND_FAILED_PODS && ruling(draft).at_once()
}

/// Acts on a problem that is due, or waits for it.
pub fn settle<P>(here: At<P>, draft: &mut Draft<'_>, problem: &Problem) -> Move
where
    P: Edge<Resetting> + Edge<Failed>,
{
    if problem.evacuation {
        return evacuate(here, draft, problem);
    }
    let ruling = ruling(draft);
    let due = problem.deadline.is_none_or(|deadline| draft.facts.now >= deadline)
        || bugs::is_present(Bug::NoGrace);
    if !due && !at_once(draft, problem) {
        wait(draft, problem);
        draft.verdict.retries = ruling.retries;
        return here.stay();
    }
    if !at_once(draft, problem) && unsure_of_pods(draft, problem) {
        draft.ask(Ask::Pods);
        return here.stay();
    }
    draft.verdict.rule = Some(ruling.rule.clone());
    draft.verdict.retries = ruling.retries;
    match ruling.action {
        RulingAction::Restart => {
            let more = if bugs::is_present(Bug::CountTwice) { 2 } else { 1 };
            draft.status.resetting_count = draft.status.resetting_count.saturating_add(more);
            restart(here, draft, problem, AttemptAction::Restart)
        }
        RulingAction::Fail => fail(here, draft, problem),
    }
}

/// Whether a problem is that something does not run, and only a cache says so.
fn unsure_of_pods(draft: &Draft<'_>, problem: &Problem) -> bool {
    let of_pods = [unhealthy::INSUFFICIENT_PODS_READY, unhealthy::FOUND_FAILED_PODS];
    of_pods.contains(&problem.reason) && draft.facts.snapshot.answered < Ask::Pods
}

/// Restarts without asking a policy: the node is to blame. Only the kill switch forbids it.
fn evacuate<P>(here: At<P>, draft: &mut Draft<'_>, problem: &Problem) -> Move
where
    P: Edge<Resetting> + Edge<Failed>,
{
    let ruling = ruling(draft);
    if ruling.rule.source == crate::api::RuleSource::KillSwitch {
        draft.verdict.rule = Some(ruling.rule);
        draft.verdict.retries = ruling.retries;
        return fail(here, draft, problem);
    }
    restart(here, draft, problem, AttemptAction::RestartIgnoringLimit)
}

fn ruling(draft: &Draft<'_>) -> Ruling {
    let facts = draft.facts;
    policy::rule(&Case { facts, failed: failed_pods(facts.snapshot, None) })
}

/// Waits for a problem to go away; says what is the matter meanwhile.
pub fn wait(draft: &mut Draft<'_>, problem: &Problem) {
    if let Some(from) = problem.unhealthy_from.filter(|from| draft.facts.now < *from) {
        draft.look_again(from);
        draft.clear(condition::UNHEALTHY, unhealthy::FOUND_NO_FAILED_PODS, "");
    } else {
        say_unhealthy(draft, problem);
    }
    describe(draft, problem);
    if let Some(deadline) = problem.deadline {
        draft.wait(deadline);
    }
}

fn say_unhealthy(draft: &mut Draft<'_>, problem: &Problem) {
    let new = condition::find(&draft.status.conditions, condition::UNHEALTHY)
        .is_none_or(|old| old.status != "True" || old.reason != problem.reason);
    if new {
        draft.warn(problem.reason, problem.message.clone());
    }
    draft.condition(condition::UNHEALTHY, true, problem.reason, &problem.message);
}

fn describe(draft: &mut Draft<'_>, problem: &Problem) {
    draft.verdict.reason = Some(problem.reason.to_owned());
    draft.verdict.message.clone_from(&problem.message);
    draft.verdict.failure = Some(problem.failure.clone());
}

fn restart<P>(here: At<P>, draft: &mut Draft<'_>, problem: &Problem, action: AttemptAction) -> Move
where
    P: Edge<Resetting>,
{
    record(draft, problem, action);
    let counted = action == AttemptAction::Restart;
    draft.verdict.action =
        if counted { VerdictAction::Restart } else { VerdictAction::RestartIgnoringLimit };
    draft.verdict.counted = Some(counted);
    draft.verdict.delete = teardown::deletable(draft);
    let pause = pause::pause(&draft.status, draft.facts.limits);
    draft.verdict.retry_after_seconds = Some(pause::seconds(pause));
    teardown::begin(draft, "Resetting");
    draft.warn("Resetting", format!("Restarting: {}", problem.message));
    here.to::<Resetting>()
}

/// Gives up.
pub fn fail<P>(here: At<P>, draft: &mut Draft<'_>, problem: &Problem) -> Move
where
    P: Edge<Failed>,
{
    record(draft, problem, AttemptAction::Fail);
    draft.verdict.action = VerdictAction::Fail;
    draft.condition(condition::PODS_READY, false, "Failed", &problem.message);
    draft.status.since = Some(Since { failed: Some(draft.anchor()), ..Since::default() });
    teardown::begin_after_failure(draft);
    draft.warn("Failed", format!("Given up: {}", problem.message));
    here.to::<Failed>()
}

/// Writes the failure into the flight recorder, before anything is deleted.
fn record(draft: &mut Draft<'_>, problem: &Problem, action: AttemptAction) {
    describe(draft, problem);
    say_unhealthy(draft, problem);
    let failed = failed_pods(draft.facts.snapshot, None);
    let cause = problem.failure.pod_uid.as_deref();
    let others = failed.iter().filter(|pod| Some(pod.uid.as_str()) != cause).count();
    let rule: Option<RuleRef> = draft.verdict.rule.clone();
    let retries = draft.verdict.retries;
    attempts::outcome(draft, AttemptOutcome::Failed);
    let attempt = attempts::last(draft);
    attempt.failed_at = Some(Time(problem.failed_at));
    attempt.action = Some(action);
    attempt.rule = rule;
    attempt.retries = retries;
    attempt.failure = Some(problem.failure.clone());
    attempt.collateral = Some(i32::try_from(others).unwrap_or(i32::MAX));
}
