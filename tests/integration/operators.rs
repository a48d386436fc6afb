//! Kinds whose operators take minutes to build: TrainJob, LeaderWorkerSet, RayJob, `MPIJob`, from the first pod to the
//! end. Kubeflow Trainer, LeaderWorkerSet, KubeRay and the Training Operator are real; KWOK plays the pods, and a
//! thread of the tests plays the dashboards of Ray clusters.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;

use appwrapper::clock::{Clock, SystemClock};
use controlplane::Options;
use serde_json::{Value, json};

use crate::harness::{
    Case, Log, RawObject, SETTINGS, own_crds, pod_template, runtime_test, start_plane, tuned,
    wrapper,
};
use crate::installed::Installed;

static OPERATORS: LazyLock<Installed> = LazyLock::new(|| {
    let options = Options {
        training: true,
        ray: true,
        ray_dashboard: Some(play_dashboards()),
        trainer: true,
        lws: true,
        ..own_crds()
    };
    Installed::on(start_plane(options), SETTINGS)
});

const TRAINER: &str = "trainer.kubeflow.org/v1alpha1";
const LWS: &str = "leaderworkerset.x-k8s.io/v1";

/// The Ray job of this id fails, any other succeeds.
const FAILING_JOB: &str = "fails";
/// What Ray says of it.
const FAILURE: &str = "Job entrypoint command failed with exit code 1";

/// Runs a test in a namespace of its own where the operators are.
fn operators_test<F: Future<Output = ()>>(name: &str, body: impl FnOnce(Case) -> F) {
    runtime_test(name, || OPERATORS.plane.client(), body);
}

/// Answers for the dashboards of all Ray clusters, until the tests end.
fn play_dashboards() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // KubeRay asks again
            drop(stream.and_then(|stream| answer(&stream)));
        }
    });
    address
}

/// Answers one request: every job has ended just now, as its id says. `KubeRay` takes a job as lost whose end
/// is long ago.
fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let url = request.split(' ').nth(1).unwrap_or_default();
    let id = url.rsplit_once("/api/jobs/").map_or("", |(_, id)| id);
    let fails = id == FAILING_JOB;
    let end = SystemClock.now().as_millisecond();
    let message = if fails { FAILURE } else { "" };
    let job = json!({"submission_id": id, "status": if fails { "FAILED" } else { "SUCCEEDED" },
        "message": message, "start_time": end - 1000, "end_time": end});
    let body = job.to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// An AppWrapper that is restarted once, at once.
fn once(template: Value) -> Value {
    let settings = tuned(&[
        ("retryPausePeriodDuration", "0s"),
        ("failureGracePeriodDuration", "0s"),
        ("retryLimit", "1"),
    ]);
    wrapper("aw", settings, vec![template])
}

const FIRST: [&str; 3] = ["", "Resuming", "Running"];
const RESTART: [&str; 3] = ["Resetting", "Resuming", "Running"];

/// The AppWrapper restarts once and succeeds.
async fn recovers(case: &Case) {
    case.phases("aw", &[&FIRST[..], &RESTART, &["Succeeded"]].concat()).await;
    let done = case.phase("aw", "Succeeded").await;
    assert_eq!(done.restarts(), 1);
}

/// The AppWrapper restarts once and fails.
async fn fails(case: &Case) -> Value {
    case.phases("aw", &[&FIRST[..], &RESTART, &["Failed"]].concat()).await;
    let failed = case.phase("aw", "Failed").await;
    assert_eq!(failed.restarts(), 1);
    failed.attempts()[1]["failure"].clone()
}

/// The AppWrapper and its resources go when it is deleted, and no attempt overlapped with another.
async fn goes(case: &Case, kind: &str) {
    case.delete_wrapper("aw").await;
    case.gone("AppWrapper", "aw").await;
    case.gone(kind, "it").await;
    case.lawful("aw").await;
    attempts_begin_alone(&case.log(), kind);
}

/// When an object of a later attempt is created, all pods of those before are gone, also pods that the
/// controller does not know, such as the one that submits a RayJob.
fn attempts_begin_alone(log: &Log, kind: &str) {
    for attempt in log.uids(kind, "it") {
        let of_it = log.of(kind, "it").filter(|seen| seen.uid() == attempt);
        let begin = of_it.map(RawObject::revision).min().expect("it was there");
        for pod in log.all("Pod").filter(|pod| pod.revision() < begin) {
            let mut ends = log.all("Pod").filter(|end| end.deleted && end.uid() == pod.uid());
            assert!(ends.any(|end| end.revision() < begin), "{} outlives its {kind}", pod.name);
        }
    }
}

/// Where a failure began and how.
fn cause(failure: &Value) -> [&str; 4] {
    ["component", "container", "category", "reason"]
        .map(|field| failure[field].as_str().unwrap_or("-"))
}

/// A TrainJob of two nodes and the runtime with its pods.
async fn train_job(case: &Case, life: &[(&str, &str)]) -> Value {
    let mut pod = pod_template(life);
    pod["spec"]["containers"][0]["name"] = "node".into();
    let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
    let job = json!({"name": "node", "template": {"metadata": {"labels": labels},
        "spec": {"backoffLimit": 0, "template": pod}}});
    let runtime = json!({"apiVersion": TRAINER, "kind": "TrainingRuntime", "metadata": {"name": "torch"},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [job]}}}});
    case.create(runtime).await;
    case.record(TRAINER, "TrainJob").await;
    case.record("jobset.x-k8s.io/v1alpha2", "JobSet").await;
    json!({"apiVersion": TRAINER, "kind": "TrainJob", "metadata": {"name": "it"}, "spec": {
        "runtimeRef": {"kind": "TrainingRuntime", "name": "torch"},
        "trainer": {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": "20m"}}},
    }})
}

/// Trainer made no JobSet again while its TrainJob was being deleted.
fn one_job_set_an_attempt(log: &Log) {
    assert_eq!(log.uids("JobSet", "it").len(), log.uids("TrainJob", "it").len());
}

#[test]
#[ignore = "nightly: builds operators"]
fn a_train_job_of_kubeflow_trainer_recovers_and_succeeds() {
    operators_test("a-train-job-recovers", async |case| {
        let life = [("run-for", "1s"), ("fail-until-attempt", "1")];
        let train_job = train_job(&case, &life).await;
        case.create(once(train_job)).await;
        recovers(&case).await;
        let pod = case.pod("it-node", "Succeeded").await;
        let requests = &pod.object["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(requests["cpu"], "20m", "as the TrainJob says");
        goes(&case, "TrainJob").await;
        one_job_set_an_attempt(&case.log());
    });
}

#[test]
#[ignore = "nightly: builds operators"]
fn a_train_job_of_kubeflow_trainer_fails() {
    operators_test("a-train-job-fails", async |case| {
        let life = [("run-for", "1s"), ("exit-code", "42")];
        let train_job = train_job(&case, &life).await;
        case.create(once(train_job)).await;
        let failure = fails(&case).await;
        assert_eq!(cause(&failure), ["it", "node", "application", "Error"], "{failure}");
        assert_eq!(failure["exitCode"], 42, "{failure}");
        goes(&case, "TrainJob").await;
        one_job_set_an_attempt(&case.log());
    });
}

/// A LeaderWorkerSet of two groups, each a leader and a worker.
async fn leader_worker_set(case: &Case, life: &[(&str, &str)]) -> Value {
    case.record(LWS, "LeaderWorkerSet").await;
    let mut pod = pod_template(life);
    pod["spec"]["restartPolicy"] = "Always".into();
    json!({"apiVersion": LWS, "kind": "LeaderWorkerSet", "metadata": {"name": "it"}, "spec": {
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 2, "leaderTemplate": pod, "workerTemplate": pod,
            "restartPolicy": "RecreateGroupOnPodRestart"},
    }})
}

#[test]
#[ignore = "nightly: builds operators"]
fn a_leader_worker_set_recreates_a_group_and_its_appwrapper_goes_on() {
    operators_test("a-leader-worker-set-goes-on", async |case| {
        let mut aw = once(leader_worker_set(&case, &[]).await);
        // longer than the group takes
        aw["metadata"]["annotations"]["workload.codeflare.dev.appwrapper/failureGracePeriodDuration"] =
            "10m".into();
        case.create(aw).await;
        let ready = case.condition("aw", "PodsReady", "True").await;
        let sets = &ready.object["spec"]["components"][0]["podSets"];
        assert_eq!([&sets[0]["replicas"], &sets[1]["replicas"]], [2, 2], "{sets}");
        for pod in ["it-0", "it-1", "it-0-1", "it-1-1"] {
            case.pod(pod, "Running").await;
        }
        let before = case.log().uids("Pod", "it-0");
        case.delete("v1", "Pod", "it-0-1").await;
        case.until("the pods of the group are new and run", |log| {
            let new = ["it-0", "it-0-1"].map(|name| {
                log.last("Pod", name).filter(|pod| {
                    pod.phase() == "Running" && !before.iter().any(|uid| uid == pod.uid())
                })
            });
            new.iter().all(Option::is_some).then_some(())
        })
        .await;
        let again = case.condition("aw", "PodsReady", "True").await;
        assert_eq!((again.phase(), again.restarts()), ("Running", 0));
        goes(&case, "LeaderWorkerSet").await;
    });
}

#[test]
#[ignore = "nightly: builds operators"]
fn a_leader_worker_set_whose_pods_fail_is_restarted_and_fails() {
    operators_test("a-leader-worker-set-fails", async |case| {
        let life = [("run-for", "3s"), ("exit-code", "42")];
        let set = leader_worker_set(&case, &life).await;
        case.create(once(set)).await;
        let failure = fails(&case).await;
        assert_eq!(cause(&failure), ["it", "main", "application", "Error"], "{failure}");
        assert_eq!(failure["exitCode"], 42, "{failure}");
        goes(&case, "LeaderWorkerSet").await;
    });
}

/// A RayJob of a head and a worker, with a pod that submits a job of this id.
async fn ray_job(case: &Case, id: &str, exit_code: &str) -> Value {
    case.record("ray.io/v1", "RayJob").await;
    let mut submitter = pod_template(&[("run-for", "1s"), ("exit-code", exit_code)]);
    submitter["spec"]["containers"][0]["name"] = "ray-job-submitter".into();
    let pod = pod_template(&[]);
    json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "it"}, "spec": {
        "entrypoint": "python train.py",
        "jobId": id,
        "shutdownAfterJobFinishes": true,
        "submitterPodTemplate": submitter,
        "submitterConfig": {"backoffLimit": 0},
        "rayClusterSpec": {
            "rayVersion": "2.46.0",
            "headGroupSpec": {"rayStartParams": {}, "template": pod},
            "workerGroupSpecs": [{"groupName": "small", "replicas": 1, "minReplicas": 1, "maxReplicas": 1,
                "rayStartParams": {}, "template": pod}],
        },
    }})
}

#[test]
#[ignore = "nightly: builds operators"]
fn a_ray_job_succeeds_with_its_job() {
    operators_test("a-ray-job-succeeds", async |case| {
        let ray_job = ray_job(&case, "succeeds", "0").await;
        case.create(once(ray_job)).await;
        case.condition("aw", "PodsReady", "True").await;
        case.phases("aw", &[&FIRST[..], &["Succeeded"]].concat()).await;
        goes(&case, "RayJob").await;
    });
}

#[test]
#[ignore = "nightly: builds operators"]
fn a_ray_job_fails_with_its_job() {
    operators_test("a-ray-job-fails", async |case| {
        let ray_job = ray_job(&case, FAILING_JOB, "1").await;
        case.create(once(ray_job)).await;
        let failure = fails(&case).await;
        // the pod that submits fails, too, but that says less
        assert_eq!(cause(&failure), ["it", "-", "-", "AppFailed"], "{failure}");
        assert_eq!(failure["message"], FAILURE);
        goes(&case, "RayJob").await;
    });
}

/// An `MPIJob` of a launcher and two workers.
async fn mpi_job(case: &Case, launcher: &[(&str, &str)]) -> Value {
    case.record("kubeflow.org/v1", "MPIJob").await;
    let pod = |life: &[(&str, &str)]| {
        let mut pod = pod_template(life);
        pod["spec"]["containers"][0]["name"] = "mpi".into();
        pod
    };
    json!({"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": "it"}, "spec": {
        "slotsPerWorker": 1,
        "runPolicy": {"cleanPodPolicy": "All"},
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": pod(launcher)},
            "Worker": {"replicas": 2, "restartPolicy": "Never", "template": pod(&[])},
        },
    }})
}

#[test]
#[ignore = "nightly: builds operators"]
fn an_mpi_job_recovers_and_succeeds_with_its_launcher() {
    operators_test("an-mpi-job-recovers", async |case| {
        let mpi_job = mpi_job(&case, &[("run-for", "2s"), ("fail-until-attempt", "1")]).await;
        case.create(once(mpi_job)).await;
        recovers(&case).await;
        goes(&case, "MPIJob").await;
    });
}

#[test]
#[ignore = "nightly: builds operators"]
fn an_mpi_job_fails_with_its_launcher() {
    operators_test("an-mpi-job-fails", async |case| {
        let mpi_job = mpi_job(&case, &[("run-for", "2s"), ("exit-code", "42")]).await;
        let mut aw = once(mpi_job);
        // a container that the Training Operator adds
        let codes = json!({"containerName": "kubectl-delivery", "operator": "In", "values": [42]});
        aw["spec"]["podFailurePolicy"] =
            json!({"rules": [{"action": "FailAppWrapper", "onExitCodes": codes}]});
        case.create(aw).await;
        let failure = fails(&case).await;
        assert_eq!(cause(&failure), ["it", "mpi", "application", "Error"], "{failure}");
        assert_eq!((&failure["exitCode"], &failure["pod"]), (&json!(42), &json!("it-launcher")));
        let log = case.log();
        let launcher = log.of("Pod", "it-launcher").next().expect("it was there");
        let added = &launcher.object["spec"]["initContainers"][0]["name"];
        assert_eq!(added, "kubectl-delivery");
        goes(&case, "MPIJob").await;
    });
}
