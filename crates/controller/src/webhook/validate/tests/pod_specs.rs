//! Pod specs that Kubernetes cannot read, or does not know all of.

use super::*;

const AT: &str = "spec.components[0].template.spec.template.spec";

/// A Job with a value at a place of its pod spec.
fn with_pod(place: &str, value: Value) -> Value {
    let pointer = format!("/spec/components/0/template/spec/template/spec/{place}");
    with(&given(&[job("a")]), &pointer, value)
}

/// The same in a queue.
fn queued(aw: &Value) -> Value {
    with(aw, "/metadata/labels", json!({"kueue.x-k8s.io/queue-name": "main"}))
}

#[test]
fn a_pod_spec_that_kubernetes_cannot_read_is_refused() {
    let env = |value: Value| json!([{"name": "TOKEN", "value": value}]);
    let port = |value: Value| json!([{"containerPort": value}]);
    let text = "must be a string: put it in quotes";
    let whole = "must be a whole number";
    for (place, value, field, shown, said) in [
        ("containers/0/env", env(json!(8080)), "containers[0].env[0].value", "a number", text),
        ("containers/0/env", env(json!(true)), "containers[0].env[0].value", "a boolean", text),
        (
            "containers/0/env",
            env(json!({"a": 1})),
            "containers[0].env[0].value",
            "an object",
            "must be a string",
        ),
        (
            "containers/0/command",
            json!("run"),
            "containers[0].command",
            "a string",
            "must be a list",
        ),
        ("containers/0/args", json!(["-n", 3]), "containers[0].args[1]", "a number", text),
        (
            "containers/0/ports",
            port(json!("80")),
            "containers[0].ports[0].containerPort",
            "a string",
            whole,
        ),
        (
            "containers/0/ports",
            port(json!(80.5)),
            "containers[0].ports[0].containerPort",
            "80.5",
            whole,
        ),
        (
            "containers/0/ports",
            port(json!(2_147_483_648_i64)),
            "containers[0].ports[0].containerPort",
            "2147483648",
            whole,
        ),
        ("priority", json!("high"), "priority", "a string", whole),
        ("activeDeadlineSeconds", json!(0.5), "activeDeadlineSeconds", "0.5", whole),
        (
            "activeDeadlineSeconds",
            json!(9_223_372_036_854_775_808_u64),
            "activeDeadlineSeconds",
            "9223372036854775808",
            whole,
        ),
        (
            "containers/0/livenessProbe",
            json!({"httpGet": {"port": 1.5}}),
            "containers[0].livenessProbe.httpGet.port",
            "1.5",
            "must be the number or the name of a port",
        ),
        (
            "containers/0/resources",
            json!({"limits": {"memory": "64GB"}}),
            "containers[0].resources.limits[memory]",
            "64GB",
            "must be a quantity such as",
        ),
        (
            "containers/0/resources",
            json!({"limits": {"a/b": "-1"}}),
            "containers[0].resources.limits[a/b]",
            "-1",
            "must be 0 or more",
        ),
        (
            "initContainers",
            json!([{"name": "i", "resources": {"requests": {"memory": "-100Gi"}}}]),
            "initContainers[0].resources.requests[memory]",
            "-100Gi",
            "must be 0 or more",
        ),
        (
            "resources",
            json!({"requests": {"cpu": -0.5}}),
            "resources.requests[cpu]",
            "-0.5",
            "must be 0 or more",
        ),
        ("overhead", json!({"cpu": -5}), "overhead[cpu]", "-5", "must be 0 or more"),
        (
            "volumes",
            json!([{"name": "v", "emptyDir": {"sizeLimit": false}}]),
            "volumes[0].emptyDir.sizeLimit",
            "a boolean",
            "must be a quantity such as",
        ),
        ("volumes", json!({"name": "v"}), "volumes", "an object", "must be a list"),
        ("hostNetwork", json!("yes"), "hostNetwork", "a string", "must be true or false"),
        ("securityContext", json!([]), "securityContext", "a list", "must be an object"),
        ("dnsConfig/searches", json!([[]]), "dnsConfig.searches[0]", "a list", "must be a string"),
    ] {
        let start = format!("error: {AT}.{field}: Invalid value: {shown:?}: {said}");
        let aw = with_pod(place, value);
        only(field, &judged(&aw), &start, "");
        only(field, &judged(&queued(&aw)), &start, "");
    }
}

#[test]
fn what_kubernetes_reads_is_let_in() {
    let claim = json!({
        "metadata": {"labels": {"a": "b"}, "creationTimestamp": null},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let divisor = json!({"resource": "limits.cpu", "divisor": 1});
    for (place, value) in [
        (
            "containers/0/resources",
            json!({"requests": {"cpu": 1, "memory": "1.5Gi", "a/b": 2.0}, "limits": {"cpu": null}}),
        ),
        ("containers/0/resources", json!({"limits": {"a/b": "-0", "a/c": " 1e3 "}})),
        ("containers/0/ports", json!([{"containerPort": 80.0, "protocol": null}])),
        ("containers/0/readinessProbe", json!({"tcpSocket": {"port": "http"}})),
        ("containers/0/readinessProbe", json!({"grpc": {"port": 80}, "periodSeconds": 5})),
        ("containers/0/env", json!([{"name": "A", "valueFrom": {"resourceFieldRef": divisor}}])),
        ("containers/0/lifecycle", json!({"preStop": {"sleep": {"seconds": 5}}})),
        ("volumes", json!([{"name": "v", "emptyDir": {"sizeLimit": 1024}}, {}, null])),
        ("volumes", json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}])),
        ("volumes", json!([{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}])),
        ("activeDeadlineSeconds", json!(5_000_000_000_i64)),
        ("activeDeadlineSeconds", json!(i64::MAX)),
        ("tolerations", json!([{"tolerationSeconds": i64::MIN}])),
        ("affinity", json!({"podAntiAffinity": {}})),
        ("nodeSelector", json!({"port": "a"})),
        ("hostNetwork", json!(false)),
        ("subdomain", json!("")),
        // new in Kubernetes 1.36
        ("schedulingGroup", json!({"podGroupName": "g"})),
    ] {
        let aw = with_pod(place, value);
        assert_eq!(judged(&aw), Vec::<String>::new(), "{place}");
        assert_eq!(judged(&queued(&aw)), Vec::<String>::new(), "{place}");
    }
}

#[test]
fn an_unknown_field_of_a_pod_is_doubtful_in_a_queue() {
    for (place, value, field, meant) in [
        (
            "containers/0/imagePullpolicy",
            json!("Always"),
            "containers[0].imagePullpolicy",
            ": did you mean imagePullPolicy?",
        ),
        // Go has it decoded strictly, and counts names alone
        (
            "containers/0/imagePullpolicy",
            json!(null),
            "containers[0].imagePullpolicy",
            ": did you mean imagePullPolicy?",
        ),
        ("volumes", json!([{"name": "v", "zzzzz": {}}]), "volumes[0].zzzzz", "AppWrapper"),
        ("restartPolcy", json!("Never"), "restartPolcy", ": did you mean restartPolicy?"),
        // gone since Kubernetes 1.36
        ("workloadRef", json!({"name": "w", "podGroup": "g"}), "workloadRef", "AppWrapper"),
        ("schedulingGroup", json!({"podGroup": "g"}), "schedulingGroup.podGroup", "AppWrapper"),
    ] {
        let start = format!("warning: {AT}.{field}: unknown field: if Kueue does not know it");
        let aw = with_pod(place, value);
        only(field, &judged(&queued(&aw)), &start, meant);
        assert_eq!(judged(&aw), Vec::<String>::new(), "the API server drops it");
    }
    let many: serde_json::Map<String, Value> =
        (0..50).map(|i| (format!("x{i}"), json!(1))).collect();
    assert_eq!(judged(&queued(&with_pod("securityContext", many.into()))).len(), 10);
}

/// It is there already, and must be finished and deleted.
#[test]
fn a_stored_pod_spec_that_cannot_be_read_blocks_no_change() {
    let old = with_pod("containers/0/env", json!([{"name": "A", "value": 1}]));
    let new = with(&old, "/metadata/labels", json!({"team": "red"}));
    for (old, new) in [(&old, &new), (&new, &old)] {
        let said = update(old, new, Requester::default(), &Config::default());
        assert_eq!(say(said), Vec::<String>::new());
    }
    let mut resumed = old.clone();
    resumed["spec"]["suspend"] = json!(false);
    let said = update(&old, &resumed, Requester::default(), &Config::default());
    assert_eq!(say(said), Vec::<String>::new());
}

#[test]
fn pod_specs_are_compared_of_as_many_pod_sets_as_are_let_in() {
    let pod = json!({"spec": {"containers": [{"name": "main", "command": "run"}]}});
    let jobs = |count: usize| {
        let job =
            |i: usize| json!({"name": format!("w{i}"), "template": {"spec": {"template": pod}}});
        let jobs: Vec<Value> = (0..count).map(job).collect();
        judged(&given(&[json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"},
            "spec": {"replicatedJobs": jobs},
        })]))
    };
    assert_eq!(jobs(10).len(), 10);
    only("11", &jobs(11), "error: spec.components: Invalid value: \"11\": ", "at most 10 pod sets");
}
