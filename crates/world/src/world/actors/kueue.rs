//! Kueue: lets AppWrappers in as quota allows, and takes quota back once it is told to be free.
//!
//! The Workload of each AppWrapper is a record of the model. As in Kueue's job reconciler, a stop
//! sets `suspend` and then reads `QuotaReserved` from the reply: while that is True, the quota stays. A Workload of
//! another size than its AppWrapper is deleted, and its quota is free at once (`ensureOneWorkload`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Env, Task, is_true, workload};
use crate::kinds::quantity::amount;
use crate::sim::{Address, Object, Part, Store};

/// Label that names the LocalQueue.
pub const QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Label that names the priority; a number here.
pub const PRIORITY: &str = "kueue.x-k8s.io/priority-class";

/// Where a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadState {
    /// It waits for quota.
    Pending,
    /// It has quota.
    Admitted,
    /// It has to go, and keeps its quota until it says that it holds nothing.
    Evicting,
    /// It has ended and holds nothing.
    Finished,
}

/// What Kueue knows of an AppWrapper.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Where it is.
    pub standing: WorkloadState,
    /// What it asks for: resources (pods, cpu, …) and amounts in thousandths.
    pub requests: BTreeMap<String, i64>,
    /// What its containers say of resources: a workload of another size is another workload.
    size: Vec<String>,
    priority: i64,
    queued: u64,
    ready_by: Option<Duration>,
    again_at: Duration,
    /// `spec.active` of the object.
    active: bool,
    /// When it was admitted last.
    pub admitted: Duration,
    /// Its pods were seen to be ready since then.
    pub saw_ready: bool,
    /// How often it was evicted because its pods were not ready.
    evictions: u32,
    /// Kueue itself has deactivated it.
    pub given_up: bool,
}

/// Kueue.
#[derive(Clone, Debug, Default)]
pub struct Kueue {
    /// By UID of the AppWrapper.
    pub workloads: BTreeMap<Arc<str>, Workload>,
    /// What the ClusterQueue has of each resource, in thousandths; nothing is managed where empty.
    pub quota: BTreeMap<String, i64>,
    /// How long pods may take to be ready, where that is asked for.
    pub ready_within: Option<Duration>,
    /// How long they may take to be ready again.
    pub recover_within: Option<Duration>,
    /// `backoffLimitCount`: after how many such evictions the next one deactivates the Workload.
    requeuing_limit: Option<u32>,
    /// Workloads are objects.
    pub shows_workloads: bool,
    counted: u64,
}

/// What happened to an AppWrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing.
    Nothing,
    /// It was let in.
    Admitted,
    /// It has to make room for another.
    Preempted,
    /// Its pods took too long.
    NotReady,
    /// Its Workload was deactivated.
    Deactivated,
    /// Its quota was taken back.
    Released,
}

/// The AppWrapper that it happened to, and what.
pub type AdmissionEvent = (Address, Outcome);

impl Kueue {
    /// A ClusterQueue with so much of each resource, and Kueue's patience.
    #[must_use]
    pub fn new(quota: BTreeMap<String, i64>, ready_within: Option<Duration>) -> Self {
        Self { quota, ready_within, recover_within: ready_within, ..Self::default() }
    }

    /// The same with limits of its patience, where they are given: how long pods may take to be ready again, and how often.
    #[must_use]
    pub fn giving_up(self, limits: Option<(Duration, u32)>) -> Self {
        let Some((recover_within, most)) = limits else { return self };
        Self { recover_within: Some(recover_within), requeuing_limit: Some(most), ..self }
    }

    /// The same with Workloads as objects, or without.
    #[must_use]
    pub fn showing(self, shows_workloads: bool) -> Self {
        Self { shows_workloads, ..self }
    }

    /// What is reserved of each resource.
    #[must_use]
    pub fn used(&self) -> BTreeMap<String, i64> {
        let mut used = BTreeMap::new();
        for workload in self.workloads.values() {
            if matches!(workload.standing, WorkloadState::Admitted | WorkloadState::Evicting) {
                for (name, amount) in &workload.requests {
                    *used.entry(name.clone()).or_insert(0) += amount;
                }
            }
        }
        used
    }

    /// Looks at an AppWrapper and makes one move.
    pub fn act(&mut self, env: &mut Env<'_>, address: &Address) -> AdmissionEvent {
        let nothing = (address.clone(), Outcome::Nothing);
        let gone: Vec<Arc<str>> = self.gone(env.store);
        if !gone.is_empty() {
            for uid in gone {
                self.workloads.remove(&uid);
            }
            self.wake_pending(env);
        }
        let Some(wrapper) = env.store.get(address).cloned() else { return nothing };
        if self.quota.is_empty() || wrapper.label(QUEUE).is_none() || wrapper.is_deleting() {
            return nothing;
        }
        if !self.workloads.contains_key(&wrapper.uid) {
            self.enqueue(&wrapper);
        }
        if self.shows_workloads {
            let active = workload::ensure(env, &wrapper);
            if let Some(workload) = self.workloads.get_mut(&wrapper.uid) {
                // whoever deactivated it: Kueue has forgotten how often it was evicted
                if active && !workload.active {
                    (workload.given_up, workload.evictions) = (false, 0);
                }
                workload.active = active;
            }
        }
        let Some(workload) = self.workloads.get(&wrapper.uid) else { return nothing };
        let event = match workload.standing {
            WorkloadState::Pending if !workload.active => nothing,
            WorkloadState::Pending => self.admit(env, &wrapper),
            WorkloadState::Admitted => self.look_after(env, &wrapper),
            WorkloadState::Evicting => (address.clone(), self.release(env, &wrapper)),
            WorkloadState::Finished => nothing,
        };
        if self.shows_workloads {
            self.tell(env, &wrapper.uid);
        }
        event
    }

    fn tell(&self, env: &mut Env<'_>, uid: &str) {
        let Some(workload) = self.workloads.get(uid) else { return };
        let reason = if workload.given_up { workload::GIVEN_UP } else { "Kueue" };
        let (holds_quota, evicted) = match workload.standing {
            WorkloadState::Pending => (false, None),
            WorkloadState::Admitted => (true, Some(false)),
            WorkloadState::Evicting => (true, Some(true)),
            WorkloadState::Finished => (false, Some(false)),
        };
        workload::tell(env, uid, (holds_quota, evicted), reason);
    }

    fn gone(&self, store: &Store) -> Vec<Arc<str>> {
        self.workloads.keys().filter(|uid| store.by_uid(uid).is_none()).cloned().collect()
    }

    fn wake_pending(&self, env: &mut Env<'_>) {
        for uid in self.workloads.keys() {
            if let Some(wrapper) = env.store.by_uid(uid) {
                env.agenda.add(Task::Queue(wrapper.address.clone()));
            }
        }
    }

    fn enqueue(&mut self, wrapper: &Object) {
        self.counted += 1;
        let workload = Workload {
            standing: WorkloadState::Pending,
            requests: requests(&wrapper.value, &self.quota),
            size: size(&wrapper.value),
            priority: wrapper.label(PRIORITY).and_then(|text| text.parse().ok()).unwrap_or(0),
            queued: self.counted,
            ready_by: None,
            again_at: Duration::ZERO,
            active: true,
            admitted: Duration::ZERO,
            saw_ready: false,
            evictions: 0,
            given_up: false,
        };
        self.workloads.insert(wrapper.uid.clone(), workload);
    }

    fn set(&mut self, uid: &str, standing: WorkloadState) {
        if let Some(workload) = self.workloads.get_mut(uid) {
            workload.standing = standing;
        }
    }

    fn fits(&self, requests: &BTreeMap<String, i64>) -> bool {
        let used = self.used();
        requests.iter().all(|(name, amount)| {
            let has = self.quota.get(name).copied().unwrap_or(0);
            used.get(name).copied().unwrap_or(0) + amount <= has
        })
    }

    /// Whether it would fit if all of these were gone.
    fn would_fit(
        &self,
        requests: &BTreeMap<String, i64>,
        gone: impl Fn(&Workload) -> bool,
    ) -> bool {
        let freed = |name: &String| -> i64 {
            let leaving = self.workloads.values().filter(|one| gone(one));
            leaving.filter_map(|one| one.requests.get(name)).sum()
        };
        let used = self.used();
        requests.iter().all(|(name, amount)| {
            let has = self.quota.get(name).copied().unwrap_or(0);
            used.get(name).copied().unwrap_or(0) - freed(name) + amount <= has
        })
    }

    fn admit(&mut self, env: &mut Env<'_>, wrapper: &Arc<Object>) -> AdmissionEvent {
        let nothing = (wrapper.address.clone(), Outcome::Nothing);
        let mine = &self.workloads[&wrapper.uid];
        if wrapper.value["spec"]["suspend"] != true {
            // created or set running past the queue: it is stopped
            Self::stop(env, wrapper);
            return nothing;
        }
        // what still holds quota by its own word is not let in again
        if is_true(&wrapper.value, "QuotaReserved") {
            return nothing;
        }
        if env.elapsed < mine.again_at {
            env.agenda.at(mine.again_at, Task::Queue(wrapper.address.clone()));
            return nothing;
        }
        let before = |other: &Workload| {
            other.standing == WorkloadState::Pending
                && other.active
                && env.elapsed >= other.again_at
                && (-other.priority, other.queued) < (-mine.priority, mine.queued)
                && self.would_fit(&other.requests, |_| true)
        };
        if self.workloads.values().any(before) {
            return nothing;
        }
        if !self.fits(&mine.requests) {
            return self.preempt_for(env, wrapper);
        }
        let ready_by = self.ready_within.map(|within| env.elapsed + within);
        env.store.change(&wrapper.address, Part::Whole, start);
        if let Some(ready_by) = ready_by {
            env.agenda.at(ready_by, Task::Queue(wrapper.address.clone()));
        }
        if let Some(workload) = self.workloads.get_mut(&wrapper.uid) {
            workload.standing = WorkloadState::Admitted;
            workload.ready_by = ready_by;
            workload.admitted = env.elapsed;
            workload.saw_ready = false;
        }
        (wrapper.address.clone(), Outcome::Admitted)
    }

    /// Something of lower priority has to go.
    fn preempt_for(&mut self, env: &mut Env<'_>, wrapper: &Arc<Object>) -> AdmissionEvent {
        let nothing = (wrapper.address.clone(), Outcome::Nothing);
        let mine = self.workloads[&wrapper.uid].priority;
        let leaving = self.workloads.values().any(|one| one.standing == WorkloadState::Evicting);
        let lower = |one: &Workload| one.standing == WorkloadState::Admitted && one.priority < mine;
        let victim = self.workloads.iter().find(|(_, one)| lower(one)).map(|(uid, _)| uid.clone());
        if !self.would_fit(&self.workloads[&wrapper.uid].requests, lower) {
            return nothing;
        }
        let Some(victim) = victim.filter(|_| !leaving) else { return nothing };
        let Some(other) = env.store.by_uid(&victim).cloned() else { return nothing };
        env.agenda.add(Task::Queue(wrapper.address.clone()));
        self.evict(env, &other, Outcome::Preempted)
    }

    /// Makes an AppWrapper go.
    pub fn evict(
        &mut self,
        env: &mut Env<'_>,
        wrapper: &Arc<Object>,
        why: Outcome,
    ) -> AdmissionEvent {
        self.set(&wrapper.uid, WorkloadState::Evicting);
        Self::stop(env, wrapper);
        env.agenda.add(Task::Queue(wrapper.address.clone()));
        (wrapper.address.clone(), why)
    }

    fn stop(env: &mut Env<'_>, wrapper: &Arc<Object>) {
        env.store.change(&wrapper.address, Part::Whole, |wrapper| {
            wrapper["spec"]["suspend"] = true.into();
            for component in wrapper["spec"]["components"].as_array_mut().into_iter().flatten() {
                if let Some(fields) = component.as_object_mut() {
                    fields.remove("podSetInfos");
                }
            }
        });
    }

    fn look_after(&mut self, env: &mut Env<'_>, wrapper: &Arc<Object>) -> AdmissionEvent {
        let nothing = (wrapper.address.clone(), Outcome::Nothing);
        let phase = wrapper.value["status"]["phase"].as_str().unwrap_or_default();
        let holds = is_true(&wrapper.value, "QuotaReserved");
        let ended = phase == "Succeeded"
            || phase == "Failed" && !is_true(&wrapper.value, "ResourcesDeployed");
        if ended && !holds {
            self.set(&wrapper.uid, WorkloadState::Finished);
            self.wake_pending(env);
            return (wrapper.address.clone(), Outcome::Released);
        }
        if wrapper.value["spec"]["suspend"] == true {
            if self.is_resized(wrapper) {
                return (wrapper.address.clone(), self.release(env, wrapper));
            }
            // it is admitted: whoever suspended it is overruled
            env.store.change(&wrapper.address, Part::Whole, start);
            return nothing;
        }
        let is_active = self.workloads.get(&wrapper.uid).is_none_or(|known| known.active);
        if !is_active && !ended {
            return self.evict(env, wrapper, Outcome::Deactivated);
        }
        let workload = self.workloads.get_mut(&wrapper.uid);
        let Some(workload) = workload else { return nothing };
        let within = if workload.saw_ready { self.recover_within } else { self.ready_within };
        let Some(within) = within else { return nothing };
        if is_true(&wrapper.value, "PodsReady") || ended {
            workload.saw_ready |= !ended;
            workload.ready_by = None;
            return nothing;
        }
        let ready_by = *workload.ready_by.get_or_insert_with(|| {
            env.agenda.at(env.elapsed + within, Task::Queue(wrapper.address.clone()));
            env.elapsed + within
        });
        if env.elapsed < ready_by {
            return nothing;
        }
        workload.ready_by = None;
        workload.evictions += 1;
        let limit = self.requeuing_limit;
        // Kueue waits twice as long after each eviction, up to an hour
        let doubled = (workload.evictions - 1).min(6);
        let pause = Duration::from_mins(1 << doubled).min(Duration::from_hours(1));
        workload.again_at = env.elapsed + pause;
        if self.shows_workloads && limit.is_some_and(|most| workload.evictions > most) {
            (workload.given_up, workload.active) = (true, false);
            workload::deactivate(env, &wrapper.uid);
        }
        self.evict(env, wrapper, Outcome::NotReady)
    }

    /// Whether the AppWrapper has another size than its Workload.
    fn is_resized(&self, wrapper: &Object) -> bool {
        let known = self.workloads.get(&wrapper.uid);
        known.is_some_and(|known| known.size != size(&wrapper.value))
    }

    /// Takes the quota back, once the AppWrapper says that it holds none, or has another size.
    fn release(&mut self, env: &mut Env<'_>, wrapper: &Arc<Object>) -> Outcome {
        if wrapper.value["spec"]["suspend"] != true {
            Self::stop(env, wrapper);
            return Outcome::Nothing;
        }
        if is_true(&wrapper.value, "QuotaReserved") && !self.is_resized(wrapper) {
            return Outcome::Nothing;
        }
        self.set(&wrapper.uid, WorkloadState::Pending);
        let requests = requests(&wrapper.value, &self.quota);
        if let Some(workload) = self.workloads.get_mut(&wrapper.uid) {
            workload.requests = requests;
            workload.size = size(&wrapper.value);
        }
        self.wake_pending(env);
        Outcome::Released
    }
}

/// Lets an AppWrapper run, with what admission adds to its pods.
fn start(wrapper: &mut Value) {
    wrapper["spec"]["suspend"] = false.into();
    for component in wrapper["spec"]["components"].as_array_mut().into_iter().flatten() {
        let sets = component["podSets"].as_array().map_or(0, Vec::len);
        let info = serde_json::json!({"labels": {"sim/admitted": "true"}});
        if sets > 0 {
            component["podSetInfos"] = vec![info; sets].into();
        }
    }
}

/// What an AppWrapper asks for: the pods of its components, and what their containers request.
fn requests(wrapper: &Value, quota: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    let components = wrapper["spec"]["components"].as_array();
    for component in components.into_iter().flatten() {
        let template = &component["template"];
        for (count, pod) in super::super::scene::pods_in(template) {
            for name in quota.keys() {
                let each = if name == "pods" { 1000 } else { request_of(pod, name) };
                *all.entry(name.clone()).or_insert(0) += each * count;
            }
        }
    }
    all
}

/// What all containers say of resources, as text.
fn size(wrapper: &Value) -> Vec<String> {
    let components = wrapper["spec"]["components"].as_array().into_iter().flatten();
    let pods = components.flat_map(|one| super::super::scene::pods_in(&one["template"]));
    let containers = pods.filter_map(|(_, pod)| pod["spec"]["containers"].as_array());
    containers.flatten().map(|container| container["resources"].to_string()).collect()
}

/// The most that is counted of what a pod asks for, in thousandths: 4 TiB of memory. No sum over the pods of a
/// world overflows.
const REQUEST_MAX: i64 = 1 << 52;

/// What the containers of a pod ask for of a resource, in thousandths.
pub(super) fn request_of(pod: &Value, name: &str) -> i64 {
    let containers = pod["spec"]["containers"].as_array();
    let of = |container: &Value| {
        let resources = &container["resources"];
        let amount = &resources["requests"][name];
        let amount = if amount.is_null() { &resources["limits"][name] } else { amount };
        thousandths(amount)
    };
    let all = containers.into_iter().flatten().map(of).fold(0, i64::saturating_add);
    all.clamp(0, REQUEST_MAX)
}

/// A quantity in thousandths; 0 where it is none.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "a cast saturates")]
pub fn thousandths(quantity: &Value) -> i64 {
    amount(quantity).map_or(0, |amount| (amount * 1000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::world::actors::Agenda;
    use crate::world::rng::Rng;

    #[test]
    fn what_is_never_ready_is_deactivated_after_its_evictions() {
        use Outcome::{Admitted, NotReady};
        let minute = Duration::from_mins(1);
        // in half minutes: the backoff doubles, with a limit or without
        let all: [(u32, Outcome); 8] = [
            (0, Admitted),
            (2, NotReady),
            (4, Admitted),
            (6, NotReady),
            (10, Admitted),
            (12, NotReady),
            (20, Admitted),
            (22, NotReady),
        ];
        for (limit, rounds, active) in [(None, 4, true), (Some(1), 2, false), (Some(0), 1, false)] {
            let quota = BTreeMap::from([("pods".to_owned(), 1000)]);
            let limits = limit.map(|most| (minute, most));
            let mut kueue = Kueue::new(quota, Some(minute)).giving_up(limits).showing(true);
            let mut store = crate::world::new_store(true);
            let (api, kind) = ("workload.codeflare.dev/v1beta2", "AppWrapper");
            let kind = store.kinds.by_name(api, kind).unwrap();
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"containers": []}});
            let wrapper = json!({"metadata": {"name": "aw", "labels": {QUEUE: "lq"}},
                "spec": {"suspend": true, "components": [{"template": pod}]}});
            let wrapper = store.create(kind, "default", wrapper).unwrap();
            let (mut rng, mut agenda) = (Rng::new(1, 1), Agenda::default());
            let mut seen = vec![];
            for step in 0..=22 {
                let (store, rng, agenda) = (&mut store, &mut rng, &mut agenda);
                let elapsed = minute / 2 * step;
                let mut env = Env { store, rng, agenda, elapsed };
                seen.push((step, kueue.act(&mut env, &wrapper.address).1));
            }
            seen.retain(|(_, outcome)| [Admitted, NotReady].contains(outcome));
            assert_eq!(seen, all[..2 * rounds], "{limit:?}");
            let workload = workload::find(&store, &wrapper.uid).unwrap();
            assert_eq!(workload.value["spec"]["active"], active, "{limit:?}");
            for is_active in [false, true] {
                store.change(&workload.address, Part::Whole, |workload| {
                    workload["spec"]["active"] = is_active.into();
                });
                let (store, rng, agenda) = (&mut store, &mut rng, &mut agenda);
                let mut env = Env { store, rng, agenda, elapsed: minute * 12 };
                kueue.act(&mut env, &wrapper.address);
            }
            assert_eq!(kueue.workloads[&wrapper.uid].evictions, 0, "{limit:?}");
        }
    }
}
