//! The retry policies and queues that have a say in an AppWrapper's retries, read from a cluster.

use kube::Client;

use super::super::Error;
use super::super::cluster::{said, unanswered};
use super::super::place::{get, served};
use crate::observe::assemble::Wrapper;
use crate::observe::cache::{Cache, Key, KindKey};
use crate::observe::live;
use crate::observe::raw_object::RawObject;
use crate::observe::retry_sources::{self, Attach, RetrySource};
use crate::policies::attached;

/// What was read.
pub(in crate::cli) struct Collected {
    /// The objects themselves, with their kinds.
    pub objects: Vec<(KindKey, RawObject)>,
    /// About those that could not be read.
    pub notes: Vec<String>,
    /// Those of the notes without which it is not known which RetryPolicies apply.
    pub unread: Vec<String>,
}

/// Reads these objects into the cache.
///
/// # Errors
/// The cluster does not answer.
pub(in crate::cli) async fn collect(
    client: &Client,
    wrapper: &Wrapper,
    attach: &Attach,
    cache: &Cache,
) -> Result<Collected, Error> {
    let found = Collected { objects: vec![], notes: vec![], unread: vec![] };
    let mut reader = Reader { client, cache, found };
    let (mut of_local, mut of_cluster) = (None, None);
    if let Some(queue) = &wrapper.queue {
        let at = Key { namespace: wrapper.namespace.clone(), name: queue.clone() };
        let local = reader.read(retry_sources::local_queues(), at).await?;
        if let Some(RetrySource::LocalQueue { cluster_queue, policies }) = local {
            of_local = policies;
            let at = Key { namespace: String::new(), name: cluster_queue };
            let cluster = reader.read(retry_sources::cluster_queues(), at).await?;
            if let Some(RetrySource::ClusterQueue { policies }) = cluster {
                of_cluster = policies;
            }
        }
    }
    if let Some(default) = &attach.default {
        let at = Key { namespace: String::new(), name: default.clone() };
        reader.read(retry_sources::retry_policies(), at).await?; // whether it overrides
    }
    let default = retry_sources::default_policy(cache, attach);
    let names = attached(of_cluster.as_deref(), of_local.as_deref(), &attach.own, default);
    for name in names {
        let at = Key { namespace: String::new(), name };
        reader.read(retry_sources::retry_policies(), at).await?;
    }
    Ok(reader.found)
}

impl Collected {
    fn forbidden(&mut self, kind: &KindKey, name: &str, why: &str) {
        let mut note = format!("cannot read {} {name}: {why}", kind.kind);
        // most users may not read a ClusterQueue, and few attach a policy: a note is enough
        if kind == retry_sources::cluster_queues() {
            note += "; RetryPolicies attached to it are not considered";
        } else {
            self.unread.push(note.clone());
        }
        self.notes.push(note);
    }
}

struct Reader<'a> {
    client: &'a Client,
    cache: &'a Cache,
    found: Collected,
}

impl Reader<'_> {
    /// Reads a retry source, where there is one. Who may not read it is told so.
    async fn read(&mut self, kind: &KindKey, at: Key) -> Result<Option<RetrySource>, Error> {
        let namespace = Some(at.namespace.as_str()).filter(|name| !name.is_empty());
        for resource in served(kind) {
            match get(self.client, &resource, namespace, &at.name).await {
                Ok(seen) => {
                    let retry_source = RetrySource::of(&seen, kind);
                    self.cache.put_retry_source(kind, at, retry_source.clone());
                    let kind = KindKey { api_version: resource.api_version, kind: resource.kind };
                    self.found.objects.push((kind, seen));
                    return Ok(Some(retry_source));
                }
                // there is none, or this version is not served
                Err(error) if live::code(&error) == Some(404) => {}
                Err(error) if live::code(&error) == Some(403) => {
                    self.found.forbidden(kind, &at.name, &said(&error));
                    return Ok(None);
                }
                Err(error) => return Err(unanswered(&error)),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_policy_or_a_queue_of_the_namespace_the_policies_are_not_known() {
        let mut found = Collected { objects: vec![], notes: vec![], unread: vec![] };
        found.forbidden(retry_sources::cluster_queues(), "all", "no");
        let note =
            "cannot read ClusterQueue all: no; RetryPolicies attached to it are not considered";
        assert_eq!((found.notes.as_slice(), found.unread.len()), (&[note.to_owned()][..], 0));
        found.forbidden(retry_sources::local_queues(), "gpu", "no");
        found.forbidden(retry_sources::retry_policies(), "infra", "no");
        let want = ["cannot read LocalQueue gpu: no", "cannot read RetryPolicy infra: no"];
        assert_eq!(found.unread, want);
        assert_eq!(found.notes[1..], want);
    }
}
