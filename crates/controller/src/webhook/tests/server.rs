use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use futures::future::BoxFuture;
use futures::stream;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use super::with;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::kinds::Reference;
use crate::listener::Peer;
use crate::metrics::Metrics;
use crate::webhook::Identity;
use crate::webhook::authorize::{AccessError, Authorize, Named, Wrapped};
use crate::webhook::judge::Endpoint;
use crate::webhook::server::{
    ACCESS_CHECKS_MAX, Admission, BODY_BYTES_MAX, REVIEWS_MAX, SMALL_BODY_MAX, router,
};
use crate::webhook::testing::{given_aw, given_review};
use crate::webhook::validate::Finding;

const VALIDATE: Endpoint = Endpoint::ValidateAppWrapper;

/// What the cluster does when it is asked.
enum Cluster {
    Agrees,
    IsAway,
    Panics,
    Hangs,
    /// Answers when there is a permit.
    Waits(Semaphore),
}

/// A runtime of one Job.
const RUNTIME: &str = r#"{"spec": {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": {
    "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
    "spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}}]}}}}"#;

/// A cluster, and how often it was asked.
struct Asked(Cluster, AtomicUsize);

impl Authorize for Asked {
    fn findings<'a>(
        &'a self,
        requester: &'a Identity,
        namespace: &'a str,
        wrapped: &'a [Wrapped<'a>],
        _: bool,
    ) -> BoxFuture<'a, Result<Vec<Finding>, AccessError>> {
        assert_eq!((requester.username.as_str(), namespace), ("ann", "team"));
        assert_eq!(wrapped.len(), 1);
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match &self.0 {
                Cluster::Agrees => Ok(vec![]),
                Cluster::IsAway => {
                    let source = std::io::Error::other("connection refused");
                    let message = "SubjectAccessReview".to_owned();
                    Err(AccessError { message, source: Some(Box::new(source)) })
                }
                Cluster::Panics => panic!("a mistake"),
                Cluster::Hangs => std::future::pending().await,
                Cluster::Waits(permits) => {
                    permits.acquire().await.expect("it is open").forget();
                    Ok(vec![])
                }
            }
        })
    }

    fn missing<'a>(&'a self, _: &'a str, _: &'a [Named]) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(std::future::ready(vec![]))
    }

    fn referenced<'a>(
        &'a self,
        namespace: &'a str,
        reference: &'a Reference,
    ) -> BoxFuture<'a, Result<Option<String>, AccessError>> {
        assert_eq!((namespace, reference.name.as_str()), ("team", "torch"));
        self.1.fetch_add(1, Ordering::SeqCst);
        let found = match &self.0 {
            Cluster::Agrees => Ok(Some(RUNTIME.to_owned())),
            Cluster::IsAway | Cluster::Panics | Cluster::Hangs => Ok(None),
            Cluster::Waits(_) => Ok(Some(" ".repeat(200_000))),
        };
        Box::pin(std::future::ready(found))
    }
}

struct Given {
    router: Router,
    cluster: Arc<Asked>,
    metrics: Metrics,
}

fn given(cluster: Cluster) -> Given {
    let cluster = Arc::new(Asked(cluster, AtomicUsize::new(0)));
    let metrics = Metrics::new();
    let config = Arc::new(Config::default());
    let admission = Admission {
        config: Box::new(move || config.clone()),
        kueue: Box::new(|| None),
        own_account: Arc::new(OnceLock::new()),
        authorize: cluster.clone(),
        metrics: metrics.clone(),
        clock: Arc::new(SystemClock),
    };
    Given { router: router(Arc::new(admission)), cluster, metrics }
}

impl Given {
    async fn sent(&self, request: Request<Body>) -> (StatusCode, String) {
        sent(self.router.clone(), request).await
    }

    async fn told(&self, body: impl Into<Body>) -> (StatusCode, String) {
        self.sent(posted(body)).await
    }

    fn asked(&self) -> usize {
        self.cluster.1.load(Ordering::SeqCst)
    }

    fn counted_at_least_one(&self, operation: &str, answer: &str) -> bool {
        let labels =
            format!(r#"answer="{answer}",operation="{operation}",webhook="validate-appwrapper""#);
        self.metrics.page().contains(&format!("appwrapper_admission_answers_total{{{labels}}}"))
    }

    fn counted(&self, operation: &str, answer: &str) -> bool {
        let labels =
            format!(r#"answer="{answer}",operation="{operation}",webhook="validate-appwrapper""#);
        self.metrics.page().contains(&format!("appwrapper_admission_answers_total{{{labels}}} 1\n"))
    }
}

fn posted(body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(VALIDATE.path()).header(header::CONTENT_TYPE, "application/json");
    request.body(body.into()).expect("a request")
}

async fn sent(router: Router, request: Request<Body>) -> (StatusCode, String) {
    let response = router.oneshot(request).await.expect("never fails");
    let status = response.status();
    if status == StatusCode::TOO_MANY_REQUESTS {
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
    let bytes = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    (status, String::from_utf8(bytes.to_vec()).expect("text"))
}

fn creation(aw: &Value) -> String {
    given_review(VALIDATE, "CREATE", &Value::Null, aw).to_string()
}

fn response(text: &str) -> Value {
    serde_json::from_str::<Value>(text).expect("JSON")["response"].take()
}

#[tokio::test]
async fn a_review_gets_its_response_and_is_counted() {
    let given = given(Cluster::Agrees);
    let (status, text) = given.told(creation(&given_aw())).await;
    assert_eq!(status, StatusCode::OK);
    let found = response(&text);
    assert_eq!((&found["uid"], &found["allowed"]), (&json!("705ab4f5"), &json!(true)));
    assert_eq!(found["auditAnnotations"], json!({"requester": "ann"}));
    assert!(given.counted("CREATE", "allowed"), "{}", given.metrics.page());

    let bad = with(&given_aw(), "/spec/components", json!([]));
    let (status, text) = given.told(creation(&bad)).await;
    assert_eq!((status, &response(&text)["allowed"]), (StatusCode::OK, &json!(false)));
    assert!(given.counted("CREATE", "denied"));
    assert_eq!(given.asked(), 1, "what is wrong anyway is not asked about");
}

/// An AppWrapper around a TrainJob without pod sets.
fn given_train_job() -> Value {
    let template = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "t"},
        "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}}});
    with(&given_aw(), "/spec/components", json!([{ "template": template }]))
}

#[tokio::test]
async fn the_pods_of_a_train_job_are_read_from_its_runtime() {
    let mutate = Endpoint::MutateAppWrapper;
    // what it declares is not believed
    let declares = json!([{"path": "template.spec.other", "replicas": 1}]);
    let declares = with(&given_train_job(), "/spec/components/0/podSets", declares);
    let too_large = || Cluster::Waits(Semaphore::new(0));
    let template = &given_train_job()["spec"]["components"][0];
    let many = with(&given_train_job(), "/spec/components", json!(vec![template; 9]));
    let many = with(
        &many,
        "/spec/components/8/podSets",
        declares["spec"]["components"][0]["podSets"].clone(),
    );
    for (aw, cluster, want) in [
        (given_train_job(), Cluster::Agrees, vec![json!([2])]),
        (given_train_job(), Cluster::IsAway, vec![]),
        (given_train_job(), too_large(), vec![]),
        (declares.clone(), Cluster::Agrees, vec![json!([2])]),
        (declares.clone(), Cluster::IsAway, vec![json!([])]),
        (declares, too_large(), vec![json!([])]),
        // each copies the runtime
        (many, Cluster::Agrees, [vec![json!([2]); 8], vec![json!([])]].concat()),
    ] {
        let given = given(cluster);
        let mut request = posted(given_review(mutate, "CREATE", &Value::Null, &aw).to_string());
        *request.uri_mut() = mutate.path().parse().expect("a path");
        let (status, text) = given.sent(request).await;
        let found = response(&text);
        assert_eq!((status, &found["allowed"]), (StatusCode::OK, &json!(true)), "{text}");
        assert_eq!(given.asked(), 1);
        let patch: ByteString = serde_json::from_value(found["patch"].clone()).expect("base64");
        let patch: Value = serde_json::from_slice(&patch.0).expect("JSON");
        let ops = patch.as_array().expect("a list").iter();
        let of_it = ops.filter(|op| op["path"].as_str().is_some_and(|at| at.ends_with("/podSets")));
        let replicas = |op: &Value| {
            let sets = op["value"].as_array().expect("a list").iter();
            sets.map(|set| set["replicas"].clone()).collect::<Value>()
        };
        assert_eq!(of_it.map(replicas).collect::<Vec<_>>(), want, "{text}");
    }
}

#[tokio::test]
async fn every_webhook_has_its_path() {
    let given = given(Cluster::Agrees);
    for endpoint in Endpoint::ALL {
        let request = |body: Value| {
            let request = Request::post(endpoint.path());
            let request = request.header(header::CONTENT_TYPE, "application/json; charset=utf-8");
            request.body(Body::from(body.to_string())).expect("a request")
        };
        let review = given_review(endpoint, "DELETE", &given_aw(), &Value::Null);
        assert_eq!(given.sent(request(review)).await.0, StatusCode::OK);
        let review = with(
            &given_review(endpoint, "DELETE", &given_aw(), &Value::Null),
            "/request/resource/resource",
            json!("pods"),
        );
        assert_eq!(given.sent(request(review)).await.0, StatusCode::BAD_REQUEST);
    }
}

/// Row 77 of the bad inputs: none of them reaches the cluster.
#[tokio::test]
async fn what_is_not_from_an_api_server_gets_a_4xx_and_asks_nothing() {
    let given = given(Cluster::Panics);
    let good = given_review(VALIDATE, "CREATE", &Value::Null, &given_aw());
    let connect = with(&good, "/request/operation", json!("CONNECT"));
    let version = with(&good, "/apiVersion", json!("admission.k8s.io/v1beta1"));
    let missing = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"});
    let padded = |bytes: usize| format!("{good}{}", " ".repeat(bytes - good.to_string().len()));
    for (body, want) in [
        (String::new().into_bytes(), 400),
        (b"GET / HTTP/1.1".to_vec(), 400),
        (b"\xff\xfe\x00".to_vec(), 400),
        (b"{\"a\": \"\xc3\x28\"}".to_vec(), 400),
        (given_aw().to_string().into_bytes(), 400),
        (connect.to_string().into_bytes(), 400),
        (version.to_string().into_bytes(), 400),
        (missing.to_string().into_bytes(), 400),
        (good.to_string().into_bytes()[..200].to_vec(), 400),
        (vec![b'['; 100_000], 400),
        (padded(BODY_BYTES_MAX + 1).into_bytes(), 413),
        (vec![b' '; 10 << 20], 413),
    ] {
        let (status, text) = given.told(body.clone()).await;
        assert_eq!(status.as_u16(), want, "{text}");
        assert!(text.lines().count() == 1 && text.len() < 500, "{text}");
    }
    // as many bytes without a length that is declared
    let chunks = stream::iter((0..10).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1 << 20])));
    assert_eq!(given.told(Body::from_stream(chunks)).await.0.as_u16(), 413);
    let broken = stream::iter([Ok(vec![b'{']), Err(std::io::Error::other("reset"))]);
    assert_eq!(given.told(Body::from_stream(broken)).await.0.as_u16(), 400);

    let body = || Body::from(good.to_string());
    let path = VALIDATE.path();
    for (request, want) in [
        (Request::post(path).body(body()), 415),
        (Request::post(path).header(header::CONTENT_TYPE, "text/plain").body(body()), 415),
        (Request::post(path).header(header::CONTENT_TYPE, "application/jsonx").body(body()), 415),
        (Request::get(path).body(Body::empty()), 405),
        (Request::put(path).body(body()), 405),
        (Request::post("/").body(body()), 404),
        (Request::post("/mutate").body(body()), 404),
    ] {
        let (status, _) = given.sent(request.expect("a request")).await;
        assert_eq!(status.as_u16(), want);
    }
    assert_eq!(given.asked(), 0);
    let fits = given_review(VALIDATE, "DELETE", &given_aw(), &Value::Null).to_string();
    let fits = format!("{fits}{}", " ".repeat(BODY_BYTES_MAX - fits.len()));
    assert_eq!(given.told(fits).await.0, StatusCode::OK, "as much as is allowed");
}

#[tokio::test]
async fn without_the_cluster_nothing_is_let_in() {
    let given = given(Cluster::IsAway);
    let (status, text) = given.told(creation(&given_aw())).await;
    let found = response(&text);
    assert_eq!((status, &found["allowed"]), (StatusCode::OK, &json!(false)));
    assert_eq!(found["status"]["code"], 503);
    let message = found["status"]["message"].as_str().expect("text");
    assert!(message.contains("try again") && !message.contains("refused"), "{message}");
    assert!(given.counted("CREATE", "error"), "{}", given.metrics.page());
}

#[tokio::test]
async fn a_panic_is_answered_and_the_server_lives() {
    let (lines, _guard) = crate::telemetry::count_lines();
    let given = given(Cluster::Panics);
    for _ in 0..=REVIEWS_MAX {
        let (status, text) = given.told(creation(&given_aw())).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{text}");
        assert!(!text.contains("a mistake\n"), "what it says may quote the object: {text}");
    }
    let count = lines.load(Ordering::SeqCst);
    assert_eq!(count, REVIEWS_MAX as usize + 1, "the panic hook logs what it says");
    let deletion = given_review(VALIDATE, "DELETE", &given_aw(), &Value::Null).to_string();
    assert_eq!(given.told(deletion).await.0, StatusCode::OK, "every place was given back");
}

#[tokio::test(start_paused = true)]
async fn time_is_bounded() {
    let hanging = given(Cluster::Hangs);
    let (status, text) = hanging.told(creation(&given_aw())).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{text}");
    assert!(hanging.counted("unknown", "timeout"));
    let body = Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let slow = given(Cluster::Agrees);
    let (status, text) = slow.told(body).await;
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT, "{text}");
    assert!(slow.counted("unknown", "malformed"), "anybody may send it: no alert counts it");
}

#[tokio::test(start_paused = true)]
async fn beyond_so_many_at_a_time_one_is_told_to_come_again() {
    let given = given(Cluster::Waits(Semaphore::new(0)));
    let waiting: Vec<_> = (0..ACCESS_CHECKS_MAX)
        .map(|_| tokio::spawn(sent(given.router.clone(), posted(creation(&given_aw())))))
        .collect();
    while given.asked() < ACCESS_CHECKS_MAX as usize {
        tokio::task::yield_now().await;
    }
    let (status, text) = given.told(creation(&given_aw())).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{text}");
    assert!(given.counted("unknown", "overloaded"));
    let Cluster::Waits(permits) = &given.cluster.0 else { unreachable!("it waits") };
    permits.add_permits(ACCESS_CHECKS_MAX as usize + 1);
    for each in waiting {
        assert_eq!(each.await.expect("it ends").0, StatusCode::OK);
    }
    assert_eq!(given.told(creation(&given_aw())).await.0, StatusCode::OK, "there is room again");
}

/// A body of a length that is declared, of which nothing comes.
struct Declared(u64);

impl http_body::Body for Declared {
    type Data = bytes::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, std::io::Error>>> {
        std::task::Poll::Pending
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.0)
    }
}

/// The peer of a request, as the listener notes it.
fn of_peer(mut request: Request<Body>, number: u8) -> Request<Body> {
    let peer = Peer::V4(std::net::Ipv4Addr::new(10, 0, 0, number));
    request.extensions_mut().insert(peer);
    request
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_large_is_refused_before_it_comes() {
    let given = given(Cluster::Panics);
    let begin = tokio::time::Instant::now();
    let body = Body::new(Declared(BODY_BYTES_MAX as u64 + 1));
    assert_eq!(given.told(body).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(begin.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn large_bodies_that_do_not_come_hold_up_no_small_one_and_no_other_peer() {
    let given = given(Cluster::Agrees);
    let slow = |number: u8| {
        let body = Body::new(Declared(BODY_BYTES_MAX as u64));
        tokio::spawn(sent(given.router.clone(), of_peer(posted(body), number)))
    };
    let waiting: Vec<_> = (0..100).map(|_| slow(1)).collect();
    tokio::task::yield_now().await;
    let large = || {
        let review = creation(&given_aw());
        format!("{review}{}", " ".repeat(SMALL_BODY_MAX))
    };
    let of = async |number: u8, body: String| {
        sent(given.router.clone(), of_peer(posted(body), number)).await.0
    };
    assert_eq!(of(1, large()).await, StatusCode::TOO_MANY_REQUESTS, "it has its part");
    let waiting_again: Vec<_> = (0..100).map(|_| slow(1)).collect();
    tokio::task::yield_now().await;
    assert_eq!(of(2, large()).await, StatusCode::OK, "another peer has not");
    assert_eq!(of(1, creation(&given_aw())).await, StatusCode::OK, "and small ones need none");
    for each in waiting.into_iter().chain(waiting_again) {
        let status = each.await.expect("it ends").0;
        assert!([StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status));
    }
    assert_eq!(of(1, large()).await, StatusCode::OK, "all was given back");
}

#[tokio::test(start_paused = true)]
async fn one_peer_does_not_get_all_access_checks() {
    let given = given(Cluster::Waits(Semaphore::new(0)));
    let ask = |number: u8| {
        let request = of_peer(posted(creation(&given_aw())), number);
        tokio::spawn(sent(given.router.clone(), request))
    };
    let waiting: Vec<_> = (0..2 * ACCESS_CHECKS_MAX).map(|_| ask(1)).collect();
    let mut limited = 0;
    let Cluster::Waits(permits) = &given.cluster.0 else { unreachable!("it waits") };
    let other = ask(2);
    while given.asked() <= 20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(given.asked(), 21, "its part, and that of the other");
    permits.add_permits(4 * ACCESS_CHECKS_MAX as usize);
    assert_eq!(other.await.expect("it ends").0, StatusCode::OK);
    for each in waiting {
        limited += usize::from(each.await.expect("it ends").0 != StatusCode::OK);
    }
    assert!(limited < 2 * ACCESS_CHECKS_MAX as usize);
}

/// With ever new identities nothing is remembered.
#[tokio::test]
async fn a_user_who_makes_us_ask_too_often_is_told_to_come_again() {
    let given = given(Cluster::Agrees);
    let of = async |number: usize| {
        let review = given_review(VALIDATE, "CREATE", &Value::Null, &given_aw());
        let review = with(&review, "/request/userInfo/uid", json!(number.to_string()));
        let (status, text) = given.told(review.to_string()).await;
        assert_eq!(status, StatusCode::OK);
        response(&text)
    };
    let mut refused = None;
    for number in 0..2_000 {
        let found = of(number).await;
        if found["allowed"] == json!(false) {
            refused = Some(found);
            break;
        }
    }
    let refused = refused.expect("one is refused");
    assert_eq!(refused["status"]["code"], 429, "{refused}");
    assert!(refused["status"]["details"]["retryAfterSeconds"].as_u64() >= Some(1), "{refused}");
    assert!(given.asked() < 1_000, "{}", given.asked());
    // an update that changes no template asks nothing, and is not held up
    let labelled = with(&given_aw(), "/metadata/labels", json!({"a": "b"}));
    let update = given_review(VALIDATE, "UPDATE", &given_aw(), &labelled).to_string();
    let (_, text) = given.told(update).await;
    assert_eq!(response(&text)["allowed"], json!(true), "{text}");
    assert!(given.counted_at_least_one("CREATE", "overloaded"));
}

#[tokio::test]
async fn more_kinds_than_anybody_needs_are_neither_asked_about_nor_charged() {
    let given = given(Cluster::Agrees);
    let mut dear = given_aw();
    let components = dear["spec"]["components"].as_array_mut().expect("a list");
    components.extend((0..64).map(|i| {
        json!({"template": {"apiVersion": "example.org/v1", "kind": format!("Kind{i}"),
            "metadata": {"name": format!("n{i}")}}})
    }));
    let told = async |aw: &Value| {
        let review = given_review(VALIDATE, "CREATE", &Value::Null, aw).to_string();
        response(&given.told(review).await.1)
    };
    for _ in 0..20 {
        let found = told(&dear).await;
        let message = found["status"]["message"].to_string();
        assert!(message.contains("must wrap at most 64 different kinds, not 65"), "{found}");
        assert_eq!(found["status"]["code"], 403);
    }
    assert_eq!(given.asked(), 0);
    assert_eq!(told(&given_aw()).await["allowed"], json!(true));
}

/// What is small as text and large once it is read.
#[tokio::test]
async fn dense_objects_are_refused_before_they_are_read() {
    let given = given(Cluster::Panics);
    let dense = format!("[{}]", vec![r#"{"":0}"#; 30_000].join(","));
    let review = given_review(VALIDATE, "CREATE", &Value::Null, &given_aw()).to_string();
    let review =
        review.replacen(r#""components":["#, &format!(r#""dense":{dense},"components":["#), 1);
    let (status, text) = given.told(review).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    assert!(text.starts_with("request.object has too many fields and items"), "{text}");
    let groups = with(
        &given_review(VALIDATE, "CREATE", &Value::Null, &given_aw()),
        "/request/userInfo/groups",
        json!(vec![""; 1_200_000]),
    );
    let (status, text) = given.told(groups.to_string()).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
}

#[tokio::test]
async fn access_checks_that_fail_fill_no_log() {
    let (lines, _guard) = crate::telemetry::count_lines();
    let given = given(Cluster::IsAway);
    let review = given_review(VALIDATE, "CREATE", &Value::Null, &given_aw()).to_string();
    for _ in 0..30 {
        assert_eq!(given.sent(of_peer(posted(review.clone()), 1)).await.0, StatusCode::OK);
    }
    let count = lines.load(Ordering::SeqCst);
    assert!((10..20).contains(&count) && given.asked() > 20, "{count} lines");
}

/// One line for each denial, at most so often; that does not use up the lines of failures.
#[tokio::test]
async fn denials_are_logged_with_the_user_and_hide_no_failure() {
    let (lines, _guard) = crate::telemetry::count_lines();
    let given = given(Cluster::Agrees);
    let bad = creation(&with(&given_aw(), "/spec/components", json!([])));
    let review = async |body: &str| given.sent(of_peer(posted(body.to_owned()), 1)).await.0;
    assert_eq!(review(&bad).await, StatusCode::OK);
    assert_eq!(lines.load(Ordering::SeqCst), 1);
    for _ in 0..30 {
        assert_eq!(review(&bad).await, StatusCode::OK);
    }
    let denials = lines.load(Ordering::SeqCst);
    assert!((10..20).contains(&denials), "{denials} lines");
    assert_eq!(review("{}").await, StatusCode::BAD_REQUEST);
    assert_eq!(lines.load(Ordering::SeqCst), denials + 1);
}

/// By its name in Kubernetes.
#[tokio::test]
async fn the_log_says_for_which_reason_a_request_was_denied() {
    let (lines, _guard) = crate::telemetry::testing::keep_lines(false, "info");
    let given = given(Cluster::Agrees);
    let bad = creation(&with(&given_aw(), "/spec/components", json!([])));
    assert_eq!(given.sent(of_peer(posted(bad), 1)).await.0, StatusCode::OK);
    assert!(lines.text().contains(r#"reason="Invalid""#), "{}", lines.text());
}

#[tokio::test]
async fn a_peer_that_sends_garbage_fills_no_log() {
    let (lines, _guard) = crate::telemetry::count_lines();
    let given = given(Cluster::Agrees);
    for _ in 0..50 {
        assert_eq!(given.sent(of_peer(posted("{}"), 1)).await.0, StatusCode::BAD_REQUEST);
    }
    let of_one = lines.load(Ordering::SeqCst);
    assert!((10..50).contains(&of_one), "{of_one} lines");
    given.sent(of_peer(posted("{}"), 2)).await;
    assert_eq!(lines.load(Ordering::SeqCst), of_one + 1, "another peer has its own");
}
