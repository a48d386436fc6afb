//! What a world begins with, and what its people do.

mod act;
mod author;
mod budgets;
mod kueue;
mod people;
mod policies;
mod progress;
mod suspicion;
mod tuning;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::actors::kubelet::Temper;
use super::actors::kueue::QUEUE;
use super::faults::Faults;
use super::rng::Rng;

pub use act::Act;
pub use tuning::Tuning;

use author::Author;

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
    /// How long pods may take to be ready again, and how many evictions of pods that are not ready Kueue requeues.
    pub gives_up: Option<(Duration, u32)>,
    /// Kueue's Workloads are objects, and the controller knows its configuration.
    pub shows_workloads: bool,
    /// How pods behave.
    pub temper: Temper,
    /// The configuration of the controller, as YAML.
    pub config: String,
}

impl Scene {
    /// Adds what large fleets ask for: budgets, progress, suspect nodes, Kueue's deadline with `onNoFit`,
    /// and suspension through the controller. In half of
    /// the worlds all of it, wherever it applies; in the others each by a chance of its own.
    pub fn add_fleet_parts(&mut self, seed: u64) {
        let all = Rng::new(seed, 11).one_in(2);
        self.add_budgets(&mut Rng::new(seed, 7), all);
        self.add_progress(&mut Rng::new(seed, 8), all);
        self.add_suspicion(&mut Rng::new(seed, 9), all);
        self.add_kueue(&mut Rng::new(seed, 10), all);
        self.add_activation(&mut Rng::new(seed, 12), all);
        self.add_giving_up(&mut Rng::new(seed, 17));
    }

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
            let at = author.rng.moment(20);
            scene.script.push((at, Act::Create(Box::new(wrapper))));
        }
        author.strangers(&mut scene, &names);
        author.people(&mut scene, &names, queued);
        author.machines(&mut scene, &names);
        scene.temper = author.temper();
        scene
    }
}

/// An AppWrapper; one that is queued waits in the LocalQueue of the world.
pub(super) fn appwrapper(name: &str, annotations: &Value, spec: &Value, queued: bool) -> Value {
    let mut wrapper = json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    });
    if queued {
        wrapper["metadata"]["labels"] = json!({QUEUE: "lq"});
    }
    wrapper
}

/// A pod template with the annotations of a life.
pub(super) fn pod_of(life: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> =
        life.iter().map(|(key, value)| (format!("sim/{key}"), Value::from(*value))).collect();
    json!({
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]},
    })
}

/// The same as a pod with a name.
pub(super) fn pod_object(name: &str, life: &[(&str, &str)]) -> Value {
    let mut pod = pod_of(life);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod
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
        "Job" if spec["tasks"].is_array() => {
            let tasks = spec["tasks"].as_array().into_iter().flatten();
            tasks.map(|task| (task["replicas"].as_i64().unwrap_or(0), &task["template"])).collect()
        }
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

/// Whether a target is a part of a component: kinds are written with a capital.
fn is_part(target: &Value) -> bool {
    let mut words = target.as_str().unwrap_or_default().split('/');
    let first = words.next().is_some_and(|word| word.starts_with(char::is_uppercase));
    words.count() > usize::from(first)
}

/// Every pod template below a value.
fn each_pod(value: &mut Value, change: &mut impl FnMut(&mut Value)) {
    if value["spec"]["containers"].is_array() {
        change(value);
        return;
    }
    match value {
        Value::Object(all) => all.values_mut().for_each(|inner| each_pod(inner, change)),
        Value::Array(all) => all.iter_mut().for_each(|inner| each_pod(inner, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
