//! A simulated cluster: an API server in memory, the controller's own reconcile, small models of all other components,
//! a clock that the simulation moves, and one seed from which all chance comes.
//!
//! ```text
//! scene ─▶ world ─┬─ choose a step: deliver an event, serve a call, begin a reconcile, an actor's move, time
//!                 ├─ faults strike it
//!                 ├─ absorb what changed: logs of the watches, agenda of the actors, oracle
//!                 └─ checks: every invariant, after every step
//! ```
//!
//! The same seed gives the same trace on any machine: nothing here asks a clock, a thread or an
//! unordered collection.

mod absorb;
pub mod actors;
mod administrator;
pub mod adversary;
pub mod checks;
pub mod coverage;
pub mod explore;
pub mod faults;
pub mod film;
pub mod fleet;
mod heal;
mod judged;
pub mod oracle;
pub mod plans;
pub mod replica;
pub mod rng;
pub mod scene;
mod scheduler;
mod script;
mod serve;
pub mod show;
pub mod shrink;
#[cfg(test)]
mod tests;
pub mod trace;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::clock::ManualClock;
use crate::config::{Config, SuspicionEffect};
use crate::crd;
use crate::kueue::{KueueSettings, WaitForPodsReady};
use crate::observe::retry_sources::{is_retry_source, served_as};
use crate::sim::{Filter, Garbage, KindId, Store, view};
use crate::tuning::Period;
use absorb::Source;
use actors::kubelet::Kubelets;
use actors::kueue::Kueue;
use actors::{Agenda, Env, Task};
use adversary::{Adversary, Hostility};
use checks::Violation;
use coverage::{Coverage, Covered};
use faults::{Fault, FaultPlan, Faults};
use oracle::{Oracle, Wrapper};
use replica::{Replica, Told, Topic};
use rng::Rng;
use scene::{Act, Scene};
use trace::Trace;
use wire::Call;

/// The namespace in which everything happens.
pub const NAMESPACE: &str = "default";
/// When every world begins.
const BEGIN: i64 = 1_767_225_600;
/// The annotation that keeps an AppWrapper from running.
const ACTIVE: &str = "workload.codeflare.dev.appwrapper/active";
const LABEL: &str = "workload.codeflare.dev/appwrapper";

/// How a world is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of all random choices.
    pub seed: u64,
    /// Faults that may be injected.
    pub faults: Faults,
    /// Steps until all faults end.
    pub steps: u64,
    /// The lines of the trace are kept.
    pub keep_trace: bool,
    /// One planned fault, instead of chance.
    pub plan: Option<FaultPlan>,
    /// Faults to leave out, by their number in the run: for shrinking.
    pub without: BTreeSet<u64>,
    /// In which worlds there is an adversary.
    pub hostility: Hostility,
}

impl Options {
    /// A run of a seed.
    #[must_use]
    pub const fn of(seed: u64, faults: Faults) -> Self {
        Self {
            seed,
            faults,
            steps: 1_500,
            keep_trace: false,
            plan: None,
            without: BTreeSet::new(),
            hostility: Hostility::Tenth,
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The seed.
    pub seed: u64,
    /// The invariant that did not hold, and at which step.
    pub violation: Option<(Violation, u64)>,
    /// How many steps there were.
    pub steps: u64,
    /// Hash of all events.
    pub hash: u64,
    /// What was met.
    pub coverage: Coverage,
    /// How many faults struck.
    pub injected: u64,
    /// Calls of the controllers.
    pub calls: u32,
    /// The events, where they were kept.
    pub lines: Vec<String>,
    /// The phases at the end, by name.
    pub phases: BTreeMap<String, String>,
    /// How each victim of an adversary ended, by name.
    pub ends: BTreeMap<String, serde_json::Value>,
}

/// A call that is carried out after its caller gave up.
#[derive(Debug)]
struct LateCall {
    sent: Duration,
    /// By how much the clock of its process was off then.
    off: Duration,
    at: Duration,
    call: Call,
}

/// How likely each kind of step is, and each fault, in this world.
#[derive(Clone, Debug, Default)]
struct Weights {
    deliver: usize,
    serve: usize,
    begin: usize,
    act: usize,
    collect: usize,
    /// A fault of a call, in thousandths.
    call_faults: u32,
    /// A fault of anything else, in ten-thousandths of a step.
    other_faults: u32,
}

/// What the watches of a topic tell, from the begin.
struct Log {
    topic: Topic,
    kind: KindId,
    filter: Filter,
    told: Vec<Told>,
}

/// A world.
#[expect(clippy::struct_excessive_bools, reason = "each is switched by itself")]
pub struct World {
    options: Options,
    config: Config,
    /// Time since the world began.
    elapsed: Duration,
    /// The cluster.
    store: Store,
    agenda: Agenda,
    garbage: Garbage,
    kubelets: Kubelets,
    kueue: Kueue,
    script: Vec<Act>,
    replicas: Vec<Replica>,
    logs: Vec<Log>,
    seen: usize,
    oracle: Oracle,
    coverage: Coverage,
    trace: Trace,
    weights: Weights,
    chance: Rng,
    fault_rng: Rng,
    user_rng: Rng,
    late: Vec<LateCall>,
    outage_until: Duration,
    outage_code: u16,
    closed: bool,
    /// By how much the clocks of the processes are off now, at most.
    skew: Duration,
    /// A kubelet that stops is silent, and that is noticed later; else it says so at once.
    silent_nodes: bool,
    /// A node that is deleted comes again by the same name.
    same_nodes: bool,
    /// Kinds that are not served for a while.
    unserved: Vec<KindId>,
    calls_of_events: u64,
    keep_events: bool,
    /// Kubernetes events: when, about what, reason, message.
    events: Vec<(Duration, String, String, String)>,
    /// A create by a controller that has lost its right is refused, as a webhook would.
    fenced: bool,
    faults_on: bool,
    injected: u64,
    calls: u32,
    /// The step in which a controller made its last call.
    last_call: u64,
    hash_of_calls: u64,
    violation: Option<(Violation, u64)>,
    adversary: Option<Adversary>,
    /// What happened when, where it is recorded.
    film: Option<film::Film>,
}

impl World {
    /// The world of a seed.
    #[must_use]
    pub fn random(options: Options) -> Self {
        if let Some(adversary) = Adversary::of(&options) {
            return Self::hostile(options, adversary);
        }
        let mut rng = Rng::new(options.seed, 1);
        let mut scene = Scene::random(&mut rng, &options.faults);
        scene.add_policies(&mut Rng::new(options.seed, 5), &options.faults);
        scene.add_fleet_parts(options.seed);
        let mut world = Self::of(options, scene);
        world.skew_nodes();
        world
    }

    /// In half of the worlds, the clocks of the nodes are off.
    fn skew_nodes(&mut self) {
        let seed = self.options.seed;
        if Rng::new(seed, 13).one_in(2) {
            self.kubelets.clocks = Some(seed);
            self.store.dates_statuses = true;
        }
    }

    /// The world of a scene.
    ///
    /// # Panics
    /// Where the configuration of the scene is not one.
    #[must_use]
    pub fn of(options: Options, scene: Scene) -> Self {
        let seed = options.seed;
        let store = new_store(scene.shows_workloads);
        // the scenes are ours, and a test reads each
        let mut config = Config::parse(&scene.config).unwrap_or_default();
        if !scene.has_suspicion() {
            config.node_suspicion.effect = SuspicionEffect::Off;
        }
        let mut chance = Rng::new(seed, 2);
        let weights = Weights::random(&mut chance, &options);
        let mut world = Self {
            fenced: chance.one_in(2),
            config,
            elapsed: Duration::ZERO,
            store,
            agenda: Agenda::default(),
            garbage: Garbage::default(),
            kubelets: Kubelets::new(scene.temper),
            kueue: Kueue::new(scene.quota, scene.ready_within)
                .giving_up(scene.gives_up)
                .showing(scene.shows_workloads),
            script: vec![],
            replicas: vec![],
            logs: vec![],
            seen: 0,
            oracle: Oracle::default(),
            coverage: Coverage::default(),
            trace: if options.keep_trace { Trace::kept() } else { Trace::default() },
            weights,
            chance,
            fault_rng: Rng::new(seed, 3),
            user_rng: Rng::new(seed, 4),
            late: vec![],
            outage_until: Duration::ZERO,
            outage_code: 503,
            closed: false,
            skew: Duration::ZERO,
            silent_nodes: options.faults.has(Fault::Node) && Rng::new(seed, 15).one_in(2),
            same_nodes: options.faults.has(Fault::Node) && Rng::new(seed, 16).one_in(2),
            unserved: vec![],
            calls_of_events: 0,
            keep_events: false,
            events: vec![],
            faults_on: true,
            injected: 0,
            calls: 0,
            last_call: 0,
            hash_of_calls: 0,
            violation: None,
            adversary: None,
            film: None,
            options,
        };
        world.set_up(&scene.nodes, scene.objects, scene.script);
        world
    }

    /// Makes what there is in the beginning, and starts the first replica.
    fn set_up(
        &mut self,
        nodes: &[(String, usize)],
        objects: Vec<serde_json::Value>,
        script: Vec<(Duration, Act)>,
    ) {
        let limits = &self.config.retry_policy;
        self.oracle.policies.begin_global(i64::from(limits.global_max_retries));
        self.oracle.policies.uncounted = i64::from(limits.max_uncounted_restarts);
        for (name, room) in nodes {
            self.add_node(name, *room);
        }
        for object in objects {
            self.create(object);
        }
        for (at, act) in script {
            self.script.push(act);
            self.agenda.at(at, Task::Script(self.script.len() - 1));
        }
        self.absorb(Source::Others);
        let leader = self.new_replica(true);
        self.replicas.push(leader);
    }

    fn new_replica(&self, leads: bool) -> Replica {
        let clock = Arc::new(ManualClock::at(moment(self.elapsed)));
        let replica = Replica::start(&self.config, clock, leads);
        if self.kueue.shows_workloads {
            let recovery_timeout = self.kueue.recover_within.map(Period::from_duration);
            let timeout = self.kueue.ready_within.map(Period::from_duration);
            let wait_for_pods_ready =
                timeout.map(|timeout| WaitForPodsReady { timeout, recovery_timeout });
            let settings = KueueSettings { wait_for_pods_ready, replaces_failed_nodes: false };
            replica.context.set_kueue(settings);
        }
        replica
    }

    fn add_node(&mut self, name: &str, room: usize) {
        let Some(kind) = self.store.kinds.by_name("v1", "Node") else { return };
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
        if let Ok(node) = self.store.create(kind, "", node) {
            self.store.change(&node.address, crate::sim::Part::Status, |node| {
                node["status"]["allocatable"]["pods"] = room.to_string().into();
            });
            actors::nodes::set_node(&mut self.store, name, None);
        }
    }

    /// Kubelets and Kueue, and what they may use.
    fn actors(&mut self) -> (&mut Kubelets, &mut Kueue, Env<'_>) {
        let env = Env {
            store: &mut self.store,
            rng: &mut self.user_rng,
            agenda: &mut self.agenda,
            elapsed: self.elapsed,
        };
        (&mut self.kubelets, &mut self.kueue, env)
    }

    /// Creates an object as a user; whether it was accepted.
    fn create(&mut self, object: serde_json::Value) -> bool {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let Some(kind) = self.store.kinds.by_name(text("apiVersion"), text("kind")) else {
            return false;
        };
        let namespaced = self.store.kinds.get(kind).namespaced;
        self.store.create(kind, if namespaced { NAMESPACE } else { "" }, object).is_ok()
    }

    /// Runs to the end: faults, then healing, then rest.
    pub async fn run(mut self) -> RunReport {
        self.go_on_to_the_end().await;
        self.report()
    }

    async fn go_on_to_the_end(&mut self) {
        while self.violation.is_none() && self.trace.steps < self.options.steps {
            if !self.step().await {
                break;
            }
        }
        if self.violation.is_none() {
            self.heal();
            self.come_to_rest().await;
        }
    }

    fn report(mut self) -> RunReport {
        self.coverage.faults[Fault::Pod as usize] += self.kubelets.spoiled.0;
        self.coverage.faults[Fault::Stuck as usize] += self.kubelets.spoiled.1;
        let phases = self.oracle.wrappers.values().map(|wrapper| {
            let name = &wrapper.address.name;
            let hostile = wrapper.hostile.then(|| format!("{}/{name}", wrapper.address.namespace));
            let name = hostile.unwrap_or_else(|| name.to_string());
            (name, format!("{:?}", wrapper.state.phase))
        });
        RunReport {
            seed: self.options.seed,
            phases: phases.collect(),
            ends: self.ends(),
            steps: self.trace.steps,
            hash: rng::mix(self.trace.hash(), self.hash_of_calls),
            injected: self.injected,
            calls: self.calls,
            lines: self.trace.drain(),
            violation: self.violation,
            coverage: self.coverage,
        }
    }

    /// Something does not hold: the run ends.
    fn violated(&mut self, violation: Violation) {
        if self.violation.is_none() {
            self.trace.detail(|| format!("VIOLATION {violation}"));
            self.violation = Some((violation, self.trace.steps));
        }
    }

    /// How much clocks may differ for an AppWrapper, and what rounding to seconds may take.
    fn slack(&self, wrapper: Option<&Wrapper>) -> Duration {
        let written = wrapper.map_or(Duration::ZERO, Wrapper::skew);
        // one clock may be ahead, and another behind
        Duration::from_secs(2) + 2 * self.skew.max(written)
    }

    /// How much earlier than it failed a pod may be dated: the start of a pod shows how far the clock of its node is
    /// behind, but for the time until its kubelet has seen it, and what rounding to seconds takes.
    fn dated_within(&self) -> Duration {
        self.kubelets.clocks.map_or(Duration::ZERO, |_| Duration::from_secs(4))
    }

    /// By how much the clocks of the processes are off, at most.
    fn note_skew(&mut self) {
        let now = moment(self.elapsed);
        let all = self.replicas.iter().map(|replica| replica.clock.off_by(now));
        let skew = all.max().unwrap_or_default();
        self.skew = skew;
        if !skew.is_zero() {
            self.oracle.wrappers.values_mut().for_each(|wrapper| wrapper.note_skew(skew));
        }
    }

    /// Notes that something happened to everything there is.
    fn happened(&mut self, event: Covered) {
        for wrapper in self.oracle.wrappers.values() {
            self.coverage.note(wrapper.state.phase, event);
        }
    }

    /// Notes that something happened to an AppWrapper.
    fn happened_to(&mut self, name: &str, event: Covered) {
        for wrapper in self.oracle.wrappers.values() {
            if &*wrapper.address.name == name {
                self.coverage.note(wrapper.state.phase, event);
            }
        }
    }

    /// The log of what a stream watches, by its index; made when it is first asked for.
    fn log_of(&mut self, replica: usize, number: usize) -> Option<usize> {
        let stream = &self.replicas[replica].streams[number];
        if stream.log.is_some() {
            return stream.log;
        }
        let topic = stream.topic.clone();
        let known = self.logs.iter().position(|log| log.topic == topic);
        let log = known.unwrap_or(self.logs.len());
        if known.is_none() {
            let (kind, filter) = self.scope_of(&topic)?;
            let told = self.store.history()[..self.seen].iter().filter_map(|change| {
                view(change, kind, &filter).map(|(verb, object)| Told::new(verb, object))
            });
            let told = told.collect();
            self.logs.push(Log { topic, kind, filter, told });
        }
        self.replicas[replica].streams[number].log = Some(log);
        Some(log)
    }

    fn scope_of(&self, topic: &Topic) -> Option<(KindId, Filter)> {
        let kinds = &self.store.kinds;
        Some(match topic {
            Topic::Wrappers => {
                (kinds.by_name("workload.codeflare.dev/v1beta2", "AppWrapper")?, Filter::default())
            }
            Topic::Pods => (kinds.by_name("v1", "Pod")?, Filter::labelled(LABEL)),
            Topic::Nodes => (kinds.by_name("v1", "Node")?, Filter::default()),
            Topic::Kind(kind) if is_retry_source(kind) => {
                let mut versions = served_as(kind).into_iter();
                let served = versions.find_map(|one| kinds.by_name(&one.api_version, &one.kind));
                (served?, Filter::default())
            }
            Topic::Kind(kind) => {
                (kinds.by_name(&kind.api_version, &kind.kind)?, Filter::labelled(LABEL))
            }
        })
    }
}

/// A server that knows our definitions. They are the same for every world, and take long to make.
fn new_store(shows_workloads: bool) -> Store {
    static STORE: LazyLock<Store> = LazyLock::new(|| {
        let mut store = Store::new(moment(Duration::ZERO));
        // nobody here watches NodeSuspicions, and one more kind would give the others that follow another number
        for crd in crd::all().iter().filter(|crd| crd.spec.names.kind != "NodeSuspicion") {
            store.kinds.define(&serde_json::to_value(crd).unwrap_or_default());
        }
        store
    });
    let mut store = STORE.clone();
    if shows_workloads {
        store.kinds.define(&actors::workload::definition());
    }
    store
}

/// A moment of the world as a time of day.
fn moment(elapsed: Duration) -> Timestamp {
    let begin = Timestamp::from_second(BEGIN).unwrap_or(Timestamp::UNIX_EPOCH);
    begin.checked_add(elapsed).unwrap_or(begin)
}
