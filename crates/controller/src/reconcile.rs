//! Reconciles one AppWrapper: the only module that connects `observe`, `decide` and `act`.
//!
//! ```text
//! observe ─▶ Snapshot ─▶ decide ─▶ Decision ─┬─▶ status changed: one guarded write
//!    ▲                                       ├─▶ actions: carried out
//!    └── a read that the decision asks for ──┘
//! ```

mod beside;
mod carry_out;
mod census;
mod context;
mod deletion;
mod failure_log;
mod growth;
mod record;
mod report;
mod suspects;
mod workload;
mod written;

use std::sync::Arc;
use std::time::Duration;

use crate::act;
use crate::act::events::About;
use crate::api::{Phase, keys};
use crate::client;
use crate::clock;
use crate::config::Config;
use crate::decide::{Decision, Facts, decide};
use crate::mutations::{self, Mutation};
use crate::observe::assemble::{Wrapper, kind_of};
use crate::observe::cache::{Key, Sync};
use crate::observe::deleted_objects::DeletedObjects;
use crate::observe::live;
use crate::observe::memory::ReconcileState;
use crate::observe::raw_object::RawObject;
use crate::observe::retry_sources::Attach;
use crate::observe::{self, cached_appwrapper::CachedAppWrapper};
use crate::shadow::Shadow;
use crate::snapshot::Snapshot;
use crate::tuning::Limits;
use appwrapper_core::shadow::{Compared, ShadowInputs};
use carry_out::{Carried, carry_out, newest, overtaken};
use k8s_openapi::jiff::Timestamp;
use tracing::{Instrument, Span};
use workload::Asked;
use written::Written;

pub use census::census;
pub use context::Context;

#[cfg(test)]
mod tests;

/// How often a decision may ask for a read, or go on after an action, in one go.
const ROUNDS_MAX: usize = 6;
/// Requeue after this time if the watch has not delivered our write.
const WATCH_OVERDUE: Duration = Duration::from_secs(5);
/// When a watch that shows an older version than the newest is doubted no longer without asking the API server.
const RESTORED_AFTER: Duration = Duration::from_mins(1);
/// First and longest pause after an error.
const ERROR_PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// When an AppWrapper is to be reconciled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something happens.
    OnChange,
    /// After this time, if nothing happens before.
    After(Duration),
}

/// Why a reconcile failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A read failed.
    #[error("failed to read the cluster state")]
    Observe(#[from] live::Error),
    /// A write failed.
    #[error("failed to carry out an action")]
    Act(#[from] act::Error),
}

impl Error {
    /// For how long the API server asked not to be called.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Observe(error) => error.retry_after(),
            Self::Act(error) => client::retry_after(&error.source),
        }
    }

    /// The API server answered, and did not ask to wait: a call about another object may succeed.
    fn concerns_one_object(&self) -> bool {
        match self {
            Self::Observe(error) => error.concerns_one_object(),
            Self::Act(error) => error.concerns_one_object(),
        }
    }

    /// The API server refused a call, for good or for now.
    fn is_refused(&self) -> bool {
        match self {
            Self::Act(error) => error.is_rejected_for_good() || error.is_refused_for_now(),
            Self::Observe(error) => error.refusal().is_some(),
        }
    }

    /// The API server refused a call, and may take it a moment later.
    fn is_refused_for_now(&self) -> bool {
        match self {
            Self::Act(error) => error.is_refused_for_now(),
            Self::Observe(error) => error.is_refused_for_now(),
        }
    }

    /// Another client wrote in between.
    fn is_overtaken(&self) -> bool {
        matches!(self, Self::Act(error) if error.code() == Some(409))
    }

    /// Another client wrote in between, or the object is gone: the watch will tell.
    fn is_stale(&self) -> bool {
        match self {
            Self::Act(error) => matches!(error.code(), Some(404 | 409)),
            Self::Observe(_) => false,
        }
    }
}

/// Reconciles one AppWrapper.
///
/// # Errors
/// Where a read or a write failed; nothing was concluded from it.
pub async fn reconcile(
    stored: Arc<CachedAppWrapper>,
    context: Arc<Context>,
) -> Result<Next, Error> {
    let span = span(&stored);
    reconcile_in_span(stored, context).instrument(span).await
}

/// What each line of the log about a reconcile has. Whatever level of lines a filter leaves out, it keeps these of errors.
#[must_use]
pub fn span(stored: &CachedAppWrapper) -> Span {
    let key = stored.key();
    tracing::error_span!(
        "reconcile",
        namespace = key.namespace,
        appwrapper = key.name, // in JSON, `name` is that of the span
        uid = stored.uid(),
        phase = stored.summary.as_ref().map_or("", |summary| summary.phase.as_str()),
    )
}

async fn reconcile_in_span(
    stored: Arc<CachedAppWrapper>,
    context: Arc<Context>,
) -> Result<Next, Error> {
    let memory = context.memory(&stored.key());
    let mut memory = memory.lock().await;
    memory.tick(context.clock.elapsed());
    memory.listed = 0;
    match &stored.summary {
        Ok(summary) if summary.is_ours => {}
        Ok(summary) if summary.deleting => return let_go(&context, &mut memory, &stored).await,
        Ok(_) => return Ok(Next::OnChange),
        Err(flaw) => {
            report::unreadable(&context, &mut memory, &stored, flaw);
            return Ok(Next::OnChange);
        }
    }
    let wrapper = match context.wrapper(&stored).await {
        Ok(Some(Ok(wrapper))) if wrapper.is_ours() => wrapper,
        Ok(Some(Err(flaw))) => {
            report::unreadable(&context, &mut memory, &stored, &flaw);
            return Ok(Next::OnChange);
        }
        Ok(Some(Ok(_)) | None) => return Ok(Next::OnChange), // the watch will say
        Err(error) => return Err(failed(&context, &mut memory, &stored, error.into())),
    };
    if wrapper.flaws.stored.contains_key("phase")
        && mutations::is_present(Mutation::UnknownPhaseStopsAll)
    {
        return Ok(Next::OnChange);
    }
    mutations::panic_where_asked("reconcile", &wrapper.annotations);
    if wrapper.status.phase == Phase::Empty {
        mutations::block_where_asked(&wrapper.annotations);
    }
    // before anything is forgotten of an attempt that this process has begun
    match is_behind(&context, &mut memory, &wrapper).await {
        Ok(false) => {}
        Ok(true) => return Ok(Next::After(WATCH_OVERDUE)),
        Err(error) => return Err(failed(&context, &mut memory, &stored, error.into())),
    }
    focus(&mut memory, &wrapper);
    memory.object.last_gap = memory.object.last_gap.max(context.gap_before.get().copied());
    memory.saw(&wrapper.version);
    let config = context.config();
    let default = config.retry_policy.default_policy_name.as_deref();
    if !observe::is_synced(&context.cache, &wrapper, default) {
        report::unlisted(&context, &mut memory, &wrapper);
        return Ok(Next::After(WATCH_OVERDUE)); // the end of the first list wakes it earlier
    }
    memory.object.unlisted = None;
    let done = run_rounds(&context, &mut memory, wrapper).await;
    match done {
        Ok(requeue) => {
            memory.errors = 0;
            memory.object.is_blind = false;
            memory.refused_since = None;
            memory.is_error_told = false;
            Ok(requeue)
        }
        Err(error) if error.is_stale() => Ok(Next::After(WATCH_OVERDUE)),
        Err(error) => Err(failed(&context, &mut memory, &stored, error)),
    }
}

/// Removes our finalizer from an AppWrapper that is deleted and that runs in a worker cluster of MultiKueue, where it has got
/// one: Kueue would not. Other managers may use a finalizer of the same name. Our definition lets nobody change the manager;
/// with that of the Go controller somebody could, but what this one has created has its UID recorded, which Kueue never
/// copies.
async fn let_go(
    context: &Context,
    memory: &mut ReconcileState,
    stored: &CachedAppWrapper,
) -> Result<Next, Error> {
    let wrapper = match context.wrapper(stored).await {
        Ok(Some(Ok(wrapper))) => wrapper,
        Ok(Some(Err(_)) | None) => return Ok(Next::OnChange), // the watch will say
        Err(error) => return Err(failed(context, memory, stored, error.into())),
    };
    let is_sent = wrapper.other_manager() == Some(keys::MULTIKUEUE);
    let holds = wrapper.finalizers.iter().any(|name| name == keys::FINALIZER);
    let has_begun = wrapper.components.iter().any(|component| component.recorded.is_some());
    if !is_sent || !holds || !wrapper.deleting || has_begun || context.shadow.is_some() {
        return Ok(Next::OnChange);
    }
    match act::wrapper::remove_finalizer(&context.client, &wrapper).await.map_err(Error::from) {
        Ok(_) => Ok(Next::OnChange),
        Err(error) if error.is_stale() => Ok(Next::After(WATCH_OVERDUE)),
        Err(error) => Err(failed(context, memory, stored, error)),
    }
}

/// Whether a watch shows an AppWrapper as it was earlier. One that does so for long may be right: resource versions go
/// back where the data of the API server are restored from a backup.
async fn is_behind(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: &Wrapper,
) -> Result<bool, live::Error> {
    if !memory.is_about(&wrapper.uid) || !memory.outdates(&wrapper.version) {
        return Ok(false);
    }
    if memory.behind_for() < RESTORED_AFTER
        || live::version(&context.client, wrapper).await?.as_ref() != Some(&wrapper.version)
    {
        return Ok(true);
    }
    tracing::warn!(
        "The API server has an older resourceVersion than before: it may have been restored from a backup."
    );
    memory.went_back(&wrapper.version);
    Ok(false)
}

/// Counts and reports an error, and notes that nothing is known of the time until the next reconcile.
fn failed(
    context: &Context,
    memory: &mut ReconcileState,
    stored: &CachedAppWrapper,
    error: Error,
) -> Error {
    memory.errors = memory.errors.saturating_add(1);
    memory.object.is_blind = !error.is_refused();
    if memory.object.is_blind {
        memory.refused_since = None;
    }
    memory.object.last_gap = Some(context.clock.around_now().1);
    let key = stored.key();
    let about = About { namespace: &key.namespace, name: &key.name, uid: stored.uid() };
    report::failed(context, memory, &about, &error);
    error
}

/// How many reconciles of an AppWrapper have failed in a row, the last one included.
pub fn errors(context: &Context, key: &Key) -> u32 {
    context.memory(key).try_lock().map_or(1, |memory| memory.errors)
}

/// How many pods the last reconcile of an AppWrapper has listed.
pub fn listed_pods(context: &Context, key: &Key) -> usize {
    context.memory(key).try_lock().map_or(0, |memory| memory.listed)
}

/// How long to wait after this many errors in a row.
#[must_use]
pub fn error_pause(errors: u32) -> Duration {
    let (first, longest) = ERROR_PAUSE;
    first.saturating_mul(2_u32.saturating_pow(errors.saturating_sub(1))).min(longest)
}

/// Whether the watch has not shown yet what the controller wrote of an AppWrapper.
pub fn awaits_own_write(context: &Context, key: &Key) -> bool {
    let memory = context.memory(key);
    let shown = context.store.get(key);
    memory
        .try_lock()
        .is_ok_and(|memory| shown.is_some_and(|shown| memory.awaits_own_write(shown.version())))
}

/// Observes, decides and acts until nothing is left to do now, at most [`ROUNDS_MAX`] times.
///
/// A decision either asks for a fresh read, writes the status, or acts; each starts another round. So does a write that
/// another client has overtaken: who changes an AppWrapper without pause would otherwise keep it from being suspended. If the
/// rounds run out, the AppWrapper is requeued.
async fn run_rounds(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: Arc<Wrapper>,
) -> Result<Next, Error> {
    let mut rounds =
        Rounds { stored: wrapper.clone(), wrapper, asked: Asked::default(), has_written: false };
    for _ in 0..ROUNDS_MAX {
        match rounds.run_one(context, memory).await {
            Ok(Some(next)) => return Ok(next),
            Ok(None) => {}
            Err(error) if error.is_overtaken() => {
                // on the heap: it is rare, and its future is large
                let newest = Box::pin(newest(context, memory, &rounds.stored)).await?;
                // where nobody has changed it, something else answers so
                let newest = newest.filter(|newest| newest.version != rounds.stored.version);
                rounds.go_on_with(Arc::new(newest.ok_or(error)?));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Next::After(ERROR_PAUSE.0))
}

/// What one reconcile knows from round to round.
struct Rounds {
    /// The AppWrapper as the API server has it.
    stored: Arc<Wrapper>,
    /// The AppWrapper that is decided about: its status may be one that the API server refused.
    wrapper: Arc<Wrapper>,
    asked: Asked,
    /// A status was written that the watch has yet to show.
    has_written: bool,
}

impl Rounds {
    fn go_on_with(&mut self, newer: Arc<Wrapper>) {
        (self.stored, self.wrapper) = (newer.clone(), newer);
        self.asked = Asked::default();
    }

    /// One round; `None` where another is due.
    async fn run_one(
        &mut self,
        context: &Context,
        memory: &mut ReconcileState,
    ) -> Result<Option<Next>, Error> {
        let config = context.config();
        let Self { wrapper, asked, .. } = self;
        let (limits, remarks) = Limits::of(&wrapper.annotations, &config.fault_tolerance);
        let (snapshot, (now, anchor)) =
            look(context, memory, wrapper, asked, &limits, &config).await?;
        let facts = Facts { snapshot: &snapshot, limits: &limits, config: &config, now, anchor };
        let decision = decide(facts);
        memory.tick(context.clock.elapsed());
        if asked.note(context, memory, wrapper, &decision).await? {
            return Ok(None);
        }
        memory.object.over_quota_since = decision.over_quota_since;
        if let Some(shadow) = &context.shadow {
            let sight = shadow.sight(snapshot, &limits, &config, (now, anchor));
            return Ok(Some(compare(context, memory, shadow, wrapper, sight, &decision)));
        }
        report::remarks(context, memory, wrapper, &remarks);
        if let Some(witness) = &context.witness {
            witness(facts, &decision);
        }
        if is_to_be_written(wrapper, &decision) {
            return self.write(context, memory, &snapshot, &decision).await;
        }
        Box::pin(self.act(context, memory, &snapshot, &decision)).await
    }

    /// Carries out the actions of a decision.
    async fn act(
        &mut self,
        context: &Context,
        memory: &mut ReconcileState,
        snapshot: &Snapshot,
        decision: &Decision,
    ) -> Result<Option<Next>, Error> {
        let wrapper = self.wrapper.clone();
        let instead = overtaken(context, memory, &self.stored, snapshot, decision).await?;
        let carried = if let Some(instead) = instead {
            instead
        } else {
            let carried = carry_out(context, memory, &wrapper, snapshot, decision).await?;
            memory.deleted_objects = DeletedObjects::default();
            carried
        };
        match carried {
            Carried::Newer(newer) => self.go_on_with(newer),
            Carried::GoOn => self.asked = Asked::default(),
            Carried::Done => return Ok(Some(requeue(context, memory, &wrapper, decision))),
            Carried::Later(pause) => {
                let decided = requeue(context, memory, &wrapper, decision);
                return Ok(Some(try_again(pause, decided)));
            }
        }
        Ok(None)
    }

    /// Writes the status of a decision, and tells of it.
    async fn write(
        &mut self,
        context: &Context,
        memory: &mut ReconcileState,
        snapshot: &Snapshot,
        decision: &Decision,
    ) -> Result<Option<Next>, Error> {
        if self.has_written {
            // what was written comes back through the watch
            return Ok(Some(Next::After(WATCH_OVERDUE)));
        }
        let wrapper = &self.wrapper;
        let written =
            written::write(context, memory, &self.stored, wrapper, snapshot, decision).await?;
        memory.deleted_objects = DeletedObjects::default(); // it is decided about
        match written {
            Written::Stored(newer) => {
                report::announce(context, memory, &self.stored, decision);
                failure_log::keep(context, wrapper, snapshot, decision).await;
                let begun = newer.and_then(|it| attempt_begun(memory, wrapper, &it, decision));
                let Some(newer) = begun else {
                    return Ok(Some(requeue(context, memory, wrapper, decision)));
                };
                self.has_written = true;
                self.go_on_with(newer);
            }
            Written::Assumed(assumed) => {
                self.wrapper = assumed;
                self.asked = Asked::default();
            }
        }
        Ok(None)
    }
}

/// Whether the stored status differs from what is decided, or is not what this controller writes.
fn is_to_be_written(wrapper: &Wrapper, decision: &Decision) -> bool {
    let rewrites = decision.actions.is_empty() && mutations::is_present(Mutation::AlwaysWrite);
    decision.status != wrapper.status || !wrapper.flaws.is_empty() || rewrites
}

/// When the next try is due, or what is to be decided before it.
fn try_again(pause: Duration, decided: Next) -> Next {
    match decided {
        Next::After(decided) => Next::After(pause.min(decided.max(ERROR_PAUSE.0))),
        Next::OnChange => Next::After(pause),
    }
}

/// Retry policies that are attached elsewhere than to a queue.
fn attach(limits: &Limits, config: &Config) -> Attach {
    let default = config.retry_policy.default_policy_name.clone();
    Attach { own: limits.retry_policies.clone(), default }
}

/// What is seen, by what was asked for, and when: now, and the moment for what is written down.
async fn look(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: &Wrapper,
    asked: &mut Asked,
    limits: &Limits,
    config: &Config,
) -> Result<(Snapshot, (Timestamp, Timestamp)), Error> {
    let (sources, attach, autopilot) =
        (context.sources(), attach(limits, config), &config.autopilot);
    // on the heap, as what follows from it: a future is as large as all that it may call
    let mut snapshot =
        Box::pin(observe::observe(sources, wrapper, memory, asked.fresh, &attach, autopilot))
            .await?;
    let (now, anchor) = context.clock.around_now();
    memory.tell(&mut snapshot, anchor);
    snapshot.reports_since = context.progress.since(now);
    suspects::fill(context, wrapper, &mut snapshot, now);
    asked.complete(&mut snapshot, context);
    Ok((snapshot, (now, anchor)))
}

/// Compares a decision with what the active controller does, and carries nothing out.
fn compare(
    context: &Context,
    memory: &mut ReconcileState,
    shadow: &Shadow,
    wrapper: &Wrapper,
    sight: ShadowInputs<'_>,
    decision: &Decision,
) -> Next {
    memory.deleted_objects = DeletedObjects::default();
    let Compared { findings, again } =
        memory.object.comparison.get_or_insert_default().look(sight, decision);
    for finding in &findings {
        shadow.note(finding);
    }
    let again = again.map(|at| due_in(context, at));
    match (requeue(context, memory, wrapper, decision), again) {
        (Next::After(pause), Some(again)) => Next::After(pause.min(again)),
        (Next::OnChange, Some(again)) => Next::After(again),
        (next, None) => next,
    }
}

/// The AppWrapper after a write that begins an attempt. This reconcile continues with it, since a later one would
/// have to read it again before it creates anything.
fn attempt_begun(
    memory: &mut ReconcileState,
    wrapper: &Wrapper,
    written: &RawObject,
    decision: &Decision,
) -> Option<Arc<Wrapper>> {
    if decision.next != Phase::Resuming {
        return None;
    }
    let newer = Wrapper::read_newer(written, wrapper).ok();
    let newer = newer.filter(|newer| newer.status == decision.status)?;
    focus(memory, &newer);
    // one that was under way may have been begun by another process
    memory.begun_before &= wrapper.status.phase == Phase::Resuming;
    Some(Arc::new(newer))
}

fn focus(memory: &mut ReconcileState, wrapper: &Wrapper) {
    let attempt = crate::decide::current_attempt(&wrapper.status);
    memory.focus(&wrapper.uid, attempt);
}

/// When to look again where nothing tells of a component, since its kind cannot be watched; not at rest.
fn unwatched_for(context: &Context, wrapper: &Wrapper, decision: &Decision) -> Option<Duration> {
    let deletes = decision.status.since.as_ref().is_some_and(|since| since.deleting.is_some());
    let changes = match decision.next {
        Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending
        | Phase::Terminating => true,
        Phase::Empty | Phase::Suspended | Phase::Succeeded | Phase::Failed => deletes,
    };
    let mut components = wrapper.components.iter();
    let is_blind = |component| context.cache.sync(&kind_of(component)) == Sync::Blind;
    (changes && components.any(is_blind)).then_some(observe::UNWATCHED_AGAIN_AFTER)
}

/// How long it is until a decision finds that a moment is over: decisions go by whole seconds, rounded down.
fn due_in(context: &Context, moment: Timestamp) -> Duration {
    context.clock.until(clock::around(moment).1)
}

fn requeue(
    context: &Context,
    memory: &ReconcileState,
    wrapper: &Wrapper,
    decision: &Decision,
) -> Next {
    if mutations::is_present(Mutation::DeadlineForgotten) {
        return Next::OnChange;
    }
    let deadline = decision.requeue.map(|at| due_in(context, at));
    let unseen = memory.unshown_for().into_iter().chain(memory.pods_unseen_for());
    let unwatched = unwatched_for(context, wrapper, decision);
    deadline.into_iter().chain(unseen).chain(unwatched).min().map_or(Next::OnChange, Next::After)
}
