//! Who is who on a plane.

use std::process::Stdio;

use controlplane::{Tool, build};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{Case, PLANE, pod, test};

use super::{Queue, queued};

const KUEUE: &str = "system:serviceaccount:kueue-system:kueue-controller-manager";

async fn who_am_i(client: Client) -> (String, Vec<String>) {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let user = review.expect("anybody may ask").status.and_then(|status| status.user_info);
    let user = user.expect("it is said");
    (user.username.unwrap_or_default(), user.groups.unwrap_or_default())
}

#[test]
fn kueue_is_known_by_its_account_and_users_by_their_names() {
    test("kueue_is_known_by_its_account_and_users_by_their_names", async |_| {
        let path = PLANE.state_dir().join("kubeconfig-kueue");
        let kubeconfig = Kubeconfig::read_from(path).expect("it is there");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let kueue = Client::try_from(config.expect("it is complete")).expect("a client");
        let (name, groups) = who_am_i(kueue).await;
        assert_eq!(name, KUEUE);
        assert!(groups.contains(&"system:masters".to_owned()), "{groups:?}");

        let user = PLANE.client_of("ada", &["lovelace", "engines"]).expect("a client");
        let (name, groups) = who_am_i(user).await;
        assert_eq!(
            (name.as_str(), &groups[..2]),
            ("ada", &["lovelace".into(), "engines".into()][..])
        );
    });
}

/// What `suspend` says may be changed by Kueue alone, in one namespace.
async fn only_kueue_suspends(case: &Case) {
    let rule = json!({
        "apiGroups": ["workload.codeflare.dev"],
        "apiVersions": ["v1beta2"],
        "resources": ["appwrappers"],
        "operations": ["UPDATE"],
    });
    // what is false may be left out
    let suspends = |object: &str| format!("(has({object}.spec.suspend) && {object}.spec.suspend)");
    let (after, before) = (suspends("object"), suspends("oldObject"));
    let expression = format!("{after} == {before} || request.userInfo.username == '{KUEUE}'");
    let policy = json!({
        "metadata": {"name": case.namespace},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression}],
        },
    });
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": case.namespace}});
    let binding = json!({
        "metadata": {"name": case.namespace},
        "spec": {
            "policyName": case.namespace,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": here},
        },
    });
    for (kind, object) in
        [("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)]
    {
        let object = serde_json::from_value(object).expect("an object");
        let api = case.cluster_api("admissionregistration.k8s.io/v1", kind);
        api.create(&PostParams::default(), &object).await.expect("it is accepted");
    }
}

#[test]
fn admission_can_tell_kueue_from_a_user() {
    test("admission_can_tell_kueue_from_a_user", async |case| {
        Queue::of("kueue-identity", 1).create(&case).await;
        only_kueue_suspends(&case).await;
        let waits = queued("user", "kueue-identity-none", json!({}), vec![pod("user", &[])]);
        case.create(waits).await;
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        let patch = Patch::Merge(json!({"spec": {"suspend": false}}));
        // until the policy is in force, which nobody tells
        while case.wrappers().patch("user", &params, &patch).await.is_ok() {
            tokio::task::yield_now().await;
        }
        let runs = vec![pod("aw", &[("run-for", "0s")])];
        case.create(queued("aw", "kueue-identity", json!({}), runs)).await;
        case.phase("aw", "Succeeded").await;
    });
}

#[test]
fn kubectl_acts_as_a_user() {
    test("kubectl_acts_as_a_user", async |_| {
        let kubectl = tokio::task::spawn_blocking(|| build::tool(Tool::Kubectl)).await;
        let kubectl = kubectl.expect("it does not panic").expect("it is built");
        let kubeconfig = PLANE.kubeconfig_of("ada", &["lovelace"]).expect("it is written");
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(kubeconfig).stdin(Stdio::null());
        let output = command.args(["auth", "whoami", "-o", "json"]).output().await;
        let output = output.expect("kubectl runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let said: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!(said["status"]["userInfo"]["username"], "ada");
        assert_eq!(said["status"]["userInfo"]["groups"][0], "lovelace");
    });
}
