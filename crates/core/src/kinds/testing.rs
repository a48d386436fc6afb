//! Test data: a small object of every known kind, and JSON of any shape.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Settings of the property tests: there is no file for regressions.
pub(super) fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// A pod template.
pub(super) fn given_pod() -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "busybox"}]}})
}

/// An object with a name.
pub(super) fn given_object(api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})
}

/// An object and its pod sets as (path, pods).
type Sample = (Value, Vec<(&'static str, i32)>);

/// One object of each known kind, with its pod sets.
pub(super) fn given_kinds() -> Vec<Sample> {
    [given_core_kinds(), given_groups(), given_kubeflow_kinds(), given_ray_kinds()].concat()
}

fn given_core_kinds() -> Vec<Sample> {
    let pod = given_pod();
    let job = json!({"parallelism": 4, "completions": 2, "template": pod});
    let template = "template.spec.template";
    vec![
        (given_object("v1", "Pod", &pod["spec"]), vec![("template", 1)]),
        (given_object("batch/v1", "Job", &job), vec![(template, 2)]),
        (
            given_object("apps/v1", "Deployment", &json!({"replicas": 3, "template": pod})),
            vec![(template, 3)],
        ),
        (given_object("apps/v1", "StatefulSet", &json!({"template": pod})), vec![(template, 1)]),
        (given_object("v1", "ConfigMap", &json!({})), vec![]),
    ]
}

fn given_groups() -> Vec<Sample> {
    let pod = given_pod();
    let job = json!({"parallelism": 2, "completions": 8, "template": pod});
    let job_set = json!({"replicatedJobs": [
        {"name": "a", "template": {"spec": {"template": pod}}},
        {"name": "b", "replicas": 3, "template": {"spec": job}},
    ]});
    let lws = json!({
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 4, "leaderTemplate": pod, "workerTemplate": pod},
    });
    vec![
        (
            given_object("jobset.x-k8s.io/v1alpha2", "JobSet", &job_set),
            vec![
                ("template.spec.replicatedJobs[0].template.spec.template", 1),
                ("template.spec.replicatedJobs[1].template.spec.template", 6),
            ],
        ),
        (
            given_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", &lws),
            vec![
                ("template.spec.leaderWorkerTemplate.leaderTemplate", 2),
                ("template.spec.leaderWorkerTemplate.workerTemplate", 6),
            ],
        ),
    ]
}

fn given_kubeflow_kinds() -> Vec<Sample> {
    let one = json!({"template": given_pod()});
    let three = json!({"replicas": 3, "template": given_pod()});
    let given = |kind: &str, specs: Value| given_object("kubeflow.org/v1", kind, &specs);
    vec![
        (
            given("PyTorchJob", json!({"pytorchReplicaSpecs": {"Worker": three, "Master": one}})),
            vec![
                ("template.spec.pytorchReplicaSpecs.Master.template", 1),
                ("template.spec.pytorchReplicaSpecs.Worker.template", 3),
            ],
        ),
        (
            given("MPIJob", json!({"mpiReplicaSpecs": {"Worker": one, "Launcher": one}})),
            vec![
                ("template.spec.mpiReplicaSpecs.Launcher.template", 1),
                ("template.spec.mpiReplicaSpecs.Worker.template", 0),
            ],
        ),
        (
            given("TFJob", json!({"tfReplicaSpecs": {"PS": three, "Chief": one}})),
            vec![
                ("template.spec.tfReplicaSpecs.Chief.template", 1),
                ("template.spec.tfReplicaSpecs.PS.template", 3),
            ],
        ),
        (
            given("XGBoostJob", json!({"xgbReplicaSpecs": {"Master": one}})),
            vec![("template.spec.xgbReplicaSpecs.Master.template", 1)],
        ),
        (
            given("PaddleJob", json!({"paddleReplicaSpecs": {"Worker": three}})),
            vec![("template.spec.paddleReplicaSpecs.Worker.template", 3)],
        ),
        (
            given("JAXJob", json!({"jaxReplicaSpecs": {"Worker": three}})),
            vec![("template.spec.jaxReplicaSpecs.Worker.template", 3)],
        ),
    ]
}

fn given_ray_kinds() -> Vec<Sample> {
    let pod = given_pod();
    let ray = json!({
        "headGroupSpec": {"template": pod},
        "workerGroupSpecs": [{"replicas": 3, "numOfHosts": 2, "template": pod}],
    });
    vec![
        (
            given_object("ray.io/v1", "RayCluster", &ray),
            vec![
                ("template.spec.headGroupSpec.template", 1),
                ("template.spec.workerGroupSpecs[0].template", 6),
            ],
        ),
        (
            given_object("ray.io/v1", "RayJob", &json!({"rayClusterSpec": ray})),
            vec![
                ("template.spec.rayClusterSpec.headGroupSpec.template", 1),
                ("template.spec.rayClusterSpec.workerGroupSpecs[0].template", 6),
            ],
        ),
        (
            given_object("ray.io/v1", "RayService", &json!({"rayClusterConfig": ray})),
            vec![
                ("template.spec.rayClusterConfig.headGroupSpec.template", 1),
                ("template.spec.rayClusterConfig.workerGroupSpecs[0].template", 6),
            ],
        ),
    ]
}

/// JSON of any shape, with names and values that mean something here more often than by chance.
pub(super) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2_i64..5).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z.\\[\\]]{0,6}".prop_map(Value::from),
        prop::sample::select(vec!["True", "Failed", "2026-01-01T00:00:00Z"]).prop_map(Value::from),
        Just(given_pod()),
    ];
    let names = prop::sample::select(vec![
        "a",
        "spec",
        "template",
        "metadata",
        "labels",
        "replicas",
        "status",
        "conditions",
        "type",
    ]);
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..4).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(fields.collect::<Map<_, _>>())
            }),
        ]
    })
}

/// An object of a known kind in which any one place holds any JSON, or is gone.
pub(super) fn damaged() -> impl Strategy<Value = Value> {
    let objects: Vec<Value> = given_kinds().into_iter().map(|(object, _)| object).collect();
    let places = any::<prop::sample::Index>();
    (prop::sample::select(objects), places, prop::option::of(any_json())).prop_map(
        |(mut object, place, value)| {
            let mut pointers = Vec::new();
            collect(&object, "", &mut pointers);
            let pointer = pointers[place.index(pointers.len())].clone();
            match value {
                Some(value) => *object.pointer_mut(&pointer).expect("it was collected") = value,
                None => remove(&mut object, &pointer),
            }
            object
        },
    )
}

fn collect(value: &Value, prefix: &str, into: &mut Vec<String>) {
    into.push(prefix.to_owned());
    if let Some(fields) = value.as_object() {
        for (name, value) in fields {
            collect(value, &format!("{prefix}/{name}"), into);
        }
    }
    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
        collect(value, &format!("{prefix}/{index}"), into);
    }
}

fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        *object = Value::Null;
        return;
    };
    if let Some(fields) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.remove(name);
    }
}
