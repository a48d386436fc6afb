//! What watches tell.

use kube::Client;
use serde_json::Value;

use super::kinds::Kind;
use super::pair::within;
use super::side::{Events, Side};

/// The last object of each kind, by which a watch is known to have told everything.
pub const LAST: &str = "zz-last";

/// All events of one kind on the real server, as they come.
pub struct Mirror {
    pub kind: &'static Kind,
    pub seen: Vec<Value>,
    /// The last version that was written, as far as it was answered.
    pub written: u64,
    side: Side,
    namespace: String,
    /// The version from which the watch began.
    since: String,
    events: Events,
}

impl Mirror {
    pub async fn open(client: Client, kind: &'static Kind, namespace: &str, since: &str) -> Self {
        let side = Side::new(client);
        let events = side.watch(&watch_path(kind, namespace, since, "")).await;
        let (namespace, since) = (namespace.to_owned(), since.to_owned());
        Self { kind, seen: vec![], written: 0, side, namespace, since, events }
    }

    /// Takes one more event. A server may end a watch at any time: it does where a kind was defined
    /// just before.
    pub async fn follow(&mut self) {
        loop {
            if let Some(event) = self.events.next().await {
                self.seen.push(event);
                return;
            }
            let told = self.seen.iter().filter_map(|event| version(&event["object"])).max();
            let since = told.map_or_else(|| self.since.clone(), |version| version.to_string());
            let path = watch_path(self.kind, &self.namespace, &since, "");
            self.events = self.side.watch(&path).await;
        }
    }

    /// Whether every write was told.
    pub fn caught_up(&self) -> bool {
        let told = self.seen.iter().filter_map(|event| version(&event["object"])).max();
        told.unwrap_or(0) >= self.written
    }
}

/// The version of an object.
pub fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// The path of a watch.
pub fn watch_path(kind: &Kind, namespace: &str, version: &str, selector: &str) -> String {
    let mut path =
        format!("{}?watch=true&resourceVersion={version}{selector}", kind.path(namespace));
    // one that a controller writes into each namespace
    if kind.plural == "configmaps" {
        path += "&fieldSelector=metadata.name!%3Dkube-root-ca.crt";
    }
    path
}

/// What a watch tells up to the last object; it is begun again where it ends before.
pub async fn all_events(side: &Side, path: &str) -> Result<Vec<Value>, String> {
    within(async {
        loop {
            let mut events = side.watch(path).await;
            let mut seen: Vec<Value> = vec![];
            while let Some(event) = events.next().await {
                let is_last = event["object"]["metadata"]["name"] == LAST;
                seen.push(event);
                if is_last {
                    return seen;
                }
            }
        }
    })
    .await
    .map_err(|text| format!("{path}: {text}"))
}
