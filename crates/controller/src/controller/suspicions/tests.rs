use std::sync::{Arc, Mutex};

use http::{Request, Response};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::clock::ManualClock;
use crate::observe::raw_object::RawObject;
use crate::observe::suspicions::Stored;
use crate::snapshot::Node;
use crate::snapshot::place::Site;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// A context whose API server accepts every object, and the notes of the events among them.
fn accepting(config: &Config) -> (Context, Arc<Mutex<Vec<String>>>) {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = notes.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let told = told.clone();
        async move {
            let body = request.into_body().collect_bytes().await?.to_vec();
            let object: Value = serde_json::from_slice(&body).unwrap_or_default();
            told.lock().unwrap().extend(object["note"].as_str().map(str::to_owned));
            Response::builder().status(201).body(Body::from(body)).map_err(kube::Error::HttpError)
        }
    });
    let (client, clock) = (Client::new(service, "default"), Arc::new(ManualClock::at(now())));
    (Context::new(client, clock, config.clone(), |_| ()), notes)
}

/// The object of a node that was lost so many times, two minutes apart.
fn lost(node: &str, losses: i64) -> RawObject {
    let loss = |number: i64| {
        let time = now().checked_sub(SignedDuration::from_mins(2 * number)).unwrap();
        json!({"kind": "NodeLost", "namespace": "n", "name": "aw", "uid": format!("u{number}"),
            "attempt": 0, "category": "node", "time": time})
    };
    let evidence: Vec<Value> = (0..losses).map(loss).collect();
    let object =
        json!({"metadata": {"name": node}, "spec": {"nodeUID": "u", "evidence": evidence}});
    serde_json::from_str(&object.to_string()).unwrap()
}

#[tokio::test]
async fn the_event_of_a_suspect_node_says_what_new_attempts_do() {
    let config = Config::parse("nodeSuspicion: {threshold: 90}").unwrap();
    for (node, effect, want) in [
        ("worst", SuspectEffect::Prefer, "pods of new attempts prefer other nodes;"),
        (
            "worst",
            SuspectEffect::Require,
            "pods of new attempts require other nodes if those have room;",
        ),
        // of so few nodes, one may be avoided
        (
            "bad",
            SuspectEffect::Prefer,
            "do not avoid it, since other nodes have more points and no more may be avoided;",
        ),
    ] {
        let (context, notes) = accepting(&config);
        let objects = [("worst", lost("worst", 3)), ("bad", lost("bad", 2))];
        let all = objects.each_ref().map(|(name, _)| (*name).to_owned());
        for name in &all {
            let site = Site { name: name.clone(), uid: "u".into(), ..Site::default() };
            context.cache.put_node(Node::default(), site);
        }
        context.cache.nodes_listed(&all.into_iter().collect());
        let mut record = None;
        for (name, object) in objects {
            if name == node {
                record = Some(Stored::of(&object).record);
            }
            context.suspicions.take(Event::Apply(object));
        }
        let write = Write { node: node.into(), record: record.unwrap(), stored: None };
        write_one(&context, &config, &write, effect).await;
        let notes = notes.lock().unwrap();
        assert!(notes.len() == 1 && notes[0].contains(want), "{notes:?}");
    }
}
