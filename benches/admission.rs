//! How long an API server waits for an answer: 200 questions a second over TLS connections that are
//! kept, the server on a thread of its own as in production. The last runs ask a real API server about
//! rights: one that has answered for this user before, and for a new user each time.
//!
//! `cargo bench --bench admission`
//!
//! A question is sent at its moment, whether or not the ones before are answered, and its time runs
//! from that moment: a server that stalls is not asked less.

#![expect(clippy::print_stdout, reason = "a benchmark says what it measured")]

use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use appwrapper::certificate::{Generation, Name};
use appwrapper::clock::{Clock, SystemClock};
use appwrapper::config::Config;
use appwrapper::kinds::Reference;
use appwrapper::metrics::Metrics;
use appwrapper::tls::{self, Current, Limits};
use appwrapper::webhook::Identity;
use appwrapper::webhook::access::Reviews;
use appwrapper::webhook::authorize::{AccessError, Authorize, Named, Wrapped};
use appwrapper::webhook::judge::Endpoint;
use appwrapper::webhook::server::{Admission, router};
use appwrapper::webhook::validate::Finding;
use bytes::Bytes;
use controlplane::{ControlPlane, Options};
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Questions a second.
const RATE: u32 = 200;
/// How long it goes on.
const SECONDS: u32 = 20;
/// Questions before it counts: connections are made, schemas are read.
const WARM_UP: u32 = RATE;

type Https = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

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

    fn missing<'a>(&'a self, _: &'a str, _: &'a [Named]) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(std::future::ready(vec![]))
    }

    fn referenced<'a>(
        &'a self,
        _: &'a str,
        _: &'a Reference,
    ) -> BoxFuture<'a, Result<Option<String>, AccessError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A question and where it is sent to.
#[derive(Clone)]
struct Question {
    path: &'static str,
    body: Bytes,
}

/// Who is asked about rights.
enum Cluster {
    /// Nobody, or something that takes so long.
    Agrees(Duration),
    /// A real API server.
    Real(Box<kube::Config>),
}

/// Where the server is, and who has signed its certificate.
struct Server {
    port: u16,
    authority: String,
}

fn main() {
    let some = Duration::from_millis(5);
    let agrees = || Cluster::Agrees(Duration::ZERO);
    let [mutate, create, update] = questions();
    println!("{RATE} questions a second for {SECONDS} s, in ms:");
    println!("{:<52} {:>8} {:>8} {:>8}", "", "p50", "p99", "max");
    run("to fill in", agrees(), |_| mutate.clone());
    run("a change by Kueue", agrees(), |_| update.clone());
    run("a creation, without the cluster", agrees(), |_| create.clone());
    run("a creation, the cluster answers after 5 ms", Cluster::Agrees(some), |_| create.clone());
    let plane = runtime().block_on(ControlPlane::start(Options { nodes: 0, ..Options::default() }));
    let plane = plane.expect("a control plane");
    let real = || Cluster::Real(Box::new(plane.config()));
    let job = |user: &str| {
        let new = job_wrapper();
        question(Endpoint::ValidateAppWrapper, "CREATE", user, &Value::Null, &new)
    };
    let known = job("ann");
    run("a creation, a real API server, one user", real(), |_| known.clone());
    // members of system:masters, so that each is allowed
    run("a creation, a real API server, always a new user", real(), |nth| {
        job(&format!("user-{nth}"))
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Asks these questions and prints how long the answers took.
fn run(name: &str, cluster: Cluster, question: impl Fn(u32) -> Question) {
    let server = serve(cluster);
    let mut times = runtime().block_on(load(&server, question));
    times.sort_unstable();
    let at = |permille: usize| {
        let index = (times.len() * permille / 1000).min(times.len() - 1);
        format!("{:.2}", times[index].as_secs_f64() * 1000.0)
    };
    println!("{name:<52} {:>8} {:>8} {:>8}", at(500), at(990), at(1000));
}

/// Starts a server on a thread of its own, which ends with the process.
fn serve(cluster: Cluster) -> Server {
    let name = Name::parse("127.0.0.1").expect("an address");
    let now = SystemClock.now();
    let valid = (now - Duration::from_mins(1), now + Duration::from_hours(1));
    let made = Generation::make(&[name].into(), valid).expect("a certificate");
    let authority = made.authority.clone();
    let current = Arc::new(Current::new());
    current.set(made.check().expect("it is right").pair().clone());
    let (tell, port) = mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            tell.send(address.port()).expect("it is waited for");
            let router = router(Arc::new(admission(cluster)));
            let stop = std::future::pending();
            tls::serve(listener, router, current, None, Limits::default(), stop).await;
        });
    });
    Server { port: port.recv().expect("it listens"), authority }
}

fn admission(cluster: Cluster) -> Admission {
    let config = Arc::new(Config::default());
    let clock = Arc::new(SystemClock);
    let authorize: Arc<dyn Authorize> = match cluster {
        Cluster::Agrees(after) => Arc::new(Agrees(after)),
        Cluster::Real(config) => {
            let client = kube::Client::try_from(*config).expect("a client");
            Arc::new(Reviews::new(client, clock.clone()))
        }
    };
    Admission {
        config: Box::new(move || config.clone()),
        kueue: Box::new(|| None),
        own_account: Arc::new(OnceLock::new()),
        authorize,
        metrics: Metrics::new(),
        clock,
    }
}

fn client(authority: &str) -> Https {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate");
    roots.add(authority).expect("it can be trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_http1()
        .wrap_connector(connector);
    Client::builder(TokioExecutor::new()).build(connector)
}

async fn load(server: &Server, question: impl Fn(u32) -> Question) -> Vec<Duration> {
    let client = client(&server.authority);
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut answers = JoinSet::new();
    for nth in 0..WARM_UP + RATE * SECONDS {
        let due = ticks.tick().await;
        let (client, question, port) = (client.clone(), question(nth), server.port);
        answers.spawn(async move {
            ask(&client, port, question).await;
            (nth, due.elapsed())
        });
    }
    let times = answers.join_all().await.into_iter();
    times.filter(|(nth, _)| *nth >= WARM_UP).map(|(_, took)| took).collect()
}

async fn ask(client: &Https, port: u16, question: Question) {
    let request = http::Request::post(format!("https://127.0.0.1:{port}{}", question.path))
        .header("content-type", "application/json")
        .body(Full::new(question.body))
        .expect("a request");
    let response = client.request(request).await.expect("a response");
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let answer: Value = serde_json::from_slice(&body).expect("an AdmissionReview");
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
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
            "userInfo": {"username": username, "groups": ["system:masters", "system:authenticated"]},
            "object": new, "oldObject": old,
        },
    });
    Question { path: endpoint.path(), body: review.to_string().into() }
}

/// A Job: of a kind that every cluster serves.
fn job_wrapper() -> Value {
    let mut aw = app_wrapper(true);
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [
        {"name": "pytorch", "image": "registry.example.com/team/train:1"},
    ]}});
    aw["spec"]["components"] = json!([{"template": {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
        "spec": {"template": template},
    }}]);
    aw
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
