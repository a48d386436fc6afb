//! One webhook configuration that the API server refuses keeps nothing from the other.

use std::sync::Mutex;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::clock::ManualClock;

const CONFIG_MAPS: &str = "configmaps";
/// Paths of the configurations end so, that of the Secret, and that where a `ConfigMap` is created.
const PATHS: [&str; 4] = [MUTATING, VALIDATING, SECRET, CONFIG_MAPS];

/// A method, and the name of a configuration.
type Call = (&'static str, &'static str);

/// An API server with the two configurations, which trust nobody yet, and a Secret with this data. These calls are refused.
fn refusing(refused: &'static [Call], data: Value, written: &Arc<Mutex<Vec<String>>>) -> Client {
    let written = written.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (method, path) = (request.method().as_str(), request.uri().path());
        let name = PATHS.into_iter().find(|name| path.ends_with(name)).unwrap_or_default();
        let service = json!({"name": SERVICE, "namespace": "ns"});
        let kind = match name {
            MUTATING => "MutatingWebhookConfiguration",
            _ => "ValidatingWebhookConfiguration",
        };
        let (code, body) = match (method, name) {
            (_, "") => (
                404,
                json!({"status": "Failure", "code": 404, "reason": "NotFound", "message": "no"}),
            ),
            ("GET", SECRET) => (
                200,
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET},
                    "data": data}),
            ),
            (_, CONFIG_MAPS) => {
                (201, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}}))
            }
            call if refused.contains(&call) => {
                (403, json!({"status": "Failure", "code": 403, "message": "no"}))
            }
            _ => (
                200,
                json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                    "metadata": {"name": name}, "webhooks": [{"clientConfig": {"service": service}}]}),
            ),
        };
        if matches!(method, "PUT" | "POST") {
            written.lock().unwrap().push(name.to_owned());
        }
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(Response::builder().status(code).body(body))
    });
    Client::new(service, "ns")
}

#[tokio::test]
async fn a_refused_configuration_keeps_nothing_from_the_other() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let lifetimes = Lifetimes::default();
    let names = configuration::of_service(SERVICE, "ns").into_iter();
    let names: Names = names.chain(Name::parse("localhost")).collect();
    let current = Generation::make(&names, lifetimes.valid(now)).unwrap().check();
    let mut data = Data::new();
    Certificates { current, ..Certificates::default() }.write(&mut data);
    let data: std::collections::BTreeMap<String, ByteString> =
        data.into_iter().map(|(key, bytes)| (key, ByteString(bytes))).collect();
    let rows: [(&'static [Call], _); 3] = [
        (&[("GET", MUTATING)], vec![VALIDATING]),
        (&[("GET", MUTATING), ("PUT", VALIDATING)], vec![VALIDATING]),
        (&[("PUT", MUTATING)], vec![MUTATING, VALIDATING, CONFIG_MAPS]),
    ];
    for (refused, writes) in rows {
        let written = Arc::default();
        let client = refusing(refused, serde_json::to_value(&data).unwrap(), &written);
        let (clock, current) = (Arc::new(ManualClock::at(now)), Arc::new(Current::new()));
        let names = CertificateNames::of("ns");
        let mut renewer = Renewer::new(&client, clock, current.clone(), names);
        let error = renewer.look().await.unwrap_err().to_string();
        assert!(error.contains(MUTATING), "the first error is returned: {error}");
        assert_eq!(*written.lock().unwrap(), writes, "{refused:?}");
        assert!(current.pair().is_some(), "{refused:?}: nothing is served");
    }
}
