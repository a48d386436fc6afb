//! What the pods of an AppWrapper request together: the amounts that quota is reserved for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Path;
use super::quantity::amounts;
use super::templates::{requests, sum_of_containers};
use crate::api::{Component, PodSet};

/// The amounts by resource, in the unit of each (cores, bytes, devices): over all pod sets, the number of pods
/// times what one pod requests.
///
/// A pod requests the larger of its init containers and its containers together, sidecars included, and its overhead;
/// its own `resources` of CPU, memory and huge pages, where it has them, stand for those of its containers.
/// Go: `resourcehelper.PodRequests`.
/// A limit without a request counts as the request. A pod template that cannot be read requests nothing; nor does one
/// that stands in another object, as that of a TrainJob.
#[must_use]
pub fn requested<'a>(
    components: impl IntoIterator<Item = (&'a Component, &'a [PodSet])>,
) -> BTreeMap<String, f64> {
    let mut sum = BTreeMap::new();
    for (component, pod_sets) in components {
        for set in pod_sets {
            let count = f64::from(set.count().max(0));
            for (resource, amount) in of_pod(component, set) {
                *sum.entry(resource).or_default() += count * amount;
            }
        }
    }
    sum.retain(|_, amount: &mut f64| *amount > 0.0 && amount.is_finite());
    sum
}

fn of_pod(component: &Component, set: &PodSet) -> BTreeMap<String, f64> {
    let path = set.path.parse::<Path>().ok();
    let pod = path.as_ref().and_then(|path| path.get(&component.template).ok());
    pod.and_then(|pod| pod.get("spec")).map(of_spec).unwrap_or_default()
}

fn of_spec(spec: &Value) -> BTreeMap<String, f64> {
    let mut all = requests(spec);
    let overhead = amounts(spec.get("overhead"));
    for (resource, amount) in of_resources(spec, &all) {
        let more = overhead.get(&resource).copied().unwrap_or_default();
        all.insert(resource, amount + more);
    }
    all
}

/// The amounts that a pod requests as a whole; a limit counts where no container requests anything.
/// Go: `resourcehelper.IsSupportedPodLevelResource` and the defaults of `corev1`.
fn of_resources(spec: &Value, of_containers: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let mut all = amounts(spec.pointer("/resources/limits"));
    all.retain(|name, _| !of_containers.contains_key(name));
    all.extend(amounts(spec.pointer("/resources/requests")));
    all.retain(|name, _| {
        matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-")
    });
    all
}

/// A resource of which a pod requests more than Kueue counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Uncounted {
    /// The name of the resource.
    pub resource: String,
    /// What the pod requests, in the unit of the resource.
    pub requested: f64,
    /// What Kueue counts.
    pub counted: f64,
}

/// How much more is not a matter of rounding.
const ROUNDING: f64 = 1e-9;

/// The resources of which a pod with this `spec` requests more than Kueue counts. Kueue's integration of AppWrappers
/// counts a sidecar as an init container that ends, and ignores what the pod requests as a whole.
/// Go: `copyContainers` and `GetPodTemplateSpec` of AppWrapper 1.2.2.
#[must_use]
pub fn uncounted(spec: &Value) -> Vec<Uncounted> {
    let counted = sum_of_containers(spec, |_| false);
    let more = of_spec(spec).into_iter().filter_map(|(resource, requested)| {
        let counted = counted.get(&resource).copied().unwrap_or_default();
        let is_more = requested > counted * (1.0 + ROUNDING);
        is_more.then_some(Uncounted { resource, requested, counted })
    });
    more.collect()
}

/// The most of a resource that the pods of a pod set may request together, in the units in which Kueue counts it: the
/// sum of ten pod sets, the most of an AppWrapper, still fits into the 64 bits of Kueue's numbers. It is 2⁵⁹.
const COUNTED_MAX: f64 = 576_460_752_303_423_488.0;

/// The resources of which this many pods with this `spec` request more together than Kueue can add up: what they
/// request, and the most that is counted. Kueue counts thousandths of CPU, and whole units of other resources.
#[must_use]
pub fn uncountable(spec: &Value, pods: i32) -> Vec<Uncounted> {
    let of_one = sum_of_containers(spec, |_| false);
    let more = of_one.into_iter().filter_map(|(resource, amount)| {
        // Kueue reads what one pod requests even where there are none
        let requested = amount * f64::from(pods.max(1));
        let counted = if resource == "cpu" { COUNTED_MAX / 1e3 } else { COUNTED_MAX };
        (requested > counted).then_some(Uncounted { resource, requested, counted })
    });
    more.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(spec: &Value, replicas: i32) -> BTreeMap<String, f64> {
        let template = json!({"kind": "Job", "spec": {"template": {"spec": spec}}});
        let component = Component { template, ..Component::default() };
        let set = PodSet {
            replicas: Some(replicas),
            path: "template.spec.template".into(),
            ..PodSet::default()
        };
        requested([(&component, [set].as_slice())])
    }

    fn container(requests: &Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests}})
    }

    #[test]
    fn pods_request_what_kubernetes_says() {
        let two =
            [container(&json!({"cpu": "500m", "memory": "1Gi"})), container(&json!({"cpu": 1}))];
        let init = container(&json!({"cpu": 4}));
        let mut sidecar = container(&json!({"cpu": 2}));
        sidecar["restartPolicy"] = "Always".into();
        let limit = json!({"name": "c", "resources": {"limits": {"nvidia.com/gpu": 8}}});
        for (spec, replicas, want) in [
            (json!({"containers": two}), 2, json!({"cpu": 3.0, "memory": 2_147_483_648.0})),
            (
                json!({"containers": two, "initContainers": [init]}),
                1,
                json!({"cpu": 4.0, "memory": 1_073_741_824.0}),
            ),
            (
                json!({"containers": two, "initContainers": [sidecar]}),
                1,
                json!({"cpu": 3.5, "memory": 1_073_741_824.0}),
            ),
            (
                json!({"containers": two, "initContainers": [sidecar, init]}),
                1,
                json!({"cpu": 6.0, "memory": 1_073_741_824.0}),
            ),
            (
                json!({"containers": [limit], "overhead": {"cpu": "250m"}}),
                4,
                json!({"cpu": 1.0, "nvidia.com/gpu": 32.0}),
            ),
            (
                json!({"containers": two, "resources": {"requests": {"cpu": 5}}, "overhead": {"cpu": 1}}),
                1,
                json!({"cpu": 6.0, "memory": 1_073_741_824.0}),
            ),
            (
                json!({
                    "containers": [limit],
                    "resources": {"requests": {"nvidia.com/gpu": 9, "x/y": 9, "hugepages-2Mi": 4}},
                }),
                1,
                json!({"hugepages-2Mi": 4.0, "nvidia.com/gpu": 8.0}),
            ),
            (
                json!({"containers": two, "resources": {"limits": {"cpu": 8, "hugepages-2Mi": 4}}}),
                1,
                json!({"cpu": 1.5, "hugepages-2Mi": 4.0, "memory": 1_073_741_824.0}),
            ),
            (json!({"containers": two}), 0, json!({})),
            (json!({"containers": two}), -3, json!({})),
            (json!({"containers": [container(&json!({"cpu": "lots", "x/y": 0}))]}), 1, json!({})),
            (json!("odd"), 1, json!({})),
        ] {
            assert_eq!(json!(asked(&spec, replicas)), want, "{spec}");
        }
    }

    #[test]
    fn a_template_that_is_not_there_requests_nothing() {
        let component = Component { template: json!({"kind": "Job"}), ..Component::default() };
        for path in ["template.spec.template", "no", ""] {
            let set = PodSet { path: path.into(), ..PodSet::default() };
            assert_eq!(requested([(&component, [set].as_slice())]), BTreeMap::new(), "{path}");
        }
    }

    #[test]
    fn kueue_adds_up_numbers_of_64_bits() {
        let two = |name: &str, amounts: [&str; 2]| {
            let both = amounts.map(|amount| container(&json!({ name: amount })));
            json!({"containers": both})
        };
        let gpu = "nvidia.com/gpu";
        for (spec, pods, want) in [
            (two(gpu, ["9223372036854775807", "9223372036854775707"]), 1, Some(gpu)),
            (two(gpu, ["1e18", "0"]), 1, Some(gpu)),
            (two(gpu, ["1e18", "0"]), 0, Some(gpu)),
            (two("memory", ["1Ei", "0"]), 1, Some("memory")),
            (two("memory", ["1Pi", "1Pi"]), 100, None),
            (two("memory", ["1Pi", "1Pi"]), 1_000, Some("memory")),
            (two("cpu", ["1e15", "0"]), 1, Some("cpu")),
            (two("cpu", ["1e9", "1e9"]), 1_000, None),
            (two("cpu", ["64", "64"]), 1_000_000, None),
            (json!("odd"), 1, None),
        ] {
            let found = uncountable(&spec, pods);
            let found: Vec<&str> = found.iter().map(|each| each.resource.as_str()).collect();
            assert_eq!(found, Vec::from_iter(want), "{pods} of {spec}");
        }
    }

    #[test]
    fn kueue_counts_less_where_sidecars_run_beside_containers_or_the_pod_requests_as_a_whole() {
        let main = container(&json!({"cpu": 1, "nvidia.com/gpu": 8}));
        let mut sidecar = container(&json!({"nvidia.com/gpu": 8}));
        let init = container(&json!({"nvidia.com/gpu": 16}));
        sidecar["restartPolicy"] = "Always".into();
        let more = |resource: &str, requested, counted| Uncounted {
            resource: resource.to_owned(),
            requested,
            counted,
        };
        let gpus = more("nvidia.com/gpu", 16.0, 8.0);
        for (spec, want) in [
            (json!({"containers": [main, main]}), vec![]),
            (json!({"containers": [main], "initContainers": [init]}), vec![]),
            (json!({"containers": [main], "initContainers": [sidecar]}), vec![gpus]),
            // it has room for the sidecar
            (json!({"containers": [main], "initContainers": [init, sidecar]}), vec![]),
            (
                json!({"containers": [main], "initContainers": [{"restartPolicy": "Always"}]}),
                vec![],
            ),
            (
                json!({"containers": [main], "resources": {"requests": {"cpu": 2, "memory": "1k"}}}),
                vec![more("cpu", 2.0, 1.0), more("memory", 1000.0, 0.0)],
            ),
            (json!({"containers": [main], "resources": {"requests": {"cpu": "1"}}}), vec![]),
            (
                json!({"containers": [main], "resources": {"limits": {"cpu": 2, "memory": "1k"}}}),
                vec![more("memory", 1000.0, 0.0)],
            ),
            (json!({"containers": [main], "overhead": {"cpu": 1}}), vec![]),
            (json!("odd"), vec![]),
        ] {
            assert_eq!(uncounted(&spec), want, "{spec}");
        }
    }
}
