//! What the API server does not tell, or denies, only for a while.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::calls::{look, wrapper};
use super::departed::watched;
use crate::api::{Phase, keys};
use crate::clock::ManualClock;
use crate::config::Config;
use crate::observe::feed;
use crate::observe::memory::ReconcileState;
use crate::observe::retry_sources::Attach;
use crate::plan::FreshRead;
use crate::reconcile::{Context, growth, workload};
use crate::snapshot::workload::Workload;

/// A context whose API server answers a method and a path so.
fn answering(answer: impl Fn(&str, &str) -> (u16, Value) + Send + Sync + 'static) -> Context {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body) = answer(request.method().as_str(), request.uri().path());
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(Response::builder().status(code).body(body))
    });
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    Context::new(Client::new(service, "default"), clock, Config::default(), |_| ())
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    (code, json!({"status": "Failure", "code": code, "message": message}))
}

fn kind(api_version: &str, kind: &str, plural: &str) -> (u16, Value) {
    let resource = json!({"name": plural, "kind": kind, "namespaced": true,
        "singularName": plural, "verbs": ["get", "list", "patch"]});
    (200, json!({"groupVersion": api_version, "resources": [resource]}))
}

/// An API server that has just started denies what it allows a moment later.
#[tokio::test]
async fn a_denial_is_for_good_only_after_a_while() {
    let by_authorizer = "workloads \"w\" is forbidden: User \"c\" cannot patch resource";
    let by_webhook = "admission webhook \"w\" denied the request: it is forbidden";
    for (message, errors, is_for_good) in [
        (by_authorizer, 0, false),
        (by_authorizer, 5, false),
        (by_authorizer, 6, true),
        (by_webhook, 0, true),
    ] {
        let denied = Arc::new(Mutex::new(true));
        let now = denied.clone();
        let context = answering(move |method, path| match (method, path) {
            ("GET", "/apis/kueue.x-k8s.io/v1beta2") => {
                kind("kueue.x-k8s.io/v1beta2", "Workload", "workloads")
            }
            ("PATCH", _) if *now.lock().unwrap() => failure(403, message),
            _ => (200, json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "uid"}})),
        });
        let wrapper = Arc::new(wrapper(Phase::Resetting, false, false));
        let workload = Workload { name: "w".to_owned(), ..Workload::default() };
        let mut memory = ReconcileState::default();
        memory.errors = errors;
        let grown = growth::grow(&context, &mut memory, &wrapper, false).await;
        assert_eq!((grown.is_ok(), memory.growth_refused.is_some()), (is_for_good, is_for_good));
        let switched = workload::switch(&context, &mut memory, &wrapper, &workload, false).await;
        let is_refused = memory.workload_refused.is_some();
        assert_eq!((switched.is_ok(), is_refused), (is_for_good, is_for_good), "{message}");
        *denied.lock().unwrap() = false;
        let again = growth::grow(&context, &mut memory, &wrapper, false).await;
        assert_eq!((again.is_ok(), memory.growth_refused.is_some()), (true, is_for_good));
    }
}

/// A running pod of a `ReplicaSet`, with our labels.
fn stranger(number: usize) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs",
        "uid": "uid-rs", "controller": true}]);
    json!({"metadata": {"name": format!("s{number}"), "namespace": "ns",
        "uid": format!("uid-s{number}"), "ownerReferences": owner,
        "labels": {keys::APPWRAPPER: "aw", keys::APPWRAPPER_UID: "uid"}},
        "status": {"phase": "Running"}})
}

/// There are more of them than are looked at each time. Once they are strangers', one is counted for ten seconds more.
#[tokio::test]
async fn strangers_whose_owner_could_not_be_read_hold_nothing_back() {
    for (unread, looks, again) in [
        (503, vec![(0, true, 40), (10, false, 1), (21, false, 0)], 5),
        (403, vec![(0, true, 40), (30, true, 40), (60, false, 1), (71, false, 0)], 60),
    ] {
        let pods: Vec<Value> = (0..40).map(stranger).collect();
        let (code, lists) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicUsize::new(0)));
        let (code_now, listed, shown) = (code.clone(), lists.clone(), pods.clone());
        let context = answering(move |_, path| match path {
            "/apis/apps/v1" => kind("apps/v1", "ReplicaSet", "replicasets"),
            "/apis/apps/v1/namespaces/ns/replicasets/rs" => {
                match code_now.load(Ordering::Relaxed) {
                    200 => (
                        200,
                        json!({"metadata": {"name": "rs", "namespace": "ns", "uid": "uid-rs"}}),
                    ),
                    code => failure(code, "no"),
                }
            }
            "/api/v1/namespaces/ns/pods" => {
                listed.fetch_add(1, Ordering::Relaxed);
                (
                    200,
                    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": shown}),
                )
            }
            _ => failure(404, "no"),
        });
        let mut feed = feed::Pods::default();
        for pod in &pods {
            feed.take(&context.cache, Event::Apply(watched(pod)));
        }
        let (wrapper, attach) = (wrapper(Phase::Running, false, false), Attach::default());
        let mut memory = ReconcileState::default();
        for (second, fails, want) in looks {
            code.store(if fails { unread } else { 200 }, Ordering::Relaxed);
            memory.tick(Duration::from_secs(second));
            let ask = FreshRead::Nothing;
            let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
            assert_eq!(seen.undetermined.count, want, "{unread} after {second} s");
            if second == 0 {
                assert_eq!(memory.pods_unseen_for(), Some(Duration::from_secs(again)));
            }
        }
        assert_eq!(lists.load(Ordering::Relaxed), 1, "{unread}");
    }
}
