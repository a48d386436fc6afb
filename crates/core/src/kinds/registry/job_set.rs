//! `jobset.x-k8s.io`.

use serde_json::Value;

use super::super::infer::{pod_set, pods_per_job};
use super::super::node::Node;
use super::super::status::Object;
use super::core::{JOB_INDEX, spared_limit};
use super::{End, Error, JOB, Kind, Rules, index_of};
use crate::api::{PodSet, keys};
use crate::snapshot::{BackoffLimit, Expected, Report};

/// Label by which a JobSet numbers its Jobs.
const JOBSET_JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";

pub(super) const KINDS: &[Kind] = &[Kind {
    api_version: "jobset.x-k8s.io/v1alpha2",
    kind: "JobSet",
    plural: "jobsets",
    makes: &[JOB],
    end: End::Reported,
    adds_containers: false,
    recreates: false,
    reads: &[],
    rules: &JobSet,
}];

/// For each replicated Job, its `replicas` (1) × the pods of one Job.
#[derive(Debug)]
struct JobSet;

impl Rules for JobSet {
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        let mut pod_sets = Vec::new();
        for job in template.walk(&["spec", "replicatedJobs"])?.items()? {
            let replicas = job.field("replicas")?.count()?.unwrap_or(1);
            let spec = job.walk(&["template", "spec"])?;
            let count = replicas.saturating_mul(pods_per_job(&spec)?);
            let path = spec.field("template")?;
            let annotations = [
                (keys::TAS_POD_INDEX, JOB_INDEX.to_owned()),
                (keys::TAS_SUB_GROUP_INDEX, JOBSET_JOB_INDEX.to_owned()),
                (keys::TAS_SUB_GROUP_COUNT, replicas.to_string()),
            ];
            pod_sets.push(pod_set(path.path(), count, &job.field("replicas")?, annotations)?);
        }
        Ok(pod_sets)
    }

    fn report(&self, object: Object<'_>, pod_sets: &[PodSet], report: &mut Report) {
        report.outcome = object.verdict("Completed", &["Failed"]);
        let jobs = object.array("/spec/replicatedJobs");
        for (number, job) in jobs.iter().map(Object).enumerate() {
            let path = format!("template.spec.replicatedJobs[{number}].template.spec.template");
            let Some(index) = index_of(pod_sets, &path) else { continue };
            let template = job.0.get("template").map(Object);
            if let Some(limit) = template.and_then(spared_limit) {
                report.backoff.insert(index, BackoffLimit { limit, counted: None });
            }
            let (parallelism, completions) = job.job_shape("/template/spec");
            let done = object.job_status(job.text("/name"), "succeeded");
            let succeeded = done.saturating_mul(completions.unwrap_or(1));
            let replicas = job.count("/replicas").unwrap_or(1);
            let expected = if has_started(object, jobs, number) {
                Expected { jobs: replicas, parallelism, completions, succeeded }
            } else {
                Expected::default()
            };
            report.expected.insert(index, expected);
        }
    }
}

/// Whether a JobSet has come to create its replicated Job of this number: `startupPolicy` and
/// `dependsOn` let one wait for others, for hours.
fn has_started(object: Object<'_>, jobs: &[Value], number: usize) -> bool {
    let Some(job) = jobs.get(number).map(Object) else { return false };
    let status = |name: &str, fields: &[&str]| -> i64 {
        fields.iter().map(|field| object.job_status(name, field)).fold(0, i64::saturating_add)
    };
    if status(job.text("/name"), &["ready", "active", "succeeded", "failed"]) > 0 {
        return true;
    }
    let replicas = |name: &str| {
        let named = jobs.iter().map(Object).find(|other| other.text("/name") == name);
        named.map_or(0, |other| other.count("/replicas").unwrap_or(1))
    };
    let is_up = |name: &str| status(name, &["ready", "succeeded", "failed"]) >= replicas(name);
    let in_order = object.text("/spec/startupPolicy/startupPolicyOrder") == "InOrder";
    let mut earlier = jobs.iter().take(number).map(Object);
    let mut dependencies = job.array("/dependsOn").iter().map(Object);
    (!in_order || earlier.all(|other| is_up(other.text("/name"))))
        && dependencies.all(|dependency| {
            let name = dependency.text("/name");
            match dependency.text("/status") {
                "Complete" => status(name, &["succeeded"]) >= replicas(name),
                _ => is_up(name),
            }
        })
}

#[cfg(test)]
pub(super) fn given() -> Vec<super::super::testing::Sample> {
    use serde_json::json;

    use super::super::testing::{given_object, given_pod};

    let pod = given_pod();
    let job = json!({"parallelism": 2, "completions": 8, "template": pod});
    let job_set = json!({"replicatedJobs": [
        {"name": "a", "template": {"spec": {"template": pod}}},
        {"name": "b", "replicas": 3, "template": {"spec": job}},
    ]});
    vec![(
        given_object("jobset.x-k8s.io/v1alpha2", "JobSet", &job_set),
        vec![
            ("template.spec.replicatedJobs[0].template.spec.template", 1),
            ("template.spec.replicatedJobs[1].template.spec.template", 6),
        ],
    )]
}
