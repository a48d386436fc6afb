//! The Jobs of a `JobSet` that failed: they say more of why than the `JobSet` itself.

use std::time::Duration;

use kube::Client;
use kube::api::ListParams;
use kube::core::{ApiResource, Request};
use serde::Deserialize;

use super::live::{self, Error};
use super::memory::ReconcileState;
use super::raw_object::RawObject;
use super::records::{Identity, LeanCondition, message, word};
use crate::kinds::Kind;
use crate::snapshot::{Component, FailedJob, Outcome};
use crate::telemetry;

/// Label on the Jobs of a `JobSet`: its name.
const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
/// The most pages of Jobs with the label that are read, since anybody may write it: 16,000 Jobs, or 1,900 of which 500 have
/// more bytes than an answer may have.
const PAGES_MAX: usize = 32;
/// How many failed Jobs of a `JobSet` are known, the first failures.
const FAILED_MAX: usize = 500;
/// For how long, and how many times, no decision is made while they cannot be listed.
const MISSED: (Duration, u32) = (Duration::from_mins(1), 4);

/// Name and UID of the object of a component that is a `JobSet` of ours and says that it failed.
#[must_use]
pub fn failed_job_set(component: &Component) -> Option<(&str, &str)> {
    let object = component.ours()?;
    let failed = match object.report.outcome {
        Outcome::Failed { .. } => true,
        Outcome::Active | Outcome::Succeeded => false,
    };
    let is_job_set = Kind::of(&component.api_version, &component.kind).is_job_set();
    (failed && is_job_set).then_some((component.name.as_str(), object.uid.as_str()))
}

/// The Jobs that failed in a `JobSet`, by one LIST: a `JobSet` that failed changes no more. None where the API server
/// does not serve Jobs. Of Jobs with the label, the first [`PAGES_MAX`] pages are read, and of those that failed, the first
/// [`FAILED_MAX`] are kept. Policies may ask why a Job failed, and so an error is one of the reconcile, a denial, too, but only
/// for [`MISSED`]: then the Jobs are those that were read.
///
/// # Errors
/// Where they cannot be listed.
pub async fn failed(
    client: &Client,
    namespace: &str,
    component: &Component,
    memory: &mut ReconcileState,
) -> Result<Vec<FailedJob>, Error> {
    let Some((name, uid)) = failed_job_set(component) else { return Ok(vec![]) };
    if let Some(known) = memory.failed_jobs.get(uid) {
        return Ok(known.clone());
    }
    let resource = ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&());
    let params = ListParams::default().labels(&format!("{JOB_SET_NAME}={name}"));
    let mut found = vec![];
    let take = |job: RawObject| found.extend(failed_job(&job, uid, &component.parts));
    let (namespace, lists) = (Some(namespace), Request::list);
    let listed =
        live::first_pages(client, &resource, namespace, &params, lists, PAGES_MAX, take).await;
    by_time(&mut found);
    match listed {
        Ok(true) => {}
        Ok(false) => tracing::warn!(
            jobset = name,
            "Too many Jobs have the label of a JobSet; its failed Jobs may be unknown."
        ),
        Err(error) => {
            // a denial may be momentary, while an API server starts
            let is_served = error.code() != Some(404);
            if is_served && memory.waits_for_jobs(uid, MISSED) {
                return Err(error);
            }
            let cause = telemetry::chain(&error);
            tracing::warn!(cause, jobset = name, "The Jobs of a JobSet cannot be listed.");
            return Ok(found); // they are listed again at the next reconcile
        }
    }
    let ReconcileState { failed_jobs, object, .. } = memory;
    // a component may be recreated without end
    failed_jobs.retain(|known, _| object.kin.is_component(known));
    failed_jobs.insert(uid.to_owned(), found.clone());
    Ok(found)
}

/// The failed Jobs among these that a `JobSet` controls, the first failure first; at most [`FAILED_MAX`].
#[must_use]
pub fn among<'a>(
    jobs: impl Iterator<Item = &'a RawObject>,
    uid: &str,
    parts: &[Option<String>],
) -> Vec<FailedJob> {
    let mut found: Vec<FailedJob> = jobs.filter_map(|job| failed_job(job, uid, parts)).collect();
    by_time(&mut found);
    found
}

fn by_time(failed: &mut Vec<FailedJob>) {
    failed.sort_by(|a, b| {
        let place = |job: &FailedJob| (job.at.is_none(), job.at);
        place(a).cmp(&place(b)).then_with(|| a.name.cmp(&b.name))
    });
    failed.truncate(FAILED_MAX);
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanJob {
    status: LeanStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanStatus {
    conditions: Vec<LeanCondition>,
}

/// Label that names the replicated Job that a Job belongs to.
const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";

/// A Job that failed in the `JobSet` of a UID; none where it is another's, or did not fail.
fn failed_job(seen: &RawObject, uid: &str, parts: &[Option<String>]) -> Option<FailedJob> {
    Identity::of(&seen.meta).controller.filter(|controller| controller.uid == uid)?;
    let lean: LeanJob = serde_json::from_str(seen.raw.get()).unwrap_or_default();
    let mut conditions = lean.status.conditions.into_iter();
    let failed = conditions.find(|one| one.kind == "Failed" && one.status == "True")?;
    let part = seen.meta.labels.as_ref().and_then(|labels| labels.get(REPLICATED_JOB));
    Some(FailedJob {
        name: seen.meta.name.clone().unwrap_or_default(),
        pod_set: part.and_then(|name| parts.iter().position(|part| part.as_ref() == Some(name))),
        reason: word(failed.reason),
        message: message(failed.message),
        at: failed.last_transition_time.map(|time| time.0),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::{Value, json};

    use super::*;
    use crate::price::{KEPT_MESSAGE_BYTES_MAX, KEPT_WORD_BYTES_MAX};
    use crate::snapshot::{Object, Presence, Report};

    /// An API server that answers each call so, and how many there were.
    fn server(code: u16, answer: &Value) -> (Client, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let (counted, answer) = (calls.clone(), answer.to_string());
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let body = kube::client::Body::from(answer.clone().into_bytes());
            let response = http::Response::builder().status(code).body(body);
            std::future::ready(response.map_err(kube::Error::HttpError))
        });
        (Client::new(service, "default"), calls)
    }

    fn refusal(code: u16) -> Value {
        json!({"status": "Failure", "code": code, "message": "no"})
    }

    fn page(more: &str, jobs: &[Value]) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "JobList", "metadata": {"continue": more},
            "items": jobs})
    }

    /// A `JobSet` that says that it failed.
    fn job_set() -> Component {
        let outcome = Outcome::Failed { reason: String::new(), message: String::new(), at: None };
        let report = Report { outcome, ..Report::default() };
        let object = Object { uid: "u".into(), report, ..Object::default() };
        Component {
            name: "s".into(),
            api_version: "jobset.x-k8s.io/v1alpha2".into(),
            kind: "JobSet".into(),
            presence: Presence::Present(object),
            ..Component::default()
        }
    }

    fn job(name: &str, owner: &str, kind: &str, second: Option<u32>) -> RawObject {
        serde_json::from_str(&job_as_listed(name, owner, kind, second).to_string()).unwrap()
    }

    fn job_as_listed(name: &str, owner: &str, kind: &str, second: Option<u32>) -> Value {
        let mut condition: Value =
            json!({"type": kind, "status": "True", "reason": "R", "message": "m"});
        if let Some(second) = second {
            condition["lastTransitionTime"] = format!("2026-01-01T00:00:0{second}Z").into();
        }
        let owner = json!({"apiVersion": "v1", "kind": "JobSet", "name": "s", "uid": owner,
            "controller": true});
        json!({
            "metadata": {"name": name, "ownerReferences": [owner]},
            "status": {"conditions": [{"type": "Failed", "status": "False"}, condition]},
        })
    }

    #[tokio::test]
    async fn where_jobs_cannot_be_listed_none_failed() {
        for (code, lists) in [(403, false), (404, true), (500, false)] {
            let (client, _) = server(code, &refusal(code));
            let mut memory = ReconcileState::default();
            let found = failed(&client, "ns", &job_set(), &mut memory).await.ok();
            assert_eq!(found, lists.then(Vec::new), "{code}");
        }
    }

    #[tokio::test]
    async fn jobs_that_cannot_be_listed_hold_up_no_decision_for_ever() {
        for code in [403, 500] {
            let (client, _) = server(code, &refusal(code));
            let mut memory = ReconcileState::default();
            for (second, goes_on) in [(5, false), (30, false), (64, false), (65, true), (90, true)]
            {
                memory.tick(Duration::from_secs(second));
                let found = failed(&client, "ns", &job_set(), &mut memory).await.ok();
                assert_eq!(found, goes_on.then(Vec::new), "{code} at {second}");
            }
            // an outage is over
            let listed = [job_as_listed("a", "u", "Failed", Some(1))];
            let (client, _) = server(200, &page("", &listed));
            let found = failed(&client, "ns", &job_set(), &mut memory).await.unwrap();
            assert_eq!(found.len(), 1);
        }
    }

    #[tokio::test]
    async fn the_failed_jobs_of_earlier_job_sets_are_forgotten() {
        let mut memory = ReconcileState::default();
        for uid in ["u", "v"] {
            let mut component = job_set();
            if let Presence::Present(object) = &mut component.presence {
                uid.clone_into(&mut object.uid);
            }
            memory.object.kin.put_component(0, uid);
            let (client, _) = server(500, &refusal(500));
            assert!(failed(&client, "ns", &component, &mut memory).await.is_err(), "{uid}");
            let unlisted: Vec<&str> = memory.jobs_unlisted.keys().map(String::as_str).collect();
            assert_eq!(unlisted, [uid]);
            let listed = [job_as_listed("a", uid, "Failed", Some(1))];
            let (client, _) = server(200, &page("", &listed));
            let found = failed(&client, "ns", &component, &mut memory).await.unwrap();
            assert_eq!(found.len(), 1, "{uid}");
            let known: Vec<&str> = memory.failed_jobs.keys().map(String::as_str).collect();
            assert_eq!(known, [uid]);
        }
    }

    #[test]
    fn of_many_failed_jobs_the_first_are_known() {
        let jobs: Vec<RawObject> = (0..=FAILED_MAX)
            .map(|number| job(&format!("j{number}"), "u", "Failed", Some(2)))
            .chain([job("first", "u", "Failed", Some(1))])
            .collect();
        let found = among(jobs.iter(), "u", &[]);
        assert_eq!((found.len(), found[0].name.as_str()), (FAILED_MAX, "first"));
    }

    #[test]
    fn what_a_failed_job_tells_has_a_bound() {
        let mut long = job_as_listed("a", "u", "Failed", None);
        for field in ["reason", "message"] {
            long["status"]["conditions"][1][field] =
                format!("{}\nMemoryError: end", "m".repeat(700 << 10)).into();
        }
        let long: RawObject = serde_json::from_str(&long.to_string()).unwrap();
        let found = among([&long].into_iter(), "u", &[]);
        let lengths = [found[0].reason.len(), found[0].message.len()];
        assert_eq!(lengths, [KEPT_WORD_BYTES_MAX, KEPT_MESSAGE_BYTES_MAX]);
        assert!(found[0].message.ends_with("m\nMemoryError: end"), "{}", found[0].message);
    }

    #[tokio::test]
    async fn jobs_that_anybody_has_labelled_are_not_read_without_end() {
        let listed = [
            job_as_listed("a", "u", "Failed", Some(1)),
            job_as_listed("b", "stranger", "Failed", Some(1)),
        ];
        let (client, calls) = server(200, &page("more", &listed));
        let mut memory = ReconcileState::default();
        for _ in 0..3 {
            let found = failed(&client, "ns", &job_set(), &mut memory).await.unwrap();
            assert!(found.len() == PAGES_MAX && found.iter().all(|job| job.name == "a"));
        }
        assert_eq!(calls.load(Ordering::SeqCst), PAGES_MAX, "once");
    }

    #[test]
    fn the_first_failure_comes_first_and_strangers_not_at_all() {
        let jobs = [
            job("never", "u", "Failed", None),
            job("late", "u", "Failed", Some(2)),
            job("b", "u", "Failed", Some(1)),
            job("a", "u", "Failed", Some(1)),
            job("done", "u", "Complete", Some(0)),
            job("theirs", "v", "Failed", Some(0)),
        ];
        let found = among(jobs.iter(), "u", &[]);
        let names: Vec<&str> = found.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "late", "never"]);
        assert_eq!((found[0].reason.as_str(), found[0].message.as_str()), ("R", "m"));
    }
}
