//! The real Kueue, unmodified, decides who may run.
//!
//! Most tests are where the product is installed, with its webhook. There, Kueue's gate
//! `FinishOrphanedWorkloads` is off. With it, which is the default of 0.18 and so on the plane of all
//! other tests, Kueue frees the quota of an AppWrapper as soon as somebody deletes it, though its pods
//! are still there: `deleting::with_the_gate_kueue_frees_the_quota_of_what_is_being_deleted`. One more
//! plane has `waitForPodsReady`, with a short time for a retry: without it, Kueue does not look at
//! `PodsReady` at all.

mod deleting;
mod identity;
mod injection;
mod laws;
mod laws_tests;
mod managers;
pub mod no_fit;
mod observer;
mod preemption;
mod quota;
mod ready;
mod storm;
mod topology;
mod truth;

use std::sync::{Arc, LazyLock, OnceLock};

use appwrapper::api::AppWrapper;
use appwrapper::clock::SystemClock;
use appwrapper::controller::Controller;
use controlplane::{ControlPlane, Options};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{
    self, Case, Log, RawObject, own_crds, run_controller, runtime_test, start_plane, wrapper,
};
use crate::installed::INSTALLED;

/// The API of Kueue's objects.
pub const API: &str = "kueue.x-k8s.io/v1beta2";
/// The label by which an AppWrapper names its queue.
pub const QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// The account of Kueue, as the control planes run it.
pub const ACCOUNT: &str = "system:serviceaccount:kueue-system:kueue-controller-manager";
/// The label by which it names its priority.
pub const PRIORITY: &str = "kueue.x-k8s.io/priority-class";

/// The plane whose Kueue keeps the quota of what is being deleted, and waits for pods.
static OWN: LazyLock<ControlPlane> = LazyLock::new(|| {
    let kueue_config = json!({
        "featureGates": {"FinishOrphanedWorkloads": false},
        "waitForPodsReady": {
            // so long that a busy machine is never taken for a slow workload
            "timeout": "10m",
            "recoveryTimeout": "3s",
            "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffMaxSeconds": 1},
        },
    });
    start_plane(Options { kueue: true, kueue_config, ..own_crds() })
});

/// Starts the controller of that plane, once.
fn own_controller() {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        run_controller(|| Controller::new(OWN.client(), Arc::new(SystemClock), harness::config()));
    });
}

/// Runs a test in a namespace of its own on the plane of its own.
pub fn own_test<F: Future<Output = ()>>(name: &str, body: impl FnOnce(Case) -> F) {
    let client = || {
        own_controller();
        OWN.client()
    };
    runtime_test(name, client, body);
}

/// Suspends an AppWrapper with a queue, as Kueue does: nobody else may.
pub async fn suspend(case: &Case, name: &str) {
    let client = INSTALLED.plane.client_of(ACCOUNT, &["system:masters"]).expect("a client");
    let wrappers: Api<AppWrapper> = Api::namespaced(client, &case.namespace);
    let patch = Patch::Merge(json!({"spec": {"suspend": true}}));
    wrappers.patch(name, &PatchParams::default(), &patch).await.expect("Kueue may");
}

/// A ClusterQueue and all that belongs to it, of one name, which must be a test's own.
pub struct Queue<'a> {
    pub name: &'a str,
    /// Its flavors: name, how many pods fit, and the rest of its `spec`.
    pub flavors: Vec<(String, u32, Value)>,
    /// Whether a workload has to make room for one of higher priority.
    pub preempts: bool,
}

impl<'a> Queue<'a> {
    /// Where so many pods fit.
    pub fn of(name: &'a str, pods: u32) -> Self {
        Self { name, flavors: vec![(name.to_owned(), pods, json!({}))], preempts: false }
    }

    pub fn preempting(self) -> Self {
        Self { preempts: true, ..self }
    }

    pub async fn create(&self, case: &Case) {
        let of = |kind: &str, name: &str, spec: &Value| json!({"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec});
        for (name, _, spec) in &self.flavors {
            case.create(of("ResourceFlavor", name, spec)).await;
        }
        case.create(of("ClusterQueue", self.name, &self.spec())).await;
        lane(case, self.name, self.name).await;
    }

    /// The `spec` of the ClusterQueue.
    pub fn spec(&self) -> Value {
        let flavors = self.flavors.iter().map(|(name, pods, _)| {
            // what nobody runs out of must be covered as well
            json!({"name": name, "resources": [
                {"name": "pods", "nominalQuota": pods},
                {"name": "cpu", "nominalQuota": "1000"},
            ]})
        });
        let flavors: Vec<Value> = flavors.collect();
        let within = if self.preempts { "LowerPriority" } else { "Never" };
        json!({
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": within},
            "resourceGroups": [{"coveredResources": ["pods", "cpu"], "flavors": flavors}],
        })
    }
}

/// A LocalQueue of a ClusterQueue.
pub async fn lane(case: &Case, name: &str, queue: &str) {
    case.create(json!({
        "apiVersion": API,
        "kind": "LocalQueue",
        "metadata": {"name": name},
        "spec": {"clusterQueue": queue},
    }))
    .await;
}

/// A priority, which has no namespace: its name must be a test's own.
pub async fn priority(case: &Case, name: &str, value: i32) {
    let class = json!({
        "apiVersion": API,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    });
    let class = serde_json::from_value(class).expect("an object");
    let api = case.cluster_api(API, "WorkloadPriorityClass");
    api.create(&PostParams::default(), &class).await.expect("the class is new");
}

/// An AppWrapper that waits in a queue.
pub fn queued(name: &str, queue: &str, annotations: Value, templates: Vec<Value>) -> Value {
    let mut object = wrapper(name, annotations, templates);
    object["metadata"]["labels"] = json!({QUEUE: queue});
    object["spec"]["suspend"] = true.into();
    object
}

/// The same with a priority.
pub fn with_priority(mut object: Value, priority: &str) -> Value {
    object["metadata"]["labels"][PRIORITY] = priority.into();
    object
}

/// Whether a Workload is that of an AppWrapper.
fn is_of(workload: &RawObject, wrapper: &str) -> bool {
    let owners = workload.object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["name"] == wrapper)
}

/// Whether Kueue counts a Workload.
pub fn is_reserved(workload: &RawObject) -> bool {
    !workload.deleted
        && workload.condition("QuotaReserved") == "True"
        && workload.condition("Finished") != "True"
}

impl Log {
    /// Every state of the Workload of an AppWrapper.
    pub fn workloads<'log>(&'log self, wrapper: &str) -> impl Iterator<Item = &'log RawObject> {
        self.all("Workload").filter(move |seen| is_of(seen, wrapper))
    }

    /// The first moment at which an AppWrapper had quota, as the revision of that write.
    pub fn reserved_at(&self, wrapper: &str) -> u64 {
        let reserved = self.workloads(wrapper).find(|seen| is_reserved(seen));
        reserved.unwrap_or_else(|| panic!("{wrapper} never had quota")).revision()
    }

    /// The moments at which the pods of a name prefix went, and whether all of them have.
    pub fn pods_gone_at(&self, prefix: &str) -> Option<u64> {
        let last = |uid: &String| self.all("Pod").filter(|pod| pod.uid() == uid).last();
        let ends = self.uids("Pod", prefix);
        let ends = ends.iter().filter_map(last).map(|pod| pod.deleted.then(|| pod.revision()));
        ends.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// The greatest number of pods that were alive at once. Watches of one kind are in order.
    pub fn pods_at_once(&self) -> usize {
        let mut alive: Vec<&str> = vec![];
        let mut most = 0;
        for pod in self.all("Pod") {
            alive.retain(|uid| *uid != pod.uid());
            if !pod.deleted && !["Succeeded", "Failed"].contains(&pod.phase()) {
                alive.push(pod.uid());
            }
            most = most.max(alive.len());
        }
        most
    }
}

impl Case {
    /// Takes away what is left of the pods of a name prefix.
    pub async fn force_delete_pods(&self, prefix: &str) {
        let log = self.log();
        for uid in log.uids("Pod", prefix) {
            let last = log.all("Pod").filter(|pod| pod.uid() == uid).last();
            if let Some(pod) = last.filter(|pod| !pod.deleted) {
                self.force_delete_pod(&pod.name).await;
            }
        }
    }

    /// Records what Kueue writes, from here on.
    pub async fn record_workloads(&self) {
        self.record(API, "Workload").await;
    }

    /// Waits for a condition of the Workload of an AppWrapper.
    pub async fn workload(&self, wrapper: &str, condition: &str, status: &str) -> RawObject {
        self.until(&format!("Workload of {wrapper}: {condition} {status}"), |log| {
            let last = log.workloads(wrapper).last();
            last.filter(|seen| !seen.deleted && seen.condition(condition) == status).cloned()
        })
        .await
    }

    /// Evicts whatever has quota through a LocalQueue and lets nobody in, or lets them in again.
    pub async fn drain(&self, lane: &str, drain: bool) {
        let policy = if drain { "HoldAndDrain" } else { "None" };
        self.change(API, "LocalQueue", lane, json!({"spec": {"stopPolicy": policy}})).await;
    }

    /// Takes an AppWrapper out of its queue, or lets it back in. Kueue 0.18 counts it no more from that
    /// moment on: see `deleting::a_workload_that_is_switched_off_keeps_no_quota`.
    pub async fn activate(&self, wrapper: &str, active: bool) {
        let name = self
            .until(&format!("a Workload of {wrapper}"), |log| {
                log.workloads(wrapper).last().map(|seen| seen.name.clone())
            })
            .await;
        self.change(API, "Workload", &name, json!({"spec": {"active": active}})).await;
    }
}
