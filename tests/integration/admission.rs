//! Admission as users meet it: the product is installed, and Kueue with it.

use appwrapper::api::AppWrapper;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Error;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{Case, job, pod, wrapper};
use crate::installed::{INSTALLED, installed_test, kubectl};
use crate::kueue;

/// Why something was refused.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer.expect_err("it is refused") {
        Error::Api(status) => status.message.clone(),
        error => panic!("{error}"),
    }
}

/// The AppWrappers of a case, in the hands of a user.
fn wrappers_of(case: &Case, user: &str, groups: &[&str]) -> Api<AppWrapper> {
    let client = INSTALLED.plane.client_of(user, groups).expect("a client");
    Api::namespaced(client, &case.namespace)
}

async fn create_in(api: &Api<AppWrapper>, object: &Value) -> Result<AppWrapper, Error> {
    let object = serde_json::from_value(object.clone()).expect("an object");
    api.create(&PostParams::default(), &object).await
}

/// Lets a user do everything with AppWrappers and some kinds in a namespace.
async fn allow(case: &Case, user: &str, rules: Value) {
    let api: Api<Role> = Api::namespaced(case.client.clone(), &case.namespace);
    let role = json!({"metadata": {"name": user}, "rules": &rules});
    let role = serde_json::from_value(role).expect("a role");
    api.create(&PostParams::default(), &role).await.expect("it is new");
    let bindings: Api<RoleBinding> = Api::namespaced(case.client.clone(), &case.namespace);
    let binding = json!({
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let binding = serde_json::from_value(binding).expect("a binding");
    bindings.create(&PostParams::default(), &binding).await.expect("it is new");
    for rule in rules.as_array().into_iter().flatten() {
        let what = json!({"namespace": case.namespace, "verb": "create",
            "group": rule["apiGroups"][0], "resource": rule["resources"][0]});
        case.until_allowed(user, what).await;
    }
}

fn all_of(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": ["*"]})
}

#[test]
fn what_is_left_out_is_filled_in() {
    installed_test("what_is_left_out_is_filled_in", async |case| {
        let mut object = wrapper("a", json!({}), vec![job("j", json!({"parallelism": 3}), &[])]);
        object["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "nowhere"});
        let made = case.create(object).await;
        let made = serde_json::to_value(made).expect("JSON");
        assert_eq!(made["spec"]["suspend"], true, "Kueue lets it begin");
        let labels = &made["metadata"]["labels"];
        assert_eq!(labels["workload.codeflare.dev/user"], "admin");
        let pod_sets = &made["spec"]["components"][0]["podSets"];
        assert_eq!(pod_sets[0]["replicas"], 3, "{pod_sets}");
        assert_eq!(pod_sets[0]["path"], "template.spec.template");
    });
}

/// `kubectl apply` sends the components without what admission and Kueue have filled in.
#[test]
fn an_unchanged_manifest_can_be_applied_again() {
    installed_test("an_unchanged_manifest_can_be_applied_again", async |case| {
        kueue::Queue::of("again", 4).create(&case).await;
        let send = |verb: &str, manifest: &Value, how: &[&str]| {
            let arguments = [&[verb, "-n", &case.namespace, "-f", "-"], how].concat();
            kubectl(INSTALLED.plane.kubeconfig(), &arguments, manifest.to_string().as_bytes())
        };
        let apply = |manifest: &Value, how: &[&str]| send("apply", manifest, how);
        for (name, how) in [("a", &[][..]), ("b", &["--server-side", "--force-conflicts"])] {
            let mut manifest = wrapper(name, json!({}), vec![pod(name, &[])]);
            manifest["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "again"});
            manifest["spec"].as_object_mut().expect("an object").remove("suspend");
            apply(&manifest, how).expect("it is new");
            case.phase(name, "Running").await;
            let spec = async || {
                let seen = case.wrappers().get(name).await.expect("it is there");
                serde_json::to_value(seen).expect("JSON")["spec"].take()
            };
            let before = spec().await;
            assert!(!before["components"][0]["podSetInfos"].is_null(), "{before}");
            // from the second on, the first server-side apply owns what others have written
            let server_side = ("apply", &["--server-side", "--force-conflicts"][..]);
            for (verb, how) in [("apply", how), ("replace", &[]), server_side, server_side] {
                send(verb, &manifest, how).expect("it is unchanged");
                assert_eq!(spec().await, before, "{verb} {how:?}");
            }
            manifest["spec"]["components"][0]["template"]["metadata"]["labels"]["new"] = "1".into();
            let said = apply(&manifest, how).expect_err("a template cannot be changed");
            assert!(said.contains("template"), "{said}");
        }
    });
}

/// The API server spends less on an object of which nobody applies a field.
#[test]
fn fields_are_tracked_only_where_somebody_applies_them() {
    installed_test("fields_are_tracked_only_where_somebody_applies_them", async |case| {
        let is_tracked =
            |aw: &DynamicObject| aw.metadata.managed_fields.iter().flatten().next().is_some();
        let apply = async |name: &str, object: Value| {
            let params = PatchParams::apply("somebody");
            let applied = case.wrappers().patch(name, &params, &Patch::Apply(object)).await;
            applied.expect("it may be applied")
        };
        assert!(!is_tracked(&case.create(wrapper("a", json!({}), vec![pod("a", &[])])).await));
        apply("b", wrapper("b", json!({}), vec![pod("b", &[])])).await;
        for (name, want) in [("a", false), ("b", true)] {
            case.phase(name, "Running").await;
            let seen = case.wrappers().get(name).await.expect("it is there");
            assert_eq!(is_tracked(&seen), want, "{name}, after writes of its status");
        }
        let labelled = json!({"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "metadata": {"name": "a", "labels": {"team": "vision"}}});
        assert!(is_tracked(&apply("a", labelled).await), "it is tracked from then on");
    });
}

#[test]
fn a_user_cannot_wrap_what_it_may_not_create() {
    installed_test("a_user_cannot_wrap_what_it_may_not_create", async |case| {
        let wrappers = all_of("workload.codeflare.dev", "appwrappers");
        allow(&case, "alice", json!([wrappers, all_of("batch", "jobs")])).await;
        let hers = wrappers_of(&case, "alice", &[]);
        let one = wrapper("a", json!({}), vec![job("j", json!({}), &[])]);
        create_in(&hers, &one).await.expect("she may create jobs");
        let both = wrapper("b", json!({}), vec![job("k", json!({}), &[]), pod("p", &[])]);
        let said = refusal(create_in(&hers, &both).await);
        assert!(said.contains("spec.components[1].template"), "{said}");
        assert!(said.contains("alice") && said.contains("pods"), "{said}");
        assert!(!said.contains("spec.components[0]"), "{said}");
    });
}

#[test]
fn what_has_no_namespace_is_wrapped_by_nobody() {
    installed_test("what_has_no_namespace_is_wrapped_by_nobody", async |case| {
        // she may do everything in her namespace, and an administrator everywhere
        allow(&case, "carol", json!([all_of("*", "*")])).await;
        for (who, groups) in [("carol", vec![]), ("root", vec!["system:masters"])] {
            let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "mine"}, "rules": []});
            let object = wrapper("a", json!({}), vec![pod("p", &[]), role]);
            let said = refusal(create_in(&wrappers_of(&case, who, &groups), &object).await);
            assert!(said.contains("spec.components[1].template.kind"), "{who}: {said}");
            assert!(said.contains("namespace"), "{who}: {said}");
        }
    });
}

#[test]
fn a_kind_that_the_controller_may_not_create_is_refused() {
    installed_test("a_kind_that_the_controller_may_not_create_is_refused", async |case| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        let object = wrapper("a", json!({}), vec![pod("p", &[]), secret]);
        let said = refusal(case.try_create(object).await);
        assert!(said.contains("the controller") && said.contains("secrets"), "{said}");
    });
}

#[test]
fn only_kueue_admits_what_has_a_queue() {
    installed_test("only_kueue_admits_what_has_a_queue", async |case| {
        let mut object = wrapper("a", json!({}), vec![pod("p", &[])]);
        object["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "nowhere"});
        case.create(object).await;
        case.phase("a", "Suspended").await;
        let admit = json!([{"op": "replace", "path": "/spec/suspend", "value": false}]);
        let inject = json!([{"op": "add", "path": "/spec/components/0/podSetInfos",
            "value": [{"labels": {"a": "b"}}]}]);
        for patch in [&admit, &inject] {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone()).expect("a patch");
            let patch = Patch::Json::<()>(patch);
            let params = PatchParams::default();
            let said = refusal(case.wrappers().patch("a", &params, &patch).await);
            assert!(said.contains("must be changed only by Kueue"), "{said}");
            let dry = PatchParams { dry_run: true, ..params };
            let kueue = wrappers_of(&case, kueue::ACCOUNT, &["system:masters"]);
            kueue.patch("a", &dry, &patch).await.expect("Kueue may");
        }
    });
}

#[test]
fn a_deletion_that_releases_quota_too_early_is_refused() {
    installed_test("a_deletion_that_releases_quota_too_early_is_refused", async |case| {
        case.create(wrapper("a", json!({}), vec![pod("p", &[])])).await;
        case.phase("a", "Running").await;
        let delete = |how: &str| {
            let cascade = format!("--cascade={how}");
            let arguments =
                ["delete", "appwrapper", "a", "-n", &case.namespace, &cascade, "--dry-run=server"];
            kubectl(INSTALLED.plane.kubeconfig(), &arguments, &[])
        };
        for how in ["foreground", "orphan"] {
            let said = delete(how).expect_err("it is refused");
            assert!(
                said.contains("quota") && said.contains("--cascade=background"),
                "{how}: {said}"
            );
        }
        delete("background").expect("that waits for the pods");
    });
}

/// Everything of this namespace that passes a webhook fails from now on.
async fn take_the_webhook_down(case: &Case) {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(case.client.clone());
    let ours = api.get("appwrapper-validating-webhook").await.expect("it is installed");
    let mut down = serde_json::to_value(ours).expect("JSON");
    down["metadata"] = json!({"name": format!("down-in-{}", case.namespace)});
    let webhooks = down["webhooks"].as_array_mut().expect("it has webhooks");
    // those of what has no namespace would be down for every test
    webhooks.retain(|webhook| webhook["rules"][0]["resources"] == json!(["appwrappers"]));
    for webhook in webhooks {
        webhook["clientConfig"] = json!({"url": "https://127.0.0.1:1/nobody"});
        webhook["namespaceSelector"] =
            json!({"matchLabels": {"kubernetes.io/metadata.name": case.namespace}});
    }
    let down = serde_json::from_value(down).expect("a configuration");
    api.create(&PostParams::default(), &down).await.expect("it is new");
    // an API server takes a moment to know of it
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    while case.wrappers().patch("runs", &dry, &label).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn without_the_webhook_what_runs_goes_on_and_is_deleted() {
    installed_test("without_the_webhook_what_runs_goes_on_and_is_deleted", async |case| {
        for (name, life) in [("runs", vec![]), ("ends", vec![("run-for", "2s")])] {
            case.create(wrapper(name, json!({}), vec![pod(name, &life)])).await;
        }
        case.phase("runs", "Running").await;
        take_the_webhook_down(&case).await;
        case.phase("ends", "Succeeded").await;
        case.phase("runs", "Running").await;
        for name in ["runs", "ends"] {
            case.delete_wrapper(name).await;
            case.gone("AppWrapper", name).await;
        }
        let api: Api<ValidatingWebhookConfiguration> = Api::all(case.client.clone());
        let name = format!("down-in-{}", case.namespace);
        api.delete(&name, &DeleteParams::default()).await.expect("it is deleted");
    });
}
