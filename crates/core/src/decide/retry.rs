//! How the next attempt differs from the last: counts, delay, the node that is avoided, more memory.
//! Source: Armada retry policies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::draft::Draft;
use super::policy::Retry;
use super::problem::Problem;
use crate::api::{AppWrapperStatus, PendingMemory, RetryCount};
use crate::mutations::{self, Mutation};
use crate::policies::MemoryGrowth;
use crate::price::{CONTAINERS_MAX, RETRY_COUNTS_MAX};
use crate::quantity::Bytes;
use crate::snapshot::{Component, ContainerMemory, Pod, PodTemplate, Snapshot};
use crate::suspicion::room;
use crate::tuning::Period;

/// What is said while memory is written into the templates.
pub const GROWING: &str = "Writing the memory of the next attempt to the templates";

/// Writes down how the next attempt is made. What an earlier retry asked for holds no more.
pub fn prepare(draft: &mut Draft<'_>, problem: &Problem<'_>, retry: Option<&Retry>, counted: bool) {
    draft.status.retry_after = None;
    draft.status.avoid_nodes.clear();
    draft.status.pending_memory.clear();
    let Some(retry) = retry else { return };
    if counted {
        count(&mut draft.status.retry_counts, retry);
    }
    if let Some(delay) = retry.delay.filter(|_| !mutations::is_present(Mutation::BackoffForgotten))
    {
        let until = Period::from_duration(delay).after(problem.failed_at);
        draft.status.retry_after = Some(Time(until));
    }
    if retry.avoid_node {
        avoid_node(draft, problem);
    }
    if let (Some(growth), Some(pod)) = (retry.memory, problem.pod) {
        draft.status.pending_memory = grown(draft.facts.snapshot, pod, growth);
        stay_as_sent(draft);
        if let Some(why) = template_of(draft.facts.snapshot, pod).and_then(|it| it.memory_stays) {
            warn_not_grown(draft, why);
        }
    }
}

/// How much memory the next attempt has: ` with memory 4Gi (container main)`; nothing where none grows.
pub fn growth(status: &AppWrapperStatus) -> String {
    let Some(first) = status.pending_memory.first() else { return String::new() };
    let amount = first.limit.as_deref().or(first.request.as_deref()).unwrap_or_default();
    let more = match status.pending_memory.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(" with memory {amount} (container {}{more})", first.container)
}

/// Where MultiKueue created the AppWrapper, or it names its Workload, nothing grows: Kueue finishes such a Workload as
/// `OutOfSync` if the pod templates change, and does not create another.
fn stay_as_sent(draft: &mut Draft<'_>) {
    let snapshot = draft.facts.snapshot;
    let why = if snapshot.has_manager {
        "with MultiKueue, pod templates cannot change in the worker cluster"
    } else if snapshot.is_prebuilt && snapshot.queue_managed {
        "if pod templates change, Kueue finishes a prebuilt Workload and does not create another"
    } else {
        return;
    };
    if !draft.status.pending_memory.is_empty() {
        draft.status.pending_memory.clear();
        warn_not_grown(draft, why);
    }
}

fn warn_not_grown(draft: &mut Draft<'_>, why: &str) {
    draft.warn("MemoryNotGrown", format!("The memory is unchanged for the retry: {why}"));
}

/// Counts one use of a rule. Where no more rules can be counted, the one that was used least is forgotten, the oldest of
/// them.
pub fn count(counts: &mut Vec<RetryCount>, retry: &Retry) {
    let (policy, rule) = (&retry.policy, &retry.rule);
    let same = |entry: &&mut RetryCount| entry.policy == *policy && entry.rule == *rule;
    if let Some(entry) = counts.iter_mut().find(same) {
        entry.count = entry.count.max(0).saturating_add(1);
    } else {
        while counts.len() >= RETRY_COUNTS_MAX {
            let least = (0..counts.len()).min_by_key(|index| counts[*index].count).unwrap_or(0);
            counts.remove(least);
        }
        counts.push(RetryCount { policy: policy.clone(), rule: rule.clone(), count: 1 });
    }
}

/// Avoids the node of the first cause, if the pods have room elsewhere.
fn avoid_node(draft: &mut Draft<'_>, problem: &Problem<'_>) {
    let snapshot = draft.facts.snapshot;
    let Some(node) = problem.pod.and_then(|pod| pod.node.as_ref()) else { return };
    let site = snapshot.sites.iter().find(|site| site.name == *node);
    let hostname = site.map_or(node.as_str(), |site| site.hostname());
    avoid_unless_stranded(draft, node, hostname.to_owned());
}

/// An attempt begins: a node is avoided no longer if the pods have no room on the nodes that are left since the failure.
pub fn recheck_avoided_nodes(draft: &mut Draft<'_>) {
    for hostname in std::mem::take(&mut draft.status.avoid_nodes) {
        avoid_unless_stranded(draft, &hostname.clone(), hostname);
    }
}

/// Avoids a node by its hostname, or says why not.
fn avoid_unless_stranded(draft: &mut Draft<'_>, node: &str, hostname: String) {
    let mut without = draft.status.avoid_nodes.clone();
    without.push(hostname);
    match why_not_avoided(draft.facts.snapshot, &without) {
        Some(why) => draft.warn("NodeNotAvoided", format!("Node {node} is not avoided: {why}")),
        None => draft.status.avoid_nodes = without,
    }
}

/// Why nodes of these hostnames must not all be avoided: the pods would have no room, or Kueue chooses the node of each.
/// Kueue regards the affinity of the pod template, but none that is added after the admission, and keeps the places of an
/// AppWrapper that holds its quota.
fn why_not_avoided(snapshot: &Snapshot, without: &[String]) -> Option<String> {
    let whose = |is_so: &dyn Fn(&Component) -> bool| {
        snapshot.components.iter().find(|one| is_so(one)).map(Component::title)
    };
    if let Some(title) = whose(&Component::is_assigned_by_kueue) {
        return Some(format!("Kueue assigns pods of {title} to nodes (Topology-Aware Scheduling)"));
    }
    let sites = &snapshot.sites;
    // a component without pods needs no room, also where no node is left
    let is_stranded = |one: &Component| {
        let has_pods = !one.pod_sets.is_empty();
        has_pods && !sites.is_empty() && !room(std::slice::from_ref(one), sites, without)
    };
    whose(&is_stranded).map(|title| format!("other nodes have no room for the pods of {title}"))
}

/// The template of a pod, where it is known.
fn template_of<'s>(snapshot: &'s Snapshot, pod: &Pod) -> Option<&'s PodTemplate> {
    snapshot.components.get(pod.component?)?.templates.get(pod.pod_set?)
}

/// The memory that the containers of a failed pod's pod set are to have; nothing where none grows.
fn grown(snapshot: &Snapshot, pod: &Pod, growth: MemoryGrowth) -> Vec<PendingMemory> {
    let (Some(component), Some(pod_set)) = (pod.component, pod.pod_set) else { return vec![] };
    let template = template_of(snapshot, pod);
    let grow = |amount: Bytes| grow(amount, growth);
    let mut pending = vec![];
    let containers = template.into_iter().flat_map(|template| &template.containers);
    // each is looked for in the template again
    for container in containers.take(CONTAINERS_MAX) {
        let (request, limit) = (container.request.map(grow), container.limit.map(grow));
        if (request, limit) != (container.request, container.limit) {
            pending.push(PendingMemory {
                component: i32::try_from(component).unwrap_or(i32::MAX),
                pod_set: i32::try_from(pod_set).unwrap_or(i32::MAX),
                container: container.name.clone(),
                request: request.map(|amount| amount.to_string()),
                limit: limit.map(|amount| amount.to_string()),
            });
        }
    }
    pending
}

/// Whether memory that is pending is what a retry policy in force may ask for, given what the template has:
/// by the status alone nothing grows.
pub fn is_allowed(snapshot: &Snapshot, pending: &PendingMemory) -> bool {
    let Some(container) = container_of(snapshot, pending) else { return false };
    let rules = snapshot.retry.policies.iter().flat_map(|policy| &policy.rules);
    let mut growths = rules.filter_map(|rule| rule.memory);
    let fits = |text: &Option<String>, has: Option<Bytes>, growth: &MemoryGrowth| match (text, has)
    {
        (None, None) => true,
        (Some(text), Some(has)) => {
            text.parse().is_ok_and(|wanted: Bytes| has <= wanted && wanted <= grow(has, *growth))
        }
        (None, Some(_)) | (Some(_), None) => false,
    };
    is_written(snapshot, pending)
        || growths.any(|growth| {
            fits(&pending.request, container.request, &growth)
                && fits(&pending.limit, container.limit, &growth)
        })
}

fn grow(amount: Bytes, growth: MemoryGrowth) -> Bytes {
    let most = growth.max.unwrap_or(Bytes(u64::MAX));
    amount.times(growth.factor).min(most.max(amount))
}

fn container_of<'s>(
    snapshot: &'s Snapshot,
    pending: &PendingMemory,
) -> Option<&'s ContainerMemory> {
    let index = |number: i32| usize::try_from(number).unwrap_or(usize::MAX);
    let component = snapshot.components.get(index(pending.component));
    let template = component.and_then(|one| one.templates.get(index(pending.pod_set)));
    let mut containers = template.into_iter().flat_map(|template| &template.containers);
    containers.find(|container| container.name == pending.container)
}

/// Whether memory is to be written into the templates now. What the API server refused is given up; and until the retry
/// policies are listed it is not known whether one of them asks for it.
pub fn is_growth_due(draft: &Draft<'_>) -> bool {
    let snapshot = draft.facts.snapshot;
    let pending = &draft.facts.snapshot.status.pending_memory;
    snapshot.growth_refused.is_none()
        && !snapshot.retry.unlisted
        && !mutations::is_present(Mutation::GrowthForgotten)
        && pending.iter().any(|one| !is_written(snapshot, one))
}

/// Whether the templates show it; what has no place in them never will, and counts as written.
fn is_written(snapshot: &Snapshot, pending: &PendingMemory) -> bool {
    let found = container_of(snapshot, pending);
    let same = |text: &Option<String>, amount: Option<Bytes>| {
        text.as_ref().and_then(|text| text.parse().ok()) == amount
    };
    found.is_none_or(|container| {
        same(&pending.request, container.request) && same(&pending.limit, container.limit)
    })
}

/// The growth is done, or was refused: it is pending no more. It stays so until the retry policies are listed: nothing is
/// created before that.
pub fn end_growth(draft: &mut Draft<'_>) {
    if draft.status.pending_memory.is_empty() || draft.facts.snapshot.retry.unlisted {
        return;
    }
    draft.status.pending_memory.clear();
    if let Some(why) = &draft.facts.snapshot.growth_refused {
        warn_not_grown(draft, why);
    }
}
