//! `crds/` holds what the types make, and a real API server serves it.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::without_webhook;

#[test]
fn the_definitions_on_disk_are_those_of_the_types() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds/workload.codeflare.dev.yaml");
    let on_disk = std::fs::read_to_string(&file).unwrap_or_default();
    let made = appwrapper::crd::yaml().expect("the types make definitions");
    let hint = "run: cargo run -- crd > crds/workload.codeflare.dev.yaml";
    assert!(on_disk == made, "{} is out of date; {hint}", file.display());
}

#[test]
fn the_columns_are_those_that_people_know() {
    let appwrapper = serde_json::to_value(&appwrapper::crd::all()[0]).expect("JSON");
    let columns = appwrapper["spec"]["versions"][0]["additionalPrinterColumns"].as_array();
    let names: Vec<&str> =
        columns.into_iter().flatten().filter_map(|column| column["name"].as_str()).collect();
    assert_eq!(names, ["Status", "Quota Reserved", "Resources Deployed", "Unhealthy", "Age"]);
}

#[test]
fn every_field_of_the_api_is_stored() {
    without_webhook("every_field_of_the_api_is_stored", async |case| {
        let pod_set = json!({"replicas": 1, "path": "template", "annotations": {"a": "b"}});
        let spec = json!({
            "suspend": true,
            "managedBy": "example.com/another-controller",
            "components": [{
                "annotations": {"a": "b"},
                "podSets": [pod_set],
                "podSetInfos": [{
                    "annotations": {"a": "b"},
                    "labels": {"a": "b"},
                    "nodeSelector": {"a": "b"},
                    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
                    "schedulingGates": [{"name": "example.com/gate"}],
                }],
                "template": {
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                    "spec": {"anything": ["goes", 1, null]},
                },
            }],
            "failurePolicy": {"maxRestarts": 2, "rules": [{
                "name": "r", "action": "FailAppWrapper", "onJobFailureReasons": ["PodFailurePolicy"],
                "onJobFailureMessagePatterns": ["x"], "targetComponents": ["p"],
            }]},
            "executionPolicy": {"executionPolicyOrder": "InOrder", "rules": [
                {"targetComponents": ["p"], "waitForComponentsStatus": "Ready"},
            ]},
            "requester": {"username": "ann", "uid": "u-1", "groups": ["g"], "extra": {"s": ["x"]}},
            "podFailurePolicy": {"rules": [
                {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "Ignore", "targetComponents": ["p"], "onExitCodes":
                    {"containerName": "c", "operator": "NotIn", "values": [1, 2]}},
            ]},
        });
        let stored = case
            .create(json!({
                "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
                "metadata": {"name": "full"}, "spec": spec,
            }))
            .await;
        let mut want: Value = spec;
        // the embedded object is stored with a metadata of its own
        want["components"][0]["template"]["metadata"]["name"] = "p".into();
        assert_eq!(stored.data["spec"], want);
    });
}
