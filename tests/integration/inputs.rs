//! Bad inputs and the answers to them, row by row: first by the pure functions of admission, then by
//! `kubectl create` against a real API server.
//!
//! A row says what is given and what is answered. Rows whose answer needs the webhook are left out
//! where there is none. Not here, since they are no input of `kubectl create`: 34 (growth over all
//! bounds saturates: `policies`), 49 (components keep the names that users gave them), 76 (a forged
//! status: `hostile::a_forged_status_harms_no_other_object`), 77 (what is no review). Row 78 is every
//! row: a dry run has the same answer and stores nothing.

use appwrapper::config::Config;
use appwrapper::webhook::validate::{self, Finding, Requester, Severity};
use controlplane::ControlPlane;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::{PLANE, runtime};
use crate::installed::{INSTALLED, kubectl};

mod rows;

use rows::rows;

/// What is given.
enum Given {
    /// An object to create.
    Object(Value),
    /// A manifest that is no JSON value, or not the one that it seems.
    Text(Vec<u8>),
    /// An object that is there, and a JSON patch of it.
    Change(Value, Value),
}

/// What is answered.
#[derive(Clone, Copy)]
enum Answer {
    /// Admission refuses it and names the field.
    Denied { field: &'static str, says: &'static str },
    /// Admission takes it with a warning.
    Warned { says: &'static str },
    /// It is taken, and nothing is said.
    Accepted,
    /// `kubectl` or the API server itself cannot take it.
    RefusedByServer { says: &'static str },
}

/// Who knows the answer, beside the API server itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judge {
    /// The pure functions.
    Pure,
    /// The webhook alone: it takes discovery or other objects.
    Cluster,
}

/// One case.
struct Row {
    number: &'static str,
    name: &'static str,
    given: Given,
    answer: Answer,
    judge: Judge,
    /// What the API server says by its schema and rules, before a webhook is asked.
    server: Option<&'static str>,
}

impl Row {
    /// Whether it takes the webhook to answer so.
    fn needs_webhook(&self) -> bool {
        match self.answer {
            Answer::Denied { .. } => self.server.is_none(),
            Answer::Warned { .. } => true,
            Answer::Accepted | Answer::RefusedByServer { .. } => false,
        }
    }

    /// What must stand in a refusal; nothing where it is accepted.
    fn refusal(&self, has_webhook: bool) -> Option<Vec<&'static str>> {
        match (self.server, self.answer) {
            (Some(says), _) | (None, Answer::RefusedByServer { says }) => Some(vec![says]),
            (None, Answer::Denied { field, says }) if has_webhook => Some(vec![field, says]),
            (None, Answer::Denied { .. } | Answer::Warned { .. } | Answer::Accepted) => None,
        }
    }
}

/// What the pure functions find.
fn found(given: &Given) -> Option<Vec<Finding>> {
    let config = Config::default();
    match given {
        Given::Object(object) if object["kind"] == "RetryPolicy" => {
            Some(validate::retry_policy(object, &config))
        }
        Given::Object(object) => Some(validate::create(object, &config)),
        Given::Change(old, change) => {
            let new = changed(old, change);
            Some(validate::update(old, &new, Requester::default(), &config))
        }
        Given::Text(_) => None,
    }
}

fn changed(old: &Value, change: &Value) -> Value {
    let change: json_patch::Patch = serde_json::from_value(change.clone()).expect("a JSON patch");
    let mut new = old.clone();
    json_patch::patch(&mut new, &change).expect("the patch fits");
    new
}

#[test]
fn every_bad_input_has_its_answer() {
    let mut wrong = vec![];
    for row in rows() {
        let Some(found) = found(&row.given).filter(|_| row.judge == Judge::Pure) else { continue };
        let errors: Vec<&Finding> =
            found.iter().filter(|each| each.severity == Severity::Error).collect();
        let right = match row.answer {
            Answer::Denied { field, says } => {
                errors.iter().any(|each| each.field == field && each.message.contains(says))
            }
            Answer::Warned { says } => {
                errors.is_empty() && found.iter().any(|each| each.message.contains(says))
            }
            Answer::Accepted => found.is_empty(),
            Answer::RefusedByServer { .. } => true,
        };
        if !right {
            wrong.push(format!("{} {}: {found:#?}", row.number, row.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_row_is_missing() {
    let elsewhere = [34, 49, 76, 77, 78];
    let numbers: Vec<u32> =
        rows().iter().map(|row| row.number.parse().expect("a number")).collect();
    let missing: Vec<u32> =
        (1..=78).filter(|row| !numbers.contains(row) && !elsewhere.contains(row)).collect();
    assert_eq!(missing, Vec::<u32>::new());
}

/// Where the rows are asked.
struct Plane {
    plane: &'static ControlPlane,
    has_webhook: bool,
}

impl Plane {
    /// Runs `kubectl` with a manifest; whether it went well, and what it said on standard error.
    fn run(&self, arguments: &[&str], manifest: &[u8]) -> (bool, String) {
        let mut all = vec!["--namespace", NAMESPACE];
        all.extend(arguments);
        match kubectl(self.plane.kubeconfig(), &all, manifest) {
            Ok(said) => (true, said),
            Err(said) => (false, said),
        }
    }

    /// What is said of a row, with a dry run or not.
    fn ask(&self, row: &Row, name: &str, dry_run: bool) -> (bool, String) {
        let dry_run = if dry_run { "--dry-run=server" } else { "--dry-run=none" };
        let create = ["create", "-f", "-", dry_run];
        match &row.given {
            Given::Object(object) => self.run(&create, &manifest(object, name)),
            Given::Text(text) => self.run(&create, text),
            Given::Change(_, change) => {
                let change = change.to_string();
                let patch = ["patch", "appwrapper", name, "--type=json", "-p", &change, dry_run];
                self.run(&patch, &[])
            }
        }
    }

    fn exists(&self, object: &Value, name: &str) -> bool {
        let kind = object["kind"].as_str().expect("it has a kind");
        self.run(&["get", kind, name], &[]).0
    }
}

const NAMESPACE: &str = "inputs";
/// The name of rows that are not about names.
const NAME: &str = "sample";

/// An object as a manifest, under a name of its own and in the namespace of the test.
fn manifest(object: &Value, name: &str) -> Vec<u8> {
    let mut object = object.clone();
    if object["metadata"]["name"] == NAME {
        object["metadata"]["name"] = name.into();
    }
    if object["metadata"]["namespace"] == "team" {
        object["metadata"]["namespace"] = NAMESPACE.into();
    }
    object.to_string().into_bytes()
}

#[test]
fn kubectl_has_the_same_answer() {
    ask_all(&Plane { plane: &INSTALLED.plane, has_webhook: true });
}

#[test]
fn without_the_webhook_the_api_server_refuses_what_it_can() {
    ask_all(&Plane { plane: &PLANE, has_webhook: false });
}

fn ask_all(plane: &Plane) {
    runtime().block_on(async {
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let namespace = serde_json::from_value(namespace).expect("a namespace");
        let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
            kube::Api::all(plane.plane.client());
        namespaces.create(&PostParams::default(), &namespace).await.expect("it is new");
    });
    let mut wrong = vec![];
    let asked = rows().into_iter().filter(|row| plane.has_webhook || !row.needs_webhook());
    for (index, row) in asked.enumerate() {
        let name = format!("row-{index}");
        if let Given::Change(old, _) = &row.given {
            let (created, said) = plane.run(&["create", "-f", "-"], &manifest(old, &name));
            assert!(created, "{} {}: {said}", row.number, row.name);
        }
        for dry_run in [true, false] {
            let (accepted, said) = plane.ask(&row, &name, dry_run);
            let right = match row.refusal(plane.has_webhook) {
                Some(all) => !accepted && all.iter().all(|says| said.contains(says)),
                None => accepted,
            };
            let warned = match row.answer {
                Answer::Warned { says } => said.contains(says),
                Answer::Denied { .. } | Answer::Accepted | Answer::RefusedByServer { .. } => true,
            };
            if !right || !warned {
                wrong.push(format!("{} {} (dry run: {dry_run}): {said}", row.number, row.name));
            }
            if let Given::Object(object) = &row.given
                && dry_run
            {
                assert!(!plane.exists(object, &name), "{} is stored by a dry run", row.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
