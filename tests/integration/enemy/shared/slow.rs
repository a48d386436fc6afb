//! An admission webhook of somebody else that lets requests wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::harness::Case;

/// Nothing that a test waits for takes longer, unless it never comes.
const PATIENCE: Duration = Duration::from_mins(2);

/// What came of the requests so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    asked: usize,
    /// Answered, or given up by the API server.
    ended: usize,
}

/// The webhook; it lets everything in once it is released.
pub struct Slow {
    configurations: Api<DynamicObject>,
    name: String,
    counts: watch::Receiver<Counts>,
    released: watch::Sender<bool>,
}

/// A request that is waiting.
struct Held(watch::Sender<Counts>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.ended += 1);
    }
}

impl Slow {
    /// Starts a webhook that is asked about the pods of these namespaces.
    pub async fn start(case: &Case, namespaces: &[&str]) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("the key fits");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}/", listener.local_addr().expect("an address"));
        let (counting, counts) = watch::channel(Counts::default());
        let (released, is_released) = watch::channel(false);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, counting) = (acceptor.clone(), counting.clone());
                let is_released = is_released.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = service_fn(|request| {
                        answer(request, counting.clone(), is_released.clone())
                    });
                    let served =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
                    drop(served.await); // the API server may have given up
                });
            }
        });
        let name = case.namespace.clone();
        let configurations =
            case.cluster_api("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
        let bundle = ByteString(made.cert.pem().into_bytes());
        let entry = json!({
            "name": "slow.example.com", "clientConfig": {"url": url, "caBundle": bundle},
            "failurePolicy": "Ignore", "sideEffects": "None", "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}]},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                       "resources": ["pods"]}],
        });
        let object = json!({"metadata": {"name": name}, "webhooks": [entry]});
        let object = serde_json::from_value(object).expect("an object");
        configurations.create(&PostParams::default(), &object).await.expect("it is accepted");
        Self { configurations, name, counts, released }
    }

    /// Waits until so many pods were asked about.
    pub async fn until_asked(&self, count: usize) {
        let mut counts = self.counts.clone();
        let asked = counts.wait_for(|counts| counts.asked >= count);
        let asked = tokio::time::timeout(PATIENCE, asked).await;
        assert!(asked.is_ok_and(|asked| asked.is_ok()), "asked about {:?}", self.counts.borrow());
    }

    /// How many requests wait no more.
    pub fn ended(&self) -> usize {
        self.counts.borrow().ended
    }

    /// Lets everything in from here on.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    pub async fn remove(self) {
        let removed = self.configurations.delete(&self.name, &DeleteParams::default()).await;
        removed.expect("it was there");
    }
}

async fn answer(
    request: Request<Incoming>,
    counting: watch::Sender<Counts>,
    mut is_released: watch::Receiver<bool>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    counting.send_modify(|counts| counts.asked += 1);
    let held = Held(counting);
    // an error means that the test is over
    drop(is_released.wait_for(|released| *released).await);
    drop(held);
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true}});
    let answer = Response::builder()
        .header("content-type", "application/json")
        .body(Full::new(answer.to_string().into()));
    Ok(answer.expect("an answer"))
}
