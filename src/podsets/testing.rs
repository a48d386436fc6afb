//! Test data: a small object of every known kind, and JSON of any shape.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Settings of the property tests: there is no file for regressions.
pub(super) fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() }
}

/// A pod template.
pub(super) fn given_pod() -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "busybox"}]}})
}

/// An object with a name.
pub(super) fn given_object(api_version: &str, kind: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
    object["spec"] = spec;
    object
}

/// One object of each known kind, with its pod sets as (path, pods).
pub(super) fn given_kinds() -> Vec<(Value, Vec<(&'static str, i32)>)> {
    let pod = given_pod();
    let ray = json!({
        "headGroupSpec": {"template": pod},
        "workerGroupSpecs": [{"replicas": 3, "numOfHosts": 2, "template": pod}],
    });
    vec![
        (given_object("v1", "Pod", pod["spec"].clone()), vec![("template", 1)]),
        (
            given_object(
                "batch/v1",
                "Job",
                json!({"parallelism": 4, "completions": 2, "template": pod}),
            ),
            vec![("template.spec.template", 2)],
        ),
        (
            given_object(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                json!({"replicatedJobs": [
                    {"name": "a", "template": {"spec": {"template": pod}}},
                    {"name": "b", "replicas": 3, "template": {"spec": {
                        "parallelism": 2, "completions": 8, "template": pod}}},
                ]}),
            ),
            vec![
                ("template.spec.replicatedJobs[0].template.spec.template", 1),
                ("template.spec.replicatedJobs[1].template.spec.template", 6),
            ],
        ),
        (
            given_object("apps/v1", "Deployment", json!({"replicas": 3, "template": pod})),
            vec![("template.spec.template", 3)],
        ),
        (
            given_object("apps/v1", "StatefulSet", json!({"template": pod})),
            vec![("template.spec.template", 1)],
        ),
        (
            given_object(
                "leaderworkerset.x-k8s.io/v1",
                "LeaderWorkerSet",
                json!({
                    "replicas": 2,
                    "leaderWorkerTemplate": {"size": 4, "leaderTemplate": pod, "workerTemplate": pod},
                }),
            ),
            vec![
                ("template.spec.leaderWorkerTemplate.leaderTemplate", 2),
                ("template.spec.leaderWorkerTemplate.workerTemplate", 6),
            ],
        ),
        (
            given_object(
                "kubeflow.org/v1",
                "PyTorchJob",
                json!({"pytorchReplicaSpecs": {
                "Worker": {"replicas": 3, "template": pod}, "Master": {"template": pod}}}),
            ),
            vec![
                ("template.spec.pytorchReplicaSpecs.Master.template", 1),
                ("template.spec.pytorchReplicaSpecs.Worker.template", 3),
            ],
        ),
        (
            given_object(
                "kubeflow.org/v1",
                "MPIJob",
                json!({"mpiReplicaSpecs": {
                "Worker": {"template": pod}, "Launcher": {"template": pod}}}),
            ),
            vec![
                ("template.spec.mpiReplicaSpecs.Launcher.template", 1),
                ("template.spec.mpiReplicaSpecs.Worker.template", 0),
            ],
        ),
        (
            given_object(
                "kubeflow.org/v1",
                "TFJob",
                json!({"tfReplicaSpecs": {
                "PS": {"replicas": 2, "template": pod}, "Chief": {"template": pod}}}),
            ),
            vec![
                ("template.spec.tfReplicaSpecs.Chief.template", 1),
                ("template.spec.tfReplicaSpecs.PS.template", 2),
            ],
        ),
        (
            given_object("ray.io/v1", "RayCluster", ray.clone()),
            vec![
                ("template.spec.headGroupSpec.template", 1),
                ("template.spec.workerGroupSpecs[0].template", 6),
            ],
        ),
        (
            given_object("ray.io/v1", "RayJob", json!({"rayClusterSpec": ray})),
            vec![
                ("template.spec.rayClusterSpec.headGroupSpec.template", 1),
                ("template.spec.rayClusterSpec.workerGroupSpecs[0].template", 6),
            ],
        ),
        (
            given_object("ray.io/v1", "RayService", json!({"rayClusterConfig": ray})),
            vec![
                ("template.spec.rayClusterConfig.headGroupSpec.template", 1),
                ("template.spec.rayClusterConfig.workerGroupSpecs[0].template", 6),
            ],
        ),
        (given_object("v1", "ConfigMap", json!({})), vec![]),
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
