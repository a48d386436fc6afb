//! What is said of a step: log, metrics, Kubernetes events.

use super::{Context, Error};
use crate::act::events::About;
use crate::api::Phase;
use crate::decide::{Decision, VerdictAction, Warning};
use crate::observe::assemble::Wrapper;
use crate::observe::memory::Memory;
use crate::observe::stored::Stored;

/// Log, metrics and events of a status that was written.
pub(super) fn announce(
    context: &Context,
    memory: &mut Memory,
    wrapper: &Wrapper,
    decision: &Decision,
    remarks: Vec<String>,
) {
    let (from, to) = (wrapper.status.phase, decision.next);
    let about = About { namespace: &wrapper.namespace, name: &wrapper.name, uid: &wrapper.uid };
    let now = context.clock.now();
    if from != to {
        context.metrics.phase_change(from, to);
        let Wrapper { namespace, name, .. } = wrapper;
        tracing::info!(namespace, name, %from, %to, "Phase changed.");
    }
    match decision.verdict.action {
        action @ (VerdictAction::Restart
        | VerdictAction::RestartIgnoringLimit
        | VerdictAction::RecreateComponent
        | VerdictAction::Fail) => {
            let source = decision.verdict.rule.as_ref().map(|rule| rule.source);
            context.metrics.failure(action.as_str(), source);
        }
        VerdictAction::None
        | VerdictAction::Wait
        | VerdictAction::Deploy
        | VerdictAction::Delete
        | VerdictAction::Succeed => {}
    }
    if from == Phase::Empty || (memory.remarks != remarks && !memory.remarks.is_empty()) {
        for message in &remarks {
            let warning = Warning { reason: "InvalidAnnotation", message: message.clone() };
            context.events.warn(&about, &warning, now);
        }
    }
    memory.remarks = remarks;
    for warning in &decision.events {
        context.metrics.warning(warning.reason);
        context.events.warn(&about, warning, now);
    }
}

/// An AppWrapper that cannot be read is left as it is, and said so, once for each version.
pub(super) fn unreadable(context: &Context, memory: &mut Memory, stored: &Stored, flaw: &str) {
    let remark = vec![format!("{} {flaw}", stored.version())];
    if memory.remarks == remark {
        return;
    }
    let key = stored.key();
    tracing::warn!(
        namespace = key.namespace,
        name = key.name,
        flaw,
        "An AppWrapper cannot be read."
    );
    let about = About { namespace: &key.namespace, name: &key.name, uid: stored.uid() };
    let message = format!("This AppWrapper cannot be read and is left as it is: {flaw}");
    let warning = Warning { reason: "InvalidObject", message };
    context.events.warn(&about, &warning, context.clock.now());
    memory.remarks = remark;
}

/// An object near the limit of what can be stored takes no status: its owner must know.
pub(super) fn too_large(context: &Context, memory: &Memory, stored: &Stored, error: &Error) {
    let Error::Act(act) = error else { return };
    let is_too_large = act.code() == Some(413) || act.source.to_string().contains("too large");
    if is_too_large && memory.errors == 1 {
        let key = stored.key();
        let about = About { namespace: &key.namespace, name: &key.name, uid: stored.uid() };
        let message = "This AppWrapper is too large to be written: make it smaller than 1 MiB";
        let warning = Warning { reason: "ObjectTooLarge", message: message.to_owned() };
        context.events.warn(&about, &warning, context.clock.now());
    }
}
