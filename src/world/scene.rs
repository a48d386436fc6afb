//! What a world begins with, and what its people do.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::actors::kubelet::Temper;
use super::faults::{Fault, Faults};
use super::rng::Rng;
use crate::sim::{Object, Propagation};

/// Label of an AppWrapper that is not to be judged: it is there to do harm.
pub const HOSTILE: &str = "sim/hostile";
const PREFIX: &str = "workload.codeflare.dev.appwrapper/";

/// What a world begins with.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Nodes, each with the pods that it has room for.
    pub nodes: Vec<(String, usize)>,
    /// Objects that are there at the start, or come when the world begins.
    pub objects: Vec<Value>,
    /// What people do, and when.
    pub script: Vec<(Duration, Act)>,
    /// The ClusterQueue, in thousandths of each resource; none where empty.
    pub quota: BTreeMap<String, i64>,
    /// Kueue's patience.
    pub ready_within: Option<Duration>,
    /// How pods behave.
    pub temper: Temper,
    /// The configuration of the controller, as YAML.
    pub config: String,
}

/// What somebody does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Creates an object, again and again until its name is free.
    Create(Box<Value>),
    /// Sets `suspend`.
    Suspend(String, bool),
    /// Deletes an AppWrapper.
    Delete(String, Option<Propagation>),
    /// Changes an annotation of ours.
    Annotate(String, &'static str, String),
    /// Deletes a component of an AppWrapper.
    DeleteComponent(String),
    /// Takes our label from a component.
    Unlabel(String),
    /// Deletes a pod of an AppWrapper.
    DeletePod(String),
    /// Holds something of an AppWrapper with a finalizer, for a while.
    Hold(String),
    /// Kueue makes an AppWrapper go.
    Preempt(String),
    /// A pod that wears an AppWrapper's labels and is not its.
    Impostor(String),
    /// A node stops to answer, or answers again.
    Node(String, bool),
    /// A node is deleted; another of its name comes later.
    DeleteNode(String),
    /// A node is marked `NoExecute`.
    Mark(String, bool),
    /// A kind is served or not.
    Serve(&'static str, &'static str, bool),
    /// The namespace takes nothing new, or does again.
    Close(bool),
}

/// The limits of an AppWrapper, read here by other code than the controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// `AdmissionGracePeriod`.
    pub admission: Duration,
    /// `WarmupGracePeriod`.
    pub warmup: Duration,
    /// `FailureGracePeriod`.
    pub failure: Duration,
    /// `RetryPausePeriod`.
    pub pause: Duration,
    /// `DeletionOnFailureGracePeriod`.
    pub keep: Duration,
    /// `ForcefulDeletionGracePeriod`.
    pub force: Duration,
    /// `SuccessTTL`.
    pub ttl: Duration,
    /// `RetryLimit`.
    pub limit: i64,
    /// A code decides at once, so that no grace is waited for.
    pub codes: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            admission: Duration::from_mins(1),
            warmup: Duration::from_mins(5),
            failure: Duration::from_mins(1),
            pause: Duration::from_secs(90),
            keep: Duration::ZERO,
            force: Duration::from_mins(10),
            ttl: Duration::from_hours(7 * 24),
            limit: 3,
            codes: false,
        }
    }
}

impl Tuning {
    /// Reads the annotations; what cannot be read has its default.
    #[must_use]
    pub fn read(object: &Object) -> Self {
        let text = |key: &str| object.annotation(&format!("{PREFIX}{key}"));
        let period = |key: &str, default: Duration| {
            let seconds = text(&format!("{key}Duration")).and_then(|text| text.strip_suffix('s'));
            seconds.and_then(|text| text.parse().ok()).map_or(default, Duration::from_secs)
        };
        let usual = Self::default();
        Self {
            admission: period("admissionGracePeriod", usual.admission),
            warmup: period("warmupGracePeriod", usual.warmup),
            failure: period("failureGracePeriod", usual.failure),
            pause: period("retryPausePeriod", usual.pause),
            keep: period("deletionOnFailureGracePeriod", usual.keep),
            force: period("forcefulDeletionGracePeriod", usual.force),
            ttl: period("successTTL", usual.ttl),
            limit: text("retryLimit").and_then(|text| text.parse().ok()).unwrap_or(usual.limit),
            codes: text("terminalExitCodes").is_some() || text("retryableExitCodes").is_some(),
        }
    }

    /// The shortest of the periods, the highest of the limits: what two states of annotations allow.
    #[must_use]
    pub fn loosest(&self, other: &Self) -> Self {
        Self {
            admission: self.admission.min(other.admission),
            warmup: self.warmup.min(other.warmup),
            failure: self.failure.min(other.failure),
            pause: self.pause.min(other.pause),
            keep: self.keep.min(other.keep),
            force: self.force.min(other.force),
            ttl: self.ttl.min(other.ttl),
            limit: self.limit.max(other.limit),
            codes: self.codes || other.codes,
        }
    }
}

/// The pod templates of an object, each with how many pods are made from it.
#[must_use]
pub fn pods_in(template: &Value) -> Vec<(i64, &Value)> {
    let count = |value: &Value, key: &str| value[key].as_i64().unwrap_or(1);
    let spec = &template["spec"];
    let job = |spec: &'_ Value| {
        let parallelism = count(spec, "parallelism");
        spec["completions"].as_i64().map_or(parallelism, |all| all.min(parallelism))
    };
    match template["kind"].as_str().unwrap_or_default() {
        "Pod" => vec![(1, template)],
        "Job" => vec![(job(spec), &spec["template"])],
        "JobSet" => spec["replicatedJobs"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| {
                let inner = &one["template"]["spec"];
                (count(one, "replicas") * job(inner), &inner["template"])
            })
            .collect(),
        "Deployment" | "StatefulSet" => vec![(count(spec, "replicas"), &spec["template"])],
        "PyTorchJob" => ["Master", "Worker"]
            .iter()
            .map(|role| &spec["pytorchReplicaSpecs"][*role])
            .filter(|replica| !replica.is_null())
            .map(|replica| (count(replica, "replicas"), &replica["template"]))
            .collect(),
        "RayCluster" => {
            let groups = spec["workerGroupSpecs"].as_array().into_iter().flatten();
            let workers =
                groups.map(|group| (group["replicas"].as_i64().unwrap_or(0), &group["template"]));
            [(1, &spec["headGroupSpec"]["template"])].into_iter().chain(workers).collect()
        }
        _ => vec![],
    }
}

/// The words of a random scene.
struct Author<'a> {
    rng: &'a mut Rng,
    faults: &'a Faults,
}

impl Scene {
    /// The scene of a seed.
    #[must_use]
    pub fn random(rng: &mut Rng, faults: &Faults) -> Self {
        let mut author = Author { rng, faults };
        let nodes = (1..=author.rng.between(1, 3)).map(|n| (format!("node-{n}"), 16)).collect();
        let mut scene = Self { nodes, config: author.config(), ..Self::default() };
        let queued = author.rng.one_in(2);
        if queued {
            let pods = i64::try_from(author.rng.between(1, 4)).unwrap_or(1);
            scene.quota = BTreeMap::from([("pods".to_owned(), pods * 1000)]);
            if author.rng.one_in(4) {
                scene.ready_within = Some(Duration::from_secs(author.rng.between(20, 400)));
            }
        }
        let count = author.rng.between(1, 3);
        let names: Vec<String> = (0..count).map(|n| format!("aw{n}")).collect();
        for name in &names {
            let wrapper = author.wrapper(name, queued);
            let at = author.moment(20);
            scene.script.push((at, Act::Create(Box::new(wrapper))));
        }
        author.strangers(&mut scene, &names);
        author.people(&mut scene, &names, queued);
        author.machines(&mut scene, &names);
        scene.temper = author.temper();
        scene
    }
}

impl Author<'_> {
    /// A moment within the first so many seconds.
    fn moment(&mut self, seconds: u64) -> Duration {
        Duration::from_millis(self.rng.between(0, seconds * 1000))
    }

    /// A moment of a life: mostly early, when things happen.
    fn later(&mut self) -> Duration {
        let within = *self.rng.pick(&[10, 30, 120, 600]);
        self.moment(within)
    }

    fn config(&mut self) -> String {
        let kill = if self.rng.one_in(40) { 0 } else { 20 };
        format!(
            "{{retryPolicy: {{globalMaxRetries: {kill}}}, autopilot: {{resourceTaints: \
             {{nvidia.com/gpu: [{{key: health, value: EVICT, effect: NoExecute}}]}}}}}}"
        )
    }

    fn temper(&mut self) -> Temper {
        let mut one = |fault: Fault, most: u64| {
            if self.faults.has(fault) && self.rng.one_in(2) {
                u32::try_from(self.rng.between(20, most)).unwrap_or(0)
            } else {
                0
            }
        };
        Temper {
            fails: one(Fault::Pod, 600),
            hangs: one(Fault::Pod, 250),
            evicted: one(Fault::Pod, 250),
            sticks: one(Fault::Stuck, 300),
        }
    }

    /// An AppWrapper of one to three components, tuned by annotations.
    fn wrapper(&mut self, name: &str, queued: bool) -> Value {
        let count = *self.rng.pick(&[1, 1, 1, 2, 3]);
        let components: Vec<Value> = (0..count)
            .map(|index| {
                let template = self.template(&format!("{name}-c{index}"));
                let sets: Vec<Value> = pods_in(&template)
                    .iter()
                    .zip(paths(&template))
                    .map(|((count, _), path)| json!({"replicas": count, "path": path}))
                    .collect();
                json!({"template": template, "podSets": sets})
            })
            .collect();
        let mut wrapper = json!({
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "metadata": {"name": name, "annotations": self.annotations()},
            "spec": {"suspend": queued || self.rng.one_in(8), "components": components},
        });
        if queued {
            wrapper["metadata"]["labels"] = json!({
                "kueue.x-k8s.io/queue-name": "lq",
                "kueue.x-k8s.io/priority-class": self.rng.between(0, 2).to_string(),
            });
        }
        wrapper
    }

    fn annotations(&mut self) -> Value {
        let mut all = serde_json::Map::new();
        let periods: [(&str, &[u64]); 7] = [
            ("admissionGracePeriod", &[0, 5, 60]),
            ("warmupGracePeriod", &[0, 10, 300]),
            ("failureGracePeriod", &[0, 5, 60]),
            ("retryPausePeriod", &[0, 3, 90]),
            ("deletionOnFailureGracePeriod", &[0, 0, 30, 900]),
            ("forcefulDeletionGracePeriod", &[0, 20, 600]),
            ("successTTL", &[0, 40, 604_800]),
        ];
        for (key, choices) in periods {
            if !self.rng.one_in(3) {
                let seconds = self.rng.pick(choices);
                all.insert(format!("{PREFIX}{key}Duration"), format!("{seconds}s").into());
            }
        }
        if self.rng.one_in(2) {
            let limit = self.rng.between(0, 3).to_string();
            all.insert(format!("{PREFIX}retryLimit"), limit.into());
        }
        if self.rng.one_in(8) {
            all.insert(format!("{PREFIX}terminalExitCodes"), "42, 126".into());
        }
        if self.rng.one_in(10) {
            all.insert(format!("{PREFIX}retryableExitCodes"), "1,137,143".into());
        }
        if self.rng.one_in(12) {
            all.insert(format!("{PREFIX}failureGracePeriodDuration"), "5 days".into());
        }
        all.into()
    }

    /// How a pod lives, by its annotations.
    fn life(&mut self, ends: bool) -> Value {
        let mut all = serde_json::Map::new();
        if ends {
            let seconds = *self.rng.pick(&[1, 5, 30, 90]);
            all.insert("sim/run-for".to_owned(), format!("{seconds}s").into());
            if self.faults.has(Fault::Pod) && self.rng.one_in(4) {
                let until = self.rng.between(1, 3).to_string();
                all.insert("sim/fail-until-attempt".to_owned(), until.into());
            }
        }
        if self.faults.has(Fault::Stuck) && self.rng.one_in(12) {
            all.insert("sim/stuck".to_owned(), "true".into());
        }
        all.into()
    }

    fn pod(&mut self, ends: bool) -> Value {
        let gpu = self.rng.one_in(3);
        let limits = if gpu { json!({"nvidia.com/gpu": 1}) } else { json!({}) };
        json!({
            "metadata": {"annotations": self.life(ends)},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}],
            },
        })
    }

    fn job_spec(&mut self) -> Value {
        let mut spec = json!({"backoffLimit": self.rng.between(0, 1), "template": self.pod(true)});
        if self.rng.one_in(2) {
            spec["parallelism"] = self.rng.between(1, 2).into();
            spec["completions"] = self.rng.between(1, 3).into();
        }
        spec
    }

    fn template(&mut self, name: &str) -> Value {
        let object = |api: &str, kind: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec});
        match self.rng.below(12) {
            0..=2 => {
                let mut pod = self.pod(true);
                pod["apiVersion"] = "v1".into();
                pod["kind"] = "Pod".into();
                pod["metadata"]["name"] = name.into();
                pod
            }
            3..=6 => {
                let mut spec = self.job_spec();
                if self.rng.one_in(4) {
                    spec["ttlSecondsAfterFinished"] = self.rng.between(0, 20).into();
                }
                object("batch/v1", "Job", spec)
            }
            7 | 8 => {
                let jobs: Vec<Value> = (0..self.rng.between(1, 2))
                    .map(|n| {
                        let spec = self.job_spec();
                        json!({"name": format!("r{n}"), "replicas": 1, "template": {"spec": spec}})
                    })
                    .collect();
                object("jobset.x-k8s.io/v1alpha2", "JobSet", json!({"replicatedJobs": jobs}))
            }
            9 => {
                let spec = json!({"replicas": self.rng.between(1, 2), "template": self.pod(false)});
                object("apps/v1", "Deployment", spec)
            }
            10 => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"a": "b"}}),
            _ => {
                let spec = json!({"replicas": self.rng.between(1, 2), "template": self.pod(false)});
                object("apps/v1", "StatefulSet", spec)
            }
        }
    }

    fn strangers(&mut self, scene: &mut Scene, names: &[String]) {
        if self.faults.has(Fault::Stranger) && self.rng.one_in(5) {
            let name = self.rng.pick(names).clone();
            let kind = *self.rng.pick(&[("v1", "ConfigMap"), ("batch/v1", "Job"), ("v1", "Pod")]);
            let mut object = json!({
                "apiVersion": kind.0, "kind": kind.1, "metadata": {"name": format!("{name}-c0")},
                "spec": {"parallelism": 0},
            });
            if self.rng.one_in(2) {
                object["metadata"]["labels"] = json!({
                    "workload.codeflare.dev/appwrapper": name,
                    "workload.codeflare.dev/attempt": "0",
                });
            }
            let at = self.moment(30);
            scene.script.push((at, Act::Create(Box::new(object))));
        }
        if self.faults.has(Fault::Stranger) && self.rng.one_in(4) {
            let name = self.rng.pick(names).clone();
            let at = self.later();
            scene.script.push((at, Act::Impostor(name)));
        }
        if self.faults.has(Fault::Poison) && self.rng.one_in(6) {
            let at = self.moment(10);
            scene.script.push((at, Act::Create(Box::new(self.poison()))));
        }
    }

    /// AppWrappers from which nothing can come.
    fn poison(&mut self) -> Value {
        let mut wrapper = json!({
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "metadata": {"name": "poison", "labels": {HOSTILE: "true"}},
            "spec": {"suspend": false, "components": []},
        });
        match self.rng.below(4) {
            0 => wrapper["spec"]["components"] = 3.into(),
            1 => wrapper["spec"]["components"] = json!([{"template": {"metadata": "boo"}}]),
            2 => {
                wrapper["spec"]["components"] = json!([{"template": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}}]);
            }
            _ => wrapper["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue".into(),
        }
        wrapper
    }

    fn people(&mut self, scene: &mut Scene, names: &[String], queued: bool) {
        if self.faults.has(Fault::User) {
            for _ in 0..self.rng.below(5) {
                let name = self.rng.pick(names).clone();
                let at = self.later();
                let act = self.deed(name.clone(), scene);
                scene.script.push((at, act));
                if self.rng.one_in(3) {
                    self.burst(&name, at, scene);
                }
            }
        }
        if self.faults.has(Fault::Kueue) && queued {
            for _ in 0..self.rng.below(4) {
                let name = self.rng.pick(names).clone();
                let at = self.later();
                scene.script.push((at, Act::Preempt(name)));
            }
        }
    }

    /// More happens to the same AppWrapper, shortly after.
    fn burst(&mut self, name: &str, after: Duration, scene: &mut Scene) {
        for _ in 0..self.rng.between(1, 3) {
            let at = after + Duration::from_millis(self.rng.between(1, 700));
            let name = name.to_owned();
            let act = match self.rng.below(7) {
                0 => Act::DeletePod(name),
                1 => Act::DeleteComponent(name),
                2 => Act::Unlabel(name),
                3 if self.faults.has(Fault::Finalizer) => Act::Hold(name),
                4 => Act::Suspend(name, true),
                5 => Act::Suspend(name, false),
                _ => Act::Annotate(name, "failureGracePeriod", "7s".to_owned()),
            };
            scene.script.push((at, act));
        }
    }

    fn deed(&mut self, name: String, scene: &mut Scene) -> Act {
        match self.rng.below(11) {
            0 | 1 => Act::Suspend(name, true),
            2 | 3 => Act::Suspend(name, false),
            4 => {
                let policies = [
                    None,
                    Some(Propagation::Background),
                    Some(Propagation::Foreground),
                    Some(Propagation::Orphan),
                ];
                Act::Delete(name, *self.rng.pick(&policies))
            }
            5 => {
                // and again, by the same name
                let queued = !scene.quota.is_empty();
                let wrapper = self.wrapper(&name, queued);
                let at = self.later();
                scene.script.push((at, Act::Create(Box::new(wrapper))));
                Act::Delete(name, None)
            }
            6 => {
                let key = *self.rng.pick(&[
                    "failureGracePeriod",
                    "retryPausePeriod",
                    "warmupGracePeriod",
                ]);
                Act::Annotate(name, key, format!("{}s", self.rng.between(0, 30)))
            }
            7 => Act::DeleteComponent(name),
            8 => Act::Unlabel(name),
            _ => Act::DeletePod(name),
        }
    }

    fn machines(&mut self, scene: &mut Scene, names: &[String]) {
        if self.faults.has(Fault::Finalizer) && self.rng.one_in(3) {
            let name = self.rng.pick(names).clone();
            let at = self.later();
            scene.script.push((at, Act::Hold(name)));
        }
        if self.faults.has(Fault::Node) {
            for _ in 0..self.rng.below(4) {
                let node = scene.nodes[self.rng.below(scene.nodes.len())].0.clone();
                let at = self.later();
                let act = match self.rng.below(4) {
                    0 => Act::DeleteNode(node),
                    1 => Act::Mark(node, true),
                    _ => Act::Node(node, false),
                };
                if let Act::Node(node, _) | Act::Mark(node, _) = &act {
                    let back = at + self.later();
                    let undo = match &act {
                        Act::Mark(..) => Act::Mark(node.clone(), false),
                        _ => Act::Node(node.clone(), true),
                    };
                    scene.script.push((back, undo));
                }
                scene.script.push((at, act));
            }
        }
        if self.faults.has(Fault::Kind) && self.rng.one_in(5) {
            let (api, kind) =
                *self.rng.pick(&[("jobset.x-k8s.io/v1alpha2", "JobSet"), ("batch/v1", "Job")]);
            let at = self.later();
            let back = at + self.later();
            scene.script.push((at, Act::Serve(api, kind, false)));
            scene.script.push((back, Act::Serve(api, kind, true)));
        }
        if self.faults.has(Fault::Namespace) && self.rng.one_in(8) {
            let at = self.later();
            let back = at + self.later();
            scene.script.push((at, Act::Close(true)));
            scene.script.push((back, Act::Close(false)));
        }
    }
}

/// The paths of the pod sets of a template, in the order of [`pods_in`].
#[must_use]
pub fn paths(template: &Value) -> Vec<String> {
    match template["kind"].as_str().unwrap_or_default() {
        "Pod" => vec!["template".to_owned()],
        "Job" | "Deployment" | "StatefulSet" => vec!["template.spec.template".to_owned()],
        "JobSet" => {
            let count = template["spec"]["replicatedJobs"].as_array().map_or(0, Vec::len);
            let one = |n| format!("template.spec.replicatedJobs[{n}].template.spec.template");
            (0..count).map(one).collect()
        }
        _ => vec![],
    }
}

impl Act {
    /// The kind of fault that it is, where nothing else counts it.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Suspend(..)
            | Self::Delete(..)
            | Self::Annotate(..)
            | Self::DeleteComponent(_)
            | Self::Unlabel(_)
            | Self::DeletePod(_) => Some(Fault::User),
            Self::Node(_, false) | Self::Mark(_, true) => Some(Fault::Node),
            Self::Close(true) => Some(Fault::Namespace),
            Self::Create(object) if object["metadata"]["labels"][HOSTILE] == "true" => {
                Some(Fault::Poison)
            }
            Self::Create(_)
            | Self::Hold(_)
            | Self::Preempt(_)
            | Self::Impostor(_)
            | Self::Node(_, true)
            | Self::DeleteNode(_)
            | Self::Mark(_, false)
            | Self::Serve(..)
            | Self::Close(false) => None,
        }
    }

    /// Whether nobody does it any more once everything is healed.
    #[must_use]
    pub const fn does_harm(&self) -> bool {
        match self {
            Self::Create(_)
            | Self::Node(_, true)
            | Self::Mark(_, false)
            | Self::Serve(_, _, true)
            | Self::Close(false) => false,
            Self::Suspend(..)
            | Self::Delete(..)
            | Self::Annotate(..)
            | Self::DeleteComponent(_)
            | Self::Unlabel(_)
            | Self::DeletePod(_)
            | Self::Hold(_)
            | Self::Preempt(_)
            | Self::Impostor(_)
            | Self::Node(_, false)
            | Self::DeleteNode(_)
            | Self::Mark(_, true)
            | Self::Serve(_, _, false)
            | Self::Close(true) => true,
        }
    }
}

impl std::fmt::Display for Act {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Create(object) => write!(f, "create {object}"),
            other => write!(f, "{other:?}"),
        }
    }
}
