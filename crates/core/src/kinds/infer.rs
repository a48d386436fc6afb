//! Pod sets of the known kinds, counted from their own fields.

use std::collections::BTreeMap;

use serde_json::Value;

use super::node::Node;
use super::{Error, Kind, Path, check_declared, pod_template};
use crate::api::PodSet;

/// The most replicas of anything in Kubernetes.
pub(super) const COUNT_MAX: i64 = i32::MAX as i64;

/// The pod sets that a template implies, as the rules of its kind count them: those that the kind's
/// controller makes; none for a kind that is not known.
///
/// Go: `InferPodSets`, which counts neither hosts nor bounds of Ray workers.
///
/// # Errors
/// Where a count is no integer from 0 to 2147483647, alone or multiplied, or where there is no pod
/// template at a path that the kind implies.
pub fn infer(template: &Value) -> Result<Vec<PodSet>, Error> {
    infer_as(Kind::of_object(template), template)
}

/// Checks the declared pod sets of a kind of which the rules know another version: an API group may serve several
/// versions of a kind, and whoever names another one may not declare fewer pods than are made, or none.
///
/// # Errors
/// As [`infer`] and [`check_declared`]; where no pod set is declared; and where the pods of the kind are described in
/// another object, which is read for the known version only.
pub fn check_other_version(template: &Value, declared: &[PodSet]) -> Result<(), Error> {
    let text = |field| template.get(field).and_then(Value::as_str).unwrap_or_default();
    let row = Kind::of_other_version(text("apiVersion"), text("kind"));
    let Some(kind) = row else { return Ok(()) };
    if !kind.reads.is_empty() {
        let api_version = Node::template(template).field("apiVersion")?;
        return Err(api_version.error(kind.api_version));
    }
    let inferred = infer_as(kind, template)?;
    if declared.is_empty() && !inferred.is_empty() {
        let paths: Vec<&str> = inferred.iter().map(|made| made.path.as_str()).collect();
        let (paths, name, known) = (paths.join(", "), kind.kind, kind.api_version);
        let expected =
            format!("pod sets with the paths {paths}: they are inferred only for {known} {name}");
        return Err(Error::new("podSets", "[]", expected));
    }
    check_declared(declared, &inferred)
}

fn infer_as(kind: &Kind, template: &Value) -> Result<Vec<PodSet>, Error> {
    let pod_sets = kind.rules().pod_sets(&Node::template(template))?;
    for set in &pod_sets {
        let path: Path = set.path.parse().map_err(|problem: super::PathError| {
            Error::new(set.path.as_str(), &set.path, problem.to_string())
        })?;
        pod_template(template, &path)?;
    }
    Ok(pod_sets)
}

/// A pod set; `counted` is the place to blame where the count is too large.
pub(super) fn pod_set<const N: usize>(
    path: &str,
    count: i64,
    counted: &Node<'_>,
    annotations: [(&str, String); N],
) -> Result<PodSet, Error> {
    let replicas = i32::try_from(count).map_err(|_| {
        Error::new(counted.path(), &count.to_string(), "at most 2147483647 pods in a pod set")
    })?;
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value));
    Ok(PodSet {
        replicas: Some(replicas),
        path: path.to_owned(),
        annotations: BTreeMap::from(annotations),
    })
}

/// Pods that a Job of this `spec` runs at a time: never more than have to complete.
pub(super) fn pods_per_job(spec: &Node<'_>) -> Result<i64, Error> {
    let parallelism = spec.field("parallelism")?.count()?.unwrap_or(1);
    let completions = spec.field("completions")?.count()?;
    Ok(completions.map_or(parallelism, |completions| completions.min(parallelism)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::reference;
    use super::super::testing::{any_json, config, damaged, given_kinds, given_object, given_pod};
    use super::*;
    use crate::api::keys;

    #[test]
    fn every_known_kind_counts_its_pods() {
        for (object, want) in given_kinds() {
            let found = infer(&object).expect("it is well formed");
            let found: Vec<(&str, i32)> =
                found.iter().map(|set| (set.path.as_str(), set.count())).collect();
            assert_eq!(found, want, "{object}");
        }
    }

    #[test]
    fn another_version_of_a_known_kind_declares_what_it_makes() {
        for (object, want) in given_kinds() {
            let api_version = object["apiVersion"].as_str().expect("it has one");
            let declared = |more: i32| -> Vec<PodSet> {
                let set = |(path, count): &(&str, i32)| PodSet {
                    path: (*path).to_owned(),
                    replicas: Some(count + more),
                    ..PodSet::default()
                };
                want.iter().map(set).collect()
            };
            assert_eq!(
                check_other_version(&object, &declared(1)),
                Ok(()),
                "infer is asked: {object}"
            );
            let Some((group, _)) = api_version.split_once('/') else { continue };
            let mut other = object.clone();
            other["apiVersion"] = format!("{group}/v0").into();
            if reference(&object).is_some() {
                let error = check_other_version(&other, &declared(0)).expect_err("it is not read");
                assert_eq!(error.field, "template.apiVersion", "{other}");
                continue;
            }
            assert_eq!(check_other_version(&other, &declared(0)), Ok(()), "{other}");
            if !want.is_empty() {
                let error = check_other_version(&other, &[]).expect_err("there are more");
                assert_eq!(error.field, "podSets", "{other}");
                let error = check_other_version(&other, &declared(1)).expect_err("there are fewer");
                assert_eq!(error.field, "podSets[0].replicas", "{other}");
            }
            other["apiVersion"] = "example.com/v1".into();
            assert_eq!(check_other_version(&other, &declared(1)), Ok(()), "{other}");
        }
    }

    #[test]
    fn topology_aware_scheduling_learns_how_pods_are_numbered() {
        let pod_sets = |kind: &str| {
            let objects = given_kinds().into_iter().map(|(object, _)| object);
            let object = objects.into_iter().find(|object| object["kind"] == kind).expect(kind);
            infer(&object).expect("it is well formed")
        };
        let annotations = |set: &PodSet| -> Vec<(String, String)> {
            set.annotations.clone().into_iter().collect()
        };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let index = |label| pair(keys::TAS_POD_INDEX, label);
        let job_index = "batch.kubernetes.io/job-completion-index";
        assert_eq!(annotations(&pod_sets("Job")[0]), [index(job_index)]);
        assert_eq!(
            annotations(&pod_sets("JobSet")[1]),
            [
                index(job_index),
                pair(keys::TAS_SUB_GROUP_COUNT, "3"),
                pair(keys::TAS_SUB_GROUP_INDEX, "jobset.sigs.k8s.io/job-index"),
            ]
        );
        assert_eq!(
            annotations(&pod_sets("PyTorchJob")[1]),
            [index("training.kubeflow.org/replica-index")]
        );
        assert_eq!(
            annotations(&pod_sets("StatefulSet")[0]),
            [index("apps.kubernetes.io/pod-index")]
        );
        for kind in ["Pod", "Deployment", "RayCluster", "LeaderWorkerSet"] {
            assert_eq!(annotations(&pod_sets(kind)[0]), [], "{kind}");
        }
    }

    #[test]
    fn jobs_never_run_more_pods_than_have_to_complete() {
        for (parallelism, completions, want) in [
            (json!(null), json!(null), Ok(1)),
            (json!(5), json!(null), Ok(5)),
            (json!(5), json!(3), Ok(3)),
            (json!(2), json!(9), Ok(2)),
            (json!(null), json!(9), Ok(1)),
            (json!(0), json!(null), Ok(0)),
            (json!(-7), json!(null), Err("template.spec.parallelism")),
            (json!(4_294_967_297_i64), json!(null), Err("template.spec.parallelism")),
            (json!("2"), json!(null), Err("template.spec.parallelism")),
            (json!(1.0), json!(null), Err("template.spec.parallelism")),
            (json!(1), json!([]), Err("template.spec.completions")),
        ] {
            let spec = json!({"parallelism": parallelism, "completions": completions,
                "template": given_pod()});
            let found = infer(&given_object("batch/v1", "Job", &spec));
            let found = found.map(|sets| sets[0].count()).map_err(|error| error.field);
            assert_eq!(found, want.map_err(str::to_owned), "{spec}");
        }
    }

    #[test]
    fn products_are_checked() {
        let pod = given_pod();
        let many = 65536;
        let job = json!({"parallelism": many, "template": pod});
        let job_set = json!({"replicatedJobs": [{"replicas": many, "template": {"spec": job}}]});
        let group = json!({"size": many, "workerTemplate": pod});
        let lws = json!({"replicas": many, "leaderWorkerTemplate": group});
        let workers = json!([{"replicas": many, "numOfHosts": many, "template": pod}]);
        let ray = json!({"headGroupSpec": {"template": pod}, "workerGroupSpecs": workers});
        for (api_version, kind, spec, want) in [
            (
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                job_set,
                "template.spec.replicatedJobs[0].replicas",
            ),
            ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", lws, "template.spec.replicas"),
            ("ray.io/v1", "RayCluster", ray, "template.spec.workerGroupSpecs[0].replicas"),
        ] {
            let error = infer(&given_object(api_version, kind, &spec)).expect_err(kind);
            assert_eq!((error.field.as_str(), error.value.as_str()), (want, "4294967296"));
        }
    }

    #[test]
    fn ray_workers_stay_within_their_bounds() {
        for (group, want) in [
            (json!({}), 0),
            (json!({"minReplicas": 2}), 2),
            (json!({"replicas": 1, "minReplicas": 2, "numOfHosts": 4}), 8),
            (json!({"replicas": 9, "maxReplicas": 5}), 5),
            (json!({"replicas": 3, "numOfHosts": 0}), 3),
            (json!({"replicas": 3, "suspend": true}), 0),
        ] {
            let mut group = group;
            group["template"] = given_pod();
            let spec =
                json!({"headGroupSpec": {"template": given_pod()}, "workerGroupSpecs": [group]});
            let sets = infer(&given_object("ray.io/v1", "RayCluster", &spec)).expect("well formed");
            assert_eq!(sets[1].count(), want, "{group}");
        }
    }

    #[test]
    fn a_leader_worker_set_without_leader_template_is_one_pod_set() {
        for (size, want) in [(json!(null), Ok(3)), (json!(4), Ok(12)), (json!(0), Err(()))] {
            let spec = json!({"replicas": 3,
                "leaderWorkerTemplate": {"size": size, "workerTemplate": given_pod()}});
            let object = given_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", &spec);
            let found = infer(&object).map(|sets| {
                assert_eq!(sets.len(), 1);
                sets[0].count()
            });
            assert_eq!(found.map_err(|_| ()), want, "{size}");
        }
    }

    #[test]
    fn what_is_no_pod_template_is_named() {
        let pod = given_pod();
        let boo = json!({"metadata": "boo", "spec": pod["spec"]});
        for (api_version, kind, spec, want) in [
            ("batch/v1", "Job", json!(null), "template.spec"),
            ("batch/v1", "Job", json!("x"), "template.spec"),
            ("batch/v1", "Job", json!({}), "template.spec"),
            ("batch/v1", "Job", json!({"template": boo}), "template.spec.template.metadata"),
            ("v1", "Pod", json!({}), "template.spec.containers"),
            ("kubeflow.org/v1", "PyTorchJob", json!({}), "template.spec.pytorchReplicaSpecs"),
            (
                "kubeflow.org/v1",
                "PyTorchJob",
                json!({"pytorchReplicaSpecs": {"master": {"template": pod}}}),
                "template.spec.pytorchReplicaSpecs",
            ),
            ("ray.io/v1", "RayJob", json!({"clusterSelector": {}}), "template.spec"),
        ] {
            let error = infer(&given_object(api_version, kind, &spec)).expect_err(kind);
            assert_eq!(error.field, want);
        }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn whatever_it_is_there_is_an_answer(object in prop_oneof![any_json(), damaged()]) {
            if let Ok(pod_sets) = infer(&object) {
                for set in pod_sets {
                    let path: Path = set.path.parse().expect("inferred paths parse");
                    prop_assert!(pod_template(&object, &path).is_ok() && set.count() >= 0);
                }
            }
        }
    }
}
