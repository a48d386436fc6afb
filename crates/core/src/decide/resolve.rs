//! What follows from a problem: waiting, a restart, the recreation of one component, or failure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::edges::{At, Edge, Failed, Move, Resetting, Suspending};
use super::node_replacement::{self, Replacing};
use super::policy::stop_when::POISON;
use super::policy::{Ruling, RulingAction, within_uncounted_limit};
use super::problem::Problem;
use super::{
    VerdictAction, attempts, budget, failed, health, last_failure, no_fit, pause, recovery, retry,
    steps, suspicion, teardown,
};
use crate::api::condition::{self, unhealthy};
use crate::api::{Attempt, AttemptAction, AttemptOutcome, RuleRef, RuleSource, Since};
use crate::mutations::{self, Mutation};
use crate::plan::FreshRead;
use crate::snapshot::Pod;

/// Acts on a problem that is due, or waits for it.
pub fn resolve<'a, P>(here: At<P>, draft: &mut Draft<'a>, problem: &Problem<'a>) -> Move
where
    P: Edge<Resetting> + Edge<Failed> + Edge<Suspending>,
{
    if let Some(action) = problem.no_fit.filter(|_| !problem.ruling(draft).rule.overrides) {
        return no_fit::resolve(here, draft, problem, action);
    }
    if budget::refill(draft, problem.failed_at) {
        return here.stay();
    }
    let ruling = problem.ruling(draft);
    if problem.evacuates() {
        // that the pod is on the node, and the node is marked, is true now, or the restart comes for nothing
        if draft.facts.snapshot.answered < FreshRead::Pods {
            draft.ask(FreshRead::Pods);
            return here.stay();
        }
        return evacuate(here, draft, problem, ruling);
    }
    let due = problem.due(draft, &ruling);
    let waits =
        due.is_some_and(|due| draft.facts.now < due) && !mutations::is_present(Mutation::NoGrace);
    if waits {
        wait(draft, problem, due);
        draft.verdict.retries = ruling.retries;
        return here.stay();
    }
    if unsure_of_pods(draft, problem) {
        draft.ask(FreshRead::Pods);
        return here.stay();
    }
    let problem = &problem.subject(draft, &ruling);
    // a rule that fails the AppWrapper does so whatever becomes of the node
    if !ruling.fails_by_rule() && is_awaited(draft, problem) {
        return here.stay();
    }
    draft.verdict.rule = Some(ruling.rule.clone());
    draft.verdict.retries = ruling.retries;
    let problem = &with_reason(problem, &ruling);
    match ruling.action {
        RulingAction::Restart => {
            count(draft);
            restart(here, draft, problem, &ruling)
        }
        RulingAction::RestartIgnoringLimit => {
            if !problem.is_charged(draft) {
                count_uncounted(draft);
            }
            restart(here, draft, problem, &ruling)
        }
        RulingAction::RecreateComponent(index) => {
            let counted = ruling.retries.is_some();
            if counted && !mutations::is_present(Mutation::RecreateUncounted) {
                count(draft);
            }
            if !counted && !problem.pod_is_charged(draft) {
                count_uncounted(draft);
            }
            recreate(draft, problem, index, counted);
            here.stay()
        }
        RulingAction::Fail => fail(here, draft, problem),
    }
}

/// Whether Kueue's replacement of the node is waited for, or the Workload is to be read to tell.
fn is_awaited<'a>(draft: &mut Draft<'a>, problem: &Problem<'a>) -> bool {
    match node_replacement::replacing(draft, problem) {
        Replacing::No => return false,
        Replacing::Unknown => draft.ask_workload(),
        Replacing::Until { again, deadline, node } => {
            wait(draft, problem, Some(deadline));
            draft.look_again(again);
            let (prefix, node) = node.map_or(("", "a failed node"), |node| ("node ", node));
            let message = &draft.verdict.message;
            draft.verdict.message =
                format!("{message}; Kueue looks for a replacement of {prefix}{node}");
        }
    }
    true
}

/// The problem, and what a rule or a limit says about it.
fn with_reason<'a>(problem: &Problem<'a>, ruling: &Ruling) -> Problem<'a> {
    let plain = ruling.rule == RuleRef::plain(RuleSource::RetryLimit);
    if plain && ruling.action == RulingAction::Restart {
        return problem.clone();
    }
    let message = format!("{}; {}", problem.message, ruling.sentence());
    let mut failure = problem.failure.clone();
    if ruling.rule.source == RuleSource::StopWhen {
        failure.category = Some(POISON.to_owned());
    }
    Problem { message, failure, ..problem.clone() }
}

fn count(draft: &mut Draft<'_>) {
    let more = if mutations::is_present(Mutation::CountTwice) { 2 } else { 1 };
    budget::count(&mut draft.status, more);
}

/// Counts what no limit of its own bounds.
fn count_uncounted(draft: &mut Draft<'_>) {
    draft.status.uncounted_restarts = draft.status.uncounted_restarts.max(0).saturating_add(1);
}

/// Whether a problem may be about pods, and only a cache says so. A component may be seen to fail, or to be
/// missing, before its pods are: the policies would be asked about a failure without a cause. One pod may be seen
/// to fail before another that failed first.
fn unsure_of_pods(draft: &Draft<'_>, problem: &Problem<'_>) -> bool {
    let about_pods = [
        unhealthy::INSUFFICIENT_PODS_READY,
        unhealthy::FOUND_FAILED_PODS,
        unhealthy::FAILED_COMPONENT,
        unhealthy::MISSING_COMPONENT,
        unhealthy::CREATE_FAILED, // what else failed is asked about; a pod in the way may be gone
        unhealthy::STUCK_TERMINATING,
        unhealthy::STALLED,
        unhealthy::NO_FIT,
    ];
    // that its node is lost is true now, or a restart comes for nothing
    let lost = problem.pod.is_some_and(|pod| pod.lost.is_some());
    (about_pods.contains(&problem.reason) || lost)
        && draft.facts.snapshot.answered < FreshRead::Pods
}

/// Restarts without asking a policy: the node is to blame. Only the kill switch forbids it.
fn evacuate<P>(here: At<P>, draft: &mut Draft<'_>, problem: &Problem<'_>, ruling: Ruling) -> Move
where
    P: Edge<Resetting> + Edge<Failed> + Edge<Suspending>,
{
    if ruling.rule.source == RuleSource::KillSwitch {
        let problem = with_reason(problem, &ruling);
        draft.verdict.rule = Some(ruling.rule);
        draft.verdict.retries = ruling.retries;
        return fail(here, draft, &problem);
    }
    let none = RuleRef::plain(ruling.rule.source);
    let uncounted = Ruling::unlimited(RulingAction::RestartIgnoringLimit, none);
    let uncounted = within_uncounted_limit(draft.facts, uncounted);
    if uncounted.action == RulingAction::Fail {
        let problem = with_reason(problem, &uncounted);
        draft.verdict.rule = Some(uncounted.rule);
        draft.verdict.retries = uncounted.retries;
        return fail(here, draft, &problem);
    }
    count_uncounted(draft);
    restart(here, draft, problem, &uncounted)
}

/// Waits for a problem to go away; says what is the matter meanwhile.
///
/// If several are waited for, the condition names the first, or each reconcile would rewrite it; the one
/// that is acted on first is described.
pub fn wait(draft: &mut Draft<'_>, problem: &Problem<'_>, until: Option<Timestamp>) {
    match problem.unhealthy_from.filter(|from| draft.facts.now < *from) {
        Some(from) => {
            draft.look_again(from);
            if !draft.unhealthy {
                draft.clear(condition::UNHEALTHY, unhealthy::FOUND_NO_FAILED_PODS, "");
            }
        }
        None if draft.unhealthy => {}
        None => say_unhealthy(draft, problem),
    }
    match (draft.verdict.deadline, until) {
        (Some(first), Some(deadline)) if first <= deadline => draft.look_again(deadline),
        (_, deadline) => {
            describe(draft, problem);
            if let Some(deadline) = deadline {
                draft.wait(deadline);
            }
        }
    }
}

/// Where what is acted on first is only to come, says what else is the matter already.
pub(super) fn say_present(draft: &mut Draft<'_>, first: &Problem<'_>, others: &[Problem<'_>]) {
    let now = draft.facts.now;
    let is_present = |one: &Problem<'_>| one.unhealthy_from.is_none_or(|from| from <= now);
    if let Some(present) = others.iter().find(|one| is_present(one) && !is_present(first)) {
        say_unhealthy(draft, present);
    }
}

/// Sets `Unhealthy`, and warns where that is new.
pub(super) fn say_unhealthy(draft: &mut Draft<'_>, problem: &Problem<'_>) {
    let new = condition::find(&draft.status.conditions, condition::UNHEALTHY)
        .is_none_or(|old| old.status != "True" || old.reason != problem.reason);
    if new {
        draft.warn(problem.reason, problem.message.clone());
    }
    draft.unhealthy = true;
    draft.condition(condition::UNHEALTHY, true, problem.reason, &problem.message);
}

/// Warns that something is recreated because of a problem. Where the same decision warns of the problem itself, one event
/// says both: each is an API call.
fn warn_of_restart(draft: &mut Draft<'_>, problem: &Problem<'_>, reason: &'static str, text: &str) {
    if !draft.reword(problem.reason, &problem.message, text) {
        draft.warn(reason, text);
    }
}

pub(super) fn describe(draft: &mut Draft<'_>, problem: &Problem<'_>) {
    draft.verdict.reason = Some(problem.reason.to_owned());
    draft.verdict.message.clone_from(&problem.message);
    draft.verdict.failure = Some(problem.failure.clone());
}

fn restart<P>(here: At<P>, draft: &mut Draft<'_>, problem: &Problem<'_>, ruling: &Ruling) -> Move
where
    P: Edge<Resetting> + Edge<Suspending>,
{
    let counted = ruling.action == RulingAction::Restart;
    let action = if counted { AttemptAction::Restart } else { AttemptAction::RestartIgnoringLimit };
    record(draft, problem, action, AttemptOutcome::Failed);
    retry::prepare(draft, problem, ruling.retry.as_ref(), counted);
    draft.verdict.counted = Some(counted);
    draft.verdict.delete = teardown::deletable(draft);
    draft.verdict.retry_after_seconds = Some(pause::left(draft));
    // Kueue must admit the changed size again.
    let anew = !draft.status.pending_memory.is_empty() && draft.facts.snapshot.queue_managed;
    let growth = retry::growth(&draft.status);
    let text = format!("Restarting{growth}: {}", problem.message);
    warn_of_restart(draft, problem, "Resetting", &text);
    if anew {
        teardown::begin(draft, "Suspending");
        return here.to::<Suspending>();
    }
    teardown::begin(draft, "Resetting");
    recovery::warn_if_too_late(draft);
    here.to::<Resetting>()
}

/// One component goes and comes back; all else stays.
fn recreate(draft: &mut Draft<'_>, problem: &Problem<'_>, index: usize, counted: bool) {
    record(draft, problem, AttemptAction::RecreateComponent, AttemptOutcome::ComponentRecreated);
    attempts::end(draft);
    let number = attempts::current(&draft.status);
    attempts::push(draft, number);
    steps::recreate(draft, index);
    draft.since().failed_pods = None;
    draft.verdict.counted = Some(counted);
    draft.verdict.delete = vec![index];
    draft.verdict.retry_after_seconds = pause::of_component(draft, index).map(pause::seconds);
    let title = draft.facts.snapshot.components[index].title();
    draft.condition(condition::PODS_READY, false, "Recreating", &problem.message);
    warn_of_restart(
        draft,
        problem,
        "Recreating",
        &format!("Recreating {title}: {}", problem.message),
    );
}

/// Fails the AppWrapper.
pub fn fail<P>(here: At<P>, draft: &mut Draft<'_>, problem: &Problem<'_>) -> Move
where
    P: Edge<Failed>,
{
    record(draft, problem, AttemptAction::Fail, AttemptOutcome::Failed);
    draft.condition(condition::PODS_READY, false, "Failed", &problem.message);
    draft.status.since = Some(Since { failed: Some(draft.anchor()), ..Since::default() });
    teardown::begin_after_failure(draft);
    draft.warn("Failed", format!("AppWrapper failed: {}", problem.message));
    here.to::<Failed>()
}

/// Writes the failure and what is done about it into the recorded attempts and the verdict, before anything is deleted.
pub(super) fn record(
    draft: &mut Draft<'_>,
    problem: &Problem<'_>,
    action: AttemptAction,
    outcome: AttemptOutcome,
) {
    describe(draft, problem);
    draft.verdict.action = VerdictAction::Handle(action);
    draft.verdict.deadline = None; // what else was waited for is decided with it
    draft.verdict.retry_after_seconds = None; // and ends the pause of a component
    draft.verdict.create.clear(); // nor does a later step go on
    say_unhealthy(draft, problem);
    draft.say(condition::UNHEALTHY, problem.reason, &problem.message);
    let is_other = |pod: &&Pod| {
        problem.pod.is_none_or(|cause| cause.uid != pod.uid)
            && (pod.lost.is_some() || !health::is_replaced(draft.facts.snapshot, pod))
    };
    let others = failed::failed_pods(draft, None).into_iter().filter(is_other).count();
    let (rule, retries) = (draft.verdict.rule.clone(), draft.verdict.retries);
    draft.testimony = suspicion::testimony(draft, problem);
    attempts::outcome(draft, outcome);
    let attempt: &mut Attempt = attempts::last(draft);
    attempt.failed_at = Some(Time(problem.failed_at));
    attempt.action = Some(action);
    attempt.rule = rule;
    attempt.retries = retries;
    attempt.failure = Some(problem.failure.clone());
    attempt.collateral = Some(i32::try_from(others).unwrap_or(i32::MAX));
    last_failure::report(draft);
}
