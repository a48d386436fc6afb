//! Kinds whose controllers are not part of the control plane: each test plays its controller.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};

use crate::harness::{Case, RawObject};
use crate::installed::installed_test;

const VOLCANO: &str = "batch.volcano.sh/v1alpha1";
const TRAINER: &str = "trainer.kubeflow.org/v1alpha1";

/// Serves a kind whose objects may have any fields.
async fn serve(case: &Case, api_version: &str, kind: &str, scope: &str) {
    let (group, version) = api_version.split_once('/').expect("a group");
    let plural = format!("{}s", kind.to_lowercase());
    let name = format!("{plural}.{group}");
    let definition = json!({
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    let definition = serde_json::from_value(definition).expect("a definition");
    let definitions: Api<CustomResourceDefinition> = Api::all(case.client.clone());
    definitions.create(&PostParams::default(), &definition).await.expect("it is accepted");
    let served = await_condition(definitions, &name, conditions::is_crd_established());
    served.await.expect("it is served");
}

/// The AppWrapper of a sample.
fn sample(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(file);
    let text = std::fs::read_to_string(path).expect("a readable sample");
    serde_saphyr::from_str(&text).expect("a sample is YAML")
}

/// The object of a kind that comes after those of these UIDs.
async fn created(case: &Case, kind: &str, name: &str, before: &[&str]) -> RawObject {
    case.until(&format!("{kind}/{name} is created"), |log| {
        let mut all = log.of(kind, name).filter(|seen| !seen.deleted);
        all.find(|seen| !before.contains(&seen.uid())).cloned()
    })
    .await
}

/// What an object that is made for another says of it.
fn owned(api_version: &str, owner: &RawObject) -> Value {
    json!([{"apiVersion": api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true}])
}

/// Writes the status of an object, as its controller does.
async fn tell(case: &Case, api_version: &str, seen: &RawObject, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    let api = case.api(api_version, &seen.kind);
    api.patch(&seen.name, &PatchParams::default(), &patch).await.expect("the status is accepted");
}

/// Makes the pods of all tasks of a Volcano Job.
async fn make_pods(case: &Case, job: &RawObject) {
    let tasks = job.object["spec"]["tasks"].as_array().expect("it has tasks");
    for task in tasks {
        for index in 0..task["replicas"].as_i64().expect("a number") {
            let mut pod = task["template"].clone();
            let task = task["name"].as_str().expect("a name");
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["metadata"]["name"] = format!("{}-{task}-{index}", job.name).into();
            pod["metadata"]["ownerReferences"] = owned(VOLCANO, job);
            case.create(pod).await;
        }
    }
}

#[test]
fn a_volcano_job_is_retried_and_succeeds_as_it_says() {
    installed_test("a_volcano_job_is_retried_and_succeeds_as_it_says", async |case| {
        serve(&case, VOLCANO, "Job", "Namespaced").await;
        case.record(VOLCANO, "Job").await;
        let mut aw = sample("volcano-job.yaml");
        let key = "workload.codeflare.dev.appwrapper/retryPausePeriodDuration";
        aw["metadata"]["annotations"] = json!({key: "0s"});
        case.create(aw).await;
        let name = "sample-volcano-job";

        let first = created(&case, "Job", name, &[]).await;
        make_pods(&case, &first).await;
        tell(&case, VOLCANO, &first, json!({"state": {"phase": "Running"}})).await;
        let ready = case.condition(name, "PodsReady", "True").await;
        let sets = &ready.object["spec"]["components"][0]["podSets"];
        assert_eq!([&sets[0]["replicas"], &sets[1]["replicas"]], [1, 2]);
        let failed =
            json!({"state": {"phase": "Failed", "reason": "MaxRetry", "message": "3 of 3"}});
        tell(&case, VOLCANO, &first, failed).await;

        let second = created(&case, "Job", name, &[first.uid()]).await;
        make_pods(&case, &second).await;
        tell(&case, VOLCANO, &second, json!({"state": {"phase": "Running"}})).await;
        case.phases(name, &["", "Resuming", "Running", "Resetting", "Resuming", "Running"]).await;
        tell(&case, VOLCANO, &second, json!({"state": {"phase": "Completed"}})).await;
        for pod in ["master-0", "worker-0", "worker-1"] {
            case.delete("v1", "Pod", &format!("{name}-{pod}")).await;
        }
        let done = case.phase(name, "Succeeded").await;
        let attempts = done.object["status"]["attempts"].as_array().expect("attempts");
        assert!(attempts[0].to_string().contains("MaxRetry"), "{}", attempts[0]);
    });
}

#[test]
fn a_train_job_runs_with_the_pods_of_its_runtime() {
    installed_test("a_train_job_runs_with_the_pods_of_its_runtime", async |case| {
        serve(&case, TRAINER, "TrainJob", "Namespaced").await;
        serve(&case, TRAINER, "ClusterTrainingRuntime", "Cluster").await;
        case.record(TRAINER, "TrainJob").await;
        let aw = sample("trainjob.yaml");
        let denied = case.try_create(aw.clone()).await.expect_err("there is no such runtime");
        let why = "the pods are described in ClusterTrainingRuntime torch-distributed";
        assert!(denied.to_string().contains(why), "{denied}");

        let node = json!({"restartPolicy": "Never", "containers": [{"name": "node", "image": "busybox",
            "resources": {"requests": {"cpu": "100m"}}}]});
        let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
        let job = json!({"name": "node", "template": {"metadata": {"labels": labels},
            "spec": {"template": {"spec": node}}}});
        let runtime = json!({"apiVersion": TRAINER, "kind": "ClusterTrainingRuntime",
            "metadata": {"name": "torch-distributed"},
            "spec": {"mlPolicy": {"numNodes": 1, "torch": {}},
                "template": {"spec": {"replicatedJobs": [job]}}}});
        let runtimes = case.cluster_api(TRAINER, "ClusterTrainingRuntime");
        let object = serde_json::from_value(runtime).expect("an object");
        runtimes.create(&PostParams::default(), &object).await.expect("it is accepted");
        case.create(aw).await;

        let train_job = created(&case, "TrainJob", "sample-trainjob", &[]).await;
        let patch = &train_job.object["spec"]["runtimePatches"][0]["trainingRuntimeSpec"];
        let pods = &patch["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
        assert!(pods["spec"].get("containers").is_none(), "a patch may not have them: {pods}");
        let per_node = &train_job.object["spec"]["trainer"]["resourcesPerNode"]["requests"];
        assert_eq!(per_node, &json!({"cpu": "500m", "memory": "1Gi"}));

        let mut pod = json!({"metadata": pods["metadata"], "spec": node});
        pod["metadata"]["annotations"] = json!({"sim/run-for": "0s"});
        let job = json!({"parallelism": 2, "completions": 2, "template": pod});
        case.create(json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "sample-trainjob", "ownerReferences": owned(TRAINER, &train_job)},
            "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": job}}]}}))
            .await;
        case.condition("sample-trainjob", "PodsReady", "True").await;
        let complete = json!({"type": "Complete", "status": "True", "reason": "JobsCompleted",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        tell(&case, TRAINER, &train_job, json!({"conditions": [complete]})).await;
        let done = case.phase("sample-trainjob", "Succeeded").await;
        assert_eq!(done.object["spec"]["components"][0]["podSets"][0]["replicas"], 2);
        case.delete_wrapper("sample-trainjob").await;
        case.gone("AppWrapper", "sample-trainjob").await;
    });
}
