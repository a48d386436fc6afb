//! What an AppWrapper and a RetryPolicy must look like, as far as no cluster is needed to say it.
//!
//! ```text
//! create: size ─▶ kind ─┬▶ metadata   name, annotations
//!                       └▶ schema ─┬▶ component   template, pod sets, totals
//!                                  └▶ failure, execution, pod_failure   policies
//! update: the same without sizes, and without what is wrong with the old one ─▶ what may not change
//! ```
//!
//! Objects come as JSON that anybody may have written: every problem is a [`Finding`] with the path
//! of its field, all are reported, each once, and nothing makes it panic.

mod amounts;
mod budget;
mod carried;
mod component;
mod execution;
mod exit_codes;
mod failure;
mod finding;
mod jobs;
mod kubeflow;
mod kueue;
mod mounts;
mod no_fit;
mod object;
mod object_name;
mod pod_failure;
mod pod_spec;
mod progress;
mod ray;
mod retry_policy;
mod schema;
mod size;
mod target;
mod template;
mod topology;
mod unused;
mod update;
mod warnings;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use finding::Finding;
pub use kueue::waiting;
pub use retry_policy::retry_policy;
pub use update::{Requester, growth, update};

pub(super) use component::POD_SETS_MAX;
pub(super) use object::{LEVELS_MAX, too_deep};

pub use crate::tuning::Severity;

use self::component::Judged;
use self::finding::Findings;
use self::target::Targets;
use crate::api::keys;
use crate::config::Config;
use crate::tuning::Limits;

/// What is not judged here, because it needs a cluster; the webhook does, but for the last two.
pub const SKIPPED: &[&str] = &[
    "every kind exists and is namespaced (discovery)",
    "the user and the controller can create every component (SubjectAccessReview)",
    "the named queue and RetryPolicies exist",
    "no other object has the name of a component",
    "the fields of each component, apart from labels, annotations and the types of those in its pod specs: when the \
     controller creates it, the API server rejects wrong values and drops unknown fields; to check them now: kubectl aw \
     unwrap -f FILE | kubectl create --dry-run=server -f -",
];

/// API version of the AppWrapper.
const API_VERSION: &str = "workload.codeflare.dev/v1beta2";

/// When an AppWrapper is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// It is to be created: its sizes are judged as well.
    Create,
    /// The same without a cluster: what admission would read from it is not there.
    Offline,
    /// It is there already: what it costs is there, and it must still be finished and deleted.
    Stored,
}

/// Everything that is wrong with an AppWrapper that is to be created.
#[must_use]
pub fn create(aw: &Value, config: &Config) -> Vec<Finding> {
    judged(aw, config, Occasion::Create)
}

/// The same before it is sent to a cluster: objects that describe the pods of components are read there.
#[must_use]
pub fn offline(aw: &Value, config: &Config) -> Vec<Finding> {
    judged(aw, config, Occasion::Offline)
}

fn judged(aw: &Value, config: &Config, occasion: Occasion) -> Vec<Finding> {
    let mut report = Findings::default();
    let affordable = |report: &mut Findings| match occasion {
        Occasion::Create | Occasion::Offline => size::is_affordable(aw, report),
        Occasion::Stored => true,
    };
    if object::is_shallow(aw, &mut report)
        && affordable(&mut report)
        && object::is_a(aw, API_VERSION, "AppWrapper", &mut report)
    {
        let metadata = object::metadata(aw, &mut report).unwrap_or(&Value::Null);
        object::name(metadata, &mut report);
        if occasion == Occasion::Stored || size::labels(metadata, &mut report) {
            object::queue(&object::texts(metadata, "labels", &mut report), &mut report);
            if occasion != Occasion::Stored {
                object::keys_and_values(metadata, "metadata", &mut report);
            }
        }
        object::stray_keys(metadata, &mut report);
        let limits = object::limits(metadata, config, &mut report);
        let components = spec(aw, metadata, config, &limits, occasion, &mut report);
        if occasion != Occasion::Stored {
            size::check(aw, &components, &mut report);
        }
    }
    report.into_findings()
}

fn spec(
    aw: &Value,
    metadata: &Value,
    config: &Config,
    limits: &Limits,
    occasion: Occasion,
    report: &mut Findings,
) -> Vec<Judged> {
    let Some(spec) = aw.get("spec") else {
        report.wrong("spec", "must be given");
        return vec![];
    };
    let spec = schema::check_spec(&schema::APPWRAPPER, spec, report);
    if !spec.is_object() {
        return vec![];
    }
    let components = component::check_all(&spec, metadata, config, limits, occasion, report);
    let Some(components) = components else { return vec![] };
    let targets = Targets::of(&components);
    failure::check(&spec["failurePolicy"], &targets, config, report);
    execution::check(&spec, &targets, report);
    pod_failure::check(&spec["podFailurePolicy"], &targets, report);
    progress::check(&spec["progress"], report);
    manager(&spec["managedBy"], report);
    no_fit::check(&spec["onNoFit"], metadata, config, report);
    unused::with_multikueue(&spec, metadata, report);
    carried::check(metadata, &spec, occasion, report);
    unused::annotated_exit_codes(limits, &targets, report);
    unasked_limits(&spec, metadata, config, limits, report);
    components
}

/// Warns of a manager that is neither this controller nor `MultiKueue`.
fn manager(given: &Value, report: &mut Findings) {
    let theirs = |name: &&str| ![keys::CONTROLLER_NAME, keys::MULTIKUEUE].contains(name);
    if let Some(name) = given.as_str().filter(theirs) {
        let message =
            "this controller leaves the AppWrapper alone; to have it run here, leave the field out";
        report.doubtful("spec.managedBy", Some(name), message);
    }
}

/// A retry limit, or its refill, that has no effect because of retry policies or the global limit.
fn unasked_limits(
    spec: &Value,
    metadata: &Value,
    config: &Config,
    limits: &Limits,
    report: &mut Findings,
) {
    let key = keys::RETRY_LIMIT;
    let annotation = format!("metadata.annotations[{key}]");
    let annotated = metadata["annotations"].get(key).and_then(Value::as_str);
    let restarts = spec["failurePolicy"]["maxRestarts"].as_i64().map(|most| most.to_string());
    let global = config.retry_policy.global_max_retries;
    let policies =
        !limits.retry_policies.is_empty() || config.retry_policy.default_policy_name.is_some();
    let refill = spec["failurePolicy"]["refill"]["after"].as_str();
    for (field, value) in [
        (annotation.as_str(), annotated),
        ("spec.failurePolicy.maxRestarts", restarts.as_deref()),
        ("spec.failurePolicy.refill", refill),
    ] {
        let Some(value) = value.filter(|_| !report.has_error(field)) else { continue };
        if policies {
            let recreated = if unused::recreates(spec) { "RecreateComponent and to " } else { "" };
            let message = format!(
                "applies only to {recreated}restarts because a component is missing or cannot be created, where a \
                 RetryPolicy is in force: its own limits apply to other restarts"
            );
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
