//! The adversary's own AppWrapper.

use serde_json::{Value, json};

use crate::api::keys;
use crate::world::rng::Rng;
use crate::world::scene::{appwrapper, paths};

/// Who the adversary is.
pub(super) const USER: &str = "mallory";

fn pod(rng: &mut Rng, ends: bool) -> Value {
    let mut annotations = json!({});
    if ends {
        annotations["sim/run-for"] = format!("{}s", rng.pick(&[1, 20, 200])).into();
        if rng.one_in(2) {
            annotations["sim/exit-code"] = (*rng.pick(&["3", "42"])).into();
            annotations["sim/message"] = "x".repeat(4_096).into();
        }
    }
    json!({"metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}})
}

fn template(rng: &mut Rng, name: &str) -> Value {
    let object = |api: &str, kind: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec});
    match rng.below(6) {
        0 => {
            let mut pod = pod(rng, true);
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["metadata"]["name"] = name.into();
            pod
        }
        1..=3 => {
            let spec = json!({"backoffLimit": 0, "parallelism": 1, "template": pod(rng, true)});
            object("batch/v1", "Job", spec)
        }
        4 => object("apps/v1", "Deployment", json!({"replicas": 1, "template": pod(rng, false)})),
        _ => object("apps/v1", "StatefulSet", json!({"replicas": 1, "template": pod(rng, false)})),
    }
}

/// The adversary's AppWrapper, by chance.
pub(super) fn wrapper(rng: &mut Rng, name: &str, queued: bool) -> Value {
    let mut templates = vec![template(rng, &format!("{USER}-c0"))];
    if rng.one_in(3) {
        templates.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{USER}-c1")}}));
    }
    let component = |template: &Value| {
        let sets: Vec<Value> =
            paths(template).iter().map(|path| json!({"replicas": 1, "path": path})).collect();
        json!({"template": template, "podSets": sets})
    };
    let components: Vec<Value> = templates.iter().map(component).collect();
    let failure_grace = *rng.pick(&["0s", "5s"]);
    let retry_pause = *rng.pick(&["0s", "0s", "5s"]);
    let annotations = json!({
        keys::FORCEFUL_DELETION_GRACE: "20s",
        keys::FAILURE_GRACE: failure_grace,
        keys::RETRY_PAUSE: retry_pause,
    });
    let spec = json!({"suspend": queued, "components": components,
        "requester": {"username": USER, "groups": ["system:authenticated"]}});
    let mut wrapper = appwrapper(name, &annotations, &spec, queued);
    if rng.one_in(2) {
        // every failure is ignored: restarts are not counted
        let codes = json!({"operator": "In", "values": [3, 42]});
        wrapper["spec"]["podFailurePolicy"] =
            json!({"rules": [{"action": "Ignore", "onExitCodes": codes}]});
    }
    wrapper
}
