//! The same inputs, read from a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, stream};
use kube::Client;
use kube::api::ListParams;
use kube::core::ApiResource;

use super::super::Error;
use super::super::cluster::{said, unlisted, unread};
use super::super::configuration::ControllerConfig;
use super::super::place::{Place, get};
use super::{Args, ExplainInputs, retry_sources, world};
use crate::config::Config;
use crate::observe::assemble::Wrapper;
use crate::observe::cache::Cache;
use crate::observe::live::{self, Live};
use crate::observe::memory::ReconcileState;
use crate::observe::nodes;
use crate::observe::pod_lists::PodLists;
use crate::observe::raw_object::RawObject;
use crate::observe::{self, Sources, workload};
use crate::plan::FreshRead;
use crate::snapshot::workload::WorkloadRead;
use crate::snapshot::{Pod, Snapshot};

/// The most nodes that are read by name where the cluster has more than a page of them; all pages cost less than more calls.
const NODES_BY_NAME_MAX: usize = 50;
/// How many of them are read at once.
const READS_AT_ONCE: usize = 8;

/// Reads an AppWrapper and the objects around it from a cluster.
///
/// # Errors
/// There is no such AppWrapper, it cannot be read, or the cluster does not answer.
pub(super) fn inputs(args: &Args, name: &str) -> Result<(ExplainInputs, Config), Error> {
    super::super::block_on(async {
        let place = Place::of(&args.cluster, args.namespace.as_deref()).await?;
        let ControllerConfig { config, doubt } =
            ControllerConfig::of(args.config.as_deref(), &place.client).await?;
        let one = place.one(name).await?;
        let mut inputs = around(&place.client, &one.wrapper, &config).await?;
        inputs.notes.extend(doubt);
        Ok((inputs, config))
    })
}

/// Reads the objects around an AppWrapper.
///
/// # Errors
/// The cluster cannot be reached, or does not answer.
pub(in crate::cli) async fn around(
    client: &Client,
    wrapper: &Wrapper,
    config: &Config,
) -> Result<ExplainInputs, Error> {
    let (kinds, cache, lists) = (Live::default(), Cache::default(), PodLists::default());
    let sources = Sources { client, live: &kinds, cache: &cache, lists: &lists };
    // everything is read from the API server itself: there is no cache to start from
    let mut memory = ReconcileState::default();
    let attach = world::attach(wrapper, config);
    let collected = retry_sources::collect(client, wrapper, &attach, &cache).await?;
    let (mut notes, unread) = (collected.notes, collected.unread);
    let (ask, autopilot) = (FreshRead::Gone, &config.autopilot);
    let mut snapshot = observe::observe(sources, wrapper, &mut memory, ask, &attach, autopilot)
        .await
        .map_err(|error| unlisted(&error))?;
    if unread.is_empty() {
        // no watch has listed them, but all that may apply were read
        observe::retry_sources::fill(&mut snapshot, wrapper, &cache, &attach, autopilot);
    }
    let are_many = nodes_of_pods(&snapshot).len() > NODES_BY_NAME_MAX;
    notes.extend(if snapshot.retry.may_avoid_nodes() || are_many {
        sites(client, &mut snapshot, config).await
    } else {
        of_pods(client, &mut snapshot, config).await
    });
    if config.autopilot.monitor_nodes {
        snapshot.mark_failed_pods();
    } else {
        snapshot.nodes.values_mut().for_each(|node| node.lost = None);
    }
    // which pods are lost was not known before
    observe::retry_sources::fill_templates(&mut snapshot, wrapper, autopilot);
    notes.extend(of_kueue(client, &kinds, wrapper, &mut snapshot).await);
    let mut inputs = world::of(wrapper, snapshot);
    inputs.notes.extend(notes);
    inputs.unread = unread;
    Ok(inputs)
}

/// Reads the Workload, where the decision may depend on it.
async fn of_kueue(
    client: &Client,
    kinds: &Live,
    wrapper: &Wrapper,
    snapshot: &mut Snapshot,
) -> Option<String> {
    let of_node = snapshot.is_queued() && snapshot.pods.iter().any(Pod::died_of_node);
    if wrapper.status.requeue.is_none() && !wrapper.is_inactive() && !of_node {
        return None;
    }
    let read = workload::read(client, kinds, wrapper).await;
    snapshot.workload = read.unwrap_or_else(|error| WorkloadRead::Refused(error.to_string()));
    world::assume_replacement(snapshot);
    match &snapshot.workload {
        WorkloadRead::Refused(why) if of_node => {
            Some(format!("cannot tell whether Kueue replaces the failed node: {why}"))
        }
        WorkloadRead::NotRead
        | WorkloadRead::Refused(_)
        | WorkloadRead::Absent
        | WorkloadRead::Found(_) => None,
    }
}

/// The names of the nodes of its pods.
fn nodes_of_pods(snapshot: &Snapshot) -> BTreeSet<String> {
    snapshot.pods.iter().filter_map(|pod| pod.node.clone()).collect()
}

/// Reads all nodes, where a retry may have to avoid one, or where the pods are on many.
async fn sites(client: &Client, snapshot: &mut Snapshot, config: &Config) -> Option<String> {
    let marks = nodes::marks(&config.autopilot);
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    let listed = match live::list(client, &resource, None, &ListParams::default()).await {
        Ok(listed) => listed,
        Err(error) => return Some(unseen(&unread(&error))),
    };
    let (names, all) = (nodes_of_pods(snapshot), snapshot.retry.may_avoid_nodes());
    for seen in listed {
        let (node, site) = nodes::node(&seen, &marks);
        if all || names.contains(&site.name) {
            snapshot.nodes.insert(site.name.clone(), node);
        }
        if all {
            snapshot.sites.push(Arc::new(site));
        }
    }
    for name in names {
        snapshot.nodes.entry(name).or_insert_with(nodes::deleted);
    }
    None
}

fn unseen(why: &str) -> String {
    format!("cannot read nodes: {why}")
}

/// Reads the nodes of the pods: one by its name, several from the first page of all nodes, and by name what is not there.
/// Who may not see nodes is told so, and they are unknown.
async fn of_pods(client: &Client, snapshot: &mut Snapshot, config: &Config) -> Option<String> {
    let marks = nodes::marks(&config.autopilot);
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    let mut names = nodes_of_pods(snapshot);
    if names.len() > 1 {
        let all = ListParams::default();
        let (page, is_all) = match live::first_page(client, &resource, None, &all).await {
            Ok(page) => page,
            Err(error) => return Some(unseen(&unread(&error))),
        };
        for (node, site) in page.iter().map(|seen| nodes::node(seen, &marks)) {
            if names.remove(&site.name) {
                snapshot.nodes.insert(site.name, node);
            }
        }
        if is_all {
            snapshot.nodes.extend(
                std::mem::take(&mut names).into_iter().map(|name| (name, nodes::deleted())),
            );
        }
    }
    let reads: Vec<_> = names.into_iter().map(|name| named(client, &resource, name)).collect();
    let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
    while let Some((name, read)) = reads.next().await {
        match read {
            Ok(seen) => drop(snapshot.nodes.insert(name, nodes::node(&seen, &marks).0)),
            Err(error) if live::code(&error) == Some(404) => {
                drop(snapshot.nodes.insert(name, nodes::deleted()));
            }
            Err(error) => return Some(unseen(&said(&error))),
        }
    }
    None
}

/// A node, with its name.
async fn named(
    client: &Client,
    resource: &ApiResource,
    name: String,
) -> (String, Result<RawObject, kube::Error>) {
    let read = get(client, resource, None, &name).await;
    (name, read)
}
