//! AppWrappers in the middle of their life under the Go controller: they go on as if nothing had
//! happened, and fail over when something does.

use std::sync::Arc;

use appwrapper::clock::SystemClock;
use appwrapper::controller::Controller;
use kube::api::ListParams;
use serde_json::json;

use crate::harness::{self, Case, job, runtime_test, tuned, wrapper};
use crate::proxy::PLANE;
use crate::proxy::line::{Line, Role};

/// Creates an AppWrapper and its Job as the Go controller leaves them in a phase: its conditions, no
/// UID, no attempt, none of our labels. There is no controller of ours yet.
async fn left_behind(case: &Case, phase: &str) {
    let template = job("j", json!({}), &[]);
    let mut aw = wrapper("aw", tuned(&[]), vec![template.clone()]);
    aw["metadata"]["finalizers"] = json!(["workload.codeflare.dev/finalizer"]);
    aw["spec"]["components"][0]["podSets"] =
        json!([{"path": "template.spec.template", "replicas": 1}]);
    let aw = case.create(aw).await;
    let mut job = template;
    let label = json!({"workload.codeflare.dev/appwrapper": "aw"});
    job["metadata"]["labels"] = label.clone();
    job["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "aw",
        "uid": aw.metadata.uid, "controller": true, "blockOwnerDeletion": true,
    }]);
    job["spec"]["template"]["metadata"]["labels"] = label;
    case.create(job).await;
    case.pod("j-", "Running").await;
    let ready = phase == "Running";
    let condition = |kind: &str, status: bool, reason: &str| {
        json!({
            "type": kind, "status": if status { "True" } else { "False" }, "reason": reason,
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let created = condition("ResourcesDeployed", true, "ComponentCreatedSuccessfully");
    case.change_status(
        "aw",
        json!({
            "phase": phase,
            "resettingCount": 1,
            "conditions": [
                condition("QuotaReserved", true, "AppWrapperResuming"),
                condition("ResourcesDeployed", true, "AppWrapperResuming"),
                condition("PodsReady", ready, "SufficientPodsReady"),
                condition("Unhealthy", false, "FoundNoFailedPods"),
            ],
            "componentStatus": [{
                "name": "j", "kind": "Job", "apiVersion": "batch/v1",
                "podSets": [{"path": "template.spec.template", "replicas": 1}],
                "conditions": if ready { json!([created]) } else { json!([]) },
            }],
        }),
    )
    .await;
}

/// Starts the controller of this namespace.
fn hand_over(case: &Case) {
    let line = Line::quiet(case.client.clone(), &case.namespace);
    let (client, clock) = (line.client(Role::First), Arc::new(SystemClock));
    let controller = Controller::new(client, clock, harness::config());
    tokio::spawn(async move { controller.run(std::future::pending()).await });
}

fn test<F: Future<Output = ()>>(name: &str, body: impl FnOnce(Case) -> F) {
    runtime_test(name, || PLANE.client(), body);
}

#[test]
fn what_the_go_controller_runs_goes_on_and_fails_over() {
    test("what_the_go_controller_runs_goes_on_and_fails_over", async |case| {
        left_behind(&case, "Running").await;
        let old = case.pod("j-", "Running").await;
        hand_over(&case);
        case.others_go_on("other").await;
        // the watch cache that the first list is answered from may still show the pod as Pending
        let seen = case.condition("aw", "PodsReady", "True").await;
        assert_eq!(seen.phase(), "Running");
        assert_eq!(case.log().uids("Pod", "j-"), [old.uid()]);
        case.end_pod(&old.name, "7").await;
        let again = case.ready("aw", 1).await;
        assert_eq!(again.restarts(), 2, "counted on top of those of the Go controller");
        let failure = &again.attempts()[0]["failure"];
        assert_eq!((&failure["pod"], &failure["exitCode"]), (&json!(old.name), &json!(7)));
        case.lawful("aw").await;
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        assert!(case.stored("batch/v1", "Job", "j").await.is_none());
        case.lawful("aw").await;
    });
}

#[test]
fn what_the_go_controller_was_creating_is_taken_as_it_is() {
    test("what_the_go_controller_was_creating_is_taken_as_it_is", async |case| {
        left_behind(&case, "Resuming").await;
        let old = case.pod("j-", "Running").await;
        hand_over(&case);
        case.condition("aw", "PodsReady", "True").await;
        case.end_pod(&old.name, "0").await;
        let done = case.phase("aw", "Succeeded").await;
        assert_eq!(done.restarts(), 1);
        assert_eq!(case.log().uids("Pod", "j-"), [old.uid()]);
    });
}

#[test]
fn what_the_go_controller_runs_is_suspended_with_its_pods() {
    test("what_the_go_controller_runs_is_suspended_with_its_pods", async |case| {
        left_behind(&case, "Running").await;
        case.suspend("aw", true).await;
        hand_over(&case);
        let done = case.phase("aw", "Suspended").await;
        assert_eq!(done.condition("QuotaReserved"), "False");
        assert!(case.stored("batch/v1", "Job", "j").await.is_none());
        let pods = case.api("v1", "Pod").list(&ListParams::default()).await;
        assert!(pods.expect("pods can be listed").items.is_empty());
    });
}
