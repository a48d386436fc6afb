//! What outlives its object: the log of a failed pod, and the record of a deleted AppWrapper.

use std::time::Duration;

use kube::api::{DynamicObject, ListParams};
use serde_json::json;

use crate::aw::{User, failing};
use crate::harness::{Case, pod, tuned, wrapper};
use crate::installed::{INSTALLED, installed_test};

/// The ConfigMaps with logs in the namespace of a test.
async fn kept_logs(case: &Case) -> Vec<DynamicObject> {
    let all = ListParams::default().labels("workload.codeflare.dev/failure-log");
    case.api("v1", "ConfigMap").list(&all).await.expect("an answer").items
}

async fn until_no_log_is_kept(case: &Case) {
    let gone = async {
        while !kept_logs(case).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), gone).await.expect("the logs are deleted");
}

#[test]
fn a_log_outlives_its_pod_and_goes_with_the_appwrapper() {
    installed_test("a_log_outlives_its_pod_and_goes_with_the_appwrapper", async |case| {
        let user = User::of(&case, INSTALLED.plane.kubeconfig());
        case.wrap("runs", json!({}), vec![pod("r", &[])]).await;
        case.ready("runs", 0).await;
        let said = user.run(&["logs", "runs", "--tail=2"]).with(0, &[]);
        assert_eq!(said.out, "secret=hunter2\nline 120\n");
        user.run(&["logs", "runs", "--failed"]).with(1, &["no failed pod is recorded; for the"]);

        case.create(failing("bad")).await;
        case.condition("bad", "QuotaReserved", "False").await;
        case.gone("Pod", "bad-p").await;
        let said = user
            .run(&["logs", "bad", "--failed"])
            .with(0, &["line 21\n", "line 118\n[redacted]\nline 120"]);
        assert_eq!(said.out.lines().count(), 100, "{}", said.out);
        let (json, _) = user.json(&["logs", "bad", "--attempt=0"]);
        let log = &json["logs"][0];
        assert_eq!((&log["kept"], &log["attempt"]), (&json!(true), &json!(0)), "{json}");
        assert_eq!((&log["pod"], &log["container"]), (&json!("bad-p"), &json!("main")));
        user.run(&["logs", "bad", "--attempt=7"]).with(1, &["attempt 7 is not recorded"]);
        user.run(&["logs", "bad"]).with(0, &["it has no pods with a log"]);
        let kept = kept_logs(&case).await;
        assert_eq!(kept.len(), 2, "one for each attempt");
        assert!(kept.iter().all(|map| map.data["immutable"] == json!(true)), "{kept:?}");

        // whoever may not read ConfigMaps reads no logs, and a ConfigMap of somebody else is none
        let uid = case.wrappers().get("bad").await.expect("it is there").data["status"]["attempts"]
            [1]["failure"]["podUID"]
            .as_str()
            .expect("a UID")
            .to_owned();
        let name = format!("appwrapper-log-{uid}");
        case.delete("v1", "ConfigMap", &name).await;
        user.run(&["logs", "bad", "--failed"]).with(1, &["its log was not kept"]);
        case.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"log": "forged"}}))
            .await;
        user.run(&["logs", "bad", "--failed"]).with(1, &["does not belong to this AppWrapper"]);
        case.delete("v1", "ConfigMap", &name).await;
        case.delete_wrapper("bad").await;
        until_no_log_is_kept(&case).await;

        let settings = tuned(&[("retryLimit", "6"), ("failureGracePeriodDuration", "0s")]);
        let life = [("run-for", "0s"), ("exit-code", "3")];
        case.create(wrapper("often", settings, vec![pod("often-p", &life)])).await;
        case.condition("often", "QuotaReserved", "False").await;
        case.phase("often", "Failed").await;
        assert_eq!(kept_logs(&case).await.len(), 5, "those of the last failures");
    });
}

#[test]
fn what_was_deleted_is_in_the_history() {
    installed_test("what_was_deleted_is_in_the_history", async |case| {
        let user = User::of(&case, INSTALLED.plane.kubeconfig());
        user.run(&["history"]).with(0, &["no record of a deleted AppWrapper"]);
        case.wrap("past", json!({}), vec![pod("p", &[])]).await;
        case.ready("past", 0).await;
        case.end_pod("p", "0").await;
        case.phase("past", "Succeeded").await;
        let mut never = wrapper("never", json!({}), vec![pod("q", &[])]);
        never["spec"]["suspend"] = true.into();
        case.create(never).await;
        case.phase("never", "Suspended").await;
        for name in ["never", "past"] {
            case.delete_wrapper(name).await;
            case.gone("AppWrapper", name).await;
        }
        let (past, code) = user.json(&["history"]);
        let items = past["items"].as_array().expect("a list");
        assert_eq!((code, items.len()), (Some(0), 1), "what never began has no record: {past}");
        assert_eq!((&items[0]["name"], &items[0]["restarts"]), (&json!("past"), &json!(0)));
        assert_eq!(items[0]["attempts"][0]["outcome"], "Succeeded");
        user.run(&["history", "past"]).with(0, &["NAME", "Succeeded", "ATTEMPT", "past, deleted "]);
        user.run(&["history", "other"]).with(0, &["no record of a deleted AppWrapper"]);
    });
}
