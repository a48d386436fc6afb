//! What the API server does not tell, or denies, only for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::Play;
use super::calls::{look, wrapper};
use super::deleted_objects::watched;
use crate::api::{ComponentStatus, Phase, condition, keys};
use crate::clock::ManualClock;
use crate::config::Config;
use crate::kueue::KueueSettings;
use crate::observe::cached_appwrapper::{Before, CachedAppWrapper};
use crate::observe::feed;
use crate::observe::kin::Place;
use crate::observe::memory::ReconcileState;
use crate::observe::raw_object::RawObject;
use crate::observe::retry_sources::Attach;
use crate::plan::FreshRead;
use crate::reconcile::{Context, failed, growth, reconcile, workload};
use crate::snapshot::workload::Workload;
use crate::snapshot::{PodPhase, Snapshot};

/// A context whose API server answers a method and a path so.
pub(super) fn answering(
    answer: impl Fn(&str, &str) -> (u16, Value) + Send + Sync + 'static,
) -> Context {
    answering_by(Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH)), answer)
}

/// The same, by this clock.
pub(super) fn answering_by(
    clock: Arc<ManualClock>,
    answer: impl Fn(&str, &str) -> (u16, Value) + Send + Sync + 'static,
) -> Context {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body) = answer(request.method().as_str(), request.uri().path());
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(Response::builder().status(code).body(body))
    });
    Context::new(Client::new(service, "default"), clock, Config::default(), |_| ())
}

pub(super) fn failure(code: u16, message: &str) -> (u16, Value) {
    (code, json!({"status": "Failure", "code": code, "message": message}))
}

pub(super) fn kind(api_version: &str, kind: &str, plural: &str) -> (u16, Value) {
    let resource = json!({"name": plural, "kind": kind, "namespaced": true,
        "singularName": plural, "verbs": ["get", "list", "patch"]});
    (200, json!({"groupVersion": api_version, "resources": [resource]}))
}

pub(super) const BY_AUTHORIZER: &str =
    "workloads \"w\" is forbidden: User \"c\" cannot patch resource";
/// Such a policy denies until its parameter is created.
pub(super) const NO_PARAMETER: &str = "workloads \"w\" is forbidden: ValidatingAdmissionPolicy 'p' \
    with binding 'b' denied request: failed to configure binding: no params found";
pub(super) const BY_WEBHOOK: &str = "admission webhook \"w\" denied the request: it is forbidden";

/// A context whose API server answers each PATCH with this code and this message; 200 is no failure.
pub(super) fn patching(code: &Arc<AtomicU16>, message: &'static str) -> Context {
    let code = code.clone();
    answering(move |method, path| match (method, path, code.load(Ordering::Relaxed)) {
        ("GET", "/apis/kueue.x-k8s.io/v1beta2", _) => {
            kind("kueue.x-k8s.io/v1beta2", "Workload", "workloads")
        }
        ("PATCH", _, code) if code != 200 => failure(code, message),
        _ => (200, json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "uid"}})),
    })
}

/// An API server that has just started denies what it allows a moment later.
#[tokio::test]
async fn a_denial_is_for_good_only_after_a_while() {
    for (message, errors, seconds, is_for_good) in [
        (BY_AUTHORIZER, 0, vec![50], false),
        (BY_AUTHORIZER, 6, vec![50], false), // they had other causes
        (BY_AUTHORIZER, 1, vec![50, 79], false),
        (BY_AUTHORIZER, 1, vec![50, 80], true),
        (NO_PARAMETER, 1, vec![50, 79], false),
        (NO_PARAMETER, 1, vec![50, 80], true),
        (BY_WEBHOOK, 0, vec![50], true),
    ] {
        let code = Arc::new(AtomicU16::new(403));
        let context = patching(&code, message);
        let wrapper = Arc::new(wrapper(Phase::Resetting, false, false));
        let workload = Workload { name: "w".to_owned(), ..Workload::default() };
        let mut memory = ReconcileState::default();
        memory.errors = errors;
        let mut goes_on = false;
        for second in seconds {
            memory.tick(Duration::from_secs(second));
            goes_on = growth::grow(&context, &mut memory, &wrapper, false).await.is_ok();
        }
        let is_refused = memory.growth_refused.is_some();
        assert_eq!((goes_on, is_refused), (is_for_good, is_for_good), "{message}");
        let switched = workload::switch(&context, &mut memory, &wrapper, &workload, false).await;
        let is_refused = memory.workload_refused.is_some();
        assert_eq!((switched.is_ok(), is_refused), (is_for_good, is_for_good), "{message}");
        code.store(200, Ordering::Relaxed);
        let again = growth::grow(&context, &mut memory, &wrapper, false).await;
        assert_eq!((again.is_ok(), memory.growth_refused.is_some()), (true, is_for_good));
    }
}

/// An API server that starts again denies again for a moment.
#[tokio::test]
async fn a_denial_before_an_outage_does_not_count_after_it() {
    let object = Play::of(&json!({"phase": "Resetting"}), false, false).object;
    let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
    let (stored, _) = CachedAppWrapper::read(seen, &Before::default());
    let wrapper = Arc::new(wrapper(Phase::Resetting, false, false));
    for (between, is_for_good) in [(403, true), (503, false)] {
        let code = Arc::new(AtomicU16::new(403));
        let context = patching(&code, BY_AUTHORIZER);
        let mut memory = ReconcileState::default();
        for (second, now) in [(0, 403), (20, between), (40, 403)] {
            code.store(now, Ordering::Relaxed);
            memory.tick(Duration::from_secs(second));
            let grown = growth::grow(&context, &mut memory, &wrapper, false).await;
            if let Err(error) = grown {
                failed(&context, &mut memory, &stored, error);
            }
        }
        assert_eq!(memory.growth_refused.is_some(), is_for_good, "{between}");
    }
}

/// An outage ends the process that led when it began.
#[tokio::test]
async fn a_new_leader_knows_of_the_outage_before() {
    let object = Play::of(&json!({"phase": "Resetting"}), false, false).object;
    let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
    let (stored, _) = CachedAppWrapper::read(seen, &Before::default());
    let (stored, ended) = (Arc::new(stored), Timestamp::from_second(7).unwrap());
    let context = Arc::new(answering(move |_, _| (200, object.clone())));
    context.gap_before.get_or_init(|| ended);
    assert!(reconcile(stored.clone(), context.clone()).await.is_ok());
    assert_eq!(context.memory(&stored.key()).lock().await.object.last_gap, Some(ended));
}

/// A running pod of a `ReplicaSet`, with our labels.
fn stranger(number: usize) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs",
        "uid": "uid-rs", "controller": true}]);
    json!({"metadata": {"name": format!("s{number}"), "namespace": "ns",
        "uid": format!("uid-s{number}"), "ownerReferences": owner,
        "labels": {keys::APPWRAPPER: "aw", keys::APPWRAPPER_UID: "uid"}},
        "status": {"phase": "Running"}})
}

/// There are more of them than are looked at each time. Once they are strangers', one is counted for ten seconds more.
#[tokio::test]
async fn strangers_whose_owner_could_not_be_read_hold_nothing_back() {
    for (unread, looks, again) in [
        (503, vec![(0, true, 40), (10, false, 1), (21, false, 0)], 5),
        (403, vec![(0, true, 40), (30, true, 40), (60, false, 1), (71, false, 0)], 60),
    ] {
        let pods: Vec<Value> = (0..40).map(stranger).collect();
        let (code, lists) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicUsize::new(0)));
        let (code_now, listed, shown) = (code.clone(), lists.clone(), pods.clone());
        let context = answering(move |_, path| match path {
            "/apis/apps/v1" => kind("apps/v1", "ReplicaSet", "replicasets"),
            "/apis/apps/v1/namespaces/ns/replicasets/rs" => {
                match code_now.load(Ordering::Relaxed) {
                    200 => (
                        200,
                        json!({"metadata": {"name": "rs", "namespace": "ns", "uid": "uid-rs"}}),
                    ),
                    code => failure(code, "no"),
                }
            }
            "/api/v1/namespaces/ns/pods" => {
                listed.fetch_add(1, Ordering::Relaxed);
                (
                    200,
                    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": shown}),
                )
            }
            _ => failure(404, "no"),
        });
        let mut feed = feed::Pods::default();
        for pod in &pods {
            feed.take(&context.cache, Event::Apply(watched(pod)));
        }
        let (wrapper, attach) = (wrapper(Phase::Running, false, false), Attach::default());
        let mut memory = ReconcileState::default();
        for (second, fails, want) in looks {
            code.store(if fails { unread } else { 200 }, Ordering::Relaxed);
            memory.tick(Duration::from_secs(second));
            let ask = FreshRead::Nothing;
            let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
            assert_eq!(seen.undetermined.count, want, "{unread} after {second} s");
            if second == 0 {
                assert_eq!(memory.pods_unseen_for(), Some(Duration::from_secs(again)));
            }
        }
        assert_eq!(lists.load(Ordering::Relaxed), 1, "{unread}");
    }
}

/// Its owner may be replacing it while another process takes over.
#[tokio::test]
async fn a_pod_that_an_earlier_process_waited_for_counts_for_a_while() {
    let deleting = condition::DELETING_RESOURCES;
    for (kind, reason, of_component, counts) in [
        (deleting, condition::deleting::UNDETERMINED, false, 1),
        (deleting, condition::deleting::UNDETERMINED, true, 1),
        (deleting, condition::deleting::INITIATED, false, 0),
        (deleting, condition::deleting::INITIATED, true, 0),
        (condition::UNDETERMINED_PODS, "OwnerUnknown", false, 1),
    ] {
        let context = answering(|_, _| failure(404, "no"));
        let (mut wrapper, attach) = (wrapper(Phase::Suspending, true, false), Attach::default());
        let message = "Waiting for Pod/p, which has the labels of this AppWrapper (and no owner)";
        let now = Timestamp::UNIX_EPOCH;
        let status = &mut wrapper.status;
        status.component_status = vec![ComponentStatus::default(); 2];
        let conditions = if of_component {
            &mut status.component_status[1].conditions
        } else {
            &mut status.conditions
        };
        condition::set(conditions, kind, true, reason, message, now);
        let mut memory = ReconcileState::default();
        for (second, want) in [(0, counts), (9, counts), (10, 0), (60, 0)] {
            memory.tick(Duration::from_secs(second));
            let ask = FreshRead::Nothing;
            let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
            assert_eq!(
                seen.undetermined.count, want,
                "{kind} {reason} {of_component} after {second} s"
            );
            assert!(seen.undetermined.named.iter().all(|(name, _)| name == "p"));
        }
    }
}

#[tokio::test]
async fn a_workload_is_asked_while_kueues_configuration_is_not_read() {
    let context = answering(|_, _| failure(404, "no"));
    let told = |queue_managed| {
        let mut snapshot = Snapshot { queue_managed, ..Snapshot::default() };
        workload::Asked::default().complete(&mut snapshot, &context);
        snapshot.replaces_failed_nodes
    };
    assert_eq!([true, false].map(told), [false, false], "nobody reads it");
    context.await_kueue();
    assert_eq!([true, false].map(told), [true, false]);
    for replaces_failed_nodes in [false, true] {
        context.set_kueue(KueueSettings { replaces_failed_nodes, ..KueueSettings::default() });
        assert_eq!([true, false].map(told), [replaces_failed_nodes, false]);
    }
}

/// A running pod of ours without a controller, known from before.
fn known_pod(memory: &mut ReconcileState, labels: &Value) -> Value {
    memory.object.kin.put_pod("uid-p", "p", &Place::default());
    json!({"metadata": {"name": "p", "namespace": "ns", "uid": "uid-p", "labels": labels},
        "status": {"phase": "Running"}})
}

/// A context whose API server has the pod `p`, and lists none.
fn having(pod: Value) -> Context {
    answering(move |_, path| match path {
        "/api/v1/namespaces/ns/pods/p" => (200, pod.clone()),
        "/api/v1/namespaces/ns/pods" => {
            (200, json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}))
        }
        _ => failure(404, "no"),
    })
}

#[tokio::test]
async fn a_relabelled_pod_that_cannot_be_read_is_not_gone() {
    let far = json!([{"subresource": "status", "time": "9999-12-31T23:59:59Z"}]);
    for (field, value, want) in [
        ("managedFields", far, PodPhase::Running),
        ("labels", json!(null), PodPhase::Unknown), // its UID is not read either
    ] {
        let mut memory = ReconcileState::default();
        let mut pod = known_pod(&mut memory, &json!({}));
        pod["metadata"][field] = value;
        let context = having(pod);
        let (wrapper, attach) = (wrapper(Phase::Suspending, true, false), Attach::default());
        for second in [0, 60] {
            memory.tick(Duration::from_secs(second));
            let ask = FreshRead::Nothing;
            let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
            let pods: Vec<_> = seen.pods.iter().map(|pod| (pod.uid.as_str(), pod.phase)).collect();
            assert_eq!(pods, [("uid-p", want)], "{field}");
        }
    }
}

#[tokio::test]
async fn a_relabelled_pod_is_read_each_minute_where_quota_waits_for_it() {
    for (phase, ask, again) in [
        (Phase::Suspending, FreshRead::Nothing, 60),
        (Phase::Resetting, FreshRead::Nothing, 60),
        (Phase::Running, FreshRead::Nothing, 80),
        (Phase::Running, FreshRead::Pods, 60),
    ] {
        let mut memory = ReconcileState::default();
        let context = having(known_pod(&mut memory, &json!({})));
        let (wrapper, attach) = (wrapper(phase, false, false), Attach::default());
        for second in [0, 10, 30, 70] {
            memory.tick(Duration::from_secs(second));
            let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
            assert_eq!(seen.pods.len(), 1, "{phase:?} {ask:?}");
        }
        let left = memory.pods_unseen_for();
        assert_eq!(left, Some(Duration::from_secs(again)), "{phase:?} {ask:?}");
    }
}

#[tokio::test]
async fn nodes_are_told_to_an_attempt_that_avoids_some() {
    for (phase, avoids, is_told) in [
        (Phase::Resetting, true, true),
        (Phase::Suspended, true, true),
        (Phase::Resetting, false, false),
        (Phase::Running, true, false),
    ] {
        let context = answering(|_, _| failure(404, "no"));
        let node: RawObject = serde_json::from_str(r#"{"metadata": {"name": "n"}}"#).unwrap();
        let mut nodes = feed::Nodes::new(BTreeMap::new());
        for event in [Event::Init, Event::InitApply(node), Event::InitDone] {
            nodes.take(&context.cache, event);
        }
        let mut memory = ReconcileState::default();
        let labels = json!({keys::APPWRAPPER: "aw", keys::APPWRAPPER_UID: "uid"});
        let pod = known_pod(&mut memory, &labels);
        feed::Pods::default().take(&context.cache, Event::Apply(watched(&pod)));
        let (mut wrapper, attach) = (wrapper(phase, false, false), Attach::default());
        if avoids {
            wrapper.status.avoid_nodes = vec!["n".to_owned()];
        }
        let ask = FreshRead::Nothing;
        let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
        assert_eq!((seen.pods.len(), !seen.sites.is_empty()), (1, is_told), "{phase:?} {avoids}");
    }
}
