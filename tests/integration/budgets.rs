//! `refill` on the real control plane.

use serde_json::json;

use crate::harness::{Log, job, test, tuned, wrapper};

#[test]
fn a_restart_is_given_back_after_a_minute_of_readiness() {
    test("a_restart_is_given_back_after_a_minute_of_readiness", async |case| {
        let settings = tuned(&[("retryPausePeriodDuration", "0s")]);
        let mut object =
            wrapper("aw", settings, vec![job("work", json!({"backoffLimit": 0}), &[])]);
        object["spec"]["failurePolicy"] = json!({"maxRestarts": 1, "refill": {"after": "1m"}});
        case.create(object).await;
        for attempt in 0..2 {
            case.ready("aw", attempt).await;
            if attempt == 1 {
                let budget = |log: &Log| {
                    let seen = log.last("AppWrapper", "aw")?;
                    let budget = &seen.object["status"]["budget"];
                    budget["used"].is_i64().then(|| budget.clone())
                };
                let budget = case.until("restarts are given back", budget).await;
                assert_eq!((&budget["used"], &budget["globalUsed"]), (&json!(0), &json!(1)));
            }
            let of_attempt = |log: &Log| {
                let label = "/metadata/labels/workload.codeflare.dev~1attempt";
                let number = json!(attempt.to_string());
                let mut pods = log.all("Pod");
                pods.find(|pod| pod.object.pointer(label) == Some(&number)).cloned()
            };
            let pod = case.until("a pod of the attempt", of_attempt).await;
            case.end_pod(&pod.name, "1").await;
        }
        let last = case.ready("aw", 2).await;
        assert_eq!(last.object["status"]["resettingCount"], 2);
        assert_eq!(last.object["status"]["budget"]["used"], 1);
    });
}
