//! The controller as it is, with its watches, lists and queue, on the simulated API server. The test
//! plays the kubelet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use appwrapper::clock::{Clock, SystemClock};
use appwrapper::controller::Controller;
use appwrapper::sim::{Address, ApiServer, Part, Reply, Store, reply};
use futures::FutureExt;
use http::{Method, Request};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower::Service;

use crate::harness::{self, pod, runtime, tuned, wrapper};

const GROUP_VERSION: &str = "workload.codeflare.dev/v1beta2";

/// A simulated server, and the lists that were asked of it.
struct World {
    server: ApiServer,
    lists: Arc<Mutex<Vec<String>>>,
    /// The controller may not write the AppWrapper, but for its status.
    locked: Arc<AtomicBool>,
}

impl World {
    fn new() -> Self {
        let mut store = Store::new(SystemClock.now());
        for definition in appwrapper::crd::all() {
            store.kinds.define(&serde_json::to_value(definition).expect("JSON"));
        }
        Self { server: ApiServer::new(store), lists: Arc::default(), locked: Arc::default() }
    }

    /// A client whose lists are noted, and which may be locked out.
    fn client(&self) -> Client {
        let (server, lists) = (self.server.clone(), self.lists.clone());
        let locked = self.locked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            if *request.method() == Method::GET && !query.contains("watch=true") {
                let path = request.uri().path().to_owned();
                lists.lock().unwrap_or_else(PoisonError::into_inner).push(path);
            }
            let writes = *request.method() == Method::PATCH;
            if writes && request.uri().path().ends_with("/aw") && locked.load(Ordering::Relaxed) {
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
                let refused: Reply = reply(403, status.to_string());
                return futures::future::ready(Ok(refused)).left_future();
            }
            server.clone().call(request).right_future()
        });
        Client::new(service, "default")
    }

    /// How often a path was listed.
    fn listed(&self, path: &str) -> usize {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.iter().filter(|listed| *listed == path).count()
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.server.client(), "default", &resource)
    }

    fn wrappers(&self) -> Api<DynamicObject> {
        self.api(GROUP_VERSION, "AppWrapper")
    }

    /// Waits until the AppWrapper is in a phase.
    async fn phase(&self, phase: &str) {
        let is = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| object.data["status"]["phase"] == phase)
        };
        await_condition(self.wrappers(), "aw", is).await.expect("the watch goes on");
    }

    /// Waits until the pod is there.
    async fn pod(&self) {
        let exists = |object: Option<&DynamicObject>| object.is_some();
        await_condition(self.api("v1", "Pod"), "p", exists).await.expect("the watch goes on");
    }

    async fn set_suspend(&self, suspend: bool) {
        let patch = Patch::Merge(json!({"spec": {"suspend": suspend}}));
        let patched = self.wrappers().patch("aw", &PatchParams::default(), &patch).await;
        patched.expect("the patch is accepted");
    }

    async fn create(&self, suspend: bool) {
        let mut object = wrapper("aw", json!({}), vec![pod("p", &[])]);
        object["spec"]["suspend"] = suspend.into();
        let object: DynamicObject = serde_json::from_value(object).expect("an AppWrapper");
        let created = self.wrappers().create(&PostParams::default(), &object).await;
        created.expect("the AppWrapper is accepted");
    }

    /// All phases that the AppWrapper has been in.
    fn phases(&self) -> Vec<String> {
        self.server.with(|store| {
            let kind = store.kinds.by_name(GROUP_VERSION, "AppWrapper").expect("it is served");
            let changes = store.history().iter().filter(|it| it.object.address.kind == kind);
            let mut phases: Vec<String> = changes
                .map(|change| change.object.value["status"]["phase"].as_str().unwrap_or_default())
                .map(str::to_owned)
                .collect();
            phases.dedup();
            phases
        })
    }
}

/// The kubelet says how the pod is.
fn report(store: &mut Store, status: &Value) {
    let kind = store.kinds.by_name("v1", "Pod").expect("it is served");
    let address = Address::new(kind, "default", "p");
    let written = store.change(&address, Part::Status, |pod| pod["status"] = status.clone());
    written.expect("the pod is there");
}

fn running() -> Value {
    json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "main", "ready": true, "state": {"running": {}}}],
    })
}

fn succeeded() -> Value {
    json!({
        "phase": "Succeeded",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "main", "ready": false, "state": {"terminated": {
            "exitCode": 0, "finishedAt": SystemClock.now().to_string()}}}],
    })
}

/// Runs a test beside a controller, and ends the controller in good order.
fn beside_controller<F: Future<Output = World>>(body: impl FnOnce(World) -> F) {
    runtime().block_on(async {
        let world = World::new();
        let controller = Controller::new(world.client(), Arc::new(SystemClock), harness::config());
        let (stop, stopped) = oneshot::channel::<()>();
        let ends = async { drop(stopped.await) };
        let running = tokio::spawn(controller.run(ends));
        body(world).await;
        stop.send(()).expect("the controller runs");
        running.await.expect("the controller ends in good order");
    });
}

#[test]
fn a_pod_goes_all_the_way() {
    beside_controller(|world| async {
        world.create(true).await;
        world.phase("Suspended").await;
        world.set_suspend(false).await;
        world.pod().await;
        world.server.with(|store| report(store, &running()));
        world.phase("Running").await;
        world.server.with(|store| report(store, &succeeded()));
        world.phase("Succeeded").await;
        let phases = world.phases();
        assert_eq!(phases, ["", "Suspended", "Resuming", "Running", "Succeeded"]);

        let last = world.wrappers().get("aw").await.expect("it is there");
        let uid = last.metadata.uid.expect("it has a UID");
        let deleted = world.wrappers().delete("aw", &DeleteParams::background()).await;
        deleted.expect("it is deleted");
        let gone = conditions::is_deleted(&uid);
        await_condition(world.wrappers(), "aw", gone).await.expect("the watch goes on");
        let pod = world.api("v1", "Pod").get_opt("p").await.expect("an answer");
        assert!(pod.is_none(), "the pod went first");
        world
    });
}

#[test]
fn what_was_forgotten_is_listed_again() {
    beside_controller(|world| async {
        world.create(false).await;
        world.pod().await;
        world.server.with(|store| report(store, &running()));
        world.phase("Running").await;
        let before = world.listed("/api/v1/pods");
        // nobody is told of this change: it is forgotten before any watch has seen it
        world.server.with(|store| {
            report(store, &succeeded());
            store.compact(store.version());
        });
        world.phase("Succeeded").await;
        assert!(world.listed("/api/v1/pods") > before, "the pods were listed again");
        world
    });
}

/// An object of a kind with these metadata and this spec.
async fn made(world: &World, api_version: &str, kind: &str, metadata: Value, spec: Value) {
    let object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let client = world.server.client();
    let api: Api<DynamicObject> = match object["metadata"].get("namespace") {
        Some(_) => Api::namespaced_with(client, "default", &resource),
        None => Api::all_with(client, &resource),
    };
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("it is accepted");
}

/// A queue `q` of a cluster queue to which a retry policy is attached: after a lack of memory, twice of it
/// on another node.
async fn given_queues(world: &World) {
    let rules = json!([{
        "action": "Retry", "onConditions": ["OOMKilled"], "antiAffinity": {"mode": "node"},
        "mutate": {"memory": {"factor": 2}}, "backoff": {"initialDelay": "0s"},
    }]);
    let ours = "workload.codeflare.dev/v1alpha1";
    made(world, ours, "RetryPolicy", json!({"name": "more"}), json!({ "rules": rules })).await;
    let annotations = json!({"workload.codeflare.dev/retry-policies": "more"});
    let (kueue, metadata) =
        ("kueue.x-k8s.io/v1beta2", json!({"name": "c", "annotations": annotations}));
    made(world, kueue, "ClusterQueue", metadata, json!({})).await;
    let metadata = json!({"name": "q", "namespace": "default"});
    made(world, kueue, "LocalQueue", metadata, json!({"clusterQueue": "c"})).await;
    for name in ["n-1", "n-2"] {
        made(world, "v1", "Node", json!({ "name": name }), json!({})).await;
    }
}

async fn create_with_memory(world: &World, mut metadata: Value) {
    let mut object = wrapper("aw", json!({}), vec![pod("p", &[])]);
    metadata["name"] = "aw".into();
    object["metadata"] = metadata;
    object["spec"]["components"][0]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}});
    let object: DynamicObject = serde_json::from_value(object).expect("an AppWrapper");
    let created = world.wrappers().create(&PostParams::default(), &object).await;
    created.expect("the AppWrapper is accepted");
}

/// The scheduler binds the pod to n-1, and there it needs more memory than it has.
fn run_out_of_memory(store: &mut Store) {
    let kind = store.kinds.by_name("v1", "Pod").expect("it is served");
    let address = Address::new(kind, "default", "p");
    let bound = store.change(&address, Part::Whole, |pod| pod["spec"]["nodeName"] = "n-1".into());
    bound.expect("the pod is there");
    report(
        store,
        &json!({
            "phase": "Failed",
            "containerStatuses": [{"name": "main", "ready": false, "state": {"terminated": {
                "exitCode": 137, "reason": "OOMKilled", "finishedAt": SystemClock.now().to_string()}}}],
        }),
    );
}

#[test]
fn a_queued_appwrapper_goes_back_to_its_queue_with_more_memory() {
    beside_controller(|world| async {
        given_queues(&world).await;
        let labels = json!({"labels": {"kueue.x-k8s.io/queue-name": "q"}});
        create_with_memory(&world, labels).await;
        world.pod().await;
        world.server.with(|store| report(store, &running()));
        world.phase("Running").await;
        world.server.with(run_out_of_memory);
        world.phase("Suspended").await;
        let stored = world.wrappers().get("aw").await.expect("it is there");
        assert_eq!(stored.data["spec"]["suspend"], true);
        world.set_suspend(false).await;
        world.pod().await;
        let pod = world.api("v1", "Pod").get("p").await.expect("it is there");
        let resources = &pod.data["spec"]["containers"][0]["resources"];
        assert_eq!(*resources, json!({"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}}));
        let affinity = pod.data["spec"]["affinity"].to_string();
        assert!(affinity.contains(r#""operator":"NotIn","values":["n-1"]"#), "{affinity}");
        world
    });
}

#[test]
fn what_nobody_names_is_not_read() {
    beside_controller(|world| async {
        given_queues(&world).await;
        create_with_memory(&world, json!({})).await;
        world.pod().await;
        world.server.with(|store| report(store, &running()));
        world.phase("Running").await;
        let asked = world.lists.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // suspect nodes are on by default, and so is their watch
        let is_guide = |path: &&String| {
            let of_retry_policies = path.contains("retrypolicies") || path.ends_with("v1alpha1");
            path.contains("kueue") || of_retry_policies
        };
        let vain = asked.iter().find(is_guide);
        assert_eq!(vain, None);
        world
    });
}

/// Waits until the AppWrapper has a condition in a status.
async fn condition(world: &World, kind: &str, status: &str) {
    let is = |object: Option<&DynamicObject>| {
        let all = object.and_then(|object| object.data["status"]["conditions"].as_array());
        let mut all = all.into_iter().flatten();
        all.any(|one| one["type"] == kind && one["status"] == status)
    };
    await_condition(world.wrappers(), "aw", is).await.expect("the watch goes on");
}

/// Waits for the pod of an attempt.
async fn pod_of(world: &World, attempt: &str) -> DynamicObject {
    let is = |object: Option<&DynamicObject>| {
        let labels = object.and_then(|object| object.metadata.labels.as_ref());
        labels.and_then(|labels| labels.get("workload.codeflare.dev/attempt"))
            == Some(&attempt.to_owned())
    };
    let pod = await_condition(world.api("v1", "Pod"), "p", is).await;
    pod.expect("the watch goes on").expect("it is there")
}

fn memory_of(pod: &DynamicObject) -> Value {
    pod.data["spec"]["containers"][0]["resources"]["requests"]["memory"].clone()
}

#[test]
fn a_policy_that_comes_later_holds() {
    beside_controller(|world| async {
        let own = json!({"workload.codeflare.dev.appwrapper/retryPolicies": "more"});
        create_with_memory(&world, json!({"annotations": own})).await;
        world.pod().await;
        world.server.with(|store| report(store, &running()));
        condition(&world, "PolicyNotFound", "True").await;
        world.phase("Running").await;
        given_queues(&world).await;
        condition(&world, "PolicyNotFound", "False").await;
        let policies = "/apis/workload.codeflare.dev/v1alpha1/retrypolicies";
        assert_eq!(world.listed(policies), 1, "the watch tells the rest");
        world.server.with(run_out_of_memory);
        let pod = pod_of(&world, "1").await;
        assert_eq!(memory_of(&pod), "2Gi");
        assert!(!world.phases().contains(&"Suspended".to_owned()), "nobody would admit it again");
        world
    });
}

#[test]
fn a_retry_goes_on_where_memory_may_not_grow() {
    beside_controller(|world| async {
        given_queues(&world).await;
        let labels = json!({"labels": {"kueue.x-k8s.io/queue-name": "q"}});
        create_with_memory(&world, labels).await;
        world.pod().await;
        world.server.with(|store| report(store, &running()));
        world.phase("Running").await;
        world.locked.store(true, Ordering::Relaxed);
        world.server.with(run_out_of_memory);
        let pod = pod_of(&world, "1").await;
        assert_eq!(memory_of(&pod), "1Gi");
        let stored = world.wrappers().get("aw").await.expect("it is there");
        assert_eq!(stored.data["spec"]["suspend"], false, "it was not suspended");
        assert_eq!(stored.data["status"].get("pendingMemory"), None);
        world
    });
}

/// Before the verdict, and after the deletion, of which the answer says that the pod is gone.
#[test]
fn a_failed_pod_is_listed_twice_until_the_next_attempt() {
    beside_controller(|world| async {
        let own =
            tuned(&[("failureGracePeriodDuration", "0s"), ("retryPausePeriodDuration", "0s")]);
        create_with_memory(&world, json!({ "annotations": own })).await;
        world.pod().await;
        world.server.with(|store| report(store, &running()));
        condition(&world, "PodsReady", "True").await;
        let (pods, pod) = ("/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/pods/p");
        let before = world.listed(pods);
        world.server.with(run_out_of_memory);
        pod_of(&world, "1").await;
        assert_eq!(world.listed(pods) - before, 2);
        assert_eq!(world.listed(pod), 0, "it is not read by its name");
        world
    });
}
