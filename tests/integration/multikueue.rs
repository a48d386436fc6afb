//! MultiKueue: an AppWrapper of a manager cluster runs in a worker cluster, with its policies, and its first
//! cause comes back.
//!
//! Two control planes with Kueue and the product as it is installed. Kueue copies an AppWrapper through the
//! types of the Go project, which have neither the policies nor the attempts.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use controlplane::Options;
use serde_json::{Value, json};

use crate::harness::{Case, RawObject, SETTINGS, own_crds, pod, runtime_test, start_plane, tuned};
use crate::installed::{Installed, kubectl};
use crate::kueue::{API, Queue, lane, queued};

/// The annotation that carries the policies.
const POLICIES: &str = "workload.codeflare.dev/policies";
/// What Kueue writes into `spec.managedBy` of an AppWrapper that runs elsewhere.
const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";
/// Our finalizer, which nobody would remove from what runs elsewhere.
const FINALIZER: &str = "workload.codeflare.dev/finalizer";
/// The label by which Kueue knows what it created in a worker cluster.
const ORIGIN: &str = "kueue.x-k8s.io/multikueue-origin";
/// The fields that the types of the Go project do not have.
const FIELDS: [&str; 3] = ["executionPolicy", "failurePolicy", "podFailurePolicy"];

/// The cluster to which users send AppWrappers. It has no nodes.
static MANAGER: LazyLock<Installed> = LazyLock::new(|| {
    let options = Options { nodes: 0, kueue: true, ..own_crds() };
    Installed::on(start_plane(options), SETTINGS)
});

/// The cluster in which they run.
static WORKER: LazyLock<Installed> = LazyLock::new(|| {
    let options = Options { nodes: 2, kueue: true, ..own_crds() };
    Installed::on(start_plane(options), SETTINGS)
});

/// As whom Kueue of the manager cluster acts in the worker cluster.
const ACCOUNT: &str = "system:serviceaccount:kueue-system:multikueue";

/// The kubeconfig of that account, which is no administrator.
static KUBECONFIG: LazyLock<PathBuf> = LazyLock::new(|| {
    let all = ["create", "delete", "get", "list", "watch"];
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let rules = [
        rule(
            "kueue.x-k8s.io",
            &["workloads", "workloads/status"],
            &[&all[..], &["patch", "update"]].concat(),
        ),
        rule("workload.codeflare.dev", &["appwrappers", "appwrappers/status"], &all),
        // Kueue watches the kinds of all its frameworks
        rule("batch", &["jobs", "jobs/status"], &all),
        rule("", &["pods"], &["get", "list", "watch"]),
        // what is wrapped
        rule("", &["pods", "configmaps"], &["create"]),
    ];
    let api = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "multikueue"});
    let role = json!({"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules});
    let binding = json!({
        "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "multikueue"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": ACCOUNT}],
    });
    for object in [role, binding] {
        create(&WORKER, &object);
    }
    WORKER.plane.kubeconfig_of(ACCOUNT, &["system:authenticated"]).expect("a kubeconfig")
});

/// A namespace of one name in both clusters, and a queue of the same name.
struct Pair {
    manager: Case,
    worker: Case,
}

impl Pair {
    async fn of(manager: Case) -> Self {
        let worker = Case::new(WORKER.plane.client(), &manager.namespace).await;
        let pair = Self { manager, worker };
        let name = pair.manager.namespace.clone();
        Queue::of(&name, 4).create(&pair.worker).await;
        pair.connect(&name).await;
        pair
    }

    /// A queue of the manager cluster of which everything runs in the worker cluster.
    async fn connect(&self, name: &str) {
        let config = std::fs::read_to_string(&*KUBECONFIG).expect("a kubeconfig");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "kueue-system"},
            "stringData": {"kubeconfig": config},
        });
        let source = json!({"kubeConfig": {"location": name, "locationType": "Secret"}});
        let parameters =
            json!({"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name});
        let queue = Queue::of(name, 4);
        let mut spec = queue.spec();
        spec["admissionChecksStrategy"] = json!({"admissionChecks": [{"name": name}]});
        let of = |kind: &str, spec: Value| json!({"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec});
        let check = json!({"controllerName": MULTIKUEUE, "parameters": parameters});
        for object in [
            secret,
            of("MultiKueueCluster", json!({"clusterSource": source})),
            of("MultiKueueConfig", json!({"clusters": [name]})),
            of("AdmissionCheck", check),
            of("ResourceFlavor", json!({})),
            of("ClusterQueue", spec),
        ] {
            create(&MANAGER, &object);
        }
        lane(&self.manager, name, name).await;
        // before, Kueue does not know that it manages what comes
        for object in [format!("clusterqueue/{name}"), format!("localqueue/{name}")] {
            let arguments = ["wait", "--for=condition=Active", "--timeout=2m", "-n", name, &object];
            kubectl(MANAGER.plane.kubeconfig(), &arguments, &[]).expect("it becomes active");
        }
    }

    /// An AppWrapper that waits in the queue.
    fn queued(&self, name: &str, settings: &[(&str, &str)], templates: Vec<Value>) -> Value {
        queued(name, &self.manager.namespace, tuned(settings), templates)
    }

    /// The AppWrapper that Kueue created in the worker cluster.
    async fn copied(&self, name: &str) -> RawObject {
        let what = format!("{name} in the worker cluster");
        self.worker.until(&what, |log| log.last("AppWrapper", name).cloned()).await
    }

    /// What `kubectl aw why` says in the manager cluster.
    fn why(&self, name: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_appwrapper"));
        command.args(["why", name, "-n", &self.manager.namespace, "--kubeconfig"]);
        let output = command.arg(MANAGER.plane.kubeconfig()).output().expect("the program runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

fn create(cluster: &Installed, object: &Value) {
    let text = object.to_string();
    kubectl(cluster.plane.kubeconfig(), &["create", "-f", "-"], text.as_bytes())
        .expect("it is new");
}

/// Runs a test with a namespace in both clusters.
fn pair_test<F: Future<Output = ()>>(name: &str, body: impl FnOnce(Pair) -> F) {
    let client = || MANAGER.plane.client();
    runtime_test(name, client, async |case| body(Pair::of(case).await).await);
}

/// A failure of code 42 is final; the second Pod is created once the first has succeeded.
fn with_policies(mut object: Value) -> Value {
    object["spec"]["executionPolicy"] = json!({"executionPolicyOrder": "InOrder", "rules": [
        {"targetComponents": ["first"], "waitForComponentsStatus": "Succeeded"},
    ]});
    object["spec"]["failurePolicy"] = json!({"maxRestarts": 2, "rules": [
        {"name": "odd", "action": "RestartAppWrapper", "targetComponents": ["second"]},
    ]});
    object["spec"]["podFailurePolicy"] = json!({"rules": [
        {"action": "FailAppWrapper", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    object
}

#[test]
fn policies_reach_the_worker_and_the_first_cause_comes_back() {
    pair_test("policies_reach_the_worker_and_the_first_cause_comes_back", async |pair| {
        let Pair { manager, worker } = &pair;
        manager.record_workloads().await;
        let words = ("message", "no more samples");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}});
        let templates = vec![pod("first", &[]), map, pod("second", &[words])];
        let grace = [("failureGracePeriodDuration", "0s")];
        let object = with_policies(pair.queued("aw", &grace, templates));
        let created = manager.create(object.clone()).await;
        assert_eq!(created.data["spec"]["managedBy"], MULTIKUEUE);
        let finalizers = created.metadata.finalizers.unwrap_or_default();
        assert!(finalizers.iter().all(|name| name != FINALIZER), "{finalizers:?}");

        let copied = pair.copied("aw").await.object;
        assert!(copied["metadata"]["labels"][ORIGIN].is_string(), "{}", copied["metadata"]);
        assert_eq!(
            copied["spec"]["requester"]["username"], ACCOUNT,
            "permissions are those of Kueue"
        );
        for field in FIELDS {
            assert_eq!(copied["spec"][field], object["spec"][field], "{field}");
        }
        worker.pod("first", "Running").await;
        assert_eq!(worker.log().uids("Pod", "second").len(), 0, "it waits for the first");
        worker.end_pod("first", "0").await;
        worker.pod("second", "Running").await;
        worker.end_pod("second", "42").await;

        let failed = manager.phase("aw", "Failed").await;
        manager.workload("aw", "Finished", "True").await;
        worker.gone("AppWrapper", "aw").await;
        let said = failed.condition_field("LastFailure", "message");
        let why = pair.why("aw");
        let cause = [
            "component second",
            "pod second on node node-",
            "exited with code 42",
            "category ",
            "Fail by rule 0 of podFailurePolicy",
            "no more samples",
        ];
        for part in cause {
            assert!(said.contains(part), "no {part:?} in {said}");
            assert!(why.contains(part), "no {part:?} in {why}");
        }
        assert_eq!(failed.condition_field("LastFailure", "reason"), "Fail");
        assert_eq!(failed.object["status"]["resettingCount"], Value::Null, "no restart: {said}");
        assert_eq!(
            failed.object["status"]["attempts"],
            Value::Null,
            "they stay in the worker cluster"
        );
        assert!(why.contains(MULTIKUEUE), "{why}");
        manager.delete_wrapper("aw").await;
        manager.gone("AppWrapper", "aw").await;
    });
}

/// One that has our finalizer since it was created by an earlier version.
#[test]
fn what_runs_elsewhere_can_be_deleted_whoever_holds_it() {
    pair_test("what_runs_elsewhere_can_be_deleted_whoever_holds_it", async |pair| {
        let Pair { manager, worker } = &pair;
        manager.create(pair.queued("aw", &[], vec![pod("p", &[])])).await;
        worker.pod("p", "Running").await;
        manager.patch("aw", json!({"metadata": {"finalizers": [FINALIZER]}})).await;
        manager.delete_wrapper("aw").await;
        manager.gone("AppWrapper", "aw").await;
        worker.gone("AppWrapper", "aw").await;
    });
}

#[test]
fn the_cause_of_a_restart_comes_back_while_the_next_attempt_runs() {
    let name = "the_cause_of_a_restart_comes_back_while_the_next_attempt_runs";
    pair_test(name, async |pair| {
        let Pair { manager, worker } = &pair;
        let grace = [("failureGracePeriodDuration", "0s")];
        let mut object = pair.queued("aw", &grace, vec![pod("p", &[])]);
        object["spec"]["failurePolicy"] = json!({"rules": [
            {"name": "free", "action": "RestartAppWrapperAndIgnoreMaxRestarts"},
        ]});
        manager.create(object).await;
        worker.ready("aw", 0).await;
        worker.end_pod("p", "7").await;
        worker.ready("aw", 1).await;
        let cause = "RestartIgnoringLimit by rule free of failurePolicy";
        let seen = manager.says("aw", "LastFailure", cause).await;
        assert!(seen.condition_field("LastFailure", "message").contains("exited with code 7"));
        manager.phase("aw", "Running").await;
        worker.end_pod("p", "0").await;
        manager.phase("aw", "Succeeded").await;
        assert!(pair.why("aw").contains(cause), "{}", pair.why("aw"));
    });
}

#[test]
fn a_policy_that_is_changed_before_admission_is_the_one_that_runs() {
    let name = "a_policy_that_is_changed_before_admission_is_the_one_that_runs";
    pair_test(name, async |pair| {
        let Pair { manager, worker } = &pair;
        worker.drain(&worker.namespace, true).await;
        let object =
            with_policies(pair.queued("aw", &[], vec![pod("first", &[]), pod("second", &[])]));
        manager.create(object).await;
        manager.patch("aw", json!({"spec": {"failurePolicy": {"maxRestarts": 5}}})).await;
        // it says what spec says, whatever is written into it
        let wrong = json!({"metadata": {"annotations": {POLICIES: "{}"}}});
        manager.patch("aw", wrong).await;
        let stored = manager.stored("workload.codeflare.dev/v1beta2", "AppWrapper", "aw").await;
        let stored = stored.expect("it is there");
        worker.drain(&worker.namespace, false).await;
        let copied = pair.copied("aw").await.object;
        assert_eq!(copied["spec"]["failurePolicy"]["maxRestarts"], 5);
        for field in FIELDS {
            assert_eq!(copied["spec"][field], stored.data["spec"][field], "{field}");
        }
        worker.pod("first", "Running").await;
    });
}
