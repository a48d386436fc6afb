//! Whose a pod is: by its chain of controller owners, each read by kind, name and UID. Its labels do not count.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::PodId;
use super::refusal::Refusal;
use crate::api::GROUP;
use crate::clock::Clock;
use crate::kinds::OWNER_KIND;
use crate::observe::ancestry::{Ancestor, CHAIN_MAX};
use crate::observe::cache::Key;
use crate::observe::live::{self, Live};
use crate::observe::raw_object::RawObject;
use crate::observe::records::{Controller, group};
use crate::rate::{Rate, RateLimiter};
use crate::telemetry;
use crate::ttl_cache::TtlCache;

/// How long an answer holds. An AppWrapper does not lose `spec.progress` while its pods run.
const KEPT_FOR: Duration = Duration::from_mins(1);
/// How long it holds that a pod cannot report.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// How many answers are kept; the oldest is evicted first.
const KEPT_MAX: usize = 16_384;
/// The pods of a namespace that are looked at.
const OF_NAMESPACE: Rate = Rate { each: Duration::from_millis(50), at_once: 200 };
/// The most pods that are looked at at a time.
const LOOKS_AT_A_TIME: usize = 16;
/// The longest wait for a place among them.
const PLACE_TIME_MAX: Duration = Duration::from_secs(1);

/// The AppWrapper of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// Its name.
    pub(super) appwrapper: String,
    /// The names of the objects between it and the pod.
    between: Vec<String>,
}

/// What is known of a pod.
#[derive(Clone, Debug)]
enum Known {
    Owned(Arc<Owner>),
    Gone,
    NoAppWrapper,
    NoProgress(String),
}

/// Tells whose a pod is.
pub(super) struct Owners {
    client: Client,
    live: Live,
    clock: Arc<dyn Clock>,
    kept: TtlCache<PodId, Known>,
    rates: RateLimiter<String>,
    places: Semaphore,
}

/// What is read of an AppWrapper.
#[derive(Deserialize)]
struct Wrapper {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    progress: Option<IgnoredAny>,
}

impl Owner {
    /// Whether a path that names this is about it: by the name of the AppWrapper, or of an object that it made.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.appwrapper == name || self.between.iter().any(|between| between == name)
    }
}

impl Owners {
    pub(super) fn new(client: Client, live: Live, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            live,
            kept: TtlCache::new(clock.clone(), KEPT_MAX),
            clock,
            rates: RateLimiter::new(OF_NAMESPACE),
            places: Semaphore::new(LOOKS_AT_A_TIME),
        }
    }

    /// The AppWrapper of a pod, which takes progress.
    ///
    /// # Errors
    /// There is none, or that cannot be told now.
    pub(super) async fn of(&self, pod: &PodId) -> Result<Arc<Owner>, Refusal> {
        let known = match self.kept.get(pod) {
            Some(known) => known,
            None => self.look(pod).await?,
        };
        match known {
            Known::Owned(owner) => Ok(owner),
            Known::Gone => Err(Refusal::Gone(pod.name.clone())),
            Known::NoAppWrapper => Err(Refusal::NoAppWrapper(pod.name.clone())),
            Known::NoProgress(name) => Err(Refusal::NoProgress(name)),
        }
    }

    async fn look(&self, pod: &PodId) -> Result<Known, Refusal> {
        let now = self.clock.elapsed();
        self.rates.take(pod.namespace.clone(), 1, now).map_err(Refusal::TooMany)?;
        let place = timeout(PLACE_TIME_MAX, self.places.acquire()).await;
        let _place = place.map_err(|_| Refusal::TooMany(PLACE_TIME_MAX))?;
        let known = self.read(pod).await.map_err(|error| {
            let cause = telemetry::chain(&error);
            tracing::warn!(cause, "Cannot read the owners of a pod; progress report refused.");
            Refusal::Unavailable("owner of the pod")
        })?;
        let time = if matches!(known, Known::Owned(_)) { KEPT_FOR } else { REFUSED_FOR };
        self.kept.put(pod.clone(), known.clone(), time);
        Ok(known)
    }

    async fn read(&self, pod: &PodId) -> Result<Known, live::Error> {
        let PodId { namespace, name, uid } = pod;
        let found = live::pod(&self.client, namespace, name).await?;
        let Some(found) = found.filter(|found| found.identity.uid == *uid) else {
            return Ok(Known::Gone);
        };
        let (mut next, mut between) = (found.identity.controller, vec![]);
        for _ in 0..CHAIN_MAX {
            let Some(owner) = next else { break };
            if owner.kind == OWNER_KIND && group(&owner.api_version) == Some(GROUP) {
                return self.appwrapper(namespace, owner, between).await;
            }
            next = self.controller(namespace, &owner).await?;
            between.push(owner.name);
        }
        Ok(Known::NoAppWrapper)
    }

    /// What controls an owner; nothing where it is gone, or is none that an AppWrapper could have made.
    async fn controller(
        &self,
        namespace: &str,
        owner: &Controller,
    ) -> Result<Option<Controller>, live::Error> {
        match live::ancestor(&self.client, &self.live, namespace, owner).await {
            Ok(Ancestor::Exists(controller)) => Ok(controller),
            Ok(Ancestor::Gone | Ancestor::Unknown(_))
            | Err(live::Error::NoKind(_) | live::Error::NotNamespaced(_)) => Ok(None),
            Err(error) if error.code() == Some(403) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn appwrapper(
        &self,
        namespace: &str,
        owner: Controller,
        between: Vec<String>,
    ) -> Result<Known, live::Error> {
        let key = Key { namespace: namespace.to_owned(), name: owner.name.clone() };
        let found = live::appwrapper(&self.client, &key).await?;
        let is_it = |found: &RawObject| found.meta.uid.as_deref() == Some(owner.uid.as_str());
        let Some(found) = found.filter(is_it) else { return Ok(Known::NoAppWrapper) };
        let takes_progress = serde_json::from_str::<Wrapper>(found.raw.get())
            .is_ok_and(|wrapper| wrapper.spec.progress.is_some());
        Ok(if takes_progress {
            Known::Owned(Arc::new(Owner { appwrapper: owner.name, between }))
        } else {
            Known::NoProgress(owner.name)
        })
    }
}
