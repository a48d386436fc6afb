//! What a template may say, but probably does not mean.

use serde_json::Value;

use super::component::{Judged, ValidationContext};
use super::finding::{Findings, text};
use super::{jobs, template};
use crate::kinds::Kind;
use crate::tuning::Period;

/// Where kinds say how long an object that has finished stays, in seconds.
const LIFETIMES: [&[&str]; 2] =
    [&["spec", "ttlSecondsAfterFinished"], &["spec", "runPolicy", "ttlSecondsAfterFinished"]];

/// How long it must stay, in seconds, so that a controller that starts again sees how it ended.
const LIFETIME_MIN: u64 = 60;

/// Where kinds say that they are suspended.
const SUSPENDED: [&[&str]; 4] = [
    &["spec", "suspend"],
    &["spec", "runPolicy", "suspend"],
    &["spec", "rayClusterSpec", "suspend"],
    &["spec", "rayClusterConfig", "suspend"],
];
/// Where Deployments do. The field of other kinds with this name may mean something else.
const PAUSED: &[&str] = &["spec", "paused"];

/// Where the kinds that have templates of volume claims have them.
const CLAIMS: [(&str, &[&str]); 2] =
    [("StatefulSet", &["spec"]), ("LeaderWorkerSet", &["spec", "leaderWorkerTemplate"])];

/// The controller that creates the pods of Jobs.
pub(super) const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";
/// The controller that creates the pods of Ray clusters.
const KUBERAY: &str = "ray.io/kuberay-operator";

/// Where the kinds of a group name the controller that creates their pods, and the name of the usual one.
const MANAGERS: [(&str, &[&str], &str); 7] = [
    ("batch", &["spec", "managedBy"], JOB_CONTROLLER),
    ("jobset.x-k8s.io", &["spec", "managedBy"], "jobset.sigs.k8s.io/jobset-controller"),
    ("kubeflow.org", &["spec", "runPolicy", "managedBy"], "kubeflow.org/training-operator"),
    ("ray.io", &["spec", "managedBy"], KUBERAY),
    ("ray.io", &["spec", "rayClusterSpec", "managedBy"], KUBERAY),
    ("ray.io", &["spec", "rayClusterConfig", "managedBy"], KUBERAY),
    ("trainer.kubeflow.org", &["spec", "managedBy"], "trainer.kubeflow.org/trainjob-controller"),
];

/// The controller that creates the pods of an `MPIJob` of `kubeflow.org/v2beta1`.
const MPI_OPERATOR: &str = "kubeflow.org/mpi-operator";

/// Kinds of Kubernetes that have pods, but are no kinds of ours.
const WITH_PODS: [(&str, &str); 2] = [("v1", "ReplicationController"), ("apps/v1", "ReplicaSet")];

/// Kinds with pods whose number no pod set can say, and why.
const UNSTEADY: [(&str, &str, &str); 4] = [
    (
        "batch/v1",
        "CronJob",
        "has no fixed number of pods: they come and go with its schedule; wrap a Job instead",
    ),
    (
        "batch.volcano.sh/v1alpha1",
        "CronJob",
        "has no fixed number of pods: they come and go with its schedule; wrap a Job instead",
    ),
    (
        "ray.io/v1",
        "RayCronJob",
        "has no fixed number of pods: they come and go with its schedule; wrap a RayJob instead",
    ),
    (
        "apps/v1",
        "DaemonSet",
        "has no fixed number of pods: they come and go with the nodes; wrap a Job or a Deployment instead",
    ),
];

/// Warns of what a template may say, but probably does not mean.
pub(super) fn check(
    object: &Value,
    path: &str,
    around: &ValidationContext<'_>,
    report: &mut Findings,
) {
    let kind = Kind::of_object(object);
    let of_any_version = Kind::of_object_of_any_version(object);
    if of_any_version.group() == "ray.io" {
        runs_on(object, path, report);
        goes_at_failure(object, path, around.deletion_on_failure_grace, report);
    } else {
        lifetime(object, path, report);
    }
    if of_any_version.is_known() {
        suspended(of_any_version, object, path, report);
    }
    if kind.is_known() {
        for (_, fields, usual) in MANAGERS.iter().filter(|(group, ..)| *group == kind.group()) {
            let field = format!("{path}.{}", fields.join("."));
            managed(field, at(object, fields), usual, report);
        }
        jobs::check(kind, object, path, around.failure_grace, report);
        claims(kind, object, path, report);
    }
    if Kind::is_object_of_mpi_operator(object) {
        let given = &object["spec"]["runPolicy"]["managedBy"];
        managed(format!("{path}.spec.runPolicy.managedBy"), given, MPI_OPERATOR, report);
    }
}

/// Why no pod set can say how many pods a kind has.
pub(super) fn unsteady(api_version: &str, kind: &str) -> Option<&'static str> {
    let found = UNSTEADY.iter().find(|(version, name, _)| (*version, *name) == (api_version, kind));
    found.map(|(_, _, why)| *why)
}

/// Warns of components of which it is certain that they have pods, though they declare none, and of those whose number
/// of pods changes. An AppWrapper without any pod set is denied.
pub(super) fn uncounted(components: &[Judged], report: &mut Findings) {
    let has_any =
        |component: &Judged| component.pod_sets.as_ref().is_some_and(|sets| !sets.is_empty());
    if !components.iter().any(has_any) {
        return;
    }
    for (index, component) in components.iter().enumerate() {
        let name = (component.api_version.as_str(), component.kind.as_str());
        if let Some(why) = unsteady(name.0, name.1) {
            let field = format!("spec.components[{index}].template.kind");
            report.doubtful(field, Some(name.1), why);
        } else if WITH_PODS.contains(&name) && !has_any(component) {
            let message = format!(
                "the pods of a {} without pod sets use no quota and are not watched: declare its pod \
                 sets",
                component.kind
            );
            report.doubtful(format!("spec.components[{index}].podSets"), None, message);
        }
    }
}

/// An object that is deleted soon after it has finished: one of which nobody saw the end is missing, and runs again.
fn lifetime(object: &Value, path: &str, report: &mut Findings) {
    for fields in LIFETIMES {
        let given = at(object, fields);
        if given.as_u64().is_some_and(|seconds| seconds < LIFETIME_MIN) {
            let message = format!(
                "if the controller does not run while the finished object exists, the object is missing and runs again: \
                 give at least {LIFETIME_MIN}, or leave it out and set successTTLDuration"
            );
            report.doubtful(format!("{path}.{}", fields.join(".")), Some(&text(given)), message);
        }
    }
}

/// An object that waits to be resumed: it has no pods, and the AppWrapper fails.
fn suspended(kind: &Kind, object: &Value, path: &str, report: &mut Findings) {
    let paused = (kind.kind == "Deployment").then_some(PAUSED);
    for fields in SUSPENDED.into_iter().chain(paused) {
        if at(object, fields) == &Value::Bool(true) {
            let message = "nobody resumes it, so its pods stay missing: leave this field out; Kueue suspends the \
                           AppWrapper instead";
            report.doubtful(format!("{path}.{}", fields.join(".")), Some("true"), message);
        }
    }
}

/// Volume claims that nobody deletes: those of an attempt stay, and the pods of the next one find them.
fn claims(kind: &Kind, object: &Value, path: &str, report: &mut Findings) {
    let Some((_, fields)) = CLAIMS.iter().find(|(name, _)| *name == kind.kind) else { return };
    let spec = at(object, fields);
    let policy = &spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"];
    if template::has(spec, "volumeClaimTemplates") && policy != "Delete" {
        let message = "the claims stay when the object is deleted, and the next attempt uses them again: to have them \
                       deleted, set persistentVolumeClaimRetentionPolicy.whenDeleted to Delete";
        report.doubtful(format!("{path}.{}.volumeClaimTemplates", fields.join(".")), None, message);
    }
}

/// A field that names the controller that creates the pods.
pub(super) fn managed(field: String, given: &Value, usual: &str, report: &mut Findings) {
    if let Some(name) = given.as_str().filter(|name| *name != usual) {
        let message = format!(
            "{usual} then leaves the resource alone, and its pods are missing unless another controller creates them: \
             leave this field out, also with MultiKueue"
        );
        report.doubtful(field, Some(name), message);
    }
}

/// A `RayJob` whose cluster stays, or stays for a while: it makes its pods again where they are deleted. Or one that deletes
/// itself.
fn runs_on(object: &Value, path: &str, report: &mut Findings) {
    if object["kind"] != "RayJob" {
        return;
    }
    let spec = &object["spec"];
    if spec["shutdownAfterJobFinishes"] == Value::Bool(false) {
        let field = format!("{path}.spec.shutdownAfterJobFinishes");
        let message = "the cluster runs on after the job, and the AppWrapper does not end: leave it out, or set it to \
                       true";
        report.doubtful(field, Some("false"), message);
    }
    let (strategy, field) = (&spec["deletionStrategy"], format!("{path}.spec.deletionStrategy"));
    let lifetime = &spec["ttlSecondsAfterFinished"];
    if keeps_cluster_for_lifetime(spec) {
        let instead = if strategy.is_null() { "" } else { "use DeleteCluster, and " };
        let message = format!(
            "the cluster runs on for that many seconds after the job, and the AppWrapper does not end before: \
             {instead}leave it out"
        );
        let field = format!("{path}.spec.ttlSecondsAfterFinished");
        report.doubtful(field, Some(&text(lifetime)), message);
    }
    if is_set(lifetime) && deletion_rules(strategy).next().is_some() {
        let field = format!("{path}.spec.ttlSecondsAfterFinished");
        let message = "KubeRay refuses it beside deletionRules: use ttlSeconds of the rules";
        report.doubtful(field, Some(&text(lifetime)), message);
    }
    if delays_deletion(strategy) {
        let message = "the cluster runs on for ttlSeconds after the job has succeeded, and the AppWrapper does not end \
                       before: use DeleteCluster without ttlSeconds";
        report.doubtful(field.clone(), None, message);
    }
    if keeps_cluster(strategy) {
        let message = "the cluster runs on after the job has succeeded, and the AppWrapper does not end: use \
                       DeleteCluster, or leave it out";
        report.doubtful(field.clone(), None, message);
    }
    if deletes_itself(strategy, lifetime) {
        let message = format!(
            "if the controller does not see how the RayJob ends before the RayJob deletes itself, the RayJob is \
             missing and runs again: use DeleteCluster, or give at least {LIFETIME_MIN} seconds"
        );
        report.doubtful(field, None, message);
    }
}

/// A `RayJob` whose pods go when its job fails, though those of a failed AppWrapper are to stay for so long.
fn goes_at_failure(object: &Value, path: &str, grace: Period, report: &mut Findings) {
    if object["kind"] == "RayJob" && deletes_at_failure(&object["spec"], grace) {
        let message = "KubeRay deletes the cluster when the job fails, so deletionOnFailureGracePeriodDuration keeps \
                       none of its pods: give deletionRules with DeleteCluster for jobStatus SUCCEEDED alone";
        report.doubtful(format!("{path}.spec.deletionStrategy"), None, message);
    }
}

/// Whether KubeRay deletes the cluster of a job that has failed, earlier than after this period.
fn deletes_at_failure(spec: &Value, grace: Period) -> bool {
    let is_soon = |seconds: &Value| Period::from_secs(seconds.as_u64().unwrap_or(0)) < grace;
    let deletes =
        |one: &Value| matches!(one["policy"].as_str(), Some("DeleteCluster" | "DeleteSelf"));
    let (strategy, lifetime) = (&spec["deletionStrategy"], &spec["ttlSecondsAfterFinished"]);
    if strategy.is_null() {
        return spec["shutdownAfterJobFinishes"] != Value::Bool(false) && is_soon(lifetime);
    }
    let is_of_failure = |condition: &Value| {
        condition["jobStatus"] == "FAILED" || condition["jobDeploymentStatus"] == "Failed"
    };
    deletes(&strategy["onFailure"]) && is_soon(lifetime)
        || deletion_rules(strategy).any(|rule| {
            let condition = &rule["condition"];
            deletes(rule) && is_of_failure(condition) && is_soon(&condition["ttlSeconds"])
        })
}

/// Whether a number of seconds is more than 0.
fn is_set(seconds: &Value) -> bool {
    seconds.as_u64().is_some_and(|seconds| seconds > 0)
}

/// The rules of the `deletionStrategy` of a `RayJob`.
fn deletion_rules(strategy: &Value) -> impl Iterator<Item = &Value> {
    strategy["deletionRules"].as_array().into_iter().flatten()
}

/// Whether a `deletionStrategy` leaves pods of a job that has succeeded.
fn keeps_cluster(strategy: &Value) -> bool {
    let mut rules = deletion_rules(strategy).peekable();
    let of_success = strategy["onSuccess"]["policy"].as_str();
    matches!(of_success, Some("DeleteNone" | "DeleteWorkers"))
        || rules.peek().is_some() && !rules.any(deletes_cluster)
}

/// Whether a rule deletes the cluster of a job that has succeeded.
fn deletes_cluster(rule: &Value) -> bool {
    matches!(rule["policy"].as_str(), Some("DeleteCluster" | "DeleteSelf"))
        && rule["condition"]["jobStatus"] == "SUCCEEDED"
}

/// Whether the cluster of a `RayJob` stays after the success of its job because of `ttlSecondsAfterFinished`.
fn keeps_cluster_for_lifetime(spec: &Value) -> bool {
    let (strategy, lifetime) = (&spec["deletionStrategy"], &spec["ttlSecondsAfterFinished"]);
    if strategy.is_null() {
        spec["shutdownAfterJobFinishes"] != Value::Bool(false) && is_late("DeleteCluster", lifetime)
    } else {
        let policy = strategy["onSuccess"]["policy"].as_str();
        policy.is_some_and(|policy| is_late(policy, lifetime))
    }
}

/// Whether every rule that deletes the cluster of a job that has succeeded does so only after a while.
fn delays_deletion(strategy: &Value) -> bool {
    let mut rules = deletion_rules(strategy).filter(|rule| deletes_cluster(rule)).peekable();
    let is_delayed = |rule: &Value| {
        let policy = rule["policy"].as_str().unwrap_or_default();
        is_late(policy, &rule["condition"]["ttlSeconds"])
    };
    rules.peek().is_some() && rules.all(is_delayed)
}

/// Whether a policy deletes the cluster so many seconds after the end of the job, although it could do so earlier. A `RayJob`
/// must not delete itself at once.
fn is_late(policy: &str, seconds: &Value) -> bool {
    let seconds = seconds.as_u64().unwrap_or(0);
    match policy {
        "DeleteCluster" => seconds > 0,
        "DeleteSelf" => seconds > LIFETIME_MIN,
        _ => false,
    }
}

/// Whether a `deletionStrategy` deletes the `RayJob` soon after its end.
fn deletes_itself(strategy: &Value, lifetime: &Value) -> bool {
    let is_itself = |one: &Value| one["policy"] == "DeleteSelf";
    let is_soon = |seconds: &Value| seconds.as_u64().unwrap_or(0) < LIFETIME_MIN;
    let mut old = ["onSuccess", "onFailure"].into_iter().map(|end| &strategy[end]);
    old.any(is_itself) && is_soon(lifetime)
        || deletion_rules(strategy)
            .any(|rule| is_itself(rule) && is_soon(&rule["condition"]["ttlSeconds"]))
}

fn at<'a>(object: &'a Value, fields: &[&str]) -> &'a Value {
    fields.iter().fold(object, |node, field| &node[*field])
}
