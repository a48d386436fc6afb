//! Writes the status, and what follows where the API server refuses it.
//!
//! Requests of others, deletion and suspension, do not wait for a status that cannot be stored: the resources
//! are deleted first, a LIST shows that everything is gone, and only then the finalizer or the quota is
//! released. Neither makes the object larger.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::carry_out::is_refused_for_long;
use super::{Context, Error, report};
use crate::act::wrapper as write;
use crate::api::{AppWrapperStatus, Phase};
use crate::decide::{CLOCK_BEHIND_MAX, Decision};
use crate::observe::assemble::Wrapper;
use crate::observe::live;
use crate::observe::memory::ReconcileState;
use crate::observe::raw_object::RawObject;
use crate::snapshot::{Component, Snapshot};
use crate::status::{self, Flaws};

/// What came of a status that was to be written.
pub(super) enum Written {
    /// It is stored: the AppWrapper as it is now, where the API server has answered with it.
    Stored(Option<Box<RawObject>>),
    /// It is not, and is gone on from as if it were.
    Assumed(Arc<Wrapper>),
}

/// Writes the status of a decision. `stored` is the AppWrapper as the API server has it, `wrapper` as it was
/// decided about, by this snapshot.
pub(super) async fn write(
    context: &Context,
    memory: &mut ReconcileState,
    stored: &Arc<Wrapper>,
    wrapper: &Arc<Wrapper>,
    snapshot: &Snapshot,
    decision: &Decision,
) -> Result<Written, Error> {
    let error = match send(context, memory, stored, &decision.status).await {
        Ok(None) => return Ok(Written::Stored(None)),
        // Nothing of it was stored: the definition has none of its fields, or what is stored cannot be read, nor be mended. Each
        // look would write the same, and do nothing else. The write was guarded by the version, so nobody else wrote it.
        Ok(Some(newer)) if !is_newer(&newer, stored) => {
            if stored.flaws.is_empty() && stored.status != decision.status {
                let until = "they are lost, and so are the events and metrics of these changes";
                tell_of_definition(context, "stores none of the changed fields of status", until);
            }
            return Ok(Written::Assumed(assumed(wrapper, &decision.status)));
        }
        Ok(Some(newer)) => return Ok(Written::Stored(Some(Box::new(newer)))),
        Err(error) if is_refusal(&error, memory) => error,
        Err(error) => return Err(error.into()),
    };
    let about = stored.about();
    let least = status::minimal(&decision.status);
    // what is refused for now is refused whatever it says
    if least != decision.status && !error.is_refused_for_now() {
        match send(context, memory, stored, &least).await {
            Ok(newer) if newer.as_ref().is_none_or(|newer| is_newer(newer, stored)) => {
                report::refused(context, &about, &error);
                return Ok(Written::Stored(newer.map(Box::new)));
            }
            Ok(_) => {}
            Err(error) if is_refusal(&error, memory) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if !deletes(stored, decision) {
        return Err(error.into());
    }
    if memory.deleting.is_none() {
        report::unwritten(context, memory, &about, &error);
        tracing::warn!("The API server rejected the status; deleting all resources without it.");
    }
    let mut status = decision.status.clone();
    let now = context.clock.around_now().1;
    let since = status.since.get_or_insert_default();
    let decided = since.deleting.as_ref().map_or(now, |time| time.0);
    let began = || begun_before(stored, snapshot).map_or(decided, |at| at.min(decided));
    since.deleting = Some(Time(*memory.deleting.get_or_insert_with(began)));
    Ok(Written::Assumed(assumed(wrapper, &status)))
}

/// Whether the API server does not take a status however often it is sent: where it has refused calls for long, or where
/// everything is being deleted without a status already, any refusal is final.
fn is_refusal(error: &crate::act::Error, memory: &mut ReconcileState) -> bool {
    let is_refused = error.is_rejected_for_good() || error.is_refused_for_now();
    error.is_refusal() || is_refused && (is_refused_for_long(memory) || memory.deleting.is_some())
}

/// When an earlier process began to delete everything of an AppWrapper that is deleted, as far as the components that are left
/// tell: since then, each of them is being deleted. The clock of the API server may be behind. What somebody else had deleted
/// before the AppWrapper is no sign of that, and neither is a pod: a drain evicts pods one by one.
fn begun_before(stored: &Wrapper, snapshot: &Snapshot) -> Option<Timestamp> {
    let deleted = stored.deletion_timestamp?;
    let objects = snapshot.components.iter().filter_map(Component::ours);
    let requested: Option<Vec<Timestamp>> = objects.map(|it| it.deletion_requested).collect();
    let last = requested?.into_iter().max().filter(|at| *at >= deleted)?;
    Some(CLOCK_BEHIND_MAX.after(last))
}

/// Whether the decision is about a deletion that was requested by another client or decided before.
fn deletes(stored: &Wrapper, decision: &Decision) -> bool {
    match decision.next {
        Phase::Suspending | Phase::Terminating => true,
        Phase::Succeeded | Phase::Failed => stored.status.phase == decision.next,
        Phase::Empty | Phase::Suspended | Phase::Resuming | Phase::Running | Phase::Resetting => {
            false
        }
    }
}

fn assumed(wrapper: &Wrapper, status: &AppWrapperStatus) -> Arc<Wrapper> {
    Arc::new(Wrapper { status: status.clone(), flaws: Flaws::default(), ..wrapper.clone() })
}

/// Whether a write changed anything.
fn is_newer(written: &RawObject, stored: &Wrapper) -> bool {
    written.meta.resource_version.as_deref() != Some(stored.version.as_str())
}

/// Sends a status; what the API server has answered, or nothing where it does not say whether the status was stored, and a
/// read shows that it was.
async fn send(
    context: &Context,
    memory: &mut ReconcileState,
    stored: &Wrapper,
    status: &AppWrapperStatus,
) -> Result<Option<RawObject>, crate::act::Error> {
    let written = match write::write_status(&context.client, stored, status).await {
        Err(error) if error.is_unanswered() => {
            memory.object.last_gap = Some(context.clock.around_now().1);
            // on the heap: it is rare, and its future is large
            let found = Box::pin(is_stored(context, memory, stored, status)).await;
            return if found { Ok(None) } else { Err(error) };
        }
        written => written?,
    };
    memory.wrote(written.meta.resource_version.as_deref());
    if lost_attempts(status, &written) {
        let until = "attempts, requesters, limits of RetryPolicies, status.since, status.retryAfter, status.usage and \
                     the UIDs of components are lost, and the objects of two attempts cannot be told apart";
        tell_of_definition(context, "does not store status.attempts", until);
    }
    Ok(Some(written))
}

/// Logs once what the API server does with a status for want of our definition, and what that means until it is applied.
fn tell_of_definition(context: &Context, what: &str, until: &str) {
    if !context.has_told_of_definition.swap(true, Relaxed) {
        tracing::error!(
            "The API server {what}: CustomResourceDefinition appwrappers.workload.codeflare.dev is not the one of this \
             version. Until it is applied, {until}: kubectl apply --server-side --force-conflicts -k config/crd"
        );
    }
}

/// Whether a newer version of an AppWrapper has a status, by the API server's own word. Then what follows from its write, such
/// as the events and the counters, is due here: a reconcile that finds it stored tells nothing anew.
///
/// Another leader may have written the same status instead, and counted it: only where both decided the same in the same
/// second, and the answer to this write was lost besides. So nothing else rests on it: as before, an attempt that begins with
/// it counts as begun by another process.
async fn is_stored(
    context: &Context,
    memory: &mut ReconcileState,
    stored: &Wrapper,
    status: &AppWrapperStatus,
) -> bool {
    let Ok(Some(found)) = live::appwrapper(&context.client, &stored.key()).await else {
        return false;
    };
    let is_same = found.meta.uid.as_deref() == Some(stored.uid.as_str());
    let reads_same = |it: Wrapper| it.flaws.is_empty() && it.status == *status;
    let is_it = is_same
        && is_newer(&found, stored)
        && Wrapper::read_newer(&found, stored).is_ok_and(reads_same);
    if is_it {
        memory.wrote(found.meta.resource_version.as_deref());
    }
    is_it
}

/// Whether the API server has dropped the attempts of a status: the definition of the Go controller has none.
fn lost_attempts(status: &AppWrapperStatus, written: &RawObject) -> bool {
    #[derive(Default, Deserialize)]
    struct Stored {
        attempts: Option<IgnoredAny>,
    }
    if status.attempts.is_empty() {
        return false;
    }
    let stored =
        written.status().and_then(|text| serde_json::from_str::<Option<Stored>>(text).ok());
    stored.flatten().unwrap_or_default().attempts.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Attempt;

    #[test]
    fn attempts_that_are_not_stored_are_noticed() {
        let template = json!({"data": {"attempts": "3"}});
        let written = |status: &serde_json::Value| -> RawObject {
            let object = json!({"metadata": {}, "spec": {"components": [{"template": template}]},
                "status": status});
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let attempts = vec![Attempt::default()];
        let status = AppWrapperStatus { attempts, ..AppWrapperStatus::default() };
        for (stored, is_lost) in [
            (json!({"attempts": [{"attempt": 0}]}), false),
            (json!({"phase": "Running"}), true),
            (json!({"componentStatus": [{"name": "attempts"}]}), true),
            (json!(null), true),
        ] {
            assert_eq!(lost_attempts(&status, &written(&stored)), is_lost, "{stored}");
            assert!(!lost_attempts(&AppWrapperStatus::default(), &written(&stored)), "{stored}");
        }
    }
}
