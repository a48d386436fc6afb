//! What is really there, kept beside the store: whose each object is, and when things happened.
//!
//! Nothing here is read by the controller or taken from it; the checks compare the two.

pub mod components;
pub mod ledger;
pub mod own;
pub mod retry;
mod wrapper;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use components::{Components, Successes};
use ledger::Ledger;
use own::{Own, PodFailure};
use retry::RetryPolicies;
use wrapper::thing;

use super::actors::{is_true, nodes};
use super::scene::Tuning;
use crate::api::Phase;
use crate::sim::{Address, Change, Store, Verb};

/// The finalizer of the API, as a user would write it down.
pub const FINALIZER: &str = "workload.codeflare.dev/finalizer";
/// The label of the attempt.
pub const ATTEMPT: &str = "workload.codeflare.dev/attempt";
/// The label of the AppWrapper's UID.
pub const UID: &str = "workload.codeflare.dev/appwrapper-uid";
/// The label of the pod set.
pub const POD_SET: &str = "workload.codeflare.dev/podset";

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// AppWrappers that exist, by UID.
    pub wrappers: BTreeMap<Arc<str>, Wrapper>,
    /// The AppWrapper to which an object's chain of owners leads, by UID; also of objects that are gone.
    roots: BTreeMap<Arc<str>, Arc<str>>,
    late: BTreeSet<Arc<str>>,
    /// When a controller forgot what it had seen.
    blind_at: Duration,
    /// Nothing goes wrong but what the adversary does, crashes and relists.
    pub calm: bool,
    /// The AppWrapper that went with the last change.
    pub gone: Option<Wrapper>,
    /// Access reviews that were answered, by user and resource: when last, and whether it was allowed.
    pub reviews: BTreeMap<(String, String), (Duration, bool)>,
    /// Nodes that were shown to be lost, each with when that was, whether they are back or not.
    pub lost: BTreeMap<String, Vec<Duration>>,
    /// Nodes that are shown to be lost.
    shown_lost: BTreeSet<String>,
    /// Nodes of which was known once that nothing ran there: until when, where they are back.
    fenced: BTreeMap<String, Option<Duration>>,
    /// What retry policies, queues and the configuration have ever said.
    pub policies: RetryPolicies,
}

/// Who makes a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct By {
    /// A controller.
    pub ours: bool,
    /// It is a component that nobody wants any more.
    pub late: bool,
    /// The adversary.
    pub hostile: bool,
}

/// The state of an AppWrapper that changes from write to write.
#[expect(clippy::struct_excessive_bools, reason = "each is a condition or a field of its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// `status.phase`.
    pub phase: Phase,
    /// `spec.suspend`.
    pub suspend: bool,
    /// Its annotation `active` is false.
    pub inactive: bool,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// Our finalizer is set.
    pub finalizer: bool,
    /// `QuotaReserved` is True.
    pub quota: bool,
    /// `ResourcesDeployed` is True.
    pub deployed: bool,
    /// `status.resettingCount`.
    pub count: i64,
    /// `status.budget.used`; the count where nothing was given back.
    pub used: i64,
    /// The same of `globalUsed`.
    pub global_used: i64,
    /// Number of the running attempt.
    pub attempt: i64,
}

/// What is known of an AppWrapper.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug)]
pub struct Wrapper {
    /// Where it is.
    pub address: Address,
    /// It can be read, and is this controller's.
    pub sane: bool,
    /// It is the adversary's.
    pub hostile: bool,
    /// When its owner last wrote its status.
    pub forged_at: Option<Duration>,
    /// What of it has succeeded in this attempt.
    pub succeeded: Successes,
    /// Who may create what it wraps, where it names somebody.
    pub requester: Option<String>,
    /// Its state.
    pub state: State,
    /// What exists of it: components, pods, and what lies between them, by UID.
    pub things: BTreeMap<Arc<str>, Thing>,
    /// Its limits, by the annotations that it ever had: the shortest periods, the highest limit.
    pub tuning: Tuning,
    /// Its annotations have changed its limits.
    pub retuned: bool,
    /// Pods that each pod set should have.
    pub pod_sets: BTreeMap<String, i64>,
    /// No pod set has more completions than it runs at a time.
    pub countable: bool,
    /// Since when it is in its phase.
    pub entered: Duration,
    /// When its components were last said to be deployed.
    pub deployed_at: Duration,
    /// The same of the attempt before.
    pub deployed_before: Option<Duration>,
    /// Since when its things are being deleted.
    pub teardown: Option<Duration>,
    /// When the last of its things went.
    pub emptied: Option<Duration>,
    /// For each pod set that was complete in this attempt: since when it is, or is not.
    pub full: BTreeMap<String, Fullness>,
    /// When the first of its pods failed in this attempt.
    pub failed_pod: Option<Duration>,
    /// Pods that a counted restart named as its cause.
    pub charged: Vec<String>,
    /// It was suspended after it had failed: its deletion waits for nothing.
    pub hurried: bool,
    /// Something stood in the way of a creation of this attempt for good: a refusal, a name that is taken, a kind
    /// that is not served.
    pub obstacle: bool,
    /// Its last version that a process wrote that another had replaced, or a write that came late; 0 for none.
    pub overtaken: u64,
    /// By how much clocks were off, or writes late, at most: in this attempt, and in the one before.
    skew: (Duration, Duration),
    /// At the last change of phase: for how long the phase before had lasted.
    pub lasted: Duration,
    /// At the last change of phase: since when nothing of it existed.
    pub paused_from: Option<Duration>,
    /// At the last change of phase: for how long a pod set had lacked pods.
    pub short_before: Duration,
    /// At the last change of phase: when the first pod of the attempt had failed.
    pub failed_before: Option<Duration>,
    /// Its own policies.
    pub own: Own,
    /// How far its components are.
    pub components: Components,
    /// Pods that failed, where its policies judge pods.
    pub failures: BTreeMap<Arc<str>, PodFailure>,
    /// How long it held quota, and was productive.
    pub ledger: Ledger,
}

/// Whether a pod set has all its pods.
#[derive(Clone, Copy, Debug)]
pub enum Fullness {
    /// It has, since the first moment; and before that it had lacked some since the second.
    Full(Duration, Option<Duration>),
    /// It has not, since this moment.
    Short(Duration),
}

/// A pod set that is complete for less than this may never be seen so: watches lag.
const SEEN_AFTER: Duration = Duration::from_secs(45);

/// A LIST is over after this: its pages show the pods as they were at its begin.
const LISTED_WITHIN: Duration = Duration::from_secs(2);

/// A node that was read is fenced for so long.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// In a calm world a controller has seen what exists for so long.
const NOTICED_AFTER: Duration = Duration::from_secs(10);

/// Something that belongs to an AppWrapper.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug)]
pub struct Thing {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: Arc<str>,
    /// The attempt in its label, or its owner's.
    pub attempt: i64,
    /// It is a component itself.
    pub component: bool,
    /// The index of the component that it is, or is of.
    pub part: Option<usize>,
    /// It is a pod.
    pub pod: bool,
    /// Label of its pod set.
    pub pod_set: Option<String>,
    /// Phase, of a pod.
    pub phase: String,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// It has a deletion timestamp.
    pub terminating: bool,
    /// Made by a write that reached the server after its controller had lost the right to it; or nobody can
    /// know whose it is any more.
    pub late: bool,
    /// The adversary has taken our labels from it; from a component also its owner.
    pub escaped: bool,
    /// No controller can tell any more whose it is: it had no owner when the last one forgot what it had seen,
    /// and no status records it.
    pub unproven: bool,
    /// Since when it exists.
    pub since: Duration,
}

impl Thing {
    /// A pod that has not ended: it may use what it asked for.
    #[must_use]
    pub fn is_live_pod(&self) -> bool {
        self.pod && self.phase != "Succeeded" && self.phase != "Failed"
    }

    /// Index of its pod set in its component, by its label.
    #[must_use]
    pub fn set(&self) -> Option<usize> {
        self.pod_set.as_deref()?.split_once('-')?.1.parse().ok()
    }

    /// Keeps what was known of it before somebody could forge its labels and owners. `stripped`: the adversary
    /// has taken our labels away. `in_sight`: whether a controller has had the time to see it; absent where
    /// other things go wrong, too.
    fn remember(&mut self, known: &Self, stripped: bool, is_ours: bool, in_sight: Option<bool>) {
        self.component = known.component;
        self.pod_set.clone_from(&known.pod_set);
        self.unproven = known.unproven;
        self.escaped = known.escaped || stripped && (self.pod || self.component && !is_ours);
        // who has seen it knows it by its UID; nobody else can
        let seen = in_sight.is_some_and(|in_sight| known.escaped || in_sight) && !known.unproven;
        self.late |= self.escaped && !seen;
    }

    fn runs(&self) -> bool {
        self.pod && !self.terminating && (self.phase == "Running" || self.phase == "Succeeded")
    }
}

impl Oracle {
    /// The AppWrapper that an object belongs to.
    #[must_use]
    pub fn root_of(&self, uid: &str) -> Option<&Arc<str>> {
        self.roots.get(uid)
    }

    /// Takes in a change; returns the AppWrapper that it concerns, and its state before.
    pub fn note(
        &mut self,
        store: &Store,
        change: &Change,
        by: By,
        elapsed: Duration,
    ) -> Option<(Arc<str>, State)> {
        let By { ours, late, hostile } = by;
        let object = &change.object;
        let kind = store.kinds.get(object.address.kind);
        match kind.kind.as_str() {
            "AppWrapper" => return Some(self.note_wrapper(change, hostile, elapsed)),
            "Node" => self.note_node(store, &object.address.name, elapsed),
            "RetryPolicy" => self.policies.note_policy(object),
            "ClusterQueue" | "LocalQueue" => self.policies.note_queue(object),
            _ => {}
        }
        // what the adversary itself makes is nobody's, whatever it says
        if change.verb == Verb::Added && !hostile {
            let root = object.controller().and_then(|owner| {
                let uid = owner["uid"].as_str()?;
                if self.wrappers.contains_key(uid) {
                    return Some(Arc::from(uid));
                }
                self.roots.get(uid).cloned()
            })?;
            self.roots.insert(object.uid.clone(), root);
        }
        let root = self.roots.get(&object.uid)?.clone();
        let wrapper = self.wrappers.get_mut(&root)?;
        let before = wrapper.state;
        if change.verb == Verb::Deleted {
            self.late.extend(wrapper.remove(&object.uid, ours, elapsed));
        } else {
            // what somebody makes by order of something late is late itself
            let owner = object.controller().and_then(|owner| owner["uid"].as_str());
            let late = late || owner.is_some_and(|uid| self.late.contains(uid));
            if late {
                self.late.insert(object.uid.clone());
            }
            let known = wrapper.things.get(&object.uid);
            let since = known.map_or(elapsed, |known| known.since);
            let mut thing = thing(object, &kind.kind, &root, known, late);
            thing.since = since;
            if let Some(known) = known.filter(|_| wrapper.hostile) {
                let named = object.label(super::LABEL) == Some(&*wrapper.address.name)
                    && object.label(UID) == Some(&*root);
                let is_ours = object.controller().is_some_and(|owner| owner["uid"] == *root);
                let in_sight = elapsed >= self.blind_at.max(known.since) + NOTICED_AFTER;
                thing.remember(known, hostile && !named, is_ours, self.calm.then_some(in_sight));
                if thing.late {
                    self.late.insert(object.uid.clone());
                }
            }
            if thing.part.is_none() {
                thing.part = wrapper.part_of(&thing, owner);
            }
            if let Some(report) = object.annotation("workload.codeflare.dev/progress") {
                wrapper.ledger.note_report(report);
            }
            wrapper.note_thing(object, &thing);
            wrapper.things.insert(object.uid.clone(), thing);
        }
        wrapper.note_pods(&self.shown_lost, elapsed);
        Some((root, before))
    }

    /// A controller has forgotten what it had seen: what bears no label of ours any more is hidden from it.
    pub fn lose_sight(&mut self, store: &Store, elapsed: Duration) {
        self.blind_at = elapsed;
        for wrapper in self.wrappers.values_mut() {
            let object = store.get(&wrapper.address);
            let recorded = object.map(|object| &object.value["status"]["componentStatus"]);
            let is_recorded = |uid: &str| {
                let all = recorded.and_then(Value::as_array).into_iter().flatten();
                all.into_iter().any(|one| one["uid"] == *uid)
            };
            for (uid, thing) in &mut wrapper.things {
                let owned = store.by_uid(uid).is_some_and(|object| object.controller().is_some());
                thing.unproven = !owned && !is_recorded(uid);
                if thing.escaped {
                    thing.late = true;
                    self.late.insert(uid.clone());
                }
            }
        }
    }

    /// Whether nothing runs on a node, as far as a controller may know: it reads the node before it deletes a pod by force,
    /// and the node may come back in between.
    #[must_use]
    pub fn is_fenced(&self, node: &str, elapsed: Duration) -> bool {
        let since = |until: Duration| elapsed.saturating_sub(until);
        self.fenced.get(node).is_some_and(|until| until.is_none_or(|it| since(it) <= READ_WITHIN))
    }

    /// A node is lost or back: its pods failed then, though none of them changes.
    fn note_node(&mut self, store: &Store, name: &str, elapsed: Duration) {
        if nodes::is_fenced(store, name) {
            self.fenced.insert(name.to_owned(), None);
        } else if let Some(until) = self.fenced.get_mut(name) {
            until.get_or_insert(elapsed);
        }
        if !nodes::shows_loss(store, name) {
            self.shown_lost.remove(name);
        } else if self.shown_lost.insert(name.to_owned()) {
            self.lost.entry(name.to_owned()).or_default().push(elapsed);
        }
        for wrapper in self.wrappers.values_mut() {
            wrapper.note_pods(&self.shown_lost, elapsed);
        }
    }

    fn note_wrapper(
        &mut self,
        change: &Change,
        hostile: bool,
        elapsed: Duration,
    ) -> (Arc<str>, State) {
        let object = &change.object;
        let uid = object.uid.clone();
        if change.verb == Verb::Deleted {
            self.gone = self.wrappers.remove(&uid);
            let before = self.gone.as_ref().map(|wrapper| wrapper.state);
            return (uid, before.unwrap_or_default());
        }
        let state = State::of(object);
        let tuning = Tuning::read(object);
        let wrapper =
            self.wrappers.entry(uid.clone()).or_insert_with(|| Wrapper::new(object, elapsed));
        if hostile {
            let before = change.before.as_ref().map(|before| &before.value["status"]);
            if before.is_some_and(|old| *old != object.value["status"]) {
                wrapper.forged_at = Some(elapsed);
            }
            wrapper.hostile = true;
            wrapper.sane = false;
        }
        let before = wrapper.state;
        wrapper.retuned |= tuning != wrapper.tuning;
        wrapper.tuning = wrapper.tuning.loosest(&tuning);
        wrapper.state = state;
        wrapper.note_state(before, elapsed);
        wrapper.ledger.note(&object.value);
        wrapper.components.note(&object.value["status"]["componentStatus"], elapsed);
        if is_true(&object.value, "DeletingResources") {
            wrapper.teardown.get_or_insert(elapsed);
        }
        wrapper.hurried |= state.suspend && state.phase == Phase::Failed;
        if state.count > before.count {
            wrapper.charged.extend(cause(&object.value));
        }
        (uid, before)
    }
}

/// The attempt about which something was decided last.
#[must_use]
pub fn decided(value: &Value) -> Option<&Value> {
    let mut attempts = value["status"]["attempts"].as_array()?.iter().rev();
    attempts.find(|attempt| attempt["action"].is_string())
}

/// The pod that was named last as the cause of a failure.
fn cause(value: &Value) -> Option<String> {
    Some(decided(value)?["failure"]["podUID"].as_str()?.to_owned())
}
