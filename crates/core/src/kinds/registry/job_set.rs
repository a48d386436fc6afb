//! `jobset.x-k8s.io`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::infer::{pod_set, pods_per_job};
use super::super::node::Node;
use super::super::status::{JobCounts, Object, by_name};
use super::core::{JOB_INDEX, spared};
use super::{End, Error, JOB, Kind, Rules, pod_set_indexes};
use crate::api::{PodSet, keys};
use crate::snapshot::{Expected, Report};

const REPLICATED_JOBS: &str = "/spec/replicatedJobs";

/// Label by which a JobSet numbers its Jobs.
const JOBSET_JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";

/// Annotation of a JobSet or of the template of a replicated Job: each Job has a topology domain of its own.
const EXCLUSIVE: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
/// Annotation beside it: the nodes are labelled already, and no pod waits.
const BY_NODE_SELECTOR: &str = "alpha.jobset.sigs.k8s.io/node-selector";

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
        let jobs = ReplicatedJobs {
            specs: by_name(object, REPLICATED_JOBS),
            counts: JobCounts::of(object, "/status/replicatedJobsStatus"),
        };
        let indexes = pod_set_indexes(pod_sets);
        let restarts = restarts(object);
        let in_order = object.text("/spec/startupPolicy/startupPolicyOrder") == "InOrder";
        report.in_order = is_exclusive(object);
        // a Job of it deletes them when it fails, is too old or succeeds; the JobSet does not say when
        report.deletes_pods = true;
        let mut earlier_are_up = true;
        for (number, job) in object.array(REPLICATED_JOBS).iter().map(Object).enumerate() {
            let name = job.text("/name");
            let has_started = jobs.has_started(job, !in_order || earlier_are_up);
            earlier_are_up &= jobs.is_up(name);
            let path = format!("template.spec.replicatedJobs[{number}].template.spec.template");
            let Some(&index) = indexes.get(path.as_str()) else { continue };
            let template = job.0.get("template").map(Object);
            report.in_order |= template.is_some_and(is_exclusive);
            match (restarts, template) {
                (Restarts::None, Some(template)) => {
                    report.backoff.insert(index, spared(template));
                }
                (Restarts::None, None) => {}
                (Restarts::Left, _) if !may_fail(object, name) => {}
                (Restarts::Left | Restarts::Uncounted, _) => {
                    report.perhaps_unreplaced.insert(index);
                }
            }
            let (parallelism, completions) = job.job_shape("/template/spec");
            // all of them: a JobSet does not report the indexes that a Job of it has given up
            let done = jobs.counts.sum(name, &["succeeded"]);
            let succeeded = done.saturating_mul(completions.unwrap_or(1));
            let replicas = job.count("/replicas").unwrap_or(1);
            let expected = if has_started {
                Expected { jobs: replicas, parallelism, completions, succeeded }
            } else {
                report.unstarted.insert(index);
                Expected::default()
            };
            report.expected.insert(index, expected);
        }
    }
}

/// Whether a JobSet or the template of a Job of it has the other pods of a Job wait until the first of them has a node,
/// which tells the topology domain of the Job: JobSet's webhook refuses them until then.
fn is_exclusive(object: Object<'_>) -> bool {
    object.is_annotated(EXCLUSIVE) && !object.is_annotated(BY_NODE_SELECTOR)
}

/// Whether a JobSet may create its Jobs again after one of them has failed.
#[derive(Clone, Copy)]
enum Restarts {
    /// It has restarts left.
    Left,
    /// Only if a rule restarts it without counting.
    Uncounted,
    /// It has none left.
    None,
}

fn restarts(object: Object<'_>) -> Restarts {
    let most = object.count("/spec/failurePolicy/maxRestarts").unwrap_or(0);
    let mut rules = object.array("/spec/failurePolicy/rules").iter().map(Object);
    let has_uncounted = rules.any(|rule| rule.text("/action").ends_with("IgnoreMaxRestarts"));
    let counted = object.count("/status/restartsCountTowardsMax");
    // JobSet leaves 0 out; before 0.6 it knew no such rule, and counted every restart
    let all = || object.count("/status/restarts").filter(|_| !has_uncounted);
    let of_all = counted.or_else(all).unwrap_or(0);
    if of_all.saturating_add(restarts_of_jobs(object)) < most {
        Restarts::Left
    } else if has_uncounted {
        Restarts::Uncounted
    } else {
        Restarts::None
    }
}

/// How often Jobs were restarted alone, as far as that counts towards the restarts of their JobSet.
fn restarts_of_jobs(object: Object<'_>) -> i64 {
    let of_jobs = object.array("/status/replicatedJobsStatus").iter();
    let counts = of_jobs.filter_map(|one| one["jobRestartsCountTowardsMax"].as_array()).flatten();
    let counts = counts.filter_map(Value::as_i64).filter(|count| *count > 0);
    counts.fold(0, i64::saturating_add)
}

/// Whether a rule of the JobSet may fail it for a Job of this name, whatever restarts are left.
fn may_fail(object: Object<'_>, name: &str) -> bool {
    let mut rules = object.array("/spec/failurePolicy/rules").iter().map(Object);
    rules.any(|rule| {
        let targets = rule.array("/targetReplicatedJobs");
        let is_about = targets.is_empty() || targets.iter().any(|one| one.as_str() == Some(name));
        rule.text("/action") == "FailJobSet" && is_about
    })
}

/// The replicated Jobs of a JobSet.
struct ReplicatedJobs<'a> {
    specs: BTreeMap<&'a str, Object<'a>>,
    counts: JobCounts<'a>,
}

impl ReplicatedJobs<'_> {
    fn are(&self, name: &str, fields: &[&str]) -> bool {
        let replicas = self.specs.get(name).map_or(0, |job| job.count("/replicas").unwrap_or(1));
        self.counts.sum(name, fields) >= replicas
    }

    fn is_up(&self, name: &str) -> bool {
        self.are(name, &["ready", "succeeded", "failed"])
    }

    /// Whether the JobSet has come to create a replicated Job: `startupPolicy` and `dependsOn` let one wait for
    /// others, for hours.
    fn has_started(&self, job: Object<'_>, its_turn: bool) -> bool {
        let meets = |dependency: Object<'_>| {
            let name = dependency.text("/name");
            match dependency.text("/status") {
                "Complete" => self.are(name, &["succeeded"]),
                _ => self.is_up(name),
            }
        };
        self.counts.sum(job.text("/name"), &["ready", "active", "succeeded", "failed"]) > 0
            || (its_turn && job.array("/dependsOn").iter().map(Object).all(meets))
    }
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
