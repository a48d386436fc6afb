//! What an AppWrapper and a RetryPolicy must look like, as far as no cluster is needed to say it.
//!
//! ```text
//! create: bounds ─▶ kind ─┬▶ metadata   name, annotations
//!                         └▶ schema ─┬▶ component   template, pod sets, totals
//!                                    └▶ failure, execution, pod_failure   policies
//! update: create(new) without what create(old) says already ─▶ what may not change
//! ```
//!
//! Objects come as JSON that anybody may have written: every problem is a [`Finding`] with the path
//! of its field, all are reported, each once, and nothing makes it panic.

mod component;
mod execution;
mod exit_codes;
mod failure;
mod finding;
mod object;
mod pod_failure;
mod quantity;
mod retry_policy;
mod schema;
mod target;
mod template;
mod update;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use finding::Finding;
pub use retry_policy::retry_policy;
pub use update::{Requester, update};

pub(super) use component::POD_SETS_MAX;
pub(super) use object::{LEVELS_MAX, too_deep};

pub use crate::limits::Severity;

use self::finding::Report;
use self::target::Targets;
use crate::config::Config;
use crate::limits::Limits;

/// What is not judged here, because it needs a cluster; the webhook does, but for the last.
pub const SKIPPED: &[&str] = &[
    "every kind exists and is namespaced (discovery)",
    "the user and the controller may create every component (SubjectAccessReview)",
    "the queue and the RetryPolicies that are named exist",
    "no component's name is taken by another object",
];

/// API version of the AppWrapper.
const API_VERSION: &str = "workload.codeflare.dev/v1beta2";

/// Everything that is wrong with an AppWrapper that is to be created.
#[must_use]
pub fn create(aw: &Value, config: &Config) -> Vec<Finding> {
    let mut report = Report::default();
    if object::is_bounded(aw, &mut report)
        && object::is_a(aw, API_VERSION, "AppWrapper", &mut report)
    {
        let metadata = object::metadata(aw, &mut report).unwrap_or(&Value::Null);
        object::name(metadata, &mut report);
        object::texts(metadata, "labels", &mut report);
        template::annotations(metadata, "metadata", &mut report);
        let limits = object::limits(metadata, config, &mut report);
        spec(aw, metadata, config, &limits, &mut report);
    }
    report.into_findings()
}

fn spec(aw: &Value, metadata: &Value, config: &Config, limits: &Limits, report: &mut Report) {
    let Some(spec) = aw.get("spec") else {
        return report.wrong("spec", "must be given");
    };
    let spec = schema::check_spec(&schema::APPWRAPPER, spec, report);
    if !spec.is_object() {
        return;
    }
    let components = component::check_all(&spec, metadata, config, report);
    let targets = Targets::of(&components);
    failure::check(&spec["failurePolicy"], &targets, config, report);
    execution::check(&spec["executionPolicy"], &targets, report);
    pod_failure::check(&spec["podFailurePolicy"], &targets, report);
    unasked_limits(&spec, metadata, config, limits, report);
}

/// A retry limit that retry policies or the global limit make void.
fn unasked_limits(
    spec: &Value,
    metadata: &Value,
    config: &Config,
    limits: &Limits,
    report: &mut Report,
) {
    let key = crate::api::keys::RETRY_LIMIT;
    let annotation = format!("metadata.annotations[{key}]");
    let annotated = metadata["annotations"].get(key).and_then(Value::as_str);
    let restarts = spec["failurePolicy"]["maxRestarts"].as_i64().map(|most| most.to_string());
    let global = config.retry_policy.global_max_retries;
    let policies =
        !limits.retry_policies.is_empty() || config.retry_policy.default_policy_name.is_some();
    for (field, value) in
        [(annotation.as_str(), annotated), ("spec.failurePolicy.maxRestarts", restarts.as_deref())]
    {
        let Some(value) = value.filter(|_| !report.has_error(field)) else { continue };
        if policies {
            let message = "has no effect where a RetryPolicy is in force: its own limits hold";
            report.doubtful(field, Some(value), message);
        } else if value.parse::<i64>().is_ok_and(|limit| limit > i64::from(global)) {
            let message = format!("the configuration allows at most {global} restarts");
            report.doubtful(field, Some(value), message);
        }
    }
}

/// The most rules of a policy of an AppWrapper, as the schema says it.
const RULES_MAX: usize = 20;

/// The items of a list that decode, with their index. Those that do not, and those beyond the most,
/// were reported by the schema.
fn items<T: DeserializeOwned>(list: &Value, most: usize) -> Vec<(usize, T)> {
    let items = list.as_array().into_iter().flatten().take(most).enumerate();
    items.filter_map(|(i, item)| Some((i, serde_json::from_value(item.clone()).ok()?))).collect()
}

#[cfg(test)]
mod tests;
