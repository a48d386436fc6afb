//! Settings that the installed program does not have: the controller as it is, on the simulated API server.

use std::sync::Arc;

use appwrapper::clock::{Clock, SystemClock};
use appwrapper::config::Config;
use appwrapper::controller::Controller;
use appwrapper::sim::{ApiServer, Store};
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{AW, POD};
use crate::harness::{pod, runtime, wrapper};

struct World(ApiServer);

impl World {
    fn api(&self, (api_version, kind): (&str, &str)) -> Api<DynamicObject> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.0.client(), "default", &resource)
    }

    async fn create(&self, kind: (&str, &str), object: Value) -> DynamicObject {
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let made = self.api(kind).create(&PostParams::default(), &object).await;
        made.expect("it is accepted")
    }

    /// Waits until something is true of an object; returns it.
    async fn until(&self, kind: (&str, &str), name: &str, is: fn(&Value) -> bool) -> Value {
        let is = move |object: Option<&DynamicObject>| object.is_some_and(|it| is(&it.data));
        let seen = await_condition(self.api(kind), name, is).await.expect("the watch goes on");
        seen.expect("it is there").data
    }
}

/// Runs a test beside a controller with these settings.
fn beside_controller<F: Future<Output = World>>(settings: &str, body: impl FnOnce(World) -> F) {
    let config = Config::parse(settings).expect("the settings are right");
    runtime().block_on(async {
        let mut store = Store::new(SystemClock.now());
        for definition in appwrapper::crd::all() {
            store.kinds.define(&serde_json::to_value(definition).expect("JSON"));
        }
        let world = World(ApiServer::new(store));
        let controller = Controller::new(world.0.client(), Arc::new(SystemClock), config);
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(controller.run(async { drop(stopped.await) }));
        body(world).await;
        stop.send(()).expect("the controller runs");
        running.await.expect("the controller ends in good order");
    });
}

#[test]
fn where_a_requester_is_required_nothing_is_created_without_one() {
    let settings = "admission: {requireRequester: true, userRBACAdmissionCheck: false}";
    beside_controller(settings, |world| async {
        world.create(AW, wrapper("none", json!({}), vec![pod("p", &[])])).await;
        let failed = world.until(AW, "none", |aw| aw["status"]["phase"] == "Failed").await;
        let conditions = failed["status"]["conditions"].as_array().expect("conditions");
        let said = conditions.iter().find(|one| one["type"] == "Unhealthy").expect("it is said");
        let message = said["message"].as_str().unwrap_or_default();
        assert!(message.contains("spec.requester is not set"), "{message}");
        assert!(message.contains("recreate it"), "{message}");
        assert!(world.api(POD).get_opt("p").await.expect("an answer").is_none());
        let mut known = wrapper("known", json!({}), vec![pod("q", &[])]);
        known["spec"]["requester"] = json!({"username": "ann"});
        world.create(AW, known).await;
        world.until(POD, "q", |_| true).await;
        world
    });
}
