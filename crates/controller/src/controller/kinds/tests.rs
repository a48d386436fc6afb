use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::controller::Controller;

/// A server that counts how often it is asked for a kind, and serves it once that is said.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<AtomicUsize>,
    serves: Arc<AtomicBool>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let of_group = match request.uri().path() {
                    "/apis" => true,
                    "/apis/invented.example.com/v1" => false,
                    _ => return std::future::pending().await,
                };
                server.asked.fetch_add(usize::from(!of_group), Ordering::Relaxed);
                let thing = json!({"name": "things", "kind": "Thing", "namespaced": true,
                    "singularName": "thing", "verbs": ["list", "watch"]});
                let list = json!({"groupVersion": "invented.example.com/v1", "resources": [thing]});
                let (code, body) = if of_group {
                    (200, json!({"kind": "APIGroupList", "groups": []}))
                } else if server.serves.load(Ordering::Relaxed) {
                    (200, list)
                } else {
                    (404, json!({"status": "Failure", "code": 404, "reason": "NotFound"}))
                };
                let body = Body::from(body.to_string().into_bytes());
                Response::builder().status(code).body(body).map_err(kube::Error::HttpError)
            }
        });
        Client::new(service, "default")
    }
}

#[tokio::test(start_paused = true)]
async fn an_invented_kind_is_asked_for_ever_more_seldom_and_watched_once_it_is_found() {
    let server = Server::default();
    let clock = Arc::new(SystemClock);
    let controller = Controller::new(server.client(), clock, Config::default());
    let (context, queue) = (controller.context.clone(), controller.queue.clone());
    let api_version = "invented.example.com/v1".to_owned();
    let kind = KindKey { api_version, kind: "Thing".to_owned() };
    let found = Found::default();
    let task = tokio::spawn(watch(context.clone(), queue, kind.clone(), found.clone()));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.asked.load(Ordering::Relaxed), 3, "at first after 2 s and 4 s");
    tokio::time::sleep(Duration::from_hours(1)).await;
    let asked = server.asked.load(Ordering::Relaxed);
    assert!((10..=22).contains(&asked), "asked {asked} times within an hour");
    server.serves.store(true, Ordering::Relaxed);
    context.live.resource(&context.client, &kind).await.unwrap();
    while !found.load(Ordering::Acquire) {
        tokio::task::yield_now().await; // no time passes
    }
    assert_eq!(server.asked.load(Ordering::Relaxed), asked + 1);
    task.abort();
}

/// A server that serves a kind, and answers lists of it with a code.
#[derive(Default)]
struct Lister {
    code: AtomicU16,
    lists: AtomicUsize,
}

fn lister(code: u16) -> (Arc<Lister>, Arc<Context>, KindKey, JoinHandle<()>) {
    let lister = Arc::new(Lister { code: code.into(), ..Lister::default() });
    let server = lister.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let (code, body) = if request.uri().path() == "/apis/invented.example.com/v1" {
                let thing = json!({"name": "things", "kind": "Thing", "namespaced": true,
                    "singularName": "thing", "verbs": ["list", "watch"]});
                (200, json!({"groupVersion": "invented.example.com/v1", "resources": [thing]}))
            } else if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                return std::future::pending().await;
            } else {
                server.lists.fetch_add(1, Ordering::Relaxed);
                match server.code.load(Ordering::Relaxed) {
                    200 => (200, json!({"metadata": {"resourceVersion": "1"}, "items": []})),
                    code => (code, json!({"status": "Failure", "code": code, "message": "no"})),
                }
            };
            let body = Body::from(body.to_string().into_bytes());
            Response::builder().status(code).body(body).map_err(kube::Error::HttpError)
        }
    });
    let client = Client::new(service, "default");
    let controller = Controller::new(client, Arc::new(SystemClock), Config::default());
    let (context, queue) = (controller.context.clone(), controller.queue.clone());
    let api_version = "invented.example.com/v1".to_owned();
    let kind = KindKey { api_version, kind: "Thing".to_owned() };
    let task = tokio::spawn(watch(context.clone(), queue, kind.clone(), Found::default()));
    (lister, context, kind, task)
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_first_list_fails_is_waited_for_only_a_while() {
    let (server, context, kind, task) = lister(500);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(context.cache.sync(&kind), Sync::Starting);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(context.cache.sync(&kind), Sync::Blind);
    server.code.store(200, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(context.cache.sync(&kind), Sync::Done);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_must_not_be_listed_is_listed_ever_more_seldom() {
    // a server may not know how to answer with metadata alone
    for code in [403, 406] {
        let (server, context, kind, task) = lister(code);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(context.cache.sync(&kind), Sync::Blind, "{code}");
        assert_eq!(server.lists.load(Ordering::Relaxed), 3, "at first after 2 s and 4 s");
        tokio::time::sleep(Duration::from_hours(1)).await;
        let lists = server.lists.load(Ordering::Relaxed);
        assert!((10..=22).contains(&lists), "listed {lists} times within an hour");
        server.code.store(200, Ordering::Relaxed);
        tokio::time::sleep(ABSENT_AGAIN_AFTER).await;
        assert_eq!(context.cache.sync(&kind), Sync::Done, "{code}");
        task.abort();
    }
}

/// Whoever may change an object of another kind chooses how large it is.
#[tokio::test(start_paused = true)]
async fn of_a_kind_without_rules_only_the_metadata_is_watched() {
    for (api_version, name, is_lean) in
        [("invented.example.com/v1", "Thing", true), ("batch/v1", "Job", false)]
    {
        let asked = Arc::<Mutex<Vec<bool>>>::default();
        let log = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let log = log.clone();
            async move {
                let body = if request.uri().path() == format!("/apis/{api_version}") {
                    let resource = json!({"name": "things", "kind": name, "namespaced": true,
                        "singularName": "thing", "verbs": ["list", "watch"]});
                    json!({"groupVersion": api_version, "resources": [resource]})
                } else {
                    let accept = request.headers().get("accept").and_then(|it| it.to_str().ok());
                    let is_lean = accept.is_some_and(|it| it.contains("PartialObjectMetadata"));
                    log.lock().unwrap().push(is_lean);
                    if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                        return std::future::pending().await;
                    }
                    let metadata = json!({"name": "a", "namespace": "n", "uid": "u",
                        "managedFields": [{"time": "9999-12-31T23:59:59Z"}]});
                    json!({"metadata": {"resourceVersion": "1"}, "items": [{"metadata": metadata}]})
                };
                let body = Body::from(body.to_string().into_bytes());
                Response::builder().body(body).map_err(kube::Error::HttpError)
            }
        });
        let client = Client::new(service, "default");
        let controller = Controller::new(client, Arc::new(SystemClock), Config::default());
        let (context, queue) = (controller.context.clone(), controller.queue.clone());
        let kind = KindKey { api_version: api_version.to_owned(), kind: name.to_owned() };
        let task = tokio::spawn(watch(context.clone(), queue, kind.clone(), Found::default()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(context.cache.sync(&kind), Sync::Done, "{name}");
        assert_eq!(*asked.lock().unwrap(), [is_lean; 2], "{name}: a list and a watch");
        task.abort();
    }
}

/// Whoever invents versions would have all objects of a kind watched once for each of them.
#[tokio::test(start_paused = true)]
async fn a_version_that_is_not_served_is_not_watched() {
    let service = tower::service_fn(|request: Request<Body>| {
        let version = json!({"groupVersion": "things.example.com/v1", "version": "v1"});
        let group = json!({"name": "things.example.com", "versions": [version], "preferredVersion": version});
        let thing = json!({"name": "things", "kind": "Thing", "namespaced": true,
            "singularName": "thing", "verbs": ["list", "watch"]});
        let (code, body) = match request.uri().path() {
            "/apis" => (200, json!({"kind": "APIGroupList", "groups": [group]})),
            "/apis/things.example.com/v1" => {
                (200, json!({"groupVersion": "things.example.com/v1", "resources": [thing]}))
            }
            "/apis/things.example.com/v2" => {
                (404, json!({"status": "Failure", "code": 404, "reason": "NotFound"}))
            }
            other => panic!("{other} is read"),
        };
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(Response::builder().status(code).body(body))
    });
    let client = Client::new(service, "default");
    let controller = Controller::new(client, Arc::new(SystemClock), Config::default());
    let (context, queue) = (controller.context.clone(), controller.queue.clone());
    let kind = |version: &str| KindKey {
        api_version: format!("things.example.com/{version}"),
        kind: "Thing".to_owned(),
    };
    context.live.resource(&context.client, &kind("v1")).await.unwrap();
    let found = Found::default();
    let task = tokio::spawn(watch(context.clone(), queue, kind("v2"), found.clone()));
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(context.cache.sync(&kind("v2")), Sync::Blind);
    assert!(!found.load(Ordering::Acquire) && !task.is_finished());
    task.abort();
}
