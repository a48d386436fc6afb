//! Objects that were stored before there were rules.

use std::sync::Arc;

use appwrapper::clock::SystemClock;
use appwrapper::controller::Controller;
use controlplane::Options;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::{merge, said};
use crate::harness::{self, Case, config, job, pod, wrapper};

/// Our definitions as they were without rules and bounds on `spec`.
pub fn without_rules() -> Vec<CustomResourceDefinition> {
    const RULES: [&str; 8] = [
        "x-kubernetes-validations",
        "x-kubernetes-list-type",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
    ];
    fn strip(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                fields.retain(|keyword, _| !RULES.contains(&keyword.as_str()));
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let stripped = appwrapper::crd::all().map(|definition| {
        let mut definition = serde_json::to_value(definition).expect("JSON");
        let root = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        root.as_object_mut().expect("a schema").remove("x-kubernetes-validations");
        strip(&mut root["properties"]["spec"]);
        serde_json::from_value(definition).expect("a definition")
    });
    stripped.into()
}

/// Writes the definitions of today, and waits until the API server goes by them.
async fn apply_rules(case: &Case) {
    let definitions: Api<CustomResourceDefinition> = Api::all(case.client.clone());
    for definition in appwrapper::crd::all() {
        let name = definition.metadata.name.clone().expect("it has a name");
        let patch = Patch::Merge(json!({"spec": definition.spec}));
        definitions.patch(&name, &PatchParams::default(), &patch).await.expect("it is accepted");
    }
    let dotted = wrapper("is.refused", json!({}), vec![pod("p", &[])]);
    while said(case, dotted.clone()).await.is_none() {
        // there is no event for it
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[test]
#[ignore = "nightly: a control plane of its own"]
fn objects_of_before_the_rules_are_finished() {
    let options = Options { crds: without_rules(), nodes: 1, ..Options::default() };
    let plane = harness::start_plane(options);
    harness::runtime().block_on(async {
        let case = Case::new(plane.client(), "before").await;
        let long = "l".repeat(70);
        let wrong = |name: &str, spec: Value| {
            let mut aw = wrapper(name, json!({}), vec![job(name, json!({}), &[])]);
            merge(&mut aw["spec"], spec);
            aw
        };
        let policies = json!({
            "suspend": true,
            "podFailurePolicy": {"rules": [{"action": "Count"}, {"action": "Count",
                "onExitCodes": {"operator": "In", "values": [300, 2, 2, 0]},
                "onPodConditions": [{"type": "", "status": "true"}]}]},
            "failurePolicy": {"maxRestarts": -1, "rules": [
                {"action": "FailAppWrapper", "name": "a b", "onJobFailureReasons": ["Nope"]}]},
        });
        let mut negative = wrong("negative", json!({}));
        negative["spec"]["components"][0]["podSets"] =
            json!([{"path": "template.spec.template", "replicas": -1}]);
        let mut far = wrong("far", json!({}));
        far["spec"]["components"][0]["podSets"] = json!([{"path": "a".repeat(600)}]);
        for aw in [
            wrong("dotted.name", json!({})),
            wrong(&long, json!({})),
            wrong("policies", policies),
            wrong("none", json!({"components": []})),
            negative,
            far,
        ] {
            case.create(aw).await;
        }
        apply_rules(&case).await;
        let controller = Controller::new(case.client.clone(), Arc::new(SystemClock), config());
        tokio::spawn(controller.run(std::future::pending()));
        for (name, phase) in [
            ("dotted.name", "Running"),
            (long.as_str(), "Failed"),
            ("policies", "Suspended"),
            ("negative", "Failed"),
            ("far", "Failed"),
        ] {
            case.phase(name, phase).await;
        }
        let message = case.warning("negative", "CreateFailed").await;
        assert!(message.contains("podSets[0]"), "{message}");
        assert_eq!(case.log().uids("Pod", "negative"), Vec::<String>::new());
        // What Kueue and users write does not touch what is wrong.
        case.suspend("policies", false).await;
        case.phase("policies", "Running").await;
        case.suspend("dotted.name", true).await;
        case.phase("dotted.name", "Suspended").await;
        case.patch("none", json!({"metadata": {"labels": {"a": "b"}}})).await;
        // Finalizers are removed.
        for name in ["dotted.name", long.as_str(), "policies", "none", "negative", "far"] {
            case.delete_wrapper(name).await;
            case.gone("AppWrapper", name).await;
        }
    });
}
