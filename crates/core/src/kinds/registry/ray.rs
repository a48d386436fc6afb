//! `ray.io/v1`. KubeRay may add containers to every pod.

use serde_json::{Map, Value};

use super::super::infer::{COUNT_MAX, pod_set};
use super::super::node::Node;
use super::super::status::Object;
use super::{End, Error, JOB, Kind, RAY_CLUSTER, Rules};
use crate::api::PodSet;
use crate::snapshot::{Outcome, Report};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        api_version: "ray.io/v1",
        kind: "RayCluster",
        plural: "rayclusters",
        makes: &[],
        end: End::Never,
        adds_containers: true,
        recreates: false,
        reads: &[],
        rules: &Cluster { spec: &["spec"], status: Status::Cluster },
    },
    Kind {
        api_version: "ray.io/v1",
        kind: "RayJob",
        plural: "rayjobs",
        makes: &[RAY_CLUSTER, JOB],
        end: End::Reported,
        adds_containers: true,
        recreates: false,
        reads: &[],
        rules: &Cluster { spec: &["spec", "rayClusterSpec"], status: Status::Job },
    },
    Kind {
        api_version: "ray.io/v1",
        kind: "RayService",
        plural: "rayservices",
        makes: &[RAY_CLUSTER],
        end: End::Never,
        adds_containers: true,
        // before 1.6.2, KubeRay creates a RayCluster again while a RayService is Terminating
        recreates: true,
        reads: &[],
        rules: &Cluster { spec: &["spec", "rayClusterConfig"], status: Status::Service },
    },
];

/// 1 head; for each worker group `replicas` (0), at least `minReplicas` and at most `maxReplicas`, ×
/// `numOfHosts` (1). The pod that submits a RayJob is not counted.
#[derive(Debug)]
struct Cluster {
    /// Where the specification of the cluster is.
    spec: &'static [&'static str],
    /// What its status says.
    status: Status,
}

/// What the status of an object says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// Nothing of an end.
    Cluster,
    /// How a job ended.
    Job,
    /// Whether a service is ready.
    Service,
}

impl Rules for Cluster {
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        pod_sets_of(&template.walk(self.spec)?)
    }

    fn report(&self, object: Object<'_>, _: &[PodSet], report: &mut Report) {
        match self.status {
            Status::Cluster => {}
            Status::Job => {
                report.outcome = ray_job(object);
                report.deletes_pods = tries_again(object);
            }
            Status::Service => {
                report.outcome = ray_service(object);
                report.serves = object.condition("Ready").is_some();
            }
        }
    }

    fn finish(&self, object: &mut Value) {
        if self.status == Status::Job
            && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        {
            shut_down(spec);
            place_submitter(spec);
        }
    }
}

/// Has the cluster deleted when the job has finished, unless the template says what is to become of it: the pods would
/// go on, and so would the AppWrapper. KubeRay takes `ttlSecondsAfterFinished` only with this field.
fn shut_down(spec: &mut Map<String, Value>) {
    let is_given = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    let lives_on = spec.get("ttlSecondsAfterFinished").and_then(Value::as_u64).unwrap_or(0) > 0;
    let deletes = |end: &str| {
        let policy = spec.get("deletionStrategy").and_then(|it| it[end]["policy"].as_str());
        policy.is_some_and(|policy| policy != "DeleteNone")
    };
    let needs_it = lives_on && deletes("onSuccess") && deletes("onFailure");
    if !is_given("shutdownAfterJobFinishes") && (!is_given("deletionStrategy") || needs_it) {
        spec.insert("shutdownAfterJobFinishes".to_owned(), true.into());
    }
}

/// The pod that submits the job goes where the head may go, where it has a template that says nothing of it: Kueue
/// places pod sets, and it is none.
fn place_submitter(spec: &mut Map<String, Value>) {
    let head =
        spec.get("rayClusterSpec").map(|cluster| &cluster["headGroupSpec"]["template"]["spec"]);
    let Some(head) = head.and_then(Value::as_object).cloned() else { return };
    let submitter = spec.get_mut("submitterPodTemplate").and_then(|pod| pod.get_mut("spec"));
    let Some(submitter) = submitter.and_then(Value::as_object_mut) else { return };
    for field in ["nodeSelector", "tolerations"] {
        if let (None, Some(of_head)) = (submitter.get(field), head.get(field)) {
            submitter.insert(field.to_owned(), of_head.clone());
        }
    }
}

/// Pod sets of a Ray cluster whose specification is `spec`.
fn pod_sets_of(spec: &Node<'_>) -> Result<Vec<PodSet>, Error> {
    let head = spec.walk(&["headGroupSpec", "template"])?;
    let mut pod_sets = vec![pod_set(head.path(), 1, &head, [])?];
    for group in spec.field("workerGroupSpecs")?.items()? {
        let replicas = group.field("replicas")?;
        let least = group.field("minReplicas")?.count()?.unwrap_or(0);
        let most = group.field("maxReplicas")?.count()?.unwrap_or(COUNT_MAX);
        // as KubeRay: the lower bound is asked first, and 0 hosts mean 1
        let wanted = match replicas.count()?.unwrap_or(0) {
            few if few < least => least,
            many => many.min(most),
        };
        let hosts = group.field("numOfHosts")?.count()?.unwrap_or(1).max(1);
        let count = if group.field("suspend")?.value() == &Value::Bool(true) {
            0
        } else {
            wanted.saturating_mul(hosts)
        };
        pod_sets.push(pod_set(group.field("template")?.path(), count, &replicas, [])?);
    }
    Ok(pod_sets)
}

/// KubeRay has no conditions here. `Retrying` and the suspended states go on; the rest is final.
fn ray_job(object: Object<'_>) -> Outcome {
    let job = object.text("/status/jobStatus");
    match object.text("/status/jobDeploymentStatus") {
        "Complete" if job == "SUCCEEDED" => Outcome::Succeeded,
        // also STOPPED: somebody stopped it, and it has not done its work
        end @ ("Complete" | "Failed" | "ValidationFailed") => {
            let reasons = [object.text("/status/reason"), job, end];
            let reason = reasons.into_iter().find(|reason| !reason.is_empty());
            Outcome::Failed {
                reason: reason.unwrap_or_default().to_owned(),
                message: object.text("/status/message").to_owned(),
                at: object.text("/status/endTime").parse().ok(),
            }
        }
        _ => Outcome::Active,
    }
}

/// KubeRay leaves a RayService alone whose specification it refuses, or that was not ready in time. A cluster that has served
/// before goes on.
fn ray_service(object: Object<'_>) -> Outcome {
    let mut conditions = object.array("/status/conditions").iter().map(Object);
    let ready = conditions.find(|it| it.text("/type") == "Ready" && it.text("/status") == "False");
    let Some(ready) = ready else { return Outcome::Active };
    let has_served = !object.text("/status/activeServiceStatus/rayClusterName").is_empty();
    match ready.text("/reason") {
        "ValidationFailed" if has_served => Outcome::Active,
        reason @ ("InitializingTimeout" | "ValidationFailed") => Outcome::Failed {
            reason: reason.to_owned(),
            message: ready.text("/message").to_owned(),
            // the condition became False before
            at: object.text("/status/lastUpdateTime").parse().ok(),
        },
        _ => Outcome::Active,
    }
}

/// Whether a RayJob whose job failed tries again: KubeRay deletes the cluster and makes another one. Pods of the old one may
/// still end while the new one starts.
fn tries_again(object: Object<'_>) -> bool {
    let phase = object.text("/status/jobDeploymentStatus");
    object.count("/status/failed").unwrap_or(0) > 0
        && matches!(phase, "Retrying" | "" | "Initializing")
}

#[cfg(test)]
pub(super) fn given() -> Vec<super::super::testing::Sample> {
    use serde_json::json;

    use super::super::testing::{given_object, given_pod};

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cluster_of_a_job_ends_with_it_and_its_submitter_goes_where_the_head_goes() {
        let finished = |more: Value| {
            let place = json!({"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "pool"}]});
            let mut spec =
                json!({"rayClusterSpec": {"headGroupSpec": {"template": {"spec": place}}}});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let mut object = json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": spec});
            Kind::of_object(&object).rules().finish(&mut object);
            object["spec"].take()
        };
        let by = |policy: &str| json!({"onSuccess": {"policy": policy}, "onFailure": {"policy": "DeleteCluster"}});
        let lives_on =
            |policy: &str| json!({"deletionStrategy": by(policy), "ttlSecondsAfterFinished": 60});
        for (given, shuts_down) in [
            (json!({}), json!(true)),
            (json!({"shutdownAfterJobFinishes": null}), json!(true)),
            (json!({"shutdownAfterJobFinishes": false}), json!(false)),
            (json!({"deletionStrategy": {"deletionRules": []}}), json!(null)),
            (json!({"deletionStrategy": by("DeleteSelf")}), json!(null)),
            (lives_on("DeleteSelf"), json!(true)),
            // KubeRay takes it neither with nor without the field
            (lives_on("DeleteNone"), json!(null)),
        ] {
            assert_eq!(finished(given.clone())["shutdownAfterJobFinishes"], shuts_down, "{given}");
        }
        assert_eq!(finished(json!({})).get("submitterPodTemplate"), None);
        let own = json!({"tolerations": [], "containers": []});
        let submitter = finished(json!({"submitterPodTemplate": {"spec": own}}));
        let want = json!({"tolerations": [], "containers": [], "nodeSelector": {"pool": "a"}});
        assert_eq!(submitter["submitterPodTemplate"]["spec"], want);
    }
}
