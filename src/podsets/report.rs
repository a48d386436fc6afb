//! What a component's object says of itself: its end, and the pods that it still runs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{Kind, KubeflowKind};
use crate::api::PodSet;
use crate::snapshot::{Expected, Outcome, Report};

/// Reads the status of a component's object. What is absent or malformed says nothing.
///
/// | kind | succeeded | failed |
/// |---|---|---|
/// | Pod | phase `Succeeded` | never: a failed pod is a failed pod |
/// | Job | condition `Complete` | `FailureTarget`, or `Failed` |
/// | JobSet | condition `Completed` | `Failed` |
/// | Kubeflow | condition `Succeeded` | `Failed` |
/// | RayJob | deployment `Complete`, job `SUCCEEDED` | deployment `Failed` or `ValidationFailed`; `Complete` and the job is anything else |
/// | all else | never | never |
///
/// `pod_sets` are the component's, as recorded; their paths tell which index a replicated Job or a
/// replica type has. [`Report::expected`] is filled for Jobs, JobSets and Kubeflow jobs, from the
/// live object: how many pods should be Pending or Running now, besides those that succeeded.
#[must_use]
pub fn report(api_version: &str, kind: &str, pod_sets: &[PodSet], object: &Value) -> Report {
    let object = Object(object);
    match Kind::of(api_version, kind) {
        Kind::Pod => pod(object, pod_sets),
        Kind::Job => job(object, pod_sets),
        Kind::JobSet => job_set(object, pod_sets),
        Kind::Kubeflow(kind) => kubeflow(object, kind, pod_sets),
        Kind::RayJob => Report { outcome: ray_job(object), ..Report::default() },
        Kind::Deployment
        | Kind::StatefulSet
        | Kind::LeaderWorkerSet
        | Kind::RayCluster
        | Kind::RayService
        | Kind::Other => Report::default(),
    }
}

fn pod(object: Object<'_>, pod_sets: &[PodSet]) -> Report {
    let succeeded = object.text("/status/phase") == "Succeeded";
    Report {
        outcome: if succeeded { Outcome::Succeeded } else { Outcome::Active },
        expected: BTreeMap::new(),
        unreplaced: (0..pod_sets.len()).collect(),
    }
}

fn job(object: Object<'_>, pod_sets: &[PodSet]) -> Report {
    // FailureTarget comes first: it says why, while the pods still end
    let outcome = object.verdict("Complete", &["FailureTarget", "Failed"]);
    let (parallelism, completions) = object.job_shape("/spec");
    let succeeded = object.count("/status/succeeded").unwrap_or(0);
    let expected = match completions {
        _ if object.condition("SuccessCriteriaMet").is_some() => Expected::default(),
        Some(completions) => {
            // an index beyond its backoff limit is never completed
            let given_up = indexes(object.text("/status/failedIndexes"));
            let completions = Some(completions.saturating_sub(given_up).max(0));
            Expected { jobs: 1, parallelism, completions, succeeded }
        }
        None => Expected { jobs: 1, parallelism, completions, succeeded: succeeded.min(1) },
    };
    let index = index_of(pod_sets, "template.spec.template");
    let expected = index.map(|index| (index, expected)).into_iter().collect();
    Report { outcome, expected, unreplaced: BTreeSet::new() }
}

fn job_set(object: Object<'_>, pod_sets: &[PodSet]) -> Report {
    let outcome = object.verdict("Completed", &["Failed"]);
    let jobs = object.array("/spec/replicatedJobs");
    let mut expected = BTreeMap::new();
    for (number, job) in jobs.iter().map(Object).enumerate() {
        let path = format!("template.spec.replicatedJobs[{number}].template.spec.template");
        let Some(index) = index_of(pod_sets, &path) else { continue };
        if !has_started(object, jobs, number) {
            expected.insert(index, Expected::default());
            continue;
        }
        let (parallelism, completions) = job.job_shape("/template/spec");
        let done = object.job_status(job.text("/name"), "succeeded");
        let succeeded = done.saturating_mul(completions.unwrap_or(1));
        let jobs = job.count("/replicas").unwrap_or(1);
        expected.insert(index, Expected { jobs, parallelism, completions, succeeded });
    }
    Report { outcome, expected, unreplaced: BTreeSet::new() }
}

/// Whether a JobSet has come to create its replicated Job of this number.
fn has_started(object: Object<'_>, jobs: &[Value], number: usize) -> bool {
    let Some(job) = jobs.get(number).map(Object) else { return false };
    let status = |name: &str, fields: &[&str]| -> i64 {
        fields.iter().map(|field| object.job_status(name, field)).fold(0, i64::saturating_add)
    };
    let begun = ["ready", "active", "succeeded", "failed"];
    if status(job.text("/name"), &begun) > 0 {
        return true;
    }
    let replicas = |name: &str| {
        let named = jobs.iter().map(Object).find(|other| other.text("/name") == name);
        named.map_or(0, |other| other.count("/replicas").unwrap_or(1))
    };
    let is_up = |name: &str| status(name, &["ready", "succeeded", "failed"]) >= replicas(name);
    let in_order = object.text("/spec/startupPolicy/startupPolicyOrder") == "InOrder";
    let earlier = jobs.iter().take(number).map(Object);
    (!in_order || earlier.into_iter().all(|other| is_up(other.text("/name"))))
        && job.array("/dependsOn").iter().map(Object).all(|dependency| {
            let name = dependency.text("/name");
            match dependency.text("/status") {
                "Complete" => status(name, &["succeeded"]) >= replicas(name),
                _ => is_up(name),
            }
        })
}

fn kubeflow(object: Object<'_>, kind: KubeflowKind, pod_sets: &[PodSet]) -> Report {
    let mut report =
        Report { outcome: object.verdict("Succeeded", &["Failed"]), ..Report::default() };
    let specs = kind.replica_specs();
    for replica_type in kind.replica_types() {
        let path = format!("template.spec.{specs}.{replica_type}.template");
        let Some(index) = index_of(pod_sets, &path) else { continue };
        let field = format!("/spec/{specs}/{replica_type}");
        let replicas = object.count(&format!("{field}/replicas"));
        let succeeded = object.count(&format!("/status/replicaStatuses/{replica_type}/succeeded"));
        report.expected.insert(
            index,
            Expected {
                jobs: replicas.unwrap_or_else(|| kind.default_replicas(replica_type)),
                parallelism: 1,
                completions: Some(1),
                succeeded: succeeded.unwrap_or(0),
            },
        );
        let policy = match object.text(&format!("{field}/restartPolicy")) {
            "" => kind.default_restart_policy(),
            policy => policy,
        };
        if policy == "Never" {
            report.unreplaced.insert(index);
        }
    }
    report
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

fn index_of(pod_sets: &[PodSet], path: &str) -> Option<usize> {
    pod_sets.iter().position(|set| set.path == path)
}

/// Number of indexes in a list such as `1,3-5,7`.
fn indexes(list: &str) -> i64 {
    let number = |text: &str| text.trim().parse::<i64>().ok();
    let items = list.split(',').filter_map(|item| match item.split_once('-') {
        Some((first, last)) => {
            number(last)?.checked_sub(number(first)?)?.checked_add(1).filter(|count| *count > 0)
        }
        None => number(item).map(|_| 1),
    });
    items.fold(0, i64::saturating_add)
}

/// An object whose status is read leniently.
#[derive(Clone, Copy)]
struct Object<'a>(&'a Value);

impl<'a> Object<'a> {
    /// The text at a JSON pointer; "" where there is none.
    fn text(self, pointer: &str) -> &'a str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number at a JSON pointer, where there is one from 0 on.
    fn count(self, pointer: &str) -> Option<i64> {
        self.0.pointer(pointer).and_then(Value::as_i64).filter(|count| *count >= 0)
    }

    /// The elements at a JSON pointer; none where there is no array.
    fn array(self, pointer: &str) -> &'a [Value] {
        self.0.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The condition of a type, where it is True.
    fn condition(self, kind: &str) -> Option<Object<'a>> {
        let mut conditions = self.array("/status/conditions").iter().map(Object);
        conditions.find(|it| it.text("/type") == kind && it.text("/status") == "True")
    }

    /// The outcome that the conditions tell; of several failures the first that is named.
    fn verdict(self, success: &str, failures: &[&str]) -> Outcome {
        if self.condition(success).is_some() {
            return Outcome::Succeeded;
        }
        match failures.iter().find_map(|kind| self.condition(kind)) {
            Some(condition) => Outcome::Failed {
                reason: condition.text("/reason").to_owned(),
                message: condition.text("/message").to_owned(),
                at: condition.text("/lastTransitionTime").parse::<Timestamp>().ok(),
            },
            None => Outcome::Active,
        }
    }

    /// Parallelism and completions of the Job whose `spec` is at a pointer; no completions where
    /// it works on a queue, until one pod succeeds.
    fn job_shape(self, spec: &str) -> (i64, Option<i64>) {
        let parallelism = self.count(&format!("{spec}/parallelism"));
        let completions = self.count(&format!("{spec}/completions"));
        let queue = parallelism.is_some() && completions.is_none();
        (parallelism.unwrap_or(1), completions.or(if queue { None } else { Some(1) }))
    }

    /// A number of Jobs in the status of a JobSet's replicated Job.
    fn job_status(self, name: &str, field: &str) -> i64 {
        let mut statuses = self.array("/status/replicatedJobsStatus").iter().map(Object);
        let status = statuses.find(|status| status.text("/name") == name);
        status.and_then(|status| status.count(&format!("/{field}"))).unwrap_or(0)
    }
}
