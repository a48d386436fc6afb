//! Retry policies on the real control plane: with Kueue, with nodes, and with the kill switch.

use std::sync::Arc;

use appwrapper::clock::SystemClock;
use appwrapper::config::Config;
use appwrapper::controller::Controller;
use serde_json::{Value, json};

use crate::harness::{
    self, Case, Log, attempts_do_not_overlap, job, pod, quota_without_a_gap, runtime_test, test,
    tuned, wrapper,
};
use crate::proxy::PLANE as OWN_PLANE;
use crate::proxy::line::{Line, Role};

/// A retry policy, which has no namespace: its name must be a test's own.
fn policy(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "workload.codeflare.dev/v1alpha1",
        "kind": "RetryPolicy",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// A queue of its own, with quota for one CPU and a GiB, to which a policy is attached.
async fn queue(case: &Case, name: &str, policies: &str) {
    let of = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": kind,
            "metadata": {
                "name": name,
                "annotations": {"workload.codeflare.dev/retry-policies": policies},
            },
            "spec": spec,
        })
    };
    let quota = json!([
        {"name": "cpu", "nominalQuota": 1},
        {"name": "memory", "nominalQuota": "1Gi"},
    ]);
    let groups = json!([{
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": name, "resources": quota}],
    }]);
    case.create(of("ResourceFlavor", json!({}))).await;
    let spec = json!({"namespaceSelector": {}, "resourceGroups": groups});
    case.create(of("ClusterQueue", spec)).await;
    let mut local = of("LocalQueue", json!({"clusterQueue": name}));
    local["metadata"]["annotations"] = json!({});
    case.create(local).await;
}

/// A pod's memory, of its only container.
fn memory(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"].as_str().unwrap_or_default()
}

fn with_memory(mut job: Value, amount: &str) -> Value {
    let container = &mut job["spec"]["template"]["spec"]["containers"][0];
    container["resources"] = json!({
        "requests": {"cpu": "10m", "memory": amount},
        "limits": {"memory": amount},
    });
    job
}

fn attempt(log: &Log, name: &str, index: usize) -> Value {
    let last = log.last("AppWrapper", name).map(|seen| seen.object["status"]["attempts"].clone());
    last.map_or(Value::Null, |attempts| attempts[index].clone())
}

#[test]
fn kueue_admits_a_retry_with_more_memory_anew() {
    test("kueue_admits_a_retry_with_more_memory_anew", async |case| {
        let name = "grown";
        case.record("kueue.x-k8s.io/v1beta2", "Workload").await;
        let rule = json!({
            "name": "oom",
            "action": "Retry",
            "onConditions": ["OOMKilled"],
            "backoff": {"initialDelay": "0s"},
            "mutate": {"memory": {"factor": 1.5, "max": "128Mi"}},
        });
        case.create(policy("policies-grown", json!({"rules": [rule]}))).await;
        queue(&case, "policies-grown", "policies-grown").await;
        let life = [
            ("run-for", "1s"),
            ("fail-until-attempt", "2"),
            ("exit-code", "137"),
            ("reason", "OOMKilled"),
        ];
        let template = with_memory(job(name, json!({}), &life), "64Mi");
        let mut object = wrapper(name, tuned(&[]), vec![template]);
        object["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "policies-grown"});
        object["spec"]["suspend"] = true.into();
        case.create(object).await;
        case.phase(name, "Succeeded").await;
        let again = ["Suspending", "Suspended", "Resuming", "Running"];
        let mut phases = vec!["", "Suspended", "Resuming", "Running"];
        phases.extend(again.iter().chain(&again));
        phases.push("Succeeded");
        case.phases(name, &phases).await;
        let log = case.log();
        let mut seen: Vec<&str> = log.all("Pod").map(|pod| memory(&pod.object)).collect();
        seen.dedup();
        assert_eq!(seen, ["64Mi", "96Mi", "128Mi"], "the pods of the three attempts");
        let reserved = log.all("Workload").filter(|seen| seen.condition("Admitted") == "True");
        let of_workload = |object: &Value| {
            let pod = &object["spec"]["podSets"][0]["template"]["spec"]["containers"][0];
            pod["resources"]["requests"]["memory"].as_str().unwrap_or_default().to_owned()
        };
        let mut admitted: Vec<String> = reserved.map(|seen| of_workload(&seen.object)).collect();
        admitted.dedup();
        assert_eq!(admitted, ["64Mi", "96Mi", "128Mi"], "what Kueue admitted");
        assert_eq!(attempt(&log, name, 0)["rule"]["name"], "oom");
        assert_eq!(attempt(&log, name, 1)["retries"], json!({"used": 1, "limit": 20}));
        attempts_do_not_overlap(&log);
        quota_without_a_gap(&log, name);
    });
}

#[test]
fn a_retry_avoids_the_node_that_failed() {
    test("a_retry_avoids_the_node_that_failed", async |case| {
        let rule = json!({
            "name": "lost",
            "action": "Retry",
            "onConditions": ["Evicted"],
            "antiAffinity": {"mode": "node"},
            "backoff": {"initialDelay": "1s"},
        });
        case.create(policy("policies-avoids", json!({"rules": [rule]}))).await;
        let life = [
            ("run-for", "1s"),
            ("fail-until-attempt", "1"),
            ("disruption", "TerminationByKubelet"),
        ];
        let settings = tuned(&[("retryPolicies", "policies-avoids")]);
        case.wrap("avoids", settings, vec![pod("avoids", &life)]).await;
        let resetting = case.was("avoids", "Resetting").await;
        let avoided = resetting.object["status"]["avoidNodes"][0].clone();
        assert!(avoided.is_string(), "{}", resetting.object["status"]);
        case.phase("avoids", "Succeeded").await;
        let log = case.log();
        assert_eq!(attempt(&log, "avoids", 0)["failure"]["node"], avoided);
        let nodes = |attempt: &str| -> Vec<Value> {
            let label = "workload.codeflare.dev/attempt";
            let pods = log.all("Pod").map(|pod| &pod.object);
            let of = pods.filter(|pod| pod["metadata"]["labels"][label] == attempt);
            let bound = of.map(|pod| pod["spec"]["nodeName"].clone());
            bound.filter(Value::is_string).collect()
        };
        assert!(nodes("0").contains(&avoided), "{:?}", nodes("0"));
        assert!(!nodes("1").is_empty() && !nodes("1").contains(&avoided), "{:?}", nodes("1"));
    });
}

#[test]
fn policies_add_up_and_one_that_is_missing_is_named() {
    test("policies_add_up_and_one_that_is_missing_is_named", async |case| {
        let rule = json!({
            "action": "Retry",
            "onExitCodes": {"operator": "In", "values": [7]},
            "retryLimit": 1,
            "backoff": {"initialDelay": "0s"},
        });
        case.create(policy("policies-adds", json!({"rules": [rule]}))).await;
        let life = [("run-for", "1s"), ("exit-code", "7")];
        let settings = tuned(&[
            ("retryPolicies", "policies-nowhere, policies-adds"),
            ("failureGracePeriodDuration", "1s"),
        ]);
        case.wrap("adds", settings, vec![pod("adds", &life)]).await;
        let message = case.warning("adds", "PolicyNotFound").await;
        assert!(message.contains("policies-nowhere"), "{message}");
        case.condition("adds", "PolicyNotFound", "True").await;
        case.phase("adds", "Failed").await;
        let log = case.log();
        let retried = attempt(&log, "adds", 0);
        assert_eq!(retried["action"], "Restart");
        assert_eq!(retried["rule"]["policy"], "policies-adds");
        let last = attempt(&log, "adds", 1);
        assert_eq!(last["action"], "Fail");
        assert_eq!(last["rule"]["source"], "retryLimit");
        assert_eq!(last["rule"]["policy"], "policies-adds");
        assert_eq!(last["retries"], json!({"used": 1, "limit": 1}));
    });
}

#[test]
fn a_policy_that_changes_holds_for_the_next_failure() {
    test("a_policy_that_changes_holds_for_the_next_failure", async |case| {
        let spec = |action: &str| {
            let codes = json!({"operator": "In", "values": [7]});
            let backoff = json!({"initialDelay": "0s"});
            json!({"rules": [{"action": action, "onExitCodes": codes}], "backoff": backoff})
        };
        let name = "policies-changes";
        case.create(policy(name, spec("Retry"))).await;
        let settings = tuned(&[("retryPolicies", name)]);
        case.wrap("changes", settings, vec![pod("changes", &[])]).await;
        case.ready("changes", 0).await;
        case.end_pod("changes", "7").await;
        case.ready("changes", 1).await;
        let api = case.cluster_api("workload.codeflare.dev/v1alpha1", "RetryPolicy");
        let patch = kube::api::Patch::Merge(json!({"spec": spec("Fail")}));
        api.patch(name, &kube::api::PatchParams::default(), &patch).await.expect("it is there");
        case.others_go_on("other").await;
        case.end_pod("changes", "7").await;
        case.phase("changes", "Failed").await;
        let log = case.log();
        let actions = [0, 1].map(|index| attempt(&log, "changes", index)["action"].clone());
        assert_eq!(actions, ["Restart", "Fail"]);
        assert_eq!(attempt(&log, "changes", 1)["rule"]["source"], "retryPolicy");
    });
}

/// The configuration with so many restarts for all.
fn config(global_max_retries: i32) -> Config {
    let mut config = harness::config();
    config.retry_policy.global_max_retries = global_max_retries;
    config
}

/// A retry that is granted goes on; one that is still waited for is not granted any more.
#[test]
fn the_kill_switch_holds_from_the_next_decision() {
    let name = "the_kill_switch_holds_from_the_next_decision";
    runtime_test(
        name,
        || OWN_PLANE.client(),
        async |case| {
            let line = Line::quiet(case.client.clone(), &case.namespace);
            let clock = Arc::new(SystemClock);
            let controller = Controller::new(line.client(Role::First), clock, config(20));
            let context = controller.context.clone();
            let told = async {
                let granted = tuned(&[
                    ("failureGracePeriodDuration", "0s"),
                    ("retryPausePeriodDuration", "3s"),
                ]);
                let waiting = tuned(&[("failureGracePeriodDuration", "10s")]);
                for (name, settings) in [("granted", granted), ("waiting", waiting)] {
                    case.wrap(name, settings, vec![pod(name, &[])]).await;
                    case.ready(name, 0).await;
                }
                case.end_pod("waiting", "1").await;
                case.condition("waiting", "Unhealthy", "True").await;
                case.end_pod("granted", "1").await;
                case.was("granted", "Resetting").await;
                *context.config.write().expect("nobody panicked") = Arc::new(config(0));
                context.requeue_all();
                case.phase("waiting", "Failed").await;
                case.ready("granted", 1).await;
                case.end_pod("granted", "1").await;
                case.phase("granted", "Failed").await;
                let log = case.log();
                assert_eq!(attempt(&log, "waiting", 0)["rule"]["source"], "killSwitch");
                assert_eq!(attempt(&log, "granted", 0)["action"], "Restart");
                assert_eq!(attempt(&log, "granted", 1)["rule"]["source"], "killSwitch");
            };
            tokio::select! {
                () = controller.run(std::future::pending()) => {}
                () = told => {}
            }
        },
    );
}
