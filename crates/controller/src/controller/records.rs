//! Deletes records of AppWrappers that are too old or too many, off the path of reconciles.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, timeout};

use crate::act::record as act;
use crate::locked::Locked;
use crate::reconcile::Context;
use crate::record::{Kept, expired};
use crate::telemetry;

/// How often the records are counted.
const EVERY: Duration = Duration::from_mins(10);
/// How many records are deleted at a time.
const DELETED_AT_ONCE: usize = 1000;
/// How long it may take in all to list the records, and to delete some of them.
const WITHIN: Duration = Duration::from_mins(5);

/// Deletes what is too old or too much, while a history is kept; never ends. For the leader alone.
pub(super) async fn tidy(context: &Context) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if !context.config().history.enabled {
            continue;
        }
        Box::pin(tidy_once(context)).await;
    }
}

async fn tidy_once(context: &Context) {
    // of a namespace with more, some are left to be deleted in any case
    let most = context.config().history.per_namespace.saturating_add(DELETED_AT_ONCE + 1);
    let all = match timeout(WITHIN, act::list(&context.client, most)).await {
        Ok(Ok(all)) => all,
        Ok(Err(error)) => {
            tracing::warn!(cause = telemetry::chain(&error), "The records cannot be counted.");
            return;
        }
        Err(_) => {
            tracing::warn!("Timed out counting records of AppWrappers.");
            return;
        }
    };
    let config = context.config();
    let going = expired(all, &config.history, context.clock.now());
    // how many are left to be deleted, by namespace
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for kept in &going {
        *left.entry(&kept.namespace).or_default() += 1;
    }
    if timeout(WITHIN, delete(context, &going, &mut left)).await.is_err() {
        tracing::warn!("Timed out deleting records of AppWrappers.");
    }
    let behind = left.into_iter().filter(|(_, count)| *count > 0);
    let behind = behind.map(|(namespace, _)| namespace.to_owned()).collect();
    context.records.locked().renew(&behind);
}

/// Deletes records. One that cannot be deleted keeps no other; without an answer, and where the API server asks to
/// wait, the rest waits for the next time.
async fn delete<'a>(context: &Context, going: &'a [Kept], left: &mut BTreeMap<&'a str, usize>) {
    let mut first = None;
    let mut failed = 0_usize;
    for kept in going.iter().take(DELETED_AT_ONCE) {
        match act::remove(&context.client, kept).await {
            Ok(()) => {
                left.entry(&kept.namespace).and_modify(|count| *count = count.saturating_sub(1));
            }
            Err(error) => {
                failed += 1;
                let concerns_all = !error.concerns_one_object();
                first.get_or_insert(error);
                if concerns_all {
                    break;
                }
            }
        }
    }
    if let Some(error) = first {
        tracing::warn!(failed, cause = telemetry::chain(&error), "Records were not deleted.");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response};
    use k8s_openapi::jiff::Timestamp;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::ManualClock;
    use crate::config::{Config, History};

    /// An API server with these ConfigMaps, that deletes those of namespace `stuck` never; and what it deleted.
    fn server(maps: Vec<Value>, code: u16) -> (Client, Arc<Mutex<Vec<String>>>) {
        let deleted = Arc::<Mutex<Vec<String>>>::default();
        let log = deleted.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, maps) = (log.clone(), maps.clone());
            async move {
                let path = request.uri().path().to_owned();
                let failure = json!({"status": "Failure", "code": code, "message": "no"});
                let (code, body) = match *request.method() {
                    Method::GET => (200, json!({"kind": "List", "metadata": {}, "items": maps})),
                    _ if path.contains("/stuck/") => (code, failure),
                    _ => {
                        log.lock().unwrap().push(path.rsplit('/').next().unwrap().to_owned());
                        (200, json!({"kind": "Status", "status": "Success"}))
                    }
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, kube::Error>(Response::builder().status(code).body(body).unwrap())
            }
        });
        (Client::new(service, "default"), deleted)
    }

    fn map(namespace: &str, number: usize, deleting: bool) -> Value {
        let name = format!("appwrapper-record-{namespace}-{number}");
        let time = "2026-01-01T00:00:00Z";
        let mut metadata = json!({"name": name, "namespace": namespace, "uid": name,
            "creationTimestamp": time});
        if deleting {
            metadata["deletionTimestamp"] = time.into();
            metadata["finalizers"] = json!(["example.org/never"]);
        }
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    }

    #[tokio::test]
    async fn many_records_of_one_namespace_keep_no_others_from_being_deleted() {
        let of = |namespace, count: usize| (0..count).map(move |i| map(namespace, i, false));
        let many = DELETED_AT_ONCE * 3;
        let (client, deleted) = server(of("flood", many).chain(of("well", 3)).collect(), 500);
        let listed = act::list(&client, 10).await.unwrap();
        let count = |name| listed.iter().filter(|kept| kept.namespace == name).count();
        assert_eq!((count("flood"), count("well")), (10, 3));
        let now: Timestamp = "2026-01-01T00:00:01Z".parse().unwrap();
        let history = History { enabled: true, per_namespace: 1, ..History::default() };
        let config = Config { history: history.clone(), ..Config::default() };
        let context = Context::new(client, Arc::new(ManualClock::at(now)), config, |_| ());
        let take = |namespace, uid| context.records.lock().unwrap().take(namespace, uid, &history);
        assert_eq!(["flood", "well"].map(|of| take(of, "first")), [true; 2]);
        tidy_once(&context).await;
        assert_eq!(deleted.lock().unwrap().len(), DELETED_AT_ONCE);
        let well = deleted.lock().unwrap().iter().filter(|name| name.contains("-well-")).count();
        assert_eq!(well, 2);
        let second = ["flood", "well"].map(|of| take(of, "second"));
        assert_eq!(second, [false, true], "only where none is left");
    }

    /// Whoever may change a ConfigMap may write any time of Go there.
    #[tokio::test]
    async fn no_time_in_a_map_keeps_the_records_from_being_counted() {
        let mut far = map("far", 0, false);
        far["metadata"]["managedFields"] = json!([{"time": "9999-12-31T23:59:59Z"}]);
        let maps = vec![far, map("well", 0, false), map("well", 1, false)];
        let (client, deleted) = server(maps, 500);
        let listed = act::list(&client, 10).await.unwrap();
        assert_eq!(listed.len(), 3, "{listed:?}");
        let now: Timestamp = "2026-01-01T00:00:01Z".parse().unwrap();
        let history = History { enabled: true, per_namespace: 1, ..History::default() };
        let config = Config { history, ..Config::default() };
        let context = Context::new(client, Arc::new(ManualClock::at(now)), config, |_| ());
        tidy_once(&context).await;
        let deleted = deleted.lock().unwrap();
        assert_eq!(deleted.len(), 1);
        assert!(deleted[0].contains("-well-"), "{deleted:?}");
    }

    #[tokio::test]
    async fn a_record_that_cannot_be_deleted_keeps_no_other() {
        for (code, want) in [(500, 2), (403, 2), (429, 0)] {
            let maps = vec![
                map("stuck", 0, false),
                map("stuck", 1, false),
                map("well", 0, false),
                map("well", 1, false),
                map("held", 0, true),
            ];
            let (client, deleted) = server(maps, code);
            let now: Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
            let history = History { enabled: true, per_namespace: 1, ..History::default() };
            let config = Config { history: history.clone(), ..Config::default() };
            let context = Context::new(client, Arc::new(ManualClock::at(now)), config, |_| ());
            let take = |of, uid| context.records.lock().unwrap().take(of, uid, &history);
            let all = ["stuck", "well", "held", "none"];
            assert_eq!(all.map(|of| take(of, "first")), [true; 4]);
            assert_eq!(all.map(|of| take(of, "second")), [false; 4]);
            tidy_once(&context).await;
            assert_eq!(deleted.lock().unwrap().len(), want, "{code}");
            let renewed = [false, want > 0, true, true];
            let third = all.map(|of| take(of, "third"));
            assert_eq!(third, renewed, "{code}: only where none is left to be deleted");
        }
    }
}
