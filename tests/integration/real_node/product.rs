//! The product on a real node: it leads, serves its webhook, and comes back when its kubelet kills it.

use std::process::Command;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::json;

use super::lane::{Lane, alone_on_real_node, on_real_node, until};
use super::page::{all, job, on_the_page, once, said, shell, wrote};
use crate::harness::Case;
use crate::installed::{NAMESPACE, program};

async fn own_pod(case: &Case) -> Pod {
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), NAMESPACE);
    let ours = ListParams::default().labels("app.kubernetes.io/name=appwrapper");
    let mut found = pods.list(&ours).await.expect("they can be listed").items;
    assert_eq!(found.len(), 1);
    found.remove(0)
}

async fn holder(case: &Case) -> String {
    let leases: Api<Lease> = Api::namespaced(case.client.clone(), NAMESPACE);
    let lease = leases.get("appwrapper-controller").await.expect("there is a Lease");
    lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.and_then(|all| all.first()).map_or(0, |one| one.restart_count)
}

fn list(case: &Case, lane: &Lane) -> String {
    let output = Command::new(program())
        .args(["list", "-n", &case.namespace, "--kubeconfig"])
        .arg(lane.plane.kubeconfig())
        .output()
        .expect("the program runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_controller_that_hangs_is_killed_by_its_kubelet_and_leads_again() {
    let name = "a_controller_that_hangs_is_killed_by_its_kubelet";
    alone_on_real_node(name, async |case, lane| {
        let before = own_pod(&case).await;
        assert!(!holder(&case).await.is_empty(), "it leads");
        let count = restarts(&before);
        let uid = before.metadata.uid.clone().expect("a UID");
        let processes = lane.node.processes_of(&uid);
        assert!(!processes.is_empty());
        let ids = processes.iter().map(ToString::to_string);
        let stopped = Command::new("kill").arg("-STOP").args(ids).status().expect("kill runs");
        assert!(stopped.success());
        until("another process of it", || {
            let now = lane.node.processes_of(&uid);
            !now.is_empty() && processes.iter().all(|id| !now.contains(id))
        })
        .await;
        crate::installed::until_the_webhook_answers(lane.plane.kubeconfig(), || lane.logs());
        case.create(once("after", &[], job("after", shell("true")))).await;
        case.phase("after", "Succeeded").await;
        let after = own_pod(&case).await;
        assert_eq!(after.metadata.uid, before.metadata.uid, "its pod is the same");
        assert!(restarts(&after) > count, "{after:?}");
        assert!(!holder(&case).await.is_empty(), "it leads");
    });
}

/// Pods run, whatever their readiness probes say.
#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_pod_that_is_not_ready_runs() {
    on_real_node("a_pod_that_is_not_ready_runs", async |case, lane| {
        let mut template = shell("sleep 1000");
        template["spec"]["containers"][0]["readinessProbe"] =
            json!({"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1});
        case.create(once("unready", &[], job("unready", template))).await;
        let seen = case.condition("unready", "PodsReady", "True").await;
        let listed = list(&case, lane);
        assert!(listed.contains("pods running"), "{listed}");
        let done = "its readiness probe fails";
        all([on_the_page(done, &wrote(&case.log(), "unready"), &said(&seen.object))]);
    });
}
