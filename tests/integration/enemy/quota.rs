//! Quota, finalizer and rights: what an ordinary user of a namespace, with the role `edit`, can do to run
//! what was not admitted, or longer than it was.

mod resources;
mod settings;

use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use kube::{Client, Error, ResourceExt};
use serde_json::{Value, json};

use crate::deeds::seconds;
use crate::harness::{
    Case, PLANE, job, on_the_installed, page, pod, pod_template, tuned, without_webhook, wrapper,
};
use crate::installed::{INSTALLED, installed_test};
use crate::kueue::QUEUE;
use crate::objects::job_set;

pub(super) const AW: (&str, &str) = ("workload.codeflare.dev/v1beta2", "AppWrapper");
const POD: (&str, &str) = ("v1", "Pod");
const JOB_SET: (&str, &str) = ("jobset.x-k8s.io/v1alpha2", "JobSet");
const FINALIZER: &str = "workload.codeflare.dev/finalizer";
const NAME_LABEL: &str = "workload.codeflare.dev/appwrapper";
const UID_LABEL: &str = "workload.codeflare.dev/appwrapper-uid";
const ORIGIN: &str = "kueue.x-k8s.io/multikueue-origin";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A user of the namespace of a test.
pub(super) struct Tenant<'a> {
    case: &'a Case,
    name: String,
    client: Client,
}

impl<'a> Tenant<'a> {
    /// One who has the `ClusterRole` `edit` there.
    pub(super) async fn new(case: &'a Case) -> Self {
        let tenant = Self::without_rights(case);
        let binding = json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": "tenant"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": tenant.name}],
        });
        case.create(binding).await;
        tenant.until_allowed(true).await;
        tenant
    }

    fn without_rights(case: &'a Case) -> Self {
        let name = format!("mallory-of-{}", case.namespace);
        let plane = if on_the_installed() { &INSTALLED.plane } else { &*PLANE };
        let client = plane.client_of(&name, &["tenants"]).expect("a client");
        Self { case, name, client }
    }

    /// Waits until the API server lets the user do something there, or not.
    async fn until_allowed(&self, allowed: bool) {
        let object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "probe"},
            "spec": {"template": pod_template(&[])}});
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let heeded = async {
            while self.api("batch/v1", "Job").create(&params, &object).await.is_ok() != allowed {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(2), heeded).await.expect("roles are heeded");
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.case.namespace, &resource)
    }

    async fn create(&self, object: Value) -> Result<DynamicObject, Error> {
        let text = |field: &str| object[field].as_str().expect("a text").to_owned();
        let api = self.api(&text("apiVersion"), &text("kind"));
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await
    }

    /// A PUT of an object with a field of its spec set to null.
    async fn set_null(
        &self,
        (api_version, kind): (&str, &str),
        name: &str,
        field: &str,
    ) -> Result<DynamicObject, Error> {
        let api = self.api(api_version, kind);
        let mut object = api.get(name).await?;
        object.data["spec"][field] = Value::Null;
        api.replace(name, &PostParams::default(), &object).await
    }

    pub(super) async fn patch(
        &self,
        (api_version, kind): (&str, &str),
        name: &str,
        patch: Value,
    ) -> Result<DynamicObject, Error> {
        let params = PatchParams::default();
        self.api(api_version, kind).patch(name, &params, &Patch::Merge(patch)).await
    }
}

/// Why something was refused.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer.expect_err("it is refused") {
        Error::Api(status) => status.message.clone(),
        error => panic!("{error}"),
    }
}

fn labels(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

#[test]
fn nobody_runs_without_the_queue_that_it_was_created_with() {
    installed_test("nobody_runs_without_the_queue_that_it_was_created", async |case| {
        let tenant = Tenant::new(&case).await;
        let mut object = wrapper("a", json!({}), vec![pod("p", &[])]);
        object["metadata"]["labels"] = json!({QUEUE: "nowhere"});
        tenant.create(object).await.expect("it is let in");
        case.phase("a", "Suspended").await;
        let run = json!({"suspend": false});
        for (change, want) in [
            (labels(json!({QUEUE: null})), "must not be removed"),
            (labels(json!({QUEUE: ""})), "must not be removed"),
            (json!({"metadata": {"labels": null}}), "must not be"),
            (json!({"metadata": {"labels": {QUEUE: null}}, "spec": run}), "must"),
            // Kueue's own webhook may be the first to refuse it
            (json!({"metadata": {"labels": {QUEUE: "free"}}, "spec": run}), "denied the request"),
            (json!({"spec": run}), "only by Kueue"),
            (json!({"spec": {"managedBy": "example.com/other"}}), "must not be changed"),
            (labels(json!({ORIGIN: "elsewhere"})), "multikueue-origin] must not be changed"),
        ] {
            let said = refusal(tenant.patch(AW, "a", change.clone()).await);
            assert!(said.contains(want), "{change}: {said}");
        }
        // a queue that does not exist admits nobody
        let renamed = tenant.patch(AW, "a", labels(json!({QUEUE: "elsewhere"}))).await;
        renamed.expect("another queue is no freedom");
        // an administrator may take it out, and everybody may then run it
        case.patch("a", labels(json!({QUEUE: null}))).await;
        tenant.patch(AW, "a", json!({"spec": run})).await.expect("it has no queue");
        case.phase("a", "Running").await;
        let late = refusal(tenant.patch(AW, "a", labels(json!({QUEUE: "main"}))).await);
        let until =
            "must not be changed while spec.suspend is false; to suspend the AppWrapper first";
        assert!(late.contains(until), "{late}");
    });
}

#[test]
fn the_finalizer_stays_while_anything_runs() {
    installed_test("the_finalizer_stays_while_anything_runs", async |case| {
        let tenant = Tenant::new(&case).await;
        tenant.create(wrapper("a", json!({}), vec![pod("p", &[])])).await.expect("it is let in");
        case.phase("a", "Running").await;
        let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
        let controlled = |uid: &str| {
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap",
                "name": "c", "uid": uid, "controller": true}]}})
        };
        // the webhook puts it back, as it does for a manifest that is applied without it
        for change in [json!(null), json!([]), json!(["example.com/mine"]), json!([FINALIZER])] {
            let kept = tenant.patch(AW, "a", finalizers(change)).await.expect("it is let in");
            assert!(
                kept.metadata.finalizers.is_some_and(|all| all.contains(&FINALIZER.to_owned()))
            );
        }
        let said = refusal(tenant.patch(AW, "a", controlled("u-1")).await);
        assert!(said.contains("the controller of an AppWrapper must not be changed"), "{said}");
        // nor while it is being deleted
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        case.change("v1", "Pod", "p", hold).await;
        case.delete_wrapper("a").await;
        case.phase("a", "Terminating").await;
        let said = refusal(tenant.patch(AW, "a", finalizers(json!(null))).await);
        assert!(said.contains("must not be removed while resources are deployed"), "{said}");
        case.change("v1", "Pod", "p", finalizers(json!([]))).await;
        case.gone("AppWrapper", "a").await;
        // where nothing runs it is nobody's business
        let mut waits = wrapper("b", json!({}), vec![pod("q", &[])]);
        waits["spec"]["suspend"] = true.into();
        waits["metadata"]["finalizers"] = json!([FINALIZER]);
        tenant.create(waits).await.expect("it is let in");
        case.phase("b", "Suspended").await;
        tenant.patch(AW, "b", finalizers(json!(null))).await.expect("nothing is deployed");
    });
}

#[test]
fn no_deletion_releases_quota_before_the_pods_are_gone() {
    installed_test("no_deletion_releases_quota_before_pods_are_gone", async |case| {
        let tenant = Tenant::new(&case).await;
        tenant.create(wrapper("a", json!({}), vec![pod("p", &[])])).await.expect("it is let in");
        case.phase("a", "Running").await;
        let api = tenant.api(AW.0, AW.1);
        for params in [DeleteParams::foreground(), DeleteParams::orphan()] {
            let said = refusal(api.delete("a", &params).await);
            assert!(said.contains("--cascade=background"), "{said}");
        }
        // the finalizers mean the same, where the deletion says nothing
        for finalizer in ["foregroundDeletion", "orphan"] {
            let both = json!({"metadata": {"finalizers": [FINALIZER, finalizer]}});
            tenant.patch(AW, "a", both).await.expect("it may be added");
            let said = refusal(api.delete("a", &DeleteParams::default()).await);
            assert!(said.contains("--cascade=background"), "{said}");
        }
        let ours = json!({"metadata": {"finalizers": [FINALIZER]}});
        tenant.patch(AW, "a", ours).await.expect("it may be removed");
        api.delete("a", &DeleteParams::background()).await.expect("that waits for the pods");
        case.gone("AppWrapper", "a").await;
    });
}

/// A Deployment whose pods have labels of ours.
fn deployment(name: &str, of_pods: Value) -> Value {
    let mut template = pod_template(&[]);
    template["spec"]["restartPolicy"] = "Always".into();
    template["metadata"]["labels"] = json!({"app": name});
    for (key, value) in of_pods.as_object().into_iter().flatten() {
        template["metadata"]["labels"][key] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}})
}

#[test]
fn the_labels_of_pods_are_for_controllers() {
    installed_test("the_labels_of_pods_are_for_controllers", async |case| {
        let tenant = Tenant::new(&case).await;
        let victim = tenant.create(wrapper("a", json!({}), vec![job("j", json!({}), &[])])).await;
        let uid = victim.expect("it is let in").metadata.uid.expect("a UID");
        let running = case.pod("j-", "Running").await.name;
        let ours = json!({NAME_LABEL: "a", UID_LABEL: uid});
        let refused = |said: String| assert!(said.contains("leave these labels out"), "{said}");

        for forgery in [ours.clone(), json!({NAME_LABEL: ""})] {
            let mut forged = pod("forged", &[]);
            forged["metadata"]["labels"] = forgery;
            refused(refusal(tenant.create(forged).await));
        }
        tenant.create(pod("plain", &[])).await.expect("a pod of its own");
        refused(refusal(tenant.patch(POD, "plain", labels(ours.clone())).await));
        for key in [NAME_LABEL, UID_LABEL, "workload.codeflare.dev/attempt"] {
            for value in [json!(null), json!("x")] {
                refused(refusal(tenant.patch(POD, &running, labels(json!({key: value}))).await));
            }
        }
        tenant
            .patch(POD, &running, labels(json!({"mine": "yes"})))
            .await
            .expect("no label of ours");

        refused(refusal(tenant.create(deployment("forged", ours.clone())).await));
        refused(refusal(tenant.create(deployment("forged", json!({NAME_LABEL: ""}))).await));
        tenant.create(deployment("plain", json!({}))).await.expect("a Deployment of its own");
        let change = json!({"spec": {"template": {"metadata": {"labels": ours}}}});
        refused(refusal(tenant.patch(("apps/v1", "Deployment"), "plain", change).await));
        let cron = |job: Value, pods: Value| {
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
                "spec": {"schedule": "* * * * *", "suspend": true, "jobTemplate": {
                    "metadata": {"labels": job}, "spec": {"template": {
                        "metadata": {"labels": pods}, "spec": pod_template(&[])["spec"]}}}}})
        };
        refused(refusal(tenant.create(cron(json!({}), ours.clone())).await));
        refused(refusal(tenant.create(cron(ours.clone(), json!({}))).await));
        tenant.create(cron(json!({}), json!({}))).await.expect("a CronJob of its own");
        let change = json!({"spec": {"jobTemplate": {"metadata": {"labels": ours}}}});
        refused(refusal(tenant.patch(("batch/v1", "CronJob"), "c", change).await));
        let own = labels(json!({NAME_LABEL: null}));
        refused(refusal(tenant.patch(("batch/v1", "Job"), "j", own).await));
        // and what is wrapped still makes its pods
        case.condition("a", "PodsReady", "True").await;
    });
}

/// Kueue leaves alone what an admitted AppWrapper controls.
#[test]
fn nobody_makes_an_appwrapper_the_controller_of_its_own() {
    installed_test("nobody_makes_an_appwrapper_the_controller", async |case| {
        let tenant = Tenant::new(&case).await;
        let made = tenant.create(wrapper("a", json!({}), vec![job("j", json!({}), &[])])).await;
        let uid = made.expect("it is let in").metadata.uid.expect("a UID");
        case.pod("j-", "Running").await;
        let owner = |controller: bool| {
            json!({"metadata": {"ownerReferences": [{"apiVersion": AW.0, "kind": AW.1, "name": "a",
                "uid": uid, "controller": controller}]}})
        };
        let controlled = |mut object: Value| {
            object["metadata"]["ownerReferences"] =
                owner(true)["metadata"]["ownerReferences"].clone();
            object
        };
        let objects = [
            job("own", json!({}), &[]),
            pod("own", &[]),
            deployment("own", json!({})),
            wrapper("own", json!({}), vec![job("of-own", json!({}), &[])]),
        ];
        for object in objects {
            let said = refusal(tenant.create(controlled(object.clone())).await);
            assert!(said.contains("must not be set as the controller"), "{object}: {said}");
            tenant.create(object).await.expect("one of its own");
        }
        let said = refusal(tenant.patch(("batch/v1", "Job"), "own", owner(true)).await);
        assert!(said.contains("add it to spec.components"), "{said}");
        tenant.patch(("batch/v1", "Job"), "own", owner(false)).await.expect("it goes with it");
        // nor in two steps, the first of which names another group
        let mut foreign = owner(true);
        foreign["metadata"]["ownerReferences"][0]["apiVersion"] = "x.example/v1".into();
        let mut wrapped = wrapper("two", json!({}), vec![job("of-two", json!({}), &[])]);
        wrapped["metadata"]["ownerReferences"] = foreign["metadata"]["ownerReferences"].clone();
        tenant.create(wrapped).await.expect("another group");
        tenant.patch(("batch/v1", "Job"), "own", foreign).await.expect("another group");
        for (kind, name, want) in [
            (("batch/v1", "Job"), "own", "must not be set as the controller"),
            (AW, "two", "the controller of an AppWrapper must not be changed"),
        ] {
            let said = refusal(tenant.patch(kind, name, owner(true)).await);
            assert!(said.contains(want), "{name}: {said}");
        }
        // what the controller has created may still change
        let note = json!({"metadata": {"annotations": {"example.org/note": "x"}}});
        tenant.patch(("batch/v1", "Job"), "j", note).await.expect("its owner stays");
    });
}

/// What its controller does not know any more could run any number of pods, and nobody would count them.
#[test]
fn nobody_detaches_what_was_made_for_an_appwrapper() {
    installed_test("nobody_detaches_what_was_made_for_an_appwrapper", async |case| {
        let tenant = Tenant::new(&case).await;
        let templates = vec![job("j", json!({}), &[]), deployment("d", json!({}))];
        tenant.create(wrapper("a", json!({}), templates)).await.expect("it is let in");
        case.phase("a", "Running").await; // each component is created
        let set = case.pod("d-", "Running").await;
        let owner = &set.object["metadata"]["ownerReferences"][0];
        let set_name = owner["name"].as_str().expect("its ReplicaSet").to_owned();
        let alone = json!({"metadata": {"ownerReferences": null}});
        for (kind, name) in [
            (("v1", "Pod"), set.name.as_str()),
            (("apps/v1", "ReplicaSet"), &set_name),
            (("apps/v1", "Deployment"), "d"),
            (("batch/v1", "Job"), "j"),
        ] {
            let object = tenant.api(kind.0, kind.1).get(name).await.expect("it exists");
            let mut another = json!({"metadata": {"ownerReferences": object.owner_references()}});
            another["metadata"]["ownerReferences"][0]["apiVersion"] = "x.example/v1".into();
            for change in [alone.clone(), another] {
                let said = refusal(tenant.patch(kind, name, change).await);
                assert!(said.contains("must not be changed or removed"), "{kind:?}: {said}");
            }
            let note = json!({"metadata": {"annotations": {"example.org/note": "x"}}});
            tenant.patch(kind, name, note).await.expect("its owner stays");
        }
        detaches_no_job_set(&tenant).await;
        // what no AppWrapper wraps is its own affair
        tenant.create(deployment("own", json!({}))).await.expect("one of its own");
        let pod = case.pod("own-", "Running").await;
        tenant.patch(("v1", "Pod"), &pod.name, alone).await.expect("it may");
    });
}

/// One as Kubeflow Trainer makes it: only the templates of its pods have our label.
async fn detaches_no_job_set(tenant: &Tenant<'_>) {
    let case = tenant.case;
    let rules = json!([
        {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["*"]},
    ]);
    grant(case, "job-sets", &tenant.name, rules).await;
    let patches = json!({"namespace": case.namespace, "group": "jobset.x-k8s.io",
        "resource": "jobsets", "verb": "patch"});
    case.until_allowed(&tenant.name, patches).await;
    let mut set = job_set("s", json!({"suspend": true}), &[("one", &[])]);
    let owner = json!({"apiVersion": "x.example/v1", "kind": "Maker", "name": "m", "uid": "u",
        "controller": true});
    set["metadata"]["ownerReferences"] = json!([owner]);
    let template = &mut set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
    template["metadata"]["labels"][NAME_LABEL] = "a".into();
    case.create(set).await;
    let alone = json!({"metadata": {"ownerReferences": null}});
    let said = refusal(tenant.patch(JOB_SET, "s", alone).await);
    assert!(said.contains("must not be changed or removed"), "{said}");
}

#[test]
fn a_right_that_was_taken_away_creates_nothing() {
    installed_test("a_right_that_was_taken_away_creates_nothing", async |case| {
        let tenant = Tenant::new(&case).await;
        let mut object = wrapper("a", json!({}), vec![job("j", json!({}), &[])]);
        object["spec"]["suspend"] = true.into();
        object["spec"]["requester"] = json!({"username": "admin", "groups": ["system:masters"]});
        let made = tenant.create(object).await.expect("it may create jobs");
        let requester = &made.data["spec"]["requester"];
        assert_eq!(requester["username"], tenant.name.as_str(), "the webhook says who it is");
        let groups = requester["groups"].to_string();
        assert!(groups.contains("tenants") && !groups.contains("masters"), "{groups}");
        let without = json!({"spec": {"requester": null}});
        let kept = tenant.patch(AW, "a", without).await.expect("it is let in");
        assert_eq!(kept.data["spec"]["requester"], *requester, "it stays");
        for change in [json!({"username": "admin"}), json!({"groups": ["x"]})] {
            let change = json!({"spec": {"requester": change}});
            let said = refusal(tenant.patch(AW, "a", change).await);
            assert!(said.contains("must not be changed"), "{said}");
        }
        case.phase("a", "Suspended").await;
        case.delete("rbac.authorization.k8s.io/v1", "RoleBinding", "tenant").await;
        tenant.until_allowed(false).await;
        case.suspend("a", false).await;
        let failed = case.phase("a", "Failed").await;
        let want = format!(
            "Job/j: User {:?} cannot create resource \"jobs\" in API group \"batch\" in the \
             namespace {:?}",
            tenant.name, case.namespace
        );
        let said = failed.condition_field("Unhealthy", "message");
        assert!(said.contains(&want), "{said}");
        assert_eq!(failed.condition_field("Unhealthy", "reason"), "CreateFailed");
        assert!(case.stored("batch/v1", "Job", "j").await.is_none());
        // nobody else is concerned
        case.others_go_on("other").await;
    });
}

/// The API server finds nothing wrong with the types in the policies' expressions.
#[test]
fn the_policies_are_understood() {
    installed_test("the_policies_are_understood", async |case| {
        for name in [
            "appwrapper-quota",
            "appwrapper-pods",
            "appwrapper-pod-templates",
            "appwrapper-pod-resources",
            "appwrapper-components",
            "appwrapper-owners",
            "appwrapper-controllers",
        ] {
            let api =
                case.cluster_api("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy");
            let checked = |policy: Option<&DynamicObject>| {
                policy.is_some_and(|policy| policy.data["status"]["typeChecking"].is_object())
            };
            let checked = await_condition(api.clone(), name, checked);
            let checked = tokio::time::timeout(Duration::from_mins(2), checked).await;
            let policy = checked.expect("it is checked").expect("the watch goes on");
            let status = &policy.expect("it is installed").data["status"];
            assert_eq!(status["typeChecking"], json!({}), "{name}");
        }
    });
}

/// The policies of the manifests about AppWrappers, in the namespace of a test.
async fn install_policies(case: &Case) {
    let file = include_str!("../../../config/admission/appwrappers.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(file).expect("YAML");
    for mut object in objects {
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        object["metadata"]["name"] = case.namespace.as_str().into();
        if kind.ends_with("Binding") {
            let here = json!({"matchLabels": {"kubernetes.io/metadata.name": case.namespace}});
            object["spec"]["policyName"] = case.namespace.as_str().into();
            object["spec"]["matchResources"] = json!({"namespaceSelector": here});
        }
        let object = serde_json::from_value(object).expect("an object");
        let api = case.cluster_api("admissionregistration.k8s.io/v1", &kind);
        api.create(&PostParams::default(), &object).await.expect("it is accepted");
    }
}

/// A suspended AppWrapper that says who created it.
fn created_by(requester: Value, name: &str) -> Value {
    let mut object = wrapper(name, json!({}), vec![pod(name, &[])]);
    object["spec"]["suspend"] = true.into();
    object["spec"]["requester"] = requester;
    object
}

/// A Role with these rules, bound to a user.
async fn grant(case: &Case, role: &str, user: &str, rules: Value) {
    case.create(json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role",
        "metadata": {"name": role}, "rules": rules}))
        .await;
    case.create(json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}]}))
        .await;
}

/// One who may do everything with AppWrappers, but not update their finalizers. The policies are in force.
async fn eve(case: &Case) -> Tenant<'_> {
    let client = PLANE.client_of("eve", &["tenants"]).expect("a client");
    let rules = json!([{"apiGroups": ["*"], "resources": ["appwrappers"], "verbs": ["*"]}]);
    grant(case, "eve", "eve", rules).await;
    let creates = json!({"namespace": case.namespace, "group": "workload.codeflare.dev",
        "resource": "appwrappers", "verb": "create"});
    case.until_allowed("eve", creates).await;
    install_policies(case).await;
    let tenant = Tenant { case, name: "eve".to_owned(), client };
    // until roles and policies are in force, which nobody tells
    let mut said = String::new();
    for round in 0..1000 {
        let forged = created_by(json!({"username": "admin"}), &format!("forged-{round}"));
        match tenant.create(forged).await {
            Err(Error::Api(status)) if status.message.contains("spec.requester") => {
                said.clone_from(&status.message);
                break;
            }
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    assert!(said.contains("spec.requester must be left out"), "{said}");
    tenant
}

#[test]
fn without_the_webhook_no_policy_in_use_is_removed() {
    without_webhook("without_the_webhook_no_policy_in_use_is_removed", async |case| {
        let tenant = eve(&case).await;
        let policies = json!({
            "failurePolicy": {"maxRestarts": 1},
            "podFailurePolicy": {"rules": []},
            "progress": {"stallAfter": "10m"},
            "onNoFit": {"action": "Hold"},
        });
        let mut object = created_by(json!(null), "ruled");
        object["spec"]["suspend"] = false.into();
        object["spec"]["managedBy"] = "example.com/other".into();
        object["spec"]["executionPolicy"] = json!({"executionPolicyOrder": "InOrder"});
        let policies = policies.as_object().expect("an object");
        object["spec"].as_object_mut().expect("a spec").extend(policies.clone());
        tenant.create(object).await.expect("the webhook is off");
        let without = |field: &str| json!({"spec": {field: null}});
        for field in policies.keys().map(String::as_str).chain(["executionPolicy"]) {
            let said = refusal(tenant.patch(AW, "ruled", without(field)).await);
            assert!(said.contains("must not be removed"), "{field}: {said}");
            let said = refusal(tenant.set_null(AW, "ruled", field).await);
            assert!(said.contains("must not be removed"), "{field}: null: {said}");
        }
        // by an account that may update finalizers, such as that of the Go controller
        case.patch("ruled", without("progress")).await;
        case.patch("ruled", json!({"spec": {"suspend": true}})).await;
        for field in policies.keys() {
            tenant.patch(AW, "ruled", without(field)).await.expect("it is suspended");
        }
        let said = refusal(tenant.patch(AW, "ruled", without("executionPolicy")).await);
        assert!(said.contains("spec.executionPolicy must not be removed"), "{said}");
        case.patch("ruled", without("executionPolicy")).await;
        // what is null is none
        let mut object = created_by(json!(null), "empty");
        object["spec"]["suspend"] = false.into();
        object["spec"]["managedBy"] = "example.com/other".into();
        let fields = || policies.keys().map(String::as_str).chain(["executionPolicy"]);
        for field in fields() {
            object["spec"][field] = json!(null);
        }
        tenant.create(object).await.expect("the webhook is off");
        for field in fields() {
            tenant.patch(AW, "empty", without(field)).await.expect("there is none");
        }
    });
}

#[test]
fn without_the_webhook_nobody_writes_another_users_name() {
    without_webhook("without_the_webhook_nobody_writes_anothers_name", async |case| {
        let tenant = eve(&case).await;
        let groups = json!(["tenants", "system:authenticated"]);
        for (forged, is_ok) in [
            (json!({"username": "eve", "groups": ["system:masters"]}), false),
            (json!({"username": "eve"}), false),
            (json!({"username": "eve", "groups": groups, "uid": "u"}), false),
            (json!({"username": "eve", "groups": groups, "extra": {"scope": ["x"]}}), false),
            (json!({"username": "eve", "groups": groups}), true),
        ] {
            let answer = tenant.create(created_by(forged.clone(), "mine")).await;
            assert_eq!(answer.is_ok(), is_ok, "{forged}: {answer:?}");
        }
        tenant.create(created_by(json!(null), "plain")).await.expect("the webhook is off");
        let late = json!({"spec": {"requester": {"username": "eve", "groups": groups}}});
        let said = refusal(tenant.patch(AW, "plain", late).await);
        assert!(said.contains("must not be changed"), "{said}");
    });
}

#[test]
fn more_pods_than_were_admitted_are_told() {
    installed_test("more_pods_than_were_admitted_are_told", async |case| {
        let tenant = Tenant::new(&case).await;
        let one = job("j", json!({"parallelism": 1, "completions": 6}), &[]);
        let many = deployment("d", json!({}));
        tenant.create(wrapper("a", json!({}), vec![one, many])).await.expect("it is let in");
        let ready = case.condition("a", "PodsReady", "True").await;
        assert_eq!(ready.condition("PodsOverQuota"), "", "nothing is said of what is right");
        let pods = |count: i64| json!({"spec": {"parallelism": count}});
        tenant.patch(("batch/v1", "Job"), "j", pods(6)).await.expect("it may scale a Job");
        let over = case.condition("a", "PodsOverQuota", "True").await;
        assert_eq!(over.phase(), "Running", "by default that is all");
        let said = over.condition_field("PodsOverQuota", "message");
        assert!(said.contains("Job/j: pod set 0-0 has 6 live pods, but only 1"), "{said}");
        assert!(case.warning("a", "PodsOverQuota").await.contains("Job/j: pod set 0-0 has 6 live"));
        let page = page().await;
        assert!(!page.contains("appwrapper_pods_over_quota 0"), "{page}");
        assert!(page.contains("appwrapper_pods_over_quota "), "{page}");
        tenant.patch(("batch/v1", "Job"), "j", pods(1)).await.expect("it may scale a Job");
        case.condition("a", "PodsOverQuota", "False").await;
        let replicas = json!({"spec": {"replicas": 3}});
        tenant.patch(("apps/v1", "Deployment"), "d", replicas).await.expect("it may scale it");
        let want = "Deployment/d: pod set 1-0 has 3 live pods, but only 1 is declared";
        case.says("a", "PodsOverQuota", want).await;
    });
}

#[test]
fn restarts_that_nobody_counts_have_a_pause() {
    installed_test("restarts_that_nobody_counts_have_a_pause", async |case| {
        let tenant = Tenant::new(&case).await;
        let settings =
            tuned(&[("retryPausePeriodDuration", "0s"), ("failureGracePeriodDuration", "0s")]);
        let life = [("run-for", "0s"), ("exit-code", "42")];
        let mut object = wrapper("a", settings, vec![pod("p", &life)]);
        object["spec"]["podFailurePolicy"] = json!({"rules": [{"action": "Ignore",
            "onExitCodes": {"operator": "In", "values": [42]}}]});
        tenant.create(object).await.expect("it is let in");
        let second = case
            .until("a second attempt", |log| {
                let seen = log.last("AppWrapper", "a")?;
                seen.object["status"]["attempts"][1].is_object().then(|| seen.clone())
            })
            .await;
        assert_eq!(second.restarts(), 0, "nobody counts it");
        let ended = second.moment_at("/status/attempts/0/endedAt");
        let started = second.moment_at("/status/attempts/1/startedAt");
        assert!(seconds(ended, started) >= 10, "{ended} to {started}");
    });
}
