//! One controller process: the controller's own reconcile and caches, fed and driven by the world.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;

use super::judged::{Judged, judge};
use super::wire::{Call, Wire};
use crate::act::events::Notice;
use crate::clock::{Clock, ManualClock};
use crate::config::Config;
use crate::locked::{Locked, RwLocked};
use crate::observe::cache::{Key, KindKey};
use crate::observe::cached_appwrapper::CachedAppWrapper;
use crate::observe::feed::{self, Concerned};
use crate::observe::nodes;
use crate::observe::pod_record::WatchedPod;
use crate::observe::raw_object::RawObject;
use crate::observe::retry_sources::is_retry_source;
use crate::observe::store::Shown;
use crate::reconcile::{self, Context, Next};
use crate::sim::{Address, Object, Verb};

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// All AppWrappers.
    Wrappers,
    /// The pods that have our label.
    Pods,
    /// All nodes.
    Nodes,
    /// The objects of a wrapped kind that have our label, or all retry sources of a kind.
    Kind(KindKey),
}

/// One event as a watch would tell it.
#[derive(Clone, Debug)]
pub struct Told {
    /// What happened.
    pub verb: Verb,
    /// The object.
    pub object: Arc<Object>,
    /// The object as it comes over the wire, read once for all watches and lists.
    pod: OnceLock<Option<WatchedPod>>,
    raw: OnceLock<Option<RawObject>>,
}

/// An object as a watch reads it, if it can be read.
trait Seen: DeserializeOwned + Clone {
    fn of(told: &Told) -> &OnceLock<Option<Self>>;
}

impl Seen for WatchedPod {
    fn of(told: &Told) -> &OnceLock<Option<Self>> {
        &told.pod
    }
}

impl Seen for RawObject {
    fn of(told: &Told) -> &OnceLock<Option<Self>> {
        &told.raw
    }
}

impl Told {
    /// An event.
    #[must_use]
    pub const fn new(verb: Verb, object: Arc<Object>) -> Self {
        Self { verb, object, pod: OnceLock::new(), raw: OnceLock::new() }
    }

    fn seen<T: Seen>(&self) -> Option<T> {
        T::of(self).get_or_init(|| serde_json::from_str(self.object.text()).ok()).clone()
    }
}

/// An event with its object as a watch reads it; none where that cannot be read.
fn read<T: Seen>(event: &Event<&Told>) -> Option<Event<T>> {
    Some(match *event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(told) => Event::InitApply(told.seen()?),
        Event::Apply(told) => Event::Apply(told.seen()?),
        Event::Delete(told) => Event::Delete(told.seen()?),
    })
}

/// The state that a list shows, after the first so many events.
#[must_use]
pub fn state_at(log: &[Told], upto: usize) -> BTreeMap<Address, &Told> {
    let mut state = BTreeMap::new();
    for told in &log[..upto.min(log.len())] {
        match told.verb {
            Verb::Added | Verb::Modified => {
                state.insert(told.object.address.clone(), told);
            }
            Verb::Deleted => {
                state.remove(&told.object.address);
            }
        }
    }
    state
}

/// One watch of a process.
#[derive(Debug)]
pub struct Stream {
    /// What it watches.
    pub topic: Topic,
    /// The log of the topic, by its index, once it has listed.
    pub log: Option<usize>,
    /// How many events of its topic it has been told; none before its first list.
    pub at: Option<usize>,
    /// It falls behind until this moment.
    pub lags_until: Duration,
    /// It lists again before anything else.
    pub relist: bool,
    feed: Feed,
}

#[derive(Debug)]
enum Feed {
    Wrappers,
    Pods(feed::Pods),
    Nodes(feed::Nodes),
    Objects(feed::Objects),
    RetrySources(feed::RetrySources),
}

/// A reconcile that is under way.
pub struct Flight {
    work: Pin<Box<dyn Future<Output = Result<Next, reconcile::Error>> + Send>>,
    /// The call that waits for its answer.
    pub call: Option<Call>,
    /// How many calls it has made.
    pub calls: u32,
    /// Status writes that it has made.
    pub status_writes: u32,
    /// A call of it was struck by a fault.
    pub hurt: bool,
    /// The version of the AppWrapper that it began with.
    pub seen: u64,
    /// Two processes believed that they led when one of its calls came: what it has read since may be overtaken.
    pub doubtful: bool,
    /// What it has read since its last write, by path, with " 404" behind what was not found.
    pub listed: BTreeSet<String>,
    /// It can go on.
    woken: Arc<Woken>,
}

/// Whether what a reconcile waits for has come.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flight {
    /// What it has read since its last write.
    pub fn note_answer(&mut self, call: &Call, code: u16) {
        if call.is_write() {
            self.listed.clear();
        } else {
            let not_found = if code == 404 { " 404" } else { "" };
            self.listed.insert(format!("{}{not_found}", call.uri));
        }
    }

    /// It waits for the call of another reconcile.
    pub fn waits_for_another(&self) -> bool {
        self.call.is_none() && !self.woken.0.load(Ordering::Relaxed)
    }
}

/// How often the client's task is given the chance to hand a request over.
const HANDOVERS_MAX: usize = 4;

/// How a reconcile ended.
pub enum Landed {
    /// It is still waiting for a call.
    Waits,
    /// It is over.
    Done(Result<Next, reconcile::Error>),
    /// It panicked.
    Panicked(String),
}

/// One controller process.
pub struct Replica {
    /// What its reconciles share.
    pub context: Arc<Context>,
    /// Its clock.
    pub clock: Arc<ManualClock>,
    /// Its calls.
    pub wire: Wire,
    /// Its watches.
    pub streams: Vec<Stream>,
    /// Reconciles that are under way.
    pub flights: BTreeMap<Key, Flight>,
    /// When each AppWrapper is to be looked at.
    pub due: BTreeMap<Key, Duration>,
    /// Those of them that a deadline of their own will bring, and no event.
    pub timed: BTreeSet<Key>,
    /// UIDs of the objects that it was told by a GET.
    pub read: BTreeSet<String>,
    /// Pods that the API server removed in answer to its DELETE.
    pub removed: BTreeSet<Key>,
    /// It believes that it leads.
    pub leads: bool,
    /// It does not move until this moment.
    pub frozen_until: Duration,
    /// Where it has stopped believing that it leads: after so many more of its moves.
    pub doubts: Option<u32>,
    woken: Arc<Mutex<Vec<Key>>>,
    judged: Arc<Mutex<Vec<Judged>>>,
}

impl Replica {
    /// A process that has just started.
    #[must_use]
    pub fn start(config: &Config, clock: Arc<ManualClock>, leads: bool) -> Self {
        let wire = Wire::default();
        let client = kube::Client::new(wire.clone(), "default");
        let woken = Arc::new(Mutex::new(vec![]));
        let wake = woken.clone();
        let time: Arc<dyn Clock> = clock.clone();
        let mut context = Context::new(client, time, config.clone(), move |key| {
            wake.locked().push(key.clone());
        });
        let judged = Arc::new(Mutex::new(vec![]));
        let list = judged.clone();
        context.witness = Some(Box::new(move |facts, decision| {
            let new = judge(facts, decision);
            list.locked().extend(new);
        }));
        let marks = nodes::marks(&config.autopilot);
        let stream = |topic, feed| Stream {
            topic,
            log: None,
            at: None,
            lags_until: Duration::ZERO,
            relist: false,
            feed,
        };
        let streams = vec![
            stream(Topic::Wrappers, Feed::Wrappers),
            stream(Topic::Pods, Feed::Pods(feed::Pods::default())),
            stream(Topic::Nodes, Feed::Nodes(feed::Nodes::new(marks))),
        ];
        Self {
            context: Arc::new(context),
            clock,
            wire,
            streams,
            flights: BTreeMap::new(),
            due: BTreeMap::new(),
            timed: BTreeSet::new(),
            read: BTreeSet::new(),
            removed: BTreeSet::new(),
            leads,
            frozen_until: Duration::ZERO,
            doubts: None,
            woken,
            judged,
        }
    }

    /// Its configuration file has changed.
    pub fn configure(&self, config: &Config) {
        let mut own = self.context.config.write_locked();
        *own = Arc::new(config.clone());
    }

    /// Asks for an AppWrapper to be looked at, at a moment or earlier.
    pub fn push(&mut self, key: Key, at: Duration) {
        self.timed.remove(&key);
        let due = self.due.entry(key).or_insert(at);
        *due = at.min(*due);
    }

    /// Asks for an AppWrapper to be looked at when a pause is over, if nothing happens before.
    pub fn push_later(&mut self, key: Key, at: Duration) {
        if self.due.get(&key).is_none_or(|due| at < *due) {
            self.due.insert(key.clone(), at);
            self.timed.insert(key);
        }
    }

    fn push_all(&mut self, keys: impl IntoIterator<Item = Key>, at: Duration) {
        keys.into_iter().for_each(|key| self.push(key, at));
    }

    /// Asks for every AppWrapper to be looked at.
    pub fn push_known(&mut self, at: Duration) {
        self.push_all(self.context.store.keys(), at);
    }

    /// Takes in what the controller asked to be looked at.
    pub fn drain_woken(&mut self, at: Duration) {
        let woken = std::mem::take(&mut *self.woken.locked());
        self.push_all(woken, at);
    }

    /// Takes what was decided about failures since the last time.
    #[must_use]
    pub fn drain_judged(&self) -> Vec<Judged> {
        std::mem::take(&mut *self.judged.locked())
    }

    /// The AppWrapper as its watch has shown it.
    #[must_use]
    pub fn stored(&self, key: &Key) -> Option<Arc<CachedAppWrapper>> {
        self.context.store.get(key)
    }

    /// A list, and its end: the state after the first so many events.
    pub fn list(&mut self, stream: usize, log: &[Told], upto: usize, elapsed: Duration) {
        let mut events = vec![Event::Init];
        events.extend(state_at(log, upto).into_values().map(Event::InitApply));
        events.push(Event::InitDone);
        for event in events {
            self.feed(stream, &event, elapsed);
        }
        self.streams[stream].at = Some(upto);
        self.streams[stream].relist = false;
    }

    /// One event of a watch.
    pub fn tell(&mut self, stream: usize, told: &Told, elapsed: Duration) {
        let event = match told.verb {
            Verb::Added | Verb::Modified => Event::Apply(told),
            Verb::Deleted => Event::Delete(told),
        };
        self.feed(stream, &event, elapsed);
    }

    /// A kind that is not served cannot be watched.
    pub fn blind(&mut self, kind: &KindKey, elapsed: Duration) {
        self.context.live.forget(kind);
        if self.context.cache.set_blind(kind) {
            let users = self.context.users_of(kind);
            self.push_all(users, elapsed);
        }
    }

    fn feed(&mut self, stream: usize, event: &Event<&Told>, elapsed: Duration) {
        let cache = &self.context.cache;
        let mut concerned = match event {
            Event::InitDone => Concerned::All,
            Event::Init | Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => {
                Concerned::Nobody
            }
        };
        let keys = match &mut self.streams[stream].feed {
            Feed::Wrappers => {
                return read(event).map_or((), |event| self.feed_wrapper(event, elapsed));
            }
            Feed::Pods(feed) => read(event).map(|event| feed.take(cache, event)),
            Feed::Nodes(feed) => read(event).map(|event| feed.take(cache, event)),
            Feed::Objects(feed) => read(event).map(|event| feed.take(cache, event)),
            Feed::RetrySources(feed) => {
                let taken = read(event).map(|event| feed.take(cache, event));
                concerned = taken.unwrap_or(Concerned::Nobody);
                None
            }
        };
        let keys = keys.unwrap_or_default();
        self.push_all(keys, elapsed);
        if let Topic::Kind(kind) = &self.streams[stream].topic {
            let keys = self.context.concerned(kind, &concerned);
            self.push_all(keys, elapsed);
        }
    }

    /// As the controller's own watch of AppWrappers does.
    fn feed_wrapper(&mut self, event: Event<RawObject>, elapsed: Duration) {
        match self.context.store.apply(event, CachedAppWrapper::read) {
            Shown::Begin => {}
            Shown::Listed(stored) => self.watch_kinds(&stored),
            Shown::Changed(stored) => {
                self.watch_kinds(&stored);
                self.push(stored.key(), elapsed);
            }
            Shown::Gone(key) => self.context.forget(&key),
            Shown::Complete(gone) => {
                for key in &gone {
                    self.context.forget(key);
                }
                self.push_known(elapsed);
            }
        }
    }

    fn watch_kinds(&mut self, stored: &CachedAppWrapper) {
        let Ok(summary) = &stored.summary else { return };
        if !summary.is_ours {
            return;
        }
        for kind in self.context.kinds_of(summary) {
            let topic = Topic::Kind(kind.clone());
            if !self.streams.iter().any(|stream| stream.topic == topic) {
                let feed = if is_retry_source(&kind) {
                    Feed::RetrySources(feed::RetrySources::new(kind))
                } else {
                    Feed::Objects(feed::Objects::new(kind))
                };
                self.streams.push(Stream {
                    topic,
                    log: None,
                    at: None,
                    lags_until: Duration::ZERO,
                    relist: false,
                    feed,
                });
            }
        }
    }

    /// Begins a reconcile; false where there is nothing to look at.
    pub fn begin(&mut self, key: &Key) -> bool {
        self.due.remove(key);
        let Some(stored) = self.stored(key) else { return false };
        let seen = stored.version().parse().unwrap_or(0);
        let work = Box::pin(reconcile::reconcile(stored, self.context.clone()));
        let flight = Flight {
            work,
            call: None,
            calls: 0,
            status_writes: 0,
            hurt: false,
            seen,
            doubtful: false,
            listed: BTreeSet::new(),
            woken: Arc::new(Woken(AtomicBool::new(true))),
        };
        self.flights.insert(key.clone(), flight);
        true
    }

    /// Drives a reconcile to its next call or its end. Events that it makes are handed to `event`.
    pub async fn drive(&mut self, key: &Key, mut event: impl FnMut(Notice)) -> Landed {
        loop {
            let Some(flight) = self.flights.get_mut(key) else { return Landed::Waits };
            flight.woken.0.store(false, Ordering::Relaxed);
            let waker = Waker::from(flight.woken.clone());
            let mut context = std::task::Context::from_waker(&waker);
            let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
                flight.work.as_mut().poll(&mut context)
            }));
            while let Some(notice) = self.context.events.take() {
                event(notice);
            }
            match polled {
                Err(cause) => {
                    self.flights.remove(key);
                    return Landed::Panicked(text_of(&cause));
                }
                Ok(Poll::Ready(result)) => {
                    self.flights.remove(key);
                    return Landed::Done(result);
                }
                Ok(Poll::Pending) => {}
            }
            let mut waits_for_another = true;
            for _ in 0..HANDOVERS_MAX {
                // the client hands requests over in a task of its own
                tokio::task::yield_now().await;
                let Some(flight) = self.flights.get_mut(key) else { return Landed::Waits };
                if let Some(call) = self.wire.take() {
                    flight.calls += 1;
                    flight.call = Some(call);
                    return Landed::Waits;
                }
                waits_for_another = flight.waits_for_another();
                if !waits_for_another {
                    break;
                }
            }
            if waits_for_another {
                return Landed::Waits;
            }
        }
    }

    /// A LIST of pods for several AppWrappers is served: each of them has listed.
    pub fn note_shared_list(&mut self, namespace: &str, uri: &str) {
        let Some((path, query)) = uri.split_once('?') else { return };
        let names = query.split_once("+in+%28").and_then(|(_, rest)| rest.split_once("%29"));
        let Some((names, _)) = names.filter(|_| path.ends_with("/pods")) else { return };
        for (key, flight) in &mut self.flights {
            if key.namespace == namespace && names.split("%2C").any(|name| name == key.name) {
                flight.listed.insert(uri.to_owned());
            }
        }
    }
}

fn text_of(cause: &Box<dyn std::any::Any + Send>) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}
