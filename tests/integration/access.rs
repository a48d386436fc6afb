//! Rights, as a real API server answers for them: of users, of the controller, and what is looked at
//! when it starts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use appwrapper::clock::SystemClock;
use appwrapper::config::Config;
use appwrapper::kueue::KueueSettings;
use appwrapper::preflight;
use appwrapper::webhook::Identity;
use appwrapper::webhook::access::{Reviews, own_account};
use appwrapper::webhook::authorize::{Authorize, Wrapped};
use futures::FutureExt;
use http::Request;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use kube::client::Body;
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};

use crate::harness::{Case, PLANE, runtime_test};

/// Runs a test in a namespace of its own, without a controller.
fn test<F: Future<Output = ()>>(name: &str, body: impl FnOnce(Case) -> F) {
    LazyLock::force(&PLANE);
    runtime_test(name, || PLANE.client(), body);
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const JOB: (&str, &str) = ("batch/v1", "Job");
const POD: (&str, &str) = ("v1", "Pod");

fn user(name: &str) -> Identity {
    let groups = vec!["system:authenticated".to_owned()];
    Identity { username: name.to_owned(), groups, ..Identity::default() }
}

fn reviews(client: Client) -> Reviews {
    Reviews::new(client, Arc::new(SystemClock))
}

/// What is said of these kinds, each at its own path.
async fn said(
    reviews: &Reviews,
    case: &Case,
    who: &Identity,
    kinds: &[(&str, &str)],
) -> Vec<String> {
    let wrapped: Vec<Wrapped<'_>> = kinds
        .iter()
        .map(|(api_version, kind)| Wrapped {
            path: (*kind).to_owned(),
            api_version,
            kind,
            name: "x",
        })
        .collect();
    let findings = reviews.findings(who, &case.namespace, &wrapped, true).await;
    let findings = findings.expect("the reviews are answered");
    findings.into_iter().map(|each| format!("{}: {}", each.field, each.message)).collect()
}

/// Grants rights in the namespace of a test.
async fn grant(case: &Case, name: &str, subject: Value, rules: Value) {
    let role = json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name},
                      "rules": rules});
    case.create(role).await;
    let binding = json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [subject],
    });
    case.create(binding).await;
}

fn subject(kind: &str, name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name})
}

fn everything() -> Value {
    json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
}

/// Asks until it is so: what is written is seen by authorizers and in the discovery a moment later.
async fn eventually(what: &str, so: impl AsyncFn() -> bool) {
    let asking = async {
        while !so().await {
            tokio::task::yield_now().await;
        }
    };
    let came = tokio::time::timeout(Duration::from_mins(2), asking).await;
    came.unwrap_or_else(|_| panic!("never so: {what}"));
}

async fn until_allowed(case: &Case, who: &Identity, kind: (&str, &str)) {
    eventually(&format!("{} may create {}", who.username, kind.1), async || {
        // one that remembers nothing yet
        said(&reviews(case.client.clone()), case, who, &[kind]).await.is_empty()
    })
    .await;
}

/// A client of somebody else.
fn client_of(name: &str) -> Client {
    let mut config = PLANE.config();
    config.auth_info.impersonate = Some(name.to_owned());
    Client::try_from(config).expect("a client")
}

#[test]
fn a_user_wraps_what_it_may_create_in_its_namespace_and_nothing_of_the_cluster() {
    let name = "a_user_wraps_what_it_may_create";
    test(name, async |case| {
        let alice = user("alice-of-access");
        let sees = reviews(case.client.clone());
        let denied = |who: &str, what: &str| {
            format!("user {who:?} must be allowed to create {what} in namespace {}", case.namespace)
        };
        let want = [
            format!("Job.kind: {}", denied("alice-of-access", "jobs.batch")),
            format!("Pod.kind: {}", denied("alice-of-access", "pods")),
        ];
        assert_eq!(said(&sees, &case, &alice, &[JOB, POD]).await, want);
        grant(&case, "all", subject("User", &alice.username), everything()).await;
        until_allowed(&case, &alice, JOB).await;
        let sees = reviews(case.client.clone());
        assert_eq!(said(&sees, &case, &alice, &[JOB, POD]).await, [""; 0]);
        // its role in the namespace names every resource, those of the cluster too
        for (kind, plural) in [
            ((RBAC, "ClusterRole"), "clusterroles.rbac.authorization.k8s.io"),
            (("v1", "Namespace"), "namespaces"),
            (
                ("workload.codeflare.dev/v1alpha1", "RetryPolicy"),
                "retrypolicies.workload.codeflare.dev",
            ),
        ] {
            let want = format!(
                "{}.kind: must be namespaced: {plural} are cluster-scoped and cannot be wrapped",
                kind.1
            );
            assert_eq!(said(&sees, &case, &alice, &[kind]).await, [want]);
        }
        let other = user("mallory-of-access");
        let want = format!("Job.kind: {}", denied("mallory-of-access", "jobs.batch"));
        assert_eq!(said(&sees, &case, &other, &[JOB]).await, [want]);
    });
}

#[test]
fn what_cannot_be_created_and_watched_is_refused_whoever_asks() {
    test("what_cannot_be_created_and_watched_is_refused", async |case| {
        let mut admin = user("admin-of-access");
        admin.groups.push("system:masters".to_owned());
        let sees = reviews(case.client.clone());
        for (kind, want) in [
            (
                ("authentication.k8s.io/v1", "TokenReview"),
                "supports create, get, delete, list and watch",
            ),
            (
                ("authorization.k8s.io/v1", "SubjectAccessReview"),
                "supports create, get, delete, list and watch",
            ),
            (
                ("authorization.k8s.io/v1", "LocalSubjectAccessReview"),
                "supports create, get, delete, list and watch",
            ),
            (("v1", "Binding"), "supports create, get, delete, list and watch"),
            (("v1", "PodExecOptions"), r#"no matches for kind "PodExecOptions" in version "v1""#),
            (("policy/v1", "Eviction"), r#"no matches for kind "Eviction" in version "policy/v1""#),
            (("v1", "List"), r#"no matches for kind "List" in version "v1""#),
            (("batch/v9", "Job"), r#"no matches for kind "Job" in version "batch/v9""#),
        ] {
            let said = said(&sees, &case, &admin, &[kind]).await;
            assert!(said.len() == 1 && said[0].contains(want), "{said:?}");
        }
    });
}

#[test]
fn groups_count_and_a_whole_identity_is_accepted() {
    test("groups_count_and_a_whole_identity_is_accepted", async |case| {
        let group = "group-of-access";
        grant(&case, "group", subject("Group", group), everything()).await;
        let mut member = user("bob-of-access");
        member.groups.push(group.to_owned());
        until_allowed(&case, &member, JOB).await;
        let sees = reviews(case.client.clone());
        assert_eq!(said(&sees, &case, &member, &[JOB]).await, [""; 0]);
        assert_eq!(said(&sees, &case, &user("bob-of-access"), &[JOB]).await.len(), 1);
        // a service account is known by its name and its groups, as the API server makes them
        let account = format!("system:serviceaccount:{}:default", case.namespace);
        let subject = json!({"kind": "ServiceAccount", "name": "default",
                             "namespace": case.namespace});
        grant(&case, "account", subject, everything()).await;
        let mut robot = user(&account);
        robot.uid = "0-1-2".to_owned();
        robot.extra.insert("example.org/scope".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
        until_allowed(&case, &robot, JOB).await;
    });
}

#[test]
fn the_controllers_own_missing_rights_are_named() {
    test("the_controllers_own_missing_rights_are_named", async |case| {
        let account = format!("system:serviceaccount:{}:few", case.namespace);
        let us = client_of(&account);
        assert_eq!(own_account(&us).await.expect("an answer"), account);
        let subject = json!({"kind": "ServiceAccount", "name": "few", "namespace": case.namespace});
        let rules = json!([
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "watch"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["*"], "verbs": ["create"]},
        ]);
        grant(&case, "few", subject, rules).await;
        let admin = Identity { groups: vec!["system:masters".to_owned()], ..user("admin") };
        let wrapped =
            [Wrapped { path: "t".into(), api_version: "batch/v1", kind: "Job", name: "x" }];
        // to ask about others is itself a right, which a role in a namespace cannot give
        let refused = reviews(us.clone()).findings(&admin, &case.namespace, &wrapped, true).await;
        let error = refused.expect_err("it may not ask");
        assert_eq!(error.message, "check whether the user can create jobs");
        let want = [
            format!(
                "t.kind: the controller must be allowed to delete jobs.batch in namespace {}",
                case.namespace
            ),
            "t.kind: the controller must be allowed to list, watch jobs.batch in all namespaces"
                .into(),
        ];
        eventually("the rights of its role", async || {
            let sees = reviews(us.clone());
            let findings = sees.findings(&admin, &case.namespace, &wrapped, false).await;
            let findings = findings.expect("the reviews are answered");
            let said: Vec<String> =
                findings.into_iter().map(|it| format!("{}: {}", it.field, it.message)).collect();
            // until its role is seen, it lacks more
            assert!(said == want || said[0].contains("create, get, delete"), "{said:?}");
            said == want
        })
        .await;
    });
}

/// A definition of a kind in a group of its own.
fn definition(group: &str) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    }))
    .expect("a definition")
}

#[test]
fn a_definition_that_is_installed_later_is_found() {
    test("a_definition_that_is_installed_later_is_found", async |case| {
        let admin = Identity { groups: vec!["system:masters".to_owned()], ..user("admin") };
        let sees = reviews(case.client.clone());
        let widget = ("later.access.example.org/v1", "Widget");
        let want = [
            r#"Widget.kind: no matches for kind "Widget" in version "later.access.example.org/v1""#,
        ];
        assert_eq!(said(&sees, &case, &admin, &[widget]).await, want);
        let definitions: Api<CustomResourceDefinition> = Api::all(case.client.clone());
        let definition = definition("later.access.example.org");
        let name = definition.metadata.name.clone().expect("a name");
        definitions.create(&PostParams::default(), &definition).await.expect("it is accepted");
        let established = conditions::is_crd_established();
        await_condition(definitions.clone(), &name, established).await.expect("it is served");
        eventually("the kind is found", async || {
            said(&sees, &case, &admin, &[widget]).await.is_empty()
        })
        .await;
        definitions.delete(&name, &DeleteParams::default()).await.expect("it goes");
    });
}

#[test]
fn a_second_review_soon_after_makes_no_call() {
    test("a_second_review_soon_after_makes_no_call", async |case| {
        let calls: Arc<AtomicUsize> = Arc::default();
        let (counted, server) = (calls.clone(), case.client.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let server = server.clone();
            async move { server.send(request).await }.boxed()
        });
        let sees = reviews(Client::new(service, "default"));
        let admin = Identity { groups: vec!["system:masters".to_owned()], ..user("admin") };
        assert_eq!(said(&sees, &case, &admin, &[JOB, POD, JOB]).await, [""; 0]);
        assert_eq!(calls.load(Ordering::Relaxed), 2 + 2 + 2 * 5, "kinds, user, controller");
        assert_eq!(said(&sees, &case, &admin, &[POD, JOB]).await, [""; 0]);
        assert_eq!(calls.load(Ordering::Relaxed), 14);
        assert_eq!(said(&sees, &case, &user("nobody"), &[JOB]).await.len(), 1);
        assert_eq!(calls.load(Ordering::Relaxed), 15);
    });
}

/// Kueue's Deployment and its `ConfigMap`, in the namespace of the test; nothing runs.
async fn install_kueue(case: &Case, settings: &str) {
    case.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager-config"},
        "data": {"controller_manager_config.yaml": settings},
    }))
    .await;
    let labels = json!({"control-plane": "controller-manager"});
    case.create(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "kueue-controller-manager"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{
                        "name": "manager", "command": ["/manager"],
                        "image": "registry.k8s.io/kueue/kueue:v0.18.3",
                        "args": ["--config=/controller_manager_config.yaml", "--zap-log-level=2"],
                    }],
                    "volumes": [
                        {"name": "manager-config", "configMap": {"name": "kueue-manager-config"}},
                    ],
                },
            },
        },
    }))
    .await;
}

fn config_for(case: &Case, more: &str) -> Config {
    let account = format!("system:serviceaccount:{}:kueue-controller-manager", case.namespace);
    Config::parse(&format!("admission: {{kueueAccount: {account:?}}}\n{more}"))
        .expect("it is right")
}

async fn notices(client: &Client, config: &Config) -> Vec<String> {
    preflight::warnings(client, config).await.iter().map(ToString::to_string).collect()
}

#[test]
fn the_start_up_check_reads_kueue_where_it_is() {
    test("the_start_up_check_reads_kueue_where_it_is", async |case| {
        let config = config_for(&case, "");
        let said = notices(&case.client, &config).await;
        assert_eq!(said.len(), 1, "{said:#?}");
        assert!(said[0].contains("kueue-controller-manager (not found)"), "{said:#?}");
        install_kueue(
            &case,
            "apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady: {timeout: 10m, recoveryTimeout: 3m}
integrations: {frameworks: [batch/job]}",
        )
        .await;
        let said = notices(&case.client, &config).await;
        let file = format!("ConfigMap {}/kueue-manager-config", case.namespace);
        for (said, want) in said.iter().zip([
            format!("set FinishOrphanedWorkloads to false in featureGates of {file}"),
            format!("add workload.codeflare.dev/appwrapper to integrations.frameworks of {file}"),
            format!("raise waitForPodsReady.recoveryTimeout of {file}"),
        ]) {
            assert!(said.contains(&want), "{said}");
        }
        assert_eq!(said.len(), 3, "{said:#?}");
        let off = notices(&case.client, &config_for(&case, "webhook: {enabled: false}")).await;
        assert_eq!(off.len(), 4);
        assert!(off[0].starts_with("webhook.enabled is false"), "{off:#?}");
    });
}

#[test]
fn the_start_up_check_names_kinds_and_rights_that_are_missing() {
    let name = "the_start_up_check_names_kinds_and_rights";
    test(name, async |case| {
        install_kueue(
            &case,
            "featureGates: {FinishOrphanedWorkloads: false}
integrations: {frameworks: [workload.codeflare.dev/appwrapper]}",
        )
        .await;
        let mut config = config_for(&case, "");
        assert_eq!(notices(&case.client, &config).await, [""; 0]);
        let kinds =
            ["Job.batch", "Gadget.example.org", "ClusterRole.rbac.authorization.k8s.io", "Binding"];
        config.admission.allowed_kinds =
            kinds.iter().map(|kind| kind.parse().expect("a kind")).collect();
        let said = notices(&case.client, &config).await;
        assert_eq!(said.len(), 3, "{said:#?}");
        assert!(said[0].contains("has Gadget.example.org, which the cluster does not serve"));
        assert!(said[1].contains("must be namespaced: clusterroles.rbac"), "{said:#?}");
        assert!(said[2].contains("bindings lack get, delete, list, watch"), "{said:#?}");
        // somebody without any right, but those of everybody
        let us = client_of(&format!("system:serviceaccount:{}:none", case.namespace));
        config.admission.allowed_kinds.truncate(1);
        let said = notices(&us, &config).await;
        assert_eq!(said.len(), 3, "{said:#?}");
        assert!(said[0].contains("kueue-controller-manager (not allowed)"), "{said:#?}");
        let verbs =
            "the controller cannot create, get, delete, list, watch jobs.batch in all namespaces";
        assert!(said[1].starts_with(verbs), "{said:#?}");
        let verbs = "the controller cannot get, delete, list, watch pods in all namespaces";
        assert!(said[2].starts_with(verbs), "{said:#?}");
    });
}

#[test]
fn the_configuration_of_kueue_is_followed() {
    test("the_configuration_of_kueue_is_followed", async |case| {
        let file = |timeout: &str| {
            format!(
                "apiVersion: config.kueue.x-k8s.io/v1beta2\nwaitForPodsReady: {{timeout: {timeout}}}"
            )
        };
        install_kueue(&case, &file("10m")).await;
        let config = config_for(&case, "");
        let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
        let following = preflight::follow(case.client.clone(), &config, |settings| {
            sender.send(settings).expect("somebody listens");
        });
        let changing = async {
            let timeout = async |told: &mut tokio::sync::mpsc::UnboundedReceiver<KueueSettings>| {
                let settings = told.recv().await.expect("it is told");
                assert!(settings.replaces_failed_nodes, "0.18 does by default");
                settings.wait_for_pods_ready.map(|it| it.timeout.to_string())
            };
            assert_eq!(timeout(&mut told).await.as_deref(), Some("10m"));
            let without = "apiVersion: config.kueue.x-k8s.io/v1beta2".to_owned();
            for (text, want) in [(file("3m"), Some("3m")), (without, None)] {
                let changed = json!({"data": {"controller_manager_config.yaml": text}});
                case.change("v1", "ConfigMap", "kueue-manager-config", changed).await;
                assert_eq!(timeout(&mut told).await.as_deref(), want);
            }
        };
        tokio::select! { () = following => panic!("it ended"), () = changing => {} }
    });
}
