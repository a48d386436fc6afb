//! The start of the controller, with an API server that answers what the test lets it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

use http::{Method, Request, Response, Uri};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::act::events::{About, EventType};
use crate::clock::SystemClock;

/// A server with one AppWrapper, which lists pods once that is allowed, and counts writes.
#[derive(Clone, Default)]
struct Server {
    lists_pods: Arc<AtomicBool>,
    /// The code of a list of `NodeSuspicion`s, where nodes are listed, too; zero where neither is answered.
    suspicions: Arc<AtomicU16>,
    writes: Arc<AtomicUsize>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let items = server.listed(request.method().clone(), request.uri().clone()).await;
                let meta = json!({"resourceVersion": "1"});
                let list =
                    json!({"apiVersion": "v1", "kind": "List", "metadata": meta, "items": items});
                let (code, body) = match server.suspicions.load(Ordering::Relaxed) {
                    code if code >= 400 && request.uri().path().ends_with("/nodesuspicions") => {
                        (code, json!({"status": "Failure", "code": code, "message": "no"}))
                    }
                    _ => (200, list),
                };
                let body = Body::from(body.to_string().into_bytes());
                Response::builder().status(code).body(body).map_err(kube::Error::HttpError)
            }
        });
        Client::new(service, "default")
    }

    async fn listed(&self, method: Method, uri: Uri) -> Value {
        if method != Method::GET {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        match uri.path() {
            "/apis/workload.codeflare.dev/v1beta2/appwrappers" if !is_watch => {
                let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                    "spec": {"containers": [{"name": "main", "image": "i"}]}});
                json!([{"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
                    "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"},
                    "spec": {"components": [{"template": pod}]}}])
            }
            "/api/v1/pods" if !is_watch => {
                while !self.lists_pods.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_secs(1)).await; // of virtual time
                }
                json!([])
            }
            path if !is_watch
                && self.suspicions.load(Ordering::Relaxed) > 0
                && (path.ends_with("/nodes") || path.ends_with("/nodesuspicions")) =>
            {
                json!([])
            }
            _ => std::future::pending().await, // nodes as well
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_before_the_pods_are_listed_and_nodes_are_waited_for_only_for_a_while() {
    let server = Server::default();
    let clock = Arc::new(SystemClock);
    let controller = Controller::new(server.client(), clock, Config::default());
    let ready = controller.ready();
    let run = tokio::spawn(controller.run(std::future::pending()));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(server.writes.load(Ordering::Relaxed), 0, "it may have left pods");
    assert!(!*ready.borrow(), "no pods are known");
    server.lists_pods.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.writes.load(Ordering::Relaxed), 0, "a verdict may rest on a node");
    while server.writes.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(*ready.borrow(), "the webhook answers, too");
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn the_first_decisions_wait_a_while_for_suspect_nodes() {
    for (code, waits) in [(200, false), (404, false), (429, true)] {
        let server = Server::default();
        server.lists_pods.store(true, Ordering::Relaxed);
        server.suspicions.store(code, Ordering::Relaxed);
        let clock = Arc::new(SystemClock);
        let controller = Controller::new(server.client(), clock, Config::default());
        let run = tokio::spawn(controller.run(std::future::pending()));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(server.writes.load(Ordering::Relaxed) == 0, waits, "{code}");
        server.suspicions.store(200, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(server.writes.load(Ordering::Relaxed) > 0, "{code}: they are listed");
        run.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_decisions_wait_a_while_for_the_configuration_of_kueue() {
    for is_read in [true, false] {
        let server = Server::default();
        server.lists_pods.store(true, Ordering::Relaxed);
        let clock = Arc::new(SystemClock);
        let controller = Controller::new(server.client(), clock, Config::default());
        let (context, ready) = (controller.context.clone(), controller.ready());
        context.await_kueue();
        let run = tokio::spawn(controller.run(std::future::pending()));
        watches::until(ready).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(server.writes.load(Ordering::Relaxed), 0, "Kueue may replace a failed node");
        if is_read {
            context.set_kueue(crate::kueue::KueueSettings::default());
            tokio::time::sleep(Duration::from_secs(2)).await;
        } else {
            tokio::time::sleep(Duration::from_secs(9)).await;
        }
        assert!(server.writes.load(Ordering::Relaxed) > 0, "read: {is_read}");
        run.abort();
    }
}

/// The server answers no write.
#[tokio::test(start_paused = true)]
async fn the_end_waits_a_moment_for_events_and_counts_those_lost() {
    let server = Server::default();
    let controller = Controller::new(server.client(), Arc::new(SystemClock), Config::default());
    let context = controller.context.clone();
    let about = About { namespace: "n", name: "a", uid: "u" };
    context.tell(&about, EventType::Normal, "Running", "m");
    let begin = tokio::time::Instant::now();
    controller.run(std::future::ready(())).await;
    let waited = begin.elapsed();
    assert!((EVENTS_SENT_WITHIN..EVENTS_SENT_WITHIN * 2).contains(&waited), "{waited:?}");
    assert_eq!(server.writes.load(Ordering::Relaxed), 1);
    assert!(context.metrics.page().contains("appwrapper_events_dropped_total 1\n"));
}

#[test]
fn errors_in_a_row_have_a_cool_down() {
    let seconds = Duration::from_secs;
    for (errors, pause, asked, want) in [
        (1, 1, None, (Requeue::After(seconds(1)), seconds(0))),
        (2, 2, None, (Requeue::After(seconds(2)), seconds(2))),
        (7, 60, None, (Requeue::After(seconds(60)), COOL_DOWN_AFTER_ERROR_MAX)),
        (1, 1, Some(7), (Requeue::NotBefore(seconds(7)), seconds(0))),
        (7, 60, Some(7), (Requeue::NotBefore(seconds(60)), seconds(0))),
    ] {
        let found = after_error(errors, seconds(pause), asked.map(seconds));
        assert_eq!(found, want, "{errors} {pause} {asked:?}");
    }
}

#[test]
fn what_failed_together_is_not_retried_together() {
    let pause = Duration::from_secs(8);
    let key = |number: u32| Key { namespace: "n".to_owned(), name: number.to_string() };
    let pauses: BTreeSet<Duration> = (0..64).map(|number| spread(&key(number), pause)).collect();
    assert!(pauses.len() > 32, "{pauses:?}");
    assert!(pauses.iter().all(|it| (pause..=pause * 5 / 4).contains(it)), "{pauses:?}");
}

#[test]
fn a_large_appwrapper_rests_between_reconciles() {
    for (kept, listed, bytes, millis) in [
        (0, 0, 0, 0),
        (0, 0, 1023, 0),
        (0, 0, 4 << 10, 1),
        (4, 0, 4 << 10, 3),
        (0, 0, 1 << 20, 205),
        (0, 0, 64 << 20, 1000),
        // pods of others, which are not kept
        (32, 900, 0, 450),
        (900, 32, 0, 450),
        (32, 2_000, 0, 1000),
    ] {
        let rest = cool_down(kept, listed, bytes);
        assert_eq!(rest.as_micros().div_ceil(1000), millis, "{kept} {listed} {bytes}");
    }
    assert_eq!(cool_down(usize::MAX, usize::MAX, usize::MAX), COOL_DOWN_MAX);
}
