//! Names of the parts of a component that rules can be about: a replicated Job of a JobSet, a task of a Volcano
//! Job, a replica type of a Kubeflow job, the head or a worker group of a Ray cluster.

use serde_json::Value;

use crate::api::PodSet;

/// Name of the head of a Ray cluster. A worker group of this name has none.
const HEAD: &str = "head";

/// The name of the part that each pod set is; none of a pod set that is the whole component.
#[must_use]
pub fn parts(template: &Value, pod_sets: &[PodSet]) -> Vec<Option<String>> {
    pod_sets.iter().map(|set| part(template, &set.path)).collect()
}

fn part(template: &Value, path: &str) -> Option<String> {
    let mut segments = path.strip_prefix("template.")?.split('.');
    let mut place = template;
    while let Some(segment) = segments.next() {
        let (field, index) = match segment.split_once('[') {
            Some((field, rest)) => (field, Some(rest.strip_suffix(']')?.parse::<usize>().ok()?)),
            None => (segment, None),
        };
        place = place.get(field)?;
        if let Some(index) = index {
            place = place.get(index)?;
        }
        let named = |key: &str| place.get(key).and_then(Value::as_str).map(str::to_owned);
        match field {
            "replicatedJobs" | "tasks" => return named("name"),
            "workerGroupSpecs" => return named("groupName").filter(|name| name != HEAD),
            "headGroupSpec" => return Some(HEAD.to_owned()),
            field if field.ends_with("ReplicaSpecs") => return segments.next().map(str::to_owned),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::infer;
    use crate::kinds::testing::{given_object, given_pod};

    #[test]
    fn parts_are_called_as_their_kind_calls_them() {
        let pod = json!({"template": given_pod()});
        let job = |name: &str| json!({"name": name, "template": {"spec": pod}});
        let group = |name: &str| {
            let mut group = pod.clone();
            group["groupName"] = name.into();
            group
        };
        let ray = json!({"headGroupSpec": pod, "workerGroupSpecs": [group("gpu"), group("head")]});
        for (api_version, kind, spec, want) in [
            ("batch/v1", "Job", pod.clone(), &[None][..]),
            (
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                json!({"replicatedJobs": [job("driver"), job("workers")]}),
                &[Some("driver"), Some("workers")],
            ),
            (
                "kubeflow.org/v1",
                "PyTorchJob",
                json!({"pytorchReplicaSpecs": {"Master": pod, "Worker": pod}}),
                &[Some("Master"), Some("Worker")],
            ),
            ("ray.io/v1", "RayCluster", ray.clone(), &[Some("head"), Some("gpu"), None]),
            ("ray.io/v1", "RayJob", json!({"rayClusterSpec": ray}), &[Some("head"), Some("gpu")]),
        ] {
            let object = given_object(api_version, kind, &spec);
            let found = parts(&object, &infer(&object).expect("well formed"));
            let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
            assert_eq!(found[..want.len()], *want, "{kind}");
        }
    }
}
