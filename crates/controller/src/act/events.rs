//! Kubernetes events, sent off the path of reconcile: an API server that refuses them or is slow about
//! them holds up no decision.
//!
//! ```text
//! push ─▶ queue of its namespace, bounded ─▶ publish: one at a time for each namespace ─▶ Recorder
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::Notify;

pub use kube::runtime::events::EventType;

use crate::api::AppWrapper;
use crate::client::is_denied_by_authorizer;
use crate::locked::Locked;
use crate::observe::assemble::Wrapper;
use crate::rate::{Rate, RateLimiter};
use crate::telemetry;

/// Events of one namespace that wait; more are dropped.
const OF_NAMESPACE_MAX: usize = 64;
/// Events that wait in all; beyond it a namespace has one at most.
const WAITING_MAX: usize = 1024;
/// The rates of events in a namespace; more are dropped. Each is an API call, and the status has the same facts; and each
/// is an object that the API server keeps for an hour, whatever quota the namespace has.
const NORMAL: Rate = Rate { each: Duration::from_millis(200), at_once: 50 };
const WARNING: Rate = Rate { each: Duration::from_millis(500), at_once: 200 };
/// How many are sent at the same time, each of another namespace.
const SENT_AT_ONCE: usize = 16;
/// How long sending an event may take.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(5);
/// The pauses before an event is sent again that may be accepted later: an API server that starts answers 403 to everyone
/// until it knows the roles.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(8)];
/// A recorder remembers what it has sent, for minutes, and has no bound of its own: after so many events
/// a new one takes its place. A repeated event is then created again instead of being counted.
const REMEMBERED_MAX: usize = 64;
/// The longest message that the API accepts is 1,024 bytes.
const MESSAGE_BYTES_MAX: usize = 1000;
/// Who reports.
pub(super) const CONTROLLER: &str = "appwrapper";

/// The object that an event is about.
#[derive(Clone, Debug)]
pub struct About<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

impl Wrapper {
    /// The AppWrapper, as what an event is about.
    #[must_use]
    pub fn about(&self) -> About<'_> {
        About { namespace: &self.namespace, name: &self.name, uid: &self.uid }
    }
}

/// An event that waits to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Normal or Warning.
    pub kind: EventType,
    /// Namespace of the AppWrapper.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// CamelCase reason.
    pub reason: &'static str,
    /// What happened, in at most 1,000 bytes.
    pub message: String,
}

/// Where events are handed in. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Notify,
    /// Nothing waits any more, and nothing is on its way.
    all_sent: Notify,
    normal: RateLimiter<String>,
    warning: RateLimiter<String>,
}

impl Default for Shared {
    fn default() -> Self {
        let [changed, all_sent] = [(); 2].map(|()| Notify::default());
        let [normal, warning] = [NORMAL, WARNING].map(RateLimiter::new);
        Self { waiting: Mutex::default(), changed, all_sent, normal, warning }
    }
}

/// The events that wait, for each namespace in the order in which they were made.
#[derive(Debug, Default)]
struct Waiting {
    of: BTreeMap<String, VecDeque<Notice>>,
    /// Namespaces in the order of their turns; each that has a notice and none on its way is in it once.
    turns: VecDeque<String>,
    on_their_way: BTreeSet<String>,
    count: usize,
}

impl Waiting {
    /// False where there was no room: the event is dropped, or a Normal one for a Warning.
    fn push(&mut self, notice: Notice) -> bool {
        let name = notice.namespace.clone();
        let has = self.of.get(&name).map_or(0, VecDeque::len);
        let is_full = has >= OF_NAMESPACE_MAX || (self.count >= WAITING_MAX && has > 0);
        if is_full {
            if notice.kind == EventType::Warning && self.drop_normal(&name) {
                self.put(name, notice);
            }
            return false;
        }
        if has == 0 && !self.on_their_way.contains(&name) {
            self.turns.push_back(name.clone());
        }
        self.put(name, notice);
        true
    }

    fn put(&mut self, namespace: String, notice: Notice) {
        self.of.entry(namespace).or_default().push_back(notice);
        self.count += 1;
    }

    /// Drops the oldest Normal event of a namespace; whether there is one.
    fn drop_normal(&mut self, namespace: &str) -> bool {
        let Some(queue) = self.of.get_mut(namespace) else { return false };
        let Some(at) = queue.iter().position(|it| it.kind == EventType::Normal) else {
            return false;
        };
        queue.remove(at);
        self.count -= 1;
        true
    }

    /// The next event of the next namespace; no other of it until [`Waiting::sent`].
    fn take(&mut self) -> Option<Notice> {
        let name = self.turns.pop_front()?;
        let queue = self.of.get_mut(&name)?;
        let notice = queue.pop_front();
        if queue.is_empty() {
            self.of.remove(&name);
        }
        self.count = self.count.saturating_sub(usize::from(notice.is_some()));
        self.on_their_way.insert(name);
        notice
    }

    fn sent(&mut self, namespace: &str) {
        self.on_their_way.remove(namespace);
        if self.of.contains_key(namespace) {
            self.turns.push_back(namespace.to_owned());
        }
    }

    /// How many wait or are on their way.
    fn left(&self) -> usize {
        self.count + self.on_their_way.len()
    }
}

impl Events {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.locked()
    }

    /// Queues an event; `now` is monotonic time. False where one was dropped: too many are pending, or the events of
    /// its type in the namespace exceed their rate. A Warning takes the place of a Normal event.
    #[must_use]
    pub fn push(
        &self,
        now: Duration,
        about: &About<'_>,
        kind: EventType,
        reason: &'static str,
        message: &str,
    ) -> bool {
        let rate = match kind {
            EventType::Normal => &self.0.normal,
            EventType::Warning => &self.0.warning,
        };
        if rate.take(about.namespace.to_owned(), 1, now).is_err() {
            return false;
        }
        let accepted = self.waiting().push(Notice {
            kind,
            namespace: about.namespace.to_owned(),
            name: about.name.to_owned(),
            uid: about.uid.to_owned(),
            reason,
            message: message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned(),
        });
        if accepted {
            self.0.changed.notify_one();
        }
        accepted
    }

    /// Takes out the next event, for whoever sends them in another way than [`Events::publish`].
    #[must_use]
    pub fn take(&self) -> Option<Notice> {
        let mut waiting = self.waiting();
        let notice = waiting.take()?;
        waiting.sent(&notice.namespace);
        Some(notice)
    }

    /// How many events are not sent yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.waiting().left()
    }

    /// Ends when everything is sent that was handed in, while [`Events::publish`] runs.
    pub async fn all_sent(&self) {
        loop {
            let all_sent = self.0.all_sent.notified();
            if self.left() == 0 {
                return;
            }
            all_sent.await;
        }
    }

    /// Sends what is handed in, forever; calls `lost` for each event that the API server does not accept.
    pub async fn publish(&self, client: &Client, lost: impl Fn()) {
        let recorder = || Recorder::new(client.clone(), Reporter::from(CONTROLLER));
        let (mut current, mut used) = (recorder(), 0);
        let mut sending = FuturesUnordered::new();
        loop {
            while sending.len() < SENT_AT_ONCE
                && let Some(notice) = { self.waiting().take() }
            {
                used += 1;
                if used > REMEMBERED_MAX {
                    (current, used) = (recorder(), 1);
                }
                let recorder = current.clone();
                sending.push(async move {
                    let (event, about) = event(&notice);
                    (send(&recorder, &event, &about, &AGAIN_AFTER).await, notice.namespace)
                });
            }
            tokio::select! {
                Some((is_sent, namespace)) = sending.next() => {
                    self.waiting().sent(&namespace);
                    if !is_sent {
                        lost();
                    }
                    if self.left() == 0 {
                        self.0.all_sent.notify_waiters();
                    }
                }
                () = self.0.changed.notified() => {}
            }
        }
    }
}

/// Sends an event, again after each of these pauses where that may help; whether it was accepted. One that was not is logged.
pub(super) async fn send(
    recorder: &Recorder,
    event: &Event,
    about: &ObjectReference,
    again_after: &[Duration],
) -> bool {
    let mut pauses = again_after.iter();
    loop {
        let sent = tokio::time::timeout(ACCEPTED_WITHIN, recorder.publish(event, about)).await;
        let error = match sent {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        let pause = pauses.next().filter(|_| error.as_ref().is_some_and(may_pass));
        let Some(pause) = pause else {
            not_sent(event, about, error.as_ref());
            return false;
        };
        tokio::time::sleep(*pause).await;
    }
}

/// Whether an event may be accepted later. Not where the namespace refuses it, whose users choose its quota: each place
/// that waits is one less for the others.
fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            is_denied_by_authorizer(status) || status.code == 429 || status.code >= 500
        }
        error => matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_)),
    }
}

fn not_sent(event: &Event, about: &ObjectReference, error: Option<&kube::Error>) {
    let reason = event.reason.as_str();
    let (kind, namespace, name) =
        (about.kind.as_deref(), about.namespace.as_deref(), about.name.as_deref());
    let is_appwrapper = kind == Some(&*AppWrapper::kind(&()));
    let (appwrapper, name) = if is_appwrapper { (name, None) } else { (None, name) };
    let cause = match error {
        Some(error) => telemetry::chain(error),
        None => format!("no answer within {} s", ACCEPTED_WITHIN.as_secs()),
    };
    // the level of a line is fixed where it is written
    macro_rules! log_at {
        ($level:ident) => {
            tracing::$level!(
                cause,
                reason,
                kind,
                namespace,
                appwrapper,
                name,
                "Failed to send an event."
            )
        };
    }
    if error.is_some_and(is_going) { log_at!(debug) } else { log_at!(warn) }
}

/// Whether the namespace is being deleted, or is gone: nothing can be created in it.
fn is_going(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 404 || causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// An event as the API has it, and the AppWrapper that it is about.
fn event(notice: &Notice) -> (Event, ObjectReference) {
    let about = ObjectReference {
        api_version: Some(AppWrapper::api_version(&()).into_owned()),
        kind: Some(AppWrapper::kind(&()).into_owned()),
        namespace: Some(notice.namespace.clone()),
        name: Some(notice.name.clone()),
        uid: Some(notice.uid.clone()),
        ..ObjectReference::default()
    };
    let event = Event {
        type_: notice.kind,
        reason: notice.reason.to_owned(),
        note: Some(notice.message.clone()),
        action: action(notice),
        secondary: None,
    };
    (event, about)
}

/// A recorder counts events of one reason and action as one, with the first message alone. A failure of
/// another pod is another event, so the message is part of the action.
fn action(notice: &Notice) -> String {
    let mut hasher = DefaultHasher::new();
    notice.message.hash(&mut hasher);
    format!("{}-{:x}", notice.reason, hasher.finish())
}

#[cfg(test)]
mod tests;
