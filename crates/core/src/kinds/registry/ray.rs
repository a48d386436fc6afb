//! `ray.io/v1`. KubeRay may add containers to every pod.

use serde_json::Value;

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
        rules: &Cluster { spec: &["spec"], is_job: false },
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
        rules: &Cluster { spec: &["spec", "rayClusterSpec"], is_job: true },
    },
    Kind {
        api_version: "ray.io/v1",
        kind: "RayService",
        plural: "rayservices",
        makes: &[RAY_CLUSTER],
        end: End::Never,
        adds_containers: true,
        recreates: false,
        reads: &[],
        rules: &Cluster { spec: &["spec", "rayClusterConfig"], is_job: false },
    },
];

/// 1 head; for each worker group `replicas` (0), at least `minReplicas` and at most `maxReplicas`, ×
/// `numOfHosts` (1). The pod that submits a RayJob is not counted.
#[derive(Debug)]
struct Cluster {
    /// Where the specification of the cluster is.
    spec: &'static [&'static str],
    /// It has the status of a RayJob.
    is_job: bool,
}

impl Rules for Cluster {
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        pod_sets_of(&template.walk(self.spec)?)
    }

    fn report(&self, object: Object<'_>, _: &[PodSet], report: &mut Report) {
        if self.is_job {
            report.outcome = ray_job(object);
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
