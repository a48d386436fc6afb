//! The controller as it is, with its watches, lists and queue, on the simulated API server. The test
//! plays the kubelet.

use std::sync::{Arc, Mutex, PoisonError};

use appwrapper::clock::{Clock, SystemClock};
use appwrapper::controller::Controller;
use appwrapper::sim::{Address, ApiServer, Part, Store};
use http::{Method, Request};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower::Service;

use crate::harness::{self, pod, runtime, wrapper};

const GROUP_VERSION: &str = "workload.codeflare.dev/v1beta2";

/// A simulated server, and the lists that were asked of it.
struct World {
    server: ApiServer,
    lists: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> Self {
        let mut store = Store::new(SystemClock.now());
        for definition in appwrapper::crd::all() {
            store.kinds.define(&serde_json::to_value(definition).expect("JSON"));
        }
        Self { server: ApiServer::new(store), lists: Arc::default() }
    }

    /// A client whose lists are noted.
    fn client(&self) -> Client {
        let (server, lists) = (self.server.clone(), self.lists.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            if *request.method() == Method::GET && !query.contains("watch=true") {
                let path = request.uri().path().to_owned();
                lists.lock().unwrap_or_else(PoisonError::into_inner).push(path);
            }
            server.clone().call(request)
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
