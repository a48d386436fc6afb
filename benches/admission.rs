//! How long an API server waits for an answer: 200 questions a second over connections that are
//! kept, the server on a thread of its own as in production.
//!
//! `cargo bench --bench admission`
//!
//! A question is sent at its moment, whether or not the ones before are answered, and its time runs
//! from that moment: a server that stalls is not asked less.

#![expect(clippy::print_stdout, reason = "a benchmark says what it measured")]

use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use appwrapper::clock::SystemClock;
use appwrapper::config::Config;
use appwrapper::metrics::Metrics;
use appwrapper::webhook::Identity;
use appwrapper::webhook::authorize::{AccessError, Authorize, Wrapped};
use appwrapper::webhook::judge::Endpoint;
use appwrapper::webhook::server::{Admission, router};
use appwrapper::webhook::validate::Finding;
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Questions a second.
const RATE: u32 = 200;
/// How long it goes on.
const SECONDS: u32 = 20;
/// Questions before it counts: connections are made, schemas are read.
const WARM_UP: u32 = RATE;

type Http = Client<HttpConnector, Full<Bytes>>;

/// A cluster that lets everything in, after a while.
struct Agrees(Duration);

impl Authorize for Agrees {
    fn findings<'a>(
        &'a self,
        _: &'a Identity,
        _: &'a str,
        _: &'a [Wrapped<'a>],
        _: bool,
    ) -> BoxFuture<'a, Result<Vec<Finding>, AccessError>> {
        Box::pin(async {
            if !self.0.is_zero() {
                tokio::time::sleep(self.0).await;
            }
            Ok(vec![])
        })
    }
}

/// A question and where it is sent to.
#[derive(Clone)]
struct Question {
    path: &'static str,
    body: Bytes,
}

fn main() {
    let (none, some) = (Duration::ZERO, Duration::from_millis(5));
    let [mutate, create, update] = questions();
    println!("{RATE} questions a second for {SECONDS} s, in ms:");
    println!("{:<44} {:>8} {:>8} {:>8} {:>8}", "", "p50", "p99", "max", "refused");
    run("to fill in", none, std::slice::from_ref(&mutate));
    run("a change by Kueue", none, std::slice::from_ref(&update));
    run("a creation, without the cluster", none, std::slice::from_ref(&create));
    run("a creation, the cluster answers after 5 ms", some, std::slice::from_ref(&create));
    run("all in turn, the cluster answers after 5 ms", some, &[mutate, create, update]);
}

/// Asks these questions in turn and prints how long the answers took.
fn run(name: &str, cluster: Duration, questions: &[Question]) {
    let port = serve(cluster);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (mut times, refused) = runtime.expect("a runtime").block_on(load(port, questions));
    times.sort_unstable();
    let at = |permille: usize| {
        let index = (times.len() * permille / 1000).min(times.len() - 1);
        format!("{:.2}", times[index].as_secs_f64() * 1000.0)
    };
    println!("{name:<44} {:>8} {:>8} {:>8} {refused:>8}", at(500), at(990), at(1000));
}

/// Starts a server on a thread of its own, which ends with the process.
fn serve(cluster: Duration) -> u16 {
    let config = Arc::new(Config::default());
    let admission = Arc::new(Admission {
        config: Box::new(move || config.clone()),
        own_account: Arc::new(OnceLock::new()),
        authorize: Arc::new(Agrees(cluster)),
        metrics: Metrics::new(),
        clock: Arc::new(SystemClock),
    });
    let (tell, port) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            tell.send(address.port()).expect("it is waited for");
            axum::serve(listener, router(admission)).await.expect("it goes on");
        });
    });
    port.recv().expect("it listens")
}

/// How long answers took, and how many questions got none because there were too many.
async fn load(port: u16, questions: &[Question]) -> (Vec<Duration>, usize) {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Http = Client::builder(TokioExecutor::new()).build(connector);
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut answers = JoinSet::new();
    for nth in 0..WARM_UP + RATE * SECONDS {
        let due = ticks.tick().await;
        let question = questions[nth as usize % questions.len()].clone();
        let client = client.clone();
        answers.spawn(async move {
            let answered = ask(&client, port, question).await;
            (nth, due.elapsed(), answered)
        });
    }
    let mut counted = answers.join_all().await;
    counted.retain(|(nth, _, _)| *nth >= WARM_UP);
    let refused = counted.iter().filter(|(_, _, answered)| !answered).count();
    (counted.into_iter().map(|(_, took, _)| took).collect(), refused)
}

/// Whether there was an answer.
async fn ask(client: &Http, port: u16, question: Question) -> bool {
    let request = http::Request::post(format!("http://127.0.0.1:{port}{}", question.path))
        .header("content-type", "application/json")
        .body(Full::new(question.body))
        .expect("a request");
    let response = client.request(request).await.expect("a response");
    if response.status() == http::StatusCode::TOO_MANY_REQUESTS {
        return false;
    }
    assert_eq!(response.status(), http::StatusCode::OK);
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let answer: Value = serde_json::from_slice(&body).expect("an AdmissionReview");
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    true
}

/// To fill in, to create, and to unsuspend an AppWrapper of a usual size.
fn questions() -> [Question; 3] {
    let (mutate, validate) = (Endpoint::MutateAppWrapper, Endpoint::ValidateAppWrapper);
    let suspended = app_wrapper(true);
    [
        question(mutate, "CREATE", "ann", &Value::Null, &suspended),
        question(validate, "CREATE", "ann", &Value::Null, &suspended),
        question(
            validate,
            "UPDATE",
            &Config::default().admission.kueue_account,
            &suspended,
            &app_wrapper(false),
        ),
    ]
}

fn question(
    endpoint: Endpoint,
    operation: &str,
    username: &str,
    old: &Value,
    new: &Value,
) -> Question {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": operation,
            "namespace": "team", "name": "train",
            "resource": {"group": "workload.codeflare.dev", "version": "v1beta2", "resource": "appwrappers"},
            "userInfo": {"username": username, "groups": ["system:authenticated"]},
            "object": new, "oldObject": old,
        },
    });
    Question { path: endpoint.path(), body: review.to_string().into() }
}

/// A PyTorchJob with a Service, and policies: about 8 KiB.
fn app_wrapper(suspend: bool) -> Value {
    let env: Vec<Value> = (0..40)
        .map(|i| json!({"name": format!("SETTING_{i}"), "value": format!("value {i} of a usual length")}))
        .collect();
    let limits = json!({"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"});
    let container = json!({
        "name": "pytorch", "image": "registry.example.com/team/train:1", "env": env,
        "command": ["torchrun", "train.py"], "resources": {"requests": limits, "limits": limits},
    });
    let replica = |count: u32| {
        let template = json!({"spec": {"containers": [container]}});
        json!({"replicas": count, "restartPolicy": "Never", "template": template})
    };
    let job = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train"},
        "spec": {"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(15)}},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "train"},
        "spec": {"selector": {"app": "train"}, "ports": [{"port": 80}]},
    });
    json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {
            "name": "train", "namespace": "team",
            "labels": {"kueue.x-k8s.io/queue-name": "main"},
            "annotations": {"workload.codeflare.dev.appwrapper/retryLimit": "5"},
        },
        "spec": {
            "suspend": suspend,
            "components": [{"template": job}, {"template": service}],
            "failurePolicy": {"rules": [{
                "action": "RestartAppWrapperAndIgnoreMaxRestarts",
                "onJobFailureMessagePatterns": ["node .* (drained|lost)"],
            }]},
            "podFailurePolicy": {"rules": [{
                "action": "FailAppWrapper",
                "onExitCodes": {"containerName": "pytorch", "operator": "In", "values": [42]},
            }]},
        },
    })
}
