//! The answer: a decision in the words of the contract.

use k8s_openapi::jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::super::aw::list::state;
use super::super::aw::multikueue::is_sent;
use super::super::cluster::target_words;
use super::super::ledger::Ledger;
use super::super::program;
use super::ExplainInputs;
use crate::api::{FailureRecord, Phase, RuleRef, SuspectNodes};
use crate::config::{Config, SuspicionEffect};
use crate::decide::{Decision, Facts, VerdictAction, budget, decide, progress, recovery};
use crate::observe::assemble::Wrapper;
use crate::plan::Action;
use crate::progress::Report;
use crate::snapshot::Snapshot;
use crate::snapshot::workload::WorkloadRead;
use crate::tuning::Limits;

/// What the controller would decide. Serialised, it has the keys of the contract, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Explanation {
    pub phase: Phase,
    pub next_phase: Phase,
    #[serde(serialize_with = "action")]
    pub action: VerdictAction,
    pub reason: Option<String>,
    pub message: String,
    pub failure: Option<Failure>,
    #[serde(serialize_with = "in_full")]
    pub rule: Option<RuleRef>,
    pub counted: Option<bool>,
    pub retries: Option<crate::api::Retries>,
    pub retry_after_seconds: Option<i64>,
    pub deadline: Option<Timestamp>,
    pub avoid_nodes: Vec<String>,
    /// Suspect nodes that the attempt avoids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect_nodes: Option<SuspectNodes>,
    pub create: Vec<String>,
    pub delete: Vec<String>,
    /// What its reserved quota was used for; not there before quota was first reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Ledger>,
    /// Counted restarts since they were last given back, and when they are next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The progress that pods report, where `spec.progress` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// When Kueue evicts it if its pods are not ready before; not there where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Eviction>,
    /// The first cause with all that is known of it.
    #[serde(skip)]
    pub record: Option<FailureRecord>,
    /// From when the pause runs.
    #[serde(skip)]
    pub pause: PauseStart,
    /// How many restarts are allowed and used is not known: what may set the limit could not be read.
    #[serde(skip)]
    pub restarts_unknown: bool,
    /// Namespace and name, for the headline.
    #[serde(skip)]
    pub title: String,
    /// What it waits for, or that it is final, where nothing is to be done.
    #[serde(skip)]
    pub standing: String,
    /// What else is worth knowing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// It cannot be created: the webhook would deny it.
    #[serde(skip)]
    pub is_denied: bool,
}

/// From when the pause before the next attempt runs, or before a component is recreated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum PauseStart {
    /// From the failure: it is the delay of a retry policy.
    Failure,
    /// It has begun, since all resources are deleted.
    Begun,
    /// From the moment at which all resources are deleted.
    Deletion,
}

impl PauseStart {
    fn of(decision: &Decision) -> Self {
        let is_of_component = decision.next == Phase::Running;
        let is_recreated_now = decision.verdict.action.handles_failure();
        if is_gone(decision) || is_of_component && !is_recreated_now {
            Self::Begun
        } else if decision.status.retry_after.is_some() && !is_of_component {
            Self::Failure
        } else {
            Self::Deletion
        }
    }
}

/// The counted restarts that the limits evaluate, where `refill` gives some back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Budget {
    pub used: i32,
    pub global_used: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When restarts are given back next, if all pods keep running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refill_at: Option<Timestamp>,
}

impl Budget {
    fn of(facts: Facts<'_>) -> Option<Self> {
        let status = &facts.snapshot.status;
        let since = status.budget.as_ref().map(|budget| budget.since.0);
        let refill_at = budget::next_refill(status, facts);
        (since.is_some() || refill_at.is_some()).then(|| Self {
            used: budget::used(status),
            global_used: budget::global_used(status),
            since,
            refill_at,
        })
    }
}

/// The last progress of the running attempt, and until when a newer report is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Progress {
    /// The pod that made progress last; none of these before the first report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
    /// Estimated remaining seconds, when it was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// When the AppWrapper counts as hanging unless a report arrives that is newer than the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang_at: Option<Timestamp>,
}

impl Progress {
    fn of(known: &progress::Progress) -> Self {
        let (pod, report) = known.last.as_ref().map(|(pod, report)| (pod, report)).unzip();
        Self {
            pod: pod.cloned(),
            at: report.map(Report::at),
            step: report.and_then(Report::step),
            percent: report.and_then(Report::percent),
            eta_seconds: report.and_then(Report::eta),
            checkpoint: report.and_then(Report::checkpoint).map(|(name, _)| name.to_owned()),
            hang_at: known.deadline,
        }
    }

    /// What must arrive before `hang_at`.
    pub(in crate::cli) const fn awaited(&self) -> &'static str {
        if self.at.is_some() { "a newer report" } else { "a report" }
    }
}

/// Kueue's deadline for pods that are not ready, beside the controller's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Eviction {
    /// When Kueue evicts it if its pods are not ready before.
    pub at: Timestamp,
    /// The field of Kueue's configuration that says so.
    pub timeout: &'static str,
    /// Whose deadline ends next: `Kueue` or `Controller`.
    pub next: &'static str,
}

impl Eviction {
    /// By what is known of Kueue's configuration, else as the controller has written it down.
    fn of(snapshot: &Snapshot, own_deadline: Option<Timestamp>) -> Option<Self> {
        let status = &snapshot.status;
        let (timeout, _) = recovery::running_timeout(status)?;
        let known = recovery::eviction(status, snapshot.wait_for_pods_ready);
        let stored = status.recovery_deadline.as_ref().map(|deadline| deadline.0);
        let at = known.map(|eviction| eviction.at).or(stored)?;
        let next = if own_deadline.is_some_and(|own| own <= at) { "Controller" } else { "Kueue" };
        Some(Self { at, timeout: timeout.field(), next })
    }
}

/// The first cause of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Failure {
    pub component: Option<String>,
    pub pod: Option<String>,
    pub node: Option<String>,
    pub container: Option<String>,
    pub exit_code: Option<i32>,
    /// The signal that ended the container, where its status says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub reason: Option<String>,
    pub category: Option<String>,
    /// What the component said, where no pod tells more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A rule with all of its fields, also those that it does not have.
#[expect(clippy::ref_option, reason = "serde hands the field over so")]
pub(in crate::cli) fn in_full<S: Serializer>(
    rule: &Option<RuleRef>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let in_full = rule.as_ref().map(|rule| {
        let RuleRef { source, policy, name, index, overrides } = rule;
        let mut fields = json!({"source": source, "policy": policy, "name": name, "index": index});
        if *overrides {
            fields["override"] = true.into();
        }
        fields
    });
    in_full.serialize(serializer)
}

/// Decides, by the controller's own code.
pub(in crate::cli) fn explain(
    inputs: &ExplainInputs,
    config: &Config,
    now: Timestamp,
) -> Explanation {
    if let Some(answer) = undecided(inputs, now) {
        return answer;
    }
    let snapshot = &inputs.snapshot;
    let (limits, remarks) = Limits::of(&inputs.wrapper.annotations, &config.fault_tolerance);
    let facts = Facts { snapshot, limits: &limits, config, now, anchor: now };
    let mut decision = decide(facts);
    if decision.actions.contains(&Action::AddFinalizer) {
        // The finalizer is a step on the way, taken in the same go.
        let mut next = snapshot.clone();
        next.finalizer = true;
        decision = decide(Facts { snapshot: &next, limits: &limits, config, now, anchor: now });
    }
    if decision.ask_workload {
        let mut next = snapshot.clone();
        next.workload = WorkloadRead::Refused("its Workload was not read".to_owned());
        decision = decide(Facts { snapshot: &next, limits: &limits, config, now, anchor: now });
    }
    let mut notes: Vec<String> = remarks.iter().map(ToString::to_string).collect();
    notes.extend(flaws(snapshot));
    notes.extend(inputs.notes.iter().cloned());
    notes.extend(unread_suspects(snapshot, config, decision.next));
    let has_queue = inputs.wrapper.queue.is_some();
    let usage = snapshot.status.usage.as_ref().map(|usage| Ledger::of(usage, has_queue, now));
    let known = progress::of(facts);
    if config.progress_server.enabled && known.as_ref().is_some_and(|it| it.deadline.is_some()) {
        notes.push(
            "after it starts, the controller gives pods time to report again; this command cannot know when it started"
                .to_owned(),
        );
    }
    notes.extend(known.iter().flat_map(|known| known.flaws.iter().cloned()));
    let (budget, progress) = (Budget::of(facts), known.as_ref().map(Progress::of));
    let eviction = Eviction::of(snapshot, decision.verdict.deadline);
    let standing = standing(inputs, now);
    if let Some(wait) = first_wait(&inputs.wrapper, &decision, now) {
        decision.verdict.message = wait;
    }
    if will_be_suspended(inputs, &decision) {
        say_suspension(&mut decision);
    }
    let restarts_unknown = !inputs.unread.is_empty() && decision.verdict.retries.is_some();
    if restarts_unknown {
        decision.verdict.retries = None;
    }
    Explanation {
        usage,
        budget,
        progress,
        eviction,
        restarts_unknown,
        standing,
        ..of(inputs, &decision, notes)
    }
}

/// That the attempt which begins may avoid nodes which this answer does not have. Of a new one, nobody asks that.
fn unread_suspects(snapshot: &Snapshot, config: &Config, next: Phase) -> Option<String> {
    let begins = match snapshot.status.phase {
        Phase::Suspended | Phase::Resetting => next == Phase::Resuming,
        Phase::Empty
        | Phase::Resuming
        | Phase::Running
        | Phase::Suspending
        | Phase::Succeeded
        | Phase::Failed
        | Phase::Terminating => false,
    };
    let is_off = config.node_suspicion.effect == SuspicionEffect::Off;
    (begins && !is_off && config.autopilot.monitor_nodes).then(|| {
        "suspect nodes are chosen when the attempt begins; this command does not read them"
            .to_owned()
    })
}

/// The answer where this controller decides nothing.
fn undecided(inputs: &ExplainInputs, now: Timestamp) -> Option<Explanation> {
    let stays = Decision { next: inputs.snapshot.status.phase, ..Decision::default() };
    let answer = || of(inputs, &stays, inputs.notes.clone());
    if inputs.is_denied {
        let message = "cannot be created: the webhook would deny it".to_owned();
        return Some(Explanation { message, is_denied: true, ..answer() });
    }
    let manager = inputs.wrapper.other_manager()?;
    let message = format!("managed by {manager}, not by this controller");
    let standing = standing_elsewhere(&inputs.wrapper, now);
    Some(Explanation { message, standing, ..answer() })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn action<S: Serializer>(action: &VerdictAction, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(action.as_str())
}

/// What a new AppWrapper waits for in its first phase: the decision itself says no more than that `suspend` is true.
fn first_wait(wrapper: &Wrapper, decision: &Decision, now: Timestamp) -> Option<String> {
    if (wrapper.status.phase, decision.next) != (Phase::Empty, Phase::Suspended) {
        return None;
    }
    let mut suspended = wrapper.clone();
    suspended.status.phase = Phase::Suspended;
    Some(state(&suspended, now))
}

/// Whether its user has suspended it while its resources are deleted for a restart.
fn will_be_suspended(inputs: &ExplainInputs, decision: &Decision) -> bool {
    let is_reset = [inputs.snapshot.status.phase, decision.next] == [Phase::Resetting; 2];
    is_reset && inputs.wrapper.is_inactive() && !is_gone(decision)
}

/// No attempt follows the deletion: there is no pause to tell of.
fn say_suspension(decision: &mut Decision) {
    let verdict = &mut decision.verdict;
    verdict.retry_after_seconds = None;
    let separator = if verdict.message.is_empty() { "" } else { "; " };
    verdict.message += &format!("{separator}it will be suspended once its resources are deleted");
}

/// Whether all resources are deleted, so that a pause has begun.
fn is_gone(decision: &Decision) -> bool {
    decision.status.since.as_ref().is_some_and(|since| since.gone.is_some())
}

/// The command for what has failed.
pub(in crate::cli) fn how_to_retry(wrapper: &Wrapper, program: &str) -> String {
    let it = target_words(&wrapper.name, &wrapper.namespace);
    format!("to recreate it from its own spec: {program} retry {it}")
}

/// What it waits for; of an end, how it is run again.
fn standing(inputs: &ExplainInputs, now: Timestamp) -> String {
    let wrapper = &inputs.wrapper;
    match wrapper.status.phase {
        // the manager cluster alone creates such a copy again
        Phase::Failed | Phase::Succeeded if wrapper.has_manager => "final".to_owned(),
        Phase::Failed => format!("final; {}", how_to_retry(wrapper, program())),
        Phase::Succeeded => "final; to run it again, delete and recreate it".to_owned(),
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending
        | Phase::Terminating => state(wrapper, now),
    }
}

/// The same of one that another controller manages.
fn standing_elsewhere(wrapper: &Wrapper, now: Timestamp) -> String {
    let has_ended = matches!(wrapper.status.phase, Phase::Succeeded | Phase::Failed);
    if has_ended && is_sent(wrapper) && !wrapper.deleting {
        "final".to_owned()
    } else {
        state(wrapper, now)
    }
}

/// The most flaws of policies that are noted.
const FLAWS_MAX: usize = 10;

/// What is left out of the policies because it cannot be understood.
pub(super) fn flaws(snapshot: &Snapshot) -> Vec<String> {
    let own = snapshot.policies.flaws();
    own.into_iter().chain(snapshot.retry.flaws().cloned()).take(FLAWS_MAX).collect()
}

fn of(inputs: &ExplainInputs, decision: &Decision, notes: Vec<String>) -> Explanation {
    let snapshot = &inputs.snapshot;
    let verdict = &decision.verdict;
    let titles = |indexes: &[usize]| {
        indexes.iter().map(|index| snapshot.components[*index].title()).collect::<Vec<_>>()
    };
    let mut delete = titles(&verdict.delete);
    for pod in &verdict.delete_pods {
        let title = format!("Pod/{pod}");
        if !delete.contains(&title) {
            delete.push(title);
        }
    }
    Explanation {
        phase: snapshot.status.phase,
        next_phase: decision.next,
        action: verdict.action,
        reason: verdict.reason.clone(),
        message: verdict.message.clone(),
        failure: verdict.failure.as_ref().map(Failure::of),
        rule: verdict.rule.clone(),
        counted: verdict.counted,
        retries: verdict.retries,
        retry_after_seconds: verdict.retry_after_seconds,
        deadline: verdict.deadline,
        avoid_nodes: decision.status.avoid_nodes.clone(),
        suspect_nodes: decision.status.suspect_nodes.clone(),
        create: titles(&verdict.create),
        delete,
        usage: None,
        budget: None,
        progress: None,
        eviction: None,
        record: verdict.failure.clone(),
        pause: PauseStart::of(decision),
        restarts_unknown: false,
        title: format!("{}/{}", snapshot.namespace, snapshot.name),
        standing: String::new(),
        notes,
        is_denied: false,
    }
}

impl Failure {
    pub(in crate::cli) fn of(record: &FailureRecord) -> Self {
        Self {
            component: record.component.clone(),
            pod: record.pod.clone(),
            node: record.node.clone(),
            container: record.container.clone(),
            exit_code: record.exit_code,
            signal: record.signal,
            reason: record.reason.clone(),
            category: record.category.clone(),
            message: record.message.clone().filter(|_| record.pod.is_none()),
        }
    }

    /// For a column, `w-0/main 137 OOMKilled`: who, with which code, and why.
    pub(in crate::cli) fn short(&self) -> String {
        let pod = self.pod.as_ref().map(|pod| match &self.container {
            Some(container) => format!("{pod}/{container}"),
            None => pod.clone(),
        });
        let who = pod.or_else(|| self.component.clone());
        let code = self.exit_code.map(|code| code.to_string());
        let parts: Vec<String> = [who, code, self.reason.clone()].into_iter().flatten().collect();
        parts.join(" ")
    }
}

impl Explanation {
    /// Nothing is to be done.
    pub(in crate::cli) fn is_at_rest(&self) -> bool {
        self.action == VerdictAction::None && self.next_phase == self.phase
    }
}
