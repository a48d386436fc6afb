//! Whose a pod is: by its chain of controller owners, each read by kind, name and UID. Its labels do not count.
//!
//! Owners may be large, and any number of pods may have the same: only metadata is read of them, once for all pods.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::timeout;

use super::refusal::Refusal;
use super::{LINES_OF_A_NAMESPACE, PLACE_TIME_MAX, PodId};
use crate::api::GROUP;
use crate::clock::Clock;
use crate::kinds::{OWNER_API_VERSION, OWNER_KIND};
use crate::listener::Shares;
use crate::observe::ancestry::CHAIN_MAX;
use crate::observe::cache::{Key, KindKey};
use crate::observe::live::{self, Live};
use crate::observe::raw_object::RawObject;
use crate::observe::records::{Controller, Identity, group};
use crate::rate::{Rate, RateLimiter};
use crate::telemetry;
use crate::ttl_cache::TtlCache;

/// How long an answer holds. An AppWrapper does not lose `spec.progress` while its pods run.
const KEPT_FOR: Duration = Duration::from_mins(1);
/// How long it holds that a pod cannot report.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// How many answers are kept, about pods and about their owners; the oldest is evicted first.
const KEPT_MAX: usize = 16_384;
const OWNERS_KEPT_MAX: usize = 4_096;
/// The reads of pods and owners of a namespace.
const OF_NAMESPACE: Rate = Rate { each: Duration::from_millis(25), at_once: 400 };
/// The most pods that are looked at at a time, and those of one namespace.
const LOOKS_AT_A_TIME: u32 = 16;
const LOOKS_OF_A_NAMESPACE: u32 = 4;

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

/// What is known of an owner.
#[derive(Clone, Debug)]
enum Above {
    /// This controls it.
    Controller(Controller),
    /// Nothing does, it is gone, or it is none that an AppWrapper could have made.
    Nothing,
    /// It is an AppWrapper, with `spec.progress` or without.
    AppWrapper { takes_progress: bool },
}

/// Tells whose a pod is.
pub(super) struct Owners {
    client: Client,
    live: Live,
    clock: Arc<dyn Clock>,
    kept: TtlCache<PodId, Known>,
    /// What is known of owners, by namespace and by all that a reference says.
    links: TtlCache<(String, Controller), Above>,
    rates: RateLimiter<String>,
    places: Shares<String>,
    lines: RateLimiter<String>,
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
            links: TtlCache::new(clock.clone(), OWNERS_KEPT_MAX),
            clock,
            rates: RateLimiter::new(OF_NAMESPACE),
            places: Shares::new(LOOKS_AT_A_TIME, LOOKS_OF_A_NAMESPACE),
            lines: RateLimiter::new(LINES_OF_A_NAMESPACE),
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
        self.take(&pod.namespace)?;
        let place = self.places.take(Some(pod.namespace.clone()), 1);
        let place = timeout(PLACE_TIME_MAX, place).await;
        let _place = place.map_err(|_| Refusal::no_place(&self.places, PLACE_TIME_MAX))?;
        let known = self.read(pod).await?;
        let time = if matches!(known, Known::Owned(_)) { KEPT_FOR } else { REFUSED_FOR };
        self.kept.put(pod.clone(), known.clone(), time);
        Ok(known)
    }

    /// Takes a read from what a namespace may make.
    fn take(&self, namespace: &str) -> Result<(), Refusal> {
        let now = self.clock.elapsed();
        self.rates.take(namespace.to_owned(), 1, now).map_err(Refusal::TooMany)
    }

    async fn read(&self, pod: &PodId) -> Result<Known, Refusal> {
        let PodId { namespace, name, uid } = pod;
        let found = live::metadata(&self.client, &live::pod_resource(), namespace, name).await;
        let found = found.map_err(|error| self.unavailable(namespace, &error))?;
        let found = found.map(|found| Identity::of(&found));
        let Some(found) = found.filter(|found| found.uid == *uid) else {
            return Ok(Known::Gone);
        };
        let (mut next, mut between) = (found.controller, vec![]);
        for _ in 0..CHAIN_MAX {
            let Some(owner) = next else { break };
            next = match self.above(namespace, &owner).await? {
                Above::AppWrapper { takes_progress: true } => {
                    return Ok(Known::Owned(Arc::new(Owner { appwrapper: owner.name, between })));
                }
                Above::AppWrapper { takes_progress: false } => {
                    return Ok(Known::NoProgress(owner.name));
                }
                Above::Controller(controller) => Some(controller),
                Above::Nothing => None,
            };
            between.push(owner.name);
        }
        Ok(Known::NoAppWrapper)
    }

    /// What is known of an owner, which is read where that is not remembered.
    async fn above(&self, namespace: &str, owner: &Controller) -> Result<Above, Refusal> {
        let is_appwrapper = owner.kind == OWNER_KIND && group(&owner.api_version) == Some(GROUP);
        let mut owner = owner.clone();
        if is_appwrapper {
            // a reference may name any version of it, and it is read in this one
            OWNER_API_VERSION.clone_into(&mut owner.api_version);
        }
        let key = (namespace.to_owned(), owner);
        if let Some(known) = self.links.get(&key) {
            return Ok(known);
        }
        self.take(namespace)?;
        let read = if is_appwrapper {
            self.appwrapper(namespace, &key.1).await
        } else {
            self.controller(namespace, &key.1).await
        };
        let above = read.map_err(|error| self.unavailable(namespace, &error))?;
        let time = match above {
            Above::Controller(_) | Above::AppWrapper { takes_progress: true } => KEPT_FOR,
            Above::Nothing | Above::AppWrapper { takes_progress: false } => REFUSED_FOR,
        };
        self.links.put(key, above.clone(), time);
        Ok(above)
    }

    async fn controller(&self, namespace: &str, owner: &Controller) -> Result<Above, live::Error> {
        let kind = KindKey { api_version: owner.api_version.clone(), kind: owner.kind.clone() };
        let found = match self.live.resource(&self.client, &kind).await {
            Ok(resource) => live::metadata(&self.client, &resource, namespace, &owner.name).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(Some(found)) => {
                let found = Some(Identity::of(&found)).filter(|found| found.uid == owner.uid);
                let controller = found.and_then(|found| found.controller);
                Ok(controller.map_or(Above::Nothing, Above::Controller))
            }
            Ok(None) => {
                // perhaps the kind has another plural now
                self.live.forget(&kind);
                Ok(Above::Nothing)
            }
            Err(live::Error::NoKind(_) | live::Error::NotNamespaced(_)) => Ok(Above::Nothing),
            Err(error) if error.code() == Some(403) => Ok(Above::Nothing),
            Err(error) => Err(error),
        }
    }

    async fn appwrapper(&self, namespace: &str, owner: &Controller) -> Result<Above, live::Error> {
        let key = Key { namespace: namespace.to_owned(), name: owner.name.clone() };
        let found = live::appwrapper(&self.client, &key).await?;
        let is_it = |found: &RawObject| found.meta.uid.as_deref() == Some(owner.uid.as_str());
        let Some(found) = found.filter(is_it) else { return Ok(Above::Nothing) };
        let takes_progress = serde_json::from_str::<Wrapper>(found.raw.get())
            .is_ok_and(|wrapper| wrapper.spec.progress.is_some());
        Ok(Above::AppWrapper { takes_progress })
    }

    /// Says in the log why owners cannot be read, for one namespace only so often: its pods may name any owners.
    fn unavailable(&self, namespace: &str, error: &live::Error) -> Refusal {
        if self.lines.take(namespace.to_owned(), 1, self.clock.elapsed()).is_ok() {
            let cause = telemetry::chain(error);
            tracing::warn!(
                cause,
                namespace,
                "Cannot read the owners of a pod; progress report refused."
            );
        }
        Refusal::Unavailable("owner of the pod")
    }
}
