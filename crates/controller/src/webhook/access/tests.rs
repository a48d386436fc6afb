use std::sync::Mutex;

use http::{Request, Response};
use k8s_openapi::jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::clock::ManualClock;

/// An API server that serves a few kinds, and answers reviews as it is told.
#[derive(Default)]
struct Server {
    /// Path and body of every request.
    asked: Mutex<Vec<(String, Value)>>,
    /// `user verb resource` that are denied; the user is `-` where the controller asks for itself.
    denied: Mutex<Vec<&'static str>>,
    /// Requests to paths that end so are answered with this code; 0: never.
    broken: Mutex<Option<(&'static str, u16)>>,
    /// The kinds of `example.org/v1`, all of which are namespaced.
    custom: Mutex<Vec<String>>,
}

const ALL: [&str; 5] = ["create", "delete", "get", "list", "watch"];

impl Server {
    fn client(self: &Arc<Self>) -> Client {
        let server = self.clone();
        let service =
            tower::service_fn(move |request: Request<Body>| server.clone().serve(request));
        Client::new(service, "default")
    }

    async fn serve(self: Arc<Self>, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect_bytes().await?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let broken = *self.broken.lock().unwrap();
        let (code, answer) = match broken.filter(|(end, _)| path.ends_with(end)) {
            Some((_, 0)) => std::future::pending().await,
            Some((_, code)) => (code, status(code)),
            None => self.answer(&path, &body),
        };
        self.asked.lock().unwrap().push((path, body));
        let response = Response::builder().status(code);
        Ok(response.body(Body::from(answer.to_string().into_bytes())).unwrap())
    }

    fn answer(&self, path: &str, body: &Value) -> (u16, Value) {
        let resource = |name: &str, kind: &str, namespaced: bool, verbs: &[&str]| {
            json!({"name": name, "singularName": "", "kind": kind, "namespaced": namespaced,
                   "verbs": verbs})
        };
        let list = |group_version: &str, resources: Vec<Value>| {
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
                   "resources": resources})
        };
        let answer = match path {
            "/api/v1" => list(
                "v1",
                vec![
                    resource("pods", "Pod", true, &ALL),
                    resource("pods/exec", "PodExecOptions", true, &["create", "get"]),
                    resource("nodes", "Node", false, &ALL),
                    resource("bindings", "Binding", true, &["create"]),
                ],
            ),
            "/apis/batch/v1" => list("batch/v1", vec![resource("jobs", "Job", true, &ALL)]),
            "/apis/example.org/v1" => {
                let kinds = self.custom.lock().unwrap();
                let one = |kind: &String| resource(&kind.to_lowercase(), kind, true, &ALL);
                list("example.org/v1", kinds.iter().map(one).collect())
            }
            _ if path.ends_with("/selfsubjectreviews") => {
                json!({"metadata": {}, "status": {"userInfo": {"username": "us"}}})
            }
            _ if path.ends_with("accessreviews") => {
                let attributes = &body["spec"]["resourceAttributes"];
                let user = body["spec"]["user"].as_str().unwrap_or("-");
                let text = |field: &str| attributes[field].as_str().unwrap_or_default();
                let what = format!("{user} {} {}", text("verb"), text("resource"));
                let allowed = !self.denied.lock().unwrap().contains(&what.as_str());
                let mut answer = body.clone();
                answer["status"] = json!({"allowed": allowed});
                answer
            }
            _ => return (404, status(404)),
        };
        (200, answer)
    }

    /// How many requests went to a path that ends so; they are then forgotten.
    fn count(&self, end: &str) -> usize {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.iter().filter(|(path, _)| path.ends_with(end)).count()
    }
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
           "message": "no", "reason": "", "code": code})
}

struct Setup {
    server: Arc<Server>,
    clock: Arc<ManualClock>,
    reviews: Reviews,
}

impl Setup {
    fn new() -> Self {
        let server: Arc<Server> = Arc::default();
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let reviews = Reviews::new(server.client(), clock.clone());
        Self { server, clock, reviews }
    }

    async fn try_ask(
        &self,
        who: &Identity,
        kinds: &[(&str, &str)],
        check_user: bool,
    ) -> Result<Vec<String>, AccessError> {
        let wrapped: Vec<Wrapped<'_>> = kinds
            .iter()
            .enumerate()
            .map(|(i, (api_version, kind))| Wrapped {
                path: format!("spec.components[{i}].template"),
                api_version,
                kind,
                name: "x",
            })
            .collect();
        let findings = self.reviews.findings(who, "team", &wrapped, check_user).await?;
        Ok(findings.iter().map(ToString::to_string).collect())
    }

    async fn ask(&self, who: &Identity, kinds: &[(&str, &str)]) -> Vec<String> {
        self.try_ask(who, kinds, true).await.unwrap()
    }

    fn deny(&self, what: &[&'static str]) {
        *self.server.denied.lock().unwrap() = what.to_vec();
    }
}

fn user(name: &str) -> Identity {
    Identity { username: name.to_owned(), ..Identity::default() }
}

const JOB: (&str, &str) = ("batch/v1", "Job");
const POD: (&str, &str) = ("v1", "Pod");
const REVIEWS: &str = "/subjectaccessreviews";

#[tokio::test]
async fn who_has_every_right_may_wrap() {
    assert_eq!(Setup::new().ask(&user("alice"), &[JOB, POD]).await, [""; 0]);
}

#[tokio::test]
async fn what_is_lacking_is_said_at_each_template() {
    let setup = Setup::new();
    setup.deny(&["alice create jobs", "- watch jobs", "- delete pods"]);
    let want = [
        r#"spec.components[0].template.kind: Invalid value: "Job": user "alice" must be allowed to create jobs.batch in namespace team"#,
        r#"spec.components[0].template.kind: Invalid value: "Job": the controller must be allowed to watch jobs.batch in all namespaces"#,
        r#"spec.components[1].template.kind: Invalid value: "Pod": the controller must be allowed to delete pods in namespace team"#,
        r#"spec.components[2].template.kind: Invalid value: "Job": user "alice" must be allowed to create jobs.batch in namespace team"#,
        r#"spec.components[2].template.kind: Invalid value: "Job": the controller must be allowed to watch jobs.batch in all namespaces"#,
    ];
    assert_eq!(setup.ask(&user("alice"), &[JOB, POD, JOB]).await, want);
}

#[tokio::test]
async fn a_user_who_need_not_be_checked_is_not_asked_about() {
    let setup = Setup::new();
    setup.deny(&["alice create jobs", "- create jobs"]);
    let said = setup.try_ask(&user("alice"), &[JOB], false).await.unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("the controller must be allowed to create jobs.batch"), "{said:?}");
    assert_eq!(setup.server.count(REVIEWS), 0);
}

#[tokio::test]
async fn a_kind_that_never_can_be_wrapped_costs_no_review() {
    let setup = Setup::new();
    for (kind, want) in [
        (("v1", "Node"), "must be namespaced"),
        (("v1", "Binding"), "must be a kind that supports create, get, delete, list and watch"),
        (("v1", "PodExecOptions"), r#"no matches for kind "PodExecOptions" in version "v1""#),
        (("apps/v9", "Deployment"), r#"no matches for kind "Deployment" in version "apps/v9""#),
        (("v1/../../apis", "Pod"), r#"no matches for kind "Pod" in version "v1/../../apis""#),
    ] {
        let said = setup.ask(&user("alice"), &[kind]).await;
        assert!(said.len() == 1 && said[0].contains(want), "{said:?}");
    }
    assert_eq!(setup.server.count("reviews"), 0);
}

#[tokio::test]
async fn each_resource_is_asked_about_once_and_remembered_for_a_while() {
    let setup = Setup::new();
    let alice = user("alice");
    let again = async || setup.ask(&alice, &[JOB, POD, JOB, JOB]).await;
    again().await;
    assert_eq!(setup.server.asked.lock().unwrap().len(), 2 + 2 + 2 * 5, "kinds, user, controller");
    setup.server.count("");
    again().await;
    assert_eq!(setup.server.count(""), 0);
    setup.clock.advance(ALLOWED_FOR);
    again().await;
    assert_eq!(setup.server.asked.lock().unwrap().len(), 2, "the user's rights");
    assert_eq!(setup.server.count(REVIEWS), 2);
    setup.clock.advance(KIND_FOR);
    again().await;
    assert_eq!(setup.server.count(""), 14);
}

#[tokio::test]
async fn a_right_that_was_lacking_is_asked_for_again_soon() {
    let setup = Setup::new();
    setup.deny(&["alice create jobs"]);
    assert_eq!(setup.ask(&user("alice"), &[JOB]).await.len(), 1);
    setup.deny(&[]);
    assert_eq!(setup.ask(&user("bob"), &[JOB]).await.len(), 0);
    setup.clock.advance(DENIED_FOR);
    assert_eq!(setup.ask(&user("alice"), &[JOB]).await.len(), 0);
}

#[tokio::test]
async fn the_right_belongs_to_the_whole_identity() {
    let setup = Setup::new();
    let plain = user("alice");
    let mut others = vec![plain.clone(); 3];
    others[0].uid = "u".to_owned();
    others[1].groups = vec!["g".to_owned()];
    others[2].extra.insert("example.org/scope".to_owned(), vec!["read".to_owned()]);
    setup.ask(&plain, &[JOB]).await;
    setup.server.count("");
    for who in &others {
        setup.ask(who, &[JOB]).await;
        let asked = std::mem::take(&mut *setup.server.asked.lock().unwrap());
        let [(path, body)] = asked.as_slice() else { panic!("{asked:?}") };
        assert!(path.ends_with(REVIEWS));
        let spec = &body["spec"];
        assert_eq!(spec["user"], "alice");
        assert_eq!(spec["uid"].as_str().unwrap_or_default(), who.uid);
        assert_eq!(spec["groups"], json!(who.groups));
        assert_eq!(spec["extra"], json!(who.extra));
    }
}

#[tokio::test]
async fn many_users_push_out_nothing_of_the_controllers() {
    let setup = Setup::new();
    for i in 0..=ANSWERS_MAX {
        setup.ask(&user(&format!("u{i}")), &[POD]).await;
    }
    setup.server.count("");
    setup.ask(&user("u1"), &[POD]).await;
    assert_eq!(setup.server.count(""), 0, "the newest are remembered");
    setup.ask(&user("u0"), &[POD]).await;
    assert_eq!(setup.server.asked.lock().unwrap().len(), 1, "the oldest has made room");
    assert_eq!(setup.server.count(REVIEWS), 1);
}

#[tokio::test]
async fn an_endless_identity_is_judged_but_not_remembered() {
    let setup = Setup::new();
    let mut who = user("alice");
    who.groups = vec!["g".repeat(100); Identity::BYTES_MAX / 100 + 1];
    for _ in 0..2 {
        setup.ask(&who, &[POD]).await;
        assert_eq!(setup.server.count(REVIEWS), 1);
    }
}

#[tokio::test]
async fn a_kind_that_was_installed_a_moment_ago_is_found() {
    let setup = Setup::new();
    let kind = ("example.org/v1", "Late");
    assert_eq!(setup.ask(&user("alice"), &[kind]).await.len(), 1);
    setup.server.custom.lock().unwrap().push("Late".to_owned());
    assert_eq!(setup.ask(&user("alice"), &[kind]).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_is_an_error_and_not_remembered() {
    for (end, code, want) in [
        ("/apis/batch/v1", 500, "discover Job of batch/v1"),
        ("/apis/batch/v1", 0, "discover Job of batch/v1: no response within 2 s"),
        (REVIEWS, 403, "check whether the user can create jobs"),
        (REVIEWS, 0, "check whether the user can create jobs: no response within 2 s"),
        ("/selfsubjectaccessreviews", 429, "check whether the controller can create jobs"),
    ] {
        let setup = Setup::new();
        *setup.server.broken.lock().unwrap() = Some((end, code));
        let error = setup.try_ask(&user("alice"), &[JOB], true).await.unwrap_err();
        assert_eq!(error.message, want);
        assert_eq!(error.source.is_some(), code != 0, "{want}");
        *setup.server.broken.lock().unwrap() = None;
        assert_eq!(setup.ask(&user("alice"), &[JOB]).await, [""; 0], "{want}");
    }
}

#[tokio::test]
async fn the_server_knows_our_name() {
    let setup = Setup::new();
    assert_eq!(own_account(&setup.server.client()).await.unwrap(), "us");
    *setup.server.broken.lock().unwrap() = Some(("reviews", 500));
    let error = own_account(&setup.server.client()).await.unwrap_err();
    assert_eq!(error.message, "get the controller's own user name");
}
