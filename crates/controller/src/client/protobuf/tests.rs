use serde_json::{Value, json as value};

use super::messages::*;
use super::*;
use crate::api::keys;
use crate::observe::pod_record::PodRecord;
use crate::observe::raw_object::RawObject;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// A document of a kind, as the API server sends it.
fn document(kind: &str, message: &impl Message) -> Bytes {
    let type_meta = Some(TypeMeta { api_version: "v1".to_owned(), kind: kind.to_owned() });
    let unknown = Unknown { type_meta, raw: message.encode_to_vec().into() };
    [MAGIC, &unknown.encode_to_vec()].concat().into()
}

fn event(kind: &str, document: Bytes) -> Vec<u8> {
    let object = Some(RawExtension { raw: document });
    let event = WatchEvent { kind: kind.to_owned(), object }.encode_to_vec();
    let length = u32::try_from(event.len()).unwrap().to_be_bytes();
    [&length[..], &event].concat()
}

fn read(document: &Bytes) -> Value {
    serde_json::from_slice(&json(document).unwrap()).unwrap()
}

const fn second(seconds: i64) -> Time {
    Time { seconds: Some(seconds) }
}

fn named(name: &str) -> Pod {
    let metadata = ObjectMeta { name: bytes(name), ..ObjectMeta::default() };
    Pod { metadata, ..Pod::default() }
}

fn owner(name: &str, controller: Option<bool>) -> OwnerReference {
    OwnerReference {
        kind: bytes("Job"),
        name: bytes(name),
        uid: bytes("ju"),
        api_version: bytes("batch/v1"),
        controller,
    }
}

fn metadata() -> ObjectMeta {
    let entry = |key: &str, value: &str| Entry { key: bytes(key), value: bytes(value) };
    ObjectMeta {
        name: bytes("p"),
        namespace: bytes("n"),
        uid: bytes("u"),
        resource_version: bytes("7"),
        creation_timestamp: Some(second(1)),
        deletion_timestamp: Some(second(40)),
        deletion_grace_period_seconds: Some(0),
        labels: vec![entry(keys::ATTEMPT, "3"), entry("a", "b"), entry(keys::POD_SET, "")],
        annotations: vec![entry("c", "d"), entry(keys::PROGRESS, "7")],
        owner_references: vec![
            owner("other", None),
            owner("j", Some(true)),
            owner("k", Some(true)),
        ],
        finalizers: vec![bytes("x/hold")],
        managed_fields: vec![ManagedFields { time: Some(second(6)), subresource: bytes("status") }],
    }
}

fn spec() -> PodSpec {
    let amount = |resource: &str, text: &str| Amount {
        resource: bytes(resource),
        quantity: Some(Quantity { text: bytes(text) }),
    };
    let resources = Resources {
        limits: vec![amount("nvidia.com/gpu", "8")],
        requests: vec![amount("cpu", "1m")],
    };
    let main =
        Container { name: bytes("c"), resources: Some(resources), restart_policy: Bytes::new() };
    let side = Container { name: bytes("side"), resources: None, restart_policy: bytes("Always") };
    PodSpec { containers: vec![main], node_name: bytes("node-1"), init_containers: vec![side] }
}

fn status() -> PodStatus {
    let state = |state: State| vec![ContainerStatus { name: bytes("c"), state: Some(state) }];
    let terminated = Terminated {
        exit_code: 137,
        signal: 9,
        reason: bytes("OOMKilled"),
        message: bytes("last words"),
        finished_at: Some(second(5)),
    };
    let waiting = Waiting { reason: bytes("ImagePullBackOff"), message: bytes("no image") };
    PodStatus {
        phase: bytes("Failed"),
        conditions: vec![Condition {
            kind: bytes("Ready"),
            status: bytes("False"),
            last_transition_time: Some(second(4)),
            reason: bytes("PodFailed"),
            message: Bytes::new(),
        }],
        message: bytes("evicted"),
        reason: bytes("Evicted"),
        start_time: Some(second(2)),
        container_statuses: state(State { terminated: Some(terminated), ..State::default() }),
        init_container_statuses: state(State { waiting: Some(waiting), ..State::default() }),
    }
}

/// A pod with everything that is read of one.
fn whole() -> Pod {
    Pod { metadata: metadata(), spec: Some(spec()), status: Some(status()) }
}

#[test]
fn a_pod_is_what_it_is_in_json() {
    let want = value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "1970-01-01T00:00:01Z", "deletionTimestamp": "1970-01-01T00:00:40Z",
            "deletionGracePeriodSeconds": 0,
            "labels": {keys::ATTEMPT: "3", keys::POD_SET: ""}, "annotations": {keys::PROGRESS: "7"},
            "ownerReferences": [{"kind": "Job", "name": "j", "uid": "ju", "apiVersion": "batch/v1",
                "controller": true}],
            "finalizers": ["x/hold"],
            "managedFields": [{"time": "1970-01-01T00:00:06Z", "subresource": "status"}],
        },
        "spec": {
            "containers": [{"name": "c", "resources": {
                "limits": {"nvidia.com/gpu": "8"}, "requests": {"cpu": "1m"}}}],
            "nodeName": "node-1",
            "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        },
        "status": {
            "phase": "Failed", "message": "evicted", "reason": "Evicted", "startTime": "1970-01-01T00:00:02Z",
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed",
                "lastTransitionTime": "1970-01-01T00:00:04Z"}],
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 137,
                "signal": 9, "reason": "OOMKilled", "message": "last words",
                "finishedAt": "1970-01-01T00:00:05Z"}}}],
            "initContainerStatuses": [{"name": "c", "state": {"waiting": {
                "reason": "ImagePullBackOff", "message": "no image"}}}],
        },
    });
    assert_eq!(read(&document("Pod", &whole())), want);
}

#[test]
fn when_a_status_was_written_is_read_only_of_a_pod_that_failed() {
    let running = PodStatus { phase: bytes("Running"), ..status() };
    let runs = Pod { status: Some(running), ..whole() };
    let new = Pod { status: None, ..whole() };
    let items = vec![whole(), runs, new];
    let list = read(&document("PodList", &PodList { metadata: ListMeta::default(), items }));
    let told: Vec<bool> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| !pod["metadata"]["managedFields"].is_null())
        .collect();
    assert_eq!(told, [true, false, false]);
}

#[test]
fn what_is_empty_or_unknown_is_left_out() {
    let empty_time = Some(Time { seconds: None });
    let state = State {
        running: Some(Running {}),
        terminated: Some(Terminated { finished_at: empty_time, ..Terminated::default() }),
        ..State::default()
    };
    let mut pod = named("p");
    pod.metadata.creation_timestamp = empty_time;
    let statuses = vec![ContainerStatus { name: bytes("c"), state: Some(state) }];
    pod.status = Some(PodStatus { container_statuses: statuses, ..PodStatus::default() });
    let mut encoded = pod.encode_to_vec();
    encoded.extend([0xfa, 0x01, 3, b'n', b'e', b'w']); // field 31, which no version has
    let unknown = Unknown {
        type_meta: Some(TypeMeta { api_version: "v1".to_owned(), kind: "Pod".to_owned() }),
        raw: encoded.into(),
    };
    let document = [MAGIC, &unknown.encode_to_vec()].concat();
    let want = value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {
        "containerStatuses": [{"name": "c", "state": {"running": {}, "terminated": {"exitCode": 0}}}]}});
    assert_eq!(read(&document.into()), want);
}

#[test]
fn a_text_that_is_not_utf_8_spoils_no_other() {
    let mut pod = named("p");
    let broken = Bytes::from_static(b"half \xf0\x9f");
    let key = bytes(keys::APPWRAPPER);
    pod.metadata.labels = vec![Entry { key, value: bytes("a") }];
    pod.metadata.annotations = vec![Entry { key: broken.clone(), value: broken.clone() }];
    pod.status = Some(PodStatus { message: broken, ..PodStatus::default() });
    let seen: RawObject = serde_json::from_slice(&json(&document("Pod", &pod)).unwrap()).unwrap();
    let record = PodRecord::of(&seen);
    assert_eq!(record.identity.appwrapper.as_deref(), Some("a"));
    assert_eq!(record.pod.message.as_deref(), Some("half \u{fffd}"));
}

/// JSON has six bytes for a control character, and the API server accepts them in an annotation and in the name of an owner.
#[test]
fn what_a_user_writes_and_nobody_reads_is_not_made_json() {
    let long = "\u{1}".repeat(250_000);
    let mut pod = whole();
    let plain = json(&document("Pod", &pod)).unwrap().len();
    let entry = |key: &str| Entry { key: bytes(key), value: bytes(&long) };
    pod.metadata.annotations.push(entry("example.org/a"));
    pod.metadata.labels.push(entry("example.org/b"));
    pod.metadata.owner_references.insert(0, owner(&long, Some(false)));
    assert_eq!(json(&document("Pod", &pod)).unwrap().len(), plain);
    pod.metadata.owner_references = vec![owner(&long, Some(true))];
    let text = json(&document("Pod", &pod)).unwrap();
    assert!(text.len() < plain + 6 * 400, "{}", text.len());
    let seen: RawObject = serde_json::from_slice(&text).unwrap();
    assert_eq!(PodRecord::of(&seen).identity.controller, None, "it is no reference to an object");
}

#[test]
fn lists_and_errors_are_read() {
    let metadata = ListMeta { resource_version: "9".to_owned(), continue_token: "next".to_owned() };
    let items = vec![named("a"), named("b")];
    let list = read(&document("PodList", &PodList { metadata, items }));
    assert_eq!(list["metadata"]["continue"], "next");
    assert_eq!(list["metadata"]["resourceVersion"], "9");
    assert_eq!(list["items"][1]["metadata"]["name"], "b");
    let status = Status {
        outcome: bytes("Failure"),
        message: bytes("too old"),
        reason: bytes("Expired"),
        details: Some(StatusDetails { retry_after_seconds: 2 }),
        code: 410,
        ..Status::default()
    };
    let status: kube::core::Status =
        serde_json::from_value(read(&document("Status", &status))).unwrap();
    assert_eq!(
        (status.code, status.message.as_str(), status.reason.as_str()),
        (410, "too old", "Expired")
    );
    assert_eq!(status.details.unwrap().retry_after_seconds, 2);
    for (document, want) in [
        (Bytes::from_static(b"{}"), "sent no protobuf document"),
        (Bytes::from_static(b"k8s\0"), "sent no protobuf document"),
        (Bytes::from_static(b"k8s\0\xff"), "malformed protobuf"),
        (document("Secret", &named("s")), "sent a \"Secret\""),
    ] {
        assert!(json(&document).unwrap_err().to_string().contains(want), "{want}");
    }
}

/// The lines that come of these pieces of a body.
async fn lines_of(pieces: Vec<Bytes>) -> Result<Vec<Value>, String> {
    let pieces = pieces.into_iter().map(|piece| Ok::<_, std::io::Error>(Frame::data(piece)));
    let body = lines(StreamBody::new(futures::stream::iter(pieces)));
    let mut lines = Box::pin(BodyDataStream::new(body));
    let mut all = vec![];
    while let Some(line) = lines.next().await {
        let line = line.map_err(|error| error.to_string())?;
        assert!(line.ends_with(b"\n"));
        all.push(serde_json::from_slice(&line).unwrap());
    }
    Ok(all)
}

#[tokio::test]
async fn events_are_read_however_the_body_is_cut() {
    let events = [
        event("ADDED", document("Pod", &whole())),
        event("BOOKMARK", document("Pod", &named(""))),
        event("DELETED", document("Pod", &named("p"))),
    ]
    .concat();
    for size in [1, 2, 3, 5, 64, events.len()] {
        let pieces = events.chunks(size).map(Bytes::copy_from_slice).collect();
        let lines = lines_of(pieces).await.unwrap();
        let kinds: Vec<&Value> = lines.iter().map(|line| &line["type"]).collect();
        assert_eq!(kinds, ["ADDED", "BOOKMARK", "DELETED"], "{size}");
        assert_eq!(lines[0]["object"], read(&document("Pod", &whole())), "{size}");
    }
    let cut = lines_of(vec![Bytes::copy_from_slice(&events[..events.len() - 1])]).await;
    assert_eq!(cut.unwrap_err(), "the watch ended within an event");
    let long = lines_of(vec![Bytes::from_static(&[0xff; 8])]).await.unwrap_err();
    assert!(long.contains("an event has 4294967295 bytes"), "{long}");
}
