//! Carries out the actions of a decision.

use std::sync::Arc;
use std::time::Duration;

use super::workload;
use super::{Context, ERROR_PAUSE, Error, WATCH_OVERDUE, deletion, growth, record, report};
use crate::act::{self, create, rights, wrapper as write};
use crate::api::keys;
use crate::decide::{Decision, shows_later_attempt};
use crate::observe::assemble::Wrapper;
use crate::observe::memory::ReconcileState;
use crate::observe::raw_object::RawObject;
use crate::observe::{live, nodes};
use crate::plan::Action;
use crate::snapshot::Snapshot;

/// An API server that has refused a request for this time refuses it for good: one that has just started refuses what it takes a
/// moment later.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// What came of the actions of a decision.
pub(super) enum Carried {
    /// The AppWrapper is another version now, by our write or that of another client.
    Newer(Arc<Wrapper>),
    /// Something was created: decide again.
    GoOn,
    /// Nothing more to do now.
    Done,
    /// Try again after this time.
    Later(Duration),
}

pub(super) async fn carry_out(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: &Arc<Wrapper>,
    snapshot: &Snapshot,
    decision: &Decision,
) -> Result<Carried, Error> {
    let (mut result, mut failed) = (Carried::Done, None);
    for action in &decision.actions {
        if failed.is_some() && !action.is_deletion() {
            break;
        }
        match action {
            Action::AddFinalizer => {
                let written = write::add_finalizer(&context.client, wrapper).await?;
                return Ok(wrote(memory, wrapper, &written));
            }
            Action::Create(index) => {
                if is_superseded(context, memory, wrapper) {
                    return Ok(Carried::Later(Duration::ZERO));
                }
                result = create_one(context, memory, wrapper, snapshot, *index, result).await;
            }
            Action::Delete(_)
            | Action::ForceDelete(_)
            | Action::ForceDeletePod { .. }
            | Action::DeletePod { .. }
            | Action::DeleteOrphan(_) => {
                match deletion::carry_out(context, memory, snapshot, action).await {
                    // it keeps no other object from being deleted
                    Err(error) if error.concerns_one_object() => {
                        failed.get_or_insert(error);
                    }
                    deleted => deleted?,
                }
            }
            Action::GrowMemory { suspend } => {
                return growth::grow(context, memory, wrapper, *suspend).await;
            }
            Action::SwitchWorkload { workload, active } => {
                return workload::switch(context, memory, wrapper, workload, *active).await;
            }
            Action::Suspend => return suspend(context, memory, wrapper).await,
            Action::RemoveFinalizer => {
                record::keep(context, wrapper).await;
                let version = remove_finalizer(context, wrapper).await?;
                memory.wrote(version.as_deref());
                context.metrics.removed(&wrapper.status, context.clock.now());
                report::spent(context, wrapper, None);
            }
        }
    }
    failed.map_or(Ok(result), Err)
}

/// Removes our finalizer; the version that the AppWrapper has then, where it is still there. Where no answer tells whether the
/// finalizer was removed, the API server is asked: of an AppWrapper that is gone nobody counts later what it has used. Should
/// another leader have removed it meanwhile, which happens only around a change of leaders, both count it.
async fn remove_finalizer(context: &Context, wrapper: &Wrapper) -> Result<Option<String>, Error> {
    let error = match write::remove_finalizer(&context.client, wrapper).await {
        Ok(written) => return Ok(written.meta.resource_version),
        Err(error) if error.is_unanswered() => error,
        Err(error) => return Err(error.into()),
    };
    // on the heap: it is rare, and its future is large
    let found = Box::pin(live::appwrapper(&context.client, &wrapper.key())).await;
    let Ok(found) = found else { return Err(error.into()) };
    let ours = found.filter(|found| found.meta.uid.as_deref() == Some(wrapper.uid.as_str()));
    let mut finalizers = ours.iter().flat_map(|found| found.meta.finalizers.iter().flatten());
    if finalizers.any(|name| name == keys::FINALIZER) {
        return Err(error.into());
    }
    Ok(ours.and_then(|found| found.meta.resource_version))
}

/// Suspends an AppWrapper. If that is rejected, it is retried later, and everything else continues; what may be refused only for
/// now is an error until it has lasted.
async fn suspend(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: &Wrapper,
) -> Result<Carried, Error> {
    // a reconcile that goes on forgets `refused_since`
    let has_lasted = memory.suspend_refused.is_some();
    match write::suspend(&context.client, wrapper).await {
        Ok(written) => Ok(wrote(memory, wrapper, &written)),
        Err(error)
            if is_rejected_for_good(&error, memory) || has_lasted && error.is_refused_for_now() =>
        {
            tracing::warn!(code = error.code(), "The API server rejected the suspension.");
            report::suspend_refused(context, memory, wrapper, &error);
            Ok(Carried::Later(ERROR_PAUSE.1))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether a write is rejected however often it is made: what is remembered for an attempt. What may be refused only for now is
/// believed after [`REFUSED_FOR`]; until then, the write is tried again.
pub(super) fn is_rejected_for_good(error: &act::Error, memory: &mut ReconcileState) -> bool {
    let for_now = error.is_refused_for_now();
    if for_now { is_refused_for_long(memory) } else { error.is_rejected_for_good() }
}

/// Whether the API server has refused calls for [`REFUSED_FOR`], this one included.
pub(super) fn is_refused_for_long(memory: &mut ReconcileState) -> bool {
    let now = memory.now();
    now.saturating_sub(*memory.refused_since.get_or_insert(now)) >= REFUSED_FOR
}

/// For how long a refusal has lasted before it is told.
pub(super) fn told_after(error: &act::Error) -> Duration {
    if error.is_refused_for_now() { REFUSED_FOR } else { Duration::ZERO }
}

/// The AppWrapper as our own write has made it.
pub(super) fn wrote(
    memory: &mut ReconcileState,
    wrapper: &Wrapper,
    written: &RawObject,
) -> Carried {
    memory.wrote(written.meta.resource_version.as_deref());
    Wrapper::read_newer(written, wrapper)
        .map_or(Carried::Done, |wrapper| Carried::Newer(Arc::new(wrapper)))
}

/// Why the actions of a decision are not carried out, if they are not: creations and deletions carry no precondition on the
/// AppWrapper, and the watch of a process that has just started may show the past. So the API server says whether it is still
/// what was decided about. Its metadata may differ, except for the annotations that tune it where something is created: its
/// author could change them without pause.
///
/// Our own write is no proof where a later attempt shows: another leader has begun it since. Nor is it for a Workload that
/// was read later: another leader may have activated it.
pub(super) async fn overtaken(
    context: &Context,
    memory: &mut ReconcileState,
    stored: &Wrapper,
    snapshot: &Snapshot,
    decision: &Decision,
) -> Result<Option<Carried>, Error> {
    if !decision.actions.iter().any(Action::is_unguarded) {
        return Ok(None);
    }
    let switches = |action: &Action| matches!(action, Action::SwitchWorkload { .. });
    let doubts = shows_later_attempt(snapshot) || decision.actions.iter().any(switches);
    if !doubts && memory.is_confirmed(&stored.version) {
        return Ok(None);
    }
    let creates = decision.actions.iter().any(|action| matches!(action, Action::Create(_)));
    let is_tuned_alike = |newest: &Wrapper| newest.annotations == stored.annotations;
    // on the heap: it is rare, and its future is large
    Ok(match Box::pin(newest(context, memory, stored)).await? {
        Some(newest) if newest.is_decided_as(stored) && (!creates || is_tuned_alike(&newest)) => {
            None
        }
        Some(newest) => Some(Carried::Newer(Arc::new(newest))),
        None => Some(Carried::Later(WATCH_OVERDUE)), // the watch will show what is newer
    })
}

/// An AppWrapper as the API server has it, where no leader has written since another version of it. What another leader has
/// done shows in the watches, and is waited for.
pub(super) async fn newest(
    context: &Context,
    memory: &mut ReconcileState,
    stored: &Wrapper,
) -> Result<Option<Wrapper>, live::Error> {
    let found = live::appwrapper(&context.client, &stored.key()).await?;
    let is_same = |found: &RawObject| found.meta.uid.as_deref() == Some(stored.uid.as_str());
    let Some(found) = found.filter(is_same) else { return Ok(None) };
    memory.confirm(found.meta.resource_version.as_deref());
    let newest = Wrapper::read_newer(&found, stored).ok();
    Ok(newest.filter(|newest| newest.has_status_of(stored) && newest.is_ours()))
}

/// Whether the watch has shown a newer version that asks for something else: then nothing is created. One that lags behind
/// shows an older version, which says nothing.
fn is_superseded(context: &Context, memory: &ReconcileState, wrapper: &Wrapper) -> bool {
    context.store.get(&wrapper.key()).is_none_or(|newest| {
        let differs = newest.summary.as_ref().is_ok_and(|summary| {
            newest.uid() != wrapper.uid
                || summary.suspend != wrapper.spec.suspend
                || summary.deleting != wrapper.deleting
        });
        differs && !memory.outdates(newest.version())
    })
}

pub(super) async fn create_one(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: &Wrapper,
    snapshot: &Snapshot,
    index: usize,
    before: Carried,
) -> Carried {
    let pause = memory.pause_before_create(index);
    if !pause.is_zero() {
        return sooner(before, pause);
    }
    let component = &snapshot.components[index];
    let config = context.config();
    let settings = create::Settings {
        scheduler_name: config.scheduler_name.as_deref(),
        aversions: nodes::aversions(&config.autopilot),
        requester: rights::Asked {
            checked: config.admission.user_rbac_admission_check,
            required: config.admission.require_requester,
        },
        progress: context.progress.get(),
    };
    let known = (&context.live, &context.rights);
    let created = create::create(&context.client, known, wrapper, index, component, settings).await;
    memory.tick(context.clock.elapsed()); // the pause before the next try begins with the answer
    match created {
        Ok(record) => memory.created(index, record),
        Err(failure) => {
            // once for all tries: the author of the AppWrapper chooses how many components fail, and for how long
            let is_new = memory.failure(index).is_none_or(|old| old.fatal != failure.why.fatal);
            if is_new {
                // what the API server says may quote the template: the condition and an event tell it
                tracing::warn!(
                    component = component.title(),
                    fatal = failure.why.fatal,
                    "Component not created."
                );
            }
            if failure.unanswered {
                memory.object.last_gap = Some(context.clock.around_now().1);
            }
            memory.failed(index, failure);
        }
    }
    Carried::GoOn
}

/// The earlier of two next tries; having done something comes before both.
fn sooner(before: Carried, pause: Duration) -> Carried {
    match before {
        Carried::Later(earlier) => Carried::Later(earlier.min(pause)),
        Carried::Done => Carried::Later(pause),
        done @ (Carried::GoOn | Carried::Newer(_)) => done,
    }
}
