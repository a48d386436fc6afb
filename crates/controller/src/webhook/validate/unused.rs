//! Rules of an AppWrapper that can be stored, but never apply to its components or with `MultiKueue`.

use serde_json::Value;

use super::component::Judged;
use super::finding::Findings;
use super::target::{Aimed, Targets};
use crate::api::{FailurePolicyRule, keys};
use crate::kinds::Kind;
use crate::snapshot::End;
use crate::tuning::Limits;

/// The most components that a message lists.
const LISTED_MAX: usize = 10;

/// Warns of a rule of `failurePolicy` that none of its components can ever match.
pub(super) fn failure_rule(
    rule: &FailurePolicyRule,
    targets: &Targets<'_>,
    path: &str,
    report: &mut Findings,
) {
    let aimed = targets.filtered(&rule.target_components);
    // while something is wrong with the names, nothing is known of what they name
    if aimed.is_empty() {
        return;
    }
    let reasons = &rule.on_job_failure_reasons;
    let gives = |each: &Aimed<'_>| reasons.iter().any(|reason| gives(each.component, reason));
    if !reasons.is_empty() && !aimed.iter().any(gives) {
        let message = format!(
            "never matches {}: only Jobs and JobSets fail for these reasons",
            titles(aimed.iter().map(|each| each.component))
        );
        report.doubtful(format!("{path}.onJobFailureReasons"), None, message);
    }
    if !rule.action.recreates_component() {
        return;
    }
    let with_pods = || aimed.iter().map(|each| each.component).filter(|each| has_pods(each));
    let endless = |each: &&Judged| each.known.end == End::Never;
    let count = with_pods().count();
    if count > 0 && with_pods().filter(endless).count() == count {
        let message = format!(
            "never reports a failure of its own: {}; the rule applies only when a pod is lost with its node",
            titles(with_pods())
        );
        report.doubtful(format!("{path}.action"), None, message);
    }
}

/// Whether objects of the kind of a component can fail for a reason of `onJobFailureReasons`.
fn gives(component: &Judged, reason: &str) -> bool {
    // of the Job of its launcher
    if Kind::is_of_mpi_operator(&component.api_version, &component.kind) {
        return matches!(reason, "BackoffLimitExceeded" | "DeadlineExceeded");
    }
    match (component.known.api_version, component.known.kind) {
        ("batch/v1", "Job") | ("jobset.x-k8s.io/v1alpha2", "JobSet") => true,
        // their own deadline has the same name
        ("v1", "Pod") | (_, "RayJob" | "TrainJob") | ("kubeflow.org/v1", _) => {
            reason == "DeadlineExceeded"
        }
        _ => false,
    }
}

fn has_pods(component: &Judged) -> bool {
    component.pod_sets.as_ref().is_none_or(|sets| !sets.is_empty())
}

/// Warns of exit codes that nobody sees.
pub(super) fn exit_codes(field: &str, aimed: &[Aimed<'_>], report: &mut Findings) {
    let restarts = |each: &&Aimed<'_>| each.pods().any(|pod| pod.restarts_containers);
    let found: Vec<&Judged> = aimed.iter().filter(restarts).map(|each| each.component).collect();
    if !found.is_empty() {
        let message = format!(
            "never matches pods of {} with restartPolicy OnFailure: the kubelet restarts the \
             container, and no failed pod shows an exit code",
            titles(found)
        );
        report.doubtful(field, None, message);
    }
}

/// The same for the annotations.
pub(super) fn annotated_exit_codes(limits: &Limits, targets: &Targets<'_>, report: &mut Findings) {
    let aimed = targets.filtered(&[]);
    for (key, codes) in [
        (keys::TERMINAL_EXIT_CODES, &limits.terminal_exit_codes),
        (keys::RETRYABLE_EXIT_CODES, &limits.retryable_exit_codes),
    ] {
        if !codes.is_empty() {
            exit_codes(&format!("metadata.annotations[{key}]"), &aimed, report);
        }
    }
}

/// Warns of what has no effect with `MultiKueue`: neither in the manager cluster nor in the worker cluster.
pub(super) fn with_multikueue(spec: &Value, metadata: &Value, report: &mut Findings) {
    if spec["managedBy"] != keys::MULTIKUEUE {
        return;
    }
    if metadata["annotations"][keys::ACTIVE] == "false" {
        let field = format!("metadata.annotations[{}]", keys::ACTIVE);
        let message = "has no effect with MultiKueue: worker clusters ignore it; to suspend the AppWrapper, set \
                       spec.active of its Workload to false";
        report.doubtful(field, Some("false"), message);
    }
    if !spec["onNoFit"].is_null() {
        let message = "has no effect with MultiKueue, which does not copy it to the worker cluster";
        report.doubtful("spec.onNoFit", None, message);
    }
}

/// Kinds and names, as far as there is room for them.
pub(super) fn titles<'a>(components: impl IntoIterator<Item = &'a Judged>) -> String {
    let mut components = components.into_iter();
    let listed: Vec<String> = components.by_ref().take(LISTED_MAX).map(Judged::title).collect();
    match components.count() {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

/// Whether a `spec` has rules that recreate a component: `maxRestarts` and the retry limit are theirs.
pub(super) fn recreates(spec: &Value) -> bool {
    let rules = spec["failurePolicy"]["rules"].as_array().into_iter().flatten();
    rules.into_iter().any(|rule| rule["action"] == "RecreateComponent")
}
