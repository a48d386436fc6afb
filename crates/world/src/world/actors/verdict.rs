//! Why a Job ends: its pods, its `podFailurePolicy`, its limits.

use std::sync::Arc;

use serde_json::Value;

use super::{find_condition, has_ended, is_true, number, phase};
use crate::sim::Object;

/// The condition that a Job has first, the one that it has last, and what both say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub first: &'static str,
    pub last: &'static str,
    pub reason: String,
    pub message: String,
}

impl Target {
    fn failure(reason: &str, message: &str) -> Self {
        let (first, last) = ("FailureTarget", "Failed");
        Self { first, last, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn success() -> Self {
        Self {
            first: "SuccessCriteriaMet",
            last: "Complete",
            reason: "CompletionsReached".to_owned(),
            message: "Reached expected number of succeeded pods".to_owned(),
        }
    }
}

/// Why a Job ends now, where it does.
pub fn verdict(job: &Object, pods: &[Arc<Object>]) -> Option<Target> {
    // how the pods end that are left changes nothing any more
    if is_true(&job.value, "SuccessCriteriaMet") {
        return Some(Target::success());
    }
    if let Some(begun) = find_condition(&job.value, "FailureTarget") {
        let text = |field: &str| begun[field].as_str().unwrap_or_default();
        return Some(Target::failure(text("reason"), text("message")));
    }
    if let Some((index, pod)) = failing(job, pods) {
        let name = pod.value["metadata"]["name"].as_str().unwrap_or_default();
        let message = format!("Pod {name} failed as rule {index} of the Job's policy foresees");
        return Some(Target::failure("PodFailurePolicy", &message));
    }
    let failed = number(&job.value, "/status/failed", 0);
    let succeeded = number(&job.value, "/status/succeeded", 0);
    if failed > number(&job.value, "/spec/backoffLimit", 6) {
        let message = "Job has reached the specified backoff limit";
        return Some(Target::failure("BackoffLimitExceeded", message));
    }
    let done = match job.value["spec"]["completions"].as_i64() {
        Some(completions) => succeeded >= completions,
        None if job.value["spec"]["parallelism"].is_null() => succeeded >= 1,
        None => succeeded >= 1 && pods.iter().all(|pod| has_ended(pod)),
    };
    done.then(Target::success)
}

/// The first pod that failed and fails its Job, with the index of the rule.
fn failing<'p>(job: &Object, pods: &'p [Arc<Object>]) -> Option<(usize, &'p Arc<Object>)> {
    pods.iter().find_map(|pod| match said(job, pod) {
        Some(("FailJob", index)) => Some((index, pod)),
        Some(_) | None => None,
    })
}

/// Whether a pod that failed is none of the Job's failures.
pub fn is_ignored(job: &Object, pod: &Object) -> bool {
    said(job, pod).is_some_and(|(action, _)| action == "Ignore")
}

/// The action of the first rule of the Job's own policy that a failed pod matches.
fn said<'j>(job: &'j Object, pod: &Object) -> Option<(&'j str, usize)> {
    if phase(pod) != "Failed" {
        return None;
    }
    let rules = job.value["spec"]["podFailurePolicy"]["rules"].as_array()?;
    let index = rules.iter().position(|rule| matches(rule, &pod.value))?;
    Some((rules[index]["action"].as_str()?, index))
}

fn matches(rule: &Value, pod: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let codes = &rule["onExitCodes"];
    let fits = |container: &Value| {
        let code = container["state"]["terminated"]["exitCode"].as_i64().unwrap_or(0);
        let named = codes["containerName"].is_null() || codes["containerName"] == container["name"];
        let listed = list(&codes["values"]).contains(&code.into());
        named && code != 0 && listed == (codes["operator"] == "In")
    };
    let by_code = codes.is_object() && list(&pod["status"]["containerStatuses"]).iter().any(fits);
    let wanted = |one: &Value| one["status"].as_str().unwrap_or("True") == "True";
    let by_condition = list(&rule["onPodConditions"])
        .iter()
        .any(|one| wanted(one) && one["type"].as_str().is_some_and(|kind| is_true(pod, kind)));
    by_code || by_condition
}
