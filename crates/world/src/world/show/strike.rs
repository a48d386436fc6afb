//! What goes wrong in a show, because somebody asked for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Show;
use crate::sim::{Deletion, Object, Part, Propagation};
use crate::world::actors::kueue::{Outcome, PRIORITY, QUEUE, WorkloadState};
use crate::world::actors::{kubelet, nodes, phase};
use crate::world::rng::Rng;
use crate::world::{Source, oracle};

/// Annotation of a pod that needs its peers: how long after the loss of one it fails.
const NEEDS_PEERS: &str = "sim/needs-peers";
/// Something goes wrong this long after a pod runs, or when half of its life is over.
const AFTER: Duration = Duration::from_secs(20);
/// How long an outage, a crash or a suspension lasts.
const AWAY: Duration = Duration::from_secs(30);
/// How long a node that stopped reporting is kept before it is deleted.
const NODE_KEPT: Duration = Duration::from_mins(15);

/// Something that goes wrong once, while the first AppWrapper has a pod that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfortune {
    /// The node of a pod stops reporting, and its pods are lost.
    Node,
    /// A pod fails.
    Pod,
    /// It is restarted or suspended, and a pod stays Terminating.
    Stuck,
    /// It is preempted by an AppWrapper of higher priority.
    Preempt,
    /// The controller crashes, and restarts after a while.
    Crash,
    /// The API server returns only errors for a while.
    Outage,
    /// A user deletes a component.
    Component,
}

/// Something that follows later.
#[derive(Clone, Debug)]
pub(super) enum ScheduledEvent {
    /// An object comes.
    Create(Box<Value>),
    /// A node is taken away.
    RemoveNode(String),
    /// A node stops reporting, for so long.
    LoseNode(String, Duration),
    /// A node reports again.
    RestoreNode(String),
    /// An AppWrapper is resumed.
    Resume(Arc<str>),
    /// Something is back.
    Back(&'static str, &'static str),
}

/// What is to go wrong, and what follows later.
#[derive(Clone, Debug)]
pub(super) struct StrikePlan {
    waiting: VecDeque<Misfortune>,
    ripe_at: Option<Duration>,
    later: BTreeMap<(Duration, u64), ScheduledEvent>,
    counted: u64,
    rng: Rng,
}

impl StrikePlan {
    pub(super) fn new(misfortunes: Vec<Misfortune>, rng: Rng) -> Self {
        let (waiting, later) = (misfortunes.into(), BTreeMap::new());
        Self { waiting, ripe_at: None, later, counted: 0, rng }
    }

    pub(super) fn later(&mut self, at: Duration, event: ScheduledEvent) {
        self.counted += 1;
        self.later.insert((at, self.counted), event);
    }
}

impl Show {
    /// The next moment at which something of the plan happens by itself.
    pub(super) fn next_of_plan(&self) -> Option<Duration> {
        let elapsed = self.world.elapsed;
        let later = self.plan.later.iter().filter(|(_, event)| self.matters(event));
        let ripe = self.plan.ripe_at.filter(|at| *at > elapsed && !self.plan.waiting.is_empty());
        later.map(|((at, _), _)| *at).chain(ripe).min()
    }

    /// What is never known to have struck.
    #[must_use]
    pub fn unstruck(&self) -> Vec<Misfortune> {
        self.plan.waiting.iter().copied().collect()
    }

    /// A node that nobody is on any more is not worth waiting for.
    fn matters(&self, event: &ScheduledEvent) -> bool {
        match event {
            ScheduledEvent::RemoveNode(name) => {
                self.of_kind("v1", "Pod").any(|pod| pod.value["spec"]["nodeName"] == *name.as_str())
            }
            ScheduledEvent::Create(_)
            | ScheduledEvent::LoseNode(..)
            | ScheduledEvent::RestoreNode(_)
            | ScheduledEvent::Resume(_)
            | ScheduledEvent::Back(..) => true,
        }
    }

    /// Does what has become due.
    pub(super) fn carry_out(&mut self) {
        let elapsed = self.world.elapsed;
        while let Some(entry) = self.plan.later.first_entry().filter(|e| e.key().0 <= elapsed) {
            let event = entry.remove();
            self.inject(event);
            self.world.absorb(Source::Others);
        }
        let Some(misfortune) = self.plan.waiting.front().copied() else { return };
        let Some(pod) = self.victim() else { return };
        let ripe_at = *self.plan.ripe_at.get_or_insert_with(|| elapsed + patience(&pod));
        if elapsed >= ripe_at {
            self.plan.waiting.pop_front();
            self.plan.ripe_at = Some(elapsed + AFTER / 2);
            self.strike(misfortune, &pod);
            self.world.absorb(Source::Others);
        }
    }

    /// Pods that run and are looked after, of the first AppWrapper that has some; by name.
    fn running(&self) -> Vec<Arc<Object>> {
        let of = |wrapper: &oracle::Wrapper| {
            let pods = wrapper.things.iter().filter(|(_, thing)| thing.pod && !thing.terminating);
            let pods = pods.filter_map(|(uid, _)| self.world.store.by_uid(uid).cloned());
            let lives = |pod: &Arc<Object>| {
                phase(pod) == "Running" && !self.world.kubelets.hangs(&self.world.store, pod)
            };
            let mut pods: Vec<Arc<Object>> = pods.filter(lives).collect();
            pods.sort_by(|a, b| a.address.cmp(&b.address));
            pods
        };
        self.world
            .oracle
            .wrappers
            .values()
            .map(of)
            .find(|pods| !pods.is_empty())
            .unwrap_or_default()
    }

    /// The pod that it happens to: the last by name, so that a leader is left to tell of it.
    fn victim(&self) -> Option<Arc<Object>> {
        self.running().pop()
    }

    fn wrapper_of(&self, pod: &Object) -> Option<Arc<Object>> {
        let root = self.world.oracle.root_of(&pod.uid)?;
        self.world.store.by_uid(root).cloned()
    }

    fn strike(&mut self, misfortune: Misfortune, pod: &Arc<Object>) {
        match misfortune {
            Misfortune::Node => self.kill_node(pod),
            Misfortune::Pod => {
                let running = self.running();
                let unlucky = self.plan.rng.pick(&running).clone();
                self.fail(&unlucky);
            }
            Misfortune::Stuck => {
                let peers = self.running();
                self.world.kubelets.stick(pod);
                let title = title("Pod", pod);
                let message = "its volume does not unmount: it stays Terminating when deleted";
                self.say(title, "Stuck", message.to_owned());
                // what nobody replaces makes it start again; else something must make it go
                match peers.first().filter(|one| one.annotation(NEEDS_PEERS).is_some()) {
                    Some(first) if peers.len() > 1 => self.fail(first),
                    Some(_) | None => self.preempt(pod),
                }
            }
            Misfortune::Preempt => self.preempt(pod),
            Misfortune::Crash => {
                self.world.crash(0);
                self.world.replicas[0].frozen_until = self.world.elapsed + AWAY;
                let message = "crashes; AppWrappers are not reconciled until it restarts";
                self.say("Controller/appwrapper".to_owned(), "Crashed", message.to_owned());
                let back = ScheduledEvent::Back(
                    "Controller/appwrapper",
                    "restarts and lists all objects again",
                );
                self.plan.later(self.world.elapsed + AWAY, back);
            }
            Misfortune::Outage => {
                self.world.outage_until = self.world.elapsed + AWAY;
                let message = "returns only errors to the controller";
                self.say("Cluster/api-server".to_owned(), "Outage", message.to_owned());
                let back = ScheduledEvent::Back("Cluster/api-server", "responds normally again");
                self.plan.later(self.world.elapsed + AWAY, back);
            }
            Misfortune::Component => self.delete_component(pod),
        }
    }

    fn kill_node(&mut self, pod: &Arc<Object>) {
        let node = pod.value["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let (lost, left): (Vec<_>, Vec<_>) = self
            .running()
            .into_iter()
            .partition(|pod| pod.value["spec"]["nodeName"] == *node.as_str());
        self.silence(&node, &lost);
        for pod in left {
            let Some(after) = pod.annotation(NEEDS_PEERS).and_then(kubelet::duration) else {
                continue;
            };
            let said = format!("connection to {} timed out", pod_name(lost.first()));
            self.world.end_pod(&pod, self.world.elapsed + after, (1, "Error", &said));
        }
        self.plan.later(self.world.elapsed + NODE_KEPT, ScheduledEvent::RemoveNode(node));
    }

    /// A node stops reporting, with these pods.
    fn silence(&mut self, node: &str, lost: &[Arc<Object>]) {
        nodes::set_node(&mut self.world.store, node, Some(self.world.elapsed));
        let names: Vec<String> = lost.iter().map(|pod| title("Pod", pod)).collect();
        let message = if names.is_empty() {
            "stops reporting; no pod is on it".to_owned()
        } else {
            format!("stops reporting; its pods are lost: {}", names.join(", "))
        };
        self.say(format!("Node/{node}"), "NodeDied", message);
    }

    /// A pod fails now, as chance has it.
    fn fail(&mut self, pod: &Object) {
        let causes = [
            (1, "Error", "CUDA error: an illegal memory access was encountered"),
            (137, "OOMKilled", ""),
            (1, "Error", "RuntimeError: loss is NaN"),
        ];
        let cause = *self.plan.rng.pick(&causes);
        self.world.end_pod(pod, self.world.elapsed, cause);
    }

    fn preempt(&mut self, pod: &Arc<Object>) {
        let Some(wrapper) = self.wrapper_of(pod) else { return };
        let workload = self.world.kueue.workloads.get(&wrapper.uid);
        let object = title("AppWrapper", &wrapper);
        let Some(workload) =
            workload.filter(|one| one.standing == WorkloadState::Admitted).cloned()
        else {
            let message = "it has no queue, so its owner suspends it for 30 s";
            self.say(object, "Suspended", message.to_owned());
            self.world.store.change(&wrapper.address, Part::Whole, |wrapper| {
                wrapper["spec"]["suspend"] = true.into();
            });
            let at = self.world.elapsed + AWAY;
            return self.plan.later(at, ScheduledEvent::Resume(wrapper.uid.clone()));
        };
        let fits = workload.requests.iter().all(|(name, amount)| {
            self.quota().get(name).is_some_and(|(used, all)| used + amount <= *all)
        });
        if fits {
            let message = "Kueue preempts it, and may admit it again immediately";
            self.say(object, "Preempted", message.to_owned());
            let (_, kueue, mut env) = self.world.actors();
            kueue.evict(&mut env, &wrapper, Outcome::Preempted);
            return;
        }
        let urgent = urgent(&wrapper, &workload.requests, self.running().len());
        let message = "has a higher priority than the running AppWrapper and needs its quota";
        self.say("AppWrapper/urgent".to_owned(), "Urgent", message.to_owned());
        drop(self.create(urgent));
    }

    fn delete_component(&mut self, pod: &Arc<Object>) {
        let Some(wrapper) = self.wrapper_of(pod) else { return };
        let known = self.world.oracle.wrappers.get(&wrapper.uid);
        let things = known.map(|known| known.things.iter()).into_iter().flatten();
        let mut components = things.filter(|(_, thing)| thing.component);
        let Some((uid, thing)) = components.find(|(_, thing)| thing.kind != "ConfigMap") else {
            return;
        };
        let object = format!("{}/{}", thing.kind, thing.name);
        let Some(address) = self.world.store.by_uid(uid).map(|found| found.address.clone()) else {
            return;
        };
        self.say(object, "DeletedByHand", "a user deletes it".to_owned());
        let background = Some(Propagation::Background);
        let deletion = Deletion { propagation: background, ..Deletion::default() };
        drop(self.world.store.delete(&address, &deletion));
    }

    fn inject(&mut self, event: ScheduledEvent) {
        match event {
            ScheduledEvent::Create(object) => {
                let title =
                    format!("{}/{}", word(&object["kind"]), word(&object["metadata"]["name"]));
                if let Err(message) = self.create(*object) {
                    self.say(title, "Refused", message);
                }
            }
            ScheduledEvent::RemoveNode(name) => self.remove_node(&name),
            ScheduledEvent::LoseNode(name, lasts) => {
                let is_on = |pod: &&Arc<Object>| {
                    pod.value["spec"]["nodeName"] == *name.as_str() && phase(pod) == "Running"
                };
                let lost: Vec<_> = self.of_kind("v1", "Pod").filter(is_on).cloned().collect();
                self.silence(&name, &lost);
                self.plan.later(self.world.elapsed + lasts, ScheduledEvent::RestoreNode(name));
            }
            ScheduledEvent::RestoreNode(name) => {
                nodes::set_node(&mut self.world.store, &name, None);
            }
            ScheduledEvent::Resume(uid) => {
                let Some(wrapper) = self.world.store.by_uid(&uid).cloned() else { return };
                let message = "its owner resumes it";
                self.say(title("AppWrapper", &wrapper), "Resumed", message.to_owned());
                self.world.store.change(&wrapper.address, Part::Whole, |wrapper| {
                    wrapper["spec"]["suspend"] = false.into();
                });
            }
            ScheduledEvent::Back(object, message) => {
                self.say(object.to_owned(), "Back", message.to_owned());
            }
        }
    }

    fn remove_node(&mut self, name: &str) {
        let node = self.of_kind("v1", "Node").find(|node| *node.address.name == *name).cloned();
        let Some(node) = node else { return };
        let message = "the Node is deleted; pods that are stuck on it terminate";
        self.say(title("Node", &node), "NodeRemoved", message.to_owned());
        drop(self.world.store.delete(&node.address, &Deletion::default()));
        let (kubelets, _, mut env) = self.world.actors();
        kubelets.node(&mut env, &node.address);
    }
}

/// How long to wait before something goes wrong: not beyond the life of a pod that is short.
fn patience(pod: &Object) -> Duration {
    let lives = pod.annotation("sim/run-for").and_then(kubelet::duration);
    lives.map_or(AFTER, |lives| (lives / 2).min(AFTER))
}

/// An AppWrapper that takes as much quota as another, for half a minute.
fn urgent(other: &Object, needs: &BTreeMap<String, i64>, pods: usize) -> Value {
    let count = i64::try_from(pods.max(1)).unwrap_or(1);
    let each = |(name, amount): (&String, &i64)| {
        let share = (amount + count - 1) / count;
        (name.clone(), Value::from(format!("{share}m")))
    };
    let requests: serde_json::Map<String, Value> =
        needs.iter().filter(|(name, _)| *name != "pods").map(each).collect();
    let pod = json!({
        "metadata": {"annotations": {"sim/run-for": "30s"}},
        "spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "busybox", "resources": {"requests": requests}},
        ]},
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "urgent"},
        "spec": {"parallelism": count, "completions": count, "template": pod},
    });
    let set = json!({"replicas": count, "path": "template.spec.template"});
    json!({
        "apiVersion": other.value["apiVersion"], "kind": other.value["kind"],
        "metadata": {"name": "urgent", "namespace": &*other.address.namespace, "labels": {
            QUEUE: other.label(QUEUE), PRIORITY: "1000",
        }},
        "spec": {"suspend": true, "components": [{"podSets": [set], "template": job}]},
    })
}

fn title(kind: &str, object: &Object) -> String {
    format!("{kind}/{}", object.address.name)
}

fn pod_name(pod: Option<&Arc<Object>>) -> String {
    pod.map(|pod| pod.address.name.to_string()).unwrap_or_default()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
