//! The Job controller and the JobSet controller.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::verdict::{Target, is_ignored, verdict};
use super::{
    Env, Task, children, create_owned, has_ended, is_true, number, phase, pods_of, set_condition,
    set_status,
};
use crate::sim::{Address, Deletion, Object, Part, Propagation};

/// Finalizer by which the Job controller counts each pod once.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Label of the index of a pod of an Indexed Job.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Pause before a failed pod is replaced.
const BACKOFF: Duration = Duration::from_secs(10);

fn background(uid: &str) -> Deletion {
    Deletion {
        propagation: Some(Propagation::Background),
        uid: Some(uid.to_owned()),
        ..Deletion::default()
    }
}

/// A Job looks at its pods and makes one move.
pub fn job(env: &mut Env<'_>, address: &Address) {
    let Some(job) = env.store.get(address).cloned() else {
        release_orphans(env, address);
        return;
    };
    let pods = pods_of(env.store, &job);
    let again = Task::Job(address.clone());
    if job.is_deleting() || is_true(&job.value, "Complete") || is_true(&job.value, "Failed") {
        for pod in pods.iter().filter(|pod| has_ended(pod) || job.is_deleting()) {
            release(env, pod);
        }
        expire(env, &job);
        return;
    }
    if let Some(pod) = pods.iter().find(|pod| has_ended(pod) && is_tracked(pod)) {
        count(env, &job, pod);
        env.agenda.add(again);
        return;
    }
    // deleted by somebody before it had ended, and only the finalizer is left of it
    let lost = |pod: &&Arc<Object>| {
        pod.is_deleting()
            && is_tracked(pod)
            && number(&pod.value, "/metadata/deletionGracePeriodSeconds", 0) == 0
    };
    if let Some(pod) = pods.iter().find(lost) {
        count(env, &job, pod);
        env.agenda.add(again);
        return;
    }
    if let Some(target) = verdict(&job, &pods) {
        finish(env, &job, &pods, target);
        return;
    }
    let active: Vec<&Arc<Object>> =
        pods.iter().filter(|pod| !has_ended(pod) && !pod.is_deleting()).collect();
    if job.value["spec"]["suspend"] == true {
        if let Some(pod) = active.first() {
            drop(env.store.delete(&pod.address, &Deletion::default()));
            env.agenda.add(again);
        }
        return;
    }
    create_missing(env, &job, &active);
    note_active(env, &job);
}

/// A Job that is gone lets its pods go.
fn release_orphans(env: &mut Env<'_>, address: &Address) {
    let Some(kind) = env.store.kinds.by_name("v1", "Pod") else { return };
    let orphan = |pod: &&Arc<Object>| {
        is_tracked(pod)
            && pod.controller().is_some_and(|owner| {
                owner["kind"] == "Job"
                    && owner["name"] == *address.name
                    && env.store.by_uid(owner["uid"].as_str().unwrap_or_default()).is_none()
            })
    };
    let orphans: Vec<Arc<Object>> = env.store.all(kind).filter(orphan).cloned().collect();
    for pod in &orphans {
        release(env, pod);
    }
}

/// A pod whose Job is gone, or was taken from it, is let go.
pub fn release_lost(env: &mut Env<'_>, address: &Address) {
    let Some(pod) = env.store.get(address).cloned() else { return };
    let owner = pod.controller().and_then(|owner| owner["uid"].as_str());
    let lost = owner.is_none_or(|uid| env.store.by_uid(uid).is_none());
    if pod.is_deleting() && lost {
        release(env, &pod);
    }
}

fn is_tracked(pod: &Object) -> bool {
    pod.finalizers().any(|name| name == TRACKING)
}

fn release(env: &mut Env<'_>, pod: &Arc<Object>) {
    if !is_tracked(pod) {
        return;
    }
    env.store.change(&pod.address, Part::Whole, |pod| {
        if let Some(all) = pod["metadata"]["finalizers"].as_array_mut() {
            all.retain(|name| name != TRACKING);
        }
    });
}

/// Counts a pod that ended, once.
fn count(env: &mut Env<'_>, job: &Arc<Object>, pod: &Arc<Object>) {
    if is_ignored(job, pod) {
        return release(env, pod);
    }
    let field = if phase(pod) == "Succeeded" { "succeeded" } else { "failed" };
    let now = env.elapsed;
    env.store.change(&job.address, Part::Status, |job| {
        let before = job["status"][field].as_i64().unwrap_or(0);
        job["status"][field] = (before + 1).into();
        if field == "failed" {
            // when the replacement may come; the real controller keeps this in memory
            job["status"]["simBackoffUntil"] = (now + BACKOFF).as_millis().to_string().into();
        }
    });
    release(env, pod);
}

fn finish(env: &mut Env<'_>, job: &Arc<Object>, pods: &[Arc<Object>], target: Target) {
    let Target { first, last, reason, message } = target;
    let now = env.store.now();
    if !is_true(&job.value, first) {
        env.store.change(&job.address, Part::Status, |job| {
            set_condition(job, first, true, &reason, &message, &now);
        });
        return;
    }
    if let Some(pod) = pods.iter().find(|pod| !has_ended(pod) && !pod.is_deleting()) {
        drop(env.store.delete(&pod.address, &Deletion::default()));
        env.agenda.add(Task::Job(job.address.clone()));
        return;
    }
    if pods.iter().all(|pod| has_ended(pod)) {
        env.store.change(&job.address, Part::Status, |job| {
            job["status"]["active"] = 0.into();
            set_condition(job, last, true, &reason, &message, &now);
        });
    }
}

/// `ttlSecondsAfterFinished`.
fn expire(env: &mut Env<'_>, job: &Arc<Object>) {
    let Some(ttl) = job.value["spec"]["ttlSecondsAfterFinished"].as_u64() else { return };
    if job.is_deleting() {
        return;
    }
    match job.value["status"]["simExpiresAt"].as_str().and_then(|text| text.parse::<u64>().ok()) {
        Some(at) if Duration::from_millis(at) <= env.elapsed => {
            drop(env.store.delete(&job.address, &background(&job.uid)));
        }
        Some(_) => {}
        None => {
            let at = env.elapsed + Duration::from_secs(ttl);
            env.store.change(&job.address, Part::Status, |job| {
                job["status"]["simExpiresAt"] = at.as_millis().to_string().into();
            });
            env.agenda.at(at, Task::Job(job.address.clone()));
        }
    }
}

fn create_missing(env: &mut Env<'_>, job: &Arc<Object>, active: &[&Arc<Object>]) {
    let spec = &job.value["spec"];
    let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
    let succeeded = number(&job.value, "/status/succeeded", 0);
    let want = match spec["completions"].as_i64() {
        Some(completions) => parallelism.min(completions - succeeded),
        None if succeeded > 0 => 0,
        None => parallelism,
    };
    if i64::try_from(active.len()).unwrap_or(i64::MAX) >= want {
        return;
    }
    let until = job.value["status"]["simBackoffUntil"].as_str().and_then(|text| text.parse().ok());
    let until = Duration::from_millis(until.unwrap_or(0));
    if env.elapsed < until {
        env.agenda.at(until, Task::Job(job.address.clone()));
        return;
    }
    let mut pod = spec["template"].clone();
    pod["metadata"]["generateName"] = format!("{}-", job.address.name).into();
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = (*job.address.name).into();
    pod["metadata"]["finalizers"] = json!([TRACKING]);
    if spec["completionMode"] == "Indexed" {
        let Some(index) = free_index(env, job, active) else { return };
        pod["metadata"]["labels"][INDEX] = index.to_string().into();
        pod["metadata"]["generateName"] = format!("{}-{index}-", job.address.name).into();
    }
    if create_owned(env.store, "v1", "Pod", job, pod).is_some() {
        env.agenda.add(Task::Job(job.address.clone()));
    } else {
        let later = env.elapsed + Duration::from_secs(1);
        env.agenda.at(later, Task::Job(job.address.clone()));
    }
}

/// The lowest index that neither runs nor has succeeded.
fn free_index(env: &Env<'_>, job: &Object, active: &[&Arc<Object>]) -> Option<i64> {
    let pods = pods_of(env.store, job);
    let taken: Vec<i64> = active
        .iter()
        .copied()
        .chain(pods.iter().filter(|pod| phase(pod) == "Succeeded"))
        .filter_map(|pod| pod.label(INDEX)?.parse().ok())
        .collect();
    let completions = job.value["spec"]["completions"].as_i64().unwrap_or(1);
    (0..completions).find(|index| !taken.contains(index))
}

fn note_active(env: &mut Env<'_>, job: &Arc<Object>) {
    let active = pods_of(env.store, job).iter().filter(|pod| !has_ended(pod)).count();
    let known = env.store.get(&job.address).map(|job| &job.value["status"]);
    if known.is_some_and(|status| status["active"] == active && !status["startTime"].is_null()) {
        return;
    }
    let now = env.store.now();
    env.store.change(&job.address, Part::Status, |job| {
        job["status"]["active"] = active.into();
        if job["status"]["startTime"].is_null() {
            job["status"]["startTime"] = now.into();
        }
    });
}

/// A JobSet looks at its Jobs and makes one move.
pub fn job_set(env: &mut Env<'_>, address: &Address) {
    let Some(set) = env.store.get(address).cloned() else { return };
    if set.is_deleting() {
        return;
    }
    let jobs = children(env.store, &set, "Job");
    if is_true(&set.value, "Completed") || is_true(&set.value, "Failed") {
        let running = |job: &&Arc<Object>| {
            !job.is_deleting() && !is_true(&job.value, "Complete") && !is_true(&job.value, "Failed")
        };
        if let Some(job) = jobs.iter().find(running) {
            drop(env.store.delete(&job.address, &background(&job.uid)));
            env.agenda.add(Task::JobSet(address.clone()));
        }
        return;
    }
    let wanted = wanted_jobs(&set);
    let restarts = number(&set.value, "/status/restarts", 0);
    let is_current = |job: &Object| {
        job.label("jobset.sigs.k8s.io/restart-attempt") == Some(restarts.to_string().as_str())
    };
    if let Some(old) = jobs.iter().find(|job| !is_current(job)) {
        if !old.is_deleting() {
            drop(env.store.delete(&old.address, &background(&old.uid)));
        }
        return;
    }
    if let Some(failed) = jobs.iter().find(|job| is_true(&job.value, "Failed")) {
        fail_or_restart(env, &set, failed, restarts);
        return;
    }
    if jobs.len() == wanted.len() && jobs.iter().all(|job| is_true(&job.value, "Complete")) {
        end_job_set(env, &set, "Completed", "AllJobsCompleted", "jobset completed successfully");
        return;
    }
    note_jobs(env, &set, &jobs);
    let missing =
        wanted.iter().find(|(name, ..)| !jobs.iter().any(|job| *job.address.name == **name));
    if let Some((name, of, template)) = missing {
        let mut job = (*template).clone();
        job["metadata"]["name"] = name.as_str().into();
        job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] =
            restarts.to_string().into();
        job["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] = (*set.address.name).into();
        job["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = (*of).into();
        if create_owned(env.store, "batch/v1", "Job", &set, job).is_some() {
            env.agenda.add(Task::JobSet(address.clone()));
        } else {
            env.agenda.at(env.elapsed + Duration::from_secs(1), Task::JobSet(address.clone()));
        }
    }
}

/// Name, replicated Job and template of each Job.
fn wanted_jobs(set: &Object) -> Vec<(String, &str, &Value)> {
    let replicated = set.value["spec"]["replicatedJobs"].as_array();
    let mut wanted = vec![];
    for one in replicated.into_iter().flatten() {
        let of = one["name"].as_str().unwrap_or_default();
        for index in 0..one["replicas"].as_i64().unwrap_or(1) {
            wanted.push((format!("{}-{of}-{index}", set.address.name), of, &one["template"]));
        }
    }
    wanted
}

fn fail_or_restart(env: &mut Env<'_>, set: &Arc<Object>, failed: &Object, restarts: i64) {
    if restarts < number(&set.value, "/spec/failurePolicy/maxRestarts", 0) {
        env.store.change(&set.address, Part::Status, |set| {
            set["status"]["restarts"] = (restarts + 1).into();
        });
        return;
    }
    let message = format!("jobset failed due to one or more job failures: {}", failed.address.name);
    end_job_set(env, set, "Failed", "FailedJobs", &message);
}

fn end_job_set(env: &mut Env<'_>, set: &Arc<Object>, kind: &str, reason: &str, message: &str) {
    let now = env.store.now();
    env.store.change(&set.address, Part::Status, |set| {
        set_condition(set, kind, true, reason, message, &now);
    });
}

/// `status.replicatedJobsStatus`.
fn note_jobs(env: &mut Env<'_>, set: &Arc<Object>, jobs: &[Arc<Object>]) {
    let replicated = set.value["spec"]["replicatedJobs"].as_array();
    let status: Vec<Value> = replicated
        .into_iter()
        .flatten()
        .map(|one| {
            let of = one["name"].as_str().unwrap_or_default();
            let own =
                |job: &&Arc<Object>| job.label("jobset.sigs.k8s.io/replicatedjob-name") == Some(of);
            let count = |condition: &str| {
                jobs.iter().filter(own).filter(|job| is_true(&job.value, condition)).count()
            };
            let active =
                jobs.iter().filter(own).filter(|job| number(&job.value, "/status/active", 0) > 0);
            let active = active.count();
            json!({
                "name": of, "ready": active, "active": active, "succeeded": count("Complete"),
                "failed": count("Failed"), "suspended": 0,
            })
        })
        .collect();
    set_status(env.store, &set.address, "replicatedJobsStatus", status.into());
}
