//! Hangs and progress on the real control plane; the test reports for the pods.

use appwrapper::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::harness::{Case, Log, job, test, tuned, wrapper};

/// Reports a step for the pod of an attempt, as of now; returns the name of the pod.
async fn report(case: &Case, attempt: usize, step: i64) -> String {
    let of_attempt = |log: &Log| {
        let label = "/metadata/labels/workload.codeflare.dev~1attempt";
        let number = json!(attempt.to_string());
        let mut pods = log.all("Pod");
        pods.find(|pod| pod.object.pointer(label) == Some(&number)).cloned()
    };
    let pod = case.until("a pod of the attempt", of_attempt).await;
    let at = SystemClock.now();
    let report = json!({"at": at.to_string(), "step": step, "checkpoint": format!("step-{step}")});
    let annotations = json!({"workload.codeflare.dev/progress": report.to_string()});
    case.change("v1", "Pod", &pod.name, json!({"metadata": {"annotations": annotations}})).await;
    pod.name
}

#[test]
fn a_job_that_stops_to_report_is_restarted() {
    test("a_job_that_stops_to_report_is_restarted", async |case| {
        let settings = tuned(&[("retryPausePeriodDuration", "0s")]);
        let mut job = job("work", json!({"backoffLimit": 0}), &[]);
        // its pods get a token for the progress server, and nothing here sets a ServiceAccount in pods
        job["spec"]["template"]["spec"]["serviceAccountName"] = json!("default");
        let mut object = wrapper("aw", settings, vec![job]);
        object["spec"]["progress"] = json!({"startWithin": "30s", "stallAfter": "10s"});
        case.create(object).await;
        case.ready("aw", 0).await;
        let pod = report(&case, 0, 7).await;
        let hung = |log: &Log| {
            let seen = log.last("AppWrapper", "aw")?;
            let attempt = &seen.object["status"]["attempts"][0];
            attempt["failure"].is_object().then(|| attempt.clone())
        };
        let attempt: Value = case.until("the hang is handled", hung).await;
        let failure = &attempt["failure"];
        assert_eq!(
            (&failure["category"], &failure["reason"], &failure["pod"]),
            (&json!("hang"), &json!("Stalled"), &json!(pod))
        );
        assert_eq!(
            (&attempt["progress"]["step"], &attempt["progress"]["checkpoint"]),
            (&json!(7), &json!("step-7"))
        );
        case.ready("aw", 1).await;
        let pod = report(&case, 1, 9).await;
        case.end_pod(&pod, "0").await;
        let last = case.phase("aw", "Succeeded").await;
        assert_eq!(last.object["status"]["attempts"][1]["progress"]["step"], 9);
    });
}
