//! `appwrapper list`: one line for each AppWrapper.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use serde::Serialize;

use super::super::cluster::unread;
use super::super::ledger::resource_title;
use super::super::place::{One, Place, appwrappers, unlisted_appwrappers};
use super::super::term::{self, Page, Row, table};
use super::super::{ClusterArgs, Error, Output};
use super::multikueue::is_sent;
use super::words::{self, GAP, NOTHING};
use super::{block_on, now, object_name, tell};
use crate::api::condition::deleting;
use crate::api::{AppWrapperStatus, Phase, condition, keys};
use crate::observe::assemble::Wrapper;
use crate::observe::live;
use crate::observe::raw_object::RawObject;
use crate::printable::truncate_chars;

/// The most characters of what an AppWrapper waits for, in a table.
const STATE_CHARS_MAX: usize = 70;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Namespace; defaults to the namespace of the kubeconfig
    #[arg(short, long, value_parser = object_name)]
    namespace: Option<String>,
    /// List AppWrappers in all namespaces; overrides --namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Label selector, such as team=vision
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The AppWrappers, by namespace and name.
#[derive(Debug, Serialize)]
struct Listed {
    items: Vec<Item>,
}

/// What is said of an AppWrapper.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Item {
    namespace: String,
    name: String,
    /// None where it cannot be read.
    phase: Option<Phase>,
    queue: Option<String>,
    /// Counted restarts.
    restarts: i32,
    uncounted_restarts: i32,
    quota_reserved: bool,
    /// Extended resources that its pods request, such as GPUs, while it holds quota.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    reserved: BTreeMap<String, f64>,
    created: Option<Timestamp>,
    /// Its pods are running, or what it waits for.
    state: String,
    /// Before when it is not retried; none where it does not restart by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Timestamp>,
}

impl Item {
    /// Namespace and name.
    pub(in crate::cli) fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// Counted restarts; the uncounted ones behind them, where there are any.
    fn counted(&self) -> String {
        match self.uncounted_restarts {
            0 => self.restarts.to_string(),
            more => format!("{} (+{more})", self.restarts),
        }
    }

    /// Kueue has admitted it, and it holds the quota: without a queue, the condition only says that resources may exist.
    const fn holds_quota(&self) -> bool {
        self.quota_reserved && self.queue.is_some()
    }
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Error> {
    let (seen, place) = block_on(async {
        let Place { client, namespace } =
            Place::of(&args.cluster, args.namespace.as_deref()).await?;
        let namespace = (!args.all_namespaces).then_some(namespace);
        let mut params = ListParams::default();
        params.label_selector.clone_from(&args.selector);
        let listed = live::list(&client, &appwrappers(), namespace.as_deref(), &params).await;
        let listed = listed.map_err(|error| match error.code() {
            // nothing else of the question is the user's own
            Some(400) => Error::Usage(format!("--selector: {}", unread(&error))),
            _ => unlisted_appwrappers(&error),
        });
        Ok((listed?, namespace))
    })?;
    let now = now();
    let mut items: Vec<Item> = match args.output {
        Output::Text => seen.iter().map(|seen| item(seen, now)).collect(),
        Output::Json => seen.iter().map(|seen| item_with(seen, usize::MAX, now)).collect(),
    };
    items.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let listed = Listed { items };
    if listed.items.is_empty() && args.output == Output::Text {
        let place = place.as_ref().map(|name| format!(" in namespace {name}")).unwrap_or_default();
        term::remark(&format!("no AppWrappers found{place}"));
        return Ok(super::DONE);
    }
    let colours = term::has_colour();
    tell(args.output, &listed, || text(&listed.items, args.all_namespaces, now, colours))
}

/// With a state that fits into a table.
pub(in crate::cli) fn item(seen: &RawObject, now: Timestamp) -> Item {
    item_with(seen, STATE_CHARS_MAX, now)
}

/// With at most so many characters of its state.
fn item_with(seen: &RawObject, state_chars_max: usize, now: Timestamp) -> Item {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let named = Item {
        namespace: text(&seen.meta.namespace),
        name: text(&seen.meta.name),
        created: seen.meta.creation_timestamp.as_ref().map(|time| time.0),
        ..Item::default()
    };
    match One::of(seen.clone()) {
        Ok(One { wrapper, .. }) => Item {
            phase: (!has_odd_phase(&wrapper)).then_some(wrapper.status.phase),
            queue: wrapper.queue.clone(),
            restarts: wrapper.status.resetting_count,
            uncounted_restarts: wrapper.status.uncounted_restarts.max(0),
            quota_reserved: condition::is_true(
                &wrapper.status.conditions,
                condition::QUOTA_RESERVED,
            ),
            reserved: reserved(&wrapper),
            retry_after: wrapper
                .status
                .retry_after
                .as_ref()
                .filter(|_| restarts_by_itself(&wrapper))
                .map(|time| time.0),
            state: truncate_chars(&state(&wrapper, now), state_chars_max).into_owned(),
            ..named
        },
        Err(flaw) => Item { state: format!("cannot be read: {flaw}"), ..named },
    }
}

/// The extended resources, which have a domain in their name, of one that holds quota: see [`Item::holds_quota`].
fn reserved(wrapper: &Wrapper) -> BTreeMap<String, f64> {
    let has_quota = condition::is_true(&wrapper.status.conditions, condition::QUOTA_RESERVED);
    if !has_quota || wrapper.queue.is_none() {
        return BTreeMap::new();
    }
    wrapper.requested().into_iter().filter(|(name, _)| name.contains('/')).collect()
}

/// Whether its phase is none that this version knows, or cannot be true.
fn has_odd_phase(wrapper: &Wrapper) -> bool {
    wrapper.flaws.stored.contains_key("phase")
}

/// Its pods are running, or what it waits for, in a few words.
pub(in crate::cli) fn state(wrapper: &Wrapper, now: Timestamp) -> String {
    if wrapper.deleting && !wrapper.is_ours() {
        return being_deleted(wrapper);
    }
    if let Some(manager) = wrapper.other_manager().filter(|_| !is_sent(wrapper)) {
        return format!("managed by {manager}");
    }
    if has_odd_phase(wrapper) {
        return format!("cannot be read: {}", wrapper.flaws.named.join("; "));
    }
    if is_sent(wrapper) {
        return sent(wrapper);
    }
    let status = &wrapper.status;
    match status.phase {
        Phase::Empty => "waiting for the controller".to_owned(),
        Phase::Resetting if is_deleting(status) && is_being_suspended(wrapper) => {
            let waits = deletion(status, "waiting until its resources are deleted");
            format!("being suspended; {waits}")
        }
        Phase::Suspended | Phase::Resetting if wrapper.is_inactive() => {
            "suspended by its annotation active".to_owned()
        }
        Phase::Suspended | Phase::Resetting if status.requeue.is_some() => {
            deletion(status, "returning to its queue")
        }
        Phase::Suspended => match (pause(wrapper, now), &wrapper.queue) {
            (Some(pause), _) if !wrapper.spec.suspend => pause,
            (_, Some(queue)) => format!("waiting for admission by queue {queue}"),
            (_, None) => "suspended by spec.suspend".to_owned(),
        },
        Phase::Resuming => {
            unhealthy(wrapper).unwrap_or_else(|| "creating its components".to_owned())
        }
        Phase::Running => running(wrapper),
        Phase::Resetting if is_deleting(status) => {
            deletion(status, "waiting until resources of its last attempt are deleted")
        }
        Phase::Resetting => {
            pause(wrapper, now).unwrap_or_else(|| "pausing before its next attempt".to_owned())
        }
        Phase::Terminating if is_kept_by_others(wrapper) => {
            format!("waiting for finalizers: {}", wrapper.finalizers.join(", "))
        }
        Phase::Suspending | Phase::Terminating => {
            deletion(status, "waiting until all its resources are deleted")
        }
        Phase::Succeeded => deletion(status, NOTHING),
        Phase::Failed => match (failed(wrapper), deletion(status, "")) {
            (why, waits) if waits.is_empty() => why,
            (why, waits) if why == NOTHING => waits,
            (why, waits) => format!("{why}; {waits}"),
        },
    }
}

/// What it waits for whose Workload is not active.
pub(in crate::cli) const DEACTIVATED: &str =
    "deactivated: not admitted until its Workload is active again";

/// Whether it is Kueue that keeps it suspended.
pub(in crate::cli) fn awaits_admission(wrapper: &Wrapper) -> bool {
    let status = &wrapper.status;
    let is_waiting = status.phase == Phase::Suspended && status.requeue.is_none();
    let is_held = is_waiting && wrapper.queue.is_some() && wrapper.spec.suspend;
    is_held && wrapper.is_ours() && !wrapper.is_inactive()
}

/// The delay before its next attempt, until it is over.
fn pause(wrapper: &Wrapper, now: Timestamp) -> Option<String> {
    let after = wrapper.status.retry_after.as_ref().filter(|after| after.0 > now)?;
    Some(format!("restarting in {}", words::rounded(after.0.as_second() - now.as_second())))
}

/// Only finalizers of others keep it: the controller has deleted its resources.
fn is_kept_by_others(wrapper: &Wrapper) -> bool {
    let is_ours = |name: &String| name == keys::FINALIZER;
    !wrapper.finalizers.is_empty() && !wrapper.finalizers.iter().any(is_ours)
}

/// Resources of its last attempt exist.
fn is_deleting(status: &AppWrapperStatus) -> bool {
    let is_gone = status.since.as_ref().is_some_and(|since| since.gone.is_some());
    status.phase == Phase::Resetting && !is_gone
}

/// What it waits for while its resources are deleted: what blocks the deletion, once the controller has named it.
fn deletion(status: &AppWrapperStatus, otherwise: &str) -> String {
    let found = condition::find(&status.conditions, condition::DELETING_RESOURCES);
    let named = found.filter(|found| found.status == "True").and_then(|found| {
        Some((found.reason.as_str(), found.message.strip_prefix("Waiting for ")?))
    });
    match named {
        // they are not deleted
        Some((deleting::UNDETERMINED, pods)) => format!("waiting for {pods}"),
        Some((_, blockers)) => format!("waiting for the deletion of {blockers}"),
        None => otherwise.to_owned(),
    }
}

/// Whether it begins its next attempt when the pause before it is over, as [`state`] has it.
fn restarts_by_itself(wrapper: &Wrapper) -> bool {
    let status = &wrapper.status;
    let is_requeued = status.requeue.is_some();
    let is_held = is_requeued || status.phase == Phase::Suspended && wrapper.spec.suspend;
    wrapper.is_ours() && !wrapper.is_inactive() && !is_held && !is_deleting(status)
}

/// It is being suspended, by its user or by Kueue.
fn is_being_suspended(wrapper: &Wrapper) -> bool {
    wrapper.is_inactive() || wrapper.spec.suspend
}

/// What keeps one that another controller manages: its phase says nothing of its deletion.
fn being_deleted(wrapper: &Wrapper) -> String {
    match wrapper.finalizers.as_slice() {
        [] => "being deleted".to_owned(),
        all => format!("being deleted; waiting for finalizers: {}", all.join(", ")),
    }
}

/// The state of one that runs in a worker cluster, as far as Kueue copies its status.
fn sent(wrapper: &Wrapper) -> String {
    match wrapper.status.phase {
        Phase::Empty | Phase::Suspended => match &wrapper.queue {
            Some(queue) => format!("waiting for admission by queue {queue}"),
            None => "waiting for admission".to_owned(),
        },
        Phase::Resuming => unhealthy(wrapper)
            .unwrap_or_else(|| "creating its components in the worker cluster".to_owned()),
        Phase::Running => running(wrapper),
        Phase::Resetting => "waiting for its next attempt in the worker cluster".to_owned(),
        Phase::Suspending | Phase::Terminating => {
            "waiting until its resources in the worker cluster are deleted".to_owned()
        }
        Phase::Succeeded => NOTHING.to_owned(),
        Phase::Failed => {
            let reported = condition::find(&wrapper.status.conditions, condition::LAST_FAILURE);
            let reported = reported.map(|found| found.message.clone());
            reported.filter(|said| !said.is_empty()).unwrap_or_else(|| failed(wrapper))
        }
    }
}

fn running(wrapper: &Wrapper) -> String {
    let place = if is_sent(wrapper) { " in the worker cluster" } else { "" };
    let conditions = &wrapper.status.conditions;
    if let Some(what) = unhealthy(wrapper).or_else(|| over_quota(wrapper)) {
        return what;
    }
    match condition::find(conditions, condition::PODS_READY) {
        Some(ready) if ready.status == "True" => match awaited(wrapper) {
            Some(step) => format!("pods running{place}; {step} not created yet"),
            None if has_succeeded(wrapper) => "succeeded; waiting until no pod runs".to_owned(),
            None => format!("pods running{place}"),
        },
        Some(ready) if ready.reason == condition::unhealthy::INSUFFICIENT_PODS_READY => {
            format!("waiting for its pods{place}: {}", ready.message)
        }
        Some(_) | None => format!("waiting for its pods{place}"),
    }
}

/// Whether every component with pods has succeeded.
fn has_succeeded(wrapper: &Wrapper) -> bool {
    let recorded = &wrapper.status.component_status;
    let mut with_pods =
        recorded.iter().filter(|component| !component.pod_sets.is_empty()).peekable();
    let kind = condition::COMPONENT_SUCCEEDED;
    with_pods.peek().is_some()
        && with_pods.all(|component| condition::is_true(&component.conditions, kind))
}

/// The first step of `executionPolicy` that has not begun.
fn awaited(wrapper: &Wrapper) -> Option<String> {
    wrapper.spec.execution_policy.as_ref()?;
    let snapshot = wrapper.snapshot();
    let all = (0..wrapper.components.len()).filter_map(|index| words::later_step(&snapshot, index));
    all.min().map(|step| words::step(&snapshot, step))
}

/// What is wrong, where something is.
fn unhealthy(wrapper: &Wrapper) -> Option<String> {
    let unhealthy = condition::find(&wrapper.status.conditions, condition::UNHEALTHY)?;
    (unhealthy.status == "True").then(|| format!("{}: {}", unhealthy.reason, unhealthy.message))
}

/// Which pods are too many, where some are.
fn over_quota(wrapper: &Wrapper) -> Option<String> {
    let over = condition::find(&wrapper.status.conditions, condition::PODS_OVER_QUOTA)?;
    (over.status == "True").then(|| format!("{}: {}", over.type_, over.message))
}

/// Why it failed: the first cause, where it is recorded.
fn failed(wrapper: &Wrapper) -> String {
    let recorded = words::last_failure(&wrapper.status.attempts);
    let cause = recorded.map(|(_, failure)| words::short_cause(failure));
    cause
        .filter(|cause| !cause.is_empty())
        .or_else(|| unhealthy(wrapper))
        .unwrap_or_else(|| NOTHING.to_owned())
}

const TITLES: [&str; 8] =
    ["NAMESPACE", "NAME", "PHASE", "QUEUE", "RESTARTS", "QUOTA", "STATE", "AGE"];
/// Before which of them the column of an extended resource is.
const RESOURCE_AT: usize = 6;

/// The extended resource of which AppWrappers of the most namespaces hold quota, since a user of one of them chooses any names;
/// of several, that of the most AppWrappers, and the first by name.
fn most_held(items: &[Item]) -> Option<&str> {
    let mut holders: BTreeMap<&str, (BTreeSet<&str>, usize)> = BTreeMap::new();
    for item in items {
        for name in item.reserved.keys() {
            let (namespaces, count) = holders.entry(name.as_str()).or_default();
            namespaces.insert(item.namespace.as_str());
            *count += 1;
        }
    }
    // of equal ones, the last counts
    let by_name = holders.into_iter().rev();
    let most = by_name.max_by_key(|(_, (namespaces, count))| (namespaces.len(), *count));
    most.map(|(name, _)| name)
}

fn text(items: &[Item], namespaces: bool, now: Timestamp, colours: bool) -> Page {
    let first = usize::from(!namespaces);
    let resource = most_held(items);
    let rows: Vec<Row> = items
        .iter()
        .map(|item| {
            let dash = || NOTHING.to_owned();
            let mut cells = vec![
                item.namespace.clone(),
                item.name.clone(),
                item.phase.map_or("(unreadable)", words::phase).to_owned(),
                item.queue.clone().unwrap_or_else(dash),
                item.counted(),
                if item.holds_quota() { "reserved".to_owned() } else { dash() },
                item.state.clone(),
                words::age(item.created, now),
            ];
            if let Some(resource) = resource {
                let held = item.reserved.get(resource);
                cells.insert(RESOURCE_AT, held.map_or_else(dash, f64::to_string));
            }
            (cells[first..].to_vec(), item.phase.and_then(words::colour))
        })
        .collect();
    let title = resource.map(resource_title);
    let mut titles = TITLES.to_vec();
    if let Some(title) = &title {
        titles.insert(RESOURCE_AT, title);
    }
    table((&titles[first..], None), &rows, GAP, colours)
}

#[cfg(test)]
mod tests;
