//! What is deleted between two looks, or while one is under way; and what is read again before a verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use k8s_openapi::jiff::Timestamp;

use super::PAST;
use super::calls::{JOBS, context, listing, look, server, wrapper};
use crate::api::{ComponentStatus, Phase, condition, keys};
use crate::clock::ManualClock;
use crate::config::Config;
use crate::observe::UNWATCHED_AGAIN_AFTER;
use crate::observe::assemble::{Wrapper, kind_of};
use crate::observe::deleted_objects::DeletedObjects;
use crate::observe::memory::ReconcileState;
use crate::observe::pod_record::WatchedPod;
use crate::observe::records::ObjectRecord;
use crate::observe::retry_sources::Attach;
use crate::observe::{feed, raw_object::RawObject};
use crate::plan::FreshRead;
use crate::reconcile::Context;
use crate::snapshot::{Outcome, PodPhase, Presence};

/// An object that the AppWrapper controls.
fn owned(name: &str, rest: &Value) -> Value {
    let owner = json!([{"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "name": "aw", "uid": "uid", "controller": true}]);
    let mut object = json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"),
        "labels": {keys::APPWRAPPER: "aw", keys::APPWRAPPER_UID: "uid", keys::ATTEMPT: "0"},
        "ownerReferences": owner}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

#[tokio::test]
async fn what_has_ended_is_seen_once_more_after_its_deletion() {
    let (attach, ask) = (Attach::default(), FreshRead::Nothing);
    let rows = [("Complete", true), ("Failed", true), ("Suspended", false)];
    let ways = ["it is deleted", "a new list does not show it", "its kind is not watched any more"];
    for ((condition, is_seen), way) in
        rows.into_iter().flat_map(|row| ways.into_iter().map(move |way| (row, way)))
    {
        let context = context(&server(&[]), Duration::ZERO);
        let wrapper = wrapper(Phase::Running, false, false);
        let kind = kind_of(&wrapper.components[0]);
        let mut feed = feed::Objects::new(kind.clone());
        let job = |conditions: Value| -> RawObject {
            let job = owned("b", &json!({"status": {"conditions": conditions}}));
            serde_json::from_str(&job.to_string()).unwrap()
        };
        feed.take(&context.cache, Event::Apply(job(json!([]))));
        let mut memory = ReconcileState::default();
        look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
        // both events come between two looks
        let ended = json!([{"type": condition, "status": "True"}]);
        feed.take(&context.cache, Event::Apply(job(ended.clone())));
        match way {
            "it is deleted" => drop(feed.take(&context.cache, Event::Delete(job(ended)))),
            "a new list does not show it" => {
                feed.take(&context.cache, Event::Init);
                feed.take(&context.cache, Event::InitDone);
            }
            _ => assert!(context.cache.set_blind(&kind)),
        }
        for ask in [FreshRead::Nothing, FreshRead::Nothing] {
            let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
            let outcome = seen.components[1].ours().map(|object| object.report.outcome.clone());
            let has_ended = outcome.is_some_and(|it| it != Outcome::Active);
            assert_eq!(has_ended, is_seen, "{condition}, {way}");
            assert_eq!(memory.pods_unseen_for().is_some(), is_seen, "there is another look");
        }
        memory.deleted_objects = DeletedObjects::default(); // it was decided about
        let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
        assert_eq!(seen.components[1].presence, Presence::Unseen, "{condition}, {way}");
    }
}

/// A pod of the Job `b`, which may be Terminating; one that is disrupted runs.
fn pod_of_job(phase: &str, deletion: &Value) -> Value {
    let status = match phase {
        "Disrupted" => json!({"phase": "Running",
            "conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
        phase => json!({"phase": phase}),
    };
    let mut pod = owned("p", &json!({ "status": status }));
    let metadata = pod["metadata"].as_object_mut().unwrap();
    metadata.extend(deletion.as_object().unwrap().clone());
    let job = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "b", "uid": "uid-b",
        "controller": true}]);
    metadata.insert("ownerReferences".to_owned(), job);
    pod
}

pub(super) fn watched(pod: &Value) -> WatchedPod {
    serde_json::from_str(&pod.to_string()).unwrap()
}

/// The watch shows the Job `b`.
fn show_job(context: &Context, wrapper: &Wrapper) {
    let kind = kind_of(&wrapper.components[0]);
    let job: RawObject = serde_json::from_str(&owned("b", &json!({})).to_string()).unwrap();
    context.cache.put_object(&kind, ObjectRecord::of(&job, &kind.api_version, &kind.kind));
}

/// Another leader has decided about its end, and deletes it.
#[tokio::test]
async fn what_is_created_again_is_not_seen_once_more() {
    let (attach, ask) = (Attach::default(), FreshRead::Nothing);
    for (status, is_made_here, is_seen) in
        [("True", false, true), ("False", false, false), ("False", true, true)]
    {
        let context = context(&server(&[]), Duration::ZERO);
        let mut wrapper = wrapper(Phase::Running, false, false);
        let mut component = ComponentStatus::default();
        let (kind, reason) = (condition::RESOURCES_DEPLOYED, "Recreating");
        let now = Timestamp::UNIX_EPOCH;
        condition::set(&mut component.conditions, kind, status == "True", reason, "", now);
        wrapper.status.component_status = vec![component; 2];
        let mut jobs = feed::Objects::new(kind_of(&wrapper.components[0]));
        let failed = json!([{"type": "Failed", "status": "True"}]);
        let job: RawObject = serde_json::from_str(
            &owned("b", &json!({"status": {"conditions": failed}})).to_string(),
        )
        .unwrap();
        let mut pods = feed::Pods::default();
        jobs.take(&context.cache, Event::Apply(job.clone()));
        pods.take(&context.cache, Event::Apply(watched(&pod_of_job("Failed", &json!({})))));
        let mut memory = ReconcileState::default();
        if is_made_here {
            memory.unrecorded.insert(1);
        }
        look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
        jobs.take(&context.cache, Event::Delete(job));
        let deletion = json!({"deletionTimestamp": PAST, "deletionGracePeriodSeconds": 0});
        pods.take(&context.cache, Event::Delete(watched(&pod_of_job("Failed", &deletion))));
        let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
        let found = (seen.components[1].ours().is_some(), seen.pods.len());
        assert_eq!(found, (is_seen, usize::from(is_seen)), "{status}");
    }
}

#[tokio::test]
async fn a_pod_that_has_failed_is_seen_once_more_after_its_deletion() {
    let (attach, ask) = (Attach::default(), FreshRead::Nothing);
    let over = || json!({"deletionTimestamp": PAST, "deletionGracePeriodSeconds": 0});
    for (phase, deletion, is_seen) in [
        ("Failed", over(), true),
        ("Running", over(), false),
        ("Disrupted", over(), true),
        ("Failed", json!({}), false), // its label was removed
        ("Disrupted", json!({}), false),
    ] {
        let context = context(&server(&[]), Duration::ZERO);
        let wrapper = wrapper(Phase::Running, false, false);
        let mut feed = feed::Pods::default();
        show_job(&context, &wrapper);
        feed.take(&context.cache, Event::Apply(watched(&pod_of_job("Running", &json!({})))));
        let mut memory = ReconcileState::default();
        let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
        assert_eq!(seen.pods.len(), 1);
        feed.take(&context.cache, Event::Delete(watched(&pod_of_job(phase, &deletion))));
        for _ in 0..2 {
            let seen = look(&context, &wrapper, &mut memory, ask, &attach).await;
            let failed = seen.iter().flat_map(|seen| &seen.pods);
            let failed: Vec<_> = failed.filter(|pod| pod.phase == PodPhase::Failed).collect();
            assert_eq!(failed.len(), usize::from(is_seen), "{phase} {deletion}");
            assert!(failed.iter().all(|pod| pod.component == Some(1) && pod.gone));
        }
        memory.deleted_objects = DeletedObjects::default(); // it was decided about
        let seen = look(&context, &wrapper, &mut memory, ask, &attach).await;
        assert!(seen.is_ok_and(|seen| seen.pods.is_empty()) || !is_seen, "{phase} {deletion}");
    }
}

#[tokio::test]
async fn how_a_disrupted_pod_ended_is_told_by_the_watch_alone() {
    let attach = Attach::default();
    let context = context(&listing(vec![]), Duration::ZERO);
    let wrapper = wrapper(Phase::Running, false, false);
    let mut feed = feed::Pods::default();
    show_job(&context, &wrapper);
    let deletion = json!({"deletionTimestamp": PAST, "deletionGracePeriodSeconds": 30});
    let pod = |phase: &str, deletion: &Value| watched(&pod_of_job(phase, deletion));
    feed.take(&context.cache, Event::Apply(pod("Disrupted", &deletion)));
    let mut memory = ReconcileState::default();
    look(&context, &wrapper, &mut memory, FreshRead::Nothing, &attach).await.unwrap();
    for _ in 0..2 {
        let seen = look(&context, &wrapper, &mut memory, FreshRead::Pods, &attach).await.unwrap();
        let pods: Vec<_> = seen.pods.iter().map(|pod| (pod.phase, pod.gone)).collect();
        assert_eq!(pods, [(PodPhase::Running, false)], "it is gone, and how it ended is to come");
    }
    let over = json!({"deletionTimestamp": PAST, "deletionGracePeriodSeconds": 0});
    feed.take(&context.cache, Event::Delete(pod("Failed", &over)));
    let seen = look(&context, &wrapper, &mut memory, FreshRead::Nothing, &attach).await.unwrap();
    let pods: Vec<_> = seen.pods.iter().map(|pod| (pod.phase, pod.gone)).collect();
    assert_eq!(pods, [(PodPhase::Failed, true)]);
}

/// A verdict about a failed pod makes a LIST first, which may be ahead of the watch.
#[tokio::test]
async fn a_failed_pod_that_a_list_shows_no_more_is_seen_once_more() {
    let attach = Attach::default();
    for is_told_first in [true, false] {
        let context = context(&listing(vec![]), Duration::ZERO);
        let wrapper = wrapper(Phase::Running, false, false);
        let mut feed = feed::Pods::default();
        show_job(&context, &wrapper);
        feed.take(&context.cache, Event::Apply(watched(&pod_of_job("Failed", &json!({})))));
        let mut memory = ReconcileState::default();
        let first = look(&context, &wrapper, &mut memory, FreshRead::Nothing, &attach).await;
        assert_eq!(first.unwrap().pods.len(), 1);
        let deletion = json!({"deletionTimestamp": PAST, "deletionGracePeriodSeconds": 0});
        let end = || Event::Delete(watched(&pod_of_job("Failed", &deletion)));
        if is_told_first {
            feed.take(&context.cache, end());
        }
        let seen = look(&context, &wrapper, &mut memory, FreshRead::Pods, &attach).await.unwrap();
        let gone: Vec<bool> = seen.pods.iter().map(|pod| pod.gone).collect();
        assert_eq!(gone, [true], "the watch tells it first: {is_told_first}");
        if !is_told_first {
            feed.take(&context.cache, end());
            let again = look(&context, &wrapper, &mut memory, FreshRead::Nothing, &attach).await;
            assert_eq!(again.unwrap().pods.len(), 1, "it is one pod");
        }
        memory.deleted_objects = DeletedObjects::default(); // it was decided about
        look(&context, &wrapper, &mut memory, FreshRead::Nothing, &attach).await.unwrap();
        memory.deleted_objects = DeletedObjects::default();
        let last = look(&context, &wrapper, &mut memory, FreshRead::Nothing, &attach).await;
        assert!(last.unwrap().pods.is_empty(), "{is_told_first}");
    }
}

#[tokio::test]
async fn a_component_is_read_before_a_verdict() {
    let attach = Attach::default();
    for (what, cached, listed, ask, is_read) in [
        ("it is there", Some("Failed"), Some("Failed"), FreshRead::Pods, true),
        ("it is gone since", Some("Failed"), None, FreshRead::Pods, true),
        ("only the LIST shows it", None, Some("Failed"), FreshRead::Pods, true),
        ("it runs", Some("Running"), Some("Running"), FreshRead::Pods, true),
        ("it has succeeded, and is gone since", Some("Succeeded"), None, FreshRead::Pods, true),
        ("no pod was seen", None, None, FreshRead::Pods, true),
        ("no verdict", Some("Failed"), None, FreshRead::Missing, false),
    ] {
        let pod = |phase: &str| pod_of_job(phase, &json!({}));
        let server = listing(listed.into_iter().map(pod).collect());
        let context = context(&server, Duration::ZERO);
        let wrapper = wrapper(Phase::Running, false, false);
        show_job(&context, &wrapper);
        let mut memory = ReconcileState::default();
        if let Some(phase) = cached {
            let event = Event::Apply(watched(&pod(phase)));
            feed::Pods::default().take(&context.cache, event);
            look(&context, &wrapper, &mut memory, FreshRead::Nothing, &attach).await.unwrap();
        }
        look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
        let called = server.called.lock().unwrap();
        let of = |path: &str| called.iter().position(|call| *call == format!("GET {path}"));
        let (read, list) = (of(&format!("{JOBS}/b")), of("/api/v1/namespaces/ns/pods"));
        assert_eq!(read.is_some(), is_read, "{what}: {called:?}");
        assert!(read.is_none_or(|read| list.is_some_and(|list| list < read)), "{what}: {called:?}");
    }
}

/// A context whose API server has the Jobs a and b, as they are after the change, and no pods.
fn serving(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Context {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let kind = json!({"name": "jobs", "kind": "Job", "namespaced": true,
            "singularName": "job", "verbs": ["get", "list", "watch"]});
        let job = |name: &str| {
            let mut job = owned(name, &json!({}));
            change(&mut job["metadata"]);
            job
        };
        let selected = request.uri().query().and_then(|query| query.split_once("metadata.name%3D"));
        let items: Vec<Value> =
            selected.iter().map(|(_, rest)| job(rest.split('&').next().unwrap())).collect();
        let body = match request.uri().path().strip_prefix(JOBS) {
            Some(name) if name.len() > 1 => job(&name[1..]),
            _ => {
                json!({"groupVersion": "batch/v1", "resources": [kind], "metadata": {}, "items": items})
            }
        };
        let body = kube::client::Body::from(body.to_string().into_bytes());
        std::future::ready(http::Response::builder().body(body))
    });
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    Context::new(kube::Client::new(service, "default"), clock, Config::default(), |_| ())
}

/// No watch shows what becomes of it.
#[tokio::test]
async fn a_component_that_has_lost_its_label_is_looked_at_again() {
    for (is_labelled, again) in [(true, None), (false, Some(UNWATCHED_AGAIN_AFTER))] {
        let context = serving(move |metadata| {
            if !is_labelled {
                metadata["labels"].as_object_mut().unwrap().remove(keys::APPWRAPPER);
            }
        });
        let (wrapper, attach) = (wrapper(Phase::Running, false, false), Attach::default());
        let mut memory = ReconcileState::default();
        let ask = FreshRead::Missing;
        let seen = look(&context, &wrapper, &mut memory, ask, &attach).await.unwrap();
        assert!(seen.components.iter().all(|component| component.ours().is_some()));
        assert_eq!(memory.pods_unseen_for(), again, "{is_labelled}");
    }
}

/// An orphaning deletion takes its owner away, while a finalizer keeps it.
#[tokio::test]
async fn a_component_that_was_seen_to_be_ours_is_so_until_it_is_gone() {
    let is_stripped = Arc::new(AtomicBool::new(false));
    let now = is_stripped.clone();
    let context = serving(move |metadata| {
        if now.load(Ordering::SeqCst) {
            (metadata["labels"], metadata["ownerReferences"]) = (json!({}), json!([]));
        }
    });
    let (wrapper, attach) = (wrapper(Phase::Terminating, false, true), Attach::default());
    let mut memory = ReconcileState::default();
    for stripped in [false, true, true] {
        is_stripped.store(stripped, Ordering::SeqCst);
        let seen = look(&context, &wrapper, &mut memory, FreshRead::Gone, &attach).await.unwrap();
        assert!(seen.pods.is_empty());
        let ours = seen.components.iter().filter(|component| component.ours().is_some()).count();
        assert_eq!(ours, 2, "{stripped}");
    }
}
