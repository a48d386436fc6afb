//! Controllers of kinds that have pods and are no Jobs of Kubernetes: Deployment, `ReplicaSet`, StatefulSet,
//! training jobs of Kubeflow, RayCluster, Volcano Job.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Env, Task, create_owned, has_ended, is_true, number, phase, pods_of, set_condition, set_status,
};
use crate::sim::{Address, Deletion, Object, Part};

/// One pod that there should be.
struct Wanted<'a> {
    name: String,
    template: &'a Value,
    /// A pod that ended stays as it is.
    ends: bool,
}

/// An object looks at its pods and makes one move.
pub fn act(env: &mut Env<'_>, address: &Address) {
    let Some(object) = env.store.get(address).cloned() else { return };
    if object.is_deleting() {
        return;
    }
    match env.store.kinds.get(address.kind).kind.as_str() {
        "Deployment" => deployment(env, &object),
        "ReplicaSet" => replica_set(env, &object),
        "StatefulSet" => {
            let wanted = replicas(&object, &object.value["spec"], "/spec/replicas", "");
            keep(env, &object, &wanted);
        }
        "RayCluster" => ray_cluster(env, &object),
        "Job" => volcano_job(env, &object),
        _ => training_job(env, &object),
    }
}

fn replicas<'a>(object: &Object, at: &'a Value, pointer: &str, suffix: &str) -> Vec<Wanted<'a>> {
    let count = number(&object.value, pointer, 1);
    named(&object.address.name, at, count, suffix, false)
}

fn named<'a>(name: &str, at: &'a Value, count: i64, suffix: &str, ends: bool) -> Vec<Wanted<'a>> {
    let one = |index: i64| Wanted {
        name: format!("{name}{suffix}-{index}"),
        template: &at["template"],
        ends,
    };
    (0..count).map(one).collect()
}

/// Creates what is missing, and replaces what ended, one at a time.
fn keep(env: &mut Env<'_>, object: &Arc<Object>, wanted: &[Wanted<'_>]) {
    let pods = pods_of(env.store, object);
    for one in wanted {
        let found = pods.iter().find(|pod| *pod.address.name == *one.name);
        match found {
            Some(pod) if has_ended(pod) && !one.ends && !pod.is_deleting() => {
                drop(env.store.delete(&pod.address, &Deletion::default()));
                return;
            }
            Some(_) => {}
            None => {
                let mut pod = one.template.clone();
                pod["metadata"]["name"] = one.name.as_str().into();
                create(env, object, pod);
                return;
            }
        }
    }
}

fn create(env: &mut Env<'_>, object: &Arc<Object>, pod: Value) {
    let again = Task::Operator(object.address.clone());
    if create_owned(env.store, "v1", "Pod", object, pod).is_some() {
        env.agenda.add(again);
    } else {
        env.agenda.at(env.elapsed + Duration::from_secs(1), again);
    }
}

fn deployment(env: &mut Env<'_>, object: &Arc<Object>) {
    let sets = super::children(env.store, object, "ReplicaSet");
    if sets.is_empty() {
        let set = json!({
            "metadata": {"name": format!("{}-5f", object.address.name),
                "labels": object.value["spec"]["template"]["metadata"]["labels"]},
            "spec": {"replicas": number(&object.value, "/spec/replicas", 1),
                "selector": object.value["spec"]["selector"],
                "template": object.value["spec"]["template"]},
        });
        if create_owned(env.store, "apps/v1", "ReplicaSet", object, set).is_none() {
            let again = Task::Operator(object.address.clone());
            env.agenda.at(env.elapsed + Duration::from_secs(1), again);
        }
        return;
    }
    let replicas = number(&object.value, "/spec/replicas", 1);
    if sets.len() == 1 && number(&sets[0].value, "/spec/replicas", 1) != replicas {
        let address = &sets[0].address;
        env.store.change(address, Part::Whole, |set| set["spec"]["replicas"] = replicas.into());
    }
    let ready: i64 = sets.iter().map(|set| number(&set.value, "/status/readyReplicas", 0)).sum();
    set_status(env.store, &object.address, "readyReplicas", ready.into());
}

fn replica_set(env: &mut Env<'_>, object: &Arc<Object>) {
    let pods = pods_of(env.store, object);
    let active = pods.iter().filter(|pod| !has_ended(pod) && !pod.is_deleting()).count();
    let want = usize::try_from(number(&object.value, "/spec/replicas", 1)).unwrap_or(0);
    if active < want {
        let mut pod = object.value["spec"]["template"].clone();
        pod["metadata"]["generateName"] = format!("{}-", object.address.name).into();
        create(env, object, pod);
        return;
    }
    if active > want {
        let spare = pods.iter().rfind(|pod| !has_ended(pod) && !pod.is_deleting());
        if let Some(spare) = spare {
            drop(env.store.delete(&spare.address, &Deletion::default()));
        }
    }
    let ready = pods.iter().filter(|pod| is_true(&pod.value, "Ready")).count();
    set_status(env.store, &object.address, "readyReplicas", ready.into());
}

fn ray_cluster(env: &mut Env<'_>, object: &Arc<Object>) {
    let spec = &object.value["spec"];
    let name = &object.address.name;
    let mut wanted = named(name, &spec["headGroupSpec"], 1, "-head", false);
    for group in spec["workerGroupSpecs"].as_array().into_iter().flatten() {
        let suffix = format!("-{}", group["groupName"].as_str().unwrap_or("worker"));
        let count = group["replicas"].as_i64().unwrap_or(0);
        wanted.extend(named(name, group, count, &suffix, false));
    }
    keep(env, object, &wanted);
}

/// Ends when all its pods have ended: Completed where `minAvailable` of them succeeded, else Failed. Its tasks
/// start together, and it has no policies.
fn volcano_job(env: &mut Env<'_>, object: &Arc<Object>) {
    let state = object.value["status"]["state"]["phase"].as_str().unwrap_or_default();
    if matches!(state, "Completed" | "Failed") {
        return;
    }
    let mut wanted = vec![];
    for task in object.value["spec"]["tasks"].as_array().into_iter().flatten() {
        let suffix = format!("-{}", task["name"].as_str().unwrap_or("default"));
        let count = task["replicas"].as_i64().unwrap_or(0);
        wanted.extend(named(&object.address.name, task, count, &suffix, true));
    }
    let pods = pods_of(env.store, object);
    if pods.len() < wanted.len() || !pods.iter().all(|pod| has_ended(pod)) {
        return keep(env, object, &wanted);
    }
    let succeeded = pods.iter().filter(|pod| phase(pod) == "Succeeded").count();
    let least = number(&object.value, "/spec/minAvailable", 0);
    let enough = i64::try_from(succeeded).is_ok_and(|succeeded| succeeded >= least);
    let (state, now) = (if enough { "Completed" } else { "Failed" }, env.store.now());
    env.store.change(&object.address, Part::Status, |object| {
        object["status"]["state"] = json!({"phase": state, "lastTransitionTime": now});
    });
}

/// Succeeds with its master (or all workers where there is none), fails with the first failed pod.
fn training_job(env: &mut Env<'_>, object: &Arc<Object>) {
    if is_true(&object.value, "Succeeded") || is_true(&object.value, "Failed") {
        return;
    }
    let kind = env.store.kinds.get(object.address.kind).kind.clone();
    let field = if kind == "TFJob" { "tfReplicaSpecs" } else { "pytorchReplicaSpecs" };
    let mut wanted = vec![];
    for (role, replica) in object.value["spec"][field].as_object().into_iter().flatten() {
        let ends = true;
        let suffix = format!("-{}", role.to_lowercase());
        let count = replica["replicas"].as_i64().unwrap_or(1);
        wanted.extend(named(&object.address.name, replica, count, &suffix, ends));
    }
    let pods = pods_of(env.store, object);
    let leads = |pod: &&Arc<Object>| pod.address.name.contains("-master-");
    let leaders: Vec<&Arc<Object>> = match pods.iter().find(leads) {
        Some(_) => pods.iter().filter(leads).collect(),
        None => pods.iter().collect(),
    };
    let now = env.store.now();
    let mut conclude = |kind: &str, reason: &str, message: &str| {
        env.store.change(&object.address, Part::Status, |object| {
            set_condition(object, kind, true, reason, message, &now);
        });
    };
    if let Some(pod) = pods.iter().find(|pod| phase(pod) == "Failed") {
        let message = format!("pod {} failed", pod.address.name);
        conclude("Failed", &format!("{kind}Failed"), &message);
    } else if pods.len() == wanted.len() && leaders.iter().all(|pod| phase(pod) == "Succeeded") {
        conclude("Succeeded", &format!("{kind}Succeeded"), "the job has succeeded");
    } else {
        keep(env, object, &wanted);
    }
}
