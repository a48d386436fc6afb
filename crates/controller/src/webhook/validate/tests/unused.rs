//! Rules that are allowed, but can never apply: one row each, and one that must not warn.

use super::*;

const PREFIX: &str = "workload.codeflare.dev.appwrapper/";

/// An object of a kind whose pods have one container.
fn of_kind(api_version: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
    })
}

fn deployment(name: &str) -> Value {
    of_kind("apps/v1", "Deployment", name)
}

/// A Job whose pods have this restart policy.
fn restarting(name: &str, policy: &str) -> Value {
    with(&job(name), "/spec/template/spec/restartPolicy", json!(policy))
}

/// A PyTorchJob: its master restarts containers, its workers do not, whatever their template says.
fn replicas(name: &str) -> Value {
    let pod = |policy: &str| json!({"spec": {"restartPolicy": policy, "containers": [{"name": "pytorch"}]}});
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": {
            "Master": {"restartPolicy": "OnFailure", "template": pod("Never")},
            "Worker": {"restartPolicy": "Never", "template": pod("OnFailure")},
        }},
    })
}

/// What is said of components with fields of `spec`.
fn of(templates: &[Value], fields: Value) -> Vec<String> {
    let mut aw = given(templates);
    for (name, value) in fields.as_object().unwrap() {
        aw["spec"][name] = value.clone();
    }
    judged(&aw)
}

fn codes(targets: Value) -> Value {
    json!({"podFailurePolicy": {"rules": [{
        "action": "FailAppWrapper", "targetComponents": targets,
        "onExitCodes": {"operator": "In", "values": [42]},
    }]}})
}

fn failure(rule: Value) -> Value {
    json!({"failurePolicy": {"rules": [rule]}})
}

#[test]
fn exit_codes_of_containers_that_restart_are_never_seen() {
    let two = [restarting("a", "OnFailure"), restarting("b", "Never")];
    let start = "warning: spec.podFailurePolicy.rules[0].onExitCodes: never matches pods of Job/a ";
    for targets in [json!([]), json!(["a"]), json!(["a", "b"])] {
        only("rule", &of(&two, codes(targets)), start, "restartPolicy OnFailure");
    }
    for silent in [
        of(&two, codes(json!(["b"]))),
        of(&[job("c")], codes(json!([]))),
        of(&[replicas("t")], codes(json!(["t/Worker"]))),
        of(
            &two,
            json!({"podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}),
        ),
    ] {
        assert_eq!(silent, Vec::<String>::new());
    }
    let start =
        "warning: spec.podFailurePolicy.rules[0].onExitCodes: never matches pods of PyTorchJob/t ";
    only("part", &of(&[replicas("t")], codes(json!(["t/Master"]))), start, "OnFailure");
    for (name, job, count) in [
        ("terminalExitCodes", "OnFailure", 1),
        ("retryableExitCodes", "OnFailure", 1),
        ("terminalExitCodes", "Never", 0),
    ] {
        let mut aw = given(&[restarting("a", job)]);
        let key = format!("{PREFIX}{name}");
        aw["metadata"]["annotations"] = json!({ key.as_str(): "42" });
        let said = judged(&aw);
        assert_eq!(said.len(), count, "{name}: {said:?}");
        let start = format!("warning: metadata.annotations[{key}]: never matches pods of Job/a ");
        assert!(said.iter().all(|each| each.starts_with(&start)), "{said:?}");
    }
}

#[test]
fn exit_codes_of_pods_with_the_restart_policy_of_their_kind() {
    let pod = |policy: Value| json!({"spec": {"restartPolicy": policy, "containers": [{"name": "main"}]}});
    let kubeflow = |kind: &str, specs: &str, policy: &str| {
        json!({
            "apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "t"},
            "spec": {specs: {"Worker": {"template": pod(json!(policy))}}},
        })
    };
    let jobs =
        |policy: Value| json!([{"name": "w", "template": {"spec": {"template": pod(policy)}}}]);
    let job_set = |policy: Value| {
        let jobs = jobs(policy);
        json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "t"},
            "spec": {"replicatedJobs": jobs},
        })
    };
    for (template, warns) in [
        (kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Never"), true),
        (kubeflow("PaddleJob", "paddleReplicaSpecs", "Never"), true),
        (kubeflow("TFJob", "tfReplicaSpecs", "OnFailure"), false),
        (kubeflow("XGBoostJob", "xgbReplicaSpecs", "OnFailure"), false),
        (job_set(json!(null)), true),
        (job_set(json!("OnFailure")), true),
        (job_set(json!("Never")), false),
    ] {
        let said = of(std::slice::from_ref(&template), codes(json!([])));
        assert_eq!(said.len(), usize::from(warns), "{template}: {said:?}");
        assert!(said.iter().all(|each| each.contains("restartPolicy OnFailure")), "{said:?}");
    }
    // what the webhook has recorded of a runtime
    let train_job = |policy: Value| {
        let patch = json!({"manager": "workload.codeflare.dev/appwrapper",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs(policy)}}}});
        json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "t"},
            "spec": {"runtimeRef": {"name": "r"}, "runtimePatches": [patch]},
        })
    };
    let path = "template.spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]\
                .template.spec.template";
    let mpi_job = |policy: Value| {
        json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "t"},
            "spec": {"mpiReplicaSpecs": {
                "Launcher": {"restartPolicy": policy, "template": pod(json!(null))},
                "Worker": {"replicas": 2, "template": pod(json!(null))},
            }},
        })
    };
    let set = |replica: &str, count: i32| {
        let path = format!("template.spec.mpiReplicaSpecs.{replica}.template");
        json!({"path": path, "replicas": count})
    };
    let sets = json!([set("Launcher", 1), set("Worker", 2)]);
    for (template, sets, warns) in [
        (train_job(json!(null)), json!([{ "path": path }]), true),
        (train_job(json!("Never")), json!([{ "path": path }]), false),
        (mpi_job(json!(null)), sets.clone(), true),
        (mpi_job(json!("Never")), sets, false),
    ] {
        let mut aw = given(std::slice::from_ref(&template));
        aw["spec"]["components"][0]["podSets"] = sets;
        aw["spec"]["podFailurePolicy"] = codes(json!([]))["podFailurePolicy"].clone();
        let mut said = judged(&aw);
        said.retain(|line| line.contains("onExitCodes"));
        assert_eq!(said.len(), usize::from(warns), "{template}: {said:?}");
        assert!(said.iter().all(|each| each.contains("restartPolicy OnFailure")), "{said:?}");
    }
}

#[test]
fn exit_code_0_is_no_failure() {
    let of = |values: Value| {
        of(
            &[job("a")],
            json!({"podFailurePolicy": {"rules": [{
                "action": "Count", "onExitCodes": {"operator": "NotIn", "values": values},
            }]}}),
        )
    };
    let start = "warning: spec.podFailurePolicy.rules[0].onExitCodes.values[1]: ";
    only("0", &of(json!([3, 0])), start, "has no effect");
    assert_eq!(of(json!([3, 256, -1])), Vec::<String>::new());
}

#[test]
fn reasons_of_jobs_are_given_by_jobs() {
    let reasons = |targets: Value, reason: &str| {
        failure(json!({
            "action": "FailAppWrapper", "targetComponents": targets, "onJobFailureReasons": [reason],
        }))
    };
    let all = [job("a"), deployment("d"), replicas("t")];
    let start = "warning: spec.failurePolicy.rules[0].onJobFailureReasons: never matches ";
    for (targets, named) in [
        (json!(["d"]), "Deployment/d: only Jobs"),
        (json!(["t", "d"]), "Deployment/d, PyTorchJob/t: only Jobs"),
        (json!(["t/Worker"]), "PyTorchJob/t: only Jobs"),
    ] {
        only(named, &of(&all, reasons(targets, "BackoffLimitExceeded")), start, named);
    }
    for targets in [json!([]), json!(["a"]), json!(["a", "d"])] {
        assert_eq!(of(&all, reasons(targets, "BackoffLimitExceeded")), Vec::<String>::new());
    }
    assert_eq!(of(&all, reasons(json!(["t"]), "DeadlineExceeded")), Vec::<String>::new());
    let pod = json!({"template": {"spec": {"containers": [{"name": "ray"}]}}});
    let ray = json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"},
        "spec": {"rayClusterSpec": {"headGroupSpec": pod}}});
    let of_ray = |reason| of(std::slice::from_ref(&ray), reasons(json!([]), reason));
    assert_eq!(of_ray("DeadlineExceeded"), Vec::<String>::new());
    only("RayJob", &of_ray("FailedIndexes"), start, "RayJob/r");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"activeDeadlineSeconds": 60, "restartPolicy": "Never", "containers": [{"name": "main"}]}});
    let of_pod = |reason| of(std::slice::from_ref(&pod), reasons(json!([]), reason));
    assert_eq!(of_pod("DeadlineExceeded"), Vec::<String>::new());
    only("Pod", &of_pod("BackoffLimitExceeded"), start, "Pod/p");
    // the Job of its launcher
    let pod = json!({"spec": {"containers": [{"name": "main"}]}});
    let mpi = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "m"},
        "spec": {"mpiReplicaSpecs": {"Launcher": {"template": pod}}}});
    let of_mpi = |reason| {
        let mut aw = given(std::slice::from_ref(&mpi));
        let path = "template.spec.mpiReplicaSpecs.Launcher.template";
        aw["spec"]["components"][0]["podSets"] = json!([{ "path": path }]);
        aw["spec"]["failurePolicy"] = reasons(json!([]), reason)["failurePolicy"].clone();
        judged(&aw)
    };
    for reason in ["BackoffLimitExceeded", "DeadlineExceeded"] {
        assert_eq!(of_mpi(reason), Vec::<String>::new(), "{reason}");
    }
    only("MPIJob", &of_mpi("FailedIndexes"), start, "MPIJob/m");
}

#[test]
fn what_never_fails_is_not_recreated() {
    let rule = |action: &str, targets: Value| {
        failure(json!({"action": action, "targetComponents": targets}))
    };
    let all = [job("a"), deployment("d"), of_kind("apps/v1", "StatefulSet", "s"), service("x")];
    let start = "warning: spec.failurePolicy.rules[0].action: never reports a failure";
    for action in ["RecreateComponent", "RecreateComponentAndIgnoreMaxRestarts"] {
        only(action, &of(&all, rule(action, json!(["d"]))), start, "Deployment/d");
        let both = "Deployment/d, StatefulSet/s";
        only(action, &of(&all, rule(action, json!(["d", "s", "x"]))), start, both);
        for targets in [json!([]), json!(["a"]), json!(["a", "d"])] {
            assert_eq!(of(&all, rule(action, targets)), Vec::<String>::new());
        }
    }
    assert_eq!(of(&all, rule("RestartAppWrapper", json!(["d"]))), Vec::<String>::new());
}

#[test]
fn limits_above_the_global_one_are_warned_of() {
    for (limit, count) in [("20", 0), ("21", 1)] {
        let mut aw = given(&[job("a")]);
        aw["metadata"]["annotations"] = json!({ format!("{PREFIX}retryLimit"): limit });
        let said = judged(&aw);
        assert_eq!(said.len(), count, "{said:?}");
        assert!(said.iter().all(|each| each.contains("at most 20 restarts")), "{said:?}");
    }
    let many = with(&given(&[job("a")]), "/spec/failurePolicy", json!({"maxRestarts": 21}));
    let start = "warning: spec.failurePolicy.maxRestarts: \"21\": ";
    only("-", &judged(&many), start, "at most 20 restarts");
    let mut unasked = with(&given(&[job("a")]), "/spec/failurePolicy", json!({"maxRestarts": 2}));
    let key = "workload.codeflare.dev.appwrapper/retryPolicies";
    unasked["metadata"]["annotations"] = json!({ key: "infra" });
    let start = "warning: spec.failurePolicy.maxRestarts: \"2\": ";
    only("-", &judged(&unasked), start, "where a RetryPolicy is in force");
    let recreate = json!({"failurePolicy": {"maxRestarts": 2, "rules": [
        {"action": "RecreateComponent"}]}});
    let mut aw = given(&[job("a")]);
    aw["spec"]["failurePolicy"] = recreate["failurePolicy"].clone();
    aw["metadata"]["annotations"] = json!({ format!("{PREFIX}retryPolicies"): "infra" });
    let start = "warning: spec.failurePolicy.maxRestarts: \"2\": ";
    only("recreates", &judged(&aw), start, "applies only to RecreateComponent and to restarts");
}

#[test]
fn what_has_no_effect_in_a_worker_cluster_is_warned_of() {
    const ACTIVE: &str =
        "metadata.annotations[workload.codeflare.dev.appwrapper/active]: \"false\": ";
    const NO_FIT: &str = "spec.onNoFit: ";
    let sent = |manager: &str, active: &str, no_fit: Value| {
        let mut aw = given(&[job("a")]);
        aw["metadata"]["labels"] = json!({ keys::QUEUE_NAME: "gpu" });
        aw["metadata"]["annotations"] = json!({ keys::ACTIVE: active });
        aw["spec"]["managedBy"] = json!(manager);
        aw["spec"]["onNoFit"] = no_fit;
        judged(&aw)
    };
    let hold = || json!({"action": "Hold"});
    let (ours, theirs) = (keys::CONTROLLER_NAME, keys::MULTIKUEUE);
    for (manager, active, no_fit, want) in [
        (ours, "false", hold(), vec![]),
        (theirs, "true", Value::Null, vec![]),
        (theirs, "false", Value::Null, vec![ACTIVE]),
        (theirs, "true", hold(), vec![NO_FIT]),
        (theirs, "false", hold(), vec![ACTIVE, NO_FIT]),
    ] {
        let said = sent(manager, active, no_fit);
        assert_eq!(said.len(), want.len(), "{manager}: {said:#?}");
        for (said, want) in said.iter().zip(want) {
            let start = format!("warning: {want}has no effect with MultiKueue");
            assert!(said.starts_with(&start), "{said}");
        }
    }
}

fn in_order(steps: &[&[&str]]) -> Value {
    let rules: Vec<Value> = steps
        .iter()
        .map(|names| json!({"targetComponents": names, "waitForComponentsStatus": "Ready"}))
        .collect();
    json!({"executionPolicy": {"executionPolicyOrder": "InOrder", "rules": rules}})
}

#[test]
fn pods_that_no_step_names_come_last() {
    let all = [job("a"), job("b"), service("x")];
    let start = "warning: spec.executionPolicy.rules: no rule names Job/b: ";
    only("b", &of(&all, in_order(&[&["a"]])), start, "created in a last step");
    assert_eq!(of(&all, in_order(&[&["a"], &["b"]])), Vec::<String>::new());
    // while something is wrong with the rules, nothing is said of the rest
    let said = of(&all, in_order(&[&["a", "nothing"]]));
    only("error", &said, "error: spec.executionPolicy.rules[0].targetComponents[1]: ", "one of");
}

#[test]
fn pods_wait_for_what_a_later_step_creates() {
    let object = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "o"}});
    let uses = |pointer: &str, value: Value| with(&job("a"), pointer, value);
    let volume = |source: Value| uses("/spec/template/spec/volumes", json!([source]));
    let container = |field: &str, source: Value| {
        uses(&format!("/spec/template/spec/containers/0/{field}"), json!([source]))
    };
    let variable = |source: Value| container("env", json!({"name": "E", "valueFrom": source}));
    let projected = |source: Value| volume(json!({"projected": {"sources": [source]}}));
    let rows = [
        ("ConfigMap", volume(json!({"configMap": {"name": "o"}}))),
        ("Secret", volume(json!({"secret": {"secretName": "o"}}))),
        ("PersistentVolumeClaim", volume(json!({"persistentVolumeClaim": {"claimName": "o"}}))),
        ("ConfigMap", projected(json!({"configMap": {"name": "o"}}))),
        ("Secret", projected(json!({"secret": {"name": "o"}}))),
        ("ConfigMap", container("envFrom", json!({"configMapRef": {"name": "o"}}))),
        ("Secret", container("envFrom", json!({"secretRef": {"name": "o"}}))),
        ("ConfigMap", variable(json!({"configMapKeyRef": {"name": "o", "key": "k"}}))),
        ("Secret", variable(json!({"secretKeyRef": {"name": "o", "key": "k"}}))),
    ];
    let start = "warning: spec.components[0].template.spec.template.spec: Job/a never starts: ";
    for (kind, pods) in rows {
        let all = [pods, object(kind), job("b")];
        let later = of(&all, in_order(&[&["a"], &["o", "b"]]));
        only(kind, &later, start, &format!("its pods need {kind}/o, which a later step creates"));
        for steps in [
            in_order(&[&["a"], &["b"]]),
            in_order(&[&["a", "o"], &["b"]]),
            in_order(&[&["o"], &["a"], &["b"]]),
            json!({}),
        ] {
            assert_eq!(of(&all, steps), Vec::<String>::new(), "{kind}");
        }
    }
    let optional = volume(json!({"configMap": {"name": "o", "optional": true}}));
    let said = of(&[optional, object("ConfigMap"), job("b")], in_order(&[&["a"], &["o", "b"]]));
    assert_eq!(said, Vec::<String>::new());
}
