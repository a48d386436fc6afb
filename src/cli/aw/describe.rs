//! `appwrapper describe`, or `why`: how an AppWrapper is doing, why, and what comes next.

pub(in crate::cli) mod events;
pub(in crate::cli) mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::super::cluster::{cluster_flags, target_words};
use super::super::configuration::ControllerConfig;
use super::super::explain::ExplainInputs;
use super::super::explain::answer::{Explanation, explain, how_to_retry};
use super::super::explain::live::around;
use super::super::ledger::Ledger;
use super::super::place::{One, Place};
use super::super::{Error, program, term};
use super::list::state;
use super::multikueue::{AGAIN, COPY, CREATED_THERE, is_sent};
use super::switch::{awaits_its_user, held};
use super::workload::{self, QueueStatus, Queued};
use super::{Target, block_on, now, tell, words};
use crate::api::{AppWrapperStatus, FailureRecord, Phase, condition};
use crate::config::Config;
use crate::decide::decision_of_attempt;
use crate::observe::assemble::Wrapper;
use crate::observe::raw_object::RawObject;
use crate::snapshot::{Component, Object, Outcome, Owner, Pod, PodPhase, Presence, Snapshot};
use events::Warning;

/// The command that shows whether a controller runs, where it is installed by the manifests.
const NO_CONTROLLER: &str = "kubectl -n appwrapper-system get pods,leases";

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    target: Target,
    /// Controller configuration file; defaults to the one in ConfigMap
    /// appwrapper-system/appwrapper-config
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What was read of an AppWrapper and around it.
pub(in crate::cli) struct Gathered {
    pub one: One,
    pub config: Config,
    pub queued: Queued,
    /// Warning events about it, and about what has not made its pods run yet.
    pub warnings: Vec<RawObject>,
    /// None where it could not be read.
    pub inputs: Option<ExplainInputs>,
    pub notes: Vec<String>,
}

/// Everything that is said.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Description {
    pub namespace: String,
    pub name: String,
    pub phase: Phase,
    /// Since when, as far as that is recorded.
    since: Option<Timestamp>,
    created: Option<Timestamp>,
    /// Number of the attempt.
    attempt: Option<i32>,
    /// Counted restarts.
    restarts: i32,
    uncounted_restarts: Uncounted,
    /// Failed pods that `podFailurePolicy` ignored.
    ignored_failures: i32,
    managed_by: Option<String>,
    queue: Option<QueueStatus>,
    components: Vec<Member>,
    /// What its reserved quota was used for.
    usage: Option<Ledger>,
    /// The failure that the next decision is about, or the last one that was decided.
    failure: Option<Failure>,
    /// The last failure in the worker cluster, where the AppWrapper runs in one.
    last_failure: Option<Reported>,
    /// What the controller would do now.
    pub next: Option<Explanation>,
    /// What the user can do.
    advice: Option<String>,
    events: Vec<Warning>,
    notes: Vec<String>,
}

/// Uncounted restarts, and how many of them the administrator allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Uncounted {
    used: i32,
    /// None where there is no limit.
    limit: Option<i32>,
}

/// A component and how it is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Member {
    kind: String,
    name: String,
    state: String,
}

/// A failure, and what was decided about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    attempt: Option<i32>,
    failed_at: Option<Timestamp>,
    #[serde(flatten)]
    record: FailureRecord,
    /// What was decided; none before the decision.
    decision: Option<String>,
}

/// A failure as its condition describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Reported {
    failed_at: Timestamp,
    message: String,
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Error> {
    let gathered = block_on(async {
        let place = args.target.place().await?;
        gather(&place, &args.target.name, args.config.as_deref()).await
    })?;
    let now = now();
    let description = describe(&gathered, now);
    tell(args.target.output, &description, || text::text(&description, now, term::has_colour()))
}

/// Reads an AppWrapper and what is around it. What may not be read is noted.
///
/// # Errors
/// There is no such AppWrapper, it cannot be read, or the cluster does not answer.
pub(in crate::cli) async fn gather(
    place: &Place,
    name: &str,
    config: Option<&Path>,
) -> Result<Gathered, Error> {
    let ControllerConfig { config, doubt } = ControllerConfig::of(config, &place.client).await?;
    let one = place.one(name).await?;
    let wrapper = &*one.wrapper;
    let queued = place.workload(&wrapper.uid).await?;
    let mut notes = vec![];
    notes.extend(doubt);
    let inputs = match around(&place.client, wrapper, &config).await {
        Ok(inputs) => Some(inputs),
        Err(error) => {
            notes.push(format!("cannot read its components and pods: {error}"));
            None
        }
    };
    let snapshot = inputs.as_ref().map(|inputs| &inputs.snapshot);
    let warnings = events::warnings(place, wrapper, snapshot, &mut notes).await;
    Ok(Gathered { one, config, queued, warnings, inputs, notes })
}

/// What is said of it at a moment.
pub(in crate::cli) fn describe(gathered: &Gathered, now: Timestamp) -> Description {
    let Gathered { one, config, queued, warnings, inputs, notes } = gathered;
    let wrapper = &*one.wrapper;
    let mut next = inputs.as_ref().map(|inputs| explain(inputs, config, now));
    let (why, remedy) = held(wrapper, queued, program()).unzip();
    if let (Some(next), Some(why)) = (&mut next, why) {
        next.standing = why;
    }
    let mut notes = notes.clone();
    if wrapper.deleting && !wrapper.is_ours() {
        // its phase says nothing of that, and what this controller would do is nothing
        next = None;
        notes.push(format!("it is {}", state(wrapper, now)));
    }
    let snapshot = inputs.as_ref().map(|inputs| &inputs.snapshot);
    let description = description(one, snapshot, next, notes);
    Description {
        uncounted_restarts: Uncounted::of(wrapper, config),
        queue: workload::standing(wrapper, queued, now),
        advice: remedy.or(description.advice),
        events: events::last(warnings, &wrapper.uid),
        usage: Ledger::of_wrapper(wrapper, now),
        ..description
    }
}

impl Uncounted {
    fn of(wrapper: &Wrapper, config: &Config) -> Self {
        let limit = config.retry_policy.max_uncounted_restarts;
        Self { used: wrapper.status.uncounted_restarts.max(0), limit: (limit > 0).then_some(limit) }
    }
}

/// What is said of an AppWrapper, but for its queue, its events and what the configuration allows.
fn description(
    one: &One,
    snapshot: Option<&Snapshot>,
    next: Option<Explanation>,
    notes: Vec<String>,
) -> Description {
    let wrapper = &*one.wrapper;
    let status = &wrapper.status;
    let components = match snapshot {
        _ if is_sent(wrapper) => wrapper.components.iter().map(sent).collect(),
        Some(snapshot) => {
            (0..snapshot.components.len()).map(|index| member(snapshot, index)).collect()
        }
        None => wrapper.components.iter().map(unseen).collect(),
    };
    Description {
        namespace: wrapper.namespace.clone(),
        name: wrapper.name.clone(),
        phase: status.phase,
        since: since(one),
        created: one.created(),
        attempt: status.attempts.last().map(|attempt| attempt.attempt),
        restarts: status.resetting_count,
        uncounted_restarts: Uncounted::default(),
        ignored_failures: status.ignored_failures.max(0),
        managed_by: wrapper.other_manager().map(str::to_owned),
        queue: None,
        components,
        usage: None,
        failure: failure(status, next.as_ref()),
        last_failure: reported(wrapper),
        next,
        advice: advice(wrapper, one.created(), program()),
        events: vec![],
        notes,
    }
}

/// Since when it is in its phase. Resuming and Running: since its attempt began.
pub(super) fn since(one: &One) -> Option<Timestamp> {
    let status = &one.wrapper.status;
    let anchors = status.since.clone().unwrap_or_default();
    let turned = |kind: &str, value: &str| {
        let found = condition::find(&status.conditions, kind)?;
        (found.status == value).then_some(found.last_transition_time.0)
    };
    match status.phase {
        Phase::Empty => one.created(),
        Phase::Suspended => turned(condition::QUOTA_RESERVED, "False").or_else(|| one.created()),
        Phase::Resuming | Phase::Running => {
            let attempt = status.attempts.last().and_then(|attempt| attempt.started_at.clone());
            attempt.or(anchors.deployed).map(|time| time.0)
        }
        Phase::Resetting | Phase::Suspending => turned(condition::DELETING_RESOURCES, "True")
            .or_else(|| anchors.deleting.or(anchors.gone).map(|time| time.0)),
        Phase::Terminating => one.deleted(),
        Phase::Succeeded => anchors
            .succeeded
            .map(|time| time.0)
            .or_else(|| turned(condition::QUOTA_RESERVED, "False")),
        Phase::Failed => {
            // once the resources are deleted, only the time of the failure itself is left
            let attempt = status.attempts.last().and_then(|attempt| attempt.failed_at.clone());
            let failed = anchors.failed.or(attempt).map(|time| time.0);
            failed.or_else(|| turned(condition::UNHEALTHY, "True"))
        }
    }
}

/// The failure that the next decision is about; else the last that is recorded, with its decision.
fn failure(status: &AppWrapperStatus, next: Option<&Explanation>) -> Option<Failure> {
    let attempts = &status.attempts;
    // pods that are starting have not failed
    let is_unhealthy = condition::is_true(&status.conditions, condition::UNHEALTHY);
    let starts = |next: &&Explanation| {
        next.reason.as_deref() == Some(condition::unhealthy::INSUFFICIENT_PODS_READY)
    };
    let next = next.filter(|next| is_unhealthy || !starts(next));
    if let Some(record) = next.and_then(|next| next.record.clone()) {
        let running = attempts.last().filter(|attempt| attempt.outcome.is_none());
        return Some(Failure {
            attempt: running.map(|attempt| attempt.attempt),
            failed_at: None,
            record,
            decision: None,
        });
    }
    let (attempt, record) = words::last_failure(attempts)?;
    Some(Failure {
        attempt: Some(attempt.attempt),
        failed_at: attempt.failed_at.as_ref().map(|time| time.0),
        record: record.clone(),
        decision: decision_of_attempt(attempt),
    })
}

/// What a worker cluster reports of its last failure; here, its attempts are not recorded.
fn reported(wrapper: &Wrapper) -> Option<Reported> {
    let conditions = is_sent(wrapper).then_some(&wrapper.status.conditions)?;
    let found = condition::find(conditions, condition::LAST_FAILURE)?;
    let (failed_at, message) = (found.last_transition_time.0, found.message.clone());
    Some(Reported { failed_at, message })
}

/// What its user can do, where it does not go on by itself.
fn advice(wrapper: &Wrapper, created: Option<Timestamp>, program: &str) -> Option<String> {
    if wrapper.deleting || !(wrapper.is_ours() || is_sent(wrapper)) {
        return None;
    }
    match wrapper.status.phase {
        Phase::Failed if is_sent(wrapper) => Some(AGAIN.to_owned()),
        _ if is_sent(wrapper) => None,
        // it may be a controller that is missing
        phase if wrapper.has_manager && phase != Phase::Empty => Some(format!("it is {COPY}")),
        Phase::Failed => Some(how_to_retry(wrapper, program)),
        Phase::Suspended if awaits_its_user(wrapper) => {
            let it = target_words(&wrapper.name, &wrapper.namespace);
            Some(format!("to resume it: {program} resume {it}"))
        }
        // a manifest is in no cluster
        Phase::Empty if created.is_some() => Some(format!(
            "if it stays in this phase, check whether a controller is running: {NO_CONTROLLER}{}",
            cluster_flags()
        )),
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending
        | Phase::Succeeded
        | Phase::Terminating => None,
    }
}

/// A component of an AppWrapper that Kueue sends to a worker cluster.
fn sent(component: &Component) -> Member {
    Member { state: CREATED_THERE.to_owned(), ..unseen(component) }
}

/// What is recorded of a component that could not be read.
fn unseen(component: &Component) -> Member {
    Member {
        kind: component.kind.clone(),
        name: component.name.clone(),
        state: "unknown".to_owned(),
    }
}

fn member(snapshot: &Snapshot, index: usize) -> Member {
    let component = &snapshot.components[index];
    let recorded = snapshot.status.component_status.get(index);
    let succeeded = recorded.is_some_and(|status| {
        condition::is_true(&status.conditions, condition::COMPONENT_SUCCEEDED)
    });
    let object = match (&component.flaw, &component.presence) {
        (Some(flaw), Presence::Present(Object { owner: Owner::Us, .. })) => {
            format!("exists; cannot be recreated: {flaw}")
        }
        (Some(flaw), _) => format!("cannot be created: {flaw}"),
        (None, Presence::Present(object)) => match (&object.owner, &object.report.outcome) {
            (owner @ (Owner::Stranger(_) | Owner::Former), _) => words::taken_by(owner),
            (Owner::Us, Outcome::Failed { reason, message, .. }) => {
                words::failed_with(reason, message)
            }
            (Owner::Us, _) if object.terminating => match object.finalizers.as_slice() {
                [] => "being deleted".to_owned(),
                finalizers => format!("being deleted, finalizers {}", finalizers.join(", ")),
            },
            (Owner::Us, Outcome::Succeeded) => "succeeded".to_owned(),
            (Owner::Us, Outcome::Active) if succeeded => "succeeded".to_owned(),
            (Owner::Us, Outcome::Active) => "exists".to_owned(),
        },
        (None, _) if succeeded => "succeeded".to_owned(),
        (None, Presence::NoKind) => "its kind is not served by the cluster".to_owned(),
        (None, Presence::Absent | Presence::Unseen) => words::later_step(snapshot, index)
            .map_or_else(
                || absent(snapshot).to_owned(),
                |step| format!("not created before {}", words::step(snapshot, step)),
            ),
    };
    let mut state = match &component.creation {
        Some(failure) => format!("{object}; could not be created: {}", failure.message),
        None => object,
    };
    let pods = snapshot.pods.iter().filter(|pod| pod.component == Some(index));
    let pods = pods_text(&pods.collect::<Vec<_>>());
    if !pods.is_empty() {
        state += &format!("; pods: {pods}");
    }
    Member { kind: component.kind.clone(), name: component.name.clone(), state }
}

/// What is said of a component that does not exist: before the first attempt, it never did.
fn absent(snapshot: &Snapshot) -> &'static str {
    let status = &snapshot.status;
    let is_new = matches!(status.phase, Phase::Empty | Phase::Suspended);
    if is_new && status.attempts.is_empty() { "not created yet" } else { "does not exist" }
}

/// How many pods are in which phase: `2 Running, 1 Failed`.
fn pods_text(pods: &[&Pod]) -> String {
    let of =
        |phase: PodPhase| pods.iter().filter(|pod| pod.phase == phase && !pod.terminating).count();
    let counts = PodPhase::ALL.map(|phase| (of(phase), phase.as_str())).into_iter();
    let ending = pods.iter().filter(|pod| pod.terminating).count();
    let counts = counts.chain([(ending, "Terminating")]).filter(|(count, _)| *count > 0);
    counts.map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
