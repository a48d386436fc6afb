use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::StreamExt;
use http_body_util::BodyExt;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::super::bundle::{Document, Origin};
use super::*;

const PORT: u16 = 8001;

fn site(source: Source) -> Arc<Site> {
    Arc::new(Site { guard: Guard::new(PORT).unwrap(), source })
}

/// Status, headers and body of a GET below the token, with a Host.
async fn get(site: &Arc<Site>, host: &str, below: &str) -> (StatusCode, String, String) {
    let url = site.guard.url();
    let path = url.split_once(&PORT.to_string()).unwrap().1;
    let request = Request::get(format!("{path}{below}")).header("host", host);
    let request = request.body(Body::empty()).unwrap();
    let response = router(site.clone()).oneshot(request).await.unwrap();
    let (status, headers) = (response.status(), format!("{:?}", response.headers()));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, headers, String::from_utf8(body.to_vec()).unwrap())
}

fn document(value: Value) -> Document {
    let origin = Origin { file: "test".into(), document: None, line: None, path: String::new() };
    Document { origin, value }
}

/// A bundle whose AppWrapper has words that would be markup.
fn recording() -> Recording {
    let wrapper = json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": "train", "namespace": "team", "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"workload.codeflare.dev/exported-at": "2026-01-01T00:10:00Z"}},
        "spec": {"components": [{"template": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w"},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]},
        }}]},
        "status": {"phase": "Failed", "attempts": [{
            "attempt": 0, "startedAt": "2026-01-01T00:01:00Z", "readyAt": "2026-01-01T00:02:00Z",
            "failedAt": "2026-01-01T00:05:00Z", "endedAt": "2026-01-01T00:06:00Z",
            "outcome": "Failed", "action": "Fail",
            "failure": {"pod": "w", "exitCode": 1, "reason": "<img src=x onerror=alert(1)>"},
        }]},
    });
    let queue = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
        "metadata": {"name": "gpu", "namespace": "team"}, "spec": {"clusterQueue": "all"},
        "status": {"pendingWorkloads": 2},
    });
    let cluster_queue = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
        "metadata": {"name": "all"},
        "spec": {"resourceGroups": [{"flavors": [{"name": "a100", "resources": [
            {"name": "nvidia.com/gpu", "nominalQuota": "4"},
        ]}]}]},
    });
    let documents = [wrapper, queue, cluster_queue].map(document);
    Recording::of_bundle(documents.into(), crate::config::Config::default()).unwrap()
}

#[tokio::test]
async fn an_export_is_shown_as_it_was() {
    let site = site(Source::Played(Box::new(recording())));
    let own = "127.0.0.1:8001";
    let (status, headers, page) = get(&site, own, "").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("<script type=\"module\" src=\"app.js\">"), "{page}");
    for header in ["default-src 'none'", "nosniff", "no-referrer", "no-store"] {
        assert!(headers.contains(header), "{header}: {headers}");
    }
    assert!(!headers.contains("access-control"), "{headers}");
    for file in ["app.js", "dom.js", "list.js", "play.js", "story.js", "style.css"] {
        assert_eq!(get(&site, own, file).await.0, StatusCode::OK, "{file}");
    }
    let json = async |path: &str| {
        let (status, _, body) = get(&site, own, path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    assert_eq!(json("info").await["mode"], "played");
    let rows = json("rows").await;
    assert_eq!((&rows[0]["name"], &rows[0]["phase"]), (&json!("train"), &json!("Failed")));
    let queues = json("queues").await;
    let queue = &queues["queues"][0];
    assert_eq!((&queue["name"], &queue["pending"]), (&json!("gpu"), &json!(2)));
    assert_eq!(queue["resources"][0]["quota"], "4");
    let story = json("story?namespace=team&name=train").await;
    assert_eq!(story["now"], "2026-01-01T00:10:00Z");
    assert_eq!(story["attempts"]["rows"][0][5], "Failed");
    assert_eq!(story["why"][0]["value"], "Pod/w: does not exist");
    let notes = story["description"]["notes"].to_string();
    assert!(notes.contains("assuming the default configuration"), "{notes}");
    for (file, begin) in [("picture.svg", "<svg "), ("picture.html", "<!DOCTYPE html>")] {
        let (status, headers, body) =
            get(&site, own, &format!("{file}?namespace=team&name=train")).await;
        assert_eq!(status, StatusCode::OK, "{file}: {body}");
        assert!(headers.contains("attachment; filename=\\\"train."), "{headers}");
        assert!(body.starts_with(begin) && !body.contains("<img"), "{body}");
        assert!(body.contains("&lt;img src=x"), "{body}");
    }
    let gone = get(&site, own, "story?namespace=team&name=other").await;
    assert_eq!(gone.0, StatusCode::NOT_FOUND);
    assert!(gone.2.contains("team/other does not exist"), "{}", gone.2);
    assert_eq!(get(&site, own, "nothing").await.0, StatusCode::NOT_FOUND);
    assert_eq!(get(&site, "evil.example", "rows").await.0, StatusCode::FORBIDDEN);
}

#[test]
fn an_export_tells_why_its_pods_are_missing() {
    let owned = |name: &str, [api_version, kind, owner]: [&str; 3]| {
        json!({"name": name, "namespace": "team", "uid": name, "ownerReferences": [{"kind": kind,
            "apiVersion": api_version, "name": owner, "uid": owner, "controller": true}]})
    };
    let event = |reason: &str, uid: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason,
            "metadata": {"name": reason, "namespace": "team"}, "message": "m",
            "involvedObject": {"kind": "K", "name": "n", "uid": uid}})
    };
    let (wrappers, sets) = ("workload.codeflare.dev/v1beta2", "jobset.x-k8s.io/v1alpha2");
    let pod = json!({"spec": {"containers": [{"name": "main", "image": "x"}]}});
    let template = json!({"apiVersion": sets, "kind": "JobSet", "metadata": {"name": "set"},
        "spec": {"replicatedJobs": [{"name": "r", "template": {"spec": {"template": pod}}}]}});
    let mut set = template.clone();
    set["metadata"] = owned("set", [wrappers, "AppWrapper", "train"]);
    for (ready, want) in
        [("False", vec!["About", "OfJob", "OfPod", "OfSet"]), ("True", vec!["About"])]
    {
        let documents = [
            json!({"apiVersion": wrappers, "kind": "AppWrapper",
                "metadata": {"name": "train", "namespace": "team", "uid": "train",
                    "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"components": [{"template": template.clone()}]},
                "status": {"phase": "Running", "conditions": [{"type": "PodsReady", "status": ready,
                    "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:01:00Z"}]}}),
            set.clone(),
            json!({"apiVersion": "batch/v1", "kind": "Job",
                "metadata": owned("job", [sets, "JobSet", "set"])}),
            json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Pending"},
                "metadata": owned("pod", ["batch/v1", "Job", "job"])}),
            json!({"apiVersion": "batch/v1", "kind": "Job",
                "metadata": owned("other", [sets, "JobSet", "another"])}),
            event("About", "train"),
            event("OfSet", "set"),
            event("OfJob", "job"),
            event("OfPod", "pod"),
            event("OfOther", "other"),
        ];
        let documents = documents.map(document).into();
        let recording = Recording::of_bundle(documents, crate::config::Config::default()).unwrap();
        let story = serde_json::to_value(recording.story("team", "train", None).unwrap()).unwrap();
        let events = story["description"]["events"].as_array().unwrap().iter();
        let reasons: Vec<_> = events.filter_map(|event| event["reason"].as_str()).collect();
        assert_eq!(reasons, want, "{ready}");
    }
}

#[tokio::test]
async fn a_reader_follows_the_rows_and_their_changes() {
    let rows = Arc::new(rows::Rows::default());
    let seen = |name: &str| {
        let object =
            json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"components": []}});
        serde_json::from_str(&object.to_string()).unwrap()
    };
    rows.take(vec![Event::Init, Event::InitApply(seen("a")), Event::InitDone]);
    let response = stream::events(&rows);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut messages = response.into_body().into_data_stream();
    let mut next = async || {
        let message = messages.next().await.unwrap().unwrap();
        String::from_utf8(message.to_vec()).unwrap()
    };
    assert!(next().await.starts_with("event: reset\n"));
    let first = next().await;
    assert!(first.starts_with("event: change\ndata: {") && first.ends_with("}\n\n"), "{first}");
    assert!(first.contains("\"name\":\"a\"") && first.lines().count() == 3, "{first}");
    assert!(next().await.contains("\"complete\":true"));
    rows.take(vec![Event::Delete(seen("a")), Event::Apply(seen("b"))]);
    let change = next().await;
    assert!(change.contains("\"gone\":[[\"ns\",\"a\"]]") && change.contains("\"b\""), "{change}");
    // somebody who is too far behind begins again
    for n in 0..1_000 {
        rows.take(vec![Event::Apply(seen(&format!("c-{n}")))]);
    }
    assert!(next().await.starts_with("event: reset\n"));
}
