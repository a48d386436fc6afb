//! Calls that are refused, or not answered: what is told, and what counts as done.

use std::sync::atomic::AtomicU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::Layer;

use super::calls::wrapper;
use super::passing::{
    BY_AUTHORIZER, BY_WEBHOOK, NO_PARAMETER, answering, answering_by, failure, kind, patching,
};
use super::{PAST, Play};
use crate::act::delete::{How, delete};
use crate::act::wrapper::remove_finalizer;
use crate::api::{AppWrapperStatus, Phase, keys};
use crate::clock::ManualClock;
use crate::config::Config;
use crate::decide::Decision;
use crate::election::{LeaderWrites, Leadership, Times};
use crate::observe::cache::KindKey;
use crate::observe::cached_appwrapper::{Before, CachedAppWrapper};
use crate::observe::live;
use crate::observe::memory::ReconcileState;
use crate::observe::raw_object::RawObject;
use crate::plan::{Action, Target};
use crate::reconcile::carry_out::{Carried, carry_out, create_one};
use crate::reconcile::written::{Written, write};
use crate::reconcile::{Context, Error, Next, failed, reconcile};
use crate::snapshot::{Object, Pod, Presence, Snapshot};

const LACKING: &str = "Internal error occurred: failed calling webhook \"w\": service not found";
const NOT_CONVERTED: &str =
    "conversion webhook for a/v1, Kind=Foo failed: Post \"https://w\": context deadline exceeded";
const UNTRANSFORMED: &str = "Internal error occurred: unable to transform key \"/a\"";

/// The reasons of the events that wait to be sent.
fn reasons(context: &Context) -> Vec<&'static str> {
    std::iter::from_fn(|| context.events.take()).map(|event| event.reason).collect()
}

pub(super) fn stored(object: &Value) -> CachedAppWrapper {
    let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
    CachedAppWrapper::read(seen, &Before::default()).0
}

fn carrying_out(action: Action) -> Decision {
    Decision { actions: vec![action], ..Decision::default() }
}

#[tokio::test]
async fn a_refused_call_is_told_once_and_a_denial_when_it_has_lasted() {
    let stored = stored(&Play::of(&json!({"phase": "Terminating"}), false, true).object);
    let wrapper = wrapper(Phase::Terminating, false, true);
    for (code, message, seconds, told) in [
        (403, BY_WEBHOOK, vec![0, 1], 1),
        (422, "metadata: Invalid value", vec![0], 1),
        (403, BY_AUTHORIZER, vec![0, 29], 0),
        (403, BY_AUTHORIZER, vec![0, 29, 30, 60], 1),
        (422, NO_PARAMETER, vec![0, 29], 0),
        (422, NO_PARAMETER, vec![0, 29, 30, 60], 1),
        (503, "not now", vec![0, 60], 0),
        (500, NOT_CONVERTED, vec![0; 7], 0),
        (500, NOT_CONVERTED, vec![0; 20], 1),
        (500, UNTRANSFORMED, vec![0; 8], 1),
        (500, "etcdserver: request timed out", vec![0; 20], 0),
        (503, "not now", vec![0; 20], 0),
    ] {
        for (reads, reason) in [(true, "ReadFailed"), (false, "WriteFailed")] {
            let context = answering(move |_, _| failure(code, message));
            let mut memory = ReconcileState::default();
            for second in &seconds {
                memory.tick(Duration::from_secs(*second));
                let error: Error = if reads {
                    live::appwrapper(&context.client, &wrapper.key()).await.unwrap_err().into()
                } else {
                    remove_finalizer(&context.client, &wrapper).await.unwrap_err().into()
                };
                failed(&context, &mut memory, &stored, error);
            }
            assert_eq!(reasons(&context), vec![reason; told], "{code} {message} {seconds:?}");
        }
    }
}

#[tokio::test]
async fn a_refused_deletion_is_told_whatever_failed_before() {
    for (tries, told) in [
        (vec![(0, 503, "not now"), (1, 403, BY_WEBHOOK), (1, 403, BY_WEBHOOK)], 1),
        (vec![(0, 500, LACKING), (1, 500, LACKING)], 1),
        (vec![(0, 500, "not now"), (60, 500, "not now")], 0),
        (vec![(0, 403, BY_AUTHORIZER), (29, 403, BY_AUTHORIZER)], 0),
        (vec![(0, 403, BY_AUTHORIZER), (30, 403, BY_AUTHORIZER)], 1),
        (vec![(0, 422, NO_PARAMETER), (29, 422, NO_PARAMETER)], 0),
        (vec![(0, 422, NO_PARAMETER), (30, 422, NO_PARAMETER)], 1),
        // an API server that starts again denies again for a moment
        (vec![(0, 403, BY_AUTHORIZER), (20, 503, "not now"), (20, 403, BY_AUTHORIZER)], 0),
    ] {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let answer = Arc::new(Mutex::new((500, "")));
        let answers = answer.clone();
        let context = answering_by(clock.clone(), move |method, _| {
            let (code, message) = *answers.lock().unwrap();
            if method == "DELETE" {
                failure(code, message)
            } else {
                kind("batch/v1", "Job", "jobs")
            }
        });
        let wrapper = Arc::new(wrapper(Phase::Terminating, false, true));
        let components = wrapper.components.clone();
        let snapshot = Snapshot { components, ..wrapper.snapshot() };
        let target = Target { component: 0, uid: "uid-a".to_owned() };
        let decision = carrying_out(Action::Delete(target));
        let mut memory = ReconcileState::default();
        for (seconds, code, message) in &tries {
            clock.advance(Duration::from_secs(*seconds));
            *answer.lock().unwrap() = (*code, *message);
            memory.tick(context.clock.elapsed());
            memory.confirm(Some(&wrapper.version));
            let done = carry_out(&context, &mut memory, &wrapper, &snapshot, &decision).await;
            assert!(done.is_err(), "{tries:?}");
            memory.refused_since = None; // as after a reconcile that has written the status
        }
        assert_eq!(reasons(&context), vec!["DeleteFailed"; told], "{tries:?}");
    }
}

/// Of a deletion that is refused, or that lacks a webhook, an event is told where it is sent.
#[tokio::test]
async fn an_internal_error_of_a_deletion_is_told_when_it_has_lasted() {
    let stored = stored(&Play::of(&json!({"phase": "Terminating"}), false, true).object);
    let unconverted = "conversion webhook for a/v1, Kind=Foo failed: spec.a is unknown";
    for (code, message, tries, told) in [
        (500, UNTRANSFORMED, 7, 0),
        (500, UNTRANSFORMED, 20, 1),
        (500, unconverted, 20, 1),
        (500, LACKING, 20, 0),
        (403, BY_WEBHOOK, 20, 0),
        (500, "etcdserver: request timed out", 20, 0),
    ] {
        let context = answering(move |_, _| failure(code, message));
        let (mut memory, pods) = (ReconcileState::default(), live::pod_resource());
        for _ in 0..tries {
            let deleted = delete(&context.client, &pods, "ns", "p", "uid-p", How::Graceful).await;
            failed(&context, &mut memory, &stored, deleted.unwrap_err().into());
        }
        assert_eq!(reasons(&context), vec!["DeleteFailed"; told], "{message} {tries}");
    }
}

/// What may be refused only for now is final once it has lasted, and stays so while everything is deleted.
#[tokio::test]
async fn a_deletion_waits_for_its_status_until_its_refusal_has_lasted() {
    let stored = stored(&Play::of(&json!({"phase": "Terminating"}), false, true).object);
    let wrapper = Arc::new(wrapper(Phase::Terminating, false, true));
    for (code, message, seconds, goes_on) in [
        (422, NO_PARAMETER, vec![0, 29], [false, false]),
        (422, NO_PARAMETER, vec![0, 30], [false, true]),
        (403, BY_AUTHORIZER, vec![0, 30], [false, true]),
        (403, BY_WEBHOOK, vec![0, 30], [false, true]),
        // the code of a webhook that names none
        (400, BY_WEBHOOK, vec![0, 29], [false, false]),
        (400, BY_WEBHOOK, vec![0, 30], [false, true]),
        (422, NO_PARAMETER, vec![0, 30, 31], [true, true]),
    ] {
        let context = answering(move |_, _| failure(code, message));
        let mut memory = ReconcileState::default();
        let decision = Decision { next: Phase::Terminating, ..Decision::default() };
        let (mut went_on, snapshot) = (vec![], wrapper.snapshot());
        for second in seconds {
            memory.tick(Duration::from_secs(second));
            let written = write(&context, &mut memory, &wrapper, &wrapper, &snapshot, &decision);
            match written.await {
                Ok(written) => {
                    assert!(matches!(written, Written::Assumed(_)), "{message}");
                    memory.refused_since = None; // as after a reconcile that has deleted something
                    went_on.push(true);
                }
                Err(error) => {
                    failed(&context, &mut memory, &stored, error);
                    went_on.push(false);
                }
            }
        }
        assert!(went_on.ends_with(&goes_on), "{message}: {went_on:?}");
        let told = usize::from(message == BY_WEBHOOK || went_on.contains(&true));
        assert_eq!(reasons(&context), vec!["WriteFailed"; told], "{message}");
    }
}

#[tokio::test]
async fn a_refused_suspension_is_told_once() {
    for (code, message, told, goes_on) in [
        (403, BY_WEBHOOK, [1, 0, 0], [true, true, true]),
        (403, BY_AUTHORIZER, [0, 1, 0], [false, true, true]),
        (422, NO_PARAMETER, [0, 1, 0], [false, true, true]),
    ] {
        let context = patching(&Arc::new(AtomicU16::new(code)), message);
        let wrapper = Arc::new(wrapper(Phase::Running, false, false));
        let (mut memory, snapshot) = (ReconcileState::default(), wrapper.snapshot());
        let decision = carrying_out(Action::Suspend);
        for ((second, told), goes_on) in [0, 30, 31].into_iter().zip(told).zip(goes_on) {
            memory.tick(Duration::from_secs(second));
            let done = carry_out(&context, &mut memory, &wrapper, &snapshot, &decision).await;
            match done {
                Ok(carried) => {
                    assert!(goes_on && matches!(carried, Carried::Later(_)), "{message} {second}");
                    memory.refused_since = None; // as after a reconcile that has gone on
                }
                Err(_) => assert!(!goes_on, "{message} {second}"),
            }
            assert_eq!(reasons(&context), vec!["WriteFailed"; told], "{message}, {second} s");
        }
    }
}

#[tokio::test]
async fn kinds_that_are_not_listed_for_long_are_told_once() {
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let context = Arc::new(answering_by(clock.clone(), |_, _| failure(500, "not now")));
    let stored = Arc::new(stored(&Play::of(&json!({"phase": "Running"}), false, false).object));
    for (seconds, told) in [(0, 0), (89, 0), (1, 1), (5, 0), (60, 0)] {
        clock.advance(Duration::from_secs(seconds));
        let next = reconcile(stored.clone(), context.clone()).await.unwrap();
        assert_eq!(next, Next::After(Duration::from_secs(5)));
        assert_eq!(reasons(&context), vec!["ReadFailed"; told], "{seconds} s later");
    }
}

/// A context whose API server answers a PATCH with this code, and anything else so.
fn losing(code: u16, found: (u16, Value)) -> Context {
    answering(move |method, _| match method {
        "PATCH" => failure(code, "lost"),
        _ => found.clone(),
    })
}

/// A context of a replica that has lost the Lease: its writes are not sent, and anything else is answered so.
fn fenced(found: &(u16, Value)) -> Context {
    let (code, body) = found.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(Response::builder().status(code).body(body))
    });
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let fence = LeaderWrites::new(Leadership::new(clock.clone(), &Times::default()));
    let client = Client::new(fence.layer(service), "default");
    Context::new(client, clock, Config::default(), |_| ())
}

/// A context whose API server has this AppWrapper and nothing else. It answers a PATCH so.
pub(super) fn storing(
    object: &Arc<Mutex<Value>>,
    patched: impl Fn(&mut Value, &Value) -> (u16, Value) + Send + Sync + 'static,
) -> Context {
    let (object, patched) = (object.clone(), Arc::new(patched));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (object, patched) = (object.clone(), patched.clone());
        async move {
            let (parts, body) = request.into_parts();
            let sent = body.collect_bytes().await?;
            let (code, body) = match (parts.method.as_str(), parts.uri.path()) {
                ("PATCH", _) => {
                    let patch: Value = serde_json::from_slice(&sent).unwrap();
                    patched(&mut object.lock().unwrap(), &patch)
                }
                (_, "/apis/batch/v1") => kind("batch/v1", "Job", "jobs"),
                (_, path) if path.ends_with("/appwrappers/aw") => {
                    (200, object.lock().unwrap().clone())
                }
                (_, path) if path.ends_with("/jobs") || path.ends_with("/pods") => (
                    200,
                    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}),
                ),
                _ => failure(404, "not found"),
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, kube::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let clock = Arc::new(ManualClock::at(PAST.parse().unwrap()));
    Context::new(Client::new(service, "default"), clock, Config::default(), |_| ())
}

/// Stores the status and the finalizers of a patch.
pub(super) fn store(object: &mut Value, patch: &Value) {
    merge(&mut object["status"], &patch["status"]);
    if let Some(finalizers) = patch["metadata"].get("finalizers") {
        object["metadata"]["finalizers"] = finalizers.clone();
    }
    renew(object);
}

/// Gives an object the next version.
pub(super) fn renew(object: &mut Value) {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
    let next = version.parse::<u64>().unwrap() + 1;
    object["metadata"]["resourceVersion"] = next.to_string().into();
}

/// Applies a merge patch of objects.
fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    for (field, value) in fields {
        if !value.is_null() {
            merge(&mut target[field], value);
        } else if let Some(target) = target.as_object_mut() {
            target.remove(field);
        }
    }
}

#[tokio::test]
async fn a_status_that_is_found_stored_is_announced_once() {
    let object = Play::of(&json!({"phase": "Suspending"}), true, false).object;
    let object = Arc::new(Mutex::new(object));
    let context = Arc::new(storing(&object, |object, patch| {
        store(object, patch);
        failure(504, "lost")
    }));
    let kind = KindKey { api_version: "batch/v1".to_owned(), kind: "Job".to_owned() };
    context.cache.set_blind(&kind);
    let mut told = vec![];
    for _ in 0..5 {
        let seen = Arc::new(stored(&object.lock().unwrap()));
        // the second time, the watch still shows what was there before
        for _ in 0..2 {
            reconcile(seen.clone(), context.clone()).await.unwrap();
        }
        told.extend(reasons(&context));
    }
    assert_eq!(object.lock().unwrap()["status"]["phase"], "Suspended");
    assert_eq!(told, ["Suspended"]);
    let page = context.metrics.page();
    let want = "appwrapper_phase_changes_total{from=\"Suspending\",to=\"Suspended\"} 1\n";
    assert!(page.contains(want), "{page}");
}

#[tokio::test]
async fn a_status_without_an_answer_is_written_where_it_is_stored() {
    let wrapper = Arc::new(Play::of(&json!({"phase": "Running"}), false, false).wrapper());
    let status = Play::of(&json!({"phase": "Resetting"}), false, false).wrapper().status;
    let has = |version: &str, uid: &str, status: &AppWrapperStatus| {
        let mut object = Play::of(&serde_json::to_value(status).unwrap(), false, false).object;
        object["metadata"]["resourceVersion"] = version.into();
        object["metadata"]["uid"] = uid.into();
        (200, object)
    };
    for (code, found, want) in [
        (504, has("2", "uid", &status), true),
        (500, has("2", "uid", &status), true),
        (504, has("2", "uid", &wrapper.status), false),
        (504, has("1", "uid", &status), false),
        (504, has("2", "other", &status), false),
        (504, failure(503, "not now"), false),
        (504, failure(404, "gone"), false),
        (409, has("2", "uid", &status), false),
    ] {
        let shown = found.1.to_string();
        let context = losing(code, found);
        let decision = Decision { status: status.clone(), ..Decision::default() };
        let mut memory = ReconcileState::default();
        let snapshot = Snapshot::default();
        let written = write(&context, &mut memory, &wrapper, &wrapper, &snapshot, &decision);
        let is_stored = match written.await {
            Ok(written) => matches!(written, Written::Stored(None)) && memory.is_confirmed("2"),
            Err(Error::Act(error)) => {
                assert_eq!(error.code(), Some(code), "the first error is returned");
                false
            }
            Err(Error::Observe(error)) => panic!("{error}"),
        };
        assert_eq!(is_stored, want, "{code}: {shown}");
    }
}

/// A process that has just started knows nothing of the one before. The clock of the API server may be 2 minutes behind.
#[tokio::test]
async fn a_deletion_without_a_status_is_as_old_as_that_of_what_is_left() {
    let deleted: Timestamp = PAST.parse().unwrap();
    let at = |second: i64| Timestamp::from_second(deleted.as_second() + second).unwrap();
    for (requested, of_pod, want) in [
        (vec![None], None, 900),
        (vec![Some(7)], None, 127),
        (vec![Some(-7)], None, 900),
        (vec![Some(850)], None, 900),
        (vec![Some(60), Some(7)], None, 180),
        // a drain evicts pods while no controller runs
        (vec![Some(7), None], Some(60), 900),
        (vec![], Some(60), 900),
    ] {
        let clock = Arc::new(ManualClock::at(at(900)));
        let context = answering_by(clock, |_, _| failure(422, "metadata: Invalid value"));
        let wrapper = Arc::new(wrapper(Phase::Terminating, false, true));
        let mut components = wrapper.components.clone();
        for (component, requested) in components.iter_mut().zip(&requested) {
            let (terminating, deletion_requested) = (requested.is_some(), requested.map(at));
            let object = Object { terminating, deletion_requested, ..Object::default() };
            component.presence = Presence::Present(object);
        }
        let deletion_requested = of_pod.map(at);
        let pod = Pod { terminating: true, deletion_requested, ..Pod::default() };
        let snapshot = Snapshot { components, pods: vec![pod], ..wrapper.snapshot() };
        let decision = Decision { next: Phase::Terminating, ..Decision::default() };
        let mut memory = ReconcileState::default();
        let written = write(&context, &mut memory, &wrapper, &wrapper, &snapshot, &decision);
        let Ok(Written::Assumed(assumed)) = written.await else { panic!("it is refused") };
        let began = assumed.status.since.clone().and_then(|since| since.deleting);
        assert_eq!(began.map(|time| time.0), Some(at(want)), "{requested:?}");
    }
}

#[tokio::test]
async fn a_finalizer_is_looked_for_where_its_removal_is_not_answered() {
    let wrapper = Arc::new(wrapper(Phase::Terminating, false, true));
    let has = |uid: &str, finalizer: &str| {
        let metadata = json!({"name": "aw", "namespace": "ns", "uid": uid, "resourceVersion": "2",
            "finalizers": [finalizer]});
        (200, json!({ "metadata": metadata }))
    };
    for (answer, found, is_removed) in [
        (Some(504), failure(404, "gone"), true),
        (Some(504), has("other", keys::FINALIZER), true),
        (Some(504), has("uid", "a/b"), true),
        (Some(504), has("uid", keys::FINALIZER), false),
        (Some(504), failure(503, "not now"), false),
        // it was not sent: another leader has removed it, and counts it
        (None, failure(404, "gone"), false),
    ] {
        let shown = found.1.to_string();
        let context = answer.map_or_else(|| fenced(&found), |code| losing(code, found.clone()));
        let (mut memory, snapshot) = (ReconcileState::default(), wrapper.snapshot());
        let decision = carrying_out(Action::RemoveFinalizer);
        let done = carry_out(&context, &mut memory, &wrapper, &snapshot, &decision).await;
        assert_eq!(done.is_ok(), is_removed, "{shown}");
        let code = done.err().map(|error| match error {
            Error::Act(error) => error.code(),
            Error::Observe(error) => panic!("{error}"),
        });
        assert!(code.is_none_or(|code| code == answer), "the first error is returned: {code:?}");
    }
}

/// The definition of an earlier Kubeflow Trainer has no runtime patches.
#[tokio::test]
async fn a_train_job_that_loses_its_patches_is_not_created() {
    let patch = json!({"manager": "workload.codeflare.dev/appwrapper", "trainingRuntimeSpec":
        {"template": {"spec": {"replicatedJobs": [
            {"name": "node", "template": {"spec": {"template": {"spec": {}}}}}]}}}});
    let pods_at = "template.spec.runtimePatches[0].trainingRuntimeSpec.template.spec\
                .replicatedJobs[0].template.spec.template";
    let reference = json!({"name": "r"});
    let template = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "t"}, "spec": {"runtimeRef": reference, "runtimePatches": [patch]}});
    for (stored, dry_run, flaw, posts) in [
        (json!({"runtimeRef": reference, "runtimePatches": [patch]}), 201, None, ["dry", "wet"]),
        (json!({"runtimeRef": reference}), 201, Some("it must be 2.2 or newer"), ["dry", ""]),
        // a webhook supports no dry run
        (json!({"runtimeRef": reference, "runtimePatches": [patch]}), 400, None, ["dry", "wet"]),
    ] {
        let posted = Arc::new(Mutex::new(vec![]));
        let (seen, spec) = (posted.clone(), stored.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_dry = request.uri().query().is_some_and(|it| it.contains("dryRun=All"));
            let (code, body) = if request.method() == "POST" {
                seen.lock().unwrap().push(if is_dry { "dry" } else { "wet" });
                let metadata = json!({"name": "t", "namespace": "ns", "uid": "uid-t"});
                let created = (201, json!({"metadata": metadata, "spec": spec}));
                if is_dry && dry_run != 201 { failure(dry_run, "no dry run") } else { created }
            } else {
                kind("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs")
            };
            let body = Body::from(body.to_string().into_bytes());
            std::future::ready(Response::builder().status(code).body(body))
        });
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let client = Client::new(service, "default");
        let context = Context::new(client, clock, Config::default(), |_| ());
        let mut play = Play::of(&json!({"phase": "Resuming"}), false, false);
        let pod_sets = json!([{"path": pods_at, "replicas": 1}]);
        play.object["spec"]["components"] = json!([{"template": template, "podSets": pod_sets}]);
        let wrapper = play.wrapper();
        let components = wrapper.components.clone();
        let snapshot = Snapshot { components, ..wrapper.snapshot() };
        let mut memory = ReconcileState::default();
        create_one(&context, &mut memory, &wrapper, &snapshot, 0, Carried::Done).await;
        let why = memory.failure(0).map(|failure| (failure.fatal, failure.message.clone()));
        let is_right = match (&why, flaw) {
            (Some((is_fatal, message)), Some(flaw)) => *is_fatal && message.ends_with(flaw),
            (why, flaw) => why.is_none() && flaw.is_none(),
        };
        assert!(is_right, "{stored} {dry_run}: {why:?}");
        let posts: Vec<&str> = posts.into_iter().filter(|post| !post.is_empty()).collect();
        assert_eq!(*posted.lock().unwrap(), posts, "{stored} {dry_run}");
    }
}
