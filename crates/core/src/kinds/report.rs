//! What a component's object says of itself: its end, and the pods that it still runs.

use serde_json::Value;

use super::Kind;
use super::status::Object;
use crate::api::PodSet;
use crate::snapshot::Report;

/// Reads the status of a component's object, by the rules of its kind. What is absent or malformed says
/// nothing, and so does a kind that is not known; of another version of a known kind, the outcome alone is read, and of
/// the MPI Operator's `MPIJob` whether its launcher waits for the workers.
///
/// `pod_sets` are those that the live object implies or, where it implies none, those that are recorded in it, without
/// counts; their paths tell which index a replicated Job or a replica type has. [`Report::expected`] is filled for kinds
/// whose object tells, from the live object: [`Expected::running`](crate::snapshot::Expected::running) is the number of
/// pods that should be Pending or Running now, besides those that succeeded. It is 0 for a replicated Job that still waits
/// for others, which is also in [`Report::unstarted`].
#[must_use]
pub fn report(api_version: &str, kind: &str, pod_sets: &[PodSet], object: &Value) -> Report {
    let read = |row: &Kind| {
        let mut report = Report::default();
        row.rules().report(Object(object), pod_sets, &mut report);
        report
    };
    match Kind::of_other_version(api_version, kind) {
        Some(row) => Report {
            outcome: read(row).outcome,
            in_order: is_in_order(Object(object)),
            ..Report::default()
        },
        None => read(Kind::of(api_version, kind)),
    }
}

/// Whether an `MPIJob` of the MPI Operator, `kubeflow.org/v2beta1`, creates its launcher once all workers are ready.
fn is_in_order(object: Object<'_>) -> bool {
    object.text("/spec/launcherCreationPolicy") == "WaitForWorkersReady"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::infer;
    use super::super::testing::{any_json, config, damaged, given_kinds};
    use super::*;
    use crate::snapshot::{Expected, Outcome};

    /// The object of a kind in the test data, with a status, and its pod sets.
    fn given(kind: &str, status: &Value) -> (Value, Vec<PodSet>) {
        let mut objects = given_kinds().into_iter().map(|(object, _)| object);
        let mut object = objects.find(|object| object["kind"] == kind).expect(kind);
        let pod_sets = infer(&object).expect("it is well formed");
        object["status"] = status.clone();
        (object, pod_sets)
    }

    fn reported(kind: &str, status: &Value) -> Report {
        let (object, pod_sets) = given(kind, status);
        let api_version = object["apiVersion"].as_str().expect("it has one");
        report(api_version, kind, &pod_sets, &object)
    }

    #[test]
    fn another_version_of_a_known_kind_says_how_it_ended_and_no_more() {
        let conditions = |kind| json!({"conditions": [condition(kind, "True")]});
        let because = |reason: &str| {
            let mut status = conditions("Failed");
            status["conditions"][0]["reason"] = json!(reason);
            status
        };
        let limit = "BackoffLimitExceeded";
        let mpi = "kubeflow.org/v2beta1";
        for (version, kind, status, want) in [
            ("kubeflow.org/v2beta1", "MPIJob", conditions("Succeeded"), Outcome::Succeeded),
            ("kubeflow.org/v2beta1", "MPIJob", conditions("Failed"), failed("R", "M")),
            (mpi, "MPIJob", because("BackoffLimitExceeded/Evicted"), failed(limit, "M")),
            (mpi, "MPIJob", because("BackoffLimitExceeded/"), failed(limit, "M")),
            ("kubeflow.org/v2beta1", "Other", conditions("Succeeded"), Outcome::Active),
            ("example.com/v2beta1", "MPIJob", conditions("Succeeded"), Outcome::Active),
        ] {
            let (mut object, pod_sets) = given("MPIJob", &status);
            object["apiVersion"] = version.into();
            let want = Report { outcome: want, ..Report::default() };
            assert_eq!(report(version, kind, &pod_sets, &object), want, "{version} {kind}");
        }
    }

    fn condition(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "R", "message": "M",
            "lastTransitionTime": "2026-01-01T00:00:01Z"})
    }

    fn failed(reason: &str, message: &str) -> Outcome {
        Outcome::Failed {
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: "2026-01-01T00:00:01Z".parse().ok(),
        }
    }

    #[test]
    fn conditions_tell_how_it_ended() {
        for (kind, conditions, want) in [
            ("Job", vec![("Complete", "True")], Outcome::Succeeded),
            ("Job", vec![("Complete", "False")], Outcome::Active),
            ("Job", vec![("SuccessCriteriaMet", "True")], Outcome::Active),
            ("Job", vec![("Failed", "True")], failed("R", "M")),
            ("Job", vec![("FailureTarget", "True")], failed("R", "M")),
            ("Job", vec![("FailureTarget", "Unknown"), ("Suspended", "True")], Outcome::Active),
            ("JobSet", vec![("Completed", "True")], Outcome::Succeeded),
            ("JobSet", vec![("Complete", "True")], Outcome::Active),
            ("JobSet", vec![("Suspended", "False"), ("Failed", "True")], failed("R", "M")),
            ("PyTorchJob", vec![("Running", "False"), ("Succeeded", "True")], Outcome::Succeeded),
            ("PyTorchJob", vec![("Restarting", "True"), ("Failed", "False")], Outcome::Active),
            ("MPIJob", vec![("Failed", "True")], failed("R", "M")),
            ("TFJob", vec![("Failed", "True")], failed("R", "M")),
            ("Deployment", vec![("Failed", "True")], Outcome::Active),
            ("RayCluster", vec![("Failed", "True")], Outcome::Active),
            ("ConfigMap", vec![("Failed", "True")], Outcome::Active),
        ] {
            let list = conditions.iter().map(|(kind, status)| condition(kind, status));
            let status = json!({"conditions": list.collect::<Vec<_>>()});
            assert_eq!(reported(kind, &status).outcome, want, "{kind} {conditions:?}");
        }
    }

    #[test]
    fn the_message_of_a_kubeflow_job_says_that_it_was_too_old() {
        let overdue = "Job x has failed because it was active longer than specified deadline";
        let (said, completed) = ("2026-01-01T00:01:00Z", "2026-01-01T00:00:01Z");
        for (message, completion, want) in [
            (overdue, json!(completed), ("DeadlineExceeded", completed)),
            (overdue, json!(null), ("DeadlineExceeded", said)),
            ("it has reached the specified backoff limit", json!(completed), ("R", completed)),
            ("a replica failed", json!("x"), ("R", said)),
        ] {
            let mut failed = condition("Failed", "True");
            failed["message"] = json!(message);
            failed["lastTransitionTime"] = json!(said);
            let status = json!({"conditions": [failed], "completionTime": completion});
            for kind in ["PyTorchJob", "MPIJob"] {
                let want = Outcome::Failed {
                    reason: want.0.to_owned(),
                    message: message.to_owned(),
                    at: want.1.parse().ok(),
                };
                assert_eq!(reported(kind, &status).outcome, want, "{kind} {status}");
            }
        }
    }

    #[test]
    fn the_failure_target_explains_a_failed_job() {
        let mut first = condition("FailureTarget", "True");
        first["reason"] = json!("PodFailurePolicy");
        let status = json!({"conditions": [condition("Failed", "True"), first]});
        assert_eq!(reported("Job", &status).outcome, failed("PodFailurePolicy", "M"));
    }

    #[test]
    fn a_pod_fails_as_a_pod_and_nothing_replaces_it() {
        for (phase, want) in [
            ("Succeeded", Outcome::Succeeded),
            ("Failed", Outcome::Active),
            ("Running", Outcome::Active),
        ] {
            let found = reported("Pod", &json!({"phase": phase}));
            assert_eq!((found.outcome, found.unreplaced), (want, [0].into()), "{phase}");
        }
    }

    #[test]
    fn a_ray_job_ends_by_its_deployment_status() {
        for (deployment, job, want) in [
            ("", "", None),
            ("Running", "SUCCEEDED", None),
            ("Retrying", "FAILED", None),
            ("Suspended", "", None),
            ("Complete", "SUCCEEDED", Some(Outcome::Succeeded)),
            ("Complete", "STOPPED", Some(failed("STOPPED", "m"))),
            ("Complete", "", Some(failed("Complete", "m"))),
            ("Failed", "FAILED", Some(failed("FAILED", "m"))),
            ("ValidationFailed", "", Some(failed("ValidationFailed", "m"))),
        ] {
            let mut status = json!({"jobDeploymentStatus": deployment, "jobStatus": job,
                "message": "m", "endTime": "2026-01-01T00:00:01Z"});
            let want = want.unwrap_or(Outcome::Active);
            assert_eq!(reported("RayJob", &status).outcome, want, "{deployment} {job}");
            status["reason"] = json!("AppFailed");
            let want = match want {
                Outcome::Failed { .. } => failed("AppFailed", "m"),
                Outcome::Active | Outcome::Succeeded => want,
            };
            assert_eq!(reported("RayJob", &status).outcome, want, "{deployment} {job}");
        }
    }

    #[test]
    fn a_ray_service_says_whether_it_serves_and_that_it_never_will() {
        let late = |reason: &str| Outcome::Failed {
            reason: reason.to_owned(),
            message: "M".to_owned(),
            at: "2026-01-01T00:05:00Z".parse().ok(),
        };
        let (refused, overdue) = ("ValidationFailed", "InitializingTimeout");
        for (status, reason, cluster, want, serves) in [
            ("True", "NonZeroServeEndpoints", "x-1", Outcome::Active, true),
            ("False", "Initializing", "", Outcome::Active, false),
            ("False", "ZeroServeEndpoints", "x-1", Outcome::Active, false),
            ("False", overdue, "", late(overdue), false),
            ("False", refused, "", late(refused), false),
            ("False", refused, "x-1", Outcome::Active, false),
            ("Unknown", overdue, "", Outcome::Active, false),
        ] {
            let mut ready = condition("Ready", status);
            ready["reason"] = json!(reason);
            let active = json!({ "rayClusterName": cluster });
            let status = json!({"conditions": [condition("UpgradeInProgress", "False"), ready],
                "activeServiceStatus": active, "lastUpdateTime": "2026-01-01T00:05:00Z"});
            let found = reported("RayService", &status);
            assert_eq!((found.outcome, found.serves), (want, serves), "{status}");
            let of_cluster = reported("RayCluster", &status);
            assert_eq!((of_cluster.outcome, of_cluster.serves), (Outcome::Active, false));
        }
    }

    #[test]
    fn a_ray_job_that_tries_again_deletes_its_pods() {
        for (deployment, failed, want) in [
            ("", json!(null), false),
            ("Initializing", json!(0), false),
            ("Running", json!(1), false),
            ("Retrying", json!(1), true),
            ("", json!(1), true),
            ("Initializing", json!(1), true),
            ("Failed", json!(2), false),
        ] {
            let status = json!({"jobDeploymentStatus": deployment, "failed": failed});
            assert_eq!(reported("RayJob", &status).deletes_pods, want, "{status}");
            assert!(!reported("RayCluster", &status).deletes_pods, "{status}");
        }
    }

    #[test]
    fn a_job_near_its_end_runs_fewer_pods() {
        let met = json!({"conditions": [condition("SuccessCriteriaMet", "True")]});
        let (one, ten) = (json!(null), json!(10));
        for (parallelism, completions, status, seen, want) in [
            (json!(3), &ten, json!(null), 0, 3),
            (json!(3), &ten, json!({"succeeded": 8}), 0, 2),
            (json!(3), &ten, json!({"succeeded": 7}), 9, 1),
            (json!(3), &ten, json!({"succeeded": 10}), 0, 0),
            (json!(3), &ten, json!({"succeeded": 4, "failedIndexes": "0,3-6"}), 0, 1),
            (json!(3), &ten, met, 0, 0),
            (json!(5), &json!(2), json!(null), 0, 2),
            (json!(null), &one, json!(null), 0, 1),
            (json!(null), &one, json!(null), 1, 0),
            // without completions, the first success ends it
            (json!(4), &json!(null), json!(null), 0, 4),
            (json!(4), &json!(null), json!({"succeeded": 2}), 0, 0),
            (json!(4), &json!(null), json!(null), 1, 0),
        ] {
            let (mut object, pod_sets) = given("Job", &status);
            object["spec"]["parallelism"] = parallelism;
            object["spec"]["completions"] = completions.clone();
            let found = report("batch/v1", "Job", &pod_sets, &object);
            assert_eq!(found.expected[&0].running(seen), want, "{object} {seen}");
        }
    }

    #[test]
    fn a_job_set_runs_the_jobs_that_are_left() {
        // "a" is one pod; "b" is 3 Jobs of 8 pods, 2 at a time
        let status = |a: Value, b: Value| json!({"replicatedJobsStatus": [a, b]});
        for (status, seen, want) in [
            (json!(null), (0, 0), (1, 6)),
            (status(json!({"name": "a", "succeeded": 1}), json!({})), (0, 0), (0, 6)),
            (status(json!({}), json!({"name": "b", "succeeded": 2})), (0, 0), (1, 2)),
            (status(json!({}), json!({"name": "b", "succeeded": 3})), (0, 0), (1, 0)),
            // every pod has succeeded, and the Jobs wait for one that is Terminating
            (
                status(json!({"name": "a", "ready": 1}), json!({"name": "b", "ready": 3})),
                (1, 24),
                (0, 0),
            ),
            // two untouched, and one pod of the third; or one near the end of each
            (json!(null), (0, 7), (1, 5)),
            (json!(null), (0, 21), (1, 2)),
        ] {
            let found = reported("JobSet", &status);
            let running = (found.expected[&0].running(seen.0), found.expected[&1].running(seen.1));
            assert_eq!(running, want, "{status} {seen:?}");
        }
    }

    #[test]
    fn a_job_of_a_job_set_is_not_replaced_once_no_restart_is_left() {
        let free = json!([{"action": "RestartJobSetAndIgnoreMaxRestarts"}]);
        for (policy, status, want) in [
            (json!(null), json!(null), true),
            (json!({"maxRestarts": 0}), json!(null), true),
            (json!({"maxRestarts": 2}), json!({"restarts": 1}), false),
            (json!({"maxRestarts": 2}), json!({"restarts": 2}), true),
            // only those that count
            (
                json!({"maxRestarts": 2}),
                json!({"restarts": 5, "restartsCountTowardsMax": 1}),
                false,
            ),
            (json!({"rules": [{"action": "FailJobSet"}]}), json!(null), true),
            (json!({ "rules": free }), json!(null), false),
        ] {
            let (mut object, pod_sets) = given("JobSet", &status);
            object["spec"]["failurePolicy"] = policy.clone();
            object["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = json!(0);
            let found = report("jobset.x-k8s.io/v1alpha2", "JobSet", &pod_sets, &object);
            assert_eq!(found.backoff.contains_key(&0), want, "{policy} {status}");
        }
    }

    #[test]
    fn some_kinds_delete_pods_without_saying_so_in_time() {
        for (kind, want) in [
            ("Pod", false),
            ("Job", false),
            ("Deployment", true),
            ("StatefulSet", true),
            ("JobSet", true),
            ("LeaderWorkerSet", true),
            ("PyTorchJob", false),
            ("RayCluster", false),
            ("RayJob", false),
            ("TrainJob", true),
        ] {
            assert_eq!(reported(kind, &json!(null)).deletes_pods, want, "{kind}");
        }
    }

    #[test]
    fn a_job_set_that_may_restart_may_be_failed_by_a_rule() {
        let rule =
            |targets: Value| json!({"action": "FailJobSet", "targetReplicatedJobs": targets});
        let restart = json!({"action": "RestartJobSet"});
        let uncounted = json!({"action": "RestartJobSetAndIgnoreMaxRestarts"});
        for (policy, want) in [
            (json!({"maxRestarts": 3}), vec![]),
            (json!({"maxRestarts": 3, "rules": [restart]}), vec![]),
            (json!({"maxRestarts": 3, "rules": [restart, rule(json!(null))]}), vec![0, 1]),
            (json!({"maxRestarts": 3, "rules": [rule(json!(["b"]))]}), vec![1]),
            (json!({"maxRestarts": 3, "rules": [uncounted]}), vec![]),
            (json!({"maxRestarts": 0, "rules": [uncounted]}), vec![0, 1]),
            // what is known of its Jobs tells
            (json!({"maxRestarts": 0, "rules": [rule(json!(null))]}), vec![]),
        ] {
            let (mut object, pod_sets) = given("JobSet", &json!(null));
            object["spec"]["failurePolicy"] = policy.clone();
            let found = report("jobset.x-k8s.io/v1alpha2", "JobSet", &pod_sets, &object);
            assert_eq!(found.perhaps_unreplaced, want.into_iter().collect(), "{policy}");
            assert!(found.unreplaced.is_empty());
        }
    }

    #[test]
    fn restarts_that_do_not_count_leave_a_job_set_its_own() {
        let uncounted = json!([{"action": "RestartJobSetAndIgnoreMaxRestarts"}]);
        let of_jobs = json!([{"name": "a"}, {"name": "b", "jobRestartsCountTowardsMax": [0, 1]}]);
        for (most, rules, status, open, none) in [
            // 0 is left out of the status
            (2, &uncounted, json!({"restarts": 2}), false, false),
            (2, &uncounted, json!({"restarts": 5, "restartsCountTowardsMax": 1}), false, false),
            (2, &uncounted, json!({"restarts": 5, "restartsCountTowardsMax": 2}), true, false),
            (2, &json!(null), json!({"restarts": 2}), false, true),
            // of single Jobs
            (2, &json!(null), json!({"replicatedJobsStatus": of_jobs}), false, false),
            (1, &json!(null), json!({"replicatedJobsStatus": of_jobs}), false, true),
            (
                2,
                &json!(null),
                json!({"restartsCountTowardsMax": 1, "replicatedJobsStatus": of_jobs}),
                false,
                true,
            ),
        ] {
            let (mut object, pod_sets) = given("JobSet", &status);
            object["spec"]["failurePolicy"] = json!({"maxRestarts": most, "rules": rules});
            let found = report("jobset.x-k8s.io/v1alpha2", "JobSet", &pod_sets, &object);
            assert_eq!(found.perhaps_unreplaced.contains(&0), open, "{most} {rules} {status}");
            assert_eq!(found.backoff.contains_key(&0), none, "{most} {rules} {status}");
        }
    }

    #[test]
    fn some_kinds_create_a_pod_once_another_is_ready() {
        const OF_JOB_SET: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
        const OF_LWS: &str = "leaderworkerset.sigs.k8s.io/exclusive-topology";
        type Row = (&'static str, fn(&mut Value), bool);
        let rows: [Row; 13] = [
            ("StatefulSet", |_| {}, false), // of one
            ("StatefulSet", |it| it["spec"]["replicas"] = json!(2), true),
            (
                "StatefulSet",
                |it| {
                    it["spec"]["replicas"] = json!(2);
                    it["spec"]["podManagementPolicy"] = json!("Parallel");
                },
                false,
            ),
            ("Deployment", |_| {}, false),
            ("LeaderWorkerSet", |_| {}, false),
            ("LeaderWorkerSet", |it| it["spec"]["startupPolicy"] = json!("LeaderCreated"), false),
            ("LeaderWorkerSet", |it| it["spec"]["startupPolicy"] = json!("LeaderReady"), true),
            ("LeaderWorkerSet", |it| it["metadata"]["annotations"][OF_LWS] = json!("zone"), true),
            ("JobSet", |_| {}, false),
            ("JobSet", |it| it["metadata"]["annotations"][OF_JOB_SET] = json!("zone"), true),
            (
                "JobSet",
                |it| {
                    it["metadata"]["annotations"][OF_JOB_SET] = json!("zone");
                    it["metadata"]["annotations"]["alpha.jobset.sigs.k8s.io/node-selector"] =
                        json!("true");
                },
                false,
            ),
            (
                "JobSet",
                |it| {
                    let template = &mut it["spec"]["replicatedJobs"][1]["template"];
                    template["metadata"]["annotations"][OF_JOB_SET] = json!("zone");
                },
                true,
            ),
            // of another version alone
            (
                "MPIJob",
                |it| it["spec"]["launcherCreationPolicy"] = json!("WaitForWorkersReady"),
                false,
            ),
        ];
        for (kind, change, want) in rows {
            let (mut object, pod_sets) = given(kind, &json!(null));
            change(&mut object);
            let api_version = object["apiVersion"].as_str().expect("it has one");
            assert_eq!(report(api_version, kind, &pod_sets, &object).in_order, want, "{object}");
        }
    }

    #[test]
    fn the_launcher_of_an_mpi_job_may_wait_for_its_workers() {
        for (policy, want) in [("WaitForWorkersReady", true), ("AtStartup", false)] {
            let object = json!({"spec": {"launcherCreationPolicy": policy}});
            let found = report("kubeflow.org/v2beta1", "MPIJob", &[], &object);
            assert_eq!(found.in_order, want, "{policy}");
        }
    }

    #[test]
    fn a_kubeflow_job_may_wait_for_the_queue_of_its_scheduler() {
        let policy = json!({"schedulingPolicy": {"queue": "q"}});
        for (policy, want) in [(json!(null), false), (json!({}), false), (policy, true)] {
            let (mut object, pod_sets) = given("PyTorchJob", &json!(null));
            object["spec"]["runPolicy"] = policy.clone();
            let found = report("kubeflow.org/v1", "PyTorchJob", &pod_sets, &object);
            assert_eq!(found.in_order, want, "{policy}");
        }
    }

    #[test]
    fn a_replicated_job_that_waits_for_another_runs_nothing() {
        let status = |status: Value| json!({ "replicatedJobsStatus": [status] });
        let ready = status(json!({"name": "a", "ready": 1}));
        let done = status(json!({"name": "a", "succeeded": 1}));
        let begun = status(json!({"name": "b", "active": 1}));
        let nothing = json!(null);
        let after = |state: &str| json!([{"name": "a", "status": state}]);
        for (order, depends, status, want) in [
            ("InOrder", json!(null), &nothing, 0),
            ("InOrder", json!(null), &ready, 6),
            ("InOrder", json!(null), &done, 6),
            ("InOrder", json!(null), &begun, 6),
            ("AnyOrder", json!(null), &nothing, 6),
            ("AnyOrder", after("Complete"), &nothing, 0),
            ("AnyOrder", after("Complete"), &ready, 0),
            ("AnyOrder", after("Complete"), &done, 6),
            ("AnyOrder", after("Ready"), &nothing, 0),
            ("AnyOrder", after("Ready"), &ready, 6),
        ] {
            let (mut object, pod_sets) = given("JobSet", status);
            object["spec"]["startupPolicy"] = json!({"startupPolicyOrder": order});
            object["spec"]["replicatedJobs"][1]["dependsOn"] = depends.clone();
            let found = report("jobset.x-k8s.io/v1alpha2", "JobSet", &pod_sets, &object);
            assert_eq!(found.expected[&1].running(0), want, "{order} {depends} {status}");
            assert_eq!(found.expected[&0].jobs, 1);
            let unstarted: Vec<usize> = found.unstarted.into_iter().collect();
            assert_eq!(unstarted == [1], want == 0, "{order} {depends} {status}: {unstarted:?}");
        }
    }

    #[test]
    fn kubeflow_replicas_that_never_restart_are_not_replaced() {
        let status = json!({"replicaStatuses": {"Worker": {"succeeded": 2, "active": 1}}});
        let (mut object, mut pod_sets) = given("PyTorchJob", &status);
        // a user may declare them in another order
        pod_sets.reverse();
        for (policy, want, by_code) in [
            (json!(null), vec![], vec![]),
            (json!("OnFailure"), vec![], vec![]),
            (json!("ExitCode"), vec![], vec![0]),
            (json!("Never"), vec![0], vec![]),
        ] {
            object["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = policy;
            let found = report("kubeflow.org/v1", "PyTorchJob", &pod_sets, &object);
            assert_eq!(found.unreplaced, want.into_iter().collect());
            assert_eq!(found.replaced_by_exit_code, by_code.into_iter().collect());
            let running: Vec<i64> = found.expected.values().map(|it| it.running(0)).collect();
            assert_eq!(running, [1, 1]);
        }
        assert_eq!(reported("TFJob", &json!(null)).unreplaced, [0, 1].into());
        for policy in ["ExitCode", "OnFailure", "Never"] {
            let (mut object, pod_sets) = given("MPIJob", &json!(null));
            object["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = json!(policy);
            let found = report("kubeflow.org/v1", "MPIJob", &pod_sets, &object);
            assert_eq!(found.unreplaced, [0, 1].into(), "{policy}");
            assert!(found.replaced_by_exit_code.is_empty(), "{policy}");
        }
    }

    #[test]
    fn a_malformed_status_says_nothing() {
        for kind in ["Pod", "Job", "JobSet", "PyTorchJob", "RayJob", "Deployment"] {
            let untouched = reported(kind, &json!(null));
            assert_eq!(untouched.outcome, Outcome::Active);
            for status in [
                json!("x"),
                json!({"conditions": "x", "phase": 1, "succeeded": "1", "jobStatus": []}),
                json!({"conditions": [1, {"type": "Failed"}, {"status": "True"}, null]}),
                json!({"replicatedJobsStatus": 1, "replicaStatuses": [], "succeeded": -5}),
            ] {
                assert_eq!(reported(kind, &status), untouched, "{kind} {status}");
            }
        }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn whatever_it_is_there_is_an_answer(
            mut object in prop_oneof![any_json(), damaged()],
            status in any_json(),
            seen in any::<i64>(),
        ) {
            let pod_sets = infer(&object).unwrap_or_default();
            let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
            let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
            if let Some(fields) = object.as_object_mut() {
                fields.insert("status".to_owned(), status);
            }
            let found = report(&api_version, &kind, &pod_sets, &object);
            prop_assert!(found.expected.values().all(|expected| expected.running(seen) >= 0));
        }

        #[test]
        fn never_more_is_expected_than_is_left_or_runs_at_a_time(
            jobs in 0_i64..5, parallelism in 0_i64..5, completions in 0_i64..5, seen in 0_i64..30,
        ) {
            let left = (jobs * completions - seen).max(0);
            let completions = Some(completions);
            let expected = Expected { jobs, parallelism, completions, succeeded: 0 };
            prop_assert!(expected.running(seen) <= left.min(jobs * parallelism));
            prop_assert!(parallelism == 0 || (expected.running(seen) > 0) == (left > 0));
        }
    }
}
