//! Sequences of operations.

use serde_json::{Value, json};

use super::changes::{apply, merge};
use super::kinds::{KINDS, Kind};
use super::random::Random;

/// A request. `$uid:…`, `$version:…` and `$stale:…` in its body stand for what the side that it is sent
/// to has answered.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub content_type: &'static str,
    pub body: Option<Value>,
}

/// One operation.
#[derive(Clone, Debug)]
pub enum Step {
    /// A request.
    Send(Request),
    /// A read, and a write of what was read with this change.
    Rewrite { path: String, subresource: &'static str, change: Value },
    /// A list, page by page; something may be written after the first.
    Pages { path: String, between: Option<Request> },
    /// A watch from a version that is not kept any more.
    Expired { path: String },
}

/// Makes the operations of one sequence: few objects, so that each meets many operations.
pub struct Generator {
    pub(super) random: Random,
    pub(super) namespace: String,
    pub(super) targets: Vec<(&'static Kind, String)>,
    generated: usize,
    /// A deletion may be in the foreground. Then all dependents block it: whether one that does not
    /// goes, too, depends on who of the collector's workers is first.
    pub(super) foreground: bool,
    /// Steps to begin with, the first last.
    family: Vec<Step>,
}

pub const JSON: &str = "application/json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
pub const TEAMS: [&str; 3] = ["a", "b", "c"];
const SELECTORS: &[&str] = &[
    "labelSelector=team%3Da",
    "labelSelector=team%3D%3Da,app",
    "labelSelector=team!%3Da,app",
    "labelSelector=team+in+(a,b)",
    "labelSelector=team%20notin%20(a,b),app%3Dconformance",
    "labelSelector=!team,app",
    "labelSelector=team",
    "labelSelector=team+in+(a",
    "labelSelector=a+b",
    "labelSelector=app&fieldSelector=status.phase%3DRunning",
    "labelSelector=app&fieldSelector=status.phase!%3DRunning",
    "labelSelector=app&fieldSelector=spec.nodeName%3Dconformance",
    "labelSelector=app&fieldSelector=metadata.name%3Dp0",
    "labelSelector=app&fieldSelector=metadata.name!%3Dc0",
    "labelSelector=app&fieldSelector=spec.unknown%3D1",
];

impl Generator {
    pub fn new(seed: u64, namespace: &str) -> Self {
        let mut random = Random::new(seed);
        let foreground = random.percent(60);
        let mut targets: Vec<(&'static Kind, String)> = vec![];
        let kinds = 1 + random.below(3);
        for _ in 0..kinds {
            let kind = &KINDS[random.below(KINDS.len())];
            let names = 1 + random.below(2);
            for _ in 0..names {
                let known = targets.iter().filter(|(each, _)| each.letter == kind.letter).count();
                targets.push((kind, format!("{}{known}", kind.letter)));
            }
        }
        let mut generator = Self {
            random,
            namespace: namespace.to_owned(),
            targets,
            generated: 0,
            foreground,
            family: vec![],
        };
        if generator.random.percent(30) {
            generator.family = generator.family();
        }
        generator
    }

    /// The kinds of this sequence, each once; pods are one.
    pub fn kinds(&self) -> Vec<&'static Kind> {
        let mut kinds: Vec<&'static Kind> = vec![];
        for (kind, _) in &self.targets {
            if !kinds.iter().any(|each| each.kind == kind.kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// The next operation.
    pub fn step(&mut self) -> Step {
        if let Some(step) = self.family.pop() {
            return step;
        }
        let at = self.random.below(self.targets.len());
        let (kind, name) = self.targets[at].clone();
        let path = format!("{}/{name}", kind.path(&self.namespace));
        match self.random.below(100) {
            0..18 => self.create(kind, &name, at),
            18..23 => send("GET", path, JSON, None),
            23..30 => self.list(kind, &name, at),
            30..44 => self.rewrite(kind, &name, path, at),
            44..60 => self.merge_patch(kind, &name, path, at),
            60..69 => self.json_patch(kind, &name, path),
            69..78 => self.write_status(kind, &name, path),
            78..96 => self.delete(kind, &name, path),
            _ => self.oddity(kind, path),
        }
    }

    fn create(&mut self, kind: &'static Kind, name: &str, at: usize) -> Step {
        let mut object = kind.fresh(name);
        self.decorate(&mut object, kind, at);
        let mut namespace = self.namespace.clone();
        match self.random.below(24) {
            0 => object["metadata"]["resourceVersion"] = "$version:".into(),
            1 => object["metadata"]["namespace"] = "elsewhere".into(),
            2 => object["metadata"]["namespace"] = namespace.clone().into(),
            3 => object["metadata"]["uid"] = "11111111-1111-4111-8111-111111111111".into(),
            4 => object["metadata"]["generation"] = 7.into(),
            5 => object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            6 => object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into(),
            7 => object["metadata"]["labels"]["team"] = Value::Null,
            8 => object["metadata"]["annotations"] = json!({}),
            9 => object["kind"] = "Secret".into(),
            10 => object["apiVersion"] = "v7".into(),
            11 => "nowhere".clone_into(&mut namespace),
            12 => {
                object["metadata"].as_object_mut().expect("an object").remove("name");
            }
            13..16 => {
                // names differ between the sides, their order must not
                self.generated += 1;
                let prefix = format!("g{}-", self.generated);
                let metadata = object["metadata"].as_object_mut().expect("an object");
                metadata.remove("name");
                metadata.insert("generateName".to_owned(), prefix.into());
            }
            16 => {
                object.as_object_mut().expect("an object").remove("kind");
            }
            17 => object["status"] = self.status(kind),
            _ => {}
        }
        send("POST", kind.path(&namespace), JSON, Some(object))
    }

    /// Adds labels, finalizers, owners and content to a new object.
    fn decorate(&mut self, object: &mut Value, kind: &'static Kind, at: usize) {
        if self.random.percent(60) {
            object["metadata"]["labels"]["team"] = self.random.of(&TEAMS).into();
        }
        if !kind.is_unbound() && self.random.percent(30) {
            object["metadata"]["finalizers"] = self.finalizers();
        }
        if self.random.percent(60) {
            object["metadata"]["ownerReferences"] = self.owners(at);
        }
        if self.random.percent(40) {
            let content = self.content(kind);
            if kind.kind == "AppWrapper" {
                merge(object, &content);
            } else {
                apply(object, &content);
            }
        }
    }

    fn rewrite(&mut self, kind: &'static Kind, name: &str, path: String, at: usize) -> Step {
        let mut change = self.change(kind, name, at);
        match self.random.below(8) {
            0 => merge(&mut change, &json!({"metadata": {"resourceVersion": null}})),
            1 => merge(&mut change, &json!({"metadata": {"uid": null}})),
            _ => {}
        }
        // a job is not accepted without what the server has put into it
        if kind.kind != "Job" && self.random.percent(8) {
            // not what was read, but a new object: on some kinds, it is then created
            let mut object = kind.fresh(name);
            let known = format!("$version:{}/{name}", kind.plural);
            if self.random.percent(30) {
                object["metadata"]["resourceVersion"] = known.into();
            }
            return send("PUT", path, JSON, Some(object));
        }
        Step::Rewrite { path, subresource: "", change }
    }

    fn merge_patch(&mut self, kind: &'static Kind, name: &str, path: String, at: usize) -> Step {
        let change = match self.random.below(40) {
            0 => json!([1]),
            1 => Value::Null,
            2 => json!({"kind": "Secret"}),
            _ => self.change(kind, name, at),
        };
        send("PATCH", path, MERGE_PATCH, Some(change))
    }

    fn json_patch(&mut self, kind: &'static Kind, name: &str, path: String) -> Step {
        let of = |what: &str| format!("${what}:{}/{name}", kind.plural);
        let team = self.random.of(&TEAMS);
        let operations = match self.random.below(18) {
            0..3 => json!([
                {"op": "test", "path": "/metadata/labels/team", "value": self.random.of(&TEAMS)},
                {"op": "replace", "path": "/metadata/labels/team", "value": team}]),
            3 => json!([{"op": "add", "path": "/metadata/annotations", "value": {"note": team}}]),
            4 => json!([{"op": "add", "path": "/metadata/labels/team", "value": team}]),
            5 if !kind.is_unbound() => {
                json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/hold"}])
            }
            6 => json!([{"op": "remove", "path": "/metadata/finalizers/0"}]),
            7 => json!([{"op": "remove", "path": "/metadata/finalizers"}]),
            8 => json!([{"op": "remove", "path": "/metadata/nothing"}]),
            9 => json!([
                {"op": "test", "path": "/metadata/uid", "value": of("uid")},
                {"op": "add", "path": "/metadata/labels/team", "value": team}]),
            10 => json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": of("version")},
                {"op": "add", "path": "/metadata/labels/team", "value": team}]),
            11 => json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": of("stale")},
                {"op": "add", "path": "/metadata/labels/team", "value": team}]),
            12 => json!([{"op": "test", "path": "/metadata/finalizers", "value": null},
                {"op": "add", "path": "/metadata/labels/team", "value": team}]),
            13 => json!([
                {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}]),
            14 => json!([
                {"op": "move", "from": "/metadata/labels/team", "path": "/metadata/labels/was"}]),
            15 => json!([{"op": "upset", "path": "/metadata/labels/team", "value": team}]),
            16 => json!([]),
            _ if kind.is_pod() => json!([
                {"op": "replace", "path": "/spec/containers/0/image", "value": format!("image-{team}")}]),
            _ => json!({"op": "add", "path": "/metadata/labels/team", "value": team}),
        };
        send("PATCH", path, JSON_PATCH, Some(operations))
    }

    fn write_status(&mut self, kind: &'static Kind, name: &str, path: String) -> Step {
        let mut change = json!({"status": self.status(kind)});
        if self.random.percent(20) {
            merge(&mut change, &json!({"metadata": {"labels": {"team": self.random.of(&TEAMS)}}}));
        }
        if self.random.percent(10) && !kind.is_unbound() {
            merge(&mut change, &json!({"metadata": {"finalizers": []}}));
        }
        if self.random.percent(15) {
            merge(&mut change, &self.content(kind));
        }
        self.guard(&mut change, kind, name);
        match self.random.below(10) {
            0..4 => {
                if self.random.percent(15) {
                    merge(&mut change, &json!({"metadata": {"resourceVersion": null}}));
                }
                Step::Rewrite { path, subresource: "/status", change }
            }
            4 => send("GET", format!("{path}/status"), JSON, None),
            5 => {
                let (field, value) = match kind.kind {
                    "Job" => ("active", json!(1)),
                    _ => ("phase", json!("Running")),
                };
                let path_of = format!("/status/{field}");
                let operations = json!([{"op": "add", "path": path_of, "value": value}]);
                send("PATCH", format!("{path}/status"), JSON_PATCH, Some(operations))
            }
            _ => send("PATCH", format!("{path}/status"), MERGE_PATCH, Some(change)),
        }
    }

    fn delete(&mut self, kind: &'static Kind, name: &str, path: String) -> Step {
        let policies: &[Option<&str>] = if kind.is_unbound() {
            &[None, Some("Background")]
        } else {
            &[
                None,
                Some("Background"),
                Some("Foreground"),
                Some("Foreground"),
                Some("Orphan"),
                Some("Nothing"),
            ]
        };
        let policy = if self.random.percent(60) { self.random.of(policies) } else { None };
        let policy = policy.filter(|policy| self.foreground || *policy != "Foreground");
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(policy) = policy {
            options["propagationPolicy"] = policy.into();
        }
        if self.random.percent(40) {
            options["gracePeriodSeconds"] = self.random.of(&[0, 0, 0, 1, 5, 60, -1]).into();
        }
        let of = |what: &str| format!("${what}:{}/{name}", kind.plural);
        match self.random.below(12) {
            0 => options["preconditions"] = json!({"uid": of("uid")}),
            1 => options["preconditions"] = json!({"resourceVersion": of("version")}),
            2 => options["preconditions"] = json!({"resourceVersion": of("stale")}),
            3 => {
                options["preconditions"] = json!({"uid": "44444444-4444-4444-8444-444444444444"});
            }
            4 => {
                options["preconditions"] =
                    json!({"uid": of("uid"), "resourceVersion": of("version")});
            }
            5 => return send("DELETE", path, JSON, None),
            6 => {
                let query = self.random.of(&[
                    "gracePeriodSeconds=0",
                    "gracePeriodSeconds=7",
                    "propagationPolicy=Background",
                ]);
                return send("DELETE", format!("{path}?{query}"), JSON, None);
            }
            _ => {}
        }
        send("DELETE", path, JSON, Some(options))
    }

    fn list(&mut self, kind: &'static Kind, name: &str, at: usize) -> Step {
        let path = kind.path(&self.namespace);
        let selector = self.random.of(SELECTORS);
        // a controller writes one more config map, and it counts as what is left after a page
        let alone = kind.kind != "ConfigMap";
        let bare = alone && self.random.percent(60);
        match self.random.below(8) {
            0..3 if alone => {
                let limit = 1 + self.random.below(3);
                let query = if bare { String::new() } else { format!("&{selector}") };
                let between = match self.create(kind, name, at) {
                    Step::Send(request) if self.random.percent(40) => Some(request),
                    _ => None,
                };
                Step::Pages { path: format!("{path}?limit={limit}{query}"), between }
            }
            3 if bare => send("GET", path, JSON, None),
            _ => send("GET", format!("{path}?{selector}"), JSON, None),
        }
    }

    fn oddity(&mut self, kind: &'static Kind, path: String) -> Step {
        let list = kind.path(&self.namespace);
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "namespace": self.namespace, "verb": "create", "group": "", "resource": "pods"}},
        });
        match self.random.below(14) {
            0 if kind.kind == "AppWrapper" => {
                Step::Expired { path: format!("{list}?watch=true&resourceVersion=1") }
            }
            1 => send(
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(),
                JSON,
                Some(review),
            ),
            2 => send("GET", "/apis/workload.codeflare.dev/v1beta2".to_owned(), JSON, None),
            3 => send("GET", "/apis/workload.codeflare.dev".to_owned(), JSON, None),
            4 => send("GET", "/apis/workload.codeflare.dev/v7".to_owned(), JSON, None),
            5 => send("GET", "/apis/nothing.example.com/v1".to_owned(), JSON, None),
            6 => send("GET", format!("{}/nothings", kind.root), JSON, None),
            7 => send("GET", format!("{path}/nothing"), JSON, None),
            8 if kind.kind != "AppWrapper" => send("POST", path, JSON, Some(json!({}))),
            9 => send("PUT", list, JSON, Some(json!({}))),
            10 => send("PATCH", path, "application/unknown", Some(json!({}))),
            11 => send("GET", format!("{list}?watch=true&resourceVersion=x"), JSON, None),
            12 => send("GET", format!("{list}?limit=1&continue=x"), JSON, None),
            _ => send("GET", kind.path("nowhere"), JSON, None),
        }
    }
}

pub fn send(
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Option<Value>,
) -> Step {
    Step::Send(Request { method, path, content_type, body })
}
