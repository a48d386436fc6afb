use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::clock::ManualClock;

/// An API server that knows two tokens, and how often it was asked.
fn api_server(asked: Arc<AtomicUsize>) -> Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        asked.fetch_add(1, Ordering::Relaxed);
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect_bytes().await?;
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let status = match path.as_str() {
                "/apis/authentication.k8s.io/v1/tokenreviews" => {
                    let token = body["spec"]["token"].as_str().unwrap_or_default();
                    if token == "broken" {
                        let text = r#"{"kind":"Status","status":"Failure","code":500}"#;
                        return Ok(answer(500, text.to_owned()));
                    }
                    let known = ["prometheus", "stranger"].contains(&token);
                    json!({"authenticated": known, "user": {"username": token, "groups": ["g"]}})
                }
                "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                    let asked = json!({"user": "prometheus", "groups": ["g"],
                        "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
                    json!({"allowed": body["spec"] == asked})
                }
                _ => json!({}),
            };
            let mut review = body;
            review["status"] = status;
            Ok::<_, kube::Error>(answer(201, review.to_string()))
        }
    });
    Client::new(service, "default")
}

fn answer(code: u16, text: String) -> http::Response<kube::client::Body> {
    let body = kube::client::Body::from(text.into_bytes());
    http::Response::builder().status(code).body(body).unwrap()
}

async fn get_with(router: &Router, path: &str, token: Option<&str>) -> (StatusCode, String) {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header("authorization", token);
    }
    let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = answer.status();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test]
async fn only_a_token_that_may_gets_the_page() {
    let asked = Arc::new(AtomicUsize::new(0));
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let access = Access::new(api_server(asked.clone()), clock);
    let router = metrics_router(Metrics::new(), Some(access));
    for (path, token, want, calls) in [
        ("/metrics", None, StatusCode::UNAUTHORIZED, 0),
        ("/metrics", Some("Basic cHJvbWV0aGV1cw=="), StatusCode::UNAUTHORIZED, 0),
        ("/metrics", Some("Bearer "), StatusCode::UNAUTHORIZED, 0),
        ("/metrics", Some("Bearer nobody"), StatusCode::UNAUTHORIZED, 1),
        ("/metrics", Some("Bearer stranger"), StatusCode::FORBIDDEN, 2),
        ("/metrics", Some("Bearer broken"), StatusCode::SERVICE_UNAVAILABLE, 1),
        ("/metrics", Some("Bearer prometheus"), StatusCode::OK, 2),
        ("/metrics", Some("bearer prometheus"), StatusCode::OK, 0),
        ("/elsewhere", None, StatusCode::UNAUTHORIZED, 0),
        ("/elsewhere", Some("Bearer prometheus"), StatusCode::NOT_FOUND, 0),
    ] {
        let before = asked.load(Ordering::Relaxed);
        let (status, text) = get_with(&router, path, token).await;
        assert_eq!(status, want, "{path} {token:?}: {text}");
        let is_page = text.contains("appwrapper_leader");
        assert_eq!(is_page, want == StatusCode::OK, "{path} {token:?}: {text}");
        assert_eq!(asked.load(Ordering::Relaxed) - before, calls, "{path} {token:?}");
    }
    let long = format!("Bearer {}", "x".repeat(20_000));
    let before = asked.load(Ordering::Relaxed);
    assert_eq!(get_with(&router, "/metrics", Some(&long)).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(asked.load(Ordering::Relaxed), before, "nobody is asked about such a token");
}

#[tokio::test]
async fn answers_hold_for_a_moment_and_are_bounded() {
    let asked = Arc::new(AtomicUsize::new(0));
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let access = Access::new(api_server(asked.clone()), clock.clone());
    let router = metrics_router(Metrics::new(), Some(access));
    let scrape = async |token: &str| {
        let before = asked.load(Ordering::Relaxed);
        get_with(&router, "/metrics", Some(&format!("Bearer {token}"))).await;
        asked.load(Ordering::Relaxed) - before
    };
    assert_eq!(scrape("prometheus").await, 2);
    clock.advance(access::KEPT_FOR / 2);
    assert_eq!(scrape("prometheus").await, 0);
    clock.advance(access::KEPT_FOR / 2);
    assert_eq!(scrape("prometheus").await, 2, "asked anew");
    for number in 0..access::KEPT_MAX {
        clock.advance(Duration::from_millis(1));
        assert_eq!(scrape(&format!("guess-{number}")).await, 1);
    }
    assert_eq!(scrape("guess-200").await, 0, "the newest are kept");
    assert_eq!(scrape("prometheus").await, 2, "the oldest gave way");
}

/// How an API server answers that changes meanwhile.
#[derive(Clone, Copy, Debug)]
enum Answers {
    Works,
    Fails,
    Hangs,
    /// Knows no token any more.
    Denies,
}

fn changing(now: Arc<Mutex<Answers>>) -> Client {
    let api_server = api_server(Arc::default());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (api_server, now) = (api_server.clone(), *now.lock().unwrap());
        async move {
            match now {
                Answers::Works => api_server.send(request).await,
                Answers::Fails => Ok(answer(500, r#"{"kind":"Status","code":500}"#.to_owned())),
                Answers::Hangs => std::future::pending().await,
                Answers::Denies => {
                    let review = json!({"apiVersion": "authentication.k8s.io/v1",
                        "kind": "TokenReview", "metadata": {}, "spec": {}, "status": {}});
                    Ok(answer(201, review.to_string()))
                }
            }
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_allowed_gets_the_page_in_an_outage() {
    let now = Arc::new(Mutex::new(Answers::Works));
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let access = Access::new(changing(now.clone()), clock.clone());
    let router = metrics_router(Metrics::new(), Some(access));
    let begin = tokio::time::Instant::now();
    for (answers, seconds, token, want) in [
        (Answers::Works, 0, "prometheus", StatusCode::OK),
        (Answers::Fails, 31, "prometheus", StatusCode::OK),
        (Answers::Fails, 0, "nobody", StatusCode::SERVICE_UNAVAILABLE),
        (Answers::Hangs, 568, "prometheus", StatusCode::OK),
        (Answers::Fails, 1, "prometheus", StatusCode::SERVICE_UNAVAILABLE),
        (Answers::Works, 0, "prometheus", StatusCode::OK),
        (Answers::Denies, 31, "prometheus", StatusCode::UNAUTHORIZED),
        (Answers::Fails, 31, "prometheus", StatusCode::UNAUTHORIZED),
    ] {
        clock.advance(Duration::from_secs(seconds));
        *now.lock().unwrap() = answers;
        let status = get_with(&router, "/metrics", Some(&format!("Bearer {token}"))).await.0;
        assert_eq!(status, want, "{answers:?} {seconds} {token}");
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "Prometheus waits for 10 s");
}

#[tokio::test]
async fn tokens_that_cannot_be_verified_fill_no_log() {
    let (lines, _guard) = crate::telemetry::count_lines();
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let access = Access::new(api_server(Arc::default()), clock.clone());
    let router = metrics_router(Metrics::new(), Some(access));
    for (requests, second, most) in [(30, 0, 10), (5, 1, 11)] {
        clock.advance(Duration::from_secs(second));
        for _ in 0..requests {
            let (status, _) = get_with(&router, "/metrics", Some("Bearer broken")).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        }
        assert_eq!(lines.load(Ordering::Relaxed), most, "10 at once and one a second");
    }
}

#[tokio::test]
async fn without_access_the_page_is_plain() {
    let (status, text) = get_with(&metrics_router(Metrics::new(), None), "/metrics", None).await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("# TYPE appwrapper_leader gauge"), "{text}");
}

#[tokio::test]
async fn readiness_says_what_is_missing() {
    let (caches, caches_hold) = watch::channel(false);
    let (certificate, certificate_holds) = watch::channel(true);
    let router = health_router(vec![("caches", caches_hold), ("certificate", certificate_holds)]);
    assert_eq!(get_with(&router, "/healthz", None).await, (StatusCode::OK, "ok\n".to_owned()));
    let ready = async || get_with(&router, "/readyz", None).await;
    let (status, text) = ready().await;
    assert_eq!(
        (status, text.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "NOT READY caches\nready certificate\n")
    );
    caches.send_replace(true);
    assert_eq!(ready().await, (StatusCode::OK, "ready caches\nready certificate\n".to_owned()));
    certificate.send_replace(false);
    assert_eq!(ready().await.0, StatusCode::SERVICE_UNAVAILABLE);
}

/// A probe is answered however many idle connections there are.
#[tokio::test]
async fn idle_connections_keep_no_probe_out() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    health(free, vec![]).unwrap();
    let mut idle = vec![];
    for _ in 0..4 * Limits::small().connections {
        idle.push(TcpStream::connect(free).await.unwrap());
    }
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut probe = socket.connect(free).await.unwrap();
    probe.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
    let mut text = String::new();
    probe.read_to_string(&mut text).await.unwrap();
    assert!(text.contains(" 200 "), "{text}");
}
