//! Whose a pod is: labels and owner references that somebody forged, took away, or changed.

use std::sync::Arc;

use appwrapper::config::Autopilot;
use appwrapper::metrics::Metrics;
use appwrapper::observe::assemble::Wrapper;
use appwrapper::observe::cache::Cache;
use appwrapper::observe::live::Live;
use appwrapper::observe::memory::ReconcileState;
use appwrapper::observe::pod_lists::PodLists;
use appwrapper::observe::raw_object::RawObject;
use appwrapper::observe::retry_sources::Attach;
use appwrapper::observe::{Sources, observe};
use appwrapper::plan::FreshRead;
use appwrapper::snapshot::Snapshot;
use http::Request;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::client::ClientBuilder;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::harness::{Case, PLANE, job, pod, test, tuned, without_webhook, wrapper};
use crate::objects::{app, config_map};

const NAME_LABEL: &str = "workload.codeflare.dev/appwrapper";
const UID_LABEL: &str = "workload.codeflare.dev/appwrapper-uid";
const ATTEMPT_LABEL: &str = "workload.codeflare.dev/attempt";
const POD_SET_LABEL: &str = "workload.codeflare.dev/podset";

/// An invented UID.
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

/// A pod that copies every label of ours, with a controller owner.
fn forged(name: &str, aw: &DynamicObject, owner: &Value, life: &[(&str, &str)]) -> Value {
    let mut forged = pod(name, life);
    forged["metadata"]["labels"] = json!({
        NAME_LABEL: aw.name_any(), UID_LABEL: aw.uid(), ATTEMPT_LABEL: "0", POD_SET_LABEL: "0-0",
    });
    if !owner.is_null() {
        forged["metadata"]["ownerReferences"] = json!([owner]);
        forged["metadata"]["ownerReferences"][0]["controller"] = true.into();
    }
    forged
}

/// An owner reference.
fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid})
}

/// A pod is as it was created, but for what the scheduler and the kubelet write.
async fn is_left_alone(case: &Case, was: &DynamicObject) {
    let is = case.stored("v1", "Pod", &was.name_any()).await.expect("it is still there");
    assert_eq!(is.uid(), was.uid(), "{}", was.name_any());
    assert_eq!(is.metadata.deletion_timestamp, None, "{}", was.name_any());
}

#[test]
fn a_pod_whose_owner_cannot_be_read_holds_quota_and_nothing_else() {
    test("a_pod_whose_owner_cannot_be_read_holds_quota_and_nothing_else", async |case| {
        let settings = tuned(&[("failureGracePeriodDuration", "0s")]);
        let aw = case.wrap("aw", settings, vec![pod("p", &[])]).await;
        case.ready("aw", 0).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        let secret = case.create(secret).await;
        // Secrets are not for the controller to read
        let owner = reference("v1", "Secret", "s", &secret.uid().expect("a UID"));
        let hidden = case.create(forged("hidden", &aw, &owner, &[])).await;
        case.pod("hidden", "Running").await;
        case.end_pod("p", "1").await;
        // The failure is acted on; the pause begins when nothing is left that may be ours.
        case.phase("aw", "Resetting").await;
        let seen = case.says("aw", "DeletingResources", "Pod/hidden").await;
        assert_eq!(seen.condition("QuotaReserved"), "True");
        case.others_go_on("other").await;
        is_left_alone(&case, &hidden).await;
        case.force_delete_pod("hidden").await;
        case.ready("aw", 1).await;
        case.end_pod("p", "0").await;
        case.phase("aw", "Succeeded").await;
        case.lawful("aw").await;
    });
}

#[test]
fn a_name_from_which_no_request_can_be_made_stops_no_look() {
    without_webhook("a_name_from_which_no_request_can_be_made_stops_no_look", async |case| {
        let aw = case.wrap("aw", json!({}), vec![pod("p", &[])]).await;
        case.ready("aw", 0).await;
        let long = "u".repeat(200_000);
        let mut all = vec![];
        for (name, owner) in [
            ("walks", reference("batch/v1", "Job", "../../secrets/s", NOBODY)),
            ("watches", reference("invented.example.com/v1", "Thing", "?watch=true", NOBODY)),
            ("long", reference("example.com/v1", "Thing", "t", &long)),
        ] {
            all.push(case.create(forged(name, &aw, &owner, &[("run-for", "0s")])).await);
        }
        for pod in &all {
            // garbage collection may be first where it finds that there is no such owner
            case.until("the forged pod has ended, or goes", |log| {
                log.all("Pod").filter(|seen| seen.name == pod.name_any()).find_map(|seen| {
                    let goes = !seen.object["metadata"]["deletionTimestamp"].is_null();
                    (goes || seen.phase() == "Succeeded").then_some(())
                })
            })
            .await;
        }
        case.end_pod("p", "0").await;
        case.phase("aw", "Succeeded").await;
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
    });
}

#[test]
fn a_pod_of_an_invented_kind_is_nobodys_orphan() {
    test("a_pod_of_an_invented_kind_is_nobodys_orphan", async |case| {
        let settings = tuned(&[("failureGracePeriodDuration", "0s")]);
        let aw = case.wrap("aw", settings, vec![pod("p", &[])]).await;
        case.ready("aw", 0).await;
        let owner = reference("invented.example.com/v1", "Thing", "t", NOBODY);
        let life = [("run-for", "0s"), ("exit-code", "1")];
        let failed = case.create(forged("failed", &aw, &owner, &life)).await;
        case.pod("failed", "Failed").await;
        let running = case.create(forged("running", &aw, &owner, &[])).await;
        case.pod("running", "Running").await;
        case.end_pod("p", "0").await;
        // Its exit code fails nobody; as long as it runs, it holds the quota, and is named.
        let held = case.says("aw", "UndeterminedPods", "Pod/").await;
        assert_eq!((held.phase(), held.condition("QuotaReserved")), ("Running", "True"));
        case.warning("aw", "UndeterminedPods").await;
        is_left_alone(&case, &running).await;
        case.force_delete_pod("running").await;
        case.phases("aw", &["", "Resuming", "Running", "Succeeded"]).await;
        is_left_alone(&case, &failed).await;
    });
}

#[test]
fn a_pod_under_the_appwrapper_that_is_no_component_is_a_strangers() {
    test("a_pod_under_the_appwrapper_that_is_no_component_is_a_strangers", async |case| {
        let templates = vec![pod("p", &[]), config_map("c")];
        let aw = case.wrap("aw", json!({}), templates).await;
        case.ready("aw", 0).await;
        let uid = aw.uid().expect("a UID");
        let us = reference("workload.codeflare.dev/v1beta2", "AppWrapper", "aw", &uid);
        let direct = case.create(forged("direct", &aw, &us, &[])).await;
        let c = case.stored("v1", "ConfigMap", "c").await.expect("it is there");
        let owner = reference("v1", "ConfigMap", "c", &c.uid().expect("a UID"));
        let below = case.create(forged("below", &aw, &owner, &[])).await;
        case.pod("direct", "Running").await;
        case.pod("below", "Running").await;
        case.end_pod("p", "0").await;
        case.phases("aw", &["", "Resuming", "Running", "Succeeded"]).await;
        is_left_alone(&case, &direct).await;
        is_left_alone(&case, &below).await;
    });
}

#[test]
fn a_pod_that_loses_its_labels_is_waited_for() {
    test("a_pod_that_loses_its_labels_is_waited_for", async |case| {
        case.wrap("aw", json!({}), vec![job("j", json!({}), &[("stuck", "")])]).await;
        case.ready("aw", 0).await;
        let ours = case.pod("j-", "Running").await;
        let labels = json!({NAME_LABEL: null, UID_LABEL: null, ATTEMPT_LABEL: null});
        case.change("v1", "Pod", &ours.name, json!({"metadata": {"labels": labels}})).await;
        case.suspend("aw", true).await;
        let seen = case.says("aw", "DeletingResources", &format!("Pod/{}", ours.name)).await;
        assert_eq!(seen.condition("QuotaReserved"), "True");
        assert!(case.stored("v1", "Pod", &ours.name).await.is_some());
        case.force_delete_pod(&ours.name).await;
        case.phase("aw", "Suspended").await;
        case.lawful("aw").await;
    });
}

#[test]
fn a_terminating_pod_that_loses_its_labels_is_waited_for() {
    test("a_terminating_pod_that_loses_its_labels_is_waited_for", async |case| {
        case.wrap("aw", json!({}), vec![pod("p", &[("stuck", "")])]).await;
        case.ready("aw", 0).await;
        case.delete_wrapper("aw").await;
        case.says("aw", "DeletingResources", "Pod/p").await;
        case.change("v1", "Pod", "p", json!({"metadata": {"labels": {NAME_LABEL: null}}})).await;
        case.others_go_on("other").await;
        let seen = case.log().last("AppWrapper", "aw").cloned().expect("it is held");
        assert_eq!(seen.condition("ResourcesDeployed"), "True");
        case.force_delete_pod("p").await;
        case.gone("AppWrapper", "aw").await;
        case.lawful("aw").await;
    });
}

#[test]
fn a_pod_whose_label_changes_is_no_phantom() {
    test("a_pod_whose_label_changes_is_no_phantom", async |case| {
        for name in ["a", "b"] {
            case.wrap(name, json!({}), vec![job(name, json!({}), &[])]).await;
            case.ready(name, 0).await;
        }
        let moved = case.pod("a-", "Running").await;
        let labels = json!({"metadata": {"labels": {NAME_LABEL: "b"}}});
        case.change("v1", "Pod", &moved.name, labels).await;
        case.delete_wrapper("a").await;
        case.gone("AppWrapper", "a").await;
        let gone = case.log().of("Pod", &moved.name).last().is_some_and(|seen| seen.deleted);
        assert!(gone, "its quota was held as long as the pod was there");
        let seen = case.log().last("AppWrapper", "b").cloned().expect("it runs");
        assert_eq!((seen.phase(), seen.restarts()), ("Running", 0));
        case.delete_wrapper("b").await;
        case.gone("AppWrapper", "b").await;
        case.lawful("a").await;
        case.lawful("b").await;
    });
}

#[test]
fn a_pod_that_its_job_left_behind_is_deleted_and_waited_for() {
    test("a_pod_that_its_job_left_behind_is_deleted_and_waited_for", async |case| {
        case.wrap("aw", json!({}), vec![job("j", json!({}), &[("stuck", "")])]).await;
        case.ready("aw", 0).await;
        let left = case.pod("j-", "Running").await;
        let params = DeleteParams::orphan();
        case.api("batch/v1", "Job").delete("j", &params).await.expect("the Job is deleted");
        case.unhealthy("aw", "MissingComponent").await;
        // Nobody else would delete it.
        case.until("the pod is being deleted", |log| {
            let pod = log.last("Pod", &left.name)?;
            pod.object["metadata"]["deletionTimestamp"].is_string().then_some(())
        })
        .await;
        case.suspend("aw", true).await;
        let seen = case.says("aw", "DeletingResources", &format!("Pod/{}", left.name)).await;
        assert_eq!(seen.condition("QuotaReserved"), "True");
        case.force_delete_pod(&left.name).await;
        case.phase("aw", "Suspended").await;
        case.lawful("aw").await;
    });
}

/// A Deployment is deleted without its `ReplicaSet`, which makes pods for as long as it is there.
pub async fn leave_a_replica_set_behind(case: &Case) {
    let settings = tuned(&[("forcefulDeletionGracePeriodDuration", "3s")]);
    case.wrap("left", settings, vec![app("Deployment", "left", 1)]).await;
    case.ready("left", 0).await;
    let params = DeleteParams::orphan();
    let deleted = case.api("apps/v1", "Deployment").delete("left", &params).await;
    deleted.expect("the Deployment is deleted");
    case.suspend("left", true).await;
    case.phase("left", "Suspended").await;
    let sets = case.api("apps/v1", "ReplicaSet").list(&ListParams::default()).await;
    let left = sets.expect("they are listed").items.into_iter().map(|set| set.name_any());
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
    case.lawful("left").await;
    case.delete_wrapper("left").await;
    case.gone("AppWrapper", "left").await;
}

#[test]
fn what_makes_pods_after_its_component_is_gone_is_deleted() {
    test("what_makes_pods_after_its_component_is_gone_is_deleted", async |case| {
        leave_a_replica_set_behind(&case).await;
    });
}

#[test]
fn pods_of_an_owner_that_lost_its_owner_hold_quota() {
    test("pods_of_an_owner_that_lost_its_owner_hold_quota", async |case| {
        let aw = case.wrap("aw", json!({}), vec![app("Deployment", "d", 1)]).await;
        case.ready("aw", 0).await;
        // a ReplicaSet that looks like one of the Deployment, and that nothing controls
        let labels = json!({"app": "x", NAME_LABEL: "aw", UID_LABEL: aw.uid()});
        let mut set = app("ReplicaSet", "d-x", 1);
        set["spec"]["selector"] = json!({"matchLabels": {"app": "x"}});
        set["spec"]["template"]["metadata"]["labels"] = labels;
        case.create(set).await;
        case.pod("d-x-", "Running").await;
        case.suspend("aw", true).await;
        let seen = case.says("aw", "DeletingResources", "does not control its owner").await;
        assert_eq!(seen.condition("QuotaReserved"), "True");
        case.delete("apps/v1", "ReplicaSet", "d-x").await;
        case.phase("aw", "Suspended").await;
    });
}

/// An AppWrapper as it is stored.
async fn read(client: &Client, case: &Case, name: &str) -> Arc<Wrapper> {
    let path = "/apis/workload.codeflare.dev/v1beta2/namespaces";
    let request = Request::get(format!("{path}/{}/appwrappers/{name}", case.namespace));
    let request = request.body(vec![]).expect("a request");
    let seen: RawObject = client.request(request).await.expect("the AppWrapper is there");
    Arc::new(Wrapper::read(&seen).expect("it can be read"))
}

/// What a controller that has just started sees of an AppWrapper.
async fn look(client: &Client, cache: &Cache, wrapper: &Wrapper) -> Snapshot {
    let (live, lists) = (Live::default(), PodLists::default());
    let sources = Sources { client, live: &live, cache, lists: &lists };
    let mut memory = ReconcileState::default();
    let (attach, autopilot) = (Attach::default(), Autopilot::default());
    let seen = observe(sources, wrapper, &mut memory, FreshRead::Gone, &attach, &autopilot).await;
    seen.expect("the look does not fail")
}

#[test]
fn owners_named_in_one_namespace_are_not_believed_in_another() {
    without_webhook("owners_named_in_one_namespace_are_not_believed_in_another", async |case| {
        case.wrap("victim", json!({}), vec![app("Deployment", "d", 1)]).await;
        case.ready("victim", 0).await;
        let theirs = case.pod("d-", "Running").await;
        let replica_set = &theirs.object["metadata"]["ownerReferences"][0];
        let uid = replica_set["uid"].as_str().expect("a UID");
        let attacker = Case::new(case.client.clone(), "owners-named-by-an-attacker").await;
        let mut evil = wrapper("evil", json!({}), vec![config_map("c")]);
        evil["spec"]["suspend"] = true.into();
        let evil = attacker.create(evil).await;
        for (name, owner) in [
            ("node", reference("v1", "Node", "node-0", uid)),
            ("job", reference("batch/v1", "Job", "nothing", uid)),
            ("thing", reference("invented.example.com/v1", "Thing", "t", uid)),
        ] {
            attacker.create(forged(name, &evil, &owner, &[])).await;
        }
        // As after a restart: the attacker's AppWrapper is looked at first.
        let (client, cache) = (PLANE.client(), Cache::default());
        for _ in 0..2 {
            look(&client, &cache, &*read(&client, &attacker, "evil").await).await;
        }
        let seen = look(&client, &cache, &*read(&client, &case, "victim").await).await;
        let names: Vec<&str> = seen.pods.iter().map(|pod| pod.name.as_str()).collect();
        assert_eq!(names, [theirs.name.as_str()]);
    });
}

/// How many calls a client has made.
fn calls(metrics: &Metrics) -> usize {
    let page = metrics.page();
    let lines = page.lines().filter(|line| line.starts_with("appwrapper_api_requests_total"));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    counts.sum()
}

#[test]
fn a_flood_of_forged_pods_costs_a_look_a_bounded_number_of_calls() {
    without_webhook("a_flood_of_forged_pods_costs_a_look_a_bounded", async |case| {
        let mut aw = wrapper("aw", json!({}), vec![job("j", json!({}), &[])]);
        aw["spec"]["suspend"] = true.into();
        let aw = case.create(aw).await;
        for number in 0..60 {
            let (kind, name) = (format!("Thing{number}"), format!("t-{number}"));
            let owner = reference("invented.example.com/v1", &kind, &name, NOBODY);
            case.create(forged(&format!("flood-{number}"), &aw, &owner, &[])).await;
        }
        let metrics = Metrics::new();
        let builder = ClientBuilder::try_from(PLANE.config()).expect("as at the start");
        let client = builder.with_layer(&metrics.calls()).build();
        let wrapper = read(&client, &case, "aw").await;
        let cache = Cache::default();
        let before = calls(&metrics);
        assert!(before > 0, "calls are counted");
        let seen = look(&client, &cache, &wrapper).await;
        let made = calls(&metrics) - before;
        assert!(seen.pods.is_empty());
        // two lists, and at most two calls for each of a few owners
        assert!(made <= 24, "{made} calls");
    });
}
