//! How long an object that has finished stays.

use serde_json::Value;

use super::finding::{Findings, text};
use super::template;

/// Where kinds say how long an object that has finished stays, in seconds.
const LIFETIMES: [&[&str]; 2] =
    [&["spec", "ttlSecondsAfterFinished"], &["spec", "runPolicy", "ttlSecondsAfterFinished"]];

/// How long it must stay, in seconds, so that a controller that starts again sees how it ended.
const LIFETIME_MIN: u64 = 60;

/// Warns of an object that is deleted soon after it has finished: one of which nobody saw the end is missing, and runs again.
pub(super) fn check(object: &Value, path: &str, report: &mut Findings) {
    // of a RayJob, KubeRay deletes the cluster alone
    if template::group(object["apiVersion"].as_str().unwrap_or_default()) == "ray.io" {
        return;
    }
    for fields in LIFETIMES {
        let given = &fields.iter().fold(object, |node, field| &node[*field]);
        if given.as_u64().is_some_and(|seconds| seconds < LIFETIME_MIN) {
            let message = format!(
                "if the controller does not run while the finished object exists, the object is missing and runs again: \
                 give at least {LIFETIME_MIN}, or leave it out and set successTTLDuration"
            );
            report.doubtful(format!("{path}.{}", fields.join(".")), Some(&text(given)), message);
        }
    }
}
