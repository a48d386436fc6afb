//! What pods request after they were admitted: a user with the role `edit` does not enlarge them.

use kube::Error;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{JOB_SET, POD, Tenant, deployment, grant, refusal};
use crate::harness::{pod, wrapper};
use crate::installed::installed_test;
use crate::objects::{job_set, ray_cluster};

const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");
const RAY_CLUSTER: (&str, &str) = ("ray.io/v1", "RayCluster");

impl Tenant<'_> {
    /// Changes what pods of a Deployment are made of, as `kubectl set` does.
    async fn set(&self, name: &str, spec: Value) -> Result<DynamicObject, Error> {
        let change = Patch::Strategic(json!({"spec": {"template": {"spec": spec}}}));
        self.api(DEPLOYMENT.0, DEPLOYMENT.1).patch(name, &PatchParams::default(), &change).await
    }

    async fn resize(&self, pod: &str) -> Result<DynamicObject, Error> {
        let more = json!({"name": "main", "resources": {"requests": {"cpu": "1"}}});
        let change = Patch::Strategic(json!({"spec": {"containers": [more]}}));
        let params = PatchParams::default();
        self.api(POD.0, POD.1).patch_subresource("resize", pod, &params, &change).await
    }
}

fn refused(answer: Result<DynamicObject, Error>, change: &Value) {
    let said = refusal(answer);
    assert!(said.contains("resources of the pods of an AppWrapper"), "{change}: {said}");
}

#[test]
fn what_pods_request_is_not_enlarged_after_it_was_admitted() {
    installed_test("what_pods_request_is_not_enlarged", async |case| {
        let tenant = Tenant::new(&case).await;
        let object = wrapper("a", json!({}), vec![deployment("d", json!({}))]);
        tenant.create(object).await.expect("it is let in");
        case.pod("d-", "Running").await;
        let gpus = json!({"requests": {"nvidia.com/gpu": 8}, "limits": {"nvidia.com/gpu": 8}});
        for change in [
            json!({"containers": [{"name": "main", "resources": gpus}]}),
            json!({"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]}),
            json!({"containers": [{"name": "more", "image": "busybox", "resources": gpus}]}),
            json!({"initContainers": [{"name": "init", "image": "busybox", "resources": gpus}]}),
            json!({"resources": {"requests": {"cpu": "1"}}}),
            json!({"overhead": {"cpu": "1"}}),
            json!({"runtimeClassName": "heavy"}),
            json!({"nodeName": "full"}),
            json!({"resourceClaims": [{"name": "gpus", "resourceClaimName": "all"}]}),
        ] {
            refused(tenant.set("d", change.clone()).await, &change);
        }
        // nor in what the Deployment made
        let sets = tenant.api("apps/v1", "ReplicaSet");
        let all = sets.list(&ListParams::default()).await.expect("it may list them");
        let set = all.items[0].metadata.name.clone().expect("a name");
        let more = json!({"name": "main", "resources": gpus});
        let change = json!({"spec": {"template": {"spec": {"containers": [more]}}}});
        let answer = sets.patch(&set, &PatchParams::default(), &Patch::Strategic(&change)).await;
        refused(answer, &change);
        tenant.create(deployment("plain", json!({}))).await.expect("a Deployment of its own");
        let change = json!({"containers": [{"name": "main", "resources": gpus}]});
        tenant.set("plain", change).await.expect("no AppWrapper admitted it");
    });
}

#[test]
fn what_was_not_admitted_may_still_change() {
    installed_test("what_was_not_admitted_may_still_change", async |case| {
        let tenant = Tenant::new(&case).await;
        let object = wrapper("a", json!({}), vec![deployment("d", json!({}))]);
        tenant.create(object).await.expect("it is let in");
        case.pod("d-", "Running").await;
        let same = json!({"requests": {"cpu": 0.01}});
        let same = json!({"containers": [{"name": "main", "resources": same}]});
        tenant.set("d", same).await.expect("the same amount in other words");
        let image = json!({"containers": [{"name": "main", "image": "busybox:2"}]});
        tenant.set("d", image).await.expect("another image");
        case.until("a pod of the other image", |log| {
            let mut pods = log.all("Pod").filter(|pod| pod.phase() == "Running");
            pods.find(|pod| pod.object["spec"]["containers"][0]["image"] == "busybox:2").cloned()
        })
        .await;
        // as an autoscaler does
        let two = Patch::Merge(json!({"spec": {"replicas": 2}}));
        let api = tenant.api(DEPLOYMENT.0, DEPLOYMENT.1);
        api.patch_scale("d", &PatchParams::default(), &two).await.expect("it may scale it");
    });
}

#[test]
fn a_pod_is_not_resized_after_it_was_admitted() {
    installed_test("a_pod_is_not_resized_after_it_was_admitted", async |case| {
        let tenant = Tenant::new(&case).await;
        let rules = json!([{"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["*"]}]);
        grant(&case, "resizer", &tenant.name, rules).await;
        let resizes = json!({"namespace": case.namespace, "resource": "pods",
            "subresource": "resize", "verb": "patch"});
        case.until_allowed(&tenant.name, resizes).await;
        // one that runs must be on a node that can resize it
        let waits = |name: &str| {
            let mut pod = pod(name, &[]);
            pod["spec"]["nodeSelector"] = json!({"example.org/node": "none"});
            pod
        };
        tenant.create(wrapper("a", json!({}), vec![waits("p")])).await.expect("it is let in");
        case.phase("a", "Running").await;
        refused(tenant.resize("p").await, &json!("resize"));
        tenant.create(waits("plain")).await.expect("a pod of its own");
        tenant.resize("plain").await.expect("no AppWrapper admitted it");
    });
}

#[test]
fn what_an_operator_runs_is_not_enlarged_after_it_was_admitted() {
    installed_test("what_an_operator_runs_is_not_enlarged", async |case| {
        let tenant = Tenant::new(&case).await;
        let rules = json!([
            {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["*"]},
            {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["*"]},
        ]);
        grant(&case, "operators", &tenant.name, rules).await;
        for (group, resource) in [("ray.io", "rayclusters"), ("jobset.x-k8s.io", "jobsets")] {
            let patches = json!({"namespace": case.namespace, "group": group,
                "resource": resource, "verb": "patch"});
            case.until_allowed(&tenant.name, patches).await;
        }
        let wrapped = vec![ray_cluster("r"), job_set("s", json!({}), &[("one", &[])])];
        tenant.create(wrapper("a", json!({}), wrapped)).await.expect("it is let in");
        case.phase("a", "Running").await;
        let template = json!({"metadata": {}, "spec": {"containers": []}});
        let group = json!({"groupName": "more", "replicas": 9, "minReplicas": 9, "maxReplicas": 9,
            "rayStartParams": {}, "template": template});
        let label = |key: &str| json!({"metadata": {"labels": {key: null}}});
        for (kind, name, change) in [
            (RAY_CLUSTER, "r", json!({"spec": {"workerGroupSpecs": [group]}})),
            (RAY_CLUSTER, "r", label("workload.codeflare.dev/appwrapper")),
            (JOB_SET, "s", json!({"spec": {"suspend": true}})),
            (JOB_SET, "s", label("workload.codeflare.dev/appwrapper-uid")),
        ] {
            let said = refusal(tenant.patch(kind, name, change.clone()).await);
            assert!(said.contains("a resource that an AppWrapper wraps"), "{change}: {said}");
        }
        let note = json!({"metadata": {"labels": {"example.com/note": "mine"}}});
        for (kind, name) in [(RAY_CLUSTER, "r"), (JOB_SET, "s")] {
            tenant.patch(kind, name, note.clone()).await.expect("its own label");
        }
        tenant
            .create(job_set("plain", json!({"suspend": true}), &[("one", &[])]))
            .await
            .expect("its own");
        let resume = json!({"spec": {"suspend": false}});
        tenant.patch(JOB_SET, "plain", resume).await.expect("no AppWrapper admitted it");
    });
}
