//! A status that somebody else wrote, or that is too large.

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::harness::{Case, job, pod, tuned, without_webhook, wrapper};
use crate::objects::config_map;

const FAR: &str = "9999-12-31T23:59:59Z";
const PAST: &str = "2026-01-01T00:00:00Z";

/// Patches of `status` that no controller makes, each with whether the definition must refuse it, because
/// it could not be read.
fn garbage() -> Vec<(Value, bool)> {
    let condition = |kind: &str, status: &str, time: &str| {
        json!({"conditions": [{"type": kind, "status": status, "reason": "R", "message": "",
            "lastTransitionTime": time}]})
    };
    vec![
        (json!({"phase": "Hibernating"}), true),
        (json!({"phase": "running"}), true),
        (json!({"phase": 7}), true),
        (json!({"phase": "x".repeat(10_000)}), true),
        (json!({"retryAfter": FAR}), true),
        (json!({"retryAfter": "0001-01-01T00:00:00Z"}), true),
        (json!({"retryAfter": "2026-01-01T00:00:00+99:00"}), true),
        (condition("QuotaReserved", "True", FAR), true),
        (condition("QuotaReserved", "Perhaps", PAST), true),
        (condition("QuotaReserved", "True", "yesterday"), true),
        (json!({"conditions": [{"type": "QuotaReserved"}]}), true),
        (json!({"resettingCount": -1}), true),
        (json!({"resettingCount": -2_147_483_648_i64}), true),
        (json!({"resettingCount": 99_999_999_999_u64}), true),
        (json!({"attempts": [{"attempt": -1}]}), true),
        (json!({"attempts": [{"attempt": 0, "outcome": "Exploded"}]}), true),
        (json!({"attempts": [{"attempt": 0, "endedAt": FAR}]}), true),
        (json!({"attempts": vec![json!({"attempt": 0}); 500]}), true),
        (json!({"since": {"deployed": FAR}}), true),
        (json!({"since": {"podSets": [{"podSet": "0-0", "ready": true, "since": FAR}]}}), true),
        (json!({"retryCounts": [{"policy": "p", "rule": "r", "count": -5}]}), true),
        (json!({"avoidNodes": ["a b"]}), true),
        (json!({"avoidNodes": vec!["node"; 1000]}), true),
        (json!({"pendingMemory": [{"component": -1, "podSet": 0, "container": "main"}]}), true),
        (
            json!({"pendingMemory": [{"component": 0, "podSet": 0, "container": "main", "request": "much"}]}),
            true,
        ),
        (json!({"componentStatus": [{"name": "n".repeat(1000)}]}), true),
        (json!({"componentStatus": [{"podSets": [{"path": "template", "replicas": -1}]}]}), true),
        (json!({"componentStatus": vec![json!({}); 6000]}), true),
        // what can be read, and is not true
        (json!({"phase": ""}), false),
        (json!({"phase": "Terminating"}), false),
        (json!({"phase": "Suspended"}), false),
        (json!({"attempts": [{"attempt": 7}]}), false),
        (json!({"attempts": null, "componentStatus": null, "since": null}), false),
        (json!({"retryAfter": "2150-01-01T00:00:00Z"}), false),
        (json!({"since": {"deleting": "2150-01-01T00:00:00Z"}}), false),
        (condition("QuotaReserved", "False", "2150-01-01T00:00:00Z"), false),
        (json!({"resettingCount": i32::MAX}), false),
    ]
}

async fn patch_status(case: &Case, name: &str, status: &Value) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({"status": status}));
    case.wrappers().patch_status(name, &PatchParams::default(), &patch).await.map(drop)
}

#[test]
fn no_status_stops_a_deletion_or_a_suspension() {
    without_webhook("no_status_stops_a_deletion_or_a_suspension", async |case| {
        let names = |index: usize| [format!("deleted-{index}"), format!("suspended-{index}")];
        for index in 0..garbage().len() {
            for name in names(index) {
                case.wrap(&name, json!({}), vec![pod(&name, &[])]).await;
            }
        }
        for (index, (status, must_be_refused)) in garbage().iter().enumerate() {
            for name in names(index) {
                case.ready(&name, 0).await;
                let refused = patch_status(&case, &name, status).await.is_err();
                if refused != *must_be_refused {
                    // said at the end: first, what follows
                    eprintln!("refused: {refused}, {status}");
                }
            }
            let [deleted, suspended] = names(index);
            case.delete_wrapper(&deleted).await;
            case.suspend(&suspended, true).await;
        }
        for (index, (status, _)) in garbage().iter().enumerate() {
            let [deleted, suspended] = names(index);
            case.gone("AppWrapper", &deleted).await;
            let seen = case.phase(&suspended, "Suspended").await;
            for kind in ["QuotaReserved", "ResourcesDeployed"] {
                assert_eq!(seen.condition(kind), "False", "{status}");
            }
            for name in [deleted, suspended] {
                assert!(case.stored("v1", "Pod", &name).await.is_none(), "{status}");
            }
        }
    });
}

#[test]
fn the_definition_refuses_what_cannot_be_read() {
    without_webhook("the_definition_refuses_what_cannot_be_read", async |case| {
        let mut aw = wrapper("aw", json!({}), vec![config_map("c")]);
        aw["spec"]["suspend"] = true.into();
        aw["spec"]["managedBy"] = "example.com/nobody".into();
        case.create(aw).await;
        for (status, must_be_refused) in garbage() {
            let answer = patch_status(&case, "aw", &status).await;
            assert_eq!(answer.is_err(), must_be_refused, "{status}: {answer:?}");
        }
        // all that the Go controller writes is taken
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "AppWrapperResuming", "message": "Suspend is false",
                "lastTransitionTime": PAST, "observedGeneration": 3})
        };
        let kinds =
            ["QuotaReserved", "ResourcesDeployed", "PodsReady", "Unhealthy", "DeletingResources"];
        let conditions = kinds.map(condition);
        for phase in [
            "Suspended",
            "Resuming",
            "Running",
            "Resetting",
            "Suspending",
            "Succeeded",
            "Failed",
            "Terminating",
            "",
        ] {
            let status = json!({
                "phase": phase, "resettingCount": 2,
                "conditions": conditions,
                "componentStatus": [
                    {"name": "c", "kind": "ConfigMap", "apiVersion": "v1", "podSets": null,
                        "conditions": [condition("ResourcesDeployed")]},
                    {"name": "j", "kind": "Job", "apiVersion": "batch/v1", "conditions": [],
                        "podSets": [{"path": "template.spec.template", "replicas": 1, "annotations": {"a": "b"}}]},
                ],
            });
            patch_status(&case, "aw", &status).await.expect("the Go controller's status is taken");
        }
    });
}

#[test]
fn a_recorded_uid_authorises_no_deletion() {
    without_webhook("a_recorded_uid_authorises_no_deletion", async |case| {
        let mut victim = config_map("victim");
        victim["metadata"]["labels"] = json!({"workload.codeflare.dev/appwrapper": "aw"});
        let victim = case.create(victim).await;
        case.wrap("aw", json!({}), vec![config_map("c"), pod("p", &[])]).await;
        case.ready("aw", 0).await;
        let seen = case.log().last("AppWrapper", "aw").cloned().expect("it is there");
        let mut entries = seen.object["status"]["componentStatus"].clone();
        entries[0]["name"] = "victim".into();
        entries[0]["uid"] = json!(victim.metadata.uid);
        case.change_status("aw", json!({"componentStatus": entries})).await;
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        let stored = case.stored("v1", "ConfigMap", "victim").await.expect("it is still there");
        assert_eq!(stored.metadata.resource_version, victim.metadata.resource_version);
        assert!(case.stored("v1", "ConfigMap", "c").await.is_none(), "what is ours is deleted");
    });
}

#[test]
fn a_recorded_uid_makes_no_pods_ours() {
    without_webhook("a_recorded_uid_makes_no_pods_ours", async |case| {
        let mut theirs = job("theirs", json!({}), &[]);
        let label = json!({"workload.codeflare.dev/appwrapper": "aw"});
        theirs["spec"]["template"]["metadata"]["labels"] = label;
        let theirs = case.create(theirs).await;
        let pod_of_theirs = case.pod("theirs-", "Running").await;
        case.wrap("aw", json!({}), vec![job("j", json!({}), &[])]).await;
        case.ready("aw", 0).await;
        let seen = case.log().last("AppWrapper", "aw").cloned().expect("it is there");
        let mut entries = seen.object["status"]["componentStatus"].clone();
        entries[0]["uid"] = json!(theirs.metadata.uid);
        case.change_status("aw", json!({"componentStatus": entries})).await;
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        let alive = case.log().last("Pod", &pod_of_theirs.name).map(|pod| pod.uid().to_owned());
        assert_eq!(alive.as_deref(), Some(pod_of_theirs.uid()), "it was left alone");
    });
}

#[test]
fn a_negative_count_gives_no_retries() {
    without_webhook("a_negative_count_gives_no_retries", async |case| {
        let life = [("run-for", "1s"), ("exit-code", "1")];
        let settings = tuned(&[("retryLimit", "1")]);
        case.wrap("aw", settings, vec![job("j", json!({}), &life)]).await;
        case.phase("aw", "Resuming").await;
        // the definition may refuse it
        drop(patch_status(&case, "aw", &json!({"resettingCount": i32::MIN})).await);
        let done = case.phase("aw", "Failed").await;
        assert!(done.attempts().len() <= 3, "{:?}", done.attempts());
    });
}

#[test]
fn no_pod_runs_on_behind_a_forged_end() {
    without_webhook("no_pod_runs_on_behind_a_forged_end", async |case| {
        for phase in ["Succeeded", "Failed"] {
            let name = phase.to_lowercase();
            let settings = tuned(&[("deletionOnFailureGracePeriodDuration", "1h")]);
            case.wrap(&name, settings, vec![job(&name, json!({}), &[])]).await;
            case.ready(&name, 0).await;
            let released = json!({"type": "QuotaReserved", "status": "False", "reason": "Forged",
                "message": "", "lastTransitionTime": PAST});
            let deployed = json!({"type": "ResourcesDeployed", "status": "True", "reason": "Forged",
                "message": "", "lastTransitionTime": PAST});
            let forged = json!({"phase": phase, "conditions": [released, deployed]});
            case.change_status(&name, forged).await;
            let seen = case.condition(&name, "ResourcesDeployed", "False").await;
            assert_eq!(seen.phase(), phase, "a terminal phase is terminal");
            assert!(case.stored("batch/v1", "Job", &name).await.is_none());
        }
    });
}

#[test]
fn quota_is_not_released_by_a_word() {
    without_webhook("quota_is_not_released_by_a_word", async |case| {
        case.wrap("aw", json!({}), vec![pod("p", &[])]).await;
        let running = case.ready("aw", 0).await;
        let mut conditions = running.object["status"]["conditions"].clone();
        for condition in conditions.as_array_mut().into_iter().flatten() {
            if condition["type"] == "QuotaReserved" {
                condition["status"] = "False".into();
            }
        }
        case.change_status("aw", json!({"conditions": conditions})).await;
        case.condition("aw", "QuotaReserved", "False").await;
        let seen = case.condition("aw", "QuotaReserved", "True").await;
        assert_eq!(seen.phase(), "Running");
        case.end_pod("p", "0").await;
        case.phase("aw", "Succeeded").await;
    });
}

/// Lets the API server refuse every change of a status in this namespace, by a policy and its binding of which these fields
/// tell why.
async fn refuse_statuses(case: &Case, mut policy: Value, mut binding: Value) {
    let api = |kind: &str| -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        Api::all_with(case.client.clone(), &ApiResource::from_gvk(&gvk))
    };
    let name = format!("no-status-{}", case.namespace);
    let create = async |kind: &str, spec: Value| {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        api(kind).create(&PostParams::default(), &object).await.expect("the policy is accepted");
    };
    let rule = json!({
        "apiGroups": ["workload.codeflare.dev"], "apiVersions": ["*"], "operations": ["UPDATE"],
        "resources": ["appwrappers/status"],
    });
    let namespace = json!({"matchLabels": {"kubernetes.io/metadata.name": case.namespace}});
    policy["failurePolicy"] = "Fail".into();
    policy["matchConstraints"] = json!({"resourceRules": [rule], "namespaceSelector": namespace});
    create("ValidatingAdmissionPolicy", policy).await;
    binding["policyName"] = name.as_str().into();
    binding["validationActions"] = json!(["Deny"]);
    create("ValidatingAdmissionPolicyBinding", binding).await;
    // it holds from some moment on, which nothing announces but a refusal
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let patch = Patch::Merge(json!({"status": {"resettingCount": 1}}));
    while case.wrappers().patch_status("deleted", &params, &patch).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

/// A deletion and a suspension that begin while such a policy refuses each status; an event tells of it for this reason.
fn go_on_without_a_status(name: &str, policy: Value, binding: Value, reason: &str) {
    without_webhook(name, async move |case| {
        for name in ["deleted", "suspended"] {
            case.wrap(name, json!({}), vec![job(name, json!({}), &[])]).await;
            case.ready(name, 0).await;
        }
        refuse_statuses(&case, policy, binding).await;
        case.delete_wrapper("deleted").await;
        case.suspend("suspended", true).await;
        case.gone("AppWrapper", "deleted").await;
        for prefix in ["deleted-", "suspended-"] {
            case.until(&format!("no pod {prefix} is left"), |log| {
                let mut pods: Vec<_> =
                    log.all("Pod").filter(|it| it.name.starts_with(prefix)).collect();
                pods.pop().filter(|last| last.deleted).map(drop)
            })
            .await;
        }
        let stored = case.phase("suspended", "Running").await;
        assert_eq!(stored.condition("QuotaReserved"), "True", "nothing else can be stored");
        case.warning("suspended", reason).await;
        assert!(case.stored("batch/v1", "Job", "suspended").await.is_none());
    });
}

#[test]
fn what_is_asked_for_does_not_wait_for_a_status_that_cannot_be_stored() {
    let validation = json!({"expression": "false", "message": "request is too large"});
    let policy = json!({"validations": [validation]});
    let name = "what_is_asked_for_waits_for_no_status";
    go_on_without_a_status(name, policy, json!({}), "ObjectTooLarge");
}

/// Such a policy says that it is not configured yet, until its parameter is created.
#[test]
fn what_is_asked_for_does_not_wait_for_the_parameter_of_a_policy() {
    let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let policy = json!({"paramKind": kind, "validations": [{"expression": "true"}]});
    let binding = json!({"paramRef": {"name": "none", "parameterNotFoundAction": "Deny"}});
    let name = "what_is_asked_for_waits_for_no_parameter";
    go_on_without_a_status(name, policy, binding, "WriteFailed");
}
