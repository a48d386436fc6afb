//! Twenty AppWrappers in all phases, and how each goes on from there.
//!
//! Nothing goes on by itself: what would end by time has a whole day for it, until an annotation is
//! changed.

use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::harness::{Case, job, pod, tuned, wrapper};
use crate::objects::{app, config_map};

const LONG: &str = "24h";
const FORCE: &str = "forcefulDeletionGracePeriodDuration";
const PAUSE: &str = "retryPausePeriodDuration";
const GRACE: &str = "failureGracePeriodDuration";
const KEEP: &str = "deletionOnFailureGracePeriodDuration";

/// Names after the prefix.
const ALL: [&str; 20] = [
    "asleep",
    "suspended",
    "pod",
    "job",
    "beside",
    "app",
    "two",
    "retried",
    "waiting",
    "ailing",
    "resuming",
    "pausing",
    "resetting",
    "suspending",
    "succeeded",
    "failed",
    "kept",
    "failing",
    "ending",
    "plain",
];

/// Annotations and templates.
fn made(name: &str, kind: &str) -> (Value, Vec<Value>) {
    let mut settings = vec![
        ("admissionGracePeriodDuration", LONG),
        ("warmupGracePeriodDuration", LONG),
        (GRACE, if kind == "ailing" { LONG } else { "0s" }),
        (PAUSE, if kind == "pausing" { LONG } else { "0s" }),
        (FORCE, LONG),
    ];
    if ["failed", "kept", "failing"].contains(&kind) {
        settings.push(("retryLimit", "0"));
    }
    if kind == "kept" {
        settings.push((KEEP, LONG));
    }
    let stuck = || pod(&format!("{name}-stuck"), &[("stuck", "")]);
    let templates = match kind {
        "job" => vec![job(name, json!({"parallelism": 2, "completions": 2}), &[])],
        "beside" => vec![job(name, json!({}), &[]), config_map(name)],
        "app" => vec![app("Deployment", name, 1)],
        "two" => vec![pod(name, &[]), pod(&format!("{name}-2"), &[])],
        "waiting" => vec![pod(name, &[("never-ready", "")])],
        "resuming" => {
            let mut held = config_map(name);
            held["metadata"]["labels"] = json!({"held": name});
            vec![pod(name, &[]), held]
        }
        // a pod that has ended goes at once, whatever it is stuck in
        "resetting" | "failing" => vec![pod(name, &[]), stuck()],
        "suspending" | "ending" => vec![stuck()],
        "succeeded" => vec![pod(name, &[("run-for", "0s")])],
        _ => vec![pod(name, &[])],
    };
    (tuned(&settings), templates)
}

/// Brings twenty AppWrappers of a prefix into their phases.
pub async fn bring(case: &Case, prefix: &str) {
    let named = |kind: &str| format!("{prefix}-{kind}");
    hold_back(case, &named("resuming")).await;
    for kind in ALL {
        let name = named(kind);
        let (annotations, templates) = made(&name, kind);
        let mut aw = wrapper(&name, annotations, templates);
        aw["spec"]["suspend"] = (kind == "asleep").into();
        if kind == "ending" {
            // the Go controller drops it when it removes the finalizer
            aw["spec"]["failurePolicy"] = json!({"maxRestarts": 2});
        }
        case.create(aw).await;
    }
    let runs = ["asleep", "waiting", "resuming", "succeeded"];
    for kind in ALL.into_iter().filter(|kind| !runs.contains(kind)) {
        case.condition(&named(kind), "PodsReady", "True").await;
    }
    for kind in ["retried", "ailing", "pausing", "resetting", "failed", "kept", "failing"] {
        case.end_pod(&named(kind), "1").await;
    }
    for kind in ["suspended", "suspending"] {
        case.suspend(&named(kind), true).await;
    }
    case.delete_wrapper(&named("ending")).await;
    for (kind, phase) in [
        ("asleep", "Suspended"),
        ("suspended", "Suspended"),
        ("waiting", "Running"),
        ("resuming", "Resuming"),
        ("pausing", "Resetting"),
        ("resetting", "Resetting"),
        ("suspending", "Suspending"),
        ("succeeded", "Succeeded"),
        ("failed", "Failed"),
        ("kept", "Failed"),
        ("failing", "Failed"),
        ("ending", "Terminating"),
    ] {
        case.phase(&named(kind), phase).await;
    }
    case.condition(&named("ailing"), "Unhealthy", "True").await;
    case.condition(&named("kept"), "DeletingResources", "False").await;
    for kind in ["failed", "pausing"] {
        case.condition(&named(kind), "ResourcesDeployed", "False").await;
    }
    for kind in ["resetting", "suspending", "failing", "ending"] {
        case.ends(&named(&format!("{kind}-stuck"))).await;
    }
    case.gone("Pod", &named("resetting")).await;
    case.pod(&named("resuming"), "Running").await;
    runs_again(case, &named("retried"), 1).await;
}

/// What waited goes on, each as its phase says.
pub async fn go_on(case: &Case, prefix: &str) {
    let named = |kind: &str| format!("{prefix}-{kind}");
    for (kind, key) in [
        ("ailing", GRACE),
        ("pausing", PAUSE),
        ("resetting", FORCE),
        ("suspending", FORCE),
        ("failing", FORCE),
        ("ending", FORCE),
        ("kept", KEEP),
    ] {
        case.patch(&named(kind), json!({"metadata": {"annotations": tuned(&[(key, "0s")])}})).await;
    }
    let_go(case, &named("resuming")).await;
    for kind in ["asleep", "suspended"] {
        case.suspend(&named(kind), false).await;
    }
    case.suspend(&named("plain"), true).await;
    case.end_pod(&named("pod"), "0").await;
    let ready = json!({"metadata": {"annotations": {"sim/never-ready": Value::Null}}});
    case.change("v1", "Pod", &named("waiting"), ready).await;
    let job = case.pod(&named("job-"), "Running").await;
    case.end_pod(&job.name, "1").await;

    for kind in ["ailing", "pausing", "resetting", "job"] {
        runs_again(case, &named(kind), 1).await;
    }
    for kind in ["asleep", "suspended", "resuming", "waiting"] {
        runs_again(case, &named(kind), 0).await;
    }
    case.phase(&named("pod"), "Succeeded").await;
    for kind in ["kept", "failing"] {
        case.condition(&named(kind), "ResourcesDeployed", "False").await;
        case.phase(&named(kind), "Failed").await;
    }
    for kind in ["suspending", "plain"] {
        case.phase(&named(kind), "Suspended").await;
    }
    case.gone("AppWrapper", &named("ending")).await;
}

/// AppWrappers that have gone through both controllers are suspended, resumed and retried.
pub async fn is_looked_after(case: &Case, prefix: &str) {
    let named = |kind: &str| format!("{prefix}-{kind}");
    for kind in ["retried", "resetting", "app"] {
        case.suspend(&named(kind), true).await;
    }
    for kind in ["two", "suspended"] {
        case.end_pod(&named(kind), "1").await;
    }
    for (kind, restarts) in [("retried", 1), ("resetting", 1), ("app", 0)] {
        case.phase(&named(kind), "Suspended").await;
        case.suspend(&named(kind), false).await;
        runs_again(case, &named(kind), restarts).await;
    }
    runs_again(case, &named("two"), 1).await;
    runs_again(case, &named("suspended"), 1).await;
}

async fn runs_again(case: &Case, name: &str, restarts: i64) {
    case.until(&format!("{name} runs after {restarts} restarts"), |log| {
        let last = log.last("AppWrapper", name)?;
        let runs = last.phase() == "Running"
            && last.condition("PodsReady") == "True"
            && last.condition("Unhealthy") != "True";
        (runs && last.restarts() == restarts).then_some(())
    })
    .await;
}

/// No `ConfigMap` with this label can be created, for the time being.
async fn hold_back(case: &Case, name: &str) {
    let held = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "held.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 1,
            "objectSelector": {"matchLabels": {"held": name}},
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"],
            }],
        }],
    });
    let held: DynamicObject = serde_json::from_value(held).expect("an object");
    let created = hooks(case).create(&PostParams::default(), &held).await;
    created.expect("it is created");
}

async fn let_go(case: &Case, name: &str) {
    let deleted = hooks(case).delete(name, &kube::api::DeleteParams::default()).await;
    deleted.expect("it is deleted");
}

fn hooks(case: &Case) -> kube::Api<DynamicObject> {
    case.cluster_api("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
}

impl Case {
    /// Waits until a pod is being deleted.
    async fn ends(&self, name: &str) {
        self.until(&format!("{name} is being deleted"), |log| {
            let last = log.last("Pod", name)?;
            last.object["metadata"]["deletionTimestamp"].is_string().then_some(())
        })
        .await;
    }
}
