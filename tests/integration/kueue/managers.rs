//! AppWrappers of another manager.

use serde_json::{Value, json};

use crate::harness::{job, pod, wrapper};
use crate::installed::installed_test;

use super::queued;

#[test]
fn what_multikueue_manages_is_left_alone() {
    installed_test("what_multikueue_manages_is_left_alone", async |case| {
        case.record("batch/v1", "Job").await;
        let managed = |mut object: Value| {
            object["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue".into();
            object
        };
        let templates = |name: &str| vec![job(name, json!({}), &[]), pod(name, &[])];
        case.create(managed(wrapper("runs", json!({}), templates("runs")))).await;
        let waits = queued("waits", "kueue-managers", json!({}), templates("waits"));
        case.create(managed(waits)).await;
        case.others_go_on("first").await;
        for suspend in [true, false] {
            case.suspend("runs", suspend).await;
            case.others_go_on(if suspend { "second" } else { "third" }).await;
        }
        let log = case.log();
        for name in ["runs", "waits"] {
            for seen in log.of("AppWrapper", name) {
                assert_eq!(seen.object["metadata"]["finalizers"], Value::Null, "{name}");
                assert_eq!(seen.object["status"], Value::Null, "{name}");
            }
            assert_eq!(log.uids("Pod", name).len() + log.uids("Job", name).len(), 0, "{name}");
        }
        // Nobody has to let it go.
        case.delete_wrapper("runs").await;
        case.gone("AppWrapper", "runs").await;
    });
}
