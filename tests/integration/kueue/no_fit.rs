//! `onNoFit`: an AppWrapper that Kueue admits and no node takes gives its quota back.

use serde_json::{Value, json};

use crate::harness::{pod, quota_without_a_gap, test, tuned};

use super::{Queue, queued};

/// An AppWrapper with a pod for which there is no node.
pub fn unfit(queue: &str, action: &str) -> Value {
    let mut nowhere = pod("nowhere", &[]);
    nowhere["spec"]["nodeSelector"] = json!({"no-node": "has-this"});
    let settings = tuned(&[("retryPausePeriodDuration", "0s")]);
    let mut aw = queued("aw", queue, settings, vec![nowhere]);
    aw["spec"]["onNoFit"] = json!({"after": "10s", "action": action});
    aw
}

#[test]
fn what_does_not_fit_gives_its_quota_back_and_returns_to_the_queue() {
    test("what_does_not_fit_gives_its_quota_back", async |case| {
        case.record_workloads().await;
        Queue::of("kueue-no-fit", 1).create(&case).await;
        case.create(unfit("kueue-no-fit", "Requeue")).await;
        case.phase("aw", "Running").await;
        let rival = vec![pod("rival", &[("run-for", "0s")])];
        case.create(queued("rival", "kueue-no-fit", json!({}), rival)).await;
        // the quota of one pod comes back, and the rival has it
        case.phase("rival", "Succeeded").await;
        let up = ["", "Suspended", "Resuming", "Running"];
        let down = ["Resetting", "Suspending", "Suspended"];
        case.phases("aw", &[&up[..], &down[..], &["Resuming", "Running"]].concat()).await;
        let again = case.phase("aw", "Running").await;
        assert_eq!(again.restarts(), 0);
        let status = &again.object["status"];
        assert_eq!(status["requeue"], Value::Null, "{status}");
        let first = &again.attempts()[0];
        assert_eq!((&first["outcome"], &first["action"]), (&json!("NoFit"), &json!("Requeue")));
        assert_eq!(first["failure"]["pod"], "nowhere");
        let log = case.log();
        let workload = log.workloads("aw").last().expect("it has one");
        assert_eq!(workload.object["spec"]["active"], true);
        let mark = "workload.codeflare.dev.appwrapper/deactivatedForAttempt";
        assert_eq!(workload.object["metadata"]["annotations"][mark], Value::Null);
        case.lawful("aw").await;
    });
}

#[test]
fn what_does_not_fit_and_holds_its_quota_tries_again() {
    test("what_does_not_fit_and_holds_its_quota_tries_again", async |case| {
        Queue::of("kueue-no-fit-hold", 1).create(&case).await;
        case.create(unfit("kueue-no-fit-hold", "Hold")).await;
        let up = ["", "Suspended", "Resuming", "Running"];
        case.phases("aw", &[&up[..], &["Resetting", "Resuming", "Running"]].concat()).await;
        let again = case.phase("aw", "Running").await;
        assert_eq!((again.restarts(), &again.attempts()[0]["action"]), (0, &json!("Hold")));
        quota_without_a_gap(&case.log(), "aw");
    });
}
