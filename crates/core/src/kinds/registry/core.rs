//! Kubernetes' own kinds.

use super::super::infer::{pod_set, pods_per_job};
use super::super::node::Node;
use super::super::status::{Object, indexes};
use super::{End, Error, Kind, REPLICA_SET, Rules, expect_all, pod_set_indexes};
use crate::api::{PodSet, keys};
use crate::snapshot::{BackoffLimit, Expected, Outcome, Report};

/// Label and annotation by which a Job numbers its pods.
pub(super) const JOB_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Label by which a StatefulSet numbers its pods.
const STATEFUL_SET_INDEX: &str = "apps.kubernetes.io/pod-index";

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
        report.backoff.insert(index, backoff_limit(object));
        let (parallelism, completions) = object.job_shape("/spec");
        let succeeded = object.count("/status/succeeded").unwrap_or(0);
        report.deletes_pods = object.condition("SuccessCriteriaMet").is_some();
        let expected = match completions {
            // it ends: what still runs is being deleted
            _ if report.deletes_pods => Expected::default(),
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

/// `backoffLimit` of a Job and the failures that it has counted.
fn backoff_limit(object: Object<'_>) -> BackoffLimit {
    let marked = object.array("/status/uncountedTerminatedPods/failed").len();
    let marked = i64::try_from(marked).unwrap_or(i64::MAX);
    let failed = object.count("/status/failed").unwrap_or(0);
    BackoffLimit { counted: Some(failed.saturating_add(marked)), marked, ..spared(object) }
}

/// What `spec` of a Job or of a template of one says of failures that it bears: `backoffLimit` is 6 by default.
pub(super) fn spared(job: Object<'_>) -> BackoffLimit {
    let rules = job.array("/spec/podFailurePolicy/rules").iter().map(Object);
    let has = |actions: &[&str]| rules.clone().any(|rule| actions.contains(&rule.text("/action")));
    let by_index =
        job.0.pointer("/spec/backoffLimitPerIndex").is_some_and(|limit| !limit.is_null());
    let counts_alike = !by_index && !has(&["Ignore"]);
    BackoffLimit {
        limit: counts_alike.then(|| job.count("/spec/backoffLimit").unwrap_or(6)),
        fails_by_rule: has(&["FailJob", "FailIndex"]),
        counted: None,
        marked: 0,
    }
}

/// `replicas` (1) of a Deployment or a StatefulSet.
#[derive(Debug)]
struct Replicas;

impl Rules for Replicas {
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        let replicas = template.walk(&["spec", "replicas"])?;
        let count = replicas.count()?.unwrap_or(1);
        let mut set = pod_set("template.spec.template", count, &replicas, [])?;
        if template.field("kind")?.value() == "StatefulSet" {
            set.annotations.insert(keys::TAS_POD_INDEX.to_owned(), STATEFUL_SET_INDEX.to_owned());
        }
        Ok(vec![set])
    }

    fn report(&self, object: Object<'_>, pod_sets: &[PodSet], report: &mut Report) {
        let is_parallel = object.text("/spec/podManagementPolicy") == "Parallel";
        let replicas = object.count("/spec/replicas").unwrap_or(1);
        report.in_order = object.text("/kind") == "StatefulSet" && !is_parallel && replicas > 1;
        // it is scaled down, or replaces them by those of another template
        report.deletes_pods = true;
        expect_all(pod_sets, report);
    }
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
