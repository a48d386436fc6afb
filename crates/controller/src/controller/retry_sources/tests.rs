use std::sync::Mutex;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::controller::Controller;
use crate::observe::cache::Key;
use crate::observe::retry_sources::{RetrySource, local_queues};

/// What an API server has of the `LocalQueue`s.
#[derive(Clone, Copy, Debug)]
enum Serves {
    Old,
    New,
    Neither,
    /// The old version, to others.
    Forbidden,
    /// The old version, but in no format that is accepted.
    Unacceptable,
    /// The old version, but it cannot list.
    Busy,
    /// Nothing: it is unavailable.
    Down,
}

/// A queue that leads to one named after its version; a watch lasts until it is refused.
async fn answer(serves: Arc<Mutex<Serves>>, request: Request<Body>) -> (u16, Value) {
    let path = request.uri().path();
    let version = if path.contains("/v1beta1") { "v1beta1" } else { "v1beta2" };
    let (is_old, lists) = (version == "v1beta1", path.ends_with("/localqueues"));
    let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
    let refusal = || {
        let now = *serves.lock().unwrap();
        match now {
            Serves::Forbidden if lists && is_old => Some(403),
            Serves::Unacceptable if lists && is_old => Some(406),
            Serves::Busy if lists => Some(503),
            Serves::Old | Serves::Forbidden | Serves::Unacceptable | Serves::Busy => {
                (!is_old).then_some(404)
            }
            Serves::New => is_old.then_some(404),
            Serves::Neither => Some(404),
            Serves::Down => Some(503),
        }
    };
    while is_watch && refusal().is_none() {
        tokio::time::sleep(Duration::from_secs(1)).await; // of virtual time
    }
    if let Some(code) = refusal() {
        return (code, json!({"status": "Failure", "code": code, "message": "no"}));
    }
    let api_version = format!("kueue.x-k8s.io/{version}");
    if !lists {
        let queues = json!({"name": "localqueues", "kind": "LocalQueue", "namespaced": true,
            "singularName": "localqueue", "verbs": ["list", "watch"]});
        return (200, json!({"groupVersion": api_version, "resources": [queues]}));
    }
    let queue = json!({"apiVersion": api_version, "kind": "LocalQueue",
        "metadata": {"name": "q", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"clusterQueue": version}});
    let metadata = json!({"resourceVersion": "1"});
    (200, json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": [queue]}))
}

fn client(serves: &Arc<Mutex<Serves>>) -> Client {
    let serves = serves.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let answered = answer(serves.clone(), request);
        async move {
            let (code, body) = answered.await;
            let body = Body::from(body.to_string().into_bytes());
            Response::builder().status(code).body(body).map_err(kube::Error::HttpError)
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn queues_stay_known_while_their_watch_is_refused_for_a_moment() {
    for (then, is_kept, leads_to) in [
        (Serves::New, true, Some("v1beta2")),
        (Serves::Neither, false, None),
        (Serves::Forbidden, true, None),
    ] {
        let serves = Arc::new(Mutex::new(Serves::Old));
        let controller = Controller::new(client(&serves), Arc::new(SystemClock), Config::default());
        let (context, queue) = (controller.context.clone(), controller.queue.clone());
        let (kind, at) = (local_queues(), Key { namespace: "n".into(), name: "q".into() });
        let task = tokio::spawn(watch(context.clone(), queue, kind.clone()));
        let known = || match context.cache.retry_source(kind, &at) {
            Some(RetrySource::LocalQueue { cluster_queue, .. }) => Some(cluster_queue),
            Some(RetrySource::Policy(_) | RetrySource::ClusterQueue { .. }) | None => None,
        };
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(known().as_deref(), Some("v1beta1"));
        *serves.lock().unwrap() = then;
        let mut kept = true;
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            kept &= known().is_some();
        }
        assert_eq!(kept, is_kept, "{then:?}");
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(known().as_deref(), leads_to, "{then:?}");
        task.abort();
    }
}

/// What is not listed yet is not missing: no verdict is made before the queue is known, or was refused for a while.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_refused_at_the_start_is_awaited_for_a_while() {
    for (refusal, refused, sync, then) in [
        (Serves::Forbidden, 5, Sync::Starting, 5),
        (Serves::Forbidden, 60, Sync::Blind, 35),
        (Serves::Unacceptable, 60, Sync::Blind, 35),
    ] {
        let serves = Arc::new(Mutex::new(refusal));
        let controller = Controller::new(client(&serves), Arc::new(SystemClock), Config::default());
        let (context, queue) = (controller.context.clone(), controller.queue.clone());
        let (kind, at) = (local_queues(), Key { namespace: "n".into(), name: "q".into() });
        let task = tokio::spawn(watch(context.clone(), queue, kind.clone()));
        tokio::time::sleep(Duration::from_secs(refused)).await;
        assert_eq!(context.cache.sync(kind), sync, "{refusal:?} for {refused} s");
        *serves.lock().unwrap() = Serves::Old;
        tokio::time::sleep(Duration::from_secs(then)).await;
        assert_eq!(context.cache.sync(kind), Sync::Done, "{then} s after {refusal:?}");
        assert!(context.cache.retry_source(kind, &at).is_some());
        task.abort();
    }
}

/// An API server that has just started may refuse what it allows a moment later, each time.
#[tokio::test(start_paused = true)]
async fn a_refusal_before_an_outage_does_not_count_after_it() {
    for outage in [Serves::Busy, Serves::Down] {
        let serves = Arc::new(Mutex::new(Serves::Old));
        let controller = Controller::new(client(&serves), Arc::new(SystemClock), Config::default());
        let (context, queue) = (controller.context.clone(), controller.queue.clone());
        let (kind, at) = (local_queues(), Key { namespace: "n".into(), name: "q".into() });
        let task = tokio::spawn(watch(context.clone(), queue, kind.clone()));
        for (then, seconds, is_known) in [
            (Serves::Old, 120, true),
            (Serves::Forbidden, 5, true),
            (outage, 60, true),
            (Serves::Forbidden, 10, true),
            (Serves::Forbidden, 60, false),
        ] {
            *serves.lock().unwrap() = then;
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let known = context.cache.retry_source(kind, &at);
            assert_eq!(known.is_some(), is_known, "{outage:?}: {then:?} for {seconds} s");
        }
        task.abort();
    }
}
