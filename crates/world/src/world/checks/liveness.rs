//! What must be reached once nothing goes wrong any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::kueue::all_returned;
use super::{Invariant, Violation, first};
use crate::api::Phase;
use crate::observe::cache::Key;
use crate::sim::{Object, Store};
use crate::world::actors::kueue::{Kueue, QUEUE, WorkloadState};
use crate::world::actors::workload;
use crate::world::actors::{is_true, phase};
use crate::world::oracle::{Oracle, Wrapper};
use crate::world::replica::Replica;

/// The end of a run, and all that a check may ask about it.
#[derive(Clone, Copy)]
pub struct EndScope<'a> {
    /// The cluster.
    pub store: &'a Store,
    /// What is really there.
    pub oracle: &'a Oracle,
    /// Kueue's books.
    pub kueue: &'a Kueue,
    /// The controller that leads.
    pub leader: &'a Replica,
    /// Resource version when everything had come to rest, and after everything was looked at once more.
    pub rest: (u64, u64),
    /// Whether everything came to rest at all.
    pub rested: bool,
    /// Time since the world began.
    pub elapsed: Duration,
}

/// A check of the end.
pub type Check = fn(&EndScope<'_>) -> Option<String>;

/// The invariants of the end.
pub const LIVENESS: &[Invariant<Check>] = &[
    ("L10", "the controller becomes idle", comes_to_rest),
    ("L1", "an AppWrapper that may run is running and healthy, or has ended", runs_or_ended),
    ("L1", "steps continue, and recreated components come back", steps_go_on),
    ("L2", "a suspended AppWrapper is Suspended and holds no quota", suspended),
    ("L2", "an inactive AppWrapper has no resources, and no quota with a Workload", inactive),
    ("L3", "a deleted AppWrapper is removed", deleted),
    ("L5", "a failed AppWrapper holds no resources", failed_holds_nothing),
    ("L6", "a succeeded AppWrapper is cleaned up after its TTL", cleaned_up),
    ("L2", "objects of late writes are removed", nothing_late),
    ("S4", "quota is released", quota_is_back),
    (
        "L11",
        "an AppWrapper whose pods stopped reporting is not left running",
        super::progress::none_hangs,
    ),
    ("L12", "a Workload that the controller has deactivated is active again", all_returned),
    ("L7", "every AppWrapper is reconciled", nothing_due),
    ("L8", "the caches show what is stored", caches_agree),
    ("S20", "nothing is written while the controller is idle", no_writes_at_rest),
];

/// Checks all of them; the first that does not hold.
#[must_use]
pub fn check(scope: &EndScope<'_>) -> Option<Violation> {
    first(LIVENESS, scope).or_else(|| super::hostile::check_end(scope))
}

impl<'a> EndScope<'a> {
    fn wrappers(&self) -> impl Iterator<Item = (&'a Wrapper, &'a Arc<Object>)> {
        let all = self.oracle.wrappers.values().filter(|wrapper| wrapper.sane);
        let store = self.store;
        all.filter_map(move |wrapper| Some((wrapper, store.get(&wrapper.address)?)))
    }

    fn find(&self, wrong: impl Fn(&Wrapper, &Value) -> Option<String>) -> Option<String> {
        self.wrappers().find_map(|(wrapper, object)| {
            let why = wrong(wrapper, &object.value)?;
            Some(format!("{}: {why}", wrapper.address.name))
        })
    }
}

fn comes_to_rest(scope: &EndScope<'_>) -> Option<String> {
    (!scope.rested).then(|| "there is always work left".to_owned())
}

fn runs_or_ended(scope: &EndScope<'_>) -> Option<String> {
    scope.find(|wrapper, object| {
        let state = wrapper.state;
        if state.deleting
            || state.suspend
            || state.inactive
            || waits_for_lost(scope, wrapper, object)
        {
            return None;
        }
        match state.phase {
            Phase::Succeeded | Phase::Failed => None,
            Phase::Running => {
                let healthy = is_true(object, "PodsReady") && !is_true(object, "Unhealthy");
                // a pod that stays Terminating is waited for no longer than its bound
                (!healthy).then(|| "Running, but not healthy".to_owned())
            }
            Phase::Empty
            | Phase::Suspended
            | Phase::Resuming
            | Phase::Resetting
            | Phase::Suspending
            | Phase::Terminating => Some(format!("stuck in {:?}", state.phase)),
        }
    })
}

/// Whether a component waits for a pod that lost its owner before the controller could read whose it was, and the status says
/// so: it is not created beside such a pod until somebody deletes that.
fn waits_for_lost(scope: &EndScope<'_>, wrapper: &Wrapper, object: &Value) -> bool {
    let components = items(&object["status"]["componentStatus"]);
    let is_named = components.iter().any(|status| {
        let mut conditions = items(&status["conditions"]).iter();
        conditions.any(|one| one["reason"] == "UndeterminedPods" && one["status"] == "True")
    });
    let is_recorded =
        |uid: &Value| components.iter().any(|it| items(&it["podOwners"]).contains(uid));
    let exists = |uid: &Value| uid.as_str().is_some_and(|uid| scope.store.by_uid(uid).is_some());
    let is_lost = |uid: &Arc<str>| {
        let owner = scope.store.by_uid(uid).and_then(|pod| pod.controller());
        let uid = owner.map(|owner| &owner["uid"]);
        uid.is_none_or(|uid| !exists(uid) && !is_recorded(uid))
    };
    is_named && wrapper.things.iter().filter(|(_, thing)| thing.pod).any(|(uid, _)| is_lost(uid))
}

/// The items of a list; none of what is no list.
fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A step that has not begun waits for one that has not got far enough; nothing is on its way.
fn steps_go_on(scope: &EndScope<'_>) -> Option<String> {
    scope.find(|wrapper, object| {
        let Wrapper { own, components, state, .. } = wrapper;
        if state.phase != Phase::Running || state.deleting || state.suspend || state.inactive {
            return None;
        }
        if waits_for_lost(scope, wrapper, object) {
            return None;
        }
        if !components.coming.is_empty() || !components.going.is_empty() {
            // a component of an endless step may wait for what is Terminating, as long as that takes
            return Some(format!("{:?} to come, {:?} to go", components.coming, components.going));
        }
        let begun = |step: usize| {
            let mut parts = (0..own.parts.len()).filter(|part| own.steps[*part] == step);
            parts.any(|part| components.made.contains(&part))
        };
        let last = own.steps.iter().copied().max().unwrap_or(0);
        let waits = (1..=last).find(|step| own.steps.contains(step) && !begun(*step))?;
        let mut earlier = (0..own.parts.len()).filter(|part| own.steps[*part] < waits);
        // a Job is not complete before the last of its pods is gone, however long that takes
        let leaving = wrapper.things.values().any(|thing| thing.pod && thing.terminating);
        let far =
            !leaving && earlier.all(|part| components.has_reached(own, part, &wrapper.pod_sets));
        far.then(|| format!("step {waits} has not begun"))
    })
}

fn suspended(scope: &EndScope<'_>) -> Option<String> {
    scope.find(|wrapper, _| {
        let state = wrapper.state;
        let right = !state.suspend
            || state.deleting
            || matches!(state.phase, Phase::Succeeded | Phase::Failed)
            || state.phase == Phase::Suspended && !state.quota && wrapper.things.is_empty();
        (!right).then(|| format!("suspended, but in {:?}", state.phase))
    })
}

/// Without a Workload it keeps what it calls its quota, since nobody can take it back.
fn inactive(scope: &EndScope<'_>) -> Option<String> {
    scope.wrappers().find_map(|(wrapper, object)| {
        let state = wrapper.state;
        let has_workload = workload::find(scope.store, &object.uid).is_some();
        let right = !state.inactive
            || state.deleting
            || matches!(state.phase, Phase::Succeeded | Phase::Failed)
            || wrapper.things.is_empty()
                && (state.phase == Phase::Suspended && !state.quota
                    || state.phase == Phase::Resetting && !has_workload);
        (!right).then(|| format!("{}: inactive, but in {:?}", wrapper.address.name, state.phase))
    })
}

/// What lost its owner, as in an orphaning deletion, and was then forgotten holds it until somebody deletes that.
fn deleted(scope: &EndScope<'_>) -> Option<String> {
    scope.find(|wrapper, _| {
        let stays = wrapper.state.deleting && wrapper.things.values().all(|thing| !thing.unproven);
        stays.then(|| format!("deleted, but in {:?}", wrapper.state.phase))
    })
}

fn failed_holds_nothing(scope: &EndScope<'_>) -> Option<String> {
    scope.find(|wrapper, _| {
        let holds = wrapper.state.quota || wrapper.state.deployed || !wrapper.things.is_empty();
        (wrapper.state.phase == Phase::Failed && holds)
            .then(|| format!("Failed with {} things", wrapper.things.len()))
    })
}

fn cleaned_up(scope: &EndScope<'_>) -> Option<String> {
    scope.find(|wrapper, _| {
        let holds = wrapper.state.quota || wrapper.state.deployed || !wrapper.things.is_empty();
        (wrapper.state.phase == Phase::Succeeded && holds)
            .then(|| format!("Succeeded with {} things", wrapper.things.len()))
    })
}

fn nothing_late(scope: &EndScope<'_>) -> Option<String> {
    scope.find(|wrapper, _| {
        let attempt = wrapper.state.attempt;
        let mut things = wrapper.things.values();
        let stray = things.find(|thing| thing.component && thing.attempt != attempt)?;
        Some(format!("{} of attempt {} beside {attempt}", stray.name, stray.attempt))
    })
}

fn quota_is_back(scope: &EndScope<'_>) -> Option<String> {
    scope.wrappers().find_map(|(wrapper, object)| {
        object.label(QUEUE)?;
        let workload = scope.kueue.workloads.get(&object.uid)?;
        let ended = matches!(wrapper.state.phase, Phase::Succeeded | Phase::Failed);
        let holds = matches!(workload.standing, WorkloadState::Admitted | WorkloadState::Evicting);
        (ended && holds).then(|| format!("{} in {:?}", wrapper.address.name, wrapper.state.phase))
    })
}

fn nothing_due(scope: &EndScope<'_>) -> Option<String> {
    let key = scope.leader.flights.keys().next()?;
    Some(format!("{} is still being reconciled", key.name))
}

/// Each pod that names an AppWrapper is in the cache and no other: with its UID and its phase, or, where it was put aside, by
/// its name.
fn caches_agree(scope: &EndScope<'_>) -> Option<String> {
    let pods = scope.store.kinds.by_name("v1", "Pod")?;
    let mut stored: BTreeMap<(Key, String), &Arc<Object>> = BTreeMap::new();
    for pod in scope.store.all(pods) {
        if let Some(name) = pod.label("workload.codeflare.dev/appwrapper") {
            let namespace = pod.address.namespace.to_string();
            let key = Key { namespace, name: name.to_owned() };
            stored.insert((key, pod.address.name.to_string()), pod);
        }
    }
    scope.leader.context.cache.pod_cache(|pod_cache| {
        for (key, name, record) in pod_cache.all() {
            let Some(pod) = stored.remove(&(key.clone(), name.to_owned())) else {
                return Some(format!("{}: pod {name} is in the cache alone", key.name));
            };
            let Some(record) = record else { continue };
            let (uid, cached) = (&record.identity.uid, record.pod.phase.as_str());
            if **uid != *pod.uid || cached != phase(pod) {
                let (of, phase) = (&pod.uid, phase(pod));
                return Some(format!("{}: {name} {uid} is {cached}, {of} is {phase}", key.name));
            }
        }
        let ((key, name), _) = stored.pop_first()?;
        Some(format!("{}: pod {name} is not in the cache", key.name))
    })
}

fn no_writes_at_rest(scope: &EndScope<'_>) -> Option<String> {
    let (before, after) = scope.rest;
    (before != after).then(|| format!("{} writes", after - before))
}
