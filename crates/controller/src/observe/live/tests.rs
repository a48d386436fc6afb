use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;

use super::*;

/// A server with `batch/v1` that has one Job, and the number of its calls.
fn server() -> (Client, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let version = json!({"groupVersion": "batch/v1", "version": "v1"});
        let group = json!({"name": "batch", "versions": [version], "preferredVersion": version});
        let job = json!({"name": "jobs", "kind": "Job", "namespaced": true, "singularName": "job",
            "verbs": ["get", "list", "watch"]});
        let (code, body) = match request.uri().path() {
            "/apis" => (200, json!({"kind": "APIGroupList", "groups": [group]})),
            "/apis/batch/v1" => (200, json!({"groupVersion": "batch/v1", "resources": [job]})),
            "/apis/batch/v1/namespaces/n/jobs/j" => {
                (200, json!({"metadata": {"name": "j", "namespace": "n", "uid": "u"}}))
            }
            _ => (404, json!({"status": "Failure", "code": 404, "reason": "NotFound"})),
        };
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(Response::builder().status(code).body(body))
    });
    (Client::new(service, "default"), calls)
}

fn job(version: &str) -> KindKey {
    KindKey { api_version: format!("batch/{version}"), kind: "Job".to_owned() }
}

fn at(name: &str) -> Key {
    Key { namespace: "n".to_owned(), name: name.to_owned() }
}

#[tokio::test]
async fn only_an_object_that_is_not_there_is_none() {
    for (code, want) in [(200_u16, Ok(true)), (404, Ok(false)), (403, Err("get Pod/p"))] {
        let service = tower::service_fn(move |_: Request<Body>| {
            let body = match code {
                200 => json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}}),
                code => json!({"status": "Failure", "code": code, "message": "no"}),
            };
            let body = Body::from(body.to_string().into_bytes());
            std::future::ready(Response::builder().status(code).body(body))
        });
        let (client, resource) = (Client::new(service, "default"), pod_resource());
        let whole = find(&client, &resource, Some("n"), "p").await.map(|found| found.is_some());
        let metadata = metadata(&client, &resource, "n", "p").await.map(|found| found.is_some());
        for found in [whole, metadata] {
            let found = found.map_err(|error| error.to_string());
            assert_eq!(found, want.map_err(str::to_owned), "{code}");
        }
    }
}

#[tokio::test]
async fn whoever_invents_versions_fills_no_memory_and_causes_few_calls() {
    let (client, calls) = server();
    let live = Live::default();
    live.resource(&client, &job("v1")).await.unwrap();
    for name in ["j", "missing"] {
        for number in 0..2 * OTHERS_MAX {
            let before = calls.load(Ordering::Relaxed);
            let kind = job(&format!("{name}{number}"));
            let found = live.identity(&client, &kind, &at(name)).await.unwrap();
            assert_eq!(found.is_some(), name == "j");
            let made = calls.load(Ordering::Relaxed) - before;
            assert_eq!(made, 3, "its version, the one that is served, and the object");
        }
    }
    let kinds = live.kinds.locked();
    assert_eq!(kinds.served.len(), 1);
    assert!((1..=OTHERS_MAX).contains(&kinds.others.len()), "{}", kinds.others.len());
}

#[tokio::test]
async fn a_version_that_is_not_served_is_read_in_another_and_never_created() {
    let (client, calls) = server();
    let live = Live::default();
    for _ in 0..3 {
        let found = live.object(&client, &job("v1beta1"), &at("j")).await.unwrap();
        assert_eq!(found.map(|found| found.identity.uid), Some("u".to_owned()));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3 + 3, "it is discovered once");
    let own = live.in_own_version(&client, &job("v1beta1")).await;
    assert!(matches!(own, Err(Error::NoKind(_))), "{own:?}");
    assert_eq!(live.in_own_version(&client, &job("v1")).await.unwrap().plural, "jobs");
    let other = KindKey { kind: "Other".to_owned(), ..job("v1") };
    let found = live.object(&client, &other, &at("j")).await;
    assert!(matches!(found, Err(Error::NoKind(_))), "{found:?}");
}

/// A version that is served no more, as after an upgrade of its operator: what is stored is there all the same.
#[tokio::test]
async fn what_is_served_in_another_version_by_now_is_not_absent() {
    let (client, _) = server();
    for name in ["j", "missing"] {
        let live = Live::default();
        let stale = ApiResource {
            version: "v1beta1".to_owned(),
            api_version: "batch/v1beta1".to_owned(),
            ..live.resource(&client, &job("v1")).await.unwrap()
        };
        live.kinds.locked().served.insert(job("v1beta1"), stale);
        let found = live.identity(&client, &job("v1beta1"), &at(name)).await.unwrap();
        assert_eq!(found.is_some(), name == "j", "{name}");
        let own = live.in_own_version(&client, &job("v1beta1")).await;
        assert!(matches!(own, Err(Error::NoKind(_))), "it is forgotten: {own:?}");
    }
}
