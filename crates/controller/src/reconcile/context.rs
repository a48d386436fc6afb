//! What the reconciles of a process share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::beside::Slots;
use crate::act::events::{About, EventType, Events};
use crate::act::rights::Rights;
use crate::clock::Clock;
use crate::config::Config;
use crate::decide::{Decision, Facts, Warning};
use crate::kueue::KueueSettings;
use crate::locked::{Locked, RwLocked};
use crate::metrics::Metrics;
use crate::observe::assemble::Wrapper;
use crate::observe::cache::{Cache, Key, KindKey};
use crate::observe::cached_appwrapper::CachedAppWrapper;
use crate::observe::feed::Concerned;
use crate::observe::live::{self, Live};
use crate::observe::memory::ReconcileState;
use crate::observe::pod_lists::PodLists;
use crate::observe::store::Store;
use crate::observe::summary::Summary;
use crate::observe::suspicions::SuspicionCache;
use crate::observe::{Sources, retry_sources};
use crate::progress_server::ProgressState;
use crate::record::Allowance;
use crate::shadow::Shadow;

/// The most logs that are read at the same time: each takes at most 1 MiB, and a place among the reconciles.
const LOG_READS_MAX: usize = 8;
/// How many of them are for namespaces of which no log is being read.
const LOG_READS_RESERVED: usize = 2;

/// Is told of each decision, and of the facts that it was made from.
pub type Witness = Box<dyn Fn(Facts<'_>, &Decision) + Send + Sync>;

/// All that a reconcile needs.
pub struct Context {
    /// For every read and write.
    pub client: Client,
    /// What the watches have shown.
    pub cache: Cache,
    /// What is known of suspect nodes.
    pub suspicions: SuspicionCache,
    /// The kinds that are known.
    pub live: Live,
    /// The LISTs of pods that are under way.
    pub lists: PodLists,
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
    /// What is known of Kueue's configuration.
    pub kueue: RwLock<KueueSettings>,
    /// The first decisions do not wait for it: it was read, or there is none, or nobody reads it.
    pub kueue_read: tokio::sync::watch::Sender<bool>,
    /// The AppWrappers, as the watch has shown them.
    pub store: Store,
    /// Where pods report their progress.
    pub progress: ProgressState,
    /// Slots for the logs that are read at the same time.
    pub(super) log_reads: Slots,
    /// The records of deleted AppWrappers that may still be written.
    pub(crate) records: Mutex<Allowance>,
    /// Counts the changes that concern every AppWrapper, such as those of the settings.
    pub changed: tokio::sync::watch::Sender<u64>,
    /// Decisions are compared with what the active controller does, and not carried out.
    pub shadow: Option<Shadow>,
    /// Where decisions are told to, beside being carried out: the simulated cluster checks them.
    pub witness: Option<Witness>,
    /// Up to when nobody may have decided before this process led: a call for the Lease failed, or nobody held it.
    pub gap_before: OnceLock<Timestamp>,
    /// The log has said that the definition of AppWrapper is another version's.
    pub(super) has_told_of_definition: AtomicBool,
    wake: Box<dyn Fn(&Key) + Send + Sync>,
    memories: Mutex<BTreeMap<Key, Arc<tokio::sync::Mutex<ReconcileState>>>>,
}

impl Context {
    /// A context without memory; `wake` triggers the reconcile of an AppWrapper.
    #[must_use]
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        config: Config,
        wake: impl Fn(&Key) + Send + Sync + 'static,
    ) -> Self {
        Self {
            events: Events::default(),
            client,
            cache: Cache::default(),
            suspicions: SuspicionCache::default(),
            live: Live::default(),
            lists: PodLists::default(),
            rights: Rights::new(clock.clone()),
            clock,
            metrics: Metrics::new(),
            config: RwLock::new(Arc::new(config)),
            kueue: RwLock::default(),
            kueue_read: tokio::sync::watch::Sender::new(true),
            store: Store::default(),
            progress: ProgressState::default(),
            log_reads: Slots::new(LOG_READS_MAX, LOG_READS_RESERVED),
            records: Mutex::default(),
            changed: tokio::sync::watch::Sender::new(0),
            shadow: None,
            witness: None,
            gap_before: OnceLock::new(),
            has_told_of_definition: AtomicBool::new(false),
            wake: Box::new(wake),
            memories: Mutex::new(BTreeMap::new()),
        }
    }

    /// The settings that hold now.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.config.read_locked().clone()
    }

    /// What is known of Kueue's configuration now.
    #[must_use]
    pub fn kueue(&self) -> KueueSettings {
        *self.kueue.read_locked()
    }

    /// Takes over what was read of Kueue's configuration. The next decision about each AppWrapper uses it.
    pub fn set_kueue(&self, settings: KueueSettings) {
        *self.kueue.write_locked() = settings;
        self.kueue_read.send_replace(true);
    }

    /// Kueue's configuration is going to be read: the first decisions wait for it, but only for a while.
    pub fn await_kueue(&self) {
        self.kueue_read.send_replace(false);
    }

    /// The kinds that must be watched for an AppWrapper: those that it wraps, and those of the retry sources to
    /// its retries.
    #[must_use]
    pub fn kinds_of(&self, summary: &Summary) -> BTreeSet<KindKey> {
        let config = self.config();
        let default = config.retry_policy.default_policy_name.as_deref();
        let named = summary.names_retry_policies || default.is_some();
        let kinds = summary.kinds.iter().filter(|kind| !kind.is_pod()).cloned();
        let used = retry_sources::used(named, summary.queue.is_some());
        kinds.chain(used.into_iter().cloned()).collect()
    }

    /// An AppWrapper as the watch has shown it or, where its text was not kept, as it is now; none where
    /// it is gone.
    ///
    /// # Errors
    /// It has to be read from the API server, and cannot be.
    pub(super) async fn wrapper(
        &self,
        stored: &CachedAppWrapper,
    ) -> Result<Option<Result<Arc<Wrapper>, String>>, live::Error> {
        let key = stored.key();
        if let Some(parsed) = self.store.parsed(&key, stored.version()) {
            return Ok(Some(Ok(parsed)));
        }
        let read = if let Some(wrapper) = stored.parsed() {
            Ok(Arc::new(wrapper))
        } else {
            let Some(seen) = live::appwrapper(&self.client, &key).await? else { return Ok(None) };
            Wrapper::read(&seen).map(Arc::new)
        };
        if let Ok(wrapper) = &read {
            self.store.keep_parsed(key, wrapper.clone());
        }
        Ok(Some(read))
    }

    /// The AppWrappers for which a kind is watched.
    #[must_use]
    pub fn users_of(&self, kind: &KindKey) -> Vec<Key> {
        self.users(kind, |_, _| true)
    }

    /// The AppWrappers that a change of retry sources of a kind concerns.
    #[must_use]
    pub fn concerned(&self, kind: &KindKey, concerned: &Concerned) -> Vec<Key> {
        match concerned {
            Concerned::Nobody => vec![],
            Concerned::All => self.users_of(kind),
            Concerned::UsersOf(at) => self.users(kind, |key, summary| {
                retry_sources::may_use(&self.cache, key, summary.queue.as_deref(), (kind, at))
            }),
        }
    }

    /// Those for which a kind is watched, and of which this holds.
    fn users(&self, kind: &KindKey, concerns: impl Fn(&Key, &Summary) -> bool) -> Vec<Key> {
        let has_default = self.config().retry_policy.default_policy_name.is_some();
        let uses = |stored: &&Arc<CachedAppWrapper>| {
            stored.summary.as_ref().is_ok_and(|summary| {
                let named = summary.names_retry_policies || has_default;
                let wraps = !kind.is_pod() && summary.kinds.binary_search(kind).is_ok();
                let uses =
                    wraps || retry_sources::used(named, summary.queue.is_some()).contains(&kind);
                uses && concerns(&stored.key(), summary)
            })
        };
        self.store.all().iter().filter(uses).map(|stored| stored.key()).collect()
    }

    /// Triggers the reconcile of every AppWrapper: something changed that concerns them all.
    pub fn requeue_all(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
        for key in self.store.keys() {
            (self.wake)(&key);
        }
    }

    /// Makes an event of type Warning, and counts it.
    pub fn warn(&self, about: &About<'_>, warning: &Warning) {
        if self.shadow.is_none() {
            self.metrics.warning(warning.reason);
        }
        self.tell(about, EventType::Warning, warning.reason, &warning.message);
    }

    /// Makes an event. It is sent later, or dropped where too many wait, and in a shadow.
    pub fn tell(&self, about: &About<'_>, kind: EventType, reason: &'static str, message: &str) {
        if self.shadow.is_some() {
            return;
        }
        if !self.events.push(self.clock.elapsed(), about, kind, reason, message) {
            self.metrics.event_dropped();
        }
    }

    /// Forgets what this process knows of an AppWrapper: it is gone, or a panic may have left it incomplete.
    pub fn forget(&self, key: &Key) {
        self.memories.locked().remove(key);
        self.cache.pod_cache(|pod_cache| pod_cache.forget(key));
    }

    pub(super) fn memory(&self, key: &Key) -> Arc<tokio::sync::Mutex<ReconcileState>> {
        let mut memories = self.memories.locked();
        memories.entry(key.clone()).or_default().clone()
    }

    pub(super) fn sources(&self) -> Sources<'_> {
        Sources { client: &self.client, live: &self.live, cache: &self.cache, lists: &self.lists }
    }
}
