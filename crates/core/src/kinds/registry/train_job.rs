//! `trainer.kubeflow.org/v1alpha1`, as Trainer 2.3 serves it.
//!
//! A TrainJob has no pod templates: they are in the runtime that it refers to. At admission the runtime is
//! read, and what it says of pods is recorded in the TrainJob itself: a runtime patch of ours with the pod
//! template of each replicated Job, at a path that a pod set can name. Kueue counts by it, and what Kueue
//! and the controller add to a pod template (labels, node selector, tolerations) reaches the pods, because
//! Trainer applies the patch. What a patch may not have is left out of the object that is created; the
//! resources of the trainer's container are given as `spec.trainer.resourcesPerNode` instead.

use serde_json::{Map, Value, json};

use super::super::fields::Fields;
use super::super::infer::pod_set;
use super::super::node::Node;
use super::super::status::{JobCounts, Object};
use super::core::JOB_INDEX;
use super::{End, Error, JOB, JOB_SET, Kind, LimitedMemory, MustStore, Reference, Rules};
use crate::api::{PodSet, keys};
use crate::snapshot::{Expected, Report};

pub(super) const KINDS: &[Kind] = &[Kind {
    api_version: "trainer.kubeflow.org/v1alpha1",
    kind: "TrainJob",
    plural: "trainjobs",
    makes: &[JOB_SET, JOB],
    end: End::Reported,
    adds_containers: true,
    // Trainer creates the JobSet again while a TrainJob is Terminating, and its pods start once more
    recreates: true,
    reads: &["clustertrainingruntimes", "trainingruntimes"],
    rules: &TrainJob,
}];

/// API group of the runtimes.
const GROUP: &str = "trainer.kubeflow.org";
/// Who the recorded patch belongs to.
const MANAGER: &str = "workload.codeflare.dev/appwrapper";
/// Label of the replicated Job that trains, and its value.
const ANCESTOR: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
const TRAINER: &str = "trainer";
/// The container that `spec.trainer` is about; of an MPI runtime also the replicated Job of the nodes.
const NODE: &str = "node";
/// Where a runtime patch has its replicated Jobs.
const JOBS: &str = "/trainingRuntimeSpec/template/spec/replicatedJobs";
/// The most replicated Jobs of a runtime: Kueue has no room for more pod sets.
const JOBS_MAX: usize = 10;
/// Environment variable of the container that creates a data cache: the image of its pods.
const CACHE_IMAGE: &str = "CACHE_IMAGE";
/// Environment variable of the same container: where its data is. Trainer sets it to `storageUri`.
const STORAGE_URI: &str = "STORAGE_URI";
/// What is recorded of a pod's `spec` only for those who count or check it.
const COUNTED: [&str; 5] = ["resources", "resourceClaims", "overhead", "nodeName", "restartPolicy"];
/// What a patch may have of a pod's `spec`, and a runtime may have set already.
const PLACEMENT: [&str; 4] = ["nodeSelector", "affinity", "tolerations", "schedulingGates"];

/// The pods of the runtime's replicated Jobs.
#[derive(Debug)]
struct TrainJob;

impl Rules for TrainJob {
    /// None: those that were recorded are declared. A patch may not change what they were counted by.
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        for patch in template.walk(&["spec", "runtimePatches"])?.items()? {
            let jobs = ["trainingRuntimeSpec", "template", "spec", "replicatedJobs"];
            for job in patch.walk(&jobs)?.items()? {
                let labels = job.walk(&["template", "metadata", "labels"])?;
                let label = labels.field(ANCESTOR)?.value();
                if !label.is_null() {
                    let field = format!("{}[{ANCESTOR}]", labels.path());
                    return Err(Error::found(field, label, "no label that Trainer counts pods by"));
                }
            }
        }
        Ok(vec![])
    }

    fn reference(&self, template: &Value) -> Option<Reference> {
        let text = |field: &str| template["spec"]["runtimeRef"][field].as_str();
        let (name, group) = (text("name")?, text("apiGroup").unwrap_or(GROUP));
        let (kind, plural, namespaced) = match text("kind").unwrap_or("ClusterTrainingRuntime") {
            "ClusterTrainingRuntime" => {
                ("ClusterTrainingRuntime", "clustertrainingruntimes", false)
            }
            "TrainingRuntime" => ("TrainingRuntime", "trainingruntimes", true),
            _ => return None,
        };
        let api_version = KINDS.first()?.api_version;
        let name = name.to_owned();
        (group == GROUP).then_some(Reference { api_version, kind, plural, namespaced, name })
    }

    fn record(&self, template: &mut Value, runtime: &Value) -> Result<Vec<PodSet>, Error> {
        let runtime = Node::at("spec", &runtime["spec"]);
        let jobs = runtime.walk(&["template", "spec", "replicatedJobs"])?.items()?;
        if jobs.len() > JOBS_MAX {
            let expected = format!("a runtime of at most {JOBS_MAX} replicated Jobs");
            return Err(Error::new("template.spec.runtimeRef", &jobs.len().to_string(), expected));
        }
        let dataset = &template["spec"]["initializer"]["dataset"];
        if asks_for_cache(dataset) {
            let expected = "a dataset without a data cache, whose pods no pod set counts";
            return Err(Error::found("template.spec.initializer.dataset", dataset, expected));
        }
        if jobs.iter().any(|job| starts_cache(job.value())) {
            let name = &template["spec"]["runtimeRef"]["name"];
            let expected = "a runtime without a data cache, whose pods no pod set counts";
            return Err(Error::found("template.spec.runtimeRef.name", name, expected));
        }
        let trainer = Trainer::of(template, &runtime)?;
        let mut root = Fields::of(template, "template".to_owned())?;
        let mut spec = root.object("spec")?;
        let patches = spec.array("runtimePatches")?;
        patches.retain(|patch| patch["manager"] != MANAGER);
        let place = place(patches.len());
        let (mut pod_sets, mut recorded) = (vec![], vec![]);
        for (index, job) in jobs.iter().enumerate() {
            let count = trainer.pods(job)?;
            let annotations = [(keys::TAS_POD_INDEX, JOB_INDEX.to_owned())];
            pod_sets.push(pod_set(&job_path(&place, index), count, job, annotations)?);
            recorded.push(trainer.recorded(job)?);
        }
        let resources = same(recorded.iter().flat_map(|job| nodes(&job["template"]["spec"])));
        patches.push(json!({"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {
            "replicatedJobs": recorded}}}}));
        trainer.write(&mut spec.object("trainer")?, resources);
        Ok(pod_sets)
    }

    /// Of no more replicated Jobs than a runtime may have: whoever may change the object chooses how many there are.
    fn recorded(&self, object: &Value) -> Vec<PodSet> {
        let patches = object["spec"]["runtimePatches"].as_array().into_iter().flatten();
        let ours = patches.enumerate().find(|(_, patch)| patch["manager"] == MANAGER);
        let Some((number, patch)) = ours else { return vec![] };
        let jobs = patch.pointer(JOBS).and_then(Value::as_array).map_or(0, Vec::len);
        let place = place(number);
        let set = |index| PodSet { path: job_path(&place, index), ..PodSet::default() };
        (0..jobs.min(JOBS_MAX)).map(set).collect()
    }

    /// A patch has no resources: pods get them from `resourcesPerNode`, if one replicated Job alone has that container.
    fn limited_memory(&self, template: &Value) -> Option<LimitedMemory> {
        let mut patches = template["spec"]["runtimePatches"].as_array().into_iter().flatten();
        let ours = patches.find(|patch| patch["manager"] == MANAGER)?;
        let jobs = ours.pointer(JOBS).and_then(Value::as_array).into_iter().flatten();
        let has_node = |job: &&Value| nodes(&job["template"]["spec"]).next().is_some();
        let has_one = jobs.filter(has_node).count() == 1;
        let has_resources = template["spec"]["trainer"]["resourcesPerNode"].is_object();
        Some(LimitedMemory {
            container: (has_one && has_resources).then_some(NODE),
            why: "a TrainJob passes on only the memory of container node, in spec.trainer.resourcesPerNode, if one \
                  replicated Job has it",
        })
    }

    fn is_record_of(&self, stored: &Value, template: &Value) -> bool {
        let mut again = template.clone();
        add_again(&mut again, stored).is_ok() && again == *stored
    }

    fn finish(&self, object: &mut Value) {
        let patches = object.pointer_mut("/spec/runtimePatches").and_then(Value::as_array_mut);
        let ours = patches.into_iter().flatten().find(|patch| patch["manager"] == MANAGER);
        let jobs = ours.and_then(|patch| patch.pointer_mut(JOBS)).and_then(Value::as_array_mut);
        let Some(jobs) = jobs else { return };
        let resources = same(jobs.iter().flat_map(|job| nodes(&job["template"]["spec"])));
        for job in jobs {
            let pod = job.pointer_mut("/template/spec/template/spec");
            if let Some(Value::Object(pod)) = pod {
                pod.retain(|field, _| PLACEMENT.contains(&field.as_str()));
            }
        }
        let per_node = object.pointer_mut("/spec/trainer/resourcesPerNode");
        if let (Some(per_node), Some(resources)) = (per_node, resources) {
            *per_node = resources; // also what a retry with more memory has
        }
    }

    /// Pods get their labels and their node selectors by it.
    fn must_store(&self) -> Option<MustStore> {
        let why = "Kubeflow Trainer does not store spec.runtimePatches: it must be 2.2 or newer";
        Some(MustStore { pointer: "/spec/runtimePatches", why })
    }

    fn report(&self, object: Object<'_>, pod_sets: &[PodSet], report: &mut Report) {
        report.outcome = object.verdict("Complete", &["Failed"]);
        // as a Job of its JobSet does: neither says when
        report.deletes_pods = true;
        let jobs = JobCounts::of(object, "/status/jobsStatus");
        let counts = |name: &str, fields: &[&str]| jobs.sum(name, fields);
        let names: Vec<Option<&str>> =
            pod_sets.iter().map(|set| job_name(object, &set.path)).collect();
        let goes_on = |name: &&str| {
            counts(name, &["ready", "active"]) > 0 && counts(name, &["succeeded", "failed"]) == 0
        };
        let any_goes_on = names.iter().flatten().any(goes_on);
        for (index, (set, name)) in pod_sets.iter().zip(&names).enumerate() {
            let Some(name) = name else { continue };
            // its JobSet may fail at the first failure
            report.perhaps_unreplaced.insert(index);
            let begun = counts(name, &["ready", "active", "succeeded", "failed"]) > 0;
            // the runtime may let it wait for a Job that goes on
            let waits = !begun && any_goes_on;
            if waits {
                report.unstarted.insert(index);
            }
            let expected = if counts(name, &["succeeded"]) > 0 || waits {
                Expected::default()
            } else {
                Expected::pods(i64::from(set.count()))
            };
            report.expected.insert(index, expected);
        }
    }
}

/// Adds to a template what [`Rules::record`] added to the stored one.
fn add_again(template: &mut Value, stored: &Value) -> Result<(), Error> {
    let patches = stored["spec"]["runtimePatches"].as_array().into_iter().flatten();
    let ours = patches.filter(|patch| patch["manager"] == MANAGER);
    let mut root = Fields::of(template, "template".to_owned())?;
    let mut spec = root.object("spec")?;
    spec.array("runtimePatches")?.extend(ours.cloned());
    let trainer = spec.object("trainer")?.map;
    for field in ["numNodes", "resourcesPerNode"] {
        let (new, old) =
            (trainer.get(field).unwrap_or(&Value::Null), &stored["spec"]["trainer"][field]);
        if !old.is_null() && is_part(new, old) {
            trainer.insert(field.to_owned(), old.clone());
        }
    }
    Ok(())
}

/// Whether a value is another one, or that without some of its fields. Its shape is that of numbers by name, by name.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Null, _) => true,
        (Value::Object(part), Value::Object(whole)) => {
            let has = |(name, part)| whole.get(name).is_some_and(|whole| is_part(part, whole));
            part.iter().all(has)
        }
        (part, whole) => part == whole,
    }
}

/// Resources of the containers of a Job's pods that `spec.trainer` is about.
fn nodes(job: &Value) -> impl Iterator<Item = &Value> {
    let containers = job["template"]["spec"]["containers"].as_array().into_iter().flatten();
    containers.filter(|one| one["name"] == NODE).map(|one| &one["resources"])
}

/// Whether a container of a replicated Job creates a data cache, a LeaderWorkerSet of its own.
fn starts_cache(job: &Value) -> bool {
    let containers = job["template"]["spec"]["template"]["spec"]["containers"].as_array();
    let containers = containers.into_iter().flatten();
    let mut env = containers.filter_map(|one| one["env"].as_array()).flatten();
    env.any(|variable| variable["name"] == CACHE_IMAGE)
}

/// Whether the dataset of a TrainJob asks for a data cache. Trainer adds its environment to that of the container.
fn asks_for_cache(dataset: &Value) -> bool {
    let is_cache = |uri: &Value| {
        let uri = uri.as_str().unwrap_or_default().trim_start().to_ascii_lowercase();
        uri.starts_with("cache:")
    };
    let creates = |one: &Value| {
        one["name"] == CACHE_IMAGE || one["name"] == STORAGE_URI && is_cache(&one["value"])
    };
    let mut env = dataset["env"].as_array().into_iter().flatten();
    is_cache(&dataset["storageUri"]) || env.any(creates)
}

/// The value that all of them are.
fn same<'a>(mut values: impl Iterator<Item = &'a Value>) -> Option<Value> {
    let first = values.next()?;
    (first.is_object() && values.all(|value| value == first)).then(|| first.clone())
}

/// Where the replicated Jobs of the runtime patch with this index are.
fn place(patch: usize) -> String {
    format!(
        "template.spec.runtimePatches[{patch}].trainingRuntimeSpec.template.spec.replicatedJobs"
    )
}

/// The path of the pod template of one of them.
fn job_path(place: &str, index: usize) -> String {
    format!("{place}[{index}].template.spec.template")
}

/// The name of the replicated Job that a recorded path leads into.
fn job_name<'a>(object: Object<'a>, path: &str) -> Option<&'a str> {
    let job = path.strip_prefix("template")?.strip_suffix(".template.spec.template")?;
    let pointer = job.replace(['.', '['], "/").replace(']', "");
    object.0.pointer(&pointer)?.get("name")?.as_str()
}

/// What `spec.trainer` of the TrainJob and the policy of the runtime say of pods.
struct Trainer {
    /// Pods of the trainer, as the TrainJob says.
    nodes: Option<i64>,
    /// Resources of a node, as the TrainJob says.
    resources: Map<String, Value>,
    /// Pods of the trainer, as the policy of the runtime says; none without a policy.
    policy_nodes: Option<i64>,
    /// The policy is MPI's.
    is_mpi: bool,
    /// Its launcher is one of the nodes.
    launcher_is_node: bool,
}

impl Trainer {
    fn of(template: &Value, runtime: &Node<'_>) -> Result<Self, Error> {
        let trainer = Node::template(template).walk(&["spec", "trainer"])?;
        let policy = runtime.field("mlPolicy")?;
        let mpi = policy.field("mpi")?;
        let per_node = trainer.field("resourcesPerNode")?;
        let has_policy = !policy.value().is_null();
        Ok(Self {
            nodes: trainer.field("numNodes")?.count()?,
            resources: per_node.value().as_object().cloned().unwrap_or_default(),
            policy_nodes: match policy.field("numNodes")?.count()? {
                None if has_policy => Some(1),
                nodes => nodes,
            },
            is_mpi: !mpi.value().is_null(),
            launcher_is_node: mpi.field("runLauncherAsNode")?.value() == &Value::Bool(true),
        })
    }

    /// Pods of a replicated Job. Trainer: `newRuntimeInfo` and the plugins of the policies.
    fn pods(&self, job: &Node<'_>) -> Result<i64, Error> {
        let replicas = job.field("replicas")?.count()?.unwrap_or(1);
        let is_trainer = is_trainer(job);
        let count = match self.nodes {
            Some(nodes) if self.is_mpi && name(job) == NODE => {
                if self.launcher_is_node {
                    (nodes - 1).max(1)
                } else {
                    nodes
                }
            }
            Some(nodes) if !self.is_mpi && is_trainer => nodes,
            _ => match self.policy_nodes.filter(|_| is_trainer) {
                Some(nodes) => nodes,
                None => parallelism(job)?,
            },
        };
        Ok(replicas.saturating_mul(count))
    }

    /// Writes into `spec.trainer` what was read, so that a change of the runtime changes nothing.
    fn write(&self, trainer: &mut Fields<'_>, resources: Option<Value>) {
        let Some(nodes) = self.policy_nodes else { return };
        if !self.is_mpi {
            trainer.map.entry("numNodes").or_insert_with(|| nodes.into());
        }
        if let Some(resources) = resources {
            trainer.map.insert("resourcesPerNode".to_owned(), resources);
        }
    }

    /// The patch of a replicated Job with what its pod template says of resources and placement.
    fn recorded(&self, job: &Node<'_>) -> Result<Value, Error> {
        let pod = job.walk(&["template", "spec", "template", "spec"])?;
        let mut spec = Map::new();
        for field in ["initContainers", "containers"] {
            let containers = pod.field(field)?.items()?;
            if !containers.is_empty() {
                let of = |one: &Node<'_>| self.container(job, one.value());
                spec.insert(field.to_owned(), containers.iter().map(of).collect());
            }
        }
        for field in PLACEMENT.into_iter().chain(COUNTED) {
            let value = pod.field(field)?.value();
            if !value.is_null() {
                spec.insert(field.to_owned(), value.clone());
            }
        }
        Ok(json!({"name": name(job), "template": {"spec": {"template": {"spec": spec}}}}))
    }

    /// Name and resources of a container, with those that the TrainJob gives to a node.
    fn container(&self, job: &Node<'_>, container: &Value) -> Value {
        let mut of = Map::new();
        for field in ["name", "resources", "restartPolicy"] {
            if let Some(value) = container.get(field) {
                of.insert(field.to_owned(), value.clone());
            }
        }
        let is_node = is_trainer(job) || self.launcher_is_node && name(job) == NODE;
        let has_policy = self.policy_nodes.is_some();
        if is_node && has_policy && container["name"] == NODE && !self.resources.is_empty() {
            let resources = of.entry("resources").or_insert_with(|| json!({}));
            if let Some(resources) = resources.as_object_mut() {
                for (list, amounts) in &self.resources {
                    merge(resources.entry(list).or_insert_with(|| json!({})), amounts);
                }
            }
        }
        Value::Object(of)
    }
}

/// Adds the amounts of a list of resources, in place of those that are there.
fn merge(list: &mut Value, amounts: &Value) {
    match (list.as_object_mut(), amounts.as_object()) {
        (Some(list), Some(amounts)) => list.extend(amounts.clone()),
        _ => list.clone_from(amounts),
    }
}

fn name<'a>(job: &Node<'a>) -> &'a str {
    job.value()["name"].as_str().unwrap_or_default()
}

/// Pods that a Job runs at a time, at least one. Trainer makes its completions as many.
fn parallelism(job: &Node<'_>) -> Result<i64, Error> {
    let spec = job.walk(&["template", "spec"])?;
    Ok(spec.field("parallelism")?.count()?.unwrap_or(1).max(1))
}

fn is_trainer(job: &Node<'_>) -> bool {
    job.value()["template"]["metadata"]["labels"][ANCESTOR] == TRAINER
}

#[cfg(test)]
pub(super) fn given() -> Vec<super::super::testing::Sample> {
    use super::super::testing::given_object;

    let spec = json!({"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}});
    vec![(given_object("trainer.kubeflow.org/v1alpha1", "TrainJob", &spec), vec![])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Component, PodSetInfo};
    use crate::kinds::{self, OwnershipLabels, record, reference, report};
    use crate::snapshot::Outcome;

    /// A runtime of an initializer and a trainer that waits for it.
    fn runtime(policy: &Value) -> Value {
        let label = |step: &str| json!({"labels": {ANCESTOR: step}});
        let initializer = json!({"containers": [{"name": "dataset-initializer", "image": "i"}]});
        let node = json!({
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "t", "operator": "Exists"}],
            "priorityClassName": "high",
            "containers": [
                {"name": "node", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
                {"name": "log", "resources": {"requests": {"cpu": "1"}}},
            ],
        });
        json!({"spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [
            {"name": "dataset-initializer", "template": {"metadata": label("dataset-initializer"),
                "spec": {"template": {"spec": initializer}}}},
            {"name": "node", "template": {"metadata": label("trainer"),
                "spec": {"template": {"spec": node}}}},
        ]}}}})
    }

    fn train_job(trainer: &Value) -> Value {
        json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": "x"},
            "spec": {"runtimeRef": {"name": "r"}, "trainer": trainer}})
    }

    const PATH: &str = "template.spec.runtimePatches[0].trainingRuntimeSpec.template.spec\
                        .replicatedJobs[1].template.spec.template";

    #[test]
    fn a_reference_names_a_runtime_of_the_trainer() {
        for (reference_, want) in [
            (json!({"name": "r"}), Some(("ClusterTrainingRuntime", false))),
            (json!({"name": "r", "kind": "TrainingRuntime"}), Some(("TrainingRuntime", true))),
            (json!({"name": "r", "apiGroup": "other"}), None),
            (json!({"name": "r", "kind": "Secret"}), None),
            (json!({"name": 1}), None),
            (json!(null), None),
        ] {
            let mut template = train_job(&json!(null));
            template["spec"]["runtimeRef"] = reference_;
            let found = reference(&template).map(|found| (found.kind, found.namespaced));
            assert_eq!(found, want, "{template}");
        }
        assert_eq!(reference(&json!({"apiVersion": "batch/v1", "kind": "Job"})), None);
    }

    #[test]
    fn pods_are_counted_as_the_trainer_counts_them() {
        let torch = |nodes: Value| json!({"numNodes": nodes, "torch": {}});
        let mpi = |launcher: bool| json!({"numNodes": 1, "mpi": {"runLauncherAsNode": launcher}});
        for (trainer, policy, want) in [
            (json!({"numNodes": 4}), torch(json!(2)), [1, 4]),
            (json!({}), torch(json!(2)), [1, 2]),
            (json!(null), torch(json!(null)), [1, 1]),
            (json!({"numNodes": 4}), json!(null), [1, 4]),
            (json!({"numNodes": 4}), mpi(false), [1, 4]),
            (json!({"numNodes": 4}), mpi(true), [1, 3]),
            (json!({"numNodes": 1}), mpi(true), [1, 1]),
            (json!({}), mpi(true), [1, 1]),
        ] {
            let recorded = record(&train_job(&trainer), &runtime(&policy)).expect("it is right");
            let counts: Vec<i32> = recorded.pod_sets.iter().map(PodSet::count).collect();
            assert_eq!(counts, want, "{trainer} {policy}");
        }
    }

    #[test]
    fn a_job_that_does_not_train_runs_as_many_pods_as_in_parallel() {
        for (shape, want) in [
            (json!({}), 1),
            (json!({"parallelism": 4}), 4),
            (json!({"parallelism": 4, "completions": 2}), 4),
            (json!({"parallelism": 0}), 1),
            (json!({"completions": 3}), 1),
        ] {
            let mut given = runtime(&json!({"torch": {}}));
            let job = &mut given["spec"]["template"]["spec"]["replicatedJobs"][0]["template"];
            let spec = job["spec"].as_object_mut().expect("an object");
            spec.extend(shape.as_object().expect("an object").clone());
            let recorded = record(&train_job(&json!({})), &given).expect("it is right");
            assert_eq!(recorded.pod_sets[0].count(), want, "{shape}");
        }
    }

    #[test]
    fn what_counts_or_misplaces_pods_is_recorded_to_be_checked_and_not_created() {
        let mut given = runtime(&json!({"numNodes": 2, "torch": {}}));
        let spec = &mut given["spec"]["template"]["spec"]["replicatedJobs"][1]["template"]["spec"];
        let more = json!({"resources": {"requests": {"cpu": 9}}, "nodeName": "n",
            "resourceClaims": [{"name": "gpu"}], "overhead": {"cpu": 1},
            "restartPolicy": "Never"});
        let pod = spec["template"]["spec"].as_object_mut().expect("it has one");
        pod.extend(more.as_object().expect("an object").clone());
        let mut template = record(&train_job(&json!({})), &given).expect("it is right").template;
        let path: kinds::Path = PATH.parse().expect("it is a path");
        for (field, value) in more.as_object().expect("an object") {
            let pod = path.get(&template).expect("it is there");
            assert_eq!(&pod["spec"][field], value, "{field}");
        }
        Kind::of_object(&template).rules().finish(&mut template);
        let pod = path.get(&template).expect("it is there");
        assert!(COUNTED.iter().all(|field| pod["spec"].get(field).is_none()), "{pod}");
    }

    #[test]
    fn a_patch_does_not_change_by_what_pods_are_counted() {
        let of = |labels: Value| {
            let mut template = train_job(&json!({}));
            let job = json!({"name": "node", "template": {"metadata": {"labels": labels}}});
            template["spec"]["runtimePatches"] = json!([{"manager": "mine"}, {"manager": "other",
                "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}]);
            kinds::infer(&template)
        };
        assert_eq!(of(json!({"team": "a"})), Ok(vec![]));
        let error = of(json!({ANCESTOR: "other"})).expect_err("it is counted by that");
        let labels = "template.spec.runtimePatches[1].trainingRuntimeSpec.template.spec.\
                      replicatedJobs[0].template.metadata.labels";
        assert_eq!(error.field, format!("{labels}[{ANCESTOR}]"));
    }

    #[test]
    fn what_was_read_is_recorded_at_the_paths_of_the_pod_sets() {
        let trainer = json!({"resourcesPerNode": {"requests": {"memory": "4Gi", "gpu": 1}}});
        let policy = json!({"numNodes": 2, "torch": {}});
        let recorded = record(&train_job(&trainer), &runtime(&policy)).expect("it is right");
        assert_eq!(recorded.pod_sets[1].path, PATH);
        let path: kinds::Path = PATH.parse().expect("it is a path");
        let requests = json!({"cpu": "1", "memory": "4Gi", "gpu": 1});
        assert_eq!(
            path.get(&recorded.template).expect("it is there"),
            &json!({"spec": {
                "nodeSelector": {"zone": "a"},
                "tolerations": [{"key": "t", "operator": "Exists"}],
                "containers": [
                    {"name": "node", "resources": {"requests": requests}},
                    {"name": "log", "resources": {"requests": {"cpu": "1"}}},
                ],
            }})
        );
        let trainer = &recorded.template["spec"]["trainer"];
        assert_eq!(trainer, &json!({"numNodes": 2, "resourcesPerNode": {"requests": requests}}));
        // again, it replaces what it has recorded
        let again = record(&recorded.template, &runtime(&policy)).expect("it is right");
        assert_eq!(again, recorded);
    }

    #[test]
    fn the_created_object_tells_where_its_pod_sets_were_recorded() {
        let paths = |sets: &[PodSet]| sets.iter().map(|set| set.path.clone()).collect::<Vec<_>>();
        let policy = json!({"numNodes": 2, "torch": {}});
        for others in [json!([]), json!([{"manager": "mine"}])] {
            let mut template = train_job(&json!({}));
            template["spec"]["runtimePatches"] = others.clone();
            assert_eq!(kinds::recorded(&template), [], "nothing yet: {others}");
            let recorded = record(&template, &runtime(&policy)).expect("it is right");
            let mut object = recorded.template;
            Kind::of_object(&object).rules().finish(&mut object);
            let found = kinds::recorded(&object);
            assert_eq!(paths(&found), paths(&recorded.pod_sets), "{others}");
        }
        let mut many = train_job(&json!({}));
        let jobs = vec![json!({"name": "node"}); 1000];
        many["spec"]["runtimePatches"] = json!([{"manager": MANAGER,
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}]);
        assert_eq!(kinds::recorded(&many).len(), JOBS_MAX);
        assert_eq!(kinds::recorded(&json!({"kind": "Job"})), []);
    }

    #[test]
    fn a_stored_template_is_told_from_a_changed_one() {
        let trainer = json!({"resourcesPerNode": {"requests": {"memory": "4Gi"}}});
        let other = json!({"resourcesPerNode": {"requests": {"memory": "5Gi"}}});
        let none = json!(null);
        for policy in [json!({"numNodes": 2, "torch": {}}), json!({"mpi": {}}), none.clone()] {
            for (trainer, given, is_the_same) in [
                (&trainer, &trainer, true),
                (&none, &none, true),
                (&trainer, &other, false),
                (&trainer, &json!({"resourcesPerNode": {"limits": {"memory": "4Gi"}}}), false),
                (&json!({"numNodes": 3}), &json!({"numNodes": 4}), false),
                (&none, &json!({"image": "x"}), false),
            ] {
                let stored = record(&train_job(trainer), &runtime(&policy)).expect("it is right");
                let found = kinds::is_record_of(&stored.template, &train_job(given));
                assert_eq!(found, is_the_same, "{policy}: {given}");
            }
        }
        assert!(!kinds::is_record_of(&json!(null), &json!({"spec": 1})));
    }

    #[test]
    fn the_created_object_has_what_a_patch_may_have() {
        let policy = json!({"numNodes": 2, "torch": {}});
        let recorded = record(&train_job(&json!({})), &runtime(&policy)).expect("it is right");
        let mut template = recorded.template;
        kinds::grow(&mut template, PATH, "node", Some("8Gi"), None);
        let selector = [("flavor".to_owned(), "gpu".to_owned())].into();
        let info = PodSetInfo { node_selector: selector, ..PodSetInfo::default() };
        let component = Component {
            template,
            pod_set_infos: vec![PodSetInfo::default(), info],
            ..Component::default()
        };
        let labels = OwnershipLabels {
            appwrapper: "aw",
            uid: "u",
            attempt: 0,
            namespace: "ns",
            component: 0,
            queue: None,
            scheduler_name: Some("s"),
            avoid_nodes: &[],
            suspect_nodes: None,
            aversions: &[],
            progress: None,
        };
        let made = kinds::render(&component, &recorded.pod_sets, &labels).expect("it is right");
        let path: kinds::Path = PATH.parse().expect("it is a path");
        let pod = path.get(&made).expect("it is there");
        assert_eq!(pod["metadata"]["labels"][keys::APPWRAPPER], "aw");
        assert_eq!(
            pod["spec"],
            json!({"nodeSelector": {"zone": "a", "flavor": "gpu"},
                "tolerations": [{"key": "t", "operator": "Exists"}]})
        );
        let requests = &made["spec"]["trainer"]["resourcesPerNode"]["requests"];
        assert_eq!(requests, &json!({"cpu": "1", "memory": "8Gi"}));
    }

    #[test]
    fn memory_may_grow_only_where_it_reaches_the_pods() {
        let torch = json!({"numNodes": 2, "torch": {}});
        let launcher = json!({"mpi": {"runLauncherAsNode": true}});
        let per_node = json!({"resourcesPerNode": {"requests": {"memory": "4Gi"}}});
        let (stays, node) = ((vec![], true), (vec!["node"], false));
        for (what, policy, trainer, container, want) in [
            ("an initializer", &torch, &json!({}), "dataset-initializer", [&stays, &node]),
            ("a launcher that is a node", &launcher, &per_node, "node", [&stays, &stays]),
            ("no resources of a node", &json!(null), &json!({}), "i", [&stays, &stays]),
            ("those of the TrainJob", &json!(null), &per_node, "i", [&stays, &node]),
        ] {
            let mut given = runtime(policy);
            let job = &mut given["spec"]["template"]["spec"]["replicatedJobs"][0]["template"];
            let memory = json!({"requests": {"memory": "1Gi"}});
            job["spec"]["template"]["spec"]["containers"] =
                json!([{"name": container, "resources": memory}]);
            let recorded = record(&train_job(trainer), &given).expect("it is right");
            let component = Component { template: recorded.template, ..Component::default() };
            let found = kinds::templates(&component, &recorded.pod_sets, &[]);
            for (found, want) in found.iter().zip(want) {
                let names: Vec<_> = found.containers.iter().map(|one| one.name.as_str()).collect();
                assert_eq!(&(names, found.memory_stays.is_some()), want, "{what}");
            }
            assert_eq!(found.len(), 2, "{what}");
        }
    }

    #[test]
    fn a_runtime_that_makes_no_sense_is_an_error() {
        let template = train_job(&json!({}));
        for runtime in [
            json!({"spec": {"template": {"spec": {"replicatedJobs": "x"}}}}),
            json!({"spec": {"template": {"spec": {"replicatedJobs": vec![json!({}); 11]}}}}),
            json!({"spec": {"template": {"spec": {"replicatedJobs": [{"replicas": -1}]}}}}),
            json!({"spec": 1}),
        ] {
            assert!(record(&template, &runtime).is_err(), "{runtime}");
        }
        let none = record(&template, &json!(null)).expect("a runtime without Jobs");
        assert_eq!(none.pod_sets, []);
    }

    #[test]
    fn a_runtime_with_a_data_cache_is_an_error() {
        let env = |name: &str| json!([{"name": "A", "value": "b"}, {"name": name, "value": "i"}]);
        for (env, want) in [(json!(null), true), (env("IMAGE"), true), (env("CACHE_IMAGE"), false)]
        {
            let mut given = runtime(&json!({"numNodes": 2, "torch": {}}));
            let job = &mut given["spec"]["template"]["spec"]["replicatedJobs"][0]["template"];
            job["spec"]["template"]["spec"]["containers"][0]["env"] = env.clone();
            let found = record(&train_job(&json!({})), &given);
            assert_eq!(found.is_ok(), want, "{env}");
            if let Err(error) = found {
                let said = (error.field.as_str(), error.value.as_str());
                assert_eq!(said, ("template.spec.runtimeRef.name", "r"));
            }
        }
    }

    #[test]
    fn a_dataset_with_a_data_cache_is_an_error() {
        let env = |name: &str, value: &str| json!({"env": [{"name": name, "value": value}]});
        for (dataset, want) in [
            (json!(null), true),
            (json!({"storageUri": "hf://s/t"}), true),
            (json!({"storageUri": "cache://s/t"}), false),
            (json!({"storageUri": " Cache://s/t"}), false),
            (env("IMAGE", "cache://s/t"), true),
            (env("CACHE_IMAGE", "i"), false),
            (env("STORAGE_URI", "hf://s/t"), true),
            (env("STORAGE_URI", "cache://s/t"), false),
        ] {
            let mut template = train_job(&json!({}));
            template["spec"]["initializer"] = json!({"dataset": dataset});
            let found = record(&template, &runtime(&json!({"numNodes": 2, "torch": {}})));
            assert_eq!(found.is_ok(), want, "{dataset}");
            if let Err(error) = found {
                assert_eq!(error.field, "template.spec.initializer.dataset");
            }
        }
    }

    #[test]
    fn topology_aware_scheduling_learns_how_its_pods_are_numbered() {
        let policy = json!({"numNodes": 2, "torch": {}});
        let recorded = record(&train_job(&json!({})), &runtime(&policy)).expect("it is right");
        assert_eq!(recorded.pod_sets.len(), 2);
        for set in &recorded.pod_sets {
            let annotations: Vec<_> = set.annotations.iter().collect();
            assert_eq!(annotations, [(&keys::TAS_POD_INDEX.to_owned(), &JOB_INDEX.to_owned())]);
        }
    }

    #[test]
    fn its_conditions_and_jobs_tell_how_it_goes() {
        let policy = json!({"numNodes": 2, "torch": {}});
        let recorded = record(&train_job(&json!({})), &runtime(&policy)).expect("it is right");
        let job = |name: &str, field: &str| json!({"name": name, field: 1});
        for (jobs, want) in [
            (json!([]), [1, 2]),
            (json!([job("dataset-initializer", "active")]), [1, 0]),
            (json!([job("dataset-initializer", "succeeded")]), [0, 2]),
            (json!([job("dataset-initializer", "succeeded"), job("node", "ready")]), [0, 2]),
            (json!([job("node", "succeeded")]), [1, 0]),
        ] {
            let mut object = recorded.template.clone();
            object["status"] = json!({"jobsStatus": jobs});
            let found = report(KINDS[0].api_version, KINDS[0].kind, &recorded.pod_sets, &object);
            let running: Vec<i64> = found.expected.values().map(|it| it.running(0)).collect();
            assert_eq!(running, want, "{jobs}");
            let unstarted: Vec<usize> = found.unstarted.into_iter().collect();
            assert_eq!(unstarted == [1], want == [1, 0] && jobs[0]["active"] == 1, "{jobs}");
            assert_eq!(found.outcome, Outcome::Active);
            assert_eq!(found.perhaps_unreplaced, [0, 1].into(), "its JobSet may fail");
        }
        let mut object = recorded.template.clone();
        object["status"] = json!({"jobsStatus": [job("node", "ready")]});
        let found = report(KINDS[0].api_version, KINDS[0].kind, &recorded.pod_sets, &object);
        assert_eq!(found.expected[&1].running(2), 0, "its JobSet may wait for a Terminating pod");
        for (kind, succeeded) in [("Complete", true), ("Failed", false)] {
            let condition = json!({"type": kind, "status": "True", "reason": "R", "message": "M"});
            let object = json!({"status": {"conditions": [condition]}});
            let found = report(KINDS[0].api_version, KINDS[0].kind, &recorded.pod_sets, &object);
            assert_eq!(found.outcome == Outcome::Succeeded, succeeded, "{kind}");
        }
    }
}
