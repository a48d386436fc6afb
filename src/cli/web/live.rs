//! A cluster as the page shows it, with the rights of the user.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::Semaphore;

use super::super::Error;
use super::super::aw::story::{Known, Story};
use super::super::cluster::unread;
use super::super::place::{Place, appwrappers};
use super::queues::{self, Queues};
use super::rows::Rows;
use crate::observe::cache::KindKey;
use crate::observe::live;
use crate::observe::raw_object::RawObject;
use crate::observe::retry_sources::{cluster_queues, local_queues};
use crate::telemetry;

/// AppWrappers of one page of a list.
const PAGE: u32 = 500;
/// Stories that are read at a time: each is about a dozen calls.
const STORIES: usize = 2;

/// A cluster.
pub(super) struct Live {
    place: Place,
    /// None for all namespaces.
    pub namespace: Option<String>,
    pub rows: Arc<Rows>,
    stories: Semaphore,
}

impl Live {
    pub(super) fn new(place: Place, all_namespaces: bool) -> Self {
        let namespace = (!all_namespaces).then(|| place.namespace.clone());
        let rows = Arc::new(Rows::default());
        Self { place, namespace, rows, stories: Semaphore::new(STORIES) }
    }

    /// Watches the AppWrappers, without end.
    pub(super) fn watch(&self) -> impl Future<Output = ()> + Send + 'static {
        let (client, resource) = (self.place.client.clone(), appwrappers());
        let api: Api<RawObject> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let rows = self.rows.clone();
        async move {
            let config = watcher::Config::default().page_size(PAGE);
            let stream = watcher(api, config).default_backoff();
            let mut chunks = std::pin::pin!(stream.ready_chunks(PAGE as usize));
            while let Some(chunk) = chunks.next().await {
                let mut events = vec![];
                for event in chunk {
                    match event {
                        Ok(event) => events.push(event),
                        Err(error) => rows.failed(telemetry::chain(&error)),
                    }
                }
                if !events.is_empty() {
                    rows.take(events);
                }
            }
        }
    }

    /// The story of an AppWrapper now.
    ///
    /// # Errors
    /// There is no such AppWrapper, it cannot be read, or the cluster does not answer.
    pub(super) async fn story(
        &self,
        namespace: &str,
        name: &str,
        now: Timestamp,
    ) -> Result<Story, Error> {
        let place = Place { client: self.place.client.clone(), namespace: namespace.to_owned() };
        // it is never closed
        let _permit = self.stories.acquire().await;
        let known = Box::pin(Known::of_cluster(&place, name)).await?;
        Ok(known.story(now))
    }

    /// The queues, and what of their quota is reserved, as far as the user may see it.
    pub(super) async fn queues(&self) -> Queues {
        let mut notes = vec![];
        let locals = self.list(local_queues(), self.namespace.as_deref(), &mut notes).await;
        let clusters = if locals.is_empty() {
            vec![]
        } else {
            self.list(cluster_queues(), None, &mut notes).await
        };
        queues::queues(&locals, &clusters, notes)
    }

    async fn list(
        &self,
        kind: KindKey,
        namespace: Option<&str>,
        notes: &mut Vec<String>,
    ) -> Vec<RawObject> {
        let client = &self.place.client;
        let listed = match live::retry_source_resource(client, &kind).await {
            Ok(resource) => live::list(client, &resource, namespace, &ListParams::default()).await,
            // without Kueue, there are none
            Err(live::Error::NoKind(_) | live::Error::NotNamespaced(_)) => return vec![],
            Err(error) => Err(error),
        };
        listed.unwrap_or_else(|error| {
            notes.push(format!("cannot list {}s: {}", kind.kind, unread(&error)));
            vec![]
        })
    }
}
