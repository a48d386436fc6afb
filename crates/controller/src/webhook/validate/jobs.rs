//! What a Job or the Jobs of a `JobSet` cannot say, or say but probably do not mean.

use serde_json::Value;

use super::finding::{Findings, text};
use super::warnings::{JOB_CONTROLLER, managed};
use crate::kinds::Kind;
use crate::tuning::Period;

/// Seconds from the failure of a pod to its retry by the Job: before the first retry, the second, and so on. The last
/// is the longest.
const RETRY_PAUSES: [u64; 7] = [10, 20, 40, 80, 160, 320, 600];

/// A Job itself, or the Jobs of a `JobSet`. `grace` is how long a failure may last.
pub(super) fn check(kind: &Kind, object: &Value, path: &str, grace: Period, report: &mut Findings) {
    if !kind.is_job_set() {
        if kind.group() == "batch" {
            let path = format!("{path}.spec");
            completions(&object["spec"], &path, false, report);
            job(&object["spec"], &path, grace, report);
        }
        return;
    }
    let replicated = object["spec"]["replicatedJobs"].as_array().into_iter().flatten();
    for (index, replicated) in replicated.enumerate() {
        let path = format!("{path}.spec.replicatedJobs[{index}].template.spec");
        let spec = &replicated["template"]["spec"];
        completions(spec, &path, true, report);
        job(spec, &path, grace, report);
        managed(format!("{path}.managedBy"), &spec["managedBy"], JOB_CONTROLLER, report);
        let lifetime = &spec["ttlSecondsAfterFinished"];
        if !lifetime.is_null() {
            let message = "a JobSet that has not finished creates a Job again that is deleted after its end, and the \
                           Job runs again: leave it out";
            report.doubtful(
                format!("{path}.ttlSecondsAfterFinished"),
                Some(&text(lifetime)),
                message,
            );
        }
        let limit = &spec["backoffLimitPerIndex"];
        if !limit.is_null() {
            let message = "a JobSet does not report failed indexes: when an index has no retry left, the AppWrapper \
                           restarts after failureGracePeriod; to let the others end, wrap a Job instead";
            report.doubtful(format!("{path}.backoffLimitPerIndex"), Some(&text(limit)), message);
        }
    }
}

/// An Indexed Job without `completions`. The API server sets them only where `parallelism` is missing, too. What a `JobSet`
/// makes of its Jobs may differ in another version.
fn completions(spec: &Value, path: &str, is_of_job_set: bool, report: &mut Findings) {
    let mode = spec["completionMode"].as_str();
    let is_indexed = mode.map_or(is_of_job_set, |mode| mode == "Indexed");
    if !is_indexed || !spec["completions"].is_null() || spec["parallelism"].is_null() {
        return;
    }
    let path = format!("{path}.completions");
    if is_of_job_set {
        let message = "a JobSet makes its Jobs Indexed unless completionMode is NonIndexed, and the API server refuses \
                       Indexed Jobs without it: give it beside parallelism";
        report.doubtful(path, None, message);
    } else {
        report.wrong(path, "must be given beside parallelism: an Indexed Job requires it");
    }
}

/// A Job that creates no pods, or whose last retries come too late: by then, the AppWrapper has restarted.
fn job(spec: &Value, path: &str, grace: Period, report: &mut Findings) {
    if spec["parallelism"].as_i64() == Some(0) && spec["completions"].as_i64() != Some(0) {
        let message = "the Job creates no pods, and the AppWrapper does not end: leave it out, or give at least 1";
        report.doubtful(format!("{path}.parallelism"), Some("0"), message);
    }
    // with OnFailure, the kubelet retries, and the pod does not fail
    if spec["template"]["spec"]["restartPolicy"] != "Never" {
        return;
    }
    let counts_by_index = !spec["backoffLimitPerIndex"].is_null();
    let field = if counts_by_index { "backoffLimitPerIndex" } else { "backoffLimit" };
    let Some(limit) = spec[field].as_u64() else { return };
    let pauses = (0..limit).zip(RETRY_PAUSES.map(Period::from_secs));
    let mut late = pauses.filter(|(_, pause)| *pause >= grace);
    if let Some(first @ (fitting, pause)) = late.next() {
        let (_, last) = late.last().unwrap_or(first);
        let message = format!(
            "retry {} begins {pause} after a failure, but the AppWrapper restarts after failureGracePeriod, {grace}: \
             give at most {fitting}, or set failureGracePeriodDuration above {last}",
            fitting + 1
        );
        report.doubtful(format!("{path}.{field}"), Some(&limit.to_string()), message);
    }
}
