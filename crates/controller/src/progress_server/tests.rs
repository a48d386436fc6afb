use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::api::keys;
use crate::clock::ManualClock;

const PATH: &str = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/train/status";
const JOBS: &str = "/apis/batch/v1/namespaces/team/jobs";
const APPWRAPPERS: &str = "/apis/workload.codeflare.dev/v1beta2/namespaces/team/appwrappers";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// An API server: objects by path, what it was asked, and how it fails.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    calls: Vec<String>,
    patches: Vec<Value>,
    broken: Option<(&'static str, u16)>,
    /// What it says then.
    said: &'static str,
    /// What has this in its path is never answered.
    hangs: Option<&'static str>,
}

fn reply(code: u16, body: &Value) -> http::Response<kube::client::Body> {
    let body = kube::client::Body::from(body.to_string().into_bytes());
    http::Response::builder().status(code).body(body).unwrap()
}

fn status(code: u16) -> http::Response<kube::client::Body> {
    failure(code, "")
}

fn failure(code: u16, message: &str) -> http::Response<kube::client::Body> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "message": message});
    reply(code, &body)
}

/// What the API server says of a token: `ACCOUNT/POD/UID`, or a word.
fn reviewed(token: &str) -> Value {
    let user = |name: &str, extra: Value| {
        json!({"authenticated": true, "audiences": [crate::kinds::PROGRESS_AUDIENCE],
            "user": {"username": name, "extra": extra}})
    };
    let of_pod = |name: &str, uid: &str| {
        json!({"authentication.kubernetes.io/pod-name": [name],
            "authentication.kubernetes.io/pod-uid": [uid]})
    };
    match token.split('/').collect::<Vec<_>>()[..] {
        ["unbound"] => user("system:serviceaccount:team:default", json!({})),
        ["person"] => user("ann", of_pod("p", "u")),
        ["twice"] => {
            let mut extra = of_pod("p", "u");
            extra["authentication.kubernetes.io/pod-uid"] = json!(["u", "v"]);
            user("system:serviceaccount:team:default", extra)
        }
        ["path"] => user("system:serviceaccount:team:default", of_pod("../secrets/s", "u")),
        ["elsewhere"] => {
            let mut said = user("system:serviceaccount:team:default", of_pod("p", "u"));
            said["audiences"] = json!(["https://kubernetes.default.svc"]);
            said
        }
        ["unaware"] => {
            let mut said = user("system:serviceaccount:team:default", of_pod("p", "u"));
            said["audiences"] = json!(null);
            said
        }
        [namespace, name, uid] => {
            user(&format!("system:serviceaccount:{namespace}:default"), of_pod(name, uid))
        }
        _ => json!({"authenticated": false}),
    }
}

impl Cluster {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn client(&self) -> Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let cluster = cluster.clone();
            async move {
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                let accepts = request.headers().get(header::ACCEPT).cloned();
                let accepts = accepts.unwrap_or(HeaderValue::from_static(""));
                let is_lean = accepts.to_str().unwrap().contains("as=PartialObjectMetadata");
                let how = if is_lean { " metadata" } else { "" };
                cluster.state().calls.push(format!("{method} {path}{how}"));
                let hangs = cluster.state().hangs;
                if hangs.is_some_and(|part| path.contains(part)) {
                    std::future::pending::<()>().await;
                }
                let body = request.into_body().collect_bytes().await?;
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                Ok::<_, kube::Error>(cluster.serve(method.as_str(), &path, &body))
            }
        });
        Client::new(service, "default")
    }

    fn serve(&self, method: &str, path: &str, body: &Value) -> http::Response<kube::client::Body> {
        let mut state = self.state();
        if let Some((part, code)) = state.broken
            && path.contains(part)
        {
            return failure(code, state.said);
        }
        match (method, path) {
            ("POST", REVIEWS) => {
                assert_eq!(body["spec"]["audiences"], json!([crate::kinds::PROGRESS_AUDIENCE]));
                let said = reviewed(body["spec"]["token"].as_str().unwrap_or_default());
                let mut review = body.clone();
                review["status"] = said;
                reply(201, &review)
            }
            ("GET", "/apis/batch/v1") => {
                let job = json!({"name": "jobs", "kind": "Job", "namespaced": true, "verbs": ["get"],
                    "singularName": "job"});
                let list = json!({"kind": "APIResourceList", "groupVersion": "batch/v1",
                    "resources": [job]});
                reply(200, &list)
            }
            ("GET", _) => match state.objects.get(path) {
                Some(object) => reply(200, object),
                None => status(404),
            },
            ("PATCH", _) => {
                state.patches.push(body.clone());
                let Some(object) = state.objects.get_mut(path) else { return status(404) };
                if body["metadata"]["uid"] != object["metadata"]["uid"] {
                    return status(409);
                }
                for (key, value) in body["metadata"]["annotations"].as_object().unwrap() {
                    object["metadata"]["annotations"][key] = value.clone();
                }
                reply(200, object)
            }
            _ => status(405),
        }
    }

    /// Adds an object with a UID and, if it has one, a controller: API version, kind, name, UID. Whoever may change it may
    /// write any time of Go into its `managedFields`.
    fn add(&self, path: String, uid: &str, owner: Option<[&str; 4]>, spec: &Value) {
        let name = path.rsplit('/').next().unwrap();
        let mut object = json!({"metadata": {"name": name, "namespace": "team", "uid": uid,
            "annotations": {}, "managedFields": [{"time": "9999-12-31T23:59:59Z"}]}, "spec": spec});
        if let Some([api_version, kind, name, uid]) = owner {
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": api_version,
                "kind": kind, "name": name, "uid": uid, "controller": true}]);
        }
        self.state().objects.insert(path, object);
    }

    /// The number of calls whose text has a part, since the last time.
    fn calls(&self, part: &str) -> usize {
        let calls = std::mem::take(&mut self.state().calls);
        calls.iter().filter(|call| call.contains(part)).count()
    }
}

fn pod_path(name: &str) -> String {
    format!("/api/v1/namespaces/team/pods/{name}")
}

const AW: &str = "workload.codeflare.dev/v1beta2";

/// AppWrapper `train` with Job `job` and its pod `p` (UID `u`); other pods that are not as they should be.
fn cluster() -> Cluster {
    let cluster = Cluster::default();
    let progress = json!({"progress": {"stallAfter": "10m"}});
    cluster.add(format!("{APPWRAPPERS}/train"), "aw", None, &progress);
    cluster.add(format!("{APPWRAPPERS}/plain"), "aw2", None, &json!({"progress": null}));
    cluster.add(format!("{JOBS}/job"), "j", Some([AW, "AppWrapper", "train", "aw"]), &json!({}));
    cluster.add(format!("{JOBS}/own"), "k", None, &json!({}));
    for (name, uid, owner) in [
        ("p", "u", Some(["batch/v1", "Job", "job", "j"])),
        ("direct", "d", Some([AW, "AppWrapper", "train", "aw"])),
        ("plain", "l", Some([AW, "AppWrapper", "plain", "aw2"])),
        ("stale", "s", Some([AW, "AppWrapper", "train", "another"])),
        ("forged", "f", Some(["batch/v1", "Job", "job", "another"])),
        ("stranger", "x", Some(["batch/v1", "Job", "own", "k"])),
        ("lookalike", "o", Some(["evil.example.com/v1", "AppWrapper", "train", "aw"])),
        ("orphan", "n", None),
    ] {
        cluster.add(pod_path(name), uid, owner, &json!({}));
    }
    cluster
}

fn desk(cluster: &Cluster) -> (Arc<ManualClock>, Desk) {
    let clock = Arc::new(ManualClock::at("2026-01-05T10:00:00Z".parse().unwrap()));
    (clock.clone(), Desk::new(cluster.client(), clock, Metrics::new()))
}

struct Answer {
    code: u16,
    text: String,
    retry_after: Option<u64>,
}

async fn post_to(desk: &Desk, path: &str, token: Option<&str>, body: impl Into<Body>) -> Answer {
    let mut request = Request::post(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = desk.router().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let retry_after = answer.headers().get("retry-after");
    let retry_after = retry_after.map(|value| value.to_str().unwrap().parse().unwrap());
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    let text: Value = serde_json::from_slice(&text).unwrap();
    let text = text["message"].as_str().unwrap_or_default().to_owned();
    Answer { code, text, retry_after }
}

fn report_of(step: i64) -> String {
    let metrics = json!([{"name": "current_step", "value": step.to_string()}]);
    json!({"trainerStatus": {"progressPercentage": 40, "metrics": metrics}}).to_string()
}

#[tokio::test]
async fn each_request_has_its_answer() {
    let cluster = cluster();
    let (_, desk) = desk(&cluster);
    let named = |name: &str| PATH.replace("/train/", &format!("/{name}/"));
    let elsewhere = PATH.replace("/team/", "/other/");
    let long = "x".repeat(9_000);
    let large = " ".repeat(70_000);
    let good = report_of(7);
    for (path, token, body, code, text) in [
        (PATH, Some("team/p/u"), good.as_str(), 200, ""),
        (PATH, Some("team/direct/d"), &good, 200, ""),
        (&named("job"), Some("team/p/u"), &good, 200, ""),
        (PATH, Some("team/p/u"), "{}", 200, ""),
        (PATH, None, &good, 401, "a bearer token is required"),
        (PATH, Some(""), &good, 401, "a bearer token is required"),
        (PATH, Some("nobody"), &good, 401, "the token must be valid"),
        (PATH, Some("elsewhere"), &good, 401, "with the audience workload.codeflare.dev/progress"),
        (PATH, Some("unaware"), &good, 401, "with the audience"),
        (PATH, Some(&long), &good, 401, "the token must be valid"),
        (PATH, Some("unbound"), &good, 403, "bound to a pod"),
        (PATH, Some("person"), &good, 403, "belong to a ServiceAccount"),
        (PATH, Some("twice"), &good, 403, "bound to a pod"),
        (PATH, Some("path"), &good, 403, "bound to a pod"),
        (&elsewhere, Some("team/p/u"), &good, 403, "the namespace of the pod, \"team\""),
        (PATH, Some("other/p/u"), &good, 403, "the namespace of the pod, \"other\""),
        (PATH, Some("team/p/another"), &good, 404, "token is bound, no longer exists"),
        (PATH, Some("team/none/u"), &good, 404, "no longer exists"),
        (PATH, Some("team/stale/s"), &good, 403, "pod stale does not belong to an AppWrapper"),
        (PATH, Some("team/forged/f"), &good, 403, "does not belong"),
        (PATH, Some("team/stranger/x"), &good, 403, "does not belong"),
        (PATH, Some("team/lookalike/o"), &good, 403, "does not belong"),
        (PATH, Some("team/orphan/n"), &good, 403, "does not belong"),
        (
            &named("plain"),
            Some("team/plain/l"),
            &good,
            404,
            "AppWrapper plain has no spec.progress",
        ),
        (&named("victim"), Some("team/p/u"), &good, 404, "the pod's AppWrapper, \"train\""),
        (PATH, Some("team/p/u"), &large, 413, "at most 65536 bytes"),
        (PATH, Some("team/p/u"), "{", 400, "the body must be JSON"),
        ("/elsewhere", Some("team/p/u"), &good, 404, "the path must be"),
    ] {
        let answer = post_to(&desk, path, token, body.to_owned()).await;
        assert_eq!(answer.code, code, "{path} {token:?}: {}", answer.text);
        assert!(answer.text.contains(text), "{path} {token:?}: {}", answer.text);
        let got = Request::get(path).body(Body::empty()).unwrap();
        let got = desk.router().oneshot(got).await.unwrap().status().as_u16();
        assert_eq!(got, if path == "/elsewhere" { 404 } else { 405 });
    }
    let page = desk.0.metrics.page();
    for line in
        ["{answer=\"accepted\"} 4", "{answer=\"unauthorized\"} 6", "{answer=\"malformed\"} 2"]
    {
        assert!(
            page.contains(&format!("appwrapper_progress_reports_total{line}")),
            "{line}: {page}"
        );
    }
}

#[tokio::test]
async fn an_api_server_that_fails_is_no_fault_of_the_pod() {
    for (part, code) in
        [("tokenreviews", 500), ("/pods/", 503), ("/jobs/", 500), ("/appwrappers/", 429)]
    {
        let cluster = cluster();
        let (clock, desk) = desk(&cluster);
        cluster.state().broken = Some((part, code));
        let answer = post_to(&desk, PATH, Some("team/p/u"), report_of(1)).await;
        assert_eq!((answer.code, answer.retry_after), (503, Some(5)), "{part}: {}", answer.text);
        cluster.state().broken = None;
        clock.advance(Duration::from_secs(5));
        let answer = post_to(&desk, PATH, Some("team/p/u"), report_of(1)).await;
        assert_eq!(answer.code, 200, "{part}: nothing wrong is remembered: {}", answer.text);
    }
    // what this controller may not read is of none of its AppWrappers
    let cluster = cluster();
    let (_, desk) = desk(&cluster);
    cluster.state().broken = Some(("/jobs/", 403));
    assert_eq!(post_to(&desk, PATH, Some("team/p/u"), report_of(1)).await.code, 403);
}

#[tokio::test]
async fn a_pod_costs_few_calls() {
    let cluster = cluster();
    let (clock, desk) = desk(&cluster);
    let report = async |token: &str, step| {
        assert_eq!(post_to(&desk, PATH, Some(token), report_of(step)).await.code, 200);
    };
    report("team/p/u", 1).await;
    assert_eq!(cluster.calls(""), 5, "token, pod, discovery, Job, AppWrapper");
    for step in 2..10 {
        clock.advance(Duration::from_secs(5));
        report("team/p/u", step).await;
    }
    assert_eq!(cluster.calls(""), 0);
    clock.advance(token::KEPT_FOR);
    report("team/p/u", 11).await;
    assert_eq!(cluster.calls(REVIEWS), 1, "asked anew");
    // two pods of one long chain
    for number in 0..8 {
        let above = format!("j{}", number + 1);
        let above = ["batch/v1", "Job", above.as_str(), above.as_str()];
        let name = format!("j{number}");
        cluster.add(format!("{JOBS}/{name}"), &name, Some(above), &json!({}));
    }
    cluster.add(format!("{JOBS}/j8"), "j8", Some([AW, "AppWrapper", "train", "aw"]), &json!({}));
    for pod in ["first", "second"] {
        cluster.add(pod_path(pod), pod, Some(["batch/v1", "Job", "j0", "j0"]), &json!({}));
    }
    report("team/first/first", 1).await;
    let calls = std::mem::take(&mut cluster.state().calls);
    let whole = calls.iter().filter(|call| !call.ends_with(" metadata"));
    assert_eq!(whole.collect::<Vec<_>>(), [&format!("POST {REVIEWS}")]);
    assert_eq!(calls.len(), 11, "token, pod, nine Jobs; the AppWrapper is known: {calls:?}");
    report("team/second/second", 1).await;
    assert_eq!(cluster.calls(""), 2, "token, pod");
}

#[tokio::test]
async fn an_appwrapper_is_read_once_whatever_versions_are_named() {
    let cluster = cluster();
    let (_, desk) = desk(&cluster);
    for number in 0..9 {
        let (name, version) = (format!("v{number}"), format!("workload.codeflare.dev/v{number}"));
        let owner = [version.as_str(), "AppWrapper", "train", "aw"];
        cluster.add(pod_path(&name), &name, Some(owner), &json!({}));
        let token = format!("team/{name}/{name}");
        assert_eq!(post_to(&desk, PATH, Some(&token), report_of(1)).await.code, 200, "{version}");
    }
    assert_eq!(cluster.calls(APPWRAPPERS), 1);
}

#[tokio::test(start_paused = true)]
async fn slow_namespaces_do_not_hold_all_looks_at_pods() {
    let cluster = cluster();
    let (_, desk) = desk(&cluster);
    cluster.state().hangs = Some("/namespaces/slow-");
    for (number, namespace) in (0..40).zip(["slow-a", "slow-b"].into_iter().cycle()) {
        let (desk, path) = (desk.clone(), PATH.replace("/team/", &format!("/{namespace}/")));
        let token = format!("{namespace}/p{number}/u{number}");
        tokio::spawn(async move { post_to(&desk, &path, Some(&token), report_of(1)).await.code });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let calls = std::mem::take(&mut cluster.state().calls);
    for slow in ["/namespaces/slow-a/pods/", "/namespaces/slow-b/pods/"] {
        assert!(calls.iter().filter(|call| call.contains(slow)).count() > 1, "{calls:?}");
    }
    let answer = post_to(&desk, PATH, Some("team/p/u"), report_of(1)).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
}

#[tokio::test]
async fn owners_that_cannot_be_read_fill_no_log() {
    let (lines, _guard) = crate::telemetry::count_lines();
    let cluster = cluster();
    let (clock, desk) = desk(&cluster);
    cluster.state().broken = Some(("/pods/", 500));
    let failed = async |namespace: &str, number: usize| {
        let path = PATH.replace("/team/", &format!("/{namespace}/"));
        let token = format!("{namespace}/p{number}/u{number}");
        assert_eq!(post_to(&desk, &path, Some(&token), report_of(1)).await.code, 503);
    };
    for number in 0..30 {
        failed("team", number).await;
    }
    let of_one = lines.load(Ordering::SeqCst);
    assert!((1..=10).contains(&of_one), "{of_one} lines");
    failed("other", 0).await;
    assert_eq!(lines.load(Ordering::SeqCst), of_one + 1, "another namespace has its own");
    clock.advance(Duration::from_secs(1));
    failed("team", 30).await;
    assert_eq!(lines.load(Ordering::SeqCst), of_one + 2, "a line a second");
}

#[tokio::test]
async fn tokens_that_cannot_be_reviewed_fill_no_log() {
    let (lines, _guard) = crate::telemetry::count_lines();
    let cluster = cluster();
    let (clock, desk) = desk(&cluster);
    cluster.state().broken = Some(("tokenreviews", 500));
    for (reports, second, most) in [(30, 0, 10), (5, 1, 11)] {
        clock.advance(Duration::from_secs(second));
        for _ in 0..reports {
            assert_eq!(post_to(&desk, PATH, Some("team/p/u"), report_of(1)).await.code, 503);
        }
        assert_eq!(lines.load(Ordering::SeqCst), most, "10 at once and one a second");
    }
}

#[tokio::test(start_paused = true)]
async fn reports_that_the_api_server_rejects_fill_no_log() {
    let (lines, _guard) = crate::telemetry::count_lines();
    let cluster = cluster();
    let (clock, desk) = desk(&cluster);
    let job = Some(["batch/v1", "Job", "job", "j"]);
    for number in 0..30 {
        let (name, uid) = (format!("p{number}"), format!("u{number}"));
        cluster.add(pod_path(&name), &uid, job, &json!({}));
        let token = format!("team/{name}/{uid}");
        assert_eq!(post_to(&desk, PATH, Some(&token), report_of(1)).await.code, 200);
    }
    cluster.state().broken = Some(("/pods/", 422));
    let writing = desk.clone();
    tokio::spawn(async move { writing.write().await });
    let all_have_failed = "appwrapper_progress_writes_total{result=\"failed\"} 30";
    until(&clock, || desk.0.metrics.page().contains(all_have_failed)).await;
    let count = lines.load(Ordering::SeqCst);
    assert!((1..=15).contains(&count), "{count} lines, at once and one a second");
}

#[tokio::test]
async fn who_sends_too_much_is_told_to_wait_and_others_are_not() {
    let cluster = cluster();
    let (clock, desk) = desk(&cluster);
    let mut codes = vec![];
    for step in 0..15 {
        codes.push(post_to(&desk, PATH, Some("team/p/u"), report_of(step)).await.code);
    }
    assert_eq!(codes.iter().filter(|code| **code == 200).count(), 10);
    let answer = post_to(&desk, PATH, Some("team/p/u"), report_of(1)).await;
    assert_eq!((answer.code, answer.retry_after), (429, Some(1)), "{}", answer.text);
    let other = post_to(&desk, PATH, Some("team/direct/d"), report_of(1)).await;
    assert_eq!(other.code, 200);
    clock.advance(Duration::from_secs(1));
    assert_eq!(post_to(&desk, PATH, Some("team/p/u"), report_of(1)).await.code, 200);
    // tokens that are worth nothing, from one address
    let mut codes = vec![];
    for number in 0..200 {
        codes.push(post_to(&desk, PATH, Some(&format!("guess-{number}")), "{}").await.code);
    }
    assert!(codes.iter().filter(|code| **code == 401).count() <= 100, "{codes:?}");
    assert_eq!(codes.last(), Some(&429));
    let known = post_to(&desk, PATH, Some("team/direct/d"), report_of(1)).await;
    assert_eq!(known.code, 200, "a token that is known needs no question");
    let page = desk.0.metrics.page();
    assert!(page.contains("appwrapper_progress_reports_total{answer=\"limited\"}"), "{page}");
    assert!(!page.contains("answer=\"overloaded\""), "no alert counts it: {page}");
}

/// The annotation of the pod.
fn annotation(cluster: &Cluster) -> Option<String> {
    let state = cluster.state();
    let text = &state.objects[&pod_path("p")]["metadata"]["annotations"][keys::PROGRESS];
    text.as_str().map(str::to_owned)
}

/// Lets time pass, in small steps, until something is so.
async fn until(clock: &ManualClock, mut is_so: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        clock.advance(Duration::from_millis(10));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it is never so");
}

#[tokio::test(start_paused = true)]
async fn reports_reach_the_annotation_and_what_repeats_is_not_written() {
    let cluster = cluster();
    let (clock, desk) = desk(&cluster);
    let writing = desk.clone();
    tokio::spawn(async move { writing.write().await });
    let report = async |step| {
        let answer = post_to(&desk, PATH, Some("team/p/u"), report_of(step)).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
    };
    let counts = |result: &str| {
        let page = desk.0.metrics.page();
        let name = format!("appwrapper_progress_writes_total{{result=\"{result}\"}} ");
        let found = page.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("0");
        found.parse::<u32>().unwrap()
    };
    report(1).await;
    until(&clock, || counts("written") == 1).await;
    let first = r#"{"at":"2026-01-05T10:00:00Z","percent":40,"step":1}"#;
    assert_eq!(annotation(&cluster).as_deref(), Some(first));
    assert_eq!(cluster.state().patches[0]["metadata"]["uid"], "u");
    report(1).await;
    until(&clock, || counts("unchanged") == 1).await;
    assert_eq!((annotation(&cluster).as_deref(), counts("written")), (Some(first), 1));
    // a failure is no loss
    cluster.state().broken = Some(("/pods/p", 500));
    report(2).await;
    until(&clock, || counts("failed") > 0).await;
    cluster.state().broken = None;
    until(&clock, || counts("written") == 2).await;
    assert!(annotation(&cluster).is_some_and(|text| text.contains("\"step\":2")));
    // a pod that took its name gets nothing
    report(3).await;
    cluster.add(pod_path("p"), "another", None, &json!({}));
    until(&clock, || counts("gone") == 1).await;
    assert_eq!((annotation(&cluster), counts("written")), (None, 2));
    // what may never succeed is given up
    cluster.add(pod_path("p"), "u", None, &json!({}));
    cluster.state().broken = Some(("/pods/p", 403));
    report(4).await;
    let failed = counts("failed");
    until(&clock, || counts("failed") > failed).await;
    cluster.state().broken = None;
    report(5).await;
    until(&clock, || counts("written") == 3).await;
    assert_eq!(counts("failed"), failed + 1);
}

/// Accepts a report of the pod.
fn put(desk: &Desk, clock: &dyn Clock, step: i64) {
    let pod = PodId { namespace: "team".to_owned(), name: "p".to_owned(), uid: "u".to_owned() };
    let values = Values { step: Some(step), ..Values::default() };
    desk.0.queue.put(pod, report(values, clock).unwrap()).unwrap();
}

/// An API server that has just started denies what it allows.
#[tokio::test(start_paused = true)]
async fn a_report_is_written_once_a_denial_of_the_authorizer_ends() {
    let cluster = cluster();
    let (clock, desk) = desk(&cluster);
    let writing = desk.clone();
    tokio::spawn(async move { writing.write().await });
    cluster.state().said = "pods \"p\" is forbidden: User \"c\" cannot patch resource";
    cluster.state().broken = Some(("/pods/p", 403));
    put(&desk, &*clock, 6);
    let failed = "appwrapper_progress_writes_total{result=\"failed\"}";
    until(&clock, || desk.0.metrics.page().contains(failed)).await;
    cluster.state().broken = None;
    until(&clock, || annotation(&cluster).is_some()).await;
    assert!(annotation(&cluster).is_some_and(|text| text.contains("\"step\":6")));
}

/// Writes the annotation of the pod.
fn annotate(cluster: &Cluster, at: &str, step: i64) {
    let text = format!(r#"{{"at":"{at}","step":{step}}}"#);
    let mut state = cluster.state();
    let pod = state.objects.get_mut(&pod_path("p")).unwrap();
    pod["metadata"]["annotations"] = json!({keys::PROGRESS: text});
}

/// A replica whose clock is wrong has written it, or a user in another time zone.
#[tokio::test(start_paused = true)]
async fn what_a_clock_that_is_ahead_has_written_keeps_its_time() {
    for (before, want, step) in [
        ("2026-01-05T10:10:00Z", "2026-01-05T10:10:00Z", 1),
        ("2026-01-05T10:00:30Z", "2026-01-05T10:00:30Z", 9),
        ("2026-01-06T09:59:00Z", "2026-01-06T09:59:00Z", 1),
        // no wrong time zone: it does not count
        ("2026-01-06T11:00:00Z", "2026-01-05T10:00:00Z", 1),
    ] {
        let cluster = cluster();
        let (clock, desk) = desk(&cluster);
        annotate(&cluster, before, 9);
        let writing = desk.clone();
        tokio::spawn(async move { writing.write().await });
        assert_eq!(post_to(&desk, PATH, Some("team/p/u"), report_of(1)).await.code, 200);
        let counted = "appwrapper_progress_writes_total{result=";
        until(&clock, || desk.0.metrics.page().contains(counted)).await;
        let report = crate::progress::parse(&annotation(&cluster).unwrap()).unwrap();
        assert_eq!((report.at(), report.step()), (want.parse().unwrap(), Some(step)), "{before}");
    }
}

/// Another replica has written it.
#[tokio::test(start_paused = true)]
async fn a_report_that_has_waited_replaces_no_newer_one() {
    let cluster = cluster();
    let (clock, desk) = desk(&cluster);
    let writing = desk.clone();
    tokio::spawn(async move { writing.write().await });
    cluster.state().broken = Some(("/pods/p", 500));
    put(&desk, &*clock, 1);
    let is_counted = |result: &str| {
        let counter = format!("appwrapper_progress_writes_total{{result=\"{result}\"}}");
        desk.0.metrics.page().contains(&counter)
    };
    until(&clock, || is_counted("failed")).await;
    clock.advance(Duration::from_mins(2));
    annotate(&cluster, "2026-01-05T10:02:00Z", 9);
    let newer = annotation(&cluster);
    cluster.state().broken = None;
    until(&clock, || is_counted("unchanged")).await;
    assert_eq!(annotation(&cluster), newer);
}

/// The pod's own delay: no alert counts it.
#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_malformed() {
    let cluster = cluster();
    let (_, desk) = desk(&cluster);
    let body = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let answer = post_to(&desk, PATH, Some("team/p/u"), Body::from_stream(body)).await;
    assert_eq!((answer.code, answer.text.as_str()), (400, "the body did not arrive"));
    assert!(desk.0.metrics.page().contains("{answer=\"malformed\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_written_when_the_server_stops() {
    let cluster = cluster();
    let (clock, desk) = desk(&cluster);
    let writing = desk.clone();
    tokio::spawn(async move { writing.write().await });
    let is_written =
        |step: &str| annotation(&cluster).is_some_and(|text| text.contains(&format!(":{step}}}")));
    for step in [1, 2] {
        assert_eq!(post_to(&desk, PATH, Some("team/p/u"), report_of(step)).await.code, 200);
        if step == 1 {
            until(&clock, || is_written("1")).await;
            clock.advance(Duration::from_secs(1));
        }
    }
    for number in 0..300 {
        let (name, uid) = (format!("p{number}"), format!("u{number}"));
        cluster.add(pod_path(&name), &uid, None, &json!({}));
        let values = Values { step: Some(2), ..Values::default() };
        let pod = PodId { namespace: "team".to_owned(), name, uid };
        desk.0.queue.put(pod, report(values, &*clock).unwrap()).unwrap();
    }
    let (flushed, began) = (desk.clone(), clock.elapsed());
    let flush = tokio::spawn(async move { flushed.flush().await });
    until(&clock, || flush.is_finished()).await;
    assert!(is_written("2"));
    assert_eq!(cluster.state().patches.len(), 302);
    let took = clock.elapsed().saturating_sub(began);
    assert!(took < Duration::from_secs(1), "a pod is written every 5 s, and one of all in 40 ms");
}

#[test]
fn pods_can_report_from_the_first_certificate_on_or_a_few_minutes_after_the_start() {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let serving =
        || Serving::At(Arc::new(ProgressEndpoint { url: String::new(), ca: String::new() }));
    let state = ProgressState::default();
    assert_eq!(state.since(at(5)), None, "disabled");
    state.set(Serving::Starting, at(10));
    for (now, want) in [(10, 10), (200, 200), (310, 310), (100_000, 310)] {
        assert_eq!(state.since(at(now)), Some(at(want)), "no certificate at {now}");
    }
    state.set(serving(), at(20));
    state.set(serving(), at(5_000));
    assert_eq!(state.since(at(6_000)), Some(at(20)), "renewed");
}
