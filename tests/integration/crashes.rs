//! The controller is killed at every one of its writes, before it is sent and after it was applied, and
//! started again with an empty memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use appwrapper::clock::SystemClock;
use appwrapper::controller::Controller;
use controlplane::ControlPlane;
use futures::future::join_all;
use http::{Method, Request, Uri};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::Notify;

use crate::harness::{self, Case, Log, job, own_crds, runtime, start_plane, tuned};

/// A control plane of its own: the controllers of these tests must be the only ones.
static PLANE: LazyLock<ControlPlane> = LazyLock::new(|| start_plane(own_crds()));

/// When the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The write was not sent.
    Before,
    /// The write was applied, and its reply was lost.
    After,
}

/// The writes that the controller makes for a Job that fails once and then succeeds: finalizer,
/// Resuming, create, Running, ready, Resetting, delete, gone, and again up to Succeeded.
const WRITES: usize = 13;

/// The death of a process: whether it was met, and who is to be told.
#[derive(Debug, Default)]
struct Death {
    met: AtomicBool,
    told: Notify,
}

/// A client that sees one namespace only, and at whose n-th write the process dies.
fn mortal_client(namespace: &str, at: usize, moment: Moment, death: Arc<Death>) -> Client {
    let client = PLANE.client();
    let writes = Arc::new(AtomicUsize::new(0));
    let namespace = namespace.to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let (client, death, writes) = (client.clone(), death.clone(), writes.clone());
        *request.uri_mut() = within(request.uri(), &namespace);
        async move {
            let is_event = request.uri().path().ends_with("/events");
            let is_write = *request.method() != Method::GET && !is_event;
            let fatal = is_write && writes.fetch_add(1, Ordering::SeqCst) == at;
            if !fatal {
                return client.send(request).await;
            }
            death.met.store(true, Ordering::SeqCst);
            if moment == Moment::After {
                drop(client.send(request).await);
            }
            death.told.notify_one();
            std::future::pending().await
        }
    });
    Client::new(service, "default")
}

/// A list or watch of all namespaces becomes one of a single namespace.
fn within(uri: &Uri, namespace: &str) -> Uri {
    let path = uri.path();
    let plural = path.rsplit('/').next().unwrap_or_default();
    let of_all =
        ["appwrappers", "pods", "jobs"].contains(&plural) && !path.contains("/namespaces/");
    if !of_all {
        return uri.clone();
    }
    let start = path.len() - plural.len();
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let scoped = format!("{}namespaces/{namespace}/{plural}{query}", &path[..start]);
    scoped.parse().expect("a path")
}

async fn live_and_die(case: &Case, at: usize, moment: Moment, death: Arc<Death>) {
    let controller = |client| Controller::new(client, Arc::new(SystemClock), harness::config());
    let client = mortal_client(&case.namespace, at, moment, death.clone());
    controller(client).run(death.told.notified()).await;
    let client = mortal_client(&case.namespace, usize::MAX, moment, Arc::default());
    controller(client).run(std::future::pending()).await;
}

/// What must hold whenever the controller died.
fn check(log: &Log, what: &str) {
    harness::quota_without_a_gap(log, "aw");
    harness::attempts_do_not_overlap(log);
    let last = log.last("AppWrapper", "aw").expect("it is there");
    assert_eq!(last.object["status"]["resettingCount"], 1, "{what}");
    let attempts = last.object["status"]["attempts"].as_array().expect("attempts are recorded");
    assert_eq!(attempts.len(), 2, "{what}: {attempts:?}");
    assert_eq!(log.uids("Job", "j").len(), 2, "{what}: one Job an attempt");
    assert_eq!(log.uids("Pod", "j").len(), 2, "{what}: one pod an attempt");
}

#[test]
fn the_controller_may_die_at_any_write() {
    LazyLock::force(&PLANE);
    runtime().block_on(async {
        let plans = (0..WRITES).flat_map(|at| [(at, Moment::Before), (at, Moment::After)]);
        join_all(plans.map(|(at, moment)| async move {
            let what = format!("death-{at}-{moment:?}").to_lowercase();
            let case = Case::new(PLANE.client(), &what).await;
            case.record("batch/v1", "Job").await;
            let life = [("run-for", "1s"), ("fail-until-attempt", "1")];
            case.wrap("aw", tuned(&[]), vec![job("j", json!({}), &life)]).await;
            let death = Arc::<Death>::default();
            tokio::select! {
                () = live_and_die(&case, at, moment, death.clone()) => {}
                _ = case.phase("aw", "Succeeded") => {}
            }
            assert!(death.met.load(Ordering::SeqCst), "{what}: there are fewer writes than that");
            check(&case.log(), &what);
        }))
        .await;
    });
}
