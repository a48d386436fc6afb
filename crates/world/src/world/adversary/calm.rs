//! Worlds in which the end of each AppWrapper follows from its spec alone.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::keys;
use crate::world::rng::Rng;
use crate::world::scene::{Act, Scene, appwrapper, paths, pod_object, pod_of, pods_in};

/// Annotations of the pods of a life.
const LIVES: [&[(&str, &str)]; 5] = [
    &[("run-for", "20s")],
    &[("run-for", "150s")],
    &[("run-for", "20s"), ("fail-until-attempt", "1")],
    &[("run-for", "60s"), ("fail-until-attempt", "1"), ("exit-code", "137")],
    &[("run-for", "5s"), ("exit-code", "3")],
];

/// A component, and whether it never ends.
fn template(rng: &mut Rng, name: &str) -> (Value, bool) {
    let object = |api: &str, kind: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let life = *rng.pick(&LIVES);
    let job = json!({"backoffLimit": 0, "parallelism": 1, "template": pod_of(life)});
    let count = rng.between(1, 2);
    let endless = json!({"replicas": count, "template": pod_of(&[])});
    match rng.below(6) {
        0 => (pod_object(name, life), false),
        1 => (object("batch/v1", "Job", job), false),
        2 | 3 => {
            let jobs = json!([{"name": "r", "replicas": count, "template": {"spec": job}}]);
            (object("jobset.x-k8s.io/v1alpha2", "JobSet", json!({"replicatedJobs": jobs})), false)
        }
        4 => (object("apps/v1", "Deployment", endless), true),
        _ => (object("apps/v1", "StatefulSet", endless), true),
    }
}

/// An AppWrapper, and whether it never ends.
fn wrapper(rng: &mut Rng, name: &str, queued: bool) -> (Value, bool) {
    let (first, endless) = template(rng, &format!("{name}-c0"));
    let mut templates = vec![first];
    if rng.one_in(3) {
        templates.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-c1")}}));
    }
    let component = |template: &Value| {
        let sets = pods_in(template);
        let sets = sets.iter().zip(paths(template));
        let sets: Vec<Value> =
            sets.map(|((count, _), path)| json!({"replicas": count, "path": path})).collect();
        json!({"template": template, "podSets": sets})
    };
    let components: Vec<Value> = templates.iter().map(component).collect();
    let annotations = json!({
        keys::ADMISSION_GRACE: "20s",
        keys::WARMUP_GRACE: "20s",
        keys::FAILURE_GRACE: "2s",
        keys::RETRY_PAUSE: "5s",
        keys::RETRY_LIMIT: "2",
        keys::FORCEFUL_DELETION_GRACE: "60s",
        keys::SUCCESS_TTL: "300s",
    });
    let spec = json!({"suspend": queued, "components": components,
        "requester": {"username": "alice", "groups": ["system:authenticated"]}});
    (appwrapper(name, &annotations, &spec, queued), endless)
}

/// A scene with victims, and with room and quota for everybody.
pub(super) fn scene(rng: &mut Rng) -> Scene {
    let seconds = Duration::from_secs;
    let queued = rng.one_in(3);
    let mut scene = Scene {
        nodes: vec![("node-1".to_owned(), 500), ("node-2".to_owned(), 500)],
        config: "{}".to_owned(),
        ..Scene::default()
    };
    if queued {
        scene.quota = BTreeMap::from([("pods".to_owned(), 1_000_000)]);
    }
    for index in 0..rng.between(1, 3) {
        let name = format!("aw{index}");
        let (object, endless) = wrapper(rng, &name, queued);
        scene.script.push((seconds(index), Act::Create(Box::new(object))));
        if !endless {
            continue;
        }
        match rng.below(3) {
            0 if !queued => {
                scene.script.push((seconds(30), Act::Suspend(name.clone(), true)));
                scene.script.push((seconds(80), Act::Suspend(name, false)));
            }
            1 => scene.script.push((seconds(100), Act::Delete(name, None))),
            _ => {}
        }
    }
    scene
}
