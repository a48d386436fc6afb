use super::*;

/// `Job/a`, and the JobSet `set` with the replicated Jobs `driver`, `workers`, and two of the name `twice`.
fn sets() -> Value {
    let job_of = |name: &str, container: &str| {
        let containers = json!([{"name": container}]);
        let pod = json!({"spec": {"restartPolicy": "Never", "containers": containers}});
        json!({"name": name, "template": {"spec": {"template": pod}}})
    };
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "set"},
        "spec": {"replicatedJobs": [
            job_of("driver", "main"), job_of("workers", "train"), job_of("twice", "x"),
            job_of("twice", "y"),
        ]},
    });
    given(&[job("a"), set])
}

fn ignored(targets: Value) -> Value {
    json!({"podFailurePolicy": {"rules": [{
        "action": "Ignore", "targetComponents": targets,
        "onPodConditions": [{"type": "DisruptionTarget"}],
    }]}})
}

fn failed(action: &str, targets: Value) -> Value {
    json!({"failurePolicy": {"rules": [{"action": action, "targetComponents": targets}]}})
}

fn said(fields: Value) -> Vec<String> {
    let mut aw = sets();
    for (name, value) in fields.as_object().unwrap() {
        aw["spec"][name] = value.clone();
    }
    judged(&aw)
}

#[test]
fn parts_are_named_by_component_and_part() {
    for targets in
        [json!(["set/driver"]), json!(["JobSet/set/workers", "set/driver", "a"]), json!(["set"])]
    {
        for fields in [
            ignored(targets.clone()),
            failed("FailAppWrapper", targets.clone()),
            failed("RestartAppWrapper", targets.clone()),
            failed("RestartAppWrapperAndIgnoreMaxRestarts", targets.clone()),
        ] {
            assert_eq!(said(fields), Vec::<String>::new(), "{targets}");
        }
    }
}

#[test]
fn what_is_no_part_is_named_with_what_is_allowed() {
    for (targets, fragment) in [
        (
            json!(["set/worker"]),
            "a part of JobSet/set: one of driver, twice, workers: did you mean workers?",
        ),
        (json!(["set/Driver"]), "one of driver, twice, workers"),
        (json!(["JobSet/set/other"]), "one of driver, twice, workers"),
        (json!(["set/twice"]), "several with this name"),
        (json!(["a/main"]), "must be Job/a as a whole: it has no parts"),
        (json!(["Job/set/driver"]), "one of a, set"),
        (json!(["set/"]), "one of driver, twice, workers"),
        (json!(["/driver"]), "one of a, set"),
        (json!(["set/driver/x"]), "one of a, set"),
    ] {
        let value = targets[0].as_str().unwrap();
        for (policy, fields) in [
            ("podFailurePolicy", ignored(targets.clone())),
            ("failurePolicy", failed("FailAppWrapper", targets.clone())),
        ] {
            let start = format!(
                "error: spec.{policy}.rules[0].targetComponents[0]: Invalid value: {value:?}: "
            );
            only(value, &said(fields), &start, fragment);
        }
    }
}

#[test]
fn a_part_is_refused_where_a_whole_component_is_meant() {
    let whole = "must be JobSet/set as a whole";
    for action in ["RecreateComponent", "RecreateComponentAndIgnoreMaxRestarts"] {
        let start = "error: spec.failurePolicy.rules[0].targetComponents[0]: ";
        only(action, &said(failed(action, json!(["set/driver"]))), start, whole);
    }
    let steps = json!({"executionPolicy": {"executionPolicyOrder": "InOrder", "rules": [
        {"targetComponents": ["set/driver"], "waitForComponentsStatus": "Ready"},
        {"targetComponents": ["a", "set"], "waitForComponentsStatus": "Ready"},
    ]}});
    let start = "error: spec.executionPolicy.rules[0].targetComponents[0]: ";
    only("steps", &said(steps), start, whole);
}

#[test]
fn a_part_is_listed_once() {
    let start = "error: spec.podFailurePolicy.rules[0].targetComponents[1]: ";
    let twice = json!(["set/driver", "JobSet/set/driver"]);
    only("twice", &said(ignored(twice)), start, "the part is already listed");
    let start = "warning: spec.podFailurePolicy.rules[0].targetComponents[0]: ";
    let both = json!(["set/driver", "set"]);
    only("both", &said(ignored(both)), start, "has no effect");
}

#[test]
fn a_container_is_one_of_the_parts_that_are_named() {
    let of = |targets: Value, container: &str| {
        let codes = json!({"containerName": container, "operator": "In", "values": [1]});
        said(json!({"podFailurePolicy": {"rules": [{
            "action": "Count", "targetComponents": targets, "onExitCodes": codes,
        }]}}))
    };
    assert_eq!(of(json!(["set/workers"]), "train"), Vec::<String>::new());
    assert_eq!(of(json!(["set"]), "train"), Vec::<String>::new());
    let start = "error: spec.podFailurePolicy.rules[0].onExitCodes.containerName: ";
    only("-", &of(json!(["set/driver"]), "train"), start, "one of main");
}
