//! What must hold of every call that a controller makes.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::progress::has_succeeded;
use super::{Invariant, Violation, first};
use crate::api::Phase;
use crate::observe::cache::Key;
use crate::sim::{Address, Object, Store};
use crate::world::actors::is_true;
use crate::world::moment;
use crate::world::oracle::{Oracle, Wrapper};
use crate::world::wire::Call;

/// How long after its deadline a deletion begins at the latest, where nothing goes wrong.
const PROMPT: Duration = Duration::from_secs(5);
/// The most calls that one reconcile may make.
const CALLS_MAX: u32 = 120;

/// Where a call goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// API version in the path.
    pub api_version: String,
    /// Namespace; empty for none.
    pub namespace: String,
    /// Resource.
    pub plural: String,
    /// Name; empty for a collection.
    pub name: String,
    /// Subresource; empty for none.
    pub sub: String,
}

impl Target {
    /// Reads a path.
    #[must_use]
    pub fn of(uri: &str) -> Self {
        let path = uri.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (api_version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return Self::default(),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let at = |n: usize| rest.get(n).copied().unwrap_or_default().to_owned();
        Self {
            api_version,
            namespace: namespace.to_owned(),
            plural: at(0),
            name: at(1),
            sub: at(2),
        }
    }

    /// Where the object is.
    #[must_use]
    pub fn address(&self, store: &Store) -> Option<Address> {
        let (group, version) = self.api_version.rsplit_once('/').unwrap_or(("", &self.api_version));
        let kind = store.kinds.by_path(group, version, &self.plural)?;
        Some(Address::new(kind, &self.namespace, &self.name))
    }

    /// It is an AppWrapper or its status.
    #[must_use]
    pub fn is_wrapper(&self) -> bool {
        self.plural == "appwrappers"
    }
}

/// A call, and all that a check may ask about it.
#[derive(Clone, Copy, Debug)]
pub struct CallScope<'a> {
    /// The cluster before the call.
    pub store: &'a Store,
    /// What is really there.
    pub oracle: &'a Oracle,
    /// The call.
    pub call: &'a Call,
    /// Where it goes.
    pub target: &'a Target,
    /// Its body.
    pub body: &'a Value,
    /// What was read since the last write of the same reconcile, by path, with " 404" behind what was not found.
    pub listed: &'a BTreeSet<String>,
    /// Pods that the API server removed in answer to a DELETE of this process.
    pub removed: &'a BTreeSet<Key>,
    /// The AppWrapper that is looked at; absent where the look is over.
    pub key: Option<&'a Key>,
    /// How many calls its reconcile has made.
    pub calls: u32,
    /// How many status writes its reconcile has made, with this one.
    pub status_writes: u32,
    /// Time since the world began.
    pub elapsed: Duration,
    /// How much clocks may differ, and what rounding to seconds may take.
    pub slack: Duration,
    /// Two processes believed that they led when it was sent.
    pub late: bool,
    /// It was sent by a process that another has replaced, or that cannot know what such a process has written since.
    pub replaced: bool,
    /// Nothing goes wrong in this world: deadlines are kept to the second.
    pub prompt: bool,
}

type Check = fn(&CallScope<'_>) -> Option<String>;

/// The invariants of calls.
pub const CALLS: &[Invariant<Check>] = &[
    ("S7", "only the controller's own objects are deleted, and by their UIDs", ours_alone),
    ("S10", "every write of an AppWrapper is guarded by version and UID", guarded),
    ("S10", "a reconcile writes status at most once", one_status),
    ("S12", "absence is concluded only from a list after the last write", listed_first),
    ("S13", "a deletion after failure or success waits for its grace period", kept_long_enough),
    ("L2", "the deletion of an attempt that ended begins within 5 s", begun_at_once),
    ("L5", "the deletion after a failure begins within 5 s of its grace", begun_after_failure),
    ("L6", "the deletion after a success begins within 5 s of the TTL", begun_after_success),
    ("S14", "nothing is force-deleted before its grace period has passed", forced_late),
    ("S16", "every write is in the namespace of its AppWrapper", in_namespace),
    ("S20", "a reconcile makes few calls", few_calls),
];

/// Checks all of them; the first that does not hold.
#[must_use]
pub fn check(scope: &CallScope<'_>) -> Option<Violation> {
    first(CALLS, scope).or_else(|| super::hostile::check_call(scope))
}

impl CallScope<'_> {
    fn is(&self, method: &str) -> bool {
        self.call.method.as_str() == method
    }

    /// The AppWrapper to which the object of a deletion belongs, where it exists with that UID.
    ///
    /// What came too late may go at any time.
    fn victim(&self) -> Option<(String, &Wrapper, Option<usize>)> {
        let object = self.store.get(&self.target.address(self.store)?)?;
        let wanted = self.body["preconditions"]["uid"].as_str();
        let hits = self.is("DELETE") && wanted.is_none_or(|uid| uid == &*object.uid);
        let root = self.oracle.root_of(&object.uid)?;
        let wrapper = self.oracle.wrappers.get(root)?;
        let thing = wrapper.things.get(&object.uid);
        let late = thing.is_some_and(|thing| thing.late);
        let part = thing.and_then(|thing| thing.part);
        (hits && !late).then(|| (object.address.name.to_string(), wrapper, part))
    }

    /// The AppWrapper that is written.
    fn written(&self) -> Option<&Wrapper> {
        if !self.is("PATCH") || !self.target.is_wrapper() {
            return None;
        }
        let object = self.store.get(&self.target.address(self.store)?)?;
        // of another version it will be refused
        let guard = self.body["metadata"]["resourceVersion"].as_str();
        let applies = guard.is_none_or(|version| version == object.version.to_string());
        self.oracle.wrappers.get(&object.uid).filter(|_| applies)
    }
}

fn ours_alone(scope: &CallScope<'_>) -> Option<String> {
    if !scope.is("DELETE") {
        return None;
    }
    if !scope.body["preconditions"]["uid"].is_string() {
        return Some(format!("{} without a UID", scope.call.uri));
    }
    let object = scope.store.get(&scope.target.address(scope.store)?)?;
    let hits = scope.body["preconditions"]["uid"] == *object.uid;
    let stranger = hits && scope.oracle.root_of(&object.uid).is_none();
    stranger.then(|| scope.call.uri.clone())
}

fn guarded(scope: &CallScope<'_>) -> Option<String> {
    let writes = scope.call.is_write() && scope.target.is_wrapper();
    let metadata = &scope.body["metadata"];
    let has = |key: &str| metadata[key].as_str().is_some_and(|text| !text.is_empty());
    (writes && !(has("resourceVersion") && has("uid"))).then(|| scope.call.uri.clone())
}

fn one_status(scope: &CallScope<'_>) -> Option<String> {
    (scope.status_writes > 1).then(|| format!("{} writes", scope.status_writes))
}

/// A write that says that nothing exists, or that lets the object go. Of a wrapped pod, the answer to its DELETE counts as
/// well as a LIST, since the LIST of the pods shows any other of its name. A version that was not served shows nothing, also
/// where it is served again a moment later.
fn listed_first(scope: &CallScope<'_>) -> Option<String> {
    let wrapper = scope.written()?;
    let finalizers = scope.body["metadata"]["finalizers"].as_array();
    let lets_go = wrapper.state.finalizer
        && finalizers
            .is_some_and(|all| !all.iter().any(|name| name == crate::world::oracle::FINALIZER));
    let conditions = scope.body["status"]["conditions"].as_array();
    let says_gone =
        wrapper.state.deployed && conditions.is_some() && !is_true(scope.body, "ResourcesDeployed");
    if !lets_go && !says_gone {
        return None;
    }
    let has = |part: &str| scope.listed.iter().any(|path| path.contains(part));
    let object = scope.store.get(&wrapper.address)?;
    let components = object.value["spec"]["components"].as_array();
    let unlisted = components.into_iter().flatten().find(|component| {
        let text = |key: &str| component["template"][key].as_str().unwrap_or_default();
        let served = scope.store.kinds.by_name(text("apiVersion"), text("kind"));
        let name = component["template"]["metadata"]["name"].as_str().unwrap_or_default();
        let namespaced = served.is_some_and(|kind| scope.store.kinds.get(kind).namespaced);
        let pod = Key { namespace: wrapper.address.namespace.to_string(), name: name.to_owned() };
        let is_removed = text("kind") == "Pod" && scope.removed.contains(&pod);
        let was_unserved = has(&format!("/apis/{} 404", text("apiVersion")));
        let was_listed = has(&format!("metadata.name%3D{name}&"));
        namespaced && !is_removed && !was_unserved && !was_listed
    });
    (unlisted.is_some() || !has("/pods?"))
        .then(|| format!("{} after {:?}", scope.call.uri, scope.listed))
}

fn kept_long_enough(scope: &CallScope<'_>) -> Option<String> {
    let (name, wrapper, _) = scope.victim()?;
    let state = wrapper.state;
    // whoever forges the moments from which a period runs has only itself to blame
    if wrapper.hostile || state.deleting || state.suspend || wrapper.hurried || scope.late {
        return None;
    }
    let period = match state.phase {
        Phase::Failed => wrapper.tuning.keep,
        // what a late write has made run has no quota: then everything goes
        Phase::Succeeded if wrapper.things.values().any(|thing| thing.pod && thing.late) => {
            return None;
        }
        Phase::Succeeded => wrapper.tuning.ttl,
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending
        | Phase::Terminating => return None,
    };
    let waited = scope.elapsed.saturating_sub(wrapper.entered);
    (waited + scope.slack < period).then(|| format!("{name} after {waited:?} of {period:?}"))
}

/// How late the first component of an AppWrapper is deleted in one of these phases, where nothing goes wrong: so long after it
/// entered the phase, and a period of it.
fn begun_late(
    scope: &CallScope<'_>,
    phases: &[Phase],
    period: impl Fn(&Wrapper) -> Duration,
) -> Option<String> {
    if !scope.prompt {
        return None;
    }
    let (name, wrapper, _) = scope.victim()?;
    let object = scope.store.get(&scope.target.address(scope.store)?)?;
    let is_component = wrapper.things.get(&object.uid).is_some_and(|thing| thing.component);
    let mut things = wrapper.things.values();
    let is_first = !things.any(|thing| thing.component && thing.terminating);
    if !is_component || !is_first || wrapper.retuned || !phases.contains(&wrapper.state.phase) {
        return None;
    }
    let waited = scope.elapsed.saturating_sub(wrapper.entered);
    let period = period(wrapper);
    let late = waited > period.saturating_add(PROMPT + scope.slack);
    late.then(|| format!("{name} after {waited:?} of {period:?} in {:?}", wrapper.state.phase))
}

fn begun_at_once(scope: &CallScope<'_>) -> Option<String> {
    let phases = [Phase::Resetting, Phase::Suspending, Phase::Terminating];
    begun_late(scope, &phases, |_| Duration::ZERO)
}

fn begun_after_failure(scope: &CallScope<'_>) -> Option<String> {
    begun_late(scope, &[Phase::Failed], |wrapper| wrapper.tuning.keep)
}

fn begun_after_success(scope: &CallScope<'_>) -> Option<String> {
    begun_late(scope, &[Phase::Succeeded], |wrapper| wrapper.tuning.ttl)
}

fn forced_late(scope: &CallScope<'_>) -> Option<String> {
    if scope.body["gracePeriodSeconds"] != 0 || scope.replaced {
        return None;
    }
    let (name, wrapper, part) = scope.victim()?;
    if wrapper.hostile {
        return None;
    }
    // a pod that is being deleted on a node where nothing runs is waited for by nobody
    let pod = scope.store.get(&scope.target.address(scope.store)?)?;
    let node = pod.value["spec"]["nodeName"].as_str();
    if pod.is_deleting() && node.is_some_and(|node| scope.oracle.is_fenced(node, scope.elapsed)) {
        return None;
    }
    let recreated = part.and_then(|part| wrapper.components.going.get(&part).copied());
    let due = due_to_go(pod);
    let without_work = || due.filter(|_| has_no_work(scope, wrapper, pod));
    // the deletion of a pod may have begun before that of everything
    let is_pod = wrapper.things.get(&pod.uid).is_some_and(|thing| thing.pod);
    let begun = wrapper.teardown.or(recreated);
    let begun = begun.map(|since| due.filter(|_| is_pod).map_or(since, |due| due.min(since)));
    let Some(since) = begun.or_else(without_work) else {
        return Some(format!("{name} in {:?}", wrapper.state.phase));
    };
    let waited = scope.elapsed.saturating_sub(since);
    let grace = wrapper.tuning.force;
    (waited + scope.slack < grace).then(|| format!("{name} after {waited:?} of {grace:?}"))
}

/// When what is being deleted was to be gone.
fn due_to_go(object: &Object) -> Option<Duration> {
    let due: Timestamp = object.value["metadata"]["deletionTimestamp"].as_str()?.parse().ok()?;
    Duration::try_from(due.duration_since(moment(Duration::ZERO))).ok()
}

/// Whether all work is done for which a pod was there: that of its AppWrapper, or that of its pod set.
fn has_no_work(scope: &CallScope<'_>, wrapper: &Wrapper, pod: &Object) -> bool {
    have_all_succeeded(scope, wrapper) || has_pod_set_succeeded(scope, wrapper, pod)
}

/// Whether as many pods have succeeded in the pod set of a pod as its Job completes, or else as it declares; one is enough for
/// a Job that ends with its pods, however many they are. Of a pod set that is not declared, no number is.
fn has_pod_set_succeeded(scope: &CallScope<'_>, wrapper: &Wrapper, pod: &Object) -> bool {
    let thing = wrapper.things.get(&pod.uid);
    let Some((name, part)) = thing.and_then(|thing| thing.pod_set.as_ref().zip(thing.part)) else {
        return false;
    };
    let succeeded = wrapper.succeeded.pods.get(name).map_or(0, BTreeSet::len);
    let is_open_ended = wrapper.own.open_ended.contains(&part);
    let completions = scope.store.get(&wrapper.address).and_then(|object| {
        let template = &object.value["spec"]["components"][part]["template"];
        template["spec"]["completions"].as_i64()
    });
    let declared = wrapper.pod_sets.get(name).copied();
    let wanted = if is_open_ended { 1 } else { completions.or(declared).unwrap_or(i64::MAX) };
    i64::try_from(succeeded).is_ok_and(|succeeded| succeeded >= wanted)
}

/// Whether it is written that every component with pods has succeeded.
fn have_all_succeeded(scope: &CallScope<'_>, wrapper: &Wrapper) -> bool {
    let Some(object) = scope.store.get(&wrapper.address) else { return false };
    let is_done = |(index, status): (usize, &Value)| {
        status["podSets"].as_array().is_none_or(Vec::is_empty)
            || has_succeeded(&object.value, index)
    };
    let components = object.value["status"]["componentStatus"].as_array();
    components.is_some_and(|components| components.iter().enumerate().all(is_done))
}

fn in_namespace(scope: &CallScope<'_>) -> Option<String> {
    let own = scope.key.is_none_or(|key| key.namespace == scope.target.namespace);
    let wrong = scope.call.is_write() && !own && !scope.replaced;
    wrong.then(|| scope.call.uri.clone())
}

fn few_calls(scope: &CallScope<'_>) -> Option<String> {
    (scope.calls > CALLS_MAX).then(|| format!("{} calls", scope.calls))
}
