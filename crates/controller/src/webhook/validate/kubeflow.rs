//! What the Training Operator makes of `kubeflow.org/v1` beside what the template declares.

use serde_json::Value;

use super::finding::{Findings, text};
use super::template;

/// Checks a `PyTorchJob`: with metrics in its elastic policy, the Training Operator 1.9 creates an autoscaler, which
/// changes the number of workers. It creates none for other kinds.
pub(super) fn check(object: &Value, path: &str, report: &mut Findings) {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let policy = &object["spec"]["elasticPolicy"];
    // an empty list is none to us, but not to the operator
    let has_metrics = policy.get("metrics").is_some_and(|metrics| !metrics.is_null());
    let is_pytorch = template::group(version) == "kubeflow.org" && object["kind"] == "PyTorchJob";
    if is_pytorch && has_metrics {
        let message = "must be left out: the autoscaler changes the number of workers, and the quota is for the pods of \
                       the template";
        let field = format!("{path}.spec.elasticPolicy.metrics");
        report.invalid(field, text(&policy["metrics"]), message);
    }
}
