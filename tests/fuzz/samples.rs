//! What is broken: objects that use everything, and are let in as they are.

use appwrapper::webhook::judge::Endpoint;
use serde_json::{Value, json};

/// Every annotation that tunes an AppWrapper.
pub const ANNOTATIONS: [&str; 11] = [
    "workload.codeflare.dev.appwrapper/admissionGracePeriodDuration",
    "workload.codeflare.dev.appwrapper/warmupGracePeriodDuration",
    "workload.codeflare.dev.appwrapper/failureGracePeriodDuration",
    "workload.codeflare.dev.appwrapper/retryPausePeriodDuration",
    "workload.codeflare.dev.appwrapper/retryLimit",
    "workload.codeflare.dev.appwrapper/deletionOnFailureGracePeriodDuration",
    "workload.codeflare.dev.appwrapper/forcefulDeletionGracePeriodDuration",
    "workload.codeflare.dev.appwrapper/successTTLDuration",
    "workload.codeflare.dev.appwrapper/terminalExitCodes",
    "workload.codeflare.dev.appwrapper/retryableExitCodes",
    "workload.codeflare.dev.appwrapper/retryPolicies",
];

/// A Job of one pod.
pub fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"parallelism": 1, "template": pod()},
    })
}

fn pod() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main"}]}})
}

/// The object that a webhook is asked about.
pub fn of(endpoint: Endpoint) -> Value {
    match endpoint {
        Endpoint::MutateAppWrapper | Endpoint::ValidateAppWrapper => app_wrapper(),
        Endpoint::ValidateRetryPolicy => retry_policy(),
    }
}

fn app_wrapper() -> Value {
    let declared = json!([{"path": "template.spec.template", "replicas": 1}]);
    let job_spec = json!({"parallelism": 2, "completions": 2, "template": pod()});
    let job_set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": job_spec}}]},
    });
    let ray = json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"},
        "spec": {
            "headGroupSpec": {"template": pod()},
            "workerGroupSpecs": [{"replicas": 1, "numOfHosts": 2, "template": pod()}],
        },
    });
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {
            "name": "sample", "namespace": "team",
            "labels": {"kueue.x-k8s.io/queue-name": "main", "workload.codeflare.dev/user": "ann"},
            "annotations": {
                "workload.codeflare.dev.appwrapper/retryLimit": "2",
                "workload.codeflare.dev.appwrapper/successTTLDuration": "1h30m",
                "workload.codeflare.dev.appwrapper/terminalExitCodes": "1, 2",
                "workload.codeflare.dev.appwrapper/retryPolicies": "infra,ml",
            },
            "finalizers": ["workload.codeflare.dev/finalizer"],
        },
        "spec": {
            "suspend": true,
            "components": [
                {"template": job("work"), "podSets": declared,
                    "podSetInfos": [{"labels": {"a": "b"}, "tolerations": [{"key": "k"}]}]},
                {"template": job_set}, {"template": ray}, {"template": service},
            ],
            "failurePolicy": {"maxRestarts": 2, "rules": [{
                "name": "host", "action": "RestartAppWrapperAndIgnoreMaxRestarts",
                "onJobFailureReasons": ["BackoffLimitExceeded"],
                "onJobFailureMessagePatterns": ["node .* drained"], "targetComponents": ["work"],
            }]},
            "podFailurePolicy": {"rules": [
                {"action": "FailAppWrapper", "targetComponents": ["Job/work"],
                    "onExitCodes": {"containerName": "main", "operator": "In", "values": [42, 43]}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]},
            "executionPolicy": {"executionPolicyOrder": "InOrder", "rules": [
                {"targetComponents": ["work"], "waitForComponentsStatus": "Ready"},
            ]},
        },
        "status": {"phase": "Running", "conditions": [{"type": "ResourcesDeployed", "status": "True"}]},
    })
}

fn retry_policy() -> Value {
    let backoff = json!({"initialDelay": "10s", "multiplier": 2.0, "maxDelay": "5m"});
    json!({
        "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": "infra"},
        "spec": {
            "retryLimit": 5, "defaultAction": "Retry", "backoff": backoff, "antiAffinity": {"mode": "node"},
            "rules": [
                {"name": "oom", "action": "Retry", "containerName": "main", "onConditions": ["OOMKilled"],
                    "retryLimit": 3, "mutate": {"memory": {"factor": 1.5, "max": "64Gi"}}},
                {"action": "Fail", "onExitCodes": {"operator": "In", "values": [137, 138]}},
                {"action": "Retry", "onTerminationMessage": {"pattern": ".*TRANSIENT.*"}, "backoff": backoff},
                {"action": "Retry", "onFailureCategory": ["node", "storage_limit"], "includeInitContainers": true},
            ],
        },
    })
}

/// The question of an API server.
pub fn review(endpoint: Endpoint, operation: &str, old: &Value, new: &Value) -> Value {
    let (version, plural) = match endpoint {
        Endpoint::MutateAppWrapper | Endpoint::ValidateAppWrapper => ("v1beta2", "appwrappers"),
        Endpoint::ValidateRetryPolicy => ("v1alpha1", "retrypolicies"),
    };
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5", "operation": operation, "namespace": "team", "name": "sample",
            "resource": {"group": "workload.codeflare.dev", "version": version, "resource": plural},
            "userInfo": {"username": "ann", "uid": "u-1", "groups": ["g"], "extra": {"scopes": ["a"]}},
            "object": new, "oldObject": old,
            "options": {"kind": "DeleteOptions", "propagationPolicy": "Foreground"}, "dryRun": false,
        },
    })
}
