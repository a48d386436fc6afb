//! The roles of the manifests and the calls of the program, as the API server's audit log has them:
//! nothing is missing, and nothing is there that is not used.

use std::collections::BTreeSet;

use appwrapper::kinds::Kind;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::aw::failing;
use crate::enemy::ours::leave_a_replica_set_behind;
use crate::harness::{Case, job, pod, pod_template, tuned, wrapper};
use crate::installed::{ACCOUNT, INSTALLED, NAMESPACE, installed_test};
use crate::kueue::{Queue, no_fit};
use crate::nodes::Own;
use crate::objects::{pytorch_job, ray_cluster};
use crate::progress_server::report_progress;
use crate::suspicion::evidence_comes_and_goes;

/// A right, or its use: group, resource (with its subresource), verb.
type Right = (String, String, String);

/// Rights whose use the audit log of this control plane need not show.
const UNSEEN: [(&str, &str, &str); 3] = [
    // an event that comes again within minutes: not in every run
    ("events.k8s.io", "events", "patch"),
    // before a creation that comes late after the last version that is known: not in every run
    ("workload.codeflare.dev", "appwrappers", "get"),
    // asked about by the admission plugin OwnerReferencesPermissionEnforcement, where it is on
    ("workload.codeflare.dev", "appwrappers/finalizers", "update"),
];

/// The kinds that [`wrap_everything`] wraps.
const WRAPPED: [(&str, &str); 7] = [
    ("", "Pod"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("batch", "Job"),
    ("jobset.x-k8s.io", "JobSet"),
    ("kubeflow.org", "PyTorchJob"),
    ("ray.io", "RayCluster"),
];

/// Whether it is a right to kinds that may be wrapped and are not here: they are granted with others, in the
/// same rule, or not served.
fn is_of_another_kind(group: &str, resource: &str) -> bool {
    let is_pod_group = group.starts_with("scheduling.") && resource == "podgroups";
    is_pod_group
        || Kind::all().filter(|row| row.group() == group).any(|row| {
            let is_wrapped = WRAPPED.contains(&(group, row.kind));
            !is_wrapped && row.plural == resource || row.reads.contains(&resource)
        })
}

/// Rights that every account has: `system:basic-user`.
const EVERYBODYS: [&str; 3] =
    ["selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"];

fn granted(rules: Option<Vec<PolicyRule>>) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for rule in rules.unwrap_or_default() {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let right = |verb: &String| (group.clone(), resource.clone(), verb.clone());
                all.extend(rule.verbs.iter().map(right));
            }
        }
    }
    all
}

/// What the account was seen to do, and what of it was refused.
fn calls() -> (BTreeSet<Right>, Vec<Value>) {
    let log = INSTALLED.plane.audit_log().expect("it is kept");
    let text = std::fs::read_to_string(log).expect("it can be read");
    let account = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let (mut used, mut refused) = (BTreeSet::new(), vec![]);
    for line in text.lines().filter(|line| line.contains(&account)) {
        // the last line may be half written
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let object = &event["objectRef"];
        let (Some(resource), true) =
            (object["resource"].as_str(), event["user"]["username"] == *account)
        else {
            continue;
        };
        // the Secret that a forged pod of `enemy::ours` names as its owner is not for the controller to read
        let is_forged = event["verb"] == "get"
            && object["resource"] == "secrets"
            && object["name"] == "s"
            && object["namespace"] != NAMESPACE;
        let is_refused = event["annotations"]["authorization.k8s.io/decision"] == "forbid";
        if is_refused && is_forged {
            continue;
        }
        if is_refused {
            refused.push(event.clone());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = match object["subresource"].as_str() {
            Some(sub) => format!("{resource}/{sub}"),
            None => resource.to_owned(),
        };
        used.insert((text(&object["apiGroup"]), resource, text(&event["verb"])));
    }
    (used, refused)
}

/// Every kind that may be wrapped but those; each is deleted behind the controller's back once,
/// and all at the end.
async fn wrap_everything(case: &Case) {
    let labels = json!({"app": "a"});
    let mut template = pod_template(&[]);
    template["metadata"]["labels"] = labels.clone();
    let mut always = template.clone();
    always["spec"]["restartPolicy"] = "Always".into();
    let set = |kind: &str| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {
            "replicas": 1, "selector": {"matchLabels": labels}, "template": always, "serviceName": "a"}})
    };
    let mut deployment = set("Deployment");
    deployment["spec"].as_object_mut().expect("an object").remove("serviceName");
    let jobs = json!([{"name": "j", "template": {"spec": {"template": template}}}]);
    let templates = vec![
        pod("a", &[]),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"clusterIP": "None"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        deployment,
        set("StatefulSet"),
        job("a", json!({}), &[]),
        json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "s"}, "spec": {"replicatedJobs": jobs}}),
        pytorch_job("t", &[], &[]),
        ray_cluster("r"),
    ];
    let kinds: Vec<(String, String, String)> = templates
        .iter()
        .map(|each| {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            (text(&each["apiVersion"]), text(&each["kind"]), text(&each["metadata"]["name"]))
        })
        .collect();
    // a pause that is longer than a version is believed
    let settings = tuned(&[("retryPausePeriodDuration", "3s"), ("retryLimit", "9")]);
    case.create(wrapper("all", settings, templates)).await;
    case.condition("all", "PodsReady", "True").await;
    for (attempt, (api_version, kind, name)) in kinds.iter().enumerate() {
        case.delete(api_version, kind, name).await;
        let count = i64::try_from(attempt).expect("a few") + 1;
        case.until(&format!("all is back, {kind} too"), |log| {
            let seen = log.last("AppWrapper", "all")?;
            let again = seen.object["status"]["resettingCount"] == count;
            (again && seen.phase() == "Running" && seen.condition("PodsReady") == "True")
                .then_some(())
        })
        .await;
    }
    case.delete_wrapper("all").await;
    case.gone("AppWrapper", "all").await;
}

/// Guides of retries, a queue, and a node that goes.
async fn use_the_rest(case: &Case) {
    case.create(json!({"apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": "rights"}, "spec": {"rules": []}}))
        .await;
    let mut guided = wrapper("guided", tuned(&[("retryPolicies", "rights")]), vec![pod("g", &[])]);
    guided["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "rights"});
    case.create(guided).await;
    case.phase("guided", "Suspended").await;
    let own = Own::new(case, 1).await;
    case.create(wrapper("lost", json!({}), vec![own.pod("l", &[])])).await;
    case.condition("lost", "PodsReady", "True").await;
    own.delete(&own.name(0)).await;
    case.condition("lost", "Unhealthy", "True").await;
    let own = Own::new(case, 2).await;
    evidence_comes_and_goes(case, &own).await;
    own.clear().await;
    case.create(failing("failed")).await;
    case.condition("failed", "QuotaReserved", "False").await;
    for name in ["failed", "guided", "lost"] {
        case.delete_wrapper(name).await;
        case.gone("AppWrapper", name).await;
    }
    return_to_the_queue(case).await;
    // the CA for Prometheus is put right
    let config_maps: Api<ConfigMap> = Api::namespaced(case.client.clone(), NAMESPACE);
    let wrong = Patch::Merge(json!({"data": {"ca.crt": "x"}}));
    let params = PatchParams::default();
    let name = "appwrapper-webhook-ca";
    config_maps.patch(name, &params, &wrong).await.expect("it is there");
    let right = |found: Option<&ConfigMap>| {
        let data = found.and_then(|found| found.data.as_ref()).and_then(|data| data.get("ca.crt"));
        data.is_some_and(|text| text.contains("BEGIN CERTIFICATE") && !text.contains("KEY"))
    };
    let mended = kube::runtime::wait::await_condition(config_maps, name, right);
    mended.await.expect("ConfigMaps are watched");
    // half a certificate is cleared away
    let secrets: Api<Secret> = Api::namespaced(case.client.clone(), NAMESPACE);
    let half = Patch::Merge(json!({"data": {"next-ca.crt": "eA=="}}));
    let params = PatchParams::default();
    secrets.patch("appwrapper-webhook-cert", &params, &half).await.expect("it is there");
    let whole = |secret: Option<&Secret>| {
        let data = secret.and_then(|secret| secret.data.as_ref());
        data.is_some_and(|data| !data.contains_key("next-ca.crt"))
    };
    let cleared = kube::runtime::wait::await_condition(secrets, "appwrapper-webhook-cert", whole);
    cleared.await.expect("Secrets are watched");
}

/// An AppWrapper that fits nowhere: its Workload is listed and patched.
async fn return_to_the_queue(case: &Case) {
    Queue::of("rights-no-fit", 1).create(case).await;
    case.create(no_fit::unfit("rights-no-fit", "Requeue")).await;
    let up = ["", "Suspended", "Resuming", "Running"];
    let down = ["Resetting", "Suspending", "Suspended"];
    case.phases("aw", &[&up[..], &down[..], &["Resuming", "Running"]].concat()).await;
    case.delete_wrapper("aw").await;
    case.gone("AppWrapper", "aw").await;
}

/// Whoever may read the metrics gets them, and nobody else.
async fn read_metrics() {
    let said = INSTALLED.scrape("default", "stranger").await;
    assert!(said.is_err(), "a stranger gets nothing");
    let page = INSTALLED.page().await;
    for metric in ["appwrapper_leader 1", "appwrapper_certificate_expiry_timestamp_seconds"] {
        assert!(page.contains(metric), "{page}");
    }
}

#[test]
fn the_roles_grant_what_is_used_and_no_more() {
    installed_test("the_roles_grant_what_is_used_and_no_more", async |case| {
        wrap_everything(&case).await;
        use_the_rest(&case).await;
        leave_a_replica_set_behind(&case).await;
        read_metrics().await;
        report_progress(&case, "rights").await;
        let roles: Api<ClusterRole> = Api::all(case.client.clone());
        let own: Api<Role> = Api::namespaced(case.client.clone(), NAMESPACE);
        let mut all = granted(own.get(ACCOUNT).await.expect("a role").rules);
        all.extend(granted(own.get("appwrapper-progress").await.expect("a role").rules));
        let roles_of = ["controller", "history", "logs", "progress", "wrapped-kinds"];
        for name in roles_of.map(|name| format!("appwrapper-{name}")) {
            all.extend(granted(roles.get(&name).await.expect("a role").rules));
        }
        let (used, refused) = calls();
        assert!(refused.is_empty(), "refused: {refused:#?}");
        let missing: Vec<_> =
            used.difference(&all).filter(|(_, it, _)| !EVERYBODYS.contains(&it.as_str())).collect();
        assert!(missing.is_empty(), "used, and not granted: {missing:?}");
        let unused: Vec<_> = all
            .difference(&used)
            .filter(|(group, resource, _)| !is_of_another_kind(group, resource))
            .filter(|(group, resource, verb)| {
                !UNSEEN.contains(&(group.as_str(), resource.as_str(), verb.as_str()))
            })
            .collect();
        assert!(unused.is_empty(), "granted, and not used: {unused:?}");
    });
}
