//! Calls that fail: what goes on nevertheless, and when there is another look.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::{PAST, Play};
use crate::act::events::About;
use crate::api::{ComponentStatus, Phase, Since, condition, keys};
use crate::clock::ManualClock;
use crate::config::{Autopilot, Config};
use crate::decide::{Decision, Facts, decide};
use crate::observe::assemble::{Wrapper, kind_of};
use crate::observe::cached_appwrapper::{Before, CachedAppWrapper};
use crate::observe::feed::Nodes;
use crate::observe::kin::Place;
use crate::observe::memory::ReconcileState;
use crate::observe::nodes::Marks;
use crate::observe::pod_record::PodRecord;
use crate::observe::records::ObjectRecord;
use crate::observe::retry_sources::{Attach, cluster_queues, local_queues, retry_policies};
use crate::observe::{self, live, raw_object::RawObject};
use crate::plan::{Action, FreshRead, Target};
use crate::reconcile::carry_out::{Carried, carry_out, create_one};
use crate::reconcile::written::{Written, write};
use crate::reconcile::{Context, Next, is_behind, listed_pods, reconcile, report, requeue};
use crate::snapshot::{Presence, Snapshot};
use crate::telemetry::testing::keep_lines;
use crate::tuning::Limits;

pub(super) const JOBS: &str = "/apis/batch/v1/namespaces/ns/jobs";

/// A server of Jobs: what it answers to the calls whose method and path end so; 404 to others.
#[derive(Default)]
pub(super) struct Server {
    answers: BTreeMap<String, u16>,
    /// Pods that it lists, where it is asked for them.
    pods: Option<Vec<Value>>,
    /// The Node `a`, where there is one.
    node: Option<Value>,
    pub(super) called: Mutex<Vec<String>>,
}

/// A context whose calls go to that server. Each of them takes so long.
pub(super) fn context(server: &Arc<Server>, takes: Duration) -> Context {
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let (server, time) = (server.clone(), clock.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        time.advance(takes);
        let call = format!("{} {}", request.method(), request.uri().path());
        let code = server.answers.get(&call).copied().unwrap_or(404);
        let job = json!({"name": "jobs", "kind": "Job", "namespaced": true, "singularName": "job",
            "verbs": ["list", "watch"]});
        let (code, body) = match call.as_str() {
            "GET /apis/batch/v1" => (200, json!({"groupVersion": "batch/v1", "resources": [job]})),
            "GET /api/v1/namespaces/ns/pods" if server.pods.is_some() => (
                200,
                json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": server.pods}),
            ),
            "GET /api/v1/nodes/a" if let Some(node) = &server.node => (200, node.clone()),
            list if list.starts_with("GET") && code == 200 => {
                (200, json!({"metadata": {}, "items": []}))
            }
            _ => (code, json!({"status": "Failure", "code": code, "message": "no"})),
        };
        server.called.lock().unwrap().push(call);
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(
            Response::builder().status(code).body(body).map_err(kube::Error::HttpError),
        )
    });
    Context::new(Client::new(service, "default"), clock, Config::default(), |_| ())
}

pub(super) fn server(answers: &[(&str, &str, u16)]) -> Arc<Server> {
    let answers =
        answers.iter().map(|(method, job, code)| (format!("{method} {JOBS}{job}"), *code));
    Arc::new(Server { answers: answers.collect(), ..Server::default() })
}

/// A server that has these pods, and no Jobs.
pub(super) fn listing(pods: Vec<Value>) -> Arc<Server> {
    Arc::new(Server { pods: Some(pods), ..Server::default() })
}

/// An AppWrapper with the Jobs a and b.
pub(super) fn wrapper(phase: Phase, suspend: bool, deleting: bool) -> Wrapper {
    let mut play = Play::of(&json!({"phase": phase.as_str()}), suspend, deleting);
    let component = play.object["spec"]["components"][0].take();
    let named = |name: &str| {
        let mut component = component.clone();
        component["template"]["metadata"]["name"] = name.into();
        component
    };
    play.object["spec"]["components"] = json!([named("a"), named("b")]);
    play.object["metadata"]["labels"] = json!({keys::QUEUE_NAME: "q"});
    play.wrapper()
}

fn snapshot(wrapper: &Wrapper) -> Snapshot {
    Snapshot { components: wrapper.components.clone(), ..wrapper.snapshot() }
}

#[tokio::test]
async fn the_pause_before_another_creation_begins_with_the_answer() {
    let server = server(&[("POST", "", 500)]);
    let context = context(&server, Duration::from_secs(20));
    let wrapper = wrapper(Phase::Resuming, false, false);
    let (mut memory, snapshot) = (ReconcileState::default(), snapshot(&wrapper));
    create_one(&context, &mut memory, &wrapper, &snapshot, 0, Carried::Done).await;
    assert_eq!(memory.failure(0).map(|failure| failure.fatal), Some(false));
    memory.tick(context.clock.elapsed());
    assert_eq!(memory.pause_before_create(0), Duration::from_secs(1));
}

#[tokio::test]
async fn what_multikueue_sends_is_let_go_and_nothing_else() {
    let sent = "kueue.x-k8s.io/multikueue";
    for (manager, deleting, finalizer, uid, patches) in [
        (sent, true, keys::FINALIZER, None, 1),
        (sent, true, "a/b", None, 0),
        (sent, false, keys::FINALIZER, None, 0),
        // this controller has begun it, whoever is said to manage it by now
        (sent, true, keys::FINALIZER, Some("job"), 0),
        // another controller may have a finalizer of the same name
        ("example.com/fork", true, keys::FINALIZER, None, 0),
    ] {
        let server = server(&[]);
        let context = Arc::new(context(&server, Duration::ZERO));
        let play = Play::of(&json!({"phase": "Running"}), false, deleting);
        let pod_sets = play.wrapper().components[0].pod_sets.clone();
        let mut object = play.object;
        object["spec"]["managedBy"] = manager.into();
        object["metadata"]["finalizers"] = json!(["other", finalizer]);
        object["status"]["componentStatus"] = json!([{"name": "j", "kind": "Job",
            "apiVersion": "batch/v1", "uid": uid, "podSets": pod_sets}]);
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        let (stored, _) = CachedAppWrapper::read(seen, &Before::default());
        reconcile(Arc::new(stored), context).await.unwrap();
        let called = server.called.lock().unwrap();
        let path = "/apis/workload.codeflare.dev/v1beta2/namespaces/ns/appwrappers/aw";
        assert_eq!(*called, vec![format!("PATCH {path}"); patches], "{manager} {finalizer}");
    }
}

/// The watch may lag behind what was read from the API server itself.
#[tokio::test]
async fn only_a_newer_version_of_the_watch_keeps_back_a_creation() {
    for (shown, creates) in [("1", true), ("3", false)] {
        let server = server(&[("POST", "", 500)]);
        let context = context(&server, Duration::ZERO);
        let mut wrapper = wrapper(Phase::Resuming, false, false);
        wrapper.version = "2".to_owned();
        let mut object = Play::of(&json!({"phase": "Suspended"}), true, false).object;
        object["metadata"]["resourceVersion"] = shown.into();
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        context.store.apply(Event::Apply(seen), CachedAppWrapper::read);
        let snapshot = snapshot(&wrapper);
        let wrapper = Arc::new(wrapper);
        let decision = Decision { actions: vec![Action::Create(0)], ..Decision::default() };
        let mut memory = ReconcileState::default();
        memory.saw(&wrapper.version);
        let done = carry_out(&context, &mut memory, &wrapper, &snapshot, &decision).await;
        assert!(done.is_ok(), "{shown}");
        assert_eq!(memory.failure(0).is_some(), creates, "{shown}");
    }
}

/// With the definition of the Go controller, the number of the attempt and the begin of the deletion are told anew by each look
/// and stored by none.
#[tokio::test]
async fn a_status_that_the_definition_prunes_keeps_nothing_from_being_deleted() {
    for (phase, attempt, told) in [
        (Phase::Suspending, Some(2), Some(2)),
        (Phase::Failed, Some(2), Some(2)),
        (Phase::Failed, Some(0), None),
        (Phase::Failed, None, None),
        (Phase::Succeeded, Some(0), None),
        (Phase::Succeeded, None, None),
    ] {
        let mut wrapper = wrapper(phase, phase == Phase::Suspending, false);
        let now: Timestamp = PAST.parse().unwrap();
        let begun: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        if phase != Phase::Suspending {
            // as the Go controller left it, its success long expired
            for (kind, is_true, at) in [
                (condition::QUOTA_RESERVED, phase == Phase::Failed, begun),
                (condition::RESOURCES_DEPLOYED, true, begun),
                (condition::DELETING_RESOURCES, true, now),
            ] {
                condition::set(&mut wrapper.status.conditions, kind, is_true, "Test", "", at);
            }
        }
        let wrapper = Arc::new(wrapper);
        let context = context_of_version("1"); // what it answers to a write is what is stored: nothing has changed
        let present = |mut component: crate::snapshot::Component| {
            let uid = component.name.clone();
            component.presence =
                Presence::Present(crate::snapshot::Object { uid, attempt, ..Default::default() });
            component
        };
        let components = wrapper.components.iter().cloned().map(present).collect();
        let facts = |snapshot: &Snapshot| {
            let config = Config::default();
            let (limits, _) = Limits::of(&wrapper.annotations, &config.fault_tolerance);
            decide(Facts { snapshot, limits: &limits, config: &config, now, anchor: now })
        };
        let seen = Snapshot { components, ..wrapper.snapshot() };
        let decision = facts(&seen);
        let last = decision.status.attempts.last().map(|last| last.attempt);
        assert_eq!(last, told, "{phase} {attempt:?}");
        assert_ne!(decision.status, wrapper.status, "{phase} {attempt:?}");
        let mut memory = ReconcileState::default();
        let (lines, _guard) = keep_lines(false, "error");
        let mut written = vec![];
        for _ in 0..2 {
            let it = write(&context, &mut memory, &wrapper, &wrapper, &seen, &decision);
            written.push(it.await.unwrap());
        }
        let text = lines.text();
        let attempts = text.contains("does not store status.attempts");
        assert_eq!((text.lines().count(), attempts), (1, told.is_some()), "{attempt:?}: {text}");
        let Some(Written::Assumed(assumed)) = written.pop() else {
            panic!("{phase} {attempt:?}: it is not stored")
        };
        let seen = Snapshot { components: seen.components, ..assumed.snapshot() };
        let actions = facts(&seen).actions;
        let deletes = actions.iter().any(|action| matches!(action, Action::Delete(_)));
        assert!(deletes, "{phase} {attempt:?}: {actions:?}");
    }
}

/// A context whose API server has one AppWrapper, of this version.
fn context_of_version(version: &'static str) -> Context {
    let service = tower::service_fn(move |_: Request<Body>| {
        let metadata =
            json!({"name": "aw", "namespace": "ns", "uid": "uid", "resourceVersion": version});
        let body = Body::from(json!({"metadata": metadata}).to_string().into_bytes());
        std::future::ready(Response::builder().body(body).map_err(kube::Error::HttpError))
    });
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    Context::new(Client::new(service, "default"), clock, Config::default(), |_| ())
}

#[tokio::test]
async fn an_older_version_is_believed_where_the_api_server_has_no_newer_one_for_long() {
    let wrapper = wrapper(Phase::Running, false, false); // of version 1
    for (has, second, want) in [("1", 59, true), ("2", 60, true), ("1", 60, false)] {
        let context = context_of_version(has);
        let mut memory = ReconcileState::default();
        memory.focus("uid", 0);
        memory.confirm(Some("9"));
        assert_eq!(is_behind(&context, &mut memory, &wrapper).await.ok(), Some(true), "{has}");
        memory.tick(Duration::from_secs(second));
        let is_behind = is_behind(&context, &mut memory, &wrapper).await;
        assert_eq!(is_behind.ok(), Some(want), "{has} after {second} s");
    }
    let mut other = ReconcileState::default();
    other.focus("other", 0);
    other.confirm(Some("9"));
    let context = context_of_version("1");
    assert_eq!(
        is_behind(&context, &mut other, &wrapper).await.ok(),
        Some(false),
        "of another object"
    );
}

#[tokio::test]
async fn an_object_that_cannot_be_deleted_keeps_no_other_from_it() {
    let target = |component, uid: &str| Target { component, uid: uid.to_owned() };
    let (a, b) = (target(0, "uid-a"), target(1, "uid-b"));
    for (actions, code, deletes_b) in [
        ([Action::Delete(a.clone()), Action::Delete(b.clone())], 403, true),
        ([Action::ForceDelete(a.clone()), Action::ForceDelete(b.clone())], 500, true),
        ([Action::Delete(a.clone()), Action::Delete(b.clone())], 429, false),
        ([Action::Delete(a), Action::Create(1)], 500, false),
    ] {
        let server = server(&[("DELETE", "/a", code), ("DELETE", "/b", 200)]);
        let context = context(&server, Duration::ZERO);
        let wrapper = Arc::new(wrapper(Phase::Terminating, false, true));
        let snapshot = snapshot(&wrapper);
        let mut memory = ReconcileState::default();
        memory.confirm(Some(&wrapper.version));
        let decision = Decision { actions: actions.to_vec(), ..Decision::default() };
        let done = carry_out(&context, &mut memory, &wrapper, &snapshot, &decision).await;
        let Err(super::super::Error::Act(error)) = done else { panic!("{actions:?}") };
        assert_eq!(error.code(), Some(code), "the first error is returned");
        let called = server.called.lock().unwrap();
        let calls = |call: &str| called.iter().any(|one| one.starts_with(call));
        assert_eq!(calls(&format!("DELETE {JOBS}/b")), deletes_b, "{actions:?}, {code}");
        assert!(!calls("POST"), "{actions:?}");
        // nothing but an event tells the user of a right that is missing
        let told: Vec<String> =
            std::iter::from_fn(|| context.events.take()).map(|event| event.message).collect();
        let want = if code == 403 { vec!["Cannot delete Job/a: "] } else { vec![] };
        assert_eq!(told.len(), want.len(), "{told:?}");
        assert!(told.iter().zip(want).all(|(told, want)| told.starts_with(want)), "{told:?}");
    }
}

#[tokio::test]
async fn a_component_that_cannot_be_read_is_neither_there_nor_gone_while_others_are_deleted() {
    for (phase, ask, code, left_out) in [
        (Phase::Terminating, FreshRead::Missing, 500, true),
        (Phase::Suspending, FreshRead::Missing, 403, true),
        (Phase::Terminating, FreshRead::Missing, 429, false),
        (Phase::Terminating, FreshRead::Gone, 500, false),
        (Phase::Running, FreshRead::Missing, 500, false),
    ] {
        let context = context(&server(&[("GET", "/a", code), ("GET", "", code)]), Duration::ZERO);
        let wrapper = wrapper(phase, false, phase == Phase::Terminating);
        let owner = json!([{"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "name": "aw", "uid": "uid", "controller": true}]);
        let job = json!({"metadata": {"name": "b", "namespace": "ns", "uid": "uid-b",
            "ownerReferences": owner}});
        let seen: RawObject = serde_json::from_str(&job.to_string()).unwrap();
        let kind = kind_of(&wrapper.components[0]);
        let record = ObjectRecord::of(&seen, &kind.api_version, &kind.kind);
        context.cache.put_object(&kind, record);
        let mut memory = ReconcileState::default();
        let attach = Attach::default();
        let seen = look(&context, &wrapper, &mut memory, ask, &attach).await;
        let Ok(snapshot) = seen else {
            assert!(!left_out, "{phase} {ask:?} {code}");
            continue;
        };
        assert!(left_out, "{phase} {ask:?} {code}");
        let presences: Vec<&Presence> =
            snapshot.components.iter().map(|component| &component.presence).collect();
        assert!(matches!(presences[..], [Presence::Unseen, Presence::Present(_)]));
        assert_eq!(memory.pods_unseen_for(), Some(Duration::from_secs(5)));
    }
}

/// Pods that name the AppWrapper and no owner: a few of them are kept.
#[tokio::test]
async fn a_reconcile_counts_the_pods_that_it_lists_and_does_not_keep() {
    let forged = |number: usize| {
        let name = format!("p{number}");
        json!({"metadata": {"name": name, "namespace": "ns", "uid": name,
            "labels": {keys::APPWRAPPER: "aw", keys::APPWRAPPER_UID: "uid"}}})
    };
    let pods: Vec<Value> = (0..40).map(forged).collect();
    for (ask, lists) in [(FreshRead::Nothing, 0), (FreshRead::Gone, 40)] {
        let answers = BTreeMap::from([(format!("GET {JOBS}"), 200)]);
        let server = Server { answers, pods: Some(pods.clone()), ..Server::default() };
        let context = context(&Arc::new(server), Duration::ZERO);
        for pod in &pods {
            let seen: RawObject = serde_json::from_str(&pod.to_string()).unwrap();
            context.cache.put_pod(Arc::new(PodRecord::of(&seen)));
        }
        let wrapper = wrapper(Phase::Suspending, true, false);
        let (key, attach) = (wrapper.key(), Attach::default());
        let memory = context.memory(&key);
        let mut memory = memory.lock().await;
        look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
        drop(memory);
        let kept = context.cache.pod_cache(|pods| pods.kept(&key));
        assert_eq!((kept, listed_pods(&context, &key)), (32, lists), "{ask:?}");
    }
}

#[tokio::test]
async fn a_node_that_is_read_inherits_no_loss_of_an_earlier_one() {
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
    let node = |uid: &str, since: &str| {
        let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": since});
        json!({"metadata": {"name": "a", "uid": uid}, "status": {"conditions": [ready]}})
    };
    let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "p",
        "labels": {keys::APPWRAPPER: "aw", keys::APPWRAPPER_UID: "uid"}},
        "spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
    for (uid, want) in [("u", early), ("v", late)] {
        let (pods, node_read) = (Some(vec![pod.clone()]), Some(node(uid, late)));
        let server = Server { pods, node: node_read, ..Server::default() };
        let context = context(&Arc::new(server), Duration::ZERO);
        let shown = serde_json::from_str(&node("u", early).to_string()).unwrap();
        Nodes::new(Marks::default()).take(&context.cache, Event::Apply(shown));
        let wrapper = wrapper(Phase::Running, false, false);
        let (mut memory, attach) = (ReconcileState::default(), Attach::default());
        memory.object.kin.put_pod("p", "p", &Place::default());
        let seen = look(&context, &wrapper, &mut memory, FreshRead::Pods, &attach).await.unwrap();
        let since = seen.nodes["a"].lost.and_then(|loss| loss.since);
        assert_eq!(since, want.parse().ok(), "{uid}");
    }
}

#[tokio::test]
async fn a_read_that_is_forbidden_is_told_once_in_a_row() {
    let wrapper = wrapper(Phase::Running, false, false);
    let about = About { namespace: "ns", name: "aw", uid: "uid" };
    for (codes, want) in [
        (vec![403, 403], vec![403]),
        (vec![500, 429], vec![]),
        (vec![503, 403, 500, 403], vec![403]),
    ] {
        let (mut memory, mut told) = (ReconcileState::default(), vec![]);
        for code in &codes {
            let server = server(&[("GET", "/a", *code), ("GET", "", *code)]);
            let context = context(&server, Duration::ZERO);
            let (mut of_look, attach) = (ReconcileState::default(), Attach::default());
            let seen = look(&context, &wrapper, &mut of_look, FreshRead::Missing, &attach).await;
            report::failed(&context, &mut memory, &about, &seen.unwrap_err().into());
            if let Some(event) = context.events.take() {
                let event = (event.reason, event.message.as_str());
                assert_eq!(event, ("ReadFailed", "Cannot get Job/a: no"));
                told.push(*code);
            }
        }
        assert_eq!(told, want, "{codes:?}");
    }
}

/// A look from this context.
pub(super) async fn look(
    context: &Context,
    wrapper: &Wrapper,
    memory: &mut ReconcileState,
    ask: FreshRead,
    attach: &Attach,
) -> Result<Snapshot, live::Error> {
    let autopilot = Autopilot::default();
    observe::observe(context.sources(), wrapper, memory, ask, attach, &autopilot).await
}

/// The watch shows the Job `b` of an attempt.
fn show_job(context: &Context, wrapper: &Wrapper, attempt: &str) {
    let owner = json!([{"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "name": "aw", "uid": "uid", "controller": true}]);
    let job = json!({"metadata": {"name": "b", "namespace": "ns", "uid": "uid-b",
        "labels": {keys::ATTEMPT: attempt}, "ownerReferences": owner}});
    let seen: RawObject = serde_json::from_str(&job.to_string()).unwrap();
    let kind = kind_of(&wrapper.components[0]);
    context.cache.put_object(&kind, ObjectRecord::of(&seen, &kind.api_version, &kind.kind));
}

/// It may be what was deleted: a watch can repeat old events.
#[tokio::test]
async fn what_a_watch_shows_of_a_component_that_is_to_come_is_read() {
    for (is_deployed, is_going, is_made_here, is_read) in [
        (true, false, false, false),
        (false, true, false, false),
        (false, false, true, false),
        (false, false, false, true),
    ] {
        let server = server(&[]);
        let context = context(&server, Duration::ZERO);
        let mut wrapper = wrapper(Phase::Running, false, false);
        let mut component = ComponentStatus::default();
        let now = Timestamp::UNIX_EPOCH;
        for (kind, is_true) in [
            (condition::RESOURCES_DEPLOYED, is_deployed),
            (condition::DELETING_RESOURCES, is_going),
        ] {
            condition::set(&mut component.conditions, kind, is_true, "Test", "", now);
        }
        wrapper.status.component_status = vec![component; 2];
        show_job(&context, &wrapper, "0");
        let (mut memory, attach) = (ReconcileState::default(), Attach::default());
        if is_made_here {
            memory.unrecorded.insert(1);
        }
        let seen = look(&context, &wrapper, &mut memory, FreshRead::Nothing, &attach).await;
        let is_there = seen.unwrap().components[1].ours().is_some();
        let called = server.called.lock().unwrap();
        let found = (called.contains(&format!("GET {JOBS}/b")), is_there);
        assert_eq!(found, (is_read, !is_read), "{is_deployed} {is_going} {is_made_here}");
    }
}

#[tokio::test]
async fn an_object_of_another_attempt_that_a_watch_shows_is_read_before_anything_is_concluded() {
    for (attempt, ask, is_read) in [
        ("0", FreshRead::Missing, false),
        ("7", FreshRead::Missing, true),
        ("7", FreshRead::Pods, true),
        ("7", FreshRead::Nothing, false),
    ] {
        let server = server(&[]);
        let context = context(&server, Duration::ZERO);
        let wrapper = wrapper(Phase::Running, false, false);
        show_job(&context, &wrapper, attempt);
        let (mut memory, attach) = (ReconcileState::default(), Attach::default());
        // the LIST of pods is not answered
        let seen = look(&context, &wrapper, &mut memory, ask, &attach).await;
        let called = server.called.lock().unwrap();
        assert_eq!(called.contains(&format!("GET {JOBS}/b")), is_read, "{attempt} {ask:?}");
        let presence = seen.ok().map(|mut seen| seen.components.swap_remove(1).presence);
        let is_there = presence.map(|presence| matches!(presence, Presence::Present(_)));
        assert!(is_there.is_none_or(|is_there| is_there != is_read), "{attempt} {ask:?}");
    }
}

#[tokio::test]
async fn a_kind_that_is_not_watched_is_looked_at_now_and_then_while_something_may_change() {
    let deleting = Since { deleting: Some(Time(Timestamp::UNIX_EPOCH)), ..Since::default() };
    for (phase, since, want) in [
        (Phase::Resuming, None, true),
        (Phase::Running, None, true),
        (Phase::Resetting, None, true),
        (Phase::Suspending, None, true),
        (Phase::Terminating, None, true),
        (Phase::Failed, Some(deleting), true),
        (Phase::Failed, None, false),
        (Phase::Succeeded, None, false),
        (Phase::Suspended, None, false),
        (Phase::Empty, None, false),
    ] {
        let context = context(&Arc::default(), Duration::ZERO);
        let wrapper = wrapper(phase, false, false);
        let mut decision = Decision { next: phase, ..Decision::default() };
        decision.status.since = since;
        let next = |context| requeue(context, &ReconcileState::default(), &wrapper, &decision);
        assert_eq!(next(&context), Next::OnChange, "{phase}");
        context.cache.set_blind(&kind_of(&wrapper.components[0]));
        let again = Next::After(Duration::from_secs(30));
        assert_eq!(next(&context), if want { again } else { Next::OnChange }, "{phase}");
    }
}

/// A decision goes by the whole second before.
#[tokio::test]
async fn a_deadline_within_a_second_is_over_at_the_next_whole_one() {
    let millis = Duration::from_millis;
    for (grace, waits) in [
        (Duration::from_nanos(1), millis(500)),
        (millis(500), millis(500)),
        (millis(1000), millis(500)),
        (millis(1001), millis(1500)),
    ] {
        let mut context = context(&Arc::default(), Duration::ZERO);
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH + millis(7500)));
        context.clock = clock.clone();
        let wrapper = wrapper(Phase::Succeeded, false, false);
        let due = Timestamp::UNIX_EPOCH + Duration::from_secs(7) + grace;
        let decision =
            Decision { next: Phase::Succeeded, requeue: Some(due), ..Decision::default() };
        let next = requeue(&context, &ReconcileState::default(), &wrapper, &decision);
        assert_eq!(next, Next::After(waits), "{grace:?}");
        clock.advance(waits);
        assert!(context.clock.now() >= due, "{grace:?}");
    }
}

#[tokio::test]
async fn what_only_deletes_does_not_wait_for_retry_policies_and_misses_none() {
    for (phase, suspend, deleting, want) in [
        (Phase::Running, false, true, true),
        (Phase::Running, true, false, true),
        (Phase::Resetting, true, false, true),
        (Phase::Suspending, false, false, true),
        (Phase::Terminating, false, true, true),
        (Phase::Running, false, false, false),
        (Phase::Suspended, true, false, false),
        (Phase::Empty, true, false, false),
    ] {
        let context = context(&Arc::default(), Duration::ZERO);
        let wrapper = wrapper(phase, suspend, deleting);
        let synced = || observe::is_synced(&context.cache, &wrapper, Some("default"));
        assert!(!synced(), "{phase}: the Jobs are not listed");
        context.cache.replace_objects(&kind_of(&wrapper.components[0]), vec![]);
        assert_eq!(synced(), want, "{phase}, suspend: {suspend}, deleted: {deleting}");
        let attach = Attach { default: Some("default".to_owned()), ..Attach::default() };
        for (listed, missing) in [(false, 0), (true, 1)] {
            if listed {
                for kind in [retry_policies(), local_queues(), cluster_queues()] {
                    context.cache.replace_retry_sources(kind, BTreeMap::new());
                }
            }
            let mut memory = ReconcileState::default();
            let ask = FreshRead::Nothing;
            let seen = look(&context, &wrapper, &mut memory, ask, &attach);
            let retry = seen.await.unwrap().retry;
            assert_eq!((retry.unusable.len(), retry.unlisted), (missing, !listed), "{phase}");
        }
    }
}

#[tokio::test]
async fn a_deletion_before_retry_policies_are_listed_keeps_what_rests_on_them() {
    let context = context(&Arc::default(), Duration::ZERO);
    let mut play = Play::of(&json!({"phase": "Suspending"}), true, false);
    let template = json!({"name": "main", "resources": {"requests": {"memory": "1Gi"}}});
    let pod = "/spec/components/0/template/spec/template/spec/containers";
    *play.object.pointer_mut(pod).unwrap() = json!([template]);
    let pending = json!([{"component": 0, "podSet": 0, "container": "main", "request": "2Gi"}]);
    let status = json!({"phase": "Suspending", "pendingMemory": pending,
        "retryAfter": "2027-01-17T08:00:00Z", "since": {"deleting": PAST},
        "componentStatus": [{"name": "j", "kind": "Job", "apiVersion": "batch/v1", "uid": "job",
            "podSets": [{"path": "template.spec.template", "replicas": 1}]}]});
    play.object["status"] = status;
    play.object["metadata"]["annotations"] = json!({keys::RETRY_POLICIES: "grow"});
    let wrapper = play.wrapper();
    let config = Config::default();
    let (limits, _) = Limits::of(&wrapper.annotations, &config.fault_tolerance);
    for listed in [false, true] {
        if listed {
            context.cache.replace_retry_sources(retry_policies(), BTreeMap::new());
        }
        let attach = Attach { own: limits.retry_policies.clone(), default: None };
        let mut memory = ReconcileState::default();
        let ask = FreshRead::Nothing;
        let seen = look(&context, &wrapper, &mut memory, ask, &attach);
        let mut snapshot = seen.await.unwrap();
        snapshot.components[0].presence = Presence::Absent;
        snapshot.answered = FreshRead::Gone;
        let now: Timestamp = PAST.parse().unwrap();
        let anchor = now;
        let facts = Facts { snapshot: &snapshot, limits: &limits, config: &config, now, anchor };
        let status = decide(facts).status;
        assert_eq!(status.phase, Phase::Suspended, "listed: {listed}");
        assert_eq!(status.pending_memory.is_empty(), listed);
        let stays = status.retry_after == wrapper.status.retry_after;
        assert_eq!(stays, !listed);
    }
}

#[tokio::test]
async fn an_annotation_that_becomes_invalid_is_told_once() {
    let context = context(&Arc::default(), Duration::ZERO);
    let faults = Config::default().fault_tolerance;
    let mut play = Play::of(&json!({"phase": "Running"}), false, false);
    let mut look = |memory: &mut ReconcileState, status: Value, limit: &str| {
        play.object["status"] = status;
        play.object["metadata"]["annotations"] = json!({keys::RETRY_LIMIT: limit});
        let wrapper = play.wrapper();
        let (_, remarks) = Limits::of(&wrapper.annotations, &faults);
        report::remarks(&context, memory, &wrapper, &remarks);
        std::iter::from_fn(|| context.events.take()).count()
    };
    let mut memory = ReconcileState::default();
    let running = json!({"phase": "Running", "attempts": [{"attempt": 0}]});
    for (limit, told, what) in [
        ("3", 0, "nothing is wrong"),
        ("x", 1, "it became invalid"),
        ("x", 0, "it was told"),
        ("y", 1, "it is invalid in another way"),
        ("3", 0, "it was corrected"),
        ("y", 1, "it is invalid again"),
    ] {
        assert_eq!(look(&mut memory, running.clone(), limit), told, "{what}");
    }
    let meta = ObjectMeta { resource_version: Some("7".to_owned()), ..ObjectMeta::default() };
    let unreadable = CachedAppWrapper::unreadable(meta, String::new());
    for told in [1, 0] {
        report::unreadable(&context, &mut memory, &unreadable, "no name");
        assert_eq!(std::iter::from_fn(|| context.events.take()).count(), told);
    }
    let again = look(&mut memory, running.clone(), "y");
    assert_eq!(again, 0, "it was told before the object could not be parsed");
    for (status, told, what) in [
        (json!({}), 1, "a new one"),
        (json!({"phase": "Running"}), 1, "one of another controller"),
        (json!({"phase": "Suspended"}), 0, "one that waits for quota, after a restart"),
        (running, 0, "after a restart"),
    ] {
        assert_eq!(look(&mut ReconcileState::default(), status, "x"), told, "{what}");
    }
    let mut memory = ReconcileState::default();
    let evicted = json!({"phase": "Suspended", "attempts": [{"attempt": 0}]});
    for (limit, told) in [("3", 0), ("x", 1), ("x", 0)] {
        assert_eq!(look(&mut memory, evicted.clone(), limit), told, "evicted before: {limit}");
    }
    let mut memory = ReconcileState::default();
    for (status, told) in [
        (json!({"phase": "Suspended"}), 0),
        (json!({"phase": "Resuming", "attempts": [{"attempt": 0}]}), 1),
        (json!({"phase": "Running", "attempts": [{"attempt": 0}]}), 0),
    ] {
        assert_eq!(look(&mut memory, status.clone(), "x"), told, "after a restart: {status}");
    }
    let evicted = json!({"phase": "Resuming", "attempts": [{"attempt": 0}, {"attempt": 1}]});
    assert_eq!(look(&mut ReconcileState::default(), evicted, "x"), 0);
}

/// A `JobSet` that says that it failed, without any policy.
#[tokio::test]
async fn the_jobs_of_a_failed_job_set_are_listed_once_whatever_the_policies() {
    for (phase, suspend, lists) in [
        (Phase::Resuming, false, 1),
        (Phase::Resuming, true, 0),
        (Phase::Running, false, 1),
        (Phase::Running, true, 0),
        (Phase::Resetting, false, 0),
    ] {
        let server = server(&[("GET", "", 200)]);
        let context = context(&server, Duration::ZERO);
        let mut play = Play::of(&json!({"phase": phase.as_str()}), suspend, false);
        play.object["spec"]["components"][0]["template"] = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "s"},
            "spec": {"replicatedJobs": []}});
        let wrapper = play.wrapper();
        let owner = json!([{"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "name": "aw", "uid": "uid", "controller": true}]);
        let failed = json!({"type": "Failed", "status": "True", "reason": "FailedJobs"});
        let object = json!({"metadata": {"name": "s", "namespace": "ns", "uid": "uid-s",
            "ownerReferences": owner}, "status": {"conditions": [failed]}});
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        let kind = kind_of(&wrapper.components[0]);
        context.cache.put_object(&kind, ObjectRecord::of(&seen, &kind.api_version, &kind.kind));
        let mut memory = ReconcileState::default();
        for _ in 0..3 {
            let attach = Attach::default();
            let ask = FreshRead::Nothing;
            let seen = look(&context, &wrapper, &mut memory, ask, &attach);
            seen.await.unwrap();
        }
        let called = server.called.lock().unwrap();
        let of_jobs = called.iter().filter(|call| **call == format!("GET {JOBS}")).count();
        assert_eq!(of_jobs, lists, "{phase}, suspend: {suspend}: {called:?}");
    }
}
