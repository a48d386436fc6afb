//! The listening ports and the Lease.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::ByteString;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{job, wrapper};
use crate::installed::{NAMESPACE, installed_test};

/// Nothing that is waited for takes longer, unless it never comes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Where attackers come from.
const ATTACKERS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 66), Ipv4Addr::new(127, 0, 0, 67)];

/// Where those come from who hold one connection: attackers of another test lose theirs to the places that they take.
const VISITOR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 68);

/// The webhook's port, as anybody sees it.
#[derive(Clone)]
struct Door {
    address: SocketAddr,
    path: String,
    tls: Arc<ClientConfig>,
}

fn object_api(client: &Client, version: [&str; 3], namespace: Option<&str>) -> Api<DynamicObject> {
    let [group, version, kind] = version;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

impl Door {
    async fn find(client: &Client) -> Self {
        let kind = ["admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"];
        let api = object_api(client, kind, None);
        let found = api.get("appwrapper-validating-webhook").await.expect("it is installed");
        let config = &found.data["webhooks"][0]["clientConfig"];
        let url: http::Uri = config["url"].as_str().expect("a URL").parse().expect("a URL");
        let ByteString(bundle) = serde_json::from_value(config["caBundle"].clone()).expect("a CA");
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(&bundle) {
            roots.add(authority.expect("PEM")).expect("a certificate");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = url.authority().expect("a host").as_str().parse().expect("an address");
        Self { address, path: url.path().to_owned(), tls: Arc::new(tls) }
    }

    async fn plain(&self, from: Ipv4Addr) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        socket.connect(self.address).await
    }

    async fn connect(&self, from: Ipv4Addr) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = self.plain(from).await?;
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        TlsConnector::from(self.tls.clone()).connect(name, stream).await
    }

    fn head(&self, length: usize) -> String {
        format!(
            "POST {} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n",
            self.path
        )
    }

    /// What is answered to a review: the status of HTTP, and the body.
    async fn ask(&self, review: &str) -> (u16, String) {
        let mut stream = self.connect(VISITOR).await.expect("it is open");
        let request = self.head(review.len()) + review;
        stream.write_all(request.as_bytes()).await.expect("it is read");
        answer(&mut stream).await
    }
}

/// Reads one answer.
async fn answer(stream: &mut TlsStream<TcpStream>) -> (u16, String) {
    let mut read = vec![];
    let whole = async {
        loop {
            let text = String::from_utf8_lossy(&read).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.map_or(0, |length| length.parse().expect("a number")) {
                    return (head[9..12].parse().expect("a status"), body.to_owned());
                }
            }
            let mut part = [0; 4096];
            let count = stream.read(&mut part).await.expect("an answer");
            assert!(count > 0, "it was closed: {text}");
            read.extend_from_slice(&part[..count]);
        }
    };
    tokio::time::timeout(PATIENCE, whole).await.expect("it is answered")
}

/// A review of a creation, as anybody can write it.
fn review(user: &Value, object: &Value) -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "namespace": "default", "name": "forged",
            "resource": {"group": "workload.codeflare.dev", "version": "v1beta2",
                "resource": "appwrappers"},
            "userInfo": user, "object": object,
        },
    })
    .to_string()
}

/// Holds a connection, and opens it again whenever it is closed, for ever.
async fn occupy(door: Door, number: usize, tried: Arc<Semaphore>) {
    let from = ATTACKERS[number % ATTACKERS.len()];
    loop {
        tried.add_permits(1);
        if number.is_multiple_of(3) {
            // a request that begins and never ends
            if let Ok(mut stream) = door.connect(from).await {
                let head = door.head(1_000);
                let some =
                    &head.as_bytes()[..if number.is_multiple_of(2) { head.len() } else { 30 }];
                drop(stream.write_all(some).await);
                while !matches!(stream.read(&mut [0; 64]).await, Ok(0) | Err(_)) {}
            }
        } else if let Ok(mut stream) = door.plain(from).await {
            while !matches!(stream.read(&mut [0; 64]).await, Ok(0) | Err(_)) {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// More idle and slow connections than there are places: AppWrappers are created all the same.
#[test]
fn idle_and_slow_connections_do_not_close_the_webhook() {
    installed_test("idle_and_slow_connections", async |case| {
        let door = Door::find(&case.client).await;
        let (mut attack, tried) = (JoinSet::new(), Arc::new(Semaphore::new(0)));
        for number in 0..600 {
            attack.spawn(occupy(door.clone(), number, tried.clone()));
        }
        let all = tokio::time::timeout(PATIENCE, tried.acquire_many(600)).await;
        all.expect("they come").expect("it stays open").forget();
        // many at the same time, so that the API server needs connections that it does not have yet
        let case = &case;
        stream::iter(0..40)
            .for_each_concurrent(20, |number| async move {
                let name = format!("created-{number}");
                let template = job(&name, json!({}), &[]);
                let mut object = wrapper(&name, json!({}), vec![template]);
                object["spec"]["suspend"] = true.into();
                let created = case.try_create(object).await;
                created.unwrap_or_else(|error| panic!("{name} is refused: {error}"));
            })
            .await;
        attack.shutdown().await;
        for number in 0..40 {
            case.delete_wrapper(&format!("created-{number}")).await;
        }
    });
}

/// Only the head of a request of 8 MiB comes: it is answered.
#[test]
fn a_body_that_is_too_large_is_refused_by_its_length() {
    installed_test("a_body_that_is_too_large", async |case| {
        let door = Door::find(&case.client).await;
        let mut stream = door.connect(VISITOR).await.expect("it is open");
        stream.write_all(door.head(8 << 20).as_bytes()).await.expect("it is read");
        let (status, text) = answer(&mut stream).await;
        assert_eq!(status, 413, "{text}");
    });
}

/// A review of 1.5 MB that takes 150 MB once it is read.
#[test]
fn a_dense_object_is_refused_before_it_is_read() {
    installed_test("a_dense_object_is_refused", async |case| {
        let door = Door::find(&case.client).await;
        let mut object = wrapper("dense", json!({}), vec![]);
        object["metadata"]["dense"] = vec![json!({"": 0}); 180_000].into();
        let (status, text) = door.ask(&review(&json!({"username": "mallory"}), &object)).await;
        assert_eq!(status, 413, "{text}");
    });
}

/// What is no review is refused as such.
#[test]
fn garbage_is_refused() {
    installed_test("garbage_is_refused", async |case| {
        let door = Door::find(&case.client).await;
        for garbage in ["", "{}", "[[[[", r#"{"apiVersion":"v1","kind":"List"}"#] {
            assert_eq!(door.ask(garbage).await.0, 400, "{garbage}");
        }
    });
}

/// A label, an annotation, an owner and a field that others put on the Lease stay, and a time that no
/// type holds is written over.
#[test]
fn what_others_put_on_the_lease_stays() {
    installed_test("what_others_put_on_the_lease", async |case| {
        let kind = ["coordination.k8s.io", "v1", "Lease"];
        let leases = object_api(&case.client, kind, Some(NAMESPACE));
        let name = "appwrapper-controller";
        let owner = json!({"apiVersion": "v1", "kind": "Namespace", "name": NAMESPACE,
            "uid": owner_uid(&case.client).await});
        let patch = Patch::Merge(json!({
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "keep"},
                "ownerReferences": [owner]},
            "spec": {"renewTime": "9999-12-31T23:59:59.999999Z"},
        }));
        let patched = leases.patch(name, &PatchParams::default(), &patch).await;
        let holder = patched.expect("it is there").data["spec"]["holderIdentity"].clone();
        for _ in 0..3 {
            let before = renewed(&leases.get(name).await.expect("it is there"));
            let again = await_condition(leases.clone(), name, |lease: Option<&DynamicObject>| {
                lease.is_some_and(|lease| renewed(lease) != before)
            });
            let again = tokio::time::timeout(PATIENCE, again).await;
            again.expect("it is renewed").expect("the watch goes on");
        }
        let lease = leases.get(name).await.expect("it is there");
        assert!(!renewed(&lease).starts_with("9999"), "{lease:?}");
        assert_eq!(lease.data["spec"]["holderIdentity"], holder, "the same leads");
        let metadata = &lease.metadata;
        assert_eq!(metadata.labels.as_ref().and_then(|it| it.get("team")), Some(&"a".to_owned()));
        let note = metadata.annotations.as_ref().and_then(|it| it.get("note"));
        assert_eq!(note, Some(&"keep".to_owned()));
        assert_eq!(metadata.owner_references.as_ref().map(Vec::len), Some(1));
    });
}

async fn owner_uid(client: &Client) -> Option<String> {
    let namespaces = object_api(client, ["", "v1", "Namespace"], None);
    namespaces.get(NAMESPACE).await.expect("it is there").metadata.uid
}

fn renewed(lease: &DynamicObject) -> String {
    lease.data["spec"]["renewTime"].as_str().unwrap_or_default().to_owned()
}

/// Who scrapes the metrics is told the authority where the private key is not.
#[test]
fn the_authority_is_told_without_the_key() {
    installed_test("the_authority_is_told_without_the_key", async |case| {
        let maps = object_api(&case.client, ["", "v1", "ConfigMap"], Some(NAMESPACE));
        let map = maps.get("appwrapper-webhook-ca").await.expect("the controller keeps it");
        let data = map.data["data"].as_object().expect("it has data");
        assert_eq!(data.keys().collect::<Vec<_>>(), ["ca.crt"]);
        let text = data["ca.crt"].as_str().expect("a text");
        assert!(text.contains("BEGIN CERTIFICATE") && !text.contains("PRIVATE KEY"), "{text}");
        let monitor = concat!(env!("CARGO_MANIFEST_DIR"), "/config/prometheus/monitor.yaml");
        let monitor = std::fs::read_to_string(monitor).expect("it is there");
        assert!(!monitor.contains("secret:"), "{monitor}");
    });
}
