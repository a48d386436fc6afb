//! Kubernetes' own kinds.

use super::super::infer::{pod_set, pods_per_job};
use super::super::node::Node;
use super::super::status::{Object, indexes};
use super::{End, Error, Kind, REPLICA_SET, Rules, pod_set_indexes};
use crate::api::{PodSet, keys};
use crate::snapshot::{BackoffLimit, Expected, Outcome, Report};

/// Label and annotation by which a Job numbers its pods.
pub(super) const JOB_INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) const KINDS: &[Kind] = &[
    Kind {
        api_version: "v1",
        kind: "Pod",
        plural: "pods",
        makes: &[],
        end: End::Reported,
        adds_containers: false,
        recreates: false,
        reads: &[],
        rules: &Pod,
    },
    Kind {
        api_version: "batch/v1",
        kind: "Job",
        plural: "jobs",
        makes: &[],
        end: End::Reported,
        adds_containers: false,
        recreates: false,
        reads: &[],
        rules: &Job,
    },
    Kind {
        api_version: "apps/v1",
        kind: "Deployment",
        plural: "deployments",
        makes: &[REPLICA_SET],
        end: End::Never,
        adds_containers: false,
        recreates: false,
        reads: &[],
        rules: &Replicas,
    },
    Kind {
        api_version: "apps/v1",
        kind: "StatefulSet",
        plural: "statefulsets",
        makes: &[],
        end: End::Never,
        adds_containers: false,
        recreates: false,
        reads: &[],
        rules: &Replicas,
    },
];

/// One pod. It fails as a pod, not as a component.
#[derive(Debug)]
struct Pod;

impl Rules for Pod {
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        Ok(vec![pod_set(template.path(), 1, template, [])?])
    }

    fn report(&self, object: Object<'_>, pod_sets: &[PodSet], report: &mut Report) {
        if object.text("/status/phase") == "Succeeded" {
            report.outcome = Outcome::Succeeded;
        }
        report.unreplaced = (0..pod_sets.len()).collect();
    }
}

/// The smaller of `parallelism` (1) and `completions`.
#[derive(Debug)]
struct Job;

impl Rules for Job {
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        let spec = template.field("spec")?;
        let count = pods_per_job(&spec)?;
        let labels = [(keys::TAS_POD_INDEX, JOB_INDEX.to_owned())];
        Ok(vec![pod_set("template.spec.template", count, &spec, labels)?])
    }

    fn report(&self, object: Object<'_>, pod_sets: &[PodSet], report: &mut Report) {
        // FailureTarget comes first: it says why, while the pods still end
        report.outcome = object.verdict("Complete", &["FailureTarget", "Failed"]);
        let Some(&index) = pod_set_indexes(pod_sets).get("template.spec.template") else { return };
        if let Some(backoff) = backoff_limit(object) {
            report.backoff.insert(index, backoff);
        }
        let (parallelism, completions) = object.job_shape("/spec");
        let succeeded = object.count("/status/succeeded").unwrap_or(0);
        let expected = match completions {
            // it ends: what still runs is being deleted
            _ if object.condition("SuccessCriteriaMet").is_some() => Expected::default(),
            Some(completions) => {
                // an index beyond its backoff limit is never completed
                let given_up = indexes(object.text("/status/failedIndexes"));
                let completions = Some(completions.saturating_sub(given_up).max(0));
                Expected { jobs: 1, parallelism, completions, succeeded }
            }
            None => Expected { jobs: 1, parallelism, completions, succeeded: succeeded.min(1) },
        };
        report.expected.insert(index, expected);
    }
}

/// `backoffLimit` (6) of a Job and the failures that it has counted; nothing where it counts by index, or ignores
/// some failures.
fn backoff_limit(object: Object<'_>) -> Option<BackoffLimit> {
    let limit = spared_limit(object)?;
    let marked = object.array("/status/uncountedTerminatedPods/failed").len();
    let marked = i64::try_from(marked).unwrap_or(i64::MAX);
    let failed = object.count("/status/failed").unwrap_or(0);
    Some(BackoffLimit { limit, counted: Some(failed.saturating_add(marked)) })
}

/// `backoffLimit` (6) at `spec` of a Job or of a template of one; nothing where failures do not count alike.
pub(super) fn spared_limit(job: Object<'_>) -> Option<i64> {
    let rules = job.array("/spec/podFailurePolicy/rules").iter().map(Object);
    let mut ignoring = rules.filter(|rule| rule.text("/action") == "Ignore");
    let by_index =
        job.0.pointer("/spec/backoffLimitPerIndex").is_some_and(|limit| !limit.is_null());
    (!by_index && ignoring.next().is_none()).then(|| job.count("/spec/backoffLimit").unwrap_or(6))
}

/// `replicas` (1) of a Deployment or a StatefulSet.
#[derive(Debug)]
struct Replicas;

impl Rules for Replicas {
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        let replicas = template.walk(&["spec", "replicas"])?;
        let count = replicas.count()?.unwrap_or(1);
        Ok(vec![pod_set("template.spec.template", count, &replicas, [])?])
    }

    fn report(&self, _: Object<'_>, _: &[PodSet], _: &mut Report) {}
}

#[cfg(test)]
pub(super) fn given() -> Vec<super::super::testing::Sample> {
    use serde_json::json;

    use super::super::testing::{given_object, given_pod};

    let pod = given_pod();
    let job = json!({"parallelism": 4, "completions": 2, "template": pod});
    let template = "template.spec.template";
    vec![
        (given_object("v1", "Pod", &pod["spec"]), vec![("template", 1)]),
        (given_object("batch/v1", "Job", &job), vec![(template, 2)]),
        (
            given_object("apps/v1", "Deployment", &json!({"replicas": 3, "template": pod})),
            vec![(template, 3)],
        ),
        (given_object("apps/v1", "StatefulSet", &json!({"template": pod})), vec![(template, 1)]),
    ]
}
