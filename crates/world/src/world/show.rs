//! A world to look at: nothing goes wrong by chance, time stops where one wants to look, and everything
//! that happens is handed out, in order.

mod picture;
mod strike;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::actors::kueue::{Workload, WorkloadState};
use super::actors::{kubelet, nodes};
use super::faults::Faults;
use super::rng::Rng;
use super::scene::Scene;
use super::{NAMESPACE, Options, Source, World};
use crate::sim::{Change, Object, Part};

pub use picture::{Picture, PodNow, WrapperNow};
pub use strike::Misfortune;

/// Annotation of an object that comes later: after so long.
const COMES_AT: &str = "sim/at";
/// Annotation of a Node: when it stops reporting, separated by commas, and for how long each time.
const LOST_AT: &str = "sim/lost-at";
const LOST_FOR: &str = "sim/lost-for";
const LOST_FOR_DEFAULT: Duration = Duration::from_mins(2);
/// What can be told of one step at most before time goes on.
const STEPS_MAX: u64 = 2_000_000;
/// Nothing has changed for this long: nothing will, unless somebody has set a clock.
const QUIET: Duration = Duration::from_mins(15);

/// What a show begins with.
#[derive(Clone, Debug, Default)]
pub struct Cast {
    /// Nodes, as objects.
    pub nodes: Vec<Value>,
    /// What is created, in this order.
    pub objects: Vec<Value>,
    /// The ClusterQueue, in thousandths of each resource; none where empty.
    pub quota: BTreeMap<String, i64>,
    /// What goes wrong.
    pub misfortunes: Vec<Misfortune>,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub struct Beat {
    /// When.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum What {
    /// An object was created, changed, or is gone; where it is a pod, whether it hangs.
    Changed {
        /// The change.
        change: Change,
        /// Its kind.
        kind: String,
        /// Nobody carries out its deletion.
        hangs: bool,
        /// The AppWrapper whose it is.
        wrapper: Option<Arc<str>>,
    },
    /// The controller made a Kubernetes event of type Warning about an AppWrapper.
    Warned {
        /// The AppWrapper.
        name: String,
        /// The event's reason.
        reason: String,
        /// The event's message.
        message: String,
    },
    /// Kueue has another opinion of an AppWrapper.
    Queued {
        /// The AppWrapper.
        name: Arc<str>,
        /// Its opinion before.
        before: Option<WorkloadState>,
        /// And now.
        now: WorkloadState,
        /// What the AppWrapper asks for.
        needs: BTreeMap<String, i64>,
        /// What is reserved and what there is, by resource.
        quota: BTreeMap<String, (i64, i64)>,
    },
    /// Something that was planned, in words: about what, what, and why.
    Struck {
        /// `Kind/name`.
        object: String,
        /// One word.
        event: &'static str,
        /// A sentence.
        message: String,
    },
}

/// A world that is looked at.
pub struct Show {
    world: World,
    seen: usize,
    warned: usize,
    standings: BTreeMap<Arc<str>, WorkloadState>,
    beats: Vec<Beat>,
    changed_at: Duration,
    plan: strike::StrikePlan,
}

impl Show {
    /// The first moment of a show; all chance comes from the seed. It is to be made inside a runtime.
    ///
    /// # Errors
    /// An object that cannot be created: which, and why.
    pub fn new(seed: u64, cast: Cast) -> Result<Self, String> {
        let gives_back = |object: &Value| object["spec"]["onNoFit"].is_object();
        let scene = Scene {
            quota: cast.quota,
            shows_workloads: cast.objects.iter().any(gives_back),
            config: "{nodeSuspicion: {effect: Prefer}}".to_owned(), // the default
            ..Scene::default()
        };
        let mut world = World::of(Options::of(seed, Faults::default()), scene);
        world.keep_events = true;
        let plan = strike::StrikePlan::new(cast.misfortunes, Rng::new(seed, 5));
        let told = world.store.history().len();
        let mut show = Self {
            world,
            seen: told,
            warned: 0,
            standings: BTreeMap::new(),
            beats: vec![],
            changed_at: Duration::ZERO,
            plan,
        };
        for node in cast.nodes {
            show.add_node(node)?;
        }
        for object in cast.objects {
            let at = object["metadata"]["annotations"][COMES_AT].as_str();
            match at.and_then(kubelet::duration) {
                Some(at) => show.plan.later(at, strike::ScheduledEvent::Create(Box::new(object))),
                None => show.create(object)?,
            }
        }
        show.world.absorb(Source::Others);
        show.look();
        Ok(show)
    }

    fn add_node(&mut self, mut node: Value) -> Result<(), String> {
        let status = node["status"].take();
        let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if node["metadata"]["labels"]["kubernetes.io/hostname"].is_null() {
            node["metadata"]["labels"]["kubernetes.io/hostname"] = name.as_str().into();
        }
        let losses = node["metadata"]["annotations"].clone();
        self.create(node)?;
        let Some(kind) = self.world.store.kinds.by_name("v1", "Node") else { return Ok(()) };
        let address = crate::sim::Address::new(kind, "", &name);
        let given = |key: &str| status[key].as_object().map(|_| status[key].clone());
        let room = given("allocatable").or_else(|| given("capacity"));
        self.world.store.change(&address, Part::Status, |node| {
            node["status"]["allocatable"] = room.unwrap_or_else(|| json!({"pods": "110"}));
        });
        nodes::set_node(&mut self.world.store, &name, None);
        let lasts = losses[LOST_FOR].as_str().and_then(kubelet::duration);
        let moments = losses[LOST_AT].as_str().unwrap_or_default().split(',');
        for at in moments.filter_map(|at| kubelet::duration(at.trim())) {
            let lasts = lasts.unwrap_or(LOST_FOR_DEFAULT);
            self.plan.later(at, strike::ScheduledEvent::LoseNode(name.clone(), lasts));
        }
        Ok(())
    }

    /// Creates an object where it says that it belongs.
    fn create(&mut self, object: Value) -> Result<(), String> {
        let text = |pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let title = format!("{kind}/{}", text("/metadata/name"));
        let store = &mut self.world.store;
        let Some(id) = store.kinds.by_name(&api_version, &kind) else {
            let message =
                format!("left out: no matches for kind \"{kind}\" in version \"{api_version}\"");
            self.say(title, "LeftOut", message);
            return Ok(());
        };
        if !store.kinds.get(id).namespaced {
            return store.create(id, "", object).map(drop).map_err(|error| refused(&title, &error));
        }
        let namespace = text("/metadata/namespace");
        let namespace = if namespace.is_empty() { NAMESPACE.to_owned() } else { namespace };
        if let Some(kind) = store.kinds.by_name("v1", "Namespace") {
            // as good as there: it is refused only where it exists
            drop(store.create(kind, "", json!({"metadata": {"name": &namespace}})));
        }
        store.create(id, &namespace, object).map(drop).map_err(|error| refused(&title, &error))
    }

    /// Goes on until a moment, or until there is something to tell; false where nothing is left to come
    /// before the horizon.
    pub async fn advance(&mut self, until: Duration, horizon: Duration) -> bool {
        let first = self.world.trace.steps;
        while self.beats.is_empty() && self.world.elapsed < until {
            if self.is_over(horizon) {
                return false;
            }
            if self.world.is_idle() {
                let next = [self.world.next_moment(), self.next_of_plan()];
                let next = next.into_iter().flatten().min().unwrap_or(until).min(until);
                self.world.pass(next.saturating_sub(self.world.elapsed));
            } else {
                self.world.step().await;
            }
            self.carry_out();
            self.look();
            if self.world.trace.steps - first > STEPS_MAX {
                return false;
            }
        }
        true
    }

    /// What has happened since this was last asked.
    pub fn drain(&mut self) -> Vec<Beat> {
        std::mem::take(&mut self.beats)
    }

    /// Time since the world began.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.world.elapsed
    }

    /// When a time of day is, in time since the world began.
    #[must_use]
    pub fn moment_of(time: Timestamp) -> Duration {
        let begin = super::moment(Duration::ZERO);
        Duration::try_from(time.duration_since(begin)).unwrap_or_default()
    }

    /// The time of day of a moment.
    #[must_use]
    pub fn moment_at(at: Duration) -> Timestamp {
        super::moment(at)
    }

    /// The time of day of a moment, in whole seconds.
    #[must_use]
    pub fn time(at: Duration) -> String {
        let moment = super::moment(at).to_string();
        moment.get(..19).map_or_else(|| moment.clone(), |text| format!("{text}Z"))
    }

    /// Whether more would happen beyond the horizon.
    #[must_use]
    pub fn is_cut(&self, horizon: Duration) -> bool {
        let dues = self.world.replicas.iter().flat_map(|replica| replica.due.values().copied());
        let mut moments = self.world.next_moment().into_iter().chain(dues);
        self.world.elapsed >= horizon
            || self.is_over(horizon) && moments.any(|moment| moment > horizon)
    }

    /// Whether nothing happens any more before the horizon.
    fn is_over(&self, horizon: Duration) -> bool {
        if !self.world.is_idle() || self.next_of_plan().is_some() {
            return false;
        }
        let soon = |at: Option<Duration>| at.is_some_and(|at| at <= horizon);
        if !soon(self.world.next_moment()) {
            return true;
        }
        // what is left are controllers that look again and again at what does not change
        let quiet = self.world.elapsed >= self.changed_at + QUIET;
        let due = self.world.replicas.iter().flat_map(|replica| replica.due.values().copied());
        quiet && due.min().is_none_or(|at| at > horizon) && !self.some_pod_ends()
    }

    fn some_pod_ends(&self) -> bool {
        let running = |pod: &&Arc<Object>| pod.value["status"]["phase"] == "Running";
        self.of_kind("v1", "Pod").filter(running).any(|pod| pod.annotation("sim/run-for").is_some())
    }

    fn of_kind(&self, api_version: &str, kind: &str) -> impl Iterator<Item = &Arc<Object>> {
        let kind = self.world.store.kinds.by_name(api_version, kind);
        kind.into_iter().flat_map(|kind| self.world.store.all(kind))
    }

    fn say(&mut self, object: String, event: &'static str, message: String) {
        let what = What::Struck { object, event, message };
        self.beats.push(Beat { at: self.world.elapsed, what });
    }

    /// Takes down what has happened.
    fn look(&mut self) {
        let at = self.world.elapsed;
        while self.seen < self.world.store.history().len() {
            let change = self.world.store.history()[self.seen].clone();
            self.seen += 1;
            self.changed_at = at;
            let kind = self.world.store.kinds.get(change.object.address.kind).kind.clone();
            let hangs =
                kind == "Pod" && self.world.kubelets.hangs(&self.world.store, &change.object);
            let root = self.world.oracle.root_of(&change.object.uid);
            let wrapper = root.and_then(|uid| self.world.oracle.wrappers.get(uid));
            let wrapper = wrapper.map(|wrapper| wrapper.address.name.clone());
            let what = What::Changed { change, kind, hangs, wrapper };
            self.beats.push(Beat { at, what });
        }
        for (at, name, reason, message) in &self.world.events[self.warned..] {
            let (name, reason, message) = (name.clone(), reason.clone(), message.clone());
            self.beats.push(Beat { at: *at, what: What::Warned { name, reason, message } });
        }
        self.warned = self.world.events.len();
        self.look_at_queue();
    }

    fn look_at_queue(&mut self) {
        let quota = self.quota();
        let at = self.world.elapsed;
        for (uid, workload) in &self.world.kueue.workloads {
            let now = workload.standing;
            let before = self.standings.get(uid).copied();
            if before == Some(now) {
                continue;
            }
            let Some(wrapper) = self.world.store.by_uid(uid) else { continue };
            if now == WorkloadState::Pending && !self.waits_in_vain(wrapper, workload) {
                continue;
            }
            self.standings.insert(uid.clone(), now);
            let (name, needs) = (wrapper.address.name.clone(), workload.requests.clone());
            let what = What::Queued { name, before, now, needs, quota: quota.clone() };
            self.beats.push(Beat { at, what });
        }
    }

    /// It is suspended, holds nothing, and there is no room for it: so it will stay for a while.
    fn waits_in_vain(&self, wrapper: &Object, workload: &Workload) -> bool {
        let quota = self.quota();
        let fits = workload
            .requests
            .iter()
            .all(|(name, amount)| quota.get(name).is_some_and(|(used, all)| used + amount <= *all));
        !fits && wrapper.value["status"]["phase"] == "Suspended"
    }

    fn quota(&self) -> BTreeMap<String, (i64, i64)> {
        let used = self.world.kueue.used();
        let one = |(name, all): (&String, &i64)| {
            (name.clone(), (used.get(name).copied().unwrap_or(0), *all))
        };
        self.world.kueue.quota.iter().map(one).collect()
    }
}

fn refused(title: &str, refusal: &crate::sim::Refusal) -> String {
    format!("{title}: {}", refusal.message)
}
