//! What is around an AppWrapper and has a say in its retries: retry policies, queues, nodes, the Jobs of
//! a `JobSet`.

use serde_json::{Value, json};

use super::{at, explain, explain_with, job, line, pod, tuned, with, wrapper};

const FIELDS: [&str; 5] = ["/action", "/rule/source", "/rule/policy", "/rule/name", "/avoidNodes"];

fn policy(name: &str, rule: &Value) -> Value {
    let mut rule = rule.clone();
    rule["action"] = "Retry".into();
    json!({
        "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": name},
        "spec": {"backoff": {"initialDelay": "10s"}, "rules": [rule]},
    })
}

fn queues(local: &str, cluster: &str) -> [Value; 2] {
    let queue = |kind: &str, name: &str, names: &str, spec: Value| {
        let annotations = json!({"workload.codeflare.dev/retry-policies": names});
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": name, "annotations": annotations}, "spec": spec})
    };
    [
        queue("LocalQueue", "q", local, json!({"clusterQueue": "c"})),
        queue("ClusterQueue", "c", cluster, json!({})),
    ]
}

fn node(name: &str, labels: &Value, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "110"}}})
}

fn queued() -> Value {
    with(wrapper("Running"), "/metadata/labels", json!({"kueue.x-k8s.io/queue-name": "q"}))
}

/// A pod of it failed on node-1 with code 3.
fn failed(wrapper: Value, around: &[Value]) -> Vec<Value> {
    let mut objects = vec![wrapper, job(), pod("w-0", "Failed", 3), pod("w-1", "Running", 0)];
    objects.extend(around.iter().cloned());
    objects
}

fn on_code(code: i32) -> Value {
    json!({"onExitCodes": {"operator": "In", "values": [code]}})
}

#[test]
fn policies_are_found_where_they_are_attached() {
    let [local, cluster] = queues("team", "infra");
    let (infra, team) = (policy("infra", &on_code(7)), policy("team", &on_code(3)));
    let mine = policy("mine", &on_code(3));
    let named = |wrapper, names| tuned(wrapper, "retryPolicies", names);
    for (what, settings, objects, want) in [
        (
            "its own",
            "{}",
            failed(named(wrapper("Running"), "mine"), std::slice::from_ref(&mine)),
            "Restart retryPolicy mine rule0 []",
        ),
        (
            "the local queue's",
            "{}",
            failed(named(queued(), "mine"), &[local.clone(), cluster, infra, team.clone(), mine]),
            "Restart retryPolicy team rule0 []",
        ),
        (
            "the cluster queue is not known",
            "{}",
            failed(queued(), &[local, team.clone()]),
            "Restart retryPolicy team rule0 []",
        ),
        (
            "the default",
            "{retryPolicy: {defaultPolicyName: team}}",
            failed(wrapper("Running"), std::slice::from_ref(&team)),
            "Restart retryPolicy team rule0 []",
        ),
        ("not attached", "{}", failed(queued(), &[team]), "Restart retryLimit null null []"),
    ] {
        let answer = explain_with(settings, &objects, 80);
        assert_eq!(line(&answer, &FIELDS), want, "{what}: {answer}");
    }
}

#[test]
fn a_policy_that_is_not_in_the_bundle_is_missing() {
    let named = tuned(wrapper("Running"), "retryPolicies", "nowhere");
    let answer = explain(&failed(named, &[]), 80);
    let message = answer["message"].as_str().expect("a message");
    assert!(message.contains("nowhere"), "{message}");
}

#[test]
fn a_node_is_avoided_where_there_is_another() {
    let mut rule = on_code(3);
    rule["antiAffinity"] = json!({"mode": "node"});
    let rule = policy("infra", &rule);
    let named = |selector: Value| {
        let wrapper = tuned(wrapper("Running"), "retryPolicies", "infra");
        let spec = "/spec/components/0/template/spec/template/spec/nodeSelector";
        with(wrapper, spec, selector)
    };
    let first = || node("node-1", &json!({"kubernetes.io/hostname": "host-1", "zone": "a"}), "4");
    let second = || node("node-2", &json!({"zone": "b"}), "4");
    for (what, wrapper, nodes, want) in [
        ("no node is known", named(json!({})), vec![], r#"["node-1"]"#),
        ("another", named(json!({})), vec![first(), second()], r#"["host-1"]"#),
        ("no other", named(json!({})), vec![first()], "[]"),
        ("another of no use", named(json!({"zone": "a"})), vec![first(), second()], "[]"),
    ] {
        let mut around = nodes;
        around.push(rule.clone());
        let answer = explain(&failed(wrapper, &around), 80);
        let want = format!("Restart retryPolicy infra rule0 {want}");
        assert_eq!(line(&answer, &FIELDS), want, "{what}: {answer}");
    }
}

#[test]
fn the_jobs_of_a_job_set_say_why_it_failed() {
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}});
    let template = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "work"},
        "spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": pod}}}]},
    });
    let mut wrapper = with(wrapper("Running"), "/spec/components/0/template", template.clone());
    wrapper["status"]["componentStatus"] = json!([{
        "name": "work", "kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha2", "uid": "set-uid",
    }]);
    wrapper["spec"]["failurePolicy"] = json!({"rules": [{
        "action": "FailAppWrapper", "onJobFailureReasons": ["PodFailurePolicy"],
    }]});
    let failed = |reason: &str| {
        json!([{"type": "Failed", "status": "True", "reason": reason, "message": "m",
            "lastTransitionTime": at(20)}])
    };
    let mut set = template;
    set["metadata"]["uid"] = "set-uid".into();
    set["status"]["conditions"] = failed("FailedJobs");
    let job = |owner: &str| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work-a-0",
                "ownerReferences": [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
                    "name": owner, "uid": format!("{owner}-uid"), "controller": true}]},
            "status": {"conditions": failed("PodFailurePolicy")},
        })
    };
    let ours = with(job("set"), "/metadata/ownerReferences/0/name", json!("work"));
    let fields = ["/action", "/reason", "/rule/source"];
    let answer = explain(&[wrapper.clone(), set.clone(), ours], 80);
    assert_eq!(line(&answer, &fields), "Fail FailedComponent failurePolicy", "{answer}");
    let answer = explain(&[wrapper, set, job("other")], 80);
    assert_eq!(line(&answer, &fields), "Restart FailedComponent retryLimit", "{answer}");
}
