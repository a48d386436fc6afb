use super::*;

const LABEL: &str = "workload.codeflare.dev/appwrapper";
const QUEUE: &str = "kueue.x-k8s.io/queue-name";

#[test]
fn a_template_is_one_object_of_the_user_alone() {
    let template = "/spec/components/0/template";
    for (row, place, value, fragment) in [
        ("46", "metadata", json!("boo"), "must be an object with a name"),
        ("46", "apiVersion", json!("a/b/c"), "must be an API version"),
        ("46", "apiVersion", json!(null), "must be an API version"),
        ("46", "kind", json!(""), "must be a kind"),
        ("46", "kind", json!("pods/exec"), "must be a kind"),
        ("51", "metadata.name", json!(null), "must be given"),
        ("51", "metadata.name", json!(""), "must be given"),
        ("51", "metadata.name", json!("A b"), "must be at most 253 lower-case"),
        ("51", "metadata.generateName", json!("a-"), "must be left out"),
        ("52", "metadata.ownerReferences", json!([{"uid": "x"}]), "must be left out"),
        ("52", "metadata.finalizers", json!(["a/b"]), "must be left out"),
        ("53", "metadata.uid", json!("x"), "must be left out"),
        ("53", "metadata.resourceVersion", json!("1"), "must be left out"),
        ("53", "metadata.managedFields", json!([{}]), "must be left out"),
        ("53", "metadata.generation", json!(1), "the API server sets it"),
        (
            "53",
            "metadata.creationTimestamp",
            json!("2026-01-01T00:00:00Z"),
            "the API server sets it",
        ),
        (
            "53",
            "metadata.deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
            "the API server sets it",
        ),
        ("53", "metadata.deletionGracePeriodSeconds", json!(0), "the API server sets it"),
        ("53", "metadata.selfLink", json!("/api/v1/x"), "the API server sets it"),
        ("69", "metadata.annotations", json!({"a": "x".repeat(262_144)}), "at most 262144 bytes"),
        ("53", "status", json!({"succeeded": 1}), "must be left out"),
        ("57", "metadata.namespace", json!("other"), "the AppWrapper's own namespace \"team\""),
        ("60", "kind", json!("List"), "must not be a list"),
    ] {
        let pointer = format!("{template}/{}", place.replace('.', "/"));
        // without pods, so that a kind that is not known any more is no second problem
        let said = judged(&with(&given(&[service("a"), job("b")]), &pointer, value));
        let start = format!("error: spec.components[0].template.{place}: Invalid value: ");
        only(row, &said, &start, fragment);
    }
    let own = with(&given(&[job("a")]), &format!("{template}/metadata/namespace"), json!("team"));
    assert_eq!(judged(&own), Vec::<String>::new());
    let unnamed = with(&own, "/metadata/namespace", json!(null));
    let start = "warning: spec.components[0].template.metadata.namespace: ";
    only("57", &judged(&unnamed), start, "but the AppWrapper does not set one");
}

#[test]
fn what_a_template_probably_does_not_mean_is_doubtful() {
    let template = "spec.components[0].template";
    for (place, value, fragment) in [
        ("spec.ttlSecondsAfterFinished", json!(0), "give at least 60"),
        ("spec.ttlSecondsAfterFinished", json!(59), "give at least 60"),
        ("spec.runPolicy", json!({"ttlSecondsAfterFinished": 5}), "set successTTLDuration"),
        ("spec.suspend", json!(true), "nobody resumes it"),
        ("spec.runPolicy", json!({"suspend": true}), "nobody resumes it"),
        ("spec.rayClusterSpec", json!({"suspend": true}), "nobody resumes it"),
        ("spec.rayClusterConfig", json!({"suspend": true}), "nobody resumes it"),
    ] {
        let pointer = format!("/spec/components/0/template/{}", place.replace('.', "/"));
        let start = format!("warning: {template}.{place}");
        only(place, &judged(&with(&given(&[job("a")]), &pointer, value)), &start, fragment);
    }
    for (field, value) in [
        ("ttlSecondsAfterFinished", json!(60)),
        ("suspend", json!(false)),
        ("suspend", json!("yes")),
    ] {
        let pointer = format!("/spec/components/0/template/spec/{field}");
        assert_eq!(judged(&with(&given(&[job("a")]), &pointer, value)), Vec::<String>::new());
    }
    let cluster = json!({"headGroupSpec": {"template": job("a")["spec"]["template"]}});
    let ray = |stays: Value| {
        let spec = json!({"rayClusterSpec": cluster, "shutdownAfterJobFinishes": stays,
            "ttlSecondsAfterFinished": 5});
        given(&[json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a"},
            "spec": spec})])
    };
    let start = format!("warning: {template}.spec.shutdownAfterJobFinishes: ");
    only("ray", &judged(&ray(json!(false))), &start, "the AppWrapper does not end");
    let start = format!("warning: {template}.spec.ttlSecondsAfterFinished: \"5\": ");
    for stays in [json!(true), json!(null)] {
        only("ray", &judged(&ray(stays)), &start, "the cluster runs on for that many seconds");
    }
    let paused = |kind: &str| {
        let spec = json!({"paused": true, "template": job("a")["spec"]["template"]});
        let metadata = json!({"name": "a"});
        judged(&given(&[
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}),
        ]))
    };
    let start = format!("warning: {template}.spec.paused: ");
    only("paused", &paused("Deployment"), &start, "nobody resumes it");
    assert_eq!(paused("StatefulSet"), Vec::<String>::new(), "it has no such field");
}

#[test]
fn what_another_version_of_a_known_kind_says_is_doubtful() {
    let said = |kind: &str, cluster: Option<&str>, more: Value| {
        let head = json!({"headGroupSpec": {"template": job("a")["spec"]["template"]}});
        let mut spec = more;
        let path = if let Some(cluster) = cluster {
            spec[cluster] = head;
            format!("template.spec.{cluster}.headGroupSpec.template")
        } else {
            spec["headGroupSpec"] = head["headGroupSpec"].clone();
            "template.spec.headGroupSpec.template".to_owned()
        };
        let metadata = json!({"name": "a"});
        let template = json!({"apiVersion": "ray.io/v1alpha1", "kind": kind, "metadata": metadata,
            "spec": spec});
        let aw = given(&[template]);
        judged(&with(&aw, "/spec/components/0/podSets", json!([{ "path": path }])))
    };
    let at = "warning: spec.components[0].template.spec";
    let stays = said("RayJob", Some("rayClusterSpec"), json!({"shutdownAfterJobFinishes": false}));
    only("RayJob", &stays, &format!("{at}.shutdownAfterJobFinishes: "), "does not end");
    let suspended = said("RayCluster", None, json!({"suspend": true}));
    only("RayCluster", &suspended, &format!("{at}.suspend: "), "nobody resumes it");
    // another version may have no such field
    let managed = said("RayCluster", None, json!({"managedBy": "example.com/x"}));
    assert_eq!(managed, Vec::<String>::new());
}

#[test]
fn what_a_ray_job_deletes_at_its_end_is_its_cluster() {
    let stays = "the cluster runs on after the job has succeeded";
    let vanishes = "runs again: use DeleteCluster";
    let both = |policy: &str| json!({"onSuccess": {"policy": policy}, "onFailure": {"policy": "DeleteCluster"}});
    let rule = |policy: &str, status: &str, seconds: i64| {
        let condition = json!({"jobStatus": status, "ttlSeconds": seconds});
        json!({"policy": policy, "condition": condition})
    };
    let rules = |all: &[Value]| json!({ "deletionRules": all });
    let failed = rule("DeleteCluster", "FAILED", 0);
    let of_failure =
        json!({"onSuccess": {"policy": "DeleteCluster"}, "onFailure": {"policy": "DeleteSelf"}});
    for (strategy, lifetime, want) in [
        (json!(null), 0, None),
        (both("DeleteCluster"), 0, None),
        (both("DeleteNone"), 0, Some(stays)),
        (both("DeleteWorkers"), 0, Some(stays)),
        (both("DeleteSelf"), 59, Some(vanishes)),
        (both("DeleteSelf"), 60, None),
        (of_failure, 0, Some(vanishes)),
        (rules(&[rule("DeleteCluster", "SUCCEEDED", 0)]), 0, None),
        (rules(&[rule("DeleteWorkers", "SUCCEEDED", 0)]), 0, Some(stays)),
        (rules(std::slice::from_ref(&failed)), 0, Some(stays)),
        (rules(&[rule("DeleteSelf", "SUCCEEDED", 0), failed.clone()]), 0, Some(vanishes)),
        (rules(&[rule("DeleteSelf", "SUCCEEDED", 60), failed]), 0, None),
    ] {
        let head = json!({"headGroupSpec": {"template": job("a")["spec"]["template"]}});
        let ray = json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a"},
            "spec": {"rayClusterSpec": head, "deletionStrategy": strategy,
                "ttlSecondsAfterFinished": lifetime}});
        let said = judged(&given(&[ray]));
        let start = "warning: spec.components[0].template.spec.deletionStrategy: ";
        match want {
            None => assert_eq!(said, Vec::<String>::new(), "{strategy}"),
            Some(fragment) => only("strategy", &said, start, fragment),
        }
    }
}

#[test]
fn a_ray_job_whose_cluster_stays_for_a_while_is_doubtful() {
    let legacy = |policy: &str| json!({"onSuccess": {"policy": policy}, "onFailure": {"policy": "DeleteCluster"}});
    let rule = |policy: &str, status: &str, seconds: i64| {
        let condition = json!({"jobStatus": status, "ttlSeconds": seconds});
        json!({"policy": policy, "condition": condition})
    };
    let rules = |all: &[Value]| json!({ "deletionRules": all });
    let of_success = |policy: &str, seconds: i64| rule(policy, "SUCCEEDED", seconds);
    let (lifetime, strategy) = ("ttlSecondsAfterFinished: \"61\"", "deletionStrategy");
    let without = "use DeleteCluster without ttlSeconds";
    for (given_strategy, seconds, want) in [
        (json!(null), 0, None),
        (json!(null), 61, Some((lifetime, "before: leave it out"))),
        (legacy("DeleteCluster"), 0, None),
        (legacy("DeleteCluster"), 61, Some((lifetime, "use DeleteCluster, and leave it out"))),
        (legacy("DeleteSelf"), 61, Some((lifetime, "use DeleteCluster, and leave it out"))),
        (legacy("DeleteSelf"), 60, None),
        (rules(&[of_success("DeleteCluster", 1)]), 0, Some((strategy, without))),
        (rules(&[of_success("DeleteCluster", 0)]), 61, Some((lifetime, "beside deletionRules"))),
        (rules(&[of_success("DeleteSelf", 61)]), 0, Some((strategy, without))),
        (rules(&[of_success("DeleteCluster", 0), of_success("DeleteSelf", 86_400)]), 0, None),
        (rules(&[of_success("DeleteCluster", 0), rule("DeleteCluster", "FAILED", 9)]), 0, None),
    ] {
        let head = json!({"headGroupSpec": {"template": job("a")["spec"]["template"]}});
        let ray = json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a"},
            "spec": {"rayClusterSpec": head, "deletionStrategy": given_strategy,
                "ttlSecondsAfterFinished": seconds}});
        let said = judged(&given(&[ray]));
        match want {
            None => assert_eq!(said, Vec::<String>::new(), "{given_strategy} {seconds}"),
            Some((field, fragment)) => {
                let start = format!("warning: spec.components[0].template.spec.{field}: ");
                only("ray", &said, &start, fragment);
            }
        }
    }
}

#[test]
fn a_ray_job_that_keeps_no_pods_of_a_failed_job_is_doubtful() {
    let by = |success: &str, failure: &str| json!({"onSuccess": {"policy": success}, "onFailure": {"policy": failure}});
    let rules = |of_failure: Option<i64>| {
        let rule = |status: &str, seconds: i64| {
            let condition = json!({"jobStatus": status, "ttlSeconds": seconds});
            json!({"policy": "DeleteCluster", "condition": condition})
        };
        let failed = of_failure.map(|seconds| rule("FAILED", seconds));
        let all: Vec<Value> = [rule("SUCCEEDED", 0)].into_iter().chain(failed).collect();
        json!({ "deletionRules": all })
    };
    let key = "workload.codeflare.dev.appwrapper/deletionOnFailureGracePeriodDuration";
    for (strategy, is_doubtful) in [
        (json!(null), true),
        (by("DeleteCluster", "DeleteCluster"), true),
        (by("DeleteCluster", "DeleteNone"), false),
        (rules(None), false),
        (rules(Some(0)), true),
        (rules(Some(900)), false),
    ] {
        let head = json!({"headGroupSpec": {"template": job("a")["spec"]["template"]}});
        let ray = json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a"},
            "spec": {"rayClusterSpec": head, "deletionStrategy": strategy}});
        let said = judged(&with(&given(&[ray]), "/metadata/annotations", json!({ key: "15m" })));
        if is_doubtful {
            let start = "warning: spec.components[0].template.spec.deletionStrategy: ";
            only("ray", &said, start, "deletionOnFailureGracePeriodDuration keeps none of");
        } else {
            assert_eq!(said, Vec::<String>::new(), "{strategy}");
        }
    }
}

/// API version and kind, a spec with a controller, the field that names it, and the usual one.
type Managed = (&'static str, &'static str, fn(&str) -> Value, &'static str, &'static str);

#[test]
fn pods_that_another_controller_has_to_create_are_doubtful() {
    fn by(name: &str) -> Value {
        json!({ "managedBy": name })
    }
    fn of_policy(name: &str) -> Value {
        json!({ "runPolicy": by(name) })
    }
    fn of_job(name: &str) -> Value {
        json!({"replicatedJobs": [{"name": "a", "template": {"spec": by(name)}}]})
    }
    fn of_ray_job(name: &str) -> Value {
        json!({ "rayClusterSpec": by(name) })
    }
    fn of_ray_service(name: &str) -> Value {
        json!({ "rayClusterConfig": by(name) })
    }
    let (job_set, job_controller) = ("jobset.x-k8s.io/v1alpha2", "kubernetes.io/job-controller");
    let (ray, kuberay) = ("ray.io/v1", "ray.io/kuberay-operator");
    let trainer = "trainer.kubeflow.org/trainjob-controller";
    let rows: [Managed; 11] = [
        ("batch/v1", "Job", by, "managedBy", job_controller),
        (job_set, "JobSet", by, "managedBy", "jobset.sigs.k8s.io/jobset-controller"),
        (job_set, "JobSet", of_job, "replicatedJobs[0].template.spec.managedBy", job_controller),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            of_policy,
            "runPolicy.managedBy",
            "kubeflow.org/training-operator",
        ),
        (
            "kubeflow.org/v2beta1",
            "MPIJob",
            of_policy,
            "runPolicy.managedBy",
            "kubeflow.org/mpi-operator",
        ),
        (ray, "RayCluster", by, "managedBy", kuberay),
        (ray, "RayJob", by, "managedBy", kuberay),
        (ray, "RayJob", of_ray_job, "rayClusterSpec.managedBy", kuberay),
        (ray, "RayService", by, "managedBy", kuberay),
        (ray, "RayService", of_ray_service, "rayClusterConfig.managedBy", kuberay),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", by, "managedBy", trainer),
    ];
    for (api_version, kind, spec, field, usual) in rows {
        let said = |name: &str| {
            let object = json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"name": "a"}, "spec": spec(name)});
            let mut said = judged(&given(&[object, job("b")]));
            said.retain(|line| line.contains("managedBy"));
            said
        };
        let other = "kueue.x-k8s.io/multikueue";
        let start =
            format!("warning: spec.components[0].template.spec.{field}: \"{other}\": {usual} ");
        only(kind, &said(other), &start, "its pods are missing");
        assert_eq!(said(usual), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn a_job_that_creates_no_pods_is_doubtful() {
    for (completions, is_doubtful) in [(json!(4), true), (json!(null), true), (json!(0), false)] {
        let mut idle = job("a");
        idle["spec"]["parallelism"] = json!(0);
        idle["spec"]["completions"] = completions;
        let said = judged(&given(&[idle, job("b")]));
        if is_doubtful {
            let start = "warning: spec.components[0].template.spec.parallelism: \"0\": ";
            only("", &said, start, "the Job creates no pods");
        } else {
            assert_eq!(said, Vec::<String>::new());
        }
    }
}

#[test]
fn retries_of_a_job_that_come_too_late_are_doubtful() {
    let said = |grace: &str, restarts: &str, field: &str, limit: u32| {
        let mut retried = job("a");
        retried["spec"][field] = limit.into();
        retried["spec"]["template"]["spec"]["restartPolicy"] = restarts.into();
        let key = "workload.codeflare.dev.appwrapper/failureGracePeriodDuration";
        judged(&with(&given(&[retried]), "/metadata/annotations", json!({ key: grace })))
    };
    for (grace, field, limit, fragment) in [
        (
            "1m",
            "backoffLimit",
            4,
            "retry 4 begins 1m20s after a failure, but the AppWrapper restarts after failureGracePeriod, 1m: give at \
             most 3, or set failureGracePeriodDuration above 1m20s",
        ),
        ("1m", "backoffLimit", 6, "give at most 3, or set failureGracePeriodDuration above 5m20s"),
        (
            "1m",
            "backoffLimitPerIndex",
            9,
            "give at most 3, or set failureGracePeriodDuration above 10m",
        ),
        ("10s", "backoffLimit", 1, "give at most 0,"),
        ("6m", "backoffLimit", 7, "retry 7 begins 10m after"),
    ] {
        let start =
            format!("warning: spec.components[0].template.spec.{field}: \"{limit}\": retry ");
        only(grace, &said(grace, "Never", field, limit), &start, fragment);
    }
    for (grace, restarts, field, limit) in [
        ("1m", "Never", "backoffLimit", 3),
        ("1m", "OnFailure", "backoffLimit", 6),
        ("1m21s", "Never", "backoffLimit", 4),
        ("6m", "Never", "backoffLimit", 6),
        ("11m", "Never", "backoffLimit", 100),
        ("1m", "Never", "backoffLimitPerIndex", 1),
    ] {
        assert_eq!(said(grace, restarts, field, limit), Vec::<String>::new(), "{grace} {limit}");
    }
}

#[test]
fn indexes_that_a_job_set_does_not_report_are_doubtful() {
    let mut spec = job("a")["spec"].clone();
    spec["backoffLimitPerIndex"] = json!(1);
    let replicated = json!([{"name": "a", "template": {"spec": spec}}]);
    let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "a"}, "spec": {"replicatedJobs": replicated}});
    let start = "warning: spec.components[0].template.spec.replicatedJobs[0].template.spec.backoffLimitPerIndex: ";
    only(
        "",
        &judged(&given(&[set])),
        start,
        "a JobSet does not report failed indexes: when an index",
    );
}

/// A JobSet of one replicated Job, with more in the spec of the Job.
fn job_set(more: Value) -> Value {
    let mut spec = job("a")["spec"].clone();
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"},
        "spec": {"replicatedJobs": [{"name": "a", "template": {"spec": spec}}]}})
}

#[test]
fn a_job_that_a_job_set_creates_again_is_doubtful() {
    for seconds in [0, 60, 86_400] {
        let said = judged(&given(&[job_set(json!({"ttlSecondsAfterFinished": seconds}))]));
        let start = "warning: spec.components[0].template.spec.replicatedJobs[0].template.spec.ttlSecondsAfterFinished: ";
        only("ttl", &said, start, "creates a Job again that is deleted after its end");
    }
    assert_eq!(judged(&given(&[job_set(json!({}))])), Vec::<String>::new());
}

#[test]
fn an_indexed_job_has_completions() {
    let mode = |mode: Value, completions: Value| json!({"parallelism": 2, "completionMode": mode, "completions": completions});
    for (more, of_job, of_set) in [
        (mode(json!(null), json!(null)), false, true),
        (mode(json!("Indexed"), json!(null)), true, true),
        (mode(json!("NonIndexed"), json!(null)), false, false),
        (mode(json!(null), json!(2)), false, false),
        (mode(json!("Indexed"), json!(2)), false, false),
        // the API server makes it 1
        (json!({"completionMode": "Indexed"}), false, false),
    ] {
        let set = job_set(more.clone());
        let mut alone = job("a");
        alone["spec"] = set["spec"]["replicatedJobs"][0]["template"]["spec"].clone();
        let jobs = "spec.replicatedJobs[0].template.spec";
        for (object, path, severity, fragment, is_wrong) in [
            (alone, "spec", "error", "an Indexed Job requires it", of_job),
            (set, jobs, "warning", "a JobSet makes its Jobs", of_set),
        ] {
            let aw = given(&[object]);
            if is_wrong {
                let start = format!("{severity}: spec.components[0].template.{path}.completions: ");
                only(path, &judged(&aw), &start, fragment);
            } else {
                assert_eq!(judged(&aw), Vec::<String>::new(), "{path} {more}");
            }
            // it is there already
            let changed = with(&aw, "/metadata/annotations", json!({"a": "b"}));
            let said = update(&aw, &changed, Requester::default(), &Config::default());
            assert_eq!(say(said), Vec::<String>::new());
        }
    }
}

#[test]
fn claims_that_outlive_an_attempt_are_doubtful() {
    let pod = job("a")["spec"]["template"].clone();
    let (apps, groups) = ("apps/v1", "leaderworkerset.x-k8s.io/v1");
    let claims = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let deleted = |when: &str| json!({ "whenDeleted": when });
    for (claims, policy, is_doubtful) in [
        (json!([]), json!(null), false),
        (claims.clone(), json!(null), true),
        (claims.clone(), deleted("Retain"), true),
        (claims, deleted("Delete"), false),
    ] {
        let mut set =
            json!({"volumeClaimTemplates": claims, "persistentVolumeClaimRetentionPolicy": policy});
        let mut group = json!({ "leaderWorkerTemplate": set });
        set["template"] = pod.clone();
        group["leaderWorkerTemplate"]["workerTemplate"] = pod.clone();
        for (api_version, kind, spec, path) in [
            (apps, "StatefulSet", set, "spec"),
            (groups, "LeaderWorkerSet", group, "spec.leaderWorkerTemplate"),
        ] {
            let said = judged(&given(&[json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"name": "a"}, "spec": spec})]));
            if is_doubtful {
                let start =
                    format!("warning: spec.components[0].template.{path}.volumeClaimTemplates: ");
                only(kind, &said, &start, "whenDeleted to Delete");
            } else {
                assert_eq!(said, Vec::<String>::new(), "{kind} {policy}");
            }
        }
    }
}

#[test]
fn a_name_is_one_that_the_controller_of_the_kind_can_use() {
    let pod = job("a")["spec"]["template"].clone();
    let ray = json!({"headGroupSpec": {"template": pod}});
    let groups = |replicas: i64, size: i64| {
        json!({"replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": pod}})
    };
    let replicas = |field: &str, kind: &str, count: i64| json!({ field: {kind: {"replicas": count, "template": pod}} });
    let (ray_v1, operator) = ("ray.io/v1", "kubeflow.org/v1");
    let lws = "leaderworkerset.x-k8s.io/v1";
    for (api_version, kind, spec, most, is_dns_1035) in [
        ("batch/v1", "Job", json!({"template": pod}), 253, false),
        ("apps/v1", "Deployment", json!({"template": pod}), 253, false),
        ("apps/v1", "StatefulSet", json!({"template": pod}), 52, false),
        (lws, "LeaderWorkerSet", groups(1, 1), 52, true),
        (lws, "LeaderWorkerSet", groups(10, 2), 50, true),
        (lws, "LeaderWorkerSet", groups(11, 2), 49, true),
        (ray_v1, "RayCluster", ray.clone(), 53, true),
        (ray_v1, "RayJob", json!({"rayClusterSpec": ray}), 47, true),
        (ray_v1, "RayService", json!({"rayClusterConfig": ray}), 47, true),
        (operator, "PyTorchJob", replicas("pytorchReplicaSpecs", "Worker", 10), 54, true),
        (operator, "PyTorchJob", replicas("pytorchReplicaSpecs", "Worker", 11), 53, true),
        (operator, "TFJob", replicas("tfReplicaSpecs", "PS", 1), 58, true),
        (operator, "XGBoostJob", replicas("xgbReplicaSpecs", "Master", 1), 54, true),
        (operator, "PaddleJob", replicas("paddleReplicaSpecs", "Worker", 1), 54, true),
        (operator, "JAXJob", replicas("jaxReplicaSpecs", "Worker", 1), 54, true),
        (operator, "MPIJob", replicas("mpiReplicaSpecs", "Launcher", 1), 253, false),
    ] {
        let named = |name: &str| {
            given(&[json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name},
                "spec": spec})])
        };
        let of_name = |name: &str| {
            let mut said = judged(&named(name));
            said.retain(|line| line.contains(".metadata.name: "));
            said
        };
        let start = "error: spec.components[0].template.metadata.name: Invalid value: ";
        assert_eq!(of_name(&"a".repeat(most)), Vec::<String>::new(), "{kind}");
        let long = "a".repeat(most + 1);
        only(kind, &of_name(&long), start, &format!("must be at most {most} "));
        for odd in ["1a", "a.b"] {
            if is_dns_1035 {
                only(kind, &of_name(odd), start, "beginning with a letter: ");
            } else {
                assert_eq!(of_name(odd), Vec::<String>::new(), "{kind}");
            }
        }
        if most < 253 {
            // it is there already
            let changed = with(&named(&long), "/metadata/annotations", json!({"a": "b"}));
            let said = update(&named(&long), &changed, Requester::default(), &Config::default());
            assert_eq!(say(said), Vec::<String>::new(), "{kind}");
        }
    }
}

#[test]
fn pods_of_a_kind_of_kubernetes_that_nobody_counts_are_doubtful() {
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "a"},
        "spec": {"replicas": 2, "template": job("a")["spec"]["template"]}});
    let start = "warning: spec.components[0].podSets: ";
    only("", &judged(&given(&[set.clone(), job("b")])), start, "of a ReplicaSet without pod sets");
    let sets = json!([{"path": "template.spec.template", "replicas": 2}]);
    let declared = with(&given(&[set, job("b")]), "/spec/components/0/podSets", sets);
    assert_eq!(judged(&declared), Vec::<String>::new());
}

#[test]
fn pods_whose_number_no_pod_set_can_say_are_doubtful() {
    let pod = job("a")["spec"]["template"].clone();
    let cron = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pod}}});
    for (api_version, kind, spec, path, fragment) in [
        ("batch/v1", "CronJob", cron, "jobTemplate.spec.template", "its schedule; wrap a Job"),
        ("apps/v1", "DaemonSet", json!({"template": pod}), "template", "the nodes; wrap a Job or"),
    ] {
        let metadata = json!({"name": "a"});
        let object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
        let aw = given(&[object, job("b")]);
        let sets = json!([{"path": format!("template.spec.{path}")}]);
        let declared = with(&aw, "/spec/components/0/podSets", sets);
        let start = format!("warning: spec.components[0].template.kind: \"{kind}\": ");
        for aw in [aw, declared] {
            only(kind, &judged(&aw), &start, fragment);
        }
    }
}

#[test]
fn an_appwrapper_is_not_nested_in_any_way() {
    for version in ["v1beta2", "v1beta1", "v7"] {
        let inner = json!({
            "apiVersion": format!("workload.codeflare.dev/{version}"), "kind": "AppWrapper",
            "metadata": {"name": "inner"}, "spec": {"components": []},
        });
        let said = judged(&given(&[inner.clone(), job("a")]));
        let start = "error: spec.components[0].template.kind: Invalid value: \"AppWrapper\": ";
        only("60", &said, start, "of any version");
        let list = json!({
            "apiVersion": "v1", "kind": "List", "metadata": {"name": "a"}, "items": [inner],
        });
        let said = judged(&given(&[list, job("a")]));
        assert_eq!(said.len(), 2, "row 62: {said:?}");
        assert!(said[0].starts_with("error: spec.components[0].template.kind: "), "{said:?}");
        assert!(said[1].starts_with("error: spec.components[0].template.items[0].kind: "));
        let template = with(&service("a"), "/spec", json!({"template": inner}));
        let start = "error: spec.components[0].template.spec.template.kind: ";
        only("62", &judged(&given(&[template, job("a")])), start, "of any version");
    }
    let reference = json!({"kind": "AppWrapper", "apiVersion": "workload.codeflare.dev/v1beta2"});
    let event = with(&service("a"), "/regarding", reference);
    assert_eq!(judged(&given(&[event, job("a")])), Vec::<String>::new());
}

#[test]
fn a_list_is_no_component_though_a_kind_may_end_with_list() {
    for (kind, field, value, is_list) in [
        ("List", "items", json!([]), true),
        ("List", "spec", json!({}), true),
        ("JobList", "items", json!([]), true),
        ("AllowList", "spec", json!({"cidrs": []}), false),
        ("AllowList", "data", json!({}), false),
    ] {
        let object = json!({"apiVersion": "example.com/v1", "kind": kind,
            "metadata": {"name": "l"}, field: value});
        let said = judged(&given(&[object, job("b")]));
        if is_list {
            let start = "error: spec.components[0].template.kind: Invalid value: ";
            only(kind, &said, start, "must not be a list");
        } else {
            assert_eq!(said, Vec::<String>::new(), "{kind} {field}");
        }
    }
}

#[test]
fn a_role_has_a_name_that_is_a_part_of_a_path() {
    let said = |name: &str| {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name}, "rules": []});
        judged(&given(&[role, job("b")]))
    };
    for name in ["a", "system:a", "A.b_c@d*", "a+b~c"] {
        assert_eq!(said(name), Vec::<String>::new(), "{name}");
    }
    for name in
        [".", "..", "a b", "a/b", "a%b", "a?b", "a#b", "a,b", "a=b", "a\\b", "a<b", "a>b", "a`b"]
    {
        let start = "error: spec.components[0].template.metadata.name: Invalid value: ";
        only(name, &said(name), start, "at most 253 ASCII characters");
    }
}

#[test]
fn names_are_unique_within_a_kind() {
    let start = "error: spec.components[1].template.metadata.name: Invalid value: \"a\": ";
    only("50", &judged(&given(&[job("a"), job("a")])), start, "spec.components[0] is also Job/a");
    let other_version = with(&job("a"), "/apiVersion", json!("batch/v2"));
    let declared = json!([{"path": "template.spec.template", "replicas": 1}]);
    let aw = with(&given(&[job("a"), other_version]), "/spec/components/1/podSets", declared);
    only("50", &judged(&aw), start, "must be unique");
    let other_group = with(&service("a"), "/apiVersion", json!("example.com/v1"));
    let all = [job("a"), service("a"), other_group];
    assert_eq!(judged(&given(&all)), Vec::<String>::new());
}

#[test]
fn labels_of_ours_are_refused_in_objects_and_pods() {
    for key in [
        LABEL,
        "workload.codeflare.dev/appwrapper-uid",
        "workload.codeflare.dev/attempt",
        "workload.codeflare.dev/podset",
    ] {
        let mut template = job("a");
        template["metadata"]["labels"] = json!({ key: "victim" });
        let field = format!("spec.components[0].template.metadata.labels[{key}]");
        let start = format!("error: {field}: Invalid value: \"victim\": ");
        only("54", &judged(&given(&[template])), &start, "the controller sets it");
        let mut template = job("a");
        template["spec"]["template"]["metadata"] = json!({"labels": { key: "victim" }});
        let field = format!("spec.components[0].template.spec.template.metadata.labels[{key}]");
        only("54", &judged(&given(&[template])), &format!("error: {field}: "), "must be left out");
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {LABEL: "victim"}},
        "spec": {"containers": [{"name": "main"}]},
    });
    let start = "error: spec.components[0].template.metadata.labels[";
    only("54", &judged(&given(&[pod])), start, "must be left out");
}

#[test]
fn queues_of_components_are_those_of_the_appwrapper() {
    let mut aw = given(&[job("a")]);
    aw["spec"]["components"][0]["template"]["metadata"]["labels"] = json!({ QUEUE: "other" });
    let field = format!("spec.components[0].template.metadata.labels[{QUEUE}]: ");
    only("55", &judged(&aw), &format!("warning: {field}"), "Kueue would admit this component");
    aw["metadata"]["labels"] = json!({ QUEUE: "main" });
    only("55", &judged(&aw), &format!("error: {field}"), "own queue \"main\"");
    aw["metadata"]["labels"] = json!({ QUEUE: "other" });
    assert_eq!(judged(&aw), Vec::<String>::new());
}

#[test]
fn a_pod_does_not_choose_its_node() {
    let place = "/spec/components/0/template/spec/template/spec/nodeName";
    let said = judged(&with(&given(&[job("a")]), place, json!("node-1")));
    let start = "error: spec.components[0].template.spec.template.spec.nodeName: ";
    only("67", &said, start, "bypasses the scheduler");
    assert_eq!(judged(&with(&given(&[job("a")]), place, json!(""))), Vec::<String>::new());
}

#[test]
fn what_kuberay_runs_beside_the_pod_sets_needs_no_quota() {
    let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "ray", "image": "i"}]}});
    let cluster = json!({"headGroupSpec": {"template": pod}});
    let ray = |kind: &str, spec: Value| {
        let metadata = json!({"name": "r"});
        let template =
            json!({"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
        judged(&given(&[template]))
    };
    let job = |submitter: Value| {
        let spec = json!({"rayClusterSpec": cluster, "submitterPodTemplate": {"spec": submitter}});
        ray("RayJob", spec)
    };
    let asks = |resources: Value| {
        job(json!({"containers": [{"name": "submit", "image": "i", "resources": resources}]}))
    };
    let mut scaled = cluster.clone();
    scaled["enableInTreeAutoscaling"] = json!(true);
    let submitter = "spec.submitterPodTemplate.spec";
    for (said, field, fragment) in [
        (ray("RayCluster", scaled.clone()), "spec.enableInTreeAutoscaling", "the autoscaler"),
        (
            ray("RayJob", json!({"rayClusterSpec": scaled})),
            "spec.rayClusterSpec.enableInTreeAutoscaling",
            "must be false",
        ),
        (
            ray("RayService", json!({"rayClusterConfig": scaled})),
            "spec.rayClusterConfig.enableInTreeAutoscaling",
            "must be false",
        ),
        (
            asks(json!({"limits": {"nvidia.com/gpu": 8}})),
            &format!("{submitter}.containers[0].resources.limits[nvidia.com/gpu]"),
            "only cpu and memory",
        ),
        (
            asks(json!({"requests": {"cpu": "1500m"}})),
            &format!("{submitter}.containers"),
            "at most 1 of cpu",
        ),
        (
            asks(json!({"limits": {"memory": "2Gi"}})),
            &format!("{submitter}.containers"),
            "at most 1Gi of memory",
        ),
        (
            job(json!({"containers": [], "resources": {"requests": {"nvidia.com/gpu": "8"}}})),
            &format!("{submitter}.resources.requests[nvidia.com/gpu]"),
            "only cpu and memory",
        ),
        (
            job(json!({"containers": [], "resources": {"limits": {"cpu": 64}}})),
            &format!("{submitter}.resources"),
            "at most 1 of cpu",
        ),
        (job(json!({"overhead": {"cpu": "64"}})), &format!("{submitter}.overhead"), "not count"),
        (
            job(json!({"nodeName": "node-1"})),
            &format!("{submitter}.nodeName"),
            "bypasses the scheduler",
        ),
        (
            job(json!({"resourceClaims": [{"name": "gpu"}]})),
            &format!("{submitter}.resourceClaims"),
            "not count",
        ),
    ] {
        only("ray", &said, &format!("error: spec.components[0].template.{field}: "), fragment);
    }
    let usual = json!({"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": 1, "memory": "1Gi"}});
    assert_eq!(asks(usual), Vec::<String>::new());
    let empty = json!({"nodeName": "", "resourceClaims": [], "overhead": {}, "resources": null});
    assert_eq!(job(empty), Vec::<String>::new());
    assert_eq!(ray("RayJob", json!({"rayClusterSpec": cluster})), Vec::<String>::new());
}

#[test]
fn the_collector_of_a_ray_cluster_requests_no_resources() {
    for (kind, cluster) in [
        ("RayCluster", None),
        ("RayJob", Some("rayClusterSpec")),
        ("RayService", Some("rayClusterConfig")),
    ] {
        let said = |resources: Value| {
            let collector = json!({"image": "i", "resources": resources});
            let ray = json!({"headGroupSpec": {"template": job("a")["spec"]["template"]},
                "historyServerOptions": {"collectorOptions": collector}});
            let spec = cluster.map_or_else(|| ray.clone(), |field| json!({ field: ray }));
            judged(&given(&[json!({"apiVersion": "ray.io/v1", "kind": kind,
                "metadata": {"name": "a"}, "spec": spec})]))
        };
        let at = cluster.map_or_else(String::new, |field| format!("{field}."));
        let start = format!(
            "error: spec.components[0].template.spec.{at}historyServerOptions.collectorOptions.resources: "
        );
        let asks = said(json!({"requests": {"nvidia.com/gpu": "8"}}));
        only(kind, &asks, &start, "Kueue does not count the container");
        assert_eq!(said(json!({})), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn a_cluster_that_kuberay_leaves_without_pods_is_reported() {
    let pod = job("a")["spec"]["template"].clone();
    for (kind, cluster, is_direct) in [
        ("RayCluster", None, true),
        ("RayJob", Some("rayClusterSpec"), false),
        ("RayService", Some("rayClusterConfig"), false),
    ] {
        let said = |field: &str, value: Value| {
            let mut spec = json!({"headGroupSpec": {"template": pod}});
            spec[field] = value;
            if let Some(cluster) = cluster {
                spec = json!({ cluster: spec });
            }
            judged(&given(&[json!({"apiVersion": "ray.io/v1", "kind": kind,
                "metadata": {"name": "r"}, "spec": spec})]))
        };
        let groups = |more: Value| {
            let mut group = more;
            group["template"] = pod.clone();
            said("workerGroupSpecs", json!([group]))
        };
        let place = cluster.map_or_else(String::new, |cluster| format!(".{cluster}"));
        let path = format!("spec.components[0].template.spec{place}");
        let group = format!("{path}.workerGroupSpecs[0]");
        let start = format!("error: {group}.minReplicas: Invalid value: \"3\": ");
        let wrong = groups(json!({"replicas": 3, "minReplicas": 3, "maxReplicas": 2}));
        only(kind, &wrong, &start, "must be at most maxReplicas, 2");
        let right = groups(json!({"replicas": 2, "minReplicas": 2, "maxReplicas": 2}));
        assert_eq!(right, Vec::<String>::new(), "{kind}");
        let start = format!("warning: {group}.suspend: \"true\": ");
        let suspended = groups(json!({"replicas": 2, "suspend": true}));
        only(kind, &suspended, &start, "nobody resumes the group");
        let running = groups(json!({"replicas": 2, "suspend": false}));
        assert_eq!(running, Vec::<String>::new(), "{kind}");
        let upgraded = said("upgradeStrategy", json!({"type": "Recreate"}));
        if is_direct {
            assert_eq!(upgraded, Vec::<String>::new(), "{kind}");
        } else {
            let start = format!("warning: {path}.upgradeStrategy.type: \"Recreate\": ");
            only(kind, &upgraded, &start, "KubeRay creates no pods");
        }
    }
}

#[test]
fn the_training_operator_creates_no_autoscaler() {
    let job = |kind: &str, version: &str, policy: Value| {
        let pod = json!({"spec": {"containers": [{"name": "pytorch", "image": "i"}]}});
        let specs = json!({"Worker": {"replicas": 1, "template": pod}});
        let field = if kind == "PyTorchJob" { "pytorchReplicaSpecs" } else { "paddleReplicaSpecs" };
        let metadata = json!({"name": "one"});
        let spec = json!({field: specs, "elasticPolicy": policy});
        let template =
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        judged(&given(&[template]))
    };
    let v1 = "kubeflow.org/v1";
    for metrics in [json!([]), json!([{"type": "Resource"}])] {
        let policy = json!({"maxReplicas": 64, "metrics": metrics});
        let said = job("PyTorchJob", v1, policy.clone());
        let field = "error: spec.components[0].template.spec.elasticPolicy.metrics: ";
        only("metrics", &said, field, "the autoscaler changes the number of workers");
        // the operator creates none for it
        assert_eq!(job("PaddleJob", v1, policy), Vec::<String>::new());
    }
    for policy in
        [json!({"minReplicas": 1, "maxReplicas": 4}), json!({"metrics": null}), json!(null)]
    {
        assert_eq!(job("PyTorchJob", v1, policy), Vec::<String>::new());
    }
}

#[test]
fn only_allowed_kinds_are_wrapped() {
    let config = Config::parse("admission: {allowedKinds: [Job.batch]}").unwrap();
    assert_eq!(create(&given(&[job("a")]), &config), vec![]);
    let said = say(create(&given(&[job("a"), service("b")]), &config));
    let start = "error: spec.components[1].template.kind: Invalid value: \"Service\": ";
    only(
        "63",
        &said,
        start,
        "Service is not in admission.allowedKinds of the configuration: Job.batch",
    );
}

#[test]
fn pod_sets_are_counted() {
    let first = "/spec/components/0";
    let sets = |sets: Value| with(&given(&[job("a")]), &format!("{first}/podSets"), sets);
    let path = "template.spec.template";
    for (row, aw, start, fragment) in [
        ("35", sets(json!([{"path": path, "replicas": -1}])), "podSets[0].replicas", "at least 0"),
        ("35", sets(json!([{"path": path, "replicas": 7}])), "podSets[0].replicas", "expected 1"),
        (
            "35",
            sets(json!([{"path": path, "replicas": 4_294_967_297_i64}])),
            "podSets[0].replicas",
            "must be a whole number",
        ),
        (
            "37",
            with(&given(&[job("a")]), &format!("{first}/template/spec/parallelism"), json!(-7)),
            "template.spec.parallelism",
            "expected",
        ),
        (
            "37",
            with(
                &given(&[job("a")]),
                &format!("{first}/template/spec/parallelism"),
                json!(4_294_967_297_i64),
            ),
            "template.spec.parallelism",
            "expected",
        ),
        ("41", sets(json!([{"path": path}, {"path": path}])), "podSets[1].path", "other than"),
        ("42", sets(json!([{"path": "template/../../etc"}])), "podSets[0].path", "position 8"),
        ("43", sets(json!([{"path": "template[0]"}])), "podSets[0].path", "array"),
        ("44", sets(json!([{"path": "template.template."}])), "podSets[0].path", "position 18"),
        (
            "44",
            sets(json!([{"path": "template.a[100000000000000000000]"}])),
            "podSets[0].path",
            "index",
        ),
        (
            "45",
            sets(json!([{"path": format!("template.{}", "a".repeat(100_000))}])),
            "podSets[0].path",
            "512 characters",
        ),
        ("45", sets(json!([{"path": "template.spec"}])), "podSets[0].path", "a pod template"),
        ("45", sets(json!([{"replicas": 1}])), "podSets[0].path", "must be given"),
    ] {
        only(row, &judged(&aw), &format!("error: spec.components[0].{start}: "), fragment);
    }
}

#[test]
fn another_version_of_a_known_kind_makes_as_many_pods_as_it_declares() {
    let template = json!({"spec": {"containers": [{"name": "c"}]}});
    let cluster = json!({
        "apiVersion": "ray.io/v1alpha1",
        "kind": "RayCluster",
        "metadata": {"name": "r"},
        "spec": {
            "headGroupSpec": {"template": template},
            "workerGroupSpecs": [{"replicas": 500, "minReplicas": 500, "maxReplicas": 500, "template": template}],
        },
    });
    let head = json!({"path": "template.spec.headGroupSpec.template", "replicas": 1});
    let workers = json!({"path": "template.spec.workerGroupSpecs[0].template", "replicas": 500});
    let aw = |sets: Value| {
        with(&given(std::slice::from_ref(&cluster)), "/spec/components/0/podSets", sets)
    };
    assert_eq!(judged(&aw(json!([head, workers]))), Vec::<String>::new());
    let field = "error: spec.components[0].podSets: ";
    only("36", &judged(&aw(json!([head]))), field, "an additional pod set");
    only("36", &judged(&aw(json!([]))), field, "inferred only for ray.io/v1 RayCluster");
}

#[test]
fn a_pod_in_a_queue_requests_what_kueue_counts() {
    let asks = |count: u32| json!({"requests": {"nvidia.com/gpu": count}});
    let container = |name: &str, count: u32| json!({"name": name, "resources": asks(count)});
    let mut sidecar = container("s", 8);
    sidecar["restartPolicy"] = "Always".into();
    let inits = |inits: Value| json!({"containers": [container("c", 8)], "initContainers": inits});
    let aw = |spec: &Value, queue: Option<&str>| {
        let aw = with(
            &given(&[job("a")]),
            "/spec/components/0/template/spec/template/spec",
            spec.clone(),
        );
        with(
            &aw,
            "/metadata/labels",
            json!({"kueue.x-k8s.io/queue-name": queue.unwrap_or_default()}),
        )
    };
    let start = "error: spec.components[0].template.spec.template.spec";
    let whole = json!({"containers": [{"name": "c"}], "resources": {"requests": {"cpu": 64}}});
    let claims = json!({"containers": [{"name": "c"}], "resourceClaims": [{"name": "gpu"}]});
    let most = |amount: &str| {
        let resources = json!({"requests": {"nvidia.com/gpu": amount}});
        json!({"name": "c", "resources": resources})
    };
    let overflow = json!({
        "containers": [most("9223372036854775807"), most("9223372036854775707")],
    });
    for (spec, field, fragment) in [
        (overflow, ": Invalid value: \"18446744073709552000 nvidia.com/gpu\"", "cannot add up"),
        (inits(json!([sidecar])), ": Invalid value: \"16 nvidia.com/gpu\"", "(8 nvidia.com/gpu)"),
        (whole, ": Invalid value: \"64 cpu\"", "(0 cpu)"),
        (claims, ".resourceClaims: ", "must be left out"),
    ] {
        only("queue", &judged(&aw(&spec, Some("q"))), &format!("{start}{field}"), fragment);
        assert_eq!(judged(&aw(&spec, None)), Vec::<String>::new());
        // it enters a queue later
        let later = update(
            &aw(&spec, None),
            &aw(&spec, Some("q")),
            Requester::default(),
            &Config::default(),
        );
        only("later", &say(later), &format!("{start}{field}"), fragment);
    }
    // whatever the pods of others request
    let less = json!({"containers": [most("-100")]});
    let later =
        update(&aw(&less, None), &aw(&less, Some("q")), Requester::default(), &Config::default());
    let field = format!(
        "{start}.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: \"-100\": "
    );
    for said in [judged(&aw(&less, Some("q"))), judged(&aw(&less, None)), say(later)] {
        only("negative", &said, &field, "must be 0 or more");
    }
    for spec in [inits(json!([container("i", 16), sidecar])), inits(json!([container("i", 9)]))] {
        assert_eq!(judged(&aw(&spec, Some("q"))), Vec::<String>::new());
    }
}

#[test]
fn what_pod_set_infos_add_without_a_queue_fits_the_template() {
    let added = |infos: Value| {
        let mut aw = given(&[job("a")]);
        let component = &mut aw["spec"]["components"][0];
        let pod = &mut component["template"]["spec"]["template"];
        let zone = json!({"zone": "a"});
        pod["metadata"] = json!({"labels": zone, "annotations": zone});
        pod["spec"]["nodeSelector"] = zone;
        component["podSetInfos"] = infos;
        aw
    };
    let first = "spec.components[0].podSetInfos";
    let later =
        |aw: &Value| say(update(&added(json!([])), aw, Requester::default(), &Config::default()));
    for part in ["nodeSelector", "labels", "annotations"] {
        let aw = added(json!([{part: {"zone": "b"}}]));
        let start = format!("error: {first}[0].{part}[zone]: Invalid value: \"b\": expected \"a\"");
        for said in [judged(&aw), later(&aw)] {
            only(part, &said, &start, "the value in template.spec.template.");
        }
        // Kueue replaces it
        let queued = with(&aw, "/metadata/labels", json!({ QUEUE: "q" }));
        assert_eq!(judged(&queued), Vec::<String>::new(), "{part}");
        // it is there already
        let changed = with(&aw, "/metadata/annotations", json!({"a": "b"}));
        let said = update(&aw, &changed, Requester::default(), &Config::default());
        assert_eq!(say(said), Vec::<String>::new(), "{part}");
        let same = added(json!([{part: {"zone": "a", "rack": "b"}}]));
        assert_eq!(judged(&same), Vec::<String>::new(), "{part}");
        assert_eq!(later(&same), Vec::<String>::new(), "{part}");
    }
    for (part, key, value) in
        [("labels", "a b", "c"), ("labels", "rack", "a b"), ("annotations", "a b", "c")]
    {
        let aw = added(json!([{part: {key: value}}]));
        for said in [judged(&aw), later(&aw)] {
            only(part, &said, &format!("error: {first}[0].{part}[{key}]: "), "");
        }
    }
    let start = format!("warning: {first}: \"2\": ");
    only(
        "two",
        &judged(&added(json!([{}, {}]))),
        &start,
        "the number of pod sets, 1, have no effect",
    );
}

/// An AppWrapper in a queue, with such annotations on its 8 pods.
fn with_topology(texts: &[(&str, &str)]) -> Value {
    let mut aw = with(&given(&[job("a")]), "/metadata/labels", json!({ QUEUE: "q" }));
    let spec = &mut aw["spec"]["components"][0]["template"]["spec"];
    spec["parallelism"] = json!(8);
    let pod = &mut spec["template"];
    for (name, text) in texts {
        pod["metadata"]["annotations"][format!("kueue.x-k8s.io/podset-{name}")] = json!(text);
    }
    aw
}

#[test]
fn a_topology_that_kueue_cannot_read_is_denied() {
    let rack = "cloud.provider.com/topology-rack";
    let long = format!("cloud.provider.com/{}", "a".repeat(60));
    let name = "g".repeat(257);
    let layered = |text| [("slice-required-topology-constraints", text)];
    let two = r#"[{"topology": "block", "size": 8}, {"Topology": "rack", "Size": 4}]"#;
    let same = r#"[{"topology": "rack", "size": 8}, {"topology": "rack", "size": 4}]"#;
    let odd = r#"[{"topology": "block", "size": 8}, {"topology": "rack", "size": 3}]"#;
    for right in [
        &[("required-topology", rack)][..],
        &[("preferred-topology", rack), ("group-name", "workers")],
        &[("unconstrained-topology", "True")],
        &[("slice-required-topology", rack), ("slice-size", "+4")],
        &[("required-topology", rack), ("slice-required-topology", rack), ("slice-size", "4")],
        &layered(two),
    ] {
        assert_eq!(judged(&with_topology(right)), Vec::<String>::new());
    }
    let field = "error: spec.components[0].template.spec.template.metadata.annotations";
    for (wrong, key, fragment) in [
        (&[("required-topology", "a rack")][..], "required-topology", "node label of a level"),
        (&[("required-topology", "")], "required-topology", "node label of a level"),
        (&[("preferred-topology", long.as_str())], "preferred-topology", "at most 63 characters"),
        (&[("unconstrained-topology", "yes")], "unconstrained-topology", "true or false"),
        (&[("slice-required-topology", rack), ("slice-size", "0")], "slice-size", "from 1 to"),
        (&[("slice-required-topology", rack), ("slice-size", "2.5")], "slice-size", "from 1 to"),
        (
            &[("slice-required-topology", "/"), ("slice-size", "1")],
            "slice-required-topology",
            "node label of a level",
        ),
        (&[("required-topology", rack), ("group-name", name.as_str())], "group-name", "256 char"),
        (&layered("{}"), "slice-required-topology-constraints", "a JSON list of 1 to 3"),
        (&layered("[]"), "slice-required-topology-constraints", "a JSON list of 1 to 3"),
        (
            &layered(r#"[{"topology": "rack", "size": 0}]"#),
            "slice-required-topology-constraints",
            "a size of at least 1",
        ),
        (&layered(same), "slice-required-topology-constraints", "a level of its own"),
        (&layered(odd), "slice-required-topology-constraints", "which the next size divides"),
    ] {
        let start = format!("{field}[kueue.x-k8s.io/podset-{key}]: ");
        let aw = with_topology(wrong);
        only(key, &judged(&aw), &start, fragment);
        // Kueue does not see it
        assert_eq!(judged(&with(&aw, "/metadata/labels", json!({}))), Vec::<String>::new());
        // it is there already
        let changed = with(&aw, "/metadata/annotations", json!({"a": "b"}));
        let said = update(&aw, &changed, Requester::default(), &Config::default());
        assert_eq!(say(said), Vec::<String>::new());
    }
}

/// Kueue admits such an AppWrapper, and denies its component.
#[test]
fn a_topology_that_kueue_denies_for_components_is_denied() {
    let rack = ("required-topology", "rack");
    let slice = ("slice-required-topology", "rack");
    let layers = ("slice-required-topology-constraints", r#"[{"topology": "rack", "size": 4}]"#);
    let large = (layers.0, r#"[{"topology": "rack", "size": 9}]"#);
    let group = ("group-name", "workers");
    let unconstrained = ("unconstrained-topology", "nothing that is read");
    let alone = "must be left out without kueue.x-k8s.io/podset-";
    let first = "must be the only one of kueue.x-k8s.io/podset-";
    let beside = "must be left out with kueue.x-k8s.io/podset-slice-";
    let many = "must not have slices of more than the 8 pods: ";
    let field = "spec.components[0].template.spec.template.metadata.annotations";
    let deployment = |pod: &Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"replicas": 8, "template": pod}})
    };
    for (annotations, key, fragment) in [
        (&[rack, ("preferred-topology", "nor this"), unconstrained][..], rack.0, first),
        (&[("preferred-topology", "rack"), unconstrained], "preferred-topology", first),
        (&[("slice-required-topology", "/")], "slice-required-topology", alone),
        (&[("slice-size", "0")], "slice-size", alone),
        (&[slice, ("slice-size", "9")], "slice-size", many),
        (&[large], layers.0, many),
        (&[slice, ("slice-size", "0"), layers], layers.0, beside),
        (&[("slice-size", "4"), layers], layers.0, beside),
        (&[group], "group-name", alone),
        (&[rack, ("group-name", "7")], "group-name", "must not be a number: "),
        (&[rack, group, layers], "group-name", beside),
    ] {
        let start = format!("error: {field}[kueue.x-k8s.io/podset-{key}]: ");
        let aw = with_topology(annotations);
        let said = judged(&aw);
        only(fragment, &said, &start, fragment);
        only(fragment, &said, &start, "Kueue's webhook denies the component");
        // there is only a webhook for its pods
        if fragment != many {
            let pod = &aw["spec"]["components"][0]["template"]["spec"]["template"];
            let other = with(&aw, "/spec/components/0/template", deployment(pod));
            let start = start.replace("error", "warning");
            only(fragment, &judged(&other), &start, "denies the pods if Kueue manages pods");
        }
        // it is there already, also in the cluster from which MultiKueue copies it
        let labels = json!({QUEUE: "q", "kueue.x-k8s.io/multikueue-origin": "multikueue"});
        assert_eq!(judged(&with(&aw, "/metadata/labels", labels)), Vec::<String>::new());
        let changed = with(&aw, "/metadata/annotations", json!({"a": "b"}));
        let said = update(&aw, &changed, Requester::default(), &Config::default());
        assert_eq!(say(said), Vec::<String>::new());
    }
    let said = judged(&with_topology(&[rack, group, slice, ("slice-size", "4")]));
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(said.iter().all(|text| text.contains(beside)), "{said:#?}");
    let long = format!("[{}]", " ".repeat(1_024));
    let start = format!("warning: {field}[kueue.x-k8s.io/podset-{}]: ", layers.0);
    only("long", &judged(&with_topology(&[(layers.0, long.as_str())])), &start, "is not checked");
}

#[test]
fn a_template_has_nothing_that_only_kueue_sets() {
    let pod = "template.spec.template.metadata";
    for (metadata, map, key, fragment) in [
        (pod, "labels", "podset", "only Kueue sets it"),
        (pod, "annotations", "workload", "only Kueue sets it"),
        (pod, "annotations", "pod-suspending-parent", "only Kueue sets it"),
        ("template.metadata", "annotations", "elastic-job", "Kueue gates the pods"),
    ] {
        let (place, key) = (format!("{metadata}.{map}"), format!("kueue.x-k8s.io/{key}"));
        let pointer = format!("/spec/components/0/{}", place.replace('.', "/"));
        let bare = with(&given(&[job("a")]), &pointer, json!({ key.as_str(): "true" }));
        assert_eq!(judged(&bare), Vec::<String>::new());
        let aw = with(&bare, "/metadata/labels", json!({ QUEUE: "q" }));
        let start = format!("error: spec.components[0].{place}[{key}]: Invalid value: \"true\": ");
        only(&key, &judged(&aw), &start, fragment);
        // it is there already
        let said = update(&bare, &aw, Requester::default(), &Config::default());
        assert_eq!(say(said), Vec::<String>::new());
    }
}

#[test]
fn totals_are_bounded() {
    let many = |count: usize| given(&(0..count).map(|i| job(&format!("j{i}"))).collect::<Vec<_>>());
    let wide = |jobs: i64, pods: i64| {
        json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"},
            "spec": {"replicatedJobs": [{"name": "a", "replicas": jobs, "template": {
                "spec": {"parallelism": pods, "completions": pods,
                    "template": {"spec": {"containers": [{"name": "main"}]}}},
            }}]},
        })
    };
    let large = |count: i64| with(&job("a"), "/spec/parallelism", json!(count));
    let deployment = |replicas: i64| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"replicas": replicas,
                "template": {"spec": {"containers": [{"name": "main"}]}}},
        })
    };
    assert_eq!(judged(&many(10)), Vec::<String>::new(), "row 40");
    assert_eq!(judged(&given(&[large(1_000_000)])), Vec::<String>::new());
    for (row, aw, value, fragment) in [
        ("39", given(&[]), "[]", "at least one entry"),
        ("40", many(11), "11", "at most 10 pod sets in total"),
        ("35", given(&[large(1_000_000), job("b")]), "1000001", "1 to 1000000 pods"),
        ("35", given(&[large(2_147_483_647), deployment(2_147_483_647)]), "4294967294", "pods"),
        ("38", given(&[deployment(0)]), "0", "1 to 1000000 pods"),
    ] {
        let start = format!("error: spec.components: Invalid value: {value:?}: ");
        only(row, &judged(&aw), &start, fragment);
    }
    let said = judged(&given(&[wide(65536, 65536)]));
    only("36", &said, "error: spec.components[0].template.spec.replicatedJobs[0]", "expected");
    assert_eq!(judged(&given(&[wide(1000, 1000)])), Vec::<String>::new());
}

#[test]
fn a_component_without_pods_is_named_with_its_kind() {
    let of = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "j"}});
    for (templates, want) in [
        (vec![service("a")], "components[0] Service/a has no pods"),
        (
            vec![of("batch/v1", "Jobb")],
            "components[0] Jobb/j has the unknown kind batch/v1 Jobb: did you mean Job? \
             Otherwise declare its podSets",
        ),
        (
            vec![of("example.com/v1", "PyTorchJob")],
            "components[0] PyTorchJob/j has the unknown kind example.com/v1 PyTorchJob (known: \
             kubeflow.org/v1 PyTorchJob); declare its podSets",
        ),
        (
            vec![of("batch/v1", "CronJob")],
            "components[0] CronJob/j has no fixed number of pods: they come and go with its \
             schedule; wrap a Job instead",
        ),
        (
            vec![of("batch.volcano.sh/v1alpha1", "CronJob")],
            "components[0] CronJob/j has no fixed number of pods: they come and go with its \
             schedule; wrap a Job instead",
        ),
        (
            vec![of("ray.io/v1", "RayCronJob")],
            "components[0] RayCronJob/j has no fixed number of pods: they come and go with its \
             schedule; wrap a RayJob instead",
        ),
        (
            vec![of("apps/v1", "ReplicaSet")],
            "components[0] ReplicaSet/j has the unknown kind apps/v1 ReplicaSet; declare its podSets",
        ),
        (
            ["a", "b", "c", "d", "e"].map(service).to_vec(),
            "components[0] Service/a has no pods; components[1] Service/b has no pods; \
             components[2] Service/c has no pods; and 2 more components",
        ),
        (
            ["a", "b", "c", "d"].map(service).to_vec(),
            "components[0] Service/a has no pods; components[1] Service/b has no pods; \
             components[2] Service/c has no pods; and 1 more component",
        ),
    ] {
        let start = "error: spec.components: must have at least one pod set, but has none: ";
        assert_eq!(judged(&given(&templates)), [format!("{start}{want}")], "row 39");
    }
    let other_version = with(&job("j"), "/apiVersion", json!("batch/v1beta1"));
    let want = "error: spec.components[0].podSets: Invalid value: \"[]\": expected pod sets with the \
                paths template.spec.template: they are inferred only for batch/v1 Job";
    assert_eq!(judged(&given(&[other_version])), [want]);
}

#[test]
fn an_annotation_of_the_appwrapper_has_no_effect_in_a_template() {
    let prefix = "workload.codeflare.dev.appwrapper";
    let note = |path: &str, key: &str| {
        format!(
            "warning: spec.components[0].template{path}.metadata.annotations[{key}]: \"5\": \
             has no effect here: it belongs in metadata.annotations of the AppWrapper"
        )
    };
    let key = format!("{prefix}/retryLimit");
    for (pointer, path) in
        [("/metadata/annotations", ""), ("/spec/template/metadata", ".spec.template")]
    {
        let mut value = json!({&key: "5", "example.com/retryLimit": "5"});
        if !path.is_empty() {
            value = json!({"annotations": value});
        }
        let aw = with(&given(&[job("a")]), &format!("/spec/components/0/template{pointer}"), value);
        assert_eq!(judged(&aw), [note(path, &key)]);
    }
}

#[test]
fn every_problem_of_every_component_is_reported() {
    let mut aw = given(&[job("a"), job("b"), json!("x")]);
    aw["spec"]["components"][0]["template"]["metadata"]["uid"] = json!("x");
    aw["spec"]["components"][0]["template"]["spec"]["parallelism"] = json!(-1);
    aw["spec"]["components"][1]["template"]["kind"] = json!(null);
    assert_eq!(
        judged(&aw),
        [
            "error: spec.components[2].template: Invalid value: \"x\": must be an object",
            "error: spec.components[0].template.metadata.uid: Invalid value: \"x\": must be left out: the API server sets it",
            "error: spec.components[0].template.spec.parallelism: Invalid value: \"-1\": expected an integer from 0 to 2147483647",
            "error: spec.components[1].template.kind: Invalid value: \"null\": must be a kind, such as Job",
        ]
    );
}
