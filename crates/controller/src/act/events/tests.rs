use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

fn push(events: &Events, namespace: &str, message: &str) -> bool {
    let about = About { namespace, name: "aw", uid: "u" };
    events.push(Duration::ZERO, &about, EventType::Warning, "Failed", message)
}

/// An API server that takes every event but those of a namespace that hangs, and what it took.
fn server(taken: &Arc<Mutex<Vec<(Method, Value)>>>, hung: &Arc<AtomicUsize>) -> Client {
    let (taken, hung) = (taken.clone(), hung.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (taken, hung) = (taken.clone(), hung.clone());
        async move {
            if request.uri().path().contains("/namespaces/slow/") {
                hung.fetch_add(1, Ordering::Relaxed);
                std::future::pending::<()>().await;
            }
            let method = request.method().clone();
            let body = request.into_body().collect_bytes().await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            taken.lock().unwrap().push((method, body.clone()));
            Ok::<_, kube::Error>(Response::new(Body::from(body.to_string().into_bytes())))
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_counted_and_another_message_is_another_event() {
    let (taken, hung) = (Arc::default(), Arc::default());
    let (events, client) = (Events::default(), server(&taken, &hung));
    for message in ["attempt 0", "attempt 0", "attempt 1"] {
        assert!(push(&events, "n", message));
    }
    let wait = tokio::time::sleep(Duration::from_secs(1));
    tokio::select! { () = events.publish(&client, || {}) => {}, () = wait => {} }
    let taken = taken.lock().unwrap();
    let seen: Vec<_> = taken
        .iter()
        .map(|(method, body)| (method.as_str(), body["note"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [("POST", "attempt 0"), ("PATCH", "attempt 0"), ("POST", "attempt 1")]);
    assert_eq!(taken[1].1["series"]["count"], 2);
    assert_eq!(taken[0].1["regarding"]["uid"], "u");
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_what_waits_and_what_is_on_its_way() {
    let (taken, hung) = (Arc::default(), Arc::default());
    let (events, client) = (Events::default(), server(&taken, &hung));
    events.all_sent().await;
    for message in ["one", "two", "three"] {
        assert!(push(&events, "n", message));
    }
    assert_eq!(events.left(), 3);
    tokio::select! { () = events.publish(&client, || {}) => {}, () = events.all_sent() => {} }
    assert_eq!((taken.lock().unwrap().len(), events.left()), (3, 0));
    assert!(push(&events, "slow", "hangs") && push(&events, "slow", "waits"));
    let wait = tokio::time::timeout(ACCEPTED_WITHIN / 2, events.all_sent());
    let is_sent = tokio::select! {
        () = events.publish(&client, || {}) => false,
        waited = wait => waited.is_ok(),
    };
    assert_eq!((is_sent, events.left()), (false, 2));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_whose_events_hang_delays_no_other() {
    let (taken, hung) = (Arc::default(), Arc::default());
    let (events, client) = (Events::default(), server(&taken, &hung));
    for number in 0..OF_NAMESPACE_MAX {
        assert!(push(&events, "slow", &number.to_string()));
    }
    assert!(!push(&events, "slow", "too many"));
    assert!(push(&events, "n", "its own"));
    let wait = tokio::time::sleep(ACCEPTED_WITHIN / 2);
    tokio::select! { () = events.publish(&client, || {}) => {}, () = wait => {} }
    assert_eq!((taken.lock().unwrap().len(), hung.load(Ordering::Relaxed)), (1, 1));
}

/// What an API server answers to each try, how often it is tried, and whether the event counts as lost.
#[tokio::test(start_paused = true)]
async fn an_event_is_sent_again_where_that_may_help() {
    let no_role = "events.events.k8s.io is forbidden: User \"u\" cannot create resource \"events\"";
    let full = "events.events.k8s.io \"e\" is forbidden: exceeded quota: q";
    for (answers, tries, is_lost) in [
        (vec![(403, no_role), (201, "")], 2, false),
        (vec![(503, ""), (500, ""), (201, "")], 3, false),
        (vec![(403, no_role); 9], 3, true),
        (vec![(403, full); 9], 1, true),
        (vec![(404, "namespaces \"n\" not found"); 9], 1, true),
        (vec![(422, "invalid"); 9], 1, true),
    ] {
        let (asked, lost) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let client = answering(answers.clone(), asked.clone());
        let events = Events::default();
        assert!(push(&events, "n", "m"));
        let wait = tokio::time::sleep(Duration::from_mins(1));
        let publish = events.publish(&client, || lost.store(1, Ordering::Relaxed));
        tokio::select! { () = publish => {}, () = wait => {} }
        let seen = (asked.load(Ordering::Relaxed), lost.load(Ordering::Relaxed) == 1);
        assert_eq!(seen, (tries, is_lost), "{answers:?}");
    }
}

fn answering(answers: Vec<(u16, &'static str)>, asked: Arc<AtomicUsize>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, message) = answers[asked.fetch_add(1, Ordering::Relaxed)];
        async move {
            let sent = request.into_body().collect_bytes().await.unwrap();
            let refusal = json!({"kind": "Status", "code": code, "message": message});
            let body = if code == 201 { sent.to_vec() } else { refusal.to_string().into_bytes() };
            let answer = Response::builder().status(code).body(Body::from(body)).unwrap();
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, "default")
}

#[test]
fn each_namespace_can_have_one_however_many_wait() {
    let events = Events::default();
    let accepted = (0..10_000).filter(|n| push(&events, &format!("n{}", n % 30), "m")).count();
    assert_eq!(accepted, WAITING_MAX);
    assert!(push(&events, "other", "m"));
    assert!(!push(&events, "other", "m"));
    let order: Vec<String> =
        std::iter::from_fn(|| events.take()).map(|it| it.namespace).take(31).collect();
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 31, "in turns");
    let long = About { namespace: "n", name: "aw", uid: "u" };
    assert!(events.push(Duration::ZERO, &long, EventType::Warning, "R", &"é".repeat(2000)));
}

#[test]
fn events_of_a_namespace_have_a_rate_for_each_type() {
    let events = Events::default();
    let push = |second, namespace, kind| {
        let about = About { namespace, name: "aw", uid: "u" };
        let is_taken = events.push(Duration::from_secs(second), &about, kind, "R", "m");
        drop(events.take());
        is_taken
    };
    let count = |second, namespace, kind: EventType| {
        (0..300).filter(|_| push(second, namespace, kind)).count()
    };
    assert_eq!(count(1, "a", EventType::Normal), 50);
    assert_eq!(count(1, "b", EventType::Normal), 50, "each namespace has its own");
    assert_eq!(count(1, "a", EventType::Warning), 200, "so has each type");
    assert_eq!(count(2, "a", EventType::Normal), 5);
    assert_eq!(count(2, "a", EventType::Warning), 2);
}

#[test]
fn a_warning_takes_the_place_of_a_normal_event_where_a_queue_is_full() {
    let events = Events::default();
    let about = About { namespace: "n", name: "aw", uid: "u" };
    let push = |kind, message| events.push(Duration::ZERO, &about, kind, "R", message);
    assert!(push(EventType::Normal, "progress"));
    let queued = (1..OF_NAMESPACE_MAX).filter(|_| push(EventType::Warning, "failed")).count();
    assert_eq!(queued, OF_NAMESPACE_MAX - 1);
    assert!(!push(EventType::Normal, "more progress"), "it is full");
    assert!(!push(EventType::Warning, "failed for good"), "another was dropped");
    assert!(!push(EventType::Warning, "again"), "no Normal event is left");
    let sent: Vec<String> =
        std::iter::from_fn(|| events.take()).map(|event| event.message).collect();
    assert_eq!(sent.len(), OF_NAMESPACE_MAX);
    assert_eq!((sent[0].as_str(), sent[sent.len() - 1].as_str()), ("failed", "failed for good"));
}
