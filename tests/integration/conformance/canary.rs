//! Tells when the garbage collector of the real server has seen everything that was written.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::pair::request;
use super::side::Side;

/// The namespace of the canaries.
pub const NAMESPACE: &str = "canaries";

/// An object whose owner is not there is collected; the collector takes changes of a kind one after
/// another, so it has then seen all that came before.
pub async fn sing(real: &Side, kinds: &[&'static Kind]) {
    join_all(kinds.iter().map(|kind| async {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut object = kind.fresh(&format!("canary-{number}"));
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": format!("absent-{number}"),
            "uid": format!("66666666-6666-4666-8666-{number:012}"),
        }]);
        if kind.is_pod() {
            // bound to a node, it would be left time to end
            object["spec"].as_object_mut().expect("an object").remove("nodeName");
        }
        let path = kind.path(NAMESPACE);
        let mut side = Side::new(real.client.clone());
        let answer = side.send(&request("POST", path.clone(), Some(object))).await;
        let of = |key: &str| answer.body["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (name, version) = (of("name"), of("resourceVersion"));
        assert!(!name.is_empty(), "{}", answer.body);
        let query =
            format!("watch=true&resourceVersion={version}&fieldSelector=metadata.name%3D{name}");
        let mut events = side.watch(&format!("{path}?{query}")).await;
        let gone = async {
            while events.next().await.is_some_and(|event: Value| event["type"] != "DELETED") {}
        };
        let outcome = tokio::time::timeout(super::PATIENCE, gone).await;
        outcome.unwrap_or_else(|_| panic!("{}/{name} is not collected", kind.plural));
    }))
    .await;
}
