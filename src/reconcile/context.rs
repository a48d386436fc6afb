//! What the reconciles of a process share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use kube::Client;
use kube::runtime::reflector::Store;

use crate::act::events::Events;
use crate::act::rights::Rights;
use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::observe::assemble::{Wrapper, kind_of};
use crate::observe::cache::{Cache, Key, KindKey};
use crate::observe::live::Live;
use crate::observe::memory::Memory;
use crate::observe::stored::Stored;
use crate::observe::{Eyes, guides};

/// All that a reconcile needs.
pub struct Context {
    /// For every read and write.
    pub client: Client,
    /// What the watches have shown.
    pub cache: Cache,
    /// The kinds that are known.
    pub live: Live,
    /// What users may create.
    pub rights: Rights,
    /// Where events go.
    pub events: Events,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What is counted.
    pub metrics: Metrics,
    /// The settings; replaced when the file changes.
    pub config: RwLock<Arc<Config>>,
    /// The AppWrappers, as the watch has shown them.
    pub store: Store<Stored>,
    /// Something changed that concerns every AppWrapper, such as the settings.
    pub all_changed: tokio::sync::Notify,
    wake: Box<dyn Fn(&Key) + Send + Sync>,
    memories: Mutex<BTreeMap<Key, Arc<tokio::sync::Mutex<Memory>>>>,
}

impl Context {
    /// A context without memory; `wake` asks for an AppWrapper to be looked at.
    #[must_use]
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        config: Config,
        store: Store<Stored>,
        wake: impl Fn(&Key) + Send + Sync + 'static,
    ) -> Self {
        Self {
            events: Events::start(client.clone()),
            client,
            cache: Cache::default(),
            live: Live::default(),
            rights: Rights::new(clock.clone()),
            clock,
            metrics: Metrics::new(),
            config: RwLock::new(Arc::new(config)),
            store,
            all_changed: tokio::sync::Notify::new(),
            wake: Box::new(wake),
            memories: Mutex::new(BTreeMap::new()),
        }
    }

    /// The settings that hold now.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The kinds that must be watched for an AppWrapper: those that it wraps, and those of the guides to
    /// its retries.
    #[must_use]
    pub fn kinds_of(&self, wrapper: &Wrapper) -> BTreeSet<KindKey> {
        let config = self.config();
        let default = config.retry_policy.default_policy_name.as_deref();
        let kinds = wrapper.components.iter().map(kind_of);
        let kinds = kinds.filter(|kind| !kind.is_pod() && !kind.kind.is_empty());
        kinds.chain(guides::used_by(wrapper, default)).collect()
    }

    /// The AppWrappers for which a kind is watched.
    #[must_use]
    pub fn users_of(&self, kind: &KindKey) -> Vec<Key> {
        let uses = |stored: &Stored| {
            stored.wrapper.as_ref().is_ok_and(|wrapper| self.kinds_of(wrapper).contains(kind))
        };
        self.store.state_filter(uses).iter().map(|stored| stored.key()).collect()
    }

    /// Asks for every AppWrapper to be looked at: something changed that concerns them all.
    pub fn look_at_all(&self) {
        self.all_changed.notify_one();
        for stored in self.store.state() {
            (self.wake)(&stored.key());
        }
    }

    /// Forgets an AppWrapper that is gone.
    pub fn forget(&self, key: &Key) {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    pub(super) fn memory(&self, key: &Key) -> Arc<tokio::sync::Mutex<Memory>> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.entry(key.clone()).or_default().clone()
    }

    pub(super) fn eyes(&self) -> Eyes<'_> {
        Eyes { client: &self.client, live: &self.live, cache: &self.cache }
    }
}
