//! Reports a step: log, metrics, Kubernetes events.

use std::time::Duration;

use super::carry_out::is_refused_for_long;
use super::{Context, Error};
use crate::act;
use crate::act::events::{About, EventType};
use crate::api::{AppWrapperStatus, FailureRecord, Phase};
use crate::client;
use crate::decide::{Decision, Verdict, Warning, current_attempt};
use crate::metrics::{Spent, UsageChange};
use crate::observe::assemble::Wrapper;
use crate::observe::cached_appwrapper::CachedAppWrapper;
use crate::observe::live;
use crate::observe::memory::{ReconcileState, Trouble};
use crate::tuning::Remark;

/// When the first lists of an AppWrapper's kinds are overdue. Later than kinds of components are waited for: `LISTED_WITHIN`, or
/// one LIST that hangs.
const UNLISTED_FOR: Duration = Duration::from_secs(90);
/// An internal error of the API server is told once so many reconciles in a row have failed: a shorter one passes.
const ERRORS_TOLD_FROM: u32 = 8;
/// What the API server says where it cannot reach its storage: that is no error of one object.
const STORAGE_ERRORS: [&str; 3] = ["etcdserver: ", "rpc error: ", "context deadline exceeded"];

/// Log, metrics and events of a status that was written.
pub(super) fn announce(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: &Wrapper,
    decision: &Decision,
) {
    let (from, to) = (wrapper.status.phase, decision.next);
    let about = wrapper.about();
    let now = context.clock.now();
    context.metrics.changed(&wrapper.status, &decision.status, now);
    spent(context, wrapper, Some(&decision.status));
    if let Some(testimony) = &decision.testimony
        && !context.suspicions.testify(testimony, &context.cache)
    {
        tracing::debug!(node = testimony.node, "Evidence about a node was dropped.");
    }
    log(from, to, &decision.verdict);
    if decision.names_blockers() {
        memory.blockers_named_at = Some(context.clock.around_now().1);
    }
    for warning in &decision.events {
        context.warn(&about, warning);
    }
    if let Some((reason, message)) = milestone(from, decision) {
        context.tell(&about, EventType::Normal, reason, &message);
    }
}

/// Tells what is ignored of the annotations, where it was not told before. A process that has just started does not
/// repeat what an earlier one has told. Of an AppWrapper that waits then, it tells when the first attempt begins: nothing tells
/// whether it is new, and thousands may wait for quota.
pub(super) fn remarks(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: &Wrapper,
    remarks: &[Remark],
) {
    let remarks: Vec<String> = remarks.iter().map(ToString::to_string).collect();
    let status = &wrapper.status;
    let has_begun = !status.attempts.is_empty();
    if status.phase == Phase::Suspended && !has_begun && memory.object.remarks.is_none() {
        return;
    }
    let is_new = match status.phase {
        Phase::Empty => true,
        Phase::Suspended => false,
        Phase::Resuming => status.attempts.len() <= 1,
        // also of the Go controller, which writes neither
        Phase::Running
        | Phase::Resetting
        | Phase::Suspending
        | Phase::Succeeded
        | Phase::Failed
        | Phase::Terminating => status.attempts.is_empty() && status.since.is_none(),
    };
    let is_news = |remark: &&String| match &memory.object.remarks {
        Some(told) => !told.contains(*remark),
        None => is_new,
    };
    let about = wrapper.about();
    for message in remarks.iter().filter(is_news) {
        let warning = Warning { reason: "InvalidAnnotation", message: message.clone() };
        context.warn(&about, &warning);
    }
    memory.object.remarks = Some(remarks);
}

/// Counts what the write of a status settles of the ledger; without a status, the removal of the AppWrapper.
pub(super) fn spent(context: &Context, wrapper: &Wrapper, new: Option<&AppWrapperStatus>) {
    let config = context.config();
    let (old, created) = (&wrapper.status, wrapper.created);
    let change = UsageChange { old, new, created, categories: &config.failure_categories };
    let parts = change.parts(context.clock.now());
    if !parts.is_empty() {
        let requested = wrapper.requested();
        context.metrics.spent(&Spent {
            queue: wrapper.queue.clone().unwrap_or_default(),
            real: change.real(&requested, &context.cache.sites()),
            requested,
            parts,
        });
    }
}

/// The Normal event of a change of phase. An AppWrapper that runs and succeeds has two: each is an API
/// call. Of restarts and failures a Warning tells.
fn milestone(from: Phase, decision: &Decision) -> Option<(&'static str, String)> {
    let to = decision.next;
    let message = match to {
        Phase::Running if from == Phase::Resuming => {
            let attempt = current_attempt(&decision.status);
            format!("Created the components of attempt {attempt}")
        }
        Phase::Succeeded if from != to => "All components succeeded".to_owned(),
        Phase::Suspended if from == Phase::Suspending => "Deleted all components".to_owned(),
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending
        | Phase::Succeeded
        | Phase::Failed
        | Phase::Terminating => return None,
    };
    Some((to.as_str(), message))
}

/// What changed, and for what reason. Messages stay out of the log: the termination message of a container,
/// or an API server's error about a template, may contain confidential data.
fn log(from: Phase, to: Phase, verdict: &Verdict) {
    // the release of the quota after `onNoFit` has its action, but no failure
    if let Some(failure) = &verdict.failure
        && verdict.action.handles_failure()
    {
        let FailureRecord { component, pod, node, container, exit_code, category, .. } = failure;
        let action = verdict.action.as_str();
        let source = verdict.rule.as_ref().map(|rule| rule.source.to_string());
        let rule = verdict.rule.as_ref().and_then(|rule| rule.name.as_deref());
        let reason = verdict.reason.as_deref();
        tracing::info!(
            action,
            reason,
            source,
            rule,
            component,
            pod,
            node,
            container,
            exit_code,
            category,
            "Failure handled."
        );
    }
    if from != to {
        tracing::info!(%from, %to, "Phase changed.");
    }
}

/// Reports an AppWrapper that cannot be parsed and is not reconciled, once for each version.
pub(super) fn unreadable(
    context: &Context,
    memory: &mut ReconcileState,
    stored: &CachedAppWrapper,
    flaw: &str,
) {
    let told = Some(format!("{} {flaw}", stored.version()).into_boxed_str());
    if memory.unreadable == told {
        return;
    }
    let key = stored.key();
    tracing::warn!("The AppWrapper cannot be parsed; see its events.");
    let about = About { namespace: &key.namespace, name: &key.name, uid: stored.uid() };
    let message = format!("The AppWrapper cannot be parsed and is not reconciled: {flaw}");
    let warning = Warning { reason: "InvalidObject", message };
    context.warn(&about, &warning);
    memory.unreadable = told;
}

/// Tells of an error that somebody has to correct, the first of several in a row: an object near the limit of what can be
/// stored takes no status, what must not be written stays as it is, and what must not be read cannot be decided about. What may
/// be refused only for now is told once it has lasted. So is an internal error about one object, such as one of a kind whose
/// conversion webhook does not answer.
pub(super) fn failed(
    context: &Context,
    memory: &mut ReconcileState,
    about: &About<'_>,
    error: &Error,
) {
    let may_pass = error.is_refused_for_now() && !is_refused_for_long(memory);
    if may_pass || memory.is_error_told {
        return;
    }
    let lasts = memory.errors >= ERRORS_TOLD_FROM;
    let warning = match error {
        Error::Act(act) => too_large(act).or_else(|| {
            let is_refused = act.is_rejected_for_good() || act.is_refused_for_now();
            // of a deletion that is refused, or that lacks a webhook, an event of its own tells
            let is_told = act.is_deletion && (is_refused || act.lacks_webhook());
            let stays = is_refused || lasts && is_internal(&act.source);
            (stays && !is_told).then(|| write_failed(act))
        }),
        Error::Observe(read) => {
            let internal = || internal(read).filter(|_| lasts);
            read.refusal().or_else(internal).map(|why| {
                let message = format!("Cannot {read}: {why}");
                Warning { reason: "ReadFailed", message }
            })
        }
    };
    if let Some(warning) = warning {
        context.warn(about, &warning);
        memory.is_error_told = true;
    }
}

/// Whether the API server answers with an internal error of its own, and can reach its storage: AppWrappers without such an
/// object, or without the webhook that it must call for it, go on.
fn is_internal(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let is_of_storage = STORAGE_ERRORS.iter().any(|text| status.message.contains(text));
    let is_outage = status.reason == "ServerTimeout" || is_of_storage;
    status.code == 500 && (client::lacks_webhook(error) || !is_outage)
}

/// What the API server said, where such an error is why a read failed.
fn internal(read: &live::Error) -> Option<String> {
    match read {
        live::Error::Api { source, .. } => is_internal(source).then(|| client::said(source)),
        live::Error::NoKind(_) | live::Error::NotNamespaced(_) => None,
    }
}

fn write_failed(error: &act::Error) -> Warning {
    let reason = if error.is_deletion { "DeleteFailed" } else { "WriteFailed" };
    Warning { reason, message: format!("Cannot {error}: {}", error.said()) }
}

/// Tells that an AppWrapper cannot be suspended, once.
pub(super) fn suspend_refused(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: &Wrapper,
    error: &act::Error,
) {
    let now = memory.now();
    if Trouble::is_to_tell(&mut memory.suspend_refused, now, Duration::ZERO) {
        context.warn(&wrapper.about(), &write_failed(error));
    }
}

/// Tells that kinds that an AppWrapper uses are not listed yet, where that lasts: nothing is decided until they are.
pub(super) fn unlisted(context: &Context, memory: &mut ReconcileState, wrapper: &Wrapper) {
    let now = memory.now();
    if Trouble::is_to_tell(&mut memory.object.unlisted, now, UNLISTED_FOR) {
        let message = format!(
            "The RetryPolicies or queues of the AppWrapper have not been listed for {} s: nothing is done until they \
             are; see the log of the controller",
            UNLISTED_FOR.as_secs()
        );
        context.warn(&wrapper.about(), &Warning { reason: "ReadFailed", message });
    }
}

/// Tells of a status that is too large, and was stored only in part.
pub(super) fn refused(context: &Context, about: &About<'_>, error: &act::Error) {
    if let Some(warning) = too_large(error) {
        context.warn(about, &warning);
    }
}

/// Tells of a status that cannot be stored, where nothing has told of it before: a deletion continues without it.
pub(super) fn unwritten(
    context: &Context,
    memory: &ReconcileState,
    about: &About<'_>,
    error: &act::Error,
) {
    if !memory.is_error_told {
        let warning = too_large(error).unwrap_or_else(|| write_failed(error));
        context.warn(about, &warning);
    }
}

fn too_large(error: &act::Error) -> Option<Warning> {
    let message = "The AppWrapper is too large to store its status: reduce it below 1 MiB";
    let warning = || Warning { reason: "ObjectTooLarge", message: message.to_owned() };
    error.is_too_large().then(warning)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::api::AttemptAction;
    use crate::decide::VerdictAction;
    use crate::telemetry;

    #[test]
    fn a_failure_is_logged_once_where_its_quota_is_released() {
        let action = VerdictAction::Handle(AttemptAction::Requeue);
        let released = Verdict { action, ..Verdict::default() };
        let handled = Verdict { failure: Some(FailureRecord::default()), ..released.clone() };
        let (lines, _guard) = telemetry::count_lines();
        for verdict in [handled, released] {
            log(Phase::Resetting, Phase::Resetting, &verdict);
        }
        assert_eq!(lines.load(Ordering::SeqCst), 1);
    }
}
