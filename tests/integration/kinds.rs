//! Each kind has its own way to run, succeed and fail; and kinds come and go.

use std::time::Duration;

use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};

use crate::harness::{Case, job, on_the_installed, pod, test, tuned, without_webhook, wrapper};
use crate::installed::{ACCOUNT, NAMESPACE};
use crate::objects::{app, config_map, job_set, ray_cluster, service};

/// Waits until the success of a component is recorded.
async fn recorded_success(case: &Case, name: &str, component: usize) {
    case.until(&format!("component {component} of {name} succeeded"), |log| {
        let last = log.last("AppWrapper", name)?;
        let conditions = &last.object["status"]["componentStatus"][component]["conditions"];
        let mut conditions = conditions.as_array()?.iter();
        conditions.find(|it| it["type"] == "Succeeded" && it["status"] == "True").map(drop)
    })
    .await;
}

#[test]
fn what_never_ends_keeps_the_rest_from_ending() {
    test("what_never_ends_keeps_the_rest_from_ending", async |case| {
        let job = job("j", json!({}), &[("run-for", "0s")]);
        let templates = vec![app("Deployment", "web", 2), service("web"), job];
        case.wrap("aw", json!({}), templates).await;
        case.ready("aw", 0).await;
        recorded_success(&case, "aw", 2).await;
        case.others_go_on("other").await;
        assert_eq!(case.phase("aw", "Running").await.condition("PodsReady"), "True");
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        for (api_version, kind, name) in
            [("apps/v1", "Deployment", "web"), ("v1", "Service", "web"), ("batch/v1", "Job", "j")]
        {
            assert!(case.stored(api_version, kind, name).await.is_none(), "{kind}");
        }
        case.lawful("aw").await;
    });
}

#[test]
fn a_stateful_set_and_a_ray_cluster_become_ready() {
    test("a_stateful_set_and_a_ray_cluster_become_ready", async |case| {
        case.wrap("sts", json!({}), vec![app("StatefulSet", "s", 2)]).await;
        case.wrap("ray", json!({}), vec![ray_cluster("r")]).await;
        for name in ["sts", "ray"] {
            case.ready(name, 0).await;
            let log = case.log();
            let running = log.all("Pod").filter(|pod| pod.phase() == "Running");
            let of_it = running.filter(|pod| {
                pod.object["metadata"]["labels"]["workload.codeflare.dev/appwrapper"] == name
            });
            let mut pods: Vec<&str> = of_it.map(super::harness::RawObject::uid).collect();
            pods.sort_unstable();
            pods.dedup();
            assert_eq!(pods.len(), 2, "{name}");
            case.delete_wrapper(name).await;
            case.gone("AppWrapper", name).await;
            case.lawful(name).await;
        }
    });
}

#[test]
fn a_job_is_done_when_it_says_so_and_not_when_its_pods_are() {
    test("a_job_is_done_when_it_says_so_and_not_when_its_pods_are", async |case| {
        case.record("batch/v1", "Job").await;
        let template = job("j", json!({"completions": 3, "parallelism": 1}), &[("run-for", "0s")]);
        case.wrap("aw", json!({}), vec![template]).await;
        let done = case.phase("aw", "Succeeded").await;
        case.phases("aw", &["", "Resuming", "Running", "Succeeded"]).await;
        let complete = case
            .until("the Job is complete", |log| {
                let mut states = log.of("Job", "j");
                states.find(|job| job.condition("Complete") == "True").cloned()
            })
            .await;
        assert_eq!(complete.object["status"]["succeeded"], 3);
        assert!(complete.revision() < done.revision());
        case.lawful("aw").await;
    });
}

#[test]
fn a_job_set_may_succeed_while_a_pod_lives_and_that_pod_is_waited_for() {
    let name = "a_job_set_may_succeed_while_a_pod_lives";
    test(name, async |case| {
        let ends: &[(&str, &str)] = &[("run-for", "1s")];
        let policy = json!({"operator": "Any", "targetReplicatedJobs": ["a"]});
        let jobs = [("a", ends), ("b", &[("stuck", "")])];
        let template = job_set("js", json!({"successPolicy": policy}), &jobs);
        case.wrap("aw", json!({}), vec![template]).await;
        recorded_success(&case, "aw", 0).await;
        let pod = case
            .until("the pod of b is Terminating", |log| {
                let mut pods = log.all("Pod").filter(|pod| pod.name.starts_with("js-b-0-0"));
                pods.find(|pod| pod.object["metadata"]["deletionTimestamp"].is_string()).cloned()
            })
            .await;
        case.others_go_on("other").await;
        assert_eq!(case.phase("aw", "Running").await.condition("QuotaReserved"), "True");
        case.force_delete_pod(&pod.name).await;
        case.phases("aw", &["", "Resuming", "Running", "Succeeded"]).await;
    });
}

#[test]
fn a_success_stays_when_the_object_that_had_it_is_gone() {
    test("a_success_stays_when_the_object_that_had_it_is_gone", async |case| {
        let short = job("short", json!({"ttlSecondsAfterFinished": 0}), &[("run-for", "0s")]);
        case.record("batch/v1", "Job").await;
        case.wrap("aw", json!({}), vec![short, job("long", json!({}), &[])]).await;
        case.gone("Job", "short").await;
        recorded_success(&case, "aw", 0).await;
        case.others_go_on("other").await;
        case.end_pod(&case.pod("long-", "Running").await.name, "0").await;
        case.phases("aw", &["", "Resuming", "Running", "Succeeded"]).await;
    });
}

#[test]
fn what_cannot_be_wrapped_fails_and_holds_no_quota() {
    without_webhook("what_cannot_be_wrapped_fails_and_holds_no_quota", async |case| {
        let named = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        let mut elsewhere = config_map("elsewhere");
        elsewhere["metadata"]["namespace"] = "default".into();
        let mut invalid = job("invalid", json!({}), &[]);
        invalid["spec"]["completionMode"] = "Sometimes".into();
        for (name, template, want) in [
            ("unknown", named("nowhere.example.com/v1", "Nothing", "x"), r#"for kind "Nothing""#),
            ("cluster", named("v1", "Namespace", "never-made"), "cluster-scoped"),
            ("elsewhere", elsewhere, "namespace"),
            ("invalid", invalid, "completionMode"),
        ] {
            case.wrap(name, json!({}), vec![pod(name, &[]), template]).await;
            case.phase(name, "Failed").await;
            let done = case.condition(name, "QuotaReserved", "False").await;
            assert_eq!(done.condition("ResourcesDeployed"), "False", "{name}");
            assert_eq!(done.condition_field("Unhealthy", "reason"), "CreateFailed", "{name}");
            let message = case.warning(name, "CreateFailed").await;
            assert!(message.contains(want), "{name}: {message}");
            case.delete_wrapper(name).await;
            case.gone("AppWrapper", name).await;
            case.lawful(name).await;
        }
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(case.client.clone());
        assert!(namespaces.get_opt("never-made").await.expect("it can be asked").is_none());
    });
}

/// Defines a kind of a group of this test's own; returns the name of the definition.
async fn define(case: &Case, group: &str) -> String {
    let name = format!("things.{group}");
    let version = |name, is_stored: bool| {
        json!({
            "name": name, "served": true, "storage": is_stored,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }},
        })
    };
    let definition = json!({
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [version("v1", false), version("v2", true)],
        },
    });
    let definition = serde_json::from_value(definition).expect("a definition");
    let definitions = definitions(case);
    definitions.create(&PostParams::default(), &definition).await.expect("it is accepted");
    let served = await_condition(definitions, &name, conditions::is_crd_established());
    served.await.expect("it is served");
    name
}

/// Lets the controller wrap that kind, and waits until that is heeded.
async fn allow(case: &Case, group: &str) {
    let aggregate = "workload.codeflare.dev/aggregate-to-wrapped-kinds";
    let role = json!({
        "metadata": {"name": format!("things.{group}"), "labels": {aggregate: "true"}},
        "rules": [{"apiGroups": [group], "resources": ["things"],
            "verbs": ["create", "get", "list", "watch", "delete"]}],
    });
    let role = serde_json::from_value(role).expect("a role");
    let roles: Api<ClusterRole> = Api::all(case.client.clone());
    roles.create(&PostParams::default(), &role).await.expect("it is accepted");
    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let watches = json!({"group": group, "resource": "things", "verb": "watch"});
    case.until_allowed(&user, watches).await;
}

fn definitions(case: &Case) -> Api<CustomResourceDefinition> {
    Api::all(case.client.clone())
}

fn thing(group: &str, name: &str) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name}})
}

#[test]
fn a_kind_that_is_removed_hangs_nothing() {
    test("a_kind_that_is_removed_hangs_nothing", async |case| {
        let group = "removed.example.com";
        let definition = define(&case, group).await;
        if on_the_installed() {
            allow(&case, group).await;
        }
        let settings = tuned(&[("retryLimit", "1")]);
        case.wrap("running", settings, vec![thing(group, "running"), pod("running", &[])]).await;
        let stuck = pod("leaving", &[("stuck", "")]);
        case.wrap("leaving", json!({}), vec![thing(group, "leaving"), stuck]).await;
        for name in ["running", "leaving"] {
            case.ready(name, 0).await;
        }
        // This one is being deleted, and held by its pod, when the kind goes.
        case.delete_wrapper("leaving").await;
        case.phase("leaving", "Terminating").await;
        let deleted = definitions(&case).delete(&definition, &DeleteParams::default()).await;
        deleted.expect("the definition is deleted");
        case.phase("running", "Failed").await;
        let failed = case.condition("running", "QuotaReserved", "False").await;
        assert_eq!(failed.condition_field("Unhealthy", "reason"), "CreateFailed");
        case.force_delete_pod("leaving").await;
        case.gone("AppWrapper", "leaving").await;
        case.delete_wrapper("running").await;
        case.gone("AppWrapper", "running").await;
        for name in ["running", "leaving"] {
            case.lawful(name).await;
        }
    });
}

/// No longer serves the first version of a definition, and waits until that is heeded.
async fn end_first_version(case: &Case, definition: &str) {
    let definitions = definitions(case);
    let mut stored = definitions.get(definition).await.expect("it exists");
    stored.spec.versions[0].served = false;
    let replaced = definitions.replace(definition, &PostParams::default(), &stored).await;
    replaced.expect("it is accepted");
    let group = &stored.spec.group;
    let ended = async {
        while case.client.list_api_group_resources(&format!("{group}/v1")).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), ended).await.expect("v1 is no longer served");
}

#[test]
fn a_version_that_is_no_longer_served_hides_no_object() {
    test("a_version_that_is_no_longer_served_hides_no_object", async |case| {
        let group = "upgraded.example.com";
        let definition = define(&case, group).await;
        if on_the_installed() {
            allow(&case, group).await;
        }
        let settings = tuned(&[("failureGracePeriodDuration", "0s"), ("retryLimit", "1")]);
        case.wrap("again", settings, vec![thing(group, "again"), pod("again", &[])]).await;
        case.wrap("aw", json!({}), vec![thing(group, "aw"), pod("aw", &[])]).await;
        for name in ["again", "aw"] {
            case.ready(name, 0).await;
        }
        end_first_version(&case, &definition).await;
        let stored =
            async |name| case.stored(&format!("{group}/v2"), "Thing", name).await.is_some();
        assert!(stored("again").await && stored("aw").await);
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        assert!(!stored("aw").await);
        // what is created names the version of its template
        case.end_pod("again", "1").await;
        case.phase("again", "Failed").await;
        let failed = case.condition("again", "QuotaReserved", "False").await;
        assert_eq!(failed.condition_field("Unhealthy", "reason"), "CreateFailed");
        assert!(!stored("again").await);
        for name in ["again", "aw"] {
            case.lawful(name).await;
        }
    });
}

#[test]
fn a_kind_that_comes_late_can_be_wrapped() {
    without_webhook("a_kind_that_comes_late_can_be_wrapped", async |case| {
        let group = "late.example.com";
        let mut aw = wrapper("aw", json!({}), vec![thing(group, "t")]);
        aw["spec"]["suspend"] = true.into();
        case.create(aw).await;
        case.phase("aw", "Suspended").await;
        define(&case, group).await;
        case.suspend("aw", false).await;
        case.phase("aw", "Running").await;
        let stored = case.stored(&format!("{group}/v1"), "Thing", "t").await;
        assert!(stored.is_some());
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
    });
}
