//! A cluster as the page shows it, with the permissions of the user.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event};
use tokio::sync::Semaphore;

use super::super::Error;
use super::super::aw::story::{Story, StoryInputs};
use super::super::aw::watch::relist;
use super::super::cluster::unread;
use super::super::place::{Place, appwrappers};
use super::queues::{self, Queues};
use super::rows::Rows;
use crate::observe::cache::KindKey;
use crate::observe::live;
use crate::observe::raw_object::RawObject;
use crate::observe::retry_sources::{cluster_queues, local_queues};

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
            keep(&rows, relist::watch(api, config)).await;
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
        let inputs = Box::pin(StoryInputs::of_cluster(&place, name)).await?;
        Ok(inputs.story(now))
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
        kind: &KindKey,
        namespace: Option<&str>,
        notes: &mut Vec<String>,
    ) -> Vec<RawObject> {
        let client = &self.place.client;
        let listed = match live::retry_source_resource(client, kind).await {
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

/// Takes over what a watch shows, to its end.
async fn keep(rows: &Rows, events: impl Stream<Item = watcher::Result<Event<RawObject>>>) {
    let mut chunks = std::pin::pin!(events.ready_chunks(PAGE as usize));
    while let Some(chunk) = chunks.next().await {
        let (mut seen, mut problem) = (vec![], None);
        for event in chunk {
            match event {
                Ok(event) => seen.push(event),
                // the last of its chunk: a pause follows
                Err(error) => problem = relist::problem("AppWrappers", error),
            }
        }
        if !seen.is_empty() {
            rows.take(seen);
        }
        if let Some(problem) = problem {
            rows.failed(problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use kube::core::Status;

    use super::*;

    #[tokio::test]
    async fn a_watch_that_fails_after_its_list_is_a_problem_unless_it_only_lists_again() {
        for (code, message, problem) in [
            (
                403,
                "appwrappers is forbidden",
                Some("cannot watch AppWrappers: appwrappers is forbidden"),
            ),
            (410, "too old resource version: 1 (2)", None),
        ] {
            let status = Status::failure(message, "").with_code(code).boxed();
            let error = watcher::Error::WatchStartFailed(kube::Error::Api(status));
            let rows = Rows::default();
            let events = vec![Ok(Event::Init), Ok(Event::InitDone), Err(error)];
            keep(&rows, stream::iter(events)).await;
            let now = rows.follow().0;
            assert_eq!((now.complete, now.problem.as_deref()), (true, problem));
        }
    }
}
