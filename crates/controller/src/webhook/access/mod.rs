//! Whether the components may be wrapped: by kind, by requester, by controller.
//!
//! ```text
//! templates ─▶ kinds ─▶ discovery ─▶ resource, scope, verbs ─┬─▶ SubjectAccessReview (requester)
//!                                                            └─▶ SelfSubjectAccessReview (controller)
//! ```
//!
//! The scope is that of discovery, never the template's: a review with a namespace about a resource
//! that has none would be answered by the rights in that namespace.
//!
//! Results are cached for a short time, within bounds, so that a burst of AppWrappers of one user costs a
//! few reviews. A right that is revoked may still be found for that long. Missing kinds and failed requests
//! are not cached: a definition that was installed a moment ago is found.

mod named;
pub mod review;
pub mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::Client;

use self::review::Access;
pub use self::review::own_account;
use self::rules::Target;
use super::Identity;
use super::authorize::{AccessError, Authorize, Named, Wrapped};
use super::validate::Finding;
use crate::clock::Clock;
use crate::discovery;
use crate::kinds::Reference;
use crate::telemetry;
use crate::ttl_cache::TtlCache;
use crate::tuning::Severity;

/// How long the resource of a kind is believed.
const KIND_FOR: Duration = Duration::from_mins(1);

/// How long a right of a requester is believed.
const ALLOWED_FOR: Duration = Duration::from_secs(10);

/// How long a right of the controller is believed. It loses one rarely, and sees it when it does.
const OWN_ALLOWED_FOR: Duration = Duration::from_mins(1);

/// How long a missing right is cached: it is likely to be granted soon.
const DENIED_FOR: Duration = Duration::from_secs(2);

/// The most answers of one sort that are remembered.
const ANSWERS_MAX: usize = 1_000;

/// The most kinds in one AppWrapper: each costs requests to the API server.
const KINDS_MAX: usize = 64;

/// The most requests at once for one AppWrapper.
const AT_ONCE: usize = 8;

/// Asks the API server, and remembers for a while what it said.
#[derive(Debug)]
pub struct Reviews {
    client: Asked,
    kinds: TtlCache<(String, String), Target>,
    requesters: TtlCache<(Identity, Access), bool>,
    /// Apart from the requesters', so that they never push it out.
    own: TtlCache<Access, bool>,
    /// What is named and exists: namespace, object.
    named: TtlCache<(String, Named), ()>,
}

/// A client, which cannot be printed.
struct Asked(Client);

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// Whose right it is.
#[derive(Clone, Copy, Debug)]
enum Who<'a> {
    Requester(&'a Identity),
    Controller,
}

/// A right that somebody lacks.
struct Denied<'a> {
    who: Who<'a>,
    target: &'a Target,
    access: Access,
}

impl Reviews {
    /// Asks with the controller's own client.
    #[must_use]
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            client: Asked(client),
            kinds: TtlCache::new(clock.clone(), ANSWERS_MAX),
            requesters: TtlCache::new(clock.clone(), ANSWERS_MAX),
            own: TtlCache::new(clock.clone(), ANSWERS_MAX),
            named: TtlCache::new(clock, ANSWERS_MAX),
        }
    }

    /// The resource of a kind; none where it is not served.
    async fn target(&self, api_version: &str, kind: &str) -> Result<Option<Target>, AccessError> {
        if !rules::can_be_served(api_version, kind) {
            return Ok(None);
        }
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.kinds.get(&key) {
            return Ok(Some(known));
        }
        let what = format!("discover {kind} of {api_version}");
        let find = discovery::find(&self.client.0, api_version, kind);
        let target = review::in_time(&what, find).await?.as_ref().map(Target::of);
        if let Some(target) = &target {
            self.kinds.put(key, target.clone(), KIND_FOR);
        }
        Ok(target)
    }

    async fn is_allowed(&self, who: Who<'_>, access: &Access) -> Result<bool, AccessError> {
        match who {
            Who::Requester(identity) => {
                let key = (identity.clone(), access.clone());
                if let Some(known) = self.requesters.get(&key) {
                    return Ok(known);
                }
                let what = review::described(access);
                let asked = review::may(&self.client.0, identity, access.clone());
                let allowed = review::soon(&what, asked).await?;
                if identity.bytes() <= Identity::BYTES_MAX {
                    let lifetime = if allowed { ALLOWED_FOR } else { DENIED_FOR };
                    self.requesters.put(key, allowed, lifetime);
                }
                Ok(allowed)
            }
            Who::Controller => {
                if let Some(known) = self.own.get(access) {
                    return Ok(known);
                }
                let allowed = review::may_i(&self.client.0, access.clone()).await?;
                let lifetime = if allowed { OWN_ALLOWED_FOR } else { DENIED_FOR };
                self.own.put(access.clone(), allowed, lifetime);
                Ok(allowed)
            }
        }
    }

    /// The right itself where it is lacking.
    async fn denied<'a>(
        &self,
        who: Who<'a>,
        target: &'a Target,
        access: Access,
    ) -> Result<Option<Denied<'a>>, AccessError> {
        let allowed = self.is_allowed(who, &access).await?;
        Ok((!allowed).then_some(Denied { who, target, access }))
    }

    async fn judge(
        &self,
        requester: &Identity,
        namespace: &str,
        wrapped: &[Wrapped<'_>],
        check_user: bool,
    ) -> Result<Vec<Finding>, AccessError> {
        let kinds: BTreeSet<_> = wrapped.iter().map(|each| (each.api_version, each.kind)).collect();
        let targets = kinds.into_iter().map(|(api_version, kind)| -> Asking<'_, _> {
            Box::pin(
                async move { Ok(((api_version, kind), self.target(api_version, kind).await?)) },
            )
        });
        let targets: BTreeMap<_, _> = at_once(targets.collect()).await?.into_iter().collect();
        let usable: BTreeSet<&Target> =
            targets.values().flatten().filter(|target| target.flaw().is_none()).collect();
        let mut checks: Vec<Asking<'_, Option<Denied<'_>>>> = vec![];
        for target in usable {
            if check_user {
                let creation = target.creation(namespace);
                let who = Who::Requester(requester);
                checks.push(Box::pin(self.denied(who, target, creation)));
            }
            for access in target.handling(Some(namespace)) {
                checks.push(Box::pin(self.denied(Who::Controller, target, access)));
            }
        }
        let denied: Vec<Denied<'_>> = at_once(checks).await?.into_iter().flatten().collect();
        let mut findings = vec![];
        for Wrapped { path, api_version, kind, name: _ } in wrapped {
            let messages = match targets.get(&(*api_version, *kind)).and_then(Option::as_ref) {
                None => vec![rules::unknown(api_version, kind)],
                Some(target) => target
                    .flaw()
                    .map_or_else(|| lacking(target, namespace, &denied), |flaw| vec![flaw]),
            };
            let said = messages.into_iter().map(|text| rules::against(path, kind, text));
            findings.extend(said);
        }
        Ok(findings)
    }
}

impl Authorize for Reviews {
    fn findings<'a>(
        &'a self,
        requester: &'a Identity,
        namespace: &'a str,
        wrapped: &'a [Wrapped<'a>],
        check_user: bool,
    ) -> BoxFuture<'a, Result<Vec<Finding>, AccessError>> {
        Box::pin(self.judge(requester, namespace, wrapped, check_user))
    }

    fn missing<'a>(&'a self, namespace: &'a str, all: &'a [Named]) -> BoxFuture<'a, Vec<Finding>> {
        let asking = all.iter().map(async |each| {
            let key = (namespace.to_owned(), each.clone());
            let exists = match self.named.get(&key) {
                Some(()) => true,
                None => match named::exists(&self.client.0, namespace, each).await {
                    Ok(true) => {
                        self.named.put(key, (), KIND_FOR);
                        true
                    }
                    Ok(false) => false,
                    Err(error) => {
                        // only a warning depends on it
                        tracing::debug!(
                            cause = telemetry::chain(&error),
                            "Existence check failed; no warning."
                        );
                        true
                    }
                },
            };
            (!exists).then(|| named::warning(namespace, each))
        });
        Box::pin(async move { join_all(asking).await.into_iter().flatten().collect() })
    }

    fn referenced<'a>(
        &'a self,
        namespace: &'a str,
        reference: &'a Reference,
    ) -> BoxFuture<'a, Result<Option<String>, AccessError>> {
        Box::pin(named::text(&self.client.0, namespace, reference))
    }
}

type Asking<'a, T> = BoxFuture<'a, Result<T, AccessError>>;

/// All answers, in order, of so many requests at once; the first error ends it.
async fn at_once<T>(asking: Vec<Asking<'_, T>>) -> Result<Vec<T>, AccessError> {
    stream::iter(asking).buffered(AT_ONCE).try_collect().await
}

/// What is said of the rights to a resource that are lacking: the requester's first.
fn lacking(target: &Target, namespace: &str, denied: &[Denied<'_>]) -> Vec<String> {
    let (mut said, mut own) = (vec![], vec![]);
    for each in denied.iter().filter(|each| each.target == target) {
        match each.who {
            Who::Requester(who) => {
                said.push(rules::denied_to_user(&who.username, target, namespace));
            }
            Who::Controller => own.push(each.access.clone()),
        }
    }
    said.extend(rules::denied_to_controller(target, &own));
    said
}

/// The error about an AppWrapper of more kinds than anybody needs: the cluster is not asked about it.
#[must_use]
pub fn too_many(kinds: usize) -> Option<Finding> {
    (kinds > KINDS_MAX).then(|| Finding {
        severity: Severity::Error,
        field: "spec.components".to_owned(),
        value: None,
        message: format!("must wrap at most {KINDS_MAX} different kinds, not {kinds}"),
    })
}

#[cfg(test)]
mod tests;
